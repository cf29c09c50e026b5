//! Checksums, as sources offer them.

use std::fmt;

use adler2::Adler32;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crc_fast::{CrcAlgorithm, Digest as Crc};
use md5::Md5;
use sha1::Sha1;
use sha2::digest::Digest;
use sha2::{Sha256, Sha512};

/// A kind of checksum. The stronger ones come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// SHA-512.
    Sha512,
    /// SHA-256.
    Sha256,
    /// SHA-1, too weak against forgers, good against damage.
    Sha1,
    /// MD5, likewise.
    Md5,
    /// CRC-64/NVME, as S3 has it.
    Crc64Nvme,
    /// CRC-32C.
    Crc32c,
    /// CRC-32, as gzip has it.
    Crc32,
    /// Adler-32, weak for short data.
    Adler32,
}

impl Algorithm {
    const ALL: [Self; 8] = [
        Self::Sha512,
        Self::Sha256,
        Self::Sha1,
        Self::Md5,
        Self::Crc64Nvme,
        Self::Crc32c,
        Self::Crc32,
        Self::Adler32,
    ];

    /// The algorithm of this name, as headers, Metalinks and manifests spell it.
    pub fn named(name: &str) -> Option<Self> {
        let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        let plain = plain.to_ascii_lowercase();
        Self::ALL.into_iter().find(|algorithm| algorithm.to_string().replace('-', "") == plain).or(
            match plain.as_str() {
                "sha" => Some(Self::Sha1),
                _ => None,
            },
        )
    }

    /// Its place among all algorithms.
    pub(crate) fn number(self) -> u8 {
        self as u8
    }

    /// The algorithm in this place.
    pub(crate) fn numbered(number: u8) -> Self {
        Self::ALL[usize::from(number)]
    }

    /// The number of bytes of a checksum.
    pub fn n_bytes(self) -> usize {
        match self {
            Self::Sha512 => 64,
            Self::Sha256 => 32,
            Self::Sha1 => 20,
            Self::Md5 => 16,
            Self::Crc64Nvme => 8,
            Self::Crc32c | Self::Crc32 | Self::Adler32 => 4,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sha512 => "sha-512",
            Self::Sha256 => "sha-256",
            Self::Sha1 => "sha-1",
            Self::Md5 => "md5",
            Self::Crc64Nvme => "crc64nvme",
            Self::Crc32c => "crc32c",
            Self::Crc32 => "crc32",
            Self::Adler32 => "adler32",
        })
    }
}

/// A checksum.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Hash {
    /// Its kind.
    pub algorithm: Algorithm,
    value: Box<[u8]>,
}

impl Hash {
    /// The checksum with these bytes, as many as the algorithm has.
    pub(crate) fn of_value(algorithm: Algorithm, value: &[u8]) -> Self {
        Self { algorithm, value: value.into() }
    }

    /// Its bytes.
    pub(crate) fn value(&self) -> &[u8] {
        &self.value
    }

    /// The checksum written in hexadecimal digits. `None` if these are not as many as the algorithm has.
    pub fn from_hex(algorithm: Algorithm, digits: &str) -> Option<Self> {
        let digits = digits.trim().as_bytes();
        if digits.len() != 2 * algorithm.n_bytes() {
            return None;
        }
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let byte = |pair: &[u8]| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8);
        let value: Option<Box<[u8]>> = digits.chunks_exact(2).map(byte).collect();
        Some(Self { algorithm, value: value? })
    }

    /// The checksum written in base 64, as HTTP headers have it.
    pub fn from_base64(algorithm: Algorithm, text: &str) -> Option<Self> {
        let value = STANDARD.decode(text.trim()).ok()?;
        (value.len() == algorithm.n_bytes()).then(|| Self { algorithm, value: value.into() })
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{self}", self.algorithm)
    }
}

/// The checksums of the pieces of an object, by one algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pieces {
    piece_bytes: u64,
    hashes: Vec<Hash>,
}

impl Pieces {
    /// The checksums of pieces of this length, in order. `None` if an object of `bytes` bytes has not as many pieces, or
    /// if they are of different kinds.
    pub fn new(bytes: u64, piece_bytes: u64, hashes: Vec<Hash>) -> Option<Self> {
        let n_pieces = bytes.checked_div(piece_bytes)? + u64::from(!bytes.is_multiple_of(piece_bytes));
        let is_of_one_kind = hashes.windows(2).all(|pair| pair[0].algorithm == pair[1].algorithm);
        let fits = n_pieces == hashes.len() as u64 && n_pieces > 0;
        (fits && is_of_one_kind).then_some(Self { piece_bytes, hashes })
    }

    /// The algorithm of all of them.
    pub fn algorithm(&self) -> Algorithm {
        self.hashes[0].algorithm
    }

    /// The length of each piece but the last.
    pub fn piece_bytes(&self) -> u64 {
        self.piece_bytes
    }

    /// The checksum of each piece.
    pub fn hashes(&self) -> &[Hash] {
        &self.hashes
    }
}

/// Computes a checksum.
pub struct Hasher {
    algorithm: Algorithm,
    state: State,
}

enum State {
    Sha512(Box<Sha512>),
    Sha256(Box<Sha256>),
    Sha1(Box<Sha1>),
    Md5(Box<Md5>),
    Crc(Box<Crc>),
    Adler(Adler32),
}

impl Hasher {
    /// Starts a checksum of nothing.
    pub fn new(algorithm: Algorithm) -> Self {
        let state = match algorithm {
            Algorithm::Sha512 => State::Sha512(Box::default()),
            Algorithm::Sha256 => State::Sha256(Box::default()),
            Algorithm::Sha1 => State::Sha1(Box::default()),
            Algorithm::Md5 => State::Md5(Box::default()),
            Algorithm::Crc64Nvme => State::Crc(Box::new(Crc::new(CrcAlgorithm::Crc64Nvme))),
            Algorithm::Crc32c => State::Crc(Box::new(Crc::new(CrcAlgorithm::Crc32Iscsi))),
            Algorithm::Crc32 => State::Crc(Box::new(Crc::new(CrcAlgorithm::Crc32IsoHdlc))),
            Algorithm::Adler32 => State::Adler(Adler32::new()),
        };
        Self { algorithm, state }
    }

    /// Adds data.
    pub fn update(&mut self, data: &[u8]) {
        match &mut self.state {
            State::Sha512(state) => state.update(data),
            State::Sha256(state) => state.update(data),
            State::Sha1(state) => state.update(data),
            State::Md5(state) => state.update(data),
            State::Crc(state) => state.update(data),
            State::Adler(state) => state.write_slice(data),
        }
    }

    /// The checksum of all data.
    pub fn finish(self) -> Hash {
        let value: Vec<u8> = match self.state {
            State::Sha512(state) => state.finalize().to_vec(),
            State::Sha256(state) => state.finalize().to_vec(),
            State::Sha1(state) => state.finalize().to_vec(),
            State::Md5(state) => state.finalize().to_vec(),
            State::Crc(state) => state.finalize().to_be_bytes()[8 - self.algorithm.n_bytes()..].to_vec(),
            State::Adler(state) => state.checksum().to_be_bytes().to_vec(),
        };
        Hash { algorithm: self.algorithm, value: value.into() }
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hasher({})", self.algorithm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each algorithm on "123456789", from their specifications.
    const CHECKS: [(Algorithm, &str); 6] = [
        (Algorithm::Sha1, "f7c3bc1d808e04732adf679965ccc34ca7ae3441"),
        (Algorithm::Md5, "25f9e794323b453885f5181f1b624d0b"),
        (Algorithm::Crc64Nvme, "ae8b14860a799888"),
        (Algorithm::Crc32c, "e3069283"),
        (Algorithm::Crc32, "cbf43926"),
        (Algorithm::Adler32, "091e01de"),
    ];

    #[test]
    fn checksums_are_those_of_the_standards() {
        for (algorithm, hex) in CHECKS {
            let mut hasher = Hasher::new(algorithm);
            hasher.update(b"1234");
            hasher.update(b"56789");
            assert_eq!(hasher.finish(), Hash::from_hex(algorithm, hex).expect("it is hexadecimal"));
        }
    }

    #[test]
    fn checksums_can_be_written_in_several_ways() {
        let hex = Hash::from_hex(Algorithm::Md5, "25F9E794323B453885F5181F1B624D0B").expect("upper case too");
        assert_eq!(Hash::from_base64(Algorithm::Md5, "JfnnlDI7RTiF9RgfG2JNCw==").as_ref(), Some(&hex));
        assert_eq!(hex.to_string(), "25f9e794323b453885f5181f1b624d0b");
        for wrong in ["", "25f9", "zz f9e794323b453885f5181f1b624d0b", "25f9e794323b453885f5181f1b624d0é"] {
            assert_eq!(Hash::from_hex(Algorithm::Md5, wrong), None);
            assert_eq!(Hash::from_base64(Algorithm::Md5, wrong), None);
        }
    }

    #[test]
    fn names_are_spelt_in_several_ways() {
        let names = [
            ("SHA-256", Algorithm::Sha256),
            ("sha256", Algorithm::Sha256),
            ("sha-1", Algorithm::Sha1),
            ("SHA", Algorithm::Sha1),
            ("adler32", Algorithm::Adler32),
        ];
        for (name, algorithm) in names {
            assert_eq!(Algorithm::named(name), Some(algorithm));
        }
        assert_eq!(Algorithm::named("sha-3"), None);
    }
}
