"""Writing into tensors: what in-place operators and `out=` do with a result."""

from __future__ import annotations

from typing import Any
from weakref import ref

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors, registry
from bireme.core.graph import segment
from bireme.core.tensor import backward_pass, grad_mode, tape
from bireme.core.tensor.tensor import Tensor, read


def write_out(out: Any, result: Any, name: str) -> Any:
    if isinstance(result, (list, tuple)):
        if not isinstance(out, (list, tuple)) or len(out) != len(result):
            raise errors.bad(f"{name}(out)", f"{len(result)} Tensors", out, kind=errors.NotATensorError)
        for o, r in zip(out, result):
            write_out(o, r, name)
        return type(result)(*out) if hasattr(result, "_fields") else out  # a named tuple stays one
    if not isinstance(out, Tensor):
        raise errors.bad(f"{name}(out)", "a Tensor", out, kind=errors.NotATensorError)
    # a leaf too is taken, unlike by in-place operators: what it was has no part in what it becomes
    if out._value.sig is result._value.sig and not _is_leaf(out):
        return assign_inplace(out, result, f"{name}(out)")
    return _replaced(out, result)


def become(x: Tensor, new: Tensor, name: str, since: int) -> Tensor:
    """What an in-place operator does whose result has another shape, which `x` takes as in Paddle; `since` is as in
    `assign_inplace`.
    """
    _must_not_be_leaf(x, _changed(name))
    read(x).marks, backward_pass.changed[0] = marked(x, since), tape.now()
    return _replaced(x, new)


def _replaced(x: Tensor, new: Tensor) -> Tensor:
    if grad_mode.state.grad:  # else it stays what it is, whatever becomes of the numbers
        x.stop_gradient = new.stop_gradient and not _is_leaf(x)
    x._value, x._edge, x._view = read(new), new._edge, None
    x._version += 1
    return x


def count_changes(x: Tensor, changes: int) -> None:
    """Count changes of `x` that Paddle makes on the way to the one that was made."""
    if x._view is not None:
        x._view.cell.inplace_version += changes
    else:
        x._version += changes


def _is_leaf(x: Tensor) -> bool:
    """Whether it is a leaf that requires gradients, while they are recorded."""
    return grad_mode.state.grad and not x.stop_gradient and x._edge is None and x._value.sig.dtype.kind in "fc"


def _must_not_be_leaf(x: Tensor, where: str) -> None:
    if _is_leaf(x):
        raise errors.bad(
            where,
            "a non-leaf Tensor or no_grad() for an inplace operation",
            described="a leaf Tensor that requires grad",
        )


def _changed(name: str) -> str:
    """The argument that an in-place operator changes."""
    return name if "(" in name or "[" in name else f"{name}(x)"


class Mark(int):
    """The tape order of an in-place change, and which tensor it changed and how often that had been changed before."""

    tensor: Any
    version: int

    def __str__(self) -> str:
        changed = self.tensor()
        now = self.version + 1 if changed is None else changed.inplace_version
        return (
            f"received tensor_version:{now} != wrapper_version_snapshot:{self.version}"  # what tests of Paddle look for
        )


def marked(x: Tensor, since: int) -> Mark:
    """The mark that a change of `x` leaves on its old value."""
    mark = Mark(since)
    mark.tensor, mark.version = ref(x), x.inplace_version
    return mark


def bump(x: Tensor) -> None:
    """Count a change of `x` that no operator made: what saved its value refuses to go backwards."""
    read(x).marks = marked(x, tape.now())
    backward_pass.changed[0] = tape.now()
    if x._view is not None:
        x._view.cell.inplace_version += 1
    else:
        x._version += 1


def assign_inplace(x: Tensor, new: Tensor, name: str, since: int | None = None, retype: bool = False) -> Tensor:
    """Make `new` the value of `x`, as an in-place operator does: same object, history rebased, dtype kept unless
    `retype`.

    Edges older than `since` that saved the old value will refuse to go backwards; the operator's own may read it.
    """
    value = read(x)
    if segment.local.trace is not None:
        segment.local.trace.spoiled = True
    _must_not_be_leaf(x, _changed(name))
    if new._value.sig.shape != value.sig.shape:
        raise errors.bad(
            _changed(name), f"a result of x's shape {x.shape}", described=f"shape {new.shape}", kind=errors.ShapeError
        )
    if new._value.sig.dtype is not value.sig.dtype and not retype:
        new = registry.find("cast")(new, value.sig.dtype)
    if new is x:
        return x
    value.marks = since = marked(x, tape.now() if since is None else since)
    backward_pass.changed[0] = tape.now()
    if x._view is not None:
        x._view.write(x, new, since)
        return x
    x._value = read(new)
    if grad_mode.state.grad:  # under no_grad the numbers change and the history stays, as in Paddle
        x._edge = new._edge
        if not new.stop_gradient:
            x.stop_gradient = False
    x._version += 1
    return x


def retypes(x: Tensor, new: Tensor, made: Any, name: str) -> bool:
    """Whether an in-place operator gives `x` the type of its result: a wider one, as Paddle's arithmetic does, or any
    with `retype`.
    """
    old, kind = x._value.sig.dtype, new._value.sig.dtype
    options = made.options
    if old is kind or not (options.get("promote") or options.get("floats") or options.get("retype")):
        return False
    wider = (
        options.get("retype")
        or dtypes.promote(old, kind) is kind
        or (options.get("floats") and old.kind in "bi" and kind.kind == "f")
    )
    if not wider or x._view is not None:
        raise errors.bad(
            f"{name}(x)",
            f"a result of x's dtype {old.name}",
            described=kind.name,
            hint=f"use x = x.{made.name}(...)",
            kind=errors.ArgumentTypeError,
        )
    return True


def adopt(x: Tensor, new: Tensor, name: str | None = None) -> Tensor:
    """Let `x` become the view `new` of its own storage: what reshape_ and squeeze_ do."""
    if name is not None:
        _must_not_be_leaf(x, _changed(name))
    if segment.local.trace is not None:
        segment.local.trace.spoiled = True
    if x._value is not new._value:
        x._value.marks = marked(x, tape.now())  # as in Paddle, whose backward compares versions
        backward_pass.changed[0] = tape.now()
    x._value, x._edge, x._view = new._value, new._edge, new._view
    if x._view is not None:
        x._view.cell.add(x)
        x._view.cell.inplace_version += 1
    else:
        x._version += 1
    return x
