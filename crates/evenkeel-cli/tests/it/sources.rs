//! Commands on real storage.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use super::{assert_refused, evenkeel, folder_with, json, printed, stderr, stdout, summary};

/// A folder that may not be listed is reported, and everything else is read.
#[test]
fn a_folder_without_permission_is_reported() {
    let folder = folder_with(&[]);
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("data/locked")).unwrap();
    fs::create_dir(at("to")).unwrap();
    fs::write(at("data/open"), "open").unwrap();
    for (name, mode) in [("data/locked", 0o000), ("to", 0o777), ("", 0o755)] {
        fs::set_permissions(at(name), Permissions::from_mode(mode)).unwrap();
    }
    let args = ["get", "data", "to"];
    let output = if fs::read_dir(at("data/locked")).is_ok() {
        // Whoever runs the tests may list everything, so it is run as somebody else.
        as_nobody(&args, folder.path())
    } else {
        evenkeel(&args, folder.path())
    };
    fs::set_permissions(at("data/locked"), Permissions::from_mode(0o755)).unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(fs::read(at("to/open")).unwrap(), b"open");
    assert!(
        stdout(&output).contains("missing: locked/: data/locked: access is denied"),
        "{}",
        stdout(&output)
    );
    assert!(stderr(&output).contains("data/locked: access is denied"), "{}", stderr(&output));
}

/// Runs a copy of the command, which the others can reach, as a user without rights.
fn as_nobody(args: &[&str], folder: &std::path::Path) -> Output {
    let command = folder.join("evenkeel");
    fs::copy(env!("CARGO_BIN_EXE_evenkeel"), &command).unwrap();
    let setpriv = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    Command::new("setpriv").args(setpriv).arg(command).args(args).current_dir(folder).output().unwrap()
}

/// Two folders with the same three files.
fn mirrors() -> tempfile::TempDir {
    let folder = folder_with(&[]);
    for mirror in ["east", "west"] {
        fs::create_dir_all(folder.path().join(mirror).join("sub")).unwrap();
        for (name, n) in [("a", 3000), ("b", 2000), ("sub/c", 1000)] {
            fs::write(folder.path().join(mirror).join(name), "x".repeat(n)).unwrap();
        }
    }
    folder
}

const MIRRORS: [&str; 6] = ["--mirror", "east", "--mirror", "west", "--trust", "sizes"];

/// Verbs on addresses do what they do with the batch that `locate` makes.
#[test]
fn storage_takes_the_place_of_a_batch() {
    let folder = mirrors();
    let located = [&["locate"], &MIRRORS[..], &["--out", "b.csv", "--json"]].concat();
    assert_eq!(json(&located, folder.path())["requests"], 3);
    for verb in [&["score"][..], &["explain"], &["compare", "--policy", "optimal,first"], &["plan"]] {
        let mut of_batch = json(&[verb, &["b.csv", "--json"]].concat(), folder.path());
        let mut of_storage = json(&[verb, &MIRRORS, &["--json"]].concat(), folder.path());
        for object in [&mut of_batch, &mut of_storage] {
            object.as_object_mut().unwrap().remove("seconds");
            if let Some(policies) = object.get_mut("policies").and_then(|policies| policies.as_array_mut()) {
                policies
                    .iter_mut()
                    .for_each(|policy| drop(policy.as_object_mut().unwrap().remove("seconds")));
            }
        }
        assert_eq!(of_batch, of_storage, "{verb:?}");
    }
    // A folder is an address too, and a plan of storage can be checked.
    assert_eq!(json(&["score", "east", "--json"], folder.path())["lower_bound"], 6000);
    printed(&[&["plan"], &MIRRORS[..], &["--split", "1000", "--out", "plan.csv"]].concat(), folder.path());
    let check = [&["check"], &MIRRORS[..], &["--split", "1000", "plan.csv"]].concat();
    assert!(printed(&check, folder.path()).contains("valid"));
    fs::write(folder.path().join("p.csv"), "process,server\np0,east\np1,west\n").unwrap();
    let assigned = [&["assign"], &MIRRORS[..], &["--processes", "p.csv", "--json"]].concat();
    let assigned = json(&assigned, folder.path());
    assert_eq!((&assigned["tasks"], &assigned["remote_bytes"]), (&3.into(), &0.into()));
    fs::write(folder.path().join("c.csv"), "client,slots\nme,2\n").unwrap();
    let mine = json(&[&["score"], &MIRRORS[..], &["--clients", "c.csv", "--json"]].concat(), folder.path());
    assert_eq!(mine["lower_bound"], 3000);
}

#[test]
fn a_batch_beside_mirrors_is_refused() {
    let folder = mirrors();
    fs::write(folder.path().join("b.csv"), "client,bytes,replicas\n").unwrap();
    let output = evenkeel(&[&["score", "b.csv"], &MIRRORS[..]].concat(), folder.path());
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("a source beside mirrors"), "{}", stderr(&output));
    let nothing = evenkeel(&["score"], folder.path());
    assert_eq!(nothing.status.code(), Some(2));
    assert!(stderr(&nothing).contains("<BATCH>"), "{}", stderr(&nothing));
}

/// A server of XRootD that does not serve HTTP is left out, and said so.
#[test]
fn a_mirror_without_http_is_left_out() {
    let folder = mirrors();
    // Nothing listens at the discard port.
    let args = ["locate", "--mirror", "root://127.0.0.1:9//data/", "--mirror", "east", "--out", "b.csv"];
    let output = evenkeel(&args, folder.path());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("https:// or davs:// address; this mirror is not used"),
        "{}",
        stderr(&output)
    );
    let alone = evenkeel(&["locate", "root://127.0.0.1:9//data/"], folder.path());
    assert_eq!(alone.status.code(), Some(2));
}

/// What is measured can be used by everything that takes a servers file.
#[test]
fn probed_rates_are_a_servers_file() {
    let folder = mirrors();
    let probe =
        [&["probe"], &MIRRORS[..], &["--seconds", "1", "--slots", "3", "--out", "rates.csv", "--json"]];
    let probed = json(&probe.concat(), folder.path());
    let servers = probed["servers"].as_array().unwrap();
    assert_eq!(servers.len(), 2);
    assert!(servers.iter().all(|server| server["rate"].as_u64() > Some(0) && server["error"].is_null()));
    let rates = fs::read_to_string(folder.path().join("rates.csv")).unwrap();
    let rows: Vec<&str> = rates.lines().collect();
    assert_eq!((rows.len(), rows[0]), (3, "server,rate,slots,backlog"));
    assert!(rows[1].starts_with("east,") && rows[1].ends_with(",3,0"), "{rates}");
    let score = [&["score"], &MIRRORS[..], &["--servers", "rates.csv", "--json"]].concat();
    assert!(json(&score, folder.path())["lower_bound_seconds"].as_f64() > Some(0.0));
    let get = [&["get"], &MIRRORS[..], &["--servers", "rates.csv", "--json", "to"]].concat();
    assert_eq!(summary(&get, folder.path())["failed"], 0);
    let alone = [&["probe"], &MIRRORS[..], &["--seconds", "1", "--alone"]].concat();
    assert!(printed(&alone, folder.path()).contains("/s"));
    // A server without data cannot be measured.
    fs::create_dir(folder.path().join("empty")).unwrap();
    fs::write(folder.path().join("empty/nothing"), "").unwrap();
    let output = evenkeel(&["probe", "empty", "--seconds", "1"], folder.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("holds no data"), "{}", stdout(&output));
}

/// A manifest names the replicas of each object, and its checksum finds the one that is wrong.
#[test]
fn a_manifest_is_a_source() {
    let folder = mirrors();
    fs::write(folder.path().join("west/a"), "y".repeat(3000)).unwrap();
    // sha256sum of 3000 times `x`.
    let mut hasher = evenkeel_store::Hasher::new(evenkeel_store::Algorithm::Sha256);
    hasher.update("x".repeat(3000).as_bytes());
    let sha256 = hasher.finish();
    let manifest = format!(
        "key,bytes,replicas,sha256\na,3kB,west/a|east/a,{sha256}\nother/c,1000,file://{}/east/sub/c,\n",
        folder.path().display()
    );
    fs::write(folder.path().join("m.csv"), manifest).unwrap();
    let got = summary(&["get", "--manifest", "m.csv", "to", "--json"], folder.path());
    assert_eq!((&got["failed"], &got["unverified"]), (&0.into(), &1.into()), "{got}");
    assert!(got["damaged"][0].as_str().unwrap().contains("a: its sha-256 is wrong"), "{got}");
    assert_eq!(fs::read_to_string(folder.path().join("to/a")).unwrap(), "x".repeat(3000));
    assert_eq!(fs::read_to_string(folder.path().join("to/other/c")).unwrap(), "x".repeat(1000));
    let located = json(&["locate", "--manifest", "m.csv", "--out", "b.csv", "--json"], folder.path());
    assert_eq!((&located["requests"], &located["servers"]), (&2.into(), &3.into()));
    let wrong: [(&str, &[&str]); 3] = [
        ("key,bytes,replicas\na,1,\n", &["m.csv:2:", "there is no replica"]),
        ("key,bytes,replicas\na,x,b\n", &["m.csv:2:", "`x` is not a size"]),
        ("key,size,replicas\n", &["m.csv:1:", "unknown column `size`"]),
    ];
    for (text, words) in wrong {
        assert_refused(&[("m.csv", text.as_bytes())], &["locate", "--manifest", "m.csv"], words);
    }
}
