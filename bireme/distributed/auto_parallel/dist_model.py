"""DistModel: a model on a mesh with its loss and its optimizer, whose training step is one call and one program."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from bireme.amp import GradScaler, auto_cast
from bireme.core.base import errors
from bireme.core.tensor import on_mesh
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.auto_parallel.process_mesh import ProcessMesh, get_mesh
from bireme.distributed.auto_parallel.sharding import ShardingStage1, ShardingStage2, ShardingStage3, shard_optimizer
from bireme.distributed.auto_parallel.strategy import Strategy
from bireme.distributed.auto_parallel.tensors import adopt, shard_tensor
from bireme.nn.layer import Layer

__all__ = ["DistModel", "in_auto_parallel_align_mode", "to_static"]

STAGES = {1: ShardingStage1, 2: ShardingStage2, 3: ShardingStage3}


class DistModel:
    """A model with its loss and its optimizer: a call trains, evaluates or predicts; made by ``to_static``.

    Args:
        layer: The model.
        loader: Data loader; its batches are what calls get. It has no effect beyond that.
        loss: Function or layer of outputs and labels. Default: None.
        optimizer: The optimizer. Default: None.
        strategy: Settings: sharding, gradient merge, mixed precision, parts of a batch. Default: None.
        metrics: Metrics, kept as an attribute. Default: None.
        input_spec: Shapes of inputs and labels, lists of two; the first says how many arguments of a call are inputs.
            Default: None, all but the last are.

    Examples:
        >>> layer = bireme.nn.Linear(2, 1)
        >>> sgd = bireme.optimizer.SGD(0.1, parameters=layer.parameters())
        >>> model = bireme.distributed.DistModel(layer, None, bireme.nn.MSELoss(), sgd)
        >>> losses = [model(bireme.ones([4, 2]), bireme.zeros([4, 1])).item() for _ in range(2)]
        >>> losses[1] < losses[0]
        True
    """

    def __init__(
        self,
        layer: Layer,
        loader: Any,
        loss: Layer | Callable | None = None,
        optimizer: Any = None,
        strategy: Strategy | None = None,
        metrics: Sequence[Any] | None = None,
        input_spec: Sequence[Sequence[Any]] | None = None,
    ) -> None:
        if not isinstance(layer, Layer):
            raise errors.bad("DistModel(layer)", "a Layer", layer, kind=errors.ArgumentTypeError)
        if loss is not None:
            errors.check_function("DistModel(loss)", loss)
        if strategy is not None and not isinstance(strategy, Strategy):
            raise errors.bad("DistModel(strategy)", "a Strategy or None", strategy, kind=errors.ArgumentTypeError)
        self._layer, self._loader, self._loss, self._optimizer = layer, loader, loss, optimizer
        self._strategy, self._metrics = strategy or Strategy(), list(metrics or [])
        self._inputs = None if input_spec is None else len(input_spec[0])
        self._steps = 0
        amp = self._strategy.amp
        scales = amp.enable and amp.dtype == "float16"
        self._scaler = GradScaler(init_loss_scaling=amp.init_loss_scaling) if scales else None
        self._mode = "predict" if loss is None else "eval" if optimizer is None else "train"
        sharding = self._strategy.sharding
        if sharding.enable and optimizer is not None:
            if sharding.stage not in STAGES:
                raise errors.bad("Strategy(sharding.stage)", "1, 2 or 3", sharding.stage)
            mesh = self._mesh()
            axis = next((name for name in mesh.dim_names if name in ("dp", "sharding")), mesh.dim_names[0])
            shard_optimizer(optimizer, STAGES[sharding.stage](axis, mesh))

    def _mesh(self) -> ProcessMesh:
        mesh = next((p.process_mesh for p in self._layer.parameters() if on_mesh.is_there(p)), None) or get_mesh()
        if mesh is None:
            raise errors.bad("Strategy(sharding)", "parameters on a mesh, or a call of set_mesh before", None)
        return mesh

    def train(self) -> None:
        """Let calls train: they take inputs and labels, update the parameters and return the loss."""
        if self._loss is None or self._optimizer is None:
            raise errors.bad("DistModel.train()", "a loss and an optimizer", described="none", kind=RuntimeError)
        self._mode = "train"
        self._layer.train()

    def eval(self) -> None:
        """Let calls evaluate: they take inputs and labels and return the loss."""
        if self._loss is None:
            raise errors.bad("DistModel.eval()", "a loss", described="none", kind=RuntimeError)
        self._mode = "eval"
        self._layer.eval()

    def predict(self) -> None:
        """Let calls predict: they take inputs and return the outputs."""
        self._mode = "predict"
        self._layer.eval()

    def __call__(self, *args: Any) -> Any:
        """Train, evaluate or predict with one batch, by the mode.

        Args:
            *args: Inputs, and labels where there is a loss.

        Returns:
            The loss, or the outputs where the mode is to predict.
        """
        if self._mode == "train":
            return self._train(args)
        with no_grad():
            return self._forward(args)[0]

    def _forward(self, args: Sequence[Any]) -> tuple[Any, Any]:
        """The loss, or the outputs where there is none, and the outputs."""
        amp = self._strategy.amp
        count = len(args) if self._mode == "predict" else self._inputs if self._inputs is not None else len(args) - 1
        inputs, labels = args[:count], args[count:]
        with auto_cast(amp.enable, amp.custom_white_list, amp.custom_black_list, amp.level.upper(), amp.dtype):
            outputs = self._layer(*inputs)
        if self._mode == "predict" or self._loss is None:
            return outputs, outputs
        return self._loss(*(outputs if isinstance(outputs, (list, tuple)) else [outputs]), *labels), outputs

    def _train(self, args: Sequence[Any]) -> Tensor:
        merge, pipeline = self._strategy.gradient_merge, self._strategy.pipeline
        parts = pipeline.accumulate_steps if pipeline.enable else 1
        every = merge.k_steps if merge.enable else 1
        total = None
        for batch in _divided(args, parts):
            loss = self._forward(batch)[0]
            share = loss / (parts * (every if merge.avg else 1)) if parts * every > 1 else loss
            (share if self._scaler is None else self._scaler.scale(share)).backward()
            total = loss if total is None else total + loss
        assert total is not None, "a batch has at least one part"
        self._steps += 1
        if self._steps % every == 0:
            if self._scaler is None:
                self._optimizer.step()
            else:
                self._scaler.step(self._optimizer)
                self._scaler.update()
            self._optimizer.clear_grad()
        return total if parts == 1 else total / parts

    def state_dict(self, mode: str = "all", split_fusion: bool = True) -> dict[str, Any]:
        """Return parameters, buffers and the state of the optimizer.

        Args:
            mode: ``"all"``, ``"param"`` for the model alone, ``"opt"`` for the optimizer alone. Default: ``"all"``.
            split_fusion: It has no effect: parameters are never fused. Default: True.

        Returns:
            A dict by name.
        """
        if mode not in ("all", "param", "opt"):
            raise errors.bad("DistModel.state_dict(mode)", "'all', 'param' or 'opt'", mode)
        found: dict[str, Any] = dict(self._layer.state_dict()) if mode != "opt" else {}
        if mode != "param" and self._optimizer is not None:
            found |= self._optimizer.state_dict()
        return found

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load parameters, buffers and the state of the optimizer; tensors lie where they did.

        Args:
            state_dict: What ``state_dict()`` returned.
        """
        own = self._layer.state_dict()
        for name, held in own.items():
            if name in state_dict:
                given = state_dict[name]
                if on_mesh.is_there(held):
                    adopt(held, shard_tensor(given.detach(), held.process_mesh, held.placements))
                else:
                    held.set_value(given)
        rest = {name: value for name, value in state_dict.items() if name not in own}
        if rest and self._optimizer is not None:
            self._optimizer.set_state_dict(rest)


def _divided(args: Sequence[Any], parts: int) -> list[tuple]:
    """A batch in parts of equal size along its first axis."""
    if parts == 1:
        return [tuple(args)]
    for x in args:
        if isinstance(x, Tensor) and x.ndim and x.shape[0] % parts:
            raise errors.bad("Strategy(pipeline.accumulate_steps)", f"a divisor of the batch size {x.shape[0]}", parts)
    return [
        tuple(
            [
                x[i * (x.shape[0] // parts) : (i + 1) * (x.shape[0] // parts)]
                if isinstance(x, Tensor) and x.ndim
                else x
                for x in args
            ]
        )
        for i in range(parts)
    ]


def to_static(
    layer: Layer,
    loader: Any = None,
    loss: Layer | Callable | None = None,
    optimizer: Any = None,
    strategy: Strategy | None = None,
    input_spec: Sequence[Sequence[Any]] | None = None,
) -> DistModel:
    """Return a model whose training step is one call; as any step here, it runs as one compiled program.

    Args:
        layer: The model; its parameters may lie on a mesh.
        loader: Data loader. Default: None.
        loss: Function or layer of outputs and labels. Default: None.
        optimizer: The optimizer. Default: None.
        strategy: Settings. Default: None.
        input_spec: Shapes of inputs and labels, lists of two. Default: None.

    Returns:
        The model.

    Examples:
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["dp"])
        >>> layer = bireme.distributed.shard_layer(bireme.nn.Linear(2, 1), mesh)
        >>> model = bireme.distributed.to_static(layer, loss=bireme.nn.MSELoss())
        >>> model(bireme.ones([4, 2]), layer(bireme.ones([4, 2]))).item()
        0.0
    """
    return DistModel(layer, loader, loss, optimizer, strategy, input_spec=input_spec)


def in_auto_parallel_align_mode() -> bool:
    """Return whether ``FLAGS_enable_auto_parallel_align_mode`` asks for results that compare with one process bit by bit.

    Returns:
        True or False.

    Examples:
        >>> bireme.distributed.in_auto_parallel_align_mode()
        False
    """
    asked = os.environ.get("FLAGS_enable_auto_parallel_align_mode", "0")  # noqa: SIM112 - Paddle's name
    return asked.lower() in ("1", "true")
