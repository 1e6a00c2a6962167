"""PyLayer: an operator whose forward and backward are the user's own Python functions on tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any
from weakref import ref

from bireme.core.base import errors, registry
from bireme.core.graph import segment
from bireme.core.tensor import backward, grad_mode, tape
from bireme.core.tensor.inplace import assign_inplace
from bireme.core.tensor.tensor import Tensor, read, wrap


class PyLayerContext:
    """Passes saved tensors, and any attributes, from ``forward`` to ``backward`` of a ``PyLayer``.

    Examples:
        >>> class Scale(bireme.autograd.PyLayer):
        ...     @staticmethod
        ...     def forward(ctx, x, factor):
        ...         ctx.factor = factor
        ...         return x * factor
        ...     @staticmethod
        ...     def backward(ctx, g):
        ...         return g * ctx.factor
        >>> x = bireme.to_tensor([1.0], stop_gradient=False)
        >>> Scale.apply(x, 3.0).backward()
        >>> x.grad.tolist()
        [3.0]
    """

    _saved: tuple | None = None
    _not_inplace: tuple = ()
    _stopped: tuple = ()
    _materialize = True

    def save_for_backward(self, *tensors: Any) -> None:
        """Save tensors for ``backward``; a second call replaces the first.

        Args:
            *tensors: The tensors, or lists of them; other values are saved as they are.

        Examples:
            >>> ctx = bireme.autograd.PyLayerContext()
            >>> ctx.save_for_backward(bireme.ones([2]))
            >>> ctx.saved_tensor()[0].tolist()
            [1.0, 1.0]
        """
        self._saved = tuple([_kept(t) for t in tensors])

    def saved_tensor(self) -> tuple | None:
        """Return what ``save_for_backward`` has saved, a tuple, or None."""
        return None if self._saved is None else tuple([_given(s) for s in self._saved])

    def mark_not_inplace(self, *args: Tensor) -> None:
        """Declare that inputs which ``forward`` returns are new results, not inputs changed in place.

        Args:
            *args: The inputs that are returned unchanged.
        """
        self._not_inplace = args

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Declare that no gradient flows through some results.

        Args:
            *args: The results.
        """
        self._stopped = args

    def set_materialize_grads(self, value: bool) -> None:
        """Set what ``backward`` gets as the gradient of a result that was not used.

        Args:
            value: True for zeros, which is the default; False for None.
        """
        self._materialize = bool(value)

    @property
    def materialize_grads(self) -> bool:
        """Whether ``backward`` gets zeros, not None, for results that were not used."""
        return self._materialize

    @materialize_grads.setter
    def materialize_grads(self, value: bool) -> None:
        self.set_materialize_grads(value)

    @property
    def container(self) -> tuple | None:
        """What ``save_for_backward`` has saved, or None."""
        return self.saved_tensor()

    @property
    def non_differentiable(self) -> tuple | None:
        """What ``mark_non_differentiable`` was called with, or None."""
        return self._stopped or None

    @property
    def not_inplace_tensors(self) -> tuple | None:
        """What ``mark_not_inplace`` was called with, or None."""
        return self._not_inplace or None


class PyLayer(PyLayerContext):
    """Operator with a gradient of your own: implement ``forward`` and ``backward``, call it by ``apply``.

    ``forward`` runs without recording gradients. ``backward`` gets one gradient for each tensor that ``forward``
    returned and returns one for each tensor that it took, in order; a list of tensors counts as one and has a list of
    gradients.

    Examples:
        >>> class Cube(bireme.autograd.PyLayer):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x * x
        ...     @staticmethod
        ...     def backward(ctx, g):
        ...         (x,) = ctx.saved_tensor()
        ...         return g * 3 * x * x
        >>> x = bireme.to_tensor([2.0], stop_gradient=False)
        >>> Cube.apply(x).backward()
        >>> x.grad.tolist()
        [12.0]
    """

    def name(self) -> str:
        """Return the name of the operator: that of its class.

        Examples:
            >>> bireme.autograd.PyLayer().name()
            'PyLayer'
        """
        return type(self).__name__

    @staticmethod
    def forward(ctx: PyLayerContext, *args: Any, **kwargs: Any) -> Any:
        """Compute the results; the subclass implements it.

        Args:
            ctx: A ``PyLayerContext`` to save what ``backward`` needs.
            *args: Arguments of ``apply``.
            **kwargs: Keyword arguments of ``apply``.

        Returns:
            A tensor, or a tuple or list with at least one tensor.
        """
        raise _missing("forward(ctx, ...)")

    @staticmethod
    def backward(ctx: PyLayerContext, *args: Any) -> Any:
        """Compute the gradients of the inputs; the subclass implements it.

        Args:
            ctx: The ``PyLayerContext`` of ``forward``.
            *args: Gradients of the results of ``forward``, one for each tensor.

        Returns:
            One gradient, or None, for each tensor that ``forward`` took.
        """
        raise _missing("backward(ctx, *grads)")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call ``forward`` and record ``backward`` as its gradient.

        Args:
            *args: Arguments of ``forward`` after ``ctx``.
            **kwargs: Keyword arguments of ``forward``.

        Returns:
            What ``forward`` returned.

        Examples:
            >>> class Twice(bireme.autograd.PyLayer):
            ...     forward = staticmethod(lambda ctx, x: x + x)
            ...     backward = staticmethod(lambda ctx, g: g + g)
            >>> Twice.apply(bireme.to_tensor([1.0])).tolist()
            [2.0]
        """
        ctx = PyLayerContext()
        taken = _Slots([*args, *kwargs.values()])
        for t in taken.tensors:
            read(t)
        targets = tuple([tape.target_of(t) for t in taken.tensors])
        sigs = tuple([t._sig for t in taken.tensors])
        with grad_mode.no_grad():
            result = cls.forward(ctx, *args, **kwargs)
        returned = _Slots(result if isinstance(result, (list, tuple)) else [result])
        if not returned.tensors:
            raise errors.bad(f"{cls.__name__}.forward", "at least one Tensor among the results", result)
        if not grad_mode.is_grad_enabled() or all(t is None for t in targets):
            return result
        values = [read(t) for t in returned.tensors]
        call = _Call(cls, ctx, taken, returned, targets)
        edge = _LayerEdge(cls.__name__, targets, sigs, tuple([v.sig for v in values]), call)
        segment.local.segment.edges.append(ref(edge))
        leaves = {id(t): t is target for t, target in zip(taken.tensors, targets)}
        made = [_result(t, edge, i, ctx, leaves) for i, t in enumerate(returned.tensors)]
        call.settle(ref(edge), made)
        if not isinstance(result, (list, tuple)):
            return made[0]
        return _rebuilt(result, iter(made))


Function = PyLayer


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate the ``backward`` of a ``PyLayer`` that has no derivative of its own.

    Args:
        backward: The ``backward`` function.

    Returns:
        The function, whose results have ``stop_gradient=True``.

    Examples:
        >>> class Twice(bireme.autograd.PyLayer):
        ...     forward = staticmethod(lambda ctx, x: x + x)
        ...     backward = staticmethod(bireme.autograd.py_layer.once_differentiable(lambda ctx, g: g + g))
        >>> x = bireme.to_tensor([1.0], stop_gradient=False)
        >>> (g,) = bireme.grad(Twice.apply(x), x, create_graph=True)
        >>> bireme.grad(g, x, allow_unused=True)
        [None]
    """

    @functools.wraps(backward)
    def plain(ctx: PyLayerContext, *args: Any) -> Any:
        with grad_mode.no_grad():
            found = backward(ctx, *args)
        for g in found if isinstance(found, (list, tuple)) else [found]:
            if isinstance(g, Tensor):
                g.stop_gradient = True
        return found

    return plain


def _missing(method: str) -> Exception:
    # Paddle raises OSError where the backward pass finds that out
    message = f"PyLayer.{method.partition('(')[0]}: expected a static method `{method}` in the subclass, got none"
    return errors.failure(message, kind=errors.MissingMethodError)


class _Slots:
    """The tensors among arguments or results; a list or tuple of tensors is one slot with several."""

    def __init__(self, items: Iterable):
        self.tensors: list[Tensor] = []
        self.counts: list[int | None] = []  # per slot: None for a plain tensor, else the length of its list
        for x in items:
            if isinstance(x, Tensor):
                self.tensors.append(x)
                self.counts.append(None)
            elif isinstance(x, (list, tuple)) and any(isinstance(t, Tensor) for t in x):
                found = [t for t in x if isinstance(t, Tensor)]
                self.tensors += found
                self.counts.append(len(found))


def _group(flat: list, counts: list[int | None]) -> list:
    """Return one entry per slot, from one per tensor."""
    rest = iter(flat)
    return [next(rest) if n is None else [next(rest) for _ in range(n)] for n in counts]


def _rebuilt(result: Any, made: Any) -> Any:
    """Return the results in the form in which ``forward`` returned them."""

    def swap(x: Any) -> Any:
        if isinstance(x, Tensor):
            return next(made)
        if isinstance(x, (list, tuple)) and any(isinstance(t, Tensor) for t in x):
            return type(x)([next(made) if isinstance(t, Tensor) else t for t in x])
        return x

    return type(result)([swap(x) for x in result]) if type(result) in (list, tuple) else result


def _result(t: Tensor, edge: backward.CustomEdge, i: int, ctx: PyLayerContext, leaves: dict[int, bool]) -> Tensor:
    """Return result number ``i`` with its edge on the tape."""
    if t._sig.dtype.kind not in "fc" or any(t is s for s in ctx._stopped):
        return t
    taken = id(t) in leaves
    if taken and not any(t is s for s in ctx._not_inplace):
        # an input that comes back is an input that was changed in place
        if leaves[id(t)]:
            hint = "call ctx.mark_not_inplace(x) if x comes back unchanged"
            raise errors.bad(
                f"{edge.name}.forward",
                "a result that is not an input",
                described="a leaf Tensor that requires grad",
                hint=hint,
            )
        new = wrap(read(t), stop_gradient=False)
        new._edge = (edge, i)
        return assign_inplace(t, new, edge.name)
    if taken or not t.stop_gradient:  # a tensor with a history of its own
        t = wrap(read(t))
    t._edge, t.stop_gradient = (edge, i), False
    return t


class _Saved:
    """A tensor saved for backward: its value, its edge on the tape and, while it lives and has not changed, itself."""

    __slots__ = ("tensor", "value", "source", "packed", "unpack")

    def __init__(self, t: Tensor):
        self.tensor: Any = t  # strong until forward has ended: what it does in place to `t` is part of what is saved
        self.value: Any = None
        self.source: Any = None
        self.packed: Any = None
        self.unpack: Any = None
        if grad_mode.state.pack is not None:
            self.packed, self.unpack = tape.save_value(read(t), t.stop_gradient)

    def settle(self, edge: Any, made: list[Tensor]) -> None:
        """Called after ``forward``: a result is known by its index on the tape, so the edge does not hold itself."""
        t = self.tensor
        place = [i for i, m in enumerate(made) if m is t]
        self.value = None if self.unpack is not None else read(t)
        self.source = (edge, place[0]) if place else tape.target_of(t)
        self.tensor = ref(t)

    def get(self) -> Tensor:
        if self.tensor.__class__ is not ref:
            return self.tensor
        t = self.tensor()
        if self.unpack is not None:
            value = read(self.unpack(self.packed))
        elif t is not None and read(t) is self.value:
            return t
        else:
            value = self.value
        source = self.source
        if source is not None and source.__class__ is tuple and source[0].__class__ is ref:
            source = (source[0](), source[1])
        return tape.restored(value, source)


def _kept(x: Any) -> Any:
    if isinstance(x, Tensor):
        return _Saved(x)
    return type(x)([_kept(i) for i in x]) if type(x) in (list, tuple) else x


def _given(x: Any) -> Any:
    if isinstance(x, _Saved):
        return x.get()
    return type(x)([_given(i) for i in x]) if type(x) in (list, tuple) else x


def _each_saved(x: Any) -> list[_Saved]:
    if isinstance(x, _Saved):
        return [x]
    return [s for i in x for s in _each_saved(i)] if type(x) in (list, tuple) else []


class _LayerEdge(backward.CustomEdge):
    """A call of ``apply`` on the tape."""

    __slots__ = ()

    users = True


class _Call:
    """The gradient of one ``apply``, as the tape calls it."""

    def __init__(self, layer: type[PyLayer], ctx: PyLayerContext, taken: _Slots, returned: _Slots, targets: tuple):
        self.layer, self.ctx = layer, ctx
        self.taken, self.returned = taken.counts, returned.counts
        self.needs = [t is not None for t in targets]
        self.sigs = [t._sig for t in taken.tensors]
        self.out_sigs = [t._sig for t in returned.tensors]

    def settle(self, edge: Any, made: list[Tensor]) -> None:
        """Called after ``forward``: release everything that would keep the edge alive through its own results."""
        for saved in _each_saved(self.ctx._saved):
            saved.settle(edge, made)
        self.ctx._not_inplace = self.ctx._stopped = ()

    def __call__(self, gs: list) -> list:
        if self.ctx._materialize:
            zeros = registry.find("zeros")
            gs = [zeros(list(s.shape), s.dtype) if g is None else g for g, s in zip(gs, self.out_sigs)]
        found = self.layer.backward(self.ctx, *_group(gs, self.returned))
        return self._checked(found if isinstance(found, tuple) else (found,))

    def _checked(self, found: tuple) -> list:
        """Return one gradient or None per tensor that ``forward`` took."""
        where, needs = f"{self.layer.__name__}.backward", _group(self.needs, self.taken)
        short = [n for n in needs[len(found) :] if n is True or (n is not False and any(n))]
        if len(found) > len(needs) or short:
            expected = f"{len(needs)} gradients, one per Tensor that forward took"
            hint = "return a tuple with None where there is no gradient; what is no Tensor gets none at all"
            raise errors.bad(where, expected, described=f"{len(found)}", hint=hint)
        flat: list[Any] = []
        for g, n in zip([*found, *[None] * (len(needs) - len(found))], self.taken):
            if n is None or g is None:
                flat += [g] * (1 if n is None else n)
            elif isinstance(g, (list, tuple)) and len(g) == n:
                flat += g
            else:
                raise errors.bad(where, f"a list of {n} gradients for a list of {n} Tensors", g)
        return [self._fitted(where, i, g) for i, g in enumerate(flat)]

    def _fitted(self, where: str, i: int, g: Any) -> Tensor | None:
        sig = self.sigs[i]
        if g is not None and not isinstance(g, Tensor):
            raise errors.bad(where, f"a Tensor or None as gradient {i}", g)
        if g is None or not self.needs[i]:
            return None
        if g._sig.shape != sig.shape:
            raise errors.bad(
                where,
                f"gradient {i} of the input's shape {list(sig.shape)}",
                described=f"shape {g.shape}",
                kind=errors.ShapeError,
            )
        return g if g._sig is sig else registry.find("cast")(g, sig.dtype)
