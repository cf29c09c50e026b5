"""Contestants take turns; the least time of each counts."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from typing import Callable, NamedTuple

from data import MIB


class Contestant(NamedTuple):
    name: str
    # The commands that read everything into a folder. All of them run at once.
    commands: Callable[[str], list]
    # Takes part in the first round only: a reference that is known to be slow.
    once: bool = False

    def is_ours(self):
        return self.name.startswith("evenkeel")


class Outcome(NamedTuple):
    seconds: float
    # The same, and what the system then still needs to have everything on the disk.
    seconds_to_disk: float
    cpu_seconds: float
    printed: list


class Race:
    def __init__(self, args, cluster):
        self.args, self.cluster = args, cluster
        self.folder = tempfile.mkdtemp(prefix="evenkeel-live-")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def race(self, title, contestants, size, bound=None, goal=None, objects=None, before=None, event=None):
        """Prints the table of a scenario.

        `bound` is in seconds. `goal` is how much of the time of the best peer ours may take. With `objects`, rates are in
        objects. `before` is called before each run, and `event` a second after its start.
        """
        outcomes = {}
        for turn in range(self.args.repeat):
            for contestant in contestants:
                if turn == 0 or not contestant.once:
                    if before:
                        before()
                    outcome = self.outcome(contestant, size, event)
                    if outcome:
                        outcomes.setdefault(contestant, []).append(outcome)
        least = {contestant: min(runs, key=lambda run: run.seconds) for contestant, runs in outcomes.items()}
        rate = ("objects/s", objects) if objects else ("MiB/s", size / MIB)
        table(title, least, size, bound, *rate)
        self.judge(outcomes, least, size, goal)

    def outcome(self, contestant, size, event):
        """One run into an empty folder."""
        to = self.path("to")
        shutil.rmtree(to, ignore_errors=True)
        os.makedirs(to)
        commands = contestant.commands(to)
        os.sync()
        timer = threading.Timer(1.0, event) if event else None
        begun = time.monotonic()
        if timer:
            timer.start()
        codes, cpu_seconds, printed = self.together(commands)
        seconds = time.monotonic() - begun
        if timer:
            timer.join()
        subprocess.run(["sync", "-f", to], check=True)
        seconds_to_disk = time.monotonic() - begun
        complaint = next((text for code, text in zip(codes, printed) if code != 0), None)
        found = bytes_in(to)
        if complaint is None and found != size:
            complaint = f"{found} bytes are there, not {size}"
        if complaint is not None:
            print(f"\n{contestant.name} failed: {complaint[-400:]}", flush=True)
            return None
        return Outcome(seconds, seconds_to_disk, cpu_seconds, printed)

    def together(self, commands):
        """Runs commands at once. Returns their exit codes, the CPU time of all of them, and what each printed."""
        running = []
        for number, command in enumerate(commands):
            # A file, since nobody reads from pipes while `wait4`, which tells the CPU time, waits.
            log = open(self.path(f"log{number}"), "w+")
            running.append((subprocess.Popen(command, stdout=log, stderr=log, env=self.cluster.environment), log))
        codes, cpu_seconds, printed = [], 0.0, []
        for process, log in running:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            codes.append(process.returncode)
            cpu_seconds += usage.ru_utime + usage.ru_stime
            log.seek(0)
            printed.append(log.read())
            log.close()
        return codes, cpu_seconds, printed

    @staticmethod
    def judge(outcomes, least, size, goal):
        """Sets each of ours against the best of the others."""
        best = min((run.seconds for contestant, run in least.items() if not contestant.is_ours()), default=None)
        goal = "" if goal is None else f" (goal: at most {goal:.2f})"
        for contestant in filter(Contestant.is_ours, least):
            parts = []
            if best:
                parts.append(f"÷ best of the others {least[contestant].seconds / best:.2f}{goal}")
            runs = [[json.loads(text.splitlines()[-1]) for text in run.printed] for run in outcomes[contestant]]
            twice = max(sum(summary["received_bytes"] for summary in run) for run in runs) / size - 1
            planning = max(summary["seconds"]["plan"] / summary["seconds"]["all"] for run in runs for summary in run)
            parts += [f"read twice {twice:.1%}", f"planning {planning:.2%} of the time"]
            unverified = max(sum(summary["unverified"] for summary in run) for run in runs)
            parts += [f"{unverified} objects have no checksum"] if unverified else []
            print(f"\n{contestant.name}: {'; '.join(parts)}", flush=True)


def bytes_in(folder):
    return sum(os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names)


def table(title, least, size, bound, unit, amount):
    rows = [["tool", "seconds", "on disk after", "÷ bound", unit, "CPU s/GiB"]]
    if bound:
        rows.append(["bound", f"{bound:.2f}", "", "1.00", f"{amount / bound:.0f}", ""])
    for contestant, run in least.items():
        rows.append([contestant.name, f"{run.seconds:.2f}", f"{run.seconds_to_disk:.2f}",
                     f"{run.seconds / bound:.2f}" if bound else "", f"{amount / run.seconds:.0f}",
                     f"{run.cpu_seconds / (size / MIB / 1024):.2f}"])
    print_table(title, rows)


def print_table(title, rows):
    """Prints rows as a table, the first as its head, without columns that are empty."""
    print(f"\n## {title}\n")
    columns = [column for column in zip(*rows) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    for number, row in enumerate(zip(*columns)):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |")
        if number == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")
    sys.stdout.flush()
