//! `evenkeel node`: a node beside storage.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use evenkeel_node::node::store::folder::{Folder, Options};
use evenkeel_node::node::store::{Sidecar, Store, StoreError};
use evenkeel_node::node::{Node, Settings, Tls, Upkeep, signalled, tell_systemd};
use evenkeel_store::Endpoint;
use evenkeel_store::cluster::{Cluster, Credentials, Reference, Server};
use serde_json::json;

use super::{Outcome, live};
use crate::cli::{NodeArgs, Whether};
use crate::output::print;

/// How long transfers that are under way may take when a node is stopped.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// Where keys come from if nobody makes them.
const NO_KEYS: &str = "a node that others reach, or that has no folder, needs keys of its own that somebody chose: name a file \
                       with --credentials FILE, in it two lines, access_key = \"…\" and secret_key = \"…\"; or set \
                       EVENKEEL_ACCESS_KEY and EVENKEEL_SECRET_KEY";
/// The ports of a node, unless it is told.
const PORTS: (u16, u16) = (9101, 9201);

pub(super) fn run(args: &NodeArgs) -> Result<Outcome> {
    let cluster = args.cluster.as_deref().map(Cluster::read).transpose()?;
    let me =
        cluster.as_ref().and_then(|cluster| cluster.servers.iter().find(|server| server.name == args.name));
    if let (Some(path), None) = (&args.cluster, me) {
        bail!("{} has no server `{}`; name this node as it is there, with --name", path.display(), args.name);
    }
    let (data, control) = addresses(args, me)?;
    let is_beyond = !data.ip().is_loopback() || control.is_some_and(|control| !control.ip().is_loopback());
    let given = keys(args, cluster.as_ref().zip(me), is_beyond)?;
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => Some(Tls::read(certificate, key)?),
        _ => None,
    };
    let scheme = if tls.is_some() { "https" } else { "http" };
    live::runtime()?.block_on(async {
        let listener = Node::listen(data)?;
        let control = match control {
            Some(address) => Some(Node::listen(address)?),
            None => None,
        };
        let store = match (&args.data, &args.behind) {
            (Some(folder), _) => open(folder)?,
            (None, Some(address)) => behind(args, address, cluster.is_some()).await?,
            (None, None) => bail!("the node has nowhere to keep data; name a folder with --data DIR"),
        };
        let (keys, whence) = match (given, &args.data) {
            (Some(given), _) => given,
            // New keys go into the folder of the store, which is there now.
            (None, Some(folder)) => {
                let path = folder.join("credentials");
                (Credentials::read_or_make(&path)?, path.display().to_string())
            }
            (None, None) => bail!(NO_KEYS),
        };
        let settings = Settings {
            name: args.name.clone(),
            keys,
            slots: args.slots,
            bytes_per_second: None,
            cluster,
            upkeep: upkeep(args.maintain),
            tls,
            logs: args.log.is_some(),
        };
        let node = Node::start(store, listener, control, settings)?;
        let endpoint = format!("{scheme}://{}", node.address());
        let control = node.control_address().map(|address| format!("{scheme}://{address}"));
        if args.json {
            let line = json!({"format": 1, "name": args.name, "endpoint": endpoint, "control": control});
            print(&format!("{line}\n"))?;
        } else {
            let control =
                control.map(|control| format!(", and is controlled at {control}")).unwrap_or_default();
            print(&format!("{} speaks S3 at {endpoint}{control}; its keys are in {whence}\n", args.name))?;
        }
        tell_systemd("READY=1");
        tokio::select! {
            () = signalled() => {}
            () = end_of_input(args.until_eof) => {}
        }
        tell_systemd("STOPPING=1");
        node.stop(PATIENCE).await;
        Ok(Outcome::Done)
    })
}

/// Waits until standard input ends, if that matters.
async fn end_of_input(matters: bool) {
    let (ended, end) = tokio::sync::oneshot::channel();
    if !matters {
        return std::future::pending().await;
    }
    // A thread of its own, for which nobody waits.
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        let _ = ended.send(());
    });
    // If the thread is gone, standard input is, too.
    let _: Result<(), _> = end.await;
}

/// How a node maintains itself.
pub(super) fn upkeep(whether: Whether) -> Option<Upkeep> {
    (whether == Whether::On).then(Upkeep::default)
}

/// The store in a folder.
pub(super) fn open(folder: &Path) -> Result<Arc<dyn Store>, StoreError> {
    Ok(Arc::new(Folder::open(folder, Options::default())?))
}

/// The store at another server.
async fn behind(args: &NodeArgs, address: &str, is_in_cluster: bool) -> Result<Arc<dyn Store>> {
    let is_web = ["http://", "https://"].iter().any(|scheme| address.starts_with(scheme));
    if !is_web {
        bail!(
            "--behind {address} is no address of an S3 server; write http://HOST:PORT or https://HOST:PORT"
        );
    }
    let keys = match &args.behind_credentials {
        Some(path) => Credentials::read(path)?,
        None => Reference::Environment("EVENKEEL_BEHIND".to_owned()).find().context(
            "no keys for the server behind this node; name a file with --behind-credentials FILE, in it two lines, \
             access_key = \"…\" and secret_key = \"…\"",
        )?,
    };
    let mut endpoint = Endpoint::new(address, &keys.access_key, &keys.secret_key)?;
    if let Some(region) = &args.behind_region {
        endpoint = endpoint.in_region(region);
    }
    let sidecar = Sidecar::open(endpoint, is_in_cluster).await.with_context(|| {
        format!(
            "{address} cannot be used; see whether it runs, whether its keys are right (--behind-credentials), and \
             whether it wants another region (--behind-region)"
        )
    })?;
    Ok(Arc::new(sidecar))
}

/// Where the node listens.
fn addresses(args: &NodeArgs, me: Option<&Server>) -> Result<(SocketAddr, Option<SocketAddr>)> {
    let usual = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let of_cluster = |address: &str, option: &str| {
        let host = address.split_once("://").map_or(address, |(_, host)| host);
        host.parse::<SocketAddr>().with_context(|| {
            format!(
                "the cluster file has {address} for `{}`, which is no address to listen at; add {option}",
                args.name
            )
        })
    };
    let data = match (args.listen, me) {
        (Some(listen), _) => listen,
        (None, Some(me)) => of_cluster(&me.endpoint, "--listen ADDRESS:PORT")?,
        (None, None) => usual(PORTS.0),
    };
    let control = match (args.control, me) {
        (Some(control), _) => Some(control),
        (None, Some(me)) => {
            me.control.as_deref().map(|address| of_cluster(address, "--control ADDRESS:PORT")).transpose()?
        }
        (None, None) => Some(usual(PORTS.1)),
    };
    Ok((data, control))
}

/// The keys that somebody chose for the node, and where they are. Where only this machine reaches the node it needs none.
fn keys(
    args: &NodeArgs,
    me: Option<(&Cluster, &Server)>,
    is_beyond: bool,
) -> Result<Option<(Credentials, String)>> {
    if let Some(path) = &args.credentials {
        return Ok(Some((Credentials::read(path)?, path.display().to_string())));
    }
    let variables = ["EVENKEEL_ACCESS_KEY", "EVENKEEL_SECRET_KEY"];
    if variables.iter().any(|name| std::env::var_os(name).is_some()) {
        let keys = Reference::Environment("EVENKEEL".to_owned()).find()?;
        return Ok(Some((keys, variables.join(" and "))));
    }
    if let Some((cluster, me)) = me {
        return Ok(Some((cluster.credentials(me)?, "the place that the cluster file names".to_owned())));
    }
    if is_beyond || args.data.is_none() {
        bail!(NO_KEYS);
    }
    Ok(None)
}
