"""Every way to train in parallel against one process: the losses of 30 steps, in float32.

    python -m tools.parallel_table                     # all ways
    python -m tools.parallel_table --only "ring MoE"   # those whose description contains one of these words
    python -m tools.parallel_table --steps 10 --markdown

A way passes if no loss differs by more than 1e-5, relative to that of one process. Those with several processes start them
on this machine; those on a mesh of eight devices run in one process that has eight.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import bireme
from bireme import distributed as dist
from tools.parallel import models, ways

TOLERANCE = 1e-5
EIGHT = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}


class Way(NamedTuple):
    """A way to train a model: in so many processes, 8 standing for devices of one."""

    what: str
    model: str
    count: int
    run: Callable[..., list[float]]
    how: dict[str, Any] = {}  # what the whole model has too

    @property
    def told(self) -> str:
        return f"{self.what} {self.model} {self.count}"

    def losses(self, steps: int) -> list[float]:
        given = dict(self.run.keywords) if isinstance(self.run, functools.partial) else {}
        return self.run(self.model, steps, how={**self.how, **given.get("how", {})})


def _ways() -> list[Way]:
    hybrid, pipeline, sharded = ways.hybrid, ways.pipeline, ways.sharded
    partial = functools.partial
    switch, batch = {"gate": "switch"}, {"norm": "batch"}
    found = [
        # one axis
        *[Way("data", "GPT", n, partial(hybrid, dp=n)) for n in (2, 4)],
        Way("data, recompute", "GPT", 2, partial(hybrid, dp=2, how={"recomputed": True})),
        Way("data, gradient merge", "GPT", 2, partial(hybrid, dp=2, merge=2)),
        *[Way("tensor", "GPT", n, partial(hybrid, mp=n)) for n in (2, 4)],
        *[Way("tensor and sequence", "GPT", n, partial(hybrid, mp=n, how={"linear": "sequence"})) for n in (2, 4)],
        *[Way("pipeline, GPipe", "GPT", n, partial(pipeline, pp=n, kind="FThenB")) for n in (2, 4)],
        *[Way("pipeline, 1F1B", "GPT", n, partial(pipeline, pp=n)) for n in (2, 4)],
        Way("pipeline, interleaved", "GPT", 2, partial(pipeline, pp=2, chunks=2)),
        Way("pipeline, there and back", "GPT", 2, partial(pipeline, pp=2, kind="V")),
        *[Way("context, ring, balanced", "GPT", n, partial(hybrid, cp=n)) for n in (2, 4)],
        *[Way("context, ring", "GPT", n, partial(hybrid, cp=n, how={"attention": "line"})) for n in (2, 4)],
        *[Way("context, all to all", "GPT", n, partial(hybrid, cp=n, how={"attention": "alltoall"})) for n in (2, 4)],
        Way("sep, all to all", "GPT", 2, partial(hybrid, sep=2)),
        *[Way("ZeRO 1 on an axis", "GPT", n, partial(hybrid, sharding=n)) for n in (2, 4)],
        *_zero("GPT", (2, 4)),
        # mixtures of experts
        Way("data", "MoE", 2, partial(hybrid, dp=2)),
        *[Way("experts over data, dropless", "MoE", n, partial(hybrid, dp=n, how={"over_data": True})) for n in (2, 4)],
        *[Way("experts, dropless", "MoE", n, partial(hybrid, sharding=n, ep=n)) for n in (2, 4)],
        *[Way("experts, capacity", "MoE", n, partial(hybrid, sharding=n, ep=n), switch) for n in (2, 4)],
        Way("tensor", "MoE", 2, partial(hybrid, mp=2)),
        Way("tensor, capacity", "MoE", 2, partial(hybrid, mp=2), switch),
        Way("context, ring, balanced", "MoE", 2, partial(hybrid, cp=2)),
        Way("pipeline, GPipe", "MoE", 2, partial(pipeline, pp=2, kind="FThenB")),
        Way("pipeline, 1F1B", "MoE", 2, partial(pipeline, pp=2)),
        Way("pipeline, interleaved", "MoE", 2, partial(pipeline, pp=2, chunks=2)),
        *_zero("MoE", (2,)),
        *_zero("MoE", (2,), {"divided": True}, ", experts"),
        # a residual network
        *[Way("data", "ResNet", n, partial(hybrid, dp=n), batch) for n in (2, 4)],
        Way("tensor", "ResNet", 2, partial(hybrid, mp=2), batch),
        Way("pipeline, GPipe", "ResNet", 2, partial(pipeline, pp=2, kind="FThenB")),
        Way("pipeline, 1F1B", "ResNet", 4, partial(pipeline, pp=4)),
        Way("pipeline, interleaved", "ResNet", 2, partial(pipeline, pp=2, chunks=2)),
        *_zero("ResNet", (2,), batch),
        # mixes
        Way("data, tensor", "GPT", 4, partial(hybrid, dp=2, mp=2)),
        Way("data, tensor and sequence", "GPT", 4, partial(hybrid, dp=2, mp=2, how={"linear": "sequence"})),
        Way("data, context", "GPT", 4, partial(hybrid, dp=2, cp=2)),
        Way("tensor, context", "GPT", 4, partial(hybrid, mp=2, cp=2)),
        Way("ZeRO 1, tensor", "GPT", 4, partial(hybrid, sharding=2, mp=2)),
        Way("ZeRO 1, data", "GPT", 4, partial(hybrid, sharding=2, dp=2)),
        Way("data, pipeline", "GPT", 4, partial(pipeline, dp=2, pp=2)),
        Way("tensor, pipeline", "GPT", 4, partial(pipeline, mp=2, pp=2)),
        Way("ZeRO 1, pipeline", "GPT", 4, partial(pipeline, sharding=2, pp=2)),
        Way("ZeRO 2, data", "GPT", 4, partial(sharded, level="os_g", data=2)),
        Way("ZeRO 3, data", "GPT", 4, partial(sharded, level="p_g_os", data=2)),
        *[
            Way(f"ZeRO {stage}, offload", "GPT", n, partial(sharded, level=level, offload=True))
            for stage, level in ((1, "os"), (2, "os_g"), (3, "p_g_os"))
            for n in (2, 4)
        ],
        Way("experts twice", "MoE", 4, partial(hybrid, sharding=4, ep=2)),
        Way("experts, tensor", "MoE", 4, partial(hybrid, sharding=2, mp=2, ep=4)),
        Way("experts, context", "MoE", 4, partial(hybrid, sharding=4, cp=2, ep=4)),
        Way("experts, pipeline", "MoE", 4, partial(pipeline, sharding=2, pp=2, ep=2)),
        Way("data, pipeline", "ResNet", 4, partial(pipeline, dp=2, pp=2)),
        Way("ZeRO 1, data", "ResNet", 4, partial(hybrid, dp=2, sharding=2), batch),
    ]  # fmt: skip
    return found + _meshes()


def _zero(model: str, counts: Sequence[int], how: dict | None = None, also: str = "") -> list[Way]:
    levels = {"ZeRO 1": "os", "ZeRO 2": "os_g", "ZeRO 3": "p_g_os"}
    return [
        Way(name + also, model, n, functools.partial(ways.sharded, level=level), how or {})
        for name, level in levels.items()
        for n in counts
    ]


def _meshes() -> list[Way]:
    mesh, partial = ways.mesh, functools.partial
    batch = {"norm": "batch"}
    return [
        *[
            Way(f"placements{what}", model, n, partial(mesh, **given), batch if model == "ResNet" else {})
            for what, model, n, given in (
                (", data", "GPT", 8, {"shape": (8, 1)}),
                (", data and tensor", "GPT", 8, {"shape": (2, 4)}),
                (", data and tensor, to_static", "GPT", 8, {"shape": (2, 4), "static": True}),
                *[(f", ZeRO {stage}", "GPT", 8, {"shape": (8, 1), "stage": stage}) for stage in (1, 2, 3)],
                (", ZeRO 3 and tensor", "GPT", 8, {"shape": (4, 2), "stage": 3}),
                (", data and context, ring", "GPT", 8, {"shape": (2, 4), "sep": "p2p"}),
                (", data and context, all to all", "GPT", 8, {"shape": (2, 4), "sep": "all2all"}),
                (", data and tensor", "MoE", 8, {"shape": (2, 4)}),
                (", data", "ResNet", 8, {"shape": (8, 1)}),
                (", ZeRO 3 and tensor", "ResNet", 8, {"shape": (4, 2), "stage": 3}),
                (" of processes, data", "GPT", 2, {"shape": (2, 1)}),
                (" of processes, tensor", "GPT", 2, {"shape": (1, 2)}),
                (" of processes, tensor, to_static", "GPT", 2, {"shape": (1, 2), "static": True}),
                (" of processes, ZeRO 3", "GPT", 2, {"shape": (2, 1), "stage": 3}),
                (" of processes, context", "GPT", 2, {"shape": (1, 2), "sep": "p2p"}),
                (" of processes, data and tensor", "GPT", 4, {"shape": (2, 2)}),
                (" of processes, data", "ResNet", 2, {"shape": (2, 1)}),
            )
        ],
    ]


WAYS = _ways()


def alone(way: Way, steps: int) -> list[float]:
    """The losses of one process with the same model."""
    how = {k: v for k, v in way.how.items() if k in ("gate", "norm")}
    tied = getattr(way.run, "keywords", {}).get("level") != "p_g_os"
    return _alone(way.model, steps, tied, tuple(how.items()))


@functools.cache
def _alone(model: str, steps: int, tied: bool, how: tuple) -> list[float]:
    return models.single(model, steps, models.Division(tied=tied, **dict(how)))


def difference(found: Sequence[float], wanted: Sequence[float]) -> float:
    """The largest difference of two curves, relative to the second."""
    wanted = np.asarray(wanted)
    return float(np.max(np.abs(np.asarray(found) - wanted) / np.abs(wanted)))


def train(told: Sequence[str], steps: int, path: str, executor: str | None = None) -> None:
    """What each process runs: some ways one after the other. The first one writes losses and seconds."""
    found = {}
    with bireme.debug.use_executor(executor) if executor else contextlib.nullcontext():
        for way in [way for way in WAYS if way.told in told]:
            start = time.monotonic()
            found[way.told] = way.losses(steps), time.monotonic() - start
            if dist.get_world_size() > 1:
                dist.barrier()
    if dist.get_rank() == 0:
        Path(path).write_text(json.dumps(found))


def measured(chosen: Sequence[Way], steps: int, executor: str | None = None) -> dict[str, tuple[list[float], float]]:
    """Losses and seconds of ways with one number of processes."""
    with tempfile.TemporaryDirectory() as folder:
        path, told = f"{folder}/losses.json", [way.told for way in chosen]
        if chosen[0].count == 8:
            command = [
                sys.executable,
                "-m",
                "tools.parallel_table",
                "--inside",
                path,
                "--steps",
                str(steps),
                "--only",
                *told,
            ]
            done = subprocess.run(command, env={**os.environ, **EIGHT}, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(done.stderr.strip().splitlines()[-1])
        else:
            multiprocessing.get_context("forkserver").set_forkserver_preload(["tools.parallel.ways"])
            args = (told, steps, path, executor)
            dist.spawn(train, args, nprocs=chosen[0].count, start_method="forkserver")
        return json.loads(Path(path).read_text())


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="words, one of which a way's description contains")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--markdown", action="store_true", help="print a table for the documentation")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.inside:
        train(args.only, args.steps, args.inside)
        return 0
    chosen = [way for way in WAYS if not args.only or any(word in way.told for word in args.only)]
    line = "| {:45} | {:6} | {:>9} | {:>12} | {:>7} |" if args.markdown else "{:45} {:6} {:>9} {:>12} {:>7}"
    print(line.format("way", "model", "processes", "difference", "seconds"))
    if args.markdown:
        print("|---|---|---|---|---|")
    worst = 0.0
    for way in chosen:
        try:
            losses, seconds = measured([way], args.steps)[way.told]
        except RuntimeError as e:
            worst = float("inf")
            print(
                line.format(way.what, way.model, way.count, "failed", ""), str(e).strip().splitlines()[-1], flush=True
            )
            continue
        far = difference(losses, alone(way, args.steps))
        worst = max(worst, far)
        count = "1 (8)" if way.count == 8 else way.count
        print(line.format(way.what, way.model, count, f"{far:.1e}", f"{seconds:.1f}"), flush=True)
    print(f"{len(chosen)} ways, largest difference {worst:.1e}")
    return 0 if worst <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
