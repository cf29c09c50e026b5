//! Kempe chains: each edge gets the first colour free at both of its ends. Where there is none, the chain of edges that
//! alternates between a colour free at one end and one free at the other is flipped. In a bipartite graph the chain
//! never comes back to the edge, so one of the two colours becomes free at both ends.

const NONE: u32 = u32::MAX;

/// The use of colours at each node. Reused between graphs to keep its memory.
#[derive(Default)]
pub(super) struct Table {
    n_colours: usize,
    words: usize,
    n_left: usize,
    /// The edge of each colour at each node.
    edge_at: Vec<u32>,
    /// Which colours are free at each node, as bits.
    free: Vec<u64>,
    /// For each node, the first word of `free` that may have a bit set.
    first_free: Vec<u32>,
    chain: Vec<u32>,
}

impl Table {
    /// Colours the `edges`, pairs of a left and a right node, whose degrees are at most `n_colours`.
    pub(super) fn colour(
        &mut self,
        edges: &[(u32, u32)],
        (n_left, n_right): (usize, usize),
        n_colours: u32,
        mut emit: impl FnMut(usize, u32),
    ) {
        self.reset(n_left, n_right, n_colours as usize);
        for (edge, &ends) in (0..).zip(edges) {
            let (u, v) = self.nodes(ends);
            let colour = self.common_free(u, v).unwrap_or_else(|| self.make_common(edges, u, v));
            self.put(u, colour, edge);
            self.put(v, colour, edge);
        }
        for row in self.edge_at[..n_left * self.n_colours].chunks_exact(self.n_colours.max(1)) {
            for (colour, &edge) in (0..).zip(row).filter(|&(_, &edge)| edge != NONE) {
                emit(edge as usize, colour);
            }
        }
    }

    fn reset(&mut self, n_left: usize, n_right: usize, n_colours: usize) {
        let nodes = n_left + n_right;
        self.n_colours = n_colours;
        self.n_left = n_left;
        self.words = n_colours.div_ceil(64);
        self.edge_at.clear();
        self.edge_at.resize(nodes * n_colours, NONE);
        self.free.clear();
        self.free.resize(nodes * self.words, u64::MAX);
        if !n_colours.is_multiple_of(64) {
            // Bits beyond the last colour are never free.
            let last = (1 << (n_colours % 64)) - 1;
            self.free.iter_mut().skip(self.words - 1).step_by(self.words).for_each(|w| *w = last);
        }
        self.first_free.clear();
        self.first_free.resize(nodes, 0);
    }

    /// The left and the right node in one numbering.
    fn nodes(&self, (left, right): (u32, u32)) -> (usize, usize) {
        (left as usize, right as usize + self.n_left)
    }

    fn common_free(&mut self, u: usize, v: usize) -> Option<usize> {
        let start = self.skip_full(u).max(self.skip_full(v));
        let words = self.words;
        let a = &self.free[u * words + start..(u + 1) * words];
        let b = &self.free[v * words + start..(v + 1) * words];
        let (k, both) = a.iter().zip(b).map(|(a, b)| a & b).enumerate().find(|&(_, x)| x != 0)?;
        Some((start + k) * 64 + both.trailing_zeros() as usize)
    }

    /// The first word of `node` with a free colour, or the last word.
    fn skip_full(&mut self, node: usize) -> usize {
        let free = &self.free[node * self.words..(node + 1) * self.words];
        let first = &mut self.first_free[node];
        while (*first as usize) + 1 < free.len() && free[*first as usize] == 0 {
            *first += 1;
        }
        *first as usize
    }

    fn any_free(&mut self, node: usize) -> usize {
        let start = self.skip_full(node);
        let free = &self.free[node * self.words..(node + 1) * self.words];
        start * 64 + free[start].trailing_zeros() as usize
    }

    /// Frees at `v` a colour that is free at `u`, and returns it.
    fn make_common(&mut self, edges: &[(u32, u32)], u: usize, v: usize) -> usize {
        let (wanted, other) = (self.any_free(u), self.any_free(v));
        let mut chain = std::mem::take(&mut self.chain);
        chain.clear();
        let (mut node, mut colour) = (v, wanted);
        loop {
            let edge = self.edge_at[node * self.n_colours + colour];
            if edge == NONE {
                break;
            }
            chain.push(edge);
            let (a, b) = self.nodes(edges[edge as usize]);
            node = if node == a { b } else { a };
            colour = wanted + other - colour;
        }
        for (k, &edge) in chain.iter().enumerate() {
            let old = if k % 2 == 0 { wanted } else { other };
            let (a, b) = self.nodes(edges[edge as usize]);
            self.take(a, old);
            self.take(b, old);
        }
        for (k, &edge) in chain.iter().enumerate() {
            let new = if k % 2 == 0 { other } else { wanted };
            let (a, b) = self.nodes(edges[edge as usize]);
            self.put(a, new, edge);
            self.put(b, new, edge);
        }
        self.chain = chain;
        wanted
    }

    fn put(&mut self, node: usize, colour: usize, edge: u32) {
        self.edge_at[node * self.n_colours + colour] = edge;
        self.free[node * self.words + colour / 64] &= !(1 << (colour % 64));
    }

    fn take(&mut self, node: usize, colour: usize) {
        self.edge_at[node * self.n_colours + colour] = NONE;
        self.free[node * self.words + colour / 64] |= 1 << (colour % 64);
        let first = &mut self.first_free[node];
        *first = (*first).min((colour / 64) as u32);
    }
}
