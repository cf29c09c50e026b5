//! What clients and servers learn of each other from the events that they see.

pub mod speed;
