//! The batch as JSON: `{"servers":[…],"clients":[…],"requests":[{"client":…,"bytes":…,"replicas":[…]}]}`.
//!
//! Requests go into the batch one by one as they are read.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};

use evenkeel::model::{Batch, BatchBuilder, NameTable, shown};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::json;

use super::table::MAX_RECORD_BYTES;
use super::{Declared, InputError, skip_bom};

/// A name longer than this is none.
const MAX_STRING_BYTES: u64 = 1 << 20;

/// Reads a batch; sizes are rounded up to blocks of `block` bytes.
pub fn read_batch_json(
    mut reader: impl BufRead,
    file: &str,
    block: u64,
    declared: Declared,
) -> Result<Batch, InputError> {
    skip_bom(&mut reader).map_err(|e| InputError::new(file, None, format!("cannot read it: {e}")))?;
    let mut batch = declared.builder();
    let limited = LimitedStrings { inner: reader, state: State::Outside };
    let mut json = serde_json::Deserializer::from_reader(BufReader::new(limited));
    let read = BatchSeed { batch: &mut batch, block }.deserialize(&mut json).and_then(|()| json.end());
    read.map_err(|e| InputError::new(file, e.line() as u64, without_place(&e)))?;
    Ok(batch.finish())
}

/// The message without the line, which the error has already.
pub(super) fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
    if error.is_eof() {
        return format!("{message}: the file is cut off; write a complete JSON object");
    }
    format!("{message} (column {})", error.column())
}

struct BatchSeed<'a> {
    batch: &'a mut BatchBuilder,
    block: u64,
}

impl<'de> DeserializeSeed<'de> for BatchSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for BatchSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `requests`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { batch, block } = self;
        let mut seen: Vec<String> = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            if seen.contains(&key) {
                return Err(A::Error::custom(format!("`{}` is there twice; keep one of them", shown(&key))));
            }
            match &*key {
                "requests" => map.next_value_seed(RequestsSeed { batch: &mut *batch, block })?,
                "servers" => {
                    let names = map.next_value_seed(NamesSeed("server"))?;
                    batch.declare_servers(names).map_err(A::Error::custom)?;
                }
                "clients" => {
                    let names = map.next_value_seed(NamesSeed("client"))?;
                    batch.declare_clients(names).map_err(A::Error::custom)?;
                }
                "format" => {
                    let format: u64 = map.next_value()?;
                    if format != 1 {
                        return Err(A::Error::custom(format!("format {format} is not known; write 1")));
                    }
                }
                _ => return Err(A::Error::unknown_field(&shown(&key), &["servers", "clients", "requests"])),
            }
            seen.push(key);
        }
        if seen.iter().any(|key| key == "requests") {
            Ok(())
        } else {
            Err(A::Error::missing_field("requests"))
        }
    }
}

/// A list of distinct names, refused at the first that is there twice.
struct NamesSeed(&'static str);

impl<'de> DeserializeSeed<'de> for NamesSeed {
    type Value = NameTable;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<NameTable, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for NamesSeed {
    type Value = NameTable;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of the names of {}s", self.0)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<NameTable, A::Error> {
        let mut table = NameTable::new();
        while let Some(name) = names.next_element::<String>()? {
            table.insert(&name, self.0).map_err(A::Error::custom)?;
        }
        Ok(table)
    }
}

struct RequestsSeed<'a> {
    batch: &'a mut BatchBuilder,
    block: u64,
}

impl<'de> DeserializeSeed<'de> for RequestsSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

/// A request as it stands in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    client: String,
    #[serde(default = "one")]
    bytes: u64,
    #[serde(deserialize_with = "replicas_with_an_end")]
    replicas: Vec<String>,
    #[serde(default, rename = "chunk")]
    _chunk: Option<String>,
    #[serde(default, rename = "job")]
    _job: Option<String>,
    #[serde(default, rename = "arrival")]
    _arrival: Option<u64>,
}

fn one() -> u64 {
    1
}

/// The replicas of a request, which may take as much as a row of a table.
fn replicas_with_an_end<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct List;

    impl<'de> Visitor<'de> for List {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of servers")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<Vec<String>, A::Error> {
            let (mut replicas, mut bytes) = (Vec::new(), 0);
            while let Some(name) = names.next_element::<String>()? {
                bytes += (name.len() + size_of::<String>()) as u64;
                if bytes > MAX_RECORD_BYTES {
                    return Err(A::Error::custom("a request is longer than 64 MiB; is its list not closed?"));
                }
                replicas.push(name);
            }
            Ok(replicas)
        }
    }

    deserializer.deserialize_seq(List)
}

impl<'de> Visitor<'de> for RequestsSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of requests")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut requests: A) -> Result<(), A::Error> {
        while let Some(request) = requests.next_element::<Request>()? {
            for replica in &request.replicas {
                if replica.contains('|') {
                    let name = shown(replica);
                    return Err(A::Error::custom(format!(
                        "server `{name}` has a | in its name; give it another"
                    )));
                }
                self.batch.replica(replica).map_err(A::Error::custom)?;
            }
            let blocks = request.bytes.div_ceil(self.block);
            self.batch.end_request(&request.client, blocks).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}

/// Refuses to read on within a string that has no end.
struct LimitedStrings<R> {
    inner: R,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    Outside,
    /// In a string of so many bytes so far.
    Inside(u64),
    /// The same, after a backslash.
    Escaped(u64),
}

impl<R: Read> Read for LimitedStrings<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        for byte in &buffer[..n] {
            self.state = match (self.state, byte) {
                (State::Outside, b'"') => State::Inside(0),
                (State::Outside, _) | (State::Inside(_), b'"') => State::Outside,
                (State::Inside(len), b'\\') => State::Escaped(len + 1),
                (State::Inside(len) | State::Escaped(len), _) => State::Inside(len + 1),
            };
            if let State::Inside(len) = self.state
                && len > MAX_STRING_BYTES
            {
                return Err(io::Error::other("a name is longer than 1 MiB; is a quote not closed?"));
            }
        }
        Ok(n)
    }
}

/// Writes a batch, sizes in blocks.
pub fn write_batch_json(batch: &Batch, mut out: impl Write) -> io::Result<()> {
    let names = |table: &NameTable| json!(table.iter().collect::<Vec<_>>());
    writeln!(out, "{{\"format\":1,\"servers\":{},", names(batch.servers()))?;
    write!(out, "\"clients\":{},\n\"requests\":[", names(batch.clients()))?;
    for (i, set) in batch.replicas().iter().enumerate() {
        let replicas: Vec<&str> = set.iter().map(|server| batch.servers().name(server.0)).collect();
        let client = batch.clients().name(batch.client(i).0);
        let request = json!({"client": client, "bytes": batch.blocks(i), "replicas": replicas});
        write!(out, "{}\n{request}", if i == 0 { "" } else { "," })?;
    }
    writeln!(out, "\n]}}")
}
