"""Plans of `distributed.plan`: what was predicted beside what the compiler says and what processes measure.

    python -m benchmarks.plans                     predicted memory, collectives and bytes beside compiled programs
    python -m benchmarks.plans --what published    language models on 8 to 4,096 H100 beside published figures
    python -m benchmarks.plans --what processes    twelve plans measured on 2 processes (--processes 4: on four)
    python -m benchmarks.plans --what many         a small model compiled for 512 devices

Compiled means for virtual devices of the CPU: nothing runs. The floors: memory within 15 %, collectives and bytes equal
but for the loss and other single numbers, the chosen plan's measured time at most 1.1 x the best one's.
"""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import bireme
from benchmarks.measure import Floors, cell, head, median, table
from bireme import distributed as dist
from bireme.distributed import planning
from bireme.distributed.planning import memory, report, search
from bireme.distributed.planning.memory import Precision
from bireme.nn import functional as F
from bireme.static import InputSpec

ROOT = Path(__file__).resolve().parents[1]
LINK = planning.Link(1e9, 1e-5)
# what the compiler does on CPU; rates play no part where nothing is timed
CPU = planning.Hardware(
    "cpu", {"float32": 1e10}, 1e12, 1e9, LINK, LINK, efficiency=1.0, overlap=0.0, reduce_scatter=False, adds_first=False,
    combines=False, flash_attention=False, in_place=False, keeps=True,
)  # fmt: skip
SMALL = planning.Size(vocabulary=512, width=128, inner=256, heads=4, shared_heads=2, blocks=2)
TINY = planning.Size(vocabulary=64, width=32, inner=64, heads=2, shared_heads=2, blocks=2)
WIRES = {
    "dp": {"dp": 2}, "ZeRO 1": {"dp": 2, "zero": 1}, "ZeRO 2": {"dp": 2, "zero": 2}, "ZeRO 3": {"dp": 2, "zero": 3},
    "tp": {"tp": 2}, "sp": {"tp": 2, "sp": True}, "pp": {"pp": 2}, "dp and tp": {"dp": 2, "tp": 2},
    "dp, recompute": {"dp": 2, "recompute": True},
}  # fmt: skip
# model, devices, batch, degrees and data type of products as published, tokens a second and device, and by whom
FSDP = {"tp": 1, "pp": 1, "zero": 3, "micro_batch": 1}
PUBLISHED = [
    ("llama-8b", 8, 8, FSDP, "bfloat16", 6667, "torchtitan, FSDP and compile"),
    ("llama-8b", 128, 128, FSDP, "bfloat16", 6514, "torchtitan, FSDP and compile"),
    ("llama-8b", 8, 8, FSDP, "float8", 8532, "torchtitan, FSDP and compile"),
    ("llama-8b", 128, 128, FSDP, "float8", 8380, "torchtitan, FSDP and compile"),
    (
        "llama-70b",
        256,
        512,
        {"tp": 8, "pp": 1, "zero": 3, "recompute": True},
        "float8",
        829,
        "torchtitan, FSDP and tensor parallel",
    ),
    (
        "llama-405b",
        512,
        256,
        {"tp": 8, "pp": 8, "recompute": True},
        "float8",
        100,
        "torchtitan, three ways of parallelism",
    ),
]
SPREAD = [("llama-8b", 8), ("llama-70b", 64), ("llama-70b", 1024), ("llama-70b", 4096), ("moe-8x7b", 8),
          ("moe-8x7b", 64), ("moe-8x7b", 4096)]  # fmt: skip
LENGTH = 8192


def specs(batch, length):
    return [InputSpec([batch, length], "int64"), InputSpec([batch, length], "int64")]


def choice_of(degrees, batch):
    return planning.Choice(**degrees, micro_batch=batch // degrees.get("dp", 1))


def predicted(described, choice):
    """Collectives of a step and their bytes, by kind; between stages those of all of them."""
    counts, nbytes = Counter(), Counter()
    for c in search.priced(described, choice, CPU, Precision()).collectives:
        if c.kind != "send":
            counts[c.kind] += round(c.count)
            nbytes[c.kind] += round(c.payload)
    if choice.pp > 1:
        borders = [stage[-1].border for stage in memory.stages(described, choice.pp)[:-1]]
        counts["send"], nbytes["send"] = 2 * len(borders), round(2 * sum(borders))
    return counts, nbytes


def compiled(options):
    size, batch, length = (TINY, 4, 8) if options.tiny else (SMALL, 64, 32)
    head(f"plans: a language model of width {size.width} compiled for virtual devices")
    model = planning.language_model(size)
    sample, floors, rows = specs(batch, length), Floors(), []
    described = planning.describe(model, sample, F.cross_entropy)
    for name in options.only or WIRES:
        choice = choice_of(WIRES[name], batch)
        found = planning.rehearse(planning.Plan(choice, described), model, sample, F.cross_entropy)
        needed = search.priced(described, choice, CPU, Precision()).memory.total
        counts, nbytes = predicted(described, choice)
        real = {kind: n for kind, n in found.collectives.items() if kind != "small"}
        if choice.pp > 1:  # between stages alone
            real = {"send": real["send"]}
        wrong = [k for k in {*real, *counts} if real.get(k, 0) != counts[k] or abs(found.payload[k] - nbytes[k]) > 64]
        said = ", ".join(f"{n} {kind}" for kind, n in sorted(real.items()))
        sent = sum(found.payload[kind] for kind in real)
        rows.append((
            name, cell(needed / 1e6), cell(found.memory / 1e6), f"{needed / found.memory - 1:+.1%}", said, f"{sent:,}",
            f"{sum(nbytes.values()):,}", "" if wrong else "equal",
        ))  # fmt: skip
        if not options.tiny and choice.pp == 1:
            floors.at_most(f"{name}: predicted / compiled memory, apart", abs(needed / found.memory - 1), 0.15)
        floors.at_most(f"{name}: kinds of collectives that differ", len(wrong), 0)
    table(("plan", "predicted MB", "compiled MB", "apart", "collectives", "bytes compiled", "predicted", ""), rows)
    return floors.show()


def published(options):
    head("plans: language models on H100, predicted without one", f"sequences of {LENGTH} tokens, bfloat16 or float8")
    known, rows = {}, []
    for name, devices, batch, fixed, dtype, told, who in PUBLISHED[: 1 if options.tiny else None]:
        for degrees in (fixed, None):
            found = on_h100(known, name, devices, batch, degrees, dtype)
            tokens, share = report.rates(found)[1:]
            what = f"{who}, {dtype}" if degrees else f"the search's own, {dtype}"
            rows.append((name, str(devices), repr(found.choice), f"{tokens:,.0f}", f"{told:,}",
                         f"{tokens / told - 1:+.0%}", f"{share:.1%}", what))  # fmt: skip
    for name, devices in () if options.tiny else SPREAD:
        try:
            found = on_h100(known, name, devices, max(devices, 64), None)
            tokens, share = report.rates(found)[1:]
            rows.append((name, str(devices), repr(found.choice), f"{tokens:,.0f}", "", "", f"{share:.1%}", ""))
        except ValueError as e:
            rows.append((name, str(devices), str(e).splitlines()[0], "", "", "", "", ""))
    table(("model", "devices", "plan", "tokens/s", "published", "error", "of its rate", "whose"), rows)
    return 0


def on_h100(known, name, devices, batch, fixed, dtype="bfloat16"):
    if name not in known:
        known[name] = planning.describe(planning.language_model(name), specs(1, LENGTH), F.cross_entropy)
    if dtype == "bfloat16":
        return planning.plan(known[name], devices=devices, batch=batch, fixed=fixed)
    # products in float8, all that is stored as in bfloat16
    hardware, precision = planning.Hardware.load("H100"), dataclasses.replace(Precision.of("bfloat16"), dtype=dtype)
    best = search.ranked(known[name], devices, batch, hardware, precision, fixed)[0][0]
    return planning.Plan(best.choice, known[name], hardware, precision, best.memory, best.time, best.collectives)


def many(options):
    devices = 4 if options.tiny else 512
    head(f"plans: a step compiled for {devices} devices")
    model, size = planning.language_model(TINY), 2 * devices
    sample, rows = specs(size, 8), []
    described = planning.describe(model, sample, F.cross_entropy)
    for degrees in ({"dp": devices}, {"dp": devices // 2, "tp": 2, "zero": 1}):
        choice = choice_of(degrees, size)
        found = planning.rehearse(planning.Plan(choice, described), model, sample, F.cross_entropy)
        said = ", ".join(f"{n} {kind}" for kind, n in sorted(found.collectives.items()))
        rows.append((repr(choice), cell(found.memory / 1e6), cell(found.seconds), said))
    table(("plan", "MB a device", "seconds to compile", "collectives"), rows)
    return 0


# ------------------------------------------------------------ measured


def twelve(processes):
    """Plans to measure: all that processes can run."""
    found = [{"dp": processes, "zero": z} for z in (0, 1, 2, 3)] + [{"tp": processes}, {"tp": processes, "sp": True}]
    found += [{"dp": processes, "recompute": True}, {"tp": processes, "recompute": True}]
    if processes == 4:
        found += [{"dp": 2, "tp": 2, "zero": z} for z in (0, 1, 3)] + [{"dp": 2, "tp": 2, "sp": True}]
    else:
        found += [{"dp": processes, "zero": z, "recompute": True} for z in (1, 2, 3)]
        found += [{"tp": processes, "sp": True, "recompute": True}]
    return found


def stepping(degrees, size, batch, length):
    """A function that takes a step as a plan divides it, and returns its milliseconds."""
    bireme.seed(0)
    model = planning.LanguageModel(size)
    optimizer = bireme.optimizer.AdamW(1e-3, parameters=model.parameters())
    described = planning.describe(model, specs(batch, length), F.cross_entropy)
    chosen = planning.Plan(choice_of(degrees, batch), described)
    model, optimizer = dist.parallelize(model, optimizer, config=chosen)
    mesh, rng = chosen.process_mesh(), np.random.default_rng(0)

    def step():
        ids = [
            dist.shard_tensor(rng.integers(0, size.vocabulary, [batch, length]), mesh, [dist.Shard(0)]) for _ in "xy"
        ]
        start = time.perf_counter()
        loss = F.cross_entropy(model(ids[0]), ids[1])
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        loss.item()
        return (time.perf_counter() - start) * 1e3

    for _ in range(3):
        step()
    return step


def serve(options):
    """One process of those that measure."""
    dist.init_parallel_env()
    size, batch, length = (TINY, 8, 8) if options.tiny else (SMALL, 32, 32)
    hardware = planning.this_machine()
    described = planning.describe(planning.language_model(size), specs(batch, length), F.cross_entropy)
    plans = twelve(dist.get_world_size())[: 2 if options.tiny else None]
    prices = [search.priced(described, choice_of(degrees, batch), hardware, Precision()) for degrees in plans]
    steps = [stepping(degrees, size, batch, length) for degrees in plans]
    # one step of each in turn: what else the machine does meanwhile, it does to all of them
    times = [median(of_one) for of_one in zip(*[[step() for step in steps] for _ in range(options.steps)])]
    if dist.get_rank() == 0:
        rows = [(repr(price.choice), price.time.total * 1e3, ms) for price, ms in zip(prices, times)]
        Path(options.out).write_text(json.dumps(rows))


def processes(options):
    head(f"plans: measured on {options.processes} processes of this machine, which was measured before")
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.json")
        command = [sys.executable, "-W", "ignore", "-m", "bireme.distributed.launch", f"--log_dir={folder}"]
        command += [f"--nproc_per_node={options.processes}", __file__, "--out", out, "--steps", str(options.steps)]
        paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        done = subprocess.run([*command, *(["--tiny"] if options.tiny else [])], cwd=folder, text=True,
                              env={**os.environ, "PYTHONPATH": paths}, capture_output=True)  # fmt: skip
        if not os.path.exists(out):
            print((done.stdout + done.stderr)[-2000:])
            return 1
        rows = json.loads(Path(out).read_text())
    rows.sort(key=lambda row: row[1])
    best = min(row[2] for row in rows)
    order = {name: i + 1 for i, (name, _, _) in enumerate(sorted(rows, key=lambda row: row[2]))}
    table(("plan", "predicted ms", "measured ms", "place", "/ best"),
          [(name, cell(a), cell(b), str(order[name]), cell(b / best)) for name, a, b in rows])  # fmt: skip
    places = np.argsort(np.argsort([row[2] for row in rows]))
    print(f"rank correlation {np.corrcoef(places, np.arange(len(rows)))[0, 1]:.2f}")
    floors = Floors()
    floors.at_most("measured time of the chosen plan / the best", rows[0][2] / best, 1.1)
    return floors.show()


WHAT = {"compiled": compiled, "published": published, "processes": processes, "many": many}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", choices=WHAT, default="compiled", help="what is shown (default compiled)")
    parser.add_argument("--only", nargs="+", choices=WIRES, help="some of the plans that are compiled")
    parser.add_argument("--processes", type=int, default=2, help="processes that work together (default 2)")
    parser.add_argument("--steps", type=int, default=15, help="steps of each plan that count (default 15)")
    parser.add_argument("--tiny", action="store_true", help="a smaller model, and fewer rows")
    parser.add_argument("--out", help=argparse.SUPPRESS)
    options = parser.parse_args()
    return serve(options) if options.out else WHAT[options.what](options)


if __name__ == "__main__":
    sys.exit(main())
