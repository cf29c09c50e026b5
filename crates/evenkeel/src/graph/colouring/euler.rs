//! Euler splits: a regular graph of even degree is halved by walking its cycles and giving the edges alternately to one
//! half and the other. At odd degree a perfect matching is taken out first, found by random walks (Goel, Kapralov,
//! Khanna: O(n log n) steps in a regular graph). The total is O(m log n), whatever the shape.
//!
//! The graph is first made regular: nodes are merged while their degrees fit together, then dummy edges fill the gaps.
//! Edges are kept grouped by left node, so that edge p of a graph of degree d belongs to left node p / d and only the
//! right end has to be stored. That is the end before merging, so that graphs of small degree can be left to Kempe
//! chains, which then have the slack of the single nodes.

use super::halving::Halver;
use super::{Edges, Graph, kempe};
use crate::draw::{Draw, Seeded};

const NONE: u32 = u32::MAX;
/// Any seed will do: the colouring is proper whatever the walks, and the same on every machine.
const WALK_SEED: u64 = 0;

/// The stored part of an edge.
#[derive(Clone, Copy)]
pub(super) struct Half {
    /// The right end. For a dummy, the merged node, numbered after the last single node.
    pub(super) right: u32,
    /// The edge of the input, or `NONE` for a dummy.
    edge: u32,
}

/// A graph in which each left node, and each merged right node, has the same degree.
struct Regular {
    grouped: Vec<Half>,
    /// The merged node of each right end.
    merged: Vec<u32>,
    n: usize,
}

/// Colours the edges with as many colours as the largest degree. Subgraphs of degree at most `leaf_degree` go to Kempe
/// chains.
pub(super) fn colour(graph: &Graph<impl Edges>, leaf_degree: u32) -> Vec<u32> {
    let Regular { mut grouped, merged, n } = regular(graph);
    let mut spare = vec![Half { right: 0, edge: NONE }; grouped.len()];
    let mut splitter = Splitter {
        colours: vec![0; graph.n_edges],
        n,
        n_right: graph.right_degrees.len(),
        halver: Halver::new(merged, n),
        leaf_degree,
        mate: vec![NONE; n],
        exit: vec![0; n],
        draw: Seeded::new(WALK_SEED),
        table: kempe::Table::default(),
        leaf: Vec::new(),
        leaf_edges: Vec::new(),
    };
    splitter.split(&mut grouped, &mut spare, graph.max_degree, 0);
    splitter.colours
}

/// The edges by left node, after nodes are merged and dummies added so that all nodes have the same degree.
fn regular(graph: &Graph<impl Edges>) -> Regular {
    let (left_of, left_sum) = merge(&graph.left_degrees, graph.max_degree);
    let (mut merged, mut right_sum) = merge(&graph.right_degrees, graph.max_degree);
    let n = left_sum.len().max(right_sum.len());
    right_sum.resize(n, 0);
    merged.extend(0..n as u32);
    let degree = graph.max_degree as usize;
    let mut grouped = vec![Half { right: 0, edge: NONE }; n * degree];
    let mut fill: Vec<usize> = (0..n).map(|u| u * degree).collect();
    for (edge, (u, right)) in (0..).zip(graph.edges.clone()) {
        let place = &mut fill[left_of[u as usize] as usize];
        grouped[*place] = Half { right, edge };
        *place += 1;
    }
    let n_right = graph.right_degrees.len();
    let mut v = 0;
    for (u, &filled) in fill.iter().enumerate() {
        for place in &mut grouped[filled..(u + 1) * degree] {
            while right_sum[v] as usize == degree {
                v += 1;
            }
            right_sum[v] += 1;
            place.right = (n_right + v) as u32;
        }
    }
    Regular { grouped, merged, n }
}

/// Merges nodes, by ascending degree, while their sum stays within `most`.
fn merge(degrees: &[u32], most: u32) -> (Vec<u32>, Vec<u32>) {
    let mut order: Vec<u32> = (0..degrees.len() as u32).collect();
    order.sort_by_key(|&v| degrees[v as usize]);
    let mut merged = vec![0; degrees.len()];
    let mut sums: Vec<u32> = Vec::new();
    for v in order {
        let degree = degrees[v as usize];
        match sums.last_mut() {
            Some(sum) if u64::from(*sum) + u64::from(degree) <= u64::from(most) => *sum += degree,
            _ => sums.push(degree),
        }
        merged[v as usize] = sums.len() as u32 - 1;
    }
    (merged, sums)
}

struct Splitter {
    colours: Vec<u32>,
    n: usize,
    n_right: usize,
    halver: Halver,
    leaf_degree: u32,
    /// For each right node, the edge that matches it.
    mate: Vec<u32>,
    /// For each left node, the edge by which the walk last left it.
    exit: Vec<u32>,
    draw: Seeded,
    table: kempe::Table,
    /// The real edges of the graph that Kempe chains colour: their ends, and their numbers.
    leaf: Vec<(u32, u32)>,
    leaf_edges: Vec<u32>,
}

impl Splitter {
    /// Colours a regular graph with the colours from `first` on. `spare` is as long as `graph`.
    fn split(&mut self, graph: &mut [Half], spare: &mut [Half], degree: u32, first: u32) {
        if degree == 0 {
            return;
        }
        if degree == 1 {
            for half in graph.iter().filter(|half| half.edge != NONE) {
                self.colours[half.edge as usize] = first;
            }
            return;
        }
        if degree <= self.leaf_degree {
            return self.colour_leaf(graph, degree, first);
        }
        if degree % 2 == 1 {
            let n_left = self.take_matching(graph, degree, first);
            self.split(&mut graph[..n_left], &mut spare[..n_left], degree - 1, first + 1);
            return;
        }
        self.halver.halve(graph, spare);
        let middle = graph.len() / 2;
        let (graph_a, graph_b) = graph.split_at_mut(middle);
        let (spare_a, spare_b) = spare.split_at_mut(middle);
        self.split(spare_a, graph_a, degree / 2, first);
        self.split(spare_b, graph_b, degree / 2, first + degree / 2);
    }

    fn colour_leaf(&mut self, graph: &[Half], degree: u32, first: u32) {
        self.leaf.clear();
        self.leaf_edges.clear();
        for (u, halves) in (0..).zip(graph.chunks_exact(degree as usize)) {
            let real = halves.iter().filter(|half| half.edge != NONE);
            self.leaf.extend(real.clone().map(|half| (u, half.right)));
            self.leaf_edges.extend(real.map(|half| half.edge));
        }
        let Self { colours, leaf_edges, .. } = self;
        self.table.colour(&self.leaf, (self.n, self.n_right), degree, |edge, colour| {
            colours[leaf_edges[edge] as usize] = first + colour;
        });
    }

    /// Gives the colour to a perfect matching, closes the gaps, and returns how many edges are left.
    fn take_matching(&mut self, graph: &mut [Half], degree: u32, colour: u32) -> usize {
        let d = degree as usize;
        self.mate.fill(NONE);
        // The edge that matches each left node.
        let mut matched = vec![NONE; self.n];
        for start in 0..self.n {
            let mut u = start;
            loop {
                let mut p = u * d + self.draw.below(degree) as usize;
                while matched[u] == p as u32 {
                    p = u * d + self.draw.below(degree) as usize;
                }
                self.exit[u] = p as u32;
                match self.mate[self.halver.merged(graph[p])] {
                    NONE => break,
                    mate => u = mate as usize / d,
                }
            }
            // Only the last exit from each node counts, so loops of the walk drop out.
            let mut u = start;
            loop {
                let p = self.exit[u];
                let mate = &mut self.mate[self.halver.merged(graph[p as usize])];
                let displaced = *mate;
                *mate = p;
                matched[u] = p;
                match displaced {
                    NONE => break,
                    displaced => u = displaced as usize / d,
                }
            }
        }
        for &p in &matched {
            let edge = graph[p as usize].edge;
            if edge != NONE {
                self.colours[edge as usize] = colour;
            }
        }
        let mut kept = 0;
        for (u, &p) in matched.iter().enumerate() {
            for q in u * d..(u + 1) * d {
                if q as u32 != p {
                    graph[kept] = graph[q];
                    kept += 1;
                }
            }
        }
        kept
    }
}
