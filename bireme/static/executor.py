"""Executor: runs programs, with values for their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bireme.core.base import errors, random_state
from bireme.core.base.boundary import Guarded
from bireme.core.graph.graph import Unmade
from bireme.core.program import building, running
from bireme.core.program.program import Program, mapped
from bireme.core.program.variable import UNKNOWN, Symbol, Variable
from bireme.core.tensor.tensor import Tensor, read, wrap
from bireme.static import scopes
from bireme.static.dataset_runs import run_over
from bireme.static.dense_tensor import DenseTensor


class Executor(Guarded):
    """Runs programs.

    Args:
        place: Device. Default: None, the current one.

    Examples:
        >>> bireme.enable_static()
        >>> with bireme.static.program_guard(bireme.static.Program()):
        ...     x = bireme.static.data("x", [None, 2])
        ...     y = x * 2
        ...     bireme.static.Executor().run(feed={"x": [[1.0, 2.0]]}, fetch_list=[y])
        [array([[2., 4.]], dtype=float32)]
        >>> bireme.disable_static()
    """

    def __init__(self, place: Any = None):
        self.place = place
        self._plans: dict[tuple, running.Plan] = {}

    def run(
        self,
        program: Any = None,
        feed: dict[str, Any] | Sequence[dict[str, Any]] | None = None,
        fetch_list: Sequence[Any] | None = None,
        feed_var_name: str = "feed",
        fetch_var_name: str = "fetch",
        scope: Any = None,
        return_numpy: bool = True,
        use_program_cache: bool = False,
        use_prune: bool = False,
    ) -> list[Any]:
        """Run a program: only what the results need, and what changes parameters and buffers.

        Args:
            program: The program. Default: None, the default main program.
            feed: Values of its inputs by name. Default: None, none.
            fetch_list: Variables, parameters or names whose values are wanted. Default: None, none.
            feed_var_name: Has no effect.
            fetch_var_name: Has no effect.
            scope: Scope that parameters are looked up in. Default: None, the current one.
            return_numpy: Return arrays instead of tensors. Default: True.
            use_program_cache: Has no effect: what was compiled is always used again.
            use_prune: Has no effect: what nobody needs is never computed.

        Returns:
            A list of the values, in the order of ``fetch_list``.

        Raises:
            ValueError: If an input that is needed is missing, or does not have its shape or type.

        Examples:
            >>> bireme.static.Executor().run(bireme.static.Program())
            []
        """
        program = building.programs.main if program is None else getattr(program, "program", program)
        if not isinstance(program, Program):
            raise errors.bad("run(program)", "a Program", program, kind=errors.ArgumentTypeError)
        fetched = [_wanted(x, program) for x in _flat(fetch_list)]
        symbols = [x for x in fetched if isinstance(x, Symbol)]
        if not return_numpy:
            symbols += [s for x in symbols for s in x.lengths]
        plan = self._plan(program, symbols)
        given = feed[0] if isinstance(feed, (list, tuple)) and feed else feed or {}
        if not isinstance(given, dict):
            raise errors.bad("run(feed)", "a dict of names and values", feed, kind=errors.ArgumentTypeError)
        where = scopes.global_scope() if scope is None else scope
        with building.suspended(), random_state.seeded(program.random_seed):
            env = {symbol: _fed(symbol, value) for symbol, value in _inputs(given, program)}
            for symbol in plan.inputs:
                if symbol not in env:
                    expected = f"a value for the input {symbol.name!r}"
                    raise errors.bad("run(feed)", expected, list(given), hint=_hint(symbol))
            running.run(plan, env, lambda t: _made(where.tensor(t), plan))
            if plan.needs_grad:
                env = {symbol: mapped(_without_history, x) for symbol, x in env.items()}
            found = [env[x] if isinstance(x, Symbol) else where.tensor(x) for x in fetched]
            if return_numpy:
                return [t.numpy() for t in found]
            return [_sequences(x, t, env) for x, t in zip(fetched, found, strict=True)]

    def _plan(self, program: Program, fetched: list[Symbol]) -> running.Plan:
        key = (program.id, *map(id, fetched))
        found = self._plans.get(key)
        if found is None or found.version != program.version:
            found = self._plans[key] = running.Plan(program, fetched)
        return found

    def train_from_dataset(
        self,
        program: Any = None,
        dataset: Any = None,
        scope: Any = None,
        thread: int = 0,
        debug: bool = False,
        fetch_list: Sequence[Any] | None = None,
        fetch_info: Sequence[str] | None = None,
        print_period: int = 100,
        fetch_handler: Any = None,
    ) -> None:
        """Run a program on all batches of a dataset.

        Args:
            program: The program. Default: None, the default main program.
            dataset: A ``QueueDataset`` or an ``InMemoryDataset`` of ``bireme.distributed``.
            scope: Scope that parameters are looked up in. Default: None, the current one.
            thread: Has no effect.
            debug: Has no effect.
            fetch_list: Variables whose values are printed. Default: None, none.
            fetch_info: What they are called there. Default: None, their names.
            print_period: Print at each of so many batches. Default: 100.
            fetch_handler: An object whose ``handler`` is called with the values of its ``var_dict`` then. Default: None.

        Raises:
            ValueError: If a file of the dataset does not fit its variables.

        Examples:
            >>> bireme.enable_static()
            >>> dataset = bireme.distributed.QueueDataset()
            >>> with bireme.static.program_guard(bireme.static.Program()):
            ...     dataset.init(use_var=[bireme.static.data("x", [None, 2])])
            ...     bireme.static.Executor().train_from_dataset(dataset=dataset)
            >>> bireme.disable_static()
        """

        def run(feed: dict[str, Any], fetched: list[Any]) -> list[Any]:
            return self.run(program, feed, fetched, scope=scope)

        run_over("train_from_dataset", run, dataset, fetch_list, fetch_info, print_period, fetch_handler)

    def infer_from_dataset(
        self,
        program: Any = None,
        dataset: Any = None,
        scope: Any = None,
        thread: int = 0,
        debug: bool = False,
        fetch_list: Sequence[Any] | None = None,
        fetch_info: Sequence[str] | None = None,
        print_period: int = 100,
        fetch_handler: Any = None,
    ) -> None:
        """Run a program on all batches of a dataset, without its gradients and updates.

        Args:
            program: The program. Default: None, the default main program.
            dataset: A ``QueueDataset`` or an ``InMemoryDataset`` of ``bireme.distributed``.
            scope: Scope that parameters are looked up in. Default: None, the current one.
            thread: Has no effect.
            debug: Has no effect.
            fetch_list: Variables whose values are printed. Default: None, none.
            fetch_info: What they are called there. Default: None, their names.
            print_period: Print at each of so many batches. Default: 100.
            fetch_handler: An object whose ``handler`` is called with the values of its ``var_dict`` then. Default: None.

        Raises:
            ValueError: If a file of the dataset does not fit its variables.

        Examples:
            >>> bireme.enable_static()
            >>> dataset = bireme.distributed.QueueDataset()
            >>> with bireme.static.program_guard(bireme.static.Program()):
            ...     dataset.init(use_var=[bireme.static.data("x", [None, 2])])
            ...     bireme.static.Executor().infer_from_dataset(dataset=dataset)
            >>> bireme.disable_static()
        """
        whole = building.programs.main if program is None else getattr(program, "program", program)
        test = whole.clone(for_test=True)
        names = [x if isinstance(x, str) else x.name for x in fetch_list or ()]

        def run(feed: dict[str, Any], fetched: list[Any]) -> list[Any]:
            return self.run(test, feed, [x if isinstance(x, str) else x.name for x in fetched], scope=scope)

        run_over("infer_from_dataset", run, dataset, names, fetch_info, print_period, fetch_handler)

    def flush(self) -> None:
        """Do nothing: every run is finished when its results are returned.

        Examples:
            >>> bireme.static.Executor().flush()
        """

    def close(self) -> None:
        """Do nothing: there is nothing to close.

        Examples:
            >>> bireme.static.Executor().close()
        """


def _flat(given: Any) -> list[Any]:
    if given is None:
        return []
    if isinstance(given, (list, tuple)):
        return [y for x in given for y in _flat(x)]
    return [given]


def _wanted(x: Any, program: Program) -> Any:
    """What is to be fetched: a symbol of the program or a tensor."""
    if isinstance(x, str):
        found = program.symbols.get(x, program.tensors.get(x))
        if found is None:
            raise errors.bad("run(fetch_list)", "names of variables of the program", x)
        return found
    if isinstance(x, Variable):
        return x.symbol
    if isinstance(x, Tensor):
        return x
    raise errors.bad("run(fetch_list)", "variables or names", x, kind=errors.ArgumentTypeError)


def _inputs(given: dict[str, Any], program: Program) -> list[tuple[Symbol, Any]]:
    found = []
    for name, value in given.items():
        symbol = program.symbols.get(name)
        if symbol is None:  # a value for a program that this one was made from is no mistake
            continue
        if isinstance(value, DenseTensor):
            levels = scopes.lengths_of(program, symbol)
            found += zip(levels[::-1], map(np.diff, value.lod()[::-1]), strict=False)
        found.append((symbol, value))
    return found


def _hint(symbol: Symbol) -> str | None:
    name, found, _ = symbol.name.rpartition(".lengths")
    return f"feed {name!r} with its sequences: base.create_lod_tensor(data, lengths, place)" if found else None


def _sequences(x: Any, t: Tensor, env: dict[Symbol, Any]) -> Any:
    """A result with the lengths of its sequences, if it has any."""
    if not isinstance(x, Symbol) or not x.lengths or any(s not in env for s in x.lengths):
        return t
    made = DenseTensor()
    made.set(t.numpy())
    made.set_recursive_sequence_lengths([env[s].tolist() for s in x.lengths])
    return made


def _made(t: Tensor, plan: running.Plan) -> Tensor:
    """A parameter that has values, unless it is this program that gives them."""
    if t._value.__class__ is Unmade and not plan.initializes:
        raise errors.failure(
            f"the parameter {t.name} has no values yet",
            hint="run the startup program first: executor.run(static.default_startup_program())",
        )
    return t


def _without_history(x: Any) -> Any:
    """A value that nothing is kept for to differentiate it: else all of that would be returned by the compiled program."""
    return wrap(read(x)) if isinstance(x, Tensor) and x._edge is not None else x


def _fed(symbol: Symbol, value: Any) -> Tensor:
    """A value for an input, which has to fit it."""
    array = value if isinstance(value, Tensor) else np.asarray(value)
    fixed = symbol.fixed or tuple(symbol.shape)
    where = f"run(feed[{symbol.name!r}])"
    if len(array.shape) != len(fixed) or any(m not in (UNKNOWN, n) for m, n in zip(fixed, array.shape, strict=True)):
        expected = f"shape {[int(n) for n in fixed]}"
        raise errors.bad(where, expected, described=f"shape {list(array.shape)}", kind=errors.ShapeError)
    made = Tensor(array, symbol.dtype)
    made._stop_gradient = symbol.stop_gradient
    return made
