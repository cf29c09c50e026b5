//! A run that is killed leaves the plan that was there before, or none: never half of one.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::evenkeel;

#[test]
fn a_killed_run_leaves_no_half_plan() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    evenkeel(&["generate", "--requests", "200000", "--servers", "50", "--out", "batch"], at);
    let whole = {
        evenkeel(&["plan", "batch", "--out", "whole.csv"], at);
        fs::read(at.join("whole.csv")).unwrap()
    };
    for (k, before) in [None, Some("the plan before")].into_iter().cycle().take(16).enumerate() {
        let _ = fs::remove_file(at.join("plan.csv"));
        if let Some(text) = before {
            fs::write(at.join("plan.csv"), text).unwrap();
        }
        let mut child = Command::new(env!("CARGO_BIN_EXE_evenkeel"))
            .args(["plan", "batch", "--out", "plan.csv"])
            .current_dir(at)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(25 * k as u64));
        child.kill().unwrap();
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        child.wait().unwrap();
        let after = fs::read(at.join("plan.csv")).ok();
        let old = before.map(|text| text.as_bytes().to_vec());
        assert!(after == old || after.as_deref() == Some(&whole[..]), "round {k}");
        assert!(said.is_empty() || after.as_deref() == Some(&whole[..]), "a summary without its plan");
    }
}
