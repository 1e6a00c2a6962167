"""The state of an optimizer: accumulators, master weights, and how they are saved and loaded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.boundary import Guarded
from bireme.core.declare.precision import HALF
from bireme.core.graph.graph import Zero, sig_of
from bireme.core.record.flush import aside
from bireme.core.tensor import on_mesh
from bireme.core.tensor.tensor import Tensor, read, wrap
from bireme.ops import to_tensor
from bireme.ops.optimizer import updates
from bireme.optimizer.lr import LRScheduler

_NUMBERED = re.compile(r"_fp32_master_\d+(?=_)|_\d+$")


class Slot:
    """State of one parameter: its accumulators by name, and its float32 master weight if there is one."""

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


class States(Guarded):
    """The part of ``Optimizer`` that owns the accumulators. A rule lists their names in ``_accumulator_names``."""

    _accumulator_names: tuple[str, ...] = ()
    _shard_fn: Any = None  # where states lie on a mesh, and gradients, see `distributed.shard_optimizer`
    _shard_gradient: Any = None
    _where: str
    _name: str | None
    _learning_rate: float | LRScheduler
    _multi_precision: bool
    _parameter_list: list[Tensor]
    _slots: dict[int, Slot]
    _skip: Tensor | None
    _added: dict[str, None]  # accumulators of rules that programs write, in order
    _waiting: dict[str, Any]  # what a checkpoint had for them, until they are made
    _rule_skips: Any = False  # whether the update operator itself keeps the old values where `_skip` is true

    @property
    def _accumulators(self) -> dict[str, dict[str, Tensor]]:
        """The accumulators by name and then by the parameter's name, as Paddle has them."""
        out: dict[str, dict[str, Tensor]] = {}
        for slot in self._slots.values():
            for name in (*self._state_names(), *(a for a in self._added if a in slot.state)):
                out.setdefault(name, {})[slot.param.name] = self._get_accumulator(name, slot.param)
        return out

    @property
    def _master_weights(self) -> dict[str, Tensor]:
        """The float32 master weights by the names of their parameters."""
        return {slot.param.name: slot.master for slot in self._slots.values() if slot.master is not None}

    def _get_accumulator(self, name: str, param: Tensor) -> Tensor:
        """Return the accumulator ``name`` of a parameter."""
        slot = self._slots.get(id(param))
        held = (
            {}
            if slot is None
            else {**self._shared_state([slot]), **{self._filed_as(param, n): self._filed(slot, n) for n in slot.state}}
        )
        found = next(
            (held[key] for key in (self._filed_as(param, name), f"{self._key(param, name)}_0") if key in held), None
        )
        if found is None:
            raise errors.bad(
                f"{self._where}._get_accumulator(name)",
                f"one of {', '.join(map(repr, held)) or 'none yet'}",
                name,
                kind=RuntimeError,
            )
        return found

    def _add_accumulator(
        self,
        name: str,
        param: Tensor,
        dtype: Any = None,
        fill_value: float = 0.0,
        shape: Any = None,
        type: Any = None,
        device: Any = None,
    ) -> Tensor:
        """Return the accumulator ``name`` of a parameter; a new one is filled with ``fill_value``."""
        slot = self._slot(param)
        if name not in slot.state:
            where, key = f"{self._where}._add_accumulator", self._key(param, name)
            kind = self._state_dtype(param) if dtype is None else dtypes.of(dtype, f"{where}(dtype)")
            start = np.full(param.shape if shape is None else shape, fill_value, kind.np)
            loaded = self._waiting.pop(key, None)
            value = (
                to_tensor(start, place=param.place)
                if loaded is None
                else _like(f"{where}, {key}", loaded, param, kind, start.shape)
            )
            self._set_state(slot, name, value)
            self._added[name] = None
        return slot.state[name]

    def _slot(self, p: Tensor) -> Slot:
        slot = self._slots.get(id(p))
        if slot is None:
            slot = Slot(p)
            if p.dtype in HALF and self._multi_precision:
                # no detach(): the two would share storage from then on
                self._set_master(slot, wrap(read(p)).astype(dtypes.float32))
            for name in self._accumulator_names:
                # made on the host and not by an operator: the first step then records the same program as all others
                start, device = self._initial(p, name), read(p).device
                zeros = not device.is_cpu and not device.several and start.size > 1 and not any(start.strides)
                sig = sig_of(start.shape, dtypes.from_numpy(start.dtype))
                made = wrap(Zero(sig, None, device)) if zeros else to_tensor(start, place=p.place)
                self._set_state(slot, name, made)
            self._slots[id(p)] = slot  # whole, or not at all: Ctrl-C may come at any line
        return slot

    def _make_masters(self, params: list[Tensor]) -> None:
        """Create missing master weights outside the step: inside, the first step would be a program of its own."""
        new = [p for p in params if id(p) not in self._slots and p.dtype in HALF]
        if new and all(p._value.array is not None for p in new):
            with aside():
                for p in new:
                    self._slot(p)

    def _state_dtype(self, p: Tensor) -> Any:
        # sums of small terms in half precision stop moving: its state is kept in float32
        return dtypes.float32 if p.dtype in HALF else p.dtype

    def _initial(self, p: Tensor, name: str) -> np.ndarray:
        """The accumulator before the first step; zeros are one number in every place."""
        return np.broadcast_to(np.zeros((), self._state_dtype(p).np), p.shape)

    def _key(self, p: Tensor, name: str) -> str:
        """The key of an accumulator in a checkpoint without its number; the name of the optimizer is part of it."""
        return f"{p.name}_{name}" if self._name is None else f"{p.name}_{self._name}_{name}"

    def _filed_as(self, p: Tensor, name: str) -> str:
        """The whole name of an accumulator: in Paddle it belongs to the master weight where there is one."""
        key = self._key(p, name)
        if self._multi_precision and p.dtype in HALF:
            return f"{p.name}_fp32_master_0{key.removeprefix(p.name)}_0"
        return f"{key}_0"

    def _set_state(self, slot: Slot, name: str, value: Tensor) -> None:
        value = self._placed(slot.param, name, value)
        value.name = self._filed_as(slot.param, name)
        slot.state[name] = value

    def _placed(self, p: Tensor, name: str, value: Tensor) -> Tensor:
        """An accumulator where it belongs: divided as it was asked for, or as its parameter is."""
        if self._shard_fn is not None and not on_mesh.is_there(value):
            value = self._shard_fn(name, p, value)
        return on_mesh.like(value, p)

    def _set_master(self, slot: Slot, value: Tensor) -> None:
        value.name = f"{slot.param.name}_fp32_master_0"
        slot.master = value

    def _to_host(self) -> None:
        """Keep accumulators and master weights as arrays of the host until the next step, which reads them from there."""
        for slot in self._slots.values():
            held = [*slot.state.values(), *([] if slot.master is None else [slot.master])]
            for t in held:
                if not isinstance(t._value.array, np.ndarray) and not on_mesh.is_there(t):
                    t._value = to_tensor(t.numpy(), t.dtype, place="cpu")._value

    def _grads_for(self, slots: list[Slot], grads: list[Tensor]) -> list[Tensor]:
        """Gradients in the types of their master weights, where there are any."""
        return _cast(grads, [g.dtype if slot.master is None else slot.master.dtype for slot, g in zip(slots, grads)])

    def _store(self, slots: list[Slot], new: list[Tensor], names: tuple[str, ...] = ()) -> None:
        """Take what an update operator returned: all parameters, then all of each accumulator."""
        n = len(slots)
        targets = [slot.target for slot in slots]
        if self._skip is not None and not self._rule_skips:
            new = self._kept([*targets, *(slot.state[name] for name in names for slot in slots)], new)
        params = _cast(new[:n], [slot.param.dtype for slot in slots])
        for i, slot in enumerate(slots):
            targets[i]._assign_value(new[i])
            if slot.master is not None:
                slot.param._assign_value(params[i])
            for k, name in enumerate(names, 1):
                slot.state[name]._assign_value(new[k * n + i])

    def _kept(self, old: list[Tensor], new: list[Tensor]) -> list[Tensor]:
        """What is stored: the new values, or the old ones where the step is skipped."""
        return new if self._skip is None or self._rule_skips else updates.keep_unless(self._skip, old, new)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the optimizer: what a checkpoint needs beside the parameters.

        Returns:
            A dict of the accumulators by name, with the master weights under ``master_weights`` and the state of an
            ``LRScheduler`` under ``LR_Scheduler``, where there are any. Before the first step there are no
            accumulators.

        Examples:
            >>> w = bireme.to_tensor([1.0], stop_gradient=False)
            >>> w.name = "w"
            >>> adam = bireme.optimizer.Adam(0.1, parameters=[w])
            >>> (w * 2.0).backward()
            >>> adam.step()
            >>> list(adam.state_dict())
            ['w_moment1_0', 'w_moment2_0', 'w_beta1_pow_acc_0', 'w_beta2_pow_acc_0']
        """
        slots = [self._slots[id(p)] for p in self._parameter_list if id(p) in self._slots]
        out: dict[str, Any] = {
            slot.state[a].name: self._filed(slot, a) for a in self._accumulator_names for slot in slots
        }
        out.update({slot.state[a].name: slot.state[a] for a in self._added for slot in slots if a in slot.state})
        out.update(self._shared_state(slots))
        masters = {slot.param.name: slot.master for slot in slots if slot.master is not None}
        if masters:
            out["master_weights"] = masters
        if isinstance(self._learning_rate, LRScheduler):
            out["LR_Scheduler"] = self._learning_rate.state_dict()
        return out

    def _filed(self, slot: Slot, name: str) -> Tensor:
        """Return an accumulator in the form of a checkpoint."""
        return slot.state[name]

    def _shared_state(self, slots: list[Slot]) -> dict[str, Tensor]:
        return {}

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state of an optimizer of the same class, whose parameters had the same names.

        A parameter that ``state_dict`` says nothing about starts without state.

        Args:
            state_dict: What ``state_dict()`` returned, possibly after ``bireme.save`` and ``bireme.load``.

        Raises:
            ValueError: If shapes differ, if only part of a parameter's state is there, or if some parameters find
                nothing while ``state_dict`` holds accumulators of others, which means that the names have changed.

        Examples:
            >>> w = bireme.to_tensor([1.0], stop_gradient=False)
            >>> w.name = "w"
            >>> momentum = bireme.optimizer.Momentum(0.5, parameters=[w])
            >>> momentum.set_state_dict({"w_velocity_0": bireme.to_tensor([4.0])})
            >>> (w * 0.0).backward()
            >>> momentum.step()
            >>> round(w.item(), 4)
            -0.8
        """
        where = f"{self._where}.set_state_dict(state_dict)"
        if not isinstance(state_dict, Mapping):
            raise errors.bad(where, "a dict, as state_dict() gives it", state_dict, kind=errors.ArgumentTypeError)
        rest = dict(state_dict)
        schedule, masters = rest.pop("LR_Scheduler", None), rest.pop("master_weights", {})
        if isinstance(self._learning_rate, LRScheduler) and schedule is None:
            raise errors.bad(
                where,
                "the state of the schedule under LR_Scheduler",
                ", ".join(map(str, rest)) or "{}",
                kind=errors.ArgumentError,
            )
        # Paddle numbers the optimizers of a parameter; which one it was, and whether it had a master weight, does not
        # matter here
        found = {_NUMBERED.sub("", key): (key, value) for key, value in rest.items()}
        taken: dict[int, dict[str, Any]] = {}
        without, used = [], set()
        for p in self._parameter_list:
            keys = {name: self._key(p, name) for name in self._state_names()}
            # a program has a parameter of one name in each scope
            have = {name: found[key] for name, key in keys.items() if key in found}
            used |= {key for key in keys.values() if key in found}
            if not have:
                without.append(p.name)
                continue
            if len(have) < len(self._state_names()):
                lacking = [name for name in self._state_names() if name not in have]
                raise errors.bad(
                    where,
                    f"{', '.join(lacking)} of {p.name}",
                    described=f"only {', '.join(have)}",
                    kind=errors.ArgumentError,
                )
            taken[id(p)] = {name: self._loaded(f"{where}, {key}", v, p, name) for name, (key, v) in have.items()}
        found = {key: value for key, value in found.items() if key not in used}
        others = [
            whole
            for key, (whole, _) in found.items()
            if key.endswith(tuple(f"_{name}" for name in self._state_names()))
        ]
        if without and others:
            hint = "build the model in the same order as when it was saved, or inside bireme.utils.unique_name.guard()"
            raise errors.bad(
                where,
                f"the state of {without[0]}",
                described=f"that of {others[0]}",
                hint=hint,
                kind=errors.ArgumentError,
            )
        self._slots.clear()
        self._waiting = {key: value for key, (_, value) in found.items()}
        for p in self._parameter_list:
            if id(p) in taken or p.name in masters:
                self._restore(self._slot(p), taken.get(id(p), {}))
                if p.name in masters:
                    self._set_master(self._slot(p), _like(f"{where}, {p.name}", masters[p.name], p, dtypes.float32))
        if isinstance(self._learning_rate, LRScheduler):
            self._learning_rate.set_state_dict(schedule)

    def _state_names(self) -> tuple[str, ...]:
        return self._accumulator_names

    def _restore(self, slot: Slot, values: dict[str, Any]) -> None:
        for name, value in values.items():
            self._set_state(slot, name, value)

    def _loaded(self, where: str, value: Any, p: Tensor, name: str) -> Any:
        return _like(where, value, p, self._state_dtype(p), self._initial(p, name).shape)


def _like(where: str, value: Any, p: Tensor, dtype: Any, shape: tuple[int, ...] | None = None) -> Tensor:
    """A copy of a loaded value, of a parameter's shape unless another is given."""
    divided = isinstance(value, Tensor) and on_mesh.is_there(value)  # other processes may have parts of it
    host = value if divided else value._host() if isinstance(value, Tensor) else np.asarray(value)
    expected = p.shape if shape is None else list(shape)
    if list(host.shape) != expected:
        raise errors.bad(where, f"shape {expected}", described=f"shape {list(host.shape)}", kind=errors.ShapeError)
    if divided:
        return value.detach().clone() if value.dtype is dtype else value.detach().astype(dtype)
    return to_tensor(host, dtype=dtype, place=p.place)


def _cast(tensors: list[Tensor], kinds: list[Any]) -> list[Tensor]:
    """Each tensor in the type in its place, those of one type by one operator."""
    found, wrong = list(tensors), [i for i, (t, kind) in enumerate(zip(tensors, kinds)) if t._sig.dtype is not kind]
    for kind in dict.fromkeys([kinds[i] for i in wrong]):
        places = [i for i in wrong if kinds[i] is kind]
        for i, new in zip(places, updates.cast_all([tensors[i] for i in places], kind)):
            found[i] = new
    return found
