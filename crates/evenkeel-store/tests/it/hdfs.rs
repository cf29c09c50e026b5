//! HDFS: what a small one answers, right and wrong.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use evenkeel_store::{Algorithm, Hasher, Object, Problem, Source, StoreError, open};
use futures_util::TryStreamExt;

use crate::hadoop::{
    BLOCK, CHUNK, Hadoop, Instead, Message, Part, Quirk, SASL_ANSWER, auth, block_checksum, fatal, framed,
    packet, varint,
};

/// Bytes that differ from place to place.
fn data(n: usize) -> Vec<u8> {
    (0..n as u64).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

async fn list(source: &dyn Source) -> Result<Vec<Object>, StoreError> {
    source.list().map_ok(|page| page.objects).try_concat().await
}

async fn read(source: &dyn Source, object: &Object, from: u64, to: u64) -> Result<Vec<u8>, StoreError> {
    let nth = from as usize / BLOCK;
    let server = object.extents[nth].servers[0];
    let chunks: Vec<_> = source.read(object, server as usize, from..to).await?.try_collect().await?;
    Ok(chunks.concat())
}

/// The number of the call that a frame answers: the first field of the header, after both lengths.
fn call_of(frame: &[u8]) -> u64 {
    varint(&mut &frame[6..])
}

/// The frame of an answer that is an exception.
fn exception(frame: &[u8], status: u64, class: &str, text: &str) -> Vec<u8> {
    let header = Message::default()
        .number(1, call_of(frame))
        .number(2, status)
        .bytes(4, class.as_bytes())
        .bytes(5, text.as_bytes());
    let answer = header.delimited();
    [&(answer.len() as u32).to_be_bytes(), answer.as_slice()].concat()
}

#[tokio::test]
async fn connections_are_kept() {
    let hadoop = Hadoop::start();
    hadoop.put("/f", &data(BLOCK));
    let source = open(&hadoop.address("/f")).unwrap();
    let object = &list(&*source).await.unwrap()[0];
    for nth in 0..50 {
        assert_eq!(read(&*source, object, nth * 100, nth * 100 + 700).await.unwrap().len(), 700);
    }
    assert_eq!(hadoop.n_connections(), 2);
}

/// Listings have no tokens. After the first refusal they are asked for, once for each file.
#[tokio::test]
async fn tokens_are_fetched_once() {
    let hadoop = Hadoop::start();
    (0..10).for_each(|nth| hadoop.put(&format!("/d/{nth}"), &data(1000)));
    hadoop.set_token(b"first");
    let source = open(&hadoop.address("/d")).unwrap();
    let objects = list(&*source).await.unwrap();
    let read_all = || async {
        for object in &objects {
            assert_eq!(read(&*source, object, 0, 1000).await.unwrap(), data(1000));
        }
    };
    let listed = hadoop.n_calls();
    read_all().await;
    read_all().await;
    // A look at each file for each read, and its token, with another look.
    assert_eq!(hadoop.n_calls() - listed, 20 + 20);
    // It has expired.
    hadoop.set_token(b"second");
    read_all().await;
    assert_eq!(hadoop.n_calls() - listed, 30 + 40);
}

/// A folder of many files costs as many calls as it has pages; here they have seven entries.
#[tokio::test]
async fn listings_carry_locations() {
    let hadoop = Hadoop::start();
    (0..100).for_each(|nth| hadoop.put(&format!("/d/{nth:03}"), &data(2 * BLOCK)));
    let source = open(&hadoop.address("/d/")).unwrap();
    let objects = list(&*source).await.unwrap();
    assert_eq!(hadoop.n_calls(), 15);
    assert!(objects.iter().all(|object| object.extents.iter().all(|extent| extent.servers.len() == 2)));
    let load = source.connections();
    assert!(
        load.iter().all(|(name, n)| source.servers().contains(name) && *n == 4) && load.len() == 3,
        "{load:?}"
    );
    let mut servers = source.servers();
    servers.iter_mut().for_each(|name| name.truncate(2));
    servers.sort_unstable();
    assert_eq!(servers, ["d0", "d1", "d2"]);
}

/// NameNodes list what is not ASCII first.
#[tokio::test]
async fn names_in_the_order_of_name_nodes() {
    let hadoop = Hadoop::start();
    for nth in 10..20 {
        ["ü", "漢", "z"].iter().for_each(|name| hadoop.put(&format!("/d/{name}{nth}"), &data(10)));
    }
    let source = open(&hadoop.address("/d")).unwrap();
    let keys: Vec<_> = list(&*source).await.unwrap().into_iter().map(|object| object.key).collect();
    assert_eq!((keys.len(), keys[0].as_str(), keys[29].as_str()), (30, "ü10", "z19"));
}

/// Blocks stay for a while when their file is replaced: that is no reason to read them.
/// Nobody reads a file to find out that it is there already.
#[tokio::test]
async fn files_have_checksums() {
    let hadoop = Hadoop::start();
    let data = data(5 * BLOCK / 2);
    hadoop.put("/file", &data);
    let source = open(&hadoop.address("/file")).unwrap();
    let objects = list(&*source).await.unwrap();
    let mut hasher = Hasher::new(Algorithm::Crc32c);
    hasher.update(&data);
    let hash = hasher.finish();
    assert_eq!(source.hash(&objects[0]).await, Some(hash.clone()));
    // One DataNode does not tell, and the others do.
    hadoop.set_quirk(Box::new(|part, _| match part {
        Part::Answer { datanode: 1 } => Some(Instead::Last(Vec::new())),
        _ => None,
    }));
    assert_eq!(source.hash(&objects[0]).await, Some(hash));
    // Older ones tell something else.
    hadoop.set_quirk(Box::new(|part, _| {
        matches!(part, Part::Answer { .. }).then(|| Instead::Last(block_checksum(b"data", 1).delimited()))
    }));
    assert_eq!(source.hash(&objects[0]).await, None);
    // What a damaged answer says is compared with the file, and no more than that.
    for at in 0..20 {
        hadoop.set_quirk(Box::new(move |part, bytes| {
            let is_answer = matches!(part, Part::Answer { .. });
            is_answer.then(|| Instead::Last(flipped(bytes, at.min(bytes.len() - 1))))
        }));
        let _ = source.hash(&objects[0]).await;
    }
    hadoop.set_quirk(Box::new(|_, _| None));
    hadoop.put("/file", &data[1..]);
    assert_eq!(source.hash(&objects[0]).await, None);
}

#[tokio::test]
async fn files_that_change_are_not_read() {
    let hadoop = Hadoop::start();
    ["/d/replaced", "/d/lost", "/d/removed"].iter().for_each(|path| hadoop.put(path, &data(1000)));
    let source = open(&hadoop.address("/d")).unwrap();
    let objects = list(&*source).await.unwrap();
    hadoop.put("/d/replaced", &data(1000));
    hadoop.lose_blocks("/d/lost");
    hadoop.remove("/d/removed");
    let problem = |key: &str| {
        let object = objects.iter().find(|object| object.key == key).unwrap();
        let source = &source;
        async move { read(&**source, object, 0, 1000).await.unwrap_err().problem }
    };
    assert_eq!(problem("replaced").await, Problem::Changed);
    assert_eq!(problem("removed").await, Problem::NotFound);
    assert!(matches!(problem("lost").await, Problem::Unsupported(why) if why.contains("Replica not found")));
    // One that is being written is not listed as one that can be read.
    hadoop.put("/d/new", &data(1000));
    hadoop.open("/d/new");
    let pages: Vec<_> = source.list().try_collect().await.unwrap();
    let unreadable: Vec<_> = pages.iter().flat_map(|page| &page.unreadable).collect();
    assert_eq!((unreadable.len(), unreadable[0].key.as_str()), (1, "new"));
    assert!(unreadable[0].error.to_string().contains("being written"), "{:?}", unreadable[0]);
}

/// The NameNode does not answer whether the file is the same, and its blocks are asked for anew: those of another version
/// are not taken for its own.
#[tokio::test]
async fn blocks_of_another_version_are_not_read() {
    let hadoop = Hadoop::start();
    ["/f", "/other"].iter().for_each(|path| hadoop.put(path, &data(1000)));
    let source = open(&hadoop.address("/f")).unwrap();
    let object = &list(&*source).await.unwrap()[0];
    hadoop.lose_blocks("/f");
    hadoop.put("/f", &[7; 1000]);
    let n_asked = AtomicUsize::new(0);
    hadoop.set_quirk(Box::new(move |part, _| {
        let is_first =
            matches!(part, Part::Call("getFileInfo")) && n_asked.fetch_add(1, Ordering::Relaxed) == 0;
        is_first.then_some(Instead::Silence)
    }));
    assert_eq!(read(&*source, object, 0, 1000).await.unwrap_err().problem, Problem::Changed);
}

#[tokio::test]
async fn exceptions_have_meanings() {
    let cases = [
        ("java.io.FileNotFoundException", "no", "is not there"),
        (
            "org.apache.hadoop.security.AccessControlException",
            "Permission denied: user=x",
            "access is denied",
        ),
        (
            "org.apache.hadoop.security.AccessControlException",
            "SIMPLE authentication is not enabled.  Available:[TOKEN, KERBEROS]",
            "wants Kerberos or a delegation token: fetch one",
        ),
        (
            "org.apache.hadoop.security.token.SecretManager$InvalidToken",
            "token (x) is expired",
            "has expired, was cancelled",
        ),
        (
            "org.apache.hadoop.ipc.RpcNoSuchProtocolException",
            "Unknown protocol",
            "name a NameNode's RPC port",
        ),
        ("org.apache.hadoop.hdfs.server.namenode.SafeModeException", "Zero blocks", "is in safe mode"),
        ("org.apache.hadoop.fs.InvalidPathException", "Invalid path", "InvalidPathException: Invalid path"),
    ];
    for (class, text, message) in cases {
        for status in [1, 2] {
            let hadoop = Hadoop::start();
            hadoop.set_quirk(Box::new(move |_, frame| {
                Some(Instead::Bytes(exception(frame, status, class, &format!("{class}: {text}\n at line"))))
            }));
            let error = list(&*open(&hadoop.address("/f")).unwrap()).await.unwrap_err().to_string();
            assert!(error.contains(message) && !error.contains("at line"), "{error}");
        }
    }
}

/// Answers of a NameNode that are no answers: an error each, soon.
#[tokio::test]
async fn wrong_answers_of_namenodes_are_errors() {
    type Change = Box<dyn Fn(&[u8]) -> Vec<u8> + Send + Sync>;
    let with_length =
        |length: u32| move |_: &[u8]| [&length.to_be_bytes()[..], b"abcdefghijklmnopqrstuvwxyz"].concat();
    let cases: Vec<(Change, &str)> = vec![
        (Box::new(with_length(u32::MAX)), "announces an answer of 4294967295 bytes"),
        (Box::new(with_length(100 << 20)), "cannot be reached"),
        (Box::new(with_length(26)), "sent something else"),
        (Box::new(|_| b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()), "name the NameNode's RPC port"),
        (Box::new(|_| Vec::new()), "cannot be reached"),
        (Box::new(|_| 0_u32.to_be_bytes().to_vec()), "sent something else"),
        // Another call's number.
        (
            Box::new(|frame| {
                let mut frame = frame.to_vec();
                frame[6] += 1;
                frame
            }),
            "the number of another call",
        ),
    ];
    for (change, message) in cases {
        let hadoop = Hadoop::start();
        hadoop.put("/d/f", &data(10));
        hadoop.set_quirk(Box::new(move |_, frame| Some(Instead::Last(change(frame)))));
        let error = list(&*open(&hadoop.address("/d")).unwrap()).await.unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

/// Blocks that do not make up their file, and folders without end.
#[tokio::test]
async fn listings_must_fit_together() {
    fn answer(listing: &Message) -> Quirk {
        let body = Message::default().message(1, listing).delimited();
        Box::new(move |_, frame| {
            let header = Message::default().number(1, call_of(frame)).number(2, 0).delimited();
            let n = (header.len() + body.len()) as u32;
            Some(Instead::Bytes([&n.to_be_bytes()[..], &header, &body].concat()))
        })
    }
    let file = |name: &str, bytes: u64, blocks: &[(u64, u64)]| {
        let mut located = Message::default().number(1, bytes).number(3, 0);
        for (offset, n) in blocks {
            let block = Message::default().bytes(1, b"p").number(2, 1).number(3, 1).number(4, *n);
            let id = Message::default().bytes(1, b"127.0.0.1").bytes(2, b"d").bytes(3, b"u").number(4, 9);
            let holder = Message::default().message(1, &id);
            let block =
                Message::default().message(1, &block).number(2, *offset).message(3, &holder).number(4, 0);
            located = located.message(2, &block);
        }
        Message::default().number(1, 2).bytes(2, name.as_bytes()).number(3, bytes).message(12, &located)
    };
    let listing = |files: &[Message], n_left: u64| {
        let all = files.iter().fold(Message::default(), |all, file| all.message(1, file));
        all.number(2, n_left)
    };
    let hadoop = Hadoop::start();
    let check = |listing: Message| {
        hadoop.set_quirk(answer(&listing));
        let source = open(&hadoop.address("/d")).unwrap();
        async move { source.list().try_collect::<Vec<_>>().await }
    };
    let pages = check(listing(&[file("a", 10, &[(0, 5), (5, 5)])], 0)).await.unwrap();
    assert_eq!(pages[0].objects[0].extents.len(), 2);
    for blocks in
        [&[(0, 5)][..], &[(0, 5), (6, 5)], &[(0, 5), (5, 6)], &[(0, u64::MAX), (5, 5)], &[(5, 5)], &[]]
    {
        let pages = check(listing(&[file("a", 10, blocks)], 0)).await.unwrap();
        assert_eq!((pages[0].objects.len(), pages[0].unreadable.len()), (0, 1), "{blocks:?}");
        assert!(pages[0].unreadable[0].error.to_string().contains("blocks of the file"), "{pages:?}");
    }
    // Always the same page, names that go back, and nothing where something is left.
    for (files, n_left) in [(&["a"][..], 1), (&["b", "a"], 0), (&["a", "a"], 0), (&[], 1)] {
        let files: Vec<Message> = files.iter().map(|name| file(name, 0, &[])).collect();
        let error = check(listing(&files, n_left)).await.unwrap_err();
        assert!(matches!(error.problem, Problem::Damaged(_)), "{error}");
    }
    // Names that would lead elsewhere, and kinds of files that cannot be read here.
    for name in ["..", ".", "a/../../b"] {
        let pages = check(listing(&[file(name, 0, &[])], 0)).await.unwrap();
        assert_eq!((pages[0].objects.len(), pages[0].unreadable.len()), (0, 1), "{name}");
    }
    let flagged = |flags: u64| file("a", 10, &[(0, 10)]).number(18, flags);
    for (status, message) in [
        (flagged(2), "encrypted"),
        (flagged(4), "erasure-coded"),
        (file("a", 10, &[(0, 10)]).bytes(17, b""), "erasure-coded"),
        (Message::default().number(1, 3).bytes(2, b"a").number(3, 0), "symbolic link"),
    ] {
        let pages = check(listing(&[status], 0)).await.unwrap();
        assert!(pages[0].unreadable[0].error.to_string().contains(message), "{pages:?}");
    }
    // A folder within itself, for ever.
    let folder = Message::default().number(1, 1).bytes(2, b"d").number(3, 0);
    let error = check(listing(&[folder], 0)).await.unwrap_err();
    assert!(error.to_string().contains("folders within each other"), "{error}");
}

/// What DataNodes send is right, or an error: truncated, doubled, moved, changed.
#[tokio::test]
async fn wrong_data_never_passes() {
    type Change = fn(usize, &[u8]) -> Option<Vec<u8>>;
    let cases: [(&str, Change, &str); 8] = [
        ("a byte of the data", |n, p| (n == 1).then(|| flipped(p, p.len() - 1)), "damaged data"),
        ("a byte of a checksum", |n, p| (n == 1).then(|| flipped(p, 35)), "damaged data"),
        ("the end comes early", |n, _| (n == 2).then(|| packet(0, true, &[])), "an end before"),
        ("the same packet twice", |n, p| (n == 1).then(|| [p, p].concat()), "data of another place"),
        ("a packet is left out", |n, _| (n == 1).then(Vec::new), "data of another place"),
        ("an endless packet", |n, _| (n == 1).then(|| vec![0xFF; 100]), "no usual size"),
        ("lengths that do not fit", |n, p| (n == 1).then(|| flipped(p, 3)), "do not fit"),
        (
            "no end of packets",
            |n, _| (n == 1).then(|| packet(30 * CHUNK, false, &vec![7; 2 * BLOCK])),
            "another place",
        ),
    ];
    for (what, change, message) in cases {
        let hadoop = Hadoop::start();
        hadoop.put("/f", &data(BLOCK));
        hadoop.set_quirk(Box::new(move |part, bytes| match part {
            Part::Packet { number, .. } => change(number, bytes).map(Instead::Bytes),
            _ => None,
        }));
        let source = open(&hadoop.address("/f")).unwrap();
        let object = &list(&*source).await.unwrap()[0];
        let error = read(&*source, object, 0, BLOCK as u64).await.unwrap_err();
        assert!(matches!(error.problem, Problem::Damaged(_)), "{what}: {error}");
        let error = error.to_string();
        assert!(error.contains(message) && error.contains("blk_1000 at DataNode d1"), "{what}: {error}");
    }
}

fn flipped(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 1;
    bytes
}

/// Everything that DataNodes send, with random damage: what comes through is right.
#[tokio::test]
async fn damage_anywhere_is_found() {
    let hadoop = Hadoop::start();
    let expected = data(BLOCK);
    hadoop.put("/f", &expected);
    let source = open(&hadoop.address("/f")).unwrap();
    let object = &list(&*source).await.unwrap()[0];
    let times: u64 = std::env::var("EVENKEEL_TIMES").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    let mut n_found = 0;
    for seed in 0..300 * times {
        let random = move |nth: u64| {
            let mixed = (seed * 7 + nth + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 16
        };
        let n_parts = AtomicUsize::new(0);
        hadoop.set_quirk(Box::new(move |part, bytes| {
            let is_of_datanode = !matches!(part, Part::Call(_));
            let is_chosen = is_of_datanode && n_parts.fetch_add(1, Ordering::Relaxed) as u64 == random(0) % 6;
            if !is_chosen || bytes.is_empty() {
                return None;
            }
            let at = random(1) as usize % bytes.len();
            Some(match random(2) % 3 {
                0 => Instead::Last(bytes[..at].to_vec()),
                1 => Instead::Bytes(flipped(bytes, at)),
                _ => {
                    let mut bytes = bytes.to_vec();
                    bytes.insert(at, random(3) as u8);
                    Instead::Bytes(bytes)
                }
            })
        }));
        match read(&*source, object, 3, BLOCK as u64 - 5).await {
            Ok(found) => assert!(found == expected[3..BLOCK - 5], "seed {seed}"),
            Err(_) => n_found += 1,
        }
    }
    assert!(n_found > 200, "{n_found}");
}

/// The same for a NameNode: no panic, no endless wait.
#[tokio::test]
async fn damaged_listings_end() {
    let hadoop = Hadoop::start();
    hadoop.put("/d/f", &data(3 * BLOCK));
    hadoop.put("/d/e/f", &data(10));
    for seed in 0..300_usize {
        let n_calls = AtomicUsize::new(0);
        hadoop.set_quirk(Box::new(move |_, frame| {
            if n_calls.fetch_add(1, Ordering::Relaxed) > 20 {
                return Some(Instead::Last(Vec::new()));
            }
            // Not in the length: that is another test's.
            let at = 4 + seed * 7919 % (frame.len() - 4);
            Some(Instead::Bytes(flipped(frame, at)))
        }));
        let _ = list(&*open(&hadoop.address("/d")).unwrap()).await;
    }
}

/// What the fuzz targets do by the million: messages with damage anywhere are read, or refused.
#[test]
fn damaged_messages_are_read_or_refused() {
    let holder = Message::default().bytes(1, b"10.0.0.1").bytes(2, b"d1").bytes(3, b"uuid").number(4, 9866);
    let block = Message::default().bytes(1, b"BP-1").number(2, 1000).number(3, 7).number(4, 5);
    let block = Message::default()
        .message(1, &block)
        .number(2, 0)
        .message(3, &Message::default().message(1, &holder))
        .number(4, 0)
        .message(5, &Message::default().bytes(1, b"token"));
    let located = Message::default().number(1, 5).message(2, &block).number(3, 0);
    let status =
        Message::default().number(1, 2).bytes(2, b"name").number(3, 5).message(12, &located).number(13, 4);
    let listing = Message::default().message(1, &status).number(2, 0);
    let checksum = Message::default().number(1, 2).number(2, CHUNK as u64);
    let info = Message::default().message(1, &checksum).number(2, 0);
    let answer = Message::default().number(1, 0).message(4, &info).delimited();
    let range = [0, 5, 3, 0xE7];
    let packets =
        [packet(0, false, &data(600)), packet(600, false, &data(405)), packet(1005, true, &[])].concat();
    let of_datanode = [&range[..], &answer, &packets].concat();
    let of_namenode = [&located, &listing, &status].map(|message| Message::default().message(1, message).0);
    let challenge = auth("TOKEN", "DIGEST-MD5", b"realm=\"default\",nonce=\"n\",qop=\"auth\",charset=utf-8");
    let offer = Message::default().number(2, 1).message(4, &challenge);
    let success = Message::default().number(2, 0).bytes(3, b"rspauth=0");
    let header = Message::default().number(1, SASL_ANSWER).number(2, 0).delimited();
    let of_login =
        [offer, success].map(|message| framed(&[header.clone(), message.delimited()].concat())).concat();
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize % below
    };
    assert!(evenkeel_store::hdfs_fuzz::datanode(&of_datanode));
    for round in 0..30_000 {
        let whole = match round % 3 {
            0 => &of_datanode,
            1 => &of_namenode[random(3)],
            _ => &of_login,
        };
        let mut bytes = whole.clone();
        for _ in 0..=random(3) {
            let at = random(bytes.len());
            match random(3) {
                0 => bytes[at] = random(256) as u8,
                1 => bytes.insert(at, random(256) as u8),
                _ => bytes.truncate(at + 1),
            }
        }
        assert!(evenkeel_store::hdfs_fuzz::namenode(&bytes), "{bytes:?}");
        assert!(evenkeel_store::hdfs_fuzz::datanode(&bytes), "{bytes:?}");
        assert!(evenkeel_store::hdfs_fuzz::login(&bytes), "{bytes:?}");
    }
}

/// What is printed by a process of its own that reads everything at an address.
fn read_elsewhere(address: &str, environment: &[(&str, &str)]) -> String {
    let begun = Instant::now();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "hdfs::reading_in_a_process_of_its_own", "--nocapture"])
        .env("EVENKEEL_TEST_ADDRESS", address)
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    assert!(begun.elapsed() < Duration::from_secs(20), "{address}");
    String::from_utf8(output.stdout).unwrap()
}

/// Tokens belong to a process, too.
#[test]
fn tokens_log_in() {
    let hadoop = Hadoop::start();
    hadoop.put("/d/f", &data(10));
    // `identifier` and `password`.
    hadoop.set_login("aWRlbnRpZmllcg==", "cGFzc3dvcmQ=");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    // A file in Java's format.
    let write = |service: &str| {
        let texts = [service, "identifier", "password", "HDFS_DELEGATION_TOKEN", service];
        let texts = texts.iter().flat_map(|text| [&[text.len() as u8], text.as_bytes()].concat());
        std::fs::write(&file, b"HDTS\0\x01".iter().copied().chain(texts).chain([0]).collect::<Vec<_>>())
            .unwrap();
    };
    let conf = ("HADOOP_CONF_DIR", folder.path().to_str().unwrap());
    let location = ("HADOOP_TOKEN_FILE_LOCATION", file.to_str().unwrap());
    let (address, port) = (hadoop.address("/d"), hadoop.namenode.rsplit(':').next().unwrap());
    let expect_at = |address: &str, environment: &[(&str, &str)], expected: &str| {
        let printed = read_elsewhere(address, environment);
        assert!(printed.contains(expected) && !printed.contains("panicked"), "{expected}: {printed}");
    };
    let expect = |expected: &str| expect_at(&address, &[conf, location], expected);
    write(&hadoop.namenode);
    expect("read f");
    expect_at(&format!("hdfs://localhost:{port}/d"), &[conf, location], "read f");
    expect_at(&address, &[conf], "wants Kerberos or a delegation token: fetch one");
    // As addresses of WebHDFS have it, whomever it is for.
    let text = "CmlkZW50aWZpZXIIcGFzc3dvcmQSV0VCSERGUyBkZWxlZ2F0aW9uAXg";
    expect_at(&address, &[conf, ("HADOOP_DELEGATION_TOKEN", text)], "read f");
    expect_at(&address, &[conf, ("HADOOP_DELEGATION_TOKEN", "x")], "cannot use HADOOP_DELEGATION_TOKEN");
    write("elsewhere:8020");
    expect("a delegation token, and those here are for elsewhere:8020");
    std::fs::write(&file, b"HDTS\0\x01\x05").unwrap();
    expect("tokens: it is damaged");
    std::fs::remove_file(&file).unwrap();
    expect("cannot read tokens from");
    // One for all NameNodes of a nameservice, in a file that the configuration names.
    let properties = [
        ("dfs.nameservices", "main"),
        ("dfs.namenode.rpc-address.main", hadoop.namenode.as_str()),
        ("hadoop.token.files", file.to_str().unwrap()),
        ("ipc.client.rpc-timeout.ms", "1000"),
    ];
    let property = |(name, value): &(&str, &str)| {
        format!("<property><name>{name}</name><value>{value}</value></property>")
    };
    let text: String = properties.iter().map(property).collect();
    std::fs::write(folder.path().join("core-site.xml"), format!("<configuration>{text}</configuration>"))
        .unwrap();
    write("ha-hdfs:main");
    expect_at("hdfs://main/d", &[conf], "read f");
    write(&hadoop.namenode);
    // What a NameNode may say instead.
    let instead = |at: usize, bytes: Vec<u8>| {
        hadoop.set_quirk(Box::new(move |part, _| {
            (part == Part::Login { step: at }).then(|| Instead::Bytes(bytes.clone()))
        }));
    };
    let message = |message: &Message| {
        let header = Message::default().number(1, SASL_ANSWER).number(2, 0);
        framed(&[header.delimited(), message.delimited()].concat())
    };
    let offer = |auth: &Message| message(&Message::default().number(2, 1).message(4, auth));
    instead(0, offer(&auth("TOKEN", "DIGEST-MD5", b"realm=x,nonce=y,qop=\"auth-conf\"")));
    expect("protects its calls (hadoop.rpc.protection, auth-conf)");
    instead(0, offer(&auth("KERBEROS", "GSSAPI", b"")));
    expect("takes no delegation token by DIGEST-MD5, only KERBEROS GSSAPI");
    instead(0, offer(&auth("TOKEN", "DIGEST-MD5", &vec![0xFF; 60_000])));
    expect("a challenge that is no text");
    instead(0, (1_u32 << 20).to_be_bytes().to_vec());
    expect("announces an answer of 1048576 bytes");
    instead(0, b"HTTP/1.1 400 Bad Request".to_vec());
    expect("is a web server; name the NameNode's RPC port");
    instead(1, message(&Message::default().number(2, 0).bytes(3, b"rspauth=0")));
    expect("no proof that it knows the token");
    instead(1, message(&Message::default().number(2, 3).bytes(3, b"more")));
    expect("no end of the login");
    let invalid = "org.apache.hadoop.security.token.SecretManager$InvalidToken";
    instead(1, fatal(SASL_ANSWER, invalid, "Token can't be found in cache"));
    expect("the delegation token has expired, was cancelled or is of another cluster; fetch a new one");
    hadoop.set_quirk(Box::new(|_, _| Some(Instead::Silence)));
    expect("does not answer");
    hadoop.set_quirk(Box::new(|_, _| Some(Instead::Last(Vec::new()))));
    expect("closes the connection without an answer; name a NameNode's RPC port");
    hadoop.set_quirk(Box::new(|_, _| None));
    hadoop.set_login("aWRlbnRpZmllcg==", "YW5vdGhlcg==");
    expect("a wrong password");
    // A cluster that takes names, whatever tokens there are.
    let simple = Hadoop::start();
    simple.put("/d/f", &data(10));
    write(&simple.namenode);
    expect_at(&simple.address("/d"), &[conf, location], "read f");
}

/// The same at a real NameNode that gives tokens without Kerberos (`dfs.namenode.delegation.token.always-use`).
#[test]
fn tokens_log_in_at_a_real_namenode() {
    let variable = |name: &str| std::env::var(name).ok();
    let Some((address, web)) = variable("EVENKEEL_TEST_HDFS").zip(variable("EVENKEEL_TEST_HDFS_HTTP")) else {
        println!("skipped: EVENKEEL_TEST_HDFS names no folder; `cargo xtask cluster selftest hdfs` does");
        return;
    };
    let ask = |method: &str, path: &str, query: &str| {
        let url = format!("{web}/webhdfs/v1/{path}?{query}&user.name=root");
        let data = ["-d", "some data", "-H", "Content-Type: application/octet-stream"];
        let args = ["-sS", "--fail", "-L", "-X", method, &url];
        let output = Command::new("curl").args(args).args(data).output().unwrap();
        assert!(output.status.success(), "{url}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let path = address.splitn(4, '/').nth(3).unwrap();
    ask("PUT", &format!("{path}/of-token/f"), "op=CREATE&overwrite=true");
    let told = ask("GET", "", "op=GETDELEGATIONTOKEN");
    let token = told.split('"').nth(5).unwrap_or_else(|| panic!("{told}"));
    let expect = |token: &str, expected: &str| {
        let printed = read_elsewhere(&format!("{address}/of-token"), &[("HADOOP_DELEGATION_TOKEN", token)]);
        assert!(printed.contains(expected), "{expected}: {printed}");
    };
    expect(token, "read f");
    // A letter of the password: what follows it, a kind and a service, is shorter.
    let at = token.len() - 60;
    let other = if &token[at..=at] == "A" { "B" } else { "A" };
    expect(&format!("{}{other}{}", &token[..at], &token[at + 1..]), "a wrong password");
    ask("PUT", "", &format!("op=CANCELDELEGATIONTOKEN&token={token}"));
    expect(token, "has expired, was cancelled or is of another cluster");
}

/// Configurations belong to a process, so that each case has one of its own.
#[test]
fn configurations_are_used() {
    let (first, second) = (Hadoop::start(), Hadoop::start());
    second.put("/d/f", &data(10));
    let folder = tempfile::tempdir().unwrap();
    let property = |(name, value): &(&str, &str)| {
        format!("<property>\n <name>{name}</name><value>{value}</value></property>")
    };
    let configure = |properties: &[(&str, &str)]| {
        let text: String = properties.iter().map(property).collect();
        std::fs::write(folder.path().join("hdfs-site.xml"), format!("<configuration>{text}</configuration>"))
            .unwrap();
    };
    let conf = ("HADOOP_CONF_DIR", folder.path().to_str().unwrap());
    let expect = |address: &str, expected: &str| {
        let printed = read_elsewhere(address, &[conf]);
        assert!(printed.contains(expected), "{address}: {printed}");
    };
    let usual = second.address("");
    configure(&[("fs.defaultFS", usual.as_str())]);
    expect("hdfs:///d", "read f");
    expect("hdfs:///e", "is not there");
    // Two NameNodes, of which the first is not active.
    let pair = [
        ("fs.defaultFS", "hdfs://main"),
        ("dfs.nameservices", "main"),
        ("dfs.ha.namenodes.main", "n1,n2"),
        ("dfs.namenode.rpc-address.main.n1", first.namenode.as_str()),
        ("dfs.namenode.rpc-address.main.n2", second.namenode.as_str()),
        ("ipc.client.rpc-timeout.ms", "1000"),
        ("dfs.client.socket-timeout", "1000"),
    ];
    configure(&pair);
    first.set_quirk(Box::new(|_, frame| {
        Some(Instead::Bytes(exception(frame, 1, "org.apache.hadoop.ipc.StandbyException", "not active")))
    }));
    expect("hdfs://main/d", "read f");
    assert_eq!(first.n_calls(), 1);
    // It is stopped.
    first.set_quirk(Box::new(|_, _| Some(Instead::Silence)));
    expect("hdfs:///d", "read f");
    // The second is not active before it was asked some times.
    first.set_quirk(Box::new(|_, _| Some(Instead::Last(Vec::new()))));
    let n_calls = AtomicUsize::new(0);
    second.set_quirk(Box::new(move |part, frame| {
        let is_standby = matches!(part, Part::Call(_)) && n_calls.fetch_add(1, Ordering::Relaxed) < 3;
        is_standby
            .then(|| Instead::Bytes(exception(frame, 1, "org.apache.hadoop.ipc.StandbyException", "no")))
    }));
    expect("hdfs://main/d", "read f");
    // A DataNode that answers nothing, or stops.
    second.set_quirk(Box::new(|part, _| matches!(part, Part::Answer { .. }).then_some(Instead::Silence)));
    expect("hdfs://main/d", "does not answer");
    second.set_quirk(Box::new(|part, _| matches!(part, Part::Packet { .. }).then_some(Instead::Silence)));
    expect("hdfs://main/d", "does not answer");
    configure(&[&pair[..], &[("dfs.encrypt.data.transfer", "true")]].concat());
    expect("hdfs://main/d", "use webhdfs://");
    std::fs::write(folder.path().join("core-site.xml"), "<configuration>").unwrap();
    expect("hdfs://main/d", "core-site.xml");
}

#[tokio::test]
#[ignore = "run by `read_elsewhere`"]
async fn reading_in_a_process_of_its_own() {
    let address = std::env::var("EVENKEEL_TEST_ADDRESS").unwrap();
    let run = async {
        let source = open(&address)?;
        for object in list(&*source).await? {
            read(&*source, &object, 0, object.bytes).await?;
            println!("read {}", object.key);
        }
        Ok::<_, StoreError>(())
    };
    if let Err(error) = run.await {
        println!("failed: {error}");
    }
}
