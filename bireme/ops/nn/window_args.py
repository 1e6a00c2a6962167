"""Arguments of operators over windows: one integer an axis, paddings and data formats in all of Paddle's forms."""

from __future__ import annotations

import functools
from typing import Any

from bireme.core.base import errors
from bireme.core.declare.conversion import ints

FORMATS = {1: ("NCL", "NLC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}
AXES = {1: "length", 2: "height, width", 3: "depth, height, width"}
COUNTS = {1: "an integer", 2: "an integer or two integers", 3: "an integer or three integers"}


def per_axis(x: Any, n: int, where: str, least: int = 1) -> tuple[int, ...]:
    """One integer for all axes, or one for each of them."""
    found = ints(x, 0, where)
    if found is None or len(found) not in (1, n):
        raise errors.bad(where, COUNTS[n], x, kind=errors.ArgumentTypeError)
    if min(found) < least:
        wanted = "positive" if least else "non-negative"
        if isinstance(x, (list, tuple)):
            raise errors.bad(where, f"{wanted} integers", list(found))
        raise errors.bad(where, f"a {wanted} integer", found[0])
    return found if len(found) == n else found * n


def channels_last(data_format: Any, n: int, name: str) -> bool:
    first, last = FORMATS[n]
    if data_format not in (first, last):
        raise errors.bad(f"{name}(data_format)", f"'{first}' or '{last}'", data_format)
    return data_format == last


def check_image(name: str, x: Any, n: int, last: bool) -> None:
    """`x` has a batch, channels and `n` spatial axes."""
    if x.ndim != n + 2:
        shape = f"[batch, {AXES[n]}, channels]" if last else f"[batch, channels, {AXES[n]}]"
        raise errors.bad(f"{name}(x)", f"shape {shape}", described=f"shape {list(x.shape)}", kind=errors.ShapeError)


def spatial(shape: Any, last: bool) -> tuple[int, ...]:
    """The sizes of the spatial axes."""
    return tuple(shape[1:-1] if last else shape[2:])


def edges_of(padding: Any, n: int, last: bool, where: str) -> Any:
    """'SAME', 'VALID', or what is added before and after each spatial axis."""
    if isinstance(padding, str):
        if padding.upper() not in ("SAME", "VALID"):
            raise errors.bad(where, "'SAME', 'VALID' or integers", padding)
        return padding.upper()
    if (
        isinstance(padding, (list, tuple))
        and len(padding) == n + 2
        and all(isinstance(p, (list, tuple)) for p in padding)
    ):
        pairs = [ints(p, 0, where) for p in padding]
        if any(p is None or len(p) != 2 for p in pairs):
            raise errors.bad(where, "two integers per axis", padding)
        others, found = ([pairs[0], pairs[-1]], pairs[1:-1]) if last else (pairs[:2], pairs[2:])
        if any(p != (0, 0) for p in others):
            raise errors.bad(where, "no padding of the batch and channel dimensions", padding)
    else:
        flat = ints(padding, 0, where)
        if flat is None or len(flat) not in (1, n, 2 * n):
            raise errors.bad(where, f"{COUNTS[n]}, or two per axis", padding)
        if len(flat) == 2 * n:
            found = [(flat[2 * i], flat[2 * i + 1]) for i in range(n)]
        else:
            found = [(p, p) for p in (flat if len(flat) == n else flat * n)]
    if min(min(p) for p in found if p) < 0:
        raise errors.bad(where, "non-negative padding", padding)
    return tuple(found)


def same_edges(dims: Any, window: Any, stride: Any) -> tuple[tuple[int, int], ...]:
    """What 'SAME' adds, so that there is a result for every `stride` elements: the odd one goes to the end."""
    need = [max(0, (-(-m // s) - 1) * s + k - m) for m, k, s in zip(dims, window, stride)]
    return tuple([(p // 2, p - p // 2) for p in need])


def settled(edges: Any, dims: Any, window: Any, stride: Any) -> tuple[tuple[int, int], ...]:
    """The same in numbers."""
    if edges == "SAME":
        return same_edges(dims, window, stride)
    return tuple([(0, 0)] * len(dims)) if edges == "VALID" else edges


def reached(edges: Any, dims: Any, window: Any, stride: Any) -> tuple[tuple[int, int], ...]:
    """Edges with zeros behind an axis less than a stride short of a window: Paddle divides towards 0 and counts one."""
    short = [k - n - a - b for (a, b), n, k in zip(edges, dims, window)]
    return tuple([(a, b + m) if 0 < m < s else (a, b) for (a, b), m, s in zip(edges, short, stride)])


def count(n: int, window: int, stride: int, edges: tuple[int, int], ceil_mode: bool = False) -> int:
    """The number of windows along an axis; Paddle divides towards 0 where one reaches over the edge."""
    room = n + sum(edges) - window + (stride - 1 if ceil_mode else 0)
    return (room // stride if room >= 0 else -(-room // stride)) + 1


class Windows:
    """Windows over all spatial axes of an image: sizes, strides, padding before the image, and their number."""

    def __init__(
        self, dims: tuple[int, ...], size: tuple[int, ...], stride: tuple[int, ...], edges: Any, ceil_mode: bool = False
    ):
        self.dims, self.size, self.stride = dims, size, stride
        self.before = tuple([a for a, _ in edges])
        self.out = tuple([count(n, k, s, e, ceil_mode) for n, k, s, e in zip(dims, size, stride, edges)])

    def shape(self, whole: Any, last: bool) -> tuple[int, ...]:
        """The shape of the result for an image of shape `whole`."""
        return (whole[0], *self.out, whole[-1]) if last else (*whole[:2], *self.out)

    @functools.cached_property
    def config(self) -> list[tuple[int, int, int]]:
        """What is added or cut off on either side, so that the windows fill the axis exactly."""
        axes = zip(self.dims, self.size, self.stride, self.before, self.out)
        return [(a, (o - 1) * s + k - n - a, 0) for n, k, s, a, o in axes]

    @property
    def within(self) -> bool:
        """Whether no window reads more than the image has."""
        return all(a == 0 and b <= 0 for a, b, _ in self.config)

    def counts(self, inside: bool) -> list[list[int]]:
        """Elements of each window by axis: those inside the image, or also those of the padding.

        Behind the image as many of the padding count as are before it: so Paddle has it, also where there are more.
        """
        found = []
        for n, k, s, a, o in zip(self.dims, self.size, self.stride, self.before, self.out):
            low, high = (0, n) if inside else (-a, n + a)
            found.append([max(0, min(i * s - a + k, high) - max(i * s - a, low)) for i in range(o)])
        return found


def pool_arguments(name: str, n: int, arguments: dict[str, Any]) -> None:
    """Complete the arguments of a pooling operator: one integer an axis, and the padding before and after it."""
    x = arguments["x"]
    last = channels_last(arguments.get("data_format", FORMATS[n][0]), n, name)
    check_image(name, x, n, last)
    size = per_axis(arguments["kernel_size"], n, f"{name}(kernel_size)")
    stride = size if arguments["stride"] is None else per_axis(arguments["stride"], n, f"{name}(stride)")
    edges = edges_of(arguments["padding"], n, last, f"{name}(padding)")
    if edges == "VALID" and arguments["ceil_mode"]:
        raise errors.bad(f"{name}(ceil_mode)", "False, because padding is 'VALID'", True)
    dims = spatial(x.shape, last)
    arguments["kernel_size"], arguments["stride"] = size, stride
    arguments["padding"] = edges = settled(edges, dims, size, stride)
    for m, k, o in zip(dims, size, Windows(dims, size, stride, edges, arguments["ceil_mode"]).out):
        if o < 0:
            raise errors.bad(
                f"{name}(kernel_size)", f"a kernel size of at most the padded input size, for an input size of {m}", k
            )
