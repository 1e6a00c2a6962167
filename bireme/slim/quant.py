"""Quantization of saved models after training, and of programs in training."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.inference.saved import model_of, sketches
from bireme.jit import TranslatedLayer, save
from bireme.jit.saving import models_of
from bireme.jit.transforms import USUAL, transformed
from bireme.quantization import observers
from bireme.quantization.saved import Choice, quantized_model
from bireme.slim.aware import MATRICES, OTHERS, PRODUCTS, convert, quant_aware
from bireme.static import InputSpec

__all__ = ["convert", "quant_aware", "quant_post_dynamic", "quant_post_static"]

ALGORITHMS: dict[str, Callable[..., Any]] = {
    "hist": observers.HistObserver,
    "KL": observers.KLObserver,
    "abs_max": observers.AbsmaxObserver,
    "avg": observers.MovingAverageAbsmaxObserver,
    "mse": observers.MSEObserver,
}


def quant_post_static(
    executor: Any, model_dir: str, quantize_model_path: str, batch_generator: Callable[[], Iterable] | None = None,
    sample_generator: Callable[[], Iterable] | None = None, data_loader: Iterable | None = None, model_filename: str | None = None,
    params_filename: str | None = None, save_model_filename: str = "model.pdmodel", save_params_filename: str = "model.pdiparams",
    batch_size: int = 1, batch_nums: int | None = None, scope: Any = None, algo: str = "hist", round_type: str = "round",
    hist_percent: float = 0.9999, bias_correction: bool = False, quantizable_op_type: Sequence[str] | None = None,
    is_full_quantize: bool = False, weight_bits: int = 8, activation_bits: int = 8, activation_quantize_type: str = "range_abs_max",
    weight_quantize_type: str = "channel_wise_abs_max", optimize_model: bool = False, onnx_format: bool = True,
    skip_tensor_list: Sequence[str] | None = None, deploy_backend: str | None = None,
) -> None:  # fmt: skip
    """Quantize weights and inputs of a saved model's products to 8 bits, with scales found in samples.

    The model is written in Bireme's format, which ``static.load_inference_model``, ``jit.load`` and predictors read;
    ``onnx.export`` and ``bireme export`` take it from there.

    Args:
        executor: Has no effect: no executor is needed.
        model_dir: Folder with the model, or its path.
        quantize_model_path: Folder that the model is written to.
        batch_generator: Function that gives an iterable of batches: a list with an array for each input. Default: None.
        sample_generator: Function that gives an iterable of samples, which are put together in batches. Default: None.
        data_loader: Iterable of batches, as a ``DataLoader``. Default: None.
        model_filename: Name of the program's file. Default: None, whichever is there.
        params_filename: Name of the weights' file, which has to lie beside it under the usual name. Default: None.
        save_model_filename: Name of what is written; its ending is that of Bireme's format. Default: ``"model.pdmodel"``.
        save_params_filename: Has no effect: weights have the name of the program. Default: ``"model.pdiparams"``.
        batch_size: Samples in a batch, for ``sample_generator``. Default: 1.
        batch_nums: Batches to use. Default: None, all.
        scope: Has no effect. Default: None.
        algo: How scales are found: ``"hist"``, ``"KL"``, ``"mse"``, ``"abs_max"`` or ``"avg"``. Default: ``"hist"``.
        round_type: ``"round"``, to the nearest. Default: ``"round"``.
        hist_percent: Share of the magnitudes that ``"hist"`` keeps. Default: 0.9999.
        bias_correction: Has no effect: the mean of each output is always moved back. Default: False.
        quantizable_op_type: Which products are quantized: names among ``"conv2d"``, ``"depthwise_conv2d"``, ``"mul"``, ``"matmul"`` and
            ``"matmul_v2"``; others are left out. Default: None, all but ``"depthwise_conv2d"``, which cost more accuracy than they save.
        is_full_quantize: Has no effect: what is no product stays as it is. Default: False.
        weight_bits: Width of the weights' integers. Default: 8.
        activation_bits: Width of the inputs' integers. Default: 8.
        activation_quantize_type: Has no effect: ``algo`` finds the scales. Default: ``"range_abs_max"``.
        weight_quantize_type: ``"channel_wise_abs_max"``, or ``"abs_max"`` for one scale. Default: ``"channel_wise_abs_max"``.
        optimize_model: Has no effect: normalizations are always folded. Default: False.
        onnx_format: Has no effect. Default: True.
        skip_tensor_list: Names of variables: products that read or make one stay as they are. Default: None.
        deploy_backend: Has no effect. Default: None.

    Examples:
        >>> import os, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> spec = bireme.static.InputSpec([None, 4], "float32", "x")
        >>> bireme.jit.save(bireme.nn.Linear(4, 2), folder + "/net", [spec])
        >>> batches = lambda: [[bireme.rand([8, 4])] for _ in range(4)]
        >>> bireme.slim.quant.quant_post_static(None, folder + "/net", folder + "/small", batch_generator=batches)
        >>> sorted(os.listdir(folder + "/small"))
        ['model.json', 'model.safetensors']
    """
    sources = [x for x in (batch_generator, sample_generator, data_loader) if x is not None]
    if len(sources) != 1:
        raise errors.failure(
            "quant_post_static: expected one of batch_generator, sample_generator and data_loader", kind=ValueError
        )
    if algo not in ALGORITHMS:
        raise errors.bad("quant_post_static(algo)", f"one of {', '.join(ALGORITHMS)}", algo)
    if round_type != "round":
        raise errors.bad("quant_post_static(round_type)", "'round'", round_type)
    if weight_quantize_type not in WEIGHTS:
        raise errors.bad(
            "quant_post_static(weight_quantize_type)", f"one of {', '.join(WEIGHTS)}", weight_quantize_type
        )
    observer = ALGORITHMS[algo](quant_bits=activation_bits, **({"percent": hist_percent} if algo == "hist" else {}))
    made = batch_generator or sample_generator
    given = made() if made is not None else data_loader
    assert given is not None
    batches: list[list[np.ndarray]] = []
    for batch in given if sample_generator is None else _together(given, batch_size):
        if batch_nums is not None and len(batches) == batch_nums:
            break
        batches.append([_array(x) for x in (batch.values() if isinstance(batch, dict) else _listed(batch))])
    choice = Choice(
        bits=weight_bits, each=WEIGHTS[weight_quantize_type], skipped=frozenset(skip_tensor_list or ()),
        **_wanted("quant_post_static", quantizable_op_type),
    )  # fmt: skip
    _write(model_dir, model_filename, quantize_model_path, save_model_filename, "int8", batches, observer, choice)


WEIGHTS = {"channel_wise_abs_max": True, "abs_max": False}


def _wanted(where: str, names: Sequence[str] | None) -> dict[str, bool]:
    """Which products are meant."""
    if names is None:
        return {}
    unknown = [name for name in names if name not in PRODUCTS and name not in OTHERS]
    if unknown:
        raise errors.bad(f"{where}(quantizable_op_type)", f"names among {', '.join(PRODUCTS)}", unknown[0])
    found = {"conv": "conv2d" in names, "depthwise": "depthwise_conv2d" in names}
    return {**found, "matrix": any(name in names for name in MATRICES)}


def quant_post_dynamic(
    model_dir: str, save_model_dir: str, model_filename: str | None = None, params_filename: str | None = None,
    save_model_filename: str = "model.pdmodel", save_params_filename: str = "model.pdiparams",
    quantizable_op_type: Sequence[str] | None = None, weight_bits: int = 8, generate_test_model: bool = False,
) -> None:  # fmt: skip
    """Quantize the weights of a saved model's products, which needs no samples.

    Args:
        model_dir: Folder with the model.
        save_model_dir: Folder that the model is written to, in Bireme's format.
        model_filename: Name of the program's file. Default: None, whichever is there.
        params_filename: Name of the weights' file, which has to lie beside it under the usual name. Default: None.
        save_model_filename: Name of what is written; its ending is that of Bireme's format. Default: ``"model.pdmodel"``.
        save_params_filename: Has no effect: weights have the name of the program. Default: ``"model.pdiparams"``.
        quantizable_op_type: Which products are quantized: names among ``"conv2d"``, ``"depthwise_conv2d"``, ``"mul"``, ``"matmul"`` and
            ``"matmul_v2"``. Default: None, all but ``"depthwise_conv2d"``.
        weight_bits: 8 or 4. Default: 8.
        generate_test_model: Has no effect: what is written runs. Default: False.

    Examples:
        >>> import os, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> spec = bireme.static.InputSpec([None, 4], "float32", "x")
        >>> bireme.jit.save(bireme.nn.Linear(4, 2), folder + "/net", [spec])
        >>> bireme.slim.quant.quant_post_dynamic(folder, folder + "/small", "net.json")
        >>> sorted(os.listdir(folder + "/small"))
        ['model.json', 'model.safetensors']
    """
    if weight_bits not in (4, 8):
        raise errors.bad("quant_post_dynamic(weight_bits)", "8 or 4", weight_bits)
    choice = Choice(bits=weight_bits, **_wanted("quant_post_dynamic", quantizable_op_type))
    to = f"weight-int{weight_bits}"
    _write(model_dir, model_filename, save_model_dir, save_model_filename, to, [], None, choice)


def _write(
    folder: str, name: str | None, to_folder: str, to_name: str, to: str, batches: list[list[np.ndarray]], observer: Any,
    choice: Choice,
) -> None:  # fmt: skip
    where = Path(folder) / name if name is not None else Path(folder)
    model, _ = transformed(model_of(where), USUAL)
    net, _ = quantized_model(model, to, batches, observer, choice=choice)
    specs = [
        InputSpec([None if n < 0 else n for n in shape], dtype.name, key)
        for key, (dtype, shape) in sketches(model)[0].items()
    ]
    made = models_of(net, specs, "quant_post")["forward"]
    made.output_names = model.output_names
    os.makedirs(to_folder, exist_ok=True)
    save(TranslatedLayer({"forward": made}, made.program.tensors), os.path.join(to_folder, Path(to_name).stem))


def _listed(batch: Any) -> Any:
    return batch if isinstance(batch, (list, tuple)) else [batch]


def _together(samples: Iterable, size: int) -> Iterable[list[np.ndarray]]:
    held: list[Any] = []
    for sample in samples:
        held.append([_array(x) for x in _listed(sample)])
        if len(held) == size:
            yield [np.stack(column) for column in zip(*held, strict=True)]
            held = []
    if held:
        yield [np.stack(column) for column in zip(*held, strict=True)]


def _array(x: Any) -> np.ndarray:
    return x.numpy() if isinstance(x, Tensor) else np.asarray(x)
