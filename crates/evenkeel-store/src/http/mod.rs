//! Web servers: plain HTTP with ranges, and folders listed by WebDAV or by an index page.

pub(crate) mod answer;
mod listing;

use std::ops::Range;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt, TryStreamExt};
use reqwest::header::{ACCEPT_ENCODING, AUTHORIZATION, HeaderMap, HeaderValue, IF_MATCH, RANGE};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url, redirect};

use crate::error::{Problem, StoreError};
use crate::{Body, Object, Source};

/// A connection that takes longer than this will not come.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A server that sends nothing for this long has died.
const SILENCE: Duration = Duration::from_secs(20);
/// Redirects that are followed. A loop ends here.
const MOST_REDIRECTS: usize = 10;
/// Questions about single objects that are asked at once.
const N_AT_ONCE: usize = 16;
/// Folders within folders that are listed. Links may lead in circles.
const MOST_LEVELS: usize = 64;

/// A web server, seen from one address: a folder if it ends with `/`, else a single file.
#[derive(Debug)]
pub struct Http {
    servers: [String; 1],
    base: Url,
    client: Client,
}

impl Http {
    /// The folder or file at an address. A bearer token is taken from `BEARER_TOKEN` or the file that
    /// `BEARER_TOKEN_FILE` names, and proxies from the usual variables.
    pub fn new(address: &str) -> Result<Self, StoreError> {
        let unusable = |what: String| Problem::Unsupported(what).at(address);
        let mut base = Url::parse(address)
            .map_err(|error| unusable(format!("this is no address ({error}); give https://host/path")))?;
        base.set_fragment(None);
        let Some(host) = base.host_str() else { return Err(unusable("the address has no host".to_owned())) };
        let port = base.port().map(|port| format!(":{port}")).unwrap_or_default();
        let server = format!("{}://{host}{port}", base.scheme());
        let client = client().map_err(unusable)?;
        Ok(Self { servers: [server], base, client })
    }

    fn request(&self, method: Method, url: Url) -> RequestBuilder {
        // Compressed data has other ranges.
        self.client.request(method, url).header(ACCEPT_ENCODING, "identity")
    }

    async fn send(&self, request: RequestBuilder, url: &Url) -> Result<Response, StoreError> {
        let response = request.send().await.map_err(|error| answer::broken(&error).at(url.as_str()))?;
        match answer::refusal(response.status(), response.headers()) {
            Some(problem) => Err(problem.at(url.as_str())),
            None => Ok(response),
        }
    }

    /// Asks for what is known about a file.
    async fn look_up(&self, key: String, url: Url) -> Result<Object, StoreError> {
        let wanted = "sha-256;q=1, md5;q=0.5, adler32;q=0.3";
        let request = self.request(Method::HEAD, url.clone()).header("want-digest", wanted);
        let response = self.send(request, &url).await?;
        let Some(bytes) = answer::length(response.headers()) else {
            let problem = "the server does not tell how long it is, so it cannot be read in ranges";
            return Err(Problem::Unsupported(problem.to_owned()).at(url.as_str()));
        };
        let identity = answer::entity_tag(response.headers());
        let mut object = Object::on_one_server(key, url.to_string(), bytes, identity);
        object.hashes = answer::hashes(response.headers());
        Ok(object)
    }

    /// The size of a file of this server.
    pub(crate) async fn size_of(&self, url: &str) -> Result<u64, StoreError> {
        let parsed = Url::parse(url).map_err(|error| Problem::Unsupported(error.to_string()).at(url))?;
        Ok(self.look_up(String::new(), parsed).await?.bytes)
    }

    /// What is in a folder: its files, and the folders in it.
    async fn list_folder(&self, url: Url) -> Result<(Vec<Object>, Vec<Url>), StoreError> {
        let entries = listing::entries(self, &url).await?;
        let (mut files, mut folders) = (Vec::new(), Vec::new());
        for child in entries {
            if child.path().ends_with('/') { folders.push(child) } else { files.push(child) }
        }
        let look_ups = files.into_iter().map(|url| async move {
            let key = listing::key(&self.base, &url)?;
            match self.look_up(key, url).await {
                Ok(object) => Ok(Some(object)),
                // It was removed after the folder was listed.
                Err(StoreError { problem: Problem::NotFound, .. }) => Ok(None),
                Err(error) => Err(error),
            }
        });
        let objects: Vec<Option<Object>> = stream::iter(look_ups).buffered(N_AT_ONCE).try_collect().await?;
        let objects = objects.into_iter().flatten().collect();
        Ok((objects, folders))
    }
}

/// A client that follows few redirects and waits for nobody for ever.
fn client() -> Result<Client, String> {
    // Whoever installs a provider first wins, and all of them are this one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut headers = HeaderMap::new();
    if let Some(token) = bearer_token()? {
        let value = HeaderValue::from_str(&format!("Bearer {token}"));
        let mut value = value.map_err(|_| "the bearer token has characters that no token has".to_owned())?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    let client = Client::builder()
        .default_headers(headers)
        // XRootD knows `Depth`, but not `depth`.
        .http1_title_case_headers()
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(SILENCE)
        .redirect(redirect::Policy::limited(MOST_REDIRECTS))
        .user_agent(concat!("evenkeel/", env!("CARGO_PKG_VERSION")))
        .build();
    client.map_err(|error| format!("cannot set up HTTP: {error}"))
}

fn bearer_token() -> Result<Option<String>, String> {
    if let Ok(token) = std::env::var("BEARER_TOKEN") {
        return Ok(Some(token.trim().to_owned()));
    }
    let Ok(path) = std::env::var("BEARER_TOKEN_FILE") else { return Ok(None) };
    let token = std::fs::read_to_string(&path)
        .map_err(|error| format!("cannot read {path} (BEARER_TOKEN_FILE): {error}"))?;
    Ok(Some(token.trim().to_owned()))
}

impl Source for Http {
    fn servers(&self) -> &[String] {
        &self.servers
    }

    fn list(&self) -> BoxStream<'_, Result<Vec<Object>, StoreError>> {
        if !self.base.path().ends_with('/') {
            let one = async {
                let key = listing::key(&self.base, &self.base)?;
                Ok(vec![self.look_up(key, self.base.clone()).await?])
            };
            return stream::once(one).boxed();
        }
        let next = move |mut left: Vec<(usize, Url)>| async move {
            let Some((level, url)) = left.pop() else { return Ok(None) };
            let (objects, folders) = self.list_folder(url.clone()).await?;
            if level == MOST_LEVELS && !folders.is_empty() {
                let problem = format!("more than {MOST_LEVELS} folders within each other; name an inner one");
                return Err(Problem::Unsupported(problem).at(url.as_str()));
            }
            left.extend(folders.into_iter().map(|folder| (level + 1, folder)));
            Ok(Some((objects, left)))
        };
        stream::try_unfold(vec![(0, self.base.clone())], next).boxed()
    }

    fn read<'a>(
        &'a self,
        object: &'a Object,
        _server: usize,
        range: Range<u64>,
    ) -> BoxFuture<'a, Result<Body, StoreError>> {
        async move {
            if range.is_empty() {
                return Ok(stream::empty().boxed());
            }
            let at = |problem: Problem| problem.at(object.address.as_str());
            let url = Url::parse(&object.address).map_err(|e| at(Problem::Unsupported(e.to_string())))?;
            let mut request = self.request(Method::GET, url.clone());
            let is_whole = range == (0..object.bytes);
            if !is_whole {
                request = request.header(RANGE, format!("bytes={}-{}", range.start, range.end - 1));
            }
            // A weak tag names no bytes, and servers refuse it here.
            if let Some(tag) = object.identity.as_deref().filter(|tag| tag.starts_with('"')) {
                request = request.header(IF_MATCH, tag);
            }
            let response = self.send(request, &url).await?;
            let is_right = match response.status() {
                StatusCode::OK if is_whole => answer::is_whole(response.headers(), object),
                StatusCode::OK => Err(Problem::Unsupported(
                    "the server sends whole files only, so it cannot serve ranges".to_owned(),
                )),
                StatusCode::PARTIAL_CONTENT => answer::is_range(response.headers(), object, &range),
                other => Err(Problem::Damaged(format!("the answer {other}"))),
            };
            is_right.map_err(at)?;
            let address = object.address.clone();
            let chunks = response.bytes_stream();
            Ok(answer::exactly(range.end - range.start, address, chunks).boxed())
        }
        .boxed()
    }
}
