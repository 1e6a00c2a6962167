"""Calls that move, join and cut: copies in loops."""

from __future__ import annotations

import numpy as np

from bireme.export.graph import ALIASES, Call
from bireme.export.place import Place, given, integers_of, loops, number, refuse, row, strides_of


@row(*ALIASES)
def _(place: Place, call: Call) -> None:
    x = call.inputs[0]
    assert x is not None
    source, to = place.name_of(x), place.name_of(call.outputs[0])
    if source != to:
        place.write(f"memcpy({to}, {source}, {x.size * x.dtype.itemsize});")


@row("Transpose")
def _(place: Place, call: Call) -> None:
    (x,) = call.inputs
    assert x is not None
    order = list(call.attributes.get("perm", reversed(range(len(x.shape)))))
    steps = strides_of(x.shape, x.shape)
    (out,) = call.outputs
    names = place.name_of(x), place.name_of(out)
    strides = [[steps[axis] for axis in order], strides_of(out.shape, out.shape)]
    loops(place, out.shape, strides, lambda i: f"{names[1]}[{i[1]}] = {names[0]}[{i[0]}];")


@row("Slice")
def _(place: Place, call: Call) -> None:
    x, starts, ends = call.inputs[:3]
    assert x is not None and starts is not None and ends is not None
    axes, steps = given(call, 3), given(call, 4)
    if any(v is not None and v.data is None for v in (starts, ends, axes, steps)):
        raise refuse(call, "places that are computed")
    where = axes.data.tolist() if axes is not None and axes.data is not None else list(range(starts.size))
    by = steps.data.tolist() if steps is not None and steps.data is not None else [1] * starts.size
    strides, offset = strides_of(x.shape, x.shape), 0
    for axis, start, step in zip(where, starts.data.tolist(), by, strict=True):  # type: ignore[union-attr]  # refused above
        size = x.shape[axis]
        start = min(max(start + size if start < 0 else start, 0), size - (step < 0))
        offset += start * strides[axis]
        strides[axis] *= step
    if any(s < 0 for s in strides):
        raise refuse(call, "steps backwards")
    (out,) = call.outputs
    names = place.name_of(x), place.name_of(out)
    read = [s if n > 1 else 0 for s, n in zip(strides, out.shape, strict=True)]
    loops(
        place,
        out.shape,
        [read, strides_of(out.shape, out.shape)],
        lambda i: f"{names[1]}[{i[1]}] = {names[0]}[{i[0]} + {offset}];",
    )


def _copy(place: Place, to: str, source: str, outer: int, steps: tuple[str, str], size: int) -> None:
    """`outer` runs of `size` bytes, at these places of both."""
    place.write(f"{{ size_t i; for (i = 0; i < {outer}; i++)")
    place.write(f"    memcpy((char *){to} + {steps[0]}, (const char *){source} + {steps[1]}, {size}); }}")


@row("Concat")
def _(place: Place, call: Call) -> None:
    (out,) = call.outputs
    axis = call.attributes["axis"] % len(out.shape)
    inner = int(np.prod(out.shape[axis + 1 :], dtype=np.int64)) * out.dtype.itemsize
    outer, total, at = int(np.prod(out.shape[:axis], dtype=np.int64)), out.shape[axis] * inner, 0
    for value in call.inputs:
        assert value is not None
        size = value.shape[axis] * inner
        if size:
            _copy(place, place.name_of(out), place.name_of(value), outer, (f"i * {total} + {at}", f"i * {size}"), size)
        at += size


@row("Split")
def _(place: Place, call: Call) -> None:
    x = call.inputs[0]
    assert x is not None
    axis = call.attributes.get("axis", 0) % len(x.shape)
    inner = int(np.prod(x.shape[axis + 1 :], dtype=np.int64)) * x.dtype.itemsize
    outer, total, at = int(np.prod(x.shape[:axis], dtype=np.int64)), x.shape[axis] * inner, 0
    for value in call.outputs:
        size = value.shape[axis] * inner
        _copy(place, place.name_of(value), place.name_of(x), outer, (f"i * {size}", f"i * {total} + {at}"), size)
        at += size


@row("Pad")
def _(place: Place, call: Call) -> None:
    x, pads = call.inputs[:2]
    value = given(call, 2)
    assert x is not None and pads is not None
    if call.attributes.get("mode", b"constant") != b"constant" or pads.data is None or given(call, 3) is not None:
        raise refuse(call, "other values than a constant")
    before = pads.data.tolist()[: len(x.shape)]
    if min(pads.data.tolist(), default=0) < 0:
        raise refuse(call, "negative sizes")
    (out,) = call.outputs
    fill = "0" if value is None or value.data is None else number(float(value.data))
    own = strides_of(out.shape, out.shape)
    offset = sum(n * s for n, s in zip(before, own, strict=True))
    to, source = place.name_of(out), place.name_of(x)
    place.write(f"{{ size_t i; for (i = 0; i < {out.size}; i++) {to}[i] = {fill}; }}")
    loops(place, x.shape, [strides_of(x.shape, x.shape), own], lambda i: f"{to}[{i[1]} + {offset}] = {source}[{i[0]}];")


@row("Gather")
def _(place: Place, call: Call) -> None:
    x, index = call.inputs
    assert x is not None and index is not None
    if index.dtype != np.int64:
        raise refuse(call, f"indices of {index.dtype}")
    axis = call.attributes.get("axis", 0) % len(x.shape)
    outer = int(np.prod(x.shape[:axis], dtype=np.int64))
    inner = int(np.prod(x.shape[axis + 1 :], dtype=np.int64)) * x.dtype.itemsize
    held = integers_of(place, x, 0) if axis == 0 and len(x.shape) == 2 else None
    if held is not None:
        place.needs("gather_i8")
        operands = *held, place.name_of(index), place.name_of(call.outputs[0])
        place.write(f"if (!bm_gather_i8({', '.join(operands)}, {x.shape[0]}, {x.shape[1]}, {index.size})) return 1;")
        return
    place.needs("gather")
    names = place.name_of(x), place.name_of(index), place.name_of(call.outputs[0])
    place.write(f"if (!bm_gather({', '.join(names)}, {outer}, {x.shape[axis]}, {inner}, {index.size})) return 1;")
