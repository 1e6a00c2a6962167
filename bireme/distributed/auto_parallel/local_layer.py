"""Functions and layers that work on the part of a tensor that one process has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor import on_mesh
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.auto_parallel import placing
from bireme.distributed.auto_parallel.placement_type import Placement, Shard
from bireme.distributed.auto_parallel.process_mesh import ProcessMesh, check_mesh
from bireme.distributed.auto_parallel.tensors import assembled, dtensor_from_local, dtensor_to_local, reshard
from bireme.nn.layer import Layer

__all__ = ["LocalLayer", "local_map"]


def _parts(x: Tensor, mesh: ProcessMesh, placements: Sequence[Placement]) -> list[Tensor]:
    """What each device has of a tensor that one process has whole, in the order of the mesh, by recorded calls."""
    held = placing.parts_of(x)
    return [_part(x, held, mesh, placements, at) for at in np.ndindex(*mesh.shape)]


def _part(x: Tensor, held: Any, mesh: ProcessMesh, placements: Sequence[Placement], at: tuple[int, ...]) -> Tensor:
    if held is not None:
        x = held.stacked
        for i, p in zip(at, placements):
            x = x[i] if p.is_partial() else x
    spans = [(0, 1)] * x.ndim  # index of the part, and number of parts, of each dimension
    for i, n, p in zip(at, mesh.shape, placements):
        if isinstance(p, Shard):
            index, count = spans[p.get_dim()]
            spans[p.get_dim()] = (index * n + i, count * n)
    cut = []
    for size, (index, count) in zip(x.shape, spans):
        step = -(-size // count)
        cut.append(slice(min(index * step, size), min((index + 1) * step, size)))
    return x[tuple(cut)] if any(count > 1 for _, count in spans) else x


def _called(
    where: str,
    call: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    mesh: ProcessMesh | None,
    placed: Callable[[int, Tensor], list[Placement]],
    out: Sequence[Any],
) -> Any:
    """Call a function with the parts of its tensors: once, or for each device of this process; and join the results."""
    if mesh is None:
        found = call(*args, **kwargs)
        if any(p is not None for p in out):
            raise errors.bad(f"{where}(process_mesh)", "a mesh, since no input is on one", None)
        return found
    tensors = [i for i, x in enumerate(args) if isinstance(x, Tensor) and on_mesh.is_there(x)]
    given = {i: placed(n, args[i]) for n, i in enumerate(tensors)}
    shared = mesh._devices(where).channel is not None
    if shared:
        own = [dtensor_to_local(x, mesh, given[i]) if i in given else x for i, x in enumerate(args)]
        made = [_listed(call(*own, **kwargs))]
    else:
        parts = {i: _parts(args[i], mesh, placements) for i, placements in given.items()}
        made = [
            _listed(call(*[parts[i][at] if i in parts else x for i, x in enumerate(args)], **kwargs))
            for at in range(mesh.size)
        ]
    (results, kind), results_of_all = made[0], [found for found, _ in made]
    if len(out) != len(results):
        raise errors.bad(where, f"placements for {len(results)} results", described=f"{len(out)}")
    joined = []
    for i, (first, wanted) in enumerate(zip(results, out)):
        if wanted is None or not isinstance(first, Tensor):
            joined.append(first)
        elif shared:
            joined.append(dtensor_from_local(first, mesh, wanted))
        else:
            found = placing.check(where, mesh, wanted, first.ndim)
            joined.append(assembled([results[i] for results in results_of_all], mesh, found))
    return kind(joined)


def _listed(found: Any) -> tuple[list[Any], Callable[[list], Any]]:
    if isinstance(found, (list, tuple)):
        return list(found), type(found)
    return [found], lambda made: made[0]


def local_map(
    func: Callable[..., Any],
    out_placements: Sequence[Sequence[Placement] | None],
    in_placements: Sequence[Sequence[Placement] | None] | None = None,
    process_mesh: ProcessMesh | None = None,
    reshard_inputs: bool = False,
) -> Callable[..., Any]:
    """Return a function of tensors on a mesh that calls another one with their parts.

    Args:
        func: The function. Where one process has several devices, it is called for the parts of each.
        out_placements: Placements of each result; None for one that is no tensor.
        in_placements: Placements that each tensor among the arguments must have. Default: None, any.
        process_mesh: The mesh. Default: None, that of the arguments.
        reshard_inputs: Whether tensors with other placements are brought to these. Default: False.

    Returns:
        The function.

    Raises:
        ValueError: If a tensor has other placements, or no mesh is known for the results.

    Examples:
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["x"])
        >>> double = bireme.distributed.local_map(lambda x: x * 2, [[bireme.distributed.Shard(0)]])
        >>> double(bireme.distributed.shard_tensor([1.0, 2.0], mesh, [bireme.distributed.Shard(0)])).tolist()
        [2.0, 4.0]
    """
    errors.check_function("local_map(func)", func)
    if process_mesh is not None:
        check_mesh("local_map(process_mesh)", process_mesh)

    def call(*args: Any, **kwargs: Any) -> Any:
        mesh = process_mesh or next(
            (x.process_mesh for x in args if isinstance(x, Tensor) and on_mesh.is_there(x)), None
        )
        wanted = iter(in_placements or ())
        given = list(args)
        for i, x in enumerate(args):
            if not isinstance(x, Tensor) or in_placements is None:
                continue
            asked = next(wanted, None)
            if asked is None or not on_mesh.is_there(x):
                continue
            asked = placing.check("local_map", mesh, asked, x.ndim)
            if x.placements != asked:
                if not reshard_inputs:
                    raise errors.bad(
                        "local_map(in_placements)", f"a tensor with {asked}", described=f"{x.placements}",
                        hint="say reshard_inputs=True",
                    )  # fmt: skip
                given[i] = reshard(x, mesh, asked)  # type: ignore[arg-type]  # it is on a mesh
        return _called("local_map", func, given, kwargs, mesh, lambda _, x: x.placements, out_placements)

    return call


class LocalLayer(Layer):
    """A layer whose ``forward`` gets the parts of tensors that one process has, and whose results are parts again.

    Args:
        out_dist_attrs: Mesh and placements of each result.
        grad_dist_attrs: Mesh and placements of the gradient of each tensor that ``forward`` takes, None for those of the
            tensor.

    Examples:
        >>> class Total(bireme.distributed.LocalLayer):
        ...     def forward(self, x):
        ...         return x.sum()
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["x"])
        >>> total = Total([(mesh, [bireme.distributed.Partial()])], [None])
        >>> total(bireme.distributed.shard_tensor([1.0, 2.0], mesh, [bireme.distributed.Shard(0)])).item()
        3.0
    """

    def __init__(self, out_dist_attrs: Sequence[tuple], grad_dist_attrs: Sequence[tuple | None]) -> None:
        super().__init__()
        self.out_dist_attrs, self.grad_dist_attrs = out_dist_attrs, grad_dist_attrs

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call ``forward`` with the parts of the tensors on a mesh."""
        mesh = self.out_dist_attrs[0][0]
        given, which = list(inputs), 0
        for i, x in enumerate(inputs):
            if isinstance(x, Tensor) and on_mesh.is_there(x):
                attr = self.grad_dist_attrs[which] if which < len(self.grad_dist_attrs) else None
                which += 1
                if attr is not None and not x.stop_gradient:
                    given[i] = placing.with_gradient(x, attr[0], attr[1])
        out = [placements for _, placements in self.out_dist_attrs]
        return _called(type(self).__name__, super().__call__, given, kwargs, mesh, lambda _, x: x.placements, out)
