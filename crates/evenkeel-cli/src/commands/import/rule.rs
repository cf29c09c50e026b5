//! Who reads what was imported.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use evenkeel::model::NameTable;
use evenkeel_formats::import::{Clients, Gathered};
use evenkeel_formats::{self as formats, Reading};

use crate::input::Source;

/// More workers than this are a mistake.
const MOST_WORKERS: u32 = 1 << 20;

/// Who reads, as given on the command line.
pub(super) enum Rule {
    OnePerHost,
    Workers(u32),
    Named(NameTable),
    File(PathBuf),
}

impl Rule {
    pub(super) fn parse(text: &str) -> Result<Self> {
        if text == "one-per-host" {
            return Ok(Self::OnePerHost);
        }
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let n = text.parse().ok().filter(|n| (1..=MOST_WORKERS).contains(n));
            return n
                .map(Self::Workers)
                .with_context(|| format!("--clients {text}: write 1 to {MOST_WORKERS}"));
        }
        if text.contains(',') {
            let mut names = NameTable::new();
            for name in text.split(',').filter(|name| !name.is_empty()) {
                names.insert(name, "client").with_context(|| format!("--clients {text}"))?;
            }
            return Ok(Self::Named(names));
        }
        if text.is_empty() {
            bail!("--clients: write one-per-host, a number, a list with commas, or a clients file");
        }
        Ok(Self::File(text.into()))
    }
}

/// The clients that a rule selects, or the default clients for a source.
pub(super) fn clients(rule: Option<Rule>, source: &str, gathered: &Gathered) -> Result<Clients> {
    Ok(match rule {
        None if gathered.has_clients() => Clients::Given,
        None if source == "hdfs-fsck" => Clients::OnePerHost,
        None => Clients::OnePerServer,
        Some(Rule::OnePerHost) => Clients::OnePerHost,
        Some(Rule::Workers(n)) => Clients::Workers(n),
        Some(Rule::Named(names)) if names.is_empty() => bail!("--clients: the list is empty; name a client"),
        Some(Rule::Named(names)) => Clients::Named(names),
        Some(Rule::File(path)) => {
            let about = || {
                format!(
                    "--clients {}: neither one-per-host, nor a number, nor a list with commas, nor a clients file",
                    path.display()
                )
            };
            let Source { name, reader } = Source::open(&path).with_context(about)?;
            let found = formats::read_clients(reader, &Reading::of(&name)).with_context(about)?;
            if found.names.is_empty() {
                bail!("{name}: there are no clients in the file; add one");
            }
            Clients::Named(found.names)
        }
    })
}
