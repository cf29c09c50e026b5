//! SIO, server-io of Song et al.: every server serves the applications in the same order. Paper 002 §IV and
//! its \[22\].
//!
//! That order is by id here, the requests of one application by offset. Song et al. bound with time windows
//! how long an application can be overtaken by new ones of lower id; paper 002 has no windows, nor has this.

use super::{AppId, Collective, Orders, Request};

/// One application after the other.
pub fn order(collective: &Collective) -> Orders {
    collective.each_server(order_queue)
}

/// The same for the queue of one server: which request is first, second and so on.
pub(super) fn order_queue(queue: &[Request]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..queue.len()).collect();
    places.sort_by_key(|&place| key(&queue[place]));
    places
}

/// What requests are ordered by.
pub(super) fn key(request: &Request) -> (AppId, u64) {
    (request.app, request.offset)
}
