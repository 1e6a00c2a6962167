"""Saving and loading of graphs: `jit.save`, `jit.load` and the layer that a loaded graph is."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.program.program import Program, _for_test, leaves
from bireme.core.program.program_model import Model
from bireme.core.tensor.parameter import Parameter
from bireme.core.tensor.tensor import Tensor
from bireme.files import paddle_models, program_files
from bireme.jit import capture
from bireme.jit.static_function import StaticFunction
from bireme.nn.layer import Layer
from bireme.static.input import InputSpec


def save(layer: Layer | Callable, path: str, input_spec: Sequence[Any] | None = None, **configs: Any) -> None:
    """Save the graph of a layer or function with its parameters, to be loaded without its source.

    Two files are written: the graph as readable JSON, ``path + '.json'``, and the tensors, ``path + '.safetensors'``.
    Neither can run code.

    Args:
        layer: Layer or function. Other methods of the layer that were given to ``to_static`` are saved with it. Dropout
            and normalization do what they do in evaluation.
        path: Path without an ending. Folders that are missing are made.
        input_spec: List of ``InputSpec``, tensors or plain values, for the arguments in order. Default: None, what
            ``to_static`` was given, or the last call.
        **configs: ``format="paddle"`` writes a model that Paddle loads and runs, ``path + '.json'`` and
            ``path + '.pdiparams'``; it has the function ``forward`` only. The others have no effect.

    Raises:
        ValueError: If ``format`` is unknown.
        RuntimeError: If a call has no form in the format.

    Examples:
        >>> import tempfile
        >>> net = bireme.nn.Linear(2, 3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bireme.jit.save(net, folder + "/net", [bireme.static.InputSpec([None, 2], "float32", "x")])
        ...     again = bireme.jit.load(folder + "/net")
        >>> x = bireme.ones([4, 2])
        >>> bool((again(x) == net(x)).all())
        True
    """
    where = "save(path)"
    if not isinstance(path, (str, os.PathLike)) or not os.path.basename(os.fspath(path)):
        raise errors.bad(where, "a path that ends in a name", path)
    kind = configs.get("format", "bireme")
    if kind not in ("bireme", "paddle"):
        raise errors.bad("save(format)", "'bireme' or 'paddle'", kind)
    models = models_of(layer, input_spec, "save")
    if kind == "paddle":
        paddle_models.save(models["forward"], _made_folder(os.fspath(path)))
    else:
        program_files.write(_made_folder(os.fspath(path)), models)


def _made_folder(path: str) -> str:
    folder = os.path.dirname(path)
    if folder:
        os.makedirs(folder, exist_ok=True)
    return path


def models_of(layer: Any, input_spec: Any, where: str) -> dict[str, Model]:
    """The graphs of a layer or function in evaluation, by name."""
    if isinstance(layer, TranslatedLayer):
        return dict(layer._models)
    if isinstance(layer, Layer):
        found = {}
        for name in dir(type(layer)):
            if name == "forward" or isinstance(getattr(type(layer), name, None), StaticFunction):
                fn = getattr(layer, name)
                if name == "forward" or fn._input_spec is not None or fn._last is not None:
                    found[name] = _model(fn, layer, input_spec if name == "forward" else None, where)
        return found
    if not callable(layer):
        raise errors.bad(f"{where}(layer)", "a layer or a function", layer, kind=errors.ArgumentTypeError)
    return {"forward": _model(layer, getattr(layer, "__self__", None), input_spec, where)}


def _model(fn: Any, owner: Any, input_spec: Any, where: str) -> Model:
    layer = owner if isinstance(owner, Layer) else None
    if isinstance(fn, StaticFunction):
        made = fn.concrete_program_specify_input_spec(input_spec).model
    elif input_spec is None:
        raise errors.bad(f"{where}(input_spec)", "a list of InputSpec, since no call was captured", None)
    else:
        specs = tuple(capture.checked_specs(f"{where}(input_spec)", input_spec))
        target = layer if layer is not None and fn == layer.forward else fn
        made = capture.captured(target, specs, {}, layer)
    return for_evaluation(made)


def for_evaluation(model: Model) -> Model:
    """The model with dropout and normalization as in evaluation. It changes nothing, so that any number of threads can run
    it: what the code gives its buffers is left out, and told.
    """
    left_out = [o.scope for o in model.program.operations if o.type == "set_buffer"]
    if left_out:
        errors.warn(
            f"the saved graph leaves the buffers {', '.join(left_out)} as they are, though forward sets them: "
            "if it does that in training only, call eval() before saving"
        )
    return Model(model.program.clone(for_test=True), model.inputs, model.results, model.output_names)


def load(path: str, **configs: Any) -> TranslatedLayer:
    """Load a graph that ``save`` wrote, or a model of Paddle's, as a layer.

    Args:
        path: Path without an ending.
        **configs: ``model_filename`` and ``params_filename`` for a folder with a model of Paddle's.

    Returns:
        A ``TranslatedLayer``.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a file is damaged or not of a known format.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bireme.jit.save(bireme.nn.Linear(2, 3), folder + "/net", [bireme.static.InputSpec([None, 2])])
        ...     bireme.jit.load(folder + "/net")(bireme.ones([1, 2])).shape
        [1, 3]
    """
    if not isinstance(path, (str, os.PathLike)):
        raise errors.bad("load(path)", "a path", path, kind=errors.ArgumentTypeError)
    path = os.fspath(path)
    if program_files.is_ours(path + program_files.GRAPH):
        models, tensors, _ = program_files.read(path, "load(path)")
        return TranslatedLayer(models, tensors)
    model = paddle_models.load(*_paddle_files(path, configs))
    if isinstance(model.results, list) and len(model.results) == 1:
        model.results = model.results[0]
    return TranslatedLayer({"forward": model}, model.program.tensors)


def _paddle_files(path: str, configs: dict[str, Any]) -> tuple[str, str | None]:
    """Paths of a program and of parameters that Paddle wrote."""
    names = [configs.get(key) for key in ("model_filename", "params_filename")]
    program, params = [None if name is None else os.path.join(path, str(name)) for name in names]
    return program or path, params


class TranslatedLayer(Layer):
    """A layer whose ``forward`` is a loaded graph. It runs, trains and is saved as any layer.

    ``jit.load`` makes it.

    Args:
        programs: Graphs by the names of the functions that they were.
        persistable_vars: Tensors that they read, by name.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bireme.jit.save(bireme.nn.Linear(2, 3), folder + "/net", [bireme.static.InputSpec([None, 2])])
        ...     layer = bireme.jit.load(folder + "/net")
        >>> isinstance(layer, bireme.jit.TranslatedLayer), len(layer.parameters())
        (True, 2)
    """

    def __init__(self, programs: dict[str, Model], persistable_vars: dict[str, Tensor]):
        super().__init__()
        self._models = dict(programs)
        self._training_models: dict[str, Model] = {}
        self._is_test = True
        for name, t in persistable_vars.items():
            if isinstance(t, Parameter):
                self._parameters[name] = t
            elif t.persistable:
                self._buffers[name] = t
        for name in self._models:
            if not hasattr(Layer, name):  # what a layer has is never hidden
                self.__dict__[name] = _Function(self, name)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Run the graph.

        Args:
            *inputs: Values of its inputs, in order, nested as they were when it was captured.
            **kwargs: Further inputs by name.

        Returns:
            What the captured function returned.
        """
        return self._run("forward", inputs, kwargs)

    def _run(self, name: str, inputs: tuple, kwargs: dict[str, Any]) -> Any:
        model = self._models[name] if self._is_test else self._training_model(name)
        given = [x for x in leaves(list(inputs)) if not isinstance(x, (InputSpec, type(None)))]
        for key in model.input_names[len(given) :]:
            if key in kwargs:
                given.append(kwargs[key])
        return model.run(*given)

    def _training_model(self, name: str) -> Model:
        found = self._training_models.get(name)
        if found is None:
            model = self._models[name]
            program = model.program.clone()
            for operation in program.operations:
                _for_test(operation, training=True)
            found = Model(program, model.inputs, model.results, model.output_names)
            self._training_models[name] = found
        return found

    def train(self) -> TranslatedLayer:
        """Let dropout and normalization do what they do in training.

        Returns:
            The layer itself.

        Examples:
            >>> callable(bireme.jit.TranslatedLayer.train)
            True
        """
        self._is_test = False
        super().train()
        return self

    def eval(self) -> TranslatedLayer:
        """Let dropout and normalization do what they do in evaluation, as they do after loading.

        Returns:
            The layer itself.

        Examples:
            >>> callable(bireme.jit.TranslatedLayer.eval)
            True
        """
        self._is_test = True
        super().eval()
        return self

    def program(self, method_name: str = "forward") -> Program:
        """Return the program of a function.

        Args:
            method_name: Its name. Default: ``"forward"``.

        Returns:
            A ``Program``.

        Raises:
            ValueError: If there is no such function.

        Examples:
            >>> callable(bireme.jit.TranslatedLayer.program)
            True
        """
        if method_name not in self._models:
            raise errors.bad("program(method_name)", f"one of {list(self._models)}", method_name)
        return self._models[method_name].program


class _Function:
    """Another function of the layer that was saved."""

    def __init__(self, layer: TranslatedLayer, name: str):
        self.layer, self.name = layer, name

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.layer._run(self.name, inputs, kwargs)


guard_functions(globals())
