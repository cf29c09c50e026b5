//! Randomness, passed in by the caller: seeded in production, injected by tests. Also ties, broken by id or by hash.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A source of random numbers.
pub trait Draw {
    /// A number drawn uniformly from `0..n`; `n` must not be 0.
    fn below(&mut self, n: u32) -> u32;

    /// A number drawn uniformly from `[0, 1)`.
    fn unit(&mut self) -> f64;
}

/// The generator behind `--seed`: the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Seeded(Pcg64Mcg);

impl Seeded {
    /// A generator whose numbers depend on `seed` alone.
    pub fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }
}

impl Draw for Seeded {
    fn below(&mut self, n: u32) -> u32 {
        // Lemire's multiply-and-reject: unbiased, nearly always a single draw.
        let reject_below = n.wrapping_neg() % n;
        loop {
            let wide = u64::from(self.0.next_u32()) * u64::from(n);
            if wide as u32 >= reject_below {
                return (wide >> 32) as u32;
            }
        }
    }

    fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// How to choose among several equally good candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ties {
    /// The one with the lowest id. All choosers then prefer the same candidate.
    LowestId,
    /// The one with the lowest hash of chooser and candidate, so that each chooser has its own preference: the same on
    /// every machine, in any order of events.
    Hashed(u64),
}

impl Ties {
    /// The rank of `candidate` for `chooser`, who takes the candidate with the lowest rank.
    #[inline]
    pub fn rank(self, chooser: u32, candidate: u32) -> u64 {
        match self {
            Self::LowestId => candidate.into(),
            Self::Hashed(seed) => mix(mix(mix(seed) ^ u64::from(chooser)) ^ u64::from(candidate)),
        }
    }
}

/// The finaliser of splitmix64.
pub(crate) fn mix(z: u64) -> u64 {
    let z = z.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_are_broken_as_specified() {
        assert_eq!(mix(0), 0xE220_A839_7B1D_CDAF);
        assert_eq!(Ties::LowestId.rank(9, 4), 4);
        let ranks = |seed, chooser| (0..8).map(|c| Ties::Hashed(seed).rank(chooser, c)).collect::<Vec<_>>();
        assert_ne!(ranks(0, 0), ranks(0, 1), "each chooser has its own order");
        assert_ne!(ranks(0, 0), ranks(1, 0));
    }

    #[test]
    fn a_seed_names_one_sequence() {
        let draw = |seed| {
            let mut rng = Seeded::new(seed);
            (0..4).map(|_| rng.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn draws_stay_in_range_and_reach_all() {
        let mut rng = Seeded::new(1);
        let mut seen = [0; 5];
        for _ in 0..5000 {
            seen[rng.below(5) as usize] += 1;
            assert!((0.0..1.0).contains(&rng.unit()));
        }
        assert!(seen.iter().all(|&n| (900..1100).contains(&n)), "{seen:?}");
    }
}
