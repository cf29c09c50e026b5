//! Web servers for tests: a proxy that serves each host from a folder of its name.
//!
//! Commands reach it by `http_proxy`, so that tests and documents can name any host. What hosts can do depends on their
//! names: `xrootd…` and `dcache…` list folders by WebDAV and tell Adler-32, `digest…` tells SHA-256, `token…` wants the
//! bearer token `secret`; all others have index pages and tell no checksums. The lines of `NAME.headers` beside a file are
//! further headers of it.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use evenkeel_store::{Algorithm, Hasher};

/// Starts the servers of all hosts below a folder. Returns the address of the proxy. They live as long as the process.
pub(crate) fn serve(sites: &Path) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let sites = sites.to_owned();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let sites = sites.clone();
            std::thread::spawn(move || {
                let mut stream = BufReader::new(stream);
                while let Ok(true) = answer(&sites, &mut stream) {}
            });
        }
    });
    address
}

/// Variables with which a command finds these hosts and no others.
pub(crate) fn proxied(proxy: &str) -> [(&'static str, &str); 3] {
    [("http_proxy", proxy), ("https_proxy", proxy), ("no_proxy", "localhost,127.0.0.1")]
}

/// Answers one request. Returns false when the client has left.
fn answer(sites: &Path, stream: &mut BufReader<TcpStream>) -> io::Result<bool> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 {
            return Ok(false);
        }
        match line.trim() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let words: Vec<&str> = lines[0].split(' ').collect();
    let header = |name: &str| {
        lines.iter().skip(1).find_map(|line| {
            let (known, value) = line.split_once(':')?;
            known.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    };
    let out = stream.get_mut();
    let Some(address) = words[1].strip_prefix("http://") else {
        // Nothing is encrypted here.
        return send(out, "502 Bad Gateway", "", b"", true);
    };
    let (host, path) = address.split_once('/').unwrap_or((address, ""));
    let host = host.split(':').next().unwrap();
    if host.starts_with("token") && header("authorization").as_deref() != Some("Bearer secret") {
        return send(out, "401 Unauthorized", "", b"", true);
    }
    let file = sites.join(host).join(path);
    let is_grid = host.starts_with("xrootd") || host.starts_with("dcache");
    match words[0] {
        "PROPFIND" if is_grid && file.is_dir() => {
            send(out, "207 Multi-Status", "", webdav(&file, &format!("/{path}")).as_bytes(), true)
        }
        "PROPFIND" => send(out, "405 Method Not Allowed", "", b"", true),
        _ if file.is_dir() => {
            send(out, "200 OK", "Content-Type: text/html\r\n", index(&file).as_bytes(), true)
        }
        method => match fs::read(&file) {
            Err(_) => send(out, "404 Not Found", "", b"", true),
            Ok(data) => {
                let mut headers =
                    fs::read_to_string(with_suffix(&file)).unwrap_or_default().replace('\n', "\r\n");
                let _ = write!(headers, "ETag: \"{}\"\r\n", checksum(Algorithm::Md5, &data));
                if is_grid {
                    let _ = write!(headers, "Digest: adler32={}\r\n", checksum(Algorithm::Adler32, &data));
                }
                if host.starts_with("digest") {
                    let _ = write!(headers, "Digest: sha-256={}\r\n", checksum(Algorithm::Sha256, &data));
                }
                let range = header("range").and_then(|range| parse(&range));
                let (status, part) = match range {
                    Some((from, to)) if method == "GET" => {
                        let _ = write!(headers, "Content-Range: bytes {from}-{to}/{}\r\n", data.len());
                        ("206 Partial Content", &data[from..=to])
                    }
                    _ => ("200 OK", &data[..]),
                };
                send(out, status, &headers, part, method == "GET")
            }
        },
    }
}

fn parse(range: &str) -> Option<(usize, usize)> {
    let (from, to) = range.strip_prefix("bytes=")?.split_once('-')?;
    Some((from.parse().ok()?, to.parse().ok()?))
}

fn checksum(algorithm: Algorithm, data: &[u8]) -> String {
    let mut hasher = Hasher::new(algorithm);
    hasher.update(data);
    hasher.finish().to_string()
}

fn with_suffix(file: &Path) -> PathBuf {
    PathBuf::from(format!("{}.headers", file.display()))
}

/// The names in a folder. Those of folders end with `/`.
fn names(folder: &Path) -> Vec<String> {
    let name = |entry: io::Result<fs::DirEntry>| {
        let entry = entry.unwrap();
        let end = if entry.path().is_dir() { "/" } else { "" };
        format!("{}{end}", entry.file_name().display())
    };
    let mut names: Vec<String> = fs::read_dir(folder).unwrap().map(name).collect();
    names.retain(|name| !name.ends_with(".headers"));
    names.sort();
    names
}

fn index(folder: &Path) -> String {
    names(folder).iter().map(|name| format!("<a href=\"{name}\">{name}</a>")).collect::<Vec<_>>().join("\n")
}

fn webdav(folder: &Path, path: &str) -> String {
    let response = |href: &str| {
        let kind = if href.ends_with('/') { "<D:collection/>" } else { "" };
        format!(
            "<D:response><D:href>{href}</D:href><D:propstat><D:prop><D:resourcetype>{kind}</D:resourcetype></D:prop>\
             </D:propstat></D:response>"
        )
    };
    let children: String = names(folder).iter().map(|name| response(&format!("{path}{name}"))).collect();
    format!("<D:multistatus xmlns:D=\"DAV:\">{}{children}</D:multistatus>", response(path))
}

fn send(out: &mut TcpStream, status: &str, headers: &str, body: &[u8], has_body: bool) -> io::Result<bool> {
    let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
    out.write_all(head.as_bytes())?;
    if has_body {
        out.write_all(body)?;
    }
    out.flush()?;
    Ok(true)
}
