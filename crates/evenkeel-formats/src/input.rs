//! A batch with its cluster: which of the two formats a batch has, and how the files beside it fit together.

use std::io::{self, BufRead, BufReader, Read};

use evenkeel::model::{Batch, BatchBuilder, Client, Cluster, ModelError, NameTable, Server};

use crate::{BOM, InputError, Nodes, Reading, read_batch_csv, read_batch_json};

const BUFFER: usize = 1 << 18;

/// A batch with what is known about its servers and clients.
#[derive(Debug)]
pub struct Input {
    /// The batch.
    pub batch: Batch,
    /// Its servers and clients.
    pub cluster: Cluster,
}

impl Input {
    /// Identifies this input.
    pub fn fingerprint(&self) -> String {
        let mut fingerprint = self.batch.fingerprint();
        // Equal servers do not count, because earlier versions had no others. Nor do hosts: they make no plan right or
        // wrong.
        let of_cluster = self.cluster.fingerprint();
        if of_cluster != Cluster::equal(&self.batch).fingerprint() {
            fingerprint ^= of_cluster.rotate_left(1);
        }
        format!("{fingerprint:016x}")
    }
}

/// The files that describe servers and clients, if given.
#[derive(Debug, Default)]
pub struct Described {
    /// What the servers file says.
    pub servers: Option<Nodes<Server>>,
    /// What the clients file says.
    pub clients: Option<Nodes<Client>>,
}

impl Described {
    /// The names that these files declare for the batch.
    pub fn declared(&self) -> Declared {
        Declared {
            servers: self.servers.as_ref().map(|servers| servers.names.clone()),
            clients: self.clients.as_ref().map(|clients| clients.names.clone()),
        }
    }

    /// The cluster of a batch that was read with [`Self::declared`]. Servers and clients without a file are all equal.
    pub fn cluster(&self, batch: &Batch, max_concurrent: Option<u64>) -> Result<Cluster, ModelError> {
        let Self { servers, clients } = self;
        let nodes_of_servers =
            servers.as_ref().map_or_else(|| vec![Server::default(); batch.n_servers()], |s| s.nodes.clone());
        let nodes_of_clients =
            clients.as_ref().map_or_else(|| vec![Client::default(); batch.n_clients()], |c| c.nodes.clone());
        let cluster = Cluster::new(batch, nodes_of_servers, nodes_of_clients, max_concurrent)?;
        let server_hosts = servers.iter().flat_map(|servers| &servers.hosts).map(String::as_str);
        let client_hosts = clients.iter().flat_map(|clients| &clients.hosts).map(String::as_str);
        let rates = servers.as_ref().map_or_else(Vec::new, |servers| servers.rates.clone());
        Ok(cluster.on_hosts(server_hosts, client_hosts).at_rates(rates))
    }
}

/// Names declared by other files, with their order.
#[derive(Debug, Default)]
pub struct Declared {
    /// All servers that a batch may name.
    pub servers: Option<NameTable>,
    /// All clients that a batch may name.
    pub clients: Option<NameTable>,
}

impl Declared {
    pub(crate) fn builder(self, block: u64) -> BatchBuilder {
        let mut builder = BatchBuilder::in_blocks_of(block);
        // An empty builder names nothing, so nothing can be missing.
        let _ = self.servers.map(|names| builder.declare_servers(names));
        let _ = self.clients.map(|names| builder.declare_clients(names));
        builder
    }
}

/// Reads a batch, CSV or JSON by its first character; sizes are rounded up to blocks.
pub fn read_batch(
    reader: impl BufRead,
    reading: &Reading<'_>,
    declared: Declared,
) -> Result<Batch, InputError> {
    let (is_json, reader) = sniff(reader, reading.file)?;
    if is_json {
        read_batch_json(reader, reading, declared)
    } else {
        read_batch_csv(reader, reading, declared)
    }
}

/// Whether the input is JSON, by its first character, and the input from its start.
fn sniff(mut reader: impl BufRead, name: &str) -> Result<(bool, impl BufRead), InputError> {
    // A pipe may deliver it in small pieces, so the start is gathered first.
    const MOST: usize = 4096;
    let mut start = Vec::new();
    let first = loop {
        let text = start.strip_prefix(BOM).unwrap_or(&start);
        let first = text.iter().copied().find(|byte| !byte.is_ascii_whitespace());
        let may_become_bom = start.len() < BOM.len() && BOM.starts_with(&start);
        if first.is_some() && !may_become_bom || start.len() >= MOST {
            break first;
        }
        let chunk =
            reader.fill_buf().map_err(|e| InputError::new(name, None, format!("cannot read it: {e}")))?;
        if chunk.is_empty() {
            break first;
        }
        let n = chunk.len().min(MOST - start.len());
        start.extend_from_slice(&chunk[..n]);
        reader.consume(n);
    };
    Ok((first == Some(b'{'), BufReader::with_capacity(BUFFER, io::Cursor::new(start).chain(reader))))
}
