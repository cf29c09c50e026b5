//! How long an aggregator's shuffle takes, and how long its request can wait: paper 002 §III.A and §III.B.
//!
//! Formula (1) is printed with messages 0 < i < A, which would drop one; here all count. Without any message there is
//! no shuffle and so no latency either, otherwise p4 of Fig. 1 would shuffle. Messages are sent in parallel, so the
//! slowest counts. For a network card that sends one after another there is [`Combine::Sum`].
//!
//! Formula (2) decides whether two processes share a node by their ranks modulo the number of *cores* of a node. With
//! ranks assigned round robin, the number of *nodes* counts; see [`Placement`].

/// What is wrong with the description of a shuffle.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)]
pub enum ShuffleError {
    #[error("the bandwidth {0} is not above 0 and finite; write MB/s, such as 1000")]
    BadBandwidth(f64),
    #[error("the latency {0} is not a time; write seconds, 0 or more")]
    BadLatency(f64),
    #[error("the message size {0} is not a size; write MB, 0 or more")]
    BadSize(f64),
    #[error("there are 0 {0} to place processes on; use at least 1")]
    NoRoom(&'static str),
    #[error("a shuffle of {0} s does not fit in 64 bits of nanoseconds; send less at once")]
    TooLong(f64),
}

/// How the messages of one aggregator are combined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Combine {
    /// They are sent in parallel: the slowest counts, as printed.
    #[default]
    Max,
    /// They are sent one after another.
    Sum,
}

/// Which processes share a node: formula (2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Ranks are assigned to this many nodes round robin, Hydra's default and the paper's assumption.
    RoundRobin {
        /// How many nodes.
        nodes: u32,
    },
    /// Each node has this many consecutive ranks.
    Block {
        /// Cores of a node.
        cores: u32,
    },
    /// As printed: ranks that are equal modulo the cores of a node share a node.
    Literal {
        /// Cores of a node.
        n_c: u32,
    },
}

impl Placement {
    /// Whether the two ranks are on the same node.
    pub fn is_intra(self, aggregator: u32, process: u32) -> Result<bool, ShuffleError> {
        let node = |rank: u32| match self {
            Self::RoundRobin { nodes } => rank.checked_rem(nodes).ok_or(ShuffleError::NoRoom("nodes")),
            Self::Block { cores } => rank.checked_div(cores).ok_or(ShuffleError::NoRoom("cores")),
            Self::Literal { n_c } => rank.checked_rem(n_c).ok_or(ShuffleError::NoRoom("cores")),
        };
        Ok(node(aggregator)? == node(process)?)
    }
}

/// The network that carries the shuffle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    intra_mb_per_s: f64,
    inter_mb_per_s: f64,
    latency_s: f64,
    combine: Combine,
}

impl Network {
    /// Bandwidth inside a node (the paper's `B_a`), between nodes (`B_e`), and latency (γ).
    pub fn new(
        intra_mb_per_s: f64,
        inter_mb_per_s: f64,
        latency_s: f64,
        combine: Combine,
    ) -> Result<Self, ShuffleError> {
        let is_bandwidth = |mb_per_s: &f64| mb_per_s.is_finite() && *mb_per_s > 0.0;
        if let Some(&bad) = [intra_mb_per_s, inter_mb_per_s].iter().find(|&b| !is_bandwidth(b)) {
            return Err(ShuffleError::BadBandwidth(bad));
        }
        if !is_quantity(latency_s) {
            return Err(ShuffleError::BadLatency(latency_s));
        }
        Ok(Self { intra_mb_per_s, inter_mb_per_s, latency_s, combine })
    }

    /// Formula (1): how long `aggregator` takes to send its `messages`, each a rank and a size in MB. Messages to
    /// itself and messages of size 0 are not sent.
    pub fn shuffle_s(
        &self,
        placement: Placement,
        aggregator: u32,
        messages: &[(u32, f64)],
    ) -> Result<f64, ShuffleError> {
        let (mut slowest_s, mut sum_s) = (0.0_f64, 0.0);
        for &(process, size_mb) in messages {
            if !is_quantity(size_mb) {
                return Err(ShuffleError::BadSize(size_mb));
            }
            let is_intra = placement.is_intra(aggregator, process)?;
            if process != aggregator {
                let time_s = size_mb / if is_intra { self.intra_mb_per_s } else { self.inter_mb_per_s };
                (slowest_s, sum_s) = (slowest_s.max(time_s), sum_s + time_s);
            }
        }
        Ok(match self.combine {
            _ if slowest_s == 0.0 => 0.0,
            Combine::Max => slowest_s + self.latency_s,
            Combine::Sum => sum_s + self.latency_s,
        })
    }
}

fn is_quantity(number: f64) -> bool {
    number.is_finite() && number >= 0.0
}

/// Converts seconds to whole nanoseconds, to the nearest.
pub fn to_ns(seconds: f64) -> Result<u64, ShuffleError> {
    const MOST_NS: f64 = u64::MAX as f64;
    let nanos = (seconds * 1e9).round();
    // NaN is in no range.
    if (0.0..MOST_NS).contains(&nanos) { Ok(nanos as u64) } else { Err(ShuffleError::TooLong(seconds)) }
}

/// Formula (3): how much longer the slowest of these shuffles of one application takes than each of them.
///
/// The text of §II says that p4 of Fig. 2 can wait for 12t. By this formula it is 6t: any longer wait depends on the
/// order in which the others are served.
pub fn acceptable_delays(shuffles_ns: &[u64]) -> Vec<u64> {
    let slowest = shuffles_ns.iter().copied().max().unwrap_or(0);
    shuffles_ns.iter().map(|shuffle| slowest - shuffle).collect()
}

/// The relative acceptable delays of one application: equal delays have the same rank, and no rank is skipped.
pub fn ranks(delays_ns: &[u64]) -> Vec<u32> {
    let mut distinct = delays_ns.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    delays_ns.iter().map(|delay| distinct.partition_point(|other| other < delay) as u32).collect()
}
