//! Flat-graph algorithms that the rooms share: balancing loads by flow, colouring edges, open shop.

mod arcs;
pub(crate) mod balance;
pub mod colouring;
pub(crate) mod greedy;
pub(crate) mod groups;
pub(crate) mod level;
pub mod open_shop;
