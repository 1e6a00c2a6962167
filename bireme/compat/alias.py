"""`import paddle` means Bireme: a finder that maps each module `paddle.x` to the module `bireme.x` itself."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import InspectLoader, Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from bireme import version
from bireme.compat import absent
from bireme.compat.absent import HERE, THERE
from bireme.core.base import dtype

# a folder whose only module is `paddle`: processes that this one starts get sys.path, not its finders
STUBS = str(Path(__file__).with_name("path"))

# Paddle's inner modules that programs name, and the module here that holds what they hold
INNER = {
    "autograd": "autograd.backward_mode",
    "autograd.derivative": "autograd.autograd",
    "base.core": "base.libpaddle device.core",
    "base.data_feeder": "common_ops_import",
    "core.base.dtype": "framework.dtype",
    "defaults": "framework.framework",
    "files": "framework.io",
    "io": "io.reader io.dataloader io.dataloader.batch_sampler io.dataloader.dataset io.dataloader.sampler",
    "incubate": "incubate.operators incubate.tensor incubate.tensor.math",
    "incubate.nn.functional": "incubate.nn.functional.fused_layer_norm incubate.nn.functional.fused_matmul_bias "
    "incubate.nn.functional.fused_rms_norm incubate.nn.functional.fused_transformer",
    "incubate.autograd.functional": "incubate.autograd.primapi",
    "incubate.optimizer": "incubate.optimizer.lbfgs",
    "incubate.optimizer.average": "incubate.optimizer.modelaverage",
    "incubate.optimizer.functional": "incubate.optimizer.functional.bfgs incubate.optimizer.functional.lbfgs",
    "io.loader": "io.dataloader.dataloader_iter",
    "io.collate": "io.dataloader.collate",
    "io.worker": "io.dataloader.worker",
    "metric": "metric.metrics",
    "nn": "nn.layer.activation nn.layer.common nn.layer.container nn.layer.conv nn.layer.distance nn.layer.loss nn.layer.norm "
    "nn.layer.pooling nn.layer.vision",
    "nn.initializer": "nn.initializer.assign nn.initializer.bilinear nn.initializer.constant nn.initializer.dirac nn.initializer.initializer "
    "nn.initializer.kaiming nn.initializer.normal nn.initializer.orthogonal nn.initializer.uniform nn.initializer.xavier",
    "nn.layer": "nn.layer.layers",
    "nn.parameter": "nn.initializer.lazy_init",
    "nn.rnn": "nn.layer.rnn",
    "nn.transformer": "nn.layer.transformer",
    "optimizer.line_search": "incubate.optimizer.line_search_dygraph",
    "optimizer": "optimizer.adadelta optimizer.adagrad optimizer.adamax optimizer.adamw optimizer.asgd optimizer.lamb "
    "optimizer.nadam optimizer.radam optimizer.rmsprop optimizer.rprop",
    "nn.functional": "nn.functional.activation nn.functional.common nn.functional.conv nn.functional.distance nn.functional.extension "
    "nn.functional.input nn.functional.loss nn.functional.norm nn.functional.pooling nn.functional.vision",
    "nn.utils.gradients": "nn.utils.clip_grad_norm_ nn.utils.clip_grad_value_",
    "nn.utils.weight_norm_hook": "nn.utils.spectral_norm_hook",
    "nn.utils.vectors": "nn.utils.transform_parameters",
    "tensor": "tensor.array tensor.attribute tensor.creation tensor.einsum tensor.linalg tensor.logic tensor.manipulation tensor.math tensor.ops "
    "tensor.random tensor.search tensor.stat tensor.to_string",
    "utils": "utils.install_check utils.lazy_import",
    "utils.structure": "utils.layers_utils",
}

# modules of Paddle's that hold the names of others here as well: `paddle.nn.layer.Linear`
WIDER = {
    "bireme.base.data_feeder": "base.framework base.layer_helper base.core",
    "bireme.core": "base.core",
    "bireme.files": "base.framework",
    "bireme.io.worker": "io",
    "bireme.framework": "base.framework base.layer_helper",
    "bireme.nn.initializer": "nn.legacy_initializer",
    "bireme.nn.layer": "nn base.framework base.dygraph.base",
}


def missing(name: str) -> str:
    """Return the message for a module that is missing."""
    return f"{HERE} has no {name} yet" if absent.is_absent(name) else f"No module named '{name}'"


def ours(name: str) -> str:
    return HERE + name.removeprefix(THERE)


def theirs(name: str) -> str:
    return THERE + name.removeprefix(HERE)


class Finder(MetaPathFinder):
    """The first finder: without it, ``paddle.nn`` would be found in Bireme's folder and loaded a second time."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "pip":
            _import_setuptools()
        if fullname.partition(".")[0] != THERE:
            return None
        name = ours(fullname)
        package, _, _ = name.rpartition(".")
        if name not in sys.modules and not (
            hasattr(sys.modules.get(package), "__path__") and importlib.util.find_spec(name)
        ):
            return refused(fullname)
        spec = ModuleSpec(fullname, Same())
        spec.submodule_search_locations = None
        return spec


def _import_setuptools() -> None:
    """Import setuptools, if it is installed: Paddle does so at its start, and after pip Python 3.11 cannot any more."""
    if "setuptools" not in sys.modules and importlib.util.find_spec("setuptools"):
        importlib.import_module("setuptools")


class Missing(MetaPathFinder):
    """The last finder: ``from paddle import x`` looks for a module ``bireme.x`` before it fails."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return refused(theirs(fullname)) if fullname.partition(".")[0] == HERE and path is not None else None


def refused(name: str) -> None:
    """Raise an error for an import of what is missing; ``importlib.util.find_spec`` gets None."""
    if sys._getframe(3).f_code.co_name == "_find_and_load_unlocked":  # over find_spec and importlib's own _find_spec
        raise ModuleNotFoundError(missing(name), name=name)


class Same(Loader):
    """Loader that returns the module of Bireme itself."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(ours(spec.name))
        self._own = module.__spec__
        return module

    def get_code(self, fullname: str) -> CodeType | None:
        """The code of Bireme's module, for `python -m bireme.compat -m paddle.distributed.launch`."""
        spec = importlib.util.find_spec(ours(fullname))
        return spec.loader.get_code(ours(fullname)) if spec and isinstance(spec.loader, InspectLoader) else None

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._own  # the import system has replaced it by that of the new name
        explain(module)


def explain(module: ModuleType) -> None:
    """Let a public module raise a clear error for names of Paddle's that it does not have."""
    own = vars(module).get("__getattr__")
    if module.__name__ in WIDER:
        own = beside([importlib.import_module(f"{HERE}.{name}") for name in WIDER[module.__name__].split()])
    module.__getattr__ = refuse(module, own)  # type: ignore[method-assign]  # a module's own, as Python has them


def beside(modules: list[ModuleType]) -> Callable[[str], Any]:
    def __getattr__(attribute: str) -> Any:
        for module in modules:
            if attribute in vars(module):
                return vars(module)[attribute]
        raise AttributeError(attribute, name=attribute)

    return __getattr__


def refuse(module: ModuleType, own: Callable[[str], Any] | None) -> Callable[[str], Any]:
    name = theirs(module.__name__)

    def __getattr__(attribute: str) -> Any:
        inner = sys.modules.get(f"{name}.{attribute}")
        if own is not None:
            try:
                found = own(attribute)
                # `paddle.tensor.math` is Paddle's module, not `bireme.ops.math.elementwise`
                if inner is None or not isinstance(found, ModuleType):
                    return found
            except AttributeError:
                pass  # a clear error follows below
        if inner is not None:
            return inner
        raise AttributeError(absent.told(module, name, attribute), name=attribute)

    return __getattr__


def install_as_paddle() -> None:
    """Make ``import paddle`` and every ``paddle.x`` mean Bireme in this process.

    Call it before the first import of Paddle. The modules are Bireme's own: ``paddle.nn is bireme.nn``. The version and
    the names of dtypes follow Paddle's, since programs compare them: ``paddle.__version__``, ``str(x.dtype)``; arrays
    of bfloat16 tensors hold its bits as uint16. A second call has no effect. ``python -m bireme.compat script.py`` does
    the same for a whole program.

    Raises:
        RuntimeError: If another ``paddle`` was imported before.

    Examples:
        >>> bireme.compat.install_as_paddle()  # doctest: +SKIP
        >>> import paddle  # doctest: +SKIP
        >>> paddle is bireme  # doctest: +SKIP
        True
    """
    package = sys.modules[HERE]
    before = sys.modules.get(THERE)
    if before is not None and before is not package and getattr(before, "__file__", None) != f"{STUBS}/paddle.py":
        raise RuntimeError(
            "install_as_paddle(): expected to come before the first `import paddle`, "
            f"got paddle from {getattr(before, '__file__', 'elsewhere')}\n"
            "  hint: call it at the top of the program, or run the program with python -m bireme.compat"
        )
    if before is package:
        return
    sys.meta_path.insert(0, Finder())
    sys.meta_path.append(Missing())
    sys.path.insert(min(1, len(sys.path)), STUBS)
    for name, module in list(sys.modules.items()):
        if module is not None and (name == HERE or name.startswith(f"{HERE}.")):
            sys.modules[theirs(name)] = module
            explain(module)
    for here, names in INNER.items():
        # a finder is not asked for what lies inside a module that is no package, such as `nn.layer`
        sys.modules.update({f"{THERE}.{name}": sys.modules[f"{HERE}.{here}"] for name in names.split()})
    # Paddle's package imports itself by name: programs say `paddle.paddle.zeros`
    sys.modules[f"{THERE}.{THERE}"] = package
    package.__version__ = version.__version__ = version.full_version = version.interface  # type: ignore[attr-defined]  # modules made for the alias
    version.major, version.minor, version.patch = version.interface.split(".")
    package.__git_commit__ = version.commit  # type: ignore[attr-defined]  # modules made for the alias
    dtype.package[0] = THERE
