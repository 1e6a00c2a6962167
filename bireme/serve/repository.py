"""The models of a server: versions of each, loaded and unloaded while it runs; one that fails leaves the others up."""

from __future__ import annotations

import asyncio
import os
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bireme.core.base import errors
from bireme.inference.saved import numbered
from bireme.serve.batching import Arrays, Batcher, Limits, nothing, sizes
from bireme.serve.protocol import NAMES
from bireme.serve.refusals import BAD, BUSY, UNKNOWN, Held, Refused, sentence
from bireme.serve.running import Runner

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_LOADED = "READY"


class Served:
    """One version of a model: where it is, what it takes and gives once it is loaded, and why it is not."""

    def __init__(self, name: str, version: str, path: str):
        self.name, self.version, self.path = name, version, path
        self.reason = "it is not loaded"
        self.stamp: Any = None  # of the files that it was loaded from
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
            "outputs": [{"name": n, "datatype": NAMES[d], "shape": s} for n, (d, s) in runner.outputs.items()],
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
        warm: Whether a model that is batched compiles for all sizes of batches when it is loaded, instead of when they come.
            Default: False.
        device: Where models run, as ``'gpu:0'``. Default: None, the device of ``bireme.get_device()``.

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
        models: Mapping[str, str | os.PathLike],
        limits: Limits | None = None,
        *,
        batching: bool = True,
        lazy: bool = False,
        warm: bool = False,
        device: str | None = None,
    ):
        self.limits = limits or Limits()
        self.held = Held(self.limits.memory)
        self._batching, self._warm, self._device = batching, warm, device
        self.on_run: Callable[[Served, int, float], None] = nothing
        self.on_request: Callable[[str, int, float], None] = nothing
        self._changing: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)  # one change of a model at a time
        self._paths = {name: os.fspath(path) for name, path in models.items()}
        self._models: dict[str, dict[str, Served]] = {}
        for name, path in self._paths.items():
            if not _NAME.fullmatch(name):
                hint = "NAME=MODEL names one"
                raise errors.bad("Repository(models)", "names of letters, digits, _, . and -", name, hint=hint)
            self._models[name] = {v: Served(name, v, p) for v, p in _versions(path).items()}
            if not lazy:
                for served in self._models[name].values():
                    self._begin(served)

    def _begin(self, served: Served) -> Batcher | None:
        """Load a version that is not loaded, or whose files changed; one that fails keeps its reason. What was loaded
        before is returned, to be closed.
        """
        stamp = _stamp(served.path)
        if served.ready and stamp is not None and served.stamp == stamp:
            return None
        with ThreadPoolExecutor(1) as worker:
            work = worker.submit(self._runner, served.path)
            error = work.exception()  # whatever it is, the other models are served
        if error is not None:
            told = f"it could not be loaded: {sentence(error)}"
            if not served.ready:
                served.reason = told
                return None
            raise Refused(BAD, f"model {served.name}, version {served.version} stays as it was: {told}")
        before, runner = served.batcher, work.result()

        def ran(rows: int, seconds: float) -> None:
            served.ran(rows, seconds)
            self.on_run(served, rows, seconds)

        served.batcher = Batcher(runner.run, self.limits, self._joins(runner), ran)
        served.runner, served.reason, served.stamp = runner, "", stamp
        return before

    def _joins(self, runner: Runner) -> bool:
        return self._batching and self.limits.batch > 1 and runner.open_rows

    def _runner(self, path: str) -> Runner:
        runner = Runner(path, self._device)
        if self._warm and self._joins(runner):
            runner.prepare(sizes(self.limits.batch))
        return runner

    async def load(self, name: str) -> None:
        """Load what a model's folder has now: versions that are new, or whose files changed, or that are not loaded; those
        that are gone are unloaded. Refused if no version can be loaded. Requests are answered meanwhile.

        Args:
            name: Its name.
        """
        self._known(name)
        loop = asyncio.get_running_loop()
        async with self._changing[name]:
            there = await loop.run_in_executor(None, _versions, self._paths[name])
            known = self._models[name]
            gone = [served for v, served in known.items() if v not in there]
            versions = {v: known.get(v) or Served(name, v, path) for v, path in there.items()}
            for served in versions.values():
                before = await loop.run_in_executor(None, self._begin, served)
                if before is not None:
                    await before.close()
            self._models[name] = versions
            await asyncio.gather(*[_end(served, "its files are gone") for served in gone])
        if not any(served.ready for served in versions.values()):
            raise Refused(BAD, f"model {name}: {next(iter(versions.values())).reason}")

    async def unload(self, name: str) -> None:
        """Finish what a model has accepted and let go of it.

        Args:
            name: Its name.
        """
        self._known(name)
        async with self._changing[name]:
            await asyncio.gather(*[_end(served, "it was unloaded") for served in self._models[name].values()])

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


async def _end(served: Served, reason: str) -> None:
    batcher, served.batcher, served.runner, served.reason = served.batcher, None, None, reason
    if batcher is not None:
        await batcher.close()


def _stamp(path: str) -> Any:
    """Times and sizes of the files that a model may consist of; None where they cannot be looked at, which who loads it tells."""
    given = Path(path)
    try:
        folder = given if given.is_dir() else given.parent
        stem = "" if given.is_dir() else given.stem
        files = sorted(folder.iterdir()) if folder.is_dir() else []
        found = [(p.name, p.stat()) for p in files if p.is_file() and p.name.startswith(stem)]
    except OSError:
        return None
    return [(name, told.st_mtime_ns, told.st_size) for name, told in found]


def _versions(path: str) -> dict[str, str]:
    """Paths by version, the smallest first: folders with numbers for names, or the path itself as version 1."""
    return {p.name: os.fspath(p) for p in numbered(path)} or {"1": path}
