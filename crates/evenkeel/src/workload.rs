//! Batches to plan, generated from a seed: the placements of paper 000 §4 and those seen in real systems.
//!
//! Paper 000 calls its distribution normal, but it is a truncated geometric one: server j gets a share proportional to
//! rʲ. The paper does not say how further copies are placed. Here they follow the same distribution over the remaining
//! servers, or are uniform ([`Law::FirstHot`], as on HDFS, where the first copy is on the writer's node).

use crate::draw::{Draw, Seeded};
use crate::model::{Batch, BatchBuilder, MAX_SLOTS, ModelError, NameTable, Server, Speed};

/// How the copies of a request are distributed over the servers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Law {
    /// Every server is equally likely.
    Uniform,
    /// Server j of a hot spot has probability proportional to `ratio`ʲ. There are `hot_spots` groups of neighbours.
    Geometric {
        /// r of paper 000, above 0 and at most 1.
        ratio: f64,
        /// At least 1; the groups have equal mass.
        hot_spots: u32,
    },
    /// Server j has probability proportional to 1/(j+1).
    Zipf,
    /// The first copy is geometric, the others are uniform.
    FirstHot {
        /// r of paper 000, above 0 and at most 1.
        ratio: f64,
    },
    /// Copies are on neighbours j, j+1, …. Half of the time j is from the first tenth, otherwise from all: few distinct
    /// sets.
    Chain,
}

/// The size of a request in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// All requests have the same size.
    Fixed(u64),
    /// Drawn uniformly between the two, inclusive.
    Uniform(u64, u64),
}

/// Which client sends each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clients {
    /// Drawn uniformly for each request.
    Drawn,
    /// Round robin, so that all clients have the same number of requests.
    InTurn,
}

/// Parameters of a random batch.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Number of requests.
    pub n_requests: u32,
    /// Number of clients, named c0, c1, ….
    pub n_clients: u32,
    /// Number of servers, named s0, s1, ….
    pub n_servers: u32,
    /// Copies of each request's data, on distinct servers.
    pub copies: u32,
    /// How the copies are distributed.
    pub law: Law,
    /// How large the requests are.
    pub sizes: Sizes,
    /// Which client sends each request.
    pub clients: Clients,
    /// The same seed draws the same batch everywhere.
    pub seed: u64,
}

/// Servers that differ. Each property is drawn uniformly between two values.
#[derive(Clone, Debug, PartialEq)]
pub struct UnequalServers {
    /// Speeds, whole numbers.
    pub speeds: (u64, u64),
    /// Concurrent transfers.
    pub slots: (u64, u64),
    /// Blocks that a server has to move first.
    pub backlogs: (u64, u64),
    /// The same seed draws the same servers everywhere.
    pub seed: u64,
}

impl UnequalServers {
    /// Draws `n_servers` servers.
    pub fn draw(&self, n_servers: usize) -> Result<Vec<Server>, WorkloadError> {
        for (least, most) in [self.speeds, self.slots, self.backlogs] {
            if least > most {
                return Err(WorkloadError::Range(least, most));
            }
        }
        let highest = Speed::MAX.millionths() / 1_000_000;
        if self.speeds.0 == 0 || self.speeds.1 > highest {
            return Err(WorkloadError::OutOfRange("speeds", 1, highest));
        }
        if self.slots.0 == 0 || self.slots.1 > MAX_SLOTS.into() {
            return Err(WorkloadError::OutOfRange("slots", 1, MAX_SLOTS.into()));
        }
        let mut draw = Seeded::new(self.seed);
        let mut between = |(least, most)| draw_between(&mut draw, least, most);
        let mut server = || {
            let speed = Speed::from_millionths(between(self.speeds) * 1_000_000).unwrap_or(Speed::ONE);
            Server { speed, slots: between(self.slots) as u32, backlog: between(self.backlogs) }
        };
        Ok((0..n_servers).map(|_| server()).collect())
    }
}

/// The most clients or servers that can be drawn. The limit on requests is 64 times as high.
const MAX_NODES: u32 = 1 << 24;

/// Why a workload cannot be drawn.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)]
pub enum WorkloadError {
    #[error("a batch needs at least one {0}; ask for 1 or more")]
    None(&'static str),
    #[error(
        "that many {0} are not drawn; at most {MAX_NODES} clients or servers, and 64 times as many requests"
    )]
    TooMany(&'static str),
    #[error(
        "{copies} copies need at least as many servers, but there are only {n_servers}; draw fewer copies or more servers"
    )]
    TooManyCopies { copies: u32, n_servers: u32 },
    #[error("the ratio of a hot spot is {0}; use a number above 0 and at most 1")]
    Ratio(f64),
    #[error(
        "{hot_spots} hot spots need at least as many servers, but there are only {n_servers}; draw fewer hot spots"
    )]
    HotSpots { hot_spots: u32, n_servers: u32 },
    #[error("{0} must lie between {1} and {2}")]
    OutOfRange(&'static str, u64, u64),
    #[error("the range goes from {0} to {1}; write the smaller number first")]
    Range(u64, u64),
    #[error(transparent)]
    Model(#[from] ModelError),
}

impl Workload {
    /// Generates the batch.
    pub fn generate(&self) -> Result<Batch, WorkloadError> {
        self.validate()?;
        let mut draw = Seeded::new(self.seed);
        let mut batch = BatchBuilder::new();
        let (clients, servers) = (names('c', self.n_clients), names('s', self.n_servers));
        batch.declare_clients(clients.clone())?;
        batch.declare_servers(servers.clone())?;
        let placement = Placement::new(self.law, self.n_servers);
        let mut set = Vec::with_capacity(self.copies as usize);
        for i in 0..self.n_requests {
            let client = match self.clients {
                Clients::Drawn => draw.below(self.n_clients),
                Clients::InTurn => i % self.n_clients,
            };
            let blocks = match self.sizes {
                Sizes::Fixed(blocks) => blocks,
                Sizes::Uniform(least, most) => draw_between(&mut draw, least, most),
            };
            placement.draw(self.copies, &mut draw, &mut set);
            for &server in &set {
                batch.replica(servers.name(server))?;
            }
            batch.end_request(clients.name(client), blocks)?;
        }
        Ok(batch.finish())
    }

    fn validate(&self) -> Result<(), WorkloadError> {
        let counts = [(self.n_clients, "client"), (self.n_servers, "server"), (self.copies, "copy")];
        if let Some((_, what)) = counts.into_iter().find(|&(n, _)| n == 0) {
            return Err(WorkloadError::None(what));
        }
        let counts =
            [(self.n_clients, "clients"), (self.n_servers, "servers"), (self.n_requests / 64, "requests")];
        if let Some((_, what)) = counts.into_iter().find(|&(n, _)| n > MAX_NODES) {
            return Err(WorkloadError::TooMany(what));
        }
        let n_servers = self.n_servers;
        if self.copies > n_servers {
            return Err(WorkloadError::TooManyCopies { copies: self.copies, n_servers });
        }
        match self.law {
            Law::Geometric { ratio, .. } | Law::FirstHot { ratio } if !(ratio > 0.0 && ratio <= 1.0) => {
                return Err(WorkloadError::Ratio(ratio));
            }
            Law::Geometric { hot_spots: 0, .. } => return Err(WorkloadError::None("hot spot")),
            Law::Geometric { hot_spots, .. } if hot_spots > n_servers => {
                return Err(WorkloadError::HotSpots { hot_spots, n_servers });
            }
            _ => {}
        }
        match self.sizes {
            Sizes::Uniform(least, most) if least > most => Err(WorkloadError::Range(least, most)),
            _ => Ok(()),
        }
    }
}

fn names(prefix: char, n: u32) -> NameTable {
    let mut names = NameTable::new();
    (0..n).for_each(|i| _ = names.intern(&format!("{prefix}{i}")));
    names
}

fn draw_between(draw: &mut dyn Draw, least: u64, most: u64) -> u64 {
    let span = most - least;
    match u32::try_from(span).ok().and_then(|span| span.checked_add(1)) {
        Some(n) => least + u64::from(draw.below(n)),
        None => least + ((draw.unit() * (span as f64 + 1.0)) as u64).min(span),
    }
}

/// The distribution of the first copy, and that of the others.
struct Placement {
    first: Shares,
    others: Shares,
    chain: bool,
}

impl Placement {
    fn new(law: Law, n_servers: u32) -> Self {
        let uniform = || Shares::new((0..n_servers).map(|_| 1.0));
        let first = match law {
            Law::Uniform | Law::Chain => uniform(),
            Law::Geometric { ratio, hot_spots } => Shares::new(geometric(n_servers, ratio, hot_spots)),
            Law::Zipf => Shares::new((0..n_servers).map(|j| 1.0 / f64::from(j + 1))),
            Law::FirstHot { ratio } => Shares::new(geometric(n_servers, ratio, 1)),
        };
        let others = if matches!(law, Law::FirstHot { .. }) { uniform() } else { first.clone() };
        Self { first, others, chain: law == Law::Chain }
    }

    /// Draws distinct servers into `set`.
    fn draw(&self, copies: u32, draw: &mut dyn Draw, set: &mut Vec<u32>) {
        set.clear();
        if self.chain {
            let starts = self.first.of.len() as u32 - copies + 1;
            let hot = (starts / 10).max(1);
            let is_hot = draw.below(2) == 0;
            let start = draw.below(if is_hot { hot } else { starts });
            set.extend(start..start + copies);
            return;
        }
        for k in 0..copies {
            let shares = if k == 0 { &self.first } else { &self.others };
            set.push(shares.draw_new(draw, set));
        }
    }
}

/// The shares of the servers, and their prefix sums.
#[derive(Clone)]
struct Shares {
    of: Vec<f64>,
    sums: Vec<f64>,
}

impl Shares {
    fn new(shares: impl Iterator<Item = f64>) -> Self {
        let of: Vec<f64> = shares.collect();
        let sums = of.iter().scan(0.0, |sum, share| {
            *sum += share;
            Some(*sum)
        });
        Self { sums: sums.collect(), of }
    }

    /// Draws a server that is not in `set`, in proportion to the shares of the remaining ones.
    fn draw_new(&self, draw: &mut dyn Draw, set: &[u32]) -> u32 {
        const TRIES: usize = 32;
        let total = self.sums[self.sums.len() - 1];
        for _ in 0..TRIES {
            let mark = draw.unit() * total;
            let server = self.sums.partition_point(|&sum| sum <= mark).min(self.sums.len() - 1) as u32;
            if !set.contains(&server) {
                return server;
            }
        }
        // Nearly all of the mass is taken: draw from the same distribution by scanning what is left.
        let mut left = self.of.clone();
        set.iter().for_each(|&s| left[s as usize] = -1.0);
        let left = || (0..).zip(&left).filter(|&(_, &share)| share >= 0.0);
        let mut mark = draw.unit() * left().map(|(_, share)| share).sum::<f64>();
        let drawn = left().find(|(_, share)| {
            mark -= *share;
            mark < 0.0
        });
        drawn.or_else(|| left().next()).map_or(0, |(server, _)| server)
    }
}

fn geometric(n_servers: u32, ratio: f64, hot_spots: u32) -> impl Iterator<Item = f64> {
    (0..hot_spots).flat_map(move |spot| {
        let edge = |k: u32| (u64::from(n_servers) * u64::from(k) / u64::from(hot_spots)) as u32;
        let n = edge(spot + 1) - edge(spot);
        let powers = || std::iter::successors(Some(1.0), move |p| Some(p * ratio)).take(n as usize);
        let sum: f64 = powers().sum();
        powers().map(move |p| p / sum)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(law: Law) -> Workload {
        Workload {
            n_requests: 4000,
            n_clients: 8,
            n_servers: 16,
            copies: 2,
            law,
            sizes: Sizes::Fixed(1),
            clients: Clients::Drawn,
            seed: 1,
        }
    }

    /// How many requests have their first copy on each server.
    fn first_copies(workload: &Workload) -> Vec<u32> {
        let batch = workload.generate().expect("valid");
        let mut counts = vec![0; workload.n_servers as usize];
        for set in batch.replicas().iter() {
            let name = batch.servers().name(set[0].0);
            counts[name[1..].parse::<usize>().expect("a number")] += 1;
        }
        counts
    }

    /// Paper 000 §4: with r = 0.25 and 16 servers almost 75 % of the requests go to one server.
    #[test]
    fn geometric_hot_spots_have_the_papers_share() {
        let one = first_copies(&workload(Law::Geometric { ratio: 0.25, hot_spots: 1 }));
        assert!((2900..3100).contains(&one[0]), "{one:?}");
        let two = first_copies(&workload(Law::Geometric { ratio: 0.25, hot_spots: 2 }));
        assert!((1400..1600).contains(&two[0]) && (1400..1600).contains(&two[8]), "{two:?}");
    }

    #[test]
    fn every_law_draws_distinct_copies_even_when_the_mass_is_gone() {
        let laws = [
            Law::Uniform,
            Law::Geometric { ratio: 0.001, hot_spots: 1 },
            Law::Zipf,
            Law::FirstHot { ratio: 0.25 },
            Law::Chain,
        ];
        for law in laws {
            for copies in [1, 3, 16] {
                let workload = Workload { copies, n_requests: 50, ..workload(law) };
                let batch = workload.generate().expect("distinct copies");
                assert!(batch.replicas().iter().all(|set| set.len() == copies as usize));
            }
        }
    }

    #[test]
    fn impossible_workloads_are_refused() {
        let base = workload(Law::Uniform);
        let wrong = [
            Workload { copies: 17, ..base.clone() },
            Workload { n_clients: 0, ..base.clone() },
            Workload { sizes: Sizes::Uniform(2, 1), ..base.clone() },
            Workload { sizes: Sizes::Fixed(u64::MAX), ..base.clone() },
            workload(Law::Geometric { ratio: f64::NAN, hot_spots: 1 }),
            workload(Law::Geometric { ratio: 0.5, hot_spots: 17 }),
        ];
        assert!(wrong.iter().all(|w| w.generate().is_err()));
    }

    #[test]
    fn wide_ranges_of_sizes_are_drawn_within_them() {
        let sizes = Sizes::Uniform(u64::MAX / 8000, u64::MAX / 4000);
        let batch = Workload { sizes, ..workload(Law::Uniform) }.generate().expect("fits");
        assert!((0..4000).all(|i| (u64::MAX / 8000..=u64::MAX / 4000).contains(&batch.blocks(i))));
        let all = Workload { n_requests: 1, sizes: Sizes::Uniform(0, u64::MAX), ..workload(Law::Uniform) };
        assert!(all.generate().is_ok());
    }
}
