"""Checkpoints in parts and files of whole tensors: the one becomes the other, tensor by tensor."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.processes.collectives import Call
from bireme.core.tensor.tensor import Tensor
from bireme.distributed import world
from bireme.distributed.checkpoint import array_files, manifest
from bireme.distributed.checkpoint.flat_names import flattened
from bireme.distributed.checkpoint.index import Version
from bireme.distributed.checkpoint.layouts import opened
from bireme.distributed.checkpoint.save_state_dict import settle
from bireme.distributed.communication.group import Group, member
from bireme.files import load, save
from bireme.files.pdparams import tensor_of
from bireme.files.safetensors import Deferred
from bireme.files.safetensors import write as write_safetensors
from bireme.files.store import telling, write_whole

__all__ = ["merge_sharded_state_dict"]


def merge_sharded_state_dict(
    load_path: str | os.PathLike,
    save_path: str | os.PathLike,
    prefix: str | None = None,
    safetensor_prefix: str = "model",
    skip_postfix_list: Sequence[str] = (),
    process_group: Group | None = None,
    unique_id: int | None = None,
    offload: bool = False,
    aoa_config: dict[str, list[str]] | None = None,
    safetensors: bool = False,
) -> None:
    """Write a checkpoint as whole tensors: safetensors files, one from each process, and an index of them.

    Each process holds one tensor at a time.

    Args:
        load_path: Folder that ``save_state_dict``, also Paddle's, has written.
        save_path: Folder for the files, ``model-00001-of-00002.safetensors`` and so on.
        prefix: Write only names that begin with this and a dot, without it. Default: None, all.
        safetensor_prefix: Beginning of the names of the files. Default: ``'model'``.
        skip_postfix_list: Leave out names that end with one of these. Default: None of them.
        process_group: The processes that write. Default: None, all.
        unique_id: Number of the version. Default: None, the last one.
        offload: Not used. Default: False.
        aoa_config: Has to be None. Default: None.
        safetensors: Not used: the format of files is found from their content. Default: False.

    Raises:
        FileNotFoundError: If there is no such version.

    Examples:
        >>> import os, tempfile
        >>> checkpoint = bireme.distributed.checkpoint
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     checkpoint.save_state_dict({"model": {"w": bireme.ones([2])}}, f"{folder}/parts")
        ...     checkpoint.merge_sharded_state_dict(f"{folder}/parts", f"{folder}/whole", prefix="model")
        ...     sorted(os.listdir(f"{folder}/whole"))
        ['model-00001-of-00001.safetensors', 'model.safetensors.index.json']
    """
    where = "merge_sharded_state_dict"
    if aoa_config is not None:
        raise errors.bad(f"{where}(aoa_config)", "None", described="a dict", kind=NotImplementedError)
    settle()
    group = member(where, process_group) if process_group is not None or world.size() > 1 else None
    rank, count = (0, 1) if group is None else (group.rank, group.nranks)
    folder = os.fspath(save_path)
    with opened(where, os.fspath(load_path), unique_id) as version:
        named = {
            name: x
            for name, x in _named(version, prefix).items()
            if not name.endswith(tuple(skip_postfix_list) or ("\0",))
        }
        sizes = {name: int(np.prod(x.shape, dtype=np.int64)) * x.dtype.itemsize for name, x in named.items()}
        files = _dealt(sizes, count)
        names = [f"{safetensor_prefix}-{i + 1:05d}-of-{count:05d}.safetensors" for i in range(count)]
        _write(os.path.join(folder, names[rank]), {name: named[name] for name in files[rank]})
    if group is not None and count > 1:
        group.channel.gather_bytes(Call(where, folder), b"")  # the index is written when all files are
    if rank == 0:
        weight_map = {name: names[i] for i, own in enumerate(files) for name in own}
        index = {"metadata": {"total_size": sum(sizes.values())}, "weight_map": dict(sorted(weight_map.items()))}
        text = json.dumps(index, indent=2).encode()
        path = os.path.join(folder, f"{safetensor_prefix}.safetensors.index.json")
        write_whole(path, lambda file: file.write(text))


def _named(version: Version, prefix: str | None) -> dict[str, Deferred]:
    """The tensors of a version, each read when it is written."""
    start = "" if prefix is None else f"{prefix}."

    def deferred(name: str) -> Deferred:
        saved = version.tensors[name]
        return Deferred(saved.dtype, saved.shape, lambda: version.whole(name))

    found = {name.removeprefix(start): deferred(name) for name in version.tensors if name.startswith(start)}
    if prefix is not None and not found:
        raise errors.bad(f"{version.where}(prefix)", f"the beginning of names in {version.folder}", prefix)
    return found


def _write(path: str, named: dict[str, Deferred]) -> None:
    write_whole(path, lambda file: write_safetensors(file, named, None))


def _dealt(sizes: dict[str, int], count: int) -> list[list[str]]:
    """Names for each of some files, the largest first and each to the smallest file: all get about as large."""
    files: list[list[str]] = [[] for _ in range(count)]
    filled = [0] * count
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        i = filled.index(min(filled))
        files[i].append(name)
        filled[i] += sizes[name]
    return files


def merge(path: str, target: str, prefix: str | None, version: int | None) -> tuple[int, int]:
    """Write a version as one file; the numbers of its tensors and bytes."""
    with opened("merge", path, version) as found:
        named = _named(found, prefix)
        if target.endswith(".safetensors"):
            _write(target, named)
        else:
            start = "" if prefix is None else f"{prefix}."
            values = {k.removeprefix(start): x for k, x in found.values.items() if k.startswith(start)}
            save({**values, **{name: tensor_of(x.make()) for name, x in named.items()}}, target)
    return len(named), os.path.getsize(target)


def split(path: str, target: str, count: int, axis: int, prefix: str | None) -> tuple[int, int]:
    """Save the tensors of one file as a version in so many files; its number, and that of the tensors.

    Tensors are cut along an axis; those that are too small for it are dealt to the files whole.
    """
    found = load(path, mmap=True)
    state = flattened("split(path)", found if prefix is None else {prefix: found})
    arrays: list[dict[str, np.ndarray]] = [{} for _ in range(count)]
    told: dict[str, Any] = {}
    for turn, (name, (x, _, _)) in enumerate(state.items()):
        if isinstance(x, Tensor):
            host = x._host()
            manifest.dtype_of("split", name, host.dtype)
            pieces = []
            for i, offset, block in _blocks(host, count, axis, turn):
                key = name if block is host else f"{name}@{i}"
                arrays[i][key] = block
                piece = {"file": f"data_{i}{array_files.ENDING}", "key": key, "offset": offset}
                pieces.append({**piece, "shape": list(block.shape), "flat": None})
            told[name] = {"dtype": host.dtype.name, "shape": list(host.shape), "pieces": pieces}
    version = max(manifest.versions(target), default=-1) + 1
    folder = manifest.part_folder(target, version, secrets.token_hex(8))
    with telling("split", folder, manifest.UNCHANGED):
        os.makedirs(folder)
    for i, own in enumerate(arrays):
        array_files.write("split", folder, f"data_{i}", own, manifest.UNCHANGED)
    values = {name: x for name, (x, _, _) in state.items() if not isinstance(x, Tensor)}
    manifest.publish(target, folder, version, {"tensors": told, "values": values})
    return version, len(told)


def _blocks(host: np.ndarray, count: int, axis: int, turn: int) -> Iterator[tuple[int, list[int], np.ndarray]]:
    """Of an array, the blocks of some files: number of the file, beginning and block."""
    if axis >= host.ndim or host.shape[axis] < count or count == 1:
        yield turn % count, [0] * host.ndim, host
        return
    start = 0
    for i, block in enumerate(np.array_split(host, count, axis)):
        yield i, [start if d == axis else 0 for d in range(host.ndim)], block
        start += block.shape[axis]
