"""A real HDFS with a pair of NameNodes, and everything that can go wrong with it."""

import glob
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.parse

DATA_NODES = 5
BLOCK = 1 << 20
# What a slow link sends: about a hundredth of what a DataNode sends here.
SLOW = "20mbit"
# How long servers may take to recover.
PATIENCE_S = 60


class Trouble(Exception):
    """The cluster itself did not do what was asked of it. Says nothing about Evenkeel."""


class Hdfs:
    def __init__(self, xtask):
        self.xtask = xtask
        state = json.loads(self.task("hdfs", "up", "--datanodes", str(DATA_NODES), "--rate", "none", "--ha",
                                     "--set", f"dfs.blocksize={BLOCK}", "--set", "dfs.replication=2", "--json",
                                     # Blocks that a schedule destroyed must not keep a NameNode from its work.
                                     "--set", "dfs.namenode.safemode.threshold-pct=0"))
        self.folders = {server["name"]: server["folder"] for server in state["servers"]}
        self.environment = os.environ | {"HADOOP_CONF_DIR": state["configuration"]}
        self.active = "n1"
        self.ended, self.paused, self.slow, self.is_safe = set(), set(), set(), False
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "Admin.java")
        self.admin = subprocess.Popen(at("c1", [state["client"], source]), stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.admin_lock = threading.Lock()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.task("down")

    def task(self, *args):
        done = subprocess.run([self.xtask, "cluster", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            raise Trouble(f"cluster {' '.join(args)}: {done.stderr.strip()}")
        return done.stdout

    # Servers

    def kill(self, host):
        for pid in self.processes(host):
            os.kill(pid, signal.SIGKILL)
        self.ended.add(host)

    def start(self, host):
        # Until the kernel has removed the process, its ports are taken.
        await_that(f"{host} has ended", lambda: not self.processes(host))
        self.task("start", host)
        self.ended.discard(host)

    def pause(self, host):
        for pid in self.processes(host):
            os.kill(pid, signal.SIGSTOP)
        self.paused.add(host)

    def resume(self, host):
        for pid in self.processes(host):
            os.kill(pid, signal.SIGCONT)
        self.paused.discard(host)

    def shape(self, host, rate, *link):
        self.task("shape", host, *link, rate)
        if rate == "none":
            self.slow.discard(host)
        else:
            self.slow.add(host)

    def processes(self, host):
        printed = subprocess.run(["ip", "netns", "pids", f"ek-{host}"], stdout=subprocess.PIPE, text=True).stdout
        return [int(pid) for pid in printed.split()]

    def order(self, line):
        """Asks for something at the NameNodes."""
        with self.admin_lock:
            self.admin.stdin.write(line + "\n")
            self.admin.stdin.flush()
            answer = self.admin.stdout.readline().strip()
        if answer != "done":
            raise Trouble(f"{line}: {answer}")

    def safe_mode(self, is_on):
        self.order(f"{'enter' if is_on else 'leave'} {self.active}")
        self.is_safe = is_on

    def fail_over(self):
        """The active NameNode is killed, and the other takes its place."""
        self.kill(self.active)
        self.active = "n2" if self.active == "n1" else "n1"
        self.order(f"activate {self.active}")

    def heal(self):
        """Servers run, links are fast. What was done to files stays."""
        for host in list(self.paused):
            self.resume(host)
        for host in list(self.slow):
            self.shape(host, "none")
            self.shape(host, "none", "--disk")
        for host in list(self.ended):
            self.start(host)
        if self.is_safe:
            self.safe_mode(False)
        other = "n2" if self.active == "n1" else "n1"
        await_that("both NameNodes know all DataNodes", lambda: all(
            self.bean(node).get("NumLiveDataNodes") == DATA_NODES for node in (self.active, other)))
        await_that("the active NameNode has left safe mode",
                   lambda: self.bean(self.active).get("FSState") == "Operational")

    def bean(self, node):
        url = f"http://{node}:9870/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
        try:
            return json.loads(curl(url))["beans"][0]
        except (Trouble, ValueError, LookupError):
            return {}

    # Files

    def url(self, path, host, **query):
        query = urllib.parse.urlencode({"user.name": "root"} | query)
        return f"http://{host}/webhdfs/v1{urllib.parse.quote(path)}?{query}"

    def ask(self, method, path, **query):
        answer = curl("-X", method, self.url(path, f"{self.active}:9870", **query))
        try:
            return json.loads(answer or "{}")
        except ValueError:
            raise Trouble(f"{method} {path} {query}: {answer[:200]}")

    def write(self, path, local):
        curl("-L", "-X", "PUT", "-T", local,
             self.url(path, f"{self.active}:9870", op="CREATE", overwrite="true", blocksize=BLOCK, replication=2))

    def append(self, path, local):
        curl("-L", "-X", "POST", "-T", local, self.url(path, f"{self.active}:9870", op="APPEND"))

    def delete(self, path):
        self.ask("DELETE", path, op="DELETE", recursive="true")

    def rename(self, path, to):
        """What has the new name already is replaced."""
        self.ask("PUT", path, op="RENAME", destination=to, renameoptions="OVERWRITE")

    def replicas(self, path):
        """For each block its files, one for each DataNode that holds it."""
        found = self.ask("GET", path, op="GET_BLOCK_LOCATIONS")["LocatedBlocks"]["locatedBlocks"]
        return [[self.replica(location["hostName"], block["block"]["blockId"]) for location in block["locations"]]
                for block in found]

    def replica(self, host, block):
        pattern = os.path.join(self.folders[host], "data/current/BP-*/current/*/**", f"blk_{block}")
        found = glob.glob(pattern, recursive=True)
        if not found:
            raise Trouble(f"{host} has no replica of block {block}")
        return found[0]


def at(host, command):
    return ["ip", "netns", "exec", f"ek-{host}", *command]


def curl(*args):
    done = subprocess.run(at("c1", ["curl", "-sS", "--fail-with-body", "--max-time", "20", *args]),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise Trouble(f"{args[-1]}: {done.stderr.strip()} {done.stdout[:300]}")
    return done.stdout


def await_that(what, is_so):
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline:
            sys.exit(f"{what}: not after {PATIENCE_S} s")
        time.sleep(0.05)
