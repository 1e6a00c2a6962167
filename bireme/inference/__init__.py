"""Inference: predictors, which run saved models through handles for their inputs and outputs."""

import importlib
from typing import TYPE_CHECKING, Any

from bireme import version
from bireme.core.base.boundary import guard_functions

if TYPE_CHECKING:
    from bireme.inference.config import Config, XpuConfig
    from bireme.inference.executors import Choice, Executor, ExportedModel, register_executor
    from bireme.inference.handles import Tensor
    from bireme.inference.kinds import DataType, PlaceType, PrecisionType, get_num_bytes_of_data_type
    from bireme.inference.mixed import convert_to_mixed_precision
    from bireme.inference.predictor import Predictor, PredictorPool, create_predictor, optimize

__all__ = [
    "Choice",
    "Config",
    "DataType",
    "Executor",
    "ExportedModel",
    "PlaceType",
    "PrecisionType",
    "Predictor",
    "PredictorPool",
    "Tensor",
    "XpuConfig",
    "convert_to_mixed_precision",
    "create_predictor",
    "get_num_bytes_of_data_type",
    "get_trt_compile_version",
    "get_trt_runtime_version",
    "get_version",
    "optimize",
    "register_executor",
]

# modules that names come from: they are imported when somebody asks for one
HOMES = {
    "config": ("Config", "XpuConfig"), "handles": ("Tensor",), "mixed": ("convert_to_mixed_precision",),
    "kinds": ("DataType", "PlaceType", "PrecisionType", "get_num_bytes_of_data_type"),
    "executors": ("Choice", "Executor", "ExportedModel", "register_executor"),
    "predictor": ("Predictor", "PredictorPool", "create_predictor", "optimize"),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """A name of one of the modules."""
    for home, names in HOMES.items():
        if name in names or name == home:
            found = importlib.import_module(f"{__name__}.{home}")
            globals().update({each: getattr(found, each) for each in names})
            return globals()[name] if name in names else found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def get_version() -> str:
    """Return the version, in lines.

    Returns:
        A string: Bireme's version, the commit, and that of the interface.

    Examples:
        >>> print(bireme.inference.get_version().splitlines()[0].partition(":")[0])
        version
    """
    return f"version: {version.full_version}\ncommit: {version.commit}\ninterface: {version.interface}\n"


def get_trt_compile_version() -> tuple[int, int, int]:
    """Return the version of TensorRT that this was built with.

    Returns:
        ``(0, 0, 0)``: none.

    Examples:
        >>> bireme.inference.get_trt_compile_version()
        (0, 0, 0)
    """
    return (0, 0, 0)


def get_trt_runtime_version() -> tuple[int, int, int]:
    """Return the version of TensorRT that is there.

    Returns:
        ``(0, 0, 0)``: none.

    Examples:
        >>> bireme.inference.get_trt_runtime_version()
        (0, 0, 0)
    """
    return (0, 0, 0)


guard_functions(globals())
