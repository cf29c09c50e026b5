//! Runs other programs, and installs them if they are missing.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// An error message for people.
pub(crate) type Result<T> = std::result::Result<T, String>;

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or(here.clone(), PathBuf::from)
}

/// Runs a program in the root of the workspace and prints its command line.
pub(crate) fn run(program: &str, args: &[&str]) -> Result<()> {
    run_with(program, args, &[])
}

/// The same with environment variables set.
pub(crate) fn run_with(program: &str, args: &[&str], variables: &[(&str, &str)]) -> Result<()> {
    println!("\n$ {program} {}", args.join(" "));
    let status =
        Command::new(program).args(args).envs(variables.iter().copied()).current_dir(root()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program} {} ended with {status}", args.join(" "))),
        Err(error) => Err(format!("cannot start {program}: {error}")),
    }
}

/// Whether a program is installed and answers.
pub(crate) fn works(program: &str, args: &[&str]) -> bool {
    let status = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Installs a cargo subcommand if it is missing.
pub(crate) fn require_cargo_tool(name: &str, install_args: &[&str]) -> Result<()> {
    let subcommand = name.trim_start_matches("cargo-");
    if works("cargo", &[subcommand, "--version"]) {
        return Ok(());
    }
    run("cargo", &[&["install", "--locked", name], install_args].concat())
}

/// Installs Debian packages if a program does not work without them.
pub(crate) fn require_program(program: &str, args: &[&str], packages: &[&str]) -> Result<()> {
    if works(program, args) {
        return Ok(());
    }
    let wanted = packages.join(" ");
    if !works("apt-get", &["--version"]) {
        return Err(format!("{program} is missing; install it (on Debian the packages {wanted})"));
    }
    run("apt-get", &["update", "-q"])?;
    run("apt-get", &[&["install", "-y", "-q", "--no-install-recommends"], packages].concat())
}

/// The name of Chromium, which opens pages in tests. Installs it if it is missing.
pub(crate) fn browser() -> Result<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    if let Some(name) = names.into_iter().find(|name| works(name, &["--version"])) {
        return Ok(name);
    }
    require_program("chromium", &["--version"], &["chromium"])?;
    Ok("chromium")
}
