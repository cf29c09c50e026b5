//! Paper 000: bidding (HDLWF) against the optimum (AP) and against random choice.
//!
//! Lengths are in rounds of bidding, as in the paper, and every transfer takes one slot. Only `messages` measures time.

mod messages;
mod related;

use evenkeel::draw::Ties;
use evenkeel::model::{Cluster, Ratio};
use evenkeel::policy::{Ask, Kind};
use evenkeel::select::{Goal, optimal};
use evenkeel::workload::{Clients, Law, Sizes, Workload};

use super::judging::{Finding, Statement, count, estimate, percent, range, shown};
use super::{Claim, Experiment, Figure, Lab, Line, Paper, Parameter, Section, Source, Stated, Verdict};
use crate::chance::sub_seed;
use crate::outcome::Estimate;

/// The paper.
pub static PAPER: Paper = Paper {
    number: "000",
    title: "Wu, Liu: Distributed Scheduling of Parallel I/O in the Presence of Data Replication",
    about: "Clients and servers agree on replicas and slots by rounds of bidding, without a centre. That comes close to \
            the optimum where servers have much to do, and its messages are cheap where blocks are large. Under light \
            traffic the distance is about twice what the paper says, and half of it goes if who is rejected may bid \
            again at once, which the paper leaves for later. How ties are broken, which the paper does not say, \
            decides more than anything else.",
    experiments: &[
        Experiment { name: "size, patterns, hot spots and copies (Fig. 4 to 7)", run: figures },
        Experiment { name: "bounds of edge colouring (§5.1, §5.2)", run: related::bounds },
        Experiment { name: "bidding again (§5.2, §6)", run: related::bidding_again },
        Experiment { name: "what bidding costs in time (§1, §3)", run: messages::cost },
    ],
    parameters: &[
        Parameter { name: "clients", value: "256", source: Source::Paper("§4") },
        Parameter { name: "transfers in Fig. 4", value: "2⁵ to 2¹¹", source: Source::Paper("§4.1") },
        Parameter {
            name: "transfers a server in Fig. 4",
            value: "8, 16, 32, 64",
            source: Source::Paper("§4.1"),
        },
        Parameter { name: "copies in Fig. 4", value: "2", source: Source::Paper("§4.1") },
        Parameter { name: "servers in Fig. 5", value: "16", source: Source::Paper("§4.2") },
        Parameter {
            name: "transfers in Fig. 5",
            value: "128, 256, 1024, 2048",
            source: Source::Paper("§4.2"),
        },
        Parameter {
            name: "r in Fig. 5",
            value: "0.2, 0.25, 0.5, 0.75, 1",
            source: Source::Paper("§4.2 has 0.25 to 1.0 and speaks of 0.2; the steps between are chosen"),
        },
        Parameter { name: "transfers in Fig. 6", value: "256, 2048", source: Source::Paper("§4.2") },
        Parameter {
            name: "hot spots in Fig. 6",
            value: "1, 2, 4, 8",
            source: Source::Paper("§4.2 has 1 to 8"),
        },
        Parameter { name: "r in Fig. 6", value: "0.25", source: Source::Paper("Fig. 6") },
        Parameter {
            name: "copies in Fig. 5 and 6",
            value: "2",
            source: Source::Chosen("not given; as in Fig. 4"),
        },
        Parameter {
            name: "servers in Fig. 6 and 7",
            value: "16",
            source: Source::Chosen("not given; as in Fig. 5"),
        },
        Parameter {
            name: "transfers in Fig. 7",
            value: "256 in (a) and (c), 2048 in (b) and (d)",
            source: Source::Chosen("not given but as lighter and heavier traffic; as in Fig. 6"),
        },
        Parameter {
            name: "hot spot in Fig. 7 (c) and (d)",
            value: "one, r = 0.25",
            source: Source::Chosen("not given; as in Fig. 6"),
        },
        Parameter {
            name: "where further copies lie",
            value: "by the same law among the servers left; varied",
            source: Source::Chosen("not given"),
        },
        Parameter {
            name: "which client asks",
            value: "drawn for each transfer; varied",
            source: Source::Chosen("not given"),
        },
        Parameter {
            name: "ties",
            value: "by hash; varied",
            source: Source::Chosen("not given; with the lowest id all first bids are for the same servers"),
        },
        Parameter {
            name: "length",
            value: "rounds; varied",
            source: Source::Chosen(
                "a round is a slot; lists can also be gone through without waiting for rounds",
            ),
        },
        Parameter {
            name: "a group of servers for each hot spot",
            value: "neighbours, equal shares",
            source: Source::Chosen("not given but as several geometric sequences"),
        },
        Parameter {
            name: "runs of each setting",
            value: "30",
            source: Source::Chosen("not given; enough for intervals of about 1 %"),
        },
        Parameter {
            name: "graphs of §5.1",
            value: "12×10, 256×16, 64×64, 256×64 clients and servers; even, and varied",
            source: Source::Chosen("the bounds are for all graphs"),
        },
        Parameter {
            name: "bidding again",
            value: "4 passes, 2 bids; also 2 passes, 4 bids",
            source: Source::Chosen("§6 leaves it for later"),
        },
        Parameter {
            name: "block, disk",
            value: "64 kB at 30 MB/s; varied",
            source: Source::Chosen("the paper's were measured on IDE disks and are not given"),
        },
        Parameter {
            name: "message",
            value: "10 µs, and 5 µs to handle it; varied",
            source: Source::Chosen("the paper's were measured on Myrinet and are not given"),
        },
    ],
};

const N_RUNS: u32 = 30;

/// A point of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Setting {
    n_transfers: u32,
    n_servers: u32,
    copies: u32,
    ratio: f64,
    hot_spots: u32,
}

impl Setting {
    const fn new(n_transfers: u32, n_servers: u32) -> Self {
        Self { n_transfers, n_servers, copies: 2, ratio: 1.0, hot_spots: 1 }
    }

    fn per_server(&self) -> u32 {
        self.n_transfers / self.n_servers
    }
}

/// Parameters that the paper leaves open.
#[derive(Clone, Copy, Debug)]
struct Open {
    clients: Clients,
    /// Whether only the first copy follows the law, and the others are drawn uniformly. Not with several hot spots.
    are_others_even: bool,
    has_ties_by_id: bool,
    /// Whether clients and servers work through their lists without waiting for rounds.
    is_compacted: bool,
    /// Selects other random draws.
    lots: u64,
}

const CHOSEN: Open = Open {
    clients: Clients::Drawn,
    are_others_even: false,
    has_ties_by_id: false,
    is_compacted: false,
    lots: 0,
};

const VARIATIONS: [(&str, Open); 6] = [
    ("as chosen", CHOSEN),
    ("further copies anywhere (one hot spot)", Open { are_others_even: true, ..CHOSEN }),
    ("ties by lowest id", Open { has_ties_by_id: true, ..CHOSEN }),
    ("clients in turn", Open { clients: Clients::InTurn, ..CHOSEN }),
    ("other lots", Open { lots: 1, ..CHOSEN }),
    ("lists without waiting for rounds", Open { is_compacted: true, ..CHOSEN }),
];

impl Open {
    fn workload(self, setting: &Setting, seed: u64) -> Workload {
        let Setting { n_transfers, n_servers, copies, ratio, hot_spots } = *setting;
        let law = match hot_spots {
            _ if ratio >= 1.0 => Law::Uniform,
            1 if self.are_others_even => Law::FirstHot { ratio },
            _ => Law::Geometric { ratio, hot_spots },
        };
        let seed = if self.lots == 0 { seed } else { sub_seed(seed, self.lots) };
        Workload {
            n_requests: n_transfers,
            n_clients: 256,
            n_servers,
            copies,
            law,
            sizes: Sizes::Fixed(1),
            clients: self.clients,
            seed,
        }
    }

    fn ask(self, seed: u64) -> Ask {
        let ties = if self.has_ties_by_id { Ties::LowestId } else { Ties::Hashed(seed) };
        Ask { seed, ties, ..Ask::default() }
    }
}

/// The measurements at a point: lengths in slots, and their ratios run by run.
#[derive(Clone, Copy, Debug)]
struct Point {
    setting: Setting,
    best: Estimate,
    hdlwf: Estimate,
    random: Estimate,
    hdlwf_over_best: Estimate,
    random_over_best: Estimate,
    hdlwf_over_random: Estimate,
}

/// Mean lengths of the optimum, of HDLWF and of Random.
const LENGTHS: [fn(&Point) -> f64; 3] = [|p| p.best.mean, |p| p.hdlwf.mean, |p| p.random.mean];

/// Lengths of one batch: of the optimum, of HDLWF and of Random.
fn lengths(lab: &Lab, open: Open, setting: &Setting, seed: u64) -> [f64; 3] {
    let workload = open.workload(setting, seed);
    let Ok(batch) = workload.generate() else { return [f64::NAN; 3] };
    let cluster = Cluster::equal(&batch);
    let best = optimal::bound(&batch, &cluster, Goal::Length).value.to_f64();
    let length = |name: &str| {
        let Kind::Plan(plan) = lab.policy(name).kind else { return f64::NAN };
        let (_, ordered) = plan(&batch, &cluster, &open.ask(workload.seed));
        let length = |(n_rounds, compacted): (u32, Ratio)| {
            if open.is_compacted { compacted.to_f64() } else { f64::from(n_rounds) }
        };
        ordered.rounds.map_or(f64::NAN, length)
    };
    [best, length("hdlwf"), length("random-bid")]
}

fn measure(lab: &Lab, open: Open, setting: Setting) -> Point {
    let runs = lab.repeat(lab.n_runs(N_RUNS), |seed| lengths(lab, open, &setting, seed));
    let mean = |of: fn(&[f64; 3]) -> f64| estimate(runs.iter().map(of));
    Point {
        setting,
        best: mean(|run| run[0]),
        hdlwf: mean(|run| run[1]),
        random: mean(|run| run[2]),
        hdlwf_over_best: mean(|run| run[1] / run[0]),
        random_over_best: mean(|run| run[2] / run[0]),
        hdlwf_over_random: mean(|run| run[1] / run[2]),
    }
}

/// All points of Figures 4 to 7 under one choice of the open parameters.
struct Points {
    size: Vec<Point>,
    pattern: Vec<Point>,
    hot_spots: Vec<Point>,
    copies: Vec<Point>,
}

impl Points {
    fn measure(lab: &Lab, open: Open) -> Self {
        let all = |settings: Vec<Setting>| settings.into_iter().map(|s| measure(lab, open, s)).collect();
        Self {
            size: all(sizes(lab)),
            pattern: all(patterns()),
            hot_spots: all(hot_spots()),
            copies: all(copies(lab)),
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Point> {
        self.size.iter().chain(&self.pattern).chain(&self.hot_spots).chain(&self.copies)
    }
}

/// Fig. 4. One server leaves no choice, and two copies need two servers.
fn sizes(lab: &Lab) -> Vec<Setting> {
    let step = if lab.is_quick { 2 } else { 1 };
    let settings = [8, 16, 32, 64].into_iter().flat_map(|per_server| {
        (5..=11).step_by(step).map(move |exponent| Setting::new(1 << exponent, (1 << exponent) / per_server))
    });
    settings.filter(|setting| setting.n_servers >= 2).collect()
}

/// Fig. 5.
fn patterns() -> Vec<Setting> {
    let ratios = [0.2, 0.25, 0.5, 0.75, 1.0];
    let settings = [128, 256, 1024, 2048].into_iter().flat_map(|n_transfers| {
        ratios.into_iter().map(move |ratio| Setting { ratio, ..Setting::new(n_transfers, 16) })
    });
    settings.collect()
}

/// Fig. 6.
fn hot_spots() -> Vec<Setting> {
    let settings = [256, 2048].into_iter().flat_map(|n_transfers| {
        [1, 2, 4, 8].into_iter().map(move |hot_spots| Setting {
            hot_spots,
            ratio: 0.25,
            ..Setting::new(n_transfers, 16)
        })
    });
    settings.collect()
}

/// Fig. 7: (a), (b), (c), (d), one after the other.
fn copies(lab: &Lab) -> Vec<Setting> {
    let n_copies: &[u32] = if lab.is_quick { &[1, 2, 3, 8] } else { &[1, 2, 3, 4, 5, 6, 7, 8] };
    let settings = [(256, 1.0), (2048, 1.0), (256, 0.25), (2048, 0.25)].into_iter();
    let settings = settings.flat_map(|(n_transfers, ratio)| {
        n_copies.iter().map(move |&copies| Setting { copies, ratio, ..Setting::new(n_transfers, 16) })
    });
    settings.collect()
}

/// Figures 4 to 7, and the paper's claims about them.
fn figures(lab: &Lab) -> Section {
    // The most important ones come first.
    let n_variations = if lab.is_quick { 3 } else { VARIATIONS.len() };
    let variations = VARIATIONS[..n_variations].iter();
    let data: Vec<(&str, Points)> =
        variations.map(|&(name, open)| (name, Points::measure(lab, open))).collect();
    let mut claims = overall(&data);
    claims.extend(of_size(&data));
    claims.extend(of_pattern(lab, &data));
    claims.extend(of_hot_spots(&data));
    claims.extend(of_copies(&data));
    Section { claims, figures: data.first().map_or(Vec::new(), |(_, points)| drawn(points)) }
}

/// §4, first paragraphs, and §6.
fn overall(data: &[(&str, Points)]) -> Vec<Claim> {
    let within_15 = Statement {
        id: "000-4d",
        section: "§4",
        says: "HDLWF is within 15 % of the optimum in almost all cases.",
        rule: "The mean of HDLWF ÷ optimum is at most 1.15 at 90 % of all points of Fig. 4 to 7; with conditions: at half.",
        why: "From about 32 transfers a server on, if ties are not by id. With even load HDLWF takes up to four slots too \
              many, however long the schedule is; of a short one that is more than 15 %.",
        figure: Some("000-fig4a"),
    };
    let within_3 = Statement {
        id: "000-4e",
        section: "§4, §6",
        says: "In some cases HDLWF is within 3 % of the optimum.",
        rule: "At some point with an optimum of 10 slots or more the mean of HDLWF ÷ optimum is at most 1.03.",
        why: "Where schedules are long a few slots hardly count.",
        figure: Some("000-fig4d"),
    };
    let traffic = Statement {
        id: "000-6d",
        section: "§6",
        says: "Whatever the pattern, HDLWF comes closer to the optimum as traffic increases.",
        rule: "HDLWF ÷ optimum falls from 128 to 2048 transfers at every r of Fig. 5, and from 256 to 2048 with every number \
               of hot spots of Fig. 6; with conditions: in most of these cases.",
        why: "The slots too many grow more slowly than the schedule.",
        figure: Some("000-fig5d"),
    };
    vec![
        within_15.judged(data, |points| {
            let near = count(points.iter().map(|p| p.hdlwf_over_best.mean <= 1.15));
            let light = points.iter().filter(|p| p.setting.per_server() < 32);
            let light = count(light.map(|p| p.hdlwf_over_best.mean <= 1.15));
            let heavy = points.iter().filter(|p| p.setting.per_server() >= 32);
            let heavy = count(heavy.map(|p| p.hdlwf_over_best.mean <= 1.15));
            let range = range(points.iter().map(|p| p.hdlwf_over_best));
            let measured =
                format!("at {near} points ({light} below 32 transfers a server, {heavy} above); {range}");
            Finding::new(Verdict::of(10 * near.n >= 9 * near.of, 2 * near.n >= near.of), measured)
        }),
        within_3.judged(data, |points| {
            let by_servers = points.iter().filter(|p| p.best.mean >= 10.0);
            let near = count(by_servers.map(|p| p.hdlwf_over_best.mean <= 1.03));
            let measured = format!("at {near} points with 10 or more slots");
            Finding::new(Verdict::plain(near.n > 0), measured)
        }),
        traffic.judged(data, |points| {
            let twins = |points: &[Point], light: u32| {
                let twins = with(points, light).into_iter().zip(with(points, 2048));
                twins.map(|(a, b)| (a.hdlwf_over_best, b.hdlwf_over_best)).collect::<Vec<_>>()
            };
            let pairs = [twins(&points.pattern, 128), twins(&points.hot_spots, 256)].concat();
            let falls = count(pairs.iter().map(|(light, heavy)| heavy.mean < light.mean));
            let light = range(pairs.iter().map(|pair| pair.0));
            let heavy = range(pairs.iter().map(|pair| pair.1));
            Finding::new(falls.verdict(), format!("in {falls} cases; light {light}, heavy {heavy}"))
        }),
    ]
}

/// §4.1.
fn of_size(data: &[(&str, Points)]) -> Vec<Claim> {
    let better = Statement {
        id: "000-4a",
        section: "§4.1",
        says: "HDLWF is better than Random in all cases of Fig. 4.",
        rule: "The mean of HDLWF ÷ Random is below 1 at every point; with conditions: at most points.",
        why: "From 16 servers on. With fewer it is rounds that are lost, not that servers are chosen badly: where lists do \
              not wait for rounds, it is so throughout.",
        figure: Some("000-fig4a"),
    };
    let stable = Statement {
        id: "000-4b",
        section: "§4.1",
        says: "The distance from the optimum hardly changes as transfers and servers increase together.",
        rule: "For each number of transfers a server, HDLWF ÷ optimum at all points differs by at most 0.05; with \
               conditions: for some of these numbers.",
        why: "From 32 transfers a server on. With 16 the distance grows with the system; with 8 it is large until clients, \
              not servers, set the optimum.",
        figure: Some("000-fig4a"),
    };
    let closer = Statement {
        id: "000-4c",
        section: "§4.1",
        says: "The more transfers a server has, the closer HDLWF is to the optimum.",
        rule: "HDLWF ÷ optimum falls, or stays within 0.005, with every doubling of transfers a server at every number of \
               transfers; with conditions: on average over these.",
        why: "The slots too many are about as many, and the schedule is longer. Not where clients set the optimum, as \
              with 8 transfers a server in large systems: there HDLWF reaches it.",
        figure: Some("000-fig4d"),
    };
    let of = |points: &Points, per_server: u32| -> Vec<Point> {
        points.size.iter().filter(|p| p.setting.per_server() == per_server).copied().collect()
    };
    vec![
        better.judged(data, |points| {
            let many: Vec<Point> =
                points.size.iter().filter(|p| p.setting.n_servers >= 16).copied().collect();
            let many = count(many.iter().map(|p| p.hdlwf_over_random.mean < 1.0));
            let Finding { verdict, measured } = better_than_random(&points.size);
            Finding::new(verdict, format!("{measured}; with 16 servers or more at {many}"))
        }),
        stable.judged(data, |points| {
            let spreads = [8, 16, 32, 64].map(|per_server| spread(&of(points, per_server)));
            let stable = count(spreads.map(|spread| spread <= 0.05));
            let measured = spreads.map(|spread| format!("{spread:.3}")).join(", ");
            let measured = format!("differs by {measured} with 8, 16, 32, 64 transfers a server");
            Finding::new(Verdict::of(stable.is_all(), stable.n > 0), measured)
        }),
        closer.judged(data, |points| {
            let pairs = [(8, 16), (16, 32), (32, 64)].map(|(few, many)| (of(points, few), of(points, many)));
            let same_size = |(few, many): &(Vec<Point>, Vec<Point>)| -> Vec<(f64, f64)> {
                let twin = |a: &Point| many.iter().find(|b| a.setting.n_transfers == b.setting.n_transfers);
                let pair = |a: &Point| Some((a.hdlwf_over_best.mean, twin(a)?.hdlwf_over_best.mean));
                few.iter().filter_map(pair).collect()
            };
            let falls = count(pairs.iter().flat_map(same_size).map(|(few, many)| many <= few + 0.005));
            let sum = |pairs: &[(f64, f64)]| pairs.iter().map(|(few, many)| many - few).sum::<f64>();
            let on_average = pairs.iter().all(|pair| sum(&same_size(pair)) < 0.0);
            let means = [8, 16, 32, 64].map(|n| {
                let mean = estimate(of(points, n).iter().map(|p| p.hdlwf_over_best.mean)).mean;
                format!("{mean:.3}")
            });
            let slots = range(
                points.size.iter().map(|p| Estimate { mean: p.hdlwf.mean - p.best.mean, margin: None }),
            );
            let measured =
                format!("in {falls} pairs; on average {}; {slots} slots too many", means.join(", "));
            Finding::new(Verdict::of(falls.is_all(), on_average), measured)
        }),
    ]
}

/// By how much HDLWF ÷ optimum differs between these points.
fn spread(points: &[Point]) -> f64 {
    let means = points.iter().map(|p| p.hdlwf_over_best.mean);
    means.clone().fold(f64::MIN, f64::max) - means.fold(f64::MAX, f64::min)
}

fn better_than_random(points: &[Point]) -> Finding {
    let better = count(points.iter().map(|p| p.hdlwf_over_random.mean < 1.0));
    let range = range(points.iter().map(|p| p.hdlwf_over_random));
    Finding::new(better.verdict(), format!("at {better} points; HDLWF ÷ Random from {range}"))
}

/// The points with `n_transfers` transfers.
fn with(points: &[Point], n_transfers: u32) -> Vec<Point> {
    points.iter().filter(|p| p.setting.n_transfers == n_transfers).copied().collect()
}

/// Whether each length is at most the previous one, for the optimum, HDLWF and Random.
fn descents(points: &[Point]) -> impl Iterator<Item = bool> {
    LENGTHS.into_iter().flat_map(move |of| points.windows(2).map(move |pair| of(&pair[1]) <= of(&pair[0])))
}

/// §4.2, Fig. 5.
fn of_pattern(lab: &Lab, data: &[(&str, Points)]) -> Vec<Claim> {
    let longer = Statement {
        id: "000-5a",
        section: "§4.2",
        says: "All schedules get longer as r gets smaller.",
        rule: "Each mean length at an r is at least that at the next larger r; with conditions: most are.",
        why: "The hot server and those next to it set the length.",
        figure: Some("000-fig5a"),
    };
    let better = Statement {
        id: "000-5b",
        section: "§4.2",
        says: "HDLWF is better than Random, but for few transfers with a hot spot; under heavy traffic always.",
        rule: "The mean of HDLWF ÷ Random is below 1 at every point of Fig. 5 but those of 128 and 256 transfers with r up \
               to 0.25; with conditions: at most of them.",
        why: "Where clients are drawn and ties are not by id; then under heavy traffic nearly always, by a few per cent. If \
              further copies lie anywhere, or lists do not wait for rounds, at every point.",
        figure: Some("000-fig5c"),
    };
    let exception = Statement {
        id: "000-5c",
        section: "§4.2",
        says: "With few transfers and a strong hot spot Random is as good as HDLWF or better.",
        rule: "The mean of HDLWF ÷ Random is at least 1 with r = 0.2 at both 128 and 256 transfers; with conditions: at one.",
        why: "Nearly all data lie on two or three servers then, and there is little to choose. If further copies lie \
              anywhere, or lists do not wait for rounds, HDLWF is better.",
        figure: Some("000-fig5a"),
    };
    let sensitive = Statement {
        id: "000-5d",
        section: "§4.2",
        says: "Under light traffic HDLWF is further from the optimum the less even the pattern is.",
        rule: "With 128 and with 256 transfers HDLWF ÷ optimum is larger at r = 0.25 than at r = 1; with conditions: with \
               one of them.",
        why: "It is the other way round, as a hot spot makes the optimum longer, and so easier to come near to; unless \
              further copies lie anywhere, so that the optimum stays short.",
        figure: Some("000-fig5a"),
    };
    let insensitive = Statement {
        id: "000-5e",
        section: "§4.2",
        says: "Under heavy traffic HDLWF depends less on the pattern, and is close to the optimum.",
        rule: "The difference between the largest and smallest HDLWF ÷ optimum over all r is smaller with 1024 and 2048 \
               transfers than with 128 and 256, and with the former all are at most 1.1; with conditions: one of both.",
        why: "It depends less on the pattern if copies follow the law, but stays 14 % away from the optimum at \
              r = 0.75, as Random does.",
        figure: Some("000-fig5d"),
    };
    vec![
        longer.judged(data, |points| {
            // From large to small r means from right to left.
            let of = |n| with(&points.pattern, n);
            let all = [128, 256, 1024, 2048].map(of);
            let longer = count(all.iter().flat_map(|points| descents(points)));
            let ends = all.map(|p| format!("{:.0} to {:.0}", p[p.len() - 1].hdlwf.mean, p[0].hdlwf.mean));
            let measured = format!("in {longer} steps; HDLWF from r = 1 to 0.2: {} slots", ends.join(", "));
            Finding::new(longer.verdict(), measured)
        }),
        better.judged(data, |points| {
            let is_exempt = |s: &Setting| s.n_transfers <= 256 && s.ratio <= 0.25;
            let points: Vec<Point> =
                points.pattern.iter().filter(|p| !is_exempt(&p.setting)).copied().collect();
            let heavy = points.iter().filter(|p| p.setting.n_transfers >= 1024);
            let heavy = count(heavy.map(|p| p.hdlwf_over_random.mean < 1.0));
            let Finding { verdict, measured } = better_than_random(&points);
            Finding::new(verdict, format!("{measured}; under heavy traffic at {heavy}"))
        }),
        exception.judged(data, |points| {
            let points =
                points.pattern.iter().filter(|p| p.setting.ratio < 0.25 && p.setting.n_transfers <= 256);
            let worse = count(points.clone().map(|p| p.hdlwf_over_random.mean >= 1.0));
            let each: Vec<String> = points.map(|p| shown(p.hdlwf_over_random)).collect();
            Finding::new(
                Verdict::of(worse.is_all(), worse.n > 0),
                format!("HDLWF ÷ Random {}", each.join(", ")),
            )
        }),
        sensitive.judged(data, |points| {
            let ends = [128, 256].map(|n| {
                let points = with(&points.pattern, n);
                [points[1].hdlwf_over_best, points[points.len() - 1].hdlwf_over_best]
            });
            let grows = count(ends.map(|[hot, even]| hot.mean > even.mean));
            let each = ends.map(|[hot, even]| format!("{} and {}", shown(hot), shown(even)));
            let measured = format!("at r = 0.25 and 1: {}", each.join("; "));
            Finding::new(Verdict::of(grows.is_all(), grows.n > 0), measured)
        }),
        insensitive.judged(data, |points| {
            let [a, b, c, d] = [128, 256, 1024, 2048].map(|n| with(&points.pattern, n));
            let spreads = [&a, &b, &c, &d].map(|points| spread(points));
            let is_less = spreads[2].max(spreads[3]) < spreads[0].min(spreads[1]);
            let is_near = c.iter().chain(&d).all(|p| p.hdlwf_over_best.mean <= 1.1);
            let range = range(c.iter().chain(&d).map(|p| p.hdlwf_over_best));
            let spreads = spreads.map(|spread| format!("{spread:.3}")).join(", ");
            let measured = format!("differs by {spreads}; under heavy traffic {range}");
            Finding::new(Verdict::of(is_less && is_near, is_less || is_near), measured)
        }),
        hottest(lab),
    ]
}

/// §4 and §4.2: the result of the workload's law.
fn hottest(lab: &Lab) -> Claim {
    let statement = Statement {
        id: "000-5f",
        section: "§4, §4.2",
        says: "With r = 0.25 one server gets almost 75 % of the transfers; the law is like a normal distribution.",
        rule: "Of transfers with one copy the first of 16 servers has 73 to 77 %, and the largest share is in the middle; \
               with conditions: one of both.",
        why: "The share is right. The law is geometric: shares fall from the first server on, and none has a bell.",
        figure: None,
    };
    let setting = Setting { ratio: 0.25, copies: 1, ..Setting::new(2048, 16) };
    let shares = lab.repeat(lab.n_runs(N_RUNS), |seed| {
        let mut shares = [0.0; 16];
        if let Ok(batch) = CHOSEN.workload(&setting, seed).generate() {
            batch.replicas().flat().iter().for_each(|server| shares[server.index()] += 1.0 / 2048.0);
        }
        shares
    });
    let first = estimate(shares.iter().map(|shares| shares[0]));
    let middle = estimate(shares.iter().map(|shares| shares[7] + shares[8]));
    let is_almost_75 = (0.73..=0.77).contains(&first.mean);
    let is_bell = middle.mean > first.mean;
    let measured = format!("the first has {}, the two in the middle {}", shown(first), shown(middle));
    let verdict = Verdict::of(is_almost_75 && is_bell, is_almost_75 || is_bell);
    statement.judged(&[("as chosen", ())], |()| Finding::new(verdict, measured.clone()))
}

/// §4.2, Fig. 6.
fn of_hot_spots(data: &[(&str, Points)]) -> Vec<Claim> {
    // The variation with further copies on any server is not drawn for several hot spots.
    let data: Vec<(&str, &Vec<Point>)> = data
        .iter()
        .zip(VARIATIONS)
        .filter(|(_, (_, open))| !open.are_others_even)
        .map(|((name, points), _)| (*name, &points.hot_spots))
        .collect();
    let shorter = Statement {
        id: "000-6a",
        section: "§4.2",
        says: "Schedules get shorter as there are more hot spots.",
        rule: "Each mean length is at most that with half as many hot spots; with conditions: most are.",
        why: "The same transfers are spread over more servers.",
        figure: Some("000-fig6a"),
    };
    let light = Statement {
        id: "000-6b",
        section: "§4.2",
        says: "Under light traffic HDLWF suffers from few hot spots, and is almost optimal with many.",
        rule: "With 256 transfers HDLWF ÷ optimum is larger with 1 hot spot than with 8, where it is at most 1.05; with \
               conditions: one of both.",
        why: "It is the other way round: with one hot spot the schedule is more than four times as long as with eight, and \
              the slots too many are only twice as many.",
        figure: Some("000-fig6a"),
    };
    let heavy = Statement {
        id: "000-6c",
        section: "§4.2",
        says: "Under heavy traffic HDLWF depends less on hot spots, and is near the optimum.",
        rule: "HDLWF ÷ optimum differs less over the hot spots with 2048 transfers than with 256, and is at most 1.05 at all \
               points with 2048; with conditions: one of both.",
        why: "It is near with one and with eight hot spots. With two it stays 13 % away, as Random does.",
        figure: Some("000-fig6b"),
    };
    vec![
        shorter.judged(&data, |points| {
            let all = [256, 2048].map(|n| with(points, n));
            let shorter = count(all.iter().flat_map(|points| descents(points)));
            let ends = all.map(|p| format!("{:.0} to {:.0}", p[0].hdlwf.mean, p[p.len() - 1].hdlwf.mean));
            Finding::new(shorter.verdict(), format!("in {shorter} steps; HDLWF {} slots", ends.join(", ")))
        }),
        light.judged(&data, |points| {
            let points = with(points, 256);
            let (one, eight) = (points[0].hdlwf_over_best, points[points.len() - 1].hdlwf_over_best);
            let (falls, is_near) = (one.mean > eight.mean, eight.mean <= 1.05);
            let measured = format!("{} with one, {} with eight", shown(one), shown(eight));
            Finding::new(Verdict::of(falls && is_near, falls || is_near), measured)
        }),
        heavy.judged(&data, |points| {
            let [light, heavy] = [256, 2048].map(|n| with(points, n));
            let (is_less, is_near) =
                (spread(&heavy) < spread(&light), heavy.iter().all(|p| p.hdlwf_over_best.mean <= 1.05));
            let range = range(heavy.iter().map(|p| p.hdlwf_over_best));
            let measured = format!("differs by {:.3} and {:.3}; {range}", spread(&light), spread(&heavy));
            Finding::new(Verdict::of(is_less && is_near, is_less || is_near), measured)
        }),
    ]
}

/// §4.3, Fig. 7.
fn of_copies(data: &[(&str, Points)]) -> Vec<Claim> {
    let light = Statement {
        id: "000-7a",
        section: "§4.3",
        says: "Where load is even and light, two copies are enough for the optimum, and three for HDLWF and Random.",
        rule: "Of 256 transfers the mean length with 8 copies is at most 2 % below that with 2 (optimum), with 3 (HDLWF) and \
               with 3 (Random); with conditions: for some of the three.",
        why: "With two copies servers can be evened out. What HDLWF and Random are away from the optimum then is not for \
              lack of copies. With ties by lowest id more copies are even bad for HDLWF.",
        figure: Some("000-fig7a"),
    };
    let heavy = Statement {
        id: "000-7b",
        section: "§4.3",
        says: "Where load is even and heavy, two copies are enough for all.",
        rule: "Of 2048 transfers the mean length with 8 copies is at most 2 % below that with 2 for all three; with \
               conditions: for some of them.",
        why: "With two copies servers can be evened out. With ties by lowest id more copies are bad for HDLWF.",
        figure: Some("000-fig7b"),
    };
    let hot = Statement {
        id: "000-7c",
        section: "§4.3, §6",
        says: "With hot spots every further copy makes schedules shorter.",
        rule: "With 256 and 2048 transfers each of the three mean lengths falls with every copy, from 1 to 8; with \
               conditions: in most steps.",
        why: "Copies by the same law lie on the servers next to the hot one, so each adds a server that can help. If they lie \
              anywhere, a few are enough here as well.",
        figure: Some("000-fig7d"),
    };
    let part = |points: &Points, part: usize| {
        let n = points.copies.len() / 4;
        points.copies[n * part..n * (part + 1)].to_vec()
    };
    let enough = |points: &[Point], copies: [usize; 3]| {
        let saved = [0, 1, 2]
            .map(|i| 1.0 - LENGTHS[i](&points[points.len() - 1]) / LENGTHS[i](&points[copies[i] - 1]));
        let is_enough = count(saved.map(|saved| saved <= 0.02));
        let saved = saved.map(percent);
        let measured = format!(
            "eight copies save {} (optimum), {} (HDLWF), {} (Random) against {}, {} and {}",
            saved[0], saved[1], saved[2], copies[0], copies[1], copies[2]
        );
        Finding::new(Verdict::of(is_enough.is_all(), is_enough.n > 0), measured)
    };
    vec![
        light.judged(data, |points| enough(&part(points, 0), [2, 3, 3])),
        heavy.judged(data, |points| enough(&part(points, 1), [2, 2, 2])),
        hot.judged(data, |points| {
            let all = [part(points, 2), part(points, 3)];
            let falls = |(points, of): (&Vec<Point>, fn(&Point) -> f64)| {
                points.windows(2).map(|pair| of(&pair[1]) < of(&pair[0])).collect::<Vec<bool>>()
            };
            let cases = all.iter().flat_map(|points| LENGTHS.map(|of| (points, of)));
            let falls = count(cases.flat_map(falls));
            let ends = all.map(|p| format!("{:.0} to {:.0}", p[0].hdlwf.mean, p[p.len() - 1].hdlwf.mean));
            Finding::new(falls.verdict(), format!("in {falls} steps; HDLWF {} slots", ends.join(", ")))
        }),
    ]
}

/// Figures 4 to 7.
fn drawn(points: &Points) -> Vec<Figure> {
    let mut figures = Vec::new();
    let ids = ["000-fig4a", "000-fig4b", "000-fig4c", "000-fig4d"];
    for (id, per_server) in ids.into_iter().zip([8, 16, 32, 64]) {
        let points: Vec<&Point> =
            points.size.iter().filter(|p| p.setting.per_server() == per_server).collect();
        let line = |name: &str, of: fn(&Point) -> Estimate| Line {
            name: name.to_owned(),
            points: points.iter().map(|p| (f64::from(p.setting.n_transfers), of(p))).collect(),
        };
        figures.push(Figure {
            id,
            title: format!("Fig. 4: {per_server} transfers a server"),
            x: "transfers",
            y: "length ÷ optimum",
            is_log_x: true,
            lines: vec![line("hdlwf", |p| p.hdlwf_over_best), line("random-bid", |p| p.random_over_best)],
            stated: [("within 15 %", 1.15), ("within 3 %", 1.03)]
                .map(|(label, y)| Stated { label: label.to_owned(), x: None, y })
                .to_vec(),
        });
    }
    let transfers = |s: &Setting| format!("{} transfers", s.n_transfers);
    let ids = ["000-fig5a", "000-fig5b", "000-fig5c", "000-fig5d"];
    for (id, points) in ids.into_iter().zip(points.pattern.chunks(5)) {
        let title = format!("Fig. 5: {}", transfers(&points[0].setting));
        figures.push(normalised(id, title, "common ratio r", points, |s| s.ratio));
    }
    for (id, points) in ["000-fig6a", "000-fig6b"].into_iter().zip(points.hot_spots.chunks(4)) {
        let title = format!("Fig. 6: {}, r = 0.25", transfers(&points[0].setting));
        figures.push(normalised(id, title, "hot spots", points, |s| s.hot_spots.into()));
    }
    let ids = ["000-fig7a", "000-fig7b", "000-fig7c", "000-fig7d"];
    for (id, points) in ids.into_iter().zip(points.copies.chunks(points.copies.len() / 4)) {
        let title = format!("Fig. 7: {}, r = {}", transfers(&points[0].setting), points[0].setting.ratio);
        figures.push(normalised(id, title, "copies", points, |s| s.copies.into()));
    }
    figures
}

/// Lengths divided by the shortest optimum of the figure, as the paper plots them.
fn normalised(
    id: &'static str,
    title: String,
    x: &'static str,
    points: &[Point],
    at: fn(&Setting) -> f64,
) -> Figure {
    let shortest = points.iter().map(|p| p.best.mean).fold(f64::MAX, f64::min);
    let scaled = |estimate: Estimate| Estimate {
        mean: estimate.mean / shortest,
        margin: estimate.margin.map(|margin| margin / shortest),
    };
    let line = |name: &str, of: fn(&Point) -> Estimate| Line {
        name: name.to_owned(),
        points: points.iter().map(|p| (at(&p.setting), scaled(of(p)))).collect(),
    };
    let lines =
        vec![line("optimum", |p| p.best), line("hdlwf", |p| p.hdlwf), line("random-bid", |p| p.random)];
    Figure { id, title, x, y: "length ÷ shortest optimum", is_log_x: false, lines, stated: Vec::new() }
}
