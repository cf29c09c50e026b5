//! What a trace tells, summed up as it is read, so that its length does not matter.

use std::collections::HashMap;
use std::io::{BufRead, Read};

use evenkeel_formats::InputError;
use evenkeel_node::{Ending, FORMAT, Happening, Line, Share};

/// The longest line: the first one, which has the names of all servers.
const MOST_LINE_BYTES: u64 = 1 << 22;
const MOST_SERVERS: usize = 1 << 12;
/// Incidents that are kept one by one.
const MOST_INCIDENTS: usize = 200;
/// No read takes longer, in seconds.
const MOST_SECONDS: f64 = 1e9;
const N_BINS: usize = 512;

/// A read, from beginning to end.
#[derive(Debug, Default)]
pub(super) struct Story {
    pub(super) policy: String,
    pub(super) n_objects: usize,
    pub(super) missing: u64,
    pub(super) servers: Vec<Server>,
    pub(super) plans: Vec<Plan>,
    pub(super) n_done: u64,
    pub(super) n_failed: u64,
    /// How often what had not started was planned again, and how often that was better.
    pub(super) n_planned_anew: u64,
    pub(super) n_adopted: u64,
    /// What went wrong, and when.
    pub(super) incidents: Vec<(f64, String)>,
    pub(super) n_incidents: u64,
    /// When the last thing happened.
    pub(super) end: f64,
    /// Whether the last line is incomplete, as if the process had been killed.
    pub(super) is_torn: bool,
    numbers: HashMap<String, usize>,
    /// The last progress of each server, for traces without transfers: when, and bytes.
    progress: Vec<(f64, u64)>,
    has_transfers: bool,
}

/// What one server did.
#[derive(Debug, Default)]
pub(super) struct Server {
    pub(super) name: String,
    pub(super) received: Bins,
    pub(super) bytes: u64,
    pub(super) n_transfers: u64,
    pub(super) n_hedges: u64,
    pub(super) n_failed: u64,
    pub(super) n_withdrawn: u64,
    /// When its first and its last transfer were under way.
    pub(super) active: Option<(f64, f64)>,
}

impl Server {
    /// Bytes per second from its first transfer to its last.
    pub(super) fn rate(&self) -> Option<f64> {
        let (from, to) = self.active.filter(|(from, to)| to > from)?;
        Some(self.bytes as f64 / (to - from))
    }

    fn receive(&mut self, from: f64, to: f64, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.received.add(from, to, bytes as f64);
        let (first, last) = self.active.unwrap_or((from, to));
        self.active = Some((first.min(from), last.max(to)));
    }
}

/// A plan.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) at: f64,
    /// How long it takes at least.
    pub(super) bound: f64,
    /// By server: rate in bytes per second, and bytes if they were planned.
    shares: Vec<(u64, Option<u64>)>,
    /// What had been received when it was made.
    pub(super) before: u64,
}

impl Plan {
    /// The rate of a server and its bytes, if they were planned; none if the server was not known then.
    pub(super) fn share_of(&self, server: usize) -> (Option<u64>, Option<u64>) {
        let share = self.shares.get(server);
        (share.map(|share| share.0), share.and_then(|share| share.1))
    }

    /// When a server is done by this plan.
    pub(super) fn end_of(&self, server: usize) -> Option<f64> {
        let (rate, bytes) = self.share_of(server);
        Some(self.at + bytes? as f64 / (rate?.max(1) as f64))
    }

    /// What was to be received by a point in time.
    pub(super) fn received_by(&self, at: f64) -> Option<f64> {
        let mut sum = self.before as f64;
        for &(rate, bytes) in &self.shares {
            sum += (rate as f64 * (at - self.at).max(0.0)).min(bytes? as f64);
        }
        Some(sum)
    }
}

/// Bytes by time, in as many bins of equal width as there are, which grow with the time.
#[derive(Debug)]
pub(super) struct Bins {
    width: f64,
    bytes: Vec<f64>,
}

impl Default for Bins {
    fn default() -> Self {
        Self { width: 1e-3, bytes: vec![0.0; N_BINS] }
    }
}

impl Bins {
    /// Adds bytes that came in evenly between two points in time.
    fn add(&mut self, from: f64, to: f64, bytes: f64) {
        while to >= self.width * N_BINS as f64 {
            for k in 0..N_BINS / 2 {
                self.bytes[k] = self.bytes[2 * k] + self.bytes[2 * k + 1];
            }
            self.bytes[N_BINS / 2..].fill(0.0);
            self.width *= 2.0;
        }
        let place = |at: f64| (at / self.width).clamp(0.0, (N_BINS - 1) as f64);
        let (first, last) = (place(from), place(to));
        for bin in first as usize..=last as usize {
            let share = (last.min((bin + 1) as f64) - first.max(bin as f64)) / (last - first);
            self.bytes[bin] += if last > first { share * bytes } else { bytes };
        }
    }

    /// What had come in by the end of each bin up to a point in time.
    pub(super) fn sums(&self, end: f64) -> Vec<(f64, f64)> {
        let (mut points, mut sum) = (vec![(0.0, 0.0)], 0.0);
        for (bin, bytes) in self.bytes.iter().enumerate() {
            sum += bytes;
            let at = (bin + 1) as f64 * self.width;
            points.push((at.min(end), sum));
            if at >= end {
                return points;
            }
        }
        // Nothing came in after the last bin.
        points.push((end, sum));
        points
    }
}

impl Story {
    /// Reads a trace. Its last line may be incomplete.
    pub(super) fn read(mut reader: impl BufRead, name: &str) -> Result<Self, InputError> {
        let (mut story, mut text) = (Self::default(), Vec::new());
        for number in 1.. {
            text.clear();
            let read = reader.by_ref().take(MOST_LINE_BYTES).read_until(b'\n', &mut text);
            let n = read.map_err(|error| InputError::new(name, None, format!("cannot read it: {error}")))?;
            if n == 0 {
                break;
            }
            let is_complete = text.ends_with(b"\n");
            if !is_complete && n as u64 == MOST_LINE_BYTES {
                let problem = format!("a line has more than {MOST_LINE_BYTES} bytes; is it a trace of get?");
                return Err(InputError::new(name, number, problem));
            }
            match serde_json::from_slice::<Line<'_>>(&text) {
                Ok(line) => {
                    story.tell(&line).map_err(|problem| InputError::new(name, number, problem))?;
                }
                Err(_) if !is_complete && number > 1 => story.is_torn = true,
                Err(error) => {
                    let problem =
                        format!("not a line of a trace: {error}; name a file that get --trace wrote");
                    return Err(InputError::new(name, number, problem));
                }
            }
        }
        if story.servers.is_empty() {
            return Err(InputError::new(name, None, "it is empty; name a file that get --trace wrote"));
        }
        Ok(story)
    }

    fn tell(&mut self, line: &Line<'_>) -> Result<(), String> {
        let Line { format, at, what } = line;
        if *format != FORMAT {
            return Err(format!("format {format} is not known; use a later version of evenkeel"));
        }
        if !(0.0..=MOST_SECONDS).contains(at) {
            return Err(format!("`at` is {at}; it must be between 0 and {MOST_SECONDS} seconds"));
        }
        let is_begin = matches!(what, Happening::Begun { .. });
        if is_begin != self.servers.is_empty() {
            let problem =
                if is_begin { "begins twice; replay one trace" } else { "does not begin with `begun`" };
            return Err(format!("the trace {problem} at a time"));
        }
        // Standard output and the file may order what happens at once differently.
        self.end = self.end.max(*at);
        match what {
            Happening::Begun { objects, missing, policy, servers, .. } => {
                policy.as_ref().clone_into(&mut self.policy);
                self.list(*objects, *missing, servers)?;
            }
            Happening::Listed { objects, missing, servers, .. } => self.list(*objects, *missing, servers)?,
            Happening::Measured { server, bytes, .. } => {
                self.server(server)?.receive(0.0, *at, *bytes);
                if let Some(&number) = self.numbers.get(&**server) {
                    self.progress[number] = (*at, *bytes);
                }
            }
            Happening::Planned { bound, servers } => self.plan(*at, *bound, servers)?,
            Happening::Progress { servers, .. } => {
                if !self.has_transfers {
                    self.progress_to(*at, servers);
                }
            }
            Happening::Start { server, hedge, .. } => {
                self.has_transfers = true;
                let server = self.server(server)?;
                server.n_transfers += 1;
                server.n_hedges += u64::from(*hedge);
            }
            Happening::End { server, bytes, seconds, result, .. } => {
                if !(*seconds >= 0.0 && *seconds <= MOST_SECONDS) {
                    return Err(format!("`seconds` is {seconds}; it must be between 0 and {MOST_SECONDS}"));
                }
                let server = self.server(server)?;
                server.n_failed += u64::from(*result == Ending::Failed);
                server.n_withdrawn += u64::from(*result == Ending::Withdrawn);
                server.receive((at - seconds).max(0.0), *at, *bytes);
            }
            Happening::Slow { server } => self.note(*at, || format!("{server} is slow")),
            Happening::Down { server, why } => self.note(*at, || format!("{server} is left alone: {why}")),
            Happening::Up { server } => self.note(*at, || format!("{server} gets another chance")),
            Happening::PlannedAnew { would_end, ends, .. } => {
                self.n_planned_anew += 1;
                self.n_adopted += u64::from(ends < would_end);
                self.note(*at, || match ends < would_end {
                    true => format!("planned anew: done at {ends:.1} s instead of {would_end:.1} s"),
                    false => "planned anew, without finding anything better".to_owned(),
                });
            }
            Happening::Done { .. } => self.n_done += 1,
            Happening::Damaged { why, .. } => self.note(*at, || format!("damaged: {why}")),
            Happening::Failed { key, why } => {
                self.n_failed += 1;
                self.note(*at, || format!("failed: {key}: {why}"));
            }
            Happening::Chose { .. } | Happening::Unknown => {}
        }
        Ok(())
    }

    /// What there is to read, as far as it is listed. Servers that are known keep their numbers.
    fn list(&mut self, n_objects: usize, missing: u64, servers: &[String]) -> Result<(), String> {
        if servers.is_empty() || servers.len() > MOST_SERVERS {
            return Err(format!("there are {} servers; a trace has 1 to {MOST_SERVERS}", servers.len()));
        }
        for name in servers.iter().skip(self.servers.len()) {
            self.numbers.insert(name.clone(), self.servers.len());
            self.servers.push(Server { name: name.clone(), ..Server::default() });
            self.progress.push((0.0, 0));
        }
        (self.n_objects, self.missing) = (n_objects, missing);
        Ok(())
    }

    fn server(&mut self, name: &str) -> Result<&mut Server, String> {
        let number = self.numbers.get(name);
        number
            .map(|&number| &mut self.servers[number])
            .ok_or_else(|| format!("`{name}` is no server of `begun`"))
    }

    fn plan(&mut self, at: f64, bound: f64, shares: &[Share<'_>]) -> Result<(), String> {
        let mut of_server = vec![(0, None); self.servers.len()];
        for share in shares {
            let number = self.numbers.get(&*share.server);
            let number = number.ok_or_else(|| format!("`{}` is no server of `begun`", share.server))?;
            of_server[*number] = (share.rate, share.bytes);
        }
        let before = self.servers.iter().fold(0, |sum: u64, server| sum.saturating_add(server.bytes));
        // Each is for what arrived damaged, and there are never many.
        if self.plans.len() < MOST_INCIDENTS {
            self.plans.push(Plan { at, bound, shares: of_server, before });
        }
        Ok(())
    }

    /// Uses the progress of servers where there are no transfers.
    fn progress_to(&mut self, at: f64, bytes: &[u64]) {
        for ((server, last), &bytes) in self.servers.iter_mut().zip(&mut self.progress).zip(bytes) {
            if bytes > last.1 {
                server.receive(last.0, at, bytes - last.1);
            }
            *last = (at, last.1.max(bytes));
        }
    }

    fn note(&mut self, at: f64, what: impl FnOnce() -> String) {
        self.n_incidents += 1;
        if self.incidents.len() < MOST_INCIDENTS {
            self.incidents.push((at, what()));
        }
    }
}
