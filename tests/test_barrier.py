"""What is selected from a tensor is found in it, however a compiled program computes it: values, and the gradients that
go by them.
"""

import re

import jax
import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.core.base.dtype import float32
from bireme.core.base.registry import OPS
from bireme.core.record.capture import capture
from bireme.core.tensor.tensor import wrap
from bireme.core.xla_exec import lowering
from bireme.core.xla_exec.barrier import once
from bireme.nn import functional as F


def numbers(*shape, seed=0):
    return np.random.RandomState(seed).standard_normal(shape)


SELECTORS = {
    "max": lambda y: y.max(axis=-1, keepdim=True),
    "min": lambda y: y.min(axis=-1, keepdim=True),
    "max_pool2d": lambda y: F.max_pool2d(y, [1, 40]),
    "topk": lambda y: bireme.topk(y, 3)[0][..., -1:],
    "sort": lambda y: bireme.sort(y)[..., :1],
    "kthvalue": lambda y: bireme.kthvalue(y, 5, keepdim=True)[0],
    "median": lambda y: bireme.median(y, axis=-1, keepdim=True, mode="min")[0],
    "cummax": lambda y: bireme.cummax(y, axis=-1)[0][..., -1:],
}


@pytest.mark.parametrize("name", SELECTORS)
def test_what_is_selected_is_found_again(name):
    # a kernel over rows rounds the product by itself, one over channels together with the difference
    with bireme.debug.use_executor("xla"):
        x = bireme.to_tensor(numbers(8, 8, 40, 40).astype("float32"))
        s = bireme.to_tensor(numbers(8, 8, 1, 1).astype("float32"))
        y = x - s * 0.000625 * 3
        found = SELECTORS[name](y)
        hit = (y.transpose([0, 2, 3, 1]) == found.transpose([0, 2, 3, 1])).numpy()
    assert hit.any(axis=2).all()


@pytest.fixture
def on_cpu():
    """A GPU's convolutions have ten bits in float32: other elements may be the largest."""
    before = bireme.get_device()
    bireme.set_device("cpu")
    yield
    bireme.set_device(before)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "select",
    [
        lambda y: y.max(axis=-1),
        lambda y: F.max_pool2d(y, 2),
        lambda y: bireme.median(y, axis=-1),
        lambda y: bireme.norm(y, p=np.inf, axis=-1),
    ],
    ids=["max", "max_pool2d", "median", "norm"],
)
def test_no_gradient_is_lost_where_a_program_computes_again(select, dtype, on_cpu):
    conv, norm = nn.Conv2D(4, 8, 3, padding=1), nn.InstanceNorm2D(8)
    conv.to(dtype=dtype), norm.to(dtype=dtype)
    draws = np.random.RandomState(1), np.random.RandomState(3)
    conv.weight.set_value((draws[0].standard_normal((8, 4, 3, 3)) / 6).astype(dtype))
    conv.bias.set_value((draws[0].standard_normal(8) * 0.01).astype(dtype))
    norm.scale.set_value((1 + 0.1 * draws[1].standard_normal(8)).astype(dtype))
    norm.bias.set_value((draws[1].standard_normal(8) * 0.01).astype(dtype))
    grads = []
    for executor in ("interpreter", "xla"):
        with bireme.debug.use_executor(executor):
            x = bireme.to_tensor(numbers(8, 4, 40, 40).astype(dtype), stop_gradient=False)
            y = select(norm(conv(x)))
            (y * bireme.to_tensor(numbers(*y.shape, seed=2).astype(dtype))).sum().backward()
            grads.append(x.grad.numpy())
    assert np.abs(grads[0] - grads[1]).max() < (1e-4 if dtype == "float32" else 1e-10)


class Look:
    """Runs graphs as they are, and counts the loops in them: those that hold a value."""

    name = "look"
    loops = 0

    def prepare(self, graph, live, donate, device):
        fn = lowering.function(graph, live, "cpu")

        def call(leaves, vectors):
            with jax.enable_x64(True):
                self.loops = str(jax.make_jaxpr(fn)(leaves, vectors)).count("while[")
                return [np.array(a) for a in fn(leaves, vectors)]

        return call


def test_a_value_is_held_once_and_only_where_it_is_rounded():
    look = Look()
    bireme.device.register_executor(look)
    x = bireme.to_tensor(numbers(4, 6).astype("float32"))

    def loops(f):
        look.loops = 0
        with bireme.debug.use_executor("look"):
            f(x).numpy()
        return look.loops

    assert loops(lambda x: x.max()) == 0  # it is in memory
    assert loops(lambda x: (x * 2).sum()) == 0
    assert loops(lambda x: (x * 2).max()) == 1
    assert loops(lambda x: (lambda y: y.max() + y.min() + y.max(axis=0).sum())(x * 2)) == 1
    assert loops(lambda x: (x > 0).astype("int32").max()) == 0
    assert loops(lambda x: bireme.norm(x * 2, p=2)) == 0
    assert loops(lambda x: bireme.norm(x * 2, p=np.inf)) == 1


def test_rules_that_look_for_their_result_say_so():
    looking = ["max", "min", "max_pool_of", "adaptive_max_of", "fractional_max_of", "median_of", "cummax", "cummin"]
    assert all(OPS[name].options.get("selects") for name in looking)


def test_once_keeps_shape_dtype_and_bits():
    for dtype in ("float32", "float64", "complex64", "float16"):
        x = numbers(3, 4).astype(dtype)
        with jax.enable_x64(True):
            assert np.array_equal(np.asarray(once(x, "cpu")), x)


def test_blocks_of_a_residual_network_are_computed_once(on_cpu):
    convs = [nn.Conv2D(4, 4, 3, padding=1) for _ in range(6)]
    with bireme.no_grad(), capture() as captured:
        x = wrap(captured.input((1, 4, 16, 16), float32))
        for conv in convs:
            x = F.relu(conv(x) + x)
        graph = captured.finish([x._value]).graph
    made = lowering.function(graph, tuple(graph.nodes[-1].made), "cpu")
    leaves = [jax.ShapeDtypeStruct(s.shape, s.dtype.np) for s in graph.leaf_sigs]
    text = jax.jit(made).lower(leaves, []).compile().as_text()
    read = [len(re.findall("%", operands)) for operands in re.findall(r" fusion\(([^)]*)\), kind=kLoop", text)]
    assert max(read) <= 4  # the convolution, its bias, and what it is added to; not all blocks before
