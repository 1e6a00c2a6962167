"""Every benchmark runs to its end at a tiny size, with Bireme and jax; other frameworks are left out where they are
not.
"""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import bireme
from benchmarks import networks, programs, run
from benchmarks.first_minute import NETWORKS, TOLERANCE, paddle_step
from benchmarks.jobs import CHAOTIC, FIRST

ROOT = Path(__file__).resolve().parent.parent
ONCE = "--rounds 1 --steps 1 --warm 1"
# name: arguments, and what a measured row of Bireme's looks like
SCRIPTS = {
    "chain": ("--rounds 1 --repeats 1 --length 10", r"bireme dynamic, with backward +[\d.]+ "),
    "operators": ("--rounds 1 --repeats 1 --size small --only add matmul", r"matmul.* [\d.]+"),
    "step": (f"--tiny {ONCE} --peers bireme jax.jit", r"bireme dynamic +[\d.]+ .*\n(.*\n)*jax.jit, donated +[\d.]+ "),
    "cold": ("--tiny --repeat 1 --steps 5", r"bireme, filled cache +[\d.]+ +[\d.]+ "),
    "loops": ("--only loop_last_batch", r"loop_last_batch .*PASS"),
    "lengths": ("--tiny --steps 6 --peer-steps 2", r"bireme +6 +[\d.]+ "),
    "micro": ("--rounds 1", r"cache miss.* [\d.]+ "),
    "training": (f"--tiny {ONCE} --peers bireme --only lstm", r"bireme dynamic +[\d.]+ "),
    "programs": (
        "--tiny --rounds 1 --steps 1 --trained 3 --only lstm --forms dynamic static",
        r"static +[\d.]+ (.*\n)*lstm: static, losses of 3 steps +0.00e-5 .*PASS",
    ),
    "curves": ("--only lstm --steps 2", r"lstm float32, bireme +[\d.]+ +[\d.]+"),
    "jobs": ("--tiny --networks mlp policy_gradient", r"mlp +7 +[\d.]+ "),
    "loader": ("--images 32 --batch 16 --workers 1 --rounds 1 --peers bireme", r"Bireme +[\d,]+ "),
    "processes": ("--tiny --processes 1 --rounds 1 --repeats 1 --peers bireme", r"step, width 64 +[\d.]+ "),
    "checkpoints": ("--megabytes 2 --rounds 1 --peers bireme", r"bireme +[\d.]+ "),
    "parameter_server": ("--ids 3000 --batch 500 --batches 2 --rounds 1 --threads", r"pushed +[\d.]+ "),
    "plans": ("--what published --tiny", r"llama-8b +8 .* [\d,]+ +6,667 "),
    "recompute": ("--layers 1 --width 16 --batch 2 --length 8", r"with recompute +[\d.]+ MiB"),
    "quantization": (
        "--what products files --rounds 1 --tiny",
        r"\[1, 64\] by \[64, 64\] +[\d.]+ (.*\n)*digits +[\d.]+ ",
    ),
    "quantized_models": ("--epochs 1 --rounds 1 --only digits --batch 4", r"digits +int8 +bireme +[\d.]+ "),
    "c_export": ("--rounds 1 --seconds 0.01 --tiny", r"digits, int8 +[\d.]+ "),
    "inference": (
        "--rounds 1 --seconds 0.01 --peers bireme --models /nowhere --what runs start threads shapes --count 20",
        r"a small network +[\d.]+ +[\d.]+ +[\d.]+ +0 +yes (.*\n)*a small network +16 +192 +0\n(.*\n)*a small network +20 ",
    ),
    "serving": ("--seconds 0.2 --clients 2 --width 16 --servers batched", r"2 clients, batched +[\d,]+ "),
    "language_models": ("--tiny --rounds 1 --only batching", r"continuous +[\d.]+ "),
    "ocr": ("--tiny --pages 1 --rounds 1 --peers bireme --models /nowhere", r"bireme +[\d.]+ "),
    "sparse": ("--tiny --rounds 1 --repeats 1 --peers bireme", r"csr @ dense +[\d.]+ "),
    "graph_networks": ("--tiny --rounds 1 --repeats 1 --peers bireme", r"gat +[\d.]+ "),
    "detection": ("--boxes 50 --rounds 1 --repeats 1 --peers bireme --only nms roi_align", r"roi_align +[\d.]+ "),
    "data_pipeline": (
        "--images 6 --file 20 30 --size 8 --batch 2 --workers 0 --rounds 1 --peers bireme",
        r"Bireme +[\d.]+ ",
    ),
    "gpt2": (f"--tiny {ONCE} --peers bireme jax.jit", r"bireme.* [\d.]+ .*\n(.*\n)*jax.jit.* [\d.]+ "),
    "accelerator": (f"--tiny {ONCE} --peers bireme --only gpt2", r"bireme dynamic, O2 +[\d.]+ "),
    "gpu_inference": ("--tiny --peers bireme --only bert-1 --runs 2 --warm 1", r"bireme predictor +[\d.]+ "),
    "first_minute": ("--tiny --peers bireme --only llama --filled", r"llama +bireme, second process +[\d.]+ "),
}
TRANSFORMS = "--what transforms --only hflip Normalize --seconds 0 --rounds 1 --peers bireme"
MODES = {
    "lengths": r"bireme +[\d.]+ +[\d.]+ ",
    "generate": r"cache written by index +bireme +[\d.]+ ",
    "operators": r"layer_norm +[\d.]+ +[\d.]+",
}
# told by paddlepaddle 3.2.2: the first losses of the networks of jobs, at their tiny sizes
LOSSES = {
    "mlp": (2.5345, 2.5781),
    "cnn": (2.2404, 2.8556),
    "resnet18": (1.6000, 1.7121),
    "mobilenet_v2": (3.4371, 2.4201),
    "shufflenet_v2": (1.8454, 3.5305),
    "vit": (4.0918, 2.9501),
    "lstm": (1.9866, 2.0329),
    "bigru_crf": (8.9771, 7.3977),
    "seq2seq": (5.3862, 5.2582),
    "experts": (2.1678, 2.7178),
    "vae": (628.73, 605.91),
    "wgan_gp": (1.8860, 1.4583),
    "diffusion": (1.2730, 1.3322),
    "dqn": (0.29303, 0.30395),
    "policy_gradient": (0.085089, 0.26274),
    "graph": (6.4612, 10.520),
    "pinn": (0.47856, 0.44580),
}
# told by torch 2.13.0 in float32: the first losses of first_minute's own networks, at their tiny sizes
TOLD_BY_TORCH = {
    "mobilenet_v3": (2.3052, 2.3061),
    "convnext": (2.2574, 2.2027),
    "swin": (2.3075, 2.3123),
    "unet": (1.4063, 1.6596),
    "llama": (6.2874, 6.2545),
}
BY_HAND = {"gpt2", "accelerator", "gpu_inference", "first_minute"}  # they need a GPU


def test_every_benchmark_is_tried():
    found = {path.stem for path in (ROOT / "benchmarks").glob("*.py") if "main" in functions(path)} - {"run"}
    assert found == set(SCRIPTS) == set(run.BENCHMARKS) | BY_HAND


def functions(path):
    return [node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_benchmark_runs_to_its_end(name, tmp_path):
    run_to_its_end(name, *SCRIPTS[name], tmp_path)


@pytest.mark.parametrize("what", MODES)
def test_the_first_minute_has_other_modes(what, tmp_path):
    run_to_its_end("first_minute", f"--what {what} --tiny --peers bireme", MODES[what], tmp_path)


def test_the_pipeline_has_another_mode(tmp_path):
    run_to_its_end("data_pipeline", TRANSFORMS, r"Pillow, hflip +[\d.]+ ", tmp_path)


def run_to_its_end(name, arguments, row, tmp_path):
    command = [sys.executable, "-W", "ignore", "-m", f"benchmarks.{name}", *arguments.split()]
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=250)
    said = done.stdout + done.stderr
    assert done.returncode in (0, 1) and "Traceback" not in said, said  # a floor may be missed at such sizes
    assert re.search(rf"^{row}", done.stdout, re.MULTILINE), said
    assert not re.search(r"^(bireme|jax).*: (failed|No module)", done.stdout, re.MULTILINE), said


@pytest.mark.parametrize("form", [form for form in programs.CALLS if not form.startswith("paddle")])
def test_a_call_of_a_tiny_program_is_measured(form):
    try:
        assert programs.make_call(form, alone=False)(2) > 0
    finally:
        bireme.disable_static()


def test_every_network_of_jobs_has_its_sizes():
    assert list(networks.NETWORKS) == list(networks.SIZES) == list(networks.TINY) == list(LOSSES)


@pytest.mark.parametrize("name", LOSSES)
def test_a_network_of_jobs_trains_as_with_paddle(name):
    with bireme.debug.use_executor("interpreter"):
        step = networks.same(bireme, name, tiny=True)
        found = [step(i) for i in range(FIRST)]
    compared = 1 if name in CHAOTIC else FIRST
    assert found[:compared] == pytest.approx(LOSSES[name][:compared], rel=1e-3)


@pytest.mark.parametrize("name", TOLD_BY_TORCH)
def test_a_network_of_the_first_minute_trains_as_with_torch(name):
    network = NETWORKS[name]
    with bireme.debug.use_executor("interpreter"):
        step, data = paddle_step(bireme, network, network.tiny)
        found = [step(*batch) for batch in data]
    assert found == pytest.approx(TOLD_BY_TORCH[name], rel=TOLERANCE)  # in bfloat16
