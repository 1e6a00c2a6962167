"""Meanings of nodes on signals and what comes before networks: DFT, STFT, mel weights, n-grams, labels, images."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np

from bireme import fft, ops
from bireme.onnx.reading.table import Node, axis_of, dtype_of, host, means, number, tensor
from bireme.vision.image import pillow


def _pairs(x: Any) -> Any:
    """Complex numbers as pairs along the last axis."""
    return ops.as_real(x)


@means("DFT")
def _(n: Node, x: Any, length: Any = None, axis: Any = None) -> Any:
    at = n.attr("axis", 1) if n.version < 20 else (-2 if axis is None else int(number(axis)))
    at = axis_of(at, x)
    count = None if length is None else int(number(length))
    inverse, onesided = bool(n.attr("inverse", 0)), bool(n.attr("onesided", 0))
    if x.shape[-1] == 2:
        given = ops.as_complex(x)
    else:
        given = ops.complex(ops.squeeze(x, [-1]), ops.zeros_like(ops.squeeze(x, [-1])))
    if inverse and onesided:
        return ops.unsqueeze(fft.irfft(given, count, at), -1)
    made = (fft.ifft if inverse else fft.fft)(given, count, at)
    if onesided:
        made = ops.slice(made, [at], [0], [made.shape[at] // 2 + 1])
    return ops.cast(_pairs(made), x.dtype)


@means("STFT")
def _(n: Node, x: Any, step: Any, window: Any = None, length: Any = None) -> Any:
    hop = int(number(step))
    size = int(number(length)) if length is not None else window.shape[0]
    onesided = bool(n.attr("onesided", 1))
    pairs = x.ndim == 3 and x.shape[-1] == 2
    flat = ops.as_complex(x) if pairs else (ops.squeeze(x, [-1]) if x.ndim == 3 else x)
    frames = (flat.shape[1] - size) // hop + 1
    at = np.arange(frames)[:, None] * hop + np.arange(size)
    taken = ops.reshape(
        ops.index_select(flat, tensor(at.reshape(-1).astype(np.int64)), axis=1), [flat.shape[0], frames, size]
    )
    if window is not None:
        taken = taken * ops.cast(window, taken.dtype)
    if not pairs:
        taken = ops.complex(taken, ops.zeros_like(taken))
    made = fft.fft(taken, None, 2)
    if onesided:
        made = ops.slice(made, [2], [0], [size // 2 + 1])
    return ops.cast(_pairs(made), x.dtype)


@means("MelWeightMatrix")
def _(n: Node, bins: Any, length: Any, rate: Any, low: Any, high: Any) -> Any:
    count, size, hertz = int(number(bins)), int(number(length)), number(rate)
    first, last = [2595 * math.log10(1 + number(f) / 700) for f in (low, high)]  # in mels
    edges = np.linspace(0, count + 1, count + 2) * (last - first) / (count + 1 + 1) + first
    at = np.floor((size + 1) * (700 * (10 ** (edges / 2595) - 1)) / hertz).astype(np.int64)
    made = np.zeros((size // 2 + 1, count))
    for i in range(count):
        a, b, c = at[i], at[i + 1], at[i + 2]
        if b == a:
            made[b, i] = 1
        else:
            made[a : b + 1, i] = (np.arange(a, b + 1) - a) / (b - a)
        if c > b:
            made[b:c, i] = (c - np.arange(b, c)) / (c - b)
    return tensor(made.astype(dtype_of(n.attr("output_datatype", 1)).np))


@means("TfIdfVectorizer")
def _(n: Node, x: Any) -> Any:
    pool, starts, places = n.attr("pool_int64s"), n.attr("ngram_counts"), n.attr("ngram_indexes")
    if pool is None:
        raise n.bad("n-grams of integers", "strings")
    weights, mode = n.attr("weights") or [1.0] * len(places), n.attr("mode")
    least, most, skips = n.attr("min_gram_length"), n.attr("max_gram_length"), n.attr("max_skip_count")
    grams: dict[tuple, int] = {}
    count = 0
    for size, first in enumerate(starts, 1):
        last = starts[size] if size < len(starts) else len(pool)
        for i in range(first, last, size):
            if size >= least and size <= most:
                grams[tuple(pool[i : i + size])] = count
            count += 1
    rows = host(x)
    rows = rows.reshape(1, -1) if rows.ndim < 2 else rows
    made = np.zeros((len(rows), max(places) + 1), np.float32)
    for r, row in enumerate(rows):
        for size in range(least, most + 1):
            for skip in range((skips if size > 1 else 0) + 1):
                reach = (size - 1) * (skip + 1) + 1
                for i in range(len(row) - reach + 1):
                    found = grams.get(tuple(int(v) for v in row[i : i + reach : skip + 1]))
                    if found is not None:
                        made[r, places[found]] += 1
    scale = np.zeros(made.shape[1], np.float32)
    scale[places] = weights
    if mode == "IDF":
        made = (made > 0) * scale
    elif mode == "TFIDF":
        made = made * scale
    return tensor(made[0] if host(x).ndim < 2 else made)


@means("ai.onnx.ml:LabelEncoder")
def _(n: Node, x: Any) -> Any:
    kinds = ("int64s", "floats", "tensor")
    keys = next((v for k in kinds if (v := n.attr(f"keys_{k}")) is not None), None)
    values = next((v for k in kinds if (v := n.attr(f"values_{k}")) is not None), None)
    if keys is None or values is None:
        raise n.bad("keys and values that are numbers", "strings")
    keys, values = np.asarray(keys), np.asarray(values)
    kind = np.float32 if values.dtype == np.float64 else values.dtype
    default = n.attr("default_tensor")
    if default is None:
        default = n.attr("default_float", -0.0) if kind == np.float32 else n.attr("default_int64", -1)
    given = host(x)
    made = np.full(given.shape, np.asarray(default).reshape(-1)[0], kind)
    for k, v in zip(keys, values):
        made[np.isnan(given) if k != k else given == k] = v
    return tensor(made)


@means("ImageDecoder")
def _(n: Node, x: Any) -> Any:
    image = pillow("Image").open(io.BytesIO(host(x).tobytes()))
    kind = n.attr("pixel_format", "RGB")
    made = np.asarray(image.convert("L" if kind == "Grayscale" else "RGB"))
    if kind == "Grayscale":
        return tensor(made[..., None])
    return tensor(np.ascontiguousarray(made[..., ::-1]) if kind == "BGR" else made)
