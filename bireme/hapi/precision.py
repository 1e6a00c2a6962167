"""Precision: in what types a model computes, and how its loss is scaled."""

from __future__ import annotations

import contextlib
from typing import Any

from bireme.amp import GradScaler, auto_cast, decorate
from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn.layer import Layer

_SCALER = (
    "init_loss_scaling",
    "incr_ratio",
    "decr_ratio",
    "incr_every_n_steps",
    "decr_every_n_nan_or_inf",
    "use_dynamic_loss_scaling",
)
_CAST = ("custom_white_list", "custom_black_list", "dtype")


class Precision:
    """The precision that ``amp_configs`` of ``Model.prepare`` sets: a level, or a dict with ``level`` and settings."""

    def __init__(self, given: Any, network: Layer, optimizer: Any):
        where = "Model.prepare(amp_configs)"
        configs = {"level": given} if isinstance(given, str) else {} if given is None else given
        if not isinstance(configs, dict):
            raise errors.bad(where, "a level or a dict", given, kind=errors.ArgumentTypeError)
        self.level = configs.get("level", "O0" if given is None else "O1")
        if self.level not in ("O0", "O1", "O2"):
            raise errors.bad(where, "level 'O0', 'O1' or 'O2'", self.level)
        unknown = sorted(map(str, set(configs) - {"level", *_SCALER, *_CAST}))
        if unknown:
            raise errors.bad(
                where,
                f"settings among {', '.join(map(repr, ('level', *_SCALER, *_CAST)))}",
                described=", ".join(unknown),
            )
        self._cast = {"level": self.level, **{k: v for k, v in configs.items() if k in _CAST}}
        self.scaler: GradScaler | None = None
        dtype = configs.get("dtype", "float16")
        if self.level == "O2":
            decorate(network, optimizer, "O2", dtype)
        if self.level != "O0" and dtype != "bfloat16":  # bfloat16 has the range of float32: nothing underflows
            self.scaler = GradScaler(**{k: v for k, v in configs.items() if k in _SCALER})

    def casting(self, training: bool) -> Any:
        """Return a context to compute in. As in Paddle, evaluation at O1 is in float32; at O2 parameters are not."""
        on = self.level == "O2" or (training and self.level == "O1")
        return auto_cast(**self._cast) if on else contextlib.nullcontext()

    def backward(self, loss: Tensor) -> None:
        """Compute the gradients of the loss, scaled if need be."""
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()

    def update(self, optimizer: Any) -> None:
        """Make a step of the optimizer and clear the gradients."""
        if self.scaler is None:
            optimizer.step()
        else:
            self.scaler.step(optimizer)
            self.scaler.update()
        optimizer.clear_grad()
