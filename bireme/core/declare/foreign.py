"""Operators whose kernels stand in a compiled library, written in C++ with `bireme/extension.h`.

A kernel is called through XLA's foreign function interface by programs for the host, as a plain function by the interpreter,
and by a call back to the host from programs for an accelerator. A library with kernels in CUDA is called by programs for a
GPU as by those for the host. Compiling libraries is the business of `utils.cpp_extension`.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import inspect
import json
import keyword
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.declare.conversion import Attr  # noqa: F401  # annotations name it
from bireme.core.declare.op import Op, declared
from bireme.core.graph.graph import Sig, sig_of
from bireme.core.numpy_exec import primitives
from bireme.core.tensor.tensor import Tensor  # noqa: F401  # the same

GRAD = "@GRAD"
TAKEN = {"g", "out", "sigs", "needs", "name"}  # what gradient rules and calls mean by these names
ANNOTATIONS = {
    "bool": "bool",
    "int": "int",
    "int64_t": "int",
    "float": "float",
    "double": "float",
    "std::string": "str",
}
ITEMS = {
    "bool": "bool",
    "int": "integer",
    "int64_t": "integer",
    "float": "number",
    "double": "number",
    "std::string": "str",
}
TYPES: dict[str, Any] = {
    "bool": bool,
    "integer": (int, np.integer),
    "number": (int, float, np.integer, np.floating),
    "str": str,
}


def include_directory() -> str:
    """Where the headers of XLA's foreign function interface are."""
    return jax.ffi.include_dir()


def packed(*items: Any) -> bytes:
    """Texts one after another, each behind its length: what `Items` in the header reads."""
    found = [x if isinstance(x, bytes) else str(x).encode() for x in items]
    return b"".join([b"%d:%s" % (len(x), x) for x in found])


class Slot:
    """An input or output as it is declared: its name, and whether it is a list or may be left out."""

    def __init__(self, written: str):
        self.name = written.replace("@VECTOR", "").replace("@OPTIONAL", "")
        self.many, self.optional = "@VECTOR" in written, "@OPTIONAL" in written
        self.public = self.name.lower()


class Kernel:
    """One kernel of a library: an operator, its gradient, or the gradient of that."""

    def __init__(self, library: Library, place: int, told: dict[str, Any]):
        self.library, self.place = library, place
        self.name, self.order = told["name"], told["order"]
        self.inputs, self.outputs = [Slot(x) for x in told["inputs"]], [Slot(x) for x in told["outputs"]]
        self.attrs = {name.strip(): kind.strip() for name, _, kind in (x.partition(":") for x in told["attrs"])}
        self.has_kernel, self.has_shape, self.has_type = told["kernel"], told["shape"], told["type"]
        self.writes = told["writes"]

    def head(self, groups: Sequence[Any], attrs: dict[str, Any]) -> bytes:
        """The kernel, how its inputs are given, and its attributes."""
        layout = ["-1" if x is None else str(len(x)) if isinstance(x, (list, tuple)) else "one" for x in groups]
        return packed(self.place, len(layout), *layout) + b"".join(
            [self._attribute(name, kind, attrs[name]) for name, kind in self.attrs.items()]
        )

    def _attribute(self, name: str, kind: str, value: Any) -> bytes:
        inner = kind.removeprefix("std::vector<").removesuffix(">")
        word, many = ITEMS[inner], inner != kind
        values = value if many else [value]
        allowed = TYPES[word]
        if not isinstance(values, (list, tuple)) or not all(
            isinstance(x, allowed) and (word == "bool" or not isinstance(x, bool)) for x in values
        ):
            wanted = f"a list of {word}s" if many else f"a {word}"
            raise errors.bad(f"{self.name}({name})", wanted, value, kind=errors.ArgumentTypeError)
        bits = 31 if inner == "int" else 63
        if word == "integer" and not all(-(1 << bits) <= x < 1 << bits for x in values):
            raise errors.bad(f"{self.name}({name})", f"integers of {bits + 1} bits", value)
        if word == "number":  # as bits: digits would depend on the locale of whoever reads them
            values = [struct.unpack("<Q", struct.pack("<d", float(x)))[0] for x in values]
        elif word in ("bool", "integer"):
            values = [int(x) for x in values]
        return packed(len(values), *values)

    def infer(self, groups: Sequence[Any], attrs: dict[str, Any], like: dict[str, Any]) -> list[Sig]:
        """Sigs of the outputs: what the library says, else those of what they are the gradients of, which are in
        `like`, or of the only input.
        """
        types, shapes = self.library.infer(self, self.head(groups, attrs), flat(groups))
        same = flat([like[slot.name.removesuffix(GRAD)] for slot in self.outputs] if self.order else groups)
        types, shapes = types or [s.dtype for s in same], shapes or [s.shape for s in same]
        if len(types) != len(shapes) or len(types) != (len(same) if self.order else len(self.outputs)):
            raise errors.failure(
                f"{self.name}: expected {len(self.outputs)} shapes and types of its InferShapeFn and InferDtypeFn, "
                f"got {len(shapes)} and {len(types)}"
            )
        return [sig_of(shape, kind) for shape, kind in zip(shapes, types)]

    def call(self, platform: str, groups: Sequence[Any], attrs: dict[str, Any], like: dict[str, Any]) -> list[Any]:
        """The results on jax arrays, as a flat list."""
        sigs = self.infer([_sigs(x) for x in groups], attrs, like)
        outs = [jax.ShapeDtypeStruct(s.shape, s.dtype.np) for s in sigs]
        head = self.head(groups, attrs)
        compiled = jax.ffi.ffi_call(self.library.target, outs, vmap_method="sequential")
        by_xla = functools.partial(compiled, call=head.decode())

        def called_back(*arrays: Any) -> list[Any]:
            run = functools.partial(self.library.run, head, outs)
            return jax.pure_callback(run, outs, *arrays, vmap_method="sequential")

        if platform == "cpu":
            return list(by_xla(*flat(groups)))
        there = {"cuda": by_xla} if self.library.on_gpu else {}
        return list(jax.lax.platform_dependent(*flat(groups), cpu=by_xla, default=called_back, **there))


class Library:
    """A compiled library of operators."""

    def __init__(self, path: str, key: str):
        self._code = ctypes.CDLL(path)
        for name in ("bireme_describe", "bireme_infer", "bireme_run"):
            getattr(self._code, name).restype = ctypes.c_char_p
        size = ctypes.c_size_t
        self._code.bireme_infer.argtypes = [ctypes.c_char_p, size, ctypes.c_char_p, size]
        self._code.bireme_run.argtypes = [*self._code.bireme_infer.argtypes, ctypes.c_void_p]
        # by what is in it: a compiled program on disk that names the target finds the same code again, or none
        self.target = f"bireme.extension.{key}"
        told = json.loads(_answer(self._code.bireme_describe(), "describe"))
        self.kernels = [Kernel(self, place, x) for place, x in enumerate(told)]
        jax.ffi.register_ffi_target(self.target, jax.ffi.pycapsule(self._code.bireme_ffi), platform="cpu")
        self.on_gpu = hasattr(self._code, "bireme_ffi_cuda")
        if self.on_gpu:
            jax.ffi.register_ffi_target(self.target, jax.ffi.pycapsule(self._code.bireme_ffi_cuda), platform="CUDA")
        primitives.FOREIGN[self.target] = lambda attributes, outs: functools.partial(
            self.run, attributes["call"].encode(), outs
        )

    def infer(self, kernel: Kernel, head: bytes, sigs: list[Sig]) -> tuple[list[Any], list[tuple[int, ...]]]:
        """Types and shapes of the results, each empty where the library does not say."""
        if not kernel.has_shape and not kernel.has_type:
            return [], []
        told = _all_described(tuple([(s.dtype.np, s.shape) for s in sigs]))
        answer = _answer(self._code.bireme_infer(head, len(head), told, len(told)), kernel.name, errors.ShapeError)
        types, shapes = answer.split("\n")
        return [dtypes.of(x, kernel.name) for x in types.split()], [tuple(json.loads(x)) for x in shapes.split()]

    def run(self, head: bytes, outs: Sequence[Any], *arrays: Any) -> list[np.ndarray]:
        """Call a kernel on host arrays."""
        given = [np.asarray(x, order="C") for x in arrays]
        made = [np.empty(o.shape, o.dtype) for o in outs]
        told = b"".join([_all_described(tuple([(x.dtype, x.shape) for x in part])) for part in (given, made)])
        pointers = (ctypes.c_void_p * (len(given) + len(made)))(*[x.ctypes.data for x in (*given, *made)])
        kernel = self.kernels[int(head[head.index(b":") + 1 :][: int(head[: head.index(b":")])])]
        _answer(self._code.bireme_run(head, len(head), told, len(told), ctypes.byref(pointers)), kernel.name)
        return made


_libraries: dict[str, Library] = {}
_loading = threading.Lock()


def loaded(path: str) -> Library:
    """The library in a file; one with the same contents is loaded once."""
    with open(path, "rb") as file:
        key = hashlib.sha256(file.read()).hexdigest()[:32]
    with _loading:
        if key not in _libraries:
            _libraries[key] = Library(path, key)
        return _libraries[key]


def _answer(answer: bytes, name: str, kind: type[Exception] = RuntimeError) -> str:
    text = answer.decode("utf-8", "replace")
    if text[:1] != "+":
        raise errors.failure(f"{name}: {text[1:]}", kind=kind)
    return text[1:]


@functools.lru_cache(maxsize=4096)
def _all_described(kinds: tuple[tuple[np.dtype, tuple[int, ...]], ...]) -> bytes:
    """Types and shapes as `Described` in the header reads them."""
    return packed(len(kinds)) + b"".join([packed(kind.name, len(shape), *shape) for kind, shape in kinds])


def _sigs(x: Any) -> Any:
    """Of a group of arrays, a group of Sigs."""
    if x is None or isinstance(x, (list, tuple)):
        return None if x is None else [_sigs(a) for a in x]
    return sig_of(tuple(x.shape), dtypes.from_numpy(np.dtype(x.dtype)))


def flat(groups: Sequence[Any]) -> list[Any]:
    """What is in groups, one after another: a group is one thing, a list of them, or None."""
    return [x for group in groups for x in (group if isinstance(group, (list, tuple)) else [group]) if x is not None]


# ---------------------------------------------------------------- declaring


def declare(library: Library, module: str) -> dict[str, Callable]:
    """The public functions of all operators of a library, which become operators of this process."""
    kernels = {(k.name, k.order): k for k in library.kernels}
    for kernel in library.kernels:
        _check(kernel, kernels)
    return {k.name: _operator(k, kernels, module).public for k in library.kernels if k.order == 0}


def _operator(kernel: Kernel, kernels: dict[tuple[str, int], Kernel], module: str) -> Op:
    grad = kernels.get((kernel.name, 1))
    attrs = {name: name.lower() for name in kernel.attrs}

    def given(named: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        return [named[slot.public] for slot in kernel.inputs], {name: named[public] for name, public in attrs.items()}

    def on(platform: str, **named: Any) -> Any:
        found = kernel.call(platform, *given(named), {})
        return found if len(kernel.outputs) > 1 else found[0]

    def body(**named: Any) -> Any:
        return on("any", **named)

    def infer(**named: Any) -> tuple[Sig, ...]:
        return tuple(kernel.infer(*given(named), {}))

    written = {
        slot.public: "list[Tensor]" if slot.many else "Tensor | None" if slot.optional else "Tensor"
        for slot in kernel.inputs
    }
    written |= {attrs[name]: ANNOTATIONS.get(kind, "Attr") for name, kind in kernel.attrs.items()}
    body.__annotations__ = {**written, "return": "Tensor" if len(kernel.outputs) == 1 else "list[Tensor]"}
    body.__name__ = body.__qualname__ = kernel.name
    body.__module__, body.__doc__ = module, f"The operator ``{kernel.name}`` of the extension ``{module}``, in C++."
    body.__signature__ = infer.__signature__ = _signature(written)  # type: ignore[attr-defined]  # functions may have it
    # a kernel for GPUs may be the only one
    made = Op(body, {"differentiable": grad is not None, "device_only": kernel.library.on_gpu})
    made.on("cpu")(functools.partial(on, "cpu"))
    made.infer(infer)
    if grad is not None:
        _declare_gradient(made, kernel, grad, kernels.get((kernel.name, 2)))
    return declared(made)


def _signature(names: Any) -> inspect.Signature:
    return inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names])


def _declare_gradient(made: Op, kernel: Kernel, grad: Kernel, further: Kernel | None) -> None:
    """The gradient rule, which names what the kernel of the gradient reads."""
    reads = {slot.name for slot in grad.inputs}
    outputs = [slot.name for slot in kernel.outputs]
    # of a list, or of what may be left out, only the value says how many there are
    by_sig = not any(slot.many or slot.optional for slot in kernel.inputs)
    names = [slot.public for slot in kernel.inputs if slot.name in reads or not by_sig]
    names += [*[name.lower() for name in kernel.attrs], "sigs"]
    names += ["g"] if reads & {n + GRAD for n in outputs} else []
    names += ["out"] if reads & set(outputs) else []

    def on(platform: str, **named: Any) -> tuple:
        known = {slot.name: named[slot.public] for slot in kernel.inputs if slot.public in named}
        like = {s.name: x for s, x in zip(kernel.inputs, named["sigs"])} if by_sig else _all_sigs(known)
        for word, suffix in (("g", GRAD), ("out", "")):
            if word in named:
                found = named[word] if made.many else [named[word]]
                known |= {n + suffix: x for n, x in zip(outputs, found)}
        attrs = {name: named[name.lower()] for name in kernel.attrs}
        made_of = _differentiable(platform, grad, further, known, like, attrs)
        return tuple(flat([_gradient(s.name, made_of, like) for s in kernel.inputs]))

    def rule(**named: Any) -> tuple:
        return on("any", **named)

    rule.__signature__ = _signature(names)  # type: ignore[attr-defined]  # the same
    made.grad(rule)
    made.grad_lowerings["cpu"] = functools.partial(on, "cpu")


def _all_sigs(known: dict[str, Any]) -> dict[str, Any]:
    return {name: _sigs(x) for name, x in known.items()}


def _gradient(name: str, found: dict[str, Any], like: dict[str, Any]) -> Any:
    """The gradient of an input, zeros where the kernel gives none; None of what was left out."""
    sig = like[name]
    if sig is None or name + GRAD in found:
        return found.get(name + GRAD)
    return (
        [jnp.zeros(s.shape, s.dtype.np) for s in sig] if isinstance(sig, list) else jnp.zeros(sig.shape, sig.dtype.np)
    )


def _differentiable(
    platform: str,
    kernel: Kernel,
    further: Kernel | None,
    known: dict[str, Any],
    like: dict[str, Any],
    attrs: dict[str, Any],
) -> dict[str, Any]:
    """Results of a kernel by name; jax differentiates them by another kernel."""
    groups = [known[slot.name] for slot in kernel.inputs]
    given = [_size_of(x) for x in groups]
    sizes = [_size_of(like[slot.name.removesuffix(GRAD)]) for slot in kernel.outputs]

    @jax.custom_vjp
    def call(*arrays: Any) -> list[Any]:
        return kernel.call(platform, _grouped(arrays, given), attrs, like)

    def forward(*arrays: Any) -> tuple[list[Any], tuple]:
        outs = call(*arrays)
        return outs, (arrays, outs)

    def backward(saved: tuple, gs: list[Any]) -> tuple:
        if further is None:
            raise errors.failure(
                f"{kernel.name}: expected PD_BUILD_DOUBLE_GRAD_OP({kernel.name}) for a second derivative, got none",
                kind=NotImplementedError,
            )
        arrays, outs = saved
        inside = dict(zip([s.name for s in kernel.inputs], _grouped(arrays, given)))
        shapes = _all_sigs(inside)
        full = [jnp.zeros(o.shape, o.dtype) if g.dtype == jax.dtypes.float0 else _conj(g) for g, o in zip(gs, outs)]
        for part, suffix in ((outs, ""), (full, GRAD)):
            inside |= {s.name + suffix: x for s, x in zip(kernel.outputs, _grouped(part, sizes))}
        made = _differentiable(platform, further, None, inside, shapes, attrs)
        found = flat([_gradient(s.name, made, shapes) for s in kernel.inputs])
        return tuple([
            _conj(x) if jnp.issubdtype(a.dtype, jnp.inexact) else np.zeros(a.shape, jax.dtypes.float0)
            for a, x in zip(arrays, found)
        ])  # fmt: skip

    call.defvjp(forward, backward)
    return dict(zip([s.name for s in kernel.outputs], _grouped(call(*flat(groups)), sizes)))


def _conj(x: Any) -> Any:
    """Between Paddle's gradients of complex numbers and jax's."""
    return jnp.conj(x) if jnp.iscomplexobj(x) else x


def _size_of(group: Any) -> int | None:
    """How many there are in a list; -1: one that is none; None: nothing is given."""
    return None if group is None else len(group) if isinstance(group, (list, tuple)) else -1


def _grouped(found: Sequence[Any], sizes: Any) -> list[Any]:
    """The inverse of `flat`."""
    rest = iter(found)
    return [None if n is None else next(rest) if n < 0 else [next(rest) for _ in range(n)] for n in sizes]


def _check(kernel: Kernel, kernels: dict[tuple[str, int], Kernel]) -> None:
    """Raise for what is declared but cannot be an operator."""
    base = kernels.get((kernel.name, kernel.order - 1))
    named = [s.public for s in kernel.inputs] + [name.lower() for name in kernel.attrs]
    unknown = [
        kind for kind in kernel.attrs.values() if kind.removeprefix("std::vector<").removesuffix(">") not in ITEMS
    ]
    wrong = None
    if not kernel.has_kernel:
        wrong = "no SetKernelFn"
    elif not kernel.outputs or (not kernel.inputs and kernel.order == 0):
        wrong = "no Inputs or no Outputs"
    elif kernel.writes:
        wrong = "SetInplaceMap, but kernels cannot change their inputs"
    elif unknown:
        wrong = f"an attribute of type {unknown[0]!r}"
    elif kernel.order == 0:
        bad_names = [n for n in named if not n.isidentifier() or keyword.iskeyword(n) or n in TAKEN]
        if bad_names or len(set(named)) < len(named):
            wrong = f"{bad_names[0]!r} as the name of an input" if bad_names else "two inputs of one name"
        elif any(s.many for s in kernel.outputs):
            wrong = "a list of outputs"
        elif not (kernel.has_shape and kernel.has_type) and not len(kernel.inputs) == len(kernel.outputs) == 1:
            wrong = "several inputs or outputs without SetInferShapeFn and SetInferDtypeFn"
    elif base is None:
        wrong = "a gradient of what is not declared"
    else:
        values = {s.name for s in (*base.inputs, *base.outputs)} | {s.name + GRAD for s in base.outputs}
        strange = [s.name for s in kernel.inputs if s.name not in values]
        strange += [s.name for s in kernel.outputs if s.name not in {b.name + GRAD for b in base.inputs}]
        strange += [name for name in kernel.attrs if name not in base.attrs]
        wrong = f"{strange[0]!r} in its gradient, which {kernel.name} does not have" if strange else None
    if wrong is not None:
        macro = ("PD_BUILD_OP", "PD_BUILD_GRAD_OP", "PD_BUILD_DOUBLE_GRAD_OP")[kernel.order]
        raise errors.bad(f"{macro}({kernel.name})", "an operator that can be called", described=wrong)
