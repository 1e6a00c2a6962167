"""Quantization of saved models after training, and of programs in training."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
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
from bireme.quantization.saved import quantized_model
from bireme.slim.aware import convert, quant_aware
from bireme.static import InputSpec

__all__ = ["convert", "quant_aware", "quant_post_dynamic", "quant_post_static"]

ALGORITHMS: dict[str, Callable[..., Any]] = {
    "hist": observers.HistObserver,
    "KL": observers.KLObserver,
    "abs_max": observers.AbsmaxObserver,
    "avg": observers.MovingAverageAbsmaxObserver,
}


def quant_post_static(
    executor: Any, model_dir: str, quantize_model_path: str, batch_generator: Callable[[], Iterable] | None = None,
    sample_generator: Callable[[], Iterable] | None = None, data_loader: Iterable | None = None, model_filename: str | None = None,
    params_filename: str | None = None, batch_size: int = 1, batch_nums: int | None = None, algo: str = "hist",
    hist_percent: float = 0.9999,
) -> None:  # fmt: skip
    """Quantize weights and inputs of a saved model's products to 8 bits, with scales found in samples.

    The model is written in Bireme's format; ``onnx.export`` and ``bireme export`` take it from there.

    Args:
        executor: Has no effect: no executor is needed.
        model_dir: Folder with the model.
        quantize_model_path: Path of what is written, without an ending.
        batch_generator: Function that gives an iterable of batches: a list with an array for each input. Default: None.
        sample_generator: Function that gives an iterable of samples, which are put together in batches. Default: None.
        data_loader: Iterable of batches, as a ``DataLoader``. Default: None.
        model_filename: Name of the program's file. Default: None, whichever is there.
        params_filename: Name of the weights' file, which has to lie beside it under the usual name. Default: None.
        batch_size: Samples in a batch, for ``sample_generator``. Default: 1.
        batch_nums: Batches to use. Default: None, all.
        algo: How scales are found: ``"hist"``, ``"KL"``, ``"abs_max"`` or ``"avg"``. Default: ``"hist"``.
        hist_percent: Share of the magnitudes that ``"hist"`` keeps. Default: 0.9999.

    Examples:
        >>> import os, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> spec = bireme.static.InputSpec([None, 4], "float32", "x")
        >>> bireme.jit.save(bireme.nn.Linear(4, 2), folder + "/net", [spec])
        >>> batches = lambda: [[bireme.rand([8, 4])] for _ in range(4)]
        >>> bireme.slim.quant.quant_post_static(None, folder + "/net", folder + "/small", batch_generator=batches)
        >>> os.path.exists(folder + "/small.safetensors")
        True
    """
    sources = [x for x in (batch_generator, sample_generator, data_loader) if x is not None]
    if len(sources) != 1:
        raise errors.failure(
            "quant_post_static: expected one of batch_generator, sample_generator and data_loader", kind=ValueError
        )
    if algo not in ALGORITHMS:
        raise errors.bad("quant_post_static(algo)", f"one of {', '.join(ALGORITHMS)}", algo)
    observer = ALGORITHMS[algo](**({"percent": hist_percent} if algo == "hist" else {}))
    made = batch_generator or sample_generator
    given = made() if made is not None else data_loader
    assert given is not None
    batches: list[list[np.ndarray]] = []
    for batch in given if sample_generator is None else _together(given, batch_size):
        if batch_nums is not None and len(batches) == batch_nums:
            break
        batches.append([_array(x) for x in (batch.values() if isinstance(batch, dict) else _listed(batch))])
    _write(model_dir, model_filename, quantize_model_path, "int8", batches, observer, None)


def quant_post_dynamic(
    model_dir: str, save_model_dir: str, model_filename: str | None = None, params_filename: str | None = None,
    weight_bits: int = 8,
) -> None:  # fmt: skip
    """Quantize the weights of a saved model's products, which needs no samples.

    Args:
        model_dir: Folder with the model.
        save_model_dir: Folder that the model is written to, in Bireme's format.
        model_filename: Name of the program's file. Default: None, whichever is there.
        params_filename: Name of the weights' file, which has to lie beside it under the usual name. Default: None.
        weight_bits: 8 or 4. Default: 8.

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
    os.makedirs(save_model_dir, exist_ok=True)
    target = os.path.join(save_model_dir, "model")
    _write(model_dir, model_filename, target, f"weight-int{weight_bits}", [], None, weight_bits)


def _write(
    folder: str, name: str | None, path: str, to: str, batches: list[list[np.ndarray]], observer: Any, bits: int | None
) -> None:
    where = Path(folder) / name if name is not None else Path(folder)
    model, _ = transformed(model_of(where), USUAL)
    net, _ = quantized_model(model, to, batches, observer, bits=bits)
    specs = [
        InputSpec([None if n < 0 else n for n in shape], dtype.name, key)
        for key, (dtype, shape) in sketches(model)[0].items()
    ]
    made = models_of(net, specs, "quant_post")["forward"]
    made.output_names = model.output_names
    save(TranslatedLayer({"forward": made}, made.program.tensors), path)


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
