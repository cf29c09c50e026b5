//! Garage: a replicated S3 store, one node in each namespace, with the S3 protocol on port 3900.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::lifecycle::{Server, poll, write};
use super::{network, node};
use crate::run::{self, Result, output, require_program, works};

const VERSION: &str = "2.5.0";
/// The bucket that is made, and the name of its key.
pub(crate) const BUCKET: &str = "evenkeel";
const REGION: &str = "garage";

/// Builds Garage, which no package contains, once for each machine: a few minutes on two cores.
pub(crate) fn install() -> Result<()> {
    if works(&program(), &["--version"]) {
        return Ok(());
    }
    let packages = ["pkg-config", "libsodium-dev", "libzstd-dev"];
    require_program("pkg-config", &["--exists", "libsodium", "libzstd"], &packages)?;
    let root = root().display().to_string();
    // One engine, and no more optimization than a link of 100 Mbit/s needs: half of the time that the default takes.
    let quick = [
        "--no-default-features",
        "--features",
        "lmdb,system-libs",
        "--config",
        "profile.release.opt-level=1",
    ];
    let what = ["install", "garage", "--version", VERSION, "--locked", "--root", &root];
    run::install("cargo", &[&what[..], &quick].concat())
}

/// The program, which is built if it is not there.
pub(crate) fn installed() -> Result<String> {
    install()?;
    Ok(program())
}

fn root() -> PathBuf {
    run::cache(&format!("garage-{VERSION}"))
}

fn program() -> String {
    root().join("bin/garage").display().to_string()
}

/// Writes the configuration. Returns the command that serves in the foreground.
pub(crate) fn prepare(server: &Server, replicas: u8, rpc_secret: &str) -> Result<Vec<String>> {
    let file = configuration_file(server);
    let meta = server.folder.join("meta");
    if meta.exists() {
        return Err(format!(
            "{} belongs to an earlier node; remove it or name another --root",
            meta.display()
        ));
    }
    let (folder, address) = (server.folder.display(), server.host.address);
    let text = format!(
        "metadata_dir = '{folder}/meta'
data_dir = '{folder}/data'
replication_factor = {replicas}
rpc_bind_addr = '0.0.0.0:3901'
rpc_public_addr = '{address}:3901'
rpc_secret = '{rpc_secret}'

[s3_api]
s3_region = '{REGION}'
api_bind_addr = '0.0.0.0:3900'
"
    );
    write(&file, &text)?;
    Ok([&program(), "-c", &file.display().to_string(), "server"].map(str::to_owned).to_vec())
}

fn configuration_file(server: &Server) -> PathBuf {
    server.home.join("garage.toml")
}

/// Removes what a node wrote into its folder.
pub(crate) fn remove_data(folder: &Path) {
    for part in ["meta", "data"] {
        let _ = fs::remove_dir_all(folder.join(part));
    }
}

/// What requests are signed with.
pub(crate) struct Key {
    id: String,
    secret: String,
}

impl Key {
    pub(crate) fn draw() -> Result<Key> {
        Ok(Key { id: format!("GK{}", random_hex(12)?), secret: random_hex(32)? })
    }
}

/// Joins running nodes into one store, with a bucket and a key, and waits until each can reach all others.
pub(crate) fn join(servers: &[Server], key: &Key) -> Result<()> {
    let first = &servers[0];
    for server in servers {
        // The key and address of a node: `0123…@10.77.0.11:3901`.
        let node = garage(server, &["node", "id", "-q"])?;
        let id = node.trim().split('@').next().unwrap_or_default();
        if server.host != first.host {
            poll(server, || garage(first, &["node", "connect", node.trim()]))?;
        }
        // Capacities matter only relative to each other.
        garage(first, &["layout", "assign", id, "-z", "here", "-c", "100G"])?;
    }
    garage(first, &["layout", "apply", "--version", "1"])?;
    for server in servers {
        poll(server, || is_healthy(server))?;
    }
    garage(first, &["key", "import", "--yes", "-n", BUCKET, &key.id, &key.secret])?;
    garage(first, &["bucket", "create", BUCKET])?;
    garage(first, &["bucket", "allow", BUCKET, "--read", "--write", "--owner", "--key", &key.id]).map(drop)
}

/// Writes the credentials to a file as AWS's tools read it.
pub(crate) fn write_credentials(key: &Key, file: &Path) -> Result<()> {
    let Key { id, secret } = key;
    let lines = format!("aws_access_key_id = {id}\naws_secret_access_key = {secret}\nregion = {REGION}\n");
    write(file, &format!("[default]\n{lines}"))
}

/// Writes a cluster file of nodes that know nothing of each other, and their key beside it.
pub(crate) fn write_cluster_file(state: &Path, servers: &[Server], key: &Key) -> Result<PathBuf> {
    let endpoints =
        servers.iter().map(|server| (&server.host, format!("http://{}:3900", server.host.address)));
    let servers = endpoints.map(|(host, endpoint)| {
        format!("[[server]]\nname = '{}'\nendpoint = '{endpoint}'\nregion = '{REGION}'\n", host.name)
    });
    node::write_cluster_file(state, &servers.collect::<Vec<_>>(), &key.id, &key.secret)
}

/// Fails unless a node knows the layout and is connected to every other node. Until then it has no quorum for some
/// objects, and answers with status 503.
fn is_healthy(server: &Server) -> Result<()> {
    let health = garage(server, &["json-api", "GetClusterHealth"])?;
    let parsed: Value = serde_json::from_str(&health).unwrap_or_default();
    let is_healthy = parsed["status"] == "healthy";
    is_healthy.then_some(()).ok_or_else(|| format!("{} is not healthy: {health}", server.host.name))
}

/// The options by which curl signs its requests.
pub(crate) fn login(credentials: &Path) -> Result<Vec<String>> {
    let file = credentials.display();
    let text = fs::read_to_string(credentials).map_err(|error| format!("{file}: {error}"))?;
    let value = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(" = "));
        let found = lines.find(|(key, _)| *key == name).map(|(_, value)| value);
        found.ok_or_else(|| format!("{file} has no {name}"))
    };
    let user = format!("{}:{}", value("aws_access_key_id")?, value("aws_secret_access_key")?);
    let signature = format!("aws:amz:{}:s3", value("region")?);
    // Older versions of curl do not say by themselves what they do not sign.
    let unsigned = "x-amz-content-sha256: UNSIGNED-PAYLOAD";
    Ok(["--aws-sigv4", &signature, "--user", &user, "-H", unsigned].map(str::to_owned).to_vec())
}

/// Runs a command on a node.
fn garage(server: &Server, args: &[&str]) -> Result<String> {
    let mut command = network::command(&server.host.namespace(), &program());
    output(command.arg("-c").arg(configuration_file(server)).args(args))
        .map_err(|error| format!("{error}; see {}", server.log().display()))
}

/// Random bytes in hexadecimal digits.
pub(crate) fn random_hex(bytes: usize) -> Result<String> {
    let mut drawn = vec![0; bytes];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut drawn))
        .map_err(|error| format!("/dev/urandom: {error}"))?;
    Ok(drawn.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat())
}
