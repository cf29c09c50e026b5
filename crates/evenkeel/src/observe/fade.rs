//! How much of a bad experience with a server still counts.
//!
//! A server that is avoided shows nothing new, so what is held against it must fade, or it never gets another chance.
//! A hyperbola fades much like an exponential function and, unlike that, costs a division and has the same bits on
//! every machine.

/// After this many times the duration of a slow transfer, half of it is forgotten. A server that stays slow is then
/// tried with a small part of its share; one that has recovered is back before long.
const MEMORY: f64 = 4.0;

/// What is left of an excess after `passed_ns`, if half of it is forgotten after `half_ns`.
#[inline]
pub(super) fn left_of(excess: f64, half_ns: f64, passed_ns: u64) -> f64 {
    excess * half_ns / (half_ns + passed_ns as f64).max(1.0)
}

/// A slow transfer: when it was last seen, and how long it had taken by then.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slow {
    pub(super) at_ns: u64,
    pub(super) took_ns: u64,
}

impl Slow {
    /// What is left of the excess that it showed.
    #[inline]
    pub(super) fn left_of(&self, excess: f64, now_ns: u64) -> f64 {
        left_of(excess.max(0.0), MEMORY * self.took_ns as f64, now_ns.saturating_sub(self.at_ns))
    }
}
