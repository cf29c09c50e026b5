//! Spans of time, sizes and rates, as users write them.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer, Visitor};

use crate::hardware::Rate;

/// A text that is not a span of time, a size or a rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {wanted}")]
pub struct UnitError {
    text: String,
    wanted: &'static str,
}

/// A span of time: `250ns`, `1.5us`, `20ms`, `3s`, `10min`, `2h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub u64);

/// A size: `4096`, `64kB`, `1.5MB`, `64MiB`, `1GiB`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

/// A rate: `100MB/s`, `10Gb/s` (bits), `1GiB/s`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct PerSecond(pub Rate);

const SPANS: &str = "a span of time: write it as `250ns`, `20us`, `1.5ms`, `3s`, `10min` or `2h`";
const SIZES: &str = "a size: write it as `4096`, `64kB`, `1.5MB`, `64MiB` or `1GiB`";
const RATES: &str = "a rate: write it as `100MB/s`, `1GiB/s` or, in bits, `10Gb/s`";

const SPAN_UNITS: [(&str, u64); 7] = [
    ("ns", 1),
    ("us", 1000),
    ("µs", 1000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
const SIZE_UNITS: [(&str, u64); 13] = [
    ("", 1),
    ("B", 1),
    ("kB", 1000),
    ("KB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("PB", 1_000_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("PiB", 1 << 50),
];
const BIT_UNITS: [(&str, u64); 4] =
    [("kb", 125), ("Mb", 125_000), ("Gb", 125_000_000), ("Tb", 125_000_000_000)];

/// The number before a unit, times the value of the unit. The result is exact: a numerator and a power of ten as the
/// denominator.
fn parse(text: &str, units: &[(&str, u64)]) -> Option<(u128, u128)> {
    const MOST: u128 = 1_000_000_000_000_000_000;
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    // Underscores are allowed only between digits, as in TOML.
    let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    let mut joints = text[..end].match_indices('_');
    if joints.any(|(k, _)| !is_digit(text[..k].chars().last()) || !is_digit(text[k + 1..].chars().next())) {
        return None;
    }
    let number = text[..end].replace('_', "");
    let (whole, decimals) = number.split_once('.').unwrap_or((&number, ""));
    if whole.len() > 18 || decimals.len() > 18 || decimals.contains('.') {
        return None;
    }
    let denominator = 10_u128.pow(decimals.len() as u32);
    let numerator: u128 = format!("{whole}{decimals}").parse().ok()?;
    let unit = text[end..].trim();
    let &(_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    let value = numerator.checked_mul(factor.into())?;
    (value <= MOST * denominator).then_some((value, denominator))
}

/// Rounds to the nearest whole number.
fn rounded((numerator, denominator): (u128, u128)) -> u64 {
    ((numerator + denominator / 2) / denominator) as u64
}

impl FromStr for Span {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let ns = parse(text, &SPAN_UNITS).map(|ns| Self(rounded(ns)));
        ns.ok_or_else(|| UnitError { text: text.to_owned(), wanted: SPANS })
    }
}

impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bytes = parse(text, &SIZE_UNITS).map(|bytes| Self(rounded(bytes)));
        bytes.ok_or_else(|| UnitError { text: text.to_owned(), wanted: SIZES })
    }
}

impl FromStr for PerSecond {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let size = text.trim().strip_suffix("/s");
        let bytes = size.and_then(|size| parse(size, &SIZE_UNITS).or_else(|| parse(size, &BIT_UNITS)));
        let bytes = bytes.map(|(numerator, denominator)| numerator as f64 / denominator as f64);
        let rate = bytes.filter(|bytes| *bytes > 0.0).map(|bytes| Self(bytes / 1e9));
        rate.ok_or_else(|| UnitError { text: text.to_owned(), wanted: RATES })
    }
}

/// Accepts a string or, where a plain number makes sense, a number.
struct Written<T> {
    wanted: &'static str,
    from_number: fn(u64) -> Option<T>,
}

impl<T: FromStr<Err = UnitError>> Visitor<'_> for Written<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.wanted)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        let not_it = || UnitError { text: number.to_string(), wanted: self.wanted };
        (self.from_number)(number).ok_or_else(|| E::custom(not_it()))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        let not_it = UnitError { text: number.to_string(), wanted: self.wanted };
        let number = u64::try_from(number).ok().and_then(self.from_number);
        number.ok_or_else(|| E::custom(not_it))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Written { wanted: SPANS, from_number: |n| (n == 0).then_some(Self(0)) })
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Written { wanted: SIZES, from_number: |n| Some(Self(n)) })
    }
}

impl<'de> Deserialize<'de> for PerSecond {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Written { wanted: RATES, from_number: |_| None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_exact() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("64kB", 64_000),
            ("64KB", 64_000),
            ("64 MB", 64_000_000),
            ("1.5GiB", 1_610_612_736),
            ("1_000", 1000),
            ("0.1MB", 100_000),
            ("123456789.123456789GB", 123_456_789_123_456_789),
            ("1.3MiB", 1_363_149),
            ("0.5PiB", 1 << 49),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for text in
            ["", "MB", "-1MB", "1e3", "64mb", "64M", "1.2.3MB", "1001PB", "2000000000GB", "1 0MB", "NaN"]
        {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
        assert_eq!("2.5us".parse(), Ok(Span(2500)));
        assert_eq!(
            ["120MB/s", "8Mb/s"].map(|text| text.parse().ok()),
            [Some(PerSecond(0.12)), Some(PerSecond(0.001))]
        );
    }
}
