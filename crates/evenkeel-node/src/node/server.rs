//! A running node: its listeners, its connections, and how it stops.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use evenkeel_store::cluster::{BadCluster, Cluster, Credentials};
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use hyper::header::{
    AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, DATE, EXPECT, HeaderName, HeaderValue, SERVER,
};
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use s3s::auth::SimpleAuth;
use s3s::config::{S3Config, StaticConfigProvider};
use s3s::crypto::{Checksum as _, Sha256};
use s3s::dto::TimestampFormat;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::validation::NameValidation;
use s3s::{Body, HttpError, S3};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::control::Control;
use super::front::access::Access;
use super::front::chunks::{self, Chunks};
use super::front::{Front, Peers};
use super::gate::Gate;
use super::maintainer::{Maintainer, Upkeep};
use super::store::Store;

/// A client that sends or takes nothing for so long is gone. It also ends connections without requests.
const SILENCE: Duration = Duration::from_secs(75);
/// A client that sends less than this of a body while it is waited for so long keeps a slot from others.
const LEAST_BYTES: usize = 64 << 10;
/// How long a client may take to agree on keys.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// What the error of a body says that came too slowly.
pub(super) const TOO_SLOW: &str = "too little has come for a while";
/// The buffer of a connection, and so the longest head of a request.
const BUFFER_BYTES: usize = 128 << 10;
/// Headers of a request.
const MOST_HEADERS: usize = 128;
/// A longer document in a request is none of S3.
const MOST_XML_BYTES: usize = 8 << 20;
/// What is read of a body that nobody wants, so that the client sees the answer.
const MOST_UNWANTED_BYTES: u64 = 256 << 20;
/// How long it is read.
const UNWANTED: Duration = Duration::from_secs(30);
/// Longer requests on the control port are none.
const MOST_HASHED_BYTES: usize = 64 << 10;
/// Connections that wait to be accepted. The system may allow fewer.
const BACKLOG: u32 = 8192;
/// The names of the ports.
const DATA: &str = "data";
const CONTROL: &str = "control";
/// How long nobody is accepted after that failed, for want of file descriptors most likely.
const PAUSE: Duration = Duration::from_millis(50);

/// How a node is run.
#[derive(Debug)]
pub struct Settings {
    /// The name of the node in the cluster.
    pub name: String,
    /// The keys that requests are signed with, on both ports.
    pub keys: Credentials,
    /// How many bodies are transferred at a time.
    pub slots: u32,
    /// Makes the node slow, for demonstrations.
    pub bytes_per_second: Option<u64>,
    /// The cluster, if the node is to answer for objects that are elsewhere.
    pub cluster: Option<Cluster>,
    /// How it maintains itself, if it does. Without a cluster there is nothing to maintain.
    pub upkeep: Option<Upkeep>,
    /// Encrypts both ports.
    pub tls: Option<Tls>,
    /// Writes a line of JSON about each request to standard error.
    pub logs: bool,
}

/// A certificate and its key, for TLS.
#[derive(Clone)]
pub struct Tls(Arc<ServerConfig>);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// A node cannot be started.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum StartError {
    #[error(
        "cannot listen at {address}: {error}; if something else runs there, stop it or name another address"
    )]
    Listen { address: SocketAddr, error: io::Error },
    #[error("{path}: {why}")]
    Certificate { path: String, why: String },
    #[error(transparent)]
    Cluster(#[from] BadCluster),
    #[error("{path}: {why}")]
    Folder { path: String, why: String },
}

impl Tls {
    /// Reads a chain of certificates and a private key, both in PEM.
    pub fn read(certificates: &Path, key: &Path) -> Result<Self, StartError> {
        let wrong =
            |path: &Path, why: String| StartError::Certificate { path: path.display().to_string(), why };
        let chain: Result<Vec<_>, _> =
            CertificateDer::pem_file_iter(certificates).and_then(Iterator::collect);
        let chain = chain.map_err(|error| wrong(certificates, format!("it is no certificate: {error}")))?;
        let private = PrivateKeyDer::from_pem_file(key);
        let private = private.map_err(|error| wrong(key, format!("it is no private key: {error}")))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private));
        let mut config = config
            .map_err(|error| wrong(certificates, format!("it cannot be used with that key: {error}")))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config)))
    }
}

/// A node that runs until it is stopped or dropped.
#[derive(Debug)]
pub struct Node {
    address: SocketAddr,
    control: Option<SocketAddr>,
    gate: Arc<Gate>,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Node {
    /// Listens at an address, within a runtime. Port 0 is any that is free.
    pub fn listen(address: SocketAddr) -> Result<TcpListener, StartError> {
        let listen = || {
            let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
            // As std does it: what is left of earlier connections is in nobody's way.
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            socket.listen(BACKLOG)
        };
        listen().map_err(|error| StartError::Listen { address, error })
    }

    /// Runs a node on these listeners: S3 on the first, what S3 does not have on the second.
    pub fn start(
        store: Arc<dyn Store>,
        data: TcpListener,
        control: Option<TcpListener>,
        settings: Settings,
    ) -> Result<Self, StartError> {
        raise_limits();
        let peers = settings.cluster.as_ref().map(Peers::of).transpose()?;
        let tls = settings.tls.clone();
        let of = |listener: &TcpListener| {
            listener.local_addr().map_err(|error| StartError::Listen { address: ([0; 4], 0).into(), error })
        };
        let (address, control_address) = (of(&data)?, control.as_ref().map(of).transpose()?);
        let Ports { gate, data: on_data, control: on_control, maintainer } =
            Ports::new(store, settings, peers);
        let (stop, stopped) = watch::channel(false);
        let accept = |listener, server| {
            let tls = tls.as_ref().map(|tls| TlsAcceptor::from(Arc::clone(&tls.0)));
            tokio::spawn(accept(listener, server, tls, stopped.clone()))
        };
        let mut tasks = vec![accept(data, on_data)];
        tasks.extend(control.map(|control| accept(control, on_control)));
        tasks.extend(maintainer.map(|maintainer| tokio::spawn(maintainer.run(stopped))));
        Ok(Self { address, control: control_address, gate, stop, tasks })
    }

    /// Where it speaks S3.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it can be controlled.
    pub fn control_address(&self) -> Option<SocketAddr> {
        self.control
    }

    /// Its gate.
    pub fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    /// Accepts nobody any more, and finishes what is under way; what takes longer than `patience` is broken off.
    pub async fn stop(mut self, patience: Duration) {
        self.stop.send_replace(true);
        self.gate.stop();
        let tasks = std::mem::take(&mut self.tasks);
        let aborts: Vec<_> = tasks.iter().map(JoinHandle::abort_handle).collect();
        let all = async {
            for task in tasks {
                let _ = task.await;
            }
        };
        if timeout(patience, all).await.is_err() {
            // The connections are theirs, and end with them.
            aborts.iter().for_each(tokio::task::AbortHandle::abort);
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// S3 without any operation.
struct Nothing;

impl S3 for Nothing {}

/// The paths of the control port are no buckets.
struct AnyName;

impl NameValidation for AnyName {
    fn validate_bucket_name(&self, _: &str) -> bool {
        true
    }
}

fn service(s3: impl S3, keys: &Credentials, set: impl FnOnce(&mut S3ServiceBuilder)) -> S3Service {
    let mut config = S3Config::default();
    config.xml_max_body_size = MOST_XML_BYTES;
    let mut builder = S3ServiceBuilder::new(s3);
    builder.set_config(Arc::new(StaticConfigProvider::new(Arc::new(config))));
    builder.set_access(Access);
    builder.set_auth(SimpleAuth::from_single(keys.access_key.clone(), keys.secret_key.clone()));
    set(&mut builder);
    builder.build()
}

/// What answers on the ports of a node, whatever brings the requests.
pub(crate) struct Ports {
    pub(crate) gate: Arc<Gate>,
    pub(crate) data: Arc<Server>,
    pub(crate) control: Arc<Server>,
    /// Works while it is run.
    maintainer: Option<Arc<Maintainer>>,
}

impl Ports {
    /// With the servers of the cluster, if the node knows it.
    pub(crate) fn new(store: Arc<dyn Store>, settings: Settings, peers: Option<Peers>) -> Self {
        let Settings { name, keys, slots, bytes_per_second, upkeep, logs, .. } = settings;
        let gate = Gate::new(slots);
        gate.set_rate(bytes_per_second);
        let name: Arc<str> = name.into();
        let maintainer = upkeep.zip(peers.as_ref()).and_then(|(upkeep, peers)| {
            let me = peers.servers().find(&name)?;
            Some(Arc::new(Maintainer::new(Arc::clone(peers.servers()), me, Arc::clone(&gate), upkeep)))
        });
        let front = Front {
            name: Arc::clone(&name),
            store: Arc::clone(&store),
            gate: Arc::clone(&gate),
            peers: peers.map(Arc::new),
            ranges: Arc::default(),
        };
        let server = |service, port| Server {
            service,
            log: logs.then(|| Log { node: Arc::clone(&name), port }),
            hashes: port == CONTROL,
            n_requests: AtomicU64::new(0),
        };
        let data = Arc::new(server(service(front.clone(), &keys, |_| {}), DATA));
        let route = Control {
            name: Arc::clone(&name),
            gate: Arc::clone(&gate),
            store,
            front,
            maintainer: maintainer.clone(),
            started: Instant::now(),
        };
        let control = service(Nothing, &keys, |builder| {
            builder.set_route(route);
            builder.set_validation(AnyName);
        });
        Self { gate, data, control: Arc::new(server(control, CONTROL)), maintainer }
    }
}

/// What connections of a port share.
pub(crate) struct Server {
    service: S3Service,
    log: Option<Log>,
    /// Whether signatures are accepted that come without the checksum of the body.
    hashes: bool,
    n_requests: AtomicU64,
}

/// Accepts connections until the node is stopped, and waits for those that are under way.
async fn accept(
    listener: TcpListener,
    server: Arc<Server>,
    tls: Option<TlsAcceptor>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = stopped.changed() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let _ = stream.set_nodelay(true);
                    let _ = connections.spawn(connection(stream, peer, Arc::clone(&server), tls.clone(), stopped.clone()));
                }
                Err(_) => sleep(PAUSE).await,
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    server: Arc<Server>,
    tls: Option<TlsAcceptor>,
    stopped: watch::Receiver<bool>,
) {
    let stream = Patient { stream, timer: None };
    match &tls {
        None => serve(stream, peer, &server, stopped).await,
        // Who does not come to an agreement is no client.
        Some(tls) => {
            if let Ok(Ok(stream)) = timeout(HANDSHAKE, tls.accept(stream)).await {
                serve(stream, peer, &server, stopped).await;
            }
        }
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    server: &Arc<Server>,
    mut stopped: watch::Receiver<bool>,
) {
    let service = service_fn(|request| answer(request, peer, Arc::clone(server)));
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(SILENCE)
        .max_buf_size(BUFFER_BYTES)
        .max_headers(MOST_HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    // A connection that breaks is the business of its client.
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stopped.changed() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

/// Answers a request.
pub(crate) async fn answer<B: Sent>(
    request: Request<B>,
    peer: SocketAddr,
    server: Arc<Server>,
) -> Result<Response<Body>, HttpError> {
    let started = Instant::now();
    let id = server.n_requests.fetch_add(1, Ordering::Relaxed);
    let line = server.log.as_ref().map(|_| (request.method().clone(), request.uri().path().to_owned()));
    let awaits_word = request.headers().contains_key(EXPECT);
    let asks_for_attributes = request
        .uri()
        .query()
        .is_some_and(|query| query.split('&').any(|one| matches!(one, "attributes" | "attributes=")));
    let is_form = request.method() == Method::POST
        && request.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"multipart/"));
    let mut response = if is_form {
        // The crate for S3 would keep all of it in memory.
        let why = "this node has no uploads from web forms; use a presigned URL";
        refused(StatusCode::NOT_IMPLEMENTED, "NotImplemented", why)
    } else if is_too_long(&request) {
        refused(StatusCode::BAD_REQUEST, "MaxMessageLengthExceeded", "the document is too long")
    } else {
        let chunks = chunks::kind(request.headers());
        let mut request = request.map(|body| {
            let body = Received { body: Some(body), wait: Wait::default(), awaits_word, was_asked: false };
            match chunks {
                Some(is_signed) => Body::http_body_unsync(Chunks::new(body, is_signed)),
                None => Body::http_body_unsync(body),
            }
        });
        date(request.headers_mut());
        let request = if server.hashes { hashed(request).await } else { request };
        server.service.call(request).await?
    };
    let id = format!("{id:016X}");
    name_request(&mut response, &id);
    if asks_for_attributes {
        without_quotes(&mut response);
    }
    let headers = response.headers_mut();
    headers.insert(SERVER, HeaderValue::from_static("evenkeel"));
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(HeaderName::from_static("x-amz-request-id"), id);
    }
    if let (Some(log), Some((method, path))) = (&server.log, line) {
        log.write(&method, &path, response.status(), peer, started.elapsed());
    }
    Ok(response)
}

/// Adds the checksum of the body that S3's signatures want, which those of other services are computed with but do not
/// send. Only small bodies are asked for.
async fn hashed(request: Request<Body>) -> Request<Body> {
    const NAME: HeaderName = HeaderName::from_static("x-amz-content-sha256");
    if !request.headers().contains_key(AUTHORIZATION) || request.headers().contains_key(NAME) {
        return request;
    }
    let (mut parts, mut body) = request.into_parts();
    // What cannot be read has another checksum, and is refused.
    let bytes = body.store_all_limited(MOST_HASHED_BYTES).await.unwrap_or_default();
    let digest = Sha256::checksum(&bytes);
    let text = digest.as_ref().iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    if let Ok(text) = HeaderValue::from_str(&text) {
        parts.headers.insert(NAME, text);
    }
    Request::from_parts(parts, Body::from(bytes))
}

/// Says when a request was signed as the crate for S3 wants to be told. S3 takes the header `Date` in its place.
fn date(headers: &mut HeaderMap) {
    const NAME: HeaderName = HeaderName::from_static("x-amz-date");
    // Other signatures would cover what is added.
    let is_signed = headers.get(AUTHORIZATION).is_some_and(|value| value.as_bytes().starts_with(b"AWS4-"));
    let date = headers.get(DATE).filter(|_| is_signed && !headers.contains_key(NAME));
    let date = date.and_then(|date| {
        // As mail has it, some clients write -0000.
        let date = date.to_str().ok()?.replace("-0000", "GMT");
        s3s::dto::Timestamp::parse(TimestampFormat::HttpDate, &date).ok()
    });
    let mut text = Vec::new();
    if date.is_some_and(|date| date.format(TimestampFormat::DateTime, &mut text).is_ok()) {
        // 2030-01-02T03:04:05Z without what separates, and without what is below a second.
        let text: Vec<u8> =
            text.into_iter().take_while(|byte| *byte != b'.').filter(u8::is_ascii_alphanumeric).collect();
        let text = [text.strip_suffix(b"Z").unwrap_or(&text), b"Z"].concat();
        headers.extend(HeaderValue::from_bytes(&text).ok().map(|text| (NAME, text)));
    }
}

/// Puts the number of a request into the document that says what is wrong with it.
fn name_request(response: &mut Response<Body>, id: &str) {
    const END: &[u8] = b"</Error>";
    if let Some(text) = response.body().bytes()
        && let Some(text) = text.strip_suffix(END)
    {
        let text = [text, format!("<RequestId>{id}</RequestId>").as_bytes(), END].concat();
        response.headers_mut().remove(CONTENT_LENGTH);
        *response.body_mut() = Body::from(Bytes::from(text));
    }
}

/// Writes the entity tag among the attributes of an object as S3 does there.
fn without_quotes(response: &mut Response<Body>) {
    if let Some(text) = response.body().bytes()
        && let Ok(text) = std::str::from_utf8(&text)
    {
        let quotes = [
            ("<ETag>&quot;", "<ETag>"),
            ("<ETag>\"", "<ETag>"),
            ("&quot;</ETag>", "</ETag>"),
            ("\"</ETag>", "</ETag>"),
        ];
        let text = quotes.iter().fold(text.to_owned(), |text, (with, without)| text.replace(with, without));
        response.headers_mut().remove(CONTENT_LENGTH);
        *response.body_mut() = Body::from(Bytes::from(text));
    }
}

/// Whether a request has a document that is none of S3. The crate for S3 finds out too late to say so.
fn is_too_long<B: Sent>(request: &Request<B>) -> bool {
    let bytes = hyper::body::Body::size_hint(request.body()).exact();
    request.method() == Method::POST && bytes.is_some_and(|bytes| bytes > MOST_XML_BYTES as u64)
}

/// An answer to what the crate for S3 does not see.
fn refused(status: StatusCode, code: &str, why: &str) -> Response<Body> {
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>{code}</Code><Message>{why}</Message></Error>"
    );
    let mut response = Response::new(Body::from(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    response
}

/// Lines about requests.
struct Log {
    node: Arc<str>,
    port: &'static str,
}

impl Log {
    /// Queries are left out: those of presigned URLs let everybody in who has them.
    fn write(&self, method: &Method, path: &str, status: StatusCode, peer: SocketAddr, took: Duration) {
        use io::Write;
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let line = json!({
            "format": 1, "time": time.as_secs_f64(), "node": &*self.node, "port": self.port, "peer": peer.to_string(),
            "method": method.as_str(), "path": path, "status": status.as_u16(), "seconds": took.as_secs_f64(),
        });
        // If nobody reads it, there is nobody to be told.
        let _ = io::stderr().lock().write_all(format!("{line}\n").as_bytes());
    }
}

/// What a client sends.
pub(crate) trait Sent:
    hyper::body::Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static
{
}

impl<B: hyper::body::Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static> Sent for B {}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How a client is waited for.
#[derive(Default)]
struct Wait {
    timer: Option<(tokio::time::Instant, Pin<Box<Sleep>>)>,
    /// How long it took to send these bytes. What the node itself takes does not count.
    waited: Duration,
    bytes: usize,
}

impl Wait {
    /// Something has come.
    fn over(&mut self, bytes: usize) {
        let Some((since, _)) = self.timer.take() else { return };
        self.bytes += bytes;
        self.waited += since.elapsed();
        if self.bytes >= LEAST_BYTES {
            *self = Self::default();
        }
    }

    /// Whether it has been too long.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let left = SILENCE.saturating_sub(self.waited);
        self.timer
            .get_or_insert_with(|| (tokio::time::Instant::now(), Box::pin(sleep(left))))
            .1
            .as_mut()
            .poll(cx)
    }
}

/// The body of a request. It ends with an error if too little comes for a while. If nobody wants the rest of it, that is read
/// nevertheless, up to a point: a client that is still sending would not see the answer.
struct Received<B: Sent> {
    body: Option<B>,
    wait: Wait,
    /// Whether the client sends nothing before it is asked to.
    awaits_word: bool,
    was_asked: bool,
}

impl<B: Sent> hyper::body::Body for Received<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        this.was_asked = true;
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        if let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) {
            match &frame {
                Some(Ok(frame)) => this.wait.over(frame.data_ref().map_or(0, Bytes::len)),
                _ => this.body = None,
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        ready!(this.wait.poll(cx));
        this.body = None;
        Poll::Ready(Some(Err(TOO_SLOW.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(hyper::body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), hyper::body::Body::size_hint)
    }
}

impl<B: Sent> Drop for Received<B> {
    fn drop(&mut self) {
        let Some(mut body) = self.body.take() else { return };
        let is_coming = !hyper::body::Body::is_end_stream(&body) && (self.was_asked || !self.awaits_word);
        let Some(runtime) = tokio::runtime::Handle::try_current().ok().filter(|_| is_coming) else { return };
        drop(runtime.spawn(timeout(UNWANTED, async move {
            let mut n_bytes = 0;
            while let Some(Ok(frame)) = body.frame().await
                && n_bytes < MOST_UNWANTED_BYTES
            {
                n_bytes += frame.data_ref().map_or(0, Bytes::len) as u64;
            }
        })));
    }
}

/// A connection that breaks if its client takes nothing for a while.
struct Patient {
    stream: TcpStream,
    timer: Option<Pin<Box<Sleep>>>,
}

/// Whether the silence has been long enough.
fn waited(timer: &mut Option<Pin<Box<Sleep>>>, cx: &mut Context<'_>) -> Poll<()> {
    timer.get_or_insert_with(|| Box::pin(sleep(SILENCE))).as_mut().poll(cx)
}

impl Patient {
    fn patiently<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: impl FnOnce(Pin<&mut TcpStream>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match written(Pin::new(&mut self.stream), cx) {
            Poll::Ready(done) => {
                self.timer = None;
                Poll::Ready(done)
            }
            Poll::Pending => {
                ready!(waited(&mut self.timer, cx));
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.patiently(cx, |stream, cx| stream.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.patiently(cx, |stream, cx| stream.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.patiently(cx, AsyncWrite::poll_flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.patiently(cx, AsyncWrite::poll_shutdown)
    }
}

/// Waits for Ctrl-C or SIGTERM. The second one ends the process.
pub async fn signalled() {
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
    let [Ok(mut interrupt), Ok(mut terminate)] = kinds else {
        // Without a handler a signal just ends the process, which loses nothing that was acknowledged.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    drop(tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        std::process::exit(130);
    }));
}

/// Tells systemd how this service is: `READY=1`, or `STOPPING=1`. Elsewhere it does nothing.
pub fn tell_systemd(state: &str) {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    let Some(path) = std::env::var_os("NOTIFY_SOCKET").map(PathBuf::from) else { return };
    let address = match path.as_os_str().as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(&path),
    };
    // Who started this without listening does not want to know.
    if let (Ok(address), Ok(socket)) = (address, UnixDatagram::unbound()) {
        let _ = socket.send_to_addr(state.as_bytes(), &address);
    }
}

/// Lets this process have as many connections as the system allows.
fn raise_limits() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // If it fails, fewer are accepted at a time.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}
