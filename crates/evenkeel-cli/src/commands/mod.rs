//! The commands, a file each.

mod check;
mod demo;
mod explain;
mod generate;
mod plan;
mod score;
mod shell;

use anyhow::{Result, bail};
use evenkeel::bound::Bound;
use evenkeel::check::{Forced, Subject};
use evenkeel::draw::Seeded;
use evenkeel::model::{Batch, Choice, Cluster, Fixed, Part, Ratio, Schedule, Speed, Transfer};
use evenkeel::order;
use evenkeel::policy::{self, Policy};
use evenkeel::select::{Goal, optimal, whole};

use crate::cli::{Cli, Command, Objective, PolicyArgs};
use crate::formats::{Bottleneck, Figure};
use crate::text::{counted, figure, some_of};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should.
    Done,
    /// What was checked is wrong.
    Failed,
}

/// Does what the arguments say. An error means wrong usage or input.
pub fn run(cli: Cli) -> Result<Outcome> {
    match cli.command {
        Command::Plan(args) => plan::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Score(args) => score::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Completions { shell } => shell::completions(shell),
        Command::Man { command } => shell::man(command.as_deref()),
    }
}

/// What is to be planned, once the names in the arguments are known to be right.
struct Task {
    policy: &'static Policy,
    order: Option<&'static str>,
    goal: Goal,
    whole: bool,
    seed: u64,
}

impl Task {
    fn new(args: &PolicyArgs) -> Result<Self> {
        let known = || {
            let names = policy::SELECTIONS.iter().map(|p| p.name);
            names.chain(policy::ORDERS.iter().map(|&(name, _)| name)).collect::<Vec<_>>().join(", ")
        };
        let Some(policy) = policy::find(&args.policy) else {
            bail!("there is no policy `{}`; known are {}", args.policy, known());
        };
        let Some(&(order, _)) = policy::ORDERS.iter().find(|(name, _)| *name == args.order) else {
            let names = policy::ORDERS.map(|(name, _)| name).join(", ");
            bail!("there is no order `{}`; known are {names}", args.order);
        };
        let goal = match args.objective {
            Objective::Mean => Goal::Mean,
            Objective::Max if args.no_order => Goal::MaxLoad,
            Objective::Max => Goal::Length,
        };
        let order = (!args.no_order).then_some(order);
        Ok(Self { policy, order, goal, whole: args.whole, seed: args.seed })
    }

    /// What a bound on this plan speaks about.
    fn subject(&self) -> Subject {
        if self.order.is_some() { Subject::Length } else { Subject::MaxLoad }
    }

    fn select(&self, batch: &Batch, cluster: &Cluster) -> (Choice, Option<Bound>) {
        let (choice, bound) = (self.policy.select)(batch, cluster, self.goal, &mut Seeded::new(self.seed));
        let choice = if self.whole { whole::unsplit(batch, cluster, choice) } else { choice };
        (choice, bound)
    }

    /// The transfers of a choice in their order; without one they all start at 0.
    fn schedule(&self, batch: &Batch, cluster: &Cluster, choice: &Choice) -> Schedule {
        if self.order.is_some() {
            return order::colour::order(batch, cluster, choice);
        }
        let transfers = choice.parts(batch).map(|Part { request, server, blocks }| Transfer {
            request,
            server,
            start: Fixed::ZERO,
            blocks: blocks.into(),
        });
        Schedule { transfers: transfers.collect(), length: Ratio::ZERO }
    }

    /// The bound on the length, or without an order on the largest load; `known` if the policy gave that one.
    fn bound(&self, batch: &Batch, cluster: &Cluster, known: Option<Bound>) -> Bound {
        match (known, self.subject()) {
            (Some(bound), Subject::Length) if self.goal == Goal::Length => bound,
            (Some(bound), Subject::MaxLoad) => bound,
            (_, Subject::Length) => optimal::bound(batch, cluster, Goal::Length),
            (_, Subject::MaxLoad) => optimal::select(batch, cluster, Goal::MaxLoad).1,
        }
    }
}

/// A length in words: slots where all servers have speed 1.
fn of_time(cluster: &Cluster, time: Figure) -> String {
    match (is_in_slots(cluster), time.0.whole()) {
        (true, Some(slots)) => counted(slots, "slot"),
        _ => format!("{} (in blocks at speed 1)", figure(time.0)),
    }
}

/// A load in words: blocks where a server takes one a slot.
fn of_load(cluster: &Cluster, load: Figure) -> String {
    match (is_in_slots(cluster), load.0.whole()) {
        (true, Some(blocks)) if cluster.servers().iter().all(|s| s.slots == 1) => counted(blocks, "block"),
        _ => of_time(cluster, load),
    }
}

fn is_in_slots(cluster: &Cluster) -> bool {
    cluster.common_speed() == Some(Speed::ONE)
}

/// The bottleneck in words.
fn in_words(bottleneck: &Bottleneck, n_servers: u64) -> String {
    match bottleneck {
        Bottleneck::Servers { blocks: 0, .. } => "there is nothing to transfer".to_owned(),
        Bottleneck::Servers { servers, requests, blocks } => {
            let n = servers.len() as u64;
            let (requests, blocks) = (counted(*requests, "request"), counted(*blocks, "block"));
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
            format!("client {client} has to receive {}", counted(*blocks, "block"))
        }
        Bottleneck::Client { client, blocks, waits_for: Some(server) } => format!(
            "client {client} has to receive {} from servers that are busy at least as long as {server}",
            counted(*blocks, "block")
        ),
        Bottleneck::Concurrency { limit, blocks } => {
            format!("{} have to pass, {} at once", counted(*blocks, "block"), counted(*limit, "transfer"))
        }
    }
}

/// What a proof forces: the solver's own proof is checked like anybody else's. The solver may have rounded its bound
/// down; the bound is what is proved.
fn verified(batch: &Batch, cluster: &Cluster, bound: &mut Bound, subject: Subject) -> Result<Forced> {
    let forced = evenkeel::check::bound(batch, cluster, bound, subject)
        .map_err(|fault| anyhow::anyhow!("the proof does not hold, which is a bug: {fault}"))?;
    bound.value = bound.value.max(forced.proved);
    Ok(forced)
}
