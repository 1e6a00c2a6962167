"""What rewritten functions call: statements and expressions that are recorded where they depend on variables of a program,
and are what Python makes of them elsewhere.
"""

from __future__ import annotations

import builtins
import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.program import calls, control_flow
from bireme.core.program.building import Builder, current
from bireme.core.program.control_flow import Undefined
from bireme.core.program.program import leaves, mapped
from bireme.core.program.variable import Dim, Variable, VariableList
from bireme.core.tensor.tensor import Tensor
from bireme.ops import add_n, ceil, floor, logical_and, logical_not, logical_or, maximum, minimum, to_tensor
from bireme.ops import sum as sum_of

OPERATORS = {
    "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt, "GtE": operator.ge, "Eq": operator.eq,
    "NotEq": operator.ne, "Is": operator.is_, "IsNot": operator.is_not,
    "In": lambda x, y: x in y, "NotIn": lambda x, y: x not in y,
}  # fmt: skip
ORDERING = frozenset(("Lt", "LtE", "Gt", "GtE", "Eq", "NotEq"))

undefined = Undefined
SLICE = slice  # whatever that name means in the code


def converted(fn: Any) -> Any:
    """Mark a function that is rewritten already."""
    fn.__bireme_converted__ = True
    return fn


def call(fn: Any) -> Any:
    """What is called in the place of a function: the same, rewritten, or what stands for a builtin."""
    kind = fn.__class__
    if kind in (type, _BUILTIN):
        known = BUILTINS.get(fn)
        if known is not None:
            return known
        if (fn.__module__ or "").partition(".")[0] == "numpy":
            return functools.partial(_by_numpy, fn)
    elif kind in _NUMPY:
        return functools.partial(_by_numpy, fn)
    return rewritten_by[0](fn)


rewritten_by: list[
    Callable
] = []  # what rewrites a function that is called: `conversion.to_call`, which needs this module


_BUILTIN = type(len)
_NUMPY = (type(np.prod), np.ufunc)


# ------------------------------------------------------------ conditions


def _symbolic(x: Any) -> bool:
    return isinstance(x, (Variable, Dim)) and current() is not None


def _variable(x: Any) -> Any:
    """A size as a variable; anything else as it is."""
    return calls.recorded(calls.size_of, x) if isinstance(x, Dim) and current() is not None else x


def _truth(x: Any) -> Any:
    """A variable as one of bool."""
    x = _variable(x)
    if not isinstance(x, Variable):
        return to_tensor(bool(x))
    return x if x.dtype.name == "bool" else x.astype("bool")


def _builder() -> Builder:
    found = current()
    assert found is not None
    return found


def and_(*values: Callable[[], Any]) -> Any:
    """`a and b`."""
    found = values[0]()
    for value in values[1:]:
        if _symbolic(found):
            found = logical_and(_truth(found), _truth(value()))
        elif not found:
            return found
        else:
            found = value()
    return found


def or_(*values: Callable[[], Any]) -> Any:
    """`a or b`."""
    found = values[0]()
    for value in values[1:]:
        if _symbolic(found):
            found = logical_or(_truth(found), _truth(value()))
        elif found:
            return found
        else:
            found = value()
    return found


def not_(x: Any) -> Any:
    """`not x`."""
    return logical_not(_truth(x)) if _symbolic(x) else not x


def compare(first: Any, *steps: Any) -> Any:
    """`a < b < c`: kinds of comparisons, each followed by what gives the right side."""
    found: Any = True
    for kind, other in zip(steps[::2], steps[1::2], strict=True):
        right = other()
        left, first = first, right
        for side in (left, right):
            if isinstance(side, Undefined):
                side._refuse()
        held = _compared(kind, left, right)
        found = held if found is True else and_(lambda: found, lambda: held)  # noqa: B023 - called at once
        if not _symbolic(found) and not isinstance(found, Tensor) and len(steps) > 2 and not found:
            return found
    return found


def _compared(kind: str, left: Any, right: Any) -> Any:
    if kind in ORDERING and (isinstance(left, Dim) or isinstance(right, Dim)):
        if kind in ("Eq", "NotEq") and isinstance(left, Dim) and left.same(right):
            return kind == "Eq"
        left, right = _variable(left), _variable(right)
    elif kind in ("NotEq", "NotIn") and _holds_sizes((left, right)):
        return not_(_compared("Eq" if kind == "NotEq" else "In", left, right))
    elif kind == "In" and isinstance(right, (*ROWS, set, dict)) and _holds_sizes((left, list(right))):
        return or_(lambda: False, *[lambda y=y: _compared("Eq", left, y) for y in right])
    elif kind == "Eq" and isinstance(left, ROWS) and isinstance(right, ROWS) and _holds_sizes((left, right)):
        if type(left) is not type(right) or len(left) != len(right):
            return False
        pairs = zip(left, right, strict=True)
        return and_(lambda: True, *[lambda x=x, y=y: _compared("Eq", x, y) for x, y in pairs])
    return OPERATORS[kind](left, right)


ROWS = (list, tuple)


def _holds_sizes(x: Any) -> bool:
    return current() is not None and any(isinstance(y, Dim) for y in leaves(x))


def item(x: Any, index: Any) -> Any:
    """`x[index]`; Python would take a size that is unknown for the -1 that it shows."""
    if isinstance(x, (*ROWS, dict, str, range)) and _holds_sizes(index):
        told = f"which item of a {type(x).__name__} is meant by a size"
        raise errors.failure(f"{told} is not known while a program is built", hint="a tensor can be indexed by sizes")
    return x[index]


def if_expression(test: Any, then: Callable[[], Any], other: Callable[[], Any]) -> Any:
    """`then if test else other`."""
    if not _symbolic(test):
        return then() if test else other()
    return control_flow.branch(_builder(), "if", _truth(test), [then, other])


def assert_(test: Any, message: Callable[[], Any]) -> None:
    """`assert test, message`."""
    if _symbolic(test):
        told = message()
        calls.recorded(calls.assert_true, _truth(test), *([] if told is None else [told]))
    elif not test:
        told = message()
        raise AssertionError(*([] if told is None else [told]))


class catching:
    """What a `try` statement does around its body: an error of Bireme's own that one of its handlers catches tells that
    the code cannot be captured, or not for the sizes that it is tried with. It is told once the capture has ended.
    """

    def __init__(self, *kinds: Callable[[], Any]):
        self._kinds = kinds  # asked for where something is raised only, as Python does

    def catches(self, kind: type) -> bool:
        """Whether a handler is for exceptions of a kind."""
        return any(issubclass(kind, each()) for each in self._kinds)

    def __enter__(self) -> None:
        builder = current()
        if builder is not None:
            builder.caught.append(self)

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        builder = current()
        if builder is None:
            return
        builder.caught.pop()
        if kind is not None and getattr(error, "_told", False) and self.catches(kind):
            builder.refused = builder.refused or error


def raise_if(test: Any, error: Callable[[], Any]) -> None:
    """`if test: raise error`: a check of what is known when the program runs is made then."""
    if _symbolic(test):
        made = error()
        kind = made if isinstance(made, type) else type(made)
        told = "" if made is kind else str(made)
        if any(each.catches(kind) for each in _builder().caught):
            raise errors.failure(
                f"{kind.__name__}, raised where a tensor says so, is caught by an except: a graph cannot do that",
                hint="write what the except does into the branch",
            )
        calls.recorded(calls.refuse_where, _truth(test), kind.__name__, told)
    elif test:
        raise error()


# ------------------------------------------------------------ statements


def attribute(owner: Any, name: str) -> Any:
    """An attribute that a statement changes; it may not be there yet."""
    return getattr(owner, name, Undefined(name))


def set_attribute(owner: Any, name: str, value: Any) -> None:
    """Set an attribute, unless it has no value."""
    if not isinstance(value, Undefined) and getattr(owner, name, None) is not value:
        setattr(owner, name, value)


def result(returned: Any, value: Any) -> Any:
    """What a function returns: None where no `return` was met."""
    if isinstance(value, Undefined) and value.reason is not None:
        raise value.reason
    return None if isinstance(value, Undefined) else value


def if_(test: Any, then: Callable, other: Callable, get: Callable, set_: Callable) -> None:
    """`if test: ... else: ...`; `get` and `set_` know the names that are changed."""
    if not _symbolic(test):
        (then if test else other)()
        return
    before = get()

    def part(body: Callable) -> Callable:
        def run() -> list[Any]:
            set_(mapped(_same, before))
            body()
            return get()

        return run

    try:
        made = control_flow.branch(_builder(), "if", _truth(test), [part(then), part(other)], lenient=True)
    except BaseException:
        set_(before)
        raise
    set_(made)


def _same(x: Any) -> Any:
    return x


def while_(test: Callable, body: Callable, get: Callable, set_: Callable) -> None:
    """`while test: ...`."""
    while True:
        holds = test()
        if _symbolic(holds):
            return _loop("while", lambda: _truth(test()), body, get, set_)
        if not holds:
            return None
        body()


def _loop(where: str, test: Callable, body: Callable, get: Callable, set_: Callable) -> None:
    before = get()

    def asked(*state: Any) -> Any:
        set_(list(state))
        return test()

    def taken(*state: Any) -> list[Any]:
        set_(list(state))
        body()
        return get()

    try:
        made = control_flow.loop(_builder(), where, asked, taken, before, lenient=True)
    except BaseException:
        set_(before)
        raise
    set_(made)


def for_(iterable: Any, body: Callable, get: Callable, set_: Callable, stops: Callable | None) -> None:
    """`for item in iterable: ...`; `stops` says whether the loop was left."""
    sequence = Sequence.of(iterable)
    if sequence is None:
        for item in iterable:
            stopped = stops() if stops is not None else False
            if _symbolic(stopped):
                if_(not_(stopped), lambda: body(item), _nothing, get, set_)  # noqa: B023 - called at once
            elif stopped:
                return
            else:
                body(item)
        return
    index = 0

    def get_all() -> list[Any]:
        return [index, *get()]

    def set_all(state: list[Any]) -> None:
        nonlocal index
        index, *rest = state
        set_(rest)

    def test() -> Any:
        inside = _variable(index) < sequence.length
        return inside if stops is None else and_(lambda: inside, lambda: not_(stops()))

    def step() -> None:
        nonlocal index
        body(sequence.item(index))
        index = index + 1

    _loop("for", test, step, get_all, set_all)


def _nothing() -> None:
    pass


class Sequence:
    """What a loop goes over whose length is a variable."""

    def __init__(self, length: Any, item: Callable[[Any], Any]):
        self.length, self.item = length, item

    @staticmethod
    def of(x: Any) -> Sequence | None:
        """The sequence of variables that something is; None for what Python can go over itself."""
        if isinstance(x, Sequence):
            return x
        if isinstance(x, VariableList):
            return Sequence(calls.recorded(calls.list_length, x), lambda i: calls.recorded(calls.list_item, x, i))
        if isinstance(x, Variable) and x.ndim and isinstance(x.shape[0], Dim):
            return Sequence(_variable(x.shape[0]), lambda i: x[i])
        return None

    def __iter__(self) -> Any:
        raise errors.failure(
            "a range over a variable can only be gone over by a for statement, or in a list [... for ...]"
        )


# ------------------------------------------------------------ builtins


def _range(*given: Any) -> Any:
    if not any(_symbolic(x) for x in given):
        return range(*[int(x) if isinstance(x, Tensor) else x for x in given])
    start, stop, step = (0, given[0], 1) if len(given) == 1 else (*given, 1)[:3]
    start, stop, step = map(_variable, (start, stop, step))
    if isinstance(step, int):
        if step == 0:
            raise ValueError("range() arg 3 must not be zero")
        length = (stop - start + step - (1 if step > 0 else -1)) // step
    else:
        length = -((start - stop) // step)
    return Sequence(length, lambda i: start + i * step)


def _enumerate(x: Any, start: int = 0) -> Any:
    sequence = Sequence.of(x)
    if sequence is None:
        return enumerate(x, start)
    return Sequence(sequence.length, lambda i: (i + start, sequence.item(i)))


def _zip(*given: Any, **kwargs: Any) -> Any:
    found = [Sequence.of(x) for x in given]
    if not any(found):
        return zip(*given, **kwargs)
    unknown = [x for x in found if x is not None]
    length = unknown[0].length
    for other in unknown[1:]:
        length = minimum(length, other.length)
    fixed = [len(x) for x, sequence in zip(given, found, strict=True) if sequence is None]
    if fixed:
        length = minimum(length, to_tensor(min(fixed)))

    def item(i: Any) -> tuple:
        return tuple([x[i] if sequence is None else sequence.item(i) for x, sequence in zip(given, found, strict=True)])

    return Sequence(length, item)


def _reversed(x: Any) -> Any:
    sequence = Sequence.of(x)
    return (
        reversed(x) if sequence is None else Sequence(sequence.length, lambda i: sequence.item(sequence.length - 1 - i))
    )


def _len(x: Any) -> Any:
    if isinstance(x, Variable):
        return x.shape[0]
    return calls.recorded(calls.list_length, x) if isinstance(x, VariableList) else len(x)


def _int(*given: Any) -> Any:
    if given and _symbolic(given[0]):
        return given[0] if isinstance(given[0], Dim) else given[0].astype("int64")
    return int(*given)


def _float(*given: Any) -> Any:
    if given and _symbolic(given[0]):
        x = _variable(given[0])
        return x if x.dtype.is_floating else x.astype(dtypes.get_default())
    return float(*given)


def _bool(*given: Any) -> Any:
    return _truth(given[0]) if given and _symbolic(given[0]) else bool(*given)


def _print(*given: Any, **kwargs: Any) -> None:
    if current() is not None and any(isinstance(x, (Variable, VariableList, Dim)) for x in leaves((given, kwargs))):
        calls.recorded(calls.print_values, *given, **kwargs)
    else:
        builtins.print(*given, **kwargs)  # noqa: T201  # what the user calls


def _extreme(python: Callable, tensors: Callable) -> Callable:
    def chosen(*given: Any, **kwargs: Any) -> Any:
        values = list(given[0]) if len(given) == 1 and isinstance(given[0], (list, tuple)) else list(given)
        if kwargs or len(values) < 2 or not any(_symbolic(x) for x in values):
            return python(*given, **kwargs)
        found = _variable(values[0])
        for x in values[1:]:
            one, other = (y if isinstance(y, Variable) else to_tensor(y) for y in (found, _variable(x)))
            found = tensors(one, other)
        return found

    return chosen


def _by_numpy(fn: Callable, *given: Any, **kwargs: Any) -> Any:
    """A function of NumPy's: it would take sizes that are unknown for the -1 that they show."""
    if not _holds_sizes((given, kwargs)):
        return fn(*given, **kwargs)
    if fn is np.prod and len(given) == 1 and not kwargs and isinstance(given[0], ROWS):
        return _prod(given[0])
    told = f"numpy.{getattr(fn, '__name__', fn)} of a size that is unknown"
    raise errors.failure(f"{told} cannot be part of a program", hint="functions of Bireme take sizes")


def _prod(x: Any, *, start: Any = 1) -> Any:
    return functools.reduce(operator.mul, x, start)


def _of_tensor(python: Callable, computed: Callable) -> Callable:
    """A function of a number that is computed where it is a variable."""

    def called(*given: Any) -> Any:
        return computed(_variable(given[0])) if len(given) == 1 and _symbolic(given[0]) else python(*given)

    return called


def _list(*given: Any) -> Any:
    return given[0] if given and isinstance(given[0], VariableList) else list(*given)


def _sum(x: Any, *start: Any) -> Any:
    sequence = Sequence.of(x)
    if sequence is None:
        return sum(x, *start)
    if isinstance(x, VariableList):
        held: Any = x
        return add_n(held) + (start[0] if start else 0)
    return sum_of(x, 0) + (start[0] if start else 0)


BUILTINS: dict[Any, Callable] = {
    range: _range, enumerate: _enumerate, zip: _zip, reversed: _reversed, len: _len, int: _int, float: _float, bool: _bool, print: _print,
    max: _extreme(builtins.max, lambda x, y: maximum(x, y)),
    min: _extreme(builtins.min, lambda x, y: minimum(x, y)), list: _list, sum: _sum,
    math.prod: _prod,
    math.sqrt: _of_tensor(math.sqrt, lambda x: x**0.5),
    math.ceil: _of_tensor(math.ceil, lambda x: ceil(x).astype("int64")),
    math.floor: _of_tensor(math.floor, lambda x: floor(x).astype("int64")),
}  # fmt: skip
