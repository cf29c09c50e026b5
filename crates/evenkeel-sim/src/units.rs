//! How people write spans of time, sizes and rates.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer, Visitor};

use crate::hardware::Rate;

/// What is not a span, a size or a rate.
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

const SPAN_UNITS: [(&str, f64); 7] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 6e10), ("h", 3.6e12)];
const SIZE_UNITS: [(&str, f64); 10] = [
    ("", 1.0),
    ("B", 1.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
];
const BIT_UNITS: [(&str, f64); 4] = [("kb", 125.0), ("Mb", 125e3), ("Gb", 125e6), ("Tb", 125e9)];

/// The number before a unit, times what the unit stands for.
fn parse(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    let number: f64 = text[..end].replace('_', "").parse().ok()?;
    let unit = text[end..].trim();
    let &(_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    Some(number * factor).filter(|value| *value <= 1e18)
}

impl FromStr for Span {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let ns = parse(text, &SPAN_UNITS).map(|ns| Self((ns + 0.5) as u64));
        ns.ok_or_else(|| UnitError { text: text.to_owned(), wanted: SPANS })
    }
}

impl FromStr for Bytes {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bytes = parse(text, &SIZE_UNITS).map(|bytes| Self((bytes + 0.5) as u64));
        bytes.ok_or_else(|| UnitError { text: text.to_owned(), wanted: SIZES })
    }
}

impl FromStr for PerSecond {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let size = text.trim().strip_suffix("/s");
        let bytes = size.and_then(|size| parse(size, &SIZE_UNITS).or_else(|| parse(size, &BIT_UNITS)));
        let rate = bytes.filter(|bytes| *bytes > 0.0).map(|bytes| Self(bytes / 1e9));
        rate.ok_or_else(|| UnitError { text: text.to_owned(), wanted: RATES })
    }
}

/// Takes a string, or where a plain number makes sense, that.
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
