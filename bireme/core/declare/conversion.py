"""Arguments of operators: one conversion and check per kind of annotation; numbers and the type that operands have in
common.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors, registry
from bireme.core.base.dtype import DType
from bireme.core.base.host_arrays import convert as cast_host
from bireme.core.declare import precision
from bireme.core.graph import segment
from bireme.core.record import guards
from bireme.core.tensor.tensor import Tensor, read

T = TypeVar("T")
# kinds of attributes, as annotations: what the user may pass, and the name of the conversion below
Attr = Annotated[T, "attr"]  # in brackets the types it may have: `Attr[int | Tensor]`
Sizes = Annotated[Any, "attr"]  # of windows, strides and the like: one for all spatial axes, or one for each
Padding = Annotated[Any, "attr"]  # of windows: sizes, pairs of them, or 'SAME' and 'VALID'
DeviceArg = Annotated[Any, "attr"]  # anything that names a device
Axis = Annotated[Any, "axis"]  # one axis of the first operand
Axes = Annotated[Any, "axes"]  # None, one axis or several; a tuple of axes in range, or None
Ints = Annotated[Any, "ints"]  # an int or several, also as tensors; a tuple
Shape = Annotated[Any, "shape"]  # a shape, also as a tensor or with tensors in it; a tuple
DTypeArg = Annotated[Any, "dtype"]  # anything that names a type; a DType or None
Const = Annotated[Any, "const"]  # a number that must be part of the program
Extra = Annotated[T, "extra"]  # only for the operator's prepare rule: never reaches the body
Key = Annotated[Any, "key"]  # a place in the random stream, given by the engine
Size = Annotated[Any, "size"]  # a size that depends on data, computed by the operator's rule


# ---------------------------------------------------------------- attributes: (value, ndim of first operand, where)
# -> hashable


def plain(x: Any, ndim: int, where: str) -> Any:
    if isinstance(x, list):
        return tuple(plain(i, ndim, where) for i in x)
    return x


def whole_number(x: Any, ndim: int, where: str) -> int:
    if isinstance(x, (int, np.integer)) and not isinstance(x, bool):
        return int(x)
    if isinstance(x, Tensor) and x._value.sig.size == 1 and x._value.sig.dtype.kind in "ib":
        return int(x)
    if isinstance(x, np.ndarray) and x.size == 1 and x.dtype.kind in "iu":
        return int(x.item())
    raise errors.bad(where, "an integer", x, kind=errors.ArgumentTypeError)


def _opt_int(x: Any, ndim: int, where: str) -> int | None:
    return None if x is None else whole_number(x, ndim, where)


def _float(x: Any, ndim: int, where: str) -> float | None:
    if x is None:
        return None
    if isinstance(x, (int, float, np.number)) or (isinstance(x, Tensor) and x._value.sig.size == 1):
        return float(x)
    if isinstance(x, np.ndarray) and x.size == 1:
        return float(x.item())
    raise errors.bad(where, "a number", x, kind=errors.ArgumentTypeError)


def number_of(x: Any, ndim: int, where: str) -> float:
    if x is None:
        raise errors.bad(where, "a number", x, kind=errors.ArgumentTypeError)
    return typing.cast(float, _float(x, ndim, where))


def _bool(x: Any, ndim: int, where: str) -> bool | None:
    if x is None or isinstance(x, bool):
        return x
    if isinstance(x, (int, np.bool_, np.integer)) or (isinstance(x, Tensor) and x._value.sig.size == 1):
        return bool(x)
    raise errors.bad(where, "True or False", x, kind=errors.ArgumentTypeError)


def flag(x: Any, ndim: int, where: str) -> bool | None:
    """A bool that is not left open: Paddle takes None for False."""
    return _bool(x, ndim, where) or False


def _str(x: Any, ndim: int, where: str) -> str | None:
    if x is None or isinstance(x, str):
        return x
    raise errors.bad(where, "a string", x, kind=errors.ArgumentTypeError)


def one_axis(x: Any, ndim: int, where: str) -> int:
    """An axis in range, counted from the front."""
    axis = whole_number(x, ndim, where)
    low, high = (-ndim, ndim - 1) if ndim else (-1, 0)
    if not low <= axis <= high:
        raise errors.bad(where, f"an axis in [{low}, {high}]", axis, kind=errors.OutOfRangeError)
    return axis + ndim if axis < 0 and ndim else max(axis, 0)


def _axis(x: Any, ndim: int, where: str) -> int | None:
    return None if x is None else one_axis(x, ndim, where)


def _axes(x: Any, ndim: int, where: str) -> tuple[int, ...] | None:
    if x is None:
        return None
    if isinstance(x, (Tensor, np.ndarray)):
        x = x.tolist()
    if not isinstance(x, (list, tuple, range)):
        return (one_axis(x, ndim, where),) if ndim else _no_axes(x, ndim, where)
    found = [one_axis(i, ndim, where) for i in x]
    if not ndim and len(found) < 2:
        return ()
    if len(set(found)) != len(found):
        raise errors.bad(where, "different axes", list(x))
    return tuple(sorted(found))


def _no_axes(x: Any, ndim: int, where: str) -> tuple[int, ...]:
    one_axis(x, ndim, where)
    return ()


def ints(x: Any, ndim: int, where: str) -> tuple[int, ...] | None:
    """One integer or several as a tuple; tensors among them are read."""
    if x is None:
        return None
    if isinstance(x, Tensor):
        if x._value.sig.dtype.kind != "i":
            raise errors.bad(where, "an integer tensor", x, kind=errors.ArgumentTypeError)
        x = x._host().reshape(-1).tolist()
    if isinstance(x, np.ndarray):
        x = x.reshape(-1).tolist()
    if isinstance(x, (list, tuple, range)):
        return tuple([whole_number(i, ndim, where) for i in x])
    if isinstance(x, (str, bytes, dict, set)):
        raise errors.bad(where, "an integer or a list of integers", x, kind=errors.ArgumentTypeError)
    return (whole_number(x, ndim, where),)


MAX_ELEMENTS = 1 << 40


def shape(x: Any, ndim: int, where: str) -> tuple[int, ...] | None:
    """A shape: integers that are not negative."""
    found = ints(x, ndim, where)
    if found is not None:
        total = 1
        for n in found:
            if n < 0:
                raise errors.bad(where, "non-negative sizes", list(found))
            total *= max(n, 1)
        if total > MAX_ELEMENTS:
            raise errors.bad(
                where,
                f"a shape of at most {MAX_ELEMENTS:,} elements",
                described=f"shape {list(found)}, {total:,} elements",
                kind=MemoryError,
            )
    return found


def _dtype(x: Any, ndim: int, where: str) -> DType | None:
    return None if x is None else dtypes.of(x, where)


def _const(x: Any, ndim: int, where: str) -> Any:
    if isinstance(x, np.generic) or (isinstance(x, Tensor) and x._value.sig.size == 1):
        x = x.item()
    if x is None or isinstance(x, (bool, int, float, complex)):
        return x
    raise errors.bad(where, "a number", x, kind=errors.ArgumentTypeError)


CONVERSIONS: dict[str, Callable] = {
    "attr": plain, "axis": _axis, "axes": _axes, "ints": ints, "shape": shape, "dtype": _dtype, "const": _const,
    "int": _opt_int, "float": _float, "bool": _bool, "str": _str,
}  # fmt: skip


# ---------------------------------------------------------------- numbers and promotion


@functools.cache
def _range(dtype: DType) -> tuple[int, int]:
    """The least and the largest integer of a type."""
    info = np.iinfo(dtype.np)
    return int(info.min), int(info.max)


def number(x: Any, dtype: DType, where: str) -> Any:
    """A Python number that fits the type it will travel in."""
    if isinstance(x, np.generic):
        x = x.item()
    if dtype.kind == "i":
        if isinstance(x, complex):
            raise errors.bad(where, f"a real number for {dtype.name}", x, kind=errors.ArgumentTypeError)
        if isinstance(x, float):
            return int(cast_host(np.array(x), dtype))
        least, most = _range(dtype)
        if not least <= x <= most:
            if dtype.itemsize < 8 and -(2**63) <= x < 2**63:
                return int(np.array(x, np.int64).astype(dtype.np))
            raise errors.bad(where, f"a number in the range of {dtype.name}", x, kind=OverflowError)
        return x
    if dtype.kind == "b":
        return bool(x)
    if dtype.kind == "f":
        if isinstance(x, complex):
            raise errors.bad(where, f"a real number for {dtype.name}", x, kind=errors.ArgumentTypeError)
        return float(x)
    return complex(x)


def common_dtype(op: str, xs: list, mix: str = "scalars", halves: bool = False) -> DType | None:
    """The type of an operator on these operands by Paddle's rules, of which there are five.

    "scalars": floats mix with floats and complex with real; numbers and 0-d tensors give way to the others. "floats": a
    0-d tensor counts like any other. "any": where one is 0-d, the type that holds both. "same": no two types mix.
    "products": like "floats", and an integer tensor takes the type of floats on its left. With `halves`, which is mixed
    precision, float32 and half precision mix in all of them.
    """
    full: DType | None = None
    scalar: DType | None = None
    for x in xs:
        for t in x if isinstance(x, list) else [x]:
            if not isinstance(t, Tensor):
                continue
            sig = t._value.sig
            if sig.ndim == 0 and mix in ("scalars", "any"):
                scalar = sig.dtype if scalar is None else dtypes.promote_any(scalar, sig.dtype)
            elif full is None:
                full = sig.dtype
            elif full is not sig.dtype:
                mixes = mix != "same" or (halves and precision.MIXED.issuperset((full, sig.dtype)))
                both = dtypes.promote(full, sig.dtype) if mixes else None
                if both is None and mix == "products" and full.kind == "f" and sig.dtype.is_integer:
                    both = full
                if both is None:
                    got = f"{full.name} and {sig.dtype.name}"
                    raise errors.bad(
                        f"{op}()",
                        "operands whose dtypes promote",
                        described=got,
                        hint="cast one of them: x.astype(...)",
                        kind=errors.DtypeError,
                    )
                full = both
    if full is None or scalar is None or scalar is full:
        found = scalar if full is None else full
    else:
        found = (dtypes.promote_any if mix == "any" else dtypes.promote_scalar)(full, scalar)
    if found is None or mix == "same":
        return found
    for x in xs:
        if not isinstance(x, (Tensor, list)):
            own = dtypes.promote(found, dtypes.of_number(x)) if mix == "floats" else None
            found = own or dtypes.promote_number(found, x)
    return found


# ---------------------------------------------------------------- indices


def _where_called(where: str, names: tuple[str, ...]) -> str:
    return where if len(names) < 2 else errors.called(names) + where.removeprefix(names[0])


MOST_LOOKED_AT = 1 << 16  # elements of a storage, of which a view may be a small part


def _of_storage(t: Tensor) -> tuple[int, int] | None:
    """Least and most in the storage that a view shows a part of, as `targets[:, i]` does, where that is on the host."""
    if t._view is None or not all(bound.op.linear for bound, _ in t._view.path):
        return None
    v = t._view.cell.value
    if v.bounds is None and v.array.__class__ is np.ndarray and v.device.is_cpu and 0 < v.sig.size <= MOST_LOOKED_AT:
        v.bounds = int(v.array.min()), int(v.array.max())
    return v.bounds


def check_range(
    where: str,
    t: Any,
    low: int,
    high: int,
    ignored: int | None = None,
    part_of: Any = None,
    names: tuple[str, ...] = (),
) -> None:
    """Raise for an index outside [low, high) that is not the ignored one: now if the host knows it, else by a guard.

    `part_of` is the tensor that the call reads, where it is not `t` itself; `names` are the functions that it may be
    called by, `where` is told of the first.
    """
    if not isinstance(t, Tensor):
        return
    v = read(t)
    if v.sig.size == 0 or v.sig.dtype.kind != "i":  # another type is refused by the operator itself
        return
    known = v.bounds or _of_storage(t)  # from before it went to the device
    if known is not None and low <= known[0] and known[1] < high:
        return
    wanted = f"indices in [{low}, {high - 1}]" + ("" if ignored is None else f" or {ignored}")
    on_host = v.array is not None and (isinstance(v.array, np.ndarray) or v.device.is_cpu)
    if on_host:
        host = np.asarray(v.array)
        if v.bounds is None:
            v.bounds = (int(host.min()), int(host.max()))
        least, most = v.bounds
        if ignored is not None and (least < low or most >= high):
            wrong = host[((host < low) | (host >= high)) & (host != ignored)]
            least, most = (int(wrong.min()), int(wrong.max())) if wrong.size else (low, low)
        if least < low or most >= high:
            where = _where_called(where, names)
            raise errors.bad(where, wanted, least if least < low else most, kind=errors.OutOfRangeError)
    elif not segment.local.segment.symbolic:
        low, high = (low, high) if ignored is None else (min(low, ignored), max(high, ignored + 1))
        # no part of what a composite remembers: the operator asks again each time
        trace, segment.local.trace = segment.local.trace, None
        try:
            flag = registry.find("any_outside")(t, low, high)
            of = v if part_of is None else read(part_of)
            where = _where_called(where, names)
            guards.guard(
                flag._value, of, f"{where}: expected {wanted}, got an index out of range", errors.OutOfRangeError
            )
        finally:
            segment.local.trace = trace
