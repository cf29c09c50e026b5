//! The arguments of `cat`.

use std::path::PathBuf;

use clap::Args;

use super::SourceArgs;

/// Arguments of `cat`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  evenkeel assign --manifest manifest.csv --trust sizes --lists shares/
  evenkeel cat --manifest manifest.csv --trust sizes --list shares/0.csv | wc -c
  evenkeel cat --manifest manifest.csv --trust sizes --list shares/1.csv --out share --json

A list says what a process reads, and from which server, as evenkeel assign --lists writes it. Its rows are read one after the \
other, each from its server, and written one after the other. A server that fails is replaced by others that hold the data.
  task,path,start,bytes,from
  frame0,hdfs://namenode:8020/data/frame0,0,67108864,d7

Name the same sources as for assign. With --list - a master may write the list while it is carried out: each row is read as \
soon as it is there, and --json tells when its data is written.

With --out - , the default, data goes to standard output, and the summary to standard error.

Exit status: 0 everything was read, 1 a row could not be read: what follows it was not read either, 2 wrong usage or input.")]
pub struct CatArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub source: SourceArgs,
    /// Sources of different data
    #[arg(value_name = "SOURCE")]
    pub sources: Vec<String>,
    /// What to read, as CSV: task,path,start,bytes,from; without a from, any server that holds it. `-` is standard input
    #[arg(long, value_name = "LIST.csv")]
    pub list: PathBuf,
    /// Where to write the data; `-` is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub out: PathBuf,
    /// Seconds to wait for a server that is silent
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub patience: u64,
    /// Print what happens as JSON, one object a line, the summary last
    #[arg(long)]
    pub json: bool,
}
