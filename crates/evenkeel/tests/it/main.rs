//! The core tested from outside, in one binary.

mod damage;
mod optimal;
mod paper_000;
mod support;
mod tidy;
