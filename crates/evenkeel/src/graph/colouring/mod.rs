//! Edge colouring of bipartite multigraphs with as many colours as the largest degree (König).
//!
//! A colour is a time slot: edges of one colour share no end, so they can be transferred at once. There are two
//! algorithms, chosen by the shape of the graph. Kempe chains ([`kempe`]) put each edge into the first colour free at
//! both ends and repair where there is none: fast while one side has slack. Euler splits ([`euler`]) halve a graph,
//! made regular by dummy edges, until one colour is left: fast whatever the shape, even where every node is full. Large
//! graphs with slack are halved until Kempe's table fits the cache.

mod euler;
mod halving;
mod kempe;

/// Kempe's table of this many entries stays in the cache.
const TABLE_ENTRIES: f64 = 2_097_152.0;
/// This many entries of the table for each edge are still worth their memory.
const MOST_ENTRIES_PER_EDGE: f64 = 16.0;
/// When the right nodes use more than this share of the colours, chains become long and halving is faster.
const CROWDED: f64 = 0.8;

/// The edges of a bipartite multigraph as pairs of a left and a right node, the nodes of each side numbered from 0.
///
/// They are iterated more than once, and need not be stored anywhere.
pub(crate) trait Edges: Iterator<Item = (u32, u32)> + Clone {}

impl<T: Iterator<Item = (u32, u32)> + Clone> Edges for T {}

/// A graph, with the figures that describe its shape.
struct Graph<E> {
    edges: E,
    n_edges: usize,
    left_degrees: Vec<u32>,
    right_degrees: Vec<u32>,
    max_degree: u32,
}

impl<E: Edges> Graph<E> {
    fn new(edges: E, n_left: usize, n_right: usize) -> Self {
        let (mut left_degrees, mut right_degrees) = (vec![0; n_left], vec![0; n_right]);
        let mut n_edges = 0;
        for (u, v) in edges.clone() {
            left_degrees[u as usize] += 1;
            right_degrees[v as usize] += 1;
            n_edges += 1;
        }
        let max_degree = left_degrees.iter().chain(&right_degrees).copied().max().unwrap_or(0);
        Self { edges, n_edges, left_degrees, right_degrees, max_degree }
    }

    /// The degree up to which Kempe chains are faster.
    fn leaf_degree(&self) -> u32 {
        let n_right = self.right_degrees.len() as f64;
        let nodes = self.left_degrees.len() as f64 + n_right;
        let n_edges = self.n_edges as f64;
        let crowded = n_edges > CROWDED * n_right * f64::from(self.max_degree);
        // One huge node among thousands: a table with far more entries than edges is not worth its memory.
        let sparse = nodes * f64::from(self.max_degree) > MOST_ENTRIES_PER_EDGE * n_edges;
        if crowded || sparse { 1 } else { (TABLE_ENTRIES / nodes.max(1.0)) as u32 }
    }
}

/// A colour for each edge, none used twice at a node, all below the largest degree.
pub(crate) fn colour(edges: impl Edges, n_left: usize, n_right: usize) -> Vec<u32> {
    // The side with more nodes has the slack, if there is any. It is kept on the right.
    if n_left <= n_right {
        colour_graph(&Graph::new(edges, n_left, n_right))
    } else {
        colour_graph(&Graph::new(edges.map(|(u, v)| (v, u)), n_right, n_left))
    }
}

fn colour_graph(graph: &Graph<impl Edges>) -> Vec<u32> {
    euler::colour(graph, graph.leaf_degree())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::{Draw, Seeded};

    fn assert_proper(edges: &[(u32, u32)], colours: &[u32], what: &str) {
        let max_degree = Graph::new(edges.iter().copied(), 4000, 4000).max_degree;
        let mut ends = Vec::new();
        for (&(u, v), &c) in edges.iter().zip(colours) {
            assert!(c < max_degree, "{what}: colour {c} of {max_degree}");
            ends.extend([(c, 0, u), (c, 1, v)]);
        }
        assert_eq!(edges.len(), colours.len(), "{what}");
        ends.sort_unstable();
        assert!(ends.windows(2).all(|w| w[0] != w[1]), "{what}: a colour twice at a node");
    }

    fn random_graph(draw: &mut Seeded, n: (u32, u32), m: u32, skew: bool) -> Vec<(u32, u32)> {
        let mut pick = |n: u32| if skew { draw.below(n).min(draw.below(n)) } else { draw.below(n) };
        (0..m).map(|_| (pick(n.0), pick(n.1))).collect()
    }

    #[test]
    fn both_algorithms_use_max_degree_colours() {
        let mut draw = Seeded::new(3);
        for round in 0..600 {
            let n = (1 + draw.below(9), 1 + draw.below(9));
            let m = draw.below(60);
            let edges = random_graph(&mut draw, n, m, round % 2 == 0);
            let (n_left, n_right) = (n.0 as usize, n.1 as usize);
            assert_proper(&edges, &colour(edges.iter().copied(), n_left, n_right), "chosen");
            let graph = Graph::new(edges.iter().copied(), n_left, n_right);
            for leaf_degree in [1, 3, 100] {
                assert_proper(&edges, &euler::colour(&graph, leaf_degree), "forced");
            }
        }
    }

    #[test]
    fn regular_and_skewed_graphs_of_some_size() {
        let mut draw = Seeded::new(4);
        // A sum of permutations: every node is full, so every colour is used at every node.
        let mut edges = Vec::new();
        for _ in 0..255 {
            let mut permutation: Vec<u32> = (0..100).collect();
            (1..100).rev().for_each(|i| permutation.swap(i, draw.below(i as u32 + 1) as usize));
            edges.extend((0..).zip(permutation));
        }
        assert_proper(&edges, &colour(edges.iter().copied(), 100, 100), "regular");
        for (n, skew) in [((20, 300), false), ((20, 300), true), ((3000, 30), true), ((2, 5), false)] {
            let edges = random_graph(&mut draw, n, 60_000, skew);
            let colours = colour(edges.iter().copied(), n.0 as usize, n.1 as usize);
            assert_proper(&edges, &colours, &format!("{n:?} {skew}"));
        }
    }
}
