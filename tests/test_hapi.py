"""Model: what a loop hands to callbacks, prints, returns and saves, and that a step reads nothing from the device."""

import json
import os
import warnings

import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.hapi import Logs


class Points(bireme.io.Dataset):
    """Ten points in three classes."""

    def __init__(self, n=10):
        rng = np.random.default_rng(0)
        self.x = rng.standard_normal((n, 4)).astype("float32")
        self.y = rng.integers(0, 3, (n, 1))

    def __getitem__(self, i):
        return self.x[i], self.y[i]

    def __len__(self):
        return len(self.x)


class Stream(bireme.io.IterableDataset):
    def __iter__(self):
        yield from (Points(7)[i] for i in range(7))


class Record(bireme.callbacks.Callback):
    """Every call with its arguments, the numbers of the logs rounded."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def names(self):
        return [call[0] for call in self.calls]


def _recording(name):
    def call(self, *args):
        self.calls.append((name, *(dict(a) if isinstance(a, dict) else a for a in args)))

    return call


for _name in [n for n in vars(bireme.callbacks.Callback) if n.startswith("on_")]:
    setattr(Record, _name, _recording(_name))


def linear(metrics=None, lr=0.1, optimizer=bireme.optimizer.SGD, **kwargs):
    net = nn.Linear(4, 3)
    net.weight.set_value(np.linspace(-1, 1, 12, dtype="float32").reshape(4, 3))
    model = bireme.Model(net)
    model.prepare(optimizer(lr, parameters=net.parameters()), nn.CrossEntropyLoss(), metrics, **kwargs)
    return model


def by_hand(batches, lr=0.1, every=1):
    """The same training as a plain NumPy loop: losses and the bias afterwards."""
    w, b = np.linspace(-1, 1, 12, dtype="float64").reshape(4, 3), np.zeros(3)
    losses, sums = [], [np.zeros_like(w), np.zeros_like(b)]
    for n, (x, y) in enumerate(batches, 1):
        z = x @ w + b
        p = np.exp(z - z.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        rows = np.arange(len(y)), y[:, 0]
        losses.append(-np.log(p[rows]).mean())
        p[rows] -= 1
        sums = [sums[0] + x.T @ p / len(y), sums[1] + p.mean(0)]
        if n % every == 0 or n == len(batches):
            w, b, sums = w - lr * sums[0], b - lr * sums[1], [0 * w, 0 * b]
    return losses, b


def batches_of(data, size):
    return [(data.x[i : i + size], data.y[i : i + size]) for i in range(0, len(data), size)]


def test_the_order_of_calls_and_what_they_get():
    record, data = Record(), Points(6)
    model = linear(bireme.metric.Accuracy())
    model.fit(data, data, batch_size=3, epochs=2, verbose=0, shuffle=False, callbacks=[record])
    step = ["on_train_batch_begin", "on_train_batch_end"]
    check = ["on_eval_begin", *["on_eval_batch_begin", "on_eval_batch_end"] * 2, "on_eval_end"]
    epoch = ["on_epoch_begin", *step * 2, "on_epoch_end", *check]
    assert record.names() == ["on_train_begin", *epoch * 2, "on_train_end"]
    assert record.params == {"batch_size": 3, "epochs": 2, "steps": 2, "verbose": 0, "metrics": ["loss", "acc"]}
    first = next(call for call in record.calls if call[0] == "on_train_batch_end")
    assert first[1] == 0
    assert list(first[2]) == ["loss", "acc", "step", "batch_size"] and first[2]["batch_size"] == 3
    assert record.calls[record.names().index("on_eval_begin")][1] == {"steps": 2, "metrics": ["loss", "acc"]}
    losses = [call[2]["loss"][0] for call in record.calls if call[0] == "on_train_batch_end"]
    expected, _ = by_hand(batches_of(data, 3) * 2)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)


@pytest.mark.parametrize("every", [1, 2, 3])
def test_gradients_of_several_batches_are_added_up(every):
    model, data = linear(), Points(10)
    model.fit(data, batch_size=2, verbose=0, shuffle=False, accumulate_grad_batches=every)
    np.testing.assert_allclose(
        model.network.bias.numpy(), by_hand(batches_of(data, 2), every=every)[1], rtol=1e-5, atol=1e-6
    )


def test_updates_also_at_the_end_of_a_stream():
    model, record = linear(), Record()
    model.fit(bireme.io.DataLoader(Stream(), batch_size=2), verbose=0, accumulate_grad_batches=3, callbacks=[record])
    assert record.params["steps"] is None
    np.testing.assert_allclose(
        model.network.bias.numpy(), by_hand(batches_of(Points(7), 2), every=3)[1], rtol=1e-5, atol=1e-6
    )


def test_iterations_decide_over_epochs():
    record = Record()
    linear().fit(Points(10), batch_size=2, epochs=1, num_iters=7, verbose=0, callbacks=record)
    assert record.names().count("on_train_batch_end") == 7 and record.names().count("on_epoch_end") == 2
    record = Record()
    linear().evaluate(Points(10), batch_size=2, num_iters=2, verbose=0, callbacks=[record])
    assert record.names().count("on_eval_batch_end") == 2


def test_plain_lines(capsys):
    linear(bireme.metric.Accuracy()).fit(Points(10), Points(4), batch_size=2, log_freq=2, shuffle=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "Epoch 1/1"
    assert [line.split(" - ")[0] for line in lines[2:5]] == ["step 2/5", "step 4/5", "step 5/5"]
    assert lines[2].split(" - ")[1].startswith("loss: ") and lines[2].split(" - ")[2].startswith("acc: ")
    assert "/step - " in lines[2] and "samples/s" in lines[2] and "ETA" in lines[2] and "ETA" not in lines[4]
    assert lines[5] == "Eval begin..." and lines[-1] == "Eval samples: 4"
    linear().fit(Points(4), verbose=0)
    assert capsys.readouterr().out == ""


def test_a_step_reads_nothing_and_is_one_program(monkeypatch):
    reads = []
    for name in ("numpy", "item", "__float__", "__bool__"):
        old = getattr(bireme.Tensor, name)
        monkeypatch.setattr(
            bireme.Tensor, name, lambda self, *args, old=old, name=name: (reads.append(name), old(self, *args))[1]
        )
    model, data = linear(bireme.metric.Accuracy(topk=(1, 2))), Points(8)
    batches = [[bireme.to_tensor(data.x), bireme.to_tensor(data.y)]] * 40
    model.fit(batches, verbose=0)
    reads.clear()
    bireme.debug.reset_stats()
    model.fit(batches, verbose=0, callbacks=[bireme.callbacks.Callback()])
    assert bireme.debug.stats()["flushes"] <= 42
    assert len(reads) <= 8, "the loss and two metrics at the end of the epoch"


def test_all_steps_are_the_same_program():
    bireme.set_flags({"FLAGS_interpret": False})
    try:
        model, data = linear([bireme.metric.Accuracy(), bireme.metric.Accuracy(topk=(1, 2), name="top")]), Points(8)
        batch = [bireme.to_tensor(data.x), bireme.to_tensor(data.y)]
        bireme.debug.flush()
        bireme.debug.reset_stats()
        model.fit([batch] * 3, epochs=2, verbose=0)
        assert bireme.debug.stats()["compiles"] == 1
    finally:
        bireme.set_flags({"FLAGS_interpret": True})


def test_a_metric_of_ones_own_gets_arrays_and_counts_every_batch():
    class Sum(bireme.metric.Metric):
        def __init__(self):
            self.reset()

        def reset(self):
            self.seen = []

        def update(self, pred, label):
            assert isinstance(pred, np.ndarray) and isinstance(label, np.ndarray)
            self.seen.append(len(label))
            return 7

        def accumulate(self):
            return float(sum(self.seen))

        def name(self):
            return "seen"

    record, own = Record(), Sum()
    model = linear(own)
    model.fit(Points(10), batch_size=3, verbose=0, callbacks=[record])
    assert [c[2]["seen"] for c in record.calls if c[0] == "on_train_batch_end"] == [3.0, 6.0, 9.0, 10.0]
    model.fit([[bireme.ones([2, 4]), bireme.zeros([2, 1], "int64")]] * 100, verbose=0)
    assert own.seen == [2] * 100
    assert model.train_batch([np.ones((2, 4), "float32")], [np.zeros((2, 1), "int64")])[1] == [7]


def test_what_batches_return():
    model, data = linear(bireme.metric.Accuracy()), Points(4)
    (loss,), (acc,) = model.train_batch([data.x], [data.y])
    assert isinstance(loss, np.ndarray) and loss.shape == () and isinstance(acc, float)
    np.testing.assert_allclose(loss, by_hand([(data.x, data.y)])[0][0], rtol=1e-5)
    before = model.network.weight.numpy()
    model.train_batch(data.x, data.y, update=False)
    assert (model.network.weight.numpy() == before).all() and np.abs(model.network.weight.grad.numpy()).sum() > 0
    (loss,), _ = model.eval_batch([data.x], [data.y])
    assert not model.network.training and loss < by_hand([(data.x, data.y)])[0][0]
    np.testing.assert_allclose(
        model.predict_batch([data.x])[0], data.x @ before + model.network.bias.numpy(), rtol=1e-5, atol=1e-6
    )
    assert set(model.evaluate(data, batch_size=4, verbose=0)) == {"loss", "acc"}
    model.prepare(metrics=bireme.metric.Accuracy())
    assert len(model.eval_batch([data.x], [data.y])) == 1


def test_predictions_of_several_outputs(capsys):
    class Two(nn.Layer):
        def forward(self, a, b):
            return a + b, a * b

    model = bireme.Model(Two())
    x, y = np.arange(6, dtype="float32").reshape(3, 2), np.full((3, 2), 2, "float32")
    data = bireme.io.TensorDataset([bireme.to_tensor(x), bireme.to_tensor(y)])
    outputs = model.predict(data, batch_size=2, verbose=2)
    assert [[a.shape for a in out] for out in outputs] == [[(2, 2), (1, 2)]] * 2
    assert capsys.readouterr().out.splitlines()[-1] == "Predict samples: 3"
    total, product = model.predict(data, batch_size=2, stack_outputs=True, verbose=0)
    assert (total == x + y).all() and (product == x * y).all()
    many = model.predict([(x + n, y) for n in range(20)], stack_outputs=True, verbose=0)[0]
    assert (many == np.concatenate([x + n + y for n in range(20)])).all()


def test_how_a_batch_is_divided_into_inputs_and_labels():
    class Masked(nn.Layer):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 3)

        def forward(self, x, mask=None):
            return self.linear(x if mask is None else x * mask)

    net = Masked()
    model = bireme.Model(net)
    model.prepare(bireme.optimizer.SGD(0.1, parameters=net.parameters()), nn.CrossEntropyLoss())
    x, y = Points(4).x, Points(4).y
    model.fit([(x, y)], verbose=0)
    model.fit([(x, np.ones_like(x), y)], verbose=0)
    model.fit([{"a": x, "b": y}], verbose=0)
    with pytest.raises(ValueError, match="expected batches with 1 inputs"):
        model.fit([()], verbose=0)
    spec = bireme.static.InputSpec([None, 4], "float32", "x")
    assert bireme.Model(net, spec)._inputs == [spec]
    with pytest.raises(AssertionError, match=r"Model\(inputs\)"):
        bireme.Model(net, inputs=3)
    with pytest.raises(ValueError, match="with names"):
        bireme.Model(net, bireme.static.InputSpec([None, 4]))


def test_a_generator_is_read_once():
    x, y = Points(4).x, Points(4).y
    with pytest.warns(UserWarning, match="no batches after the first epoch"):
        linear().fit((batch for batch in [(x, y)]), epochs=3, verbose=0)


def test_save_load_and_go_on_in_a_network_of_other_names(tmp_path):
    def made():
        schedule = bireme.optimizer.lr.StepDecay(0.1, 3, 0.5)
        return linear(optimizer=lambda lr, parameters: bireme.optimizer.Adam(schedule, parameters=parameters))

    data, whole, first, second = Points(8), made(), made(), made()
    whole.fit(data, batch_size=2, epochs=2, verbose=0, shuffle=False)
    first.fit(data, batch_size=2, verbose=0, shuffle=False)
    first.save(str(tmp_path / "a"))
    assert sorted(os.listdir(tmp_path)) == ["a.pdopt", "a.pdparams"]
    second.load(str(tmp_path / "a"))
    assert second.network.weight.name != first.network.weight.name
    second.fit(data, batch_size=2, verbose=0, shuffle=False)
    assert (second.network.weight.numpy() == whole.network.weight.numpy()).all()
    fresh = made()
    fresh.load(str(tmp_path / "a.pdparams"), reset_optimizer=True)
    assert fresh._optimizer.get_lr() == 0.1 and not fresh._optimizer._slots


def test_files_that_do_not_fit(tmp_path):
    linear().save(str(tmp_path / "a"))
    other = bireme.Model(nn.Linear(4, 5))
    with pytest.raises(ValueError, match=r"weight of shape \[4, 3\], where the network has \[4, 5\]"):
        other.load(str(tmp_path / "a"))
    with pytest.warns(UserWarning, match="left out (bias|weight)"):
        other.load(str(tmp_path / "a"), skip_mismatch=True)
    with pytest.raises(AssertionError, match="which is not there"):
        other.load(str(tmp_path / "b"))
    with pytest.raises(ValueError, match="since the model has no inputs"):
        other.save(str(tmp_path / "a"), training=False)


@pytest.mark.parametrize(
    "configs", ["O1", {"level": "O2", "dtype": "bfloat16"}, {"level": "O1", "init_loss_scaling": 128.0}]
)
def test_mixed_precision_learns(configs):
    model, data = linear(amp_configs=configs), Points(8)
    first = model.train_batch([data.x], [data.y])[0]
    for _ in range(5):
        last = model.train_batch([data.x], [data.y])[0]
    assert last < first and np.isfinite(model.predict_batch([data.x])[0].astype("float32")).all()
    assert (model._precision.scaler is None) == (configs != "O1" and "dtype" in configs)


def test_wrong_arguments():
    model, data = linear(), Points(2)
    with pytest.raises(TypeError, match=r"prepare\(loss\)"):
        model.prepare(loss=3)
    with pytest.raises(AssertionError, match=r"prepare\(metrics\)"):
        model.prepare(metrics=3)
    with pytest.raises(ValueError, match="level 'O0', 'O1' or 'O2', got 'O7'"):
        model.prepare(amp_configs="O7")
    with pytest.raises(ValueError, match="got speed"):
        model.prepare(amp_configs={"speed": 1})
    with pytest.raises(AssertionError, match=r"prepare\(optimizer=...\) before it"):
        bireme.Model(nn.Linear(1, 1)).fit(data)
    with pytest.raises(AssertionError, match=r"fit\(train_data\)"):
        model.fit()
    with pytest.raises(AssertionError, match=r"fit\(batch_size\)"):
        linear().fit(data, data, batch_size=(1, 2, 3))
    with pytest.raises(ValueError, match=r"fit\(epochs\)"):
        linear().fit(data, epochs=0)
    with pytest.raises(TypeError, match="expected a dataset, a DataLoader, or batches"):
        linear().evaluate(3)
    with pytest.raises(TypeError, match="callbacks"):
        linear().fit(data, callbacks=[3])
    with pytest.raises(AttributeError, match=r"Model\(network\)"):
        bireme.Model(3)


def test_logs_are_read_when_they_are_looked_at():
    reads = []
    logs = Logs(step=0)
    logs.later(["loss"], lambda: (reads.append(1), {"loss": [0.5]})[1], [])
    assert logs["step"] == 0 and logs.get("step") == 0 and "loss" in logs and len(logs) == 2 and not reads
    assert {**logs} == {"step": 0, "loss": [0.5]} and reads == [1]
    for look in (
        dict,
        lambda x: x.copy(),
        lambda x: dict(x.items()),
        lambda x: x | {},
        lambda x: json.loads(json.dumps(x)),
        lambda x: x,
    ):
        logs.later(["loss"], lambda: {"loss": [len(reads)]}, [])
        assert look(logs) == {"step": 0, "loss": [1]}
    logs.later(["loss"], lambda: {"loss": [2.0]}, [])
    assert repr(logs) == "{'step': 0, 'loss': [2.0]}" and list(logs.values()) == [0, [2.0]]


def test_input_spec():
    spec = bireme.static.InputSpec
    assert spec([None, -2, 3]).shape == (-1, -1, 3) and spec([2]) == spec((2,)) != spec([2], "int64")
    assert spec.from_tensor(bireme.ones([2], "int32"), "x") == spec([2], "int32", "x")
    assert spec([3]).batch(4).batch([5]).unbatch().shape == (4, 3)
    for bad in (
        lambda: spec(3),
        lambda: spec([1.5]),
        lambda: spec([]).unbatch(),
        lambda: spec([1]).batch(2.0),
        lambda: spec.from_tensor(3),
    ):
        with pytest.raises((TypeError, ValueError)):
            bad()


def test_nothing_warns_in_a_plain_run():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        linear(bireme.metric.Accuracy()).fit(Points(4), Points(4), batch_size=2, verbose=0)
