"""Bad input is refused when it is given, in one form, at the user's line; the next call works."""

import inspect
import re
import sys
import traceback
import urllib.error
from pathlib import Path

import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.audio.backends import soundfile_backend
from bireme.core.base import extras, torch_names
from bireme.onnx import packages
from bireme.vision import image

FORM = re.compile(r"^[\w.\[\]'= ]+(\(.*\))?: expected .+, got .+", re.S)


def here():
    return sys._getframe(1).f_lineno


def line_in(error):
    found = re.search(r"at test_errors\.py:(\d+)", str(error.value))
    assert found, str(error.value)
    return int(found[1])


def f(*shape):
    return bireme.to_tensor(np.zeros(shape, "float32"))


CALLS = {
    "matmul of shapes that differ": lambda: bireme.matmul(f(2, 3), f(2, 3)),
    "add of shapes that differ": lambda: f(2, 3) + f(4),
    "axis out of range": lambda: bireme.sum(f(2, 3), axis=5),
    "negative axis out of range": lambda: f(2, 3).mean(axis=-3),
    "huge axis": lambda: bireme.concat([f(2)], axis=2**31),
    "concat of shapes that differ": lambda: bireme.concat([f(2, 3), f(2, 4)], axis=0),
    "reshape to another size": lambda: f(2, 3).reshape([4]),
    "reshape with two -1": lambda: f(2, 3).reshape([-1, -1]),
    "reshape to a negative size": lambda: f(6).reshape([-2, 3]),
    "transpose with too many axes": lambda: f(2, 3).transpose([0, 1, 2]),
    "transpose with an axis twice": lambda: f(2, 3).transpose([0, 0]),
    "a string": lambda: bireme.exp("a"),
    "None": lambda: bireme.exp(None),
    "an unknown keyword": lambda: bireme.exp(f(2), colour=1),
    "bits of a fraction": lambda: bireme.to_tensor([3]) & 2.5,
    "a shift by a fraction": lambda: bireme.to_tensor([3]) << 2.5,
    "too many arguments": lambda: bireme.exp(f(2), None, 3, 4),
    "a missing argument": lambda: bireme.matmul(f(2)),
    "index out of range": lambda: f(3)[3],
    "negative index out of range": lambda: f(3)[-4],
    "too many indices": lambda: f(3)[0, 0],
    "index of floats": lambda: f(3)[bireme.to_tensor([0.5])],
    "slice of step 0": lambda: f(3)[::0],
    "index of a string": lambda: f(3)["a"],
    "mask of another shape": lambda: f(3)[bireme.to_tensor([True, False])],
    "writing a value that does not fit": lambda: f(3).__setitem__(slice(0, 2), f(5)),
    "gather out of range": lambda: bireme.gather(f(3), bireme.to_tensor([0, 3])),
    "gather below range": lambda: bireme.gather(f(3), bireme.to_tensor([-4])),
    "index_select out of range": lambda: bireme.index_select(f(3, 2), bireme.to_tensor([5]), axis=1),
    "list index out of range": lambda: f(3)[[0, 7]],
    "embedding out of range": lambda: nn.Embedding(4, 2)(bireme.to_tensor([4])),
    "label out of range": lambda: nn.CrossEntropyLoss()(f(2, 3), bireme.to_tensor([0, 3])),
    "a dtype that is none": lambda: f(2).astype("float99"),
    "a number too large": lambda: bireme.to_tensor(2**70),
    "ragged lists": lambda: bireme.to_tensor([[1, 2], [3]]),
    "strings in a list": lambda: bireme.to_tensor(["a", "b"]),
    "None as data": lambda: bireme.to_tensor(None),
    "an object as data": lambda: bireme.to_tensor(object()),
    "a dict as data": lambda: bireme.to_tensor({"a": 1}),
    "a negative extent": lambda: bireme.zeros([2, -3]),
    "a fractional extent": lambda: bireme.zeros([2.5]),
    "item of many": lambda: f(3).item(),
    "item out of range": lambda: f(3).item(7),
    "set_value of another shape": lambda: f(3).set_value([1.0]),
    "backward of no tensor": lambda: bireme.autograd.backward([3]),
    "grad of an unused input": lambda: bireme.grad(bireme.Parameter([1.0]) * 2.0, bireme.Parameter([1.0])),
    "a layer fed a wrong width": lambda: nn.Linear(4, 2)(f(3, 5)),
    "a learning rate of text": lambda: bireme.optimizer.SGD("fast", parameters=[]),
    "a flag that is none": lambda: bireme.set_flags({"FLAGS_none": 1}),
}


@pytest.mark.parametrize("name", CALLS)
def test_bad_input(name):
    with pytest.raises((ValueError, TypeError, IndexError, OverflowError, RuntimeError)) as e:
        CALLS[name]()
    text = str(e.value)
    assert FORM.match(text), text
    assert "test_errors.py:" in text, text
    assert "jax" not in text.splitlines()[0], text
    assert (f(2) + 1.0).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("data", "told"),
    [([1, 2**64], "range of int64, got 18446744073709551616"), ([1, None], "got a list with None in it")],
)
def test_what_a_list_holds_is_named(data, told):
    with pytest.raises(ValueError, match=told):
        bireme.to_tensor(data)


def test_the_line_is_the_users():
    x, y = f(2, 3), f(4, 5)
    with pytest.raises(ValueError) as e:
        line = here() + 1
        bireme.matmul(x, y)
    assert line_in(e) == line


def test_the_line_is_the_users_inside_a_model():
    class Net(nn.Layer):
        def forward(self, x):
            self.line = here() + 1
            return bireme.matmul(x, f(7, 7))

    net = Net()
    with pytest.raises(ValueError) as e:
        net(f(2, 3))
    assert line_in(e) == net.line


@pytest.mark.parametrize(("call", "told"), [
    (lambda: f(2) / bireme.to_tensor([1, 2]), "divide(): expected operands whose dtypes promote"),
    (lambda: f(2) ** f(3), "pow(): expected shapes that broadcast together"),
    (lambda: bireme.compat.median(f(2), dim=3), "median(dim): expected an axis"),
    (lambda: bireme.shape("a"), "shape(input): expected a Tensor"),
    (lambda: bireme.softmax(f(2), "a"), "softmax(dim): expected an integer"),
    (lambda: nn.functional.unfold("a", 2), "unfold(x): expected a Tensor"),
    (lambda: nn.functional.softplus(f(2), f(3)), "softplus(beta): expected a number"),
    (lambda: bireme.index_fill(f(2, 2), bireme.to_tensor([0]), None, 1.0), "index_fill(axis): expected an integer, got None"),
    (lambda: bireme.unstack(f(2), 0, "two"), "unstack(num): expected an integer, got 'two'"),
    (lambda: bireme.chunk(f(2), -1), "chunk(chunks): expected a number of sections that divides 2, got -1"),
    (lambda: bireme.hstack([f(2, 3), f(3, 3)]), "hstack(x[1]): expected a shape that joins [2, 3] of x[0] along axis 1"),
    (lambda: bireme.vstack([f(3), f(2, 4)]), "vstack(x[1]): expected a shape that joins [3] of x[0] along axis 0, got shape [2, 4]"),
    (lambda: bireme.dstack([f(2), f(3)]), "dstack(x[1]): expected a shape that joins [2] of x[0] along axis 2, got shape [3]"),
    (lambda: bireme.column_stack([f(2), f(3)]), "column_stack(x[1]): expected a shape that joins [2] of x[0] along axis 1, got shape [3]"),
    (lambda: f(2).set_value(object()), "set_value(value): expected numbers"),
    (lambda: bireme.atleast_2d(object()), "atleast_2d(inputs): expected numbers"),
    (lambda: bireme.incubate.nn.functional.fused_linear(f(2, 3), f(4, 4)), "fused_linear(weight): expected 3 rows"),
    (lambda: bireme.incubate.graph_send_recv(f(2, 3), bireme.to_tensor([5]), bireme.to_tensor([0])),
     "graph_send_recv(src_index): expected indices in [0, 1], got 5"),
    (lambda: bireme.broadcast_to(f(2, 3), [1]), "broadcast_to(shape): expected at least 2 dimensions"),
    (lambda: bireme.expand(f(2, 3), [1]), "expand(shape): expected at least 2 dimensions"),
    (lambda: f(2, 3).broadcast_to([1]), "broadcast_to(shape): expected at least 2 dimensions"),
    (lambda: bireme.mod(f(2), f(3)), "mod(): expected shapes that broadcast together"),
    (lambda: bireme.broadcast_shape([2], [3]), "broadcast_shape(): expected shapes that broadcast together"),
    (lambda: nn.functional.softmax_with_cross_entropy(f(2, 3), bireme.to_tensor([[7], [1]])).numpy(),
     "softmax_with_cross_entropy(label): expected indices in [0, 2]"),
    (lambda: nn.functional.cross_entropy(f(2, 3), bireme.to_tensor([7, 1])), "cross_entropy(label): expected indices in [0, 2]"),
    (lambda: bireme.metric.Accuracy().compute(f(2, 3), bireme.ones([4, 5])), "compute(label): expected a label for each sample of pred"),
    (lambda: iter(f()), "iter(x): expected a tensor with at least 1 dimension"),
    (lambda: nn.Sequential(3), "Sequential(layers[0]): expected a Layer"),
    (lambda: nn.Sequential(nn.ReLU()).append(3), "append(module): expected a Layer"),
    (lambda: nn.LayerList([1]), "LayerList(sublayers[0]): expected a Layer"),
    (lambda: nn.LayerList([nn.ReLU()]).extend([nn.ReLU(), 1]), "extend(sublayers[1]): expected a Layer"),
    (lambda: nn.LayerDict({"a": 1}), "LayerDict(sublayers['a']): expected a Layer"),
    (lambda: nn.ParameterList([1]), "ParameterList(parameters[0]): expected a Parameter"),
    (lambda: nn.TransformerEncoderLayer(8, 3, 16), "TransformerEncoderLayer(d_model): expected a multiple of nhead, which is 3"),
    (lambda: nn.Transformer(d_model=9, nhead=2), "Transformer(d_model): expected a multiple of nhead, which is 2"),
    (lambda: nn.SimpleRNNCell(3, 4)(f(2, 7)), "SimpleRNNCell(inputs): expected shape [batch, 3]"),
    (lambda: nn.RNN(nn.LSTMCell(3, 4))(f(2, 3, 7)), "RNN(inputs): expected shape"),
    (lambda: nn.SimpleRNN(3, 4)(f(2, 3, 7)), "SimpleRNN(inputs): expected shape"),
    (lambda: bireme.io.DataLoader([1, 2], shuffle="a"), "DataLoader(shuffle): expected True or False"),
    (lambda: nn.initializer.KaimingNormal(nonlinearity="foo"), "KaimingNormal(nonlinearity): expected one of"),
    (lambda: nn.Linear(2, 2).load_dict([1]), "load_dict(state_dict): expected a dict"),
    (lambda: nn.Linear(2, 2).weight.__setitem__(0, 5), "x[index] = value: expected a non-leaf Tensor"),
    (lambda: bireme.Model(nn.Linear(2, 2)).evaluate(3), "Model.evaluate(eval_data): expected a dataset, a DataLoader, or batches, got 3"),
    (lambda: bireme.Model(nn.Linear(2, 2)).predict(3), "Model.predict(test_data): expected a dataset"),
    (lambda: bireme.index_put(f(2, 3), (bireme.to_tensor([7]),), f(3)), "index_put(indices): expected indices in [-2, 1], got 7"),
    (lambda: nn.utils.spectral_norm(nn.ReLU()), "spectral_norm(name): expected a parameter of the layer, and ReLU has none, got 'weight'"),
    (lambda: bireme.load("/nofile"), "load(path): expected a file, got '/nofile', which is not there"),
    (lambda: bireme.Model(nn.Linear(2, 2)).load("/nofile"), "Model.load(path): expected a file, got '/nofile.pdparams', which is not there"),
    (lambda: bireme.save({}, ""), "save(path): expected a path that ends in the name of a file, got ''\n"),
    (lambda: bireme.clip(f(2), "a"), "clip(min): expected a Tensor or a number, got 'a'"),
    (lambda: bireme.matmul(f(2), "a"), "matmul(y): expected a Tensor, got 'a'"),
    (lambda: bireme.linalg.solve(f(2, 2), f(3)), "solve(y): expected 2 elements to match x of shape [2, 2], got shape [3]"),
    (lambda: bireme.fft.fft(f(2), n=-1), "fft(n): expected a positive size, got -1"),
    (lambda: bireme.fft.fft2(f(2, 2), s=[-1, 2]), "fft2(s): expected positive sizes, got (-1, 2)"),
    (lambda: nn.MaxPool2D(0)(f(1, 1, 4, 4)), "max_pool2d(kernel_size): expected a positive integer, got 0"),
    (lambda: nn.functional.max_pool2d(f(1, 1, 4, 4), [0, 2]), "max_pool2d(kernel_size): expected positive integers, got [0, 2]"),
    (lambda: bireme.addmm(f(2, 2), f(2, 3), f(2, 3)), "addmm(y): expected 3 rows to match x of shape [2, 3], got shape [2, 3]\n  at"),
    (lambda: bireme.mm(f(2, 3), f(2, 3)), "mm(mat2): expected 3 rows to match x of shape [2, 3], got shape [2, 3]\n  at"),
    (lambda: bireme.matmul(f(2, 3), f(2, 3)), "matmul(y): expected 3 rows to match x of shape [2, 3], got shape [2, 3]\n  hint: pass transpose_y=True"),
    (lambda: bireme.incubate.nn.functional.fused_linear(f(2, 3), f(2, 3)),
     "fused_linear(weight): expected 3 rows to match x of shape [2, 3], got shape [2, 3]\n  hint: pass transpose_weight=True"),
    (lambda: bireme.zeros("3"), "zeros(shape): expected an integer or a list of integers, got '3'"),
    (lambda: bireme.to_tensor([1, "a"]), "to_tensor(data): expected numeric data, got a list with 'a' in it"),
    (lambda: bireme.gather(f(2), f(1)), "gather(index): expected an integer tensor, got float32"),
    (lambda: "a" * f(2), "multiply(x): expected a Tensor, a number or an array, got 'a'"),
    (lambda: f(2) * "a", "multiply(y): expected a Tensor, a number or an array, got 'a'"),
])  # fmt: skip
def test_the_name_is_the_one_that_was_called(call, told):
    with pytest.raises((ValueError, TypeError)) as e:
        call()
    assert str(e.value).startswith(told)


@pytest.mark.parametrize("one", [1, np.int64(1), np.array(1), bireme.to_tensor(1)])
def test_what_serves_as_an_integer(one):
    x = bireme.to_tensor([[1.0, 3.0], [2.0, 4.0]])
    assert bireme.cumsum(x, axis=one).tolist() == [[1.0, 4.0], [2.0, 6.0]]
    assert bireme.topk(x, one)[0].tolist() == [[3.0], [4.0]]
    assert [r.tolist() for r in bireme.unstack(x[:1], 0, one)] == [[1.0, 3.0]]
    assert bireme.vander(bireme.to_tensor([2.0]), one).tolist() == [[1.0]]


def test_what_serves_as_a_number():
    x = bireme.to_tensor([-1.0, 2.0])
    assert nn.functional.leaky_relu(x, np.array(0.5)).tolist() == [-0.5, 2.0]
    assert bireme.scale(x, np.array(2.0), np.array(1)).tolist() == [-1.0, 5.0]
    assert bireme.arange(np.array([1]), np.array(4), np.array([2])).tolist() == [1, 3]
    assert bireme.diag(x, 0, np.array(7.0)).tolist() == [[-1.0, 7.0], [7.0, 2.0]]
    assert bireme.zeros(np.int64(2), "int32").tolist() == [0, 0]
    assert bireme.ones(np.int64(2), np.int64(1)).shape == [2, 1]
    assert nn.functional.zeropad2d(x.reshape([1, 1, 1, 2]), np.array([1, 0, 0, 0])).tolist() == [[[[0.0, -1.0, 2.0]]]]
    assert bireme.hstack([x, np.ones(1, np.float32)]).tolist() == [-1.0, 2.0, 1.0]
    assert bireme.vstack([np.ones(2, np.float32), x]).tolist() == [[1.0, 1.0], [-1.0, 2.0]]
    assert (
        bireme.uniform([2], seed=-1).tolist()
        == bireme.uniform([2], seed=-1).tolist()
        != bireme.uniform([2], seed=1).tolist()
    )
    assert nn.initializer.Constant(np.array(3.0)).sample([1], "float32").tolist() == [3.0]
    assert nn.initializer.Normal(np.array(3.0), np.array(0.0)).sample([1], "float32").tolist() == [3.0]
    assert nn.ClipGradByNorm(np.array(5.0)).clip_norm == 5.0
    assert bireme.regularizer.L2Decay(np.float32(0.5))(x).tolist() == [-0.5, 1.0]
    assert bireme.amp.GradScaler(True, np.float32(4.0), incr_every_n_steps=np.int64(3)).get_init_loss_scaling() == 4.0
    assert bireme.io.DataLoader([1, 2], num_workers=np.int64(0)).num_workers == 0
    with pytest.raises(TypeError, match="a Tensor or an integer, got 2"):
        bireme.bitwise_and(bireme.to_tensor([3]), np.array(2.5))


# what Paddle raises: code that catches it goes on
KINDS = [
    (TypeError, lambda: nn.GroupNorm("x", 2)),
    (TypeError, lambda: nn.LSTM(3, 4, num_layers=1.5)),
    (TypeError, lambda: nn.Conv2DTranspose([2], 4, 2)),
    (TypeError, lambda: bireme.optimizer.lr.PolynomialDecay(0.1, "x")),
    (TypeError, lambda: bireme.io.RandomSampler([1, 2], num_samples=[1])),
    (TypeError, lambda: bireme.metric.Auc(num_thresholds=1.5)),
    (TypeError, lambda: bireme.scale(f(2), 2.0, 1j)),
    (TypeError, lambda: bireme.scale(f(2), act=1)),
    (TypeError, lambda: nn.functional.pad(f(1, 1, 2, 2), None)),
    (TypeError, lambda: nn.functional.unfold(f(1, 1, 4, 4), [2, 2, 2])),
    (TypeError, lambda: f(2).cumsum_(0, colour=1)),
    (TypeError, lambda: f(2).cumprod_(0, None, None, None, None)),
    (TypeError, lambda: f(2).backward(None, 1)),
    (TypeError, lambda: bireme.set_grad_enabled("a")),
    (TypeError, lambda: setattr(f(2), "stop_gradient", "a")),
    (TypeError, lambda: setattr(nn.Linear(2, 2).weight, "stop_gradient", 1)),
    (TypeError, lambda: bireme.no_grad()(3)),
    (TypeError, lambda: next(iter(bireme.io.DataLoader([1, 2, object()], batch_size=3)))),
    (ValueError, lambda: bireme.get_rng_state("moon")),
    (ValueError, lambda: bireme.set_rng_state(bireme.get_rng_state(), "moon")),
    (ValueError, lambda: nn.utils.clip_grad_norm_([f(2)], "a")),
    (ValueError, lambda: nn.utils.clip_grad_value_([f(2)], "a")),
    (ValueError, lambda: bireme.reshape(f(1), None)),
    (ValueError, lambda: bireme.reshape(f(2, 3), None)),
    (AssertionError, lambda: bireme.autograd.backward([])),
    (AssertionError, lambda: bireme.autograd.backward([f(2)], retain_graph=1)),
    (AssertionError, lambda: bireme.split(f(2, 3), 3, -5)),
    (AssertionError, lambda: bireme.take_along_axis(f(2, 3), bireme.to_tensor([[0]]), 1.5)),
    (AssertionError, lambda: nn.functional.fold(f(1, 4, 4), "x", 2)),
    (AssertionError, lambda: nn.functional.fold(f(1, 4, 4), [3, 3, 3], 2)),
    (AssertionError, lambda: nn.functional.pad(f(1, 1, 2, 2), [1, 1], mode=1)),
    (AssertionError, lambda: nn.initializer.Dirac(1.5)),
    (TypeError, lambda: bireme.optimizer.Rprop(0.1, [1e-5], [])),
    (AttributeError, lambda: bireme.einsum("i,i", f(2), None)),
    (AttributeError, lambda: bireme.column_stack([f(2), 1.0])),
    (AttributeError, lambda: bireme.tolist([1.0])),
    (AttributeError, lambda: nn.TransformerDecoderLayer(4, 2, 8)(f(1, 2, 4), None)),
    (AttributeError, lambda: bireme.reshape_("x", [1])),
    (AttributeError, lambda: nn.init.normal_([1.0])),
    (bireme.errors.DtypeError, lambda: bireme.scatter(f(2), f(1), f(2))),
    *[
        (bireme.errors.MissingAttributeError, call)
        for call in (
            lambda: nn.RNN(3),
            lambda: nn.TransformerEncoder(3, 2),
            lambda: bireme.amp.GradScaler().step(3),
            lambda: nn.Linear(2, 2).set_state_dict(None),
        )
    ],
    (ValueError, lambda: nn.LSTMCell(3, 4)((f(2, 3),))),
    (ValueError, lambda: nn.GRU(3, 4)((f(2, 3, 3),))),
    (RuntimeError, lambda: bireme.masked_select(f(2, 3), f(2) > 0)),
    (RuntimeError, lambda: bireme.index_add(f(2, 3), bireme.to_tensor([0]), 0, f(2, 3))),
    (ValueError, lambda: nn.MultiHeadAttention(4, 2)([1.0])),
    (ValueError, lambda: nn.functional.local_response_norm(f(1, 2, 3), 2, data_format="NC")),
]


@pytest.mark.parametrize("at", range(len(KINDS)))
def test_the_kind_is_the_one_that_paddle_raises(at):
    kind, call = KINDS[at]
    with pytest.raises(kind) as e:
        call()
    assert FORM.match(str(e.value)), str(e.value)


def test_an_object_that_is_no_tensor_is_not_told_as_one():
    with pytest.raises(AttributeError) as e:
        nn.RNN(3)
    assert not isinstance(e.value, bireme.errors.NotATensorError)


def test_a_number_that_is_only_too_small_is_of_the_right_type():
    with pytest.raises(ValueError) as e:
        nn.GroupNorm(0, 2)
    assert not isinstance(e.value, TypeError)


def test_a_close_keyword_is_suggested():
    with pytest.raises(TypeError, match="did you mean"):
        bireme.sum(f(2), axs=0)
    with pytest.raises(
        TypeError, match=r"among x, num_or_sections, axis, name, got 'dim'\n  hint: (use|did you mean) axis"
    ):
        f(2).split(1, dim=1)
    with pytest.raises(
        TypeError, match=r"among x, axis, keepdim, name, got 'dim'\n  hint: use axis, or bireme.compat.max"
    ):
        f(2).max(dim=1)


def test_the_axis_of_the_classes_is_suggested():
    for label in ([2, 4, 4], [2, 1, 4, 4]):
        with pytest.raises(ValueError, match="hint: pass axis=1"):
            nn.functional.cross_entropy(f(2, 3, 4, 4), bireme.zeros(label, "int64"))
    with pytest.raises(ValueError) as e:
        nn.functional.cross_entropy(f(2, 3), bireme.zeros([3], "int64"))
    assert "hint" not in str(e.value)


TORCH = [
    *[(bireme, name, told) for name, told in torch_names.TOP.items()],
    *[(nn, name, told) for name, told in torch_names.NN.items()],
    *[(nn.ReLU(), name, told) for name, told in torch_names.LAYER.items()],
    *[(bireme.optimizer.SGD(parameters=[]), name, told) for name, told in torch_names.OPTIMIZER.items()],
]


@pytest.mark.parametrize("at", range(len(TORCH)))
def test_names_of_pytorch_are_answered_by_ours(at):
    owner, name, told = TORCH[at]
    with pytest.raises(AttributeError, match=f"no attribute '{name}'\n  hint: PyTorch's {name} is {told} here"):
        getattr(owner, name)
    for part in told.removeprefix("bireme.").removeprefix("nn.").split("."):
        owner = getattr(owner, part)


def test_the_page_for_users_of_pytorch_has_the_same_names():
    page = Path(__file__).parents[1].joinpath("docs", "from_pytorch.md").read_text()
    table = page.partition("## Names")[2].partition("\n## ")[0]
    for names in (torch_names.TOP, torch_names.NN, torch_names.LAYER, torch_names.OPTIMIZER):
        for name, told in names.items():
            row = [r for r in table.splitlines() if re.search(rf"\b{name}\b", r.split("|")[1:2][0] if "|" in r else "")]
            assert any(re.search(rf"\b{told.rpartition('.')[2]}\b", r) for r in row), (name, told)


def test_names_that_nobody_has_stay_plain():
    for owner in (bireme, nn, nn.ReLU()):
        with pytest.raises(AttributeError, match=r"has no attribute 'qqqq'$"):
            getattr(owner, "qqqq")  # noqa: B009  # the value is not wanted
        assert not hasattr(owner, "__nonsense__")


# ---------------------------------------------------------------- to_tensor


def test_large_integers():
    assert bireme.to_tensor(2**40).item() == 2**40
    assert bireme.to_tensor([2**40, 1]).dtype == bireme.int64
    assert (bireme.to_tensor(2**40) + 1).item() == 2**40 + 1
    assert bireme.to_tensor(2**63 - 1).item() == 2**63 - 1
    for bad in (2**63, -(2**63) - 1):
        with pytest.raises((OverflowError, ValueError), match="range"):
            bireme.to_tensor(bad)


@pytest.mark.parametrize("value", [300, -1])
def test_a_number_that_does_not_fit_its_type(value):
    with pytest.raises((OverflowError, ValueError), match="range of uint8"):
        bireme.to_tensor(value, dtype="uint8")


def test_a_fill_beyond_its_type_is_what_a_cast_makes_of_it():
    for value in (np.inf, -np.inf, np.nan, 3e9, 300.7, -1.5):
        for kind in ("int32", "int64", "uint8", "int8"):
            want = bireme.to_tensor([value, value], "float64").astype(kind).tolist()
            assert bireme.full([2], value, kind).tolist() == want


def test_empty_and_nested():
    assert bireme.to_tensor([]).shape == [0]
    assert bireme.to_tensor([[], []]).shape == [2, 0]
    assert bireme.to_tensor([[[1.0]]]).shape == [1, 1, 1]
    assert bireme.to_tensor(range(3)).tolist() == [0, 1, 2]
    assert bireme.to_tensor(True).dtype == bireme.bool_
    assert bireme.to_tensor([bireme.to_tensor(1.0), 2.0]).tolist() == [1.0, 2.0]
    assert bireme.to_tensor([1, 2.5]).dtype == bireme.float32
    assert bireme.to_tensor([1 + 2j]).dtype == bireme.complex64


def test_lists_nested_without_end():
    data = []
    for _ in range(200):
        data = [data]
    with pytest.raises(ValueError, match="nested at most"):
        bireme.to_tensor(data)


@pytest.mark.parametrize("shape", [[2**62], [2**40, 2**40], [10**6, 10**6, 10**6]], ids=str)
def test_shapes_that_no_machine_holds(shape):
    with pytest.raises((ValueError, MemoryError, RuntimeError, OverflowError)) as e:
        bireme.zeros(shape).sum().item()
    assert "test_errors.py" in str(e.value)
    assert (f(2) + 1.0).tolist() == [1.0, 1.0]


def test_object_arrays_are_refused():
    with pytest.raises((TypeError, ValueError), match=r"to_tensor|dtype"):
        bireme.to_tensor(np.array([object()]))


# ---------------------------------------------------------------- indices that only the program knows


def computed(values):
    """Integers that the host does not know."""
    return bireme.to_tensor(values) + 0


@pytest.mark.parametrize("fresh", [True, False])
def test_a_computed_index_out_of_range_raises(fresh):
    table = bireme.to_tensor([10.0, 20.0, 30.0])
    for _ in range(1 if fresh else 3):
        assert bireme.gather(table, computed([0, 2])).tolist() == [10.0, 30.0]
    with pytest.raises(IndexError, match=r"test_errors\.py:"):
        found = bireme.gather(table, computed([0, 3]))
        found.numpy()
        (found + 1.0).numpy()
    assert bireme.gather(table, computed([1])).tolist() == [20.0]


def test_a_computed_index_of_an_item():
    x = bireme.to_tensor([1.0, 2.0])
    assert x[computed([1, 0])].tolist() == [2.0, 1.0]
    with pytest.raises(IndexError):
        x[computed([2])].numpy()


def test_a_computed_label_out_of_range_raises():
    logits = bireme.to_tensor(np.zeros((2, 3), "float32"), stop_gradient=False)
    with pytest.raises(IndexError):
        loss = nn.CrossEntropyLoss()(logits, computed([0, 3]))
        loss.backward()
        loss.item()
    bireme.debug.flush()


def test_a_run_that_fails_names_the_lines():
    class Broken:
        name = "broken"

        def prepare(self, graph, live, donate, device):
            def call(leaves, vectors):
                raise ValueError("no such luck")

            return call

    bireme.device.register_executor(Broken())
    x = f(1, 2, 1) + 1.0  # of a shape that no test has added to before: the lines are those of the first time
    with (
        bireme.debug.use_executor("broken"),
        pytest.raises(RuntimeError, match=r"ValueError while running 1 operators.*no such luck") as e,
    ):
        x.numpy()
    assert "\n  at test_errors.py:" in str(e.value)
    assert x.tolist() == [[[1.0], [1.0]]]  # nothing was reused, so it can be tried again


def test_a_step_with_a_bad_index_changes_nothing():
    """The index is known only when the step runs: it is told by its name, and the parameters are what they were."""
    table = bireme.nn.Embedding(4, 3)
    opt = bireme.optimizer.SGD(0.1, parameters=table.parameters())
    before = table.weight.numpy()
    for ids in ([1, 2], [3, 4]):
        bireme.nn.functional.embedding(bireme.to_tensor(ids) + 0, table.weight).sum().backward()
        opt.step()
        opt.clear_grad()
        if ids[1] == 2:
            after = table.weight.numpy()
            assert (after != before).any()
    with pytest.raises(IndexError, match=r"embedding\(x\): expected indices in \[0, 3\]"):
        table.weight.numpy()
    np.testing.assert_array_equal(table.weight.numpy(), after)


def test_a_bad_label_is_told_in_every_tier():
    w = bireme.Parameter(np.eye(8, dtype="float32"))
    for _ in range(4):
        h = bireme.ones([2, 3, 8])
        for _ in range(30):
            h = bireme.tanh(h @ w)
        with pytest.raises(IndexError, match="cross_entropy\\(label\\)"):
            float(bireme.nn.functional.cross_entropy(h, bireme.to_tensor([[1, 2, -100], [3, 4, 5]]), ignore_index=0))


@pytest.mark.parametrize("given", [np.ones((2, 4), "float32"), [[1.0, 2.0, 3.0, 4.0]]])
def test_an_array_where_a_tensor_belongs_gets_the_hint(given):
    with pytest.raises(TypeError) as told:
        nn.Linear(4, 3)(given)
    first, hint, line = str(told.value).splitlines()
    assert first == f"linear(x): expected a Tensor, got {type(given).__name__}"
    assert hint == "  hint: make a tensor of it with to_tensor()" and line.startswith("  at test_errors.py:")


def frames(error):
    """Files of the traceback below this one, and whether another error is shown before it."""
    found = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    shown = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return [name for name in found if "bireme" in Path(name).parts[-4:] or "core" in Path(name).parts], shown


class Doubled(nn.Layer):
    def forward(self, x):
        return nn.functional.linear(x, f(7, 7))


LEAVING = CALLS | {
    "a list of no tensors": lambda: bireme.concat(3),
    "an inplace operator": lambda: f(2, 3).add_(f(7)),
    "a product of shapes that differ": lambda: f(2, 3) @ f(2, 3),
    "a comparison with an object": lambda: f(2) == object(),
    "an attribute of a parameter": lambda: nn.Linear(3, 2, weight_attr=3),
    "a kernel of text": lambda: nn.Conv2D(3, 2, "a"),
    "layers in a row": lambda: nn.Sequential(nn.Linear(4, 2), nn.ReLU())(f(3, 5)),
    "a layer of the user": lambda: Doubled()(f(2, 3)),
    "a device that is none": lambda: bireme.set_device("foo"),
    "a dataset that is none": lambda: bireme.io.DataLoader(3),
    "an attribute that is none": lambda: nn.Linear(3, 2).weihgt,
    "an attribute of another kind": lambda: setattr(nn.Linear(3, 2), "weight", 3),
    "many as a float": lambda: float(f(3)),
    "the length of a number": lambda: len(f()),
    "a seed of text": lambda: bireme.seed("a"),
    "a missing argument of a constructor": lambda: nn.Linear(3),
    "too many inputs": lambda: nn.Linear(3, 2)(f(3), f(3)),
}


@pytest.mark.parametrize("name", LEAVING)
def test_the_traceback_ends_at_the_users_line(name):
    with pytest.raises(Exception) as e:
        LEAVING[name]()
    assert frames(e.value) == ([], None)
    assert Path(traceback.extract_tb(e.value.__traceback__)[-1].filename).name == "test_errors.py"


def test_all_frames_are_shown_on_request():
    bireme.set_flags({"FLAGS_full_traceback": True})
    try:
        with pytest.raises(ValueError) as e:
            nn.Linear(4, 2)(f(3, 5))
    finally:
        bireme.set_flags({"FLAGS_full_traceback": False})
    found = [frame.name for frame in traceback.extract_tb(e.value.__traceback__)]
    assert "forward" in found and len(found) > 3


def test_frames_and_errors_of_users_stay():
    class Net(nn.Layer):
        def forward(self, x):
            try:
                raise KeyError("theirs")
            except KeyError:
                return Doubled()(x)

    with pytest.raises(ValueError) as e:
        Net()(f(2, 3))
    assert [frame.name for frame in traceback.extract_tb(e.value.__traceback__)][1:] == ["forward", "forward"]
    assert isinstance(e.value.__context__, KeyError) and not e.value.__suppress_context__

    class Broken(nn.Layer):
        def __init__(self):
            super().__init__()
            raise TypeError("theirs")

    with pytest.raises(TypeError, match=r"^theirs$"):
        Broken()


SIGNATURES = [
    (lambda: nn.Linear(3), "Linear(out_features): expected a value, got none"),
    (lambda: nn.Linear(3, 2, foo=1), "Linear(foo): expected a keyword among in_features, out_features, weight_attr, bias_attr, name, got 'foo'"),
    (lambda: nn.Linear(3, 2, None, None, None, 1), "Linear(): expected at most 5 positional arguments, got 6"),
    (lambda: nn.Linear(3, 2, in_features=1), "Linear(in_features): expected one value, got two"),
    (lambda: nn.Linear(3, 2, bias=False), "hint: use bias_attr=False"),
    (lambda: bireme.optimizer.SGD(lr=0.1), "hint: use learning_rate"),
    (lambda: nn.LSTM(3, 4, batch_first=True), "hint: use time_major=False, the default"),
    (lambda: nn.Linear(3, 2)(f(3), f(3), f(3)), "Linear(): expected at most 1 positional argument, got 3"),
    (lambda: nn.Linear(3, 2)(), "Linear(input): expected a value, got none"),
    (lambda: nn.Linear(3, 2)(inp=f(3)), "hint: did you mean input?"),
    (lambda: nn.Conv2D(3), "Conv2D(out_channels): expected a value"),
    (lambda: nn.BatchNorm2D(), "BatchNorm2D(num_features): expected a value"),
    (lambda: nn.initializer.KaimingNormal(foo=1), "KaimingNormal(foo): expected"),
    (lambda: nn.initializer.Bilinear(3), "Bilinear(): expected no positional arguments, got 1"),
    (lambda: bireme.metric.Accuracy(nosuch=1), "Accuracy(nosuch): expected no keywords"),
    (lambda: bireme.optimizer.lr.StepDecay(0.1), "StepDecay(step_size): expected a value"),
    (lambda: bireme.io.DataLoader(), "DataLoader(dataset): expected a value"),
    (lambda: bireme.set_device(), "set_device(device): expected a value"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "told"), SIGNATURES)
def test_calls_that_do_not_fit_are_told_as_of_operators(call, told):
    with pytest.raises(TypeError) as e:
        call()
    assert told in str(e.value)
    line_in(e)


def test_classes_of_users_keep_pythons_text():
    class Net(nn.Layer):
        def __init__(self, width):
            super().__init__()

        def forward(self, x):
            return x

    with pytest.raises(TypeError, match="missing 1 required positional argument: 'width'"):
        Net()
    with pytest.raises(TypeError, match="takes 2 positional arguments but 3 were given"):
        Net(2)(f(2), f(2))


def public_classes():
    bases = (nn.Layer, bireme.optimizer.Optimizer, bireme.optimizer.lr.LRScheduler, bireme.metric.Metric)
    bases += (nn.initializer.Initializer, bireme.io.Dataset, bireme.io.Sampler, bireme.io.DataLoader)
    modules = (
        nn,
        nn.initializer,
        bireme.optimizer,
        bireme.optimizer.lr,
        bireme.metric,
        bireme.io,
        bireme.vision.models,
    )
    found = {getattr(m, name) for m in modules for name in m.__all__}
    return sorted(
        (c for c in found if isinstance(c, type) and issubclass(c, bases) and not inspect.isabstract(c)),
        key=lambda c: c.__name__,
    )


def test_constructors_name_the_class_that_was_called():
    wrong = []
    for cls in public_classes():
        for args, kwargs in ([], {"nosuch": 1}), ([0] * 40, {}):
            try:
                cls(*args, **kwargs)
            except TypeError as e:
                if not str(e).startswith(f"{cls.__name__}(") or "test_errors.py" not in str(e):
                    wrong.append((cls.__name__, str(e)))
            except (ValueError, AssertionError):
                pass
    assert wrong == []


def trained():
    layer = nn.Linear(3, 2)
    layer(f(2, 3)).sum().backward()
    return layer.parameters()


RAW = {
    "metric.Accuracy().update": lambda: bireme.metric.Accuracy().update("a"),
    "metric.accuracy": lambda: bireme.metric.accuracy(f(2, 3), None),
    "parameters_to_vector": lambda: nn.utils.parameters_to_vector([1]),
    "vector_to_parameters": lambda: nn.utils.vector_to_parameters(f(3), [1]),
    "clip_grad_value_": lambda: nn.utils.clip_grad_value_(trained(), "a"),
    "clip_grad_norm_": lambda: nn.utils.clip_grad_norm_(trained(), "a"),
    "resnet18 classes": lambda: bireme.vision.models.resnet18(num_classes="a"),
    "resnet18 keyword": lambda: bireme.vision.models.resnet18(foo=1),
    "vgg11": lambda: bireme.vision.models.vgg11(num_classes="a"),
    "mobilenet_v1": lambda: bireme.vision.models.mobilenet_v1(scale="a"),
    "mobilenet_v2": lambda: bireme.vision.models.mobilenet_v2(scale="a"),
    "ExponentialDecay": lambda: bireme.optimizer.lr.ExponentialDecay(0.1, "a"),
    "InverseTimeDecay": lambda: bireme.optimizer.lr.InverseTimeDecay(0.1, "a"),
    "LambdaDecay": lambda: bireme.optimizer.lr.LambdaDecay(0.1, lambda e: "a"),
    "MultiplicativeDecay": lambda: bireme.optimizer.lr.MultiplicativeDecay(0.1, lambda e: "a").step(),
    "schedule state": lambda: bireme.optimizer.lr.StepDecay(0.1, 2).set_state_dict(None),
    "XavierNormal": lambda: nn.initializer.XavierNormal(fan_in="a")(bireme.create_parameter([2, 3], "float32")),
    "KaimingNormal": lambda: nn.initializer.KaimingNormal(fan_in="a"),
    "dynamic_decode": lambda: nn.dynamic_decode(3),
    "apply": lambda: nn.Linear(3, 2).apply(3),
    "Generator": lambda: bireme.Generator("a"),
    "TensorDataset": lambda: bireme.io.TensorDataset(3),
    "TensorDataset of numbers": lambda: bireme.io.TensorDataset([3]),
    "ChainDataset": lambda: bireme.io.ChainDataset(3),
    "ComposeDataset": lambda: bireme.io.ComposeDataset(3),
    "ConcatDataset": lambda: bireme.io.ConcatDataset(3),
    "Model.save": lambda: bireme.Model(nn.Linear(3, 2)).save(None),
    "ProgBarLogger": lambda: bireme.callbacks.ProgBarLogger("a"),
    "dtype": lambda: bireme.dtype("foo"),
    "LayerDict": lambda: nn.LayerDict({})["b"],
    "Sequential": lambda: nn.Sequential(nn.ReLU())["b"],
    "pre hook": lambda: nn.Linear(3, 2).register_forward_pre_hook(3),
    "post hook": lambda: nn.Linear(3, 2).register_forward_post_hook(3),
    "state hook": lambda: nn.Linear(3, 2).register_state_dict_hook(3),
}


@pytest.mark.parametrize("name", RAW)
def test_arguments_of_libraries_are_told_in_the_same_form(name):
    with pytest.raises((ValueError, TypeError)) as e:
        RAW[name]()
    assert FORM.match(str(e.value)), str(e.value)
    line_in(e)
    assert frames(e.value) == ([], None)


def test_a_download_that_fails_is_told(monkeypatch, tmp_path):
    def refuse(url, timeout):
        raise urllib.error.URLError("no such host")

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    with pytest.raises(
        RuntimeError, match=r"an address that answers, got http://x/y, which failed: .*no such host"
    ) as e:
        bireme.utils.download.get_path_from_url("http://x/y", str(tmp_path))
    line_in(e)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("package", "extra", "call"),
    [
        ("onnx", "onnx", lambda: packages.onnx("helper")),
        ("Pillow", "vision", lambda: image.pillow("Image")),
        ("soundfile", "audio", lambda: soundfile_backend.info("info(path)", "a.flac")),
    ],
)
def test_a_package_that_is_missing_is_told_with_its_extra(package, extra, call, monkeypatch):
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(extras.importlib, "import_module", absent)
    with pytest.raises(ImportError, match=rf"^{package} is needed for .*, and it is not installed") as error:
        call()
    assert f"pip install 'bireme[{extra}]' installs it" in str(error.value)
