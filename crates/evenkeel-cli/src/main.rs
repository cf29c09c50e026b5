//! The command `evenkeel`.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use evenkeel_cli::cli::Cli;
use evenkeel_cli::commands::{self, Outcome};
use evenkeel_cli::output::printable;

fn main() -> ExitCode {
    let result = match Cli::try_parse() {
        Ok(cli) => commands::run(cli),
        // Help and version are output like any other: failing to write them is an error.
        Err(asked) if !asked.use_stderr() => show(&asked),
        Err(wrong_usage) => wrong_usage.exit(),
    };
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Failed) => ExitCode::from(1),
        // The exit status that shells give to a process ended by Ctrl-C.
        Ok(Outcome::Interrupted) => ExitCode::from(130),
        // The reader of our output has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // If this fails, nobody can be informed, but the exit status still shows the error.
            let error = format!("{error:#}").replace('\n', " ");
            let _ = writeln!(std::io::stderr(), "error: {}", printable(&error));
            ExitCode::from(2)
        }
    }
}

/// Prints the help or the version that was asked for.
fn show(asked: &clap::Error) -> anyhow::Result<Outcome> {
    asked.print().and_then(|()| std::io::stdout().flush()).context("cannot write to standard output")?;
    Ok(Outcome::Done)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    io.is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}
