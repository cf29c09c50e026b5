//! Paper 003: tasks near their data (Opass), and evenly spread reads and writes, compared with HDFS's random ones.
//!
//! The cluster is rebuilt from the paper's text. `MARMOT` has what the text does not state, and we vary it: a claim
//! that is true only under another choice holds with conditions.

mod matching;
mod odds;
mod paraview;
mod reads;
mod tenants;
mod writes;

use super::judging::estimate;
use super::{Experiment, Lab, Paper, Parameter, Source, Variation, Verdict};
use crate::hardware::{Client, Hardware, Nic, Rate, Server};
use crate::outcome::Estimate;
use crate::tasks::Tasks;
use crate::units::{Bytes, Span};

/// The paper.
pub static PAPER: Paper = Paper {
    number: "003",
    title: "Huang, Han, Wang et al.: Achieving Load Balance for Parallel Data Access on Distributed File Systems",
    about: "Tasks go to processes that have their chunks at hand (Opass), reads to the servers that serve least, writes to \
            those with few connections (HM-LRU). Matching does what it is meant to: with one input a task all is read \
            locally, and evenly. How much faster that is depends on what disks lose to several readers and on what the \
            network gives, which the paper does not say. To choose copies for two tenants gains nothing by itself. The \
            probabilities are computed for one copy instead of three, and the write bandwidths are more than the network \
            cards can carry.",
    experiments: &[
        Experiment { name: "probabilities (§3, Fig. 2)", run: odds::run },
        Experiment { name: "preliminary writes (Fig. 3)", run: writes::preliminary },
        Experiment { name: "one input a task (Figs. 8 and 9)", run: reads::single },
        Experiment { name: "several inputs, and a master (Figs. 10 to 12)", run: reads::others },
        Experiment { name: "two tenants (Figs. 13 to 15)", run: tenants::run },
        Experiment { name: "parallel writes (Figs. 16 to 20)", run: writes::run },
        Experiment { name: "ParaView (Fig. 21)", run: paraview::run },
        Experiment { name: "what matching costs (§5.3, Fig. 22)", run: matching::run },
    ],
    parameters: &[
        Parameter { name: "chunks", value: "64 MiB, 3 copies", source: Source::Paper("§5") },
        Parameter {
            name: "copies of a chunk",
            value: "on different nodes drawn by lot",
            source: Source::Paper("§3.2"),
        },
        Parameter {
            name: "network",
            value: "one switch, a card of 1 Gb/s each way for each node",
            source: Source::Paper("§5"),
        },
        Parameter { name: "disks", value: "one for each node", source: Source::Paper("§5") },
        Parameter {
            name: "rate of a disk",
            value: "64 MiB in 0.9 s (75 MB/s)",
            source: Source::Chosen("what a local read takes under Opass in Fig. 8b; varied"),
        },
        Parameter {
            name: "disk shared by readers",
            value: "in turn, 8 MiB each",
            source: Source::Chosen("CFQ, which the paper names, gives each 100 ms by default; varied"),
        },
        Parameter {
            name: "turning from one reader to another",
            value: "12 ms",
            source: Source::Chosen("seek and half a turn of a SATA disk of the time; varied"),
        },
        Parameter {
            name: "a message",
            value: "0.1 ms; a decision of a master 0.01 ms",
            source: Source::Chosen("a switch of the time; small against 0.9 s"),
        },
        Parameter {
            name: "reads of Figs. 8 and 9",
            value: "16 to 80 nodes, a process on each, ten chunks each",
            source: Source::Paper("§5.1.1"),
        },
        Parameter {
            name: "where is read what is not local",
            value: "without Opass a copy drawn by lot, with Opass the balancer of §4.5",
            source: Source::Paper("§5, §4.5"),
        },
        Parameter {
            name: "tasks with several inputs",
            value: "64 nodes, 640 tasks of 30, 20 and 10 MB",
            source: Source::Chosen(
                "§5.1.2 gives 640 chunk files; 213 tasks, so many chunks in all, as a variation",
            ),
        },
        Parameter {
            name: "computing under a master",
            value: "0.9 s for each task, exponentially distributed",
            source: Source::Chosen("§5.1.3 has irregular patterns and no numbers; as long as a read; varied"),
        },
        Parameter {
            name: "tenants",
            value: "two, on 16 or 32 nodes, a process each on each node, 16 chunks each",
            source: Source::Paper("§5.1.4"),
        },
        Parameter {
            name: "Opass for tenants",
            value: "who reads what as by rank; copies chosen by §4.5, for one tenant after the other",
            source: Source::Chosen(
                "§4.5 chooses copies, not readers; with the matching of §4.2 as a variation",
            ),
        },
        Parameter {
            name: "writes",
            value: "16 or 32 nodes, 16 to 128 processes, 16 chunks each",
            source: Source::Paper("§5.1.5"),
        },
        Parameter {
            name: "disk shared by writers",
            value: "chunk by chunk",
            source: Source::Chosen("§3.3 has writers compete for the head; written to memory as a variation"),
        },
        Parameter {
            name: "heartbeats",
            value: "every 3 s",
            source: Source::Chosen("the default of HDFS; varied"),
        },
        Parameter {
            name: "ParaView",
            value: "64 nodes, 64 of 640 data sets of 56 MB in each step, ten steps",
            source: Source::Paper("§5.2"),
        },
        Parameter {
            name: "what a ParaView call does beside reading",
            value: "1.84 s",
            source: Source::Chosen("its fastest call of 2.63 s less a local read"),
        },
        Parameter {
            name: "rendering",
            value: "6 s a step",
            source: Source::Chosen("what is left of 98 s in ten steps if the slowest call takes 3.8 s"),
        },
        Parameter {
            name: "runs of each setting",
            value: "100; 20 of variations; 400 of probabilities",
            source: Source::Chosen("the paper has five of ParaView and does not say of others"),
        },
    ],
};

const MIB: u64 = 1 << 20;
const CHUNK: u64 = 64 * MIB;
/// Time of a local read of a chunk, in seconds.
const LOCAL_S: f64 = 0.9;
const N_RUNS: u32 = 100;
const N_VARIED: u32 = 20;

/// The share of a stated effect that is enough. The paper's figures are single runs on other machines.
const ENOUGH: f64 = 0.75;

/// The hardware of the cluster, and how a disk is shared.
#[derive(Clone, Copy, Debug)]
struct Setup {
    what: &'static str,
    /// Seconds to read a chunk from the local disk.
    local_s: f64,
    nic: Rate,
    /// Number of readers at once. A reader keeps its turn while the network is slower.
    slots: u32,
    /// Bytes that a disk reads for one process before it switches to another.
    piece: u64,
    seek_ns: u64,
}

/// The cluster as described in the paper.
const MARMOT: Setup =
    Setup { what: "as listed", local_s: LOCAL_S, nic: 0.125, slots: 1, piece: 8 * MIB, seek_ns: 12_000_000 };

/// Alternatives to `MARMOT`.
const OTHERS: [Setup; 8] = [
    Setup { what: "turning costs nothing", seek_ns: 0, ..MARMOT },
    Setup { what: "the disk reads whole chunks, one after the other", piece: u64::MAX, ..MARMOT },
    Setup { what: "the disk turns after each MiB", piece: MIB, ..MARMOT },
    Setup { what: "the disk turns after each half MiB", piece: MIB / 2, ..MARMOT },
    Setup { what: "disks twice as fast", local_s: LOCAL_S / 2.0, ..MARMOT },
    Setup { what: "the network gives 40 MB/s, and the disk waits for it", nic: 0.04, ..MARMOT },
    Setup { what: "both: half a MiB, 40 MB/s", piece: MIB / 2, nic: 0.04, ..MARMOT },
    Setup { what: "the network gives 40 MB/s, and the disk reads for two", nic: 0.04, slots: 2, ..MARMOT },
];

impl Setup {
    /// Nodes with one disk each, and processes on them in turn.
    fn hardware(&self, n_nodes: u32, n_processes: u32) -> Hardware {
        let rate = CHUNK as f64 / (self.local_s * 1e9);
        let server = |host| Server { host, rate, slots: self.slots, ..Server::default() };
        Hardware {
            servers: (0..n_nodes).map(server).collect(),
            clients: (0..n_processes).map(|process| Client { host: process % n_nodes, slots: 1 }).collect(),
            n_hosts: n_nodes,
            nic: Some(Nic { up: self.nic, down: self.nic }),
            message_ns: 100_000,
            dispatch_ns: 10_000,
        }
    }

    /// Tasks that read the way this disk does.
    fn tasks(&self) -> Tasks {
        Tasks { buffer: Some(Bytes(self.piece)), seek: Span(self.seek_ns), ..Tasks::default() }
    }
}

/// What was measured, and whether the claim is true for it.
type Found = (String, bool);

/// Judges the claim under other choices.
fn vary<'a>(
    setups: impl IntoIterator<Item = &'a Setup>,
    measure: impl Fn(&Setup) -> Found,
) -> Vec<Variation> {
    setups.into_iter().map(|setup| variation(setup.what, measure(setup))).collect()
}

fn variation(what: impl Into<String>, (measured, holds): Found) -> Variation {
    Variation { what: what.into(), measured, verdict: Verdict::plain(holds) }
}

/// Whether the claim is true as it stands, only under another choice of what the paper does not give, or not at all.
fn settle(holds: bool, variations: &[Variation]) -> Verdict {
    Verdict::of(holds, variations.iter().any(|variation| variation.verdict == Verdict::Holds))
}

/// Number of runs of a setting.
fn n_runs(lab: &Lab, setup: &Setup) -> u32 {
    lab.n_runs(if setup.what == MARMOT.what { N_RUNS } else { N_VARIED })
}

/// The confidence interval of the mean: its lower and upper end.
fn range(estimate: Estimate) -> (f64, f64) {
    let margin = estimate.margin.unwrap_or(0.0);
    (estimate.mean - margin, estimate.mean + margin)
}

/// A mean with its margin, as text.
fn text(estimate: Estimate, places: usize) -> String {
    let margin = estimate.margin.unwrap_or(0.0);
    format!("{:.places$} ± {margin:.places$}", estimate.mean)
}

/// A number that needs no interval.
fn sure(value: f64) -> Estimate {
    Estimate { mean: value, margin: None }
}
