"""Models in half precision, as files."""

from __future__ import annotations

import os
from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.program.program_model import Model
from bireme.files import program_files
from bireme.inference import loading
from bireme.inference.kinds import PlaceType, PrecisionType


def convert_to_mixed_precision(
    model_file: str,
    params_file: str,
    mixed_model_file: str,
    mixed_params_file: str,
    mixed_precision: PrecisionType,
    backend: PlaceType,
    keep_io_types: bool = True,
    black_list: set[str] = set(),  # noqa: B006 - as Paddle
    **kwargs: Any,
) -> None:
    """Write a model in which products and convolutions, and their weights, have half precision.

    The files are of Bireme's format, whatever their names; ``Config(mixed_model_file, mixed_params_file)`` reads them.

    Args:
        model_file: File of the program, in any format that a ``Config`` takes.
        params_file: File of its parameters; empty where the program needs none or names them.
        mixed_model_file: File of the program that is written.
        mixed_params_file: File of its parameters.
        mixed_precision: ``PrecisionType.Half`` or ``PrecisionType.Bfloat16``.
        backend: Has no effect: the model runs on any device.
        keep_io_types: Whether outputs stay in float32. Default: True.
        black_list: Names of operators that stay in float32. Default: set().
        **kwargs: ``white_list``: has no effect.

    Raises:
        ValueError: If the precision is another one.
        TypeError: If it is no precision.

    Examples:
        >>> import numpy as np, tempfile
        >>> inference = bireme.inference
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bireme.jit.save(bireme.nn.Linear(2, 1), folder + "/net", [bireme.static.InputSpec([None, 2], "float32", "x")])
        ...     inference.convert_to_mixed_precision(
        ...         folder + "/net.json", folder + "/net.safetensors", folder + "/half.json", folder + "/half.safetensors",
        ...         inference.PrecisionType.Bfloat16, inference.PlaceType.CPU)
        ...     predictor = inference.create_predictor(inference.Config(folder + "/half.json", folder + "/half.safetensors"))
        >>> predictor.run([bireme.ones([1, 2])])[0].dtype
        bireme.float32
    """
    where = "convert_to_mixed_precision"
    if not isinstance(mixed_precision, PrecisionType):
        raise errors.bad(f"{where}(mixed_precision)", "a PrecisionType", mixed_precision, kind=errors.ArgumentTypeError)
    if mixed_precision not in loading.HALF:
        raise errors.bad(f"{where}(mixed_precision)", "Half or Bfloat16", described=mixed_precision.name)
    dtype = loading.HALF[mixed_precision]
    model = loading.read(os.fspath(model_file), os.fspath(params_file) or None)
    made = Model(model.program.clone(), model.inputs, list(model.outputs), model.output_names)
    loading.in_half(made, dtype, black_list, not keep_io_types)
    for path in (mixed_model_file, mixed_params_file):
        os.makedirs(os.path.dirname(os.fspath(path)) or ".", exist_ok=True)
    program_files.write((os.fspath(mixed_model_file), os.fspath(mixed_params_file)), {"forward": made})


guard_functions(globals())
