"""Primaries of a real Ceph cluster, before and after `evenkeel balance ceph`.

Started by `cargo xtask campaign ceph`, as root. Six OSDs behind links of 100 Mbit/s, one pool of 64 groups, read by
`rados bench`. Prints tables in Markdown; ends with exit code 1 if something that is required does not hold.
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from fractions import Fraction

from cluster import Cluster, at, follow, run, table
from fewest import fewest

OSDS = 6
POOL = "bench"
RATE, SLOW_RATE = "100mbit", "10mbit"
# What `rados bench` calls MB.
MIB = 1 << 20
OBJECT = 4 * MIB
# All that a second look sees of the manager's figures is a second old.
SETTLE_S = 6


class Ceph(Cluster):
    def __init__(self, args, objects):
        # Its manager hears of changes every five seconds otherwise, which is waited for at every step.
        quick = ["--set", "mgr_stats_period=1"] if args.kills else []
        super().__init__(args.xtask, "ceph", "--servers", str(OSDS), "--pools", f"{POOL}:64", "--release", args.release, *quick)
        self.evenkeel = args.evenkeel
        self.environment |= {"CEPH_CONF": self.state["configuration"],
                             "PATH": f"{self.state['tools']}:{os.environ['PATH']}"}
        self.folder = tempfile.mkdtemp(prefix="evenkeel-leaders-")
        self.client("rados", "bench", "-p", POOL, "600", "write", "-b", str(OBJECT), "-t", "8", "--no-cleanup",
                    "--max-objects", str(objects))
        time.sleep(SETTLE_S)

    def __exit__(self, *_):
        super().__exit__()
        run(["rm", "-r", self.folder])

    def file(self, name):
        return os.path.join(self.folder, name)

    def command(self, *command):
        return at("c1", list(command))

    def client(self, *command):
        return run(self.command(*command), env=self.environment)

    def start(self, *command):
        return subprocess.Popen(self.command(*command), env=self.environment, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def balance(self, *options):
        """What `evenkeel balance ceph` tells."""
        return json.loads(self.client(self.evenkeel, "balance", "ceph", "--pool", POOL, "--weigh", "bytes", "--json",
                                      *options))

    def undo(self, record):
        self.client(self.evenkeel, "balance", "ceph", "--undo", record, "--apply", "--json")

    def groups(self):
        """Who leads each group, and its OSDs."""
        dump = json.loads(self.client("ceph", "pg", "dump", "pgs_brief", "-f", "json"))
        return {group["pgid"]: (group["acting_primary"], (sorted(group["up"]), sorted(group["acting"])))
                for group in dump.get("pg_stats", dump)}

    def batch(self):
        """Weight, leader and those that may lead, for each group that is balanced."""
        rows = self.client(self.evenkeel, "locate", "ceph", "--pool", POOL, "--weigh", "bytes").splitlines()
        head = rows[0].split(",")
        rows = [dict(zip(head, row.split(","))) for row in rows[1:]]
        return [(int(row["bytes"]), row["current"], row["replicas"].split("|")) for row in rows]

    def read(self, seconds, in_flight):
        """Bytes a second of a reader who takes objects in turn."""
        told = self.client("rados", "bench", "-p", POOL, str(seconds), "seq", "-t", str(in_flight))
        return float(re.search(r"Bandwidth \(MB/sec\):\s+([0-9.]+)", told).group(1)) * MIB


def sets(groups):
    return {name: members for name, (_, members) in groups.items()}


def leaders(groups):
    return {name: leader for name, (leader, _) in groups.items()}


def rates_in(file):
    """The column `rate` of a servers file."""
    with open(file) as lines:
        head, *rows = [line.strip().split(",") for line in lines if line.strip()]
    return {row[head.index("server")]: int(float(row[head.index("rate")])) for row in rows}


def least_changes(groups, told, rates):
    """The fewest changes for what a plan reaches, and for what it was content with."""
    reached = max(Fraction(row["planned"]["weight"], rates[row["server"]]) for row in told["servers"])
    content = max(reached, reached / Fraction(told["score"]) * Fraction(101, 100))
    return fewest(groups, reached, rates), fewest(groups, content, rates)


def races(args):
    """Reads as CRUSH has it and balanced, with equal OSDs and with a slow one."""
    rows, failed = [], []
    with Ceph(args, args.objects) as ceph:
        ceph.shape_all(RATE)
        link = ceph.goodput(0)
        first = ceph.groups()
        record, servers = ceph.file("undo.json"), ceph.file("rates.csv")
        equal = {server["source"]: 1 for server in ceph.servers}

        def measure(name, bound, *options):
            score = ceph.balance(*options)["score_today"]
            speeds = [ceph.read(args.seconds, args.in_flight) for _ in range(args.repeat)]
            rows.append({"run": name, "bytes_per_second": max(speeds), "runs": speeds, "bound": bound, "score": score})
            print(f"{name}: {max(speeds) / 1e6:.1f} MB/s", file=sys.stderr)
            return rows[-1]

        def change(rates, *options):
            groups, start = ceph.batch(), time.monotonic()
            told = ceph.balance("--apply", "--record", record, *options)
            seconds = time.monotonic() - start
            (at_reached, proved), (at_content, _) = least_changes(groups, told, rates)
            return {"changes": told["changes"]["requests"], "at_least": told["changes"]["at_least"], "fewest": at_reached,
                    "fewest_proved": proved, "fewest_for_target": at_content, "score_planned": told["score"],
                    "seconds_to_apply": seconds, "same_sets": sets(ceph.groups()) == sets(first)}

        def back():
            ceph.undo(record)
            os.remove(record)
            if ceph.groups() != first:
                failed.append("undo did not bring back what was before")

        a = measure("equal OSDs, as CRUSH has it", OSDS * link)
        done = change(equal)
        b = measure("equal OSDs, by bytes", OSDS * link) | done
        rows[-1] = b
        back()
        ceph.shape(args.slow, SLOW_RATE)
        slow_link = ceph.goodput(args.slow)
        bound = (OSDS - 1) * link + slow_link
        ceph.client(ceph.evenkeel, "probe", "ceph", "--pool", POOL, "--out", servers)
        with open(servers) as file:
            probed = file.read()
        by_speed = ["--servers", servers]
        c = measure("one at a tenth, as CRUSH has it", bound, *by_speed)
        done = change(equal)
        d = measure("one at a tenth, by bytes", bound, *by_speed) | done
        rows[-1] = d
        back()
        done = change(rates_in(servers), *by_speed)
        e = measure("one at a tenth, by speed", bound, *by_speed) | done
        rows[-1] = e
        back()
    print(f"\nCeph {args.release}: {args.objects} objects of 4 MiB, {args.in_flight} reads in flight; "
          f"a link carries {link / 1e6:.2f} MB/s, the slow one {slow_link / 1e6:.2f}\n")
    print(table(
        ["run", "MB/s", "of bound", "bytes by primary ÷ bound", "changes", "at least", "fewest (CP-SAT)", "÷ fewest",
         "fewest at 1.01 ×", "same OSDs"],
        [[row["run"], f"{row['bytes_per_second'] / 1e6:.1f}", f"{row['bytes_per_second'] / row['bound']:.2f}",
          f"{row['score']:.3f}", *changes_of(row)] for row in rows]))
    gains = {"by bytes, equal OSDs": (b, a, 1.1), "by speed, one at a tenth": (e, c, 6.0)}
    print()
    for name, (after, before, wanted) in gains.items():
        gain = after["bytes_per_second"] / before["bytes_per_second"]
        print(f"{name}: {gain:.2f} × (required {wanted})")
        if gain < wanted:
            failed.append(f"{name}: {gain:.2f} ×")
    for row in (b, d, e):
        if not row["same_sets"]:
            failed.append(f"{row['run']}: the OSDs of a group have changed")
        if row["fewest"] is None or row["changes"] > 1.2 * row["fewest"]:
            failed.append(f"{row['run']}: {row['changes']} changes, where {row['fewest']} would do")
    return {"release": args.release, "link": link, "slow_link": slow_link, "rates": probed, "rows": rows}, failed


def changes_of(row):
    if "changes" not in row:
        return [""] * 6
    ratio = row["changes"] / row["fewest"] if row["fewest"] else 1.0
    proved = "" if row["fewest_proved"] else " (not proved)"
    return [row["changes"], row["at_least"], f"{row['fewest']}{proved}", f"{ratio:.2f}", row["fewest_for_target"],
            "yes" if row["same_sets"] else "NO"]


# An OSD is slow from one second to another.
TROUBLE = [(0, 60, 180), (3, 300, 420)]
QUIET_S = 600
# The mean over so many seconds counts.
MEAN_S = 10


def watch(args):
    """Reads all the time, while OSDs turn slow and recover and `evenkeel balance ceph --watch` looks on."""
    failed, bandwidth, looks, warnings = [], [], [], []
    end = TROUBLE[-1][2] + 60 + QUIET_S
    with Ceph(args, args.objects) as ceph:
        ceph.shape_all(RATE)
        links = [ceph.goodput(server) for server in range(OSDS)]
        before = ceph.groups()
        start = time.monotonic()
        now = lambda: round(time.monotonic() - start, 2)
        # Never runs out of objects, unlike `seq`.
        load = ceph.start("rados", "bench", "-p", POOL, str(end + 60), "rand", "-t", str(2 * args.in_flight))

        def read_second(line):
            cells = line.split()
            if len(cells) >= 6 and cells[0].isdigit() and re.fullmatch(r"[0-9.]+", cells[5]):
                bandwidth.append((now(), float(cells[5]) * MIB))

        follow(load.stdout, read_second)
        watcher = ceph.start(ceph.evenkeel, "balance", "ceph", "--pool", POOL, "--weigh", "bytes", "--watch", "--every",
                             "5", "--apply", "--record", ceph.file("watch.json"), "--json")

        def look(line):
            looks.append({"at": now()} | json.loads(line))
            servers = " ".join(f"{row['leads']}@{row['speed']:.2f}({(row['rate'] or 0) / 1e6:.1f})" for row in looks[-1]["servers"])
            print(f"{now():7.1f} {looks[-1]['decision']}, {looks[-1]['made']} of {looks[-1]['planned']}: {servers}, "
                  f"{mean(bandwidth, now() - MEAN_S, now()) / 1e6:.1f} MB/s", file=sys.stderr)

        def warn(line):
            warnings.append((now(), line.strip()))
            print(f"{now():7.1f} {line.strip()}", file=sys.stderr)

        follow(watcher.stdout, look)
        follow(watcher.stderr, warn)
        events = sorted([(since, osd, SLOW_RATE) for osd, since, _ in TROUBLE]
                        + [(until, osd, RATE) for osd, _, until in TROUBLE])
        for when, osd, rate in events:
            time.sleep(max(0, when - now()))
            ceph.shape(osd, rate)
            print(f"{now()} osd.{osd} at {rate}", file=sys.stderr)
        while now() < end:
            time.sleep(min(5, max(0.1, end - now())))
            if load.poll() is not None or watcher.poll() is not None:
                failed.append("the load or the watcher has ended early")
                break
        for process in (watcher, load):
            process.send_signal(signal.SIGINT)
            process.wait()
        is_same = sets(ceph.groups()) == sets(before)

    def bound(second):
        return sum(link / 10 if any(slow == osd and since <= second < until for slow, since, until in TROUBLE) else link
                   for osd, link in enumerate(links))

    rows = []
    for when, osd, rate in events:
        back = recovered(bandwidth, when, bound(when))
        second_minute = mean(bandwidth, when + 60, when + 120) / bound(when)
        rows.append([f"{when} s", f"osd.{osd} at {rate}", f"{bound(when) / 1e6:.1f}",
                     f"{mean(bandwidth, when, when + MEAN_S) / 1e6:.1f}", "never" if back is None else f"{back:.0f} s",
                     f"{second_minute:.2f}"])
        if second_minute < 0.8:
            failed.append(f"after osd.{osd} at {rate}, bandwidth was back after {back} s, at {second_minute:.2f} × the "
                          "bound in the second minute")
    print(table(["at", "what", "bound, MB/s", f"first {MEAN_S} s", f"back at 0.8 × bound after", "2nd minute ÷ bound"], rows))
    quiet = end - QUIET_S
    changes = sum(look["made"] for look in looks if look["at"] >= quiet)
    print(f"\n{sum(look['made'] for look in looks)} changes; in the last {QUIET_S // 60} minutes {changes}, with "
          f"{mean(bandwidth, quiet, end) / bound(end):.2f} × the bound; the same OSDs: {is_same}; "
          f"{len(looks)} looks, {len(warnings)} warnings")
    if changes:
        failed.append(f"{changes} changes in the quiet minutes")
    if not is_same:
        failed.append("the OSDs of a group have changed")
    bounds = [(second, bound(second)) for second in range(0, end + 1)]
    series = {"bandwidth": bandwidth, "bound": bounds, "looks": looks, "warnings": warnings,
              "events": [{"at": when, "osd": osd, "rate": rate} for when, osd, rate in events]}
    return series | {"release": args.release, "links": links, "rows": rows}, failed


def mean(series, since, until):
    values = [value for at, value in series if since <= at < until]
    return sum(values) / max(1, len(values))


def recovered(series, when, bound):
    """After how many seconds a mean begins that is at 0.8 × the bound, once the worst of the first minute is over."""
    means = [(at_, mean(series, at_, at_ + MEAN_S)) for at_, _ in series if when <= at_ < when + 120]
    worst = min((value, at_) for at_, value in means if at_ < when + 60)[1]
    return next((at_ - when for at_, value in means if at_ >= worst and value >= 0.8 * bound), None)


def kills(args):
    """Kills `balance --apply` in the middle, runs it again, and in the end undoes all of it."""
    generator = random.Random(args.seed)
    failed, counts = [], {"killed": 0, "ended before": 0, "killed after a change": 0, "finished after": 0, "changes": 0}
    with Ceph(args, 64) as ceph:
        first = ceph.groups()
        record, servers = ceph.file("undo.json"), ceph.file("servers.csv")
        took = 6.0
        for trial in range(args.kills):
            # Each time another plan.
            with open(servers, "w") as file:
                file.write("server,speed\n")
                file.writelines(f"osd.{osd},{generator.choice([1, 1, 2, 4])}\n" for osd in range(OSDS))
            command = [ceph.evenkeel, "balance", "ceph", "--pool", POOL, "--weigh", "bytes", "--servers", servers, "--apply",
                       "--record", record, "--step", str(generator.choice([1, 2, 3])), "--json"]
            before = leaders(ceph.groups())
            balance = subprocess.Popen(ceph.command(*command), env=ceph.environment, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            try:
                balance.wait(generator.uniform(0, took))
                counts["ended before"] += 1
            except subprocess.TimeoutExpired:
                balance.kill()
                balance.wait()
                counts["killed"] += 1
            # A command that was on its way may still be carried out.
            time.sleep(1)
            check(ceph.groups(), first, record, f"kill {trial}", failed)
            counts["killed after a change"] += leaders(ceph.groups()) != before
            start = time.monotonic()
            done = subprocess.run(ceph.command(*command), env=ceph.environment, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
            if done.returncode != 0:
                failed.append(f"kill {trial}: running again ended with {done.returncode}: {done.stderr.strip()}")
            else:
                told = json.loads(done.stdout)
                counts["finished after"] += 1
                counts["changes"] += told["changes"]["requests"]
                again = ceph.balance("--servers", servers)
                if again["changes"]["requests"]:
                    failed.append(f"kill {trial}: {again['changes']['requests']} changes are left after it has finished")
            check(ceph.groups(), first, record, f"after kill {trial}", failed)
            took = max(4.0, 0.5 * took + 0.7 * (time.monotonic() - start))
            print(f"{trial}: {counts}", file=sys.stderr)
        ceph.undo(record)
        is_back = ceph.groups() == first
        if not is_back:
            failed.append("undo did not bring back what was before")
    print(table([*counts, "undone exactly", "faults"], [[*counts.values(), "yes" if is_back else "NO", len(failed)]]))
    return {"release": args.release, "counts": counts, "undone": is_back}, failed


def faults(args):
    """What goes wrong with the cluster, one thing after another: what is said then, and how soon."""
    rows, failed = [], []
    with Ceph(args, 64) as ceph:
        first = ceph.groups()
        record, servers = ceph.file("undo.json"), ceph.file("servers.csv")
        with open(servers, "w") as file:
            file.write("server,speed\n" + "".join(f"osd.{osd},{1 + 3 * (osd % 2)}\n" for osd in range(OSDS)))

        def balance(*options):
            return ceph.start(ceph.evenkeel, "balance", "ceph", "--pool", POOL, "--weigh", "bytes", *options)

        def expect(name, process, codes, words, most_s=60):
            """How a run must end, and what it must say."""
            start = time.monotonic()
            said = process.communicate()
            took, said = time.monotonic() - start, (said[1] or said[0]).strip()
            if process.returncode not in codes or not any(word in said for word in words) or took > most_s:
                failed.append(f"{name}: exit code {process.returncode} after {took:.0f} s: {said}")
            rows.append([name, process.returncode, f"{took:.1f} s", " ".join(said.split())])
            print(rows[-1], file=sys.stderr)
            if sets(ceph_groups()) != sets(first):
                failed.append(f"{name}: the OSDs of a group have changed")

        def ceph_groups():
            """Of the pool, once the cluster answers and all groups are clean."""
            for _ in range(60):
                done = subprocess.run(ceph.command("ceph", "--connect-timeout", "5", "pg", "dump", "pgs_brief", "-f", "json"),
                                      env=ceph.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                groups = json.loads(done.stdout or "{}").get("pg_stats", [])
                if groups and all(group["state"] == "active+clean" for group in groups):
                    break
                time.sleep(1)
            return {name: group for name, group in ceph.groups().items() if name in first}

        apply = ["--servers", servers, "--apply", "--record", record, "--patience", "10"]
        oldest, older = ("reef", "luminous") if args.release == "reef" else ("luminous", "jewel")
        ceph.client("ceph", "osd", "set-require-min-compat-client", older)
        expect(f"require-min-compat-client is {older}", balance(*apply), [1], ["set-require-min-compat-client"])
        ceph.client("ceph", "osd", "set-require-min-compat-client", oldest)

        ceph.client("ceph", "balancer", "mode", "upmap")
        ceph.client("ceph", "balancer", "on")
        if args.release == "pacific":
            expect("Ceph's balancer is on, mode upmap", balance(*apply), [1], ["balancer off"])
            expect("the same, --despite-balancer", balance(*apply, "--despite-balancer", "--changes", "1"), [2, 0, 1], [""])
        else:
            expect("Ceph's balancer is on, mode upmap, which leaves primaries alone",
                   balance(*apply, "--changes", "1"), [0, 1, 2], [""])
        ceph.client("ceph", "balancer", "off")

        ceph.client("ceph", "config", "set", "mon", "mon_allow_pool_delete", "true")
        for after in (0.2, 0.6, 1.0, 1.5, 2.5):
            ceph.client("ceph", "osd", "pool", "create", "gone", "16", "16")
            ceph_groups()
            process = ceph.start(ceph.evenkeel, "balance", "ceph", "--pool", "gone", "--weigh", "count", "--servers", servers,
                                 "--apply", "--record", ceph.file("gone.json"), "--patience", "10", "--step", "1")
            time.sleep(after)
            ceph.client("ceph", "osd", "pool", "delete", "gone", "gone", "--yes-i-really-really-mean-it")
            expect(f"the pool is deleted after {after} s", process, [1, 2], ["gone", "stopped", "no pool"])

        for what, host in (("manager", "g1"), ("monitor", "m1")):
            kill(host)
            process = balance(*apply)
            start = time.monotonic()
            process.wait()
            took = time.monotonic() - start
            ceph.task("start", host)
            expect(f"the {what} is killed before ({took:.0f} s)", process, [1, 2], ["did not answer", "monitor", "manager"])
            if took > 25:
                failed.append(f"the {what} is killed: it took {took:.0f} s to say so")
        ceph_groups()
        for what, host, after in (("osd.1", "s2", 2.0), ("osd.1", "s2", 5.0), ("the manager", "g1", 5.0),
                                  ("the monitor", "m1", 5.0)):
            process = balance(*apply, "--step", "1")
            time.sleep(after)
            kill(host)
            process.wait()
            ceph.task("start", host)
            expect(f"{what} is killed {after:.0f} s after the start", process, [0, 1, 2], [""])
            check(ceph_groups(), first, record, what, failed)
        again = balance(*apply)
        expect("running again", again, [0], [""])
        expect("undo", ceph.start(ceph.evenkeel, "balance", "ceph", "--undo", record, "--apply"), [0], [""])
        if leaders(ceph_groups()) != leaders(first):
            failed.append("undo did not bring back what was before")
    print(table(["what", "exit code", "after", "says"], rows))
    return {"release": args.release, "rows": rows}, failed


def kill(host):
    for pid in run(["ip", "netns", "pids", f"ek-{host}"]).split():
        os.kill(int(pid), signal.SIGKILL)


def check(groups, first, record, when, failed):
    """What differs from the first is in the record, and no group has other OSDs."""
    if sets(groups) != sets(first):
        failed.append(f"{when}: the OSDs of a group have changed")
    recorded = {}
    if os.path.exists(record):
        with open(record) as file:
            recorded = {change["group"]: change["from"] for change in json.load(file)["changes"]}
    for name, leader in leaders(groups).items():
        was = first[name][0]
        if leader != was and recorded.get(name) != f"osd.{was}":
            failed.append(f"{when}: {name} was led by osd.{was}, which is not in the undo file")


def main():
    parser = argparse.ArgumentParser(prog="cargo xtask campaign ceph")
    parser.add_argument("--evenkeel", required=True, help="the program that balances")
    parser.add_argument("--xtask", required=True, help="the program that brings clusters up")
    parser.add_argument("--release", choices=["pacific", "reef"], default="pacific")
    parser.add_argument("--objects", type=int, default=384, help="objects of 4 MiB (default %(default)s)")
    parser.add_argument("--seconds", type=int, default=25, help="the most that a run takes (default %(default)s)")
    parser.add_argument("--in-flight", type=int, default=16, help="reads at a time; twice as many with --watch")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each, of which the fastest counts")
    parser.add_argument("--slow", type=int, default=0, metavar="OSD", help="which OSD is slow (default %(default)s)")
    parser.add_argument("--watch", action="store_true", help="OSDs that turn slow while the primaries are watched")
    parser.add_argument("--kills", type=int, metavar="N", help="kill balance --apply N times in the middle")
    parser.add_argument("--faults", action="store_true", help="everything that may go wrong with the cluster meanwhile")
    parser.add_argument("--seed", type=int, default=1, help="of the kills (default %(default)s)")
    parser.add_argument("--out", metavar="FILE", help="where all figures are written, as JSON")
    args = parser.parse_args()
    # Also ends the cluster.
    for end in (signal.SIGINT, signal.SIGTERM):
        signal.signal(end, lambda *_: sys.exit("interrupted"))
    figures, failed = (kills if args.kills else faults if args.faults else watch if args.watch else races)(args)
    if args.out:
        with open(args.out, "w") as file:
            json.dump(figures | {"failed": failed}, file, indent=1)
    for fault in failed:
        print(f"FAILED: {fault}")
    sys.exit(1 if failed else 0)


main()
