//! Tests of the command line: transcripts, bad input, and the commands in the documents.

#![allow(clippy::unwrap_used, clippy::case_sensitive_file_extension_comparisons)]

mod apply;
mod assign;
mod assign_storage;
mod bad_input;
mod balance;
mod browser;
#[allow(dead_code)] // the tests of sources use the rest
#[path = "../../../evenkeel-store/tests/it/bucket.rs"]
mod bucket;
mod cat;
mod collective;
mod columns;
mod compare;
mod documents;
mod explain;
mod get;
#[allow(dead_code)]
#[path = "../../../evenkeel-store/tests/it/hadoop.rs"]
mod hadoop;
mod import;
mod interrupted;
#[allow(dead_code)]
#[path = "../../../evenkeel-store/tests/it/namenode.rs"]
mod namenode;
mod node;
mod outputs;
mod pages;
mod place;
mod put;
mod reproduce;
mod round_trip;
#[allow(dead_code)]
#[path = "../../../evenkeel-store/tests/it/serve.rs"]
mod serve;
mod simulate;
mod sources;
mod steps;
mod unequal;
mod units;
mod web;
mod webhdfs;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The command under test.
fn evenkeel(args: &[&str], folder: &Path) -> Output {
    let command = Command::new(env!("CARGO_BIN_EXE_evenkeel"))
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output();
    command.expect("the command starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

/// What a command prints, which must succeed.
fn printed(args: &[&str], folder: &Path) -> String {
    let output = evenkeel(args, folder);
    assert_eq!(output.status.code(), Some(0), "{args:?}\n{}{}", stdout(&output), stderr(&output));
    stdout(&output)
}

/// The object that a command prints.
fn json(args: &[&str], folder: &Path) -> Value {
    serde_json::from_str(&printed(args, folder)).expect("one JSON object")
}

/// The summary that a `get` prints after its events.
fn summary(args: &[&str], folder: &Path) -> Value {
    serde_json::from_str(printed(args, folder).lines().last().unwrap_or_default()).expect("lines of JSON")
}

/// A folder with these files.
fn folder_with(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    files.iter().for_each(|(name, text)| fs::write(folder.path().join(name), text).unwrap());
    folder
}

/// The summary of the plan that `plan` makes with these arguments. The plan is in `plan.csv`, the summary in `summary`,
/// and `check` has accepted both.
fn plan_and_check(input: &[&str], policy: &[&str], folder: &Path) -> Value {
    let plan = [&["plan"], input, policy, &["--out", "plan.csv", "--json"]].concat();
    let summary = printed(&plan, folder);
    fs::write(folder.join("summary"), &summary).unwrap();
    let check = evenkeel(&[&["check"], input, &["plan.csv", "--summary", "summary"]].concat(), folder);
    assert_eq!(check.status.code(), Some(0), "{plan:?}\n{summary}\n{}{}", stdout(&check), stderr(&check));
    assert!(stdout(&check).contains("the proof of the lower bound holds"));
    serde_json::from_str(&summary).expect("one JSON object")
}

/// Runs a command on these files and expects a refusal: exit status 2, one line that says all of `words`, nothing printed and
/// nothing written.
fn assert_refused(files: &[(&str, &[u8])], args: &[&str], words: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    files.iter().for_each(|(name, content)| fs::write(folder.path().join(name), content).unwrap());
    let output = evenkeel(args, folder.path());
    let shown = String::from_utf8_lossy(files.first().map_or(b"", |(_, content)| content));
    let error = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{shown}\n{error}");
    for word in words {
        assert!(error.contains(word), "{shown}\n{error}\nshould say `{word}`");
    }
    assert_eq!(error.lines().count(), 1, "one line: {error}");
    assert!(!error.contains("panicked"), "{error}");
    assert_eq!(stdout(&output), "");
    let mut given: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
    given.sort_unstable();
    assert_eq!(names_in(folder.path()), given, "nothing is written");
}

/// The files in a folder, hidden ones included, but for those that were put there as `.given`.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| !name.ends_with(".given"));
    names.sort();
    names
}

/// The root of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
