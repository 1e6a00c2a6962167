"""save_state_dict: every process writes the pieces that it alone has, and its share of those that several have."""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
import zlib
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.processes import connection
from bireme.core.processes.collectives import Call
from bireme.core.tensor.tensor import Tensor
from bireme.distributed import world
from bireme.distributed.checkpoint import manifest
from bireme.distributed.checkpoint.flat_names import flattened
from bireme.distributed.checkpoint.sharded_weight import ShardedWeight, part_of
from bireme.distributed.communication.group import Group, member

__all__ = ["save_state_dict"]

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
        async_save: Return when the values are copied, and write in a thread. The next save, and the end of the process,
            wait for it; its error is raised by the next save. Default: False.
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
    where, path = "save_state_dict", os.path.abspath(os.fspath(path))
    _settle()
    job = _Save(path, process_group, coordinator_rank, flattened(f"{where}(state_dict)", state_dict), unique_id)
    if not async_save:
        job.run()
        return
    with _State.lock:
        if _State.writer is None:
            _State.writer = ThreadPoolExecutor(1, "bireme.save_state_dict")
        _State.last = _State.writer.submit(job.run)


def _settle() -> None:
    """Wait for what is being written, and raise its error."""
    last, _State.last = _State.last, None
    if last is not None:
        last.result()


class _Save:
    """One version on its way to the disk."""

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
        self.manifest = {"tensors": self._shared_out([one["pieces"] for one in told]), "values": values}
        own = f"data_{self.rank}.safetensors"
        wanted = {
            piece["key"]: name
            for name, tensor in self.manifest["tensors"].items()
            for piece in tensor["pieces"]
            if piece["file"] == own
        }
        # copies: training may go on before they are written
        self.arrays = {key: np.array(arrays[name]) for key, name in wanted.items()}
        _State.running.add(self.folder)

    def _taken(self, call: Call, state: dict) -> tuple[dict[str, np.ndarray], dict[str, Any], dict[str, Any]]:
        """Numbers of this process' tensors, which pieces they are, and plain values."""
        arrays, pieces, values = {}, {}, {}
        for name, (x, _, _) in state.items():
            if not isinstance(x, (Tensor, ShardedWeight)):
                values[name] = x
                continue
            part = part_of(name, x)
            flat = None
            if part.is_flattened:
                chosen = part.flattened_range or slice(0, part.local_tensor.size)
                flat = [chosen.start or 0, chosen.stop]
            arrays[name] = call.read(part.local_tensor)
            block = [list(part.global_offset), list(part.local_shape), flat]
            pieces[name] = [arrays[name].dtype.name, list(part.global_shape), block]
        return arrays, pieces, values

    def _shared_out(self, told: list[dict[str, Any]]) -> dict[str, Any]:
        """Which process writes which piece: one that several have is written by one of them, in turn."""
        tensors: dict[str, Any] = {}
        owners: dict[str, list[int]] = {}
        for rank, pieces in zip(self.ranks, told):
            for name, (dtype, shape, block) in pieces.items():
                tensor = tensors.setdefault(name, {"dtype": dtype, "shape": shape, "pieces": []})
                if [tensor["dtype"], tensor["shape"]] != [dtype, shape]:
                    expected = f"{name} as {tensor['dtype']}{tensor['shape']} in all processes"
                    raise errors.bad(
                        "save_state_dict(state_dict)", expected, described=f"{dtype}{shape} in rank {rank}"
                    )
                key = json.dumps([name, block])
                if key not in owners:
                    tensor["pieces"].append(block)
                owners.setdefault(key, []).append(rank)
        for name, tensor in tensors.items():
            found = []
            for i, block in enumerate(tensor["pieces"]):
                able = owners[json.dumps([name, block])]
                rank = able[(zlib.crc32(name.encode()) + i) % len(able)]
                key = f"{name}@{i}" if len(tensor["pieces"]) > 1 else name
                found.append(
                    {
                        "file": f"data_{rank}.safetensors",
                        "key": key,
                        "offset": block[0],
                        "shape": block[1],
                        "flat": block[2],
                    }
                )
            tensor["pieces"] = found
        return tensors

    def run(self) -> None:
        """Write, and wait until all have: then it has its name, or an error is raised in all processes."""
        problem: Exception | None = None
        try:
            with manifest.telling("save_state_dict", self.folder, "what was saved before is unchanged"):
                os.makedirs(self.folder, exist_ok=True)
            if self.arrays:
                manifest.write_arrays(self.folder, f"data_{self.rank}.safetensors", self.arrays)
        except OSError as e:
            problem = e
        self.arrays = {}
        try:
            self._agree("written", problem)
            if self.leads:
                try:
                    manifest.publish(self.path, self.folder, self.version, self.manifest)
                    manifest.tidy(self.path, _State.running - {self.folder})
                except OSError as e:
                    problem = e
            self._agree("named", problem, [self.coordinator])
        finally:
            _State.running.discard(self.folder)

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
