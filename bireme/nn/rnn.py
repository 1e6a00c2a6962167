"""Recurrent layers over sequences: cells run over time, and stacks of them in one or both directions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bireme.core.base import errors
from bireme.core.program.building import current
from bireme.core.program.calls import recorded, size_of
from bireme.core.program.control_flow import loop
from bireme.core.program.variable import Dim
from bireme.core.tensor.tensor import Tensor
from bireme.nn.arguments import Attr, must_be_positive
from bireme.nn.common import must_be_probability
from bireme.nn.container import LayerList
from bireme.nn.layer import Layer
from bireme.nn.rnn_cell import Cell, GRUCell, LSTMCell, RNNCellBase, SimpleRNNCell, pair, simple_mode
from bireme.ops import concat, dropout, flip, full, index_select, stack, unbind, where
from bireme.ops.indexing.getitem import unbind_of


def _mapped(change: Callable, *trees: Any) -> Any:
    """Apply a function to each leaf of nested lists, tuples and dicts of the same structure."""
    first = trees[0]
    if isinstance(first, (list, tuple)):
        made = [_mapped(change, *parts) for parts in zip(*trees, strict=True)]
        return type(first)(*made) if hasattr(first, "_fields") else type(first)(made)
    return {k: _mapped(change, *[t[k] for t in trees]) for k in first} if isinstance(first, dict) else change(*trees)


def _leaves(tree: Any) -> list[Any]:
    found: list[Any] = []
    _mapped(found.append, tree)
    return found


def _is_plain(cell: Layer) -> bool:
    """Whether a cell is one of the three here, unchanged: then the whole sequence is one operator."""
    return (
        type(cell) in (SimpleRNNCell, LSTMCell, GRUCell)
        and not cell._forward_pre_hooks
        and not cell._forward_post_hooks
    )


def rnn(
    cell: RNNCellBase,
    inputs: Any,
    initial_states: Any = None,
    sequence_length: Tensor | None = None,
    time_major: bool = False,
    is_reverse: bool = False,
    **kwargs: Any,
) -> tuple[Any, Any]:
    """Run a cell over a sequence.

    Args:
        cell: The cell, called as ``cell(inputs, states)`` for each time step.
        inputs: Tensor ``[N, T, ...]``, or ``[T, N, ...]`` with ``time_major``, or nested lists and tuples of such
            tensors.
        initial_states: States to start from, as the cell has them. Default: None, those of ``cell.get_initial_states``.
        sequence_length: Integer tensor ``[N]``: from this time step on the states of a sample stay as they are.
            Default: None, all time steps count.
        time_major: The first axis is that of time, the second that of the batch. Default: False.
        is_reverse: Run from the end of the sequence. Default: False.
        **kwargs: Further arguments of the cell.

    Returns:
        A tuple (outputs, final states); outputs have the axes of the inputs.

    Examples:
        >>> y, h = bireme.nn.rnn.rnn(bireme.nn.GRUCell(3, 4), bireme.ones([2, 5, 3]))
        >>> y.shape, h.shape
        ([2, 5, 4], [2, 4])
    """
    states, lengths = initial_states, sequence_length
    axis = 0 if time_major else 1
    if isinstance(inputs, Tensor) and inputs.ndim < 2:
        raise errors.bad(
            "RNN(inputs)", "a batch and a time dimension", described=f"shape {inputs.shape}", kind=errors.ShapeError
        )
    if states is None:
        ref = inputs
        while isinstance(ref, (list, tuple)):
            ref = ref[0]
        states = cell.get_initial_states(ref, dtype=ref.dtype, batch_dim_idx=1 - axis)
    if isinstance(inputs, Tensor) and inputs.ndim == 3 and _is_plain(cell) and not kwargs:
        out, *last = cell.run(inputs, states, lengths, "RNN", reverse=is_reverse, time_major=time_major, masked=False)
        return out, tuple(last) if len(last) > 1 else last[0]
    n = _leaves(inputs)[0].shape[axis]
    if isinstance(n, Dim):
        return _looped(cell, inputs, states, lengths, axis, is_reverse, n, kwargs)
    each = [unbind(t, axis) for t in _leaves(inputs)]
    steps, outs = range(len(each[0])), []
    if not steps:
        raise errors.bad("RNN(inputs)", "at least one step", described="none")
    for t in reversed(steps) if is_reverse else steps:
        rest = iter(each)
        out, new = cell(_mapped(lambda _, t=t, rest=rest: next(rest)[t], inputs), states, **kwargs)
        states = new if lengths is None else _mapped(lambda a, b, t=t: _chosen(lengths > t, a, b), new, states)
        outs.append(out)
    outs = outs[::-1] if is_reverse else outs
    return _mapped(lambda *parts: stack(list(parts), axis), *outs), states


def _looped(
    cell: Any, inputs: Any, states: Any, lengths: Any, axis: int, is_reverse: bool, n: int, kwargs: dict[str, Any]
) -> tuple[Any, Any]:
    """Run a cell over a sequence of a program whose number of steps is unknown: the steps after the first are a loop."""
    steps = recorded(size_of, n)

    def called(t: Any, states: Any) -> tuple[Any, Any]:
        at = steps - 1 - t if is_reverse else t
        out, new = cell(
            _mapped(lambda x: index_select(x, at.reshape([1]), axis).squeeze(axis), inputs), states, **kwargs
        )
        return out, new if lengths is None else _mapped(lambda a, b: _chosen(lengths > at, a, b), new, states)

    def step(t: Any, states: Any, outs: Any) -> list[Any]:
        out, states = called(t, states)
        for one, many in zip(_leaves(out), outs, strict=True):
            many.append(one)
        return [t + 1, states, outs]

    first = full([], 0, "int64")
    out, states = called(first, states)
    outs = [[leaf] for leaf in _leaves(out)]
    builder = current()
    assert builder is not None
    _, states, outs = loop(builder, "rnn", lambda t, *_: t < steps, step, [first + 1, states, outs])
    joined = iter([stack(many, axis) for many in outs])
    return _mapped(lambda _: flip(next(joined), axis) if is_reverse else next(joined), out), states


def birnn(
    cell_fw: RNNCellBase,
    cell_bw: RNNCellBase,
    inputs: Any,
    initial_states: Any = None,
    sequence_length: Tensor | None = None,
    time_major: bool = False,
    **kwargs: Any,
) -> tuple[Any, Any]:
    """Run two cells over a sequence, one from each end, and concatenate their outputs.

    Args:
        cell_fw: The cell that runs forward.
        cell_bw: The cell that runs from the end.
        inputs: Tensor ``[N, T, ...]``, or ``[T, N, ...]`` with ``time_major``.
        initial_states: Pair of the states of both cells. Default: None, the initial states of the cells.
        sequence_length: Integer tensor ``[N]``: from this time step on the states of a sample stay as they are.
            Default: None, all time steps count.
        time_major: The first axis is that of time, the second that of the batch. Default: False.
        **kwargs: Further arguments of the cell.

    Returns:
        A tuple (outputs, pair of final states); outputs of both cells are concatenated along the last axis.

    Examples:
        >>> bireme.nn.rnn.birnn(bireme.nn.GRUCell(3, 4), bireme.nn.GRUCell(3, 4), bireme.ones([2, 5, 3]))[0].shape
        [2, 5, 8]
    """
    if initial_states is not None and not (isinstance(initial_states, (list, tuple)) and len(initial_states) == 2):
        raise errors.bad("BiRNN(initial_states)", "a pair: forward and backward", initial_states)
    fw, bw = initial_states if initial_states is not None else (None, None)
    ahead, last_fw = rnn(cell_fw, inputs, fw, sequence_length, time_major, **kwargs)
    back, last_bw = rnn(cell_bw, inputs, bw, sequence_length, time_major, True, **kwargs)
    return _mapped(lambda a, b: concat([a, b], -1), ahead, back), (last_fw, last_bw)


def split_states(states: Any, bidirectional: bool = False, state_components: int = 1) -> list[Any]:
    """Split the stacked states of all layers into those of each layer.

    Args:
        states: Tensor ``[num_layers * num_directions, N, hidden_size]``, or a pair of them for an LSTM.
        bidirectional: There are two directions; the result has a pair for each layer. Default: False.
        state_components: Number of tensors of a state: 2 for an LSTM. Default: 1.

    Returns:
        A list with the states of each layer.

    Examples:
        >>> pairs = bireme.nn.rnn.split_states(bireme.to_tensor([[1], [2], [3], [4]]), True)
        >>> [[t.tolist() for t in pair] for pair in pairs]
        [[[1], [2]], [[3], [4]]]
    """
    rows = unbind(states, 0) if state_components == 1 else list(zip(*[unbind(part, 0) for part in states], strict=True))
    return list(zip(rows[::2], rows[1::2], strict=True)) if bidirectional else rows


def concat_states(states: Any, bidirectional: bool = False, state_components: int = 1) -> Any:
    """Stack the states of all layers, the inverse of ``split_states``.

    Args:
        states: List with the states of each layer.
        bidirectional: It has a pair for each layer. Default: False.
        state_components: Number of tensors of a state: 2 for an LSTM. Default: 1.

    Returns:
        Tensor, or a tuple of ``state_components`` tensors.

    Examples:
        >>> bireme.nn.rnn.concat_states([bireme.to_tensor([1]), bireme.to_tensor([2])]).tolist()
        [[1], [2]]
    """
    rows = [row for pair in states for row in pair] if bidirectional else list(states)
    if state_components == 1:
        return stack(rows, 0)
    return tuple([stack(list(parts), 0) for parts in zip(*rows, strict=True)])


def _chosen(inside: Tensor, new: Tensor, old: Tensor) -> Tensor:
    return where(inside.reshape([-1] + [1] * (new.ndim - 1)), new, old)


class RNN(Layer):
    """Runs a cell over a sequence.

    A user's cell is called once for each time step; the cells of this library run as one operator.

    Args:
        cell: The cell: a layer called as ``cell(inputs, states)`` that returns (output, new states).
        is_reverse: Run from the end of the sequence. Default: False.
        time_major: The first axis is that of time, the second that of the batch. Default: False.

    Shape:
        - inputs: ``[N, T, ...]``, or ``[T, N, ...]`` with ``time_major``
        - outputs: the same axes with the size of the cell's output

    Examples:
        >>> y, h = bireme.nn.RNN(bireme.nn.GRUCell(3, 4))(bireme.ones([2, 5, 3]))
        >>> y.shape, h.shape
        ([2, 5, 4], [2, 4])
    """

    def __init__(self, cell: RNNCellBase, is_reverse: bool = False, time_major: bool = False):
        super().__init__()
        if not isinstance(cell, Layer):
            raise errors.bad("RNN(cell)", "an RNN cell", cell, kind=errors.MissingAttributeError)
        self.cell, self.is_reverse, self.time_major = cell, is_reverse, time_major

    def forward(
        self, inputs: Any, initial_states: Any = None, sequence_length: Tensor | None = None, **kwargs: Any
    ) -> tuple[Any, Any]:
        """Run the cell.

        Args:
            inputs: Tensor ``[N, T, ...]``, or ``[T, N, ...]`` with ``time_major``, or nested lists and tuples of such
                tensors.
            initial_states: States to start from, as the cell has them. Default: None, those of
                ``cell.get_initial_states``.
            sequence_length: Integer tensor ``[N]``: from this time step on the states of a sample stay as they are.
                Default: None, all time steps count.
            **kwargs: Further arguments of the cell.

        Returns:
            A tuple (outputs, final states).
        """
        return rnn(self.cell, inputs, initial_states, sequence_length, self.time_major, self.is_reverse, **kwargs)


class BiRNN(Layer):
    """Runs two cells over a sequence, one from each end, and concatenates their outputs.

    Args:
        cell_fw: The cell that runs forward.
        cell_bw: The cell that runs from the end; both have the same ``input_size``.
        time_major: The first axis is that of time, the second that of the batch. Default: False.

    Shape:
        - inputs: ``[N, T, input_size]``, or ``[T, N, input_size]`` with ``time_major``
        - outputs: the same axes with the sum of the sizes of both outputs

    Examples:
        >>> net = bireme.nn.BiRNN(bireme.nn.GRUCell(3, 4), bireme.nn.GRUCell(3, 4))
        >>> net(bireme.ones([2, 5, 3]))[0].shape
        [2, 5, 8]
    """

    def __init__(self, cell_fw: RNNCellBase, cell_bw: RNNCellBase, time_major: bool = False):
        super().__init__()
        if cell_fw.input_size != cell_bw.input_size:
            got = f"{cell_fw.input_size} and {cell_bw.input_size}"
            raise errors.bad("BiRNN(cell_fw, cell_bw)", "cells of one input size", described=got)
        self.cell_fw, self.cell_bw, self.time_major = cell_fw, cell_bw, time_major

    def forward(
        self, inputs: Any, initial_states: Any = None, sequence_length: Tensor | None = None, **kwargs: Any
    ) -> tuple[Any, Any]:
        """Run both cells.

        Args:
            inputs: Tensor ``[N, T, input_size]``, or ``[T, N, input_size]`` with ``time_major``.
            initial_states: Pair of the states of both cells. Default: None, the initial states of the cells.
            sequence_length: Integer tensor ``[N]``: from this time step on the states of a sample stay as they are.
                Default: None, all time steps count.
            **kwargs: Further arguments of the cell.

        Returns:
            A tuple (outputs, pair of final states).
        """
        return birnn(self.cell_fw, self.cell_bw, inputs, initial_states, sequence_length, self.time_major, **kwargs)


class RNNBase(LayerList):
    """Layers of one kind of cell in one or both directions; base of ``LSTM``, ``GRU`` and ``SimpleRNN``.

    The parameters of the cells are also attributes of this layer: ``weight_ih_l0``, ``weight_hh_l0_reverse`` and so on.

    Args:
        mode: ``'LSTM'``, ``'GRU'``, ``'RNN_TANH'`` or ``'RNN_RELU'``.
        input_size: Size of the last axis of the input.
        hidden_size: Size of the hidden state.
        num_layers: Number of layers; each takes the output of the one before. Default: 1.
        direction: ``'forward'``, or ``'bidirect'`` or ``'bidirectional'`` for a second set of cells that runs from the
            end. Default: ``'forward'``.
        time_major: The first axis is that of time, the second that of the batch. Default: False.
        dropout: Probability of dropout between the layers, in training. Default: 0.0.
        weight_ih_attr: Attribute of the weights of the input. Default: None, uniform within ``1 / sqrt(hidden_size)``.
        weight_hh_attr: Attribute of the weights of the state. Default: None, uniform within ``1 / sqrt(hidden_size)``.
        bias_ih_attr: Attribute of the bias of the input; ``False`` keeps it at zero. Default: None, uniform within
            ``1 / sqrt(hidden_size)``.
        bias_hh_attr: Attribute of the bias of the state; ``False`` keeps it at zero. Default: None, uniform within
            ``1 / sqrt(hidden_size)``.
        proj_size: Size that the hidden state of an LSTM is projected to. Default: 0, no projection.

    Examples:
        >>> bireme.nn.rnn.RNNBase("GRU", 3, 4)(bireme.ones([2, 5, 3]))[0].shape
        [2, 5, 4]
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        direction: str = "forward",
        time_major: bool = False,
        dropout: float = 0.0,
        weight_ih_attr: Attr = None,
        weight_hh_attr: Attr = None,
        bias_ih_attr: Attr = None,
        bias_hh_attr: Attr = None,
        proj_size: int = 0,
    ):
        super().__init__()
        attrs = (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)
        kinds: dict[str, Callable[[int], Cell]] = {
            "LSTM": lambda n: LSTMCell(n, hidden_size, *attrs, proj_size),
            "GRU": lambda n: GRUCell(n, hidden_size, *attrs),
            "RNN_TANH": lambda n: SimpleRNNCell(n, hidden_size, "tanh", *attrs),
            "RNN_RELU": lambda n: SimpleRNNCell(n, hidden_size, "relu", *attrs),
        }
        if mode not in kinds:
            raise errors.bad(f"{type(self).__name__}(mode)", f"one of {', '.join(map(repr, kinds))}", mode)
        if direction not in ("forward", "bidirect", "bidirectional"):
            raise errors.bad(f"{type(self).__name__}(direction)", "'forward', 'bidirect' or 'bidirectional'", direction)
        name = type(self).__name__
        must_be_positive(name, input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        must_be_probability(f"{type(self).__name__}(dropout)", dropout)
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.proj_size = proj_size
        self.num_directions = 1 if direction == "forward" else 2
        self.mode = mode
        self.time_major = time_major
        self.dropout = dropout
        self.state_components = 2 if mode == "LSTM" else 1
        for n in range(num_layers):
            width = input_size if n == 0 else self.num_directions * (proj_size or hidden_size)
            cells = [kinds[mode](width) for _ in range(self.num_directions)]
            self.append(
                RNN(cells[0], time_major=time_major) if len(cells) == 1 else BiRNN(cells[0], cells[1], time_major)
            )
            for cell, end in zip(cells, ("", "_reverse"), strict=False):
                for name in (
                    "weight_ih",
                    "weight_hh",
                    *[b for b, attr in zip(("bias_ih", "bias_hh"), attrs[2:], strict=True) if attr is not False],
                ):
                    setattr(self, f"{name}_l{n}{end}", getattr(cell, name))

    def flatten_parameters(self) -> None:
        """Do nothing: parameters need not be contiguous here."""

    def _initial(self, inputs: Tensor, states: Any, batch: int) -> list[Any]:
        """States of each layer and direction, in order."""
        count, name = self.num_layers * self.num_directions, type(self).__name__
        sizes = (self.proj_size or self.hidden_size, self.hidden_size)[: self.state_components]
        if states is None:
            each = [full([batch, n], 0.0, inputs.dtype) for n in sizes]
            states = each[0] if self.state_components == 1 else tuple(each)
            return [states] * count
        if self.state_components == 1 and isinstance(states, (list, tuple)) and len(states) == 1:
            states = states[0]
        parts = pair(name, states) if self.state_components == 2 else (states,)
        for part, n in zip(parts, sizes, strict=True):
            if not isinstance(part, Tensor) or part.shape != [count, batch, n]:
                raise errors.bad(
                    f"{name}(initial_states)",
                    f"shape {[count, batch, n]}",
                    described=f"shape {list(getattr(part, 'shape', ()))}",
                    kind=errors.ShapeError,
                )
        rows = [unbind_of(part, 0) for part in parts]  # nobody writes into them: they need not be views
        return rows[0] if len(rows) == 1 else list(zip(*rows, strict=True))

    def forward(
        self, inputs: Tensor, initial_states: Any = None, sequence_length: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """Run all layers over a sequence.

        Args:
            inputs: Tensor ``[N, T, input_size]``, or ``[T, N, input_size]`` with ``time_major``.
            initial_states: States ``[num_layers * num_directions, N, hidden_size]``; for an LSTM a pair of hidden and
                cell states, the hidden one with ``proj_size`` if there is a projection. Default: None, zeros.
            sequence_length: Integer tensor ``[N]``: beyond this time step the states of a sample stay as they are and
                its outputs are zero, except with a projection. Default: None, all time steps count.

        Returns:
            A tuple (outputs, final states): the outputs of the last layer at all time steps, with both directions
            concatenated, and the states of all layers in the form of ``initial_states``.
        """
        if not isinstance(inputs, Tensor):
            raise errors.bad(f"{type(self).__name__}(inputs)", "a Tensor", inputs, kind=errors.NotATensorError)
        if inputs.ndim != 3:
            axes = "steps, batch" if self.time_major else "batch, steps"
            raise errors.bad(
                f"{type(self).__name__}(inputs)",
                f"shape [{axes}, {self.input_size}]",
                described=f"shape {inputs.shape}",
                kind=errors.ShapeError,
            )
        states = iter(self._initial(inputs, initial_states, inputs.shape[1 if self.time_major else 0]))
        last: list[list[Tensor]] = []
        for n, layer in enumerate(self):
            if n and self.dropout:
                inputs = dropout(inputs, self.dropout, training=self.training)
            outs = []
            for reverse, cell in enumerate(
                (layer.cell,) if self.num_directions == 1 else (layer.cell_fw, layer.cell_bw)
            ):
                # with a projection Paddle runs the cells, and cells give outputs beyond the lengths too
                options = {"reverse": bool(reverse), "time_major": self.time_major, "masked": not self.proj_size}
                out, *ends = cell.run(inputs, next(states), sequence_length, type(self).__name__, **options)
                outs.append(out)
                last.append(ends)
            inputs = outs[0] if len(outs) == 1 else concat(outs, -1)
        ends = tuple([stack(list(parts), 0) for parts in zip(*last, strict=True)])
        return inputs, ends[0] if self.state_components == 1 else ends

    def extra_repr(self) -> str:
        said = [f"{self.input_size}, {self.hidden_size}"]
        said += [f"num_layers={self.num_layers}"] if self.num_layers != 1 else []
        said += [f"time_major={self.time_major}"] if self.time_major else []
        return ", ".join([*said, *([f"dropout={self.dropout}"] if self.dropout else [])])


class SimpleRNN(RNNBase):
    """Elman network: layers of ``h = tanh(W_ih x + b_ih + W_hh h + b_hh)`` over a sequence, in one or both directions.

    Args:
        input_size: Size of the last axis of the input.
        hidden_size: Size of the hidden state.
        num_layers: Number of layers; each takes the output of the one before. Default: 1.
        direction: ``'forward'``, or ``'bidirect'`` or ``'bidirectional'`` for a second set of cells that runs from the
            end. Default: ``'forward'``.
        time_major: The first axis is that of time, the second that of the batch. Default: False.
        dropout: Probability of dropout between the layers, in training. Default: 0.0.
        activation: ``'tanh'`` or ``'relu'``. Default: ``'tanh'``.
        weight_ih_attr: Attribute of the weights of the input. Default: None, uniform within ``1 / sqrt(hidden_size)``.
        weight_hh_attr: Attribute of the weights of the state. Default: None, uniform within ``1 / sqrt(hidden_size)``.
        bias_ih_attr: Attribute of the bias of the input; ``False`` keeps it at zero. Default: None, uniform within
            ``1 / sqrt(hidden_size)``.
        bias_hh_attr: Attribute of the bias of the state; ``False`` keeps it at zero. Default: None, uniform within
            ``1 / sqrt(hidden_size)``.
        name: Not used; kept for Paddle's signature.

    Shape:
        - inputs: ``[N, T, input_size]``, or ``[T, N, input_size]`` with ``time_major``
        - outputs: the same with ``num_directions * hidden_size`` in the last axis
        - states: ``[num_layers * num_directions, N, hidden_size]``

    Examples:
        >>> y, h = bireme.nn.SimpleRNN(3, 4, num_layers=2)(bireme.ones([2, 5, 3]))
        >>> y.shape, h.shape
        ([2, 5, 4], [2, 2, 4])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        direction: str = "forward",
        time_major: bool = False,
        dropout: float = 0.0,
        activation: str = "tanh",
        weight_ih_attr: Attr = None,
        weight_hh_attr: Attr = None,
        bias_ih_attr: Attr = None,
        bias_hh_attr: Attr = None,
        name: str | None = None,
    ):
        super().__init__(
            simple_mode("SimpleRNN", activation), input_size, hidden_size, num_layers, direction, time_major, dropout,
            weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr,
        )  # fmt: skip
        self.activation = activation


class LSTM(RNNBase):
    """Layers of long short-term memory over a sequence, in one or both directions; see ``LSTMCell``.

    Args:
        input_size: Size of the last axis of the input.
        hidden_size: Size of the hidden state.
        num_layers: Number of layers; each takes the output of the one before. Default: 1.
        direction: ``'forward'``, or ``'bidirect'`` or ``'bidirectional'`` for a second set of cells that runs from the
            end. Default: ``'forward'``.
        time_major: The first axis is that of time, the second that of the batch. Default: False.
        dropout: Probability of dropout between the layers, in training. Default: 0.0.
        weight_ih_attr: Attribute of the weights of the input. Default: None, uniform within ``1 / sqrt(hidden_size)``.
        weight_hh_attr: Attribute of the weights of the state. Default: None, uniform within ``1 / sqrt(hidden_size)``.
        bias_ih_attr: Attribute of the bias of the input; ``False`` keeps it at zero. Default: None, uniform within
            ``1 / sqrt(hidden_size)``.
        bias_hh_attr: Attribute of the bias of the state; ``False`` keeps it at zero. Default: None, uniform within
            ``1 / sqrt(hidden_size)``.
        proj_size: Size that the hidden state is projected to, less than ``hidden_size``. Default: 0, no projection.
        name: Not used; kept for Paddle's signature.

    Shape:
        - inputs: ``[N, T, input_size]``, or ``[T, N, input_size]`` with ``time_major``
        - outputs: the same with ``num_directions`` times ``proj_size`` or ``hidden_size`` in the last axis
        - states: a pair of ``[num_layers * num_directions, N, proj_size or hidden_size]`` and
          ``[num_layers * num_directions, N, hidden_size]``

    Examples:
        >>> y, (h, c) = bireme.nn.LSTM(3, 4, direction="bidirect")(bireme.ones([2, 5, 3]))
        >>> y.shape, h.shape, c.shape
        ([2, 5, 8], [2, 2, 4], [2, 2, 4])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        direction: str = "forward",
        time_major: bool = False,
        dropout: float = 0.0,
        weight_ih_attr: Attr = None,
        weight_hh_attr: Attr = None,
        bias_ih_attr: Attr = None,
        bias_hh_attr: Attr = None,
        proj_size: int = 0,
        name: str | None = None,
    ):
        super().__init__(
            "LSTM", input_size, hidden_size, num_layers, direction, time_major, dropout,
            weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr, proj_size,
        )  # fmt: skip


class GRU(RNNBase):
    """Layers of gated recurrent units over a sequence, in one or both directions; see ``GRUCell``.

    Args:
        input_size: Size of the last axis of the input.
        hidden_size: Size of the hidden state.
        num_layers: Number of layers; each takes the output of the one before. Default: 1.
        direction: ``'forward'``, or ``'bidirect'`` or ``'bidirectional'`` for a second set of cells that runs from the
            end. Default: ``'forward'``.
        time_major: The first axis is that of time, the second that of the batch. Default: False.
        dropout: Probability of dropout between the layers, in training. Default: 0.0.
        weight_ih_attr: Attribute of the weights of the input. Default: None, uniform within ``1 / sqrt(hidden_size)``.
        weight_hh_attr: Attribute of the weights of the state. Default: None, uniform within ``1 / sqrt(hidden_size)``.
        bias_ih_attr: Attribute of the bias of the input; ``False`` keeps it at zero. Default: None, uniform within
            ``1 / sqrt(hidden_size)``.
        bias_hh_attr: Attribute of the bias of the state; ``False`` keeps it at zero. Default: None, uniform within
            ``1 / sqrt(hidden_size)``.
        name: Not used; kept for Paddle's signature.

    Shape:
        - inputs: ``[N, T, input_size]``, or ``[T, N, input_size]`` with ``time_major``
        - outputs: the same with ``num_directions * hidden_size`` in the last axis
        - states: ``[num_layers * num_directions, N, hidden_size]``

    Examples:
        >>> y, h = bireme.nn.GRU(3, 4, time_major=True)(bireme.ones([5, 2, 3]))
        >>> y.shape, h.shape
        ([5, 2, 4], [1, 2, 4])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        direction: str = "forward",
        time_major: bool = False,
        dropout: float = 0.0,
        weight_ih_attr: Attr = None,
        weight_hh_attr: Attr = None,
        bias_ih_attr: Attr = None,
        bias_hh_attr: Attr = None,
        name: str | None = None,
    ):
        super().__init__(
            "GRU", input_size, hidden_size, num_layers, direction, time_major, dropout,
            weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr,
        )  # fmt: skip
