"""load_state_dict: every process reads the pieces that it needs, whatever pieces were saved."""

from __future__ import annotations

import os
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.checkpoint import parts
from bireme.distributed.checkpoint.flat_names import flattened
from bireme.distributed.checkpoint.index import Version
from bireme.distributed.checkpoint.layouts import opened
from bireme.distributed.checkpoint.save_state_dict import settle
from bireme.distributed.checkpoint.sharded_weight import ShardedWeight
from bireme.distributed.communication.group import Group
from bireme.files.pdparams import tensor_of

__all__ = ["load_merged_state_dict", "load_state_dict"]


def load_state_dict(
    state_dict: dict[str, Any],
    path: str | os.PathLike,
    process_group: Group | None = None,
    coordinator_rank: int = 0,
    unique_id: int | None = None,
    offload: bool = False,
    mw_name_compatibility: bool = True,
    aoa_config: dict[str, list[str]] | None = None,
    safetensors: bool = False,
    worker_groups: list[Group] | None = None,
) -> None:
    """Load what ``save_state_dict`` has saved into the tensors of a dict, in place.

    Each process reads by itself what its tensors need; the number of processes, and how they divide tensors, may be
    another than when it was saved.

    Args:
        state_dict: Dict of names and tensors, or of dicts of them, which get the saved values; numbers and other plain
            values are replaced. Names that were saved and are not in it are left out.
        path: The folder.
        process_group: Not used: processes do not wait for each other. Default: None.
        coordinator_rank: Not used. Default: 0.
        unique_id: Number of the version. Default: None, the last one.
        offload: Not used: arrays are read from the files where they are needed. Default: False.
        mw_name_compatibility: Not used. Default: True.
        aoa_config: Has to be None. Default: None.
        safetensors: Not used. Default: False.
        worker_groups: Not used. Default: None.

    Raises:
        FileNotFoundError: If there is no such version.
        ValueError: If a name was not saved, or with another shape.

    Examples:
        >>> import tempfile
        >>> w, v = bireme.to_tensor([1.0, 2.0]), bireme.zeros([2])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bireme.distributed.save_state_dict({"w": w}, folder)
        ...     bireme.distributed.load_state_dict({"w": v}, folder)
        >>> v.tolist()
        [1.0, 2.0]
    """
    where = "load_state_dict"
    if aoa_config is not None:
        raise errors.bad(f"{where}(aoa_config)", "None", described="a dict", kind=NotImplementedError)
    settle()
    wanted = flattened(f"{where}(state_dict)", state_dict)
    with opened(where, os.fspath(path), unique_id) as version:
        load(wanted, version)


def load(wanted: dict[str, tuple[Any, Any, Any]], version: Version) -> None:
    """Fill the tensors of a flat state dict, one by one, once all of them were looked for; set what else is there."""
    lacking = [name for name in wanted if name not in version.tensors and name not in version.values]
    if lacking:
        raise errors.bad(
            f"{version.where}(state_dict)",
            f"names that {version.folder} has",
            ", ".join(lacking[:5]),
            kind=errors.MissingKeyError,
        )
    for name, (x, _, _) in wanted.items():
        _check(name, x, version)
    for name, (x, holder, key) in wanted.items():
        if isinstance(x, (Tensor, ShardedWeight)):
            parts.fill(name, x, version)
        else:
            holder[key] = version.values[name]


def _check(name: str, x: Any, version: Version) -> None:
    where = version.where
    if not isinstance(x, (Tensor, ShardedWeight)):
        if name not in version.values:
            raise errors.bad(f"{where}(state_dict)[{name}]", "a tensor, as it was saved", x)
        return
    shape, saved = parts.whole_shape(name, x), version.tensors.get(name)
    if saved is None or saved.shape != shape:
        got = "a plain value" if saved is None else f"shape {list(saved.shape)}"
        expected = f"{name} of shape {list(shape)} in all"
        raise errors.bad(f"{where}(path)", expected, described=got, kind=errors.ShapeError)
    parts.check(name, x, version)


def load_merged_state_dict(
    path: str | os.PathLike,
    prefix: str | None = None,
    unique_id: int | None = None,
    offload: bool = False,
    aoa_config: dict[str, list[str]] | None = None,
    safetensors: bool = False,
) -> dict[str, Any]:
    """Load what ``save_state_dict`` has saved as whole tensors, in one process.

    Args:
        path: The folder.
        prefix: Load only names that begin with this and a dot, without it. Default: None, all.
        unique_id: Number of the version. Default: None, the last one.
        offload: Not used. Default: False.
        aoa_config: Has to be None. Default: None.
        safetensors: Not used. Default: False.

    Returns:
        Dict of flat names and tensors, or plain values.

    Raises:
        FileNotFoundError: If there is no such version.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bireme.distributed.save_state_dict({"model": {"w": bireme.ones([2])}, "epoch": 3}, folder)
        ...     found = bireme.distributed.load_merged_state_dict(folder)
        >>> found["model.w"].tolist(), found["epoch"]
        ([1.0, 1.0], 3)
    """
    where = "load_merged_state_dict"
    if aoa_config is not None:
        raise errors.bad(f"{where}(aoa_config)", "None", described="a dict", kind=NotImplementedError)
    settle()
    start = "" if prefix is None else f"{prefix}."
    with opened(where, os.fspath(path), unique_id) as version:
        found: dict[str, Any] = dict(version.values)
        found |= {name: tensor_of(version.whole(name)) for name in version.tensors if name.startswith(start)}
    return {name.removeprefix(start): x for name, x in found.items() if name.startswith(start)}
