//! Flat-graph algorithms that the rooms share: balancing loads by flow, colouring edges, open shop.

mod agenda;
mod arcs;
pub(crate) mod balance;
pub(crate) mod bits;
pub(crate) mod capped;
pub(crate) mod classes;
pub(crate) mod clock;
pub(crate) mod colouring;
pub(crate) mod greedy;
pub(crate) mod groups;
pub(crate) mod heap;
pub(crate) mod holdings;
pub(crate) mod level;
mod links;
pub(crate) mod open_shop;
pub(crate) mod pace;
pub(crate) mod passes;
pub(crate) mod pool;
pub(crate) mod shrinking;
