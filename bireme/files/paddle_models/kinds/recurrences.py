"""Kinds of recurrent networks and sequences."""

from __future__ import annotations

from typing import Any

from bireme import tensor
from bireme.core.base.errors import FileFormatError
from bireme.core.tensor.tensor import Tensor
from bireme.files.paddle_models import sequences
from bireme.files.paddle_models.kinds.table import kind
from bireme.nn import functional
from bireme.ops.nn.recurrent import recurrence


@kind("rnn", "x pre_state:list weight_list:list sequence_length dropout_state_in")
def _rnn(
    x: Tensor,
    pre_state: list[Tensor],
    weight_list: list[Tensor],
    sequence_length: Tensor | None = None,
    dropout_state_in: Any = None,
    dropout_prob: float = 0.0,
    is_bidirec: bool = False,
    input_size: int = 10,
    hidden_size: int = 100,
    num_layers: int = 1,
    mode: str = "RNN_TANH",
    is_test: bool = True,
) -> Any:
    ways, lstm = 1 + is_bidirec, mode == "LSTM"
    count = num_layers * ways
    if len(pre_state) != 1 + lstm or len(weight_list) not in (2 * count, 4 * count):
        raise FileFormatError(f"a recurrent network of {num_layers} layers with {len(weight_list)} weights")
    biases: list[Any] = [*weight_list[2 * count :]] or [None] * (2 * count)
    first = [tensor.unbind(s) for s in pre_state]
    last: list[list[Tensor]] = [[] for _ in pre_state]
    for at in range(num_layers):
        outs = []
        for way in range(ways):
            i = at * ways + way
            states = [s[i] for s in first]
            out, *ends = recurrence(
                x, states[0], states[1] if lstm else None, weight_list[2 * i], weight_list[2 * i + 1], biases[2 * i],
                biases[2 * i + 1], None, sequence_length, mode, way == 1, True,
            )  # fmt: skip
            outs.append(out)
            for into, end in zip(last, ends, strict=True):
                into.append(end)
        x = outs[0] if ways == 1 else tensor.concat(outs, -1)
        if not is_test and dropout_prob and at + 1 < num_layers:
            x = functional.dropout(x, dropout_prob)
    return x, None, [tensor.stack(each) for each in last], None


@kind("gru", "input h0 weight bias lengths")
def _gru(
    input: Tensor,
    h0: Any,
    weight: Tensor,
    bias: Any,
    lengths: Tensor,
    activation: str = "tanh",
    gate_activation: str = "sigmoid",
    is_reverse: bool = False,
    origin_mode: bool = False,
) -> Any:
    if activation != "tanh" or gate_activation != "sigmoid":
        raise FileFormatError(f"a gru with the activations {activation[:30]!r} and {gate_activation[:30]!r}")
    return None, None, None, sequences.gru(input, h0, weight, bias, lengths, is_reverse, origin_mode)


@kind("crf_decoding", "emission transition label length lengths")
def _crf_decoding(emission: Tensor, transition: Tensor, label: Any, length: Any, lengths: Any) -> Tensor:
    if label is not None:
        raise FileFormatError("crf_decoding that compares with labels")
    return sequences.crf_decoding(emission, transition, length if lengths is None else lengths)


@kind("sequence_pool", "x lengths")
def _sequence_pool(x: Tensor, lengths: Tensor, pooltype: str = "AVERAGE", pad_value: float = 0.0) -> Tensor:
    return sequences.pool(x, lengths, pooltype)
