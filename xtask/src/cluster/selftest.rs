//! `cargo xtask cluster selftest`: drives the command line as its users do, and checks that nothing is left.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Failure, Kind, ceph, garage, kafka, lifecycle, list, network, text};
use crate::run::{Result, output};
use crate::test::build;

/// Brings up three servers of each kind, reads from them, shapes one, kills one, and takes all down.
pub(crate) fn selftest(kinds: &[Kind]) -> std::result::Result<(), Failure> {
    // Before a cluster is up: servers answer late on a machine that builds.
    build()?;
    for &kind in kinds {
        let start = Instant::now();
        let mut options = vec!["--servers", "3", "--clients", "2", "--rate", "100mbit", "--json"];
        if kind == Kind::Hdfs {
            // Without Kerberos too.
            options.extend(["--set", "dfs.namenode.delegation.token.always-use=true"]);
        }
        if kind == Kind::Ceph {
            // Its manager hears of changes every five seconds otherwise, which is waited for at every step.
            options.extend(["--set", "mgr_stats_period=1"]);
        }
        let second_time: &[&str] = match kind {
            Kind::Hdfs => &["--ha"],
            Kind::Ceph => &["--release", "reef"],
            _ => &[],
        };
        // In this process, which learns whether namespaces are allowed. All that follows is by the command line.
        let first = lifecycle::up(&super::parse(kind, &options)?.0)?;
        let tested = test(kind, &first, &[&[kind.name(), "up"], &options[..], second_time].concat());
        if tested.is_err() {
            // The error matters more than one of tidying up.
            let _ = cluster(&["down"]);
        }
        tested?;
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "{}: up, read, shaped, read {}, killed, up again{}, down in {seconds:.1} s",
            kind.name(),
            match kind {
                Kind::Hdfs => "by Hadoop's client and by a plan",
                Kind::Ceph => "by Ceph's client, balanced",
                Kind::Kafka => "by Kafka's tools, led by others and back",
                _ => "by a plan",
            },
            match kind {
                Kind::Hdfs => " with two NameNodes, one killed",
                Kind::Ceph => " as Reef",
                _ => "",
            },
        );
    }
    Ok(())
}

fn test(kind: Kind, first: &Value, up_again: &[&str]) -> Result<()> {
    read(kind, first)?;
    expect("s2 as it was", &line_of("s2")?, "100Mbit")?;
    cluster(&["shape", "s2", "10mbit"])?;
    expect("s2, slower", &line_of("s2")?, " 10Mbit")?;
    expect("s1, as fast as before", &line_of("s1")?, "100Mbit")?;
    match kind {
        Kind::Hdfs => {
            stock_get(first)?;
            get_blocks(first)?;
        }
        Kind::Ceph => get_objects(first)?,
        // Who leads is no matter of reading: see below.
        Kind::Kafka => {}
        _ => get(kind, first)?,
    }
    match kind {
        Kind::Garage => {
            let source = list(&first["servers"]).next().map(|server| text(&server["source"]));
            let source = source.unwrap_or_default().replace("/?", "/suite/?");
            conforms("a_real_bucket", &[&format!("EVENKEEL_TEST_S3={source}"), &credentials(first)])?;
        }
        Kind::Hdfs => {
            let folder = format!("EVENKEEL_TEST_HDFS={}/suite", text(&first["source"]));
            let node =
                list(&first["name_nodes"]).next().map(|node| text(&node["address"])).unwrap_or_default();
            let http = format!("EVENKEEL_TEST_HDFS_HTTP={}", node.trim_end_matches("/webhdfs/v1/"));
            // The suite of sources, and the commands of the how-to.
            conforms("a_real_hdfs", &[&folder, &http])?;
            conforms("tokens_log_in_at_a_real_namenode", &[&folder, &http])?;
            conforms("the_page_on_hdfs_with_a_real_one", &[&folder, &http])?;
            let host = node.trim_start_matches("http://").trim_end_matches("/webhdfs/v1/");
            conforms("a_real_webhdfs", &[&format!("EVENKEEL_TEST_WEBHDFS=webhdfs://{host}/websuite")])?;
        }
        Kind::Ceph => balance(first)?,
        Kind::Kafka => {
            let broker = format!("EVENKEEL_TEST_KAFKA={}", text(&first["bootstrap"]));
            conforms("lead_kafka::a_real_cluster", &[&broker])?;
            conforms("the_page_on_kafka_with_a_real_one", &[&broker])?;
        }
        Kind::Node => write_and_read(first)?,
        Kind::Nginx | Kind::Xrootd => {}
    }
    cluster(&["shape", "s2", "none"])?;
    cluster(&["shape", "s2", "none"])?;
    expect("s2 without a limit", &line_of("s2")?, "unshaped")?;
    output(Command::new("kill").args(["-KILL", &pids(first)[2].to_string()]))?;
    // A large process takes a moment.
    let deadline = Instant::now() + Duration::from_secs(10);
    while !line_of("s3")?.contains("ended") && Instant::now() < deadline {
        sleep(Duration::from_millis(50));
    }
    expect("s3, which was killed", &line_of("s3")?, "ended")?;
    cluster(&["start", "s3"])?;
    expect("s3, started again", &line_of("s3")?, "pid")?;
    if kind == Kind::Ceph {
        let program = format!("{}/ceph", text(&first["tools"]));
        let ask = ["exec", "c1", "--", &program, "-c", text(&first["configuration"]), "osd", "stat"];
        expect("Ceph", &cluster(&ask)?, "3 osds: 3 up")?;
        get_objects(first)?;
    }

    let printed = cluster(up_again)?;
    let second =
        serde_json::from_str(&printed).map_err(|error| format!("--json printed {printed:?}: {error}"))?;
    read(kind, &second)?;
    if kind == Kind::Hdfs {
        let active = list(&second["name_nodes"]).next().and_then(|node| node["pid"].as_u64());
        output(Command::new("kill").args(["-KILL", &active.unwrap_or_default().to_string()]))?;
        cluster(&["hdfs", "activate", "n2"])?;
        stock_get(&second)?;
        get_blocks(&second)?;
    }
    if kind == Kind::Ceph {
        balance(&second)?;
    }
    cluster(&[kind.name(), "down"])?;
    cluster(&[kind.name(), "down"])?;
    expect("the status", &cluster(&["status"])?, "no cluster is up")?;
    nothing_is_left(kind, &[first, &second])
}

/// Reads a range from every server, over the network from a client.
fn read(kind: Kind, cluster: &Value) -> Result<()> {
    let bytes = (0..100_000).map(|number| format!("{number:09}\n")).collect::<Vec<_>>().concat();
    let login = cluster["credentials"].as_str().map(|file| garage::login(Path::new(file))).transpose()?;
    let login: Vec<&str> = login.iter().flatten().map(String::as_str).collect();
    if kind == Kind::Hdfs {
        return read_blocks(cluster, &bytes);
    }
    if kind == Kind::Ceph {
        return put_objects(cluster, &bytes);
    }
    if kind == Kind::Kafka {
        return kafka::read(cluster);
    }
    for (server, client) in list(&cluster["servers"]).zip(["c1", "c2", "c1"]) {
        let (folder, url) = (Path::new(text(&server["folder"])), format!("{}file", text(&server["address"])));
        let curl = |args: &[&str]| {
            self::cluster(&[&["exec", client, "--", "curl", "-sS"], &login[..], args, &[&url]].concat())
        };
        let file = folder.join("file");
        fs::write(&file, &bytes).map_err(|error| format!("{}: {error}", file.display()))?;
        if matches!(kind, Kind::Garage | Kind::Node) {
            // Their folders hold formats of their own.
            curl(&["--fail", "-T", &file.display().to_string()])?;
        }
        let range = curl(&["-r", "500000-500018", "-w", " %{http_code}"])?;
        expect(&url, &range, "000050000\n000050001 206")?;
        if kind == Kind::Xrootd {
            expect(&url, &curl(&["-X", "PROPFIND", "-H", "Depth: 1", "-i"])?, "207 Multi-Status")?;
            expect(&url, &curl(&["-I", "-H", "Want-Digest: adler32"])?, "Digest: adler32=")?;
        }
    }
    Ok(())
}

/// Writes a block to each pair of DataNodes, and reads one from a DataNode of its own, over the network from a client.
fn read_blocks(cluster: &Value, bytes: &str) -> Result<()> {
    let file = original(cluster);
    let layout = file.with_extension("csv");
    let rows = "path,bytes,hosts\n/file,409600,s1|s2\n/file,409600,s2|s3\n/file,180800,s3|s1\n";
    fs::write(&file, bytes)
        .and_then(|()| fs::write(&layout, rows))
        .map_err(|error| format!("{}: {error}", file.display()))?;
    let folder = file.parent().unwrap_or(&file).display().to_string();
    self::cluster(&["hdfs", "write", &layout.display().to_string(), &folder])?;
    let file_system = text(&cluster["source"]).trim_start_matches("hdfs://");
    for (server, offset) in list(&cluster["servers"]).zip([0, 500_000, 999_000]) {
        let query = format!("op=OPEN&offset={offset}&length=19&namenoderpcaddress={file_system}");
        let url = format!("{}file?{query}", text(&server["address"]));
        let range = self::cluster(&["exec", "c2", "--", "curl", "-sS", &url])?;
        expect(&url, &range, &bytes[offset..offset + 19])?;
    }
    Ok(())
}

/// Writes objects to Ceph by its own client, and reads them.
fn put_objects(cluster: &Value, bytes: &str) -> Result<()> {
    let file = original(cluster);
    fs::write(&file, bytes).map_err(|error| format!("{}: {error}", file.display()))?;
    for object in OBJECTS {
        rados(cluster, "c1", &["put", object, &file.display().to_string()])?;
    }
    get_objects(cluster)
}

/// Chooses primaries by the commands of the how-to, over the network from a client.
fn balance(cluster: &Value) -> Result<()> {
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("PATH={}:{path}", text(&cluster["tools"]));
    let cluster = format!("EVENKEEL_TEST_CEPH={}", text(&cluster["configuration"]));
    conforms("the_page_on_ceph_with_a_real_one", &[&cluster, &path])
}

/// Reads the objects by Ceph's own client.
fn get_objects(cluster: &Value) -> Result<()> {
    let to = original(cluster).with_extension("copy");
    for object in OBJECTS {
        rados(cluster, "c2", &["get", object, &to.display().to_string()])?;
        output(Command::new("cmp").args([&original(cluster), &to]))?;
    }
    Ok(())
}

const OBJECTS: [&str; 4] = ["a", "b", "c", "d"];

fn rados(cluster: &Value, client: &str, args: &[&str]) -> Result<String> {
    let program = format!("{}/rados", text(&cluster["tools"]));
    let pool = ["exec", client, "--", &program, "-c", text(&cluster["configuration"]), "-p", "bench"];
    self::cluster(&[&pool, args].concat())
}

/// Reads the file by Hadoop's own client.
fn stock_get(cluster: &Value) -> Result<()> {
    let to = original(cluster).with_extension("copy");
    let hadoop = text(&cluster["client"]);
    self::cluster(&["exec", "c1", "--", hadoop, "fs", "-get", "-f", "/file", &to.display().to_string()])?;
    output(Command::new("cmp").args([&original(cluster), &to])).map(drop)
}

/// Reads the file by `evenkeel get`, over the network from a client. The second time it is there, as its checksum shows.
fn get_blocks(cluster: &Value) -> Result<()> {
    let here = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let evenkeel = here.with_file_name("evenkeel").display().to_string();
    let to = std::env::temp_dir().join(format!("evenkeel-selftest-{}", std::process::id()));
    let _ = fs::remove_dir_all(&to);
    let configuration = format!("HADOOP_CONF_DIR={}", text(&cluster["configuration"]));
    let (source, folder) = (format!("{}/file", text(&cluster["source"])), to.display().to_string());
    let command = ["exec", "c1", "--", "env", &configuration, &evenkeel, "get", "--json", &source, &folder];
    for kept in ["\"kept\":0,\"unverified\":0", "\"kept\":1,\"unverified\":0"] {
        let printed = self::cluster(&command)?;
        output(Command::new("cmp").args([&original(cluster), &to.join("file")]))?;
        expect("evenkeel get", &printed, kept)?;
        expect("evenkeel get", &printed, "\"failed\":0")?;
    }
    fs::remove_dir_all(&to).map_err(|error| format!("{}: {error}", to.display()))
}

/// Reads a file by `evenkeel get` from all servers as mirrors, one of which is slow, over the network from a client.
fn get(kind: Kind, cluster: &Value) -> Result<()> {
    let here = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let evenkeel = here.with_file_name("evenkeel").display().to_string();
    let to = std::env::temp_dir().join(format!("evenkeel-selftest-{}", std::process::id()));
    let folder = to.display().to_string();
    // The one of a run that failed here would be found and kept.
    let _ = fs::remove_dir_all(&to);
    let addresses: Vec<&str> = list(&cluster["servers"]).map(|server| text(&server["source"])).collect();
    let credentials = credentials(cluster);
    let mut args = vec!["exec", "c1", "--", "env", &credentials, &evenkeel, "get", "--json"];
    let metalink = to.with_extension("meta4");
    let metalink_path = metalink.display().to_string();
    if kind == Kind::Nginx {
        // It tells no checksums, so a Metalink does.
        let file = original(cluster);
        let sum = output(Command::new("sha256sum").arg(&file))?;
        let sum = sum.split_whitespace().next().unwrap_or_default();
        let urls: Vec<String> = addresses.iter().map(|address| format!("<url>{address}file</url>")).collect();
        let text = format!(
            "<metalink xmlns=\"urn:ietf:params:xml:ns:metalink\"><file name=\"file\">\
             <hash type=\"sha-256\">{sum}</hash>{}</file></metalink>",
            urls.concat()
        );
        fs::write(&metalink, text).map_err(|error| format!("{metalink_path}: {error}"))?;
        args.push(&metalink_path);
    } else {
        addresses.iter().for_each(|address| args.extend(["--mirror", address]));
    }
    args.push(&folder);
    let printed = self::cluster(&args)?;
    let read = |path: &Path| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    let is_same = read(&to.join("file"))? == read(&original(cluster))?;
    let _ = fs::remove_file(&metalink);
    fs::remove_dir_all(&to).map_err(|error| format!("{}: {error}", to.display()))?;
    if !is_same {
        return Err(format!("evenkeel get read something else: {printed}"));
    }
    expect("evenkeel get", &printed, "\"failed\":0")?;
    expect("evenkeel get", &printed, "\"unverified\":0")
}

/// Writes a file in small pieces, which go where there is least to do, reads it, brings it home, reads it again, and
/// removes it, over the network from a client.
fn write_and_read(cluster: &Value) -> Result<()> {
    let here = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let evenkeel = here.with_file_name("evenkeel").display().to_string();
    let file = format!("EVENKEEL_CLUSTER={}", text(&cluster["cluster"]));
    let run = |args: &[&str]| self::cluster(&[&["exec", "c1", "--", "env", &file, &evenkeel], args].concat());
    let to = std::env::temp_dir().join(format!("evenkeel-selftest-{}", std::process::id()));
    let (from, folder) = (original(cluster).display().to_string(), to.display().to_string());
    let get = || {
        let _ = fs::remove_dir_all(&to);
        let printed = run(&["get", "--json", "keel://evenkeel/set/", &folder])?;
        expect("evenkeel get", &printed, "\"failed\":0")?;
        output(Command::new("cmp").args([&original(cluster), &to.join("file")])).map(drop)
    };
    let put = ["put", "--json", "--piece", "64KiB", "--placement", "mlml", &from, "keel://evenkeel/set/"];
    expect("evenkeel put", &run(&put)?, "\"failed\":0")?;
    expect("evenkeel ls", &run(&["ls", "keel://evenkeel/set/"])?, "file")?;
    get()?;
    run(&["maintain", "--apply", "--grace", "0", "keel://evenkeel/"])?;
    get()?;
    run(&["rm", "keel://evenkeel/set/file"])?;
    let _ = fs::remove_dir_all(&to);
    match run(&["stat", "keel://evenkeel/set/file"]) {
        Err(_) => Ok(()),
        Ok(found) => Err(format!("it is there after evenkeel rm: {found}")),
    }
}

/// Runs tests that need real storage, over the network from a client: the one of this name.
fn conforms(name: &str, variables: &[&str]) -> Result<()> {
    let here = [&["exec", "c1", "--", "env"], variables].concat();
    // The whole workspace, as it was built: a single package would have other features, and be built again.
    let cargo =
        ["cargo", "test", "--quiet", "--offline", "--workspace", "--exclude", "xtask", "--test", "it"];
    let printed = self::cluster(&[&here[..], &cargo, &[name, "--", "--nocapture"]].concat())?;
    if printed.contains("skipped") {
        return Err(format!("{name} did not run: {printed}"));
    }
    expect(name, &printed, "1 passed")
}

/// Where credentials are, as AWS's tools want to be told.
fn credentials(cluster: &Value) -> String {
    format!("AWS_SHARED_CREDENTIALS_FILE={}", text(&cluster["credentials"]))
}

/// The file that every server has.
fn original(cluster: &Value) -> PathBuf {
    let folder = list(&cluster["servers"]).next().map(|server| text(&server["folder"]));
    Path::new(folder.unwrap_or_default()).join("file")
}

fn nothing_is_left(kind: Kind, clusters: &[&Value]) -> Result<()> {
    let left = network::namespaces();
    if !left.is_empty() {
        return Err(format!("namespaces are left: {}", left.join(", ")));
    }
    for pid in clusters.iter().flat_map(|cluster| pids(cluster)) {
        // Empty for a process that has ended and that nobody has waited for.
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if line.contains(kind.name()) {
            return Err(format!("process {pid} is left: {}", line.replace('\0', " ")));
        }
    }
    if let Some(folder) = ceph::left() {
        return Err(format!("{folder} is left"));
    }
    let mut folders =
        clusters.iter().flat_map(|cluster| list(&cluster["servers"])).map(|server| text(&server["folder"]));
    folders
        .find(|folder| Path::new(folder).exists())
        .map_or(Ok(()), |folder| Err(format!("{folder} is left")))
}

fn pids(cluster: &Value) -> Vec<u64> {
    list(&cluster["servers"]).filter_map(|server| server["pid"].as_u64()).collect()
}

/// What `status` prints about a host.
fn line_of(host: &str) -> Result<String> {
    let status = cluster(&["status"])?;
    let line = status.lines().find(|line| line.split_whitespace().next() == Some(host));
    line.map(str::to_owned).ok_or_else(|| format!("the status does not name {host}: {status}"))
}

pub(crate) fn expect(what: &str, found: &str, expected: &str) -> Result<()> {
    let is_there = found.contains(expected);
    is_there.then_some(()).ok_or_else(|| format!("{what}: expected {expected:?}, found {found:?}"))
}

/// Runs `cargo xtask cluster` with these arguments.
pub(crate) fn cluster(args: &[&str]) -> Result<String> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    output(Command::new(program).arg("cluster").args(args))
}
