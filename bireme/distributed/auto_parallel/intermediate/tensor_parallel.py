"""Plans: how the parameters of a layer are divided among devices, and how its inputs and outputs lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.base.mesh import OPEN, Layout
from bireme.core.tensor import on_mesh
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.auto_parallel import placing
from bireme.distributed.auto_parallel.placement_type import Placement, Replicate, Shard
from bireme.distributed.auto_parallel.process_mesh import ProcessMesh, check_mesh
from bireme.distributed.auto_parallel.tensors import shard_tensor
from bireme.nn.layer import Layer

__all__ = [
    "ColWiseParallel", "ConvParallel", "PlanBase", "PrepareLayerInput", "PrepareLayerOutput", "RowWiseParallel",
    "SequenceParallelBegin", "SequenceParallelDisable", "SequenceParallelEnable", "SequenceParallelEnd",
]  # fmt: skip

AXIS = "mp"  # the axis of a mesh that plans divide along


def lies(t: Any, mesh: ProcessMesh, dims: dict[int, str | None], where: str) -> Any:
    """A tensor some of whose axes are divided along an axis of the mesh, or whole (None); XLA decides on the others."""
    if not isinstance(t, Tensor):
        return t
    if not on_mesh.is_there(t):
        t = shard_tensor(t, mesh, [])
    names = [name for name in dims.values() if name is not None]
    if not set(names) <= set(mesh.dim_names):
        raise errors.bad(where, f"a mesh with an axis {names[0]!r}", described=repr(mesh))
    entries: list[tuple[str, ...]] = [OPEN] * t.ndim
    for axis, name in dims.items():
        entries[axis] = () if name is None else (str(mesh.dim_names.index(name)),)
    return placing.with_layout(t, Layout(mesh._devices(where), tuple(entries)))


def _each(found: Any, change: Callable[[Any], Any]) -> Any:
    """The first tensor of what a layer takes or returns, changed."""
    if isinstance(found, (list, tuple)):
        return type(found)([change(found[0]), *found[1:]]) if found else found
    return change(found)


def place_parameter(layer: Layer, name: str, mesh: ProcessMesh, axis: int, along: str = AXIS) -> None:
    """Divide a parameter of a layer along one of its axes, if it has it."""
    p = getattr(layer, name, None)
    if not isinstance(p, Tensor):
        return
    if along not in mesh.dim_names:
        raise errors.bad("parallelize(mesh)", f"a mesh with an axis {along!r}", described=repr(mesh))
    own: list[Placement] = list(p.placements) if on_mesh.is_there(p) else [Replicate()] * mesh.ndim
    own[mesh.dim_names.index(along)] = Shard(axis)
    shard_tensor(p, mesh, own)


class PlanBase:
    """What a plan of ``parallelize`` does with a layer: ``apply`` is called with it."""

    share_param_list: dict[str, Any]

    def __init__(self) -> None:
        self.share_param_list = {}

    def apply(self, layer: Layer, process_mesh: ProcessMesh, shard_param_list: Sequence[str] | None) -> None:
        """Divide the parameters of a layer and prepare its inputs and outputs.

        Args:
            layer: The layer.
            process_mesh: The mesh.
            shard_param_list: Names of its parameters to divide; None: all that the plan knows.
        """
        raise errors.missing_method(self, "apply")


class HookPlan(PlanBase):
    """A plan that divides no parameter, and only changes what goes into a layer or comes out of it."""

    def _before(self, layer: Layer, mesh: ProcessMesh) -> Callable | None:
        """The hook that changes inputs."""
        return None

    def _after(self, layer: Layer, mesh: ProcessMesh) -> Callable | None:
        """The hook that changes outputs."""
        return None

    def apply(self, layer: Layer, process_mesh: ProcessMesh, shard_param_list: Sequence[str] | None) -> None:
        """Register the hooks.

        Args:
            layer: The layer.
            process_mesh: The mesh.
            shard_param_list: It has no effect.
        """
        before, after = self._before(layer, process_mesh), self._after(layer, process_mesh)
        if before is not None:
            layer.register_forward_pre_hook(before)
        if after is not None:
            layer.register_forward_post_hook(after)


class ColWiseParallel(PlanBase):
    """Plan that divides the weight of a layer by columns, and its bias.

    Args:
        gather_output: Whether the output is made whole along its last axis. Default: False.

    Examples:
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["mp"])
        >>> layer = bireme.nn.Linear(2, 4)
        >>> bireme.distributed.ColWiseParallel().apply(layer, mesh, None)
        >>> layer.weight.placements, layer.bias.placements
        ([Shard(dim=1)], [Shard(dim=0)])
    """

    def __init__(self, gather_output: bool = False) -> None:
        super().__init__()
        self.gather_output = gather_output

    def gather_output_hook(self, process_mesh: ProcessMesh) -> Callable:
        """Return a hook that makes the output of a layer whole.

        Args:
            process_mesh: The mesh.

        Returns:
            The hook.
        """
        return lambda layer, inputs, output: _each(
            output, lambda t: lies(t, process_mesh, {-1: None}, "ColWiseParallel")
        )

    def apply(self, layer: Layer, process_mesh: ProcessMesh, shard_param_list: Sequence[str] | None) -> None:
        """Divide the parameters of a layer.

        Args:
            layer: The layer.
            process_mesh: The mesh.
            shard_param_list: Names of its parameters to divide; None: weight and bias.
        """
        names = shard_param_list or ["weight", "bias"]
        if "weight" in names:
            place_parameter(layer, "weight", process_mesh, 1)
        if "bias" in names:
            place_parameter(layer, "bias", process_mesh, 0)
        if self.gather_output:
            layer.register_forward_post_hook(self.gather_output_hook(process_mesh))


class RowWiseParallel(PlanBase):
    """Plan that divides the weight of a layer by rows.

    Args:
        is_input_parallel: Whether the input is divided along its last axis already. Default: True.

    Examples:
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["mp"])
        >>> layer = bireme.nn.Linear(2, 4)
        >>> bireme.distributed.RowWiseParallel().apply(layer, mesh, None)
        >>> layer.weight.placements
        [Shard(dim=0)]
    """

    def __init__(self, is_input_parallel: bool = True) -> None:
        super().__init__()
        self.is_input_parallel = is_input_parallel

    def split_input_hook(self, process_mesh: ProcessMesh) -> Callable:
        """Return a hook that divides the input of a layer along its last axis.

        Args:
            process_mesh: The mesh.

        Returns:
            The hook.
        """
        return lambda layer, inputs: _each(inputs, lambda t: lies(t, process_mesh, {-1: AXIS}, "RowWiseParallel"))

    def apply(self, layer: Layer, process_mesh: ProcessMesh, shard_param_list: Sequence[str] | None) -> None:
        """Divide the parameters of a layer.

        Args:
            layer: The layer.
            process_mesh: The mesh.
            shard_param_list: Names of its parameters to divide; None: the weight.
        """
        if shard_param_list is None or "weight" in shard_param_list:
            place_parameter(layer, "weight", process_mesh, 0)
        if not self.is_input_parallel:
            layer.register_forward_pre_hook(self.split_input_hook(process_mesh))


class PrepareLayerInput(HookPlan):
    """Plan that changes the inputs of a layer.

    Args:
        fn: Function that is called with the mesh as ``process_mesh``, and returns a hook of layer and inputs that returns
            the inputs.

    Examples:
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["mp"])
        >>> layer = bireme.nn.ReLU()
        >>> plan = bireme.distributed.PrepareLayerInput(lambda process_mesh: lambda layer, inputs: (inputs[0] + 1,))
        >>> plan.apply(layer, mesh, None); layer(bireme.zeros([1])).tolist()
        [1.0]
    """

    def __init__(self, fn: Callable | None = None) -> None:
        super().__init__()
        errors.check_function("PrepareLayerInput(fn)", fn)
        self.fn = fn

    def _before(self, layer: Layer, mesh: ProcessMesh) -> Callable:
        assert self.fn is not None, "checked when it was made"
        return self.fn(process_mesh=mesh)


class PrepareLayerOutput(HookPlan):
    """Plan that changes the outputs of a layer.

    Args:
        fn: Function that is called with the mesh as ``process_mesh``, and returns a hook of layer, inputs and outputs that
            returns the outputs.

    Examples:
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["mp"])
        >>> layer = bireme.nn.ReLU()
        >>> plan = bireme.distributed.PrepareLayerOutput(lambda process_mesh: lambda layer, inputs, out: out * 2)
        >>> plan.apply(layer, mesh, None); layer(bireme.ones([1])).tolist()
        [2.0]
    """

    def __init__(self, fn: Callable | None = None) -> None:
        super().__init__()
        errors.check_function("PrepareLayerOutput(fn)", fn)
        self.fn = fn

    def _after(self, layer: Layer, mesh: ProcessMesh) -> Callable:
        assert self.fn is not None, "checked when it was made"
        return self.fn(process_mesh=mesh)


def _begin(t: Tensor, mesh: ProcessMesh, turn: bool, where: str) -> Tensor:
    """Into the range where a sequence is divided: its axis comes first."""
    t = t.transpose([1, 0, *range(2, t.ndim)]) if turn else t
    return lies(t, mesh, {0: AXIS}, where)


def _end(t: Tensor, mesh: ProcessMesh, turn: bool, where: str) -> Tensor:
    t = lies(t, mesh, {0: None}, where)
    return t.transpose([1, 0, *range(2, t.ndim)]) if turn else t


class _SequencePlan(HookPlan):
    """A plan at an end of a range in which the sequence is divided, where its axis changes places."""

    def __init__(self, need_transpose: bool = True) -> None:
        super().__init__()
        self.need_transpose = need_transpose


class SequenceParallelBegin(_SequencePlan):
    """Plan for the last layer before a range of layers in which the sequence is divided.

    Args:
        need_transpose: Whether the output is turned from ``[batch, sequence, width]`` to ``[sequence, batch, width]``;
            otherwise it is so already. Default: True.

    Examples:
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["mp"])
        >>> layer = bireme.nn.ReLU()
        >>> bireme.distributed.SequenceParallelBegin().apply(layer, mesh, None)
        >>> layer(bireme.ones([2, 3, 4])).shape
        [3, 2, 4]
    """

    def sequence_parallel_begin(self, process_mesh: ProcessMesh) -> Callable:
        """Return a hook that divides the output of a layer.

        Args:
            process_mesh: The mesh.

        Returns:
            The hook.
        """
        turn, where = self.need_transpose, type(self).__name__
        return lambda layer, inputs, output: _each(output, lambda t: _begin(t, process_mesh, turn, where))

    def _after(self, layer: Layer, mesh: ProcessMesh) -> Callable:
        return self.sequence_parallel_begin(mesh)


class SequenceParallelEnd(_SequencePlan):
    """Plan for the first layer after a range of layers in which the sequence is divided.

    Args:
        need_transpose: Whether the input is turned from ``[sequence, batch, width]`` to ``[batch, sequence, width]``.
            Default: True.

    Examples:
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["mp"])
        >>> layer = bireme.nn.ReLU()
        >>> bireme.distributed.SequenceParallelEnd().apply(layer, mesh, None)
        >>> layer(bireme.ones([3, 2, 4])).shape
        [2, 3, 4]
    """

    def sequence_parallel_end(self, process_mesh: ProcessMesh) -> Callable:
        """Return a hook that makes the input of a layer whole.

        Args:
            process_mesh: The mesh.

        Returns:
            The hook.
        """
        turn, where = self.need_transpose, type(self).__name__
        return lambda layer, inputs: _each(inputs, lambda t: _end(t, process_mesh, turn, where))

    def _before(self, layer: Layer, mesh: ProcessMesh) -> Callable:
        return self.sequence_parallel_end(mesh)


class SequenceParallelEnable(HookPlan):
    """Plan for a layer in which the sequence is divided; its input is ``[batch, sequence, width]``.

    Examples:
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["mp"])
        >>> layer = bireme.nn.ReLU()
        >>> bireme.distributed.SequenceParallelEnable().apply(layer, mesh, None)
        >>> layer(bireme.ones([2, 3, 4])).shape
        [2, 3, 4]
    """

    def sequence_parallel_begin(self, process_mesh: ProcessMesh) -> Callable:
        """Return a hook that divides the input of a layer.

        Args:
            process_mesh: The mesh.

        Returns:
            The hook.
        """
        where = "SequenceParallelEnable"
        return lambda layer, inputs: _each(inputs, lambda t: lies(t, process_mesh, {1: AXIS}, where))

    def sequence_parallel_end(self, process_mesh: ProcessMesh) -> Callable:
        """Return a hook that makes the output of a layer whole.

        Args:
            process_mesh: The mesh.

        Returns:
            The hook.
        """
        where = "SequenceParallelEnable"
        return lambda layer, inputs, output: _each(output, lambda t: lies(t, process_mesh, {1: None}, where))

    def _before(self, layer: Layer, mesh: ProcessMesh) -> Callable:
        return self.sequence_parallel_begin(mesh)

    def _after(self, layer: Layer, mesh: ProcessMesh) -> Callable:
        return self.sequence_parallel_end(mesh)


# its input is that of a layer after the range, its output that of a layer before it
class SequenceParallelDisable(SequenceParallelBegin, SequenceParallelEnd):
    """Plan for a layer, inside a range in which the sequence is divided, that gets whole sequences.

    Args:
        need_transpose: Whether the input is turned from ``[sequence, batch, width]`` to ``[batch, sequence, width]`` and
            the output back. Default: True.

    Examples:
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["mp"])
        >>> layer = bireme.nn.ReLU()
        >>> bireme.distributed.SequenceParallelDisable().apply(layer, mesh, None)
        >>> layer(bireme.ones([3, 2, 4])).shape
        [3, 2, 4]
    """


class ConvParallel(HookPlan):
    """Plan for a ``Conv2D`` whose input is divided along its width. XLA exchanges what windows need of neighbours, so
    any kernel, stride and padding will do.

    Examples:
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["mp"])
        >>> layer = bireme.nn.Conv2D(1, 1, 3, padding=1)
        >>> bireme.distributed.ConvParallel().apply(layer, mesh, None)
        >>> layer(bireme.ones([1, 1, 4, 4])).shape
        [1, 1, 4, 4]
    """

    def conv_parallel_start(self, process_mesh: ProcessMesh, data_format: str) -> Callable:
        """Return a hook that divides the input of a layer along its width.

        Args:
            process_mesh: The mesh.
            data_format: Order of the axes, ``"NCHW"`` or ``"NHWC"``.

        Returns:
            The hook.
        """
        axis = data_format.index("W")
        return lambda layer, inputs: _each(inputs, lambda t: lies(t, process_mesh, {axis: AXIS}, "ConvParallel"))

    def _before(self, layer: Layer, mesh: ProcessMesh) -> Callable:
        check_mesh("ConvParallel.apply(process_mesh)", mesh)
        order = getattr(layer, "_data_format", None) or getattr(layer, "data_format", None) or "NCHW"
        return self.conv_parallel_start(mesh, order)
