//! The commands, one file each.

mod apply;
mod assign;
mod balance;
mod cat;
mod check;
mod collective;
mod compare;
mod demo;
mod explain;
mod generate;
mod get;
mod import;
mod keel;
mod live;
pub(crate) mod locate;
mod ls;
mod maintain;
mod node;
mod place;
mod plan;
mod probe;
mod put;
mod replay;
mod reproduce;
mod rm;
mod score;
mod shell;
mod simulate;
pub(crate) mod sources;
mod stat;
mod status;
mod up;
mod watch;

use anyhow::{Context, Result, anyhow};
use evenkeel::bound::Bound;
use evenkeel::check::{Forced, Subject};
use evenkeel::draw::Ties;
use evenkeel::lead::Wish;
use evenkeel::model::{Batch, Cluster, Ratio};
use evenkeel::plan::{NoPlan, Options, OrderBy, Planner};
use evenkeel::policy::{self, Ask, Kind, OPTIMAL, Policy};
use evenkeel::select::{Goal, nearest};
use evenkeel_formats::{Bottleneck, Figure, Input};

use crate::cli::{Cli, Command, Objective, PolicyArgs, TiesName, TuningArgs};
use crate::output::warn;
use crate::text::{count, counted, some_of};
use crate::units::Units;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Successfully.
    Done,
    /// A check failed.
    Failed,
    /// It was stopped, and has reported its results so far.
    Interrupted,
}

/// Runs the command that the arguments name. An error means wrong usage or input.
pub fn run(cli: Cli) -> Result<Outcome> {
    match cli.command {
        Command::Plan(args) => plan::run(&args),
        Command::Check(args) => check::run(args),
        Command::Score(args) => score::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Apply(args) => apply::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Assign(args) => assign::run(&args),
        Command::Balance(args) => balance::run(&args),
        Command::Cat(args) => cat::run(&args),
        Command::Collective(args) => collective::run(&args),
        Command::Place(args) => place::run(&args),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Get(args) => get::run(&args),
        Command::Put(args) => put::run(&args),
        Command::Ls(args) => ls::run(&args),
        Command::Stat(args) => stat::run(&args),
        Command::Rm(args) => rm::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Maintain(args) => maintain::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Locate(args) => locate::run(&args),
        Command::Node(args) => node::run(&args),
        Command::Up(args) => up::run(&args),
        Command::Probe(args) => probe::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Completions { shell } => shell::completions(shell),
        Command::Man { command } => shell::man(&command),
    }
}

/// The planner that the arguments select.
fn planner(args: &PolicyArgs, near_today: Option<Wish>) -> Result<Planner<'static>> {
    planner_of(args.policy.as_deref().unwrap_or(OPTIMAL.name), args, near_today)
}

/// The same with another policy.
fn planner_of(policy: &str, args: &PolicyArgs, near_today: Option<Wish>) -> Result<Planner<'static>> {
    let order = match &args.order {
        _ if args.no_order => OrderBy::Nobody,
        Some(order) => {
            OrderBy::Policy(known(order, "order", |policy| matches!(policy.kind, Kind::Order(_)))?)
        }
        None => OrderBy::Usual,
    };
    let goal = match args.objective {
        Objective::Mean => Goal::Mean,
        Objective::Max => Goal::Length,
    };
    let policy = known(policy, "policy", Policy::plans)?;
    let options = Options { policy, order, whole: args.whole, near_today, ask: ask(goal, &args.tuning) };
    Planner::new(&options).map_err(|error| match error {
        NoPlan::TwoOrders(policy) => {
            anyhow!("policy {policy} is itself an order; leave out --order, or name a policy that chooses replicas")
        }
        NoPlan::OrderWithoutOrder(policy) => {
            anyhow!("policy {policy} only orders transfers; leave out --no-order, or name a policy that chooses replicas")
        }
        other => other.into(),
    })
}

/// Finds the policy of this name among those that are wanted.
fn known(name: &str, what: &str, is_wanted: impl Fn(&Policy) -> bool) -> Result<&'static Policy> {
    let wanted = || policy::POLICIES.iter().filter(|policy| is_wanted(policy));
    policy::find(name).filter(|policy| is_wanted(policy)).with_context(|| unknown(name, what, wanted()))
}

/// The message for an unknown name.
fn unknown(name: &str, what: &str, known: impl Iterator<Item = &'static Policy>) -> String {
    let known: Vec<&str> = known.map(|policy| policy.name).collect();
    format!("there is no {what} `{name}`; the known ones are {}", known.join(", "))
}

fn ask(goal: Goal, args: &TuningArgs) -> Ask {
    let TuningArgs { seed, passes, bids, imbalance, .. } = *args;
    let ties = match args.ties {
        TiesName::Hashed => Ties::Hashed(seed),
        TiesName::Lowest => Ties::LowestId,
    };
    Ask { goal, seed, ties, passes, bids, imbalance }
}

/// A remark for policies that look for the nearest copy, if distances are not known.
fn remark_on_hosts(names: &[&str], batch: &Batch, cluster: &Cluster, ties: Ties) -> Option<String> {
    let name = names.iter().find(|name| policy::find(name).is_some_and(|policy| policy.by_distance))?;
    let how = if ties == Ties::LowestId { "by the lowest id" } else { "by hash" };
    let (n, of) = (nearest::n_without_distance(batch, cluster), batch.n_requests());
    let what = match n {
        0 => return None,
        _ if n == of => "No hosts are known".to_owned(),
        _ => format!("For {} of {} no distance is known", count(n as u64), counted(of as u64, "request")),
    };
    Some(format!("{what}, so {name} picks a copy {how}; add a column host to --servers and --clients."))
}

/// Prints that remark on standard error for the requested policy.
fn warn_of_hosts(planner: &Planner<'_>, Input { batch, cluster }: &Input) -> Result<()> {
    if let Some(remark) = remark_on_hosts(&[planner.policy().name], batch, cluster, planner.ask().ties) {
        warn(&remark)?;
    }
    Ok(())
}

/// The ratio of a time to the bound, as printed. A plan that was checked is never shown as better than the bound, nor
/// as worse only because of rounding.
fn ratio(achieved: Ratio, bound: Ratio) -> f64 {
    let (achieved, bound) = (Figure::from(achieved), Figure::from(bound));
    if achieved.is_about(bound, achieved) {
        return 1.0;
    }
    Ratio::from(achieved.0).over(bound.0.into()).max(1.0)
}

/// The number of distinct ids.
fn n_distinct(ids: impl Iterator<Item = u32>) -> u64 {
    let mut ids: Vec<u32> = ids.collect();
    ids.sort_unstable();
    ids.dedup();
    ids.len() as u64
}

/// The bottleneck in words.
fn in_words(bottleneck: &Bottleneck, n_servers: u64, units: &Units) -> String {
    match bottleneck {
        Bottleneck::Servers { blocks: 0, .. } => "there is nothing to transfer".to_owned(),
        Bottleneck::Servers { servers, requests, blocks } => {
            let n = servers.len() as u64;
            let (requests, blocks) = (counted(*requests, "request"), units.blocks(*blocks));
            match n {
                1 => format!("server {} holds the only copies of {requests}, {blocks}", servers[0]),
                _ if n == n_servers => {
                    format!("all {} together have {blocks} to serve", counted(n, "server"))
                }
                _ => format!(
                    "{} ({}) hold all copies of {requests}, {blocks}",
                    counted(n, "server"),
                    some_of(servers, 5)
                ),
            }
        }
        Bottleneck::Client { client, blocks, waits_for: None } => {
            format!("client {client} has to receive {}", units.blocks(*blocks))
        }
        Bottleneck::Client { client, blocks, waits_for: Some(server) } => format!(
            "client {client} has to receive {} from servers that are busy at least as long as {server}",
            units.blocks(*blocks)
        ),
        Bottleneck::Concurrency { limit, blocks } => {
            format!("{} have to pass, {} at once", units.blocks(*blocks), counted(*limit, "transfer"))
        }
    }
}

/// The bound that a proof forces. The solver's own proof is checked like any other. The solver may have rounded its
/// bound down; the proved bound counts.
fn verified(batch: &Batch, cluster: &Cluster, bound: &mut Bound, subject: Subject) -> Result<Forced> {
    let forced = evenkeel::check::bound(batch, cluster, bound, subject).map_err(|fault| {
        anyhow::anyhow!("the proof does not hold: {fault}; this is a bug in evenkeel, please report it")
    })?;
    bound.value = bound.value.max(forced.proved);
    Ok(forced)
}
