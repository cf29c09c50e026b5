//! `XRootD`: the storage of high-energy physics, over HTTP and `WebDAV` on port 8081, and over its own protocol on port
//! 1094.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::process::Command;

use super::lifecycle::{Server, write};
use crate::run::{Result, output, require_program, works};

/// It refuses to run as root; Debian's package makes this user.
const USER: &str = "xrootd";

pub(crate) fn install() -> Result<()> {
    // The client too: `xrdcp` is a peer in races.
    let packages = ["xrootd-server", "xrootd-server-plugins", "xrootd-client"];
    require_program("xrootd", &["-v"], &packages)?;
    require_program("xrdcp", &["--version"], &packages)
}

/// Writes the configuration. Returns the command that serves in the foreground.
pub(crate) fn prepare(server: &Server) -> Result<Vec<String>> {
    // `/data` of the export is a link to the folder, so that all kinds of servers serve the same layout of folders.
    let exported = server.home.join("export");
    fs::create_dir_all(&exported)
        .and_then(|()| symlink(&server.folder, exported.join("data")))
        .map_err(|error| format!("{}: {error}", exported.display()))?;
    let file = server.home.join("xrootd.cfg");
    write(&file, &configuration(server))?;
    let user = |flag| {
        let id = output(Command::new("id").args([flag, USER]))?;
        id.trim().parse::<u32>().map_err(|_| format!("id {flag} {USER} printed {id:?}, not a number"))
    };
    let (uid, gid) = (user("-u")?, user("-g")?);
    for folder in [&server.home, &server.folder] {
        let path = folder.display().to_string();
        chown(folder, Some(uid), Some(gid)).map_err(|error| format!("{path}: {error}"))?;
        // A server that cannot enter it, as in a checkout below /root, would start and refuse every request.
        if !works("runuser", &["-u", USER, "--", "test", "-w", &path]) {
            return Err(format!("user {USER} cannot enter {path}; `chmod o+x` the folders above it"));
        }
    }
    Ok(["xrootd", "-R", USER, "-c", &file.display().to_string(), "-n", &server.host.name]
        .map(str::to_owned)
        .to_vec())
}

fn configuration(server: &Server) -> String {
    let home = server.home.display();
    format!(
        "xrd.port 1094
xrd.network nodnr
oss.localroot {home}/export
all.export /data
all.adminpath {home}
all.pidpath {home}
xrootd.chksum adler32
if exec xrootd
xrd.protocol http:8081 libXrdHttp.so
fi
"
    )
}
