"""save_state_dict: every process writes the pieces that it alone has, and its share of those that several have."""

from __future__ import annotations

import json
import os
import secrets
import sys
import threading
import time
import zlib
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from bireme.core.base import errors, shutdown
from bireme.core.processes import connection
from bireme.core.processes.collectives import Call
from bireme.core.tensor.tensor import Tensor
from bireme.distributed import world
from bireme.distributed.checkpoint import array_files, boxes, manifest, parts
from bireme.distributed.checkpoint.flat_names import flattened
from bireme.distributed.checkpoint.sharded_weight import ShardedWeight
from bireme.distributed.communication.group import Group, member

__all__ = ["clear_async_save_task_queue", "save_state_dict"]

POLL = 0.02  # seconds between two looks at whether the others have written


class _State:
    running: set[str] = set()  # folders that this process writes now
    writer: ThreadPoolExecutor | None = None
    last: Future | None = None
    lock = threading.Lock()


def save_state_dict(
    state_dict: dict[str, Any],
    path: str | os.PathLike,
    process_group: Group | None = None,
    coordinator_rank: int = 0,
    unique_id: int | None = None,
    async_save: bool = False,
    safetensors: bool = False,
) -> None:
    """Save tensors of which processes may have parts, as a new version in a folder; all processes call it.

    Each tensor is saved once, in the pieces in which processes have it, and can be loaded in any other. The version
    appears whole or not at all, even if processes are killed; earlier versions are kept.

    Args:
        state_dict: Dict of names and tensors, or of dicts of them; numbers, str and lists of these may be among them. A
            tensor that a tensor parallel layer has divided, or a ``ShardedWeight``, is a part of a larger one.
        path: The folder, which all processes have to see.
        process_group: The processes that have the tensors. Default: None, all.
        coordinator_rank: Rank of the process that writes the manifest. Default: 0.
        unique_id: Number of the version; one of this number is replaced. Default: None, the next number.
        async_save: Return at once, and write the values as they are now in a thread. The next save or load and the end
            of the process wait for it; its error is printed, and raised by the next save or load, or by
            ``clear_async_save_task_queue``. Default: False.
        safetensors: Not used: the files are always of this format. Default: False.

    Raises:
        OSError: If a file cannot be written.
        RuntimeError: If another process could not write, or is gone.

    Examples:
        >>> import tempfile
        >>> layer = bireme.nn.Linear(2, 3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bireme.distributed.save_state_dict(layer.state_dict(), folder)
        ...     sorted(bireme.distributed.load_merged_state_dict(folder))
        ['bias', 'weight']
    """
    save(state_dict, path, process_group, coordinator_rank, unique_id, async_save)


def save(
    state_dict: dict[str, Any],
    path: str | os.PathLike,
    process_group: Group | None,
    coordinator_rank: int,
    unique_id: int | None,
    async_save: bool,
    keep: int | None = None,
    damaged: frozenset[int] = frozenset(),
) -> None:
    """``save_state_dict``, which removes all but the newest versions, and damaged ones, when the new one is there."""
    where, path = "save_state_dict", os.path.abspath(os.fspath(path))
    if unique_id is not None and (isinstance(unique_id, bool) or not isinstance(unique_id, int) or unique_id < 0):
        raise errors.bad(f"{where}(unique_id)", "a non-negative integer", unique_id, kind=errors.for_number(unique_id))
    settle()
    flat = flattened(f"{where}(state_dict)", state_dict)
    job = _Save(path, process_group, coordinator_rank, flat, unique_id)
    job.keep, job.damaged = keep, damaged
    if not async_save:
        job.run()
        return
    with _State.lock:
        if _State.writer is None:
            _State.writer = ThreadPoolExecutor(1, "bireme.save_state_dict")
        _State.last = _State.writer.submit(job.run_aside)


def settle() -> None:
    """Wait for what is being written, and raise its error."""
    last, _State.last = _State.last, None
    if last is not None:
        last.result()


def clear_async_save_task_queue() -> None:
    """Wait until what ``save_state_dict`` saves in the background is written, and raise its error if it failed.

    Raises:
        OSError: If a file could not be written.
        RuntimeError: If another process could not write, or is gone.

    Examples:
        >>> import tempfile
        >>> checkpoint = bireme.distributed.checkpoint
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     checkpoint.save_state_dict({"w": bireme.ones([2])}, folder, async_save=True)
        ...     checkpoint.clear_async_save_task_queue()
        ...     sorted(checkpoint.load_merged_state_dict(folder))
        ['w']
    """
    settle()


def _forked() -> None:
    """Forget everything in a forked child, which has no such thread: the files are the parent's."""
    _State.lock, _State.writer, _State.last, _State.running = threading.Lock(), None, None, set()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class _Save:
    """One version on its way to the disk."""

    keep: int | None = None
    damaged: frozenset[int] = frozenset()

    def __init__(self, path: str, group: Group | None, coordinator: int, state: dict, version: int | None):
        self.path = path
        self.group = member("save_state_dict", group) if group is not None or world.size() > 1 else None
        self.ranks = [0] if self.group is None else self.group.ranks
        self.rank = world.rank() if self.group is not None else 0
        if coordinator not in self.ranks:
            raise errors.bad("save_state_dict(coordinator_rank)", f"a rank of {self.ranks}", coordinator)
        self.leads, self.coordinator = self.rank == coordinator, coordinator
        call = Call("save_state_dict", path)
        arrays, pieces, values = self._taken(call, state)
        mine: dict[str, Any] = {
            "pieces": pieces,
            "values": values,
            "token": secrets.token_hex(8) if self.leads else "",
            "version": version,
        }
        if self.leads and version is None:
            mine["version"] = max(manifest.versions(path), default=-1) + 1
        told = [mine]
        if self.group is not None and self.group.nranks > 1:
            told = [json.loads(row) for row in self.group.channel.gather_bytes(call, json.dumps(mine).encode())]
        elif call.failed is not None:
            raise call.failed
        lead = told[self.ranks.index(coordinator)]
        self.version, self.token = lead["version"], lead["token"]
        self.folder = manifest.part_folder(path, self.version, self.token)
        tensors = self._shared_out([one["pieces"] for one in told])
        every = {name: x for one in told for name, x in one["values"].items()}
        self.manifest = {"tensors": tensors, "values": every | lead["values"]}
        self.stem = f"data_{self.rank}"
        own = self.stem + array_files.ENDING
        self.arrays = {
            piece["key"]: arrays[name, json.dumps([piece["offset"], piece["shape"], piece["flat"]])]
            for name, tensor in tensors.items()
            for piece in tensor["pieces"]
            if piece["file"] == own
        }
        _State.running.add(self.folder)

    def _taken(self, call: Call, state: dict) -> tuple[dict[tuple[str, str], Any], dict[str, Any], dict[str, Any]]:
        """Arrays of this process' tensors by name and block, which blocks they are, and plain values."""
        arrays, pieces, values = {}, {}, {}
        for name, (x, _, _) in state.items():
            if not isinstance(x, (Tensor, ShardedWeight)):
                values[name] = x
                continue
            dtype = x.dtype.np if isinstance(x, Tensor) else x.local_tensor.dtype.np
            manifest.dtype_of("save_state_dict", name, np.dtype(dtype))
            blocks = []
            for held in parts.held(name, x, call):
                blocks.append([list(held.offset), list(held.shape), None if held.flat is None else list(held.flat)])
                arrays[name, json.dumps(blocks[-1])] = held.array
            pieces[name] = [np.dtype(dtype).name, list(parts.whole_shape(name, x)), blocks]
        return arrays, pieces, values

    def _shared_out(self, told: list[dict[str, Any]]) -> dict[str, Any]:
        """Which process writes which piece: one that several have is written by one of them, in turn."""
        tensors: dict[str, Any] = {}
        owners: dict[tuple[str, str], list[int]] = {}
        for rank, pieces in zip(self.ranks, told):
            for name, (dtype, shape, blocks) in pieces.items():
                tensor = tensors.setdefault(name, {"dtype": dtype, "shape": shape, "pieces": []})
                if [tensor["dtype"], tensor["shape"]] != [dtype, shape]:
                    expected = f"{name} as {tensor['dtype']}{tensor['shape']} in all processes"
                    raise errors.bad(
                        "save_state_dict(state_dict)", expected, described=f"{dtype}{shape} in rank {rank}"
                    )
                for block in blocks:
                    able = owners.setdefault((name, json.dumps(block)), [])
                    if not able:
                        tensor["pieces"].append(block)
                    able.append(rank)
        for name, tensor in tensors.items():
            blocks, tensor["pieces"] = tensor["pieces"], []
            for i, (offset, shape, flat) in enumerate(blocks):
                able = owners[name, json.dumps([offset, shape, flat])]
                rank = able[(zlib.crc32(name.encode()) + i) % len(able)]
                key = f"{name}@{i}" if len(blocks) > 1 else name
                file = f"data_{rank}{array_files.ENDING}"
                piece = {"file": file, "key": key, "offset": offset, "shape": shape, "flat": flat}
                tensor["pieces"].append(piece)
            self._check_pieces(name, tensor)
        return tensors

    @staticmethod
    def _check_pieces(name: str, tensor: dict[str, Any]) -> None:
        """Which of two values that processes have of a number is right nobody knows."""
        if len(tensor["pieces"]) > 1:
            saved = manifest.parsed_tensor(name, tensor)
            pair = boxes.overlapping([box for piece in saved.pieces for box in piece.boxes()])
            if pair is not None:
                got = f"parts at {list(pair[0].offset)} and {list(pair[1].offset)}"
                raise errors.bad("save_state_dict(state_dict)", f"parts of {name} that do not overlap", described=got)

    def run_aside(self) -> None:
        """Write; an error is printed before somebody who waits gets it, since maybe nobody does."""
        try:
            self.run()
        except BaseException as e:
            sys.stderr.write(f"bireme: save_state_dict({self.path}): {e}\n")
            raise

    def run(self) -> None:
        """Write, and wait until all have: then it has its name, or an error is raised in all processes."""
        problem: Exception | None = None
        try:
            with manifest.telling("save_state_dict", self.folder, manifest.UNCHANGED):
                os.makedirs(self.folder, exist_ok=True)
            if self.arrays:
                array_files.write("save_state_dict", self.folder, self.stem, self._arrays(), manifest.UNCHANGED)
        except OSError as e:
            problem = e
        self.arrays = {}
        try:
            self._agree("written", problem)
            if self.leads:
                try:
                    manifest.publish(self.path, self.folder, self.version, self.manifest)
                    manifest.tidy(self.path, _State.running - {self.folder})
                    manifest.prune(self.path, self.keep, self.damaged - {self.version})
                except OSError as e:
                    problem = e
            self._agree("named", problem, [self.coordinator])
        finally:
            _State.running.discard(self.folder)

    def _arrays(self) -> dict[str, np.ndarray]:
        return {key: shutdown.within(np.asarray, array) for key, array in self.arrays.items()}

    def _agree(self, stage: str, problem: Exception | None, ranks: list[int] | None = None) -> None:
        """Tell how it went here, and wait to hear how it went in other processes."""
        linked = connection.current() if self.group is not None and self.group.nranks > 1 else None
        if linked is None:
            if problem is not None:
                raise problem
            return
        ranks = self.ranks if ranks is None else ranks
        folder = f"checkpoint/{self.token}/{stage}/"
        if self.rank in ranks:
            linked.tell(f"{folder}{self.rank}", "" if problem is None else connection.first_line(problem))
        while True:
            told, ended = linked.told(folder), linked.told("ended/")
            failed = {rank: text for rank, text in told.items() if text}
            if problem is not None:
                raise problem
            if failed:
                said = "; ".join(f"{text} in {linked.name(rank)}" for rank, text in sorted(failed.items()))
                raise errors.failure(f"save_state_dict({self.path}): expected all processes to write, got {said}")
            missing = [rank for rank in ranks if rank not in told]
            if not missing:
                return
            gone = [f"{linked.name(rank)} is gone ({ended[rank][0]})" for rank in missing if rank in ended]
            if gone:
                text = f"save_state_dict({self.path}) in {linked.name(self.rank)}: {'; '.join(gone)}"
                raise errors.as_told(errors.ProcessLostError(text))
            time.sleep(POLL)
