//! How likely reads are local, and how unevenly servers serve, if nobody plans it. Paper 003 §3.
//!
//! Of n chunks with r copies on m nodes each, a process on one node finds one on its node with probability r/m, so the
//! number X of those is binomial. The paper's figures are of 1/m instead ([`local_reads_as_printed`]): P(X > 5) on 128 nodes is
//! 98 %, not 21 %. Its conclusion stands: the expected share of local reads is r/m.
//!
//! Which chunks a node *serves* is its §3.2: it holds each with probability r/m, and is drawn among r with 1/r. That is
//! a binomial of 1/m in one step ([`served`]); the paper's sum over what it holds gives the same ([`served_by_sum`]).

/// How many of n events happen that have the same probability each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Binomial {
    n: u32,
    p: f64,
}

impl Binomial {
    /// Of `n` events with probability `p`, which is taken into 0..=1; not a number counts as 0.
    pub fn new(n: u32, p: f64) -> Self {
        Self { n, p: if p > 0.0 { p.min(1.0) } else { 0.0 } }
    }

    /// That exactly `k` happen.
    pub fn exactly(self, k: u32) -> f64 {
        self.terms().nth(k as usize).unwrap_or(0.0)
    }

    /// That at most `k` happen.
    pub fn at_most(self, k: u32) -> f64 {
        self.terms().take(k as usize + 1).sum::<f64>().min(1.0)
    }

    /// That more than `k` happen: added up by itself, so that little odds are exact too.
    pub fn more_than(self, k: u32) -> f64 {
        self.terms().skip(k as usize + 1).sum::<f64>().min(1.0)
    }

    /// The odds of 0, 1, 2, …, n: logarithms of their ratios added up, since the first may be too little for a float.
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

/// How many of `n_chunks` with `n_copies` on `n_nodes` are on one node: those that a process there reads locally, those that
/// the node stores.
pub fn local_reads(n_chunks: u32, n_copies: u32, n_nodes: u32) -> Binomial {
    Binomial::new(n_chunks, f64::from(n_copies) / f64::from(n_nodes))
}

/// The same as the paper computes it, as if there were one copy.
pub fn local_reads_as_printed(n_chunks: u32, n_nodes: u32) -> Binomial {
    local_reads(n_chunks, 1, n_nodes)
}

/// How many chunks a node serves, if each is read once, from a copy drawn at random.
pub fn served(n_chunks: u32, n_nodes: u32) -> Binomial {
    Binomial::new(n_chunks, 1.0 / f64::from(n_nodes))
}

/// That a node serves exactly `k`, by the paper's sum over what it may hold.
pub fn served_by_sum(n_chunks: u32, n_copies: u32, n_nodes: u32, k: u32) -> f64 {
    let held = local_reads(n_chunks, n_copies, n_nodes).terms();
    let drawn = 1.0 / f64::from(n_copies);
    (0..).zip(held).skip(k as usize).map(|(n_held, p)| p * Binomial::new(n_held, drawn).exactly(k)).sum()
}
