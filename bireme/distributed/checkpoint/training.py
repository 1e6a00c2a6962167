"""Checkpoint: all that a training run of several processes needs to go on, by as many processes or by others."""

from __future__ import annotations

import json
import os
import random as python_random
from typing import Any

import numpy as np

from bireme.core.base import errors, random_state
from bireme.core.base.errors import FileFormatError
from bireme.core.processes.collectives import Call
from bireme.distributed import world
from bireme.distributed.checkpoint import manifest
from bireme.distributed.checkpoint.flat_names import flattened
from bireme.distributed.checkpoint.load_state_dict import load
from bireme.distributed.checkpoint.logical import set_sharded_state, sharded_state
from bireme.distributed.checkpoint.save_state_dict import save, settle
from bireme.distributed.communication.group import Group, member
from bireme.distributed.fleet.layers.mpu.random import get_rng_state_tracker
from bireme.io import DataLoader, DistributedBatchSampler, order
from bireme.nn.layer import Layer

__all__ = ["Checkpoint"]


class Checkpoint:
    """Saves the whole state of a training run of any number of processes, and resumes it with any other number.

    Saved are model and optimizer with its schedule as logical tensors, the scaler, the random states of all processes,
    the position in the data, and ``extra``. All processes call ``save`` and ``resume``. Training goes on while files are
    written; a version is there when all of it is on the disk.

    With a ``DistributedBatchSampler`` the global batch is kept: for another number of processes ``resume`` changes the
    batch size of each, and they go on with the sample at which the others stopped.

    Args:
        folder: Folder of the versions, which all processes have to see.
        model: The model, also one that ``fleet.distributed_model`` or ``group_sharded_parallel`` has returned.
        optimizer: Its optimizer. Default: None.
        scaler: The ``GradScaler``. Default: None.
        loader: The ``DataLoader``. Default: None.
        keep: Number of newest versions to keep; None keeps all. Default: 3.
        async_save: Write in a thread while training goes on. Default: True.
        process_group: The processes. Default: None, all.

    Examples:
        >>> import tempfile
        >>> layer = bireme.nn.Linear(1, 1)
        >>> optimizer = bireme.optimizer.SGD(0.1, parameters=layer.parameters())
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     saved = bireme.distributed.checkpoint.Checkpoint(folder, layer, optimizer, keep=2)
        ...     saved.save(7, epoch=1)
        ...     saved.resume(), saved.extra
        (7, {'epoch': 1})
    """

    def __init__(
        self,
        folder: str | os.PathLike,
        model: Layer,
        optimizer: Any = None,
        scaler: Any = None,
        loader: DataLoader | None = None,
        keep: int | None = 3,
        async_save: bool = True,
        process_group: Group | None = None,
    ) -> None:
        if not isinstance(folder, (str, os.PathLike)):
            raise errors.bad("Checkpoint(folder)", "the name of a folder", folder, kind=errors.ArgumentTypeError)
        if not isinstance(model, Layer):
            raise errors.bad("Checkpoint(model)", "a Layer", model, kind=errors.ArgumentTypeError)
        if loader is not None and not isinstance(loader, DataLoader):
            raise errors.bad("Checkpoint(loader)", "a DataLoader", loader, kind=errors.ArgumentTypeError)
        if keep is not None and (isinstance(keep, bool) or not isinstance(keep, int) or keep < 1):
            raise errors.bad("Checkpoint(keep)", "a positive integer or None", keep, kind=errors.for_number(keep))
        self.folder, self.keep, self.async_save = os.path.abspath(os.fspath(folder)), keep, async_save
        self.model, self.optimizer, self.scaler, self.loader = model, optimizer, scaler, loader
        self.extra: dict[str, Any] = {}
        self._group, self._damaged = process_group, set[int]()

    def steps(self) -> list[int]:
        """Return the steps that there are versions of, in increasing order.

        Examples:
            >>> bireme.distributed.checkpoint.Checkpoint("a_folder_that_does_not_exist", bireme.nn.ReLU()).steps()
            []
        """
        return sorted(manifest.versions(self.folder))

    def save(self, step: int, **extra: Any) -> None:
        """Save the state after a step, and then remove all but the newest ``keep`` versions.

        Args:
            step: Number of steps so far: the number of the version.
            **extra: Other data to save: numbers, str, lists and dicts; ``resume`` puts it into ``self.extra``.

        Raises:
            OSError: If a file, of this call or of the one before, could not be written.
            RuntimeError: If another process could not write, or is gone.
        """
        if isinstance(step, bool) or not isinstance(step, int) or step < 0:
            raise errors.bad("Checkpoint.save(step)", "a non-negative integer", step, kind=errors.for_number(step))
        group = self._processes()
        state = {
            **sharded_state(self.model, self.optimizer),
            "extra": _text("Checkpoint.save(extra)", extra),
            "processes": 1 if group is None else group.nranks,
            f"random.{0 if group is None else group.rank}": json.dumps(self._random()),
        }
        if self.scaler is not None:
            told = {key: x.tolist() if isinstance(x, np.ndarray) else x for key, x in self.scaler.state_dict().items()}
            state["scaler"] = json.dumps(told)
        if self.loader is not None:
            state["loader"] = json.dumps(_place(self.loader))
        first = 0 if group is None else group.ranks[0]
        save(state, self.folder, self._group, first, step, self.async_save, self.keep, frozenset(self._damaged))
        self._damaged.clear()

    def wait(self) -> None:
        """Wait until what was saved last is on the disk.

        Raises:
            OSError: If a file could not be written.
            RuntimeError: If another process could not write, or is gone.
        """
        settle()

    def resume(self) -> int | None:
        """Load the newest version that is intact.

        A damaged one gives a warning, and the one before it is loaded.

        Returns:
            Its step; None if there is no version.

        Raises:
            RuntimeError: If all versions are damaged.
            ValueError: If the version is of another model, or the processes cannot share its global batch.

        Examples:
            >>> layer = bireme.nn.Linear(1, 1)
            >>> bireme.distributed.checkpoint.Checkpoint("a_folder_that_does_not_exist", layer).resume() is None
            True
        """
        settle()
        steps = self._agreed(self.steps())[0]
        for step in reversed(steps):
            problem = self._tried(step)
            problems = [text for text in self._agreed(problem) if text]
            if not problems:
                return step
            errors.warn(f"Checkpoint.resume(): step {step} is damaged: {problems[0]}; going back to the one before")
            self._damaged.add(step)
        if steps:
            described = f"{len(steps)} damaged ones in {self.folder}"
            raise errors.bad("Checkpoint.resume()", "an undamaged version", described=described, kind=RuntimeError)
        return None

    def _processes(self) -> Group | None:
        return member("Checkpoint", self._group) if self._group is not None or world.size() > 1 else None

    def _agreed(self, mine: Any) -> list[Any]:
        """What all processes say, in their order."""
        group = self._processes()
        if group is None or group.nranks == 1:
            return [mine]
        call = Call("Checkpoint.resume", self.folder)
        return [json.loads(row) for row in group.channel.gather_bytes(call, json.dumps(mine).encode())]

    def _tried(self, step: int) -> str:
        """Load a version; what is wrong with it, if it is damaged."""
        try:
            with manifest.opened("Checkpoint.resume", self.folder, step) as version:
                state = sharded_state(self.model, self.optimizer)
                load(flattened("Checkpoint.resume", state), version)
                values = version.values
        except (FileFormatError, OSError) as e:
            return str(e).partition("\n")[0]
        set_sharded_state(state, self.model, self.optimizer)
        self.extra = json.loads(values["extra"])
        if self.scaler is not None and "scaler" in values:
            self.scaler.load_state_dict(json.loads(values["scaler"]))
        started = self._restore_random(values)
        if self.loader is not None and "loader" in values:
            _go_to(self.loader, json.loads(values["loader"]), started)
        return ""

    def _random(self) -> dict[str, Any]:
        """The random states of this process, as plain data."""
        at_epoch = None if self.loader is None else self.loader.state_dict().get("random")
        tracker = {name: [list(one) for one in states] for name, states in get_rng_state_tracker().states_.items()}
        return {
            "now": _plain(order.snapshot()),
            "epoch": None if at_epoch is None else _plain(at_epoch),
            "seeded": random_state.was_seeded(),
            "tracker": tracker,
        }

    def _restore_random(self, values: dict[str, Any]) -> dict[str, Any] | None:
        """Restore the random states of this process; of the data's order, the state when the epoch began."""
        group = self._processes()
        rank, count = (0, 1) if group is None else (group.rank, group.nranks)
        saved = [json.loads(values[f"random.{i}"]) for i in range(values["processes"])]
        mine = saved[min(rank, len(saved) - 1)]
        if mine["seeded"] and not random_state.was_seeded():
            random_state.seed(0)  # whether it was called decides where orders come from; the state itself is set next
        order.restore(_arrays(mine["now"]))
        if count == len(saved) and mine["tracker"]:
            states = {name: [tuple(one) for one in states] for name, states in mine["tracker"].items()}
            get_rng_state_tracker().set_states_tracker(states)
        if rank >= len(saved) and len({tuple(one["now"]["framework"]) for one in saved}) > 1:
            _branch(mine["now"]["framework"], rank)
        return None if mine["epoch"] is None else _arrays(mine["epoch"])


def _branch(state: list[str], rank: int) -> None:
    """Give a process that was not there before random numbers of its own, since the others have such."""
    found = np.random.SeedSequence([*map(int, state), rank]).generate_state(1, np.uint64)
    seed = int(found[0]) >> 1
    random_state.default_generator().set_state((seed, 0))
    np.random.set_state(np.random.RandomState(seed & 0xFFFFFFFF).get_state())  # noqa: NPY002 - samplers draw from it
    python_random.seed(seed)


def _text(where: str, extra: dict[str, Any]) -> str:
    try:
        return json.dumps(extra)
    except (TypeError, ValueError) as e:
        expected = "numbers, str, lists and dicts"
        raise errors.bad(where, expected, described=str(e), kind=errors.ArgumentTypeError) from None


def _plain(state: dict[str, Any]) -> dict[str, Any]:
    """What ``order.snapshot`` returned, with arrays as text."""
    found = dict(state)
    for name in ("numpy", "python"):
        found[name] = [x.astype("<u4").tobytes().hex() if isinstance(x, np.ndarray) else x for x in state[name]]
    return found


def _arrays(state: dict[str, Any]) -> dict[str, Any]:
    found = dict(state)
    for name in ("numpy", "python"):
        found[name] = [np.frombuffer(bytes.fromhex(x), "<u4") if isinstance(x, str) else x for x in state[name]]
    return found


def _place(loader: DataLoader) -> dict[str, Any]:
    """Where a loader is in its data, in terms that do not depend on the number of processes."""
    state, sampler = loader.state_dict(), loader.batch_sampler
    shared = isinstance(sampler, DistributedBatchSampler)
    return {
        "batches": state["batches"],
        "epoch": state.get("epoch"),
        "global_batch": _global_batch(sampler) if shared else None,
    }


def _global_batch(sampler: DistributedBatchSampler) -> int:
    return sampler.batch_size * sampler._acc_steps * sampler.nranks


def _go_to(loader: DataLoader, place: dict[str, Any], started: dict[str, Any] | None) -> None:
    """Let a loader go on where another one was; a global batch is shared out among the processes that are there now."""
    sampler, whole = loader.batch_sampler, place["global_batch"]
    if isinstance(sampler, DistributedBatchSampler) and whole is not None and _global_batch(sampler) != whole:
        parts = sampler.nranks * sampler._acc_steps
        if whole % parts:
            expected = f"processes that share a global batch of {whole}"
            raise errors.bad("Checkpoint.resume()", expected, described=f"{parts}, which do not divide it")
        sampler.batch_size = whole // parts
    state: dict[str, Any] = {"batches": place["batches"]}
    if started is not None:
        state["random"] = started
    if place["epoch"] is not None:
        state["epoch"] = place["epoch"]
    loader.set_state_dict(state)
