"""Variables that outlive a run, and where things are computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from bireme.core.base import device as devices
from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.base.device import CPUPlace, CUDAPlace, XPUPlace
from bireme.core.base.dtype import DTypeLike
from bireme.core.program import building
from bireme.core.program.gradients import start_with
from bireme.core.program.program import KNOWN
from bireme.core.tensor.tensor import Tensor
from bireme.ops import full
from bireme.utils import unique_name


def create_global_var(
    shape: Sequence[int],
    value: float,
    dtype: DTypeLike,
    persistable: bool = False,
    force_cpu: bool = False,
    name: str | None = None,
) -> Tensor:
    """Create a tensor that outlives the runs of programs, filled with a number.

    Args:
        shape: Its sizes.
        value: The number.
        dtype: Data type.
        persistable: Set the attribute ``persistable``. Default: False.
        force_cpu: Has no effect.
        name: Name. Default: None, a generated one.

    Returns:
        The tensor, which the startup program fills again.

    Examples:
        >>> bireme.enable_static()
        >>> bireme.static.create_global_var([2], 1.5, "float32").tolist()
        [1.5, 1.5]
        >>> bireme.disable_static()
    """
    kind = dtypes.of(dtype, "create_global_var(dtype)")
    with building.suspended():
        made = full(shape, value, kind)
        made.name = name or unique_name.generate("global_var")
    made.persistable = True
    KNOWN[made.name] = made

    def fill(t: Tensor) -> None:
        t._assign_value(full(shape, value, kind))

    if building.current() is not None:
        start_with(building.programs.startup, made, fill)
    made.persistable = bool(persistable) or made.persistable
    return made


@contextmanager
def name_scope(prefix: str | None = None) -> Iterator[None]:
    """Context manager that groups what is built inside under a name, by which ``slim.quant.quant_aware`` leaves it as it is.

    Args:
        prefix: The name. Default: None, none.

    Returns:
        A context manager.

    Examples:
        >>> with bireme.static.name_scope("block"):
        ...     pass
    """
    if prefix is not None and not isinstance(prefix, str):
        raise errors.bad("name_scope(prefix)", "a str", prefix, kind=errors.ArgumentTypeError)
    builder = building.current()
    if builder is None or not prefix:
        yield
        return
    before = builder.scope
    builder.scope = f"{before}.{prefix}" if before else prefix
    try:
        yield
    finally:
        builder.scope = before


@contextmanager
def device_guard(device: str | None = None) -> Iterator[None]:
    """Context manager for the device of what is built inside.

    The compiler places what a program computes, so the name is only checked.

    Args:
        device: ``"cpu"``, ``"gpu"`` or ``"gpu:0"``. Default: None.

    Returns:
        A context manager.

    Examples:
        >>> with bireme.static.device_guard("cpu"):
        ...     pass
    """
    if device is not None and device not in ("cpu", "xpu", "npu", "gpu", "gpu:all"):
        devices.parse(device, "device_guard(device)")
    yield


def cpu_places(device_count: int | None = None) -> list[Any]:
    """Return places of the CPU.

    Args:
        device_count: How many. Default: None, one.

    Returns:
        A list of places.

    Examples:
        >>> bireme.static.cpu_places(2)
        [Place(cpu), Place(cpu)]
    """
    return [CPUPlace() for _ in range(1 if device_count is None else device_count)]


def cuda_places(device_ids: int | Sequence[int] | None = None) -> list[Any]:
    """Return places of GPUs.

    Args:
        device_ids: Their numbers. Default: None, all of them.

    Returns:
        A list of places.

    Examples:
        >>> len(bireme.static.cuda_places()) == bireme.device.cuda.device_count()
        True
    """
    ids = (
        range(devices.count("gpu"))
        if device_ids is None
        else [device_ids]
        if isinstance(device_ids, int)
        else device_ids
    )
    return [CUDAPlace(i) for i in ids]


def xpu_places(device_ids: int | Sequence[int] | None = None) -> list[Any]:
    """Return places of Kunlun's XPUs.

    Args:
        device_ids: Their numbers. Default: None, all of them; there are none.

    Returns:
        A list of places.

    Raises:
        ValueError: If this machine does not have one of them.

    Examples:
        >>> bireme.static.xpu_places()
        []
    """
    ids = [] if device_ids is None else [device_ids] if isinstance(device_ids, int) else device_ids
    return [XPUPlace(i) for i in ids]


guard_functions(globals())
