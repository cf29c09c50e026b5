"""One node beside s3s-fs, which never syncs, and Garage, which is told to sync as the node does, on the same disk; and a node in
front of Garage as it is by default, which does not sync.

The load generator of bench/live/peers/s3-load runs beside the servers on the same processors, and so do the bare writes that
say what the disk can do. Servers take turns within each row, and the least time of each counts. Ratios mean more than rates.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from cluster import Cluster, run as check
from data import MIB
from race import print_table

KIB = 1024
BUCKET = "load"
KEYS = {"access_key": "EK0123456789ABCDEF", "secret_key": "0123456789abcdef0123456789abcdef01234567"}
GARAGE_KEYS = {"access_key": "GK" + "0123456789ab" * 2, "secret_key": "0123456789abcdef" * 4}
TICKS = os.sysconf("SC_CLK_TCK")


class Row(NamedTuple):
    way: str
    size: int
    connections: int
    objects: int

    def __str__(self):
        size = f"{self.size // MIB} MiB" if self.size >= MIB else f"{self.size // KIB} KiB"
        return f"{self.way} {size}, {self.connections} connection{'s' if self.connections > 1 else ''}"


def rows(scale):
    """Puts come first, since reads need what they write."""
    for size, connections, objects in ((4 * KIB, 1, 1000), (4 * KIB, 64, 8000), (64 * MIB, 1, 4), (64 * MIB, 64, 64)):
        for way in ("put", "get"):
            yield Row(way, size, connections, max(connections, round(objects * scale)))


class Server:
    """A server as a process of ours."""

    def __init__(self, name, command, port, log, keys=KEYS, region="us-east-1", environment=None):
        self.name, self.keys, self.region = name, keys, region
        self.endpoint = f"http://127.0.0.1:{port}"
        with open(log, "w") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out, env=os.environ | (environment or {}))
        self.pid = self.process.pid
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        sys.exit(f"{name} does not start:\n{open(log).read()[-2000:]}")

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def cpu_seconds(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory(pid, what):
    return int(re.search(rf"{what}:\s+(\d+) kB", open(f"/proc/{pid}/status").read()).group(1)) / KIB


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Servers:
    """All servers of a scenario, on one disk."""

    def __init__(self, args):
        self.args, self.all = args, []
        self.folder = tempfile.mkdtemp(prefix="evenkeel-node-", dir=args.disk)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in reversed(self.all):
            server.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def add(self, name, command, port, **how):
        self.all.append(Server(name, command, port, self.path(f"{name}.log"), **how))
        return self.all[-1]

    def keys_file(self, name, keys):
        path = self.path(name)
        with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as out:
            out.write("".join(f'{key} = "{value}"\n' for key, value in keys.items()))
        return path

    def node(self, name, *store, slots=None):
        port = free_port()
        keys = self.keys_file("keys", KEYS)
        command = [self.args.evenkeel, "node", *store, "--credentials", keys, "--listen", f"127.0.0.1:{port}", "--control",
                   "127.0.0.1:0", *(["--slots", str(slots)] if slots else [])]
        server = self.add(name, command, port)
        return server

    def s3s_fs(self):
        port, data = free_port(), self.path("s3s-fs")
        os.mkdir(data)
        return self.add("s3s-fs", [self.args.s3s_fs, "--host", "127.0.0.1", "--port", str(port), "--access-key",
                                   KEYS["access_key"], "--secret-key", KEYS["secret_key"], data], port,
                        environment={"RUST_LOG": "error"})

    def garage(self, syncs):
        port, rpc = free_port(), free_port()
        file = self.path("garage.toml")
        with open(file, "w") as out:
            out.write(f"""
metadata_dir = '{self.path("garage/meta")}'
data_dir = '{self.path("garage/data")}'
metadata_fsync = {str(syncs).lower()}
data_fsync = {str(syncs).lower()}
replication_factor = 1
rpc_bind_addr = '127.0.0.1:{rpc}'
rpc_public_addr = '127.0.0.1:{rpc}'
rpc_secret = '{"0" * 64}'
[s3_api]
s3_region = 'garage'
api_bind_addr = '127.0.0.1:{port}'
""")
        server = self.add("Garage", [self.args.garage, "-c", file, "server"], port, keys=GARAGE_KEYS, region="garage",
                          environment={"RUST_LOG": "error"})

        def garage(*command):
            return check([self.args.garage, "-c", file, *command])

        garage("layout", "assign", garage("node", "id", "-q").split("@")[0].strip(), "-z", "here", "-c", "100G")
        garage("layout", "apply", "--version", "1")
        garage("key", "import", "--yes", "-n", BUCKET, GARAGE_KEYS["access_key"], GARAGE_KEYS["secret_key"])
        garage("bucket", "create", BUCKET)
        garage("bucket", "allow", BUCKET, "--read", "--write", "--owner", "--key", GARAGE_KEYS["access_key"])
        return server

    def generate(self, server, what, *numbers, at=()):
        """What the load generator says."""
        command = [*at, self.args.s3_load, what, server.endpoint, server.region, BUCKET, *map(str, numbers)]
        keys = {"S3_ACCESS_KEY": server.keys["access_key"], "S3_SECRET_KEY": server.keys["secret_key"]}
        return json.loads(check(command, env=os.environ | keys).splitlines()[-1])

    def bare(self, what, *numbers):
        """What the disk does without a server."""
        folder = self.path("bare")
        os.makedirs(folder, exist_ok=True)
        told = json.loads(check([self.args.s3_load, what, folder, *map(str, numbers)]))
        shutil.rmtree(folder)
        return told


def run(args, names):
    for name in names:
        SCENARIOS[name](args)


class Best:
    """The least time of each contestant, and the CPU time of that run."""

    def __init__(self):
        self.runs = {}

    def measure(self, contestant, pid, work):
        before = cpu_seconds(pid) if pid else 0
        told = work()
        told["cpu"] = cpu_seconds(pid) - before if pid else 0
        self.runs.setdefault(contestant, []).append(told)
        print(f"{contestant}: {told['objects']} objects in {told['seconds']:.2f} s", file=sys.stderr, flush=True)

    def of(self, contestant):
        return min(self.runs[contestant], key=lambda run: run["seconds"] / run["objects"])

    def rate(self, contestant):
        told = self.of(contestant)
        return told["objects"] / told["seconds"]


def node(args):
    with Servers(args) as servers:
        ours = servers.node("evenkeel", "--data", servers.path("node"))
        others = [servers.s3s_fs(), servers.garage(syncs=True)]
        for server in (ours, others[0]):
            servers.generate(server, "bucket")
        table, rates = [["row", "evenkeel, objects/s", "MiB/s", "÷ s3s-fs", "÷ Garage", "÷ bare write and fsync",
                         "CPU s/GiB", "s3s-fs", "Garage"]], {}
        for row in rows(args.mib / 256):
            best, load = Best(), (row.size, row.objects, row.connections)
            for _ in range(args.repeat):
                for server in (ours, *others):
                    best.measure(server.name, server.pid, lambda: servers.generate(server, row.way, *load))
                if row.way == "put":
                    best.measure("bare", None, lambda: servers.bare("disk", *load))
            rate = rates[row] = best.rate("evenkeel")
            ratio = lambda other: f"{rate / best.rate(other):.2f}" if other in best.runs else ""
            cpu = lambda name: f"{best.of(name)['cpu'] / (row.objects * row.size) * 1024 * MIB:.2f}"
            table.append([str(row), f"{rate:.1f}", f"{rate * row.size / MIB:.0f}", ratio("s3s-fs"), ratio("Garage"), ratio("bare"),
                          cpu("evenkeel"), cpu("s3s-fs"), cpu("Garage")])
        print_table("One node, s3s-fs and Garage on the same disk; goals: reads ÷ s3s-fs at least 1, puts of 64 MiB at 64 "
                    "connections ÷ bare at least 0.9", table)
        small = {row.connections: rate for row, rate in rates.items() if row.way == "put" and row.size < MIB}
        print(f"\nputs of 4 KiB at 64 connections ÷ at one: {small[64] / small[1]:.1f} (goal: at least 5)", flush=True)
        group_commit(args, servers, ours, small[1])
        crowd(servers, ours)
        silent(servers, ours)


def group_commit(args, servers, ours, rate):
    """What a small write takes, beside the syncs that it needs."""
    n, trace = 200, servers.path("strace")
    syncs = None
    if shutil.which("strace"):
        tracer = subprocess.Popen(["strace", "-f", "-qq", "-e", "trace=fsync,fdatasync", "-o", trace, "-p", str(ours.pid)],
                                  stderr=subprocess.DEVNULL)
        time.sleep(1)
        servers.generate(ours, "put", 4 * KIB, n, 1)
        tracer.terminate()
        tracer.wait()
        syncs = sum("sync(" in line for line in open(trace)) / n
    sync = min((servers.bare("sync", 4 * KIB, 500) for _ in range(args.repeat)), key=lambda told: told["seconds"])
    sync = sync["seconds"] / sync["objects"]
    text = f"\na put of 4 KiB at one connection: {1e3 / rate:.2f} ms; 4 KiB in place and a sync: {1e3 * sync:.2f} ms"
    # No ratio of the two: a sync alone took 0.1 ms in some runs and 4 ms in others on one disk, so it says nothing yet of ours.
    if syncs:
        text += f"; syncs a put: {syncs:.2f}"
    print(text, flush=True)


def crowd(servers, ours):
    """What it takes in memory to serve many at once."""
    for way in ("put", "get"):
        with open(f"/proc/{ours.pid}/clear_refs", "w") as out:
            out.write("5")
        told = servers.generate(ours, way, 64 * MIB, 64, 256, 15)
        print(f"\n{way} 64 MiB, 256 connections for 15 s: {told['objects']} objects; peak of memory {memory(ours.pid, 'VmHWM'):.0f} MiB "
              "(goal: at most 200)", flush=True)


def silent(servers, ours):
    n = 10_000
    told = servers.generate(ours, "idle", 4 * KIB, n, 20)
    print(f"\n{n} connections that read, wait and read again: {told['objects']} answered; memory "
          f"{memory(ours.pid, 'VmRSS'):.0f} MiB afterwards, peak {memory(ours.pid, 'VmHWM'):.0f}", flush=True)


def sidecar(args):
    """Without links: what the node in front costs beside what Garage costs."""
    with Servers(args) as servers:
        garage = servers.garage(syncs=False)
        front = in_front(servers, garage.endpoint, GARAGE_KEYS)
        table = [["row", "Garage alone, objects/s", "through the node", "÷", "CPU s/GiB of Garage", "of the node", "÷ (goal: at most 1)"]]
        for row in rows(args.mib / 256):
            table.append(through(args, servers, row, garage, front))
        print_table("A node in front of Garage, without links", table)


def sidecar_links(args):
    """Behind a link of 1 Gbit/s, both at the same host."""
    with Cluster(args.xtask, "garage", 1, replicas=1) as cluster, Servers(args) as servers:
        cluster.task("shape", "s1", "1gbit")
        cluster.task("shape", "s1", "--in", "1gbit")
        address = cluster.servers[0]["address"].split("/")[2].split(":")[0]
        key, secret = cluster.login[-1].split(":")
        keys = {"access_key": key, "secret_key": secret}
        garage = Away("Garage", f"http://{address}:3900", cluster.servers[0]["pid"], keys, "garage")
        behind = servers.keys_file("behind", keys)
        command = [args.evenkeel, "node", "--behind", f"http://{address}:3900", "--behind-credentials", behind, "--behind-region",
                   "garage", "--credentials", servers.keys_file("keys", KEYS), "--listen", f"{address}:9100", "--control",
                   "127.0.0.1:0"]
        process = subprocess.Popen(cluster.at("s1", command), stdout=subprocess.DEVNULL)
        try:
            time.sleep(2)
            front = Away("evenkeel", f"http://{address}:9100", process.pid, KEYS, "us-east-1")
            table = [["row", "Garage alone, objects/s", "through the node", "÷ (goal: at least 0.95)"]]
            for row in rows(args.mib / 256):
                table.append(through(args, servers, row, garage, front, cluster.at("c1", ()))[:4])
            print_table("A node in front of Garage, behind a link of 1 Gbit/s", table)
        finally:
            process.terminate()
            process.wait()


class Away(NamedTuple):
    """A server that somebody else started."""
    name: str
    endpoint: str
    pid: int
    keys: dict
    region: str


def in_front(servers, endpoint, keys):
    behind = servers.keys_file("behind", keys)
    return servers.node("evenkeel", "--behind", endpoint, "--behind-credentials", behind, "--behind-region", "garage")


def through(args, servers, row, garage, front, at=()):
    """A row of a table: the same load on Garage, and on the node in front of it."""
    best, load = Best(), (row.size, row.objects, row.connections)
    for _ in range(args.repeat):
        best.measure("alone", garage.pid, lambda: servers.generate(garage, row.way, *load, at=at))
        best.measure("through", front.pid, lambda: servers.generate(front, row.way, *load, at=at))
    gib = row.objects * row.size / MIB / 1024
    alone, ours = best.of("alone"), best.of("through")
    return [str(row), f"{best.rate('alone'):.1f}", f"{best.rate('through'):.1f}", f"{best.rate('through') / best.rate('alone'):.2f}",
            f"{alone['cpu'] / gib:.2f}", f"{ours['cpu'] / gib:.2f}", f"{ours['cpu'] / max(alone['cpu'], 0.01):.2f}"]


SCENARIOS = {"node": node, "sidecar": sidecar, "sidecar-links": sidecar_links}
