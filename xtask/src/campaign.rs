//! Long campaigns, not part of the tests.

use crate::cluster::garage;
use crate::run::{
    Result, hdfs_native, or_tools, require_cargo_tool, require_program, run_with, s3_load, s3s_fs, s5cmd,
    target,
};

/// One target for each reader, and one that plans any input that can be read.
const TARGETS: &[(&str, &[u8])] = &[
    ("batch_csv", b"client,bytes,replicas\nc0,1,s0|s1\n"),
    (
        "batch_json",
        b"{\"servers\":[\"s\"],\"requests\":[{\"client\":\"c\",\"bytes\":1,\"replicas\":[\"s\"]}]}",
    ),
    ("servers", b"server,speed,slots,backlog,host,connections,last_used\ns0,0.5,2,9,h,1,2\n"),
    ("clients", b"client,slots,host\nc0,1,h\n"),
    ("plan", b"request,client,server,start,blocks\n0,c0,s0,0,1\n1,c1,s1,0,3\n2,c0,s0,0,0\n"),
    ("summary", SUMMARY.as_bytes()),
    ("advice", ADVICE.as_bytes()),
    ("assign_csv", b"task,bytes,replicas\nt0,4,s0|s1\nt0,2,s1\nt1,3,s0\n\n=\nprocess,server\np0,s0\np1,\n"),
    ("writes_csv", b"object,offset,bytes\n17,0,4096\nlog,8,0\n17,4096,1\n"),
    ("manifest_csv", b"key,bytes,replicas,sha256\na,1kB,http://a/x|file:///y,\nb,0,z,\n"),
    ("queue_csv", b"app,server,read,shuffle\na0,s0,1,0.5\na1,s0,2,0\na0,s1,0,3\n"),
    ("scenario", include_bytes!("../../examples/open-arrivals.toml")),
    ("import_hdfs_fsck", include_bytes!("../../examples/fsck.txt")),
    ("import_metalink", include_bytes!("../../examples/mirrors.meta4")),
    ("import_s3_inventory", b"b,a%20b,5,e,true\nc,a%20b,5,e,true\nb,c,7,,false\n"),
    ("import_rclone_lsjson", include_bytes!("../../examples/east.json")),
    ("import_table", b"bytes,replicas,chunk,client\n1kB,a|b,x,c\n"),
    (
        "pipeline",
        b"-\n\nserver,speed,slots,backlog\ns0,0.5,2,3\ns1,3,1,0\ns2,1,1,9\n\nclient,bytes,replicas\nc0,1,s0|s1\nc0,2,s1\nc1,3,s0|s1|s2\n",
    ),
    ("hdfs_conf", HADOOP_CONF.as_bytes()),
    ("hdfs_namenode", b"\x0AR\x0AN\x08\x02\x12\x01f\x18\x058\x09b@\x08\x05\x128\x0A\x0D\x0A\x04BP-1\x10\xE8\x07\x18\x07 \x05\x10\0\x1A\x19\x0A\x15\x0A\x0810.0.0.1\x12\x02d1\x1A\x02u1 \x8AM8\x03 \0*\x08\x0A\0\x12\0\x1A\0\"\0\x18\0(\x01h\x81}\x10\0"),
    ("hdfs_datanode", b"\0\0\0\x04\x0D\x08\0\"\x09\x0A\x05\x08\x02\x10\x80\x04\x10\0\0\0\0\x0D\0\x19\x09\0\0\0\0\0\0\0\0\x11\0\0\0\0\0\0\0\0\x18\0%\x05\0\0\0\x18\xD1#512345"),
    ("hdfs_login", b"\0\0\0s\x08\x08\xDF\xFF\xFF\xFF\x0F\x10\0i\x10\x01\"e\x0A\x05TOKEN\x12\x0ADIGEST-MD5\x1A\0\"\x07default*Erealm=\"default\",nonce=\"n\",qop=\"auth\",charset=utf-8,algorithm=md5-sess\0\0\0\x17\x08\x08\xDF\xFF\xFF\xFF\x0F\x10\0\x0D\x10\0\x1A\x09rspauth=0"),
    ("hdfs_tokens", b"HDTS\x01-\x0A+\x0A\x01a\x12&\x0A\x01i\x12\x01p\x1A\x15HDFS_DELEGATION_TOKEN\"\x07nn:8020"),
    ("webhdfs", WEBHDFS.as_bytes()),
    ("redirect", br#"{"format":1,"bytes":7,"etag":"e","pieces":[{"server":"s1","key":".evenkeel/held/a/0","bytes":7,"crc32c":3}]}"#),
    ("cluster_file", b"format = 1\ncredentials = \"keys\"\n[[server]]\nname = \"s1\"\nendpoint = \"http://h:1\"\nspeed = 0.1\nregion = \"r\"\n"),
    ("lead_ceph", CEPH.as_bytes()),
    ("lead_kafka", b"\0\0\0\0\x02\0\0\0\x01\x02h\0\0#\x84\0\0\x02c\0\0\0\x01\x02\0\0\x02t\0\x02\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\x02\0\0\0\x01\x02\0\0\0\x01\x01\0\x80\0\0\0\0\x80\0\0\0\0"),
    ("lead_kafka_files", b"Topic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\n{\"version\":1,\"brokers\":[{\"broker\":1,\"logDirs\":[{\"partitions\":[{\"partition\":\"t-0\",\"size\":7}]}]}]}\n"),
];

/// The map, the groups and what `osdmaptool` prints, with zeros between them.
const CEPH: &str = concat!(
    r#"{"fsid":"f","pools":[{"pool":1,"pool_name":"p","type":1}],"osds":[
{"osd":0,"up":1,"in":1,"weight":1,"primary_affinity":1},{"osd":1,"up":1,"in":1,"weight":1,"primary_affinity":1}]}"#,
    "\0",
    r#"[{"pgid":"1.0","state":"active+clean","up":[0,1],"acting":[0,1],"acting_primary":0,
"stat_sum":{"num_bytes":7,"num_read_kb":1}}]"#,
    "\0",
    "1.0 raw ([0,1], p0) up ([0,1], p0) acting ([0,1], p0)\n",
);

const HADOOP_CONF: &str =
    "<configuration><property><name>fs.defaultFS</name><value>hdfs://main</value></property>
<property><name>dfs.ha.namenodes.main</name><value>a,b</value></property>
<property><name>dfs.namenode.rpc-address.main.a</name><value>${x}:8020</value></property>
<property><name>x</name><value>h</value></property></configuration>";

/// Answers of all kinds in one.
const WEBHDFS: &str = r#"{"FileStatus":{"pathSuffix":"","type":"FILE","length":5},"DirectoryListing":{"partialListing":
{"FileStatuses":{"FileStatus":[{"pathSuffix":"f","type":"FILE","length":5,"fileId":7}]}},"remainingEntries":0},
"LocatedBlocks":{"fileLength":5,"locatedBlocks":[{"startOffset":0,"block":{"numBytes":5},"locations":
[{"hostName":"d1","infoPort":9864,"xceiverCount":3}]}]},"RemoteException":{"exception":"X","message":"m"}}"#;

const SUMMARY: &str = r#"{"format":1,"policy":"optimal","order":"colour","seed":0,"block":1,"requests":1,"clients":1,
"servers":1,"length":1,"max_load":1,"lower_bound":1,"optimal":true,
"bottleneck":{"kind":"servers","servers":["s"],"requests":1,"blocks":1},
"batch_fingerprint":"0","plan_fingerprint":"0","seconds":{"read":0.0,"select":0.0,"order":0.0,"write":0.0}}"#;

const ADVICE: &str = r#"{"format":1,"subject":"length","block":1,"batch_fingerprint":"0","lower_bound":3,"advice":[
{"name":"copies-1","lower_bound":2,"copies":[{"request":1,"from":"s1","to":"s0","blocks":1}]},
{"name":"faster-server","lower_bound":2,"servers":[{"server":"s1","speed":2}]},
{"name":"slot","lower_bound":2,"clients":[{"client":"c1","slots":2}]},
{"name":"client","lower_bound":2,"new_client":"c1-2","moves":[{"request":1,"to":"c1-2","blocks":1}]}]}"#;

/// Random worlds for the executor and the bidding machines, and for the executor in the simulator next to a bare loop:
/// `times` as many as in the tests.
pub(crate) fn worlds(times: &str) -> Result<()> {
    for (package, tests) in [
        ("evenkeel", &["executor::each_request", "bidding::each_request"][..]),
        ("evenkeel-sim", &["live::"]),
    ] {
        let args = [&["test", "-p", package, "--test", "it", "--"], tests].concat();
        run_with("cargo", &args, &[("EVENKEEL_TIMES", times)])?;
    }
    Ok(())
}

/// The live client under random faults, with `times` as many schedules as in the tests. Each test prints its figures: runs,
/// bytes verified, wrong bytes, hangs.
pub(crate) fn faults(times: &str) -> Result<()> {
    let tests = ["faults::random", "simulated::", "trouble::"];
    let args = [&["test", "-p", "evenkeel-node", "--test", "it", "--", "--nocapture"], &tests[..]].concat();
    run_with("cargo", &args, &[("EVENKEEL_TIMES", times)])
}

/// Writers, nodes, redirects and the maintainer in so many simulated worlds, and stopped at every step. Prints figures:
/// requests, acknowledged, faults by kind, what was wrong.
pub(crate) fn simulation(seeds: &str) -> Result<()> {
    let seeds: u64 = seeds.parse().map_err(|_| format!("--seeds {seeds}: give a number such as 10000"))?;
    // As many as in the tests, and so often.
    let times = seeds.div_ceil(100).max(2).to_string();
    let args = ["test", "-p", "evenkeel-node", "--lib", "--", "--nocapture", "simulation::"];
    run_with("cargo", &args, &[("EVENKEEL_TIMES", &times)])
}

/// Races `get` against other tools on real servers. Builds `evenkeel` unless the options name one.
pub(crate) fn live(options: &[&str]) -> Result<()> {
    for (program, flag, package) in [
        ("python3", "--version", "python3"),
        ("aria2c", "--version", "aria2"),
        ("curl", "--version", "curl"),
        ("rclone", "version", "rclone"),
        ("xrdcp", "--version", "xrootd-client"),
    ] {
        require_program(program, &[flag], &[package])?;
    }
    let (s5cmd, hdfs_native, s3_load, s3s_fs) = (s5cmd()?, hdfs_native()?, s3_load()?, s3s_fs()?);
    let garage = garage::installed()?;
    let evenkeel = target().join("release/evenkeel").display().to_string();
    if !options.contains(&"--evenkeel") {
        run_with("cargo", &["build", "--release", "--quiet", "-p", "evenkeel-cli"], &[])?;
    }
    let xtask = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let xtask = xtask.display().to_string();
    let race = ["bench/live", "--evenkeel", &evenkeel, "--xtask", &xtask, "--s5cmd", &s5cmd];
    let peers =
        ["--hdfs-native", &hdfs_native, "--s3-load", &s3_load, "--s3s-fs", &s3s_fs, "--garage", &garage];
    let race = [&race[..], &peers].concat();
    run_with("python3", &[&race, options].concat(), &[("PYTHONDONTWRITEBYTECODE", "1")])
}

/// `get` from a real HDFS under random faults. Builds `evenkeel` unless the options name one.
pub(crate) fn hdfs_faults(options: &[&str]) -> Result<()> {
    require_program("python3", &["--version"], &["python3"])?;
    let xtask = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    if !options.contains(&"--evenkeel") {
        run_with("cargo", &["build", "--quiet", "-p", "evenkeel-cli"], &[])?;
    }
    let evenkeel = target().join("debug/evenkeel").display().to_string();
    let xtask = xtask.display().to_string();
    let campaign = ["bench/faults", "--evenkeel", &evenkeel, "--xtask", &xtask];
    run_with("python3", &[&campaign, options].concat(), &[("PYTHONDONTWRITEBYTECODE", "1")])
}

/// Nodes, writers and the maintainer, killed at random. Builds `evenkeel` unless the options name one.
pub(crate) fn crashes(options: &[&str]) -> Result<()> {
    require_program("python3", &["--version"], &["python3"])?;
    if !options.contains(&"--evenkeel") {
        run_with("cargo", &["build", "--quiet", "-p", "evenkeel-cli"], &[])?;
    }
    let evenkeel = target().join("debug/evenkeel").display().to_string();
    let campaign = ["bench/crashes", "--evenkeel", &evenkeel];
    run_with("python3", &[&campaign, options].concat(), &[("PYTHONDONTWRITEBYTECODE", "1")])
}

/// Primaries of a real Ceph cluster, balanced. Builds `evenkeel` unless the options name one.
pub(crate) fn ceph(options: &[&str]) -> Result<()> {
    leaders("bench/leaders/ceph.py", options)
}

fn leaders(program: &str, options: &[&str]) -> Result<()> {
    require_program("python3", &["--version"], &["python3"])?;
    let or_tools = or_tools()?;
    let xtask = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    if !options.contains(&"--evenkeel") {
        run_with("cargo", &["build", "--release", "--quiet", "-p", "evenkeel-cli"], &[])?;
    }
    let evenkeel = target().join("release/evenkeel").display().to_string();
    let xtask = xtask.display().to_string();
    let campaign = [program, "--evenkeel", &evenkeel, "--xtask", &xtask];
    let variables = [("PYTHONDONTWRITEBYTECODE", "1"), ("PYTHONPATH", &*or_tools)];
    run_with("python3", &[&campaign, options].concat(), &variables)
}

/// Runs each target on this many inputs, without sanitizers, so that a stable toolchain is enough.
pub(crate) fn fuzz(runs: &str) -> Result<()> {
    require_program("c++", &["--version"], &["g++"])?;
    require_cargo_tool("cargo-fuzz", &[])?;
    let folder = std::env::temp_dir().join(format!("evenkeel-fuzz-{}", std::process::id()));
    for &(target, seed) in TARGETS {
        let corpus = folder.join(target);
        std::fs::create_dir_all(&corpus).map_err(|e| e.to_string())?;
        std::fs::write(corpus.join("seed"), seed).map_err(|e| e.to_string())?;
        let corpus = corpus.display().to_string();
        let limit = format!("-runs={runs}");
        let args =
            ["fuzz", "run", "--sanitizer", "none", target, &corpus, "--", &limit, "-max_len=512", "-seed=1"];
        run_with("cargo", &args, &[])?;
    }
    std::fs::remove_dir_all(&folder).map_err(|e| e.to_string())
}
