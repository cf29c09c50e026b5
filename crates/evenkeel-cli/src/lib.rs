//! The command `evenkeel`: reads and writes the fixed formats, draws tables and charts. The crate `evenkeel` makes all
//! decisions.

pub mod cli;
pub mod commands;
mod html;
mod input;
pub mod output;
mod plot;
mod storage;
mod text;
mod units;
