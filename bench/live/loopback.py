"""One server without any limit, and the client on the same host: what do the tools themselves cost?

Some tools verify what they read, and some do not. Ours does both, since both are asked for: the rows say which. Only ours
waits until everything is on the disk; for the others the column "on disk after" tells when that is so.
"""

import os

import tools
from cluster import Cluster, run as check
from data import MIB, File, metalink
from race import Contestant, Race

FILES = 16
SIZE = 64 * MIB
# Throughput of at least 0.9 × the best.
GOAL = 1 / 0.9


def run(args, names):
    for name in names:
        kind, scenario = SCENARIOS[name]
        with Cluster(args.xtask, kind, 1, replicas=1) as cluster, Race(args, cluster) as race:
            folder = race.path("set")
            os.mkdir(folder)
            scenario(race, folder, [File(folder, f"part{number:02}", SIZE, number) for number in range(FILES)])


def http(race, folder, files):
    cluster, args = race.cluster, race.args
    for file in files:
        file.serve(cluster.servers)
    (address,) = cluster.addresses()
    meta = metalink(race.path("files.meta4"), files, [[address]] * FILES)
    urls = [address + file.name for file in files]
    listed = race.path("urls")
    with open(listed, "w") as out:
        out.write("\n".join(urls) + "\n")
    here = lambda command: [cluster.at("s1", command)]
    contestants = [
        Contestant("evenkeel get, verified", lambda to: here(tools.evenkeel(args, [meta], to))),
        Contestant("evenkeel get, not verified", lambda to: here(tools.evenkeel(args, [address], to))),
        Contestant("aria2, verified", lambda to: here(tools.aria2(meta, to))),
        Contestant("aria2, not verified", lambda to: here(tools.aria2_urls(listed, to))),
        Contestant("curl, not verified", lambda to: here(tools.curl(urls, to))),
    ]
    race.race(f"Loopback, {FILES} × 64 MiB, one nginx", contestants, FILES * SIZE, goal=GOAL)


def s3(race, folder, files):
    cluster, args = race.cluster, race.args
    (server,) = cluster.servers
    endpoint = server["address"].removesuffix("/evenkeel/")
    check(cluster.at("s1", tools.upload(args, endpoint, folder, "evenkeel/set")), env=cluster.environment)
    source = server["source"].replace("/?", "/set/?")
    here = lambda command: [cluster.at("s1", command)]
    contestants = [
        Contestant("evenkeel get, verified", lambda to: here(tools.evenkeel(args, [source], to))),
        Contestant("evenkeel get, not verified",
                   lambda to: here(tools.evenkeel(args, [source + "&opaque_etags=true"], to))),
        Contestant("s5cmd, not verified",
                   lambda to: here(tools.s5cmd(args, endpoint, "cp", "s3://evenkeel/set/*", f"{to}/"))),
        Contestant("rclone, verified", lambda to: here(tools.rclone_s3(endpoint, "evenkeel/set", to))),
    ]
    race.race(f"Loopback, {FILES} × 64 MiB, one node of Garage", contestants, FILES * SIZE, goal=GOAL)


SCENARIOS = {"loopback-http": ("nginx", http), "loopback-s3": ("garage", s3)}
