//! Numbers that look random, the same for the same seed.

use std::time::Duration;

use bytes::Bytes;

#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        let mut dice = Self(seed ^ 0x51D0_5EED);
        dice.next();
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Others, which do not depend on how many are drawn here.
    pub(super) fn fork(&mut self) -> Self {
        Self(self.next())
    }

    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    pub(super) fn is_one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Whether something happens that happens so often in a thousand cases.
    pub(super) fn happens(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }

    pub(super) fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }

    pub(super) fn millis(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.below(most))
    }

    pub(super) fn bytes(&mut self, n: u64) -> Bytes {
        let mut bytes = Vec::with_capacity(n as usize + 8);
        while bytes.len() < n as usize {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(n as usize);
        bytes.into()
    }
}
