//! `hdf` and `hcdf`: class by class, a maximal matching, built greedily.
//!
//! Paper 000 §5.1 (Jain et al.): highest degree first takes edges by the higher degree of their two ends, highest
//! combined degree first by the sum of both, in the remaining graph. Ties go to the lowest client, then the lowest
//! server, then the first edge. With unit blocks that takes at most 2Δ − 1 classes (an edge that waits has an end in
//! each class before it), and at most ⌊m/k⌋ + 2Δ − 1 if no class may have more than k of m edges. The paper says
//! "exactly 2d − 1"; that is only a bound. The paper does not give its listing, which is reconstructed from the names.
//! Deviation: a degree counts the remaining blocks, and an edge without blocks counts as one.
//!
//! Edges are not sorted. A few nodes, the *bidders*, together touch all edges. Each bids its best edge, and the best
//! bid is taken if its other end is not closed. A bid is made only when it can matter: until then the node stays in the
//! queue with the most it could bid. That bound stays valid from class to class, since degrees only fall. At first the
//! smaller side bids; with highest degree first both sides do if they are of similar size, since otherwise all would
//! want the same few. The ends of a maximal matching touch all edges as well. When they are far fewer they take over,
//! so that a class with a hub does not cost as much as all the neighbours of the hub.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use super::Edge;
use super::lines::{Lines, Node};

const NONE: u32 = u32::MAX;
/// Highest degree first lets all nodes bid if they are at most this many times those of the smaller side.
const MOST_TO_BID: usize = 3;

/// Highest degree first: the class of each edge, at most `limit` edges in each.
pub(crate) fn hdf(edges: &[Edge], n_clients: usize, n_servers: usize, limit: Option<u64>) -> Vec<u32> {
    Greedy::new(edges, n_clients, n_servers, Rule::Highest).run(limit)
}

/// Highest combined degree first: the class of each edge, at most `limit` edges in each.
pub(crate) fn hcdf(edges: &[Edge], n_clients: usize, n_servers: usize, limit: Option<u64>) -> Vec<u32> {
    Greedy::new(edges, n_clients, n_servers, Rule::Sum).run(limit)
}

/// What makes an edge urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Highest,
    Sum,
}

/// An edge that a node would take, or the most that it could bid. The greatest bid is taken first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Bid {
    urgency: u64,
    /// Client and server, as nodes; 0 for the other end if it has not been searched for yet.
    ends: Reverse<[u32; 2]>,
    bidder: u32,
    /// The number of this bid of the bidder; only the last counts.
    version: u32,
    /// The place of the other end in the bidder's line, or [`NONE`] before the search.
    place: u32,
}

struct Greedy {
    rule: Rule,
    /// The blocks that each edge adds to the degrees of its ends.
    blocks: Vec<u64>,
    /// The left and the right node of each edge. The side with fewer nodes is left.
    ends: Vec<[u32; 2]>,
    n_left: usize,
    clients_are_left: bool,
    lines: Lines,
    /// The left nodes, the right nodes, and the node nobody. Nodes in the current class are closed.
    nodes: Vec<Node>,
    bids: BinaryHeap<Bid>,
    /// How many bids each node has made.
    versions: Vec<u32>,
    is_bidder: Vec<bool>,
    n_bidders: usize,
    /// Whether all nodes bid. If so, no node has to bid for a neighbour with a higher degree, which will bid first.
    all_bid: bool,
    /// The current class, counted from 1.
    class: u32,
    /// Nodes that have searched in the current class.
    searched: Vec<u32>,
    /// The ends of the edges in the current class, left and right in turn.
    taken: Vec<u32>,
}

impl Greedy {
    fn new(edges: &[Edge], n_clients: usize, n_servers: usize, rule: Rule) -> Self {
        let clients_are_left = n_clients <= n_servers;
        let n_left = n_clients.min(n_servers);
        let ends = edges.iter().map(|&Edge { client, server, .. }| {
            let [left, right] = if clients_are_left { [client, server] } else { [server, client] };
            [left, n_left as u32 + right]
        });
        let ends: Vec<[u32; 2]> = ends.collect();
        // The sum of two degrees must fit. Only beyond 2^63 blocks in total do large edges count for less.
        let total: u128 = edges.iter().map(|edge| u128::from(edge.blocks.max(1))).sum();
        let most = if total < 1 << 63 { u64::MAX } else { (1 << 63) / edges.len() as u64 - 1 };
        let blocks: Vec<u64> = edges.iter().map(|edge| edge.blocks.clamp(1, most)).collect();
        let n_nodes = n_clients + n_servers;
        let mut nodes = vec![Node::default(); n_nodes + 1];
        for (ends, blocks) in ends.iter().zip(&blocks) {
            ends.iter().for_each(|&node| nodes[node as usize].degree += blocks);
        }
        nodes.iter_mut().for_each(|node| node.open = node.degree);
        let mut greedy = Self {
            rule,
            blocks,
            lines: Lines::new(&ends, n_nodes),
            ends,
            n_left,
            clients_are_left,
            nodes,
            bids: BinaryHeap::new(),
            versions: vec![0; n_nodes],
            is_bidder: vec![false; n_nodes],
            n_bidders: 0,
            all_bid: rule == Rule::Highest && n_nodes <= MOST_TO_BID * n_left,
            class: 1,
            searched: Vec::new(),
            taken: Vec::new(),
        };
        let n_bidders = if greedy.all_bid { n_nodes } else { n_left };
        greedy.let_bid(0..n_bidders as u32);
        greedy
    }

    fn run(mut self, limit: Option<u64>) -> Vec<u32> {
        let mut classes = vec![0; self.ends.len()];
        let limit = limit.map_or(usize::MAX, |limit| limit.max(1).try_into().unwrap_or(usize::MAX));
        let mut n_left = classes.len();
        while n_left > 0 {
            while self.taken.len() / 2 < limit
                && let Some(edge) = self.take_best()
            {
                classes[edge as usize] = self.class - 1;
                n_left -= 1;
            }
            self.end_class();
            self.class += 1;
        }
        classes
    }

    /// The next edge of the class, if there is one.
    fn take_best(&mut self) -> Option<u32> {
        loop {
            let bid = *self.bids.peek()?;
            let (bidder, open) = (bid.bidder, self.nodes[bid.bidder as usize].open);
            if bid.version != self.versions[bidder as usize] || open == 0 {
                self.bids.pop();
                continue;
            }
            if bid.place == NONE {
                self.searched.push(bidder);
            } else {
                let partner = self.lines.neighbour(bidder, bid.place);
                if self.nodes[partner as usize].open > 0 {
                    self.bids.pop();
                    return Some(self.take(bidder, bid.place));
                }
            }
            let limits = match self.rule {
                Rule::Highest => (open, bid.urgency),
                Rule::Sum => (0, bid.urgency - open),
            };
            let found = self.lines.search(bidder, limits, &self.nodes, self.class);
            let next = found.map(|(value, Reverse(place))| {
                self.bid(bidder, value, self.lines.neighbour(bidder, place), place)
            });
            // The bidder is often still the best, and then stays where it is.
            match (next, self.bids.peek_mut()) {
                (Some(next), Some(mut top)) => *top = next,
                (_, top) => drop(top.map(PeekMut::pop)),
            }
        }
    }

    /// Takes the edge to a neighbour, and closes both ends.
    fn take(&mut self, bidder: u32, place: u32) -> u32 {
        let edge = self.lines.take(bidder, place);
        let ends = self.ends[edge as usize];
        for node in ends {
            let node = &mut self.nodes[node as usize];
            *node = Node { degree: node.degree - self.blocks[edge as usize], open: 0 };
        }
        self.taken.extend(ends);
        edge
    }

    fn bid(&self, bidder: u32, value: u64, partner: u32, place: u32) -> Bid {
        let urgency = match self.rule {
            Rule::Highest => value,
            Rule::Sum => value.saturating_add(self.nodes[bidder as usize].open),
        };
        let is_client = ((bidder as usize) < self.n_left) == self.clients_are_left;
        let ends = Reverse(if is_client { [bidder, partner] } else { [partner, bidder] });
        Bid { urgency, ends, bidder, version: self.versions[bidder as usize], place }
    }

    /// Queues a bidder with the most that it could bid.
    fn queue(&mut self, bidder: u32) {
        let bound = self.lines.bound(bidder);
        if self.is_bidder[bidder as usize] && bound > 0 {
            self.versions[bidder as usize] += 1;
            let own = self.nodes[bidder as usize].open;
            let value = match self.rule {
                Rule::Highest if self.all_bid => own,
                Rule::Highest => bound.max(own),
                Rule::Sum => bound,
            };
            self.bids.push(self.bid(bidder, value, 0, NONE));
        }
    }

    /// Makes these nodes the bidders.
    fn let_bid(&mut self, nodes: impl Iterator<Item = u32>) {
        self.n_bidders = 0;
        for node in nodes {
            self.is_bidder[node as usize] = true;
            self.n_bidders += 1;
            self.queue(node);
        }
    }

    /// Opens all nodes again, and queues those whose bids have changed.
    fn end_class(&mut self) {
        let taken = std::mem::take(&mut self.taken);
        let mut searched = std::mem::take(&mut self.searched);
        for &node in &taken {
            let node = &mut self.nodes[node as usize];
            node.open = node.degree;
        }
        // Without a bid left the matching is maximal. Where right nodes bid, many may want the same left node.
        let most = taken.len() / 2;
        let left = taken.iter().step_by(2);
        let n_bids: usize = left.map(|&node| 2 + self.lines.n_neighbours(node).min(most)).sum();
        if self.bids.is_empty() && 2 * n_bids < self.n_bidders {
            self.is_bidder.fill(false);
            self.all_bid = false;
            self.let_bid(taken.iter().copied());
        } else {
            // A node that searched did so among open nodes; a node that was taken has a lower degree.
            searched.extend(&taken);
            searched.sort_unstable();
            searched.dedup();
            searched.iter().for_each(|&node| self.queue(node));
        }
        (self.taken, self.searched) = (taken, searched);
        self.taken.clear();
        self.searched.clear();
    }
}
