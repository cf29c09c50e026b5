//! The same writes on servers that do write, where time passes.

use super::{
    LTR1, LTR2, LTR3, MB, MEDIUM, MLML, N_CLIENTS, N_SERVERS, POLICIES, PROPOSED, RR, SMALL, TRH, TWO_CHOICE,
    Trial, WORKLOADS, percent,
};
use crate::hardware::{Client, Hardware, Server};
use crate::papers::judging::{Interval, estimate};
use crate::papers::{Claim, Figure, Lab, Line, Section, Variation, Verdict};
use crate::units::{Bytes, Span};
use crate::writes::{Class, Range, Sizes, Writes};

/// Mean responses in seconds, and shares of bytes that stragglers get, under all policies, run by run.
type Timing = Vec<[(f64, f64); 7]>;

/// A simulation in which servers do write.
#[derive(Clone, Debug)]
struct Timed {
    writes: Writes,
    mb_s: f64,
    message_ns: u64,
}

impl Timed {
    fn new() -> Self {
        let writes = Writes { every: Some(Span(100_000_000)), ..Trial::new(0.1).writes };
        Self { writes, mb_s: 100.0, message_ns: 50_000 }
    }

    /// Removes the initial backlog, and gives servers a second for the work of a tenth of a second.
    fn relax(&mut self) {
        (self.writes.backlog, self.writes.every) = (None, Some(Span(1_000_000_000)));
    }

    fn hardware(&self) -> Hardware {
        let server = |host| Server { host, rate: self.mb_s / 1000.0, ..Server::default() };
        let n_clients = N_CLIENTS as u32;
        Hardware {
            servers: (0..N_SERVERS).map(server).collect(),
            clients: (N_SERVERS..N_SERVERS + n_clients).map(|host| Client { host, slots: 1 }).collect(),
            n_hosts: N_SERVERS + n_clients,
            nic: None,
            message_ns: self.message_ns,
            dispatch_ns: 0,
        }
    }

    fn measure(&self, lab: &Lab, sizes: Class) -> Timing {
        let hardware = self.hardware();
        let sizes = Sizes::Between(Range { from: sizes.from, to: sizes.to });
        let run = |policy: usize, seed| {
            let (_, name, levels) = POLICIES[policy];
            let writes = Writes { levels, sizes: sizes.clone(), ..self.writes.clone() };
            let first = writes.backlogs(N_SERVERS, seed).unwrap_or_default();
            // The settings above are valid.
            let outcome = writes.run(&lab.case(&hardware, name, seed)).unwrap_or_default();
            let all: u64 = outcome.bytes_of_servers.iter().sum();
            let slow = outcome.bytes_of_servers.iter().zip(first).filter(|(_, load)| *load > 180 * MB);
            let part = slow.map(|(bytes, _)| *bytes).sum::<u64>() as f64 / all.max(1) as f64;
            (outcome.mean_response_ns() / 1e9, part)
        };
        lab.repeat(lab.n_runs(40), |seed| {
            [RR, MLML, TRH, LTR1, LTR2, LTR3, TWO_CHOICE].map(|policy| run(policy, seed))
        })
    }
}

/// Small and medium writes.
type Timings = [Timing; 2];

/// Whether the four proposed policies respond sooner than another.
fn sooner(timings: &Timings, than: usize) -> (Verdict, String) {
    let (mut n_sooner, mut told) = (0, Vec::new());
    for ((name, _), runs) in WORKLOADS.iter().zip(timings) {
        let of_policies = PROPOSED.map(|policy| {
            let ratio = estimate(runs.iter().map(|run| run[policy].0 / run[than].0));
            let part = percent(estimate(runs.iter().map(|run| run[policy].1)));
            n_sooner += usize::from(ratio.is_below(1.0));
            format!("{} {} ({:.1} % to stragglers)", POLICIES[policy].0, ratio.tell(2), part.mean)
        });
        told.push(format!("{name}: {}", of_policies.join(", ")));
    }
    let told = format!("response ÷ {}'s, {}", POLICIES[than].0, told.join("; "));
    (Verdict::of(n_sooner == 2 * PROPOSED.len(), n_sooner > 0), told)
}

/// §6: whether the policies help if servers do write.
pub(super) fn timed(lab: &Lab) -> Section {
    let base = Timed::new();
    let measure = |timed: &Timed| [SMALL, MEDIUM].map(|sizes| timed.measure(lab, sizes));
    let with = |what: &'static str, change: &dyn Fn(&mut Timed)| {
        let mut timed = base.clone();
        change(&mut timed);
        (what, measure(&timed))
    };
    let forget = |timed: &mut Timed| timed.writes.backlog.iter_mut().for_each(|of| of.known = false);
    let mut others = vec![
        with("a client writes again when it has written", &|timed| timed.writes.every = None),
        with("the log is not told what is done", &|timed| timed.writes.completions = false),
        with("the log does not know the first loads", &forget),
    ];
    if !lab.is_quick {
        others.extend([
            with("the log knows neither", &|timed| {
                forget(timed);
                timed.writes.completions = false;
            }),
            with("servers of 50 MB/s", &|timed| timed.mb_s = 50.0),
            with("no threshold", &|timed| timed.writes.threshold = Bytes(0)),
            with("servers with nothing else to do", &Timed::relax),
        ]);
    }
    let timings = measure(&base);
    let claims = vec![faster(&timings, &others), asking(&timings, &others)];
    Section { claims, figures: vec![by_message(lab, &base)] }
}

fn sooner_elsewhere(others: &[(&str, Timings)], than: usize) -> Vec<Variation> {
    let vary = |(what, timings): &(&str, Timings)| {
        let (verdict, measured) = sooner(timings, than);
        Variation { what: (*what).to_owned(), measured, verdict }
    };
    others.iter().map(vary).collect()
}

fn faster(timings: &Timings, others: &[(&str, Timings)]) -> Claim {
    let (verdict, measured) = sooner(timings, RR);
    Claim {
        id: "004-faster",
        section: "§6",
        says: "Avoiding stragglers improves I/O performance.",
        rule: "With servers that write and windows at fixed intervals the four respond sooner than RR on average, with certainty, \
               with small and with medium writes; with conditions: some of them.",
        measured,
        verdict,
        why: "A write on a straggler waits for six times the usual backlog. A log that was not told of it learns of it only from \
              writes that are not done, and saves little.",
        figure: None,
        variations: sooner_elsewhere(others, RR),
    }
}

fn asking(timings: &Timings, others: &[(&str, Timings)]) -> Claim {
    let (verdict, measured) = sooner(timings, TWO_CHOICE);
    Claim {
        id: "004-asking",
        section: "§2.2, §5",
        says: "Asking servers before each write costs time, which the log saves.",
        rule: "The four respond sooner than two-choice on average, with certainty, with small and with medium writes and 50 µs a \
               message; with conditions: some of them.",
        measured,
        verdict,
        why: "Where servers have a backlog the answer is there before a write could start: asking costs nothing, and what counts is \
              what is known of loads. TRH and nLTR, whose log knows all, are a little ahead of two answers; MLML, which sends as \
              much to stragglers, is not; and a log that does not know the first loads is far behind. Of idle servers asking \
              costs something from messages of a millisecond on.",
        figure: Some("004-fig-asking"),
        variations: sooner_elsewhere(others, TWO_CHOICE),
    }
}

/// Responses with longer message times, on servers without a backlog.
fn by_message(lab: &Lab, base: &Timed) -> Figure {
    let mut base = base.clone();
    base.relax();
    let messages_ms: &[f64] = if lab.is_quick { &[0.05, 20.0] } else { &[0.05, 0.2, 1.0, 5.0, 20.0] };
    let measured: Vec<(f64, Timing)> = messages_ms
        .iter()
        .map(|&ms| (ms, Timed { message_ns: (ms * 1e6) as u64, ..base.clone() }.measure(lab, MEDIUM)))
        .collect();
    let line = |policy: usize| Line {
        name: POLICIES[policy].0.to_owned(),
        points: measured
            .iter()
            .map(|(ms, runs)| (*ms, estimate(runs.iter().map(|run| run[policy].0))))
            .collect(),
    };
    Figure {
        id: "004-fig-asking",
        title:
            "Mean responses by the time that a message takes; medium writes, servers with nothing else to do"
                .to_owned(),
        x: "a message, ms",
        y: "mean response, s",
        is_log_x: true,
        lines: [RR, MLML, TRH, LTR1, LTR2, TWO_CHOICE].map(line).to_vec(),
        stated: Vec::new(),
    }
}
