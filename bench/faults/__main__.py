"""`evenkeel get` from a real HDFS while something goes wrong, by schedules drawn from a seed.

Started by `cargo xtask campaign hdfs-faults`, as root. In each schedule one to three faults happen before or during a get
into a new folder. Whatever has its name there must then be, byte for byte, a version that existed as a whole; whatever is
missing must be named with a cause; the process must have ended in time. Then the cluster is healed, and the same command
once more must bring everything, from whatever the first run has left.
"""

import argparse
import collections
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from cluster import Hdfs, at
from data import Data, FILES, digest
from faults import CHANGES, KINDS, draw_faults, may_fail

# A get that takes longer hangs. Without faults it takes a second.
DEADLINE_S = 60
# A server that sends nothing for so long has failed.
PATIENCE_S = 2


class Get:
    """One run of the command."""

    def __init__(self, hdfs, command):
        self.began, self.listed_at, self.lines = time.monotonic(), None, []
        self.command = command
        self.process = subprocess.Popen(at("c1", command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env=hdfs.environment)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            event = json.loads(line)
            if event["event"] == "begun":
                self.listed_at = self.clock()
            self.lines.append(event)

    def clock(self):
        return time.monotonic() - self.began

    def wait(self):
        self.hangs = False
        try:
            self.process.wait(max(0, DEADLINE_S - self.clock()))
        except subprocess.TimeoutExpired:
            self.hangs = True
            self.process.kill()
        self.reader.join()
        self.errors = self.process.stderr.read()
        self.seconds, self.code = self.clock(), self.process.wait()
        summary = self.lines[-1] if self.lines and self.lines[-1]["event"] == "summary" else None
        self.failures = {one["key"]: one["why"] for one in summary["failures"]} if summary else {}
        self.has_summary = summary is not None

    def cause(self, name):
        """Why a file is missing, as far as the command says."""
        if name in self.failures:
            return self.failures[name]
        said = [line for line in self.errors.splitlines() if name in line or line.startswith("error: ")]
        return said[0] if said else None


class Campaign:
    def __init__(self, args, hdfs, folder):
        self.args, self.hdfs, self.folder = args, hdfs, folder
        os.mkdir(os.path.join(folder, "versions"))
        self.data = Data(hdfs, os.path.join(folder, "versions"))
        self.figures, self.kinds, self.faulty = collections.Counter(), collections.defaultdict(collections.Counter), 0
        self.causes = collections.Counter()

    def schedule(self, number):
        draw = random.Random(f"{self.args.seed}/{number}")
        faults, end = draw_faults(draw, self.data)
        to = os.path.join(self.folder, f"copy{number}")
        command = self.command(draw, to)
        for fault in faults:
            if not fault.at:
                fault.run(lambda: 0, None)
        get = Get(self.hdfs, command)
        threads = [threading.Thread(target=fault.run, args=(get.clock, get.process)) for fault in faults if fault.at]
        for thread in threads:
            thread.start()
        get.wait()
        end.set()
        for thread in threads:
            thread.join()
        happened = [fault for fault in faults if fault.began_at is not None]
        found = self.check(get, to, happened)
        self.hdfs.heal()
        self.data.restore(draw)
        self.data.forget()
        again = Get(self.hdfs, [*self.command(random.Random(number), to, self.hdfs.active), "--overwrite"])
        again.wait()
        found += self.check_again(again, to)
        shutil.rmtree(to, ignore_errors=True)
        self.figures.update(schedules=1, runs=2, hangs=get.hangs + again.hangs)
        self.figures["longest"] = max(self.figures["longest"], get.seconds)
        for kind in {fault.kind for fault in happened}:
            self.kinds[kind]["schedules"] += 1
        if found or self.args.verbose:
            told = "; ".join(str(fault) + (f" [{fault.trouble}]" if fault.trouble else "") for fault in faults)
            print(f"schedule {number}: {told}\n  {' '.join(command)}\n  ended with {get.code} after {get.seconds:.2f} s, "
                  f"listed at {get.listed_at}, then with {again.code}; failed: {get.failures} {get.errors.strip()}")
        for fault in found:
            print(f"  WRONG: {fault}")
        sys.stdout.flush()
        self.faulty += bool(found)

    def command(self, draw, to, active=None):
        node = active or self.hdfs.active
        source = draw.choice(["hdfs://evenkeel/data", "hdfs://evenkeel/data", f"hdfs://{node}:8020/data",
                              f"webhdfs://{node}:9870/data"])
        limit = draw.choice([[], ["--limit", "15MB/s"], ["--limit", "50MB/s"]]) if not active else []
        return [self.args.evenkeel, "get", "--json", "--patience", str(PATIENCE_S), *limit, source, to]

    def check(self, get, to, faults):
        """What is not as it must be after a run with faults."""
        was_killed = any(fault.kind == "get killed" for fault in faults) and get.code == -signal.SIGKILL
        found = ["it hangs"] if get.hangs else []
        if not was_killed and not get.hangs and get.code not in ((0, 1) if get.has_summary else (2,)):
            # 2 if it could not even begin.
            found.append(f"exit code {get.code}: {get.errors}")
        arrived, wrong = self.compare(to)
        found += wrong
        missing = [name for name in self.data.known if name not in arrived]
        if was_killed or get.hangs:
            return found
        named, is_pair = 0, "hdfs://evenkeel/data" in get.command
        for name in missing:
            gone = [fault for fault in faults if fault.kind in CHANGES and fault.name and name in
                    (fault.name, f"moved {fault.name}".replace("/", " "))]
            cause = get.cause(name)
            if cause:
                named += 1
                self.causes[cause.replace(name, "NAME")] += 1
                if not may_fail(name, faults, is_pair):
                    found.append(f"{name} could have been read: {cause}")
            elif not any(get.listed_at is None or fault.began_at <= get.listed_at or name != fault.name for fault in gone):
                found.append(f"{name} is missing without a cause")
        if get.has_summary and get.code != (1 if get.failures else 0):
            found.append(f"exit code {get.code} with {len(get.failures)} failures: {get.errors}")
        if get.code == 0 and named:
            found.append(f"exit code 0, but {named} files are missing: {get.errors}")
        self.figures["failed"] += named
        for kind in {fault.kind for fault in faults}:
            self.kinds[kind]["failed"] += named
        return found

    def check_again(self, get, to):
        """What is not as it must be after a run without faults: everything is there, and current."""
        found = ["the second run hangs"] if get.hangs else []
        if get.code != 0:
            found.append(f"the second run ended with {get.code}: {get.failures} {get.errors}")
            return found
        arrived, wrong = self.compare(to, FILES)
        found += wrong
        return found + [f"the second run left {name} out" for name in FILES if name not in arrived]

    def compare(self, to, names=None):
        """The names of files that arrived, and those whose bytes are of no version, or of which there is no version."""
        arrived, wrong = set(), []
        for folder, folders, files in os.walk(to):
            for file in files:
                path = os.path.join(folder, file)
                name = os.path.relpath(path, to)
                if file.startswith(".evenkeel-") or names and name not in names:
                    continue
                arrived.add(name)
                self.figures["bytes"] += os.path.getsize(path)
                if digest(path) not in self.data.known.get(name, ()):
                    wrong.append(f"{name} has bytes of no version")
                    self.figures["wrong"] += 1
        return arrived, wrong

    def report(self):
        figures = self.figures
        print("\n| fault | schedules | files reported as failed |\n|---|---|---|")
        for kind in KINDS:
            print(f"| {kind} | {self.kinds[kind]['schedules']} | {self.kinds[kind]['failed']} |")
        print("\nCauses, as reported:")
        for cause, count in self.causes.most_common(self.args.causes):
            print(f"{count:6} {cause}")
        print(f"\nseed {self.args.seed}: {figures['schedules']} schedules, {figures['runs']} runs, "
              f"{figures['bytes'] / 1e6:.0f} MB verified, {figures['wrong']} files with wrong bytes, "
              f"{figures['hangs']} hangs (deadline {DEADLINE_S} s; the longest get with faults took "
              f"{figures['longest']:.1f} s), {figures['failed']} files reported as failed, "
              f"{self.faulty} schedules with something wrong")


def main():
    parser = argparse.ArgumentParser(prog="cargo xtask campaign hdfs-faults")
    parser.add_argument("--evenkeel", required=True, help="the program to try")
    parser.add_argument("--xtask", required=True, help="the program that brings clusters up")
    parser.add_argument("schedules", type=int, nargs="?", default=300, help="how many (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="from which schedules are drawn (default %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first schedule (default %(default)s)")
    parser.add_argument("--seconds", type=float, help="begins no schedule after this time")
    parser.add_argument("--causes", type=int, default=30, help="causes to list (default %(default)s)")
    parser.add_argument("--verbose", action="store_true", help="tells about all schedules")
    args = parser.parse_args()
    # Also takes the cluster down and removes files.
    for end in (signal.SIGINT, signal.SIGTERM):
        signal.signal(end, lambda *_: sys.exit("interrupted"))
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="evenkeel-faults-") as folder, Hdfs(args.xtask) as hdfs:
        campaign = Campaign(args, hdfs, folder)
        try:
            for number in range(args.first, args.first + args.schedules):
                if args.seconds and time.monotonic() - began > args.seconds:
                    break
                campaign.schedule(number)
        finally:
            campaign.report()
    sys.exit(1 if campaign.faulty else 0)


main()
