//! Bringing a cluster up and taking it down.
//!
//! A machine has one cluster at most. Its state folder, `target/cluster`, holds configurations, logs and, unless told
//! otherwise, the files that are served.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::network::{self, Host, Link};
use super::{Failure, Kind, ceph, garage, hdfs, kafka, list, nginx, node, text, xrootd};
use crate::run::{Result, output, require_program, target};

/// How long servers may take to answer. They take a second or two, more on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// What `up` makes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) kind: Kind,
    pub(crate) servers: u8,
    pub(crate) clients: u8,
    /// What each server may send, as `tc` reads it, or `none`.
    pub(crate) rate: String,
    /// What others may send to each server.
    pub(crate) inbound: String,
    /// What processes on its own host may read from each server.
    pub(crate) disk: String,
    /// Has a folder `sN` for each server. In the state folder if absent.
    pub(crate) root: Option<PathBuf>,
    /// How many nodes of Garage or OSDs of Ceph keep each object, DataNodes each block, or brokers each topic.
    pub(crate) replicas: u8,
    /// Two NameNodes, one of which stands by.
    pub(crate) is_pair: bool,
    /// Nodes of Garage that know nothing of each other.
    pub(crate) is_apart: bool,
    /// Properties of Hadoop or Kafka, or options of Ceph.
    pub(crate) settings: Vec<(String, String)>,
    /// What is for Ceph alone.
    pub(crate) ceph: ceph::Options,
}

impl Wish {
    /// Hosts beside the servers that know what is where: NameNodes of HDFS, or Ceph's monitor and manager.
    fn heads(&self) -> Vec<Host> {
        match self.kind {
            Kind::Hdfs => (1..=if self.is_pair { 2 } else { 1 }).map(Host::name_node).collect(),
            Kind::Ceph => ceph::heads(),
            _ => Vec::new(),
        }
    }
}

/// A server to be started.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) host: Host,
    /// What it serves.
    pub(crate) folder: PathBuf,
    /// Its configuration and logs.
    pub(crate) home: PathBuf,
    /// Serves in the foreground.
    pub(crate) command: Vec<String>,
    /// 0 until it is started.
    pid: u32,
}

impl Server {
    pub(crate) fn new(host: &Host, folder: PathBuf, state: &Path) -> Server {
        Server { host: host.clone(), folder, home: state.join(&host.name), command: Vec::new(), pid: 0 }
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.home.join("log")
    }

    fn is_running(&self) -> bool {
        // A process that has ended stays as a zombie until someone has waited for it. Not by its command line, which is
        // empty for a moment whenever a process becomes another program.
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        status
            .lines()
            .any(|line| line.starts_with("State:") && !line.contains("Z (") && !line.contains("X ("))
    }

    fn describe(&self, kind: Kind) -> Value {
        json!({
            "name": self.host.name,
            "address": kind.address(&self.host),
            "source": kind.source(&self.host),
            "folder": self.folder,
            "log": self.log(),
            "command": self.command,
            "pid": self.pid,
        })
    }

    /// The last thing it said, and where there is more.
    fn last_words(&self) -> String {
        let log = self.log();
        let text = fs::read(&log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it logged nothing");
        format!("{}; see {}", last.trim(), log.display())
    }
}

/// Replaces whatever is there by a new cluster. Returns its description.
pub(crate) fn up(wish: &Wish) -> std::result::Result<Value, Failure> {
    let _lock = lock()?;
    let state = state_folder();
    if let Some(owner) = network::owner().filter(|owner| *owner != state && owner.exists()) {
        let owner = owner.display();
        return Err(format!("a cluster of another checkout is up ({owner}); take it down first").into());
    }
    let unsupported = |reason| {
        let remedy = "use a machine where root may make them";
        Failure::Unsupported(format!("network namespaces are not allowed here; {remedy} ({reason})"))
    };
    require_program("ip", &["-V"], &["iproute2"]).map_err(unsupported)?;
    remove()?;
    let servers: Vec<Host> = (1..=wish.servers).map(Host::server).collect();
    let clients: Vec<Host> = (1..=wish.clients).map(Host::client).collect();
    let heads = wish.heads();
    let hosts: Vec<&Host> = servers.iter().chain(&clients).chain(&heads).collect();
    let made = network::build(&state, &hosts).map_err(unsupported);
    let made = made.and_then(|()| Ok(start(wish, &state, &servers, &clients, &heads)?));
    if made.is_err() {
        // The logs stay, since the error names them.
        network::remove()?;
    }
    made
}

/// Starts the servers in a network that exists, and waits until the first client can read from each.
fn start(wish: &Wish, state: &Path, servers: &[Host], clients: &[Host], heads: &[Host]) -> Result<Value> {
    for server in servers {
        network::shape(&server.namespace(), Link::Network, &wish.rate)?;
        network::shape(&server.namespace(), Link::Inbound, &wish.inbound)?;
        network::shape(&server.namespace(), Link::Disk, &wish.disk)?;
    }
    require_program("curl", &["--version"], &["curl"])?;
    wish.kind.install(wish)?;
    make_folder(state)?;
    let root = std::path::absolute(wish.root.clone().unwrap_or_else(|| state.join("data")));
    let root = root.map_err(|error| format!("cannot tell where the root folder is: {error}"))?;
    let mut servers: Vec<Server> =
        servers.iter().map(|host| Server::new(host, root.join(&host.name), state)).collect();
    let mut heads: Vec<Server> =
        heads.iter().map(|host| Server::new(host, state.join(&host.name).join("name"), state)).collect();
    let folders: Vec<&Path> = std::iter::once(&root)
        .chain(servers.iter().map(|server| &server.folder))
        .map(PathBuf::as_path)
        .collect();
    let mut described = json!({
        "kind": wish.kind.name(),
        "made": folders.iter().filter(|folder| !folder.exists()).collect::<Vec<_>>(),
    });
    // Before anything is written there, so that `down` knows what to remove.
    write(&description_file(state), &described.to_string())?;
    folders.iter().try_for_each(|folder| make_folder(folder))?;
    if wish.kind == Kind::Hdfs {
        hdfs::configure(state, &heads, wish)?;
        hdfs::prepare(state, &mut heads)?;
    }
    if wish.kind == Kind::Ceph {
        ceph::prepare(state, &mut heads, &servers, wish)?;
    }
    let rpc_secret = garage::random_hex(32)?;
    if wish.kind == Kind::Node {
        node::configure(state, &servers)?;
    }
    let kafka_id = if wish.kind == Kind::Kafka { kafka::configure(state)? } else { String::new() };
    for server in &mut servers {
        make_folder(&server.home)?;
        server.command = match wish.kind {
            Kind::Nginx => nginx::prepare(server)?,
            Kind::Xrootd => xrootd::prepare(server)?,
            Kind::Garage => garage::prepare(server, wish.replicas, &rpc_secret)?,
            Kind::Hdfs => hdfs::prepare_data_node(state, server)?,
            Kind::Ceph => ceph::prepare_osd(state, server)?,
            Kind::Kafka => kafka::prepare(state, server, wish, &kafka_id)?,
            Kind::Node => node::prepare(state, server)?,
        };
    }
    heads.iter_mut().try_for_each(spawn)?;
    if wish.kind == Kind::Ceph {
        ceph::introduce(state, &heads, &servers, wish)?;
    }
    servers.iter_mut().try_for_each(spawn)?;
    let client = &clients[0];
    heads.iter().chain(&servers).try_for_each(|server| await_start(wish.kind, server, client))?;
    join(wish, state, &heads, &servers, client, &mut described)?;
    described["servers"] = servers.iter().map(|server| server.describe(wish.kind)).collect();
    described["clients"] = clients
        .iter()
        .map(|client| json!({ "name": client.name, "address": client.address.to_string() }))
        .collect();
    write(&description_file(state), &described.to_string())?;
    Ok(described)
}

/// Makes one storage of servers that answer, and describes what its users need to know.
fn join(
    wish: &Wish,
    state: &Path,
    heads: &[Server],
    servers: &[Server],
    client: &Host,
    described: &mut Value,
) -> Result<()> {
    if wish.kind == Kind::Garage {
        let credentials = state.join("credentials");
        let key = garage::Key::draw()?;
        let stores = if wish.is_apart { 1 } else { servers.len() };
        servers.chunks(stores).try_for_each(|store| garage::join(store, &key))?;
        garage::write_credentials(&key, &credentials)?;
        if wish.is_apart {
            described["cluster"] = json!(garage::write_cluster_file(state, servers, &key)?);
        }
        // The key and the bucket reach some nodes later than others.
        let login = garage::login(&credentials)?;
        for server in servers {
            await_answer(wish.kind, server, client, &login, "200")?;
        }
        described["credentials"] = json!(credentials);
    }
    if wish.kind == Kind::Node {
        let credentials = node::join(state, servers, client)?;
        described["credentials"] = json!(credentials);
        described["cluster"] = json!(node::cluster_file(state));
    }
    if wish.kind == Kind::Hdfs {
        hdfs::join(state, heads, servers, client)?;
        described["configuration"] = json!(hdfs::configuration(state));
        described["client"] = json!(hdfs::client(state));
        described["source"] = json!(hdfs::file_system(wish.is_pair));
        described["name_nodes"] = heads.iter().map(|node| node.describe(wish.kind)).collect();
    }
    if wish.kind == Kind::Ceph {
        ceph::join(state, servers, wish)?;
        described["configuration"] = json!(ceph::configuration(state));
        described["tools"] = json!(ceph::tools(state));
        described["release"] = json!(wish.ceph.release_name());
        described["monitors"] = heads.iter().map(|head| head.describe(wish.kind)).collect();
    }
    if wish.kind == Kind::Kafka {
        kafka::join(state, servers, client)?;
        described["client"] = json!(kafka::client(state));
        described["bootstrap"] = json!(kafka::bootstrap(servers));
    }
    Ok(())
}

/// Starts a server again that has ended, and waits until it answers.
pub(crate) fn start_again(name: &str) -> Result<()> {
    let _lock = lock()?;
    let state = network::owner().unwrap_or_else(state_folder);
    let mut described = read(&state).unwrap_or_default();
    let kind = Kind::parse(text(&described["kind"])).ok_or("no cluster is up")?;
    let parts = ["name_nodes", "monitors", "servers"];
    let found = parts.iter().flat_map(|part| list(&described[*part])).find(|server| server["name"] == name);
    let found = found.ok_or_else(|| format!("no server is called `{name}`"))?;
    let host = Host::parse(name).ok_or("a server has no address")?;
    let mut server = Server::new(&host, PathBuf::from(text(&found["folder"])), &state);
    server.command = list(&found["command"]).map(|word| text(word).to_owned()).collect();
    server.pid = found["pid"].as_u64().unwrap_or_default() as u32;
    if server.is_running() {
        return Err(format!("{name} is running, as process {}", server.pid));
    }
    spawn(&mut server)?;
    for part in parts {
        let servers = described[part].as_array_mut().into_iter().flatten();
        servers.filter(|server| server["name"] == name).for_each(|found| found["pid"] = json!(server.pid));
    }
    write(&description_file(&state), &described.to_string())?;
    await_start(kind, &server, &Host::client(1))
}

/// Starts a server that outlives this command.
fn spawn(server: &mut Server) -> Result<()> {
    let path = server.log();
    let log = File::options().create(true).append(true).open(&path);
    let log = log.and_then(|log| Ok((log.try_clone()?, log)));
    let (stdout, stderr) = log.map_err(|error| format!("{}: {error}", path.display()))?;
    let child = network::command(&server.host.namespace(), &server.command[0])
        .args(&server.command[1..])
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr)
        // Ctrl-C is meant for this command and not for the servers.
        .process_group(0)
        .spawn();
    server.pid = child.map_err(|error| format!("cannot start ip: {error}"))?.id();
    Ok(())
}

/// Waits until a server answers at all.
fn await_start(kind: Kind, server: &Server, client: &Host) -> Result<()> {
    match kind {
        Kind::Hdfs => poll(server, || hdfs::has_started(server, client)),
        Kind::Ceph => poll(server, || ceph::has_started(server)),
        Kind::Kafka => poll(server, || kafka::has_started(server, client)),
        _ => await_answer(kind, server, client, &[], kind.first_status()),
    }
}

/// Waits until a server answers a client over the network with the status that is expected.
pub(crate) fn await_answer(
    kind: Kind,
    server: &Server,
    client: &Host,
    login: &[String],
    expected: &str,
) -> Result<()> {
    let url = kind.address(&server.host);
    let args = ["-sS", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "5", &url];
    poll(server, || {
        let status = output(network::command(&client.namespace(), "curl").args(login).args(args))
            .map_err(|error| format!("{error}: {}", server.last_words()))?;
        if status == expected {
            return Ok(());
        }
        Err(format!("{url} answers with status {status}, not {expected}: {}", server.last_words()))
    })
}

/// Tries until it works, for as long as the server runs and patience lasts. Returns the last error then.
pub(crate) fn poll<T>(server: &Server, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let is_over = Instant::now() > deadline;
        match attempt() {
            Ok(done) => return Ok(done),
            Err(error) if is_over => return Err(format!("{error} (waited {} s)", PATIENCE.as_secs())),
            Err(_) if !server.is_running() => {
                return Err(format!("{} ended: {}", server.host.name, server.last_words()));
            }
            Err(_) => sleep(Duration::from_millis(50)),
        }
    }
}

/// Takes the cluster down, or what there is of it. Returns false if there was none, or one of another kind.
pub(crate) fn down(kind: Option<Kind>) -> Result<bool> {
    let _lock = lock()?;
    let running = describe().and_then(|cluster| Kind::parse(cluster["kind"].as_str()?));
    if kind.is_some() && running.is_some() && running != kind {
        return Ok(false);
    }
    remove()
}

/// Removes processes, namespaces and folders. Returns whether there was anything.
fn remove() -> Result<bool> {
    let mut states = vec![state_folder()];
    states.extend(network::owner().filter(|owner| *owner != states[0]));
    let was_there = !network::namespaces().is_empty() || states.iter().any(|state| state.exists());
    network::remove()?;
    ceph::remove_sockets();
    for state in states.iter().filter(|state| state.exists()) {
        let described = read(state).unwrap_or_default();
        let made = described["made"].as_array().map_or(&[][..], Vec::as_slice);
        for folder in made.iter().rev().filter_map(Value::as_str).map(Path::new) {
            match described["kind"].as_str().and_then(Kind::parse) {
                Some(Kind::Garage) => garage::remove_data(folder),
                Some(Kind::Node) => node::remove_data(folder),
                Some(Kind::Hdfs) => hdfs::remove_data(folder),
                Some(Kind::Ceph) => ceph::remove_data(folder),
                Some(Kind::Kafka) => kafka::remove_data(folder),
                _ => {}
            }
            // Not if it holds files, which are others': in the state folder they go with it, elsewhere they stay.
            let _ = fs::remove_dir(folder);
        }
        fs::remove_dir_all(state).map_err(|error| format!("{}: {error}", state.display()))?;
    }
    Ok(was_there)
}

/// The description of the cluster that is up. One that is half-made has no servers in it.
pub(crate) fn describe() -> Option<Value> {
    read(&network::owner()?)
}

fn read(state: &Path) -> Option<Value> {
    serde_json::from_str(&fs::read_to_string(description_file(state)).ok()?).ok()
}

fn description_file(state: &Path) -> PathBuf {
    state.join("cluster.json")
}

fn state_folder() -> PathBuf {
    target().join("cluster")
}

/// Waits for any other `up` or `down` on this machine. The folder is always there, and locking it leaves nothing behind.
fn lock() -> Result<File> {
    let lock = File::open("/run").and_then(|folder| folder.lock().map(|()| folder));
    lock.map_err(|error| format!("cannot lock /run: {error}"))
}

pub(crate) fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}

pub(crate) fn make_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))
}
