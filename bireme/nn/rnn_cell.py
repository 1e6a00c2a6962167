"""Recurrent cells: layers that compute one time step."""

from __future__ import annotations

from typing import Any

from bireme import defaults
from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn.arguments import Attr, DTypeLike, must_be_positive
from bireme.nn.initializer import Constant, Uniform
from bireme.nn.layer import Layer
from bireme.ops import full
from bireme.ops.nn.recurrent import GATES, recurrence


def _is_shape(tree: Any) -> bool:
    return isinstance(tree, (list, tuple)) and all(isinstance(n, int) for n in tree)


class RNNCellBase(Layer):
    """Base of cells: layers that compute one time step, ``cell(inputs, states)`` to ``(output, new states)``.

    A subclass defines ``forward`` and the property ``state_shape``.

    Args:
        name_scope: Prefix of the layer's unique name. Default: None, the name of the class in snake case.
        dtype: Data type of the layer. Default: ``'float32'``.

    Examples:
        >>> class Sum(bireme.nn.RNNCellBase):
        ...     state_shape = (1,)
        ...     def forward(self, inputs, states):
        ...         return inputs + states, inputs + states
        >>> bireme.nn.RNN(Sum())(bireme.to_tensor([[[1.0], [2.0], [3.0]]]))[0].tolist()
        [[[1.0], [3.0], [6.0]]]
    """

    def get_initial_states(
        self,
        batch_ref: Any,
        shape: Any = None,
        dtype: DTypeLike | None = None,
        init_value: float = 0.0,
        batch_dim_idx: int = 0,
    ) -> Any:
        """Create states filled with one number, for as many samples as a batch has.

        Args:
            batch_ref: Tensor whose axis ``batch_dim_idx`` is the batch; of nested lists the first tensor is taken.
            shape: Shape of the states without the batch, or nested lists of them. Default: None, ``state_shape``.
            dtype: Data type of the states, or nested lists of them. Default: None, ``state_dtype``.
            init_value: The number. Default: 0.0.
            batch_dim_idx: Axis of the batch. Default: 0.

        Returns:
            Tensor, or nested lists of tensors in the structure of ``shape``.

        Examples:
            >>> bireme.nn.GRUCell(2, 3).get_initial_states(bireme.ones([1, 2]), init_value=0.5).tolist()
            [[0.5, 0.5, 0.5]]
        """
        while isinstance(batch_ref, (list, tuple)):
            batch_ref = batch_ref[0]
        batch = batch_ref.shape[batch_dim_idx]
        shape = self.state_shape if shape is None else shape
        dtype = self.state_dtype if dtype is None else dtype

        def filled(shape: Any, dtype: Any) -> Any:
            if not _is_shape(shape):
                kinds = dtype if isinstance(dtype, (list, tuple)) else [dtype] * len(shape)
                return type(shape)([filled(s, d) for s, d in zip(shape, kinds, strict=True)])
            sizes = list(shape[1:]) if shape and shape[0] == -1 else list(shape)  # a leading -1 is the batch
            return full([batch, *sizes], init_value, dtype)

        return filled(shape, dtype)

    @property
    def state_shape(self) -> Any:
        """Shapes of the states without the batch; to be defined by each cell."""
        raise errors.missing_method(self, "state_shape")

    @property
    def state_dtype(self) -> Any:
        """Data types of the states: the default data type, unless a cell overrides it."""
        return defaults.get_default_dtype()


class Cell(RNNCellBase):
    """What the three cells share: weights of the input and of the state, with as many rows as gates times units."""

    def __init__(self, mode: str, input_size: int, hidden_size: int, attrs: tuple, proj_size: int = 0):
        super().__init__()
        name, proj_size = type(self).__name__, proj_size or 0
        must_be_positive(name, input_size=input_size, hidden_size=hidden_size)
        if proj_size < 0 or (proj_size and proj_size >= hidden_size):
            raise errors.bad(
                f"{name}(proj_size)", f"a non-negative integer less than hidden_size = {hidden_size}", proj_size
            )
        self.input_size, self.hidden_size, self.proj_size, self._mode = input_size, hidden_size, proj_size, mode
        rows, self._bound = GATES[mode] * hidden_size, hidden_size**-0.5
        self.weight_ih = self._weight([rows, input_size], attrs[0])
        self.weight_hh = self._weight([rows, proj_size or hidden_size], attrs[1])
        self.bias_ih = self._weight([rows], attrs[2], is_bias=True)
        self.bias_hh = self._weight([rows], attrs[3], is_bias=True)
        if proj_size:
            self.weight_ho = self._weight([hidden_size, proj_size], attrs[1])

    def _weight(self, shape: list[int], attr: Any, is_bias: bool = False) -> Any:
        if attr is not False:
            return self.create_parameter(
                shape, attr, is_bias=is_bias, default_initializer=Uniform(-self._bound, self._bound)
            )
        # Paddle keeps what is switched off as constants, so that state dicts have it
        made = self.create_parameter(
            shape, None, is_bias=is_bias, default_initializer=Constant(0.0 if is_bias else 1.0)
        )
        made.stop_gradient = True
        return made

    @property
    def state_shape(self) -> Any:
        return (self.hidden_size,)

    def run(
        self, inputs: Tensor, states: Any, lengths: Tensor | None = None, told: str | None = None, **options: Any
    ) -> tuple[Tensor, ...]:
        """Run the cell's operator over one time step or a whole sequence.

        Args:
            inputs: Tensor ``[N, input_size]`` for one time step, or ``[N, T, input_size]``.
            states: The states to start from.
            lengths: Number of time steps of each sample. Default: None, all.
            told: The layer that errors are told by. Default: None, the cell.
            **options: ``reverse``, ``time_major`` and ``masked`` of the operator.

        Returns:
            A tuple: for a time step the new states, for a sequence its outputs and the final states.
        """
        told = told or type(self).__name__
        h, c = pair(told, states) if self._mode == "LSTM" else (states, None)
        projection = self.weight_ho if self.proj_size else None
        weights = self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh, projection
        try:
            return recurrence(inputs, h, c, *weights, lengths, self._mode, **options)
        except errors.TELLING as e:
            raise errors.renamed(e, told, ("inputs", "states"))  # noqa: B904  # the same error, of this layer

    def forward(self, inputs: Tensor, states: Any = None) -> tuple[Tensor, Any]:
        """Compute one time step.

        Args:
            inputs: Tensor ``[N, input_size]``.
            states: The states before it: a tensor ``[N, hidden_size]``, for an LSTM a pair of hidden and cell state.
                Default: None, zeros.

        Returns:
            A tuple (output, new states).
        """
        if not isinstance(inputs, Tensor):
            raise errors.bad(f"{type(self).__name__}(inputs)", "a Tensor", inputs, kind=errors.NotATensorError)
        if inputs.ndim != 2:
            raise errors.bad(
                f"{type(self).__name__}(inputs)",
                f"shape [batch, {self.input_size}]",
                described=f"shape {inputs.shape}",
                kind=errors.ShapeError,
            )
        states = self.get_initial_states(inputs, self.state_shape, inputs.dtype) if states is None else states
        made = self.run(inputs, states)
        return made[0], made if self._mode == "LSTM" else made[0]

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"


def pair(name: str, states: Any) -> tuple[Tensor, Tensor]:
    if not isinstance(states, (list, tuple)) or len(states) != 2:
        raise errors.bad(f"{name}(states)", "a hidden and a cell state", states)
    return states[0], states[1]


class SimpleRNNCell(Cell):
    """One time step of an Elman network: ``h = tanh(weight_ih @ x + bias_ih + weight_hh @ h + bias_hh)``.

    Args:
        input_size: Size of the input.
        hidden_size: Size of the hidden state.
        activation: ``'tanh'`` or ``'relu'``. Default: ``'tanh'``.
        weight_ih_attr: Attribute of the weights of the input. Default: None, uniform within ``1 / sqrt(hidden_size)``.
        weight_hh_attr: Attribute of the weights of the state. Default: None, uniform within ``1 / sqrt(hidden_size)``.
        bias_ih_attr: Attribute of the bias of the input; ``False`` keeps it at zero. Default: None, uniform within
            ``1 / sqrt(hidden_size)``.
        bias_hh_attr: Attribute of the bias of the state; ``False`` keeps it at zero. Default: None, uniform within
            ``1 / sqrt(hidden_size)``.
        name: Not used; kept for Paddle's signature.

    Shape:
        - inputs: ``[N, input_size]``
        - states: ``[N, hidden_size]``
        - output: ``[N, hidden_size]``

    Examples:
        >>> one = bireme.nn.initializer.Constant(1.0)
        >>> cell = bireme.nn.SimpleRNNCell(1, 1, "relu", one, one, one, one)
        >>> cell(bireme.to_tensor([[2.0]]), bireme.to_tensor([[3.0]]))[0].tolist()
        [[7.0]]
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        activation: str = "tanh",
        weight_ih_attr: Attr = None,
        weight_hh_attr: Attr = None,
        bias_ih_attr: Attr = None,
        bias_hh_attr: Attr = None,
        name: str | None = None,
    ):
        mode = simple_mode("SimpleRNNCell", activation)
        super().__init__(mode, input_size, hidden_size, (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr))
        self.activation = activation

    def extra_repr(self) -> str:
        return super().extra_repr() + ("" if self.activation == "tanh" else f", activation={self.activation}")


def simple_mode(name: str, activation: str) -> str:
    if activation not in ("tanh", "relu"):
        raise errors.bad(f"{name}(activation)", "'tanh' or 'relu'", activation)
    return f"RNN_{activation.upper()}"


class LSTMCell(Cell):
    """One time step of long short-term memory.

    The rows of the weights are those of the gates ``i``, ``f``, ``g``, ``o``:
    ``c = sigmoid(f) * c + sigmoid(i) * tanh(g)`` and ``h = sigmoid(o) * tanh(c)``.

    Args:
        input_size: Size of the input.
        hidden_size: Size of the cell state, and of the hidden state without projection.
        weight_ih_attr: Attribute of the weights of the input. Default: None, uniform within ``1 / sqrt(hidden_size)``.
        weight_hh_attr: Attribute of the weights of the state. Default: None, uniform within ``1 / sqrt(hidden_size)``.
        bias_ih_attr: Attribute of the bias of the input; ``False`` keeps it at zero. Default: None, uniform within
            ``1 / sqrt(hidden_size)``.
        bias_hh_attr: Attribute of the bias of the state; ``False`` keeps it at zero. Default: None, uniform within
            ``1 / sqrt(hidden_size)``.
        proj_size: Size that the hidden state is projected to, less than ``hidden_size``. Default: 0, no projection.
        name: Not used; kept for Paddle's signature.

    Shape:
        - inputs: ``[N, input_size]``
        - states: a pair of ``[N, proj_size or hidden_size]`` and ``[N, hidden_size]``
        - output: ``[N, proj_size or hidden_size]``

    Examples:
        >>> y, (h, c) = bireme.nn.LSTMCell(3, 4)(bireme.ones([2, 3]))
        >>> y.shape, h.shape, c.shape
        ([2, 4], [2, 4], [2, 4])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        weight_ih_attr: Attr = None,
        weight_hh_attr: Attr = None,
        bias_ih_attr: Attr = None,
        bias_hh_attr: Attr = None,
        proj_size: int = 0,
        name: str | None = None,
    ):
        super().__init__(
            "LSTM", input_size, hidden_size, (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr), proj_size
        )

    @property
    def state_shape(self) -> Any:
        """Shapes of hidden and cell state without the batch."""
        return ((self.proj_size or self.hidden_size,), (self.hidden_size,))


class GRUCell(Cell):
    """One time step of a gated recurrent unit.

    The rows of the weights are those of ``r``, ``z`` and ``c``: ``h = z * h + (1 - z) * tanh(c_x + r * c_h)`` with the
    sigmoids ``r`` and ``z``. The reset gate multiplies the product of the state, with its bias, not the state.

    Args:
        input_size: Size of the input.
        hidden_size: Size of the hidden state.
        weight_ih_attr: Attribute of the weights of the input. Default: None, uniform within ``1 / sqrt(hidden_size)``.
        weight_hh_attr: Attribute of the weights of the state. Default: None, uniform within ``1 / sqrt(hidden_size)``.
        bias_ih_attr: Attribute of the bias of the input; ``False`` keeps it at zero. Default: None, uniform within
            ``1 / sqrt(hidden_size)``.
        bias_hh_attr: Attribute of the bias of the state; ``False`` keeps it at zero. Default: None, uniform within
            ``1 / sqrt(hidden_size)``.
        name: Not used; kept for Paddle's signature.

    Shape:
        - inputs: ``[N, input_size]``
        - states: ``[N, hidden_size]``
        - output: ``[N, hidden_size]``

    Examples:
        >>> y, h = bireme.nn.GRUCell(3, 4)(bireme.ones([2, 3]))
        >>> y.shape, h.shape
        ([2, 4], [2, 4])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        weight_ih_attr: Attr = None,
        weight_hh_attr: Attr = None,
        bias_ih_attr: Attr = None,
        bias_hh_attr: Attr = None,
        name: str | None = None,
    ):
        super().__init__("GRU", input_size, hidden_size, (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr))
