"""Updates of optimizers on plain tensors, one parameter at a time, as in `paddle._C_ops`."""

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
    """Replace the values of a tensor, unless the step is skipped."""
    if held is not None and new is not None:
        chosen = new if skip is None else where(skip, held.astype(new.dtype), new)  # type: ignore[attr-defined]  # installed by core.op
        held._assign_value(chosen.astype(held.dtype))


def _number(x: Any) -> Any:
    """A coefficient that may come as a tensor of one element."""
    return x.reshape([]) if isinstance(x, Tensor) else x  # type: ignore[attr-defined]  # installed by ops


@no_grad()
def sgd_(
    param: Tensor,
    learning_rate: Tensor,
    grad: Tensor,
    master_param: Tensor | None = None,
    multi_precision: bool = False,
) -> tuple:
    """Update a parameter in place by gradient descent: ``param -= learning_rate * grad``.

    Args:
        param: Parameter to update.
        learning_rate: Learning rate, a tensor of one element.
        grad: Its gradient.
        master_param: float32 copy of a low-precision parameter, used and updated with ``multi_precision``. Default:
            None.
        multi_precision: Whether to compute with ``master_param``. Default: False.

    Returns:
        ``(param, master_param)``.

    Examples:
        >>> p, g, rate = bireme.ones([1]), bireme.ones([1]), bireme.to_tensor([0.5])
        >>> _ = bireme._C_ops.sgd_(p, rate, g)
        >>> round(p.item(), 4)
        0.5
    """
    step = _Step(param, grad, master_param, multi_precision)
    step.store(step.value - _number(learning_rate) * step.grad)
    return param, master_param


@no_grad()
def momentum_(
    param: Tensor,
    grad: Tensor,
    velocity: Tensor,
    learning_rate: Tensor,
    master_param: Tensor | None,
    mu: float,
    use_nesterov: bool = False,
    regularization_method: str = "",
    regularization_coeff: float = 0.0,
    multi_precision: bool = False,
    rescale_grad: float = 1.0,
) -> tuple:
    """Update a parameter in place by gradient descent with momentum.

    Args:
        param: Parameter to update.
        grad: Its gradient.
        velocity: Running sum of the gradients.
        learning_rate: Learning rate, a tensor of one element.
        master_param: float32 copy of a low-precision parameter, used and updated with ``multi_precision``.
        mu: Momentum coefficient.
        use_nesterov: Whether to use Nesterov's momentum. Default: False.
        regularization_method: ``'l2_decay'`` adds L2 regularization to the gradient; anything else, none. Default:
            ``''``.
        regularization_coeff: Coefficient of the regularization. Default: 0.0.
        multi_precision: Whether to compute with ``master_param``. Default: False.
        rescale_grad: Factor of the gradient. Default: 1.0.

    Returns:
        ``(param, velocity, master_param)``.

    Examples:
        >>> p, g, rate = bireme.ones([1]), bireme.ones([1]), bireme.to_tensor([0.5])
        >>> _ = bireme._C_ops.momentum_(p, g, bireme.zeros([1]), rate, None, 0.9)
        >>> round(p.item(), 4)
        0.5
    """
    step, rate = _Step(param, grad, master_param, multi_precision), _number(learning_rate)
    g = step.grad * rescale_grad
    if regularization_method == "l2_decay":
        g = g + regularization_coeff * step.value
    v = mu * velocity.astype(g.dtype) + g  # type: ignore[attr-defined]  # installed by ops
    step.store(step.value - rate * (g + mu * v if use_nesterov else v))
    store(velocity, v)
    return param, velocity, master_param


@no_grad()
def adam_(
    param: Tensor,
    grad: Tensor,
    learning_rate: Tensor,
    moment1: Tensor,
    moment2: Tensor,
    moment2_max: Tensor | None,
    beta1_pow: Tensor,
    beta2_pow: Tensor,
    master_param: Tensor | None = None,
    skip_update: Tensor | None = None,
    beta1: Any = 0.9,
    beta2: Any = 0.999,
    epsilon: Any = 1e-8,
    lazy_mode: bool = False,
    min_row_size_to_use_multithread: int = 1000,
    multi_precision: bool = False,
    use_global_beta_pow: bool = False,
    amsgrad: bool = False,
) -> tuple:
    """Update a parameter in place by Adam, or by AMSGrad.

    Args:
        param: Parameter to update.
        grad: Its gradient.
        learning_rate: Learning rate, a tensor of one element.
        moment1: Running mean of the gradients.
        moment2: Running mean of their squares.
        moment2_max: Running maximum of ``moment2``, used and updated with ``amsgrad``; else ``None``.
        beta1_pow: ``beta1`` to the power of this step (1, 2, ...); multiplied by ``beta1`` afterwards.
        beta2_pow: ``beta2`` to the power of this step; multiplied by ``beta2`` afterwards.
        master_param: float32 copy of a low-precision parameter, used and updated with ``multi_precision``. Default:
            None.
        skip_update: Bool tensor of one element; true leaves everything unchanged. Default: None.
        beta1: Decay rate of the mean of the gradients. Default: 0.9.
        beta2: Decay rate of the mean of their squares. Default: 0.999.
        epsilon: Number that keeps the divisor from being zero. Default: 1e-08.
        lazy_mode: Has no effect. Default: False.
        min_row_size_to_use_multithread: Has no effect. Default: 1000.
        multi_precision: Whether to compute with ``master_param``. Default: False.
        use_global_beta_pow: Whether ``beta1_pow`` and ``beta2_pow`` are left unchanged. Default: False.
        amsgrad: Whether to divide by the largest second moment so far. Default: False.

    Returns:
        ``(param, moment1, moment2, moment2_max, beta1_pow, beta2_pow, master_param)``.

    Examples:
        >>> p, g, rate = bireme.ones([1]), bireme.ones([1]), bireme.to_tensor([0.5])
        >>> m, v, b1, b2 = (bireme.to_tensor([n]) for n in (0.0, 0.0, 0.9, 0.999))
        >>> _ = bireme._C_ops.adam_(p, g, rate, m, v, None, b1, b2)
        >>> round(p.item(), 4)
        0.5
    """
    step = _Step(param, grad, master_param, multi_precision)
    _adam(
        step,
        learning_rate,
        (moment1, moment2, moment2_max if amsgrad else None),
        (beta1_pow, beta2_pow),
        skip_update,
        (beta1, beta2),
        epsilon,
        use_global_beta_pow,
    )
    return param, moment1, moment2, moment2_max, beta1_pow, beta2_pow, master_param


@no_grad()
def adamw_(
    param: Tensor,
    grad: Tensor,
    learning_rate: Tensor,
    moment1: Tensor,
    moment2: Tensor,
    moment2_max: Tensor | None,
    beta1_pow: Tensor,
    beta2_pow: Tensor,
    master_param: Tensor | None = None,
    skip_update: Tensor | None = None,
    beta1: Any = 0.9,
    beta2: Any = 0.999,
    epsilon: Any = 1e-8,
    lr_ratio: float = 1.0,
    coeff: float = 0.01,
    with_decay: bool = False,
    lazy_mode: bool = False,
    min_row_size_to_use_multithread: int = 1000,
    multi_precision: bool = False,
    use_global_beta_pow: bool = False,
    amsgrad: bool = False,
) -> tuple:
    """Update a parameter in place by AdamW: Adam with decoupled weight decay.

    Args:
        param: Parameter to update.
        grad: Its gradient.
        learning_rate: Learning rate, a tensor of one element.
        moment1: Running mean of the gradients.
        moment2: Running mean of their squares.
        moment2_max: Running maximum of ``moment2``, used and updated with ``amsgrad``; else ``None``.
        beta1_pow: ``beta1`` to the power of this step (1, 2, ...); multiplied by ``beta1`` afterwards.
        beta2_pow: ``beta2`` to the power of this step; multiplied by ``beta2`` afterwards.
        master_param: float32 copy of a low-precision parameter, used and updated with ``multi_precision``. Default:
            None.
        skip_update: Bool tensor of one element; true leaves everything unchanged. Default: None.
        beta1: Decay rate of the mean of the gradients. Default: 0.9.
        beta2: Decay rate of the mean of their squares. Default: 0.999.
        epsilon: Number that keeps the divisor from being zero. Default: 1e-08.
        lr_ratio: Factor of the learning rate. Default: 1.0.
        coeff: Weight decay coefficient. Default: 0.01.
        with_decay: Whether weight decay is applied. Default: False.
        lazy_mode: Has no effect. Default: False.
        min_row_size_to_use_multithread: Has no effect. Default: 1000.
        multi_precision: Whether to compute with ``master_param``. Default: False.
        use_global_beta_pow: Whether ``beta1_pow`` and ``beta2_pow`` are left unchanged. Default: False.
        amsgrad: Whether to divide by the largest second moment so far. Default: False.

    Returns:
        ``(param, moment1, moment2, moment2_max, beta1_pow, beta2_pow, master_param)``.

    Examples:
        >>> p, g, rate = bireme.ones([1]), bireme.ones([1]), bireme.to_tensor([0.5])
        >>> m, v, b1, b2 = (bireme.to_tensor([n]) for n in (0.0, 0.0, 0.9, 0.999))
        >>> _ = bireme._C_ops.adamw_(p, g, rate, m, v, None, b1, b2, coeff=0.1, with_decay=True)
        >>> round(p.item(), 4)
        0.45
    """
    step, rate = _Step(param, grad, master_param, multi_precision), _number(learning_rate) * lr_ratio
    if with_decay:
        step.value = step.value * (1.0 - rate * coeff)
    _adam(
        step,
        rate,
        (moment1, moment2, moment2_max if amsgrad else None),
        (beta1_pow, beta2_pow),
        skip_update,
        (beta1, beta2),
        epsilon,
        use_global_beta_pow,
    )
    return param, moment1, moment2, moment2_max, beta1_pow, beta2_pow, master_param


def _adam(
    step: _Step, rate: Any, moments: tuple, pows: tuple, skip: Any, betas: tuple, epsilon: Any, keeps_pows: bool
) -> None:
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
    """Update a parameter in place by Adamax: Adam with the infinity norm of the gradients.

    Args:
        param: Parameter to update.
        grad: Its gradient.
        learning_rate: Learning rate, a tensor of one element.
        moment: Running mean of the gradients.
        inf_norm: Running infinity norm of the gradients.
        beta1_pow: ``beta1`` to the power of this step (1, 2, ...); not updated.
        master_param: float32 copy of a low-precision parameter, used and updated with ``multi_precision``. Default:
            None.
        beta1: Decay rate of the mean of the gradients. Default: 0.9.
        beta2: Decay rate of the infinity norm. Default: 0.999.
        epsilon: Number added to the norm. Default: 1e-08.
        multi_precision: Whether to compute with ``master_param``. Default: False.

    Returns:
        ``(param, moment, inf_norm, master_param)``.

    Examples:
        >>> p, g, rate = bireme.ones([1]), bireme.ones([1]), bireme.to_tensor([0.5])
        >>> _ = bireme._C_ops.adamax_(p, g, rate, bireme.zeros([1]), bireme.zeros([1]), bireme.to_tensor([0.9]))
        >>> round(p.item(), 4)
        0.5
    """
    step = _Step(param, grad, master_param, multi_precision)
    m, top = beta1 * moment + (1 - beta1) * step.grad, maximum(step.grad.abs(), beta2 * inf_norm + epsilon)
    step.store(step.value - _number(learning_rate) / (1 - _number(beta1_pow)) * m / top)
    store(moment, m)
    store(inf_norm, top)
    return param, moment, inf_norm, master_param


@no_grad()
def adagrad_(
    param: Tensor,
    grad: Tensor,
    moment: Tensor,
    learning_rate: Tensor,
    master_param: Tensor | None = None,
    epsilon: float = 1e-6,
    multi_precision: bool = False,
) -> tuple:
    """Update a parameter in place by Adagrad.

    Args:
        param: Parameter to update.
        grad: Its gradient.
        moment: Sum of the squares of the gradients.
        learning_rate: Learning rate, a tensor of one element.
        master_param: float32 copy of a low-precision parameter, used and updated with ``multi_precision``. Default:
            None.
        epsilon: Number that keeps the divisor from being zero. Default: 1e-06.
        multi_precision: Whether to compute with ``master_param``. Default: False.

    Returns:
        ``(param, moment, master_param)``.

    Examples:
        >>> p, g, rate = bireme.ones([1]), bireme.ones([1]), bireme.to_tensor([0.5])
        >>> _ = bireme._C_ops.adagrad_(p, g, bireme.zeros([1]), rate)
        >>> round(p.item(), 4)
        0.5
    """
    step = _Step(param, grad, master_param, multi_precision)
    squares = moment + step.grad * step.grad
    step.store(step.value - _number(learning_rate) * step.grad / (sqrt(squares) + epsilon))
    store(moment, squares)
    return param, moment, master_param


@no_grad()
def adadelta_(
    param: Tensor,
    grad: Tensor,
    avg_squared_grad: Tensor,
    avg_squared_update: Tensor,
    learning_rate: Tensor,
    master_param: Tensor | None = None,
    rho: float = 0.95,
    epsilon: float = 1e-6,
    multi_precision: bool = False,
) -> tuple:
    """Update a parameter in place by Adadelta.

    Args:
        param: Parameter to update.
        grad: Its gradient.
        avg_squared_grad: Running mean of the squares of the gradients.
        avg_squared_update: Running mean of the squares of the updates.
        learning_rate: Learning rate, a tensor of one element.
        master_param: float32 copy of a low-precision parameter, used and updated with ``multi_precision``. Default:
            None.
        rho: Decay rate of both means. Default: 0.95.
        epsilon: Number that keeps the divisor from being zero. Default: 1e-06.
        multi_precision: Whether to compute with ``master_param``. Default: False.

    Returns:
        ``(param, avg_squared_grad, avg_squared_update, master_param)``.

    Examples:
        >>> p, g, rate = bireme.ones([1]), bireme.ones([1]), bireme.to_tensor([0.5])
        >>> _ = bireme._C_ops.adadelta_(p, g, bireme.zeros([1]), bireme.zeros([1]), rate)
        >>> round(p.item(), 6)
        0.997764
    """
    step = _Step(param, grad, master_param, multi_precision)
    squares = rho * avg_squared_grad + (1 - rho) * step.grad * step.grad
    change = -sqrt((avg_squared_update + epsilon) / (squares + epsilon)) * step.grad
    step.store(step.value + _number(learning_rate) * change)
    store(avg_squared_update, rho * avg_squared_update + (1 - rho) * change * change)
    store(avg_squared_grad, squares)
    return param, avg_squared_grad, avg_squared_update, master_param


@no_grad()
def rmsprop_(
    param: Tensor,
    mean_square: Tensor,
    grad: Tensor,
    moment: Tensor,
    learning_rate: Tensor,
    mean_grad: Tensor | None = None,
    master_param: Tensor | None = None,
    epsilon: float = 1e-10,
    decay: float = 0.9,
    momentum: float = 0.0,
    centered: bool = False,
    multi_precision: bool = False,
) -> tuple:
    """Update a parameter in place by RMSProp.

    Args:
        param: Parameter to update.
        mean_square: Running mean of the squares of the gradients.
        grad: Its gradient.
        moment: Running sum of the updates.
        learning_rate: Learning rate, a tensor of one element.
        mean_grad: Running mean of the gradients, used and updated with ``centered``. Default: None.
        master_param: float32 copy of a low-precision parameter, used and updated with ``multi_precision``. Default:
            None.
        epsilon: Number added before the square root. Default: 1e-10.
        decay: Decay rate of the means. Default: 0.9.
        momentum: Momentum coefficient. Default: 0.0.
        centered: Whether to divide by the variance of the gradients instead of their mean square. Default: False.
        multi_precision: Whether to compute with ``master_param``. Default: False.

    Returns:
        ``(param, moment, mean_square, mean_grad, master_param)``.

    Examples:
        >>> p, g, rate = bireme.ones([1]), bireme.ones([1]), bireme.to_tensor([0.5])
        >>> _ = bireme._C_ops.rmsprop_(p, bireme.zeros([1]), g, bireme.zeros([1]), rate)
        >>> round(p.item(), 4)
        -0.5811
    """
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
def rprop_(
    param: Tensor,
    grad: Tensor,
    prev: Tensor,
    learning_rate: Tensor,
    master_param: Tensor | None,
    learning_rate_range: Tensor,
    etas: Tensor,
    multi_precision: bool = False,
) -> tuple:
    """Update a parameter in place by Rprop: by the sign of the gradient, with a learning rate for each element.

    Args:
        param: Parameter to update.
        grad: Its gradient.
        prev: Gradient of the step before.
        learning_rate: Learning rate of each element, in the shape of ``param``; updated too.
        master_param: float32 copy of a low-precision parameter, used and updated with ``multi_precision``.
        learning_rate_range: Tensor of the smallest and the largest learning rate.
        etas: Tensor of two factors of the learning rate: where the sign of the gradient changes, and where it stays.
        multi_precision: Whether to compute with ``master_param``. Default: False.

    Returns:
        ``(param, prev, learning_rate, master_param)``.

    Examples:
        >>> p, g, rate = bireme.ones([1]), bireme.ones([1]), bireme.to_tensor([0.5])
        >>> limits, etas = bireme.to_tensor([0.1, 50.0]), bireme.to_tensor([0.5, 1.2])
        >>> _ = bireme._C_ops.rprop_(p, g, g.clone(), rate, None, limits, etas)
        >>> round(p.item(), 4)
        0.4
    """
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
def asgd_(
    param: Tensor,
    grad: Tensor,
    learning_rate: Tensor,
    d: Tensor,
    y: Tensor,
    n: Tensor,
    master_param: Tensor | None = None,
    multi_precision: bool = False,
) -> tuple:
    """Update a parameter in place by averaged gradient descent: by the mean of the last gradients.

    Args:
        param: Parameter to update.
        grad: Its gradient.
        learning_rate: Learning rate, a tensor of one element.
        d: Sum of the last gradients.
        y: Gradient that leaves the sum; replaced by the new one.
        n: Number of gradients in the sum, a tensor of one element.
        master_param: float32 copy of a low-precision parameter, used and updated with ``multi_precision``. Default:
            None.
        multi_precision: Whether to compute with ``master_param``. Default: False.

    Returns:
        ``(param, d, y, master_param)``.

    Examples:
        >>> p, g, rate = bireme.ones([1]), bireme.ones([1]), bireme.to_tensor([0.5])
        >>> _ = bireme._C_ops.asgd_(p, g, rate, bireme.zeros([1]), bireme.zeros([1]), bireme.ones([1]))
        >>> round(p.item(), 4)
        0.5
    """
    step = _Step(param, grad, master_param, multi_precision)
    total = d - y + step.grad
    step.store(step.value - _number(learning_rate) / _number(n) * total)
    store(d, total)
    store(y, step.grad)
    return param, d, y, master_param


@no_grad()
def nadam_(
    param: Tensor,
    grad: Tensor,
    learning_rate: Tensor,
    momentum_decay_pow: Tensor,
    beta2_pow: Tensor,
    mu_product: Tensor,
    moment1: Tensor,
    moment2: Tensor,
    master_param: Tensor | None = None,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    momentum_decay: float = 0.004,
    multi_precision: bool = False,
) -> tuple:
    """Update a parameter in place by NAdam: Adam with Nesterov's momentum.

    Args:
        param: Parameter to update.
        grad: Its gradient.
        learning_rate: Learning rate, a tensor of one element.
        momentum_decay_pow: Running power of 0.96 that the momentum decays by.
        beta2_pow: ``beta2`` to the power of the number of steps before; multiplied by ``beta2`` first.
        mu_product: Running product of the momentum coefficients.
        moment1: Running mean of the gradients.
        moment2: Running mean of their squares.
        master_param: float32 copy of a low-precision parameter, used and updated with ``multi_precision``. Default:
            None.
        beta1: Decay rate of the mean of the gradients. Default: 0.9.
        beta2: Decay rate of the mean of their squares. Default: 0.999.
        epsilon: Number that keeps the divisor from being zero. Default: 1e-08.
        momentum_decay: Rate at which the momentum decays. Default: 0.004.
        multi_precision: Whether to compute with ``master_param``. Default: False.

    Returns:
        ``(param, momentum_decay_pow, beta2_pow, mu_product, moment1, moment2, master_param)``.

    Examples:
        >>> p, g, rate = bireme.ones([1]), bireme.ones([1]), bireme.to_tensor([0.5])
        >>> one = [bireme.ones([1]) for _ in range(3)]
        >>> _ = bireme._C_ops.nadam_(p, g, rate, *one, bireme.zeros([1]), bireme.zeros([1]))
        >>> round(p.item(), 4)
        0.4718
    """
    step = _Step(param, grad, master_param, multi_precision)
    held = (momentum_decay_pow, beta2_pow, mu_product, moment1, moment2)
    coefficients = (_number(learning_rate), beta1, beta2, epsilon, momentum_decay)
    _running(step, held, update_variants.nadam_update([step.value], [step.grad], *[[x] for x in held], *coefficients))
    return param, *held, master_param


@no_grad()
def radam_(
    param: Tensor,
    grad: Tensor,
    learning_rate: Tensor,
    beta1_pow: Tensor,
    beta2_pow: Tensor,
    rho: Tensor,
    moment1: Tensor,
    moment2: Tensor,
    master_param: Tensor | None = None,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    multi_precision: bool = False,
) -> tuple:
    """Update a parameter in place by RAdam: Adam with a rectified adaptive learning rate.

    Args:
        param: Parameter to update.
        grad: Its gradient.
        learning_rate: Learning rate, a tensor of one element.
        beta1_pow: ``beta1`` to the power of the number of steps before; multiplied by ``beta1`` first.
        beta2_pow: ``beta2`` to the power of the number of steps before; multiplied by ``beta2`` first.
        rho: Running term that the length of the approximated moving average follows from.
        moment1: Running mean of the gradients.
        moment2: Running mean of their squares.
        master_param: float32 copy of a low-precision parameter, used and updated with ``multi_precision``. Default:
            None.
        beta1: Decay rate of the mean of the gradients. Default: 0.9.
        beta2: Decay rate of the mean of their squares. Default: 0.999.
        epsilon: Number that keeps the divisor from being zero. Default: 1e-08.
        multi_precision: Whether to compute with ``master_param``. Default: False.

    Returns:
        ``(param, beta1_pow, beta2_pow, rho, moment1, moment2, master_param)``.

    Examples:
        >>> p, g, rate = bireme.ones([1]), bireme.ones([1]), bireme.to_tensor([0.5])
        >>> one = [bireme.ones([1]) for _ in range(3)]
        >>> _ = bireme._C_ops.radam_(p, g, rate, *one, bireme.zeros([1]), bireme.zeros([1]))
        >>> round(p.item(), 4)
        0.5
    """
    step, held = _Step(param, grad, master_param, multi_precision), (beta1_pow, beta2_pow, rho, moment1, moment2)
    coefficients = (_number(learning_rate), beta1, beta2, epsilon)
    _running(step, held, update_variants.radam_update([step.value], [step.grad], *[[x] for x in held], *coefficients))
    return param, *held, master_param


def _running(step: _Step, held: tuple, new: list[Tensor]) -> None:
    step.store(new[0])
    for tensor, value in zip(held, new[1:]):
        store(tensor, value)


@no_grad()
def lamb_(
    param: Tensor,
    grad: Tensor,
    learning_rate: Tensor,
    moment1: Tensor,
    moment2: Tensor,
    beta1_pow: Tensor,
    beta2_pow: Tensor,
    master_param: Tensor | None = None,
    skip_update: Tensor | None = None,
    weight_decay: float = 0.01,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-6,
    always_adapt: bool = False,
    multi_precision: bool = False,
) -> tuple:
    """Update a parameter in place by LAMB: the step of Adam, scaled to the norm of the parameter.

    Args:
        param: Parameter to update.
        grad: Its gradient.
        learning_rate: Learning rate, a tensor of one element.
        moment1: Running mean of the gradients.
        moment2: Running mean of their squares.
        beta1_pow: ``beta1`` to the power of this step (1, 2, ...); multiplied by ``beta1`` afterwards.
        beta2_pow: ``beta2`` to the power of this step; multiplied by ``beta2`` afterwards.
        master_param: float32 copy of a low-precision parameter, used and updated with ``multi_precision``. Default:
            None.
        skip_update: Bool tensor of one element; true leaves everything unchanged. Default: None.
        weight_decay: Weight decay coefficient. Default: 0.01.
        beta1: Decay rate of the mean of the gradients. Default: 0.9.
        beta2: Decay rate of the mean of their squares. Default: 0.999.
        epsilon: Number that keeps the divisor from being zero. Default: 1e-06.
        always_adapt: Whether to scale the step even without weight decay. Default: False.
        multi_precision: Whether to compute with ``master_param``. Default: False.

    Returns:
        ``(param, moment1, moment2, beta1_pow, beta2_pow, master_param)``.

    Examples:
        >>> p, g, rate = bireme.ones([1]), bireme.ones([1]), bireme.to_tensor([0.5])
        >>> m, v, b1, b2 = (bireme.to_tensor([n]) for n in (0.0, 0.0, 0.9, 0.999))
        >>> _ = bireme._C_ops.lamb_(p, g, rate, m, v, b1, b2)
        >>> round(p.item(), 4)
        0.5
    """
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
