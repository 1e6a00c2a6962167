"""GradScaler: the loss is scaled so that gradients in half precision do not vanish. Nothing is read from the device.

Whether a step has to be left out (a gradient that is not finite) is a tensor that the step itself computes: where it
is true, parameters and optimizer state stay what they were, and the scale falls. So a step with a scaler is one program.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

from bireme.amp.auto_cast import Entered
from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.ops import to_tensor, where
from bireme.ops.optimizer.updates import unscale


class GradScaler:
    """Scales the loss, unscales the gradients, and adapts the scale: it grows after a while without overflow, and falls after one.

    >>> w = bireme.to_tensor([1.0], stop_gradient=False)
    >>> opt = bireme.optimizer.SGD(0.5, parameters=[w])
    >>> scaler = bireme.amp.GradScaler(init_loss_scaling=1024.0)
    >>> scaler.scale((w * 3.0).sum()).backward()
    >>> scaler.step(opt)
    >>> scaler.update()
    >>> w.tolist()
    [-0.5]
    """

    def __init__(
        self,
        enable: bool = True,
        init_loss_scaling: float = 65536.0,
        incr_ratio: float = 2.0,
        decr_ratio: float = 0.5,
        incr_every_n_steps: int = 2000,
        decr_every_n_nan_or_inf: int = 1,
        use_dynamic_loss_scaling: bool = True,
    ):
        self._enable = bool(enable)
        self._use_dynamic_loss_scaling = bool(use_dynamic_loss_scaling) and self._enable
        self.set_incr_ratio(incr_ratio)
        self.set_decr_ratio(decr_ratio)
        self.set_incr_every_n_steps(incr_every_n_steps)
        self.set_decr_every_n_nan_or_inf(decr_every_n_nan_or_inf)
        self._good, self._bad = to_tensor(0, "int32"), to_tensor(0, "int32")
        self.set_init_loss_scaling(init_loss_scaling if self._enable else 1.0)
        self._found: dict[int, Tensor] = {}  # by optimizer: whether a gradient was not finite
        self._stepped: set[int] = set()
        self._born = Entered.count

    # ------------------------------------------------------------ a step

    def scale(self, var: Any) -> Any:
        """The loss, or several, times the scale; where `auto_cast` turned to bfloat16 since it was made, it ends scaling, with a warning."""
        if self._use_dynamic_loss_scaling and Entered.dtype is dtypes.bfloat16 and Entered.count > self._born:
            # gradients have the range of float32 there: nothing vanishes
            self._enable = self._use_dynamic_loss_scaling = False
            self.set_init_loss_scaling(1.0)
            errors.warn("GradScaler: auto_cast computes in bfloat16, which needs no scaling; it is switched off")
        if not self._enable:
            return var
        if isinstance(var, (list, tuple)):
            return type(var)([self.scale(v) for v in var])
        if not isinstance(var, Tensor):
            raise errors.bad("GradScaler.scale(var)", "a Tensor", var, kind=errors.Alien)
        return var * self._scale.astype(var.dtype).reshape([])

    @no_grad()
    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients by the scale now, for instance to clip them; `step` would do it otherwise."""
        if not self._enable:
            return
        if id(optimizer) in self._found:
            raise errors.bad("GradScaler.unscale_()", "one call for each step of an optimizer", "a second one", kind=RuntimeError)
        params = [p for p in optimizer._parameter_list if p.grad is not None and not p.stop_gradient]
        if not params:
            self._found[id(optimizer)] = to_tensor(False)
            return
        *grads, found = unscale([p.grad for p in params], self._scale)
        for p, g in zip(params, grads):
            p.grad._assign_value(g)
        self._found[id(optimizer)] = found

    def step(self, optimizer: Any) -> None:
        """`optimizer.step()`, which changes nothing if a gradient is not finite."""
        if not hasattr(optimizer, "step"):
            raise errors.bad("GradScaler.step(optimizer)", "an optimizer", optimizer, kind=errors.NotTensor)
        if not self._enable:
            optimizer.step()
            return
        if id(optimizer) in self._stepped:
            raise errors.bad("GradScaler.step()", "update() between two steps", "a second step", kind=RuntimeError)
        if id(optimizer) not in self._found:
            self.unscale_(optimizer)
        optimizer._step(skip=self._found[id(optimizer)])
        self._stepped.add(id(optimizer))
        if not self._use_dynamic_loss_scaling:
            self.update()

    @no_grad()
    def update(self) -> None:
        """Adapt the scale to what the steps since the last update met."""
        found, self._found, self._stepped = list(self._found.values()), {}, set()
        if not (self._enable and self._use_dynamic_loss_scaling and found):
            return
        bad = found[0]
        for f in found[1:]:
            bad = bad | f
        zero = self._good * 0
        good, count = where(bad, zero, self._good + 1), where(bad, self._bad + 1, zero)
        falls, grows = count >= self._decr_every_n_nan_or_inf, good >= self._incr_every_n_steps
        lower, higher = (self._scale * self._decr_ratio).clip(min=1.0), self._scale * self._incr_ratio
        higher = where(higher.isfinite(), higher, self._scale)
        self._scale._assign_value(where(falls, lower, where(grows, higher, self._scale)))
        self._good._assign_value(where(grows, zero, good))
        self._bad._assign_value(where(falls, zero, count))

    def minimize(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`step` and `update`; takes what `optimizer.minimize` takes."""
        if not self._enable:
            return optimizer.minimize(*args, **kwargs)
        self.step(optimizer)
        self.update()
        return [], [(p, p.grad) for p in optimizer._parameter_list if p.grad is not None]

    # ------------------------------------------------------------ settings

    def is_enable(self) -> bool:
        """Whether it scales at all."""
        return self._enable

    def is_use_dynamic_loss_scaling(self) -> bool:
        """Whether the scale adapts."""
        return self._use_dynamic_loss_scaling

    def get_init_loss_scaling(self) -> float:
        """The scale to begin with; 1 for one that does not scale, until another is set."""
        return self._init_loss_scaling

    def set_init_loss_scaling(self, new_init_loss_scaling: float) -> None:
        """Start again at another scale."""
        self._init_loss_scaling = _positive(new_init_loss_scaling, "init_loss_scaling")
        self._scale = to_tensor([self._init_loss_scaling], "float32")

    def get_incr_ratio(self) -> float:
        """By how much the scale grows."""
        return self._incr_ratio

    def set_incr_ratio(self, new_incr_ratio: float) -> None:
        """Set by how much the scale grows: more than 1."""
        if not new_incr_ratio > 1.0:
            raise errors.bad("GradScaler(incr_ratio)", "a number over 1", new_incr_ratio, kind=errors.Unfit)
        self._incr_ratio = float(new_incr_ratio)

    def get_decr_ratio(self) -> float:
        """By how much the scale falls."""
        return self._decr_ratio

    def set_decr_ratio(self, new_decr_ratio: float) -> None:
        """Set by how much the scale falls: less than 1."""
        if not 0.0 < new_decr_ratio < 1.0:
            raise errors.bad("GradScaler(decr_ratio)", "a number between 0 and 1", new_decr_ratio, kind=errors.Unfit)
        self._decr_ratio = float(new_decr_ratio)

    def get_incr_every_n_steps(self) -> int:
        """After how many good steps the scale grows."""
        return self._incr_every_n_steps

    def set_incr_every_n_steps(self, new_incr_every_n_steps: int) -> None:
        """Set after how many good steps the scale grows."""
        self._incr_every_n_steps = int(_positive(new_incr_every_n_steps, "incr_every_n_steps"))

    def get_decr_every_n_nan_or_inf(self) -> int:
        """After how many bad steps in a row the scale falls."""
        return self._decr_every_n_nan_or_inf

    def set_decr_every_n_nan_or_inf(self, new_decr_every_n_nan_or_inf: int) -> None:
        """Set after how many bad steps in a row the scale falls."""
        self._decr_every_n_nan_or_inf = int(_positive(new_decr_every_n_nan_or_inf, "decr_every_n_nan_or_inf"))

    def state_dict(self) -> dict[str, Any]:
        """Scale, settings and counters: what a checkpoint needs; empty if it does not scale."""
        if not self._enable:
            return {}
        return {
            "scale": self._scale.numpy(), "incr_ratio": self._incr_ratio, "decr_ratio": self._decr_ratio,
            "incr_every_n_steps": self._incr_every_n_steps, "decr_every_n_nan_or_inf": self._decr_every_n_nan_or_inf,
            "incr_count": self._good.item(), "decr_count": self._bad.item(),
            "use_dynamic_loss_scaling": self._use_dynamic_loss_scaling,
        }  # fmt: skip

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        if not self._enable:
            return
        if not state_dict:
            raise errors.bad("GradScaler.load_state_dict(state_dict)", "the state of an enabled scaler", "nothing", kind=RuntimeError)
        if "scale" not in state_dict:
            raise errors.bad("GradScaler.load_state_dict(state_dict)", "what state_dict() gave", f"keys {list(state_dict)}")
        self._scale = to_tensor(state_dict["scale"], "float32").reshape([1])
        self._init_loss_scaling = float(self._scale.item())
        self._incr_ratio, self._decr_ratio = state_dict["incr_ratio"], state_dict["decr_ratio"]
        self._incr_every_n_steps = state_dict["incr_every_n_steps"]
        self._decr_every_n_nan_or_inf = state_dict["decr_every_n_nan_or_inf"]
        self._good, self._bad = to_tensor(state_dict["incr_count"], "int32"), to_tensor(state_dict["decr_count"], "int32")
        self._use_dynamic_loss_scaling = state_dict["use_dynamic_loss_scaling"]

    set_state_dict = load_state_dict


class AmpScaler(GradScaler):
    """GradScaler under the older name and with its defaults.

    >>> bireme.amp.AmpScaler().get_init_loss_scaling()
    32768.0
    """

    def __init__(
        self,
        enable: bool = True,
        init_loss_scaling: float = 32768.0,
        incr_ratio: float = 2.0,
        decr_ratio: float = 0.5,
        incr_every_n_steps: int = 1000,
        decr_every_n_nan_or_inf: int = 1,
        use_dynamic_loss_scaling: bool = True,
    ):
        super().__init__(enable, init_loss_scaling, incr_ratio, decr_ratio, incr_every_n_steps, decr_every_n_nan_or_inf, use_dynamic_loss_scaling)


def _positive(x: Any, name: str) -> float:
    if isinstance(x, bool) or not isinstance(x, Real) or not x > 0:
        raise errors.bad(f"GradScaler({name})", "a number over 0", x)
    return float(x)
