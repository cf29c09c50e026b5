//! Who asks: a user by name, or by a delegation token.

use std::fmt;

use crate::hdfs::token::{self, Token};
use crate::user;

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
        let text = match token::text_of_environment() {
            Some(text) => Some(text),
            None => fitting(&token::of_environment(&[])?, namenode)?,
        };
        let named = || user::name().map_or(Self::Nobody, Self::Named);
        Ok(text.map_or_else(named, Self::Token))
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

/// The token for a NameNode, unless there are none at all.
fn fitting(tokens: &[Token], namenode: &str) -> Result<Option<String>, String> {
    let host = namenode.rsplit_once(':').map(|(host, _)| host);
    let is_of_host = |service: &str| host.is_some_and(|host| service.split(':').any(|part| part == host));
    let mut fitting: Vec<&Token> =
        tokens.iter().filter(|token| tokens.len() == 1 || is_of_host(&token.service)).collect();
    if fitting.is_empty() {
        fitting = tokens.iter().collect();
    }
    fitting.dedup();
    match fitting[..] {
        [] => Ok(None),
        [token] => Ok(Some(token.to_text())),
        _ => {
            let services: Vec<&str> = fitting.iter().map(|token| token.service.as_str()).collect();
            let services = services.join(", ");
            Err(format!(
                "the file that HADOOP_TOKEN_FILE_LOCATION names has tokens for {services}; name the right one in \
                 HADOOP_DELEGATION_TOKEN"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_of_the_namenode_is_taken() {
        let token = |service: &str| Token::example(service.as_bytes(), service);
        let [first, second] = ["ha-hdfs:a", "nn:9870"].map(token);
        let both = [first.clone(), second.clone()];
        assert_eq!(fitting(&both, "nn:9870"), Ok(Some(second.to_text())));
        assert_eq!(fitting(&both[..1], "other:9870"), Ok(Some(first.to_text())));
        assert_eq!(fitting(&[first.clone(), first], "other:9870").map(|found| found.is_some()), Ok(true));
        let error = fitting(&both, "other:9870").unwrap_err();
        assert!(error.contains("ha-hdfs:a, nn:9870; name the right one"), "{error}");
        // A job of a cluster without Kerberos has tokens, but none for HDFS.
        assert_eq!(fitting(&[], "nn:9870"), Ok(None));
        assert!(!format!("{:?}", User::Token("SECRET".into())).contains("SECRET"));
    }
}
