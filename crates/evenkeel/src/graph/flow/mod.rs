//! Balances loads as evenly as possible: greedy starts, Newton steps on the level, flow between servers.

mod arcs;
pub(crate) mod balance;
pub(crate) mod capped;
pub(crate) mod cheapest;
pub(crate) mod greedy;
pub(crate) mod groups;
pub(crate) mod level;
pub(crate) mod pace;
