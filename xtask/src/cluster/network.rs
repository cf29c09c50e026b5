//! The network: a bridge in a namespace of its own, and one namespace with one link for each host.
//!
//! Nothing here touches the machine's own interfaces: every link is made inside the namespaces. What exists is read from
//! the kernel, not from a record of ours, so that a set-up that was interrupted anywhere can be removed.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::run::{Result, output};

/// Where `ip netns` keeps namespaces.
const NAMESPACES: &str = "/run/netns";
/// Where `ip netns exec` finds the files that stand for those of `/etc` in each namespace.
const FILES: &str = "/etc/netns";
/// The namespace of the bridge.
const SWITCH: &str = "ek-sw";
/// Names the state folder of the cluster: a machine has one cluster at most, which every checkout finds here.
const OWNER: &str = "/run/evenkeel-cluster";

/// How many servers fit below the first client, and clients below the last address.
pub(crate) const SERVERS_MAX: u8 = 90;
pub(crate) const CLIENTS_MAX: u8 = 100;
/// How many hosts of each other kind have an address.
const HEADS_MAX: u8 = 10;

/// A server, a client, a NameNode of HDFS, or a monitor or manager of Ceph, with a namespace of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    /// `s1`, `c1`, `n1`, `m1` or `g1`: its name in every `/etc/hosts`.
    pub(crate) name: String,
    pub(crate) address: Ipv4Addr,
}

impl Host {
    /// The server with this number, from 1.
    pub(crate) fn server(number: u8) -> Host {
        Host { name: format!("s{number}"), address: Ipv4Addr::new(10, 77, 0, 10 + number) }
    }

    /// The client with this number, from 1.
    pub(crate) fn client(number: u8) -> Host {
        Host { name: format!("c{number}"), address: Ipv4Addr::new(10, 77, 0, 100 + number) }
    }

    /// The NameNode with this number, from 1.
    pub(crate) fn name_node(number: u8) -> Host {
        Host { name: format!("n{number}"), address: Ipv4Addr::new(10, 77, 0, 200 + number) }
    }

    /// The monitor with this number, from 1.
    pub(crate) fn monitor(number: u8) -> Host {
        Host { name: format!("m{number}"), address: Ipv4Addr::new(10, 77, 0, 220 + number) }
    }

    /// The manager with this number, from 1.
    pub(crate) fn manager(number: u8) -> Host {
        Host { name: format!("g{number}"), address: Ipv4Addr::new(10, 77, 0, 230 + number) }
    }

    /// The host of this name.
    pub(crate) fn parse(name: &str) -> Option<Host> {
        let number = name.get(1..)?.parse().ok().filter(|number| (1..=CLIENTS_MAX).contains(number))?;
        match name.chars().next()? {
            's' if number <= SERVERS_MAX => Some(Host::server(number)),
            'c' => Some(Host::client(number)),
            'n' if number <= HEADS_MAX => Some(Host::name_node(number)),
            'm' if number <= HEADS_MAX => Some(Host::monitor(number)),
            'g' if number <= HEADS_MAX => Some(Host::manager(number)),
            _ => None,
        }
    }

    pub(crate) fn is_name_node(&self) -> bool {
        self.name.starts_with('n')
    }

    pub(crate) fn is_monitor(&self) -> bool {
        self.name.starts_with('m')
    }

    pub(crate) fn namespace(&self) -> String {
        format!("ek-{}", self.name)
    }
}

/// Makes the namespaces and joins them by the bridge. Links are not shaped yet.
pub(crate) fn build(owner: &Path, hosts: &[&Host]) -> Result<()> {
    // First of all, who made this: whatever exists from now on can be removed.
    fs::write(OWNER, owner.display().to_string()).map_err(|error| format!("{OWNER}: {error}"))?;
    ip(&["netns", "add", SWITCH])?;
    ip(&["-n", SWITCH, "link", "add", "br0", "type", "bridge"])?;
    ip(&["-n", SWITCH, "link", "set", "br0", "up"])?;
    let machine = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    for host in hosts {
        let (namespace, port) = (&host.namespace(), &port(&host.name));
        write(namespace, "hosts", &names(hosts, host, machine.trim()))?;
        // Empty, so that nobody asks the machine's name servers.
        write(namespace, "resolv.conf", "")?;
        ip(&["netns", "add", namespace])?;
        ip(&[
            "link", "add", port, "netns", SWITCH, "type", "veth", "peer", "name", "eth0", "netns", namespace,
        ])?;
        ip(&["-n", SWITCH, "link", "set", port, "master", "br0", "up"])?;
        ip(&["-n", namespace, "link", "set", "lo", "up"])?;
        ip(&["-n", namespace, "addr", "add", &format!("{}/24", host.address), "dev", "eth0"])?;
        ip(&["-n", namespace, "link", "set", "eth0", "up"])?;
    }
    Ok(())
}

/// The `/etc/hosts` of a host. The machine's name, by which servers look up their own address, is the host itself.
fn names(hosts: &[&Host], own: &Host, machine: &str) -> String {
    let lines = hosts.iter().map(|host| format!("{} {}\n", host.address, host.name)).collect::<Vec<_>>();
    format!("127.0.0.1 localhost\n{}{} {machine}\n", lines.concat(), own.address)
}

fn write(namespace: &str, file: &str, text: &str) -> Result<()> {
    let folder = Path::new(FILES).join(namespace);
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(folder.join(file), text))
        .map_err(|error| format!("{}/{file}: {error}", folder.display()))
}

/// What can be limited at a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    /// What it sends to others.
    Network,
    /// What others send to it.
    Inbound,
    /// What its server sends, to processes on the host and to others together, as if from a disk.
    Disk,
}

impl Link {
    /// The namespace and the device at which a host is limited: what it receives, where the bridge sends it.
    fn place(self, namespace: &str) -> (&str, String) {
        match self {
            Link::Network => (namespace, "eth0".to_owned()),
            Link::Inbound => (SWITCH, port(namespace.trim_start_matches("ek-"))),
            Link::Disk => (namespace, DISK.to_owned()),
        }
    }

    /// What may be sent at once. Packets are as large as 64 KiB inside a host, and one must fit.
    fn burst(self) -> &'static str {
        match self {
            Link::Network | Link::Inbound => "64kb",
            Link::Disk => "256kb",
        }
    }
}

/// The device of [`Link::Disk`].
const DISK: &str = "disk";

/// The port of the bridge to which a host is linked.
fn port(host: &str) -> String {
    format!("v{host}")
}

/// The ports of servers, by value and mask: below 32,768. Whoever reads has one above.
const SERVER_PORTS: [&str; 2] = ["0", "0x8000"];

/// Leads what a host's server sends through a device of its own, on its way to any interface.
fn make_disk(namespace: &str) -> Result<()> {
    if ip(&["-n", namespace, "link", "show", DISK]).is_ok() {
        return Ok(());
    }
    ip(&["-n", namespace, "link", "add", DISK, "type", "ifb"])?;
    ip(&["-n", namespace, "link", "set", DISK, "up"])?;
    // With its large packets, whoever reads on the host would get nearly all.
    ip(&["-n", namespace, "link", "set", "lo", "mtu", "1500"])?;
    for interface in ["lo", "eth0"] {
        tc(&["-n", namespace, "qdisc", "add", "dev", interface, "clsact"])?;
        let add = ["-n", namespace, "filter", "add", "dev", interface, "egress", "protocol", "ip", "u32"];
        let data = ["match", "ip", "protocol", "6", "0xff", "match", "ip", "sport"];
        let away = ["action", "mirred", "egress", "redirect", "dev", DISK];
        tc(&[&add[..], &data, &SERVER_PORTS, &away].concat())?;
    }
    Ok(())
}

/// Limits a host, at once and without a break for what is under way. `none` lifts the limit.
pub(crate) fn shape(namespace: &str, link: Link, rate: &str) -> Result<()> {
    let (place, device) = link.place(namespace);
    if rate == "none" {
        // Deleting fails where there is nothing to delete.
        return match self::rate(namespace, link)? {
            Some(_) => tc(&["-n", place, "qdisc", "del", "dev", &device, "root"]).map(drop),
            None => Ok(()),
        };
    }
    if link == Link::Disk {
        make_disk(namespace)?;
    }
    let limit = ["tbf", "rate", rate, "burst", link.burst(), "latency", "100ms"];
    tc(&[&["-n", place, "qdisc", "replace", "dev", &device, "root"], &limit[..]].concat()).map(drop)
}

/// The limit of a host, as `tc` writes it.
pub(crate) fn rate(namespace: &str, link: Link) -> Result<Option<String>> {
    // There is no disk unless it was limited before.
    let (place, device) = link.place(namespace);
    let shown = tc(&["-n", place, "qdisc", "show", "dev", &device, "root"]);
    let shown = if link == Link::Disk { shown.unwrap_or_default() } else { shown? };
    Ok(shown.split_whitespace().skip_while(|word| *word != "rate").nth(1).map(str::to_owned))
}

/// A command that runs in a namespace. `ip` is replaced by the program, which keeps its process id.
pub(crate) fn command(namespace: &str, program: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace, program]);
    command
}

/// The processes in a namespace.
pub(crate) fn processes(namespace: &str) -> Result<Vec<u64>> {
    Ok(ip(&["netns", "pids", namespace])?.lines().filter_map(|pid| pid.parse().ok()).collect())
}

/// The namespaces of a cluster that exist.
pub(crate) fn namespaces() -> Vec<String> {
    ours_in(NAMESPACES)
}

/// The state folder of the cluster that exists, perhaps in part.
pub(crate) fn owner() -> Option<PathBuf> {
    fs::read_to_string(OWNER).ok().map(PathBuf::from)
}

/// Ends every process in the namespaces and removes them. Also removes what an interrupted set-up left.
pub(crate) fn remove() -> Result<()> {
    for namespace in namespaces() {
        end_processes(&namespace)?;
        ip(&["netns", "del", &namespace])?;
    }
    for namespace in ours_in(FILES) {
        let folder = Path::new(FILES).join(namespace);
        fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    // Stays if others use it.
    let _ = fs::remove_dir(FILES);
    match fs::remove_file(OWNER) {
        Err(error) if Path::new(OWNER).exists() => Err(format!("{OWNER}: {error}")),
        _ => Ok(()),
    }
}

/// Kills the processes that the kernel finds in a namespace. Unlike a recorded process id, which may belong to another
/// process by now, this never ends a stranger and never misses one of ours. Servers hold nothing worth a farewell.
fn end_processes(namespace: &str) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let left = processes(namespace)?;
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("processes {left:?} in namespace {namespace} do not end; end them by hand"));
        }
        for pid in left {
            // It may have ended since.
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).output();
        }
        sleep(Duration::from_millis(20));
    }
}

/// The entries of a folder that are named like our namespaces, in the order of their numbers.
fn ours_in(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut ours: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| is_ours(name))
        .collect();
    ours.sort_by_key(|name| (name.len(), name.clone()));
    ours
}

fn is_ours(namespace: &str) -> bool {
    let number =
        ["ek-s", "ek-c", "ek-n", "ek-m", "ek-g"].iter().find_map(|kind| namespace.strip_prefix(kind));
    namespace == SWITCH || number.is_some_and(|number| number.parse::<u8>().is_ok())
}

fn ip(args: &[&str]) -> Result<String> {
    output(Command::new("ip").args(args))
}

fn tc(args: &[&str]) -> Result<String> {
    output(Command::new("tc").args(args))
}

#[test]
fn names_of_hosts() {
    let (server, client) = (Host::server(SERVERS_MAX), Host::client(1));
    assert_eq!(server.namespace(), "ek-s90");
    let expected = "127.0.0.1 localhost\n10.77.0.100 s90\n10.77.0.101 c1\n10.77.0.100 vm\n";
    assert_eq!(names(&[&server, &client], &server, "vm"), expected);
}

#[test]
fn hosts_by_name() {
    for host in [Host::server(90), Host::client(100), Host::name_node(2), Host::monitor(1), Host::manager(1)]
    {
        assert_eq!(Host::parse(&host.name), Some(host));
    }
    for none in ["", "s", "s0", "s91", "c101", "n11", "x1", "s1x"] {
        assert_eq!(Host::parse(none), None, "{none}");
    }
}

#[test]
fn namespaces_of_others_are_left_alone() {
    for ours in ["ek-sw", "ek-s1", "ek-c100", "ek-n1", "ek-m1", "ek-g1"] {
        assert!(is_ours(ours), "{ours}");
    }
    for other in ["ek-", "ek-s", "ek-sx", "ek-c-1", "ek-s1000", "s1", "ek-switch"] {
        assert!(!is_ours(other), "{other}");
    }
}
