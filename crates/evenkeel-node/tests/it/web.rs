//! A web server that does what tests want, and what real ones should not.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_store::{Algorithm, Hasher};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What a server does instead of answering a request for data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    CloseAtOnce,
    /// Half of the data, then the end.
    CloseEarly,
    TooMuch,
    OtherRange,
    /// 200 and the whole file for 206 and a range.
    Whole,
    /// A byte is wrong.
    Damage,
    Hang,
    /// A byte now and then.
    Trickle,
    Busy,
    BusyFor,
    Broken,
    Gone,
    Forbidden,
    RedirectLoop,
    /// Another version, by its tag.
    Changed,
    NoHttp,
}

pub(crate) const FAULTS: [Fault; 16] = [
    Fault::CloseAtOnce,
    Fault::CloseEarly,
    Fault::TooMuch,
    Fault::OtherRange,
    Fault::Whole,
    Fault::Damage,
    Fault::Hang,
    Fault::Trickle,
    Fault::Busy,
    Fault::BusyFor,
    Fault::Broken,
    Fault::Gone,
    Fault::Forbidden,
    Fault::RedirectLoop,
    Fault::Changed,
    Fault::NoHttp,
];

/// Decides about the n-th request for data.
pub(crate) type Schedule = Box<dyn FnMut(u64) -> Option<Fault> + Send>;

struct Site {
    files: BTreeMap<String, Vec<u8>>,
    /// Whether it tells checksums.
    has_digests: bool,
    /// What else it tells about files.
    headers: Vec<String>,
    schedule: Mutex<(u64, Schedule)>,
}

/// A server on loopback, which stops when it is dropped.
pub(crate) struct Server {
    pub(crate) address: String,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(crate) async fn start(
        files: &BTreeMap<String, Vec<u8>>,
        has_digests: bool,
        schedule: impl FnMut(u64) -> Option<Fault> + Send + 'static,
    ) -> Self {
        Self::start_with(files, has_digests, &[], schedule).await
    }

    /// The same with these headers for every file.
    pub(crate) async fn start_with(
        files: &BTreeMap<String, Vec<u8>>,
        has_digests: bool,
        headers: &[String],
        schedule: impl FnMut(u64) -> Option<Fault> + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/", listener.local_addr().unwrap());
        let schedule = Mutex::new((0, Box::new(schedule) as Schedule));
        let site = Arc::new(Site { files: files.clone(), has_digests, headers: headers.to_vec(), schedule });
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let site = Arc::clone(&site);
                tokio::spawn(async move { site.serve(stream).await });
            }
        });
        Self { address, task }
    }
}

impl Site {
    /// Answers requests until the connection ends. Errors are the client's leaving.
    async fn serve(&self, stream: TcpStream) -> Option<()> {
        let mut stream = BufReader::new(stream);
        loop {
            let mut lines = Vec::new();
            loop {
                let mut line = String::new();
                if stream.read_line(&mut line).await.ok()? == 0 {
                    return None;
                }
                if line.trim().is_empty() {
                    break;
                }
                lines.push(line.trim().to_owned());
            }
            let mut words = lines.first()?.split(' ').map(str::to_owned);
            let (method, path) = (words.next()?, words.next()?);
            let range = lines
                .iter()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("range: bytes=").map(str::to_owned));
            self.answer(&mut stream, &method, path.trim_start_matches('/'), range.as_deref()).await?;
        }
    }

    async fn answer(
        &self,
        out: &mut BufReader<TcpStream>,
        method: &str,
        path: &str,
        range: Option<&str>,
    ) -> Option<()> {
        if method == "PROPFIND" {
            return send(out, "405 Method Not Allowed", &[], b"").await;
        }
        if path.is_empty() {
            let links: Vec<String> =
                self.files.keys().map(|key| format!("<a href=\"{key}\">{key}</a>")).collect();
            return send(out, "200 OK", &["Content-Type: text/html"], links.join("\n").as_bytes()).await;
        }
        let Some(data) = self.files.get(path) else { return send(out, "404 Not Found", &[], b"").await };
        let mut headers = [&["ETag: \"v1\"".to_owned()], self.headers.as_slice()].concat();
        if self.has_digests {
            let mut hasher = Hasher::new(Algorithm::Sha256);
            hasher.update(data);
            headers.push(format!("Digest: sha-256={}", hasher.finish()));
        }
        if method == "HEAD" {
            headers.push(format!("Content-Length: {}", data.len()));
            return head(out, "200 OK", &headers).await;
        }
        let fault = {
            let mut schedule = self.schedule.lock().unwrap();
            schedule.0 += 1;
            let n = schedule.0;
            (schedule.1)(n)
        };
        let (mut from, mut to) = (0, data.len());
        if let Some((first, last)) = range.and_then(|range| range.split_once('-')) {
            (from, to) = (first.parse().ok()?, last.parse::<usize>().ok()? + 1);
        }
        let asked = Asked { path, data, headers, range: from..to, is_whole: range.is_none() };
        match fault {
            Some(fault) => asked.misbehave(out, fault).await,
            None => send_owned(out, asked.status(), &asked.answer(from, to), &data[from..to]).await,
        }
    }
}

/// A request for data.
struct Asked<'a> {
    path: &'a str,
    data: &'a [u8],
    headers: Vec<String>,
    range: std::ops::Range<usize>,
    is_whole: bool,
}

impl Asked<'_> {
    fn status(&self) -> &'static str {
        if self.is_whole { "200 OK" } else { "206 Partial Content" }
    }

    fn answer(&self, from: usize, to: usize) -> Vec<String> {
        let mut headers = self.headers.clone();
        if !self.is_whole {
            headers.push(format!("Content-Range: bytes {from}-{}/{}", to - 1, self.data.len()));
        }
        headers
    }

    async fn misbehave(&self, out: &mut BufReader<TcpStream>, fault: Fault) -> Option<()> {
        let (data, is_whole, status) = (self.data, self.is_whole, self.status());
        let (from, to) = (self.range.start, self.range.end);
        let answer = |from, to| self.answer(from, to);
        let length = |n: usize| format!("Content-Length: {n}");
        match fault {
            Fault::CloseAtOnce => return None,
            Fault::CloseEarly => {
                let headers = [answer(from, to), vec![length(to - from)]].concat();
                head(out, status, &headers).await?;
                out.write_all(&data[from..from + (to - from) / 2]).await.ok()?;
                out.flush().await.ok()?;
                return None;
            }
            Fault::TooMuch => {
                let headers = [answer(from, to), vec![length(to - from + 10)]].concat();
                head(out, status, &headers).await?;
                out.write_all(&data[from..to]).await.ok()?;
                out.write_all(b"0123456789").await.ok()?;
                out.flush().await.ok()?;
            }
            Fault::OtherRange => {
                let n = to - from;
                let other = if from > 0 { 0..n.min(data.len()) } else { (data.len() - n)..data.len() };
                // A whole file has no other range, so it is cut.
                let other = if is_whole { 0..n / 2 } else { other };
                return send_owned(out, status, &answer(other.start, other.end), &data[other.clone()]).await;
            }
            Fault::Whole => return send_owned(out, "200 OK", &self.headers, data).await,
            Fault::Damage => {
                let mut wrong = data[from..to].to_vec();
                if let Some(byte) = wrong.get_mut((to - from) / 2) {
                    *byte ^= 0x40;
                }
                return send_owned(out, status, &answer(from, to), &wrong).await;
            }
            Fault::Hang => tokio::time::sleep(Duration::from_mins(10)).await,
            Fault::Trickle => {
                let headers = [answer(from, to), vec![length(to - from)]].concat();
                head(out, status, &headers).await?;
                for byte in &data[from..to] {
                    out.write_all(&[*byte]).await.ok()?;
                    out.flush().await.ok()?;
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
            Fault::Busy => return send(out, "503 Service Unavailable", &[], b"").await,
            Fault::BusyFor => return send(out, "429 Too Many Requests", &["Retry-After: 0"], b"").await,
            Fault::Broken => return send(out, "500 Internal Server Error", &[], b"oops").await,
            Fault::Gone => return send(out, "404 Not Found", &[], b"").await,
            Fault::Forbidden => return send(out, "403 Forbidden", &[], b"").await,
            Fault::RedirectLoop => {
                return send(out, "302 Found", &[&format!("Location: /{}", self.path)], b"").await;
            }
            Fault::Changed => {
                let headers = ["ETag: \"v2\"".to_owned(), answer(from, to).pop()?];
                return send_owned(out, status, &headers, &data[from..to]).await;
            }
            Fault::NoHttp => {
                out.write_all(b"SSH-2.0-dropbear\r\n\x00\xFF").await.ok()?;
                out.flush().await.ok()?;
                return None;
            }
        }
        None
    }
}

async fn head(out: &mut BufReader<TcpStream>, status: &str, headers: &[String]) -> Option<()> {
    let lines = [&[format!("HTTP/1.1 {status}")], headers, &[String::new(), String::new()]].concat();
    out.write_all(lines.join("\r\n").as_bytes()).await.ok()?;
    out.flush().await.ok()
}

async fn send(out: &mut BufReader<TcpStream>, status: &str, headers: &[&str], body: &[u8]) -> Option<()> {
    let headers: Vec<String> = headers.iter().map(|&header| header.to_owned()).collect();
    send_owned(out, status, &headers, body).await
}

async fn send_owned(
    out: &mut BufReader<TcpStream>,
    status: &str,
    headers: &[String],
    body: &[u8],
) -> Option<()> {
    let length = format!("Content-Length: {}", body.len());
    head(out, status, &[headers, &[length]].concat()).await?;
    out.write_all(body).await.ok()?;
    out.flush().await.ok()
}
