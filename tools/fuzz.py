"""Calls every public function with unreasonable arguments: each call returns, or raises an error that names the
function.

Empty, 0-d, wrong rank, wrong type, axes out of range, huge sizes, None, texts: a call is one line of Python, drawn from
a seed, and run in a process of its own kind that has a limit of time and of memory. What counts as a failure: the
process died, the call did not end, the error is one of the libraries below, or its text does not name the function.
Each failure is printed with the line that reproduces it.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import json
import os
import random
import re
import resource
import select
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import bireme
from bireme.core.base import host_memory, registry
from bireme.core.record import guards
from bireme.core.tensor.tensor import Tensor
from tools import api_snapshot

MODULES = (
    "bireme",
    "bireme.Tensor",
    "bireme.compat",
    "bireme.fft",
    "bireme.linalg",
    "bireme.nn.functional",
    "bireme.signal",
    "bireme.special",
)
# what they do outlasts the call: files, the device, the state of the process
LEFT_OUT = {
    "bireme.check_shape",  # speaks in the name of the function that it is given
    "bireme.disable_signal_handler",
    "bireme.enable_static",
    "bireme.load",
    "bireme.save",
    "bireme.seed",
    "bireme.set_default_dtype",
    "bireme.set_device",
    "bireme.set_flags",
    "bireme.set_printoptions",
    "bireme.set_rng_state",
    "bireme.set_cuda_rng_state",
    "bireme.compat.install_as_paddle",
}
PROGRAM = ["-m", "tools.fuzz"]  # what the process that calls is started with
SECONDS = 20  # that one call may take
BYTES = 2 << 30  # that a result may have; the process itself gets some more

SHAPES = [
    "",
    "0",
    "1",
    "3",
    "2, 3",
    "2, 0, 3",
    "0, 0",
    "1, 1, 1",
    "2, 3, 4",
    "1, 2, 3, 4",
    "3, 3",
    "2, 2, 2",
    "1, 1, 1, 1, 1, 1, 1",
]
TYPES = ["float32"] * 6 + ["float64", "int64", "int64", "int32", "bool", "complex64", "bfloat16", "uint8"]
NUMBERS = [
    "-1",
    "0",
    "1",
    "2",
    "7",
    "-9",
    "10**12",
    "2**31 - 1",
    "2**31",
    "-2**31 - 1",
    "2**63 - 1",
    "2**63",
    "-2**63",
    "1.5",
    "-0.5",
    "float('nan')",
    "float('inf')",
    "1j",
    "True",
]
LISTS = [
    "[]",
    "()",
    "[0]",
    "[-1]",
    "[1, 0]",
    "[0, 0]",
    "[2, 3]",
    "[-1, 2]",
    "[10**6, 10**6]",
    "[2**62, 4]",
    "[2**31]",
    "[[0], [1]]",
    "[None]",
    "['a']",
    "[1.5]",
    "range(3)",
    "[0] * 70",
]
OTHERS = [
    "None",
    "'abc'",
    "''",
    "'float32'",
    "'mean'",
    "'int3'",
    "b'x'",
    "{}",
    "object()",
    "slice(None)",
    "np.zeros((2, 0))",
    "np.array('a')",
    "np.float64(2)",
    "lambda *a: 0",
    "bireme.float32",
    "bireme.CPUPlace()",
]

# what a parameter of this name is usually given, so that calls also get past the first check
USUAL = {
    "axis": ["0", "-1", "1", "None", "[0, 1]"],
    "dim": ["0", "-1", "1"],
    "shape": ["[2, 3]", "[-1]", "[6]", "[]"],
    "dtype": ["'float32'", "'int64'"],
    "perm": ["[1, 0]", "[0, 2, 1]"],
    "num_or_sections": ["1", "2", "[1, 2]"],
    "k": ["1", "2"],
    "n": ["1", "2"],
    "p": ["0.5", "2", "'fro'"],
    "keepdim": ["True", "False"],
    "index": ["bireme.to_tensor([0])", "bireme.to_tensor([[0, 1]])"],
    "indices": ["bireme.to_tensor([[0, 1]])"],
    "mode": ["'constant'", "'mean'", "'nearest'"],
    "reduction": ["'mean'", "'none'"],
    "repeats": ["2", "[1, 2]"],
    "chunks": ["2"],
    "starts": ["[0]"],
    "ends": ["[2]"],
    "axes": ["[0]"],
    "strides": ["[1]"],
    "kernel_size": ["2"],
    "size": ["[2, 2]"],
    "pad": ["[1, 1]"],
    "equation": ["'ij->ji'", "'ij,jk'"],
    "num": ["3"],
    "start": ["0"],
    "end": ["4"],
    "stop": ["4"],
    "shifts": ["1"],
    "offset": ["0", "1"],
    "num_classes": ["3"],
    "num_samples": ["2"],
    "bins": ["4"],
    "name": ["None", "'a'"],
    "data": ["[1, 2]", "3.5"],
    "fill_value": ["2", "1.5"],
    "out": ["None"],
    "device": ["None", "'cpu'"],
    "place": ["None", "'cpu'"],
    "source": ["0"],
    "destination": ["1"],
    "dims": ["[0, 1]", "[1, 0]"],
}


@dataclass
class Target:
    """A public function; `path` is how it is called, `names` are what its errors may call it."""

    path: str
    parameters: list[inspect.Parameter]
    method: bool
    names: set[str]


def targets(only: str = "") -> list[Target]:
    """The public functions and Tensor methods, in order; `only` is a part of their name."""
    found = []
    for path, value in api_snapshot.public_names():
        owner, _, name = path.rpartition(".")
        if owner not in MODULES or path in LEFT_OUT or only not in path or name.startswith("_"):
            continue
        method = owner == "bireme.Tensor"
        if inspect.isclass(value) or not callable(value):
            continue
        try:
            parameters = list(inspect.signature(value).parameters.values())
        except (TypeError, ValueError):
            continue
        # a method or an alias speaks in the name of the function that it leads to
        called = {name, getattr(value, "__name__", name), getattr(getattr(value, "function", value), "__name__", name)}
        found.append(
            Target(path, parameters[1:] if method else parameters, method, {n.removesuffix("_") for n in called})
        )
    return found


# ---------------------------------------------------------------- drawing calls


def tensor(rng: random.Random, like: tuple[str, str] | None = None) -> str:
    """The text of a tensor: of any shape and type, or usually `like` the others of its call."""
    if like is not None and rng.random() < 0.85:
        shape, kind = like
    else:
        shape, kind = rng.choice(SHAPES), rng.choice(TYPES)
    sizes = [int(n) for n in shape.split(",")] if shape else []
    size = int(np.prod(sizes))
    if rng.random() < 0.1:
        value = rng.choice(("float('nan')", "float('inf')", "-1", "2**40"))
        return f"bireme.full([{shape}], {value}, 'float32')"
    grad = ", stop_gradient=False" if kind[0] in "fc" and rng.random() < 0.5 else ""
    return f"bireme.to_tensor(np.arange({size}.0).reshape([{shape}]), dtype='{kind}'{grad})"


def hostile(rng: random.Random) -> str:
    draw = rng.random()
    if draw < 0.25:
        return tensor(rng)
    if draw < 0.35:
        return f"[{', '.join(tensor(rng) for _ in range(rng.choice((0, 1, 2, 2))))}]"
    return rng.choice(rng.choice((NUMBERS, NUMBERS, LISTS, LISTS, OTHERS)))


def argument(rng: random.Random, parameter: inspect.Parameter, calm: float, like: tuple[str, str]) -> str | None:
    """The text of an argument; None to leave it out."""
    optional = parameter.default is not parameter.empty
    if optional and rng.random() < 0.55:
        return None
    if rng.random() > calm:
        return hostile(rng)
    if parameter.name in USUAL:
        return rng.choice(USUAL[parameter.name])
    if not optional:
        return f"[{tensor(rng, like)}, {tensor(rng, like)}]" if parameter.name == "inputs" else tensor(rng, like)
    if isinstance(parameter.default, bool):
        return rng.choice(["True", "False"])
    if isinstance(parameter.default, (int, float)):
        return rng.choice(["0", "1", "2", "0.5", "-1"])
    if rng.random() < 0.5:
        return "None"
    return rng.choice([tensor(rng, like), *LISTS[:8], *NUMBERS[:5]])


def call(target: Target, rng: random.Random) -> str:
    """One line of Python that calls the function."""
    calm, like = rng.choice((0.0, 0.6, 0.9, 0.97)), (rng.choice(SHAPES), rng.choice(TYPES))
    given, by_name = [], []
    for p in target.parameters:
        if p.kind is p.VAR_POSITIONAL:
            given += (
                []
                if by_name
                else [hostile(rng) if rng.random() > calm else tensor(rng, like) for _ in range(rng.choice((0, 1, 2)))]
            )
        elif p.kind is p.VAR_KEYWORD:
            continue
        elif (text := argument(rng, p, calm, like)) is not None:
            if p.kind is p.KEYWORD_ONLY or by_name or (p.default is not p.empty and rng.random() < 0.7):
                by_name.append(f"{p.name}={text}")
            else:
                given.append(text)
        elif p.kind is not p.KEYWORD_ONLY:
            by_name = by_name or [""]  # what follows can no longer be given by place
    arguments = given + [text for text in by_name if text]
    if rng.random() < 0.02:
        arguments.append("zork=1")
    if rng.random() < 0.02 and given:
        arguments = arguments[1:]
    owner = f"{tensor(rng, like)}.{target.path.rpartition('.')[2]}" if target.method else target.path
    return f"{owner}({', '.join(arguments)})"


def calls(seed: int, count: int, only: str, start: int = 0) -> Iterator[tuple[int, Target, str]]:
    """Calls number `start` to `count`, the functions in turn; each depends on the seed and its number alone."""
    found = targets(only)
    for i in range(start, count if found else 0):
        target = found[i % len(found)]
        yield i, target, call(target, random.Random(f"{seed}:{target.path}:{i // len(found)}"))


# ---------------------------------------------------------------- the process that calls


def verdict(target: Target, line: str, strict: bool) -> str:
    """What is wrong with a call, empty if nothing is; `strict` also wants errors about arguments in the project's form."""
    with contextlib.suppress(Exception):  # what the last call left behind is not this one's
        finish()
    try:
        settle(eval(line, {"bireme": bireme, "np": np}))
        finish()
    except Exception as e:  # noqa: BLE001  # every kind is looked at here
        kind, text = type(e), str(e)
        if kind.__module__.partition(".")[0] in ("jax", "jaxlib"):
            return f"{kind.__module__}.{kind.__name__}: {text}"
        # an error that only the device can tell names the operator that found it
        inner = re.match(r"(\w+)\(\w*\): expected", text)
        found = (
            inner is not None
            and not getattr(e, "_told", False)
            and (inner[1] in registry.OPS or f"{inner[1]}_of" in registry.OPS)
        )
        if not found and not any(re.search(rf"\b{re.escape(name)}", text) for name in target.names):
            return f"an error that does not name the function: {kind.__name__}: {text}"
        if strict and not getattr(e, "_told", False) and "argument" not in text and ": expected " not in text:
            return f"an error that the function did not raise itself: {kind.__name__}: {text}"
    return ""


def finish() -> None:
    """Run what is pending, and raise for what only the device knows: an index out of range."""
    bireme.device.synchronize()
    guards.check()


def settle(result: Any) -> None:
    """Run what is pending, forwards and backwards."""
    for x in result if isinstance(result, (list, tuple)) else [result]:
        if isinstance(x, Tensor):
            x = x.to_dense() if x.is_sparse() else x
            x.numpy()
            if not x.stop_gradient and x.dtype.is_inexact:
                x.sum().abs().backward(retain_graph=True)
        elif isinstance(x, (list, tuple)):
            settle(x)


def work(seed: int, start: int, count: int, only: str, strict: bool, report: int) -> None:
    """Call, and tell the parent before and after each call."""

    def tell(**what: Any) -> None:
        os.write(report, (json.dumps(what) + "\n").encode())

    bireme.matmul(bireme.ones([8, 8]), bireme.ones([8, 8])).numpy()
    host_memory.capacity = lambda: BYTES  # type: ignore[assignment]  # less than the machine has: huge results must be refused
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    limit = pages * resource.getpagesize() + 3 * BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    sys.stdin = open(os.devnull)  # noqa: SIM115  # for the life of the process
    for i, target, line in calls(seed, count, only, start):
        tell(i=i, call=line)
        tell(i=i, wrong=verdict(target, line, strict))


# ---------------------------------------------------------------- the process that watches


@dataclass
class Failure:
    call: str
    why: str

    def __str__(self) -> str:
        return f"{self.call}\n    {self.why.strip().splitlines()[0][:300] if self.why.strip() else 'no text'}"


class Worker:
    """A process that calls from number `start` on; it is started again after the call that ended it."""

    def __init__(self, seed: int, start: int, count: int, only: str, strict: bool):
        mine, its = os.pipe()
        command = [sys.executable, *PROGRAM, "--worker", str(its), "--seed", str(seed), "--start", str(start)]
        command += ["--calls", str(count), "--only", only, *["--strict"] * strict]
        environment = os.environ | {"JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command, pass_fds=[its], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment
        )
        os.close(its)
        self.report, self.rest = mine, b""

    def lines(self) -> Iterator[dict[str, Any] | None]:
        """What it tells; None if it told nothing for too long. Ends when the process does."""
        # to start, and between two calls: only a machine that is busy with others takes long there
        patience = 10 * SECONDS
        while True:
            ready, _, _ = select.select([self.report], [], [], patience)
            if not ready:
                yield None
                return
            data = os.read(self.report, 1 << 16)
            if not data:
                return
            *whole, self.rest = (self.rest + data).split(b"\n")
            told = [json.loads(text) for text in whole]
            yield from told
            if told:
                patience = SECONDS if "call" in told[-1] else 10 * SECONDS

    def close(self) -> str:
        """End it if it has not ended; what it said last."""
        self.process.kill()
        _, said = self.process.communicate()
        os.close(self.report)
        return said.decode(errors="replace").strip()[-300:]


def run(seed: int, count: int, only: str = "", strict: bool = False, told: Any = lambda done: None) -> list[Failure]:
    """Make the calls and return those that failed; `told` hears how many are done."""
    failures, start = [], 0
    while start < count:
        worker, now, done = Worker(seed, start, count, only, strict), "", start
        hangs = False
        for line in worker.lines():
            if line is None:
                hangs = True
            elif "call" in line:
                now = line["call"]
            else:
                done, now = line["i"] + 1, ""
                told(done)
                if line["wrong"]:
                    failures.append(
                        Failure(next(text for i, _, text in calls(seed, done, only, done - 1)), line["wrong"])
                    )
        if not hangs:
            worker.process.wait()
        code, said = worker.process.poll(), worker.close()
        if code == 0:
            return failures
        if not now:
            raise RuntimeError(f"the process that calls does not start: {said}")
        failures.append(
            Failure(now, f"did not end in {SECONDS} s" if hangs else f"the process died with {code}: {said}")
        )
        start = done + 1
        told(start)
    return failures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="draws other calls (default 0)")
    parser.add_argument("--calls", type=int, default=20000, help="how many, over all functions in turn (default 20000)")
    parser.add_argument(
        "--only",
        default="",
        metavar="NAME",
        help="only functions with this in their name, as in `linalg.` or `Tensor.cumsum`",
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="also list errors that come from the libraries below, under the function's name",
    )
    parser.add_argument("--list", action="store_true", help="print the calls instead of making them")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--start", type=int, default=0, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker is not None:
        work(args.seed, args.start, args.calls, args.only, args.strict, args.worker)
        return
    found = targets(args.only)
    if not found:
        parser.error(f"no public function has {args.only!r} in its name")
    if args.list:
        for _, _, line in calls(args.seed, args.calls, args.only):
            print(line)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(f"calling {len(found)} functions", total=args.calls)
        failures = run(
            args.seed, args.calls, args.only, args.strict, lambda done: progress.update(task, completed=done)
        )
    for failure in failures:
        print(failure)
    print(f"{args.calls} calls of {len(found)} functions, {len(failures)} failures")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
