//! `evenkeel generate`: draws a random batch to try things on.

use anyhow::{Result, anyhow, bail};
use evenkeel::workload::{Clients, Law, Sizes, UnequalServers, Workload};
use evenkeel_formats::{self as formats, Nodes, numbers};

use super::Outcome;
use crate::cli::{BatchFormat, GenerateArgs, LawName};
use crate::output::targets;

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
    let outputs = [("--out", Some(args.out.as_path())), ("--servers-out", args.servers_out.as_deref())];
    let [out, servers_out] = targets(outputs, &[])?;
    if servers_out.is_none() && [&args.speeds, &args.slots, &args.backlogs].into_iter().any(Option::is_some) {
        bail!("--speeds, --slots and --backlogs are for the servers file; name it with --servers-out");
    }
    let range = |name: &str, text: &Option<String>, usual: u64| match text {
        Some(text) => parse_range(name, text),
        None => Ok((usual, usual)),
    };
    let unequal = UnequalServers {
        speeds: range("--speeds", &args.speeds, 1)?,
        slots: range("--slots", &args.slots, 1)?,
        backlogs: range("--backlogs", &args.backlogs, 0)?,
        seed: args.seed,
    };
    let batch = workload.generate()?;
    let servers = unequal.draw(batch.n_servers())?;
    if let Some(out) = out {
        out.write(|file| match args.format {
            BatchFormat::Csv => formats::write_batch_csv(&batch, file),
            BatchFormat::Json => formats::write_batch_json(&batch, file),
        })?;
    }
    if let Some(out) = servers_out {
        out.write(|file| formats::write_servers(&Nodes::new(batch.servers().clone(), servers), 1, file))?;
    }
    Ok(Outcome::Done)
}

/// A hot spot that spreads over a few servers, however many there are.
pub(super) fn gentle_ratio(n_servers: u32) -> f64 {
    if n_servers > 20 { 1.0 - 10.0 / f64::from(n_servers) } else { 0.5 }
}

fn parse_sizes(text: &str) -> Result<Sizes> {
    Ok(match parse_range("--bytes", text)? {
        (least, most) if least == most => Sizes::Fixed(least),
        (least, most) => Sizes::Uniform(least, most),
    })
}

/// A number, or two numbers with dots between them.
fn parse_range(name: &str, text: &str) -> Result<(u64, u64)> {
    let number = |part: &str| {
        let number = match name {
            "--bytes" | "--backlogs" => numbers::size(part, "size").ok(),
            _ => part.parse().ok(),
        };
        number.ok_or_else(|| anyhow!("{name} {text}: write a whole number, or a range such as 1..64"))
    };
    match text.split_once("..") {
        Some((least, most)) => Ok((number(least)?, number(most)?)),
        None => Ok((number(text)?, number(text)?)),
    }
}
