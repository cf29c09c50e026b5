//! The command `evenkeel`.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use evenkeel_cli::cli::Cli;
use evenkeel_cli::commands::{self, Outcome};
use evenkeel_cli::output::printable;

fn main() -> ExitCode {
    match commands::run(Cli::parse()) {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Failed) => ExitCode::from(1),
        // As shells have it of what ends by Ctrl-C.
        Ok(Outcome::Interrupted) => ExitCode::from(130),
        // Whoever read our output has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody to tell if that fails, but the exit status still tells it.
            let error = format!("{error:#}").replace('\n', " ");
            let _ = writeln!(std::io::stderr(), "error: {}", printable(&error));
            ExitCode::from(2)
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    io.is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}
