//! Who asks: a user by name, or by a delegation token.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::user;

/// The maximum size of a token file. Jobs have a handful of tokens of a few hundred bytes.
const MOST_BYTES: u64 = 1 << 20;
/// Kinds of tokens that a NameNode takes. Those of WebHDFS differ only in name.
const KINDS: [&str; 3] = ["HDFS_DELEGATION_TOKEN", "WEBHDFS delegation", "SWEBHDFS delegation"];

/// How requests tell who asks.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum User {
    /// The NameNode's own default.
    Nobody,
    /// A name, which simple authentication believes.
    Named(String),
    /// A delegation token, as it is written in addresses.
    Token(String),
}

/// Tokens stay secret.
impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nobody => f.write_str("Nobody"),
            Self::Named(name) => f.debug_tuple("Named").field(name).finish(),
            Self::Token(_) => f.write_str("Token"),
        }
    }
}

impl User {
    /// The user of this process: a token in `HADOOP_DELEGATION_TOKEN` or in the file that `HADOOP_TOKEN_FILE_LOCATION`
    /// names, else a name in `HADOOP_USER_NAME`, else that of the login.
    pub(super) fn of_environment(namenode: &str) -> Result<Self, String> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        if let Some(token) = variable("HADOOP_DELEGATION_TOKEN") {
            return Ok(Self::Token(token.trim().to_owned()));
        }
        if let Some(path) = variable("HADOOP_TOKEN_FILE_LOCATION") {
            let unusable = |why: String| format!("cannot use {path} (HADOOP_TOKEN_FILE_LOCATION): {why}");
            let size = std::fs::metadata(&path).map_err(|error| unusable(error.to_string()))?.len();
            if size > MOST_BYTES {
                return Err(unusable(format!("it has more than {} MiB", MOST_BYTES >> 20)));
            }
            let file = std::fs::read(&path).map_err(|error| unusable(error.to_string()))?;
            return token(&file, namenode).map(Self::Token).map_err(unusable);
        }
        Ok(user::name().map_or(Self::Nobody, Self::Named))
    }

    /// The parameter of requests to the NameNode.
    pub(super) fn parameter(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::Nobody => None,
            Self::Named(name) => Some(("user.name", name)),
            Self::Token(token) => Some(("delegation", token)),
        }
    }
}

/// The token for a NameNode in a file of tokens, in the format that jobs of YARN get.
fn token(file: &[u8], namenode: &str) -> Result<String, String> {
    let mut reader = Reader { rest: file };
    let Some(version) = reader.take(5).and_then(|head| head.strip_prefix(b"HDTS")).map(|version| version[0])
    else {
        return Err("it is no file of Hadoop's tokens".to_owned());
    };
    if version != 0 {
        let remedy =
            "write it with `hdfs fetchdt` in Java's format, or name the token in HADOOP_DELEGATION_TOKEN";
        return Err(format!("its format has version {version}, but only version 0 can be read; {remedy}"));
    }
    let (tokens, host) =
        (reader.tokens().ok_or("it is damaged")?, namenode.rsplit_once(':').map(|(host, _)| host));
    let is_of_host = |service: &str| host.is_some_and(|host| service.split(':').any(|part| part == host));
    let mut fitting: Vec<&(String, &[u8])> =
        tokens.iter().filter(|(service, _)| tokens.len() == 1 || is_of_host(service)).collect();
    if fitting.is_empty() {
        fitting = tokens.iter().collect();
    }
    fitting.dedup_by_key(|(_, token)| *token);
    match fitting[..] {
        [(_, token)] => Ok(URL_SAFE_NO_PAD.encode(token)),
        [] => Err("it has no token for HDFS".to_owned()),
        _ => {
            let services: Vec<&str> = fitting.iter().map(|(service, _)| service.as_str()).collect();
            let services = services.join(", ");
            Err(format!("it has tokens for {services}; name the right one in HADOOP_DELEGATION_TOKEN"))
        }
    }
}

/// Reads what Hadoop's `Writable`s wrote.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(taken)
    }

    /// A length: one byte, or the number of bytes that follow.
    fn length(&mut self) -> Option<usize> {
        let first = self.take(1)?[0].cast_signed();
        if first >= 0 {
            return Some(first as usize);
        }
        // Smaller ones are of negative numbers.
        let n = usize::try_from(-112 - i32::from(first)).ok().filter(|n| (1..=4).contains(n))?;
        Some(self.take(n)?.iter().fold(0, |number, &byte| number << 8 | usize::from(byte)))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let n = self.length()?;
        self.take(n)
    }

    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    /// The tokens for HDFS: which service each is for, and its bytes.
    fn tokens(&mut self) -> Option<Vec<(String, &'a [u8])>> {
        let mut tokens = Vec::new();
        for _ in 0..self.length()? {
            let _alias = self.bytes()?;
            let start = self.rest;
            let (_identifier, _password) = (self.bytes()?, self.bytes()?);
            let (kind, service) = (self.text()?, self.text()?);
            if KINDS.contains(&kind) {
                tokens.push((service.to_owned(), &start[..start.len() - self.rest.len()]));
            }
        }
        Some(tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of tokens, each of a kind and for a service.
    fn file(tokens: &[(&str, &str)]) -> Vec<u8> {
        let mut file = [b"HDTS\0".as_slice(), &[tokens.len() as u8]].concat();
        for (nth, (kind, service)) in tokens.iter().enumerate() {
            let long = [b"\x8F\xC8".as_slice(), &[nth as u8; 200]].concat();
            file.extend([b"\x05alias".as_slice(), &long, b"\x02pw"].concat());
            for text in [kind, service] {
                file.push(text.len() as u8);
                file.extend(text.bytes());
            }
        }
        file
    }

    #[test]
    fn the_token_of_the_namenode_is_taken() {
        let one = file(&[("kms-dt", "10.0.0.1:9600"), ("HDFS_DELEGATION_TOKEN", "10.0.0.1:8020")]);
        let found = token(&one, "nn:9870").map(|text| URL_SAFE_NO_PAD.decode(text).unwrap_or_default());
        let found = found.unwrap_or_default();
        assert!(found.starts_with(b"\x8F\xC8\x01\x01") && found.ends_with(b"\x0D10.0.0.1:8020"), "{found:?}");
        let two = file(&[("HDFS_DELEGATION_TOKEN", "ha-hdfs:a"), ("WEBHDFS delegation", "nn:9870")]);
        assert!(token(&two, "nn:9870").is_ok());
        let error = token(&two, "other:9870").unwrap_err();
        assert!(error.contains("ha-hdfs:a, nn:9870; name the right one"), "{error}");
        assert!(token(&file(&[("kms-dt", "x")]), "nn:1").unwrap_err().contains("no token for HDFS"));
        assert!(token(b"HDTS\x01\x00", "nn:1").unwrap_err().contains("version 1"));
        assert!(token(b"PK", "nn:1").unwrap_err().contains("no file of Hadoop"));
        for n in 5..two.len() {
            assert!(token(&two[..n], "nn:9870").is_err(), "{n}");
        }
        assert!(token(b"HDTS\0\x8C\xFF\xFF\xFF\xFF", "nn:1").is_err());
        assert!(!format!("{:?}", User::Token("SECRET".into())).contains("SECRET"));
    }
}
