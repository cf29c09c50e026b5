//! Servers with their queues and slots, and the network between hosts: works out what happens to jobs, and when.
//!
//! The fabric contains no policy except the order inside a queue. Its driver submits jobs and learns what becomes of
//! them. The driver's own timers go through the same agenda, so there is one order of all events.
//!
//! A job waits in its server's queue, takes a slot, waits for the latency, and moves its bytes: at the current rate of
//! the server or, where hosts have network cards, at its fair share of these cards.

use std::collections::VecDeque;

use evenkeel::queue::{Queue, Request, Tagged};

use crate::agenda::Agenda;
use crate::hardware::{Hardware, Pace, Rate, Server};
use crate::network::{FlowId, Network};
use crate::outcome::Timeline;

/// A job: bytes to move at a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Identifies the job to the driver.
    pub tag: u64,
    /// The server that reads or writes the bytes.
    pub server: u32,
    /// The host that sends the bytes.
    pub from: u32,
    /// The host that receives them.
    pub to: u32,
    /// Number of bytes.
    pub bytes: u64,
}

/// Identifies a job that was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobId {
    place: u32,
    turn: u32,
}

/// Something that happens, as reported to the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// A job is done.
    Done {
        /// Which job.
        tag: u64,
    },
    /// A job is lost: its server went down, or was down when it arrived.
    Lost {
        /// Which job.
        tag: u64,
    },
    /// A server went down. Its jobs are lost, which is reported next.
    Down {
        /// Which server.
        server: u32,
    },
    /// A server is back.
    Up {
        /// Which server.
        server: u32,
    },
    /// The next requests arrive.
    Arrival,
    /// A timer of the driver fires.
    Timer {
        /// The tag of the timer.
        tag: u64,
    },
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Timer(u64),
    /// A job reaches its server.
    Arrive(JobId),
    /// A server picks its next jobs, once all jobs of this instant have arrived.
    Choose(u32),
    /// The latency of a job is over.
    Move(JobId),
    Done(JobId),
    /// The rate of a server changes while flows depend on it.
    Speed(u32),
    Down(u32),
    Up(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Done, lost or withdrawn. If the job is still in a queue, its place is not free yet.
    Over,
    OnItsWay,
    Waiting,
    InService,
    Flowing(FlowId),
}

#[derive(Clone, Copy, Debug)]
struct Place {
    job: Job,
    turn: u32,
    phase: Phase,
    submitted_ns: u64,
    started_ns: u64,
    /// When the job will be done, if there are no network cards.
    done_ns: u64,
}

/// The queue of a server.
#[derive(Debug)]
enum Waiting {
    /// First come, first served, as at most servers. Much faster than through the trait.
    Fifo(VecDeque<u32>),
    Ordered(Box<dyn Queue>),
}

#[derive(Debug)]
struct Station<'a> {
    waiting: Waiting,
    pace: Pace<'a>,
    /// Whether the next change of its rate is on the agenda.
    is_watched: bool,
    /// The places of the jobs in its slots.
    running: Vec<u32>,
    is_up: bool,
    /// Whether it is about to pick jobs.
    is_choosing: bool,
    /// Tag of the job it started last.
    last_tag: Option<u64>,
    n_bytes: u64,
    busy_ns: u64,
}

/// The servers and the network, with everything in flight.
#[derive(Debug)]
pub struct Fabric<'a> {
    hardware: &'a Hardware,
    stations: Vec<Station<'a>>,
    network: Option<Network>,
    agenda: Agenda<Event>,
    /// When the next requests arrive. There is always exactly one such time, so it does not go through the agenda.
    arrival_ns: u64,
    places: Vec<Place>,
    free: Vec<u32>,
    /// What has happened at this instant and is not yet reported.
    ready: VecDeque<Happening>,
    ended: Vec<u64>,
    now_ns: u64,
    n_events: u64,
    seek_ns: u64,
    timeline: Option<Timeline>,
}

impl<'a> Fabric<'a> {
    /// Creates an idle cluster. `queue` creates the queue of each server; first come, first served if none.
    pub fn new(hardware: &'a Hardware, queue: Option<&dyn Fn() -> Box<dyn Queue>>) -> Self {
        let waiting = || queue.map_or_else(|| Waiting::Fifo(VecDeque::new()), |new| Waiting::Ordered(new()));
        let station = |server: &'a Server| Station {
            waiting: waiting(),
            pace: Pace::new(server),
            is_watched: false,
            running: Vec::new(),
            is_up: true,
            is_choosing: false,
            last_tag: None,
            n_bytes: 0,
            busy_ns: 0,
        };
        let n_hosts = hardware.n_hosts as usize;
        let links = |rate: Rate| vec![rate; n_hosts];
        let network = hardware.nic.map(|nic| Network::new(&links(nic.up), &links(nic.down)));
        let mut agenda = Agenda::default();
        for (number, server) in (0..).zip(&hardware.servers) {
            for &(from_ns, until_ns) in &server.outages {
                agenda.add(from_ns, Event::Down(number));
                // An outage until the last representable time never ends.
                if until_ns < u64::MAX {
                    agenda.add(until_ns, Event::Up(number));
                }
            }
        }
        Self {
            hardware,
            stations: hardware.servers.iter().map(station).collect(),
            network,
            agenda,
            arrival_ns: u64::MAX,
            places: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            ended: Vec::new(),
            now_ns: 0,
            n_events: 0,
            seek_ns: 0,
            timeline: None,
        }
    }

    /// Records how busy servers are over time.
    pub fn keep_timeline(&mut self) {
        self.timeline = Some(Timeline::new(self.stations.len()));
    }

    /// Sets the time that a server takes to switch between jobs of different tags, as the head of a disk does.
    pub fn seek(&mut self, seek_ns: u64) {
        self.seek_ns = seek_ns;
    }

    /// The hardware.
    pub fn hardware(&self) -> &'a Hardware {
        self.hardware
    }

    /// The current time.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Number of events so far.
    pub fn n_events(&self) -> u64 {
        self.n_events
    }

    /// Whether a job occupies a slot. If no event is left, such a job would end after the last representable time.
    pub fn is_serving(&self) -> bool {
        self.stations.iter().any(|station| !station.running.is_empty())
    }

    /// Bytes that each server has moved for jobs that are done.
    pub fn bytes_of_servers(&self) -> Vec<u64> {
        self.stations.iter().map(|station| station.n_bytes).collect()
    }

    /// Total slot time in use at each server.
    pub fn busy_ns_of_servers(&self) -> Vec<u64> {
        self.stations.iter().map(|station| station.busy_ns).collect()
    }

    /// How busy servers were over time, if recorded.
    pub fn into_timeline(self) -> Option<Timeline> {
        self.timeline
    }

    /// Whether a server is up.
    pub fn is_up(&self, server: u32) -> bool {
        self.stations[server as usize].is_up
    }

    /// Number of jobs in the queue and the slots of a server.
    pub fn n_present(&self, server: u32) -> usize {
        let station = &self.stations[server as usize];
        let n_waiting = match &station.waiting {
            Waiting::Fifo(places) => places.len(),
            Waiting::Ordered(queue) => queue.len(),
        };
        n_waiting + station.running.len()
    }

    /// Sets a timer for `at_ns`.
    pub fn wake(&mut self, at_ns: u64, tag: u64) {
        self.agenda.add(at_ns.max(self.now_ns), Event::Timer(tag));
    }

    /// Sets the time of the next arrival, and replaces the previous one. It is reported as [`Happening::Arrival`],
    /// before everything else at that time.
    pub fn await_arrival(&mut self, at_ns: u64) {
        self.arrival_ns = at_ns.max(self.now_ns);
    }

    /// Sends a job to its server, where it arrives after `after_ns`.
    pub fn submit(&mut self, job: Job, after_ns: u64) -> JobId {
        let id = self.place(job);
        if after_ns == 0 {
            self.arrive(id, Request::default(), None);
        } else {
            self.agenda.add(self.now_ns.saturating_add(after_ns), Event::Arrive(id));
        }
        id
    }

    /// Submits a job at once, with information for the queue: the hints and, if a planner has set one, the due date.
    pub fn submit_hinted(&mut self, job: Job, request: Request, due_ns: Option<u128>) -> JobId {
        let id = self.place(job);
        self.arrive(id, request, due_ns);
        id
    }

    fn place(&mut self, job: Job) -> JobId {
        let fresh = Place {
            job,
            turn: 0,
            phase: Phase::OnItsWay,
            submitted_ns: self.now_ns,
            started_ns: 0,
            done_ns: u64::MAX,
        };
        if let Some(place) = self.free.pop() {
            let turn = self.places[place as usize].turn.wrapping_add(1);
            self.places[place as usize] = Place { turn, ..fresh };
            JobId { place, turn }
        } else {
            self.places.push(fresh);
            JobId { place: self.places.len() as u32 - 1, turn: 0 }
        }
    }

    /// Withdraws a job, wherever it is. Returns the bytes it has moved, or none if the job is over.
    pub fn withdraw(&mut self, id: JobId) -> Option<u64> {
        let phase = self.phase(id)?;
        let moved = self.leave(id.place, phase);
        if phase == Phase::InService || matches!(phase, Phase::Flowing(_)) {
            self.look_for_next(self.places[id.place as usize].job.server);
        }
        Some(moved)
    }

    /// The phase of a job, unless it is over.
    fn phase(&self, id: JobId) -> Option<Phase> {
        let place = self.places.get(id.place as usize)?;
        (place.turn == id.turn && place.phase != Phase::Over).then_some(place.phase)
    }

    /// Takes a job out of its slot or the network. A waiting job stays in its queue, marked as over. Returns the bytes
    /// it has moved.
    fn leave(&mut self, place: u32, phase: Phase) -> u64 {
        self.places[place as usize].phase = Phase::Over;
        let mut moved = 0;
        match phase {
            Phase::Over | Phase::Waiting => {}
            Phase::OnItsWay => self.free.push(place),
            Phase::InService => self.vacate(place),
            Phase::Flowing(flow) => {
                moved = self.network.as_mut().map_or(0, |network| network.stop(self.now_ns, flow));
                self.vacate(place);
            }
        }
        moved
    }

    /// Frees the slot of a job and its place.
    fn vacate(&mut self, place: u32) {
        let Place { job, submitted_ns, started_ns, .. } = self.places[place as usize];
        let station = &mut self.stations[job.server as usize];
        if let Some(slot) = station.running.iter().position(|&other| other == place) {
            station.running.swap_remove(slot);
        }
        station.busy_ns += self.now_ns - started_ns;
        if let Some(timeline) = &mut self.timeline {
            timeline.add(job.server, submitted_ns, started_ns, self.now_ns, job.bytes);
        }
        self.free.push(place);
    }

    fn arrive(&mut self, id: JobId, request: Request, due_ns: Option<u128>) {
        let place = &mut self.places[id.place as usize];
        let Job { tag, server, .. } = place.job;
        let station = &mut self.stations[server as usize];
        if !station.is_up {
            place.phase = Phase::Over;
            self.free.push(id.place);
            self.ready.push_back(Happening::Lost { tag });
            return;
        }
        place.phase = Phase::Waiting;
        match &mut station.waiting {
            Waiting::Fifo(places) => places.push_back(id.place),
            Waiting::Ordered(queue) => {
                queue.push(self.now_ns, Tagged { id: id.place.into(), request, due_ns });
            }
        }
        self.look_for_next(server);
    }

    /// Fills free slots of a server: at once if it serves first come, first served, otherwise when no more jobs can
    /// arrive at this instant.
    fn look_for_next(&mut self, server: u32) {
        let station = &mut self.stations[server as usize];
        match station.waiting {
            Waiting::Fifo(_) => self.start_next(server),
            Waiting::Ordered(_) if station.is_choosing => {}
            Waiting::Ordered(_) => {
                station.is_choosing = true;
                self.agenda.add(self.now_ns, Event::Choose(server));
            }
        }
    }

    /// Fills free slots of a server with waiting jobs.
    fn start_next(&mut self, server: u32) {
        let slots = self.hardware.servers[server as usize].slots as usize;
        while self.stations[server as usize].running.len() < slots {
            let next = match &mut self.stations[server as usize].waiting {
                Waiting::Fifo(places) => places.pop_front(),
                Waiting::Ordered(queue) => queue.pop(self.now_ns).map(|tagged| tagged.id as u32),
            };
            let Some(place) = next else { return };
            if self.places[place as usize].phase == Phase::Waiting {
                self.start(place);
            } else {
                // The job was withdrawn while it waited.
                self.free.push(place);
            }
        }
    }

    fn start(&mut self, place: u32) {
        let Place { job, turn, .. } = self.places[place as usize];
        let station = &mut self.stations[job.server as usize];
        station.running.push(place);
        let turns = station.last_tag.replace(job.tag).is_some_and(|last| last != job.tag);
        let started = &mut self.places[place as usize];
        (started.phase, started.started_ns) = (Phase::InService, self.now_ns);
        let server = &self.hardware.servers[job.server as usize];
        let id = JobId { place, turn };
        let latency_ns = server.latency_ns.saturating_add(if turns { self.seek_ns } else { 0 });
        let from_ns = self.now_ns.saturating_add(latency_ns);
        if self.network.is_none() {
            station.pace.advance(self.now_ns);
            let done_ns = station.pace.done_ns(from_ns, job.bytes);
            self.places[place as usize].done_ns = done_ns;
            self.agenda.add(done_ns, Event::Done(id));
        } else if latency_ns == 0 {
            self.begin_flow(id);
        } else {
            self.agenda.add(from_ns, Event::Move(id));
        }
    }

    /// Bytes that a job has moved by now, rounded down.
    pub fn moved(&mut self, id: JobId) -> u64 {
        let Place { job, phase, turn, done_ns, .. } = self.places[id.place as usize];
        match (phase, &mut self.network) {
            (Phase::Flowing(flow), Some(network)) if turn == id.turn => network.moved(self.now_ns, flow),
            (Phase::InService, None) if turn == id.turn && done_ns < u64::MAX => {
                let pace = &mut self.stations[job.server as usize].pace;
                pace.advance(self.now_ns);
                // Bytes left are those that will move until the end; during the latency, all of them.
                let left = pace.moved(self.now_ns, done_ns);
                (job.bytes as f64 - left).max(0.0) as u64
            }
            _ => 0,
        }
    }

    fn begin_flow(&mut self, id: JobId) {
        let Some(network) = &mut self.network else { return };
        let Place { job, .. } = self.places[id.place as usize];
        let pace = &mut self.stations[job.server as usize].pace;
        pace.advance(self.now_ns);
        let cap = pace.rate(self.now_ns);
        let flow = network.start(self.now_ns, job.from, job.to, job.bytes, cap, id.place.into());
        self.places[id.place as usize].phase = Phase::Flowing(flow);
        self.watch(job.server);
    }

    /// Makes the flows of a server follow its rate.
    fn watch(&mut self, server: u32) {
        let station = &mut self.stations[server as usize];
        if !station.is_watched {
            let changes_ns = station.pace.changes_ns(self.now_ns);
            station.is_watched = changes_ns < u64::MAX;
            self.agenda.add(changes_ns, Event::Speed(server));
        }
    }

    /// Whether nothing will happen any more unless something is submitted.
    pub fn is_over(&mut self) -> bool {
        let next_end = self.network.as_mut().and_then(Network::next_end);
        self.ready.is_empty() && self.agenda.next_ns().is_none() && next_end.is_none()
    }

    /// The next event that concerns the driver, and its time; none if nothing will happen any more.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<(u64, Happening)> {
        loop {
            if let Some(happening) = self.ready.pop_front() {
                return Some((self.now_ns, happening));
            }
            let flow_ns = self.network.as_mut().and_then(Network::next_end).unwrap_or(u64::MAX);
            let event_ns = self.agenda.next_ns().unwrap_or(u64::MAX);
            if self.arrival_ns < u64::MAX && self.arrival_ns <= event_ns.min(flow_ns) {
                self.now_ns = std::mem::replace(&mut self.arrival_ns, u64::MAX);
                self.n_events += 1;
                return Some((self.now_ns, Happening::Arrival));
            }
            // If a server goes down just as a flow ends, the flow is lost, with or without network cards.
            if flow_ns < event_ns {
                self.now_ns = flow_ns;
                self.end_flows();
            } else {
                let (at_ns, event) = self.agenda.pop()?;
                self.now_ns = at_ns;
                self.n_events += 1;
                if let Some(happening) = self.happen(event) {
                    return Some((at_ns, happening));
                }
            }
        }
    }

    fn end_flows(&mut self) {
        let mut ended = std::mem::take(&mut self.ended);
        if let Some(network) = &mut self.network {
            network.advance(self.now_ns, &mut ended);
        }
        for place in ended.drain(..) {
            self.n_events += 1;
            let happening = self.finish(place as u32);
            self.ready.push_back(happening);
        }
        self.ended = ended;
    }

    /// A job has moved all its bytes.
    fn finish(&mut self, place: u32) -> Happening {
        let job = self.places[place as usize].job;
        self.places[place as usize].phase = Phase::Over;
        self.stations[job.server as usize].n_bytes += job.bytes;
        self.vacate(place);
        self.look_for_next(job.server);
        Happening::Done { tag: job.tag }
    }

    fn happen(&mut self, event: Event) -> Option<Happening> {
        match event {
            Event::Timer(tag) => return Some(Happening::Timer { tag }),
            Event::Arrive(id) if self.phase(id).is_some() => self.arrive(id, Request::default(), None),
            Event::Choose(server) => {
                self.stations[server as usize].is_choosing = false;
                self.start_next(server);
            }
            Event::Move(id) if self.phase(id).is_some() => self.begin_flow(id),
            Event::Done(id) if self.phase(id).is_some() => return Some(self.finish(id.place)),
            Event::Arrive(_) | Event::Move(_) | Event::Done(_) => {}
            Event::Speed(server) => self.change_speed(server),
            Event::Down(server) => {
                self.go_down(server);
                return Some(Happening::Down { server });
            }
            Event::Up(server) => {
                self.stations[server as usize].is_up = true;
                return Some(Happening::Up { server });
            }
        }
        None
    }

    fn change_speed(&mut self, server: u32) {
        let Some(network) = &mut self.network else { return };
        let station = &mut self.stations[server as usize];
        station.is_watched = false;
        station.pace.advance(self.now_ns);
        let cap = station.pace.rate(self.now_ns);
        let mut is_flowing = false;
        for &place in &station.running {
            if let Phase::Flowing(flow) = self.places[place as usize].phase {
                network.set_cap(self.now_ns, flow, cap);
                is_flowing = true;
            }
        }
        // Otherwise the next flow takes care of it.
        if is_flowing {
            self.watch(server);
        }
    }

    fn go_down(&mut self, server: u32) {
        self.stations[server as usize].is_up = false;
        for place in self.stations[server as usize].running.clone() {
            self.leave(place, self.places[place as usize].phase);
            self.ready.push_back(Happening::Lost { tag: self.places[place as usize].job.tag });
        }
        loop {
            let next = match &mut self.stations[server as usize].waiting {
                Waiting::Fifo(places) => places.pop_front(),
                Waiting::Ordered(queue) => queue.pop(self.now_ns).map(|tagged| tagged.id as u32),
            };
            let Some(place) = next else { return };
            let Place { job, phase, .. } = self.places[place as usize];
            self.places[place as usize].phase = Phase::Over;
            self.free.push(place);
            if phase == Phase::Waiting {
                self.ready.push_back(Happening::Lost { tag: job.tag });
            }
        }
    }
}
