//! The maintainer of a node: brings the objects home whose home it is, and collects the orphans that it holds.
//!
//! Each node does only that, so no two of them do the same. It moves something only while neither the node nor the others
//! concerned have transfers of clients. Dropped at any moment it leaves nothing worse behind than an orphan.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use evenkeel_store::StoreError;
use evenkeel_store::cluster::Servers;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::gate::Gate;
use crate::write::{Maintained, Maintaining, Maintenance, maintain_own};

/// How often it is looked whether there is still nothing else to do.
const TICK: Duration = Duration::from_millis(50);
/// After a pass it rests for so many times as long as that took.
const REST: u32 = 9;
/// What was left as it is, or went wrong, of which so many are told.
const MOST_REMARKS: usize = 20;

/// How a node maintains itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upkeep {
    /// How long it rests between passes, at least.
    pub every: Duration,
    /// How often it looks for orphans, at most.
    pub collects_every: Duration,
    /// Servers with transfers of clients in this time are left alone.
    pub idle: Duration,
    /// How old an orphan is before it is deleted.
    pub grace: Duration,
    /// The most bytes per second that it moves.
    pub bytes_per_second: Option<u64>,
    /// Whether it waits to be resumed at first.
    pub is_paused: bool,
}

impl Default for Upkeep {
    fn default() -> Self {
        Self {
            every: Duration::from_mins(1),
            collects_every: Duration::from_hours(1),
            idle: Duration::from_secs(10),
            grace: Duration::from_hours(24),
            bytes_per_second: Some(50_000_000),
            is_paused: false,
        }
    }
}

/// What a maintainer is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Activity {
    /// Nothing, until the next pass.
    #[default]
    Rests,
    /// It moves or looks.
    Works,
    /// It would, but there are clients.
    Waits,
}

/// What `POST /v1/settings` changes of a maintainer: what is named.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wish {
    paused: Option<bool>,
    bytes_per_second: Option<u64>,
}

/// What a maintainer says of itself.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    state: &'static str,
    bytes_per_second: Option<u64>,
    pub(super) runs: u64,
    /// How long ago the last pass ended.
    last_run_seconds_ago: Option<u64>,
    last: Figures,
    pub(super) total: Figures,
    /// What the last pass left as it is, and why; at most the first twenty.
    remarks: Vec<String>,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Figures {
    pub(super) home: u64,
    pub(super) pieces: u64,
    pub(super) bytes: u64,
    pub(super) orphans: u64,
    orphan_bytes: u64,
    left: u64,
    pub(super) failed: u64,
}

impl From<Maintained> for Figures {
    fn from(done: Maintained) -> Self {
        Self {
            home: done.n_home,
            pieces: done.n_pieces,
            bytes: done.bytes,
            orphans: done.n_orphans,
            orphan_bytes: done.orphan_bytes,
            left: done.n_left_alone,
            failed: done.n_failed,
        }
    }
}

/// The maintainer of one node.
pub(super) struct Maintainer {
    servers: Arc<Servers>,
    me: usize,
    gate: Arc<Gate>,
    upkeep: Upkeep,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_paused: bool,
    rate: Option<u64>,
    activity: Activity,
    runs: u64,
    ended: Option<Instant>,
    collected: Option<Instant>,
    collects: bool,
    last: Maintained,
    total: Maintained,
    remarks: Vec<String>,
}

impl fmt::Debug for Maintainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Maintainer").field("report", &self.report()).finish_non_exhaustive()
    }
}

impl Maintainer {
    /// The maintainer of the server of this number.
    pub(super) fn new(servers: Arc<Servers>, me: usize, gate: Arc<Gate>, upkeep: Upkeep) -> Self {
        let (is_paused, rate) = (upkeep.is_paused, upkeep.bytes_per_second);
        let state = Mutex::new(State { is_paused, rate, ..State::default() });
        Self { servers, me, gate, upkeep, state }
    }

    /// Works until the node is stopped, and then ends at once.
    pub(super) async fn run(self: Arc<Self>, mut stopped: watch::Receiver<bool>) {
        let forever = async {
            loop {
                sleep(self.upkeep.every.min(Duration::from_secs(1))).await;
                if self.may_work() {
                    self.pass().await;
                }
            }
        };
        tokio::select! {
            () = forever => {}
            _ = stopped.wait_for(|is_stopped| *is_stopped) => {}
        }
    }

    /// What it does, and has done.
    pub(super) fn report(&self) -> Report {
        let state = self.state();
        let said = match (state.is_paused, self.gate.is_draining(), state.activity) {
            (true, ..) => "paused",
            (_, true, _) => "draining",
            (_, _, Activity::Rests) => "resting",
            (_, _, Activity::Works) => "working",
            (_, _, Activity::Waits) => "waiting",
        };
        Report {
            state: said,
            bytes_per_second: state.rate,
            runs: state.runs,
            last_run_seconds_ago: state.ended.map(|ended| ended.elapsed().as_secs()),
            last: state.last.into(),
            total: state.total.into(),
            remarks: state.remarks.clone(),
        }
    }

    /// Pauses it, resumes it, and sets its rate; 0 ends the limit.
    pub(super) fn set(&self, wish: Wish) {
        let mut state = self.state();
        state.is_paused = wish.paused.unwrap_or(state.is_paused);
        if let Some(rate) = wish.bytes_per_second {
            state.rate = Some(rate).filter(|rate| *rate > 0);
        }
    }

    fn may_work(&self) -> bool {
        !self.state().is_paused && !self.gate.is_draining()
    }

    /// Goes through all buckets once, then rests. Breaks off when it is paused, or the node is drained.
    async fn pass(&self) {
        let begun = Instant::now();
        {
            let mut state = self.state();
            state.collects =
                state.collected.is_none_or(|collected| collected.elapsed() >= self.upkeep.collects_every);
            state.last = Maintained::default();
            state.remarks.clear();
            state.activity = Activity::Works;
        }
        let halted = async {
            while self.may_work() {
                sleep(TICK).await;
            }
        };
        let is_whole = tokio::select! {
            () = self.all_buckets() => true,
            () = halted => false,
        };
        {
            let mut state = self.state();
            state.activity = Activity::Rests;
            state.ended = Some(Instant::now());
            state.runs += u64::from(is_whole);
            if is_whole && state.collects {
                state.collected = state.ended;
            }
        }
        sleep(self.upkeep.every.max(begun.elapsed() * REST)).await;
    }

    async fn all_buckets(&self) {
        let how = Maintaining {
            prefix: String::new(),
            replicas: self.servers.replicas(),
            apply: true,
            rate: None,
            grace: self.upkeep.grace,
        };
        let names = match self.own_buckets().await {
            Ok(names) => names,
            Err(error) => return self.note("", &failed(&self.servers.all()[self.me].name, &error)),
        };
        for bucket in names {
            let mut tell = |what: &Maintenance| self.note(&bucket, what);
            let done = maintain_own(Arc::clone(&self.servers), &bucket, &how, self, &mut tell).await;
            if let Err(error) = done {
                self.note("", &failed(&bucket, &error));
            }
        }
    }

    async fn own_buckets(&self) -> Result<Vec<String>, StoreError> {
        self.servers.endpoint(self.me)?.buckets().await
    }

    /// Counts what is done as soon as it is done.
    fn note(&self, bucket: &str, what: &Maintenance) {
        let mut state = self.state();
        let one = Maintained::of(what);
        state.last += one;
        state.total += one;
        if let Maintenance::LeftAlone { what, why } | Maintenance::Failed { what, why } = what
            && state.remarks.len() < MOST_REMARKS
        {
            let slash = if bucket.is_empty() { "" } else { "/" };
            state.remarks.push(format!("{bucket}{slash}{what}: {why}"));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failed(what: &str, why: &impl ToString) -> Maintenance {
    Maintenance::Failed { what: what.to_owned(), why: why.to_string() }
}

#[async_trait]
impl crate::write::Maintainer for Maintainer {
    fn server(&self) -> usize {
        self.me
    }

    fn collects(&self) -> bool {
        self.state().collects
    }

    async fn ready(&self) {
        let is_idle = || self.gate.idle().is_some_and(|idle| idle >= self.upkeep.idle);
        while !is_idle() {
            self.state().activity = Activity::Waits;
            sleep(TICK).await;
        }
        self.state().activity = Activity::Works;
    }

    async fn objection(&self, server: usize) -> Option<String> {
        let name = &self.servers.all().get(server)?.name;
        match self.servers.status(server).await {
            Ok(None) => Some(format!("{name} is no node; evenkeel maintain --apply moves it")),
            Ok(Some(status)) if status.paused => Some(format!("{name} is paused")),
            Ok(Some(status)) => {
                let idle = status.idle_ms.map(Duration::from_millis);
                (idle.is_none_or(|idle| idle < self.upkeep.idle)).then(|| format!("{name} is busy"))
            }
            Err(error) => Some(error.to_string()),
        }
    }

    fn rate(&self) -> Option<u64> {
        self.state().rate
    }
}
