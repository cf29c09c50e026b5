//! The messages of Hadoop's protocols that reading needs: what is asked, and of the answers what matters here.
//!
//! Fields have the numbers of Hadoop's `.proto` files (`RpcHeader`, `ClientNamenodeProtocol`, `hdfs`, `datatransfer`).
//! Answers are parsed in place; what may be repeated is parsed one by one.

use crc_fast::CrcAlgorithm;

use super::wire::{Fields, Malformed, Writer};

/// The protocol between clients and NameNodes.
const CLIENT_PROTOCOL: &str = "org.apache.hadoop.hdfs.protocol.ClientProtocol";
/// The calls that carry the context of a connection, and a login.
const CONTEXT_CALL: i32 = -3;
pub(super) const SASL_CALL: i32 = -33;

/// A message with these parts of an answer.
pub(super) trait Parse<'a>: Sized {
    fn parse(message: &'a [u8]) -> Result<Self, Malformed>;
}

/// All fields of one number in a message.
#[derive(Clone, Debug)]
pub(super) struct Repeated<'a> {
    fields: Fields<'a>,
    number: u64,
}

impl<'a> Repeated<'a> {
    fn new(message: &'a [u8], number: u64) -> Self {
        Self { fields: Fields::of(message), number }
    }

    pub(super) fn next<T: Parse<'a>>(&mut self) -> Result<Option<T>, Malformed> {
        while let Some((number, value)) = self.fields.next()? {
            if number == self.number {
                return T::parse(value.bytes()?).map(Some);
            }
        }
        Ok(None)
    }
}

/// What precedes every request and the context of a connection.
pub(super) fn rpc_header(call: i32, client: &[u8]) -> Writer {
    let (protocol_buffers, final_packet, first_try) = (2, 0, if call < 0 { -1 } else { 0 });
    Writer::default()
        .number(1, protocol_buffers)
        .number(2, final_packet)
        .signed(3, call)
        .bytes(4, client)
        .signed(5, first_try)
}

/// Who asks, unless that is known from a login, and by which protocol: sent once on each connection.
pub(super) fn connection_context(client: &[u8], user: Option<&str>) -> [Writer; 2] {
    let context = Writer::default().text(3, CLIENT_PROTOCOL);
    let context = match user {
        Some(user) => context.message(2, &Writer::default().text(1, user)),
        None => context,
    };
    [rpc_header(CONTEXT_CALL, client), context]
}

/// What a message of a login is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SaslState {
    Success = 0,
    Negotiate = 1,
    Initiate = 2,
    Challenge = 3,
}

/// A message of a login: the way that was chosen, and what is to be proved.
pub(super) fn sasl_request(
    client: &[u8],
    state: SaslState,
    token: Option<&[u8]>,
    auth: Option<&SaslAuth<'_>>,
) -> [Writer; 2] {
    let mut message = Writer::default().number(2, state as u64);
    if let Some(token) = token {
        message = message.bytes(3, token);
    }
    if let Some(SaslAuth { method, mechanism, protocol, server, .. }) = auth {
        let auth = Writer::default().text(1, method).text(2, mechanism).text(3, protocol).text(4, server);
        message = message.message(4, &auth);
    }
    [rpc_header(SASL_CALL, client), message]
}

/// The answer to a message of a login.
#[derive(Debug)]
pub(super) struct SaslAnswer<'a> {
    pub(super) state: SaslState,
    pub(super) token: &'a [u8],
    pub(super) auths: Repeated<'a>,
}

impl<'a> Parse<'a> for SaslAnswer<'a> {
    fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let (mut state, mut token, mut fields) = (None, &[][..], Fields::of(message));
        while let Some((number, value)) = fields.next()? {
            match number {
                2 => {
                    state = Some(match value.number()? {
                        0 => SaslState::Success,
                        1 => SaslState::Negotiate,
                        3 => SaslState::Challenge,
                        _ => return Err(Malformed("a login in no known state")),
                    });
                }
                3 => token = value.bytes()?,
                _ => {}
            }
        }
        let state = state.ok_or(Malformed("a login without a state"))?;
        Ok(Self { state, token, auths: Repeated::new(message, 4) })
    }
}

/// A way to log in.
#[derive(Debug)]
pub(super) struct SaslAuth<'a> {
    pub(super) method: &'a str,
    pub(super) mechanism: &'a str,
    pub(super) protocol: &'a str,
    pub(super) server: &'a str,
    pub(super) challenge: &'a [u8],
}

impl<'a> Parse<'a> for SaslAuth<'a> {
    fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let (mut auth, mut fields) = (
            Self { method: "", mechanism: "", protocol: "", server: "", challenge: &[] },
            Fields::of(message),
        );
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => auth.method = value.text()?,
                2 => auth.mechanism = value.text()?,
                3 => auth.protocol = value.text()?,
                4 => auth.server = value.text()?,
                5 => auth.challenge = value.bytes()?,
                _ => {}
            }
        }
        Ok(auth)
    }
}

/// Which method is called.
pub(super) fn request_header(method: &str) -> Writer {
    Writer::default().text(1, method).text(2, CLIENT_PROTOCOL).number(3, 1)
}

/// Asks for what is in a folder after a name, with the places of all blocks. Asked about a file, a NameNode lists that.
pub(super) fn get_listing(path: &str, after: &[u8]) -> Writer {
    Writer::default().text(1, path).bytes(2, after).number(3, 1)
}

pub(super) fn get_file_info(path: &str) -> Writer {
    Writer::default().text(1, path)
}

pub(super) fn get_block_locations(path: &str, bytes: u64) -> Writer {
    Writer::default().text(1, path).number(2, 0).number(3, bytes)
}

/// The beginning of every answer of a NameNode.
#[derive(Debug)]
pub(super) struct ResponseHeader<'a> {
    pub(super) call: i32,
    pub(super) status: RpcStatus,
    /// The class of the exception, and what it says.
    pub(super) class: &'a str,
    pub(super) text: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RpcStatus {
    Success,
    Error,
    /// The connection is of no use any more.
    Fatal,
}

impl<'a> Parse<'a> for ResponseHeader<'a> {
    fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let (mut call, mut status, mut class, mut text) = (None, None, "", "");
        let mut fields = Fields::of(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                // An `int`, so that negative ones have 32 bits.
                1 => call = Some((value.number()? as u32).cast_signed()),
                2 => {
                    status = Some(match value.number()? {
                        0 => RpcStatus::Success,
                        1 => RpcStatus::Error,
                        _ => RpcStatus::Fatal,
                    });
                }
                4 => class = value.text()?,
                5 => text = value.text()?,
                _ => {}
            }
        }
        let (call, status) = call.zip(status).ok_or(Malformed("an answer without a status"))?;
        Ok(Self { call, status, class, text })
    }
}

/// A part of a folder, or a single file.
#[derive(Debug)]
pub(super) struct Listing<'a> {
    pub(super) entries: Repeated<'a>,
    /// How many entries are left to be asked for.
    pub(super) n_left: u64,
}

/// The answer to [`get_listing`]; `None` if there is no such folder or file.
#[derive(Debug)]
pub(super) struct ListingAnswer<'a>(pub(super) Option<Listing<'a>>);

impl<'a> Parse<'a> for ListingAnswer<'a> {
    fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut listing = Repeated::new(message, 1);
        listing.next().map(Self)
    }
}

impl<'a> Parse<'a> for Listing<'a> {
    fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let (mut n_left, mut fields) = (None, Fields::of(message));
        while let Some((number, value)) = fields.next()? {
            if number == 2 {
                n_left = Some(value.number()?);
            }
        }
        let n_left = n_left.ok_or(Malformed("a listing without an end"))?;
        Ok(Self { entries: Repeated::new(message, 1), n_left })
    }
}

/// The answer to [`get_file_info`]; `None` if there is no such file.
#[derive(Debug)]
pub(super) struct FileInfoAnswer<'a>(pub(super) Option<Status<'a>>);

impl<'a> Parse<'a> for FileInfoAnswer<'a> {
    fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut status = Repeated::new(message, 1);
        status.next().map(Self)
    }
}

/// The answer to [`get_block_locations`]; `None` if there is no such file.
#[derive(Debug)]
pub(super) struct LocationsAnswer<'a>(pub(super) Option<LocatedBlocks<'a>>);

impl<'a> Parse<'a> for LocationsAnswer<'a> {
    fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut locations = Repeated::new(message, 1);
        locations.next().map(Self)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Folder,
    File,
    Link,
}

/// What is known about a file or folder.
#[derive(Debug)]
pub(super) struct Status<'a> {
    pub(super) kind: Kind,
    /// Its name within its folder; empty if it was asked for by its own path.
    pub(super) name: &'a [u8],
    pub(super) bytes: u64,
    /// When it was modified, in milliseconds.
    pub(super) modified: u64,
    /// The number of its inode, which no other file will ever have.
    pub(super) file_id: u64,
    pub(super) is_encrypted: bool,
    pub(super) is_erasure_coded: bool,
    pub(super) locations: Option<LocatedBlocks<'a>>,
}

impl<'a> Parse<'a> for Status<'a> {
    fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        const ENCRYPTED: u64 = 2;
        const ERASURE_CODED: u64 = 4;
        let (mut kind, mut name, mut bytes, mut modified, mut file_id) = (None, None, None, 0, 0);
        let (mut is_encrypted, mut is_erasure_coded, mut locations) = (false, false, None);
        let mut fields = Fields::of(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => {
                    kind = Some(match value.number()? {
                        1 => Kind::Folder,
                        2 => Kind::File,
                        3 => Kind::Link,
                        _ => return Err(Malformed("a file of no known kind")),
                    });
                }
                2 => name = Some(value.bytes()?),
                3 => bytes = Some(value.number()?),
                7 => modified = value.number()?,
                12 => locations = Some(LocatedBlocks::parse(value.bytes()?)?),
                13 => file_id = value.number()?,
                15 => is_encrypted = true,
                17 => is_erasure_coded = true,
                18 => {
                    is_encrypted |= value.number()? & ENCRYPTED != 0;
                    is_erasure_coded |= value.number()? & ERASURE_CODED != 0;
                }
                _ => {}
            }
        }
        let missing = Malformed("a file without a name, kind or length");
        let (kind, name, bytes) = (kind.ok_or(missing)?, name.ok_or(missing)?, bytes.ok_or(missing)?);
        Ok(Self { kind, name, bytes, modified, file_id, is_encrypted, is_erasure_coded, locations })
    }
}

/// The blocks of a file and who holds them.
#[derive(Clone, Debug)]
pub(super) struct LocatedBlocks<'a> {
    pub(super) bytes: u64,
    pub(super) is_being_written: bool,
    pub(super) is_encrypted: bool,
    pub(super) is_erasure_coded: bool,
    pub(super) blocks: Repeated<'a>,
}

impl<'a> Parse<'a> for LocatedBlocks<'a> {
    fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let (mut bytes, mut is_being_written) = (None, false);
        let (mut is_encrypted, mut is_erasure_coded) = (false, false);
        let mut fields = Fields::of(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => bytes = Some(value.number()?),
                3 => is_being_written = value.flag()?,
                6 => is_encrypted = true,
                7 => is_erasure_coded = true,
                _ => {}
            }
        }
        let bytes = bytes.ok_or(Malformed("blocks without a length"))?;
        let blocks = Repeated::new(message, 2);
        Ok(Self { bytes, is_being_written, is_encrypted, is_erasure_coded, blocks })
    }
}

/// A block and who holds it.
#[derive(Debug)]
pub(super) struct LocatedBlock<'a> {
    pub(super) block: Block<'a>,
    /// Where it begins in its file.
    pub(super) offset: u64,
    /// Whether no replica is right.
    pub(super) is_corrupt: bool,
    /// What allows to read it, to be passed on as it is.
    pub(super) token: &'a [u8],
    pub(super) holders: Repeated<'a>,
}

impl<'a> Parse<'a> for LocatedBlock<'a> {
    fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let (mut block, mut offset, mut is_corrupt, mut token) = (None, None, false, &[][..]);
        let mut fields = Fields::of(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => block = Some(Block::parse(value.bytes()?)?),
                2 => offset = Some(value.number()?),
                4 => is_corrupt = value.flag()?,
                5 => token = value.bytes()?,
                _ => {}
            }
        }
        let (block, offset) = block.zip(offset).ok_or(Malformed("a block without a number or place"))?;
        Ok(Self { block, offset, is_corrupt, token, holders: Repeated::new(message, 3) })
    }
}

/// A block as DataNodes know it.
#[derive(Debug)]
pub(super) struct Block<'a> {
    pub(super) pool: &'a str,
    pub(super) id: u64,
    /// Which of the block's versions, as appending and recovering make new ones.
    pub(super) generation: u64,
    pub(super) bytes: u64,
}

impl<'a> Parse<'a> for Block<'a> {
    fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let (mut pool, mut id, mut generation, mut bytes) = (None, None, None, 0);
        let mut fields = Fields::of(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => pool = Some(value.text()?),
                2 => id = Some(value.number()?),
                3 => generation = Some(value.number()?),
                4 => bytes = value.number()?,
                _ => {}
            }
        }
        let missing = Malformed("a block without a pool, number or generation");
        let (pool, id, generation) = (pool.ok_or(missing)?, id.ok_or(missing)?, generation.ok_or(missing)?);
        Ok(Self { pool, id, generation, bytes })
    }
}

/// Where a DataNode is.
#[derive(Debug)]
pub(super) struct Datanode<'a> {
    pub(super) ip: &'a str,
    pub(super) host: &'a str,
    /// The number by which it is known, wherever it is.
    pub(super) uuid: &'a str,
    /// Where it sends blocks.
    pub(super) port: u16,
    /// How many threads were busy with transfers, reads and writes, when it last told the NameNode.
    pub(super) n_transfers: u32,
}

impl<'a> Parse<'a> for Datanode<'a> {
    fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let missing = Malformed("a DataNode without an address");
        let (mut id, mut n_transfers, mut fields) = (None, 0, Fields::of(message));
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => id = Some(value.bytes()?),
                7 => n_transfers = value.number32()?,
                _ => {}
            }
        }
        let (mut ip, mut host, mut uuid, mut port) = (None, None, None, None);
        let mut fields = Fields::of(id.ok_or(missing)?);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => ip = Some(value.text()?),
                2 => host = Some(value.text()?),
                3 => uuid = Some(value.text()?),
                4 => port = u16::try_from(value.number()?).ok(),
                _ => {}
            }
        }
        let (ip, host) = ip.zip(host).ok_or(missing)?;
        let (uuid, port) = uuid.zip(port).ok_or(missing)?;
        Ok(Self { ip, host, uuid, port, n_transfers })
    }
}

/// Whether a token allows anything: clusters that want none send empty ones.
pub(super) fn is_token(token: &[u8]) -> bool {
    let mut fields = Fields::of(token);
    while let Ok(Some((number, value))) = fields.next() {
        if number == 1 {
            return value.bytes().is_ok_and(|identifier| !identifier.is_empty());
        }
    }
    false
}

/// Which block an operation of a DataNode is about.
fn base(block: &Block<'_>, token: &[u8]) -> Writer {
    let block = Writer::default()
        .text(1, block.pool)
        .number(2, block.id)
        .number(3, block.generation)
        .number(4, block.bytes);
    let base = Writer::default().message(1, &block);
    if token.is_empty() { base } else { base.bytes(2, token) }
}

/// Asks a DataNode for a range of a block.
pub(super) fn read_block(block: &Block<'_>, token: &[u8], client: &str, offset: u64, bytes: u64) -> Writer {
    let header = Writer::default().message(1, &base(block, token)).text(2, client);
    Writer::default().message(1, &header).number(2, offset).number(3, bytes).number(4, 1)
}

/// A checksum of a block that does not depend on the size of its chunks.
const COMPOSITE_CRC: u64 = 2;

/// Asks a DataNode for the checksum of a block.
pub(super) fn block_checksum(block: &Block<'_>, token: &[u8]) -> Writer {
    let options = Writer::default().number(1, COMPOSITE_CRC);
    Writer::default().message(1, &base(block, token)).message(2, &options)
}

/// Tells a DataNode that everything has arrived, and is right by its checksums.
pub(super) fn read_status() -> Writer {
    const CHECKSUM_OK: u64 = 6;
    Writer::default().number(1, CHECKSUM_OK)
}

/// The answer of a DataNode that was asked for a block, or for something about it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BlockAnswer<'a> {
    Found(Found),
    /// The token is too old, or none was sent where one is needed.
    NeedsToken,
    Refuses(&'a str),
}

/// What a DataNode has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Data follows.
    Data(ChecksumInfo),
    Checksum(BlockChecksum),
}

/// How the data is checked, and where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChecksumInfo {
    pub(super) kind: ChecksumKind,
    pub(super) chunk_bytes: u32,
    /// Where in the block the first packet begins: where its chunk does.
    pub(super) offset: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChecksumKind {
    Nothing,
    Crc32,
    Crc32c,
}

impl ChecksumKind {
    fn numbered(number: u64) -> Option<Self> {
        match number {
            0 => Some(Self::Nothing),
            1 => Some(Self::Crc32),
            2 => Some(Self::Crc32c),
            _ => None,
        }
    }

    /// How it is computed.
    pub(super) fn crc(self) -> Option<CrcAlgorithm> {
        match self {
            Self::Nothing => None,
            Self::Crc32 => Some(CrcAlgorithm::Crc32IsoHdlc),
            Self::Crc32c => Some(CrcAlgorithm::Crc32Iscsi),
        }
    }
}

/// The checksum of a whole block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockChecksum {
    pub(super) kind: ChecksumKind,
    /// None from DataNodes before Hadoop 3.1.1, whose checksums depend on the size of chunks.
    pub(super) composite: Option<u32>,
}

impl<'a> Parse<'a> for BlockChecksum {
    fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let (mut kind, mut sum, mut is_composite) = (None, &[][..], false);
        let mut fields = Fields::of(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                3 => sum = value.bytes()?,
                4 => kind = ChecksumKind::numbered(value.number()?),
                5 => {
                    let mut options = Fields::of(value.bytes()?);
                    while let Some((number, value)) = options.next()? {
                        is_composite |= number == 1 && value.number()? == COMPOSITE_CRC;
                    }
                }
                _ => {}
            }
        }
        let kind = kind.ok_or(Malformed("a checksum of no known kind"))?;
        let composite = sum.try_into().ok().filter(|_| is_composite).map(u32::from_be_bytes);
        Ok(Self { kind, composite })
    }
}

impl<'a> Parse<'a> for BlockAnswer<'a> {
    fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let (mut status, mut text, mut found) = (None, "", None);
        let mut fields = Fields::of(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => status = Some(value.number()?),
                3 => found = Some(Found::Checksum(BlockChecksum::parse(value.bytes()?)?)),
                4 => found = Some(Found::Data(ChecksumInfo::parse(value.bytes()?)?)),
                5 => text = value.text()?,
                _ => {}
            }
        }
        match status.ok_or(Malformed("an answer without a status"))? {
            0 => found.map(Self::Found).ok_or(Malformed("data without checksums")),
            5 => Ok(Self::NeedsToken),
            _ => Ok(Self::Refuses(text)),
        }
    }
}

impl<'a> Parse<'a> for ChecksumInfo {
    fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let (mut checksum, mut offset) = (None, None);
        let mut fields = Fields::of(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => checksum = Some(value.bytes()?),
                2 => offset = Some(value.number()?),
                _ => {}
            }
        }
        let missing = Malformed("a checksum of no known kind");
        let (mut kind, mut chunk_bytes) = (None, None);
        let mut fields = Fields::of(checksum.ok_or(missing)?);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => kind = ChecksumKind::numbered(value.number()?),
                2 => chunk_bytes = Some(value.number32()?),
                _ => {}
            }
        }
        let (kind, chunk_bytes) = kind.zip(chunk_bytes).ok_or(missing)?;
        Ok(Self { kind, chunk_bytes, offset: offset.ok_or(missing)? })
    }
}

/// The beginning of a packet of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PacketHeader {
    /// Where in the block its data begins.
    pub(super) offset: u64,
    pub(super) is_last: bool,
    pub(super) data_bytes: u32,
}

impl<'a> Parse<'a> for PacketHeader {
    fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let (mut offset, mut is_last, mut data_bytes) = (None, false, None);
        let mut fields = Fields::of(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => offset = Some(value.number()?),
                3 => is_last = value.flag()?,
                4 => data_bytes = Some(value.number32()?),
                _ => {}
            }
        }
        let (offset, data_bytes) = offset.zip(data_bytes).ok_or(Malformed("a packet without a length"))?;
        Ok(Self { offset, is_last, data_bytes })
    }
}
