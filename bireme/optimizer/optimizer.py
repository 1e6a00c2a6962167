"""Optimizer: what all update rules share. A rule implements `_new`; its arithmetic is an operator of `ops`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from bireme.core.base import errors, torch_names
from bireme.core.program import building, gradients
from bireme.core.record.flush import close_step, parameters_made, run_closed
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.nn.clip import ClipGradBase
from bireme.ops import to_tensor
from bireme.ops.optimizer import updates
from bireme.optimizer.lr import LRScheduler
from bireme.optimizer.states import Slot, States
from bireme.regularizer import L2Decay, WeightDecayRegularizer

Pairs = list[tuple[Tensor, Tensor]]
Parameters = Iterable[Tensor] | Iterable[dict[str, Any]]  # one list, or one dict for each group


class Optimizer(States):
    """Base class of the optimizers: parameter groups, gradient clipping, weight decay and the learning rate.

    ``step()`` clips the gradients, adds the weight decay to them and hands them to the update rule of the subclass. A
    rule of your own overrides ``_append_optimize_op``, and ``_create_accumulators`` if it keeps state.

    ``parameters`` may also be a list of dicts, each with the key ``params`` and settings for that group. In a group,
    ``learning_rate`` is a factor on the learning rate of the optimizer; ``weight_decay``, ``grad_clip`` and the
    settings of the rule (``momentum``, ``beta1``, ...) replace those of the optimizer. The ``learning_rate`` and
    ``weight_decay`` of a group also replace what ``ParamAttr`` said about its parameters.

    Args:
        learning_rate: A float or an ``LRScheduler``.
        parameters: The parameters to update, for example ``model.parameters()``, or a list of dicts as described above.
        weight_decay: A float (L2 decay), ``L1Decay``, ``L2Decay`` or None. The ``regularizer`` of a parameter's
            ``ParamAttr`` takes precedence. Default: None, no decay.
        grad_clip: ``ClipGradByValue``, ``ClipGradByNorm`` or ``ClipGradByGlobalNorm`` of ``bireme.nn``, applied before
            the decay is added. Default: None, no clipping.
        name: Becomes part of the keys of ``state_dict()``. Default: None.

    Raises:
        AttributeError: If ``parameters`` is None.

    Examples:
        >>> backbone, head = bireme.nn.Linear(4, 4), bireme.nn.Linear(4, 1)
        >>> groups = [{"params": backbone.parameters(), "learning_rate": 0.1}, {"params": head.parameters()}]
        >>> sgd = bireme.optimizer.SGD(0.5, parameters=groups)
        >>> sgd.get_lr(), backbone.weight.optimize_attr["learning_rate"]
        (0.5, 0.1)
    """

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        parameters: Parameters | None = None,
        weight_decay: float | WeightDecayRegularizer | None = None,
        grad_clip: ClipGradBase | None = None,
        name: str | None = None,
    ):
        self._where = type(self).__name__
        self._type = self._where.lower()
        if not isinstance(learning_rate, (float, LRScheduler)):
            expected = "a float or a schedule of bireme.optimizer.lr"
            raise errors.bad(f"{self._where}(learning_rate)", expected, learning_rate, kind=errors.ArgumentTypeError)
        if isinstance(learning_rate, float) and not math.isfinite(learning_rate):
            raise errors.bad(f"{self._where}(learning_rate)", "a finite number", learning_rate)
        self._learning_rate = learning_rate
        self._decay = self._regularizer(weight_decay, "weight_decay")
        self._grad_clip = self._clipper(grad_clip, "grad_clip")
        self._name = name
        self._multi_precision = False
        self._param_groups = self._make_groups(parameters)
        self._check_names()
        if self._grouped:
            for group in self._param_groups:
                self._hand_down(group)
        self._slots: dict[int, Slot] = {}
        self._added, self._waiting = {}, {}
        self._skip: Tensor | None = None
        parameters_made()

    @property
    def type(self) -> str:
        """Name of the update rule in lower case, for example ``"adamw"``; a subclass may set another."""
        return self._type

    @type.setter
    def type(self, name: str) -> None:
        self._type = name

    # what programs change between steps, as in Paddle, is read in the next one

    @property
    def _parameter_list(self) -> list[Tensor]:
        """All parameters; where there are no groups the very list that `step` goes over, which programs add to."""
        if not self._grouped:
            return self._param_groups[0]["params"]
        return [p for group in self._param_groups for p in group["params"]]

    @_parameter_list.setter
    def _parameter_list(self, params: list[Tensor]) -> None:
        if self._grouped:
            raise errors.bad(
                f"{self._where}._parameter_list",
                "an optimizer without groups",
                described="one with groups",
                hint="change optimizer._param_groups[i]['params']",
                kind=AttributeError,
            )
        self._param_groups[0]["params"] = params

    @property
    def regularization(self) -> Any:
        """The weight decay of parameters that have none of their own; where there are groups, of those that name none."""
        return self._decay if self._grouped else self._param_groups[0]["weight_decay"]

    @regularization.setter
    def regularization(self, decay: Any) -> None:
        self._decay = self._regularizer(decay, "regularization")
        if not self._grouped:
            self._param_groups[0]["weight_decay"] = self._decay

    # ------------------------------------------------------------ arguments

    def _make_groups(self, parameters: Parameters | None) -> list[dict]:
        where = f"{self._where}(parameters)"
        if parameters is None and building.current() is not None:
            parameters = []  # `minimize` finds them in the program
        if parameters is None:
            raise errors.bad(where, "a list of parameters", None, hint="pass model.parameters()", kind=AttributeError)
        if isinstance(parameters, (Tensor, dict)) or not isinstance(parameters, Iterable):
            raise errors.bad(where, "a list of parameters or of dicts", parameters, kind=errors.ArgumentTypeError)
        given = list(parameters)
        self._grouped = bool(given) and isinstance(given[0], dict)
        if not self._grouped:
            return [
                {
                    "params": self._distinct(given, where),
                    "weight_decay": self._decay,
                    "grad_clip": self._grad_clip,
                }
            ]
        groups = []
        for group in given:
            if not isinstance(group, dict) or "params" not in group:
                raise errors.bad(where, "dicts that have 'params'", group, kind=errors.ArgumentError)
            if isinstance(group["params"], set):
                hint = "a set has no order, and the optimizer's state needs one"
                raise errors.bad(
                    where, "a list of parameters in 'params'", group["params"], hint=hint, kind=errors.ArgumentTypeError
                )
            params = [group["params"]] if isinstance(group["params"], Tensor) else list(group["params"])
            new = {**group, "params": self._distinct(params, where)}
            new["weight_decay"] = self._regularizer(group.get("weight_decay", self._decay), "weight_decay")
            new["grad_clip"] = self._clipper(group.get("grad_clip", self._grad_clip), "grad_clip")
            groups.append(new)
        ids = [id(p) for group in groups for p in group["params"]]
        if len(ids) != len(set(ids)):
            raise errors.bad(where, "each parameter in one group", described="a parameter in two groups")
        return groups

    def _add_param_group(self, param_group: dict) -> None:
        """Add a parameter group; the optimizer must have been created with groups."""
        where = f"{self._where}._add_param_group(param_group)"
        if not self._grouped:
            raise errors.bad(
                where,
                "an optimizer that was made with groups",
                described="one made with a list of parameters",
                kind=errors.ArgumentTypeError,
            )
        (new,) = self._make_groups([param_group])
        known = {id(p) for p in self._parameter_list}
        if any(id(p) in known for p in new["params"]):
            raise errors.bad(where, "parameters of no other group", described="a parameter of another group")
        self._param_groups.append(new)
        self._check_names()
        self._hand_down(new)

    def _hand_down(self, group: dict) -> None:
        """Write the settings of a group to its parameters, as Paddle does, where programs read and change them."""
        for p in group["params"]:
            if hasattr(p, "optimize_attr"):  # a plain tensor has none
                p.optimize_attr["learning_rate"] = group.get("learning_rate", 1.0)
                self._hand_down_decay(p, group["weight_decay"])

    def _hand_down_decay(self, p: Any, decay: Any) -> None:
        p.regularizer = decay

    def _distinct(self, params: list, where: str) -> list[Tensor]:
        for p in params:
            if not isinstance(p, Tensor):
                raise errors.bad(where, "a list of parameters", p, kind=errors.NotATensorError)
        once = list({id(p): p for p in params}.values())
        if len(once) != len(params):
            errors.warn(f"{where}: a parameter is in the list twice; it is updated once a step")
        return once

    def _check_names(self) -> None:
        names: set[str] = set()
        for p in self._parameter_list:
            if p.name in names:
                where, hint = f"{self._where}(parameters)", "state_dict() tells parameters apart by name"
                raise errors.bad(
                    where, "parameters with names of their own", described=f"two called {p.name}", hint=hint
                )
            names.add(p.name)

    def _regularizer(self, decay: Any, what: str) -> Any:
        """A number means L2; None means no decay."""
        if decay is None or isinstance(decay, WeightDecayRegularizer):
            return decay
        if isinstance(decay, bool) or not isinstance(decay, (int, float)):
            raise errors.bad(
                f"{self._where}({what})", "a number, L1Decay, L2Decay or None", decay, kind=errors.ArgumentTypeError
            )
        return L2Decay(float(decay))

    def _clipper(self, clip: Any, what: str) -> Any:
        if clip is not None and not isinstance(clip, ClipGradBase):
            raise errors.bad(
                f"{self._where}({what})", "a ClipGradBy... of bireme.nn, or None", clip, kind=errors.ArgumentTypeError
            )
        return clip

    # ------------------------------------------------------------ the step

    def step(self) -> None:
        """Update all parameters that have a gradient.

        Parameters without a gradient and those with ``stop_gradient=True`` are left as they are. The update is
        recorded, not waited for; it runs at the latest when a value is needed.

        Examples:
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
        """Update with the gradients at hand. Where the bool tensor ``skip`` is true, everything stays as it was."""
        pairs = [
            (p, p.grad)
            for p in self._parameter_list
            if not p.stop_gradient and p.grad is not None and (only is None or id(p) in only)
        ]
        self._apply(pairs, skip)
        return pairs

    def _apply(self, pairs: Pairs, skip: Tensor | None = None) -> None:
        skip = updates.invalid_so_far(skip)  # a step on wrong indices must not change anything
        grads = {id(p): g for p, g in pairs}
        if self._multi_precision:
            self._make_masters([p for p, _ in pairs])
        self._skip = skip
        try:
            for group in self._param_groups:
                own = [(p, grads[id(p)]) for p in group["params"] if id(p) in grads]
                if own:
                    # Paddle clips first: the decay itself is never clipped. Programs set `_grad_clip` between steps
                    clip = group["grad_clip"] if self._grouped else self._grad_clip
                    clipped = own if clip is None else clip(own)
                    change = (
                        self._update
                        if type(self)._append_optimize_op is Optimizer._append_optimize_op
                        else self._update_each
                    )
                    change(group, self._decayed(group, clipped))
        finally:
            self._skip = None
        close_step()

    def _update(self, group: dict, pairs: Pairs) -> None:
        """Update the parameters of one group, all in one operator where their settings agree."""
        for lr, slots, grads in self._by_rate(group, pairs):
            states = [[slot.state[name] for slot in slots] for name in self._accumulator_names]
            self._store(
                slots, self._new(group, lr, [slot.target for slot in slots], grads, states), self._accumulator_names
            )

    def _new(
        self, group: dict, lr: float, params: list[Tensor], grads: list[Tensor], states: list[list[Tensor]]
    ) -> list[Tensor]:
        """Return parameters and accumulators after a step; each rule implements it."""
        raise errors.missing_method(self, "_new")

    # ------------------------------------------------------------ custom rules, as in Paddle: parameter by parameter

    def _update_each(self, group: dict, pairs: Pairs) -> None:
        # what such a rule writes cannot be undone, so here the answer is waited for
        if self._skip is not None and self._skip.item():
            return
        # where there are groups, Paddle hands out dicts that have their settings
        self._create_accumulators(None, self._with_settings(group, [p for p, _ in pairs]))
        for pair in pairs:
            self._append_optimize_op(None, self._with_settings(group, pair))
        self._finish_update(None, self._with_settings(group, pairs))

    def _with_settings(self, group: dict, params: Any) -> Any:
        return {**group, "params": params} if self._grouped else params

    def _append_optimize_op(self, block: Any, param_and_grad: Any) -> Any:
        """Update one parameter; a custom rule overrides this, and ``_create_accumulators`` if it keeps state."""
        p, g = self._update_param_group(param_and_grad) if isinstance(param_and_grad, dict) else param_and_grad
        group = next(group for group in self._param_groups if any(q is p for q in group["params"]))
        self._update(group, [(p, g)])

    def _create_accumulators(self, block: Any, parameters: Any) -> None:
        """Create the state of these parameters with ``_add_accumulator``."""

    def _finish_update(self, block: Any, parameters_and_grads: Any) -> None:
        """Run after the parameters of a group have been updated."""

    def _update_param_group(self, parameters: dict) -> Any:
        """Return the parameters of a group; a custom rule reads the settings of the group here."""
        return parameters.get("params")

    def _create_param_lr(self, param_and_grad: Any) -> Tensor:
        """The learning rate of a parameter, as a tensor."""
        p = param_and_grad[0]
        group = next(
            (group for group in self._param_groups if any(q is p for q in group["params"])), self._param_groups[0]
        )
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

    def _decay_coeff(self, group: dict) -> Any:
        inside = self._decay_inside(group)
        return 0.0 if inside is None else inside._coeff

    def _is_decayed(self, group: dict, p: Tensor) -> bool:
        """Return whether the update operator applies the weight decay of the group to this parameter."""
        inside = self._decay_inside(group)
        return inside is not None and self._decay_of(group, p) is inside

    def _decays(self, group: dict, slots: list[Slot]) -> tuple[Any, tuple[bool, ...]]:
        """The coefficient that the update operator takes, and for each parameter whether it decays.

        A decay of zero is left out of the program: decided here, not in it.
        """
        coeff = self._decay_coeff(group)
        some = isinstance(coeff, Tensor) or coeff
        return coeff, tuple([bool(some) and self._is_decayed(group, slot.param) for slot in slots])

    def _rate(self, group: dict, p: Tensor) -> float:
        """Factor on the learning rate for one parameter."""
        attr = getattr(p, "optimize_attr", group)  # a plain tensor has no such attribute: its group has the settings
        return float(attr.get("learning_rate", 1.0))

    def _mesh_of(self, p: Tensor) -> Any:
        """The mesh of a parameter, None where it is on none: parameters of two meshes have two programs."""
        return p._value.device if p._value.device.several else None

    def _divided(self, p: Tensor, g: Tensor) -> Tensor:
        """The gradient of a parameter as it is kept: divided where `ShardingStage2` or `ShardingStage3` says so."""
        return g if self._shard_gradient is None else self._shard_gradient(p, g)

    def _by_rate(self, group: dict, pairs: Pairs) -> list[tuple[float, list[Slot], list[Tensor]]]:
        """Learning rate, slots and gradients of the parameters that share a rate."""
        found: dict[tuple[float, Any], tuple[list[Slot], list[Tensor]]] = {}
        for p, g in pairs:
            slot = self._slot(p)
            slots, grads = found.setdefault((self._rate(group, p), self._mesh_of(p)), ([], []))
            slots.append(slot)
            grads.append(self._divided(p, g))
        rate = self.get_lr()
        return [(rate * factor, slots, self._grads_for(slots, grads)) for (factor, _), (slots, grads) in found.items()]

    # ------------------------------------------------------------ gradients and rates

    def clear_grad(self, set_to_zero: bool = True) -> None:
        """Reset the gradients of all parameters, so that the next ``backward()`` does not add to them.

        Args:
            set_to_zero: Set the gradients to zero; if False, to None. Default: True.

        Examples:
            >>> w = bireme.to_tensor([1.0], stop_gradient=False)
            >>> sgd = bireme.optimizer.SGD(0.5, parameters=[w])
            >>> (w * 2.0).backward()
            >>> sgd.clear_grad()
            >>> w.grad.tolist()
            [0.0]
        """
        for p in self._parameter_list:
            if not p.stop_gradient:
                p.clear_gradient(set_to_zero)
        # only now are the gradients of the step dead: what it left to run need not keep them
        run_closed()

    clear_gradients = clear_grad

    def __getattr__(self, name: str) -> Any:
        raise torch_names.missing(f"{type(self).__name__!r} object", name, torch_names.OPTIMIZER)

    def minimize(
        self,
        loss: Tensor,
        startup_program: Any = None,
        parameters: Iterable[Tensor] | None = None,
        no_grad_set: Iterable[Tensor | str] | None = None,
    ) -> tuple[list, Pairs]:
        """Update the parameters with the gradients that ``loss.backward()`` has left.

        It does not call ``backward()`` itself.

        Args:
            loss: The loss tensor; only its type is checked.
            startup_program: Has no effect.
            parameters: Parameters to update. Default: None, all parameters of the optimizer.
            no_grad_set: Parameters, or names of parameters, to leave out. Default: None.

        Returns:
            A tuple of an empty list and the list of ``(parameter, gradient)`` pairs that were used.

        Examples:
            >>> w = bireme.to_tensor([1.0], stop_gradient=False)
            >>> sgd = bireme.optimizer.SGD(0.5, parameters=[w])
            >>> loss = w * 2.0
            >>> loss.backward()
            >>> _, pairs = sgd.minimize(loss)
            >>> w.tolist(), pairs[0][1].tolist()
            ([0.0], [2.0])
        """
        if not isinstance(loss, Tensor):
            raise errors.bad("minimize(loss)", "a Tensor", loss, kind=errors.ArgumentTypeError)
        builder = building.current()
        if builder is not None:
            pairs = self._static_gradients(builder, loss, parameters, no_grad_set)
            return self._static_update(builder, pairs), pairs
        return [], self._step({id(p) for p in self._wanted(parameters, no_grad_set)})

    def backward(
        self,
        loss: Tensor,
        startup_program: Any = None,
        parameters: Iterable[Tensor] | None = None,
        no_grad_set: Iterable[Tensor | str] | None = None,
        callbacks: Any = None,
    ) -> Pairs:
        """Return the gradients that ``loss.backward()`` has left, for ``apply_gradients``.

        Args:
            loss: The loss tensor; only its type is checked.
            startup_program: Has no effect.
            parameters: Parameters to return. Default: None, all parameters of the optimizer.
            no_grad_set: Parameters, or names of parameters, to leave out. Default: None.
            callbacks: Has no effect.

        Returns:
            A list of ``(parameter, gradient)`` pairs; parameters without a gradient are not in it.

        Examples:
            >>> w = bireme.to_tensor([1.0], stop_gradient=False)
            >>> sgd = bireme.optimizer.SGD(0.5, parameters=[w])
            >>> loss = w * 2.0
            >>> loss.backward()
            >>> [g.item() for _, g in sgd.backward(loss)]
            [2.0]
        """
        if not isinstance(loss, Tensor):
            raise errors.bad("backward(loss)", "a Tensor", loss, kind=errors.NotATensorError)
        builder = building.current()
        if builder is not None:
            return self._static_gradients(builder, loss, parameters, no_grad_set)
        return [
            (p, p.grad) for p in self._wanted(parameters, no_grad_set) if not p.stop_gradient and p.grad is not None
        ]

    def _static_gradients(self, builder: Any, loss: Tensor, parameters: Any, no_grad_set: Any) -> Pairs:
        """Add the gradients of a loss to the program that is being built."""
        wanted = gradients.parameters(
            builder, "minimize", loss, parameters or self._parameter_list or None, no_grad_set
        )
        return list(zip(wanted, gradients.pull(builder, [loss], wanted, [None]), strict=True))

    def _static_update(self, builder: Any, pairs: Pairs) -> list:
        """Add an update to the program that is being built; parameters are those of the scope that it runs in."""
        self._take_in([p for p, _ in pairs])

        def update(params: list[Tensor], grads: list[Tensor]) -> None:
            self._take_in(params)
            with no_grad():
                pairs = [(p, g) for p, g in zip(params, grads, strict=True) if g is not None]
                self._apply([(p, g if g._edge is None else g.detach()) for p, g in pairs])

        update.optimizer = self  # type: ignore[attr-defined]  # its state is saved with the program
        gradients.update(builder, update, self._type, [p for p, _ in pairs], [g for _, g in pairs])
        return []

    def _take_in(self, params: list[Tensor]) -> None:
        """Have parameters that a program has and this optimizer was not given."""
        known = {id(p) for p in self._parameter_list}
        new = [p for p in params if id(p) not in known]
        self._param_groups[0]["params"] += new

    def _wanted(self, parameters: Iterable[Tensor] | None, no_grad_set: Iterable[Tensor | str] | None) -> list[Tensor]:
        left_out = {p if isinstance(p, str) else p.name for p in no_grad_set or ()}
        return [p for p in parameters or self._parameter_list if p.name not in left_out]

    @no_grad()
    def apply_gradients(self, params_grads: Pairs) -> list:
        """Update the parameters with the given gradients instead of those that ``backward()`` has left.

        Clipping and weight decay apply as in ``step()``.

        Args:
            params_grads: ``(parameter, gradient)`` pairs; a pair whose gradient is None is left out.

        Returns:
            An empty list.

        Raises:
            ValueError: If a parameter does not belong to this optimizer.

        Examples:
            >>> w = bireme.to_tensor([1.0], stop_gradient=False)
            >>> bireme.optimizer.SGD(0.5, parameters=[w]).apply_gradients([(w, bireme.to_tensor([4.0]))])
            []
            >>> w.tolist()
            [-1.0]
        """
        builder = building.current()
        if builder is not None:
            return self._static_update(builder, [(p, g) for p, g in params_grads if g is not None])
        known = {id(p) for p in self._parameter_list}
        for p, _ in params_grads:
            if id(p) not in known:
                raise errors.bad("apply_gradients(params_grads)", "parameters of this optimizer", getattr(p, "name", p))
        self._apply([(p, g) for p, g in params_grads if g is not None])
        return []

    @no_grad()
    def append_regularization_ops(
        self, parameters_and_grads: Pairs, regularization: WeightDecayRegularizer | None = None
    ) -> Pairs:
        """Add the weight decay of each parameter to its gradient.

        Args:
            parameters_and_grads: ``(parameter, gradient)`` pairs.
            regularization: ``L1Decay`` or ``L2Decay`` for parameters without a ``regularizer`` of their own. Default:
                None.

        Returns:
            The pairs with the new gradients; a gradient of None stays None.

        Examples:
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
        """Return the names of the accumulators that exist so far, without master weights.

        Examples:
            >>> w = bireme.to_tensor([1.0], stop_gradient=False)
            >>> w.name = "w"
            >>> momentum = bireme.optimizer.Momentum(0.5, parameters=[w])
            >>> (w * 2.0).backward()
            >>> momentum.step()
            >>> momentum.get_opti_var_name_list()
            ['w_velocity_0']
        """
        return [self._filed_as(slot.param, name) for slot in self._slots.values() for name in self._state_names()]

    def get_lr(self) -> float:
        """Return the current learning rate.

        Examples:
            >>> bireme.optimizer.SGD(0.5, parameters=[]).get_lr()
            0.5
        """
        return float(self._learning_rate() if isinstance(self._learning_rate, LRScheduler) else self._learning_rate)

    def set_lr(self, value: float) -> None:
        """Set the learning rate.

        Args:
            value: The new learning rate, a float or an int.

        Raises:
            RuntimeError: If the optimizer uses an ``LRScheduler``.

        Examples:
            >>> sgd = bireme.optimizer.SGD(0.5, parameters=[])
            >>> sgd.set_lr(0.1)
            >>> sgd.get_lr()
            0.1
        """
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise errors.bad("set_lr(value)", "a number", value, kind=errors.ArgumentTypeError)
        if isinstance(self._learning_rate, LRScheduler):
            got = f"an optimizer whose rate {type(self._learning_rate).__name__} sets"
            raise errors.bad(
                "set_lr(value)", "an optimizer with a constant learning rate", described=got, kind=RuntimeError
            )
        self._learning_rate = float(value)

    def set_lr_scheduler(self, scheduler: LRScheduler) -> None:
        """Use a learning rate scheduler from now on.

        Args:
            scheduler: The ``LRScheduler`` that replaces the current learning rate or scheduler.

        Examples:
            >>> sgd = bireme.optimizer.SGD(0.5, parameters=[])
            >>> sgd.set_lr_scheduler(bireme.optimizer.lr.StepDecay(0.2, step_size=10))
            >>> sgd.get_lr()
            0.2
        """
        if not isinstance(scheduler, LRScheduler):
            raise errors.bad("set_lr_scheduler(scheduler)", "an LRScheduler", scheduler, kind=errors.ArgumentTypeError)
        self._learning_rate = scheduler
