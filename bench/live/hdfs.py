"""HDFS behind shaped links: every block has two replicas, and one of them is always on one of two crowded DataNodes."""

import os
import random

import tools
from cluster import RATE_MBIT, Cluster, run as check
from data import MIB, File
from mirrors import least_time
from race import Contestant, Race

DATA_NODES = 8
CROWDED = 2
BLOCK = 4 * MIB
EQUAL = [RATE_MBIT] * DATA_NODES
SLOW = [RATE_MBIT // 10] + EQUAL[1:]
# Where the links are measured: a file for each DataNode, large enough for the time that it takes.
PROBE = 32 * MIB


def run(args, names):
    for name in names:
        SCENARIOS[name](args)


def equal(args):
    crowded(args, f"HDFS, one client, {args.mib} MiB in blocks of 4 MiB, crowded on two of 8 equal DataNodes", EQUAL)


def slow(args):
    crowded(args, "HDFS, one of the two crowded DataNodes sends a tenth", SLOW, goal=0.1)


def crowded(args, title, rates_mbit, goal=None):
    """One client reads all."""
    with Cluster(args.xtask, "hdfs", DATA_NODES) as cluster, Race(args, cluster) as race:
        names = [server["name"] for server in cluster.servers]
        draw, files, holders, layout = random.Random(17), [], [], []
        os.mkdir(race.path("crowded"))
        for number in range(args.mib * MIB // BLOCK):
            first = number % CROWDED
            second = draw.choice([other for other in range(DATA_NODES) if other != first])
            files.append(File(race.path("crowded"), f"part{number:03}", BLOCK, number))
            holders.append([first, second])
            layout.append((f"/crowded/part{number:03}", BLOCK, [names[first], names[second]]))
        probe = File(race.folder, "probe", PROBE, 0)
        os.mkdir(race.path("probe-of"))
        for name in names:
            os.link(probe.path, race.path(f"probe-of/{name}"))
            layout.append((f"/probe-of/{name}", PROBE, [name]))
        write(race, layout)
        cluster.shape_all(rates_mbit)
        bound = least_time(files, holders, goodputs(cluster))
        size = sum(file.size for file in files)
        race.race(title, contestants(race, "c1", "/crowded", [8, 24, 96]), size, bound, goal)


def loopback(args):
    """One DataNode without any limit, and the client on the same host."""
    with Cluster(args.xtask, "hdfs", 1, replicas=1) as cluster, Race(args, cluster) as race:
        size, count = 128 * MIB, 8
        os.mkdir(race.path("set"))
        files = [File(race.path("set"), f"part{number}", size, number) for number in range(count)]
        write(race, [(f"/set/{file.name}", size, []) for file in files])
        title = f"Loopback, {count} × 128 MiB in a block each, one DataNode"
        # Throughput of at least 0.9 × the best.
        race.race(title, contestants(race, "s1", "/set", [1, 2, 4, 8]), count * size, goal=1 / 0.9)


def contestants(race, host, path, threads):
    """All of them, the peers with several numbers of threads or requests at once."""
    cluster, args = race.cluster, race.args
    at = lambda *command: [cluster.at(host, command)]
    hedged = with_class(race, "HedgedRead")
    found = [Contestant("evenkeel get", lambda to: at(*tools.evenkeel(args, [cluster.source + path], to)))]
    for n in threads:
        found += [
            Contestant(f"hadoop fs -get -t {n}",
                       lambda to, n=n: at(*tools.hadoop_get(cluster.hadoop, path, to, n)), True),
            Contestant(f"hedged reads, {n} threads",
                       lambda to, n=n: at(*hedged, *tools.hedged_read(cluster.hadoop, path, to, n, 1024, 500)), True),
            Contestant(f"hdfs-native, {n} requests", lambda to, n=n: at(*tools.hdfs_native(args, path, to, n)), True),
        ]
    return found


def with_class(race, name):
    """Compiles a program for the stock client. Returns what makes the client find it."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers", f"{name}.java")
    path = check([race.cluster.hadoop, "classpath"]).strip()
    check(["javac", "-cp", path, "-d", race.path("classes"), source])
    return ["env", f"HADOOP_CLASSPATH={race.path('classes')}"]


def write(race, layout):
    """Writes files of the race's folder, each with its blocks: path, bytes, and the DataNodes, or none for any."""
    table = race.path("layout.csv")
    with open(table, "w") as out:
        out.write("path,bytes,hosts\n")
        for path, size, hosts in layout:
            out.write(f"{path},{size},{'|'.join(hosts)}\n")
    race.cluster.task("hdfs", "write", table, race.folder)


def goodputs(cluster):
    query = f"?op=OPEN&namenoderpcaddress={cluster.source.removeprefix('hdfs://')}"
    # WebHDFS of a DataNode is slow until it is compiled.
    for _ in range(2):
        rates = [cluster.goodput(f"{server['address']}probe-of/{server['name']}{query}") for server in cluster.servers]
    return rates


SCENARIOS = {"hdfs-equal": equal, "hdfs-slow": slow, "hdfs-loopback": loopback}
