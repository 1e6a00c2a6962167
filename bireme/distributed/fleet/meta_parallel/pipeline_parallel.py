"""PipelineParallel: a batch is trained in micro-batches, which a pipeline passes from stage to stage, each in a process.

A process runs the steps of its schedule one after the other. Messages between stages carry the part and direction they
belong to, so the order in which a schedule takes them is free.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.dtype import of as dtype_of
from bireme.core.processes.collectives import Call
from bireme.core.tensor import grad_mode
from bireme.core.tensor.backward import backward
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.communication.group import groups
from bireme.distributed.fleet.base.topology import HybridCommunicateGroup
from bireme.distributed.fleet.meta_parallel.meta_parallel_base import MetaParallelBase
from bireme.distributed.fleet.meta_parallel.parallel_layers.pp_layers import PipelineLayer
from bireme.distributed.fleet.meta_parallel.schedules import FORWARD, Step, schedule
from bireme.distributed.fleet.utils.hybrid_parallel_util import broadcast_parameters
from bireme.ops import stack, to_tensor, zeros_like

__all__ = [
    "DualPipeVParallel", "PipelineDatasetPreprocessor", "PipelineParallel", "PipelineParallelMicroStepLocations",
    "PipelineParallelWithInterleave", "PipelineParallelWithInterleaveFthenB", "VPPFhenBInBalancedMemory",
    "register_global_pipeline_parallel_hook",
]  # fmt: skip


class PipelineParallelMicroStepLocations(enum.Enum):
    """Where hooks of pipelines are called: before and after each step of a micro-batch.

    Examples:
        >>> bireme.distributed.fleet.meta_parallel.PipelineParallelMicroStepLocations.FORWARD_BEGIN.value
        'forward_begin'
    """

    FORWARD_BEGIN = "forward_begin"
    FORWARD_END = "forward_end"
    BACKWARD_BEGIN = "backward_begin"
    BACKWARD_END = "backward_end"


_hooks: dict[PipelineParallelMicroStepLocations, list[Callable]] = {at: [] for at in PipelineParallelMicroStepLocations}


def register_global_pipeline_parallel_hook(location: PipelineParallelMicroStepLocations, hook: Callable) -> None:
    """Let a function be called before or after each step of a micro-batch, in all pipelines of this process.

    Args:
        location: Where: before or after forward or backward steps.
        hook: The function; it gets ``input_tensor``, ``output_tensor``, ``output_tensor_grad``, ``input_tensor_grad``,
            as far as they are there, and ``step_id``, the number of the micro-batch, by name.

    Examples:
        >>> parallel = bireme.distributed.fleet.meta_parallel
        >>> at = parallel.PipelineParallelMicroStepLocations.FORWARD_BEGIN
        >>> parallel.register_global_pipeline_parallel_hook(at, lambda step_id, **given: None)
    """
    if not isinstance(location, PipelineParallelMicroStepLocations):
        where = "register_global_pipeline_parallel_hook(location)"
        raise errors.bad(where, "one of PipelineParallelMicroStepLocations", location, kind=errors.ArgumentTypeError)
    errors.check_function("register_global_pipeline_parallel_hook(hook)", hook)
    _hooks[location].append(hook)


def _at(location: PipelineParallelMicroStepLocations, **given: Any) -> None:
    for hook in _hooks[location]:
        hook(**given)


class PipelineDatasetPreprocessor:
    """A function that makes the data of a batch when the pipeline wants it, instead of the data.

    Args:
        function: The function; it returns inputs and labels.

    Examples:
        >>> data = bireme.distributed.fleet.meta_parallel.PipelineDatasetPreprocessor(lambda: (1, 2))
        >>> data()
        (1, 2)
    """

    def __init__(self, function: Callable) -> None:
        self.function = function

    def __call__(self) -> Any:
        return self.function()


class PipelineParallel(MetaParallelBase):
    """A model in stages, trained in micro-batches, a backward step after each forward one as soon as possible (1F1B).

    Args:
        layers: A ``PipelineLayer``.
        hcg: Groups along each axis, from ``fleet.get_hybrid_communicate_group``.
        strategy: Options of training; ``pipeline_configs`` has ``micro_batch_size``, ``accumulate_steps`` and
            ``schedule_mode``, ``'1F1B'`` or ``'FThenB'``.

    Examples:
        >>> strategy = bireme.distributed.fleet.DistributedStrategy()
        >>> strategy.pipeline_configs = {"micro_batch_size": 2, "accumulate_steps": 2}
        >>> fleet = bireme.distributed.fleet.init(is_collective=True, strategy=strategy)
        >>> parallel = bireme.distributed.fleet.meta_parallel
        >>> layer = parallel.PipelineLayer([bireme.nn.Linear(3, 1)], num_stages=1, loss_fn=bireme.nn.MSELoss())
        >>> model = parallel.PipelineParallel(layer, fleet.get_hybrid_communicate_group(), strategy)
        >>> optimizer = bireme.optimizer.SGD(0.1, parameters=model.parameters())
        >>> model.train_batch([bireme.ones([4, 3]), bireme.ones([4, 1])], optimizer).shape
        []
    """

    kind = "1F1B"

    def __init__(self, layers: PipelineLayer, hcg: HybridCommunicateGroup, strategy: Any) -> None:
        if not isinstance(layers, PipelineLayer):
            raise errors.bad(f"{type(self).__name__}(layers)", "a PipelineLayer", layers, kind=errors.ArgumentTypeError)
        super().__init__(layers, hcg, strategy)
        options = strategy.pipeline_configs
        self.micro_batch_size, self.accumulate_steps = options["micro_batch_size"], options["accumulate_steps"]
        self.num_stages, self.stage_id = hcg.get_pipe_parallel_world_size(), hcg.get_stage_id()
        self.global_rank = hcg.get_global_rank()
        self._own = layers.own_parts()
        self._mode = "FThenB" if self.kind == "1F1B" and options["schedule_mode"] == "FThenB" else self.kind
        if self.num_stages > 1 and len(layers.places) != self.num_stages * self._chunks():
            expected = f"a PipelineLayer in {self.num_stages * self._chunks()} parts"
            raise errors.bad(f"{type(self).__name__}(layers)", expected, described=f"one in {len(layers.places)}")

    def _chunks(self) -> int:
        return 1

    def _prepare_for_model(self) -> None:
        broadcast_parameters(self._layers, self._hcg)

    def is_pipeline_first_stage(self) -> bool:
        """Return whether this process has the first part of the model."""
        return self._layers.places[0] == self.stage_id or self.num_stages == 1

    def is_pipeline_last_stage(self) -> bool:
        """Return whether this process has the last part of the model."""
        return self._layers.places[-1] == self.stage_id or self.num_stages == 1

    def train_batch(
        self,
        data: Any,
        optimizer: Any,
        lr_scheduler: Any = None,
        scaler: Any = None,
        loss_fn_idx: int = 0,
        return_micro_batch_loss: bool = False,
    ) -> Tensor:
        """Train on one batch: all micro-batches forward and backward, then one step of the optimizer.

        Args:
            data: Inputs and labels. Each is a tensor, a tuple of tensors, or a list with one of these for each
                micro-batch; or an iterator over the pairs of the micro-batches.
            optimizer: The optimizer; its gradients are cleared after the step.
            lr_scheduler: Schedule of the learning rate, stepped after the optimizer. Default: None.
            scaler: Gradient scaler. Default: None.
            loss_fn_idx: Index of the loss function where there are several. Default: 0.
            return_micro_batch_loss: Return the losses of the micro-batches instead of their mean. Default: False.

        Returns:
            The mean of the losses of the micro-batches, or all of them.
        """
        self._layers.train()
        losses = self.forward_backward_pipeline(data, scaler, loss_fn_idx=loss_fn_idx, return_micro_batch_loss=True)
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()
        optimizer.clear_grad()
        if lr_scheduler is not None:
            lr_scheduler.step()
        return losses if return_micro_batch_loss else losses.mean()

    def forward_backward_pipeline(
        self,
        data: Any,
        scaler: Any = None,
        static_scheduler: bool = False,
        return_micro_batch_loss: bool = False,
        loss_fn_idx: int = 0,
    ) -> Tensor:
        """Run all micro-batches forward and backward, without a step of the optimizer.

        Args:
            data: Inputs and labels; see ``train_batch``.
            scaler: Gradient scaler. Default: None.
            static_scheduler: Not used. Default: False.
            return_micro_batch_loss: Return the losses of the micro-batches instead of their mean. Default: False.
            loss_fn_idx: Index of the loss function where there are several. Default: 0.

        Returns:
            The mean of the losses of the micro-batches, or all of them.
        """
        data = data() if isinstance(data, PipelineDatasetPreprocessor) else data
        run = _Run(self, list(self._micro_batches(data, "train_batch")), scaler, loss_fn_idx)
        for kind, part, micro in self._steps():
            (run.forward if kind == FORWARD else run.backward)(part, micro)
        self._layers.allreduce_shared_weight_gradients()
        together = self._from_last(run.losses)
        return together if return_micro_batch_loss else together.mean()

    def _steps(self) -> tuple[Step, ...]:
        """The steps of a batch in this process, in their order."""
        chunks = len(self._layers.places) // self.num_stages
        return schedule(self._mode, self.num_stages, chunks, self.accumulate_steps)[self.stage_id]

    def _from_last(self, values: list[Tensor]) -> Tensor:
        """What the process with the last part has computed for each micro-batch, in all processes of the pipeline."""
        together = stack(values) if values else None
        if self.num_stages == 1:
            assert together is not None, "the only process has all"
            return together
        group = self._hcg.get_pipe_parallel_group()
        call = Call("the exchange of losses")
        data = b"" if together is None else np.asarray(call.read(together), np.float32).tobytes()
        rows = group.channel.gather_bytes(call, data)
        return to_tensor(np.frombuffer(rows[self._layers.places[-1]], np.float32).copy())

    def eval_batch(
        self, data: Any, compute_loss: bool = False, loss_fn_idx: int = 0, return_host_tensor: bool = False
    ) -> Any:
        """Evaluate one batch in micro-batches.

        Args:
            data: Inputs and labels; see ``train_batch``.
            compute_loss: Return the mean of the losses instead of the outputs. Default: False.
            loss_fn_idx: Index of the loss function where there are several. Default: 0.
            return_host_tensor: Return tensors on the host. It has no effect on the CPU. Default: False.

        Returns:
            The mean loss, or the list of the outputs of the micro-batches, which is empty but in the process with the
            last part of the model.
        """
        self._layers.eval()
        data = data() if isinstance(data, PipelineDatasetPreprocessor) else data
        with grad_mode.no_grad():
            run = _Run(self, list(self._micro_batches(data, "eval_batch")), None, loss_fn_idx, compute_loss)
            for kind, part, micro in self._steps():
                if kind == FORWARD:
                    run.forward(part, micro)
        if compute_loss:
            return self._from_last(run.losses).mean()
        return [x.cpu() if return_host_tensor and isinstance(x, Tensor) else x for x in run.results]

    def _loss(self, output: Any, labels: Any, index: int) -> Tensor:
        functions = self._layers._loss_fn
        if not 0 <= index < len(functions) or functions[index] is None:
            raise errors.bad("PipelineParallel(layers)", "a PipelineLayer with loss_fn", described="none")
        loss = functions[index](output, labels)
        if not isinstance(loss, Tensor):
            raise errors.bad("PipelineParallel: loss_fn", "a Tensor as result", loss, kind=errors.NotATensorError)
        return loss

    def _micro_batches(self, data: Any, where: str) -> Iterator[tuple[Any, Any]]:
        """Inputs and labels of each micro-batch."""
        if isinstance(data, (list, tuple)):
            if len(data) != 2:
                raise errors.bad(f"{where}(data)", "inputs and labels", described=f"{len(data)} parts")
            parts = [self._parts(part, where) for part in data]
            yield from zip(*parts)
        else:
            for _ in range(self.accumulate_steps):
                yield next(data)

    def _parts(self, part: Any, where: str) -> list[Any]:
        count, size = self.accumulate_steps, self.micro_batch_size
        if part is None:
            return [None] * count
        if isinstance(part, list):
            if len(part) != count:
                raise errors.bad(f"{where}(data)", f"one item per micro-batch, {count}", described=f"{len(part)}")
            return part
        if isinstance(part, tuple):
            return list(zip(*[self._parts(p, where) for p in part]))
        if not isinstance(part, Tensor) or part.shape[:1] != [count * size]:
            got = f"shape {part.shape}" if isinstance(part, Tensor) else errors.show(part)
            raise errors.bad(
                f"{where}(data)", f"{count} micro-batches of {size} samples along the first axis", described=got
            )
        return [part[i * size : (i + 1) * size] for i in range(count)]


class _Run:
    """One batch on its way through this process' parts."""

    def __init__(self, pipe: PipelineParallel, data: list, scaler: Any, loss_index: int, with_loss: bool = True):
        self.pipe, self.data, self.scaler, self.loss_index, self.with_loss = pipe, data, scaler, loss_index, with_loss
        self.places = pipe._layers.places
        self.open: dict[tuple[int, int], tuple[Any, Any]] = {}  # inputs and outputs that wait for their gradients
        self.losses: list[Tensor] = []
        self.results: list[Any] = []
        self.kept: dict[tuple[str, int], list[Any]] = {}  # what goes from a part to the next in the same process

    def forward(self, part: int, micro: int) -> None:
        pipe = self.pipe
        inputs = self.data[micro][0] if part == 0 else self._receive("forward", part - 1, part)
        _at(PipelineParallelMicroStepLocations.FORWARD_BEGIN, input_tensor=inputs, step_id=micro)
        outputs = pipe._layers(inputs, chunk_id=pipe._own.index(part))
        if part == len(self.places) - 1:
            self.results.append(outputs)
            if self.with_loss:
                loss = pipe._loss(outputs, self.data[micro][1], self.loss_index)
                self.losses.append(loss.detach())
                outputs = loss / pipe.accumulate_steps
        else:
            self._send("forward", outputs, part, part + 1)
        _at(PipelineParallelMicroStepLocations.FORWARD_END, input_tensor=inputs, output_tensor=outputs, step_id=micro)
        self.open[part, micro] = inputs, outputs

    def backward(self, part: int, micro: int) -> None:
        inputs, outputs = self.open.pop((part, micro))
        last = part == len(self.places) - 1
        grads = None if last else self._receive("backward", part + 1, part)
        given = {"input_tensor": inputs, "output_tensor": outputs, "output_tensor_grad": grads, "step_id": micro}
        _at(PipelineParallelMicroStepLocations.BACKWARD_BEGIN, **given)
        if last:
            (outputs if self.scaler is None else self.scaler.scale(outputs)).backward()
        else:
            wanted = [y for y in _each(outputs) if not y.stop_gradient]
            if wanted:
                backward(wanted, list(_each(grads)))
        found = None
        if part > 0:
            leaves = [x for x in _each(inputs) if not x.stop_gradient]
            found = tuple([zeros_like(x) if x.grad is None else x.grad for x in leaves])
            self._send("backward", found, part, part - 1)
        _at(PipelineParallelMicroStepLocations.BACKWARD_END, input_tensor_grad=found, **given)

    def _peer(self, part: int) -> int:
        return self.pipe._hcg.get_rank_from_stage(self.places[part])

    def _send(self, kind: str, tensors: Any, source: int, target: int) -> None:
        if self.places[source] == self.places[target]:
            self.kept.setdefault((kind, target), []).append(_cut_off(tensors))
            return
        each = list(_each(tensors))
        call = Call(f"{kind} step of a pipeline", f"part {source} to {target}")
        hosts = [np.ascontiguousarray(call.read(t)) for t in each]
        if call.failed is not None:
            raise call.failed
        what = [isinstance(tensors, tuple), [[t.dtype.name, t.shape, t.stop_gradient] for t in each]]
        groups.mailbox.send(call, self._peer(target), what, b"".join(h.tobytes() for h in hosts), f"{kind}{target}")

    def _receive(self, kind: str, source: int, target: int) -> Any:
        if self.places[source] == self.places[target]:
            return self.kept[kind, target].pop(0)
        rank, tag = self._peer(source), f"{kind}{target}"
        call = Call(f"{kind} step of a pipeline", f"part {source} to {target}")
        (several, kinds), data = groups.mailbox.receive(call, rank, groups.mailbox.expect(rank, tag), tag)
        found, at = [], 0
        for name, shape, stopped in kinds:
            dtype = dtype_of(name).np
            count = math.prod(shape)
            host = np.frombuffer(data, dtype, count, at).reshape(shape)
            at += count * dtype.itemsize
            found.append(to_tensor(host, stop_gradient=stopped))
        return tuple(found) if several else found[0]


def _each(tensors: Any) -> Iterator[Tensor]:
    for t in tensors if isinstance(tensors, (list, tuple)) else [tensors]:
        if not isinstance(t, Tensor):
            where = "PipelineParallel: the result of a stage"
            raise errors.bad(where, "a Tensor or a tuple of them", t, kind=errors.NotATensorError)
        yield t


def _cut_off(tensors: Any) -> Any:
    """The same values as leaves, for the next part in the same process."""
    made = []
    for t in _each(tensors):
        new = t.detach()
        new.stop_gradient = t.stop_gradient
        made.append(new)
    return tuple(made) if isinstance(tensors, tuple) else made[0]


class PipelineParallelWithInterleave(PipelineParallel):
    """A pipeline whose processes have several parts of the model each, taken in turn: less waiting, more messages.

    Args:
        layers: A ``PipelineLayer`` with ``num_virtual_pipeline_stages`` above 1.
        hcg: Groups along each axis, from ``fleet.get_hybrid_communicate_group``.
        strategy: Options of training; see ``PipelineParallel``.

    Examples:
        >>> fleet = bireme.distributed.fleet.init(is_collective=True)
        >>> parallel = bireme.distributed.fleet.meta_parallel
        >>> layer = parallel.PipelineLayer([bireme.nn.Linear(3, 1)], num_stages=1, num_virtual_pipeline_stages=2)
        >>> strategy = bireme.distributed.fleet.DistributedStrategy()
        >>> parallel.PipelineParallelWithInterleave(layer, fleet.get_hybrid_communicate_group(), strategy).stage_id
        0
    """

    def _chunks(self) -> int:
        return self._layers.get_num_virtual_stages()


class PipelineParallelWithInterleaveFthenB(PipelineParallelWithInterleave):
    """A pipeline with several parts in each process, where all forward steps come before the first backward step.

    Args:
        layers: A ``PipelineLayer`` with ``num_virtual_pipeline_stages`` above 1.
        hcg: Groups along each axis, from ``fleet.get_hybrid_communicate_group``.
        strategy: Options of training; see ``PipelineParallel``.

    Examples:
        >>> bireme.distributed.fleet.meta_parallel.PipelineParallelWithInterleaveFthenB.kind
        'FThenB'
    """

    kind = "FThenB"


class VPPFhenBInBalancedMemory(PipelineParallelWithInterleave):
    """A pipeline with several parts in each process, whose number of micro-batches under way is bounded as for 1F1B.

    Args:
        layers: A ``PipelineLayer`` with ``num_virtual_pipeline_stages`` above 1.
        hcg: Groups along each axis, from ``fleet.get_hybrid_communicate_group``.
        strategy: Options of training; see ``PipelineParallel``.

    Examples:
        >>> bireme.distributed.fleet.meta_parallel.VPPFhenBInBalancedMemory.kind
        '1F1B'
    """


class DualPipeVParallel(PipelineParallel):
    """A pipeline that runs through the processes and back: each has a part from both ends of the model, and all have
    equally many micro-batches under way.

    Args:
        layers: A ``PipelineLayer`` with ``use_dualpipev=True``.
        hcg: Groups along each axis, from ``fleet.get_hybrid_communicate_group``.
        strategy: Options of training; see ``PipelineParallel``.

    Examples:
        >>> bireme.distributed.fleet.meta_parallel.DualPipeVParallel.kind
        'DualPipeV'
    """

    kind = "DualPipeV"

    def _chunks(self) -> int:
        return 2


def pipeline_of(model: Any, hcg: HybridCommunicateGroup, strategy: Any) -> PipelineParallel:
    """The pipeline that the parts of a model and the options ask for."""
    kind = PipelineParallel
    if isinstance(model, PipelineLayer) and model.get_num_virtual_stages() > 1:
        if model.places[-1] == 0:
            kind = DualPipeVParallel
        elif strategy.pipeline_configs["schedule_mode"] == "FThenB":
            kind = PipelineParallelWithInterleaveFthenB
        else:
            kind = PipelineParallelWithInterleave
    return kind(model, hcg, strategy)
