"""A training run that was killed goes on as if nothing had happened, bit for bit."""

import os
import random
import shutil
import signal
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.files import Checkpoint, load, save
from tests.processes import started

EVERY = 3


def streams():
    """The next number of each random stream."""
    return bireme.rand([1]).item(), np.random.rand(), random.random()  # noqa: NPY002 - the one that samplers draw from


class Run:
    """A small training run with everything that has a state: dropout, running statistics, moments, schedule, scaler,
    order of samples.
    """

    def __init__(self, folder, keep=2):
        bireme.seed(11)
        np.random.seed(5)  # noqa: NPY002 - samplers draw from the global generator
        random.seed(5)
        rng = np.random.default_rng(0)
        data = [rng.standard_normal((22, n)).astype("float32") for n in (6, 1)]
        with bireme.utils.unique_name.guard():
            self.net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1D(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1))
        self.rate = bireme.optimizer.lr.CosineAnnealingDecay(0.05, 10)
        self.opt = bireme.optimizer.AdamW(
            self.rate, parameters=self.net.parameters(), grad_clip=nn.ClipGradByGlobalNorm(1.0)
        )
        self.scaler = bireme.amp.GradScaler(init_loss_scaling=256.0, incr_every_n_steps=4)
        self.loader = bireme.io.DataLoader(bireme.io.TensorDataset(data), batch_size=4, shuffle=True)
        parts = {"model": self.net, "optimizer": self.opt, "scaler": self.scaler, "loader": self.loader}
        self.saved = Checkpoint(folder, keep, **parts)
        self.step = self.saved.resume() or 0
        self.epoch = self.saved.extra.get("epoch", 0)

    def go(self, total, log, every=EVERY):
        while self.step < total:
            for x, y in self.loader:
                with bireme.amp.auto_cast(level="O1", dtype="float16"):
                    loss = ((self.net(x) - y) ** 2).mean()
                self.scaler.scale(loss).backward()
                self.scaler.step(self.opt)
                self.scaler.update()
                self.opt.clear_grad()
                self.rate.step()
                self.step += 1
                draws = " ".join(x.hex() for x in streams())
                log(
                    f"{self.step} {loss.astype('float32').item().hex()} {self.rate().hex()} {self.scaler.state_dict()['scale'][0]} {draws}"
                )
                if self.step % every == 0:
                    self.saved.save(self.step, epoch=self.epoch)
                if self.step == total:
                    return
            self.epoch += 1


@pytest.fixture
def exact():
    before = bireme.get_flags("FLAGS_deterministic")
    bireme.set_flags({"FLAGS_deterministic": True})
    yield
    bireme.set_flags(before)


TOTAL = 14


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """What a run that nobody disturbed writes down, and the folder of its checkpoints, one of each step."""
    folder, log = tmp_path_factory.mktemp("unbroken"), []
    before = bireme.get_flags("FLAGS_deterministic")
    bireme.set_flags({"FLAGS_deterministic": True})
    Run(folder, keep=None).go(TOTAL, log.append, every=1)
    bireme.set_flags(before)
    return log, folder


# 6 batches an epoch: within one, at its last batch, at the first of the next
@pytest.mark.parametrize("step", [4, 6, 7])
def test_a_step_to_go_on_from(step, unbroken, exact, tmp_path):
    log, folder = unbroken
    name = f"step-{step:08d}.ckpt"
    shutil.copy(folder / name, tmp_path / name)
    rest = []
    Run(tmp_path).go(TOTAL, rest.append)
    assert rest == log[step:]


CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
import bireme
from test_resume import Run
bireme.set_flags({"FLAGS_deterministic": True})
with open(sys.argv[2] + ".log", "a", buffering=1) as log:
    run = Run(sys.argv[2])
    run.go(int(sys.argv[3]), lambda line: log.write(line + "\\n"))
    log.write("end\\n")
"""


def start(folder, total):
    command = [sys.executable, "-W", "ignore", "-c", CHILD, str(Path(__file__).parent), str(folder), str(total)]
    return started(command, cwd=Path(__file__).parent.parent, env={**os.environ, "JAX_PLATFORMS": "cpu"})


def lines(folder):
    path = Path(f"{folder}.log")
    return path.read_text().splitlines() if path.exists() else []


def test_a_run_that_is_killed_again_and_again(unbroken, tmp_path, full):
    broken, rng = tmp_path / "broken", random.Random(time.time_ns())
    # after so many more steps, and then at any moment: in a step, in the writing of a checkpoint, in between
    for more in (3, 1, 5, 2, 4, 1) if full else (3, 4):
        had = len(lines(broken))
        with start(broken, TOTAL) as run:
            deadline = time.monotonic() + 180
            while len(lines(broken)) < had + more and run.poll() is None and time.monotonic() < deadline:
                time.sleep(0.002)
            time.sleep(rng.random() * 0.05)
            run.send_signal(signal.SIGKILL)
    with start(broken, TOTAL) as run:
        assert run.wait(180) == 0
    found = lines(broken)
    assert found[-1] == "end"
    whole = [line for line in found if line.count(" ") == 6 and len(line) > 60]  # a kill may have cut one
    assert len(found) - len(whole) <= 7 and set(whole) == set(unbroken[0])
    assert [p.suffix for p in broken.iterdir()] == [".ckpt", ".ckpt"]


# ---------------------------------------------------------------- the checkpoints themselves


def pair(folder, keep=3, value=0.0):
    with bireme.utils.unique_name.guard():
        layer = nn.Linear(2, 2)
    layer.weight.set_value(np.full((2, 2), value, "float32"))
    return layer, Checkpoint(folder, keep, model=layer)


def test_old_checkpoints_go(tmp_path):
    _, saved = pair(tmp_path)
    for step in (1, 2, 10, 11, 12):
        saved.save(step)
    assert saved.steps() == [10, 11, 12]
    saved.save(11)
    assert saved.steps() == [10, 11, 12]
    assert pair(tmp_path / "none")[1].resume() is None


def test_a_damaged_checkpoint_is_passed_over(tmp_path):
    for step in (1, 2, 3):
        pair(tmp_path, value=float(step))[1].save(step, note=f"at {step}")
    layer, saved = pair(tmp_path, keep=2)
    for step, damage in ((3, lambda d: d[: len(d) // 2]), (2, lambda d: d[:200] + bytes([d[200] ^ 1]) + d[201:])):
        path = Path(saved.path(step))
        path.write_bytes(damage(path.read_bytes()))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert saved.resume() == 1
    assert layer.weight.tolist() == [[1.0, 1.0], [1.0, 1.0]] and saved.extra == {"note": "at 1"}
    assert len([w for w in told if "is damaged" in str(w.message)]) == 2
    saved.save(2)
    assert saved.steps() == [1, 2]  # the damaged ones are gone, the good ones are not
    for step in (1, 2):
        Path(saved.path(step)).write_bytes(b"")
    with warnings.catch_warnings(), pytest.raises(RuntimeError, match="2 damaged ones"):
        warnings.simplefilter("ignore")
        saved.resume()


def test_a_checkpoint_is_a_file_of_data(tmp_path):
    _, saved = pair(tmp_path, value=2.0)
    saved.save(4, best=0.5, curve=[1.0, 0.5], tensor=bireme.ones([2]))
    data = Path(saved.path(4)).read_bytes()
    other = tmp_path / "plain.pdparams"
    other.write_bytes(data[:-12])  # less its checksum, which Paddle does not look at
    found = load(other)
    assert found["step"] == 4 and found["parts"]["model"]["weight"].tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert found["extra"]["tensor"].tolist() == [1.0, 1.0] and found["extra"]["curve"] == [1.0, 0.5]


def test_parts_that_do_not_fit(tmp_path):
    layer, saved = pair(tmp_path)
    saved.save(1)
    opt = bireme.optimizer.SGD(0.1, parameters=layer.parameters())
    with pytest.raises(ValueError, match=r"expected a checkpoint of model, optimizer, got .*, of model"):
        Checkpoint(tmp_path, model=layer, optimizer=opt).resume()
    with pytest.raises(ValueError, match="which lacks"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Checkpoint(tmp_path, model=nn.Sequential(nn.Linear(2, 2))).resume()
    with pytest.raises(TypeError, match=r"Checkpoint\(model\): expected an object with state_dict"):
        Checkpoint(tmp_path, model=3)
    with pytest.raises(ValueError, match=r"Checkpoint\(keep\)"):
        Checkpoint(tmp_path, keep=0)
    with pytest.raises(TypeError, match=r"Checkpoint\(folder\)"):
        Checkpoint(3)
    with pytest.raises(ValueError, match=r"Checkpoint.save\(step\)"):
        saved.save(-1)


def test_what_a_killed_writer_left_goes(tmp_path):
    _, saved = pair(tmp_path)
    saved.save(1)
    left = tmp_path / ("step-00000002.ckpt." + "0" * 16 + ".part")
    left.write_bytes(b"half")
    save({"w": bireme.ones([1])}, tmp_path / "mine.part")
    assert saved.resume() == 1 and not left.exists() and (tmp_path / "mine.part").exists()


def test_streams_go_on(tmp_path):
    bireme.seed(3)
    np.random.seed(3)  # noqa: NPY002 - samplers draw from the global generator
    random.seed(3)
    saved = Checkpoint(tmp_path)
    bireme.rand([2])
    saved.save(1)
    expected = streams()
    bireme.seed(9)
    assert saved.resume() == 1
    assert streams() == expected
