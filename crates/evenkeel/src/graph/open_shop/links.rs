//! The unfinished jobs between nodes: the graph of an open shop as it shrinks.
//!
//! Where most pairs of nodes have a job, bits show at a glance which other nodes are left and which of them are idle.
//! Otherwise each node has a list.

use std::ops::Range;

/// This many pairs of nodes for each job are still worth their memory.
const MOST_PAIRS_PER_JOB: usize = 64;
const NONE: u32 = u32::MAX;

/// A job as seen from one of its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) job: u32,
    pub(super) partner: u32,
}

/// The links of all nodes. Rows are numbered from 0 and columns after them.
#[derive(Debug)]
pub(super) enum Links {
    Lists(Lists),
    Bits(Bits),
}

impl Links {
    /// The links of jobs given as pairs of a row and a column. No node is idle yet.
    pub(super) fn new(n_rows: usize, n_columns: usize, jobs: impl Iterator<Item = [u32; 2]> + Clone) -> Self {
        let n_pairs = n_rows.saturating_mul(n_columns);
        let bits = if n_pairs <= MOST_PAIRS_PER_JOB * jobs.clone().count() {
            Bits::new(n_rows, n_columns, jobs.clone())
        } else {
            None
        };
        bits.map_or_else(|| Self::Lists(Lists::new(n_rows + n_columns, jobs)), Self::Bits)
    }

    /// The link of a node at a position or after it, and the position after that link.
    #[inline]
    pub(super) fn next(&self, node: u32, position: u32) -> Option<(Link, u32)> {
        match self {
            Self::Lists(lists) => Some((*lists.of(node).get(position as usize)?, position + 1)),
            Self::Bits(bits) => bits.next(node, position),
        }
    }

    /// A link to an idle node, if this many tries (or a glance) find one.
    #[inline]
    pub(super) fn find_idle(&mut self, node: u32, tries: u32, is_idle: impl Fn(u32) -> bool) -> Option<Link> {
        match self {
            Self::Lists(lists) => lists.find(node, tries, is_idle),
            Self::Bits(bits) => bits.find_idle(node),
        }
    }

    #[inline]
    pub(super) fn set_idle(&mut self, node: u32, is_idle: bool) {
        if let Self::Bits(bits) = self {
            bits.set_idle(node, is_idle);
        }
    }

    /// Removes a job that is done.
    #[inline]
    pub(super) fn remove(&mut self, job: u32, nodes: [u32; 2]) {
        match self {
            Self::Lists(lists) => lists.remove(job, nodes),
            Self::Bits(bits) => bits.remove(nodes),
        }
    }
}

/// The links of each node, concatenated.
#[derive(Debug)]
pub(super) struct Lists {
    links: Vec<Link>,
    /// Where the list of each node begins, how long it is, and where the next search begins.
    spans: Vec<Span>,
    /// The place of each job in the lists of its two nodes.
    places: Vec<[u32; 2]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Span {
    first: u32,
    len: u32,
    cursor: u32,
}

impl Lists {
    fn new(n_nodes: usize, jobs: impl Iterator<Item = [u32; 2]> + Clone) -> Self {
        let mut spans = vec![Span::default(); n_nodes];
        jobs.clone().flatten().for_each(|node| spans[node as usize].len += 1);
        let mut total = 0;
        for span in &mut spans {
            (span.first, span.len, total) = (total, 0, total + span.len);
        }
        let mut links = vec![Link { job: NONE, partner: NONE }; total as usize];
        let places = (0..).zip(jobs).map(|(job, [row, column])| {
            [(row, column), (column, row)].map(|(node, partner)| {
                let span = &mut spans[node as usize];
                links[(span.first + span.len) as usize] = Link { job, partner };
                span.len += 1;
                span.len - 1
            })
        });
        let places = places.collect();
        Self { links, spans, places }
    }

    #[inline]
    fn of(&self, node: u32) -> &[Link] {
        let Span { first, len, .. } = self.spans[node as usize];
        &self.links[first as usize..][..len as usize]
    }

    fn find(&mut self, node: u32, tries: u32, is_idle: impl Fn(u32) -> bool) -> Option<Link> {
        let Span { first, len, cursor } = self.spans[node as usize];
        let mut k = if cursor < len { cursor } else { 0 };
        let mut found = None;
        for _ in 0..tries.min(len) {
            let link = self.links[(first + k) as usize];
            k = if k + 1 < len { k + 1 } else { 0 };
            if is_idle(link.partner) {
                found = Some(link);
                break;
            }
        }
        self.spans[node as usize].cursor = k;
        found
    }

    fn remove(&mut self, job: u32, nodes: [u32; 2]) {
        for (side, node) in nodes.into_iter().enumerate() {
            let place = self.places[job as usize][side];
            let span = &mut self.spans[node as usize];
            span.len -= 1;
            let last = self.links[(span.first + span.len) as usize];
            self.links[(span.first + place) as usize] = last;
            self.places[last.job as usize][side] = place;
        }
    }
}

/// For each node a line of bits, one for each node of the other side.
#[derive(Debug)]
pub(super) struct Bits {
    n_rows: usize,
    jobs: Jobs,
    columns_of: Lines,
    rows_of: Lines,
    idle_rows: Idle,
    idle_columns: Idle,
}

impl Bits {
    /// `None` if two jobs have the same pair.
    fn new(n_rows: usize, n_columns: usize, jobs: impl Iterator<Item = [u32; 2]> + Clone) -> Option<Self> {
        let mut columns_of = Lines::new(n_rows, n_columns);
        let mut rows_of = Lines::new(n_columns, n_rows);
        let pairs = jobs.map(|[row, column]| (row as usize, column as usize - n_rows));
        for (row, column) in pairs.clone() {
            if columns_of.has(row, column) {
                return None;
            }
            columns_of.set(row, column, true);
            rows_of.set(column, row, true);
        }
        let jobs = Jobs::new(&columns_of, pairs);
        let (idle_rows, idle_columns) = (Idle::new(n_rows), Idle::new(n_columns));
        Some(Self { n_rows, jobs, columns_of, rows_of, idle_rows, idle_columns })
    }

    #[inline]
    fn next(&self, node: u32, position: u32) -> Option<(Link, u32)> {
        let (line, position) = (node as usize, position as usize);
        let found = match line.checked_sub(self.n_rows) {
            None => self.columns_of.next(line, position)?,
            Some(column) => self.rows_of.next(column, position)?,
        };
        Some((self.link(node, found), found as u32 + 1))
    }

    #[inline]
    fn find_idle(&self, node: u32) -> Option<Link> {
        let found = match (node as usize).checked_sub(self.n_rows) {
            None => self.idle_columns.first_in(&self.columns_of, node as usize)?,
            Some(column) => self.idle_rows.first_in(&self.rows_of, column)?,
        };
        Some(self.link(node, found))
    }

    /// The link from a node to the node at `found` of the other side.
    #[inline]
    fn link(&self, node: u32, found: usize) -> Link {
        match (node as usize).checked_sub(self.n_rows) {
            None => Link { job: self.jobs.at(node as usize, found), partner: (self.n_rows + found) as u32 },
            Some(column) => Link { job: self.jobs.at(found, column), partner: found as u32 },
        }
    }

    #[inline]
    fn set_idle(&mut self, node: u32, is_idle: bool) {
        match (node as usize).checked_sub(self.n_rows) {
            None => self.idle_rows.set(node as usize, is_idle),
            Some(column) => self.idle_columns.set(column, is_idle),
        }
    }

    #[inline]
    fn remove(&mut self, [row, column]: [u32; 2]) {
        let (row, column) = (row as usize, column as usize - self.n_rows);
        self.columns_of.set(row, column, false);
        self.rows_of.set(column, row, false);
    }
}

/// The job of each pair, found by its place among all pairs that have a job, row by row.
#[derive(Debug)]
struct Jobs {
    words_a_row: usize,
    words: Vec<Word>,
    /// The jobs by place; empty if they came in this order.
    sorted: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Word {
    bits: u64,
    before: u32,
}

impl Jobs {
    fn new(lines: &Lines, pairs: impl Iterator<Item = (usize, usize)> + Clone) -> Self {
        let mut before = 0;
        let words = lines.bits.iter().map(|&bits| {
            let word = Word { bits, before };
            before += bits.count_ones();
            word
        });
        let words = words.collect();
        let mut jobs = Self { words_a_row: lines.words, words, sorted: Vec::new() };
        if !pairs.clone().is_sorted() {
            jobs.sorted = vec![NONE; before as usize];
            for (job, (row, column)) in (0..).zip(pairs) {
                let place = jobs.place(row, column);
                jobs.sorted[place] = job;
            }
        }
        jobs
    }

    #[inline]
    fn place(&self, row: usize, column: usize) -> usize {
        let Word { bits, before } = self.words[row * self.words_a_row + column / 64];
        (before + (bits & ((1 << (column % 64)) - 1)).count_ones()) as usize
    }

    #[inline]
    fn at(&self, row: usize, column: usize) -> u32 {
        let place = self.place(row, column);
        self.sorted.get(place).copied().unwrap_or(place as u32)
    }
}

/// The idle nodes of one side. Often there is none or one, and then no search is needed.
#[derive(Debug)]
struct Idle {
    line: Lines,
    count: usize,
    /// The XOR of all of them: if there is only one, it is that one.
    xor: usize,
}

impl Idle {
    fn new(n: usize) -> Self {
        Self { line: Lines::new(1, n), count: 0, xor: 0 }
    }

    #[inline]
    fn set(&mut self, node: usize, is_idle: bool) {
        if self.line.has(0, node) != is_idle {
            self.line.set(0, node, is_idle);
            self.count = if is_idle { self.count + 1 } else { self.count - 1 };
            self.xor ^= node;
        }
    }

    /// An idle node that is set in a line.
    #[inline]
    fn first_in(&self, lines: &Lines, line: usize) -> Option<usize> {
        match self.count {
            0 => None,
            1 => lines.has(line, self.xor).then_some(self.xor),
            _ => lines.first_common(line, &self.line),
        }
    }
}

/// Lines of bits.
#[derive(Debug)]
struct Lines {
    words: usize,
    bits: Vec<u64>,
}

impl Lines {
    fn new(n_lines: usize, n_bits: usize) -> Self {
        let words = n_bits.div_ceil(64);
        Self { words, bits: vec![0; n_lines * words] }
    }

    #[inline]
    fn set(&mut self, line: usize, bit: usize, value: bool) {
        let word = &mut self.bits[line * self.words + bit / 64];
        let mask = 1 << (bit % 64);
        *word = if value { *word | mask } else { *word & !mask };
    }

    #[inline]
    fn has(&self, line: usize, bit: usize) -> bool {
        self.bits[line * self.words + bit / 64] >> (bit % 64) & 1 == 1
    }

    /// The first set bit of a line, from `bit` on.
    #[inline]
    fn next(&self, line: usize, bit: usize) -> Option<usize> {
        let bits = &self.bits[line * self.words..][..self.words];
        let mut k = bit / 64;
        let mut word = bits.get(k)? & (u64::MAX << (bit % 64));
        while word == 0 {
            k += 1;
            word = *bits.get(k)?;
        }
        Some(k * 64 + word.trailing_zeros() as usize)
    }

    /// The first bit that is set both in the line and in the only line of `other`. The search begins at a word that
    /// differs from line to line, so that not all lines find the same bit.
    #[inline]
    fn first_common(&self, line: usize, other: &Self) -> Option<usize> {
        let (bits, others) = (&self.bits[line * self.words..][..self.words], &other.bits[..self.words]);
        let start = line % self.words.max(1);
        let find = |range: Range<usize>| {
            let mut words = bits[range.clone()].iter().zip(&others[range.clone()]).map(|(a, b)| a & b);
            let k = words.position(|common| common != 0)?;
            let common = bits[range.start + k] & others[range.start + k];
            Some((range.start + k) * 64 + common.trailing_zeros() as usize)
        };
        find(start..self.words).or_else(|| find(0..start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{Draw, Seeded};

    /// Bits and lists have the same links, whatever is removed.
    #[test]
    fn both_kinds_are_the_same_graph() {
        let mut draw = Seeded::new(8);
        for _ in 0..50 {
            let (n_rows, n_columns) = (1 + draw.below(80), 1 + draw.below(80));
            let pairs = (0..n_rows).flat_map(|row| (0..n_columns).map(move |column| [row, n_rows + column]));
            let mut jobs: Vec<[u32; 2]> = pairs.filter(|_| draw.below(3) > 0).collect();
            let (rows, columns) = (n_rows as usize, n_columns as usize);
            let mut lists = Links::Lists(Lists::new(rows + columns, jobs.iter().copied()));
            let mut bits =
                Links::Bits(Bits::new(rows, columns, jobs.iter().copied()).expect("no pair twice"));
            let mut ids: Vec<u32> = (0..jobs.len() as u32).collect();
            while !jobs.is_empty() {
                for node in 0..n_rows + n_columns {
                    let all = |links: &Links| {
                        let mut position = 0;
                        let mut found: Vec<(u32, u32)> = std::iter::from_fn(|| {
                            let (link, next) = links.next(node, position)?;
                            position = next;
                            Some((link.job, link.partner))
                        })
                        .collect();
                        found.sort_unstable();
                        found
                    };
                    assert_eq!(all(&lists), all(&bits));
                    let is_idle = draw.below(2) > 0;
                    [&mut lists, &mut bits].into_iter().for_each(|links| links.set_idle(node, is_idle));
                    let Links::Bits(Bits { idle_rows, idle_columns, .. }) = &bits else { unreachable!() };
                    let idle = |node: u32| match node.checked_sub(n_rows) {
                        None => idle_rows.line.has(0, node as usize),
                        Some(column) => idle_columns.line.has(0, column as usize),
                    };
                    let by_list = lists.find_idle(node, u32::MAX, idle).is_some();
                    assert_eq!(by_list, bits.find_idle(node, 0, |_| false).is_some());
                }
                for _ in 0..=jobs.len() / 3 {
                    if jobs.is_empty() {
                        break;
                    }
                    let k = draw.below(jobs.len() as u32) as usize;
                    let (job, nodes) = (ids.swap_remove(k), jobs.swap_remove(k));
                    lists.remove(job, nodes);
                    bits.remove(job, nodes);
                }
            }
        }
    }
}
