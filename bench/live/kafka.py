"""Kafka behind shaped links: consumers read all partitions, as Kafka itself orders their leaders and as `evenkeel balance` does.

The bound is what any choice of leaders takes at least: bytes over the goodput of links, which is measured without Kafka.
Before each run leaders are what they were when the topic was made.
"""

import json
import os
import random
import subprocess
import sys
import time
from typing import NamedTuple

from cluster import RATE_MBIT, Cluster, run as check
from data import MIB
from mirrors import least_time
from race import Race, print_table

BROKERS = 6
PARTITIONS = 60
REPLICAS = 3
# Consumers in all, and how many of them share a process. Processes are on hosts of their own.
CONSUMERS = 6
TOGETHER = 2
TOPIC = "traffic"
# A little of another topic is read before, while Java starts.
WARM = "warm"
# The size of the n-th largest partition goes with n to the power of minus this. None is larger than what a link carries.
SKEW = 0.8
EQUAL = [RATE_MBIT] * BROKERS
SLOW = EQUAL[:-1] + [RATE_MBIT // 10]
# As many times the bound as is allowed.
GOAL = 1.15
# Consumers take a moment to begin, so there is more to read than elsewhere.
TIMES = 4

# A server that sends as fast as it can, and a client that times it, after its burst.
SEND = """
import socket, sys
server = socket.create_server(("", 9999))
print("ready", flush=True)
peer, _ = server.accept()
try:
    while True:
        peer.sendall(bytes(1 << 16))
except OSError:
    pass
"""
RECEIVE = """
import socket, sys, time
peer = socket.create_connection((sys.argv[1], 9999))
def receive(seconds):
    begun, n = time.monotonic(), 0
    while time.monotonic() < begun + seconds:
        n += len(peer.recv(1 << 20))
    return n / (time.monotonic() - begun)
receive(0.5)
print(receive(2.0))
"""


class Part(NamedTuple):
    """A partition, for the bound."""
    size: int


def run(args, names):
    with Cluster(args.xtask, "kafka", BROKERS, CONSUMERS // TOGETHER, REPLICAS) as cluster, Race(args, cluster) as race:
        sizes = fill(race, TIMES * args.mib * MIB)
        for name in names:
            SCENARIOS[name](race, sizes)


def equal(race, sizes):
    compete(race, sizes, f"Kafka, {sum(sizes) // MIB} MiB in {PARTITIONS} partitions, {BROKERS} equal brokers", EQUAL)


def slow(race, sizes):
    compete(race, sizes, "Kafka, the last broker sends a tenth", SLOW)


def fill(race, total):
    """Makes a topic with partitions of unequal sizes. Links have no limits yet."""
    weights = [(n + 1) ** -SKEW for n in range(PARTITIONS)]
    random.Random(17).shuffle(weights)
    sizes = [int(total * weight / sum(weights)) for weight in weights]
    compile_all(race)
    for topic, of_topic in ((TOPIC, sizes), (WARM, [MIB // 4] * BROKERS)):
        tool(race.cluster, "topics", "--create", "--topic", topic, "--partitions", str(len(of_topic)),
             "--replication-factor", str(REPLICAS))
        with open(race.path("sizes"), "w") as out:
            out.writelines(f"{size}\n" for size in of_topic)
        check(java(race, "c1", "KafkaFill", topic, race.path("sizes")))
    return sizes


def compete(race, sizes, title, rates_mbit):
    cluster, args = race.cluster, race.args
    cluster.shape_all(rates_mbit)
    rates = [goodput(cluster, server) for server in cluster.servers]
    before = describe(cluster)
    holders = [[broker - 1 for broker in replicas] for _, replicas in before]
    bound = least_time([Part(size) for size in sizes], holders, rates)
    servers, undo = race.path("servers.csv"), race.path("undo.json")
    with open(servers, "w") as out:
        out.write("server,rate\n")
        out.writelines(f"{number + 1},{int(rate)}\n" for number, rate in enumerate(rates))
    balance = [args.evenkeel, "balance", "kafka", "--bootstrap", cluster.bootstrap]
    seconds, changes = {"Kafka's own order": [], "evenkeel balance": []}, 0
    for turn in range(args.repeat):
        for name, runs in seconds.items():
            is_ours = name.startswith("evenkeel")
            if is_ours:
                planned = [*balance, "--weigh", "bytes", "--servers", servers, "--apply", "--record", undo, "--json"]
                report = json.loads(check(cluster.at("c1", planned)))
                changes = len(report["moves"])
                if not report["applied"]:
                    sys.exit(f"evenkeel balance did not carry out its plan: {report}")
            elif turn > 0 and rates_mbit != EQUAL:
                # It is known to be slow.
                continue
            led = describe(cluster)
            if [sorted(replicas) for _, replicas in led] != [sorted(replicas) for _, replicas in before]:
                sys.exit("a partition has other replicas than before")
            expected = max(sum(size for size, (leader, _) in zip(sizes, led) if leader == broker + 1) / rate
                           for broker, rate in enumerate(rates))
            runs.append((read(race, sum(sizes)), expected))
            if is_ours:
                check(cluster.at("c1", [*balance, "--undo", undo, "--apply"]))
                os.remove(undo)
                if describe(cluster) != before:
                    sys.exit("undoing did not bring the old leaders back")
    rows = [["leaders", "seconds", "÷ bound", "leaders alone ÷ bound", "MiB/s", "changes"]]
    rows.append(["bound", f"{bound:.2f}", "1.00", "", f"{sum(sizes) / MIB / bound:.0f}", ""])
    for name, runs in seconds.items():
        least, expected = min(runs)
        rows.append([name, f"{least:.2f}", f"{least / bound:.2f}", f"{expected / bound:.2f}",
                     f"{sum(sizes) / MIB / least:.0f}", str(changes) if name.startswith("evenkeel") else "0"])
    print_table(title, rows)
    ours = min(seconds["evenkeel balance"])[0]
    verdict = "reached" if ours <= GOAL * bound else "missed"
    print(f"\ngoal of {GOAL:.2f} × bound {verdict}: {ours / bound:.2f}; replicas of all partitions are as before", flush=True)


def read(race, size):
    """Seconds from when all consumers may connect until the last has read its last record."""
    processes = []
    for number, first in enumerate(range(0, CONSUMERS, TOGETHER)):
        command = java(race, f"c{number + 1}", "KafkaRead", TOPIC, WARM, str(CONSUMERS), str(first), str(TOGETHER))
        log = open(race.path(f"log{number}"), "w")
        processes.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True))
        log.close()
    for process in processes:
        if process.stdout.readline() != "ready\n":
            sys.exit(f"a consumer does not start; see {race.folder}")
    begun = time.monotonic()
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    found = [process.stdout.readline() for process in processes]
    seconds = time.monotonic() - begun
    for process in processes:
        process.communicate()
    if sum(int(text or 0) for text in found) != size:
        sys.exit(f"consumers read {found}, not {size} bytes together")
    return seconds


def compile_all(race):
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers")
    path = check([race.cluster.kafka, "classpath"]).strip()
    sources = [os.path.join(here, f"{name}.java") for name in ("KafkaFill", "KafkaRead")]
    check(["javac", "-cp", path, "-d", race.path("classes"), *sources])


def java(race, host, name, *arguments):
    """The command that runs a program of ours with Kafka's own client."""
    command = ["env", f"KAFKA_CLASSPATH={race.path('classes')}", race.cluster.kafka, name, race.cluster.bootstrap]
    return race.cluster.at(host, [*command, *arguments])


def tool(cluster, name, *arguments):
    """What one of Kafka's own tools prints."""
    return check(cluster.at("c1", [cluster.kafka, name, "--bootstrap-server", cluster.bootstrap, *arguments]))


def describe(cluster):
    """The leader and the replicas of each partition."""
    found = {}
    for line in tool(cluster, "topics", "--describe", "--topic", TOPIC).splitlines():
        fields = dict(field.split(": ", 1) for field in line.strip().split("\t") if ": " in field)
        if "Partition" in fields:
            replicas = [int(broker) for broker in fields["Replicas"].split(",")]
            found[int(fields["Partition"])] = (int(fields["Leader"]), replicas)
    return [found[partition] for partition in range(PARTITIONS)]


def goodput(cluster, server):
    """Bytes per second of a link, read alone, after its burst."""
    sender = subprocess.Popen(cluster.at(server["name"], ["python3", "-c", SEND]), stdout=subprocess.PIPE, text=True)
    try:
        sender.stdout.readline()
        host = server["address"].split(":")[0]
        return float(check(cluster.at("c1", ["python3", "-c", RECEIVE, host])))
    finally:
        sender.kill()
        sender.wait()


SCENARIOS = {"kafka-equal": equal, "kafka-slow": slow}
