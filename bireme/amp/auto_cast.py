"""`auto_cast` and `decorate`: which operators, and which parameters, are in half precision."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bireme.core.base import device as devices
from bireme.core.base import dtype as dtypes
from bireme.core.base import errors, registry
from bireme.core.base.boundary import guard_functions
from bireme.core.base.device import Place
from bireme.core.declare import precision
from bireme.core.tensor.tensor import Tensor
from bireme.nn.layer import Layer
from bireme.optimizer import Optimizer

LEVELS = ("O0", "OD", "O1", "O2")


class Entered:
    """How many ``auto_cast`` contexts were entered, and the dtype of the last; ``GradScaler`` reads it."""

    count = 0
    dtype: Any = None


class auto_cast:
    """Context manager and decorator for automatic mixed precision: operators that gain from it use half precision.

    What an operator computes in depends on ``level``:

    - ``"O1"``: operators of the white list (products, convolutions) compute in half precision, those of the black list
      (sums of many terms, exponentials, norms, losses) in float32, all others in the dtype of their operands.
    - ``"O2"``, for models that ``decorate`` has cast: as O1, but with a black list of only a few operators.
    - ``"OD"``: operators of the white list compute in half precision, all others in float32.
    - ``"O0"``: mixed precision is off.

    With float16, scale the loss by ``GradScaler``; bfloat16 needs no scaling.

    Args:
        enable: Whether mixed precision is on inside. Default: True.
        custom_white_list: Names of more operators that compute in half precision. Default: None.
        custom_black_list: Names of more operators that compute in float32. Default: None.
        level: ``"O0"``, ``"OD"``, ``"O1"`` or ``"O2"``. Default: ``"O1"``.
        dtype: ``"float16"`` or ``"bfloat16"``. Default: ``"float16"``.
        use_promote: At O2, operators of neither list compute in the dtype of their operands, float32 if one of them is
            float32; if False, in half precision. Default: True.

    Examples:
        >>> x = bireme.ones([2, 3])
        >>> with bireme.amp.auto_cast(dtype="bfloat16"):
        ...     y = bireme.matmul(x, x, transpose_y=True)
        >>> y.dtype.name, bireme.matmul(x, x, transpose_y=True).dtype.name
        ('bfloat16', 'float32')
    """

    def __init__(
        self,
        enable: bool = True,
        custom_white_list: Iterable[str] | None = None,
        custom_black_list: Iterable[str] | None = None,
        level: str = "O1",
        dtype: str = "float16",
        use_promote: bool = True,
    ):
        if level not in LEVELS:
            raise errors.bad("auto_cast(level)", "'O0', 'OD', 'O1' or 'O2'", level)
        kind = dtypes.of(dtype, "auto_cast(dtype)")
        if kind not in precision.HALF:
            raise errors.bad("auto_cast(dtype)", "'float16' or 'bfloat16'", described=kind.name)
        low, high = _names(custom_white_list, "custom_white_list"), _names(custom_black_list, "custom_black_list")
        if low & high:
            raise errors.bad(
                "auto_cast(custom_white_list)",
                "operators that custom_black_list does not name",
                described=", ".join(sorted(low & high)),
            )
        on = enable and level != "O0"
        self._kind = kind
        self._context = precision.using(precision.policy(kind, level, low, high, bool(use_promote)) if on else None)

    def __enter__(self) -> None:
        Entered.count, Entered.dtype = Entered.count + 1, self._kind
        self._context.__enter__()

    def __exit__(self, *exc: Any) -> None:
        self._context.__exit__(*exc)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate a function, which then runs inside the context."""

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return call


amp_guard = auto_cast


def _names(given: Any, name: str) -> frozenset[str]:
    if given is None:
        return frozenset()
    if isinstance(given, str) or not all(isinstance(n, str) for n in given):
        raise errors.bad(f"auto_cast({name})", "a list of operators' names", given, kind=errors.ArgumentTypeError)
    return frozenset(own for n in given for own in registry.known_as(n))


# ---------------------------------------------------------------- whole models


# layers that keep float32: those with running statistics, and more of them in float16, whose largest number is 65504
_KEPT = frozenset(("BatchNorm", "BatchNorm1D", "BatchNorm2D", "BatchNorm3D", "SyncBatchNorm"))
_KEPT_IN_FLOAT16 = _KEPT | {"InstanceNorm1D", "InstanceNorm2D", "InstanceNorm3D", "LayerNorm"}


def decorate(
    models: Layer | Sequence[Layer],
    optimizers: Optimizer | Sequence[Optimizer] | None = None,
    level: str = "O1",
    dtype: str = "float16",
    master_weight: bool | None = None,
    save_dtype: str | None = None,
    master_grad: bool = False,
    excluded_layers: Layer | type[Layer] | Sequence[Layer | type[Layer]] | None = None,
) -> Any:
    """Cast models to half precision and prepare their optimizers.

    At level O2, the floating-point parameters and buffers of the models are cast in place. Batch norm layers keep
    float32; with float16, layer norm and instance norm do as well. At level O1 nothing is cast.

    Args:
        models: A ``Layer`` or a list of them.
        optimizers: An optimizer or a list of them. Default: None.
        level: ``"O1"`` or ``"O2"``. Default: ``"O1"``.
        dtype: ``"float16"`` or ``"bfloat16"``. Default: ``"float16"``.
        master_weight: At O2, let the optimizers keep float32 master weights. Default: None, which means True.
        save_dtype: Floating-point dtype of the tensors in ``state_dict()`` of the models. Default: None, as they are.
        master_grad: At O2 and with ``optimizers``, keep and accumulate the gradients in float32. Default: False.
        excluded_layers: A layer or layer class, or a list of them, that keeps its dtype. Default: None.

    Returns:
        ``models``, or the tuple ``(models, optimizers)`` if optimizers were given.

    Examples:
        >>> model = bireme.amp.decorate(bireme.nn.Linear(2, 3), level="O2", dtype="bfloat16")
        >>> model.weight.dtype.name
        'bfloat16'
    """
    if level not in ("O1", "O2"):
        raise errors.bad("decorate(level)", "'O1' or 'O2'", level)
    kind = dtypes.of(dtype, "decorate(dtype)")
    if kind not in precision.HALF:
        raise errors.bad("decorate(dtype)", "'float16' or 'bfloat16'", described=kind.name)
    layers: list[Any] = list(models) if isinstance(models, (list, tuple)) else [models]
    for model in layers:
        if not isinstance(model, Layer):
            raise errors.bad("decorate(models)", "a Layer, or a list of them", model, kind=errors.ArgumentTypeError)
    if save_dtype is not None:
        _saved_as(layers, dtypes.of(save_dtype, "decorate(save_dtype)"))
    if level == "O2":
        for model in layers:
            _to_half(model, kind, _excluded(excluded_layers))
        for opt in [] if optimizers is None else optimizers if isinstance(optimizers, (list, tuple)) else [optimizers]:
            if not hasattr(opt, "_multi_precision"):
                raise errors.bad(
                    "decorate(optimizers)", "an optimizer, or a list of them", opt, kind=errors.ArgumentTypeError
                )
            opt._multi_precision = master_weight is not False  # False overrides what the optimizer was created with
        if master_grad and optimizers is not None:
            for parameter in [p for model in layers for p in model.parameters() if not p.stop_gradient]:
                _wide_gradient(parameter)
    return models if optimizers is None else (models, optimizers)


amp_decorate = decorate


def _wide_gradient(parameter: Tensor) -> None:
    """Keep the gradient of a parameter in float32, so that sums over several batches do not lose precision."""
    held = weakref.ref(parameter)

    def widen() -> None:
        p = held()
        if p is not None and p._grad is not None and p._grad.dtype in precision.HALF:
            p._grad = p._grad.astype(dtypes.float32)

    parameter._register_backward_hook(widen)


def _excluded(given: Any) -> tuple[list[Layer], tuple[type, ...]]:
    found = [] if given is None else list(given) if isinstance(given, (list, tuple)) else [given]
    for x in found:
        if not isinstance(x, Layer) and not (isinstance(x, type) and issubclass(x, Layer)):
            raise errors.bad(
                "decorate(excluded_layers)", "layers, or classes of layers", x, kind=errors.ArgumentTypeError
            )
    return [x for x in found if isinstance(x, Layer)], tuple(x for x in found if isinstance(x, type))


def _to_half(model: Layer, kind: Any, excluded: tuple[list[Layer], tuple[type, ...]]) -> None:
    layers, classes = excluded
    kept = {id(sub) for layer in layers for sub in layer.sublayers(include_self=True)}
    names = _KEPT_IN_FLOAT16 if kind is dtypes.float16 else _KEPT
    model._convert(
        None,
        kind,
        lambda layer: (
            layer._cast_to_low_precision
            and not (id(layer) in kept or isinstance(layer, classes) or type(layer).__name__ in names)
        ),
        floating_only=True,
    )


def _saved_as(models: list[Layer], kind: Any) -> None:
    def convert(state: dict[str, Tensor]) -> dict[str, Tensor]:
        return {k: v.astype(kind) if isinstance(v, Tensor) and v.dtype.is_floating else v for k, v in state.items()}

    for model in models:
        model.register_state_dict_hook(convert)


# ---------------------------------------------------------------- questions


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Return whether this thread is inside ``auto_cast``.

    Args:
        device_type: Has no effect: one setting holds for all devices.

    Returns:
        A bool.

    Examples:
        >>> bireme.is_autocast_enabled()
        False
    """
    return precision.state.policy is not None


def amp_state() -> dict[str, Any] | None:
    """Return the settings of the ``auto_cast`` context that this thread is in, or None outside of one.

    Examples:
        >>> from bireme.amp.auto_cast import amp_state
        >>> with bireme.amp.auto_cast(dtype="bfloat16"):
        ...     state = amp_state()
        >>> state["level"], state["dtype"], amp_state()
        ('O1', 'bfloat16', None)
    """
    policy = precision.state.policy
    if policy is None:
        return None
    lists = {"custom_white_list": set(policy.low) or None, "custom_black_list": set(policy.high) or None}
    return {"enable": True, "level": policy.level, "dtype": policy.dtype.name, **lists}


def get_autocast_dtype(device_type: str | None = None) -> str:
    """Return the half precision dtype of ``auto_cast``.

    Args:
        device_type: Has no effect: one setting holds for all devices.

    Returns:
        ``"float16"`` or ``"bfloat16"``: that of the current context, outside of one the default ``"float16"``.

    Examples:
        >>> bireme.get_autocast_dtype()
        'float16'
    """
    policy = precision.state.policy
    return "float16" if policy is None else policy.dtype.name


def get_autocast_cpu_dtype(device_type: str | None = None) -> str:
    """Same as ``get_autocast_dtype``.

    Args:
        device_type: Has no effect.

    Returns:
        ``"float16"`` or ``"bfloat16"``.

    Examples:
        >>> bireme.get_autocast_cpu_dtype()
        'float16'
    """
    return get_autocast_dtype(device_type)


def get_autocast_gpu_dtype(device_type: str | None = None) -> str:
    """Same as ``get_autocast_dtype``.

    Args:
        device_type: Has no effect.

    Returns:
        ``"float16"`` or ``"bfloat16"``.

    Examples:
        >>> bireme.get_autocast_gpu_dtype()
        'float16'
    """
    return get_autocast_dtype(device_type)


def is_float16_supported(device: str | Place | None = None) -> bool:
    """Return whether a device can compute in float16; with XLA every device can.

    Args:
        device: Name of the device, such as ``"gpu:0"``, or a place. Default: None, the current device.

    Returns:
        True; an unknown name of a device is an error.

    Examples:
        >>> bireme.amp.is_float16_supported()
        True
    """
    return device is None or bool(devices.parse(device, "is_float16_supported(device)"))


def is_bfloat16_supported(device: str | Place | None = None) -> bool:
    """Return whether a device can compute in bfloat16; with XLA every device can.

    Args:
        device: Name of the device, such as ``"gpu:0"``, or a place. Default: None, the current device.

    Returns:
        True; an unknown name of a device is an error.

    Examples:
        >>> bireme.amp.is_bfloat16_supported()
        True
    """
    return device is None or bool(devices.parse(device, "is_bfloat16_supported(device)"))


guard_functions(globals())
