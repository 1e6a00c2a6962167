"""Data types: Paddle's set, its promotion rules and its default floating type."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from bireme.core.base import errors
from bireme.core.base.boundary import guarded
from bireme.core.base.keywords import renamed

package = ["bireme"]  # in whose name types print: `compat.install_as_paddle` makes it Paddle's


class DType:
    """A data type of tensors, such as ``bireme.float32``; there is exactly one object per type.

    The constructor is not called by users: use the objects, or their names as strings.

    Args:
        name: Name of the type.
        np_type: The type in NumPy.
        kind: ``"b"``, ``"i"``, ``"f"`` or ``"c"``: bool, integer, floating point or complex.
        rank: Position in type promotion.

    Examples:
        >>> bireme.ones([1]).dtype is bireme.float32, bireme.float32.itemsize
        (True, 4)
    """

    __slots__ = ("name", "np", "itemsize", "kind", "rank")

    @guarded
    def __init__(self, name: str, np_type: Any, kind: str, rank: int):
        self.name, self.np, self.kind, self.rank = name, np.dtype(np_type), kind, rank
        self.itemsize = self.np.itemsize

    @property
    def is_floating(self) -> bool:
        """Whether it is a floating-point type."""
        return self.kind == "f"

    @property
    def is_complex(self) -> bool:
        """Whether it is a complex type."""
        return self.kind == "c"

    @property
    def is_integer(self) -> bool:
        """Whether it is an integer type."""
        return self.kind == "i"

    @property
    def is_inexact(self) -> bool:
        """Whether it is a floating-point or complex type."""
        return self.kind in "fc"

    def __repr__(self) -> str:
        return f"{package[0]}.{self.name}"

    @property
    def value(self) -> int:
        """The number of the type in Paddle's enumeration."""
        return _NUMBERS[self.name]

    def __reduce__(self):
        return _named, (self.name,)

    def __copy__(self) -> DType:
        return self

    def __deepcopy__(self, memo) -> DType:
        return self


class OpaqueType(DType):
    """A type that Paddle names and no tensor here can have."""

    __slots__ = ()


_NUMBERS = {
    "raw": 0,
    "bool": 1,
    "uint8": 2,
    "int8": 3,
    "uint16": 4,
    "int16": 5,
    "uint32": 6,
    "int32": 7,
    "uint64": 8,
    "int64": 9,
    "float32": 10,
    "float64": 11,
    "complex64": 12,
    "complex128": 13,
    "pstring": 14,
    "float16": 15,
    "bfloat16": 16,
    "float8_e4m3fn": 17,
    "float8_e5m2": 18,
}

bool_ = DType("bool", np.bool_, "b", 0)
uint8 = DType("uint8", np.uint8, "i", 1)
int8 = DType("int8", np.int8, "i", 2)
int16 = DType("int16", np.int16, "i", 3)
uint16 = DType("uint16", np.uint16, "i", 3)
uint32 = DType("uint32", np.uint32, "i", 4)
int32 = DType("int32", np.int32, "i", 4)
uint64 = DType("uint64", np.uint64, "i", 5)
int64 = DType("int64", np.int64, "i", 5)
float8_e4m3fn = DType("float8_e4m3fn", ml_dtypes.float8_e4m3fn, "f", 6)
float8_e5m2 = DType("float8_e5m2", ml_dtypes.float8_e5m2, "f", 6)
float16 = DType("float16", np.float16, "f", 7)
bfloat16 = DType("bfloat16", ml_dtypes.bfloat16, "f", 7)
float32 = DType("float32", np.float32, "f", 8)
float64 = DType("float64", np.float64, "f", 9)
complex64 = DType("complex64", np.complex64, "c", 10)
complex128 = DType("complex128", np.complex128, "c", 11)
pstring = OpaqueType("pstring", np.str_, "s", -1)
raw = OpaqueType("raw", np.void, "v", -1)

ALL = (
    bool_, uint8, int8, int16, uint16, uint32, int32, uint64, int64, float8_e4m3fn, float8_e5m2,
    float16, bfloat16, float32, float64, complex64, complex128,
)  # fmt: skip
for _d in ALL:
    setattr(DType, _d.name.upper(), _d)  # `paddle.dtype.FLOAT32`, which is `paddle.base.core.DataType.FLOAT32`
# the public set; unsigned words beyond uint8 exist for the engine (random bits) and for arrays that come from outside
PUBLIC = tuple(d for d in ALL if d.name not in ("uint16", "uint32", "uint64"))
FLOAT = frozenset((float16, bfloat16, float32, float64))
NARROW = frozenset((float8_e4m3fn, float8_e5m2, float16, bfloat16))
COMPLEX = frozenset((complex64, complex128))
INT = frozenset((uint8, int8, int16, int32, int64))
BOOL = frozenset((bool_,))

_BY_NAME = {d.name: d for d in ALL} | {
    "float": float64,
    "double": float64,
    "half": float16,
    "int": int64,
    "long": int64,
}
NAMES = frozenset(_BY_NAME)
_BY_NUMPY = {d.np: d for d in ALL}
_OF_NUMPY = (
    "bool_",
    "byte",
    "ubyte",
    "short",
    "intc",
    "int_",
    "single",
    "complex",
    "csingle",
    "cdouble",
    "i2",
    "i4",
    "i8",
    "f2",
    "f4",
    "f8",
)
_BY_NAME |= {n: _BY_NUMPY[np.dtype(n)] for n in _OF_NUMPY}
_OPAQUE = {d.name: d for d in (pstring, raw)}
_REAL_OF = {complex64: float32, complex128: float64}
_COMPLEX_OF = {float16: complex64, bfloat16: complex64, float32: complex64, float64: complex128}


DTypeLike = DType | np.dtype | type | str  # what `of` reads, as annotations name it


def of(spec: Any, where: str = "dtype") -> DType:
    """The DType named by `spec`: a DType, a name, a NumPy type or a Python type."""
    if type(spec) is DType:
        return spec
    if isinstance(spec, str):
        found = _BY_NAME.get(spec.removeprefix("bireme.").removeprefix("paddle."))
        if found is not None:
            return found
    elif isinstance(spec, type) and spec in _PYTHON:
        return _PYTHON[spec]
    elif spec is not None:  # NumPy reads None as float64
        try:
            found = _BY_NUMPY.get(np.dtype(spec))
        except (TypeError, ValueError):
            found = None
        if found is not None:
            return found
    raise errors.bad(
        where,
        f"a data type such as 'float32', one of {', '.join(d.name for d in PUBLIC)}",
        spec,
        kind=errors.ArgumentTypeError,
    )


def _named(name: str) -> DType:
    return _BY_NAME.get(name) or _OPAQUE[name]


def from_numpy(np_dtype: Any) -> DType:
    """The DType of a NumPy array's dtype; a clear error for strings, objects and dates."""
    found = _BY_NUMPY.get(np_dtype)
    if found is None:
        found = _BY_NUMPY.get(np.dtype(np_dtype).newbyteorder("="))
    if found is None:
        raise errors.bad(
            "to_tensor(data)", "numeric data", described=f"an array of dtype {np_dtype}", kind=errors.ArgumentTypeError
        )
    return found


_default = [float32]  # one for the process, as in Paddle


def as_paddle_shows(host: np.ndarray) -> np.ndarray:
    """bfloat16 as Paddle's programs know it in arrays, by its bits, where Paddle's name is taken: they turn those into
    floats themselves.
    """
    return host.view(np.uint16) if package[0] != "bireme" and host.dtype == bfloat16.np else host


def get_default() -> DType:
    return _default[0]


def set_default(spec: Any) -> None:
    """Set the default type alone: `precision.set_default` tells the memories of calls too."""
    dtype = of(spec, "set_default_dtype(d)")
    if dtype not in FLOAT:
        raise errors.bad(
            "set_default_dtype(d)",
            "float16, bfloat16, float32 or float64",
            dtype.name,
            kind=errors.ArgumentTypeError,
        )
    _default[0] = dtype


_PYTHON = {bool: bool_, int: int64, float: float64, complex: complex128}  # as NumPy reads them


def real_of(dtype: DType) -> DType:
    return _REAL_OF.get(dtype, dtype)


def complex_of(dtype: DType) -> DType:
    """The complex type that holds `dtype`; integers take the default float's."""
    return dtype if dtype.kind == "c" else _COMPLEX_OF.get(dtype, _COMPLEX_OF[get_default()])


def of_number(x: Any) -> DType:
    """The type that a bare Python number has as a tensor: int64, the default float, its complex type."""
    if isinstance(x, (bool, np.bool_)):
        return bool_
    if isinstance(x, (int, np.integer)):
        return int64
    if isinstance(x, (float, np.floating)):
        return get_default()
    return _COMPLEX_OF[get_default()]


def promote_number(tensor: DType, x: Any) -> DType:
    """Type of `tensor op number`: the tensor's, unless the number is of a higher kind (int tensor + 1.5 is float32)."""
    if isinstance(x, (bool, np.bool_)):
        return tensor
    if isinstance(x, (int, np.integer)):
        return int64 if tensor is bool_ else tensor
    if isinstance(x, (float, np.floating)):
        return tensor if tensor.kind in "fc" else float32  # whatever the default type is, as in Paddle
    return complex_of(tensor) if tensor.kind in "fc" else complex64


def promote(x: DType, y: DType) -> DType | None:
    """Type of `x op y` for two tensors of rank one or more; None where Paddle refuses the pair."""
    if x is y:
        return x
    if x.kind == "f" and y.kind == "f":
        if x.rank == y.rank:  # float16 with bfloat16: neither holds the other
            return float32
        return x if x.rank > y.rank else y
    if x.kind == "c" or y.kind == "c":
        real = promote_any(real_of(x), real_of(y))
        return _COMPLEX_OF.get(real, complex64)
    return None


def promote_any(x: DType, y: DType) -> DType:
    """Type that holds both, for the places where Paddle does promote across kinds (0-d operands)."""
    if x is y:
        return x
    same = promote(x, y)
    if same is not None:
        return same
    if x.kind == y.kind == "i":
        return _BY_NUMPY.get(np.promote_types(x.np, y.np), int64)
    order = "bifc"
    return x if order.index(x.kind) > order.index(y.kind) else y


def promote_scalar(tensor: DType, scalar: DType) -> DType:
    """Type of a tensor with a 0-d tensor: the 0-d one gives way unless its kind is higher."""
    # complex with real: the width of both counts, whatever the rank
    if (tensor.kind == "c") is not (scalar.kind == "c"):
        both = promote(tensor, scalar)
        assert both is not None
        return both
    order = "bifc"
    return tensor if order.index(scalar.kind) <= order.index(tensor.kind) else scalar


class finfo:
    """Limits of a floating-point dtype.

    It has the attributes ``min``, ``max``, ``eps``, ``tiny``, ``smallest_normal``, ``resolution``, ``bits`` and
    ``dtype``.

    Args:
        dtype: A floating-point or complex dtype; for a complex one, those of its parts.

    Examples:
        >>> bireme.finfo("float32").bits, bireme.finfo("float16").max
        (32, 65504.0)
    """

    @renamed(dtype="type")
    def __init__(self, dtype: Any):
        d = of(dtype, "finfo(dtype)")
        if d.kind not in "fc":
            raise errors.bad("finfo(dtype)", "a floating-point dtype", described=d.name)
        info = ml_dtypes.finfo(real_of(d).np)
        self.min, self.max, self.eps, self.tiny = float(info.min), float(info.max), float(info.eps), float(info.tiny)
        self.resolution = 10.0**-info.precision
        self.smallest_normal = float(info.tiny)
        self.bits = int(info.bits)
        self.dtype = real_of(d).name

    def __repr__(self) -> str:
        numbers = ", ".join(
            [
                f"{name}={getattr(self, name):g}"
                for name in ("min", "max", "eps", "resolution", "smallest_normal", "tiny")
            ]
        )
        return f"{package[0]}.finfo({numbers}, bits={self.bits}, dtype={self.dtype})"


class iinfo:
    """Limits of an integer dtype.

    It has the attributes ``min``, ``max``, ``bits`` and ``dtype``.

    Args:
        dtype: An integer dtype.

    Examples:
        >>> bireme.iinfo("int8").max
        127
    """

    def __init__(self, dtype: Any):
        d = of(dtype, "iinfo(dtype)")
        if d.kind != "i":
            raise errors.bad("iinfo(dtype)", "an integer dtype", described=d.name, kind=errors.for_integer(d.name))
        info = np.iinfo(d.np)
        self.min, self.max, self.bits, self.dtype = int(info.min), int(info.max), int(info.bits), d.name

    def __repr__(self) -> str:
        return f"{package[0]}.iinfo(min={self.min}, max={self.max}, bits={self.bits}, dtype={self.dtype})"
