//! What `explain` advises is done to the files, and the next plan's bound is as promised.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{evenkeel, folder_with, json, printed, stderr, stdout};

/// Batches with a hot spot of some kind.
const GENERATED: [&str; 3] = [
    "--law geometric --ratio 0.7 --copies 2 --bytes 1..64",
    "--law zipf --copies 2 --bytes 1",
    "--law chain --copies 3 --bytes 1..64",
];

const UNEQUAL: &str = "server,speed,slots,backlog\n\
    s0,2,1,9\ns1,1,1,0\ns2,0.5,2,0\ns3,1,1,30\ns4,2.5,1,0\ns5,1,3,0\ns6,1,1,0\ns7,1,1,0\ns8,1,1,5\n\
    s9,10,1,0\ns10,1,1,0\ns11,0.333333,1,0\ns12,1,2,0\ns13,1,1,0\ns14,1,1,100\n";

/// A folder with a generated batch and two servers files.
fn generated(how: &str) -> tempfile::TempDir {
    let rows = (0..15).map(|i| format!("s{i},1,1,0\n"));
    let equal = format!("server,speed,slots,backlog\n{}", rows.collect::<String>());
    let folder = folder_with(&[("unequal", UNEQUAL), ("equal", &equal)]);
    let generate = format!("generate --requests 1500 --servers 15 --clients 200 --out batch {how}");
    printed(&generate.split(' ').collect::<Vec<_>>(), folder.path());
    folder
}

/// Rewrites the batch, a row for the blocks of each copy and one for the rest.
fn copy(at: &Path, block: u64, copies: &Value) {
    let batch = fs::read_to_string(at.join("batch")).unwrap();
    let rows = batch.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    let mut rows: Vec<(String, u64, String)> = rows
        .map(|row| (row[0].to_owned(), row[1].parse::<u64>().unwrap().div_ceil(block), row[2].to_owned()))
        .collect();
    for copy in copies.as_array().unwrap() {
        let (client, left, replicas) = &mut rows[copy["request"].as_u64().unwrap() as usize];
        let [from, to] = ["from", "to"].map(|field| copy[field].as_str().unwrap());
        assert_eq!(copy["client"], *client);
        assert!(replicas.split('|').any(|s| s == from) && !replicas.split('|').any(|s| s == to), "{copy}");
        let blocks = copy["blocks"].as_u64().unwrap();
        *left -= blocks;
        let split_off = (client.clone(), blocks, format!("{replicas}|{to}"));
        rows.push(split_off);
    }
    let rows =
        rows.iter().map(|(client, blocks, replicas)| format!("{client},{},{replicas}\n", blocks * block));
    fs::write(at.join("copied"), format!("client,bytes,replicas\n{}", rows.collect::<String>())).unwrap();
}

/// Makes one of the servers faster.
fn speed_up(at: &Path, servers: &str, advice: &Value) {
    let text = fs::read_to_string(at.join(servers)).unwrap();
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        match advice["server"] == fields[0] {
            true => format!("{},{},{},{}\n", fields[0], advice["speed"], fields[2], fields[3]),
            false => format!("{line}\n"),
        }
    };
    fs::write(at.join("faster"), text.lines().map(row).collect::<String>()).unwrap();
}

/// Explains and follows every advice; the number of those that go as far as was asked.
fn follow(at: &Path, block: u64, servers: &str, extra: &[&str]) -> usize {
    let run = |command: &str, batch: &str, servers: &str| {
        let args = [command, batch, "--json", "--block", &block.to_string(), "--servers", servers];
        json(&[&args[..], extra].concat(), at)
    };
    let bound = |batch: &str, servers: &str| run("plan", batch, servers)["lower_bound"].clone();
    let explain = run("explain", "batch", servers);
    assert_eq!(explain["lower_bound"], bound("batch", servers));
    assert_eq!(explain["subject"], if extra.contains(&"--no-order") { "max_load" } else { "length" });

    let advised = explain["one_more_copy"].as_array().unwrap();
    assert_eq!(advised.iter().map(|advice| &advice["percent"]).collect::<Vec<_>>(), [1, 5, 10]);
    for advice in advised.iter().chain([&explain["copy_of_everything"]]) {
        let blocks = advice["copies"].as_array().unwrap().iter().map(|copy| copy["blocks"].as_u64().unwrap());
        assert_eq!(advice["blocks"], blocks.clone().sum::<u64>());
        if advice["reached"] == true {
            copy(at, block, &advice["copies"]);
            assert_eq!(advice["lower_bound"], bound("copied", servers));
        } else {
            assert_eq!(blocks.count(), 0);
        }
    }
    let advice = &explain["twice_as_fast"];
    if !advice.is_null() {
        speed_up(at, servers, advice);
        assert_eq!(advice["lower_bound"], bound("batch", "faster"));
    }
    advised.iter().filter(|advice| advice["reached"] == true).count()
}

#[test]
fn advice_is_followed_and_the_bound_is_as_promised() {
    let mut n_reached = 0;
    for how in GENERATED {
        let folder = generated(how);
        for (block, servers) in [(1, "equal"), (8, "equal"), (1, "unequal"), (8, "unequal")] {
            for extra in [&[][..], &["--no-order"]] {
                println!("{how} {block} {servers} {extra:?}"); // shown when the test fails
                n_reached += follow(folder.path(), block, servers, extra);
            }
        }
        n_reached += follow(folder.path(), 1, "equal", &["--max-concurrent", "14"]);
    }
    assert!(n_reached > 30, "{n_reached}");
}

#[test]
fn the_file_has_the_same_copies() {
    let folder = generated(GENERATED[0]);
    let at = folder.path();
    let explain = json(&["explain", "batch", "--json", "--out", "copies.csv"], at);
    let mut expected = vec!["percent,request,client,from,to,blocks".to_owned()];
    for advice in explain["one_more_copy"].as_array().unwrap() {
        for copy in advice["copies"].as_array().unwrap() {
            let text = |field: &str| copy[field].to_string().replace('"', "");
            let fields = ["request", "client", "from", "to", "blocks"].map(text);
            expected.push(format!("{},{}", advice["percent"], fields.join(",")));
        }
    }
    assert!(expected.len() > 10);
    assert_eq!(fs::read_to_string(at.join("copies.csv")).unwrap().lines().collect::<Vec<_>>(), expected);
    assert_eq!(explain, json(&["explain", "batch", "--json"], at), "the same again");
}

#[test]
fn people_are_told_the_bottleneck_and_shown_a_chart() {
    let folder = generated(GENERATED[0]);
    let said = |args: &[&str]| printed(&[&["explain", "batch"], args].concat(), folder.path());
    for (extra, bound) in [
        (&[][..], "No plan ends before"),
        (&["--servers", "unequal"], "No plan ends before"),
        (&["--no-order"], "No choice has a smaller load than"),
    ] {
        let text = said(extra);
        for words in [bound, "What would help", "one more copy, for 10 % less", "* = in the bottleneck"] {
            assert!(text.contains(words), "{text}");
        }
        let bars = text.lines().filter(|line| line.contains('█'));
        assert!(bars.clone().count() >= 10 && bars.clone().any(|line| line.starts_with("  * s")), "{text}");
        assert!(text.contains("hold all copies of") || text.contains("holds the only copies of"), "{text}");
        assert!(text.contains("twice as fast"), "{text}");
    }
    let text = said(&["--max-concurrent", "1"]);
    assert!(text.contains("1 transfer at once") && text.contains("no copies do it"), "{text}");
    assert!(text.contains("the limit on concurrent transfers stands"), "{text}");
}

#[test]
fn nothing_is_explained_too() {
    for batch in ["client,bytes,replicas\n", "client,bytes,replicas\nc0,0,s0|s1\n", "{\"requests\":[]}"] {
        let folder = folder_with(&[("batch", batch)]);
        let explain = json(&["explain", "batch", "--json", "--out", "copies.csv"], folder.path());
        assert_eq!((&explain["lower_bound"], &explain["twice_as_fast"]), (&0.into(), &Value::Null));
        let text = printed(&["explain", "batch"], folder.path());
        assert!(text.contains("there is nothing to transfer"), "{text}");
    }
}

#[test]
fn wrong_input_is_refused() {
    let files = [
        ("batch", "client,bytes,replicas\nc0,1,s0\n"),
        ("bad", "client,bytes,replicas\nc0,1,\n"),
        ("servers", "server,speed\ns0,0\n"),
    ];
    let folder = folder_with(&files);
    let cases = [
        ("explain bad", "bad:2"),
        ("explain missing", "missing"),
        ("explain batch --servers servers", "servers:2"),
        ("explain batch --max-concurrent 0", "0"),
        ("explain batch --block 0", "0"),
        ("explain batch --out batch", "an input of this command"),
        ("explain batch --out no/such/folder", "cannot write"),
    ];
    for (args, words) in cases {
        let output = evenkeel(&args.split(' ').collect::<Vec<_>>(), folder.path());
        assert_eq!(output.status.code(), Some(2), "{args}");
        assert!(stderr(&output).contains(words) && stdout(&output).is_empty(), "{args}: {}", stderr(&output));
    }
}
