//! Orders parts of any size on servers of any speed: preemptive open shop on lanes.
//!
//! A server with several slots has several lanes, which share its time evenly; the rows of a client with several slots
//! do the same. Time is counted in whole ticks ([`Clock`]), which are blocks where all speeds are 1. Otherwise a lane
//! may end within a block, which continues in the next lane. The block must never be in both lanes at once: where the
//! client could do that, a bridge leads to the two lanes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::graph::clock::Clock;
use crate::graph::open_shop::{self, Bridge, Cell, Matrix};
use crate::model::{Batch, Choice, Cluster, Fixed, Part, Ratio, Schedule, Server, ServerId, Transfer};

/// How many lengths between the lower bound and the guaranteed length are tried.
const ATTEMPTS: u32 = 12;
/// Ticks are only so fine that no time exceeds this many of them.
const MOST_TICKS: f64 = (1_u64 << 62) as f64;

pub(super) fn order(batch: &Batch, cluster: &Cluster, choice: &Choice) -> Schedule {
    let clock = clock(batch, cluster, choice);
    let lanes = Lanes::new(batch, cluster, choice, &clock);
    let runs = lanes.shortest(cluster);
    let mut length = clock.time(runs.end);
    let (starts, others) = lanes.intervals(batch, &runs);
    // Frees the memory that the transfers need.
    drop((lanes, runs));
    let transfers = transfers(batch, choice, &clock, &starts, others);
    if !clock.is_exact() {
        // Long ticks are rounded up, and the resulting transfers end earlier.
        length = length.min(last_end(cluster, &transfers));
    }
    Schedule { transfers, length }
}

/// When the last transfer ends, as recorded, plus a billionth for each number that is rounded.
fn last_end(cluster: &Cluster, transfers: &[Transfer]) -> Ratio {
    let end = |t: &Transfer| {
        let speed = u128::from(cluster.server(t.server).speed.millionths());
        let nano_blocks = t.blocks.nanos() + u128::from(t.blocks.whole().is_none());
        t.start.nanos() + 1 + (nano_blocks * 1_000_000).div_ceil(speed)
    };
    Ratio::new(transfers.iter().map(end).max().unwrap_or(0), 1_000_000_000)
}

/// A clock whose ticks can count the longest schedule that may be needed.
fn clock(batch: &Batch, cluster: &Cluster, choice: &Choice) -> Clock {
    let units = |blocks: u64, server: &Server| blocks as f64 / server.speed.millionths() as f64;
    let latest = |servers: &mut dyn Iterator<Item = &Server>| {
        servers.map(|server| units(server.busy(), server)).fold(0.0, f64::max)
    };
    let up_to = |time: f64| {
        let most = MOST_TICKS / time.max(f64::MIN_POSITIVE);
        Clock::new(cluster, most as u64)
    };
    // Mostly even a schedule of one transfer after the other can be counted.
    let of_block: Vec<f64> = cluster.servers().iter().map(|server| units(1, server)).collect();
    let slowest = of_block.iter().copied().fold(0.0, f64::max);
    let clock = up_to(latest(&mut cluster.servers().iter()) + slowest * batch.total_blocks() as f64);
    if clock.is_exact() {
        return clock;
    }
    let mut work = vec![0.0; batch.n_clients()];
    for part in choice.parts(batch) {
        work[batch.client(part.request as usize).index()] +=
            part.blocks as f64 * of_block[part.server.index()];
    }
    let loads = choice.loads(batch);
    let serving = || cluster.servers().iter().zip(&loads).filter(|(_, load)| **load > 0);
    let longest = serving().map(|(s, &load)| units(load, s)).chain(work).fold(0.0, f64::max);
    up_to(latest(&mut serving().map(|(s, _)| s)) + longest)
}

/// Stands for an unknown start.
const NONE: u64 = u64::MAX;

/// The share of one lane in a part, that is, in the blocks that a server serves of a request.
#[derive(Clone, Copy, Debug)]
struct Piece {
    request: u32,
    lane: u32,
    /// The blocks of the whole part.
    blocks: u64,
    /// The ticks of the part that go elsewhere before this piece.
    from: u64,
    ticks: u64,
}

/// Where the blocks of a cell begin: in this piece, after this many of its ticks.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    cell: u32,
    piece: u32,
    ticks: u64,
}

/// The uninterrupted runs of all cells. Nearly all cells have one run.
#[derive(Debug)]
struct Runs {
    /// When each cell starts. Its first run takes what the further runs leave.
    starts: Vec<u64>,
    /// The further runs of each cell, by time.
    further: Vec<Run>,
    /// When the last run ends.
    end: u64,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    cell: u32,
    start: u64,
    ticks: u64,
}

/// Pieces by client and lane, and the cells that they form.
struct Lanes<'a> {
    clock: &'a Clock,
    pieces: Vec<Piece>,
    /// The server of each lane.
    servers: Vec<ServerId>,
    matrix: Matrix,
    /// Where cells begin, unless it is where the cell before ends.
    cursors: Vec<Cursor>,
}

impl<'a> Lanes<'a> {
    fn new(batch: &Batch, cluster: &Cluster, choice: &Choice, clock: &'a Clock) -> Self {
        let client = |part: &Part| batch.client(part.request as usize);
        let parts = choice.parts(batch).filter(|part| part.blocks > 0);
        let by_server = sorted_by(parts, batch.n_servers(), |part| part.server.0);
        let parts = sorted_by(by_server.iter().copied(), batch.n_clients(), |part| client(part).0);
        drop(by_server);
        let (mut columns, least) = Columns::new(batch, cluster, clock, &parts);

        let mut pieces: Vec<Piece> = Vec::with_capacity(parts.len() + columns.servers.len());
        let releases = columns.servers.iter().map(|&server| release(clock, cluster, server)).collect();
        let mut matrix =
            Matrix { cells: Vec::with_capacity(parts.len()), n_rows: 0, releases, bridges: Vec::new() };
        let mut cursors = Vec::new();
        let mut cells: Vec<(Cell, u32)> = Vec::new();
        for of_client in parts.chunk_by(|a, b| client(a) == client(b)) {
            let slots = u64::from(cluster.client(client(&of_client[0])).slots);
            let first = pieces.len();
            for part in of_client {
                columns.cut(part, clock.at_most(part.blocks, part.server), slots > 1, &mut pieces);
            }
            // A bridge takes no time of its own.
            matrix.releases.resize(columns.servers.len(), 0);
            cells.clear();
            for (i, piece) in (first as u32..).zip(&pieces[first..]) {
                match cells.last_mut() {
                    Some((cell, _)) if cell.column == piece.lane => cell.amount += piece.ticks,
                    _ => cells.push((Cell { row: 0, column: piece.lane, amount: piece.ticks }, i)),
                }
            }
            let work: u64 = cells.iter().map(|(cell, _)| cell.amount).sum();
            let n_rows = slots.min(work.div_ceil(least.max(1)).max(cells.len() as u64));
            if n_rows > 1 {
                // Cells that can only start late go first, so that each row gets its share of them.
                cells.sort_by_key(|(cell, _)| Reverse(matrix.releases[cell.column as usize]));
                let ticks_of = |i: u32| pieces[i as usize].ticks;
                spread(&cells, n_rows, work.div_ceil(n_rows), ticks_of, &mut matrix, &mut cursors);
            } else {
                let row = matrix.n_rows as u32;
                cursors.push(Cursor { cell: matrix.cells.len() as u32, piece: first as u32, ticks: 0 });
                matrix.cells.extend(cells.iter().map(|(cell, _)| Cell { row, ..*cell }));
            }
            matrix.n_rows += n_rows as usize;
        }
        matrix.bridges = columns.bridges;
        Self { clock, pieces, servers: columns.servers, matrix, cursors }
    }

    /// The shortest schedule that a few attempts find.
    fn shortest(&self, cluster: &Cluster) -> Runs {
        let (mut least, mut guaranteed) = self.matrix.range();
        if let Some(limit) = cluster.max_concurrent() {
            let total = self.matrix.cells.iter().map(|cell| cell.amount).sum::<u64>().div_ceil(limit);
            least = least.max(total);
            guaranteed = guaranteed.max(total);
        }
        if let Some(found) = self.greedy(cluster, least).or_else(|| self.attempt(cluster, least)) {
            return found;
        }
        // Searches between a length that failed and one that cannot fail.
        let mut best = None;
        for _ in 0..ATTEMPTS {
            if least + 1 >= guaranteed {
                break;
            }
            let middle = least + (guaranteed - least) / 2;
            match self.attempt(cluster, middle) {
                Some(runs) => {
                    guaranteed = runs.end;
                    best = Some(runs);
                }
                None => least = middle,
            }
        }
        let found = best.or_else(|| self.attempt(cluster, guaranteed));
        found.unwrap_or_else(|| unreachable!("this length is guaranteed"))
    }

    /// A schedule of at most this length, if it leaves so much time that a fast heuristic finds one.
    fn greedy(&self, cluster: &Cluster, length: u64) -> Option<Runs> {
        if cluster.max_concurrent().is_some() {
            return None;
        }
        let starts = open_shop::greedy::starts(&self.matrix, length)?;
        let end = self.matrix.cells.iter().zip(&starts).map(|(cell, start)| start + cell.amount).max()?;
        Some(Runs { starts, further: Vec::new(), end })
    }

    /// A schedule of at most this length, if one is found.
    fn attempt(&self, cluster: &Cluster, length: u64) -> Option<Runs> {
        let n_cells = self.matrix.cells.len();
        let limited = cluster.max_concurrent().map(|limit| keep_idle(self.matrix.clone(), limit, length));
        let matrix = limited.as_ref().unwrap_or(&self.matrix);
        let mut runs = Runs { starts: vec![NONE; n_cells], further: Vec::new(), end: 0 };
        let done = open_shop::schedule(matrix, length, |cell, start, ticks| {
            // The cells that keep rows and columns idle come after all others.
            let Some(first) = runs.starts.get_mut(cell) else { return };
            if *first == NONE {
                *first = start;
            } else {
                runs.further.push(Run { cell: cell as u32, start, ticks });
            }
            runs.end = runs.end.max(start + ticks);
        });
        done.then_some(runs)
    }

    /// What a schedule does when: the starts of requests that have one transfer, as nearly all have, and the transfers
    /// of the others, by request and start.
    fn intervals(&self, batch: &Batch, runs: &Runs) -> (Vec<u64>, Vec<Interval>) {
        let mut starts = vec![NONE; batch.n_requests()];
        let mut others: Vec<Interval> = Vec::new();
        let further = sorted_by(runs.further.iter().copied(), self.matrix.cells.len(), |run| run.cell);
        let mut further = further.chunk_by(|a, b| a.cell == b.cell).peekable();
        let mut cursors = self.cursors.iter().peekable();
        let mut at = Cursor { cell: 0, piece: 0, ticks: 0 };
        for ((id, cell), &start) in (0..).zip(&self.matrix.cells).zip(&runs.starts) {
            at = cursors.next_if(|cursor| cursor.cell == id).copied().unwrap_or(at);
            let rest = further.next_if(|rest| rest[0].cell == id).unwrap_or_default();
            let ticks = cell.amount - rest.iter().map(|run| run.ticks).sum::<u64>();
            let first = Run { cell: id, start, ticks };
            for &Run { mut start, ticks: mut left, .. } in std::iter::once(&first).chain(rest) {
                while left > 0 {
                    let Piece { request, lane, blocks, from, ticks } = self.pieces[at.piece as usize];
                    let server = self.servers[lane as usize];
                    let all = self.clock.at_most(blocks, server);
                    let taken = left.min(ticks - at.ticks);
                    if taken == all && blocks == batch.blocks(request as usize) {
                        starts[request as usize] = start;
                    } else {
                        let from = from + at.ticks;
                        let blocks = share(blocks, from, from + taken, all);
                        others.push(Interval { request, start, server, end: start + taken, blocks });
                    }
                    (start, left, at.ticks) = (start + taken, left - taken, at.ticks + taken);
                    if at.ticks == ticks {
                        at = Cursor { piece: at.piece + 1, ticks: 0, ..at };
                    }
                }
            }
        }
        others = sorted_by(others.iter().copied(), batch.n_requests(), |other| other.request);
        others.chunk_by_mut(|a, b| a.request == b.request).for_each(<[Interval]>::sort_unstable);
        others.dedup_by(|next, kept| kept.join(next));
        // An interval of less than a billionth of a block is part of the next one.
        others.retain(|other| !other.blocks.is_zero());
        (starts, others)
    }
}

/// A transfer of a part of a request, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Interval {
    request: u32,
    start: u64,
    server: ServerId,
    end: u64,
    blocks: Fixed,
}

impl Interval {
    /// Appends `next` if it continues where this interval ends. Returns whether it does.
    fn join(&mut self, next: &Self) -> bool {
        let continues = (self.request, self.server, self.end) == (next.request, next.server, next.start);
        if continues {
            self.end = next.end;
            let nanos = self.blocks.nanos() + next.blocks.nanos();
            self.blocks = Fixed::from_nanos(nanos).unwrap_or(self.blocks);
        }
        continues
    }
}

/// All transfers, by request and start: those of requests with a known start, and the others.
fn transfers(
    batch: &Batch,
    choice: &Choice,
    clock: &Clock,
    starts: &[u64],
    others: Vec<Interval>,
) -> Vec<Transfer> {
    let mut others = others.into_iter().peekable();
    let mut transfers = Vec::with_capacity(starts.len() + others.len());
    for ((request, &server), &start) in (0..).zip(&choice.servers).zip(starts) {
        let blocks = batch.blocks(request as usize);
        if start != NONE || blocks == 0 {
            let start = if blocks > 0 { clock.rounded(start) } else { Fixed::ZERO };
            transfers.push(Transfer { request, server, start, blocks: blocks.into() });
        }
        while let Some(Interval { start, server, blocks, .. }) = others.next_if(|t| t.request == request) {
            transfers.push(Transfer { request, server, start: clock.rounded(start), blocks });
        }
    }
    transfers
}

/// The blocks of a part that are moved between two of its ticks. The shares add up to whole blocks.
fn share(blocks: u64, from: u64, to: u64, all: u64) -> Fixed {
    const NANOS: u128 = 1_000_000_000;
    if to - from == all {
        return blocks.into();
    }
    let moved = |ticks: u64| {
        let product = u128::from(ticks) * u128::from(blocks);
        let all = u128::from(all);
        product / all * NANOS + product % all * NANOS / all
    };
    Fixed::from_nanos(moved(to) - moved(from)).unwrap_or(blocks.into())
}

/// The time when a server is free.
fn release(clock: &Clock, cluster: &Cluster, server: ServerId) -> u64 {
    clock.at_most(cluster.server(server).busy(), server)
}

/// The lanes, which are about equally loaded if they belong to the same server, and the bridges.
struct Columns {
    /// The server of each lane, and then of each bridge's column.
    servers: Vec<ServerId>,
    /// The lane of each server that is being filled.
    open: Vec<OpenLane>,
    bridges: Vec<Bridge>,
}

/// A lane with room for more. When it is full, the next lane has room for a full lane.
#[derive(Clone, Copy, Debug, Default)]
struct OpenLane {
    lane: u32,
    room: u64,
    size: u64,
}

impl Columns {
    /// Empty lanes for all parts, and a lower bound on the length: some client or server is busy for that long. A
    /// server has no more lanes than parts, unless that length requires more.
    fn new(batch: &Batch, cluster: &Cluster, clock: &Clock, parts: &[Part]) -> (Self, u64) {
        let mut work = vec![0; batch.n_clients()];
        let mut loads = vec![(0, 0); batch.n_servers()];
        for Part { request, server, blocks } in parts {
            let ticks = clock.at_most(*blocks, *server);
            work[batch.client(*request as usize).index()] += ticks;
            let (load, n_parts) = &mut loads[server.index()];
            (*load, *n_parts) = (*load + ticks, *n_parts + 1);
        }
        let of_client = |(work, slots): (u64, u32)| work.div_ceil(slots.into());
        let of_server = |(id, (load, _)): (ServerId, (u64, u64))| {
            let busiest = load.div_ceil(cluster.server(id).slots.into()).max(clock.at_most(1, id));
            release(clock, cluster, id) + busiest
        };
        let serving = || (0..).map(ServerId).zip(loads.iter().copied()).filter(|(_, (load, _))| *load > 0);
        let clients = work.into_iter().zip(cluster.clients().iter().map(|c| c.slots)).map(of_client);
        let least = clients.chain(serving().map(of_server)).max().unwrap_or(0);

        let open = vec![OpenLane::default(); batch.n_servers()];
        let mut columns = Self { servers: Vec::new(), open, bridges: Vec::new() };
        for (id, (load, n_parts)) in serving() {
            let time = least.saturating_sub(release(clock, cluster, id));
            let needed = load.div_ceil(time.max(1));
            let n_lanes = u64::from(cluster.server(id).slots).min(needed.max(n_parts));
            // With a block in each lane, a part of n blocks is in n + 1 lanes at most.
            let size = load.div_ceil(n_lanes).max(clock.at_most(1, id));
            columns.open[id.index()] = OpenLane { lane: columns.servers.len() as u32, room: size, size };
            columns.servers.extend(std::iter::repeat_n(id, load.div_ceil(size) as usize));
        }
        (columns, least)
    }

    /// Puts a part of this many ticks into the lanes of its server, as one piece or several.
    fn cut(&mut self, part: &Part, ticks: u64, is_wide: bool, pieces: &mut Vec<Piece>) {
        let &Part { request, server, blocks } = part;
        let (first, mut from) = (pieces.len(), 0);
        let open = &mut self.open[server.index()];
        while from < ticks {
            if open.room == 0 {
                (open.lane, open.room) = (open.lane + 1, open.size);
            }
            let taken = open.room.min(ticks - from);
            pieces.push(Piece { request, lane: open.lane, blocks, from, ticks: taken });
            (from, open.room) = (from + taken, open.room - taken);
        }
        let n_lanes = pieces.len() - first;
        if is_wide && n_lanes as u64 > blocks {
            self.bridge(server, &mut pieces[first..]);
        }
    }

    /// Routes the first and the last piece of a part, which a client with several slots could move at the same time,
    /// over a bridge.
    ///
    /// Together they are at most one block, so the part has at most as many transfers in flight as it has blocks.
    fn bridge(&mut self, server: ServerId, pieces: &mut [Piece]) {
        let [first, .., last] = pieces else { return };
        let column = self.servers.len() as u32;
        self.servers.push(server);
        self.bridges.push(Bridge { column, through: [(first.lane, first.ticks), (last.lane, last.ticks)] });
        (first.lane, last.lane) = (column, column);
        // Next to each other they form one cell.
        pieces[1..].rotate_right(1);
    }
}

/// Spreads the cells of a client, each with its first piece, over rows of this many ticks. Each cell goes to the row
/// with the most room; cells that do not fit are cut.
fn spread(
    cells: &[(Cell, u32)],
    n_rows: u64,
    share: u64,
    ticks_of: impl Fn(u32) -> u64,
    matrix: &mut Matrix,
    cursors: &mut Vec<Cursor>,
) {
    let rows = matrix.n_rows as u32..(matrix.n_rows as u64 + n_rows) as u32;
    let mut rooms: BinaryHeap<(u64, Reverse<u32>)> = rows.map(|row| (share, Reverse(row))).collect();
    for &(Cell { column, amount: mut left, .. }, piece) in cells {
        let mut cursor = Cursor { cell: 0, piece, ticks: 0 };
        while left > 0
            && let Some((room, Reverse(row))) = rooms.pop()
        {
            let amount = left.min(room);
            cursors.push(Cursor { cell: matrix.cells.len() as u32, ..cursor });
            matrix.cells.push(Cell { row, column, amount });
            left -= amount;
            if room > amount {
                rooms.push((room - amount, Reverse(row)));
            }
            let mut passed = if left > 0 { amount } else { 0 };
            while passed > 0 {
                let step = passed.min(ticks_of(cursor.piece) - cursor.ticks);
                (passed, cursor.ticks) = (passed - step, cursor.ticks + step);
                if cursor.ticks == ticks_of(cursor.piece) {
                    cursor = Cursor { piece: cursor.piece + 1, ticks: 0, ..cursor };
                }
            }
        }
    }
}

/// Adds columns that keep all but `limit` rows idle (or rows that do so for columns, if there are fewer of these).
///
/// With n rows, n − limit columns that are busy all the time leave at most `limit` rows to the others at any time. The
/// remaining time of the rows is enough to fill these columns, since all cells together take at most `limit` times the
/// length.
fn keep_idle(mut matrix: Matrix, limit: u64, length: u64) -> Matrix {
    let (n_rows, n_columns) = (matrix.n_rows, matrix.releases.len());
    // A cell that goes over a bridge is in two columns.
    let of_rows = n_rows <= n_columns || !matrix.bridges.is_empty();
    let n = if of_rows { n_rows } else { n_columns };
    let n_idle = n.saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
    let mut spare = vec![length; n];
    for cell in &matrix.cells {
        spare[if of_rows { cell.row } else { cell.column } as usize] -= cell.amount;
    }
    let (mut idle, mut room) = (0, length);
    for (node, mut spare) in (0..).zip(spare) {
        while spare > 0 && idle < n_idle {
            let amount = spare.min(room);
            let (row, column) = match of_rows {
                true => (node, (n_columns + idle) as u32),
                false => ((n_rows + idle) as u32, node),
            };
            matrix.cells.push(Cell { row, column, amount });
            (spare, room) = (spare - amount, room - amount);
            if room == 0 {
                (idle, room) = (idle + 1, length);
            }
        }
    }
    match of_rows {
        true => matrix.releases.resize(n_columns + n_idle, 0),
        false => matrix.n_rows += n_idle,
    }
    matrix
}

/// The items by ascending key below `n_keys`. Equal keys keep their order. Takes one pass to count and one to place.
fn sorted_by<T: Copy>(
    items: impl Iterator<Item = T> + Clone,
    n_keys: usize,
    key: impl Fn(&T) -> u32,
) -> Vec<T> {
    let Some(any) = items.clone().next() else { return Vec::new() };
    let mut next = vec![0_u32; n_keys];
    items.clone().for_each(|item| next[key(&item) as usize] += 1);
    let n = next.iter_mut().fold(0, |start, n| start + std::mem::replace(n, start));
    let mut sorted = vec![any; n as usize];
    for item in items {
        let place = &mut next[key(&item) as usize];
        sorted[*place as usize] = item;
        *place += 1;
    }
    sorted
}
