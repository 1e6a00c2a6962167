"""Devices and places: named as in Paddle, missing ones refused."""

import pickle
import threading

import numpy as np
import pytest

import bireme
from bireme.core import device


def test_the_current_device():
    assert bireme.get_device() == bireme.set_device("cpu").get_device_type() == "cpu"
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


def test_a_device_number_beyond_the_last_is_refused():
    with pytest.raises(ValueError, match="expected a device of this machine"):
        bireme.set_device("cpu:99")


def test_places():
    assert repr(bireme.CPUPlace()) == "Place(cpu)"
    assert repr(bireme.CUDAPlace(1)) == "Place(gpu:1)"
    assert bireme.CUDAPlace(0) != bireme.CUDAPlace(1)
    assert len({bireme.CPUPlace(), bireme.CPUPlace()}) == 1
    assert bireme.CUDAPlace(1).get_device_id() == 1
    assert bireme.CUDAPlace(1).is_gpu_place()
    assert not bireme.CUDAPlace(1).is_cpu_place()
    for bad in (-1, "0", 1.5, True):
        with pytest.raises(ValueError, match=r"CUDAPlace\(id\)"):
            bireme.CUDAPlace(bad)


def test_tensors_know_their_place():
    x = bireme.to_tensor([1.0], place=bireme.CPUPlace())
    assert x.place == bireme.CPUPlace()
    assert (x + 1.0).place.is_cpu_place()
    assert x.cpu().tolist() == [1.0]
    assert bireme.to_tensor([1.0], place="cpu").place.is_cpu_place()


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
