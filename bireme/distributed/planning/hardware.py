"""Descriptions of hardware: rates, memory and links, as JSON files and as objects."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

from bireme.core.base import errors

__all__ = ["Hardware", "Link"]

FORMAT = 1
FOLDER = Path(__file__).parent / "hardware_files"


@dataclasses.dataclass(frozen=True)
class Link:
    """A way between devices.

    Args:
        bandwidth: Bytes per second that a device sends, while it receives as many.
        latency: Seconds of a message of no bytes.

    Examples:
        >>> bireme.distributed.planning.Link(1e9, 1e-5).bandwidth
        1000000000.0
    """

    bandwidth: float
    latency: float


@dataclasses.dataclass(frozen=True)
class Hardware:
    """What a device computes, holds and says.

    Args:
        name: Its name.
        flops: Operations per second by data type, as ``{"bfloat16": 989e12}``.
        efficiency: What products of matrices get of that, at most.
        half_rows: Rows of a product (tokens of a micro-batch) at which it gets half of that.
        half_width: Width of a weight's part at which it gets half of that.
        memory: Bytes.
        usable: What of the memory a plan may take.
        bandwidth: Bytes per second between memory and cores.
        per_node: Devices of a machine, which are connected by ``node``; all others by ``network``.
        node: The link inside of a machine.
        network: The link between machines.
        overlap: What part of the collectives of gradients and parameters is hidden behind computing, at most.
        reduce_scatter: Whether the compiler makes reduce-scatters; else gradients are all-reduced and cut.
        adds_first: Whether it adds gradients of one input before it reduces them over devices; else each is reduced.
        combines: Whether it gathers all parameters of a block at once; else one by one.
        flash_attention: Whether attention keeps no weights and leaves out what a causal mask hides.
        in_place: Whether an all-reduce needs no second copy of what is reduced.
        keeps: Whether the compiler keeps what both passes compute of one operand, see ``Part.kept``.
        overhead: Seconds of a step besides.

    Examples:
        >>> h100 = bireme.distributed.planning.Hardware.load("H100")
        >>> h100.memory, h100.per_node
        (80000000000.0, 8)
    """

    name: str
    flops: dict[str, float]
    memory: float
    bandwidth: float
    node: Link
    network: Link
    per_node: int = 8
    efficiency: float = 0.6
    half_rows: float = 0.0
    half_width: float = 0.0
    usable: float = 0.9
    overlap: float = 0.8
    reduce_scatter: bool = True
    adds_first: bool = True
    combines: bool = True
    flash_attention: bool = True
    in_place: bool = True
    keeps: bool = False
    overhead: float = 0.0

    def rate(self, dtype: str) -> float:
        """Return the operations per second in a data type.

        Args:
            dtype: Its name.

        Returns:
            The rate.

        Raises:
            ValueError: If the description has none.
        """
        if dtype not in self.flops:
            raise errors.bad("plan(dtype)", f"one that {self.name} has a rate for: {', '.join(self.flops)}", dtype)
        return self.flops[dtype]

    def link(self, size: int, stride: int) -> Link:
        """Return the link that a ring of devices gets whose ranks are ``stride`` apart.

        Args:
            size: Number of devices in the group.
            stride: Difference of the ranks of neighbours.

        Returns:
            The link.
        """
        if size * stride <= self.per_node:
            return self.node
        # devices of one machine that are in the group share what passes between machines
        beside = min(size, max(1, self.per_node // stride))
        return Link(min(self.node.bandwidth, self.network.bandwidth * beside), self.network.latency)

    def to_dict(self) -> dict[str, Any]:
        """Return it as the data of a file."""
        return {"format": FORMAT, **dataclasses.asdict(self)}

    @classmethod
    def from_dict(cls, data: Any, where: str = "Hardware") -> Hardware:
        """Return the description that data of a file have.

        Args:
            data: A dict as ``to_dict`` returns.
            where: What errors name. Default: ``'Hardware'``.

        Returns:
            The description.

        Raises:
            ValueError: If the format is not known, or a value is missing or not of its kind.
        """
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise errors.bad(where, f"an object with format {FORMAT}", data)
        own = {k: v for k, v in data.items() if k not in ("format", "about")}
        names = {f.name for f in dataclasses.fields(cls)}
        needed = {f.name for f in dataclasses.fields(cls) if f.default is dataclasses.MISSING}
        for wrong in (*sorted(set(own) - names), *sorted(needed - set(own))):
            raise errors.bad(where, f"the values {', '.join(sorted(names))}", wrong)
        for name in ("node", "network"):
            if not isinstance(own[name], dict) or set(own[name]) != {"bandwidth", "latency"}:
                raise errors.bad(f"{where}.{name}", "bandwidth and latency", own[name])
            own[name] = Link(*[_positive(f"{where}.{name}.{k}", own[name][k]) for k in ("bandwidth", "latency")])
        if not isinstance(own["flops"], dict) or not own["flops"]:
            raise errors.bad(f"{where}.flops", "rates by data type", own["flops"])
        for name, value in own["flops"].items():
            _positive(f"{where}.flops.{name}", value)
        for name in ("memory", "bandwidth"):
            own[name] = _positive(f"{where}.{name}", own[name])
        return cls(**own)

    @classmethod
    def load(cls, name: Any) -> Hardware:
        """Return a description by the name of one of Bireme's own, or by the path of a JSON file.

        Args:
            name: ``"A100"``, ``"H100"``, ``"H200"``, or a path that ends with ``.json``.

        Returns:
            The description.

        Raises:
            ValueError: If there is no such description.
        """
        own = {path.stem.upper(): path for path in FOLDER.glob("*.json")}
        path = Path(os.fspath(name))
        if path.suffix != ".json":
            if str(name).upper() not in own:
                raise errors.bad("plan(hardware)", f"one of {', '.join(sorted(own))}, a file or a Hardware", name)
            path = own[str(name).upper()]
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as e:
            raise errors.bad("plan(hardware)", "a readable JSON file", described=f"{path}: {e}") from e
        return cls.from_dict(data, path.name)


def _positive(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise errors.bad(where, "a positive number", value)
    return float(value)
