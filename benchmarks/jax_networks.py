"""ResNet-18 and the LSTM of `training` by hand in jax: functions of (parameters, data, labels) that give the loss.

Weights have the names that they have in Paddle's interface, so that `models.value` gives every peer the same numbers.
"""

import numpy as np

from benchmarks import models

RATE, DECAY, MOMENTUM = 1e-3, 0.01, 0.9


def resnet18(jax, sizes):
    """Images come as [batch, channels, height, width] and are turned once: jax code has channels last."""
    jnp, lax = jax.numpy, jax.lax
    start = {}

    def conv_weight(name, out, channels, size):
        start[name] = models.value(name, (out, channels, size, size)).transpose(2, 3, 1, 0).copy()

    def norm_weights(name, channels):
        for kind in ("weight", "bias"):
            start[f"{name}.{kind}"] = models.value(f"{name}.{kind}", (channels,))

    blocks, channels = [], 64
    conv_weight("conv1.weight", 64, 3, 7)
    norm_weights("bn1", 64)
    for i, planes in enumerate((64, 128, 256, 512), 1):
        for j in range(2):
            at, stride = f"layer{i}.{j}", 2 if i > 1 and j == 0 else 1
            for k, a in ((1, channels), (2, planes)):
                conv_weight(f"{at}.conv{k}.weight", planes, a, 3)
                norm_weights(f"{at}.bn{k}", planes)
            if stride != 1 or channels != planes:
                conv_weight(f"{at}.downsample.0.weight", planes, channels, 1)
                norm_weights(f"{at}.downsample.1", planes)
            blocks.append((at, stride, stride != 1 or channels != planes))
            channels = planes
    for name, shape in (("fc.weight", (512, sizes.classes)), ("fc.bias", (sizes.classes,))):
        start[name] = models.value(name, shape)

    def conv(x, p, name, stride=1):
        pad = p[f"{name}.weight"].shape[0] // 2
        numbers = ("NHWC", "HWIO", "NHWC")
        edges = [(pad, pad), (pad, pad)]
        return lax.conv_general_dilated(x, p[f"{name}.weight"], (stride, stride), edges, dimension_numbers=numbers)

    def norm(x, p, name):
        mean = x.mean((0, 1, 2))
        var = ((x - mean) ** 2).mean((0, 1, 2))
        return (x - mean) * lax.rsqrt(var + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"], mean, var

    def loss_of(p, statistics, x, labels):
        new = {}

        def normed(y, name):
            y, mean, var = norm(y, p, name)
            old = statistics[name]
            new[name] = (0.9 * old[0] + 0.1 * mean, 0.9 * old[1] + 0.1 * var)
            return y

        x = jax.nn.relu(normed(conv(jnp.transpose(x, (0, 2, 3, 1)), p, "conv1", 2), "bn1"))
        edges = [(0, 0), (1, 1), (1, 1), (0, 0)]
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), edges)
        for at, stride, turned in blocks:
            y = jax.nn.relu(normed(conv(x, p, f"{at}.conv1", stride), f"{at}.bn1"))
            y = normed(conv(y, p, f"{at}.conv2"), f"{at}.bn2")
            if turned:
                x = normed(conv(x, p, f"{at}.downsample.0", stride), f"{at}.downsample.1")
            x = jax.nn.relu(x + y)
        logits = x.mean((1, 2)) @ p["fc.weight"] + p["fc.bias"]
        return _cross_entropy(jax, logits, labels), new

    names = [n.removesuffix(".bias") for n in start if n.endswith(".bias") and n != "fc.bias"]
    statistics = {n: (np.zeros_like(start[f"{n}.bias"]), np.ones_like(start[f"{n}.bias"])) for n in names}
    return start, statistics, loss_of


def lstm(jax, sizes):
    """Tokens, layers of an LSTM, each a scan over the steps, and the next token of each."""
    jnp, width = jax.numpy, sizes.width
    shapes = {"token.weight": (sizes.vocabulary, width)}
    for i in range(sizes.layers):
        for kind in ("ih", "hh"):
            at = f"lstm.{i}.cell"
            shapes |= {f"{at}.weight_{kind}": (4 * width, width), f"{at}.bias_{kind}": (4 * width,)}
    shapes |= {"head.weight": (width, sizes.vocabulary), "head.bias": (sizes.vocabulary,)}
    start = {name: models.value(name, shape) for name, shape in shapes.items()}

    def loss_of(p, statistics, ids, labels):
        x = jnp.swapaxes(p["token.weight"][ids], 0, 1)
        for i in range(sizes.layers):
            # what does not depend on the step before is one product for all steps
            at = f"lstm.{i}.cell"
            gates = x @ p[f"{at}.weight_ih"].T + p[f"{at}.bias_ih"] + p[f"{at}.bias_hh"]
            turned = p[f"{at}.weight_hh"].T

            def cell(state, now, turned=turned):
                h, c = state
                i, f, g, o = jnp.split(now + h @ turned, 4, -1)
                c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
                h = jax.nn.sigmoid(o) * jnp.tanh(c)
                return (h, c), h

            zeros = jnp.zeros((x.shape[1], width))
            _, x = jax.lax.scan(cell, (zeros, zeros), gates)
        logits = jnp.swapaxes(x, 0, 1) @ p["head.weight"] + p["head.bias"]
        return _cross_entropy(jax, logits.reshape(-1, sizes.vocabulary), labels.reshape(-1)), statistics

    return start, {}, loss_of


def _cross_entropy(jax, logits, labels):
    picked = jax.numpy.take_along_axis(logits, labels[:, None], -1)[:, 0]
    return (jax.nn.logsumexp(logits, -1) - picked).mean()


def step(jax, network, sizes):
    """The whole training step as one jitted function whose state is donated."""
    jnp = jax.numpy
    start, statistics, loss_of = network(jax, sizes)

    def momentum(p, state, g):
        velocity = {k: MOMENTUM * state[0][k] + g[k] for k in p}
        return {k: p[k] - RATE * velocity[k] for k in p}, (velocity,)

    def adamw(p, state, g):
        m, v, t = state
        t = t + 1
        m = {k: 0.9 * m[k] + 0.1 * g[k] for k in p}
        v = {k: 0.999 * v[k] + 0.001 * g[k] ** 2 for k in p}
        new = {}
        for k in p:
            update = (m[k] / (1 - 0.9**t)) / (jnp.sqrt(v[k] / (1 - 0.999**t)) + 1e-8)
            new[k] = p[k] * (1 - RATE * DECAY) - RATE * update
        return new, (m, v, t)

    update = momentum if network is resnet18 else adamw

    def train(p, statistics, state, x, labels):
        (loss, statistics), g = jax.value_and_grad(loss_of, has_aux=True)(p, statistics, x, labels)
        p, state = update(p, state, g)
        return p, statistics, state, loss

    train = jax.jit(train, donate_argnums=(0, 1, 2))

    def zeros():
        return {k: jnp.zeros(w.shape) for k, w in start.items()}

    state = (zeros(),) if network is resnet18 else (zeros(), zeros(), jnp.float32(0))
    held = [jax.tree.map(jnp.array, start), jax.tree.map(jnp.array, statistics), state]

    def run(x, labels):
        *held[:], loss = train(*held, x, labels)
        return float(loss)

    return run
