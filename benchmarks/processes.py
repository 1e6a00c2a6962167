"""Collectives, and a step of data parallel training, among processes of this machine, in milliseconds.

    python -m benchmarks.processes                Bireme beside Paddle, both by gloo, with two processes
    python -m benchmarks.processes --processes 4  with four

Every round starts the processes of each peer with its own launcher, one peer after the other; what is measured is the
median of repeated calls in the first process, after calls that do not count. The losses of the steps are compared.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import Floors, apart, cell, head, median, ratio, spread, table

ROOT = Path(__file__).resolve().parents[1]
NAMES = {"bireme": "Bireme", "paddle": "PaddlePaddle"}
SIZES = {"4 B": 1, "1 MiB": 1 << 18, "16 MiB": 1 << 22}
WARM = 3


def timed(call, repeats):
    """Median time of a call in milliseconds."""
    times = []
    for turn in range(WARM + repeats):
        start = time.perf_counter()
        call()
        if turn >= WARM:
            times.append((time.perf_counter() - start) * 1e3)
    return median(times)


def collectives(paddle, repeats):
    dist, found = paddle.distributed, {}
    for name, size in SIZES.items():
        x = paddle.ones([size])
        found[f"all_reduce, {name}"] = timed(lambda x=x: dist.all_reduce(x, op=dist.ReduceOp.MAX), repeats)
        found[f"broadcast, {name}"] = timed(lambda x=x: dist.broadcast(x, 0), repeats)
        found[f"all_gather, {name}"] = timed(lambda x=x: dist.all_gather([], x), repeats)
    return found


def step(paddle, repeats, width):
    """A step of a perceptron under DataParallel, and its first losses."""
    nn, rng = paddle.nn, np.random.default_rng(0)
    net = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))
    for p in net.parameters():
        p.set_value((rng.standard_normal(p.shape) / np.sqrt(p.shape[0])).astype("float32"))
    model = paddle.DataParallel(net)
    optimizer = paddle.optimizer.Momentum(0.01, parameters=model.parameters())
    rng = np.random.default_rng(paddle.distributed.get_rank())
    x = paddle.to_tensor(rng.standard_normal((32, 64)).astype("float32"))
    y, losses = paddle.to_tensor(rng.integers(0, 10, 32)), []

    def once():
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss.numpy()))

    return {f"step, width {width}": timed(once, repeats)}, losses[:3]


def serve(options):
    """One process of a peer."""
    if options.peer == "paddle":
        import paddle
    else:
        import bireme as paddle
    paddle.distributed.init_parallel_env()
    found = collectives(paddle, options.repeats) if paddle.distributed.is_initialized() else {}
    steps, losses = step(paddle, options.repeats, 64 if options.tiny else 1024)
    if paddle.distributed.get_rank() == 0:
        Path(options.out).write_text(json.dumps([{**found, **steps}, losses]))


def turn(name, options, folder):
    """What one launch of a peer's processes has measured; a text if it did not."""
    out = os.path.join(folder, "out.json")
    Path(out).unlink(missing_ok=True)
    launcher = [sys.executable, "-W", "ignore", "-m", f"{name}.distributed.launch"]
    command = [*launcher, f"--nproc_per_node={options.processes}", f"--log_dir={folder}", __file__, "--peer", name]
    command += ["--out", out, "--repeats", str(options.repeats), *(["--tiny"] if options.tiny else [])]
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True)
    if not os.path.exists(out):
        said = (done.stdout + done.stderr).strip().splitlines()
        return said[-1] if said else "its processes ended"
    return json.loads(Path(out).read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2, help="processes that work together (default 2)")
    parser.add_argument("--repeats", type=int, default=20, help="calls of each kind that count (default 20)")
    parser.add_argument("--rounds", type=int, default=7, help="launches of each peer (default 7)")
    parser.add_argument("--peers", nargs="+", choices=NAMES, default=list(NAMES), help="which peers (default all)")
    parser.add_argument("--tiny", action="store_true", help="a small network")
    parser.add_argument("--peer", choices=NAMES, help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        return serve(options)
    head(f"processes: {options.processes} processes on this machine, by gloo")
    found, losses, missing = {name: {} for name in options.peers}, {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            for name in options.peers:
                got = turn(name, options, folder)
                if isinstance(got, str):
                    missing[name] = got
                    continue
                for what, ms in got[0].items():
                    found[name].setdefault(what, []).append(ms)
                losses[name] = got[1]
    floors, rows = Floors(), []
    for what, ours in found.get("bireme", {}).items():
        theirs = found.get("paddle", {}).get(what, [])
        rows.append((what, cell(median(ours)), spread(ours), cell(median(theirs)), cell(ratio(ours, theirs))))
        if what.startswith("step"):
            floors.at_most(f"{what}: bireme / Paddle", ratio(ours, theirs), 1.0)
    table(("what", "bireme ms", "middle half", "Paddle ms", "bireme/Paddle"), rows)
    print(f"losses differ by {apart(losses):.1e} at most")
    for name, said in missing.items():
        print(f"{NAMES[name]}: not measured, {said}")
    return floors.show()


if __name__ == "__main__":
    sys.exit(main())
