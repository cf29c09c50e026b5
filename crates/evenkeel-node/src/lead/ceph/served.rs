//! What OSDs serve to others, by the counters of the groups that they lead.
//!
//! A busy OSD has little to spare for a measurement. What it serves meanwhile is added, so that it does not seem slow.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::super::Look;
use super::answers::Pg;

/// OSDs report every five seconds: over a shorter time some have reported twice and others not at all.
const LEAST: Duration = Duration::from_secs(6);

/// The latest counters of groups, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Served {
    counts_kb: VecDeque<(Instant, HashMap<String, u64>)>,
}

impl Served {
    /// Takes note of the counters. The latest that are old enough, and all that came since, are kept.
    pub(super) fn count(&mut self, groups: &[Pg]) {
        let now = Instant::now();
        let read_kb = |group: &Pg| Some((group.pgid.clone(), group.stat_sum?.num_read_kb));
        self.counts_kb.push_back((now, groups.iter().filter_map(read_kb).collect()));
        while self.counts_kb.get(1).is_some_and(|(at, _)| now - *at >= LEAST) {
            self.counts_kb.pop_front();
        }
    }

    /// The bytes that each server of a look serves in a second, by what it leads.
    pub(super) fn rates(&self, look: &Look) -> Vec<u64> {
        let mut rates = vec![0.0; look.servers.len()];
        let (Some((from, before)), Some((to, after))) = (self.counts_kb.front(), self.counts_kb.back())
        else {
            return vec![0; rates.len()];
        };
        let seconds = (*to - *from).as_secs_f64();
        for group in &look.groups {
            let read_kb = after.get(&group.name).zip(before.get(&group.name));
            // A new primary counts from where it was.
            let read_kb = read_kb.and_then(|(after, before)| after.checked_sub(*before));
            if let (Some(leader), Some(read_kb)) = (group.leader, read_kb) {
                rates[leader as usize] += read_kb as f64 * 1024.0;
            }
        }
        rates.into_iter().map(|bytes| if seconds > 0.0 { (bytes / seconds) as u64 } else { 0 }).collect()
    }
}
