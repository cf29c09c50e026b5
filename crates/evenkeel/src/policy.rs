//! The table of policies, used by help texts, errors, `compare` and the command line.

use crate::assign::{self, Assignment, Unfit, Work};
use crate::bid::{self, Rules};
use crate::bound::Bound;
use crate::draw::{Seeded, Ties};
use crate::lead;
use crate::model::{Batch, Choice, Cluster, Grant, Ratio, Schedule};
use crate::order::{self, rounds::Rounds};
use crate::place::hdfs_random::HdfsRandom;
use crate::place::hm_lru::HmLru;
use crate::place::{PlaceFn, mlml::Mlml, nltr::Nltr, rr::Rr, trh::Trh, two_choice::TwoChoice};
use crate::queue::discipline::{Fifo, Hio, Local, Sorted};
use crate::queue::hio::{self, Tuning};
use crate::queue::{Discipline, edd, nio, sio};
use crate::run::{Pick, online};
use crate::select::{self, Goal, equi, opass_tenant};

/// Parameters of a policy besides the batch. Policies ignore those that do not concern them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// What an optimal choice optimises.
    pub goal: Goal,
    /// The seed of everything that is drawn at random.
    pub seed: u64,
    /// How policies that bid, or look for the nearest copy, break ties.
    pub ties: Ties,
    /// How often a client may bid in a round, where it may bid again.
    pub passes: u32,
    /// Concurrent bids, where there may be several.
    pub bids: u32,
    /// By how many blocks servers may differ before [`opass_tenant`] levels them.
    pub imbalance: u64,
}

impl Default for Ask {
    fn default() -> Self {
        Self {
            goal: Goal::Length,
            seed: 0,
            ties: Ties::Hashed(0),
            passes: 4,
            bids: 2,
            imbalance: opass_tenant::IMBALANCE_BLOCKS,
        }
    }
}

impl Ask {
    fn draw(&self) -> Seeded {
        Seeded::new(self.seed)
    }
}

/// A schedule, and how it came about.
#[derive(Clone, Debug, Default)]
pub struct Ordered {
    /// The schedule.
    pub schedule: Schedule,
    /// For a policy that proceeds round by round: how many rounds, and the length without needless waiting.
    pub rounds: Option<(u32, Ratio)>,
    /// For a policy that exchanges messages: how many.
    pub messages: Option<u64>,
}

impl Ordered {
    fn by_rounds(batch: &Batch, cluster: &Cluster, grants: &[Grant], messages: Option<u64>) -> Self {
        let Rounds { schedule, n_rounds, compacted } = Rounds::new(batch, cluster, grants);
        Self { schedule, rounds: Some((n_rounds, compacted)), messages }
    }
}

/// Chooses replicas. Also returns the proof, if it has one.
pub type SelectFn = fn(&Batch, &Cluster, &Ask) -> (Choice, Option<Bound>);
/// Orders a choice.
pub type OrderFn = fn(&Batch, &Cluster, &Choice, &Ask) -> Ordered;
/// Chooses and orders at once.
pub type PlanFn = fn(&Batch, &Cluster, &Ask) -> (Choice, Ordered);
/// Gives tasks to processes. Fails if the policy is not made for such tasks.
pub type AssignFn = fn(&Work) -> Result<Assignment, Unfit>;

/// Which question a policy answers.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Which replica serves each request.
    Select(SelectFn),
    /// When each transfer takes place. If requested as a policy, it orders the optimal choice.
    Order(OrderFn),
    /// Both at once.
    Plan(PlanFn),
    /// In which order a server serves the requests of collective I/O.
    Queue(Discipline),
    /// Where a write goes.
    Place(PlaceFn),
    /// Which process does each task.
    Assign(AssignFn),
}

/// A policy.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// The name by which it is selected.
    pub name: &'static str,
    /// The group it belongs to, which is the question it answers.
    pub room: &'static str,
    /// Another name for it.
    pub alias: Option<&'static str>,
    /// Where it comes from.
    pub source: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Whether its choice is cheap and often close to the optimum. `optimal` tries such policies where it has no proof,
    /// just as it tries every policy on small batches. If in doubt `false`; if `true`, the summary of [`OPTIMAL`] names
    /// it.
    pub comes_close: bool,
    /// Whether it looks for the nearest copy, so that the locations of servers and clients must be known.
    pub by_distance: bool,
    /// What else an executor needs to know to carry it out.
    pub live: Live,
    /// The policy itself.
    pub kind: Kind,
}

/// What an executor needs to know about a policy besides the question it answers.
#[derive(Clone, Copy, Debug)]
pub enum Live {
    /// Nothing, which is right for most. When more requests arrive, it is asked again for everything unserved.
    AsPlanned,
    /// It ignores the load of servers, so it does not matter when it chooses.
    Blind,
    /// When more requests arrive, it chooses again only for what overloads its server.
    TakesBackOverload,
    /// Its plan is repaired when something is late or fails. Where requests arrive over time, speeds are learnt.
    Mended,
    /// A server is picked for each request, when it arrives or when a server is free.
    Picks(Pick),
    /// As [`Self::Picks`], and late requests are hedged: started a second time.
    Hedges,
    /// Clients and servers bid, by these rules.
    Bids(fn(&Ask) -> Rules),
    /// For queues: waiting requests are served in order of arrival.
    InTurn,
    /// For tasks: an idle process takes from the longest list.
    Steals,
    /// For writes: servers are asked for their load.
    Asks,
    /// For writes: servers report their load from time to time.
    Listens,
}

/// The groups of policies, and the question that each answers.
pub static ROOMS: [(&str, &str); 8] = [
    ("select", "which replica serves each request"),
    ("lead", "which replica serves a group from now on, if one does today"),
    ("order", "in which slot each transfer takes place"),
    ("bid", "both, agreed by clients and servers without a centre"),
    ("queue", "in which order a server serves what waits there"),
    ("place", "where a write goes"),
    ("assign", "which process does which task"),
    ("run", "which server as requests arrive"),
];

/// The policy that chooses replicas where none is named, and for policies that only order.
pub const OPTIMAL: Policy = Policy {
    name: "optimal",
    room: "select",
    alias: Some("ap"),
    source: "AP of Wu and Liu, paper 000 §1",
    summary: "the best choice, with its proof; where speeds or backlogs leave a gap, at least as good as least-loaded and opass-tenant, and up to 2,048 requests as all others; splits requests where that helps",
    comes_close: false,
    by_distance: false,
    live: Live::Mended,
    kind: Kind::Select(|batch, cluster, ask| {
        let (choice, bound) = select::optimal::select(batch, cluster, ask.goal);
        (choice, Some(bound))
    }),
};

/// The order used with policies that only choose.
pub const SHORTEST: Policy = Policy {
    name: "colour",
    room: "order",
    alias: None,
    source: "paper 000 §2.1",
    summary: "the shortest order (with backlogs or different speeds: nearly), by edge colouring or open shop",
    comes_close: false,
    by_distance: false,
    live: Live::AsPlanned,
    kind: Kind::Order(order_shortest),
};

pub(crate) fn order_shortest(batch: &Batch, cluster: &Cluster, choice: &Choice, _: &Ask) -> Ordered {
    Ordered { schedule: order::colour::order(batch, cluster, choice), rounds: None, messages: None }
}

/// All policies, by question.
pub static POLICIES: &[Policy] = &[
    OPTIMAL,
    Policy {
        name: "first",
        room: "select",
        alias: None,
        source: "common practice",
        summary: "the first copy listed",
        comes_close: false,
        by_distance: false,
        live: Live::Blind,
        kind: Kind::Select(|batch, _, _| (select::first::select(batch), None)),
    },
    Policy {
        name: "nearest",
        room: "select",
        alias: None,
        source: "common practice, paper 003's HDFS",
        summary: "the copy on the client's host, else in its rack (hosts are in the files of servers and clients), else by hash",
        comes_close: false,
        by_distance: true,
        live: Live::Blind,
        kind: Kind::Select(|batch, cluster, ask| (select::nearest::select(batch, cluster, ask.ties), None)),
    },
    Policy {
        name: "random",
        room: "select",
        alias: None,
        source: "RIORS of paper 001 §3.5",
        summary: "a copy drawn uniformly for each request",
        comes_close: false,
        by_distance: false,
        live: Live::Blind,
        kind: Kind::Select(|batch, _, ask| (select::random::select(batch, &mut ask.draw()), None)),
    },
    Policy {
        name: "lddf",
        room: "select",
        alias: None,
        source: "Chen and Majumdar, paper 001 §3.3",
        summary: "servers take requests in turn, those that could serve the fewest first",
        comes_close: false,
        by_distance: false,
        live: Live::AsPlanned,
        kind: Kind::Select(|batch, _, _| (select::lddf::lddf(batch), None)),
    },
    Policy {
        name: "hddf",
        room: "select",
        alias: None,
        source: "Chen and Majumdar, paper 001 §3.4",
        summary: "servers take requests in turn, those that could serve the most first",
        comes_close: false,
        by_distance: false,
        live: Live::AsPlanned,
        kind: Kind::Select(|batch, _, _| (select::lddf::hddf(batch), None)),
    },
    Policy {
        name: "equi",
        room: "select",
        alias: None,
        source: "paper 001 §3.1",
        summary: "an equal share for every server, its oldest requests",
        comes_close: false,
        by_distance: false,
        live: Live::AsPlanned,
        kind: Kind::Select(|batch, _, _| (equi::select(batch, equi::Pick::Oldest, equi::Rounding::Up), None)),
    },
    Policy {
        name: "equi-fewest",
        room: "select",
        alias: None,
        source: "paper 001 §3.1, our choice of requests",
        summary: "an equal share for every server, the requests that the fewest others could take",
        comes_close: false,
        by_distance: false,
        live: Live::AsPlanned,
        kind: Kind::Select(|batch, _, _| {
            (equi::select(batch, equi::Pick::FewestReplicas, equi::Rounding::Up), None)
        }),
    },
    Policy {
        name: "aequi",
        room: "select",
        alias: None,
        source: "paper 001 §3.2",
        summary: "every server is filled up to the average, including its backlog",
        comes_close: false,
        by_distance: false,
        live: Live::TakesBackOverload,
        kind: Kind::Select(|batch, cluster, _| (select::aequi::fill(batch, cluster), None)),
    },
    Policy {
        name: "opass-tenant",
        room: "select",
        alias: None,
        source: "paper 003 §4.5",
        summary: "nearest while servers are about equally busy (--imbalance), otherwise balanced by counts and a flow",
        comes_close: true,
        by_distance: true,
        live: Live::AsPlanned,
        kind: Kind::Select(|batch, cluster, ask| {
            (opass_tenant::select(batch, cluster, ask.ties, ask.imbalance), None)
        }),
    },
    Policy {
        name: "today",
        room: "lead",
        alias: None,
        source: "what there is",
        summary: "the server that serves it today, by the column `current`; where that is none of the replicas, the first",
        comes_close: false,
        by_distance: false,
        live: Live::Blind,
        kind: Kind::Select(|batch, _, _| (Choice::whole(lead::current(batch)), None)),
    },
    Policy {
        name: "ceph-read",
        room: "lead",
        alias: None,
        source: "Ceph's read balancer, Reef and later",
        summary: "from today's on, groups of each client (pool) go to the server furthest below its share of them, as long as that helps",
        comes_close: false,
        by_distance: false,
        live: Live::AsPlanned,
        kind: Kind::Select(|batch, _, _| (lead::ceph_read::select(batch), None)),
    },
    Policy {
        name: "least-loaded",
        room: "run",
        alias: None,
        source: "common practice",
        summary: "the copy that would be done first, as requests arrive; simulate decides when a server is free if all requests arrive at once",
        comes_close: true,
        by_distance: false,
        live: Live::Picks(Pick::LeastLoaded),
        kind: Kind::Select(|batch, cluster, ask| {
            (online::drain(batch, cluster, Pick::LeastLoaded, ask.seed), None)
        }),
    },
    Policy {
        name: "p2c",
        room: "run",
        alias: None,
        source: "Mitzenmacher 2001, tower",
        summary: "the less loaded of two random copies; decides when least-loaded does",
        comes_close: false,
        by_distance: false,
        live: Live::Picks(Pick::TwoChoices),
        kind: Kind::Select(|batch, cluster, ask| {
            (online::drain(batch, cluster, Pick::TwoChoices, ask.seed), None)
        }),
    },
    Policy {
        name: "peak-ewma",
        room: "run",
        alias: None,
        source: "Finagle, tower",
        summary: "the copy that would be done first at its slowest recent pace; decides when least-loaded does",
        comes_close: false,
        by_distance: false,
        live: Live::Picks(Pick::PeakEwma),
        kind: Kind::Select(|batch, cluster, ask| {
            (online::drain(batch, cluster, Pick::PeakEwma, ask.seed), None)
        }),
    },
    Policy {
        name: "hedged",
        room: "run",
        alias: None,
        source: "Dean and Barroso 2013",
        summary: "p2c, with a hedge (a second transfer) for late transfers; decides when least-loaded does",
        comes_close: false,
        by_distance: false,
        live: Live::Hedges,
        kind: Kind::Select(|batch, cluster, ask| {
            (online::drain(batch, cluster, Pick::TwoChoices, ask.seed), None)
        }),
    },
    Policy {
        name: "hdlwf",
        room: "bid",
        alias: None,
        source: "paper 000 §3",
        summary: "clients bid at the least loaded server they know, servers grant the client with the most pending blocks",
        comes_close: false,
        by_distance: false,
        live: Live::Bids(hdlwf),
        kind: Kind::Plan(|batch, cluster, ask| bidding(batch, cluster, hdlwf(ask))),
    },
    Policy {
        name: "hdlwf-rebid",
        room: "bid",
        alias: None,
        source: "paper 000 §6, future work",
        summary: "hdlwf, where rejected clients bid again in the same round, up to --passes times",
        comes_close: false,
        by_distance: false,
        live: Live::Bids(hdlwf_rebid),
        kind: Kind::Plan(|batch, cluster, ask| bidding(batch, cluster, hdlwf_rebid(ask))),
    },
    Policy {
        name: "hdlwf-multi",
        room: "bid",
        alias: None,
        source: "paper 000 §6, future work",
        summary: "hdlwf, where clients bid at several servers at once (--bids)",
        comes_close: false,
        by_distance: false,
        live: Live::Bids(hdlwf_multi),
        kind: Kind::Plan(|batch, cluster, ask| bidding(batch, cluster, hdlwf_multi(ask))),
    },
    Policy {
        name: "random-bid",
        room: "bid",
        alias: None,
        source: "Random of paper 000 §4",
        summary: "clients bid for requests drawn at random, servers grant bids drawn at random",
        comes_close: false,
        by_distance: false,
        live: Live::Bids(random_bid),
        kind: Kind::Plan(|batch, cluster, ask| bidding(batch, cluster, random_bid(ask))),
    },
    Policy {
        name: "hdf-dist",
        room: "bid",
        alias: None,
        source: "Durand et al., paper 000 §5.2",
        summary: "clients bid at random, servers grant the client with the most pending blocks",
        comes_close: false,
        by_distance: false,
        live: Live::Bids(hdf_dist),
        kind: Kind::Plan(|batch, cluster, ask| bidding(batch, cluster, hdf_dist(ask))),
    },
    Policy {
        name: "mpasses",
        room: "bid",
        alias: None,
        source: "Durand et al., paper 000 §5.2",
        summary: "hdf-dist, where rejected clients bid again in the same round, up to --passes times",
        comes_close: false,
        by_distance: false,
        live: Live::Bids(mpasses),
        kind: Kind::Plan(|batch, cluster, ask| bidding(batch, cluster, mpasses(ask))),
    },
    Policy {
        name: "lddf-slots",
        room: "order",
        alias: None,
        source: "Chen and Majumdar, paper 000 §5.1",
        summary: "slot by slot, servers take a request of a free client, those that could serve the fewest first",
        comes_close: false,
        by_distance: false,
        live: Live::AsPlanned,
        kind: Kind::Plan(|batch, cluster, _| {
            by_grants(batch, cluster, &order::lddf_slots::lddf(batch, cluster), None)
        }),
    },
    Policy {
        name: "hddf-slots",
        room: "order",
        alias: None,
        source: "Chen and Majumdar, paper 000 §5.1",
        summary: "slot by slot, servers take a request of a free client, those that could serve the most first",
        comes_close: false,
        by_distance: false,
        live: Live::AsPlanned,
        kind: Kind::Plan(|batch, cluster, _| {
            by_grants(batch, cluster, &order::lddf_slots::hddf(batch, cluster), None)
        }),
    },
    SHORTEST,
    Policy {
        name: "hdf",
        room: "order",
        alias: None,
        source: "Jain et al., paper 000 §5.1",
        summary: "slot by slot, transfers of the busiest client or server first",
        comes_close: false,
        by_distance: false,
        live: Live::AsPlanned,
        kind: Kind::Order(|batch, cluster, choice, _| {
            Ordered::by_rounds(batch, cluster, &order::hdf::hdf(batch, cluster, choice), None)
        }),
    },
    Policy {
        name: "hcdf",
        room: "order",
        alias: None,
        source: "Jain et al., paper 000 §5.1",
        summary: "slot by slot, transfers of the busiest client and server together first",
        comes_close: false,
        by_distance: false,
        live: Live::AsPlanned,
        kind: Kind::Order(|batch, cluster, choice, _| {
            Ordered::by_rounds(batch, cluster, &order::hdf::hcdf(batch, cluster, choice), None)
        }),
    },
    Policy {
        name: "ps",
        room: "order",
        alias: None,
        source: "Panconesi and Srinivasan, paper 000 §5.2",
        summary: "clients draw slots for their transfers, servers keep one per slot, the others draw again",
        comes_close: false,
        by_distance: false,
        live: Live::AsPlanned,
        kind: Kind::Order(|batch, cluster, choice, ask| {
            let grants = order::ps::order(batch, cluster, choice, &mut ask.draw());
            Ordered::by_rounds(batch, cluster, &grants, None)
        }),
    },
    Policy {
        name: "nio",
        room: "queue",
        alias: None,
        source: "paper 002 §VI.A",
        summary: "as requests arrive",
        comes_close: false,
        by_distance: false,
        live: Live::InTurn,
        kind: Kind::Queue(Discipline {
            has_threshold: false,
            order: |collective, _| nio::order(collective),
            queue: |_| Box::new(Fifo::default()),
        }),
    },
    Policy {
        name: "sio",
        room: "queue",
        alias: None,
        source: "server-io of Song et al., paper 002 §IV",
        summary: "one application after another, in the same order on every server",
        comes_close: false,
        by_distance: false,
        live: Live::AsPlanned,
        kind: Kind::Queue(Discipline {
            has_threshold: false,
            order: |collective, _| sio::order(collective),
            queue: |_| Box::new(Sorted::sio()),
        }),
    },
    Policy {
        name: "hio",
        room: "queue",
        alias: None,
        source: "paper 002 §III.C, as its text has it",
        summary: "slowest shuffle first, neighbours swapped where one can wait; may be worse than sio",
        comes_close: false,
        by_distance: false,
        live: Live::AsPlanned,
        kind: Kind::Queue(Discipline {
            has_threshold: true,
            order: |collective, options| hio::order(collective, options.threshold, Tuning::TextBubble),
            queue: |options| Box::new(Hio::new(options.threshold, Tuning::TextBubble)),
        }),
    },
    Policy {
        name: "hio-listing",
        room: "queue",
        alias: None,
        source: "paper 002 §III.C, as its Algorithm 1 has it",
        summary: "the same with the swaps as printed; for comparison",
        comes_close: false,
        by_distance: false,
        live: Live::AsPlanned,
        kind: Kind::Queue(Discipline {
            has_threshold: true,
            order: |collective, options| hio::order(collective, options.threshold, Tuning::ListingLiteral),
            queue: |options| Box::new(Hio::new(options.threshold, Tuning::ListingLiteral)),
        }),
    },
    Policy {
        name: "hio-guarded",
        room: "queue",
        alias: None,
        source: "after paper 002 §III.C",
        summary: "the same, swapping only with one that can wait less",
        comes_close: false,
        by_distance: false,
        live: Live::AsPlanned,
        kind: Kind::Queue(Discipline {
            has_threshold: true,
            order: |collective, options| hio::order(collective, options.threshold, Tuning::Guarded),
            queue: |options| Box::new(Hio::new(options.threshold, Tuning::Guarded)),
        }),
    },
    Policy {
        name: "hio-edd",
        room: "queue",
        alias: None,
        source: "after paper 002",
        summary: "earliest due date; no application is ever later than under sio",
        comes_close: false,
        by_distance: false,
        live: Live::AsPlanned,
        kind: Kind::Queue(Discipline {
            has_threshold: false,
            order: |collective, options| edd::order(collective, options.model),
            queue: |_| Box::new(Sorted::hio_edd()),
        }),
    },
    Policy {
        name: "hio-edd-local",
        room: "queue",
        alias: None,
        source: "after paper 002",
        summary: "earliest due date, by each server's own requests; without a barrier no application ends later than under sio with one",
        comes_close: false,
        by_distance: false,
        live: Live::AsPlanned,
        kind: Kind::Queue(Discipline {
            has_threshold: false,
            order: |collective, _| edd::local_order(collective),
            queue: |_| Box::new(Local::default()),
        }),
    },
    Policy {
        name: "rr",
        room: "place",
        alias: None,
        source: "round robin, paper 004 §3.4",
        summary: "every object on its default server: its number modulo the servers",
        comes_close: false,
        by_distance: false,
        live: Live::Blind,
        kind: Kind::Place(|_, _| Box::new(Rr)),
    },
    Policy {
        name: "mlml",
        room: "place",
        alias: None,
        source: "paper 004 §3.4.1",
        summary: "the longest write to the least loaded server, the next longest to the next, and so on",
        comes_close: false,
        by_distance: false,
        live: Live::AsPlanned,
        kind: Kind::Place(|_, n_servers| Box::new(Mlml::new(n_servers))),
    },
    Policy {
        name: "trh",
        room: "place",
        alias: None,
        source: "paper 004 §3.4.2",
        summary: "the lighter of two servers drawn from the less loaded half",
        comes_close: false,
        by_distance: false,
        live: Live::AsPlanned,
        kind: Kind::Place(|_, n_servers| Box::new(Trh::new(n_servers))),
    },
    Policy {
        name: "nltr",
        room: "place",
        alias: None,
        source: "paper 004 §3.4.3",
        summary: "the same from sections of servers (2^--levels): the longer the write, the less loaded its section",
        comes_close: false,
        by_distance: false,
        live: Live::AsPlanned,
        kind: Kind::Place(|options, n_servers| Box::new(Nltr::new(options.levels, n_servers))),
    },
    Policy {
        name: "two-choice",
        room: "place",
        alias: None,
        source: "paper 004 §2.2",
        summary: "asks the default server and a random one for their loads, and takes the lighter",
        comes_close: false,
        by_distance: false,
        live: Live::Asks,
        kind: Kind::Place(|options, n_servers| Box::new(TwoChoice::new(options.probing, n_servers))),
    },
    Policy {
        name: "hm-lru",
        room: "place",
        alias: None,
        source: "paper 003 §4.6",
        summary: "of three random servers, one with few connections and a long time since its last use",
        comes_close: false,
        by_distance: false,
        live: Live::Listens,
        kind: Kind::Place(|_, _| Box::<HmLru>::default()),
    },
    Policy {
        name: "hdfs-random",
        room: "place",
        alias: None,
        source: "HDFS, paper 003 §4.6",
        summary: "random servers for each write, all different",
        comes_close: false,
        by_distance: false,
        live: Live::Blind,
        kind: Kind::Place(|_, _| Box::<HdfsRandom>::default()),
    },
    Policy {
        name: "rank",
        room: "assign",
        alias: None,
        source: "ParaView, paper 003 §2",
        summary: "tasks in blocks, process by process, wherever their data is",
        comes_close: false,
        by_distance: false,
        live: Live::Blind,
        kind: Kind::Assign(|work| Ok(assign::rank::assign(work))),
    },
    Policy {
        name: "opass-single",
        room: "assign",
        alias: None,
        source: "paper 003 §4.2",
        summary: "tasks of one input: as much as possible on the process's own host, by maximum flow",
        comes_close: false,
        by_distance: false,
        live: Live::AsPlanned,
        kind: Kind::Assign(assign::opass_single::assign),
    },
    Policy {
        name: "opass-multi",
        room: "assign",
        alias: None,
        source: "paper 003 §4.3",
        summary: "processes propose to the tasks they hold most of; good, but not always optimal",
        comes_close: false,
        by_distance: false,
        live: Live::AsPlanned,
        kind: Kind::Assign(|work| Ok(assign::opass_multi::assign(work))),
    },
    Policy {
        name: "opass-exact",
        room: "assign",
        alias: None,
        source: "after paper 003 §4.3",
        summary: "the most local bytes of all assignments with even counts; slow with many tasks",
        comes_close: false,
        by_distance: false,
        live: Live::AsPlanned,
        kind: Kind::Assign(|work| Ok(assign::opass_exact::assign(work))),
    },
    Policy {
        name: "opass-dynamic",
        room: "assign",
        alias: None,
        source: "paper 003 §4.4",
        summary: "an idle process takes its next task, or one from the longest list; as if all were equally fast",
        comes_close: false,
        by_distance: false,
        live: Live::Steals,
        kind: Kind::Assign(|work| Ok(assign::opass_dynamic::assign(work))),
    },
];

fn hdlwf(ask: &Ask) -> Rules {
    Rules::hdlwf(ask.ties, ask.seed)
}

fn hdlwf_rebid(ask: &Ask) -> Rules {
    Rules::rebid(ask.passes, ask.ties, ask.seed)
}

fn hdlwf_multi(ask: &Ask) -> Rules {
    Rules::several_bids(ask.bids, ask.ties, ask.seed)
}

fn random_bid(ask: &Ask) -> Rules {
    Rules::random_bid(ask.seed)
}

fn hdf_dist(ask: &Ask) -> Rules {
    Rules::hdf_dist(ask.seed)
}

fn mpasses(ask: &Ask) -> Rules {
    Rules::mpasses(ask.passes, ask.seed)
}

fn bidding(batch: &Batch, cluster: &Cluster, rules: Rules) -> (Choice, Ordered) {
    let bid::rounds::Bidding { grants, n_messages } = bid::rounds::run(batch, cluster, rules);
    by_grants(batch, cluster, &grants, Some(n_messages))
}

fn by_grants(batch: &Batch, cluster: &Cluster, grants: &[Grant], messages: Option<u64>) -> (Choice, Ordered) {
    let choice = Choice::granted(batch.n_requests(), grants);
    (choice, Ordered::by_rounds(batch, cluster, grants, messages))
}

impl Policy {
    /// Whether it plans a batch: chooses, orders, or both.
    pub fn plans(&self) -> bool {
        matches!(self.kind, Kind::Select(_) | Kind::Order(_) | Kind::Plan(_))
    }

    /// The rules by which it bids, if it does.
    pub fn rules(&self, ask: &Ask) -> Option<Rules> {
        match self.live {
            Live::Bids(rules) => Some(rules(ask)),
            _ => None,
        }
    }

    /// Whether it has the same name as `other`.
    pub fn is(&self, other: &Self) -> bool {
        self.name == other.name
    }

    /// Whether `name` selects it.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.alias == Some(name)
    }
}

/// The policies that order the queues of servers, by name.
pub fn queues() -> impl Iterator<Item = (&'static Policy, &'static Discipline)> {
    POLICIES.iter().filter_map(|policy| match &policy.kind {
        Kind::Queue(discipline) => Some((policy, discipline)),
        _ => None,
    })
}

/// The policies that place writes, by name.
pub fn placing() -> impl Iterator<Item = (&'static Policy, PlaceFn)> {
    POLICIES.iter().filter_map(|policy| match policy.kind {
        Kind::Place(place) => Some((policy, place)),
        _ => None,
    })
}

/// The policies that give tasks to processes, by name.
pub fn assignments() -> impl Iterator<Item = (&'static Policy, AssignFn)> {
    POLICIES.iter().filter_map(|policy| match policy.kind {
        Kind::Assign(assign) => Some((policy, assign)),
        _ => None,
    })
}

/// The policy with that name.
pub fn find(name: &str) -> Option<&'static Policy> {
    POLICIES.iter().find(|policy| policy.is_called(name))
}
