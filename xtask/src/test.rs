//! `cargo xtask test`: everything that must hold, cheapest failures first.

use crate::cluster::{self, Failure, Kind};
use crate::licences;
use crate::run::{Result, browser, require_program, root, run, run_with};

/// Returns what was skipped, and why.
fn run_all() -> Result<Vec<String>> {
    require_program("python3", &["-c", "import venv, ensurepip"], &["python3", "python3-venv"])?;
    require_program("c++", &["--version"], &["g++"])?;
    browser()?;
    run("cargo", &["fmt", "--all", "--check"])?;
    run("cargo", &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])?;
    // In the same target folder, where clippy has already checked nearly everything that the fuzz targets need.
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    run("cargo", &["check", "--manifest-path", "fuzz/Cargo.toml", "--target-dir", &target, "--quiet"])?;
    licences::check()?;
    run("cargo", &["test", "--workspace"])?;
    let doc = ["doc", "--workspace", "--no-deps", "--document-private-items", "--quiet"];
    run_with("cargo", &doc, &[("RUSTDOCFLAGS", "-D warnings")])?;
    // A debug build is enough to check that the race works.
    build()?;
    race_of("debug", &["--quick"])?;
    first_command_of_the_readme()?;
    println!("\n$ cargo xtask cluster selftest");
    match cluster::selftest(&Kind::ALL) {
        Ok(()) => Ok(Vec::new()),
        Err(Failure::Unsupported(reason)) => Ok(vec![format!("cluster: {reason}")]),
        Err(Failure::Other(message)) => Err(message),
    }
}

/// Builds the command and everything that the tests need. With the tests it has their features, so that after them it is
/// there already. Not this program, though, which must not be replaced while it runs.
pub(crate) fn build() -> Result<()> {
    run("cargo", &["build", "--quiet", "--workspace", "--exclude", "xtask", "--bins", "--tests"])
}

/// The README begins with two commands: this one, and one that runs here exactly as shown.
fn first_command_of_the_readme() -> Result<()> {
    let readme = std::fs::read_to_string(root().join("README.md")).map_err(|e| e.to_string())?;
    let block = readme.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap_or("");
    match block.lines().collect::<Vec<_>>().as_slice() {
        [first, "cargo xtask test"] => run("bash", &["-c", first]),
        _ => {
            Err("the README must begin with a block of two commands, the second `cargo xtask test`"
                .to_owned())
        }
    }
}

/// `cargo xtask test`, with a last line that lists what was skipped: nothing, where network namespaces are allowed.
pub(crate) fn test() -> Result<()> {
    let skipped = run_all()?;
    println!("\nskipped: {} ({})", skipped.len(), skipped.join("; "));
    Ok(())
}

/// The race, on release builds of the command and of the race itself.
pub(crate) fn race(args: &[&str]) -> Result<()> {
    require_program("python3", &["-c", "import venv, ensurepip"], &["python3", "python3-venv"])?;
    run("cargo", &["build", "--release", "--quiet", "-p", "evenkeel-cli", "-p", "evenkeel-bench"])?;
    race_of("release", args)
}

/// The race, on existing builds.
fn race_of(build: &str, args: &[&str]) -> Result<()> {
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    let evenkeel = format!("{target}/{build}/evenkeel");
    run(&format!("{target}/{build}/race"), &[&["--evenkeel", &evenkeel], args].concat())
}
