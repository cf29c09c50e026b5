"""What goes wrong in a schedule. Each fault has its kind, its time and everything else drawn from a seed."""

import os
import random
import threading

from cluster import SLOW, Trouble
from data import FILES

# How often each kind is drawn. Those that end a server cost seconds: it has to start again.
KINDS = {
    "DataNode killed": 3, "DataNode paused": 4, "link slow": 4, "disk slow": 1,
    "byte flipped": 6, "all replicas damaged": 2, "replica removed": 5,
    "file deleted": 4, "file renamed": 4, "file overwritten": 5, "file rewritten": 4, "file appended to": 4,
    "safe mode": 3, "NameNode killed": 1, "get killed": 4,
}
SERVERS = {"DataNode killed", "DataNode paused", "link slow", "disk slow"}
NAME_NODES = {"safe mode", "NameNode killed"}
DAMAGES = {"byte flipped", "all replicas damaged", "replica removed"}
# These change the name space, and some need DataNodes to write to. They are not mixed with faults in whose presence
# nobody can tell whether they happened.
CHANGES = {"file deleted", "file renamed", "file overwritten", "file rewritten", "file appended to"}


class Fault:
    def __init__(self, draw, kind, data, end):
        self.kind, self.data, self.hdfs = kind, data, data.hdfs
        # 0 is before the start.
        self.at = 0 if draw.random() < 0.35 else draw.uniform(0, 0.7)
        # When servers recover. None is after the end.
        self.until = self.at + draw.uniform(0.1, 2) if draw.random() < 0.5 else None
        self.host = draw.choice(list(self.hdfs.folders)) if kind in SERVERS else None
        is_file = kind in DAMAGES | CHANGES
        self.name = draw.choice([name for name in FILES if FILES[name]]) if is_file else None
        # Its own, since faults happen at the same time.
        self.draw, self.end = random.Random(draw.random()), end
        self.began_at, self.trouble = None, None
        # Made beforehand, so that it takes no time later.
        self.version = data.version(draw, self.name) if kind in {"file overwritten", "file rewritten"} else None
        if kind == "file overwritten":
            self.staged = f"/staged{data.made}"
            self.hdfs.write(self.staged, self.version)

    def __str__(self):
        where = self.host or (self.name and repr(self.name))
        until = f" to {self.until:.2f}" if self.until and self.host else ""
        return f"{self.kind}{f' ({where})' if where else ''} at {self.at:.2f}{until} s"

    def run(self, clock, get):
        """`clock` tells seconds since the start, `get` is the process, if it has started."""
        if self.at and self.end.wait(max(0, self.at - clock())):
            return
        self.began_at = clock()
        try:
            self.begin(get)
            if self.host and self.until and not self.end.wait(max(0, self.until - clock())):
                self.recover()
        except Trouble as trouble:
            self.trouble = trouble
            if self.name:
                # Whatever has become of it.
                self.data.destroyed.add(self.name)

    def begin(self, get):
        hdfs, name, path = self.hdfs, self.name, self.name and self.data.path(self.name)
        match self.kind:
            case "DataNode killed":
                hdfs.kill(self.host)
            case "DataNode paused":
                hdfs.pause(self.host)
            case "link slow":
                hdfs.shape(self.host, SLOW)
            case "disk slow":
                hdfs.shape(self.host, SLOW, "--disk")
            case "byte flipped" | "all replicas damaged" | "replica removed":
                self.damage(self.draw.choice(hdfs.replicas(path)))
            case "file deleted":
                self.data.destroyed.add(name)
                hdfs.delete(path)
            case "file renamed":
                self.data.exists(f"moved {name}".replace("/", " "), self.data.current[name])
                self.data.destroyed.add(name)
                hdfs.rename(path, self.data.path(f"moved {name}".replace("/", " ")))
            case "file overwritten":
                self.data.exists(name, self.version)
                hdfs.rename(self.staged, path)
            case "file rewritten":
                self.data.replace(name, self.version)
            case "file appended to":
                more = self.draw.randbytes(self.draw.randint(1, 1 << 21))
                with open(self.data.current[name], "rb") as old:
                    self.data.exists(name, self.data.local(old.read() + more))
                hdfs.append(path, self.data.local(more))
            case "safe mode":
                hdfs.safe_mode(True)
            case "NameNode killed":
                hdfs.fail_over()
            case "get killed":
                if get:
                    get.kill()

    def damage(self, replicas):
        self.data.destroyed.add(self.name)
        for file in replicas if self.kind == "all replicas damaged" else [self.draw.choice(replicas)]:
            if self.kind == "replica removed" or self.kind == "all replicas damaged" and self.draw.random() < 0.3:
                os.remove(file)
                continue
            with open(file, "r+b") as block:
                place = self.draw.randrange(os.path.getsize(file))
                block.seek(place)
                byte = block.read(1)[0]
                block.seek(place)
                block.write(bytes([byte ^ 1 << self.draw.randrange(8)]))

    def recover(self):
        match self.kind:
            case "DataNode killed":
                self.hdfs.start(self.host)
            case "DataNode paused":
                self.hdfs.resume(self.host)
            case _:
                self.hdfs.shape(self.host, "none", *(["--disk"] if self.kind == "disk slow" else []))


def draw_faults(draw, data):
    """One to three faults that can be told apart."""
    kinds, end, faults = [], threading.Event(), []
    for _ in range(draw.choice([1, 1, 2, 2, 3])):
        kind = draw.choices(list(KINDS), KINDS.values())[0]
        is_clear = not (kind in CHANGES and any(other in SERVERS | NAME_NODES for other in kinds)
                        or kind in SERVERS | NAME_NODES and any(other in CHANGES for other in kinds)
                        or kind in NAME_NODES and any(other in NAME_NODES for other in kinds)
                        or kind == "get killed" and kind in kinds)
        if is_clear:
            kinds.append(kind)
    for kind in kinds:
        fault = Fault(draw, kind, data, end)
        # One fault a server and a file, but damage may add up. A get that has not begun cannot be killed.
        taken = any(fault.host and fault.host == other.host or fault.name and fault.name == other.name
                    and not {fault.kind, other.kind} <= DAMAGES for other in faults)
        if not taken:
            faults.append(fault)
        if kind == "get killed" and not fault.at:
            fault.at = draw.uniform(0, 0.4)
    return faults, end


def may_fail(name, faults, is_pair):
    """Whether a file may be missing: it was changed, or one of its blocks may be at no server that works, or the command
    was told of no other NameNode."""
    own = [fault.kind for fault in faults if fault.name == name]
    hosts = {fault.host for fault in faults if fault.kind in {"DataNode killed", "DataNode paused"}}
    replicas_lost = len(hosts) + sum(kind in {"byte flipped", "replica removed"} for kind in own)
    return (replicas_lost >= 2 or "all replicas damaged" in own or any(kind in CHANGES for kind in own)
            or not is_pair and any(fault.kind == "NameNode killed" for fault in faults))
