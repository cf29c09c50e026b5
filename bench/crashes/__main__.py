"""Nodes, writers and the maintainer are killed at random moments, under load, and started again.

Started by `cargo xtask campaign crashes`. Some writers speak S3 to one node: single puts, overwrites, deletions and
uploads in parts. Others run `evenkeel put` over all nodes, whose objects go where there is least to do; a maintainer brings them
home meanwhile. Whatever was acknowledged must be there in the end, byte for byte. What was under way when somebody was killed
may have happened or not, but not in part. In the end no piece is left that belongs to no object.
"""

import argparse
import collections
import hashlib
import http.client
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

from s3 import Node

NODES = 3
BUCKET = "crashes"
KEYS = {"access_key": "EKCRASHES", "secret_key": "0123456789abcdef0123456789abcdef"}
# How long a node may take to come back.
PATIENCE_S = 30
PART = 5 << 20
# What a request that was cut off raises.
CUT_OFF = (OSError, http.client.HTTPException)


class Server:
    """A node as a process of its own."""

    def __init__(self, campaign, number):
        self.campaign, self.name = campaign, f"s{number + 1}"
        self.ports = campaign.args.port + 2 * number, campaign.args.port + 2 * number + 1
        self.node = Node("127.0.0.1", self.ports[0], *KEYS.values())
        self.process, self.starts = None, 0

    def start(self):
        folder = self.campaign.folder
        command = [self.campaign.args.evenkeel, "node", "--name", self.name, "--data", os.path.join(folder, self.name),
                   "--listen", f"127.0.0.1:{self.ports[0]}", "--control", f"127.0.0.1:{self.ports[1]}",
                   "--cluster", self.campaign.cluster, "--credentials", os.path.join(folder, "keys")]
        self.log = open(os.path.join(folder, f"{self.name}.log"), "a")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        self.starts += 1

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.log.close()

    def wait(self):
        """Until it answers."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                status, _, body = self.node.request("GET", "/", timeout=5)
                if status == 200:
                    return
                complaint = f"{status} {body[:200]}"
            except CUT_OFF as error:
                complaint = str(error)
            if self.process.poll() is not None:
                sys.exit(f"{self.name} ended with {self.process.returncode}; see {self.log.name}")
            if time.monotonic() > deadline:
                sys.exit(f"{self.name} does not answer: {complaint}")
            time.sleep(0.02)


class Direct(threading.Thread):
    """Writes to one node by S3. Nobody else writes these names."""

    def __init__(self, campaign, number):
        super().__init__()
        self.campaign, self.node = campaign, campaign.servers[number % NODES].node
        self.prefix = f"direct/{number}/"
        self.draw = random.Random(f"{campaign.args.seed}/direct/{number}")
        # By name, the digests that it may have: one, or more if a request was cut off. None is for an absent object.
        self.may_be = {}

    def run(self):
        while not self.campaign.is_over:
            name = f"{self.prefix}{self.draw.randrange(40)}"
            before = self.may_be.get(name, {None})
            kind = self.draw.choices(["put", "delete", "parts", "check"], [6, 1, 1, 2])[0]
            body = self.draw.randbytes(self.draw.choice([0, 1, 4096, 60_000, 300_000, 2_000_000]))
            after = None if kind == "delete" else digest(body)
            try:
                if kind == "check":
                    self.may_be[name] = {self.campaign.check(self.node, name, before)}
                    continue
                if kind == "parts":
                    body = self.draw.randbytes(PART + self.draw.randrange(1 << 16))
                    after = digest(body)
                self.may_be[name] = before | {after}
                is_done = getattr(self, kind)(f"/{BUCKET}/{name}", body)
            except CUT_OFF:
                self.campaign.count("cut off")
                time.sleep(0.05)
                continue
            if is_done:
                self.may_be[name] = {after}
                self.campaign.count("acknowledged")
            else:
                self.campaign.count("refused")

    def put(self, path, body):
        status, _, _ = self.node.request("PUT", path, body=body)
        return status == 200

    def delete(self, path, _):
        status, _, _ = self.node.request("DELETE", path)
        return status == 204

    def parts(self, path, body):
        status, _, answer = self.node.request("POST", path, {"uploads": ""})
        if status != 200:
            return False
        upload = answer.split(b"<UploadId>")[1].split(b"</UploadId>")[0].decode()
        tags = []
        for number, part in enumerate([body[:PART], body[PART:]], 1):
            status, headers, _ = self.node.request("PUT", path, {"partNumber": str(number), "uploadId": upload}, part)
            if status != 200:
                return False
            tags.append(headers["etag"])
        parts = "".join(f"<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>" for number, tag in enumerate(tags, 1))
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        status, _, answer = self.node.request("POST", path, {"uploadId": upload}, body)
        return status == 200 and b"<Error>" not in answer


class Batches(threading.Thread):
    """Writes folders by `evenkeel put`, each under a name of its own."""

    def __init__(self, campaign, number):
        super().__init__()
        self.campaign, self.number = campaign, number
        self.draw = random.Random(f"{campaign.args.seed}/batches/{number}")
        # By prefix: the digests of its files, and whether all were acknowledged.
        self.batches = {}
        self.process = None

    def run(self):
        turn = 0
        while not self.campaign.is_over:
            prefix = f"batch/{self.number}/{turn}/"
            turn += 1
            folder = os.path.join(self.campaign.folder, "from", str(self.number), str(turn))
            os.makedirs(folder)
            files = {}
            for number in range(self.draw.randrange(1, 12)):
                body = self.draw.randbytes(self.draw.choice([0, 100, 50_000, 400_000, 1_500_000]))
                with open(os.path.join(folder, f"f{number}"), "wb") as out:
                    out.write(body)
                files[f"f{number}"] = digest(body)
            placement = self.draw.choice(["trh", "mlml", "nltr:1", "rr", "two-choice"])
            code = self.put(folder, prefix, placement)
            # A second time, as people do: what is there already is kept.
            if code != 0 and self.draw.random() < 0.5 and not self.campaign.is_over:
                code = self.put(folder, prefix, placement)
            self.batches[prefix] = files, code == 0
            self.campaign.count("batches acknowledged" if code == 0 else "batches cut off")
            shutil.rmtree(folder)

    def put(self, folder, prefix, placement):
        command = [self.campaign.args.evenkeel, "put", "--json", "--cluster", self.campaign.cluster, "--piece", "256KiB",
                   "--placement", placement, f"{folder}/", f"keel://{BUCKET}/{prefix}"]
        with open(os.path.join(self.campaign.folder, f"put{self.number}.log"), "a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
            return self.process.wait()


class Campaign:
    def __init__(self, args, folder):
        self.args, self.folder, self.is_over = args, folder, False
        self.figures, self.lock, self.wrong = collections.Counter(), threading.Lock(), []
        self.cluster = os.path.join(folder, "cluster.toml")
        self.servers = [Server(self, number) for number in range(NODES)]
        with open(os.path.join(folder, "keys"), "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as out:
            out.writelines(f'{name} = "{key}"\n' for name, key in KEYS.items())
        with open(self.cluster, "w") as out:
            out.write('format = 1\ncredentials = "keys"\n')
            for server in self.servers:
                out.write(f'\n[[server]]\nname = "{server.name}"\nendpoint = "http://127.0.0.1:{server.ports[0]}"\n'
                          f'control = "http://127.0.0.1:{server.ports[1]}"\n')

    def count(self, what, n=1):
        with self.lock:
            self.figures[what] += n

    def fail(self, what):
        with self.lock:
            self.wrong.append(what)
        print(f"WRONG: {what}", flush=True)

    def check(self, node, name, may_be):
        """Reads an object. Its digest must be one of these."""
        status, _, body = node.request("GET", f"/{BUCKET}/{name}")
        if status not in (200, 404):
            raise OSError(f"{status} {body[:200]}")
        found = digest(body) if status == 200 else None
        self.count("bytes verified", len(body) if status == 200 else 0)
        if found not in may_be:
            self.fail(f"{name} is {'absent' if found is None else f'other ({len(body)} bytes)'}")
        return found

    def evenkeel(self, *arguments):
        command = [self.args.evenkeel, *arguments, "--cluster", self.cluster]
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self):
        draw = random.Random(self.args.seed)
        for server in self.servers:
            server.start()
        for server in self.servers:
            server.wait()
            server.node.request("PUT", f"/{BUCKET}")
        directs = [Direct(self, number) for number in range(2 * NODES)]
        batches = [Batches(self, number) for number in range(2)]
        maintainer = threading.Thread(target=self.maintain)
        threads = [*directs, *batches, maintainer]
        for thread in threads:
            thread.start()
        for number in range(self.args.kills):
            time.sleep(draw.uniform(0.05, 1.0))
            victim = draw.choice([*self.servers, *self.servers, "put", "maintain"])
            if victim == "put":
                self.end(draw.choice(batches).process)
            elif victim == "maintain":
                self.end(self.maintaining)
            else:
                victim.kill()
                time.sleep(draw.choice([0, 0.1, 1.0]))
                victim.start()
                victim.wait()
            self.count(f"kills of {victim if isinstance(victim, str) else 'nodes'}")
            if number % 20 == 19:
                print(f"{number + 1} kills: {dict(self.figures)}", flush=True)
        self.is_over = True
        for thread in threads:
            thread.join()
        self.verify(directs, batches)

    maintaining = None

    def maintain(self):
        while not self.is_over:
            command = [self.args.evenkeel, "maintain", "--apply", "--cluster", self.cluster, f"keel://{BUCKET}/"]
            with open(os.path.join(self.folder, "maintain.log"), "a") as log:
                self.maintaining = subprocess.Popen(command, stdout=log, stderr=log)
                self.maintaining.wait()
            self.count("maintained")
            time.sleep(0.5)

    @staticmethod
    def end(process):
        if process and process.poll() is None:
            process.send_signal(signal.SIGKILL)

    def verify(self, directs, batches):
        """After everybody was started once more, so that nothing is in memory only."""
        for server in self.servers:
            server.kill()
            server.start()
            server.wait()
        for direct in directs:
            for name, may_be in direct.may_be.items():
                self.check(direct.node, name, may_be)
        for thread in batches:
            for prefix, (files, is_acknowledged) in thread.batches.items():
                self.verify_batch(prefix, files, is_acknowledged)
        # Twice: what has come home is no longer needed elsewhere.
        for _ in range(2):
            done = self.evenkeel("maintain", "--apply", "--grace", "0", f"keel://{BUCKET}/")
            if done.returncode != 0:
                self.fail(f"maintain: {done.stdout[-500:]}")
        for thread in batches:
            for prefix, (files, is_acknowledged) in thread.batches.items():
                self.verify_batch(prefix, files, is_acknowledged)
        self.verify_pieces()

    def verify_batch(self, prefix, files, is_acknowledged):
        to = os.path.join(self.folder, "back")
        done = self.evenkeel("get", "--json", f"keel://{BUCKET}/{prefix}", to)
        found = {}
        if os.path.isdir(to):
            for name in os.listdir(to):
                if not name.startswith(".evenkeel-"):
                    with open(os.path.join(to, name), "rb") as file:
                        found[name] = digest(file.read())
            shutil.rmtree(to)
        for name, body in files.items():
            if name not in found:
                if is_acknowledged:
                    self.fail(f"{prefix}{name} was acknowledged and is absent: {done.stdout[-500:]}")
            elif found[name] != body:
                self.fail(f"{prefix}{name} has other bytes")
        self.count("files verified", len(found))
        if done.returncode != 0 and is_acknowledged:
            self.fail(f"{prefix}: {done.stdout[-500:]}")

    def verify_pieces(self):
        """Every piece that is held belongs to an object."""
        held, named = set(), set()
        for server in self.servers:
            held |= {(server.name, name) for name in server.node.list(BUCKET, ".evenkeel/held/")}
            for name in server.node.list(BUCKET, "batch/"):
                status, headers, body = server.node.request("GET", f"/{BUCKET}/{name}", headers={"x-evenkeel-redirect": "show"})
                if status == 200 and "x-amz-meta-evenkeel-redirect" in headers:
                    named |= {(piece["server"], piece["key"]) for piece in json.loads(body)["pieces"]}
        for server, name in sorted(held - named):
            self.fail(f"{server} holds {name}, which belongs to nothing")
        for server, name in sorted(named - held):
            self.fail(f"{server} should hold {name}")
        self.count("pieces held", len(held))

    def report(self):
        figures = self.figures
        for name, number in sorted(figures.items()):
            print(f"{number:12,} {name}")
        print(f"\nseed {self.args.seed}: {self.args.kills} kills; {figures['acknowledged']} requests and "
              f"{figures['batches acknowledged']} batches acknowledged; {len(self.wrong)} wrong")


def digest(body):
    return hashlib.blake2b(body, digest_size=16).hexdigest()


def main():
    parser = argparse.ArgumentParser(prog="cargo xtask campaign crashes")
    parser.add_argument("--evenkeel", required=True, help="the program to kill")
    parser.add_argument("--kills", type=int, default=200, help="how many processes are killed (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--port", type=int, default=19100, help="the first of the ports on loopback (default %(default)s)")
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="evenkeel-crashes-")
    campaign = Campaign(args, folder)
    try:
        campaign.run()
        campaign.report()
    finally:
        campaign.is_over = True
        for server in campaign.servers:
            if server.process and server.process.poll() is None:
                server.kill()
    if campaign.wrong:
        sys.exit(f"something is wrong; logs and data are in {folder}")
    shutil.rmtree(folder)


main()
