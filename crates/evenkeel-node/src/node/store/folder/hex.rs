//! Bytes as people write them.

use std::fmt::Write as _;

pub(super) fn encode(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string succeeds.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect();
    digits
        .filter(|digits| digits.len() % 2 == 0)
        .map(|digits| digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}
