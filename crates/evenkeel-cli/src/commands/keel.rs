//! What commands on clusters share.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Result, bail};
use evenkeel_store::StoreError;
use evenkeel_store::cluster::{Cluster, Found, Servers, Stored};

use crate::cli::CopiesArgs;

/// The servers of the cluster that the arguments name, and how many copies objects have.
pub(super) fn open(args: &CopiesArgs) -> Result<(Arc<Servers>, u32)> {
    let servers = Servers::open(&Cluster::find(args.cluster.cluster.as_deref())?)?;
    let replicas = args.replicas.unwrap_or(servers.replicas());
    if replicas as usize > servers.all().len() {
        bail!("--replicas {replicas}: the cluster has only {} servers", servers.all().len());
    }
    Ok((Arc::new(servers), replicas))
}

/// An object as its homes have it.
pub(super) struct Known {
    pub(super) key: String,
    pub(super) bytes: u64,
    pub(super) etag: String,
    /// The names of its homes that have it.
    pub(super) homes: Vec<String>,
    /// The names of the servers that hold its bytes.
    pub(super) holders: Vec<String>,
    pub(super) n_pieces: usize,
    /// Whether an entry at home says where the bytes are.
    pub(super) is_redirect: bool,
    /// Servers that have something under its name and are no home of it.
    pub(super) strays: Vec<String>,
}

impl Known {
    /// Whether it is elsewhere, as a whole.
    pub(super) fn is_away(&self) -> bool {
        self.is_redirect && self.n_pieces == 1
    }
}

/// What is known of something in a listing. `Err` has what cannot be read. An object without a home has only strays.
pub(super) fn known(
    servers: &Servers,
    bucket: &str,
    replicas: u32,
    found: &Found,
) -> Result<Known, StoreError> {
    let homes = servers.homes(bucket, &found.key, replicas as usize);
    let name = |server: usize| servers.all()[server].name.clone();
    let mut known = Known {
        key: found.key.clone(),
        bytes: 0,
        etag: String::new(),
        homes: Vec::new(),
        holders: Vec::new(),
        n_pieces: 1,
        is_redirect: false,
        strays: Vec::new(),
    };
    let mut holders = BTreeSet::new();
    for at in &found.at {
        if !homes.contains(&at.server) {
            known.strays.push(name(at.server));
            continue;
        }
        known.homes.push(name(at.server));
        match &at.stored {
            Stored::Unusable(error) => return Err(error.clone()),
            Stored::Whole { .. } => _ = holders.insert(name(at.server)),
            Stored::Elsewhere(redirect) => {
                known.is_redirect = true;
                known.n_pieces = redirect.pieces.len();
                let held = redirect.pieces.iter().filter(|piece| !piece.is_hole());
                holders.extend(held.map(|piece| piece.server.clone()));
            }
        }
        if let Some((bytes, etag)) = at.stored.version() {
            (known.bytes, known.etag) = (bytes, etag.to_owned());
        }
    }
    known.holders = holders.into_iter().collect();
    Ok(known)
}
