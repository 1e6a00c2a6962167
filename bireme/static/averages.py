"""ExponentialMovingAverage: averages of parameters over the runs of a program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import Guarded
from bireme.core.program import building, gradients
from bireme.core.tensor.parameter import Parameter
from bireme.core.tensor.tensor import Tensor
from bireme.ops import full, minimum, pow
from bireme.static import scopes
from bireme.static.variables import create_global_var
from bireme.utils import unique_name


class ExponentialMovingAverage(Guarded):
    """Averages of the parameters of a program over its runs, the last ones weighing most, to evaluate with.

    ``update`` adds ``average = decay * average + (1 - decay) * parameter`` to the program; ``apply`` puts the averages,
    divided by ``1 - decay ** runs``, in the place of the parameters. It is made after ``minimize``, in static mode.

    Args:
        decay: Share of the old average that is kept. Default: 0.999.
        thres_steps: Variable or tensor of a number of steps: the share is at most ``(1 + steps) / (10 + steps)``.
            Default: None.
        name: Prefix of the names of the averages. Default: None, none.

    Examples:
        >>> import numpy as np
        >>> bireme.enable_static()
        >>> main, startup = bireme.static.Program(), bireme.static.Program()
        >>> with bireme.static.program_guard(main, startup):
        ...     x = bireme.static.data("x", [None, 1])
        ...     w = bireme.nn.initializer.Constant(1.0)
        ...     loss = bireme.static.nn.fc(x, 1, weight_attr=w, bias_attr=False).mean()
        ...     test = main.clone(for_test=True)
        ...     _ = bireme.optimizer.SGD(0.5).minimize(loss)
        ...     average = bireme.static.ExponentialMovingAverage(0.5)
        ...     average.update()
        >>> exe = bireme.static.Executor()
        >>> _ = exe.run(startup)
        >>> feed = {"x": np.ones([1, 1], "float32")}
        >>> [exe.run(main, feed=feed, fetch_list=[loss])[0].item() for _ in range(2)]
        [1.0, 0.5]
        >>> with average.apply(exe):
        ...     round(exe.run(test, feed=feed, fetch_list=[loss])[0].item(), 4)
        0.1667
        >>> bireme.disable_static()
    """

    def __init__(self, decay: float = 0.999, thres_steps: Any = None, name: str | None = None):
        builder = building.current()
        if builder is None:
            raise errors.failure("ExponentialMovingAverage averages the parameters of a program, in static mode")
        self._decay, self._thres_steps, self._name = decay, thres_steps, name or ""
        self._runs = create_global_var([], 0, "int64", True, name=unique_name.generate("@EMA_STEP_COUNTER@"))
        self._rate = create_global_var([], decay, "float32", True, name=unique_name.generate("ema_decay_rate"))
        params = [p for p in builder.program.all_parameters() if p.do_model_average and not p.stop_gradient]
        self._pairs: list[tuple[Parameter, Tensor]] = [
            (p, create_global_var(p.shape, 0.0, p.dtype, True, name=unique_name.generate(f"{self._name}{p.name}_ema")))
            for p in params
        ]
        self._kept: dict[str, Tensor] = {}

    def update(self) -> None:
        """Add the update of the averages to the program.

        Examples:
            >>> callable(bireme.static.ExponentialMovingAverage.update)
            True
        """
        builder = building.current()
        if builder is None:
            raise errors.failure("update() adds to a program, in static mode")

        def average(held: list[Tensor], steps: list[Any]) -> None:
            runs, rate, *rest = held
            if steps:
                steps_done = steps[0].astype("float32").reshape([])
                rate._assign_value(minimum((steps_done + 1.0) / (steps_done + 10.0), full([], self._decay)))
            half = len(rest) // 2
            for p, mean in zip(rest[:half], rest[half:], strict=True):
                share = rate.astype(p.dtype)
                mean._assign_value(mean * share + p.detach() * (1 - share))
            runs._assign_value(runs + 1)

        held = [self._runs, self._rate, *[p for p, _ in self._pairs], *[mean for _, mean in self._pairs]]
        steps = [] if self._thres_steps is None else [self._thres_steps]
        gradients.update(builder, average, "average", held, steps)

    @contextmanager
    def apply(self, executor: Any, need_restore: bool = True) -> Iterator[None]:
        """Context manager in which the parameters have the values of their averages.

        Args:
            executor: Has no effect: parameters are those of the present scope.
            need_restore: Give them back their own values at the end. Default: True.

        Returns:
            A context manager.

        Examples:
            >>> callable(bireme.static.ExponentialMovingAverage.apply)
            True
        """
        scope = scopes.global_scope()
        with building.suspended():
            runs = scope.tensor(self._runs).astype("float32")
            share = 1.0 - pow(scope.tensor(self._rate), runs)
            done = int(runs) > 0
            for p, mean in self._pairs:
                param, value = scope.tensor(p), scope.tensor(mean)
                self._kept[p.name] = param.detach().clone()
                param._assign_value((value / share.astype(p.dtype)).detach() if done else value.detach().clone())
        try:
            yield
        finally:
            if need_restore:
                self.restore(executor)

    def restore(self, executor: Any) -> None:
        """Give the parameters back the values that they had before ``apply``.

        Args:
            executor: Has no effect: parameters are those of the present scope.

        Examples:
            >>> callable(bireme.static.ExponentialMovingAverage.restore)
            True
        """
        scope = scopes.global_scope()
        with building.suspended():
            for p, _ in self._pairs:
                if p.name in self._kept:
                    scope.tensor(p)._assign_value(self._kept.pop(p.name))
