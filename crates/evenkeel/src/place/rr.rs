//! `rr`: every object on its default server, further copies on the servers behind it.
//!
//! Round robin of paper 004 §3.4, the usual placement of parallel file systems. It does not look at loads, so a straggler gets
//! its share like any other.

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
