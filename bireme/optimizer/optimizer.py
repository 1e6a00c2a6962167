"""Optimizer: what all update rules share. A rule writes `_update`; its arithmetic is one operator of `ops.update`."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from bireme.core import dtype as dtypes
from bireme.core import errors
from bireme.core.flush import close_step, run_closed
from bireme.core.grad_mode import no_grad
from bireme.core.tensor import Tensor
from bireme.nn.clip import ClipGradBase
from bireme.ops import to_tensor
from bireme.optimizer.lr import LRScheduler
from bireme.regularizer import L2Decay, WeightDecayRegularizer

Pairs = list[tuple[Tensor, Tensor]]
HALF = (dtypes.float16, dtypes.bfloat16)
_NUMBERED = re.compile(r"_\d+$")


class Slot:
    """What an optimizer keeps for one parameter: accumulators by name, and a float32 copy where one is wanted."""

    __slots__ = ("param", "state", "master", "pows")

    def __init__(self, param: Tensor):
        self.param = param
        self.state: dict[str, Tensor] = {}
        self.master: Tensor | None = None
        self.pows: Any = None  # Adam's powers of beta, shared with the parameters that were always updated together

    @property
    def target(self) -> Tensor:
        """The tensor that the rule updates."""
        return self.param if self.master is None else self.master


class Optimizer:
    """Base of update rules.

    `parameters` is a list of parameters, or of dicts with `params` and settings of their own; in such a group
    `learning_rate` is a factor on the optimizer's, and what ParamAttr says about rate and decay does not count.
    """

    _accumulators: tuple[str, ...] = ()

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ):
        self._where = type(self).__name__
        if not isinstance(learning_rate, (float, LRScheduler)):
            expected = "a float or a schedule of bireme.optimizer.lr"
            raise errors.bad(f"{self._where}(learning_rate)", expected, learning_rate, kind=TypeError)
        self._learning_rate = learning_rate
        self._weight_decay = self._regularizer(weight_decay, "weight_decay")
        self._grad_clip = self._clipper(grad_clip, "grad_clip")
        self._name = name
        self._multi_precision = False
        self._param_groups = self._make_groups(parameters)
        self._parameter_list: list[Tensor] = [p for group in self._param_groups for p in group["params"]]
        self._check_names()
        self._slots: dict[int, Slot] = {}

    # ------------------------------------------------------------ what was given

    def _make_groups(self, parameters: Any) -> list[dict]:
        where = f"{self._where}(parameters)"
        if parameters is None:
            raise errors.bad(where, "a list of parameters", None, "pass model.parameters()", kind=AttributeError)
        if isinstance(parameters, (Tensor, dict)) or not isinstance(parameters, Iterable):
            raise errors.bad(where, "a list of parameters or of dicts", parameters, kind=TypeError)
        given = list(parameters)
        self._grouped = bool(given) and isinstance(given[0], dict)
        if not self._grouped:
            return [
                {
                    "params": self._distinct(given, where),
                    "weight_decay": self._weight_decay,
                    "grad_clip": self._grad_clip,
                }
            ]
        groups = []
        for group in given:
            if not isinstance(group, dict) or "params" not in group:
                raise errors.bad(where, "dicts that have 'params'", group)
            if isinstance(group["params"], set):
                hint = "a set has no order, and the optimizer's state needs one"
                raise errors.bad(where, "a list of parameters in 'params'", group["params"], hint, kind=TypeError)
            params = [group["params"]] if isinstance(group["params"], Tensor) else list(group["params"])
            new = {**group, "params": self._distinct(params, where)}
            new["weight_decay"] = self._regularizer(group.get("weight_decay", self._weight_decay), "weight_decay")
            new["grad_clip"] = self._clipper(group.get("grad_clip", self._grad_clip), "grad_clip")
            groups.append(new)
        ids = [id(p) for group in groups for p in group["params"]]
        if len(ids) != len(set(ids)):
            raise errors.bad(where, "each parameter in one group", "a parameter that is in two")
        return groups

    def _distinct(self, params: list, where: str) -> list[Tensor]:
        for p in params:
            if not isinstance(p, Tensor):
                raise errors.bad(where, "a list of parameters", p, kind=TypeError)
        once = list({id(p): p for p in params}.values())
        if len(once) != len(params):
            warnings.warn(f"{where}: a parameter is in the list twice; it is updated once a step", stacklevel=4)
        return once

    def _check_names(self) -> None:
        names: set[str] = set()
        for p in self._parameter_list:
            if p.name in names:
                where, hint = f"{self._where}(parameters)", "state_dict() tells parameters apart by name"
                raise errors.bad(where, "parameters with names of their own", f"two called {p.name}", hint)
            names.add(p.name)

    def _regularizer(self, decay: Any, what: str) -> Any:
        """A number means L2; None means no decay."""
        if decay is None or isinstance(decay, WeightDecayRegularizer):
            return decay
        if isinstance(decay, bool) or not isinstance(decay, (int, float)):
            raise errors.bad(f"{self._where}({what})", "a number, L1Decay, L2Decay or None", decay, kind=TypeError)
        return L2Decay(float(decay))

    def _clipper(self, clip: Any, what: str) -> Any:
        if clip is not None and not isinstance(clip, ClipGradBase):
            raise errors.bad(f"{self._where}({what})", "a ClipGradBy... of bireme.nn, or None", clip, kind=TypeError)
        return clip

    # ------------------------------------------------------------ the step

    def step(self) -> None:
        """Update the parameters that have a gradient.

        >>> w = bireme.to_tensor([1.0], stop_gradient=False)
        >>> sgd = bireme.optimizer.SGD(0.5, parameters=[w])
        >>> (w * 2.0).backward()
        >>> sgd.step()
        >>> w.tolist()
        [0.0]
        """
        self._step(None)

    @no_grad()
    def _step(self, only: set[int] | None) -> Pairs:
        taken: Pairs = []
        for group in self._param_groups:
            pairs = [(p, p.grad) for p in group["params"] if not p.stop_gradient and p.grad is not None and (only is None or id(p) in only)]
            if pairs:
                taken += pairs
                # Paddle clips first, so the decay itself is never clipped
                clipped = pairs if group["grad_clip"] is None else group["grad_clip"](pairs)
                self._update(group, self._decayed(group, clipped))
        close_step()
        return taken

    def _update(self, group: dict, pairs: Pairs) -> None:
        """Update the parameters of one group, all in one operator where their settings agree."""
        raise NotImplementedError(f"{type(self).__name__}._update: not written")

    def _decayed(self, group: dict, pairs: Pairs) -> Pairs:
        inside = self._decay_inside(group)
        out = []
        for p, g in pairs:
            decay = self._decay_of(group, p)
            if decay is not None and decay is not inside:
                g = g + decay(p, g, None)
            out.append((p, g))
        return out

    def _decay_of(self, group: dict, p: Tensor) -> Any:
        """The decay of one parameter: its own, else the group's. Settings of a group leave no room for its own."""
        own = None if self._grouped else getattr(p, "regularizer", None)
        return group["weight_decay"] if own is None else own

    def _decay_inside(self, group: dict) -> Any:
        """The decay that the update operator adds itself, if any."""
        return None

    def _rate(self, group: dict, p: Tensor) -> float:
        """Factor on the learning rate for one parameter."""
        if self._grouped:
            return float(group.get("learning_rate", 1.0))
        attr = getattr(p, "optimize_attr", None)
        return 1.0 if attr is None else float(attr["learning_rate"])

    def _by_rate(self, group: dict, pairs: Pairs) -> list[tuple[float, list[Slot], list[Tensor]]]:
        """Learning rate, slots and gradients of the parameters that share a rate."""
        found: dict[float, tuple[list[Slot], list[Tensor]]] = {}
        for p, g in pairs:
            slot = self._slot(p)
            slots, grads = found.setdefault(self._rate(group, p), ([], []))
            slots.append(slot)
            grads.append(self._grad_for(slot, g))
        rate = self.get_lr()
        return [(rate * factor, slots, grads) for factor, (slots, grads) in found.items()]

    # ------------------------------------------------------------ states

    def _slot(self, p: Tensor) -> Slot:
        slot = self._slots.get(id(p))
        if slot is None:
            slot = self._slots[id(p)] = Slot(p)
            if p.dtype in HALF and self._multi_precision:
                self._set_master(slot, p.detach().astype(dtypes.float32))
            for name in self._accumulators:
                # made on the host and not by an operator: the first step then records the same program as all others
                zeros = np.zeros(p.shape, self._state_dtype(p).np)
                self._set_state(slot, name, to_tensor(zeros, place=p.place))
        return slot

    def _state_dtype(self, p: Tensor) -> Any:
        # sums of small terms in half precision stop moving: its state is kept in float32
        return dtypes.float32 if p.dtype in HALF else p.dtype

    def _set_state(self, slot: Slot, name: str, value: Tensor) -> None:
        value.name = f"{slot.param.name}_{name}_0"
        slot.state[name] = value

    def _set_master(self, slot: Slot, value: Tensor) -> None:
        value.name = f"{slot.param.name}_fp32_master_0"
        slot.master = value

    def _grad_for(self, slot: Slot, g: Tensor) -> Tensor:
        return g if slot.master is None else g.astype(slot.master.dtype)

    def _store(self, slots: list[Slot], new: list[Tensor], names: tuple[str, ...] = ()) -> None:
        """Take what an update operator returned: all parameters, then all of each accumulator."""
        n = len(slots)
        for i, slot in enumerate(slots):
            slot.target._assign_value(new[i])
            if slot.master is not None:
                slot.param._assign_value(new[i].astype(slot.param.dtype))
            for k, name in enumerate(names, 1):
                slot.state[name]._assign_value(new[k * n + i])

    def state_dict(self) -> dict[str, Any]:
        """Accumulators by name, master weights and the schedule's state: what a checkpoint needs.

        >>> w = bireme.to_tensor([1.0], stop_gradient=False)
        >>> w.name = "w"
        >>> adam = bireme.optimizer.Adam(0.1, parameters=[w])
        >>> (w * 2.0).backward()
        >>> adam.step()
        >>> list(adam.state_dict())
        ['w_moment1_0', 'w_moment2_0', 'w_beta1_pow_acc_0', 'w_beta2_pow_acc_0']
        """
        slots = [self._slots[id(p)] for p in self._parameter_list if id(p) in self._slots]
        out: dict[str, Any] = {slot.state[a].name: slot.state[a] for a in self._accumulators for slot in slots}
        out.update(self._shared_state(slots))
        masters = {slot.param.name: slot.master for slot in slots if slot.master is not None}
        if masters:
            out["master_weights"] = masters
        if isinstance(self._learning_rate, LRScheduler):
            out["LR_Scheduler"] = self._learning_rate.state_dict()
        return out

    def _shared_state(self, slots: list[Slot]) -> dict[str, Tensor]:
        return {}

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a checkpoint of an optimizer of the same kind, whose parameters had the same names.

        A parameter that the checkpoint says nothing about starts afresh; values that belong to none of the parameters
        here, while some of these find nothing, mean that the names have changed, which is an error.
        """
        where = f"{self._where}.set_state_dict(state_dict)"
        rest = dict(state_dict)
        schedule, masters = rest.pop("LR_Scheduler", None), rest.pop("master_weights", {})
        if isinstance(self._learning_rate, LRScheduler) and schedule is None:
            raise errors.bad(where, "the state of the schedule under LR_Scheduler", ", ".join(map(str, rest)) or "{}")
        # Paddle counts optimizers of the same parameter in the last number; which one it was does not matter here
        found = {_NUMBERED.sub("", key): (key, value) for key, value in rest.items()}
        taken: dict[int, dict[str, Any]] = {}
        without = []
        for p in self._parameter_list:
            have = {name: found.pop(f"{p.name}_{name}") for name in self._state_names() if f"{p.name}_{name}" in found}
            if not have:
                without.append(p.name)
                continue
            if len(have) < len(self._state_names()):
                lacking = [name for name in self._state_names() if name not in have]
                raise errors.bad(where, f"{', '.join(lacking)} of {p.name}", f"only {', '.join(have)}")
            taken[id(p)] = {name: self._loaded(f"{where}, {key}", v, p, name) for name, (key, v) in have.items()}
        if self._state_names() and without and found:
            hint = "build the model in the same order as when it was saved, or inside bireme.utils.unique_name.guard()"
            raise errors.bad(where, f"the state of {without[0]}", f"that of {next(iter(found.values()))[0]}", hint)
        self._slots.clear()
        for p in self._parameter_list:
            if id(p) in taken or p.name in masters:
                self._restore(self._slot(p), taken.get(id(p), {}))
                if p.name in masters:
                    self._set_master(self._slot(p), _like(f"{where}, {p.name}", masters[p.name], p, dtypes.float32))
        if isinstance(self._learning_rate, LRScheduler):
            self._learning_rate.set_state_dict(schedule)

    def _state_names(self) -> tuple[str, ...]:
        return self._accumulators

    def _restore(self, slot: Slot, values: dict[str, Any]) -> None:
        for name, value in values.items():
            self._set_state(slot, name, value)

    def _loaded(self, where: str, value: Any, p: Tensor, name: str) -> Any:
        return _like(where, value, p, self._state_dtype(p))

    # ------------------------------------------------------------ gradients and rates

    def clear_grad(self, set_to_zero: bool = True) -> None:
        """Set the gradients of all parameters to zero, or to None with `set_to_zero=False`."""
        for p in self._parameter_list:
            if not p.stop_gradient:
                p.clear_gradient(set_to_zero)
        # only now are the gradients of the step dead: what it left to run need not keep them
        run_closed()

    clear_gradients = clear_grad

    def minimize(self, loss: Tensor, startup_program: Any = None, parameters: Any = None, no_grad_set: Any = None) -> tuple[list, Pairs]:
        """Update with the gradients that `loss.backward()` left; returns the pairs (parameter, gradient) it used."""
        if not isinstance(loss, Tensor):
            raise errors.bad("minimize(loss)", "a Tensor", loss, kind=TypeError)
        only = {id(p) for p in (self._parameter_list if parameters is None else parameters)}
        left_out = {p if isinstance(p, str) else p.name for p in no_grad_set or ()}
        only -= {id(p) for p in self._parameter_list if p.name in left_out}
        return [], self._step(only)

    def get_lr(self) -> float:
        """The learning rate now.

        >>> bireme.optimizer.SGD(0.5, parameters=[]).get_lr()
        0.5
        """
        return float(self._learning_rate() if isinstance(self._learning_rate, LRScheduler) else self._learning_rate)

    def set_lr(self, value: float) -> None:
        """Set the learning rate; an error if a schedule does that."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise errors.bad("set_lr(value)", "a number", value, kind=TypeError)
        if isinstance(self._learning_rate, LRScheduler):
            got = f"an optimizer whose rate {type(self._learning_rate).__name__} sets"
            raise errors.bad("set_lr(value)", "an optimizer with a constant rate", got, kind=RuntimeError)
        self._learning_rate = float(value)

    def set_lr_scheduler(self, scheduler: LRScheduler) -> None:
        """Let a schedule set the learning rate from now on."""
        if not isinstance(scheduler, LRScheduler):
            raise errors.bad("set_lr_scheduler(scheduler)", "a schedule", scheduler, kind=TypeError)
        self._learning_rate = scheduler


def _like(where: str, value: Any, p: Tensor, dtype: Any) -> Tensor:
    """A copy of a loaded value, of a parameter's shape."""
    host = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
    if list(host.shape) != p.shape:
        raise errors.bad(where, f"shape {p.shape}", f"shape {list(host.shape)}")
    return to_tensor(host, dtype=dtype, place=p.place)
