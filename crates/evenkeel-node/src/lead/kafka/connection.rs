//! A connection to a broker: a request, then its answer.

use std::fmt;
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::login::Login;
use super::messages::{ApiVersions, Request, SaslAuthenticate, SaslHandshake};
use super::wire::{Malformed, Reader, Writer};

/// The maximum size of an answer: that of a cluster with a million partitions.
const MOST_ANSWER_BYTES: u32 = 128 << 20;
/// Bytes that are set aside at once for an answer, whatever it says about its length.
const STEP: u64 = 1 << 20;
/// How brokers know us in their logs.
const CLIENT: &str = "evenkeel";

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    /// With the address of the broker.
    pub(super) message: String,
    /// The connection is gone. Another might do.
    pub(super) is_lost: bool,
}

trait Stream: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Stream for T {}

/// A connection to a broker that is ready to be asked.
pub(super) struct Connection {
    stream: Box<dyn Stream>,
    address: String,
    patience: Duration,
    last_id: i32,
    /// The first and last version of each request that the broker knows.
    versions: Vec<(i16, i16, i16)>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects, logs in, and asks which requests the broker knows. Every step may take as long as `patience`.
    pub(super) async fn open(
        host: &str,
        port: u16,
        login: &Login,
        patience: Duration,
    ) -> Result<Self, Trouble> {
        let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let failed = |why: String| Trouble { message: format!("{address}: {why}"), is_lost: true };
        let late = || failed(format!("no connection within {} s", patience.as_secs_f64()));
        let stream = timeout(patience, TcpStream::connect((host, port))).await.map_err(|_| late())?;
        let stream = stream.map_err(|error| failed(format!("cannot connect: {error}")))?;
        // Requests are small and waited for.
        let _ = stream.set_nodelay(true);
        let stream: Box<dyn Stream> = match login.tls() {
            None => Box::new(stream),
            Some(tls) => {
                let name = ServerName::try_from(host.to_owned());
                let name = name.map_err(|_| failed("its name cannot be in a certificate".to_owned()))?;
                let connecting = TlsConnector::from(tls.clone()).connect(name, stream);
                let stream = timeout(patience, connecting).await.map_err(|_| late())?;
                Box::new(stream.map_err(|error| failed(format!("TLS fails: {error}")))?)
            }
        };
        let mut connection = Self { stream, address, patience, last_id: 0, versions: Vec::new() };
        connection.versions = connection
            .exchange(&ApiVersions)
            .await?
            .map_err(|refusal| connection.refused(&format!("ApiVersions: {}", refusal.text())))?;
        if let Some(token) = login.plain_token() {
            connection.log_in(token).await?;
        }
        Ok(connection)
    }

    async fn log_in(&mut self, token: Vec<u8>) -> Result<(), Trouble> {
        let (refusal, known) = self.call(&SaslHandshake { mechanism: "PLAIN" }).await?;
        if let Some(refusal) = refusal {
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(self.refused(&format!("{}; it knows {known}", refusal.text())));
        }
        match self.call(&SaslAuthenticate { token }).await? {
            Some(refusal) => Err(self.refused(&refusal.text())),
            None => Ok(()),
        }
    }

    /// Asks, if the broker knows the request in the version that is spoken here.
    pub(super) async fn call<R: Request>(&mut self, request: &R) -> Result<R::Answer, Trouble> {
        let known = self.versions.iter().find(|(key, _, _)| *key == R::KEY);
        let Some((_, first, last)) = known.filter(|(_, first, last)| (*first..=*last).contains(&R::VERSION))
        else {
            let known = match known {
                Some((_, first, last)) => format!("knows {} only from version {first} to {last}", R::NAME),
                None => format!("does not know {}", R::NAME),
            };
            let needed = format!("version {} is needed, which Kafka has from 2.4 on", R::VERSION);
            return Err(self.refused(&format!("the broker {known}; {needed}")));
        };
        debug_assert!(first <= last);
        self.exchange(request).await
    }

    async fn exchange<R: Request>(&mut self, request: &R) -> Result<R::Answer, Trouble> {
        self.last_id = self.last_id.wrapping_add(1);
        let message = self.message(request);
        let exchanged = timeout(self.patience, self.send_and_receive(&message)).await;
        let late = || self.lost(R::NAME, &format!("no answer within {} s", self.patience.as_secs_f64()));
        let answer = exchanged.map_err(|_| late())??;
        self.parse::<R>(&answer).map_err(|Malformed(why)| {
            let why = format!("the answer to {} is malformed: {why}", R::NAME);
            Trouble { message: format!("{}: {why}", self.address), is_lost: false }
        })
    }

    /// The request with its header and length.
    fn message<R: Request>(&self, request: &R) -> Vec<u8> {
        // In the header, texts have the older form.
        let mut header = Writer::new(false);
        header.i32(0);
        header.i16(R::KEY);
        header.i16(R::VERSION);
        header.i32(self.last_id);
        header.text(CLIENT);
        let mut body = Writer::new(R::IS_COMPACT);
        body.no_tags();
        request.write(&mut body);
        let mut message = header.bytes;
        message.extend(body.bytes);
        let length = (message.len() - 4) as u32;
        message[..4].copy_from_slice(&length.to_be_bytes());
        message
    }

    async fn send_and_receive(&mut self, message: &[u8]) -> Result<Vec<u8>, Trouble> {
        let failed = |error: std::io::Error| Trouble { message: error.to_string(), is_lost: true };
        let sent = async {
            self.stream.write_all(message).await?;
            self.stream.flush().await?;
            self.stream.read_u32().await
        };
        let length = sent.await.map_err(failed).map_err(|trouble| self.closed(&trouble.message))?;
        if length > MOST_ANSWER_BYTES {
            let what =
                format!("claims an answer of {length} bytes, so it is no broker that speaks as asked to");
            let remedy = "name a listener of Kafka's, and its security.protocol";
            return Err(Trouble { message: format!("{} {what}; {remedy}", self.address), is_lost: false });
        }
        let mut answer = Vec::new();
        while (answer.len() as u64) < u64::from(length) {
            let missing = u64::from(length) - answer.len() as u64;
            let read = (&mut self.stream).take(missing.min(STEP)).read_to_end(&mut answer).await;
            let n = read.map_err(failed).map_err(|trouble| self.closed(&trouble.message))?;
            if n == 0 {
                return Err(self.closed("an answer ends early"));
            }
        }
        Ok(answer)
    }

    fn parse<R: Request>(&self, answer: &[u8]) -> Result<R::Answer, Malformed> {
        let mut reader = Reader::of(answer, R::IS_COMPACT);
        if reader.i32()? != self.last_id {
            return Err(Malformed("it is for another request"));
        }
        reader.skip_tags()?;
        let answer = R::read(&mut reader)?;
        reader.end()?;
        Ok(answer)
    }

    fn refused(&self, why: &str) -> Trouble {
        Trouble { message: format!("{}: {why}", self.address), is_lost: false }
    }

    fn lost(&self, request: &str, why: &str) -> Trouble {
        Trouble { message: format!("{}: {why} to {request}", self.address), is_lost: true }
    }

    fn closed(&self, why: &str) -> Trouble {
        let hint = "a broker that wants a login does so, too";
        Trouble {
            message: format!("{}: the connection was closed ({why}; {hint})", self.address),
            is_lost: true,
        }
    }
}
