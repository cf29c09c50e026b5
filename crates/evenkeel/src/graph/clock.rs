//! Time as whole ticks, fine enough that every block of every server takes a whole number of them.
//!
//! Where all speeds are 1, a tick is a block, and nothing is divided further. Otherwise it is the common measure of all
//! speeds, divided by slots so that these can share the load. Where that is too fine for the numbers at hand, ticks are
//! as fine as those allow, and code that counts in ticks must round to the safe side.

use super::flow::pace::{Level, time};
use crate::model::{Cluster, Fixed, Ratio, ServerId, gcd};

/// Ticks, and how many of them blocks take.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    /// Ticks per unit of level, that is, per 10⁶ units of time.
    per_unit: u64,
    /// The speed of each server, in millionths.
    speeds: Vec<u64>,
    /// The ticks per block of each server, if that is whole for all.
    per_block: Option<Vec<u64>>,
    /// Whether slots can share blocks in whole ticks too.
    is_exact: bool,
    /// Billionths of time in a tick, as a fraction.
    nanos: (u64, u64),
}

impl Clock {
    /// A clock for the speeds of a cluster, with at most `most` ticks per unit of level.
    pub(crate) fn new(cluster: &Cluster, most: u64) -> Self {
        let speeds: Vec<u64> = cluster.servers().iter().map(|s| s.speed.millionths()).collect();
        let most = most.max(1);
        // With one speed a tick may always be as long as a block, however many blocks there are.
        let measure = match cluster.common_speed() {
            Some(speed) => Some(speed.millionths()),
            None => common_multiple(speeds.iter().copied(), most),
        };
        let exact = measure.and_then(|ticks| {
            let finer = ticks.checked_mul(common_slots(cluster, most)?)?;
            (finer == ticks || finer <= most).then_some(finer)
        });
        let per_unit = exact.or(measure.map(|ticks| ticks * (most / ticks).max(1))).unwrap_or(most);
        let per_block = measure.map(|_| speeds.iter().map(|speed| per_unit / speed).collect());
        let unit = 1_000_000_000_000_000;
        let divisor = gcd(unit.into(), per_unit.into()) as u64;
        let nanos = (unit / divisor, per_unit / divisor);
        Self { per_unit, speeds, per_block, is_exact: exact.is_some(), nanos }
    }

    /// Whether all blocks, and the shares of slots, take whole ticks.
    pub(crate) fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// The ticks of this many blocks of a server, rounded down. They must fit in 64 bits.
    #[inline]
    pub(crate) fn at_least(&self, blocks: u64, server: ServerId) -> u64 {
        if let Some(ticks) = &self.per_block {
            return blocks * ticks[server.index()];
        }
        let ticks = u128::from(blocks) * u128::from(self.per_unit);
        (ticks / u128::from(self.speeds[server.index()])) as u64
    }

    /// The ticks of this many blocks of a server, rounded up. They must fit in 64 bits.
    #[inline]
    pub(crate) fn at_most(&self, blocks: u64, server: ServerId) -> u64 {
        if let Some(ticks) = &self.per_block {
            return blocks * ticks[server.index()];
        }
        let ticks = u128::from(blocks) * u128::from(self.per_unit);
        ticks.div_ceil(u128::from(self.speeds[server.index()])) as u64
    }

    /// The level at this many ticks.
    pub(crate) fn level(&self, ticks: u128) -> Level {
        Level::new(ticks, self.per_unit)
    }

    /// The time of this many ticks.
    pub(crate) fn time(&self, ticks: u64) -> Ratio {
        time(self.level(ticks.into()))
    }

    /// The time of this many ticks, rounded to nine decimals.
    #[inline]
    pub(crate) fn rounded(&self, ticks: u64) -> Fixed {
        if self.per_unit == 1_000_000 {
            return ticks.into();
        }
        let (numerator, denominator) = self.nanos;
        // Mostly small, and then much faster.
        if let Some(nanos) = ticks.checked_mul(numerator).and_then(|n| n.checked_add(denominator / 2)) {
            return Fixed::from_nanos((nanos / denominator).into()).unwrap_or(u64::MAX.into());
        }
        let nanos = u128::from(ticks) * u128::from(numerator) + u128::from(denominator / 2);
        Fixed::from_nanos(nanos / u128::from(denominator)).unwrap_or(u64::MAX.into())
    }
}

/// The common multiple of the slots of every server and client and of the limit on all of them; 1 where slots take
/// whole blocks.
fn common_slots(cluster: &Cluster, most: u64) -> Option<u64> {
    if cluster.is_slotted() {
        return Some(1);
    }
    let servers = cluster.servers().iter().map(|server| server.slots.into());
    let clients = cluster.clients().iter().map(|client| client.slots.into());
    common_multiple(servers.chain(clients).chain(cluster.max_concurrent()), most)
}

/// The least common multiple, if it is at most `most`.
fn common_multiple(numbers: impl Iterator<Item = u64>, most: u64) -> Option<u64> {
    let mut numbers: Vec<u64> = numbers.collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.into_iter().try_fold(1_u64, |common, number| {
        let step = u128::from(number) / gcd(common.into(), number.into());
        u64::try_from(u128::from(common) * step).ok().filter(|&common| common <= most)
    })
}
