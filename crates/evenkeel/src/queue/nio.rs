//! NIO, normal collective I/O: each server serves requests as they arrive. Paper 002 §VI.A.
//!
//! The paper's analysis (§IV) assumes that requests arrive in random order, independently on each server; that model is
//! [`shuffled`].

use crate::draw::Draw;

use super::{Collective, Orders};

/// Serves in order of arrival.
pub fn order(collective: &Collective) -> Orders {
    collective.arrivals().clone()
}

/// Serves in an order drawn uniformly for each server.
pub fn shuffled(collective: &Collective, draw: &mut dyn Draw) -> Orders {
    let mut orders = order(collective);
    for queue in &mut orders.0 {
        for last in (1..queue.len()).rev() {
            queue.swap(last, draw.below(last as u32 + 1) as usize);
        }
    }
    orders
}
