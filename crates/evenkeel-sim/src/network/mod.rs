//! Flows between hosts that share the hosts' network cards.

mod share;

use evenkeel::Heap;
use share::Shares;

/// Identifies a flow. The id of a flow that is gone identifies nothing, even after its place is reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowId {
    place: u32,
    generation: u32,
}

/// When a flow ends, then its age: the order in which ends are reported.
type End = (u64, u64);

#[derive(Debug, Clone)]
struct Flow {
    generation: u32,
    state: State,
    tag: u64,
    /// Number of flows started before this one.
    age: u64,
    bytes: u64,
    /// Bytes left at `since`, the time from which the flow has its current rate.
    left: f64,
    since: u64,
    rate: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    UnderWay,
    /// Ended but not yet reported.
    Ended,
    /// An empty place.
    Gone,
}

impl Flow {
    fn left_at(&self, now: u64) -> f64 {
        if now <= self.since {
            return self.left; // Also keeps an infinite rate from meeting a time of zero.
        }
        let left = self.left - self.rate * (now - self.since) as f64;
        if left > 0.0 { left } else { 0.0 }
    }

    fn set_rate(&mut self, now: u64, rate: f64) {
        self.left = self.left_at(now);
        self.since = now;
        self.rate = rate;
    }

    /// When no bytes are left; `None` if never, at rate zero or beyond the last representable time.
    fn end(&self) -> Option<u64> {
        let due = self.left - self.slack();
        if due <= 0.0 {
            return Some(self.since);
        }
        let wait = if self.rate > 0.0 { due / self.rate } else { return None };
        let fits = wait < (u64::MAX - self.since) as f64;
        fits.then(|| self.since.saturating_add(round_up(wait)))
    }

    fn moved(&self, now: u64) -> u64 {
        match self.state {
            State::UnderWay => self.bytes.saturating_sub(round_up(self.left_at(now) - self.slack())),
            State::Ended => self.bytes,
            State::Gone => 0,
        }
    }

    /// Bytes that may be left by rounding alone. Without this slack, a rate of a third would end a nanosecond late.
    fn slack(&self) -> f64 {
        const PART: f64 = 1.0 / (1_u64 << 44) as f64;
        const MOST: f64 = 1.0 / 256.0;
        let slack = self.bytes as f64 * PART;
        if slack < MOST { slack } else { MOST }
    }
}

/// Hosts whose network cards are shared fairly among the flows between them.
///
/// Each host has an uplink and a downlink. A flow from one host to another crosses the uplink of the first and the
/// downlink of the second. A flow from a host to itself crosses no link. Rates are always max-min fair under the links'
/// capacities and the flows' caps: no flow can go faster unless one that is no faster goes slower.
///
/// A rate holds from one change to the next: with `b` bytes left at `t0`, a flow of rate `r` has `b - r (t - t0)` left
/// at `t` and ends at `t0 + b / r`, rounded up to whole nanoseconds.
///
/// Changes at the same instant count as one, and rates are computed when they are next needed. Time does not go back:
/// an earlier time is treated as the latest so far. A flow leaves either through [`advance`](Self::advance), which
/// reports its end, or through [`stop`](Self::stop). Rates and capacities are in bytes per nanosecond and may be
/// infinite. A negative value or NaN counts as zero.
#[derive(Debug, Clone)]
pub struct Network {
    now: u64,
    n_hosts: u32,
    n_started: u64,
    shares: Shares,
    flows: Vec<Flow>,
    empty: Vec<u32>,
    ends: Heap<End>,
    /// Flows that have ended and are not yet reported. They may have been stopped since.
    ended: Vec<(End, FlowId)>,
    changed: Vec<u32>,
}

impl Network {
    /// Creates a network of hosts with these uplink and downlink capacities.
    ///
    /// # Panics
    ///
    /// If the two slices differ in length.
    pub fn new(up: &[f64], down: &[f64]) -> Self {
        assert_eq!(up.len(), down.len(), "each host has a link up and a link down");
        let capacities = up.iter().zip(down).flat_map(|(&up, &down)| [up, down]).map(at_least_zero);
        Self {
            now: 0,
            n_hosts: up.len() as u32,
            n_started: 0,
            shares: Shares::new(capacities),
            flows: Vec::new(),
            empty: Vec::new(),
            ends: Heap::default(),
            ended: Vec::new(),
            changed: Vec::new(),
        }
    }

    /// Starts a flow of `bytes` that is never faster than `cap`. `advance` reports its end with this tag.
    ///
    /// # Panics
    ///
    /// If there is no such host.
    pub fn start(&mut self, now_ns: u64, from: u32, to: u32, bytes: u64, cap: f64, tag: u64) -> FlowId {
        assert!(from < self.n_hosts && to < self.n_hosts, "flow {tag} from {from} to {to}: no such host");
        self.pass(now_ns);
        let place = self.place(bytes, tag);
        let flow = &self.flows[place as usize];
        let id = FlowId { place, generation: flow.generation };
        if bytes == 0 {
            self.ended.push(((self.now, flow.age), id));
        } else {
            let links = (from != to).then_some([2 * from, 2 * to + 1]);
            self.shares.join(place, links, at_least_zero(cap));
        }
        id
    }

    /// Changes a flow's cap. Zero stalls the flow. Does nothing to a flow that has ended or is gone.
    pub fn set_cap(&mut self, now_ns: u64, flow: FlowId, cap: f64) {
        self.pass(now_ns);
        if self.get(flow).is_some_and(|f| f.state == State::UnderWay) {
            self.shares.set_cap(flow.place, at_least_zero(cap));
        }
    }

    /// Removes a flow and returns the bytes it has moved, rounded down; zero if it is already gone.
    ///
    /// A flow that has ended but is not yet reported has moved all its bytes. Its end will not be reported.
    pub fn stop(&mut self, now_ns: u64, flow: FlowId) -> u64 {
        let moved = self.moved(now_ns, flow);
        if let Some(state) = self.get(flow).map(|f| f.state) {
            if state == State::UnderWay {
                self.detach(flow.place);
            }
            self.vacate(flow.place);
        }
        moved
    }

    /// Bytes a flow has moved, rounded down; zero if it is gone.
    pub fn moved(&mut self, now_ns: u64, flow: FlowId) -> u64 {
        self.pass(now_ns);
        self.get(flow).map_or(0, |f| f.moved(self.now))
    }

    /// When the next flow ends if nothing changes, now at the earliest; `None` if no flow will end.
    pub fn next_end(&mut self) -> Option<u64> {
        self.update();
        if self.ended.iter().any(|&(_, id)| self.get(id).is_some()) {
            return Some(self.now);
        }
        self.ends.first().map(|((end, _), _)| end)
    }

    /// Adds the tags of the flows that have ended by now and are not yet reported, in order of end, then of age.
    pub fn advance(&mut self, now_ns: u64, ended: &mut Vec<u64>) {
        self.run(now_ns);
        let mut told = std::mem::take(&mut self.ended);
        told.sort_unstable_by_key(|&(end, _)| end);
        for (_, id) in told.drain(..) {
            if let Some(tag) = self.get(id).map(|f| f.tag) {
                ended.push(tag);
                self.vacate(id.place);
            }
        }
        self.ended = told;
    }

    /// Current rate of a flow; zero if it has ended or is gone.
    pub fn rate(&mut self, flow: FlowId) -> f64 {
        self.update();
        self.get(flow).filter(|f| f.state == State::UnderWay).map_or(0.0, |f| f.rate)
    }

    /// Number of flows that are in flight, or whose end is not yet reported.
    pub fn n_flows(&self) -> usize {
        self.flows.len() - self.empty.len()
    }

    fn get(&self, id: FlowId) -> Option<&Flow> {
        let flow = self.flows.get(id.place as usize)?;
        (flow.generation == id.generation && flow.state != State::Gone).then_some(flow)
    }

    /// Lets time pass before a change. At the same instant there is nothing to do, so changes at one instant count as
    /// one.
    fn pass(&mut self, now: u64) {
        if now > self.now {
            self.run(now);
        }
    }

    /// Goes from end to end up to `now`, since each end changes the rates of other flows.
    fn run(&mut self, now: u64) {
        let now = now.max(self.now);
        loop {
            self.update();
            match self.ends.first() {
                Some(((end, _), _)) if end <= now => self.end_all(end),
                _ => break,
            }
            if self.now == now {
                return; // The rates from here on are not needed yet.
            }
        }
        self.now = now;
    }

    fn end_all(&mut self, now: u64) {
        self.now = now.max(self.now);
        while let Some((end, place)) = self.ends.first() {
            if end.0 > now {
                break;
            }
            self.detach(place);
            let flow = &mut self.flows[place as usize];
            flow.state = State::Ended;
            self.ended.push((end, FlowId { place, generation: flow.generation }));
        }
    }

    /// Brings rates and ends up to date. Flows whose rate does not change keep their end.
    fn update(&mut self) {
        self.shares.solve(&mut self.changed);
        for place in self.changed.drain(..) {
            let flow = &mut self.flows[place as usize];
            flow.set_rate(self.now, self.shares.rate(place));
            match flow.end() {
                Some(end) => self.ends.set(place, (end, flow.age)),
                None => self.ends.remove(place),
            }
        }
    }

    fn detach(&mut self, place: u32) {
        self.shares.leave(place);
        self.ends.remove(place);
    }

    /// Writes a new flow into an empty place.
    fn place(&mut self, bytes: u64, tag: u64) -> u32 {
        let place = self.empty.pop().unwrap_or(self.flows.len() as u32);
        let generation = self.flows.get(place as usize).map_or(0, |gone| gone.generation.wrapping_add(1));
        let state = if bytes == 0 { State::Ended } else { State::UnderWay };
        let (age, left, since) = (self.n_started, bytes as f64, self.now);
        let flow = Flow { generation, state, tag, age, bytes, left, since, rate: 0.0 };
        match self.flows.get_mut(place as usize) {
            Some(gone) => *gone = flow,
            None => self.flows.push(flow),
        }
        self.n_started += 1;
        place
    }

    fn vacate(&mut self, place: u32) {
        self.flows[place as usize].state = State::Gone;
        self.empty.push(place);
    }
}

/// Smallest whole number that is not below `x`; zero for negative numbers.
fn round_up(x: f64) -> u64 {
    let whole = x as u64;
    whole.saturating_add(u64::from((whole as f64) < x))
}

fn at_least_zero(x: f64) -> f64 {
    if x > 0.0 { x } else { 0.0 }
}
