//! How fast each server is now and has been in the long run, and which ones are stragglers. Paper 004 §1 distinguishes
//! short-term from long-term stragglers, but does not say how to find them, so the method is ours.
//!
//! A speed is the bytes over the time of the reported transfers, both fading exponentially, so that a transfer counts
//! by how long it took and a tiny one has little weight. It is the speed of one transfer, not of all concurrent ones. A
//! server is slow if it is far below the median of all servers; what slows all of them down makes none a straggler. A
//! server that is avoided is no longer reported, so what is known about it fades, and it gets another chance.
//!
//! This compares servers and predicts nothing; how long a server takes for its next transfer is the executor's question
//! (`pace`).

use super::exp::exp;
use crate::model::{BadSnapshot, MemberId, SNAPSHOT_VERSION};

/// Parameters that define a straggler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// The time in which the short-term memory fades to 1/e; at least 1.
    pub short_ns: u64,
    /// The time in which the long-term memory fades to 1/e; at least `short_ns`.
    pub long_ns: u64,
    /// Below this share of the median, in thousandths, a server becomes slow; at most 1000.
    pub enter_permille: u32,
    /// From this share on it is no longer slow; at least `enter_permille`.
    pub leave_permille: u32,
    /// With fewer samples, which fade like the memory, there is no verdict; at least 1.
    pub min_samples: u32,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            // About ten chunks of 64 MiB from one disk: a shorter time would follow single transfers.
            short_ns: 5_000_000_000,
            // Paper 004 §1: interference lasts for minutes or less, bad hardware for hours. A server that becomes five
            // times slower is a long-term straggler after about this time.
            long_ns: 600_000_000_000,
            // At less than half the speed, a transfer that was just started ends earlier if it is restarted elsewhere.
            enter_permille: 500,
            // Half as much again, so that noise of a fifth in either direction cannot cross both thresholds.
            leave_permille: 750,
            // One slow transfer is an accident, two a coincidence.
            min_samples: 3,
        }
    }
}

/// Longer than any transfer or pause between two reports of one: the clock was set, or the machine slept.
const MOST_NS: u64 = 3_600_000_000_000;

/// A terabyte per second, more than any server reaches: the clock is too coarse for what it measured.
const MOST_BYTES_PER_NS: u64 = 1000;

/// What is known of a server that is not heard of fades to 1/e in this time for [`Speeds::slowness`]: to try a slow server
/// again every minute or so costs little.
const FORGOTTEN_NS: u64 = 30_000_000_000;

/// A server that takes up to so many times as long as is usual, or as short, counts as usual: so much is noise.
const NOISE: f64 = 1.5;

/// A smaller rest of a sum of bytes counts as nothing. If all servers stand still, none must be slower than others
/// because of what is left of better times.
const LEAST_BYTES: f64 = 1e-6;

/// The verdict on a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// There were too few recent reports.
    #[default]
    Unknown,
    /// As fast as the others.
    Steady,
    /// Slow now, but not in the long run: a straggler that may recover by itself.
    ShortTerm,
    /// Slow in the long run, and not known to be any better now.
    LongTerm,
    /// Slow in the long run, but no longer now.
    Recovering,
}

impl Verdict {
    /// Whether the server is slow now, as far as is known.
    pub fn is_straggler(self) -> bool {
        matches!(self, Self::ShortTerm | Self::LongTerm)
    }
}

/// The speeds of a server, as of its last report.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// From the short-term memory; finite.
    pub short_bytes_per_s: f64,
    /// From the long-term memory; finite.
    pub long_bytes_per_s: f64,
}

/// An event or a query names a server that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no server number {0}")]
pub struct NoSuchServer(pub u32);

/// Sums that fade with time, as of the last report.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// Bytes that were moved.
    pub bytes: f64,
    /// How long that took.
    pub busy_ns: f64,
    /// The number of reports.
    pub n_samples: f64,
    /// Whether the server was found to be slow by this memory.
    pub is_slow: bool,
}

impl Memory {
    fn add(&mut self, kept: f64, bytes: u64, duration_ns: u64) {
        let left = self.bytes * kept;
        self.bytes = if left < LEAST_BYTES { 0.0 } else { left } + bytes as f64;
        self.busy_ns = self.busy_ns * kept + duration_ns as f64;
        self.n_samples = self.n_samples * kept + 1.0;
    }

    fn can_be(&self) -> bool {
        let Self { bytes, busy_ns, n_samples, .. } = *self;
        let is_sum = |sum: f64| sum.is_finite() && sum >= 0.0;
        [bytes, busy_ns, n_samples].into_iter().all(is_sum) && (n_samples == 0.0 || busy_ns > 0.0)
    }

    /// Both sums fade alike, so the result is independent of the age of the last sample. At that time `busy_ns` was at
    /// least 1 ns.
    fn bytes_per_ns(&self) -> Option<f64> {
        (self.n_samples > 0.0).then(|| self.bytes / self.busy_ns)
    }
}

/// The observations of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Track {
    /// The time of the latest report; an earlier time counts as this one.
    pub last_ns: u64,
    /// The short-term memory.
    pub short: Memory,
    /// The long-term memory.
    pub long: Memory,
    /// The verdict when all servers were last judged.
    pub verdict: Verdict,
}

/// All speeds as plain data.
#[derive(Clone, Debug, PartialEq)]
pub struct SpeedsSnapshot {
    /// The version of this layout.
    pub version: u32,
    /// The observations of each server.
    pub servers: Vec<Track>,
}

/// The observations of all servers, and the verdicts.
#[derive(Clone, Debug)]
pub struct Speeds {
    tuning: Tuning,
    tracks: Vec<Track>,
}

impl Speeds {
    /// Creates a state in which nothing is known about `n_servers` servers.
    pub fn new(n_servers: usize, tuning: Tuning) -> Self {
        let short_ns = tuning.short_ns.max(1);
        let enter_permille = tuning.enter_permille.min(1000);
        let tuning = Tuning {
            short_ns,
            long_ns: tuning.long_ns.max(short_ns),
            enter_permille,
            leave_permille: tuning.leave_permille.max(enter_permille),
            min_samples: tuning.min_samples.max(1),
        };
        Self { tuning, tracks: vec![Track::default(); n_servers] }
    }

    /// The observations, to be saved.
    pub fn snapshot(&self) -> SpeedsSnapshot {
        SpeedsSnapshot { version: SNAPSHOT_VERSION, servers: self.tracks.clone() }
    }

    /// Restores saved speeds.
    pub fn restore(snapshot: SpeedsSnapshot, tuning: Tuning) -> Result<Self, BadSnapshot> {
        BadSnapshot::unless_version(snapshot.version)?;
        let can_be = |track: &Track| track.short.can_be() && track.long.can_be();
        BadSnapshot::unless(snapshot.servers.iter().all(can_be), "a sum that is no number of bytes or time")?;
        Ok(Self { tracks: snapshot.servers, ..Self::new(0, tuning) })
    }

    /// Adds a server about which nothing is known.
    pub fn add(&mut self) {
        self.tracks.push(Track::default());
    }

    /// Reports that a transfer from or to a server is done, or has made progress: `bytes` in the time since it started
    /// or was last reported. A stalled transfer should be reported as well, with no bytes; otherwise its slowness stays
    /// unknown. Returns whether the report counts: one that took no time, or cannot be true, is ignored.
    pub fn moved(
        &mut self,
        now_ns: u64,
        server: MemberId,
        bytes: u64,
        duration_ns: u64,
    ) -> Result<bool, NoSuchServer> {
        let track = self.tracks.get_mut(server.index()).ok_or(NoSuchServer(server.0))?;
        let is_true = (1..=MOST_NS).contains(&duration_ns) && bytes <= duration_ns * MOST_BYTES_PER_NS;
        if is_true {
            let passed_ns = now_ns.saturating_sub(track.last_ns);
            track.last_ns = track.last_ns.max(now_ns);
            track.short.add(kept(passed_ns, self.tuning.short_ns), bytes, duration_ns);
            track.long.add(kept(passed_ns, self.tuning.long_ns), bytes, duration_ns);
        }
        Ok(is_true)
    }

    /// Judges all servers by what is known about them now. Returns the verdicts in order of their ids.
    pub fn judge(&mut self, now_ns: u64) -> impl ExactSizeIterator<Item = Verdict> {
        let Tuning { short_ns, long_ns, .. } = self.tuning;
        let is_slow_now = self.compare(now_ns, short_ns, |track| &mut track.short);
        let is_slow_for_long = self.compare(now_ns, long_ns, |track| &mut track.long);
        for (track, (now, for_long)) in
            self.tracks.iter_mut().zip(is_slow_now.into_iter().zip(is_slow_for_long))
        {
            track.verdict = match (now, for_long) {
                (Some(false), Some(true)) => Verdict::Recovering,
                (_, Some(true)) => Verdict::LongTerm,
                (Some(true), _) => Verdict::ShortTerm,
                (Some(false), _) | (_, Some(false)) => Verdict::Steady,
                (None, None) => Verdict::Unknown,
            };
        }
        self.tracks.iter().map(|track| track.verdict)
    }

    /// The verdict on a server when all were last judged.
    pub fn verdict(&self, server: MemberId) -> Result<Verdict, NoSuchServer> {
        self.tracks.get(server.index()).map(|track| track.verdict).ok_or(NoSuchServer(server.0))
    }

    /// The speeds of a server, if any report of it has counted, however old.
    pub fn estimate(&self, server: MemberId) -> Result<Option<Estimate>, NoSuchServer> {
        let track = self.tracks.get(server.index()).ok_or(NoSuchServer(server.0))?;
        let speeds = track.short.bytes_per_ns().zip(track.long.bytes_per_ns());
        Ok(speeds
            .map(|(short, long)| Estimate { short_bytes_per_s: short * 1e9, long_bytes_per_s: long * 1e9 }))
    }

    /// How many times as long as is usual each server takes at present, by the short-term memory; `None` where nothing is
    /// known. Usual is the median. What is only a little off counts as 1, and what is known of servers that are not heard
    /// of fades.
    ///
    /// Transfers that are not done yet show that a server is slow as soon as they take longer than usual: `in_flight`
    /// has the server, the bytes and the duration of each so far.
    pub fn slowness(
        &self,
        now_ns: u64,
        in_flight: impl IntoIterator<Item = (MemberId, u64, u64)>,
    ) -> Vec<Option<f64>> {
        let speeds: Vec<Option<f64>> =
            self.tracks.iter().map(|track| track.short.bytes_per_ns().filter(|speed| *speed > 0.0)).collect();
        let usual = median(speeds.iter().copied().flatten().collect());
        let fading = |(track, speed): (&Track, Option<f64>)| {
            let left = kept(now_ns.saturating_sub(track.last_ns), FORGOTTEN_NS);
            speed.map(|speed| 1.0 + (usual / speed - 1.0) * left)
        };
        let mut found: Vec<Option<f64>> = self.tracks.iter().zip(speeds).map(fading).collect();
        for (server, bytes, ns) in in_flight {
            let feared = ns as f64 * usual / bytes.max(1) as f64;
            if let Some(found) = found.get_mut(server.index())
                && usual > 0.0
                && feared > found.unwrap_or(1.0)
            {
                *found = Some(feared);
            }
        }
        let is_noise = |times: f64| (NOISE.recip()..=NOISE).contains(&times);
        found.into_iter().map(|found| found.map(|times| if is_noise(times) { 1.0 } else { times })).collect()
    }

    /// Whether each server is slow by one of the memories; `None` where too little is left of it.
    fn compare(
        &mut self,
        now_ns: u64,
        constant_ns: u64,
        memory: impl Fn(&mut Track) -> &mut Memory,
    ) -> Vec<Option<bool>> {
        let Tuning { enter_permille, leave_permille, min_samples, .. } = self.tuning;
        let known = |track: &mut Track| {
            let kept = kept(now_ns.saturating_sub(track.last_ns), constant_ns);
            let memory = memory(track);
            memory.bytes_per_ns().filter(|_| memory.n_samples * kept >= min_samples.into())
        };
        let speeds: Vec<Option<f64>> = self.tracks.iter_mut().map(known).collect();
        let median = median(speeds.iter().copied().flatten().collect());
        let judged = self.tracks.iter_mut().zip(speeds).map(|(track, speed)| {
            let memory = memory(track);
            let border = if memory.is_slow { leave_permille } else { enter_permille };
            // A server that is unknown must be found slow again first. If all stand still, none is slower than others.
            memory.is_slow = speed.is_some_and(|speed| speed * 1000.0 < median * f64::from(border));
            speed.map(|_| memory.is_slow)
        });
        judged.collect()
    }
}

/// The median: the middle value, or the mean of the two middle ones; 0 if there are none.
fn median(mut speeds: Vec<f64>) -> f64 {
    speeds.sort_unstable_by(f64::total_cmp);
    let n = speeds.len();
    if n == 0 { 0.0 } else { f64::midpoint(speeds[(n - 1) / 2], speeds[n / 2]) }
}

/// The fraction that is left after `passed_ns`.
fn kept(passed_ns: u64, constant_ns: u64) -> f64 {
    exp(-(passed_ns as f64 / constant_ns as f64))
}
