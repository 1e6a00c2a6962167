"""A state of 1 GB saved and loaded: seconds, processor time, and memory beyond the state itself.

    python -m benchmarks.checkpoints                                 Bireme alone, or beside what is installed
    python -m benchmarks.checkpoints --python /path/to/python        peers by another interpreter, as one with orbax

The state is arrays of 16 MiB. Saving ends when the files are on the disk; "returns" is when a save in the background gives
the program back; loading is into arrays that are there already. Each peer is a process of its own, in turns.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import Floors, cell, head, median, ratio, table

ROOT = Path(__file__).resolve().parents[1]
PEERS = ("bireme", "orbax", "tensorstore")
EACH = 16 << 20


def peak():
    """The most memory in MiB since the last call, where the system tells it."""
    status = Path("/proc/self/status")
    if not status.exists():
        return float("nan")
    found = next(int(line.split()[1]) / 1024 for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    Path("/proc/self/clear_refs").write_text("5")
    return found


def timed(call):
    """Seconds, seconds of the processor, and how many MiB the process grew by on the way."""
    peak()
    before, start, cpu = peak(), time.perf_counter(), _processor_time()
    call()
    return {"seconds": time.perf_counter() - start, "cpu": _processor_time() - cpu, "grew": max(0.0, peak() - before)}


def _processor_time():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def numbers(count, size):
    rng = np.random.default_rng(0)
    row = rng.standard_normal(size // 4).astype("float32")
    return {f"w{i}": (row + i).reshape(-1, 1024 if size >= 4096 else 1) for i in range(count)}


def bireme(values, folder):
    import bireme
    from bireme.distributed import checkpoint

    state = {name: bireme.to_tensor(x) for name, x in values.items()}
    target = {name: bireme.to_tensor(np.ones_like(x)) for name, x in values.items()}
    values.clear()

    def save(**how):
        checkpoint.save_state_dict(state, f"{folder}/bireme", unique_id=0, **how)

    yield save
    yield lambda: save(async_save=True)
    yield checkpoint.clear_async_save_task_queue
    yield lambda: checkpoint.load_state_dict(target, f"{folder}/bireme")
    yield lambda: all(bool((state[name] == target[name]).all()) for name in state)


def orbax(values, folder):
    import jax
    import orbax.checkpoint as ocp

    state = {name: jax.numpy.asarray(x) for name, x in values.items()}
    target = jax.tree.map(jax.numpy.ones_like, state)
    values.clear()
    device = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    like = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=device), target)
    checkpointer = ocp.StandardCheckpointer()

    def save():
        checkpointer.save(f"{folder}/orbax", state, force=True)
        checkpointer.wait_until_finished()

    yield save
    yield lambda: checkpointer.save(f"{folder}/orbax2", state, force=True)
    yield checkpointer.wait_until_finished
    yield lambda: target.update(checkpointer.restore(f"{folder}/orbax2", like))
    yield lambda: all(bool((state[name] == target[name]).all()) for name in state)


def tensorstore(values, folder):
    import tensorstore as ts

    state = dict(values)
    target = {name: np.ones_like(x) for name, x in state.items()}
    values.clear()

    def opened(name, **how):
        spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": f"{folder}/tensorstore/{name}"}}
        return ts.open(spec, **how).result()

    def save():
        written = []
        for name, x in state.items():
            store = opened(name, create=True, delete_existing=True, dtype=ts.float32, shape=x.shape)
            written.append(store.write(x))
        return written

    running = []
    yield lambda: [one.result() for one in save()]
    yield lambda: running.extend(save())
    yield lambda: [one.result() for one in running]
    yield lambda: [np.copyto(target[name], opened(name).read().result()) for name in target]
    yield lambda: all((state[name] == target[name]).all() for name in state)


MAKERS = {"bireme": bireme, "orbax": orbax, "tensorstore": tensorstore}


def serve(options):
    """What one process of a peer measures."""
    count = max(1, options.megabytes * (1 << 20) // EACH)
    size = min(EACH, options.megabytes << 20)
    with tempfile.TemporaryDirectory() as folder:
        save, start, wait, load, equal = MAKERS[options.peer](numbers(count, size), folder)
        found = {"save": timed(save), "returns": timed(start), "rest": timed(wait)}
        found["load"] = timed(load)
        assert equal(), "what was loaded differs"
    print(json.dumps(found))


def turn(name, options):
    python = sys.executable if name == "bireme" or not options.python else options.python
    command = [python, "-W", "ignore", __file__, "--peer", name, "--megabytes", str(options.megabytes)]
    env = {**os.environ, "PYTHONPATH": str(ROOT) if name == "bireme" else "", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["it ended"])[-1]
    return json.loads(done.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1024, help="size of the state in MiB (default 1024)")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each peer (default 3)")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS), help="which peers (default all)")
    parser.add_argument("--python", help="interpreter that has the other peers (default: this one)")
    parser.add_argument("--peer", choices=PEERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        return serve(options)
    if options.python and shutil.which(options.python) is None:
        parser.error(f"expected an interpreter after --python, got {options.python}")
    head(f"checkpoints: {options.megabytes} MiB of float32 saved and loaded on one process")
    found, missing = {}, {}
    for _ in range(options.rounds):
        for name in options.peers:
            got = turn(name, options)
            if isinstance(got, str):
                missing[name] = got
            else:
                found.setdefault(name, []).append(got)
    rows = []
    for name, rounds in found.items():
        cells = [
            cell(median([one[what][which] for one in rounds]), form)
            for what in ("save", "returns", "load")
            for which, form in (("seconds", "{:.2f}"), ("cpu", "{:.2f}"), ("grew", "{:.0f}"))
        ]
        rows.append((name, *cells))
    parts = [f"{what} {which}" for what in ("save", "returns", "load") for which in ("s", "cpu s", "MiB")]
    table(("peer", *parts), rows)
    floors = Floors()
    ours = found.get("bireme", [])
    for name, rounds in found.items():
        for what in ("save", "load") if name != "bireme" else ():
            both = ([one[what]["cpu"] for one in some] for some in (ours, rounds))
            floors.at_most(f"{what}, processor time: bireme / {name}", ratio(*both), 1.0)
    for name, said in missing.items():
        print(f"{name}: not measured, {said}")
    return floors.show()


if __name__ == "__main__":
    sys.exit(main())
