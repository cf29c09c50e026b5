//! Hadoop's remote procedure calls, version 9: a request and its answer on a connection, and connections that are kept.

use std::hash::{BuildHasher, RandomState};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::messages::{Parse, ResponseHeader, RpcStatus, connection_context, request_header, rpc_header};
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
/// The first bytes of a connection: the protocol, its version, the service class and simple authentication.
const PREAMBLE: [u8; 7] = *b"hrpc\x09\x00\x00";

/// An exception of a NameNode.
#[derive(Clone, Debug)]
pub(super) struct Exception {
    pub(super) class: String,
    /// The first line of what it says.
    pub(super) text: String,
}

impl Exception {
    fn new(header: &ResponseHeader<'_>) -> Self {
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
    fn from(Malformed(what): Malformed) -> Self {
        Self::Broken(Problem::Damaged(format!("the NameNode's answer has {what}")))
    }
}

/// Calls one of several NameNodes, the active one.
#[derive(Debug)]
pub(super) struct Rpc {
    namenodes: Vec<String>,
    user: String,
    /// How long an answer may take.
    patience: Duration,
    client: [u8; 16],
    /// The NameNode that was active when it was last asked.
    active: AtomicUsize,
    kept: Mutex<Vec<Connection>>,
    /// When it was last found that no NameNode answers.
    silent: Mutex<Option<Instant>>,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    namenode: usize,
    n_calls: i32,
    idle_since: Instant,
}

impl Rpc {
    pub(super) fn new(namenodes: Vec<String>, user: String, patience: Duration) -> Self {
        // Any number that others do not have.
        let state = RandomState::new();
        let random = (u128::from(state.hash_one(0)) << 64 | u128::from(state.hash_one(1))).to_ne_bytes();
        let (active, kept, silent) = (AtomicUsize::new(0), Mutex::default(), Mutex::default());
        Self { namenodes, user, patience, client: random, active, kept, silent }
    }

    /// The name of this client, for the logs of DataNodes.
    pub(super) fn client_name(&self) -> String {
        format!("evenkeel_{:032x}", u128::from_ne_bytes(self.client))
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
        let address = &self.namenodes[namenode];
        let broken =
            |what: String| Failed::Broken(Problem::Unreachable(format!("NameNode {address}: {what}")));
        let connect = async {
            let mut stream = TcpStream::connect(address.as_str()).await?;
            stream.set_nodelay(true)?;
            let mut hello = PREAMBLE.to_vec();
            frame(&connection_context(&self.client, &self.user), &mut hello);
            stream.write_all(&hello).await?;
            std::io::Result::Ok(stream)
        };
        let stream = timeout(CONNECT_TIMEOUT, connect)
            .await
            .map_err(|_| broken("it does not answer".to_owned()))?
            .map_err(|error| broken(error.to_string()))?;
        let connection = Connection { stream, namenode, n_calls: 0, idle_since: Instant::now() };
        self.call_on(connection, method, request).await
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
        let address = &self.namenodes[connection.namenode];
        let call = connection.n_calls;
        let exchange = async {
            let mut out = Vec::new();
            frame(&[rpc_header(call, &self.client), request_header(method), request.clone()], &mut out);
            let broken = |error: std::io::Error| {
                Failed::Broken(Problem::Unreachable(format!("NameNode {address}: {error}")))
            };
            connection.stream.write_all(&out).await.map_err(broken)?;
            let n = connection.stream.read_u32().await.map_err(broken)?;
            if n > MOST_ANSWER_BYTES {
                return Err(Failed::Broken(too_long(address, n)));
            }
            let (n, mut answer) = (n as usize, BytesMut::new());
            while answer.len() < n {
                answer.reserve((n - answer.len()).min(STEP));
                let mut limited = (&mut connection.stream).take((n - answer.len()) as u64);
                if limited.read_buf(&mut answer).await.map_err(broken)? == 0 {
                    return Err(broken(std::io::ErrorKind::UnexpectedEof.into()));
                }
            }
            Ok(answer.freeze())
        };
        let answer = timeout(self.patience, exchange).await;
        let answer = answer.map_err(|_| Failed::Broken(Problem::TimedOut))??;
        let mut rest = &answer[..];
        let header = ResponseHeader::parse(delimited(&mut rest)?)?;
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

/// Appends messages, each after its length, after the length of them all.
fn frame(messages: &[Writer], out: &mut Vec<u8>) {
    let begin = out.len();
    out.extend_from_slice(&[0; 4]);
    messages.iter().for_each(|message| message.delimited_into(out));
    let n = (out.len() - begin - 4) as u32;
    out[begin..begin + 4].copy_from_slice(&n.to_be_bytes());
}

fn too_long(address: &str, n: u32) -> Problem {
    match &n.to_be_bytes() {
        b"HTTP" => Problem::Unsupported(format!(
            "{address} is a web server; name the NameNode's RPC port, usually 8020, or use webhdfs://"
        )),
        _ => Problem::Damaged(format!("NameNode {address} announces an answer of {n} bytes")),
    }
}
