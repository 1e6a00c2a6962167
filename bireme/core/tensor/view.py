"""Cells and views: shared storage over arrays that never change.

A tensor whose storage is shared (a slice, reshape, transpose, detach of another) has a View on a Cell. The cell holds
the root's current value; a view knows the operators that lead from the root to it. Reading a view after the root moved
on records those operators again; writing into it records their inverses and gives the root a new value, with history.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import ref

from bireme.core.base import registry
from bireme.core.graph import segment
from bireme.core.graph.bound import bounded
from bireme.core.graph.graph import Sig, Value, scalar_sig
from bireme.core.tensor import grad_mode, tape
from bireme.core.tensor.tensor import Tensor, read, wrap

ROOM = 8  # tensors on a storage, some of them gone, before they are looked through


class Cell:
    """Storage that several tensors share: its value, and the root's place on the tape.

    `version` counts every change (views compare it); `inplace_version` counts in-place operators by the user.
    """

    __slots__ = (
        "value",
        "edge",
        "stop_gradient",
        "root",
        "version",
        "inplace_version",
        "handles",
        "room",
        "__weakref__",
    )

    value: Value
    edge: Any
    stop_gradient: bool
    root: ref[Tensor]
    version: int
    inplace_version: int
    handles: list[ref[Tensor]]
    room: int

    def leaf(self) -> Tensor | None:
        """The root, if it is a leaf that wants gradients: they go to that very tensor."""
        root = self.root()
        return (
            root if root is not None and self.edge is None and root._edge is None and not root.stop_gradient else None
        )

    def add(self, t: Tensor) -> None:
        handles = self.handles
        if len(handles) > self.room:
            self.handles = handles = [r for r in handles if r() is not None]
            self.room = ROOM + 2 * len(handles)
        handles.append(ref(t))

    def collapse(self) -> None:
        """When one tensor is left, it keeps its value and the storage is its own: the root is not kept alive."""
        alive = [t for r in self.handles if (t := r()) is not None and t._view is not None and t._view.cell is self]
        if len(alive) == 1 and not alive[0]._view.stale():
            t = alive[0]
            t._version = self.inplace_version
            t._view = None


class View:
    """One tensor's part in a cell: the operators from the root to it, and the version it has seen.

    `own`: an in-place operator wrote into it while the root was a leaf, so its history is not the root's.
    """

    __slots__ = ("cell", "path", "version", "tracked", "own")

    def __init__(self, cell: Cell, path: tuple, tracked: bool, own: bool = False):
        self.cell, self.path, self.tracked, self.version, self.own = cell, path, tracked, cell.version, own

    def stale(self) -> bool:
        return self.version != self.cell.version

    def refresh(self, t: Tensor) -> None:
        """Bring `t` up to date with the root."""
        if not self.path:
            t._value = self.cell.value
            if self.tracked and self.cell.edge is not None:
                t._edge, t.stop_gradient = self.cell.edge, self.cell.stop_gradient
            self.version = self.cell.version
            return
        if self.own or t is self.cell.leaf():
            with grad_mode.no_grad():
                t._value = self._walk(tracked=False)[-1]._value
            self.version = self.cell.version
            return
        with grad_mode.GradMode(self.tracked):  # history is the view's own, whatever mode it is read in
            new = self._walk(tracked=self.tracked)[-1]
        t._value = new._value
        if self.tracked:
            t._edge = new._edge
            if new._edge is not None:
                t.stop_gradient = new.stop_gradient
        self.version = self.cell.version

    def _walk(self, tracked: bool) -> list[Tensor]:
        """The root and every step from it to this view, as tensors."""
        cell = self.cell
        x = cell.leaf() if tracked else None
        if x is not None:
            read(x)
            if x._view is not None and x._view.path:  # it has become another view of its storage, in place
                x = _as_it_was(x, x._view.path, wrap(cell.value))
        if x is None:
            x = wrap(cell.value)
            if tracked:
                x._edge, x.stop_gradient = cell.edge, cell.stop_gradient
        steps = [x]
        for bound, numbers in self.path:
            steps.append(tape.apply(bound, [steps[-1], *numbers])[0])
        return steps

    def overwrite(self, t: Tensor, v: Value) -> None:
        """New values without history."""
        cell = self.cell
        if self.path:
            with grad_mode.no_grad():
                self._put(t, wrap(v), tracked=False)
        else:
            cell.collapse()  # a parameter that somebody looked at once with detach() shares with nobody any more
            t._value = v
            if t._view is None:
                return
            cell.value = v
            cell.version += 1
        self.version = cell.version

    def write(self, t: Tensor, new: Tensor, since: int) -> None:
        """New values by an in-place operator: the root is rebased, so gradients flow through what was written.

        A root that is a leaf has no history to rebase: its numbers change, and `t` alone knows where they come from.
        """
        self.cell.value.marks = since
        if self.tracked and self.path and self.cell.leaf() is not None:
            with grad_mode.no_grad():
                self._put(t, new, tracked=False)
            self.own = self.own or grad_mode.state.grad
        else:
            self._put(t, new, tracked=self.tracked)
        self.cell.inplace_version += 1
        if grad_mode.state.grad:  # under no_grad the numbers change and the history stays, as in Paddle
            t._edge = new._edge
            if not new.stop_gradient:
                t.stop_gradient = False
        self.version = self.cell.version

    def _put(self, t: Tensor, new: Tensor, tracked: bool) -> None:
        cell = self.cell
        root = new
        if self.path:
            before = self._walk(tracked)
            for (bound, numbers), source in zip(reversed(self.path), reversed(before[:-1])):
                root = bound.op.put_rule(source, root, bound, numbers)
        cell.value = root._value
        if tracked and grad_mode.state.grad:
            cell.edge = root._edge
            cell.stop_gradient = root.stop_gradient
        cell.version += 1
        t._value = new._value


def attach(out: Tensor, x: Tensor, bound: Any, numbers: list) -> None:
    """Make `out`, the result of a view operator on `x`, share its storage."""
    view = x._view
    if view is None:
        view = _root(x)
    elif view.path and not _shares(view, bound, numbers):
        return
    cell = view.cell
    path = (*view.path, (bound, numbers))
    if len(path) > MAX_PATH:
        path = _shortened(cell.value.sig, path)
    # without calls, here and in `_root`: they would be half of it, and every reshape comes here
    out._view = made = View.__new__(View)
    made.cell, made.path, made.version = cell, path, cell.version
    made.tracked, made.own = view.tracked and grad_mode.state.grad, view.own
    if len(cell.handles) > cell.room:
        cell.add(out)
    else:
        cell.handles.append(ref(out))
    segment.local.segment.cells.append(ref(cell))


def _as_it_was(root: Tensor, path: tuple, storage: Tensor) -> Tensor:
    """The storage of a root that became a view of it in place, made of that root: gradients reach the very tensor."""
    with grad_mode.no_grad():
        before = [storage]
        for bound, numbers in path[:-1]:
            before.append(tape.apply(bound, [before[-1], *numbers])[0])
    for (bound, numbers), source in zip(reversed(path), reversed(before)):
        root = bound.op.put_rule(source, root, bound, numbers)
    return root


MAX_PATH = 4  # steps; a longer path is told in fewer: that of `v = v[1:]` in a loop would have one for each round


def _shortened(sig: Sig, path: tuple) -> tuple:
    """A path in fewer steps to the same elements; what comes before a view in another type stays."""
    kept, start = 0, sig
    sigs: list[Sig] = []
    for i, (bound, numbers) in enumerate(path):
        out = bound.infer((sig, *_sigs(numbers)))[0]
        if out.dtype is not sig.dtype:
            kept, start, sigs = i + 1, out, []
        sigs.append(out)
        sig = out
    found = _layout(start, path[kept:])
    if found is None or len(path) - kept <= MAX_PATH:
        return path
    strides, first = found
    shapes = [s.shape for s in sigs if s.size == start.size]
    for steps in registry.find("strided_view").path_rule(start, sig.shape, strides, first, shapes):
        if _layout(start, steps) == found:
            return (*path[:kept], *steps)
    return path


_known: dict[tuple, bool] = {}


def _shares(view: View, bound: Any, numbers: list) -> bool:
    """Whether the elements lie in the storage as a further view needs them: a reshape of a transposed tensor is a copy."""
    key = (view.cell.value.sig, bound, *[b for b, _ in view.path])
    found = _known.get(key)
    if found is None:
        bounded(_known)[key] = found = _layout(view.cell.value.sig, (*view.path, (bound, numbers))) is not None
    return found


def _layout(sig: Sig, path: Sequence) -> tuple[tuple[int, ...], int] | None:
    strides, first = in_a_row(sig.shape), 0
    for bound, numbers in path:
        out = bound.infer((sig, *_sigs(numbers)))[0]
        rule = bound.op.layout_rule
        found = (in_a_row(out.shape), first) if rule is None else rule(sig, strides, first, bound, numbers)
        if found is None:
            return None
        (strides, first), sig = found, out
    return strides, first


def _sigs(numbers: list) -> list[Sig]:
    return [scalar_sig(n[0]) if n.__class__ is tuple else n._value.sig for n in numbers]


def in_a_row(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of elements that lie in order, without gaps."""
    found, step = [], 1
    for n in reversed(shape):
        found.append(step)
        step *= n
    return tuple(reversed(found))


def layout(t: Tensor) -> tuple[tuple[int, ...], int]:
    """Where the elements of `t` lie in its storage: from one index to the next along each axis, and the first; in
    elements.
    """
    view = t._view
    found = None if view is None else _layout(view.cell.value.sig, view.path)
    return (in_a_row(t._value.sig.shape), 0) if found is None else found


def root_of(t: Tensor) -> Tensor:
    """A tensor on the whole storage of `t`."""
    view = t._view
    if view is None or not view.path:
        return t
    cell = view.cell
    root = cell.root()
    if root is not None and root._view is not None and root._view.cell is cell and not root._view.path:
        return root
    whole = wrap(cell.value)
    whole._edge, whole.stop_gradient = (cell.edge, cell.stop_gradient) if view.tracked else (None, True)
    whole._view = View(cell, (), view.tracked)
    cell.add(whole)
    return whole


def _root(x: Tensor) -> View:
    cell, own = Cell.__new__(Cell), ref(x)
    cell.value, cell.edge, cell.stop_gradient, cell.root = x._value, x._edge, x._stop_gradient, own
    cell.version, cell.inplace_version, cell.handles, cell.room = 0, x._version, [own], ROOM
    view = View.__new__(View)
    view.cell, view.path, view.tracked, view.version, view.own = cell, (), True, 0, False
    x._view = view
    return view


def detach(self: Tensor) -> Tensor:
    """The same storage without history.

    >>> bireme.to_tensor([1.0], stop_gradient=False).detach().stop_gradient
    True
    """
    trace = segment.local.trace
    if trace is not None and trace.builds:
        return trace.build_method("detach", self)
    value = read(self)
    view = self._view or _root(self)
    out = wrap(value)
    out._view = View(view.cell, view.path, tracked=False)
    view.cell.add(out)
    if value.segment is not None:
        segment.local.segment.cells.append(ref(view.cell))
    return out


def _set_data(self: Tensor, value: Any) -> None:
    self._assign_value(value if isinstance(value, Tensor) else Tensor(value, self.dtype))


def detach_(self: Tensor) -> Tensor:
    """Cut this tensor's own history.

    >>> bireme.to_tensor([1.0]).detach_().stop_gradient
    True
    """
    read(self)
    self._edge, self.stop_gradient = None, True
    if self._view is not None:
        self._view.tracked = False
    return self


Tensor.detach = detach  # type: ignore[assignment, method-assign]  # a method that Tensor gets here
Tensor.detach_ = detach_  # type: ignore[assignment, method-assign]  # a method that Tensor gets here
Tensor.data = property(detach, _set_data, doc="The same storage without history.")  # type: ignore[assignment, method-assign]  # a method that Tensor gets here
