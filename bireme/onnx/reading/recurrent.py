"""Meanings of recurrent nodes: RNN, GRU and LSTM, in both directions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bireme import ops
from bireme.onnx.reading.table import MEANINGS, Node
from bireme.ops.nn.recurrent import recurrence

ACTIVATIONS: dict[str, Callable] = {
    "Sigmoid": lambda x, a, b: ops.sigmoid(x),
    "Tanh": lambda x, a, b: ops.tanh(x),
    "Relu": lambda x, a, b: ops.relu(x),
    "Affine": lambda x, a, b: x * (1.0 if a is None else a) + (0.0 if b is None else b),
    "LeakyRelu": lambda x, a, b: ops.leaky_relu(x, 0.01 if a is None else a),
    "ThresholdedRelu": lambda x, a, b: ops.where(x > (1.0 if a is None else a), x, ops.zeros_like(x)),
    "ScaledTanh": lambda x, a, b: (1.0 if a is None else a) * ops.tanh((1.0 if b is None else b) * x),
    "HardSigmoid": lambda x, a, b: ops.clip((0.2 if a is None else a) * x + (0.5 if b is None else b), 0.0, 1.0),
    "Elu": lambda x, a, b: ops.elu(x, 1.0 if a is None else a),
    "Softsign": lambda x, a, b: ops.softsign(x),
    "Softplus": lambda x, a, b: ops.softplus(x),
}
USUAL = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
ORDER = {"RNN": (0,), "GRU": (1, 0, 2), "LSTM": (0, 2, 3, 1)}  # of our gates among those of ONNX
MODES = {"RNN": "RNN_TANH", "GRU": "GRU", "LSTM": "LSTM"}


def _turned(x: Any, order: tuple[int, ...]) -> Any:
    parts = ops.split(x, len(order), axis=0)
    return ops.concat([parts[i] for i in order], axis=0) if len(order) > 1 else x


def _activation(name: str, a: float | None, b: float | None) -> Callable:
    return lambda x: ACTIVATIONS[name](x, a, b)


class _Direction:
    """One direction of a node: its weights and activations."""

    def __init__(self, n: Node, kind: str, at: int, weights: tuple, bias: Any, peep: Any):
        self.n, self.kind, count = n, kind, len(USUAL[kind])
        self.w, self.r = weights[0][at], weights[1][at]
        self.units = self.r.shape[-1]
        size = GATES[kind] * self.units
        self.b = (None, None) if bias is None else (bias[at][:size], bias[at][size:])
        self.peep = None if peep is None else ops.split(peep[at], 3, axis=0)
        names = n.attr("activations") or USUAL[kind] * 2
        alphas, betas = n.attr("activation_alpha") or [], n.attr("activation_beta") or []
        first = at * count
        self.names = names[first : first + count]
        if any(name not in ACTIVATIONS for name in self.names) or len(self.names) != count:
            raise n.bad("activations that are known", str(names))
        self.act = [
            _activation(name, dict(enumerate(alphas)).get(first + i), dict(enumerate(betas)).get(first + i))
            for i, name in enumerate(self.names)
        ]

    @property
    def usual(self) -> bool:
        n = self.n
        linear = self.kind != "GRU" or n.attr("linear_before_reset", 0)
        return (
            self.names == USUAL[self.kind] and self.peep is None and n.attr("clip") is None
            and not n.attr("input_forget", 0) and bool(linear)
        )  # fmt: skip

    def run(self, x: Any, lengths: Any, h: Any, c: Any, reverse: bool) -> tuple:
        """Outputs by step, and the last states."""
        if self.usual:
            order = ORDER[self.kind]
            given: Any = [_turned(v, order) if v is not None else None for v in (self.w, self.r, *self.b)]
            w, r, bi, bh = given
            return tuple(recurrence(x, h, c, w, r, bi, bh, None, lengths, MODES[self.kind], reverse, True))
        outs, steps = [], range(x.shape[0])
        for t in reversed(steps) if reverse else steps:
            new = getattr(self, self.kind.lower())(x[t], h, c)
            if lengths is not None:
                inside = ops.unsqueeze(lengths > t, -1)
                out = ops.where(inside, new[0], ops.zeros_like(new[0]))
                new = [ops.where(inside, a, b) for a, b in zip(new, (h, c))]
            else:
                out = new[0]
            outs.append(out)
            h, c = new[0], new[1] if len(new) > 1 else None
        return (
            (ops.stack(outs[::-1] if reverse else outs), h)
            if c is None
            else (ops.stack(outs[::-1] if reverse else outs), h, c)
        )

    def _parts(self, x: Any, h: Any) -> tuple[Any, Any]:
        given, own = ops.matmul(x, self.w, transpose_y=True), ops.matmul(h, self.r, transpose_y=True)
        return (given, own) if self.b[0] is None else (given + self.b[0], own + self.b[1])

    def _clip(self, x: Any) -> Any:
        limit = self.n.attr("clip")
        return x if limit is None else ops.clip(x, -limit, limit)

    def rnn(self, x: Any, h: Any, c: Any) -> list:
        given, own = self._parts(x, h)
        return [self.act[0](self._clip(given + own))]

    def gru(self, x: Any, h: Any, c: Any) -> list:
        given, own = self._parts(x, h)
        (xz, xr, xh), (hz, hr, hh) = ops.split(given, 3, axis=-1), ops.split(own, 3, axis=-1)
        z, r = self.act[0](self._clip(xz + hz)), self.act[0](self._clip(xr + hr))
        if self.n.attr("linear_before_reset", 0):
            new = self.act[1](self._clip(xh + r * hh))
        else:
            part = ops.matmul(r * h, ops.split(self.r, 3, axis=0)[2], transpose_y=True)
            if self.b[1] is not None:
                part = part + ops.split(self.b[1], 3, axis=0)[2]
            new = self.act[1](self._clip(xh + part))
        return [(1 - z) * new + z * h]

    def lstm(self, x: Any, h: Any, c: Any) -> list:
        given, own = self._parts(x, h)
        i, o, f, g = ops.split(given + own, 4, axis=-1)
        if self.peep is not None:
            i, f = i + self.peep[0] * c, f + self.peep[2] * c
        i, f = self.act[0](self._clip(i)), self.act[0](self._clip(f))
        f = 1 - i if self.n.attr("input_forget", 0) else f
        new = f * c + i * self.act[1](self._clip(g))
        if self.peep is not None:
            o = o + self.peep[1] * new
        return [self.act[0](self._clip(o)) * self.act[2](new), new]


def _meaning(kind: str) -> Callable:
    def meaning(n: Node, x: Any, w: Any, r: Any, bias: Any = None, lengths: Any = None, h: Any = None, c: Any = None,
                peep: Any = None) -> list:  # fmt: skip
        if n.attr("layout", 0):
            x = ops.transpose(x, [1, 0, 2])
            h, c = (None if v is None else ops.transpose(v, [1, 0, 2]) for v in (h, c))
        ways = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[n.attr("direction", "forward")]
        zeros = ops.zeros([len(ways), x.shape[1], r.shape[-1]], x.dtype)
        h = zeros if h is None else h
        c = (zeros if c is None else c) if kind == "LSTM" else None
        made = []
        for at, reverse in enumerate(ways):
            one = _Direction(n, kind, at, (w, r), bias, peep)
            made.append(one.run(x, lengths, h[at], None if c is None else c[at], reverse))
        outs = ops.stack([m[0] for m in made], axis=1)
        states = [ops.stack([m[i] for m in made]) for i in range(1, len(made[0]))]
        if n.attr("layout", 0):
            return [ops.transpose(outs, [2, 0, 1, 3]), *[ops.transpose(s, [1, 0, 2]) for s in states]]
        return [outs, *states]

    return meaning


for _kind in USUAL:
    MEANINGS[_kind] = _meaning(_kind)
