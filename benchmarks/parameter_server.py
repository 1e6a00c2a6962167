"""Rows of parameter servers pulled and pushed by workers on this machine, in ids a second.

    python -m benchmarks.parameter_server                    two servers, two workers, a million ids
    python -m benchmarks.parameter_server --ids 10000000     ten million, which takes 2 GB of memory
    python -m benchmarks.parameter_server --kill             and then save, kill a server, start it again, and compare rows

Servers and workers are processes, and talk over loopback. Each worker makes its share of the rows by pulling ids that are
new, then pulls and pushes batches of ids drawn from all, all workers at once; the rates are those of all workers together,
median of the rounds. Rows have 16 values under Adagrad, so 32 floats.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import Floors, head, median, spread, table
from bireme.distributed import world
from bireme.distributed.ps.client import Client
from bireme.distributed.ps.id_index import mixed
from bireme.distributed.ps.server import Server

WIDTH = 16
TABLE = {
    "name": "rows", "width": WIDTH, "rule": {"kind": "adagrad", "epsilon": 1e-6, "initial": 0.0},
    "initial": {"kind": "uniform", "low": -0.1, "high": 0.1, "seed": 0}, "entry": "", "storage": False,
}  # fmt: skip


def ids_of(numbers):
    """Ids of 64 bits, all different."""
    return np.sort(mixed(numbers.astype(np.uint64)))


def work(options, addresses, rank):
    """What one worker has measured: ids a second of each kind, of all workers together, for each round."""
    client = Client(addresses, rank)
    client.all("Make", {"tables": [TABLE], "dense": []})
    rng = np.random.default_rng(rank)
    found = {"made and pulled": [], "pulled": [], "pushed": []}

    def timed(kind, calls):
        client.gather(b"")  # all workers begin together
        start = time.perf_counter()
        count = sum(call() for call in calls)
        client.gather(b"")
        found[kind].append(count * options.workers / (time.perf_counter() - start))

    own = np.array_split(np.arange(options.ids), options.workers)[rank]
    fresh = [ids_of(own[i : i + options.batch]) for i in range(0, own.size, options.batch)]
    timed("made and pulled", [lambda ids=ids: len(client.pull("rows", ids, WIDTH, True)) for ids in fresh])
    for _ in range(options.rounds):
        drawn = [ids_of(np.unique(rng.integers(0, options.ids, options.batch))) for _ in range(options.batches)]
        timed("pulled", [lambda ids=ids: len(client.pull("rows", ids, WIDTH, True)) for ids in drawn])
        pushes = [(ids, np.ones((ids.size, WIDTH), np.float32), np.ones((ids.size, 2), np.float32)) for ids in drawn]
        timed("pushed", [lambda one=one: client.push({"rows": one}, {}, 0.1) or one[0].size for one in pushes])
    sizes = [told["tables"]["rows"] for told in client.all("Stat", {})]
    client.gather(b"")
    lost = killed(options, client, rank, rng) if options.kill else {}
    client.gather(b"")
    client.all("Stop", {"worker": rank})
    client.close()
    rows, nbytes = (sum(each) for each in zip(*sizes))
    return {"rates": found, "rows": rows, "bytes": nbytes, **lost}


def killed(options, client, rank, rng):
    """Save, have a server killed and started again by the first process, and compare rows of a sample with those before."""
    drawn = ids_of(np.unique(rng.integers(0, options.ids, 4 * options.batch)))
    before = client.pull("rows", drawn, WIDTH, False)
    client.gather(b"")
    folder = Path(options.out).parent
    if rank == 0:
        start = time.perf_counter()
        client.save(str(folder / "saved"))
        Path(folder, "saved in").write_text(str(time.perf_counter() - start))
        Path(folder, "kill").touch()
        while not Path(folder, "restarted").exists():
            time.sleep(0.05)
    start = time.perf_counter()
    client.gather(b"")  # the first server, which is not killed, keeps count of who has come
    after = client.pull("rows", drawn, WIDTH, False)  # waits until the other one answers again
    again = sum(told["tables"]["rows"][0] for told in client.all("Stat", {}))
    same = bool(np.array_equal(before, after)) and again == options.ids
    told = client.gather(b"1" if same else b"0")
    seconds = float(Path(folder, "saved in").read_text())
    return {"compared": drawn.size * options.workers, "same": set(told) == {b"1"}, "saved in": seconds,
            "back after": time.perf_counter() - start}  # fmt: skip


def in_processes(options, addresses):
    """What the first worker has measured, where all run in processes of their own."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out.json")
        given = ["--addresses", *addresses, "--out", str(out)]
        for name in ("ids", "batch", "batches", "rounds", "workers"):
            given += [f"--{name}", str(getattr(options, name))]
        roles = [
            *[["--server", str(i)] for i in range(options.servers)],
            *[["--worker", str(i)] for i in range(options.workers)],
        ]
        given += ["--kill"] if options.kill else []
        running = [subprocess.Popen([sys.executable, __file__, *given, *role]) for role in roles]
        if options.kill:
            restart_one(Path(folder), running, given, options.servers - 1)
        for process in running[::-1]:
            if process.wait():
                for other in running:
                    other.kill()
                raise SystemExit(f"a process has failed with exit code {process.returncode}")
        return json.loads(out.read_text())


def restart_one(folder, running, given, which):
    """Kill a server when it is time, and start it again from what was saved."""
    while not Path(folder, "kill").exists():
        if any(process.poll() for process in running):
            return
        time.sleep(0.05)
    running[which].kill()
    running[which].wait()
    again = ["--server", str(which), "--load", str(folder / "saved")]
    running[which] = subprocess.Popen([sys.executable, __file__, *given, *again])
    Path(folder, "restarted").touch()


def in_threads(options, addresses):
    """The same in one process, to try it."""
    servers = [Server(address, i, len(addresses), options.workers) for i, address in enumerate(addresses)]
    found = {}
    for server in servers:
        server.start()

    def run(rank):
        found[rank] = work(options, addresses, rank)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(options.workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for server in servers:
        server.stop()
    return found[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ids", type=int, default=1_000_000, help="rows of the table (default a million)")
    parser.add_argument("--batch", type=int, default=50_000, help="ids of a call (default 50,000)")
    parser.add_argument("--batches", type=int, default=10, help="calls of a worker in a round (default 10)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default 5)")
    parser.add_argument("--servers", type=int, default=2, help="servers (default 2)")
    parser.add_argument("--workers", type=int, default=2, help="workers (default 2)")
    parser.add_argument("--threads", action="store_true", help="in threads of one process, to try it")
    parser.add_argument("--kill", action="store_true", help="save, kill a server, start it again, and compare rows")
    parser.add_argument("--load", help=argparse.SUPPRESS)
    parser.add_argument("--server", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--addresses", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.server is not None:
        server = Server(options.addresses[options.server], options.server, len(options.addresses), options.workers)
        if options.load:
            server.shard.load(options.load)
        server.run()
        return
    if options.worker is not None:
        found = work(options, options.addresses, options.worker)
        if options.worker == 0:
            Path(options.out).write_text(json.dumps(found))
        return
    addresses = [f"127.0.0.1:{port}" for port in world.free_ports(options.servers)]
    found = (in_threads if options.threads else in_processes)(options, addresses)
    head(f"{options.ids:,} ids of {options.servers} servers and {options.workers} workers, thousand ids a second")
    rows = [
        [kind, f"{median(rates) / 1e3:.0f}", spread([rate / 1e3 for rate in rates], "{:.0f}")]
        for kind, rates in found["rates"].items()
    ]
    table(["", "thousand ids/s", "middle half"], rows)
    floors = Floors()
    floats = 4 * 2 * WIDTH
    each = found["bytes"] / found["rows"]
    print(f"{found['rows']:,} rows of {floats} bytes take {each:.0f} bytes of memory each, index and counts included")
    if options.kill:
        how = "the same" if found["same"] else "NOT the same"
        print(
            f"saved in {found['saved in']:.1f} s; a server was killed and is back after {found['back after']:.1f} s; "
        )
        print(f"{found['compared']:,} rows that were read before and after it are {how}")
        floors.at_most("servers whose rows are not as they were saved", float(not found["same"]), 0)
    floors.at_most("bytes of an id beside its row", each - floats, 100, " bytes")
    raise SystemExit(floors.show())


if __name__ == "__main__":
    main()
