//! Web servers: plain HTTP with ranges, and folders listed by WebDAV or by an index page.

mod announced;
pub(crate) mod answer;
mod grid;
mod listing;

use std::ops::Range;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use reqwest::header::{ACCEPT_ENCODING, AUTHORIZATION, HeaderMap, HeaderValue, IF_MATCH, RANGE};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url, redirect};

use crate::error::{Problem, StoreError};
use crate::{Body, Object, Page, Source, Unreadable};

pub use announced::{Announced, announced, fetch};
pub use grid::over_http;
pub(crate) use listing::body;

/// A connection that takes longer than this will not come.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A server that sends nothing for this long has died.
const SILENCE: Duration = Duration::from_secs(20);
/// Fewer bytes of a listing than this in that time are as good as none.
const TRICKLE: usize = 1 << 14;
/// Redirects that are followed. A loop ends here.
const MOST_REDIRECTS: usize = 10;
/// Questions about single objects that are asked at once.
const N_AT_ONCE: usize = 16;
/// The checksums that are asked for. XRootD takes the first that it knows, and its older versions know no weights.
const WANTED_DIGESTS: &str = "adler32,sha-256,md5";
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
        let token = bearer_token().map_err(|what| Problem::Unsupported(what).at(address))?;
        Self::with_token(address, token)
    }

    /// The same with this bearer token, or without one.
    pub(crate) fn with_token(address: &str, token: Option<String>) -> Result<Self, StoreError> {
        let base = parse(address)?;
        let redirects = redirect::Policy::limited(MOST_REDIRECTS);
        let client = client(token, redirects).map_err(|what| Problem::Unsupported(what).at(address))?;
        Ok(Self { servers: [server_of(&base)], base, client })
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
        self.look_up_with_headers(key, url).await.map(|(object, _)| object)
    }

    async fn look_up_with_headers(&self, key: String, url: Url) -> Result<(Object, HeaderMap), StoreError> {
        let request = || self.request(Method::HEAD, url.clone());
        let mut response = self.send(request().header("want-digest", WANTED_DIGESTS), &url).await;
        // XRootD before 5.5 answers 500 if it does not know what is wanted first.
        if let Err(StoreError { problem: Problem::Unreachable(status), .. }) = &response
            && status.starts_with("500")
        {
            response = self.send(request(), &url).await;
        }
        let response = response?;
        let Some(bytes) = answer::length(response.headers()) else {
            let problem = "the server does not tell how long it is, so it cannot be read in ranges";
            return Err(Problem::Unsupported(problem.to_owned()).at(url.as_str()));
        };
        let identity = answer::entity_tag(response.headers());
        let mut object = Object::on_one_server(key, url.to_string(), bytes, identity);
        object.hashes = answer::hashes(response.headers());
        Ok((object, response.headers().clone()))
    }

    /// What is known about a file of this server.
    pub(crate) async fn file_at(&self, url: &str) -> Result<Object, StoreError> {
        let url = parse(url)?;
        let key = listing::key(&url, &url)?;
        self.look_up(key, url).await
    }

    /// What is in a folder: its files, and the folders in it.
    async fn list_folder(&self, url: &Url) -> Result<(Page, Vec<Url>), StoreError> {
        let entries = match listing::entries(self, url).await {
            Err(error) if *url != self.base && is_of_one(&error.problem) => {
                let key = listing::key(&self.base, url).unwrap_or_else(|_| url.to_string());
                return Ok((
                    Page { unreadable: vec![Unreadable { key, error }], ..Page::default() },
                    Vec::new(),
                ));
            }
            entries => entries?,
        };
        let (mut files, mut folders) = (Vec::new(), Vec::new());
        for child in entries {
            if child.path().ends_with('/') { folders.push(child) } else { files.push(child) }
        }
        let look_ups = files.into_iter().map(|url| async move {
            let key = listing::key(&self.base, &url);
            let name = key.as_ref().map_or_else(|_| url.to_string(), String::clone);
            let found = async { self.look_up(key?, url).await }.await;
            (name, found)
        });
        let (mut page, mut look_ups) = (Page::default(), stream::iter(look_ups).buffered(N_AT_ONCE));
        while let Some((key, found)) = look_ups.next().await {
            match found {
                Ok(object) => page.objects.push(object),
                // It was removed after the folder was listed.
                Err(StoreError { problem: Problem::NotFound, .. }) => {}
                Err(error) if is_of_one(&error.problem) => page.unreadable.push(Unreadable { key, error }),
                Err(error) => return Err(error),
            }
        }
        Ok((page, folders))
    }
}

/// Whether a problem is of one file or folder, and says nothing about the server.
fn is_of_one(problem: &Problem) -> bool {
    matches!(problem, Problem::NotFound | Problem::Denied(_) | Problem::Unsupported(_) | Problem::Damaged(_))
}

fn parse(address: &str) -> Result<Url, StoreError> {
    let unusable = |what: String| Problem::Unsupported(what).at(address);
    let mut url = Url::parse(address)
        .map_err(|error| unusable(format!("this is no address ({error}); give https://host/path")))?;
    if url.host_str().is_none() {
        return Err(unusable("the address has no host".to_owned()));
    }
    url.set_fragment(None);
    Ok(url)
}

/// The name of the server of an address.
fn server_of(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}", url.scheme(), url.host_str().unwrap_or_default())
}

/// The name of the server of an address, as [`Source::servers`] has it.
pub(crate) fn server_name(address: &str) -> Result<String, StoreError> {
    parse(address).map(|url| server_of(&url))
}

/// A client that waits for nobody for ever.
pub(crate) fn client(token: Option<String>, redirects: redirect::Policy) -> Result<Client, String> {
    // Whoever installs a provider first wins, and all of them are this one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut headers = HeaderMap::new();
    if let Some(token) = token {
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
        .redirect(redirects)
        .user_agent(concat!("evenkeel/", env!("CARGO_PKG_VERSION")))
        .build();
    client.map_err(|error| format!("cannot set up HTTP: {error}"))
}

/// The token that the environment has.
pub(crate) fn bearer_token() -> Result<Option<String>, String> {
    if let Ok(token) = std::env::var("BEARER_TOKEN") {
        return Ok(Some(token.trim().to_owned()));
    }
    let Ok(path) = std::env::var("BEARER_TOKEN_FILE") else { return Ok(None) };
    let token = std::fs::read_to_string(&path)
        .map_err(|error| format!("cannot read {path} (BEARER_TOKEN_FILE): {error}"))?;
    Ok(Some(token.trim().to_owned()))
}

impl Source for Http {
    fn servers(&self) -> Vec<String> {
        self.servers.to_vec()
    }

    fn list(&self) -> BoxStream<'_, Result<Page, StoreError>> {
        if !self.base.path().ends_with('/') {
            let one = async {
                let key = listing::key(&self.base, &self.base)?;
                Ok(vec![self.look_up(key, self.base.clone()).await?].into())
            };
            return stream::once(one).boxed();
        }
        let next = move |mut left: Vec<(usize, Url)>| async move {
            let Some((level, url)) = left.pop() else { return Ok(None) };
            let (page, folders) = self.list_folder(&url).await?;
            if level == MOST_LEVELS && !folders.is_empty() {
                let problem = format!("more than {MOST_LEVELS} folders within each other; name an inner one");
                return Err(Problem::Unsupported(problem).at(url.as_str()));
            }
            left.extend(folders.into_iter().map(|folder| (level + 1, folder)));
            Ok(Some((page, left)))
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
            Ok(answer::body(response, object.address.clone()))
        }
        .boxed()
    }
}
