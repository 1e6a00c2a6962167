"""Sparse matrices of 100,000 x 100,000 with a million entries: products, sums, functions; and points in a volume.

Floors: at most the time of the faster of torch.sparse and Paddle, and a matrix of under 100 MB. What a peer has no
kernel for on CPU is left open in its column.
"""

import argparse
import importlib
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.measure import Floors, cell, cores, head, median, spread, table
from benchmarks.measure import ratio as compared
from benchmarks.peers import Peers

NAMES = {"bireme": "Bireme", "torch": "torch", "paddle": "Paddle"}
MOST_BYTES = 100e6
CASES = (
    "csr @ dense", "coo @ dense", "csr @ dense, backward", "csr @ vector", "coo @ vector", "tanh of coo", "coalesce",
    "softmax of csr", "coo + coo", "csr + csr", "subm_conv3d", "subm_conv3d, backward",
)  # fmt: skip


def entries(size, count, seed):
    """Rows, columns and values of a matrix, in order."""
    rng = np.random.default_rng(seed)
    keys = np.unique(rng.integers(0, size * size, count))
    return *np.divmod(keys, size), rng.standard_normal(keys.size).astype(np.float32)


def paddle_calls(paddle, size, count, width, points):
    """The calls as plain Paddle code: Bireme and Paddle run the same lines."""
    sparse, rng = paddle.sparse, np.random.default_rng(2)
    (rows, cols, values), (rows2, cols2, values2) = entries(size, count, 0), entries(size, count, 1)
    starts, starts2 = (np.searchsorted(r, np.arange(size + 1)) for r in (rows, rows2))
    x = sparse.sparse_coo_tensor(np.stack([rows, cols]), values, [size, size])
    y = sparse.sparse_coo_tensor(np.stack([rows2, cols2]), values2, [size, size])
    a = sparse.sparse_csr_tensor(starts, cols, values, [size, size])
    b = sparse.sparse_csr_tensor(starts2, cols2, values2, [size, size])
    mixed = np.stack([rows, cols])[:, rng.permutation(rows.size)]
    dense = paddle.to_tensor(rng.standard_normal((size, width)).astype(np.float32))
    wanted = paddle.to_tensor(dense.numpy(), stop_gradient=False)
    vector = paddle.to_tensor(rng.standard_normal(size).astype(np.float32))
    places = np.stack(np.unravel_index(np.unique(rng.integers(0, 64**3, points)), (1, 64, 64, 64)))
    features = paddle.to_tensor(rng.standard_normal((places.shape[1], 16)).astype(np.float32))
    cloud = sparse.sparse_coo_tensor(places, features, [1, 64, 64, 64, 16])
    kernel = paddle.to_tensor(rng.standard_normal((3, 3, 3, 16, 32)).astype(np.float32), stop_gradient=False)

    def backward():
        sparse.matmul(a, wanted).sum().backward()
        g = wanted.grad
        wanted.clear_gradient(False)
        return g

    def train():
        sparse.nn.functional.subm_conv3d(cloud, kernel, padding=1).values().sum().backward()
        g = kernel.grad
        kernel.clear_gradient(False)
        return g

    calls = (
        lambda: sparse.matmul(a, dense),
        lambda: sparse.matmul(x, dense),
        backward,
        lambda: sparse.mv(a, vector),
        lambda: sparse.mv(x, vector),
        lambda: sparse.tanh(x).values(),
        lambda: sparse.coalesce(sparse.sparse_coo_tensor(mixed, values, [size, size])).values(),
        lambda: sparse.nn.functional.softmax(a).values(),
        lambda: sparse.add(x, y).values(),
        lambda: sparse.add(a, b).values(),
        lambda: sparse.nn.functional.subm_conv3d(cloud, kernel, padding=1).values(),
        train,
    )
    return dict(zip(CASES, calls, strict=True)), getattr(x, "nbytes", None)


def torch_calls(torch, size, count, width, points):
    torch.set_num_threads(cores())
    rng = np.random.default_rng(2)
    (rows, cols, values), (rows2, cols2, values2) = entries(size, count, 0), entries(size, count, 1)
    x, y = (
        torch.sparse_coo_tensor(np.stack([r, c]), torch.tensor(v), (size, size)).coalesce()
        for r, c, v in ((rows, cols, values), (rows2, cols2, values2))
    )
    a, b = x.to_sparse_csr(), y.to_sparse_csr()
    mixed, held = torch.tensor(np.stack([rows, cols])[:, rng.permutation(rows.size)]), torch.tensor(values)
    dense = torch.tensor(rng.standard_normal((size, width)).astype(np.float32))
    wanted = dense.clone().requires_grad_()
    vector = torch.tensor(rng.standard_normal(size).astype(np.float32))

    def backward():
        torch.sparse.mm(x, wanted).sum().backward()  # the gradient of a CSR product needs MKL
        g, wanted.grad = wanted.grad, None
        return g

    calls = (
        lambda: a @ dense,
        lambda: torch.sparse.mm(x, dense),
        backward,
        lambda: a @ vector,
        lambda: torch.mv(x, vector),
        lambda: torch.tanh(x),
        lambda: torch.sparse_coo_tensor(mixed, held, (size, size)).coalesce(),
        lambda: torch.sparse.softmax(x, 1),
        lambda: (x + y).coalesce(),
        lambda: a + b,
    )
    return dict(zip(CASES, calls, strict=False)), None


def make(name, size, count, width, points):
    """In the peer's process: a function that gives the milliseconds of a case, None where there is no kernel for it."""
    framework = importlib.import_module(name)
    calls, stored = (torch_calls if name == "torch" else paddle_calls)(framework, size, count, width, points)
    finish = framework.debug.flush if name == "bireme" else lambda: None  # the others have computed when they return

    def answer(case, repeats):
        if case == "bytes":
            return stored
        run = calls.get(case)
        if run is None:
            return None
        times = []
        for _ in range(repeats + 1):
            start = time.perf_counter()
            try:
                held = run()
            except (RuntimeError, NotImplementedError):
                return None
            finish()
            del held
            times.append((time.perf_counter() - start) * 1e3)
        return median(times[1:])

    return answer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="turns of each peer (default 7)")
    parser.add_argument("--repeats", type=int, default=3, help="calls in a turn (default 3)")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the script")
    parser.add_argument("--only", nargs="+", choices=CASES, default=CASES, help="some of the cases")
    parser.add_argument("--peers", nargs="+", choices=NAMES, default=list(NAMES), help="which peers (default all)")
    options = parser.parse_args()
    sizes = (100, 500, 8, 200) if options.tiny else (100_000, 1_000_000, 64, 40_000)
    size, count, width, points = sizes
    facts = f"matrix    {size:,} x {size:,}, {count:,} entries, float32; dense {size:,} x {width}; {points:,} points in 64^3"
    head("sparse: products, sums and functions of sparse tensors", facts)
    floors, rows = Floors(), []
    with Peers() as peers:
        for name in options.peers:
            peers.start(name, make, name, *sizes)
        stored = peers.ask("bireme", "bytes", 0)
        for case in options.only:
            found = {name: [t for t in times if t is not None] for name, times in
                     peers.turns(options.rounds, case, options.repeats).items()}  # fmt: skip
            ours = found.get("bireme", [])
            best = [compared(ours, found.get(name, [])) for name in ("torch", "paddle")]
            rows.append(
                (case, *[cell(median(found.get(n, [])), "{:.1f}") for n in NAMES], spread(ours), *map(cell, best))
            )
            floors.at_most(
                f"{case}: bireme / the faster peer", np.nan if np.isnan(best).all() else np.nanmax(best), 1.0
            )
        peers.report()
    table(("milliseconds", *NAMES.values(), "middle half", "bireme/torch", "bireme/Paddle"), rows)
    if stored is not None:
        floors.at_most("bytes of the COO matrix", stored / 1e6, MOST_BYTES / 1e6, " MB")
    return floors.show()


if __name__ == "__main__":
    sys.exit(main())
