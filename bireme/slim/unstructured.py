"""Unstructured pruning: single weights of least magnitude stay zero while a network is trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn import Conv1D, Conv2D, Conv3D, Layer, Linear
from bireme.ops import to_tensor


class UnstructuredPruner:
    """Keeps the weights of least magnitude at zero: ``step`` chooses them after an optimizer's step, ``update_params`` sets them.

    Args:
        model: ``Layer``.
        mode: ``"ratio"`` for a share of all weights, ``"threshold"`` for those below a magnitude.
        threshold: Magnitude, for ``"threshold"``. Default: 0.01.
        ratio: Share, for ``"ratio"``. Default: 0.55.
        prune_params_type: ``"conv1x1_only"`` for convolutions of one pixel alone. Default: None, convolutions and linear layers.
        skip_params_func: Function of the model that gives names of parameters left out. Default: None.
        local_sparsity: Whether each weight has the share by itself, instead of all together. Default: False.

    Examples:
        >>> net = bireme.nn.Linear(10, 10)
        >>> pruner = bireme.slim.dygraph.UnstructuredPruner(net, mode="ratio", ratio=0.9)
        >>> pruner.step()
        >>> pruner.update_params()
        >>> round(bireme.slim.dygraph.UnstructuredPruner.total_sparse(net), 2)
        0.09
    """

    def __init__(
        self, model: Layer, mode: str, threshold: float = 0.01, ratio: float = 0.55, prune_params_type: str | None = None,
        skip_params_func: Callable | None = None, local_sparsity: bool = False,
    ):  # fmt: skip
        if mode not in ("ratio", "threshold"):
            raise errors.bad("UnstructuredPruner(mode)", "'ratio' or 'threshold'", mode)
        if prune_params_type not in (None, "conv1x1_only"):
            raise errors.bad("UnstructuredPruner(prune_params_type)", "None or 'conv1x1_only'", prune_params_type)
        if local_sparsity and mode != "ratio":
            raise errors.bad("UnstructuredPruner(local_sparsity)", "False, unless mode is 'ratio'", local_sparsity)
        if not 0 <= ratio < 1:
            raise errors.bad("UnstructuredPruner(ratio)", "a share in [0, 1)", ratio)
        self.model, self.mode, self.threshold, self.ratio, self.local_sparsity = (
            model,
            mode,
            threshold,
            ratio,
            local_sparsity,
        )
        skipped = set(skip_params_func(model)) if skip_params_func is not None else set()
        self._weights: list[Any] = [
            w
            for layer in model.sublayers(include_self=True)
            if isinstance(layer, (Conv1D, Conv2D, Conv3D, Linear))
            for w in [layer.weight]
            if w is not None
            and w.name not in skipped
            and (prune_params_type is None or (w.ndim == 4 and w.shape[2:] == [1, 1]))
        ]
        if not self._weights:
            raise errors.failure("the network has no weights to prune", kind=ValueError)
        self.masks: dict[str, Tensor] = {w.name: to_tensor(np.ones(w.shape, np.float32)) for w in self._weights}

    def step(self) -> None:
        """Choose the weights that are zero from now on: those of least magnitude now."""
        arrays = {w.name: np.abs(w.numpy()) for w in self._weights}
        if self.mode == "ratio" and not self.local_sparsity:
            self.threshold = _quantile(np.concatenate([a.reshape(-1) for a in arrays.values()]), self.ratio)
        for name, array in arrays.items():
            limit = _quantile(array.reshape(-1), self.ratio) if self.local_sparsity else self.threshold
            self.masks[name] = to_tensor((array >= limit).astype(np.float32))

    def update_params(self) -> None:
        """Set the chosen weights to zero."""
        for w in self._weights:
            w.set_value(w.detach() * self.masks[w.name])

    @staticmethod
    def total_sparse(model: Layer) -> float:
        """The share of all parameters that is not zero.

        Args:
            model: ``Layer``.

        Returns:
            Share in [0, 1].
        """
        counts = [(int(np.count_nonzero(p.numpy())), int(np.prod(p.shape))) for p in model.parameters()]
        return sum(n for n, _ in counts) / max(sum(n for _, n in counts), 1)


def _quantile(values: np.ndarray, ratio: float) -> float:
    """The magnitude that a share of the values is below."""
    at = round(ratio * values.size)
    return 0.0 if not at else float(np.partition(values, min(at, values.size - 1))[min(at, values.size - 1)])
