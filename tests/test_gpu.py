"""What only a GPU can show: the same code on both devices, attention's fused kernels, batches that arrive on the
device.
"""

from pathlib import Path

import numpy as np
import pytest

import bireme
import bireme.nn.functional as F
from bireme.core.run import padding
from bireme.utils import cpp_extension
from bireme.utils.cpp_extension import cuda

pytestmark = pytest.mark.skipif(not bireme.device.is_compiled_with_cuda(), reason="there is no GPU")


def test_the_same_calls_on_the_cpu_and_then_on_the_gpu():
    def work():
        x = bireme.to_tensor(np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4), stop_gradient=False)
        y = (F.softmax(x @ x.t()) * 2).sum()
        y.backward()
        return y, x.grad

    found = {}
    for name in ("cpu", "gpu:0", "cpu", "gpu:0"):
        with bireme.device_guard(name.split(":")[0]):
            y, grad = work()
            assert str(y.place) == str(grad.place) == f"Place({name})"
            found.setdefault(name, []).append((y.item(), grad.numpy()))
    for (a, ga), (b, gb) in zip(found["cpu"], found["gpu:0"], strict=True):
        assert a == pytest.approx(b, rel=1e-5)
        np.testing.assert_allclose(ga, gb, atol=1e-5)


def test_tensors_of_two_devices_do_not_mix_unsaid():
    a, b = bireme.ones([2]).cpu(), bireme.ones([2]).cuda()
    assert str(a.place) == "Place(cpu)"
    assert str(b.place) == "Place(gpu:0)"
    assert (a + b.cpu()).tolist() == (a.cuda() + b).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [(8, 8), (8, 2), (8, 1)])
@pytest.mark.parametrize("lengths", [(128, 128), (100, 100), (33, 33), (1, 33), (1, 64), (2, 64), (64, 7)])
@pytest.mark.parametrize("width", [64, 40, 20, 160])
def test_attention_in_bfloat16_is_that_of_float32(causal, heads, lengths, width):
    g = np.random.default_rng(0)
    shapes = [(2, lengths[0], heads[0], width), *[(2, lengths[1], heads[1], width)] * 2]
    arrays = [g.standard_normal(s).astype("float32") for s in shapes]
    found = []
    for dtype, place in (("float32", "cpu"), ("bfloat16", "gpu")):
        with bireme.device_guard(place):
            q, k, v = (bireme.to_tensor(a).astype(dtype) for a in arrays)
            for x in (q, k, v):
                x.stop_gradient = False
            out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            out.astype("float32").square().sum().backward()
            found.append([x.astype("float32").numpy() for x in (out, q.grad, k.grad, v.grad)])
    for a, b in zip(*found, strict=True):
        assert np.linalg.norm(a - b) <= 2e-2 * np.linalg.norm(a)


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_arrive_on_the_gpu(workers):
    data = bireme.io.TensorDataset([np.arange(40, dtype="float32").reshape(20, 2), np.arange(20)])
    for use_buffer in (True, False):
        loader = bireme.io.DataLoader(
            data, batch_size=8, num_workers=workers, places=bireme.CUDAPlace(0), use_buffer_reader=use_buffer
        )
        batches = list(loader)
        assert [str(x.place) for x, _ in batches] == ["Place(gpu:0)"] * 3
        np.testing.assert_array_equal(np.concatenate([y.numpy() for _, y in batches]), np.arange(20))


def test_a_small_network_learns_on_the_gpu_as_on_the_cpu():
    curves = []
    for place in ("cpu", "gpu"):
        with bireme.device_guard(place):
            bireme.seed(7)
            net = bireme.nn.Sequential(
                bireme.nn.Conv2D(3, 8, 3, padding=1),
                bireme.nn.BatchNorm2D(8),
                bireme.nn.ReLU(),
                bireme.nn.Flatten(),
                bireme.nn.Linear(8 * 64, 10),
            )
            g = np.random.default_rng(1)
            for p in net.parameters():
                p.set_value((g.standard_normal(p.shape) * 0.05).astype("float32"))
            x = bireme.to_tensor(g.standard_normal((16, 3, 8, 8)).astype("float32"))
            y = bireme.to_tensor(g.integers(0, 10, 16))
            opt = bireme.optimizer.AdamW(1e-2, parameters=net.parameters())
            losses = []
            for _ in range(6):
                loss = F.cross_entropy(net(x), y)
                loss.backward()
                opt.step()
                opt.clear_grad()
                losses.append(loss.item())
            curves.append(losses)
    np.testing.assert_allclose(*curves, rtol=2e-2)
    assert curves[1][-1] < curves[1][0]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_layer_norm_of_rows_far_from_zero_keeps_its_digits(dtype):
    x = (bireme.to_tensor(np.random.default_rng(0).standard_normal((8, 1024)) + 1000.0)).astype(dtype)
    exact = x.astype("float64").numpy()
    want = (exact - exact.mean(-1, keepdims=True)) / np.sqrt(exact.var(-1, keepdims=True) + 1e-5)
    found = F.layer_norm(x.cuda(), 1024).astype("float64").numpy()
    np.testing.assert_allclose(found, want, atol={"float32": 1e-4, "float16": 2e-3, "bfloat16": 2e-2}[dtype])


def test_quantized_products_are_those_of_the_cpu():
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((5, 64), "float32"), rng.standard_normal((64, 24), "float32")
    images, kernels = [rng.integers(-128, 128, s).astype("int8") for s in ((2, 3, 9, 9), (5, 3, 3, 3))]
    found = {}
    for name in ("cpu", "gpu"):
        with bireme.device_guard(name):
            made = []
            for algo, kind in (("weight_only_int8", "int8"), ("weight_only_int4", "int4")):
                q, scale = bireme.nn.quant.weight_quantize(bireme.to_tensor(w), algo, group_size=16)
                made.append(bireme.nn.quant.weight_only_linear(bireme.to_tensor(x), q, None, scale, kind, None, 16))
            q, scale = bireme.nn.quant.weight_quantize(bireme.to_tensor(w), "llm.int8")
            for rows in (x, x[:1]):
                made.append(bireme.nn.quant.llm_int8_linear(bireme.to_tensor(rows), q, None, scale, 2.0))
                made.append(bireme.nn.quant.weight_only_linear(bireme.to_tensor(rows), q, None, scale))
                whole = bireme.nn.quant.quantize_linear(bireme.to_tensor(rows), bireme.to_tensor(0.02))
                made.append(bireme.ops.matmul_integer(whole, q.t()))
            made.append(bireme.ops.conv2d_integer(bireme.to_tensor(images), bireme.to_tensor(kernels), 2, 1))
            made.append(
                bireme.ops.conv2d_integer(bireme.to_tensor(images), bireme.to_tensor(kernels[:3, :1]), groups=3)
            )
            found[name] = [t.numpy() for t in made]
    for a, b in zip(found["cpu"], found["gpu"], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_operators_in_cuda(tmp_path):
    """Kernels of a library that nvcc compiled are called with tensors on the GPU, in order with all that runs there."""
    if cuda.home() is None:
        pytest.skip("there is no nvcc")
    made = cpp_extension.load("gpu_ops", [Path(__file__).with_name("cuda_extension_ops.cu")], build_directory=tmp_path)
    for place, on in (("gpu", 1.0), ("cpu", 0.0), ("gpu", 1.0)):
        with bireme.device_guard(place):
            assert made.on_gpu(bireme.zeros([3])).tolist() == [on] * 3
            for dtype in ("float32", "float64", "bfloat16", "float16"):
                x = bireme.linspace(-2.0, 2.0, 1000).astype(dtype)
                x.stop_gradient = False
                y = made.scaled_on_gpu(x * 2, 0.5)  # between operators of XLA's, on their stream
                (y * y).sum().backward()
                np.testing.assert_allclose(y.astype("float32").numpy(), x.astype("float32").numpy(), rtol=1e-2)
                np.testing.assert_allclose(x.grad.astype("float32").numpy(), 2 * x.astype("float32").numpy(), rtol=2e-2)
            assert made.scaled_on_gpu(bireme.zeros([0]), 2.0).shape == [0]
    with bireme.device_guard("gpu"), pytest.raises(RuntimeError, match="scaled is not there for int32"):
        made.scaled_on_gpu(bireme.ones([2], "int32"), 2.0).numpy()


def test_results_of_a_predictor_are_read_from_handles_and_go_on_as_tensors(tmp_path):
    net = bireme.nn.Sequential(bireme.nn.Linear(8, 16), bireme.nn.LayerNorm(16), bireme.nn.Linear(16, 4))
    net.eval()
    bireme.jit.save(net, str(tmp_path / "net"), [bireme.static.InputSpec([None, 8], "float32", "x")])
    config = bireme.inference.Config(str(tmp_path / "net"))
    config.enable_use_gpu(64, 0)
    predictor = bireme.inference.create_predictor(config)
    for n in (2, 2, 3):
        given = np.random.default_rng(n).standard_normal((n, 8)).astype("float32")
        expected = net(bireme.to_tensor(given)).numpy()
        predictor.get_input_handle("x").share_external_data(bireme.to_tensor(given))
        predictor.run()
        found = predictor.get_output_handle(predictor.get_output_names()[0]).copy_to_cpu()
        np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3)
        (y,) = predictor.run([bireme.to_tensor(given)])
        assert str(y.place) == "Place(gpu:0)"
        np.testing.assert_allclose((y * 2).numpy(), expected * 2, rtol=2e-3, atol=2e-3)


def test_sums_at_places_have_the_same_bits_every_time():
    g = np.random.default_rng(0)
    ids = bireme.to_tensor(g.integers(0, 50, (64, 128)))  # each place comes about 160 times
    weights = bireme.to_tensor(g.standard_normal((64, 128, 96)).astype("float32"))
    table = bireme.to_tensor(g.standard_normal((50, 96)).astype("float32"), stop_gradient=False)

    def gradients():
        found = []
        for read in (F.embedding, lambda i, t: bireme.gather(t, i.flatten()).reshape([64, 128, 96]), lambda i, t: t[i]):
            (grad,) = bireme.grad((read(ids, table) * weights).sum(), table)
            found.append(grad.numpy())
        found.append(bireme.index_add(table, ids.flatten(), 0, weights.reshape([-1, 96])).numpy())
        return found

    for _ in range(12):  # the host computes the first, as all that it reads is still there
        first = gradients()
    exact = np.zeros((50, 96))
    np.add.at(exact, ids.numpy(), weights.numpy().astype(np.float64))
    np.testing.assert_allclose(first[0], exact, rtol=1e-5, atol=1e-4)
    for _ in range(10):
        for a, b in zip(first, gradients(), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("classes", [50304, 50257])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_loss_over_many_classes_and_its_logits_afterwards(dtype, classes):
    """Its gradient is written over logits that nobody wants; those that somebody holds stay as they are."""
    g = np.random.default_rng(0)
    rows = g.standard_normal((2, 256, 16)).astype("float32")
    table = g.standard_normal((16, classes)).astype("float32")
    labels = g.integers(0, classes, (2, 256))
    labels[0, :9] = -100

    def slope(held, dtype, place):
        with bireme.device_guard(place):
            x, w = [bireme.to_tensor(a, stop_gradient=False).astype(dtype) for a in (rows, table)]
            logits = bireme.matmul(x, w)
            loss = F.cross_entropy(logits.reshape([-1, classes]), bireme.to_tensor(labels).flatten())
            before = logits.astype("float32").mean() if held else None
            found = bireme.grad(loss, [x, w])
            if held:
                np.testing.assert_array_equal(logits.astype("float32").mean().numpy(), before.numpy())
            return [t.astype("float32").numpy() for t in (loss, *found)]

    exact = slope(False, "float32", "cpu")
    for held in (False, True, False):
        for got, want in zip(slope(held, dtype, "gpu"), exact, strict=True):
            assert np.linalg.norm(got - want) <= (2e-2 if dtype == "bfloat16" else 2e-3) * np.linalg.norm(want)


@pytest.fixture
def all_on_the_gpu():
    """Little work is not given to the host."""
    bireme.set_flags({"FLAGS_interpret": False})
    yield
    bireme.set_flags({"FLAGS_interpret": True})


@pytest.mark.parametrize("causal", [False, True])
def test_lengths_that_come_once_in_half_precision(causal, all_on_the_gpu):
    """They are padded to a few, cuDNN's attention being told where the texts end."""
    words = np.random.default_rng(0).standard_normal((50, 128)).astype("float32")
    on_gpu = bireme.to_tensor(words, stop_gradient=False)

    def step(n, table):
        ids = bireme.to_tensor(np.random.default_rng(n).integers(0, 50, (4, n)))
        with bireme.amp.auto_cast(level="O1", dtype="bfloat16"):
            x = F.embedding(ids, table)
            for _ in range(2):
                q, k, v = bireme.unbind(x.reshape([4, n, 1, 2, 64]).tile([1, 1, 3, 1, 1]), axis=2)
                x = x + F.scaled_dot_product_attention(q, k, v, is_causal=causal).reshape([4, n, 128]).astype("float32")
            loss = (x * x).mean()
        (slope,) = bireme.grad(loss, table)
        return loss.numpy(), slope.numpy()

    for n in (101, 90, 77, 115, 64, 83, 70):
        got = step(n, on_gpu)
        with bireme.device_guard("cpu"), bireme.debug.use_executor("interpreter"):
            want = step(n, bireme.to_tensor(words, stop_gradient=False))
        for a, b in zip(got, want, strict=True):
            assert np.linalg.norm(a - b) <= 2e-2 * np.linalg.norm(b), n
    assert any(made is not None for family in padding.families() for made in family.padded.values())
