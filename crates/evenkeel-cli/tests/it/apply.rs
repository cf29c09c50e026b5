//! Whatever `explain` advises, `apply` makes, and the plan of that has the bound that was promised.

use std::fs;
use std::path::Path;

use serde_json::{Value, json as value};

use super::{assert_refused, folder_with, json, plan_and_check, printed};

/// Batches, servers and clients that differ in what limits them.
const WORLDS: [(&str, &str, &str); 6] = [
    ("--clients 40 --law geometric --bytes 1..64", "", "1"),
    ("--clients 1 --law uniform --bytes 1..64", "", "1"),
    ("--clients 3 --law zipf --bytes 0..5000", "", "64"),
    ("--clients 3 --law uniform --bytes 1", "--slots 1..3", "1"),
    ("--clients 2 --law uniform --bytes 0..5000", "--speeds 1..4 --backlogs 0..900", "64"),
    ("--clients 40 --law geometric --bytes 1..64", "--speeds 1..4 --slots 1..2 --backlogs 0..20", "8"),
];

fn generate(how: &str, servers: &str, seed: u64, at: &Path) {
    let command = format!(
        "generate --requests 90 --servers 9 --copies 2 --seed {seed} --out batch --servers-out servers {how} {servers}"
    );
    printed(&command.split_whitespace().collect::<Vec<_>>(), at);
    let clients: usize = how.split_whitespace().nth(1).unwrap().parse().unwrap();
    let rows: Vec<String> = (0..clients).map(|i| format!("c{i},{},/r{}/h{i}", 1 + i % 2, i % 3)).collect();
    fs::write(at.join("clients"), format!("client,slots,host\n{}\n", rows.join("\n"))).unwrap();
}

/// Explains, follows everything in the file, and plans what came of it. The names of what was followed.
fn follow(at: &Path, block: &str, files: &[&str], extra: &[&str]) -> Vec<String> {
    let input = [&["batch", "--block", block], files].concat();
    let explain = [&["explain"], &input[..], extra, &["--advice", "advice.json", "--json"]].concat();
    let explained = json(&explain, at);
    let advice: Value = serde_json::from_slice(&fs::read(at.join("advice.json")).unwrap()).unwrap();
    assert_eq!(advice["lower_bound"], explained["lower_bound"]);
    let mut names = Vec::new();
    for advice in advice["advice"].as_array().unwrap() {
        let name = advice["name"].as_str().unwrap();
        let out = ["--out", "new", "--servers-out", "new.servers", "--clients-out", "new.clients", "--json"];
        let apply = [&["apply", "advice.json"], &input[..], &["--take", name], &out].concat();
        let applied = json(&apply, at);
        assert_eq!(applied["lower_bound"], advice["lower_bound"], "{name}");
        assert!(applied["lower_bound"].as_f64() < applied["lower_bound_before"].as_f64(), "{applied}");

        let files = ["--servers", "new.servers", "--clients", "new.clients"];
        let input = [&["new", "--block", block], &files[..]].concat();
        let summary = plan_and_check(&input, extra, at);
        assert_eq!(summary["lower_bound"], advice["lower_bound"], "{name} {explain:?}");
        assert_eq!(summary["bytes"], explained["bytes"], "{name}: no byte is lost");
        names.push(name.to_owned());
    }
    names
}

#[test]
fn every_promise_is_kept() {
    let mut followed = std::collections::BTreeMap::new();
    for (how, servers, block) in WORLDS {
        for seed in 0..2 {
            let folder = folder_with(&[]);
            let at = folder.path();
            generate(how, servers, seed, at);
            println!("{how} {servers} {block} {seed}"); // shown when the test fails
            let all = ["--servers", "servers", "--clients", "clients"];
            for (files, extra) in
                [(&all[..], &[][..]), (&all[..2], &[]), (&[], &[]), (&all[..2], &["--no-order"])]
            {
                for name in follow(at, block, files, extra) {
                    *followed.entry(name).or_insert(0) += 1;
                }
            }
        }
    }
    let every = [
        "client",
        "copies-1",
        "copies-10",
        "copies-5",
        "copies-all",
        "faster-server",
        "slot",
        "slot-each",
        "slots",
        "spread",
    ];
    assert_eq!(followed.keys().collect::<Vec<_>>(), every, "each was followed: {followed:?}");
}

/// At one speed the promise is not only a bound: the plan has that length.
#[test]
fn plans_reach_what_is_promised() {
    for (how, servers, block) in &WORLDS[..3] {
        let folder = folder_with(&[]);
        let at = folder.path();
        generate(how, servers, 7, at);
        printed(&["explain", "batch", "--block", block, "--advice", "advice.json"], at);
        let advice: Value = serde_json::from_slice(&fs::read(at.join("advice.json")).unwrap()).unwrap();
        for advice in advice["advice"].as_array().unwrap() {
            let name = advice["name"].as_str().unwrap();
            if name == "faster-server" {
                continue;
            }
            let apply = ["apply", "advice.json", "batch", "--block", block, "--take", name];
            printed(&[&apply[..], &["--out", "new", "--clients-out", "clients"]].concat(), at);
            let summary = plan_and_check(&["new", "--clients", "clients", "--block", block], &[], at);
            assert_eq!(
                (&summary["length"], &summary["optimal"]),
                (&advice["lower_bound"], &true.into()),
                "{name}"
            );
        }
    }
}

/// Rates stay rates, and what else is told of requests and nodes is kept.
#[test]
fn nothing_else_is_lost() {
    let folder = folder_with(&[
        (
            "batch",
            "chunk,client,bytes,replicas,job,arrival\n\"a,b\",c0,2500kB,s0|s1,j,0.25\nx,c0,3MB,s1,j,0.25\n,c0,1MB,s0,j,0.25\n",
        ),
        ("servers", "server,rate,host,connections,slots\ns0,1MB/s,/r/h0,3,1\ns1,1999999,/r/h1,0,2\n"),
        ("clients", "client,host\nc0,/r/h0\n"),
    ]);
    let at = folder.path();
    let input = ["batch", "--servers", "servers", "--clients", "clients", "--block", "1MB"];
    printed(&[&["explain"], &input[..], &["--advice", "advice"]].concat(), at);
    let apply = |extra: &[&str]| printed(&[&["apply", "advice"], &input[..], extra].concat(), at);
    let said = apply(&["--take", "client", "--out", "new", "--clients-out", "more", "--servers-out", "same"]);
    assert!(said.starts_with("client applied: no plan ends before ") && said.contains("it was"), "{said}");
    let more = fs::read_to_string(at.join("more")).unwrap();
    assert_eq!(more, "client,slots,host\nc0,1,/r/h0\nc0-2,1,\n");
    let same = fs::read_to_string(at.join("same")).unwrap();
    let expected = "server,rate,slots,backlog,host,connections,last_used\n\
        s0,1000000,1,0,/r/h0,3,0\ns1,1999999,2,0,/r/h1,0,0\n";
    assert_eq!(same, expected);
    let new = fs::read_to_string(at.join("new")).unwrap();
    assert!(new.starts_with("client,bytes,replicas,chunk,job,arrival\n"), "{new}");
    assert!(new.contains(",\"a,b\",j,0.25\n") && new.contains(",s0,,j,0.25\n"), "{new}");
    apply(&["--take", "client", "--out", "new.json", "--format", "json", "--clients-out", "-"]);
    let plan = |batch: &str| {
        let input = [batch, "--servers", "same", "--clients", "more", "--block", "1MB"];
        let mut summary = plan_and_check(&input, &[], at);
        summary.as_object_mut().unwrap().remove("seconds");
        summary
    };
    assert_eq!(plan("new"), plan("new.json"));
}

#[test]
fn what_is_refused() {
    let folder = folder_with(&[
        ("batch", "client,replicas\nc0,s0\nc0,s1\nc0,s2\nc1,s0\n"),
        ("other", "client,replicas\nc0,s0\nc0,s1\nc0,s2\nc1,s1\n"),
    ]);
    let at = folder.path();
    printed(&["explain", "batch", "--advice", "advice"], at);
    let advice: Value = serde_json::from_slice(&fs::read(at.join("advice")).unwrap()).unwrap();
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut advice = advice.clone();
        change(&mut advice);
        advice.to_string()
    };
    let slot = |advice: &mut Value, field: &str, to: Value| {
        let slot = advice["advice"].as_array_mut().unwrap().iter_mut().find(|it| it["name"] == "slot");
        slot.unwrap()[field] = to;
    };
    let batch = fs::read(at.join("batch")).unwrap();
    let other = fs::read(at.join("other")).unwrap();
    let cases: [(String, &str, &[&str]); 14] = [
        (
            advice.to_string(),
            "batch",
            &["advice: choose one with --take: faster-server (bound 2.5), slot (bound 2)", "spread"],
        ),
        (advice.to_string(), "batch --take nothing", &["advice", "no advice `nothing`", "spread"]),
        (advice.to_string(), "batch --take slot", &["changes the clients", "--clients-out"]),
        (advice.to_string(), "batch --take spread", &["changes the batch", "--out"]),
        (advice.to_string(), "other --take slot --clients-out x", &["advice slot", "another batch"]),
        (advice.to_string(), "batch --block 7 --take slot --clients-out x", &["--block 1"]),
        (advice.to_string(), "batch --take slot --clients-out x --out ./x", &["the same file"]),
        (advice.to_string(), "batch --take slot --clients-out advice", &["an input of this command"]),
        (
            changed(&|it| slot(it, "lower_bound", 1.into())),
            "batch --take slot --clients-out x",
            &["promises", "explain again"],
        ),
        (
            changed(&|it| slot(it, "clients", value!([{"client": "zz", "slots": 2}]))),
            "batch --take slot --clients-out x",
            &["no client `zz`"],
        ),
        (
            changed(&|it| slot(it, "moves", value!([{"request": 0, "to": "c1", "blocks": 1}]))),
            "batch --take slot --clients-out x",
            &["not one change"],
        ),
        (changed(&|it| it["format"] = 2.into()), "batch --take slot", &["format 2 is unknown"]),
        ("{".to_owned(), "batch", &["advice:1", "explain --advice"]),
        (changed(&|it| it["advice"] = value!([])), "batch", &["nothing lowers the bound"]),
    ];
    for (advice, args, words) in &cases {
        let files: [(&str, &[u8]); 3] = [("advice", advice.as_bytes()), ("batch", &batch), ("other", &other)];
        let args: Vec<&str> = ["apply", "advice"].into_iter().chain(args.split(' ')).collect();
        assert_refused(&files, &args, words);
    }
}

/// Where one client reads from many servers, it is told what slots would bring.
#[test]
fn one_client_with_one_slot() {
    let folder = folder_with(&[
        ("batch", "client,replicas\nc0,s0\nc0,s1\nc0,s2\nc0,s0\nc0,s1\nc0,s2\nc1,s0\n"),
        ("slots", "client,slots\nc0,2\nc1,1\n"),
        ("enough", "client,slots\nc0,3\nc1,1\n"),
        ("even", "client,replicas\nc0,s0\nc0,s1\nc1,s0\nc1,s1\n"),
        ("alone", "client,replicas\nc0,s0\nc0,s0\n"),
        ("two", "client,bytes,replicas\nc0,3,s0\nc0,3,s1\nc1,3,s2\nc1,3,s3\n"),
    ]);
    let said = |args: &str| printed(&args.split(' ').collect::<Vec<_>>(), folder.path());
    let hint = "client c0 does one transfer at a time; with 2 slots (column slots in --clients) the bound would be 3 slots";
    for (command, start) in [
        ("plan batch", "  hint         "),
        ("score batch", "Hint: "),
        ("score batch --policy first", "  hint         "),
    ] {
        let text = said(command);
        assert!(text.contains(&format!("{start}{hint}")), "{text}");
    }
    let text = said("plan two");
    assert!(text.contains("2 clients do too few transfers at once; with up to 2 slots each"), "{text}");
    assert!(text.contains("the bound would be 3 B at one server's speed"), "{text}");
    for command in [
        "plan batch --clients slots",
        "plan batch --clients enough",
        "plan even",
        "plan alone",
        "plan batch --no-order",
    ] {
        let text = said(command);
        assert!(!text.contains("hint"), "{command}: {text}");
    }
    let text = said("explain batch");
    for words in ["2 slots for client c0", "one more client, c0-2", "work spread over all clients", "-50.0 %"]
    {
        assert!(text.contains(words), "{text}");
    }
    assert!(text.contains("Copies alone do not go below 6: client c0 needs that long."), "{text}");
    let explained = json(&["explain", "batch", "--json"], folder.path());
    assert_eq!(
        explained["for_clients"][0],
        value!({"advice": "slot", "lower_bound": 3, "clients": 1, "slots": 2})
    );
}
