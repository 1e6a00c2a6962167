"""Expansion: the public calls that the body of a function makes, recorded as a program of their own.

A size that is unknown must not decide what is called: whoever asks is stopped.
"""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors
from bireme.core.program import building, variable
from bireme.core.program.program import Operation, Program, mapped
from bireme.core.program.variable import Dim, Symbol, Variable, symbol_of
from bireme.files.paddle_models.writing.values import Unwritable

__all__ = ["Expansion", "symbol_of"]


class _Asked(Exception):
    """A body wants to know an unknown size."""


class _Sig:
    """The type and shape of a variable, for bodies that look below its surface."""

    __slots__ = ("_sig", "_known")

    def __init__(self, symbol: Symbol):
        self._sig = symbol.samples[0].sig
        self._known = not any(isinstance(n, Dim) for n in symbol.shape)

    def __getattr__(self, name: str) -> Any:
        if not self._known and name not in ("dtype", "ndim"):
            raise _Asked
        return getattr(self._sig, name)


class _Shown:
    """What a variable has for a value while a body is expanded."""

    __slots__ = ("_value", "sig", "__weakref__")

    def __init__(self, value: Any, symbol: Symbol):
        self._value, self.sig = value, _Sig(symbol)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._value, name)


class _Inner(Program):
    """The program of an expansion: its variables keep unknown sizes to themselves."""

    def _var(self, symbol: Symbol) -> Any:
        made = super()._var(symbol)
        if isinstance(made, Variable):
            made._value = _Shown(made._value, symbol)  # type: ignore[assignment]  # it stands for the same
        return made


class Expansion:
    """The recording of what one call makes."""

    def __init__(self, outer: Program):
        self.program = _Inner()
        self.program.pair, self.program._serial = outer.pair, outer._serial

    def __enter__(self) -> Expansion:
        self._into = building.into(self.program)
        self._into.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._into.__exit__(*raised)

    def bound(self, made: Any, operation: Operation) -> dict[str, Any]:
        """The arguments of a call by name, variables in the place of symbols."""
        variables: dict[Symbol, Any] = {}

        def shown(x: Any) -> Any:
            if not isinstance(x, Symbol):
                return x
            if x not in variables:
                self.program.symbols[x.name] = x
                variables[x] = self.program._var(x)
            return variables[x]

        args, kwargs = mapped(shown, (operation.args, operation.kwargs))
        return made.signature.bind(args, kwargs)

    def body(self, made: Any, bound: dict[str, Any]) -> Any:
        """Record what the body of a composite calls; its result."""
        if not hasattr(made, "inplace_rule") or hasattr(made, "grad"):
            raise Unwritable("")
        variable.strict.asked = _Asked
        try:
            return mapped(symbol_of, made.call(bound))
        except _Asked:
            raise Unwritable("with sizes that are unknown (input_spec can say them)") from None
        except errors.TELLING as e:
            raise Unwritable(f"as it is called here ({str(e).splitlines()[0]})") from None
        finally:
            variable.strict.asked = None
