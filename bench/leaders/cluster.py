"""Real servers in network namespaces, and what is measured of them."""

import json
import os
import subprocess
import sys
import threading

SECONDS = 3
SEND = """
import socket, sys, time
listener = socket.create_server(("0.0.0.0", 7999))
print("ready", flush=True)
peer, _ = listener.accept()
end, chunk = time.monotonic() + float(sys.argv[1]), bytes(1 << 16)
while time.monotonic() < end:
    peer.sendall(chunk)
"""
RECEIVE = """
import socket, sys, time
peer = socket.create_connection((sys.argv[1], 7999))
start = time.monotonic()
# A link sends a burst before it is at its rate.
size, since, last = 0, None, None
while data := peer.recv(1 << 16):
    last = time.monotonic()
    if since is not None:
        size += len(data)
    elif last - start > 1:
        since = last
print(size / (last - since))
"""


def run(command, **options):
    """What a command prints. The campaign ends if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def at(host, command):
    """The command, run at a host."""
    return ["ip", "netns", "exec", f"ek-{host}", *command]


class Cluster:
    """Servers and a client, c1. Links have no limits until they are shaped, so that filling servers is quick."""

    def __init__(self, xtask, kind, *options):
        self.xtask = xtask
        self.state = json.loads(self.task(kind, "up", "--rate", "none", "--json", *options))
        self.servers = self.state["servers"]
        self.environment = dict(os.environ)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.task("down")

    def task(self, *args):
        return run([self.xtask, "cluster", *args])

    def shape(self, server, rate):
        self.task("shape", self.servers[server]["name"], rate)

    def shape_all(self, rate):
        for server in range(len(self.servers)):
            self.shape(server, rate)

    def goodput(self, server):
        """Bytes a second that a link carries, after its burst."""
        server = self.servers[server]
        sender = subprocess.Popen(at(server["name"], ["python3", "-c", SEND, str(SECONDS)]),
                                  stdout=subprocess.PIPE, text=True)
        sender.stdout.readline()
        address = server["address"].split(":")[0]
        rate = float(run(at("c1", ["python3", "-c", RECEIVE, address])))
        sender.wait()
        return rate


def follow(lines, told):
    """Calls back for each line that a process prints."""
    threading.Thread(target=lambda: [told(line) for line in lines], daemon=True).start()


def table(head, rows):
    """In Markdown."""
    rows = [[str(cell) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)
