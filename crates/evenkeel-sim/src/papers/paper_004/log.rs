//! The probabilities of the log.

use evenkeel::observe::{Forget, ServerLog, Unit, lowered};

use super::{MB, MEDIUM, MLML, N_RUNS, N_SERVERS, POLICIES, RR, TRH, Trial, percent};
use crate::papers::judging::{Interval, estimate};
use crate::papers::{Claim, Lab, Section, Variation, Verdict};

/// The log after a policy has placed all medium writes.
fn replayed(lab: &Lab, policy: usize, unit: Unit, seed: u64) -> ServerLog {
    let trial = Trial::new(0.0).of_class(&[MEDIUM]);
    let (servers, _) = trial.place(lab, POLICIES[policy], seed);
    let first = trial.writes.backlogs(N_SERVERS, seed).unwrap_or_default();
    let mut log = ServerLog::new(first, unit, Forget::default());
    for (server, write) in servers.into_iter().zip(trial.writes(seed)) {
        log.schedule(server, write.bytes.into()).unwrap_or_else(|stray| unreachable!("{stray}"));
    }
    log
}

/// Share of all pairs of servers in which the heavier server has the higher probability.
fn inverted(log: &ServerLog) -> f64 {
    let (loads, probabilities) = (log.loads(), log.probabilities());
    let (mut n, mut n_inverted) = (0_usize, 0_usize);
    for (a, load) in loads.iter().enumerate() {
        for b in (0..loads.len()).filter(|&b| *load < loads[b]) {
            n += 1;
            n_inverted += usize::from(probabilities[a] < probabilities[b]);
        }
    }
    n_inverted as f64 / n.max(1) as f64
}

/// §3.3.2: formulas (2) and (3).
pub(super) fn probabilities(lab: &Lab) -> Section {
    let n_runs = lab.n_runs(N_RUNS);
    let falling = |policy: usize, unit: Unit| {
        let part = percent(estimate(lab.repeat(n_runs, |seed| inverted(&replayed(lab, policy, unit, seed)))));
        let told = format!("in {} % of pairs the heavier server is more probable", part.tell(1));
        (Verdict::of(part.mean == 0.0, part.mean < 5.0), told)
    };
    let (verdict, told) = falling(MLML, Unit::Mean);
    let vary = |what: &str, (verdict, measured): (Verdict, String)| Variation {
        what: what.to_owned(),
        measured,
        verdict,
    };
    let falls = Claim {
        id: "004-falls",
        section: "§3.3.2",
        says: "The heavier a server is loaded, the less probable it is chosen.",
        rule: "Of all pairs of servers that is so for each, after MLML has placed all medium writes; with conditions: for 95 %.",
        measured: told,
        verdict,
        why: "Each choice takes a part of what is left and gives all others the same: who was chosen lately is improbable, \
              whatever it has to do. So servers are sorted by load here.",
        figure: None,
        variations: vec![
            vary("loads in MB", falling(MLML, Unit::Bytes(MB))),
            vary("loads in bytes, as printed", falling(MLML, Unit::Bytes(1))),
            vary("writes placed by TRH", falling(TRH, Unit::Mean)),
            vary("writes placed by RR", falling(RR, Unit::Mean)),
        ],
    };
    let sums = |sum: fn(&ServerLog) -> f64| {
        let sum = estimate(lab.repeat(n_runs, |seed| sum(&replayed(lab, MLML, Unit::Mean, seed))));
        (Verdict::plain((sum.mean - 1.0).abs() < 1e-9), format!("the sum is {}", sum.tell(3)))
    };
    let (verdict, told) = sums(|log| log.probabilities().iter().sum());
    let add_up = Claim {
        id: "004-sum",
        section: "§3.3.2",
        says: "The probabilities of all servers add up to 1.",
        rule: "They do, to 10⁻⁹, after all medium writes.",
        measured: told,
        verdict,
        why: "So it is if (2) is for the chosen server alone and (3) for the others. If (2) is for all, as its text has it, most is lost.",
        figure: None,
        variations: vec![vary(
            "(2) for all servers, once",
            sums(|log| {
                let (loads, total) = (log.loads(), log.loads().iter().sum::<u128>() as f64);
                let n = loads.len() as f64;
                loads.iter().map(|&load| lowered(1.0 / n, load as f64 * n / total)).sum()
            }),
        )],
    };
    Section { claims: vec![falls, add_up], figures: Vec::new() }
}
