//! Preemptive open shop (Gonzalez and Sahni): amounts between rows and columns, each row and each column busy
//! with one thing at a time, done in the time of the fullest of them. The cost does not grow with the amounts.
//!
//! Time runs from event to event. A node (row or column) is *tight* when what it still has to do takes all the
//! time that is left; tight nodes must be busy without a break, and as a matching that covers all tight nodes always
//! exists, an alternating path puts each of them to work: it ends at an idle node or takes over from a node
//! that is not tight. Whatever is not tight runs when it finds an idle partner, so little time
//! is idled away and few transfers are interrupted. The textbook's padding to a balanced matrix is not needed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

const NONE: u32 = u32::MAX;
/// How many of its cells a node tries in search of an idle partner before it waits or looks for a path.
const PROBES: usize = 32;

/// An amount to be moved between a row and a column, at most one at a time of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    /// Its row.
    pub row: u32,
    /// Its column.
    pub column: u32,
    /// How much, in units of time.
    pub amount: u64,
}

/// Schedules all cells within `length`, which no row and no column may exceed.
///
/// Calls `emit(cell, start, amount)` for each uninterrupted run, for each cell in order of time.
pub(crate) fn schedule(
    cells: Vec<Cell>,
    n_rows: usize,
    n_columns: usize,
    length: u64,
    emit: impl FnMut(usize, u64, u64),
) {
    Shop::new(cells, n_rows, n_columns, length, emit).run();
}

/// The least possible length: the fullest row or column.
pub(crate) fn length(cells: &[Cell], n_rows: usize, n_columns: usize) -> u64 {
    node_sums(cells, n_rows, n_columns).into_iter().max().unwrap_or(0)
}

fn node_sums(cells: &[Cell], n_rows: usize, n_columns: usize) -> Vec<u64> {
    let mut sums = vec![0; n_rows + n_columns];
    for cell in cells {
        sums[cell.row as usize] += cell.amount;
        sums[n_rows + cell.column as usize] += cell.amount;
    }
    sums
}

struct Job {
    nodes: [u32; 2],
    /// What is left, as of the last pause.
    left: u64,
    /// When it started, if it runs.
    since: u64,
    /// Where it stands in the lists of its nodes.
    places: [u32; 2],
}

struct Node {
    /// How long it may still be idle, as of the last start.
    slack: u64,
    idle_since: u64,
    running: u32,
    /// Its list of unfinished jobs in `Shop::jobs_of`.
    first: u32,
    n_jobs: u32,
    /// Where the next search for an idle partner begins.
    cursor: u32,
    /// Whether an event will look at it, when it becomes tight or before.
    has_alarm: bool,
}

struct Shop<E> {
    jobs: Vec<Job>,
    nodes: Vec<Node>,
    jobs_of: Vec<u32>,
    emit: E,
    now: u64,
    /// Times at which a job may be done (ids below the number of jobs) or an idle node become tight.
    events: BinaryHeap<Reverse<(u64, u32)>>,
    /// Idle nodes to be looked at.
    ready: Vec<u32>,
    // Of the search for a path:
    seen: Vec<u32>,
    search: u32,
    queue: Vec<Visit>,
}

/// A node reached by a search, by way of `job` from the node at `parent` in the queue.
#[derive(Clone, Copy)]
struct Visit {
    node: u32,
    job: u32,
    parent: u32,
}

impl<E: FnMut(usize, u64, u64)> Shop<E> {
    fn new(cells: Vec<Cell>, n_rows: usize, n_columns: usize, length: u64, emit: E) -> Self {
        let sums = node_sums(&cells, n_rows, n_columns);
        let mut nodes: Vec<Node> = sums
            .iter()
            .map(|&sum| Node {
                slack: length - sum,
                idle_since: 0,
                running: NONE,
                first: 0,
                n_jobs: 0,
                cursor: 0,
                has_alarm: false,
            })
            .collect();
        let mut jobs: Vec<Job> = cells
            .into_iter()
            .map(|cell| Job {
                nodes: [cell.row, n_rows as u32 + cell.column],
                left: cell.amount,
                since: 0,
                places: [0; 2],
            })
            .collect();
        let listed = jobs.iter().filter(|job| job.left > 0).flat_map(|job| job.nodes);
        listed.for_each(|node| nodes[node as usize].n_jobs += 1);
        let mut total = 0;
        for node in &mut nodes {
            (node.first, node.n_jobs, total) = (total, 0, total + node.n_jobs);
        }
        let mut jobs_of = vec![NONE; total as usize];
        for (id, job) in (0..).zip(&mut jobs).filter(|(_, job)| job.left > 0) {
            for (node, place) in job.nodes.iter().zip(&mut job.places) {
                let node = &mut nodes[*node as usize];
                *place = node.n_jobs;
                jobs_of[(node.first + node.n_jobs) as usize] = id;
                node.n_jobs += 1;
            }
        }
        let ready = (0..nodes.len() as u32).collect();
        let seen = vec![0; nodes.len()];
        Self {
            jobs,
            nodes,
            jobs_of,
            emit,
            now: 0,
            events: BinaryHeap::new(),
            ready,
            seen,
            search: 0,
            queue: Vec::new(),
        }
    }

    fn run(&mut self) {
        loop {
            self.put_to_work();
            if !self.advance() {
                return;
            }
        }
    }

    /// Starts what must and what can run now.
    fn put_to_work(&mut self) {
        let tight: Vec<u32> =
            self.ready.iter().copied().filter(|&v| self.waits(v) && self.is_tight(v)).collect();
        for node in tight {
            if self.waits(node) && !self.start_with_idle(node) {
                self.start_by_path(node);
            }
        }
        // Nodes from which a tight one took over have joined `ready` meanwhile.
        let ready = std::mem::take(&mut self.ready);
        for &node in &ready {
            if self.waits(node) {
                self.start_with_idle(node);
            }
        }
        for &node in &ready {
            if self.waits(node) && !self.nodes[node as usize].has_alarm {
                self.set_alarm(node);
            }
        }
        self.ready = ready;
        self.ready.clear();
    }

    /// Goes to the next time at which something happens; false when all is done.
    fn advance(&mut self) -> bool {
        while let Some(&Reverse((time, id))) = self.events.peek() {
            if !self.ready.is_empty() && time > self.now {
                return true;
            }
            self.events.pop();
            let is_job = (id as usize) < self.jobs.len();
            if is_job {
                let job = &self.jobs[id as usize];
                let runs = self.nodes[job.nodes[0] as usize].running == id;
                if runs && job.since + job.left == time {
                    self.now = time;
                    let nodes = job.nodes;
                    self.pause(id);
                    self.ready.extend(nodes);
                }
            } else {
                let node = id - self.jobs.len() as u32;
                self.nodes[node as usize].has_alarm = false;
                if self.waits(node) && self.tight_at(node) == time {
                    self.now = time;
                    self.ready.push(node);
                } else if self.waits(node) {
                    // It has worked since the alarm was set, so it may idle on.
                    self.set_alarm(node);
                }
            }
        }
        !self.ready.is_empty()
    }

    /// Whether the node is idle although it has something to do.
    fn waits(&self, node: u32) -> bool {
        let node = &self.nodes[node as usize];
        node.running == NONE && node.n_jobs > 0
    }

    /// When an idle node becomes tight.
    fn tight_at(&self, node: u32) -> u64 {
        let node = &self.nodes[node as usize];
        node.idle_since + node.slack
    }

    fn is_tight(&self, node: u32) -> bool {
        match self.nodes[node as usize].running {
            NONE => self.tight_at(node) == self.now,
            _ => self.nodes[node as usize].slack == 0,
        }
    }

    fn set_alarm(&mut self, node: u32) {
        self.nodes[node as usize].has_alarm = true;
        self.events.push(Reverse((self.tight_at(node), self.jobs.len() as u32 + node)));
    }

    fn partner(&self, job: u32, node: u32) -> u32 {
        let [row, column] = self.jobs[job as usize].nodes;
        if row == node { column } else { row }
    }

    /// Starts a job of `node` whose other node is idle, if a few tries find one.
    fn start_with_idle(&mut self, node: u32) -> bool {
        let Node { first, n_jobs, cursor, .. } = self.nodes[node as usize];
        let mut k = if cursor < n_jobs { cursor } else { 0 };
        for _ in 0..PROBES.min(n_jobs as usize) {
            let job = self.jobs_of[(first + k) as usize];
            k = if k + 1 < n_jobs { k + 1 } else { 0 };
            if self.nodes[self.partner(job, node) as usize].running == NONE {
                self.nodes[node as usize].cursor = k;
                self.start(job);
                return true;
            }
        }
        self.nodes[node as usize].cursor = k;
        false
    }

    /// Puts the tight node `source` to work along a shortest alternating path.
    fn start_by_path(&mut self, source: u32) {
        self.search += 1;
        self.queue.clear();
        self.queue.push(Visit { node: source, job: NONE, parent: NONE });
        let mut head = 0;
        while head < self.queue.len() {
            let Visit { node, .. } = self.queue[head];
            let Node { first, n_jobs, running, .. } = self.nodes[node as usize];
            for k in first..first + n_jobs {
                let job = self.jobs_of[k as usize];
                let partner = self.partner(job, node);
                if job == running || self.seen[partner as usize] == self.search {
                    continue;
                }
                self.seen[partner as usize] = self.search;
                let taken = self.nodes[partner as usize].running;
                let visit = Visit { node: NONE, job, parent: head as u32 };
                if taken == NONE {
                    return self.switch(visit);
                }
                let rival = self.partner(taken, partner);
                if !self.is_tight(rival) {
                    self.ready.push(rival);
                    return self.switch(visit);
                }
                self.queue.push(Visit { node: rival, ..visit });
            }
            head += 1;
        }
        unreachable!("some matching covers all tight nodes");
    }

    /// Starts the jobs on the path that ends with `last`, each in place of the one that its partner runs.
    fn switch(&mut self, last: Visit) {
        let mut visit = last;
        while visit.job != NONE {
            let parent = self.queue[visit.parent as usize];
            let partner = self.partner(visit.job, parent.node);
            match self.nodes[partner as usize].running {
                NONE => {}
                taken => self.pause(taken),
            }
            visit = parent;
        }
        let mut visit = last;
        while visit.job != NONE {
            self.start(visit.job);
            visit = self.queue[visit.parent as usize];
        }
    }

    fn start(&mut self, id: u32) {
        let job = &mut self.jobs[id as usize];
        job.since = self.now;
        for node in job.nodes {
            let node = &mut self.nodes[node as usize];
            node.slack -= self.now - node.idle_since;
            node.running = id;
        }
        self.events.push(Reverse((self.now + job.left, id)));
    }

    fn pause(&mut self, id: u32) {
        let job = &mut self.jobs[id as usize];
        let amount = self.now - job.since;
        if amount > 0 {
            (self.emit)(id as usize, job.since, amount);
        }
        job.left -= amount;
        let (nodes, done) = (job.nodes, job.left == 0);
        for node in nodes {
            let node = &mut self.nodes[node as usize];
            node.running = NONE;
            node.idle_since = self.now;
        }
        if done {
            self.forget(id);
        }
    }

    /// Takes a finished job off the lists of its nodes.
    fn forget(&mut self, id: u32) {
        for side in 0..2 {
            let Job { nodes, places, .. } = self.jobs[id as usize];
            let node = &mut self.nodes[nodes[side] as usize];
            node.n_jobs -= 1;
            let last = self.jobs_of[(node.first + node.n_jobs) as usize];
            self.jobs_of[(node.first + places[side]) as usize] = last;
            self.jobs[last as usize].places[side] = places[side];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{Draw, Seeded};

    /// Schedules, and checks that nothing overlaps, all is moved, and the length is the least possible.
    fn check(cells: &[Cell], n_rows: usize, n_columns: usize) -> usize {
        let length = length(cells, n_rows, n_columns);
        let mut moved = vec![0; cells.len()];
        let mut runs = Vec::new();
        schedule(cells.to_vec(), n_rows, n_columns, length, |cell, start, amount| {
            moved[cell] += amount;
            runs.push((0, cells[cell].row, start, start + amount));
            runs.push((1, cells[cell].column, start, start + amount));
        });
        let wanted: Vec<u64> = cells.iter().map(|c| c.amount).collect();
        assert_eq!(moved, wanted);
        assert!(runs.iter().all(|r| r.3 <= length));
        runs.sort_unstable();
        for pair in runs.windows(2) {
            let same_node = (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1);
            assert!(!same_node || pair[0].3 <= pair[1].2, "{pair:?}");
        }
        runs.len() / 2
    }

    #[test]
    fn random_matrices_take_their_fullest_row_or_column() {
        let mut draw = Seeded::new(5);
        for round in 0..2000 {
            let (rows, columns) = (1 + draw.below(8), 1 + draw.below(8));
            let largest = [3, 50, 1_000_000_000][round % 3];
            let cells: Vec<Cell> = (0..draw.below(rows * columns + 1))
                .map(|_| Cell {
                    row: draw.below(rows),
                    column: draw.below(columns),
                    amount: u64::from(draw.below(largest)) + 1,
                })
                .collect();
            check(&cells, rows as usize, columns as usize);
        }
    }

    #[test]
    fn a_balanced_matrix_has_no_slack_anywhere() {
        let mut draw = Seeded::new(6);
        let n = 40;
        let mut amounts = vec![0; (n * n) as usize];
        for _ in 0..60 {
            let mut permutation: Vec<u32> = (0..n).collect();
            (1..n as usize).rev().for_each(|i| permutation.swap(i, draw.below(i as u32 + 1) as usize));
            let amount = u64::from(draw.below(1_000_000));
            (0..n).for_each(|i| amounts[(i * n + permutation[i as usize]) as usize] += amount);
        }
        let cells: Vec<Cell> =
            (0..n * n).map(|i| Cell { row: i / n, column: i % n, amount: amounts[i as usize] }).collect();
        let runs = check(&cells, n as usize, n as usize);
        assert!(runs < 8 * cells.len(), "{runs} runs");
    }
}
