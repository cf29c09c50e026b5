//! A set of numbers with one bit each: small enough to stay in the cache where one byte each would not.

/// The members among the numbers below some bound.
#[derive(Debug, Default)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    /// An empty set of numbers below `n`.
    pub(crate) fn none(n: usize) -> Self {
        Self(vec![0; n.div_ceil(64)])
    }

    /// Raises the bound to `n`.
    pub(crate) fn grow(&mut self, n: usize) {
        self.0.resize(n.div_ceil(64).max(self.0.len()), 0);
    }

    #[inline]
    pub(crate) fn has(&self, number: u32) -> bool {
        self.0[number as usize / 64] >> (number % 64) & 1 == 1
    }

    #[inline]
    pub(crate) fn insert(&mut self, number: u32) {
        self.0[number as usize / 64] |= 1 << (number % 64);
    }

    #[inline]
    pub(crate) fn remove(&mut self, number: u32) {
        self.0[number as usize / 64] &= !(1 << (number % 64));
    }
}
