"""GradScaler: dynamic loss scaling, so that gradients in half precision do not underflow.

Whether a step is skipped (a gradient is not finite) is a tensor that the step itself computes: where it is true,
parameters and optimizer state stay what they were. So a step with a scaler is one program, and nothing is waited for.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

from bireme.amp.auto_cast import Entered
from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.boundary import Guarded
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.ops import to_tensor, where
from bireme.ops.optimizer.updates import unless_invalid, unscale
from bireme.optimizer import Optimizer


class GradScaler(Guarded):
    """Dynamic loss scaling, which keeps small gradients from underflowing in float16.

    ``scale`` multiplies the loss, so that all gradients are larger by the same factor; ``step`` divides them again and
    skips the update if one of them is infinite or NaN. ``update`` then lowers the scale, or raises it after
    ``incr_every_n_steps`` steps without overflow. Whether a step is skipped is decided on the device, without waiting.

    If ``auto_cast`` was entered with bfloat16, which needs no scaling, the scaler turns itself off with a warning.

    Args:
        enable: Whether to scale at all. Default: True.
        init_loss_scaling: The initial scale. Default: 65536.0.
        incr_ratio: Factor by which the scale is raised, above 1. Default: 2.0.
        decr_ratio: Factor by which the scale is lowered, between 0 and 1. Default: 0.5.
        incr_every_n_steps: Number of consecutive steps without overflow after which the scale is raised. Default: 2000.
        decr_every_n_nan_or_inf: Number of consecutive steps with overflow after which the scale is lowered. Default: 1.
        use_dynamic_loss_scaling: Adapt the scale; if False, it stays what it is. Default: True.

    Examples:
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
        """Multiply a loss by the scale.

        Args:
            var: The loss, or a list or tuple of losses.

        Returns:
            The scaled loss or losses; ``var`` itself if the scaler is disabled.
        """
        if self._use_dynamic_loss_scaling and Entered.dtype is dtypes.bfloat16 and Entered.count > self._born:
            # bfloat16 has the range of float32: nothing underflows
            self._enable = self._use_dynamic_loss_scaling = False
            self.set_init_loss_scaling(1.0)
            errors.warn("GradScaler: auto_cast computes in bfloat16, which needs no scaling; it is switched off")
        if not self._enable:
            return var
        if isinstance(var, (list, tuple)):
            return type(var)([self.scale(v) for v in var])
        if not isinstance(var, Tensor):
            raise errors.bad("GradScaler.scale(var)", "a Tensor", var, kind=errors.ArgumentTypeError)
        return var * self._scale.astype(var.dtype).reshape([])

    @no_grad()
    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of an optimizer by the scale, in place.

        Call it between ``backward()`` and ``step()`` to clip or read the true gradients; otherwise ``step()`` does it.

        Args:
            optimizer: The optimizer whose parameters have the gradients.

        Raises:
            RuntimeError: If it is called twice before ``update()``.
        """
        if not self._enable:
            return
        if id(optimizer) in self._found:
            raise errors.bad(
                "GradScaler.unscale_()",
                "one call for each step of an optimizer",
                described="a second call",
                kind=RuntimeError,
            )
        grads = [p.grad for p in optimizer._parameter_list if p.grad is not None and not p.stop_gradient]
        if not grads:
            self._found[id(optimizer)] = to_tensor(False)
            return
        *unscaled, found = unscale(grads, self._scale)
        for g, value in zip(grads, unscaled):
            g._assign_value(value)
        # gradients of a call with an index out of range say nothing about the scale
        (self._found[id(optimizer)],) = unless_invalid([to_tensor(False)], [found])

    def step(self, optimizer: Optimizer) -> None:
        """Unscale the gradients and call ``optimizer.step()``, which changes nothing if a gradient is not finite.

        Args:
            optimizer: The optimizer.

        Raises:
            RuntimeError: If it is called twice for an optimizer before ``update()``.
        """
        if not hasattr(optimizer, "step"):
            raise errors.bad("GradScaler.step(optimizer)", "an optimizer", optimizer, kind=errors.MissingAttributeError)
        if not self._enable:
            optimizer.step()
            return
        if id(optimizer) in self._stepped:
            raise errors.bad(
                "GradScaler.step()", "update() between two steps", described="a second step", kind=RuntimeError
            )
        if id(optimizer) not in self._found:
            self.unscale_(optimizer)
        optimizer._step(skip=self._found[id(optimizer)])
        self._stepped.add(id(optimizer))
        if not self._use_dynamic_loss_scaling:
            self.update()

    @no_grad()
    def update(self) -> None:
        """Adapt the scale to the steps since the last call."""
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

    def minimize(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """Call ``step`` and ``update``.

        Args:
            optimizer: The optimizer.
            *args: Arguments of ``optimizer.minimize``, used only if the scaler is disabled.
            **kwargs: Keyword arguments of ``optimizer.minimize``, used only if the scaler is disabled.

        Returns:
            A tuple of an empty list and the list of ``(parameter, gradient)`` pairs.
        """
        if not self._enable:
            return optimizer.minimize(*args, **kwargs)
        self.step(optimizer)
        self.update()
        return [], [(p, p.grad) for p in optimizer._parameter_list if p.grad is not None]

    # ------------------------------------------------------------ settings

    def is_enable(self) -> bool:
        """Return whether the scaler is enabled."""
        return self._enable

    def is_use_dynamic_loss_scaling(self) -> bool:
        """Return whether the scale is adapted."""
        return self._use_dynamic_loss_scaling

    def get_init_loss_scaling(self) -> float:
        """Return the initial scale; 1.0 for a disabled scaler, until another is set."""
        return self._init_loss_scaling

    def set_init_loss_scaling(self, new_init_loss_scaling: float) -> None:
        """Set the initial scale, which also becomes the current one.

        Args:
            new_init_loss_scaling: The scale, above 0.
        """
        self._init_loss_scaling = _positive(new_init_loss_scaling, "init_loss_scaling")
        self._scale = to_tensor([self._init_loss_scaling], "float32")

    def get_incr_ratio(self) -> float:
        """Return the factor by which the scale is raised."""
        return self._incr_ratio

    def set_incr_ratio(self, new_incr_ratio: float) -> None:
        """Set the factor by which the scale is raised.

        Args:
            new_incr_ratio: The factor, above 1.
        """
        if not new_incr_ratio > 1.0:
            raise errors.bad(
                "GradScaler(incr_ratio)",
                "a number greater than 1",
                new_incr_ratio,
                kind=errors.for_number(new_incr_ratio),
            )
        self._incr_ratio = float(new_incr_ratio)

    def get_decr_ratio(self) -> float:
        """Return the factor by which the scale is lowered."""
        return self._decr_ratio

    def set_decr_ratio(self, new_decr_ratio: float) -> None:
        """Set the factor by which the scale is lowered.

        Args:
            new_decr_ratio: The factor, between 0 and 1.
        """
        if not 0.0 < new_decr_ratio < 1.0:
            raise errors.bad(
                "GradScaler(decr_ratio)", "a number in (0, 1)", new_decr_ratio, kind=errors.for_number(new_decr_ratio)
            )
        self._decr_ratio = float(new_decr_ratio)

    def get_incr_every_n_steps(self) -> int:
        """Return the number of consecutive steps without overflow after which the scale is raised."""
        return self._incr_every_n_steps

    def set_incr_every_n_steps(self, new_incr_every_n_steps: int) -> None:
        """Set the number of consecutive steps without overflow after which the scale is raised.

        Args:
            new_incr_every_n_steps: The number of steps, above 0.
        """
        self._incr_every_n_steps = int(_positive(new_incr_every_n_steps, "incr_every_n_steps"))

    def get_decr_every_n_nan_or_inf(self) -> int:
        """Return the number of consecutive steps with overflow after which the scale is lowered."""
        return self._decr_every_n_nan_or_inf

    def set_decr_every_n_nan_or_inf(self, new_decr_every_n_nan_or_inf: int) -> None:
        """Set the number of consecutive steps with overflow after which the scale is lowered.

        Args:
            new_decr_every_n_nan_or_inf: The number of steps, above 0.
        """
        self._decr_every_n_nan_or_inf = int(_positive(new_decr_every_n_nan_or_inf, "decr_every_n_nan_or_inf"))

    def state_dict(self) -> dict[str, Any]:
        """Return the scale, the settings and the counters: what a checkpoint needs.

        Returns:
            A dict; empty if the scaler is disabled.
        """
        if not self._enable:
            return {}
        return {
            "scale": self._scale.numpy(), "incr_ratio": self._incr_ratio, "decr_ratio": self._decr_ratio,
            "incr_every_n_steps": self._incr_every_n_steps, "decr_every_n_nan_or_inf": self._decr_every_n_nan_or_inf,
            "incr_count": self._good.item(), "decr_count": self._bad.item(),
            "use_dynamic_loss_scaling": self._use_dynamic_loss_scaling,
        }  # fmt: skip

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state of another scaler.

        Args:
            state_dict: What ``state_dict()`` returned. Ignored if the scaler is disabled.

        Raises:
            RuntimeError: If it is the empty state of a disabled scaler.
        """
        if not self._enable:
            return
        if not state_dict:
            raise errors.bad(
                "GradScaler.load_state_dict(state_dict)",
                "the state of an enabled scaler",
                described="nothing",
                kind=RuntimeError,
            )
        if "scale" not in state_dict:
            raise errors.bad(
                "GradScaler.load_state_dict(state_dict)", "what state_dict() gave", described=f"keys {list(state_dict)}"
            )
        self._scale = to_tensor(state_dict["scale"], "float32").reshape([1])
        self._init_loss_scaling = float(self._scale.item())
        self._incr_ratio, self._decr_ratio = state_dict["incr_ratio"], state_dict["decr_ratio"]
        self._incr_every_n_steps = state_dict["incr_every_n_steps"]
        self._decr_every_n_nan_or_inf = state_dict["decr_every_n_nan_or_inf"]
        self._good = to_tensor(state_dict["incr_count"], "int32")
        self._bad = to_tensor(state_dict["decr_count"], "int32")
        self._use_dynamic_loss_scaling = state_dict["use_dynamic_loss_scaling"]

    set_state_dict = load_state_dict


class AmpScaler(GradScaler):
    """``GradScaler`` under its older name, with its older defaults.

    Args:
        enable: Whether to scale at all. Default: True.
        init_loss_scaling: The initial scale. Default: 32768.0.
        incr_ratio: Factor by which the scale is raised, above 1. Default: 2.0.
        decr_ratio: Factor by which the scale is lowered, between 0 and 1. Default: 0.5.
        incr_every_n_steps: Number of consecutive steps without overflow after which the scale is raised. Default: 1000.
        decr_every_n_nan_or_inf: Number of consecutive steps with overflow after which the scale is lowered. Default: 1.
        use_dynamic_loss_scaling: Adapt the scale; if False, it stays what it is. Default: True.

    Examples:
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
        super().__init__(
            enable,
            init_loss_scaling,
            incr_ratio,
            decr_ratio,
            incr_every_n_steps,
            decr_every_n_nan_or_inf,
            use_dynamic_loss_scaling,
        )


def _positive(x: Any, name: str) -> float:
    if isinstance(x, bool) or not isinstance(x, Real) or not float(x) > 0:
        raise errors.bad(f"GradScaler({name})", "a positive number", x, kind=errors.for_number(x))
    return float(x)
