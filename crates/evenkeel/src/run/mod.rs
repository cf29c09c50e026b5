//! Carries a plan out, whatever happens on the way.
//!
//! [`Executor`] is a state machine: events in (what was moved, what failed, who is up), actions out (what to start,
//! what to give up, what is delivered). It has no clock; whoever drives it tells the time, and wakes it when
//! [`Executor::wake_at`] says so. Simulator, client and coordinator drive the same machine.
//!
//! **While all goes as planned**, clients and servers go through their lists in the plan's order: a transfer starts
//! when it is first at both of its ends and both have a free slot. Then nothing starts later than planned (whatever
//! stood before it began and ended in time, and what stands behind it has not begun), so the plan's length is kept.
//!
//! **Once anything is late or fails**, order only decides who is first: whoever is free takes the first few on its
//! list that can start. Speeds are learnt from what was moved, and from what should have been by now. Where a
//! server is predicted to end later than the last plan said, by a set share, all that is unstarted is planned anew;
//! since the end has to grow by that share each time, this happens a logarithmic number of times. What is late is
//! hedged, once a request and within a budget: a second copy starts elsewhere, the first that is done wins. What a
//! dead server had to do goes elsewhere.
//!
//! **A failure has a cause, and each cause its own consequence** ([`Cause`]). What was moved before is kept: only the rest
//! is asked for again, here or elsewhere, and a hedge fetches the rest alone.
//!
//! **The world is open.** Requests arrive, are cancelled, and are forgotten when they are over, so that memory follows what
//! is open. Servers, clients and replicas join, change and leave. Nothing is borrowed: an executor can move to another thread.
//! To plan anew is an action with a snapshot, and its result an event, so that transfers go on while somebody plans.
//!
//! **Each request is delivered once, or fails once with the reason, unless it is cancelled.** Events about transfers that
//! are over are refused as such and change nothing.
//!
//! **Every decision can be explained**: [`Executor::trace`] keeps the latest, with all who could have been chosen and the
//! figures of each. What a dashboard shows is in [`Counts`].
//!
//! Without a plan, or for requests that arrive beside it, a server is picked by [`online`]: when the request arrives,
//! or when a server is free for it ([`Decide`]).
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
mod start;
mod timers;
mod trace;
mod transfers;
mod undecided;

use crate::model::{Batch, Choice, Client, ClientId, Cluster, Fixed, MAX_SLOTS, Server, ServerId};
use crate::select::optimal;

pub use executor::Executor;
pub use online::Pick;
pub use trace::{Candidate, Decided, Decision};

/// Names a request, as long as it is open. Row i of the plan's batch is request i; what arrives is given any other number by
/// whoever drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Names a transfer. Each has a higher number than all before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransferId(pub u64);

/// What happens to the executor.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A request that is not in the plan has arrived.
    Arrived {
        /// Its number, which no open request has.
        request: RequestId,
        /// Who wants it.
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
        /// Blocks moved so far, in all, from the first on. They are there, and are not asked for again should the transfer
        /// fail (unless it was damaged, or nothing but its end was missing).
        blocks: Fixed,
    },
    /// All of a transfer was moved, and is good. If this is taken in without an error, it is this transfer that counts.
    Done {
        /// Which transfer.
        transfer: TransferId,
    },
    /// A transfer was broken off, or what it brought is not good.
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
    /// It is back.
    ServerUp {
        /// Which server.
        server: ServerId,
    },
    /// A server joins the cluster; or one that belongs to it, or did, is from now on as told here.
    ServerJoined {
        /// The next number, or one that was given before.
        server: ServerId,
        /// What is known of it.
        node: &'a Server,
    },
    /// A server leaves for good: nobody waits for it to come back.
    ServerLeft {
        /// Which server.
        server: ServerId,
    },
    /// A client joins; or one that is there, or was, is from now on as told here.
    ClientJoined {
        /// The next number, or one that was given before.
        client: ClientId,
        /// What is known of it.
        node: &'a Client,
    },
    /// A client is gone, and all that it has received. Its requests fail, or start over at another if any client may take
    /// any request.
    ClientLeft {
        /// Which client.
        client: ClientId,
    },
    /// One more server holds what a request asks for.
    ReplicaAdded {
        /// Which request.
        request: RequestId,
        /// Which server.
        server: ServerId,
    },
    /// A server no longer holds what a request asks for.
    ReplicaLost {
        /// Which request.
        request: RequestId,
        /// Which server.
        server: ServerId,
    },
    /// The plan that [`Action::Plan`] asked for is made. What has started or moved since then stays as it is.
    Planned {
        /// What was planned.
        snapshot: &'a Snapshot,
        /// Who serves each row of its batch.
        choice: &'a Choice,
    },
    /// Time has passed.
    Wake,
}

/// Why a transfer failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The server cannot be reached, or broke off. The rest is tried again, elsewhere if possible; a request fails when this
    /// has happened too often.
    Unreachable,
    /// It took too long. As above.
    TimedOut,
    /// The server does not have the data. It is not asked again for anything of the request.
    NotHeld,
    /// What came is not what it should be. Nothing of the transfer counts, the server is not asked again for these blocks,
    /// and [`Action::Report`] says so.
    Damaged,
    /// The server is busy. Nothing new starts there for a while; a request fails when it has been refused for as long as
    /// [`Settings::patience_ns`].
    Refused {
        /// How long the server asks to be left alone; at least a millisecond and at most the patience is kept to.
        retry_after_ns: u64,
    },
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Move some blocks.
    Start {
        /// Its number.
        transfer: TransferId,
        /// Of which request.
        request: RequestId,
        /// Who receives.
        client: ClientId,
        /// Who sends.
        server: ServerId,
        /// Where in the request it begins.
        offset: Fixed,
        /// How many blocks.
        blocks: Fixed,
        /// Whether another transfer of the same blocks is under way.
        is_hedge: bool,
    },
    /// Break a transfer off; it is over, and its slots are free.
    Withdraw {
        /// Which transfer.
        transfer: TransferId,
    },
    /// Some blocks at a server are damaged: whoever can repair them should know.
    Report {
        /// Of which request.
        request: RequestId,
        /// Who sent them.
        server: ServerId,
        /// Where in the request they begin.
        offset: Fixed,
        /// How many blocks.
        blocks: Fixed,
    },
    /// Plan what [`Executor::snapshot`] gives anew, on any thread, and tell [`Event::Planned`]. Transfers go on meanwhile.
    /// Whoever plans at once tells so before anything else.
    Plan {
        /// Which plan: they are counted.
        number: u32,
    },
    /// All of a request is there.
    Deliver {
        /// Which request.
        request: RequestId,
        /// Who has it: its own client, or the one that took it over.
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
    #[error("too many of its transfers failed, the last at server number {}; look there", server.0)]
    Failures { server: ServerId },
    #[error(
        "no server has it: each has said so or sent damaged data, the last server number {}; restore a copy",
        server.0
    )]
    NoCopy { server: ServerId },
    #[error("server number {} has refused it for too long; ask for less at once, or wait longer", server.0)]
    Refused { server: ServerId },
    #[error("its client has left")]
    ClientLeft,
}

/// An event that does not fit what came before. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Misfit {
    #[error("there is no client number {0}")]
    NoSuchClient(u32),
    #[error("there is no server number {0}")]
    NoSuchServer(u32),
    #[error("transfer {} was never started", .0.0)]
    NoSuchTransfer(TransferId),
    #[error("transfer {} is over", .0.0)]
    Over(TransferId),
    #[error("request {} is open already, from the plan or since it arrived", .0.0)]
    Known(RequestId),
    #[error("request {} has not arrived, or is over", .0.0)]
    NotOpen(RequestId),
    #[error("request {} needs a replica, each on another server, and not more than a thousand", .0.0)]
    BadReplicas(RequestId),
    #[error("too many requests are open; let some end first")]
    TooMany,
    #[error("{0} slots; give at least one and at most {MAX_SLOTS}")]
    BadSlots(u32),
    #[error("plan {0} was not asked for, or is made already")]
    NotAsked(u32),
    #[error("plan {0} is not of the snapshot's batch; give a server that holds it for each of its rows")]
    OtherPlan(u32),
    #[error("transfer {} cannot have moved that much; tell all that was moved so far, each time more", .0.0)]
    WrongProgress(TransferId),
    #[error("it is {now_ns} ns already; tell events in the order of time")]
    Past { now_ns: u64 },
}

/// Why a plan cannot be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum BadPlan {
    #[error("there is no request {0} in the batch; give the plan of this batch")]
    NoSuchRequest(u32),
    #[error("server number {} holds nothing of request {request}; give the plan of this batch", server.0)]
    NotHeld { request: u32, server: ServerId },
    #[error("what is planned of request {0} is not just its size; give the plan of this batch")]
    NotWhole(u32),
    #[error("more transfers than can be numbered; split the batch")]
    TooMany,
}

/// When a transfer is late.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Late {
    /// When it has taken longer than expected by this share.
    Share(f64),
    /// When it has taken longer than 95 of 100 of the last transfers, for its size (Dean and Barroso, The Tail at
    /// Scale, 2013).
    P95,
    /// When it has taken longer than so many nanoseconds.
    AfterNs(u64),
}

/// When the server of a request that is not planned is picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decide {
    /// When the request arrives. It then waits for that server.
    OnArrival,
    /// When its client and one of the servers that hold it are free: until then it waits for all of them. A server that
    /// turns out to be slow just asks less often. Beside a plan that is kept to, and where clients share work, servers are
    /// picked on arrival nevertheless.
    WhenFree,
}

/// All that has not started, to be planned anew. Its cluster and batch have the executor's clients and servers.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Which plan this is for.
    number: u32,
    /// What has not started: a row for each piece.
    pub batch: Batch,
    /// The servers with the speeds that were learnt, and what is under way as their backlog.
    pub cluster: Cluster,
    /// Where each row waits now.
    pub present: Vec<ServerId>,
    /// The piece of each row.
    waiting: Vec<lists::Entry>,
    taken_ns: u64,
}

impl Snapshot {
    /// The choice after which the last server is done as early as can be. What need not move stays where it waits.
    pub fn choose(&self) -> Choice {
        optimal::improve(&self.batch, &self.cluster, self.present.clone())
    }
}

/// What an executor has done so far, for whoever watches it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that are open.
    pub open: usize,
    /// Transfers under way.
    pub running: usize,
    /// Requests that were delivered.
    pub delivered: u64,
    /// Requests that have failed.
    pub failed: u64,
    /// Requests that were cancelled.
    pub cancelled: u64,
    /// Transfers that were started.
    pub started: u64,
    /// Those of them that were second copies, or took the place of one that was late.
    pub hedged: u64,
    /// Transfers that have failed, for whatever cause, or were lost with their server.
    pub lost: u64,
    /// How often a plan was asked for.
    pub plans: u32,
    /// Blocks that were moved, in all.
    pub moved: u128,
}

/// How an executor behaves. [`Settings::default`] is for plans, [`Settings::online`] for requests that arrive over
/// time.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long a block takes at speed 1. Small blocks may take less than a nanosecond.
    pub block_ns: f64,
    /// Who serves what arrives, or has to move.
    pub pick: Pick,
    /// When that is decided of what arrives.
    pub decide: Decide,
    /// When a transfer is late. Its server is then believed to be as slow as that shows.
    pub late: Late,
    /// When a transfer is late enough for a second copy.
    pub hedge_after: Late,
    /// By which share the predicted end, counted from the start of the run, has to exceed that of the last plan for a new
    /// one; none: never.
    pub replan_after: Option<f64>,
    /// Blocks that may be moved twice; 0: what is late is only waited for. Without re-planning, whatever waits behind a
    /// transfer that is late enough goes elsewhere, too, which moves nothing twice.
    pub hedge_blocks: u64,
    /// Which share of what is moved is added to that again, up to as much as there was at first: for executors that run for
    /// weeks.
    pub hedge_share: f64,
    /// How often transfers of a request may fail, or be lost with their server, before it does: so it does not try for
    /// ever where a server comes and goes.
    pub most_failures: u32,
    /// How long a request waits for a server to come back, and a transfer for a sign of life (unless more was to be
    /// expected).
    pub patience_ns: u64,
    /// Whether any client may take any request: then who has nothing to do takes one from the longest list.
    pub shares_work: bool,
    /// Whatever is drawn depends on it.
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
            hedge_after: Late::Share(0.5),
            // A tenth: planning costs far less than a tenth of any run that is worth planning.
            replan_after: Some(0.1),
            hedge_blocks: 0,
            hedge_share: 0.0,
            most_failures: 4,
            patience_ns: 30_000_000_000,
            shares_work: false,
            seed: 0,
        }
    }
}

impl Settings {
    /// The server is picked when a request arrives, and the request stays there; with [`Decide::WhenFree`], when one is
    /// free.
    pub fn online(pick: Pick) -> Self {
        Self { pick, replan_after: None, ..Self::default() }
    }

    /// `hedged`: two choices, and a second copy of what is later than 95 of 100, up to a twentieth of all blocks:
    /// what is later than that is a twentieth.
    pub fn hedged(batch: &Batch) -> Self {
        let hedge_blocks = batch.total_blocks().div_ceil(20);
        Self { hedge_after: Late::P95, hedge_blocks, ..Self::online(Pick::TwoChoices) }
    }

    /// The time of a block: above 0, and no longer than can be told.
    fn sane_block_ns(&self) -> f64 {
        self.block_ns.max(1e-9).min(u64::MAX as f64)
    }
}
