//! `cargo xtask cluster`: real servers, which we did not write, in network namespaces with shaped links.

mod ceph;
pub(crate) mod garage;
mod hdfs;
mod kafka;
mod lifecycle;
mod network;
mod nginx;
mod node;
mod selftest;
mod xrootd;

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::Value;

use crate::run::Result;
use lifecycle::Wish;
use network::{Host, Link};
pub(crate) use selftest::{cluster, selftest};

pub(crate) const HELP: &str = "\
  cargo xtask cluster KIND up …     real servers in network namespaces with shaped links, for tests and races, as root;
                                    KIND is nginx, xrootd, garage, hdfs, ceph, kafka or node, our own; replaces a cluster
                                    that is up
      --servers N, --datanodes N    s1, s2 … at 10.77.0.11 … (default 8, for Kafka 6, for Ceph 6: osd.0, osd.1 …)
      --clients N                   c1, c2 … at 10.77.0.101 … (default 1)
      --rate RATE                   what each server may send, as tc reads it, or `none` (default 100mbit)
      --in RATE                     what others may send to each server (default none)
      --disk RATE                   what it may send to its own host and to others together, as from a disk (default none)
      --root DIR                    has the folder sN that server sN serves (default: in target/cluster)
      --replicas N                  how many nodes of Garage or OSDs keep each object (default 3), DataNodes each block (2),
                                    or brokers each topic that does not say (3)
      --apart                       nodes of Garage that know nothing of each other, with the same key, and a cluster
                                    file for evenkeel put
      --ha                          HDFS with two NameNodes: n1 is active, n2 stands by
      --set NAME=VALUE              a property of Hadoop, such as dfs.block.access.token.enable=true, or of Kafka's brokers,
                                    or an option of Ceph, such as osd_heartbeat_grace=5; may be repeated
      --pools NAME:GROUPS,…         pools of Ceph (default bench:64)
      --release NAME                of Ceph: pacific, as Debian 12 has it (default), or reef, as Debian 13
      --min-compat-client NAME      the release of the oldest clients that Ceph lets in (default luminous; for Reef reef)
      --json                        prints an object with servers and clients, and not only the addresses
  cargo xtask cluster [KIND] down   removes all of it
  cargo xtask cluster status        what is up
  cargo xtask cluster shape HOST [--disk | --in] RATE
                                    changes what one host may send, or what others may send to it, at once; `none` lifts
                                    the limit
  cargo xtask cluster start HOST    starts a server again that was killed
  cargo xtask cluster hdfs activate HOST
                                    makes a NameNode of a pair the active one, such as n2 after n1 was killed
  cargo xtask cluster hdfs write LAYOUT FOLDER
                                    writes files of a local folder to HDFS, each block to given DataNodes. LAYOUT is CSV
                                    with the header path,bytes,hosts and a row for each block: /part,4194304,s1|s2
  cargo xtask cluster exec HOST -- COMMAND …
                                    runs a command where that host is
  cargo xtask cluster selftest [KIND …]
                                    brings clusters up, reads, shapes, kills, and checks that nothing is left (default:
                                    all kinds)
  Exit code 3 says that this machine does not allow network namespaces.
";

/// A kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Nginx,
    Xrootd,
    Garage,
    Hdfs,
    Ceph,
    Kafka,
    Node,
}

impl Kind {
    pub(crate) const ALL: [Kind; 7] =
        [Kind::Nginx, Kind::Xrootd, Kind::Garage, Kind::Hdfs, Kind::Ceph, Kind::Kafka, Kind::Node];

    fn parse(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Nginx => "nginx",
            Kind::Xrootd => "xrootd",
            Kind::Garage => "garage",
            Kind::Hdfs => "hdfs",
            Kind::Ceph => "ceph",
            Kind::Kafka => "kafka",
            Kind::Node => "node",
        }
    }

    fn install(self, wish: &Wish) -> Result<()> {
        match self {
            Kind::Nginx => nginx::install(),
            Kind::Xrootd => xrootd::install(),
            Kind::Garage => garage::install(),
            Kind::Hdfs => hdfs::install(),
            Kind::Ceph => ceph::install(&wish.ceph),
            Kind::Kafka => kafka::install(),
            Kind::Node => node::install(),
        }
    }

    /// Where a server's files are, as a web client names it, or where a broker answers. Ceph has none.
    fn address(self, host: &Host) -> String {
        let ip = host.address;
        match self {
            Kind::Nginx => format!("http://{ip}/"),
            Kind::Xrootd => format!("http://{ip}:8081/data/"),
            Kind::Garage => format!("http://{ip}:3900/{}/", garage::BUCKET),
            Kind::Hdfs => format!("{}/webhdfs/v1/", hdfs::address(host)),
            Kind::Ceph => ceph::address(host),
            Kind::Kafka => kafka::address(host),
            Kind::Node => format!("{}/{}/", node::endpoint(host), garage::BUCKET),
        }
    }

    /// The same as `evenkeel get` names it. A DataNode or broker alone is no source, nor is an OSD, which has Ceph's name
    /// for it here.
    fn source(self, host: &Host) -> String {
        match self {
            Kind::Nginx | Kind::Xrootd | Kind::Hdfs | Kind::Kafka => self.address(host),
            Kind::Garage => format!("s3://{}/?endpoint=http://{}:3900", garage::BUCKET, host.address),
            Kind::Node => format!("s3://{}/?endpoint={}", garage::BUCKET, node::endpoint(host)),
            Kind::Ceph => ceph::name(host),
        }
    }

    /// The HTTP status of the address once the server is up. S3 knows no strangers, and Kafka no HTTP.
    fn first_status(self) -> &'static str {
        match self {
            Kind::Nginx | Kind::Xrootd | Kind::Hdfs | Kind::Ceph | Kind::Kafka => "200",
            Kind::Garage | Kind::Node => "403",
        }
    }

    /// How many servers keep what is written, unless told otherwise.
    fn replicas(self) -> u8 {
        match self {
            Kind::Nginx | Kind::Xrootd | Kind::Node => 1,
            Kind::Garage | Kind::Ceph | Kind::Kafka => 3,
            Kind::Hdfs => 2,
        }
    }

    /// How many servers there are, unless told otherwise.
    fn servers(self) -> u8 {
        match self {
            Kind::Ceph | Kind::Kafka => 6,
            _ => 8,
        }
    }

    /// Whether its servers take settings.
    fn has_settings(self) -> bool {
        matches!(self, Kind::Hdfs | Kind::Ceph | Kind::Kafka)
    }
}

/// Why a task failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// This machine does not allow network namespaces. Tests skip what needs them, and say so.
    Unsupported(String),
    Other(String),
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure::Other(message)
    }
}

/// `cargo xtask cluster …`.
pub(crate) fn main(args: &[&str]) -> ExitCode {
    let (code, message) = match command(args) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Unsupported(message)) => (3, message),
        Err(Failure::Other(message)) => (1, message),
    };
    eprintln!("error: {message}");
    ExitCode::from(code)
}

fn command(args: &[&str]) -> std::result::Result<(), Failure> {
    match args {
        ["status"] => status()?,
        ["shape", host, rate] => network::shape(&namespace(host)?, Link::Network, rate)?,
        ["shape", host, "--in", rate] => network::shape(&namespace(host)?, Link::Inbound, rate)?,
        ["shape", host, "--disk", rate] => network::shape(&namespace(host)?, Link::Disk, rate)?,
        ["start", host] => lifecycle::start_again(host)?,
        ["exec", host, "--", program, args @ ..] => {
            // Does not return unless it fails: exit code and signals are the command's own.
            let error = network::command(&namespace(host)?, program).args(args).exec();
            return Err(format!("cannot start ip: {error}").into());
        }
        ["selftest"] => selftest(&Kind::ALL)?,
        ["selftest", names @ ..] => {
            let kinds: Result<Vec<Kind>> = names.iter().map(|name| kind(name)).collect();
            selftest(&kinds?)?;
        }
        ["down"] => down(None)?,
        ["hdfs", "activate", name_node] => activate(name_node)?,
        ["hdfs", "write", layout, folder] => hdfs::write(&hadoop()?, layout, folder)?,
        [name, "down"] => down(Some(kind(name)?))?,
        [name, "up", options @ ..] => up(kind(name)?, options)?,
        _ => return Err(format!("`cluster {}` is no task; these are:\n{HELP}", args.join(" ")).into()),
    }
    Ok(())
}

fn kind(name: &str) -> Result<Kind> {
    Kind::parse(name).ok_or_else(|| {
        format!("`{name}` is no kind of server; name nginx, xrootd, garage, hdfs, ceph, kafka or node")
    })
}

/// The namespace of a host that is up.
fn namespace(host: &str) -> Result<String> {
    let namespaces = network::namespaces();
    let wanted = format!("ek-{}", host.trim_start_matches("ek-"));
    if namespaces.contains(&wanted) {
        return Ok(wanted);
    }
    let names: Vec<&str> = namespaces.iter().filter_map(|name| name.strip_prefix("ek-")).collect();
    Err(match names.as_slice() {
        [] => "no cluster is up; start one with `cargo xtask cluster nginx up`".to_owned(),
        names => format!("no host is called `{host}`; these are up: {}", names.join(", ")),
    })
}

fn up(kind: Kind, options: &[&str]) -> std::result::Result<(), Failure> {
    let (wish, is_json) = parse(kind, options)?;
    let cluster = lifecycle::up(&wish)?;
    if is_json {
        println!("{cluster:#}");
        return Ok(());
    }
    if let Some(credentials) = cluster["credentials"].as_str() {
        println!("AWS_SHARED_CREDENTIALS_FILE={credentials}");
    }
    if let Some(file) = cluster["cluster"].as_str() {
        println!("EVENKEEL_CLUSTER={file}");
    }
    if kind == Kind::Hdfs {
        println!("HADOOP_CONF_DIR={}", text(&cluster["configuration"]));
        println!("{}/", text(&cluster["source"]));
        println!("cargo xtask cluster exec c1 -- {} fs -ls /", text(&cluster["client"]));
        return Ok(());
    }
    if kind == Kind::Ceph {
        let configuration = text(&cluster["configuration"]);
        println!("CEPH_CONF={configuration}");
        println!("cargo xtask cluster exec c1 -- {}/ceph -c {configuration} status", text(&cluster["tools"]));
        return Ok(());
    }
    if kind == Kind::Kafka {
        let (kafka, bootstrap) = (text(&cluster["client"]), text(&cluster["bootstrap"]));
        println!("{bootstrap}");
        println!("cargo xtask cluster exec c1 -- {kafka} topics --bootstrap-server {bootstrap} --describe");
        return Ok(());
    }
    list(&cluster["servers"]).for_each(|server| println!("{}", text(&server["source"])));
    Ok(())
}

/// Makes a NameNode of a pair the active one.
fn activate(name_node: &str) -> Result<()> {
    let hadoop = hadoop()?;
    if namespace("n2").is_err() {
        return Err("HDFS has one NameNode; start it with `--ha` to have two".to_owned());
    }
    if !["n1", "n2"].contains(&name_node) {
        return Err(format!("`{name_node}` is no NameNode; name n1 or n2"));
    }
    hdfs::activate(&hadoop, name_node)
}

/// The program that runs Hadoop's own commands.
fn hadoop() -> Result<String> {
    let cluster = lifecycle::describe().unwrap_or_default();
    let client = cluster["client"].as_str().map(str::to_owned);
    client.ok_or_else(|| "no HDFS is up; start one with `cargo xtask cluster hdfs up`".to_owned())
}

fn parse(kind: Kind, options: &[&str]) -> Result<(Wish, bool)> {
    let mut wish = Wish {
        kind,
        servers: kind.servers(),
        clients: 1,
        rate: "100mbit".to_owned(),
        inbound: "none".to_owned(),
        disk: "none".to_owned(),
        root: None,
        replicas: kind.replicas(),
        is_pair: false,
        is_apart: false,
        settings: Vec::new(),
        ceph: ceph::Options::default(),
    };
    let mut is_json = false;
    let mut rest = options;
    loop {
        rest = match rest {
            [] => break,
            ["--json", rest @ ..] => {
                is_json = true;
                rest
            }
            [option @ ("--servers" | "--datanodes"), value, rest @ ..] => {
                wish.servers = count(option, value, network::SERVERS_MAX)?;
                rest
            }
            [option @ "--clients", value, rest @ ..] => {
                wish.clients = count(option, value, network::CLIENTS_MAX)?;
                rest
            }
            [option @ "--replicas", value, rest @ ..] => {
                wish.replicas = count(option, value, network::SERVERS_MAX)?;
                rest
            }
            ["--rate", value, rest @ ..] => {
                wish.rate = String::from(*value);
                rest
            }
            ["--disk", value, rest @ ..] => {
                wish.disk = String::from(*value);
                rest
            }
            ["--in", value, rest @ ..] => {
                wish.inbound = String::from(*value);
                rest
            }
            ["--apart", rest @ ..] if kind == Kind::Garage => {
                (wish.is_apart, wish.replicas) = (true, 1);
                rest
            }
            ["--ha", rest @ ..] if kind == Kind::Hdfs => {
                wish.is_pair = true;
                rest
            }
            [option @ ("--pools" | "--release" | "--min-compat-client"), value, rest @ ..]
                if kind == Kind::Ceph =>
            {
                wish.ceph.set(option, value)?;
                rest
            }
            ["--set", property, rest @ ..] if kind.has_settings() => {
                let property = property.split_once('=').filter(|(name, _)| !name.is_empty());
                let (name, value) =
                    property.ok_or("--set takes a name and a value, as in dfs.blocksize=1048576")?;
                wish.settings.push((name.to_owned(), value.to_owned()));
                rest
            }
            ["--root", value, rest @ ..] => {
                wish.root = Some(PathBuf::from(value));
                rest
            }
            [option, ..] => return Err(format!("`{option}` is no option, or lacks its value:\n{HELP}")),
        };
    }
    if wish.replicas > wish.servers {
        return Err(format!(
            "{} servers cannot keep {} replicas; ask for fewer",
            wish.servers, wish.replicas
        ));
    }
    Ok((wish, is_json))
}

fn count(option: &str, value: &str, max: u8) -> Result<u8> {
    let count = value.parse().ok().filter(|count| (1..=max).contains(count));
    count.ok_or_else(|| format!("{option} takes a number from 1 to {max}, not `{value}`"))
}

fn down(kind: Option<Kind>) -> Result<()> {
    if !lifecycle::down(kind)? {
        println!("no cluster{} is up", kind.map_or_else(String::new, |kind| format!(" of {}", kind.name())));
    }
    Ok(())
}

fn status() -> Result<()> {
    if network::owner().is_none() {
        println!("no cluster is up");
        return Ok(());
    }
    let Some(cluster) = lifecycle::describe().filter(|cluster| cluster["servers"].is_array()) else {
        println!("a cluster is half-made; remove it with `cargo xtask cluster down`");
        return Ok(());
    };
    println!("{}", text(&cluster["kind"]));
    let heads = list(&cluster["name_nodes"]).chain(list(&cluster["monitors"]));
    for server in heads.chain(list(&cluster["servers"])) {
        let (name, address) = (text(&server["name"]), text(&server["address"]));
        let namespace = namespace(name)?;
        let pid = server["pid"]
            .as_u64()
            .filter(|pid| network::processes(&namespace).is_ok_and(|processes| processes.contains(pid)));
        let pid = pid.map_or_else(|| "ended".to_owned(), |pid| format!("pid {pid}"));
        let rate = network::rate(&namespace, Link::Network)?.unwrap_or_else(|| "unshaped".to_owned());
        let more = |link, what| -> Result<String> {
            Ok(network::rate(&namespace, link)?.map_or_else(String::new, |rate| format!(", {what} {rate}")))
        };
        let (disk, inbound) = (more(Link::Disk, "disk")?, more(Link::Inbound, "in")?);
        println!("{name:<4} {address:<38} {pid:<11} {rate}{inbound}{disk}");
    }
    for client in list(&cluster["clients"]) {
        println!("{:<4} {}", text(&client["name"]), text(&client["address"]));
    }
    Ok(())
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[test]
fn options() {
    let (wish, is_json) = parse(Kind::Nginx, &[]).unwrap();
    assert_eq!((wish.servers, wish.clients, wish.rate.as_str(), is_json), (8, 1, "100mbit", false));
    let given = ["--json", "--servers", "3", "--clients", "16", "--rate", "none", "--root", "/x"];
    let (wish, is_json) = parse(Kind::Xrootd, &given).unwrap();
    assert_eq!((wish.servers, wish.clients, wish.rate.as_str(), is_json), (3, 16, "none", true));
    assert_eq!(wish.root, Some(PathBuf::from("/x")));
    for bad in [&["--servers"][..], &["--servers", "0"], &["--servers", "91"], &["--clients", "x"], &["-x"]] {
        assert!(parse(Kind::Nginx, bad).is_err(), "{bad:?}");
    }
    let (wish, _) = parse(Kind::Hdfs, &["--datanodes", "4", "--ha", "--set", "a.b=c=d"]).unwrap();
    assert_eq!((wish.servers, wish.replicas, wish.is_pair), (4, 2, true));
    assert_eq!(wish.settings, [("a.b".to_owned(), "c=d".to_owned())]);
    assert!(parse(Kind::Hdfs, &["--set", "=x"]).is_err());
    assert!(parse(Kind::Nginx, &["--ha"]).is_err());
    let (wish, _) = parse(Kind::Ceph, &["--pools", "hot:8", "--set", "osd_op_queue=wpq"]).unwrap();
    assert_eq!((wish.servers, wish.replicas, wish.settings.len()), (6, 3, 1));
    assert!(parse(Kind::Ceph, &["--pools", "hot"]).is_err());
    assert!(parse(Kind::Nginx, &["--pools", "hot:8"]).is_err());
    let few = parse(Kind::Garage, &["--servers", "2"]).unwrap_err();
    assert_eq!(few, "2 servers cannot keep 3 replicas; ask for fewer");
}
