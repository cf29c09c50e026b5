//! `rank`: process i gets the tasks from ⌊i·n/P⌋ on, wherever the data are.
//!
//! This is what `ParaView` does, and paper 003's baseline (§2, §5). The paper then reads from replicas drawn at random
//! ([`drawn`](super::drawn)). Here all policies read in the same way, so that their figures differ by the assignment
//! alone.

use super::{Assignment, ProcessId, Work, opass_exact};

/// Assigns tasks in blocks, by rank.
pub fn assign(work: &Work) -> Assignment {
    Assignment::new(work, blocks(work.n_tasks(), work.n_processes()), opass_exact::bound(work))
}

fn blocks(n_tasks: usize, n_processes: usize) -> Vec<ProcessId> {
    let start = |process: usize| (process as u128 * n_tasks as u128 / n_processes as u128) as usize;
    let block = |process: usize| vec![ProcessId(process as u32); start(process + 1) - start(process)];
    (0..n_processes).flat_map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_differ_by_one_at_most() {
        let ranks = |n, p| blocks(n, p).into_iter().map(|process| process.0).collect::<Vec<_>>();
        assert_eq!(ranks(5, 3), [0, 1, 1, 2, 2]);
        assert_eq!(ranks(2, 4), [1, 3]);
        assert_eq!(ranks(0, 2), [0; 0]);
    }
}
