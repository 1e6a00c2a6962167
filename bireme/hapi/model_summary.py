"""`summary`: a table of a network's layers. Shapes are known without computing, so nothing is computed."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.base.random_state import get_rng_state, set_rng_state
from bireme.core.record.capture import capture
from bireme.core.record.flush import flush
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.hapi.callback import say
from bireme.nn.container import LayerList, Sequential
from bireme.nn.layer import Layer
from bireme.ops import to_tensor
from bireme.static import InputSpec

_STATISTICS = ("_mean", "_variance")  # batch norm's: Paddle counts them among its parameters
_MIB = 1 << 20


def own_tensors(layer: Layer) -> list[Tensor]:
    """Return what a layer itself holds: its parameters, and the statistics of a batch norm."""
    held = [p for p in layer._parameters.values() if p is not None]
    return held + [b for name, b in layer._buffers.items() if b is not None and name in _STATISTICS]


@contextlib.contextmanager
def untouched(net: Layer) -> Iterator[None]:
    """Put the network into evaluation mode; its modes, buffers and the random state are restored afterwards."""
    before = [(layer, layer.training, dict(layer._buffers)) for layer in net.sublayers(include_self=True)]
    values, state = [(b, b._value) for b in net.buffers()], get_rng_state()
    net.eval()
    try:
        with no_grad():
            yield
    finally:
        for layer, mode, buffers in before:
            layer.training = mode
            layer._buffers.clear()
            layer._buffers.update(buffers)
        for held, value in values:
            if held._value is not value:
                held._assign_value(Tensor(value))
        set_rng_state(state)


def looked_at(net: Layer, call: Callable[[], Any]) -> Any:
    """Return what ``call``, which calls the network, returns; the network stays as it was.

    The call is recorded into a graph that is discarded, so nothing is computed. A network that reads values on its way
    is called once more and computed.
    """
    with untouched(net):
        flush()
        try:
            with capture():
                return call()
        except RuntimeError:
            return call()


def summary(net: Layer, input_size: Any = None, dtypes: Any = None, input: Any = None) -> dict[str, int]:
    """Print a table of the layers that a forward pass runs through, with their shapes and numbers of parameters.

    Shapes are inferred, so nothing is computed where the network does not read values. The network stays as it was.

    Args:
        net: The network, a ``Layer``.
        input_size: Shape of the input, an ``InputSpec``, or a list of them, one for each input; None or -1 for the
            batch dimension counts as 1. Default: None.
        dtypes: Dtype of all inputs, or a list with one for each. Default: None, float32.
        input: Tensors in any lists, tuples and dicts, passed to the network as one argument instead of ``input_size``.
            Default: None.

    Returns:
        A dict with ``total_params`` and ``trainable_params``.

    Examples:
        >>> net = bireme.nn.Sequential(bireme.nn.Linear(4, 8), bireme.nn.ReLU(), bireme.nn.Linear(8, 2))
        >>> bireme.summary(net, (None, 4))
        -----...
        {'total_params': 58, 'trainable_params': 58}
    """
    if not isinstance(net, Layer):
        raise errors.bad("summary(net)", "a Layer", net, kind=AttributeError)
    if input is not None:
        args = [input]
    elif input_size is not None:
        args = made_inputs("summary", input_size, dtypes)
    else:
        raise errors.bad("summary(input_size)", "a shape, or input= with tensors", None)
    rows = _trace(net, args)
    total = sum(row.params for row in rows)
    trained = sum(row.trained for row in rows)
    say(_table(rows, total, trained, sum(_elements(_shape(a)) for a in args)))
    return {"total_params": total, "trainable_params": trained}


# ---------------------------------------------------------------- inputs


def made_inputs(where: str, input_size: Any, kinds: Any) -> list[Any]:
    """Make an input for each shape; nested shapes give nested inputs."""
    shapes = _shapes(where, input_size)
    several = isinstance(kinds, (list, tuple))
    if several and len(kinds) != len(shapes):
        raise errors.bad(f"{where}(dtypes)", f"a dtype for each of {len(shapes)} inputs", kinds)
    return [_made(where, shape, kinds[i] if several else kinds) for i, shape in enumerate(shapes)]


def _is_shape(x: Any) -> bool:
    return isinstance(x, (list, tuple)) and all(n is None or isinstance(n, (int, float, np.integer)) for n in x)


def _shapes(where: str, given: Any) -> list[Any]:
    if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
        return [(given,)]
    if isinstance(given, InputSpec) or _is_shape(given):
        return [given]
    if isinstance(given, dict):
        given = list(given.values())
    if not isinstance(given, (list, tuple)):
        raise errors.bad(
            f"{where}(input_size)", "a shape, an InputSpec, or a list of them", given, kind=errors.ArgumentTypeError
        )
    return list(given)


def _made(where: str, shape: Any, kind: Any) -> Any:
    if isinstance(shape, InputSpec):
        shape, kind = shape.shape, shape.dtype if kind is None else kind
    if isinstance(shape, (list, tuple)) and not _is_shape(shape):
        return tuple(_made(where, part, kind) for part in shape)
    if not _is_shape(shape):
        raise errors.bad(
            f"{where}(input_size)", "a shape, an InputSpec, or a list of them", shape, kind=errors.ArgumentTypeError
        )
    sizes = []
    for n in shape:
        if isinstance(n, (bool, float)):
            raise errors.bad(
                f"{where}(input_size)",
                "integers, and None for the batch dimension",
                list(shape),
                kind=errors.ArgumentTypeError,
            )
        if (n is None or n == -1) and sum([m in (None, -1) for m in shape]) == 1:
            n = 1  # the batch dimension, at any position: the states of a recurrent layer have it second
        if n is None or n <= 0:
            raise errors.bad(f"{where}(input_size)", "positive sizes, and None or -1 only for the batch", list(shape))
        sizes.append(int(n))
    return to_tensor(np.zeros(sizes, dtypes.of(kind or "float32", f"{where}(dtypes)").np))


# ---------------------------------------------------------------- rows


class _Row:
    """A layer that was called; if it was called more than once, the last call."""

    def __init__(self, layer: Layer, counted: set[int]):
        number = layer.full_name().rpartition("_")[2]
        self.name = f"{type(layer).__name__}-{int(number) + 1 if number.isdigit() else 1}"
        own = [t for t in own_tensors(layer) if id(t) not in counted]  # two layers that share a parameter count it once
        counted.update(map(id, own))
        self.params = sum(int(t.size) for t in own)
        self.trained = sum(int(t.size) for t in own if not t.stop_gradient)
        self.takes: Any = None
        self.gives: Any = None


def _trace(net: Layer, args: list[Any]) -> list[_Row]:
    rows: dict[int, _Row] = {}
    counted: set[int] = set()

    def note(layer: Layer, inputs: Any, output: Any) -> None:
        row = rows.get(id(layer))
        if row is None:
            row = rows[id(layer)] = _Row(layer, counted)
        row.takes, row.gives = [_shape(x) for x in inputs], _shape(output)

    def call() -> list[_Row]:
        rows.clear()
        counted.clear()
        net(*args)
        return list(rows.values())

    hooks = []
    for layer in net.sublayers(include_self=True):
        # containers, and the network itself, are there for their sublayers, unless they hold parameters of their own
        contains = isinstance(layer, (Sequential, LayerList)) or (layer is net and layer._sub_layers)
        if not contains or layer._parameters:
            hooks.append(layer.register_forward_post_hook(note))
    try:
        return looked_at(net, call)
    finally:
        for hook in hooks:
            hook.remove()


def _shape(x: Any) -> Any:
    """Return shapes in the structure of the tensors; None stays None, other values give []."""
    if isinstance(x, Tensor):
        return x.shape
    if isinstance(x, dict):
        return [_shape(v) for v in x.values()]
    if isinstance(x, (list, tuple)):
        return [_shape(v) for v in x]
    return x if x is None else []


def _elements(shape: Any) -> int:
    """Return the number of elements of all tensors in what ``_shape`` returned."""
    if not isinstance(shape, list) or (not shape):
        return 0
    if all(isinstance(n, int) for n in shape):
        return math.prod(shape)
    return sum(_elements(part) for part in shape)


# ---------------------------------------------------------------- the table


def _table(rows: list[_Row], total: int, trained: int, given: int) -> str:
    heads = ("Layer (type)", "Input Shape", "Output Shape", "Param #")
    lines = [(row.name, str(row.takes), str(row.gives), f"{row.params:,}") for row in rows]
    widths = (
        [max(least, *(len(line[i]) for line in lines), 0) for i, least in enumerate((15, 20, 20, 15))]
        if lines
        else [15, 20, 20, 15]
    )
    rule = sum(widths) + 5

    def centred(cells: Any) -> str:
        return " ".join(f"{cell:^{width}}" for cell, width in zip(cells, widths, strict=True))

    sizes = [given * 4 / _MIB, 2 * sum(_elements(row.gives) for row in rows) * 4 / _MIB, total * 4 / _MIB]
    return "\n".join((
        "-" * rule, centred(heads), "=" * rule, *map(centred, lines), "=" * rule,
        f"Total params: {total:,}", f"Trainable params: {trained:,}", f"Non-trainable params: {total - trained:,}",
        "-" * rule, f"Input size (MB): {sizes[0]:.2f}", f"Forward/backward pass size (MB): {sizes[1]:.2f}",
        f"Params size (MB): {sizes[2]:.2f}", f"Estimated Total Size (MB): {sum(sizes):.2f}", "-" * rule, "",
    ))  # fmt: skip


guard_functions(globals())
