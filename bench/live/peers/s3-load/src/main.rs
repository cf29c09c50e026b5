//! Loads an S3 server with as little work of its own as possible: blocking threads, one connection each, and bodies that are
//! signed as `UNSIGNED-PAYLOAD`. Beside that it measures what the disk under the servers can do.
//!
//! ```text
//! s3-load put|get ENDPOINT REGION BUCKET BYTES OBJECTS CONNECTIONS [SECONDS]   that many objects, or until then
//! s3-load bucket  ENDPOINT REGION BUCKET                                       makes it
//! s3-load idle    ENDPOINT REGION BUCKET BYTES CONNECTIONS SECONDS             connections that wait between two reads
//! s3-load disk    FOLDER BYTES OBJECTS THREADS                                 files, each synced
//! s3-load sync    FOLDER BYTES OBJECTS                                         places in one file, with a sync after each
//! ```
//!
//! Keys come from `S3_ACCESS_KEY` and `S3_SECRET_KEY`. One line of JSON tells how long it took and how much it was.

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// What is written and read at a time.
const STEP: usize = 256 << 10;
/// No two such blocks of all objects are the same: servers that keep equal blocks once have no advantage.
const BLOCK: usize = 64 << 10;
const STACK: usize = 256 << 10;
/// Who answers nothing for so long does not answer.
const SILENCE: Duration = Duration::from_secs(120);

#[derive(Clone)]
struct Server {
    host: String,
    region: String,
    bucket: String,
    access_key: String,
    secret_key: String,
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("keys have any length");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Now, as signatures have it: `20261119T233300Z`.
fn now() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Days since March 1st of the year 0.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

impl Server {
    fn head(&self, method: &str, key: &str, bytes: u64) -> String {
        let (time, Self { host, region, bucket, access_key, secret_key }) = (now(), self);
        let path = if key.is_empty() { format!("/{bucket}") } else { format!("/{bucket}/{key}") };
        let day = &time[..8];
        let canonical = format!(
            "{method}\n{path}\n\nhost:{host}\nx-amz-content-sha256:UNSIGNED-PAYLOAD\nx-amz-date:{time}\n\n\
             host;x-amz-content-sha256;x-amz-date\nUNSIGNED-PAYLOAD"
        );
        let scope = format!("{day}/{region}/s3/aws4_request");
        let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&Sha256::digest(canonical)));
        let mut secret = format!("AWS4{secret_key}").into_bytes();
        for part in [day, region, "s3", "aws4_request"] {
            secret = hmac(&secret, part);
        }
        let signature = hex(&hmac(&secret, &text));
        format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\nx-amz-date: {time}\r\nx-amz-content-sha256: UNSIGNED-PAYLOAD\r\n\
             content-length: {bytes}\r\nauthorization: AWS4-HMAC-SHA256 Credential={access_key}/{scope}, \
             SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature={signature}\r\n\r\n"
        )
    }

    fn connect(&self) -> Result<BufReader<TcpStream>> {
        let stream = TcpStream::connect(&self.host)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_write_timeout(Some(SILENCE))?;
        Ok(BufReader::with_capacity(STEP, stream))
    }
}

fn key(number: u64, bytes: u64) -> String {
    format!("load/{bytes}/{number}")
}

/// Bytes that no compression makes smaller.
fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(STEP);
    while bytes.len() < STEP {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes
}

fn stamp(buffer: &mut [u8], number: u64, at: u64) {
    for (block, bytes) in (0..).zip(buffer.chunks_mut(BLOCK)) {
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        bytes[8..16].copy_from_slice(&(at + block * BLOCK as u64).to_le_bytes());
    }
}

/// Reads an answer. Returns its status, how long its body is, and how that begins.
fn answer(from: &mut BufReader<TcpStream>) -> Result<(u16, u64, [u8; 8])> {
    let (mut status, mut left, mut is_chunked) = (0, 0, false);
    let mut line = String::new();
    loop {
        line.clear();
        if from.read_line(&mut line)? == 0 {
            return Err("the connection was closed".into());
        }
        let text = line.trim_end().to_ascii_lowercase();
        if let Some(rest) = text.strip_prefix("http/1.1 ") {
            status = rest.get(..3).unwrap_or_default().parse()?;
        } else if let Some(rest) = text.strip_prefix("content-length:") {
            left = rest.trim().parse()?;
        } else if text.starts_with("transfer-encoding:") {
            is_chunked = true;
        } else if text.is_empty() {
            if status != 100 {
                break;
            }
            status = 0;
        }
    }
    let (mut first, mut total) = ([0; 8], 0);
    loop {
        if is_chunked {
            line.clear();
            from.read_line(&mut line)?;
            left = u64::from_str_radix(line.trim_end().split(';').next().unwrap_or_default(), 16)?;
        }
        let mut rest = left;
        while rest > 0 {
            let bytes = from.fill_buf()?;
            if bytes.is_empty() {
                return Err("the answer is too short".into());
            }
            let n = bytes.len().min(rest as usize);
            if total == 0 && n >= 8 {
                first.copy_from_slice(&bytes[..8]);
            }
            from.consume(n);
            rest -= n as u64;
            total += n as u64;
        }
        if is_chunked {
            line.clear();
            from.read_line(&mut line)?;
        }
        if !is_chunked || left == 0 {
            return Ok((status, total, first));
        }
    }
}

fn put(
    to: &mut BufReader<TcpStream>,
    server: &Server,
    number: u64,
    bytes: u64,
    buffer: &mut [u8],
    until: Option<Instant>,
) -> Result<bool> {
    let head = server.head("PUT", &key(number, bytes), bytes);
    if bytes <= BLOCK as u64 {
        // One packet, as any client sends it.
        let body = &mut buffer[..bytes as usize];
        stamp(body, number, 0);
        to.get_mut().write_all(&[head.as_bytes(), body].concat())?;
    } else {
        to.get_mut().write_all(head.as_bytes())?;
        let mut at = 0;
        while at < bytes {
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(false);
            }
            let n = (bytes - at).min(STEP as u64) as usize;
            stamp(&mut buffer[..n], number, at);
            to.get_mut().write_all(&buffer[..n])?;
            at += n as u64;
        }
    }
    match answer(to)? {
        (200, _, _) => Ok(true),
        (status, _, _) => Err(format!("PUT answers {status}").into()),
    }
}

fn get(from: &mut BufReader<TcpStream>, server: &Server, number: u64, bytes: u64) -> Result<()> {
    from.get_mut().write_all(server.head("GET", &key(number, bytes), 0).as_bytes())?;
    match answer(from)? {
        (200, is, first) if is == bytes && first == number.to_le_bytes() => Ok(()),
        (status, is, _) => {
            Err(format!("GET answers {status} with {is} bytes, not {bytes}, or others").into())
        }
    }
}

/// Does `work` on so many threads at once, until it says that there is no more. Prints how long that took.
fn all<T: Send + 'static>(
    threads: u64,
    bytes: u64,
    begin: impl Fn(u64) -> Result<T> + Send + Sync + Clone + 'static,
    work: impl Fn(&mut T) -> Result<bool> + Send + Sync + Clone + 'static,
) -> Result<()> {
    let (ready, done) = (Arc::new(Barrier::new(threads as usize + 1)), Arc::new(AtomicU64::new(0)));
    let mut running = Vec::new();
    for thread in 0..threads {
        let (begin, work, ready, done) = (begin.clone(), work.clone(), Arc::clone(&ready), Arc::clone(&done));
        let run = move || -> Result<()> {
            let state = begin(thread);
            ready.wait();
            let mut state = state?;
            while work(&mut state)? {
                done.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        running.push(std::thread::Builder::new().stack_size(STACK).spawn(run)?);
    }
    ready.wait();
    let begun = Instant::now();
    let mut failed = Ok(());
    for thread in running {
        if let Ok(Err(error)) = thread.join() {
            failed = Err(error);
        }
    }
    let (seconds, objects) = (begun.elapsed().as_secs_f64(), done.load(Ordering::Relaxed));
    println!("{{\"seconds\":{seconds},\"objects\":{objects},\"bytes\":{}}}", objects * bytes);
    failed
}

fn load(
    way: &str,
    server: Server,
    [bytes, objects, connections]: [u64; 3],
    seconds: Option<u64>,
) -> Result<()> {
    let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let (is_put, next, to) = (way == "put", Arc::new(AtomicU64::new(0)), server.clone());
    let begin = move |thread| Ok((to.connect()?, noise(thread + 1)));
    all(connections, bytes, begin, move |(connection, buffer)| {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let is_over = until.map_or(number >= objects, |until| Instant::now() >= until);
        if is_over {
            return Ok(false);
        }
        if is_put {
            return put(connection, &server, number, bytes, buffer, until);
        }
        get(connection, &server, number % objects, bytes).map(|()| true)
    })
}

/// Reads an object on each of many connections, waits, and reads it again.
fn idle(server: &Server, bytes: u64, connections: u64, seconds: u64) -> Result<()> {
    let mut all = Vec::new();
    for _ in 0..connections {
        let stream = TcpStream::connect(&server.host)?;
        stream.set_read_timeout(Some(SILENCE))?;
        all.push(BufReader::with_capacity(1 << 10, stream));
    }
    let begun = Instant::now();
    let mut again = 0;
    for round in 0..2 {
        for connection in &mut all {
            get(connection, server, 0, bytes)?;
            again += round;
        }
        if round == 0 {
            std::thread::sleep(Duration::from_secs(seconds).saturating_sub(begun.elapsed()));
        }
    }
    println!(
        "{{\"seconds\":{},\"objects\":{again},\"bytes\":{}}}",
        begun.elapsed().as_secs_f64(),
        again * bytes
    );
    Ok(())
}

/// Writes files and syncs each of them.
fn disk(folder: String, bytes: u64, objects: u64, threads: u64) -> Result<()> {
    let next = Arc::new(AtomicU64::new(0));
    all(
        threads,
        bytes,
        |thread| Ok(noise(thread + 1)),
        move |buffer| {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= objects {
                return Ok(false);
            }
            let mut file = File::create(format!("{folder}/{number}"))?;
            let mut at = 0;
            while at < bytes {
                let n = (bytes - at).min(STEP as u64) as usize;
                stamp(&mut buffer[..n], number, at);
                file.write_all(&buffer[..n])?;
                at += n as u64;
            }
            file.sync_all()?;
            Ok(true)
        },
    )
}

/// Writes into a file that has its size already, and syncs after each write.
fn sync(folder: String, bytes: u64, objects: u64) -> Result<()> {
    let places = 256;
    let begin = move |_| {
        let mut file = File::options()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .open(format!("{folder}/sync"))?;
        for _ in 0..places {
            file.write_all(&noise(1)[..bytes as usize])?;
        }
        file.sync_all()?;
        Ok((file, noise(2), 0))
    };
    all(1, bytes, begin, move |(file, buffer, number)| {
        if *number >= objects {
            return Ok(false);
        }
        stamp(&mut buffer[..bytes as usize], *number, 0);
        file.write_all_at(&buffer[..bytes as usize], (*number * 7919 % places) * bytes)?;
        file.sync_data()?;
        *number += 1;
        Ok(true)
    })
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let server = |endpoint: &str, region: &str, bucket: &str| -> Result<Server> {
        let host = endpoint.strip_prefix("http://").ok_or("the endpoint is http://HOST:PORT")?;
        Ok(Server {
            host: host.trim_end_matches('/').to_owned(),
            region: region.to_owned(),
            bucket: bucket.to_owned(),
            access_key: std::env::var("S3_ACCESS_KEY")?,
            secret_key: std::env::var("S3_SECRET_KEY")?,
        })
    };
    match args.as_slice() {
        [way @ ("put" | "get"), endpoint, region, bucket, bytes, objects, connections, rest @ ..] => {
            let seconds = rest.first().map(|seconds| seconds.parse()).transpose()?;
            let sizes = [bytes.parse()?, objects.parse()?, connections.parse()?];
            load(way, server(endpoint, region, bucket)?, sizes, seconds)
        }
        ["bucket", endpoint, region, bucket] => {
            let server = server(endpoint, region, bucket)?;
            let mut connection = server.connect()?;
            connection.get_mut().write_all(server.head("PUT", "", 0).as_bytes())?;
            let (status, ..) = answer(&mut connection)?;
            println!("{{\"status\":{status}}}");
            Ok(())
        }
        ["idle", endpoint, region, bucket, bytes, connections, seconds] => {
            idle(&server(endpoint, region, bucket)?, bytes.parse()?, connections.parse()?, seconds.parse()?)
        }
        ["disk", folder, bytes, objects, threads] => {
            disk((*folder).to_owned(), bytes.parse()?, objects.parse()?, threads.parse()?)
        }
        ["sync", folder, bytes, objects] => sync((*folder).to_owned(), bytes.parse()?, objects.parse()?),
        _ => Err("see the head of main.rs for the arguments".into()),
    }
}
