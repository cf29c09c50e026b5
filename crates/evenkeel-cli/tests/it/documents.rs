//! Every command that the documents show is run, as it stands, and prints what they show.
//!
//! In a `console` block a line that begins with `$ ` is a command, and the lines up to the next one its output. The
//! commands of a document run one after the other in one folder that holds nothing but the `examples`. `[..]` stands for anything in a line.
//! Web addresses lead to servers of the test, which `sites` makes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::bucket::{Buckets, Guard};
use super::hadoop::Hadoop;
use super::namenode::Cluster;
use super::root;
use super::web::{proxied, serve};

#[test]
fn the_readme() {
    assert!(run_document(&root().join("README.md")) >= 5);
}

#[test]
fn the_other_documents() {
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "md") {
            run_document(&path);
        }
    }
}

/// The examples that `--help` gives work as they stand.
#[test]
fn the_examples_in_the_help() {
    let folder = tempfile::tempdir().unwrap();
    copy_examples(folder.path());
    bash(
        "evenkeel generate | gzip > batch.csv.gz; evenkeel generate --format json --out batch.json;
        (echo server; printf 's%d\\n' {0..999}) > servers.csv;
        printf 'app,server,read,shuffle\\na,s0,1,0\\nb,s0,1,5\\n' > queue.csv;
        printf 'object,offset,bytes\\n17,0,4194304\\n' > writes.csv;
        mkdir east west; seq 1000 > east/numbers; cp east/numbers west;
        printf 'key,bytes,replicas\\nnumbers,3893,east/numbers|west/numbers\\n' > manifest.csv;
        (echo server,speed; printf 'osd.%d,1\\n' {0..5}) > osds.csv;
        printf 'task,bytes,replicas\\nt0,1,s0|s1\\n' > tasks.csv; printf 'process,server\\np0,s0\\n' > procs.csv",
        folder.path(),
    );
    let mut n_run = 0;
    for command in [
        "generate",
        "plan",
        "check",
        "score",
        "explain",
        "apply",
        "assign",
        "cat",
        "collective",
        "place",
        "compare",
        "simulate",
        "reproduce",
        "demo",
        "get",
        "replay",
        "locate",
        "probe",
        "balance",
        "import",
        "import hdfs-fsck",
        "import metalink",
        "import s3-inventory",
        "import rclone-lsjson",
        "import csv",
        "",
    ] {
        for example in examples(command, folder.path()) {
            // The tests of `reproduce` run these, or shorter ones: they take a while.
            if example != "evenkeel reproduce --quick" && !example.starts_with("evenkeel reproduce --live") {
                bash(&example, folder.path());
                n_run += 1;
            }
        }
    }
    assert!(n_run > 10, "{n_run}");
}

/// The examples in the help of a command.
fn examples(command: &str, folder: &Path) -> Vec<String> {
    let help = bash(&format!("evenkeel {command} --help"), folder);
    let indented = help.lines().filter_map(|line| line.strip_prefix("  "));
    let examples = indented.filter(|line| line.starts_with("evenkeel ") || line.starts_with("zcat "));
    // What follows two blanks is a remark.
    examples.filter_map(|line| Some(line.split("  ").next()?.to_owned())).collect()
}

/// The commands of the page on S3 find two stores, each with a key of its own, and what they hold is the same.
fn stores() -> [(&'static str, Buckets); 2] {
    [("EAST", "GKeast"), ("WEST", "GKwest")].map(|(name, key_id)| {
        let guard = Guard { key_id: key_id.to_owned(), region: "us-east-1".to_owned(), public: "public/" };
        let buckets = Buckets::start(1000, Some(guard), None);
        for object in ["data/2026/numbers", "data/2026/squares", "public/squares"] {
            let power = if object.ends_with("squares") { 2 } else { 1 };
            let lines: Vec<String> = (0..100_000_u64).map(|n| format!("{}\n", n.pow(power))).collect();
            buckets.put(object, lines.concat());
        }
        (name, buckets)
    })
}

/// What is in HDFS, for the page on it: in blocks of 64 KiB, each at two DataNodes.
fn in_hdfs() -> [(&'static str, Vec<u8>); 3] {
    let lines =
        |n: u64, power: u32| (0..n).flat_map(move |n| format!("{}\n", n.pow(power)).into_bytes()).collect();
    [
        ("/data/2026/numbers", lines(100_000, 1)),
        ("/data/2026/squares", lines(100_000, 2)),
        ("/data/a b+c%20#ü", lines(10, 1)),
    ]
}

/// The page on HDFS, with a real one: `EVENKEEL_TEST_HDFS_HTTP` says where files are written.
#[test]
fn the_page_on_hdfs_with_a_real_one() {
    let variable = |name: &str| std::env::var(name).ok();
    let Some((address, web)) = variable("EVENKEEL_TEST_HDFS").zip(variable("EVENKEEL_TEST_HDFS_HTTP")) else {
        println!("skipped: EVENKEEL_TEST_HDFS names no folder; `cargo xtask cluster selftest hdfs` does");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for (path, data) in in_hdfs() {
        fs::write(folder.path().join("file"), data).unwrap();
        let path = path.replace('%', "%25").replace('#', "%23").replace(' ', "%20").replace('+', "%2B");
        let query = "op=CREATE&overwrite=true&blocksize=65536&user.name=root";
        bash(&format!("curl -sS -L --fail -T file '{web}/webhdfs/v1{path}?{query}'"), folder.path());
    }
    let namenode = address.trim_start_matches("hdfs://").split('/').next().unwrap().to_owned();
    assert!(run_document_with(&root().join("docs/hdfs.md"), &[("NAMENODE", &namenode)]) >= 5);
}

/// The commands of the page on HDFS over HTTP find a small cluster.
fn cluster() -> Cluster {
    let cluster = Cluster::start(true);
    for (name, bytes) in [("numbers", 150_000), ("squares", 50_000)] {
        cluster.put(&format!("data/{name}"), &vec![b'7'; bytes]);
    }
    cluster
}

fn copy_examples(to: &Path) {
    copy_folder(&root().join("examples"), to);
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if path.is_file() {
            fs::copy(path, to).unwrap();
        } else if !path.join("Cargo.toml").exists() {
            // Others are programs of their own.
            copy_folder(&path, &to);
        }
    }
}

/// Runs all commands of a document; returns how many.
fn run_document(path: &Path) -> usize {
    let hadoop = Hadoop::start();
    in_hdfs().iter().for_each(|(path, data)| hadoop.put(path, data));
    run_document_with(path, &[("NAMENODE", &hadoop.namenode)])
}

/// The same with more variables.
fn run_document_with(path: &Path, more: &[(&str, &str)]) -> usize {
    let folder = tempfile::tempdir().unwrap();
    copy_examples(&folder.path().join("examples"));
    let hosts = tempfile::tempdir().unwrap();
    sites(hosts.path());
    let proxy = serve(hosts.path());
    let text = fs::read_to_string(path).unwrap();
    let mut n_commands = 0;
    let stores = stores();
    let mut variables: Vec<(&str, &str)> = proxied(&proxy).to_vec();
    variables.extend(more);
    variables.extend(stores.iter().map(|(name, buckets)| (*name, buckets.server.address.as_str())));
    let cluster = cluster();
    let namenode = cluster.namenode.address.replace("http://", "");
    variables.push(("NAMENODE_HTTP", &namenode));
    for block in text.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap();
        for entry in block.split("$ ").skip(1) {
            let (command, expected) = entry.split_once('\n').unwrap();
            let found = bash_with(command, folder.path(), &variables);
            let (expected, found): (Vec<&str>, Vec<&str>) =
                (expected.trim_end().lines().collect(), found.trim_end().lines().collect());
            let alike =
                expected.len() == found.len() && expected.iter().zip(&found).all(|(e, f)| matches(e, f));
            assert!(
                alike || expected.is_empty(),
                "{}: $ {command}\n--- shown\n{}\n--- printed\n{}",
                path.display(),
                expected.join("\n"),
                found.join("\n")
            );
            n_commands += 1;
        }
    }
    n_commands
}

/// The web servers that documents name: mirrors of one data set, grid storage, and a server that names mirrors of a file.
fn sites(folder: &Path) {
    let numbers = (1..=300_000).map(|n| n.to_string()).collect::<Vec<_>>().join("\n") + "\n";
    for host in [
        "east.example.org",
        "west.example.org",
        "xrootd.example.org",
        "dcache.example.org",
        "token.example.org",
    ] {
        let data = folder.join(host).join("data");
        fs::create_dir_all(data.join("sub")).unwrap();
        fs::write(data.join("numbers"), &numbers).unwrap();
        fs::write(data.join("sub/few"), "1\n2\n3\n").unwrap();
    }
    for host in ["digest.example.org", "one.example.org", "two.example.org"] {
        fs::create_dir_all(folder.join(host)).unwrap();
        fs::write(folder.join(host).join("disk.iso"), &numbers).unwrap();
    }
    // A mirror that is damaged all over.
    fs::write(folder.join("two.example.org/disk.iso"), numbers.replace("00\n", "0o\n")).unwrap();
    let links = "Link: <http://one.example.org/disk.iso>; rel=duplicate; pri=1\n";
    fs::write(folder.join("digest.example.org/disk.iso.headers"), links).unwrap();
}

/// Runs a command line, which must succeed, with `evenkeel` on the path.
fn bash(command: &str, folder: &Path) -> String {
    bash_with(command, folder, &[])
}

/// The same with environment variables set.
fn bash_with(command: &str, folder: &Path, variables: &[(&str, &str)]) -> String {
    let bin = PathBuf::from(env!("CARGO_BIN_EXE_evenkeel"));
    let path = format!("{}:{}", bin.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let output = Command::new("bash")
        .args(["-o", "pipefail", "-c", command])
        .current_dir(folder)
        .env("PATH", path)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    assert!(output.status.success(), "$ {command}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn matches(pattern: &str, line: &str) -> bool {
    let pieces: Vec<&str> = pattern.split("[..]").collect();
    let [first, middle @ .., last] = pieces.as_slice() else { return pattern == line };
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    for piece in middle {
        match rest.split_once(piece) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// The page on Ceph, with a real cluster: `EVENKEEL_TEST_CEPH` is its configuration. What it shows as `sh` is run there.
#[test]
fn the_page_on_ceph_with_a_real_one() {
    let Ok(conf) = std::env::var("EVENKEEL_TEST_CEPH") else {
        println!("skipped: EVENKEEL_TEST_CEPH names no cluster; `cargo xtask cluster selftest ceph` does");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let run = |line: &str| bash(&format!("export CEPH_CONF='{conf}'; {line}"), folder.path());
    let sets = "ceph pg dump pgs_brief -f json 2>/dev/null | python3 -c \"import json, sys; print(sorted(
        (group['pgid'], sorted(group['acting'])) for group in json.load(sys.stdin)['pg_stats']))\"";
    let leaders = "ceph pg dump pgs_brief -f json 2>/dev/null | python3 -c \"import json, sys; print(sorted(
        (group['pgid'], group['acting_primary']) for group in json.load(sys.stdin)['pg_stats']))\"";
    // Objects fall into groups at random: more of them, until there is something to balance and the manager knows of it.
    let changes_after_writing = |_| {
        run("rados bench -p bench 2 write -b 1048576 -t 4 --no-cleanup > /dev/null; sleep 2");
        let told = run("evenkeel balance ceph --weigh bytes --json");
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        told["changes"]["requests"].as_u64().unwrap()
    };
    assert!((0..10).map(changes_after_writing).any(|n| n > 0), "ten times what was written is balanced");
    let (sets_before, leaders_before) = (run(sets), run(leaders));
    let mut changed = false;
    for line in shell_lines("ceph.md") {
        println!("$ {line}");
        run(&line);
        if line.contains("--apply") {
            assert_eq!(run(sets), sets_before, "after {line}: groups have other OSDs");
        }
        changed |= line.contains("--record undo.json") && run(leaders) != leaders_before;
        if line.contains("--undo undo.json --apply") {
            assert_eq!(run(leaders), leaders_before, "not all was taken back");
        }
    }
    assert!(changed, "nothing was changed at all");
}

/// The page on Kafka, with a real cluster: `EVENKEEL_TEST_KAFKA` is one of its brokers.
#[test]
fn the_page_on_kafka_with_a_real_one() {
    let Ok(broker) = std::env::var("EVENKEEL_TEST_KAFKA") else {
        println!("skipped: EVENKEEL_TEST_KAFKA names no broker; `cargo xtask cluster selftest kafka` does");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for line in shell_lines("kafka.md") {
        println!("$ {line}");
        bash(&line.replace("broker1:9092", &broker), folder.path());
    }
}

/// The page on nodes, with nodes of its own.
#[test]
fn the_page_on_nodes() {
    let folder = tempfile::tempdir().unwrap();
    copy_examples(&folder.path().join("examples"));
    let mut up = Command::new(env!("CARGO_BIN_EXE_evenkeel"))
        .args(["up", "--nodes", "4", "--data", "cluster", "--speed", "s3=0.1", "--json"])
        .current_dir(folder.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    BufReader::new(up.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    let (behind, lines): (Vec<String>, Vec<String>) =
        shell_lines("nodes.md").into_iter().partition(|line| line.contains(" --behind "));
    let tried = std::panic::catch_unwind(|| {
        for line in &lines {
            bash(&format!("export EVENKEEL_CLUSTER=cluster/cluster.toml; {line}"), folder.path());
        }
        bash("diff -r examples copy || diff -r examples copy/examples", folder.path());
        // A node in front of another, which serves until it is stopped.
        let first = &serde_json::from_str::<Value>(&ready).unwrap()["endpoints"][0];
        bash("cp cluster/credentials garage.toml; cp cluster/credentials keys.toml", folder.path());
        for line in &behind {
            let line = line.replace("http://10.0.0.3:3900", first.as_str().unwrap());
            let any_ports = ["--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--json"];
            let args: Vec<&str> = line.split_whitespace().skip(1).chain(any_ports).collect();
            let node = super::node::Serving::start(&args, folder.path());
            assert_eq!(node.json()["name"], "s1", "{line}");
        }
        assert!(!behind.is_empty());
        // The examples in the help, in an order in which each finds what it is about.
        bash(
            "mkdir photos; for n in 1 2 3; do seq $n 9999 > photos/$n.jpg; done; seq 9 > a.iso; seq 9 > part",
            folder.path(),
        );
        for command in ["put", "ls", "stat", "status", "maintain", "rm"] {
            let examples = examples(command, folder.path());
            // The cluster is there.
            let examples = examples.iter().filter(|example| !example.starts_with("evenkeel up "));
            let n = examples.inspect(|example| {
                bash(&format!("export EVENKEEL_CLUSTER=cluster/cluster.toml; {example}"), folder.path());
            });
            assert!(n.count() > 0, "{command}");
        }
        bash(
            "diff -r photos copy || diff -r photos copy/photos || (cd photos; for f in *; do cmp $f ../copy/$f; done)",
            folder.path(),
        );
    });
    up.kill().unwrap();
    up.wait().unwrap();
    assert!(tried.is_ok() && ready.contains("\"format\":1"), "{ready}");
}

/// What a page shows as `sh`, line by line.
fn shell_lines(page: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join("docs").join(page)).unwrap();
    let blocks = text.split("```sh\n").skip(1).map(|block| block.split("```").next().unwrap());
    let lines: Vec<String> = blocks.flat_map(str::lines).map(str::to_owned).collect();
    assert!(lines.len() >= 3, "{page}: {lines:?}");
    lines
}
