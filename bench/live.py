"""Races of `evenkeel get` against other tools, on real servers in namespaces with shaped links.

Started by `cargo xtask campaign live`, as root. Prints tables in Markdown. In each table all contestants read the same
data in turn, several times; the least time of each counts. The bound is the number of bytes over the goodput of the links,
as curl measures it in the same run.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

MIB = 1 << 20
RATE_MBIT = 100


def run(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}")
    return done.stdout


class Cluster:
    """Servers with shaped links, and clients without limits."""

    def __init__(self, xtask, kind, servers, clients):
        self.xtask = xtask
        up = ["--servers", str(servers), "--clients", str(clients), "--rate", f"{RATE_MBIT}mbit", "--json"]
        self.state = json.loads(self.task(kind, "up", *up))
        self.servers = self.state["servers"]

    def task(self, *args):
        return run([self.xtask, "cluster", *args])

    def at(self, client, command):
        """The command, run at a client."""
        return ["ip", "netns", "exec", f"ek-{client}", *command]

    def shape(self, server, mbit):
        run(["tc", "-n", f"ek-{server}", "qdisc", "replace", "dev", "eth0", "root", "tbf",
             "rate", f"{mbit}mbit", "burst", "64kb", "latency", "100ms"])

    def shape_all(self, rates_mbit):
        for server, mbit in zip(self.servers, rates_mbit):
            self.shape(server["name"], mbit)

    def goodputs(self, key):
        """Bytes per second of each link, read alone, after its burst."""
        rates = []
        for server in self.servers:
            command = ["curl", "-s", "-o", "/dev/null", "--max-time", "1.5",
                       "-w", "%{size_download} %{time_total} %{time_starttransfer}", server["address"] + key]
            done = subprocess.run(self.at("c1", command), stdout=subprocess.PIPE, text=True)
            size, total, start = map(float, done.stdout.split())
            rates.append(size / (total - start))
        return rates

    def down(self):
        self.task("down")


def metalink(path, files, addresses):
    """A Metalink of files: (name, size, sha-256, servers)."""
    text = ['<metalink xmlns="urn:ietf:params:xml:ns:metalink">']
    for name, size, sha256, servers in files:
        urls = "".join(f"<url>{addresses[server]}{name}</url>" for server in servers)
        text.append(f'<file name="{name}"><size>{size}</size><hash type="sha-256">{sha256}</hash>{urls}</file>')
    with open(path, "w") as out:
        out.write("\n".join(text + ["</metalink>\n"]))


def aria2(connections):
    return lambda meta, to: ["aria2c", "--quiet", "--file-allocation=none", f"--max-connection-per-server={connections}",
                             f"--split={8 * connections}", "--min-split-size=1M", "--dir", to, "--metalink-file", meta]


def table(title, rows):
    print(f"\n## {title}\n")
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for number, row in enumerate(rows):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |")
        if number == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")
    sys.stdout.flush()


class Race:
    def __init__(self, args, cluster, folder):
        self.args, self.cluster, self.folder = args, cluster, folder

    def timed(self, command, to, event=None):
        """Seconds of one run into an empty folder. `event` is called a second after its start."""
        shutil.rmtree(to, ignore_errors=True)
        os.makedirs(to)
        os.sync()
        timer = threading.Timer(1.0, event) if event else None
        begun = time.monotonic()
        if timer:
            timer.start()
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        seconds = time.monotonic() - begun
        if timer:
            timer.join()
        if done.returncode != 0:
            return None, done.stdout
        return seconds, done.stdout

    def one_client(self, title, rates_mbit, meta, key, size, slow_later=None):
        """One client reads one file from all servers. `slow_later` is a server that falls to a tenth after a second."""
        cluster = self.cluster
        cluster.shape_all(rates_mbit)
        goodputs = cluster.goodputs(key)
        bound = size / sum(goodputs)
        if slow_later is not None:
            # An oracle uses what it can send before, and a tenth from then on.
            rest = size - sum(goodputs)
            later = sum(goodputs) - 0.9 * goodputs[slow_later]
            bound = 1 + rest / later
        evenkeel = [self.args.evenkeel, "get", "--json"]
        contestants = {
            "evenkeel get": lambda to: [*evenkeel, meta, to],
            "aria2 (1 connection a server)": lambda to: aria2(1)(meta, to),
            "aria2 (2 connections a server)": lambda to: aria2(2)(meta, to),
        }
        least, hedged, planning = {}, 0.0, 0.0
        for _ in range(self.args.repeat):
            for name, command in contestants.items():
                to = os.path.join(self.folder, "to")
                cluster.shape_all(rates_mbit)
                event = None
                if slow_later is not None:
                    server = cluster.servers[slow_later]["name"]
                    event = lambda: cluster.shape(server, rates_mbit[slow_later] / 10)
                seconds, printed = self.timed(cluster.at("c1", command(to)), to, event)
                if seconds is None:
                    print(f"{name} failed: {printed[-300:]}")
                    continue
                if name == "evenkeel get":
                    summary = json.loads(printed.strip().splitlines()[-1])
                    hedged = max(hedged, summary["received_bytes"] / size - 1)
                    planning = max(planning, summary["seconds"]["plan"] / summary["seconds"]["all"])
                least[name] = min(least.get(name, seconds), seconds)
        rows = [["tool", "seconds", "÷ bound"], ["bound", f"{bound:.2f}", "1.00"]]
        rows += [[name, f"{seconds:.2f}", f"{seconds / bound:.2f}"] for name, seconds in least.items()]
        table(title, rows)
        best = min((seconds for name, seconds in least.items() if name.startswith("aria2")), default=None)
        if best and "evenkeel get" in least:
            print(f"\nevenkeel ÷ best of the others {least['evenkeel get'] / best:.2f}; "
                  f"read twice {hedged:.1%}; planning {planning:.2%} of the time")
        sys.stdout.flush()

    def many_clients(self, title, rates_mbit, files, manifest, n_clients):
        """Clients share out files, three copies of each on eight servers, most of them on a few."""
        cluster = self.cluster
        cluster.shape_all(rates_mbit)
        goodputs = cluster.goodputs("probe")
        servers = os.path.join(self.folder, "servers.csv")
        with open(servers, "w") as out:
            out.write("server,rate\n")
            for server, rate in zip(cluster.servers, goodputs):
                out.write(f"{server['address'].rstrip('/')},{int(rate)}\n")
        bound = self.bound(files, goodputs)
        least = {}
        for _ in range(self.args.repeat):
            to = os.path.join(self.folder, "to")
            shutil.rmtree(to, ignore_errors=True)
            os.makedirs(to)
            commands = [cluster.at(f"c{rank + 1}", [self.args.evenkeel, "get", manifest, to, "--servers", servers,
                                                    "--rank", str(rank), "--ranks", str(n_clients), "--json"])
                        for rank in range(n_clients)]
            self.together("evenkeel get --ranks 16", commands, least)
            shutil.rmtree(to, ignore_errors=True)
            commands = []
            for client in range(n_clients):
                meta = os.path.join(self.folder, f"client{client}.meta4")
                metalink(meta, files[client::n_clients], [server["address"] for server in cluster.servers])
                commands.append(cluster.at(f"c{client + 1}", aria2(1)(meta, os.path.join(to, str(client)))))
            self.together("16 × aria2", commands, least)
        rows = [["tool", "seconds", "÷ bound"], ["bound", f"{bound:.2f}", "1.00"]]
        rows += [[name, f"{seconds:.2f}", f"{seconds / bound:.2f}"] for name, seconds in least.items()]
        table(title, rows)

    def together(self, name, commands, least):
        os.sync()
        begun = time.monotonic()
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                   for command in commands]
        outputs = [process.communicate()[0] for process in running]
        seconds = time.monotonic() - begun
        failed = [output for process, output in zip(running, outputs) if process.returncode != 0]
        if failed:
            print(f"{name} failed: {failed[0][-400:]}")
            return
        least[name] = min(least.get(name, seconds), seconds)

    @staticmethod
    def bound(files, goodputs):
        """No schedule is shorter: for each set of servers, what only they hold, over what they can send together."""
        n, longest = len(goodputs), 0.0
        only = {}
        for _, size, _, holders in files:
            mask = sum(1 << holder for holder in holders)
            only[mask] = only.get(mask, 0) + size
        for subset in range(1, 1 << n):
            held = sum(size for mask, size in only.items() if mask & ~subset == 0)
            longest = max(longest, held / sum(goodputs[i] for i in range(n) if subset >> i & 1))
        return longest


def noise(path, size, seed):
    """A file that no compression helps with, and its SHA-256."""
    digest, draw = hashlib.sha256(), random.Random(seed)
    with open(path, "wb") as out:
        for at in range(0, size, MIB):
            chunk = draw.randbytes(min(MIB, size - at))
            digest.update(chunk)
            out.write(chunk)
    return digest.hexdigest()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--evenkeel", required=True)
    parser.add_argument("--xtask", required=True)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    cluster = Cluster(args.xtask, "nginx", 8, 16)
    folder = tempfile.mkdtemp(prefix="evenkeel-live-")
    try:
        race = Race(args, cluster, folder)
        addresses = [server["address"] for server in cluster.servers]
        size = args.mib * MIB
        original = os.path.join(folder, "file")
        sha256 = noise(original, size, 1)
        for server in cluster.servers:
            os.link(original, os.path.join(server["folder"], "file"))
            os.link(original, os.path.join(server["folder"], "probe"))
        meta = os.path.join(folder, "file.meta4")
        metalink(meta, [("file", size, sha256, range(8))], addresses)
        equal = [RATE_MBIT] * 8
        slow = [RATE_MBIT // 10] + [RATE_MBIT] * 7
        wanted = lambda name: not args.only or args.only in name
        if wanted("equal"):
            race.one_client(f"One client, {args.mib} MiB, 8 equal mirrors", equal, meta, "file", size)
        if wanted("slow"):
            race.one_client("The first mirror sends a tenth", slow, meta, "file", size)
        if wanted("later"):
            race.one_client("The first mirror falls to a tenth after a second", equal, meta, "file", size, slow_later=0)
        if wanted("speeds"):
            speeds = [12.5, 12.5, 25, 25, 50, 50, 100, 100]
            race.one_client("Speeds 1:2:4:8, twice each", speeds, meta, "file", size)
        if wanted("clients"):
            # 256 files of 4 MiB. Most first copies lie on two servers, the others anywhere.
            draw, files = random.Random(7), []
            for number in range(256):
                holders = {draw.choices(range(8), [8, 4, 1, 1, 1, 1, 1, 1])[0]}
                while len(holders) < 3:
                    holders.add(draw.choices(range(8), [4, 3, 1, 1, 1, 1, 1, 1])[0])
                name, holders = f"part{number:03}", sorted(holders)
                path = os.path.join(folder, name)
                digest = noise(path, 4 * MIB, 100 + number)
                for holder in holders:
                    os.link(path, os.path.join(cluster.servers[holder]["folder"], name))
                files.append((name, 4 * MIB, digest, holders))
            manifest = os.path.join(folder, "files.meta4")
            metalink(manifest, files, addresses)
            race.many_clients("16 clients, 1 GiB in 256 files with 3 copies and a hot spot", equal, files, manifest, 16)
    finally:
        cluster.down()
        shutil.rmtree(folder, ignore_errors=True)


main()
