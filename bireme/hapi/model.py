"""Model: training, evaluation and prediction of a network, with callbacks. A step reads nothing from the device."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.parameter import Parameter
from bireme.core.tensor.tensor import Tensor
from bireme.hapi.batches import arrays, batch_size_of, fields_of, first, inputs_of, length, listed, loader, samples_in, tensors
from bireme.hapi.callbacks import CallbackList, config_callbacks
from bireme.hapi.logs import Logs
from bireme.hapi.model_summary import summary
from bireme.hapi.precision import Precision
from bireme.hapi.scores import Scores
from bireme.hapi.weights import load_weights, save_weights
from bireme.nn.layer import Layer
from bireme.ops import add_n
from bireme.static import InputSpec


def to_list(value: Any) -> list[Any] | None:
    """A list of what was given: lists and tuples as they are, one thing in a list of its own, and None for nothing.

    >>> bireme.hapi.model.to_list(3), bireme.hapi.model.to_list(None)
    ([3], None)
    """
    return None if value is None else listed(value)


_AHEAD = 8  # batches of predictions that are not read yet


class Model:
    """A network with what it takes to train it: `prepare`, then `fit`, `evaluate`, `predict`, `save` and `load`.

    `inputs` and `labels`, descriptions by InputSpec, are needed only where the number of the network's inputs cannot be told from its
    `forward`.

    >>> net = bireme.nn.Linear(2, 1)
    >>> model = bireme.Model(net)
    >>> model.prepare(bireme.optimizer.SGD(0.1, parameters=net.parameters()), bireme.nn.MSELoss())
    >>> data = bireme.io.TensorDataset([bireme.ones([8, 2]), bireme.ones([8, 1])])
    >>> model.fit(data, batch_size=4, epochs=20, verbose=0)
    >>> round(float(model.predict_batch([bireme.ones([1, 2])])[0][0, 0]), 2)
    1.0
    """

    def __init__(self, network: Layer, inputs: Any = None, labels: Any = None):
        if not isinstance(network, Layer):
            raise errors.bad("Model(network)", "a Layer", network, kind=AttributeError)
        self.mode = "train"
        self.network = network
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

    def prepare(self, optimizer: Any = None, loss: Any = None, metrics: Any = None, amp_configs: Any = None) -> None:
        """Give the model its optimizer, loss and metrics; `amp_configs` is a level of mixed precision, or a dict with `level` and settings.

        The dict may have the settings of `amp.GradScaler`, `custom_white_list`, `custom_black_list`, and `dtype`.

        >>> model = bireme.Model(bireme.nn.Linear(2, 1))
        >>> model.prepare(loss=bireme.nn.MSELoss(), metrics=bireme.metric.Accuracy())
        >>> model.evaluate([[bireme.zeros([1, 2]), bireme.zeros([1, 1])]], verbose=0)["loss"]
        [0.0]
        """
        if optimizer is not None and not hasattr(optimizer, "step"):
            raise errors.bad("Model.prepare(optimizer)", "an optimizer or None", optimizer, kind=TypeError)
        if loss is not None and not callable(loss):
            raise errors.bad("Model.prepare(loss)", "a Layer or a function", loss, kind=TypeError)
        self._scores = Scores(metrics)
        self._optimizer, self._loss = optimizer, loss
        self._precision = Precision(amp_configs, self.network, optimizer)

    @property
    def _metrics(self) -> list[Any]:
        return self._scores.metrics

    def _need(self, where: str, **parts: Any) -> None:
        for name, part in parts.items():
            if part is None:
                raise errors.bad(f"Model.{where}()", f"prepare({name}=...) before it", f"no {name}", kind=errors.Unfit)

    # ------------------------------------------------------------ one batch

    def train_batch(self, inputs: Any, labels: Any = None, update: bool = True) -> Any:
        """A training step: losses, or losses and metrics of this batch if there are metrics. Without `update` gradients are only added up.

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
        """Losses, or losses and metrics of a batch; only metrics if there is no loss.

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
        """The network's outputs for a batch, as arrays.

        >>> bireme.Model(bireme.nn.ReLU()).predict_batch([bireme.to_tensor([-1.0, 2.0])])[0].tolist()
        [0.0, 2.0]
        """
        self._enter("test")
        return [out.numpy() for out in self._predict(tensors(inputs))]

    def _enter(self, mode: str) -> None:
        self.mode = mode
        self.network.train() if mode == "train" else self.network.eval()

    def _train(self, inputs: list, labels: list, update: bool, count: Callable[[list[tuple]], Any]) -> list[Tensor]:
        """A step; returns its losses. What metrics take from it is recorded before the step is cut, so all of it is one program."""
        with self._precision.casting(True):
            outputs = listed(self.network(*inputs))
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
        """What stands in the logs: the loss if there is one, and the metrics' names."""
        return [*(["loss"] if self._loss is not None else []), *self._scores.names()]

    def _figures(self, losses: list[Tensor]) -> dict[str, Any]:
        """The numbers of the logs, read from the device."""
        read = {} if self._loss is None else {"loss": [float(np.ravel(a)[0]) for a in arrays(losses)]}
        return read | self._scores.read()

    def _result(self, losses: list[Tensor], found: list[tuple]) -> Any:
        """What `train_batch` and `eval_batch` return."""
        figures = self._scores.count_now(found)
        return arrays(losses) if not figures else (arrays(losses), figures) if self._loss is not None else figures

    # ------------------------------------------------------------ whole passes

    def fit(
        self,
        train_data: Any = None,
        eval_data: Any = None,
        batch_size: Any = 1,
        epochs: int = 1,
        eval_freq: int = 1,
        log_freq: int = 10,
        save_dir: str | None = None,
        save_freq: int = 1,
        verbose: int = 2,
        drop_last: bool = False,
        shuffle: bool = True,
        num_workers: int = 0,
        callbacks: Any = None,
        accumulate_grad_batches: int = 1,
        num_iters: int | None = None,
    ) -> None:
        """Train, and evaluate every `eval_freq` epochs if there is `eval_data`; data is a dataset, a DataLoader, or anything that gives batches.

        `batch_size` may be a pair, for training and evaluation. Progress is shown every `log_freq` steps (`verbose`: 0 not at all, 1 one live
        line, 2 lines), and only then are loss and metrics read from the device. With `save_dir` the model is saved every `save_freq` epochs.
        Gradients of `accumulate_grad_batches` batches are added up for one update. At most `num_iters` steps are made.

        >>> net = bireme.nn.Linear(1, 1, bias_attr=False)
        >>> model = bireme.Model(net)
        >>> model.prepare(bireme.optimizer.SGD(0.5, parameters=net.parameters()), bireme.nn.MSELoss())
        >>> x = bireme.to_tensor([[1.0], [-1.0]])
        >>> model.fit([(x, 3 * x)], epochs=3, verbose=0)
        >>> net.weight.tolist()
        [[3.0]]
        """
        if train_data is None:
            raise errors.bad("Model.fit(train_data)", "data to train on", None, kind=errors.Unfit)
        self._need("fit", optimizer=self._optimizer, loss=self._loss)
        for name, number in (("epochs", epochs), ("eval_freq", eval_freq), ("accumulate_grad_batches", accumulate_grad_batches)):
            _positive(f"Model.fit({name})", number)
        if num_iters is not None:
            _positive("Model.fit(num_iters)", num_iters)
        sizes = tuple(batch_size) if isinstance(batch_size, (list, tuple)) else (batch_size, batch_size)
        if len(sizes) != 2:
            raise errors.bad("Model.fit(batch_size)", "a number, or two: for training and for evaluation", batch_size, kind=errors.Unfit)
        _must_have("Model.fit(train_data)", train_data)
        train = loader(train_data, sizes[0], shuffle, drop_last, num_workers)
        test = None if eval_data is None else loader(eval_data, sizes[1], False, False, num_workers)
        steps = given = length(train)
        if num_iters is not None:  # it decides alone, whatever `epochs` says
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
            done = self._run("train", train, every, logs, left, given, accumulate_grad_batches, skipped if epoch == begin else 0)
            every.on_epoch_end(epoch, logs)
            if done == 0 and epoch > begin:
                errors.warn("Model.fit(train_data): it gave no batches after the first epoch; a generator can be read only once")
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
        eval_data: Any,
        batch_size: int = 1,
        log_freq: int = 10,
        verbose: int = 2,
        num_workers: int = 0,
        callbacks: Any = None,
        num_iters: int | None = None,
    ) -> dict[str, Any]:
        """The metrics over `eval_data`, and the loss of its last batch, in a dict.

        >>> model = bireme.Model(bireme.nn.Identity())
        >>> model.prepare(metrics=bireme.metric.Accuracy())
        >>> model.evaluate([(bireme.to_tensor([[0.1, 0.9], [0.8, 0.2]]), bireme.to_tensor([[1], [1]]))], verbose=0)
        {'acc': 0.5}
        """
        _must_have("Model.evaluate(eval_data)", eval_data)
        data = loader(eval_data, batch_size, False, False, num_workers)
        steps = length(data)
        if num_iters is not None:
            _positive("Model.evaluate(num_iters)", num_iters)
            steps = num_iters if steps is None else min(steps, num_iters)
        every = config_callbacks(
            callbacks, self, batch_size_of(data), log_freq=log_freq, verbose=verbose, metrics=self._names(), mode="eval",
        )  # fmt: skip
        logs = Logs()
        every.on_begin("eval", {"steps": steps, "metrics": self._names()})
        self._run("eval", data, every, logs, num_iters, None)
        every.on_end("eval", logs)
        return {name: logs[name] for name in self._names() if name in logs}

    def predict(
        self,
        test_data: Any,
        batch_size: int = 1,
        num_workers: int = 0,
        stack_outputs: bool = False,
        verbose: int = 1,
        callbacks: Any = None,
    ) -> list[Any]:
        """For each output of the network, a tuple of arrays, one for each batch; or one array of all with `stack_outputs`.

        >>> model = bireme.Model(bireme.nn.ReLU())
        >>> data = bireme.io.TensorDataset([bireme.to_tensor([[-1.0], [2.0], [3.0]])])
        >>> model.predict(data, batch_size=2, stack_outputs=True, verbose=0)[0].tolist()
        [[0.0], [2.0], [3.0]]
        """
        data = loader(test_data, batch_size, False, False, num_workers)
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
        self, mode: str, data: Any, every: CallbackList, logs: Logs, most: int | None, steps: int | None, together: int = 1,
        start: int = 0, keep: Callable[[list[Tensor]], Any] | None = None,
    ) -> int:  # fmt: skip
        """One pass over the data, from batch `start`; the number of batches."""
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
                        else:
                            keep(self._predict(inputs))
                if mode != "predict":
                    logs.later(names, lambda losses=losses: self._figures(losses), losses)
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
        """Inputs and labels out of a batch: as many inputs as were described, else as many as `forward` takes."""
        labels = 0 if mode == "predict" else len(self._labels) or int(self._loss is not None or bool(self._scores.metrics))
        n = len(self._inputs) or max(min(most, len(fields) - labels), least)
        if len(fields) < n:
            raise errors.bad(f"Model, {mode} data", f"batches with {n} inputs for {type(self.network).__name__}.forward", f"{len(fields)} fields")
        return fields[:n], [] if mode == "predict" else fields[n:]

    # ------------------------------------------------------------ files and facts

    def save(self, path: str, training: bool = True) -> None:
        """Save the parameters as `path.pdparams`, and what the optimizer keeps as `path.pdopt`.

        >>> model = bireme.Model(bireme.nn.Linear(1, 1))
        >>> model.save("/tmp/bireme_example_model/a")
        >>> model.load("/tmp/bireme_example_model/a")
        """
        if not training:
            hint = "save the parameters with training=True, and build the network again where it is used"
            raise errors.bad("Model.save(training)", "True: a network cannot be exported as a program yet", False, hint, kind=errors.Misfit)
        save_weights(self.network, self._optimizer, os.fspath(path))

    def load(self, path: str, skip_mismatch: bool = False, reset_optimizer: bool = False) -> None:
        """Load what `save` wrote, the optimizer's part too if there is one; parameters that do not fit are an error, or left alone.

        >>> net = bireme.nn.Linear(1, 1)
        >>> bireme.save({"weight": bireme.to_tensor([[5.0]]), "bias": bireme.zeros([3])}, "/tmp/bireme_example_model/b.pdparams")
        >>> import warnings
        >>> with warnings.catch_warnings(action="ignore"):
        ...     bireme.Model(net).load("/tmp/bireme_example_model/b", skip_mismatch=True)
        >>> net.weight.item()
        5.0
        """
        load_weights(self.network, None if reset_optimizer else self._optimizer, os.fspath(path), skip_mismatch)

    def parameters(self, *args: Any, **kwargs: Any) -> list[Parameter]:
        """The network's parameters.

        >>> len(bireme.Model(bireme.nn.Linear(1, 1)).parameters())
        2
        """
        return self.network.parameters(*args, **kwargs)

    def summary(self, input_size: Any = None, dtype: Any = None) -> dict[str, int]:
        """Print a table of the layers and return the number of parameters; `bireme.summary` tells more.

        >>> bireme.Model(bireme.nn.Linear(2, 3)).summary((1, 2))
        -----...
        {'total_params': 9, 'trainable_params': 9}
        """
        if input_size is None and not self._inputs:
            raise errors.bad("Model.summary(input_size)", "a shape, since the model was made without inputs=", None)
        return summary(self.network, self._inputs if input_size is None else input_size, dtype)


def _specs(given: Any, name: str) -> list[InputSpec]:
    found = [] if given is None else list(given) if isinstance(given, (list, tuple)) else list(given.values()) if isinstance(given, dict) else [given]
    for spec in found:
        if not isinstance(spec, InputSpec):
            raise errors.bad(f"Model({name})", "InputSpecs of bireme.static", spec, kind=errors.Unfit)
        if spec.name is None:
            raise errors.bad(f"Model({name})", "InputSpecs with names", repr(spec))
    return found


def _must_have(where: str, data: Any) -> None:
    if length(data) == 0:
        raise errors.bad(where, "one sample or more", "none")


def _positive(where: str, number: Any) -> None:
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < 1:
        raise errors.bad(where, "a positive integer", number, kind=errors.Unfit)
