//! The project's own tasks. `cargo xtask` lists them.

mod campaign;
mod ceph_watch;
mod cluster;
mod licences;
mod picture;
mod reproduce;
mod run;
mod slow_datanode;
mod straggler;
mod test;

use std::process::ExitCode;

const HELP: &str = "\
Tasks:
  cargo xtask test                  everything that must hold: format, lints, licences, tests, documents, a short race
  cargo xtask race [--quick] …      the race against OR-tools, SciPy, rustworkx and pandas, as tables
  cargo xtask reproduce             the page of the papers' experiments in docs/, with the pictures of the README
  cargo xtask straggler [EVENKEEL]  the picture in docs/straggler.md: a get while one server turns slow, with and without
                                    planning anew, on real servers; as root. EVENKEEL is a build of the command
                                    (default: a release build of this checkout)
  cargo xtask slow-datanode [EVENKEEL]
                                    the picture in docs/slow-datanode.md: a parallel program on HDFS while one DataNode is
                                    slow, by Hadoop's client and by evenkeel assign; as root
  cargo xtask ceph-watch [FIGURES]  the picture in docs/ceph.md: bandwidth and primaries of a Ceph cluster while OSDs
                                    turn slow and recover and evenkeel balance watches; as root, 20 minutes. FIGURES is
                                    what campaign ceph --watch --out wrote, to draw only
  cargo xtask campaign fuzz [N]     each reader on N inputs (default 1,000,000)
  cargo xtask campaign worlds [N]   the executor and bidding in N times as many random worlds as in the tests (default
                                    170, which makes a million)
  cargo xtask campaign faults [N]   the live client with N times as many random faults as in the tests (default 25: 600
                                    schedules with real sockets, 50,000 in simulated time)
  cargo xtask campaign simulation [--seeds N]
                                    writers, nodes, redirects and the maintainer in N worlds (default 10,000) where
                                    requests are lost, delayed and cut and machines crash; and stopped at every step
  cargo xtask campaign live …       get against aria2, xrdcp, rclone, s5cmd, curl, Hadoop's client and hdfs-native, on
                                    nginx, XRootD, Garage and HDFS, as tables; parallel programs on HDFS by assign and
                                    cat; and consumers of Kafka with leaders by balance; as root. Options of bench/live,
                                    such as --mib 1024 --repeat 3 --only slow; --help lists them
  cargo xtask campaign hdfs-faults [N] [--seed S]
                                    get from a real HDFS while its servers, blocks and files fail in N random schedules
                                    (default 300); as root. Options of bench/faults; --help lists them
  cargo xtask campaign crashes [--kills N] [--seed S]
                                    nodes, writers and the maintainer killed and started again under load (default 200
                                    times): what was acknowledged is there, nothing is there in part
  cargo xtask campaign ceph [--release pacific|reef] [--watch | --kills N] …
                                    read bandwidth of a real Ceph before and after evenkeel balance, with a slow OSD and
                                    without; or while OSDs turn slow and are watched; or with balance killed N times in
                                    the middle; as root. Options of bench/leaders/ceph.py; --help lists them
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["test"] => test::test(),
        ["race", rest @ ..] => test::race(rest),
        ["reproduce"] => reproduce::reproduce(),
        ["straggler"] => straggler::straggler(None),
        ["straggler", evenkeel] => straggler::straggler(Some(evenkeel)),
        ["slow-datanode"] => slow_datanode::slow_data_node(None),
        ["slow-datanode", evenkeel] => slow_datanode::slow_data_node(Some(evenkeel)),
        ["ceph-watch"] => ceph_watch::ceph_watch(None),
        ["ceph-watch", figures] => ceph_watch::ceph_watch(Some(figures)),
        ["campaign", "fuzz"] => campaign::fuzz("1000000"),
        ["campaign", "fuzz", runs] => campaign::fuzz(runs),
        ["campaign", "worlds"] => campaign::worlds("170"),
        ["campaign", "worlds", times] => campaign::worlds(times),
        ["campaign", "faults"] => campaign::faults("25"),
        ["campaign", "faults", times] => campaign::faults(times),
        ["campaign", "simulation"] => campaign::simulation("10000"),
        ["campaign", "simulation", "--seeds", seeds] => campaign::simulation(seeds),
        ["campaign", "live", options @ ..] => campaign::live(options),
        ["campaign", "hdfs-faults", options @ ..] => campaign::hdfs_faults(options),
        ["campaign", "crashes", options @ ..] => campaign::crashes(options),
        ["campaign", "ceph", options @ ..] => campaign::ceph(options),
        ["cluster", rest @ ..] => return cluster::main(rest),
        _ => {
            print!("{HELP}{}", cluster::HELP);
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
