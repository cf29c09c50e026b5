//! Redirects: where the bytes of an object are, if they are not at its home.
//!
//! An object's *home* is computed from its name. What the home holds under that name is the only authority: the bytes
//! themselves, or a redirect, which is an object like any other but for its mark in the metadata. Its body names the
//! servers that hold the bytes, piece by piece, under names that are used once. So a write elsewhere takes three
//! steps: data at the holders, durable; the redirect at home, durable; the acknowledgement. A reader that sees the
//! redirect sees all of the data, and whoever replaces the redirect replaces all of it, in one step.
//!
//! The same works on servers that know nothing of Evenkeel; a node also answers for a redirect with the bytes.

use std::collections::BTreeMap;
use std::time::Duration;

use crc_fast::{CrcAlgorithm, checksum, checksum_combine};
use serde::{Deserialize, Serialize};

/// The metadata that marks a redirect (`x-amz-meta-…`). Its value is the format: `1`, or `2` if there are holes.
pub const MARK: &str = "evenkeel-redirect";
/// The metadata of a redirect that has the size of the object.
pub const BYTES: &str = "evenkeel-bytes";
/// The metadata of a redirect that has the entity tag of the object, without quotes.
pub const ETAG: &str = "evenkeel-etag";
/// The metadata of a held piece that names the object it belongs to, percent-encoded.
pub const OF: &str = "evenkeel-of";
/// The metadata of a held piece that names the home of that object.
pub const HOME: &str = "evenkeel-home";
/// What names of held pieces begin with. Listings do not show them.
pub const HELD: &str = ".evenkeel/held/";
/// The header by which a maintainer says that a transfer is its own: nodes do not count it as work.
pub const MAINTENANCE: &str = "x-evenkeel-maintenance";
/// A longer redirect is none.
pub const MOST_BYTES: usize = 4 << 20;
/// Where an object was written into, what begins in a stripe of this size belongs to one server, as pieces of large objects do.
pub const STRIPE_BYTES: u64 = 16 << 20;
/// A piece is named by a redirect so long after it was begun at the latest, or never. Whoever collects pieces that nothing
/// names leaves younger ones alone: their redirect may be on its way.
pub const NAMED_WITHIN: Duration = Duration::from_hours(12);

/// Where the bytes of an object are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redirect {
    format: u32,
    /// The size of the object.
    pub bytes: u64,
    /// Its entity tag, without quotes.
    pub etag: String,
    /// Its pieces, in order. Together they are the whole object.
    pub pieces: Vec<Held>,
}

/// A piece of an object, held by a server under a name of its own. Without a server it is a hole: bytes that nobody wrote,
/// which read as zeros.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Held {
    /// The name of the server in the cluster file.
    pub server: String,
    /// The name of the piece there, in the bucket of the object.
    pub key: String,
    /// Its size.
    pub bytes: u64,
    /// The CRC-32C of its bytes.
    pub crc32c: u32,
}

impl Held {
    /// So many zeros, which nobody holds.
    pub fn hole(bytes: u64) -> Self {
        Self { server: String::new(), key: String::new(), bytes, crc32c: crc32c_of_zeros(bytes) }
    }

    /// Whether it is zeros that nobody holds.
    pub fn is_hole(&self) -> bool {
        self.server.is_empty() && self.key.is_empty()
    }
}

/// The CRC-32C of so many zeros, from those of powers of two.
fn crc32c_of_zeros(bytes: u64) -> u32 {
    const CRC: CrcAlgorithm = CrcAlgorithm::Crc32Iscsi;
    let (mut all, mut power) = (0, checksum(CRC, &[0]));
    for bit in 0..u64::BITS {
        if bytes >> bit & 1 == 1 {
            all = checksum_combine(CRC, all, power, 1 << bit);
        }
        if bytes >> bit <= 1 {
            break;
        }
        power = checksum_combine(CRC, power, power, 1 << bit);
    }
    all as u32
}

/// What is marked as a redirect is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its redirect cannot be used: {0}")]
pub struct BadRedirect(pub String);

impl Redirect {
    /// A redirect to these pieces.
    pub fn new(etag: String, pieces: Vec<Held>) -> Self {
        let bytes = pieces.iter().map(|piece| piece.bytes).sum();
        // Versions that know no holes do not take them for something else.
        let format = if pieces.iter().any(Held::is_hole) { 2 } else { 1 };
        Self { format, bytes, etag, pieces }
    }

    /// Whether an object with this metadata is a redirect.
    pub fn is_marked(user: &BTreeMap<String, String>) -> bool {
        user.contains_key(MARK)
    }

    /// The metadata of its object.
    pub fn metadata(&self) -> BTreeMap<String, String> {
        let pairs =
            [(MARK, self.format.to_string()), (BYTES, self.bytes.to_string()), (ETAG, self.etag.clone())];
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// The body of its object.
    pub fn to_json(&self) -> Vec<u8> {
        // Plain data always has a text.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads the body of an object that is marked as a redirect.
    pub fn parse(body: &[u8]) -> Result<Self, BadRedirect> {
        let wrong = |why: &str| Err(BadRedirect(why.to_owned()));
        if body.len() > MOST_BYTES {
            return wrong("it is too long");
        }
        let read: Self = serde_json::from_slice(body).map_err(|error| BadRedirect(error.to_string()))?;
        if !(1..=2).contains(&read.format) {
            return Err(BadRedirect(format!("its format {} is not known; use a newer version", read.format)));
        }
        let sum = read.pieces.iter().try_fold(0_u64, |sum, piece| sum.checked_add(piece.bytes));
        if sum != Some(read.bytes) {
            return wrong("its pieces do not add up to its size");
        }
        let (holes, held): (Vec<&Held>, Vec<&Held>) = read.pieces.iter().partition(|piece| piece.is_hole());
        if held.iter().any(|piece| !piece.key.starts_with(HELD) || piece.server.is_empty()) {
            return wrong("a piece has no server, or a name that no held piece has");
        }
        if read.format == 1 && !holes.is_empty() {
            return wrong("it has a hole, which its format does not have");
        }
        if holes.iter().any(|hole| hole.crc32c != crc32c_of_zeros(hole.bytes)) {
            return wrong("the checksum of a hole is not that of zeros");
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_zeros() {
        for n in [0, 1, 2, 3, 7, 64, 1000, 65_537] {
            let zeros = vec![0; n];
            assert_eq!(
                u64::from(crc32c_of_zeros(n as u64)),
                checksum(CrcAlgorithm::Crc32Iscsi, &zeros),
                "{n}"
            );
        }
        let _ = crc32c_of_zeros(u64::MAX);
        let redirect = Redirect::new("e".into(), vec![Held::hole(5)]);
        let text = String::from_utf8(redirect.to_json()).unwrap();
        assert_eq!(Redirect::parse(text.as_bytes()), Ok(redirect.clone()));
        assert_eq!(redirect.metadata()[MARK], "2");
        for (from, to) in
            [("\"format\":2", "\"format\":1"), ("\"crc32c\":", "\"crc32c\":1"), ("\"key\":\"", "\"key\":\"x")]
        {
            assert!(Redirect::parse(text.replace(from, to).as_bytes()).is_err(), "{to}");
        }
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let held = |bytes| Held { server: "s1".into(), key: format!("{HELD}a/0"), bytes, crc32c: 7 };
        let redirect = Redirect::new("e".into(), vec![held(3), held(4)]);
        let text = String::from_utf8(redirect.to_json()).unwrap();
        assert_eq!(Redirect::parse(text.as_bytes()), Ok(redirect));
        for (from, to) in
            [("\"format\":1", "\"format\":3"), ("\"bytes\":7", "\"bytes\":8"), (".evenkeel/held", "x")]
        {
            assert!(Redirect::parse(text.replace(from, to).as_bytes()).is_err(), "{to}");
        }
    }
}
