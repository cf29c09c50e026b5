//! Commands on real storage.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use super::{evenkeel, folder_with, stderr, stdout};

/// A folder that may not be listed is reported, and everything else is read.
#[test]
fn a_folder_without_permission_is_reported() {
    let folder = folder_with(&[]);
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("data/locked")).unwrap();
    fs::create_dir(at("to")).unwrap();
    fs::write(at("data/open"), "open").unwrap();
    for (name, mode) in [("data/locked", 0o000), ("to", 0o777), ("", 0o755)] {
        fs::set_permissions(at(name), Permissions::from_mode(mode)).unwrap();
    }
    let args = ["get", "data", "to"];
    let output = if fs::read_dir(at("data/locked")).is_ok() {
        // Whoever runs the tests may list everything, so it is run as somebody else.
        as_nobody(&args, folder.path())
    } else {
        evenkeel(&args, folder.path())
    };
    fs::set_permissions(at("data/locked"), Permissions::from_mode(0o755)).unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(fs::read(at("to/open")).unwrap(), b"open");
    assert!(
        stdout(&output).contains("missing: locked/: data/locked: access is denied"),
        "{}",
        stdout(&output)
    );
    assert!(stderr(&output).contains("data/locked: access is denied"), "{}", stderr(&output));
}

/// Runs a copy of the command, which the others can reach, as a user without rights.
fn as_nobody(args: &[&str], folder: &std::path::Path) -> Output {
    let command = folder.join("evenkeel");
    fs::copy(env!("CARGO_BIN_EXE_evenkeel"), &command).unwrap();
    let setpriv = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    Command::new("setpriv").args(setpriv).arg(command).args(args).current_dir(folder).output().unwrap()
}
