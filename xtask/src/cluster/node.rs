//! Our own nodes, one in each namespace: S3 on port 9100, the control port 9200.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::Kind;
use super::garage::{self, random_hex};
use super::lifecycle::{Server, await_answer, poll, write};
use super::network::{self, Host};
use crate::run::{Result, output, works};

/// The command is beside this program, where `cargo build` puts both.
fn program() -> Result<String> {
    let here = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    Ok(here.with_file_name("evenkeel").display().to_string())
}

pub(crate) fn install() -> Result<()> {
    let program = program()?;
    if works(&program, &["--version"]) {
        return Ok(());
    }
    Err(format!("{program} is not there; build it with `cargo build -p evenkeel-cli` in the same profile"))
}

/// Where a node speaks S3.
pub(crate) fn endpoint(host: &Host) -> String {
    format!("http://{}:9100", host.address)
}

pub(crate) fn cluster_file(state: &Path) -> PathBuf {
    state.join("cluster.toml")
}

fn keys_file(state: &Path) -> PathBuf {
    state.join("keys")
}

/// Writes the cluster file and the keys that all nodes share.
pub(crate) fn configure(state: &Path, servers: &[Server]) -> Result<()> {
    let servers = servers.iter().map(|Server { host, .. }| {
        let (name, endpoint) = (&host.name, endpoint(host));
        format!(
            "[[server]]\nname = '{name}'\nendpoint = '{endpoint}'\ncontrol = 'http://{}:9200'\n",
            host.address
        )
    });
    let (key, secret) = (format!("EK{}", random_hex(5)?), random_hex(20)?);
    write_cluster_file(state, &servers.collect::<Vec<_>>(), &key, &secret).map(drop)
}

/// Writes a cluster file with these servers, and their keys beside it.
pub(crate) fn write_cluster_file(
    state: &Path,
    servers: &[String],
    key: &str,
    secret: &str,
) -> Result<PathBuf> {
    let keys = keys_file(state);
    write(&keys, &format!("access_key = '{key}'\nsecret_key = '{secret}'\n"))?;
    let owner_alone = fs::Permissions::from_mode(0o600);
    fs::set_permissions(&keys, owner_alone).map_err(|error| format!("{}: {error}", keys.display()))?;
    let file = cluster_file(state);
    write(&file, &format!("format = 1\ncredentials = 'keys'\n\n{}", servers.join("\n")))?;
    Ok(file)
}

/// The command that serves in the foreground.
pub(crate) fn prepare(state: &Path, server: &Server) -> Result<Vec<String>> {
    let (address, name, data) = (server.host.address, &server.host.name, server.folder.display());
    let (cluster, keys) = (cluster_file(state), keys_file(state));
    let (cluster, keys) = (cluster.display(), keys.display());
    let words = format!(
        "node --name {name} --data {data} --cluster {cluster} --credentials {keys} --listen {address}:9100 --control {address}:9200 --maintain off"
    );
    Ok(std::iter::once(program()?).chain(words.split(' ').map(str::to_owned)).collect())
}

/// Makes the bucket at each node. Writes the credentials to a file as AWS's tools read it, and returns its name.
pub(crate) fn join(state: &Path, servers: &[Server], client: &Host) -> Result<PathBuf> {
    let text = fs::read_to_string(keys_file(state)).map_err(|error| error.to_string())?;
    let mut keys =
        text.lines().filter_map(|line| line.split_once(" = ")).map(|(_, key)| key.trim_matches('\''));
    let (key, secret) = (keys.next().unwrap_or_default(), keys.next().unwrap_or_default());
    let file = state.join("credentials");
    let region = "us-east-1";
    write(
        &file,
        &format!(
            "[default]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\nregion = {region}\n"
        ),
    )?;
    let login = garage::login(&file)?;
    for server in servers {
        let bucket = Kind::Node.address(&server.host);
        let make = ["-sS", "--fail", "-X", "PUT", bucket.trim_end_matches('/')];
        poll(server, || output(network::command(&client.namespace(), "curl").args(&login).args(make)))?;
        await_answer(Kind::Node, server, client, &login, "200")?;
    }
    Ok(file)
}

/// Removes what a node wrote into its folder.
pub(crate) fn remove_data(folder: &Path) {
    let _ = fs::remove_dir_all(folder.join("blobs"));
    for file in ["format", "lock", "index.redb"] {
        let _ = fs::remove_file(folder.join(file));
    }
}
