"""Devices, places, streams and versions: named as in Paddle, missing ones refused."""

import copy
import os
import pickle
import re
import threading

import numpy as np
import pytest

import bireme
from bireme.core.base import device


def test_the_current_device():
    assert bireme.set_device("cpu").get_device_type() == bireme.get_device() == "cpu"
    assert "cpu" in bireme.device.get_available_device()
    assert "cpu" in bireme.device.get_all_device_type()


@pytest.mark.parametrize("name", ["cpu", " CPU ", "cpu:0"])
def test_names_of_the_host(name):
    assert bireme.set_device(name) == bireme.CPUPlace()


@pytest.mark.parametrize("name", ["abacus", "", "gpu:x", "gpu:-1", 3, None, "cpu:0:1"])
def test_bad_names_are_refused(name):
    with pytest.raises(ValueError, match=r"set_device\(device\): expected a device such as"):
        bireme.set_device(name)
    assert bireme.get_device() == "cpu"


@pytest.mark.skipif(bireme.device.is_compiled_with_cuda(), reason="there is a GPU")
def test_a_missing_device_is_refused_at_once():
    with pytest.raises(ValueError, match="expected a device of this machine"):
        bireme.set_device("gpu:0")
    assert bireme.get_device() == "cpu"
    with pytest.raises(ValueError, match="expected a device of this machine"):
        bireme.ones([2]).cuda()
    with pytest.raises(ValueError, match=r"CUDAPlace\(id\): expected a device of this machine .*, got 'gpu:0'"):
        bireme.CUDAPlace(0)
    for kind in (bireme.device.cuda.Stream, bireme.device.cuda.Event):
        with pytest.raises(
            RuntimeError, match=rf"{kind.__name__}\(\): expected a machine with a GPU, got one with cpu"
        ):
            kind()


def test_a_device_number_beyond_the_last_is_refused():
    with pytest.raises(ValueError, match="expected a device of this machine"):
        bireme.set_device("cpu:99")


def test_places():
    assert repr(bireme.CPUPlace()) == "Place(cpu)"
    first, second = (device.Device("gpu", i).place for i in (0, 1))
    assert repr(second) == "Place(gpu:1)"
    assert type(second) is bireme.CUDAPlace
    assert first != second
    assert len({bireme.CPUPlace(), bireme.CPUPlace()}) == 1
    assert second.get_device_id() == 1
    assert second.is_gpu_place()
    assert not second.is_cpu_place()
    for bad in (-1, "0", 1.5, True):
        with pytest.raises(ValueError, match=r"CUDAPlace\(id\)"):
            bireme.CUDAPlace(bad)


def test_tensors_know_their_place():
    x = bireme.to_tensor([1.0], place=bireme.CPUPlace())
    assert x.place == bireme.CPUPlace()
    assert (x + 1.0).place.is_cpu_place()
    assert x.cpu().tolist() == [1.0]
    assert bireme.to_tensor([1.0], place="cpu").place.is_cpu_place()
    assert x.place._type() == bireme.CPUPlace()._type() == 1  # Paddle's number for it


def test_devices_are_interned_through_pickle():
    d = device.Device("gpu", 3)
    assert pickle.loads(pickle.dumps(d)) is d


def test_a_plug_in_is_one_call():
    bireme.device.register_device("testchip", platform="cpu")
    try:
        assert bireme.set_device("testchip:0").is_custom_place()
        x = bireme.ones([2]) * 3.0
        assert repr(x.place) == "Place(testchip:0)"
        assert x.tolist() == [3.0, 3.0]
        layer = bireme.nn.Linear(4, 2)
        for _ in range(3):
            (layer(bireme.ones([3, 4])) ** 2).mean().backward()
        assert np.isfinite(layer.weight.grad.numpy()).all()
        assert x.cpu().place.is_cpu_place()
        bireme.set_device("cpu")
        y = bireme.ones([2]) + x  # what is on the host follows
        assert repr(y.place) == "Place(testchip:0)"
        assert y.tolist() == [4.0, 4.0]
    finally:
        bireme.set_device("cpu")
        device._PLATFORMS.pop("testchip")
        device._REGISTERED.remove("testchip")


def test_a_thread_starts_on_the_process_device():
    found = []
    thread = threading.Thread(target=lambda: found.append(bireme.get_device()))
    thread.start()
    thread.join()
    assert found == ["cpu"]


def test_synchronize_waits_for_everything():
    x = bireme.ones([64, 64]) * 2.0
    bireme.device.synchronize()
    assert x._value.array is not None


PLACES = {
    "cpu": bireme.CPUPlace(),
    "gpu": device.Device("gpu", 2).place,
    "cuda_pinned": bireme.CUDAPinnedPlace(),
    "xpu": device.Device("xpu", 3).place,
    "xpu_pinned": bireme.XPUPinnedPlace(),
    "ipu": bireme.IPUPlace(),
    "custom": bireme.CustomPlace("npu", 4),
}


@pytest.mark.parametrize("kind", PLACES)
def test_a_place_is_of_one_kind(kind):
    place = PLACES[kind]
    assert [k for k in PLACES if getattr(place, f"is_{k}_place")()] == [kind]
    assert [k for k, other in PLACES.items() if other == place] == [kind]
    assert copy.deepcopy(place) == pickle.loads(pickle.dumps(place)) == place
    numbers = {
        "gpu": place.gpu_device_id(),
        "xpu": place.xpu_device_id(),
        "ipu": place.ipu_device_id(),
        "custom": place.custom_device_id(),
    }
    assert numbers == {k: place.get_device_id() if k == kind else 0 for k in numbers}
    assert place.custom_device_type() == ("npu" if kind == "custom" else "")


def test_a_place_can_become_another():
    place = bireme.base.core.Place()
    assert repr(place) == "Place(undefined:0)"
    assert not place.is_cpu_place()
    with pytest.raises(ValueError, match="expected a device such as"):
        bireme.zeros([1], device=place)
    place.set_place(PLACES["gpu"])
    assert place == PLACES["gpu"]
    with pytest.raises(TypeError, match=r"set_place\(place\): expected a Place, got 1"):
        place.set_place(1)


def test_pinned_memory_is_on_the_host():
    x = bireme.to_tensor([1.0], place=bireme.CUDAPinnedPlace())
    assert x.place.is_cpu_place()
    assert x.pin_memory().tolist() == [1.0]


def test_device_guard():
    with bireme.device_guard("cpu"), bireme.device.device_guard(bireme.CPUPlace()):
        assert bireme.get_device() == "cpu"
    for bad in ("abacus", None, 3):
        with pytest.raises(ValueError, match=r"device_guard\(device\): expected a device"):
            bireme.device_guard(bad)


def test_device_guard_is_of_its_thread():
    bireme.device.register_device("guardchip", platform="cpu")
    try:
        with bireme.device_guard("guardchip"):
            assert bireme.get_device() == "guardchip:0"
            found = []
            thread = threading.Thread(target=lambda: found.append(bireme.get_device()))
            thread.start()
            thread.join()
        assert found == ["cpu"]
        assert bireme.get_device() == "cpu"
        assert bireme.device.get_all_custom_device_type() == ["guardchip"]
        assert bireme.device.get_available_custom_device()[0] == "guardchip:0"
        assert bireme.device.is_compiled_with_custom_device("guardchip")
    finally:
        device._PLATFORMS.pop("guardchip")
        device._REGISTERED.remove("guardchip")
    assert not bireme.is_compiled_with_custom_device("guardchip")
    with pytest.raises(TypeError, match="is_compiled_with_custom_device"):
        bireme.is_compiled_with_custom_device(1)


def test_events_measure_time():
    start, end = (bireme.device.Event(enable_timing=True) for _ in range(2))
    with pytest.raises(RuntimeError, match="expected two recorded events"):
        start.elapsed_time(end)
    start.record()
    assert np.isfinite((bireme.ones([64, 64]) @ bireme.ones([64, 64])).sum().item())
    end.record(bireme.device.current_stream())
    assert start.query()
    assert 0 < start.elapsed_time(end) < 1e5
    assert end.elapsed_time(start) == -start.elapsed_time(end)


def test_an_event_waits_for_what_is_pending():
    x = bireme.ones([8]) * 3.0
    bireme.device.Event().record()
    assert x._value.array is not None


def test_streams_name_the_queue_of_a_device():
    stream = bireme.device.Stream("cpu")
    assert stream == bireme.device.current_stream() == bireme.device.Stream()
    assert stream.record_event().query()
    stream.wait_stream(bireme.device.Stream(bireme.CPUPlace(), priority=1))
    stream.wait_event(stream.record_event(bireme.device.Event()))
    assert bireme.device.set_stream(stream) == stream
    with bireme.device.stream_guard(stream), bireme.device.cuda.stream_guard(None):
        assert bireme.device.current_stream() is stream
    for bad in (
        lambda: bireme.device.set_stream(3),
        lambda: stream.wait_event(3),
        lambda: bireme.device.Stream("abacus"),
    ):
        with pytest.raises((TypeError, ValueError), match="expected a"):
            bad()
    with pytest.raises(ValueError, match=r"Stream\(priority\): expected 1 or 2, got 7"):
        bireme.device.Stream(priority=7)


@pytest.mark.skipif(bireme.device.is_compiled_with_cuda(), reason="there is a GPU")
def test_there_is_no_gpu_to_ask():
    assert bireme.device.cuda.device_count() == 0
    bireme.device.cuda.empty_cache()
    bireme.device.cuda.synchronize()
    for name in (
        *(
            "memory_allocated",
            "memory_reserved",
            "max_memory_allocated",
            "max_memory_reserved",
            "reset_max_memory_allocated",
        ),
        *("reset_max_memory_reserved", "get_device_properties", "get_device_name", "get_device_capability"),
    ):
        with pytest.raises(ValueError, match=rf"{name}\(device\): expected a GPU, got 'cpu'"):
            getattr(bireme.device.cuda, name)()
        with pytest.raises(ValueError, match="expected a device of this machine"):
            getattr(bireme.device.cuda, name)(0)
    with pytest.raises(ValueError, match="expected a GPU"):
        bireme.device.get_device_properties("cpu")
    assert bireme.get_cudnn_version() is None


@pytest.mark.skipif(bireme.device.is_compiled_with_xpu(), reason="there is an XPU")
def test_there_is_no_xpu_to_ask():
    assert bireme.device.xpu.device_count() == 0
    for name in sorted(set(bireme.device.xpu.__all__) - {"device_count"}):
        with pytest.raises(ValueError, match=rf"{name}\(device\): expected an XPU"):
            getattr(bireme.device.xpu, name)()


def test_debug_level_of_xpus(monkeypatch):
    monkeypatch.setattr(bireme.device.xpu, "_xpu", lambda device, name: None)
    monkeypatch.setenv("XPUAPI_DEBUG", "0x0")
    bireme.device.xpu.set_debug_level(0x1001)
    assert os.environ["XPUAPI_DEBUG"] == "0x1001"
    with pytest.raises(ValueError, match=r"set_debug_level\(level\): expected a sum of 0x1, 0x10, .*, got 2"):
        bireme.device.xpu.set_debug_level(2)


@pytest.mark.skipif(not bireme.device.is_compiled_with_cuda(), reason="there is no GPU")
def test_what_a_gpu_tells():
    cuda = bireme.device.cuda
    found = cuda.get_device_properties(0)
    assert found.name == cuda.get_device_name("gpu:0")
    assert (found.major, found.minor) == cuda.get_device_capability(0)
    assert found.total_memory > 1 << 30
    assert found.multi_processor_count > 0
    with bireme.device_guard("gpu"):
        before = cuda.memory_allocated()
        x = bireme.ones([1 << 20])
        x.numpy()
        bireme.device.synchronize()
        assert cuda.memory_allocated() >= before + x.nbytes
        assert cuda.max_memory_allocated() >= cuda.memory_allocated()
        assert cuda.max_memory_reserved() >= cuda.memory_reserved() >= cuda.memory_allocated()
        cuda.reset_max_memory_allocated()
        del x
        assert cuda.max_memory_allocated() >= cuda.memory_allocated()
    assert bireme.get_cudnn_version() > 80000
    assert re.fullmatch(r"\d+\.\d+", bireme.version.cuda())


class Told:
    """A device that counts its memory as the test says."""

    kind = "gpu"

    def __init__(self):
        self.jax = self
        self.used = self.peak = 0

    def memory_stats(self):
        return {"bytes_in_use": self.used, "peak_bytes_in_use": self.peak}

    def use(self, n):
        self.used, self.peak = n, max(self.peak, n)


def test_peaks_of_memory_start_anew():
    from bireme.device import memory

    chip = Told()
    chip.use(100)
    chip.use(40)
    assert memory.most(chip, "bytes_in_use") == 100
    memory.reset(chip, "bytes_in_use")
    assert memory.most(chip, "bytes_in_use") == 40
    chip.use(70)
    assert memory.now(chip, "bytes_in_use") == 70
    chip.use(10)
    assert memory.most(chip, "bytes_in_use") == 70  # seen when somebody asked
    chip.use(120)
    chip.use(10)
    assert memory.most(chip, "bytes_in_use") == 120  # more than ever: PJRT's own peak


def test_versions(capsys):
    bireme.version.show()
    said = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert said["full_version"] == bireme.version.full_version == bireme.__version__
    assert said["interface"] == "3.2.2"
    assert ".".join([bireme.version.major, bireme.version.minor, bireme.version.patch]) == bireme.version.full_version
    assert (said["cuda"] == "False") is not bireme.is_compiled_with_cuda()


def test_names_of_types():
    assert isinstance(bireme.pstring, bireme.dtype)
    assert (bireme.raw.value, bireme.pstring.value, bireme.float32.value, bireme.bool.value) == (0, 14, 10, 1)
    assert pickle.loads(pickle.dumps(bireme.pstring)) is bireme.pstring
    for bad in (bireme.pstring, bireme.raw):
        with pytest.raises(TypeError, match=r"zeros\(dtype\): expected a data type"):
            bireme.zeros([1], dtype=bad)


@pytest.mark.parametrize(
    "call",
    [lambda: bireme.ones([10**12]), lambda: bireme.randn([10**6, 10**7]), lambda: bireme.ones([2]).expand([10**13, 2])],
)
def test_what_no_memory_can_hold_is_refused_before_it_is_tried(call):
    with pytest.raises(
        MemoryError,
        match=r"(ones|randn|expand)\(\w*\): expected a (result that fits into .* GiB of memory|shape of at most .* elements), got shape \[",
    ):
        call()
    assert (bireme.ones([2]) + 1).tolist() == [2.0, 2.0]


def test_a_mapped_file(tmp_path):
    path = tmp_path / "numbers.bin"
    np.arange(5, dtype=np.float32).tofile(path)
    storage = bireme.MmapStorage(str(path), 20)
    assert storage.get_slice("float32").tolist() == [0, 1, 2, 3, 4]
    assert storage.get_slice("float32", 1, 5, 2).tolist() == [1, 3]
    assert storage.get_slice(stop=0).shape == [0]
    assert storage.get_slice(start=4, stop=8).numpy().view(np.float32).tolist() == [1.0]
    x = storage.get_slice("float32")
    x[0] = 9.0
    assert np.fromfile(path, np.float32)[0] == 0.0
    for bad in ({"start": -1}, {"start": 21}, {"stop": 21}, {"start": 3, "stop": 2}):
        with pytest.raises(IndexError, match=r"get_slice\((start|stop)\): expected"):
            storage.get_slice(**bad)
    for bad in ({"step": 0}, {"dtype": "zork"}, {"start": 1.5}):
        with pytest.raises((ValueError, TypeError), match=r"get_slice\(\w+\): expected"):
            storage.get_slice(**bad)
    with pytest.raises(ValueError, match=r"MmapStorage\(nbytes\): expected at most the 20 bytes of the file, got 21"):
        bireme.MmapStorage(path, 21)
    with pytest.raises(FileNotFoundError, match=r"MmapStorage\(filename\)"):
        bireme.MmapStorage(tmp_path / "nowhere", 1)


def test_tensor_is_called_and_forwards_names():
    assert bireme.tensor([1, 2]).dtype is bireme.int64
    x = bireme.tensor([1.0], dtype="float64", device="cpu", requires_grad=True)
    assert (x.dtype, x.stop_gradient) == (bireme.float64, False)
    assert bireme.tensor.normal is bireme.normal
    assert bireme.tensor.numel is bireme.numel
    from bireme.tensor import reshape

    assert reshape is bireme.reshape
    with pytest.raises(AttributeError, match="zork"):
        _ = bireme.tensor.zork


def test_gradient_nodes_can_be_looked_at():
    x = bireme.to_tensor([1.0, 2.0], stop_gradient=False)
    y = bireme.tanh(x) * x
    assert y.grad_fn.name() == "MultiplyGradNode"
    assert [n.name() for n in y.grad_fn.next_functions] == ["TanhGradNode", "GradNodeAccumulation"]
    assert y.grad_fn.next_functions[1] == x.grad_fn
    assert x.grad_fn.next_functions == [None]
    assert y.detach().grad_fn is None
    x.grad_ = bireme.ones([2])
    assert x.grad.tolist() == x.grad_.tolist() == [1.0, 1.0]
    assert bireme.zeros([2, 3]).data_ptr() != 0
    assert bireme.zeros([0]).data_ptr() == 0


def test_grad_modes_are_cloned_and_named():
    @bireme.no_grad()
    def f():
        return bireme.is_grad_enabled()

    assert f() is False
    assert isinstance(f.__decorated_by__, bireme.no_grad)
    with bireme.no_grad().clone():
        assert not bireme.is_grad_enabled()
    assert bireme.is_grad_enabled()


def test_a_pylayer_tells_what_it_keeps():
    seen = []

    class Twice(bireme.autograd.PyLayer):
        @staticmethod
        def forward(ctx, x):
            seen.append((ctx.container, ctx.non_differentiable, ctx.not_inplace_tensors, ctx.materialize_grads))
            ctx.save_for_backward(x)
            ctx.materialize_grads = False
            seen.append(ctx.container[0].tolist())
            return x * 2

        @staticmethod
        def backward(ctx, g):
            seen.append(ctx.materialize_grads)
            return g * 2

    x = bireme.to_tensor([1.0], stop_gradient=False)
    Twice.apply(x).backward()
    assert seen == [(None, None, None, True), [1.0], False]
    assert Twice().name() == "Twice"
    with pytest.raises(NotImplementedError, match=r"PyLayer.forward: expected a static method `forward\(ctx, ...\)`"):
        bireme.autograd.PyLayer.apply(x)
