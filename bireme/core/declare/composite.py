"""Composite: a function written with tensors and other operators, which remembers what it recorded."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence  # noqa: F401  # annotations of public functions name it
from typing import Any

from bireme.core.base import errors
from bireme.core.base.device import DeviceLike  # noqa: F401  # the same
from bireme.core.base.dtype import DTypeLike  # noqa: F401  # the same
from bireme.core.declare import known_calls, precision, repetition
from bireme.core.declare.names import leave, names_of, told_as
from bireme.core.declare.signature import hints_of, signature_of
from bireme.core.graph import segment
from bireme.core.graph.bound import bounded
from bireme.core.tensor import tape
from bireme.core.tensor.inplace import write_out
from bireme.core.tensor.results import TopKRetType  # noqa: F401  # the same
from bireme.core.tensor.tensor import Tensor

AT_ONCE = 8  # kinds of arguments of which a composite is remembered when it is called, further ones when they come back


class Composite:
    """A function written with tensors and other operators: no node of its own, so no rules of its own."""

    def __init__(self, body: Callable, options: dict[str, Any]):
        self.body, self.name = body, options.get("name") or body.__name__
        self.told, self.kernels = told_as(self.name, options), tuple((options.get("kernels") or "").split())
        self.names = names_of(self.told, options)
        self.public: Any = None
        self.inplace_rule = None
        self.result_rule: Callable | None = None
        self.check_rule: Callable | None = None
        self.check_names: tuple[str, ...] = ()
        self.signature = signature_of(self.told, body, hints_of(body), options)
        self.options = options

    def rewrite(self, rule: Callable) -> Callable:
        """Declare how a call is rewritten before its arguments are bound: (args, kwargs) -> (args, kwargs), which are
        not changed.

        The rule looks at names and attributes only: what a call comes to is remembered by these.
        """
        self.signature.rewrite = rule
        return rule

    def results(self, rule: Callable) -> Callable:
        """Declare what a call gives that looks at values, for a program that has none yet: Sigs, where operands are Sigs.
        Such a call has no gradients.

        The rule takes arguments by name, and `unknown`, which it uses as each size that depends on values.
        """
        self.result_rule = rule
        return rule

    def check(self, rule: Callable) -> Callable:
        """Declare what raises where operands do not fit, for a body that looks at sizes for nothing else: arguments by
        name, Sigs where they are tensors.

        It is called before the body, and where the body is remembered from other sizes, see `plain`.
        """
        self.check_rule, self.check_names = rule, tuple(inspect.signature(rule).parameters)
        return rule

    def _check(self, arguments: dict[str, Any]) -> None:
        if self.check_rule is not None:
            given = {n: arguments[n] for n in self.check_names}
            self.check_rule(**{n: x._value.sig if isinstance(x, Tensor) else x for n, x in given.items()})

    def call(self, arguments: dict[str, Any]) -> Any:
        sign = self.signature
        out = arguments.pop("out", None) if "out" in sign.defaults and "out" not in sign.operand_names else None
        if "name" not in self.signature.own_names:
            arguments.pop("name", None)
        self.signature.check_composite(arguments)
        if precision.state.policy is not None and self.options.get("amp") == "one":
            precision.unify(arguments)
        try:
            self._check(arguments)
            result = self.body(**arguments)
        except errors.TELLING as e:
            errors.renamed(e, self.told, arguments, names=self.options.get("hands"))
            raise
        return result if out is None else write_out(out, result, self.name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.call(self.signature.bind(args, kwargs))

    def remembered(self) -> Callable | None:
        """The public call with a memory of the operators that the body recorded, see `repetition`; only where it is
        `plain`: True, or the names of the operands whose sizes it does not look at.
        """
        plain = self.options.get("plain")
        if not plain:
            return None
        sign, new = self.signature, 0
        memo: dict[tuple, repetition.Steps | None] = {}
        fitting: dict[tuple, None] = {}  # calls of kinds in the memory, with their sizes, that were checked
        once: dict[tuple, None] = {}  # further kinds that were met once: most sizes never come back
        takes = {n: known_calls.OPERAND for n, code in sign.takes.items() if code is not known_calls.ATTRIBUTE}
        any_size = () if plain is True else plain.split()
        takes |= {n: known_calls.ANY_SIZE for n in takes if sign.aliases.get(n, n) in any_size}
        places = tuple(takes.get(n, known_calls.ATTRIBUTE) for n in sign.positional)

        def public(*args: Any, **kwargs: Any) -> Any:
            nonlocal new
            try:
                # inside another one's body, which is to remember these steps as its own
                trace = segment.local.trace
                if trace is not None:
                    return trace.build(self, args, kwargs) if trace.builds else self.call(sign.bind(args, kwargs))
                call = known_calls.call_key(self, args, places, kwargs, takes)
                if call is not None:
                    state = call[1].state
                    path = state.get(call[0])
                    if path is not None:
                        result = again(path, call)
                        if result is not None:
                            return result
                key = known_calls.kinds_of(args, places, kwargs, takes) if new < repetition.FORGET else None
                if key is not None:
                    tensors = repetition.given(args, kwargs)
                    repeats = repetition.repeats(tensors)
                    key += (None, *repeats)
                    steps = memo.get(key)
                    if steps is not None:
                        if self.check_rule is not None:
                            sizes = (key, *[t._value.sig for t in tensors])
                            if sizes not in fitting:
                                self._check(sign.bind(args, kwargs))
                                bounded(fitting, 1024)[sizes] = None
                        if call is None or repeats or call[0][1] != key[0]:
                            return steps.on(tensors)
                        path = steps.found_again(state, call[0], tensors)
                        result = None if path is None else again(path, call)
                        if result is None:
                            result = steps.on(tensors)
                            keep(steps, call, state)
                        return result
                arguments = sign.bind(args, kwargs)
                if key is None or key in memo or arguments.get("out") is not None:
                    return self.call(arguments)
                if new >= AT_ONCE and key not in once:
                    bounded(once, 1024)[key] = None
                    return self.call(arguments)
                new += 1
                with repetition.Trace() as trace:
                    result = self.call(arguments)
                if precision.state.meaning == key[0]:  # and no other thread has changed what it means
                    steps = memo[key] = repetition.recorded_steps(trace, tensors, result)
                    if steps is not None and call is not None and not repeats and call[0][1] == key[0]:
                        keep(steps, call, state)
                return result
            except errors.TELLING as e:
                leave(errors.renamed(e, self.told, sign.defaults), self)
                raise

        def keep(steps: repetition.Steps, call: tuple, state: Any) -> None:
            """Let the state that a call was made from know where its steps led."""
            path = steps.path(state, call[1])
            if path is not None:
                segment.keep_call(state, call[0], path.nodes[0] if steps.is_one_call else path)

        def again(path: Any, call: tuple) -> Any:
            """What a call gives that was made before from this state; None if another thread cuts the segment meanwhile."""
            _, seg, device, tensors, _, leaves, needs = call
            seg.device = device
            if path.__class__ is repetition.Path:
                return path.again(seg, tensors, leaves, needs)
            return tape.step_to_one(seg, path, tensors, (), leaves, needs)

        return public
