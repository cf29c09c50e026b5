//! Tasks near their data: processes read the inputs of the tasks that a policy assigns to them (paper 003).
//!
//! Each process does one task after the other. It reads the inputs of a task one after the other, in pieces if
//! configured, and then computes. It reads inputs on its own host without a message. Under `opass-dynamic`, and under
//! other policies if configured, a process asks a master for each task, and reports with that question that the
//! previous task is done. This takes a message each way and a decision of the master, which is guided by lists. A read
//! that is lost is retried at another replica that is up, or as soon as one is up.
//!
//! Leases expire if configured. Each piece that a process has read then takes a message to the master, which renews the
//! lease. A process that is told to stop does so when its current piece or computation is over, or at once if it waits
//! for a server.

use std::collections::VecDeque;

use evenkeel::assign::opass_dynamic::{Action, BadLease, Event, Guided, Settings};
use evenkeel::assign::{
    Assignment, ProcessId, Work, WorkBuilder, WorkError, drawn, opass_multi, opass_single,
};
use evenkeel::draw::{Draw, Seeded};
use evenkeel::model::ServerId;
use evenkeel::policy::{Kind, Live};
use serde::Deserialize;

use crate::case::Case;
use crate::chance::{exponential, sample_in_turn, sub_seed};
use crate::fabric::{Fabric, Happening, Job};
use crate::hardware::Hardware;
use crate::outcome::Outcome;
use crate::refused::Refused;
use crate::requests::Centre;
use crate::units::{Bytes, Span};

/// Maximum number of pieces of a chunk.
const MOST_PIECES: u64 = 1_000_000;

/// Purposes of the random draws, for their sub-seeds.
const PLACEMENT: u64 = 1;
const SOURCES: u64 = 2;
const COMPUTING: u64 = 3;

/// Processes, and tasks whose inputs are chunks with replicas placed at random. The defaults are those of paper 003
/// §5.1.1.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tasks {
    /// Number of processes, placed on the hosts of the servers in turn. If not given, the clients are the processes,
    /// each on its client's host.
    pub processes: Option<u32>,
    /// Average number of tasks per process.
    pub tasks_per_process: u32,
    /// Total number of tasks, if given instead.
    pub tasks: Option<u32>,
    /// Sizes of a task's inputs. Each input is a chunk of its own.
    pub inputs: Vec<Bytes>,
    /// Number of copies of each chunk, on different servers drawn at random.
    pub copies: u32,
    /// Size of the pieces in which a chunk is read, one after the other. If not given, a chunk is read in one piece.
    pub buffer: Option<Bytes>,
    /// Time a server takes to switch from the reads of one process to those of another.
    pub seek: Span,
    /// Whether processes ask for one task after the other, guided by the policy's lists, and get tasks from other lists
    /// when their own is empty. Always the case under `opass-dynamic`.
    pub dynamic: bool,
    /// Time after which the master gives the task of a process that has not read another piece to others. If not given,
    /// leases do not expire.
    pub lease: Option<Span>,
    /// Time a process computes after it has read the inputs of a task.
    pub compute: Span,
    /// Whether computing times are drawn for each task, exponentially distributed with mean `compute`. `opass-dynamic`
    /// is made for this case.
    pub irregular: bool,
    /// Where a process reads inputs that are not on its host. By default: at random for `rank`, otherwise balanced.
    pub sources: Option<Sources>,
}

/// Which replica of an input is read if none is on the process's host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sources {
    /// One at random, as in HDFS.
    Drawn,
    /// The one that the policy chooses, so that no server serves much more than others. Where tasks are handed out one
    /// by one: the one on the server that was asked for the fewest bytes so far.
    Balanced,
}

impl Default for Tasks {
    fn default() -> Self {
        Self {
            processes: None,
            tasks_per_process: 10,
            tasks: None,
            inputs: vec![Bytes(64 << 20)],
            copies: 3,
            buffer: None,
            seek: Span(0),
            dynamic: false,
            lease: None,
            compute: Span(0),
            irregular: false,
            sources: None,
        }
    }
}

impl Tasks {
    /// Runs the tasks under a policy that assigns tasks to processes. Responses are those of reads, each of a whole
    /// chunk.
    pub fn run(&self, case: &Case<'_>) -> Result<Outcome, Refused> {
        let Case { hardware, seed, .. } = *case;
        self.check_drawn(hardware.servers.len())?;
        let work = self.work(hardware, seed)?;
        let hosts: Vec<u32> = self.hosts(hardware).collect();
        self.by_policy(&work, &hosts, case)
    }

    /// Refuses settings that are impossible to draw for `n_servers` servers.
    pub(crate) fn check_drawn(&self, n_servers: usize) -> Result<(), Refused> {
        if self.inputs.is_empty() {
            let wanted = "give the size of at least one input";
            return Err(Refused::Setting { name: "inputs", given: "empty".to_owned(), wanted });
        }
        Refused::copies(self.copies, n_servers)
    }

    /// Runs given tasks, which are not drawn. Their servers are the first of the cluster. Each process runs on the host
    /// of its server. A process without a server runs on a host of its own.
    pub fn run_given(&self, work: &Work, case: &Case<'_>) -> Result<Outcome, Refused> {
        let mut hardware = case.hardware.clone();
        let mut host_of = |process: u32| {
            let home = work.home(ProcessId(process));
            home.map_or_else(
                || {
                    hardware.n_hosts += 1;
                    hardware.n_hosts - 1
                },
                |home| hardware.servers[home.index()].host,
            )
        };
        let hosts: Vec<u32> = (0..work.n_processes() as u32).map(&mut host_of).collect();
        self.by_policy(work, &hosts, &Case { hardware: &hardware, ..*case })
    }

    /// Refuses invalid piece sizes.
    pub(crate) fn check(&self) -> Result<(), Refused> {
        if self.buffer == Some(Bytes(0)) {
            let wanted = "use at least 1 byte, or leave it out to read each chunk at once";
            return Err(Refused::Setting { name: "buffer", given: "0".to_owned(), wanted });
        }
        let largest = self.inputs.iter().map(|input| input.0).max().unwrap_or(0);
        if let Some(Bytes(buffer)) = self.buffer.filter(|buffer| largest / buffer.0 > MOST_PIECES) {
            let wanted = "a chunk would have more than a million pieces; use a larger buffer";
            return Err(Refused::Setting { name: "buffer", given: buffer.to_string(), wanted });
        }
        Ok(())
    }

    fn by_policy(&self, work: &Work, hosts: &[u32], case: &Case<'_>) -> Result<Outcome, Refused> {
        let assign = case.answer("which process does which task", |kind| match kind {
            Kind::Assign(assign) => Some(*assign),
            _ => None,
        })?;
        let Case { policy, seed, .. } = *case;
        self.check()?;
        let sources = self.sources.unwrap_or(match policy.live {
            Live::Blind => Sources::Drawn,
            _ => Sources::Balanced,
        });
        let mut draw = Seeded::new(sub_seed(seed, SOURCES));
        let Assignment { processes, sources: balanced, .. } = match policy.live {
            // Take the lists that guide the master, not the assignment that would result from them.
            Live::Steals => opass_single::assign(work).unwrap_or_else(|_| opass_multi::assign(work)),
            _ => assign(work)?,
        };
        let supply = if self.dynamic || matches!(policy.live, Live::Steals) {
            // The lists belong to this work, so this does not fail.
            let settings = Settings { lease_ns: self.lease.map_or(u64::MAX, |lease| lease.0) };
            let guided = Guided::new(work, &processes, settings).map_err(|_| WorkError::NoProcess)?;
            Supply::Master { guided: Box::new(guided), centre: Centre::default(), woken_ns: u64::MAX }
        } else {
            let sources = match sources {
                Sources::Drawn => drawn(work, &processes, &mut draw),
                Sources::Balanced => balanced,
            };
            Supply::lists(work, &processes, sources)
        };
        let mut run = self.start(case.fabric(None), work, hosts, supply, seed);
        (run.sources, run.draw) = (sources, draw);
        Ok(run.go())
    }

    /// Carries out any assignment of this [work](Self::work): which process reads which input, and where.
    pub fn carry_out(&self, hardware: &Hardware, work: &Work, assignment: Assignment, seed: u64) -> Outcome {
        let Assignment { processes, sources, .. } = assignment;
        let hosts: Vec<u32> = self.hosts(hardware).collect();
        let supply = Supply::lists(work, &processes, sources);
        self.start(Fabric::new(hardware, None), work, &hosts, supply, seed).go()
    }

    fn start<'a>(
        &self,
        mut fabric: Fabric<'a>,
        work: &'a Work,
        hosts: &[u32],
        supply: Supply,
        seed: u64,
    ) -> Run<'a> {
        fabric.seek(self.seek.0);
        let reader = |host| Reader { host, ..Reader::default() };
        let readers: Vec<Reader> = hosts.iter().copied().map(reader).collect();
        Run {
            work,
            reports: self.lease.is_some() && matches!(supply, Supply::Master { .. }),
            supply,
            sources: Sources::Balanced,
            draw: Seeded::new(sub_seed(seed, SOURCES)),
            buffer: self.buffer.map_or(u64::MAX, |buffer| buffer.0),
            compute_ns: self.compute_ns(work.n_tasks(), seed),
            is_read: vec![false; work.n_inputs()],
            is_done: vec![false; work.n_tasks()],
            asked_bytes: vec![0; fabric.hardware().servers.len()],
            fabric,
            stranded: Vec::new(),
            actions: Vec::new(),
            outcome: Outcome { done_ns_of_clients: vec![0; readers.len()], ..Outcome::default() },
            readers,
        }
    }

    /// The tasks with their inputs, placed at random, and the processes.
    pub fn work(&self, hardware: &Hardware, seed: u64) -> Result<Work, Refused> {
        let n_servers = hardware.servers.len();
        Refused::copies(self.copies, n_servers)?;
        let homes: Vec<Option<ServerId>> = self.hosts(hardware).map(|host| home(hardware, host)).collect();
        if homes.is_empty() {
            return Err(self.processes.map_or(Refused::NoClients, |_| WorkError::NoProcess.into()));
        }
        let n_tasks = self.tasks.map_or(homes.len() as u64 * u64::from(self.tasks_per_process), u64::from);
        let mut draw = Seeded::new(sub_seed(seed, PLACEMENT));
        let mut work = WorkBuilder::new();
        for _ in 0..n_tasks {
            for input in &self.inputs {
                let replicas = sample_in_turn(n_servers as u32, self.copies, &mut draw);
                let replicas: Vec<ServerId> = replicas.into_iter().map(ServerId).collect();
                work.input(input.0, &replicas)?;
            }
            work.end_task();
        }
        Ok(work.finish(n_servers, homes)?)
    }

    /// Host of each process.
    fn hosts<'a>(&self, hardware: &'a Hardware) -> impl Iterator<Item = u32> + use<'a> {
        let of_servers = hardware.servers.iter().map(|server| server.host).cycle();
        let of_clients = hardware.clients.iter().map(|client| client.host);
        let n_on_servers = self.processes.unwrap_or(0) as usize;
        let n_on_clients = if self.processes.is_none() { hardware.clients.len() } else { 0 };
        of_servers.take(n_on_servers).chain(of_clients.take(n_on_clients))
    }

    /// Computing time of each task.
    fn compute_ns(&self, n_tasks: usize, seed: u64) -> Vec<u64> {
        let mut draw = Seeded::new(sub_seed(seed, COMPUTING));
        let mut span = |mean_ns: u64| match self.irregular {
            true => (mean_ns as f64 * exponential(&mut draw)) as u64,
            false => mean_ns,
        };
        (0..n_tasks).map(|_| span(self.compute.0)).collect()
    }
}

/// First server on a host.
fn home(hardware: &Hardware, host: u32) -> Option<ServerId> {
    let at = hardware.servers.iter().position(|server| server.host == host);
    at.map(|server| ServerId(server as u32))
}

/// Where processes get their tasks from.
enum Supply {
    /// Each process has its own list, and the server of each input is fixed in advance.
    Lists { lists: Vec<VecDeque<u32>>, sources: Vec<ServerId> },
    /// Processes ask the master for one task after the other. It is woken next at `woken_ns`.
    Master { guided: Box<Guided>, centre: Centre, woken_ns: u64 },
}

impl Supply {
    fn lists(work: &Work, processes: &[ProcessId], sources: Vec<ServerId>) -> Self {
        let mut lists = vec![VecDeque::new(); work.n_processes()];
        (0..).zip(processes).for_each(|(task, process)| lists[process.index()].push_back(task));
        Self::Lists { lists, sources }
    }
}

/// The purpose of a timer. The process is in the lower half of the tag.
#[derive(Clone, Copy)]
enum Step {
    /// The process has finished computing.
    Computed,
    /// The question of the process reaches the master.
    Asked,
    /// The answer reaches the process.
    Told,
    /// The news that the process has read a piece reaches the master.
    Reported,
    /// The news that its task is done elsewhere reaches the process.
    Withdrawn,
    /// A lease may have expired.
    Wake,
}

impl Step {
    fn tag(self, process: u32) -> u64 {
        (self as u64) << 32 | u64::from(process)
    }

    fn of(tag: u64) -> (Self, u32) {
        let step = match tag >> 32 {
            0 => Self::Computed,
            1 => Self::Asked,
            2 => Self::Told,
            3 => Self::Reported,
            4 => Self::Withdrawn,
            _ => Self::Wake,
        };
        (step, tag as u32)
    }
}

/// A process and its state.
#[derive(Default)]
struct Reader {
    host: u32,
    task: u32,
    /// The next input of the task.
    next_input: usize,
    /// The server where it reads the previous input, since when, and the bytes left.
    server: ServerId,
    since_ns: u64,
    left: u64,
    /// The task it has done and not reported yet.
    done: Option<u32>,
    /// The task that the last message to stop is about.
    withdrawn: Option<u32>,
    /// Whether that message has arrived and is about the current task.
    must_stop: bool,
}

struct Run<'a> {
    work: &'a Work,
    fabric: Fabric<'a>,
    supply: Supply,
    sources: Sources,
    draw: Seeded,
    buffer: u64,
    compute_ns: Vec<u64>,
    /// Whether processes report each piece.
    reports: bool,
    /// Whether any process has read each input and done each task.
    is_read: Vec<bool>,
    is_done: Vec<bool>,
    readers: Vec<Reader>,
    /// Bytes that each server was asked for.
    asked_bytes: Vec<u64>,
    /// Processes whose input is on no server that is up.
    stranded: Vec<u32>,
    actions: Vec<Action>,
    outcome: Outcome,
}

impl Run<'_> {
    fn go(mut self) -> Outcome {
        (0..self.readers.len() as u32).for_each(|process| self.next_task(process));
        while let Some((_, happening)) = self.fabric.next() {
            match happening {
                Happening::Timer { tag } => match Step::of(tag) {
                    (Step::Computed, process) if self.readers[process as usize].must_stop => {
                        self.next_task(process);
                    }
                    (Step::Computed, process) => self.end_task(process),
                    (Step::Asked, process) => self.answer(process),
                    (Step::Told, process) => self.begin_task(process),
                    (Step::Reported, process) => self.renew(process),
                    (Step::Withdrawn, process) => self.withdraw(process),
                    (Step::Wake, _) => self.wake(),
                },
                Happening::Done { tag } => self.end_piece(tag as u32),
                Happening::Lost { tag } => self.read_elsewhere(tag as u32),
                Happening::Up { .. } => {
                    let stranded = std::mem::take(&mut self.stranded);
                    stranded.into_iter().for_each(|process| self.read_elsewhere(process));
                }
                Happening::Down { .. } | Happening::Arrival => {}
            }
        }
        self.outcome.close(self.work.n_inputs(), self.fabric)
    }

    /// Takes the next task off the list of a process, or asks the master for it.
    fn next_task(&mut self, process: u32) {
        match &mut self.supply {
            Supply::Lists { lists, .. } => {
                if let Some(task) = lists[process as usize].pop_front() {
                    self.readers[process as usize].task = task;
                    self.begin_task(process);
                }
            }
            Supply::Master { .. } => self.send(Step::Asked, process),
        }
    }

    /// Sends a message between a process and the master.
    fn send(&mut self, step: Step, process: u32) {
        self.outcome.n_messages += 1;
        let message_ns = self.fabric.hardware().message_ns;
        self.fabric.wake(self.fabric.now_ns().saturating_add(message_ns), step.tag(process));
    }

    /// The master learns that a process has finished its task, if it had one, and is idle.
    fn answer(&mut self, process: u32) {
        let done = self.readers[process as usize].done.take();
        let process = ProcessId(process);
        if let Some(task) = done {
            self.tell(Event::Done(process, task));
        }
        self.tell(Event::Idle(process));
    }

    /// The master learns that a process has read a piece.
    fn renew(&mut self, process: u32) {
        let task = self.readers[process as usize].task;
        self.tell(Event::Progress(ProcessId(process), task));
    }

    fn wake(&mut self) {
        if let Supply::Master { woken_ns, .. } = &mut self.supply {
            *woken_ns = u64::MAX;
        }
        self.tell(Event::Wake);
    }

    /// Passes an event to the master, and its answers to the processes.
    fn tell(&mut self, event: Event) {
        let Supply::Master { guided, woken_ns, .. } = &mut self.supply else { return };
        match guided.on_event(self.fabric.now_ns(), event, &mut self.actions) {
            // The lease has expired while the message was on its way, and another process has the task or has done it.
            Err(BadLease::NotLeased { .. } | BadLease::DoneBefore { .. }) if self.reports => {}
            told => self.outcome.findings.note(told),
        }
        if let Some(at_ns) = guided.wake_at().filter(|at_ns| at_ns < woken_ns) {
            *woken_ns = at_ns;
            self.fabric.wake(at_ns, Step::Wake.tag(0));
        }
        let mut actions = std::mem::take(&mut self.actions);
        actions.drain(..).for_each(|action| self.act(action));
        self.actions = actions;
    }

    fn act(&mut self, action: Action) {
        let Supply::Master { centre, .. } = &mut self.supply else { return };
        match action {
            Action::Start(process, task) => {
                self.outcome.n_messages += 1;
                self.readers[process.index()].task = task;
                let after_ns = centre.delay_ns(&self.fabric);
                self.fabric.wake(self.fabric.now_ns().saturating_add(after_ns), Step::Told.tag(process.0));
            }
            Action::Withdraw(process, task) => {
                self.readers[process.index()].withdrawn = Some(task);
                self.send(Step::Withdrawn, process.0);
            }
            Action::Leave(_) => self.outcome.n_messages += 1,
        }
    }

    /// A process learns that a task is done elsewhere.
    fn withdraw(&mut self, process: u32) {
        let reader = &mut self.readers[process as usize];
        reader.must_stop = reader.withdrawn == Some(reader.task);
        if let Some(place) = self.stranded.iter().position(|&other| other == process && reader.must_stop) {
            self.stranded.remove(place);
            self.next_task(process);
        }
    }

    fn begin_task(&mut self, process: u32) {
        let reader = &mut self.readers[process as usize];
        reader.next_input = self.work.inputs(reader.task as usize).start;
        reader.must_stop = false;
        self.next_input(process);
    }

    /// Reads the next input of the task, or computes if there is none.
    fn next_input(&mut self, process: u32) {
        let reader = &self.readers[process as usize];
        let (task, input) = (reader.task as usize, reader.next_input);
        if input < self.work.inputs(task).end {
            let server = self.source(process, input);
            let bytes = self.work.bytes(input);
            self.asked_bytes[server.index()] += bytes;
            let reader = &mut self.readers[process as usize];
            (reader.server, reader.left, reader.next_input) = (server, bytes, input + 1);
            reader.since_ns = self.fabric.now_ns();
            self.read_piece(process);
        } else if self.compute_ns[task] > 0 {
            let until_ns = self.fabric.now_ns().saturating_add(self.compute_ns[task]);
            self.fabric.wake(until_ns, Step::Computed.tag(process));
        } else {
            self.end_task(process);
        }
    }

    fn end_task(&mut self, process: u32) {
        let reader = &mut self.readers[process as usize];
        reader.done = Some(reader.task);
        if !std::mem::replace(&mut self.is_done[reader.task as usize], true) {
            self.outcome.makespan_ns = self.fabric.now_ns();
            self.outcome.done_ns_of_clients[process as usize] = self.fabric.now_ns();
        }
        self.next_task(process);
    }

    /// The server where a process reads an input.
    fn source(&mut self, process: u32, input: usize) -> ServerId {
        if let Supply::Lists { sources, .. } = &self.supply {
            return sources[input];
        }
        let set = self.work.replicas().of(input);
        let home = self.work.home(ProcessId(process)).filter(|home| set.contains(home));
        home.unwrap_or_else(|| match self.sources {
            Sources::Drawn => set[self.draw.below(set.len() as u32) as usize],
            Sources::Balanced => {
                let least = set.iter().min_by_key(|server| (self.asked_bytes[server.index()], **server));
                least.copied().unwrap_or_default()
            }
        })
    }

    /// The piece that a process currently reads.
    fn piece(&self, process: u32) -> Job {
        let Reader { server, host, left, .. } = self.readers[process as usize];
        let from = self.fabric.hardware().servers[server.index()].host;
        Job { tag: process.into(), server: server.0, from, to: host, bytes: left.min(self.buffer) }
    }

    fn read_piece(&mut self, process: u32) {
        let job = self.piece(process);
        let is_remote = job.from != job.to;
        self.outcome.n_messages += u64::from(is_remote);
        let after_ns = if is_remote { self.fabric.hardware().message_ns } else { 0 };
        self.fabric.submit(job, after_ns);
    }

    fn end_piece(&mut self, process: u32) {
        let job = self.piece(process);
        self.outcome.count(&job);
        let reader = &mut self.readers[process as usize];
        reader.left -= job.bytes;
        let (left, since_ns, must_stop) = (reader.left, reader.since_ns, reader.must_stop);
        if left == 0 && !std::mem::replace(&mut self.is_read[reader.next_input - 1], true) {
            self.outcome.responses_ns.push(self.fabric.now_ns() - since_ns);
        }
        if must_stop {
            return self.next_task(process);
        }
        if self.reports {
            self.send(Step::Reported, process);
        }
        if left > 0 {
            self.read_piece(process);
        } else {
            self.next_input(process);
        }
    }

    /// Reads a lost piece from the first replica that is up.
    fn read_elsewhere(&mut self, process: u32) {
        if self.readers[process as usize].must_stop {
            return self.next_task(process);
        }
        let input = self.readers[process as usize].next_input - 1;
        let mut set = self.work.replicas().of(input).iter().copied();
        match set.find(|server| self.fabric.is_up(server.0)) {
            Some(server) => {
                self.readers[process as usize].server = server;
                self.read_piece(process);
            }
            None => self.stranded.push(process),
        }
    }
}
