//! The control port of a node: versioned JSON over HTTP, for what S3 does not have.
//!
//! | request | what it does |
//! |---|---|
//! | `GET /v1/status` | who the node is, how loaded, and what it holds |
//! | `POST /v1/settings` `{"slots":4}` | changes how many transfers there are at a time |
//! | `POST /v1/settings` `{"paused":true}` | lets no transfer start until it is `false` |
//! | `POST /v1/settings` `{"bytes_per_second":1000000}` | makes the node slow, for demonstrations; 0 ends it |
//! | `POST /v1/settings` `{"maintainer":{"paused":true}}` | lets the node move nothing by itself until it is `false`; `bytes_per_second` is how fast it does, 0 without a limit |
//! | `POST /v1/settings` `{"draining":true}`, or `POST /v1/drain` | takes no new objects until it is `false`; reads go on |
//! | `POST /v1/locate` `{"bucket":"b","prefix":"","after":"","limit":100}` | objects, and where those are that are elsewhere |
//! | `POST /v1/extents` `{"bucket":"b","key":"k","extents":[{"offset":0,"bytes":5,"server":"s2","key":".evenkeel/held/…","crc32c":7}]}` | names held pieces as parts of an object whose home this is; `create`: false only if there is one, `if_match` if it has that entity tag |
//! | `PUT /v1/ranges/BUCKET/KEY?offset=N` | stores the body here, and names it so |
//! | `POST /v1/scrub` | reads all that is stored, and says what is damaged |
//! | `GET /metrics` | figures for Prometheus |
//! | `GET /health`, `GET /ready` | whether the process lives, and whether it takes requests |
//!
//! Requests are signed with the keys of the data port, so that no secret travels and nothing can be changed on the way:
//! `curl --aws-sigv4 aws:amz:us-east-1:s3 --user "$KEY:$SECRET" http://127.0.0.1:9201/v1/status`. Only the last three are
//! open to everybody who reaches the port.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use evenkeel_store::cluster::Redirect;
use futures_util::stream::{self, StreamExt};
use http_body_util::{BodyExt, Limited};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::http::Extensions;
use hyper::{HeaderMap, Method, StatusCode, Uri};
use percent_encoding::percent_decode_str;
use s3s::route::S3Route;
use s3s::{Body, S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::front::access::check_signed;
use super::front::{Front, Naming, Promised, Wrote};
use super::gate::{Gate, Load};
use super::maintainer::{Maintainer, Report, Wish};
use super::store::{Entry, Selection, Store, StoreError, Usage};

/// A longer request is none of ours.
const MOST_BYTES: usize = 64 << 10;
/// The version of all that is said here.
const FORMAT: u32 = 1;
/// What everybody may ask.
const OPEN: [&str; 3] = ["/health", "/ready", "/metrics"];

/// All that is here.
const KNOWN: [&str; 9] = [
    "/health",
    "/ready",
    "/metrics",
    "/v1/status",
    "/v1/settings",
    "/v1/drain",
    "/v1/locate",
    "/v1/extents",
    "/v1/scrub",
];
/// What follows is a bucket and an object.
const RANGES: &str = "/v1/ranges/";
/// Objects of one answer.
const MOST_LOCATED: usize = 1000;
/// Redirects that are read at once.
const N_READ_AT_ONCE: usize = 16;
/// An answer ends after so many bytes of redirects, and goes on with the next one.
const MOST_BYTES_LOCATED: u64 = 8 << 20;

/// Answers requests on the control port.
#[derive(Clone, Debug)]
pub(super) struct Control {
    pub(super) name: Arc<str>,
    pub(super) gate: Arc<Gate>,
    pub(super) store: Arc<dyn Store>,
    pub(super) front: Front,
    pub(super) maintainer: Option<Arc<Maintainer>>,
    pub(super) started: Instant,
}

/// The answer to `GET /v1/status`.
#[derive(Clone, Debug, Serialize)]
struct Status<'a> {
    format: u32,
    node: &'a str,
    version: &'static str,
    up_seconds: u64,
    paused: bool,
    draining: bool,
    bytes_per_second: Option<u64>,
    conditional_writes: bool,
    load: Load,
    idle_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    maintainer: Option<Report>,
}

/// What `POST /v1/settings` changes: what is named.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    paused: Option<bool>,
    draining: Option<bool>,
    slots: Option<u32>,
    bytes_per_second: Option<u64>,
    maintainer: Option<Wish>,
}

/// What `POST /v1/locate` asks for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sought {
    bucket: String,
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    after: String,
    limit: Option<usize>,
}

/// An object, and where it is if it is elsewhere.
#[derive(Debug, Serialize)]
struct Located {
    key: String,
    bytes: u64,
    etag: String,
    version: u64,
    redirect: Option<Where>,
}

/// Where an object is.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Where {
    There(Redirect),
    /// Its redirect cannot be used. Who does not know this takes it for one that cannot be read, which it is.
    Unknown {
        error: String,
    },
}

#[async_trait::async_trait]
impl S3Route for Control {
    fn is_match(&self, _: &Method, _: &Uri, _: &HeaderMap, _: &mut Extensions) -> bool {
        true
    }

    async fn check_access(&self, request: &mut S3Request<Body>) -> S3Result<()> {
        if OPEN.contains(&request.uri.path()) {
            return Ok(());
        }
        if request.credentials.is_some() {
            return check_signed(&request.headers, &request.uri);
        }
        Err(s3_error!(AccessDenied, "sign the request with the keys of the node, as curl --aws-sigv4 does"))
    }

    async fn call(&self, request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        Ok(match (request.method.as_str(), request.uri.path()) {
            ("GET", "/health") => answer(StatusCode::OK, &json!({"format": FORMAT, "node": &*self.name})),
            ("GET", "/ready") => self.ready(),
            ("GET", "/metrics") => self.metrics().await,
            ("GET", "/v1/status") => self.status().await,
            ("POST", "/v1/settings") => self.change(request.input).await,
            ("POST", "/v1/drain") => {
                self.gate.drain(true);
                self.status().await
            }
            ("POST", "/v1/locate") => self.locate(request.input).await,
            ("POST", "/v1/extents") => self.name_extents(request.input).await,
            ("PUT", path) if path.starts_with(RANGES) => told(self.write_range(request).await),
            ("POST", "/v1/scrub") => self.scrub().await,
            (_, path) if KNOWN.contains(&path) || path.starts_with(RANGES) => {
                refuse(StatusCode::METHOD_NOT_ALLOWED, &format!("{path} is not asked for in this way"))
            }
            (_, path) => {
                refuse(StatusCode::NOT_FOUND, &format!("there is nothing at {path}; see GET /v1/status"))
            }
        })
    }
}

impl Control {
    fn ready(&self) -> S3Response<Body> {
        if self.gate.is_stopped() {
            return refuse(StatusCode::SERVICE_UNAVAILABLE, "the node is being stopped");
        }
        answer(StatusCode::OK, &json!({"format": FORMAT, "node": &*self.name}))
    }

    async fn status(&self) -> S3Response<Body> {
        let known =
            async { Ok::<_, StoreError>((self.store.usage().await?, self.store.is_conditional().await?)) };
        let (usage, conditional_writes) = match known.await {
            Ok(known) => known,
            Err(error) => return refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        };
        answer(
            StatusCode::OK,
            &Status {
                format: FORMAT,
                node: &self.name,
                version: env!("CARGO_PKG_VERSION"),
                up_seconds: self.started.elapsed().as_secs(),
                paused: self.gate.is_paused(),
                draining: self.gate.is_draining(),
                bytes_per_second: self.gate.rate(),
                conditional_writes,
                load: self.gate.load(),
                idle_ms: self.gate.idle().map(|idle| idle.as_millis() as u64),
                usage,
                maintainer: self.maintainer.as_ref().map(|maintainer| maintainer.report()),
            },
        )
    }

    async fn change(&self, body: Body) -> S3Response<Body> {
        let settings: Settings = match read(body).await {
            Ok(settings) => settings,
            Err(why) => return refuse(StatusCode::BAD_REQUEST, &why),
        };
        if let Some(0) = settings.slots {
            return refuse(
                StatusCode::BAD_REQUEST,
                "slots: 0 would let nothing pass; use paused, or at least 1",
            );
        }
        match (settings.maintainer, &self.maintainer) {
            (Some(wish), Some(maintainer)) => maintainer.set(wish),
            (Some(_), None) => {
                let why = "this node does not maintain itself; start it with --cluster FILE, and without --maintain off";
                return refuse(StatusCode::BAD_REQUEST, why);
            }
            (None, _) => {}
        }
        settings.paused.into_iter().for_each(|paused| self.gate.pause(paused));
        settings.draining.into_iter().for_each(|draining| self.gate.drain(draining));
        settings.slots.into_iter().for_each(|slots| self.gate.set_slots(slots));
        let rate = settings.bytes_per_second.map(|rate| Some(rate).filter(|rate| *rate > 0));
        rate.into_iter().for_each(|rate| self.gate.set_rate(rate));
        self.status().await
    }

    async fn locate(&self, body: Body) -> S3Response<Body> {
        let sought: Sought = match read(body).await {
            Ok(sought) => sought,
            Err(why) => return refuse(StatusCode::BAD_REQUEST, &why),
        };
        match self.located(&sought).await {
            Ok((objects, next)) => {
                answer(StatusCode::OK, &json!({"format": FORMAT, "objects": objects, "next": next}))
            }
            Err(error) => refuse_as(&error),
        }
    }

    async fn name_extents(&self, body: Body) -> S3Response<Body> {
        match read(body).await {
            Ok(naming) => told(self.front.name_extents(&naming).await),
            Err(why) => refuse(StatusCode::BAD_REQUEST, &why),
        }
    }

    async fn write_range(&self, request: S3Request<Body>) -> S3Result<Wrote> {
        let wrong = |why: &str| S3Error::with_message(S3ErrorCode::InvalidArgument, why.to_owned());
        let path = request.uri.path().strip_prefix(RANGES).unwrap_or_default();
        let name = percent_decode_str(path).decode_utf8().ok();
        let (bucket, key) = name
            .as_deref()
            .and_then(|name| name.split_once('/'))
            .ok_or_else(|| wrong("the path is /v1/ranges/BUCKET/KEY, percent-encoded as in a web address"))?;
        let (mut offset, mut create) = (None, true);
        for pair in request.uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("offset", value)) => {
                    let value = value.parse::<u64>();
                    offset = Some(value.map_err(|_| wrong("the offset is a number of bytes"))?);
                }
                Some(("create", "true")) => create = true,
                Some(("create", "false")) => create = false,
                _ => {
                    return Err(wrong(
                        "what follows ? is offset=N, and create=false where no object is to be made",
                    ));
                }
            }
        }
        let offset = offset.ok_or_else(|| wrong("say where the bytes belong: ?offset=N"))?;
        let header = |name: &str| {
            let value = request.headers.get(name).map(|value| value.to_str());
            value.transpose().map_err(|_| wrong(&format!("{name} cannot be read")))
        };
        let bytes = header("content-length")?.map(str::parse);
        let bytes = bytes.transpose().map_err(|_| wrong("Content-Length is no number"))?;
        let promise = Promised { bytes, crc32c: header("x-amz-checksum-crc32c")?.map(str::to_owned) };
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        let if_match = header("if-match")?.map(str::to_owned);
        let naming = Naming { bucket, key, extents: Vec::new(), create, if_match };
        self.front.write_range(naming, offset, promise, StreamExt::boxed(request.input)).await
    }

    async fn located(&self, sought: &Sought) -> S3Result<(Vec<Located>, Option<String>)> {
        let limit = sought.limit.unwrap_or(MOST_LOCATED).clamp(1, MOST_LOCATED);
        let what = Selection {
            prefix: sought.prefix.clone(),
            delimiter: String::new(),
            after: sought.after.clone(),
            limit,
        };
        let listing = self.front.page(&sought.bucket, what).await?;
        let (mut entries, mut next) = (listing.entries, listing.next);
        let is_redirect = |entry: &Entry| Redirect::is_marked(&entry.attributes.user);
        let mut sum = 0;
        let fits = entries.iter().take_while(|(_, entry)| {
            sum += if is_redirect(entry) { entry.bytes } else { 0 };
            sum <= MOST_BYTES_LOCATED
        });
        let n = fits.count().max(1);
        if n < entries.len() {
            entries.truncate(n);
            next = entries.last().map(|(key, _)| key.clone());
        }
        let bucket = sought.bucket.as_str();
        let located = stream::iter(entries).map(|(key, entry)| async move {
            let redirect = match is_redirect(&entry) {
                // Since it was listed it may have been deleted, or brought home.
                true => match self.front.redirect(bucket, &key).await {
                    Ok(found) => found.map(|(version, bytes, etag, redirect)| {
                        (version, bytes, etag, redirect.map(Where::There))
                    }),
                    Err(error) => {
                        let error = error.message().unwrap_or(error.code().as_str()).to_owned();
                        Some((entry.version, entry.bytes, entry.etag, Some(Where::Unknown { error })))
                    }
                },
                false => Some((entry.version, entry.bytes, entry.etag, None)),
            };
            redirect.map(|(version, bytes, etag, redirect)| Located { key, bytes, etag, version, redirect })
        });
        let located: Vec<Option<Located>> = located.buffered(N_READ_AT_ONCE).collect().await;
        Ok((located.into_iter().flatten().collect(), next))
    }

    async fn scrub(&self) -> S3Response<Body> {
        match self.store.scrub().await {
            Ok(report) => answer(StatusCode::OK, &json!({"format": FORMAT, "scrub": report})),
            Err(error) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        }
    }

    async fn metrics(&self) -> S3Response<Body> {
        let load = self.gate.load();
        let usage = self.store.usage().await.ok().flatten();
        let mut text = String::new();
        let kept = self.maintainer.as_ref().map(|maintainer| maintainer.report());
        let maintained = kept.iter().flat_map(|Report { runs, total, .. }| {
            [
                ("maintainer_runs_total", "counter", "Passes of the maintainer.", *runs),
                ("maintainer_home_total", "counter", "Objects that it brought home.", total.home),
                (
                    "maintainer_pieces_total",
                    "counter",
                    "Pieces that it brought where they belong.",
                    total.pieces,
                ),
                ("maintainer_bytes_total", "counter", "Bytes that it moved.", total.bytes),
                ("maintainer_orphans_total", "counter", "Orphans that it deleted.", total.orphans),
                ("maintainer_failures_total", "counter", "What it could not do.", total.failed),
            ]
        });
        let mut figures = vec![
            ("slots", "gauge", "Transfers that there may be at a time.", u64::from(load.slots)),
            ("busy", "gauge", "Transfers under way.", u64::from(load.busy)),
            ("waiting", "gauge", "Transfers that wait for a slot.", u64::from(load.waiting)),
            ("pending_bytes", "gauge", "Bytes still to be moved.", load.pending_bytes),
            ("transfers_total", "counter", "Transfers that are over.", load.transfers),
            ("read_bytes_total", "counter", "Bytes sent to clients.", load.read_bytes),
            ("written_bytes_total", "counter", "Bytes received from clients.", load.written_bytes),
        ];
        if let Some(usage) = usage {
            figures.extend([
                ("objects", "gauge", "Objects stored.", usage.objects),
                ("stored_bytes", "gauge", "Bytes of all objects.", usage.bytes),
                ("free_bytes", "gauge", "Free bytes of the disk.", usage.free_bytes.unwrap_or_default()),
            ]);
        }
        for (name, kind, help, value) in figures.into_iter().chain(maintained) {
            let _ = write!(
                text,
                "# HELP evenkeel_{name} {help}\n# TYPE evenkeel_{name} {kind}\nevenkeel_{name}{{node=\"{}\"}} {value}\n",
                self.name.replace('\\', "\\\\").replace('"', "\\\"")
            );
        }
        let mut response = S3Response::new(Body::from(text));
        let _ = response
            .headers
            .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"));
        response
    }
}

/// Reads a request.
async fn read<T: for<'a> Deserialize<'a>>(body: Body) -> Result<T, String> {
    let body = Limited::new(body, MOST_BYTES).collect().await;
    let bytes: Bytes = body.map_err(|error| format!("the request cannot be read: {error}"))?.to_bytes();
    serde_json::from_slice(&bytes)
        .map_err(|error| format!("the request is not what is expected here: {error}"))
}

fn answer(status: StatusCode, what: &impl Serialize) -> S3Response<Body> {
    let text = serde_json::to_string(what).unwrap_or_default();
    let mut response = S3Response::with_status(Body::from(text + "\n"), status);
    let _ = response.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// What an operation has done, or why it did not.
fn told(done: S3Result<impl Serialize>) -> S3Response<Body> {
    done.map_or_else(|error| refuse_as(&error), |done| answer(StatusCode::OK, &done))
}

fn refuse_as(error: &S3Error) -> S3Response<Body> {
    let status = error.status_code().unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    refuse(status, error.message().unwrap_or(error.code().as_str()))
}

fn refuse(status: StatusCode, why: &str) -> S3Response<Body> {
    answer(status, &json!({"format": FORMAT, "error": why}))
}
