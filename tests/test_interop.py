"""NumPy, jax, DLPack, copying and pickling: arrays go in and out."""

import copy
import inspect
import io
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bireme

DTYPES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


def sample(dtype):
    return bireme.to_tensor([[0, 1, 2], [3, 4, 5]]).astype(dtype)


# ---------------------------------------------------------------- NumPy


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_and_back(dtype):
    x = sample(dtype)
    host = x.numpy()
    assert host.shape == (2, 3)
    back = bireme.to_tensor(host)
    assert back.dtype == x.dtype
    np.testing.assert_array_equal(back.numpy(), host)


def test_numpy_is_a_copy():
    x = bireme.zeros([3])
    host = x.numpy()
    host[:] = 5
    assert x.tolist() == [0.0, 0.0, 0.0]


def test_the_array_protocol():
    x = bireme.to_tensor([1.5, 2.5])
    assert np.asarray(x).dtype == np.float32
    assert np.asarray(x, dtype="float64").dtype == np.float64
    assert np.array(x).tolist() == [1.5, 2.5]
    assert np.stack([x, x]).shape == (2, 2)
    assert np.mean(np.asarray(x)) == 2.0
    assert [np.float32(v) for v in x] == [1.5, 2.5]


def test_numpy_functions_on_a_tensor():
    x = bireme.to_tensor([1.0, 4.0])
    np.testing.assert_allclose(np.asarray(np.sqrt(x)), [1.0, 2.0])
    assert np.concatenate([x, x]).tolist() == [1.0, 4.0, 1.0, 4.0]
    np.testing.assert_allclose(x, [1.0, 4.0])


def test_ndarray_beside_a_tensor():
    a, x = np.array([1.0, 2.0], "float32"), bireme.to_tensor([10.0, 20.0])
    np.testing.assert_allclose(np.asarray(np.add(a, x)), [11.0, 22.0])
    np.testing.assert_allclose(np.asarray(a + x), [11.0, 22.0])
    np.testing.assert_allclose(np.asarray(x + a), [11.0, 22.0])
    np.testing.assert_allclose(np.asarray(a * x), [10.0, 40.0])
    np.testing.assert_allclose(np.asarray(x - a), [9.0, 18.0])
    assert isinstance(x + a, bireme.Tensor)


def test_numpy_scalars_are_numbers():
    x = bireme.to_tensor([1.0, 2.0])
    assert (x * np.float32(2)).tolist() == [2.0, 4.0]
    assert (x * np.float64(2)).dtype == bireme.float32
    assert (np.float32(2) * x).tolist() == [2.0, 4.0]
    assert x[np.int64(1)].item() == 2.0
    assert bireme.zeros([np.int64(2)]).shape == [2]


def test_python_numbers_out():
    assert int(bireme.to_tensor(3)) == 3
    assert float(bireme.to_tensor([2.5])) == 2.5
    assert complex(bireme.to_tensor(1 + 2j)) == 1 + 2j
    assert [10, 20, 30][bireme.to_tensor(1)] == 20
    assert bool(bireme.to_tensor([True]))
    assert f"{bireme.to_tensor(1.25):.1f}" == "1.2"
    assert round(bireme.to_tensor([[5]]).item()) == 5
    with pytest.raises(ValueError, match="bool"):
        bool(bireme.ones([2]))
    assert range(bireme.to_tensor(2.0, dtype="bfloat16")) == range(2)
    with pytest.raises(TypeError, match="index"):
        range(bireme.to_tensor(1.5))


def test_fortran_order_and_strides_come_in_right():
    a = np.arange(12, dtype="float32").reshape(3, 4)
    for host in (np.asfortranarray(a), a.T, a[::-1], a[:, ::2], np.broadcast_to(a[0], (2, 4))):
        np.testing.assert_array_equal(bireme.to_tensor(host).numpy(), host)
        np.testing.assert_array_equal((bireme.to_tensor(host) + 1.0).numpy(), host + 1)


def test_foreign_byte_order_comes_in_right():
    host = np.array([1.0, 2.0], ">f4")
    assert (bireme.to_tensor(host) * 2.0).tolist() == [2.0, 4.0]


# ---------------------------------------------------------------- DLPack and jax


def pointer(array):
    return array.__array_interface__["data"][0] if isinstance(array, np.ndarray) else array.unsafe_buffer_pointer()


def test_dlpack_out_without_a_copy():
    x = bireme.to_tensor(np.arange(64, dtype="float32")) + 0.0
    held = x._exported()
    assert pointer(np.from_dlpack(x)) == pointer(held)
    assert jax.dlpack.from_dlpack(x).unsafe_buffer_pointer() == pointer(held)
    assert x.__dlpack_device__()[0] == 1
    trained = bireme.to_tensor([1.0], stop_gradient=False)
    with pytest.raises(RuntimeError, match="expected a tensor that does not require gradients"):
        np.from_dlpack(trained)
    capsule = bireme.utils.dlpack.to_dlpack(trained)
    assert bireme.from_dlpack(capsule).tolist() == [1.0]
    with pytest.raises(ValueError, match="consumed at most once"):
        bireme.from_dlpack(capsule)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d not in ("bfloat16", "bool")])
def test_dlpack_of_every_type(dtype):
    np.testing.assert_array_equal(np.from_dlpack(sample(dtype)), sample(dtype).numpy())


def test_dlpack_in():
    class Foreign:
        """Something with DLPack and nothing else."""

        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    host = np.arange(4, dtype="float32")
    x = bireme.to_tensor(Foreign(host))
    host[:] = -1
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_torch_both_ways():
    torch = pytest.importorskip("torch")
    x = bireme.to_tensor(torch.arange(3.0))
    assert torch.from_dlpack(x * 2.0).tolist() == [0.0, 2.0, 4.0]


def test_jax_in_without_a_copy():
    given = jnp.arange(4.0)
    x = bireme.to_tensor(given)
    assert x._array() is given
    assert (x + 1.0).tolist() == [1.0, 2.0, 3.0, 4.0]
    assert bireme.to_tensor(given, dtype="int64").dtype == bireme.int64


def test_jax_out():
    x = bireme.to_tensor([1.0, 2.0])
    assert isinstance(jnp.asarray(x), jax.Array)
    np.testing.assert_allclose(jnp.sin(jnp.asarray(x * 2.0)), np.sin([2.0, 4.0]), rtol=1e-6)


# ---------------------------------------------------------------- copies


def test_deepcopy_is_independent():
    p = bireme.Parameter([1.0, 2.0], name="mine")
    (p * 3.0).sum().backward()
    q = copy.deepcopy(p)
    assert isinstance(q, bireme.Parameter)
    assert q.name == "mine" or q.name != ""
    assert not q.stop_gradient
    assert q.grad is None
    with bireme.no_grad():
        p.scale_(0.0)
    assert q.tolist() == [1.0, 2.0]


def test_deepcopy_keeps_what_is_shared():
    x = bireme.to_tensor([1.0])
    a, b = copy.deepcopy([x, x])
    assert a is b
    assert a is not x


def test_deepcopy_of_a_result_is_a_leaf():
    x = bireme.to_tensor([1.0], stop_gradient=False)
    y = copy.deepcopy(x * 2.0)
    assert y.is_leaf and not y.stop_gradient and y.tolist() == [2.0]
    (y * 3.0).backward()
    assert x.grad is None and y.grad.tolist() == [3.0]


def test_deepcopy_of_a_layer_and_an_optimizer_state():
    layer = bireme.nn.Linear(3, 2)
    twin = copy.deepcopy(layer)
    np.testing.assert_array_equal(twin.weight.numpy(), layer.weight.numpy())
    twin.weight.set_value(twin.weight.numpy() * 0)
    assert np.abs(layer.weight.numpy()).max() > 0


# ---------------------------------------------------------------- pickling by the user's own code


PUBLIC_MODULES = (bireme, bireme.linalg, bireme.fft, bireme.signal, bireme.nn.functional, bireme.incubate.nn.functional)


def through_pickle(x, protocol=pickle.HIGHEST_PROTOCOL):
    return pickle.loads(pickle.dumps(x, protocol))


@pytest.mark.parametrize("dtype", DTYPES)
def test_pickling_every_type(dtype):
    x = sample(dtype)
    y = through_pickle(x)
    assert y.dtype == x.dtype
    assert y.shape == x.shape
    np.testing.assert_array_equal(y.numpy(), x.numpy())


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickling_a_parameter(protocol):
    p = bireme.Parameter([1.0, 2.0], name="weight of mine", trainable=False)
    q = through_pickle(p, protocol)
    assert isinstance(q, bireme.Parameter)
    assert q.name == "weight of mine"
    assert q.stop_gradient
    assert q.persistable
    assert q.tolist() == [1.0, 2.0]


def test_pickling_runs_what_is_pending():
    x = bireme.ones([3]) * 2.0
    y = x[1:]
    y.scale_(5.0)
    assert through_pickle(x).tolist() == [2.0, 10.0, 10.0]


def test_every_public_function_is_pickled_by_its_name():
    """Layers hold their activation, and datasets that go to workers what they compute with."""
    functions = {
        f"{module.__name__}.{name}": getattr(module, name) for module in PUBLIC_MODULES for name in module.__all__
    }
    functions = {name: f for name, f in functions.items() if inspect.isfunction(f)}
    assert len(functions) > 600
    assert [name for name, f in functions.items() if through_pickle(f, 2) is not f or through_pickle(f) is not f] == []


def test_a_whole_layer_is_pickled_with_what_it_holds():
    layer = bireme.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, activation="gelu")
    twin, x = through_pickle(layer), bireme.ones([1, 3, 4])
    np.testing.assert_array_equal(twin(x).numpy(), layer(x).numpy())


def test_a_layer_in_a_stream():
    layer = bireme.nn.Linear(3, 2)
    stream = io.BytesIO()
    pickle.dump(layer.state_dict(), stream)
    stream.seek(0)
    twin = bireme.nn.Linear(3, 2)
    twin.set_state_dict(pickle.load(stream))
    np.testing.assert_array_equal(twin.weight.numpy(), layer.weight.numpy())


class TestForeignMemory:
    """`from_dlpack` shares memory with whoever made the array."""

    def test_array_comes_in_without_a_copy(self):
        room = np.zeros(1024 + 16, np.float32)
        skip = -room.__array_interface__["data"][0] % 64 // 4  # XLA shares what is aligned to 64 bytes
        foreign = room[skip : skip + 1024]
        t = bireme.from_dlpack(foreign)
        assert t._array().unsafe_buffer_pointer() == foreign.__array_interface__["data"][0]

    def test_capsule_of_our_own(self):
        x = bireme.to_tensor([1.0, 2.0])
        assert bireme.from_dlpack(bireme.to_dlpack(x)).tolist() == [1.0, 2.0]

    def test_64_bit_types_keep_their_width(self):
        assert bireme.from_dlpack(np.arange(3)).dtype is bireme.int64

    def test_foreign_memory_is_never_donated(self):
        foreign = np.ones(4096, np.float32)
        p = bireme.Parameter(bireme.from_dlpack(foreign))
        opt = bireme.optimizer.SGD(0.5, parameters=[p])
        for _ in range(3):
            (p * p).sum().backward()
            opt.step()
            opt.clear_grad()
        assert p.numpy()[0] == 0.0 and (foreign == 1).all()

    def test_numpy_functions_take_tensors(self):
        x = bireme.to_tensor([[1.0, 2.0], [3.0, 4.0]])
        assert np.sum(x) == 10.0
        assert np.concatenate([x, x]).shape == (4, 2)
        assert np.mean(x, axis=0).tolist() == [2.0, 3.0]
