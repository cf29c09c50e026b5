//! Who is not asked again for what: servers that do not have it, or sent it damaged.

use std::collections::BTreeSet;

use super::lists::Piece;
use crate::model::ServerId;

/// Servers that are not asked again.
#[derive(Debug, Default)]
pub(super) struct Barred {
    /// For anything of a request.
    requests: BTreeSet<(u32, ServerId)>,
    /// For a piece of a request.
    pieces: BTreeSet<(u32, u32, ServerId)>,
}

impl Barred {
    /// The server has nothing of the request.
    pub(super) fn request(&mut self, request: u32, server: ServerId) {
        self.requests.insert((request, server));
    }

    /// The server's copy of the piece is damaged.
    pub(super) fn piece(&mut self, request: u32, piece: u32, server: ServerId) {
        self.pieces.insert((request, piece, server));
    }

    /// A piece was cut: what holds for the whole holds for the rest.
    pub(super) fn cut(&mut self, request: u32, whole: u32, rest: u32) {
        let damaged = self.pieces.range((request, whole, ServerId(0))..=(request, whole, ServerId(u32::MAX)));
        let damaged: Vec<ServerId> = damaged.map(|&(.., server)| server).collect();
        self.pieces.extend(damaged.into_iter().map(|server| (request, rest, server)));
    }

    /// Whether the server is not asked for a piece, which has this number.
    pub(super) fn has(&self, number: u32, piece: &Piece, server: ServerId) -> bool {
        // Mostly nothing is barred.
        !self.requests.is_empty() && self.requests.contains(&(piece.request, server))
            || !self.pieces.is_empty() && self.pieces.contains(&(piece.request, number, server))
    }

    /// The request is over.
    pub(super) fn forget(&mut self, request: u32) {
        while let Some(&barred) = self.requests.range((request, ServerId(0))..).next()
            && barred.0 == request
        {
            self.requests.remove(&barred);
        }
        while let Some(&barred) = self.pieces.range((request, 0, ServerId(0))..).next()
            && barred.0 == request
        {
            self.pieces.remove(&barred);
        }
    }
}
