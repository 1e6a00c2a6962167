"""PipelineParallel: a batch is trained in micro-batches, which a pipeline passes from stage to stage. One process has
one stage, where micro-batches accumulate their gradients.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor import grad_mode
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.fleet.base.topology import HybridCommunicateGroup
from bireme.distributed.fleet.meta_parallel.meta_parallel_base import MetaParallelBase
from bireme.distributed.fleet.meta_parallel.parallel_layers.pp_layers import PipelineLayer
from bireme.ops import stack

__all__ = ["PipelineParallel"]


class PipelineParallel(MetaParallelBase):
    """A model in stages, trained in micro-batches.

    Args:
        layers: A ``PipelineLayer``.
        hcg: Groups along each axis, from ``fleet.get_hybrid_communicate_group``.
        strategy: Options of training; ``pipeline_configs`` has ``micro_batch_size`` and ``accumulate_steps``.

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

    def __init__(self, layers: PipelineLayer, hcg: HybridCommunicateGroup, strategy: Any) -> None:
        if not isinstance(layers, PipelineLayer):
            raise errors.bad("PipelineParallel(layers)", "a PipelineLayer", layers, kind=errors.ArgumentTypeError)
        super().__init__(layers, hcg, strategy)
        options = strategy.pipeline_configs
        self.micro_batch_size, self.accumulate_steps = options["micro_batch_size"], options["accumulate_steps"]
        self.num_stages, self.stage_id, self.global_rank = 1, 0, 0

    def is_pipeline_first_stage(self) -> bool:
        """Return whether this process has the first stage."""
        return True

    def is_pipeline_last_stage(self) -> bool:
        """Return whether this process has the last stage."""
        return True

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
        losses = []
        for inputs, labels in self._micro_batches(data, "train_batch"):
            loss = self._loss(self._layers(inputs), labels, loss_fn_idx)
            part = loss / self.accumulate_steps
            (part if scaler is None else scaler.scale(part)).backward()
            losses.append(loss.detach())
        together = stack(losses)
        return together if return_micro_batch_loss else together.mean()

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
            The mean loss, or the list of the outputs of the micro-batches.
        """
        self._layers.eval()
        outputs, losses = [], []
        with grad_mode.no_grad():
            for inputs, labels in self._micro_batches(data, "eval_batch"):
                output = self._layers(inputs)
                outputs.append(output.cpu() if return_host_tensor and isinstance(output, Tensor) else output)
                if compute_loss:
                    losses.append(self._loss(output, labels, loss_fn_idx))
        return stack(losses).mean() if compute_loss else outputs

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
