//! `evenkeel import`: makes a batch from the output of other tools.

mod rule;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use evenkeel::model::shown;
use evenkeel_formats as formats;
use evenkeel_formats::import::{
    Deal, Example, Gathered, Imported, InventoryColumns, Merge, Remark, TableColumns, check_plain,
    check_server, read_hdfs_fsck, read_manifest, read_metalink, read_rclone_lsjson, read_s3_inventory,
    read_table, write_hosts,
};
use serde::Serialize;

use self::rule::{Rule, clients};
use super::Outcome;
use crate::cli::{
    BatchFormat, CsvArgs, DealName, ImportArgs, ImportOutput, ImportSource, RcloneLsjsonArgs, S3InventoryArgs,
};
use crate::input::Source;
use crate::output::{Target, printable, tell, warn};
use crate::text::{count, counted, pairs, size};

/// The result, for machines.
#[derive(Serialize)]
struct Summary {
    format: u32,
    source: &'static str,
    requests: usize,
    bytes: u128,
    clients: usize,
    servers: usize,
    min_copies: usize,
    max_copies: usize,
    /// The amount of data, or copies of it, that may have been meant to be in the batch and is not.
    lost: u64,
    remarks: Vec<RemarkSummary>,
    written: bool,
}

#[derive(Serialize)]
struct RemarkSummary {
    kind: &'static str,
    count: u64,
    is_loss: bool,
    what: String,
    examples: Vec<Example>,
}

pub(super) fn run(args: &ImportArgs) -> Result<Outcome> {
    let (name, output, inputs) = parts(&args.source);
    let mut read: Vec<&Path> = inputs.iter().map(|input| input.path.as_path()).collect();
    if let ImportSource::S3Inventory(args) = &args.source {
        read.extend(args.manifest.as_deref());
    }
    let import = Import::new(name, output, &read)?;
    import.finish(gather(&args.source, &inputs)?)
}

/// Where a batch goes, and who reads it.
pub(super) struct Import<'a> {
    /// The name of the source.
    name: &'static str,
    output: &'a ImportOutput,
    rule: Option<Rule>,
    targets: Targets,
}

impl<'a> Import<'a> {
    /// Checks, before anything is read, whether the outputs can be written. The inputs must not be among them.
    pub(super) fn new(name: &'static str, output: &'a ImportOutput, inputs: &[&'a Path]) -> Result<Self> {
        let rule = output.clients.as_deref().map(Rule::parse).transpose()?;
        let mut read = inputs.to_vec();
        if let Some(Rule::File(path)) = &rule {
            read.push(path);
        }
        if read.iter().filter(|path| **path == Path::new("-")).count() > 1 {
            bail!("-: standard input can only be read once; name a file for the others");
        }
        let targets = Targets::new(output, rule.as_ref(), name, &read)?;
        Ok(Self { name, output, rule, targets })
    }

    /// Deals what was gathered to clients, writes it and says what it is.
    pub(super) fn finish(self, gathered: Gathered) -> Result<Outcome> {
        let Self { name, output, rule, targets } = self;
        let clients = clients(rule, name, &gathered)?;
        let deal = match output.deal {
            DealName::RoundRobin => Deal::RoundRobin,
            DealName::Contiguous => Deal::Contiguous,
        };
        let imported = gathered.dealt_to(clients, deal)?;
        if imported.batch.n_requests() == 0 {
            let remarks: Vec<String> = imported.remarks.iter().map(told).collect();
            bail!(
                "there is nothing to read in what was given{}{}",
                if remarks.is_empty() { "" } else { ": " },
                remarks.join("; ")
            );
        }
        imported.remarks.iter().try_for_each(|remark| warn(&told(remark)))?;
        let is_refused = output.strict && imported.remarks.n_lost() > 0;
        if !is_refused {
            targets.write(&imported, output.format)?;
        }
        let text = summary(name, &imported, output.json, !is_refused)?;
        tell(&text, &[Some(&output.out), output.servers_out.as_deref(), output.clients_out.as_deref()])?;
        Ok(if is_refused { Outcome::Failed } else { Outcome::Done })
    }
}

/// A file to read, and the name of its server if one was given.
struct Input {
    name: Option<String>,
    path: PathBuf,
}

/// The name of the source, the options that all sources share, and the files.
fn parts(source: &ImportSource) -> (&'static str, &ImportOutput, Vec<Input>) {
    let plain =
        |files: &[PathBuf]| files.iter().map(|path| Input { name: None, path: path.clone() }).collect();
    let named = |files: &[PathBuf]| files.iter().map(|path| Input::parse(path)).collect();
    match source {
        ImportSource::HdfsFsck(args) => ("hdfs-fsck", &args.output, plain(&args.files)),
        ImportSource::Metalink(args) => ("metalink", &args.output, plain(&args.files)),
        ImportSource::S3Inventory(args) => ("s3-inventory", &args.output, named(&args.files)),
        ImportSource::RcloneLsjson(args) => ("rclone-lsjson", &args.output, named(&args.files)),
        ImportSource::Csv(args) => ("csv", &args.output, plain(&args.files)),
    }
}

impl Input {
    /// Parses `NAME=FILE` or `FILE`. A name has no slash, so `./a=b` is a file.
    fn parse(text: &Path) -> Self {
        let parts = text.to_str().and_then(|text| text.split_once('='));
        match parts.filter(|(name, _)| !name.contains('/')) {
            Some((name, path)) => Self { name: Some(name.to_owned()), path: path.into() },
            None => Self { name: None, path: text.to_owned() },
        }
    }

    fn open(&self) -> Result<Source> {
        let mut source = Source::open(&self.path)?;
        check_plain(&mut source.reader, &source.name)?;
        Ok(source)
    }

    /// The name, if there is one. It must be a valid server name.
    fn server(&self) -> Result<Option<&str>> {
        let name = self.name.as_deref();
        match name {
            Some("") => bail!("{}: the name before = is empty; write NAME=FILE", self.path.display()),
            Some(name) => check_server(name).map_err(|e| anyhow!("{}: {e}", self.path.display()))?,
            None => {}
        }
        Ok(name)
    }
}

/// Reads all files.
fn gather(source: &ImportSource, inputs: &[Input]) -> Result<Gathered> {
    match source {
        ImportSource::HdfsFsck(args) => {
            gather_each(inputs, args.output.split, |Source { name, reader }, into| {
                read_hdfs_fsck(reader, &name, args.snapshots, into)
            })
        }
        ImportSource::Metalink(args) => {
            gather_each(inputs, args.output.split, |Source { name, reader }, into| {
                read_metalink(reader, &name, args.pieces, into)
            })
        }
        ImportSource::Csv(args) => {
            let columns = table_columns(args)?;
            gather_each(inputs, args.output.split, |Source { name, reader }, into| {
                read_table(reader, &name, &columns, into)
            })
        }
        ImportSource::S3Inventory(args) => gather_inventories(args, inputs),
        ImportSource::RcloneLsjson(args) => gather_listings(args, inputs),
    }
}

fn gather_each(
    inputs: &[Input],
    split_bytes: Option<u64>,
    mut read: impl FnMut(Source, &mut Gathered) -> Result<(), formats::InputError>,
) -> Result<Gathered> {
    let mut gathered = Gathered::new(split_bytes);
    inputs.iter().try_for_each(|input| Ok::<_, anyhow::Error>(read(input.open()?, &mut gathered)?))?;
    Ok(gathered)
}

fn gather_inventories(args: &S3InventoryArgs, inputs: &[Input]) -> Result<Gathered> {
    let columns = match (&args.columns, &args.manifest) {
        (Some(columns), _) => InventoryColumns::parse(columns).map_err(|e| anyhow!("--columns: {e}"))?,
        (None, Some(path)) => {
            let source = Source::open(path)?;
            read_manifest(source.reader, &source.name)?
        }
        (None, None) => bail!("the columns are unknown; name them with --columns or --manifest"),
    };
    let mut merge = Merge::new();
    for input in inputs {
        let server = input.server()?;
        let Source { name, reader } = input.open()?;
        if server.is_none() && !columns.has_bucket() {
            bail!("{name}: there is no column Bucket; name the server, as in NAME={name}");
        }
        read_s3_inventory(reader, &name, &columns, server, args.plain_keys, &mut merge)?;
    }
    merge.gather(args.output.split).map_err(anyhow::Error::msg)
}

fn gather_listings(args: &RcloneLsjsonArgs, inputs: &[Input]) -> Result<Gathered> {
    let mut merge = Merge::new();
    for input in inputs {
        let Source { name, reader } = input.open()?;
        let server = input.server()?;
        let server = server.with_context(|| format!("{name}: the remote is not named; write NAME={name}"))?;
        read_rclone_lsjson(reader, &name, server, &mut merge)?;
    }
    merge.gather(args.output.split).map_err(anyhow::Error::msg)
}

fn table_columns(args: &CsvArgs) -> Result<TableColumns> {
    let mut columns = TableColumns { has_clients: args.output.clients.is_none(), ..TableColumns::default() };
    for pair in &args.map {
        let (what, column) =
            pair.split_once('=').with_context(|| format!("--map {pair}: write WHAT=COLUMN"))?;
        let place = match what {
            "client" => &mut columns.client,
            "bytes" => &mut columns.bytes,
            "replicas" => &mut columns.replicas,
            "chunk" => &mut columns.chunk,
            _ => {
                bail!(
                    "--map {pair}: there is no field `{}`; use client, bytes, replicas or chunk",
                    shown(what)
                )
            }
        };
        if place.replace(column.to_owned()).is_some() {
            bail!("--map {pair}: {what} is mapped twice; keep one of them");
        }
    }
    if columns.client.is_some() && !columns.has_clients {
        bail!("--clients and a column for client both say who reads; leave one of them out");
    }
    columns.delimiter = match args.delimiter.as_bytes() {
        b"tab" => b'\t',
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => *byte,
        _ => bail!("--delimiter {}: write one character, or tab", shown(&args.delimiter)),
    };
    if args.separator.is_empty() {
        bail!("--separator: it is empty; write the text between servers");
    }
    columns.separator.clone_from(&args.separator);
    Ok(columns)
}

/// The destinations of all outputs.
struct Targets {
    batch: Target,
    servers: Option<Target>,
    clients: Option<Target>,
}

impl Targets {
    fn new(output: &ImportOutput, rule: Option<&Rule>, source: &str, inputs: &[&Path]) -> Result<Self> {
        let is_one_per_host =
            matches!(rule, Some(Rule::OnePerHost)) || rule.is_none() && source == "hdfs-fsck";
        if output.clients_out.is_some() && !is_one_per_host {
            bail!(
                "--clients-out needs --clients one-per-host, since the hosts of other clients are unknown; leave it out"
            );
        }
        let all: Vec<&PathBuf> =
            [Some(&output.out), output.servers_out.as_ref(), output.clients_out.as_ref()]
                .into_iter()
                .flatten()
                .collect();
        if (1..all.len()).any(|k| all[..k].contains(&all[k])) {
            bail!(
                "--out, --servers-out and --clients-out would write to the same file; name another file for one of them"
            );
        }
        let optional =
            |path: &Option<PathBuf>| path.as_deref().map(|path| Target::new(path, inputs)).transpose();
        Ok(Self {
            batch: Target::new(&output.out, inputs)?,
            servers: optional(&output.servers_out)?,
            clients: optional(&output.clients_out)?,
        })
    }

    fn write(self, imported: &Imported, format: BatchFormat) -> Result<()> {
        let Imported { batch, server_hosts, client_hosts, .. } = imported;
        self.batch.write(|file| match format {
            BatchFormat::Csv => formats::write_batch_csv(batch, file),
            BatchFormat::Json => formats::write_batch_json(batch, file),
        })?;
        if let Some(target) = self.servers {
            target.write(|file| write_hosts("server", batch.servers(), server_hosts, file))?;
        }
        if let Some(target) = self.clients {
            target.write(|file| write_hosts("client", batch.clients(), client_hosts, file))?;
        }
        Ok(())
    }
}

/// A remark in words: how many items, what happened to them, the first few.
fn told(remark: &Remark) -> String {
    let Remark { kind, n, examples } = remark;
    let named: Vec<String> = examples.iter().map(|e| format!("{} ({}:{})", e.name, e.file, e.line)).collect();
    let more = if *n > named.len() as u64 { ", …" } else { "" };
    let text = format!("{} {}: {}{more}", counted(*n, kind.what()), kind.why(), named.join(", "));
    printable(&text).into_owned()
}

fn summary(source: &'static str, imported: &Imported, is_json: bool, is_written: bool) -> Result<String> {
    let Imported { batch, remarks, .. } = imported;
    let copies = || batch.replicas().iter().map(<[_]>::len);
    let (min_copies, max_copies) = (copies().min().unwrap_or(0), copies().max().unwrap_or(0));
    if is_json {
        let remarks = remarks.iter().map(|remark| RemarkSummary {
            kind: remark.kind.name(),
            count: remark.n,
            is_loss: remark.kind.is_loss(),
            what: format!("{} {}", remark.kind.what(), remark.kind.why()),
            examples: remark.examples.clone(),
        });
        let summary = Summary {
            format: 1,
            source,
            requests: batch.n_requests(),
            bytes: batch.total_bytes(),
            clients: batch.n_clients(),
            servers: batch.n_servers(),
            min_copies,
            max_copies,
            lost: imported.remarks.n_lost(),
            remarks: remarks.collect(),
            written: is_written,
        };
        return Ok(serde_json::to_string(&summary)? + "\n");
    }
    let mut rows = vec![
        ("requests", count(batch.n_requests() as u64)),
        ("size", size(batch.total_bytes() as f64)),
        ("clients", count(batch.n_clients() as u64)),
        ("servers", count(batch.n_servers() as u64)),
        (
            "copies",
            if min_copies == max_copies {
                min_copies.to_string()
            } else {
                format!("{min_copies} to {max_copies}")
            },
        ),
    ];
    if remarks.n_lost() > 0 {
        rows.push(("lost", format!("{}, see the notes", count(remarks.n_lost()))));
    }
    if !is_written {
        rows.push(("written", "nothing, by --strict".to_owned()));
    }
    Ok(pairs(&rows))
}
