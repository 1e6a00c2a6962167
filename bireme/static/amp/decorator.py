"""Optimizers that train programs in mixed precision."""

from __future__ import annotations

from typing import Any

from bireme.amp import GradScaler
from bireme.core.base import errors
from bireme.core.base.boundary import Guarded, guard_functions
from bireme.core.program import building, gradients
from bireme.core.program.program import Program
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.ops import unscale
from bireme.optimizer import Optimizer
from bireme.static.amp.fp16_lists import AutoMixedPrecisionLists
from bireme.static.amp.fp16_utils import cast_model_to_fp16, cast_parameters_to_fp16, set_precision

LEVELS = ("O0", "OD", "O1", "O2")


class OptimizerWithMixedPrecision(Guarded):
    """An optimizer that trains a program in mixed precision, with a scaled loss; ``decorate`` makes it.

    Args:
        optimizer: The optimizer that changes the parameters.
        amp_lists: Lists of operators.
        level: ``"O0"``, ``"OD"``, ``"O1"`` or ``"O2"``.
        dtype: ``"float16"`` or ``"bfloat16"``.
        init_loss_scaling: The factor of the loss at the start.
        use_dynamic_loss_scaling: Change it after steps with and without overflow.
        incr_every_n_steps: Steps without overflow after which it is raised.
        decr_every_n_nan_or_inf: Steps with overflow after which it is lowered.
        incr_ratio: Factor by which it is raised.
        decr_ratio: Factor by which it is lowered.
        use_amp_guard: Only what was built inside ``fp16_guard`` computes in half precision. Default: None, everything.
        use_master_grad: Has no effect: gradients are those of parameters in float32. Default: False.
        use_promote: Let operators compute in float32 where an operand has it. Default: False.

    Examples:
        >>> bireme.enable_static()
        >>> optimizer = bireme.static.amp.decorate(bireme.optimizer.SGD(0.1), level="O1", dtype="bfloat16")
        >>> isinstance(optimizer, bireme.static.amp.decorator.OptimizerWithMixedPrecision)
        True
        >>> bireme.disable_static()
    """

    def __init__(
        self,
        optimizer: Optimizer,
        amp_lists: AutoMixedPrecisionLists,
        level: str,
        dtype: str,
        init_loss_scaling: float,
        use_dynamic_loss_scaling: bool,
        incr_every_n_steps: int,
        decr_every_n_nan_or_inf: int,
        incr_ratio: float,
        decr_ratio: float,
        use_amp_guard: bool | None = None,
        use_master_grad: bool = False,
        use_promote: bool = False,
    ):
        self._optimizer, self._amp_lists, self._amp_level = optimizer, amp_lists, level
        self._amp_dtype, self._use_amp_guard, self._use_promote = dtype, bool(use_amp_guard), use_promote
        scales = dtype == "float16" or use_dynamic_loss_scaling
        with building.suspended():
            self._scaler = GradScaler(
                scales and level != "O0", init_loss_scaling, incr_ratio, decr_ratio, incr_every_n_steps,
                decr_every_n_nan_or_inf, use_dynamic_loss_scaling,
            )  # fmt: skip
        self._half: set[str] = set()
        self._program: Program | None = None
        self._scaled_loss: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_optimizer"], name)

    def get_loss_scaling(self) -> Tensor:
        """Return the factor of the loss, which can be fetched.

        Returns:
            Tensor of one float32.

        Examples:
            >>> bireme.enable_static()
            >>> bireme.static.amp.decorate(bireme.optimizer.SGD(0.1), init_loss_scaling=128.0).get_loss_scaling().item()
            128.0
            >>> bireme.disable_static()
        """
        return self._scaler._scale

    def get_scaled_loss(self) -> Tensor | None:
        """Return the scaled loss.

        Returns:
            A variable; None before ``backward``.

        Examples:
            >>> bireme.enable_static()
            >>> bireme.static.amp.decorate(bireme.optimizer.SGD(0.1)).get_scaled_loss() is None
            True
            >>> bireme.disable_static()
        """
        return self._scaled_loss

    def backward(
        self,
        loss: Tensor,
        startup_program: Any = None,
        parameter_list: Any = None,
        no_grad_set: Any = None,
        callbacks: Any = None,
    ) -> list[tuple[Tensor, Tensor]]:
        """Let the program compute in mixed precision, and add the gradients of the scaled loss to it.

        Args:
            loss: Variable of one element.
            startup_program: Has no effect.
            parameter_list: Parameters, or their names. Default: None, all trainable ones that the loss depends on.
            no_grad_set: Parameters, or their names, that get none. Default: None.
            callbacks: Has no effect.

        Returns:
            A list of pairs of a parameter and the variable of its gradient, which is scaled.

        Examples:
            >>> bireme.enable_static()
            >>> with bireme.static.program_guard(bireme.static.Program(), bireme.static.Program()):
            ...     loss = bireme.static.nn.fc(bireme.static.data("x", [None, 2]), 1).mean()
            ...     len(bireme.static.amp.decorate(bireme.optimizer.SGD(0.1)).backward(loss))
            2
            >>> bireme.disable_static()
        """
        builder = building.current()
        if builder is None:
            raise errors.failure("backward() adds to a program, in static mode", hint="use amp.GradScaler on tensors")
        self._program = builder.program
        if self._amp_level == "O2":
            kind = self._amp_dtype
            self._half = cast_model_to_fp16(
                self._program, self._amp_lists, self._use_amp_guard, kind, "O2", self._use_promote
            )
        elif self._amp_level != "O0":
            set_precision(self._program, self._amp_lists, self._amp_level, self._use_amp_guard)
        self._scaled_loss = self._scaler.scale(loss.astype("float32"))
        return self._optimizer.backward(self._scaled_loss, startup_program, parameter_list, no_grad_set)

    def apply_gradients(self, params_grads: Any) -> list:
        """Add the update of parameters to the program: gradients are unscaled, and a step with overflow changes nothing.

        Args:
            params_grads: What ``backward`` returned.

        Returns:
            An empty list.

        Examples:
            >>> callable(bireme.static.amp.decorator.OptimizerWithMixedPrecision.apply_gradients)
            True
        """
        builder = building.current()
        assert builder is not None
        optimizer, scaler = self._optimizer, self._scaler
        pairs = [(p, g) for p, g in params_grads if g is not None]
        optimizer._take_in([p for p, _ in pairs])

        def update(params: list[Tensor], grads: list[Tensor]) -> None:
            optimizer._take_in(params)
            with no_grad():
                found = None
                given = [g.detach() for g in grads if g is not None]
                if scaler.is_enable() and given:
                    *given, found = unscale(given, scaler._scale)
                    scaler._found[id(optimizer)] = found
                held = [p for p, g in zip(params, grads, strict=True) if g is not None]
                optimizer._apply(list(zip(held, given, strict=True)), found)
                scaler.update()

        update.optimizer = optimizer  # type: ignore[attr-defined]  # its state is saved with the program
        gradients.update(builder, update, optimizer._type, [p for p, _ in pairs], [g for _, g in pairs])
        return []

    def apply_optimize(self, loss: Tensor, startup_program: Any, params_grads: Any) -> list:
        """Add the update of parameters to the program.

        Args:
            loss: Has no effect.
            startup_program: Has no effect.
            params_grads: What ``backward`` returned.

        Returns:
            An empty list.

        Examples:
            >>> callable(bireme.static.amp.decorator.OptimizerWithMixedPrecision.apply_optimize)
            True
        """
        return self.apply_gradients(params_grads)

    def minimize(
        self, loss: Tensor, startup_program: Any = None, parameter_list: Any = None, no_grad_set: Any = None
    ) -> tuple[list, list[tuple[Tensor, Tensor]]]:
        """Add gradients and the update of parameters to the program.

        Args:
            loss: Variable of one element.
            startup_program: Has no effect.
            parameter_list: Parameters, or their names. Default: None, all trainable ones that the loss depends on.
            no_grad_set: Parameters, or their names, that stay as they are. Default: None.

        Returns:
            A tuple of an empty list and the pairs of a parameter and the variable of its gradient, which is scaled.

        Examples:
            >>> bireme.enable_static()
            >>> with bireme.static.program_guard(bireme.static.Program(), bireme.static.Program()):
            ...     loss = bireme.static.nn.fc(bireme.static.data("x", [None, 2]), 1).mean()
            ...     _, pairs = bireme.static.amp.decorate(bireme.optimizer.SGD(0.1)).minimize(loss)
            >>> len(pairs)
            2
            >>> bireme.disable_static()
        """
        pairs = self.backward(loss, startup_program, parameter_list, no_grad_set)
        return self.apply_gradients(pairs), pairs

    def amp_init(
        self,
        place: Any,
        scope: Any = None,
        test_program: Program | None = None,
        use_fp16_test: bool = False,
        rewrite_master_weight: bool = False,
    ) -> None:
        """Cast parameters to half precision at level O2; to be called after the startup program has run.

        Args:
            place: Has no effect.
            scope: Scope whose parameters are cast. Default: None, the present one.
            test_program: Program that is to compute in half precision too. Default: None.
            use_fp16_test: Let it do so at the other levels as well. Default: False.
            rewrite_master_weight: Has no effect: copies in float32 are made from the parameters at the first step.

        Examples:
            >>> bireme.enable_static()
            >>> bireme.static.amp.decorate(bireme.optimizer.SGD(0.1)).amp_init(bireme.CPUPlace())
            >>> bireme.disable_static()
        """
        if self._amp_level == "O2" and self._program is not None:
            cast_parameters_to_fp16(place, self._program, scope, self._half, self._amp_dtype, rewrite_master_weight)
        if test_program is not None and (use_fp16_test or self._amp_level == "O2") and self._amp_level != "O0":
            set_precision(
                test_program, self._amp_lists, self._amp_level, self._use_amp_guard,
                self._use_promote or self._amp_level != "O2",
            )  # fmt: skip


def decorate(
    optimizer: Optimizer,
    amp_lists: AutoMixedPrecisionLists | None = None,
    level: str = "O1",
    dtype: str = "float16",
    master_weight: bool | None = None,
    master_grad: bool = False,
    init_loss_scaling: float = 2.0**16,
    incr_every_n_steps: int = 2000,
    decr_every_n_nan_or_inf: int = 1,
    incr_ratio: float = 2.0,
    decr_ratio: float = 0.5,
    use_dynamic_loss_scaling: bool | None = None,
    use_amp_guard: bool = False,
    use_promote: bool = False,
    use_pure_fp16: bool = False,
    use_fp16_guard: bool | None = None,
    use_bf16: bool = False,
) -> OptimizerWithMixedPrecision:
    """Let an optimizer train programs in mixed precision.

    Args:
        optimizer: The optimizer.
        amp_lists: Lists of operators. Default: None, the usual ones.
        level: ``"O0"`` for float32; ``"O1"`` for half precision where it pays; ``"O2"`` for half precision nearly
            everywhere, parameters included; ``"OD"`` for the white list alone. Default: ``"O1"``.
        dtype: ``"float16"`` or ``"bfloat16"``. Default: ``"float16"``.
        master_weight: At level O2, keep copies of the parameters in float32. Default: None, they are kept.
        master_grad: Has no effect. Default: False.
        init_loss_scaling: The factor of the loss at the start. Default: 65536.0.
        incr_every_n_steps: Steps without overflow after which it is raised. Default: 2000.
        decr_every_n_nan_or_inf: Steps with overflow after which it is lowered. Default: 1.
        incr_ratio: Factor by which it is raised. Default: 2.0.
        decr_ratio: Factor by which it is lowered. Default: 0.5.
        use_dynamic_loss_scaling: Change the factor. Default: None, for float16 only.
        use_amp_guard: Only what was built inside ``fp16_guard`` computes in half precision. Default: False.
        use_promote: At level O2, let operators compute in float32 where an operand has it. Default: False.
        use_pure_fp16: An older word for level O2. Default: False.
        use_fp16_guard: An older word for ``use_amp_guard``. Default: None.
        use_bf16: An older word for bfloat16. Default: False.

    Returns:
        An optimizer whose ``minimize`` changes the program.

    Raises:
        ValueError: If ``level`` or ``dtype`` is not as it should be.

    Examples:
        >>> import numpy as np
        >>> bireme.enable_static()
        >>> main, startup = bireme.static.Program(), bireme.static.Program()
        >>> with bireme.static.program_guard(main, startup):
        ...     x = bireme.static.data("x", [None, 2])
        ...     w = bireme.nn.initializer.Constant(1.0)
        ...     loss = bireme.static.nn.fc(x, 1, weight_attr=w, bias_attr=False).mean()
        ...     _ = bireme.static.amp.decorate(bireme.optimizer.SGD(0.5), init_loss_scaling=128.0).minimize(loss)
        >>> exe = bireme.static.Executor()
        >>> _ = exe.run(startup)
        >>> [exe.run(main, feed={"x": np.ones([1, 2], "float32")}, fetch_list=[loss])[0].item() for _ in range(2)]
        [2.0, 1.0]
        >>> bireme.disable_static()
    """
    if not isinstance(level, str) or level.upper() not in LEVELS:
        hint = None if isinstance(level, str) else "pass init_loss_scaling and what follows it by name"
        raise errors.bad("decorate(level)", "'O0', 'OD', 'O1' or 'O2'", level, hint=hint)
    chosen = "O2" if use_pure_fp16 else level.upper()
    if use_bf16:
        dtype = "bfloat16"
    if dtype not in ("float16", "bfloat16"):
        raise errors.bad("decorate(dtype)", "'float16' or 'bfloat16'", dtype)
    lists = AutoMixedPrecisionLists(dtype=dtype) if amp_lists is None else amp_lists
    lists.amp_dtype = dtype
    if hasattr(optimizer, "_multi_precision"):
        optimizer._multi_precision = chosen == "O2" and master_weight is not False
    dynamic = dtype == "float16" if use_dynamic_loss_scaling is None else use_dynamic_loss_scaling
    return OptimizerWithMixedPrecision(
        optimizer, lists, chosen, dtype, init_loss_scaling, dynamic, incr_every_n_steps, decr_every_n_nan_or_inf,
        incr_ratio, decr_ratio, use_amp_guard or use_fp16_guard, master_grad, use_promote,
    )  # fmt: skip


guard_functions(globals())
