"""summary and flops: the numbers that Paddle 3.2.2 gives for the same networks, and no trace left in the network."""

import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.hapi import dynamic_flops, static_flops


class LeNet(nn.Layer):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2D(1, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2D(2, 2), nn.Conv2D(6, 16, 5), nn.BatchNorm2D(16), nn.ReLU(), nn.AvgPool2D(2, 2),
        )  # fmt: skip
        self.fc = nn.Sequential(nn.Linear(400, 120), nn.Dropout(0.5), nn.Linear(120, 10))

    def forward(self, x):
        return self.fc(self.features(x).flatten(1))


class Shared(nn.Layer):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(4, 4)
        self.two = self.one
        self.tied = nn.Linear(4, 4)
        self.tied.weight = self.one.weight

    def forward(self, x):
        return self.tied(self.two(self.one(x)))


class Nested(nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x):
        a, (b, c) = x
        return {"out": self.linear(a + b + c)}


def rows(text):
    """The lines of a table between its rules, in words."""
    lines = text.splitlines()
    first, last = (i for i, line in enumerate(lines) if line.startswith("==="))
    return [line.split() for line in lines[first + 1 : last]]


def test_a_table_of_layers(capsys):
    assert bireme.summary(LeNet(), (2, 1, 28, 28)) == {"total_params": 51870, "trainable_params": 51838}
    text = capsys.readouterr().out
    found = rows(text)
    assert [row[0].split("-")[0] for row in found] == [
        "Conv2D", "ReLU", "MaxPool2D", "Conv2D", "BatchNorm2D", "ReLU", "AvgPool2D", "Linear", "Dropout", "Linear",
    ]  # fmt: skip
    assert [row[-1] for row in found] == ["60", "0", "0", "2,416", "64", "0", "0", "48,120", "0", "1,210"]
    assert " ".join(found[3][1:-1]) == "[[2, 6, 14, 14]] [2, 16, 10, 10]"
    assert "Total params: 51,870\nTrainable params: 51,838\nNon-trainable params: 32\n" in text
    assert (
        "Input size (MB): 0.01\nForward/backward pass size (MB): 0.24\nParams size (MB): 0.20\nEstimated Total Size (MB): 0.45\n"
        in text
    )
    assert len(set(map(len, [line for line in text.splitlines() if line.startswith(("---", "==="))]))) == 1


@pytest.mark.parametrize(
    "size", [(None, 1, 28, 28), (-1, 1, 28, 28), [(1, 1, 28, 28)], bireme.static.InputSpec([None, 1, 28, 28])]
)
def test_ways_to_say_the_shape(size, capsys):
    assert bireme.summary(LeNet(), size)["total_params"] == 51870
    assert "[[1, 1, 28, 28]]" in capsys.readouterr().out


def test_several_inputs_and_types(capsys):
    class Two(nn.Layer):
        def __init__(self):
            super().__init__()
            self.table, self.linear = nn.Embedding(10, 4), nn.Linear(4, 2)
            self.scale = self.create_parameter([3])

        def forward(self, ids, x):
            return self.linear(self.table(ids) + x), x

    assert bireme.summary(Two(), [(2, 3), (2, 3, 4)], dtypes=["int64", "float32"])["total_params"] == 40 + 10 + 3
    one = bireme.ones([2, 4])
    assert bireme.summary(Nested(), input=[one, (one, one)])["total_params"] == 10
    assert bireme.summary(nn.LSTM(4, 5), (1, 3, 4))["total_params"] == 220
    assert "[[1, 3, 5], [[1, 1, 5], [1, 1, 5]]]" in capsys.readouterr().out


def test_shared_layers_count_once(capsys):
    assert bireme.summary(Shared(), (3, 4)) == {"total_params": 24, "trainable_params": 24}
    assert [row[-1] for row in rows(capsys.readouterr().out)] == ["20", "4"]
    frozen = nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 2))
    frozen[0].weight.stop_gradient = True
    assert bireme.summary(frozen, (1, 4)) == {"total_params": 16, "trainable_params": 8}


@pytest.mark.parametrize(
    "look", [lambda net: bireme.summary(net, (2, 1, 28, 28)), lambda net: bireme.flops(net, [2, 1, 28, 28])]
)
def test_the_network_stays_as_it_was(look, capsys):
    class Counting(nn.Layer):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", bireme.zeros([1]))
            self.register_buffer("sum", bireme.zeros([1]))
            self.net = LeNet()

        def forward(self, x):
            self.calls = self.calls + 1
            self.sum.add_(bireme.ones([1]))
            return self.net(x) + bireme.rand([1])

    net = Counting()
    net.net.fc.eval()
    modes = [layer.training for layer in net.sublayers(True)]
    keys = list(net.state_dict())
    state = bireme.get_rng_state()[0]
    attributes = [set(vars(layer)) for layer in net.sublayers(True)]
    look(net)
    assert [layer.training for layer in net.sublayers(True)] == modes and list(net.state_dict()) == keys
    assert net.calls.item() == net.sum.item() == 0 and (net.net.features[4]._mean.numpy() == 0).all()
    assert [set(vars(layer)) for layer in net.sublayers(True)] == attributes
    assert not any(layer._forward_post_hooks for layer in net.sublayers(True))
    assert np.array_equal(str(bireme.get_rng_state()[0]), str(state))


class Reading(nn.Layer):
    """A network that looks at a number on its way."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x):
        return self.linear(x) if x.sum().item() == 0 else x


def test_nothing_is_computed_unless_it_is_needed(capsys):
    net = LeNet()
    net.fc[0].weight.numpy()
    bireme.debug.reset_stats()
    bireme.summary(net, (64, 1, 28, 28))
    bireme.flops(net, [64, 1, 28, 28])
    assert (bireme.to_tensor([1.0]) + 1.0).item() == 2.0
    assert bireme.debug.stats()["interprets"] + bireme.debug.stats()["compiles"] <= 1
    assert bireme.summary(Reading(), (1, 4))["total_params"] == 10
    assert bireme.flops(Reading(), [1, 4]) == 8


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (None, r"summary\(input_size\): expected a shape"),
        ("a", "a shape, an InputSpec"),
        ((1, -3, 28, 28), "only for the batch"),
        ((0, 1, 28, 28), "positive sizes"),
        ((1.0, 4), "integers"),
        ((1, 3, 28, 28), "expected 1 channels"),
    ],
)
def test_wrong_shapes(size, message):
    with pytest.raises((ValueError, TypeError), match=message):
        bireme.summary(LeNet(), size)


# what Paddle 3.2.2 counts, each layer inside a network
FLOPS = [
    (lambda: nn.Conv2D(3, 4, 3), [1, 3, 8, 8], 4032),
    (lambda: nn.Conv2D(3, 4, 3, bias_attr=False), [1, 3, 8, 8], 3888),
    (lambda: nn.Conv2D(4, 4, 3, groups=2, stride=2, padding=1), [1, 4, 8, 8], 1216),
    (lambda: nn.Conv1D(3, 4, 3), [1, 3, 8], 240),
    (lambda: nn.Conv3D(3, 4, 3), [1, 3, 5, 5, 5], 8856),
    (lambda: nn.Conv2DTranspose(4, 6, 3, groups=2), [1, 4, 5, 5], 5586),
    (lambda: nn.Linear(4, 3), [2, 5, 4], 120),
    (lambda: nn.BatchNorm2D(3), [2, 3, 4, 4], 192),
    (lambda: nn.LeakyReLU(), [2, 3], 6),
    (lambda: nn.ReLU(), [2, 3], 0),
    (lambda: nn.AvgPool2D(2), [1, 3, 8, 8], 48),
    (lambda: nn.AdaptiveAvgPool2D((2, 3)), [1, 3, 7, 8], 126),
    (lambda: nn.AdaptiveAvgPool1D(2), [1, 3, 8], 30),
    (lambda: nn.GELU(), [2, 3], 0),
]


@pytest.mark.parametrize(("make", "size", "count"), FLOPS)
def test_flops_of_a_layer(make, size, count, capsys):
    assert bireme.flops(nn.Sequential(make()), size) == count
    assert bireme.flops(make(), size) == count, "the network may be a layer itself"


def test_flops_of_a_network(capsys):
    assert bireme.flops(LeNet(), [1, 1, 28, 28], print_detail=True) == 341440
    text = capsys.readouterr().out
    assert "Total Flops: 341440     Total Params: 51870" in text and "no rule for MaxPool2D" in text
    assert [line.split("|")[-2].strip() for line in text.splitlines() if line.startswith("|")][1:5] == [
        "47040",
        "0",
        "0",
        "241600",
    ]
    assert bireme.flops(Shared(), [1, 4]) == 48, "a layer that is called twice counts twice"


def test_rules_of_ones_own(capsys):
    def rule(layer, inputs, output):
        layer.total_ops += 100 * inputs[0].shape[0]

    def tensor_rule(layer, inputs, output):
        layer.total_ops += bireme.to_tensor([5]) * output.shape[0]

    assert (
        bireme.flops(LeNet(), [1, 1, 28, 28], custom_ops={nn.Linear: rule, nn.MaxPool2D: rule}) == 341440 - 49200 + 300
    )
    assert bireme.flops(nn.Sequential(nn.ReLU(), nn.ReLU()), [2, 3], custom_ops={nn.ReLU: tensor_rule}) == 20
    with pytest.raises(TypeError, match=r"flops\(custom_ops\)"):
        bireme.flops(LeNet(), [1, 1, 28, 28], custom_ops=3)
    with pytest.raises(TypeError, match=r"flops\(net\)"):
        bireme.flops(3, [1])
    assert dynamic_flops.register_hooks[nn.Linear] is dynamic_flops.count_linear


def test_a_frame_fits_its_widest_cell(capsys):
    table = static_flops.Table(["a", "bb"])
    table.add_row([1, "xxx"])
    table.print_table()
    assert capsys.readouterr().out == "+---+-----+\n| a | bb  |\n+---+-----+\n| 1 | xxx |\n+---+-----+\n"
    with pytest.raises(ValueError, match="expected 2 cells"):
        table.add_row([1])
