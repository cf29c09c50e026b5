//! Preemptive open shop (Gonzalez and Sahni): amounts between rows and columns. Each row and each column does one thing
//! at a time, and everything is done in the time of the fullest of them. The cost does not grow with the amounts.
//!
//! Time runs from event to event. A node (row or column) is *tight* when its remaining work takes all the remaining
//! time. Tight nodes must be busy without a break. Since a matching that covers all tight nodes always exists, an
//! alternating path puts each of them to work: it ends at an idle node or takes over from a node that is not tight. A
//! node that is not tight runs when it finds an idle partner, so that little time is spent idle and few transfers are
//! interrupted. The textbook's padding to a balanced matrix is not needed.
//!
//! A row may reach some columns only over a *bridge*: what a row moves through the bridge's own column goes through one
//! of two other columns at the same time, so that it is never in both at once. A bridge is one more row, busy all the
//! time: with its own column while no other row is, else with one of the two others.
//!
//! A column may be *released* later than the start. A matching that covers all tight nodes may then not exist, and the
//! attempt fails. It succeeds whenever release + max(row, column) is within the length for every cell: a row is then
//! never tight while one of its columns is not yet released.

mod agenda;
pub(crate) mod greedy;
mod links;

use agenda::Agenda;
use links::{Link, Links};

const NONE: u32 = u32::MAX;
/// Stands for the job of a column that is not yet released.
const BUSY: u32 = u32::MAX - 1;
/// How many of its cells a node that may wait tries in order to find an idle partner.
const PROBES: u32 = 32;
/// The same limit during a search for a path.
const GLANCES: u32 = 32;

/// An amount to be moved between a row and a column. Each row and each column moves one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    /// Its row.
    pub row: u32,
    /// Its column.
    pub column: u32,
    /// The amount, in units of time.
    pub amount: u64,
}

/// The problem to be scheduled.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    /// The amounts to be moved.
    pub cells: Vec<Cell>,
    /// The number of rows.
    pub n_rows: usize,
    /// When each column can begin; the column of a bridge can begin at once.
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

    /// The same matrix without bridges: each becomes a row that is busy all the time.
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

    /// A lower bound on the length of any schedule, and a length that some schedule does not exceed.
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
            // When all columns are released, the remaining work can still be done in the time of the fullest.
            let fullest = sums.iter().copied().max().unwrap_or(0);
            guaranteed = guaranteed.max(self.releases.iter().copied().max().unwrap_or(0) + fullest);
        }
        (least, guaranteed)
    }
}

/// Schedules all cells within `length`, which no row and no column may exceed. Returns whether it succeeded.
///
/// Calls `emit(cell, start, amount)` for each uninterrupted run, in order of time for each cell.
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

struct Node {
    /// How long it may still be idle, as of the last start.
    slack: u64,
    /// Since when it has been running a job or idle.
    since: u64,
    /// When its job is done or, if it is idle, when it becomes tight.
    due: u64,
    /// The job that runs.
    running: u32,
    /// The other node of that job.
    mate: u32,
    /// The number of unfinished jobs.
    n_jobs: u32,
    /// Whether an event will check it, when it becomes tight or before.
    has_alarm: bool,
}

struct Shop<E> {
    /// The remaining amount of each job, as of its last pause.
    left: Vec<u64>,
    nodes: Vec<Node>,
    links: Links,
    emit: E,
    now: u64,
    /// Times at which the job of a row may be done (ids below the number of nodes) or an idle node may become tight.
    agenda: Agenda,
    /// Idle nodes to be checked.
    ready: Vec<u32>,
    // State of the search for a path:
    seen: Vec<u32>,
    search: u32,
    queue: Vec<Visit>,
}

/// A node reached by a search: from the node at `parent` in the queue over `link`, whose partner runs with it.
#[derive(Clone, Copy)]
struct Visit {
    node: u32,
    link: Link,
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
            .map(|(&sum, release)| {
                // A column without work may be released after the end.
                let slack = (length - sum).saturating_sub(release);
                Node {
                    slack,
                    since: release,
                    due: release + slack,
                    running: if release > 0 { BUSY } else { NONE },
                    mate: NONE,
                    n_jobs: 0,
                    has_alarm: false,
                }
            })
            .collect();
        let ends_of = |cell: &Cell| [cell.row, *n_rows as u32 + cell.column];
        let mut links = Links::new(*n_rows, nodes.len() - n_rows, cells.iter().map(ends_of));
        (0..).zip(&nodes).for_each(|(id, node): (u32, &Node)| links.set_idle(id, node.running == NONE));
        for (id, cell) in (0..).zip(cells) {
            if cell.amount > 0 {
                ends_of(cell).iter().for_each(|&node| nodes[node as usize].n_jobs += 1);
            } else {
                links.remove(id, ends_of(cell));
            }
        }
        let ready = (0..nodes.len() as u32).collect();
        let seen = vec![0; nodes.len()];
        let late = (0..).zip(&nodes).filter(|(_, node)| node.running == BUSY && node.n_jobs > 0);
        let mut agenda = Agenda::new();
        late.for_each(|(id, node)| agenda.put(node.since, nodes.len() as u32 + id));
        let left = cells.iter().map(|cell| cell.amount).collect();
        Self { left, nodes, links, emit, now: 0, agenda, ready, seen, search: 0, queue: Vec::new() }
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

    /// Starts the nodes that must run now and those that can. Returns false if not all that must can.
    fn put_to_work(&mut self) -> bool {
        // Nodes from which a tight one takes over are added here; they are not tight.
        for k in 0..self.ready.len() {
            let node = self.ready[k];
            let must = self.waits(node) && self.is_tight(node);
            if must && !self.start_with_idle(node, u32::MAX) && !self.start_by_path(node) {
                return false;
            }
        }
        let mut ready = std::mem::take(&mut self.ready);
        // The node with the least time to idle comes first.
        ready.sort_by_key(|&node| self.nodes[node as usize].due);
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

    /// Advances to the next event. Returns false when everything is done.
    fn advance(&mut self) -> bool {
        while self.ready.is_empty() {
            let Some(now) = self.agenda.advance() else { return false };
            self.now = now;
            while let Some(id) = self.agenda.take() {
                match id.checked_sub(self.nodes.len() as u32) {
                    None => self.on_end(id),
                    Some(node) => self.on_alarm(node),
                }
            }
        }
        true
    }

    /// The job of a row may be done.
    fn on_end(&mut self, row: u32) {
        let Node { running, mate, due, .. } = self.nodes[row as usize];
        if running != NONE && due == self.now {
            self.pause([row, mate]);
            self.ready.extend([row, mate]);
        }
    }

    /// A column is released, or an idle node may be tight.
    fn on_alarm(&mut self, id: u32) {
        let node = &mut self.nodes[id as usize];
        node.has_alarm = false;
        if node.running == BUSY {
            node.running = NONE;
            self.links.set_idle(id, true);
            self.ready.push(id);
        } else if self.waits(id) && self.is_tight(id) {
            self.ready.push(id);
        } else if self.waits(id) {
            // It has worked since the alarm was set, so it may stay idle.
            self.set_alarm(id);
        }
    }

    /// Whether the node is idle although it has work.
    fn waits(&self, node: u32) -> bool {
        let node = &self.nodes[node as usize];
        node.running == NONE && node.n_jobs > 0
    }

    fn is_tight(&self, node: u32) -> bool {
        let node = &self.nodes[node as usize];
        if node.running == NONE { node.due == self.now } else { node.slack == 0 }
    }

    fn set_alarm(&mut self, id: u32) {
        let n_nodes = self.nodes.len() as u32;
        let node = &mut self.nodes[id as usize];
        node.has_alarm = true;
        self.agenda.put(node.due, n_nodes + id);
    }

    /// Starts a job of `node` whose other node is idle, if this many tries find one.
    fn start_with_idle(&mut self, node: u32, tries: u32) -> bool {
        let found = self.find_idle(node, tries);
        found.inspect(|&link| self.start(node, link)).is_some()
    }

    /// A job of `node` whose other node is idle, if this many tries find one.
    fn find_idle(&mut self, node: u32, tries: u32) -> Option<Link> {
        let nodes = &self.nodes;
        self.links.find_idle(node, tries, |partner| nodes[partner as usize].running == NONE)
    }

    /// Puts the tight node `source` to work along a shortest alternating path, if there is one.
    fn start_by_path(&mut self, source: u32) -> bool {
        self.search += 1;
        self.queue.clear();
        self.queue.push(Visit { node: source, link: Link { job: NONE, partner: NONE }, parent: NONE });
        let mut head = 0;
        while head < self.queue.len() {
            let Visit { node, .. } = self.queue[head];
            let running = self.nodes[node as usize].running;
            let mut position = 0;
            while let Some((link, next)) = self.links.next(node, position) {
                position = next;
                let partner = link.partner as usize;
                if link.job == running || self.seen[partner] == self.search {
                    continue;
                }
                self.seen[partner] = self.search;
                let Node { running: taken, mate: rival, .. } = self.nodes[partner];
                if taken == BUSY {
                    continue;
                }
                let visit = Visit { node: rival, link, parent: head as u32 };
                if taken == NONE {
                    self.switch(visit);
                    return true;
                }
                if !self.is_tight(rival) {
                    self.ready.push(rival);
                    self.switch(visit);
                    return true;
                }
                let parent = self.queue.len() as u32;
                self.queue.push(visit);
                // A quick look ahead mostly saves the search.
                if let Some(link) = self.find_idle(rival, GLANCES) {
                    self.switch(Visit { node: NONE, link, parent });
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
        while visit.parent != NONE {
            let partner = visit.link.partner;
            let Node { running, mate, .. } = self.nodes[partner as usize];
            if running != NONE {
                self.pause([partner.min(mate), partner.max(mate)]);
            }
            visit = self.queue[visit.parent as usize];
        }
        let mut visit = last;
        while visit.parent != NONE {
            let parent = self.queue[visit.parent as usize];
            self.start(parent.node, visit.link);
            visit = parent;
        }
    }

    fn start(&mut self, node: u32, Link { job, partner }: Link) {
        let due = self.now + self.left[job as usize];
        self.agenda.put(due, node.min(partner));
        for (node, mate) in [(node, partner), (partner, node)] {
            self.links.set_idle(node, false);
            let node = &mut self.nodes[node as usize];
            node.slack -= self.now - node.since;
            (node.since, node.due) = (self.now, due);
            (node.running, node.mate) = (job, mate);
        }
    }

    /// Ends or interrupts the job of a row and a column.
    fn pause(&mut self, ends: [u32; 2]) {
        let Node { running: job, since, due, .. } = self.nodes[ends[0] as usize];
        let amount = self.now - since;
        if amount > 0 {
            (self.emit)(job as usize, since, amount);
        }
        let left = due - self.now;
        for node in ends {
            self.links.set_idle(node, true);
            let node = &mut self.nodes[node as usize];
            node.running = NONE;
            node.n_jobs -= u32::from(left == 0);
            (node.since, node.due) = (self.now, self.now + node.slack);
        }
        if left == 0 {
            self.links.remove(job, ends);
        } else {
            self.left[job as usize] = left;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{Draw, Seeded};

    /// Schedules the cells, and checks that nothing overlaps, everything is moved, and the length is the least
    /// possible.
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
