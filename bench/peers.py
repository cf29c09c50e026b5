"""The peers of the race: a JSON question a line on standard input, a JSON answer a line on standard output.

Times are CPU seconds without imports and without loading; a graph that the peer needs is built within the time.
The assignment is not extracted from a flow: the peer only says whether there is one.
"""

import json
import sys
import time

import numpy
import pandas
import rustworkx
import simpy
from ortools.graph.python import max_flow, min_cost_flow
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow


class Batch:
    """Source 0, then the requests, then the servers, then the sink."""

    def __init__(self, replicas, n_servers):
        self.replicas = replicas
        self.n_requests, self.copies = replicas.shape
        self.n_servers = n_servers
        self.first_server = 1 + self.n_requests
        self.sink = self.first_server + n_servers

    def solver(self, capacity):
        """OR-tools' solver with all arcs, in the types that it takes without a copy."""
        requests = numpy.arange(1, 1 + self.n_requests, dtype=numpy.int32)
        servers = numpy.arange(self.first_server, self.sink, dtype=numpy.int32)
        tail = numpy.concatenate(
            [numpy.zeros_like(requests), numpy.repeat(requests, self.copies), servers]
        )
        head = numpy.concatenate(
            [requests, self.replicas.ravel() + self.first_server, numpy.full_like(servers, self.sink)]
        )
        capacities = numpy.ones(len(tail), dtype=numpy.int64)
        capacities[-self.n_servers :] = capacity
        solver = max_flow.SimpleMaxFlow()
        solver.add_arcs_with_capacity(tail, head, capacities)
        return solver

    def flow(self, solver):
        if solver.solve(0, self.sink) != solver.OPTIMAL:
            raise RuntimeError("OR-tools found no maximum flow")
        return solver.optimal_flow()

    def ortools_flow(self, capacity):
        return self.flow(self.solver(capacity))

    def ortools_search(self):
        """The least capacity that serves all requests, by binary search on one graph."""
        least = -(-self.n_requests // self.n_servers)
        most = int(numpy.bincount(self.replicas[:, 0]).max())
        solver = self.solver(most)
        n_arcs = self.n_requests * (1 + self.copies) + self.n_servers
        to_sink = numpy.arange(n_arcs - self.n_servers, n_arcs, dtype=numpy.int32)
        while least < most:
            middle = (least + most) // 2
            solver.set_arcs_capacity(to_sink, numpy.full(self.n_servers, middle, dtype=numpy.int64))
            if self.flow(solver) == self.n_requests:
                most = middle
            else:
                least = middle + 1
        return least

    def ortools_changes(self, capacity):
        """The least cost if every request is at its first replica, and each change costs 1."""
        requests = numpy.arange(self.n_requests, dtype=numpy.int32)
        servers = numpy.arange(self.n_requests, self.n_requests + self.n_servers, dtype=numpy.int32)
        sink = self.n_requests + self.n_servers
        tail = numpy.concatenate([numpy.repeat(requests, self.copies), servers])
        head = numpy.concatenate([self.replicas.ravel() + self.n_requests, numpy.full_like(servers, sink)])
        capacities = numpy.ones(len(tail), dtype=numpy.int64)
        capacities[-self.n_servers :] = capacity
        costs = numpy.zeros(len(tail), dtype=numpy.int64)
        costs[: self.n_requests * self.copies] = numpy.arange(self.n_requests * self.copies) % self.copies > 0
        supplies = numpy.zeros(sink + 1, dtype=numpy.int64)
        supplies[: self.n_requests] = 1
        supplies[sink] = -self.n_requests
        solver = min_cost_flow.SimpleMinCostFlow()
        solver.add_arcs_with_capacity_and_unit_cost(tail, head, capacities, costs)
        solver.set_nodes_supplies(numpy.arange(sink + 1, dtype=numpy.int32), supplies)
        if solver.solve() != solver.OPTIMAL:
            raise RuntimeError("OR-tools found no flow")
        return int(solver.optimal_cost())

    def scipy_flow(self, capacity):
        out_degrees = numpy.ones(self.sink + 1, dtype=numpy.int32)
        out_degrees[0] = self.n_requests
        out_degrees[1 : self.first_server] = self.copies
        out_degrees[self.sink] = 0
        starts = numpy.concatenate([[0], numpy.cumsum(out_degrees)]).astype(numpy.int32)
        heads = numpy.concatenate(
            [
                numpy.arange(1, self.first_server, dtype=numpy.int32),
                numpy.sort(self.replicas, axis=1).ravel() + self.first_server,
                numpy.full(self.n_servers, self.sink, dtype=numpy.int32),
            ]
        )
        capacities = numpy.ones(len(heads), dtype=numpy.int32)
        capacities[-self.n_servers :] = capacity
        shape = (self.sink + 1, self.sink + 1)
        graph = csr_array((capacities, heads, starts), shape=shape)
        return int(maximum_flow(graph, 0, self.sink, method="dinic").flow_value)


class Peers:
    def __init__(self):
        self.batch = None
        self.graph = None
        self.jobs = None

    def load_batch(self, file, copies, servers):
        replicas = numpy.fromfile(file, dtype="<u4").astype(numpy.int32)
        self.batch = Batch(replicas.reshape(-1, copies), servers)

    def load_edges(self, left, right, n_left, n_right):
        left, right = (numpy.fromfile(file, dtype="<u4").tolist() for file in (left, right))
        self.graph = rustworkx.PyGraph(multigraph=True)
        self.graph.add_nodes_from(range(n_left + n_right))
        self.graph.add_edges_from_no_data([(a, n_left + b) for a, b in zip(left, right)])

    def load_jobs(self, servers, service, n_servers, gap):
        servers, service = (numpy.fromfile(file, dtype="<u4").tolist() for file in (servers, service))
        self.jobs = (servers, service, n_servers, gap)

    def simpy_queues(self):
        return timed(lambda: simulate(*self.jobs))

    def ortools_flow(self, capacity):
        capacity = numpy.asarray(capacity)  # one for all servers, or one each
        return timed(lambda: self.batch.ortools_flow(capacity))

    def ortools_changes(self, capacity):
        capacity = numpy.asarray(capacity)
        return timed(lambda: self.batch.ortools_changes(capacity))

    def ortools_search(self):
        return timed(self.batch.ortools_search)

    def scipy_flow(self, capacity):
        return timed(lambda: self.batch.scipy_flow(capacity))

    def rustworkx_colours(self):
        answer = timed(lambda: rustworkx.graph_bipartite_edge_color(self.graph))
        answer["value"] = len(set(answer["value"].values()))
        return answer

    def pandas_read(self, file):
        # Wall time: the command reports its reading so.
        return timed(lambda: len(pandas.read_csv(file)), clock=time.perf_counter)


def simulate(servers, service, n_servers, gap):
    """A resource for each server, a process for each job, as SimPy's own examples have it."""
    environment = simpy.Environment()
    resources = [simpy.Resource(environment) for _ in range(n_servers)]

    def job(server, span):
        with resources[server].request() as turn:
            yield turn
            yield environment.timeout(span)

    def arrivals():
        for server, span in zip(servers, service):
            environment.process(job(server, span))
            yield environment.timeout(gap)

    environment.process(arrivals())
    environment.run()
    return environment.now


def timed(run, clock=time.process_time):
    start = clock()
    value = run()
    return {"seconds": clock() - start, "value": value}


def main():
    peers = Peers()
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer = getattr(peers, question.pop("do"))(**question)
        except Exception as error:  # told to the race, which ends with it
            answer = {"error": repr(error)}
        print(json.dumps(answer or {}), flush=True)


main()
