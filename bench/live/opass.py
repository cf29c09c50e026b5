"""Paper 003 on a real HDFS: parallel programs with a process on the host of each DataNode, which read tasks one after the other.

The stock way gives tasks to processes in order of ranks, and Hadoop's client picks the replica: its own host's, else one at
random. Ours is what `evenkeel assign` says, carried out by `evenkeel cat`. Disks are shaped: what a DataNode sends, to its own
host and to others together.
"""

import collections
import csv
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from typing import NamedTuple

from cluster import Cluster, run as check
from data import MIB, File
from hdfs import with_class, write
from mirrors import least_time
from race import Race, print_table

DATA_NODES = 8
REPLICAS = 3
DISK_MBIT = 64
BLOCK = 2 * MIB
BLOCKS = 320
# Tasks with three inputs, as large to each other as in the paper.
INPUTS = {"mesh": 3 * MIB, "pressure": 2 * MIB, "wind": MIB}
TASKS = 107
# How long a task of the dynamic program computes, on average.
COMPUTES_S = 0.25
EQUAL = [DISK_MBIT] * DATA_NODES
SLOW = [DISK_MBIT / 10] + EQUAL[1:]


def spread(hosts, draw):
    """Blocks as HDFS itself places what comes from outside: at random, each replica on another host."""
    for number in range(BLOCKS):
        yield f"/spread/{'ab'[2 * number // BLOCKS]}/part{number:03}", BLOCK, draw.sample(hosts, REPLICAS)


def crowded(hosts, draw):
    """Blocks that two of the hosts have written: the first of two replicas is on one of them."""
    for number in range(BLOCKS):
        first = hosts[number % 2]
        yield f"/crowded/part{number:03}", BLOCK, [first, draw.choice([host for host in hosts if host != first])]


def inputs(hosts, draw):
    """Three inputs for each task, placed at random."""
    for number in range(TASKS):
        for name, size in INPUTS.items():
            yield f"/inputs/{name}/{number:03}", size, draw.sample(hosts, REPLICAS)


FOLDERS = {"/spread": spread, "/crowded": crowded, "/inputs": inputs}


def run(args, names):
    with Cluster(args.xtask, "hdfs", DATA_NODES, replicas=REPLICAS) as cluster, Race(args, cluster) as race:
        program = Program(race)
        for name in names:
            SCENARIOS[name](program)


class Read(NamedTuple):
    """A read that is done: who, from which server, how many bytes, and how long it took."""
    rank: int
    server: str
    bytes: int
    seconds: float


class Outcome(NamedTuple):
    seconds: float
    reads: list
    # The share of the machine's CPU time that was in use.
    busy: float
    # Seconds, and the bytes that each DataNode had sent by then.
    sent: list


class Program:
    """The data, and the processes that read it."""

    def __init__(self, race):
        self.race, self.cluster, self.args = race, race.cluster, race.args
        self.hosts = [server["name"] for server in self.cluster.servers]
        # Blocks by path: their local files, and who holds them.
        self.files, self.holders = {}, {}
        self.files["/warm"], self.holders["/warm"] = File(race.folder, "warm", MIB, 0), self.hosts
        write(race, [("/warm", MIB, self.hosts)])
        self.stock = [*with_class(race, "RankRead"), "HADOOP_CLIENT_OPTS=-Xmx128m -XX:+UseSerialGC",
                      self.cluster.hadoop, "RankRead", "/warm"]
        self.machines = race.path("hosts")
        with open(self.machines, "w") as out:
            out.write("\n".join(self.hosts) + "\n")

    def prepare(self, folder, rates_mbit=EQUAL):
        """Writes a folder, unless it is there, and shapes the disks."""
        if not any(path.startswith(folder) for path in self.files):
            for host in self.hosts:
                self.cluster.task("shape", host, "--disk", "none")
            layout = []
            for path, size, holders in FOLDERS[folder](self.hosts, random.Random(3)):
                local = os.path.dirname(self.race.path(path[1:]))
                os.makedirs(local, exist_ok=True)
                self.files[path] = File(local, os.path.basename(path), size, len(self.files))
                self.holders[path] = holders
                layout.append((path, size, holders))
            write(self.race, layout)
        for host, mbit in zip(self.hosts, rates_mbit):
            self.cluster.task("shape", host, "--disk", f"{mbit}mbit")

    def assign(self, folder, *options):
        """Returns the summary of an assignment, and the rows of each process."""
        lists = tempfile.mkdtemp(dir=self.race.folder)
        command = [self.args.evenkeel, "assign", self.cluster.source + folder, "--hosts", self.machines,
                   "--lists", lists, "--json", *options]
        summary = json.loads(check(self.cluster.at("c1", command), env=self.cluster.environment))
        rows = []
        for rank in range(DATA_NODES):
            with open(os.path.join(lists, f"{rank}.csv")) as file:
                rows.append(list(csv.DictReader(file)))
        return summary, rows

    def in_order_of_ranks(self, folder, *options):
        """What each process reads if the first tasks are those of the first."""
        summary, rows = self.assign(folder, "--policy", "rank", *options)
        return summary, [sorted(own, key=lambda row: (row["task"], row["path"])) for own in rows]

    def holders_of(self, row):
        return self.holders[row["path"].removeprefix(self.cluster.source)]

    def most_served(self, folder):
        """The least bytes that the busiest DataNode has to send, whoever reads what: a bound for any plan."""
        paths = [path for path in self.files if path.startswith(folder)]
        holders = [[self.hosts.index(host) for host in self.holders[path]] for path in paths]
        return least_time([self.files[path] for path in paths], holders, [1] * DATA_NODES)

    def ours(self, folder):
        """Commands that read what they are told of a folder, and where they write it."""
        to = tempfile.mkdtemp(prefix="evenkeel-live-", dir="/dev/shm")
        command = lambda rank: [self.args.evenkeel, "cat", self.cluster.source + folder, "--list", "-", "--json",
                                "--out", os.path.join(to, str(rank))]
        return [command(rank) for rank in range(DATA_NODES)], to

    def median(self, read):
        """Reads several times, since Hadoop's client picks replicas at random. Of an even number, the better one counts."""
        outcomes = sorted((read() for _ in range(self.args.repeat)), key=lambda outcome: outcome.seconds)
        print(f"\nruns took {', '.join(f'{outcome.seconds:.1f}' for outcome in outcomes)} s", flush=True)
        return outcomes[(len(outcomes) - 1) // 2]

    def read_by_stock(self, *masters):
        """Each master has a process at each host."""
        return self.read([self.stock] * (DATA_NODES * len(masters)), masters)

    def read_by_ours(self, folder, *masters):
        commands, folders = [], []
        for _ in masters:
            more, to = self.ours(folder)
            commands += more
            folders.append(to)
        try:
            outcome = self.read(commands, masters)
            for master, to in zip(masters, folders):
                self.verify(master, to)
        finally:
            for to in folders:
                shutil.rmtree(to)
        return outcome

    def verify(self, master, folder):
        """Compares all that was read with what was written."""
        for rank, rows in enumerate(master.given):
            with open(os.path.join(folder, str(rank)), "rb") as got:
                for row in rows:
                    path = row["path"].removeprefix(self.cluster.source)
                    with open(self.files[path].path, "rb") as file:
                        file.seek(int(row["start"]))
                        if got.read(int(row["bytes"])) != file.read(int(row["bytes"])):
                            sys.exit(f"{row}: other data was read than was written")
                if got.read(1):
                    sys.exit(f"process {rank} read more than it was given")

    def read(self, commands, masters):
        """Starts processes, and once all are ready lets them work. The n-th is at the n-th host."""
        processes = []
        for number, command in enumerate(commands):
            at = self.cluster.at(self.hosts[number % DATA_NODES], command)
            processes.append(subprocess.Popen(at, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                              env=self.cluster.environment))
        try:
            for process in processes:
                if '"begun"' not in process.stdout.readline():
                    sys.exit("a process did not start")
                process.stdin.write("task,path,start,bytes,from\n")
                process.stdin.flush()
            reads, ends = [], []
            workers = [threading.Thread(target=self.work, args=(process, masters[number // DATA_NODES],
                                                                number % DATA_NODES, reads, ends))
                       for number, process in enumerate(processes)]
            samples = Samples(self.cluster)
            busy = busy_s()
            begun = time.monotonic()
            samples.start()
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            seconds = max(ends, default=begun) - begun
            sent = samples.end()
            busy = (busy_s() - busy) / (seconds * os.cpu_count())
            if len(ends) < len(processes) or any(process.wait() != 0 for process in processes):
                sys.exit("a process failed")
            return Outcome(seconds, reads, busy, sent)
        finally:
            for process in processes:
                process.kill()
                process.wait()

    @staticmethod
    def work(process, master, rank, reads, ends):
        """Passes tasks on to a process until there are no more."""
        end = time.monotonic()
        while rows := master.next(rank):
            for row in rows:
                process.stdin.write(",".join(row[name] for name in ("task", "path", "start", "bytes", "from")) + "\n")
            process.stdin.flush()
            for _ in rows:
                line = process.stdout.readline()
                if not line:
                    return
                told = json.loads(line)
                for sent in told["servers"]:
                    reads.append(Read(rank, sent["server"], sent["bytes"], told["seconds"]))
            time.sleep(master.computes_s(rows[0]["task"]))
            end = time.monotonic()
        process.stdin.close()
        process.stdout.read()
        ends.append(end)


class Static:
    """Each process has its list."""

    def __init__(self, rows):
        self.lists = [collections.deque(of_tasks(own)) for own in rows]
        self.given = [[] for _ in rows]
        self.lock = threading.Lock()

    def next(self, rank):
        with self.lock:
            rows = self.choose(rank)
            self.given[rank] += rows or []
            return rows

    def choose(self, rank):
        return self.lists[rank].popleft() if self.lists[rank] else None

    def computes_s(self, task):
        return 0


class InOrder(Static):
    """A master that gives the next task to whoever asks."""

    def choose(self, rank):
        rest = next((rest for rest in self.lists if rest), None)
        return rest.popleft() if rest else None


class Guided(Static):
    """A master with guided lists (§4.4): who is done with its own takes from the longest of the others."""

    def __init__(self, rows, program):
        super().__init__(rows)
        self.program = program

    def choose(self, rank):
        if self.lists[rank]:
            return self.lists[rank].popleft()
        longest = max(self.lists, key=len)
        if not longest:
            return None
        host, victim = self.program.hosts[rank], self.program.hosts[self.lists.index(longest)]
        local = lambda rows: sum(int(row["bytes"]) for row in rows if host in self.program.holders_of(row))
        best = max(range(len(longest)), key=lambda at: (local(longest[at]), at))
        rows = longest[best]
        del longest[best]
        for row in rows:
            others = [holder for holder in self.program.holders_of(row) if holder != victim]
            row["from"] = host if host in others else others[0]
        return rows


def irregular(master):
    """The same master for a program whose tasks take differently long, whoever does them."""
    master.computes_s = lambda task: random.Random(task).expovariate(1 / COMPUTES_S)
    return master


def of_tasks(rows):
    """The rows of each task."""
    tasks = collections.OrderedDict()
    for row in rows:
        # A copy: a master may change where it is read.
        tasks.setdefault(row["task"], []).append(dict(row))
    return list(tasks.values())


class Samples:
    """What the disk of each DataNode has sent, over time."""

    def __init__(self, cluster):
        self.pids = [server["pid"] for server in cluster.servers]
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.sample)

    def start(self):
        self.begun, self.first, self.sent = time.monotonic(), self.counts(), []
        self.thread.start()

    def sample(self):
        while not self.is_over.wait(0.2):
            counts = [now - first for now, first in zip(self.counts(), self.first)]
            self.sent.append((time.monotonic() - self.begun, counts))

    def counts(self):
        counts = []
        for pid in self.pids:
            with open(f"/proc/{pid}/net/dev") as file:
                fields = next(line for line in file if line.strip().startswith("disk:")).split(":")[1].split()
            counts.append(int(fields[8]))
        return counts

    def end(self):
        self.is_over.set()
        self.thread.join()
        return self.sent


def busy_s():
    """CPU time that was in use since the start of the machine."""
    with open("/proc/stat") as file:
        ticks = [int(field) for field in file.readline().split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def served_by(hosts, outcome):
    """The bytes that each DataNode sent."""
    served = {host: 0 for host in hosts}
    for read in outcome.reads:
        served[read.server] += read.bytes
    return served


def report(program, title, folder, bound_local, runs, goal=None):
    """Prints a table. The first of the runs is the one that the others are compared with."""
    size = sum(file.size for path, file in program.files.items() if path.startswith(folder))
    rows = [["who", "seconds", "÷ stock", "a read: mean", "longest", "local", "most served", "least", "CPU"]]
    stock = runs[0][1]
    for name, outcome in runs:
        served = served_by(program.hosts, outcome)
        if sum(served.values()) != size:
            sys.exit(f"{name}: {sum(served.values())} bytes were read, not {size}")
        local = sum(read.bytes for read in outcome.reads if read.server == program.hosts[read.rank])
        times = [read.seconds for read in outcome.reads]
        mean = lambda outcome: sum(read.seconds for read in outcome.reads) / len(outcome.reads)
        rows.append([name, f"{outcome.seconds:.1f}", f"{outcome.seconds / stock.seconds:.2f}",
                     f"{mean(outcome):.2f} s (÷ {mean(stock) / mean(outcome):.1f})", f"{max(times):.2f} s",
                     f"{local / size:.1%}", f"{max(served.values()) / MIB:.0f} MiB",
                     f"{min(served.values()) / MIB:.0f} MiB", f"{outcome.busy:.0%}"])
    rows.append(["bound", "", "", "", "", f"{bound_local / size:.1%}",
                 f"{program.most_served(folder) / MIB:.1f} MiB", "", ""])
    print_table(title, rows)
    print(f"\nServed by {', '.join(program.hosts)}, in MiB:")
    for name, outcome in runs:
        print(f"* {name}: {', '.join(f'{sent / MIB:.0f}' for sent in served_by(program.hosts, outcome).values())}")
    if goal:
        print(f"\nGoal: at most {goal:.2f} × the time of stock", flush=True)
    if program.args.traces:
        for number, (name, outcome) in enumerate(runs):
            write_trace(os.path.join(program.args.traces, f"{number}.trace"), name, program.hosts, size, outcome)


def write_trace(path, name, hosts, size, outcome):
    """Writes what each DataNode sent over time, for `evenkeel replay`."""
    begun = {"objects": BLOCKS, "bytes": size, "kept": 0, "resumed": 0, "missing": size, "policy": name, "servers": hosts}
    with open(path, "w") as out:
        out.write(json.dumps({"format": 1, "at": 0, "event": "begun", **begun}) + "\n")
        for at, counts in outcome.sent:
            line = {"format": 1, "at": at, "event": "progress", "received": sum(counts), "servers": counts}
            out.write(json.dumps(line) + "\n")


def in_spread(program):
    single(program, "/spread", f"{BLOCKS} blocks of 2 MiB, {REPLICAS} replicas at random")


def in_crowded(program):
    single(program, "/crowded", f"{BLOCKS} blocks of 2 MiB, the first of 2 replicas on one of two hosts")


def single(program, folder, title):
    program.prepare(folder)
    _, ranked = program.in_order_of_ranks(folder)
    summary, rows = program.assign(folder)
    runs = [("rank order, Hadoop's client", program.median(lambda: program.read_by_stock(Static(ranked)))),
            ("evenkeel assign and cat", program.median(lambda: program.read_by_ours(folder, Static(rows))))]
    report(program, f"Opass, {title}", folder, summary["bound_local_bytes"], runs, goal=0.5)


def slow(program):
    folder = "/spread"
    program.prepare(folder, SLOW)
    _, ranked = program.in_order_of_ranks(folder)
    summary, rows = program.assign(folder)
    rates = program.race.path("rates.csv")
    probe = [program.args.evenkeel, "probe", program.cluster.source + folder, "--out", rates]
    check(program.cluster.at("c1", probe), env=program.cluster.environment)
    _, known = program.assign(folder, "--servers", rates)
    runs = [("rank order, Hadoop's client", program.read_by_stock(Static(ranked))),
            ("evenkeel assign and cat, rates known", program.read_by_ours(folder, Static(known))),
            ("evenkeel assign and cat, guided by a master", program.read_by_ours(folder, Guided(rows, program))),
            ("evenkeel assign and cat, rates unknown", program.read_by_ours(folder, Static(rows)))]
    report(program, "Opass, the first DataNode's disk has a tenth", folder, summary["bound_local_bytes"], runs, goal=0.35)


def multi(program):
    folder = "/inputs"
    program.prepare(folder)
    globs = program.race.path("globs.csv")
    with open(globs, "w") as out:
        out.write("task,glob\n")
        for number in range(TASKS):
            out.write(f"{number:03},{'|'.join(f'{name}/{number:03}' for name in INPUTS)}\n")
    _, ranked = program.in_order_of_ranks(folder, "--inputs", globs)
    _, rows = program.assign(folder, "--inputs", globs)
    summary, exact = program.assign(folder, "--inputs", globs, "--policy", "opass-exact")
    runs = [("rank order, Hadoop's client", program.read_by_stock(Static(ranked))),
            ("evenkeel assign (opass-multi) and cat", program.read_by_ours(folder, Static(rows))),
            ("evenkeel assign (opass-exact) and cat", program.read_by_ours(folder, Static(exact)))]
    report(program, f"Opass, {TASKS} tasks with inputs of 3, 2 and 1 MiB", folder, summary["bound_local_bytes"], runs)


def dynamic(program):
    folder = "/spread"
    program.prepare(folder)
    _, ranked = program.in_order_of_ranks(folder)
    summary, rows = program.assign(folder)
    runs = [("a master in order, Hadoop's client", program.read_by_stock(irregular(InOrder(ranked)))),
            ("a master with guided lists, evenkeel cat",
             program.read_by_ours(folder, irregular(Guided(rows, program))))]
    title = f"Opass, a master, tasks that compute {COMPUTES_S} s on average"
    report(program, title, folder, summary["bound_local_bytes"], runs)


def tenants(program):
    program.prepare("/spread")
    served = program.race.path("served.csv")
    ranked = [program.in_order_of_ranks(f"/spread/{tenant}")[1] for tenant in "ab"]
    first, rows_a = program.assign("/spread/a", "--served", served)
    second, rows_b = program.assign("/spread/b", "--servers", served)
    runs = [("rank order, Hadoop's client", program.read_by_stock(*map(Static, ranked))),
            ("evenkeel assign and cat", program.read_by_ours("/spread", Static(rows_a), Static(rows_b)))]
    title = f"Opass, two tenants with {BLOCKS // 2} blocks and a process on each host each"
    report(program, title, "/spread", first["bound_local_bytes"] + second["bound_local_bytes"], runs)


SCENARIOS = {"opass-single": in_spread, "opass-crowded": in_crowded, "opass-slow": slow, "opass-multi": multi,
             "opass-dynamic": dynamic, "opass-tenants": tenants}
