//! Finds a job whose other node is idle at a glance, by bits: for graphs where most pairs of nodes have a job.

use std::ops::Range;

/// So many pairs of nodes for each job are still worth their memory.
const MOST_PAIRS_PER_JOB: usize = 8;

/// Which nodes are idle, and which pairs of nodes have an unfinished job.
///
/// Rows are numbered from 0 and columns after them.
#[derive(Debug)]
pub(super) struct IdlePartners {
    n_rows: usize,
    n_columns: usize,
    /// The job of each row and column.
    job_at: Vec<u32>,
    /// For each row its columns, for each column its rows.
    columns_of: Bits,
    rows_of: Bits,
    /// The idle rows, and the idle columns.
    idle_rows: Bits,
    idle_columns: Bits,
}

impl IdlePartners {
    /// Of jobs as pairs of a row and a column, nobody idle yet. None if there are too few jobs or two of one pair.
    pub(super) fn new(
        n_rows: usize,
        n_columns: usize,
        jobs: impl Iterator<Item = [u32; 2]> + Clone,
    ) -> Option<Self> {
        const NONE: u32 = u32::MAX;
        let n_pairs = n_rows.checked_mul(n_columns)?;
        if n_pairs > MOST_PAIRS_PER_JOB * jobs.clone().count() {
            return None;
        }
        let mut this = Self {
            n_rows,
            n_columns,
            job_at: vec![NONE; n_pairs],
            columns_of: Bits::new(n_rows, n_columns),
            rows_of: Bits::new(n_columns, n_rows),
            idle_rows: Bits::new(1, n_rows),
            idle_columns: Bits::new(1, n_columns),
        };
        for (job, [row, column]) in (0..).zip(jobs) {
            let (row, column) = (row as usize, column as usize - n_rows);
            if std::mem::replace(&mut this.job_at[row * n_columns + column], job) != NONE {
                return None;
            }
            this.columns_of.set(row, column, true);
            this.rows_of.set(column, row, true);
        }
        Some(this)
    }

    pub(super) fn set_idle(&mut self, node: u32, is_idle: bool) {
        match (node as usize).checked_sub(self.n_rows) {
            None => self.idle_rows.set(0, node as usize, is_idle),
            Some(column) => self.idle_columns.set(0, column, is_idle),
        }
    }

    /// The job is done.
    pub(super) fn forget(&mut self, [row, column]: [u32; 2]) {
        let (row, column) = (row as usize, column as usize - self.n_rows);
        self.columns_of.set(row, column, false);
        self.rows_of.set(column, row, false);
    }

    /// An unfinished job of `node` whose other node is idle.
    pub(super) fn find(&self, node: u32) -> Option<u32> {
        let (row, column) = match (node as usize).checked_sub(self.n_rows) {
            None => (node as usize, self.columns_of.first_common(node as usize, &self.idle_columns)?),
            Some(column) => (self.rows_of.first_common(column, &self.idle_rows)?, column),
        };
        Some(self.job_at[row * self.n_columns + column])
    }
}

/// Lines of bits.
#[derive(Debug)]
struct Bits {
    words: usize,
    bits: Vec<u64>,
}

impl Bits {
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

    /// The first bit that is set in the line and in the only line of `other`. The search begins at a word that differs
    /// from line to line, so that not all lines find the same.
    #[inline]
    fn first_common(&self, line: usize, other: &Self) -> Option<usize> {
        let (bits, others) = (&self.bits[line * self.words..][..self.words], &other.bits[..self.words]);
        let start = line % self.words.max(1);
        let find = |range: Range<usize>| {
            let words = bits[range.clone()].iter().zip(&others[range.clone()]);
            let (k, common) = words.map(|(a, b)| a & b).enumerate().find(|(_, common)| *common != 0)?;
            Some((range.start + k) * 64 + common.trailing_zeros() as usize)
        };
        find(start..self.words).or_else(|| find(0..start))
    }
}
