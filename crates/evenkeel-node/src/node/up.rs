//! Several nodes in one process on the loopback, for a machine of one's own: to develop against, to test, to show.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_store::cluster::{self, Cluster, Credentials, NoCredentials, Server};
use tokio::net::TcpListener;

use super::maintainer::Upkeep;
use super::server::{Node, Settings, StartError};
use super::store::{Store, StoreError};

/// More nodes are a slip.
pub const MOST_NODES: u32 = 100;
/// How far the control port of a node is from its data port, if the ports are told.
const CONTROL_AFTER: u16 = 100;
/// What a node of speed 0.1 passes is a tenth of this.
const USUAL_BYTES_PER_SECOND: f64 = 100e6;
/// A speed of 1, as cluster files count it.
const USUAL: u64 = 1_000_000;

/// How nodes are run.
#[derive(Clone, Debug)]
pub struct UpSettings {
    /// How many; `None` is as many as there are, or 4.
    pub nodes: Option<u32>,
    /// Where their data, their keys and the cluster file are.
    pub folder: PathBuf,
    /// The data port of the first one; the others follow, and the control ports are 100 higher. `None` is any.
    pub port: Option<u16>,
    /// Speeds, in millionths of the usual one, by names of nodes.
    pub speeds: BTreeMap<String, u64>,
    /// How many bodies a node transfers at a time.
    pub slots: u32,
    /// How each node maintains itself, if they do.
    pub upkeep: Option<Upkeep>,
    /// Writes a line of JSON about each request to standard error.
    pub logs: bool,
}

/// Nodes cannot be started.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum NotUp {
    #[error(transparent)]
    Node(#[from] StartError),
    #[error(transparent)]
    Keys(#[from] NoCredentials),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot write {path}: {error}")]
    Unwritable { path: String, error: io::Error },
    #[error("{0}")]
    Wrong(String),
}

/// Nodes that run until they are stopped or dropped.
#[derive(Debug)]
pub struct Up {
    nodes: Vec<Node>,
    servers: Vec<Server>,
    keys: Credentials,
    cluster: PathBuf,
}

/// What a node of this speed passes a second. At the usual speed it is not limited.
pub fn bytes_per_second(speed_millionths: u64) -> Option<u64> {
    let share = speed_millionths as f64 / USUAL as f64;
    (speed_millionths != USUAL).then(|| (share * USUAL_BYTES_PER_SECOND).max(1.0) as u64)
}

/// The speed, in millionths, of a node that passes so many bytes a second.
pub fn speed_of(bytes_per_second: u64) -> u64 {
    ((bytes_per_second as f64 / USUAL_BYTES_PER_SECOND * USUAL as f64).round() as u64).max(1)
}

impl Up {
    /// Starts nodes, within a runtime. What a folder held when they were last stopped is there again, at the same addresses and with the
    /// same keys. `open` opens the store in a folder.
    pub fn start(
        settings: &UpSettings,
        open: impl Fn(&Path) -> Result<Arc<dyn Store>, StoreError>,
    ) -> Result<Self, NotUp> {
        let folder = &settings.folder;
        fs::create_dir_all(folder).map_err(|error| unwritable(folder, error))?;
        let cluster_path = folder.join("cluster.toml");
        let before = match fs::exists(&cluster_path) {
            Ok(true) => Some(Cluster::read(&cluster_path).map_err(StartError::from)?),
            Ok(false) => None,
            Err(error) => return Err(unwritable(&cluster_path, error)),
        };
        let keys = Credentials::read_or_make(&folder.join("credentials"))?;
        let mut servers = match &before {
            Some(cluster) => known(cluster, settings)?,
            None => new(settings)?,
        };
        for (name, speed) in &settings.speeds {
            let Some(server) = servers.iter_mut().find(|server| server.name == *name) else {
                let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
                return Err(NotUp::Wrong(format!(
                    "there is no node `{name}` to have a speed; there are {}",
                    names.join(", ")
                )));
            };
            server.speed_millionths = *speed;
        }
        let mut listeners = Vec::new();
        for server in &mut servers {
            let data = listen(&mut server.endpoint)?;
            let control = match &mut server.control {
                Some(control) => Some(listen(control)?),
                None => None,
            };
            listeners.push((data, control));
        }
        let text = cluster::write(&servers, "credentials");
        if before.is_none_or(|before| before.servers != servers) {
            write(&cluster_path, &text).map_err(|error| unwritable(&cluster_path, error))?;
        }
        let cluster = Cluster::parse(&text, folder).map_err(NotUp::Wrong)?;
        let mut nodes = Vec::new();
        for (server, (data, control)) in servers.iter().zip(listeners) {
            let store = open(&folder.join(&server.name))?;
            let settings = Settings {
                name: server.name.clone(),
                keys: keys.clone(),
                slots: settings.slots,
                bytes_per_second: bytes_per_second(server.speed_millionths),
                cluster: Some(cluster.clone()),
                upkeep: settings.upkeep.clone(),
                tls: None,
                logs: settings.logs,
            };
            nodes.push(Node::start(store, data, control, settings)?);
        }
        Ok(Self { nodes, servers, keys, cluster: cluster_path })
    }

    /// The servers of the cluster.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The nodes, in the same order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The keys of all nodes.
    pub fn keys(&self) -> &Credentials {
        &self.keys
    }

    /// The cluster file.
    pub fn cluster(&self) -> &Path {
        &self.cluster
    }

    /// Accepts nobody any more, and finishes what is under way; what takes longer than `patience` is broken off.
    pub async fn stop(self, patience: Duration) {
        let stops = self.nodes.into_iter().map(|node| node.stop(patience));
        futures_util::future::join_all(stops).await;
    }
}

/// The nodes of the cluster file that is there.
fn known(cluster: &Cluster, settings: &UpSettings) -> Result<Vec<Server>, NotUp> {
    let there = cluster.servers.len();
    let folder = settings.folder.display();
    if let Some(wanted) = settings.nodes.filter(|wanted| *wanted as usize != there) {
        return Err(NotUp::Wrong(format!(
            "{folder} holds {there} nodes, and {wanted} are asked for; leave out --nodes, or name another folder"
        )));
    }
    if let Some(port) = settings.port
        && cluster.servers.first().is_some_and(|server| !server.endpoint.ends_with(&format!(":{port}")))
    {
        return Err(NotUp::Wrong(format!(
            "the nodes in {folder} have their ports from cluster.toml; leave out --port, or change them there"
        )));
    }
    Ok(cluster.servers.clone())
}

/// Nodes that are not there yet.
fn new(settings: &UpSettings) -> Result<Vec<Server>, NotUp> {
    let n = settings.nodes.unwrap_or(4);
    if !(1..=MOST_NODES).contains(&n) {
        return Err(NotUp::Wrong(format!("there can be 1 to {MOST_NODES} nodes in a process, and not {n}")));
    }
    let address = |offset: u32| match settings.port {
        None => Ok(format!("http://{}", SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))),
        Some(port) => u32::from(port)
            .checked_add(offset)
            .and_then(|port| u16::try_from(port).ok())
            .map(|port| format!("http://{}", SocketAddr::from((Ipv4Addr::LOCALHOST, port))))
            .ok_or_else(|| {
                NotUp::Wrong(format!("there are not enough ports after {port}; name a lower --port"))
            }),
    };
    let node = |number: u32| {
        Ok(Server {
            name: format!("s{}", number + 1),
            endpoint: address(number)?,
            control: Some(address(number + u32::from(CONTROL_AFTER))?),
            speed_millionths: USUAL,
            region: None,
            credentials: None,
        })
    };
    (0..n).map(node).collect()
}

/// Listens at an address of the loopback, and puts in the port if any would do.
fn listen(address: &mut String) -> Result<TcpListener, NotUp> {
    let at = address.strip_prefix("http://").and_then(|at| at.parse::<SocketAddr>().ok());
    let Some(at) = at.filter(|at| at.ip().is_loopback()) else {
        return Err(NotUp::Wrong(format!(
            "{address} in cluster.toml is no address of the loopback such as http://127.0.0.1:9101; `up` serves only \
             those"
        )));
    };
    let listener = Node::listen(at)?;
    let bound = listener.local_addr().map_err(|error| StartError::Listen { address: at, error })?;
    *address = format!("http://{bound}");
    Ok(listener)
}

/// Writes a file so that it is there whole or not at all.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = fs::File::create(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    match path.parent() {
        Some(folder) => fs::File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

fn unwritable(path: &Path, error: io::Error) -> NotUp {
    NotUp::Unwritable { path: path.display().to_string(), error }
}
