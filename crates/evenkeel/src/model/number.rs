//! Exact numbers where `f64` would not be exact: fractions, and decimals with nine places.

use std::cmp::Ordering;
use std::fmt;

const NANOS: u128 = 1_000_000_000;

/// A number with nine decimals: when a transfer starts, and how many blocks it has.
///
/// It is whole where all servers have speed 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fixed {
    // Three words of 32 bits, compared in this order, so that a row of a plan is small.
    high: u32,
    low: u32,
    nanos: u32,
}

impl Fixed {
    /// Zero.
    pub const ZERO: Self = Self { high: 0, low: 0, nanos: 0 };

    /// The number `nanos / 10⁹`; `None` if it is 2⁶⁴ or more.
    #[inline]
    pub fn from_nanos(nanos: u128) -> Option<Self> {
        // Mostly small, and then much faster.
        if let Ok(nanos) = u64::try_from(nanos) {
            let whole = nanos / NANOS as u64;
            return Some(Self { nanos: (nanos % NANOS as u64) as u32, ..whole.into() });
        }
        let whole = u64::try_from(nanos / NANOS).ok()?;
        Some(Self { nanos: (nanos % NANOS) as u32, ..whole.into() })
    }

    /// The number times 10⁹.
    #[inline]
    pub fn nanos(self) -> u128 {
        u128::from(self.floor()) * NANOS + u128::from(self.nanos)
    }

    /// The largest whole number that is not above it.
    #[inline]
    pub fn floor(self) -> u64 {
        u64::from(self.high) << 32 | u64::from(self.low)
    }

    /// The number, if it is whole.
    #[inline]
    pub fn whole(self) -> Option<u64> {
        (self.nanos == 0).then(|| self.floor())
    }

    /// Whether it is zero.
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }
}

impl From<u64> for Fixed {
    #[inline]
    fn from(whole: u64) -> Self {
        Self { high: (whole >> 32) as u32, low: whole as u32, nanos: 0 }
    }
}

/// Prints as few decimals as represent it exactly.
impl fmt::Display for Fixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return write!(f, "{}", self.floor());
        }
        let decimals = format!("{:09}", self.nanos);
        write!(f, "{}.{}", self.floor(), decimals.trim_end_matches('0'))
    }
}

/// An exact fraction: a length, a load or a bound, in units of the time that a block takes at speed 1.
#[derive(Clone, Copy, Debug)]
pub struct Ratio {
    numerator: u128,
    denominator: u64,
}

impl Ratio {
    /// Zero.
    pub const ZERO: Self = Self { numerator: 0, denominator: 1 };

    /// `numerator / denominator`, in lowest terms; a denominator of 0 counts as 1.
    pub fn new(numerator: u128, denominator: u64) -> Self {
        let denominator = denominator.max(1);
        let divisor = gcd(numerator, u128::from(denominator)).max(1);
        Self { numerator: numerator / divisor, denominator: (u128::from(denominator) / divisor) as u64 }
    }

    /// The numerator in lowest terms.
    pub fn numerator(self) -> u128 {
        self.numerator
    }

    /// The denominator in lowest terms.
    pub fn denominator(self) -> u64 {
        self.denominator
    }

    /// Rounded to nine decimals, halves up. Values that are too large saturate.
    pub fn rounded(self) -> Fixed {
        let denominator = u128::from(self.denominator);
        let (whole, rest) = (self.numerator / denominator, self.numerator % denominator);
        let nanos = (rest * NANOS + denominator / 2) / denominator;
        let most = u128::from(u64::MAX) * NANOS;
        let nanos = whole.saturating_mul(NANOS).saturating_add(nanos).min(most);
        Fixed::from_nanos(nanos).unwrap_or(u64::MAX.into())
    }

    /// The nearest float.
    pub fn to_f64(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }

    /// The ratio of this to `other`; 1 if both are 0.
    pub fn over(self, other: Self) -> f64 {
        match (self.numerator, other.numerator) {
            (0, 0) => 1.0,
            _ => self.to_f64() / other.to_f64(),
        }
    }
}

impl Default for Ratio {
    fn default() -> Self {
        Self::ZERO
    }
}

impl From<u64> for Ratio {
    fn from(whole: u64) -> Self {
        Self { numerator: whole.into(), denominator: 1 }
    }
}

impl From<Fixed> for Ratio {
    fn from(fixed: Fixed) -> Self {
        Self::new(fixed.nanos(), NANOS as u64)
    }
}

impl Ord for Ratio {
    fn cmp(&self, other: &Self) -> Ordering {
        // Compares whole parts, then the inverses of the rests, as in Euclid's algorithm: nothing overflows.
        let (mut a, mut b) = (*self, *other);
        let mut reversed = false;
        loop {
            let (p, q) = (u128::from(a.denominator), u128::from(b.denominator));
            let by_whole = (a.numerator / p).cmp(&(b.numerator / q));
            let (rest_a, rest_b) = ((a.numerator % p) as u64, (b.numerator % q) as u64);
            let order = match (by_whole, rest_a, rest_b) {
                (Ordering::Equal, 0, 0) => Ordering::Equal,
                (Ordering::Equal, 0, _) => Ordering::Less,
                (Ordering::Equal, _, 0) => Ordering::Greater,
                (Ordering::Equal, ..) => {
                    a = Self { numerator: p, denominator: rest_a };
                    b = Self { numerator: q, denominator: rest_b };
                    reversed = !reversed;
                    continue;
                }
                (order, ..) => order,
            };
            return if reversed { order.reverse() } else { order };
        }
    }
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ratio {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ratio {}

/// Prints nine decimals.
impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rounded().fmt(f)
    }
}

/// The greatest common divisor.
pub(crate) fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_compared_exactly() {
        let numerators = [0, 1, 2, 3, 7, u128::from(u64::MAX), u128::from(u64::MAX) - 1];
        let denominators = [1, 2, 3, 7, u64::MAX, u64::MAX - 1];
        for a in numerators {
            for b in denominators {
                for c in numerators {
                    for d in denominators {
                        let order = Ratio::new(a, b).cmp(&Ratio::new(c, d));
                        assert_eq!(order, (a * u128::from(d)).cmp(&(c * u128::from(b))), "{a}/{b} {c}/{d}");
                    }
                }
            }
        }
        assert!(Ratio::new(u128::MAX, 3) > Ratio::new(u128::MAX - 1, 3));
    }

    #[test]
    fn nine_decimals_and_no_more_than_needed() {
        let shown = |n, d| Ratio::new(n, d).to_string();
        assert_eq!([shown(1, 3), shown(2, 3), shown(10, 4)], ["0.333333333", "0.666666667", "2.5"]);
        assert_eq!(shown(1_999_999_999_999, 1_000_000_000_000), "2");
        assert_eq!(shown(u128::MAX, 1), u64::MAX.to_string());
        let fixed = Fixed::from_nanos(12_000_000_340).expect("small");
        assert_eq!((fixed.to_string().as_str(), fixed.nanos()), ("12.00000034", 12_000_000_340));
        assert_eq!(Fixed::from(u64::MAX).whole(), Some(u64::MAX));
        assert!(Fixed::from_nanos(u128::from(u64::MAX) * 1_000_000_000 + 1_000_000_000).is_none());
        assert!(Fixed::from(1 << 32) > Fixed::from(u64::from(u32::MAX)));
    }
}
