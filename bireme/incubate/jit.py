"""Functions that run as saved models: captured when they are called, saved, and run by a predictor from then on."""

from __future__ import annotations

import copy
import functools
import hashlib
import inspect
import json
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bireme import jit
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.tensor.tensor import Tensor
from bireme.core.xla_exec import compile_cache, private
from bireme.device import get_device
from bireme.inference.config import Config
from bireme.inference.kinds import PrecisionType
from bireme.inference.predictor import Predictor
from bireme.nn.layer import Layer
from bireme.static import InputSpec

__all__ = ["inference"]

PRECISIONS = {
    "float32": PrecisionType.Float32,
    "float16": PrecisionType.Half,
    "bfloat16": PrecisionType.Bfloat16,
}


class Inferred:
    """A function as a saved model: captured again only where a size differs from before, which stays open then."""

    def __init__(self, function: Callable[..., Any], settings: dict[str, Any]):
        functools.update_wrapper(self, function)
        self.function, self.settings = function, settings
        self.signature = inspect.signature(function)
        self.models: dict[Any, tuple[list[list[int | None]], Predictor]] = {}

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        if owner is None:
            return self
        # kept by the owner: its models go with it
        name = f"_inferred_{self.function.__name__}"
        if name not in vars(owner):
            object.__setattr__(owner, name, Inferred(self.function.__get__(owner, kind), self.settings))
        return vars(owner)[name]

    def __deepcopy__(self, memo: dict[int, Any]) -> Inferred:
        # the copy has parameters of its own, so models of its own
        return Inferred(copy.deepcopy(self.function, memo), self.settings)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = self.signature.bind(*args, **kwargs)
        given.apply_defaults()
        if given.kwargs:
            raise errors.bad(
                "inference(function)", "a function without keyword-only arguments", described=", ".join(given.kwargs)
            )
        values = list(given.args)
        tensors = [t for x in values for t in _tensors(x)]
        key = tuple([_key(x) for x in values])
        known = self.models.get(key)
        if known is None or not _fits(known[0], tensors):
            known = self.models[key] = self._made(values, tensors, None if known is None else known[0])
        found = known[1].run(tensors)
        assert found is not None
        return found[0] if len(found) == 1 else found

    def _made(self, values: list[Any], tensors: list[Tensor], before: Any) -> tuple[list[list[int | None]], Predictor]:
        """The sizes that stay open or not, and a predictor for them."""
        if not tensors:
            raise errors.bad("inference(function)", "a call with tensors", described="none")
        cached = self.settings["cache_static_model"]
        digest = hashlib.sha256(repr([_key(x) for x in values]).encode()).hexdigest()[:16]
        name = f"{re.sub('[^0-9A-Za-z_.]', '', self.function.__qualname__)}-{digest}"
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(_directory(self.settings["save_model_dir"]) if cached else folder, name)
            told = Path(path + ".sizes.json")
            sizes = json.loads(told.read_text()) if cached and told.is_file() and before is None else None
            if sizes is None or not _fits(sizes, tensors):
                sizes = [
                    [n if n == m else None for n, m in zip(old, t.shape)]
                    for old, t in zip(before or sizes or [t.shape for t in tensors], tensors)
                ]
                open_sizes = iter(sizes)
                jit.save(self.function, path, [_spec(x, open_sizes, f"x{i}") for i, x in enumerate(values)])
                told.write_text(json.dumps(sizes))
            return sizes, Predictor(self._config(path))

    def _config(self, path: str) -> Config:
        config = Config(path)
        kind, _, index = get_device().partition(":")
        precision = PRECISIONS[self.settings["precision_mode"]]
        if kind == "gpu":
            config.enable_use_gpu(self.settings["memory_pool_init_size_mb"], int(index or 0), precision)
        else:
            config.enable_custom_device(kind, int(index or 0), precision)
        config.switch_ir_optim(self.settings["switch_ir_optim"])
        for name in self.settings["delete_pass_lists"] or ():
            config.delete_pass(name)
        return config


def _directory(named: str | None) -> str:
    """The folder that models are kept in: the user's, or one beside the compile cache that is closed to others."""
    if named is not None:
        os.makedirs(named, exist_ok=True)
        return os.fspath(named)
    cache = compile_cache.directory()
    if cache is None:
        raise errors.failure(
            "inference(save_model_dir): expected a home directory to keep models in, got none",
            hint="let save_model_dir name a folder",
        )
    folder = cache.with_name(f"{cache.name}-models")
    os.close(private.open_folder(folder))
    return str(folder)


def _tensors(x: Any) -> list[Tensor]:
    if isinstance(x, (list, tuple)):
        return [t for y in x for t in _tensors(y)]
    return [x] if isinstance(x, Tensor) else []


def _key(x: Any) -> Any:
    """A kind of argument: the type and dimensions of a tensor, all else by its value."""
    if isinstance(x, (list, tuple)):
        return (type(x).__name__, *[_key(y) for y in x])
    return ("tensor", x.dtype.name, x.ndim) if isinstance(x, Tensor) else repr(x)


def _fits(sizes: Sequence[Sequence[int | None]], tensors: list[Tensor]) -> bool:
    return len(sizes) == len(tensors) and all(
        len(some) == t.ndim and all(n is None or n == m for n, m in zip(some, t.shape))
        for some, t in zip(sizes, tensors)
    )


def _spec(x: Any, sizes: Any, name: str) -> Any:
    """What stands for an argument when it is captured."""
    if isinstance(x, (list, tuple)):
        return type(x)([_spec(y, sizes, f"{name}_{i}") for i, y in enumerate(x)])
    return InputSpec(next(sizes), x.dtype.name, name) if isinstance(x, Tensor) else x


def inference(
    function: Any = None,
    cache_static_model: bool = False,
    save_model_dir: str | None = None,
    memory_pool_init_size_mb: int = 1000,
    precision_mode: str = "float32",
    switch_ir_optim: bool = True,
    switch_ir_debug: bool = False,
    enable_cinn: bool = False,
    with_trt: bool = False,
    trt_precision_mode: str = "float32",
    trt_use_static: bool = False,
    collect_shape: bool = False,
    enable_new_ir: bool = False,
    exp_enable_use_cutlass: bool = False,
    delete_pass_lists: list[str] | None = None,
    skip_prune_program: bool = False,
) -> Any:
    """Let a layer or one of its methods run as a saved model, by a predictor; also a decorator.

    The first call captures the function in evaluation, with the parameters as they are then, saves it, and makes a predictor
    of it, as ``inference.create_predictor`` does. Later calls run the predictor. Sizes that differ from those before stay
    open from then on.

    Args:
        function: A layer, whose ``forward`` is meant, a method of a layer, or a function of tensors. Default: None, for use
            as ``@inference(...)``.
        cache_static_model: Whether to keep the model, and to use one that is kept, with its parameters. Default: False.
        save_model_dir: Folder to keep it in. Default: None, one beside the compile cache.
        memory_pool_init_size_mb: As for ``Config.enable_use_gpu``. Default: 1000.
        precision_mode: ``'float32'``, ``'float16'`` or ``'bfloat16'``. Default: ``'float32'``.
        switch_ir_optim: As for ``Config.switch_ir_optim``. Default: True.
        switch_ir_debug: Not used.
        enable_cinn: Not used: XLA compiles.
        with_trt: Not used: there is no TensorRT.
        trt_precision_mode: Not used.
        trt_use_static: Not used.
        collect_shape: Not used: the shapes that come are compiled.
        enable_new_ir: Not used.
        exp_enable_use_cutlass: Not used.
        delete_pass_lists: Names of passes to leave out. Default: None.
        skip_prune_program: Not used.

    Returns:
        The layer, whose ``forward`` runs so, or the function. Results are a tensor, or a list of several.

    Raises:
        TypeError: If something else than a layer or a function is given.
        ValueError: If ``precision_mode`` is not known.

    Examples:
        >>> net = bireme.nn.Sequential(bireme.nn.Linear(3, 4), bireme.nn.ReLU())
        >>> x = bireme.ones([2, 3])
        >>> wanted = net(x)
        >>> net = bireme.incubate.inference(net)
        >>> bool(bireme.allclose(net(x), wanted, atol=1e-5))
        True
    """
    if precision_mode not in PRECISIONS:
        raise errors.bad("inference(precision_mode)", f"one of {', '.join(map(repr, PRECISIONS))}", precision_mode)
    settings = {
        "cache_static_model": bool(cache_static_model),
        "save_model_dir": save_model_dir,
        "memory_pool_init_size_mb": memory_pool_init_size_mb,
        "precision_mode": precision_mode,
        "switch_ir_optim": bool(switch_ir_optim),
        "delete_pass_lists": delete_pass_lists,
    }

    def decorated(given: Any) -> Any:
        if isinstance(given, Inferred) or (isinstance(given, Layer) and isinstance(given.forward, Inferred)):
            return given
        if isinstance(given, Layer):
            object.__setattr__(given, "forward", Inferred(given.forward, settings))
            return given
        if not callable(given) or inspect.isclass(given):
            raise errors.bad("inference(function)", "a layer or a function", given, kind=errors.ArgumentTypeError)
        return Inferred(given, settings)

    return decorated if function is None else decorated(function)


guard_functions(globals())
