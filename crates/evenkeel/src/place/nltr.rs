//! `nltr`: long writes go to lightly loaded servers, short ones to others; within a section, to the lighter of two
//! drawn.
//!
//! n-Level Two Random of paper 004 §3.4.3. Servers, sorted by load, are halved n times; writes, sorted by length, are
//! divided n times at the average length of their section. A write of section i goes to one of two servers drawn from
//! section i.
//!
//! The listing cannot be used: it has one level too few, divides again for each write, compares writes with the middle
//! of the *servers*, and redirects where that is *not* worth it. And if lengths are equal, none is below the average:
//! all writes would go to the first section, and the other servers would stay idle. So a section of equal lengths is
//! halved ([`Equal::Halved`]). If there are more sections than servers, a section without any shares those of the
//! nearest one before it.

use std::ops::Range;

use super::ranking::Ranking;
use super::{Drawn, Options, Place, Servers, Step, Turn, longest_first};
use crate::draw::Draw;
use crate::model::MemberId;

/// What happens to a section of writes that all have the same length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Equal {
    /// It is halved; the first part is the larger one.
    #[default]
    Halved,
    /// It stays whole, as in the paper.
    Together,
}

/// Non-empty sections: their numbers, ascending, and the range of each.
pub type Sections = Vec<(u64, Range<usize>)>;

/// Halves `n_servers` servers `levels` times; the first half is the larger one.
pub fn server_sections(n_servers: usize, levels: u32) -> Sections {
    sections(n_servers, levels, |range| range.start + range.len().div_ceil(2))
}

/// Divides lengths, sorted with the longest first, `levels` times at the averages of their sections.
pub fn write_sections(lengths: &[u128], levels: u32, equal: Equal) -> Sections {
    sections(lengths.len(), levels, |range| {
        let section = &lengths[range.clone()];
        if section.first() == section.last() {
            return match equal {
                Equal::Halved => range.start + range.len().div_ceil(2),
                Equal::Together => range.end,
            };
        }
        let sum = section.iter().fold(0_u128, |sum, length| sum.saturating_add(*length));
        let average = sum.div_ceil(section.len() as u128);
        range.start + section.partition_point(|&length| length >= average)
    })
}

/// Divides `0..n` in two at `middle`, then each part, and so on. Empty parts are omitted.
fn sections(n: usize, levels: u32, middle: impl Fn(&Range<usize>) -> usize) -> Sections {
    let mut sections: Sections = vec![(0, 0..n)];
    for _ in 0..levels {
        let halves = sections.iter().flat_map(|(number, range)| {
            let middle = middle(range);
            [(number * 2, range.start..middle), (number * 2 + 1, middle..range.end)]
        });
        sections = halves.filter(|(_, range)| !range.is_empty()).collect();
    }
    sections
}

/// The policy.
#[derive(Debug)]
pub struct Nltr {
    levels: u32,
    ranking: Ranking,
    of_servers: Sections,
    /// For each step of the window, the servers of the ranking in its section.
    of_steps: Vec<Range<usize>>,
    drawn: Drawn,
}

impl Nltr {
    /// A policy for `n_servers` servers; `levels` is at most [`MAX_LEVELS`](super::MAX_LEVELS).
    pub fn new(levels: u32, n_servers: u32) -> Self {
        let of_servers = server_sections(n_servers as usize, levels);
        let (ranking, of_steps) = (Ranking::new(n_servers), Vec::new());
        Self { levels, ranking, of_servers, of_steps, drawn: Drawn::new() }
    }
}

impl Place for Nltr {
    fn open(&mut self, steps: &mut [Step], servers: &Servers, options: &Options) {
        longest_first(steps);
        self.ranking.sort(servers, options);
        let lengths: Vec<u128> = steps.iter().map(|step| step.bytes).collect();
        self.of_steps.clear();
        for (number, steps) in write_sections(&lengths, self.levels, Equal::Halved) {
            let at = self.of_servers.partition_point(|(section, _)| *section <= number);
            let nearest = self.of_servers[..at].last().map_or(0..0, |(_, range)| range.clone());
            self.of_steps.extend(steps.map(|_| nearest.clone()));
        }
    }

    fn place(&mut self, turn: &Turn<'_>, draw: &mut dyn Draw) -> MemberId {
        self.ranking.refresh(turn.servers, turn.options);
        let section = self.of_steps[turn.place].clone();
        self.drawn = turn.draw_two(&self.ranking, section, draw);
        let target = turn.lightest(&self.drawn);
        self.ranking.choose(target.map_or(turn.default, |target| turn.worth(target)))
    }

    fn figures(&self, turn: &Turn<'_>) -> Vec<(MemberId, u128)> {
        turn.loads_of(&self.drawn)
    }
}
