//! The arguments of `import`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{BatchFormat, block};

/// Arguments of `import`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel import hdfs-fsck fsck.txt --out batch.csv
  evenkeel import metalink mirrors.meta4 --pieces --clients 16 --out batch.csv
  evenkeel import s3-inventory s3-eu.csv s3-us.csv --columns Bucket,Key,Size,ETag --out batch.csv
  evenkeel import rclone-lsjson east=east.json west=west.json --out batch.csv
  evenkeel import csv table.csv --map bytes=size,replicas=hosts --separator ';' --out batch.csv
  evenkeel score batch.csv                    how far from the optimum reading it is today

A batch has one request per piece of data: client,bytes,replicas,chunk. Tools list the data and where it is, but not who \
reads it; --clients sets that. docs/import.md describes how to get each of these inputs.")]
pub struct ImportArgs {
    /// What is read.
    #[command(subcommand)]
    pub source: ImportSource,
}

/// What can be read.
#[derive(Debug, Subcommand)]
pub enum ImportSource {
    /// The output of `hdfs fsck PATH -files -blocks -locations`: one request per block
    HdfsFsck(HdfsFsckArgs),
    /// Metalinks, version 3 or 4: one request per file or piece, from its mirrors
    Metalink(MetalinkArgs),
    /// S3 inventories of several buckets, as CSV: one request per object, from the buckets that hold it
    S3Inventory(S3InventoryArgs),
    /// Listings of several remotes by `rclone lsjson -R --hash`: one request per file, from the remotes that hold it
    RcloneLsjson(RcloneLsjsonArgs),
    /// Any CSV with a header: one request per row
    Csv(CsvArgs),
}

/// Which client gets which request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DealName {
    /// Request i goes to client i mod n
    RoundRobin,
    /// The first of n clients gets the first nth of the requests, and so on, as MPI ranks do
    Contiguous,
}

/// What every import can do.
#[derive(Debug, Args)]
pub struct ImportOutput {
    /// Who reads [default: one-per-host for hdfs-fsck, a column `client` for csv, else as many workers as servers]
    /// one-per-host: a client on the host of each server, named after the host
    /// N: N workers named w0, w1 and so on
    /// A,B,C: these clients
    /// FILE: the clients of a clients file, as CSV: client,slots,host
    #[arg(long, value_name = "RULE", verbatim_doc_comment)]
    pub clients: Option<String>,
    /// Which client gets which request, in the order of the input and of the clients' list or names
    #[arg(long, value_enum, default_value_t = DealName::RoundRobin)]
    pub deal: DealName,
    /// Split anything larger than this into several requests, such as 64MiB; pieces are named NAME#0, NAME#1 and so on
    #[arg(long, value_name = "SIZE", value_parser = block)]
    pub split: Option<u64>,
    /// If anything has to be left out, write nothing and exit with status 1
    #[arg(long)]
    pub strict: bool,
    /// CSV or JSON
    #[arg(long, value_enum, default_value_t = BatchFormat::Csv)]
    pub format: BatchFormat,
    /// Where to write the batch; `-` is standard output
    #[arg(long, value_name = "BATCH", default_value = "-")]
    pub out: PathBuf,
    /// Where to write the servers and their hosts, as a servers file: server,host
    #[arg(long, value_name = "FILE")]
    pub servers_out: Option<PathBuf>,
    /// With --clients one-per-host: where to write the clients and their hosts, as a clients file: client,host
    #[arg(long, value_name = "FILE")]
    pub clients_out: Option<PathBuf>,
    /// Print the summary as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `import hdfs-fsck`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel import hdfs-fsck fsck.txt --out batch.csv
  evenkeel import hdfs-fsck fsck.txt --out batch.csv --servers-out s.csv --clients-out c.csv
  evenkeel import hdfs-fsck fsck.txt --clients 8 --deal contiguous --json

fsck.txt is what `hdfs fsck PATH -files -blocks -locations` printed, of Hadoop 1, 2 or 3. With -racks, --servers-out and \
--clients-out know the racks; with -replicaDetails, replicas that are corrupt, in excess or on retired datanodes are left \
out. A server is a datanode, host:port. A chunk is a block, PATH#INDEX. Left out and counted are blocks without a usable \
replica, files that are open, empty or erasure-coded, and snapshots.")]
pub struct HdfsFsckArgs {
    /// The output of fsck; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Include files in snapshots; blocks that they share with other files are then read again
    #[arg(long)]
    pub snapshots: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub output: ImportOutput,
}

/// Arguments of `import metalink`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel import metalink mirrors.meta4 --out batch.csv
  evenkeel import metalink mirrors.meta4 --pieces --clients 16 --out batch.csv
  evenkeel import metalink mirrors.meta4 --split 64MiB --json --out batch.csv

A server is scheme://host[:port] of a URL. The mirrors of a file are in order of their priority (version 3: preference), so \
that the policy first takes the one that the publisher prefers. Torrents and other URLs without a host are left out.")]
pub struct MetalinkArgs {
    /// Metalinks; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// One request per piece that has a hash
    #[arg(long, conflicts_with = "split")]
    pub pieces: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub output: ImportOutput,
}

/// Arguments of `import s3-inventory`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel import s3-inventory s3-eu.csv s3-us.csv --columns Bucket,Key,Size,ETag --out batch.csv
  evenkeel import s3-inventory eu=s3-eu.csv us=s3-us.csv --manifest manifest.json --out batch.csv

Buckets hold the same object if key, size and ETag are the same. The first file that lists a key defines the object; entries \
that differ are left out and reported. Files of one bucket, or with one NAME, are parts of one inventory. To compare sizes only \
(uploads in parts of different sizes have different ETags), give the column another name: --columns Bucket,Key,Size,-. \
Inventories are compressed; in bash, write eu=<(zcat eu.csv.gz).")]
pub struct S3InventoryArgs {
    /// Inventories, FILE or NAME=FILE; the server is NAME, else the bucket; `-` is standard input
    #[arg(required = true, value_name = "[NAME=]FILE")]
    pub files: Vec<PathBuf>,
    /// The columns, as `fileSchema` in manifest.json lists them; Key and Size are required
    #[arg(long, value_name = "NAMES", required_unless_present = "manifest")]
    pub columns: Option<String>,
    /// The manifest.json of an inventory, for its columns
    #[arg(long, value_name = "FILE", conflicts_with = "columns")]
    pub manifest: Option<PathBuf>,
    /// Keys are not URL-encoded
    #[arg(long)]
    pub plain_keys: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub output: ImportOutput,
}

/// Arguments of `import rclone-lsjson`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel import rclone-lsjson east=east.json west=west.json --out batch.csv
  evenkeel import rclone-lsjson east=east.json west=west.json --split 64MiB --out batch.csv

Each file is the listing of a remote: rclone lsjson -R --hash REMOTE:PATH > FILE. Remotes hold the same file if path and size \
are the same, and every kind of hash that both have. The first listing that has a path defines the file; entries that differ \
are left out and reported.")]
pub struct RcloneLsjsonArgs {
    /// Listings; the server is NAME; `-` is standard input
    #[arg(required = true, value_name = "NAME=FILE")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub output: ImportOutput,
}

/// Arguments of `import csv`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel import csv table.csv --map bytes=size,replicas=hosts --separator ';' --out batch.csv
  evenkeel import csv table.csv --map replicas=hosts,client=reader --separator ';' --json

A column that is not mapped must have its own name. replicas is required; bytes is 1 if there is no such column. Other columns \
are skipped.")]
pub struct CsvArgs {
    /// Tables with a header; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Which column has client, bytes, replicas and chunk
    #[arg(long, value_name = "WHAT=COLUMN", value_delimiter = ',')]
    pub map: Vec<String>,
    /// Separator between servers in the column of replicas
    #[arg(long, value_name = "TEXT", default_value = "|")]
    pub separator: String,
    /// Separator between columns: a character, or tab
    #[arg(long, value_name = "CHAR", default_value = ",")]
    pub delimiter: String,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub output: ImportOutput,
}
