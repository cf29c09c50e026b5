//! Outputs: never an input, never a file that is read-only, and never lost without an error.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::{evenkeel, folder_with, names_in, printed, stderr, stdout};

const BATCH: &str = "client,bytes,replicas\nc0,1,s0\n";

/// What a shell says and with which status it ends; `evenkeel` is the command under test.
fn shell(script: &str, folder: &Path) -> (Option<i32>, String) {
    let script = format!("evenkeel() {{ {} \"$@\"; }}; {script}", env!("CARGO_BIN_EXE_evenkeel"));
    let output = Command::new("bash").args(["-c", &script]).current_dir(folder).output().unwrap();
    (output.status.code(), stdout(&output) + &stderr(&output))
}

/// A rename would replace a read-only file without a question, even for root.
#[test]
fn a_read_only_file_stays() {
    let folder = folder_with(&[("batch", BATCH), ("kept", "mine")]);
    fs::set_permissions(folder.path().join("kept"), fs::Permissions::from_mode(0o444)).unwrap();
    std::os::unix::fs::symlink("kept", folder.path().join("link")).unwrap();
    for args in
        ["plan batch --out kept", "plan batch --out link", "generate --out kept", "compare batch --html kept"]
    {
        let output = evenkeel(&args.split(' ').collect::<Vec<_>>(), folder.path());
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args}: {error}");
        assert!(error.contains("cannot write") && error.contains("it is read-only"), "{args}: {error}");
        assert_eq!(fs::read_to_string(folder.path().join("kept")).unwrap(), "mine", "{args}");
    }
    assert_eq!(names_in(folder.path()), ["batch", "kept", "link"]);
}

/// By whatever name, standard input included.
#[test]
fn an_input_stays() {
    let folder = folder_with(&[("batch", BATCH), ("queue", "app,server,read,shuffle\na,s0,1,1\n")]);
    fs::hard_link(folder.path().join("batch"), folder.path().join("other")).unwrap();
    for script in [
        "evenkeel plan - --out batch < batch",
        "evenkeel plan /dev/stdin --out batch < batch",
        "evenkeel plan batch --out ./batch",
        "evenkeel plan batch --out other",
        "evenkeel explain - --out other < batch",
        "evenkeel compare - --html batch < batch",
        "evenkeel collective - --out queue < queue",
    ] {
        let (code, said) = shell(script, folder.path());
        assert_eq!(code, Some(2), "{script}: {said}");
        assert!(said.contains("it is an input of this command"), "{script}: {said}");
        assert_eq!(fs::read_to_string(folder.path().join("batch")).unwrap(), BATCH, "{script}");
    }
    // Standard input that is not read is no input.
    assert_eq!(shell("evenkeel generate --out other < other", folder.path()).0, Some(0));
}

#[test]
fn two_outputs_have_two_places() {
    let folder = folder_with(&[("writes", "object,offset,bytes\n1,0,1\n"), ("servers", "server\ns0\n")]);
    for args in [
        "generate --out x --servers-out ./x",
        "generate --servers-out -",
        "place writes --servers servers --out new --html ./new",
    ] {
        let output = evenkeel(&args.split(' ').collect::<Vec<_>>(), folder.path());
        assert_eq!(output.status.code(), Some(2), "{args}");
        assert!(stderr(&output).contains("would write to the same file"), "{args}: {}", stderr(&output));
    }
    assert_eq!(names_in(folder.path()), ["servers", "writes"]);
    printed(&["generate", "--out", "a", "--servers-out", "b"], folder.path());
}

/// Help is output like any other.
#[test]
fn what_cannot_be_written_is_an_error() {
    let folder = folder_with(&[("batch", BATCH)]);
    for args in ["--help", "--version", "plan --help", "help plan", "completions bash", "man", "plan batch"] {
        let (code, said) = shell(&format!("evenkeel {args} > /dev/full"), folder.path());
        assert_eq!(code, Some(2), "{args}: {said}");
        assert!(said.contains("cannot write to standard output"), "{args}: {said}");
        let (code, said) = shell(&format!("set -o pipefail; evenkeel {args} | true"), folder.path());
        assert_eq!((code, said.as_str()), (Some(0), ""), "{args}");
    }
}
