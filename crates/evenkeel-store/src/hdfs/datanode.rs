//! Reads ranges of blocks from DataNodes: every chunk is verified against the checksum that the DataNode keeps, in the
//! buffer in which it arrived.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use futures_util::stream::{self, Stream};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::is_closed;
use super::messages::{
    Block, BlockAnswer, BlockChecksum, ChecksumInfo, ChecksumKind, Found, PacketHeader, Parse,
    block_checksum, read_block, read_status,
};
use super::wire::{Malformed, Writer, delimited, delimiter};
use crate::error::Problem;

/// A connection that takes longer than this will not come.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// DataNodes close connections that were idle for four seconds.
const MOST_IDLE: Duration = Duration::from_secs(3);
/// Connections that are kept for each DataNode.
const MOST_KEPT: usize = 16;
/// How long the end of a range may take after all of its data has come, before the connection is given up.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// The version of the protocol, and the number of the operation.
const READ_BLOCK: [u8; 3] = [0, 28, 81];
const BLOCK_CHECKSUM: [u8; 3] = [0, 28, 85];
/// The maximum size of the first answer.
const MOST_ANSWER_BYTES: u64 = 1 << 16;
/// The maximum size of a packet, as Hadoop has it, and of the header of one.
const MOST_PACKET_BYTES: u32 = 16 << 20;
const MOST_HEADER_BYTES: u16 = 1 << 10;
/// Bytes that are received at once, if there are so many.
const BUFFER: u64 = 1 << 19;

/// Connections to DataNodes.
#[derive(Debug)]
pub(super) struct Pool {
    /// How long a DataNode may send nothing.
    patience: Duration,
    kept: Mutex<HashMap<String, Vec<(Instant, TcpStream)>>>,
}

/// A range of a block, to be read from a DataNode.
#[derive(Debug)]
pub(super) struct Request<'a> {
    /// `host:port`.
    pub(super) address: &'a str,
    /// The DataNode's name, for people.
    pub(super) name: &'a str,
    pub(super) block: Block<'a>,
    pub(super) token: &'a [u8],
    /// The name of this client.
    pub(super) client: &'a str,
    /// Within the block.
    pub(super) range: Range<u64>,
}

impl Request<'_> {
    /// The block and its DataNode, for people.
    fn what(&self) -> String {
        format!("block blk_{} at DataNode {}", self.block.id.cast_signed(), self.name)
    }
}

/// Why a DataNode sends nothing.
#[derive(Debug)]
pub(super) enum NotRead {
    /// It wants a token, or a newer one.
    NeedsToken,
    /// It has no such block, or cannot send it, as it says.
    Refused(String),
    Broken(Problem),
}

impl Pool {
    pub(super) fn new(patience: Duration) -> Self {
        Self { patience, kept: Mutex::default() }
    }

    /// Asks for a range. Returns its bytes, as they come.
    pub(super) async fn read(
        self: &Arc<Self>,
        request: Request<'_>,
    ) -> Result<impl Stream<Item = Result<Bytes, Problem>> + Send + 'static, NotRead> {
        while let Some(stream) = self.take(request.address) {
            match self.begin(stream, &request).await {
                // It was closed while it was idle.
                Err(NotRead::Broken(Problem::Unreachable(_))) => {}
                begun => return begun.map(packets),
            }
        }
        let stream = connect(&request).await?;
        self.begin(stream, &request).await.map(packets)
    }

    /// Asks for the checksum of a block. DataNodes close the connection after it.
    pub(super) async fn checksum(&self, request: &Request<'_>) -> Result<BlockChecksum, NotRead> {
        let mut reading = Reading::new(connect(request).await?, self.patience, request.what(), 0..0);
        reading.ask(&BLOCK_CHECKSUM, &block_checksum(&request.block, request.token)).await?;
        match reading.answer().await? {
            Found::Checksum(checksum) => Ok(checksum),
            Found::Data(_) => Err(reading.broken(Malformed("no checksum").into())),
        }
    }

    fn take(&self, address: &str) -> Option<TcpStream> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (idle_since, stream) = kept.get_mut(address)?.pop()?;
        if idle_since.elapsed() < MOST_IDLE {
            return Some(stream);
        }
        // The others are older.
        kept.remove(address);
        None
    }

    fn keep(&self, address: String, stream: TcpStream) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let of_address = kept.entry(address).or_default();
        if of_address.len() == MOST_KEPT {
            of_address.remove(0);
        }
        of_address.push((Instant::now(), stream));
    }

    async fn begin(
        self: &Arc<Self>,
        stream: TcpStream,
        request: &Request<'_>,
    ) -> Result<(Reading<TcpStream>, Lender), NotRead> {
        let Request { block, range, token, client, .. } = request;
        let mut reading = Reading::new(stream, self.patience, request.what(), range.clone());
        let asked = read_block(block, token, client, range.start, range.end - range.start);
        reading.ask(&READ_BLOCK, &asked).await?;
        reading.accept(block.bytes).await?;
        Ok((reading, Lender { pool: Arc::clone(self), address: request.address.to_owned() }))
    }
}

async fn connect(request: &Request<'_>) -> Result<TcpStream, NotRead> {
    let connect = async {
        let stream = TcpStream::connect(request.address).await?;
        stream.set_nodelay(true)?;
        io::Result::Ok(stream)
    };
    let at = |what: &dyn std::fmt::Display| {
        let at = format!("DataNode {} ({}): {what}", request.name, request.address);
        NotRead::Broken(Problem::Unreachable(at))
    };
    let connected = timeout(CONNECT_TIMEOUT, connect).await;
    connected.map_err(|_| at(&"it does not answer"))?.map_err(|error| at(&error))
}

/// What is wrong with what a DataNode sent.
#[derive(Debug)]
enum Broken {
    Io(io::Error),
    Silent,
    Malformed(Malformed),
}

impl From<Malformed> for Broken {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl Broken {
    fn of(self, what: &str) -> Problem {
        match self {
            Self::Io(error) => Problem::Unreachable(format!("{what}: {error}")),
            Self::Silent => Problem::TimedOut,
            Self::Malformed(Malformed(how)) => Problem::Damaged(format!("{what} has {how}")),
        }
    }
}

/// What arrives on a connection.
#[derive(Debug)]
struct Input<S> {
    stream: S,
    patience: Duration,
    buffer: BytesMut,
    /// Bytes of data that are still to come, about.
    expected: u64,
}

impl<S: AsyncRead + Unpin> Input<S> {
    /// Waits until so many bytes are in the buffer.
    async fn fill(&mut self, n: usize) -> Result<(), Broken> {
        while self.buffer.len() < n {
            let missing = n - self.buffer.len();
            if self.buffer.capacity() - self.buffer.len() < missing.min(BUFFER as usize) {
                // Checksums take one byte in 128, and so much is enough for other headers.
                let usual = (self.expected + self.expected / 64 + 1024).min(BUFFER) as usize;
                self.buffer.reserve(usual.max(missing.min(BUFFER as usize)));
            }
            let n = timeout(self.patience, self.stream.read_buf(&mut self.buffer)).await;
            if n.map_err(|_| Broken::Silent)?.map_err(Broken::Io)? == 0 {
                return Err(Broken::Io(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        Ok(())
    }

    /// A message after its length.
    async fn delimited(&mut self) -> Result<Bytes, Broken> {
        loop {
            match delimiter(&self.buffer)? {
                None => self.fill(self.buffer.len() + 1).await?,
                Some((n, _)) if n > MOST_ANSWER_BYTES => {
                    return Err(Malformed("an answer without end").into());
                }
                Some((n, begin)) => {
                    let end = begin + n as usize;
                    self.fill(end).await?;
                    let answer = self.buffer.split_to(end).freeze();
                    return Ok(answer.slice_ref(delimited(&mut &answer[..])?));
                }
            }
        }
    }
}

/// A range of a block that is arriving.
#[derive(Debug)]
struct Reading<S> {
    /// The block and its DataNode, for people.
    what: String,
    input: Input<S>,
    checksum: ChecksumInfo,
    /// Where in the block the next packet begins, and where the last one ends.
    at: u64,
    end: u64,
    /// What has not been passed on yet.
    wanted: Range<u64>,
}

/// Where a connection belongs.
#[derive(Debug)]
struct Lender {
    pool: Arc<Pool>,
    address: String,
}

/// The data of all packets. The connection is kept if everything came as it should.
fn packets(
    begun: (Reading<TcpStream>, Lender),
) -> impl Stream<Item = Result<Bytes, Problem>> + Send + 'static {
    stream::try_unfold(begun, |(mut reading, lender)| async move {
        while !reading.wanted.is_empty() {
            let data = reading.packet().await.map_err(|broken| broken.of(&reading.what))?;
            if !data.is_empty() {
                return Ok(Some((data, (reading, lender))));
            }
        }
        if let Ok(true) = timeout(END_TIMEOUT, reading.is_over()).await {
            lender.pool.keep(lender.address, reading.input.stream);
        }
        Ok(None)
    })
}

impl Reading<TcpStream> {
    async fn ask(&mut self, operation: &[u8], request: &Writer) -> Result<(), NotRead> {
        let mut out = operation.to_vec();
        request.delimited_into(&mut out);
        let sent = timeout(self.input.patience, self.input.stream.write_all(&out)).await;
        let sent = sent.map_err(|_| Broken::Silent).and_then(|sent| sent.map_err(Broken::Io));
        sent.map_err(|broken| self.broken(broken))
    }
}

impl<S: AsyncRead + Unpin> Reading<S> {
    fn new(stream: S, patience: Duration, what: String, wanted: Range<u64>) -> Self {
        let input = Input { stream, patience, buffer: BytesMut::new(), expected: wanted.end - wanted.start };
        let checksum = ChecksumInfo { kind: ChecksumKind::Nothing, chunk_bytes: 1, offset: 0 };
        Self { what, input, checksum, at: 0, end: 0, wanted }
    }

    fn broken(&self, broken: Broken) -> NotRead {
        NotRead::Broken(broken.of(&self.what))
    }

    /// Receives the answer to what was asked for.
    async fn answer(&mut self) -> Result<Found, NotRead> {
        let answer = match self.input.delimited().await {
            Err(Broken::Io(error)) if is_closed(&error) => {
                let what = &self.what;
                return Err(NotRead::Broken(Problem::Unreachable(format!(
                    "{what}: it closed the connection without an answer; if the cluster protects its data transfer \
                     (dfs.data.transfer.protection), use webhdfs:// or hadoop fs -get"
                ))));
            }
            answer => answer.map_err(|broken| self.broken(broken))?,
        };
        match BlockAnswer::parse(&answer).map_err(|malformed| self.broken(malformed.into()))? {
            BlockAnswer::Found(found) => Ok(found),
            BlockAnswer::NeedsToken => Err(NotRead::NeedsToken),
            BlockAnswer::Refuses(text) => Err(NotRead::Refused(text.chars().take(300).collect())),
        }
    }

    /// Receives the answer that precedes the data of a block of this many bytes.
    async fn accept(&mut self, block_bytes: u64) -> Result<(), NotRead> {
        let answer = self.answer().await?;
        let (what, broken) = (&self.what, |broken: Broken| self.broken(broken));
        let Found::Data(info) = answer else { return Err(broken(Malformed("no data").into())) };
        let (chunk, wanted) = (u64::from(info.chunk_bytes), &self.wanted);
        if info.kind == ChecksumKind::Nothing {
            return Err(NotRead::Broken(Problem::Unsupported(format!(
                "{what} was written without checksums, so that it cannot be verified; use webhdfs:// or hadoop fs -get"
            ))));
        }
        if chunk == 0 || info.chunk_bytes > MOST_PACKET_BYTES {
            return Err(broken(Malformed("chunks of no usual size").into()));
        }
        if info.offset > wanted.start || wanted.start - info.offset >= chunk {
            return Err(broken(Malformed("another range than was asked for").into()));
        }
        // It sends whole chunks, and the last one of a block as it is.
        let end = wanted.end.checked_next_multiple_of(chunk).unwrap_or(u64::MAX);
        (self.checksum, self.at, self.end) = (info, info.offset, end.min(block_bytes.max(wanted.end)));
        Ok(())
    }

    /// The length of the next packet, where its data begins, and its header.
    async fn header(&mut self) -> Result<(usize, usize, PacketHeader), Broken> {
        self.input.fill(6).await?;
        let mut begin = &self.input.buffer[..6];
        let (payload_bytes, header_bytes) = (begin.get_u32(), begin.get_u16());
        if !(4..=MOST_PACKET_BYTES).contains(&payload_bytes) || header_bytes > MOST_HEADER_BYTES {
            return Err(Malformed("a packet of no usual size").into());
        }
        let sums_at = 6 + usize::from(header_bytes);
        self.input.fill(sums_at).await?;
        let header = PacketHeader::parse(&self.input.buffer[6..sums_at])?;
        let (n, chunk) = (header.data_bytes, self.checksum.chunk_bytes);
        let sums = u64::from(n.div_ceil(chunk)) * 4;
        if u64::from(payload_bytes) != 4 + sums + u64::from(n) {
            return Err(Malformed("a packet whose lengths do not fit").into());
        }
        let data_at = sums_at + sums as usize;
        Ok((data_at + n as usize, data_at, header))
    }

    /// What the next packet has of the range, verified.
    async fn packet(&mut self) -> Result<Bytes, Broken> {
        let (packet_bytes, data_at, header) = self.header().await?;
        let n = u64::from(header.data_bytes);
        if n == 0 {
            return Err(Malformed("an end before all of its data has come").into());
        }
        if header.offset != self.at || n > self.end.saturating_sub(self.at) {
            return Err(Malformed("data of another place").into());
        }
        self.input.fill(packet_bytes).await?;
        let packet = self.input.buffer.split_to(packet_bytes).freeze();
        self.input.expected = self.input.expected.saturating_sub(n);
        let n_sums = header.data_bytes.div_ceil(self.checksum.chunk_bytes) as usize;
        let (sums, data) = (&packet[data_at - n_sums * 4..data_at], &packet[data_at..]);
        if !are_right(&self.checksum, sums, data) {
            return Err(Malformed("damaged data, as its checksum says").into());
        }
        let from = self.wanted.start.saturating_sub(self.at).min(n);
        let to = (self.wanted.end - self.at).min(n);
        self.at += n;
        self.wanted.start = self.at.clamp(self.wanted.start, self.wanted.end);
        Ok(packet.slice(data_at + from as usize..data_at + to as usize))
    }
}

impl Reading<TcpStream> {
    /// Receives the end and confirms it. Returns whether the connection can be used again.
    async fn is_over(&mut self) -> bool {
        let end = async {
            let (packet_bytes, _, header) = self.header().await?;
            self.input.fill(packet_bytes).await?;
            self.input.buffer.advance(packet_bytes);
            let mut out = Vec::new();
            read_status().delimited_into(&mut out);
            self.input.stream.write_all(&out).await.map_err(Broken::Io)?;
            Ok::<_, Broken>(header.is_last && header.data_bytes == 0 && self.input.buffer.is_empty())
        };
        end.await.unwrap_or(false)
    }
}

/// Receives a range from any stream, for fuzzing. Returns how many bytes pass.
pub(super) async fn receive(stream: impl AsyncRead + Unpin, range: Range<u64>, patience: Duration) -> u64 {
    let (mut n_passed, block_bytes) = (0, range.end);
    let mut reading = Reading::new(stream, patience, String::new(), range);
    if reading.accept(block_bytes).await.is_ok() {
        while !reading.wanted.is_empty()
            && let Ok(data) = reading.packet().await
        {
            n_passed += data.len() as u64;
        }
    }
    n_passed
}

/// Whether each chunk has its checksum.
fn are_right(checksum: &ChecksumInfo, sums: &[u8], data: &[u8]) -> bool {
    let Some(algorithm) = checksum.kind.crc() else { return false };
    let chunks = data.chunks(checksum.chunk_bytes as usize);
    chunks
        .zip(sums.chunks_exact(4))
        .all(|(chunk, mut sum)| crc_fast::checksum(algorithm, chunk) == u64::from(sum.get_u32()))
}
