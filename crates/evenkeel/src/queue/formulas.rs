//! The analytic model of paper 002 §IV: the mean completion time of m equal applications.
//!
//! Each application has one request on each of n servers. All reads take t, and the longest shuffle of each application
//! takes s. (4) and (8) hold with a barrier, (5) and (7) with and without, (6) and (9) only without, and only if
//! [`Even::is_best_case`].
//!
//! Deviations. (4) is printed with 1/mⁿ before the sum, which overflows soon; here each term is divided. (6) needs at
//! least as many servers as applications, so that each slowest aggregator can be first somewhere. It also needs one
//! shuffle to be longer than all others of its application by (m − 1)t; the paper compares the longest and the
//! shortest. The claim that HIO's worst case is (7), and so never worse than SIO, is wrong: see [`hio`](super::hio).

/// What is wrong with the parameters.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)]
pub enum FormulaError {
    #[error("there are no {0}; the formulas need 1 or more")]
    NoneOf(&'static str),
    #[error("the time {0} is negative or not a number; use 0 or more")]
    BadTime(f64),
    #[error("the times overflow when added up; use a larger unit")]
    TooLong,
}

/// The even case that the formulas describe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Even {
    n_apps: u32,
    n_servers: u32,
    read: f64,
    shuffle: f64,
}

impl Even {
    /// m applications on n servers, reads of t and a longest shuffle of s, in any unit of time.
    pub fn new(m: u32, n: u32, t: f64, s: f64) -> Result<Self, FormulaError> {
        for (number, what) in [(m, "applications"), (n, "servers")] {
            if number == 0 {
                return Err(FormulaError::NoneOf(what));
            }
        }
        if let Some(&bad) = [t, s].iter().find(|time| !(time.is_finite() && **time >= 0.0)) {
            return Err(FormulaError::BadTime(bad));
        }
        // No formula exceeds this.
        if !((f64::from(m) + 1.0) * t + s).is_finite() {
            return Err(FormulaError::TooLong);
        }
        Ok(Self { n_apps: m, n_servers: n, read: t, shuffle: s })
    }

    /// (4): NIO with a barrier, in expectation over all orders.
    pub fn nio(&self) -> f64 {
        f64::from(self.n_apps) * self.read + self.shuffle - self.read * self.mean_idle_ranks()
    }

    /// (5): SIO.
    pub fn sio(&self) -> f64 {
        0.5 * (f64::from(self.n_apps) + 1.0) * self.read + self.shuffle
    }

    /// (6): HIO at best, without a barrier.
    pub fn hio_best(&self) -> f64 {
        self.read + self.shuffle
    }

    /// (7): HIO if all slowest aggregators meet on one server. The paper takes it for the worst case.
    pub fn hio_worst(&self) -> f64 {
        self.sio()
    }

    /// (8): what SIO saves over NIO, with a barrier.
    pub fn sio_saves(&self) -> f64 {
        0.5 * (f64::from(self.n_apps) - 1.0) * self.read - self.read * self.mean_idle_ranks()
    }

    /// (9): what HIO at best saves over SIO, without a barrier.
    pub fn hio_best_saves(&self) -> f64 {
        0.5 * (f64::from(self.n_apps) - 1.0) * self.read
    }

    /// Whether (6) and (9) can be reached if all other shuffles take at most `other_shuffles`: each application has its
    /// own server, and its slowest aggregator takes longer than the others even if these are read last.
    pub fn is_best_case(&self, other_shuffles: f64) -> bool {
        let wait = (f64::from(self.n_apps) - 1.0) * self.read;
        self.n_servers >= self.n_apps && self.shuffle - other_shuffles >= wait
    }

    /// Σ (x/m)ⁿ for x from 1 to m - 1: by how many ranks the last of n uniform ranks up to m falls short of m, on
    /// average.
    fn mean_idle_ranks(&self) -> f64 {
        let m = f64::from(self.n_apps);
        (1..self.n_apps).map(|x| power(f64::from(x) / m, self.n_servers)).sum()
    }
}

/// A power by repeated squaring: the same on every machine.
fn power(mut base: f64, mut exponent: u32) -> f64 {
    let mut power = 1.0;
    while exponent > 0 {
        if exponent % 2 == 1 {
            power *= base;
        }
        base *= base;
        exponent /= 2;
    }
    power
}
