//! HDFS: Hadoop's own DataNodes, one in each namespace, and one NameNode, or two of which one stands by.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::lifecycle::{self, Server, Wish, make_folder, poll};
use super::network::{self, Host};
use crate::run::{self, Result, output, require_program};

const VERSION: &str = "3.4.1";
const RPC_PORT: u16 = 8020;
const HTTP_PORT: u16 = 9870;
const DATA_NODE_PORT: u16 = 9864;
/// The file system that a pair of NameNodes serves.
const PAIR: &str = "evenkeel";
/// Hadoop looks for the pages of its servers on the class path, and does not start without them.
const PAGES: [&str; 4] = ["hdfs", "datanode", "secondary", "static"];
/// Without the first, a NameNode on Java 17 answers WebHDFS with status 500. Hosts have IPv4 addresses only.
const JAVA: [&str; 2] = ["--add-opens=java.base/java.lang=ALL-UNNAMED", "-Djava.net.preferIPv4Stack=true"];

/// Takes Hadoop from Maven, once for each machine.
pub(crate) fn install() -> Result<()> {
    // The compiler too, for small programs in Java.
    require_program("javac", &["-version"], &["default-jdk-headless"])?;
    if root().join("webapps").exists() {
        return Ok(());
    }
    require_program("mvn", &["-version"], &["maven"])?;
    let pom = run::root().join("xtask/src/cluster/hdfs/pom.xml").display().to_string();
    let (version, to) =
        (format!("-Dhadoop={VERSION}"), format!("-DoutputDirectory={}", root().join("lib").display()));
    let copy = ["dependency:copy-dependencies", "-DincludeScope=runtime", &version, &to];
    run::install("mvn", &[&["-q", "-B", "-f", &pom], &copy[..]].concat())?;
    // Last of all: a sign that all jars are there.
    PAGES.iter().try_for_each(|pages| make_folder(&root().join("webapps").join(pages)))
}

fn root() -> PathBuf {
    run::cache(&format!("hadoop-{VERSION}"))
}

/// Where the client finds the file system.
pub(crate) fn file_system(is_pair: bool) -> String {
    if is_pair { format!("hdfs://{PAIR}") } else { format!("hdfs://{}:{RPC_PORT}", Host::name_node(1).name) }
}

/// Where a server answers over HTTP.
pub(crate) fn address(host: &Host) -> String {
    format!("http://{}:{}", host.address, if host.is_name_node() { HTTP_PORT } else { DATA_NODE_PORT })
}

/// The configuration of servers and clients, `HADOOP_CONF_DIR`.
pub(crate) fn configuration(state: &Path) -> PathBuf {
    state.join("conf")
}

/// Runs Hadoop's own commands.
pub(crate) fn client(state: &Path) -> PathBuf {
    state.join("hadoop")
}

/// Writes what all servers and clients share.
pub(crate) fn configure(state: &Path, name_nodes: &[Server], wish: &Wish) -> Result<()> {
    let conf = configuration(state);
    make_folder(&conf)?;
    let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut core = vec![own("fs.defaultFS", &file_system(wish.is_pair))];
    core.push(("hadoop.tmp.dir".to_owned(), state.join("tmp").display().to_string()));
    let mut hdfs = vec![
        own("dfs.replication", &wish.replicas.to_string()),
        // Small, as links are slow here. Clients may ask for other sizes, down to that of a chunk with a checksum.
        own("dfs.blocksize", "4194304"),
        own("dfs.namenode.fs-limits.min-block-size", "512"),
        own("dfs.permissions.enabled", "false"),
        own("dfs.namenode.rpc-bind-host", "0.0.0.0"),
        own("dfs.namenode.http-bind-host", "0.0.0.0"),
        // Addresses here have no names in reverse.
        own("dfs.namenode.datanode.registration.ip-hostname-check", "false"),
        // DataNodes that are asked for are taken, even if they have more to do than others.
        own("dfs.namenode.redundancy.considerLoad", "false"),
        own("dfs.namenode.safemode.extension", "0"),
        // Nothing reads in the background: neither in place of tests that damage blocks, nor beside races.
        own("dfs.block.scanner.volume.bytes.per.second", "0"),
    ];
    if wish.is_pair {
        hdfs.extend(pair(state, name_nodes));
    } else {
        let name = &name_nodes[0].host.name;
        hdfs.push(own("dfs.namenode.rpc-address", &format!("{name}:{RPC_PORT}")));
        hdfs.push(own("dfs.namenode.http-address", &format!("{name}:{HTTP_PORT}")));
    }
    for (name, value) in &wish.settings {
        let site = if name.starts_with("dfs.") { &mut hdfs } else { &mut core };
        site.retain(|(known, _)| known != name);
        site.push((name.clone(), value.clone()));
    }
    lifecycle::write(&conf.join("core-site.xml"), &site(&core))?;
    lifecycle::write(&conf.join("hdfs-site.xml"), &site(&hdfs))?;
    lifecycle::write(&conf.join("log4j.properties"), LOGGERS)?;
    write_client(state)
}

/// Two NameNodes that share their journal by a folder. Who is active is decided by hand.
fn pair(state: &Path, name_nodes: &[Server]) -> Vec<(String, String)> {
    let names: Vec<&str> = name_nodes.iter().map(|node| node.host.name.as_str()).collect();
    let provider = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider";
    let mut properties = vec![
        ("dfs.nameservices".to_owned(), PAIR.to_owned()),
        (format!("dfs.ha.namenodes.{PAIR}"), names.join(",")),
        (format!("dfs.client.failover.proxy.provider.{PAIR}"), provider.to_owned()),
        ("dfs.namenode.shared.edits.dir".to_owned(), format!("file://{}", state.join("journal").display())),
        ("dfs.ha.fencing.methods".to_owned(), "shell(/bin/true)".to_owned()),
    ];
    for name in names {
        properties.push((format!("dfs.namenode.rpc-address.{PAIR}.{name}"), format!("{name}:{RPC_PORT}")));
        properties.push((format!("dfs.namenode.http-address.{PAIR}.{name}"), format!("{name}:{HTTP_PORT}")));
    }
    properties
}

/// A file of properties as Hadoop reads it.
fn site(properties: &[(String, String)]) -> String {
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;");
    let lines = properties.iter().map(|(name, value)| {
        format!("  <property><name>{}</name><value>{}</value></property>\n", escaped(name), escaped(value))
    });
    format!("<configuration>\n{}</configuration>\n", lines.collect::<Vec<_>>().concat())
}

/// Servers log more: they set the first property.
const LOGGERS: &str = "hadoop.root.logger=WARN,console
log4j.rootLogger=${hadoop.root.logger}
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
log4j.logger.org.apache.hadoop.util.NativeCodeLoader=ERROR
log4j.logger.http.requests=WARN
";

/// A script for Hadoop's own commands, since its own is in no package of Maven's.
fn write_client(state: &Path) -> Result<()> {
    let file = client(state);
    let (conf, jars, java) = (configuration(state), jars(), JAVA.join(" "));
    let text = format!(
        r#"#!/bin/sh
# Hadoop's own commands, or the class that is named, at the host where this runs.
path="{jars}:${{HADOOP_CONF_DIR:-{conf}}}${{HADOOP_CLASSPATH:+:$HADOOP_CLASSPATH}}"
case "$1" in
    classpath) echo "$path"; exit ;;
    fs) class=org.apache.hadoop.fs.FsShell ;;
    fsck) class=org.apache.hadoop.hdfs.tools.DFSck ;;
    dfsadmin) class=org.apache.hadoop.hdfs.tools.DFSAdmin ;;
    haadmin) class=org.apache.hadoop.hdfs.tools.DFSHAAdmin ;;
    '' | -*) echo "usage: $0 fs|fsck|dfsadmin|haadmin|classpath|CLASS …" >&2; exit 2 ;;
    *) class=$1 ;;
esac
shift
exec java {java} $HADOOP_CLIENT_OPTS -cp "$path" "$class" "$@"
"#,
        conf = conf.display(),
    );
    lifecycle::write(&file, &text)?;
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&file, executable).map_err(|error| format!("{}: {error}", file.display()))
}

/// Gives NameNodes their commands and formats them: the second begins with a copy of the first.
pub(crate) fn prepare(state: &Path, name_nodes: &mut [Server]) -> Result<()> {
    let is_pair = name_nodes.len() > 1;
    let first = name_nodes[0].folder.clone();
    for node in name_nodes {
        let mut settings = vec![format!("-Ddfs.namenode.name.dir={}", node.folder.display())];
        if is_pair {
            settings.push(format!("-Ddfs.ha.namenode.id={}", node.host.name));
        }
        node.command = serve(state, node, "org.apache.hadoop.hdfs.server.namenode.NameNode", &settings)?;
        if node.folder == first {
            let mut format = network::command(&node.host.namespace(), &node.command[0]);
            let log =
                File::create(node.log()).map_err(|error| format!("{}: {error}", node.log().display()))?;
            output(format.args(&node.command[1..]).args(["-format", "-nonInteractive"]).stderr(log))
                .map_err(|error| format!("{error}; see {}", node.log().display()))?;
        } else {
            output(Command::new("cp").arg("-r").args([&first, &node.folder]))?;
        }
    }
    Ok(())
}

/// Returns the command that serves in the foreground.
pub(crate) fn prepare_data_node(state: &Path, server: &Server) -> Result<Vec<String>> {
    let data = server.folder.join(DATA);
    if data.exists() {
        return Err(format!(
            "{} belongs to an earlier DataNode; remove it or name another --root",
            data.display()
        ));
    }
    let settings = [
        format!("-Ddfs.datanode.data.dir={}", data.display()),
        format!("-Ddfs.datanode.hostname={}", server.host.name),
    ];
    serve(state, server, "org.apache.hadoop.hdfs.server.datanode.DataNode", &settings)
}

const DATA: &str = "data";

/// Removes what a DataNode wrote into its folder.
pub(crate) fn remove_data(folder: &Path) {
    let _ = fs::remove_dir_all(folder.join(DATA));
}

fn serve(state: &Path, server: &Server, class: &str, settings: &[String]) -> Result<Vec<String>> {
    // Else what an embedded web server unpacks stays in the machine's own folder.
    let temporary = server.home.join("tmp");
    make_folder(&temporary)?;
    let path = format!("{}:{}:{}", jars(), root().display(), configuration(state).display());
    let mut command = vec!["java".to_owned()];
    command.extend(JAVA.into_iter().chain(["-Xmx256m", "-XX:+UseSerialGC"]).map(str::to_owned));
    command.push(if archive().exists() {
        format!("-XX:SharedArchiveFile={}", archive().display())
    } else {
        format!("-XX:DumpLoadedClassList={}", class_list(server).display())
    });
    command.push(format!("-Djava.io.tmpdir={}", temporary.display()));
    command.extend(["-Dhadoop.root.logger=INFO,console", "-cp", &path, class].map(str::to_owned));
    command.extend_from_slice(settings);
    Ok(command)
}

fn jars() -> String {
    root().join("lib/*").display().to_string()
}

/// The classes of the servers, ready to be mapped into memory: servers start in half the time with it.
fn archive() -> PathBuf {
    root().join("servers.jsa")
}

/// Where a server that starts without the archive lists the classes that it loads.
fn class_list(server: &Server) -> PathBuf {
    server.home.join("classes")
}

/// Makes the archive, once for each machine.
fn write_archive(servers: &[&Server]) -> Result<()> {
    let mut classes = String::new();
    for server in servers {
        let file = class_list(server);
        let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        // The last line may still be on its way.
        classes += text.rsplit_once('\n').map_or("", |(lines, _)| lines);
        classes.push('\n');
    }
    let (list, new) = (root().join("classes"), archive().with_extension("new"));
    lifecycle::write(&list, &classes)?;
    let dump = ["-Xshare:dump".to_owned(), format!("-XX:SharedClassListFile={}", list.display())];
    let file = format!("-XX:SharedArchiveFile={}", new.display());
    output(Command::new("java").args(dump).args([&file, "-XX:+UseSerialGC", "-cp", &jars()]))?;
    fs::rename(&new, archive()).map_err(|error| format!("{}: {error}", new.display()))
}

/// Fails unless a NameNode answers, or a DataNode has registered with one: the other of a pair may have ended.
pub(crate) fn has_started(server: &Server, from: &Host) -> Result<()> {
    if server.host.is_name_node() {
        return bean(server, from, "NameNodeStatus").map(drop);
    }
    let found = bean(server, from, "DataNodeInfo")?;
    let actors = found["BPServiceActorInfo"].as_str().unwrap_or_default();
    let actors: Vec<Value> = serde_json::from_str(actors).unwrap_or_default();
    let is_registered = actors.iter().any(|actor| actor["ActorState"] == "RUNNING");
    is_registered.then_some(()).ok_or_else(|| format!("{} has not registered yet", server.host.name))
}

/// Makes the first of two NameNodes the active one, and waits until both know all DataNodes and it is out of safe mode.
pub(crate) fn join(state: &Path, name_nodes: &[Server], servers: &[Server], from: &Host) -> Result<()> {
    let first = &name_nodes[0];
    if name_nodes.len() > 1 {
        activate(&client(state).display().to_string(), &first.host.name)?;
    }
    for node in name_nodes {
        poll(node, || {
            let found = bean(node, from, "FSNamesystemState")?;
            let (name, live, state) = (&node.host.name, &found["NumLiveDataNodes"], &found["FSState"]);
            let is_ready = *live == servers.len() && (node.host != first.host || state == "Operational");
            is_ready
                .then_some(())
                .ok_or_else(|| format!("{name} knows {live} DataNodes and is in state {state}"))
        })?;
    }
    if !archive().exists() {
        // Servers start without it too.
        let _ = write_archive(&[first, &servers[0]]);
    }
    Ok(())
}

/// Makes a NameNode of a pair the active one, even if the other does not answer.
pub(crate) fn activate(client: &str, name_node: &str) -> Result<()> {
    // It asks whether this is meant, since others might manage the pair.
    let line = r#"echo y | "$0" haadmin -transitionToActive --forceactive --forcemanual "$1""#;
    let mut command = network::command(&Host::client(1).namespace(), "sh");
    output(command.args(["-c", line, client, name_node])).map(drop)
}

/// What a server tells about itself.
fn bean(server: &Server, from: &Host, name: &str) -> Result<Value> {
    let service = if server.host.is_name_node() { "NameNode" } else { "DataNode" };
    let url = format!("{}/jmx?qry=Hadoop:service={service},name={name}", address(&server.host));
    let told = output(network::command(&from.namespace(), "curl").args(["-sS", "--max-time", "5", &url]))?;
    let told: Value = serde_json::from_str(&told).map_err(|error| format!("{url}: {error}"))?;
    match &told["beans"][0] {
        Value::Null => Err(format!("{url} tells nothing yet")),
        bean => Ok(bean.clone()),
    }
}

/// Writes files of a local folder, each block to the DataNodes that a table names.
pub(crate) fn write(client: &str, layout: &str, folder: &str) -> Result<()> {
    let program = run::root().join("xtask/src/cluster/hdfs/Write.java");
    let mut command = network::command(&Host::client(1).namespace(), client);
    // Java compiles a single file by itself.
    output(command.arg(program).args([layout, folder])).map(drop)
}

#[test]
fn properties() {
    let text = site(&[("a.b".to_owned(), "x<y&z".to_owned())]);
    assert_eq!(
        text,
        "<configuration>\n  <property><name>a.b</name><value>x&lt;y&amp;z</value></property>\n</configuration>\n"
    );
}
