"""Vision models: the weights have the names and shapes that Paddle gives them, and the same weights give the same
results.
"""

import hashlib

import numpy as np
import pytest

import bireme
from bireme.vision import models

# told by paddlepaddle 3.2.2: how many entries a state dict has, and the first digits of the SHA-256 of its names and
# shapes
KEYS = {
    ("resnet18", ()): (102, "d9eeba85d85d3b88"),
    ("resnet34", ()): (182, "e36753fba14f4e15"),
    ("resnet50", ()): (267, "2b524fb9c6637bbe"),
    ("resnet101", ()): (522, "50a7f3e6476428dc"),
    ("resnet152", ()): (777, "8b5054720b984c32"),
    ("resnext50_32x4d", ()): (267, "660a5edfdffd0d0e"),
    ("resnext50_64x4d", ()): (267, "77ae0a52db3edfc8"),
    ("resnext101_32x4d", ()): (522, "36fe1b8faf3819e3"),
    ("resnext101_64x4d", ()): (522, "7acdb60d546c5f77"),
    ("resnext152_32x4d", ()): (777, "e995458f4a0df391"),
    ("resnext152_64x4d", ()): (777, "33563000d02a243e"),
    ("wide_resnet50_2", ()): (267, "54dfe95fa9ac4c9a"),
    ("wide_resnet101_2", ()): (522, "50a0f8767d4d6c18"),
    ("mobilenet_v1", ()): (137, "82058d490a08450a"),
    ("mobilenet_v2", ()): (262, "9cef74049eab9d68"),
    ("LeNet", ()): (10, "81ed593fa9259a90"),
    ("alexnet", ()): (16, "af4f2636d57296ec"),
    ("vgg11", ()): (22, "0c2946891bd45190"),
    ("vgg13", ()): (26, "ce2d7e0281e578a4"),
    ("vgg16", ()): (32, "0d5f82d0d1a006af"),
    ("vgg19", ()): (38, "4a2daa733dfc1a4e"),
    ("vgg16", (("batch_norm", True),)): (84, "c24d3b2d11871ea8"),
    ("mobilenet_v1", (("scale", 0.33),)): (137, "7bcb2f266fc3def0"),
    ("mobilenet_v2", (("scale", 0.35),)): (262, "346d23cacc87fd9b"),
    ("mobilenet_v2", (("scale", 1.4),)): (262, "8bd364e1a56e0f5a"),
    ("resnet50", (("groups", 2), ("num_classes", 0))): (265, "3a8a3c6f72ec2b11"),
}

# told by paddlepaddle 3.2.2, for the weights and images of `filled` and `image`: sum, sum of squares and the first
# two elements of the result
RESULTS = {
    ("resnet18", (("num_classes", 5),), (2, 3, 32, 32)): ([2, 5], [52.558, 3229.63, 30.8037, -24.3562]),
    ("resnext50_32x4d", (("num_classes", 5),), (1, 3, 32, 32)): ([1, 5], [-3607.67, 10754300.0, 1568.33, -1065.74]),
    ("resnet50", (("num_classes", 0), ("with_pool", False)), (1, 3, 32, 32)): (
        [1, 2048, 1, 1],
        [1189520.0, 1621260000.0, 0.0, 500.276],
    ),
    ("mobilenet_v1", (("scale", 0.25), ("num_classes", 5)), (2, 3, 32, 32)): (
        [2, 5],
        [1.21653, 2.39382, 0.64569, -0.289847],
    ),
    ("mobilenet_v2", (("scale", 0.35), ("num_classes", 5)), (2, 3, 32, 32)): (
        [2, 5],
        [0.0761074, 32.9667, 2.6528, 0.254079],
    ),
    ("LeNet", (), (2, 1, 28, 28)): ([2, 10], [-13.2349, 267.064, 5.62526, -1.65902]),
    ("alexnet", (("num_classes", 2),), (1, 3, 224, 224)): ([1, 2], [-0.481653, 4.94939, 1.31375, -1.7954]),
    ("vgg11", (("batch_norm", True), ("num_classes", 0)), (1, 3, 32, 32)): (
        [1, 512, 7, 7],
        [71031.5, 353521.0, 0.0, 0.0],
    ),
}


def digest(model):
    lines = [f"{name} {list(t.shape)}" for name, t in model.state_dict().items()]
    return len(lines), hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def made(name, options):
    return getattr(models, name)(**dict(options))


def filled(framework, model):
    """Weights by a formula, so that any framework has the same."""
    rng, held = np.random.default_rng(0), {}
    for name, t in model.state_dict().items():
        shape = tuple(t.shape)
        if len(shape) == 1:
            positive = name.endswith(("weight", "_variance"))
            value = rng.uniform(0.5, 1.5, shape) if positive else rng.standard_normal(shape) * 0.1
        else:
            value = rng.standard_normal(shape) * (2 / np.prod(shape[1:] if len(shape) == 4 else shape[:1])) ** 0.5
        held[name] = framework.to_tensor(value.astype(np.float32))
    model.set_state_dict(held)
    model.eval()
    return model


def image(shape):
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def figures(out):
    out = np.asarray(out, np.float64)
    return [out.sum(), (out * out).sum(), *out.ravel()[:2]]


@pytest.fixture
def zeros():
    """Weights start as zeros: drawing hundreds of millions of numbers takes seconds."""
    zero = bireme.nn.initializer.Constant(0.0)
    bireme.nn.initializer.set_global_initializer(zero, zero)
    yield
    bireme.nn.initializer.set_global_initializer(None)


@pytest.mark.parametrize(("name", "options"), KEYS)
@pytest.mark.usefixtures("zeros")
def test_state_dict_has_the_names_and_shapes_of_paddle(name, options):
    assert digest(made(name, options)) == KEYS[name, options]


@pytest.mark.parametrize(("name", "options", "shape"), RESULTS)
@pytest.mark.usefixtures("zeros")
def test_the_same_weights_give_the_results_of_paddle(name, options, shape):
    out = filled(bireme, made(name, options))(bireme.to_tensor(image(shape)))
    expected_shape, expected = RESULTS[name, options, shape]
    assert out.shape == expected_shape
    assert figures(out.numpy()) == pytest.approx(expected, rel=1e-4, abs=1e-4 * max(map(abs, expected[2:])))


def test_the_check_of_names_sees_a_difference():
    model = models.LeNet()
    model.features[0].bias = None
    assert digest(model) != KEYS["LeNet", ()]


def test_trained_weights_are_not_downloaded():
    for make in (models.resnet18, models.mobilenet_v1, models.mobilenet_v2, models.vgg11, models.alexnet):
        with pytest.raises(ValueError, match="downloaded") as caught:
            make(pretrained=True)
        assert make.__name__ in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: models.ResNet(models.resnet.BasicBlock, 19), "18, 34, 50, 101, 152"),
        (lambda: models.resnet.BasicBlock(4, 4, dilation=2), "dilation"),
        (lambda: models.resnet18(classes=3), "classes"),
    ],
)
def test_what_a_model_refuses(make, message):
    with pytest.raises((KeyError, NotImplementedError, TypeError), match=message):
        make()


def test_a_step_moves_every_weight_and_the_running_statistics():
    bireme.seed(0)
    model = models.mobilenet_v1(scale=0.125, num_classes=3)
    before = {name: t.numpy().copy() for name, t in model.state_dict().items()}
    optimizer = bireme.optimizer.Momentum(0.1, parameters=model.parameters())
    out = model(bireme.to_tensor(image((4, 3, 64, 64))))
    bireme.nn.functional.cross_entropy(out, bireme.to_tensor([0, 1, 2, 1])).backward()
    optimizer.step()
    assert [name for name, t in model.state_dict().items() if np.array_equal(t.numpy(), before[name])] == []
