//! Algorithms on flat graphs, shared by the rooms.

pub(crate) mod classes;
pub(crate) mod clock;
pub(crate) mod colouring;
pub(crate) mod flow;
pub(crate) mod open_shop;
pub(crate) mod passes;
pub(crate) mod sets;
