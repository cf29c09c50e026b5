//! Flat-graph algorithms that the rooms share.

pub(crate) mod classes;
pub(crate) mod clock;
pub(crate) mod colouring;
pub(crate) mod flow;
pub(crate) mod open_shop;
pub(crate) mod passes;
pub(crate) mod sets;
