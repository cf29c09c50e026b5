//! The client-side server statistic log of paper 004 §3.3: the expected load of each server, and the probability with
//! which it should be chosen next.
//!
//! Formula (1) adds what is scheduled to a server's load. Formulas (2) and (3) take from the probability p of the
//! chosen server the part p(1 − e^−l) and give it to all others in equal shares. Deviations:
//!
//! * Nothing ever lowers a load in the paper. Here [`ServerLog::complete`] does, and a window may forget a part.
//! * (2) is applied to the chosen server alone: applied to all, as the text says, probabilities would not add up to 1.
//! * Loads in (2) are divided by a [`Unit`]: in bytes, e^−l is 0 for anything longer than 745 bytes.
//! * Servers may [weigh](ServerLog::weigh) differently: what is left to do at a server that takes three times as long as
//!   others counts three times. So a log of few writes also sees that a server is slow, whoever makes it so.
//! * Contrary to the paper's assumption, probabilities do not fall with loads: a server that was chosen often and
//!   lightly can rank behind one that has more to do. So servers are sorted by load ([`SortKey`]) and drawn at
//!   random by [`ServerLog::softmax`].

use super::exp::exp;
use super::{BadReport, known};
use crate::draw::Draw;
use crate::model::{BadSnapshot, MemberId, SNAPSHOT_VERSION};

/// The unit in which loads are measured before they become exponents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// The mean load of all servers, at least one byte.
    #[default]
    Mean,
    /// This many bytes, at least one.
    Bytes(u64),
}

/// Which servers come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortKey {
    /// Those with the least load, then the lowest id.
    #[default]
    Load,
    /// Those with the highest probability, as in paper 004, then the lowest id.
    Probability,
}

/// The percentage of every load that is forgotten at the end of a window; more than 100 counts as 100.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forget {
    /// The percentage to forget.
    pub percent: u8,
}

/// The weight of a server that takes as long as is usual.
const USUAL_PERMILLE: u32 = 1000;

/// Formula (2): what is left of a probability at that load.
pub fn lowered(probability: f64, load: f64) -> f64 {
    probability * exp(-load)
}

/// A log as plain data.
#[derive(Clone, Debug, PartialEq)]
pub struct LogSnapshot {
    /// The version of this layout.
    pub version: u32,
    /// The load of each server in bytes.
    pub loads: Vec<u128>,
    /// The probability with which each server should be chosen.
    pub probabilities: Vec<f64>,
}

/// The loads and probabilities of all servers.
#[derive(Clone, Debug)]
pub struct ServerLog {
    loads: Vec<u128>,
    total: u128,
    /// Probabilities minus `shared`, so that (3) changes two numbers instead of all.
    own: Vec<f64>,
    shared: f64,
    unit: Unit,
    forget: Forget,
    /// How long each server takes, in thousandths of what is usual. Empty if all are alike.
    weights: Vec<u32>,
    /// The length of a usual write.
    usual_bytes: u64,
}

impl ServerLog {
    /// Creates a log for servers with these backlogs in bytes to write, all with the same probability.
    pub fn new(loads: impl IntoIterator<Item = u64>, unit: Unit, forget: Forget) -> Self {
        let loads: Vec<u128> = loads.into_iter().map(u128::from).collect();
        let own = vec![1.0 / loads.len().max(1) as f64; loads.len()];
        let total = loads.iter().sum();
        Self { total, loads, own, shared: 0.0, unit, forget, weights: Vec::new(), usual_bytes: 0 }
    }

    /// What is known, to be saved.
    pub fn snapshot(&self) -> LogSnapshot {
        let (loads, probabilities) = (self.loads.clone(), self.probabilities());
        LogSnapshot { version: SNAPSHOT_VERSION, loads, probabilities }
    }

    /// Restores a saved log.
    pub fn restore(snapshot: LogSnapshot, unit: Unit, forget: Forget) -> Result<Self, BadSnapshot> {
        let LogSnapshot { version, loads, probabilities } = snapshot;
        BadSnapshot::unless_version(version)?;
        BadSnapshot::unless(loads.len() == probabilities.len(), "more loads than probabilities, or fewer")?;
        let are_shares = probabilities.iter().all(|p| (0.0..=1.0).contains(p));
        let sum: f64 = probabilities.iter().sum();
        let is_whole = loads.is_empty() || (sum - 1.0).abs() < 1e-3;
        BadSnapshot::unless(are_shares && is_whole, "probabilities that do not add up to 1")?;
        let total = loads.iter().fold(0, |sum: u128, load| sum.saturating_add(*load));
        let (own, weights) = (normalised(probabilities), Vec::new());
        Ok(Self { loads, total, own, shared: 0.0, unit, forget, weights, usual_bytes: 0 })
    }

    /// Restores a saved log with the unit and the forgetting of this one.
    pub(crate) fn restored(&self, snapshot: LogSnapshot) -> Result<Self, BadSnapshot> {
        Self::restore(snapshot, self.unit, self.forget)
    }

    /// Adds a server with a backlog of `load` bytes to write. Its probability is the average of the others.
    pub fn add(&mut self, load: u64) {
        let n = self.loads.len() as f64;
        self.loads.push(load.into());
        self.total = self.total.saturating_add(load.into());
        let mut probabilities = self.probabilities();
        probabilities.iter_mut().for_each(|p| *p *= n / (n + 1.0));
        probabilities.push(1.0 / (n + 1.0));
        (self.own, self.shared) = (normalised(probabilities), 0.0);
        if !self.weights.is_empty() {
            self.weights.push(USUAL_PERMILLE);
        }
    }

    /// Weighs servers by how long each takes, in thousandths of what is usual; servers that are not named take 1000.
    /// From now on [`load`](Self::load) is what a write of `usual_bytes` would have to wait for, itself included: a slow
    /// server is heavier than others even if it has nothing to do.
    pub fn weigh(&mut self, permille: impl IntoIterator<Item = u32>, usual_bytes: u64) {
        self.weights.clear();
        self.weights.extend(permille.into_iter().map(|weight| weight.max(1)).take(self.loads.len()));
        self.weights.resize(self.loads.len(), USUAL_PERMILLE);
        self.usual_bytes = usual_bytes;
    }

    /// Records that a server has said what its load is.
    pub fn told(&mut self, server: MemberId, load: u64) -> Result<(), BadReport> {
        let known = &mut self.loads[known(server, self.own.len())?];
        self.total = self.total.saturating_sub(*known).saturating_add(load.into());
        *known = load.into();
        Ok(())
    }

    /// All loads in bytes, by server, unweighed.
    pub fn loads(&self) -> &[u128] {
        &self.loads
    }

    /// The load of a server, which must be in the log: its bytes, if servers are not [weighed](Self::weigh).
    #[inline]
    pub fn load(&self, server: MemberId) -> u128 {
        let bytes = self.loads[server.index()];
        let Some(&weight) = self.weights.get(server.index()) else { return bytes };
        let all = bytes.saturating_add(self.usual_bytes.into());
        all.saturating_mul(weight.into()) / u128::from(USUAL_PERMILLE)
    }

    /// Records that `bytes` go to a server: formulas (1) to (3).
    pub fn schedule(&mut self, server: MemberId, bytes: u128) -> Result<(), BadReport> {
        let chosen = known(server, self.loads.len())?;
        self.loads[chosen] = self.loads[chosen].saturating_add(bytes);
        self.total = self.total.saturating_add(bytes);
        let n_others = self.loads.len() - 1;
        if n_others > 0 {
            let p = self.probability(server);
            let moved = p - lowered(p, self.loads[chosen] as f64 / self.unit_bytes());
            let share = moved / n_others as f64;
            self.shared += share;
            self.own[chosen] -= moved + share;
        }
        Ok(())
    }

    /// Records that `bytes` at a server are done; if there were fewer, none are left.
    pub fn complete(&mut self, server: MemberId, bytes: u128) -> Result<(), BadReport> {
        let load = &mut self.loads[known(server, self.own.len())?];
        let done = bytes.min(*load);
        *load -= done;
        self.total = self.total.saturating_sub(done);
        Ok(())
    }

    /// Ends a window: forgets a part of the loads, and corrects rounding errors in the probabilities.
    pub fn end_window(&mut self) {
        let percent = u128::from(self.forget.percent.min(100));
        if percent > 0 {
            // In two parts, so that nothing overflows.
            let forgotten = |load: u128| load / 100 * percent + load % 100 * percent / 100;
            self.loads.iter_mut().for_each(|load| *load -= forgotten(*load));
            self.total = self.loads.iter().fold(0, |sum, load| sum.saturating_add(*load));
        }
        self.own = normalised(self.probabilities());
        self.shared = 0.0;
    }

    /// The probability with which a server should be chosen, by the paper's formulas. The server must be in the log.
    #[inline]
    pub fn probability(&self, server: MemberId) -> f64 {
        (self.own[server.index()] + self.shared).max(0.0)
    }

    /// The probabilities of all servers.
    pub fn probabilities(&self) -> Vec<f64> {
        self.own.iter().map(|own| (own + self.shared).max(0.0)).collect()
    }

    /// Probabilities that fall with loads: each is ∝ e^−(load − least load).
    pub fn softmax(&self) -> Vec<f64> {
        let least = self.loads.iter().copied().min().unwrap_or(0);
        let unit = self.unit_bytes();
        normalised(self.loads.iter().map(|load| lowered(1.0, (load - least) as f64 / unit)).collect())
    }

    /// Draws a server by [`Self::softmax`]; `None` if there is none.
    pub fn draw(&self, draw: &mut dyn Draw) -> Option<MemberId> {
        let mut left = draw.unit();
        let weights = self.softmax();
        let found = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        // Rounding may leave a little; the last server gets it.
        found.or(weights.len().checked_sub(1)).map(|server| MemberId(server as u32))
    }

    /// Sorts servers, all of which must be in the log.
    pub fn sort(&self, servers: &mut [MemberId], by: SortKey) {
        // A stable sort, which is quick where little has changed.
        match by {
            SortKey::Load => servers.sort_by_key(|&server| (self.load(server), server)),
            SortKey::Probability => servers.sort_by(|&a, &b| {
                let falling = self.probability(b).total_cmp(&self.probability(a));
                falling.then_with(|| a.cmp(&b))
            }),
        }
    }

    fn unit_bytes(&self) -> f64 {
        match self.unit {
            Unit::Mean => (self.total as f64 / self.loads.len().max(1) as f64).max(1.0),
            Unit::Bytes(bytes) => bytes.max(1) as f64,
        }
    }
}

/// The weights divided by their sum.
fn normalised(mut weights: Vec<f64>) -> Vec<f64> {
    let sum: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|weight| *weight /= sum);
    weights
}
