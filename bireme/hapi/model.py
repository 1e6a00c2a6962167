"""Model: training, evaluation and prediction of a network, with callbacks. A step reads nothing from the device."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from bireme import jit
from bireme.core.base import errors
from bireme.core.base.boundary import Guarded
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.parameter import Parameter
from bireme.core.tensor.tensor import Tensor
from bireme.distributed import world
from bireme.distributed.communication.group import start
from bireme.distributed.parallel import DataParallel
from bireme.hapi.batches import (
    arrays,
    batch_size_of,
    fields_of,
    first,
    inputs_of,
    length,
    listed,
    loader,
    samples_in,
    tensors,
)
from bireme.hapi.callbacks import Callback, CallbackList, config_callbacks
from bireme.hapi.logs import Logs
from bireme.hapi.model_summary import summary
from bireme.hapi.precision import Precision
from bireme.hapi.scores import Scores
from bireme.hapi.weights import load_weights, save_weights
from bireme.io import Dataset
from bireme.jit.static_function import StaticFunction
from bireme.metric import Metric
from bireme.nn.layer import Layer
from bireme.ops import add_n
from bireme.optimizer import Optimizer
from bireme.static import InputSpec


def to_list(value: Any) -> list[Any] | None:
    """Return a list or tuple as a list, anything else in a list of its own, and None as None.

    Args:
        value: What to put into a list.

    Returns:
        A list, or None.

    Examples:
        >>> bireme.hapi.model.to_list(3), bireme.hapi.model.to_list(None)
        ([3], None)
    """
    return None if value is None else listed(value)


Specs = InputSpec | Sequence[InputSpec] | dict[str, InputSpec]
Callbacks = Callback | Iterable[Callback]
_AHEAD = 8  # batches of predictions that are not read yet


class Model(Guarded):
    """A network with what it takes to train it: optimizer, loss and metrics.

    Call ``prepare`` first, then ``fit``, ``evaluate`` or ``predict``. No training step waits for the device: losses and
    metrics are read when progress is shown, or when a callback accesses them.

    Args:
        network: The network, a ``Layer``.
        inputs: An ``InputSpec`` or a list of them, with names. Default: None; only needed if the number of inputs is
            not that of the parameters of ``network.forward``, and for ``summary`` without ``input_size``.
        labels: An ``InputSpec`` or a list of them, with names, if a batch has several labels. Default: None.

    Examples:
        >>> net = bireme.nn.Linear(2, 1)
        >>> model = bireme.Model(net)
        >>> model.prepare(bireme.optimizer.SGD(0.1, parameters=net.parameters()), bireme.nn.MSELoss())
        >>> data = bireme.io.TensorDataset([bireme.ones([8, 2]), bireme.ones([8, 1])])
        >>> model.fit(data, batch_size=4, epochs=20, verbose=0)
        >>> round(float(model.predict_batch([bireme.ones([1, 2])])[0][0, 0]), 2)
        1.0
    """

    def __init__(self, network: Layer, inputs: Specs | None = None, labels: Specs | None = None):
        if not isinstance(network, Layer):
            raise errors.bad("Model(network)", "a Layer", network, kind=AttributeError)
        self.mode = "train"
        self.network = network
        self._parallel: DataParallel | None = None  # what trains the network in several processes
        self._inputs, self._labels = _specs(inputs, "inputs"), _specs(labels, "labels")
        self._optimizer: Any = None
        self._loss: Any = None
        self._scores = Scores()
        self._precision = Precision(None, network, None)
        self.stop_training = False
        self._data: Any = None  # what fit goes over
        self._place = (0, 0)  # the epoch and step it begins at
        self._before = 0  # the steps made until there
        self._updated = True  # whether the last step changed the parameters

    # ------------------------------------------------------------ preparing

    def prepare(
        self,
        optimizer: Optimizer | None = None,
        loss: Callable[..., Any] | None = None,
        metrics: Metric | Sequence[Metric] | None = None,
        amp_configs: str | dict[str, Any] | None = None,
    ) -> None:
        """Set the optimizer, the loss, the metrics and the precision.

        Args:
            optimizer: The optimizer; needed for ``fit`` and ``train_batch``. Default: None.
            loss: A loss layer or a function of the outputs and the labels, needed for ``fit``. If it returns several
                losses, their sum is minimized. Default: None.
            metrics: A ``Metric`` or a list of them. Default: None.
            amp_configs: Level of mixed precision, ``"O0"``, ``"O1"`` or ``"O2"``, or a dict with ``level``, ``dtype``,
                ``custom_white_list``, ``custom_black_list`` and the settings of ``bireme.amp.GradScaler``. Default:
                None, float32.

        Examples:
            >>> model = bireme.Model(bireme.nn.Linear(2, 1))
            >>> model.prepare(loss=bireme.nn.MSELoss(), metrics=bireme.metric.Accuracy())
            >>> model.evaluate([[bireme.zeros([1, 2]), bireme.zeros([1, 1])]], verbose=0)["loss"]
            [0.0]
        """
        if optimizer is not None and not hasattr(optimizer, "step"):
            raise errors.bad(
                "Model.prepare(optimizer)", "an optimizer or None", optimizer, kind=errors.ArgumentTypeError
            )
        if loss is not None and not callable(loss):
            raise errors.bad("Model.prepare(loss)", "a Layer or a function", loss, kind=errors.ArgumentTypeError)
        self._scores = Scores(metrics)
        self._optimizer, self._loss = optimizer, loss
        self._precision = Precision(amp_configs, self.network, optimizer)

    @property
    def _metrics(self) -> list[Any]:
        return self._scores.metrics

    def _need(self, where: str, **parts: Any) -> None:
        for name, part in parts.items():
            if part is None:
                raise errors.bad(
                    f"Model.{where}()",
                    f"prepare({name}=...) before it",
                    described=f"no {name}",
                    kind=errors.ArgumentError,
                )

    # ------------------------------------------------------------ one batch

    def train_batch(self, inputs: Any, labels: Any = None, update: bool = True) -> Any:
        """Make a training step on one batch.

        Args:
            inputs: Inputs of the network: a tensor, an array, or a list or dict of them.
            labels: Labels, in the same forms. Default: None.
            update: Update the parameters and clear the gradients; if False, gradients are only accumulated. Default:
                True.

        Returns:
            A list of the losses as arrays; with metrics, the tuple of this list and the metrics of the batch.

        Examples:
            >>> net = bireme.nn.Linear(2, 1, weight_attr=bireme.nn.initializer.Constant(1.0))
            >>> model = bireme.Model(net)
            >>> model.prepare(bireme.optimizer.SGD(0.1, parameters=net.parameters()), bireme.nn.MSELoss())
            >>> float(model.train_batch([bireme.ones([1, 2])], [bireme.zeros([1, 1])])[0])
            4.0
        """
        self._need("train_batch", optimizer=self._optimizer, loss=self._loss)
        self._enter("train")
        found: list[tuple] = []
        losses = self._train(tensors(inputs), tensors(labels), update, found.extend)
        return self._result(losses, found)

    @no_grad()
    def eval_batch(self, inputs: Any, labels: Any = None) -> Any:
        """Evaluate one batch.

        Args:
            inputs: Inputs of the network: a tensor, an array, or a list or dict of them.
            labels: Labels, in the same forms. Default: None.

        Returns:
            A list of the losses as arrays; with metrics, the tuple of this list and the metrics of the batch; without a
            loss, only the metrics.

        Examples:
            >>> model = bireme.Model(bireme.nn.Identity())
            >>> model.prepare(loss=bireme.nn.MSELoss())
            >>> float(model.eval_batch([bireme.ones([1])], [bireme.zeros([1])])[0])
            1.0
        """
        self._enter("eval")
        found: list[tuple] = []
        losses = self._eval(tensors(inputs), tensors(labels), found.extend)
        return self._result(losses, found)

    @no_grad()
    def predict_batch(self, inputs: Any) -> list[np.ndarray]:
        """Compute the outputs of the network for one batch.

        Args:
            inputs: Inputs of the network: a tensor, an array, or a list or dict of them.

        Returns:
            A list of arrays, one for each output.

        Examples:
            >>> bireme.Model(bireme.nn.ReLU()).predict_batch([bireme.to_tensor([-1.0, 2.0])])[0].tolist()
            [0.0, 2.0]
        """
        self._enter("test")
        return [out.numpy() for out in self._predict(tensors(inputs))]

    def _enter(self, mode: str) -> None:
        self.mode = mode
        self.network.train() if mode == "train" else self.network.eval()

    def _train(self, inputs: list, labels: list, update: bool, count: Callable[[list[tuple]], Any]) -> list[Tensor]:
        """Make a step and return its losses.

        What the metrics take is recorded before the step is cut, so that all of it is one program.
        """
        with self._precision.casting(True):
            outputs = listed((self._parallel or self.network)(*inputs))
            losses = listed(self._loss(*outputs, *labels))
        with no_grad():
            count(self._scores.computed(outputs, labels))
        total = losses[0] if len(losses) == 1 else add_n(losses)
        self._precision.backward(total)
        if update:
            self._precision.update(self._optimizer)
        return losses

    def _eval(self, inputs: list, labels: list, count: Callable[[list[tuple]], Any]) -> list[Tensor]:
        with self._precision.casting(False):
            outputs = listed(self.network(*inputs))
            losses = [] if self._loss is None else listed(self._loss(*outputs, *labels))
        count(self._scores.computed(outputs, labels))
        return losses

    def _predict(self, inputs: list) -> list[Tensor]:
        with self._precision.casting(False):
            return listed(self.network(*inputs))

    def _names(self) -> list[str]:
        """Names of the values in the logs: the loss if there is one, and the metrics."""
        return [*(["loss"] if self._loss is not None else []), *self._scores.names()]

    def _figures(self, losses: list[Tensor]) -> dict[str, Any]:
        """Read the values of the logs from the device."""
        read = {} if self._loss is None else {"loss": [float(np.ravel(a)[0]) for a in arrays(losses)]}
        return read | self._scores.read()

    def _result(self, losses: list[Tensor], found: list[tuple]) -> Any:
        """Return what ``train_batch`` and ``eval_batch`` return."""
        figures = self._scores.count_now(found)
        return arrays(losses) if not figures else (arrays(losses), figures) if self._loss is not None else figures

    # ------------------------------------------------------------ whole passes

    def fit(
        self,
        train_data: Dataset | Iterable[Any] | None = None,
        eval_data: Dataset | Iterable[Any] | None = None,
        batch_size: int | Sequence[int] = 1,
        epochs: int = 1,
        eval_freq: int = 1,
        log_freq: int = 10,
        save_dir: str | None = None,
        save_freq: int = 1,
        verbose: int = 2,
        drop_last: bool = False,
        shuffle: bool = True,
        num_workers: int = 0,
        callbacks: Callbacks | None = None,
        accumulate_grad_batches: int = 1,
        num_iters: int | None = None,
    ) -> None:
        """Train the network, with evaluations in between.

        Several processes that were started together train one network, as under ``DataParallel``. Of a ``Dataset`` each
        gets its own part, with ``batch_size`` samples per process; all evaluate on all of ``eval_data``.

        Losses and metrics are read from the device only where progress is shown or a callback accesses them. ``Model``
        adds callbacks that show the progress, step the learning rate scheduler after each batch and save the model,
        unless ``callbacks`` has one of that kind.

        Args:
            train_data: A ``Dataset``, a ``DataLoader``, or an iterable of batches. The fields of a batch are the inputs
                of the network, then the labels.
            eval_data: Data to evaluate on, in the same forms. Default: None.
            batch_size: Number of samples per batch if the data is a ``Dataset``, or a pair for training and evaluation.
                Default: 1.
            epochs: Number of epochs. Default: 1.
            eval_freq: Number of epochs between two evaluations; the first comes after the first epoch. Default: 1.
            log_freq: Number of steps between two lines of progress. Default: 10.
            save_dir: Directory to save the model to. Default: None, it is not saved.
            save_freq: Number of epochs between two saved models. Default: 1.
            verbose: 0: no progress; 1: one line that is redrawn; 2: lines; 3: lines with timings. Default: 2.
            drop_last: Leave out the last batch of a ``Dataset`` if it is incomplete. Default: False.
            shuffle: Shuffle the samples of a ``Dataset`` in each epoch. Default: True.
            num_workers: Number of workers that read a ``Dataset``. Default: 0.
            callbacks: A ``Callback`` or a list of them. Default: None.
            accumulate_grad_batches: Number of batches whose gradients are added up for one update. Default: 1.
            num_iters: Number of training steps, whatever ``epochs`` says. Default: None.

        Examples:
            >>> net = bireme.nn.Linear(1, 1, bias_attr=False)
            >>> model = bireme.Model(net)
            >>> model.prepare(bireme.optimizer.SGD(0.5, parameters=net.parameters()), bireme.nn.MSELoss())
            >>> x = bireme.to_tensor([[1.0], [-1.0]])
            >>> model.fit([(x, 3 * x)], epochs=3, verbose=0)
            >>> net.weight.tolist()
            [[3.0]]
        """
        if train_data is None:
            raise errors.bad(
                "Model.fit(train_data)", "a dataset, a DataLoader, or batches", None, kind=errors.ArgumentError
            )
        self._need("fit", optimizer=self._optimizer, loss=self._loss)
        if world.size() > 1 and self._parallel is None and not isinstance(self.network, DataParallel):
            start()
            self._parallel = DataParallel(self.network)
        for name, number in (
            ("epochs", epochs),
            ("eval_freq", eval_freq),
            ("accumulate_grad_batches", accumulate_grad_batches),
        ):
            _positive(f"Model.fit({name})", number)
        if num_iters is not None:
            _positive("Model.fit(num_iters)", num_iters)
        sizes = tuple(batch_size) if isinstance(batch_size, (list, tuple)) else (batch_size, batch_size)
        if len(sizes) != 2:
            raise errors.bad(
                "Model.fit(batch_size)",
                "a number, or two: for training and for evaluation",
                batch_size,
                kind=errors.for_number(batch_size),
            )
        _must_have("Model.fit(train_data)", train_data)
        train = loader("Model.fit(train_data)", train_data, sizes[0], shuffle, drop_last, num_workers, divided=True)
        test = (
            None
            if eval_data is None
            else loader("Model.fit(eval_data)", eval_data, sizes[1], False, False, num_workers)
        )
        steps = given = length(train)
        if num_iters is not None:  # `epochs` is then ignored
            epochs = num_iters if given is None else -(-num_iters // max(given, 1))
            steps = num_iters if given is None else min(given, num_iters)
        every = config_callbacks(
            callbacks, self, batch_size_of(train), epochs, steps, log_freq, verbose, save_freq, save_dir, self._names(),
        )  # fmt: skip
        self.stop_training = False
        logs, left = Logs(), num_iters
        self._data, self._place, self._before = train, (0, 0), 0
        every.on_begin("train")
        begin, skipped = self._place  # a callback may have gone on from a checkpoint
        if left is not None:
            left = max(left - begin * (given or 0) - skipped, 0)
        for epoch in range(begin, epochs if left != 0 else begin):
            every.on_epoch_begin(epoch)
            done = self._run(
                "train", train, every, logs, left, given, accumulate_grad_batches, skipped if epoch == begin else 0
            )
            every.on_epoch_end(epoch, logs)
            if done == 0 and epoch > begin:
                errors.warn(
                    "Model.fit(train_data): it gave no batches after the first epoch; a generator can be read only once"
                )
                break
            if test is not None and epoch % eval_freq == 0:
                every.on_begin("eval", {"steps": length(test), "metrics": self._names()})
                self._run("eval", test, every, logs, None, None)
                every.on_end("eval", logs)
            left = None if left is None else left - done
            if self.stop_training or left == 0:
                break
        every.on_end("train", logs)

    def evaluate(
        self,
        eval_data: Dataset | Iterable[Any],
        batch_size: int = 1,
        log_freq: int = 10,
        verbose: int = 2,
        num_workers: int = 0,
        callbacks: Callbacks | None = None,
        num_iters: int | None = None,
    ) -> dict[str, Any]:
        """Evaluate the network.

        Args:
            eval_data: A ``Dataset``, a ``DataLoader``, or an iterable of batches.
            batch_size: Number of samples per batch if the data is a ``Dataset``. Default: 1.
            log_freq: Number of batches between two lines of progress. Default: 10.
            verbose: 0: no progress; 1: one line that is redrawn; 2: lines; 3: lines with timings. Default: 2.
            num_workers: Number of workers that read a ``Dataset``. Default: 0.
            callbacks: A ``Callback`` or a list of them. Default: None.
            num_iters: Largest number of batches. Default: None, all.

        Returns:
            A dict of the metrics over all batches, and of the loss of the last batch.

        Examples:
            >>> model = bireme.Model(bireme.nn.Identity())
            >>> model.prepare(metrics=bireme.metric.Accuracy())
            >>> model.evaluate([(bireme.to_tensor([[0.1, 0.9], [0.8, 0.2]]), bireme.to_tensor([[1], [1]]))], verbose=0)
            {'acc': 0.5}
        """
        _must_have("Model.evaluate(eval_data)", eval_data)
        data = loader("Model.evaluate(eval_data)", eval_data, batch_size, False, False, num_workers)
        steps = length(data)
        if num_iters is not None:
            _positive("Model.evaluate(num_iters)", num_iters)
            steps = num_iters if steps is None else min(steps, num_iters)
        every = config_callbacks(
            callbacks,
            self,
            batch_size_of(data),
            log_freq=log_freq,
            verbose=verbose,
            metrics=self._names(),
            mode="eval",
        )
        logs = Logs()
        every.on_begin("eval", {"steps": steps, "metrics": self._names()})
        self._run("eval", data, every, logs, num_iters, None)
        every.on_end("eval", logs)
        return {name: logs[name] for name in self._names() if name in logs}

    def predict(
        self,
        test_data: Dataset | Iterable[Any],
        batch_size: int = 1,
        num_workers: int = 0,
        stack_outputs: bool = False,
        verbose: int = 1,
        callbacks: Callbacks | None = None,
    ) -> list[Any]:
        """Compute the outputs of the network.

        Args:
            test_data: A ``Dataset``, a ``DataLoader``, or an iterable of batches.
            batch_size: Number of samples per batch if the data is a ``Dataset``. Default: 1.
            num_workers: Number of workers that read a ``Dataset``. Default: 0.
            stack_outputs: Concatenate the batches of each output. Default: False.
            verbose: 0: no progress; 1: one line that is redrawn; 2: lines; 3: lines with timings. Default: 1.
            callbacks: A ``Callback`` or a list of them. Default: None.

        Returns:
            A list with one entry for each output: a tuple of arrays, one per batch, or one array if ``stack_outputs``.

        Examples:
            >>> model = bireme.Model(bireme.nn.ReLU())
            >>> data = bireme.io.TensorDataset([bireme.to_tensor([[-1.0], [2.0], [3.0]])])
            >>> model.predict(data, batch_size=2, stack_outputs=True, verbose=0)[0].tolist()
            [[0.0], [2.0], [3.0]]
        """
        data = loader("Model.predict(test_data)", test_data, batch_size, False, False, num_workers)
        every = config_callbacks(callbacks, self, batch_size_of(data), log_freq=10, verbose=verbose, mode="predict")
        logs, batches = Logs(), []

        def keep(outs: list[Any]) -> None:
            batches.append(outs)
            if len(batches) > _AHEAD:  # the device is given work ahead, but does not have to hold all results
                batches[-_AHEAD - 1] = arrays(batches[-_AHEAD - 1])

        every.on_begin("predict", {"steps": length(data)})
        self._run("predict", data, every, logs, None, None, keep=keep)
        every.on_end("predict", logs)
        outputs = list(zip(*(arrays(outs) for outs in batches), strict=True))
        return [np.concatenate(out) for out in outputs] if stack_outputs else outputs

    def _run(
        self,
        mode: str,
        data: Any,
        every: CallbackList,
        logs: Logs,
        most: int | None,
        steps: int | None,
        together: int = 1,
        start: int = 0,
        keep: Callable[[list[Tensor]], Any] | None = None,
    ) -> int:
        """Make one pass over the data, from batch ``start`` on, and return the number of batches."""
        self._enter("test" if mode == "predict" else mode)
        names = self._names()
        if mode != "predict":
            self._scores.reset()
        step, takes, last = start - 1, inputs_of(self.network), None if most is None else start + most
        try:
            for step, batch in enumerate(first(data, most, start), start):
                fields = fields_of(batch)
                inputs, labels = self._split(fields, mode, *takes)
                every.on_batch_begin(mode, step, logs)
                losses: list[Tensor] = []
                if mode == "train":
                    if not self.network.training:  # a callback may have left it in evaluation
                        self._enter("train")
                    self._updated = (step + 1) % together == 0 or step + 1 in (steps, last)
                    losses = self._train(inputs, labels, self._updated, self._scores.count)
                else:
                    with no_grad():
                        if mode == "eval":
                            losses = self._eval(inputs, labels, self._scores.count)
                        elif keep is not None:
                            keep(self._predict(inputs))
                if mode != "predict":
                    logs.later(names, functools.partial(self._figures, losses), losses)
                dict.__setitem__(logs, "step", step)
                dict.__setitem__(logs, "batch_size", samples_in(fields))
                every.on_batch_end(mode, step, logs)
        except BaseException:  # Ctrl-C too: the live line is ended before anything else is printed
            every.end_lines()
            raise
        if mode == "train" and step >= start and not self._updated:
            # data of unknown length ended between two updates
            self._precision.update(self._optimizer)
        logs.settle()
        return step + 1 - start

    def _split(self, fields: list, mode: str, least: int, most: int) -> tuple[list, list]:
        """Split a batch into inputs and labels: as many inputs as were described, else as many as ``forward`` takes."""
        labels = (
            0 if mode == "predict" else len(self._labels) or int(self._loss is not None or bool(self._scores.metrics))
        )
        n = len(self._inputs) or max(min(most, len(fields) - labels), least)
        if len(fields) < n:
            raise errors.bad(
                f"Model, {mode} data",
                f"batches with {n} inputs for {type(self.network).__name__}.forward",
                described=f"{len(fields)} fields",
            )
        return fields[:n], [] if mode == "predict" else fields[n:]

    # ------------------------------------------------------------ files and facts

    def save(self, path: str, training: bool = True) -> None:
        """Save the parameters as ``path.pdparams`` and the state of the optimizer as ``path.pdopt``, or the graph.

        Args:
            path: Path without the suffix; missing directories are created.
            training: Whether the training is to be continued. If False, the network is saved as ``jit.save`` does it, to be
                loaded by ``jit.load`` without its source. Default: True.

        Raises:
            ValueError: If ``training`` is False and neither the model was given ``inputs`` nor the network specs by
                ``to_static``.

        Examples:
            >>> import os, tempfile
            >>> model = bireme.Model(bireme.nn.Linear(1, 1))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     model.save(f"{folder}/a")
            ...     os.listdir(folder)
            ['a.pdparams']
        """
        if not isinstance(path, (str, os.PathLike)):
            raise errors.bad("Model.save(path)", "a path", path, kind=errors.ArgumentTypeError)
        if not training:
            if not self._inputs and not isinstance(self.network.forward, StaticFunction):
                hint = "Model(network, inputs=[InputSpec([None, 4])])"
                raise errors.bad("Model.save(training)", "True, since the model has no inputs", False, hint=hint)
            jit.save(self.network, os.fspath(path), self._inputs or None)
            return
        save_weights(self.network, self._optimizer, os.fspath(path))

    def load(self, path: str, skip_mismatch: bool = False, reset_optimizer: bool = False) -> None:
        """Load what ``save`` wrote: the parameters and, if there is such a file, the state of the optimizer.

        Args:
            path: Path with or without the suffix ``.pdparams``.
            skip_mismatch: Leave parameters alone that are missing in the file or have another shape, with a warning; if
                False, they are an error. Default: False.
            reset_optimizer: Do not load the state of the optimizer. Default: False.

        Raises:
            ValueError: If a parameter does not fit, or the file does not exist.

        Examples:
            >>> import tempfile
            >>> net = bireme.nn.Linear(1, 1)
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     bireme.save({"weight": bireme.ones([1, 1]), "bias": bireme.zeros([1])}, f"{folder}/a.pdparams")
            ...     bireme.Model(net).load(f"{folder}/a")
            >>> net.weight.item()
            1.0
        """
        load_weights(self.network, None if reset_optimizer else self._optimizer, os.fspath(path), skip_mismatch)

    def parameters(self, *args: Any, **kwargs: Any) -> list[Parameter]:
        """Return the parameters of the network.

        Args:
            *args: Arguments of ``network.parameters``.
            **kwargs: Keyword arguments of ``network.parameters``.

        Returns:
            A list of parameters.

        Examples:
            >>> len(bireme.Model(bireme.nn.Linear(1, 1)).parameters())
            2
        """
        return self.network.parameters(*args, **kwargs)

    def summary(self, input_size: Any = None, dtype: Any = None) -> dict[str, int]:
        """Print a table of the layers of the network; see ``bireme.summary``.

        Args:
            input_size: Shape of the input, or a list of shapes. Default: None, that of ``inputs`` of the model.
            dtype: Dtype of all inputs, or a list with one for each. Default: None, float32.

        Returns:
            A dict with ``total_params`` and ``trainable_params``.

        Examples:
            >>> bireme.Model(bireme.nn.Linear(2, 3)).summary((1, 2))
            -----...
            {'total_params': 9, 'trainable_params': 9}
        """
        if input_size is None and not self._inputs:
            raise errors.bad("Model.summary(input_size)", "a shape, since the model was made without inputs=", None)
        return summary(self.network, self._inputs if input_size is None else input_size, dtype)


def _specs(given: Any, name: str) -> list[InputSpec]:
    found = (
        []
        if given is None
        else list(given)
        if isinstance(given, (list, tuple))
        else list(given.values())
        if isinstance(given, dict)
        else [given]
    )
    for spec in found:
        if not isinstance(spec, InputSpec):
            raise errors.bad(f"Model({name})", "InputSpecs of bireme.static", spec, kind=errors.ArgumentError)
        if spec.name is None:
            raise errors.bad(f"Model({name})", "InputSpecs with names", described=repr(spec))
    return found


def _must_have(where: str, data: Any) -> None:
    if length(data) == 0:
        raise errors.bad(where, "at least one sample", described="none")


def _positive(where: str, number: Any) -> None:
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < 1:
        raise errors.bad(where, "a positive integer", number, kind=errors.for_integer(number))
