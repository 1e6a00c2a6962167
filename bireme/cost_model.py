"""CostModel: what a program and single operators cost on a device, measured on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np

from bireme import static
from bireme.core.base import device as devices
from bireme.core.base import errors
from bireme.core.base.boundary import Guarded
from bireme.core.record import flush
from bireme.core.tensor.tensor import Tensor
from bireme.defaults import disable_static, enable_static, in_dynamic_mode
from bireme.device import device_guard, get_device, synchronize
from bireme.nn import functional
from bireme.ops import add, exp, matmul, mean, multiply, sum, tanh, transpose
from bireme.ops.creation.tensors import to_tensor

__all__ = ["CostModel"]

_RUNS = 5
# what is measured: the operator, and the shapes of its operands
_OPERATORS: dict[str, tuple[Callable[..., Tensor], Sequence[tuple[int, ...]]]] = {
    "add": (add, [(64, 512), (64, 512)]),
    "conv2d": (functional.conv2d, [(4, 8, 16, 16), (8, 8, 3, 3)]),
    "exp": (exp, [(64, 512)]),
    "layer_norm": (lambda x: functional.layer_norm(x, [512]), [(64, 512)]),
    "matmul": (matmul, [(128, 128), (128, 128)]),
    "mean": (mean, [(64, 512)]),
    "multiply": (multiply, [(64, 512), (64, 512)]),
    "relu": (functional.relu, [(64, 512)]),
    "softmax": (functional.softmax, [(64, 512)]),
    "sum": (sum, [(64, 512)]),
    "tanh": (tanh, [(64, 512)]),
    "transpose": (lambda x: transpose(x, [1, 0]), [(64, 512)]),
}


class CostModel(Guarded):
    """What a program, or a single operator, costs on a device.

    Examples:
        >>> bireme.cost_model.CostModel().get_static_op_time("exp")["op_time"] > 0
        True
    """

    def __init__(self) -> None:
        self._static_cost_data: list[dict[str, Any]] | None = None

    def build_program(self) -> tuple[Any, Any]:
        """Build a small program to measure: a linear layer and the mean of its output, with the input ``X``.

        Returns:
            Pair of the startup program and the main program.

        Examples:
            >>> startup, main = bireme.cost_model.CostModel().build_program()
            >>> isinstance(main, bireme.static.Program)
            True
        """
        dynamic = in_dynamic_mode()
        enable_static()
        try:
            main, startup = static.Program(), static.Program()
            with static.program_guard(main, startup):
                mean(static.nn.fc(static.data("X", [None, 1], "float32"), 10))
        finally:
            if dynamic:
                disable_static()
        return startup, main

    def profile_measure(
        self,
        startup_program: Any,
        main_program: Any,
        device: str = "gpu",
        fetch_cost_list: Sequence[str] = ["time"],
    ) -> dict[str, float]:
        """Measure a run of a program whose input is ``X``, as that of ``build_program``.

        Args:
            startup_program: The program that gives parameters their values.
            main_program: The program.
            device: Name of the device. Default: ``'gpu'``.
            fetch_cost_list: What is measured: ``['time']``. Default: ``['time']``.

        Returns:
            A dict with ``time``: milliseconds of a run, the median of several after the first.

        Examples:
            >>> model = bireme.cost_model.CostModel()
            >>> model.profile_measure(*model.build_program(), device="cpu")["time"] > 0
            True
        """
        if list(fetch_cost_list) != ["time"]:
            raise errors.bad("profile_measure(fetch_cost_list)", "['time']", fetch_cost_list)
        devices.parse(device, "profile_measure(device)").ensure()
        x = np.linspace(0, 1, 10, dtype=np.float32).reshape(10, 1)
        with device_guard(device), static.scope_guard(static.Scope()):
            executor = static.Executor()
            executor.run(startup_program)
            found = _milliseconds(lambda: executor.run(main_program, feed={"X": x}, fetch_list=[]))
        return {"time": found}

    def static_cost_data(self) -> list[dict[str, Any]]:
        """Measure single operators on the current device; they are measured once for each CostModel.

        Returns:
            A list of dicts with ``op``, ``config`` (shapes, dtype and device), ``op_time`` and ``op_time_backward``, in
            milliseconds.

        Examples:
            >>> rows = bireme.cost_model.CostModel().static_cost_data()
            >>> "matmul" in [row["op"] for row in rows]
            True
        """
        if self._static_cost_data is None:
            self._static_cost_data = [_measured(op, "float32") for op in _OPERATORS]
        return self._static_cost_data

    def get_static_op_time(self, op_name: str, forward: bool = True, dtype: str = "float32") -> dict[str, Any]:
        """Return what an operator costs on the current device.

        Args:
            op_name: Name of the operator, one of ``static_cost_data``.
            forward: Return the time of the operator, else that of its gradient. Default: True.
            dtype: Data type of its operands. Default: ``'float32'``.

        Returns:
            A dict with ``op_time`` in milliseconds and ``config``, what was measured.

        Raises:
            ValueError: If the operator is not among them.

        Examples:
            >>> found = bireme.cost_model.CostModel().get_static_op_time("matmul", forward=False)
            >>> found["config"].startswith("float32 [128, 128]")
            True
        """
        if op_name not in _OPERATORS:
            expected = f"one of {', '.join(map(repr, _OPERATORS))}"
            raise errors.bad("get_static_op_time(op_name)", expected, op_name, kind=errors.MissingKeyError)
        row = _measured(op_name, dtype)
        return {"op_time": row["op_time" if forward else "op_time_backward"], "config": row["config"]}


def _measured(op: str, dtype: str) -> dict[str, Any]:
    function, shapes = _OPERATORS[op]
    rng = np.random.default_rng(0)
    operands = [to_tensor(rng.standard_normal(shape).astype(np.float32)).astype(dtype) for shape in shapes]
    forward = _milliseconds(lambda: _wait(function(*operands)))
    for operand in operands:
        operand.stop_gradient = False

    def both() -> None:
        out = function(*operands)
        out.backward(out.detach())
        _wait(*[operand.grad for operand in operands])
        for operand in operands:
            operand.clear_gradient()

    backward = max(_milliseconds(both) - forward, 0.0)
    told = " ".join(str([*shape]) for shape in shapes)
    return {"op": op, "config": f"{dtype} {told} {get_device()}", "op_time": forward, "op_time_backward": backward}


def _wait(*results: Any) -> None:
    flush.flush()
    synchronize()


def _milliseconds(function: Callable[[], Any]) -> float:
    """The median of several runs, after those in which the program is compiled."""
    times = []
    for _ in range(_RUNS + 3):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return median(times[3:]) * 1e3
