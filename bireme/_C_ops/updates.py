"""Steps of optimizers on bare tensors, one parameter at a time, as `paddle._C_ops` has them; `bireme.optimizer` has the fast ones."""

from __future__ import annotations

from typing import Any

from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.ops import clip, maximum, sign, sqrt, where
from bireme.ops.optimizer import update_variants


class _Step:
    """A parameter while it is updated: in float32 where there is a master copy, and written back at the end."""

    def __init__(self, param: Tensor, grad: Tensor, master: Tensor | None, multi_precision: bool):
        self.param, self.master = param, master if multi_precision else None
        held = param if self.master is None else self.master
        self.value = held.detach()  # type: ignore[attr-defined]  # installed by core.view
        self.grad = grad.detach().astype(self.value.dtype)  # type: ignore[attr-defined]  # installed by core.view

    def store(self, new: Tensor, skip: Any = None) -> None:
        for held in (self.param, self.master):
            if held is not None:
                store(held, new, skip)


def store(held: Tensor | None, new: Tensor, skip: Any = None) -> None:
    """Make these the numbers of a tensor, unless the step is skipped."""
    if held is not None and new is not None:
        chosen = new if skip is None else where(skip, held.astype(new.dtype), new)  # type: ignore[attr-defined]  # installed by core.op
        held._assign_value(chosen.astype(held.dtype))


def _number(x: Any) -> Any:
    """A coefficient that may come as a tensor of one element."""
    return x.reshape([]) if isinstance(x, Tensor) else x  # type: ignore[attr-defined]  # installed by ops


@no_grad()
def sgd_(param: Tensor, learning_rate: Tensor, grad: Tensor, master_param: Tensor | None = None, multi_precision: bool = False) -> tuple:
    """Plain gradient descent.

    >>> p = bireme.ones([1]); bireme._C_ops.sgd_(p, bireme.to_tensor([0.5]), bireme.ones([1])); p.tolist()
    (...)
    [0.5]
    """
    step = _Step(param, grad, master_param, multi_precision)
    step.store(step.value - _number(learning_rate) * step.grad)
    return param, master_param


@no_grad()
def momentum_(param: Tensor, grad: Tensor, velocity: Tensor, learning_rate: Tensor, master_param: Tensor | None, mu: float,
              use_nesterov: bool = False, regularization_method: str = "", regularization_coeff: float = 0.0, multi_precision: bool = False,
              rescale_grad: float = 1.0) -> tuple:  # fmt: skip
    """Momentum, with L2 decay where `regularization_method` is l2_decay."""
    step, rate = _Step(param, grad, master_param, multi_precision), _number(learning_rate)
    g = step.grad * rescale_grad
    if regularization_method == "l2_decay":
        g = g + regularization_coeff * step.value
    v = mu * velocity.astype(g.dtype) + g  # type: ignore[attr-defined]  # installed by ops
    step.store(step.value - rate * (g + mu * v if use_nesterov else v))
    store(velocity, v)
    return param, velocity, master_param


@no_grad()
def adam_(param: Tensor, grad: Tensor, learning_rate: Tensor, moment1: Tensor, moment2: Tensor, moment2_max: Tensor | None, beta1_pow: Tensor,
          beta2_pow: Tensor, master_param: Tensor | None = None, skip_update: Tensor | None = None, beta1: Any = 0.9, beta2: Any = 0.999,
          epsilon: Any = 1e-8, lazy_mode: bool = False, min_row_size_to_use_multithread: int = 1000, multi_precision: bool = False,
          use_global_beta_pow: bool = False, amsgrad: bool = False) -> tuple:  # fmt: skip
    """Adam, or AMSGrad."""
    step = _Step(param, grad, master_param, multi_precision)
    _adam(step, learning_rate, (moment1, moment2, moment2_max if amsgrad else None), (beta1_pow, beta2_pow), skip_update, (beta1, beta2), epsilon,
          use_global_beta_pow)  # fmt: skip
    return param, moment1, moment2, moment2_max, beta1_pow, beta2_pow, master_param


@no_grad()
def adamw_(param: Tensor, grad: Tensor, learning_rate: Tensor, moment1: Tensor, moment2: Tensor, moment2_max: Tensor | None, beta1_pow: Tensor,
           beta2_pow: Tensor, master_param: Tensor | None = None, skip_update: Tensor | None = None, beta1: Any = 0.9, beta2: Any = 0.999,
           epsilon: Any = 1e-8, lr_ratio: float = 1.0, coeff: float = 0.01, with_decay: bool = False, lazy_mode: bool = False,
           min_row_size_to_use_multithread: int = 1000, multi_precision: bool = False, use_global_beta_pow: bool = False,
           amsgrad: bool = False) -> tuple:  # fmt: skip
    """AdamW: the decay does not pass through the moments."""
    step, rate = _Step(param, grad, master_param, multi_precision), _number(learning_rate) * lr_ratio
    if with_decay:
        step.value = step.value * (1.0 - rate * coeff)
    _adam(step, rate, (moment1, moment2, moment2_max if amsgrad else None), (beta1_pow, beta2_pow), skip_update, (beta1, beta2), epsilon,
          use_global_beta_pow)  # fmt: skip
    return param, moment1, moment2, moment2_max, beta1_pow, beta2_pow, master_param


def _adam(step: _Step, rate: Any, moments: tuple, pows: tuple, skip: Any, betas: tuple, epsilon: Any, keeps_pows: bool) -> None:
    (b1, b2), (first, second, most) = [_number(b) for b in betas], moments
    p1, p2 = (_number(p.detach()) for p in pows)
    m, v = b1 * first + (1 - b1) * step.grad, b2 * second + (1 - b2) * step.grad * step.grad
    top = v if most is None else maximum(most, v)
    step.store(step.value - _number(rate) / (1 - p1) * m / (sqrt(top) / sqrt(1 - p2) + _number(epsilon)), skip)
    store(first, m, skip)
    store(second, v, skip)
    store(most, top, skip)
    if not keeps_pows:
        for held, b in zip(pows, (b1, b2)):
            store(held, held * b, skip)


@no_grad()
def adamax_(param: Tensor, grad: Tensor, learning_rate: Tensor, moment: Tensor, inf_norm: Tensor, beta1_pow: Tensor,
            master_param: Tensor | None = None, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
            multi_precision: bool = False) -> tuple:  # fmt: skip
    """Adam by the largest gradient."""
    step = _Step(param, grad, master_param, multi_precision)
    m, top = beta1 * moment + (1 - beta1) * step.grad, maximum(step.grad.abs(), beta2 * inf_norm + epsilon)
    step.store(step.value - _number(learning_rate) / (1 - _number(beta1_pow)) * m / top)
    store(moment, m)
    store(inf_norm, top)
    return param, moment, inf_norm, master_param


@no_grad()
def adagrad_(param: Tensor, grad: Tensor, moment: Tensor, learning_rate: Tensor, master_param: Tensor | None = None, epsilon: float = 1e-6,
             multi_precision: bool = False) -> tuple:  # fmt: skip
    """Adagrad."""
    step = _Step(param, grad, master_param, multi_precision)
    squares = moment + step.grad * step.grad
    step.store(step.value - _number(learning_rate) * step.grad / (sqrt(squares) + epsilon))
    store(moment, squares)
    return param, moment, master_param


@no_grad()
def adadelta_(param: Tensor, grad: Tensor, avg_squared_grad: Tensor, avg_squared_update: Tensor, learning_rate: Tensor,
              master_param: Tensor | None = None, rho: float = 0.95, epsilon: float = 1e-6, multi_precision: bool = False) -> tuple:  # fmt: skip
    """Adadelta."""
    step = _Step(param, grad, master_param, multi_precision)
    squares = rho * avg_squared_grad + (1 - rho) * step.grad * step.grad
    change = -sqrt((avg_squared_update + epsilon) / (squares + epsilon)) * step.grad
    step.store(step.value + _number(learning_rate) * change)
    store(avg_squared_update, rho * avg_squared_update + (1 - rho) * change * change)
    store(avg_squared_grad, squares)
    return param, avg_squared_grad, avg_squared_update, master_param


@no_grad()
def rmsprop_(param: Tensor, mean_square: Tensor, grad: Tensor, moment: Tensor, learning_rate: Tensor, mean_grad: Tensor | None = None,
             master_param: Tensor | None = None, epsilon: float = 1e-10, decay: float = 0.9, momentum: float = 0.0, centered: bool = False,
             multi_precision: bool = False) -> tuple:  # fmt: skip
    """RMSProp, about the mean of the gradients where `centered`."""
    step = _Step(param, grad, master_param, multi_precision)
    spread = squares = decay * mean_square + (1 - decay) * step.grad * step.grad
    if centered:
        mean = decay * mean_grad + (1 - decay) * step.grad
        spread = squares - mean * mean
        store(mean_grad, mean)
    move = momentum * moment + _number(learning_rate) * step.grad / sqrt(spread + epsilon)
    step.store(step.value - move)
    store(mean_square, squares)
    store(moment, move)
    return param, moment, mean_square, mean_grad, master_param


@no_grad()
def rprop_(param: Tensor, grad: Tensor, prev: Tensor, learning_rate: Tensor, master_param: Tensor | None, learning_rate_range: Tensor,
           etas: Tensor, multi_precision: bool = False) -> tuple:  # fmt: skip
    """Rprop: each element has a rate of its own, which grows while the sign of the gradient stays."""
    step = _Step(param, grad, master_param, multi_precision)
    agree = sign(step.grad * prev)
    factor = where(agree > 0, etas[1], where(agree < 0, etas[0], agree * 0 + 1))  # type: ignore[index]  # installed by ops.index
    rate = clip(learning_rate * factor, learning_rate_range[0], learning_rate_range[1])  # type: ignore[index]  # installed by ops.index
    g = where(agree < 0, step.grad * 0, step.grad)
    step.store(step.value - sign(g) * rate)
    store(prev, g)
    store(learning_rate, rate)
    return param, prev, learning_rate, master_param


@no_grad()
def asgd_(param: Tensor, grad: Tensor, learning_rate: Tensor, d: Tensor, y: Tensor, n: Tensor, master_param: Tensor | None = None,
          multi_precision: bool = False) -> tuple:  # fmt: skip
    """The mean of the gradients of the last batches."""
    step = _Step(param, grad, master_param, multi_precision)
    total = d - y + step.grad
    step.store(step.value - _number(learning_rate) / _number(n) * total)
    store(d, total)
    store(y, step.grad)
    return param, d, y, master_param


@no_grad()
def nadam_(param: Tensor, grad: Tensor, learning_rate: Tensor, momentum_decay_pow: Tensor, beta2_pow: Tensor, mu_product: Tensor,
           moment1: Tensor, moment2: Tensor, master_param: Tensor | None = None, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
           momentum_decay: float = 0.004, multi_precision: bool = False) -> tuple:  # fmt: skip
    """Adam with Nesterov's momentum."""
    step, held = _Step(param, grad, master_param, multi_precision), (momentum_decay_pow, beta2_pow, mu_product, moment1, moment2)
    coefficients = (_number(learning_rate), beta1, beta2, epsilon, momentum_decay)
    _running(step, held, update_variants.nadam_update([step.value], [step.grad], *[[x] for x in held], *coefficients))
    return param, *held, master_param


@no_grad()
def radam_(param: Tensor, grad: Tensor, learning_rate: Tensor, beta1_pow: Tensor, beta2_pow: Tensor, rho: Tensor, moment1: Tensor,
           moment2: Tensor, master_param: Tensor | None = None, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
           multi_precision: bool = False) -> tuple:  # fmt: skip
    """Adam that does without the root while it knows too little."""
    step, held = _Step(param, grad, master_param, multi_precision), (beta1_pow, beta2_pow, rho, moment1, moment2)
    coefficients = (_number(learning_rate), beta1, beta2, epsilon)
    _running(step, held, update_variants.radam_update([step.value], [step.grad], *[[x] for x in held], *coefficients))
    return param, *held, master_param


def _running(step: _Step, held: tuple, new: list[Tensor]) -> None:
    step.store(new[0])
    for tensor, value in zip(held, new[1:]):
        store(tensor, value)


@no_grad()
def lamb_(param: Tensor, grad: Tensor, learning_rate: Tensor, moment1: Tensor, moment2: Tensor, beta1_pow: Tensor, beta2_pow: Tensor,
          master_param: Tensor | None = None, skip_update: Tensor | None = None, weight_decay: float = 0.01, beta1: float = 0.9,
          beta2: float = 0.999, epsilon: float = 1e-6, always_adapt: bool = False, multi_precision: bool = False) -> tuple:  # fmt: skip
    """LAMB: Adam's step, scaled to the size of the parameter."""
    step, skip = _Step(param, grad, master_param, multi_precision), _number(skip_update)
    m, v = beta1 * moment1 + (1 - beta1) * step.grad, beta2 * moment2 + (1 - beta2) * step.grad * step.grad
    p1, p2 = _number(beta1_pow), _number(beta2_pow)
    change = m / (1 - p1) / (sqrt(v / (1 - p2)) + epsilon) + weight_decay * step.value
    rate = _number(learning_rate)
    if weight_decay > 0 or always_adapt:
        size, length = step.value.norm(), change.norm()
        usable = (size > 0) & (length > 0)
        rate = rate * where(usable, size / where(usable, length, length * 0 + 1), size * 0 + 1)
    step.store(step.value - rate * change, skip)
    for held, new in ((moment1, m), (moment2, v), (beta1_pow, beta1_pow * beta1), (beta2_pow, beta2_pow * beta2)):
        store(held, new, skip)
    return param, moment1, moment2, beta1_pow, beta2_pow, master_param
