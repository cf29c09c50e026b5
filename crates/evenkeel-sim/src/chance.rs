//! Random draws that give the same bits on every machine.

use evenkeel::draw::{Draw, Seeded};

/// Seed of one of many independent draws.
pub fn sub_seed(seed: u64, purpose: u64) -> u64 {
    let mut draw = Seeded::new(seed ^ purpose.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    u64::from(draw.below(u32::MAX)) << 32 | u64::from(draw.below(u32::MAX))
}

/// A uniformly distributed number from 0 to below 1.
pub fn uniform(draw: &mut dyn Draw) -> f64 {
    f64::from(draw.below(u32::MAX)) / f64::from(u32::MAX)
}

/// An exponentially distributed number with mean 1, by von Neumann's comparisons. They need no logarithm, which would
/// differ between machines: a descending run of uniform numbers has odd length with exactly the right probability.
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

/// Draws `n_drawn` different numbers below `n`, in ascending order.
pub fn sample(n: u32, n_drawn: u32, draw: &mut dyn Draw) -> Vec<u32> {
    // Take each number with the probability that leaves enough for the rest.
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

/// Draws `n_drawn` different numbers below `n`, in the order in which they are drawn. Fast if they are few.
pub fn sample_in_turn(n: u32, n_drawn: u32, draw: &mut dyn Draw) -> Vec<u32> {
    let mut drawn = Vec::with_capacity(n_drawn.min(n) as usize);
    let mut taken: Vec<u32> = Vec::with_capacity(drawn.capacity());
    for n_taken in 0..n_drawn.min(n) {
        // Rank among the numbers that are not taken.
        let nth = draw.below(n - n_taken);
        let n_before = (0..).zip(&taken).take_while(|(k, number)| **number <= nth + k).count();
        let number = nth + n_before as u32;
        taken.insert(n_before, number);
        drawn.push(number);
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every ordered pair out of five is equally likely, and drawing all numbers gives a permutation.
    #[test]
    fn samples_are_even() {
        let mut draw = Seeded::new(1);
        let mut counts = [[0; 5]; 5];
        for _ in 0..20_000 {
            let pair = sample_in_turn(5, 2, &mut draw);
            counts[pair[0] as usize][pair[1] as usize] += 1;
        }
        for (a, row) in counts.iter().enumerate() {
            for (b, &count) in row.iter().enumerate() {
                assert!(if a == b { count == 0 } else { (850..1150).contains(&count) }, "{counts:?}");
            }
        }
        let mut all = sample_in_turn(9, 20, &mut draw);
        assert_ne!(all, (0..9).collect::<Vec<_>>());
        all.sort_unstable();
        assert_eq!(all, (0..9).collect::<Vec<_>>());
    }
}
