//! Addresses of HDFS over HTTP, `webhdfs://namenode[:9870]/path`.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Url;

/// What is encoded in a path. HDFS names may have any sign but `/` and `:`.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const RESERVED_IN_PATH: &AsciiSet = &RESERVED.remove(b'/');

/// A place in HDFS, and whom to ask about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// Whether requests are encrypted, those to the DataNodes too.
    pub(super) is_encrypted: bool,
    /// The NameNode, `host:port`.
    pub(super) namenode: String,
    /// Begins with a slash and does not end with one. That of the root is empty.
    pub(super) path: String,
}

impl Address {
    /// Reads an address. As everywhere in Hadoop, its path is not encoded: `%20` is three signs of a name.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let (is_encrypted, usual_port) = match scheme {
            "webhdfs" => (false, 9870),
            "swebhdfs" | "webhdfs+https" => (true, 9871),
            _ => return Err("this is no address of WebHDFS; give webhdfs://namenode:9870/path".to_owned()),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let protocol = if is_encrypted { "https" } else { "http" };
        let url = Url::parse(&format!("{protocol}://{authority}")).ok();
        let is_plain = |url: &Url| {
            url.path() == "/"
                && url.username().is_empty()
                && url.query().is_none()
                && url.fragment().is_none()
        };
        let Some(host) = url.as_ref().filter(|url| is_plain(url)).and_then(Url::host_str) else {
            return Err(format!("`{authority}` is no NameNode; give {scheme}://namenode:{usual_port}/path"));
        };
        // The usual port of the web, if it is given, is not part of the parsed address.
        let port = authority.strip_prefix(host).and_then(|port| port.strip_prefix(':')?.parse().ok());
        let port: u16 = port.or(url.as_ref().and_then(Url::port)).unwrap_or(usual_port);
        let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        if names.iter().any(|name| matches!(*name, "." | "..")) {
            return Err(
                "a path in HDFS has no `.` or `..` between slashes; write out where it leads".to_owned()
            );
        }
        let path = names.iter().flat_map(|name| ["/", name]).collect();
        Ok(Self { is_encrypted, namenode: format!("{host}:{port}"), path })
    }

    /// The address of what is at a path, as people write it.
    pub(super) fn of(&self, path: &str) -> String {
        format!("{}{path}", self.root())
    }

    /// What the addresses of all files begin with.
    pub(super) fn root(&self) -> String {
        format!("{}://{}", if self.is_encrypted { "swebhdfs" } else { "webhdfs" }, self.namenode)
    }

    /// `http://host:port` of a DataNode or the NameNode.
    pub(super) fn server(&self, host_and_port: &str) -> String {
        format!("{}://{host_and_port}", if self.is_encrypted { "https" } else { "http" })
    }
}

/// The web address of an operation on a path.
pub(super) fn url(server: &str, path: &str, query: &[(&str, &str)]) -> Result<Url, String> {
    let encode = |text| utf8_percent_encode(text, RESERVED);
    let pairs: Vec<String> =
        query.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
    let path = utf8_percent_encode(if path.is_empty() { "/" } else { path }, RESERVED_IN_PATH);
    let text = format!("{server}/webhdfs/v1{path}?{}", pairs.join("&"));
    Url::parse(&text).map_err(|error| format!("{server} is no usable address ({error})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_hadoop_does() {
        let read = |text: &str| Address::parse(text).map(|address| address.of(&address.path));
        let same = |text: &str, expected: &str| assert_eq!(read(text).as_deref(), Ok(expected), "{text}");
        same("webhdfs://nn/a%20b//c d/", "webhdfs://nn:9870/a%20b/c d");
        same("webhdfs://nn:80", "webhdfs://nn:80");
        same("webhdfs://[::1]:50070/", "webhdfs://[::1]:50070");
        same("swebhdfs://nn/x?y#z", "swebhdfs://nn:9871/x?y#z");
        same("webhdfs+https://nn:443/x", "swebhdfs://nn:443/x");
        for wrong in [
            "webhdfs:///x",
            "webhdfs://",
            "webhdfs://a@b/x",
            "webhdfs://nn:x/",
            "hdfs://nn/",
            "webhdfs://nn/a/../b",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_are_encoded() {
        let query = [("op", "OPEN"), ("user.name", "a b&c")];
        let url = url("http://nn:9870", "/größe/a b+%41&x=?#.txt", &query).map(String::from);
        let expected = "http://nn:9870/webhdfs/v1/gr%C3%B6%C3%9Fe/a%20b%2B%2541%26x%3D%3F%23.txt?op=OPEN&user.name=a%20b%26c";
        assert_eq!(url.as_deref(), Ok(expected));
    }
}
