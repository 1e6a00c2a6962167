"""Executors of predictors: runtimes that run a whole saved model in place of the engine, ONNX Runtime among them.

A runtime or a chip comes in through `Executor` and `register_executor` alone; see decisions/049.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bireme.core.base import device as devices
from bireme.core.base import errors, workers
from bireme.core.base.boundary import guard_functions
from bireme.core.base.extras import extra
from bireme.core.program.program_model import Model
from bireme.core.tensor.tensor import Tensor
from bireme.inference import loading
from bireme.inference.executables import Executables
from bireme.inference.saved import sketches
from bireme.onnx.packages import part

ENGINE = "bireme"  # the name of the engine among executors
Run = Callable[[list[np.ndarray]], list[np.ndarray]]


class ExportedModel:
    """A saved model as an executor gets it: what it takes and gives, and its graph in ONNX.

    Args:
        graph: The graph.
        device: Where it is to run, as ``"cpu"`` or ``"gpu:0"``.
        threads: Threads that it may use, None for all cores of the process.
        file: Path of the ONNX file that it was read from, if it was.

    Attributes:
        inputs: dtype and sizes of each input by name, in order; -1 for sizes that are open.
        outputs: The same of the outputs.
        device: Where it is to run.
        threads: Threads that it may use.

    Examples:
        >>> bireme.inference.ExportedModel.onnx.__name__
        'onnx'
    """

    def __init__(self, graph: Model, device: str = "cpu", threads: int | None = None, file: str | None = None):
        self.inputs, self.outputs = sketches(graph)
        self.device, self.threads = device, threads or workers.processors()
        self._graph, self._file = graph, file

    def onnx(self, integer_products: bool = False) -> bytes:
        """Return the graph as the bytes of an ONNX file.

        Args:
            integer_products: Write ConvInteger for convolutions of integers whose results are not rounded, where other runtimes
                than ONNX Runtime want convolutions of floats. Default: False.

        Returns:
            Those of the file that it was read from, where it was one, else of one that is written now.

        Raises:
            ImportError: If the package onnx is not installed.
            RuntimeError: If a function of it has no form in ONNX.

        Examples:
            >>> callable(bireme.inference.ExportedModel.onnx)
            True
        """
        if self._file is not None:
            with open(self._file, "rb") as file:
                return file.read()
        made = part("writing.model").written(self._graph, integer_products=integer_products)
        return made.SerializeToString()


class Executor:
    """What runs saved models: an object with a name and a method, of a class that derives from this one or of any other.

    ``prepare(model)`` gets an ``ExportedModel`` and returns a function of a list of arrays, one for each input in order,
    that returns a list of arrays, one for each output. It may take long; the function is called for every run, with any sizes
    that the model leaves open, from several threads at once. Where the executor cannot run the model, or not on its device,
    ``prepare`` raises: nothing else is run in its place.

    Examples:
        >>> class Zeros:
        ...     name = "zeros"
        ...     def prepare(self, model):
        ...         return lambda arrays: [arrays[0] * 0 for _ in model.outputs]
        >>> bireme.inference.register_executor(Zeros()).name
        'zeros'
    """

    name: str

    def prepare(self, model: ExportedModel) -> Run:
        """Return a function that runs a model.

        Args:
            model: The model.

        Returns:
            A function of a list of arrays that returns a list of arrays.

        Examples:
            >>> callable(bireme.inference.Executor.prepare)
            True
        """
        raise NotImplementedError(f"{type(self).__name__} has no method prepare")


class OnnxRuntime(Executor):
    """The executor ``"onnxruntime"``."""

    name = "onnxruntime"

    def prepare(self, model: ExportedModel) -> Run:
        """A session for a model."""
        runtime = extra("onnxruntime", "onnx", "to run models by it")
        place, _, index = model.device.partition(":")
        provider = {"cpu": "CPUExecutionProvider", "gpu": "CUDAExecutionProvider"}.get(place, place)
        if provider not in runtime.get_available_providers():
            found = ", ".join(runtime.get_available_providers())
            raise errors.failure(f"onnxruntime has no {provider} for the device {model.device}; it has {found}")
        options = runtime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = model.threads, 1
        options.log_severity_level = 3
        # what a weight of integers is multiplied by stays in float32; it would be rounded to int8 otherwise
        options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
        chosen = [(provider, {"device_id": index})] if index else [provider]
        # it has kernels for convolutions of integers, and computes those in QDQ form whose results are not rounded from floats
        session = runtime.InferenceSession(model.onnx(integer_products=place == "cpu"), options, providers=chosen)
        names = [x.name for x in session.get_inputs()]
        order = [list(model.inputs).index(name) for name in names]
        return lambda arrays: session.run(None, {name: arrays[i] for name, i in zip(names, order, strict=True)})


_ALL: dict[str, Any] = {}


def register_executor(executor: Any) -> Any:
    """Register what runs saved models, under its name.

    ``Config.set_executor`` and ``optimize`` know it from then on.

    Args:
        executor: Object with a ``name`` and a method ``prepare(model)``, see ``Executor``.

    Returns:
        The executor.

    Raises:
        ValueError: If the name is that of the engine.

    Examples:
        >>> class Zeros:
        ...     name = "zeros"
        ...     def prepare(self, model):
        ...         return lambda arrays: [arrays[0] * 0 for _ in model.outputs]
        >>> bireme.inference.register_executor(Zeros()).name
        'zeros'
    """
    if not isinstance(getattr(executor, "name", None), str) or not callable(getattr(executor, "prepare", None)):
        expected = "an object with a name and a method prepare"
        raise errors.bad("register_executor(executor)", expected, executor, kind=errors.ArgumentTypeError)
    if executor.name == ENGINE:
        raise errors.bad("register_executor(executor)", "a name that is not the engine's", executor.name)
    _ALL[executor.name] = executor
    return executor


register_executor(OnnxRuntime())


def names() -> list[str]:
    """The names of all executors, the engine's first."""
    return [ENGINE, *_ALL]


def check(where: str, name: Any) -> str:
    """The name of an executor, if it is one."""
    if name not in names():
        raise errors.bad(where, f"one of {', '.join(map(repr, names()))}", name)
    return name


class Delegated:
    """What clones of a predictor share where an executor runs the model."""

    def __init__(self, model: Model, device: Any, name: str, threads: int | None, file: str | None):
        self.model, self.device = model, device
        self._run = _ALL[name].prepare(ExportedModel(model, device.name, threads, file))

    def run(self, arrays: list, to_host: bool = True) -> list:
        """Results for one array or tensor per input, on the host in any case."""
        return list(self._run([x.numpy() if isinstance(x, Tensor) else np.asarray(x) for x in arrays]))


def of_config(config: Any) -> tuple[Executables | Delegated, list[str]]:
    """The model that a Config names, read once and on its device, and what its passes changed."""
    where = "create_predictor(config)"
    if config._gpu is not None:
        device = devices.parse(f"gpu:{config._gpu}", where)
    else:
        kind, index = config._device or ("cpu", 0)
        device = devices.parse(kind if kind == "cpu" else f"{kind}:{index}", where)
    device.ensure(where)
    model, report = loading.prepared(config)
    if not config._delegated():
        return Executables(model, device, config.ir_optim(), config._compiling), report
    file = loading.onnx_file(config)
    return Delegated(model, device, config.executor(), config._threads, file), [*report, f"run by {config.executor()}"]


@dataclass
class Choice:
    """What ``optimize`` found.

    Args:
        config: A copy of the ``Config`` with the executor that is chosen.
        executor: Its name.
        milliseconds: Of a run, the median, by the name of the executor.
        failed: Why others could not run the model, by name.

    Examples:
        >>> print(bireme.inference.Choice(bireme.inference.Config(), "bireme", {"bireme": 2.0}, {"onnxruntime": "not installed"}))
        bireme is chosen: bireme 2.00 ms; onnxruntime: not installed
    """

    config: Any
    executor: str
    milliseconds: dict[str, float]
    failed: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        times = ", ".join([f"{name} {ms:.2f} ms" for name, ms in self.milliseconds.items()])
        return "; ".join(
            [f"{self.executor} is chosen: {times}", *[f"{name}: {why}" for name, why in self.failed.items()]]
        )


def fastest(make: Callable[[Any], Any], config: Any, inputs: Sequence[Any], rounds: int) -> Choice:
    """Time the executors in turns on the same inputs; `make` makes a predictor."""
    predictors: dict[str, Any] = {}
    failed: dict[str, str] = {}
    times: dict[str, list[float]] = {}
    for name in names():
        own = type(config)(config)
        own.set_executor(name)
        try:
            predictor = make(own)
            for _ in range(2):  # the first run compiles
                predictor._shared.run(list(inputs), to_host=True)
        except (ImportError, RuntimeError, ValueError, TypeError, NotImplementedError) as e:
            failed[name] = str(e).splitlines()[0]
            continue
        predictors[name], times[name] = (own, predictor), []
    if not predictors:
        raise errors.failure("no executor can run the model: " + "; ".join([f"{n}: {e}" for n, e in failed.items()]))
    for _ in range(rounds):
        for name, (_, predictor) in predictors.items():
            begin = time.perf_counter()
            results = predictor._shared.run(list(inputs), to_host=True)
            _ = [np.asarray(y) for y in results]  # the engine's may not be there yet
            times[name].append((time.perf_counter() - begin) * 1e3)
    medians = {name: float(np.median(each)) for name, each in times.items()}
    best = min(medians, key=lambda name: medians[name])
    return Choice(predictors[best][0], best, medians, failed)


guard_functions(globals())
