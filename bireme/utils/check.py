"""`run_check`: what works on this machine, in plain words."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bireme import version
from bireme.core.base import device as devices
from bireme.core.base import errors, flags
from bireme.core.record import flush
from bireme.core.run import explain
from bireme.device import memory
from bireme.ops import matmul, to_tensor


def _step(place: Any) -> str:
    """Fit y = 3 x by four steps of gradient descent."""
    x = to_tensor(np.linspace(-1, 1, 8, dtype="float32").reshape(8, 1), place=place)
    weight, losses = to_tensor([[0.0]], place=place, stop_gradient=False), []
    for _ in range(4):
        loss = ((matmul(x, weight) - x * 3) ** 2).mean()
        loss.backward()
        assert weight.grad is not None
        weight = (weight - weight.grad * 0.5).detach()
        weight.stop_gradient = False
        losses.append(loss.item())
    if not losses[-1] < losses[0]:
        raise errors.failure(f"the loss went from {losses[0]:.3g} to {losses[-1]:.3g}")
    return f"the loss fell from {losses[0]:.2f} to {losses[-1]:.2f} in 4 steps"


def _compile(place: Any) -> str:
    """Compile a small program and compare it with NumPy."""
    before, old = explain.STATS["compiles"], flags.interpret.value
    a = np.arange(12, dtype="float32").reshape(3, 4)
    flags.set_flags({"FLAGS_interpret": False})
    start = time.perf_counter()
    try:
        x = to_tensor(a, place=place)
        got = (matmul(x, x.t()) + 1).numpy()
    finally:
        flags.set_flags({"FLAGS_interpret": old})
    if not np.allclose(got, a @ a.T + 1):
        raise errors.failure("the compiled program gave other numbers than NumPy")
    fresh = "compiled" if explain.STATS["compiles"] > before else "found in the cache"
    return f"a small program was {fresh} and ran in {time.perf_counter() - start:.2f} s, with NumPy's numbers"


def _memory(place: Any) -> str:
    device = devices.parse(place, "run_check")
    found = device.jax.memory_stats()
    if not found:
        return "this device does not count its memory"
    limit = found.get("bytes_limit")
    used = memory.now(device, "bytes_in_use")
    return f"{used / 2**20:.0f} MiB in use" + (f" of {limit / 2**30:.1f} GiB" if limit else "")


def run_check() -> None:
    """Check this machine: devices, a compilation and a training step, and print what works.

    Raises:
        RuntimeError: If something does not work.

    Examples:
        >>> bireme.utils.run_check()  # doctest: +ELLIPSIS
        Bireme ...
    """
    write = sys.stdout.write
    names = devices.available()
    write(
        f"Bireme {version.full_version} checks this machine: "
        f"{len(names)} device{'s' if len(names) != 1 else ''}, {', '.join(names)}.\n"
    )
    flush.flush()
    parts: list[tuple[str, Callable[[Any], str]]] = [
        ("compiling works", _compile),
        ("a training step works", _step),
        ("memory", _memory),
    ]
    failed = []
    for name in names:
        for what, part in parts:
            try:
                write(f"  {name}: {what}: {part(name)}\n")
            except errors.TELLING as e:
                failed.append(f"{name}, {what.removesuffix(' works')}")
                write(f"  {name}: {what.removesuffix(' works')} does not work: {e}\n")
    if failed:
        raise errors.failure(f"run_check(): expected everything to work, got failures in {'; '.join(failed)}")
    write("Everything works. Have fun.\n")
