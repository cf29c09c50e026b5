//! How blocks and times are shown to people: as slots and blocks if the input has no sizes in bytes, else as bytes, and
//! as seconds if rates are known.

use evenkeel::model::{Batch, Cluster, Fixed, Ratio, Speed};
use evenkeel_formats::Figure;

use crate::text::{self, counted, figure, short, size, span};

/// How the figures of a batch on a cluster are shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Units {
    time: Time,
    /// The bytes of a block; `None` if requests are counted in blocks.
    block_bytes: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Time {
    /// A block at speed 1 takes one slot, and all speeds are 1.
    Slots,
    Seconds,
    /// The time that a block takes at this speed.
    Blocks(&'static str),
}

/// The speed if all servers are alike and have one slot.
const ONE_SERVER: &str = "one server's speed";

impl Units {
    pub(crate) fn new(batch: &Batch, cluster: &Cluster) -> Self {
        let is_in_bytes =
            batch.block_bytes() > 1 || batch.sizes().is_some_and(|sizes| sizes.iter().any(|&size| size > 1));
        let is_plain = cluster.common_speed() == Some(Speed::ONE);
        let time = match (cluster.is_in_seconds(), is_plain, is_in_bytes) {
            (true, ..) => Time::Seconds,
            (_, true, false) => Time::Slots,
            (_, true, true) if cluster.servers().iter().all(|server| server.slots == 1) => {
                Time::Blocks(ONE_SERVER)
            }
            (_, true, true) => Time::Blocks("one slot's speed"),
            (_, false, _) => Time::Blocks("speed 1"),
        };
        let is_in_bytes = is_in_bytes || time == Time::Seconds;
        Self { time, block_bytes: is_in_bytes.then_some(batch.block_bytes()) }
    }

    /// A time in a sentence: `12 slots`, `1.5 s`, `2.42 GB at one server's speed`.
    pub(crate) fn time(&self, time: impl Into<Figure>) -> String {
        let time = time.into().0;
        match (self.time, self.block_bytes, time.whole()) {
            (Time::Slots, _, Some(slots)) => counted(slots, "slot"),
            (Time::Slots, ..) => format!("{} slots", figure(time)),
            (Time::Seconds, ..) => self.exact(time),
            (Time::Blocks(speed), Some(_), _) => format!("{} at {speed}", self.exact(time)),
            (Time::Blocks(speed), None, _) => format!("{} (in blocks at {speed})", figure(time)),
        }
    }

    /// The load of a server: blocks or bytes if it serves one block per slot, else a time.
    pub(crate) fn load(&self, cluster: &Cluster, load: impl Into<Figure>) -> String {
        let load = load.into();
        match (self.time, load.0.whole()) {
            (Time::Slots, Some(blocks)) if cluster.servers().iter().all(|s| s.slots == 1) => {
                self.blocks(blocks)
            }
            (Time::Blocks(ONE_SERVER), Some(blocks)) => self.blocks(blocks),
            _ => self.time(load),
        }
    }

    /// A time among others, if the speed has been stated before: `12`, `1.5 s`, `2.42 GB`.
    pub(crate) fn exact(&self, time: impl Into<Figure>) -> String {
        let time = time.into().0;
        self.with_unit(to_f64(time)).unwrap_or_else(|| figure(time))
    }

    /// The same with at most two decimals, for tables.
    pub(crate) fn short(&self, time: impl Into<Figure>) -> String {
        let time = time.into().0;
        self.with_unit(to_f64(time)).unwrap_or_else(|| short(time))
    }

    /// A mean of times.
    pub(crate) fn mean(&self, time: f64) -> String {
        self.with_unit(time).unwrap_or_else(|| text::mean(time))
    }

    fn with_unit(&self, time: f64) -> Option<String> {
        match (self.time, self.block_bytes) {
            (Time::Seconds, _) => Some(span(time)),
            (Time::Blocks(_), Some(block_bytes)) => Some(size(time * block_bytes as f64)),
            _ => None,
        }
    }

    /// A number of blocks, or their bytes.
    pub(crate) fn blocks(&self, blocks: u64) -> String {
        match self.block_bytes {
            Some(block_bytes) => size(blocks as f64 * block_bytes as f64),
            None => counted(blocks, "block"),
        }
    }

    /// The heading of a column of blocks: its unit.
    pub(crate) fn blocks_column(&self) -> &'static str {
        if self.block_bytes.is_some() { "bytes" } else { "blocks" }
    }

    /// A cell of that column: the number without its unit if that is the block.
    pub(crate) fn blocks_cell(&self, blocks: u64) -> String {
        if self.block_bytes.is_some() { self.blocks(blocks) } else { text::count(blocks) }
    }

    /// The amount of work done per unit of time.
    pub(crate) fn pace(&self, blocks: Ratio) -> String {
        let bytes = self.block_bytes.map(|block_bytes| size(blocks.to_f64() * block_bytes as f64));
        match (self.time, bytes) {
            (Time::Seconds, Some(bytes)) => format!("{bytes}/s"),
            (_, Some(bytes)) => format!("{bytes} while one transfer of speed 1 moves {}", self.blocks(1)),
            _ => format!("{} blocks in a unit of time", figure(blocks.rounded())),
        }
    }

    /// The time in seconds, if it is known.
    pub(crate) fn seconds<T>(&self, time: T) -> Option<T> {
        (self.time == Time::Seconds).then_some(time)
    }

    /// The bytes of a number of whole blocks.
    pub(crate) fn bytes(&self, blocks: u64) -> u128 {
        u128::from(blocks) * u128::from(self.block_bytes.unwrap_or(1))
    }
}

fn to_f64(time: Fixed) -> f64 {
    time.nanos() as f64 / 1e9
}
