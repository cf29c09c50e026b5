//! `evenkeel cat`: each row of a list from the server that it names.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{evenkeel, folder_with, stderr, stdout};

/// Two servers. The copies of an object differ, so that it shows who sent it.
fn storage() -> tempfile::TempDir {
    let manifest = "key,bytes,replicas\na,6,n1/a|n2/a\nb,4,n2/b\n";
    let folder = folder_with(&[("manifest.csv", manifest)]);
    for (path, data) in [("n1/a", "123456"), ("n2/a", "abcdef"), ("n2/b", "ghij")] {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, data).unwrap();
    }
    folder
}

const CAT: [&str; 5] = ["cat", "--manifest", "manifest.csv", "--trust", "sizes"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&CAT[..], more].concat()
}

#[test]
fn rows_come_from_the_servers_that_they_name() {
    let folder = storage();
    let list = "task,path,start,bytes,from\nt,n1/a,2,3,n2/\nt,n1/a,0,6,n1/\nu,n2/b,1,0,n2/\nu,n2/b,1,2,\n";
    fs::write(folder.path().join("list.csv"), list).unwrap();
    let done = evenkeel(&with(&["--list", "list.csv"]), folder.path());
    assert_eq!((done.status.code(), stdout(&done).as_str()), (Some(0), "cde123456hi"));
    let told = stderr(&done);
    assert!(told.contains("rows        4") && told.contains("unverified  11 bytes"), "{told}");
    let done = evenkeel(&with(&["--list", "list.csv", "--out", "data", "--json"]), folder.path());
    assert_eq!(fs::read_to_string(folder.path().join("data")).unwrap(), "cde123456hi");
    let lines: Vec<Value> = stdout(&done).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let events: Vec<&str> = lines.iter().filter_map(|line| line["event"].as_str()).collect();
    assert_eq!(events, ["begun", "read", "read", "read", "read", "summary"]);
    assert_eq!(lines[1]["servers"], serde_json::json!([{"server": "n2/", "bytes": 3}]));
    assert_eq!(lines[5]["servers"][1], serde_json::json!({"server": "n2/", "bytes": 5}));
}

#[test]
fn a_server_that_fails_is_replaced() {
    let folder = storage();
    fs::write(folder.path().join("list.csv"), "task,path,start,bytes,from\nt,n1/a,0,6,n2/\n").unwrap();
    fs::remove_file(folder.path().join("n2/a")).unwrap();
    let done = evenkeel(&with(&["--list", "list.csv"]), folder.path());
    assert_eq!((done.status.code(), stdout(&done).as_str()), (Some(0), "123456"));
    assert!(stderr(&done).contains("note: n2/a: "), "{}", stderr(&done));
    // Nobody has it any more: what came before is not taken for everything.
    fs::remove_file(folder.path().join("n1/a")).unwrap();
    fs::write(folder.path().join("list.csv"), "task,path,start,bytes\nu,n2/b,0,4\nt,n1/a,0,6\nu,n2/b,0,4\n")
        .unwrap();
    let failed = evenkeel(&with(&["--list", "list.csv", "--out", "data"]), folder.path());
    assert_eq!(failed.status.code(), Some(1));
    assert!(stderr(&failed).contains("missing: t: n"), "{}", stderr(&failed));
    assert!(!folder.path().join("data").exists());
    let failed = evenkeel(&with(&["--list", "list.csv"]), folder.path());
    assert_eq!((failed.status.code(), stdout(&failed).as_str()), (Some(1), "ghij"));
}

#[test]
fn lists_of_other_data_are_refused() {
    let folder = storage();
    for (row, expected) in [
        ("t,n1/c,0,1,n1/", "list.csv:2: there is no object `n1/c`; name the sources"),
        ("t,n1/a,0,7,n1/", "list.csv:2: `n1/a` has 6 bytes, but the row ends at 7"),
        ("t,n1/a,0,6,n3/", "list.csv:2: no server is called `n3/`"),
        ("t,n1/a,0", "fields"),
    ] {
        fs::write(folder.path().join("list.csv"), format!("task,path,start,bytes,from\n{row}\n")).unwrap();
        let refused = evenkeel(&with(&["--list", "list.csv", "--out", "data"]), folder.path());
        assert!(
            refused.status.code() == Some(2) && stderr(&refused).contains(expected),
            "{}",
            stderr(&refused)
        );
        assert!(!folder.path().join("data").exists());
    }
}

/// What a command reads is not replaced by what it writes.
#[test]
fn inputs_are_not_overwritten() {
    let folder = storage();
    fs::write(folder.path().join("list.csv"), "task,path,start,bytes\nt,n1/a,0,6\n").unwrap();
    let manifest = fs::read(folder.path().join("manifest.csv")).unwrap();
    let source = ["--manifest", "manifest.csv", "--trust", "sizes", "--out", "manifest.csv"];
    for command in [&["cat", "--list", "list.csv"][..], &["locate"], &["assign"], &["probe"], &["plan"]] {
        let refused = evenkeel(&[command, &source].concat(), folder.path());
        assert_eq!(refused.status.code(), Some(2), "{command:?}");
        assert!(stderr(&refused).contains("it is an input of this command"), "{}", stderr(&refused));
        assert_eq!(fs::read(folder.path().join("manifest.csv")).unwrap(), manifest);
    }
    let get = ["get", "--manifest", "manifest.csv", "--trust", "sizes", "to", "--trace", "manifest.csv"];
    assert_eq!(evenkeel(&get, folder.path()).status.code(), Some(2));
    assert_eq!(fs::read(folder.path().join("manifest.csv")).unwrap(), manifest);
}

/// A master gives a row when the one before is done.
#[test]
fn rows_are_read_as_they_come() {
    let folder = storage();
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel"));
    let cat = command.args(with(&["--list", "-", "--json"])).current_dir(folder.path());
    let mut cat = cat.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut rows = cat.stdin.take().unwrap();
    let mut told = BufReader::new(cat.stderr.take().unwrap()).lines();
    let mut data = cat.stdout.take().unwrap();
    assert!(told.next().unwrap().unwrap().contains("\"begun\""));
    writeln!(rows, "task,path,start,bytes,from").unwrap();
    for (from, expected) in [("n1/", b"123456"), ("n2/", b"abcdef")] {
        writeln!(rows, "t,n1/a,0,6,{from}").unwrap();
        let mut got = [0; 6];
        data.read_exact(&mut got).unwrap();
        assert_eq!(&got, expected);
        assert!(told.next().unwrap().unwrap().contains(&format!("\"server\":\"{from}\"")));
    }
    drop(rows);
    assert!(cat.wait().unwrap().success());
}
