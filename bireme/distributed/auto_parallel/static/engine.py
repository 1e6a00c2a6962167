"""Engine: loops over data for a model on a mesh."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from bireme import files
from bireme.core.base import errors
from bireme.core.tensor import on_mesh
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.auto_parallel.dist_model import DistModel
from bireme.distributed.auto_parallel.loader import shard_dataloader
from bireme.distributed.auto_parallel.process_mesh import get_mesh
from bireme.distributed.auto_parallel.strategy import Strategy
from bireme.distributed.auto_parallel.tensors import unshard_dtensor
from bireme.io import DataLoader
from bireme.nn.layer import Layer

__all__ = ["Engine"]


class Engine:
    """A model with loss, optimizer and metrics that loops over data.

    Args:
        model: The model; its parameters may lie on a mesh.
        loss: Function or layer of outputs and labels. Default: None.
        optimizer: The optimizer. Default: None.
        metrics: A metric or a list of them. Default: None.
        cluster: A description of the machines. It has no effect. Default: None.
        strategy: Settings. Default: None.

    Examples:
        >>> layer = bireme.nn.Linear(2, 1)
        >>> sgd = bireme.optimizer.SGD(0.1, parameters=layer.parameters())
        >>> engine = bireme.distributed.fleet.auto.Engine(layer, bireme.nn.MSELoss(), sgd)
        >>> data = bireme.io.TensorDataset([bireme.ones([4, 2]), bireme.zeros([4, 1])])
        >>> history = engine.fit(data, batch_size=2, epochs=2, verbose=0)
        >>> len(history["loss"])
        4
    """

    def __init__(
        self,
        model: Layer | None = None,
        loss: Layer | Callable | None = None,
        optimizer: Any = None,
        metrics: Any = None,
        cluster: Any = None,
        strategy: Strategy | None = None,
    ) -> None:
        if not isinstance(model, Layer):
            raise errors.bad("Engine(model)", "a Layer", model, kind=errors.ArgumentTypeError)
        self._model, self._loss, self._optimizer = model, loss, optimizer
        self._metrics = list(metrics) if isinstance(metrics, (list, tuple)) else [] if metrics is None else [metrics]
        self._strategy = strategy or Strategy()
        self._made: DistModel | None = None
        self.history: dict[str, list] = {}

    @property
    def _steps(self) -> DistModel:
        if self._made is None:
            self._made = DistModel(self._model, None, self._loss, self._optimizer, self._strategy, self._metrics)
        return self._made

    def prepare(
        self,
        inputs_spec: Any = None,
        labels_spec: Any = None,
        inputs: Any = None,
        labels: Any = None,
        main_program: Any = None,
        startup_program: Any = None,
        mode: str | None = None,
    ) -> None:
        """Choose what calls of ``run`` do. Programs are made when data comes.

        Args:
            inputs_spec: Shapes of the inputs. Default: None.
            labels_spec: Shapes of the labels. Default: None.
            inputs: Inputs of a program; they have no effect. Default: None.
            labels: Labels of a program; they have no effect. Default: None.
            main_program: It has no effect. Default: None.
            startup_program: It has no effect. Default: None.
            mode: ``"train"``, ``"eval"`` or ``"predict"``. Default: None, by what there is.
        """
        if inputs_spec is not None:
            self._steps._inputs = len(inputs_spec) if isinstance(inputs_spec, (list, tuple)) else 1
        if mode is not None:
            self._set(mode)

    def _set(self, mode: str) -> None:
        if mode not in ("train", "eval", "predict"):
            raise errors.bad("Engine(mode)", "'train', 'eval' or 'predict'", mode)
        getattr(self._steps, mode)()

    def dataloader(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        collate_fn: Callable | None = None,
        num_workers: int = 0,
        steps_per_epoch: int | None = None,
        sample_split: int | None = 1,
        mode: str | None = None,
    ) -> Any:
        """Return a loader whose batches lie on the mesh of the model, divided along ``"dp"``.

        Args:
            dataset: The dataset, or a loader, which is returned itself unless the model is on a mesh.
            batch_size: Size of a batch. Default: 1.
            shuffle: Whether the order is random. Default: False.
            drop_last: Leave out a last batch that is smaller. Default: False.
            collate_fn: Makes a batch of samples. Default: None.
            num_workers: Number of processes that read. Default: 0.
            steps_per_epoch: It has no effect. Default: None.
            sample_split: How many items of a sample are inputs. Default: 1.
            mode: It has no effect. Default: None.

        Returns:
            The loader.
        """
        loader = dataset
        if not hasattr(dataset, "batch_sampler"):
            loader = DataLoader(
                dataset, batch_size=batch_size, shuffle=shuffle, drop_last=drop_last, collate_fn=collate_fn,
                num_workers=num_workers,
            )  # fmt: skip
        mesh = next((p.process_mesh for p in self._model.parameters() if on_mesh.is_there(p)), None) or get_mesh()
        if mesh is None or not isinstance(loader, DataLoader):
            return loader
        return shard_dataloader(loader, mesh, shard_dims="dp" if "dp" in mesh.dim_names else None)

    def _batches(self, loader: Any, steps: int | None) -> Iterator[tuple]:
        for i, batch in enumerate(loader):
            if steps is not None and i >= steps:
                return
            yield tuple(batch) if isinstance(batch, (list, tuple)) else (batch,)

    def fit(
        self,
        train_data: Any,
        train_sample_split: int | None = None,
        batch_size: int = 1,
        epochs: int = 1,
        steps_per_epoch: int | None = None,
        log_freq: int = 10,
        save_dir: str | None = None,
        save_freq: int = 1,
        valid_data: Any = None,
        valid_sample_split: int | None = None,
        valid_freq: int = 1,
        valid_steps: int | None = None,
        collate_fn: Callable | None = None,
        callbacks: Any = None,
        verbose: int = 2,
        nvprof_range: Sequence[int] = (-1, -1),
    ) -> dict[str, list]:
        """Train.

        Args:
            train_data: Dataset or loader.
            train_sample_split: How many items of a sample are inputs. Default: None, all but the last.
            batch_size: Size of a batch. Default: 1.
            epochs: Number of rounds over the data. Default: 1.
            steps_per_epoch: Steps of a round at most. Default: None, all.
            log_freq: Steps between two messages. Default: 10.
            save_dir: Folder to save to after rounds. Default: None.
            save_freq: Rounds between two of these. Default: 1.
            valid_data: Dataset or loader to evaluate with. Default: None.
            valid_sample_split: As ``train_sample_split``. Default: None.
            valid_freq: Rounds between two evaluations. Default: 1.
            valid_steps: Steps of an evaluation at most. Default: None.
            collate_fn: Makes a batch of samples. Default: None.
            callbacks: Functions that are called with the history after each round. Default: None.
            verbose: 0 for no messages. Default: 2.
            nvprof_range: It has no effect. Default: (-1, -1).

        Returns:
            The losses of all steps under ``"loss"``, and what evaluations gave under ``"val_..."``.
        """
        loader = self.dataloader(train_data, batch_size, collate_fn=collate_fn)
        self._steps._inputs = train_sample_split
        found: dict[str, list] = {"loss": []}
        for epoch in range(epochs):
            self._set("train")
            losses = [self._steps(*batch) for batch in self._batches(loader, steps_per_epoch)]
            found["loss"] += [loss.item() for loss in losses]
            if save_dir is not None and (epoch + 1) % save_freq == 0:
                self.save(f"{save_dir}/epoch{epoch}")
            if valid_data is not None and (epoch + 1) % valid_freq == 0:
                seen = self.evaluate(valid_data, valid_sample_split, batch_size, valid_steps, collate_fn=collate_fn)
                for name, value in seen.items():
                    found.setdefault(f"val_{name}", []).append(value)
            for call in callbacks or ():
                call(found)
        self.history = found
        return found

    def evaluate(
        self,
        valid_data: Any,
        valid_sample_split: int | None = None,
        batch_size: int = 1,
        steps: int | None = None,
        log_freq: int = 10,
        collate_fn: Callable | None = None,
        callbacks: Any = None,
        verbose: int = 2,
    ) -> dict[str, Any]:
        """Evaluate.

        Args:
            valid_data: Dataset or loader.
            valid_sample_split: How many items of a sample are inputs. Default: None, all but the last.
            batch_size: Size of a batch. Default: 1.
            steps: Steps at most. Default: None, all.
            log_freq: Steps between two messages. Default: 10.
            collate_fn: Makes a batch of samples. Default: None.
            callbacks: Functions that are called with what was found. Default: None.
            verbose: 0 for no messages. Default: 2.

        Returns:
            The mean of the losses under ``"loss"``, and each metric under its name.
        """
        loader = self.dataloader(valid_data, batch_size, collate_fn=collate_fn)
        self._steps._inputs = valid_sample_split
        self._set("eval")
        for metric in self._metrics:
            metric.reset()
        losses = []
        for batch in self._batches(loader, steps):
            with no_grad():
                loss, outputs = self._steps._forward(batch)
            losses.append(loss)
            for metric in self._metrics:
                count = len(batch) - 1 if valid_sample_split is None else valid_sample_split
                seen = metric.compute(_whole(outputs), *map(_whole, batch[count:]))
                metric.update(*(seen if isinstance(seen, (list, tuple)) else [seen]))
        found: dict[str, Any] = {"loss": float(np.mean([loss.item() for loss in losses]))} if losses else {}
        for metric in self._metrics:
            found[metric.name() if isinstance(metric.name(), str) else metric.name()[0]] = metric.accumulate()
        for call in callbacks or ():
            call(found)
        return found

    def predict(
        self,
        test_data: Any,
        test_sample_split: int | None = None,
        batch_size: int = 1,
        steps: int | None = None,
        collate_fn: Callable | None = None,
        callbacks: Any = None,
        verbose: int = 2,
    ) -> list[Any]:
        """Predict.

        Args:
            test_data: Dataset or loader.
            test_sample_split: How many items of a sample are inputs. Default: None, all.
            batch_size: Size of a batch. Default: 1.
            steps: Steps at most. Default: None, all.
            collate_fn: Makes a batch of samples. Default: None.
            callbacks: Functions that are called with the outputs. Default: None.
            verbose: 0 for no messages. Default: 2.

        Returns:
            The outputs of each batch.
        """
        loader = self.dataloader(test_data, batch_size, collate_fn=collate_fn)
        self._set("predict")
        found = [self._steps(*batch[:test_sample_split]) for batch in self._batches(loader, steps)]
        for call in callbacks or ():
            call(found)
        return found

    def run(
        self, data: Any = None, feed: Any = None, fetch_list: Any = None, mode: str | None = None
    ) -> dict[str, Any]:
        """Train, evaluate or predict with one batch.

        Args:
            data: The batch, a tensor or a list of them. Default: None.
            feed: The same as a dict. Default: None.
            fetch_list: It has no effect. Default: None.
            mode: ``"train"``, ``"eval"`` or ``"predict"``. Default: None, as before.

        Returns:
            The loss under ``"loss"``, or the outputs under ``"outputs"``.
        """
        if mode is not None:
            self._set(mode)
        batch = list(feed.values()) if feed is not None else data if isinstance(data, (list, tuple)) else [data]
        found = self._steps(*batch)
        return {"outputs" if self._steps._mode == "predict" else "loss": found}

    def cost(self, inputs_spec: Any = None, labels_spec: Any = None, mode: str | None = None) -> tuple[float, int]:
        """Estimate what a training step takes.

        Args:
            inputs_spec: It has no effect. Default: None.
            labels_spec: It has no effect. Default: None.
            mode: It has no effect. Default: None.

        Returns:
            Floating-point operations of one sample, six for each element of a parameter, and bytes of parameters,
            gradients and states on the device that has most.
        """
        params = self._model.parameters()
        states = 2 if self._optimizer is None else 2 + len(self._optimizer._accumulator_names)
        held = sum(p._local_value().nbytes if on_mesh.is_there(p) else p.nbytes for p in params)
        return 6.0 * sum(p.size for p in params), held * states

    def save(self, path: str, training: bool = True) -> None:
        """Save the model, whole: all processes call it, the first one writes.

        Args:
            path: Path without the suffix.
            training: Whether the state of the optimizer is saved too. Default: True.
        """
        files.save({k: _whole(v) for k, v in self._model.state_dict().items()}, f"{path}.pdparams")
        if training and self._optimizer is not None:
            state = {k: _whole(v) for k, v in self._optimizer.state_dict().items()}
            files.save(state, f"{path}.pdopt")

    def load(self, path: str, strict: bool = True, load_optimizer: bool = True) -> None:
        """Load what ``save`` has written; tensors lie where they did.

        Args:
            path: Path without the suffix.
            strict: It has no effect. Default: True.
            load_optimizer: Whether the state of the optimizer is loaded too. Default: True.
        """
        self._steps.set_state_dict(files.load(f"{path}.pdparams"))
        if load_optimizer and self._optimizer is not None:
            self._optimizer.set_state_dict(files.load(f"{path}.pdopt"))


def _whole(x: Any) -> Any:
    return unshard_dtensor(x) if isinstance(x, Tensor) and on_mesh.is_there(x) else x
