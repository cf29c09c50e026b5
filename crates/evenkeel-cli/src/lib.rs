//! The command `evenkeel`: reads and writes the fixed formats, draws tables and charts. All decisions are made
//! by the crate `evenkeel`.

pub mod cli;
pub mod commands;
mod html;
mod input;
pub mod output;
mod plot;
mod text;
mod units;
