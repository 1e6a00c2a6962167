"""Branches and loops: of programs in static mode, else of tensors that are there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.program import building, control_flow
from bireme.core.tensor.tensor import Tensor


def _condition(where: str, pred: Any) -> None:
    if not isinstance(pred, (Tensor, bool)):
        raise errors.bad(where, "a Tensor of one bool", pred, kind=errors.ArgumentTypeError)
    if isinstance(pred, Tensor) and pred.dtype.name != "bool":
        raise errors.bad(where, "a Tensor of bool", described=pred.dtype.name, kind=errors.ArgumentTypeError)


def cond(
    pred: Tensor,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    name: str | None = None,
    return_names: Any = None,
) -> Any:
    """Call one of two functions, by a condition that is known when the program runs.

    Args:
        pred: Tensor of one bool.
        true_fn: Function without arguments, called where it is true. Default: None, nothing is done.
        false_fn: Function without arguments, called where it is false; its results are like those of ``true_fn``.
            Default: None, nothing is done.
        name: Has no effect.
        return_names: Has no effect.

    Returns:
        What the function returned: tensors, or lists, tuples and dicts of them.

    Examples:
        >>> x = bireme.to_tensor(3.0)
        >>> bireme.static.nn.cond(x > 2, lambda: x + 1, lambda: x - 1).item()
        4.0
    """
    _condition("cond(pred)", pred)
    for name_of, fn in (("true_fn", true_fn), ("false_fn", false_fn)):
        if fn is not None and not callable(fn):
            raise errors.bad(f"cond({name_of})", "a function", fn, kind=errors.ArgumentTypeError)
    bodies = [true_fn or _nothing, false_fn or _nothing]
    builder = building.current()
    if builder is None or isinstance(pred, bool):
        return bodies[0 if bool(pred) else 1]()
    return control_flow.branch(builder, "cond", pred, bodies)


def _nothing() -> None:
    return None


def case(
    pred_fn_pairs: Sequence[tuple[Tensor, Callable[[], Any]]],
    default: Callable[[], Any] | None = None,
    name: str | None = None,
) -> Any:
    """Call the function of the first condition that holds.

    Args:
        pred_fn_pairs: Pairs of a condition, a tensor of one bool, and a function without arguments.
        default: Function that is called where none holds. Default: None, the last one of the pairs.
        name: Has no effect.

    Returns:
        What the function returned.

    Examples:
        >>> x = bireme.to_tensor(3.0)
        >>> bireme.static.nn.case([(x < 1, lambda: x), (x < 5, lambda: x * 2)], default=lambda: x * 3).item()
        6.0
    """
    if not isinstance(pred_fn_pairs, (list, tuple)) or not pred_fn_pairs:
        raise errors.bad("case(pred_fn_pairs)", "a list of pairs", pred_fn_pairs, kind=errors.ArgumentTypeError)
    for pair in pred_fn_pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not callable(pair[1]):
            raise errors.bad(
                "case(pred_fn_pairs)", "pairs of a condition and a function", pair, kind=errors.ArgumentTypeError
            )
        _condition("case(pred_fn_pairs)", pair[0])
    pairs = list(pred_fn_pairs)
    if default is None:
        default = pairs.pop()[1]
    found = default
    for pred, fn in reversed(pairs):
        found = _chosen(pred, fn, found)
    return found()


def _chosen(pred: Tensor, fn: Callable, other: Callable) -> Callable:
    return lambda: cond(pred, fn, other)


def switch_case(
    branch_index: Tensor,
    branch_fns: Any,
    default: Callable[[], Any] | None = None,
    name: str | None = None,
) -> Any:
    """Call the function that has an index, which is known when the program runs.

    Args:
        branch_index: Tensor of one integer.
        branch_fns: Functions without arguments: a list, a dict by index, or a list of pairs of an index and a function.
        default: Function that is called where no function has the index. Default: None, the one of the largest index.
        name: Has no effect.

    Returns:
        What the function returned.

    Examples:
        >>> i = bireme.to_tensor(1)
        >>> bireme.static.nn.switch_case(i, [lambda: i + 10, lambda: i + 20]).item()
        21
    """
    if not isinstance(branch_index, Tensor) or not branch_index.dtype.is_integer:
        raise errors.bad(
            "switch_case(branch_index)", "a Tensor of one integer", branch_index, kind=errors.ArgumentTypeError
        )
    given = branch_fns.items() if isinstance(branch_fns, dict) else branch_fns
    pairs = [x if isinstance(x, (list, tuple)) else (i, x) for i, x in enumerate(given)]
    if not pairs:
        raise errors.bad("switch_case(branch_fns)", "functions", branch_fns, kind=errors.ArgumentTypeError)
    table: dict[int, Callable] = {}
    for i, fn in pairs:
        if not isinstance(i, int) or not callable(fn) or i in table:
            raise errors.bad("switch_case(branch_fns)", "functions, each with an index of its own", (i, fn))
        table[i] = fn
    indices = sorted(table)
    bodies = [table[i] for i in indices] + [default or table[indices[-1]]]
    builder = building.current()
    if builder is None:
        i = int(branch_index)
        return bodies[indices.index(i) if i in table else len(indices)]()
    return control_flow.branch(builder, "switch_case", branch_index, bodies, indices)


def while_loop(
    cond: Callable[..., Tensor],
    body: Callable[..., Any],
    loop_vars: Sequence[Any],
    is_test: bool = False,
    name: str | None = None,
) -> list[Any]:
    """Call a function again and again, on its own results, as long as a condition holds.

    Args:
        cond: Function of the loop's variables that returns a tensor of one bool.
        body: Function of the loop's variables that returns as many new ones.
        loop_vars: The variables at the start.
        is_test: Has no effect.
        name: Has no effect.

    Returns:
        A list of the variables at the end.

    Examples:
        >>> i, total = bireme.to_tensor(0), bireme.to_tensor(0)
        >>> found = bireme.static.nn.while_loop(lambda i, t: i < 4, lambda i, t: [i + 1, t + i], [i, total])
        >>> [x.item() for x in found]
        [4, 6]
    """
    for name_of, fn in (("cond", cond), ("body", body)):
        if not callable(fn):
            raise errors.bad(f"while_loop({name_of})", "a function", fn, kind=errors.ArgumentTypeError)
    if not isinstance(loop_vars, (list, tuple)) or not loop_vars:
        raise errors.bad("while_loop(loop_vars)", "a list of variables", loop_vars, kind=errors.ArgumentTypeError)
    builder = building.current()
    if builder is not None:
        return control_flow.loop(builder, "while_loop", cond, body, list(loop_vars))
    values = list(loop_vars)
    while True:
        holds = cond(*values)
        _condition("while_loop(cond)", holds)
        if not bool(holds):
            return values
        made = body(*values)
        values = list(made) if isinstance(made, (list, tuple)) else [made]
        if len(values) != len(loop_vars):
            raise errors.bad("while_loop(body)", f"{len(loop_vars)} results, as there are loop_vars", len(values))


guard_functions(globals())
