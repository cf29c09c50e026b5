//! Wrong input: a clear error that names the place, exit status 2, nothing written.

use std::fs;
use std::path::Path;

use super::{assert_refused, evenkeel, folder_with, names_in, plan_and_check, stderr, stdout};

/// Plans `batch` and expects a refusal that says all of `words`; nothing may be written.
fn refused(batch: &[u8], extra: &[&str], words: &[&str]) {
    let args = [&["plan", "batch", "--out", "plan.csv", "--json"], extra].concat();
    assert_refused(&[("batch", batch)], &args, words);
}

#[test]
fn wrong_csv() {
    let cases: [(&[u8], &[&str]); 30] = [
        (b"", &["empty", "header"]),
        (b"\xEF\xBB\xBF", &["empty", "header"]),
        (b"c0,1,s0|s1\n", &["batch:1", "unknown column `c0`"]),
        (b"client,bytes\nc0,1\n", &["batch:1", "`replicas` is missing"]),
        (b"client,client,replicas\nc,c,s\n", &["batch:1", "`client` appears twice"]),
        (b"client,replicas,colour\nc,s,red\n", &["batch:1", "unknown column `colour`"]),
        (b"client,bytes,replicas\nclient,bytes,replicas\n", &["batch:2", "header appears twice"]),
        (b"client,replicas\nclient,replicas\n", &["batch:2", "header appears twice"]),
        (b"client,bytes,replicas\nc,1,s\nc,-1,s\n", &["batch:3", "-1 is negative"]),
        (b"client,bytes,replicas\nc,1.5,s\n", &["batch:2", "not whole"]),
        (b"client,bytes,replicas\nc,18446744073709551616,s\n", &["batch:2", "64 bits"]),
        (b"client,bytes,replicas\nc,18446744073709551615,s\nc,1,s\n", &["batch:3", "add up", "64 bits"]),
        (b"client,bytes,replicas\nc,,s\n", &["batch:2", "size is missing"]),
        (b"client,bytes,replicas\nc,1,\n", &["batch:2", "no replica"]),
        (b"client,bytes,replicas\nc,1,s||t\n", &["batch:2", "name `` of a server is empty"]),
        (b"client,bytes,replicas\nc,1,s|t|s\n", &["batch:2", "`s` is named twice"]),
        (b"client,bytes,replicas\n,1,s\n", &["batch:2", "name `` of a client is empty"]),
        (b"client,bytes,replicas\nc,1,\xFF\n", &["batch:2", "UTF-8"]),
        (b"client,bytes,replicas\nc,1\n", &["batch:2", "2 fields", "first row has 3"]),
        (b"client,replicas,arrival\nc,s,soon\n", &["batch:2", "arrival `soon`"]),
        (b"\x00\x01\x02", &["unknown column `\\0\\u{1}"]),
        (b"client,bytes,replicas\nc0,1,\"s0\nc1,1,s1\nc2,1,s0\n", &["quote"]),
        (b"client,bytes,replicas\nc0,1,\"s0\nc1,1,s1\nc2,1,\"s0\n", &["batch:4", "line break"]),
        (b"client,bytes,replicas\nc0,1,s0\"\n", &["quote"]),
        (b"client,bytes,replicas\nc0,1,s0 | s1\n", &["batch:2", "`s0 `", "blank"]),
        (b"client,bytes,replicas\r\nc,1,s\r\n\r\n\r\nc,x,s\r\n", &["batch:5", "`x`"]),
        (b"\n\nclient,bytes,replicas\nc,1,s\n\nc,x,s", &["batch:6", "`x`"]),
        (b"client,bytes,replicas\rc,1,s\rc,x,s\r", &["batch:3", "`x`"]),
        (b"client,bytes,replicas\r\nc,1,s\r\nc,1\r\n", &["batch:3", "2 fields"]),
        (b"c\x1b[31mlient,bytes,replicas\n", &["unknown column `c\\u{1b}[31mlient`"]),
    ];
    for (batch, words) in cases {
        refused(batch, &[], words);
    }
}

#[test]
fn wrong_json() {
    let cases: [(&[u8], &[&str]); 15] = [
        (b"{", &["batch:1", "cut off"]),
        (br#"{"requests":[{"client":"c","replicas":["s"]},"#, &["batch:1", "cut off"]),
        (b"{\n\"requests\":[{\"client\":\"c\",\"replicas\":[\"s\"]", &["batch:2", "cut off"]),
        (b"{}", &["missing field `requests`"]),
        (br#"{"requests":[],"colour":1}"#, &["unknown field `colour`"]),
        (br#"{"requests":[{"client":"c","bytes":-1,"replicas":["s"]}]}"#, &["-1"]),
        (br#"{"requests":[{"client":"c","bytes":0.5,"replicas":["s"]}]}"#, &["0.5"]),
        (br#"{"requests":[{"client":"c","bytes":18446744073709551616,"replicas":["s"]}]}"#, &["batch:1"]),
        (br#"{"requests":[{"client":"c","replicas":[]}]}"#, &["no replica"]),
        (br#"{"requests":[{"client":"c","replicas":["s","s"]}]}"#, &["`s` is named twice"]),
        (br#"{"servers":["t"],"requests":[{"client":"c","replicas":["s"]}]}"#, &["server `s`", "not among"]),
        (br#"{"requests":[{"client":"c","replicas":["s"]}],"servers":["t"]}"#, &["server `s`", "not among"]),
        (br#"{"requests":[]} {"requests":[]}"#, &["trailing"]),
        (br#"{"servers":["s"],"servers":["t"],"requests":[]}"#, &["`servers` appears twice"]),
        (br#"{"servers":["s","s"],"requests":[]}"#, &["server `s` appears twice"]),
    ];
    for (batch, words) in cases {
        refused(batch, &[], words);
    }
}

/// The batch with which servers and clients files are tried.
const BATCH: &str = "client,bytes,replicas\nc0,1,s0|s1\n";

/// Expects that a servers or clients file is refused as in [`refused`].
fn refused_file(option: &str, file: &str, words: &[&str]) {
    let folder = folder_with(&[("nodes.given", file)]);
    let path = folder.path().join("nodes.given");
    refused(BATCH.as_bytes(), &[option, path.to_str().unwrap()], words);
}

#[test]
fn wrong_servers_and_clients_files() {
    let servers: [(&str, &[&str]); 7] = [
        ("", &["empty"]),
        ("server\ns0\n", &["batch:2", "server `s1` is not among the servers", "add it"]),
        ("server\ns0\ns1\ns0\n", &["nodes.given:4", "`s0` appears twice"]),
        ("name\ns0\n", &["unknown column `name`"]),
        ("server,speed\ns0,1\ns1\n", &["nodes.given:3", "1 fields"]),
        ("server,connections\ns0,x\ns1,1\n", &["nodes.given:2", "connections"]),
        ("server,last_used\ns0,7\ns1,-1\n", &["nodes.given:3", "last use", "negative"]),
    ];
    for (file, words) in servers {
        refused_file("--servers", file, words);
    }
    refused_file("--clients", "client\nc1\n", &["batch:2", "client `c0` is not among the clients", "add it"]);
    refused_file("--clients", "client,slots\nc0,0\n", &["nodes.given:2", "0 slots"]);
}

#[test]
fn wrong_speeds_slots_and_backlogs() {
    let cases: [(&str, &[&str], &str); 3] = [
        (
            "speed",
            &["0", "0.0", "-1", "NaN", "inf", "1e3", "0.0000001", "1.", ".5", "", "+1", "1,5", "fast"],
            "not a number above 0 with at most 6 decimals",
        ),
        (
            "speed",
            &["1000000000001", "1000000000000.000001", "99999999999999999999"],
            "at most 1000000000000",
        ),
        ("slots", &["0", "65537", "4294967296", "18446744073709551616", "-1", "1.5", "", "NaN"], "slots"),
    ];
    for (column, texts, complaint) in cases {
        for text in texts {
            let file = format!("server,{column}\ns0,1\ns1,\"{text}\"\n");
            refused_file("--servers", &file, &["nodes.given:3", complaint, text]);
        }
    }
    for (backlog, complaint) in [
        ("-1", "-1 is negative"),
        ("1.5", "`1.5` is not whole"),
        ("18446744073709551616", "64 bits"),
        ("", "missing"),
    ] {
        let file = format!("server,backlog\ns0,{backlog}\ns1,1\n");
        refused_file("--servers", &file, &["nodes.given:2", "backlog", complaint]);
    }
    // Too much together: the backlog and the batch.
    let file = "server,backlog\ns0,18446744073709551615\ns1,0\n";
    refused_file("--servers", file, &["nodes.given", "64 bits", "larger blocks"]);
}

#[test]
fn times_that_do_not_fit_are_refused_with_a_remedy() {
    let slow = folder_with(&[("nodes.given", "server,speed\ns0,0.000001\ns1,1\n")]);
    let path = slow.path().join("nodes.given");
    let batch = format!("client,bytes,replicas\nc0,{},s0|s1\n", 1_u64 << 50);
    let extra = ["--servers", path.to_str().unwrap()];
    refused(batch.as_bytes(), &extra, &["nodes.given", "64 bits", "larger blocks or higher speeds"]);
    fs::write(slow.path().join("batch"), &batch).unwrap();
    let input = ["batch", "--servers", "nodes.given", "--block", "1048576"];
    plan_and_check(&input, &[], slow.path());
}

/// The lowest and the highest that is allowed is taken as it stands.
#[test]
fn extreme_speeds_slots_and_backlogs_are_exact() {
    let cases = [
        ("speed\ns0,1000000000000", "1000000000000000000,s0", "1000000"),
        ("speed\ns0,999999999999.999999", "999999999999999999,s0", "1000000"),
        ("speed\ns0,0.000001", "18446744073709,s0", "18446744073709000000"),
        ("slots\ns0,65536", "1,s0", "1"),
        ("backlog\ns0,18446744073709551614", "1,s0", "18446744073709551615"),
    ];
    for (servers, request, length) in cases {
        let batch = format!("client,bytes,replicas\nc0,{request}\n");
        let folder = folder_with(&[("batch", &batch), ("servers", &format!("server,{servers}\n"))]);
        let summary = plan_and_check(&["batch", "--servers", "servers"], &[], folder.path());
        assert_eq!(summary["length"].to_string(), length, "{servers}");
    }
}

#[test]
fn wrong_usage() {
    let batch = b"client,bytes,replicas\nc0,1,s0|s1\n";
    refused(
        batch,
        &["--policy", "fastest"],
        &["no policy `fastest`", "optimal, first, nearest, random, lddf"],
    );
    refused(batch, &["--order", "alphabetical"], &["no order `alphabetical`", "colour"]);
    refused(batch, &["--servers", "nowhere.csv"], &["nowhere.csv", "cannot read"]);
    let folder = tempfile::tempdir().unwrap();
    for args in [
        "plan missing.csv",
        "plan .",
        "plan",
        "plan x --block 0",
        "plan x --max-concurrent 0",
        "explain x",
        "x",
        "--x",
    ] {
        let args: Vec<&str> = args.split(' ').collect();
        assert_eq!(evenkeel(&args, folder.path()).status.code(), Some(2), "{args:?}");
    }
    assert_eq!(evenkeel(&[], folder.path()).status.code(), Some(2));
}

/// CRLF, a byte-order mark, columns in any order, quotes and an absent size are all right.
#[test]
fn unusual_but_right() {
    let folder = tempfile::tempdir().unwrap();
    let plain = "client,bytes,replicas\nc0,1,s0|s1\nc1,1,s1\n";
    let variants = [
        plain.to_owned(),
        plain.replace('\n', "\r\n"),
        format!("\u{FEFF}{plain}"),
        "replicas,client\ns0|s1,c0\ns1,c1\n".to_owned(),
        "client,bytes,replicas,chunk,job,arrival\n\"c0\",1,\"s0|s1\",x,y,7\nc1,1,s1,x,y,7".to_owned(),
        r#"{"requests":[{"client":"c0","replicas":["s0","s1"]},{"client":"c1","bytes":1,"replicas":["s1"]}]}"#.to_owned(),
        "\u{FEFF} \n{\"servers\":[\"s0\",\"s1\"],\"requests\":[{\"client\":\"c0\",\"replicas\":[\"s0\",\"s1\"]},{\"client\":\"c1\",\"replicas\":[\"s1\"]}]}".to_owned(),
    ];
    for variant in variants {
        fs::write(folder.path().join("batch"), &variant).unwrap();
        let output = evenkeel(&["plan", "batch", "--out", "plan.csv"], folder.path());
        assert_eq!(output.status.code(), Some(0), "{variant}\n{}", stderr(&output));
        let plan = fs::read_to_string(folder.path().join("plan.csv")).unwrap();
        assert_eq!(plan, "request,client,server,start,blocks\n0,c0,s0,0,1\n1,c1,s1,0,1\n", "{variant}");
    }
}

#[test]
fn an_output_that_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("batch"), "client,bytes,replicas\nc0,1,s0\n").unwrap();
    for out in ["no/such/folder/plan.csv", "."] {
        let output = evenkeel(&["plan", "batch", "--out", out], folder.path());
        assert_eq!(output.status.code(), Some(2), "{out}");
        assert!(stderr(&output).contains("cannot write"), "{}", stderr(&output));
        assert_eq!(stdout(&output), "", "nothing is claimed");
    }
    assert_eq!(names_in(folder.path()), ["batch"]);
    if Path::new("/dev/full").exists() {
        let output = evenkeel(&["plan", "batch", "--out", "/dev/full"], folder.path());
        assert_eq!(output.status.code(), Some(2), "a full disk");
        assert!(Path::new("/dev/full").exists());
    }
}

/// A plan of another batch is wrong input (2); a damaged plan of this one is a failed check (1).
#[test]
fn plans_that_do_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("batch", "client,bytes,replicas\nc0,2,s0|s1\nc1,1,s1\n");
    write("other", "client,bytes,replicas\nc0,2,s0|s1\nc2,1,s1\n");
    write("shorter", "client,bytes,replicas\nc0,2,s0|s1\n");
    let output = evenkeel(&["plan", "batch", "--out", "plan.csv", "--json"], folder.path());
    write("summary", &stdout(&output));
    let check = |args: &[&str]| {
        let output = evenkeel(&[&["check"], args].concat(), folder.path());
        (output.status.code(), stdout(&output) + &stderr(&output))
    };
    assert_eq!(check(&["batch", "plan.csv", "--summary", "summary"]).0, Some(0));
    for batch in ["other", "shorter"] {
        let (code, text) = check(&[batch, "plan.csv"]);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("another batch"), "{text}");
        assert_eq!(check(&[batch, "plan.csv", "--summary", "summary"]).0, Some(2));
    }
    let plan = fs::read_to_string(folder.path().join("plan.csv")).unwrap();
    let damages = [
        (plan.replace("1,c1,s1", "1,c1,s0"), 1),
        (plan.replace("0,c0,s0,0,2", "0,c0,s0,0,1"), 1),
        (plan.replace("0,c0,s0,0,2", "0,c0,s0,9,2"), 1),
        (plan.replace("0,c0,s0,0,2", "0,c1,s0,0,2"), 2),
        (plan.replace("0,c0,s0,0,2", "0,c0,s9,0,2"), 2),
        (plan.replace("1,c1", "7,c1"), 2),
        (plan.replace("0,c0,s0,0,2", "0,c0,s0,0,-2"), 2),
        (plan.lines().take(2).collect::<Vec<_>>().join("\n"), 1),
        ("request,client,server,start,blocks\n".to_owned(), 1),
        (String::new(), 2),
    ];
    for (damaged, code) in damages {
        assert_ne!(damaged, plan);
        write("damaged.csv", &damaged);
        let (found, text) = check(&["batch", "damaged.csv", "--summary", "summary"]);
        assert_eq!(found, Some(code), "{damaged}\n{text}");
    }
    let summary = fs::read_to_string(folder.path().join("summary")).unwrap();
    let claims = [
        ("\"lower_bound\":2", "\"lower_bound\":1", 1),
        ("\"lower_bound\":2,\"optimal\":true", "\"lower_bound\":1,\"optimal\":false", 1),
        ("\"policy\":\"optimal\"", "\"policy\":\"magic\"", 1),
        ("\"order\":\"colour\"", "\"order\":null", 1),
        ("\"order\":\"colour\"", "\"order\":\"zzz\"", 1),
        ("\"block\":1", "\"block\":4096", 1),
        ("\"length\":2", "\"length\":null", 1),
        ("\"length\":2,", "", 2),
        ("\"lower_bound\":2", "\"lower_bound\":3", 1),
        ("\"length\":2", "\"length\":1", 1),
        ("\"max_load\":2", "\"max_load\":1", 1),
        ("\"optimal\":true", "\"optimal\":false", 1),
        ("\"format\":1", "\"format\":2", 2),
        ("\"requests\":2", "\"requests\":3", 1),
        ("[\"s0\",\"s1\"]", "[\"s0\"]", 1),
        ("[\"s0\",\"s1\"]", "[\"s0\",\"nobody\"]", 1),
        ("[\"s0\",\"s1\"]", "[\"s0\",\"s0\"]", 1),
        ("\"blocks\":3", "\"blocks\":4", 1),
        ("{", "[", 2),
    ];
    for (claim, lie, code) in claims {
        let lies = summary.replacen(claim, lie, 1);
        assert_ne!(lies, summary, "{claim}");
        write("lies", &lies);
        let (found, text) = check(&["batch", "plan.csv", "--summary", "lies"]);
        assert_eq!(found, Some(code), "{lies}\n{text}");
    }
}

/// A list of servers in the batch may only repeat what the servers file says; the file's order counts.
#[test]
fn a_servers_file_is_not_overridden() {
    let batch = br#"{"servers":["b","a"],"requests":[{"client":"c","replicas":["a"]}]}"#;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("servers.given");
    fs::write(&path, "server\na\n").unwrap();
    refused(batch, &["--servers", path.to_str().unwrap()], &["server `b` is not among the servers"]);
    fs::write(&path, "server,speed\na,2\nb,1\nspare,1\n").unwrap();
    fs::write(folder.path().join("batch"), batch).unwrap();
    let summary = plan_and_check(&["batch", "--servers", "servers.given"], &[], folder.path());
    assert_eq!((&summary["servers"], &summary["length"]), (&3.into(), &0.5.into()));
}

/// Numbers in plans have at most nine decimals, and digits on both sides of the point.
#[test]
fn wrong_numbers_in_plans() {
    let folder = folder_with(&[("batch", BATCH), ("servers", "server,speed\ns0,3\ns1,0.5\n")]);
    let check = |row: &str| {
        fs::write(folder.path().join("plan.csv"), format!("request,client,server,start,blocks\n{row}\n"))
            .unwrap();
        let output = evenkeel(&["check", "batch", "plan.csv", "--servers", "servers"], folder.path());
        (output.status.code(), stdout(&output) + &stderr(&output))
    };
    assert_eq!(check("0,c0,s0,0.333333333,1").0, Some(0));
    assert_eq!(check("0,c0,s0,0.000000001,1.000000000").0, Some(0));
    let wrong = [
        "0.3333333333",
        "1.",
        ".5",
        ".",
        "1e3",
        "1.5e3",
        "-1",
        "-0.5",
        "+1",
        "1_0",
        " 1",
        "1,5",
        "NaN",
        "inf",
        "",
        "18446744073709551616",
        "18446744073709551616.5",
        "99999999999999999999999999999999999999999.1",
    ];
    for text in wrong {
        for (row, what) in
            [(format!("0,c0,s0,\"{text}\",1"), "start"), (format!("0,c0,s0,0,\"{text}\""), "blocks")]
        {
            let (code, said) = check(&row);
            assert_eq!(code, Some(2), "{row}\n{said}");
            assert!(said.contains("plan.csv:2") && said.contains(what), "{row}\n{said}");
        }
    }
    for row in [
        "0,c0,s0,18446744073709551615.999999999,1",
        "0,c0,s0,0,0.5",
        "0,c0,s0,0,0",
        "0,c0,s0,0,18446744073709551615.5",
    ] {
        let (code, said) = check(row);
        assert_eq!(code, Some(1), "{row}\n{said}");
    }
}

#[test]
fn wrong_figures_in_summaries() {
    let folder = folder_with(&[("batch", BATCH), ("servers", "server,speed\ns0,3\ns1,0.5\n")]);
    let at = folder.path();
    let input = ["batch", "--servers", "servers"];
    let summary = plan_and_check(&input, &[], at).to_string();
    for (figure, value) in
        [("length", "0.333333333"), ("max_load", "0.333333333"), ("lower_bound", "0.333333333"), ("gap", "0")]
    {
        let claim = format!("\"{figure}\":{value}");
        assert!(summary.contains(&claim), "{summary}");
        for wrong in ["-1", "-0.5", "NaN", "1e300", "18446744073709551616", "\"1\"", "[]", "1e", "true"] {
            fs::write(at.join("lies"), summary.replace(&claim, &format!("\"{figure}\":{wrong}"))).unwrap();
            let output = evenkeel(&[&["check"], &input[..], &["plan.csv", "--summary", "lies"]].concat(), at);
            assert_eq!(output.status.code(), Some(2), "{figure} {wrong}\n{}", stdout(&output));
            assert!(stderr(&output).contains("lies:1"), "{figure} {wrong}\n{}", stderr(&output));
        }
    }
}

/// A summary without what later versions added is still read.
#[test]
fn an_older_summary_is_accepted() {
    let folder = folder_with(&[("batch", BATCH)]);
    let mut summary = plan_and_check(&["batch"], &[], folder.path());
    for field in ["max_concurrent", "whole", "gap"] {
        summary.as_object_mut().unwrap().remove(field).unwrap();
    }
    fs::write(folder.path().join("summary"), summary.to_string()).unwrap();
    let output = evenkeel(&["check", "batch", "plan.csv", "--summary", "summary"], folder.path());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

/// A summary without a length is of a plan without an order, which says so; it cannot hide the order of another.
#[test]
fn a_summary_cannot_hide_an_order() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("batch"), "client,bytes,replicas\nc0,1,s0\nc0,1,s0\n").unwrap();
    let output = evenkeel(&["plan", "batch", "--no-order", "--out", "plan.csv", "--json"], at);
    fs::write(at.join("summary"), stdout(&output)).unwrap();
    let check = |extra: &[&str]| {
        let args = [&["check", "batch", "plan.csv"], extra].concat();
        let output = evenkeel(&args, at);
        assert!(output.status.code() != Some(0) || stdout(&output).contains("without an order"));
        output.status.code()
    };
    assert_eq!(check(&[]), Some(1));
    assert_eq!(check(&["--summary", "summary"]), Some(0));
    assert_eq!(check(&["--summary", "summary", "--no-order"]), Some(0));
    assert_eq!(check(&["--no-order"]), Some(0));
    fs::write(at.join("plan.csv"), "request,client,server,start,blocks\n0,c0,s0,0,1\n1,c0,s0,7,1\n").unwrap();
    assert_eq!(check(&["--no-order"]), Some(1), "a start without an order");
    assert_eq!(check(&["--summary", "summary"]), Some(1), "a start without an order");
}

#[test]
fn an_input_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let text = "client,bytes,replicas\nc0,1,s0\n";
    fs::write(folder.path().join("batch"), text).unwrap();
    let output = evenkeel(&["plan", "batch", "--out", "./batch"], folder.path());
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("an input of this command"), "{}", stderr(&output));
    assert_eq!(fs::read_to_string(folder.path().join("batch")).unwrap(), text);
}

/// One row with very many replicas takes no longer than many rows with few.
#[test]
fn a_very_wide_row() {
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..300_000).map(|i| format!("s{i}")).collect();
    fs::write(folder.path().join("batch"), format!("client,replicas\nc0,{}\n", names.join("|"))).unwrap();
    assert_eq!(evenkeel(&["plan", "batch"], folder.path()).status.code(), Some(0));
}

/// The verdict is in the exit status, whoever reads the words.
#[cfg(unix)]
#[test]
fn nobody_listens() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("batch"), "client,bytes,replicas\nc0,1,s0\n").unwrap();
    fs::write(folder.path().join("bad.csv"), "request,client,server,start,blocks\n").unwrap();
    let exe = env!("CARGO_BIN_EXE_evenkeel");
    let cases = [
        (format!("{{ sleep 0.2; {exe} check batch bad.csv; echo $? > code; }} | true"), "1"),
        (format!("{exe} check batch bad.csv 2> /dev/full; echo $? > code"), "1"),
        (format!("{exe} plan missing 2> /dev/full; echo $? > code"), "2"),
        (format!("{exe} plan batch --out >(cat > copy); echo $? > code"), "0"),
    ];
    for (script, code) in cases {
        std::process::Command::new("bash").args(["-c", &script]).current_dir(folder.path()).output().unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("code")).unwrap().trim(), code, "{script}");
    }
}

/// A plan that replaces another is as readable as that one was.
#[cfg(unix)]
#[test]
fn permissions_are_kept() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (batch, plan) = (folder.path().join("batch"), folder.path().join("plan.csv"));
    fs::write(batch, "client,bytes,replicas\nc0,1,s0\n").unwrap();
    fs::write(&plan, "old").unwrap();
    fs::set_permissions(&plan, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(evenkeel(&["plan", "batch", "--out", "plan.csv"], folder.path()).status.code(), Some(0));
    assert_eq!(fs::metadata(&plan).unwrap().permissions().mode() & 0o777, 0o600);
}
