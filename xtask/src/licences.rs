//! Checks that every dependency comes from the registry and has a licence that `deny.toml` allows.
//!
//! `cargo deny check` checks more, advisories above all, but takes longer to install than all tests take to compile.

use std::process::Command;

use serde_json::Value;

use crate::run::{Result, root};

/// Checks every package that `Cargo.lock` may bring in.
pub(crate) fn check() -> Result<()> {
    let rules = std::fs::read_to_string(root().join("deny.toml")).map_err(|e| format!("deny.toml: {e}"))?;
    let allowed = allowed(&rules).ok_or("deny.toml has no list `allow` in one line")?;
    let args = ["metadata", "--format-version", "1", "--locked", "--all-features"];
    println!("\n$ cargo {}", args.join(" "));
    let output = Command::new("cargo").args(args).current_dir(root()).output().map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).map_err(|e| e.to_string())?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let faults: Vec<String> = packages.iter().filter_map(|package| fault(package, &allowed)).collect();
    if faults.is_empty() {
        println!("{} packages have licences that are allowed", packages.len());
        return Ok(());
    }
    Err(faults.join("\n"))
}

/// The licences between the brackets of `allow = […]`.
fn allowed(rules: &str) -> Option<Vec<String>> {
    let list = rules.lines().find_map(|line| line.strip_prefix("allow = ["))?;
    Some(list.split('"').skip(1).step_by(2).map(str::to_owned).collect())
}

fn fault(package: &Value, allowed: &[String]) -> Option<String> {
    let name = package["name"].as_str().unwrap_or("a package");
    match package["source"].as_str() {
        // Our own package.
        None => return None,
        Some(source) if !source.starts_with("registry+") => {
            return Some(format!("{name} comes from {source}; take it from the registry"));
        }
        Some(_) => {}
    }
    let licence = package["license"].as_str().unwrap_or("no licence");
    let is_allowed = is_allowed(licence, allowed);
    (!is_allowed).then(|| format!("{name} has {licence}, which deny.toml does not allow; do without it"))
}

/// Whether allowed licences can satisfy an SPDX expression. Old expressions have `/` for `OR`.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    let is_met = any(&mut rest, allowed);
    is_met && rest.is_empty()
}

fn any(rest: &mut &[&str], allowed: &[String]) -> bool {
    let mut is_met = all(rest, allowed);
    while let Some(next) = rest.strip_prefix(&["OR"]) {
        *rest = next;
        is_met |= all(rest, allowed);
    }
    is_met
}

fn all(rest: &mut &[&str], allowed: &[String]) -> bool {
    let mut is_met = one(rest, allowed);
    while let Some(next) = rest.strip_prefix(&["AND"]) {
        *rest = next;
        is_met &= one(rest, allowed);
    }
    is_met
}

fn one(rest: &mut &[&str], allowed: &[String]) -> bool {
    match **rest {
        ["(", ..] => {
            *rest = &rest[1..];
            let is_met = any(rest, allowed);
            match rest.strip_prefix(&[")"]) {
                Some(next) => *rest = next,
                None => return false,
            }
            is_met
        }
        [name, "WITH", exception, ..] => {
            *rest = &rest[3..];
            allowed.contains(&format!("{name} WITH {exception}"))
        }
        [name, ..] => {
            *rest = &rest[1..];
            allowed.iter().any(|allowed| allowed == name)
        }
        [] => false,
    }
}

#[test]
fn expressions() {
    let allowed = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned);
    for good in [
        "MIT",
        "GPL-3.0 OR MIT",
        "Unlicense/MIT",
        "(MIT OR GPL-3.0) AND Apache-2.0",
        "Apache-2.0 WITH LLVM-exception OR X",
    ] {
        assert!(is_allowed(good, &allowed), "{good}");
    }
    for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "MIT WITH LLVM-exception", "(MIT", "MIT)", "no licence"] {
        assert!(!is_allowed(bad, &allowed), "{bad}");
    }
    assert_eq!(self::allowed("[x]\nallow = [\"A\", \"B C\"]\n"), Some(vec!["A".into(), "B C".into()]));
}
