"""Callbacks: stopping, schedules and checkpoints as in Paddle 3.2.2; the progress line, log files and the picture."""

import contextlib
import glob
import io
import struct
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import bireme
from bireme import callbacks, nn
from bireme.core.base import terminal
from bireme.hapi import log_writer, progressbar
from bireme.hapi.curve import drawn


def model_of(n=4, lr=0.1, metrics=None):
    net = nn.Linear(2, 2)
    model = bireme.Model(net)
    model.prepare(bireme.optimizer.SGD(lr, parameters=net.parameters()), nn.CrossEntropyLoss(), metrics)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((n, 2)).astype("float32"), rng.integers(0, 2, (n, 1))
    return model, bireme.io.TensorDataset([bireme.to_tensor(x), bireme.to_tensor(y)])


# ---------------------------------------------------------------- stopping and schedules


def run(callback, values, key="loss", lr=0.1):
    """What a callback does to (stop_training, rate) as evaluations come in."""
    w = bireme.to_tensor([1.0], stop_gradient=False)
    model = SimpleNamespace(
        stop_training=False, _optimizer=bireme.optimizer.SGD(lr, parameters=[w]), save=lambda path: None
    )
    callback.set_model(model)
    callback.on_train_begin()
    out = []
    for value in values:
        callback.on_eval_end({key: value})
        out.append((model.stop_training, round(model._optimizer.get_lr(), 6)))
    return out


# when it stops, counted from 1; None if never. Asked of paddlepaddle 3.2.2.
STOPS = [
    ({}, [[1.0], [0.9]], "loss", 1),
    ({"patience": 2}, [[1.0], [0.9], [0.95], [0.96], [0.97]], "loss", 4),
    ({"monitor": "acc", "patience": 1}, [0.1, 0.2, 0.2, 0.3], "acc", 3),
    ({"monitor": "foo", "mode": "max", "patience": 1}, [0.1, 0.2, 0.3, 0.2], "foo", 4),
    ({"monitor": "acc", "mode": "min", "patience": 1}, [0.1, 0.2], "acc", 2),
    ({"min_delta": 0.1, "patience": 1}, [1.0, 0.95], "loss", 2),
    ({"min_delta": -0.1, "patience": 1}, [1.0, 0.95], "loss", 2),
    ({"baseline": 0.5, "patience": 1}, [1.0], "loss", 1),
    ({"monitor": "acc", "baseline": 0.5, "patience": 2}, [0.6, 0.7, 0.8], "acc", None),
    ({"patience": 1}, [1.0, float("nan")], "loss", 2),
]


@pytest.mark.parametrize(("given", "values", "key", "when"), STOPS)
def test_early_stopping(given, values, key, when, capsys):
    stops = [stop for stop, _ in run(callbacks.EarlyStopping(**given), values, key)]
    assert stops == [when is not None and n >= when for n in range(1, len(values) + 1)]
    assert (f"Epoch {when}: Early stopping." in capsys.readouterr().out) == (when is not None)


RATES = [
    ({"patience": 1}, [1.0, 0.9, 0.9, 0.9, 0.8], "loss", [0.1, 0.1, 0.01, 0.001, 0.001]),
    ({"patience": 2, "factor": 0.5}, [[1.0], [0.9], [0.9], [0.9]], "loss", [0.1, 0.1, 0.1, 0.05]),
    ({"patience": 1, "cooldown": 2, "factor": 0.5}, [1.0] * 6, "loss", [0.1, 0.05, 0.05, 0.025, 0.025, 0.0125]),
    ({"patience": 1, "factor": 0.5, "min_lr": 0.04}, [1.0] * 5, "loss", [0.1, 0.05, 0.04, 0.04, 0.04]),
    ({"monitor": "acc", "patience": 1, "factor": 0.5, "verbose": 0}, [0.1, 0.2, 0.2], "acc", [0.1, 0.1, 0.05]),
    ({"patience": 1, "factor": 0.5, "min_delta": 0.2}, [1.0, 0.9, 0.7], "loss", [0.1, 0.05, 0.05]),
]


@pytest.mark.parametrize(("given", "values", "key", "rates"), RATES)
def test_reduce_on_plateau(given, values, key, rates, capsys):
    assert [rate for _, rate in run(callbacks.ReduceLROnPlateau(**given), values, key)] == rates


def test_figures_that_are_not_there():
    for one in (callbacks.EarlyStopping("foo"), callbacks.ReduceLROnPlateau("foo")):
        with pytest.warns(UserWarning, match=r"expected the loss or a metric, got 'foo'; the evaluation has loss"):
            assert run(one, [1.0]) == [(False, 0.1)]
    with pytest.warns(UserWarning, match="taken as 'auto'"):
        callbacks.EarlyStopping(mode="zz")
    with pytest.raises(ValueError, match=r"ReduceLROnPlateau\(factor\)"):
        callbacks.ReduceLROnPlateau(factor=1.0)


def test_a_run_stops_and_keeps_its_best(tmp_path, capsys):
    model, data = model_of(lr=0.0)
    model.fit(data, data, epochs=6, verbose=0, save_dir=str(tmp_path), callbacks=[callbacks.EarlyStopping(patience=1)])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "0.pdparams",
        "1.pdparams",
        "best_model.pdparams",
        "final.pdparams",
    ]
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["save", "save", "Epoch", "Best", "save"]
    model.fit(data, epochs=2, verbose=0)
    assert not model.stop_training, "the next run is not stopped by the one before"


def test_checkpoints(tmp_path, capsys):
    model, data = model_of()
    model.fit(data, epochs=3, verbose=0, save_dir=str(tmp_path / "a"), save_freq=2)
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["0.pdparams", "2.pdparams", "final.pdparams"]
    mine = callbacks.ModelCheckpoint(1, str(tmp_path / "b"))
    model.fit(data, verbose=0, save_dir=str(tmp_path / "c"), callbacks=[mine])
    assert (tmp_path / "b" / "final.pdparams").exists() and not (tmp_path / "c").exists()
    with pytest.raises(ValueError, match="save_freq"):
        callbacks.ModelCheckpoint(0)


@pytest.mark.parametrize(
    ("by", "rates"), [(None, [1.0, 0.5, 0.25, 0.125]), (callbacks.LRScheduler(False, True), [1.0, 1.0, 0.5, 0.5])]
)
def test_schedules(by, rates):
    class Rates(callbacks.Callback):
        def __init__(self):
            self.seen = []

        def on_train_batch_end(self, step, logs=None):
            self.seen.append(self.model._optimizer.get_lr())

    model, data = model_of()
    model._optimizer.set_lr_scheduler(bireme.optimizer.lr.StepDecay(1.0, 1, 0.5))
    seen = Rates()
    model.fit(data, batch_size=2, epochs=2, verbose=0, callbacks=[seen, *([by] if by else [])])
    assert seen.seen == rates
    with pytest.raises(ValueError, match="not both"):
        callbacks.LRScheduler(True, True)


# ---------------------------------------------------------------- progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("columns", [200, 80, 40, 12, 1])
def test_one_live_line_that_fits(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", Terminal())
    model, data = model_of(8, metrics=bireme.metric.Accuracy())
    model.fit(data, batch_size=2, log_freq=1, verbose=1)
    text = sys.stdout.getvalue()
    live = text.split("Epoch 1/1\n")[1]
    assert live.endswith("\n") and live.count("\n") == 1 and live.startswith("\r")
    assert all(len(line.rstrip("\n")) < max(columns, 2) for line in live.split("\r"))
    assert ("[==" in live) == (columns >= 80)


def test_an_error_begins_on_a_line_of_its_own(monkeypatch):
    monkeypatch.setattr(terminal, "is_live", lambda stream: True)
    monkeypatch.setattr(sys, "stdout", Terminal())
    model, data = model_of(8)
    with pytest.raises(Interrupted):
        model.fit(data, log_freq=1, verbose=1, callbacks=[Losses(stop=3)])
    assert sys.stdout.getvalue().endswith("\n")


def test_a_file_gets_lines_without_control_characters(capsys, monkeypatch):
    monkeypatch.setattr(terminal, "in_notebook", lambda: False)
    model, data = model_of(8)
    model.fit(data, batch_size=2, log_freq=2, verbose=1)
    out = capsys.readouterr().out
    assert "\r" not in out and "\b" not in out
    assert [line.split(" - ")[0] for line in out.splitlines()[2:]] == ["step 2/4", "step 4/4"]
    monkeypatch.setattr(terminal, "in_notebook", lambda: True)
    model.fit(data, batch_size=2, log_freq=2, verbose=1)
    assert capsys.readouterr().out.count("\r") == 2


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1.0000"), (0.001, "1.0000e-03"), (-0.0001, "-1.0000e-04"), (0.0, "0.0000e+00"), (float("nan"), "nan"), (3, "3"),
        (np.float32(2.5), "2.5000"), (np.array([1.5]), "1.5000"), ([0.1, 2.0], "0.1000 2.0000"), ("txt", "txt"),
    ],
)  # fmt: skip
def test_figures_as_paddle_prints_them(value, text):
    assert progressbar.shown(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0us"), (0.0005, "500us"), (0.9999, "1.0s"), (12.3, "12s"), (59.6, "1:00"), (125, "2:05"), (3725, "1:02:05")],
)
def test_durations(seconds, text):
    assert progressbar.duration(seconds) == text


def test_a_bar_of_its_own():
    for verbose in (0, 1, 2):
        file = io.StringIO()
        bar = progressbar.ProgressBar(4, verbose=verbose, file=file, name="file")
        for n in range(1, 5):
            bar.update(n, {"loss": 0.5}.items())
        assert [line.split(" - ")[:2] for line in file.getvalue().splitlines()] == [
            [f"file {n}/4", "loss: 0.5000"] for n in range(1, 5) if verbose
        ]
    with pytest.raises(TypeError, match=r"ProgressBar\(num\)"):
        progressbar.ProgressBar(-1)


def test_costs_of_reading_and_computing(capsys):
    model, data = model_of(4)
    model.fit(data, batch_size=2, verbose=3, log_freq=1)
    out = capsys.readouterr().out
    assert all(word in out for word in ("avg_reader_cost", "avg_batch_cost", "ips"))


# ---------------------------------------------------------------- files of viewers


def fields(data):
    """The fields of a protocol buffer: (number, value), with messages and texts as bytes."""
    out, i = [], 0

    def varint():
        nonlocal i
        n = shift = 0
        while True:
            byte = data[i]
            i += 1
            n |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return n

    while i < len(data):
        key = varint()
        size = {1: 8, 5: 4}.get(key & 7)
        if key & 7 == 0:
            out.append((key >> 3, varint()))
            continue
        size = varint() if size is None else size
        raw = data[i : i + size]
        i += size
        out.append(
            (
                key >> 3,
                struct.unpack("<d", raw)[0] if key & 7 == 1 else struct.unpack("<f", raw)[0] if key & 7 == 5 else raw,
            )
        )
    return out


def records(path, checked):
    data, i, out = Path(path).read_bytes(), 0, []
    while i < len(data):
        length = data[i : i + 8]
        (n,) = struct.unpack("<Q", length)
        i += 8
        if checked:
            assert struct.unpack("<I", data[i : i + 4])[0] == log_writer.masked_crc32c(length)
            i += 4
        out.append(data[i : i + n])
        i += n
        if checked:
            assert struct.unpack("<I", data[i : i + 4])[0] == log_writer.masked_crc32c(out[-1])
            i += 4
    return out


def scalars(path):
    """(tag, step, value) of an event file's scalars."""
    found = []
    for record in records(path, True)[1:]:
        event = dict(fields(record))
        value = dict(fields(dict(fields(event[5]))[1]))
        if 2 in value:
            found.append((value[1].decode(), event[2], value[2]))
    return found


def test_tensorboard(tmp_path):
    model, data = model_of(24, metrics=bireme.metric.Accuracy())
    model.fit(
        data, data, batch_size=2, epochs=2, verbose=0, callbacks=[callbacks.TensorBoard(str(tmp_path), histograms=True)]
    )
    (path,) = glob.glob(f"{tmp_path}/events.out.tfevents.*")
    assert dict(fields(records(path, True)[0]))[3] == b"brain.Event:2"
    found = scalars(path)
    assert [step for tag, step, _ in found if tag == "train/loss"] == list(range(1, 25))
    assert [step for tag, step, _ in found if tag == "train/acc"] == [10, 12, 20, 24]
    assert [step for tag, step, _ in found if tag == "eval/acc"] == [12, 24]
    assert {round(value, 6) for tag, _, value in found if tag == "train/lr"} == {0.1}


def test_checksums_known_from_elsewhere():
    # RFC 3720, B.4
    assert log_writer.crc32c(bytes(32)) == 0x8A9136AA and log_writer.crc32c(b"\xff" * 32) == 0x62A8AB43
    assert log_writer.crc32c(bytes(range(32))) == 0x46DD794E


def test_writers_take_histograms_and_text(tmp_path):
    for writer in (log_writer.EventWriter, log_writer.RecordWriter):
        with writer(tmp_path) as log:
            log.add_scalar("a", bireme.to_tensor([2.5]), -1)
            log.add_histogram("h", bireme.to_tensor([1.0, 2.0, float("inf"), 4.0]), 2)
            log.add_text("t", "**ä**", 3)
            with pytest.raises(TypeError, match=r"add_scalar\(value\)"):
                log.add_scalar("a", [1, 2], 0)
            with pytest.raises(ValueError, match="at least one finite number"):
                log.add_histogram("a", [], 0)
        assert log.closed
    (event,), (record,) = glob.glob(f"{tmp_path}/events*"), glob.glob(f"{tmp_path}/vdlrecords*")
    a, h, t = (dict(fields(r)) for r in records(event, True)[1:])
    assert a[2] == (1 << 64) - 1, "a negative step is written in 64 bits"
    histogram = dict(fields(dict(fields(dict(fields(h[5]))[1]))[5]))
    assert (histogram[1], histogram[2], histogram[3], histogram[4]) == (1.0, 4.0, 3.0, 7.0) and "**ä**".encode() in t[5]
    meta, a, h, t = (dict(fields(dict(fields(r))[1])) for r in records(record, False))
    assert meta[2] == b"meta_data_tag" and (a[2], a[4]) == (b"a", 2.5) and (h[1], t[1]) == (2, 3)
    assert np.frombuffer(dict(fields(h[8]))[1]).sum() == 3


def test_visualdl_and_wandb(tmp_path, monkeypatch):
    model, data = model_of(4)
    monkeypatch.setitem(sys.modules, "visualdl", None)
    model.fit(data, data, verbose=0, callbacks=[callbacks.VisualDL(str(tmp_path))])
    (path,) = glob.glob(f"{tmp_path}/vdlrecords*")
    tags = {dict(fields(dict(fields(r))[1]))[2].decode() for r in records(path, False)}
    assert tags == {"meta_data_tag", "train/loss", "train/lr", "eval/loss"}
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ImportError, match="pip install wandb"):
        callbacks.WandbCallback()
    sent = []
    run = SimpleNamespace(
        log=lambda figures, step: sent.append((step, sorted(figures))), finish=lambda: sent.append("finish")
    )
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(run=None, init=lambda **given: sent.append(given) or run))
    model.fit(data, data, batch_size=2, verbose=0, callbacks=[callbacks.WandbCallback("digits", mode="offline")])
    assert sent == [
        {"project": "digits", "mode": "offline"}, (1, ["epoch", "train/loss", "train/lr"]), (2, ["epoch", "train/loss", "train/lr"]),
        (2, ["epoch", "eval/loss"]), "finish",
    ]  # fmt: skip


# ---------------------------------------------------------------- the picture


def test_a_picture_of_the_run(tmp_path, capsys):
    model, data = model_of(6, metrics=bireme.metric.Accuracy())
    path = tmp_path / "new" / "curve.svg"
    model.fit(
        data, data, batch_size=2, epochs=2, verbose=0, callbacks=[callbacks.TrainingCurve(str(path), "a < b & c")]
    )
    assert capsys.readouterr().out == f"training curve at {path}\n"
    root = ET.fromstring(path.read_text())
    texts = [e.text for e in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"a < b & c", "loss", "acc", "learning rate", "training step"} <= set(texts)
    lines = [e.get("points").split() for e in root.iter("{http://www.w3.org/2000/svg}polyline")]
    assert sorted(len(line) for line in lines) == [2, 2, 2, 6, 6]
    for line in lines:
        for point in line:
            x, y = map(float, point.split(","))
            assert 0 <= x <= 760 and 0 <= y <= float(root.get("height"))


@pytest.mark.parametrize(
    "points",
    [
        [(1, 0.5)],
        [(1, 2.0), (2, 2.0)],
        [(1, float("nan"))],
        [(1, 1e-9), (2, 1e9)],
        [(n, n % 7) for n in range(5000)],
        [(0, -1.0), (1, float("inf"))],
    ],
)
def test_any_curve_can_be_drawn(points):
    text = drawn({"train/loss": points, "train/lr": points})
    ET.fromstring(text)
    assert "nan" not in text and len(text) < 40_000


# ---------------------------------------------------------------- going on


class Interrupted(Exception):
    pass


class Losses(callbacks.Callback):
    """Every loss; the run is interrupted in step `stop`, counted over all epochs."""

    def __init__(self, stop=None):
        super().__init__()
        self.losses, self.stop, self.scores = [], stop, []

    def on_train_batch_end(self, step, logs=None):
        self.losses.append(logs["loss"][0])
        if len(self.losses) == self.stop:
            raise Interrupted

    def on_eval_end(self, logs=None):
        self.scores.append(logs["loss"][0])


def noisy_run(folder, stop=None, loader=None, **given):
    """A run with dropout, shuffling, a schedule and Adam, from the same beginning every time, as a new process would
    start it.
    """
    bireme.seed(3)
    np.random.seed(3)  # noqa: NPY002 - it decides the order of samples
    rng = np.random.default_rng(1)
    data = bireme.io.TensorDataset(
        [
            bireme.to_tensor(rng.standard_normal((12, 4)).astype("float32")),
            bireme.to_tensor(rng.integers(0, 2, (12, 1))),
        ]
    )
    with bireme.utils.unique_name.guard():
        net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    model = bireme.Model(net)
    rate = bireme.optimizer.lr.StepDecay(0.1, 2, 0.9)
    model.prepare(
        bireme.optimizer.Adam(rate, parameters=net.parameters()), nn.CrossEntropyLoss(), bireme.metric.Accuracy()
    )
    seen, board = Losses(stop), callbacks.TrainingCurve(folder / "curve.svg")
    data = data if loader is None else loader(data)
    every = [seen, board, callbacks.Checkpoint(folder / "saved", every=4)]
    # one executor for all steps: which step is the first to be compiled differs between the two runs
    with contextlib.suppress(Interrupted), bireme.debug.use_executor("interpreter"):
        model.fit(data, data, batch_size=2, epochs=3, verbose=0, callbacks=every, **given)
    return seen.losses, seen.scores, net[2].weight.numpy(), board


@pytest.mark.parametrize("stop", [1, 4, 7, 13, 18])
def test_an_interrupted_run_goes_on_to_the_same_numbers(stop, tmp_path, capsys):
    whole, scores, weight, _ = noisy_run(tmp_path / "a")
    noisy_run(tmp_path / "b", stop)
    rest, late, again, board = noisy_run(tmp_path / "b")
    assert rest == whole[-len(rest) :] and len(rest) >= 18 - stop and late == scores[len(scores) - len(late) :]
    assert (again == weight).all()
    assert [step for step, _ in board.curves["train/loss"]] == list(range(19 - len(rest), 19))


def test_a_run_that_is_over_stays_over(tmp_path, capsys):
    noisy_run(tmp_path)
    assert noisy_run(tmp_path)[0] == []
    with pytest.raises(ValueError, match=r"Checkpoint\(every\)"):
        callbacks.Checkpoint(tmp_path, every=0)


def test_between_two_updates_nothing_is_saved(tmp_path, capsys):
    def batches(data):
        return [data[i : i + 2] for i in range(0, 12, 2)]

    whole, _, weight, _ = noisy_run(tmp_path / "a", loader=batches, accumulate_grad_batches=3)
    noisy_run(tmp_path / "b", 11, loader=batches, accumulate_grad_batches=3)
    rest, _, again, _ = noisy_run(tmp_path / "b", loader=batches, accumulate_grad_batches=3)
    assert rest == whole[-len(rest) :] and len(rest) in (9, 12) and (again == weight).all()
