//! The arguments of `node` and `up`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use evenkeel_formats::numbers;
use evenkeel_node::node::up::{MOST_NODES, speed_of};

/// Bodies that a node transfers at a time, unless it is told.
const USUAL_SLOTS: u32 = 16;
/// More slots are a slip.
const MOST_SLOTS: i64 = 4096;

/// Arguments of `node`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
    evenkeel node --data /srv/evenkeel                    on this machine, at 127.0.0.1:9101; keys in /srv/evenkeel/credentials
    evenkeel node --data /srv/evenkeel --cluster cluster.toml --name s3
    evenkeel node --data /srv/evenkeel --listen 10.0.0.3:9101 --control 10.0.0.3:9201 --credentials keys.toml \\
        --tls-cert cert.pem --tls-key key.pem
    evenkeel node --behind http://10.0.0.3:3900 --behind-credentials garage.toml --behind-region garage --credentials keys.toml

A node speaks S3 at --listen: path-style addresses, signature V4, any region. At --control it says how loaded it is and can be \
paused, drained and made slow:
    curl --aws-sigv4 aws:amz:us-east-1:s3 --user \"$KEY:$SECRET\" http://127.0.0.1:9201/v1/status
    curl http://127.0.0.1:9201/metrics

Keys come from --credentials, a file of two lines, access_key = \"…\" and secret_key = \"…\", that only its owner can read; \
else from EVENKEEL_ACCESS_KEY and EVENKEEL_SECRET_KEY, else from the cluster file, else from DIR/credentials, which is \
made with new keys. Beyond the loopback new keys are not made: a node there has keys that somebody chose. With --cluster, the \
node also answers for objects that it only knows the holder of, and takes its addresses from the file. It then also brings home \
what was written elsewhere because it was busy, and deletes pieces that nothing has named for a day, while it and the others \
concerned have been idle for ten seconds, at most 50 MB/s. GET /v1/status says what it did. Such a line pauses it, or sets its rate:
    curl … http://127.0.0.1:9201/v1/settings -d '{\"maintainer\":{\"paused\":true,\"bytes_per_second\":10000000}}'

With --behind there is no folder: the node keeps its objects at another S3 server and adds slots, a queue and its control port. \
The keys of that server come from --behind-credentials, a file of the same two lines, else from EVENKEEL_BEHIND_ACCESS_KEY and \
EVENKEEL_BEHIND_SECRET_KEY. Conditions that it does not carry out are refused with 501, which GET /v1/status tells as \
conditional_writes.

SIGTERM or Ctrl-C stops it: what is under way is finished first. Under systemd, use Type=notify.

Exit status: 0 stopped, 2 wrong usage, or it cannot be started.")]
pub struct NodeArgs {
    /// The folder that holds the data; it is made if there is none
    #[arg(long, value_name = "DIR", required_unless_present = "behind")]
    pub data: Option<PathBuf>,
    /// The address of another S3 server that holds the data, http://HOST:PORT
    #[arg(long, value_name = "ADDRESS", conflicts_with = "data")]
    pub behind: Option<String>,
    /// A file with the keys of that server; see below
    #[arg(long, value_name = "FILE", requires = "behind", conflicts_with = "data")]
    pub behind_credentials: Option<PathBuf>,
    /// The region that requests to that server are signed for  [default: us-east-1]
    #[arg(long, value_name = "REGION", requires = "behind", conflicts_with = "data")]
    pub behind_region: Option<String>,
    /// Where to speak S3; port 0 is any  [default: the cluster file's endpoint, or 127.0.0.1:9101]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Where to be controlled; port 0 is any  [default: as the cluster file says, or 127.0.0.1:9201]
    #[arg(long, value_name = "ADDRESS")]
    pub control: Option<SocketAddr>,
    /// A file with the keys; see below
    #[arg(long, value_name = "FILE")]
    pub credentials: Option<PathBuf>,
    /// The name of this node in the cluster
    #[arg(long, value_name = "NAME", default_value = "s1")]
    pub name: String,
    /// The cluster file, to answer for objects that are elsewhere
    #[arg(long, value_name = "FILE")]
    pub cluster: Option<PathBuf>,
    /// Bodies that are transferred at a time; others wait
    #[arg(long, value_name = "N", default_value_t = USUAL_SLOTS, value_parser = clap::value_parser!(u32).range(1..=MOST_SLOTS))]
    pub slots: u32,
    /// Whether the node maintains itself while nobody uses it: brings home what belongs to it, and deletes orphans
    #[arg(long, value_enum, value_name = "WHETHER", default_value_t = Whether::On)]
    pub maintain: Whether,
    /// A certificate in PEM, to encrypt both ports
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Its private key in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Write a line about each request to standard error
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub log: Option<LogName>,
    /// Stop when standard input ends, since whoever started the node is gone then
    #[arg(long, hide = true)]
    pub until_eof: bool,
    /// Print one line of JSON when the node is ready
    #[arg(long)]
    pub json: bool,
}

/// Whether something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Whether {
    /// It is
    On,
    /// It is not
    Off,
}

/// How requests are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogName {
    /// A line of JSON a request
    Json,
}

/// Arguments of `up`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
    evenkeel up --nodes 4 --data /tmp/cluster
    evenkeel up --nodes 8 --data /tmp/cluster --speed s3=0.1      s3 passes 10 MB/s
    evenkeel up --data /tmp/cluster --json                        again, as it was

The nodes s1, s2, … run in this process and listen on the loopback. Each has a folder below DIR; DIR/cluster.toml names them \
and DIR/credentials holds their keys. Started again, they have the same ports, keys and data. A speed is relative: a node of \
speed 0.1 passes a tenth of 100 MB/s; a node of speed 1 is not limited. It can also be told as a rate, as in s3=10MB/s.

With --json one line is printed when all are ready: \
{\"format\":1,\"endpoints\":[…],\"access_key\":…,\"secret_key\":…,\"cluster\":\"…/cluster.toml\"}.

Exit status: 0 stopped, 2 wrong usage, or they cannot be started.")]
pub struct UpArgs {
    /// How many nodes  [default: those that are there, or 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_NODES)))]
    pub nodes: Option<u32>,
    /// The folder for their data, keys and cluster file; it is made if there is none
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// The port of the first node; the others follow, and control ports are 100 higher  [default: any]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// The speed of a node, relative or as a rate; once for each
    #[arg(long = "speed", value_name = "NODE=SPEED", value_parser = speed)]
    pub speeds: Vec<(String, u64)>,
    /// Bodies that a node transfers at a time; others wait
    #[arg(long, value_name = "N", default_value_t = USUAL_SLOTS, value_parser = clap::value_parser!(u32).range(1..=MOST_SLOTS))]
    pub slots: u32,
    /// Whether nodes maintain themselves while nobody uses them; then what is elsewhere does not stay there to be looked at
    #[arg(long, value_enum, value_name = "WHETHER", default_value_t = Whether::Off)]
    pub maintain: Whether,
    /// Write a line about each request to standard error
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub log: Option<LogName>,
    /// Print one line of JSON when all are ready
    #[arg(long)]
    pub json: bool,
}

/// A node and its speed in millionths.
fn speed(text: &str) -> Result<(String, u64), String> {
    let wrong = || format!("`{text}` is no speed of a node; write s3=0.1, or s3=10MB/s");
    let (name, speed) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(wrong)?;
    let millionths = match speed.parse::<f64>() {
        Ok(speed) if (1e-6..=1e6).contains(&speed) => (speed * 1e6).round() as u64,
        Ok(_) => return Err(format!("`{text}`: a speed is between 0.000001 and 1000000")),
        Err(_) => speed_of(numbers::rate(speed).map_err(|_| wrong())?),
    };
    Ok((name.to_owned(), millionths))
}
