"""Structured pruning: whole channels of a network are removed, those that its recorded graph says belong together."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.program.program_model import Model
from bireme.core.tensor.tensor import Tensor
from bireme.files.atomic import replacing
from bireme.jit.transforms.editing import arguments
from bireme.nn import Layer
from bireme.slim.analysis import flops, recorded
from bireme.slim.channels import CONVOLUTIONS, Channels

RATIOS = tuple(round(0.1 * i, 1) for i in range(1, 10))


class PruningPlan:
    """Which channels are to be removed from a network.

    Args:
        channels: Channels of the network.
        removed: Those to remove.
        share: Share of the multiplications that they have.

    Examples:
        >>> net = bireme.nn.Sequential(bireme.nn.Conv2D(1, 4, 3), bireme.nn.Conv2D(4, 2, 3))
        >>> pruner = bireme.slim.dygraph.L1NormFilterPruner(net, [1, 1, 8, 8])
        >>> plan = pruner.prune_var(net[0].weight.name, 0, 0.5, apply=None)
        >>> plan.imperative_apply(net)
        >>> net[1].weight.shape
        [2, 2, 3, 3]
    """

    def __init__(self, channels: Channels, removed: set[int], share: float = 0.0):
        self._channels, self._removed, self.pruned_flops = channels, removed, share
        self._before: list[tuple[Tensor, np.ndarray]] = []
        self._attributes: list[tuple[Any, str, Any]] = []

    @property
    def masks(self) -> dict[str, dict[int, list[int]]]:
        """For each parameter by name, and each of its axes, 1 for what stays and 0 for what goes."""
        found: dict[str, dict[int, list[int]]] = {}
        for tensor, axes in self._channels.tensors.values():
            for axis, numbers in axes.items():
                kept = [int(self._channels.root(n) not in self._removed) for n in numbers.tolist()]
                if 0 in kept:
                    found.setdefault(tensor.name, {})[axis] = kept
        return found

    def apply(self, model: Layer | None, lazy: bool = False) -> None:
        """Remove the channels, or set them to zero.

        Args:
            model: The network.
            lazy: Set to zero and keep all shapes. Default: False.
        """
        self.lazy_apply(model) if lazy else self.imperative_apply(model)

    def lazy_apply(self, model: Layer | None) -> None:
        """Set the channels to zero: what the network gives is what it gives without them, shapes stay.

        Args:
            model: The network.
        """
        for tensor, axes in self._channels.tensors.values():
            array = tensor.numpy().copy()
            for axis, numbers in axes.items():
                gone = [i for i, n in enumerate(numbers.tolist()) if self._channels.root(n) in self._removed]
                array[(slice(None),) * axis + (gone,)] = 0
            if not np.array_equal(array, tensor.numpy()):
                self._before.append((tensor, tensor.numpy().copy()))
                tensor.set_value(array)

    def imperative_apply(self, model: Layer | None, opt: Any = None) -> None:
        """Remove the channels from parameters and buffers, and from what the layers say of their sizes.

        Args:
            model: The network.
            opt: Optimizer whose state is kept in step; its moments of changed parameters begin anew. Default: None.
        """
        changed = self._channels.without(self._removed)
        for tensor, array in changed.values():
            self._before.append((tensor, tensor.numpy().copy()))
            _store(tensor, array)
        self._channels.edit({key: array.shape[0] for key, (_, array) in changed.items()})
        for layer in model.sublayers(include_self=True) if model is not None else []:
            self._resize(layer)
        if opt is not None:
            names = {tensor.name for tensor, _ in changed.values()}
            for kept in getattr(opt, "_accumulators", {}).values():
                for name in names:
                    kept.pop(name, None)

    def _resize(self, layer: Any) -> None:
        weight = layer._parameters.get("weight")
        if weight is None or not weight.ndim:
            return
        wanted: dict[str, Any] = {}
        if hasattr(layer, "_out_channels"):
            groups = layer._groups
            if groups > 1 and groups == layer._in_channels:
                groups = weight.shape[0]
            wanted = {"_out_channels": weight.shape[0], "_in_channels": weight.shape[1] * groups, "_groups": groups}
            if "transpose" in str(getattr(layer, "_op_type", "")):
                wanted |= {"_out_channels": weight.shape[1], "_in_channels": weight.shape[0]}
        elif hasattr(layer, "_num_features"):
            wanted = {"_num_features": weight.shape[0]}
        elif hasattr(layer, "in_features"):
            wanted = {"in_features": weight.shape[0], "out_features": weight.shape[1]}
        for name, value in wanted.items():
            if hasattr(layer, name) and getattr(layer, name) != value:
                self._attributes.append((layer, name, getattr(layer, name)))
                setattr(layer, name, value)

    def restore(self, model: Layer | None = None, opt: Any = None) -> None:
        """Put everything back that the plan has changed.

        Args:
            model: The network. Default: None.
            opt: Has no effect. Default: None.
        """
        for tensor, array in reversed(self._before):
            _store(tensor, array)
        for layer, name, value in reversed(self._attributes):
            setattr(layer, name, value)
        self._before, self._attributes = [], []


def _store(tensor: Any, array: np.ndarray) -> None:
    """Other values, of another shape: the tensor stays the one that layers and graphs hold."""
    tensor.clear_grad()
    tensor.value().get_tensor().set(np.ascontiguousarray(array), tensor.place)


class FilterPruner:
    """Removes filters of convolutions, and columns of linear layers, that matter least.

    Channels follow the recorded graph: those that a residual connection adds are removed from both of its branches, a normalization and a
    depthwise convolution lose theirs, and whatever reads them loses what it multiplied them by. Outputs of the network stay.
    Make the optimizer after pruning.

    Args:
        model: ``Layer``.
        inputs: Shape of the input, or a list of a shape, ``InputSpec`` or tensor for each input.
        sen_file: File that sensitivities are kept in. Default: None.
        opt: Optimizer whose state is kept in step. Default: None.
        skip_leaves: Whether the last layers keep their outputs; they always do. Default: True.
    """

    def __init__(self, model: Any, inputs: Any, sen_file: str | None = None, opt: Any = None, skip_leaves: bool = True):
        self.model, self.inputs, self._file, self._opt = model, inputs, sen_file, opt
        if not skip_leaves:
            raise errors.bad("FilterPruner(skip_leaves)", "True: outputs of the network keep their sizes", False)
        self.plan: PruningPlan | None = None
        self._plans: list[PruningPlan] = []
        self._record()

    def _record(self) -> None:
        self._graph = recorded(self.model, self.inputs, type(self).__name__)
        self.channels = Channels(self._graph, editable=isinstance(self.model, Model))

    def scores(self, filters: np.ndarray) -> np.ndarray:
        """How much each row of a matrix, a filter, matters."""
        raise NotImplementedError  # each kind of pruner has its own

    def var_names(self) -> list[str]:
        """Names of parameters whose filters can be removed.

        Returns:
            List of names, in the order of the graph.
        """
        found = []
        for weight, axis in products(self._graph):
            roots = self.channels.roots(weight, axis)
            if roots.size and not all(r in self.channels.fixed for r in roots.tolist()):
                found.append(weight.name)
        return list(dict.fromkeys(found))

    def prune_vars(
        self, ratios: dict[str, float], axis: int | list[int], apply: str | None = "impretive"
    ) -> PruningPlan:
        """Remove shares of the channels that parameters have along an axis.

        Args:
            ratios: Share of each parameter, by name, in [0, 1). Of several whose channels belong together the largest holds.
            axis: Axis of the parameters, or a list of one.
            apply: ``"impretive"`` to remove, ``"lazy"`` to set to zero, None to do neither. Default: ``"impretive"``.

        Returns:
            The plan, with the share of the multiplications that it removes.
        """
        if apply not in ("impretive", "imperative", "lazy", None):
            raise errors.bad("prune_vars(apply)", "'impretive', 'lazy' or None", apply)
        at = axis[0] if isinstance(axis, (list, tuple)) else axis
        chosen: dict[frozenset[int], float] = {}
        for name, ratio in ratios.items():
            if not 0 <= ratio < 1:
                raise errors.bad("prune_vars(ratios)", "shares in [0, 1)", ratio)
            roots = self.channels.roots(self._named(name), at).tolist()
            key = frozenset(r for r in roots if r not in self.channels.fixed)
            if key:
                chosen[key] = max(ratio, chosen.get(key, 0.0))
        removed: set[int] = set()
        weights = self._weights()
        for key, ratio in chosen.items():
            order = sorted(key, key=lambda r: (weights.get(r, 0.0), r))
            removed.update(order[: min(round(ratio * len(order)), len(order) - 1)])
        plan = PruningPlan(self.channels, removed, self._share(removed))
        self.plan = plan
        if apply is not None:
            layer = self.model if isinstance(self.model, Layer) else None
            plan.lazy_apply(layer) if apply == "lazy" else plan.imperative_apply(layer, self._opt)
            self._plans.append(plan)
            if apply != "lazy" and layer is not None:
                self._record()
        return plan

    def prune_var(
        self, var_name: str, pruned_axis: int | list[int], pruned_ratio: float, apply: str | None = "impretive"
    ) -> PruningPlan:
        """Remove a share of the channels that a parameter has along an axis.

        Args:
            var_name: Name of the parameter.
            pruned_axis: Axis, or a list of one.
            pruned_ratio: Share, in [0, 1).
            apply: ``"impretive"`` to remove, ``"lazy"`` to set to zero, None to do neither. Default: ``"impretive"``.

        Returns:
            The plan, with the share of the multiplications that it removes.
        """
        return self.prune_vars({var_name: pruned_ratio}, pruned_axis, apply)

    def restore(self) -> None:
        """Put everything back that was removed or set to zero."""
        for plan in reversed(self._plans):
            plan.restore(self.model)
        self._plans = []
        self._record()

    def sensitive(
        self, eval_func: Callable[[], float] | None = None, sen_file: str | None = None, target_vars: list[str] | None = None,
        skip_vars: list[str] | None = None,
    ) -> dict[str, dict[float, float]]:  # fmt: skip
        """Find how much the network loses without shares of each parameter's filters, tried one after the other.

        Args:
            eval_func: Function that gives how good the network is. Default: None, what the file holds is given.
            sen_file: File that results are kept in, and taken from. Default: None, that of the pruner.
            target_vars: Names of parameters. Default: None, all of ``var_names()``.
            skip_vars: Names of those left out. Default: None.

        Returns:
            By the name of a parameter and a share, the part of the result that is lost.
        """
        path = sen_file or self._file
        found: dict[str, dict[float, float]] = {}
        if path is not None and os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                found = {name: {float(k): v for k, v in each.items()} for name, each in json.load(file).items()}
        if eval_func is None:
            return found
        whole = float(eval_func())
        for name in target_vars if target_vars is not None else self.var_names():
            if name in (skip_vars or ()):
                continue
            for ratio in RATIOS:
                if ratio in found.setdefault(name, {}):
                    continue
                plan = self.prune_var(name, 0 if self._named(name).ndim > 2 else 1, ratio, apply=None)
                plan.lazy_apply(self.model)
                found[name][ratio] = (whole - float(eval_func())) / (whole or 1.0)
                plan.restore(self.model)
            if path is not None:
                with replacing(path) as file:
                    file.write(json.dumps(found).encode())
        return found

    def get_ratios_by_sensitivity(
        self, pruned_flops: float, align: int | None = None, dims: Any = 0, skip_vars: list[str] | None = None
    ) -> tuple[dict[str, float], float]:
        """Find shares of filters that remove a share of the multiplications, at the same loss for each parameter.

        Args:
            pruned_flops: Share of the multiplications to remove, in (0, 1).
            align: Keep a multiple of so many filters. Default: None.
            dims: Axis of the parameters. Default: 0.
            skip_vars: Names of parameters left out. Default: None.

        Returns:
            Shares by name, and the share of multiplications that they remove.
        """
        known = self.sensitive()
        if not known:
            raise errors.failure("sensitivities are not known", hint="call sensitive(eval_func) first", kind=ValueError)
        axis = dims[0] if isinstance(dims, (list, tuple)) else dims
        curves = {
            name: [(0.0, 0.0), *sorted(each.items())] for name, each in known.items() if name not in (skip_vars or ())
        }
        low, high = 0.0, max(loss for each in curves.values() for _, loss in each) + 1e-6
        best: tuple[dict[str, float], float] = ({}, 0.0)
        for _ in range(24):
            limit = (low + high) / 2
            ratios = {name: _at_most(curve, limit) for name, curve in curves.items()}
            if align is not None:
                ratios = {name: self._aligned(name, axis, ratio, align) for name, ratio in ratios.items()}
            best = ratios, self.prune_vars(ratios, axis, apply=None).pruned_flops
            if best[1] > pruned_flops:
                high = limit
            else:
                low = limit
        return best

    def sensitive_prune(
        self, pruned_flops: float, skip_vars: list[str] | None = None, align: int | None = None
    ) -> PruningPlan:
        """Remove filters whose share of the multiplications is given, those whose loss is least.

        Args:
            pruned_flops: Share of the multiplications to remove, in (0, 1).
            skip_vars: Names of parameters left out. Default: None.
            align: Keep a multiple of so many filters. Default: None.

        Returns:
            The plan.
        """
        self.restore()
        ratios, _ = self.get_ratios_by_sensitivity(pruned_flops, align, 0, skip_vars)
        return self.prune_vars(ratios, 0)

    def _aligned(self, name: str, axis: int, ratio: float, align: int) -> float:
        size = self._named(name).shape[axis]
        kept = -(-round(size * (1 - ratio)) // align) * align
        return max(0.0, 1 - kept / size)

    def _named(self, name: str) -> Tensor:
        for tensor, _ in self.channels.tensors.values():
            if tensor.name == name:
                return tensor
        raise errors.bad("prune_vars(ratios)", f"names of parameters ({', '.join(self.var_names()[:3])}, ...)", name)

    def _weights(self) -> dict[int, float]:
        """How much each channel matters: the sum over all products that make it."""
        found: dict[int, float] = {}
        for weight, axis in products(self._graph):
            roots = self.channels.roots(weight, axis)
            matrix = np.moveaxis(weight.numpy(), axis, 0).reshape(weight.shape[axis], -1).astype(np.float64)
            scores = self.scores(matrix)
            mean = scores.mean() or 1.0
            for root, score in zip(roots.tolist(), scores.tolist(), strict=True):
                found[root] = found.get(root, 0.0) + score / mean
        return found

    def _share(self, removed: set[int]) -> float:
        """The share of multiplications that channels have."""
        before, after = 0.0, 0.0
        counts = flops(self._graph, detail=True)[1]
        for operation in self._graph.program.operations:
            count = counts.get(getattr(operation.results, "name", None), 0)
            given = arguments(operation) or {}
            weight = given.get("y" if operation.type == "matmul" else "weight")
            before += count
            if isinstance(weight, Tensor):
                for axis in (0, 1):
                    roots = self.channels.roots(weight, axis)
                    if roots.size:
                        count *= sum(r not in removed for r in roots.tolist()) / roots.size
            after += count
        return 1 - after / before if before else 0.0


def _at_most(curve: list[tuple[float, float]], loss: float) -> float:
    """The largest share whose loss is within a limit, between those that were tried."""
    best = 0.0
    for (r0, l0), (r1, l1) in itertools.pairwise(curve):
        if l1 <= loss:
            best = r1
        elif l0 <= loss:
            return max(best, r0 + (r1 - r0) * (loss - l0) / (l1 - l0))
    return best


def products(graph: Model) -> list[tuple[Tensor, int]]:
    """Weights of a graph, and the axis of each that its outputs are."""
    found: list[tuple[Tensor, int]] = []
    for operation in graph.program.operations:
        given = arguments(operation) or {}
        weight = given.get("weight")
        if operation.type in CONVOLUTIONS and isinstance(weight, Tensor) and given["groups"] in (1, weight.shape[0]):
            found.append((weight, 0))
        elif operation.type in ("linear", "conv2d_transpose") and isinstance(weight, Tensor):
            found.append((weight, 1))
    return found


def pruned_model(model: Model, ratio: float, pruner: type[FilterPruner]) -> tuple[PruningPlan, list[str]]:
    """Remove a share of all channels of a recorded graph, in place: the plan, and names of the weights that lost some."""
    made = pruner(model, None)
    names = made.var_names()
    if not names:
        raise errors.failure("the model has no channels that can be removed", kind=ValueError)
    convolutions = {n: ratio for n in names if made._named(n).ndim > 2}
    matrices = {n: ratio for n in names if made._named(n).ndim == 2}
    removed: set[int] = set()
    for ratios, axis in ((convolutions, 0), (matrices, 1)):
        removed |= made.prune_vars(ratios, axis, apply=None)._removed if ratios else set()
    plan = PruningPlan(made.channels, removed, made._share(removed))
    plan.imperative_apply(None)
    return plan, names


class L1NormFilterPruner(FilterPruner):
    """Removes filters whose magnitudes add up to the least.

    Args:
        model: ``Layer``.
        inputs: Shape of the input, or a list of a shape, ``InputSpec`` or tensor for each input.
        sen_file: File that sensitivities are kept in. Default: None.
        opt: Optimizer whose state is kept in step. Default: None.
        skip_leaves: Whether the last layers keep their outputs; they always do. Default: True.

    Examples:
        >>> net = bireme.nn.Sequential(bireme.nn.Conv2D(1, 4, 3), bireme.nn.BatchNorm2D(4), bireme.nn.Conv2D(4, 2, 3))
        >>> pruner = bireme.slim.dygraph.L1NormFilterPruner(net, [1, 1, 8, 8])
        >>> plan = pruner.prune_vars({net[0].weight.name: 0.5}, axis=0)
        >>> net[1].weight.shape, net[2].weight.shape, round(plan.pruned_flops, 2)
        ([2], [2, 2, 3, 3], 0.5)
    """

    def scores(self, filters: np.ndarray) -> np.ndarray:
        """Sums of magnitudes.

        Args:
            filters: Matrix with a filter in each row.

        Returns:
            A number for each filter.
        """
        return np.abs(filters).sum(1)


class FPGMFilterPruner(FilterPruner):
    """Removes filters that are nearest to all others of their layer, which can stand for them: the geometric median.

    Args:
        model: ``Layer``.
        inputs: Shape of the input, or a list of a shape, ``InputSpec`` or tensor for each input.
        sen_file: File that sensitivities are kept in. Default: None.
        opt: Optimizer whose state is kept in step. Default: None.
        skip_leaves: Whether the last layers keep their outputs; they always do. Default: True.

    Examples:
        >>> net = bireme.nn.Sequential(bireme.nn.Linear(8, 16), bireme.nn.ReLU(), bireme.nn.Linear(16, 2))
        >>> pruner = bireme.slim.dygraph.FPGMFilterPruner(net, [1, 8])
        >>> plan = pruner.prune_var(net[0].weight.name, 1, 0.25)
        >>> net[0].weight.shape, net[2].weight.shape
        ([8, 12], [12, 2])
    """

    def scores(self, filters: np.ndarray) -> np.ndarray:
        """Sums of distances to all others.

        Args:
            filters: Matrix with a filter in each row.

        Returns:
            A number for each filter.
        """
        squares = (filters**2).sum(1)
        apart = squares[:, None] + squares[None] - 2 * filters @ filters.T
        return np.sqrt(np.maximum(apart, 0.0)).sum(1)
