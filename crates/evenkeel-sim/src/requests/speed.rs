//! The time of a block at speed 1.

/// A speed has six decimals.
const MILLIONTHS: f64 = 1e6;
/// Tolerance within which a ratio counts as a whole number, since times are floats.
const NEARLY: f64 = 1e-9;
/// Upper limit of speeds.
const MOST: f64 = 1e6;

/// The time of a block at speed 1, from the times a block takes at each server. It is the time of the first server if
/// six decimals are enough for all speeds, otherwise the time at which all speeds are whole, if there is one. So a plan
/// for servers of speeds 2.1 and 2 is the same here as from their file.
pub(super) fn unit(spans_ns: &[f64]) -> f64 {
    let Some(&first_ns) = spans_ns.first() else { return 1.0 };
    let fits = |unit_ns: f64, decimals: f64| {
        spans_ns.iter().all(|span_ns| {
            let speed = unit_ns / span_ns;
            let scaled = speed * decimals;
            speed <= MOST && (scaled - (scaled + 0.5).floor()).abs() <= NEARLY * scaled.max(1.0)
        })
    };
    if fits(first_ns, MILLIONTHS) {
        return first_ns;
    }
    let rate = spans_ns.iter().map(|span_ns| first_ns / span_ns).fold(0.0, common_measure);
    let unit_ns = first_ns / rate;
    if unit_ns.is_finite() && fits(unit_ns, 1.0) { unit_ns } else { first_ns }
}

/// The largest number of which both are multiples, within the precision of floats.
fn common_measure(mut a: f64, mut b: f64) -> f64 {
    let least = (a.max(b)) * NEARLY;
    while b > least {
        (a, b) = (b, a % b);
        // A number just below a multiple counts as a multiple.
        if a - b < least {
            b = 0.0;
        }
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_exact_if_they_can_be() {
        let speeds = |speeds: &[f64]| {
            let spans: Vec<f64> = speeds.iter().map(|speed| 640e6 / speed).collect();
            let unit_ns = unit(&spans);
            spans.iter().map(|span_ns| (unit_ns / span_ns * 1e6 + 0.5) as u64).collect::<Vec<u64>>()
        };
        assert_eq!(speeds(&[1.0, 2.0, 0.5]), [1_000_000, 2_000_000, 500_000]);
        assert_eq!(speeds(&[3.0, 3.0]), [1_000_000, 1_000_000]);
        assert_eq!(speeds(&[3.0, 1.0, 0.5]), [6_000_000, 2_000_000, 1_000_000]);
        assert_eq!(speeds(&[2.1, 2.0]), [21_000_000, 20_000_000]);
        // No unit fits: the speeds are rounded to six decimals.
        assert_eq!(speeds(&[3.0, 2.0_f64.sqrt()]), [1_000_000, 471_405]);
        assert!(unit(&[]) > 0.0);
    }
}
