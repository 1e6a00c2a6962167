"""Networks that jobs trains, written in Paddle's interface: `paddle` is Paddle or Bireme, the code is the same.

Each is a function of the framework, a `Source` of numbers and its sizes. It gives its layers, and `step(i)`, which does
one training step and reads the loss. The sizes stand here, in one table.
"""

import zlib

import numpy as np

from benchmarks.networks import decisions, generative, images, science, text

NETWORKS = {
    "mlp": images.mlp,
    "cnn": images.cnn,
    "resnet18": images.resnet18,
    "mobilenet_v2": images.mobilenet_v2,
    "shufflenet_v2": images.shufflenet_v2,
    "vit": images.vit,
    "lstm": text.lstm,
    "bigru_crf": text.bigru_crf,
    "seq2seq": text.seq2seq,
    "experts": text.experts,
    "vae": generative.vae,
    "wgan_gp": generative.wgan_gp,
    "diffusion": generative.diffusion,
    "dqn": decisions.dqn,
    "policy_gradient": decisions.policy_gradient,
    "graph": science.graph,
    "pinn": science.pinn,
}
# a step of Paddle's takes 10 to 50 ms with two threads, that of ResNet-18 about twice as long
SIZES = {
    "mlp": {"batch": 256, "width": 512},
    "cnn": {"batch": 16, "size": 32, "width": 32},
    "resnet18": {"batch": 2, "size": 64},
    "mobilenet_v2": {"batch": 2, "size": 64, "scale": 0.5},
    "shufflenet_v2": {"batch": 4, "size": 64, "widths": (24, 48, 96)},
    "vit": {"batch": 8, "size": 32, "patch": 4, "width": 64, "layers": 3},
    "lstm": {"batch": 32, "length": 32, "width": 128},
    "bigru_crf": {"batch": 16, "length": 24, "width": 64},
    "seq2seq": {"batch": 16, "length": 12, "width": 64},
    "experts": {"tokens": 512, "width": 128, "count": 6},
    "vae": {"batch": 128, "width": 400, "latent": 20},
    "wgan_gp": {"batch": 128, "width": 384, "latent": 32},
    "diffusion": {"batch": 8, "size": 16, "width": 16},
    "dqn": {"batch": 256, "width": 384},
    "policy_gradient": {"limit": 40, "width": 64},
    "graph": {"graphs": 32, "nodes": 30, "width": 64},
    "pinn": {"points": 512, "width": 64, "layers": 4},
}
TINY = {
    "mlp": {"batch": 4, "width": 8},
    "cnn": {"batch": 2, "size": 8, "width": 4},
    "resnet18": {"batch": 2, "size": 64},
    "mobilenet_v2": {"batch": 2, "size": 64, "scale": 0.25},
    "shufflenet_v2": {"batch": 2, "size": 32, "widths": (8, 16, 32)},
    "vit": {"batch": 2, "size": 8, "patch": 4, "width": 8, "layers": 1},
    "lstm": {"batch": 2, "length": 4, "width": 8},
    "bigru_crf": {"batch": 2, "length": 4, "width": 8},
    "seq2seq": {"batch": 2, "length": 3, "width": 8},
    "experts": {"tokens": 12, "width": 8, "count": 3},
    "vae": {"batch": 4, "width": 8, "latent": 2},
    "wgan_gp": {"batch": 4, "width": 8, "latent": 2},
    "diffusion": {"batch": 2, "size": 8, "width": 8},
    "dqn": {"batch": 8, "width": 8},
    "policy_gradient": {"limit": 6, "width": 8},
    "graph": {"graphs": 3, "nodes": 6, "width": 8},
    "pinn": {"points": 8, "width": 8, "layers": 2},
}


class Source:
    """Where a job's numbers come from: its data from a seeded generator, its noise from the framework.

    Where losses are compared (`same`), the noise comes from the generator as well.
    """

    def __init__(self, paddle, same=False):
        self._paddle, self._same, self.rng = paddle, same, np.random.default_rng(0)

    def normal(self, shape):
        if self._same:
            return self._paddle.to_tensor(self.rng.standard_normal(shape, np.float32))
        return self._paddle.randn(shape)

    def uniform(self, shape):
        if self._same:
            return self._paddle.to_tensor(self.rng.random(shape, np.float32))
        return self._paddle.rand(shape)


def build(paddle, name, tiny=False):
    """A network as it is trained from scratch, with initial weights and noise of the framework's own: `step(i)`."""
    _, step = NETWORKS[name](paddle, Source(paddle), **(TINY if tiny else SIZES)[name])
    return step


def same(paddle, name, tiny=False):
    """The same network with weights and noise that do not depend on the framework, so that losses can be compared."""
    layers, step = NETWORKS[name](paddle, Source(paddle, same=True), **(TINY if tiny else SIZES)[name])
    for layer in layers:
        for key, p in layer.state_dict().items():
            p.set_value(_value(key, tuple(p.shape)))
        for inner in layer.sublayers(include_self=True):
            if isinstance(inner, paddle.nn.Dropout):
                inner.p = 0.0
            if isinstance(inner, paddle.nn.Embedding):  # no product: its numbers are not scaled by their count
                inner.weight.set_value(np.random.default_rng(1).standard_normal(inner.weight.shape, np.float32))
    return step


def _value(name, shape):
    """Initial numbers of a weight, from its name; large enough that the first loss depends on every layer."""
    if len(shape) == 1:
        return np.full(shape, name.endswith(("weight", "_variance")), np.float32)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    inputs = np.prod(shape[1:]) if len(shape) == 4 else shape[0]
    return (rng.standard_normal(shape, np.float32) / np.sqrt(inputs)).astype(np.float32)
