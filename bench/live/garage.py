"""A replicated S3 store behind shaped links: every node holds every object, and serves it at an endpoint of its own."""

import os

import tools
from cluster import RATE_MBIT, Cluster, run as check
from data import MIB, File
from race import Contestant, Race

NODES = 4
FILES = 16
EQUAL = [RATE_MBIT] * NODES
SLOW = [RATE_MBIT // 10] + EQUAL[1:]
FOLDER = "evenkeel/set"


def run(args, names):
    with Cluster(args.xtask, "garage", NODES, replicas=NODES) as cluster, Race(args, cluster) as race:
        folder = race.path("set")
        os.mkdir(folder)
        files = [File(folder, f"part{number:02}", args.mib * MIB // FILES, number) for number in range(FILES)]
        check(cluster.at("c1", tools.upload(args, endpoints(cluster)[0], folder, FOLDER)), env=cluster.environment)
        for name in names:
            SCENARIOS[name](race, files)


def endpoints(cluster):
    return [address.removesuffix("evenkeel/").rstrip("/") for address in cluster.addresses()]


def equal(race, files):
    one_client(race, files, f"S3, one client, {FILES} × {race.args.mib // FILES} MiB, {NODES} equal endpoints", EQUAL, 1.0)


def slow(race, files):
    one_client(race, files, "S3, the first endpoint sends a tenth", SLOW, goal=0.8)


def one_client(race, files, title, rates_mbit, goal):
    cluster, args = race.cluster, race.args
    cluster.shape_all(rates_mbit)
    size = sum(file.size for file in files)
    bound = size / sum(cluster.goodputs(f"set/{files[0].name}"))
    sources = [server["source"].replace("/?", "/set/?") for server in cluster.servers]
    *_, last = endpoints(cluster)

    def at_client(*commands):
        return [cluster.at("c1", command) for command in commands]

    def s5cmd_everywhere(to):
        """One process for each endpoint, with its share of the files."""
        commands = []
        for number, endpoint in enumerate(endpoints(cluster)):
            lines = [f"cp s3://{FOLDER}/{file.name} {to}/" for file in files[number::NODES]]
            commands.append(tools.s5cmd(args, endpoint, "run", listed(f"s5cmd{number}", lines)))
        return at_client(*commands)

    def rclone_everywhere(to):
        commands = []
        for number, endpoint in enumerate(endpoints(cluster)):
            names = listed(f"rclone{number}", [file.name for file in files[number::NODES]])
            commands.append(tools.rclone_s3(endpoint, FOLDER, to, "--files-from", names))
        return at_client(*commands)

    def listed(name, lines):
        with open(race.path(name), "w") as out:
            out.write("\n".join(lines) + "\n")
        return race.path(name)

    # Tools that know one endpoint get a fast one.
    contestants = [
        Contestant("evenkeel get", lambda to: at_client(tools.evenkeel(args, sources, to))),
        Contestant("s5cmd (one endpoint)",
                   lambda to: at_client(tools.s5cmd(args, last, "cp", f"s3://{FOLDER}/*", f"{to}/")), once=True),
        Contestant("rclone (one endpoint)", lambda to: at_client(tools.rclone_s3(last, FOLDER, to)), once=True),
        Contestant(f"{NODES} × s5cmd, a share of the files each", s5cmd_everywhere),
        Contestant(f"{NODES} × rclone, a share of the files each", rclone_everywhere),
    ]
    race.race(title, contestants, size, bound, goal)


SCENARIOS = {"s3-equal": equal, "s3-slow": slow}
