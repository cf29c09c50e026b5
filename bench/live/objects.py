"""Very many small objects on one S3 server without any limit, and the client on the same host."""

import os
import random

import tools
from cluster import Cluster, run as check
from race import Contestant, Race

SIZE = 4096
# In folders of so many.
GROUP = 1000


def run(args, names):
    with Cluster(args.xtask, "garage", 1, replicas=1) as cluster, Race(args, cluster) as race:
        for name in names:
            SCENARIOS[name](race)


def small(race):
    cluster, args = race.cluster, race.args
    folder, draw = race.path("small"), random.Random(3)
    for number in range(args.objects):
        group = os.path.join(folder, f"{number // GROUP:04}")
        if number % GROUP == 0:
            os.makedirs(group)
        with open(os.path.join(group, f"{number % GROUP:03}"), "wb") as out:
            out.write(draw.randbytes(SIZE))
    (server,) = cluster.servers
    endpoint = server["address"].removesuffix("/evenkeel/")
    check(cluster.at("s1", tools.upload(args, endpoint, folder, "evenkeel/small")), env=cluster.environment)
    source = server["source"].replace("/?", "/small/?")
    here = lambda command: [cluster.at("s1", command)]
    contestants = [
        Contestant("evenkeel get", lambda to: here(tools.evenkeel(args, [source], to))),
        Contestant("s5cmd", lambda to: here(tools.s5cmd(args, endpoint, "cp", "s3://evenkeel/small/*", f"{to}/"))),
    ]
    title = f"Loopback, {args.objects:,} objects of 4 KiB, one node of Garage"
    race.race(title, contestants, args.objects * SIZE, goal=1.0, objects=args.objects)


SCENARIOS = {"objects": small}
