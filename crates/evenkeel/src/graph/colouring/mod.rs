//! Edge colouring of bipartite multigraphs with as many colours as the largest degree (König).
//!
//! A colour is a slot of time: edges of one colour share no end, so they can be transferred at once. Two
//! algorithms, chosen by the shape of the graph. Kempe chains ([`kempe`]) put each edge into the first colour
//! free at both ends and repair where there is none: fast while one side has slack. Euler splits ([`euler`])
//! halve a graph, made regular by dummy edges, until one colour is left: fast whatever the shape, also where
//! every node is full. Large graphs with slack are halved until Kempe's table fits the cache.

mod euler;
mod kempe;

/// Kempe's table of this many entries stays in the cache.
const TABLE_ENTRIES: f64 = 2_097_152.0;
/// Entries of the table for each edge that are still worth their memory.
const MOST_ENTRIES_PER_EDGE: f64 = 16.0;
/// When the right nodes use more than this share of the colours, chains become long and halving is faster.
const CROWDED: f64 = 0.8;
/// Even then, so few colours are quicker by chains.
const CROWDED_LEAF: u32 = 1;

/// The edges of a bipartite multigraph: edge `i` joins `left[i]` and `right[i]`.
#[derive(Clone, Copy, Debug)]
pub struct Edges<'a> {
    /// Left ends, each below `n_left`.
    pub left: &'a [u32],
    /// Right ends, each below `n_right`.
    pub right: &'a [u32],
    /// The number of left nodes.
    pub n_left: usize,
    /// The number of right nodes.
    pub n_right: usize,
}

impl Edges<'_> {
    fn degrees(&self) -> (Vec<u32>, Vec<u32>) {
        let count = |ends: &[u32], n: usize| {
            let mut degrees = vec![0; n];
            ends.iter().for_each(|&v| degrees[v as usize] += 1);
            degrees
        };
        (count(self.left, self.n_left), count(self.right, self.n_right))
    }
}

/// A colour for each edge, none used twice at a node, all below the largest degree.
pub fn colour(edges: Edges<'_>) -> Vec<u32> {
    // The side with more nodes has the slack, if there is any; it is kept to the right.
    let edges = if edges.n_left <= edges.n_right {
        edges
    } else {
        let Edges { left, right, n_left, n_right } = edges;
        Edges { left: right, right: left, n_left: n_right, n_right: n_left }
    };
    let degrees = edges.degrees();
    let max_degree = degrees.0.iter().chain(&degrees.1).copied().max().unwrap_or(0);
    euler::colour(edges, (&degrees.0, &degrees.1), max_degree, leaf_degree(edges, max_degree))
}

/// Up to which degree Kempe chains are the faster way.
fn leaf_degree(edges: Edges<'_>, max_degree: u32) -> u32 {
    let (n_edges, nodes) = (edges.left.len() as f64, (edges.n_left + edges.n_right) as f64);
    let crowded = n_edges > CROWDED * edges.n_right as f64 * f64::from(max_degree);
    // One huge node among thousands: a table with far more entries than edges is not worth its memory.
    let sparse = nodes * f64::from(max_degree) > MOST_ENTRIES_PER_EDGE * n_edges;
    if crowded || sparse { CROWDED_LEAF } else { (TABLE_ENTRIES / nodes.max(1.0)) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{Draw, Seeded};

    fn assert_proper(edges: Edges<'_>, colours: &[u32], what: &str) {
        let (left, right) = edges.degrees();
        let max_degree = left.iter().chain(&right).copied().max().unwrap_or(0);
        let mut ends = Vec::new();
        for (i, &c) in colours.iter().enumerate() {
            assert!(c < max_degree, "{what}: colour {c} of {max_degree}");
            ends.push((c, 0, edges.left[i]));
            ends.push((c, 1, edges.right[i]));
        }
        ends.sort_unstable();
        assert!(ends.windows(2).all(|w| w[0] != w[1]), "{what}: a colour twice at a node");
    }

    fn random_graph(draw: &mut Seeded, n: (u32, u32), m: u32, skew: bool) -> (Vec<u32>, Vec<u32>) {
        let mut pick = |n: u32| if skew { draw.below(n).min(draw.below(n)) } else { draw.below(n) };
        (0..m).map(|_| (pick(n.0), pick(n.1))).unzip()
    }

    #[test]
    fn both_algorithms_use_max_degree_colours() {
        let mut draw = Seeded::new(3);
        for round in 0..600 {
            let n = (1 + draw.below(9), 1 + draw.below(9));
            let m = draw.below(60);
            let (left, right) = random_graph(&mut draw, n, m, round % 2 == 0);
            let edges = Edges { left: &left, right: &right, n_left: n.0 as usize, n_right: n.1 as usize };
            let degrees = edges.degrees();
            let max_degree = degrees.0.iter().chain(&degrees.1).copied().max().unwrap_or(0);
            assert_proper(edges, &colour(edges), "chosen");
            for leaf_degree in [1, 3, 100] {
                let colours = euler::colour(edges, (&degrees.0, &degrees.1), max_degree, leaf_degree);
                assert_proper(edges, &colours, "euler");
            }
        }
    }

    #[test]
    fn regular_and_skewed_graphs_of_some_size() {
        let mut draw = Seeded::new(4);
        // A sum of permutations: every node is full, so every colour is used at every node.
        let (mut left, mut right) = (Vec::new(), Vec::new());
        for _ in 0..255 {
            let mut permutation: Vec<u32> = (0..100).collect();
            (1..100).rev().for_each(|i| permutation.swap(i, draw.below(i as u32 + 1) as usize));
            left.extend(0..100);
            right.extend(permutation);
        }
        let edges = Edges { left: &left, right: &right, n_left: 100, n_right: 100 };
        assert_proper(edges, &colour(edges), "regular");
        for (n, skew) in [((20, 300), false), ((20, 300), true), ((3000, 30), true), ((2, 5), false)] {
            let (left, right) = random_graph(&mut draw, n, 60_000, skew);
            let edges = Edges { left: &left, right: &right, n_left: n.0 as usize, n_right: n.1 as usize };
            assert_proper(edges, &colour(edges), &format!("{n:?} {skew}"));
        }
    }
}
