//! The command `evenkeel`: reads and writes the fixed formats, draws tables and charts. All decisions are made
//! by the crate `evenkeel`.

pub mod cli;
pub mod commands;
pub mod formats;
mod html;
pub mod output;
mod plot;
mod text;
mod units;
