"""Eight servers of XRootD behind shaped links: `get` reads over HTTP, xrdcp over XRootD's own protocol."""

import tools
from cluster import RATE_MBIT, Cluster
from data import MIB, File, metalink
from race import Contestant, Race

SERVERS = 8
EQUAL = [RATE_MBIT] * SERVERS
SLOW = [RATE_MBIT // 10] + EQUAL[1:]
# By default a source takes up to 128 MiB at a time and asks for 32 MiB of it at once, so that few sources read most of a
# file of this size. Of about ten settings tried here, these suit xrdcp best.
TUNED = ["env", "XRD_XCPBLOCKSIZE=4194304", "XRD_CPCHUNKSIZE=262144"]


def run(args, names):
    with Cluster(args.xtask, "xrootd", SERVERS) as cluster, Race(args, cluster) as race:
        file = File(race.folder, "file", args.mib * MIB, 1)
        file.serve(cluster.servers)
        for name in names:
            SCENARIOS[name](race, file)


def equal(race, file):
    one_client(race, file, f"XRootD, one client, {race.args.mib} MiB, 8 equal servers", EQUAL, goal=1.0)


def slow(race, file):
    one_client(race, file, "XRootD, the first server sends a tenth", SLOW, goal=0.8)


def one_client(race, file, title, rates_mbit, goal):
    cluster, args = race.cluster, race.args
    meta = metalink(race.path("http.meta4"), [file], [cluster.addresses()])
    # The checksum is the one that XRootD's tools know.
    own = [address.replace("http://", "root://").replace(":8081/", ":1094//") for address in cluster.addresses()]
    own = metalink(race.path("root.meta4"), [file], [own], "adler32")
    cluster.shape_all(rates_mbit)
    bound = file.size / sum(cluster.goodputs(file.name))
    at_client = lambda *command: [cluster.at("c1", command)]
    contestants = [
        Contestant("evenkeel get", lambda to: at_client(*tools.evenkeel(args, [meta], to))),
        Contestant("xrdcp --sources 8", lambda to: at_client(*tools.xrdcp(own, to))),
        Contestant("xrdcp --sources 8, tuned", lambda to: at_client(*TUNED, *tools.xrdcp(own, to))),
        Contestant("xrdcp --sources 8 --streams 4, tuned",
                   lambda to: at_client(*TUNED, *tools.xrdcp(own, to, "--streams", "4"))),
    ]
    race.race(title, contestants, file.size, bound, goal)


SCENARIOS = {"xrootd-equal": equal, "xrootd-slow": slow}
