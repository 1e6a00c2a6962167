"""Operators of detection, on a GPU where there is one: suppression of 10,000 boxes, regions pooled and deformable convolution, with gradients.

    python -m benchmarks.detection                  Bireme beside torchvision and paddle.vision.ops
    python -m benchmarks.detection --threads 1      on one thread each
    python -m benchmarks.detection --cpu            processor time in place of time, where others use the machine

Every peer runs in its own process; they take turns. A turn is the median of its calls, the result of each read before
the clock stops; `with gradients` reads the loss and the gradients of all operands. Results are compared: those of
torchvision, or where its rounding of boxes is another (psroi_pool) or it has no such operator, of Paddle. The floor: at
most 1.5 times torchvision's time, where it has the operator.
"""

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.first_calls import torch_device
from benchmarks.measure import Floors, cell, head, median, ratio, spread, table, version
from benchmarks.peers import Peers

NAMES = {"bireme": "Bireme", "torchvision": "torchvision", "paddle": "Paddle"}
MOST = 1.5
BINS = 7
# of values in float32 whose sums are made in another order
TOLERANCE = 1e-4


def boxes_of(draws, n, size, largest):
    corner = draws.rand(n, 2) * size * 0.8
    return np.concatenate([corner, corner + draws.rand(n, 2) * largest + 1], 1).astype(np.float32)


def data_of(n):
    """The same arrays in every process; `n` boxes."""
    draws = np.random.RandomState(0)
    few = max(n // 10, 1)
    objects = boxes_of(draws, 60, 800, 200)
    crowded = (objects[draws.randint(0, 60, n)] + draws.randn(n, 4) * 10).astype(np.float32)
    crowded[:, 2:] = np.maximum(crowded[:, 2:], crowded[:, :2] + 1)
    channels = 32 if n >= 1000 else 2
    return {
        "boxes": boxes_of(draws, n, 800, 100),
        "crowded": crowded,
        "scores": (draws.permutation(n) / n).astype(np.float32),
        "category": draws.randint(0, 80, n),
        "maps": draws.rand(2, channels, 100, 100).astype(np.float32),
        "regions": boxes_of(draws, n, 800, 200),
        "number": np.array([n // 2, n - n // 2], np.int32),
        "deep": draws.rand(1, 8 * channels, 50, 68).astype(np.float32),
        "proposals": boxes_of(draws, few, 800, 300),
        "all": np.array([few], np.int32),
        "own": draws.rand(2, 4 * BINS * BINS, 50, 50).astype(np.float32),
        "image": draws.rand(2, 2 * channels, 50, 50).astype(np.float32),
        "offset": draws.randn(2, 18, 50, 50).astype(np.float32),
        "kernel": draws.randn(2 * channels, 2 * channels, 3, 3).astype(np.float32),
        "mask": draws.rand(2, 9, 50, 50).astype(np.float32),
        "deltas": (draws.randn(1, 12, 25, 34) * 0.1).astype(np.float32),
        "objectness": draws.rand(1, 3, 25, 34).astype(np.float32),
        "anchors": boxes_of(draws, 25 * 34 * 3, 500, 200).reshape(25, 34, 3, 4),
        "variances": np.ones((25, 34, 3, 4), np.float32),
        "size": np.array([[400.0, 544.0]], np.float32),
        "heads": draws.randn(1, 3 * 85, 26, 26).astype(np.float32),
        "image size": np.array([[416, 416]], np.int32),
    }


# name: operands that get gradients, then the call of Paddle's interface, then torchvision's; `t` are tensors by name
CASES = {
    "nms": ("", lambda o, t: o.nms(t["boxes"], 0.5, t["scores"]), lambda o, t: o.nms(t["boxes"], t["scores"], 0.5)),
    "nms, crowded": (
        "",
        lambda o, t: o.nms(t["crowded"], 0.5, t["scores"]),
        lambda o, t: o.nms(t["crowded"], t["scores"], 0.5),
    ),
    "nms, 80 categories": (
        "",
        lambda o, t: o.nms(t["boxes"], 0.5, t["scores"], t["category"], list(range(80))),
        lambda o, t: o.batched_nms(t["boxes"], t["scores"], t["category"], 0.5),
    ),
    "roi_align": (
        "maps",
        lambda o, t: o.roi_align(t["maps"], t["regions"], t["number"], BINS, 0.125),
        lambda o, t: o.roi_align(t["maps"], t["regions of images"], BINS, 0.125, -1, True),
    ),
    "roi_align, a tenth of the boxes, deep": (
        "deep",
        lambda o, t: o.roi_align(t["deep"], t["proposals"], t["all"], BINS, 0.0625, 2),
        lambda o, t: o.roi_align(t["deep"], t["proposals of images"], BINS, 0.0625, 2, True),
    ),
    "roi_pool": (
        "maps",
        lambda o, t: o.roi_pool(t["maps"], t["regions"], t["number"], BINS, 0.125),
        lambda o, t: o.roi_pool(t["maps"], t["regions of images"], BINS, 0.125),
    ),
    "psroi_pool": (
        "own",
        lambda o, t: o.psroi_pool(t["own"], t["regions"], t["number"], BINS, 0.0625),
        lambda o, t: o.ps_roi_pool(t["own"], t["regions of images"], BINS, 0.0625),
    ),
    "deform_conv2d": (
        "image offset kernel mask",
        lambda o, t: o.deform_conv2d(t["image"], t["offset"], t["kernel"], padding=1, mask=t["mask"]),
        lambda o, t: o.deform_conv2d(t["image"], t["offset"], t["kernel"], padding=1, mask=t["mask"]),
    ),
    "generate_proposals": (
        "",
        lambda o, t: o.generate_proposals(
            t["objectness"], t["deltas"], t["size"], t["anchors"], t["variances"], 2000, 500, return_rois_num=True
        )[0],
        None,
    ),
    "distribute_fpn_proposals": (
        "",
        lambda o, t: o.distribute_fpn_proposals(t["regions"], 2, 5, 4, 224, rois_num=t["number"])[1],
        None,
    ),
    "yolo_box": (
        "",
        lambda o, t: o.yolo_box(t["heads"], t["image size"], [10, 13, 16, 30, 33, 23], 80, 0.01, 16)[0],
        None,
    ),
}
GRADIENTS = ", with gradients"
NAMES_OF_CASES = [n + more for n, (own, *_) in CASES.items() for more in ([""] + [GRADIENTS] * bool(own))]


def make(name, n, threads, by_cpu):
    """In the peer's process: a function that gives the milliseconds of a case and what it computed, None without it."""
    arrays = data_of(n)
    if name == "torchvision":
        import torch
        import torchvision.ops as ops

        torch.set_num_threads(threads)
        for which, number in (("regions", arrays["number"]), ("proposals", arrays["all"])):
            image = np.repeat(np.arange(len(number)), number).astype(np.float32)
            arrays[f"{which} of images"] = np.concatenate([image[:, None], arrays[which]], 1)
        there = torch_device(torch)
        tensors = {key: torch.from_numpy(a).to(there) for key, a in arrays.items()}

        def backward(loss, xs):
            return torch.autograd.grad(loss, xs)

        def leaf(x):
            return x.clone().requires_grad_()

    else:
        if name == "paddle":
            import paddle as framework
            import paddle.vision.ops as ops
        else:
            import bireme as framework
            import bireme.vision.ops as ops
        tensors = {key: framework.to_tensor(a) for key, a in arrays.items()}

        def backward(loss, xs):
            return framework.grad(loss, xs)

        def leaf(x):
            x = x.clone()
            x.stop_gradient = False
            return x

    clock = time.process_time if by_cpu else time.perf_counter
    column = 2 if name == "torchvision" else 1

    def read(x):
        return x.cpu().numpy()

    def once(case):
        own, with_gradients = CASES[case.removesuffix(GRADIENTS)][0].split(), case.endswith(GRADIENTS)
        run = CASES[case.removesuffix(GRADIENTS)][column]
        if not with_gradients:
            return lambda: [read(run(ops, tensors))]
        wanted = {key: leaf(tensors[key]) for key in own}

        def both():
            loss = (run(ops, {**tensors, **wanted}) ** 2).mean()
            found = backward(loss, list(wanted.values()))
            return [read(loss.detach()), *[read(g) for g in found]]

        return both

    def answer(case, repeats):
        if CASES[case.removesuffix(GRADIENTS)][column] is None:
            return None
        run, times = once(case), []
        for _ in range(repeats + 1):
            start = clock()
            found = run()
            times.append((clock() - start) * 1e3)
        return median(times[1:]), times[0], found if repeats == 1 else None

    return answer


def apart(ours, theirs):
    """Largest difference of two lists of arrays, as a share of the largest value."""
    if any(a.shape != b.shape for a, b in zip(ours, theirs, strict=True)):
        return float("inf")
    pairs = [(np.asarray(a, np.float64), np.asarray(b, np.float64)) for a, b in zip(ours, theirs, strict=True)]
    return max(np.abs(a - b).max(initial=0) / max(np.abs(b).max(initial=0), 1e-12) for a, b in pairs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="turns of each peer (default 7)")
    parser.add_argument("--repeats", type=int, default=3, help="calls in a turn (default 3)")
    parser.add_argument("--boxes", type=int, default=10_000, help="number of boxes (default 10,000)")
    parser.add_argument("--threads", type=int, help="threads of each peer (default: the cores there are)")
    parser.add_argument("--cpu", action="store_true", help="processor time of the process in place of time")
    parser.add_argument("--only", nargs="+", choices=NAMES_OF_CASES, default=NAMES_OF_CASES, help="some of the cases")
    parser.add_argument("--peers", nargs="+", choices=NAMES, default=list(NAMES), help="which peers (default all)")
    options = parser.parse_args()
    if options.threads and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    threads = options.threads or len(os.sched_getaffinity(0))
    clock = "processor time" if options.cpu else "time"
    head(
        f"detection: {options.boxes:,} boxes, {threads} threads, {clock}",
        f"peer      torchvision {version('torchvision')}",
    )
    floors, rows = Floors(), []
    with Peers() as peers:
        for name in options.peers:
            peers.start(name, make, name, options.boxes, threads, options.cpu)
        for case in options.only:
            # the first call, and what it gives; then the turns
            first = {name: peers.ask(name, case, 1) for name in list(peers.live)}
            values = {name: answer[2] for name, answer in first.items() if answer}
            # torchvision rounds the boxes of this one in another way
            reference = "paddle" if case.startswith("psroi_pool") else "torchvision"
            reference = reference if reference in values else "paddle"
            found = {
                name: [answer[0] for answer in answers]
                for name, answers in peers.turns(options.rounds, case, options.repeats).items()
            }
            ours = found.get("bireme", [])
            ratios = [ratio(ours, found[n]) if found.get(n) else np.nan for n in ("torchvision", "paddle")]
            difference = apart(values["bireme"], values[reference]) if {"bireme", reference} <= set(values) else np.nan
            rows.append(
                (
                    case,
                    *[cell(median(found.get(n, [])), "{:.1f}") for n in NAMES],
                    spread(ours),
                    cell(first["bireme"][1] if first.get("bireme") else np.nan, "{:.0f}"),
                    *map(cell, ratios),
                    cell(difference, "{:.0e}"),
                )
            )
            if CASES[case.removesuffix(GRADIENTS)][2]:
                floors.at_most(f"{case}: time / torchvision", ratios[0], MOST)
            floors.at_most(f"{case}: difference / {TOLERANCE:g}", difference / TOLERANCE, 1.0)
        peers.report()
    columns = ("milliseconds", *NAMES.values(), "middle half", "first call", "/torchvision", "/Paddle", "apart")
    table(columns, rows)
    return floors.show()


if __name__ == "__main__":
    sys.exit(main())
