//! SIO, server-io of Song et al.: every server serves the applications in the same order. Paper 002 §IV and
//! its \[22\].
//!
//! Here that order is by id, and the requests of one application are ordered by offset. Song et al. use time windows to
//! bound how long an application can be overtaken by new ones of lower id; neither paper 002 nor this module has
//! windows.

use super::{AppId, Collective, Orders, Request};

/// Serves one application after another.
pub fn order(collective: &Collective) -> Orders {
    collective.each_server(order_queue)
}

/// The order for the queue of one server: which request is first, second and so on.
pub(super) fn order_queue(queue: &[Request]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..queue.len()).collect();
    places.sort_by_key(|&place| key(&queue[place]));
    places
}

/// The sort key of a request.
pub(super) fn key(request: &Request) -> (AppId, u64) {
    (request.app, request.offset)
}
