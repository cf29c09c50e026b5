//! `evenkeel assign` on real storage: tasks from what is there, processes from launchers, and lists for programs.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::namenode::Cluster;
use super::{evenkeel, folder_with, json, printed, stderr, stdout};

/// Three objects on folders that stand for servers.
const MANIFEST: &str = "key,bytes,replicas\na/0,6,n1/a/0|n2/a/0\na/1,6,n1/a/1\nb/0,4,n2/b/0|n1/b/0\n";

fn storage() -> tempfile::TempDir {
    let folder = folder_with(&[("manifest.csv", MANIFEST)]);
    for (path, data) in [
        ("n1/a/0", "zero-a"),
        ("n2/a/0", "zero-a"),
        ("n1/a/1", "one--a"),
        ("n1/b/0", "zero"),
        ("n2/b/0", "zero"),
    ] {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, data).unwrap();
    }
    folder
}

const ASSIGN: [&str; 5] = ["assign", "--manifest", "manifest.csv", "--trust", "sizes"];

fn with(more: &[&'static str]) -> Vec<&'static str> {
    [&ASSIGN[..], more].concat()
}

fn run_with(args: &[&str], folder: &Path, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    command.args(args).current_dir(folder).envs(variables.iter().copied()).stdin(Stdio::null());
    command.output().unwrap()
}

/// Without a list of processes there is one on each server.
#[test]
fn one_process_for_each_server() {
    let folder = storage();
    let out = printed(&with(&["--out", "-"]), folder.path());
    let expected =
        "task,process,local_bytes,remote_bytes,from\na/0,n2/,6,0,n2/\na/1,n1/,6,0,n1/\nb/0,n2/,4,0,n2/\n";
    assert_eq!(out, expected);
    // A file of tasks likewise.
    fs::write(folder.path().join("t.csv"), "task,bytes,replicas\nx,1,s10\ny,1,s9\nz,1,s9|s10\n").unwrap();
    let out = printed(&["assign", "t.csv", "--out", "-"], folder.path());
    assert!(out.contains("x,s10,1,0,s10\ny,s9,1,0,s9\n"), "{out}");
}

#[test]
fn tasks_of_several_objects() {
    let folder = storage();
    fs::write(folder.path().join("globs.csv"), "task,glob\nfirst,a/0|b/\nsecond,a/1\nsecond,*1\n").unwrap();
    let exact = with(&["--inputs", "globs.csv", "--policy", "opass-exact", "--out", "-"]);
    let out = printed(&exact, folder.path());
    let expected = "task,process,local_bytes,remote_bytes,from\nfirst,n2/,10,0,n2/|n2/\nsecond,n1/,6,0,n1/\n";
    assert_eq!(out, expected);
    let summary = json(&with(&["--inputs", "globs.csv", "--json"]), folder.path());
    assert_eq!((&summary["policy"], &summary["tasks"]), (&"opass-multi".into(), &2.into()));
    for (globs, expected) in [
        ("task,glob\nx,a/0\ny,c*\n", "globs.csv:3: no object matches `c*`"),
        ("task,glob\nx,\n", "globs.csv:2: a pattern is missing"),
        ("task,glob\nx,[\n", "`[` is no pattern"),
        ("task\nx\n", "glob"),
    ] {
        fs::write(folder.path().join("globs.csv"), globs).unwrap();
        let refused = evenkeel(&with(&["--inputs", "globs.csv"]), folder.path());
        assert!(
            refused.status.code() == Some(2) && stderr(&refused).contains(expected),
            "{}",
            stderr(&refused)
        );
    }
    fs::write(folder.path().join("globs.csv"), "task,glob\nx,a/0\n").unwrap();
    let left = evenkeel(&with(&["--inputs", "globs.csv"]), folder.path());
    assert!(stderr(&left).contains("2 objects are read by no task"), "{}", stderr(&left));
}

#[test]
fn hosts_come_from_launchers() {
    let folder = storage();
    let slurm = [
        ("SLURM_JOB_NODELIST", "n[1-2]"),
        ("SLURM_TASKS_PER_NODE", "1(x2)"),
        ("SLURM_PROCID", "1"),
        ("SLURM_NTASKS", "2"),
    ];
    fs::write(
        folder.path().join("t.csv"),
        "task,bytes,replicas\nx,1,http://n1:9864\ny,1,http://n2.example.org:9864\nz,1,http://n2.example.org:9864\n",
    )
    .unwrap();
    let args = ["assign", "t.csv", "--processes", "auto", "--out", "-"];
    let found = run_with(&args, folder.path(), &slurm);
    let rows =
        "x,0,1,0,http://n1:9864\ny,1,1,0,http://n2.example.org:9864\nz,1,1,0,http://n2.example.org:9864\n";
    assert_eq!(
        stdout(&found),
        format!("task,process,local_bytes,remote_bytes,from\n{rows}"),
        "{}",
        stderr(&found)
    );
    // Its own part only.
    let mine = run_with(&[&args[..], &["--rank", "auto"]].concat(), folder.path(), &slurm);
    assert_eq!(stdout(&mine).lines().count(), 3, "{}", stdout(&mine));
    assert!(!stdout(&mine).contains("x,0"));
    // Another launcher has started another number.
    let other = [&slurm[..], &[("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "7")]].concat();
    let refused = run_with(&[&args[..], &["--rank", "auto"]].concat(), folder.path(), &other);
    assert!(stderr(&refused).contains("started 7 processes, but there are 2"), "{}", stderr(&refused));
    let refused = run_with(&args, folder.path(), &[]);
    assert!(stderr(&refused).contains("neither Slurm nor PBS"), "{}", stderr(&refused));
    // A machine file, and processes by their hosts.
    fs::write(folder.path().join("hosts"), "n2 slots=2\nn1\n").unwrap();
    let summary = json(&["assign", "t.csv", "--hosts", "hosts", "--json"], folder.path());
    assert_eq!((&summary["processes"], &summary["remote_bytes"]), (&3.into(), &0.into()));
    fs::write(folder.path().join("p.csv"), "process,server\np,n1\nq,n2\nr,elsewhere\n").unwrap();
    let out = printed(&["assign", "t.csv", "--processes", "p.csv", "--out", "-"], folder.path());
    assert!(out.contains("x,p,1,0"), "{out}");
    let refused = evenkeel(&["assign", "t.csv", "--rank", "2"], folder.path());
    assert!(stderr(&refused).contains("there is no rank 2 of 2"), "{}", stderr(&refused));
}

#[test]
fn lists_and_splits() {
    let folder = storage();
    let args = with(&["--lists", "lists", "--splits", "splits.csv", "--out", "out.json", "--format", "csv"]);
    printed(&args, folder.path());
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(read("lists/0.csv"), "task,path,start,bytes,from\na/1,n1/a/1,0,6,n1/\n");
    let second = "task,path,start,bytes,from\na/0,n1/a/0,0,6,n2/\nb/0,n2/b/0,0,4,n2/\n";
    assert_eq!(read("lists/1.csv"), second);
    let splits = "process,path,start,length,hosts\nn1/,n1/a/1,0,6,n1/\nn2/,n1/a/0,0,6,n2/|n1/\nn2/,n2/b/0,0,4,n2/|n1/\n";
    assert_eq!(read("splits.csv"), splits);
    // Lists of another run stay.
    let refused = evenkeel(&args, folder.path());
    assert!(stderr(&refused).contains("it is not empty; name a new folder"), "{}", stderr(&refused));
    let all: Value =
        serde_json::from_str(&printed(&with(&["--out", "-", "--format", "json"]), folder.path())).unwrap();
    assert_eq!(all["processes"][1]["tasks"][0]["inputs"][0]["path"], "n1/a/0");
    assert_eq!(all["processes"][1]["tasks"].as_array().unwrap().len(), 2);
    let one = printed(&with(&["--splits", "-", "--format", "json", "--rank", "0"]), folder.path());
    let one: Value = serde_json::from_str(&one).unwrap();
    assert_eq!(one.as_array().unwrap().len(), 1);
    assert_eq!(one[0]["hosts"], serde_json::json!(["n1/"]));
    // Pieces have the places that they have in the object.
    let pieces = printed(&with(&["--split", "4", "--splits", "-"]), folder.path());
    assert!(pieces.contains("n1/a/1,0,4,n1/\n") && pieces.contains("n1/a/1,4,2,n1/\n"), "{pieces}");
    fs::write(folder.path().join("t.csv"), "task,bytes,replicas\nx,1,s1\n").unwrap();
    let refused = evenkeel(&["assign", "t.csv", "--splits", "-"], folder.path());
    assert!(stderr(&refused).contains("--splits is for tasks on real storage"), "{}", stderr(&refused));
    printed(&["assign", "t.csv", "--lists", "plain"], folder.path());
    assert_eq!(read("plain/0.csv"), "task,bytes,from\nx,1,s1\n");
}

/// The second job reads where the first does not.
#[test]
fn jobs_that_share_servers() {
    let tasks = "task,bytes,replicas\na,4,s0|s1\nb,4,s0|s1\n";
    let folder = folder_with(&[("t.csv", tasks), ("p.csv", "process,server\np,s0\nq,s0\n")]);
    let args = ["assign", "t.csv", "--processes", "p.csv"];
    printed(&[&args[..], &["--served", "served.csv"]].concat(), folder.path());
    assert_eq!(fs::read_to_string(folder.path().join("served.csv")).unwrap(), "server,backlog\ns0,8\ns1,0\n");
    let args = [&args[..], &["--servers", "served.csv"]].concat();
    let summary = json(&[&args[..], &["--json", "--served", "both.csv"]].concat(), folder.path());
    assert_eq!((&summary["local_bytes"], &summary["max_load_bytes"]), (&0.into(), &8.into()));
    assert_eq!(fs::read_to_string(folder.path().join("both.csv")).unwrap(), "server,backlog\ns0,8\ns1,8\n");
    fs::write(folder.path().join("served.csv"), format!("server,backlog\ns0,{}\n", u64::MAX)).unwrap();
    let refused = evenkeel(&args, folder.path());
    assert!(stderr(&refused).contains("served.csv: the sizes add up"), "{}", stderr(&refused));
}

/// Blocks of files in HDFS, and whole files.
#[test]
fn blocks_of_hdfs() {
    let cluster = Cluster::start(true);
    cluster.put("d/x y", &vec![7; 70_000]);
    cluster.put("d/empty", b"");
    let folder = tempfile::tempdir().unwrap();
    let address = cluster.address("d");
    let splits = printed(&["assign", &address, "--splits", "-"], folder.path());
    let path = cluster.address("d/x y");
    for (start, length) in [(0, 30_000), (30_000, 30_000), (60_000, 10_000)] {
        assert!(splits.contains(&format!(",{path},{start},{length},127.0.0.1\n")), "{splits}");
    }
    assert!(splits.contains(&format!(",{},0,0,", cluster.address("d/empty"))), "{splits}");
    let summary = json(&["assign", &address, "--by", "file", "--json"], folder.path());
    assert_eq!((&summary["tasks"], &summary["policy"]), (&2.into(), &"opass-multi".into()));
}
