//! What is in a folder of a web server: by WebDAV (RFC 4918), else by its index page, in JSON as nginx writes it or in
//! HTML as most do.

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use quick_xml::events::Event;
use quick_xml::name::QName;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Method, Response, Url};
use serde::Deserialize;
use tokio::time::Instant;

use super::{Http, SILENCE, TRICKLE, answer};
use crate::error::{Problem, StoreError};

/// The maximum size of a page that lists a folder.
const MOST_BYTES: usize = 64 << 20;

/// The addresses of what is directly in a folder. Folders end with `/`.
pub(super) async fn entries(http: &Http, folder: &Url) -> Result<Vec<Url>, StoreError> {
    let propfind = Method::from_bytes(b"PROPFIND").unwrap_or(Method::GET);
    let request = http.request(propfind, folder.clone()).header("depth", "1");
    let links = match http.send(request, folder).await {
        Ok(response) if response.status().as_u16() == 207 => webdav(&text(response, folder).await?),
        Err(StoreError { problem: problem @ (Problem::Denied(_) | Problem::TimedOut), .. }) => {
            return Err(problem.at(folder.as_str()));
        }
        // Servers without WebDAV answer in many ways.
        _ => {
            let request =
                http.request(Method::GET, folder.clone()).header(ACCEPT, "application/json, text/html");
            let response = http.send(request, folder).await?;
            let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
            match kind.unwrap_or_default().split(';').next().unwrap_or_default() {
                "application/json" => json(&text(response, folder).await?),
                "text/html" => Ok(html(&text(response, folder).await?)),
                other => {
                    Err(format!("the folder has no index page, but `{other}`; give a manifest of its files"))
                }
            }
        }
    };
    let links = links.map_err(|problem| Problem::Unsupported(problem).at(folder.as_str()))?;
    let mut children: Vec<Url> = links.iter().filter_map(|link| child(folder, link)).collect();
    children.sort();
    children.dedup();
    Ok(children)
}

/// The address behind a link, if it is directly in the folder.
fn child(folder: &Url, link: &str) -> Option<Url> {
    let mut url = folder.join(link).ok()?;
    if url.query().is_some() || url.origin() != folder.origin() {
        return None;
    }
    url.set_fragment(None);
    let name = url.path().strip_prefix(folder.path())?.trim_end_matches('/');
    (!name.is_empty() && !name.contains('/')).then_some(url)
}

/// The key of a file: its path below the base, or its name if it is the base itself.
pub(super) fn key(base: &Url, url: &Url) -> Result<String, StoreError> {
    let below = url.path().strip_prefix(base.path()).filter(|below| !below.is_empty());
    let encoded = below.or_else(|| url.path().rsplit('/').next()).unwrap_or_default();
    let unusable = |what: &str| Problem::Unsupported(what.to_owned()).at(url.as_str());
    let key = percent_decode_str(encoded).decode_utf8().map_err(|_| unusable("its name is not UTF-8"))?;
    if key.is_empty() {
        Err(unusable("it has no name; end the address of a folder with `/`"))
    } else {
        Ok(key.into_owned())
    }
}

async fn text(response: Response, url: &Url) -> Result<String, StoreError> {
    let no_text = |_| Problem::Damaged("its index is not UTF-8".to_owned()).at(url.as_str());
    let bytes = body(response, MOST_BYTES).await.map_err(|problem| problem.at(url.as_str()))?;
    String::from_utf8(bytes).map_err(no_text)
}

/// All of an answer, if it is not too long.
pub(crate) async fn body(mut response: Response, most_bytes: usize) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    let (mut since, mut n_before) = (Instant::now(), 0);
    loop {
        if since.elapsed() >= SILENCE {
            if bytes.len() - n_before < TRICKLE {
                return Err(Problem::TimedOut);
            }
            (since, n_before) = (Instant::now(), bytes.len());
        }
        match response.chunk().await {
            Ok(Some(chunk)) if bytes.len() + chunk.len() <= most_bytes => bytes.extend_from_slice(&chunk),
            Ok(Some(_)) => {
                let problem = format!("it has more than {} MiB", most_bytes >> 20);
                return Err(Problem::Unsupported(problem));
            }
            Ok(None) => return Ok(bytes),
            Err(error) => return Err(answer::broken(&error.without_url())),
        }
    }
}

/// The links of a WebDAV answer. Collections end with `/`, whether the server writes it or not.
fn webdav(xml: &str) -> Result<Vec<String>, String> {
    let mut reader = quick_xml::Reader::from_str(xml);
    let is = |name: QName<'_>, wanted: &str| name.local_name().as_ref() == wanted;
    let (mut links, mut link, mut is_link) = (Vec::new(), String::new(), false);
    loop {
        match reader.read_event().map_err(|error| format!("its WebDAV answer is not well-formed: {error}"))? {
            Event::Start(start) if is(start.name(), "response") => link.clear(),
            Event::Start(start) if is(start.name(), "href") => is_link = link.is_empty(),
            Event::End(end) if is(end.name(), "href") => is_link = false,
            Event::Text(text) if is_link => link.push_str(&text),
            Event::GeneralRef(reference) if is_link && reference.as_ref() == "amp" => link.push('&'),
            Event::Empty(start) | Event::Start(start)
                if is(start.name(), "collection") && !link.is_empty() && !link.ends_with('/') =>
            {
                link.push('/');
            }
            Event::End(end) if is(end.name(), "response") => links.push(std::mem::take(&mut link)),
            Event::Eof => return Ok(links),
            _ => {}
        }
    }
}

#[derive(Deserialize)]
struct JsonEntry {
    name: String,
    #[serde(rename = "type")]
    kind: String,
}

/// The links of an index in JSON: `[{"name": "a", "type": "file"}, {"name": "b", "type": "directory"}]`.
fn json(text: &str) -> Result<Vec<String>, String> {
    let entries: Vec<JsonEntry> =
        serde_json::from_str(text).map_err(|error| format!("its index cannot be read: {error}"))?;
    let link = |entry: JsonEntry| {
        // Names are not encoded, and one that has a colon must not look like an address.
        let name = utf8_percent_encode(&entry.name, NON_ALPHANUMERIC);
        format!("./{name}{}", if entry.kind == "directory" { "/" } else { "" })
    };
    Ok(entries.into_iter().map(link).collect())
}

/// The links of an HTML page.
fn html(page: &str) -> Vec<String> {
    let mut links = Vec::new();
    let mut rest = page;
    while let Some(at) = find_ignoring_case(rest, "href=") {
        rest = &rest[at + "href=".len()..];
        let Some(quote) = rest.chars().next().filter(|&c| c == '"' || c == '\'') else { continue };
        let Some((link, after)) = rest[1..].split_once(quote) else { break };
        links.push(link.replace("&amp;", "&"));
        rest = after;
    }
    links
}

fn find_ignoring_case(text: &str, wanted: &str) -> Option<usize> {
    text.as_bytes().windows(wanted.len()).position(|window| window.eq_ignore_ascii_case(wanted.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn children(links: &[String]) -> Vec<String> {
        let folder = Url::parse("http://h/d/").expect("an address");
        links.iter().filter_map(|link| child(&folder, link)).map(String::from).collect()
    }

    #[test]
    fn index_pages_are_read() {
        let page = r#"<a href="../">up</a> <A HREF='a%20b.txt'>x</a> <a href="sub/">s</a> <a href="?C=N">sort</a>
            <a href="/d/c&amp;d">y</a> <a href="/elsewhere">z</a> <a href="http://other/d/e">e</a> <a href=x> <a href="#;
        let expected = ["http://h/d/a%20b.txt", "http://h/d/sub/", "http://h/d/c&d"];
        assert_eq!(children(&html(page)), expected);
    }

    #[test]
    fn json_indexes_are_read() {
        let index = r#"[{"name":"a b#?%.txt","type":"file","size":3},{"name":"s","type":"directory"},{"name":"c:d","type":"file"}]"#;
        let expected = ["http://h/d/a%20b%23%3F%25%2Etxt", "http://h/d/s/", "http://h/d/c%3Ad"];
        assert_eq!(children(&json(index).expect("it is JSON")), expected);
        assert!(json("<html>").is_err());
    }

    #[test]
    fn webdav_answers_are_read() {
        let answer = r#"<?xml version="1.0"?><D:multistatus xmlns:D="DAV:">
            <D:response><D:href>/d/</D:href><D:propstat><D:prop><D:resourcetype><D:collection/></D:resourcetype></D:prop></D:propstat></D:response>
            <D:response><D:href>/d/a&amp;b</D:href><D:propstat><D:prop><D:resourcetype/></D:prop></D:propstat></D:response>
            <D:response><D:href>/d/sub</D:href><D:propstat><D:prop><D:resourcetype><D:collection/></D:resourcetype></D:prop></D:propstat></D:response>
            </D:multistatus>"#;
        assert_eq!(children(&webdav(answer).expect("it is XML")), ["http://h/d/a&b", "http://h/d/sub/"]);
        assert!(webdav("<a><b></a>").is_err());
    }

    #[test]
    fn keys_are_paths_below_the_base() {
        let url = |text| Url::parse(text).expect("an address");
        let key = |base, at| key(&url(base), &url(at)).map_err(|error| error.to_string());
        assert_eq!(key("http://h/d/", "http://h/d/a/b%20c%C3%A9").as_deref(), Ok("a/b cé"));
        assert_eq!(key("http://h/d/x.iso", "http://h/d/x.iso").as_deref(), Ok("x.iso"));
        assert!(key("http://h/d/", "http://h/d/%FF").is_err());
        assert!(key("http://h", "http://h").is_err());
    }
}
