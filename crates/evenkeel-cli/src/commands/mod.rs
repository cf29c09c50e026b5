//! The commands, a file each.

mod check;
mod demo;
mod generate;
mod plan;
mod score;
mod shell;

use anyhow::{Result, bail};
use evenkeel::bound::Bound;
use evenkeel::check::{Forced, Subject};
use evenkeel::draw::Seeded;
use evenkeel::model::{Batch, Choice, Part, Schedule, Server, Transfer, shown};
use evenkeel::order;
use evenkeel::policy::{self, Policy};
use evenkeel::select::{Goal, optimal};

use crate::cli::{Cli, Command, Objective, PolicyArgs};
use crate::formats::{Bottleneck, Input};
use crate::text::{counted, some_of};

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
        Ok(Self { policy, order, goal, seed: args.seed })
    }

    /// What a bound on this plan speaks about.
    fn subject(&self) -> Subject {
        if self.order.is_some() { Subject::Length } else { Subject::MaxLoad }
    }

    fn select(&self, batch: &Batch) -> (Choice, Option<Bound>) {
        (self.policy.select)(batch, self.goal, &mut Seeded::new(self.seed))
    }

    /// The transfers of a choice in their order; without one they all start at 0.
    fn schedule(&self, batch: &Batch, choice: &Choice) -> Schedule {
        if self.order.is_some() {
            return order::colour::order(batch, choice);
        }
        let transfers = choice.parts(batch).map(|Part { request, server, blocks }| Transfer {
            request,
            server,
            start: 0,
            blocks,
        });
        Schedule { transfers: transfers.collect(), length: 0 }
    }

    /// The bound on the length, or without an order on the largest load; `known` if the policy gave that one.
    fn bound(&self, batch: &Batch, known: Option<Bound>) -> Bound {
        match (known, self.subject()) {
            (Some(bound), Subject::Length) if self.goal == Goal::Length => bound,
            (Some(bound), Subject::MaxLoad) => bound,
            (_, Subject::Length) => optimal::length_bound(batch),
            (_, Subject::MaxLoad) => optimal::select(batch, Goal::MaxLoad).1,
        }
    }
}

/// Refuses what would otherwise be silently ignored.
fn require_equal_nodes(input: &Input) -> Result<()> {
    let usual = Server::default();
    for (server, name) in input.servers.iter().zip(input.batch.servers().iter()) {
        let what = match server {
            Server { speed, .. } if *speed != usual.speed => "a speed other than 1",
            Server { slots, .. } if *slots != usual.slots => "several slots",
            Server { backlog_bytes, .. } if *backlog_bytes != usual.backlog_bytes => "a backlog",
            _ => continue,
        };
        bail!("server `{}` has {what}; plans for unequal servers are not made yet", shown(name));
    }
    for (client, name) in input.clients.iter().zip(input.batch.clients().iter()) {
        if client.slots != 1 {
            bail!("client `{}` has several slots; plans for unequal clients are not made yet", shown(name));
        }
    }
    Ok(())
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
        Bottleneck::Client { client, blocks } => {
            format!("client {client} has to receive {}", counted(*blocks, "block"))
        }
    }
}

/// What a proof forces: the solver's own proof is checked like anybody else's.
fn verified(batch: &Batch, bound: &Bound, subject: Subject) -> Result<Forced> {
    evenkeel::check::bound(batch, bound, subject)
        .map_err(|fault| anyhow::anyhow!("the proof does not hold, which is a bug: {fault}"))
}

fn ratio(value: u64, bound: u64) -> f64 {
    if bound == 0 { 1.0 } else { value as f64 / bound as f64 }
}
