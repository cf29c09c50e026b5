//! Servers that are not asked again for a piece, because they sent it damaged.

use std::collections::BTreeSet;

use crate::model::ServerId;

/// Servers that are not asked again for a piece of a request.
#[derive(Debug, Default)]
pub(super) struct Barred(BTreeSet<(u32, u32, ServerId)>);

impl Barred {
    /// The server's copy of the piece is damaged.
    pub(super) fn insert(&mut self, request: u32, piece: u32, server: ServerId) {
        self.0.insert((request, piece, server));
    }

    /// A piece was cut: the servers barred for the whole are barred for the rest.
    pub(super) fn cut(&mut self, request: u32, whole: u32, rest: u32) {
        let damaged = self.0.range((request, whole, ServerId(0))..=(request, whole, ServerId(u32::MAX)));
        let damaged: Vec<ServerId> = damaged.map(|&(.., server)| server).collect();
        self.0.extend(damaged.into_iter().map(|server| (request, rest, server)));
    }

    /// The request has become one piece: a server barred for any of its former pieces is barred for this one.
    pub(super) fn merge(&mut self, request: u32, piece: u32) {
        let of_request = self.0.range((request, 0, ServerId(0))..=(request, u32::MAX, ServerId(u32::MAX)));
        let damaged: Vec<ServerId> = of_request.map(|&(.., server)| server).collect();
        self.forget(request);
        self.0.extend(damaged.into_iter().map(|server| (request, piece, server)));
    }

    /// Whether the server is barred for a piece.
    pub(super) fn has(&self, request: u32, piece: u32, server: ServerId) -> bool {
        // Mostly nothing is barred.
        !self.0.is_empty() && self.0.contains(&(request, piece, server))
    }

    /// The request is over: drops its entries.
    pub(super) fn forget(&mut self, request: u32) {
        while let Some(&barred) = self.0.range((request, 0, ServerId(0))..).next()
            && barred.0 == request
        {
            self.0.remove(&barred);
        }
    }
}
