//! Fractions for the oracles: nothing is rounded, and nothing is shared with the core's own numbers.

use std::cmp::Ordering;
use std::iter::Sum;
use std::ops::{Add, Div, Mul, Sub};

use evenkeel::model::{Fixed, Ratio, Speed};

/// An exact fraction of 128 bits above and below the line, in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exact {
    over: u128,
    under: u128,
}

impl Exact {
    pub(crate) const ZERO: Self = Self { over: 0, under: 1 };

    pub(crate) fn new(over: u128, under: u128) -> Self {
        let common = gcd(over, under);
        Self { over: over / common, under: under / common }
    }

    /// How long so many blocks take.
    pub(crate) fn time(blocks: u64, speed: Speed) -> Self {
        Self::new(u128::from(blocks) * 1_000_000, speed.millionths().into())
    }

    /// The difference, whichever is larger.
    pub(crate) fn distance(self, other: Self) -> Self {
        self.max(other) - self.min(other)
    }

    /// How far it is from the nearest whole number.
    pub(crate) fn off_whole(self) -> Self {
        let rest = self.over % self.under;
        Self::new(rest.min(self.under - rest), self.under)
    }

    /// The fraction as the core has it, if that is precise enough.
    pub(crate) fn ratio(self) -> Option<Ratio> {
        u64::try_from(self.under).ok().map(|under| Ratio::new(self.over, under))
    }
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl From<u64> for Exact {
    fn from(whole: u64) -> Self {
        Self::new(whole.into(), 1)
    }
}

impl From<Fixed> for Exact {
    fn from(fixed: Fixed) -> Self {
        Self::new(fixed.nanos(), 1_000_000_000)
    }
}

impl From<Ratio> for Exact {
    fn from(ratio: Ratio) -> Self {
        Self::new(ratio.numerator(), ratio.denominator().into())
    }
}

impl Add for Exact {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let factor = other.under / gcd(self.under, other.under);
        let under = self.under * factor;
        Self::new(self.over * factor + other.over * (under / other.under), under)
    }
}

impl Sub for Exact {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        let factor = other.under / gcd(self.under, other.under);
        let under = self.under * factor;
        Self::new(self.over * factor - other.over * (under / other.under), under)
    }
}

impl Mul for Exact {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let (a, b) = (Self::new(self.over, other.under), Self::new(other.over, self.under));
        Self { over: a.over * b.over, under: a.under * b.under }
    }
}

impl Div<u32> for Exact {
    type Output = Self;

    fn div(self, divisor: u32) -> Self {
        let common = gcd(self.over, divisor.into());
        Self { over: self.over / common, under: u128::from(divisor) / common * self.under }
    }
}

impl Sum for Exact {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::ZERO, Self::add)
    }
}

impl Ord for Exact {
    fn cmp(&self, other: &Self) -> Ordering {
        let (whole, other_whole) = (self.over / self.under, other.over / other.under);
        let (rest, other_rest) = (self.over % self.under, other.over % other.under);
        whole.cmp(&other_whole).then_with(|| match (rest, other_rest) {
            (0, _) | (_, 0) => rest.cmp(&other_rest),
            // Of two fractions below 1, the one with the smaller inverse is larger.
            _ => Self { over: other.under, under: other_rest }.cmp(&Self { over: self.under, under: rest }),
        })
    }
}

impl PartialOrd for Exact {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[test]
fn fractions_add_and_compare() {
    let [half, third] = [Exact::new(2, 4), Exact::new(1, 3)];
    assert_eq!(half + third, Exact::new(5, 6));
    assert_eq!(half - third, Exact::new(1, 6));
    assert_eq!(half * third / 5, Exact::new(1, 30));
    assert_eq!(third.distance(half), Exact::new(1, 6));
    assert_eq!(Exact::new(8, 3).off_whole(), third);
    let ascending = [Exact::ZERO, third, half, Exact::new(2, 3), 1.into(), Exact::new(7, 3)];
    assert!(ascending.is_sorted_by(|a, b| a < b));
    assert!(Exact::new(u128::MAX - 1, u128::MAX) < 1.into());
}
