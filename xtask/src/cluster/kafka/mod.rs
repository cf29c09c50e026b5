//! Kafka: a broker in each namespace. The first three elect the controller among them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::lifecycle::{self, Server, Wish, poll};
use super::network::{self, Host};
use super::{garage, selftest, text};
use crate::run::{self, Result, output, require_program};

const VERSION: &str = "3.9.1";
const PORT: u16 = 9092;
const CONTROLLER_PORT: u16 = 9093;
/// A majority of these must be up.
const CONTROLLERS: usize = 3;
/// The first and the last line that a broker logs when it starts.
const STARTS: &str = "Registered kafka:type=kafka.Log4jController MBean";
const HAS_STARTED: &str = "Kafka Server started";
const JAVA: [&str; 2] = ["-XX:+UseSerialGC", "-Djava.net.preferIPv4Stack=true"];

/// Takes Kafka from Maven, once for each machine.
pub(crate) fn install() -> Result<()> {
    // The compiler too, for small programs in Java.
    require_program("javac", &["-version"], &["default-jdk-headless"])?;
    if complete().exists() {
        return Ok(());
    }
    require_program("mvn", &["-version"], &["maven"])?;
    let pom = run::root().join("xtask/src/cluster/kafka/pom.xml").display().to_string();
    let (version, to) =
        (format!("-Dkafka={VERSION}"), format!("-DoutputDirectory={}", root().join("lib").display()));
    let copy = ["dependency:copy-dependencies", "-DincludeScope=runtime", &version, &to];
    run::install("mvn", &[&["-q", "-B", "-f", &pom], &copy[..]].concat())?;
    lifecycle::write(&complete(), "")
}

fn root() -> PathBuf {
    run::cache(&format!("kafka-{VERSION}"))
}

/// A sign that all jars are there.
fn complete() -> PathBuf {
    root().join("complete")
}

fn jars() -> String {
    root().join("lib/*").display().to_string()
}

/// Where a broker answers.
pub(crate) fn address(host: &Host) -> String {
    format!("{}:{PORT}", host.address)
}

/// All brokers, as clients want to be told.
pub(crate) fn bootstrap(servers: &[Server]) -> String {
    servers.iter().map(|server| address(&server.host)).collect::<Vec<_>>().join(",")
}

/// Runs Kafka's own tools.
pub(crate) fn client(state: &Path) -> PathBuf {
    state.join("kafka")
}

/// Writes what all brokers and clients share. Returns the id of a new cluster.
pub(crate) fn configure(state: &Path) -> Result<String> {
    lifecycle::write(&loggers(state, "INFO"), &logging("INFO"))?;
    lifecycle::write(&loggers(state, "WARN"), &logging("WARN"))?;
    write_client(state)?;
    // 128 bits as Kafka writes them: the last of 22 digits has only two bits.
    Ok(format!("{}A", &garage::random_hex(11)?[..21]))
}

fn loggers(state: &Path, level: &str) -> PathBuf {
    state.join(format!("log4j-{level}.properties"))
}

fn logging(level: &str) -> String {
    format!(
        "log4j.rootLogger={level},console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{{ISO8601}} %p %c{{2}}: %m%n
"
    )
}

/// A script for Kafka's own tools, since its own are in no package of Maven's.
fn write_client(state: &Path) -> Result<()> {
    let file = client(state);
    let (jars, java, loggers) = (jars(), JAVA.join(" "), loggers(state, "WARN"));
    let text = format!(
        r#"#!/bin/sh
# Kafka's own tools, or the class that is named, at the host where this runs.
path="{jars}${{KAFKA_CLASSPATH:+:$KAFKA_CLASSPATH}}"
tools=org.apache.kafka.tools
case "$1" in
    classpath) echo "$path"; exit ;;
    topics) class=$tools.TopicCommand ;;
    log-dirs) class=$tools.LogDirsCommand ;;
    reassign-partitions) class=$tools.reassign.ReassignPartitionsCommand ;;
    leader-election) class=$tools.LeaderElectionCommand ;;
    get-offsets) class=$tools.GetOffsetShell ;;
    configs) class=kafka.admin.ConfigCommand ;;
    producer-perf-test) class=$tools.ProducerPerformance ;;
    consumer-perf-test) class=$tools.ConsumerPerformance ;;
    console-consumer) class=$tools.consumer.ConsoleConsumer ;;
    '' | -*) echo "usage: $0 topics|log-dirs|reassign-partitions|leader-election|configs|classpath|CLASS …" >&2; exit 2 ;;
    *) class=$1 ;;
esac
shift
exec java {java} -Dlog4j.configuration="file:{loggers}" $KAFKA_OPTS -cp "$path" "$class" "$@"
"#,
        loggers = loggers.display(),
    );
    lifecycle::write(&file, &text)?;
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&file, executable).map_err(|error| format!("{}: {error}", file.display()))
}

/// Formats the folder of a broker. Returns the command that serves in the foreground.
pub(crate) fn prepare(state: &Path, server: &Server, wish: &Wish, cluster: &str) -> Result<Vec<String>> {
    let data = server.folder.join(DATA);
    if data.exists() {
        return Err(format!(
            "{} belongs to an earlier broker; remove it or name another --root",
            data.display()
        ));
    }
    let file = server.home.join("server.properties");
    lifecycle::write(&file, &properties(server, &data, wish))?;
    let file = file.display().to_string();
    let format = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", &file];
    output(std::process::Command::new(client(state)).args(format))?;
    let mut command = vec!["java".to_owned()];
    command.extend(JAVA.into_iter().chain(["-Xmx384m"]).map(str::to_owned));
    command.push(format!("-Dlog4j.configuration=file:{}", loggers(state, "INFO").display()));
    command.extend(["-cp", &jars(), "kafka.Kafka", &file].map(str::to_owned));
    Ok(command)
}

fn properties(server: &Server, data: &Path, wish: &Wish) -> String {
    let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let number = |host: &Host| host.name.trim_start_matches('s').to_owned();
    let controllers: Vec<Host> = (1..=wish.servers).map(Host::server).take(CONTROLLERS).collect();
    let voters =
        controllers.iter().map(|host| format!("{}@{}:{CONTROLLER_PORT}", number(host), host.address));
    let (address, replicas) = (server.host.address, wish.replicas.to_string());
    let (roles, controlling) = if controllers.contains(&server.host) {
        ("broker,controller", format!(",CONTROLLER://{address}:{CONTROLLER_PORT}"))
    } else {
        ("broker", String::new())
    };
    let mut properties = vec![
        own("process.roles", roles),
        own("node.id", &number(&server.host)),
        own("controller.quorum.voters", &voters.collect::<Vec<_>>().join(",")),
        own("controller.listener.names", "CONTROLLER"),
        own("listeners", &format!("PLAINTEXT://{address}:{PORT}{controlling}")),
        own("log.dirs", &data.display().to_string()),
        own("default.replication.factor", &replicas),
        own("offsets.topic.replication.factor", &replicas),
        own("offsets.topic.num.partitions", "6"),
        own("transaction.state.log.replication.factor", &replicas),
        own("auto.create.topics.enable", "false"),
        // Who leads is decided by hand.
        own("auto.leader.rebalance.enable", "false"),
        own("log.retention.ms", "-1"),
        own("group.initial.rebalance.delay.ms", "0"),
        // Several brokers share this machine.
        own("log.cleaner.dedupe.buffer.size", "4194304"),
    ];
    for (name, value) in &wish.settings {
        properties.retain(|(known, _)| known != name);
        properties.push(own(name, value));
    }
    properties.iter().map(|(name, value)| format!("{name}={value}\n")).collect::<Vec<_>>().concat()
}

const DATA: &str = "data";

/// Removes what a broker wrote into its folder.
pub(crate) fn remove_data(folder: &Path) {
    let _ = fs::remove_dir_all(folder.join(DATA));
}

/// Fails unless a broker has joined the cluster and a client can connect to it.
pub(crate) fn has_started(server: &Server, from: &Host) -> Result<()> {
    let name = &server.host.name;
    let log = fs::read(server.log()).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    // There may be more from before it was started again.
    let last = log.rsplit(STARTS).next().unwrap_or_default();
    if !last.contains(HAS_STARTED) {
        return Err(format!("{name} has not started yet; see {}", server.log().display()));
    }
    let connect = format!("exec 3<>/dev/tcp/{}/{PORT}", server.host.address);
    output(network::command(&from.namespace(), "timeout").args(["5", "bash", "-c", &connect])).map(drop)
}

/// Waits until a client is told of all brokers.
pub(crate) fn join(state: &Path, servers: &[Server], from: &Host) -> Result<()> {
    let client = client(state);
    let bootstrap = bootstrap(servers);
    poll(&servers[0], || {
        let mut command = network::command(&from.namespace(), &client.display().to_string());
        let versions = ["kafka.admin.BrokerApiVersionsCommand", "--bootstrap-server", &bootstrap];
        let told = output(command.args(versions))?;
        let n = told.lines().filter(|line| line.contains("(id: ")).count();
        if n == servers.len() { Ok(()) } else { Err(format!("{n} of {} brokers are there", servers.len())) }
    })
}

/// Writes a topic and reads it, by Kafka's own tools, over the network from clients.
pub(crate) fn read(cluster: &serde_json::Value) -> Result<()> {
    let (kafka, bootstrap) = (text(&cluster["client"]), text(&cluster["bootstrap"]));
    let tool = |at: &str, tool: &[&str]| selftest::cluster(&[&["exec", at, "--", kafka], tool].concat());
    let topic = ["--bootstrap-server", bootstrap, "--topic", "selftest"];
    let create = ["--create", "--partitions", "6", "--replication-factor", "3"];
    tool("c1", &[&["topics"], &topic[..], &create].concat())?;
    let properties = format!("bootstrap.servers={bootstrap}");
    let produce =
        ["producer-perf-test", "--topic", "selftest", "--num-records", "5000", "--record-size", "1000"];
    let pace = ["--throughput", "-1", "--producer-props", &properties];
    selftest::expect("the producer", &tool("c1", &[&produce[..], &pace].concat())?, "5000 records sent")?;
    let described = tool("c2", &[&["topics"], &topic[..], &["--describe"]].concat())?;
    let expected = "\tPartition: 5\tLeader: ";
    selftest::expect("the topic", &described, expected)?;
    let consume = ["consumer-perf-test", "--bootstrap-server", bootstrap, "--topic", "selftest"];
    let all = ["--messages", "5000", "--hide-header", "--timeout", "20000"];
    let read = tool("c2", &[&consume[..], &all].concat())?;
    selftest::expect("the consumer", &read, ", 5000, ")
}

#[test]
fn settings_replace_our_own() {
    let settings = vec![("auto.leader.rebalance.enable".to_owned(), "true".to_owned())];
    let options = ["--servers", "4", "--replicas", "2", "--set", "auto.leader.rebalance.enable=true"];
    let (wish, _) = super::parse(super::Kind::Kafka, &options).unwrap();
    assert_eq!(wish.settings, settings);
    let server = |number| Server::new(&Host::server(number), PathBuf::from("/f"), Path::new("/s"));
    let first = properties(&server(1), Path::new("/d"), &wish);
    let line = "controller.quorum.voters=1@10.77.0.11:9093,2@10.77.0.12:9093,3@10.77.0.13:9093\n";
    for expected in ["process.roles=broker,controller\n", line, "auto.leader.rebalance.enable=true\n"] {
        assert!(first.contains(expected), "{first}");
    }
    assert!(!first.contains("auto.leader.rebalance.enable=false"), "{first}");
    let last = properties(&server(4), Path::new("/d"), &wish);
    assert!(
        last.contains("process.roles=broker\n") && last.contains("listeners=PLAINTEXT://10.77.0.14:9092\n")
    );
}
