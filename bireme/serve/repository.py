"""The models of a server: versions of each, loaded and unloaded while it runs; one that fails leaves the others up."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bireme.core.base import errors
from bireme.serve.batching import Arrays, Batcher, Limits, nothing
from bireme.serve.protocol import NAMES
from bireme.serve.refusals import BAD, BUSY, UNKNOWN, Refused
from bireme.serve.running import Runner

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_LOADED = "READY"


class Served:
    """One version of a model: where it is, what it takes and gives once it is loaded, and why it is not."""

    def __init__(self, name: str, version: str, path: str):
        self.name, self.version, self.path = name, version, path
        self.reason = "it is not loaded"
        self.runner: Runner | None = None
        self.batcher: Batcher | None = None
        self.batches = self.rows = 0
        self.busy = 0.0  # seconds that it ran

    @property
    def ready(self) -> bool:
        return self.batcher is not None

    def ran(self, rows: int, seconds: float) -> None:
        """Count a batch."""
        self.batches += 1
        self.rows += rows
        self.busy += seconds

    def metadata(self, versions: list[str]) -> dict[str, Any]:
        """As the protocol describes a model."""
        runner = self.loaded()
        return {
            "name": self.name,
            "versions": versions,
            "platform": "bireme",
            "inputs": [{"name": n, "datatype": NAMES[d], "shape": s} for n, (d, s) in runner.inputs.items()],
            "outputs": [
                {"name": n, "datatype": NAMES.get(d, "FP32"), "shape": s} for n, (d, s) in runner.outputs.items()
            ],
        }

    def loaded(self) -> Runner:
        """What runs it; refused while there is nothing."""
        if self.runner is None or self.batcher is None:
            raise Refused(BUSY, f"model {self.name}, version {self.version}: {self.reason}")
        return self.runner

    async def infer(self, inputs: Arrays, wanted: list[str] | None) -> Arrays:
        """Outputs by name for checked inputs."""
        runner = self.loaded()
        _check(inputs, runner)
        for name in wanted or []:
            if name not in runner.outputs:
                raise Refused(BAD, f"there is no output {name[:60]}; there are {', '.join(runner.outputs)}")
        assert self.batcher is not None
        made = await self.batcher.submit(inputs)
        return made if wanted is None else {name: made[name] for name in wanted}


def _check(inputs: Arrays, runner: Runner) -> None:
    if set(inputs) != set(runner.inputs):
        raise Refused(
            BAD, f"expected the inputs {', '.join(runner.inputs)}, got {', '.join(n[:60] for n in inputs) or 'none'}"
        )
    for name, array in inputs.items():
        dtype, shape = runner.inputs[name]
        fits = len(shape) == array.ndim and all(n in (-1, m) for n, m in zip(shape, array.shape, strict=True))
        if array.dtype != dtype or not fits:
            got = f"{NAMES[array.dtype]} of shape {list(array.shape)}"
            raise Refused(BAD, f"{name}: expected {NAMES[dtype]} of shape {shape}, got {got}")


class Repository:
    """The models that a server offers.

    Args:
        models: Paths of saved models by name. A folder whose folders have numbers for names holds versions of a model,
            of which the largest is served when a client names none.
        limits: What is taken on. Default: None, ``Limits()``.
        batching: Whether requests may be joined, where a model's inputs and outputs leave their first size open. Rows are
            then to be independent of each other, as they are in inference. Default: True.
        lazy: Whether models wait to be loaded by a client's request. Default: False.

    Raises:
        ValueError: If a name has other characters than letters, digits, ``_``, ``.`` and ``-``.

    Examples:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> bireme.jit.save(bireme.nn.Linear(2, 3), folder + "/net", [bireme.static.InputSpec([None, 2], name="x")])
        >>> repository = bireme.serve.Repository({"net": folder + "/net"})
        >>> [model["state"] for model in repository.index()]
        ['READY']
    """

    def __init__(
        self,
        models: dict[str, str | os.PathLike],
        limits: Limits | None = None,
        *,
        batching: bool = True,
        lazy: bool = False,
    ):
        self.limits = limits or Limits()
        self._batching = batching
        self.on_run: Callable[[Served, int, float], None] = nothing
        self._changing = threading.Lock()
        self._models: dict[str, dict[str, Served]] = {}
        for name, path in models.items():
            if not _NAME.fullmatch(name):
                raise errors.bad("Repository(models)", "names of letters, digits, _, . and -", name)
            self._models[name] = {v: Served(name, v, p) for v, p in _versions(os.fspath(path)).items()}
            if not lazy:
                self._load(name)

    def _load(self, name: str) -> None:
        """Load all versions of a model; one that fails keeps its reason."""
        for served in self._models[name].values():
            with self._changing:
                if served.ready:
                    continue
                try:
                    runner = Runner(served.path)
                except (OSError, ValueError, TypeError, LookupError, RuntimeError, ImportError, MemoryError) as e:
                    served.reason = "it could not be loaded: " + (str(e).splitlines() or [type(e).__name__])[0]
                    continue
                served.runner, served.reason = runner, ""
                together = self._batching and self.limits.batch > 1 and runner.open_rows

                def ran(rows: int, seconds: float, served: Served = served) -> None:
                    served.ran(rows, seconds)
                    self.on_run(served, rows, seconds)

                served.batcher = Batcher(runner.run, self.limits, together, ran)

    async def load(self, name: str) -> None:
        """Load a model of this repository that is not loaded; refused if no version can be.

        Args:
            name: Its name.
        """
        versions = self._known(name)
        await asyncio.get_running_loop().run_in_executor(None, self._load, name)
        if not any(served.ready for served in versions.values()):
            raise Refused(BAD, f"model {name}: {next(iter(versions.values())).reason}")

    async def unload(self, name: str) -> None:
        """Finish what a model has accepted and let go of it.

        Args:
            name: Its name.
        """
        for served in self._known(name).values():
            batcher, served.batcher, served.runner, served.reason = served.batcher, None, None, "it was unloaded"
            if batcher is not None:
                await batcher.close()

    async def close(self) -> None:
        """Unload all models."""
        await asyncio.gather(*[self.unload(name) for name in self._models])

    def _known(self, name: str) -> dict[str, Served]:
        if name not in self._models:
            raise Refused(UNKNOWN, f"there is no model {name[:60]}")
        return self._models[name]

    def get(self, name: str, version: str = "") -> Served:
        """A version of a model.

        Args:
            name: The model's name.
            version: Default: ``''``, the largest that is ready.

        Returns:
            What is known of it, with ``infer``.
        """
        versions = self._known(name)
        if version:
            if version not in versions:
                raise Refused(
                    UNKNOWN, f"there is no version {version[:20]} of model {name}; there are {', '.join(versions)}"
                )
            return versions[version]
        ready = [served for served in versions.values() if served.ready]
        return ready[-1] if ready else list(versions.values())[-1]

    def versions(self, name: str) -> list[str]:
        """The versions of a model.

        Args:
            name: Its name.

        Returns:
            Their numbers as strings, the smallest first.
        """
        return list(self._known(name))

    @property
    def ready(self) -> bool:
        """Whether every model is."""
        return all(any(s.ready for s in versions.values()) for versions in self._models.values())

    def index(self) -> list[dict[str, str]]:
        """Every version of every model, and its state."""
        return [
            {"name": s.name, "version": s.version, "state": _LOADED if s.ready else "UNAVAILABLE", "reason": s.reason}
            for versions in self._models.values()
            for s in versions.values()
        ]

    def all(self) -> list[Served]:
        """Every version of every model."""
        return [served for versions in self._models.values() for served in versions.values()]


def _versions(path: str) -> dict[str, str]:
    """Paths by version, the smallest first: folders with numbers for names, or the path itself as version 1."""
    folder = Path(path)
    numbered = [p for p in folder.iterdir() if p.is_dir() and p.name.isdigit()] if folder.is_dir() else []
    if not numbered:
        return {"1": path}
    return {p.name: os.fspath(p) for p in sorted(numbered, key=lambda p: int(p.name))}
