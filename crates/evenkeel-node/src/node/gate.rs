//! The gate of a node: at most so many transfers at a time, the others in a queue.
//!
//! A disk that serves everybody at once serves everybody late, and a server that admits everybody cannot choose. So
//! every transfer of a body takes a slot, and who gets the next one is up to a [`Queue`] of the core. The gate also counts
//! what it lets through, since clients ask how loaded a node is, and can make a node slow, for demonstrations.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use evenkeel::queue::discipline::Fifo;
use evenkeel::queue::{Queue, Request, Tagged};
use serde::Serialize;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To a client.
    Read,
    /// From a client.
    Write,
}

/// A transfer that asks to be let through.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Which way.
    pub way: Way,
    /// How many bytes, as far as that is known.
    pub bytes: u64,
    /// Whether it is a maintainer's, which does not count as work: otherwise maintainers would wait for each other.
    pub is_maintenance: bool,
}

/// How loaded a node is, and what it has done since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Load {
    /// How many transfers there may be at a time.
    pub slots: u32,
    /// Transfers under way.
    pub busy: u32,
    /// Transfers that wait for a slot.
    pub waiting: u32,
    /// Bytes that those under way and those that wait have still to move, as far as they said how many.
    pub pending_bytes: u64,
    /// Transfers that are over.
    pub transfers: u64,
    /// Bytes sent to clients.
    pub read_bytes: u64,
    /// Bytes received from clients.
    pub written_bytes: u64,
}

/// No transfer is let through any more: the node is being stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node is being stopped")]
pub struct Stopped;

/// The gate of one node.
pub struct Gate {
    state: Mutex<State>,
}

struct State {
    load: Load,
    queue: Box<dyn Queue>,
    /// All that have asked and are not done, by the numbers that they have in the queue.
    turns: BTreeMap<u64, Stage>,
    n_asked: u64,
    /// Transfers of clients that wait or are under way, and since when there have been none if there are none.
    n_of_clients: u32,
    quiet_since: Instant,
    is_paused: bool,
    is_draining: bool,
    is_stopped: bool,
    /// Bytes a second of all transfers together; `None` is as fast as possible.
    rate: Option<u64>,
    /// When what has passed so far would be through, at that rate.
    free_at: Instant,
    started: Instant,
}

enum Stage {
    Waits(oneshot::Sender<()>),
    HasSlot,
    Refused,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("load", &self.load()).finish_non_exhaustive()
    }
}

impl Gate {
    /// A gate with so many slots, at least one. Who waits is served in order of arrival.
    pub fn new(slots: u32) -> Arc<Self> {
        let now = Instant::now();
        let state = State {
            load: Load { slots: slots.max(1), ..Load::default() },
            queue: Box::new(Fifo::default()),
            turns: BTreeMap::new(),
            n_asked: 0,
            n_of_clients: 0,
            quiet_since: now,
            is_paused: false,
            is_draining: false,
            is_stopped: false,
            rate: None,
            free_at: now,
            started: now,
        };
        Arc::new(Self { state: Mutex::new(state) })
    }

    /// Waits for a slot, which is given back when the turn is dropped.
    pub async fn enter(self: &Arc<Self>, ask: Ask) -> Result<Turn, Stopped> {
        // Who gives up while waiting drops it, too.
        let (turn, admitted) = self.ask(ask)?;
        admitted.await.map_err(|_| Stopped)?;
        Ok(turn)
    }

    fn ask(self: &Arc<Self>, ask: Ask) -> Result<(Turn, oneshot::Receiver<()>), Stopped> {
        let mut state = self.state();
        if state.is_stopped {
            return Err(Stopped);
        }
        let (admit, admitted) = oneshot::channel();
        let id = state.n_asked;
        state.n_asked += 1;
        state.load.pending_bytes = state.load.pending_bytes.saturating_add(ask.bytes);
        state.load.waiting += 1;
        state.n_of_clients += u32::from(!ask.is_maintenance);
        state.turns.insert(id, Stage::Waits(admit));
        let now_ns = state.started.elapsed().as_nanos() as u64;
        state.queue.push(now_ns, Tagged { id, request: Request::default(), due_ns: None });
        state.admit();
        drop(state);
        let Ask { way, bytes, is_maintenance } = ask;
        Ok((Turn { gate: Arc::clone(self), id, way, pending: bytes, is_maintenance }, admitted))
    }

    /// How loaded the node is.
    pub fn load(&self) -> Load {
        self.state().load
    }

    /// How long there has been no transfer of a client. Nothing while there is one, or while the gate is closed.
    pub fn idle(&self) -> Option<Duration> {
        let state = self.state();
        let is_open = !(state.is_paused || state.is_stopped);
        (is_open && state.n_of_clients == 0).then(|| state.quiet_since.elapsed())
    }

    /// Whether transfers have to wait until the gate is opened again.
    pub fn is_paused(&self) -> bool {
        self.state().is_paused
    }

    /// Lets nobody start until it is called with `false`. What is under way goes on.
    pub fn pause(&self, is_paused: bool) {
        let mut state = self.state();
        state.is_paused = is_paused;
        state.admit();
    }

    /// Whether no new objects are taken, so that the node can be emptied.
    pub fn is_draining(&self) -> bool {
        self.state().is_draining
    }

    /// Takes no new objects until it is called with `false`. Reads go on, and so do uploads that have begun.
    pub fn drain(&self, is_draining: bool) {
        self.state().is_draining = is_draining;
    }

    /// Changes the number of slots, at least one. What is under way goes on.
    pub fn set_slots(&self, slots: u32) {
        let mut state = self.state();
        state.load.slots = slots.max(1);
        state.admit();
    }

    /// How many bytes a second pass at most, if there is a limit.
    pub fn rate(&self) -> Option<u64> {
        self.state().rate
    }

    /// Limits how many bytes a second pass, all transfers together.
    pub fn set_rate(&self, rate: Option<u64>) {
        let mut state = self.state();
        state.rate = rate.map(|rate| rate.max(1));
        // Nobody pays for what passed at another rate.
        state.free_at = Instant::now();
    }

    /// Refuses all that wait or come from now on. What is under way goes on.
    pub fn stop(&self) {
        let mut state = self.state();
        state.is_stopped = true;
        for stage in state.turns.values_mut().filter(|stage| matches!(stage, Stage::Waits(_))) {
            *stage = Stage::Refused;
        }
    }

    /// Whether the node is being stopped.
    pub fn is_stopped(&self) -> bool {
        self.state().is_stopped
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Gives free slots to those whose turn it is.
    fn admit(&mut self) {
        while !self.is_paused && self.load.busy < self.load.slots {
            let now_ns = self.started.elapsed().as_nanos() as u64;
            let Some(next) = self.queue.pop(now_ns) else { break };
            // Who has given up is still in the queue.
            let Some(stage @ Stage::Waits(_)) = self.turns.get_mut(&next.id) else { continue };
            let Stage::Waits(admit) = std::mem::replace(stage, Stage::HasSlot) else { continue };
            self.load.waiting -= 1;
            self.load.busy += 1;
            // If it gives up just now, its turn is dropped, which frees the slot.
            let _ = admit.send(());
        }
    }
}

/// A transfer that has a slot, or waits for one.
#[derive(Debug)]
pub struct Turn {
    gate: Arc<Gate>,
    id: u64,
    way: Way,
    /// How many bytes of those it announced have not passed.
    pending: u64,
    is_maintenance: bool,
}

impl Turn {
    /// Counts bytes that pass, and waits as long as they take at the limited rate.
    pub async fn pass(&mut self, bytes: u64) {
        let due = {
            let mut state = self.gate.state();
            let passed = bytes.min(self.pending);
            self.pending -= passed;
            state.load.pending_bytes -= passed;
            match self.way {
                Way::Read => state.load.read_bytes += bytes,
                Way::Write => state.load.written_bytes += bytes,
            }
            state.rate.map(|rate| {
                let takes = Duration::from_secs_f64(bytes as f64 / rate as f64);
                state.free_at = state.free_at.max(Instant::now()) + takes;
                state.free_at
            })
        };
        if let Some(due) = due {
            sleep_until(due).await;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.gate.state();
        state.load.pending_bytes -= self.pending;
        if !self.is_maintenance {
            state.n_of_clients -= 1;
            state.quiet_since = Instant::now();
        }
        match state.turns.remove(&self.id) {
            Some(Stage::HasSlot) => {
                state.load.busy -= 1;
                state.load.transfers += 1;
                state.admit();
            }
            Some(Stage::Waits(_) | Stage::Refused) => state.load.waiting -= 1,
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASK: Ask = Ask { way: Way::Read, bytes: 10, is_maintenance: false };

    #[tokio::test]
    async fn slots_go_to_those_who_wait_in_order() {
        let gate = Gate::new(1);
        let first = gate.enter(ASK).await.unwrap();
        let (second, admitted_second) = gate.ask(ASK).unwrap();
        let (third, mut admitted_third) = gate.ask(ASK).unwrap();
        assert_eq!((gate.load().busy, gate.load().waiting, gate.load().pending_bytes), (1, 2, 30));
        drop(first);
        admitted_second.await.unwrap();
        assert!(admitted_third.try_recv().is_err());
        drop(second);
        admitted_third.await.unwrap();
        drop(third);
        let load = gate.load();
        assert_eq!((load.busy, load.waiting, load.pending_bytes, load.transfers), (0, 0, 0, 3));
    }

    #[tokio::test]
    async fn who_gives_up_leaves_nothing_behind() {
        let gate = Gate::new(1);
        let first = gate.enter(ASK).await.unwrap();
        let (waiting, _) = gate.ask(ASK).unwrap();
        let (admitted, receiver) = gate.ask(ASK).unwrap();
        drop(waiting);
        drop(first);
        // It has got the slot, but does not know yet.
        drop(receiver);
        drop(admitted);
        assert_eq!(gate.load(), Load { slots: 1, transfers: 2, ..Load::default() });
        gate.enter(ASK).await.unwrap();
    }

    #[tokio::test]
    async fn a_pause_lets_nobody_start_and_a_stop_refuses() {
        let gate = Gate::new(2);
        let under_way = gate.enter(ASK).await.unwrap();
        gate.pause(true);
        let (waiting, mut admitted) = gate.ask(ASK).unwrap();
        assert!(admitted.try_recv().is_err());
        gate.pause(false);
        admitted.await.unwrap();
        let refused = gate.ask(ASK).unwrap();
        gate.stop();
        assert!(refused.1.await.is_err());
        drop((under_way, waiting, refused.0));
        assert_eq!(gate.enter(ASK).await.unwrap_err(), Stopped);
        assert_eq!(gate.load(), Load { slots: 2, transfers: 2, ..Load::default() });
    }

    #[tokio::test(start_paused = true)]
    async fn a_gate_is_idle_without_clients() {
        let gate = Gate::new(2);
        let second = Duration::from_secs(1);
        tokio::time::advance(second).await;
        assert_eq!(gate.idle(), Some(second));
        let client = gate.enter(ASK).await.unwrap();
        let maintainer = gate.enter(Ask { is_maintenance: true, ..ASK }).await.unwrap();
        tokio::time::advance(second).await;
        assert_eq!(gate.idle(), None);
        drop(client);
        tokio::time::advance(second).await;
        drop(maintainer);
        assert_eq!(gate.idle(), Some(second), "a maintainer is not in its own way");
        gate.pause(true);
        assert_eq!(gate.idle(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_is_shared_by_all() {
        let gate = Gate::new(2);
        gate.set_rate(Some(100));
        let (mut a, mut b) = (gate.enter(ASK).await.unwrap(), gate.enter(ASK).await.unwrap());
        let start = Instant::now();
        tokio::join!(a.pass(50), b.pass(50));
        assert_eq!(start.elapsed().as_millis(), 1000);
        assert_eq!(gate.load().read_bytes, 100);
    }
}
