//! Where writes go: the core's placer, with what is learnt of servers and kept from run to run.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use evenkeel::draw::{Draw, Seeded};
use evenkeel::model::{MemberId, SNAPSHOT_VERSION};
use evenkeel::observe::speed::{Memory, Speeds, SpeedsSnapshot, Track, Tuning, Verdict};
use evenkeel::observe::{Forget, HeatMap, HeatSnapshot, Known, LogSnapshot, ServerLog, Unit, Warmth};
use evenkeel::place::{self, MAX_LEVELS, PlaceError, PlaceFn, Placer, PlacerSnapshot, Write};
use evenkeel::policy::{Live, Policy, placing};
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;

use crate::outside;

/// A write takes a server as long as this many bytes, whatever its size. So short ones say something about its speed, too.
const REQUEST_BYTES: u64 = 64 << 10;
/// A transfer is late if it takes this much longer than usual. Less is the noise of disks and of other programs.
const GRACE: Duration = Duration::from_millis(50);
/// A longer log is none.
const MOST_BYTES: u64 = 64 << 20;
const FORMAT: u32 = 1;

/// A policy that decides where writes go, and its parameter.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    /// The policy.
    pub policy: &'static Policy,
    make: PlaceFn,
    /// How often `nltr` halves the servers.
    levels: u32,
}

impl FromStr for Placement {
    type Err = String;

    /// Its name, or `nltr:3` for three levels.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, levels) = text.split_once(':').map_or((text, None), |(name, levels)| (name, Some(levels)));
        let Some((policy, make)) = placing().find(|(policy, _)| policy.is_called(name)) else {
            let known: Vec<&str> = placing().map(|(policy, _)| policy.name).collect();
            return Err(format!("there is no placement `{name}`; the known ones are {}", known.join(", ")));
        };
        let levels = match levels {
            None => place::Options::default().levels,
            Some(_) if !["nltr"].contains(&policy.name) => {
                return Err(format!("{text}: {} has no levels; only nltr:N has", policy.name));
            }
            Some(levels) => levels
                .parse()
                .ok()
                .filter(|levels| (1..=MAX_LEVELS).contains(levels))
                .ok_or_else(|| format!("{text}: give 1 to {MAX_LEVELS} levels, as in nltr:2"))?,
        };
        Ok(Self { policy, make, levels })
    }
}

/// How writes are placed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placing {
    pub(super) placement: Placement,
    pub(super) n_replicas: u32,
    pub(super) threshold_bytes: u64,
    pub(super) resort: bool,
    /// Whether the log learns what is done, and how fast servers are.
    pub(super) learns: bool,
    pub(super) seed: u64,
}

/// A write that is to be placed: its bytes, and the homes of its copies.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) bytes: u64,
    pub(super) homes: Vec<usize>,
}

/// The placer, and what it is told.
#[derive(Debug)]
pub(super) struct Places {
    names: Vec<String>,
    placer: Placer,
    speeds: Speeds,
    draw: Seeded,
    /// How long each server takes as far as the cluster file knows, in thousandths.
    declared: Vec<u32>,
    learns: bool,
    /// Whether the policy does not look at servers.
    is_blind: bool,
    n_replicas: usize,
    n_placed: u64,
    /// Writes that were scheduled at servers, and their bytes: what a usual write is.
    scheduled: (u64, u64),
}

impl Places {
    /// `speeds` has the names of the servers and their speeds in millionths of the usual one.
    pub(super) fn new(placing: &Placing, speeds: &[(String, u64)]) -> Result<Self, PlaceError> {
        let options = place::Options {
            n_replicas: placing.n_replicas,
            levels: placing.placement.levels,
            threshold_bytes: placing.threshold_bytes,
            resort: placing.resort,
            ..place::Options::default()
        };
        let log = ServerLog::new(speeds.iter().map(|_| 0), Unit::Mean, Forget::default());
        let servers = place::Servers { log, heat: HeatMap::unknown(speeds.len() as u32, true) };
        let permille =
            |millionths: u64| (1_000_000_000 / millionths.max(1)).clamp(1, u64::from(u32::MAX)) as u32;
        Ok(Self {
            names: speeds.iter().map(|(name, _)| name.clone()).collect(),
            placer: Placer::new(placing.placement.make, options, servers)?,
            speeds: Speeds::new(speeds.len(), Tuning::default()),
            draw: Seeded::new(placing.seed),
            declared: speeds.iter().map(|(_, millionths)| permille(*millionths)).collect(),
            learns: placing.learns && !matches!(placing.placement.policy.live, Live::Asks),
            is_blind: matches!(placing.placement.policy.live, Live::Blind),
            n_replicas: placing.n_replicas as usize,
            n_placed: 0,
            scheduled: (0, 0),
        })
    }

    /// The servers of each write of a window, as many as there are copies. `under_way` has the transfers under way, and
    /// `n_at` how many writes each server has that are not over.
    ///
    /// While others have shown what they do, a server that has not gets no second write, unless the policy looks at
    /// nothing anyway.
    pub(super) fn window(
        &mut self,
        wanted: &[Wanted],
        under_way: impl IntoIterator<Item = (usize, u64, Duration)>,
        n_at: &[usize],
    ) -> Result<Vec<Vec<usize>>, PlaceError> {
        let mut unproven = Vec::new();
        if self.learns {
            self.weigh(under_way);
            let is_unproven =
                |server: &usize| n_at[*server] > 0 && self.speed(*server).is_none() && self.is_up(*server);
            unproven.extend((0..n_at.len()).filter(is_unproven));
            let n_up = (0..n_at.len()).filter(|server| self.is_up(*server)).count();
            if self.is_blind || n_up < unproven.len() + self.n_replicas || !self.knows() {
                unproven.clear();
            }
        }
        unproven.iter().for_each(|server| self.set_up(*server, false));
        let Self { placer, draw, n_placed, n_replicas, .. } = self;
        let placed = place(placer, *n_replicas, n_placed, wanted, draw);
        unproven.iter().for_each(|server| self.set_up(*server, true));
        placed
    }

    /// The same for one write of which servers were asked: its home, and another one that was drawn.
    pub(super) fn asked(
        &mut self,
        wanted: &Wanted,
        told: &[(usize, u64)],
        other: usize,
    ) -> Result<Vec<usize>, PlaceError> {
        for &(server, load) in told {
            // The servers are known.
            let _ = self.placer.servers_mut().log.told(MemberId(server as u32), load);
        }
        let home = wanted.homes.first().copied();
        let free = (0..self.names.len()).filter(|server| Some(*server) != home && self.is_up(*server));
        let nth = free.take_while(|server| *server != other).count() as u32;
        let mut draw = Drawn { nth: Some(nth), then: &mut self.draw };
        let placed = place(
            &mut self.placer,
            self.n_replicas,
            &mut self.n_placed,
            std::slice::from_ref(wanted),
            &mut draw,
        )?;
        Ok(placed.into_iter().next().unwrap_or_default())
    }

    /// A server that is up and another one than a home, if there is one.
    pub(super) fn draw_other(&mut self, home: usize) -> Option<usize> {
        let others: Vec<usize> =
            (0..self.names.len()).filter(|server| *server != home && self.is_up(*server)).collect();
        let n = u32::try_from(others.len()).ok().filter(|n| *n > 0)?;
        others.get(self.draw.below(n) as usize).copied()
    }

    /// The lightest server that is up and none of these; it gets the write.
    pub(super) fn instead(&mut self, taken: &[usize], bytes: u64) -> Option<usize> {
        let log = &self.placer.servers().log;
        let free = (0..self.names.len()).filter(|server| !taken.contains(server) && self.is_up(*server));
        let found = free.min_by_key(|server| (log.load(MemberId(*server as u32)), *server))?;
        let _ = self.placer.servers_mut().log.schedule(MemberId(found as u32), bytes.into());
        Some(found)
    }

    /// What is known of the slowness of servers makes them heavier.
    fn weigh(&mut self, under_way: impl IntoIterator<Item = (usize, u64, Duration)>) {
        let in_flight = under_way.into_iter().map(|(server, bytes, time)| {
            let late = time.saturating_sub(GRACE).as_nanos();
            (MemberId(server as u32), bytes + REQUEST_BYTES, u64::try_from(late).unwrap_or(u64::MAX))
        });
        let slowness = self.speeds.slowness(now_ns(), in_flight);
        let permille = slowness.iter().zip(&self.declared).map(|(slowness, declared)| match slowness {
            Some(times) => (times * 1000.0).clamp(1.0, f64::from(u32::MAX)) as u32,
            None => *declared,
        });
        let permille: Vec<u32> = permille.collect();
        let (n, bytes) = self.scheduled;
        self.placer.servers_mut().log.weigh(permille, bytes.checked_div(n).unwrap_or(0));
    }

    /// A write at a server is over, in this time if it was carried out.
    pub(super) fn done(&mut self, server: usize, bytes: u64, took: Option<Duration>) {
        self.scheduled = (self.scheduled.0 + 1, self.scheduled.1.saturating_add(bytes));
        let server = MemberId(server as u32);
        if let Some(took) = took {
            let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
            let _ = self.speeds.moved(now_ns(), server, bytes.saturating_add(REQUEST_BYTES), ns);
        }
        if self.learns || took.is_none() {
            let _ = self.placer.servers_mut().log.complete(server, bytes.into());
        }
    }

    /// A server has said how many transfers it is busy with.
    pub(super) fn heard(&mut self, server: usize, connections: u64) {
        let _ = self.placer.servers_mut().heat.heartbeat(now_ns(), MemberId(server as u32), connections);
    }

    pub(super) fn set_up(&mut self, server: usize, is_up: bool) {
        let _ = self.placer.set_up(MemberId(server as u32), is_up);
    }

    pub(super) fn is_up(&self, server: usize) -> bool {
        self.placer.is_up(MemberId(server as u32))
    }

    /// Whether something is known of at least half of the servers.
    pub(super) fn knows(&self) -> bool {
        let n_known = (0..self.names.len()).filter(|server| self.speed(*server).is_some()).count();
        2 * n_known >= self.names.len()
    }

    pub(super) fn n_probes(&self) -> u64 {
        self.placer.n_probes()
    }

    /// Bytes per second of one transfer, as far as it is known.
    pub(super) fn speed(&self, server: usize) -> Option<f64> {
        let known = self.speeds.estimate(MemberId(server as u32)).ok().flatten()?;
        Some(known.short_bytes_per_s)
    }

    /// Goes on from what a file has kept. Servers that it does not know begin with nothing.
    pub(super) fn restore(&mut self, path: &Path) -> Result<(), String> {
        let mut text = String::new();
        match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.to_string()),
            Ok(file) => file.take(MOST_BYTES).read_to_string(&mut text).map_err(|error| error.to_string())?,
        };
        let kept: Kept =
            serde_json::from_str(&text).map_err(|error| format!("it is no log of writes: {error}"))?;
        if kept.format != FORMAT {
            return Err(format!("format {} is not known; this version reads format {FORMAT}", kept.format));
        }
        let of = |name: &String| kept.servers.get(name).copied();
        let shares: Vec<f64> = self.names.iter().filter_map(of).map(|server| server.probability).collect();
        let usual = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
        let usual = if usual > 0.0 { usual } else { 1.0 };
        let shares: Vec<f64> =
            self.names.iter().map(|name| of(name).map_or(usual, |server| server.probability)).collect();
        let sum: f64 = shares.iter().sum();
        let servers: Vec<KeptServer> = self.names.iter().map(|name| of(name).unwrap_or_default()).collect();
        let snapshot = PlacerSnapshot {
            version: SNAPSHOT_VERSION,
            log: LogSnapshot {
                version: SNAPSHOT_VERSION,
                loads: servers.iter().map(|server| server.load.into()).collect(),
                probabilities: shares.iter().map(|share| share / sum).collect(),
            },
            heat: HeatSnapshot {
                version: SNAPSHOT_VERSION,
                servers: servers.iter().map(KeptServer::warmth).collect(),
                is_optimistic: true,
            },
            down: Vec::new(),
            n_redirected: 0,
            n_probes: 0,
        };
        let tracks = servers.iter().map(KeptServer::track).collect();
        let speeds = SpeedsSnapshot { version: SNAPSHOT_VERSION, servers: tracks };
        self.speeds = Speeds::restore(speeds, Tuning::default()).map_err(|error| error.to_string())?;
        self.placer.restore(snapshot).map_err(|error| error.to_string())
    }

    /// Keeps what is known for the next run, with what the file knows of other servers.
    pub(super) fn keep(&self, path: &Path) -> io::Result<()> {
        let known = fs::read_to_string(path).ok().and_then(|text| serde_json::from_str::<Kept>(&text).ok());
        let mut servers = known.filter(|kept| kept.format == FORMAT).unwrap_or_default().servers;
        let (snapshot, speeds) = (self.placer.snapshot(), self.speeds.snapshot());
        for (server, name) in self.names.iter().enumerate() {
            let Known { warmth, .. } = snapshot.heat.servers[server];
            let Track { last_ns, short, long, .. } = speeds.servers[server];
            let kept = KeptServer {
                load: u64::try_from(snapshot.log.loads[server]).unwrap_or(u64::MAX),
                probability: snapshot.log.probabilities[server],
                last_used_ns: warmth.last_used_ns,
                measured_ns: last_ns,
                short: [short.bytes, short.busy_ns, short.n_samples],
                long: [long.bytes, long.busy_ns, long.n_samples],
            };
            servers.insert(name.clone(), kept);
        }
        let text = serde_json::to_string_pretty(&Kept { format: FORMAT, servers })?;
        let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let mut file = NamedTempFile::new_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    }
}

fn place(
    placer: &mut Placer,
    n_replicas: usize,
    n_placed: &mut u64,
    wanted: &[Wanted],
    draw: &mut dyn Draw,
) -> Result<Vec<Vec<usize>>, PlaceError> {
    let mut writes = Vec::with_capacity(wanted.len());
    let mut homes = Vec::with_capacity(wanted.len() * n_replicas);
    for write in wanted {
        *n_placed += 1;
        let default = MemberId(write.homes.first().copied().unwrap_or_default() as u32);
        writes.push(Write { object: *n_placed, default, offset: 0, bytes: write.bytes });
        homes.extend(write.homes.iter().map(|home| MemberId(*home as u32)));
    }
    let mut placed = Vec::with_capacity(homes.len());
    placer.window_at(now_ns(), &writes, &homes, draw, &mut placed)?;
    Ok(placed
        .chunks(n_replicas)
        .map(|servers| servers.iter().map(|server| server.index()).collect())
        .collect())
}

/// Randomness whose next draw is known.
struct Drawn<'a> {
    nth: Option<u32>,
    then: &'a mut Seeded,
}

impl Draw for Drawn<'_> {
    fn below(&mut self, n: u32) -> u32 {
        self.nth.take().filter(|nth| *nth < n).unwrap_or_else(|| self.then.below(n))
    }

    fn unit(&mut self) -> f64 {
        self.then.unit()
    }
}

/// The time since 1970, so that what is kept fades until the next run.
fn now_ns() -> u64 {
    u64::try_from(outside::since_1970().as_nanos()).unwrap_or(u64::MAX)
}

/// The file that is kept.
#[derive(Default, Serialize, Deserialize)]
struct Kept {
    format: u32,
    servers: BTreeMap<String, KeptServer>,
}

/// What is kept of a server.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptServer {
    /// Bytes that were sent and are not known to be done.
    load: u64,
    /// By the formulas of paper 004.
    probability: f64,
    last_used_ns: u64,
    /// When it was last measured, in nanoseconds since 1970.
    measured_ns: u64,
    /// Bytes, nanoseconds and samples, as far as they have not faded.
    short: [f64; 3],
    long: [f64; 3],
}

impl KeptServer {
    fn warmth(&self) -> Known {
        let warmth = Warmth { connections: 0, last_used_ns: self.last_used_ns };
        Known { warmth, heard_ns: None }
    }

    fn track(&self) -> Track {
        let memory =
            |[bytes, busy_ns, n_samples]: [f64; 3]| Memory { bytes, busy_ns, n_samples, is_slow: false };
        Track {
            last_ns: self.measured_ns,
            short: memory(self.short),
            long: memory(self.long),
            verdict: Verdict::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(placement: &str, n_replicas: u32) -> Places {
        let placing = Placing {
            placement: placement.parse().unwrap(),
            n_replicas,
            threshold_bytes: 0,
            resort: false,
            learns: true,
            seed: 1,
        };
        let speeds: Vec<(String, u64)> = (1..=4).map(|n| (format!("s{n}"), 1_000_000)).collect();
        Places::new(&placing, &speeds).unwrap()
    }

    fn wanted(home: usize) -> Wanted {
        Wanted { bytes: 4 << 20, homes: vec![home] }
    }

    #[test]
    fn placements_have_names() {
        assert_eq!("nltr:3".parse::<Placement>().unwrap().levels, 3);
        for (wrong, why) in
            [("nltr:0", "1 to 32"), ("rr:2", "has no levels"), ("best", "there is no placement")]
        {
            let error = wrong.parse::<Placement>().unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn a_slow_server_gets_little_and_is_remembered() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("log/writes.json");
        let mut first = places("mlml", 1);
        first.restore(&file).unwrap();
        for server in 0..4 {
            let ms = if server == 2 { 1000 } else { 100 };
            (0..3).for_each(|_| first.done(server, 4 << 20, Some(Duration::from_millis(ms))));
        }
        first.keep(&file).unwrap();
        let mut second = places("mlml", 1);
        second.restore(&file).unwrap();
        second.scheduled = (1, 4 << 20);
        let window: Vec<Wanted> = (0..32).map(|n| wanted(n % 4)).collect();
        let servers = second.window(&window, [], &[0; 4]).unwrap();
        let n_slow = servers.iter().filter(|at| at[0] == 2).count();
        assert!(n_slow <= 2, "{n_slow} of 32");
        assert!((10e6..60e6).contains(&second.speed(0).unwrap()));
        fs::write(&file, "{\"format\":2,\"servers\":{}}").unwrap();
        assert!(second.restore(&file).unwrap_err().contains("format 2"));
        fs::write(&file, "[]").unwrap();
        assert!(second.restore(&file).is_err());
    }

    #[test]
    fn late_transfers_make_a_server_heavy() {
        let mut places = places("mlml", 1);
        (0..2).for_each(|server| places.done(server, 4 << 20, Some(Duration::from_millis(100))));
        let late = [(2, 4 << 20, Duration::from_secs(2)), (3, 4 << 20, Duration::from_millis(10))];
        let window: Vec<Wanted> = (0..16).map(|n| wanted(n % 4)).collect();
        let servers = places.window(&window, late, &[0; 4]).unwrap();
        assert!(servers.iter().filter(|at| at[0] == 2).count() <= 1, "{servers:?}");
    }

    #[test]
    fn who_has_shown_nothing_gets_one_write() {
        let n_at = [1, 1, 1, 1];
        let window: Vec<Wanted> = (0..16).map(|n| wanted(n % 4)).collect();
        let n_at_last = |placement: &str| {
            let mut places = places(placement, 1);
            (0..3).for_each(|server| places.done(server, 4 << 20, Some(Duration::from_millis(100))));
            let servers = places.window(&window, [], &n_at).unwrap();
            assert!(places.is_up(3));
            servers.iter().filter(|at| at[0] == 3).count()
        };
        assert_eq!([n_at_last("mlml"), n_at_last("rr")], [0, 4]);
    }

    #[test]
    fn who_is_asked_decides() {
        let mut places = places("two-choice", 1);
        for (told, expected) in [([(0, 10), (3, 5)], 3), ([(0, 5), (3, 5)], 0)] {
            assert_eq!(places.asked(&wanted(0), &told, 3).unwrap(), [expected]);
        }
        assert_eq!(places.n_probes(), 4);
        places.set_up(1, false);
        assert!((0..20).all(|_| [0, 3].contains(&places.draw_other(2).unwrap())));
        assert_eq!(places.asked(&wanted(0), &[(0, 9), (3, 1)], 3).unwrap(), [3]);
    }

    #[test]
    fn copies_are_apart() {
        let mut places = places("hdfs-random", 2);
        let wanted = Wanted { bytes: 1, homes: vec![2, 0] };
        for at in places.window(&vec![wanted; 50], [], &[0; 4]).unwrap() {
            assert!(at.len() == 2 && at[0] != at[1]);
        }
        assert_eq!(places.instead(&[0, 1, 2], 1), Some(3));
    }
}
