//! The neighbours of each node over remaining edges, searched for the best one that is still open.
//!
//! A line holds the neighbours of a node by ascending id. Above it is a binary tree of bounds on the degrees below, one
//! for each [`BLOCK`] of neighbours and for every two bounds beneath. Degrees only ever fall, so an outdated bound is
//! too high but never wrong, and the search that it misleads corrects it. No node needs a notification when a degree
//! falls: a hub costs no more than the few neighbours it looks at. Within a class the same holds for the neighbours
//! that are still open, so each bound has a second value that is valid for one class.

use std::cmp::Reverse;

/// The number of neighbours read in one go.
const BLOCK: usize = 32;

/// What a search must know about a node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Node {
    /// The remaining blocks.
    pub(super) degree: u64,
    /// The remaining blocks, or 0 while the node is closed.
    pub(super) open: u64,
}

/// The degree of a neighbour, or the floor if that is higher, and its place in the line. Among equals the first is
/// best.
pub(super) type Rank = (u64, Reverse<u32>);

/// All edges between a pair of nodes, as seen from one of the two.
#[derive(Clone, Copy, Debug)]
struct Link {
    partner: u32,
    /// The number of the pair.
    pair: u32,
}

/// An upper bound on the degrees below.
#[derive(Clone, Copy, Debug)]
struct Bound {
    degree: u64,
    /// The same bound for nodes that are open in `class`.
    open: u64,
    class: u32,
}

impl Bound {
    /// The bound of nodes that have not been read yet.
    const UNKNOWN: Self = Self { degree: u64::MAX, open: u64::MAX, class: 0 };

    #[inline]
    fn open_in(self, class: u32) -> u64 {
        if self.class == class { self.open } else { self.degree }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Line {
    /// Where its links begin, and how many there are, including those used up.
    first: usize,
    len: usize,
    /// The number of links that are not used up.
    left: usize,
    /// Where its bounds begin: the root, then the bounds of the left half, then those of the right.
    root: usize,
}

impl Line {
    /// The size of the tree above it.
    fn n_bounds(&self) -> usize {
        (2 * self.len.div_ceil(BLOCK)).saturating_sub(1)
    }
}

/// The lines of all nodes: left nodes are numbered from 0, right nodes after them. After all of them comes nobody, the
/// partner in a link that is used up, whose degree is 0.
#[derive(Debug)]
pub(super) struct Lines {
    of_node: Vec<Line>,
    /// The links of each node; those of left nodes are in the order of pairs.
    links: Vec<Link>,
    bounds: Vec<Bound>,
    /// The place in `links` of the right node's link for each pair.
    mirror: Vec<u32>,
    /// The edges by pair, then index.
    edges: Vec<u32>,
    /// The remaining edges of each pair, as a range of `edges`.
    pairs: Vec<(u32, u32)>,
}

impl Lines {
    /// The lines of edges given as pairs of a left and a right node.
    pub(super) fn new(ends: &[[u32; 2]], n_nodes: usize) -> Self {
        let mut edges: Vec<u32> = (0..ends.len() as u32).collect();
        edges.sort_unstable_by_key(|&edge| (ends[edge as usize], edge));
        let mut lines = vec![Line::default(); n_nodes];
        let mut pairs = Vec::new();
        let mut end = 0;
        for pair in edges.chunk_by(|&a, &b| ends[a as usize] == ends[b as usize]) {
            ends[pair[0] as usize].into_iter().for_each(|node| lines[node as usize].len += 1);
            pairs.push((end, end + pair.len() as u32));
            end += pair.len() as u32;
        }
        let (mut n_links, mut n_bounds) = (0, 0);
        for line in &mut lines {
            (line.first, line.root) = (n_links, n_bounds);
            n_links += line.len;
            n_bounds += line.n_bounds();
        }
        let mut links = vec![Link { partner: n_nodes as u32, pair: 0 }; n_links];
        let mut mirror = Vec::with_capacity(pairs.len());
        for (pair, &(first, _)) in (0..).zip(&pairs) {
            let [left, right] = ends[edges[first as usize] as usize];
            for (node, partner) in [(right, left), (left, right)] {
                let line = &mut lines[node as usize];
                links[line.first + line.left] = Link { partner, pair };
                line.left += 1;
            }
            let line = &lines[right as usize];
            mirror.push((line.first + line.left - 1) as u32);
        }
        Self { of_node: lines, links, bounds: vec![Bound::UNKNOWN; n_bounds], mirror, edges, pairs }
    }

    /// The number of neighbours of a node.
    pub(super) fn n_neighbours(&self, node: u32) -> usize {
        self.of_node[node as usize].left
    }

    /// An upper bound on the degrees of the node's neighbours.
    pub(super) fn bound(&self, node: u32) -> u64 {
        let line = &self.of_node[node as usize];
        if line.left > 0 { self.bounds[line.root].degree } else { 0 }
    }

    /// The neighbour at a place in the line of a node.
    pub(super) fn neighbour(&self, node: u32, place: u32) -> u32 {
        self.links[self.of_node[node as usize].first + place as usize].partner
    }

    /// Takes the first edge between a node and the neighbour at a place in its line.
    pub(super) fn take(&mut self, node: u32, place: u32) -> u32 {
        let Link { partner, pair } = self.links[self.of_node[node as usize].first + place as usize];
        let (next, end) = &mut self.pairs[pair as usize];
        *next += 1;
        let edge = self.edges[*next as usize - 1];
        if next == end {
            let nobody = self.of_node.len() as u32;
            self.links[pair as usize].partner = nobody;
            self.links[self.mirror[pair as usize] as usize].partner = nobody;
            [node, partner].into_iter().for_each(|node| self.of_node[node as usize].left -= 1);
        }
        edge
    }

    /// The best open neighbour of a node. `floor` and `ceiling` are known limits of its rank.
    pub(super) fn search(
        &mut self,
        node: u32,
        (floor, ceiling): (u64, u64),
        nodes: &[Node],
        class: u32,
    ) -> Option<Rank> {
        let line = self.of_node[node as usize];
        let links = &self.links[line.first..][..line.len];
        let bounds = &mut self.bounds[line.root..][..line.n_bounds()];
        let mut search = Search { links, bounds, nodes, floor, ceiling, class, best: None };
        search.visit(0, 0, line.len.div_ceil(BLOCK));
        search.best
    }
}

struct Search<'a> {
    links: &'a [Link],
    bounds: &'a mut [Bound],
    nodes: &'a [Node],
    floor: u64,
    ceiling: u64,
    class: u32,
    best: Option<Rank>,
}

impl Search<'_> {
    /// Searches for something better than `best` in the blocks from `from` to `to`, below a bound.
    fn visit(&mut self, bound: usize, from: usize, to: usize) {
        if self.promise(bound, from) <= self.best {
            return;
        }
        if to - from == 1 {
            self.bounds[bound] = self.look(from);
            return;
        }
        let mid = usize::midpoint(from, to);
        let (left, right) = (bound + 1, bound + 2 * (mid - from));
        // The half that promises more may make the other unnecessary.
        if self.promise(left, from) >= self.promise(right, mid) {
            self.visit(left, from, mid);
            self.visit(right, mid, to);
        } else {
            self.visit(right, mid, to);
            self.visit(left, from, mid);
        }
        let (left, right, class) = (self.bounds[left], self.bounds[right], self.class);
        let open = left.open_in(class).max(right.open_in(class));
        self.bounds[bound] = Bound { degree: left.degree.max(right.degree), open, class };
    }

    /// The best rank possible below a bound, from the block `from` on, if any is possible.
    #[inline]
    fn promise(&self, bound: usize, from: usize) -> Option<Rank> {
        let open = self.bounds.get(bound)?.open_in(self.class);
        (open > 0).then(|| (open.max(self.floor).min(self.ceiling), Reverse((from * BLOCK) as u32)))
    }

    /// Reads each link of a block. Returns its new bound.
    #[inline]
    fn look(&mut self, block: usize) -> Bound {
        let first = block * BLOCK;
        let links = &self.links[first..self.links.len().min(first + BLOCK)];
        let (mut highest, mut highest_open) = (0, 0);
        for link in links {
            let Node { degree, open } = self.nodes[link.partner as usize];
            highest = degree.max(highest);
            highest_open = open.max(highest_open);
        }
        let value = highest_open.max(self.floor);
        if highest_open > 0 && Some((value, Reverse(first as u32))) > self.best {
            let is_best = |link: &Link| {
                let open = self.nodes[link.partner as usize].open;
                open > 0 && open.max(self.floor) == value
            };
            let place = links.iter().position(is_best).map(|k| (value, Reverse((first + k) as u32)));
            self.best = self.best.max(place);
        }
        Bound { degree: highest, open: highest_open, class: self.class }
    }
}
