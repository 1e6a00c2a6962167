"""Cells: recurrent layers that make one step."""

from __future__ import annotations

from typing import Any

from bireme import defaults
from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn.initializer import Constant, Uniform
from bireme.nn.layer import Layer
from bireme.ops import full
from bireme.ops.nn.recurrent import GATES, recurrence


def _is_shape(tree: Any) -> bool:
    return isinstance(tree, (list, tuple)) and all(isinstance(n, int) for n in tree)


class RNNCellBase(Layer):
    """Base of cells: layers that take an input and states and return an output and new states.

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
        dtype: Any = None,
        init_value: float = 0.0,
        batch_dim_idx: int = 0,
    ) -> Any:
        """States filled with one number for as many samples as `batch_ref` has along `batch_dim_idx`.

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
            sizes = list(shape[1:]) if shape and shape[0] == -1 else list(shape)  # -1 in front stands for the samples
            return full([batch, *sizes], init_value, dtype)

        return filled(shape, dtype)

    @property
    def state_shape(self) -> Any:
        """Shapes of the states without the axis of samples; written by each cell."""
        raise NotImplementedError(f"{type(self).__name__}.state_shape: not written")

    @property
    def state_dtype(self) -> Any:
        """Types of the states: the default type, unless a cell says otherwise."""
        return defaults.get_default_dtype()


class Cell(RNNCellBase):
    """What the three cells have in common: weights for the input and for the state, with as many rows as gates times units."""

    def __init__(self, mode: str, input_size: int, hidden_size: int, attrs: tuple, proj_size: int = 0):
        super().__init__()
        name, proj_size = type(self).__name__, proj_size or 0
        if hidden_size <= 0:
            raise errors.bad(f"{name}(hidden_size)", "a size greater than 0", hidden_size)
        if proj_size < 0 or (proj_size and proj_size >= hidden_size):
            raise errors.bad(f"{name}(proj_size)", f"a size smaller than hidden_size, which is {hidden_size}", proj_size)
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
            return self.create_parameter(shape, attr, is_bias=is_bias, default_initializer=Uniform(-self._bound, self._bound))
        # Paddle keeps what is switched off as constants, so that it has its place in a state dict
        made = self.create_parameter(shape, None, is_bias=is_bias, default_initializer=Constant(0.0 if is_bias else 1.0))
        made.stop_gradient = True
        return made

    @property
    def state_shape(self) -> Any:
        return (self.hidden_size,)

    def run(self, inputs: Tensor, states: Any, lengths: Tensor | None = None, **options: Any) -> tuple[Tensor, ...]:
        """The operator with this cell's parameters."""
        h, c = pair(type(self).__name__, states) if self._mode == "LSTM" else (states, None)
        projection = self.weight_ho if self.proj_size else None
        return recurrence(inputs, h, c, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh, projection, lengths, self._mode, **options)

    def forward(self, inputs: Tensor, states: Any = None) -> tuple[Tensor, Any]:
        if not isinstance(inputs, Tensor):
            raise errors.bad(f"{type(self).__name__}(inputs)", "a Tensor", inputs, kind=TypeError)
        if inputs.ndim != 2:
            raise errors.bad(f"{type(self).__name__}(inputs)", f"shape [batch, {self.input_size}]", f"shape {inputs.shape}")
        states = self.get_initial_states(inputs, self.state_shape, inputs.dtype) if states is None else states
        made = self.run(inputs, states)
        return made[0], made if self._mode == "LSTM" else made[0]

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"


def pair(name: str, states: Any) -> tuple[Tensor, Tensor]:
    if not isinstance(states, (list, tuple)) or len(states) != 2:
        raise errors.bad(f"{name}(states)", "a hidden and a cell state", "one tensor" if isinstance(states, Tensor) else states)
    return states[0], states[1]


class SimpleRNNCell(Cell):
    """One step of `tanh(x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh)`, or with relu.

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
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
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
    """One step of a long short-term memory: returns the output and the pair of hidden and cell state.

    >>> y, (h, c) = bireme.nn.LSTMCell(3, 4)(bireme.ones([2, 3]))
    >>> y.shape, h.shape, c.shape
    ([2, 4], [2, 4], [2, 4])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        proj_size: int = 0,
        name: str | None = None,
    ):
        super().__init__("LSTM", input_size, hidden_size, (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr), proj_size)

    @property
    def state_shape(self) -> Any:
        return ((self.proj_size or self.hidden_size,), (self.hidden_size,))


class GRUCell(Cell):
    """One step of a gated recurrent unit; its reset gate multiplies the state's product, not the state.

    >>> y, h = bireme.nn.GRUCell(3, 4)(bireme.ones([2, 3]))
    >>> y.shape, h.shape
    ([2, 4], [2, 4])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
    ):
        super().__init__("GRU", input_size, hidden_size, (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr))
