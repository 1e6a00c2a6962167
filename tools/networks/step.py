"""One training step of each network, beside the caller's process: a line of JSON with its numbers for each.

Knows `paddle` only, whatever that name means in the process: `tools.packages` starts it with Bireme or with Paddle.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
import traceback
import zlib
from typing import Any

import numpy as np


def filled(paddle: Any, model: Any) -> None:
    """Give parameters numbers that follow from their names and shapes alone."""
    for name, p in model.named_parameters():
        rng = np.random.RandomState(zlib.crc32(name.encode()))
        x = rng.standard_normal(p.shape or [1]).reshape(p.shape)
        if len(p.shape) < 2:
            x = 0.1 * x + (0.0 if "bias" in name else 1.0)
        else:
            x = x * (p.shape[0] if len(p.shape) == 2 else np.prod(p.shape[1:])) ** -0.5
        with paddle.no_grad():
            p.set_value(paddle.to_tensor(x).astype(p.dtype))


def filled_buffers(paddle: Any, model: Any) -> None:
    """The same for buffers that are drawn at random."""
    for name, b in model.named_buffers():
        if b.is_floating_point() and not name.endswith(("_mean", "_variance")):
            rng = np.random.RandomState(zlib.crc32(name.encode()))
            with paddle.no_grad():
                b.set_value(paddle.to_tensor(0.3 * rng.standard_normal(b.shape)).astype(b.dtype))


def without_chance(paddle: Any, model: Any) -> None:
    """Drop nothing: the two sides draw other random numbers."""
    for layer in model.sublayers(include_self=True):
        for name, value in list(vars(layer).items()):
            if isinstance(value, float) and ("drop" in name or (name == "p" and "Dropout" in type(layer).__name__)):
                setattr(layer, name, 0.0)


def leaves(x: Any) -> list[Any]:
    """Tensors in what a network returns."""
    if hasattr(x, "stop_gradient"):
        return [x]
    if isinstance(x, dict):
        return [t for key in x for t in leaves(x[key])]
    if isinstance(x, (list, tuple)):
        return [t for each in x for t in leaves(each)]
    return []


def flat(x: Any) -> list[Any]:
    """The losses that a step returns: numbers, tensors, or objects with attributes of them."""
    if isinstance(x, (list, tuple)):
        return [y for each in x for y in flat(each)]
    return flat(x.total_loss) if hasattr(x, "total_loss") else [x]


def wave(n: int) -> np.ndarray:
    return np.cos(np.arange(n) * 0.7 + 1.0)


def summary(x: np.ndarray) -> list[Any]:
    """Shape, mean square root, and a projection of an array."""
    x = np.asarray(x, np.float64).reshape(-1)
    return [float(np.sqrt(np.mean(x * x))) if x.size else 0.0, float(x @ wave(x.size) / max(x.size, 1) ** 0.5)]


def tensors(paddle: Any, x: Any, nudge: float = 0.0) -> Any:
    """Arrays as tensors; with `nudge`, each number is so much larger or smaller."""
    if isinstance(x, np.ndarray):
        if x.dtype.kind == "f":
            signs = np.sign(np.random.RandomState(1).standard_normal(x.shape))
            x = (x * (1 + nudge * signs)).astype(paddle.get_default_dtype())
        return paddle.to_tensor(x)
    if isinstance(x, dict):
        return {k: tensors(paddle, v, nudge) for k, v in x.items()}
    return type(x)(tensors(paddle, v, nudge) for v in x) if isinstance(x, (list, tuple)) else x


def loss_of(paddle: Any, outputs: Any) -> Any:
    if isinstance(outputs, dict) and hasattr(outputs.get("loss"), "stop_gradient"):
        return outputs["loss"].sum()
    total = 0.0
    for t in leaves(outputs):
        if "float" in str(t.dtype) and not t.stop_gradient:
            w = paddle.to_tensor(wave(int(np.prod(t.shape))).reshape(t.shape)).astype(t.dtype)
            total = total + (t * w).mean() + 0.1 * (t**2).mean()
    return total


def steps(model: Any, trained: list[Any], args: Any, kwargs: Any) -> dict[str, Any]:
    """Two steps of what has an optimizer of its own; how the first one moves parameters stands for their gradients."""
    before = {n: np.array(p.numpy()) for n, p in trained}
    found = [x.numpy() if hasattr(x, "numpy") else np.asarray(x) for x in flat(model(*args, **kwargs))]
    moves = {n: summary(p.numpy() - before[n]) for n, p in trained}
    after = flat(model(*args, **kwargs))
    return {
        "outputs": [[list(x.shape), *summary(x)] for x in found],
        "loss": float(found[0]),
        "grads": moves,
        "after": float(after[0]),
    }


def numbers(paddle: Any, network: Any, dtype: str) -> dict[str, Any]:
    """Forward pass, gradients, one step of an optimizer and the forward pass after it."""
    paddle.seed(0)
    np.random.seed(0)  # noqa: NPY002 - networks draw from NumPy's global generator
    with paddle.utils.unique_name.guard():  # parameters with names of their own may come again in the next network
        model = network.build()
    (model.train if network.train else model.eval)()
    filled(paddle, model)
    if network.drawn:
        filled_buffers(paddle, model)
    without_chance(paddle, model)
    if dtype == "float64":
        indices = [(layer._buffers, n, b.dtype) for layer in model.sublayers(include_self=True)
                   for n, b in layer._buffers.items() if b is not None and not b.is_floating_point()]  # fmt: skip
        model.to(dtype=dtype)
        for buffers, name, kind in indices:  # that casts integers too
            buffers[name] = buffers[name].astype(kind)
        paddle.set_default_dtype(dtype)
    # one unit in the last place of the inputs: how much of a difference is rounding that the network amplifies
    args, kwargs = tensors(paddle, network.inputs(), 2.0**-23 if dtype == "nudged" else 0.0)
    trained = [(n, p) for n, p in model.named_parameters() if not p.stop_gradient]
    parameters = {n: list(p.shape) for n, p in model.named_parameters()}
    if network.learns:
        return {"parameters": parameters, **steps(model, trained, args, kwargs)}
    optimizer = paddle.optimizer.Momentum(
        0.01, parameters=[p for _, p in trained], weight_decay=1e-4, grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0)
    )
    outputs = model(*args, **kwargs)
    loss = loss_of(paddle, outputs)
    loss.backward()
    results = [[list(t.shape), *summary(t.numpy())] for t in leaves(outputs)]
    grads = {n: None if p.grad is None else summary(p.grad.numpy()) for n, p in trained}
    optimizer.step()
    optimizer.clear_grad()
    after = loss_of(paddle, model(*args, **kwargs))
    return {
        "parameters": parameters,
        "outputs": results,
        "loss": float(loss),
        "grads": grads,
        "after": float(after),
    }


def failed(e: BaseException) -> str:
    inside = [
        f
        for f in traceback.extract_tb(e.__traceback__)
        if "site-packages" in f.filename and "/paddle/" not in f.filename
    ]
    where = f" at {inside[-1].filename.rpartition('site-packages/')[2]}:{inside[-1].lineno}" if inside else ""
    lines = [line for line in str(e).strip().splitlines() if line.strip()]
    said = lines[-1 if "Error Message Summary" in str(e) else 0].strip()[:300] if lines else ""
    return f"{type(e).__name__}: {said}{where}"


class Late(BaseException):
    """The time limit of a network has passed; not an Exception, so that no network catches it."""


def late(*_: Any) -> None:
    raise Late


def report(paddle: Any, path: str, network: Any, dtype: str, limit: int, verbose: bool) -> None:
    """Write the line of one network."""
    start = time.perf_counter()
    signal.signal(signal.SIGALRM, late)
    signal.alarm(limit)
    try:
        paddle.set_default_dtype("float32")
        found = numbers(paddle, network, dtype)
    except Late:
        found = {"error": f"takes over {limit} s"}
    except Exception as e:  # noqa: BLE001 - whatever a package raises is a line of the table
        found = {"error": failed(e)}
        if verbose:
            traceback.print_exc()
    signal.alarm(0)
    found.update(path=path, seconds=round(time.perf_counter() - start, 1))
    sys.__stdout__.write("@" + json.dumps(found) + "\n")
    sys.__stdout__.flush()


def main() -> None:
    side, dtype, limit, site, verbose, *paths = sys.argv[1:]
    if side == "paddle":
        sys.path.append(site)
    else:
        importlib.import_module("bireme.compat").install_as_paddle()
    paddle = importlib.import_module("paddle")
    from tools.networks import load, networks

    packages = sorted({p.partition("/")[0] for p in paths})
    known = networks(packages)
    if side == "paddle":
        load(packages)
    for path in paths:
        given = (paddle, path, known[path], dtype, int(limit), verbose == "1")
        # a network that fails inside Paddle leaves it in another state: the numbers of the next ones would not be theirs
        if side != "paddle":
            report(*given)
        elif not (child := os.fork()):
            report(*given)
            os._exit(0)
        elif status := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            found = {"error": f"the process ended with {status}", "path": path}
            sys.__stdout__.write("@" + json.dumps(found) + "\n")
            sys.__stdout__.flush()


if __name__ == "__main__":
    main()
