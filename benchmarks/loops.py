"""Twelve training loops that must not compile again after their third step.

Each `loop_*(bireme)` trains a small network the way users do and gives (compiles after step 3, compiles at the end),
so that the test-suite can run the same loops. `ALLOWED` names the one loop that may compile once more.
"""

import argparse
import contextlib
import gc
import importlib
import io
import math
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.measure import head, table

STEADY, STEPS = 3, 40
FEATURES, CLASSES, BATCH = 64, 10, 64
ALLOWED = {"loop_last_batch": 1}
FLAT = 8.0  # MiB that 8,000 steps may add: a leak of one small array a step would be more


def network(bireme, width=256, dropout=0.0):
    nn = bireme.nn
    middle = [nn.Dropout(dropout)] if dropout else []
    return nn.Sequential(nn.Linear(FEATURES, width), nn.GELU(), *middle, nn.Linear(width, CLASSES))


def data(n=BATCH, seed=0):
    """Batches without end: ids of the classes follow from the features, so that there is something to learn."""
    rng = np.random.default_rng(seed)
    mixing = rng.standard_normal((FEATURES, CLASSES)).astype(np.float32)
    while True:
        x = rng.standard_normal((n, FEATURES)).astype(np.float32)
        yield x, (x @ mixing).argmax(-1)


def adamw(bireme, model, rate=1e-3, clip=None):
    return bireme.optimizer.AdamW(rate, parameters=model.parameters(), weight_decay=0.01, grad_clip=clip)


def train(bireme, model, opt, x, y):
    """One plain step; gives logits, labels and loss, all of them unread."""
    y = bireme.to_tensor(y)
    logits = model(bireme.to_tensor(x))
    loss = bireme.nn.functional.cross_entropy(logits, y)
    loss.backward()
    opt.step()
    opt.clear_grad()
    return logits, y, loss


def compiles(bireme):
    return bireme.debug.stats()["compiles"]


def count(bireme, body, steps=STEPS):
    """Run `body(step)`; compiles after step 3 and at the end."""
    for step in range(1, steps + 1):
        body(step)
        if step == STEADY:
            early = compiles(bireme)
    return early, compiles(bireme)


def loop_schedule(bireme):
    """A learning rate that changes every step."""
    model, batches = network(bireme), data()
    rate = bireme.optimizer.lr.CosineAnnealingDecay(learning_rate=1e-3, T_max=STEPS)
    opt = adamw(bireme, model, rate)

    def body(step):
        *_, loss = train(bireme, model, opt, *next(batches))
        rate.step()
        float(loss)

    return count(bireme, body)


def loop_dropout(bireme):
    """New random numbers every step."""
    model, batches = network(bireme, dropout=0.3), data()
    opt = adamw(bireme, model)
    return count(bireme, lambda step: float(train(bireme, model, opt, *next(batches))[2]))


def loop_print(bireme):
    """The loss printed every step."""
    model, batches = network(bireme), data()
    opt = adamw(bireme, model)
    with contextlib.redirect_stdout(io.StringIO()):
        return count(bireme, lambda step: print(train(bireme, model, opt, *next(batches))[2]))


def loop_branch(bireme):
    """A decision on `loss.item()` between forward and backward."""
    model, batches = network(bireme), data()
    opt, best = adamw(bireme, model), math.inf

    def body(step):
        nonlocal best
        x, y = next(batches)
        loss = bireme.nn.functional.cross_entropy(model(bireme.to_tensor(x)), bireme.to_tensor(y))
        if not math.isfinite(loss.item()):
            return
        loss.backward()
        opt.step()
        opt.clear_grad()
        if loss.item() < best:
            best = loss.item()

    return count(bireme, body)


def loop_clip(bireme):
    """Gradients clipped by their global norm."""
    model, batches = network(bireme), data()
    opt = adamw(bireme, model, clip=bireme.nn.ClipGradByGlobalNorm(1.0))
    return count(bireme, lambda step: float(train(bireme, model, opt, *next(batches))[2]))


def loop_log(bireme):
    """Loss and accuracy formatted every tenth step; nothing is read in the others."""
    model, batches, lines = network(bireme), data(), []
    opt = adamw(bireme, model)

    def body(step):
        logits, y, loss = train(bireme, model, opt, *next(batches))
        if step % 10 == 0:
            right = (logits.argmax(axis=-1) == y).astype("float32").mean()
            lines.append(f"step {step} loss {float(loss):.4f} accuracy {float(right):.3f}")

    found = count(bireme, body)
    assert len(lines) == STEPS // 10
    return found


def loop_metrics(bireme, steps=10_000, resident=None):
    """Sums of loss and hits over 10,000 steps, read at the end; `resident`, a list, gets MiB every 1,000 steps."""
    model, batches = network(bireme, width=64), data()
    opt = adamw(bireme, model)
    fixed = [next(batches) for _ in range(8)]  # 10,000 batches made anew would measure NumPy
    total, hits = bireme.zeros([]), bireme.zeros([])

    def body(step):
        nonlocal total, hits
        logits, y, loss = train(bireme, model, opt, *fixed[step % len(fixed)])
        total = total + loss.detach()
        hits = hits + (logits.detach().argmax(axis=-1) == y).astype("float32").sum()
        if resident is not None and step % 1000 == 0:
            gc.collect()
            resident.append(resident_mib())

    found = count(bireme, body, steps)
    assert math.isfinite(float(total)) and 0 < float(hits) <= steps * BATCH
    return found


def loop_two_models(bireme):
    """Two networks trained in turn."""
    batches, pair = data(), []
    for width in (128, 256):
        model = network(bireme, width)
        pair.append((model, adamw(bireme, model)))

    def body(step):
        for model, opt in pair:
            float(train(bireme, model, opt, *next(batches))[2])

    return count(bireme, body)


def loop_two_threads(bireme):
    """The same step from two threads, each with its own network."""
    early, together = [], threading.Barrier(2, action=lambda: early.append(compiles(bireme)))

    def work(seed):
        model, batches = network(bireme), data(seed=seed)
        opt = adamw(bireme, model)
        try:
            for step in range(1, STEPS + 1):
                float(train(bireme, model, opt, *next(batches))[2])
                if step == STEADY:
                    together.wait()
        except BaseException:
            together.abort()  # or the other thread waits for ever
            raise

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(work, seed) for seed in (0, 1)]:
            done.result()
    return early[0], compiles(bireme)


def loop_last_batch(bireme):
    """Every eighth batch is smaller, as at the end of an epoch: one more shape, one more compile."""
    model, batches, last = network(bireme), data(), data(n=BATCH // 2 + 3, seed=1)
    opt = adamw(bireme, model)
    return count(bireme, lambda step: float(train(bireme, model, opt, *next(batches if step % 8 else last))[2]))


def loop_loss_scale(bireme):
    """A loss scale that grows every other step and falls now and then, as with mixed precision."""
    model, batches, scale = network(bireme), data(), 2.0**10
    opt = adamw(bireme, model)

    def body(step):
        nonlocal scale
        x, y = next(batches)
        loss = bireme.nn.functional.cross_entropy(model(bireme.to_tensor(x)), bireme.to_tensor(y))
        (loss * scale).backward()
        with bireme.no_grad():
            for p in model.parameters():
                p.grad.scale_(1 / scale)
        opt.step()
        opt.clear_grad()
        float(loss)
        scale = scale / 8 if step % 7 == 0 else scale * 2 if step % 2 else scale

    return count(bireme, body)


def loop_accumulate(bireme):
    """Gradients of four micro-batches, then one update."""
    model, batches = network(bireme), data(n=BATCH // 4)
    opt = adamw(bireme, model)

    def body(step):
        for _ in range(4):
            x, y = next(batches)
            loss = bireme.nn.functional.cross_entropy(model(bireme.to_tensor(x)), bireme.to_tensor(y))
            (loss / 4).backward()
        opt.step()
        opt.clear_grad()
        float(loss)

    return count(bireme, body)


LOOPS = [
    loop_schedule,
    loop_dropout,
    loop_print,
    loop_branch,
    loop_clip,
    loop_log,
    loop_metrics,
    loop_two_models,
    loop_two_threads,
    loop_last_batch,
    loop_loss_scale,
    loop_accumulate,
]


def resident_mib():
    """Memory of this process that is in RAM now (not its peak), in MiB; NaN where /proc does not say."""
    file = Path("/proc/self/statm")
    return int(file.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20 if file.exists() else math.nan


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [loop.__name__ for loop in LOOPS]
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="LOOP", help=" ".join(names))
    options = parser.parse_args()
    about = f"network   {FEATURES} features, 256 wide, {CLASSES} classes, batch {BATCH}, AdamW, float32"
    head("loops: twelve loops that must not compile again after step 3", about)
    bireme = importlib.import_module("bireme")
    rows, missed, resident = [], 0, []
    for loop in LOOPS:
        if loop.__name__ not in options.only:
            continue
        before, start = bireme.debug.stats(), time.perf_counter()
        early, end = loop(bireme, resident=resident) if loop is loop_metrics else loop(bireme)
        seconds, after = time.perf_counter() - start, bireme.debug.stats()
        held = end - early <= ALLOWED.get(loop.__name__, 0)
        missed += not held
        base = before["compiles"]
        counts = [after[k] - before[k] for k in ("flushes", "interprets", "cache_hits")]
        rows.append((loop.__name__, early - base, end - base, *counts, f"{seconds:.1f}", "PASS" if held else "FAIL"))
    table(("loop", "compiles at step 3", "at the end", "flushes", "interpreted", "cache hits", "s", "verdict"), rows)
    if resident:
        growth = resident[-1] - resident[1]
        held = not growth > FLAT
        missed += not held
        print("loop_metrics, resident MiB every 1,000 steps:", *[f"{m:.1f}" for m in resident])
        print(f"growth from step 2,000 on: {growth:.1f} MiB, limit {FLAT:g}: {'PASS' if held else 'FAIL'}\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
