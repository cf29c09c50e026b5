//! The driver that carries out each policy.

use evenkeel::bid::Rules;
use evenkeel::draw::Ties;
use evenkeel::model::{Batch, Choice, Cluster, Schedule};
use evenkeel::plan::{NoPlan, Options, Planner};
use evenkeel::policy::{Ask, Kind, Live, Ordered, Policy, SelectFn};
use evenkeel::run::{BadPlan, Pick};
use evenkeel::select::Goal;
use evenkeel::select::replanned::TakeBack;

use super::{Conduct, Requests, View, bid, centre, execute, push};
use crate::fabric::Fabric;
use crate::outcome::Outcome;

/// How a policy is carried out.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    /// Everything is planned at the start. The executor carries out the plan, and repairs it.
    Planned,
    /// The executor picks a server for each request when it arrives, or when one is free.
    Online(Pick),
    /// As `Online`, with a second copy of transfers that are late.
    Hedged,
    /// Clients and servers bid, then the executor carries out the result.
    Bid(Rules),
    /// Clients send their requests to the servers that were chosen at the start.
    Pushed(SelectFn),
    /// A centre chooses at every arrival.
    Central(TakeBack, SelectFn),
    /// As `Central`, and the centre learns which servers are slow.
    Learning(SelectFn),
}

impl Way {
    /// The way to carry out a policy, if requests arrive over time or if all are present from the start; none if there
    /// is no way.
    pub fn of(policy: &Policy, is_over_time: bool, ask: &Ask) -> Option<Self> {
        Some(match (policy.live, policy.kind) {
            (Live::Picks(pick), _) => Self::Online(pick),
            (Live::Hedges, _) => Self::Hedged,
            (Live::Blind, Kind::Select(select)) => Self::Pushed(select),
            (Live::TakesBackOverload, Kind::Select(select)) if is_over_time => {
                Self::Central(TakeBack::Overload, select)
            }
            (Live::Mended, Kind::Select(select)) if is_over_time => Self::Learning(select),
            (_, Kind::Select(select)) if is_over_time => Self::Central(TakeBack::Everything, select),
            (Live::Mended, Kind::Select(_)) => Self::Planned,
            (_, Kind::Select(select)) => Self::Pushed(select),
            (_, Kind::Order(_)) if !is_over_time => Self::Planned,
            (Live::Bids(rules), _) if !is_over_time => Self::Bid(rules(ask)),
            (_, Kind::Plan(_)) if !is_over_time => Self::Planned,
            _ => return None,
        })
    }
}

/// Why a policy cannot serve requests.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum NotServed {
    #[error("policy {0} cannot serve these requests; use one that chooses replicas")]
    NoWay(&'static str),
    #[error(transparent)]
    View(#[from] evenkeel::model::ModelError),
    #[error(transparent)]
    Plan(#[from] BadPlan),
    #[error(transparent)]
    NoPlan(#[from] NoPlan),
    #[error(
        "its clients send requests by themselves, and only the executor knows `lost`, `cancelled` and `dead_clients`; leave \
         these keys out, or the policy"
    )]
    Untroubled,
    #[error("{0}")]
    Refused(String),
}

/// Serves requests under a policy.
pub fn by_policy(
    requests: &Requests,
    fabric: Fabric<'_>,
    policy: &Policy,
    conduct: &Conduct,
    seed: u64,
) -> Result<Outcome, NotServed> {
    let is_over_time = requests.arrivals_ns.is_some();
    let hardware = fabric.hardware();
    let view = View::new(requests, hardware)?;
    let ask = Ask { seed, ties: Ties::Hashed(seed), ..Ask::default() };
    let (batch, cluster) = (&requests.batch, &view.cluster);
    let way = Way::of(policy, is_over_time, &ask).ok_or(NotServed::NoWay(policy.name))?;
    let trouble = &conduct.trouble;
    if trouble.is_any() && matches!(way, Way::Pushed(_) | Way::Central(..) | Way::Learning(_)) {
        return Err(NotServed::Untroubled);
    }
    let mut outcome = match way {
        Way::Planned => {
            let Ordered { schedule, rounds, messages } = planned(policy, batch, cluster, ask)?;
            let mut outcome =
                execute(requests, fabric, &view, &schedule, conduct.planned(&view, seed), trouble)?;
            outcome.n_messages += messages.unwrap_or(0);
            outcome.n_rounds = rounds.map_or(0, |(n_rounds, _)| n_rounds.into());
            outcome
        }
        Way::Online(pick) => {
            let settings = conduct.online(pick, is_over_time, &view, seed);
            execute(requests, fabric, &view, &Schedule::default(), settings, trouble)?
        }
        Way::Hedged => {
            let settings = conduct.hedged(batch, is_over_time, &view, seed);
            execute(requests, fabric, &view, &Schedule::default(), settings, trouble)?
        }
        Way::Bid(rules) => bid(requests, fabric, &view, rules, conduct.planned(&view, seed), trouble)?,
        Way::Pushed(select) => push(requests, fabric, &select(batch, cluster, &ask).0),
        Way::Central(_, select) | Way::Learning(select) => {
            // The remaining requests get a new choice again and again, so the load counts and not the order.
            let ask = Ask { goal: Goal::MaxLoad, ..ask };
            let choose = |batch: &_, cluster: &_| -> Choice { select(batch, cluster, &ask).0 };
            let (take_back, learns) = match way {
                Way::Central(take_back, _) => (take_back, false),
                _ => (TakeBack::Everything, true),
            };
            let take_back = if conduct.replans { take_back } else { TakeBack::Nothing };
            centre(requests, fabric, &view, take_back, learns, choose)
        }
    };
    outcome.findings.none().map_err(NotServed::Refused)?;
    outcome.bound_ns = (!is_over_time).then(|| requests.bound_ns(hardware, &outcome.undone)).transpose()?;
    Ok(outcome)
}

/// The plan of a policy, without its proof of optimality.
fn planned(policy: &Policy, batch: &Batch, cluster: &Cluster, ask: Ask) -> Result<Ordered, NoPlan> {
    let planner = Planner::new(&Options { policy, ask, ..Options::default() })?;
    Ok(planner.order(batch, cluster, planner.choose(batch, cluster)).ordered)
}
