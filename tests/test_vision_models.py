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
    ("densenet121", ()): (606, "b97158afa64073b4"),
    ("densenet161", ()): (806, "08be8a16910b0eeb"),
    ("densenet169", ()): (846, "9513ee3c7a9ed837"),
    ("densenet201", ()): (1006, "242923338c0774bc"),
    ("densenet264", ()): (1326, "698836184a79ef30"),
    ("densenet121", (("bn_size", 2), ("dropout", 0.3), ("num_classes", 0))): (604, "ec1f1e19d08c0aa8"),
    ("googlenet", ()): (69, "fe6c72f4be3d5c6a"),
    ("googlenet", (("num_classes", 0),)): (57, "d2dad7215e712720"),
    ("inception_v3", ()): (472, "e11eef430e5028cb"),
    ("mobilenet_v3_large", ()): (266, "5d8051a50e86b048"),
    ("mobilenet_v3_large", (("scale", 1.3),)): (266, "3e79031e9d0d6137"),
    ("mobilenet_v3_small", ()): (210, "e56763de98259af0"),
    ("mobilenet_v3_small", (("scale", 0.35),)): (210, "87105524e210cc03"),
    ("shufflenet_v2_swish", ()): (282, "159703e8ca4ad05e"),
    ("shufflenet_v2_x0_25", ()): (282, "4dd0f34a50b4eeb8"),
    ("shufflenet_v2_x0_33", ()): (282, "f9f0453c4d59a95b"),
    ("shufflenet_v2_x0_5", ()): (282, "fb67a9878e7a41f2"),
    ("shufflenet_v2_x1_0", ()): (282, "159703e8ca4ad05e"),
    ("shufflenet_v2_x1_5", ()): (282, "ca3f6fe90609ea62"),
    ("shufflenet_v2_x2_0", ()): (282, "37d96542ecd13f0f"),
    ("squeezenet1_0", ()): (52, "d8818f7eac63106e"),
    ("squeezenet1_1", ()): (52, "f0c77983ff6d373c"),
}

# told by paddlepaddle 3.2.2, for the weights and images of `filled` and `image`: sum, sum of squares and the first
# two elements of the result, or of each of the results
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
    ("densenet121", (("bn_size", 1), ("num_classes", 5)), (1, 3, 32, 32)): (
        [1, 5],
        [5.36612, 13.7028, 1.84027, 0.814836],
    ),
    ("googlenet", (("num_classes", 5),), (1, 3, 189, 189)): [
        ([1, 5], [-70.0554, 4284.44, -22.9377, -7.11133]),
        ([1, 5], [-1.67822, 137.925, 5.38057, -6.98691]),
        ([1, 5], [-49.5717, 1651.84, -25.918, 5.87643]),
    ],
    ("googlenet", (("num_classes", 0), ("with_pool", False)), (1, 3, 61, 61)): [
        ([1, 1024, 1, 1], [8618.22, 273223.0, 2.86931, 27.8417]),
        ([1, 512, 3, 3], [28860.2, 564324.0, 0.0, 0.0]),
        ([1, 528, 3, 3], [37219.1, 988647.0, 7.45834, 0.0]),
    ],
    ("inception_v3", (("num_classes", 5),), (1, 3, 75, 75)): ([1, 5], [3.95942, 5.07074, 1.95246, 0.144932]),
    ("mobilenet_v3_small", (("scale", 0.35), ("num_classes", 5)), (2, 3, 32, 32)): (
        [2, 5],
        [0.476654, 0.493017, -0.099061, 0.171017],
    ),
    ("mobilenet_v3_large", (("scale", 0.35), ("num_classes", 0), ("with_pool", False)), (2, 3, 32, 32)): (
        [2, 336, 1, 1],
        [2127.44, 27577.2, 0.0, 0.0],
    ),
    ("shufflenet_v2_x0_25", (("num_classes", 5),), (2, 3, 32, 32)): ([2, 5], [-29.4752, 1133.05, -21.3752, -15.3734]),
    ("shufflenet_v2_swish", (("num_classes", 5),), (1, 3, 32, 32)): ([1, 5], [-36.1907, 2166.19, -4.27095, 19.2259]),
    ("squeezenet1_0", (("num_classes", 5),), (2, 3, 48, 48)): ([2, 5], [3.52257, 2.78584, 0.0, 0.255031]),
    ("squeezenet1_1", (("num_classes", 5), ("with_pool", False)), (2, 3, 48, 48)): (
        [2, 5, 2, 2],
        [-20.1219, 33.1786, -1.30801, -1.53355],
    ),
    ("squeezenet1_1", (("num_classes", 0),), (2, 3, 48, 48)): ([2, 512], [840.376, 1781.84, 0.0, 0.0]),
}

# told by paddlepaddle 3.2.2 in float64, in training without dropout: the figures of the result, then of all gradients
# of the sum of its squares the sum of squares and the sum, and the sum of the absolute running means
STEPS = {
    ("densenet121", (("bn_size", 1), ("num_classes", 5)), (2, 3, 64, 64)): (
        [4.38171, 5.29352, 0.638191, 0.822928],
        [462777.0, 5951.17, 3031.45],
    ),
    ("mobilenet_v3_small", (("scale", 0.35), ("num_classes", 5)), (2, 3, 64, 64)): (
        [1.13221, 1.72145, 0.0258083, 0.40294],
        [3807.88, 198.576, 166.292],
    ),
    ("shufflenet_v2_x0_25", (("num_classes", 5),), (2, 3, 64, 64)): (
        [-1.17152, 3.71344, -0.708255, 0.212455],
        [2846740.0, -1163.1, 160.701],
    ),
    ("squeezenet1_1", (("num_classes", 5),), (2, 3, 48, 48)): (
        [2.87473, 2.85108, 0.0, 1.25065],
        [69539.3, 5522.76, 0.0],
    ),
    ("mobilenet_v2", (("scale", 0.35), ("num_classes", 5)), (2, 3, 64, 64)): (
        [-0.562594, 10.3314, 2.08969, -0.263672],
        [4044900.0, -1861.28, 540.986],
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
    told = RESULTS[name, options, shape]
    for got, (expected_shape, expected) in zip(out, told, strict=True) if isinstance(out, tuple) else [(out, told)]:
        assert got.shape == expected_shape
        assert figures(got.numpy()) == pytest.approx(expected, rel=1e-4, abs=1e-4 * max(map(abs, expected[2:])))


@pytest.mark.parametrize(("name", "options", "shape"), STEPS)
@pytest.mark.usefixtures("zeros")
def test_the_same_weights_give_the_gradients_of_paddle(name, options, shape):
    # in float64: ReLU and pooling make the gradients of float32 depend on the last digits of what they read
    model = filled(bireme, made(name, options)).to(dtype="float64")
    model.train()
    for layer in model.sublayers():
        if isinstance(layer, bireme.nn.Dropout):
            layer.p = 0.0
    out = model(bireme.to_tensor(image(shape).astype(np.float64)))
    (out * out).sum().backward()
    gradients = [p.grad.numpy() for p in model.parameters() if not p.stop_gradient]
    means = [t.numpy() for name, t in model.state_dict().items() if name.endswith("_mean")]
    sums = [sum((g * g).sum() for g in gradients), sum(g.sum() for g in gradients), sum(abs(m).sum() for m in means)]
    expected, expected_sums = STEPS[name, options, shape]
    assert figures(out.numpy()) == pytest.approx(expected, rel=1e-5)
    assert sums == pytest.approx(expected_sums, rel=1e-5)


def test_the_check_of_names_sees_a_difference():
    model = models.LeNet()
    model.features[0].bias = None
    assert digest(model) != KEYS["LeNet", ()]


def test_trained_weights_are_not_downloaded():
    makers = [getattr(models, name) for name in models.__all__ if name.islower()]
    assert len(makers) == 38
    for make in makers:
        with pytest.raises(ValueError, match="downloaded") as caught:
            make(pretrained=True)
        assert f"{make.__name__}(pretrained)" in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: models.ResNet(models.resnet.BasicBlock, 19), "18, 34, 50, 101, 152"),
        (lambda: models.resnet.BasicBlock(4, 4, dilation=2), "dilation"),
        (lambda: models.resnet18(classes=3), "classes"),
        (lambda: models.DenseNet(100), r"DenseNet\(layers\): expected one of 121, 161, 169, 201, 264, got 100"),
        (lambda: models.DenseNet(dropout="a"), r"DenseNet\(dropout\): expected a number"),
        (lambda: models.densenet121(layers=121), r"DenseNet\(layers\): expected one value, got two"),
        (lambda: models.SqueezeNet("1.2"), r"SqueezeNet\(version\): expected '1.0' or '1.1', got '1.2'"),
        (lambda: models.SqueezeNet(1.0), r"SqueezeNet\(version\): expected '1.0' or '1.1', got 1.0"),
        (lambda: models.ShuffleNetV2(0.7), r"ShuffleNetV2\(scale\): expected one of 0.25, .*, got 0.7"),
        (lambda: models.ShuffleNetV2(act="gelu"), r"ShuffleNetV2\(act\): expected 'relu', 'swish' or None, got 'gelu'"),
        (lambda: models.mobilenet_v3_small(scale="a"), r"MobileNetV3Small\(scale\): expected a number"),
        (lambda: models.mobilenet_v3_large(num_classes="a"), r"MobileNetV3Large\(num_classes\): expected an integer"),
        (lambda: models.googlenet(foo=1), r"GoogLeNet\(foo\): expected a keyword"),
        (lambda: models.inception_v3(num_classes=1.5), r"InceptionV3\(num_classes\): expected an integer"),
    ],
)
def test_what_a_model_refuses(make, message):
    with pytest.raises((AssertionError, KeyError, RuntimeError, TypeError), match=message):
        make()


def test_a_kernel_of_two_sizes_is_padded_along_each_axis():
    layer = bireme.vision.ops.ConvNormActivation(1, 1, (1, 5))
    assert layer(bireme.ones([1, 1, 3, 7])).shape == [1, 1, 3, 7]


@pytest.mark.parametrize(
    ("name", "bound"),
    [
        # told by paddlepaddle 3.2.2, whose other weights start as those of any Conv2D or Linear
        (("DenseNet", "out.weight"), 1024**-0.5),
        (("GoogLeNet", "_fc_out.weight"), (3 / 1024) ** 0.5),
        (("GoogLeNet", "_fc_o1.weight"), (3 / 2048) ** 0.5),
        (("GoogLeNet", "_out2.weight"), (3 / 1024) ** 0.5),
        (("InceptionV3", "fc.weight"), 2048**-0.5),
    ],
)
def test_the_bounds_that_classifiers_start_within(name, bound):
    bireme.seed(0)
    weight = getattr(models, name[0])(num_classes=100).state_dict()[name[1]].numpy()
    assert 0.999 * bound < abs(weight).max() <= bound * (1 + 1e-6)


def test_a_step_moves_every_weight_and_the_running_statistics():
    bireme.seed(0)
    model = models.mobilenet_v1(scale=0.125, num_classes=3)
    before = {name: t.numpy().copy() for name, t in model.state_dict().items()}
    optimizer = bireme.optimizer.Momentum(0.1, parameters=model.parameters())
    out = model(bireme.to_tensor(image((4, 3, 64, 64))))
    bireme.nn.functional.cross_entropy(out, bireme.to_tensor([0, 1, 2, 1])).backward()
    optimizer.step()
    assert [name for name, t in model.state_dict().items() if np.array_equal(t.numpy(), before[name])] == []
