"""Convolutions, pools and resizing; and places of the largest value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bireme.export.graph import Call
from bireme.export.place import (
    BLOCK,
    DEPTH,
    TILE,
    WIDE,
    Place,
    ending,
    given,
    in_blocks,
    integers_of,
    number,
    refuse,
    row,
)

EXACT = 1024  # products of integers of 8 bits whose sum is exact in float


def _window(call: Call, rank: int, size: tuple[int, ...], kernel: list[int]) -> tuple[list[int], list[int], list[int]]:
    """Strides, paddings before, dilations, for two axes: of one axis the first is 1."""
    a = call.attributes
    strides, dilations = list(a.get("strides", [1] * rank)), list(a.get("dilations", [1] * rank))
    pads = list(a.get("pads", [0] * 2 * rank))
    automatic = a.get("auto_pad", b"NOTSET")
    if automatic in (b"SAME_UPPER", b"SAME_LOWER"):
        out = call.outputs[0].shape[2:]
        whole = [
            max((o - 1) * s + (k - 1) * d + 1 - n, 0) for o, s, k, d, n in zip(out, strides, kernel, dilations, size)
        ]
        pads = [w // 2 if automatic == b"SAME_UPPER" else -(-w // 2) for w in whole]
    return _two(strides), _two(pads[:rank], 0), _two(dilations)


def _two(listed: Any, fill: int = 1) -> list[int]:
    return [fill] * (2 - len(listed)) + list(listed)


def _planes(call: Call) -> tuple[int, list[int], list[int]]:
    """The number of spatial axes, and two sizes of the input and of the output."""
    x, out = call.inputs[0], call.outputs[0]
    assert x is not None
    rank = len(x.shape) - 2
    if rank not in (1, 2):
        raise refuse(call, f"{rank} axes")
    return rank, _two(x.shape[2:]), _two(out.shape[2:])


def _taps(
    kernel: tuple[int, int], out: tuple[int, int], strides: tuple[int, int], dilations: tuple[int, int]
) -> tuple[np.ndarray, int]:
    """Where the weights of a filter meet a plane that kernels.c copied with its padding, and the size of such a plane."""
    (kh, kw), (oh, ow), (sh, sw), (dh, dw) = kernel, out, strides, dilations
    columns = -(-ow // 8) * 8 + (kw - 1) * dw // sw
    ky, kx = np.arange(kh)[:, None] * dh, np.arange(kw) * dw
    at = (ky * sw + kx % sw) * columns + kx // sw
    return at.reshape(-1).astype(np.int32), ((oh - 1) * sh + (kh - 1) * dh + 1) * sw * columns


@row("Conv")
def _(place: Place, call: Call) -> None:
    x, weight = call.inputs[:2]
    bias = given(call, 2)
    assert x is not None and weight is not None
    rank, (height, width), (oh, ow) = _planes(call)
    kh, kw = _two(weight.shape[2:])
    (sh, sw), (ph, pw), (dh, dw) = _window(call, rank, x.shape[2:], list(weight.shape[2:]))
    groups, batch, channels = call.attributes.get("group", 1), x.shape[0], x.shape[1]
    filters, depth = weight.shape[0] // groups, channels // groups
    kind, a, b = call.activation or ("NONE", 0.0, 0.0)
    end = f"BM_{kind}, {number(a)}, {number(b)}"
    names = place.name_of(x), place.name_of(call.outputs[0])
    small = place.name_of(bias) if bias is not None else "NULL"
    if depth == 1 and filters == 1:
        place.needs("depthwise")
        at, size = _taps((kh, kw), (oh, ow), (sh, sw), (dh, dw))
        place.floats(size)
        place.write(
            f"{{ static const bm_window w = {{{channels}, {height}, {width}, 1, {kh}, {kw}, {oh}, {ow}, "
            f"{sh}, {sw}, {ph}, {pw}, {dh}, {dw}}}; size_t i;"
        )
        place.write(
            f"  for (i = 0; i < {batch}; i++) bm_depthwise({names[0]} + i * {channels * height * width}, {place.name_of(weight)}, "
            f"{small}, {names[1]} + i * {channels * oh * ow}, &w, {place.constant(at)}, {size}, {end}, scratch); }}"
        )
        return
    k, tiles = depth * kh * kw, -(-filters // TILE) * TILE
    place.needs("conv")
    place.floats(tiles * k + DEPTH * WIDE)
    place.write(
        f"{{ static const bm_window w = {{{depth}, {height}, {width}, {filters}, {kh}, {kw}, {oh}, {ow}, "
        f"{sh}, {sw}, {ph}, {pw}, {dh}, {dw}}}; size_t i, g;"
    )
    place.write(f"  for (g = 0; g < {groups}; g++) {{")
    held = integers_of(place, weight, 0)
    if held is not None:
        place.needs("filters_i8")
        place.write(
            f"    bm_filters_i8({held[0]} + g * {filters * k}, {held[1]} + g * {filters}, {filters}, {k}, scratch);"
        )
    else:
        place.needs("filters")
        place.write(f"    bm_filters({place.name_of(weight)} + g * {filters * k}, {filters}, {k}, scratch);")
    added = f"{small} + g * {filters}" if bias is not None else "NULL"
    place.write(
        f"    for (i = 0; i < {batch}; i++) bm_conv({names[0]} + (i * {groups} + g) * {depth * height * width}, scratch, {added}, "
        f"{names[1]} + (i * {groups} + g) * {filters * oh * ow}, &w, {end}, scratch + {tiles * k});"
    )
    place.write("  } }")


@row("ConvOfIntegers")
def _(place: Place, call: Call) -> None:
    x, weight, bias, scales = call.inputs
    assert x is not None and weight is not None and weight.data is not None and scales is not None
    rank, (height, width), (oh, ow) = _planes(call)
    kh, kw = _two(weight.shape[2:])
    (sh, sw), (ph, pw), (dh, dw) = _window(call, rank, x.shape[2:], list(weight.shape[2:]))
    groups, batch, channels = call.attributes.get("group", 1), x.shape[0], x.shape[1]
    filters, depth = weight.shape[0] // groups, channels // groups
    out = call.outputs[0]
    source, to, scale = place.name_of(x), place.name_of(out), place.name_of(scales)
    added = place.name_of(bias) if bias is not None else "NULL"
    alone = depth == 1 and filters == 1 and kh * kw <= EXACT
    sizes = f"{channels if alone else depth}, {height}, {width}, {filters}, {kh}, {kw}, {oh}, {ow}"
    place.write(
        f"{{ static const bm_window w = {{{sizes}, {sh}, {sw}, {ph}, {pw}, {dh}, {dw}}}; size_t i{', g' * (not alone)};"
    )
    if alone:
        place.needs("depthwise_i8")
        at, size = _taps((kh, kw), (oh, ow), (sh, sw), (dh, dw))
        place.floats(size + oh * ow + kh * kw)
        place.write(
            f"  for (i = 0; i < {batch}; i++) bm_depthwise_i8({source} + i * {channels * height * width}, {place.name_of(weight)}, "
            f"{scale}, {added}, {to} + i * {channels * oh * ow}, &w, {place.constant(at)}, {size}, {ending(call)}, scratch); }}"
        )
        return
    held = place.constant(in_blocks(weight.data))
    k = -(-depth * kh * kw // BLOCK) * BLOCK
    place.needs("conv_i8")
    place.floats(34 * k)  # 64 windows and 4 filters, of 16 bits
    added = f"{added} + g * {filters}" if bias is not None else added
    place.write(
        f"  for (g = 0; g < {groups}; g++) for (i = 0; i < {batch}; i++) "
        f"bm_conv_i8({source} + (i * {groups} + g) * {depth * height * width}, {held} + g * {filters * k}, "
        f"{scale} + g * {filters}, {added}, {to} + (i * {groups} + g) * {filters * oh * ow}, &w, {ending(call)}, "
        f"(bm_int *)(void *)scratch); }}"
    )


@row("ConvTranspose")
def _(place: Place, call: Call) -> None:
    x, weight = call.inputs[:2]
    bias = given(call, 2)
    assert x is not None and weight is not None
    rank, (height, width), (oh, ow) = _planes(call)
    if call.attributes.get("group", 1) != 1:
        raise refuse(call, "groups")
    (sh, sw), (ph, pw), (dh, dw) = _window(call, rank, x.shape[2:], list(weight.shape[2:]))
    kh, kw = _two(weight.shape[2:])
    filters, channels = weight.shape[1], x.shape[1]
    place.needs("conv_transpose")
    names = (
        place.name_of(x),
        place.name_of(weight),
        place.name_of(bias) if bias is not None else "NULL",
        place.name_of(call.outputs[0]),
    )
    place.write(
        f"{{ size_t i; for (i = 0; i < {x.shape[0]}; i++) bm_conv_transpose({names[0]} + i * {channels * height * width}, {names[1]}, {names[2]}, "
        f"{names[3]} + i * {filters * oh * ow}, {channels}, {height}, {width}, {filters}, {kh}, {kw}, {oh}, {ow}, "
        f"{sh}, {sw}, {ph}, {pw}, {dh}, {dw}); }}"
    )


@row("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool")
def _(place: Place, call: Call) -> None:
    x = call.inputs[0]
    assert x is not None
    if len(call.outputs) > 1:
        raise refuse(call, "indices")
    rank, (height, width), (oh, ow) = _planes(call)
    kernel = list(x.shape[2:]) if call.op.startswith("Global") else list(call.attributes["kernel_shape"])
    (sh, sw), (ph, pw), (dh, dw) = _window(call, rank, x.shape[2:], kernel)
    kh, kw = _two(kernel)
    names = place.name_of(x), place.name_of(call.outputs[0])
    all_ = int(call.attributes.get("count_include_pad", 0))
    sizes = f"{x.shape[0] * x.shape[1]}, {height}, {width}, {kh}, {kw}, {oh}, {ow}, {sh}, {sw}, {ph}, {pw}, {dh}, {dw}"
    if x.dtype == np.int8:
        place.needs("pool_i8")
        place.write(f"bm_pool_i8({names[0]}, {names[1]}, {sizes});")
        return
    place.needs("pool")
    if all_ and call.attributes.get("ceil_mode", 0):
        raise refuse(call, "ceil_mode and padding that is counted")
    place.write(f"bm_pool({names[0]}, {names[1]}, {sizes}, {int('Average' in call.op)}, {all_});")


@row("Resize")
def _(place: Place, call: Call) -> None:
    x = call.inputs[0]
    (out,) = call.outputs
    assert x is not None
    mode = call.attributes.get("mode", b"nearest")
    axes = [i for i, (n, m) in enumerate(zip(x.shape, out.shape, strict=True)) if n != m]
    if mode not in (b"nearest", b"linear"):
        raise refuse(call, mode.decode())
    place.needs("resize")
    source = place.name_of(x)
    shape = list(x.shape)
    sizes = [int(np.prod([*out.shape[: axis + 1], *x.shape[axis + 1 :]], dtype=np.int64)) for axis in axes]
    half = sum(sizes[:-1])
    place.floats(half)
    at = 0
    for i, axis in enumerate(axes):
        n, m = x.shape[axis], out.shape[axis]
        low, high, part = _between(call, n, m, mode)
        tables = [place.constant(t) for t in (low, high, part)]
        outer, inner = [int(np.prod(p, dtype=np.int64)) for p in (shape[:axis], shape[axis + 1 :])]
        to = place.name_of(out) if i == len(axes) - 1 else f"scratch + {at}"
        place.write(f"bm_resize({source}, {to}, {outer}, {n}, {inner}, {m}, {', '.join(tables)});")
        source, at = f"scratch + {at}", at + sizes[i]
        shape[axis] = m
    if not axes:
        place.write(f"memcpy({place.name_of(out)}, {source}, {x.size * 4});")


def _between(call: Call, n: int, m: int, mode: bytes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each new place the two old ones around it and how far it is from the first."""
    how, i = call.attributes.get("coordinate_transformation_mode", b"half_pixel"), np.arange(m)
    if how == b"align_corners":
        at = i * ((n - 1) / (m - 1)) if m > 1 else i * 0.0
    elif how == b"asymmetric":
        at = i * (n / m)
    elif how in (b"half_pixel", b"pytorch_half_pixel"):
        at = (i + 0.5) * (n / m) - 0.5 if m > 1 or how == b"half_pixel" else i * 0.0
    else:
        raise refuse(call, how.decode())
    if mode == b"nearest":
        rounding = call.attributes.get("nearest_mode", b"round_prefer_floor")
        roundings: dict[bytes, Callable[[np.ndarray], np.ndarray]] = {
            b"floor": np.floor,
            b"ceil": np.ceil,
            b"round_prefer_floor": lambda x: np.ceil(x - 0.5),
            b"round_prefer_ceil": lambda x: np.floor(x + 0.5),
        }
        whole = roundings[rounding](at)
        low = np.clip(whole, 0, n - 1).astype(np.int32)
        return low, low, np.zeros(m, np.float32)
    at = np.clip(at, 0, n - 1)
    low = np.floor(at).astype(np.int32)
    return low, np.minimum(low + 1, n - 1).astype(np.int32), (at - low).astype(np.float32)


@row("ArgMax", "ArgMin")
def _(place: Place, call: Call) -> None:
    (x,) = call.inputs
    assert x is not None
    axis = call.attributes.get("axis", 0) % len(x.shape)
    if call.attributes.get("select_last_index", 0):
        raise refuse(call, "the last index")
    outer, inner = [int(np.prod(p, dtype=np.int64)) for p in (x.shape[:axis], x.shape[axis + 1 :])]
    n, source, to = x.shape[axis], place.name_of(x), place.name_of(call.outputs[0])
    sign = ">" if call.op == "ArgMax" else "<"
    place.write(
        f"{{ size_t o, q, i; for (o = 0; o < {outer}; o++) for (q = 0; q < {inner}; q++) {{ size_t best = 0; for (i = 1; i < {n}; i++) "
        f"if ({source}[(o * {n} + i) * {inner} + q] {sign} {source}[(o * {n} + best) * {inner} + q]) best = i; "
        f"{to}[o * {inner} + q] = (int64_t)best; }} }}"
    )
