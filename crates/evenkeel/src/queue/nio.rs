//! NIO, normal collective I/O: each server serves requests as they come. Paper 002 §VI.A.
//!
//! Where the paper analyses it (§IV), it takes what comes for a random order, independent on each server;
//! that model is [`shuffled`].

use crate::draw::Draw;

use super::{Collective, Orders};

/// In order of arrival.
pub fn order(collective: &Collective) -> Orders {
    collective.arrivals().clone()
}

/// In an order drawn uniformly for each server.
pub fn shuffled(collective: &Collective, draw: &mut dyn Draw) -> Orders {
    let mut orders = order(collective);
    for queue in &mut orders.0 {
        for last in (1..queue.len()).rev() {
            queue.swap(last, draw.below(last as u32 + 1) as usize);
        }
    }
    orders
}
