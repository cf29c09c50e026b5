//! `compare`: all policies on one batch, and the page that it makes.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{evenkeel, folder_with, json, plan_and_check, printed, stderr, stdout};

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// What `compare` tells, without the seconds, which differ from run to run.
fn compared(args: &str, folder: &Path) -> Value {
    let mut comparison = json(&words(args), folder);
    for policy in comparison["policies"].as_array_mut().unwrap() {
        policy.as_object_mut().unwrap().remove("seconds").unwrap();
    }
    comparison
}

/// On three kinds of batches nothing is below the bound, `optimal` is at it, and every figure is that of a plan which
/// `check` accepts.
#[test]
fn figures_are_those_of_the_plans() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for law in ["uniform", "first-hot", "chain"] {
        let batch = format!("generate --requests 3000 --servers 24 --clients 40 --law {law} --out batch.csv");
        printed(&words(&batch), folder);
        let comparison = compared("compare batch.csv --seed 3 --json", folder);
        assert_eq!(compared("compare batch.csv --seed 3 --json", folder), comparison);
        let policies = comparison["policies"].as_array().unwrap();
        assert!(policies.len() >= 19, "{}", policies.len());
        assert!(policies.iter().map(|row| row["length"].as_u64().unwrap()).is_sorted(), "the shortest first");
        for row in policies {
            let (policy, order) = (row["policy"].as_str().unwrap(), row["order"].as_str().unwrap());
            let mut args = vec!["--policy", policy, "--seed", "3"];
            if policy != order {
                args.extend(["--order", order]);
            }
            let plan = plan_and_check(&["batch.csv"], &args, folder);
            for field in ["length", "max_load", "rounds", "messages", "compacted_length"] {
                assert_eq!(row[field], plan[field], "{policy} {order}: {field}");
            }
            assert_eq!(plan["lower_bound"], comparison["lower_bound"]);
            assert!(row["length"].as_u64() >= plan["lower_bound"].as_u64());
            assert!(row["ratio"].as_f64() >= Some(1.0));
            if (policy, order) == ("optimal", "colour") {
                assert_eq!(row["ratio"], 1.0);
            }
        }
    }
}

/// The page is one file: no script, nothing that would be loaded, and names cannot break out of their place.
#[test]
fn the_page_stands_alone() {
    let folder = folder_with(&[("batch.csv", "client,bytes,replicas\nc0,3,<script>alert(1)</script>\n")]);
    let folder = folder.path();
    // The bottleneck is the one server if clients do not matter.
    fs::write(folder.join("clients.csv"), "client,slots\nc0,9\n").unwrap();
    let args = "compare batch.csv --clients clients.csv --html";
    printed(&words(&format!("{args} page.html")), folder);
    let page = fs::read_to_string(folder.join("page.html")).unwrap();
    for loaded in ["<script", "http:", "https:", "src=", "url(", "@import", "<link"] {
        assert!(!page.contains(loaded), "{loaded}");
    }
    assert!(page.contains("&lt;script&gt;alert(1)"), "the bottleneck is named");
    for policy in ["optimal", "hdlwf", "lddf-slots", "ps"] {
        assert!(page.contains(policy), "{policy}");
    }
    let piped = printed(&words(&format!("{args} -")), folder);
    let without_digits = |page: &str| page.replace(|c: char| c.is_ascii_digit(), "");
    assert_eq!(without_digits(&piped), without_digits(&page), "and nothing else");
}

/// Policies that would take minutes to bid are left out and named.
#[test]
fn too_many_bids_are_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    printed(
        &words("generate --requests 25000 --clients 25000 --servers 1 --copies 1 --in-turn --out one.csv"),
        folder,
    );
    let text = printed(&words("compare one.csv"), folder);
    assert!(text.contains("Left out") && text.contains("hdlwf, hdlwf-rebid"), "{text}");
    let comparison = compared("compare one.csv --json", folder);
    assert_eq!(comparison["left_out"].as_array().map(Vec::len), Some(6));
    let policies = comparison["policies"].as_array().unwrap();
    assert!(policies.iter().all(|row| row["ratio"] == 1.0), "there is no choice");
}

/// Orders alone are all `optimal`; their names tell them apart.
#[test]
fn rows_have_distinct_names() {
    let folder = folder_with(&[("batch.csv", "client,bytes,replicas\nc0,3,s0|s1\nc1,2,s0\n")]);
    let all = json(&["compare", "batch.csv", "--json"], folder.path());
    let rows = all["policies"].as_array().unwrap();
    let names: std::collections::BTreeSet<&str> =
        rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), rows.len());
    let hdf = rows.iter().find(|row| row["name"] == "hdf").unwrap();
    assert_eq!((&hdf["policy"], &hdf["order"]), (&"optimal".into(), &"hdf".into()));
    // What a row is called is what asks for it.
    for name in names {
        let one = json(&["compare", "batch.csv", "--policy", name, "--json"], folder.path());
        assert_eq!(one["policies"][0]["name"], name);
    }
}

#[test]
fn wrong_usage_is_told() {
    let folder = folder_with(&[("batch.csv", "client,bytes,replicas\nc0,3,s0\n")]);
    for (args, expected) in [
        ("--policy optimal,fastest", "no policy `fastest`"),
        ("--policy ap,optimal", "policy optimal is listed twice"),
        ("--policy sio", "no policy `sio`"),
        ("--passes 0", "0 is not in 1.."),
        ("--bids 9999999", "9999999 is not in 1.."),
        ("--html batch.csv", "it is an input of this command"),
        ("--html nowhere/page.html", "cannot write nowhere/page.html"),
    ] {
        let output = evenkeel(&words(&format!("compare batch.csv {args}")), folder.path());
        assert_eq!(output.status.code(), Some(2), "{args}");
        assert!(stderr(&output).contains(expected), "{args}: {}", stderr(&output));
    }
}

/// `nearest` goes by the hosts in the files of servers and clients: the same host, then the same rack.
#[test]
fn the_nearest_copy_is_found_by_hosts() {
    let folder = folder_with(&[
        ("batch.csv", "client,replicas\nc0,s0|s1|s2\nc1,s0|s1\nc2,s1|s2\n"),
        ("servers.csv", "server,host\ns0,/r0/h0\ns1,/r1/h1\ns2,/r1/h2\n"),
        ("clients.csv", "client,host\nc0,/r1/h2\nc1,/r1/h9\nc2,/r1/h1\n"),
    ]);
    let args =
        "plan batch.csv --policy nearest --servers servers.csv --clients clients.csv --no-order --out -";
    let plan = printed(&words(args), folder.path());
    assert_eq!(plan, "request,client,server,start,blocks\n0,c0,s2,0,1\n1,c1,s1,0,1\n2,c2,s1,0,1\n");
}

/// Where hosts are not known, whoever asks for `nearest` is told what it does instead, and nobody else is.
#[test]
fn nearest_without_hosts_says_what_it_does() {
    let folder = folder_with(&[
        ("batch.csv", "client,replicas\nc0,s0|s1|s2\nc1,s0|s1\nc2,s1|s2\n"),
        ("servers.csv", "server,host\ns0,/r0/h0\ns1,/r1/h1\ns2,/r1/h2\n"),
        ("clients.csv", "client,host\nc0,/r1/h2\nc1,/r1/h9\nc2,/r1/h1\n"),
        ("half.csv", "client,host\nc0,/r1/h2\nc1,\nc2,\n"),
    ]);
    let (all, half) = ("No hosts are known", "For 2 of 3 requests no distance is known");
    let cases = [
        ("plan batch.csv --policy nearest", all),
        ("plan batch.csv --policy opass-tenant", all),
        ("plan batch.csv --policy nearest --servers servers.csv", all),
        ("plan batch.csv --policy nearest --servers servers.csv --clients half.csv", half),
        ("plan batch.csv --policy nearest --servers servers.csv --clients clients.csv", ""),
        ("plan batch.csv", ""),
        ("score batch.csv --policy nearest", all),
        ("score batch.csv --policy nearest --servers servers.csv --clients half.csv", half),
        ("score batch.csv --policy first", ""),
        ("score batch.csv", all),
        ("score batch.csv --servers servers.csv --clients clients.csv", ""),
        ("compare batch.csv", all),
        ("compare batch.csv --policy first,optimal", ""),
        ("compare batch.csv --servers servers.csv --clients half.csv", half),
    ];
    for (args, expected) in cases {
        let output = evenkeel(&words(args), folder.path());
        assert_eq!(output.status.code(), Some(0), "{args}: {}", stderr(&output));
        let said = stdout(&output) + &stderr(&output);
        match expected {
            "" => assert!(!said.contains("hash") && !said.contains("distance"), "{args}: {said}"),
            _ => assert!(said.contains(expected) && said.contains("by hash"), "{args}: {said}"),
        }
        assert!(!args.starts_with("plan") || !stdout(&output).contains("hash"), "on standard error: {args}");
    }
    let lowest = evenkeel(&words("plan batch.csv --policy nearest --ties lowest"), folder.path());
    assert!(stderr(&lowest).contains("by the lowest id"), "{}", stderr(&lowest));
}

/// `opass-tenant` takes the nearest copies while servers differ by at most `--imbalance` blocks, backlogs included, and
/// levels them beyond.
#[test]
fn an_imbalance_is_borne_up_to_what_is_asked_for() {
    let batch = "client,bytes,replicas\nc0,8,s0|s1\nc0,8,s0|s1\nc0,8,s0|s1\nc0,8,s0|s1\n";
    let servers = "server,host,backlog\ns0,a,0\ns1,b,8\n";
    let files = [("batch.csv", batch), ("servers.csv", servers), ("clients.csv", "client,host\nc0,a\n")];
    let folder = folder_with(&files);
    let plan = |extra: &str| {
        let args =
            "plan batch.csv --servers servers.csv --clients clients.csv --policy opass-tenant --no-order";
        let args = format!("{args} --block 8 --json{extra}");
        let summary = json(&words(&args), folder.path());
        (summary["max_load"].as_u64(), summary["imbalance"].as_u64())
    };
    // Nearest: four blocks on s0, and the one of the backlog on s1.
    assert_eq!(plan(" --imbalance 3"), (Some(4), Some(3)));
    assert_eq!(plan(" --imbalance 2"), (Some(3), Some(2)));
    assert_eq!(plan(""), (Some(3), None));
    let args = "compare batch.csv --servers servers.csv --clients clients.csv --imbalance 24 --json";
    let compared = compared(args, folder.path());
    let of = |name: &str| {
        let policies = compared["policies"].as_array().unwrap();
        policies.iter().find(|policy| policy["policy"] == name).unwrap()["max_load"].clone()
    };
    assert_eq!(of("opass-tenant"), of("nearest"));
}
