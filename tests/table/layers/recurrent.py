"""Rows of recurrent layers: cells, loops over cells, stacks."""

import numpy as np

import bireme
from tests.table.harness import Bad, call
from tests.table.layer_harness import LayerRow
from tests.table.nn.recurrent import recurrence, step


def _names(gates, width=3, end="", prefix=""):
    rows = 4 * gates
    shapes = {"weight_ih": (rows, width), "weight_hh": (rows, 4), "bias_ih": (rows,), "bias_hh": (rows,)}
    return {prefix + n + end: s for n, s in shapes.items()}


def _weights(p, end="", prefix=""):
    return [p[prefix + n + end] for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]


def _cell(mode):
    def ref(x, states=None, **p):
        zeros = np.zeros((len(x), 4))
        h, c = states if isinstance(states, tuple) else (zeros if states is None else states, zeros)
        made = step(mode, x, h, c, *_weights(p))
        return [made[0], *made]

    return ref


def _over(mode, x, weights, states=None, lengths=None, **options):
    h = np.zeros((x.shape[0], 4)) if states is None else states
    return recurrence(x, h, np.zeros_like(h) if mode == "LSTM" else None, *weights, None, lengths, mode, **options)


def _birnn(x, **p):
    ahead = _over("RNN_TANH", x, _weights(p, prefix="cell_fw_"))
    back = _over("RNN_TANH", x, _weights(p, prefix="cell_bw_"), reverse=True)
    return np.concatenate([ahead[0], back[0]], -1), ahead[1], back[1]


def _stack(mode, layers=1, ends=("",)):
    def ref(x, initial_states=None, sequence_length=None, **p):
        last, count = [], 0
        for n in range(layers):
            outs = []
            for end in ends:
                h = None if initial_states is None else initial_states[count]
                out, *states = _over(mode, x, _weights(p, f"_l{n}{end}"), h, sequence_length, reverse=bool(end))
                outs.append(out)
                last.append(states)
                count += 1
            x = np.concatenate(outs, -1)
        return [x, *[np.stack(s) for s in zip(*last, strict=True)]]

    return ref


class _Twice(bireme.nn.RNNCellBase):
    """A cell of one's own: adds up twice what it sees."""

    state_shape = (3,)

    def __init__(self):
        super().__init__()
        self.factor = self.create_parameter([1], default_initializer=bireme.nn.initializer.Constant(2.0))

    def forward(self, inputs, states):
        states = states + inputs * self.factor
        return states, states


_rng = np.random.default_rng(0)
_x = _rng.standard_normal((2, 3, 3))
_both = ("", "_reverse")
_wrong = "expected shape [batch, 3], got shape [2, 5, 3]"

LAYERS = [
    LayerRow("RNNCellBase", make=lambda: _Twice(), inputs=[call(_x[0], _x[1])], params={"factor": (1,)},
        ref=lambda x, h, factor: (h + 2 * x, h + 2 * x),
        bad=[Bad(call(np.ones((2, 5)), np.ones((2, 3))), "add(): expected shapes that broadcast together, got shapes [2, 3] and [2, 5]")]),
    LayerRow("SimpleRNNCell", call(3, 4, "relu"), [(2, 3)], _names(1), _cell("RNN_RELU"), modes=("train",),
        bad=[Bad(call(np.ones((2, 5, 3))), _wrong)],
        bad_init=[Bad(call(3, 4, "gelu"), "SimpleRNNCell(activation): expected 'tanh' or 'relu', got 'gelu'"),
                  Bad(call(3, 0), "SimpleRNNCell(hidden_size): expected a positive integer, got 0")]),
    LayerRow("LSTMCell", call(3, 4), [(2, 3)], _names(4), _cell("LSTM"), modes=("train",),
        bad=[Bad(call(np.ones((2, 3)), np.ones((2, 4))), "LSTMCell(states): expected a hidden and a cell state, got a Tensor of shape [2")],
        bad_init=[Bad(call(3, 4, proj_size=4), "LSTMCell(proj_size): expected a non-negative integer less than hidden_size = 4, got 4")]),
    LayerRow("GRUCell", call(3, 4), [call(_x[0], np.ones((3, 4)))], _names(3), _cell("GRU"), modes=("train",)),
    LayerRow("RNN", make=lambda: bireme.nn.RNN(_Twice(), is_reverse=True), inputs=[(2, 3, 3)], params={"cell.factor": (1,)},
        ref=lambda x: (2 * x[:, ::-1].cumsum(1)[:, ::-1], 2 * x.sum(1)), modes=("train",),
        bad=[Bad(call(np.ones(3)), "RNN(inputs): expected a batch and a time dimension, got shape [3]")]),
    LayerRow("BiRNN", make=lambda: bireme.nn.BiRNN(bireme.nn.SimpleRNNCell(3, 4), bireme.nn.SimpleRNNCell(3, 4)), inputs=[(2, 3, 3)],
        params={**_names(1, prefix="cell_fw."), **_names(1, prefix="cell_bw.")}, ref=_birnn, modes=("train",),
        bad=[Bad(call(_x, _x), "BiRNN(initial_states): expected a pair: forward and backward")]),
    LayerRow("SimpleRNN", call(3, 4, 2), [call(_x, initial_states=_rng.standard_normal((2, 2, 4)))],
        {**_names(1, end="_l0"), **_names(1, 4, "_l1")}, _stack("RNN_TANH", 2), modes=("train",),
        bad=[Bad(call(np.ones((2, 3))), "SimpleRNN(inputs): expected shape [batch, steps, 3], got shape [2, 3]"),
             Bad(call(_x, np.ones((1, 2, 4))), "SimpleRNN(initial_states): expected shape [2, 2, 4], got shape [1, 2, 4]")],
        bad_init=[Bad(call(3, 4, activation="gelu"), "SimpleRNN(activation): expected 'tanh' or 'relu', got 'gelu'")]),
    LayerRow("LSTM", call(3, 4, direction="bidirect"), [(2, 3, 3)], {**_names(4, end="_l0"), **_names(4, end="_l0_reverse")},
        _stack("LSTM", 1, _both), modes=("train",),
        bad=[Bad(call(_x, np.ones((2, 2, 4))), "LSTM(states): expected a hidden and a cell state, got a Tensor of shape [2")],
        bad_init=[Bad(call(3, 4, direction="back"), "LSTM(direction): expected 'forward', 'bidirect' or 'bidirectional', got 'back'")]),
    LayerRow("GRU", call(3, 4), [call(_x, sequence_length=np.array([3, 1]))], _names(3, end="_l0"), _stack("GRU"), modes=("train",),
        bad=[Bad(call(np.ones((2, 3, 5))), "GRU(inputs): expected shape [batch, 3]")]),
]  # fmt: skip
