"""Graph networks on a generated graph of 200,000 nodes and 2 million edges: GCN by messages and by a sparse product,
GraphSAGE with sampled neighbours, GAT with four heads. A step is forward, backward and Adam, and GraphSAGE's sampling.

Bireme and Paddle run the same lines, on `geometric` and `sparse`; torch has `index_select`, `index_add`, `scatter_reduce`
and `torch.sparse`. All start from the same weights and edges, which are sorted by destination, and their first losses are
compared: those of GraphSAGE on samples that NumPy drew. Floor: at most the time of the faster one.

    python -m benchmarks.graph_networks --alone     on a machine that others use: one core a peer, and its time on it
"""

import argparse
import importlib
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.measure import Floors, apart, cell, cores, head, median, spread, table
from benchmarks.measure import ratio as compared
from benchmarks.peers import Peers

NAMES = {"bireme": "Bireme", "torch": "torch", "paddle": "Paddle"}
NETWORKS = ("gcn", "gcn, sparse", "sage", "gat")
FULL = {"nodes": 200_000, "edges": 2_000_000, "width": 64, "classes": 16, "batch": 1024, "sizes": (10, 10)}
TINY = {"nodes": 200, "edges": 1_500, "width": 8, "classes": 4, "batch": 16, "sizes": (3, 2)}
HEADS, RATE, LOSSES, APART = 4, 0.01, 3, 1e-3


class Data:
    """The graph, its features and labels: every node has an edge to itself, others have more neighbours than most."""

    def __init__(self, nodes, edges, width, classes, batch, sizes):
        rng = np.random.default_rng(0)
        self.nodes, self.width, self.classes, self.batch, self.sizes = nodes, width, classes, batch, sizes
        drawn = edges - nodes
        keys = rng.integers(0, nodes, drawn) * nodes + (rng.random(drawn) ** 2 * nodes).astype(np.int64)
        keys = np.sort(np.concatenate([keys, np.arange(nodes) * (nodes + 1)]))
        self.dst, self.src = np.divmod(keys, nodes)
        self.starts = np.searchsorted(self.dst, np.arange(nodes + 1))
        self.norm = np.diff(self.starts).astype(np.float32)[:, None] ** -0.5
        self.values = (self.norm[self.dst] * self.norm[self.src])[:, 0]
        self.x = rng.standard_normal((nodes, width), np.float32)
        self.y = (self.x @ rng.standard_normal((width, classes), np.float32)).argmax(1)

    def weights(self, network):
        """First weights of a network by name."""
        rng, width, classes = np.random.default_rng(1), self.width, self.classes
        shapes = {"w1": (width, width), "b1": (width,), "w2": (width, classes), "b2": (classes,)}
        if network == "sage":
            shapes.update(own1=(width, width), own2=(width, classes))
        if network == "gat":
            shapes.update({f"{side}{i}": (1, HEADS, n // HEADS) for side in ("left", "right")
                           for i, n in ((1, width), (2, classes))})  # fmt: skip
        return {
            k: (rng.standard_normal(s, np.float32) * s[-2 if len(s) > 1 else -1] ** -0.5) for k, s in shapes.items()
        }

    def seeds(self, i):
        return np.random.default_rng(100 + i).permutation(self.nodes)[: self.batch]

    def sampled(self, i):
        """What GraphSAGE reads in a step, drawn here: for each hop, sources and destinations by new ID; and all nodes."""
        rng, nodes, hops = np.random.default_rng(200 + i), self.seeds(i), []
        for most in self.sizes:
            near = [rng.permutation(self.src[self.starts[v] : self.starts[v + 1]])[:most] for v in nodes]
            dst = np.repeat(np.arange(len(nodes)), [len(some) for some in near])
            flat = np.concatenate(near)
            reached = np.concatenate([nodes, np.setdiff1d(flat, nodes)])
            order = np.argsort(reached)
            hops.append((order[np.searchsorted(reached, flat, sorter=order)], dst, len(nodes)))
            nodes = reached
        return hops, nodes


class Paddle:
    """The networks as plain Paddle code."""

    def __init__(self, paddle, data):
        self.paddle, self.data, self.geometric = paddle, data, paddle.geometric
        self.x, self.y, self.src, self.dst = map(paddle.to_tensor, (data.x, data.y, data.src, data.dst))
        self.norm, self.colptr = paddle.to_tensor(data.norm), paddle.to_tensor(data.starts)
        n = data.nodes
        self.matrix = paddle.sparse.sparse_csr_tensor(data.starts, data.src, data.values, [n, n])

    def start(self, network):
        """Weights and optimizer of a network, as they are at first."""
        paddle = self.paddle
        self.p = {k: paddle.to_tensor(v, stop_gradient=False) for k, v in self.data.weights(network).items()}
        made = [paddle.create_parameter(v.shape, "float32") for v in self.p.values()]
        for parameter, v in zip(made, self.p.values(), strict=True):
            parameter.set_value(v)
        self.p = dict(zip(self.p, made, strict=True))
        self.optimizer = paddle.optimizer.Adam(RATE, parameters=made)

    def gcn(self):
        p = self.p

        def spread_out(x):
            return self.geometric.send_u_recv(x * self.norm, self.src, self.dst, "sum") * self.norm

        h = self.paddle.nn.functional.relu(spread_out(self.x @ p["w1"]) + p["b1"])
        return spread_out(h @ p["w2"]) + p["b2"], self.y

    def gcn_sparse(self):
        p, matmul = self.p, self.paddle.sparse.matmul
        h = self.paddle.nn.functional.relu(matmul(self.matrix, self.x @ p["w1"]) + p["b1"])
        return matmul(self.matrix, h @ p["w2"]) + p["b2"], self.y

    def gat(self):
        h = self.paddle.nn.functional.elu(self._attend(self.x, 1) + self.p["b1"])
        return self._attend(h, 2) + self.p["b2"], self.y

    def _attend(self, x, i):
        paddle, geometric, p, src, dst = self.paddle, self.geometric, self.p, self.src, self.dst
        z = (x @ p[f"w{i}"]).reshape([x.shape[0], HEADS, -1])
        ends = [(z * p[f"{side}{i}"]).sum(-1) for side in ("left", "right")]
        score = paddle.nn.functional.leaky_relu(geometric.send_uv(*ends, src, dst, "add"), 0.2)
        most = geometric.segment_max(score.detach(), dst)
        share = paddle.exp(score - paddle.gather(most, dst))
        out = geometric.send_ue_recv(z, share.unsqueeze(-1), src, dst, "mul", "sum")
        return (out / geometric.segment_sum(share, dst).unsqueeze(-1)).reshape([x.shape[0], -1])

    def sage(self, hops, nodes):
        p, paddle = self.p, self.paddle
        seeds = nodes[: self.data.batch]
        h = paddle.gather(self.x, nodes)
        for i, (src, dst, n) in enumerate(reversed(hops), 1):
            near = self.geometric.send_u_recv(h, src, dst, "mean", out_size=n)
            h = h[:n] @ p[f"own{i}"] + near @ p[f"w{i}"] + p[f"b{i}"]
            h = paddle.nn.functional.relu(h) if i == 1 else h
        return h, paddle.gather(self.y, seeds)

    def sampled(self, i):
        nodes, hops = self.paddle.to_tensor(self.data.seeds(i)), []
        for most in self.data.sizes:
            near, count = self.geometric.sample_neighbors(self.src, self.colptr, nodes, most)
            src, dst, reached = self.geometric.reindex_graph(nodes, near, count)
            hops.append((src, dst, nodes.shape[0]))
            nodes = reached
        return hops, nodes

    def given(self, hops, nodes):
        tensor = self.paddle.to_tensor
        return [(tensor(src), tensor(dst), n) for src, dst, n in hops], tensor(nodes)

    def update(self, found, labels):
        loss = self.paddle.nn.functional.cross_entropy(found, labels)
        loss.backward()
        self.optimizer.step()
        self.optimizer.clear_grad()
        return float(loss)


class Torch:
    """The same networks with torch: messages are gathered, and added up where they arrive."""

    def __init__(self, torch, data):
        torch.set_num_threads(cores())
        self.torch, self.data = torch, data
        self.x, self.y, self.src, self.dst = map(torch.from_numpy, (data.x, data.y, data.src, data.dst))
        self.norm, self.colptr = torch.from_numpy(data.norm), torch.from_numpy(data.starts)
        self.numbers = torch.empty(data.nodes, dtype=torch.int64)
        n = data.nodes
        # by coordinates: the gradient of a CSR product needs MKL
        self.matrix = torch.sparse_coo_tensor(
            torch.stack([self.dst, self.src]), torch.from_numpy(data.values), (n, n)
        ).coalesce()

    def start(self, network):
        self.p = {k: self.torch.from_numpy(v).requires_grad_() for k, v in self.data.weights(network).items()}
        self.optimizer = self.torch.optim.Adam(self.p.values(), RATE)

    def _received(self, messages, dst, n):
        return messages.new_zeros(n, *messages.shape[1:]).index_add(0, dst, messages)

    def gcn(self):
        p, n = self.p, self.data.nodes

        def spread_out(x):
            return self._received((x * self.norm).index_select(0, self.src), self.dst, n) * self.norm

        h = self.torch.relu(spread_out(self.x @ p["w1"]) + p["b1"])
        return spread_out(h @ p["w2"]) + p["b2"], self.y

    def gcn_sparse(self):
        p, mm = self.p, self.torch.sparse.mm
        h = self.torch.relu(mm(self.matrix, self.x @ p["w1"]) + p["b1"])
        return mm(self.matrix, h @ p["w2"]) + p["b2"], self.y

    def gat(self):
        h = self.torch.nn.functional.elu(self._attend(self.x, 1) + self.p["b1"])
        return self._attend(h, 2) + self.p["b2"], self.y

    def _attend(self, x, i):
        torch, p, src, dst, n = self.torch, self.p, self.src, self.dst, self.data.nodes
        z = (x @ p[f"w{i}"]).reshape(n, HEADS, -1)
        left, right = [(z * p[f"{side}{i}"]).sum(-1) for side in ("left", "right")]
        score = torch.nn.functional.leaky_relu(left.index_select(0, src) + right.index_select(0, dst), 0.2)
        with torch.no_grad():
            at = dst[:, None].expand(-1, HEADS)
            most = score.new_full((n, HEADS), -np.inf).scatter_reduce(0, at, score, "amax")
        share = torch.exp(score - most.index_select(0, dst))
        out = self._received(z.index_select(0, src) * share.unsqueeze(-1), dst, n)
        return (out / self._received(share, dst, n).unsqueeze(-1)).reshape(n, -1)

    def sage(self, hops, nodes):
        p = self.p
        seeds = nodes[: self.data.batch]
        h = self.x.index_select(0, nodes)
        for i, (src, dst, n) in enumerate(reversed(hops), 1):
            count = self._received(h.new_ones(len(dst), 1), dst, n).clamp(min=1)
            near = self._received(h.index_select(0, src), dst, n) / count
            h = h[:n] @ p[f"own{i}"] + near @ p[f"w{i}"] + p[f"b{i}"]
            h = self.torch.relu(h) if i == 1 else h
        return h, self.y[seeds]

    def sampled(self, i):
        """Without replacement: the neighbours of each node in random order, of which the first are taken."""
        torch, nodes, hops = self.torch, self.torch.from_numpy(self.data.seeds(i)), []
        for most in self.data.sizes:
            first = self.colptr[nodes]
            degree = self.colptr[nodes + 1] - first
            owner = torch.repeat_interleave(degree)
            place = torch.arange(len(owner)) - (torch.cumsum(degree, 0) - degree)[owner]
            order = torch.argsort(owner + torch.rand(len(owner), dtype=torch.float64))
            kept = order[place < most]
            dst = owner[kept]
            near = self.src[(first[owner] + place)[kept]]
            self.numbers[near] = -1
            self.numbers[nodes] = torch.arange(len(nodes))
            fresh = torch.unique(near[self.numbers[near] < 0])
            self.numbers[fresh] = torch.arange(len(nodes), len(nodes) + len(fresh))
            hops.append((self.numbers[near], dst, len(nodes)))
            nodes = torch.cat([nodes, fresh])
        return hops, nodes

    def given(self, hops, nodes):
        tensor = self.torch.from_numpy
        return [(tensor(src), tensor(dst), n) for src, dst, n in hops], tensor(nodes)

    def update(self, found, labels):
        loss = self.torch.nn.functional.cross_entropy(found, labels)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return float(loss.detach())


def make(name, sizes, alone):
    """In the peer's process: a function that gives the first losses of a network, or the milliseconds of a step."""
    if alone:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    clock = time.process_time if alone else time.perf_counter
    data = Data(**sizes)
    peer = (Torch if name == "torch" else Paddle)(importlib.import_module(name), data)
    count = iter(range(1 << 30))

    def step(network, drawn=None):
        forward = getattr(peer, network.replace(", ", "_"))
        inputs = () if network != "sage" else drawn or peer.sampled(next(count))
        return peer.update(*forward(*inputs))

    def answer(network, what, repeats=1):
        try:
            if what == "losses":
                peer.start(network)
                return [
                    step(network, peer.given(*data.sampled(i)) if network == "sage" else None) for i in range(LOSSES)
                ]
            times = []
            for _ in range(repeats + 1):
                start = clock()
                step(network)
                times.append((clock() - start) * 1e3)
            return median(times[1:])
        except (RuntimeError, NotImplementedError, ValueError) as missing:  # no kernel for it on CPU
            print(f"{name}, {network}: {str(missing).strip().splitlines()[-1][:100]}")
            return None

    return answer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="turns of each peer (default 7)")
    parser.add_argument("--repeats", type=int, default=2, help="steps in a turn (default 2)")
    parser.add_argument("--nodes", type=int, help="nodes of the graph, ten edges for each (default 200,000)")
    parser.add_argument("--tiny", action="store_true", help="a small graph, to try the script")
    parser.add_argument("--only", nargs="+", choices=NETWORKS, default=NETWORKS, help="some of the networks")
    parser.add_argument("--peers", nargs="+", choices=NAMES, default=list(NAMES), help="which peers (default all)")
    parser.add_argument("--alone", action="store_true", help="one core a peer, and the time it was on it")
    options = parser.parse_args()
    sizes = dict(TINY if options.tiny else FULL)
    if options.nodes:
        sizes.update(nodes=options.nodes, edges=10 * options.nodes)
    head("graph_networks: training steps on a graph", "graph     {nodes:,} nodes, {edges:,} edges, {width} features, "
         "{classes} classes; sage: {batch} nodes, {sizes} neighbours".format(**sizes),
         f"clock     {'one core a peer, time on the core' if options.alone else 'time on the wall'}")  # fmt: skip
    floors, rows = Floors(), []
    with Peers() as peers:
        for name in options.peers:
            threads = {"OMP_NUM_THREADS": "1", "FLAGS_paddle_num_threads": "1"} if options.alone else {}
            peers.start(name, make, name, sizes, options.alone, settings=threads)
        for network in options.only:
            losses = {name: peers.ask(name, network, "losses") for name in list(peers.live)}
            losses = {name: found for name, found in losses.items() if found}
            times = {name: found for name, found in
                     peers.turns(options.rounds, network, "time", options.repeats).items() if name in losses}  # fmt: skip
            ours = times.get("bireme", [])
            ratios = [compared(ours, times.get(name, [])) for name in ("torch", "paddle")]
            first = " ".join(f"{x:.4f}" for x in losses.get("bireme", []))
            figures = [cell(median(times.get(n, [])), "{:.1f}") for n in NAMES]
            rows.append((network, *figures, spread(ours), *map(cell, ratios), first, f"{apart(losses):.0e}"))
            worst = np.nan if np.isnan(ratios).all() else np.nanmax(ratios)
            floors.at_most(f"{network}: bireme / the faster peer", worst, 1.0)
            if len(losses) > 1:
                floors.at_most(f"{network}: losses apart", apart(losses) / APART, 1.0, f" x {APART:g}")
        peers.report()
    columns = ("milliseconds", *NAMES.values(), "middle half", "bireme/torch", "bireme/Paddle", "losses", "apart")
    table(columns, rows)
    return floors.show()


if __name__ == "__main__":
    sys.exit(main())
