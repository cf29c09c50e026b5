//! What is drawn by lot, with the same bits on every machine.

use evenkeel::draw::{Draw, Seeded};

/// The seed of one of many draws that have nothing to do with each other.
pub fn sub_seed(seed: u64, purpose: u64) -> u64 {
    let mut draw = Seeded::new(seed ^ purpose.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    u64::from(draw.below(u32::MAX)) << 32 | u64::from(draw.below(u32::MAX))
}

/// A number from 0 to below 1, all alike.
pub fn uniform(draw: &mut dyn Draw) -> f64 {
    f64::from(draw.below(u32::MAX)) / f64::from(u32::MAX)
}

/// An exponentially distributed number with mean 1, by von Neumann's comparisons: no logarithm, which would differ between
/// machines. A descending run of uniform numbers has odd length with just the right chance.
pub fn exponential(draw: &mut dyn Draw) -> f64 {
    let mut whole = 0.0;
    loop {
        let first = uniform(draw);
        let (mut last, mut is_odd) = (first, true);
        loop {
            let next = uniform(draw);
            if next >= last {
                break;
            }
            (last, is_odd) = (next, !is_odd);
        }
        if is_odd {
            return whole + first;
        }
        whole += 1.0;
    }
}

/// So many different numbers below `n`, ascending.
pub fn sample(n: u32, n_drawn: u32, draw: &mut dyn Draw) -> Vec<u32> {
    // Each number is taken with the chance that leaves the rest enough.
    let mut left = n_drawn.min(n);
    let mut drawn = Vec::with_capacity(left as usize);
    for number in 0..n {
        if left > 0 && draw.below(n - number) < left {
            drawn.push(number);
            left -= 1;
        }
    }
    drawn
}
