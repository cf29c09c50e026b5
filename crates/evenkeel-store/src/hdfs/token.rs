//! Delegation tokens: what a user was given to be known by, in the files that jobs of YARN have and `hdfs fetchdt` writes.

use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use super::wire::{Fields, Malformed, delimited};

/// The maximum size of a file of tokens. Jobs have a handful of tokens of a few hundred bytes.
const MOST_BYTES: u64 = 1 << 20;
/// Kinds of tokens that a NameNode takes. Those of WebHDFS differ only in name.
const KINDS: [&str; 3] = ["HDFS_DELEGATION_TOKEN", "WEBHDFS delegation", "SWEBHDFS delegation"];

/// A token for a NameNode.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token {
    identifier: Vec<u8>,
    password: Vec<u8>,
    kind: String,
    /// Whom it is for: a NameNode's `address:port`, or `ha-hdfs:nameservice`.
    pub(crate) service: String,
}

/// Passwords stay secret.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("kind", &self.kind)
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}

impl Token {
    /// A token as addresses of WebHDFS have it.
    pub(crate) fn of_text(text: &str) -> Result<Self, String> {
        let bytes = URL_SAFE_NO_PAD.decode(text.trim().trim_end_matches('='));
        let token = bytes.ok().and_then(|bytes| Reader { rest: &bytes }.token());
        token.ok_or_else(|| {
            "it is no delegation token; give it as `urlString` of GETDELEGATIONTOKEN has it".to_owned()
        })
    }

    pub(crate) fn to_text(&self) -> String {
        let mut bytes = Vec::new();
        for part in [&self.identifier, &self.password, self.kind.as_bytes(), self.service.as_bytes()] {
            write_length(part.len(), &mut bytes);
            bytes.extend_from_slice(part);
        }
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// A token with this identifier, for tests.
    #[cfg(test)]
    pub(crate) fn example(identifier: &[u8], service: &str) -> Self {
        let (kind, service) = (KINDS[0].to_owned(), service.to_owned());
        Self { identifier: identifier.to_vec(), password: b"secret".to_vec(), kind, service }
    }

    /// The name and the password by which a NameNode knows the user.
    pub(super) fn login(&self) -> (String, String) {
        (STANDARD.encode(&self.identifier), STANDARD.encode(&self.password))
    }
}

/// The text of a token in `HADOOP_DELEGATION_TOKEN`.
pub(crate) fn text_of_environment() -> Option<String> {
    std::env::var("HADOOP_DELEGATION_TOKEN")
        .ok()
        .map(|text| text.trim().to_owned())
        .filter(|text| !text.is_empty())
}

/// The tokens for HDFS of this process: the one in `HADOOP_DELEGATION_TOKEN`, which is for any service, else those in the file
/// that `HADOOP_TOKEN_FILE_LOCATION` names, and in others.
pub(crate) fn of_environment(others: &[PathBuf]) -> Result<Vec<Token>, String> {
    if let Some(text) = text_of_environment() {
        let token =
            Token::of_text(&text).map_err(|why| format!("cannot use HADOOP_DELEGATION_TOKEN: {why}"))?;
        return Ok(vec![Token { service: String::new(), ..token }]);
    }
    let location = std::env::var_os("HADOOP_TOKEN_FILE_LOCATION").filter(|path| !path.is_empty());
    let mut tokens = Vec::new();
    for path in location.map(PathBuf::from).iter().chain(others) {
        tokens.extend(in_file(path)?);
    }
    Ok(tokens)
}

/// The tokens for HDFS in a file. It may have none: jobs have tokens for other services, too.
fn in_file(path: &Path) -> Result<Vec<Token>, String> {
    let unusable = |why: String| format!("cannot read tokens from {}: {why}", path.display());
    let size = std::fs::metadata(path).map_err(|error| unusable(error.to_string()))?.len();
    if size > MOST_BYTES {
        return Err(unusable(format!("it has more than {} MiB", MOST_BYTES >> 20)));
    }
    let file = std::fs::read(path).map_err(|error| unusable(error.to_string()))?;
    parse(&file).map_err(unusable)
}

/// The tokens for HDFS in the contents of a file, in Java's format or in that of Protocol Buffers.
pub(super) fn parse(file: &[u8]) -> Result<Vec<Token>, String> {
    let head = file.split_first_chunk::<5>();
    let Some(([b'H', b'D', b'T', b'S', version], mut rest)) = head else {
        return Err("it is no file of Hadoop's tokens".to_owned());
    };
    let tokens = match version {
        0 => Reader { rest }.tokens().ok_or("it is damaged")?,
        1 => delimited(&mut rest).and_then(tokens).map_err(|Malformed(what)| format!("it has {what}"))?,
        _ => {
            return Err(format!(
                "its format has version {version}, but only 0 and 1 can be read; write it with hdfs fetchdt"
            ));
        }
    };
    Ok(tokens.into_iter().filter(|token| KINDS.contains(&token.kind.as_str())).collect())
}

/// All tokens of Hadoop's `CredentialsProto`.
fn tokens(message: &[u8]) -> Result<Vec<Token>, Malformed> {
    let (mut tokens, mut fields) = (Vec::new(), Fields::of(message));
    while let Some((number, value)) = fields.next()? {
        if number != 1 {
            continue;
        }
        let mut entry = Fields::of(value.bytes()?);
        while let Some((number, value)) = entry.next()? {
            if number == 2 {
                tokens.push(token(value.bytes()?)?);
            }
        }
    }
    Ok(tokens)
}

fn token(message: &[u8]) -> Result<Token, Malformed> {
    let (mut identifier, mut password, mut kind, mut service) = (&[][..], &[][..], "", "");
    let mut fields = Fields::of(message);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => identifier = value.bytes()?,
            2 => password = value.bytes()?,
            3 => kind = value.text()?,
            4 => service = value.text()?,
            _ => {}
        }
    }
    let (identifier, password) = (identifier.to_vec(), password.to_vec());
    Ok(Token { identifier, password, kind: kind.to_owned(), service: service.to_owned() })
}

/// A length as Hadoop's `Writable`s have it: one byte, or the number of bytes that follow.
fn write_length(n: usize, out: &mut Vec<u8>) {
    if let Ok(n) = i8::try_from(n) {
        return out.push(n.cast_unsigned());
    }
    let bytes = n.to_be_bytes();
    let zeros = n.leading_zeros() as usize / 8;
    out.push((-112 - (bytes.len() - zeros) as i8).cast_unsigned());
    out.extend_from_slice(&bytes[zeros..]);
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

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }

    fn token(&mut self) -> Option<Token> {
        let (identifier, password) = (self.bytes()?.to_vec(), self.bytes()?.to_vec());
        Some(Token { identifier, password, kind: self.text()?, service: self.text()? })
    }

    fn tokens(&mut self) -> Option<Vec<Token>> {
        let mut tokens = Vec::new();
        for _ in 0..self.length()? {
            let _alias = self.bytes()?;
            tokens.push(self.token()?);
        }
        Some(tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::Writer;
    use super::*;

    /// A file in Java's format, with tokens of these kinds and services.
    fn file(tokens: &[(&str, &str)]) -> Vec<u8> {
        let mut file = [b"HDTS\0".as_slice(), &[tokens.len() as u8]].concat();
        for (nth, (kind, service)) in tokens.iter().enumerate() {
            let long = [b"\x8F\xC8".as_slice(), &[nth as u8; 200]].concat();
            file.extend([b"\x05alias".as_slice(), &long, b"\x06secret"].concat());
            for text in [kind, service] {
                file.push(text.len() as u8);
                file.extend(text.bytes());
            }
        }
        // No secrets.
        file.push(0);
        file
    }

    #[test]
    fn both_formats_are_read() {
        let java = file(&[("kms-dt", "10.0.0.1:9600"), (KINDS[0], "10.0.0.1:8020"), (KINDS[1], "nn:9870")]);
        let tokens = parse(&java).unwrap();
        assert_eq!(
            tokens.iter().map(|token| &*token.service).collect::<Vec<_>>(),
            ["10.0.0.1:8020", "nn:9870"]
        );
        assert_eq!(tokens[0], Token::example(&[1; 200], "10.0.0.1:8020"));
        let of = |Token { identifier, password, kind, service }: &Token| {
            let token =
                Writer::default().bytes(1, identifier).bytes(2, password).text(3, kind).text(4, service);
            Writer::default().text(1, "alias").message(2, &token)
        };
        let message = tokens.iter().fold(Writer::default(), |message, token| message.message(1, &of(token)));
        let mut buffers = b"HDTS\x01".to_vec();
        message.delimited_into(&mut buffers);
        assert_eq!(parse(&buffers), Ok(tokens));
        // It is cut off anywhere but before the secrets, of which we read none.
        (0..java.len() - 1).for_each(|n| assert!(parse(&java[..n]).is_err(), "{n}"));
        (0..buffers.len()).for_each(|n| assert!(parse(&buffers[..n]).is_err(), "{n}"));
        assert!(parse(b"HDTS\x02\x00").unwrap_err().contains("version 2"));
        assert!(parse(b"PK\0\0\0\0").unwrap_err().contains("no file of Hadoop"));
        assert!(parse(b"HDTS\0\x8C\xFF\xFF\xFF\xFF").is_err());
    }

    #[test]
    fn tokens_are_texts_in_addresses() {
        for n in [0, 1, 127, 128, 255, 256, 70_000] {
            let token = Token::example(&vec![7; n], "nn:8020");
            assert_eq!(Token::of_text(&token.to_text()), Ok(token), "{n}");
        }
        // As a NameNode sends it.
        let sent = "HAAEcm9vdARyb290AIoBoewyB4eKAaIQPouHAQIUZHV1RKqpjy_0RTDXWteYLWFAG3gSV0VCSERGUyBkZWxlZ2F0aW9uDzEyNy4wLjAuMToxODAyMA";
        let token = Token::of_text(sent).unwrap();
        assert_eq!(
            (&*token.kind, &*token.service, token.to_text().as_str()),
            (KINDS[1], "127.0.0.1:18020", sent)
        );
        assert!(["", "!", "AAAA"].iter().all(|text| Token::of_text(text).is_err()));
        assert!(!format!("{:?}", Token::example(b"", "x")).contains("secret"));
    }
}
