//! Destinations that are full, cannot be written, or cannot hold all names: nothing wrong gets a name, everything that is
//! missing is reported, and the rest arrives.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_node::{GetError, Options, Report, get};
use evenkeel_store::{Catalogue, Trust, open};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::web::Server;
use crate::{noise, quick};

type Files = BTreeMap<String, Vec<u8>>;

async fn get_into(files: &Files, to: &Path, options: &Options) -> Result<Report, GetError> {
    let server = Server::start(files, true, |_| None).await;
    let mirrors = vec![open(&server.address).unwrap()];
    let catalogue = Catalogue::of_mirrors(mirrors, Trust::Checksums).await.unwrap();
    let (_stop, stopped) = watch::channel(false);
    get(Arc::new(catalogue), to, options, stopped, &mut |_| {}).await
}

/// Every file is right or missing with a reason. Returns the names of those that arrived.
fn arrived<'a>(files: &'a Files, to: &Path, report: &Report) -> Vec<&'a str> {
    let mut arrived = Vec::new();
    for (path, data) in files {
        let key = path.replace("%2F", "/").replace("%C3%A4", "ä").replace("%C3%B6", "ö");
        if let Some(failure) = report.failures.iter().find(|failure| failure.key == key) {
            assert!(!failure.why.is_empty());
        } else {
            assert_eq!(fs::read(to.join(&key)).ok().as_ref(), Some(data), "{key}");
            arrived.push(path.as_str());
        }
    }
    arrived
}

/// A name cannot be a file and a folder at once. Neither replaces the other, and all others arrive.
#[tokio::test]
async fn one_name_of_a_file_and_a_folder() {
    let names = ["a", "a%2Fb", "a%2Fc%2Fd", "e", "f%2Fg"];
    let files: Files =
        names.iter().map(|name| ((*name).to_owned(), noise(name.len() as u64, 40_000))).collect();
    let to = tempfile::tempdir().unwrap();
    for overwrite in [false, true] {
        let report = get_into(&files, to.path(), &Options { overwrite, ..quick() }).await.unwrap();
        assert_eq!(arrived(&files, to.path(), &report), &names[1..], "{:?}", report.failures);
    }
    let to = tempfile::tempdir().unwrap();
    fs::write(to.path().join("a"), "mine").unwrap();
    let report = get_into(&files, to.path(), &quick()).await.unwrap();
    assert_eq!(arrived(&files, to.path(), &report), &names[3..], "{:?}", report.failures);
    assert_eq!(fs::read(to.path().join("a")).unwrap(), b"mine");
}

/// Long names: those that the file system cannot hold are reported.
#[tokio::test]
async fn long_names() {
    let long = "%C3%A4".repeat(127);
    let folders = format!("{long}%2F{long}%2F{long}%2F{long}");
    let names = [folders, "x".to_owned(), "%C3%B6".repeat(128), format!("{}x", "d%2F".repeat(2100))];
    let files: Files = names.iter().map(|name| (name.clone(), noise(name.len() as u64, 100))).collect();
    let to = tempfile::tempdir().unwrap();
    let report = get_into(&files, to.path(), &quick()).await.unwrap();
    assert_eq!(arrived(&files, to.path(), &report), &names[..2]);
}

/// The error, with its causes.
fn causes(error: &GetError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[tokio::test]
async fn destinations_that_are_no_folders() {
    let files = Files::from([("a".to_owned(), noise(1, 10))]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "mine").unwrap();
    for to in [file.clone(), file.join("below")] {
        let error = get_into(&files, &to, &quick()).await.unwrap_err();
        assert!(causes(&error).contains(&to.display().to_string()), "{}", causes(&error));
    }
    assert_eq!(fs::read(&file).unwrap(), b"mine");
}

/// A file system of its own, for those who may mount one.
struct Mounted(PathBuf);

impl Mounted {
    fn new(at: &Path, args: &[&str]) -> Option<Self> {
        let is_mounted = mount(at, args);
        if !is_mounted {
            println!("skipped: this needs the right to mount a file system");
        }
        is_mounted.then(|| Self(at.to_owned()))
    }
}

fn mount(at: &Path, args: &[&str]) -> bool {
    Command::new("mount").args(args).arg(at).output().is_ok_and(|output| output.status.success())
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// A full disk ends the read. Once there is room, it goes on where it stopped.
#[tokio::test]
async fn a_full_disk() {
    let files: Files = (0..4).map(|n| (n.to_string(), noise(n, 150_000))).collect();
    let folder = tempfile::tempdir().unwrap();
    let Some(_mounted) = Mounted::new(folder.path(), &["-t", "tmpfs", "-o", "size=400k", "tmpfs"]) else {
        return;
    };
    let error = get_into(&files, folder.path(), &quick()).await.unwrap_err();
    assert!(causes(&error).contains("No space left"), "{}", causes(&error));
    for (key, data) in &files {
        if let Ok(found) = fs::read(folder.path().join(key)) {
            assert_eq!(found, *data);
        }
    }
    assert!(mount(folder.path(), &["-o", "remount,size=4m"]));
    let report = get_into(&files, folder.path(), &quick()).await.unwrap();
    assert_eq!(arrived(&files, folder.path(), &report).len(), 4);
    assert!(report.resumed_bytes > 0, "what fitted is kept");
}

#[tokio::test]
async fn a_disk_that_cannot_be_written() {
    let files = Files::from([("a".to_owned(), noise(1, 10))]);
    let folder = tempfile::tempdir().unwrap();
    let Some(_mounted) = Mounted::new(folder.path(), &["-t", "tmpfs", "-o", "ro", "tmpfs"]) else { return };
    let error = get_into(&files, folder.path(), &quick()).await.unwrap_err();
    assert!(causes(&error).contains("Read-only"), "{}", causes(&error));
}

/// A mirror with a certificate that nobody vouches for is not used, and the reason is told.
#[tokio::test]
async fn a_wrong_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let subject = ["-subj", "/CN=localhost", "-days", "2", "-nodes", "-newkey", "rsa:2048"];
    let made = Command::new("openssl")
        .args(["req", "-x509", "-keyout", &at("key"), "-out", &at("certificate")])
        .args(subject)
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        println!("skipped: this needs openssl");
        return;
    }
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut liar = Command::new("openssl")
        .args(["s_server", "-quiet", "-www", "-accept", &port.to_string()])
        .args(["-key", &at("key"), "-cert", &at("certificate")])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let files = Files::from([("a".to_owned(), noise(1, 50_000))]);
    let honest = Server::start(&files, true, |_| None).await;
    let mirrors = [format!("https://localhost:{port}/"), honest.address.clone()];
    let mirrors = mirrors.iter().map(|mirror| open(mirror).unwrap()).collect();
    let catalogue = Catalogue::of_mirrors(mirrors, Trust::Checksums).await;
    liar.kill().unwrap();
    liar.wait().unwrap();
    let catalogue = catalogue.unwrap();
    let remarks: Vec<String> = catalogue.remarks().iter().map(ToString::to_string).collect();
    assert!(remarks.iter().any(|remark| remark.contains("certificate")), "{remarks:?}");
    let (to, (_stop, stopped)) = (folder.path().join("to"), watch::channel(false));
    let report = get(Arc::new(catalogue), &to, &quick(), stopped, &mut |_| {}).await.unwrap();
    assert_eq!(arrived(&files, &to, &report), ["a"]);
}

/// A mirror that lists its files a byte at a time does not keep the others waiting for ever.
#[tokio::test]
async fn a_listing_that_trickles() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    let trickling = tokio::spawn(async move {
        let mut answers = JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            answers.spawn(async move {
                // It asks before it is answered.
                stream.read_u8().await.ok()?;
                let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1000000\r\n\r\n";
                stream.write_all(head.as_bytes()).await.ok()?;
                while stream.write_all(b" ").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                Some(())
            });
        }
    });
    let files = Files::from([("a".to_owned(), noise(1, 50_000))]);
    let honest = Server::start(&files, true, |_| None).await;
    let mirrors = [address, honest.address.clone()].map(|mirror| open(&mirror).unwrap());
    let listing = Catalogue::of_mirrors(mirrors.into(), Trust::Checksums);
    let catalogue = timeout(Duration::from_mins(1), listing).await.expect("an end").unwrap();
    trickling.abort();
    let remarks: Vec<String> = catalogue.remarks().iter().map(ToString::to_string).collect();
    assert!(remarks.iter().any(|remark| remark.contains("does not answer")), "{remarks:?}");
    assert_eq!(catalogue.n_objects(), 1);
}
