//! `evenkeel generate`: draw a batch to try things on.

use anyhow::{Result, anyhow, bail};
use evenkeel::workload::{Clients, Law, Sizes, Workload};

use super::Outcome;
use crate::cli::{BatchFormat, GenerateArgs, LawName};
use crate::formats;
use crate::output::Target;

pub(super) fn run(args: &GenerateArgs) -> Result<Outcome> {
    if args.ratio.is_some() && !matches!(args.law, LawName::Geometric | LawName::FirstHot) {
        bail!("--ratio is for the laws geometric and first-hot; leave it out");
    }
    if args.hot_spots.is_some() && args.law != LawName::Geometric {
        bail!("--hot-spots is for the law geometric; leave it out");
    }
    let ratio = args.ratio.unwrap_or_else(|| gentle_ratio(args.servers));
    let workload = Workload {
        n_requests: args.requests,
        n_clients: args.clients,
        n_servers: args.servers,
        copies: args.copies,
        law: match args.law {
            LawName::Uniform => Law::Uniform,
            LawName::Geometric => Law::Geometric { ratio, hot_spots: args.hot_spots.unwrap_or(1) },
            LawName::Zipf => Law::Zipf,
            LawName::FirstHot => Law::FirstHot { ratio },
            LawName::Chain => Law::Chain,
        },
        sizes: parse_sizes(&args.bytes)?,
        clients: if args.in_turn { Clients::InTurn } else { Clients::Drawn },
        seed: args.seed,
    };
    let out = Target::new(&args.out, &[])?;
    let batch = workload.generate()?;
    out.write(|file| match args.format {
        BatchFormat::Csv => formats::write_batch_csv(&batch, file),
        BatchFormat::Json => formats::write_batch_json(&batch, file),
    })?;
    Ok(Outcome::Done)
}

/// A hot spot that still spreads over some servers, however many there are.
pub(super) fn gentle_ratio(n_servers: u32) -> f64 {
    if n_servers > 20 { 1.0 - 10.0 / f64::from(n_servers) } else { 0.5 }
}

fn parse_sizes(text: &str) -> Result<Sizes> {
    let number = |text: &str| {
        text.parse::<u64>()
            .map_err(|_| anyhow!("--bytes {text}: write a whole number, or a range such as 1..64"))
    };
    match text.split_once("..") {
        Some((least, most)) => Ok(Sizes::Uniform(number(least)?, number(most)?)),
        None => Ok(Sizes::Fixed(number(text)?)),
    }
}
