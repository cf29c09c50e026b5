//! Columns beside who wants what: kept where they count, refused where they would change nothing, passed over if asked for.

use std::fs;

use super::{assert_refused, folder_with, printed};

/// Verbs that plan take all requests to be there at the start, as one job; they say so rather than forget a column.
#[test]
fn arrivals_and_jobs_that_differ_are_not_dropped_silently() {
    let csv = b"client,replicas,arrival,job\nc0,s0,0,a\nc1,s0,10ms,a\n";
    let json = br#"{"requests":[{"client":"c0","replicas":["s0"]},{"client":"c1","replicas":["s0"],"arrival":0.01}]}"#;
    for verb in ["plan", "score", "explain", "compare"] {
        for batch in [&csv[..], json] {
            let words = ["batch", "`arrival`", "different times", "simulate", "--ignore-columns arrival"];
            assert_refused(&[("batch", batch)], &[verb, "batch", "--json"], &words);
        }
        let jobs = b"client,replicas,job\nc0,s0,a\nc1,s0,b\n";
        let words = ["batch", "`job`", "several jobs", "--ignore-columns job"];
        assert_refused(&[("batch", jobs)], &[verb, "batch", "--json"], &words);
    }
    let plan = b"request,client,server,start,blocks\n0,c0,s0,0,1\n1,c1,s0,1,1\n";
    assert_refused(&[("batch", csv), ("plan", plan)], &["check", "batch", "plan"], &["`arrival`"]);
}

/// Where requests have a server today, jobs are pools, which Ceph's own balancer looks at one by one.
#[test]
fn pools_are_planned_together() {
    let row = |pool: &str| format!("c,s0|s1,{pool},s0\n");
    let rows = [row("a"), row("a"), row("b"), row("b")].concat();
    let folder = folder_with(&[("pools.csv", &format!("client,replicas,job,current\n{rows}"))]);
    let run = |args: &str| printed(&args.split(' ').collect::<Vec<_>>(), folder.path());
    assert!(
        run("plan pools.csv --no-order --fewest")
            .contains("changes      2 of 4 requests; the fewest, proved")
    );
    // One of the two groups of each pool; of pools of one group each it would change none.
    assert!(run("score pools.csv --no-order --policy ceph-read").contains("score        1.0000"));
    for verb in ["explain", "compare"] {
        run(&format!("{verb} pools.csv"));
    }
}

/// One arrival, one job: nothing is lost. Names of chunks change no plan.
#[test]
fn columns_that_lose_nothing_are_taken() {
    let folder = folder_with(&[
        ("one.csv", "client,replicas,arrival,job,chunk\nc0,s0|s1,5s,a,x\nc1,s1,5,a,\n"),
        ("two.csv", "client,replicas,arrival,job\nc0,s0|s1,5s,a\nc1,s1,6,b\n"),
    ]);
    let plan = "request,client,server,start,blocks\n0,c0,s0,0,1\n1,c1,s1,0,1\n";
    for args in ["plan one.csv --out plan.csv", "plan two.csv --ignore-columns job,arrival --out plan.csv"] {
        printed(&args.split(' ').collect::<Vec<_>>(), folder.path());
        assert_eq!(fs::read_to_string(folder.path().join("plan.csv")).unwrap(), plan, "{args}");
    }
    printed(&["check", "two.csv", "plan.csv", "--ignore-columns", "arrival,job"], folder.path());
}

#[test]
fn arrivals_are_times() {
    for (arrival, word) in
        [("soon", "`soon`"), ("-1", "`-1`"), ("", "``"), ("1 day", "10ms"), ("1e3", "0.25")]
    {
        let batch = format!("client,replicas,arrival\nc0,s0,{arrival}\n");
        assert_refused(&[("batch", batch.as_bytes())], &["plan", "batch"], &["batch:2", "arrival", word]);
    }
    for arrival in ["-1", "\"soon\"", "[]", "true", "1e300"] {
        let batch = format!(r#"{{"requests":[{{"client":"c","replicas":["s"],"arrival":{arrival}}}]}}"#);
        assert_refused(&[("batch", batch.as_bytes())], &["plan", "batch"], &["batch:1"]);
    }
}

/// Unknown columns are errors that name the nearest known one, in every file that is read.
#[test]
fn unknown_columns_are_named_and_can_be_ignored() {
    let files: [(&str, &[u8]); 9] = [
        ("batch.csv", b"client,byte,replicas\nc0,7,s0\n"),
        ("batch.json", br#"{"requests":[{"client":"c0","replicas":["s0"],"byte":{"a":[7]}}]}"#),
        ("good.csv", b"client,replicas\nc0,s0\n"),
        ("plan.csv", b"request,client,server,start,blocks,byte\n0,c0,s0,0,1,7\n"),
        ("servers.csv", b"server,byte\ns0,7\n"),
        ("tasks.csv", b"task,bytes,replicas,byte\nt,1,s0,7\n"),
        ("procs.csv", b"process,server,byte\np,s0,7\n"),
        ("queue.csv", b"app,server,read,shuffle,byte\na,s0,1,1,7\n"),
        ("writes.csv", b"object,offset,bytes,byte\n1,0,1,7\n"),
    ];
    let commands = [
        ("plan batch.csv", "did you mean `bytes`? The known ones are client, replicas, bytes"),
        ("plan batch.json", "did you mean `bytes`?"),
        ("check good.csv plan.csv", "the known ones are request"),
        ("score good.csv plan.csv", "the known ones are request"),
        ("explain good.csv --servers servers.csv", "The known ones are server, speed"),
        ("compare batch.csv --policy first", "did you mean `bytes`?"),
        ("simulate batch.csv", "did you mean `bytes`?"),
        ("simulate tasks.csv --processes procs.csv", "did you mean `bytes`?"),
        ("assign tasks.csv --processes procs.csv", "did you mean `bytes`?"),
        ("collective queue.csv", "the known ones are app"),
        ("place writes.csv --servers servers.csv", "The known ones are server"),
    ];
    let folder = tempfile::tempdir().unwrap();
    files.iter().for_each(|(name, text)| fs::write(folder.path().join(name), text).unwrap());
    for (command, words) in commands {
        let args: Vec<&str> = command.split(' ').collect();
        assert_refused(&files, &args, &["unknown column `byte`", words, "--ignore-columns"]);
        printed(&[&args[..], &["--ignore-columns", "byte"]].concat(), folder.path());
    }
    let required = ["plan", "good.csv", "--ignore-columns", "client"];
    assert_refused(&files, &required, &["good.csv:1", "`client`", "do not ignore it"]);
}

/// Another separator than | would make one server of several.
#[test]
fn lists_with_other_separators_are_refused() {
    for list in ["s0;s1", "\"s0,s1\"", "s0 s1", "s0; s1", "s0\ts1", "s0|s1;s2", "s0\u{a0}s1"] {
        let batch = format!("client,bytes,replicas\nc0,1,{list}\n");
        let words = ["batch:2", "looks like several servers", "write |", "servers file"];
        assert_refused(&[("batch", batch.as_bytes())], &["plan", "batch"], &words);
        let tasks = format!("task,bytes,replicas\nt0,1,{list}\n");
        let files: [(&str, &[u8]); 2] = [("tasks", tasks.as_bytes()), ("procs", b"process,server\np,s0\n")];
        assert_refused(&files, &["assign", "tasks", "--processes", "procs"], &["tasks:2", "write |"]);
    }
    let names = [
        "host:9866",
        "s3://bucket/a",
        "/rack/host",
        "[::1]:80",
        "a_b-c.d",
        "gs://b?x=1&y=2",
        "héllo",
        "a+b@c",
    ];
    let rows = names.map(|name| format!("c0,{name}|other\n")).concat();
    let folder = folder_with(&[
        ("batch", &format!("client,replicas\n{rows}")),
        ("odd", "client,replicas\nc0,a b|c;d\n"),
        ("servers", "server\na b\nc;d\n"),
    ]);
    printed(&["plan", "batch"], folder.path());
    // Whoever lists such a server means it.
    printed(&["plan", "odd", "--servers", "servers"], folder.path());
}
