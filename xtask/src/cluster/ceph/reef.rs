//! Reef as Debian 13 has it, on a machine with another Debian: a folder with a small Debian 13 of its own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::lifecycle::{make_folder, write};
use super::PACKAGES;
use crate::run::{self, Result, output, require_program};

const SUITE: &str = "trixie";
/// What the mirror's signatures are checked with.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Makes the folder that is the first argument, from the mirror that is the second. Debootstrap itself stumbles over the
/// order in which Ceph's packages want to be set up, so that apt installs them.
const MAKE: &str = r#"set -e
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
folder=$1 mirror=$2 suite=$3 keyring=$4
shift 4
debootstrap --variant=minbase --keyring="$keyring" "$suite" "$folder" "$mirror"
mount -t proc proc "$folder/proc"
chroot "$folder" apt-get update -q
chroot "$folder" apt-get -o Dpkg::Use-Pty=0 install -y -q --no-install-recommends "$@"
chroot "$folder" apt-get clean
rm -rf "$folder"/var/lib/apt/lists/*"#;

/// A module for Python in front of the one of Debian, and what it says.
const BCRYPT: (&str, &str) = (
    "usr/local/lib/python3.13/dist-packages/bcrypt.py",
    "# Ceph's manager has an interpreter of Python for each of its modules, and all of them import bcrypt. The real one
# refuses to be imported twice in a process, so that no module, not even the balancer, would load. None that is
# loaded here hashes passwords.
",
);

/// Makes the folder, once for each machine: two minutes, 700 MB.
pub(super) fn install() -> Result<()> {
    let (root, new) = (root(), root().with_extension("new"));
    if root.exists() {
        return Ok(());
    }
    // The keys by name, since those of an older Debian 12 lack the ones of Debian 13.
    require_program("debootstrap", &["--version"], &["debootstrap", "debian-archive-keyring"])?;
    if new.exists() {
        fs::remove_dir_all(&new).map_err(|error| format!("{}: {error}", new.display()))?;
    }
    make_folder(&new)?;
    let (mirror, folder) = (mirror()?, new.display().to_string());
    // What is mounted in the folder meanwhile is so for these processes alone, and ends with them.
    let make = ["--mount", "sh", "-c", MAKE, "sh", &folder, &mirror, SUITE, KEYRING];
    run::install("unshare", &[&make[..], &PACKAGES].concat())?;
    let (path, text) = BCRYPT;
    let module = new.join(path);
    module.parent().map_or(Ok(()), make_folder)?;
    write(&module, text)?;
    fs::rename(&new, &root).map_err(|error| format!("{}: {error}", new.display()))
}

fn root() -> PathBuf {
    run::cache("ceph-reef")
}

/// The mirror of Debian that this machine's apt uses.
fn mirror() -> Result<String> {
    let own =
        output(Command::new("sh").args(["-c", r#". /etc/os-release && echo "$ID $VERSION_CODENAME""#]))?;
    let format = "$(REPO_URI) $(COMPONENT) $(RELEASE)";
    let sources =
        output(Command::new("apt-get").args(["indextargets", "--format", format, "Created-By: Packages"]))?;
    find_mirror(&sources, own.trim()).ok_or_else(|| {
        format!("Reef is from a mirror of Debian, and apt's sources name none here (this is {})", own.trim())
    })
}

/// The mirror among apt's sources that has the distribution itself, and neither its updates nor what others add.
fn find_mirror(sources: &str, own: &str) -> Option<String> {
    let release = own.strip_prefix("debian ")?;
    let mut sources = sources.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    sources.find_map(|source| match source[..] {
        [mirror, "main", of] if of == release || of == "stable" => Some(mirror.to_owned()),
        _ => None,
    })
}

/// Writes a program that runs Reef's of the same name. All but the folder `/usr` is the machine's own, with the same paths.
pub(super) fn write_tool(file: &Path, program: &str) -> Result<()> {
    let text = format!(
        r#"#!/bin/sh
# Ceph's {program} as Debian 13 has it, whose /usr takes the place of this machine's, for this process alone.
exec unshare --mount sh -c '
    mount --bind "$0/usr" /usr && mount --bind "$0/etc/ld.so.cache" /etc/ld.so.cache && exec "$@"
' "{}" /usr/bin/{program} "$@"
"#,
        root().display()
    );
    write(file, &text)?;
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(file, executable).map_err(|error| format!("{}: {error}", file.display()))
}

#[test]
fn mirrors() {
    let sources = "http://a/debian-security/ main bookworm-security
http://b/node/ main nodistro
http://c/debian/ contrib bookworm
http://d/debian/ main bookworm
";
    assert_eq!(find_mirror(sources, "debian bookworm").as_deref(), Some("http://d/debian/"));
    assert_eq!(find_mirror(sources, "debian trixie"), None);
    assert_eq!(find_mirror(sources, "ubuntu bookworm"), None);
}
