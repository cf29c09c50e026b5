//! A small web server on threads, which answers as a test says.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use percent_encoding::percent_decode_str;

/// A request without a body, decoded.
#[derive(Debug, Default)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// Without its first slash.
    pub(crate) path: String,
    pub(crate) query: BTreeMap<String, String>,
    /// By their names in small letters.
    pub(crate) headers: BTreeMap<String, String>,
}

impl Request {
    /// The bytes that the request asks for, of so many.
    pub(crate) fn range(&self, bytes: usize) -> Option<(usize, usize)> {
        let (from, to) = self.headers.get("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some((from.parse().ok()?, to.parse::<usize>().ok()?.saturating_add(1).min(bytes)))
    }
}

/// An answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// What it claims about its length, if that is not true.
    pub(crate) claimed: Option<usize>,
    /// How long it then waits before it breaks off.
    pub(crate) silence: Duration,
}

impl Reply {
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, body: body.into(), ..Self::default() }
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Data, or the range of it that was asked for, if its tag is the one that was asked for.
    pub(crate) fn data(request: &Request, data: &[u8], etag: &str) -> Self {
        if request.headers.get("if-match").is_some_and(|wanted| wanted != etag) {
            return Self::new(412, "");
        }
        let reply = match request.range(data.len()) {
            None => Self::new(200, data),
            Some((from, _)) if from >= data.len() => Self::new(416, ""),
            Some((from, to)) => Self::new(206, &data[from..to])
                .with("Content-Range", format!("bytes {from}-{}/{}", to - 1, data.len())),
        };
        reply.with("ETag", etag)
    }
}

/// A server on loopback, which stops when it is dropped.
pub(crate) struct Server {
    /// `http://127.0.0.1:port`.
    pub(crate) address: String,
    is_over: Arc<AtomicBool>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Wakes it up.
        let _ = TcpStream::connect(self.address.trim_start_matches("http://"));
    }
}

impl Server {
    pub(crate) fn start(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, answer) = (Arc::clone(&is_over), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                let answer = Arc::clone(&answer);
                // Ends when the client leaves.
                std::thread::spawn(move || serve(stream, &*answer));
            }
        });
        Self { address, is_over }
    }
}

fn serve(stream: TcpStream, answer: &dyn Fn(&Request) -> Reply) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut stream = BufReader::new(stream);
    loop {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if line.trim().is_empty() {
                break;
            }
            lines.push(line.trim().to_owned());
        }
        let request = parse(&lines)?;
        let reply = answer(&request);
        let out = stream.get_mut();
        let is_head = request.method == "HEAD";
        let length = reply.claimed.unwrap_or(reply.body.len());
        let head = format!("HTTP/1.1 {} Told\r\nContent-Length: {length}\r\n", reply.status);
        let more: Vec<String> =
            reply.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        out.write_all(format!("{head}{}\r\n", more.concat()).as_bytes()).ok()?;
        if !is_head {
            out.write_all(&reply.body).ok()?;
        }
        if reply.claimed.is_some() {
            std::thread::sleep(reply.silence);
            return None;
        }
    }
}

fn parse(lines: &[String]) -> Option<Request> {
    let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let mut words = lines.first()?.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let query = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let headers = lines[1..].iter().filter_map(|line| line.split_once(':'));
    Some(Request {
        method,
        path: decode(path.trim_start_matches('/')),
        query: query.map(|(name, value)| (decode(name), decode(value))).collect(),
        headers: headers.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())).collect(),
    })
}
