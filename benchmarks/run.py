"""All benchmarks of the CPU in one go: makes `.venv-bench` with the peers, then runs them and prints every table.

    python benchmarks/run.py                 what `make bench` calls
    python benchmarks/run.py --only chain    some of them

The environment is made once and again when the list of packages changes. gpt2, accelerator, gpu_inference and first_minute need
a GPU and are started by hand.
"""

import argparse
import os
import subprocess
import sys
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".venv-bench"
# torch is the one peer whose version the floors name
SERVING = ("fastapi", "grpcio", "httptools", "prometheus_client", "uvicorn")
PACKAGES = (
    "torch==2.13.0",
    "torchvision==0.28.0",
    "paddlepaddle",
    "jax",
    "onnxruntime",
    "onnx",
    "opencv-python-headless",
    "pyclipper",
    "pillow",
    "matplotlib",
    "rapidocr_onnxruntime",
    "rapidocr_paddle",
    *SERVING,
)
BENCHMARKS = (
    "chain",
    "operators",
    "step",
    "cold",
    "loops",
    "lengths",
    "micro",
    "training",
    "programs",
    "curves",
    "jobs",
    "loader",
    "processes",
    "checkpoints",
    "parameter_server",
    "plans",
    "recompute",
    "quantization",
    "quantized_models",
    "c_export",
    "sparse",
    "inference",
    "serving",
    "language_models",
    "ocr",
    "graph_networks",
    "detection",
    "data_pipeline",
)


def environment():
    """The Python of an environment that has the peers and this project; made here if it is not there yet."""
    python = FOLDER / ("Scripts" if os.name == "nt" else "bin") / "python"
    stamp, wanted = FOLDER / "packages.txt", "\n".join(PACKAGES)
    if not (stamp.exists() and stamp.read_text() == wanted):
        print(f"making {FOLDER.name} with {', '.join(PACKAGES)} and the project", flush=True)
        venv.create(FOLDER, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES, "--editable", str(ROOT)], check=True)
        stamp.write_text(wanted)
    return python


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, default=BENCHMARKS, help="some of the benchmarks")
    parser.add_argument("--python", type=Path, help="a Python that has the peers already")
    options = parser.parse_args()
    python, missed = options.python or environment(), []
    for name in BENCHMARKS:
        if name in options.only:
            start = time.perf_counter()
            done = subprocess.run([python, "-W", "ignore", "-m", f"benchmarks.{name}"], cwd=ROOT, check=False)
            print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
            missed += [name] if done.returncode else []
    print("all floors held" if not missed else f"floors missed in: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
