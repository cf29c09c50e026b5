//! Mirrors that a web server names in the headers of a file (RFC 6249).
//!
//! ```text
//! Link: <https://mirror.example.org/a.iso>; rel=duplicate; pri=1; geo=de
//! Link: <https://example.org/a.iso.meta4>; rel=describedby; type="application/metalink4+xml"
//! Digest: SHA-256=…
//! ```

use futures_util::future::join_all;
use reqwest::Method;
use reqwest::header::HeaderMap;

use super::{Http, listing, parse};
use crate::error::{Problem, StoreError};
use crate::metalink::MirroredFile;

/// Mirrors that are looked at, the preferred first.
const MOST_MIRRORS: usize = 32;
/// The priority of a mirror without one, by RFC 6249.
const LAST_PRIORITY: u64 = 999_999;

/// What a web server tells about a file.
#[derive(Clone, Debug)]
pub struct Announced {
    /// The file, at its own address and at all mirrors that have it: same size, and no checksum that differs.
    pub file: MirroredFile,
    /// Where a Metalink of the file is.
    pub metalink: Option<String>,
    /// Mirrors that were named and are not used, and why.
    pub unusable: Vec<String>,
}

/// Asks a web server about a file, and the mirrors that it names. The mirrors never see the bearer token.
///
/// They are used only if the server tells a checksum of the file, which shows in the end that all parts are of it.
pub async fn announced(address: &str) -> Result<Announced, StoreError> {
    let (http, url) = (Http::new(address)?, parse(address)?);
    let (object, headers) = http.look_up_with_headers(listing::key(&url, &url)?, url.clone()).await?;
    let links = links(&headers);
    let absolute = |link: &Link| url.join(&link.target).ok().map(|target| (link.priority(), target));
    let mut mirrors: Vec<_> =
        links.iter().filter(|link| link.is("rel", "duplicate")).filter_map(absolute).collect();
    mirrors.sort_by_key(|(priority, _)| *priority);
    mirrors.retain(|(_, mirror)| *mirror != url && matches!(mirror.scheme(), "http" | "https"));
    let is_metalink =
        |link: &&Link| link.is("rel", "describedby") && link.is("type", "application/metalink4+xml");
    let metalink =
        links.iter().find(is_metalink).and_then(|link| url.join(&link.target).ok()).map(String::from);
    let (mut urls, mut unusable) = (vec![url.to_string()], Vec::new());
    if !object.hashes.is_empty() {
        let asked = mirrors.iter().take(MOST_MIRRORS).map(|(_, mirror)| async {
            let there = Http::with_token(mirror.as_str(), None)?.file_at(mirror.as_str()).await?;
            let differs = |hash: &crate::Hash| {
                object.hashes.iter().any(|our| our.algorithm == hash.algorithm && our != hash)
            };
            match there.bytes != object.bytes || there.hashes.iter().any(differs) {
                true => Err(Problem::Changed.at(mirror.as_str())),
                false => Ok(mirror.to_string()),
            }
        });
        for answer in join_all(asked).await {
            match answer {
                Ok(mirror) => urls.push(mirror),
                Err(StoreError { address, problem: Problem::Changed }) => {
                    unusable.push(format!("{address}: is not the same as {url}; this mirror is not used"));
                }
                Err(error) => unusable.push(format!("{error}; this mirror is not used")),
            }
        }
    } else if !mirrors.is_empty() {
        unusable.push(format!(
            "{url}: the server names mirrors, but no checksum to compare them by; they are not used"
        ));
    }
    let file = MirroredFile {
        name: object.key,
        bytes: Some(object.bytes),
        hashes: object.hashes,
        pieces: None,
        urls,
    };
    Ok(Announced { file, metalink, unusable })
}

/// Reads a small file of a web server, such as a Metalink, of at most `most_bytes`.
pub async fn fetch(address: &str, most_bytes: usize) -> Result<Vec<u8>, StoreError> {
    let (http, url) = (Http::new(address)?, parse(address)?);
    let response = http.send(http.request(Method::GET, url.clone()), &url).await?;
    listing::body(response, most_bytes).await.map_err(|problem| problem.at(url.as_str()))
}

/// A link in a header (RFC 8288).
#[derive(Debug, PartialEq, Eq)]
struct Link {
    target: String,
    parameters: Vec<(String, String)>,
}

impl Link {
    /// Whether a parameter has this value, or has it among several.
    fn is(&self, name: &str, value: &str) -> bool {
        let mut values = self.parameters.iter().filter(|(known, _)| known == name).map(|(_, value)| value);
        values.any(|known| known.split_whitespace().any(|one| one.eq_ignore_ascii_case(value)))
    }

    fn priority(&self) -> u64 {
        let given = self.parameters.iter().find(|(name, _)| name == "pri");
        given.and_then(|(_, value)| value.parse().ok()).unwrap_or(LAST_PRIORITY)
    }
}

/// All links in the headers.
fn links(headers: &HeaderMap) -> Vec<Link> {
    let values = headers.get_all("link").iter().filter_map(|value| value.to_str().ok());
    values.flat_map(parse_links).collect()
}

/// The links of one header, `<target>; name=value; name="value", <target> …`, up to the first that is not written so.
fn parse_links(header: &str) -> Vec<Link> {
    let mut found = Vec::new();
    let mut rest = header;
    while let Some((target, after)) =
        rest.trim_start_matches([' ', ',', '\t']).strip_prefix('<').and_then(|rest| rest.split_once('>'))
    {
        let mut link = Link { target: target.trim().to_owned(), parameters: Vec::new() };
        rest = after.trim_start();
        while let Some(parameter) = rest.strip_prefix(';') {
            let end = parameter.find(['=', ';', ',']).unwrap_or(parameter.len());
            let name = parameter[..end].trim().to_ascii_lowercase();
            rest = &parameter[end..];
            let mut value = String::new();
            if let Some(after) = rest.strip_prefix('=') {
                (value, rest) = parse_value(after.trim_start());
            }
            link.parameters.push((name, value));
            rest = rest.trim_start();
        }
        found.push(link);
    }
    found
}

/// A value, quoted or not, and what follows it.
fn parse_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([';', ',']).unwrap_or(text.len());
        return (text[..end].trim().to_owned(), &text[end..]);
    };
    let (mut value, mut characters) = (String::new(), quoted.char_indices());
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            other => value.push(other),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_read_from_headers() {
        let header = r#"<http://a/x,y>; rel=duplicate; pri=2; geo=de, <http://b/>;rel="other Duplicate" ; pref , </m>; rel=describedby; type="application/metalink4+xml"; title="a\"b,<c>""#;
        let found = parse_links(header);
        let targets: Vec<&str> = found.iter().map(|link| link.target.as_str()).collect();
        assert_eq!(targets, ["http://a/x,y", "http://b/", "/m"]);
        assert_eq!((found[0].priority(), found[1].priority()), (2, LAST_PRIORITY));
        assert!(found[0].is("rel", "duplicate") && found[1].is("rel", "duplicate"));
        assert!(found[2].is("type", "application/metalink4+xml"));
        assert_eq!(found[2].parameters.last().map(|(_, value)| value.as_str()), Some("a\"b,<c>"));
        for wrong in ["", "<", "x", "<a", "<a>; b=\"", "<a>;;;", "<a> x <b>", "\"<a>"] {
            let _ = parse_links(wrong);
        }
    }
}
