//! `evenkeel completions` and `evenkeel man`.

use std::io::{self, Write};

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;

use super::Outcome;
use crate::cli::Cli;

pub(super) fn completions(shell: Shell) -> Result<Outcome> {
    // Into memory first: the generator panics if it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "evenkeel", &mut script);
    to_stdout(&script)
}

pub(super) fn man(names: &[String]) -> Result<Outcome> {
    let mut cli = Cli::command();
    cli.build();
    let found = names.iter().try_fold(&cli, |command, name| command.find_subcommand(name));
    let found =
        found.with_context(|| format!("there is no command `{}`; see evenkeel --help", names.join(" ")))?;
    let title = std::iter::once("evenkeel").chain(names.iter().map(String::as_str));
    let command = found.clone().display_name(title.collect::<Vec<_>>().join("-"));
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    to_stdout(&page)
}

fn to_stdout(bytes: &[u8]) -> Result<Outcome> {
    let mut out = io::stdout();
    out.write_all(bytes).and_then(|()| out.flush()).context("cannot write to standard output")?;
    Ok(Outcome::Done)
}
