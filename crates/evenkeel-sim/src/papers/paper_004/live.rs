//! The claims that can be checked on real servers, and what the simulator says of the same ones.
//!
//! Whoever has servers writes what [`Setting::writes`] draws, and tells what became of it as [`Seen`]. The simulator does
//! the same writes, to the same homes, on servers of the same speeds. One rule judges both.
//!
//! A straggler of the paper has five times the usual load on top of it. Here it takes six times as long for everything,
//! as a server does that has so much else to do.

use evenkeel::place::Write;

use super::{LTR1, LTR2, LTR3, MLML, POLICIES, PROPOSED, RR, TRH, TWO_CHOICE, percent};
use crate::case::Case;
use crate::chance::{sample, sub_seed};
use crate::hardware::{Client, Hardware, Server};
use crate::outcome::Estimate;
use crate::papers::Verdict;
use crate::papers::judging::{Interval, estimate};
use crate::refused::Refused;
use crate::units::{Bytes, Span};
use crate::writes::{Range, Sizes, Writes};
use evenkeel::draw::Seeded;

/// How many times as long a straggler takes.
pub const TIMES: u64 = 6;
/// Transfers to a server at a time.
pub const SLOTS: u32 = 4;
/// Writes take a usual server between these times: as 4 to 10 MB, the medium ones of §4, take one behind 1 Gbit/s.
const WRITE_MS: [u64; 2] = [32, 80];
/// Purpose of the random draw of stragglers.
const STRAGGLERS: u64 = 5;
/// How many ways of writing are compared.
pub const N: usize = 11;
/// The first of the proposed policies with the paper's own log; the others follow in the order of [`PROPOSED`].
const OWN_LOG: usize = 7;

/// A way of writing, by the names that the real client and the simulator have for it.
#[derive(Clone, Copy, Debug)]
pub struct Contestant {
    /// As tables have it.
    pub name: &'static str,
    /// As the real client has it.
    pub placement: &'static str,
    /// Its number among the policies of the paper.
    policy: usize,
    /// Whether its log hears of what is done. The paper's own does not.
    pub completions: bool,
}

const fn contestant(
    name: &'static str,
    placement: &'static str,
    policy: usize,
    completions: bool,
) -> Contestant {
    Contestant { name, placement, policy, completions }
}

/// All ways of writing: the policies, and those of the paper with the paper's own log.
pub static CONTESTANTS: [Contestant; N] = [
    contestant("rr", "rr", RR, true),
    contestant("mlml", "mlml", MLML, true),
    contestant("trh", "trh", TRH, true),
    contestant("nltr:1", "nltr:1", LTR1, true),
    contestant("nltr:2", "nltr:2", LTR2, true),
    contestant("nltr:3", "nltr:3", LTR3, true),
    contestant("two-choice", "two-choice", TWO_CHOICE, true),
    contestant("mlml, the paper's log", "mlml", MLML, false),
    contestant("trh, the paper's log", "trh", TRH, false),
    contestant("nltr:1, the paper's log", "nltr:1", LTR1, false),
    contestant("nltr:2, the paper's log", "nltr:2", LTR2, false),
];

/// What is written, and on what.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Number of servers.
    pub n_servers: u32,
    /// Number of them that are slow.
    pub n_slow: u32,
    /// What a usual server takes in a second.
    pub bytes_per_second: u64,
    /// Number of writes.
    pub n_writes: u32,
    /// How long a window is.
    pub window_ms: u64,
    /// By how much a server must be lighter than the home.
    pub threshold_bytes: u64,
    /// Whether the real client keeps its log from one run to the next. The simulator knows no such thing.
    pub keeps_log: bool,
    /// Seed of all random choices.
    pub seed: u64,
}

/// What became of the writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// When all were written.
    pub seconds: f64,
    /// The bytes of each server.
    pub bytes: Vec<u64>,
    /// Writes that went elsewhere than home.
    pub n_redirected: u64,
    /// How often servers were asked for their load.
    pub n_probes: u64,
}

impl Setting {
    /// The paper's cluster, a tenth of it, on servers that take so much in a second.
    pub fn new(bytes_per_second: u64, seed: u64) -> Self {
        Self {
            n_servers: 10,
            n_slow: 1,
            bytes_per_second,
            n_writes: 120,
            window_ms: 100,
            threshold_bytes: 0,
            keeps_log: false,
            seed,
        }
    }

    /// The sizes of writes, from the smallest to the largest.
    pub fn sizes(&self) -> [u64; 2] {
        WRITE_MS.map(|ms| self.bytes_per_second * ms / 1000)
    }

    fn seed_of(&self, run: u32) -> u64 {
        sub_seed(self.seed, run.into())
    }

    /// The writes of a run, each with its home.
    pub fn writes(&self, run: u32) -> Vec<Write> {
        // The settings are valid.
        self.simulated(LTR2, true).drawn(self.n_servers, self.seed_of(run)).unwrap_or_default()
    }

    /// What each server takes in a second. The stragglers are others in each run.
    pub fn rates(&self, run: u32) -> Vec<u64> {
        let mut draw = Seeded::new(sub_seed(self.seed_of(run), STRAGGLERS));
        let slow = sample(self.n_servers, self.n_slow, &mut draw);
        let rate = |server| {
            if slow.contains(&server) { self.bytes_per_second / TIMES } else { self.bytes_per_second }
        };
        (0..self.n_servers).map(rate).collect()
    }

    /// No policy is done sooner: the bytes of a run over what all servers take together.
    pub fn bound_seconds(&self, run: u32) -> f64 {
        let bytes: u64 = self.writes(run).iter().map(|write| write.bytes).sum();
        bytes as f64 / self.rates(run).iter().sum::<u64>() as f64
    }

    fn simulated(&self, policy: usize, completions: bool) -> Writes {
        let [from, to] = self.sizes().map(Bytes);
        let window =
            self.rates(0).iter().sum::<u64>() * self.window_ms / 1000 / (from.0 + to.0).div_ceil(2).max(1);
        Writes {
            writes: self.n_writes,
            window: u32::try_from(window).unwrap_or(u32::MAX).max(1),
            every: Some(Span(self.window_ms * 1_000_000)),
            sizes: Sizes::Between(Range { from, to }),
            threshold: Bytes(self.threshold_bytes),
            levels: POLICIES[policy].2,
            completions,
            ..Writes::default()
        }
    }

    /// The same in the simulator: windows open as fast as all servers together could take them.
    pub fn simulate(&self, contestant: &Contestant, run: u32) -> Result<Seen, Refused> {
        let (_, name, _) = POLICIES[contestant.policy];
        let server = |(host, rate): (u32, u64)| Server { host, rate: rate as f64 / 1e9, ..Server::default() };
        let n_clients = self.n_servers * SLOTS;
        let hardware = Hardware {
            servers: (0..).zip(self.rates(run)).map(server).collect(),
            clients: (self.n_servers..self.n_servers + n_clients)
                .map(|host| Client { host, slots: 1 })
                .collect(),
            n_hosts: self.n_servers + n_clients,
            nic: None,
            message_ns: 50_000,
            dispatch_ns: 0,
        };
        let Some(policy) = evenkeel::policy::find(name) else { unreachable!("{name} is a policy") };
        let case = Case::new(&hardware, policy, self.seed_of(run));
        let outcome = self.simulated(contestant.policy, contestant.completions).run(&case)?;
        Ok(Seen {
            seconds: outcome.makespan_ns as f64 / 1e9,
            bytes: outcome.bytes_of_servers,
            n_redirected: outcome.n_redirected,
            n_probes: outcome.n_probes,
        })
    }
}

/// All ways of writing in one run; those that did not write are empty.
pub type Run = [Seen; N];

/// Writes to be carried out: a setting, and who writes in it, in turn.
#[derive(Clone, Debug)]
pub struct Round {
    /// What is different in it.
    pub name: &'static str,
    /// The setting.
    pub setting: Setting,
    /// Numbers of [`CONTESTANTS`].
    pub contestants: Vec<usize>,
    /// How often.
    pub n_runs: u32,
}

/// One server in ten is slow.
pub const SLOW: usize = 0;
/// No server is.
pub const EVEN: usize = 1;

/// All rounds: [`SLOW`], [`EVEN`], and unless it has to be quick, others with what the paper leaves open.
pub fn rounds(setting: &Setting, is_quick: bool) -> Vec<Round> {
    let round = |name, change: fn(&mut Setting), contestants: &[usize], n_runs| {
        let mut setting = setting.clone();
        change(&mut setting);
        Round { name, setting, contestants: contestants.to_vec(), n_runs }
    };
    let n_runs = if is_quick { 1 } else { 4 };
    let of_slow: Vec<usize> = (0..N).filter(|number| *number != LTR3).collect();
    let mut rounds = vec![
        round("one is slow", |_| {}, &of_slow, n_runs),
        round("none is slow", |of| of.n_slow = 0, &[RR, MLML, TRH, LTR1, LTR2, LTR3], n_runs),
    ];
    if !is_quick {
        let n_runs = n_runs - 1;
        rounds.extend([
            round("windows of half a second", |of| of.window_ms = 500, &PROPOSED, n_runs),
            round(
                "a threshold of three writes",
                |of| of.threshold_bytes = 3 * of.sizes()[1],
                &PROPOSED,
                n_runs,
            ),
            round("the log of an earlier run", |of| of.keeps_log = true, &PROPOSED, n_runs),
        ]);
    }
    rounds
}

/// What was found of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Whether it holds.
    pub verdict: Verdict,
    /// What was measured.
    pub measured: String,
}

impl From<(Verdict, String)> for Found {
    fn from((verdict, measured): (Verdict, String)) -> Self {
        Self { verdict, measured }
    }
}

/// A claim, checked on real servers.
#[derive(Clone, Debug)]
pub struct Checked {
    /// As in [`super::PAPER`], if it is there.
    pub id: &'static str,
    /// Where the paper says it.
    pub section: &'static str,
    /// What it says, in our words.
    pub says: &'static str,
    /// The rule by which it counts as true.
    pub rule: &'static str,
    /// Why it is as it is.
    pub why: &'static str,
    /// What the simulator says, if it can tell.
    pub simulated: Option<Found>,
    /// What the real servers say.
    pub live: Found,
    /// The same with other choices of what the paper leaves open.
    pub variations: Vec<Changed>,
}

/// A claim with something chosen otherwise.
#[derive(Clone, Debug)]
pub struct Changed {
    /// What.
    pub what: &'static str,
    /// What the simulator says then, if it can tell.
    pub simulated: Option<Found>,
    /// What the real servers say then.
    pub live: Found,
}

/// What was measured of both kinds of rounds.
struct Data {
    setting: Setting,
    slow: Vec<Run>,
    even: Vec<Run>,
}

impl Data {
    /// A figure of one way of writing, with one server slow.
    fn of(&self, contestant: usize, what: impl Fn(&Seen, &[u64]) -> f64) -> Estimate {
        let runs = (0..).zip(&self.slow);
        estimate(runs.map(|(run, all)| what(&all[contestant], &self.setting.rates(run))))
    }

    /// The ratio of two ways of writing, run by run.
    fn ratio(&self, a: usize, b: usize, what: impl Fn(&Seen, &[u64]) -> f64) -> Estimate {
        let runs = (0..).zip(&self.slow);
        estimate(runs.map(|(run, all)| {
            let rates = self.setting.rates(run);
            what(&all[a], &rates) / what(&all[b], &rates)
        }))
    }

    /// The ratio of the deviations of loads, with no server slow.
    fn evenness(&self, a: usize, b: usize) -> Estimate {
        let deviation = |seen: &Seen| deviation(seen.bytes.iter().map(|&bytes| bytes as f64));
        estimate(self.even.iter().map(|all| deviation(&all[a]) / deviation(&all[b])))
    }

    fn more_even(&self, contestants: &[usize]) -> (Verdict, String) {
        let ratios: Vec<(usize, Estimate)> =
            contestants.iter().map(|&of| (of, self.evenness(of, RR))).collect();
        let n = ratios.iter().filter(|(_, ratio)| ratio.is_below(1.0)).count();
        (Verdict::of(n == ratios.len(), n > 0), format!("deviation of loads ÷ rr's: {}", told(&ratios, 2)))
    }

    /// The four with another log.
    fn with_own_log(&self) -> Self {
        let mut slow = self.slow.clone();
        for all in &mut slow {
            for (own, policy) in (OWN_LOG..).zip(PROPOSED) {
                all[policy] = all[own].clone();
            }
        }
        Self { slow, setting: self.setting.clone(), even: Vec::new() }
    }

    /// The four in another setting.
    fn with(&self, runs: &[Run]) -> Self {
        let with = |(all, others): (&Run, &Run)| {
            let mut all = all.clone();
            PROPOSED.iter().for_each(|&policy| all[policy] = others[policy].clone());
            all
        };
        let slow = self.slow.iter().zip(runs).map(with).collect();
        Self { slow, setting: self.setting.clone(), even: Vec::new() }
    }
}

fn deviation(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / n).sqrt()
}

/// How long each server takes for what it got.
fn work(seen: &Seen, rates: &[u64]) -> Vec<f64> {
    seen.bytes.iter().zip(rates).map(|(&bytes, &rate)| bytes as f64 / rate as f64).collect()
}

/// Whether servers are slow.
fn slow(rates: &[u64]) -> impl Iterator<Item = bool> {
    let usual = rates.iter().copied().max().unwrap_or(0);
    rates.iter().map(move |rate| *rate < usual)
}

/// Share of the bytes that slow servers got.
pub fn share_of_slow(seen: &Seen, rates: &[u64]) -> f64 {
    let of_slow: u64 = seen.bytes.iter().zip(slow(rates)).filter(|(_, is)| *is).map(|(bytes, _)| bytes).sum();
    of_slow as f64 / seen.bytes.iter().sum::<u64>().max(1) as f64
}

fn seconds(seen: &Seen, _: &[u64]) -> f64 {
    seen.seconds
}

fn told(estimates: &[(usize, Estimate)], digits: usize) -> String {
    let one = |(of, estimate): &(usize, Estimate)| {
        format!("{} {}", CONTESTANTS[*of].placement, estimate.tell(digits))
    };
    estimates.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn of_each(of: impl Fn(usize) -> Estimate) -> Vec<(usize, Estimate)> {
    PROPOSED.iter().map(|&policy| (policy, of(policy))).collect()
}

fn sooner(data: &Data, than: usize) -> (Verdict, String) {
    let ratios = of_each(|policy| data.ratio(policy, than, seconds));
    let n = ratios.iter().filter(|(_, ratio)| ratio.is_below(1.0)).count();
    let told = format!("time ÷ {}'s: {}", CONTESTANTS[than].placement, told(&ratios, 2));
    (Verdict::of(n == ratios.len(), n > 0), told)
}

/// A claim, and how to judge it.
struct Said {
    id: &'static str,
    section: &'static str,
    says: &'static str,
    rule: &'static str,
    why: &'static str,
    /// Whether it is about the four of the paper with one server slow, so that what else they are given matters.
    varies: bool,
    judge: fn(&Data) -> (Verdict, String),
}

const SAID: [Said; 14] = [
    Said {
        id: "004-faster",
        section: "§6",
        says: "Avoiding stragglers improves I/O performance.",
        rule: "With one server slow, all is written sooner than under rr, with certainty, under each of the four; with \
               conditions: under some of them.",
        why: "rr gives the slow server its full share and waits for it. Here the log also learns what is done and how long that took; \
              the paper's own, which does not, is a variation.",
        varies: true,
        judge: |data| sooner(data, RR),
    },
    Said {
        id: "004-avoid",
        section: "§4, Fig. 18",
        says: "MLML, TRH, 1LTR and 2LTR send no write to a straggler.",
        rule: "Under none of the four does the slow server get a byte; with conditions: under each it gets less than a fifth of what \
               it gets under rr.",
        why: "Whoever knows nothing has to try each server once, and the slow one is worth its share: it could take 1.8 % in the \
              time. With the log of an earlier run it gets little more than that. The paper's log knows all loads beforehand.",
        varies: true,
        judge: |data| {
            let parts = of_each(|policy| percent(data.of(policy, share_of_slow)));
            let most = parts.iter().map(|(_, part)| part.mean).fold(0.0, f64::max);
            let fifth = percent(data.of(RR, share_of_slow)).mean / 5.0;
            (
                Verdict::of(most == 0.0, most < fifth),
                format!("% of bytes to the slow server: {}", told(&parts, 1)),
            )
        },
    },
    Said {
        id: "004-rr-hits",
        section: "§4, Fig. 18",
        says: "RR still sends writes to stragglers.",
        rule: "Of the bytes, more than one of twenty go to the slow server, with certainty.",
        why: "It does not look: a tenth of the servers gets a tenth.",
        varies: false,
        judge: |data| {
            let part = percent(data.of(RR, share_of_slow));
            (Verdict::plain(part.low() > 5.0), format!("% of bytes to the slow server: {}", part.tell(1)))
        },
    },
    Said {
        id: "004-left",
        section: "§4, Fig. 18",
        says: "TRH puts writes on more lightly loaded servers than MLML.",
        rule: "What the server of a byte has to do in all, in seconds, is less under TRH, on average, with certainty.",
        why: "Both have the same log, and what one window leaves uneven the next evens out.",
        varies: false,
        judge: |data| {
            let around = |seen: &Seen, rates: &[u64]| {
                let all = work(seen, rates);
                all.iter().zip(&seen.bytes).map(|(work, &bytes)| work * bytes as f64).sum::<f64>()
            };
            let ratio = data.ratio(TRH, MLML, around);
            (
                Verdict::plain(ratio.is_below(1.0)),
                format!("work around a byte, trh ÷ mlml: {}", ratio.tell(2)),
            )
        },
    },
    Said {
        id: "004-new",
        section: "§3.4, §4, §6",
        says: "The proposed algorithms make no new stragglers.",
        rule: "Of the usual servers the largest load, compared with their mean, is below rr's under all four, with certainty; with \
               conditions: under some.",
        why: "Whoever has done its work gets more, so nobody has much more than others; under rr names decide.",
        varies: true,
        judge: |data| {
            let largest = |seen: &Seen, rates: &[u64]| {
                let usual = || {
                    seen.bytes.iter().zip(slow(rates)).filter(|(_, is)| !is).map(|(&bytes, _)| bytes as f64)
                };
                usual().fold(0.0, f64::max) / (usual().sum::<f64>() / usual().count() as f64)
            };
            let ratios = of_each(|policy| data.ratio(policy, RR, largest));
            let n = ratios.iter().filter(|(_, ratio)| ratio.is_below(1.0)).count();
            let of_rr = data.of(RR, largest).tell(2);
            let all = of_each(|policy| data.of(policy, largest));
            (Verdict::of(n == ratios.len(), n > 0), format!("largest ÷ mean: rr {of_rr}, {}", told(&all, 2)))
        },
    },
    Said {
        id: "004-probes",
        section: "§1, §2.2",
        says: "Two-choice asks two servers for each write; the log makes that unnecessary.",
        rule: "Two-choice asks twice as often as it writes, the four never.",
        why: "So they are made.",
        varies: false,
        judge: |data| {
            let n = |policy| data.of(policy, |seen, _| seen.n_probes as f64).mean;
            let others: f64 = PROPOSED.into_iter().map(n).sum();
            let is_so = (n(TWO_CHOICE) - f64::from(2 * data.setting.n_writes)).abs() < 0.5 && others == 0.0;
            let told = format!(
                "for {} writes two-choice asks {:.0} times, the four {others:.0}",
                data.setting.n_writes,
                n(TWO_CHOICE)
            );
            (Verdict::plain(is_so), told)
        },
    },
    Said {
        id: "004-asking",
        section: "§2.2, §5",
        says: "Asking servers before each write costs time, which the log saves.",
        rule: "With one server slow, all is written sooner than under two-choice, with certainty, under each of the four; with \
               conditions: under some of them.",
        why: "A message on the loopback costs next to nothing. What costs time is what two answers leave open: how long a server takes \
              for what it has, and whom others are sent to at the same moment.",
        varies: true,
        judge: |data| sooner(data, TWO_CHOICE),
    },
    Said {
        id: "004-two-choice",
        section: "§2.2",
        says: "What two-choice achieves can be largely improved on with a log.",
        rule: "Each of the four spreads work in seconds more evenly than two-choice, with certainty, and gives the slow server \
               less; with conditions: one of them does.",
        why: "Two-choice looks at two servers, the log at all.",
        varies: true,
        judge: |data| {
            let uneven = |seen: &Seen, rates: &[u64]| deviation(work(seen, rates).into_iter());
            let ratios = of_each(|policy| data.ratio(policy, TWO_CHOICE, uneven));
            let share = |policy| data.of(policy, share_of_slow).mean;
            let is_better = |&(policy, ratio): &(usize, Estimate)| {
                ratio.is_below(1.0) && share(policy) < share(TWO_CHOICE)
            };
            let n = ratios.iter().filter(|it| is_better(it)).count();
            let told = format!(
                "deviation of work ÷ two-choice's: {}; two-choice sends the slow server {:.1} %",
                told(&ratios, 2),
                100.0 * share(TWO_CHOICE)
            );
            (Verdict::of(n == ratios.len(), n > 0), told)
        },
    },
    Said {
        id: "004-log",
        section: "§1, §3.3",
        says: "A log of what was sent where is enough to find stragglers, without asking servers.",
        rule: "If the log knows nothing but that, the slow server gets less than one of a hundred bytes under each of the four; with \
               conditions: less than half as many as under rr.",
        why: "A server that is slow looks like any other in such a log.",
        varies: false,
        judge: |data| {
            let own = data.with_own_log();
            let parts = of_each(|policy| percent(own.of(policy, share_of_slow)));
            let most = parts.iter().map(|(_, part)| part.mean).fold(0.0, f64::max);
            let of_rr = percent(own.of(RR, share_of_slow));
            let told = format!("% of bytes to the slow server: rr {}, {}", of_rr.tell(1), told(&parts, 1));
            (Verdict::of(most < 1.0, most < of_rr.mean / 2.0), told)
        },
    },
    Said {
        id: "004-mlml",
        section: "§4, Figs. 12–13",
        says: "MLML loads servers more evenly than RR.",
        rule: "With no server slow, the deviation of what servers got is below rr's, with certainty.",
        why: "What is longest goes where least is; under rr names decide.",
        varies: false,
        judge: |data| data.more_even(&[MLML]),
    },
    Said {
        id: "004-trh",
        section: "§4, Figs. 14–15",
        says: "TRH loads servers more evenly than RR.",
        rule: "With no server slow, the deviation of what servers got is below rr's, with certainty.",
        why: "The heavier half gets nothing in a window, and falls back; two choices even out the rest.",
        varies: false,
        judge: |data| data.more_even(&[TRH]),
    },
    Said {
        id: "004-nltr",
        section: "§4, Figs. 16–17",
        says: "1LTR and 2LTR load servers more evenly than RR.",
        rule: "With no server slow, the deviation of what servers got is below rr's under both, with certainty; with conditions: under \
               one.",
        why: "As TRH, with the long writes on the light servers.",
        varies: false,
        judge: |data| data.more_even(&[LTR1, LTR2]),
    },
    Said {
        id: "004-two-levels",
        section: "§4, Figs. 16–18",
        says: "1LTR and 2LTR are about equally even.",
        rule: "With no server slow, the deviation of 2LTR may be within a tenth of 1LTR's (the interval is not outside).",
        why: "What one window leaves uneven the next evens out.",
        varies: false,
        judge: |data| {
            let ratio = data.evenness(LTR2, LTR1);
            let told = format!("deviation of nltr:2 ÷ nltr:1's: {}", ratio.tell(2));
            (Verdict::plain(ratio.high() >= 0.9 && ratio.low() <= 1.1), told)
        },
    },
    Said {
        id: "004-three-levels",
        section: "§3.4.3",
        says: "A third level brings no significant gain over two.",
        rule: "With no server slow, the deviation of 3LTR is not below 0.9 times 2LTR's, with certainty.",
        why: "Eight sections of ten servers leave hardly anything to choose from.",
        varies: false,
        judge: |data| {
            let ratio = data.evenness(LTR3, LTR2);
            (
                Verdict::plain(!ratio.is_below(0.9)),
                format!("deviation of nltr:3 ÷ nltr:2's: {}", ratio.tell(2)),
            )
        },
    },
];

/// The claims of the paper that real servers cannot be asked about, and why.
pub static NOT_LIVE: [(&str, &str); 3] = [
    ("004-by-lot", "whether TRH is more even in some runs takes a hundred of them"),
    ("004-own-logs", "one client writes here; many with logs of their own are simulated"),
    ("004-printed", "the real client tests as the text has it, and not as the listings do"),
];

/// Judges the claims by what the rounds have shown, live and simulated. Each list has the runs of each round; of rounds
/// that the simulator does not know it has none.
pub fn judge(rounds: &[Round], live: &[Vec<Run>], simulated: &[Vec<Run>]) -> Vec<Checked> {
    let [Some(round), Some(_)] = [rounds.get(SLOW), rounds.get(EVEN)] else { return Vec::new() };
    let data = |runs: &[Vec<Run>]| Data {
        setting: round.setting.clone(),
        slow: runs.get(SLOW).cloned().unwrap_or_default(),
        even: runs.get(EVEN).cloned().unwrap_or_default(),
    };
    let (live_data, simulated_data) = (data(live), data(simulated));
    let check = |said: &Said| {
        let found = |data: &Data| Found::from((said.judge)(data));
        let own_log = Changed {
            what: "the paper's own log",
            simulated: Some(found(&simulated_data.with_own_log())),
            live: found(&live_data.with_own_log()),
        };
        let others = (EVEN + 1..).zip(rounds.iter().skip(EVEN + 1)).filter_map(|(number, round)| {
            let of = |data: &Data, runs: &[Vec<Run>]| {
                Some(found(&data.with(runs.get(number).filter(|runs| !runs.is_empty())?)))
            };
            Some(Changed {
                what: round.name,
                simulated: of(&simulated_data, simulated),
                live: of(&live_data, live)?,
            })
        });
        Checked {
            id: said.id,
            section: said.section,
            says: said.says,
            rule: said.rule,
            why: said.why,
            simulated: Some(found(&simulated_data)),
            live: found(&live_data),
            variations: if said.varies {
                std::iter::once(own_log).chain(others).collect()
            } else {
                Vec::new()
            },
        }
    };
    SAID.iter().map(check).collect()
}

/// What there is after writing, on servers none of which is slow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct After {
    /// Times to read what mlml wrote, each divided by that to read what rr wrote.
    pub reads: Vec<f64>,
    /// Objects that mlml wrote.
    pub n_objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those of them that are elsewhere, each with an entry at its home.
    pub n_redirected: u64,
    /// The bytes of these entries.
    pub entry_bytes: u64,
    /// Entries that are left after the maintainer.
    pub n_left: u64,
    /// Objects that are the same then, byte by byte.
    pub n_same: u64,
    /// Load and probability of each server in the paper's own log, after mlml.
    pub log: Vec<(f64, f64)>,
    /// The size of this log as a file.
    pub log_bytes: u64,
}

impl After {
    /// Judges the claims on what comes after writing. The simulator does not read, maintain or keep anything.
    pub fn judge(&self) -> Vec<Checked> {
        let claim = |id, section, says, rule, why, found: (Verdict, String)| Checked {
            id,
            section,
            says,
            rule,
            why,
            simulated: None,
            live: found.into(),
            variations: Vec::new(),
        };
        vec![
            claim(
                "004-reads",
                "§2.2, §3.4.1",
                "Redirects make reads dearer: where an object is has to be found first.",
                "With no server slow, reading what mlml wrote takes longer than reading what rr wrote, with certainty.",
                "The entries come in bulk with the listing, and what is spread more evenly is read sooner.",
                self.dearer_reads(),
            ),
            claim(
                "004-home",
                "§3.1, Fig. 6",
                "A maintainer brings redirected objects back to where they belong and deletes the entries.",
                "After one pass no entry is left, and every object is the same, byte by byte.",
                "So it is made. It changes an entry only while it is the one that it has seen.",
                self.all_home(),
            ),
            claim(
                "004-falls",
                "§3.3.2",
                "The heavier a server is loaded, the less probable it is chosen.",
                "In the paper's own log, after mlml, that is so of each pair of servers; with conditions: of 95 %.",
                "Each choice takes a part of what is left and gives all others the same: who was chosen lately is improbable. \
                 Servers are sorted by load here.",
                self.falls(),
            ),
            claim(
                "004-sum",
                "§3.3.2",
                "The probabilities of all servers add up to 1.",
                "They do, to 10⁻⁹, in the paper's own log after mlml.",
                "So it is if (2) is for the chosen server alone and (3) for the others.",
                self.adds_up(),
            ),
        ]
    }

    fn dearer_reads(&self) -> (Verdict, String) {
        let ratio = estimate(self.reads.iter().copied());
        (Verdict::plain(ratio.low() > 1.0), format!("time to read, mlml's ÷ rr's: {}", ratio.tell(2)))
    }

    fn all_home(&self) -> (Verdict, String) {
        let told = format!(
            "of {} objects {} were elsewhere, with entries of {:.0} bytes each, {:.2} % of the data; after the maintainer {} are, \
             and {} are the same",
            self.n_objects,
            self.n_redirected,
            self.entry_bytes as f64 / self.n_redirected.max(1) as f64,
            100.0 * self.entry_bytes as f64 / self.bytes.max(1) as f64,
            self.n_left,
            self.n_same
        );
        (Verdict::plain(self.n_left == 0 && self.n_same == self.n_objects && self.n_objects > 0), told)
    }

    fn falls(&self) -> (Verdict, String) {
        let (mut n, mut n_inverted) = (0_u32, 0_u32);
        for (load, probability) in &self.log {
            for (_, other) in self.log.iter().filter(|(other, _)| load < other) {
                n += 1;
                n_inverted += u32::from(probability < other);
            }
        }
        let part = 100.0 * f64::from(n_inverted) / f64::from(n.max(1));
        let told = format!("in {part:.0} % of pairs the heavier server is more probable");
        (Verdict::of(n > 0 && n_inverted == 0, n > 0 && part < 5.0), told)
    }

    fn adds_up(&self) -> (Verdict, String) {
        let sum: f64 = self.log.iter().map(|(_, probability)| probability).sum();
        let told = format!(
            "the sum is {sum:.3}; the log of {} servers has {} bytes",
            self.log.len(),
            self.log_bytes
        );
        (Verdict::plain((sum - 1.0).abs() < 1e-9), told)
    }
}
