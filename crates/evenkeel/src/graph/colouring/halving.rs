//! Halves a graph of even degree so that each node keeps half of its edges in each half.
//!
//! Edges of a left node come in pairs, one for each half; which is which must be chosen so that the right nodes are
//! halved too. A pair joins two right nodes, so this is an Euler orientation of a graph on the right nodes alone. Two
//! pairs that join the same nodes can simply be turned against each other. Where there are many more pairs than pairs
//! of nodes, one pass through memory leaves few, and only for these are cycles walked.

use super::euler::Half;

const NONE: u32 = u32::MAX;
const UNSEEN: u8 = 2;

pub(super) struct Halver {
    n: usize,
    /// The merged node of each right end.
    merged: Vec<u32>,
    /// For each pair of edges: 1 if its first edge goes to the second half.
    swapped: Vec<u8>,
    /// For each two right nodes, the pair that joins them and waits for another, and which of the two nodes comes
    /// first.
    waiting: Vec<u32>,
    /// For each right node, the edge that still waits for a partner.
    last_seen: Vec<u32>,
    /// For each edge, the edge that shares its right end.
    partner: Vec<u32>,
}

impl Halver {
    pub(super) fn new(merged: Vec<u32>, n: usize) -> Self {
        let (swapped, waiting, partner) = (Vec::new(), Vec::new(), Vec::new());
        Self { n, merged, swapped, waiting, last_seen: vec![NONE; n], partner }
    }

    /// The right node of an edge.
    pub(super) fn merged(&self, half: Half) -> usize {
        self.merged[half.right as usize] as usize
    }

    /// Writes the two halves of `graph` one after the other to `halves`.
    pub(super) fn halve(&mut self, graph: &[Half], halves: &mut [Half]) {
        let n_pairs = graph.len() / 2;
        self.swapped.clear();
        if n_pairs > self.n * self.n {
            self.swapped.resize(n_pairs, 0);
            let rest = self.turn_against_each_other(graph);
            self.walk_cycles(graph, rest.len(), |k| rest[k] as usize);
        } else {
            self.swapped.resize(n_pairs, UNSEEN);
            self.walk_cycles(graph, n_pairs, |k| k);
        }
        let (first, second) = halves.split_at_mut(n_pairs);
        for (((a, b), &[x, y]), &swapped) in
            first.iter_mut().zip(second).zip(graph.as_chunks::<2>().0).zip(&self.swapped)
        {
            (*a, *b) = if swapped == 0 { (x, y) } else { (y, x) };
        }
    }

    /// Turns pairs that join the same nodes against each other. Returns the remaining pairs, at most one for each two
    /// nodes.
    fn turn_against_each_other(&mut self, graph: &[Half]) -> Vec<u32> {
        self.waiting.clear();
        self.waiting.resize(self.n * self.n, NONE);
        for (pair, &[x, y]) in graph.as_chunks::<2>().0.iter().enumerate() {
            let (x, y) = (self.merged(x), self.merged(y));
            if x == y {
                continue;
            }
            let ascending = u32::from(x < y);
            let waiting = &mut self.waiting[x.min(y) * self.n + x.max(y)];
            if *waiting == NONE {
                *waiting = (pair as u32) << 1 | ascending;
            } else {
                self.swapped[pair] = u8::from(*waiting & 1 == ascending);
                *waiting = NONE;
            }
        }
        let rest = self.waiting.iter().filter(|&&waiting| waiting != NONE).map(|waiting| waiting >> 1);
        let rest: Vec<u32> = rest.collect();
        rest.iter().for_each(|&pair| self.swapped[pair as usize] = UNSEEN);
        rest
    }

    /// Walks the cycles of `n_pairs` pairs: in by one edge of a pair, out by the other, and on by the edge that shares
    /// its right end. The edge that comes in goes to the first half.
    fn walk_cycles(&mut self, graph: &[Half], n_pairs: usize, pair: impl Fn(usize) -> usize) {
        self.partner.resize(self.partner.len().max(2 * n_pairs), 0);
        for p in 0..2 * n_pairs {
            let right = self.merged(graph[2 * pair(p / 2) + p % 2]);
            let waiting = &mut self.last_seen[right];
            if *waiting == NONE {
                *waiting = p as u32;
            } else {
                self.partner[p] = *waiting;
                self.partner[*waiting as usize] = p as u32;
                *waiting = NONE;
            }
        }
        for k in 0..n_pairs {
            let mut enter = 2 * k;
            while self.swapped[pair(enter / 2)] == UNSEEN {
                self.swapped[pair(enter / 2)] = (enter % 2) as u8;
                enter = self.partner[enter ^ 1] as usize;
            }
        }
    }
}
