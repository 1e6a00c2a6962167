"""Adam, and AdamW with decoupled weight decay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn.clip import ClipGradBase
from bireme.ops import maximum, sqrt, to_tensor, where
from bireme.ops.optimizer import updates
from bireme.optimizer.adaptive import not_negative
from bireme.optimizer.lr import LRScheduler
from bireme.optimizer.optimizer import Optimizer, Pairs, Parameters
from bireme.optimizer.states import HALF, Slot
from bireme.regularizer import L2Decay, WeightDecayRegularizer

_POWS = ("beta1_pow_acc", "beta2_pow_acc")


class Pows:
    """Powers of beta1 and beta2 after the steps made: one pair for all parameters that were always updated together."""

    __slots__ = ("first", "second", "members")

    def __init__(self, first: Tensor, second: Tensor, members: int):
        self.first, self.second, self.members = first, second, members


class Adam(Optimizer):
    """Adam: steps along the running mean of the gradients over the root of their running mean square.

    ``m = beta1 * m + (1 - beta1) * gradient``, ``v = beta2 * v + (1 - beta2) * gradient ** 2`` and
    ``parameter -= learning_rate * m_hat / (sqrt(v_hat) + epsilon)``, where ``m_hat = m / (1 - beta1 ** t)`` and
    ``v_hat = v / (1 - beta2 ** t)`` are the moments with bias correction at step ``t``.

    A float ``weight_decay`` is added to the gradient (L2); ``AdamW`` has decoupled weight decay.

    Args:
        learning_rate: A float or an ``LRScheduler``. Default: 0.001.
        beta1: Decay rate of the first moment, a float in [0, 1) or a tensor of one element. Default: 0.9.
        beta2: Decay rate of the second moment, a float in [0, 1) or a tensor of one element. Default: 0.999.
        epsilon: Added to the denominator, so that it is never 0; a float or a tensor of one element. Default: 1e-08.
        parameters: The parameters to update, or a list of dicts, one per parameter group (see ``Optimizer``).
        weight_decay: A float (L2 decay), ``L1Decay``, ``L2Decay`` or None. Default: None.
        grad_clip: A ``ClipGradBy...`` object of ``bireme.nn``, or None. Default: None.
        lazy_mode: Of the weight of an ``Embedding`` with ``sparse=True``, update only the rows that have a gradient,
            and their moments. Default: False.
        multi_precision: Keep a float32 copy of each float16 or bfloat16 parameter and update that. Default: False.
        use_multi_tensor: Has no effect: the parameters of a group are always updated together.
        amsgrad: Divide by the largest second moment so far (AMSGrad). Default: False.
        name: Becomes part of the keys of ``state_dict()``. Default: None.

    Examples:
        >>> w = bireme.to_tensor([1.0], stop_gradient=False)
        >>> (w * 2.0).backward()
        >>> bireme.optimizer.Adam(0.5, parameters=[w]).step()
        >>> round(w.item(), 4)
        0.5
    """

    _accumulator_names: tuple[str, ...] = ("moment1", "moment2")
    _moment1_acc_str, _moment2_acc_str = _accumulator_names
    _decoupled = False

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        beta1: float | Tensor = 0.9,
        beta2: float | Tensor = 0.999,
        epsilon: float | Tensor = 1e-08,
        parameters: Parameters | None = None,
        weight_decay: float | WeightDecayRegularizer | None = None,
        grad_clip: ClipGradBase | None = None,
        lazy_mode: bool = False,
        multi_precision: bool = False,
        use_multi_tensor: bool = False,
        amsgrad: bool = False,
        name: str | None = None,
    ):
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        title = type(self).__name__
        self._beta1, self._beta2 = _beta(title, "beta1", beta1), _beta(title, "beta2", beta2)
        if not isinstance(epsilon, Tensor):
            not_negative(title, epsilon=epsilon)
        self._epsilon = epsilon
        self._multi_precision = multi_precision
        self._amsgrad, self._lazy_mode = amsgrad, bool(lazy_mode)
        if amsgrad:
            self._accumulator_names = ("moment1", "moment2", "moment2_max")

    def _decay_inside(self, group: dict) -> Any:
        decay = group["weight_decay"]
        return decay if type(decay) is L2Decay else None

    def _ratio(self, p: Tensor) -> float:
        return 1.0

    def _update(self, group: dict, pairs: Pairs) -> None:
        for pows, slots, grads in self._by_pows(pairs):
            operands = (
                [slot.target for slot in slots],
                grads,
                *([s.state[a] for s in slots] for a in self._accumulator_names),
            )
            numbers = self.get_lr(), *self._betas(group), group.get("epsilon", self._epsilon)
            ratios = tuple(self._rate(group, slot.param) * self._ratio(slot.param) for slot in slots)
            new = self._stepped(group, slots, (*operands, pows.first, pows.second, *numbers), ratios)
            if self._amsgrad and self._lazy_mode:
                new = _rows_moved(slots, operands, new)
            self._store(slots, new[:-2], self._accumulator_names)
            self._advance(pows, slots, *self._kept([pows.first, pows.second], new[-2:]))

    @property
    def _rule_skips(self) -> bool:
        return not self._amsgrad

    def _stepped(self, group: dict, slots: list[Slot], operands: tuple, ratios: tuple[float, ...]) -> list[Tensor]:
        coeff, decays = self._decays(group, slots)
        if self._amsgrad:
            return _amsgrad_update(
                *operands, weight_decay=coeff, decoupled=self._decoupled, lr_ratios=ratios, decays=decays
            )
        lazy = self._lazy_mode
        by_rows = tuple(lazy and getattr(slot.param, "_read_by_rows", False) for slot in slots)
        return updates.adam_update(
            *operands, coeff, self._skip, decoupled=self._decoupled, lr_ratios=ratios, decays=decays, by_rows=by_rows
        )

    def _betas(self, group: dict) -> tuple[float | Tensor, float | Tensor]:
        return group.get("beta1", self._beta1), group.get("beta2", self._beta2)

    def _by_pows(self, pairs: Pairs) -> list[tuple[Pows, list[Slot], list[Tensor]]]:
        """Slots and gradients of the parameters that have made the same number of steps."""
        found: dict[int, tuple[Pows, list[Slot], list[Tensor]]] = {}
        fresh: dict[Any, Pows] = {}
        for p, g in pairs:
            slot = self._slot(p)
            if slot.pows is None:
                kind = _pow_dtype(p)
                key = kind, self._mesh_of(p)
                if key not in fresh:
                    first, second = (to_tensor(1.0, dtype=kind, place=p.place) for _ in _POWS)
                    fresh[key] = Pows(first, second, 0)
                slot.pows = fresh[key]
                slot.pows.members += 1
            _, slots, grads = found.setdefault(id(slot.pows), (slot.pows, [], []))
            slots.append(slot)
            grads.append(self._divided(p, g))
        # the update operator takes gradients as they are
        return [
            (pows, slots, self._grads_for(slots, grads) if self._amsgrad else grads)
            for pows, slots, grads in found.values()
        ]

    def _advance(self, pows: Pows, slots: list[Slot], first: Tensor, second: Tensor) -> None:
        if len(slots) == pows.members:
            pows.first._assign_value(first)
            pows.second._assign_value(second)
            return
        # some had no gradient this time: they keep their powers, and the others get powers of their own
        pows.members -= len(slots)
        ahead = Pows(first, second, len(slots))
        for slot in slots:
            slot.pows = ahead

    # ------------------------------------------------------------ states
    # Paddle's files hold a pair of powers for each parameter, of the next step: one factor more than here

    def _state_names(self) -> tuple[str, ...]:
        return (*self._accumulator_names, *_POWS)

    def _shared_state(self, slots: list[Slot]) -> dict[str, Tensor]:
        out = {}
        groups = {id(p): group for group in self._param_groups for p in group["params"]}
        for i, name in enumerate(_POWS):
            shaped: dict[int, Tensor] = {}
            for slot in slots:
                if slot.pows is not None:
                    held = (slot.pows.first, slot.pows.second)[i]
                    if id(held) not in shaped:
                        shaped[id(held)] = (held * self._betas(groups[id(slot.param)])[i]).reshape([1])
                    filed = self._filed_as(slot.param, name)
                    out[filed] = shaped[id(held)].detach()
                    out[filed].name = filed
        return out

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().set_state_dict(state_dict)
        for group in self._param_groups:
            equal: dict[tuple, Pows] = {}
            for slot in (self._slots[id(p)] for p in group["params"] if id(p) in self._slots):
                if slot.pows is not None:
                    kind, place = _pow_dtype(slot.param), slot.param.place
                    hosts = [_before(x.astype(kind.np), float(b)) for x, b in zip(slot.pows, self._betas(group))]
                    key = (kind, self._mesh_of(slot.param), *(host.tobytes() for host in hosts))
                    if key not in equal:
                        first, second = (to_tensor(host, place=place) for host in hosts)
                        equal[key] = Pows(first, second, 0)
                    slot.pows = equal[key]
                    slot.pows.members += 1

    def _restore(self, slot: Slot, values: dict[str, Any]) -> None:
        if values:
            slot.pows = tuple(values.pop(name) for name in _POWS)
        super()._restore(slot, values)

    def _loaded(self, where: str, value: Any, p: Tensor, name: str) -> Any:
        if name not in _POWS:
            return super()._loaded(where, value, p, name)
        host = value._host() if isinstance(value, Tensor) else np.asarray(value)
        if host.size != 1:
            raise errors.bad(
                where, "a single number", described=f"shape {list(host.shape)}", kind=errors.ArgumentTypeError
            )
        return host.reshape(())


def _rows_moved(slots: list[Slot], operands: tuple, new: list[Tensor]) -> list[Tensor]:
    """The new values, and the old ones in rows without a gradient, for tables that are read by rows."""
    targets, grads, *states = operands
    new, count = list(new), len(slots)
    for i in (i for i, slot in enumerate(slots) if getattr(slot.param, "_read_by_rows", False)):
        moved = (grads[i] != 0).any(axis=-1, keepdim=True)
        for part, old in enumerate((targets, *states)):
            new[part * count + i] = where(moved, new[part * count + i], old[i])
    return new


class AdamW(Adam):
    """Adam with decoupled weight decay.

    Before each step of Adam, ``parameter *= 1 - learning_rate * weight_decay``; the decay is no part of the gradient
    and so not of the moments. A ``regularizer`` in a parameter's ``ParamAttr`` is still added to its gradient.

    Args:
        learning_rate: A float or an ``LRScheduler``. Default: 0.001.
        beta1: Decay rate of the first moment, a float in [0, 1) or a tensor of one element. Default: 0.9.
        beta2: Decay rate of the second moment, a float in [0, 1) or a tensor of one element. Default: 0.999.
        epsilon: Added to the denominator, so that it is never 0; a float or a tensor of one element. Default: 1e-08.
        parameters: The parameters to update, or a list of dicts, one per parameter group (see ``Optimizer``).
        weight_decay: Coefficient of the decay, a float or a tensor of one element. Default: 0.01.
        use_lowprecision_moment: Keep the moments of float16 and bfloat16 parameters in that dtype instead of float32.
            Default: False.
        lr_ratio: Function that takes a parameter and returns a factor on its learning rate. Default: None.
        apply_decay_param_fun: Function that takes the name of a parameter and returns whether it decays. Default: None,
            all decay.
        grad_clip: A ``ClipGradBy...`` object of ``bireme.nn``, or None. Default: None.
        lazy_mode: Of the weight of an ``Embedding`` with ``sparse=True``, update only the rows that have a gradient,
            and their moments. Default: False.
        multi_precision: Keep a float32 copy of each float16 or bfloat16 parameter and update that. Default: False.
        amsgrad: Divide by the largest second moment so far (AMSGrad). Default: False.
        name: Becomes part of the keys of ``state_dict()``. Default: None.

    Examples:
        >>> w = bireme.to_tensor([1.0], stop_gradient=False)
        >>> (w * 0.0).backward()
        >>> bireme.optimizer.AdamW(0.5, parameters=[w], weight_decay=0.5).step()
        >>> w.tolist()
        [0.75]
    """

    _decoupled = True

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        beta1: float | Tensor = 0.9,
        beta2: float | Tensor = 0.999,
        epsilon: float | Tensor = 1e-08,
        parameters: Parameters | None = None,
        weight_decay: float | Tensor = 0.01,
        use_lowprecision_moment: bool = False,
        lr_ratio: Callable[[Tensor], float] | None = None,
        apply_decay_param_fun: Callable[[str], bool] | None = None,
        grad_clip: ClipGradBase | None = None,
        lazy_mode: bool = False,
        multi_precision: bool = False,
        amsgrad: bool = False,
        name: str | None = None,
    ):
        for what, given in (("lr_ratio", lr_ratio), ("apply_decay_param_fun", apply_decay_param_fun)):
            if given is not None and not callable(given):
                raise errors.bad(f"AdamW({what})", "a function or None", given, kind=errors.ArgumentTypeError)
        self._lr_ratio, self._apply_decay_param_fun = lr_ratio, apply_decay_param_fun
        self._low_moments = use_lowprecision_moment
        super().__init__(
            learning_rate,
            beta1,
            beta2,
            epsilon,
            parameters,
            weight_decay,  # type: ignore[arg-type]  # `_regularizer` takes a tensor here
            grad_clip,
            lazy_mode,
            multi_precision,
            amsgrad=amsgrad,
            name=name,
        )

    def _state_dtype(self, p: Tensor) -> Any:
        return p.dtype if self._low_moments and p.dtype in HALF else super()._state_dtype(p)

    def _regularizer(self, decay: Any, what: str) -> Any:
        """Decoupled decay is a number, not a term of the gradient."""
        if isinstance(decay, bool) or not isinstance(decay, (int, float, Tensor)):
            raise errors.bad(f"AdamW({what})", "a number or a Tensor", decay, kind=errors.ArgumentTypeError)
        return decay.reshape([]) if isinstance(decay, Tensor) else decay

    @property
    def _weight_decay(self) -> Any:
        """The decay by its name in Paddle, where programs change it between steps."""
        return self.regularization

    @_weight_decay.setter
    def _weight_decay(self, decay: Any) -> None:
        self.regularization = decay

    def _decay_of(self, group: dict, p: Tensor) -> Any:
        # what ParamAttr asks for is still added to the gradient, as in Paddle
        return getattr(p, "regularizer", None)

    def _hand_down_decay(self, p: Any, decay: Any) -> None:
        """A number is no decay that a parameter could have."""

    def _decay_inside(self, group: dict) -> Any:
        return None

    def _decay_coeff(self, group: dict) -> Any:
        return group["weight_decay"]

    def _is_decayed(self, group: dict, p: Tensor) -> bool:
        return self._apply_decay_param_fun is None or bool(self._apply_decay_param_fun(p.name))

    def _ratio(self, p: Tensor) -> float:
        return 1.0 if self._lr_ratio is None else float(self._lr_ratio(p))


def _beta(where: str, what: str, beta: float | Tensor) -> float | Tensor:
    if isinstance(beta, Tensor):
        if beta._value.sig.size != 1:
            raise errors.bad(
                f"{where}({what})",
                "a number or a tensor of one element",
                described=f"shape {beta.shape}",
                kind=errors.ArgumentTypeError,
            )
        return beta.reshape([])
    if isinstance(beta, bool) or not isinstance(beta, (int, float, np.number)):
        raise errors.bad(f"{where}({what})", "a number in [0, 1)", beta, kind=errors.ArgumentTypeError)
    if not 0 <= beta < 1:
        raise errors.bad(f"{where}({what})", "a number in [0, 1)", beta, kind=errors.for_number(beta))
    return beta


def _pow_dtype(p: Tensor) -> Any:
    return dtypes.float64 if p.dtype is dtypes.float64 else dtypes.float32


def _before(power: np.ndarray, beta: float) -> np.ndarray:
    """The number whose product with `beta` is `power`, to the last bit: a resumed run must not differ by a rounding."""
    factor = power.dtype.type(beta)
    if factor == 0:
        return np.zeros_like(power)
    guess = power / factor
    near = [guess, *(np.nextafter(guess, power.dtype.type(end)) for end in (0, 1))]
    return np.asarray(next((x for x in near if x * factor == power), guess))


def _amsgrad_update(
    params: list[Tensor],
    grads: list[Tensor],
    moment1s: list[Tensor],
    moment2s: list[Tensor],
    largest: list[Tensor],
    beta1_pow: Tensor,
    beta2_pow: Tensor,
    lr: float,
    beta1: float | Tensor,
    beta2: float | Tensor,
    epsilon: float | Tensor,
    *,
    weight_decay: float | Tensor,
    decoupled: bool,
    lr_ratios: tuple[float, ...],
    decays: tuple[bool, ...],
) -> list[Tensor]:
    """Like `updates.adam_update`, divided by the largest second moment so far. Seldom asked for, so composed."""
    p1, p2 = beta1_pow * beta1, beta2_pow * beta2
    new, first, second, top = [], [], [], []
    for p, g, m, v, most, ratio, decay in zip(params, grads, moment1s, moment2s, largest, lr_ratios, decays):
        wide, g, rate = p.astype(m.dtype), g.astype(m.dtype), lr * ratio
        if decay and decoupled:
            wide = wide * (1 - rate * weight_decay)
        elif decay:
            g = g + wide * weight_decay
        m = m * beta1 + g * (1 - beta1)
        v = v * beta2 + g * g * (1 - beta2)
        most = maximum(most, v)
        step = m / (1 - p1) / (sqrt(most / (1 - p2)) + epsilon)
        new.append((wide - step * rate).astype(p.dtype))
        first.append(m)
        second.append(v)
        top.append(most)
    return [*new, *first, *second, *top, p1, p2]
