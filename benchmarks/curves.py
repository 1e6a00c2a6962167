"""Loss curves beside PaddlePaddle's: ResNet-18, an LSTM and a transformer, 50 steps from the same weights with the same
data.

Weights go from one framework to the other as `.pdparams` files: those of ResNet-18 are written by Paddle and read by
Bireme, the others the other way round. Both run the same code. Floor: at each step the losses differ by at most 1e-3 of
Paddle's.

ResNet-18 is compared in float64. With images of 32 x 32 its last batch normalisations see 8 numbers a channel, and what
is rounded in one step is a million times larger a few steps later: in float32 Paddle differs as much from itself once
its weights are moved by 1e-7. That is shown as well, without a floor.
"""

import argparse
import importlib
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import Floors, head, table
from benchmarks.peers import Peers

WORK = ("resnet18", "lstm", "transformer")
WRITER = {"resnet18": "paddle", "lstm": "bireme", "transformer": "bireme"}
CLASSES, WORDS, TOLERANCE = 10, 100, 1e-3
DTYPES = {"resnet18": ("float64", "float32"), "lstm": ("float32",), "transformer": ("float32",)}
CHAOTIC = ("resnet18", "float32")
MOVED = "paddle, weights moved by 1e-7"
NAMES = {MOVED: "paddle"}


def built(paddle, work, steps):
    """The model and its optimizer; `paddle` may be Bireme."""
    nn, optimizer = paddle.nn, paddle.optimizer

    class Words(nn.Layer):
        """Words, what turns them into features, and a guess of the sentence's class from their mean."""

        def __init__(self, inner):
            super().__init__()
            self.token, self.inner, self.head = nn.Embedding(WORDS, 64), inner, nn.Linear(64, CLASSES)

        def forward(self, ids):
            x = self.inner(self.token(ids))
            return self.head((x[0] if isinstance(x, tuple) else x).mean(1))

    if work == "resnet18":
        # numbers that float32 holds exactly: Paddle rounds them to it, also where it computes in float64
        model = paddle.vision.models.resnet18(num_classes=CLASSES)
        schedule = optimizer.lr.CosineAnnealingDecay(0.01, steps)
        return (
            model,
            optimizer.Momentum(schedule, 0.875, parameters=model.parameters(), weight_decay=2.0**-13),
            schedule,
        )
    if work == "lstm":
        model = Words(nn.LSTM(64, 64, 2))
        schedule = optimizer.lr.ExponentialDecay(3e-3, 0.99)
        return (
            model,
            optimizer.Adam(schedule, parameters=model.parameters(), grad_clip=nn.ClipGradByGlobalNorm(1.0)),
            schedule,
        )
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, activation="gelu")
    model = Words(nn.TransformerEncoder(layer, 2))
    schedule = optimizer.lr.LinearWarmup(1e-3, 10, 0.0, 1e-3)
    return model, optimizer.AdamW(schedule, parameters=model.parameters(), weight_decay=0.01), schedule


def batches(work, dtype, steps, batch=8):
    """The batches of all steps; what is to be learnt is in them."""
    rng = np.random.default_rng(0)
    marks = rng.standard_normal((CLASSES, 3, 32, 32), np.float32)
    made = []
    for _ in range(steps):
        labels = rng.integers(0, CLASSES, batch)
        if work == "resnet18":
            data = (marks[labels] + rng.standard_normal((batch, 3, 32, 32), np.float32)).astype(dtype)
        else:
            data = rng.integers(0, WORDS, (batch, 16))
            data[:, ::3] = labels[:, None] * 3  # every third word tells the class
        made.append((data, labels))
    return made


def make(name, work, dtype, steps):
    """In the peer's process: answers 'write' and 'train' with a path."""
    paddle = importlib.import_module(NAMES.get(name, name))
    paddle.seed(0)
    paddle.set_default_dtype(dtype)
    model, opt, schedule = built(paddle, work, steps)

    def answer(what, path):
        if what == "write":
            paddle.save(model.state_dict(), path)
            return "written"
        missing, unexpected = model.set_state_dict(paddle.load(path))
        if missing or unexpected:
            return f"not in the file: {missing}; not in the model: {unexpected}"
        if name == MOVED:
            with paddle.no_grad():
                for p in model.parameters():
                    p.set_value(p * (1 + 1e-7))
        losses = []
        for x, labels in batches(work, dtype, steps):
            loss = paddle.nn.functional.cross_entropy(model(paddle.to_tensor(x)), paddle.to_tensor(labels))
            loss.backward()
            opt.step()
            opt.clear_grad()
            schedule.step()
            losses.append(float(loss))
        return losses

    return answer


def curves(work, folder, dtype, peers, steps):
    """The losses of each peer that is there, by name."""
    path = str(Path(folder) / f"{work}.{dtype}.pdparams")
    with Peers() as running:
        for name in peers:
            running.start(name, make, name, work, dtype, steps)
        writer = WRITER[work] if WRITER[work] in running.live else next(iter(running.live), None)
        running.ask(writer, "write", path)
        found = {name: running.ask(name, "train", path) for name in peers}
        running.report()
    for name, answer in found.items():
        if isinstance(answer, str):
            print(f"{work} {dtype}, {name}: {answer}")
    return {name: answer for name, answer in found.items() if isinstance(answer, list)}


def compare(work, dtype, folder, peers, shown, steps):
    """Rows of the table, and the largest relative difference of each peer from Paddle."""
    found = curves(work, folder, dtype, peers, steps)
    rows, apart = [], {}
    for name, values in found.items():
        rows.append((f"{work} {dtype}, {name}", *[f"{values[i]:.5f}" for i in shown]))
        if name != "paddle" and "paddle" in found:
            theirs = np.array(found["paddle"])
            difference = np.abs(np.array(values) - theirs) / np.abs(theirs)
            rows.append(("   difference from paddle", *[f"{difference[i]:.1e}" for i in shown]))
            apart[name] = difference.max()
    return rows, apart


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=WORK, default=WORK, help="which models (default all)")
    parser.add_argument("--steps", type=int, default=50, help="steps of each (default 50)")
    parser.add_argument("--all", action="store_true", help="show the losses of every step")
    options = parser.parse_args()
    head("curves: the same training in Bireme and in PaddlePaddle", f"steps     {options.steps}, batch 8")
    some = [i for i in (0, 1, 4, 9, 19, 29, 39, 49) if i < options.steps]
    floors, shown, rows = Floors(), range(options.steps) if options.all else some, []
    with tempfile.TemporaryDirectory() as folder:
        for work in options.only:
            for dtype in DTYPES[work]:
                peers = ("bireme", "paddle", MOVED) if (work, dtype) == CHAOTIC else ("bireme", "paddle")
                made, apart = compare(work, dtype, folder, peers, shown, options.steps)
                rows += made
                if MOVED not in peers:
                    worst = apart.get("bireme", float("nan"))
                    floors.at_most(f"{work} {dtype}: largest relative difference", worst * 100, TOLERANCE * 100, " %")
    table(("loss at step", *[i + 1 for i in shown]), rows)
    return floors.show()


if __name__ == "__main__":
    sys.exit(main())
