"""Reading CIFAR-like images with augmentation (crop, flip, normalise in NumPy) by two worker processes, in images a
second.

    python -m benchmarks.loader                   Bireme beside torch's and Paddle's DataLoader on the same data
    python -m benchmarks.loader --workers 0       in the training process itself

Every peer runs in its own process; they take turns. A turn is one epoch with workers that are there already
(`persistent_workers=True`), and its first batch does not count. `cold` is a whole epoch with workers that have to
start. The floor: an epoch no slower than torch's.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import Floors, cell, head, median, ratio, spread, table

ROOT = Path(__file__).resolve().parents[1]
NAMES = {"bireme": "Bireme", "torch": "torch", "paddle": "PaddlePaddle"}
MEAN = np.array([0.4914, 0.4822, 0.4465], np.float32).reshape(3, 1, 1) * 255
STD = np.array([0.2470, 0.2435, 0.2616], np.float32).reshape(3, 1, 1) * 255


class Images:
    """Random images, augmented as CIFAR-10's usually are; no framework's class, so that all read the very same object."""

    def __init__(self, n):
        draws = np.random.RandomState(0)
        self.images = draws.randint(0, 256, (n, 3, 32, 32), dtype=np.uint8)
        self.labels = draws.randint(0, 10, n)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        padded = np.pad(self.images[i], ((0, 0), (4, 4), (4, 4)))
        # the global generator: it is what such code uses, and workers must seed it
        top, left, flip = np.random.randint(0, 9), np.random.randint(0, 9), np.random.randint(0, 2)  # noqa: NPY002  # as transforms draw
        image = padded[:, top : top + 32, left : left + 32]
        if flip:
            image = image[:, :, ::-1]
        return (image.astype(np.float32) - MEAN) / STD, int(self.labels[i])


def loader_of(name, data, batch, workers, persistent):
    options = {"batch_size": batch, "shuffle": True, "drop_last": True, "num_workers": workers}
    options["persistent_workers"] = persistent and workers > 0
    if name == "torch":
        from torch.utils.data import DataLoader
    elif name == "paddle":
        from paddle.io import DataLoader
    else:
        from bireme.io import DataLoader
    return DataLoader(data, **options)


def epoch(loader):
    """Images a second of an epoch after its first batch."""
    start, images = None, 0
    for x, _ in loader:
        if start is None:
            start = time.perf_counter()
        else:
            images += x.shape[0]
    return images / (time.perf_counter() - start)


def serve(name, options):
    """The process of one peer: an epoch for each line."""
    data = Images(options.images)
    try:
        warm = loader_of(name, data, options.batch, options.workers, True)
    except ModuleNotFoundError as missing:
        print(json.dumps(str(missing)), flush=True)
        return
    epoch(warm)
    print(json.dumps(""), flush=True)
    for line in sys.stdin:
        if line.strip() == "cold":
            start = time.perf_counter()
            images = sum(x.shape[0] for x, _ in loader_of(name, data, options.batch, options.workers, False))
            print(json.dumps(images / (time.perf_counter() - start)), flush=True)
        else:
            print(json.dumps(epoch(warm)), flush=True)


class Turn:
    """A peer's process, asked by lines."""

    def __init__(self, name, options):
        command = [sys.executable, "-W", "ignore", str(Path(__file__).resolve()), "--peer", name]
        command += [f"--{key}={getattr(options, key)}" for key in ("images", "batch", "workers")]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        self.missing = self.answer()

    def answer(self):
        for line in self.process.stdout:
            if line.startswith(("[", '"', "{")) or line[:1].isdigit():
                return json.loads(line)
        return "its process ended"

    def ask(self, what):
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=10_000, help="images in an epoch (default 10,000)")
    parser.add_argument("--batch", type=int, default=128, help="images in a batch (default 128)")
    parser.add_argument("--workers", type=int, default=2, help="worker processes (default 2)")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each peer (default 7)")
    parser.add_argument("--peers", nargs="+", choices=NAMES, default=list(NAMES), help="which peers (default all)")
    parser.add_argument("--peer", choices=NAMES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer:
        return serve(options.peer, options)
    head(
        f"loader: {options.images} images of 3x32x32, crop, flip, normalise; batch {options.batch}, {options.workers} workers"
    )
    peers = {name: Turn(name, options) for name in options.peers}
    live = {name: peer for name, peer in peers.items() if not peer.missing}
    speeds = {name: [] for name in live}
    cold = {name: [] for name in live}
    for turn in range(options.rounds):
        for name, peer in live.items():
            speeds[name].append(peer.ask("warm"))
            if turn < 3:
                cold[name].append(peer.ask("cold"))
    for peer in peers.values():
        peer.close()
    ours = speeds.get("bireme", [])
    rows = [
        (
            NAMES[name],
            cell(median(found), "{:,.0f}"),
            spread(found, "{:,.0f}"),
            cell(median(cold[name]), "{:,.0f}"),
            cell(ratio(ours, found)),
        )
        for name, found in speeds.items()
    ]
    table(("peer", "images/s", "middle half", "cold images/s", "bireme/this"), rows)
    for name, peer in peers.items():
        if peer.missing:
            print(f"{NAMES[name]}: not measured, {peer.missing}")
    floors = Floors()
    floors.at_most("epoch: bireme / torch, in time", ratio(speeds.get("torch", []), ours), 1.0)
    return floors.show()


if __name__ == "__main__":
    sys.exit(main())
