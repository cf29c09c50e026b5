//! Which policies one client can carry out, and how: the same machine with the same settings as in a simulation.

use std::collections::HashMap;

use evenkeel::model::{Batch, Choice, Cluster, Fixed, ModelError, Ratio, Schedule, ServerId, Transfer};
use evenkeel::plan::{NoPlan, Options, Planner};
use evenkeel::policy::{Ask, Kind, Live, Policy};
use evenkeel::run::{Decide, Pick, Settings};
use evenkeel::select::{Goal, optimal};

use super::work::BYTE_NS;

/// The share of all bytes that may be read twice because a transfer is late.
const HEDGED_SHARE: u64 = 20;
/// At least this many: else nothing of a small data set could be read elsewhere when its server is slow.
const LEAST_HEDGED: u64 = 4 << 20;
/// No transfer is late before this time: servers take a while to answer, and networks send in bursts.
const LEAST_LATE_NS: u64 = 100_000_000;

/// The least part of a range that is read elsewhere by a new plan: less costs a round trip for nothing.
const LEAST_PART: u64 = 64 << 10;

/// Why a client cannot carry out a policy by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Undrivable {
    #[error("clients and servers bid for transfers, and these servers take no part in that")]
    Bids,
    #[error("it looks for the nearest copy, and nobody knows here how far away servers are")]
    ByDistance,
    #[error("it does not choose the server of a read")]
    ChoosesNothing,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum NotPlanned {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Policy(#[from] Undrivable),
    #[error(transparent)]
    Plan(#[from] NoPlan),
}

/// Whether a client can carry out a policy by itself.
pub fn drives(policy: &Policy) -> Result<(), Undrivable> {
    Way::of(policy).map(drop)
}

/// Whether what a policy decides depends on how fast servers are.
pub(super) fn depends_on_rates(policy: &Policy) -> bool {
    !matches!(policy.live, Live::Blind)
}

/// How a client carries out a policy.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// By a plan, which is repaired when something is late or fails.
    Mended,
    /// By a choice that stands, unless something fails.
    AsChosen,
    /// A server is picked when one is free.
    Picked(Pick),
    /// The same, and what is late is read a second time.
    Hedged,
}

impl Way {
    fn of(policy: &Policy) -> Result<Self, Undrivable> {
        Ok(match (policy.live, policy.kind) {
            (Live::Picks(pick), _) => Self::Picked(pick),
            (Live::Hedges, _) => Self::Hedged,
            (Live::Bids(_), _) => return Err(Undrivable::Bids),
            _ if policy.by_distance => return Err(Undrivable::ByDistance),
            (Live::Mended, Kind::Select(_)) | (_, Kind::Order(_) | Kind::Plan(_)) => Self::Mended,
            (_, Kind::Select(_)) => Self::AsChosen,
            (_, Kind::Queue(_) | Kind::Place(_) | Kind::Assign(_)) => {
                return Err(Undrivable::ChoosesNothing);
            }
        })
    }
}

/// What a policy decides before anything is read.
#[derive(Debug)]
pub(super) struct Decided {
    /// Who serves what; empty for policies that pick a server when one is free.
    pub(super) schedule: Schedule,
    pub(super) settings: Settings,
    /// No plan ends before this many seconds, if the rates hold.
    pub(super) bound_s: f64,
}

/// How the executor carries out a policy.
pub(super) fn settings(policy: &Policy, batch: &Batch) -> Result<Settings, Undrivable> {
    let hedge_blocks = (batch.total_blocks() / HEDGED_SHARE).max(LEAST_HEDGED);
    let settings = match Way::of(policy)? {
        Way::Mended => Settings { hedge_blocks, least_part_blocks: LEAST_PART, ..Settings::default() },
        Way::AsChosen => Settings { replan_after: None, ..Settings::default() },
        Way::Picked(pick) => Settings { decide: Decide::WhenFree, ..Settings::online(pick) },
        Way::Hedged => Settings { decide: Decide::WhenFree, ..Settings::hedged(batch) },
    };
    // On real networks no two transfers take the same time: the order sets priorities.
    Ok(Settings { block_ns: BYTE_NS, keeps_order: false, least_late_ns: LEAST_LATE_NS, ..settings })
}

/// Asks a policy for its plan.
pub(super) fn decide(policy: &Policy, batch: &Batch, cluster: &Cluster) -> Result<Decided, NotPlanned> {
    let settings = settings(policy, batch)?;
    // All servers together have as many slots as the client. So only loads count, and only the proof of these.
    let ask = Ask { goal: Goal::MaxLoad, ..Ask::default() };
    let (schedule, bound) = match (Way::of(policy)?, policy.kind) {
        (Way::Picked(_) | Way::Hedged, _) => (Schedule::default(), None),
        (_, Kind::Select(select)) => {
            let (choice, bound) = select(batch, cluster, &ask);
            (in_lists(batch, cluster, &choice), bound)
        }
        _ => {
            let planner = Planner::new(&Options { policy, ask, ..Options::default() })?;
            (planner.order(batch, cluster, planner.choose(batch, cluster)).ordered.schedule, None)
        }
    };
    let bound = bound.unwrap_or_else(|| optimal::bound(batch, cluster, Goal::MaxLoad));
    Ok(Decided { schedule, settings, bound_s: bound.value.to_f64() })
}

/// A choice as a schedule in which each server works through its list.
fn in_lists(batch: &Batch, cluster: &Cluster, choice: &Choice) -> Schedule {
    let mut busy_ns = vec![0_u128; cluster.servers().len()];
    let mut transfers = Vec::with_capacity(batch.n_requests());
    for part in choice.parts(batch) {
        let busy = &mut busy_ns[part.server.index()];
        let start = Fixed::from_nanos(*busy).unwrap_or(Fixed::ZERO);
        let blocks = Fixed::from_nanos(u128::from(part.blocks) * 1_000_000_000).unwrap_or(Fixed::ZERO);
        transfers.push(Transfer { request: part.request, server: part.server, start, blocks });
        *busy += u128::from(part.blocks) * 1_000_000_000 / u128::from(rate_of(cluster, part.server));
    }
    first_bytes_first(batch, &mut transfers);
    let length = Ratio::new(busy_ns.into_iter().max().unwrap_or(0), 1_000_000_000);
    Schedule { transfers, length }
}

/// Requests of the same client and size that the same servers hold are interchangeable: the first of them gets the
/// earliest place. So objects arrive from their beginnings on, and can be hashed meanwhile.
fn first_bytes_first(batch: &Batch, transfers: &mut [Transfer]) {
    let mut alike: HashMap<_, Vec<usize>> = HashMap::new();
    for (number, transfer) in transfers.iter().enumerate() {
        let row = transfer.request as usize;
        let blocks = batch.blocks(row);
        if transfer.blocks == Fixed::from(blocks) {
            alike.entry((batch.client(row), blocks, batch.replicas().of(row))).or_default().push(number);
        }
    }
    for numbers in alike.into_values() {
        let mut places: Vec<_> = numbers.iter().map(|&n| (transfers[n].start, transfers[n].server)).collect();
        places.sort_unstable();
        for (number, (start, server)) in numbers.into_iter().zip(places) {
            (transfers[number].start, transfers[number].server) = (start, server);
        }
    }
}

/// Bytes per second of all slots of a server together.
fn rate_of(cluster: &Cluster, server: ServerId) -> u64 {
    let server = cluster.server(server);
    (server.speed.millionths() / 1_000_000 * u64::from(server.slots)).max(1)
}
