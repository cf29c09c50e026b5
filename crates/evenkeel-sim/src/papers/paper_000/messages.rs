//! The cost of bidding in time: every bid and every answer is a message.

use evenkeel::model::Batch;
use evenkeel::policy::{Kind, Live};
use evenkeel::run::Settings;

use super::{CHOSEN, N_RUNS, Setting};
use crate::fabric::Fabric;
use crate::hardware::{Client, Hardware, Server};
use crate::outcome::{Estimate, Outcome};
use crate::papers::judging::{Finding, Statement, estimate, percent, shown};
use crate::papers::{Figure, Lab, Line, Section, Verdict};
use crate::requests::{Requests, Trouble, View, bid, push};

/// Time of a message, in microseconds.
const MESSAGES_US: [u64; 5] = [0, 10, 50, 200, 1000];
/// Index of the message time that stands for the paper's network.
const MYRINET: usize = 1;
/// The policies compared: three that bid, and clients that send their requests at once to random copies.
const NAMES: [&str; 4] = ["hdlwf", "hdlwf-rebid", "random-bid", "random"];

/// Possible configurations of the paper's cluster.
#[derive(Clone, Copy)]
struct Machines {
    block_bytes: u64,
    handling_ns: u64,
}

const CHOSEN_MACHINES: Machines = Machines { block_bytes: 64_000, handling_ns: 5_000 };

const VARIATIONS: [(&str, Machines); 4] = [
    ("as chosen", CHOSEN_MACHINES),
    ("blocks of 4 kB", Machines { block_bytes: 4_000, ..CHOSEN_MACHINES }),
    ("blocks of 1 MB", Machines { block_bytes: 1_000_000, ..CHOSEN_MACHINES }),
    ("handling a message takes 50 µs", Machines { handling_ns: 50_000, ..CHOSEN_MACHINES }),
];

impl Machines {
    fn hardware(self, setting: &Setting, message_us: u64) -> Hardware {
        let server = |host| Server { host, rate: 0.03, ..Server::default() };
        let n_servers = setting.n_servers;
        Hardware {
            servers: (0..n_servers).map(server).collect(),
            clients: (0..256).map(|client| Client { host: n_servers + client, slots: 1 }).collect(),
            n_hosts: n_servers + 256,
            nic: None,
            message_ns: 1000 * message_us,
            dispatch_ns: self.handling_ns,
        }
    }
}

/// Runs a batch under a policy; none if the policy does not fit.
fn run(
    lab: &Lab,
    name: &str,
    batch: &Batch,
    hardware: &Hardware,
    block_bytes: u64,
    seed: u64,
) -> Option<Outcome> {
    let requests = Requests { batch: batch.clone(), block_bytes, bytes: None, arrivals_ns: None };
    let view = View::new(&requests, hardware).ok()?;
    let (policy, ask) = (lab.policy(name), CHOSEN.ask(seed));
    let fabric = Fabric::new(hardware, None);
    let outcome = match (policy.rules(&ask), policy.kind) {
        (Some(rules), _) => {
            let settings = Settings { block_ns: view.block_ns, ..Settings::default() };
            bid(&requests, fabric, &view, rules, settings, &Trouble::default()).ok()?
        }
        (None, Kind::Select(select)) => push(&requests, fabric, &select(batch, &view.cluster, &ask).0),
        _ => return None,
    };
    Some(Outcome { bound_ns: Some(view.bound_ns(&requests)), ..outcome })
}

/// The results of all policies for one message time.
struct Times {
    over_best: [Estimate; 4],
    n_rounds: Estimate,
    n_messages: Estimate,
}

fn times(lab: &Lab, machines: Machines, message_us: u64) -> Times {
    let setting = Setting::new(1024, 32);
    let hardware = machines.hardware(&setting, message_us);
    let runs = lab.repeat(lab.n_runs(N_RUNS / 3), |seed| {
        let batch = CHOSEN.workload(&setting, seed).generate().ok()?;
        let run = |name: &str| run(lab, name, &batch, &hardware, machines.block_bytes, seed);
        let [a, b, c, d] = NAMES.map(run);
        Some([a?, b?, c?, d?])
    });
    let runs: Vec<[Outcome; 4]> = runs.into_iter().flatten().collect();
    let ratio = |i: usize| estimate(runs.iter().map(|run| run[i].ratio().unwrap_or(f64::NAN)));
    let n_transfers = f64::from(setting.n_transfers);
    Times {
        over_best: [0, 1, 2, 3].map(ratio),
        n_rounds: estimate(runs.iter().map(|run| run[0].n_rounds as f64)),
        n_messages: estimate(runs.iter().map(|run| run[0].n_messages as f64 / n_transfers)),
    }
}

/// Bidding takes rounds, and rounds take time.
pub(super) fn cost(lab: &Lab) -> Section {
    let data = VARIATIONS.map(|(name, machines)| {
        let free = times(lab, Machines { handling_ns: 0, ..machines }, 0).over_best[0];
        (name, (free, MESSAGES_US.map(|us| times(lab, machines, us))))
    });
    let few = Statement {
        id: "000-10a",
        section: "§1, §3",
        says: "A small number of rounds of bidding is enough, and workloads and degrees need no messages of their own.",
        rule: "With messages of 10 µs all transfers together, bidding included, take at most 5 % longer than with \
               messages that cost nothing; with conditions: at most 20 %.",
        why: "There are as many rounds as slots, so a round has to be short beside a block. With 64 kB on a disk it is.",
        figure: Some("000-messages"),
    };
    let pays = Statement {
        id: "000-10b",
        section: "§3, §4",
        says: "It pays to agree on a schedule without a centre before the transfers.",
        rule: "Bidding and transfers by HDLWF take less time than sending requests at once to copies drawn by lot, for \
               messages of up to 1 ms; with conditions: of 10 µs.",
        why: "It pays while a round takes less than what an even load saves of a block. To bid again costs more in messages \
              than it saves in slots, even at 10 µs.",
        figure: Some("000-messages"),
    };
    let claims = vec![
        few.judged(&data, |(free, times)| {
            let longer = times[MYRINET].over_best[0].mean / free.mean - 1.0;
            let measured = format!(
                "{} longer; {} rounds, {} messages a transfer",
                percent(longer),
                shown(times[MYRINET].n_rounds),
                shown(times[MYRINET].n_messages)
            );
            Finding::new(Verdict::of(longer <= 0.05, longer <= 0.2), measured)
        }),
        pays.judged(&data, |(_, times)| {
            let pays = times.each_ref().map(|times| times.over_best[0].mean < times.over_best[3].mean);
            let us = MESSAGES_US.iter().zip(pays).take_while(|(_, pays)| *pays).last();
            let until = us.map_or("never".to_owned(), |(us, _)| format!("up to {us} µs"));
            let [hdlwf, rebid, random] = [0, 1, 3].map(|i| shown(times[MYRINET].over_best[i]));
            let measured = format!(
                "{until}; ÷ optimum {hdlwf} with bidding at 10 µs, {rebid} with bidding again, {random} without"
            );
            Finding::new(Verdict::of(pays.iter().all(|pays| *pays), pays[0] && pays[MYRINET]), measured)
        }),
    ];
    let line = |(i, name): (usize, &str)| Line {
        name: match lab.policy(name).live {
            Live::Blind => "no bidding, copies by lot".to_owned(),
            _ => name.to_owned(),
        },
        points: MESSAGES_US.iter().zip(&data[0].1.1).map(|(&us, t)| (us as f64, t.over_best[i])).collect(),
    };
    let figure = Figure {
        id: "000-messages",
        title: "Bidding that pays for its messages: 1024 transfers of 64 kB, 32 servers".to_owned(),
        x: "a message takes (µs)",
        y: "time ÷ optimum",
        is_log_x: false,
        lines: NAMES.into_iter().enumerate().map(line).collect(),
        stated: Vec::new(),
    };
    Section { claims, figures: vec![figure] }
}
