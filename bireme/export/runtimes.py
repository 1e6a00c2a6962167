"""Saved models for other runtimes: ONNX Runtime's own format, and IREE's modules for processors, Vulkan, Android and RISC-V."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import bireme.onnx as onnx_files
from bireme.core.base import errors
from bireme.core.base.extras import extra
from bireme.export.models import fixed_specs, loaded, sized
from bireme.files.atomic import replacing
from bireme.static import InputSpec

TARGETS = {
    "cpu": ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu",
            "--iree-llvmcpu-target-cpu=host"],
    "vulkan": ["--iree-hal-target-device=vulkan", "--iree-vulkan-target=vp_android_baseline_2022"],
    "android": ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu",
                "--iree-llvmcpu-target-triple=aarch64-none-linux-android30"],
    "riscv": ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu",
              "--iree-llvmcpu-target-triple=riscv64-unknown-linux-gnu", "--iree-llvmcpu-target-abi=lp64d",
              "--iree-llvmcpu-target-cpu-features=+m,+a,+f,+d,+v"],
}  # fmt: skip


def to_ort(
    model: Any, path: str | os.PathLike, shapes: dict[str, tuple[int, ...]] | None = None, *,
    input_spec: list[InputSpec] | None = None,
) -> str:  # fmt: skip
    """Write a model in ONNX Runtime's own format, which its builds for phones read: graph optimizations are done when it is written.

    Args:
        model: Path of a saved model, or a ``Layer``.
        path: Path of the file, which ends in ``.ort``.
        shapes: Shapes of inputs whose sizes are open, by name. Default: None, they stay open.
        input_spec: Inputs of a ``Layer``. Default: None, those of a saved model.

    Returns:
        The path.

    Raises:
        ImportError: If onnx or onnxruntime is not installed.

    Examples:
        >>> import tempfile
        >>> spec = bireme.static.InputSpec([1, 4], "float32", "x")
        >>> path = bireme.export.to_ort(bireme.nn.Linear(4, 2), tempfile.mkdtemp() + "/net.ort", input_spec=[spec])
        >>> path.endswith("net.ort")
        True
    """
    path = os.fspath(path)
    if not path.endswith(".ort"):
        raise errors.bad("to_ort(path)", "a path that ends in .ort", path)
    runtime = extra("onnxruntime", "onnx", "to export ONNX Runtime's format")
    layer, specs = loaded(model, input_spec, "to_ort")
    specs = sized(specs, shapes or {}, "to_ort(shapes)")
    with tempfile.TemporaryDirectory() as folder:
        source, made = os.path.join(folder, "model.onnx"), os.path.join(folder, "model.ort")
        onnx_files.export(layer, source, specs)
        options = runtime.SessionOptions()
        options.log_severity_level = 3
        options.optimized_model_filepath = made
        options.graph_optimization_level = (
            runtime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        )  # the rest is a machine's own
        options.add_session_config_entry("session.save_model_format", "ORT")
        runtime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        with replacing(path) as file:
            file.write(Path(made).read_bytes())
    return path


def to_iree(
    model: Any, path: str | os.PathLike, shapes: dict[str, tuple[int, ...]] | None = None, *, target: str = "cpu",
    input_spec: list[InputSpec] | None = None,
) -> str:  # fmt: skip
    """Write a model as a module of IREE, from its ONNX form, at fixed sizes.

    Its function ``bireme`` takes the inputs and gives the outputs. That for ``"cpu"`` is for the machine that it is written on.

    Args:
        model: Path of a saved model, or a ``Layer``.
        path: Path of the file, usually ending in ``.vmfb``.
        shapes: Shapes of inputs whose sizes are open, by name. Default: None.
        target: ``"cpu"``, ``"vulkan"``, ``"android"`` (arm64) or ``"riscv"`` (64 bits with vectors). Default: ``"cpu"``.
        input_spec: Inputs of a ``Layer``. Default: None, those of a saved model.

    Returns:
        The path.

    Raises:
        ImportError: If the package iree-base-compiler is not installed.
        ValueError: If a size is open, or there is no such target.

    Examples:
        >>> try:
        ...     bireme.export.to_iree(bireme.nn.ReLU(), "relu.vmfb", target="abacus")
        ... except ValueError as e:
        ...     print(str(e).splitlines()[0])
        to_iree(target): expected one of cpu, vulkan, android, riscv, got 'abacus'
    """
    if target not in TARGETS:
        raise errors.bad("to_iree(target)", f"one of {', '.join(TARGETS)}", target)
    layer, specs = loaded(model, input_spec, "to_iree")
    fixed = fixed_specs(specs, shapes or {}, "IREE")
    compiler = extra("iree.compiler", "iree", "to export modules of IREE", package="iree-base-compiler")
    importer = extra(
        "iree.compiler.tools.import_onnx.__main__", "iree", "to export modules of IREE", "iree-base-compiler"
    )
    with tempfile.TemporaryDirectory() as folder:
        source, made = os.path.join(folder, "model.onnx"), os.path.join(folder, "model.mlir")
        onnx_files.export(layer, source, fixed)
        if importer.main(importer.parse_arguments([source, "-o", made, "--opset-version", "18"])):
            raise errors.failure("IREE could not read the model's ONNX form")
        try:
            module = compiler.tools.compile_file(made, input_type="onnx", extra_args=TARGETS[target])
        except compiler.tools.CompilerToolError as e:
            raise errors.failure(f"IREE's compiler failed: {str(e).splitlines()[-1]}") from None
    with replacing(os.fspath(path)) as file:
        file.write(module)
    return os.fspath(path)
