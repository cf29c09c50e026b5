"""Eight web servers behind shaped links."""

import random

import tools
from cluster import RATE_MBIT, Cluster
from data import MIB, File, metalink
from race import Contestant, Race

SERVERS = 8
CLIENTS = 16
EQUAL = [RATE_MBIT] * SERVERS
SLOW = [RATE_MBIT // 10] + EQUAL[1:]


def run(args, names):
    with Cluster(args.xtask, "nginx", SERVERS, CLIENTS) as cluster, Race(args, cluster) as race:
        file = File(race.folder, "file", args.mib * MIB, 1)
        file.serve(cluster.servers)
        for name in names:
            SCENARIOS[name](race, file)


def equal(race, file):
    one_client(race, file, f"One client, {race.args.mib} MiB, 8 equal mirrors", EQUAL, goal=1.0)


def slow(race, file):
    one_client(race, file, "The first mirror sends a tenth", SLOW, goal=0.8)


def later(race, file):
    one_client(race, file, "The first mirror falls to a tenth after a second", EQUAL, slow_later=0)


def speeds(race, file):
    one_client(race, file, "Speeds 1:2:4:8, twice each", [RATE_MBIT / 8 * 2 ** (i // 2) for i in range(SERVERS)])


def one_client(race, file, title, rates_mbit, goal=None, slow_later=None):
    """One client reads one file from all servers. `slow_later` is a server that falls to a tenth after a second."""
    cluster, args = race.cluster, race.args
    meta = metalink(race.path("file.meta4"), [file], [cluster.addresses()])
    cluster.shape_all(rates_mbit)
    goodputs = cluster.goodputs(file.name)
    bound, event = file.size / sum(goodputs), None
    if slow_later is not None:
        # An oracle uses what it can send before, and a tenth from then on.
        bound = 1 + (file.size - sum(goodputs)) / (sum(goodputs) - 0.9 * goodputs[slow_later])
        event = lambda: cluster.shape(slow_later, rates_mbit[slow_later] / 10)
    # Tools that know one mirror get a fast one.
    last = cluster.addresses()[-1]
    at_client = lambda command: [cluster.at("c1", command)]
    contestants = [
        Contestant("evenkeel get", lambda to: at_client(tools.evenkeel(args, [meta], to))),
        Contestant("aria2 (1 connection a server)", lambda to: at_client(tools.aria2(meta, to))),
        Contestant("aria2 (2 connections a server)", lambda to: at_client(tools.aria2(meta, to, 2))),
        Contestant("rclone (one mirror)", lambda to: at_client(tools.rclone_http(last, file.name, to)), once=True),
        Contestant("curl (one mirror)", lambda to: at_client(tools.curl([last + file.name], to)), once=True),
    ]
    race.race(title, contestants, file.size, bound, goal, before=lambda: cluster.shape_all(rates_mbit), event=event)


def clients(race, file):
    """Clients share out 256 files of 4 MiB. Most first copies are on two servers, the others anywhere."""
    cluster, args, draw = race.cluster, race.args, random.Random(7)
    files, holders = [], []
    for number in range(256):
        chosen = {draw.choices(range(SERVERS), [8, 4, 1, 1, 1, 1, 1, 1])[0]}
        while len(chosen) < 3:
            chosen.add(draw.choices(range(SERVERS), [4, 3, 1, 1, 1, 1, 1, 1])[0])
        files.append(File(race.folder, f"part{number:03}", 4 * MIB, 100 + number))
        holders.append(sorted(chosen))
        files[-1].serve(cluster.servers[holder] for holder in holders[-1])
    addresses = [[cluster.addresses()[holder] for holder in each] for each in holders]
    manifest = metalink(race.path("files.meta4"), files, addresses)
    # By hand, each client reads every sixteenth file.
    metas = [metalink(race.path(f"client{client}.meta4"), files[client::CLIENTS], addresses[client::CLIENTS])
             for client in range(CLIENTS)]
    cluster.shape_all(EQUAL)
    goodputs = cluster.goodputs(file.name)
    servers = race.path("servers.csv")
    with open(servers, "w") as out:
        out.write("server,rate\n")
        for address, rate in zip(cluster.addresses(), goodputs):
            out.write(f"{address.rstrip('/')},{int(rate)}\n")

    def ours(to):
        return [cluster.at(f"c{rank + 1}", tools.evenkeel(args, [manifest], to, "--servers", servers,
                                                          "--rank", str(rank), "--ranks", str(CLIENTS)))
                for rank in range(CLIENTS)]

    def by_hand(to):
        return [cluster.at(f"c{number + 1}", tools.aria2(meta, to)) for number, meta in enumerate(metas)]

    contestants = [Contestant(f"evenkeel get --ranks {CLIENTS}", ours), Contestant(f"{CLIENTS} × aria2", by_hand)]
    title = f"{CLIENTS} clients, 1 GiB in {len(files)} files with 3 copies and a hot spot"
    race.race(title, contestants, sum(file.size for file in files), least_time(files, holders, goodputs))


def least_time(files, holders, goodputs):
    """No schedule is shorter: for each set of servers, what only they hold, over what they can send together."""
    n, longest, only = len(goodputs), 0.0, {}
    for file, each in zip(files, holders):
        mask = sum(1 << holder for holder in each)
        only[mask] = only.get(mask, 0) + file.size
    for subset in range(1, 1 << n):
        held = sum(size for mask, size in only.items() if mask & ~subset == 0)
        longest = max(longest, held / sum(goodputs[i] for i in range(n) if subset >> i & 1))
    return longest


SCENARIOS = {"mirrors-equal": equal, "mirrors-slow": slow, "mirrors-later": later, "mirrors-speeds": speeds,
             "mirrors-clients": clients}
