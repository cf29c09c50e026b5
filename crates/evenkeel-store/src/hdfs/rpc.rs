//! Hadoop's remote procedure calls, version 9: a request and its answer on a connection, and connections that are kept.

use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::is_closed;
use super::messages::{Parse, ResponseHeader, RpcStatus, connection_context, request_header, rpc_header};
use super::sasl::{self, Agreed, NotLoggedIn};
use super::token::Token;
use super::wire::{Malformed, Writer, delimited};
use crate::error::Problem;

/// A connection that takes longer than this will not come.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait for one of several NameNodes to become active, or for one to be ready.
const FAILOVER: Duration = Duration::from_secs(30);
/// How long to wait before NameNodes are asked again, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// NameNodes leave connections alone for longer than this.
const MOST_IDLE: Duration = Duration::from_secs(5);
/// Connections that are kept.
const MOST_KEPT: usize = 8;
/// The maximum size of an answer. Hadoop's own clients take 128 MiB.
const MOST_ANSWER_BYTES: u32 = 128 << 20;
/// Bytes that are set aside at once for an answer, whatever it says about its length.
const STEP: usize = 1 << 20;
/// The first bytes of a connection: the protocol, its version, the service class, and whether somebody logs in or just has a
/// name.
const PREAMBLE: [u8; 7] = *b"hrpc\x09\x00\x00";
const PREAMBLE_OF_LOGIN: [u8; 7] = *b"hrpc\x09\x00\xDF";

/// Who asks.
#[derive(Clone, Debug)]
pub(super) struct User {
    pub(super) name: String,
    /// Tokens for NameNodes. One that is for nobody in particular is for all.
    pub(super) tokens: Vec<Token>,
    /// What tokens for all NameNodes of a nameservice are for, beside the addresses of single ones.
    pub(super) service: String,
}

impl User {
    /// The token for a NameNode that is known by these names.
    fn token_for(&self, names: [&str; 2]) -> Option<&Token> {
        let is_for = |token: &&Token| {
            let services = names.into_iter().chain([self.service.as_str(), ""]);
            services.into_iter().any(|service| service.eq_ignore_ascii_case(&token.service))
        };
        self.tokens.iter().find(is_for)
    }
}

/// An exception of a NameNode.
#[derive(Clone, Debug)]
pub(super) struct Exception {
    pub(super) class: String,
    /// The first line of what it says.
    pub(super) text: String,
}

impl Exception {
    pub(super) fn new(header: &ResponseHeader<'_>) -> Self {
        let text = header.text.lines().next().unwrap_or_default();
        // It may repeat its class.
        let text = text.strip_prefix(header.class).map_or(text, |text| text.trim_start_matches([':', ' ']));
        Self { class: header.class.to_owned(), text: text.chars().take(300).collect() }
    }

    /// The name of its class without its package.
    pub(super) fn name(&self) -> &str {
        self.class.rsplit(['.', '$']).next().unwrap_or_default()
    }

    /// Whether another NameNode may know.
    fn is_of_standby(&self) -> bool {
        matches!(self.name(), "StandbyException" | "ObserverRetryOnActiveException")
    }

    /// Whether the same NameNode may know later.
    fn is_for_now(&self) -> bool {
        matches!(self.name(), "RetriableException" | "ServerTooBusyException")
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failed {
    /// The NameNode says no.
    Exception(Exception),
    /// There is no NameNode that answers, or none that can be understood.
    Broken(Problem),
}

impl From<Malformed> for Failed {
    fn from(malformed: Malformed) -> Self {
        Self::Broken(malformed.into())
    }
}

/// Calls one of several NameNodes, the active one.
#[derive(Debug)]
pub(super) struct Rpc {
    namenodes: Vec<String>,
    user: User,
    /// How long an answer may take.
    patience: Duration,
    client: [u8; 16],
    /// The NameNode that was active when it was last asked.
    active: AtomicUsize,
    kept: Mutex<Vec<Connection>>,
    /// When it was last found that no NameNode answers.
    silent: Mutex<Option<Instant>>,
    /// Whether any NameNode has answered so far.
    has_answered: AtomicBool,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    namenode: usize,
    n_calls: i32,
    idle_since: Instant,
}

impl Rpc {
    pub(super) fn new(namenodes: Vec<String>, user: User, patience: Duration) -> Self {
        // Any number that others do not have.
        let state = RandomState::new();
        let random = (u128::from(state.hash_one(0)) << 64 | u128::from(state.hash_one(1))).to_ne_bytes();
        let (active, kept, silent) = (AtomicUsize::new(0), Mutex::default(), Mutex::default());
        let has_answered = AtomicBool::new(false);
        Self { namenodes, user, patience, client: random, active, kept, silent, has_answered }
    }

    /// The name of this client, for the logs of DataNodes.
    pub(super) fn client_name(&self) -> String {
        format!("evenkeel_{:032x}", u128::from_ne_bytes(self.client))
    }

    /// Whom tokens are for, for people who miss one for these NameNodes.
    pub(super) fn other_tokens(&self) -> String {
        let services: Vec<&str> =
            self.user.tokens.iter().map(|token| token.service.as_str()).take(4).collect();
        if services.is_empty() {
            String::new()
        } else {
            format!(", and those here are for {}", services.join(", "))
        }
    }

    /// Whether NameNodes were silent within this time.
    pub(super) fn was_silent(&self, within: Duration) -> bool {
        let silent = *self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        silent.is_some_and(|at| at.elapsed() < within)
    }

    /// No NameNode has answered, or one has.
    pub(super) fn set_silent(&self, is_silent: bool) {
        *self.silent.lock().unwrap_or_else(PoisonError::into_inner) = is_silent.then(Instant::now);
    }

    /// Calls a method that changes nothing, so that it can be called again. Returns the message of the answer.
    ///
    /// If there are several NameNodes, the active one is looked for. If one answers that it is not active, or not ready,
    /// it is waited for.
    pub(super) async fn call(&self, method: &str, request: &Writer) -> Result<Bytes, Failed> {
        let (give_up_at, mut pause) = (Instant::now() + FAILOVER, PAUSES.0);
        loop {
            let (mut is_awaited, mut last) = (false, None);
            for _ in 0..self.namenodes.len() {
                let asked = self.active.load(Ordering::Relaxed);
                let failed = match self.call_at(asked, method, request).await {
                    Ok(answer) => {
                        self.set_silent(false);
                        return Ok(answer);
                    }
                    Err(failed) => failed,
                };
                let goes_on = match &failed {
                    Failed::Exception(exception) if exception.is_for_now() => {
                        (is_awaited, last) = (true, Some(failed));
                        break;
                    }
                    Failed::Exception(exception) => {
                        is_awaited |= exception.is_of_standby();
                        exception.is_of_standby()
                    }
                    Failed::Broken(_) => true,
                };
                if !goes_on {
                    self.set_silent(false);
                    return Err(failed);
                }
                last = Some(failed);
                let next = (asked + 1) % self.namenodes.len();
                // Unless another call has found out already.
                let _ = self.active.compare_exchange(asked, next, Ordering::Relaxed, Ordering::Relaxed);
            }
            if !is_awaited || Instant::now() + pause > give_up_at {
                self.set_silent(true);
                return Err(last.unwrap_or(Failed::Broken(Problem::TimedOut)));
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    async fn call_at(&self, namenode: usize, method: &str, request: &Writer) -> Result<Bytes, Failed> {
        while let Some(connection) = self.take(namenode) {
            match self.call_on(connection, method, request).await {
                // It was closed while it was idle.
                Err(Failed::Broken(Problem::Unreachable(_))) => {}
                answer => return answer,
            }
        }
        let unreachable = |what: &dyn std::fmt::Display| self.unreachable(namenode, what);
        let connect = async {
            let stream = TcpStream::connect(self.namenodes[namenode].as_str()).await?;
            stream.set_nodelay(true)?;
            std::io::Result::Ok(stream)
        };
        let mut stream = timeout(CONNECT_TIMEOUT, connect)
            .await
            .map_err(|_| unreachable(&"it does not answer"))?
            .map_err(|error| unreachable(&error))?;
        let greeted = timeout(self.patience, self.greet(&mut stream, namenode)).await;
        greeted.map_err(|_| Failed::Broken(Problem::TimedOut))??;
        let connection = Connection { stream, namenode, n_calls: 0, idle_since: Instant::now() };
        self.call_on(connection, method, request).await
    }

    /// Tells on a new connection who asks.
    async fn greet(&self, stream: &mut TcpStream, namenode: usize) -> Result<(), Failed> {
        let lost = |error: std::io::Error| self.not_received(namenode, NotReceived::Io(error));
        let peer = stream.peer_addr().map_err(lost)?.to_string();
        let token = self.user.token_for([&self.namenodes[namenode], &peer]);
        let (mut out, mut agreed) = (PREAMBLE.to_vec(), Agreed::Simple);
        if let Some(token) = token {
            stream.write_all(&PREAMBLE_OF_LOGIN).await.map_err(lost)?;
            let logged_in = sasl::log_in(stream, &self.client, token).await;
            agreed = logged_in.map_err(|not| match not {
                NotLoggedIn::Failed(failed) => failed,
                NotLoggedIn::NotReceived(not) => self.not_received(namenode, not),
            })?;
            out.clear();
        }
        let name = match agreed {
            Agreed::Token => None,
            Agreed::Simple => Some(self.user.name.as_str()),
        };
        // At once, as a NameNode may refuse by the first bytes and close the connection.
        out.extend(frame(&connection_context(&self.client, name)));
        stream.write_all(&out).await.map_err(lost)
    }

    fn unreachable(&self, namenode: usize, what: &dyn std::fmt::Display) -> Failed {
        Failed::Broken(Problem::Unreachable(format!("NameNode {}: {what}", self.namenodes[namenode])))
    }

    fn not_received(&self, namenode: usize, not_received: NotReceived) -> Failed {
        let address = &self.namenodes[namenode];
        match not_received {
            NotReceived::TooLong(n) => Failed::Broken(too_long(address, n)),
            NotReceived::Io(error) if is_closed(&error) && !self.has_answered.load(Ordering::Relaxed) => {
                let remedy = "it closes the connection without an answer; name a NameNode's RPC port, usually 8020 or \
                              9000 (web ports, such as 9870, are for webhdfs://)";
                self.unreachable(namenode, &remedy)
            }
            NotReceived::Io(error) => self.unreachable(namenode, &error),
        }
    }

    /// A connection that is kept, if there is one.
    fn take(&self, namenode: usize) -> Option<Connection> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|connection| connection.idle_since.elapsed() < MOST_IDLE);
        let found = kept.iter().rposition(|connection| connection.namenode == namenode)?;
        Some(kept.remove(found))
    }

    async fn call_on(
        &self,
        mut connection: Connection,
        method: &str,
        request: &Writer,
    ) -> Result<Bytes, Failed> {
        let call = connection.n_calls;
        let exchange = async {
            let call = [rpc_header(call, &self.client), request_header(method), request.clone()];
            // If that fails, what was said before the connection was closed is still there.
            let sent = connection.stream.write_all(&frame(&call)).await;
            let received = receive(&mut connection.stream, MOST_ANSWER_BYTES).await;
            received.or_else(|not| sent.map_err(NotReceived::Io).and(Err(not)))
        };
        let answer = timeout(self.patience, exchange).await;
        let answer = answer.map_err(|_| Failed::Broken(Problem::TimedOut))?;
        let answer = answer.map_err(|not| self.not_received(connection.namenode, not))?;
        let mut rest = &answer[..];
        let header = ResponseHeader::parse(delimited(&mut rest)?)?;
        self.has_answered.store(true, Ordering::Relaxed);
        if header.status == RpcStatus::Fatal {
            return Err(Failed::Exception(Exception::new(&header)));
        }
        if header.call != call {
            return Err(Malformed("the number of another call").into());
        }
        connection.n_calls = call.wrapping_add(1) & i32::MAX;
        connection.idle_since = Instant::now();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MOST_KEPT {
            kept.push(connection);
        }
        drop(kept);
        match header.status {
            RpcStatus::Success => Ok(answer.slice_ref(delimited(&mut rest)?)),
            RpcStatus::Error | RpcStatus::Fatal => Err(Failed::Exception(Exception::new(&header))),
        }
    }
}

/// Why there is no whole answer.
#[derive(Debug)]
pub(super) enum NotReceived {
    Io(std::io::Error),
    TooLong(u32),
}

/// Receives an answer after its length.
pub(super) async fn receive(stream: &mut (impl AsyncRead + Unpin), most: u32) -> Result<Bytes, NotReceived> {
    let n = stream.read_u32().await.map_err(NotReceived::Io)?;
    if n > most {
        return Err(NotReceived::TooLong(n));
    }
    let (n, mut answer) = (n as usize, BytesMut::new());
    while answer.len() < n {
        answer.reserve((n - answer.len()).min(STEP));
        let mut limited = (&mut *stream).take((n - answer.len()) as u64);
        if limited.read_buf(&mut answer).await.map_err(NotReceived::Io)? == 0 {
            return Err(NotReceived::Io(std::io::ErrorKind::UnexpectedEof.into()));
        }
    }
    Ok(answer.freeze())
}

/// Messages, each after its length, after the length of them all.
pub(super) fn frame(messages: &[Writer]) -> Vec<u8> {
    let mut out = vec![0; 4];
    messages.iter().for_each(|message| message.delimited_into(&mut out));
    let n = (out.len() - 4) as u32;
    out[..4].copy_from_slice(&n.to_be_bytes());
    out
}

fn too_long(address: &str, n: u32) -> Problem {
    // Or an alert of TLS.
    let is_web_server = matches!(n.to_be_bytes(), [b'H', b'T', b'T', b'P'] | [0x15, 3, _, _]);
    match is_web_server {
        true => Problem::Unsupported(format!(
            "{address} is a web server; name the NameNode's RPC port, usually 8020 or 9000, or use webhdfs://"
        )),
        false => Problem::Damaged(format!("NameNode {address} announces an answer of {n} bytes")),
    }
}
