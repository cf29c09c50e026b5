//! A greedy open shop without interruptions, for matrices with time to spare.
//!
//! The nodes of one side choose, in order of time: each starts a cell whose other node is free, or waits for the one
//! that is free first. A node that can hardly wait chooses early, before all others: within the time of the longest
//! cell, other nodes finish what they do. Nobody looks after the nodes of the other side, so all of these must have
//! time to spare. Where this succeeds, it is much faster than the exact method.

use std::cmp::Reverse;

use super::agenda::Agenda;
use super::{Cell, Matrix};

/// A node has time to spare if it may wait for this share of the length.
const SPARE: u64 = 8;
/// Half of the nodes that choose may wait for at least this share of the length.
const PATIENCE: u64 = 32;
/// How many of its cells a node with time to spare tries in order to find one that can start at once.
const PROBES: usize = 8;

/// A node of the side that chooses.
#[derive(Clone, Copy, Debug)]
struct Chooser {
    /// Where its cells begin in the list of all cells, and how many of them have not been chosen.
    first: u32,
    n_open: u32,
    /// When it has done all that it has chosen.
    free: u64,
    /// How long it may still wait.
    slack: u64,
}

/// A cell as seen by its chooser.
#[derive(Clone, Copy, Debug, Default)]
struct Job {
    cell: u32,
    partner: u32,
    amount: u64,
}

/// When each cell starts, if this finds a way to do them all within `length`, which no row and no column may exceed.
pub(crate) fn starts(matrix: &Matrix, length: u64) -> Option<Vec<u64>> {
    if !matrix.bridges.is_empty() {
        return None;
    }
    let sums = matrix.sums();
    let (rows, columns) = sums.split_at(matrix.n_rows);
    let node = |sum, free| Chooser {
        first: 0,
        n_open: 0,
        free,
        // A column without work may be released after the end.
        slack: if sum > 0 { length - sum - free } else { length },
    };
    let rows: Vec<Chooser> = rows.iter().map(|&sum| node(sum, 0)).collect();
    let columns: Vec<Chooser> = columns.iter().zip(&matrix.releases).map(|(&sum, &r)| node(sum, r)).collect();
    let least = |nodes: &[Chooser]| nodes.iter().map(|node| node.slack).min();
    let rows_choose = least(&rows)? < least(&columns)?;
    let (choosers, others) = if rows_choose { (rows, columns) } else { (columns, rows) };
    let spare = length / SPARE;
    // If most choosers cannot wait, two of them soon want the same partner.
    let n_patient = choosers.iter().filter(|chooser| chooser.slack >= length / PATIENCE).count();
    if least(&others)? < spare || n_patient < choosers.len() / 2 {
        return None;
    }
    let free = others.iter().map(|other| other.free).collect();
    Greedy::new(&matrix.cells, rows_choose, choosers, free, spare).run()
}

struct Greedy {
    choosers: Vec<Chooser>,
    /// When each node of the other side has done all that it was chosen for.
    free: Vec<u64>,
    /// The cells by chooser.
    jobs: Vec<Job>,
    /// The time of the longest cell.
    longest: u64,
    /// How long a node with time to spare may at least wait.
    spare: u64,
    /// When each cell starts, once it is chosen.
    starts: Vec<u64>,
}

impl Greedy {
    fn new(
        cells: &[Cell],
        rows_choose: bool,
        mut choosers: Vec<Chooser>,
        free: Vec<u64>,
        spare: u64,
    ) -> Self {
        let ends = |cell: &Cell| if rows_choose { (cell.row, cell.column) } else { (cell.column, cell.row) };
        cells.iter().for_each(|cell| choosers[ends(cell).0 as usize].n_open += 1);
        let mut total = 0;
        for chooser in &mut choosers {
            (chooser.first, chooser.n_open, total) = (total, 0, total + chooser.n_open);
        }
        let mut jobs = vec![Job::default(); cells.len()];
        for (id, cell) in (0..).zip(cells) {
            let (chooser, partner) = ends(cell);
            let chooser = &mut choosers[chooser as usize];
            jobs[(chooser.first + chooser.n_open) as usize] = Job { cell: id, partner, amount: cell.amount };
            chooser.n_open += 1;
        }
        // They begin at different places of their lists, so that not all want the same partners first.
        let n_choosers = choosers.len();
        for (id, chooser) in choosers.iter().enumerate() {
            let list = &mut jobs[chooser.first as usize..][..chooser.n_open as usize];
            list.rotate_left(id * list.len() / n_choosers);
        }
        let longest = cells.iter().map(|cell| cell.amount).max().unwrap_or(0);
        Self { choosers, free, jobs, longest, spare, starts: vec![0; cells.len()] }
    }

    fn run(mut self) -> Option<Vec<u64>> {
        let mut agenda = Agenda::new();
        let mut ids: Vec<u32> = (0..self.choosers.len() as u32).collect();
        // Of several at the same time, the last comes first: the one that can wait least.
        ids.sort_by_key(|&id| Reverse(self.choosers[id as usize].slack));
        ids.retain(|&id| self.choosers[id as usize].n_open > 0);
        ids.into_iter().for_each(|id| agenda.put(self.turn(id), id));
        let mut now = 0;
        loop {
            while let Some(id) = agenda.take() {
                self.choose(id)?;
                if self.choosers[id as usize].n_open > 0 {
                    agenda.put(self.turn(id).max(now), id);
                }
            }
            let Some(next) = agenda.advance() else { return Some(self.starts) };
            now = next;
        }
    }

    /// When a node chooses its next cell.
    fn turn(&self, id: u32) -> u64 {
        let chooser = &self.choosers[id as usize];
        if chooser.slack < self.longest { chooser.free.saturating_sub(self.longest) } else { chooser.free }
    }

    /// Chooses the next cell of a node, unless it would be late.
    fn choose(&mut self, id: u32) -> Option<()> {
        let chooser = &mut self.choosers[id as usize];
        let open = &mut self.jobs[chooser.first as usize..][..chooser.n_open as usize];
        let tries = if chooser.slack < self.spare { open.len() } else { PROBES };
        let (mut wait, mut chosen) = (u64::MAX, 0);
        for (k, job) in open.iter().enumerate().rev().take(tries) {
            let until_free = self.free[job.partner as usize].saturating_sub(chooser.free);
            if until_free < wait {
                (wait, chosen) = (until_free, k);
                if wait == 0 {
                    break;
                }
            }
        }
        let Job { cell, partner, amount } = open[chosen];
        open[chosen] = *open.last()?;
        chooser.n_open -= 1;
        chooser.slack = chooser.slack.checked_sub(wait)?;
        let start = chooser.free + wait;
        self.starts[cell as usize] = start;
        chooser.free = start + amount;
        self.free[partner as usize] = chooser.free;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{Draw, Seeded};

    /// Schedules random cells, and checks that nothing overlaps or comes before its release. Returns whether there is
    /// a schedule.
    fn check(draw: &mut Seeded, n_rows: u32, n_columns: u32, per_cent: u32) -> bool {
        let pairs = (0..n_rows).flat_map(|row| (0..n_columns).map(move |column| (row, column)));
        let pairs: Vec<(u32, u32)> = pairs.filter(|_| draw.below(4) > 0).collect();
        let amount = |draw: &mut Seeded| u64::from(draw.below(20));
        let cells =
            pairs.into_iter().map(|(row, column)| Cell { row, column, amount: amount(draw) }).collect();
        let releases = (0..n_columns).map(|_| u64::from(draw.below(100))).collect();
        let matrix = Matrix { cells, n_rows: n_rows as usize, releases, bridges: Vec::new() };
        let length = matrix.range().0 * u64::from(per_cent) / 100;
        let Some(starts) = starts(&matrix, length) else { return false };
        let mut runs = Vec::new();
        for (cell, start) in matrix.cells.iter().zip(starts).filter(|(cell, _)| cell.amount > 0) {
            assert!(start >= matrix.releases[cell.column as usize]);
            assert!(start + cell.amount <= length);
            runs.extend([(0, cell.row), (1, cell.column)].map(|node| (node, start, start + cell.amount)));
        }
        runs.sort_unstable();
        assert!(runs.windows(2).all(|pair| pair[0].0 != pair[1].0 || pair[0].2 <= pair[1].1));
        true
    }

    #[test]
    fn schedules_are_valid_and_found_where_there_is_time() {
        let mut draw = Seeded::new(7);
        for _ in 0..100 {
            // The fuller side has fewer nodes. It is full for all of the length, then for half of it.
            for (n_rows, n_columns) in [(5, 40), (40, 5)] {
                check(&mut draw, n_rows, n_columns, 100);
                assert!(check(&mut draw, n_rows, n_columns, 200));
            }
            check(&mut draw, 20, 20, 100);
        }
    }
}
