//! Logs in with a delegation token: Hadoop's handshake of SASL, with the mechanism DIGEST-MD5 (RFC 2831).
//!
//! Both sides prove that they know the token's password, which is not sent. What follows on the connection is not
//! encrypted, so NameNodes that want it to be are refused.

use std::hash::{BuildHasher, RandomState};

use bytes::Bytes;
use md5::{Digest, Md5};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::messages::{
    Parse, ResponseHeader, RpcStatus, SASL_CALL, SaslAnswer, SaslAuth, SaslState, sasl_request,
};
use super::rpc::{Exception, Failed, NotReceived, frame, receive};
use super::token::Token;
use super::wire::{Malformed, delimited};
use crate::error::Problem;

/// The maximum size of an answer. Challenges have about 100 bytes, exceptions a stack trace.
const MOST_ANSWER_BYTES: u32 = 1 << 16;

/// What a NameNode has agreed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Agreed {
    /// The user is the token's.
    Token,
    /// It takes no tokens, and users by their names.
    Simple,
}

/// Logs in on a connection on which nothing but the preamble has been sent.
pub(super) async fn log_in(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    client: &[u8],
    token: &Token,
) -> Result<Agreed, NotLoggedIn> {
    let answer = ask(stream, frame(&sasl_request(client, SaslState::Negotiate, None, None))).await?;
    let offer = SaslAnswer::parse(&answer)?;
    if offer.state != SaslState::Negotiate {
        return Err(Malformed("no way to log in").into());
    }
    let (mut auths, mut digest, mut simple, mut others) = (offer.auths, None, None, Vec::new());
    while let Some(auth) = auths.next::<SaslAuth<'_>>()? {
        match (auth.method, auth.mechanism) {
            ("TOKEN", "DIGEST-MD5") => digest = digest.or(Some(auth)),
            ("SIMPLE", _) => simple = simple.or(Some(auth)),
            (method, mechanism) if others.len() < 4 => others.push(format!("{method} {mechanism}")),
            _ => {}
        }
    }
    let Some(auth) = digest else {
        let Some(simple) = simple else {
            let others: String = others.join(", ").chars().take(300).collect();
            return Err(unsupported(format!(
                "the NameNode takes no delegation token by DIGEST-MD5, only {others}; use webhdfs:// or hadoop fs -get"
            )));
        };
        // It waits for what follows, and does not answer.
        let request = frame(&sasl_request(client, SaslState::Initiate, None, Some(&simple)));
        stream.write_all(&request).await.map_err(NotReceived::Io)?;
        return Ok(Agreed::Simple);
    };
    let challenge = Challenge::parse(auth.challenge)?;
    let state = RandomState::new();
    let own_nonce = format!("{:016x}{:016x}", state.hash_one(0), state.hash_one(1));
    let uri = format!("{}/{}", auth.protocol, auth.server);
    let (user, password) = token.login();
    let proof = challenge.prove(&user, &password, &own_nonce, &uri);
    let request = frame(&sasl_request(client, SaslState::Initiate, Some(&proof.answer), Some(&auth)));
    let answer = ask(stream, request).await?;
    let answer = SaslAnswer::parse(&answer)?;
    match answer.state {
        SaslState::Success if answer.token == format!("rspauth={}", proof.expected).as_bytes() => {
            Ok(Agreed::Token)
        }
        SaslState::Success => Err(Malformed("no proof that it knows the token").into()),
        _ => Err(Malformed("no end of the login").into()),
    }
}

/// Why nobody is logged in.
#[derive(Debug)]
pub(super) enum NotLoggedIn {
    Failed(Failed),
    NotReceived(NotReceived),
}

impl From<Malformed> for NotLoggedIn {
    fn from(malformed: Malformed) -> Self {
        Self::Failed(malformed.into())
    }
}

impl From<NotReceived> for NotLoggedIn {
    fn from(not_received: NotReceived) -> Self {
        Self::NotReceived(not_received)
    }
}

fn unsupported(what: String) -> NotLoggedIn {
    NotLoggedIn::Failed(Failed::Broken(Problem::Unsupported(what)))
}

/// Sends a message, and returns that of the answer.
async fn ask(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    request: Vec<u8>,
) -> Result<Bytes, NotLoggedIn> {
    stream.write_all(&request).await.map_err(NotReceived::Io)?;
    let answer = receive(stream, MOST_ANSWER_BYTES).await?;
    let mut rest = &answer[..];
    let header = ResponseHeader::parse(delimited(&mut rest)?)?;
    match header.status {
        RpcStatus::Success if header.call != SASL_CALL => Err(Malformed("the number of another call").into()),
        RpcStatus::Success => Ok(answer.slice_ref(delimited(&mut rest)?)),
        RpcStatus::Error | RpcStatus::Fatal => {
            Err(NotLoggedIn::Failed(Failed::Exception(Exception::new(&header))))
        }
    }
}

/// What a NameNode wants to have proved.
#[derive(Debug, PartialEq, Eq)]
struct Challenge {
    realm: String,
    nonce: String,
}

/// What is sent, and what the other side has to send back.
#[derive(Debug)]
struct Proof {
    answer: Vec<u8>,
    expected: String,
}

impl Challenge {
    /// Reads `name=value` pairs between commas. Values may be quoted.
    fn parse(challenge: &[u8]) -> Result<Self, NotLoggedIn> {
        let text = std::str::from_utf8(challenge).map_err(|_| Malformed("a challenge that is no text"))?;
        let (mut realm, mut nonce, mut protections) = (String::new(), None, "auth".to_owned());
        let mut rest = text.trim_start_matches([',', ' ']);
        while !rest.is_empty() {
            let (name, after) = rest.split_once('=').ok_or(Malformed("a challenge without values"))?;
            let (value, after) = value(after)?;
            match name.trim() {
                "realm" if realm.is_empty() => realm = value,
                "nonce" if nonce.is_none() => nonce = Some(value),
                "nonce" => return Err(Malformed("a challenge with two nonces").into()),
                "qop" => protections = value,
                "algorithm" if value != "md5-sess" => {
                    return Err(Malformed("a challenge of another algorithm").into());
                }
                _ => {}
            }
            rest = after.trim_start_matches([',', ' ']);
        }
        if protections.split(',').all(|protection| protection.trim() != "auth") {
            let protections: String = protections.chars().take(100).collect();
            return Err(unsupported(format!(
                "the cluster protects its calls (hadoop.rpc.protection, {protections}), and cannot be asked this way; use \
                 webhdfs:// with the same token, or hadoop fs -get"
            )));
        }
        let nonce = nonce.ok_or(Malformed("a challenge without a nonce"))?;
        Ok(Self { realm, nonce })
    }

    fn prove(&self, user: &str, password: &str, own_nonce: &str, uri: &str) -> Proof {
        let Self { realm, nonce } = self;
        let hex = |hash: [u8; 16]| format!("{:032x}", u128::from_be_bytes(hash));
        let md5 = |text: &str| hex(Md5::digest(text.as_bytes()).into());
        let secret = Md5::digest(format!("{user}:{realm}:{password}"));
        let session = Md5::new().chain_update(secret).chain_update(format!(":{nonce}:{own_nonce}"));
        let session = hex(session.finalize().into());
        let proof = |of: String| {
            let of = md5(&of);
            md5(&format!("{session}:{nonce}:00000001:{own_nonce}:auth:{of}"))
        };
        let (proof, expected) = (proof(format!("AUTHENTICATE:{uri}")), proof(format!(":{uri}")));
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        let (user, realm, nonce, uri) = (quoted(user), quoted(realm), quoted(nonce), quoted(uri));
        let answer = format!(
            "charset=utf-8,username=\"{user}\",realm=\"{realm}\",nonce=\"{nonce}\",nc=00000001,cnonce=\"{own_nonce}\",\
             digest-uri=\"{uri}\",maxbuf=65536,response={proof},qop=auth"
        );
        Proof { answer: answer.into_bytes(), expected }
    }
}

/// A value at the beginning of a text, and what follows it.
fn value(text: &str) -> Result<(String, &str), Malformed> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(',').unwrap_or(text.len());
        return Ok((text[..end].trim().to_owned(), &text[end..]));
    };
    let (mut value, mut signs) = (String::new(), quoted.chars());
    loop {
        match signs.next() {
            Some('"') => return Ok((value, signs.as_str())),
            Some('\\') => value.extend(signs.next()),
            Some(sign) => value.push(sign),
            None => return Err(Malformed("a challenge without an end")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 2831, section 4.
    #[test]
    fn the_example_of_the_standard() {
        let challenge = br#"realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8"#;
        let challenge = Challenge::parse(challenge).unwrap();
        let proof = challenge.prove("chris", "secret", "OA6MHXh6VqTrRk", "imap/elwood.innosoft.com");
        let answer = String::from_utf8(proof.answer).unwrap();
        assert!(answer.contains("response=d388dad90d4bbd760a152321f2143af7,"), "{answer}");
        assert_eq!(proof.expected, "ea40f60335c427b5527b84dbabcdfffd");
    }

    #[test]
    fn challenges_may_be_odd() {
        let parse = |text: &str| Challenge::parse(text.as_bytes());
        let odd = parse(r#", nonce="a\"b,c" ,,qop=auth, realm=x,realm="y""#).unwrap();
        assert_eq!(odd, Challenge { realm: "x".to_owned(), nonce: "a\"b,c".to_owned() });
        let answer = odd.prove("u", "p", "n", "/default").answer;
        assert!(String::from_utf8(answer).unwrap().contains(r#"nonce="a\"b,c","#));
        for wrong in
            ["", "x", "nonce=\"a", "nonce=a,nonce=b", "realm=x", "nonce=a,algorithm=md5", "nonce=\"\\"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(Challenge::parse(b"nonce=\xFF").is_err());
        let error = format!("{:?}", parse("nonce=a,qop=\"auth-int,auth-conf\"").unwrap_err());
        assert!(error.contains("auth-int,auth-conf") && error.contains("webhdfs://"), "{error}");
    }
}
