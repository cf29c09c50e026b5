//! Files with their blocks: what a NameNode says about them, made sure that it fits together, and kept in bounds.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::messages::{Datanode, LocatedBlock, LocatedBlocks, is_token};
use crate::Extent;
use crate::error::Problem;

/// The port at which DataNodes usually send blocks, now and before Hadoop 3. It is no part of their names.
const XFER_PORTS: [u16; 2] = [9866, 50010];
/// The maximum number of blocks of a file, of replicas of a block, and of DataNodes.
const MOST_BLOCKS: usize = 1 << 20;
const MOST_REPLICAS: usize = 512;
const MOST_DATANODES: usize = 1 << 16;
/// About how much memory kept files take at most.
const MOST_KEPT_BYTES: usize = 128 << 20;

/// The blocks of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct File {
    pub(super) pool: Box<str>,
    pub(super) blocks: Vec<FileBlock>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileBlock {
    /// Where it begins in the file.
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) id: u64,
    pub(super) generation: u64,
    pub(super) token: Box<[u8]>,
}

impl File {
    /// The block that a place of the file is in.
    pub(super) fn block_at(&self, at: u64) -> Option<&FileBlock> {
        let after = self.blocks.partition_point(|block| block.offset <= at);
        self.blocks.get(after.checked_sub(1)?).filter(|block| at - block.offset < block.bytes)
    }

    pub(super) fn has_tokens(&self) -> bool {
        self.blocks.iter().all(|block| !block.token.is_empty())
    }

    fn kept_bytes(&self) -> usize {
        let tokens: usize = self.blocks.iter().map(|block| block.token.len()).sum();
        200 + size_of_val(self.blocks.as_slice()) + tokens
    }
}

/// The blocks of a file of this many bytes, and who holds them.
pub(super) fn file(
    located: &LocatedBlocks<'_>,
    bytes: u64,
    datanodes: &mut Datanodes,
) -> Result<(File, Vec<Extent>), Problem> {
    let unfit = |what: String| Err(Problem::Unsupported(what));
    if located.is_encrypted {
        return unfit("it is encrypted, and cannot be read this way; use hadoop fs -get".to_owned());
    }
    if located.is_erasure_coded {
        return unfit(
            "it is erasure-coded, and cannot be read this way; use webhdfs:// or hadoop fs -get".to_owned(),
        );
    }
    if located.is_being_written {
        return unfit("it is being written; read it once its writer has closed it".to_owned());
    }
    let mut found = File { pool: Box::default(), blocks: Vec::new() };
    let (mut extents, mut at, mut blocks) = (Vec::new(), 0_u64, located.blocks.clone());
    while let Some(LocatedBlock { block, offset, is_corrupt, token, holders }) = blocks.next()? {
        if block.bytes == 0 {
            continue;
        }
        let end = at.checked_add(block.bytes).filter(|&end| end <= bytes && found.blocks.len() < MOST_BLOCKS);
        let is_of_pool = found.blocks.is_empty() || *found.pool == *block.pool;
        let Some(end) = end.filter(|_| offset == at && is_of_pool) else {
            return Err(Problem::Damaged("the NameNode's blocks of the file do not fit together".to_owned()));
        };
        let (mut servers, mut holders) = (Vec::new(), holders);
        while let Some(datanode) = holders.next::<Datanode<'_>>()? {
            let server = datanodes.number(&datanode)?;
            if !servers.contains(&server) && servers.len() < MOST_REPLICAS {
                servers.push(server);
            }
        }
        if is_corrupt || servers.is_empty() {
            let how =
                if is_corrupt { "is damaged in all its replicas" } else { "is at no DataNode that is up" };
            return unfit(format!("its block blk_{} {how}", block.id.cast_signed()));
        }
        if found.blocks.is_empty() {
            found.pool = block.pool.into();
        }
        let token = if is_token(token) { token } else { &[] };
        found.blocks.push(FileBlock {
            offset,
            bytes: block.bytes,
            id: block.id,
            generation: block.generation,
            token: token.into(),
        });
        extents.push(Extent { bytes: block.bytes, servers });
        at = end;
    }
    match at == bytes && located.bytes == bytes {
        true => Ok((found, extents)),
        false => {
            Err(Problem::Damaged("the NameNode's blocks of the file are not as long as it is".to_owned()))
        }
    }
}

/// All DataNodes that were seen, each with the number by which sources know servers.
#[derive(Debug, Default)]
pub(super) struct Datanodes {
    by_hostname: bool,
    numbers: HashMap<String, u32>,
    all: Vec<Known>,
}

/// A DataNode: its name, for people, its address, and how many transfers it was last busy with.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) name: String,
    pub(super) address: String,
    n_transfers: u32,
}

impl Datanodes {
    /// None so far. They are found by their names, or by their numbers.
    pub(super) fn new(by_hostname: bool) -> Self {
        Self { by_hostname, ..Self::default() }
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.all.iter().map(|known| known.name.clone()).collect()
    }

    /// The name of each, and how many transfers it was last busy with.
    pub(super) fn transfers(&self) -> Vec<(String, u64)> {
        self.all.iter().map(|known| (known.name.clone(), known.n_transfers.into())).collect()
    }

    pub(super) fn get(&self, number: usize) -> Option<&Known> {
        self.all.get(number)
    }

    /// The number of a DataNode. Its address may have changed.
    fn number(&mut self, datanode: &Datanode<'_>) -> Result<u32, Problem> {
        let Datanode { ip, host, uuid, port, n_transfers } = *datanode;
        let at = if self.by_hostname { host } else { ip };
        // The colons of an IPv6 address.
        let address = if at.contains(':') { format!("[{at}]:{port}") } else { format!("{at}:{port}") };
        if let Some(&number) = self.numbers.get(uuid) {
            let known = &mut self.all[number as usize];
            known.n_transfers = n_transfers;
            if known.address != address {
                known.address = address;
            }
            return Ok(number);
        }
        if self.all.len() == MOST_DATANODES {
            return Err(Problem::Damaged(format!("the NameNode names more than {MOST_DATANODES} DataNodes")));
        }
        let with_port = format!("{host}:{port}");
        let name = if XFER_PORTS.contains(&port) { host.to_owned() } else { with_port.clone() };
        let names = [name, with_port, address.clone(), format!("{address} {uuid}")];
        let is_free = |name: &String| self.all.iter().all(|known| known.name != *name);
        let name = names.into_iter().find(is_free).unwrap_or_default();
        let number = self.all.len() as u32;
        self.numbers.insert(uuid.to_owned(), number);
        self.all.push(Known { name, address, n_transfers });
        Ok(number)
    }
}

/// Files by their paths, as many as there is memory for.
#[derive(Debug, Default)]
pub(super) struct Kept {
    files: HashMap<String, Arc<File>>,
    /// In the order in which they came.
    order: VecDeque<String>,
    bytes: usize,
}

impl Kept {
    pub(super) fn get(&self, path: &str) -> Option<Arc<File>> {
        self.files.get(path).cloned()
    }

    /// Keeps a file that was listed, if there is room: those that were listed first are likely read first.
    pub(super) fn offer(&mut self, path: &str, file: File) {
        if self.bytes + file.kept_bytes() + path.len() <= MOST_KEPT_BYTES {
            self.put(path, Arc::new(file));
        }
    }

    /// Keeps a file that is being read, in place of those that came first.
    pub(super) fn put(&mut self, path: &str, file: Arc<File>) {
        self.bytes += file.kept_bytes() + path.len();
        match self.files.insert(path.to_owned(), file) {
            Some(old) => self.bytes -= old.kept_bytes() + path.len(),
            None => self.order.push_back(path.to_owned()),
        }
        while self.bytes > MOST_KEPT_BYTES
            && let Some(first) = self.order.pop_front()
        {
            if let Some(old) = self.files.remove(&first) {
                self.bytes -= old.kept_bytes() + first.len();
            }
        }
    }
}
