"""Real servers in network namespaces."""

import configparser
import json
import os
import subprocess
import sys

# What each server may send, unless a scenario says otherwise.
RATE_MBIT = 100


def run(command, **options):
    """What a command prints. The race ends if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


class Cluster:
    """Servers and clients. Links have no limits until a scenario shapes them, so that filling servers is quick."""

    def __init__(self, xtask, kind, servers, clients=1, replicas=None, more=()):
        self.xtask = xtask
        options = ["--servers", str(servers), "--clients", str(clients), "--rate", "none", "--json", *more]
        if replicas:
            options += ["--replicas", str(replicas)]
        state = json.loads(self.task(kind, "up", *options))
        self.servers = state["servers"]
        # Settings of the user's own for S3 would apply to these servers, too.
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        self.login = []
        if "credentials" in state:
            self.sign_in(state["credentials"])
        # For evenkeel put, where servers are apart.
        self.file = state.get("cluster")
        if kind == "hdfs":
            self.source, self.hadoop = state["source"], state["client"]
            self.environment["HADOOP_CONF_DIR"] = state["configuration"]
        if kind == "kafka":
            self.kafka, self.bootstrap = state["client"], state["bootstrap"]

    def sign_in(self, file):
        """Gives all tools the credentials, and curl its own options for them."""
        parser = configparser.ConfigParser()
        parser.read(file)
        own = parser["default"]
        self.environment |= {"AWS_SHARED_CREDENTIALS_FILE": file, "AWS_REGION": own["region"],
                             "RCLONE_S3_REGION": own["region"]}
        self.login = ["--aws-sigv4", f"aws:amz:{own['region']}:s3", "-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD",
                      "--user", f"{own['aws_access_key_id']}:{own['aws_secret_access_key']}"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.task("down")

    def task(self, *args):
        return run([self.xtask, "cluster", *args])

    def addresses(self):
        return [server["address"] for server in self.servers]

    def at(self, host, command):
        """The command, run at a host."""
        return ["ip", "netns", "exec", f"ek-{host}", *command]

    def shape(self, server, mbit):
        self.task("shape", self.servers[server]["name"], f"{mbit}mbit")

    def shape_all(self, rates_mbit):
        for server, mbit in enumerate(rates_mbit):
            self.shape(server, mbit)

    def goodputs(self, key):
        """Bytes per second of each link, read alone, after its burst."""
        return [self.goodput(server["address"] + key) for server in self.servers]

    def goodput(self, url):
        command = ["curl", "-s", "-o", "/dev/null", "--max-time", "1.5", *self.login,
                   "-w", "%{size_download} %{time_total} %{time_starttransfer}", url]
        done = subprocess.run(self.at("c1", command), stdout=subprocess.PIPE, text=True)
        size, total, start = map(float, done.stdout.split())
        return size / (total - start)
