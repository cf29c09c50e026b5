//! Grid storage over HTTP: what `root://` and `davs://` addresses mean there.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::Method;

use super::{Http, bearer_token, parse};
use crate::error::{Problem, StoreError};

/// The port of XRootD's own protocol, which most sites have serve HTTP as well.
const XROOTD_PORT: u16 = 1094;
/// Where else sites serve HTTPS: the usual port, that of EOS and `StoRM`, and that of dCache.
const OTHER_PORTS: [u16; 3] = [443, 8443, 2880];
/// A port behind a firewall does not answer at all.
const PATIENCE: Duration = Duration::from_secs(5);

/// The web address of what an address of grid storage names. Others are returned as they are.
///
/// `dav://` and `davs://` are other names for `http://` and `https://`. XRootD serves HTTP at a port that its site
/// chose, so for `root://` and `xroot://` the given port is asked first, then the usual ones. Without encryption only the
/// given port is asked, and only if there is no bearer token that others could read.
pub async fn over_http(address: &str) -> Result<String, StoreError> {
    let Some((scheme, rest)) = address.split_once("://") else { return Ok(address.to_owned()) };
    match scheme {
        "dav" => Ok(format!("http://{rest}")),
        "davs" => Ok(format!("https://{rest}")),
        "root" | "roots" | "xroot" | "xroots" => {
            let has_token = bearer_token().is_ok_and(|token| token.is_some());
            let candidates = candidates(rest, scheme.ends_with('s') || has_token);
            let answers = join_all(candidates.iter().map(|candidate| is_there(candidate))).await;
            let found = candidates.iter().zip(&answers).find(|(_, is_there)| **is_there);
            found.map(|(candidate, _)| candidate.clone()).ok_or_else(|| {
                let servers: Vec<String> =
                    candidates.iter().filter_map(|c| super::server_name(c).ok()).collect();
                let problem = format!(
                    "it cannot be had over HTTP, at none of {}; ask the site for its https:// or davs:// address",
                    servers.join(", ")
                );
                Problem::Unsupported(problem).at(address)
            })
        }
        _ => Ok(address.to_owned()),
    }
}

/// The addresses at which XRootD may serve HTTP, the likely ones first.
fn candidates(rest: &str, only_encrypted: bool) -> Vec<String> {
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let authority = authority.rsplit('@').next().unwrap_or(authority);
    // XRootD writes absolute paths with two slashes.
    let path = path.trim_start_matches('/');
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().unwrap_or(XROOTD_PORT)),
        _ => (authority, XROOTD_PORT),
    };
    let mut found = vec![format!("https://{host}:{port}/{path}")];
    if !only_encrypted {
        found.push(format!("http://{host}:{port}/{path}"));
    }
    let others = OTHER_PORTS.iter().filter(|&&other| other != port);
    found.extend(others.map(|other| format!("https://{host}:{other}/{path}")));
    found
}

/// Whether a web server knows this address, or at least wants to know who asks.
async fn is_there(address: &str) -> bool {
    let ask = async {
        let (http, url) = (Http::new(address)?, parse(address)?);
        let request = if url.path().ends_with('/') {
            let propfind = Method::from_bytes(b"PROPFIND").unwrap_or(Method::GET);
            http.request(propfind, url.clone()).header("depth", "0")
        } else {
            http.request(Method::HEAD, url.clone())
        };
        http.send(request, &url).await.map(drop)
    };
    match tokio::time::timeout(PATIENCE, ask).await {
        Ok(Ok(()) | Err(StoreError { problem: Problem::Denied(_) | Problem::Refused { .. }, .. })) => true,
        Ok(Err(_)) | Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_given_port_is_asked_first() {
        let found = candidates("h.org//store/a", false);
        let expected = [
            "https://h.org:1094/store/a",
            "http://h.org:1094/store/a",
            "https://h.org:443/store/a",
            "https://h.org:8443/store/a",
            "https://h.org:2880/store/a",
        ];
        assert_eq!(found, expected);
        let found = candidates("me@[::1]:8443//a", true);
        assert_eq!(found, ["https://[::1]:8443/a", "https://[::1]:443/a", "https://[::1]:2880/a"]);
    }

    #[tokio::test]
    async fn other_names_of_http_are_known() {
        assert_eq!(over_http("davs://h:8443/a").await.as_deref().ok(), Some("https://h:8443/a"));
        assert_eq!(over_http("dav://h/a").await.as_deref().ok(), Some("http://h/a"));
        assert_eq!(over_http("some/path").await.as_deref().ok(), Some("some/path"));
        // Nothing listens at the discard port, and nothing speaks TLS there.
        let error = over_http("root://127.0.0.1:9//a").await.err().map(|error| error.to_string());
        assert!(error.is_some_and(|error| error.contains("https:// or davs://")));
    }
}
