"""GroupShardedStage3: a model of whose parameters each process has a part; a layer has them whole while it computes.

What a layer computed on the way is not kept, since that would keep the whole parameters: its forward pass runs again in
the backward pass, as in recomputing.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from bireme.autograd.py_layer import PyLayer
from bireme.core.base import errors
from bireme.core.base.random_state import get_rng_state, set_rng_state
from bireme.core.processes.collectives import Call
from bireme.core.tensor.backward import backward, final_hooks
from bireme.core.tensor.grad_mode import enable_grad, is_grad_enabled, no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.communication.group import Group, member
from bireme.distributed.fleet.meta_parallel.sharding.group_sharded_optimizer_stage2 import clip_together
from bireme.distributed.parallel import sync_params_buffers
from bireme.distributed.reducer import MEGABYTE, average_experts, exchange_gradients, shared
from bireme.nn.layer import Layer
from bireme.ops import to_tensor, zeros

__all__ = ["GroupShardedStage3"]


class Parts:
    """Parameters of which each process of a group has a part: its numbers in order, padded to equal parts.

    The processes of `beside` have the same parts, and other data.
    """

    def __init__(self, parameters: Sequence[Tensor], group: Group, beside: Group | None = None):
        self.parameters, self.group, self.beside = list(parameters), group, beside
        self.shapes = [list(p.shape) for p in self.parameters]
        self._whole = 0  # how many layers want them whole now
        for p in self.parameters:
            self._cut(p)

    def _size(self, shape: list[int]) -> int:
        return -(-int(np.prod(shape)) // self.group.nranks)

    def _cut(self, p: Tensor) -> None:
        """Keep this process' part of a parameter that is there whole."""
        size, host = self._size(p.shape), p._host().reshape(-1)
        part = np.zeros(size, host.dtype)
        mine = host[self.group.rank * size : (self.group.rank + 1) * size]
        part[: mine.size] = mine
        p._assign_value(to_tensor(part))

    def gathered(self) -> list[Tensor]:
        """The whole parameters."""
        if not self.parameters:
            return []
        call = Call("the exchange of parameters", len(self.parameters))
        found = []
        for p, shape in zip(self.parameters, self.shapes):
            rows = self.group.channel.gather(call, call.read(p))
            found.append(to_tensor(np.concatenate(rows)[: int(np.prod(shape))].reshape(shape)))
        return found

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """Have the parameters whole inside a `with` block, without gradients of before."""
        self._whole += 1
        if self._whole == 1:
            self._kept = [(p._value, p.grad) for p in self.parameters]
            for p, full in zip(self.parameters, self.gathered()):
                p.clear_gradient(False)
                p._assign_value(full)
        try:
            yield
        finally:
            self._whole -= 1
            if not self._whole:
                for p, (value, grad) in zip(self.parameters, self._kept):
                    p.clear_gradient(False)
                    p._value = value
                    if grad is not None:
                        p.grad = grad
                self._kept = []

    def add_gradients(self, grads: list[Tensor | None]) -> None:
        """Add this process' part of the mean of all processes' gradients, each of the whole parameter."""
        count = self.group.nranks
        call = Call("the exchange of gradients", len(grads))
        for p, shape, g in zip(self.parameters, self.shapes, grads):
            if p.stop_gradient:
                continue
            size = self._size(shape)
            rows = np.zeros((count, size + 1), p.dtype.np)  # the last number says whether there is a gradient
            if g is not None:
                flat = np.zeros(size * count, p.dtype.np)
                flat[: g.size] = call.read(g).reshape(-1) / count
                rows[:, :-1], rows[:, -1] = flat.reshape(count, -1), 1
            found = np.sum(self.group.channel.exchange(call, rows), axis=0, dtype=rows.dtype)
            if self.beside is not None:
                found = self.beside.channel.all_reduce(call, found, "AVG")
            if not found[-1]:  # what nobody has used stays without a gradient
                continue
            new = to_tensor(found[:-1])
            with no_grad():
                p.grad = new if p.grad is None else p.grad + new


class _Apart(PyLayer):
    """A call of a layer that has its parameters whole only while it computes."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, layer: _Divided, *args: Any, **kwargs: Any) -> Any:
        ctx.layer, ctx.given, ctx.random = layer, (args, kwargs), get_rng_state()
        with layer.parts.whole():
            return layer.forward(*args, **kwargs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        layer, random = ctx.layer, get_rng_state()
        args, kwargs = ctx.given
        args, kwargs = [_apart(x) for x in args], {name: _apart(x) for name, x in kwargs.items()}
        buffers = [(b, b._value) for b in layer.buffers()]
        set_rng_state(ctx.random)
        try:
            with layer.parts.whole(), enable_grad():
                found = layer.forward(*args, **kwargs)
                results = _tensors(found if isinstance(found, (list, tuple)) else [found])
                wanted = [(y, g) for y, g in zip(results, grads) if not y.stop_gradient]
                backward([y for y, _ in wanted], [g for _, g in wanted])
                mine = [p.grad for p in layer.parts.parameters]
        finally:
            set_rng_state(random)
            for b, value in buffers:  # the first pass has updated them
                b._value = value
        layer.parts.add_gradients(mine)
        given = _tensors([*args, *kwargs.values()])
        return (None, *[None if x.stop_gradient else x.grad for x in given])


def _apart(x: Any) -> Any:
    """The same values as leaves of another tape."""
    if isinstance(x, Tensor):
        new = x.detach()
        new.stop_gradient = x.stop_gradient
        return new
    return type(x)([_apart(part) for part in x]) if type(x) in (list, tuple) else x


def _tensors(items: Sequence[Any]) -> list[Tensor]:
    found: list[Tensor] = []
    for x in items:
        if isinstance(x, Tensor):
            found.append(x)
        elif isinstance(x, (list, tuple)):
            found += [t for t in x if isinstance(t, Tensor)]
    return found


class _Divided:
    """A layer with its divided parameters, and its own forward function."""

    def __init__(self, layer: Layer, parts: Parts, anchor: Tensor):
        self.layer, self.parts, self.anchor = layer, parts, anchor
        self.forward: Callable = layer.forward

    def buffers(self) -> list[Tensor]:
        if getattr(self.layer, "sublayers_by_data", False):
            return self.layer.buffers()
        return [b for b in self.layer._buffers.values() if b is not None]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not is_grad_enabled():
            with self.parts.whole():
                return self.forward(*args, **kwargs)
        return _Apart.apply(self.anchor, self, *args, **kwargs)


class GroupShardedStage3(Layer):
    """A model whose parameters, gradients and optimizer states are divided among a group.

    Between their uses, parameters are vectors: this process' part of their numbers. Layers that have parameters of their
    own get them whole for a call. A layer whose parameters others use as well belongs into ``exclude_layer``. All processes
    have to call the same layers: one that calls different ones by its data, as a mixture of experts does, says so by an
    attribute ``sublayers_by_data``, and has the parameters of all of them whole.

    Args:
        layer: The model.
        optimizer: Its optimizer, which has not made a step yet. It updates the parts.
        group: The group. Default: None, the default group.
        sync_buffers: Begin with the first process' buffers. They always are. Default: False.
        device: Kind of device. It has no effect. Default: ``'gpu'``.
        segment_size: Bytes below which a parameter is not divided. Default: 2**20.
        pretrain_sync_models: Begin with the first process' parameters. Default: True.
        offload: Keep states in host memory: ``group_sharded_parallel`` sees to it, here it has no effect. Default: False.
        sync_comm: Wait for each exchange. It always is. Default: False.
        dp_group: Group of the data axis, over which gradients are averaged as well. Default: None.
        exclude_layer: Names of classes, or ids, of layers that are not divided. Default: None.

    Examples:
        >>> group = bireme.distributed.init_parallel_env()
        >>> from bireme.distributed.fleet.meta_parallel.sharding.group_sharded_stage3 import GroupShardedStage3
        >>> layer = bireme.nn.Linear(2, 1)
        >>> optimizer = bireme.optimizer.Adam(parameters=layer.parameters())
        >>> model = GroupShardedStage3(layer, optimizer, segment_size=0)
        >>> model(bireme.ones([3, 2])).sum().backward()
        >>> layer.weight.grad.tolist()
        [3.0, 3.0]
    """

    def __init__(
        self,
        layer: Layer,
        optimizer: Any,
        group: Group | None = None,
        sync_buffers: bool = False,
        device: str = "gpu",
        segment_size: int = 2**20,
        pretrain_sync_models: bool = True,
        offload: bool = False,
        sync_comm: bool = False,
        dp_group: Group | None = None,
        exclude_layer: list | None = None,
    ) -> None:
        super().__init__()
        self._layer, self._optimizer, self._group = layer, optimizer, member("GroupShardedStage3", group)
        if getattr(optimizer, "_slots", None):
            where = "GroupShardedStage3(optimizer)"
            raise errors.bad(where, "an optimizer that has not made a step", described="one with states")
        self._among = [g for g in (self._group, dp_group) if g is not None and g.nranks > 1]
        for among in self._among if pretrain_sync_models else ():
            sync_params_buffers(layer, among, among.ranks[0])
        anchor = zeros([])
        anchor.stop_gradient = False  # so that layers whose inputs are data have a backward pass too
        self.divided: list[_Divided] = []
        cut: set[int] = set()
        for one in layer.sublayers(include_self=True):
            if exclude_layer and (type(one).__name__ in exclude_layer or id(one) in exclude_layer):
                continue
            together = getattr(one, "sublayers_by_data", False)
            found = one.parameters() if together else [p for p in one._parameters.values() if p is not None]
            own = [p for p in shared(found) if id(p) not in cut]
            large = [p for p in own if p.size * p.dtype.np.itemsize > segment_size]
            if large:
                cut |= {id(p) for p in large}
                divided = _Divided(one, Parts(large, self._group, dp_group), anchor)
                self.divided.append(divided)
                one.__dict__["forward"] = divided
        rest = [p for p in {id(p): p for p in layer.parameters()}.values() if id(p) not in cut]
        self._rest = [p for p in shared(rest) if not p.stop_gradient]
        self._due = False
        if self._among:
            for p in self._rest:
                p._register_backward_hook(self._reach)
            average_experts(rest, math.prod(among.nranks for among in self._among))
        if self._group.nranks > 1:
            clip_together(optimizer, self._group, {id(p) for p in rest})

    def _reach(self) -> None:
        if not self._due:
            self._due = True
            final_hooks.append(self._reduce)

    def _reduce(self) -> None:
        """Average the gradients of parameters that are not divided; those of earlier passes are averaged already, and
        the mean of equal ones is what they are.
        """
        self._due = False
        for among in self._among:
            exchange_gradients(self._rest, among, 128 * MEGABYTE, 1 / among.nranks)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the model.

        Args:
            *inputs: Inputs of the model.
            **kwargs: Further inputs by name.

        Returns:
            What the model returns.
        """
        return self._layer(*inputs, **kwargs)

    def get_all_parameters(self, convert2cpu: bool = False) -> list[Any]:
        """Make all parameters whole again, for saving or for use without division; all processes call it.

        Args:
            convert2cpu: Move them to host memory. It has no effect. Default: False.

        Returns:
            The parameters of the model.
        """
        for divided in self.divided:
            for p, full in zip(divided.parts.parameters, divided.parts.gathered()):
                p._assign_value(full)
                p.clear_gradient(False)
            del divided.layer.__dict__["forward"]
        self.divided = []
        return self._layer.parameters()

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return whole parameters and persistable buffers by the names that they have in the model; all processes call it.

        Args:
            *args: Arguments of the model's ``state_dict``.
            **kwargs: Its keyword arguments.

        Returns:
            A dict of names and tensors.
        """
        full = {}
        for divided in self.divided:
            full.update({id(p): t for p, t in zip(divided.parts.parameters, divided.parts.gathered())})
        found = self._layer.state_dict(*args, **kwargs)
        for name, t in found.items():
            if id(t) in full:
                full[id(t)].name = t.name
                found[name] = full[id(t)]
        return found

    def set_state_dict(self, state_dict: dict, use_structured_name: bool = True) -> Any:
        """Set parameters and buffers from what ``state_dict`` returned: each process takes its part.

        Args:
            state_dict: Dict of names and whole tensors.
            use_structured_name: Names are those of ``state_dict``; otherwise those of the tensors. Default: True.

        Returns:
            What the model's ``set_state_dict`` returns.
        """
        with contextlib.ExitStack() as stack:
            for divided in self.divided:
                stack.enter_context(divided.parts.whole())
            found = self._layer.set_state_dict(state_dict, use_structured_name)
            given = [[p.detach() for p in divided.parts.parameters] for divided in self.divided]
        for divided, full in zip(self.divided, given):
            for p, t in zip(divided.parts.parameters, full):
                p._assign_value(t)
                divided.parts._cut(p)
        return found

    def parts(self) -> dict[int, tuple[list[int], int]]:
        """Return, by id of each divided parameter, its whole shape, and where this process' part of its numbers begins."""
        return {
            id(p): (shape, self._group.rank * p.size)
            for divided in self.divided
            for p, shape in zip(divided.parts.parameters, divided.parts.shapes)
        }
