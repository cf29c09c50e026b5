//! A queue of events by time, where time only moves forward: a radix heap (Ahuja, Mehlhorn, Orlin and Tarjan).

/// Numbered events by time. No event is added in the past.
#[derive(Debug)]
pub(super) struct Agenda {
    now: u64,
    /// The events at `now`, then those whose time differs from it first in bit 0, 1, ….
    buckets: [Vec<(u64, u32)>; 65],
    /// Which of the later buckets have events.
    filled: u64,
}

impl Agenda {
    pub(super) fn new() -> Self {
        Self { now: 0, buckets: [const { Vec::new() }; 65], filled: 0 }
    }

    #[inline]
    pub(super) fn put(&mut self, time: u64, id: u32) {
        debug_assert!(time >= self.now, "in the past");
        match (time ^ self.now).checked_ilog2() {
            None => self.buckets[0].push((time, id)),
            Some(bit) => {
                self.buckets[bit as usize + 1].push((time, id));
                self.filled |= 1 << bit;
            }
        }
    }

    /// Removes an event at the current time.
    #[inline]
    pub(super) fn take(&mut self) -> Option<u32> {
        self.buckets[0].pop().map(|(_, id)| id)
    }

    /// Advances to the time of the next event, once all events at the current time are taken.
    pub(super) fn advance(&mut self) -> Option<u64> {
        debug_assert!(self.buckets[0].is_empty(), "not all taken");
        if self.filled == 0 {
            return None;
        }
        let bit = self.filled.trailing_zeros();
        self.filled &= self.filled - 1;
        let mut next = std::mem::take(&mut self.buckets[bit as usize + 1]);
        self.now = next.iter().map(|&(time, _)| time).min()?;
        // A time that differed from the previous one in this bit differs from the new one in a lower bit or not at all.
        next.drain(..).for_each(|(time, id)| self.put(time, id));
        // Reuses its memory.
        self.buckets[bit as usize + 1] = next;
        Some(self.now)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::draw::{Draw, Seeded};

    #[test]
    fn every_event_comes_once_and_in_time() {
        let mut draw = Seeded::new(3);
        for round in 0..200 {
            let (mut agenda, mut open, mut now) = (Agenda::new(), BTreeSet::new(), 0);
            for id in 0..500 {
                let delay = u64::from(draw.below(u32::MAX)) << draw.below(20) >> draw.below(50);
                let time = now + if round % 2 == 0 { delay % 4 } else { delay };
                agenda.put(time, id);
                open.insert((time, id));
                if draw.below(2) > 0 {
                    continue;
                }
                while let Some(id) = agenda.take() {
                    assert!(open.remove(&(now, id)), "{id} at {now}");
                }
                assert_eq!(agenda.advance(), open.first().map(|&(time, _)| time));
                now = open.first().map_or(now, |&(time, _)| time);
            }
        }
    }
}
