"""Converters of layers' functions: products, convolutions, pooling, normalization, attention, interpolation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.program.variable import Dim
from bireme.core.tensor.tensor import Tensor
from bireme.onnx.writing.graph import Val, Writer
from bireme.onnx.writing.table import Call, Unwritten, converts, plain
from bireme.ops.nn import window_args

# ------------------------------------------------------------ products


@converts("matmul", "bmm")
def _(w: Writer, c: Call) -> Val:
    values = []
    for name in ("x", "y"):
        t, v = c[name], c.value(name, c.dtype)
        if c.arguments.get(f"transpose_{name}") and t.ndim > 1:
            n = t.ndim
            v = w.transpose(v, [*range(n - 2), n - 1, n - 2])
        values.append(v)
    return w("MatMul", *values)


@converts("linear")
def _(w: Writer, c: Call) -> Val:
    made = w("MatMul", c.value("x", c.dtype), c.value("weight", c.dtype))
    return made if c["bias"] is None else made + c.value("bias", c.dtype)


@converts("einsum_of")
def _(w: Writer, c: Call) -> Val:
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    labels = {label: letters[i] for i, label in enumerate({n: 0 for term in c["terms"] for n in term})}
    terms = ["".join([labels[n] for n in term]) for term in c["terms"]]
    out = "".join([labels[n] for n in c["labels"]])
    if any(len(set(t)) != len(t) for t in (*terms, out)) or _broadcasts(c):
        raise Unwritten
    return w("Einsum", *[w.value(x, c.dtype) for x in c["operands"]], equation=f"{','.join(terms)}->{out}")


def _broadcasts(c: Call) -> bool:
    sizes: dict[int, set] = {}
    for x, term in zip(c["operands"], c["terms"]):
        for n, label in zip(x._value.sig.shape, term):
            sizes.setdefault(label, set()).add(n)
    return any(len(found) > 1 for found in sizes.values())


@converts("embedding_of")
def _(w: Writer, c: Call) -> Val:
    index = c.value("x", dtypes.int64)
    rows = w("Gather", c.value("weight"), index, axis=0)
    if c["padding_idx"] is None:
        return rows
    return w.where(w.unsqueeze(index == int(c["padding_idx"]), -1), 0.0, rows)


@converts("softmax_of", "log_softmax_of")
def _(w: Writer, c: Call) -> Val:
    if not c.ndim():
        raise Unwritten
    op = "Softmax" if c.name == "softmax_of" else "LogSoftmax"
    return w(op, c.value("x", c.dtype), axis=c.axis())


# ------------------------------------------------------------ windows


class Window:
    """Arguments of a function over windows, as attributes of a node."""

    def __init__(self, c: Call, n: int, kernel: Any, stride: Any, dilation: Any = None):
        self.last = c.arguments.get("data_format", "NCHW")[-1] == "C"
        x = c["x"]
        self.stride = window_args.per_axis(stride, n, "stride")
        self.dilation = window_args.per_axis(1 if dilation is None else dilation, n, "dilation")
        self.kernel = tuple(kernel)
        self.dims = window_args.spatial(x.shape, self.last)
        edges = window_args.edges_of(plain(c["padding"]), n, self.last, "padding")
        self.auto = edges == "SAME" and any(isinstance(m, Dim) for m in self.dims)
        if edges == "SAME":
            self.dilation = (1,) * n
        if edges == "VALID":
            edges = ((0, 0),) * n
        self.edges = ((0, 0),) * n if self.auto else window_args.settled(edges, self.dims, self.kernel, self.stride)
        self.known = not any(isinstance(m, Dim) for m in self.dims)

    def attributes(self, dilated: bool = True) -> dict[str, Any]:
        found: dict[str, Any] = {"kernel_shape": list(self.kernel), "strides": list(self.stride)}
        if dilated:
            found["dilations"] = list(self.dilation)
        if self.auto:
            found["auto_pad"] = "SAME_UPPER"
        else:
            found["pads"] = [a for a, _ in self.edges] + [b for _, b in self.edges]
        return found

    def given(self, w: Writer, x: Val) -> Val:
        n = len(self.stride)
        return w.transpose(x, [0, n + 1, *range(1, n + 1)]) if self.last else x

    def back(self, w: Writer, x: Val) -> Val:
        n = len(self.stride)
        return w.transpose(x, [0, *range(2, n + 2), 1]) if self.last else x


def conv_window(c: Call) -> Window:
    """The window of a convolution."""
    at = Window(c, c.ndim() - 2, c["weight"].shape[2:], c["stride"], c["dilation"])
    if at.known and not at.auto:
        reach = [(k - 1) * d + 1 for k, d in zip(at.kernel, at.dilation)]
        at.edges = window_args.reached(at.edges, at.dims, reach, at.stride)
    return at


@converts("conv1d", "conv2d", "conv3d")
def _(w: Writer, c: Call) -> Val:
    at = conv_window(c)
    made = w("Conv", at.given(w, c.value("x", c.dtype)), c.value("weight", c.dtype), _bias(w, c), group=c["groups"],
             **at.attributes())  # fmt: skip
    return at.back(w, made)


def _bias(w: Writer, c: Call, count: int | None = None) -> Val | None:
    """The bias of a convolution, one number for each channel."""
    bias = c["bias"]
    if bias is None:
        return None
    channels = c["weight"].shape[0] if count is None else count
    if bias.ndim != 1 or bias.shape[0] != channels:
        return w("Expand", w.reshape(c.value("bias", c.dtype), [-1]), w.ints([channels]))
    return c.value("bias", c.dtype)


@converts("conv1d_transpose", "conv2d_transpose", "conv3d_transpose")
def _(w: Writer, c: Call) -> Val:
    n = c.ndim() - 2
    at = Window(c, n, c["weight"].shape[2:], c["stride"], c["dilation"])
    extra = window_args.per_axis(0 if c["output_padding"] is None else c["output_padding"], n, "output_padding", 0)
    if c["output_size"] is not None:
        wanted = plain(c["output_size"])
        if not at.known or isinstance(wanted, Tensor):
            raise Unwritten
        wanted = window_args.per_axis(wanted, n, "output_size", 0)
        sizes = zip(at.dims, at.stride, at.edges, at.kernel, at.dilation)
        least = [(m - 1) * s - a - b + (k - 1) * d + 1 for m, s, (a, b), k, d in sizes]
        extra = tuple([m - n for m, n in zip(wanted, least)])
    if at.auto:
        raise Unwritten
    made = w("ConvTranspose", at.given(w, c.value("x", c.dtype)), c.value("weight", c.dtype),
             _bias(w, c, c["weight"].shape[1] * c["groups"]), group=c["groups"], output_padding=list(extra),
             **at.attributes())  # fmt: skip
    return at.back(w, made)


def _pool_window(c: Call) -> Window:
    n = c.ndim() - 2
    kernel = window_args.per_axis(c["kernel_size"], n, "kernel_size")
    at = Window(c, n, kernel, kernel if c["stride"] is None else c["stride"])
    if c["ceil_mode"] and at.auto:
        raise Unwritten
    return at


def _differs(at: Window) -> bool:
    """Whether the last window that ceil_mode adds may begin behind the image: Paddle counts it, ONNX does not."""
    if not at.known:
        return any(s > 1 and (a or b) for s, (a, b) in zip(at.stride, at.edges)) or any(
            s > k for s, k in zip(at.stride, at.kernel)
        )
    counts = [window_args.count(m, k, s, e, True) for m, k, s, e in zip(at.dims, at.kernel, at.stride, at.edges)]
    return any((o - 1) * s >= m + a for o, s, m, (a, _) in zip(counts, at.stride, at.dims, at.edges))


@converts("max_pool1d", "max_pool2d", "max_pool3d")
def _(w: Writer, c: Call) -> Any:
    at = _pool_window(c)
    if (c["ceil_mode"] and _differs(at)) or any(max(e) >= k for e, k in zip(at.edges, at.kernel)):
        raise Unwritten
    if at.known and any(m + sum(e) < k for m, e, k in zip(at.dims, at.edges, at.kernel)):
        raise Unwritten
    x, attrs = at.given(w, c.value("x")), {**at.attributes(False), "ceil_mode": int(c["ceil_mode"])}
    if not c["return_mask"]:
        return at.back(w, w("MaxPool", x, **attrs))
    made, index = w("MaxPool", x, n=2, dtype=[None, dtypes.int64], **attrs)
    plane = w.reshape(w.dim(math.prod(at.dims)), [1])  # ONNX counts through all images, Paddle within a plane
    return [at.back(w, made), (index % plane).to(c.makes[1].dtype)]


@converts("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _(w: Writer, c: Call) -> Val:
    at, divisor = _pool_window(c), c.arguments.get("divisor_override")
    if c["ceil_mode"] or any(max(e) >= k for e, k in zip(at.edges, at.kernel)) or (at.auto and not c["exclusive"]):
        raise Unwritten
    if at.known and any(m + sum(e) < k for m, e, k in zip(at.dims, at.edges, at.kernel)):
        raise Unwritten
    if not c["exclusive"] and any(a != b for a, b in at.edges):
        raise Unwritten
    inside = int(not c["exclusive"])
    made = w("AveragePool", at.given(w, c.value("x", c.dtype)), count_include_pad=inside, **at.attributes(False))
    return at.back(w, made if not divisor else made * (math.prod(at.kernel) / divisor))


@converts("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
          "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")  # fmt: skip
def _(w: Writer, c: Call) -> Val:
    n, last = c.ndim() - 2, c.arguments.get("data_format", "NCHW")[-1] == "C"
    if c.arguments.get("return_mask"):
        raise Unwritten
    axes = list(range(1, n + 1) if last else range(2, n + 2))
    sizes = plain(c["output_size"])
    sizes = list(sizes) if isinstance(sizes, (list, tuple)) else [sizes] * n
    sizes = sizes * n if len(sizes) == 1 else sizes
    mean = "avg" in c.operation.type
    x, dims = c.value("x", c.dtype), [c["x"].shape[a] for a in axes]
    if all(m == 1 and not isinstance(m, Dim) for m in sizes):
        return w.reduce("Mean" if mean else "Max", x, axes)
    for i, axis in enumerate(axes):  # one axis after another: their windows are independent
        m, k = dims[i], sizes[i]
        if k is None or k is m:
            continue
        if isinstance(m, Dim) or isinstance(k, (Dim, Tensor)) or not m:
            raise Unwritten
        x = _along(w, x, c.ndim(), axis, m, k, mean)
    return w("Identity", x)


def _along(w: Writer, x: Val, ndim: int, axis: int, m: int, k: int, mean: bool) -> Val:
    """The mean or maximum of each of `k` even windows of an axis of size `m`."""
    low, high = np.arange(k) * m // k, -(-(np.arange(k) + 1) * m // k)
    if mean:
        weights = np.zeros((m, k))
        for j in range(k):
            weights[low[j] : high[j], j] = 1 / (high[j] - low[j])
        perm = [*[a for a in range(ndim) if a != axis], axis]
        made = w("MatMul", w.transpose(x, perm), w.constant(weights.astype(x.dtype.np)))
        return w.transpose(made, list(np.argsort(perm)))
    at = np.minimum(low[:, None] + np.arange(np.max(high - low)), high[:, None] - 1)
    taken = w("Gather", x, w.constant(at.astype(np.int64)), axis=axis)
    return w.reduce("Max", taken, [axis + 1], keepdims=False)


# ------------------------------------------------------------ normalization


@converts("layer_norm")
def _(w: Writer, c: Call) -> Val:
    shape = c["normalized_shape"]
    shape = list(shape) if isinstance(shape, (list, tuple)) else [shape]
    if any(isinstance(n, Dim) for n in shape):
        raise Unwritten
    weight, bias = c.optional("weight", c.dtype), c.optional("bias", c.dtype)
    weight = w.constant(np.ones(shape, c.dtype.np)) if weight is None else _shaped(w, c["weight"], weight, shape)
    bias = None if bias is None else _shaped(w, c["bias"], bias, shape)
    given = [weight] if bias is None else [weight, bias]
    return w("LayerNormalization", c.value("x", c.dtype), *given, axis=-len(shape), epsilon=float(c["epsilon"]))


def _shaped(w: Writer, t: Tensor, value: Val, shape: list[int]) -> Val:
    return value if list(t.shape) == list(shape) else w.reshape(value, shape)


@converts("batch_norm")
def _(w: Writer, c: Call) -> Val:
    if c["training"] if c["use_global_stats"] is None else not c["use_global_stats"]:
        raise Unwritten
    last = c["data_format"] in ("NHWC", "NLC", "NDHWC") and c.ndim() > 2
    n = c["running_mean"].shape[0]
    scale, shift = c.optional("weight", c.dtype), c.optional("bias", c.dtype)
    scale = w.constant(np.ones(n, c.dtype.np)) if scale is None else scale
    shift = w.constant(np.zeros(n, c.dtype.np)) if shift is None else shift
    x, perm = c.value("x", c.dtype), [0, c.ndim() - 1, *range(1, c.ndim() - 1)]
    x = w.transpose(x, perm) if last else x
    made = w("BatchNormalization", x, scale, shift, c.value("running_mean", c.dtype), c.value("running_var", c.dtype),
             epsilon=float(c["epsilon"]))  # fmt: skip
    return w.transpose(made, list(np.argsort(perm))) if last else made


def _by_group(w: Writer, c: Call, x: Val, groups: int, epsilon: float) -> Val:
    """Normalized by groups of channels, which are axis 1."""
    ones, zeros = (w.constant(np.full(groups, k, c.dtype.np)) for k in (1, 0))
    grouped = w.reshape(x, [0, groups, -1])
    made = w("Reshape", w("InstanceNormalization", grouped, ones, zeros, epsilon=epsilon), w.shape(x))
    for name, op in (("weight", "Mul"), ("bias", "Add")):
        if c[name] is not None:
            made = w(op, made, w.reshape(c.value(name, c.dtype), [-1, *[1] * (c.ndim() - 2)]))
    return made


@converts("group_norm", "instance_norm")
def _(w: Writer, c: Call) -> Val:
    sizes = c["x"].shape
    if any(not isinstance(n, Dim) and not n for n in sizes):
        raise Unwritten
    x = c.value("x", c.dtype)
    if c.operation.type == "instance_norm":
        return _by_group(w, c, x, sizes[1], float(c["eps"]))
    last, n = c["data_format"] in ("NHWC", "NLC", "NDHWC"), c.ndim()
    perm = [0, n - 1, *range(1, n - 1)]
    made = _by_group(w, c, w.transpose(x, perm) if last else x, c["num_groups"], float(c["epsilon"]))
    return w.transpose(made, list(np.argsort(perm))) if last else made


@converts("rms_norm_of")
def _(w: Writer, c: Call) -> Val:
    x = c.value("x", c.dtype)
    made = x / w("Sqrt", w.reduce("Mean", x * x, [a % c.ndim() for a in c["axes"]]) + float(c.number("epsilon")))
    for name, op in (("weight", "Mul"), ("bias", "Add")):
        if c[name] is not None:
            made = w(op, made, c.value(name, c.dtype))
    return made


@converts("local_response_norm")
def _(w: Writer, c: Call) -> Val:
    size = c["size"]
    if not size % 2 or c["data_format"][-1] == "C" or c.dtype is not dtypes.float32 or c.ndim() != 4:
        raise Unwritten
    return w("LRN", c.value("x"), size=size, alpha=float(c["alpha"]), beta=float(c["beta"]), bias=float(c["k"]))


# ------------------------------------------------------------ attention


@converts("attention")
def _(w: Writer, c: Call) -> Val:
    q, k, v = (w.transpose(c.value(n, c.dtype), [0, 2, 1, 3]) for n in ("query", "key", "value"))
    heads, own, width = c["query"].shape[2], c["key"].shape[2], c["query"].shape[3]
    if isinstance(width, Dim) or isinstance(heads, Dim) or isinstance(own, Dim):
        raise Unwritten
    if own != heads:
        k, v = (_repeated(w, t, heads // own) for t in (k, v))
    scores = w("MatMul", q * (1 / math.sqrt(width)), w.transpose(k, [0, 1, 3, 2]))
    allowed = None
    if c["causal"]:
        shape = w("Concat", w.reshape(w.size(q, 2), [1]), w.reshape(w.size(k, 2), [1]), axis=0)
        ones = w("Expand", w.number(1, dtypes.int64), shape)
        allowed = w("Trilu", ones, w.number(0, dtypes.int64), upper=0).to(dtypes.bool_)
    if c["mask"] is not None:
        if c["mask"].dtype is dtypes.bool_:
            mask = c.value("mask")
            allowed = mask if allowed is None else allowed & mask
        else:
            scores = scores + c.value("mask", c.dtype)
    if allowed is None and c["mask"] is None:
        return w.transpose(w("MatMul", w("Softmax", scores, axis=-1), v), [0, 2, 1, 3])
    if allowed is not None:
        scores = w.where(allowed, scores, -math.inf)
    weights = w("Softmax", scores, axis=-1)
    weights = w.where(w("IsNaN", weights, dtype=dtypes.bool_), 0.0, weights)  # a row that may attend to nothing
    return w.transpose(w("MatMul", weights, v), [0, 2, 1, 3])


def _repeated(w: Writer, x: Val, times: int) -> Val:
    """Each head several times in a row."""
    shape, one = w.shape(x), w.constant(np.asarray([times]))
    many = w("Concat", *[w.slice(shape, [0], [0], [2]), one, w.slice(shape, [0], [2], [4])], axis=0)
    to = w(
        "Concat",
        w.slice(shape, [0], [0], [1]),
        w.slice(shape, [0], [1], [2]) * times,
        w.slice(shape, [0], [2], [4]),
        axis=0,
    )
    return w("Reshape", w("Expand", w.unsqueeze(x, 2), many), to)


# ------------------------------------------------------------ interpolation


@converts("interpolate", "upsample")
def _(w: Writer, c: Call) -> Val:
    n, last = c.ndim() - 2, (c["data_format"] or "NCHW")[-1] == "C"
    mode = {"nearest": "nearest", "bicubic": "cubic"}.get(c["mode"], "linear")
    if c["mode"] == "area" or c["x"].dtype is not dtypes.float32 or (mode == "nearest" and c["align_corners"]):
        raise Unwritten
    x, perm = c.value("x"), [0, n + 1, *range(1, n + 1)]
    x = w.transpose(x, perm) if last else x
    if c["align_corners"]:
        how = "align_corners"
    elif mode == "nearest" or (mode == "linear" and c.arguments.get("align_mode", 0) == 1):
        how = "asymmetric"
    else:
        how = "pytorch_half_pixel" if mode == "linear" else "half_pixel"
    attrs: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": how}
    if mode == "nearest":
        attrs["nearest_mode"] = "floor"
    if mode == "cubic":
        attrs["cubic_coeff_a"] = -0.75
    size, factor = plain(c["size"]), plain(c["scale_factor"])
    if size is not None:
        if not isinstance(size, Tensor):
            size = list(size) if isinstance(size, (list, tuple)) else [size] * n
        sizes = w("Concat", w.slice(w.shape(x), [0], [0], [2]), w.ints(size), axis=0)
        made = w("Resize", x, None, None, sizes, **attrs)
    else:
        if isinstance(factor, Tensor):
            raise Unwritten
        factor = list(factor) if isinstance(factor, (list, tuple)) else [factor] * n
        if any(isinstance(f, Tensor) for f in factor) or c.arguments.get("recompute_scale_factor"):
            raise Unwritten
        made = w("Resize", x, None, w.constant(np.asarray([1, 1, *factor], np.float32)), **attrs)
    return w.transpose(made, list(np.argsort(perm))) if last else made


@converts("grid_sample")
def _(w: Writer, c: Call) -> Val:
    if c.ndim() != 4 or c["padding_mode"] == "reflection" or c.dtype is not dtypes.float32:
        raise Unwritten
    return w("GridSample", c.value("x"), c.value("grid"), mode=c["mode"], padding_mode={"zeros": "zeros", "border": "border"}[
        c["padding_mode"]], align_corners=int(c["align_corners"]))  # fmt: skip


# ------------------------------------------------------------ recurrences


def _gates(w: Writer, x: Val, order: tuple[int, ...]) -> Val:
    """Parts of a weight or bias in another order."""
    if len(order) == 1:
        return x
    parts = w("Split", x, n=len(order), axis=0, num_outputs=len(order))
    return w("Concat", *[parts[i] for i in order], axis=0)


# the order of gates in ONNX: input, output, forget, cell; update, reset, hidden
RECURRENT = {
    "LSTM": ("LSTM", (0, 3, 1, 2)),
    "GRU": ("GRU", (1, 0, 2)),
    "RNN_TANH": ("RNN", (0,)),
    "RNN_RELU": ("RNN", (0,)),
}


@converts("lstm_of", "gru_of", "sequence_of")
def _(w: Writer, c: Call) -> list[Val]:
    mode = c.arguments.get("mode") or ("LSTM" if "c" in c.arguments else "GRU")
    op, order = RECURRENT[mode]
    lengths = c.arguments.get("lengths")
    if lengths is not None and not c["masked"]:
        raise Unwritten
    units = c["weight_hh"].shape[1]
    weights = [w.unsqueeze(_gates(w, c.value(n, c.dtype), order), 0) for n in ("weight_ih", "weight_hh")]
    zeros = w.constant(np.zeros(units * len(order), c.dtype.np))
    biases = [zeros if c[n] is None else _gates(w, c.value(n, c.dtype), order) for n in ("bias_ih", "bias_hh")]
    bias = w.unsqueeze(w("Concat", *biases, axis=0), 0)
    x = c.value("x", c.dtype)
    x = x if c["time_major"] else w.transpose(x, [1, 0, 2])
    states = [w.unsqueeze(c.value(n, c.dtype), 0) for n in ("h", "c") if c.arguments.get(n) is not None]
    attrs: dict[str, Any] = {"hidden_size": units, "direction": "reverse" if c["reverse"] else "forward"}
    if op == "GRU":
        attrs["linear_before_reset"] = 1
    if mode == "RNN_RELU":
        attrs["activations"] = ["Relu"]
    count = 1 + len(states)
    within = None if lengths is None else w.value(lengths, dtypes.int32)
    made = w(op, x, *weights, bias, within, *states, n=count, **attrs)
    out = w.squeeze(made[0], 1)
    return [out if c["time_major"] else w.transpose(out, [1, 0, 2]), *[w.squeeze(s, 0) for s in made[1:]]]


@converts("recurrence_of")
def _(w: Writer, c: Call) -> list[Val]:
    if c.ndim() != 2:
        raise Unwritten
    mode = c["mode"]
    given, own = _part(w, c, "x", "ih"), _part(w, c, "h", "hh")
    h = c.value("h", c.dtype)
    if mode == "LSTM":
        i, f, g, o = w("Split", given + own, n=4, axis=-1, num_outputs=4)
        cell = w("Sigmoid", f) * c.value("c", c.dtype) + w("Sigmoid", i) * w("Tanh", g)
        new = [w("Sigmoid", o) * w("Tanh", cell), cell]
    elif mode == "GRU":
        xr, xz, xc = w("Split", given, n=3, axis=-1, num_outputs=3)
        hr, hz, hc = w("Split", own, n=3, axis=-1, num_outputs=3)
        z, made = w("Sigmoid", xz + hz), w("Tanh", xc + w("Sigmoid", xr + hr) * hc)
        new = [made + z * (h - made)]
    else:
        new = [w("Tanh" if mode == "RNN_TANH" else "Relu", given + own)]
    if c["weight_ho"] is not None:
        new[0] = w("MatMul", new[0], c.value("weight_ho", c.dtype))
    return new


def _part(w: Writer, c: Call, x: str, which: str) -> Val:
    made = w("MatMul", c.value(x, c.dtype), w.transpose(c.value(f"weight_{which}", c.dtype), [1, 0]))
    return made if c[f"bias_{which}"] is None else made + c.value(f"bias_{which}", c.dtype)
