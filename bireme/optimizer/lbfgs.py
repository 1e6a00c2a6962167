"""L-BFGS: steps by an estimate of the curvature from the last gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from bireme.core.base import errors
from bireme.core.tensor.grad_mode import enable_grad, no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.nn.clip import ClipGradBase
from bireme.ops import concat, to_tensor, zeros
from bireme.ops.optimizer.quasi_newton import inverse_curvature
from bireme.optimizer.line_search import Point, strong_wolfe
from bireme.optimizer.line_search import _cubic_interpolate as _cubic_interpolate
from bireme.optimizer.line_search import _strong_wolfe as _strong_wolfe
from bireme.optimizer.optimizer import Optimizer, Parameters
from bireme.regularizer import WeightDecayRegularizer


class LBFGS(Optimizer):
    """L-BFGS: a quasi-Newton method that estimates the curvature from the last gradients.

    It finds a minimum of a smooth loss in few evaluations. ``step`` takes a function that computes the loss, and calls
    it several times, so the loss must be deterministic: the whole data, no dropout.

    Args:
        learning_rate: Length of a step relative to the quasi-Newton step; with a line search, where the search begins.
            Default: 1.0.
        max_iter: Largest number of iterations per call of ``step``. Default: 20.
        max_eval: Largest number of evaluations of the loss per call of ``step``. Default: None, ``max_iter * 5 // 4``.
        tolerance_grad: Stop when the largest element of the gradient is at most this. Default: 1e-07.
        tolerance_change: Stop when the loss or the parameters change by less than this. Default: 1e-09.
        history_size: Number of past gradients that are kept. Default: 100.
        line_search_fn: None for steps of fixed length, or ``"strong_wolfe"``. Default: None.
        parameters: The parameters to update.
        weight_decay: Has no effect, as in Paddle.
        grad_clip: Has no effect, as in Paddle.
        name: Has no effect.

    Examples:
        >>> w = bireme.to_tensor([1.0, 1.0], stop_gradient=False)
        >>> lbfgs = bireme.optimizer.LBFGS(1.0, line_search_fn="strong_wolfe", parameters=[w])
        >>> def loss():
        ...     lbfgs.clear_grad()
        ...     value = ((w - bireme.to_tensor([3.0, -2.0])) ** 2).sum()
        ...     value.backward()
        ...     return value
        >>> lbfgs.step(loss).item()
        13.0
        >>> [round(x, 4) for x in w.tolist()]
        [3.0, -2.0]
    """

    def __init__(
        self,
        learning_rate: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-07,
        tolerance_change: float = 1e-09,
        history_size: int = 100,
        line_search_fn: str | None = None,
        parameters: Parameters | None = None,
        weight_decay: float | WeightDecayRegularizer | None = None,
        grad_clip: ClipGradBase | None = None,
        name: str | None = None,
    ):
        super().__init__(1.0, parameters, weight_decay, grad_clip, name)
        self.learning_rate, self.max_iter = learning_rate, max_iter
        self.max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        self.tolerance_grad, self.tolerance_change = tolerance_grad, tolerance_change
        self.history_size, self.line_search_fn = history_size, line_search_fn
        self.state: dict[str, Any] = {}

    @no_grad()
    def step(self, closure: Callable[[], Tensor]) -> Tensor:  # type: ignore[override]  # Paddle's signature
        """Iterate until the gradient or the change is small, or a limit is reached.

        Args:
            closure: Function without arguments that clears the gradients, computes the loss, calls its ``backward()``
                and returns it.

        Returns:
            The loss before the first iteration.

        Raises:
            RuntimeError: If ``line_search_fn`` is neither None nor ``"strong_wolfe"``.
        """
        # raised here, not by the constructor, as in Paddle
        if self.line_search_fn not in (None, "strong_wolfe"):
            raise errors.bad(
                "LBFGS(line_search_fn)",
                "'strong_wolfe' or None",
                described=repr(self.line_search_fn),
                kind=RuntimeError,
            )
        state = self.state
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first = self._loss(closure)
        loss, grad = float(first), self._gradient()
        evaluations, state["func_evals"] = 1, state["func_evals"] + 1
        if self._is_flat(grad):
            return first
        for left in range(self.max_iter - 1, -1, -1):
            state["n_iter"] += 1
            direction = self._direction(grad)
            fresh = state["n_iter"] == 1
            size = min(1.0, 1.0 / float(grad.abs().sum())) * self.learning_rate if fresh else self.learning_rate
            state.update(d=direction, alpha=size, prev_flat_grad=grad, prev_loss=loss)
            slope = float((grad * direction).sum())
            if slope > -self.tolerance_change:
                break
            calls = 0
            if self.line_search_fn is not None:
                begin, length = [p.clone() for p in self._parameter_list], float(direction.abs().max())
                search = self._along(closure, begin, direction)
                found, calls = strong_wolfe(search, Point(0.0, loss, grad, slope), size, length)
                loss, grad, size = found.loss, found.grad, found.step
                self._move(begin, direction, size)
            else:
                self._move(self._parameter_list, direction, size)
                # the last point is not evaluated: the next call begins with it
                if left:
                    loss, grad, calls = float(self._loss(closure)), self._gradient(), 1
            state["alpha"] = size
            evaluations, state["func_evals"] = evaluations + calls, state["func_evals"] + calls
            change = abs(loss - state["prev_loss"])
            if not left or evaluations >= self.max_eval or self._is_flat(grad) or change < self.tolerance_change:
                break
            if float((direction * size).abs().max()) <= self.tolerance_change:
                break
        return first

    def _loss(self, closure: Callable[[], Tensor]) -> Tensor:
        with enable_grad():
            return closure()

    def _gradient(self) -> Tensor:
        """All gradients as one vector."""
        return concat(
            [(zeros(p.shape, p.dtype) if p.grad is None else p.grad).reshape([-1]) for p in self._parameter_list]
        )

    def _is_flat(self, grad: Tensor) -> bool:
        return float(grad.abs().max()) <= self.tolerance_grad

    def _direction(self, grad: Tensor) -> Tensor:
        """Return the quasi-Newton direction: minus the inverse curvature from the history, times the gradient."""
        state = self.state
        if state["n_iter"] == 1:
            state.update(old_yk=[], old_sk=[], ro=[], H_diag=to_tensor(1.0, dtype=grad.dtype), al=[])
            return -grad
        y, s = grad - state["prev_flat_grad"], state["d"] * state["alpha"]
        both = (y * s).sum()
        if float(both) > 1e-10:
            for name, value in (("old_yk", y), ("old_sk", s), ("ro", 1.0 / both)):
                state[name] = [*state[name], value][-self.history_size :]
            state["H_diag"] = both / (y * y).sum()
        if not state["ro"]:
            state["al"] = []
            return -grad * state["H_diag"]
        history = [state[name] for name in ("old_yk", "old_sk", "ro")]
        direction, weights = inverse_curvature(grad, *history, state["H_diag"])
        state["al"] = weights
        return direction

    def _along(self, closure: Callable[[], Tensor], begin: list[Tensor], direction: Tensor) -> Callable[[float], Point]:
        def evaluate(step: float) -> Point:
            self._move(begin, direction, step)
            loss, grad = float(self._loss(closure)), self._gradient()
            return Point(step, loss, grad, float((grad * direction).sum()))

        return evaluate

    def _move(self, begin: list[Tensor], direction: Tensor, step: float) -> None:
        start = 0
        for p, value in zip(self._parameter_list, begin):
            part = direction[start : start + p._value.sig.size].reshape(p.shape)
            p._assign_value((value + part * step).astype(p.dtype))
            start += p._value.sig.size

    def minimize(
        self,
        loss: Tensor,
        startup_program: Any = None,
        parameters: Iterable[Tensor] | None = None,
        no_grad_set: Iterable[Tensor | str] | None = None,
    ) -> NoReturn:
        """Not available: L-BFGS needs a function that computes the loss, see ``step``.

        Args:
            loss: Not used.
            startup_program: Not used.
            parameters: Not used.
            no_grad_set: Not used.

        Raises:
            NotImplementedError: Always.
        """
        got = "LBFGS.minimize(loss)"
        raise errors.bad(
            "LBFGS.minimize",
            "step(closure), with a function that computes the loss",
            described=got,
            kind=NotImplementedError,
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the optimizer.

        Returns:
            A dict with the key ``state``: the last direction, its length and the history of gradients.
        """
        state = dict(self.state)
        if "al" in state:
            state["al"] = list(state["al"])
        return {"state": state}

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state of another ``LBFGS``.

        Args:
            state_dict: What ``state_dict()`` returned.

        Raises:
            ValueError: If the key ``state`` is missing.
        """
        if "state" not in state_dict:
            raise errors.bad(
                "LBFGS.set_state_dict(state_dict)", "the key state", ", ".join(map(str, state_dict)) or "{}"
            )
        self.state = dict(state_dict["state"])
