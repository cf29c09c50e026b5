//! e^x with the same bits on every machine, which the platform's own `exp` does not guarantee.

/// ln 2 in two parts. The first has so few digits that its multiples below 2^11 are exact.
const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// Beyond these, e^x is infinite, or so small that it is 0.
const LARGEST: f64 = 709.782_712_893_384;
const SMALLEST: f64 = -745.133_219_101_941_2;

/// 1.5 · 2^52: a sum of about this size has no fractional digits, so adding it rounds.
const NO_DIGITS: f64 = 6_755_399_441_055_744.0;

/// 1/k! for k from 15 down to 2, even and odd ones. The next term of the series is below 2^-60 where |x| ≤ (ln 2)/2.
const TERMS: [[f64; 2]; 7] = {
    let mut terms = [[0.0; 2]; 7];
    let (mut k, mut factorial) = (2, 2.0);
    while k <= 15 {
        terms[(15 - k) / 2][k % 2] = 1.0 / factorial;
        k += 1;
        factorial *= k as f64;
    }
    terms
};

/// e^x to about one unit in the last place: 2^n e^r, and the series for the small rest r. Uses only additions and
/// multiplications.
pub(super) fn exp(x: f64) -> f64 {
    match x {
        _ if x > LARGEST => return f64::INFINITY,
        _ if x < SMALLEST => return 0.0,
        _ if x.is_nan() => return x,
        _ => {}
    }
    // Faster than `round`, which may be a call.
    let n = (x * std::f64::consts::LOG2_E + NO_DIGITS) - NO_DIGITS;
    let rest = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    let square = rest * rest;
    // Two sums at once are faster than one of twice the length.
    let [even, odd] =
        TERMS.iter().fold([0.0; 2], |sum, term| [sum[0] * square + term[0], sum[1] * square + term[1]]);
    let grown = 1.0 + (rest + square * (even + rest * odd));
    // In two steps, as 2^n alone may be out of a float's range.
    let n = n as i64;
    grown * power_of_2(n / 2) * power_of_2(n - n / 2)
}

/// 2^n for a whole n from -1022 to 1023: just an exponent.
fn power_of_2(n: i64) -> f64 {
    f64::from_bits(((n + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::exp;

    /// Whole thousandths over the whole range, including values that floats can hardly hold.
    fn grid() -> impl Iterator<Item = f64> {
        (-746_000..=709_782).map(|k| f64::from(k) / 1000.0)
    }

    #[test]
    fn as_exact_as_the_platform() {
        for x in grid().chain((-400..=0).map(|k| f64::from(k).exp2())) {
            let (found, wanted) = (exp(x), x.exp());
            // Below the smallest normal number digits are lost, so only the last one may differ.
            let tolerance = (wanted * 1e-15).max(f64::from_bits(1));
            assert!((found - wanted).abs() <= tolerance, "{x}: {found:e} {wanted:e}");
        }
    }

    #[test]
    fn never_falls() {
        grid().zip(grid().skip(1)).for_each(|(less, more)| assert!(exp(less) <= exp(more), "{less} {more}"));
        // Nor where the power of two changes, from one float to the next.
        for n in -1000..1000 {
            let border = (f64::from(n) + 0.5) * std::f64::consts::LN_2;
            let (mut before, mut x) = (0.0, border * (1.0 - border.signum() * 1e-14));
            for _ in 0..200 {
                let now = exp(x);
                assert!(before <= now, "{x}");
                (before, x) = (now, x.next_up());
            }
        }
    }

    /// The bits themselves, as they are on every machine.
    #[test]
    fn the_same_everywhere() {
        let bits = [-700.0, -1.0, -0.1, 0.5, 30.0].map(|x| exp(x).to_bits());
        let wanted = [
            58_915_316_498_509_951,
            4_600_298_746_774_613_816,
            4_606_325_270_462_671_674,
            4_610_103_999_673_009_820,
            4_801_805_078_135_318_765,
        ];
        assert_eq!(bits, wanted);
    }

    #[test]
    fn edges() {
        let bits = |numbers: [f64; 3]| numbers.map(f64::to_bits);
        let (zero, one, infinite) = (0.0_f64.to_bits(), 1.0_f64.to_bits(), f64::INFINITY.to_bits());
        assert_eq!(bits([exp(0.0), exp(-0.0), exp(1e-300)]), [one; 3]);
        assert_eq!(bits([exp(f64::INFINITY), exp(710.0), exp(f64::MAX)]), [infinite; 3]);
        assert_eq!(bits([exp(f64::NEG_INFINITY), exp(-746.0), exp(-745.1)]), [zero, zero, 1]);
        assert!(exp(f64::NAN).is_nan() && exp(709.78).is_finite());
    }
}
