"""Line search for a step that fulfils the strong Wolfe conditions: a low enough loss and a small enough slope."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from bireme.core.tensor.tensor import Tensor


class Wanted(NamedTuple):
    """The two constants of the strong Wolfe conditions, c1 and c2, by what they ask for."""

    enough: float
    flat: float


USUAL = Wanted(enough=1e-4, flat=0.9)


class Point(NamedTuple):
    """A step length with the loss, the gradient and the directional derivative there."""

    step: float
    loss: float
    grad: Tensor
    slope: float


def strong_wolfe(
    evaluate: Callable[[float], Point],
    start: Point,
    step: float,
    length: float,
    tolerance: float = 1e-9,
    most: int = 25,
    wanted: Wanted = USUAL,
) -> tuple[Point, int]:
    """Return the point found and the number of evaluations; ``length`` is the largest element of the direction."""
    here, before, calls = evaluate(step), start, 1
    ends: list[Point] | None = None
    for tried in range(most):
        if _too_high(here, start, wanted) or (tried > 1 and here.loss >= before.loss):
            ends = [before, here]
        elif abs(here.slope) <= -wanted.flat * start.slope:
            return here, calls
        elif here.slope >= 0:
            ends = [before, here]
        if ends is not None:
            break
        # still downhill: extend the step, by a factor of at most ten
        further = cubic(before, here, (here.step + 0.01 * (here.step - before.step), here.step * 10))
        before, here = here, evaluate(further)
        calls += 1
    else:
        tried, ends = most, [start, here]
    return _zoom(evaluate, start, ends, length, tolerance, most - tried, calls, wanted)


def _zoom(
    evaluate: Callable[[float], Point],
    start: Point,
    ends: list[Point],
    length: float,
    tolerance: float,
    most: int,
    calls: int,
    wanted: Wanted,
) -> tuple[Point, int]:
    """Narrow the interval between two points; the one with the lower loss is always kept."""
    low, high = (0, 1) if ends[0].loss <= ends[1].loss else (1, 0)
    stuck = False
    for _ in range(most):
        near, far = sorted(p.step for p in ends)
        if (far - near) * length < tolerance:
            break
        step, margin = cubic(ends[0], ends[1]), 0.1 * (far - near)
        if min(far - step, step - near) < margin:
            # close to an end twice in a row, or beyond it: the interval would hardly shrink
            if stuck or step >= far or step <= near:
                step = far - margin if abs(step - far) < abs(step - near) else near + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        here = evaluate(step)
        calls += 1
        if _too_high(here, start, wanted) or here.loss >= ends[low].loss:
            ends[high] = here
            low, high = (0, 1) if ends[0].loss <= ends[1].loss else (1, 0)
            continue
        if abs(here.slope) <= -wanted.flat * start.slope:
            return here, calls
        if here.slope * (ends[high].step - ends[low].step) >= 0:
            ends[high] = ends[low]
        ends[low] = here
    return ends[low], calls


def _too_high(here: Point, start: Point, wanted: Wanted) -> bool:
    return here.loss > start.loss + wanted.enough * here.step * start.slope


def cubic(a: Point, b: Point, bounds: tuple[float, float] | None = None) -> float:
    """Return the minimum of the cubic through both points with their slopes, within the bounds or between them."""
    least, most = sorted((a.step, b.step)) if bounds is None else bounds
    if b.step == a.step:
        return (least + most) / 2
    bend = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.step - b.step)
    square = bend * bend - a.slope * b.slope
    if not square >= 0:
        return (least + most) / 2
    if a.step > b.step:
        a, b = b, a
    root = math.sqrt(square)
    below = b.slope - a.slope + 2 * root
    found = b.step - (b.step - a.step) * ((b.slope + root - bend) / below) if below else math.nan
    return min(max(found, least), most) if math.isfinite(found) else (least + most) / 2


# ---------------------------------------------------------------- the same under Paddle's names, for numbers or tensors


def _strong_wolfe(
    obj_func: Callable[[Any, float, Tensor], tuple[Any, Tensor]],
    xk: Any,
    alpha: Any,
    d: Tensor,
    loss: Any,
    grad: Tensor,
    gtd: Any,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance_change: float = 1e-9,
    max_ls: int = 25,
) -> tuple[float, Tensor, float, int]:
    """Return loss, gradient and step at the end of the search along ``d`` from ``xk``, and the evaluations made."""

    def evaluate(step: float) -> Point:
        value, gradient = obj_func(xk, step, d)
        return Point(step, float(value), gradient, float((gradient * d).sum()))

    start = Point(0.0, float(loss), grad, float(gtd))
    found, calls = strong_wolfe(
        evaluate, start, float(alpha), float(d.abs().max()), tolerance_change, max_ls, Wanted(c1, c2)
    )
    return found.loss, found.grad, found.step, calls


def _cubic_interpolate(
    x1: Any, f1: Any, g1: Any, x2: Any, f2: Any, g2: Any, bounds: tuple[float, float] | None = None
) -> float:
    """The step where the cubic through two points, each a step with its loss and slope, is lowest."""
    first, second = (Point(float(x), float(f), g, float(g)) for x, f, g in ((x1, f1, g1), (x2, f2, g2)))
    return cubic(first, second, bounds)
