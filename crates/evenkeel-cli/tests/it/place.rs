//! `evenkeel place`: where writes go, its figures, and what it refuses.

use std::collections::BTreeSet;
use std::fs;

use super::{evenkeel, folder_with, json, printed, stderr, stdout};

/// Golden G-004.4, figure 9 of paper 004.
const WRITES: &str = "object,offset,bytes\n2,0,12\n3,0,10\n6,0,8\n1,0,6\n4,0,4\n5,0,2\n";
const SERVERS: &str = "server,backlog\ns0,40\ns1,130\ns2,100\ns3,70\ns4,10\n";

#[test]
fn places_and_figures() {
    let folder = folder_with(&[("writes.csv", WRITES), ("servers.csv", SERVERS)]);
    let args = ["place", "writes.csv", "--servers", "servers.csv", "--policy", "mlml", "--threshold", "5"];
    let text = printed(&[&args[..], &["--out", "places.csv", "--json"]].concat(), folder.path());
    let places = fs::read_to_string(folder.path().join("places.csv")).unwrap();
    let wanted = "write,object,server,default\n\
                  0,2,s4,s2\n1,3,s0,s3\n2,6,s3,s1\n3,1,s2,s1\n4,4,s4,s4\n5,5,s4,s0\n";
    assert_eq!(places, wanted);
    let wanted = "{\"format\":1,\"policy\":\"mlml\",\"writes\":6,\"redirected\":5,\"probes\":0,\"max_load\":130,\
                  \"min_load\":28,\"mean_load\":78.4,\"stddev_load\":36.8}\n";
    assert_eq!(text, wanted);
    let text = printed(&args, folder.path());
    assert!(text.contains("6 writes on 5 servers; 5 not on the default server"), "{text}");
    assert!(text.contains("█") && text.contains("s4") && text.contains("rr"), "{text}");
}

/// With `-` the places go to standard output and the summary to standard error; the page stands alone.
#[test]
fn standard_streams_and_the_page() {
    let folder = folder_with(&[("writes.csv", WRITES), ("servers.csv", "server\n\"s,0\"\n")]);
    let args = ["place", "writes.csv", "--servers", "servers.csv", "--out", "-", "--html", "page.html"];
    let output = evenkeel(&args, folder.path());
    assert!(stdout(&output).starts_with("write,object,server,default\n0,2,\"s,0\",\"s,0\"\n"));
    assert!(stderr(&output).contains("6 writes on 1 server;"), "{}", stderr(&output));
    let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("s,0") && !page.contains("http"));
}

/// Every policy puts copies on different servers, and the same seed gives the same bytes.
#[test]
fn every_policy() {
    let rows = (0..300).map(|k| format!("{},{},0\n", k % 7, k % 90));
    let writes = std::iter::once("bytes,object,offset\n".to_owned()).chain(rows).collect::<String>();
    let folder = folder_with(&[("writes.csv", &writes), ("servers.csv", SERVERS)]);
    for policy in evenkeel::policy::placing().map(|(policy, _)| policy.name) {
        let args = ["place", "writes.csv", "--servers", "servers.csv", "--policy", policy, "--replicas", "3"];
        let more: &[&str] = match policy {
            "nltr" => &["--levels", "3", "--threshold", "2", "--window", "50"],
            "mlml" | "trh" => &["--threshold", "2", "--window", "50"],
            _ => &[],
        };
        let args = [&args[..], more, &["--seed", "7"]].concat();
        let summary = json(&[&args[..], &["--json"]].concat(), folder.path());
        assert_eq!((&summary["policy"], &summary["writes"]), (&policy.into(), &300.into()));
        assert_eq!(summary["probes"], if policy == "two-choice" { 1800 } else { 0 });
        let total: u64 = 350 + 3 * (0..300).map(|k| k % 7).sum::<u64>();
        assert!((summary["mean_load"].as_f64().unwrap() - total as f64 / 5.0).abs() < 1e-9);
        let places = || printed(&[&args[..], &["--out", "-"]].concat(), folder.path());
        let first = places();
        assert_eq!(first, places());
        assert_eq!(first.lines().count(), 301);
        let mut n_redirected = 0;
        for line in first.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let copies: BTreeSet<&str> = fields[2].split('|').collect();
            assert_eq!(copies.len(), 3, "{policy}: {line}");
            n_redirected += u64::from(!copies.contains(fields[3]));
        }
        assert_eq!(summary["redirected"], n_redirected, "{policy}");
    }
}

/// Numbers, however they are written, go round robin; other names are hashed. Of equally long writes that to the first name in
/// natural order is placed first, whether names are numbers or not.
#[test]
fn names_of_objects() {
    let numbers = "object,offset,bytes\n10,0,1\n2,0,1\n18446744073709551617,0,1\n007,0,1\n\"a,b\",0,1\n";
    let plain = "object,offset,bytes\n10,0,1\n2,0,1\n";
    let servers = "server,backlog\ns0,0\ns1,10\ns2,20\n";
    let folder = folder_with(&[("names.csv", numbers), ("plain.csv", plain), ("servers.csv", servers)]);
    let places = |file| printed(&["place", file, "--servers", "servers.csv", "--out", "-"], folder.path());
    let text = places("names.csv");
    let rows: Vec<&str> = text.lines().skip(1).collect();
    let default = |k: usize| rows[k].rsplit(',').next().unwrap();
    assert_eq!([0, 1, 2, 3].map(default), ["s1", "s2", "s2", "s1"]);
    assert!(rows[4].starts_with("4,\"a,b\",") && rows[3].starts_with("3,007,"), "{text}");
    assert_eq!(rows[1], "1,2,s0,s2");
    assert_eq!(places("plain.csv"), "write,object,server,default\n0,10,s1,s1\n1,2,s0,s2\n");
}

/// Connections and times of last use come from the servers file.
#[test]
fn hm_lru_reads_the_servers_file() {
    let servers = "server,connections,last_used\na,5,1\nb,2,9\nc,2,4\n";
    let writes = "object,offset,bytes\n0,0,1\n0,1,1\n";
    let folder = folder_with(&[("writes.csv", writes), ("servers.csv", servers)]);
    let args = ["place", "writes.csv", "--servers", "servers.csv", "--policy", "hm-lru", "--out", "-"];
    // Golden G-003.6 first; then c is the last used, and a and b weigh 3 each.
    assert_eq!(printed(&args, folder.path()), "write,object,server,default\n0,0,c,a\n1,0,b,a\n");
    let optimistic = printed(&[&args[..], &["--optimistic"]].concat(), folder.path());
    assert!(optimistic.ends_with("1,0,b,a\n"), "{optimistic}");
}

/// No writes, writes without bytes, twice the same, all equally long; one server, more sections than servers, windows of one
/// write, times that cannot be: every policy has an answer.
#[test]
fn edges() {
    let files = [
        ("none.csv", "object,offset,bytes\n"),
        ("empty.csv", "object,offset,bytes\n0,0,0\n1,0,0\n"),
        ("twice.csv", "object,offset,bytes\n0,5,9\n0,5,9\n"),
        ("equal.csv", "object,offset,bytes\n0,0,5\n1,0,5\n2,0,5\n3,0,5\n"),
        ("one.csv", "server\ns0\n"),
        (
            "three.csv",
            "server,connections,last_used\na,3,18446744073709551615\nb,18446744073709551615,0\nc,0,0\n",
        ),
    ];
    let folder = folder_with(&files);
    for policy in evenkeel::policy::placing().map(|(policy, _)| policy.name) {
        for (writes, n_writes, bytes) in
            [("none.csv", 0, 0.0), ("empty.csv", 2, 0.0), ("twice.csv", 2, 18.0), ("equal.csv", 4, 20.0)]
        {
            for (servers, n_servers) in [("one.csv", 1.0), ("three.csv", 3.0)] {
                let more: &[&str] = match policy {
                    "nltr" => &["--levels", "32", "--window", "1"],
                    "mlml" | "trh" => &["--window", "1"],
                    "hm-lru" => &["--optimistic"],
                    _ => &[],
                };
                let args = ["place", writes, "--servers", servers, "--policy", policy, "--json"];
                let args = [&args[..], more].concat();
                let summary = json(&args, folder.path());
                assert_eq!(summary["writes"], n_writes, "{args:?}");
                let all = summary["mean_load"].as_f64().unwrap() * n_servers;
                assert!((all - bytes).abs() < 1e-6, "{args:?} {summary}");
                let page = printed(&[&args[..], &["--html", "-"]].concat(), folder.path());
                assert!(page.contains("</html>") && !page.contains("NaN"), "{args:?}");
            }
        }
    }
    // Equal lengths are halved between sections, so that nltr does not leave half of the servers alone.
    let args = ["place", "equal.csv", "--servers", "three.csv", "--policy", "nltr", "--resort", "--json"];
    assert_eq!(json(&args, folder.path())["max_load"], 10);
}

/// Where connections differ, hm-lru crowds on who had few; optimistic, it stops when they have as many as others.
#[test]
fn hm_lru_crowds_unless_optimistic() {
    let rows = (0..400).map(|k| format!("{k},0,1\n"));
    let writes = std::iter::once("object,offset,bytes\n".to_owned()).chain(rows).collect::<String>();
    let servers = (0..16).map(|k| format!("s{k},{}\n", if k < 4 { 0 } else { 20 }));
    let servers = std::iter::once("server,connections\n".to_owned()).chain(servers).collect::<String>();
    let folder = folder_with(&[("writes.csv", &writes), ("servers.csv", &servers)]);
    let spread = |extra: &[&str]| {
        let args = ["place", "writes.csv", "--servers", "servers.csv", "--policy", "hm-lru", "--json"];
        json(&[&args[..], extra].concat(), folder.path())["stddev_load"].as_f64().unwrap()
    };
    let (stale, optimistic) = (spread(&[]), spread(&["--optimistic"]));
    assert!(optimistic < stale, "{optimistic} {stale}");
}

/// Shared probes are fewer, and everybody runs to who was light; what is promised counts only if pre-assigned.
#[test]
fn shared_probes() {
    let rows = (0..60).map(|k| format!("{k},0,10\n"));
    let writes = std::iter::once("object,offset,bytes\n".to_owned()).chain(rows).collect::<String>();
    let servers = "server,backlog\ns0,900\ns1,900\ns2,900\ns3,900\ns4,600\n";
    let folder = folder_with(&[("writes.csv", &writes), ("servers.csv", servers)]);
    let run = |extra: &[&str]| {
        let args = ["place", "writes.csv", "--servers", "servers.csv", "--policy", "two-choice", "--json"];
        let summary = json(&[&args[..], extra].concat(), folder.path());
        (summary["max_load"].as_u64().unwrap(), summary["probes"].as_u64().unwrap())
    };
    let usual = run(&[]);
    assert_eq!((usual.1, run(&["--share", "0", "--in-flight", "0"])), (120, usual));
    assert_eq!(run(&["--share", "60", "--pre-assign"]), (usual.0, 5));
    let once = run(&["--share", "60"]);
    assert!(once.1 == 5 && once.0 != usual.0, "{once:?} {usual:?}");
    let in_flight = run(&["--in-flight", "60"]);
    assert_eq!(in_flight, (once.0, 120), "nothing has arrived, so the answers are the first ones");
    assert_eq!(run(&["--in-flight", "60", "--pre-assign"]), usual);
}

#[test]
fn what_is_refused() {
    let header = "object,offset,bytes\n";
    let huge = format!("{header}0,0,18446744073709551615\n");
    let files = [
        ("writes.csv", WRITES),
        ("servers.csv", SERVERS),
        ("none.csv", header),
        ("nobody.csv", "server\n"),
        ("twice.csv", "server\ns0\ns0\n"),
        ("bars.csv", "server\na|b\n"),
        ("short.csv", "object,offset\n1,2\n"),
        ("word.csv", "object,offset,bytes\n1,2,3\n4,5,six\n"),
        ("nameless.csv", "object,offset,bytes\n,2,3\n"),
        ("beyond.csv", "object,offset,bytes\n1,18446744073709551615,1\n"),
        ("huge.csv", &huge),
        ("too_much.csv", &format!("{huge}1,0,1\n")),
    ];
    let folder = folder_with(&files);
    for (args, complaint) in [
        (
            &["writes.csv", "--servers", "servers.csv", "--policy", "optimal"][..],
            "the known ones are rr, mlml, trh, nltr",
        ),
        (
            &["writes.csv", "--servers", "servers.csv", "--replicas", "6"],
            "there are only 5; request fewer copies",
        ),
        (&["writes.csv", "--servers", "servers.csv", "--replicas", "0"], "--replicas"),
        (&["writes.csv", "--servers", "servers.csv", "--window", "0"], "--window"),
        (&["writes.csv", "--servers", "servers.csv", "--levels", "33"], "--levels"),
        (
            &["writes.csv", "--servers", "servers.csv", "--policy", "two-choice", "--pre-assign"],
            "changes nothing without --share or --in-flight",
        ),
        (&["writes.csv", "--servers", "servers.csv", "--policy", "two-choice", "--share", "x"], "--share"),
        (&["writes.csv"], "--servers"),
        (&["-", "--servers", "-"], "only be read once"),
        (&["writes.csv", "--servers", "nobody.csv"], "nobody.csv: there are no servers"),
        (&["writes.csv", "--servers", "twice.csv"], "twice.csv:3: "),
        (&["writes.csv", "--servers", "bars.csv"], "rename it"),
        (&["short.csv", "--servers", "servers.csv"], "short.csv:1: column `bytes` is missing"),
        (&["word.csv", "--servers", "servers.csv"], "word.csv:3: the number of bytes `six` is not a size"),
        (&["nameless.csv", "--servers", "servers.csv"], "nameless.csv:2: "),
        (&["beyond.csv", "--servers", "servers.csv"], "beyond.csv:2: the write ends beyond 2^64 bytes"),
        (&["too_much.csv", "--servers", "servers.csv"], "too_much.csv:3: all bytes so far"),
        (&["huge.csv", "--servers", "servers.csv"], "huge.csv: all copies and backlogs"),
        (&["writes.csv", "--servers", "servers.csv", "--out", "servers.csv"], "is an input of this command"),
        (&["writes.csv", "--servers", "servers.csv", "--out", "-", "--html", "-"], "the same file"),
        (&["absent.csv", "--servers", "servers.csv"], "absent.csv: cannot read it"),
    ] {
        let output = evenkeel(&[&["place"], args].concat(), folder.path());
        assert_eq!(output.status.code(), Some(2), "{args:?} {}", stdout(&output));
        assert!(stderr(&output).contains(complaint), "{args:?}: {}", stderr(&output));
    }
    // Every policy takes the options that concern it, and says so of the others.
    let by_log = &["mlml", "trh", "nltr"][..];
    for (option, policies) in [
        (&["--levels", "2"][..], &["nltr"][..]),
        (&["--threshold", "0"], by_log),
        (&["--window", "200"], by_log),
        (&["--resort"], by_log),
        (&["--share", "0"], &["two-choice"]),
        (&["--in-flight", "0"], &["two-choice"]),
        (&["--share", "1", "--pre-assign"], &["two-choice"]),
        (&["--optimistic"], &["hm-lru"]),
    ] {
        for policy in evenkeel::policy::placing().map(|(policy, _)| policy.name) {
            let args = ["place", "writes.csv", "--servers", "servers.csv", "--policy", policy];
            let output = evenkeel(&[&args[..], option].concat(), folder.path());
            let is_refused = !policies.contains(&policy);
            assert_eq!(output.status.code(), Some(if is_refused { 2 } else { 0 }), "{policy} {option:?}");
            let complaint = format!("{} is for {}, not for {policy}", option[0], policies.join(", "));
            assert_eq!(stderr(&output).contains(&complaint), is_refused, "{}", stderr(&output));
        }
    }
    let none = json(&["place", "none.csv", "--servers", "servers.csv", "--json"], folder.path());
    assert_eq!((&none["writes"], &none["max_load"]), (&0.into(), &130.into()));
}
