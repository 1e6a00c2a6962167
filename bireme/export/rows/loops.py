"""Recurrent layers, loops over rows, and running sums."""

from __future__ import annotations

import numpy as np

from bireme.export.graph import Call, Scan, Value
from bireme.export.place import C_TYPES, DEPTH, TILE, WIDE, Place, given, refuse, row

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_USUAL = {"RNN": [b"Tanh"], "GRU": [b"Sigmoid", b"Tanh"], "LSTM": [b"Sigmoid", b"Tanh", b"Tanh"]}


@row("RNN", "GRU", "LSTM")
def _(place: Place, call: Call) -> None:
    x, weight, own = call.inputs[:3]
    bias, lengths, h, c = (given(call, i) for i in (3, 4, 5, 6))
    assert x is not None and weight is not None and own is not None
    gates, directions = _GATES[call.op], weight.shape[0]
    acts = call.attributes.get("activations", _USUAL[call.op] * directions)
    plain = call.op == "RNN" and all(a in (b"Tanh", b"Relu") for a in acts)
    if not plain and acts != _USUAL[call.op] * directions:
        raise refuse(call, "other activations")
    if given(call, 7) is not None or any(call.attributes.get(k) for k in ("clip", "layout", "input_forget")):
        raise refuse(call, "peepholes, clipping or the batch first")
    if len(call.outputs) not in (1, 2 + (call.op == "LSTM")) or len(call.outputs[0].shape) != 4:
        raise refuse(call, "some of its states left out")
    steps, batch, inputs = x.shape
    units = own.shape[2]
    wide, state = gates * units, batch * units
    way = call.attributes.get("direction", b"forward")
    place.needs("recurrent")
    rows = steps * batch
    tall = -(-rows // TILE) * TILE * DEPTH + DEPTH * WIDE
    place.floats(rows * wide + wide + tall + 2 * state)
    names = [place.name_of(v) if v is not None else "NULL" for v in (x, weight, own, bias)]
    outputs = [place.name_of(v) for v in call.outputs]
    for d in range(directions):
        # states end in the outputs, where these are asked for
        kept = [f"scratch + {rows * wide + wide + tall + i * state}" for i in range(2)]
        for i, name in enumerate(outputs[1:]):
            kept[i] = f"{name} + {d * state}"
        for held, begin in zip(kept, (h, c)[: 1 + (call.op == "LSTM")], strict=False):
            source = (
                f"memcpy({held}, {place.name_of(begin)} + {d * state}" if begin is not None else f"memset({held}, 0"
            )
            place.write(f"{source}, {4 * state});")
        reverse = int(way == b"reverse" or d == 1)
        given_bias = f"{names[3]} + {d * 2 * wide}" if bias is not None else "NULL"
        act = "BM_RELU" if acts[min(d, len(acts) - 1)] == b"Relu" else "BM_TANH"
        kind = {"RNN": "BM_PLAIN", "GRU": "BM_GRU", "LSTM": "BM_LSTM"}[call.op]
        place.write(
            f"bm_recurrent({names[0]}, {names[1]} + {d * wide * inputs}, {names[2]} + {d * wide * units}, {given_bias}, {kept[0]}, "
            f"{kept[1]}, {outputs[0]} + {d * state}, {directions * state}, {steps}, {batch}, {inputs}, {units}, {kind}, "
            f"{int(call.attributes.get('linear_before_reset', 0))}, {reverse}, "
            f"{place.name_of(lengths) if lengths is not None else 'NULL'}, {act}, scratch);"
        )


def _bytes(value: Value) -> int:
    return value.size * value.dtype.itemsize


@row("ScanBegin")
def _(place: Place, call: Call) -> None:
    loop: Scan = call.attributes["scan"]
    for state, start in zip(loop.states, loop.starts, strict=True):
        place.write(f"memcpy({place.name_of(state)}, {place.name_of(start)}, {_bytes(state)});")
    place.write(f"{{ size_t step; for (step = 0; step < {loop.length}; step++) {{")
    for value, source, back in zip(loop.rows, loop.sources, loop.reverse[0], strict=True):
        to, read = place.name_of(value), place.name_of(source)
        place.write(f"  memcpy({to}, {read} + {_at(loop, back)} * {value.size}, {_bytes(value)});")


def _at(loop: Scan, back: int) -> str:
    return f"({loop.length - 1} - step)" if back else "step"


@row("ScanEnd")
def _(place: Place, call: Call) -> None:
    loop: Scan = call.attributes["scan"]
    names = [place.name_of(v) for v in loop.states]
    for value, out, back in zip(loop.given, loop.collected, loop.reverse[1], strict=True):
        kind = C_TYPES[str(out.dtype)]
        place.write(
            f"  memcpy(({kind} *){place.name_of(out)} + {_at(loop, back)} * {value.size}, {place.name_of(value)}, {_bytes(value)});"
        )
    for i, (state, after) in enumerate(zip(loop.states, loop.after, strict=True)):
        source = place.name_of(after)
        if source in names[:i]:
            raise refuse(call, "a state that becomes another one")
        if source != names[i]:
            place.write(f"  memcpy({names[i]}, {source}, {_bytes(state)});")
    place.write("} }")
    for state, final in zip(loop.states, loop.finals, strict=True):
        if final is not None:
            place.write(f"memcpy({place.name_of(final)}, {place.name_of(state)}, {_bytes(state)});")


@row("CumSum")
def _(place: Place, call: Call) -> None:
    x, axis = call.inputs
    assert x is not None and axis is not None
    if axis.data is None or call.attributes.get("exclusive") or call.attributes.get("reverse"):
        raise refuse(call, "another order")
    at = int(axis.data.reshape(-1)[0]) % len(x.shape)
    outer, inner = [int(np.prod(part, dtype=np.int64)) for part in (x.shape[:at], x.shape[at + 1 :])]
    n, source, to = x.shape[at], place.name_of(x), place.name_of(call.outputs[0])
    place.write(
        f"{{ size_t o, q, i; for (o = 0; o < {outer}; o++) for (q = 0; q < {inner}; q++) for (i = 0; i < {n}; i++) "
        f"{{ const size_t w = (o * {n} + i) * {inner} + q; {to}[w] = {source}[w]; if (i) "
        f"{to}[w] = ({C_TYPES[str(x.dtype)]})({to}[w] + {to}[w - {inner}]); }} }}"
    )
