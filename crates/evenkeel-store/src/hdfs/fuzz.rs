//! What servers and configurations may contain, for fuzzing: an error or an answer, never a panic.

use std::time::Duration;

use super::conf::Conf;
use super::datanode;
use super::located::{self, Datanodes};
use super::messages::{FileInfoAnswer, ListingAnswer, LocationsAnswer, Parse, ResponseHeader};
use super::rpc::User;
use super::sasl::{self, Agreed};
use super::token::{self, Token};
use super::{Folder, Hdfs};

/// An answer of a NameNode, of each kind. Returns whether what passes fits together.
pub fn namenode(bytes: &[u8]) -> bool {
    let mut fits = true;
    let _ = ResponseHeader::parse(bytes);
    let _ = FileInfoAnswer::parse(bytes);
    if let Ok(LocationsAnswer(Some(located))) = LocationsAnswer::parse(bytes)
        && let Ok((file, extents)) = located::file(&located, located.bytes, &mut Datanodes::new(false))
    {
        let n_bytes: u64 = extents.iter().map(|extent| extent.bytes).sum();
        fits = n_bytes == located.bytes && file.block_at(0).is_some() == (n_bytes > 0);
    }
    let Ok(cluster) = Conf::default().cluster("namenode") else { return false };
    let user = User { name: "nobody".to_owned(), tokens: Vec::new(), service: String::new() };
    let hdfs = Hdfs::of(cluster, user, "/a");
    if let Ok(ListingAnswer(Some(listing))) = ListingAnswer::parse(bytes) {
        let folder = Folder { path: "/a".to_owned(), level: 0, after: Vec::new() };
        let (page, _) = hdfs.page(listing, &folder).unwrap_or_default();
        fits &= page.objects.iter().all(|object| !object.key.contains("..") || !object.key.contains('/'));
    }
    fits
}

/// The answer of a DataNode and the packets after it; the first bytes say which range was asked for. Returns whether no
/// more passes than that.
pub fn datanode(bytes: &[u8]) -> bool {
    let Some((begin, rest)) = bytes.split_first_chunk::<4>() else { return true };
    let [a, b, c, d] = begin.map(u64::from);
    let (from, n_wanted) = (a << 8 | b, (c << 8 | d) + 1);
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_time().build() else {
        return false;
    };
    runtime.block_on(datanode::receive(rest, from..from + n_wanted, Duration::from_secs(1))) <= n_wanted
}

/// A file of the configuration.
pub fn configuration(text: &str) {
    let mut conf = Conf::default();
    if conf.add(text).is_ok() {
        let _ = conf.cluster("");
        let _ = conf.cluster("main");
    }
}

/// What a NameNode sends to somebody who logs in with a token. Nobody knows its password, so that nothing proves that the
/// NameNode does: returns whether nobody has been logged in by it.
pub fn login(bytes: &[u8]) -> bool {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_time().build() else {
        return false;
    };
    let Ok(token) = Token::of_text("AWkBcAFrAXM") else { return false };
    let mut stream = tokio::io::join(bytes, tokio::io::sink());
    let agreed = runtime.block_on(sasl::log_in(&mut stream, &[0; 16], &token));
    !matches!(agreed, Ok(Agreed::Token))
}

/// A file of tokens. Returns whether each of them is the same when it was written and read.
pub fn tokens(bytes: &[u8]) -> bool {
    let tokens = token::parse(bytes).unwrap_or_default();
    tokens.iter().all(|token| Token::of_text(&token.to_text()).as_ref() == Ok(token))
}
