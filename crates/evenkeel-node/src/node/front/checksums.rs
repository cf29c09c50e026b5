//! The checksums of S3: what clients promise of bytes, and what is kept of it.

use hyper::StatusCode;
use s3s::checksum::ChecksumHasher;
use s3s::crypto::{Checksum as _, Crc32, Crc32c, Crc64Nvme, Md5, Sha1, Sha256};
use s3s::dto::{self, ChecksumAlgorithm, ChecksumType};
use s3s::{S3ErrorCode, S3Result, TrailingHeaders};

use super::super::store::Checksum;
use super::errors::{custom, refuse};

/// A checksum of S3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Crc32,
    Crc32c,
    Crc64Nvme,
    Sha1,
    Sha256,
}

const ALL: [Algorithm; 5] =
    [Algorithm::Crc32, Algorithm::Crc32c, Algorithm::Crc64Nvme, Algorithm::Sha1, Algorithm::Sha256];

impl Algorithm {
    /// As S3 writes it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Crc32 => ChecksumAlgorithm::CRC32,
            Self::Crc32c => ChecksumAlgorithm::CRC32C,
            Self::Crc64Nvme => ChecksumAlgorithm::CRC64NVME,
            Self::Sha1 => ChecksumAlgorithm::SHA1,
            Self::Sha256 => ChecksumAlgorithm::SHA256,
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// That of a request.
    pub(super) fn of_name(name: &str) -> S3Result<Self> {
        let wrong = || refuse(S3ErrorCode::InvalidRequest, "the checksum algorithm is not one that S3 has");
        Self::named(name).ok_or_else(wrong)
    }

    /// Whether the checksum of a whole follows from those of its parts.
    pub(super) fn can_be_joined(self) -> bool {
        self.crc().is_some()
    }

    fn header(self) -> String {
        format!("x-amz-checksum-{}", self.name().to_ascii_lowercase())
    }

    fn hasher(self) -> ChecksumHasher {
        let mut hasher = ChecksumHasher::default();
        match self {
            Self::Crc32 => hasher.crc32 = Some(Crc32::new()),
            Self::Crc32c => hasher.crc32c = Some(Crc32c::new()),
            Self::Crc64Nvme => hasher.crc64nvme = Some(Crc64Nvme::new()),
            Self::Sha1 => hasher.sha1 = Some(Sha1::new()),
            Self::Sha256 => hasher.sha256 = Some(Sha256::new()),
        }
        hasher
    }

    /// The checksum of these bytes, in Base64.
    fn of(self, bytes: &[u8]) -> String {
        let mut hasher = self.hasher();
        hasher.update(bytes);
        self.value(&hasher.finalize()).unwrap_or_default().to_owned()
    }

    fn value(self, checksum: &dto::Checksum) -> Option<&str> {
        match self {
            Self::Crc32 => checksum.checksum_crc32.as_deref(),
            Self::Crc32c => checksum.checksum_crc32c.as_deref(),
            Self::Crc64Nvme => checksum.checksum_crc64nvme.as_deref(),
            Self::Sha1 => checksum.checksum_sha1.as_deref(),
            Self::Sha256 => checksum.checksum_sha256.as_deref(),
        }
    }

    /// How it is joined to the checksum of a whole, if it can be.
    fn crc(self) -> Option<crc_fast::CrcAlgorithm> {
        match self {
            Self::Crc32 => Some(crc_fast::CrcAlgorithm::Crc32IsoHdlc),
            Self::Crc32c => Some(crc_fast::CrcAlgorithm::Crc32Iscsi),
            Self::Crc64Nvme => Some(crc_fast::CrcAlgorithm::Crc64Nvme),
            Self::Sha1 | Self::Sha256 => None,
        }
    }
}

/// What a checksum of an object in parts is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Whole,
    Parts,
}

impl Kind {
    /// What a request says, if the algorithm can have it.
    pub(super) fn of(kind: &ChecksumType, algorithm: Option<Algorithm>) -> S3Result<Self> {
        let wrong = |why: &str| Err(refuse(S3ErrorCode::InvalidRequest, why));
        match (kind.as_str(), algorithm) {
            (_, None) => wrong("x-amz-checksum-type needs x-amz-checksum-algorithm"),
            (ChecksumType::FULL_OBJECT, Some(algorithm)) if !algorithm.can_be_joined() => {
                wrong("only a CRC can be of the FULL_OBJECT")
            }
            (ChecksumType::COMPOSITE, Some(Algorithm::Crc64Nvme)) => wrong("CRC64NVME is of the FULL_OBJECT"),
            (ChecksumType::FULL_OBJECT, _) => Ok(Self::Whole),
            (ChecksumType::COMPOSITE, _) => Ok(Self::Parts),
            _ => wrong("x-amz-checksum-type is FULL_OBJECT or COMPOSITE"),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Whole => ChecksumType::FULL_OBJECT,
            Self::Parts => ChecksumType::COMPOSITE,
        }
    }
}

/// The checksum that a request has, of those that it may have.
pub(super) fn given(checksum: &dto::Checksum) -> S3Result<Option<(Algorithm, String)>> {
    let mut given = ALL.into_iter().filter_map(|one| Some((one, one.value(checksum)?.to_owned())));
    match (given.next(), given.next()) {
        (_, Some(_)) => {
            Err(refuse(S3ErrorCode::InvalidRequest, "expecting a single x-amz-checksum- header, not several"))
        }
        (one, None) => Ok(one),
    }
}

/// Takes the five checksums of an input.
macro_rules! checksums_of {
    ($input:expr) => {
        s3s::dto::Checksum {
            checksum_crc32: $input.checksum_crc32.clone(),
            checksum_crc32c: $input.checksum_crc32c.clone(),
            checksum_crc64nvme: $input.checksum_crc64nvme.clone(),
            checksum_sha1: $input.checksum_sha1.clone(),
            checksum_sha256: $input.checksum_sha256.clone(),
            checksum_type: None,
        }
    };
}

/// Puts a checksum into an output that has the five fields.
macro_rules! show_checksum {
    ($output:expr, $checksum:expr) => {
        let shown: s3s::dto::Checksum = $checksum;
        $output.checksum_crc32 = shown.checksum_crc32;
        $output.checksum_crc32c = shown.checksum_crc32c;
        $output.checksum_crc64nvme = shown.checksum_crc64nvme;
        $output.checksum_sha1 = shown.checksum_sha1;
        $output.checksum_sha256 = shown.checksum_sha256;
    };
    ($output:expr, $checksum:expr, with type) => {
        let shown: s3s::dto::Checksum = $checksum;
        $output.checksum_type = shown.checksum_type.clone();
        show_checksum!($output, shown);
    };
}
pub(super) use {checksums_of, show_checksum};

/// A kept checksum, as S3 shows it.
pub(super) fn shown(checksum: Option<&Checksum>) -> dto::Checksum {
    let mut shown = dto::Checksum::default();
    let Some(Checksum { algorithm, value }) = checksum else { return shown };
    let Some(algorithm) = Algorithm::named(algorithm) else { return shown };
    let kind = if value.contains('-') { "COMPOSITE" } else { "FULL_OBJECT" };
    shown.checksum_type = Some(kind.to_owned().into());
    let field = match algorithm {
        Algorithm::Crc32 => &mut shown.checksum_crc32,
        Algorithm::Crc32c => &mut shown.checksum_crc32c,
        Algorithm::Crc64Nvme => &mut shown.checksum_crc64nvme,
        Algorithm::Sha1 => &mut shown.checksum_sha1,
        Algorithm::Sha256 => &mut shown.checksum_sha256,
    };
    *field = Some(value.clone());
    shown
}

/// The value of a CRC-32C.
pub(super) fn crc32c(checksum: &Checksum) -> Option<u32> {
    let value = Some(&checksum.value).filter(|_| checksum.algorithm == Algorithm::Crc32c.name());
    Some(u32::from_be_bytes(decode(value?)?.try_into().ok()?))
}

/// What a client promises of the bytes that it sends.
#[derive(Default)]
pub(super) struct Promise {
    /// How many there are.
    pub(super) bytes: Option<u64>,
    /// The header `Content-MD5`.
    pub(super) md5: Option<String>,
    /// A checksum, and its value if that does not follow the bytes.
    pub(super) checksum: Option<(Algorithm, Option<String>)>,
    /// Where the value is after the bytes.
    pub(super) trailing: Option<TrailingHeaders>,
}

impl Promise {
    /// What the headers of a request say.
    pub(super) fn of(
        headers: &dto::Checksum,
        algorithm: Option<&ChecksumAlgorithm>,
        md5: Option<String>,
        bytes: Option<i64>,
        trailing: Option<TrailingHeaders>,
    ) -> S3Result<Self> {
        let named = algorithm.map(|algorithm| Algorithm::of_name(algorithm.as_str())).transpose()?;
        let checksum = match (given(headers)?, named) {
            (Some((one, _)), Some(other)) if one != other => {
                let why = "x-amz-sdk-checksum-algorithm names another algorithm than the checksum's header";
                return Err(refuse(S3ErrorCode::InvalidRequest, why));
            }
            (Some((one, value)), _) => Some((one, Some(value))),
            (None, named) => named.map(|named| (named, None)),
        };
        let Ok(bytes) = bytes.map(u64::try_from).transpose() else {
            return Err(refuse(S3ErrorCode::InvalidRequest, "Content-Length is negative"));
        };
        Ok(Self { bytes, md5, checksum, trailing })
    }
}

/// Compares bytes with what was promised of them.
pub(super) struct Verifier {
    promise: Promise,
    md5: Option<Md5>,
    hasher: Option<ChecksumHasher>,
    received: u64,
}

impl Verifier {
    pub(super) fn new(promise: Promise) -> Self {
        let md5 = promise.md5.as_ref().map(|_| Md5::new());
        let hasher = promise.checksum.as_ref().map(|(algorithm, _)| algorithm.hasher());
        Self { promise, md5, hasher, received: 0 }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.received += bytes.len() as u64;
        self.md5.iter_mut().for_each(|md5| md5.update(bytes));
        self.hasher.iter_mut().for_each(|hasher| hasher.update(bytes));
    }

    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Whether the bytes were as promised, and the checksum to be kept.
    pub(super) fn finish(self) -> S3Result<Option<Checksum>> {
        if let Some(bytes) = self.promise.bytes.filter(|bytes| *bytes != self.received) {
            let why = format!("{} bytes arrived, and {bytes} were announced", self.received);
            return Err(refuse(S3ErrorCode::IncompleteBody, why));
        }
        if let (Some(md5), Some(promised)) = (self.md5, &self.promise.md5) {
            let digest = md5.finalize();
            let digest: &[u8] = digest.as_ref();
            let Some(promised) = decode(promised).filter(|promised| promised.len() == digest.len()) else {
                return Err(refuse(S3ErrorCode::InvalidDigest, "Content-MD5 is not the Base64 of an MD5"));
            };
            if promised != digest {
                return Err(refuse(
                    S3ErrorCode::BadDigest,
                    "Content-MD5 is not that of the bytes that arrived",
                ));
            }
        }
        let (Some(hasher), Some((algorithm, promised))) = (self.hasher, self.promise.checksum) else {
            return Ok(None);
        };
        let trailing = self.promise.trailing.as_ref().and_then(|trailing| {
            let read = |headers: &hyper::HeaderMap| {
                headers.get(algorithm.header()).and_then(|value| value.to_str().ok()).map(str::to_owned)
            };
            trailing.read(read).flatten()
        });
        let is_missing = promised.is_none() && trailing.is_none() && self.promise.trailing.is_some();
        let value = algorithm.value(&hasher.finalize()).unwrap_or_default().to_owned();
        if is_missing {
            let why = format!("the trailer {} is missing", algorithm.header());
            return Err(custom("MalformedTrailerError", StatusCode::BAD_REQUEST, why));
        }
        if [promised, trailing].into_iter().flatten().any(|promised| promised != value) {
            let why =
                format!("the {} that was given is not that of the bytes that arrived", algorithm.name());
            return Err(refuse(S3ErrorCode::BadDigest, why));
        }
        Ok(Some(Checksum { algorithm: algorithm.name().to_owned(), value }))
    }
}

/// The checksum of an object of parts with these sizes and checksums, if all parts have one of the same algorithm.
/// Those that S3 calls composite are checksums of the parts' checksums.
pub(super) fn joined(parts: &[(u64, Option<Checksum>)], is_of_whole: bool) -> Option<Checksum> {
    let algorithm = Algorithm::named(&parts.first()?.1.as_ref()?.algorithm)?;
    let is_of_whole = is_of_whole || algorithm == Algorithm::Crc64Nvme;
    let crc = algorithm.crc().filter(|_| is_of_whole);
    if is_of_whole && crc.is_none() {
        return None;
    }
    let mut raw = Vec::new();
    let mut whole: Option<u64> = None;
    for (bytes, checksum) in parts {
        let checksum = checksum.as_ref().filter(|checksum| checksum.algorithm == algorithm.name())?;
        let digest = decode(&checksum.value)?;
        if let Some(crc) = crc {
            let part = digest.iter().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte));
            whole = Some(match whole {
                None => part,
                Some(before) => crc_fast::checksum_combine(crc, before, part, *bytes),
            });
        }
        raw.extend_from_slice(&digest);
    }
    let value = match whole {
        Some(whole) => {
            let bytes = whole.to_be_bytes();
            let width = if algorithm == Algorithm::Crc64Nvme { 8 } else { 4 };
            encode(&bytes[8 - width..])
        }
        None => format!("{}-{}", algorithm.of(&raw), parts.len()),
    };
    Some(Checksum { algorithm: algorithm.name().to_owned(), value })
}

fn decode(text: &str) -> Option<Vec<u8>> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}

fn encode(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(algorithm: Algorithm, bytes: &[u8]) -> Checksum {
        Checksum { algorithm: algorithm.name().to_owned(), value: algorithm.of(bytes) }
    }

    #[test]
    fn checksums_of_parts_are_joined_as_s3_does_it() {
        let (a, b) = (&b"the first part, "[..], &b"the second"[..]);
        let whole = [a, b].concat();
        for algorithm in [Algorithm::Crc32, Algorithm::Crc32c, Algorithm::Crc64Nvme] {
            let parts = [a, b].map(|part| (part.len() as u64, Some(kept(algorithm, part))));
            assert_eq!(joined(&parts, true).unwrap(), kept(algorithm, &whole), "{algorithm:?}");
        }
        let parts = [a, b].map(|part| (part.len() as u64, Some(kept(Algorithm::Sha256, part))));
        assert!(joined(&parts, false).unwrap().value.ends_with("-2"));
        assert_eq!(joined(&parts, true), None);
        let mixed = [(1, Some(kept(Algorithm::Sha1, a))), (1, Some(kept(Algorithm::Crc32, b)))];
        assert_eq!(joined(&mixed, false), None);
    }

    #[test]
    fn what_is_not_as_promised_is_found() {
        let code = |promise: Promise| {
            let mut verifier = Verifier::new(promise);
            verifier.update(b"hello");
            verifier.finish().map_err(|error| error.code().as_str().to_owned())
        };
        let md5 = |text: &str| Promise { md5: Some(text.to_owned()), ..Promise::default() };
        assert_eq!(code(md5("XUFAKrxLKna5cZ2REBfFkg==")), Ok(None));
        assert_eq!(code(md5("XUFAKrxLKna5cZ2REBfFkA==")), Err("BadDigest".into()));
        assert_eq!(code(md5("not base64")), Err("InvalidDigest".into()));
        assert_eq!(code(Promise { bytes: Some(6), ..Promise::default() }), Err("IncompleteBody".into()));
        let crc = |value: &str| Promise {
            checksum: Some((Algorithm::Crc32, Some(value.to_owned()))),
            ..Promise::default()
        };
        assert_eq!(code(crc("NhCmhg==")).unwrap().unwrap().value, "NhCmhg==");
        assert_eq!(code(crc("NhCmhQ==")), Err("BadDigest".into()));
    }
}
