//! Reads all files below a path of HDFS by the crate `hdfs-native`, a request for each block, as many at once as told:
//! `evenkeel-peer-hdfs-native PATH TO REQUESTS`. The cluster is the one of `HADOOP_CONF_DIR`.

use std::fs::{File, create_dir_all};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use futures_util::{StreamExt, TryStreamExt, stream};
use hdfs_native::ClientBuilder;
use hdfs_native::client::FileStatus;
use hdfs_native::file::FileReader;

/// A range of a file: at most a block, where it is read from and where it is written to.
struct Piece {
    reader: Arc<FileReader>,
    file: Arc<File>,
    offset: usize,
    len: usize,
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [path, to, requests] = &args[..] else { bail!("usage: evenkeel-peer-hdfs-native PATH TO REQUESTS") };
    let requests = requests.parse().context("REQUESTS must be a number")?;
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(read(path, to, requests))
}

async fn read(path: &str, to: &str, requests: usize) -> Result<()> {
    let client = ClientBuilder::new().build()?;
    let found = client.list_status(path, true).await?;
    let files = stream::iter(found.into_iter().filter(|file| !file.isdir));
    let files = files.map(|status| async {
        let reader = client.read(&status.path).await?;
        pieces(path, to, status, reader)
    });
    // All files are opened first, which is one request to the NameNode for each.
    let pieces: Vec<Vec<Piece>> = files.buffer_unordered(requests).try_collect().await?;
    let pieces = stream::iter(pieces.into_iter().flatten().map(Ok));
    pieces.try_for_each_concurrent(requests, copy).await
}

fn pieces(path: &str, to: &str, status: FileStatus, reader: FileReader) -> Result<Vec<Piece>> {
    let name = status.path.strip_prefix(path).unwrap_or(&status.path).trim_start_matches('/');
    let local = PathBuf::from(to).join(name);
    create_dir_all(local.parent().unwrap_or(&local))?;
    let (reader, file) = (Arc::new(reader), Arc::new(File::create(&local)?));
    let block = status.blocksize.unwrap_or(128 << 20).max(1) as usize;
    let offsets = (0..status.length).step_by(block);
    let piece = |offset: usize| Piece {
        reader: Arc::clone(&reader),
        file: Arc::clone(&file),
        offset,
        len: block.min(status.length - offset),
    };
    Ok(offsets.map(piece).collect())
}

async fn copy(piece: Piece) -> Result<()> {
    let mut at = piece.offset;
    let mut chunks = Box::pin(piece.reader.read_range_stream(piece.offset, piece.len));
    while let Some(chunk) = chunks.try_next().await? {
        piece.file.write_all_at(&chunk, at as u64)?;
        at += chunk.len();
    }
    Ok(())
}
