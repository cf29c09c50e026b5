//! Where any client may take any request: an idle client takes one from the longest list.
//!
//! Opass's guided lists (paper 003, dynamic), with two differences. Only pieces that can start at once are taken, so
//! that nothing waits at a client that took too much. And a free server offers its first piece to the clients that
//! found nothing before.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Action;
use super::executor::{End, Executor};
use super::lists::{FEW, State};
use crate::model::ClientId;

/// The number of pieces of the longest list that are looked at.
const N_OF_LONGEST: usize = 64;

impl Executor {
    /// Gives a piece whose own client is busy to an idle client, if work is shared.
    pub(super) fn hand_over(&mut self, piece: u32, out: &mut Vec<Action>) -> bool {
        if !self.settings.shares_work || !self.is_whole(piece) {
            return false;
        }
        while let Some(client) = self.idle.pop() {
            self.clients[client as usize].is_idle = false;
            if self.clients[client as usize].n_queued == 0 && self.clients.has_slot(client as usize) {
                self.start_for(piece, ClientId(client), out);
                self.to_look_at.push(End::Client(client));
                return true;
            }
        }
        false
    }

    /// Lets an idle client take from the longest list (paper 003's guided lists): among the pieces that can start at
    /// once the nearest, and among those the last.
    pub(super) fn take_over(&mut self, client: usize, out: &mut Vec<Action>) {
        while self.settings.shares_work && self.clients[client].n_queued == 0 && self.clients.has_slot(client)
        {
            let Some(piece) = self.of_longest_list(ClientId(client as u32)) else {
                if !std::mem::replace(&mut self.clients[client].is_idle, true) {
                    self.idle.push(client as u32);
                }
                return;
            };
            self.start_for(piece, ClientId(client as u32), out);
        }
    }

    /// The lengths of all clients' lists.
    pub(super) fn lengths(&self) -> BinaryHeap<(u32, Reverse<u32>)> {
        (0..).zip(self.clients.iter()).map(|(client, node)| (node.n_queued, Reverse(client))).collect()
    }

    /// A client's list has become longer.
    pub(super) fn lengthened(&mut self, client: ClientId) {
        if self.longest.len() > 2 * self.clients.len() + FEW {
            self.longest = self.lengths();
        }
        self.longest.push((self.clients[client.index()].n_queued, Reverse(client.0)));
    }

    fn of_longest_list(&mut self, taker: ClientId) -> Option<u32> {
        while let Some(&top @ (length, Reverse(client))) = self.longest.peek() {
            let n_queued = self.clients[client as usize].n_queued;
            if n_queued == length {
                break;
            }
            // Several entries that have shrunk to the same length become one.
            while self.longest.peek() == Some(&top) {
                self.longest.pop();
            }
            // If it has grown, the longer length is already in the heap.
            if (1..length).contains(&n_queued) {
                self.longest.push((n_queued, Reverse(client)));
            }
        }
        if self.is_at_limit() {
            return None;
        }
        let &(_, Reverse(longest)) = self.longest.peek()?;
        let can_start = |&piece: &u32| {
            let server = self.pieces[piece as usize].server.index();
            let is_next =
                !self.keeps_to_plan || self.servers[server].first().is_some_and(|first| first.piece == piece);
            self.servers.has_slot(server) && is_next && self.is_whole(piece)
        };
        let pieces = self.clients.last_to_first(longest as usize).take(N_OF_LONGEST).filter(can_start);
        let distance = |&piece: &u32| {
            self.cluster.distance(taker, self.pieces[piece as usize].server).unwrap_or(u32::MAX)
        };
        pieces.min_by_key(distance)
    }

    /// Whether a piece is all of its request.
    fn is_whole(&self, piece: u32) -> bool {
        let piece = &self.pieces[piece as usize];
        piece.size() == self.size(piece.request)
    }

    fn start_for(&mut self, piece: u32, client: ClientId, out: &mut Vec<Action>) {
        let (before, server) = self.leave_lists(piece);
        self.pieces[piece as usize].client = client;
        self.marks.set(piece, State::Running);
        self.start_at(piece, client, server, out);
        // The piece that was behind it is first now.
        self.to_look_at.extend([End::Server(server.0), End::Client(before.0)]);
    }
}
