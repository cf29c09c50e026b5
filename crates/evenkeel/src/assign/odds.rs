//! How likely reads are to be local, and how unevenly servers serve, without planning. Paper 003 §3.
//!
//! There are n chunks with r copies each on m nodes. A process on one node finds a chunk on its node with probability
//! r/m, so the number X of such chunks is binomial. The paper's figures use 1/m instead ([`local_reads_as_printed`]):
//! P(X > 5) on 128 nodes is 98 %, not 21 %. Its conclusion stands: the expected share of local reads is r/m.
//!
//! Which chunks a node *serves* is the topic of §3.2: it holds each with probability r/m, and is drawn among r with
//! probability 1/r. That is a binomial of 1/m in one step ([`served`]); the paper's sum over what the node holds gives
//! the same ([`served_by_sum`]).

/// How many of n independent events with the same probability happen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Binomial {
    n: u32,
    p: f64,
}

impl Binomial {
    /// `n` events with probability `p`, clamped to 0..=1; NaN counts as 0.
    pub fn new(n: u32, p: f64) -> Self {
        Self { n, p: if p > 0.0 { p.min(1.0) } else { 0.0 } }
    }

    /// The probability that exactly `k` happen.
    pub fn exactly(self, k: u32) -> f64 {
        self.terms().nth(k as usize).unwrap_or(0.0)
    }

    /// The probability that at most `k` happen.
    pub fn at_most(self, k: u32) -> f64 {
        self.terms().take(k as usize + 1).sum::<f64>().min(1.0)
    }

    /// The probability that more than `k` happen. Summed directly, so that small probabilities are exact too.
    pub fn more_than(self, k: u32) -> f64 {
        self.terms().skip(k as usize + 1).sum::<f64>().min(1.0)
    }

    /// The probabilities of 0, 1, 2, …, n. Adds up the logarithms of their ratios, since the first may be too small for
    /// a float.
    fn terms(self) -> impl Iterator<Item = f64> {
        let Self { n, p } = self;
        let is_sure = p >= 1.0;
        let step = p.ln() - (-p).ln_1p();
        let mut log = f64::from(n) * (-p).ln_1p();
        (0..=n).map(move |k| {
            if is_sure {
                return f64::from(u8::from(k == n));
            }
            if k > 0 {
                log += (f64::from(n - k + 1) / f64::from(k)).ln() + step;
            }
            log.exp()
        })
    }
}

/// How many of `n_chunks` with `n_copies` on `n_nodes` are on one node: those that a process there reads locally, or
/// that the node stores.
pub fn local_reads(n_chunks: u32, n_copies: u32, n_nodes: u32) -> Binomial {
    Binomial::new(n_chunks, f64::from(n_copies) / f64::from(n_nodes))
}

/// As [`local_reads`], but as the paper computes it: as if there were one copy.
pub fn local_reads_as_printed(n_chunks: u32, n_nodes: u32) -> Binomial {
    local_reads(n_chunks, 1, n_nodes)
}

/// How many chunks a node serves, if each is read once, from a copy drawn at random.
pub fn served(n_chunks: u32, n_nodes: u32) -> Binomial {
    Binomial::new(n_chunks, 1.0 / f64::from(n_nodes))
}

/// The probability that a node serves exactly `k`, by the paper's sum over what it may hold.
pub fn served_by_sum(n_chunks: u32, n_copies: u32, n_nodes: u32, k: u32) -> f64 {
    let held = local_reads(n_chunks, n_copies, n_nodes).terms();
    let drawn = 1.0 / f64::from(n_copies);
    (0..).zip(held).skip(k as usize).map(|(n_held, p)| p * Binomial::new(n_held, drawn).exactly(k)).sum()
}
