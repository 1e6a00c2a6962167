"""Saved models before and after quantization: size, accuracy and time, in Bireme and in onnxruntime.

Digits are read by a network of convolutions, trained here. PPLCNetV2 (of the package paddlelabel-ml 1.0.0, unpacked into a folder that `--models` or
BIREME_PADDLE_MODELS names) sees parts of scikit-learn's photographs; its accuracy is how often the class is that of the float model.
A small transformer learns the next character of a text of licences. Models are quantized as `bireme quantize` does it.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import measure, quantization

FORMS = ("float32", "int8", "weight-int8", "weight-int4")
MOST_LOST = {"int8": 3.0, "weight-int8": 1.0}  # points
MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
LENGTH = 32


def digits(epochs, folder):
    """A saved model, samples to find scales in, samples to be judged by, and their classes."""
    import bireme

    x, y = quantization.digits()
    bireme.seed(0)
    net = quantization.images()
    quantization.train(net, x, y, epochs)
    net.eval()
    bireme.jit.save(net, f"{folder}/digits", [bireme.static.InputSpec([None, 1, 8, 8], "float32", "x")])
    return f"{folder}/digits", x[:320], x[quantization.TRAIN :], y[quantization.TRAIN :]


def photographs(count):
    """Parts of real pictures, as a classifier takes them."""
    from sklearn.datasets import load_sample_images

    rng, found = np.random.default_rng(0), []
    pictures = load_sample_images().images
    for i in range(count):
        picture = pictures[i % len(pictures)]
        size = int(rng.integers(224, min(picture.shape[:2])))
        top, left = (int(rng.integers(0, n - size + 1)) for n in picture.shape[:2])
        at = np.arange(224) * size // 224
        part = picture[top : top + size, left : left + size][at][:, at]
        found.append(((part / 255 - MEAN) / STD).transpose(2, 0, 1))
    return np.stack(found).astype("float32")


def classifier(models, count):
    paths = list(Path(models).rglob("PPLCNetV2/ckpt/inference.pdmodel")) if models else []
    if not paths:
        print(f"PPLCNetV2: there is no PPLCNetV2/ckpt/inference.pdmodel under {models}, so it is left out")
        return None
    x = photographs(2 * count)
    return str(paths[0]), x[:count], x[count:], None


def language(epochs, folder):
    import bireme
    from bireme import nn

    text = (Path(__file__).resolve().parents[1] / "LICENSE").read_text()
    letters = sorted(set(text))
    ids = np.array([letters.index(c) for c in text])
    rows = np.stack([ids[i : i + LENGTH + 1] for i in range(0, len(ids) - LENGTH - 1, 7)])
    rows = rows[np.random.default_rng(0).permutation(len(rows))]

    class Letters(nn.Layer):
        """The next character, from those before it."""

        def __init__(self, width=64):
            super().__init__()
            self.table, self.place = nn.Embedding(len(letters), width), self.create_parameter([LENGTH, width])
            one = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0)
            self.blocks, self.head = nn.TransformerEncoder(one, 2), nn.Linear(width, len(letters))
            mask = np.triu(np.full((LENGTH, LENGTH), -1e9, "float32"), 1)
            self.register_buffer("mask", bireme.to_tensor(mask))

        def forward(self, ids):
            return self.head(self.blocks(self.table(ids) + self.place, self.mask)[:, -1])

    bireme.seed(0)
    net = Letters()
    opt = bireme.optimizer.AdamW(2e-3, parameters=net.parameters())
    kept = len(rows) * 9 // 10 // 64 * 64
    for _ in range(epochs):
        for i in range(0, kept, 64):
            batch = rows[i : i + 64]
            loss = nn.functional.cross_entropy(net(bireme.to_tensor(batch[:, :-1])), bireme.to_tensor(batch[:, -1]))
            loss.backward()
            opt.step()
            opt.clear_grad()
    net.eval()
    bireme.jit.save(net, f"{folder}/letters", [bireme.static.InputSpec([None, LENGTH], "int64", "ids")])
    return f"{folder}/letters", rows[:128, :-1], rows[kept:, :-1], rows[kept:, -1]


def forms(path, calibration, folder):
    """Paths of a model in each form."""
    from bireme.command.comparison import store
    from bireme.inference.saved import model_of
    from bireme.jit.transforms import USUAL, transformed
    from bireme.quantization.observers.histogram import MSEObserver
    from bireme.quantization.saved import quantized_model

    found = {"float32": path}
    batches = [[calibration[i : i + 16]] for i in range(0, len(calibration), 16)]
    for form in FORMS[1:]:
        model, _ = transformed(model_of(path), USUAL)
        net, _ = quantized_model(model, form, batches, MSEObserver() if form == "int8" else None)
        found[form] = f"{folder}/{Path(path).name.partition('.')[0]}-{form}"
        store(net, model, found[form], "quantize")
    return found


def runs(path, threads):
    """A run of a model's file in Bireme and, where it has a form there, in onnxruntime."""
    import bireme
    from bireme.inference import Config, create_predictor
    from bireme.inference.saved import model_of, program_of
    from bireme.jit import TranslatedLayer

    predictor = create_predictor(Config(program_of(path)))
    found = {"bireme": lambda x: predictor.run([bireme.to_tensor(x)])[0].numpy()}
    if measure.version("onnxruntime") == "absent":
        return found
    import onnxruntime

    graph = model_of(path)
    specs = [bireme.static.InputSpec([None, *x.shape[1:]], x.dtype, x.name) for x in graph.inputs]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    with tempfile.TemporaryDirectory() as folder:
        try:
            bireme.onnx.export(TranslatedLayer({"forward": graph}, graph.program.tensors), f"{folder}/m.onnx", specs)
        except RuntimeError:  # integers of this form have no node
            return found
        session = onnxruntime.InferenceSession(f"{folder}/m.onnx", options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return found | {"onnxruntime": lambda x: session.run(None, {name: x})[0]}


def judged(title, made, options, folder, rows, floors):
    from bireme.command.comparison import size_of
    from bireme.inference.saved import program_of

    path, calibration, x, y = made
    best = None
    for form, where in forms(path, calibration, folder).items():
        executors = runs(where, measure.cores())
        for executor, run in executors.items():
            given = np.concatenate([run(x[i : i + 64]) for i in range(0, len(x), 64)]).argmax(1)
            y = given if y is None else y
            right = 100 * float((given == y).mean())
            best = right if best is None else best
            ms = quantization.times({"": lambda run=run: run(x[: options.batch])}, options.rounds)[""]
            size = size_of(program_of(where)) / 1024
            rows.append((title, form, executor, f"{size:,.0f}", f"{right:.2f}", f"{best - right:+.2f}", f"{ms:.2f}"))
            if form in MOST_LOST:
                floors.at_most(f"{title}, {form}, {executor}: points lost", best - right, MOST_LOST[form])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--models", default=os.environ.get("BIREME_PADDLE_MODELS"), help="folder with unpacked packages"
    )
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--pictures", type=int, default=64)
    parser.add_argument("--only", nargs="*", default=["digits", "PPLCNetV2", "letters"])
    options = parser.parse_args(arguments)
    measure.head("saved models, quantized", f"KiB on disk, % right, ms of a batch of {options.batch}")
    rows, floors = [], measure.Floors()
    with tempfile.TemporaryDirectory() as folder:
        makers = {
            "digits": lambda: digits(options.epochs, folder),
            "PPLCNetV2": lambda: classifier(options.models, options.pictures),
            "letters": lambda: language(options.epochs, folder),
        }
        for title in options.only:
            made = makers[title]()
            if made is not None:
                judged(title, made, options, folder, rows, floors)
    measure.table(("model", "form", "runtime", "KiB", "right", "lost", "ms"), rows)
    return floors.show()


if __name__ == "__main__":
    sys.exit(main())
