"""Names that code written for Paddle takes from `paddle.base.framework`: questions about the mode, the place and types."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from bireme.base import core, unique_name
from bireme.core.base import device as devices
from bireme.core.base import dtype as dtypes
from bireme.core.base import errors, registry
from bireme.core.base.device import Place
from bireme.core.base.flags import get_flags, set_flags
from bireme.core.declare import precision
from bireme.core.program import building
from bireme.core.program.program import Operation as Operator
from bireme.core.program.program import Program
from bireme.core.tensor import grad_mode
from bireme.core.tensor.parameter import Parameter
from bireme.core.tensor.tensor import Tensor
from bireme.defaults import disable_signal_handler, in_dynamic_mode
from bireme.device import (
    device_guard,
    is_compiled_with_cinn,
    is_compiled_with_cuda,
    is_compiled_with_distribute,
    is_compiled_with_rocm,
    is_compiled_with_xpu,
)  # fmt: skip
from bireme.static import default_main_program, default_startup_program, name_scope, program_guard, xpu_places
from bireme.utils import require_version

Variable = Tensor
Block = Program  # the block of a program is itself: blocks of branches and loops belong to their operations
GRAD_VAR_SUFFIX = "@GRAD"
in_dygraph_mode = in_dynamic_or_pir_mode = in_dynamic_mode

__all__ = [
    "Block",
    "EagerParamBase",
    "GRAD_VAR_SUFFIX",
    "Operator",
    "Parameter",
    "Program",
    "Variable",
    "_current_expected_place",
    "_current_expected_place_",
    "_dygraph_place_guard",
    "_dygraph_tracer",
    "_get_paddle_place",
    "_get_paddle_place_list",
    "_global_flags",
    "_set_dygraph_tracer_expected_place",
    "_set_expected_place",
    "convert_np_dtype_to_dtype_",
    "core",
    "cpu_places",
    "cuda_pinned_places",
    "cuda_places",
    "default_main_program",
    "default_startup_program",
    "device_guard",
    "disable_signal_handler",
    "dygraph_not_support",
    "dygraph_only",
    "flag_guard",
    "get_flags",
    "grad_var_name",
    "in_cinn_mode",
    "in_dygraph_mode",
    "in_dynamic_mode",
    "in_dynamic_or_pir_mode",
    "in_pir_executor_mode",
    "in_pir_mode",
    "is_compiled_with_cinn",
    "is_compiled_with_cuda",
    "is_compiled_with_distribute",
    "is_compiled_with_rocm",
    "is_compiled_with_xpu",
    "name_scope",
    "non_static_only",
    "program_guard",
    "require_version",
    "set_flags",
    "static_only",
    "switch_main_program",
    "switch_startup_program",
    "unique_name",
    "use_pir_api",
    "xpu_places",
]


class _AnyParameter(type):
    """Every ``Parameter`` is an instance of the class."""

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Parameter)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, Parameter)

    def __getattr__(cls, name: str) -> Any:
        return getattr(Parameter, name)

    def __setattr__(cls, name: str, value: Any) -> None:
        setattr(Parameter, name, value)  # what a program gives this class, every parameter has

    def __delattr__(cls, name: str) -> None:
        delattr(Parameter, name)


class EagerParamBase(metaclass=_AnyParameter):
    """Parameters as Paddle's inner code creates them: by shape and dtype, zeros until the values are set.

    Args:
        shape: Shape, as a list or an integer tensor.
        dtype: Dtype.
        **attributes: ``trainable``, ``name`` and other attributes of the parameter.

    Examples:
        >>> bireme.base.framework.EagerParamBase([2], "float32").tolist()
        [0.0, 0.0]
    """

    def __new__(cls, shape: Any, dtype: Any, **attributes: Any) -> Parameter:  # type: ignore[misc]  # it makes Parameters
        if shape is None or dtype is None:
            missing = "shape" if shape is None else "dtype"
            raise errors.bad(
                f"EagerParamBase({missing})",
                f"a {missing}",
                None,
                hint=f"The {missing} of Parameter should not be None",
            )
        extents = shape.tolist() if isinstance(shape, Tensor) else list(shape)
        if any(n < 0 for n in extents):
            hint = f"Each dimension of shape for Parameter must be greater than 0, but received {extents}"
            raise errors.bad("EagerParamBase(shape)", "non-negative sizes", extents, hint=hint)
        return cls.from_tensor(registry.find("zeros")(extents, dtype), **attributes)

    @classmethod
    def from_tensor(
        cls, tensor: Tensor, trainable: bool = True, name: str | None = None, **attributes: Any
    ) -> Parameter:
        """Return a parameter with the values of a tensor.

        Args:
            tensor: The tensor.
            trainable: Whether the parameter is trained. Default: True.
            name: Name of the parameter. Default: None, a generated name.
            **attributes: Attributes to set on the parameter.

        Returns:
            A parameter.

        Examples:
            >>> bireme.base.framework.EagerParamBase.from_tensor(bireme.ones([2]), trainable=False).stop_gradient
            True
        """
        made = Parameter(tensor, name or unique_name.generate("_eager_param_base"), trainable)
        for key, value in attributes.items():
            setattr(made, key, value)
        return made


def _current_expected_place() -> Place:
    """Return the place of new tensors.

    Returns:
        A place.

    Examples:
        >>> bireme.framework._current_expected_place()
        Place(cpu)
    """
    return devices.current().place


_current_expected_place_ = _current_expected_place


def _set_expected_place(place: Any) -> None:
    """Set the place of new tensors.

    Args:
        place: A place or the name of a device.

    Examples:
        >>> bireme.framework._set_expected_place(bireme.CPUPlace())
    """
    devices.set_device(place)


_set_dygraph_tracer_expected_place = _set_expected_place


def _get_paddle_place(place: Any) -> Place | None:
    """Return the place of a device name.

    Args:
        place: The name, a place or None.

    Returns:
        The place; None for None.

    Examples:
        >>> bireme.framework._get_paddle_place("cpu")
        Place(cpu)
    """
    return (
        place if place is None or isinstance(place, Place) else devices.parse(place, "_get_paddle_place(place)").place
    )


@contextlib.contextmanager
def _dygraph_place_guard(place: Any) -> Iterator[None]:
    """Create new tensors on ``place`` inside the block."""
    before = devices.use(devices.parse(place, "_dygraph_place_guard(place)"))
    try:
        yield
    finally:
        devices.use(before)


class _Tracer:
    """The recorder of operators: whether it records gradients, and its mixed precision."""

    @property
    def _has_grad(self) -> bool:
        return grad_mode.is_grad_enabled()

    @_has_grad.setter
    def _has_grad(self, wanted: bool) -> None:
        grad_mode.set_grad_enabled(wanted)

    @property
    def _amp_level(self) -> str:
        return "O0" if precision.state.policy is None else precision.state.policy.level

    @property
    def _amp_dtype(self) -> str:
        return "float32" if precision.state.policy is None else precision.state.policy.dtype.name

    @property
    def _expected_place(self) -> Place:
        return _current_expected_place()

    def _generate_unique_name(self, key: str = "dygraph_tmp") -> str:
        return unique_name.generate(key)


_tracer = _Tracer()


def _dygraph_tracer() -> _Tracer:
    """Return the recorder of operators.

    Returns:
        An object with the attributes ``_has_grad``, ``_amp_level`` and ``_amp_dtype``.

    Examples:
        >>> bireme.framework._dygraph_tracer()._amp_level
        'O0'
    """
    return _tracer


def _get_paddle_place_list(places: Any) -> list[Place | None]:
    """Return the places of device names."""
    if not isinstance(places, (list, tuple)):
        raise errors.bad("_get_paddle_place_list(places)", "a list or a tuple", places, kind=errors.ArgumentTypeError)
    return [_get_paddle_place(place) for place in places]


def _global_flags() -> Any:
    """Return the flags of the process as a mapping.

    Returns:
        A mapping of flag names to values.

    Examples:
        >>> bireme.framework._global_flags()["FLAGS_check_nan_inf"]
        False
    """
    return core.globals()


def dygraph_only(func: Callable) -> Callable:
    """Decorate a function that exists only in dynamic mode: a call in static mode is an error.

    Args:
        func: The function.

    Returns:
        The decorated function.

    Examples:
        >>> bireme.framework.dygraph_only(abs)(-1)
        1
    """

    @functools.wraps(func)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if not in_dynamic_mode():
            raise errors.bad(
                f"{func.__name__}()", "the dynamic mode", described="the static one", kind=errors.ArgumentError
            )
        return func(*args, **kwargs)

    return checked


non_static_only = dygraph_only


def dygraph_not_support(func: Callable) -> Callable:
    """Decorate a function that exists only in static mode: a call in dynamic mode is an error."""

    @functools.wraps(func)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if in_dynamic_mode():
            raise errors.bad(
                f"{func.__name__}()", "the static mode", described="the dynamic one", kind=errors.ArgumentError
            )
        return func(*args, **kwargs)

    return checked


@contextlib.contextmanager
def flag_guard(flag_name: str, flag_value: Any) -> Iterator[None]:
    """Set a flag inside the block."""
    before = get_flags(flag_name)
    set_flags({flag_name: flag_value})
    try:
        yield
    finally:
        set_flags(before)


def cpu_places(device_count: int | None = None) -> list[Place]:
    """Return a list of the CPU place.

    Args:
        device_count: Length of the list. Default: None, the environment variable ``CPU_NUM``, or 1.

    Returns:
        A list of places.

    Examples:
        >>> bireme.base.cpu_places(2)
        [Place(cpu), Place(cpu)]
    """
    return [core.CPUPlace()] * int(os.environ.get("CPU_NUM", 1) if device_count is None else device_count)


def cuda_places(device_ids: int | Iterable[int] | None = None) -> list[Place]:
    """Return the places of GPUs.

    Args:
        device_ids: An index or several. Default: None, all GPUs.

    Returns:
        A list of places.

    Examples:
        >>> bireme.base.cuda_places([0, 1])  # doctest: +SKIP
        [Place(gpu:0), Place(gpu:1)]
    """
    numbers = (
        range(core.get_cuda_device_count())
        if device_ids is None
        else [device_ids]
        if isinstance(device_ids, int)
        else device_ids
    )
    return [core.CUDAPlace(i) for i in numbers]


def cuda_pinned_places(device_count: int | None = None) -> list[Place]:
    """Return a list of the place of host memory that GPUs copy from.

    Args:
        device_count: Length of the list. Default: None, the environment variable ``CPU_NUM``, or 1.

    Returns:
        A list of places.

    Examples:
        >>> bireme.base.cuda_pinned_places(1)
        [Place(gpu_pinned)]
    """
    return [core.CUDAPinnedPlace()] * int(os.environ.get("CPU_NUM", 1) if device_count is None else device_count)


def convert_np_dtype_to_dtype_(np_dtype: Any) -> dtypes.DType:
    """Return the dtype of a NumPy type or a name.

    Args:
        np_dtype: The NumPy type or the name.

    Returns:
        A dtype.

    Examples:
        >>> bireme.framework.convert_np_dtype_to_dtype_("int32")
        bireme.int32
    """
    return dtypes.of(np_dtype, "convert_np_dtype_to_dtype_(np_dtype)")


def grad_var_name(var_name: str) -> str:
    """Return the name of the gradient of a variable.

    Args:
        var_name: The name of the variable.

    Returns:
        A str.

    Examples:
        >>> bireme.base.framework.grad_var_name("w")
        'w@GRAD'
    """
    return var_name + GRAD_VAR_SUFFIX


def switch_main_program(program: Program) -> Program:
    """Let calls of static mode be recorded into another program.

    Args:
        program: The program.

    Returns:
        The one before.

    Examples:
        >>> before = bireme.base.framework.switch_main_program(bireme.static.Program())
        >>> _ = bireme.base.framework.switch_main_program(before)
    """
    before, building.programs.main = building.programs.main, program
    return before


def switch_startup_program(program: Program) -> Program:
    """Let another program take the initial values of parameters.

    Args:
        program: The program.

    Returns:
        The one before.

    Examples:
        >>> before = bireme.base.framework.switch_startup_program(bireme.static.Program())
        >>> _ = bireme.base.framework.switch_startup_program(before)
    """
    before, building.programs.startup = building.programs.startup, program
    return before


def static_only(func: Callable) -> Callable:
    """Decorate a function that can be called in static mode only.

    Args:
        func: The function.

    Returns:
        The function, which raises in dynamic mode.

    Examples:
        >>> @bireme.base.framework.static_only
        ... def build():
        ...     return 1
        >>> with bireme.pir_utils.IrGuard():
        ...     build()
        1
    """

    @functools.wraps(func)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if in_dynamic_mode():
            raise errors.failure(f"{func.__name__}() belongs to static mode", hint="call bireme.enable_static() first")
        return func(*args, **kwargs)

    return checked


def in_pir_mode() -> bool:
    """Return whether a program of Paddle's intermediate representation PIR is being built: never.

    Returns:
        False.

    Examples:
        >>> bireme.framework.in_pir_mode()
        False
    """
    return False


in_pir_executor_mode = in_cinn_mode = use_pir_api = in_pir_mode
