//! What is found of paper 004, and whether a broken policy would be found out.

use evenkeel::draw::Draw;
use evenkeel::model::MemberId;
use evenkeel::place::mlml::Mlml;
use evenkeel::place::{Options, Place, Servers, Step, Turn};
use evenkeel::policy::{Kind, Policy};
use evenkeel_sim::papers::paper_004::{AS_PRINTED, PAPER, live};
use evenkeel_sim::papers::{Lab, Section, Verdict};

use crate::support::{everything, policy, same_on_any_threads, some, verdict, well_formed};

fn quick() -> Lab<'static> {
    Lab::new(1, true)
}

/// What some experiments find if a policy is another one.
fn found_with(name: &str, kind: Kind, experiments: &[&str]) -> Vec<Section> {
    let broken = Policy { kind, ..*policy(name) };
    some(&PAPER, experiments, &quick().with(&broken))
}

#[test]
fn what_is_found() {
    let found = everything(&PAPER, &quick());
    well_formed(&PAPER, &found);
    for (id, wanted) in [
        ("004-mlml", Verdict::Holds),
        ("004-trh", Verdict::Holds),
        ("004-nltr", Verdict::Holds),
        ("004-by-lot", Verdict::Fails),
        ("004-two-levels", Verdict::Holds),
        ("004-three-levels", Verdict::Holds),
        ("004-avoid", Verdict::Conditional),
        ("004-rr-hits", Verdict::Holds),
        ("004-left", Verdict::Holds),
        ("004-new", Verdict::Holds),
        ("004-probes", Verdict::Holds),
        ("004-two-choice", Verdict::Conditional),
        ("004-log", Verdict::Fails),
        ("004-own-logs", Verdict::Fails),
        ("004-printed", Verdict::Fails),
        ("004-falls", Verdict::Fails),
        ("004-sum", Verdict::Holds),
        ("004-faster", Verdict::Holds),
        ("004-asking", Verdict::Conditional),
    ] {
        assert_eq!(verdict(&found, id), wanted, "{id}");
    }
}

/// The listings' test is worse than none, the text's is better.
#[test]
fn printed_and_meant() {
    let found = some(&PAPER, &["listings"], &quick());
    let mut claims = found.iter().flat_map(|section| &section.claims);
    let claim = claims.find(|claim| claim.id == "004-printed").expect("the claim");
    let of = |what: &str| claim.variations.iter().find(|variation| variation.what == what).expect(what);
    assert_eq!(of("as meant, threshold 1 MB").verdict, Verdict::Holds);
    assert_eq!(of("as printed, threshold 1 MB").verdict, Verdict::Fails);
}

#[test]
fn threads_do_not_matter() {
    same_on_any_threads(&PAPER, &["listings", "probabilities", "time"]);
}

/// Always the server with the most to do.
#[derive(Debug)]
struct Heaviest;

impl Place for Heaviest {
    fn place(&mut self, turn: &Turn<'_>, _: &mut dyn Draw) -> MemberId {
        let loads = turn.servers.log.loads();
        let servers = (0..loads.len() as u32).map(MemberId);
        servers.max_by_key(|server| loads[server.index()]).unwrap_or(turn.default)
    }
}

#[test]
fn mlml_that_sorts_the_wrong_way_is_found_out() {
    let found = found_with("mlml", Kind::Place(|_, _| Box::new(Heaviest)), &["evenness", "Fig. 18", "time"]);
    for id in ["004-mlml", "004-avoid"] {
        assert_eq!(verdict(&found, id), Verdict::Fails, "{id}");
    }
    assert_eq!(verdict(&found, "004-faster"), Verdict::Conditional);
}

/// One of the heavier half of the servers.
#[derive(Debug)]
struct SlowHalf;

impl Place for SlowHalf {
    fn place(&mut self, turn: &Turn<'_>, draw: &mut dyn Draw) -> MemberId {
        let mut servers: Vec<MemberId> = (0..turn.servers.log.loads().len() as u32).map(MemberId).collect();
        servers.sort_by_key(|server| turn.servers.log.load(*server));
        let half = servers.len() / 2;
        servers[half + draw.below((servers.len() - half) as u32) as usize]
    }
}

#[test]
fn trh_of_the_slow_half_is_found_out() {
    let found = found_with("trh", Kind::Place(|_, _| Box::new(SlowHalf)), &["evenness", "Fig. 18"]);
    for id in ["004-trh", "004-avoid", "004-left"] {
        assert_eq!(verdict(&found, id), Verdict::Fails, "{id}");
    }
}

/// MLML with the test of the listings, whatever was asked for.
#[derive(Debug)]
struct Inverted(Mlml);

impl Place for Inverted {
    fn open(&mut self, steps: &mut [Step], servers: &Servers, options: &Options) {
        self.0.open(steps, servers, options);
    }

    fn place(&mut self, turn: &Turn<'_>, draw: &mut dyn Draw) -> MemberId {
        let options = Options { test: AS_PRINTED, ..*turn.options };
        self.0.place(&Turn { options: &options, ..*turn }, draw)
    }
}

#[test]
fn an_inverted_threshold_is_found_out() {
    let inverted = Kind::Place(|_, n_servers| Box::new(Inverted(Mlml::new(n_servers))));
    let found = found_with("mlml", inverted, &["evenness", "Fig. 18"]);
    assert_eq!(verdict(&found, "004-mlml"), Verdict::Fails);
    assert_eq!(verdict(&found, "004-new"), Verdict::Conditional);
}

/// If round robin did look at loads, or two-choice at none, the paper would have no point.
#[test]
fn other_opponents_are_found_out() {
    let found = found_with("rr", policy("trh").kind, &["evenness", "Fig. 18"]);
    assert_eq!(verdict(&found, "004-rr-hits"), Verdict::Fails);
    assert_eq!(verdict(&found, "004-trh"), Verdict::Fails);
    let found = found_with("two-choice", policy("rr").kind, &["Fig. 18"]);
    assert_eq!(verdict(&found, "004-probes"), Verdict::Fails);
    assert_eq!(verdict(&found, "004-two-choice"), Verdict::Holds);
}

/// What the simulator says of the set-up in which real servers are asked.
#[test]
fn what_real_servers_should_say() {
    let rounds = live::rounds(&live::Setting::new(10_000_000, 1), false);
    let simulate = |round: &live::Round| {
        let run = |run| {
            let mut all = live::Run::default();
            for &number in &round.contestants {
                all[number] = round.setting.simulate(&live::CONTESTANTS[number], run).unwrap();
            }
            all
        };
        let n_runs = if round.setting.keeps_log { 0 } else { round.n_runs };
        (0..n_runs).map(run).collect::<Vec<_>>()
    };
    let runs: Vec<Vec<live::Run>> = rounds.iter().map(simulate).collect();
    let checked = live::judge(&rounds, &runs, &runs);
    let found = |id: &str| checked.iter().find(|claim| claim.id == id).unwrap();
    for claim in &checked {
        println!("{} {:?}\n    {}", claim.id, claim.live.verdict, claim.live.measured);
        for other in &claim.variations {
            println!("      {}: {:?} {}", other.what, other.live.verdict, other.live.measured);
        }
        assert_eq!(claim.simulated.as_ref(), Some(&claim.live), "one rule judges both");
        let all = claim.variations.iter().map(|other| &other.live).chain([&claim.live]);
        all.for_each(|found| assert!(!found.measured.contains("NaN"), "{}: {}", claim.id, found.measured));
    }
    for (id, wanted) in [
        ("004-faster", Verdict::Holds),
        ("004-rr-hits", Verdict::Holds),
        ("004-probes", Verdict::Holds),
        ("004-mlml", Verdict::Holds),
        ("004-log", Verdict::Fails),
    ] {
        assert_eq!(found(id).live.verdict, wanted, "{id}");
    }
    assert_eq!(found("004-faster").variations.len(), 3, "the log that is kept is not simulated");
}
