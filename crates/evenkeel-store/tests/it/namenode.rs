//! A small HDFS over HTTP: a NameNode and two DataNodes in one process, with blocks of a few bytes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::hadoop::java_order;
use crate::serve::{Reply, Request, Server};

const BLOCK: usize = 30_000;

/// A file and the number of its inode.
pub(crate) type Files = BTreeMap<String, (u64, Vec<u8>)>;

/// What answers in place of the server, if it wants to.
pub(crate) type Trick = dyn Fn(&Request) -> Option<Reply> + Send + Sync;

pub(crate) struct Cluster {
    pub(crate) namenode: Server,
    pub(crate) datanodes: Vec<Server>,
    files: Arc<Mutex<Files>>,
}

impl Cluster {
    pub(crate) fn start(knows_inodes: bool) -> Self {
        Self::with_tricks(knows_inodes, |_| None, |_| None)
    }

    /// One whose servers answer as these say, where they say something. The DataNodes have the second.
    pub(crate) fn with_tricks(
        knows_inodes: bool,
        namenode: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static,
        datanode: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static,
    ) -> Self {
        let files: Arc<Mutex<Files>> = Arc::default();
        let datanode: Arc<Trick> = Arc::new(datanode);
        let datanodes = (0..2).map(|_| {
            let (files, trick) = (Arc::clone(&files), Arc::clone(&datanode));
            Server::start(move |request| {
                trick(request).unwrap_or_else(|| data(&files.lock().unwrap(), request))
            })
        });
        let datanodes: Vec<Server> = datanodes.collect();
        let ports: Vec<u16> = datanodes.iter().map(port).collect();
        let held = Arc::clone(&files);
        let namenode = Server::start(move |request| {
            namenode(request).unwrap_or_else(|| answer(&held.lock().unwrap(), &ports, knows_inodes, request))
        });
        Self { namenode, datanodes, files }
    }

    pub(crate) fn address(&self, path: &str) -> String {
        format!("{}/{path}", self.namenode.address.replace("http://", "webhdfs://"))
    }

    pub(crate) fn put(&self, path: &str, data: &[u8]) {
        let mut files = self.files.lock().unwrap();
        let inode = files.values().map(|(inode, _)| inode + 1).max().unwrap_or(16_386);
        files.insert(path.to_owned(), (inode, data.to_vec()));
    }

    pub(crate) fn remove(&self, path: &str) {
        self.files.lock().unwrap().remove(path);
    }
}

fn port(server: &Server) -> u16 {
    server.address.rsplit(':').next().unwrap().parse().unwrap()
}

pub(crate) fn refusal(status: u16, exception: &str) -> Reply {
    let told = json!({"RemoteException": {"exception": exception, "message": "because\n\tat org.apache.X"}});
    Reply::new(status, told.to_string())
}

fn find<'a>(files: &'a Files, request: &Request) -> Option<(&'a str, &'a (u64, Vec<u8>))> {
    let path = request.path.strip_prefix("webhdfs/v1/").unwrap();
    let by_inode = path.strip_prefix(".reserved/.inodes/").map(|inode| inode.parse::<u64>().unwrap());
    let mut found = files.iter().map(|(name, file)| (name.as_str(), file));
    found.find(|(name, (inode, _))| by_inode.map_or(*name == path, |wanted| wanted == *inode))
}

fn status(name: &str, (inode, data): &(u64, Vec<u8>)) -> Value {
    json!({"pathSuffix": name, "type": "FILE", "length": data.len(), "fileId": inode, "blockSize": BLOCK,
           "modificationTime": 1000 + inode})
}

/// What the NameNode answers.
fn answer(files: &Files, ports: &[u16], knows_inodes: bool, request: &Request) -> Reply {
    let path = request.path.strip_prefix("webhdfs/v1/").unwrap().trim_end_matches('/');
    if path.starts_with(".reserved") && !knows_inodes {
        return refusal(403, "IOException");
    }
    let found = find(files, request);
    let told = match request.query["op"].as_str() {
        "LISTSTATUS_BATCH" => {
            return listing(files, path, request.query.get("startAfter").map(String::as_str));
        }
        _ if found.is_none() => return refusal(404, "FileNotFoundException"),
        "GETFILESTATUS" => json!({"FileStatus": found.map(|(_, file)| status("", file))}),
        "GET_BLOCK_LOCATIONS" => located(&found.unwrap().1.1, ports, &request.query["offset"]),
        "OPEN" => {
            let query = "op=OPEN&user.name=nobody&namenoderpcaddress=nn:8020&offset=0&length=1";
            let location = format!("http://127.0.0.1:{}/webhdfs/v1/{path}?{query}", ports[0]);
            return Reply::new(307, "").with("Location", location);
        }
        other => panic!("{other} is not known"),
    };
    Reply::new(200, told.to_string())
}

/// Seven entries of a folder.
fn listing(files: &Files, folder: &str, after: Option<&str>) -> Reply {
    let below = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let mut entries: Vec<Value> = Vec::new();
    for (name, file) in files.iter().filter_map(|(name, file)| Some((name.strip_prefix(&below)?, file))) {
        match name.split_once('/') {
            Some((inner, _)) => {
                let entry = json!({"pathSuffix": inner, "type": "DIRECTORY", "fileId": 1, "length": 0});
                if entries.last() != Some(&entry) {
                    entries.push(entry);
                }
            }
            None => entries.push(status(name, file)),
        }
    }
    if let Some(file) = files.get(folder) {
        entries = vec![status("", file)];
    } else if entries.is_empty() {
        return refusal(404, "FileNotFoundException");
    }
    let at = |entry: &Value| java_order(entry["pathSuffix"].as_str().unwrap());
    entries.sort_by_key(at);
    entries.retain(|entry| after.is_none_or(|after| at(entry) > java_order(after)));
    let n_remaining = entries.len().saturating_sub(7);
    entries.truncate(7);
    let listing = json!({"FileStatuses": {"FileStatus": entries}});
    let told = json!({"DirectoryListing": {"partialListing": listing, "remainingEntries": n_remaining}});
    Reply::new(200, told.to_string())
}

/// Two blocks from an offset on, held by one DataNode or both.
fn located(data: &[u8], ports: &[u16], offset: &str) -> Value {
    let first = offset.parse::<usize>().unwrap() / BLOCK;
    let block = |nth: usize, chunk: &[u8]| {
        let holders = if nth.is_multiple_of(2) { ports } else { &ports[1..] };
        let locations: Vec<Value> = holders.iter().map(|&port| node("127.0.0.1", port)).collect();
        json!({"startOffset": nth * BLOCK, "block": {"numBytes": chunk.len()}, "isCorrupt": false, "locations": locations})
    };
    let blocks = data.chunks(BLOCK).enumerate().skip(first).take(2);
    let blocks: Vec<Value> = blocks.map(|(nth, chunk)| block(nth, chunk)).collect();
    json!({"LocatedBlocks": {"fileLength": data.len(), "isUnderConstruction": false, "locatedBlocks": blocks}})
}

pub(crate) fn node(host: &str, port: u16) -> Value {
    json!({"hostName": host, "infoPort": port, "infoSecurePort": 0, "xceiverCount": 3})
}

/// What a DataNode answers.
fn data(files: &Files, request: &Request) -> Reply {
    assert_eq!((&*request.query["op"], &*request.query["namenoderpcaddress"]), ("OPEN", "nn:8020"));
    let number = |name: &str| request.query[name].parse::<usize>().unwrap();
    match find(files, request) {
        None => refusal(404, "FileNotFoundException"),
        Some((_, (_, data))) if number("offset") > data.len() => refusal(403, "EOFException"),
        Some((_, (_, data))) => {
            let rest = &data[number("offset")..];
            Reply::new(200, &rest[..number("length").min(rest.len())])
        }
    }
}
