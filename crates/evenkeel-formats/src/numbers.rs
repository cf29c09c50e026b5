//! Numbers in text, with errors that say what is wrong with them.

use evenkeel::model::{Fixed, MAX_SLOTS, Speed, shown};
use evenkeel_sim::units::{Bytes, PerSecond, Span};

/// A whole number of at most 64 bits.
pub(crate) fn whole(text: &str, what: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(number) if !text.starts_with('+') => Ok(number),
        _ => Err(why_not_whole(text, what)),
    }
}

fn why_not_whole(text: &str, what: &str) -> String {
    let text = &shown(text)[..];
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if text.is_empty() {
        format!("the {what} is missing; write a whole number")
    } else if digits(text) {
        format!("the {what} {text} does not fit in 64 bits")
    } else if text.strip_prefix('-').is_some_and(digits) {
        format!("the {what} {text} is negative; write a whole number, 0 or more")
    } else if text.parse::<f64>().is_ok_and(f64::is_finite) {
        format!("the {what} `{text}` is not whole; write a whole number")
    } else {
        format!("the {what} `{text}` is not a number; write a whole number")
    }
}

/// A number of bytes, written as 4096 or as 64MB. Errors call it `what`.
pub fn size(text: &str, what: &str) -> Result<u64, String> {
    let Err(why_not) = whole(text, what) else { return whole(text, what) };
    // Text without a unit is reported like any wrong number.
    if text.is_empty() || text.starts_with('+') || text.parse::<f64>().is_ok() {
        return Err(why_not);
    }
    let size = text.parse().map(|Bytes(bytes)| bytes);
    size.map_err(|_| {
        format!("the {what} `{}` is not a size; write bytes such as 4096, or 64kB, 1.5MB, 64MiB", shown(text))
    })
}

/// Bytes per second, written as 120MB/s, 1Gb/s or 120000000.
pub fn rate(text: &str) -> Result<u64, String> {
    let with_unit = text.parse().map(|PerSecond(rate)| (rate * 1e9).round() as u64);
    let rate = text.parse().ok().or(with_unit.ok()).filter(|&rate| rate > 0 && !text.starts_with('+'));
    rate.ok_or_else(|| {
        let text = shown(text);
        format!(
            "the rate `{text}` is not a rate; write 120MB/s, 1Gb/s (bits), or a number of bytes per second"
        )
    })
}

/// Nanoseconds as seconds, with as many decimals as needed.
pub(crate) fn seconds(nanos: u64) -> String {
    Fixed::from_nanos(nanos.into()).unwrap_or_default().to_string()
}

/// A number of concurrent transfers.
pub(crate) fn slots(text: &str) -> Result<u32, String> {
    let slots = whole(text, "number of slots")?;
    match u32::try_from(slots) {
        Ok(0) => Err("a node cannot have 0 slots; write 1 or more".to_owned()),
        Ok(slots) if slots <= MAX_SLOTS => Ok(slots),
        _ => Err(format!("{slots} slots are too many; write at most {MAX_SLOTS}")),
    }
}

/// A non-negative decimal number with at most nine decimals. Errors call it `what`.
pub fn decimal(text: &str, what: &str) -> Result<Fixed, String> {
    if text.is_empty() {
        return whole(text, what).map(Fixed::from);
    }
    let (whole_part, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let all_digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if !all_digits(whole_part) || !all_digits(decimals) || decimals.len() > 9 {
        let text = shown(text);
        return Err(format!(
            "the {what} `{text}` is not a number, 0 or more, with at most 9 decimals; write 1 or 0.25, say"
        ));
    }
    let whole = u128::from(whole(whole_part, what)?);
    let nanos: u128 = format!("{decimals:0<9}").parse().map_err(|_| format!("the {what} is not a number"))?;
    Fixed::from_nanos(whole * 1_000_000_000 + nanos)
        .ok_or_else(|| format!("the {what} does not fit in 64 bits"))
}

/// When a request arrives, in nanoseconds: a decimal number of seconds, or a duration such as `10ms`.
pub(crate) fn arrival_ns(text: &str) -> Result<u64, String> {
    let seconds = decimal(text, "arrival").ok().and_then(|seconds| u64::try_from(seconds.nanos()).ok());
    let ns = seconds.or_else(|| text.parse().ok().map(|Span(ns)| ns));
    ns.ok_or_else(|| {
        let text = shown(text);
        format!("the arrival `{text}` is not a time; write seconds such as 0.25, or a span such as 10ms")
    })
}

/// A decimal number above 0 with at most six decimals.
pub(crate) fn speed(text: &str) -> Result<Speed, String> {
    let wrong = || {
        let text = shown(text);
        format!("the speed `{text}` is not a number above 0 with at most 6 decimals, such as 2 or 0.5")
    };
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let all_digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if !all_digits(whole) || !all_digits(decimals) || decimals.len() > 6 {
        return Err(wrong());
    }
    let too_large = || format!("the speed {} is too large; write at most 1000000000000", shown(text));
    let whole: u64 = whole.parse().map_err(|_| too_large())?;
    let millionths: u64 = format!("{decimals:0<6}").parse().map_err(|_| wrong())?;
    let millionths = whole.checked_mul(1_000_000).and_then(|w| w.checked_add(millionths));
    match millionths.ok_or_else(too_large)? {
        0 => Err(wrong()),
        millionths => Speed::from_millionths(millionths).ok_or_else(too_large),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_and_what_is_wrong_with_others() {
        assert_eq!(whole("18446744073709551615", "size"), Ok(u64::MAX));
        for (text, complaint) in [
            ("", "missing"),
            ("-3", "negative"),
            ("1.5", "not whole"),
            ("1e3", "not whole"),
            ("18446744073709551616", "64 bits"),
            ("ten", "not a number"),
            ("+1", "not whole"),
            (" 1", "not a number"),
        ] {
            let error = whole(text, "size").unwrap_err();
            assert!(error.contains(complaint), "{text}: {error}");
        }
    }

    #[test]
    fn speeds_are_exact_or_refused() {
        for (text, millionths) in [
            ("1", 1_000_000),
            ("0.5", 500_000),
            ("0.000001", 1),
            ("10.25", 10_250_000),
            ("1000000000000", 1_000_000_000_000_000_000),
        ] {
            assert_eq!(speed(text).map(Speed::millionths), Ok(millionths), "{text}");
        }
        for text in [
            "0",
            "0.0",
            "-1",
            "NaN",
            "inf",
            "1e3",
            "0.0000001",
            "1.",
            ".5",
            "",
            "1000000000000.000001",
            "99999999999999999999",
        ] {
            assert!(speed(text).is_err(), "{text}");
        }
    }
}
