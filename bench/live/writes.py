"""Paper 004 on real servers: a client writes objects to eight servers behind shaped links, one of which takes a tenth.

Nothing is known of the servers' speeds but what the client sees of its own writes. The bound is the bytes over what all
links take together. The simulator, which drives the same state machine, runs the same writes; how many objects each of
them gives to the slow server is set side by side.
"""

import json
import os
import statistics
import sys
import time
from typing import NamedTuple

from cluster import RATE_MBIT, Cluster, run as check
from data import MIB, File
from race import Race, print_table

SERVERS = 8
OBJECT_MIB = 4
# As many writes at a time as the real client has, and windows as long as its own.
AT_A_TIME = 32
WINDOW_SECONDS = 0.5
# TCP over IP over Ethernet leaves this much of a link.
PAYLOAD = 1448 / 1514
SLOW = [RATE_MBIT // 10] + [RATE_MBIT] * (SERVERS - 1)
GOAL = 0.5


class Contestant(NamedTuple):
    name: str
    options: tuple
    # As the simulator calls it, and whether its log hears of completions.
    policy: str
    levels: int = 2
    completions: bool = True


CONTESTANTS = [
    Contestant("rr", ("--placement", "rr"), "rr"),
    Contestant("mlml", ("--placement", "mlml"), "mlml"),
    Contestant("trh", ("--placement", "trh"), "trh"),
    Contestant("nltr:1", ("--placement", "nltr:1"), "nltr", 1),
    Contestant("nltr:2", ("--placement", "nltr:2"), "nltr", 2),
    Contestant("two-choice, probes", ("--placement", "two-choice"), "two-choice"),
    Contestant("mlml, the paper's log", ("--placement", "mlml", "--no-completions"), "mlml", completions=False),
]


def run(args, names):
    for name in names:
        SCENARIOS[name](args)


def nodes(args):
    with Cluster(args.xtask, "node", SERVERS) as cluster, Race(args, cluster) as race:
        writes(race, f"{SERVERS} nodes, one takes a tenth", CONTESTANTS)


def garage(args):
    with Cluster(args.xtask, "garage", SERVERS, more=["--apart"]) as cluster, Race(args, cluster) as race:
        # It has no control port that tells loads.
        contestants = [contestant for contestant in CONTESTANTS if contestant.policy != "two-choice"]
        writes(race, f"{SERVERS} endpoints of Garage, one takes a tenth", contestants)


def writes(race, title, contestants):
    """Every contestant in turn, several times. The least time of each counts, and the mean of what the slow server got."""
    cluster, args = race.cluster, race.args
    folder = race.path("objects")
    os.mkdir(folder)
    n_objects = args.mib // OBJECT_MIB
    for number in range(n_objects):
        File(folder, f"{number:05}", OBJECT_MIB * MIB, number)
    bound = args.mib * MIB / (sum(SLOW) * PAYLOAD * 1e6 / 8)
    for server, mbit in zip(cluster.servers, SLOW):
        cluster.task("shape", server["name"], "--in", f"{mbit}mbit")
    runs = {contestant: [] for contestant in contestants}
    for turn in range(args.repeat):
        for number, contestant in enumerate(contestants):
            outcome = put(cluster, args, folder, f"keel://evenkeel/run{turn}-{number}/", contestant)
            runs[contestant].append(outcome)
            print(f"{contestant.name}: {outcome['took']:.2f} s", file=sys.stderr, flush=True)
    verify(race, folder, f"keel://evenkeel/run0-{len(contestants) - 1}/")
    least = {contestant: min(outcome["took"] for outcome in runs[contestant]) for contestant in contestants}
    base = least[contestants[0]]
    rows = [["placement", "seconds", "÷ bound", f"÷ rr (goal: {GOAL})", "simulated", "objects on the slow server", "simulated",
             "redirected", "probes"]]
    simulated = [simulate(race, contestant, n_objects) for contestant in contestants]
    for contestant, (seconds, on_slow) in zip(contestants, simulated):
        outcomes = runs[contestant]
        mean = lambda value: statistics.mean(map(value, outcomes))
        rows.append([contestant.name, f"{least[contestant]:.2f}", f"{least[contestant] / bound:.2f}",
                     f"{least[contestant] / base:.2f}", f"{seconds / simulated[0][0]:.2f}",
                     f"{mean(lambda outcome: outcome['servers'][0]['pieces']):.1f} of {n_objects}", f"{on_slow:.1f}",
                     f"{mean(lambda outcome: outcome['redirected']):.0f}", f"{mean(lambda outcome: outcome['probes']):.0f}"])
    print_table(f"Writes, {args.mib} MiB in objects of {OBJECT_MIB} MiB, {title}; bound {bound:.2f} s, runs: {args.repeat}", rows)


def put(cluster, args, folder, to, contestant):
    """One run, as the command tells it, with its seconds. What it wrote is then checked and removed."""
    command = [args.evenkeel, "put", "--json", "--cluster", cluster.file, *contestant.options, folder, to]
    begun = time.monotonic()
    printed = check(cluster.at("c1", command), env=cluster.environment)
    took = time.monotonic() - begun
    return json.loads(printed.splitlines()[-1]) | {"took": took}


def verify(race, folder, source):
    """What was written last is read back and compared."""
    cluster, args = race.cluster, race.args
    to = race.path("back")
    check(cluster.at("c1", [args.evenkeel, "get", "--json", "--cluster", cluster.file, source, to]), env=cluster.environment)
    check(["diff", "-r", folder, os.path.join(to, "objects") if os.path.isdir(os.path.join(to, "objects")) else to])


def simulate(race, contestant, n_objects):
    """Seconds, and objects on the slow server, of the same writes in the simulator: the mean of ten runs."""
    scenario = race.path("scenario.toml")
    rate = RATE_MBIT * PAYLOAD / 8
    window = round(WINDOW_SECONDS * sum(SLOW) * PAYLOAD * 1e6 / 8 / (OBJECT_MIB * MIB))
    with open(scenario, "w") as out:
        out.write(f"""
repetitions = 10
[servers]
count = {SERVERS}
bandwidth = "{rate:.3f}MB/s"
[clients]
count = {AT_A_TIME}
[workload]
kind = "writes"
writes = {n_objects}
window = {window}
every = "{WINDOW_SECONDS}s"
sizes = "{OBJECT_MIB}MiB"
threshold = "0B"
levels = {contestant.levels}
completions = {str(contestant.completions).lower()}
""")
    command = [race.args.evenkeel, "simulate", scenario, "--set", f"servers.s0.speed={SLOW[0] / SLOW[1]}",
               "--policy", contestant.policy, "--json"]
    (outcome,) = json.loads(check(command))["results"]
    return outcome["measures"]["makespan"]["mean"], outcome["server_loads"][0]["bytes"] / (OBJECT_MIB * MIB)


SCENARIOS = {"write-nodes": nodes, "write-garage": garage}
