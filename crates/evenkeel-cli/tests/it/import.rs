//! `import`: what other tools print becomes a batch that every other command reads; what does not fit is told, never mixed.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{assert_refused, evenkeel, folder_with, json, plan_and_check, printed, root, stderr, stdout};

/// The batch that an import writes, and its summary.
fn imported(args: &[&str], folder: &Path) -> (String, Value) {
    let summary = json(&[&["import"], args, &["--json", "--out", "batch.csv"]].concat(), folder);
    (fs::read_to_string(folder.join("batch.csv")).unwrap(), summary)
}

/// Kinds of remarks and how often each was made.
fn remarks(summary: &Value) -> Vec<(String, u64)> {
    let remarks = summary["remarks"].as_array().unwrap().iter();
    remarks.map(|r| (r["kind"].as_str().unwrap().to_owned(), r["count"].as_u64().unwrap())).collect()
}

fn expected(remarks: &[(&str, u64)]) -> Vec<(String, u64)> {
    remarks.iter().map(|&(kind, n)| (kind.to_owned(), n)).collect()
}

fn examples() -> Vec<(&'static str, String)> {
    ["fsck.txt", "mirrors.meta4", "s3-eu.csv", "s3-us.csv", "manifest.json", "east.json", "west.json"]
        .map(|name| (name, fs::read_to_string(root().join("examples").join(name)).unwrap()))
        .to_vec()
}

fn folder_with_examples() -> tempfile::TempDir {
    let files = examples();
    folder_with(&files.iter().map(|(name, text)| (*name, &**text)).collect::<Vec<_>>())
}

/// What is imported can be planned, checked and explained as it is.
#[test]
fn every_import_is_a_batch() {
    let folder = folder_with_examples();
    fs::write(folder.path().join("t.csv"), "replicas\ns0;s1\n").unwrap();
    let sources: [&[&str]; 5] = [
        &["hdfs-fsck", "fsck.txt"],
        &["metalink", "mirrors.meta4", "--pieces"],
        &["s3-inventory", "s3-eu.csv", "s3-us.csv", "--manifest", "manifest.json"],
        &["rclone-lsjson", "east=east.json", "west=west.json"],
        &["csv", "t.csv", "--separator", ";"],
    ];
    for source in sources {
        for (format, name) in [("csv", "batch.csv"), ("json", "batch.json")] {
            let args = [&["import"], source, &["--format", format, "--out", name]].concat();
            printed(&args, folder.path());
            plan_and_check(&[name], &[], folder.path());
            printed(&["explain", name], folder.path());
        }
    }
}

#[test]
fn blocks_of_hdfs() {
    let folder = folder_with_examples();
    let hosts = ["--servers-out", "servers.csv", "--clients-out", "clients.csv"];
    let (batch, summary) = imported(&[&["hdfs-fsck", "fsck.txt"], &hosts[..]].concat(), folder.path());
    let rows: Vec<&str> = batch.lines().collect();
    assert_eq!(rows[0], "client,bytes,replicas,chunk");
    assert_eq!(rows[3], "10.0.0.3,134217728,10.0.0.1:9866|10.0.0.4:9866|10.0.0.3:9866,/logs/day 1#2");
    assert_eq!(rows.len(), 7);
    let found = [("empty-file", 1), ("erasure-coded", 1), ("missing-block", 1)];
    assert_eq!((remarks(&summary), &summary["lost"]), (expected(&found), &2.into()));
    let example = serde_json::json!({"name": "/logs/day 3#1", "file": "fsck.txt", "line": 21});
    assert_eq!(summary["remarks"][2]["examples"], serde_json::json!([example]));
    assert!(
        fs::read_to_string(folder.path().join("servers.csv"))
            .unwrap()
            .contains("10.0.0.3:9866,/rack2/10.0.0.3\n")
    );
    assert!(
        fs::read_to_string(folder.path().join("clients.csv")).unwrap().contains("10.0.0.3,/rack2/10.0.0.3\n")
    );
    // With hosts known, nearest needs no hash.
    let score = json(
        &["score", "batch.csv", "--servers", "servers.csv", "--clients", "clients.csv", "--json"],
        folder.path(),
    );
    assert_eq!(score["without_distance"], 0);
}

/// Hadoop 2 with storages, details of replicas, files that are open, corrupt or in snapshots.
#[test]
fn other_listings_of_hdfs() {
    let fsck = "\
FSCK started by hdfs (auth:SIMPLE) from /10.0.0.9 for path /d at Mon Mar 02 09:00:00 UTC 2026
/d <dir>
/d/.snapshot/s0/a 5 bytes, 1 block(s):  OK
0. BP-1:blk_1_1 len=5 repl=1 [h1:50010]

/d/a 5 bytes, 1 block(s):  OK
0. BP-1:blk_1_1 len=5 repl=3 [DatanodeInfoWithStorage[h1:50010,DS-1,DISK](LIVE), DatanodeInfoWithStorage[h2:50010,DS-2,SSD](CORRUPT), DatanodeInfoWithStorage[h3:50010,DS-3,DISK](STALE_NODE)]

/d/open 7 bytes, 2 block(s), OPENFORWRITE:  OK
0. BP-1:blk_2_1 len=5 repl=1 [h1:50010]

Under Construction Block:
1. BP-1:blk_3_1 len=2 Expected_repl=1 [h1:50010]
/d/bad 12 bytes, 2 block(s): \n/d/bad: CORRUPT blockpool BP-1 block blk_4
 CORRUPT 1 blocks of total size 6 B
0. BP-1:blk_4_1 len=6 repl=1 [h1:50010]
1. BP-1:blk_5_1 len=6 repl=2 [h1:50010, h1:50010]

/d/gone 6 bytes, 1 block(s):  OK
0. BP-1:blk_6_1 len=6 repl=1 [h2:50010(DECOMMISSIONED)]

Status: CORRUPT
";
    let folder = folder_with(&[("fsck.txt", fsck)]);
    let (batch, summary) = imported(&["hdfs-fsck", "fsck.txt", "--clients", "2"], folder.path());
    assert_eq!(batch, "client,bytes,replicas,chunk\nw0,5,h1:50010|h3:50010,/d/a#0\nw1,6,h1:50010,/d/bad#1\n");
    let found = [
        ("snapshot", 1),
        ("unusable-replica", 2),
        ("open-file", 1),
        ("corrupt-block", 1),
        ("missing-block", 1),
    ];
    assert_eq!(remarks(&summary), expected(&found));
    let (batch, _) = imported(&["hdfs-fsck", "fsck.txt", "--snapshots"], folder.path());
    assert!(batch.contains("/d/.snapshot/s0/a#0"));
}

#[test]
fn wrong_listings_of_hdfs() {
    let block = "0. BP-1:blk_1_1 len=5 repl=1";
    let cases = [
        (String::new(), "lists no file"),
        ("Status: HEALTHY\n".to_owned(), "-files -blocks -locations"),
        (
            "/a 5 bytes, 1 block(s):  OK\n\nStatus: HEALTHY\n".to_owned(),
            "fsck.txt:1: the blocks of this file are not listed",
        ),
        (
            format!("/a 5 bytes, 2 block(s):  OK\n{block} [h:1]\n"),
            "fsck.txt:1: this file has 2 blocks, but 1 are listed",
        ),
        (
            format!("/a 5 bytes, 1 block(s):  OK\n{block}\n"),
            "fsck.txt:2: the locations of the block are not listed",
        ),
        (format!("{block} [h:1]\n"), "fsck.txt:1: there is a block without a file"),
        ("\n\nPath '/x' does not exist".to_owned(), "fsck.txt:3: fsck failed"),
        (
            format!("/a 9 bytes, 1 block(s):\n{} [h:1]\n", block.replace("=5", "=18446744073709551616")),
            "64 bits",
        ),
        (
            format!("/a 9 bytes, 1 block(s):\n{block} [h;1:1]\n"),
            "fsck.txt:2: `h;1:1` looks like several servers",
        ),
        (format!("/{}", "x".repeat(2 << 20)), "longer than 1 MiB"),
        (
            "/ec 5 bytes, erasure-coded: policy=RS-6-3-1024k, 1 block(s):  OK\n".to_owned(),
            "nothing to read in what was given: 1 erasure-coded file",
        ),
    ];
    for (text, word) in &cases {
        let args = ["import", "hdfs-fsck", "fsck.txt", "--out", "b.csv", "--servers-out", "s.csv"];
        assert_refused(&[("fsck.txt", text.as_bytes())], &args, &[word]);
    }
}

#[test]
fn mirrors_of_both_versions() {
    let version_3 = r#"<?xml version="1.0"?>
<m:metalink version="3.0" xmlns:m="http://www.metalinker.org/"><m:files>
<m:file name="a&amp;b"><m:size>10</m:size>
<m:verification><m:pieces length="4" type="sha1"><m:hash piece="0">1</m:hash><m:hash piece="1">2</m:hash><m:hash piece="2">3</m:hash></m:pieces></m:verification>
<m:resources><m:url type="http" preference="10">http://Slow.org/a</m:url><m:url preference="90">http://me:pw@fast.org:80/a?x=1&amp;y=2</m:url>
<m:url type="bittorrent">magnet:?xt=1</m:url><m:url preference="5">http://fast.org/again</m:url></m:resources></m:file>
<m:file name="unsized"><m:resources><m:url>http://fast.org/</m:url></m:resources></m:file>
<m:file name="nowhere"><m:size>1</m:size></m:file>
</m:files></m:metalink>"#;
    let folder = folder_with(&[("a.metalink", version_3)]);
    let (batch, summary) = imported(&["metalink", "a.metalink", "--pieces"], folder.path());
    let rows: Vec<&str> = batch.lines().skip(1).collect();
    let replicas = "http://fast.org|http://slow.org";
    assert_eq!(
        rows,
        [
            format!("w0,4,{replicas},a&b#0"),
            format!("w1,4,{replicas},a&b#1"),
            format!("w0,2,{replicas},a&b#2"),
        ]
    );
    assert_eq!(remarks(&summary), expected(&[("unusable-url", 1), ("no-size", 1), ("no-mirror", 1)]));
    let (batch, _) = imported(&["metalink", "a.metalink", "--split", "6", "--clients", "me,"], folder.path());
    assert!(batch.ends_with(&format!("me,6,{replicas},a&b#0\nme,4,{replicas},a&b#1\n")), "{batch}");
}

/// Nothing is expanded, nothing is held that does not end.
#[test]
fn hostile_metalinks() {
    let file = |inside: &str| format!("<metalink><file name=\"a\">{inside}</file></metalink>");
    let bomb = "<!DOCTYPE m [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;\">]><metalink><file name=\"x\"><size>&b;</size></file></metalink>";
    let deep = "<metalink>".to_owned() + &"<x>".repeat(100_000);
    let cases = [
        (bomb.to_owned(), "no DOCTYPE"),
        (file("<size>&b;</size>"), "m:1: an entity is used"),
        (deep, "64 deep"),
        (file(&format!("<size>{}</size>", "1".repeat(3 << 20))), "longer than 1 MiB"),
        (file(&format!("<url>{}</url>", "x<!-- -->".repeat(70_000))), "longer than 64 KiB"),
        (format!("<metalink a=\"{}", "x".repeat(3 << 20)), "longer than 1 MiB"),
        (file("<size>-1</size>"), "m:1: the size -1 is negative"),
        ("<metalink>\n<file name=\"a\">".to_owned(), "m:2: the file is cut off"),
        ("<metalink></file></metalink>".to_owned(), "not well-formed"),
        ("<html></html>".to_owned(), "not a Metalink"),
        ("<metalink></metalink><metalink></metalink>".to_owned(), "not a Metalink"),
        ("hello".to_owned(), "not a Metalink"),
        (String::new(), "not a Metalink"),
        ("<metalink><file/></metalink>".to_owned(), "the file has no name"),
        (
            file("<size>9</size><url>http://h/</url><pieces length=\"4\"><hash/></pieces>"),
            "has 3 pieces, but 1 hashes",
        ),
        (
            file("<size>18446744073709551615</size><url>http://h/</url><pieces length=\"1\"></pieces>"),
            "0 hashes",
        ),
    ];
    for (text, word) in &cases {
        let args = ["import", "metalink", "m", "--pieces", "--out", "b.csv"];
        assert_refused(&[("m", text.as_bytes())], &args, &[word]);
    }
    let huge = file("<size>18446744073709551615</size><url>http://h/</url>");
    assert_refused(
        &[("m", huge.as_bytes())],
        &["import", "metalink", "m", "--split", "1"],
        &["m:1", "use larger pieces"],
    );
}

#[test]
fn inventories_of_several_buckets() {
    let folder = folder_with_examples();
    let files = ["s3-inventory", "s3-eu.csv", "s3-us.csv"];
    let (batch, summary) =
        imported(&[&files[..], &["--columns", "Bucket,Key,Size,ETag"]].concat(), folder.path());
    let rows: Vec<&str> = batch.lines().skip(1).collect();
    assert_eq!(rows[0], "w0,67108864,data-eu|data-us,2026/01/day 1.parquet");
    assert_eq!(rows[3], "w1,4096,data-eu,2026/01/index");
    assert_eq!(remarks(&summary), expected(&[("different-copy", 1)]));
    let strict =
        [&["import"], &files[..], &["--manifest", "manifest.json", "--strict", "--out", "strict.csv"]]
            .concat();
    let output = evenkeel(&strict, folder.path());
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("note: 1 copy left out: size or hash is not that of the first"),
        "{}",
        stderr(&output)
    );
    assert!(
        stderr(&output).contains("data-us:2026/01/index (s3-us.csv:3)")
            && stdout(&output).contains("--strict")
    );
    assert!(!folder.path().join("strict.csv").exists());
    // Without the ETag, sizes are all there is.
    let (batch, summary) =
        imported(&[&files[..], &["--columns", "bucket,key,size,-"]].concat(), folder.path());
    assert!(batch.contains("data-eu|data-us,2026/01/index"));
    assert_eq!(remarks(&summary), expected(&[("unverified-copy", 3)]));
}

/// Only what can be read now counts: not older versions, delete markers and archives. Two files can be one inventory.
#[test]
fn versions_and_archives() {
    let columns = "Key,VersionId,IsLatest,IsDeleteMarker,Size,ETag,StorageClass";
    let east_1 = "a%2Bb,1,true,false,5,e1,STANDARD\na%2Bb,0,false,false,4,e0,STANDARD\ngone,2,true,true,,,\n";
    let east_2 =
        "cold,1,true,false,9,e2,DEEP_ARCHIVE\nc,1,true,false,7,e3,STANDARD\nc,1,true,false,7,e3,STANDARD\n";
    let west = "Key,VersionId,IsLatest,IsDeleteMarker,Size,ETag,StorageClass\ncold,1,true,false,9,e2,STANDARD\na%2Bb,9,true,false,5,E1,STANDARD_IA\n";
    let folder = folder_with(&[("e1.csv", east_1), ("e2.csv", east_2), ("w.csv", west)]);
    let files = ["s3-inventory", "east=e1.csv", "east=e2.csv", "west=w.csv", "--columns", columns];
    let (batch, summary) = imported(&files, folder.path());
    let rows: Vec<&str> = batch.lines().skip(1).collect();
    assert_eq!(rows, ["w0,5,east|west,a+b", "w1,7,east,c", "w0,9,west,cold"]);
    let found = [("old-version", 1), ("delete-marker", 1), ("archived-copy", 1), ("listed-twice", 1)];
    assert_eq!(remarks(&summary), expected(&found));
    let (batch, _) = imported(&[&files[..], &["--plain-keys"]].concat(), folder.path());
    assert!(batch.contains("a%2Bb"));
}

#[test]
fn wrong_inventories() {
    let row = b"b,k,5,e\n";
    let cases: [(&[u8], &[&str], &[&str]); 9] = [
        (row, &["--columns", "Bucket,Key,ETag"], &["--columns", "no Size"]),
        (row, &["--columns", "Bucket,Key,Size"], &["i.csv:1", "4 fields, but 3 columns"]),
        (row, &["--columns", "Bucket,Size,Key,ETag"], &["i.csv:1", "right order"]),
        (row, &["--columns", "x,Key,Size,ETag"], &["no column Bucket", "NAME=i.csv"]),
        (b"b,k,5,e\nb,k,5\n", &["--columns", "Bucket,Key,Size,ETag"], &["i.csv:2", "3 fields"]),
        (b",k,5,e\n", &["--columns", "Bucket,Key,Size,ETag"], &["i.csv:1", "no bucket"]),
        (b"b,,5,e\n", &["--columns", "Bucket,Key,Size,ETag"], &["i.csv:1", "key is empty"]),
        (b"\x1F\x8B\x08\x00", &["--columns", "Bucket,Key,Size,ETag"], &["i.csv", "gzip", "zcat"]),
        (b"PAR1", &["--columns", "Bucket,Key,Size,ETag"], &["Parquet", "CSV"]),
    ];
    for (text, columns, words) in cases {
        let args = [&["import", "s3-inventory", "i.csv", "--out", "b.csv"], columns].concat();
        assert_refused(&[("i.csv", text)], &args, words);
    }
    let args = ["import", "s3-inventory", "a|b=i.csv", "--columns", "Bucket,Key,Size,ETag"];
    assert_refused(&[("i.csv", row)], &args, &["i.csv", "has a | in it"]);
}

#[test]
fn listings_of_rclone() {
    let folder = folder_with_examples();
    let (batch, summary) = imported(&["rclone-lsjson", "east=east.json", "west=west.json"], folder.path());
    let rows: Vec<&str> = batch.lines().skip(1).collect();
    assert_eq!(rows, ["w0,2,east,only-east", "w1,5,east|west,x.txt", "w0,4,east,logs/day 1.log"]);
    assert_eq!(remarks(&summary), expected(&[("different-copy", 1)]));
    assert_eq!(summary["remarks"][0]["examples"][0]["line"], 4);
    // Names of hashes in older versions; what has no size, or no hash that both know.
    let old = r#"[{"Path":"x.txt","Size":5,"Hashes":{"MD5":"5D41402ABC4B2A76B9719D911017C592","SHA-1":""}},{"Path":"doc","Size":-1},
{"Path":"only-east","Size":2,"Hashes":{"crc":"1"}},{"Path":"logs/day 1.log","Size":4,"Hashes":null}]"#;
    fs::write(folder.path().join("old.json"), old).unwrap();
    let (batch, summary) = imported(&["rclone-lsjson", "east=east.json", "old=old.json"], folder.path());
    assert!(batch.contains("east|old,x.txt") && batch.contains("east|old,only-east"), "{batch}");
    assert_eq!(remarks(&summary), expected(&[("no-size", 1), ("unverified-copy", 2)]));
}

#[test]
fn wrong_listings_of_rclone() {
    let many = (0..100).map(|k| format!("\"h{k}\":\"x\",")).collect::<Vec<_>>().concat();
    let cases = [
        ("{}".to_owned(), "a.json:1: invalid type: map, expected a list of files"),
        ("[".to_owned(), "cut off"),
        ("[{\"Path\":\"x\"}]".to_owned(), "missing field `Size`"),
        ("[\n{\"Path\":\"x\",\"Size\":\"5\"}]".to_owned(), "a.json:2"),
        (format!("[{{\"Path\":\"{}\"}}]", "x".repeat(3 << 20)), "longer than 1 MiB"),
        (format!("[{{\"Path\":\"x\",\"Size\":1,\"Hashes\":{{{many}\"z\":\"x\"}}}}]"), "more hashes"),
        ("[] []".to_owned(), "trailing"),
        ("[]".to_owned(), "nothing to read"),
    ];
    for (text, word) in &cases {
        let args = ["import", "rclone-lsjson", "a=a.json", "--out", "b.csv"];
        assert_refused(&[("a.json", text.as_bytes())], &args, &[word]);
    }
    assert_refused(
        &[("a.json", b"[]")],
        &["import", "rclone-lsjson", "a.json"],
        &["the remote is not named", "NAME=a.json"],
    );
}

#[test]
fn any_table() {
    let table = "path\tsize\thosts\treader\nx y\t1kB\ta, b ,a\tr1\nz\t5\t \tr2\nw\t7\tb\tr2\n";
    let folder = folder_with(&[("t.tsv", table)]);
    let map = [
        "csv",
        "t.tsv",
        "--delimiter",
        "tab",
        "--separator",
        ",",
        "--map",
        "replicas=hosts,bytes=size,chunk=path",
    ];
    let (batch, summary) = imported(&map, folder.path());
    assert_eq!(batch, "client,bytes,replicas,chunk\nw0,1000,a|b,x y\nw1,7,b,w\n");
    assert_eq!(remarks(&summary), expected(&[("no-replica", 1)]));
    let (batch, _) = imported(&[&map[..], &["--map", "client=reader"]].concat(), folder.path());
    assert_eq!(batch, "client,bytes,replicas,chunk\nr1,1000,a|b,x y\nr2,7,b,w\n");
    let (batch, _) = imported(&[&map[..], &["--clients", "one-per-host"]].concat(), folder.path());
    assert!(batch.contains("\na,1000,") && batch.contains("\nb,7,"), "{batch}");
    // A batch is a table as well.
    fs::write(folder.path().join("again.csv"), &batch).unwrap();
    assert_eq!(imported(&["csv", "again.csv"], folder.path()).0, batch);
}

#[test]
fn wrong_tables() {
    let cases: [(&[u8], &[&str], &[&str]); 10] = [
        (b"", &[], &["t.csv", "empty", "header"]),
        (b"a,b\n1,2\n", &[], &["t.csv:1", "of a, b", "--map replicas="]),
        (b"a,replicas\n1,s\n", &["--map", "bytes=size"], &["t.csv:1", "no column `size`", "a, replicas"]),
        (b"replicas,replicas\ns,s\n", &[], &["t.csv:1", "twice"]),
        (b"bytes,replicas\nx,s\n", &[], &["t.csv:2", "not a size"]),
        (b"replicas\ns0;s1\n", &[], &["t.csv:2", "several servers", "--separator"]),
        (b"replicas\ns\n", &["--map", "sever=x"], &["no field `sever`", "replicas"]),
        (b"replicas\ns\n", &["--map", "bytes"], &["--map bytes", "WHAT=COLUMN"]),
        (b"replicas\ns\n", &["--delimiter", "xx"], &["--delimiter", "tab"]),
        (b"replicas,who\ns,c\n", &["--map", "client=who", "--clients", "3"], &["both say"]),
    ];
    for (text, extra, words) in cases {
        let args = [&["import", "csv", "t.csv", "--out", "b.csv"], extra].concat();
        assert_refused(&[("t.csv", text)], &args, words);
    }
}

#[test]
fn clients_by_every_rule() {
    let folder = folder_with(&[
        ("t.csv", "chunk,replicas\na,s0|s1\nb,s1\nc,s2\nd,s0\ne,s1\n"),
        ("clients.csv", "client,slots,host\nnode7,2,h\nnode3,1,h\n"),
    ]);
    let dealt = |extra: &[&str]| {
        let (batch, _) = imported(&[&["csv", "t.csv"], extra].concat(), folder.path());
        batch
            .lines()
            .skip(1)
            .map(|row| row.split(',').next().unwrap().to_owned())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(dealt(&[]), "w0 w1 w2 w0 w1");
    assert_eq!(dealt(&["--clients", "2"]), "w0 w1 w0 w1 w0");
    assert_eq!(dealt(&["--clients", "2", "--deal", "contiguous"]), "w0 w0 w1 w1 w1");
    assert_eq!(dealt(&["--clients", "one-per-host"]), "s0 s1 s2 s0 s1");
    assert_eq!(dealt(&["--clients", "b,a"]), "b a b a b");
    assert_eq!(dealt(&["--clients", "clients.csv"]), "node7 node3 node7 node3 node7");
    for (rule, word) in [
        ("0", "write 1 to"),
        ("99999999999", "write 1 to"),
        ("a,a", "client `a` appears twice"),
        (",", "the list is empty"),
        ("", "one-per-host"),
        ("one-per-rack", "neither one-per-host, nor a number"),
    ] {
        let args = ["import", "csv", "t.csv", "--clients", rule];
        assert_refused(&[("t.csv", b"replicas\ns\n")], &args, &[word]);
    }
    let args = ["import", "csv", "t.csv", "--clients", "3", "--clients-out", "c.csv"];
    assert_refused(&[("t.csv", b"replicas\ns\n")], &args, &["--clients-out needs --clients one-per-host"]);
    let args = ["import", "csv", "t.csv", "--out", "x", "--servers-out", "x"];
    assert_refused(&[("t.csv", b"replicas\ns\n")], &args, &["same file"]);
    let args = ["import", "csv", "t.csv", "--out", "t.csv"];
    assert_refused(&[("t.csv", b"replicas\ns\n")], &args, &["is an input"]);
    assert_refused(&[], &["import", "csv", "-", "-"], &["only be read once"]);
}

/// Names that would not stay in their line are encoded, and the batch can be read.
#[test]
fn odd_names() {
    let table = "chunk,replicas\n\" a\nb \",s0\n\"quoted \"\"c\"\", d\",s0\n";
    let folder = folder_with(&[("t.csv", table)]);
    let (batch, _) = imported(&["csv", "t.csv"], folder.path());
    assert_eq!(batch, "client,bytes,replicas,chunk\nw0,1,s0,%20a%0Ab%20\nw0,1,s0,\"quoted \"\"c\"\", d\"\n");
    plan_and_check(&["batch.csv"], &[], folder.path());
}
