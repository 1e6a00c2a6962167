"""Update rules that servers apply: each works on rows of values with their states behind them, in place."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.optimizer.adam import Adam
from bireme.optimizer.adaptive import Adagrad
from bireme.optimizer.optimizer import Optimizer
from bireme.optimizer.sgd import SGD


class Rule:
    """`state(width)` floats follow the `width` values of a row; `apply` changes both."""

    def __init__(self, **numbers: float):
        self.numbers = numbers

    def state(self, width: int) -> int:
        return 0

    def initial(self) -> float:
        """What states are before the first update."""
        return 0.0

    def apply(self, rows: np.ndarray, grads: np.ndarray, lr: float) -> None:
        width = grads.shape[1]
        rows[:, :width] -= np.float32(lr) * grads


class AdagradRule(Rule):
    """A sum of squares for each value."""

    def state(self, width: int) -> int:
        return width

    def initial(self) -> float:
        return self.numbers["initial"]

    def apply(self, rows: np.ndarray, grads: np.ndarray, lr: float) -> None:
        width = grads.shape[1]
        sums = rows[:, width:]
        sums += grads * grads
        rows[:, :width] -= np.float32(lr) * grads / (np.sqrt(sums) + np.float32(self.numbers["epsilon"]))


class AdamRule(Rule):
    """Two moments for each value, and how often the row was updated: rows that are seldom seen are corrected for it."""

    def state(self, width: int) -> int:
        return 2 * width + 1

    def apply(self, rows: np.ndarray, grads: np.ndarray, lr: float) -> None:
        width = grads.shape[1]
        beta1, beta2 = self.numbers["beta1"], self.numbers["beta2"]
        first, second, steps = rows[:, width : 2 * width], rows[:, 2 * width : 3 * width], rows[:, 3 * width :]
        steps += 1
        first *= np.float32(beta1)
        first += np.float32(1 - beta1) * grads
        second *= np.float32(beta2)
        second += np.float32(1 - beta2) * grads * grads
        made = steps.astype(np.float64)
        root = np.sqrt(1 - beta2**made)
        rate = (lr * root / (1 - beta1**made)).astype(np.float32)
        rows[:, :width] -= rate * first / (np.sqrt(second) + (self.numbers["epsilon"] * root).astype(np.float32))


class SumRule(Rule):
    """Differences are added, as workers that train on copies of their own send them."""

    def apply(self, rows: np.ndarray, grads: np.ndarray, lr: float) -> None:
        rows[:, : grads.shape[1]] += grads


RULES: dict[str, type[Rule]] = {"sgd": Rule, "adagrad": AdagradRule, "adam": AdamRule, "sum": SumRule}
NUMBERS: dict[str, set[str]] = {
    "sgd": set(),
    "sum": set(),
    "adagrad": {"epsilon", "initial"},
    "adam": {"epsilon", "beta1", "beta2"},
}


def made(config: Any) -> Rule:
    """The rule of a table's description."""
    kind = str(config.get("kind")) if isinstance(config, dict) else ""
    numbers = {k: v for k, v in config.items() if k != "kind"} if kind in RULES else None
    if numbers is None or set(numbers) != NUMBERS[kind] or not all(type(n) is float for n in numbers.values()):
        raise errors.bad("table(rule)", f"one of {', '.join(RULES)} with its numbers", described=str(config)[:200])
    return RULES[kind](**numbers)


def described(optimizer: Optimizer) -> dict[str, Any]:
    """The rule of an optimizer, in words that another process understands."""
    plain = optimizer.regularization is None and optimizer._grad_clip is None and not optimizer._grouped
    if type(optimizer) is SGD and plain:
        return {"kind": "sgd"}
    if type(optimizer) is Adagrad and plain:
        return {
            "kind": "adagrad",
            "epsilon": float(optimizer._epsilon),
            "initial": float(optimizer.initial_accumulator_value),
        }
    if type(optimizer) is Adam and plain and not optimizer._amsgrad:
        numbers = {"epsilon": optimizer._epsilon, "beta1": optimizer._beta1, "beta2": optimizer._beta2}
        return {"kind": "adam", **{name: float(number) for name, number in numbers.items()}}
    raise errors.bad(
        "distributed_optimizer(optimizer)",
        "SGD, Adagrad or Adam without clipping, weight decay and groups, which servers can apply",
        described=type(optimizer).__name__ if plain else f"{type(optimizer).__name__} with more settings",
    )
