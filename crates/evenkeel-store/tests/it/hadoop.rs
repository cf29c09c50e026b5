//! A small HDFS on threads: a NameNode and DataNodes that speak Hadoop's protocols as far as readers need them, and
//! misbehave as a test says.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_store::{Algorithm, Hasher};

/// Blocks and chunks of files here.
pub(crate) const BLOCK: usize = 64 << 10;
pub(crate) const CHUNK: usize = 512;
/// The call of a login, -33, as requests and answers have it.
const SASL_CALL: u64 = 65;
pub(crate) const SASL_ANSWER: u64 = 0xFFFF_FFDF;
/// What a NameNode wants to have proved, the same each time.
const NONCE: &str = "a nonce";
/// Chunks in a packet.
const PACKET: usize = 30 * CHUNK;

/// What is about to be sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    /// The answer to a call of the NameNode, with its length.
    Call(&'a str),
    /// What a NameNode answers to somebody who logs in, with its length: first what it offers, then its proof.
    Login { step: usize },
    /// The answer of a DataNode that was asked for a range, which precedes the data.
    Answer { datanode: usize },
    /// A packet of a range, counted from 0. The last one is empty.
    Packet { datanode: usize, number: usize },
}

/// What is sent instead.
pub(crate) enum Instead {
    /// This, and everything goes on.
    Bytes(Vec<u8>),
    /// This, and then the connection is closed.
    Last(Vec<u8>),
    /// Nothing, for a long time.
    Silence,
}

/// Changes what is sent; `None` leaves it as it is.
pub(crate) type Quirk = Box<dyn Fn(Part<'_>, &[u8]) -> Option<Instead> + Send + Sync>;

/// The fields of a message, for what is sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message(pub(crate) Vec<u8>);

impl Message {
    fn varint(mut self, mut number: u64) -> Self {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
        self
    }

    pub(crate) fn number(self, field: u64, number: u64) -> Self {
        self.varint(field << 3).varint(number)
    }

    pub(crate) fn bytes(self, field: u64, bytes: &[u8]) -> Self {
        let mut message = self.varint(field << 3 | 2).varint(bytes.len() as u64);
        message.0.extend_from_slice(bytes);
        message
    }

    pub(crate) fn message(self, field: u64, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    fn fixed(mut self, field: u64, bytes: &[u8]) -> Self {
        self = self.varint(field << 3 | if bytes.len() == 8 { 1 } else { 5 });
        self.0.extend_from_slice(bytes);
        self
    }

    /// After its length.
    pub(crate) fn delimited(&self) -> Vec<u8> {
        let mut all = Self::default().varint(self.0.len() as u64).0;
        all.extend_from_slice(&self.0);
        all
    }
}

/// A message that was received: its fields by their numbers, the last of each.
#[derive(Debug, Default)]
struct Received {
    numbers: HashMap<u64, u64>,
    bytes: HashMap<u64, Vec<u8>>,
}

pub(crate) fn varint(rest: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    loop {
        let byte = rest[0];
        *rest = &rest[1..];
        number |= u64::from(byte & 0x7F) << shift;
        shift += 7;
        if byte < 0x80 {
            return number;
        }
    }
}

fn take<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let n = varint(rest) as usize;
    let (taken, after) = rest.split_at(n);
    *rest = after;
    taken
}

impl Received {
    fn new(mut rest: &[u8]) -> Self {
        let mut message = Self::default();
        while !rest.is_empty() {
            let key = varint(&mut rest);
            match key & 7 {
                0 => drop(message.numbers.insert(key >> 3, varint(&mut rest))),
                2 => drop(message.bytes.insert(key >> 3, take(&mut rest).to_vec())),
                other => panic!("a field of kind {other}"),
            }
        }
        message
    }

    fn text(&self, field: u64) -> String {
        String::from_utf8(self.bytes[&field].clone()).unwrap()
    }
}

#[derive(Clone, Debug)]
struct File {
    id: u64,
    modified: u64,
    data: Vec<u8>,
    first_block: u64,
    is_open: bool,
}

#[derive(Default)]
struct State {
    files: Mutex<BTreeMap<String, File>>,
    blocks: Mutex<HashMap<u64, Vec<u8>>>,
    ports: Mutex<Vec<u16>>,
    n_calls: AtomicUsize,
    n_connections: AtomicUsize,
    /// The name and the password of a token, without which the NameNode answers nobody.
    login: Mutex<Option<(String, String)>>,
    /// What DataNodes want to be shown, if they want anything.
    token: Mutex<Vec<u8>>,
    is_over: AtomicBool,
    quirk: Mutex<Option<Quirk>>,
}

/// What is done with a connection.
type Serve = Box<dyn Fn(&State, TcpStream) -> Option<()> + Send + Sync>;

/// A cluster with three DataNodes.
pub(crate) struct Hadoop {
    /// `127.0.0.1:port`.
    pub(crate) namenode: String,
    state: Arc<State>,
    listeners: Vec<u16>,
}

impl Drop for Hadoop {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Relaxed);
        // Wakes them up.
        self.listeners.iter().for_each(|port| drop(TcpStream::connect(("127.0.0.1", *port))));
    }
}

impl Hadoop {
    pub(crate) fn start() -> Self {
        let state = Arc::new(State::default());
        let mut listeners = Vec::new();
        let mut listen = |serve: Serve| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            listeners.push(port);
            let (state, serve) = (Arc::clone(&state), Arc::new(serve));
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    if state.is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    state.n_connections.fetch_add(1, Ordering::Relaxed);
                    let (state, serve) = (Arc::clone(&state), Arc::clone(&serve));
                    // Ends when the client leaves.
                    std::thread::spawn(move || serve(&state, stream));
                }
            });
            port
        };
        let datanodes: Vec<u16> = (0..3)
            .map(|number| listen(Box::new(move |state, stream| state.serve_datanode(number, stream))))
            .collect();
        let namenode = listen(Box::new(State::serve_namenode));
        *state.ports.lock().unwrap() = datanodes;
        Self { namenode: format!("127.0.0.1:{namenode}"), state, listeners }
    }

    pub(crate) fn address(&self, path: &str) -> String {
        format!("hdfs://{}{path}", self.namenode)
    }

    /// Misbehaves like this from now on.
    pub(crate) fn set_quirk(&self, quirk: Quirk) {
        *self.state.quirk.lock().unwrap() = Some(quirk);
    }

    /// DataNodes want this token from now on. Listings do not have it.
    pub(crate) fn set_token(&self, token: &[u8]) {
        *self.state.token.lock().unwrap() = token.to_vec();
    }

    /// The NameNode wants a login with this name and password from now on: a token's identifier and its password, in Base64.
    pub(crate) fn set_login(&self, name: &str, password: &str) {
        *self.state.login.lock().unwrap() = Some((name.to_owned(), password.to_owned()));
    }

    pub(crate) fn n_calls(&self) -> usize {
        self.state.n_calls.load(Ordering::Relaxed)
    }

    pub(crate) fn n_connections(&self) -> usize {
        self.state.n_connections.load(Ordering::Relaxed)
    }

    /// Writes a file. Blocks of one that was there before stay, as they do for a while.
    pub(crate) fn put(&self, path: &str, data: &[u8]) {
        let (mut files, mut blocks) = (self.state.files.lock().unwrap(), self.state.blocks.lock().unwrap());
        let first_block = 1000 + blocks.len() as u64;
        for (number, block) in data.chunks(BLOCK).enumerate() {
            blocks.insert(first_block + number as u64, block.to_vec());
        }
        let id = 16000 + first_block;
        let file = File { id, modified: id * 1000, data: data.to_vec(), first_block, is_open: false };
        files.insert(path.to_owned(), file);
    }

    /// A writer has opened a file.
    pub(crate) fn open(&self, path: &str) {
        self.state.files.lock().unwrap().get_mut(path).unwrap().is_open = true;
    }

    pub(crate) fn remove(&self, path: &str) {
        self.state.files.lock().unwrap().remove(path);
    }

    /// Forgets the blocks of a file, at all DataNodes.
    pub(crate) fn lose_blocks(&self, path: &str) {
        let file = self.state.files.lock().unwrap()[path].clone();
        let mut blocks = self.state.blocks.lock().unwrap();
        (0..file.data.len().div_ceil(BLOCK) as u64)
            .for_each(|nth| drop(blocks.remove(&(file.first_block + nth))));
    }
}

impl State {
    /// Sends a part, or what is sent instead.
    fn send(&self, stream: &mut TcpStream, part: Part<'_>, bytes: &[u8]) -> Option<()> {
        let instead = self.quirk.lock().unwrap().as_ref().and_then(|quirk| quirk(part, bytes));
        match instead {
            None => stream.write_all(bytes).ok(),
            Some(Instead::Bytes(bytes)) => stream.write_all(&bytes).ok(),
            Some(Instead::Last(bytes)) => {
                stream.write_all(&bytes).ok()?;
                None
            }
            Some(Instead::Silence) => {
                std::thread::sleep(Duration::from_mins(1));
                None
            }
        }
    }

    fn serve_namenode(&self, stream: TcpStream) -> Option<()> {
        stream.set_nodelay(true).ok()?;
        let mut stream = BufReader::new(stream);
        let mut preamble = [0; 7];
        stream.read_exact(&mut preamble).ok()?;
        assert_eq!(&preamble[..6], b"hrpc\x09\x00");
        let is_login = preamble[6] == 0xDF;
        let (mut is_known, mut n_steps) = (!is_login, 0);
        loop {
            let frame = read_frame(&mut stream)?;
            let mut rest = frame.as_slice();
            let header = Received::new(take(&mut rest));
            if header.numbers[&3] == SASL_CALL {
                let answer = self.login(&Received::new(take(&mut rest)), &mut is_known);
                let Some(answer) = answer else { continue };
                self.send(stream.get_mut(), Part::Login { step: n_steps }, &answer)?;
                n_steps += 1;
                continue;
            }
            // The context of the connection has a negative number.
            if header.numbers[&3] % 2 == 1 {
                let has_name = Received::new(take(&mut rest)).bytes.contains_key(&2);
                assert!(is_known && has_name != (n_steps == 2), "who asks is said once");
                if !is_login && self.login.lock().unwrap().is_some() {
                    let text = "SIMPLE authentication is not enabled.  Available:[TOKEN, KERBEROS]";
                    let class = "org.apache.hadoop.security.AccessControlException";
                    stream.get_mut().write_all(&fatal(u64::from(u32::MAX), class, text)).ok()?;
                    return None;
                }
                continue;
            }
            let method = Received::new(take(&mut rest)).text(1);
            let request = Received::new(take(&mut rest));
            self.n_calls.fetch_add(1, Ordering::Relaxed);
            let header = Message::default().number(1, header.numbers[&3] / 2).number(2, 0);
            let answer = match method.as_str() {
                "getListing" => self.listing(&request),
                "getFileInfo" => self.file_info(&request.text(1)),
                "getBlockLocations" => self.locations(&request.text(1)),
                other => panic!("{other}"),
            };
            let frame = framed(&[header.delimited(), answer.delimited()].concat());
            self.send(stream.get_mut(), Part::Call(&method), &frame)?;
        }
    }

    /// Answers somebody who logs in, unless they need no proof.
    fn login(&self, request: &Received, is_known: &mut bool) -> Option<Vec<u8>> {
        let answer = |message: &Message| {
            let header = Message::default().number(1, SASL_ANSWER).number(2, 0);
            framed(&[header.delimited(), message.delimited()].concat())
        };
        let Some((user, password)) = self.login.lock().unwrap().clone() else {
            // Names are enough.
            if request.numbers[&2] == 2 {
                assert_eq!(Received::new(&request.bytes[&4]).text(1), "SIMPLE");
                *is_known = true;
                return None;
            }
            return Some(answer(&Message::default().number(2, 1).message(4, &auth("SIMPLE", "", b""))));
        };
        if request.numbers[&2] == 1 {
            let challenge =
                format!("realm=\"default\",nonce=\"{NONCE}\",qop=\"auth\",charset=utf-8,algorithm=md5-sess");
            let auths = [auth("TOKEN", "DIGEST-MD5", challenge.as_bytes()), auth("KERBEROS", "GSSAPI", b"")];
            let message =
                auths.iter().fold(Message::default().number(2, 1), |all, auth| all.message(4, auth));
            return Some(answer(&message));
        }
        let chosen = Received::new(&request.bytes[&4]);
        assert_eq!(
            (request.numbers[&2], chosen.text(1).as_str(), chosen.text(4).as_str()),
            (2, "TOKEN", "default")
        );
        let proof = request.text(3);
        let field = |name: &str| {
            let field = proof.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
            field.unwrap().trim_matches('"').to_owned()
        };
        assert_eq!(
            (field("nonce").as_str(), field("qop").as_str(), field("username")),
            (NONCE, "auth", user.clone())
        );
        let secret = md5(format!("{user}:default:{password}").as_bytes());
        let secret = u128::from_str_radix(&secret, 16).unwrap().to_be_bytes();
        let session = md5(&[&secret[..], format!(":{NONCE}:{}", field("cnonce")).as_bytes()].concat());
        let proof = |of: &str| {
            let rest = format!("{NONCE}:00000001:{}:auth:{}", field("cnonce"), md5(of.as_bytes()));
            md5(format!("{session}:{rest}").as_bytes())
        };
        if field("response") != proof("AUTHENTICATE:/default") {
            let text = "DIGEST-MD5: digest response format violation. Mismatched response.";
            return Some(fatal(SASL_ANSWER, "javax.security.sasl.SaslException", text));
        }
        *is_known = true;
        let proof = format!("rspauth={}", proof(":/default"));
        Some(answer(&Message::default().number(2, 0).bytes(3, proof.as_bytes())))
    }

    /// Pages of seven entries.
    fn listing(&self, request: &Received) -> Message {
        let (path, after) = (request.text(1), request.text(2));
        let files = self.files.lock().unwrap();
        if let Some(file) = files.get(&path) {
            let listing = Message::default().message(1, &self.status(b"", file, true)).number(2, 0);
            return Message::default().message(1, &listing);
        }
        let folder = if path == "/" { path } else { format!("{path}/") };
        let mut entries: BTreeMap<Vec<i8>, (&str, Option<&File>)> = BTreeMap::new();
        for (path, file) in &*files {
            if let Some(name) = path.strip_prefix(&folder) {
                let below = name.split_once('/');
                let name = below.map_or(name, |(name, _)| name);
                entries.insert(java_order(name), (name, below.is_none().then_some(file)));
            }
        }
        if entries.is_empty() {
            return Message::default();
        }
        let after = java_order(&after);
        let left: Vec<_> =
            entries.into_iter().filter(|(at, _)| *at > after).map(|(_, entry)| entry).collect();
        let mut listing = Message::default();
        for (name, file) in left.iter().take(7) {
            let status = match file {
                Some(file) => self.status(name.as_bytes(), file, true),
                None => Message::default().number(1, 1).bytes(2, name.as_bytes()).number(3, 0),
            };
            listing = listing.message(1, &status);
        }
        Message::default().message(1, &listing.number(2, left.len().saturating_sub(7) as u64))
    }

    fn file_info(&self, path: &str) -> Message {
        match self.files.lock().unwrap().get(path) {
            Some(file) => Message::default().message(1, &self.status(b"", file, false)),
            None => Message::default(),
        }
    }

    fn locations(&self, path: &str) -> Message {
        match self.files.lock().unwrap().get(path) {
            Some(file) => Message::default().message(1, &self.located(file, true)),
            None => Message::default(),
        }
    }

    fn status(&self, name: &[u8], file: &File, is_located: bool) -> Message {
        let status = Message::default().number(1, 2).bytes(2, name).number(3, file.data.len() as u64);
        let status = status.number(7, file.modified).number(13, file.id);
        if is_located { status.message(12, &self.located(file, false)) } else { status }
    }

    /// Each block is at two of the three DataNodes.
    fn located(&self, file: &File, has_tokens: bool) -> Message {
        let mut located =
            Message::default().number(1, file.data.len() as u64).number(3, file.is_open.into()).number(5, 1);
        let token = self.token.lock().unwrap();
        for (nth, block) in file.data.chunks(BLOCK).enumerate() {
            let id = file.first_block + nth as u64;
            let extended =
                Message::default().bytes(1, b"BP-1").number(2, id).number(3, 7).number(4, block.len() as u64);
            let identifier = if has_tokens { token.as_slice() } else { b"" };
            let token = Message::default().bytes(1, identifier).bytes(2, b"").bytes(3, b"").bytes(4, b"");
            let mut block = Message::default()
                .message(1, &extended)
                .number(2, (nth * BLOCK) as u64)
                .number(4, 0)
                .message(5, &token);
            for number in [id as usize % 3, (id as usize + 1) % 3] {
                let port = self.ports.lock().unwrap()[number];
                let datanode = Message::default()
                    .bytes(1, b"127.0.0.1")
                    .bytes(2, format!("d{number}").as_bytes())
                    .bytes(3, format!("uuid-{number}").as_bytes())
                    .number(4, port.into());
                block = block.message(3, &Message::default().message(1, &datanode).number(7, 4));
            }
            located = located.message(2, &block);
        }
        located
    }

    fn serve_datanode(&self, datanode: usize, mut stream: TcpStream) -> Option<()> {
        stream.set_nodelay(true).ok()?;
        loop {
            let mut operation = [0; 3];
            stream.read_exact(&mut operation).ok()?;
            let is_read = operation == [0, 28, 81];
            assert!(is_read || operation == [0, 28, 85]);
            let request = Received::new(&read_delimited(&mut stream)?);
            let header = Received::new(&request.bytes[&1]);
            let base = if is_read { Received::new(&header.bytes[&1]) } else { header };
            let block = Received::new(&base.bytes[&1]);
            assert_eq!((block.text(1).as_str(), block.numbers[&3]), ("BP-1", 7));
            let wanted = self.token.lock().unwrap().clone();
            let shown = base.bytes.get(&2).map_or(Vec::new(), |token| Received::new(token).bytes[&1].clone());
            let data = self.blocks.lock().unwrap().get(&block.numbers[&2]).cloned();
            let number = |field| request.numbers.get(&field).map_or(0, |&number| number as usize);
            let (from, n) = (number(2), number(3));
            let refusal = match &data {
                _ if wanted != shown => Some(Message::default().number(1, 5)),
                Some(data) if from + n <= data.len() => None,
                _ => Some(Message::default().number(1, 1).bytes(5, b"Replica not found for it")),
            };
            if let Some(refusal) = refusal {
                self.send(&mut stream, Part::Answer { datanode }, &refusal.delimited());
                return None;
            }
            if !is_read {
                self.send(&mut stream, Part::Answer { datanode }, &block_checksum(&data?, 2).delimited());
                return None;
            }
            let (data, begin) = (data?, from / CHUNK * CHUNK);
            let end = (from + n).next_multiple_of(CHUNK).min(data.len());
            let checksum = Message::default().number(1, 2).number(2, CHUNK as u64);
            let info = Message::default().message(1, &checksum).number(2, begin as u64);
            let answer = Message::default().number(1, 0).message(4, &info);
            self.send(&mut stream, Part::Answer { datanode }, &answer.delimited())?;
            let mut packets: Vec<Vec<u8>> = data[begin..end]
                .chunks(PACKET)
                .enumerate()
                .map(|(number, data)| packet(begin + number * PACKET, false, data))
                .collect();
            packets.push(packet(end, true, &[]));
            for (number, bytes) in packets.iter().enumerate() {
                self.send(&mut stream, Part::Packet { datanode, number }, bytes)?;
            }
            let status = Received::new(&read_delimited(&mut stream)?);
            assert_eq!(status.numbers[&1], 6);
        }
    }
}

/// The checksum of a block: 1 is of a kind that depends on the size of chunks, 2 does not.
pub(crate) fn block_checksum(data: &[u8], kind: u64) -> Message {
    let mut hasher = Hasher::new(Algorithm::Crc32c);
    hasher.update(data);
    let sum = u32::from_str_radix(&hasher.finish().to_string(), 16).unwrap().to_be_bytes();
    let checksum = Message::default()
        .number(1, CHUNK as u64)
        .number(2, 0)
        .bytes(3, &sum)
        .number(4, 2)
        .message(5, &Message::default().number(1, kind));
    Message::default().number(1, 0).message(3, &checksum)
}

/// A way to log in.
pub(crate) fn auth(method: &str, mechanism: &str, challenge: &[u8]) -> Message {
    let auth = Message::default().bytes(1, method.as_bytes()).bytes(2, mechanism.as_bytes());
    auth.bytes(3, b"").bytes(4, b"default").bytes(5, challenge)
}

fn md5(bytes: &[u8]) -> String {
    let mut hasher = Hasher::new(Algorithm::Md5);
    hasher.update(bytes);
    hasher.finish().to_string()
}

/// After its length.
pub(crate) fn framed(answer: &[u8]) -> Vec<u8> {
    [&(answer.len() as u32).to_be_bytes(), answer].concat()
}

/// An exception after which a connection is closed.
pub(crate) fn fatal(call: u64, class: &str, text: &str) -> Vec<u8> {
    let header = Message::default().number(1, call).number(2, 2);
    framed(&header.bytes(4, class.as_bytes()).bytes(5, text.as_bytes()).delimited())
}

fn read_frame(stream: &mut impl Read) -> Option<Vec<u8>> {
    let mut n = [0; 4];
    stream.read_exact(&mut n).ok()?;
    let mut frame = vec![0; u32::from_be_bytes(n) as usize];
    stream.read_exact(&mut frame).ok()?;
    Some(frame)
}

fn read_delimited(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = Vec::new();
    while length.last().is_none_or(|byte| *byte >= 0x80) {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        length.push(byte[0]);
    }
    let mut message = vec![0; varint(&mut &length[..]) as usize];
    stream.read_exact(&mut message).ok()?;
    Some(message)
}

/// A packet of a block, with its checksums.
pub(crate) fn packet(offset: usize, is_last: bool, data: &[u8]) -> Vec<u8> {
    let header = Message::default()
        .fixed(1, &(offset as u64).to_le_bytes())
        .fixed(2, &0_u64.to_le_bytes())
        .number(3, is_last.into())
        .fixed(4, &(data.len() as u32).to_le_bytes());
    let mut sums = Vec::new();
    for chunk in data.chunks(CHUNK) {
        let mut hasher = Hasher::new(Algorithm::Crc32c);
        hasher.update(chunk);
        let hex = hasher.finish().to_string();
        sums.extend(u32::from_str_radix(&hex, 16).unwrap().to_be_bytes());
    }
    let payload = 4 + (sums.len() + data.len()) as u32;
    let lengths = [&payload.to_be_bytes()[..], &(header.0.len() as u16).to_be_bytes()].concat();
    [&lengths, &header.0, &sums, data].concat()
}

/// How NameNodes sort names: bytes have a sign.
pub(crate) fn java_order(name: &str) -> Vec<i8> {
    name.bytes().map(u8::cast_signed).collect()
}
