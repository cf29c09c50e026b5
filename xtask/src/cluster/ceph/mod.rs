//! Ceph: one OSD in each namespace, and a monitor and a manager in namespaces of their own.
//!
//! Server `s1` is `osd.0`, `s2` is `osd.1` and so on; in the CRUSH map each is a host of its own. Pacific is what Debian 12
//! has. Reef is from a folder with Debian 13, whose `/usr` takes the place of the machine's own for Ceph's programs alone.

mod reef;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::lifecycle::{Server, Wish, make_folder, poll, write};
use super::network::{self, Host};
use super::{list, text};
use crate::run::{Result, output, require_program};

/// What Debian calls them.
const PACKAGES: [&str; 4] = ["ceph-mon", "ceph-osd", "ceph-mgr", "ceph-common"];
const SERVERS: [&str; 3] = ["ceph-mon", "ceph-mgr", "ceph-osd"];
/// Ceph's other programs.
const TOOLS: [&str; 6] = ["ceph", "rados", "monmaptool", "osdmaptool", "crushtool", "ceph-objectstore-tool"];
/// Servers answer local questions here. In the state folder the names could be longer than a socket may have.
const SOCKETS: &str = "/run/evenkeel-ceph";
/// What an OSD keeps in its folder.
const DATA: &str = "osd";
/// How many OSDs are made at a time.
const AT_ONCE: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Release {
    Pacific,
    Reef,
}

impl Release {
    const ALL: [Release; 2] = [Release::Pacific, Release::Reef];

    fn name(self) -> &'static str {
        match self {
            Release::Pacific => "pacific",
            Release::Reef => "reef",
        }
    }

    /// The oldest clients that may connect, unless told otherwise: the first that know what the release has to choose
    /// who leads, `pg-upmap` or `pg-upmap-primary`.
    fn min_compat_client(self) -> &'static str {
        match self {
            Release::Pacific => "luminous",
            Release::Reef => "reef",
        }
    }
}

/// What `up` takes for Ceph alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    release: Release,
    /// The release of the oldest clients that may connect.
    min_compat_client: Option<String>,
    /// Names, and how many groups each has.
    pools: Vec<(String, u32)>,
}

impl Default for Options {
    fn default() -> Options {
        Options { release: Release::Pacific, min_compat_client: None, pools: vec![("bench".to_owned(), 64)] }
    }
}

impl Options {
    pub(crate) fn release_name(&self) -> &'static str {
        self.release.name()
    }

    /// Sets an option of the command line.
    pub(crate) fn set(&mut self, option: &str, value: &str) -> Result<()> {
        let expected = match option {
            "--release" => {
                let release = Release::ALL.into_iter().find(|release| release.name() == value);
                if let Some(release) = release {
                    self.release = release;
                    return Ok(());
                }
                "pacific or reef"
            }
            "--min-compat-client" => {
                if is_word(value) {
                    self.min_compat_client = Some(value.to_owned());
                    return Ok(());
                }
                "the name of a release, such as luminous"
            }
            _ => {
                if let Some(pools) = value.split(',').map(parse_pool).collect() {
                    self.pools = pools;
                    return Ok(());
                }
                "names and numbers of groups, as in hot:64,cold:32"
            }
        };
        Err(format!("{option} takes {expected}, not `{value}`"))
    }
}

/// A pool such as `hot:64`.
fn parse_pool(text: &str) -> Option<(String, u32)> {
    let (name, groups) = text.split_once(':').filter(|(name, _)| is_word(name))?;
    let groups = groups.parse().ok().filter(|groups| (1..=65_536).contains(groups))?;
    Some((name.to_owned(), groups))
}

/// Whether it is one word to Ceph's own client.
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
}

pub(crate) fn install(options: &Options) -> Result<()> {
    if options.release == Release::Reef {
        return reef::install();
    }
    SERVERS.iter().try_for_each(|program| require_program(program, &["--version"], &PACKAGES))?;
    require_program("ceph", &["--version"], &PACKAGES)
}

/// The monitor and the manager.
pub(crate) fn heads() -> Vec<Host> {
    vec![Host::monitor(1), Host::manager(1)]
}

/// Where a server answers, or, for those without a fixed port, its host.
pub(crate) fn address(host: &Host) -> String {
    if host.is_monitor() { format!("{}:6789", host.address) } else { host.address.to_string() }
}

/// A server as Ceph calls it.
pub(crate) fn name(host: &Host) -> String {
    match osd(host) {
        Some(number) => format!("osd.{number}"),
        None if host.is_monitor() => format!("mon.{}", host.name),
        None => format!("mgr.{}", host.name),
    }
}

/// The number of the OSD on a host.
fn osd(host: &Host) -> Option<u32> {
    host.name.strip_prefix('s')?.parse::<u32>().ok()?.checked_sub(1)
}

/// The configuration of servers and clients, `CEPH_CONF`.
pub(crate) fn configuration(state: &Path) -> PathBuf {
    state.join("ceph.conf")
}

/// A folder with Ceph's programs, of the release that is up.
pub(crate) fn tools(state: &Path) -> PathBuf {
    state.join("tools")
}

fn tool(state: &Path, program: &str) -> String {
    tools(state).join(program).display().to_string()
}

/// Writes what all servers and clients share. Makes what the monitor begins with, and gives the heads their commands.
pub(crate) fn prepare(state: &Path, heads: &mut [Server], servers: &[Server], wish: &Wish) -> Result<()> {
    write_tools(state, wish.ceph.release)?;
    make_folder(Path::new(SOCKETS))?;
    let fsid = uuid()?;
    write(&configuration(state), &configure(state, heads, servers, wish, &fsid))?;
    for head in heads {
        make_folder(&data(head))?;
        if head.host.is_monitor() {
            head.command = serve(state, head, "ceph-mon");
            let map = head.home.join("monmap").display().to_string();
            let (name, addresses) = (&head.host.name, addresses(&head.host));
            let create = ["--create", "--fsid", &fsid, "--addv", name, &addresses, &map];
            output(Command::new(tool(state, "monmaptool")).args(create))?;
            make(head, &["--monmap", &map])?;
        } else {
            head.command = serve(state, head, "ceph-mgr");
        }
    }
    Ok(())
}

fn write_tools(state: &Path, release: Release) -> Result<()> {
    make_folder(&tools(state))?;
    for program in SERVERS.into_iter().chain(TOOLS) {
        let file = tools(state).join(program);
        match release {
            Release::Pacific => {
                let path = output(Command::new("sh").args(["-c", r#"command -v "$0""#, program]))?;
                symlink(path.trim(), &file).map_err(|error| format!("{}: {error}", file.display()))?;
            }
            Release::Reef => reef::write_tool(&file, program)?,
        }
    }
    Ok(())
}

/// Returns the command that serves in the foreground.
pub(crate) fn prepare_osd(state: &Path, server: &Server) -> Result<Vec<String>> {
    let data = data(server);
    if data.exists() {
        let data = data.display();
        return Err(format!("{data} belongs to an earlier OSD; remove it or name another --root"));
    }
    make_folder(&data)?;
    write(&identity(server), &uuid()?)?;
    Ok(serve(state, server, "ceph-osd"))
}

/// Makes what OSDs begin with, several at a time.
fn make_osds(servers: &[Server]) -> Result<()> {
    let make = |server: &Server| make(server, &["--osd-uuid", &read(&identity(server))?, "--no-mon-config"]);
    servers.chunks(AT_ONCE).try_for_each(|servers| {
        std::thread::scope(|scope| {
            let makers: Vec<_> = servers.iter().map(|server| scope.spawn(move || make(server))).collect();
            makers.into_iter().try_for_each(|maker| {
                maker.join().unwrap_or_else(|_| Err("a thread that makes an OSD has failed".to_owned()))
            })
        })
    })
}

/// The command that serves in the foreground.
fn serve(state: &Path, server: &Server, program: &str) -> Vec<String> {
    let id = osd(&server.host).map_or_else(|| server.host.name.clone(), |number| number.to_string());
    let configuration = configuration(state).display().to_string();
    [&tool(state, program), "-f", "-c", &configuration, "-i", &id].map(str::to_owned).to_vec()
}

/// Makes what a server keeps, before its first start.
fn make(server: &Server, options: &[&str]) -> Result<()> {
    let mut command = network::command(&server.host.namespace(), &server.command[0]);
    let made = output(command.args(&server.command[1..]).arg("--mkfs").args(options));
    made.map(drop)
}

/// What a server keeps.
fn data(server: &Server) -> PathBuf {
    server.folder.join(DATA)
}

/// Has the number by which Ceph knows an OSD again.
fn identity(server: &Server) -> PathBuf {
    server.home.join("uuid")
}

fn addresses(host: &Host) -> String {
    format!("[v2:{0}:3300,v1:{0}:6789]", host.address)
}

fn uuid() -> Result<String> {
    Ok(read(Path::new("/proc/sys/kernel/random/uuid"))?.trim().to_owned())
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}

fn configure(state: &Path, heads: &[Server], servers: &[Server], wish: &Wish, fsid: &str) -> String {
    let monitors: Vec<String> =
        heads.iter().filter(|head| head.host.is_monitor()).map(|head| addresses(&head.host)).collect();
    let (monitors, state, replicas) = (monitors.join(","), state.display(), wish.replicas);
    let global = format!(
        "[global]
fsid = {fsid}
mon host = {monitors}
public network = 10.77.0.0/24
auth cluster required = none
auth service required = none
auth client required = none
auth allow insecure global id reclaim = false
run dir = {SOCKETS}
crash dir = {state}

# Pools stay as they are made, and the manager makes none for itself.
mgr pool = false
osd pool default size = {replicas}
osd pool default pg autoscale mode = off
mon allow pool size one = true
mon warn on pool no redundancy = false
mon max pg per osd = 10000
mon pg warn min per osd = 0

# An OSD that ended may come back at any time: until then its data stay where they are.
mon osd down out interval = 31536000

# Small: sparse files, little memory, no programs in the manager that nobody asked for, no measuring at the start.
bluestore block size = 4294967296
bluestore fsck on mkfs = false
osd memory target = 939524096
osd op queue = wpq
mgr initial modules =
mon data avail warn = 2
mon data avail crit = 1

# What is told about groups is a second old.
mgr stats period = 1
mgr tick period = 1
"
    );
    let settings = wish.settings.iter().map(|(name, value)| format!("{name} = {value}\n"));
    let kinds = ["mon", "mgr", "osd"].map(|kind| {
        let logs = "log file =\nlog to stderr = true\nerr to stderr = true\nmon cluster log to file = false";
        format!("\n[{kind}]\nadmin socket = {SOCKETS}/$name.asok\n{logs}\n")
    });
    let servers = heads.iter().chain(servers).map(|server| {
        let (name, data, host) = (name(&server.host), data(server), &server.host.name);
        let kind = name.split('.').next().unwrap_or_default();
        format!("\n[{name}]\n{kind} data = {}\ncrush location = root=default host={host}\n", data.display())
    });
    std::iter::once(global).chain(settings).chain(kinds).chain(servers).collect::<Vec<_>>().concat()
}

/// Makes OSDs and, as soon as the monitor answers, tells it about them. They start after that.
pub(crate) fn introduce(state: &Path, heads: &[Server], servers: &[Server], wish: &Wish) -> Result<()> {
    make_osds(servers)?;
    heads
        .iter()
        .filter(|head| head.host.is_monitor())
        .try_for_each(|head| poll(head, || has_started(head)))?;
    let options = &wish.ceph;
    let oldest = options.min_compat_client.as_deref().unwrap_or(options.release.min_compat_client());
    let mut commands = vec![
        // Forced, since the manager has not told its options yet. Nothing is to move a group but what is under test.
        "config set mgr mgr/balancer/active false --force".to_owned(),
        "config set mgr mgr/devicehealth/enable_monitoring false --force".to_owned(),
        format!("osd set-require-min-compat-client {oldest}"),
    ];
    for server in servers {
        let number = osd(&server.host).unwrap_or_default();
        commands.push(format!("osd new {} {number}", read(&identity(server))?));
    }
    for (pool, groups) in &options.pools {
        commands.push(format!("osd pool create {pool} {groups} {groups}"));
        commands.push(format!("osd pool application enable {pool} bench"));
    }
    tell(state, &commands)
}

/// Gives the monitor many commands at once: Ceph's own client takes longer to start than they do.
fn tell(state: &Path, commands: &[String]) -> Result<()> {
    let file = state.join("commands");
    write(&file, &(commands.join("\n") + "\n"))?;
    let mut command = network::command(&Host::monitor(1).namespace(), "sh");
    let line = r#""$0" -c "$1" --connect-timeout 30 < "$2" 2>&1"#;
    command.args(["-c", line, &tool(state, "ceph")]).arg(configuration(state)).arg(&file);
    let said = output(&mut command)?;
    // It goes on after a command that failed, and ends as if none had.
    match said.lines().find(|line| line.contains("Error E") || line.contains("Invalid command")) {
        Some(line) => Err(format!("ceph: {line}; see {}", file.display())),
        None => Ok(()),
    }
}

/// Fails unless a server has found the others.
pub(crate) fn has_started(server: &Server) -> Result<()> {
    let (question, is_ready): (_, fn(&Value) -> bool) = match osd(&server.host) {
        Some(_) => ("status", |told| told["state"] == "active"),
        None if server.host.is_monitor() => ("mon_status", |told| told["state"] == "leader"),
        None => ("mgr_status", |told| told["initialized"] == true),
    };
    let told = ask(&server.host, question)?;
    is_ready(&told).then_some(()).ok_or_else(|| format!("{} is not ready: {told}", name(&server.host)))
}

/// Asks a server on this machine, as `ceph daemon` does.
fn ask(host: &Host, question: &str) -> Result<Value> {
    let path = format!("{SOCKETS}/{}.asok", name(host));
    let ask = || {
        let mut socket = UnixStream::connect(&path)?;
        socket.set_read_timeout(Some(Duration::from_secs(5)))?;
        socket.write_all(format!("{{\"prefix\": \"{question}\"}}\0").as_bytes())?;
        // After its length.
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer)?;
        Ok(answer)
    };
    let answer = ask().map_err(|error: std::io::Error| format!("{path}: {error}"))?;
    serde_json::from_slice(answer.get(4..).unwrap_or_default()).map_err(|error| format!("{path}: {error}"))
}

/// Waits until all groups of all pools have all their replicas.
pub(crate) fn join(state: &Path, servers: &[Server], wish: &Wish) -> Result<()> {
    let wanted: u64 = wish.ceph.pools.iter().map(|(_, groups)| u64::from(*groups)).sum();
    poll(&servers[0], || {
        let mut command = network::command(&Host::client(1).namespace(), &tool(state, "ceph"));
        let told = output(command.arg("-c").arg(configuration(state)).args([
            "--connect-timeout",
            "10",
            "status",
            "-f",
            "json",
        ]))?;
        let told: Value = serde_json::from_str(&told).map_err(|error| format!("ceph status: {error}"))?;
        let groups = &told["pgmap"];
        let clean = list(&groups["pgs_by_state"]).filter(|part| text(&part["state_name"]) == "active+clean");
        let clean: u64 = clean.filter_map(|part| part["count"].as_u64()).sum();
        let is_clean = clean >= wanted && groups["num_pgs"] == clean;
        is_clean.then_some(()).ok_or_else(|| {
            format!("{clean} groups of {wanted} are clean; groups are {}", groups["pgs_by_state"])
        })
    })
}

/// Removes what an OSD wrote into its folder.
pub(crate) fn remove_data(folder: &Path) {
    let _ = fs::remove_dir_all(folder.join(DATA));
}

/// Removes what servers left outside of the state folder.
pub(crate) fn remove_sockets() {
    let _ = fs::remove_dir_all(SOCKETS);
}

/// What is left of servers outside of the state folder.
pub(crate) fn left() -> Option<&'static str> {
    Path::new(SOCKETS).exists().then_some(SOCKETS)
}

#[test]
fn releases() {
    let mut options = Options::default();
    options.set("--release", "reef").unwrap();
    options.set("--min-compat-client", "quincy").unwrap();
    assert_eq!((options.release, options.min_compat_client.as_deref()), (Release::Reef, Some("quincy")));
    assert_eq!(options.set("--release", "x").unwrap_err(), "--release takes pacific or reef, not `x`");
    assert!(options.set("--min-compat-client", "a b").is_err());
}

#[test]
fn pools() {
    let mut options = Options::default();
    assert_eq!(options.pools, [("bench".to_owned(), 64)]);
    options.set("--pools", "hot:64,cold-1:8").unwrap();
    assert_eq!(options.pools, [("hot".to_owned(), 64), ("cold-1".to_owned(), 8)]);
    for bad in ["", "hot", "hot:", ":8", "hot:0", "hot:x", "hot:8,", "h t:8"] {
        assert!(options.set("--pools", bad).is_err(), "{bad}");
    }
}

#[test]
fn names() {
    assert_eq!(name(&Host::server(1)), "osd.0");
    assert_eq!(name(&Host::monitor(1)), "mon.m1");
    assert_eq!(name(&Host::manager(1)), "mgr.g1");
}
