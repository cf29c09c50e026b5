//! When leaders are worth changing again, and how fast servers are judged to be.
//!
//! A state machine: what was measured and what a plan would gain go in, decisions come out; time is passed in. Three
//! things keep it from changing its mind. What counts of a server is the best of its last measurements: a busy one has
//! little to spare for them at times, and only a slow one never has. A server is slow once that is less than a quarter of
//! what is usual, and stays so until it is three fifths: one that leads nothing is not busy and looks faster than it
//! would be. And a plan must be worth it twice in a row.

use std::collections::{BTreeMap, VecDeque};

/// A server that sends at most this share of what is usual is slow.
const SLOW: f64 = 0.25;
/// It is as usual again if it sends at least this share.
const USUAL: f64 = 0.6;
/// How many measurements of a server count.
const RECENT: usize = 2;
/// Fewer servers than this do not tell what is usual.
const LEAST_MEASURED: usize = 3;
/// A slow server counts as this much slower than it is: measuring takes part of what it can send, and whoever waits for it
/// reads nothing elsewhere.
const MARGIN: f64 = 0.5;
/// No server counts as slower than this.
const LEAST_FACTOR: f64 = 0.01;
/// How often in a row a plan must be worth it.
const TIMES_IN_A_ROW: u32 = 2;
const HOUR_NS: u64 = 3_600_000_000_000;

/// What changes are worth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// How much better a plan must be than today, such as 1.1. Once begun, a quarter of that is enough.
    pub worth: f64,
    /// The most changes in any hour.
    pub changes_per_hour: u64,
}

/// Watches who leads.
#[derive(Clone, Debug)]
pub struct Watch {
    settings: Settings,
    /// What each server sent lately.
    recent: BTreeMap<String, VecDeque<f64>>,
    /// How slow each server that is slow is, compared with what is usual.
    slow: BTreeMap<String, f64>,
    /// When changes were made, and how many.
    made: VecDeque<(u64, u64)>,
    n_in_a_row: u32,
    has_begun: bool,
}

/// What to do after a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing: a plan would not gain enough.
    Rest,
    /// Nothing yet: a plan would gain something, which is to be seen once more.
    Wait,
    /// Nothing: all changes of this hour were made.
    Spent,
    /// Make at most so many changes.
    Change(u64),
}

impl Watch {
    /// Nothing is known yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            recent: BTreeMap::new(),
            slow: BTreeMap::new(),
            made: VecDeque::new(),
            n_in_a_row: 0,
            has_begun: false,
        }
    }

    /// Takes note of what servers sent, in bytes a second for each unit of their speed; `None` if nothing was measured.
    pub fn measured<'a>(&mut self, rates: impl Iterator<Item = (&'a str, Option<f64>)>) {
        let mut best = Vec::new();
        for (server, rate) in rates {
            let Some(rate) = rate else {
                self.recent.remove(server);
                continue;
            };
            let recent = self.recent.entry(server.to_owned()).or_default();
            recent.truncate(RECENT - 1);
            recent.push_front(rate);
            best.push((server, recent.iter().copied().fold(0.0, f64::max), recent.len() == RECENT));
        }
        if best.len() < LEAST_MEASURED {
            return;
        }
        let mut known: Vec<f64> = best.iter().map(|(_, rate, _)| *rate).collect();
        known.sort_by(f64::total_cmp);
        let usual = known[known.len() / 2];
        for (server, rate, is_sure) in best {
            let factor = rate / usual;
            if !factor.is_finite() {
                continue;
            }
            if factor <= SLOW && is_sure {
                if !self.slow.contains_key(server) {
                    // It was seen twice already.
                    self.n_in_a_row = TIMES_IN_A_ROW;
                }
                let factor = (factor * MARGIN).max(LEAST_FACTOR);
                let slow = self.slow.entry(server.to_owned()).or_insert(factor);
                *slow = slow.min(factor);
            } else if factor >= USUAL {
                self.slow.remove(server);
            }
        }
    }

    /// How fast a server is, compared with its usual speed: 1, or less if it is slow.
    pub fn factor(&self, server: &str) -> f64 {
        self.slow.get(server).copied().unwrap_or(1.0)
    }

    /// Decides whether a plan is carried out that would make the busiest server so many times less busy.
    pub fn decide(&mut self, now_ns: u64, gain: f64, n_changes: u64) -> Decision {
        let worth =
            if self.has_begun { 1.0 + (self.settings.worth - 1.0) / 4.0 } else { self.settings.worth };
        if n_changes == 0 || gain < worth {
            (self.n_in_a_row, self.has_begun) = (0, false);
            return Decision::Rest;
        }
        self.n_in_a_row = self.n_in_a_row.saturating_add(1);
        if !self.has_begun && self.n_in_a_row < TIMES_IN_A_ROW {
            return Decision::Wait;
        }
        self.has_begun = true;
        while self.made.front().is_some_and(|(at_ns, _)| now_ns.saturating_sub(*at_ns) >= HOUR_NS) {
            self.made.pop_front();
        }
        let n_made: u64 = self.made.iter().map(|(_, n)| n).sum();
        match self.settings.changes_per_hour.saturating_sub(n_made) {
            0 => Decision::Spent,
            n_left => Decision::Change(n_changes.min(n_left)),
        }
    }

    /// Takes note of changes that were made, or may have been.
    pub fn made(&mut self, now_ns: u64, n_changes: u64) {
        self.made.push_back((now_ns, n_changes));
    }
}
