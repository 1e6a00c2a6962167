"""Predictor: a model with handles for its inputs and outputs. Clones share the model, its weights and its programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bireme.core.base import device as devices
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.program import running
from bireme.core.program.building import suspended
from bireme.core.program.program import Items
from bireme.core.program.variable import Symbol
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor as EngineTensor
from bireme.inference.config import Config
from bireme.inference.executables import Executables, as_tensor
from bireme.inference.executors import Choice, Delegated, fastest, of_config
from bireme.inference.handles import Slot, Tensor

LENGTHS = ".lengths"
Hook = Callable[[str, str, EngineTensor], None]


class Predictor:
    """Runs a model, from ``create_predictor``.

    One predictor is used by one thread at a time; ``clone`` gives another one that shares weights and compiled programs.

    Args:
        config: A ``Config``.

    Examples:
        >>> import numpy as np, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bireme.jit.save(bireme.nn.ReLU(), folder + "/net", [bireme.static.InputSpec([None, 2], "float32", "x")])
        ...     predictor = bireme.inference.Predictor(bireme.inference.Config(folder + "/net"))
        >>> [y.tolist() for y in predictor.run([bireme.to_tensor([[-1.0, 2.0]])])]
        [[[0.0, 2.0]]]
    """

    def __init__(self, config: Config):
        if not isinstance(config, Config):
            raise errors.bad("create_predictor(config)", "a Config", config, kind=errors.ArgumentTypeError)
        shared, self.report = of_config(config)
        self._begin(shared)

    def _begin(self, shared: Executables | Delegated) -> None:
        self._shared = shared
        model = shared.model
        self._inputs = {s.name: Slot(s.name, s.dtype) for s in model.inputs if not self._is_lengths(s.name)}
        extra = sum([len(x.lengths) for x in model.outputs if isinstance(x, Symbol)])
        names = model.output_names[: len(model.output_names) - extra]
        self._outputs = {name: Slot(name, x.dtype) for name, x in zip(names, model.outputs[: len(names)], strict=True)}
        self._input_hooks: list[Hook] = []
        self._output_hooks: list[Hook] = []

    def _is_lengths(self, name: str) -> bool:
        names = self._shared.model.input_names
        return name.endswith(LENGTHS) and name.removesuffix(LENGTHS) in names

    def get_input_names(self) -> list[str]:
        """Return the names of the inputs.

        Returns:
            A list of strings.

        Examples:
            >>> callable(bireme.inference.Predictor.get_input_names)
            True
        """
        return list(self._inputs)

    def get_output_names(self) -> list[str]:
        """Return the names of the outputs.

        Returns:
            A list of strings.

        Examples:
            >>> callable(bireme.inference.Predictor.get_output_names)
            True
        """
        return list(self._outputs)

    def get_input_handle(self, name: str) -> Tensor:
        """Return the handle of an input.

        Args:
            name: Its name.

        Returns:
            A ``Tensor``.

        Raises:
            RuntimeError: If there is none of this name.

        Examples:
            >>> callable(bireme.inference.Predictor.get_input_handle)
            True
        """
        return Tensor(_found("get_input_handle(name)", self._inputs, name))

    def get_output_handle(self, name: str) -> Tensor:
        """Return the handle of an output.

        Args:
            name: Its name.

        Returns:
            A ``Tensor``.

        Raises:
            RuntimeError: If there is none of this name.

        Examples:
            >>> callable(bireme.inference.Predictor.get_output_handle)
            True
        """
        return Tensor(_found("get_output_handle(name)", self._outputs, name))

    def run(self, inputs: Sequence[EngineTensor] | None = None) -> list[EngineTensor] | None:
        """Run the model.

        Args:
            inputs: Tensors, one for each input, in order. Default: None, what the handles of the inputs hold.

        Returns:
            A list of tensors, one for each output; without ``inputs`` None, and the handles of the outputs have them.

        Raises:
            RuntimeError: If an input has no values.

        Examples:
            >>> callable(bireme.inference.Predictor.run)
            True
        """
        if inputs is not None:
            if len(inputs) != len(self._inputs):
                raise errors.bad("run(inputs)", f"{len(self._inputs)} tensors ({', '.join(self._inputs)})", len(inputs))
            for slot, given in zip(self._inputs.values(), inputs, strict=True):
                if not isinstance(given, EngineTensor):
                    raise errors.bad("run(inputs)", "tensors", given, kind=errors.ArgumentTypeError)
                slot.value, slot.shape = given, None
        arrays = self._given()
        # their memory is free for the next results, which then lie where the last ones did
        for slot in self._outputs.values():
            slot.value = None
        if self._input_hooks or self._output_hooks:
            made = self._observed(arrays)
        else:
            made = self._shared.run(arrays, to_host=inputs is None)
        self._take(made)
        if inputs is None:
            return None
        tensors = [as_tensor(slot.value, self._shared.device) for slot in self._outputs.values()]
        for slot, t in zip(self._outputs.values(), tensors, strict=True):
            t.name, slot.value = slot.name, t
        return tensors

    def _given(self) -> list[Any]:
        """What each input of the model gets."""
        arrays = []
        for name in self._shared.model.input_names:
            of_rows = name.removesuffix(LENGTHS)
            if self._is_lengths(name):
                arrays.append(_lengths(self._inputs[of_rows]))
                continue
            slot = self._inputs[name]
            if slot.value is None:
                raise errors.failure(
                    f"run: the input {name} has no values", hint=f'get_input_handle("{name}").copy_from_cpu(array)'
                )
            arrays.append(slot.value)
        return arrays

    def _take(self, made: list) -> None:
        """Give the outputs what came."""
        model, slots = self._shared.model, list(self._outputs.values())
        rest = iter(made[len(slots) :])
        for slot, x, value in zip(slots, model.outputs, made, strict=False):
            slot.value, slot.shape = value, None
            lengths = [np.asarray(next(rest)) for _ in x.lengths] if isinstance(x, Symbol) else []
            slot.lod = [[0, *np.cumsum(each).tolist()] for each in lengths]

    def _observed(self, arrays: list) -> list:
        """Make the calls one by one, for hooks; nothing is compiled."""
        model = self._shared.model
        before = devices.use(self._shared.device)
        try:
            with suspended(), no_grad():
                env: dict[Symbol, Any] = {
                    s: a if isinstance(a, EngineTensor) else EngineTensor(a)
                    for s, a in zip(model.inputs, arrays, strict=True)
                }
                for step in model.plan().steps:
                    operation = step.operation
                    read = [x for x in operation.reads if isinstance(x, Symbol)]
                    self._tell(self._input_hooks, operation.type, read, env)
                    dead, step = step.dead, running.Step(operation)
                    running.make([step], env, lambda t: t)
                    self._tell(self._output_hooks, operation.type, operation.makes, env)
                    for symbol in dead:
                        env.pop(symbol, None)
            return [env[x] if isinstance(x, Symbol) else x for x in model.outputs]
        finally:
            devices.use(before)

    def _tell(self, hooks: list[Hook], kind: str, symbols: list[Symbol], env: dict[Symbol, Any]) -> None:
        for symbol in symbols if hooks else ():
            if not isinstance(env[symbol], Items):
                for hook in hooks:
                    hook(kind, symbol.name, env[symbol])

    def register_output_hook(self, hook: Hook) -> None:
        """Call a function with each value that an operation of the model makes.

        With a hook operations run one by one, and nothing is compiled.

        Args:
            hook: Function of the type of the operation, the name of the value, and the tensor.

        Raises:
            TypeError: If it cannot be called.
            RuntimeError: If another executor than the engine runs the model.

        Examples:
            >>> callable(bireme.inference.Predictor.register_output_hook)
            True
        """
        self._output_hooks.append(self._hook("register_output_hook", hook))

    def register_input_hook(self, hook: Hook) -> None:
        """Call a function with each value that an operation of the model reads, but for parameters.

        With a hook operations run one by one, and nothing is compiled.

        Args:
            hook: Function of the type of the operation, the name of the value, and the tensor.

        Raises:
            TypeError: If it cannot be called.
            RuntimeError: If another executor than the engine runs the model.

        Examples:
            >>> callable(bireme.inference.Predictor.register_input_hook)
            True
        """
        self._input_hooks.append(self._hook("register_input_hook", hook))

    def _hook(self, where: str, hook: Any) -> Hook:
        if not callable(hook):
            raise errors.bad(f"{where}(hook)", "a function", hook, kind=errors.ArgumentTypeError)
        if isinstance(self._shared, Delegated):  # the engine would run the model in place of what was chosen
            raise errors.failure(f"{where}: there are no operations to see where an executor runs the whole model")
        return hook

    def clone(self) -> Predictor:
        """Return another predictor with handles of its own, for another thread: weights and programs are shared.

        Returns:
            A ``Predictor``.

        Examples:
            >>> callable(bireme.inference.Predictor.clone)
            True
        """
        made = Predictor.__new__(Predictor)
        made.report = self.report
        made._begin(self._shared)
        return made

    def clear_intermediate_tensor(self) -> None:
        """Has no effect: nothing is kept between runs but inputs and outputs.

        Examples:
            >>> callable(bireme.inference.Predictor.clear_intermediate_tensor)
            True
        """

    def try_shrink_memory(self) -> int:
        """Has no effect: nothing is kept between runs but inputs and outputs.

        Returns:
            The bytes that were given back: 0.

        Examples:
            >>> callable(bireme.inference.Predictor.try_shrink_memory)
            True
        """
        return 0


def _found(where: str, slots: dict[str, Slot], name: Any) -> Slot:
    if name not in slots:
        raise errors.bad(where, f"one of {', '.join(slots)}", name, kind=RuntimeError)
    return slots[name]


def _lengths(slot: Slot) -> np.ndarray:
    """How many rows belong to each sequence; without offsets all are one sequence."""
    if slot.value is None:
        raise errors.failure(f"run: the input {slot.name} has no values")
    rows = int(slot.value.shape[0])
    offsets = slot.lod[-1] if slot.lod else [0, rows]
    if offsets[-1] != rows:
        raise errors.bad("set_lod(lod)", f"offsets up to the {rows} rows of {slot.name}", offsets)
    return np.diff(np.asarray(offsets, np.int64))


class PredictorPool:
    """Predictors that share one model, for several threads.

    Args:
        config: A ``Config``.
        size: How many.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bireme.jit.save(bireme.nn.ReLU(), folder + "/net", [bireme.static.InputSpec([None, 2], "float32", "x")])
        ...     pool = bireme.inference.PredictorPool(bireme.inference.Config(folder + "/net"), 2)
        >>> pool.retrieve(1).get_input_names()
        ['x']
    """

    def __init__(self, config: Config, size: int):
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise errors.bad("PredictorPool(size)", "a positive integer", size)
        first = create_predictor(config)
        self._predictors = [first, *[first.clone() for _ in range(size - 1)]]

    def retrieve(self, index: int) -> Predictor:
        """Return a predictor.

        Args:
            index: Its index.

        Returns:
            A ``Predictor``.

        Raises:
            IndexError: If there is none of this index.

        Examples:
            >>> callable(bireme.inference.PredictorPool.retrieve)
            True
        """
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < len(self._predictors):
            raise errors.bad("retrieve(index)", f"0 to {len(self._predictors) - 1}", index, kind=errors.OutOfRangeError)
        return self._predictors[index]


def create_predictor(config: Config) -> Predictor:
    """Return a predictor for a model.

    The model may be one of ``jit.save`` (``.json`` and ``.safetensors``), of Paddle's (``.pdmodel`` or ``.json`` with
    ``.pdiparams``, folders of older versions), or in ONNX.

    Args:
        config: A ``Config``, which may be changed and used again afterwards.

    Returns:
        A ``Predictor``.

    Raises:
        FileNotFoundError: If there is no such model.
        ValueError: If no model is set, or a file is damaged.

    Examples:
        >>> import numpy as np, tempfile
        >>> net = bireme.nn.Linear(2, 1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bireme.jit.save(net, folder + "/net", [bireme.static.InputSpec([None, 2], "float32", "x")])
        ...     predictor = bireme.inference.create_predictor(bireme.inference.Config(folder + "/net"))
        >>> x = np.array([[1.0, 2.0]], "float32")
        >>> predictor.get_input_handle("x").copy_from_cpu(x)
        >>> predictor.run()
        >>> y = predictor.get_output_handle(predictor.get_output_names()[0]).copy_to_cpu()
        >>> bool(np.allclose(y, net(bireme.to_tensor(x)).numpy()))
        True
    """
    return Predictor(config)


def optimize(config: Config, inputs: Sequence[Any], rounds: int = 5) -> Choice:
    """Measure which executor runs a model fastest.

    Each runs the model on the same inputs, in turns; the engine's programs are compiled before. Nothing is changed but in the
    ``Config`` that is returned, and ``print`` says what was measured.

    Args:
        config: A ``Config``, whose own choice of an executor is passed over.
        inputs: Arrays or tensors, one for each input, as those that will come.
        rounds: Runs of each that are timed. Default: 5.

    Returns:
        A ``Choice``: ``config`` with the fastest executor, its name, and the times.

    Raises:
        ValueError: If ``rounds`` is not positive.
        RuntimeError: If none can run the model.

    Examples:
        >>> import numpy as np, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bireme.jit.save(bireme.nn.ReLU(), folder + "/net", [bireme.static.InputSpec([None, 2], "float32", "x")])
        ...     choice = bireme.inference.optimize(bireme.inference.Config(folder + "/net"), [np.ones((1, 2), "float32")])
        >>> choice.executor == choice.config.executor() and "bireme" in choice.milliseconds
        True
    """
    if not isinstance(config, Config):
        raise errors.bad("optimize(config)", "a Config", config, kind=errors.ArgumentTypeError)
    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
        raise errors.bad("optimize(rounds)", "a positive integer", rounds)
    return fastest(create_predictor, config, inputs, rounds)


guard_functions(globals())
