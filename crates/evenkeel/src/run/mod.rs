//! Executes a plan, whatever happens on the way.
//!
//! [`Executor`] is a state machine. Events go in: blocks moved, transfers failed, servers up or down. Actions come out:
//! transfers to start or to break off, requests delivered. It has no clock: its driver passes the time with each event,
//! and wakes it at [`Executor::wake_at`]. The simulator, the client and the coordinator drive the same machine.
//!
//! **While everything goes to plan**, clients and servers work through their lists in the plan's order: a transfer
//! starts when it is first at both of its ends and both have a free slot. Nothing then starts later than planned
//! (everything ahead of it started and ended in time, and nothing behind it has started), so the planned makespan
//! holds.
//!
//! **Once anything is late or fails**, the order only sets priorities: a free node looks at the first few entries of
//! its list and starts those that can start. Speeds are learnt from the blocks that were moved, and from those that are
//! overdue. When a server is predicted to end later than in the last plan, by a set share, all unstarted work is
//! planned again. Since the end must grow by that share each time, this happens a logarithmic number of times. A late
//! transfer is hedged, once per request and within a budget: a second copy starts elsewhere, and the first to finish
//! wins. Where order is a matter of priorities from the start, so is what is much faster elsewhere once nothing is left to
//! start. The work of a dead server goes elsewhere.
//!
//! **A failure has a cause, and each cause has its own consequence** ([`Cause`]). Blocks that were moved are kept: only
//! the rest is requested again, from the same server or another, and a hedge fetches only the rest.
//!
//! **The world is open.** Requests arrive, are cancelled, and are forgotten when they are over, so that memory follows
//! the open requests. Servers, clients and replicas join, change and leave. Nothing is borrowed: an executor can move
//! to another thread. Re-planning is an action with a snapshot, and its result is an event, so transfers continue while
//! a planner works.
//!
//! **Each request is delivered once, or fails once with a reason, unless it is cancelled.** Events about transfers that
//! are over are refused with an error and change nothing.
//!
//! **Every decision can be explained**: [`Executor::trace`] keeps the latest decisions, each with all candidates and
//! their figures. [`Counts`] has the numbers for a dashboard.
//!
//! Without a plan, or for requests that arrive outside it, [`online`] picks a server: when the request arrives, or when
//! a server is free for it ([`Decide`]).
//!
//! ```
//! use evenkeel::model::{BatchBuilder, ClientId, Cluster, NameTable, Schedule, ServerId};
//! use evenkeel::run::{Action, Cause, Event, Executor, Pick, RequestId, Settings};
//!
//! // Two servers and a client; nothing is planned, requests arrive.
//! let mut nodes = BatchBuilder::new();
//! nodes.declare_servers(["s0", "s1"].iter().fold(NameTable::new(), |mut names, name| { names.intern(name); names }))?;
//! nodes.declare_clients({ let mut names = NameTable::new(); names.intern("c0"); names })?;
//! let nodes = nodes.finish();
//! let settings = Settings::online(Pick::LeastLoaded);
//! let mut executor = Executor::new(&nodes, &Cluster::equal(&nodes), &Schedule::default(), settings, 0)?;
//!
//! let mut actions = Vec::new();
//! let replicas = &[ServerId(0), ServerId(1)];
//! let arrived = Event::Arrived { request: RequestId(7), client: ClientId(0), blocks: 1, replicas };
//! executor.on_event(0, arrived, &mut actions)?;
//! let Some(Action::Start { transfer, server: ServerId(0), .. }) = actions.pop() else { panic!("it starts") };
//!
//! // The server cannot be reached: the other one is asked.
//! executor.on_event(1, Event::Failed { transfer, cause: Cause::Unreachable }, &mut actions)?;
//! let Some(Action::Start { transfer, server: ServerId(1), .. }) = actions.pop() else { panic!("it goes on") };
//! executor.on_event(2, Event::Done { transfer }, &mut actions)?;
//! assert_eq!(actions, [Action::Deliver { request: RequestId(7), client: ClientId(0) }]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod barred;
mod events;
mod executor;
mod gauge;
mod lists;
mod members;
pub mod online;
mod replan;
mod requests;
mod rescue;
mod share;
mod snapshot;
mod start;
mod timers;
mod trace;
mod transfers;
mod undecided;

use crate::model::{Batch, Client, ClientId, Fixed, MAX_SLOTS, Server, ServerId};

pub use executor::Executor;
pub use online::Pick;
pub use snapshot::{NewPlan, Snapshot};
pub use trace::{Candidate, Decided, Decision};

/// Identifies a request while it is open. Row i of the plan's batch is request i. The driver gives any other number to
/// a request that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Identifies a transfer. Each number is higher than all before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId(pub u64);

/// An input to the executor: something that happened outside.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A request that is not in the plan has arrived.
    Arrived {
        /// Its number. No open request has the same.
        request: RequestId,
        /// The client that wants it.
        client: ClientId,
        /// Its size.
        blocks: u64,
        /// The servers that hold it, at least one, each once.
        replicas: &'a [ServerId],
    },
    /// A request is no longer wanted.
    Cancelled {
        /// Which request.
        request: RequestId,
    },
    /// Some of a transfer was moved.
    Progress {
        /// Which transfer.
        transfer: TransferId,
        /// Blocks moved so far in total, from the first on. They are kept, and are not requested again if the transfer
        /// fails (unless the data was damaged, or only the end of the transfer was missing).
        blocks: Fixed,
    },
    /// All of a transfer was moved and is intact. If the executor accepts this event without an error, this transfer
    /// counts.
    Done {
        /// Which transfer.
        transfer: TransferId,
    },
    /// A transfer broke off, or its data is not intact.
    Failed {
        /// Which transfer.
        transfer: TransferId,
        /// Why.
        cause: Cause,
    },
    /// A server is dead, or cannot be reached.
    ServerDown {
        /// Which server.
        server: ServerId,
    },
    /// The server is back.
    ServerUp {
        /// Which server.
        server: ServerId,
    },
    /// A server joins the cluster; or a current or former server changes, and is from now on as given here.
    ServerJoined {
        /// The next number, or one that was assigned before.
        server: ServerId,
        /// What is known about it.
        node: &'a Server,
    },
    /// A server leaves for good: nothing waits for it to come back.
    ServerLeft {
        /// Which server.
        server: ServerId,
    },
    /// A client joins; or a current or former client changes, and is from now on as given here.
    ClientJoined {
        /// The next number, or one that was assigned before.
        client: ClientId,
        /// What is known about it.
        node: &'a Client,
    },
    /// A client is gone, and so is all data that it received. Its requests fail, or start over at another client if any
    /// client may take any request.
    ClientLeft {
        /// Which client.
        client: ClientId,
    },
    /// One more server holds the data of a request.
    ReplicaAdded {
        /// Which request.
        request: RequestId,
        /// Which server.
        server: ServerId,
    },
    /// A server no longer holds the data of a request.
    ReplicaLost {
        /// Which request.
        request: RequestId,
        /// Which server.
        server: ServerId,
    },
    /// The plan that [`Action::Plan`] requested is ready. Pieces that have started or moved since then stay as they
    /// are.
    Planned {
        /// The plan, from [`Snapshot::plan`].
        plan: &'a NewPlan,
    },
    /// Time has passed.
    Wake,
}

/// Why a transfer failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The server cannot be reached, or broke off. The rest is retried, elsewhere if possible. A request fails when
    /// this has happened too often.
    Unreachable,
    /// The transfer took too long. The consequence is the same as for `Unreachable`.
    TimedOut,
    /// The server does not have the data. It is not asked again for any part of the request.
    NotHeld,
    /// The data is not what it should be. Nothing of the transfer counts, the server is not asked again for these
    /// blocks, and [`Action::Report`] reports the damage.
    Damaged,
    /// The server is busy. Nothing new starts there for a while. A request fails when all its servers have refused it
    /// for as long as [`Settings::patience_ns`].
    Refused {
        /// How long the server asks to be left alone, clamped to at least a millisecond and at most the patience.
        retry_after_ns: u64,
    },
}

/// An output of the executor: something for its driver to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start a transfer of some blocks.
    Start {
        /// Its number.
        transfer: TransferId,
        /// The request it belongs to.
        request: RequestId,
        /// The client that receives.
        client: ClientId,
        /// The server that sends.
        server: ServerId,
        /// Where in the request it begins.
        offset: Fixed,
        /// The number of blocks.
        blocks: Fixed,
        /// Whether another transfer of the same blocks is in flight.
        is_hedge: bool,
    },
    /// Break off a transfer. It is over, and its slots are free.
    Withdraw {
        /// Which transfer.
        transfer: TransferId,
    },
    /// Some blocks at a server are damaged. Pass this on to where they can be repaired.
    Report {
        /// The request they belong to.
        request: RequestId,
        /// The server that sent them.
        server: ServerId,
        /// Where in the request they begin.
        offset: Fixed,
        /// The number of blocks.
        blocks: Fixed,
    },
    /// Plan the result of [`Executor::snapshot`], on any thread, and answer with [`Event::Planned`]. Transfers continue
    /// meanwhile. A driver that plans at once sends that event before any other.
    Plan {
        /// The number of the plan. Plans are counted.
        number: u32,
    },
    /// All of a request has arrived.
    Deliver {
        /// Which request.
        request: RequestId,
        /// The client that has it: its own client, or the one that took it over.
        client: ClientId,
    },
    /// A request is given up.
    Fail {
        /// Which request.
        request: RequestId,
        /// Why.
        reason: Reason,
    },
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Reason {
    #[error("none of the servers that hold it came back in time; wait longer, or bring one of them up")]
    NoServer,
    #[error("too many of its transfers failed, the last at server number {}; check that server", server.0)]
    Failures { server: ServerId },
    #[error(
        "no server has an intact copy, the last one asked was server number {}; restore a copy",
        server.0
    )]
    NoCopy { server: ServerId },
    #[error("server number {} refused it for too long; send fewer requests at once, or wait longer", server.0)]
    Refused { server: ServerId },
    #[error("its client has left")]
    ClientLeft,
}

/// An event that does not fit the events before it. It has changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Misfit {
    #[error("there is no client number {0}")]
    NoSuchClient(u32),
    #[error("there is no server number {0}")]
    NoSuchServer(u32),
    #[error("transfer {} was never started; report only transfers that the executor started", .0.0)]
    NoSuchTransfer(TransferId),
    #[error("transfer {} is over; ignore the event", .0.0)]
    Over(TransferId),
    #[error("request {} is already open; use another number", .0.0)]
    Known(RequestId),
    #[error("request {} is not open: it has not arrived, or is over; ignore the event", .0.0)]
    NotOpen(RequestId),
    #[error("request {} has no replicas, two on one server, or more than 1000; name 1 to 1000 different servers", .0.0)]
    BadReplicas(RequestId),
    #[error("too many requests are open; let some end first")]
    TooMany,
    #[error("a node has {0} slots; use 1 to {MAX_SLOTS}")]
    BadSlots(u32),
    #[error("plan {0} was not requested, or was already delivered; ignore it")]
    NotAsked(u32),
    #[error("transfer {} reports less progress than before, or more than its size; report the total so far", .0.0)]
    WrongProgress(TransferId),
    #[error("the time is already {now_ns} ns; pass events in order of time")]
    Past { now_ns: u64 },
}

/// Why a plan cannot be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum BadPlan {
    #[error("request {0} of the plan is not in the batch; give the plan of this batch")]
    NoSuchRequest(u32),
    #[error("server number {} of the plan does not hold request {request}; give the plan of this batch", server.0)]
    NotHeld { request: u32, server: ServerId },
    #[error("the planned blocks of request {0} do not add up to its size; give the plan of this batch")]
    NotWhole(u32),
    #[error("more transfers than can be numbered; split the batch")]
    TooMany,
}

/// When a transfer counts as late.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Late {
    /// When it has taken longer than expected by this share.
    Share(f64),
    /// When it has taken longer than 95 in 100 of the recent transfers, for its size (Dean and Barroso, The Tail at
    /// Scale, 2013).
    P95,
    /// When it has taken longer than this many nanoseconds.
    AfterNs(u64),
}

/// When to pick the server of a request that is not planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decide {
    /// When the request arrives. It then waits for that server.
    OnArrival,
    /// When its client and one of the servers that hold it are free. Until then the request waits for all of them. A
    /// server that turns out to be slow just takes requests less often. Beside a plan that is still being followed, and
    /// where clients share work, servers are picked on arrival nevertheless.
    WhenFree,
}

/// What an executor has done so far, for monitoring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that are open.
    pub open: usize,
    /// Transfers in flight.
    pub running: usize,
    /// Requests that were delivered.
    pub delivered: u64,
    /// Requests that have failed.
    pub failed: u64,
    /// Requests that were cancelled.
    pub cancelled: u64,
    /// Transfers that were started.
    pub started: u64,
    /// Of these, transfers that were second copies or replaced a late one.
    pub hedged: u64,
    /// Transfers that failed, for any cause, or were lost with their server.
    pub lost: u64,
    /// How often a plan was requested.
    pub plans: u32,
    /// Blocks moved in total.
    pub moved: u128,
}

/// How an executor behaves. [`Settings::default`] is for plans, [`Settings::online`] for requests that arrive over
/// time.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long a block takes at speed 1. Small blocks may take less than a nanosecond.
    pub block_ns: f64,
    /// How to pick the server of a request that arrives or has to move.
    pub pick: Pick,
    /// When to pick the server of a request that arrives.
    pub decide: Decide,
    /// When a transfer is late. Its server is then assumed to be as slow as the delay shows.
    pub late: Late,
    /// When a transfer is late enough for a second copy.
    pub hedge_after: Late,
    /// No transfer is late before this time, unless [`Late::AfterNs`] says so. On a network even nothing takes a while.
    pub least_late_ns: u64,
    /// The share by which the predicted end, counted from the start of the run, must exceed that of the last plan
    /// before a new plan is requested. `None` means never.
    pub replan_after: Option<f64>,
    /// A new plan cuts no piece into parts with fewer blocks: each part costs a request of its own. A smaller part goes
    /// along with the largest part of its piece.
    pub least_part_blocks: u64,
    /// Blocks that may be moved twice. If 0, a late transfer is only waited for. Without re-planning, the queue behind
    /// a transfer that is late enough also goes elsewhere, which moves nothing twice.
    pub hedge_blocks: u64,
    /// The share of moved blocks that is added back to this budget, up to its initial size. This is for executors that
    /// run for weeks.
    pub hedge_share: f64,
    /// How often transfers of a request may fail, or be lost with their server, before the request fails. Without this
    /// limit it would retry forever where a server comes and goes.
    pub most_failures: u32,
    /// How long a request waits for a server to come back, and a transfer for a sign of life (unless it was expected to
    /// take longer).
    pub patience_ns: u64,
    /// Whether transfers start in the plan's order while everything goes to plan, which is what a makespan that was
    /// proved takes. If not, the order sets priorities from the start: on real networks no two transfers take the same
    /// time, and no server should idle because another is a bit behind. A server that has nothing left to start is then a
    /// reason to plan the rest again.
    pub keeps_order: bool,
    /// Whether any client may take any request. If so, an idle client takes one from the longest list.
    pub shares_work: bool,
    /// The seed of all random choices.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            block_ns: 1e9,
            pick: Pick::LeastLoaded,
            decide: Decide::OnArrival,
            // Servers vary by less than that when nothing is wrong.
            late: Late::Share(0.5),
            least_late_ns: 0,
            hedge_after: Late::Share(0.5),
            // A tenth: planning costs far less than a tenth of any run that is worth planning.
            replan_after: Some(0.1),
            least_part_blocks: 0,
            hedge_blocks: 0,
            hedge_share: 0.0,
            most_failures: 4,
            patience_ns: 30_000_000_000,
            keeps_order: true,
            shares_work: false,
            seed: 0,
        }
    }
}

impl Settings {
    /// Picks the server when a request arrives, and the request stays there. With [`Decide::WhenFree`], picks it when
    /// one is free.
    pub fn online(pick: Pick) -> Self {
        Self { pick, replan_after: None, ..Self::default() }
    }

    /// `hedged`: two choices, and a second copy of each transfer that is later than 95 in 100. The budget is a
    /// twentieth of all blocks, since a twentieth of the transfers are later than that.
    pub fn hedged(batch: &Batch) -> Self {
        let hedge_blocks = batch.total_blocks().div_ceil(20);
        Self { hedge_after: Late::P95, hedge_blocks, ..Self::online(Pick::TwoChoices) }
    }

    /// The time of a block, clamped to above 0 and to what 64 bits can hold.
    fn sane_block_ns(&self) -> f64 {
        self.block_ns.max(1e-9).min(u64::MAX as f64)
    }
}
