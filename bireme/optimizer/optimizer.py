"""Optimizer: what all update rules share. A rule writes `_new`; its arithmetic is one operator of `ops.update`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from bireme.core.base import errors
from bireme.core.record.flush import close_step, run_closed
from bireme.core.record.guards import open_guards
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor, wrap
from bireme.nn.clip import ClipGradBase
from bireme.ops import logical_or, to_tensor
from bireme.optimizer.lr import LRScheduler
from bireme.optimizer.states import Slot, States
from bireme.regularizer import L2Decay, WeightDecayRegularizer

Pairs = list[tuple[Tensor, Tensor]]


class Optimizer(States):
    """Base of update rules.

    `parameters` is a list of parameters, or of dicts with `params` and settings of their own; in such a group
    `learning_rate` is a factor on the optimizer's; it and the decay take the place of what ParamAttr said.
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ):
        self._where = type(self).__name__
        self._type = self._where.lower()
        if not isinstance(learning_rate, (float, LRScheduler)):
            expected = "a float or a schedule of bireme.optimizer.lr"
            raise errors.bad(f"{self._where}(learning_rate)", expected, learning_rate, kind=errors.Alien)
        if isinstance(learning_rate, float) and not math.isfinite(learning_rate):
            raise errors.bad(f"{self._where}(learning_rate)", "a finite number", learning_rate)
        self._learning_rate = learning_rate
        self.regularization = self._regularizer(weight_decay, "weight_decay")
        self._grad_clip = self._clipper(grad_clip, "grad_clip")
        self._name = name
        self._multi_precision = False
        self._param_groups = self._make_groups(parameters)
        self._parameter_list: list[Tensor] = [p for group in self._param_groups for p in group["params"]]
        self._check_names()
        if self._grouped:
            for group in self._param_groups:
                self._hand_down(group)
        self._slots: dict[int, Slot] = {}
        self._added, self._waiting = {}, {}
        self._skip: Tensor | None = None

    @property
    def type(self) -> str:
        """The rule's name in lower case, as Paddle's optimizers have it; a rule of one's own may set another."""
        return self._type

    @type.setter
    def type(self, name: str) -> None:
        self._type = name

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
                    "weight_decay": self.regularization,
                    "grad_clip": self._grad_clip,
                }
            ]
        groups = []
        for group in given:
            if not isinstance(group, dict) or "params" not in group:
                raise errors.bad(where, "dicts that have 'params'", group, kind=errors.Unfit)
            if isinstance(group["params"], set):
                hint = "a set has no order, and the optimizer's state needs one"
                raise errors.bad(where, "a list of parameters in 'params'", group["params"], hint, kind=TypeError)
            params = [group["params"]] if isinstance(group["params"], Tensor) else list(group["params"])
            new = {**group, "params": self._distinct(params, where)}
            new["weight_decay"] = self._regularizer(group.get("weight_decay", self.regularization), "weight_decay")
            new["grad_clip"] = self._clipper(group.get("grad_clip", self._grad_clip), "grad_clip")
            groups.append(new)
        ids = [id(p) for group in groups for p in group["params"]]
        if len(ids) != len(set(ids)):
            raise errors.bad(where, "each parameter in one group", "a parameter that is in two")
        return groups

    def _add_param_group(self, param_group: dict) -> None:
        """Take another group of parameters; the optimizer must have been made with groups."""
        where = f"{self._where}._add_param_group(param_group)"
        if not self._grouped:
            raise errors.bad(where, "an optimizer that was made with groups", "one made with a list of parameters", kind=TypeError)
        (new,) = self._make_groups([param_group])
        known = {id(p) for p in self._parameter_list}
        if any(id(p) in known for p in new["params"]):
            raise errors.bad(where, "parameters of no other group", "one that is in another")
        self._param_groups.append(new)
        self._parameter_list += new["params"]
        self._check_names()
        self._hand_down(new)

    def _hand_down(self, group: dict) -> None:
        """Write a group's settings to its parameters, as Paddle does: programs read them there, and change them between steps."""
        for p in group["params"]:
            if hasattr(p, "optimize_attr"):  # a plain tensor has none
                p.optimize_attr["learning_rate"] = group.get("learning_rate", 1.0)
                self._hand_down_decay(p, group["weight_decay"])

    def _hand_down_decay(self, p: Any, decay: Any) -> None:
        p.regularizer = decay

    def _distinct(self, params: list, where: str) -> list[Tensor]:
        for p in params:
            if not isinstance(p, Tensor):
                raise errors.bad(where, "a list of parameters", p, kind=errors.NotTensor)
        once = list({id(p): p for p in params}.values())
        if len(once) != len(params):
            errors.warn(f"{where}: a parameter is in the list twice; it is updated once a step")
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
    def _step(self, only: set[int] | None = None, skip: Tensor | None = None) -> Pairs:
        """Update with the gradients there are. Where `skip`, a bool, turns out true, everything stays what it was."""
        pairs = [(p, p.grad) for p in self._parameter_list if not p.stop_gradient and p.grad is not None and (only is None or id(p) in only)]
        self._apply(pairs, skip)
        return pairs

    def _apply(self, pairs: Pairs, skip: Tensor | None = None) -> None:
        for bad in open_guards():  # a step on wrong indices must not change anything
            skip = wrap(bad) if skip is None else logical_or(skip, wrap(bad))
        grads = {id(p): g for p, g in pairs}
        if self._multi_precision:
            self._make_masters([p for p, _ in pairs])
        self._skip = skip
        try:
            for group in self._param_groups:
                own = [(p, grads[id(p)]) for p in group["params"] if id(p) in grads]
                if own:
                    # Paddle clips first, so the decay itself is never clipped; programs set `_grad_clip` anew between steps
                    clip = group["grad_clip"] if self._grouped else self._grad_clip
                    clipped = own if clip is None else clip(own)
                    change = self._update if type(self)._append_optimize_op is Optimizer._append_optimize_op else self._update_each
                    change(group, self._decayed(group, clipped))
        finally:
            self._skip = None
        close_step()

    def _update(self, group: dict, pairs: Pairs) -> None:
        """Update the parameters of one group, all in one operator where their settings agree."""
        for lr, slots, grads in self._by_rate(group, pairs):
            states = [[slot.state[name] for slot in slots] for name in self._accumulator_names]
            self._store(slots, self._new(group, lr, [slot.target for slot in slots], grads, states), self._accumulator_names)

    def _new(self, group: dict, lr: float, params: list[Tensor], grads: list[Tensor], states: list[list[Tensor]]) -> list[Tensor]:
        """Parameters and accumulators after a step; written by each rule."""
        raise NotImplementedError(f"{type(self).__name__}._new: not written")

    # ------------------------------------------------------------ rules that programs write, as in Paddle: parameter by parameter

    def _update_each(self, group: dict, pairs: Pairs) -> None:
        if self._skip is not None and self._skip.item():  # what such a rule writes cannot be taken back: here the answer is waited for
            return
        # where there are groups, Paddle hands out dicts that have their settings
        self._create_accumulators(None, self._with_settings(group, [p for p, _ in pairs]))
        for pair in pairs:
            self._append_optimize_op(None, self._with_settings(group, pair))
        self._finish_update(None, self._with_settings(group, pairs))

    def _with_settings(self, group: dict, params: Any) -> Any:
        return {**group, "params": params} if self._grouped else params

    def _append_optimize_op(self, block: Any, param_and_grad: Any) -> Any:
        """Update one parameter; a rule of one's own overrides this, and `_create_accumulators` if it keeps anything."""
        p, g = self._update_param_group(param_and_grad) if isinstance(param_and_grad, dict) else param_and_grad
        group = next(group for group in self._param_groups if any(q is p for q in group["params"]))
        self._update(group, [(p, g)])

    def _create_accumulators(self, block: Any, parameters: Any) -> None:
        """Make what is kept for these parameters, by `_add_accumulator`."""

    def _finish_update(self, block: Any, parameters_and_grads: Any) -> None:
        """What comes after the parameters of a group are updated."""

    def _update_param_group(self, parameters: dict) -> Any:
        """The parameters of a group; a rule of one's own takes its settings here."""
        return parameters.get("params")

    def _create_param_lr(self, param_and_grad: Any) -> Tensor:
        """The learning rate of a parameter, as a tensor."""
        p = param_and_grad[0]
        group = next((group for group in self._param_groups if any(q is p for q in group["params"])), self._param_groups[0])
        return to_tensor(self.get_lr() * self._rate(group, p), "float32")

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
        """The decay of one parameter: its own, else the group's."""
        own = getattr(p, "regularizer", None)
        return group["weight_decay"] if own is None else own

    def _decay_inside(self, group: dict) -> Any:
        """The decay that the update operator adds itself, if any."""
        return None

    def _rate(self, group: dict, p: Tensor) -> float:
        """Factor on the learning rate for one parameter."""
        attr = getattr(p, "optimize_attr", group)  # what a plain tensor's group says is told nowhere else
        return float(attr.get("learning_rate", 1.0))

    def _by_rate(self, group: dict, pairs: Pairs) -> list[tuple[float, list[Slot], list[Tensor]]]:
        """Learning rate, slots and gradients of the parameters that share a rate."""
        found: dict[float, tuple[list[Slot], list[Tensor]]] = {}
        for p, g in pairs:
            slot = self._slot(p)
            slots, grads = found.setdefault(self._rate(group, p), ([], []))
            slots.append(slot)
            grads.append(g)
        rate = self.get_lr()
        return [(rate * factor, slots, self._grads_for(slots, grads)) for factor, (slots, grads) in found.items()]

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
            raise errors.bad("minimize(loss)", "a Tensor", loss, kind=errors.Alien)
        return [], self._step({id(p) for p in self._wanted(parameters, no_grad_set)})

    def backward(self, loss: Tensor, startup_program: Any = None, parameters: Any = None, no_grad_set: Any = None, callbacks: Any = None) -> Pairs:
        """The pairs (parameter, gradient) that `loss.backward()` left, for `apply_gradients`.

        >>> w = bireme.to_tensor([1.0], stop_gradient=False)
        >>> sgd = bireme.optimizer.SGD(0.5, parameters=[w])
        >>> loss = w * 2.0
        >>> loss.backward()
        >>> [g.item() for _, g in sgd.backward(loss)]
        [2.0]
        """
        if not isinstance(loss, Tensor):
            raise errors.bad("backward(loss)", "a Tensor", loss, kind=TypeError)
        return [(p, p.grad) for p in self._wanted(parameters, no_grad_set) if not p.stop_gradient and p.grad is not None]

    def _wanted(self, parameters: Any, no_grad_set: Any) -> list[Tensor]:
        left_out = {p if isinstance(p, str) else p.name for p in no_grad_set or ()}
        return [p for p in parameters or self._parameter_list if p.name not in left_out]

    @no_grad()
    def apply_gradients(self, params_grads: Pairs) -> list:
        """Update with the gradients given, in pairs (parameter, gradient), instead of those that backward left.

        >>> w = bireme.to_tensor([1.0], stop_gradient=False)
        >>> bireme.optimizer.SGD(0.5, parameters=[w]).apply_gradients([(w, bireme.to_tensor([4.0]))])
        []
        >>> w.tolist()
        [-1.0]
        """
        known = {id(p) for p in self._parameter_list}
        for p, _ in params_grads:
            if id(p) not in known:
                raise errors.bad("apply_gradients(params_grads)", "parameters of this optimizer", getattr(p, "name", p))
        self._apply([(p, g) for p, g in params_grads if g is not None])
        return []

    @no_grad()
    def append_regularization_ops(self, parameters_and_grads: Pairs, regularization: Any = None) -> Pairs:
        """The pairs with the decay of each parameter in its gradient: its own, else `regularization`.

        >>> w = bireme.to_tensor([1.0], stop_gradient=False)
        >>> pair = (w, bireme.to_tensor([4.0]))
        >>> sgd = bireme.optimizer.SGD(0.5, parameters=[w])
        >>> sgd.append_regularization_ops([pair], bireme.regularizer.L2Decay(0.5))[0][1].tolist()
        [4.5]
        """
        out = []
        for p, g in parameters_and_grads:
            own = getattr(p, "regularizer", None)
            decay = regularization if own is None else own
            out.append((p, g if g is None or decay is None else g + decay(p, g, None)))
        return out

    def get_opti_var_name_list(self) -> list[str]:
        """Names of all accumulators.

        >>> w = bireme.to_tensor([1.0], stop_gradient=False)
        >>> bireme.optimizer.SGD(0.5, parameters=[w]).get_opti_var_name_list()
        []
        """
        return [self._filed_as(slot.param, name) for slot in self._slots.values() for name in self._state_names()]

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
