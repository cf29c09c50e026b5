//! Metalinks: files and their mirrors, as XML. Version 4 (RFC 5854) and version 3.
//!
//! ```xml
//! <metalink xmlns="urn:ietf:params:xml:ns:metalink">
//!   <file name="disk.iso">
//!     <size>1000</size>
//!     <pieces length="512" type="sha-256"><hash>…</hash><hash>…</hash></pieces>
//!     <url location="de" priority="1">https://de.example.org/disk.iso</url>
//!   </file>
//! </metalink>
//! ```
//!
//! A server is `scheme://host[:port]`. The mirrors of a file are in order of preference. A Metalink has no DTD, so a
//! DTD is refused, and with it all entities except those of XML itself.

use std::io::BufRead;

use quick_xml::XmlVersion;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;

use super::limits::Limited;
use super::{Chunk, Gathered, InputError, Kind, Place, check_server};
use crate::numbers;

/// A Metalink has seven levels; the rest is for elements of other namespaces.
const MOST_LEVELS: usize = 64;
/// The maximum length of a size or a URL.
const MOST_TEXT_BYTES: usize = 1 << 16;
/// The maximum number of addresses and hashes of a file.
const MOST_OF_EACH: usize = 10_000;
/// The priority of a URL without one, by RFC 5854.
const LAST_PRIORITY: u64 = 999_999;

/// A file of a Metalink.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetalinkFile {
    /// Its name.
    pub name: String,
    /// Its size, if it is given.
    pub bytes: Option<u64>,
    /// The hashes of the whole file: the name of the algorithm, and the value in hexadecimal digits.
    pub hashes: Vec<(String, String)>,
    /// Where it can be had: priority and address, as written. The lowest priority is best.
    pub urls: Vec<(u64, String)>,
    /// The hashes of its pieces, by each algorithm.
    pub pieces: Vec<MetalinkPieces>,
}

/// The hashes of the pieces of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetalinkPieces {
    /// The name of the algorithm.
    pub kind: String,
    /// The length of a piece.
    pub bytes: u64,
    /// The hash of each piece in hexadecimal digits, in order.
    pub hashes: Vec<String>,
}

/// Reads a Metalink. With `by_piece`, a file that has hashes of its pieces gets a request for each piece.
pub fn read_metalink(
    reader: impl BufRead,
    file: &str,
    by_piece: bool,
    into: &mut Gathered,
) -> Result<(), InputError> {
    read_metalink_files(reader, file, |place, file| add_file(place, file, by_piece, into))
}

/// Reads the files of a Metalink, one after the other.
pub fn read_metalink_files(
    reader: impl BufRead,
    file: &str,
    mut found: impl FnMut(&Place<'_>, MetalinkFile) -> Result<(), String>,
) -> Result<(), InputError> {
    let (limited, meter) = Limited::open(reader, file)?;
    let mut xml = Reader::from_reader(limited);
    let mut buffer = Vec::new();
    let mut document = Document {
        found: &mut found,
        levels: Vec::new(),
        text: String::new(),
        file: None,
        priority: 0,
        kind: String::new(),
        piece: None,
        is_metalink: false,
    };
    loop {
        buffer.clear();
        let event = xml.read_event_into(&mut buffer);
        meter.complete();
        let place = Place { file, line: meter.line() };
        let event = event.map_err(|e| place.error(format!("this is not well-formed XML: {e}")))?;
        if matches!(event, Event::Eof) {
            break;
        }
        document.event(&place, &event).map_err(|e| place.error(e))?;
    }
    match document.levels.last() {
        Some(_) => Err(InputError::new(file, meter.line(), "the file is cut off; get the whole Metalink")),
        None if !document.is_metalink => Err(InputError::new(file, None, NOT_A_METALINK)),
        None => Ok(()),
    }
}

const NOT_A_METALINK: &str = "this is not a Metalink; it must begin with the element `metalink`";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Metalink,
    Files,
    File,
    Size,
    Resources,
    Url,
    Verification,
    Pieces,
    /// Of a piece.
    Hash,
    /// Of the whole file.
    FileHash,
    Other,
}

struct Document<'a> {
    found: &'a mut dyn FnMut(&Place<'_>, MetalinkFile) -> Result<(), String>,
    levels: Vec<Level>,
    /// The text of the current size, URL or hash.
    text: String,
    /// The file being read.
    file: Option<MetalinkFile>,
    /// The priority of the URL being read.
    priority: u64,
    /// The algorithm of the hash being read.
    kind: String,
    /// Which piece the hash being read is of, if it says so, as in version 3.
    piece: Option<usize>,
    is_metalink: bool,
}

impl Document<'_> {
    fn event(&mut self, place: &Place<'_>, event: &Event<'_>) -> Result<(), String> {
        match event {
            Event::Start(start) => self.start(start),
            Event::Empty(start) => {
                self.start(start)?;
                self.end(place)
            }
            Event::End(_) => self.end(place),
            Event::Text(text) => self.add_text(text),
            Event::CData(text) => self.add_text(text),
            Event::GeneralRef(reference) => match reference.resolve_char_ref() {
                Ok(Some(c)) => self.add_text(c.encode_utf8(&mut [0; 4])),
                Ok(None) => match resolve_predefined_entity(reference) {
                    Some(text) => self.add_text(text),
                    None => {
                        Err("an entity is used that XML does not define; write the text instead".to_owned())
                    }
                },
                Err(error) => Err(error.to_string()),
            },
            Event::DocType(_) => Err("a Metalink has no DOCTYPE; remove it".to_owned()),
            _ => Ok(()),
        }
    }

    fn start(&mut self, start: &BytesStart<'_>) -> Result<(), String> {
        if self.levels.len() >= MOST_LEVELS {
            return Err(format!(
                "elements are nested more than {MOST_LEVELS} deep; check that this is a Metalink"
            ));
        }
        let level = level(start.local_name().as_ref(), self.levels.last().copied());
        if self.levels.is_empty() {
            if level != Level::Metalink || self.is_metalink {
                return Err(NOT_A_METALINK.to_owned());
            }
            self.is_metalink = true;
        }
        self.levels.push(level);
        self.text.clear();
        if level == Level::File {
            let name = attribute(start, "name")?.ok_or("the file has no name; write <file name=\"…\">")?;
            self.file = Some(MetalinkFile { name, ..MetalinkFile::default() });
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        match level {
            Level::Url => self.priority = priority(start)?,
            Level::FileHash => self.kind = attribute(start, "type")?.unwrap_or_default(),
            Level::Pieces => {
                let length = attribute(start, "length")?.ok_or("the pieces have no length")?;
                let bytes = numbers::whole(length.trim(), "length of pieces")?;
                let kind = attribute(start, "type")?.unwrap_or_default();
                file.pieces.push(MetalinkPieces { kind, bytes, hashes: Vec::new() });
            }
            Level::Hash => {
                let piece =
                    attribute(start, "piece")?.map(|n| numbers::whole(n.trim(), "number of the piece"));
                self.piece = piece.transpose()?.map(|number| usize::try_from(number).unwrap_or(usize::MAX));
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, place: &Place<'_>) -> Result<(), String> {
        let level = self.levels.pop();
        let text = std::mem::take(&mut self.text);
        let Some(file) = &mut self.file else { return Ok(()) };
        match level {
            Some(Level::Size) => file.bytes = Some(numbers::whole(text.trim(), "size")?),
            Some(Level::Hash) => {
                if let Some(pieces) = file.pieces.last_mut() {
                    // One in another place is no hash of this piece.
                    let is_in_place = self.piece.take().is_none_or(|piece| piece == pieces.hashes.len());
                    pieces.hashes.push(if is_in_place { text.trim().to_owned() } else { String::new() });
                }
            }
            Some(Level::FileHash) => {
                file.hashes.push((std::mem::take(&mut self.kind), text.trim().to_owned()));
            }
            Some(Level::Url) => file.urls.push((self.priority, text.trim().to_owned())),
            Some(Level::File) => {
                let mut file = std::mem::take(file);
                self.file = None;
                file.urls.sort_by_key(|(priority, _)| *priority);
                return (self.found)(place, file);
            }
            _ => {}
        }
        match &self.file {
            Some(file) if file.urls.len().max(file.hashes.len()).max(file.pieces.len()) > MOST_OF_EACH => {
                Err(format!("the file has more than {MOST_OF_EACH} addresses or hashes; remove some"))
            }
            _ => Ok(()),
        }
    }

    fn add_text(&mut self, text: &str) -> Result<(), String> {
        if !matches!(self.levels.last(), Some(Level::Size | Level::Url | Level::Hash | Level::FileHash)) {
            return Ok(());
        }
        self.text.push_str(text);
        if self.text.len() > MOST_TEXT_BYTES {
            return Err("a size, a URL or a hash is longer than 64 KiB; is something not closed?".to_owned());
        }
        Ok(())
    }
}

/// Adds the requests for a file.
fn add_file(
    place: &Place<'_>,
    file: MetalinkFile,
    by_piece: bool,
    into: &mut Gathered,
) -> Result<(), String> {
    let mut mirrors = Vec::new();
    for (_, url) in &file.urls {
        match server(url) {
            Some(mirror) => mirrors.push(mirror),
            None => into.remarks.note(Kind::UnusableUrl, place, url.as_str()),
        }
    }
    let Some(bytes) = file.bytes else {
        into.remarks.note(Kind::NoSize, place, file.name);
        return Ok(());
    };
    if mirrors.is_empty() {
        into.remarks.note(Kind::NoMirror, place, file.name);
        return Ok(());
    }
    let replicas: Vec<&str> = mirrors.iter().map(|(server, _)| &**server).collect();
    let chunk = Chunk { name: &file.name, bytes, replicas: &replicas, client: None };
    // Only the first list of pieces counts.
    let pieces = file.pieces.first().filter(|pieces| pieces.bytes > 0);
    if let Some(pieces) = pieces.filter(|_| by_piece && bytes > 0) {
        let (n, expected) = (pieces.hashes.len() as u64, bytes.div_ceil(pieces.bytes));
        if n != expected {
            return Err(format!("the file has {expected} pieces, but {n} hashes; get a correct Metalink"));
        }
        into.add_in_pieces(&chunk, pieces.bytes)?;
    } else {
        if by_piece && pieces.is_none() {
            into.remarks.note(Kind::NoPieces, place, &*file.name);
        }
        into.add(&chunk)?;
    }
    mirrors.iter().try_for_each(|(server, host)| into.set_host(server, host))
}

/// What an element means, depending on its parent.
fn level(name: &str, parent: Option<Level>) -> Level {
    match (name, parent) {
        ("metalink", None) => Level::Metalink,
        ("files", Some(Level::Metalink)) => Level::Files,
        ("file", Some(Level::Metalink | Level::Files)) => Level::File,
        ("size", Some(Level::File)) => Level::Size,
        ("resources", Some(Level::File)) => Level::Resources,
        ("url", Some(Level::File | Level::Resources)) => Level::Url,
        ("verification", Some(Level::File)) => Level::Verification,
        ("pieces", Some(Level::File | Level::Verification)) => Level::Pieces,
        ("hash", Some(Level::Pieces)) => Level::Hash,
        ("hash", Some(Level::File | Level::Verification)) => Level::FileHash,
        _ => Level::Other,
    }
}

fn attribute(start: &BytesStart<'_>, name: &str) -> Result<Option<String>, String> {
    let attribute = start.try_get_attribute(name).map_err(|e| e.to_string())?;
    let value = attribute.map(|attribute| attribute.normalized_value(XmlVersion::Implicit1_0));
    Ok(value.transpose().map_err(|e| e.to_string())?.map(std::borrow::Cow::into_owned))
}

/// The priority of a URL; the lowest is best. Version 3 has a preference instead, where the highest is best.
fn priority(start: &BytesStart<'_>) -> Result<u64, String> {
    let number = |name: &str| -> Result<Option<u64>, String> {
        Ok(attribute(start, name)?.and_then(|text| text.trim().parse().ok()))
    };
    let by_preference = |preference| LAST_PRIORITY.saturating_sub(preference);
    Ok(number("priority")?.or(number("preference")?.map(by_preference)).unwrap_or(LAST_PRIORITY))
}

/// The server of a URL, `scheme://host[:port]`, and its host; `None` if the URL names none.
fn server(url: &str) -> Option<(String, String)> {
    const USUAL_PORTS: [(&str, &str); 3] = [("http", ":80"), ("https", ":443"), ("ftp", ":21")];
    let (scheme, rest) = url.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    // User names and passwords are dropped.
    let authority = authority.rsplit('@').next()?.to_ascii_lowercase();
    let usual = USUAL_PORTS.iter().find(|(known, _)| *known == scheme).map_or("", |(_, port)| port);
    let authority = authority.strip_suffix(usual).unwrap_or(&authority);
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    let is_scheme =
        !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    let is_host = !host.is_empty() && !host.contains(|c: char| c.is_control() || c.is_whitespace());
    let server = format!("{scheme}://{authority}");
    (is_scheme && is_host && check_server(&server).is_ok()).then(|| (server, host.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_urls() {
        for (url, expected) in [
            ("http://a.org/x", Some(("http://a.org", "a.org"))),
            ("HTTPS://me:secret@A.org:443/x?y#z", Some(("https://a.org", "a.org"))),
            ("ftp://a.org:2121", Some(("ftp://a.org:2121", "a.org"))),
            ("http://[::1]:8080/x", Some(("http://[::1]:8080", "[::1]"))),
            ("http://[::1]/x", Some(("http://[::1]", "[::1]"))),
            ("magnet:?xt=urn:btih:1", None),
            ("file:///x", None),
            ("://a", None),
            ("http://a b/x", None),
            ("http://a|b/x", None),
            ("http://:80/", None),
            ("", None),
        ] {
            let found = server(url);
            assert_eq!(found.as_ref().map(|(server, host)| (&**server, &**host)), expected, "{url}");
        }
    }
}
