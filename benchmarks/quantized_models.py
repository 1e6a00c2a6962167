"""Saved models before and after quantization: size, accuracy and time, in Bireme and in onnxruntime.

Digits are read by a network of convolutions, trained here. PPLCNetV2 (of the package paddlelabel-ml 1.0.0, unpacked into a folder that `--models` or
BIREME_PADDLE_MODELS names) sees parts of photographs; its accuracy is how often the class is that of the float model.
A small transformer learns the next character of a text of licences. Models are quantized as `bireme quantize` does it, and beside it to
int8 by the tools of onnxruntime, with a scale for each channel and the ranges that 99.999 % of the numbers are in. Where classes are those of the
float model, those that are near ties tell little: `sure` is the share among samples whose two best ones are a tenth apart.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import measure, quantization
from benchmarks.peers import PAUSE

SIZE, ENDINGS = 224, (".jpg", ".jpeg", ".png", ".webp")
FORMS = ("float32", "int8", "weight-int8", "weight-int4")
PEER = "int8 of its tools"
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


def sources(folder):
    """Photographs: those of a folder and what is in it, else scikit-learn's two."""
    from PIL import Image

    if folder is None:
        from sklearn.datasets import load_sample_images

        return [Image.fromarray(each) for each in load_sample_images().images]
    found = []
    for path in sorted(Path(folder).rglob("*")):
        if path.suffix.lower() in ENDINGS:
            picture = Image.open(path)
            if min(picture.size) < SIZE // 2:
                continue
            picture.thumbnail((1024, 1024))
            found.append(Image.alpha_composite(Image.new("RGBA", picture.size, "silver"), picture.convert("RGBA")))
    return [found[i].convert("RGB") for i in np.random.default_rng(0).permutation(len(found))]


def parts(pictures, count):
    """So many parts of pictures, as a classifier takes them: first their middles, then squares chosen at random."""
    rng, found = np.random.default_rng(0), []
    for i in range(count):
        picture = pictures[i % len(pictures)]
        width, height = picture.size
        side = int(min(width, height) * (0.875 if i < len(pictures) else rng.uniform(0.5, 1)))
        spare = np.array([width - side, height - side])
        left, top = (spare // 2 if i < len(pictures) else rng.integers(0, spare + 1)).tolist()
        part = picture.crop((left, top, left + side, top + side)).resize((SIZE, SIZE))
        found.append(((np.asarray(part) / 255 - MEAN) / STD).transpose(2, 0, 1))
    return np.stack(found).astype("float32")


def classifier(models, folder, count):
    """Of many pictures a quarter finds scales and the others are judged; of two, both have parts for both."""
    paths = list(Path(models).rglob("PPLCNetV2/ckpt/inference.pdmodel")) if models else []
    if not paths:
        print(f"PPLCNetV2: there is no PPLCNetV2/ckpt/inference.pdmodel under {models}, so it is left out")
        return None
    pictures, few = sources(folder), count // 4
    if len(pictures) < 8:
        x = parts(pictures, count + few)
        return str(paths[0]), x[count:], x[:count], None
    cut = len(pictures) // 4
    return str(paths[0]), parts(pictures[:cut], few), parts(pictures[cut:], count), None


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
    from bireme.quantization.observers import MSEObserver
    from bireme.quantization.saved import Choice, quantized_model

    found = {"float32": path}
    batches = [[calibration[i : i + 16]] for i in range(0, len(calibration), 16)]
    for form in FORMS[1:]:
        model, _ = transformed(model_of(path), USUAL)
        choice = Choice(bits=4 if form == "weight-int4" else 8, tables=True)
        net, _ = quantized_model(model, form, batches, MSEObserver(symmetric=False) if form == "int8" else None, choice)
        found[form] = f"{folder}/{Path(path).name.partition('.')[0]}-{form}"
        store(net, model, found[form], "quantize")
    return found


def peer(path, calibration, folder):
    """A run of an int8 model that the tools of onnxruntime made of the float one, and the path of its file."""
    import onnxruntime
    from onnxruntime import quantization as tools
    from onnxruntime.quantization.shape_inference import quant_pre_process

    import bireme
    from bireme.inference.saved import model_of, sketches

    (name, (dtype, shape)), *_ = sketches(model_of(path))[0].items()
    spec = bireme.static.InputSpec([None if n < 0 else n for n in shape], dtype.name, name)
    start = f"{folder}/{Path(path).name.partition('.')[0]}-float"
    bireme.onnx.export(bireme.jit.load(path.removesuffix(".pdmodel")), f"{start}.onnx", [spec])
    quant_pre_process(f"{start}.onnx", f"{start}-plain.onnx", skip_symbolic_shape=True)

    class Samples(tools.CalibrationDataReader):
        def __init__(self):
            self.rows = iter([{name: calibration[i : i + 16]} for i in range(0, len(calibration), 16)])

        def get_next(self):
            return next(self.rows, None)

    tools.quantize_static(
        f"{start}-plain.onnx",
        f"{start}-peer.onnx",
        Samples(),
        per_channel=True,
        calibrate_method=tools.CalibrationMethod.Percentile,
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = measure.cores(), 1
    session = onnxruntime.InferenceSession(f"{start}-peer.onnx", options, providers=["CPUExecutionProvider"])
    return (lambda x: session.run(None, {name: x})[0]), f"{start}-peer.onnx"


def runs(path):
    """A run of a model's file by the engine and, where it has a form there, by onnxruntime."""
    import bireme
    from bireme.inference import Config, create_predictor
    from bireme.inference.saved import program_of

    found = {}
    for executor in ("bireme", "onnxruntime") if measure.version("onnxruntime") != "absent" else ("bireme",):
        config = Config(program_of(path))
        config.set_executor(executor)
        config.set_cpu_math_library_num_threads(measure.cores())
        try:
            predictor = create_predictor(config)
        except RuntimeError:  # integers of this form have no node
            continue
        found[executor] = lambda x, predictor=predictor: predictor.run([bireme.to_tensor(x)])[0].numpy()
    return found


def times(every, x, rounds):
    """Median milliseconds of each, in turns, each after a pause and a run that is not timed: threads of runtimes go on for a while."""
    found = {key: [] for key in every}
    for _ in range(rounds):
        for key, run in every.items():
            time.sleep(PAUSE)
            run(x)
            start = time.perf_counter()
            run(x)
            found[key].append(1e3 * (time.perf_counter() - start))
    return {key: float(np.median(some)) for key, some in found.items()}


def judged(title, made, options, folder, rows, floors):
    from bireme.command.comparison import size_of
    from bireme.inference.saved import program_of

    path, calibration, x, y = made
    n = options.batch
    x, y = x[: len(x) // n * n], None if y is None else y[: len(x) // n * n]
    paths = forms(path, calibration, folder)
    every = {(form, name): run for form, where in paths.items() for name, run in runs(where).items()}
    if (FORMS[0], "onnxruntime") in every:
        every[PEER, "onnxruntime"], paths[PEER] = peer(path, calibration, folder)
    right, sure, certain = {}, {}, None
    for key, run in every.items():
        given = np.concatenate([run(x[i : i + n]) for i in range(0, len(x), n)])
        if y is None:
            y, best = given.argmax(1), np.sort(given, 1)
            certain = best[:, -1] - best[:, -2] > 0.1
        same = given.argmax(1) == y
        right[key], sure[key] = 100 * float(same.mean()), "" if certain is None else f"{100 * same[certain].mean():.2f}"
        print(f"{title}: {' by '.join(key)}, {right[key]:.2f} % {sure[key]}", flush=True)
    if certain is not None:
        print(f"{title}: {certain.sum()} of {len(x)} samples have their two best classes a tenth apart")
    ms = times(every, x[:n], options.rounds)
    best = right[FORMS[0], "bireme"]
    for (form, name), share in right.items():
        where = program_of(paths[form])
        size, took = (os.path.getsize(where) if form == PEER else size_of(where)) / 1024, ms[form, name]
        ratio = took / ms[FORMS[0], name]
        cells = (
            f"{size:,.0f}",
            f"{share:.2f}",
            f"{best - share:+.2f}",
            sure[form, name],
            f"{took:.2f}",
            f"{ratio:.2f}",
        )
        rows.append((title, form, name, *cells))
        if form in MOST_LOST:
            floors.at_most(f"{title}, {form}, {name}: points lost", best - share, MOST_LOST[form])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--models", default=os.environ.get("BIREME_PADDLE_MODELS"), help="folder with unpacked packages"
    )
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--photographs", help="folder with pictures (default: the two that scikit-learn has)")
    parser.add_argument(
        "--pictures", type=int, default=128, help="parts of them that are judged (default: %(default)s)"
    )
    parser.add_argument("--only", nargs="*", default=["digits", "PPLCNetV2", "letters"])
    options = parser.parse_args(arguments)
    measure.head("saved models, quantized", f"KiB on disk, % right, ms of a batch of {options.batch}")
    rows, floors = [], measure.Floors()
    with tempfile.TemporaryDirectory() as folder:
        makers = {
            "digits": lambda: digits(options.epochs, folder),
            "PPLCNetV2": lambda: classifier(options.models, options.photographs, options.pictures),
            "letters": lambda: language(options.epochs, folder),
        }
        for title in options.only:
            made = makers[title]()
            if made is not None:
                judged(title, made, options, folder, rows, floors)
    measure.table(("model", "form", "runtime", "KiB", "right", "lost", "sure", "ms", "of float32"), rows)
    return floors.show()


if __name__ == "__main__":
    sys.exit(main())
