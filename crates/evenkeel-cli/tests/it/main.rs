//! Tests of the command line: transcripts, bad input, readers, and the commands in the documents.

#![allow(clippy::unwrap_used, clippy::case_sensitive_file_extension_comparisons)]

mod bad_input;
mod documents;
mod interrupted;
mod readers;
mod round_trip;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

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

/// The root of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
