"""Races of `evenkeel get` against other tools, on real servers in namespaces with shaped links.

Started by `cargo xtask campaign live`, as root. Prints tables in Markdown. In each table all contestants read the same
data in turn, several times; the least time of each counts. The bound is the number of bytes over the goodput of the links,
as curl measures it in the same run. The scenarios of Opass and Kafka have tables of their own.
"""

import argparse
import signal
import sys
import tempfile

import garage
import hdfs
import kafka
import loopback
import mirrors
import node
import objects
import opass
import writes
import xrootd

# Each brings up the cluster that its scenarios share.
GROUPS = [mirrors, xrootd, garage, hdfs, opass, kafka, loopback, objects, writes, node]


def main():
    names = [name for group in GROUPS for name in group.SCENARIOS]
    parser = argparse.ArgumentParser(prog="cargo xtask campaign live")
    parser.add_argument("--evenkeel", required=True, help="the program to race")
    parser.add_argument("--xtask", required=True, help="the program that brings clusters up")
    parser.add_argument("--s5cmd", required=True, help="s5cmd, which no Debian package contains")
    parser.add_argument("--hdfs-native", required=True, help="the reader of bench/live/peers/hdfs-native")
    parser.add_argument("--s3-load", required=True, help="the load generator of bench/live/peers/s3-load")
    parser.add_argument("--s3s-fs", required=True, help="an S3 server over a folder, of crates.io")
    parser.add_argument("--garage", required=True, help="Garage, as cargo xtask cluster up garage builds it")
    parser.add_argument("--disk", metavar="FOLDER", default=tempfile.gettempdir(),
                        help="where nodes and their peers keep data (default %(default)s)")
    parser.add_argument("--mib", type=int, default=256, help="size of the data behind shaped links (default %(default)s)")
    parser.add_argument("--objects", type=int, default=100_000, help="how many small objects (default %(default)s)")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each contestant (default %(default)s)")
    parser.add_argument("--only", metavar="WORD,…", default="",
                        help=f"only scenarios with one of these words in their names: {', '.join(names)}")
    parser.add_argument("--traces", metavar="FOLDER",
                        help="where the scenarios of Opass write what DataNodes sent over time, for evenkeel replay")
    args = parser.parse_args()
    words = args.only.split(",")
    wanted = [name for name in names if any(not word or f"-{word}-" in f"-{name}-" for word in words)]
    if not wanted:
        sys.exit(f"no scenario is called {args.only}; these are: {', '.join(names)}")
    # Also ends clusters and removes files.
    for end in (signal.SIGINT, signal.SIGTERM):
        signal.signal(end, lambda *_: sys.exit("interrupted"))
    for group in GROUPS:
        chosen = [name for name in group.SCENARIOS if name in wanted]
        if chosen:
            group.run(args, chosen)


main()
