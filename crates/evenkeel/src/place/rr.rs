//! `rr`: every object is on its default server, further copies on the servers after it.
//!
//! Round robin of paper 004 §3.4, the usual placement of parallel file systems. It ignores loads, so a straggler gets
//! its share like any other server.

use super::{Place, Turn};
use crate::draw::Draw;
use crate::model::MemberId;

/// The policy.
#[derive(Clone, Copy, Debug)]
pub struct Rr;

impl Place for Rr {
    fn merges(&self) -> bool {
        false
    }

    fn place(&mut self, turn: &Turn<'_>, _: &mut dyn Draw) -> MemberId {
        turn.default
    }
}
