//! `evenkeel assign`: its assignment, its figures, and what it refuses.

use std::fs;

use super::{assert_refused, evenkeel, folder_with, json, printed, stderr};

/// Golden G-003.1, with names whose natural order is not their order in the file.
const TASKS: &str = "task,bytes,replicas\nc10,64,s0\nc2,64,s0\nc3,64,s0|s1\nc4,64,s0\n";
const PROCS: &str = "process,server\np0,s0\np1,s1\n";
const ASSIGN: [&str; 4] = ["assign", "tasks.csv", "--processes", "procs.csv"];

#[test]
fn assignment_and_figures() {
    let folder = folder_with(&[("tasks.csv", TASKS), ("procs.csv", PROCS)]);
    let summary = printed(&[&ASSIGN[..], &["--out", "out.csv", "--json"]].concat(), folder.path());
    assert_eq!(
        summary,
        "{\"format\":1,\"policy\":\"opass-single\",\"tasks\":4,\"processes\":2,\"local_bytes\":192,\"remote_bytes\":64,\
         \"bound_local_bytes\":192,\"max_tasks\":2,\"min_tasks\":2,\"max_served_bytes\":192}\n"
    );
    let out = fs::read_to_string(folder.path().join("out.csv")).unwrap();
    assert_eq!(
        out,
        "task,process,local_bytes,remote_bytes,from\nc10,p0,64,0,s0\nc2,p0,64,0,s0\nc3,p1,64,0,s1\nc4,p1,0,64,s0\n"
    );
}

/// Rates are those of all slots together, and only their ratios count.
#[test]
fn slow_servers() {
    let tasks = "task,bytes,replicas\na,64,s0|s1\nb,64,s0|s1\nc,64,s0|s1\nd,64,s0|s1\n";
    let folder = folder_with(&[
        ("tasks.csv", tasks),
        ("procs.csv", PROCS),
        ("speeds.csv", "server,speed\ns1,0.3\n"),
        ("rates.csv", "server,rate,slots\ns0,10MB/s,1\ns1,3MB/s,4\n"),
        ("equal.csv", "server,rate\ns0,10MB/s\ns1,10MB/s\n"),
        ("part.csv", "server,rate\ns1,3MB/s\n"),
    ]);
    let served = |servers| {
        let args = [&ASSIGN[..], &["--servers", servers, "--served", "-"]].concat();
        printed(&args, folder.path())
    };
    assert_eq!(served("speeds.csv"), "server,backlog\ns0,192\ns1,64\n");
    assert_eq!(served("rates.csv"), "server,backlog\ns0,192\ns1,64\n");
    assert_eq!(served("equal.csv"), "server,backlog\ns0,128\ns1,128\n");
    let refused = evenkeel(&[&ASSIGN[..], &["--servers", "part.csv"]].concat(), folder.path());
    let expected =
        "error: part.csv: there is no rate of server `s0`; add its row, or give speeds in place of rates\n";
    assert_eq!((refused.status.code(), stderr(&refused).as_str()), (Some(2), expected));
}

/// Rows of a task need not follow one another; its inputs are in order of rows.
#[test]
fn several_inputs() {
    let tasks = "replicas,task,bytes\ns2|s10,\"a,b\",5\ns1,t,1\ns10,\"a,b\",7\ns1,t,0\n";
    let folder = folder_with(&[("tasks.csv", tasks), ("procs.csv", "server,process\n,far\ns10,near\n")]);
    let out = printed(&[&ASSIGN[..], &["--out", "-"]].concat(), folder.path());
    assert_eq!(
        out,
        "task,process,local_bytes,remote_bytes,from\n\"a,b\",near,12,0,s10|s10\nt,far,0,1,s1|s1\n"
    );
    let summary = json(&[&ASSIGN[..], &["--json"]].concat(), folder.path());
    assert_eq!(summary["policy"], "opass-multi");
    let refused = evenkeel(&[&ASSIGN[..], &["--policy", "opass-single"]].concat(), folder.path());
    assert_eq!(refused.status.code(), Some(2));
    let error = stderr(&refused);
    assert!(
        error.contains("tasks.csv: task `a,b` has several inputs") && error.contains("opass-multi"),
        "{error}"
    );
}

#[test]
fn every_policy() {
    let folder = folder_with(&[("tasks.csv", TASKS), ("procs.csv", PROCS)]);
    for (policy, _) in evenkeel::policy::assignments() {
        let args = [&ASSIGN[..], &["--policy", policy.name]].concat();
        let summary = json(&[&args[..], &["--json"]].concat(), folder.path());
        assert_eq!(summary["policy"], policy.name);
        assert!(summary["local_bytes"].as_u64() <= summary["bound_local_bytes"].as_u64(), "{summary}");
        let text = printed(&args, folder.path());
        assert!(text.contains(&format!("assigned by {}.", policy.name)), "{text}");
        let page = printed(&[&args[..], &["--html", "-"]].concat(), folder.path());
        assert!(page.starts_with("<!doctype html>") && page.contains("Who serves how much"), "{page}");
    }
}

#[test]
fn nothing_to_do() {
    let folder = folder_with(&[("tasks.csv", "task,bytes,replicas\n"), ("procs.csv", "process,server\n")]);
    let text = printed(&ASSIGN, folder.path());
    assert!(text.contains("0 tasks of 0 inputs for 0 processes"), "{text}");
    let page = printed(&[&ASSIGN[..], &["--html", "-"]].concat(), folder.path());
    assert!(page.contains("</html>") && !page.contains("NaN"), "{page}");
}

/// No process on a server's host, or on one without data; more processes than tasks, inputs without bytes, the same input
/// twice: every policy has an answer. A task without inputs cannot be told, as every row is an input.
#[test]
fn odd_work() {
    for (tasks, n_tasks) in [
        ("task,bytes,replicas\n", 0),
        ("task,bytes,replicas\nt,0,s0\nu,0,s0|s1\n", 2),
        ("task,bytes,replicas\nt,5,s0\nu,3,s1\nv,3,s0\n", 3),
        ("task,bytes,replicas\nt,5,s0\nt,5,s0\nu,3,s1\n", 2),
    ] {
        for procs in
            ["process,server\na,\nb,\n", "process,server\na,zzz\nb,s0\n", "process,server\na,\nb,\nc,\nd,\n"]
        {
            let folder = folder_with(&[("tasks.csv", tasks), ("procs.csv", procs)]);
            let names = evenkeel::policy::assignments().map(|(policy, _)| policy.name);
            let is_single = !tasks.contains("t,5,s0\nt,5,s0");
            for name in names.filter(|name| is_single || *name != "opass-single") {
                let summary = json(&[&ASSIGN[..], &["--policy", name, "--json"]].concat(), folder.path());
                assert_eq!(summary["tasks"], n_tasks, "{name} {tasks}");
                let is_local = summary["local_bytes"].as_u64() > Some(0);
                assert!(!is_local || procs.contains("s0"), "{name} {summary}");
            }
        }
    }
}

fn refused(tasks: &[u8], procs: &[u8], extra: &[&str], words: &[&str]) {
    let args = [&ASSIGN[..], &["--out", "out.csv"], extra].concat();
    assert_refused(&[("tasks.csv", tasks), ("procs.csv", procs)], &args, words);
}

#[test]
fn wrong_tasks() {
    let whole: [(&[u8], &[&str]); 4] = [
        (b"", &["tasks.csv: the file is empty", "task,bytes,replicas"]),
        (b"task,bytes\nt,1\n", &["tasks.csv:1", "`replicas` is missing"]),
        (b"task,bytes,replicas,client\n", &["tasks.csv:1", "unknown column `client`"]),
        (b"task,bytes,replicas\nt,1,\xFF\n", &["tasks.csv:2", "UTF-8"]),
    ];
    for (tasks, words) in whole {
        refused(tasks, PROCS.as_bytes(), &[], words);
    }
    let rows: [(&str, &[&str]); 8] = [
        (",1,s0", &["name `` of a task is empty"]),
        ("t,,s0", &["size is missing"]),
        ("t,-1,s0", &["-1 is negative"]),
        ("t,1.5,s0", &["not whole"]),
        ("t,1,", &["no replica", "at least one server"]),
        ("t,1,s0||s1", &["name `` of a server is empty"]),
        ("t,1,s0|s1|s0", &["replica `s0` is named twice"]),
        ("t,18446744073709551615,s0", &["64 bits", "larger units"]),
    ];
    for (row, words) in rows {
        let tasks = format!("task,bytes,replicas\nb,1,s0\n{row}\n");
        refused(tasks.as_bytes(), PROCS.as_bytes(), &[], &[words, &["tasks.csv:3"]].concat());
    }
}

#[test]
fn wrong_processes() {
    let tasks = TASKS.as_bytes();
    refused(tasks, b"", &[], &["procs.csv: the file is empty", "process,server"]);
    refused(tasks, b"process\np\n", &[], &["procs.csv:1", "`server` is missing"]);
    refused(tasks, b"process,server\n", &[], &["procs.csv: there are tasks but no processes"]);
    refused(tasks, b"process,server\np,s0\np,s1\n", &[], &["procs.csv:3", "process `p` appears twice"]);
    refused(tasks, b"process,server\np, s0\n", &[], &["procs.csv:2", "` s0` of a server", "blank"]);
    refused(tasks, b"process,server\n,s0\n", &[], &["procs.csv:2", "name `` of a process is empty"]);
}

#[test]
fn wrong_usage() {
    let (tasks, procs) = (TASKS.as_bytes(), PROCS.as_bytes());
    let known = "rank, opass-single, opass-multi, opass-exact, opass-dynamic";
    refused(tasks, procs, &["--policy", "optimal"], &["no policy `optimal`", known]);
    refused(tasks, procs, &["--html", "out.csv"], &["--out and --html", "same file"]);
    let folder = folder_with(&[("tasks.csv", TASKS), ("procs.csv", PROCS)]);
    let wrong = [
        "--processes procs.csv",
        "tasks.csv --processes procs.csv --hosts procs.csv",
        "tasks.csv --rank -1",
        "tasks.csv --inputs procs.csv",
        "tasks.csv --hosts tasks.csv --out tasks.csv",
        "missing.csv --processes procs.csv",
        "tasks.csv --processes missing.csv",
        "- --processes -",
        "tasks.csv --processes procs.csv --out procs.csv",
        "tasks.csv --processes procs.csv --html tasks.csv",
        "tasks.csv --processes procs.csv --seed 1",
    ];
    for args in wrong {
        let args: Vec<&str> = ["assign"].into_iter().chain(args.split(' ')).collect();
        assert_eq!(evenkeel(&args, folder.path()).status.code(), Some(2), "{args:?}");
    }
    assert_eq!(fs::read_to_string(folder.path().join("procs.csv")).unwrap(), PROCS);
}
