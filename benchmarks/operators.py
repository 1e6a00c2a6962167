"""Common operators one by one: small and large inputs, forward alone and with backward, beside torch and Paddle.

Each figure is the time of one call in a batch of calls on different inputs (20 small ones, 3 large ones), all results
waited for at the end: eager code as it is written, without letting a compiler merge equal work. Floors: in each of the
four cells the geometric mean over the operators is at most Paddle's; on large inputs no operator takes over three times
torch's time, but for those in REASONS, which say why.
"""

import argparse
import importlib
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.measure import Floors, cell, head, median, ratio, table
from benchmarks.peers import Peers

CELLS = [(size, grad) for size in ("small", "large") for grad in (False, True)]
CALLS = {"small": 20, "large": 3}
_BATCHED = "XLA's batched product of small matrices reaches 70 GFLOP/s on two cores, one by one it is slower still; MKL has 210"
REASONS = {
    "cumsum": "XLA has no running sum along the last axis: every form that was tried takes 4 times torch's and more",
    "max of an axis": "XLA's maximum along the last axis takes 2.3 times torch's in the best form that was found; the rest is the hand-over",
    "bmm": _BATCHED,
    "einsum": _BATCHED,
}


def floats(rng, *shape):
    return (rng.standard_normal(shape) * 0.5).astype(np.float32)


def positive(rng, *shape):
    return rng.uniform(0.1, 2.0, shape).astype(np.float32)


def square(n):
    return {"small": (16, 16), "large": (n, n)}


def inputs(kind, size, rng):
    """The operands of one call, by kind."""
    n, m = square(1024)[size]
    rows = 32 if size == "large" else 2
    return {
        "one": lambda: [floats(rng, n, m)],
        "positive": lambda: [positive(rng, n, m)],
        "two": lambda: [floats(rng, n, m), positive(rng, n, m)],
        "row": lambda: [floats(rng, n, m), floats(rng, m), floats(rng, m)],
        "product": lambda: [floats(rng, n // 2, m // 2), floats(rng, m // 2, n // 2)],
        "batched": lambda: [floats(rng, 16, n // 8, m // 8), floats(rng, 16, m // 8, n // 8)],
        "linear": lambda: [floats(rng, n // 2, m // 2), floats(rng, m // 2, n // 2), floats(rng, n // 2)],
        "rows": lambda: [floats(rng, n, m), rng.integers(0, n, n // 2)],
        "places": lambda: [floats(rng, n, m), rng.integers(0, m, (n, m // 4))],
        "mask": lambda: [floats(rng, n, m), rng.random((n, m)) > 0.5, floats(rng, n, m)],
        "labels": lambda: [floats(rng, n, m), rng.integers(0, m, n)],
        "image": lambda: [
            floats(rng, rows, 16, n // 16 if size == "large" else 8, n // 16 if size == "large" else 8),
            floats(rng, 16, 16, 3, 3),
        ],
    }[kind]()


# name: kind of inputs, in Paddle's interface, in torch's; a None in place of a gradient: not differentiable
OPERATORS = {
    "add": ("two", lambda p, x, y: x + y, lambda t, x, y: x + y),
    "subtract": ("two", lambda p, x, y: x - y, lambda t, x, y: x - y),
    "multiply": ("two", lambda p, x, y: x * y, lambda t, x, y: x * y),
    "divide": ("two", lambda p, x, y: x / y, lambda t, x, y: x / y),
    "maximum": ("two", lambda p, x, y: p.maximum(x, y), lambda t, x, y: t.maximum(x, y)),
    "pow": ("one", lambda p, x: x**2, lambda t, x: x**2),
    "exp": ("one", lambda p, x: p.exp(x), lambda t, x: t.exp(x)),
    "log": ("positive", lambda p, x: p.log(x), lambda t, x: t.log(x)),
    "sqrt": ("positive", lambda p, x: p.sqrt(x), lambda t, x: t.sqrt(x)),
    "sin": ("one", lambda p, x: p.sin(x), lambda t, x: t.sin(x)),
    "tanh": ("one", lambda p, x: p.tanh(x), lambda t, x: t.tanh(x)),
    "sigmoid": ("one", lambda p, x: p.nn.functional.sigmoid(x), lambda t, x: t.sigmoid(x)),
    "relu": ("one", lambda p, x: p.nn.functional.relu(x), lambda t, x: t.relu(x)),
    "gelu": ("one", lambda p, x: p.nn.functional.gelu(x), lambda t, x: t.nn.functional.gelu(x)),
    "clip": ("one", lambda p, x: p.clip(x, -0.5, 0.5), lambda t, x: t.clip(x, -0.5, 0.5)),
    "softmax": ("one", lambda p, x: p.nn.functional.softmax(x) ** 2, lambda t, x: t.softmax(x, -1) ** 2),
    "log_softmax": ("one", lambda p, x: p.nn.functional.log_softmax(x), lambda t, x: t.log_softmax(x, -1)),
    "layer_norm": (
        "row",
        lambda p, x, w, b: p.nn.functional.layer_norm(x, x.shape[-1:], w, b),
        lambda t, x, w, b: t.nn.functional.layer_norm(x, x.shape[-1:], w, b),
    ),
    "sum": ("one", lambda p, x: p.sum(x), lambda t, x: t.sum(x)),
    "mean of an axis": ("one", lambda p, x: p.mean(x, axis=0), lambda t, x: t.mean(x, 0)),
    "max of an axis": ("one", lambda p, x: p.max(x, axis=-1), lambda t, x: t.amax(x, -1)),
    "var": ("one", lambda p, x: p.var(x, axis=-1), lambda t, x: t.var(x, -1)),
    "logsumexp": ("one", lambda p, x: p.logsumexp(x, axis=-1), lambda t, x: t.logsumexp(x, -1)),
    "norm": ("one", lambda p, x: p.linalg.norm(x), lambda t, x: t.linalg.norm(x)),
    "cumsum": ("one", lambda p, x: p.cumsum(x, axis=-1), lambda t, x: t.cumsum(x, -1)),
    "argmax": ("one", lambda p, x: p.argmax(x, axis=-1), lambda t, x: t.argmax(x, -1)),
    "sort": ("one", lambda p, x: p.sort(x, axis=-1), lambda t, x: t.sort(x, -1)[0]),
    "topk": ("one", lambda p, x: p.topk(x, 8)[0], lambda t, x: t.topk(x, 8)[0]),
    "matmul": ("product", lambda p, x, y: p.matmul(x, y), lambda t, x, y: t.matmul(x, y)),
    "bmm": ("batched", lambda p, x, y: p.bmm(x, y), lambda t, x, y: t.bmm(x, y)),
    "linear": ("linear", lambda p, x, w, b: p.nn.functional.linear(x, w, b), lambda t, x, w, b: t.addmm(b, x, w)),
    "einsum": (
        "batched",
        lambda p, x, y: p.einsum("bij,bjk->bik", x, y),
        lambda t, x, y: t.einsum("bij,bjk->bik", x, y),
    ),
    "transpose": ("one", lambda p, x: x.transpose([1, 0]) + 1.0, lambda t, x: x.transpose(1, 0).contiguous() + 1.0),
    "concat": ("two", lambda p, x, y: p.concat([x, y], axis=1), lambda t, x, y: t.concat([x, y], 1)),
    "stack": ("two", lambda p, x, y: p.stack([x, y]), lambda t, x, y: t.stack([x, y])),
    "slice": ("one", lambda p, x: x[1:-1, ::2] * 2.0, lambda t, x: x[1:-1, ::2] * 2.0),
    "where": ("mask", lambda p, x, m, y: p.where(m, x, y), lambda t, x, m, y: t.where(m, x, y)),
    "index_select": ("rows", lambda p, x, i: p.index_select(x, i), lambda t, x, i: t.index_select(x, 0, i)),
    "take_along_axis": (
        "places",
        lambda p, x, i: p.take_along_axis(x, i, 1),
        lambda t, x, i: t.take_along_dim(x, i, 1),
    ),
    "embedding": (
        "rows",
        lambda p, x, i: p.nn.functional.embedding(i, x),
        lambda t, x, i: t.nn.functional.embedding(i, x),
    ),
    "cross_entropy": (
        "labels",
        lambda p, x, y: p.nn.functional.cross_entropy(x, y),
        lambda t, x, y: t.nn.functional.cross_entropy(x, y),
    ),
    "conv2d": (
        "image",
        lambda p, x, w: p.nn.functional.conv2d(x, w, padding=1),
        lambda t, x, w: t.nn.functional.conv2d(x, w, padding=1),
    ),
    "max_pool2d": (
        "image",
        lambda p, x, w: p.nn.functional.max_pool2d(x, 2),
        lambda t, x, w: t.nn.functional.max_pool2d(x, 2),
    ),
    "avg_pool2d": (
        "image",
        lambda p, x, w: p.nn.functional.avg_pool2d(x, 2),
        lambda t, x, w: t.nn.functional.avg_pool2d(x, 2),
    ),
}
NO_GRADIENT = {"argmax"}


def paddle_run(paddle, name, size, grad):
    """A function that makes all calls of one figure and waits for them; `paddle` may be Bireme."""
    kind, fn, _ = OPERATORS[name]
    rng = np.random.default_rng(0)
    operands = [[paddle.to_tensor(a) for a in inputs(kind, size, rng)] for _ in range(CALLS[size])]
    wanted = [x for xs in operands for x in xs if grad and x.dtype == paddle.float32]
    for x in wanted:
        x.stop_gradient = False
    seeds = [paddle.ones_like(fn(paddle, *xs)) for xs in operands] if grad else []
    deferred = hasattr(paddle, "debug")  # Paddle's results are there when the call returns

    def run():
        for x in wanted:  # those of the run before: Paddle's may be read until they are cleared
            x.clear_gradient(False)
        outs = [fn(paddle, *xs) for xs in operands]
        if grad:
            paddle.autograd.backward(outs, seeds)
            outs = [x.grad for x in wanted if x.grad is not None]
        if deferred:
            for x in outs:
                array = x._array()
                if not isinstance(array, np.ndarray):
                    array.block_until_ready()
        return outs

    return run


def torch_run(torch, name, size, grad):
    kind, _, fn = OPERATORS[name]
    rng = np.random.default_rng(0)
    operands = [[torch.from_numpy(a) for a in inputs(kind, size, rng)] for _ in range(CALLS[size])]
    wanted = [x for xs in operands for x in xs if grad and x.is_floating_point()]
    for x in wanted:
        x.requires_grad_()
    seeds = [torch.ones_like(fn(torch, *xs)) for xs in operands] if grad else []

    def run():
        outs = [fn(torch, *xs) for xs in operands]
        if grad:
            torch.autograd.backward(outs, seeds)
            outs = [x.grad for x in wanted if x.grad is not None]
            for x in wanted:
                x.grad = None
        return outs

    return run


def make(name, names):
    """In the peer's process: answers (size, grad, repeats) with microseconds a call and a checksum, by operator."""
    framework = importlib.import_module(name)
    build = torch_run if name == "torch" else paddle_run
    runs = {}

    def answer(size, grad, repeats, warm):
        found = {}
        for op in names:
            if grad and op in NO_GRADIENT:
                continue
            key = op, size, grad
            if key not in runs:
                runs[key] = build(framework, op, size, grad)
            run, times = runs[key], []
            for _ in range(warm):
                run()
            for _ in range(repeats):
                start = time.perf_counter()
                out = run()
                times.append((time.perf_counter() - start) / CALLS[size] * 1e6)
            total = sum(float(np.abs(np.asarray(o.detach().numpy(), np.float64)).sum()) for o in out)
            found[op] = median(times), total
        return found

    return answer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="turns of each peer (default 7)")
    parser.add_argument("--repeats", type=int, default=5, help="batches of calls timed in each turn (default 5)")
    parser.add_argument("--size", choices=CALLS, help="small or large inputs alone")
    parser.add_argument("--only", nargs="+", choices=OPERATORS, default=list(OPERATORS), help="some of the operators")
    options = parser.parse_args()
    cells = [c for c in CELLS if options.size in (None, c[0])]
    head(
        f"operators: {len(options.only)} of them, float32, {CALLS['small']} small or {CALLS['large']} large calls at a time"
    )
    floors, columns, wrong = Floors(), {}, []
    with Peers() as peers:
        for name in ("bireme", "torch", "paddle"):
            peers.start(name, make, name, options.only)
        for size, grad in cells:
            for name in list(peers.live):
                peers.ask(name, size, grad, 1, 4)
            # memory that a call takes for the first time is slow
            answers = peers.turns(options.rounds, size, grad, options.repeats, 3)
            for op in options.only:
                if grad and op in NO_GRADIENT:
                    continue
                us = {name: [turn[op][0] for turn in turns] for name, turns in answers.items()}
                sums = [turns[-1][op][1] for turns in answers.values() if turns]
                if sums and max(sums) - min(sums) > 1e-3 * max(sums) + 1e-6:
                    wrong.append(f"{op}, {size}: the peers' results add up to {sums}")
                ours = us.get("bireme", [])
                columns[op, size, grad] = [ratio(ours, us.get(peer, [])) for peer in ("torch", "paddle")], median(ours)
        peers.report()
    what = [f"{size}{', backward' if grad else ''}" for size, grad in cells]
    rows = []
    for op in options.only:
        found = [columns.get((op, *c), ([np.nan, np.nan], np.nan)) for c in cells]
        rows.append(
            (op, *[f"{cell(us, '{:.0f}')} us  {cell(t)}  {cell(p)}" for (t, p), us in found], REASONS.get(op, ""))
        )
    means = {}
    for c in cells:
        for i, peer in enumerate(("torch", "paddle")):
            values = [columns[op, *c][0][i] for op in options.only if (op, *c) in columns]
            means[c, peer] = float(np.exp(np.nanmean(np.log(values)))) if values else np.nan
    rows.append(("geometric mean", *[f"{cell(means[c, 'torch'])}  {cell(means[c, 'paddle'])}" for c in cells], ""))
    table(("operator: us, /torch, /paddle", *what, "why"), rows)
    for line in wrong:
        print(f"DIFFERENT RESULTS {line}")
    for c, name in zip(cells, what, strict=True):
        floors.at_most(f"{name}: geometric mean, bireme / paddle", means[c, "paddle"], 1.0)
    slow = {
        op: max((columns[op, "large", g][0][0] for g in (False, True) if (op, "large", g) in columns), default=0.0)
        for op in options.only
    }
    unexplained = [op for op, worst in slow.items() if worst > 3 and op not in REASONS]
    floors.at_most("operators over 3 x torch on large inputs without a reason", len(unexplained), 0)
    if unexplained:
        print("over 3 x torch:", ", ".join(f"{op} {slow[op]:.1f}" for op in unexplained))
    return floors.show() or bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
