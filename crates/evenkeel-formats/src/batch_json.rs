//! The batch as JSON: `{"servers":[…],"clients":[…],"requests":[{"client":…,"bytes":…,"replicas":[…]}]}`.
//!
//! Requests are added to the batch one by one as they are read.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};

use evenkeel::model::{Batch, BatchBuilder, Details, NameTable, shown};
use evenkeel_sim::units::Bytes;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::json;

use crate::table::{MAX_RECORD_BYTES, unknown_column};
use crate::{Declared, InputError, Reading, numbers, skip_bom};

/// Longer strings are not accepted as names.
const MAX_STRING_BYTES: u64 = 1 << 20;

/// Reads a batch; sizes are rounded up to blocks.
pub fn read_batch_json(
    mut reader: impl BufRead,
    reading: &Reading<'_>,
    declared: Declared,
) -> Result<Batch, InputError> {
    let file = reading.file;
    skip_bom(&mut reader).map_err(|e| InputError::new(file, None, format!("cannot read it: {e}")))?;
    let mut batch = declared.builder(reading.block.get());
    let limited = LimitedStrings::new(reader);
    let mut json = serde_json::Deserializer::from_reader(BufReader::new(limited));
    let read = BatchSeed { batch: &mut batch, ignored: reading.ignored }
        .deserialize(&mut json)
        .and_then(|()| json.end());
    read.map_err(|e| InputError::new(file, e.line() as u64, without_place(&e)))?;
    Ok(batch.finish())
}

/// The message without the line, which the error already has.
pub(crate) fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
    if error.is_eof() {
        return format!("{message}: the file is cut off; write a complete JSON object");
    }
    format!("{message} (column {})", error.column())
}

struct BatchSeed<'a> {
    batch: &'a mut BatchBuilder,
    ignored: &'a [String],
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
        let Self { batch, ignored } = self;
        let mut seen: Vec<String> = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            if seen.contains(&key) {
                return Err(A::Error::custom(format!("`{}` appears twice; keep one of them", shown(&key))));
            }
            match &*key {
                "requests" => map.next_value_seed(RequestsSeed { batch: &mut *batch, ignored })?,
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
                        return Err(A::Error::custom(format!("format {format} is unknown; write 1")));
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

/// A list of distinct names, refused at the first duplicate.
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
    ignored: &'a [String],
}

impl<'de> DeserializeSeed<'de> for RequestsSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

/// A request as it appears in the file.
#[derive(Default)]
struct Request {
    client: Option<String>,
    bytes: Option<u64>,
    replicas: Option<Vec<String>>,
    chunk: Option<String>,
    job: Option<String>,
    arrival_ns: Option<u64>,
    current: Option<String>,
}

const KEYS: [&str; 7] = ["client", "bytes", "replicas", "chunk", "job", "arrival", "current"];

/// A request, ignoring these keys.
struct RequestSeed<'a>(&'a [String]);

impl<'de> DeserializeSeed<'de> for RequestSeed<'_> {
    type Value = Request;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Request, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RequestSeed<'_> {
    type Value = Request;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Request, A::Error> {
        let mut request = Request::default();
        while let Some(key) = map.next_key::<String>()? {
            let was_there = match key.as_str() {
                _ if self.0.contains(&key) => map.next_value::<IgnoredAny>().map(|_| false)?,
                "client" => request.client.replace(map.next_value()?).is_some(),
                "bytes" => request.bytes.replace(map.next_value::<Bytes>()?.0).is_some(),
                "replicas" => request.replicas.replace(map.next_value_seed(ReplicasSeed)?).is_some(),
                "chunk" => set(&mut request.chunk, map.next_value()?),
                "job" => set(&mut request.job, map.next_value()?),
                "current" => set(&mut request.current, map.next_value()?),
                "arrival" => {
                    set(&mut request.arrival_ns, map.next_value::<Option<Arrival>>()?.map(|at| at.0))
                }
                _ => return Err(A::Error::custom(unknown_column(&key, &KEYS))),
            };
            if was_there {
                return Err(A::Error::custom(format!("`{key}` appears twice; keep one of them")));
            }
        }
        Ok(request)
    }
}

/// Sets what is not null, and returns whether it was set before.
fn set<T>(place: &mut Option<T>, value: Option<T>) -> bool {
    value.is_some_and(|value| place.replace(value).is_some())
}

/// A time: a number of seconds, or text.
struct Arrival(u64);

impl<'de> Deserialize<'de> for Arrival {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ArrivalVisitor)
    }
}

struct ArrivalVisitor;

impl Visitor<'_> for ArrivalVisitor {
    type Value = Arrival;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("seconds such as 0.25, or a span such as \"10ms\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Arrival, E> {
        numbers::arrival_ns(text).map(Arrival).map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, seconds: u64) -> Result<Arrival, E> {
        self.visit_str(&seconds.to_string())
    }

    // The shortest text for the same float is what was written, unless that had more digits than floats can represent.
    fn visit_f64<E: Error>(self, seconds: f64) -> Result<Arrival, E> {
        self.visit_str(&seconds.to_string())
    }
}

/// The replicas of a request, which may take as much as a row of a table.
struct ReplicasSeed;

impl<'de> DeserializeSeed<'de> for ReplicasSeed {
    type Value = Vec<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<String>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for ReplicasSeed {
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

impl<'de> Visitor<'de> for RequestsSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of requests")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut requests: A) -> Result<(), A::Error> {
        while let Some(request) = requests.next_element_seed(RequestSeed(self.ignored))? {
            let client = request.client.ok_or_else(|| A::Error::missing_field("client"))?;
            for replica in &request.replicas.ok_or_else(|| A::Error::missing_field("replicas"))? {
                if replica.contains('|') {
                    let name = shown(replica);
                    return Err(A::Error::custom(format!("server `{name}` has a | in its name; rename it")));
                }
                self.batch.replica(replica).map_err(A::Error::custom)?;
            }
            let details = Details {
                arrival_ns: request.arrival_ns,
                job: request.job.as_deref(),
                chunk: request.chunk.as_deref(),
                current: request.current.as_deref(),
            };
            let bytes = request.bytes.unwrap_or(1);
            self.batch.end_request_of_bytes(&client, bytes, &details).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}

/// Refuses to read on within a string that does not end.
pub(crate) struct LimitedStrings<R> {
    inner: R,
    state: State,
}

impl<R> LimitedStrings<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, state: State::Outside }
    }
}

#[derive(Clone, Copy)]
enum State {
    Outside,
    /// In a string, after this many bytes.
    Inside(u64),
    /// In a string, after a backslash.
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

/// Writes a batch.
pub fn write_batch_json(batch: &Batch, mut out: impl Write) -> io::Result<()> {
    let names = |table: &NameTable| json!(table.iter().collect::<Vec<_>>());
    writeln!(out, "{{\"format\":1,\"servers\":{},", names(batch.servers()))?;
    write!(out, "\"clients\":{},\n\"requests\":[", names(batch.clients()))?;
    for (i, set) in batch.replicas().iter().enumerate() {
        let replicas: Vec<&str> = set.iter().map(|server| batch.servers().name(server.0)).collect();
        let client = batch.clients().name(batch.client(i).0);
        let mut request = json!({"client": client, "bytes": batch.bytes(i), "replicas": replicas});
        if let Some(chunk) = batch.chunk(i) {
            request["chunk"] = chunk.into();
        }
        if let Some(job) = batch.job(i) {
            request["job"] = batch.jobs().name(job).into();
        }
        if batch.arrivals_ns().is_some() {
            request["arrival"] = numbers::seconds(batch.arrival_ns(i)).into();
        }
        if let Some(current) = batch.current(i) {
            request["current"] = batch.servers().name(current.0).into();
        }
        write!(out, "{}\n{request}", if i == 0 { "" } else { "," })?;
    }
    writeln!(out, "\n]}}")
}
