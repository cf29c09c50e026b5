//! Preemptive open shop (Gonzalez and Sahni): amounts between rows and columns, each row and each column busy
//! with one thing at a time, done in the time of the fullest of them. The cost does not grow with the amounts.
//!
//! Time runs from event to event. A node (row or column) is *tight* when what it still has to do takes all the
//! time that is left; tight nodes must be busy without a break, and as a matching that covers all tight nodes always
//! exists, an alternating path puts each of them to work: it ends at an idle node or takes over from a node
//! that is not tight. Whatever is not tight runs when it finds an idle partner, so little time
//! is idled away and few transfers are interrupted. The textbook's padding to a balanced matrix is not needed.
//!
//! A row may reach some columns only over a *bridge*: what a row moves through the bridge's own column goes through one of
//! two other columns at the same time, so that it is never in both at once. A bridge is one more row, busy all the time:
//! with its column while nobody else is, else with one of the two others.
//!
//! A column may be *released* only later. Then a matching that covers all tight nodes may not exist, and the attempt
//! fails; it succeeds whenever release + max(row, column) is within the length for every cell: a row is then never
//! tight while one of its columns is not yet released.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::links::{Link, Links};

const NONE: u32 = u32::MAX;
/// Stands for the job of a column that is not yet released.
const BUSY: u32 = u32::MAX - 1;
/// How many of its cells a node that may wait tries in search of an idle partner.
const PROBES: u32 = 32;
/// The same during a search for a path.
const GLANCES: u32 = 32;

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

/// What is to be scheduled.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    /// What is to be moved.
    pub cells: Vec<Cell>,
    /// The number of rows.
    pub n_rows: usize,
    /// When each column can begin; the column of a bridge at once.
    pub releases: Vec<u64>,
    /// Columns that lead to others.
    pub bridges: Vec<Bridge>,
}

/// A column whose cells go through two others, one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bridge {
    /// The column that rows use.
    pub column: u32,
    /// The columns behind it, and how much goes through each.
    pub through: [(u32, u64); 2],
}

impl Matrix {
    /// The sums of the rows, then of the columns.
    fn sums(&self) -> Vec<u64> {
        let mut sums = vec![0; self.n_rows + self.releases.len()];
        for cell in &self.cells {
            sums[cell.row as usize] += cell.amount;
            sums[self.n_rows + cell.column as usize] += cell.amount;
        }
        for (column, amount) in self.bridges.iter().flat_map(|bridge| bridge.through) {
            sums[self.n_rows + column as usize] += amount;
        }
        sums
    }

    /// The same without bridges: each is a row instead, that has something to do all the time.
    fn without_bridges(&self, length: u64) -> Self {
        let mut cells = self.cells.clone();
        for (row, Bridge { column, through }) in (self.n_rows as u32..).zip(&self.bridges) {
            let idle = length - through[0].1 - through[1].1;
            let all = through.iter().copied().chain([(*column, idle)]);
            cells.extend(all.map(|(column, amount)| Cell { row, column, amount }));
        }
        let n_rows = self.n_rows + self.bridges.len();
        Self { cells, n_rows, releases: self.releases.clone(), bridges: Vec::new() }
    }

    /// No schedule is shorter than this, and some schedule is no longer than that.
    pub(crate) fn range(&self) -> (u64, u64) {
        let sums = self.sums();
        let (rows, columns) = sums.split_at(self.n_rows);
        let column_ends =
            columns.iter().zip(&self.releases).filter(|(sum, _)| **sum > 0).map(|(sum, r)| sum + r);
        let least = rows.iter().copied().chain(column_ends).max().unwrap_or(0);
        let guaranteed = self.cells.iter().map(|cell| {
            let (row, column) = (cell.row as usize, cell.column as usize);
            self.releases[column] + rows[row].max(columns[column])
        });
        let mut guaranteed = guaranteed.max().unwrap_or(0).max(least);
        if !self.bridges.is_empty() {
            // When all columns are released, whatever is left can still be done in the time of the fullest.
            let fullest = sums.iter().copied().max().unwrap_or(0);
            guaranteed = guaranteed.max(self.releases.iter().copied().max().unwrap_or(0) + fullest);
        }
        (least, guaranteed)
    }
}

/// Schedules all cells within `length`, which no row and no column may exceed; tells whether it could.
///
/// Calls `emit(cell, start, amount)` for each uninterrupted run, for each cell in order of time.
pub(crate) fn schedule(matrix: &Matrix, length: u64, mut emit: impl FnMut(usize, u64, u64)) -> bool {
    if matrix.bridges.is_empty() {
        return Shop::new(matrix, length, emit).run();
    }
    let n_cells = matrix.cells.len();
    let emit_cells = |cell, start, amount| {
        if cell < n_cells {
            emit(cell, start, amount);
        }
    };
    Shop::new(&matrix.without_bridges(length), length, emit_cells).run()
}

/// A time and an id in one number, which is quickly compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Event(u128);

impl Event {
    fn new(time: u64, id: u32) -> Self {
        Self(u128::from(time) << 32 | u128::from(id))
    }

    fn time(self) -> u64 {
        (self.0 >> 32) as u64
    }

    fn id(self) -> u32 {
        self.0 as u32
    }
}

struct Job {
    nodes: [u32; 2],
    /// What is left, as of the last pause.
    left: u64,
    /// When it started, if it runs.
    since: u64,
}

struct Node {
    /// How long it may still be idle, as of the last start.
    slack: u64,
    idle_since: u64,
    running: u32,
    /// The other node of the job that runs.
    mate: u32,
    /// How many unfinished jobs it has.
    n_jobs: u32,
    /// Whether an event will look at it, when it becomes tight or before.
    has_alarm: bool,
}

struct Shop<E> {
    jobs: Vec<Job>,
    nodes: Vec<Node>,
    links: Links,
    emit: E,
    now: u64,
    /// Times at which a job may be done (ids below the number of jobs) or an idle node become tight.
    events: BinaryHeap<Reverse<Event>>,
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
    fn new(matrix: &Matrix, length: u64, emit: E) -> Self {
        let sums = matrix.sums();
        let Matrix { cells, n_rows, releases, .. } = matrix;
        let releases = std::iter::repeat_n(0, *n_rows).chain(releases.iter().copied());
        let mut nodes: Vec<Node> = sums
            .iter()
            .zip(releases)
            .map(|(&sum, release)| Node {
                // A column without work may be released after the end.
                slack: (length - sum).saturating_sub(release),
                idle_since: release,
                running: if release > 0 { BUSY } else { NONE },
                mate: NONE,
                n_jobs: 0,
                has_alarm: false,
            })
            .collect();
        let jobs: Vec<Job> = cells
            .iter()
            .map(|cell| Job { nodes: [cell.row, *n_rows as u32 + cell.column], left: cell.amount, since: 0 })
            .collect();
        let mut links = Links::new(*n_rows, nodes.len() - n_rows, jobs.iter().map(|job| job.nodes));
        (0..).zip(&nodes).for_each(|(id, node): (u32, &Node)| links.set_idle(id, node.running == NONE));
        for (id, job) in (0..).zip(&jobs) {
            if job.left > 0 {
                job.nodes.iter().for_each(|&node| nodes[node as usize].n_jobs += 1);
            } else {
                links.remove(id, job.nodes);
            }
        }
        let ready = (0..nodes.len() as u32).collect();
        let seen = vec![0; nodes.len()];
        let late = (0..).zip(&nodes).filter(|(_, node)| node.running == BUSY && node.n_jobs > 0);
        let released = late.map(|(id, node)| Reverse(Event::new(node.idle_since, jobs.len() as u32 + id)));
        let events: BinaryHeap<_> = released.collect();
        Self { jobs, nodes, links, emit, now: 0, events, ready, seen, search: 0, queue: Vec::new() }
    }

    fn run(&mut self) -> bool {
        loop {
            if !self.put_to_work() {
                return false;
            }
            if !self.advance() {
                return true;
            }
        }
    }

    /// Starts what must and what can run now; false if not all that must can.
    fn put_to_work(&mut self) -> bool {
        // Nodes from which a tight one takes over join them; they are not tight.
        for k in 0..self.ready.len() {
            let node = self.ready[k];
            let must = self.waits(node) && self.is_tight(node);
            if must && !self.start_with_idle(node, u32::MAX) && !self.start_by_path(node) {
                return false;
            }
        }
        let mut ready = std::mem::take(&mut self.ready);
        // Who may idle least comes first.
        ready.sort_by_key(|&node| self.tight_at(node));
        for &node in &ready {
            if self.waits(node) {
                self.start_with_idle(node, PROBES);
            }
        }
        for &node in &ready {
            if self.waits(node) && !self.nodes[node as usize].has_alarm {
                self.set_alarm(node);
            }
        }
        self.ready = ready;
        self.ready.clear();
        true
    }

    /// Goes to the next time at which something happens; false when all is done.
    fn advance(&mut self) -> bool {
        while let Some(Reverse(event)) = self.events.peek() {
            let (time, id) = (event.time(), event.id());
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
                if self.nodes[node as usize].running == BUSY {
                    self.nodes[node as usize].running = NONE;
                    self.links.set_idle(node, true);
                    self.now = time;
                    self.ready.push(node);
                } else if self.waits(node) && self.tight_at(node) == time {
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
        self.events.push(Reverse(Event::new(self.tight_at(node), self.jobs.len() as u32 + node)));
    }

    fn partner(&self, job: u32, node: u32) -> u32 {
        let [row, column] = self.jobs[job as usize].nodes;
        if row == node { column } else { row }
    }

    /// Starts a job of `node` whose other node is idle, if so many tries find one.
    fn start_with_idle(&mut self, node: u32, probes: u32) -> bool {
        let found = self.find_idle(node, probes);
        found.inspect(|&job| self.start(job)).is_some()
    }

    /// A job of `node` whose other node is idle, if so many tries find one.
    fn find_idle(&mut self, node: u32, tries: u32) -> Option<u32> {
        let nodes = &self.nodes;
        self.links.find_idle(node, tries, |partner| nodes[partner as usize].running == NONE)
    }

    /// Puts the tight node `source` to work along a shortest alternating path, if there is one.
    fn start_by_path(&mut self, source: u32) -> bool {
        self.search += 1;
        self.queue.clear();
        self.queue.push(Visit { node: source, job: NONE, parent: NONE });
        let mut head = 0;
        while head < self.queue.len() {
            let Visit { node, .. } = self.queue[head];
            let running = self.nodes[node as usize].running;
            let mut position = 0;
            while let Some((Link { job, partner }, next)) = self.links.next(node, position) {
                position = next;
                if job == running || self.seen[partner as usize] == self.search {
                    continue;
                }
                self.seen[partner as usize] = self.search;
                let taken = self.nodes[partner as usize].running;
                if taken == BUSY {
                    continue;
                }
                let visit = Visit { node: NONE, job, parent: head as u32 };
                if taken == NONE {
                    self.switch(visit);
                    return true;
                }
                let rival = self.nodes[partner as usize].mate;
                if !self.is_tight(rival) {
                    self.ready.push(rival);
                    self.switch(visit);
                    return true;
                }
                let parent = self.queue.len() as u32;
                self.queue.push(Visit { node: rival, ..visit });
                // A glance ahead mostly saves the search.
                if let Some(job) = self.find_idle(rival, GLANCES) {
                    self.switch(Visit { node: NONE, job, parent });
                    return true;
                }
            }
            head += 1;
        }
        false
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
        let [row, column] = job.nodes;
        self.events.push(Reverse(Event::new(self.now + job.left, id)));
        for (node, mate) in [(row, column), (column, row)] {
            self.links.set_idle(node, false);
            let node = &mut self.nodes[node as usize];
            node.slack -= self.now - node.idle_since;
            (node.running, node.mate) = (id, mate);
        }
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
            self.links.set_idle(node, true);
            let node = &mut self.nodes[node as usize];
            node.running = NONE;
            node.idle_since = self.now;
        }
        if done {
            nodes.iter().for_each(|&node| self.nodes[node as usize].n_jobs -= 1);
            self.links.remove(id, nodes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{Draw, Seeded};

    /// Schedules, and checks that nothing overlaps, all is moved, and the length is the least possible.
    fn check(cells: &[Cell], n_rows: usize, n_columns: usize) -> usize {
        let releases = vec![0; n_columns];
        let matrix = Matrix { cells: cells.to_vec(), n_rows, releases, bridges: Vec::new() };
        let (length, guaranteed) = matrix.range();
        assert_eq!(length, guaranteed);
        check_within(&matrix, length)
    }

    fn check_within(matrix: &Matrix, length: u64) -> usize {
        let cells = &matrix.cells;
        let mut moved = vec![0; cells.len()];
        let mut runs = Vec::new();
        let done = schedule(matrix, length, |cell, start, amount| {
            moved[cell] += amount;
            assert!(start >= matrix.releases[cells[cell].column as usize]);
            runs.push((0, cells[cell].row, start, start + amount));
            runs.push((1, cells[cell].column, start, start + amount));
        });
        assert!(done);
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
