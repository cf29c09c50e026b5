//! `evenkeel completions` and `evenkeel man`.

use std::io;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;

use super::Outcome;
use crate::cli::Cli;

pub(super) fn completions(shell: Shell) -> Result<Outcome> {
    // Into memory first: the generator panics if it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "evenkeel", &mut script);
    io::Write::write_all(&mut io::stdout(), &script)?;
    Ok(Outcome::Done)
}

pub(super) fn man(command: Option<&str>) -> Result<Outcome> {
    let mut cli = Cli::command();
    cli.build();
    let command = match command {
        None => cli,
        Some(name) => {
            let found = cli.find_subcommand(name);
            let found =
                found.with_context(|| format!("there is no command `{name}`; see evenkeel --help"))?;
            found.clone().display_name(format!("evenkeel-{name}"))
        }
    };
    clap_mangen::Man::new(command).render(&mut io::stdout())?;
    Ok(Outcome::Done)
}
