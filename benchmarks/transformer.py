"""The transformer that is trained in step, cold and lengths: once in Paddle's interface, once in jax, once in torch."""

import importlib
from dataclasses import dataclass

import numpy as np

from benchmarks.measure import cores

RATE, DECAY = 1e-3, 0.01


@dataclass(frozen=True)
class Sizes:
    layers: int = 4
    width: int = 256
    heads: int = 4
    vocabulary: int = 5000
    batch: int = 8
    sequence: int = 128


TINY = Sizes(layers=1, width=16, heads=2, vocabulary=50, batch=2, sequence=8)  # to try a script in seconds


def weights(sizes, seed=0):
    """Initial parameters by name, in order, as NumPy arrays: every peer starts from the same numbers."""
    rng, d, out = np.random.default_rng(seed), sizes.width, {}

    def normal(name, *shape):
        out[name] = (rng.standard_normal(shape) * 0.02).astype(np.float32)

    def norm(name):
        out[f"{name}.weight"], out[f"{name}.bias"] = np.ones(d, np.float32), np.zeros(d, np.float32)

    def linear(name, n, m):
        normal(f"{name}.weight", n, m)
        out[f"{name}.bias"] = np.zeros(m, np.float32)

    normal("token.weight", sizes.vocabulary, d)
    normal("position.weight", sizes.sequence, d)
    for i in range(sizes.layers):
        norm(f"blocks.{i}.norm1")
        linear(f"blocks.{i}.qkv", d, 3 * d)
        linear(f"blocks.{i}.project", d, d)
        norm(f"blocks.{i}.norm2")
        linear(f"blocks.{i}.grow", d, 4 * d)
        linear(f"blocks.{i}.shrink", 4 * d, d)
    norm("norm")
    normal("head.weight", d, sizes.vocabulary)
    return out


def batches(sizes, n=4, seed=1):
    """`n` pairs of token ids and labels."""
    rng = np.random.default_rng(seed)
    shape = (sizes.batch, sizes.sequence)
    return [(rng.integers(0, sizes.vocabulary, shape), rng.integers(0, sizes.vocabulary, shape)) for _ in range(n)]


def paddle_model(paddle, sizes, sdpa=False):
    """The model as a Paddle user writes it; `paddle` may be Bireme."""
    nn, F = paddle.nn, paddle.nn.functional
    d, heads = sizes.width, sizes.heads

    class Block(nn.Layer):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
            self.qkv, self.project = nn.Linear(d, 3 * d), nn.Linear(d, d)
            self.grow, self.shrink = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

        def attend(self, x):
            b, t = x.shape[0], x.shape[1]
            x = self.qkv(x).reshape([b, t, 3, heads, d // heads])
            if sdpa:
                q, k, v = paddle.unbind(x, axis=2)
                return self.project(F.scaled_dot_product_attention(q, k, v).reshape([b, t, d]))
            q, k, v = paddle.unbind(x.transpose([2, 0, 3, 1, 4]))
            a = F.softmax(paddle.matmul(q, k, transpose_y=True) * (d // heads) ** -0.5, axis=-1)
            return self.project(paddle.matmul(a, v).transpose([0, 2, 1, 3]).reshape([b, t, d]))

        def forward(self, x):
            x = x + self.attend(self.norm1(x))
            return x + self.shrink(F.gelu(self.grow(self.norm2(x)), approximate=True))

    class Model(nn.Layer):
        def __init__(self):
            super().__init__()
            self.token, self.position = nn.Embedding(sizes.vocabulary, d), nn.Embedding(sizes.sequence, d)
            self.blocks = nn.LayerList([Block() for _ in range(sizes.layers)])
            self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, sizes.vocabulary, bias_attr=False)

        def forward(self, ids):
            x = self.token(ids) + self.position.weight[: ids.shape[1]]
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    return Model()


def paddle_step(paddle, sizes, sdpa=False):
    """A function of (ids, labels) that trains one step; it gives the loss as a number, or unread with `read=False`."""
    F, model, start = paddle.nn.functional, paddle_model(paddle, sizes, sdpa), weights(sizes)
    for name, p in model.named_parameters():
        p.set_value(start[name])
    opt = paddle.optimizer.AdamW(RATE, parameters=model.parameters(), weight_decay=DECAY)

    def step(ids, labels, read=True):
        logits = model(paddle.to_tensor(ids))
        loss = F.cross_entropy(logits.reshape([-1, sizes.vocabulary]), paddle.to_tensor(labels).reshape([-1]))
        loss.backward()
        opt.step()
        opt.clear_grad()
        return float(loss) if read else loss

    return step


def jax_step(jax, sizes, flat=False):
    """Straight jax: the whole step as one jitted function whose state is donated.

    `flat` makes every product two-dimensional, which a user has to know about: on CPU the gradient of a product with
    two batch axes is slow.
    """
    jnp, heads, dim = jax.numpy, sizes.heads, sizes.width // sizes.heads

    def norm(x, p, name):
        mean = x.mean(-1, keepdims=True)
        var = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(var + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]

    def product(x, w):
        return (x.reshape(-1, len(w)) @ w).reshape(*x.shape[:-1], -1) if flat else x @ w

    def linear(x, p, name):
        return product(x, p[f"{name}.weight"]) + p[f"{name}.bias"]

    def loss_of(p, ids, labels):
        b, t = ids.shape
        x = p["token.weight"][ids] + p["position.weight"][:t]
        for i in range(sizes.layers):
            at = f"blocks.{i}"
            qkv = linear(norm(x, p, f"{at}.norm1"), p, f"{at}.qkv").reshape(b, t, 3, heads, dim)
            q, k, v = jnp.transpose(qkv, (2, 0, 3, 1, 4))
            a = jax.nn.softmax(q @ jnp.swapaxes(k, -1, -2) * dim**-0.5, -1)
            x = x + linear(jnp.swapaxes(a @ v, 1, 2).reshape(b, t, -1), p, f"{at}.project")
            x = x + linear(jax.nn.gelu(linear(norm(x, p, f"{at}.norm2"), p, f"{at}.grow")), p, f"{at}.shrink")
        logits = product(norm(x, p, "norm"), p["head.weight"])
        picked = jnp.take_along_axis(logits, labels[..., None], -1)[..., 0]
        return (jax.nn.logsumexp(logits, -1) - picked).mean()

    def train(p, m, v, t, ids, labels):
        loss, g = jax.value_and_grad(loss_of)(p, ids, labels)
        t = t + 1
        for k in p:
            m[k], v[k] = 0.9 * m[k] + 0.1 * g[k], 0.999 * v[k] + 0.001 * g[k] ** 2
            update = (m[k] / (1 - 0.9**t)) / (jnp.sqrt(v[k] / (1 - 0.999**t)) + 1e-8)
            p[k] = p[k] * (1 - RATE * DECAY) - RATE * update
        return p, m, v, t, loss

    train = jax.jit(train, donate_argnums=(0, 1, 2, 3))
    p = {k: jnp.array(w) for k, w in weights(sizes).items()}
    zeros = jax.tree.map(jnp.zeros_like, p)
    state = [p, zeros, jax.tree.map(jnp.copy, zeros), jnp.float32(0)]

    def step(ids, labels, read=True):
        *state[:], loss = train(*state, ids, labels)
        return float(loss) if read else loss

    return step


def torch_step(torch, sizes, sdpa=False, compiled=False):
    """Torch eager with its fused AdamW, or the forward through torch.compile."""
    F = torch.nn.functional
    torch.set_num_threads(cores())
    p = {k: torch.nn.Parameter(torch.tensor(w)) for k, w in weights(sizes).items()}
    opt = torch.optim.AdamW(p.values(), RATE, weight_decay=DECAY, fused=True)
    heads, d = sizes.heads, sizes.width

    def norm(x, name):
        return F.layer_norm(x, (d,), p[f"{name}.weight"], p[f"{name}.bias"])

    def linear(x, name):
        # addmm on a transposed view of [in, out] is what nn.Linear does with its [out, in] weight
        return F.linear(x, p[f"{name}.weight"].t(), p[f"{name}.bias"])

    def attend(q, k, v):
        if sdpa:
            return F.scaled_dot_product_attention(q, k, v)
        return torch.softmax(q @ k.transpose(-1, -2) * (d // heads) ** -0.5, -1) @ v

    def loss_of(ids, labels):
        b, t = ids.shape
        x = F.embedding(ids, p["token.weight"]) + p["position.weight"][:t]
        for i in range(sizes.layers):
            at = f"blocks.{i}"
            qkv = linear(norm(x, f"{at}.norm1"), f"{at}.qkv").view(b, t, 3, heads, d // heads)
            a = attend(*qkv.permute(2, 0, 3, 1, 4))
            x = x + linear(a.transpose(1, 2).reshape(b, t, d), f"{at}.project")
            x = x + linear(F.gelu(linear(norm(x, f"{at}.norm2"), f"{at}.grow"), approximate="tanh"), f"{at}.shrink")
        logits = norm(x, "norm") @ p["head.weight"]
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())

    if compiled:
        loss_of = torch.compile(loss_of)

    def step(ids, labels, read=True):
        loss = loss_of(torch.from_numpy(ids), torch.from_numpy(labels))
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss.item() if read else loss

    return step


MODULES = {"jax.jit": "jax", "jax.jit, flat": "jax", "torch.compile": "torch", "paddle, 1 thread": "paddle"}


def trainer(name, sizes, sdpa=False):
    """The step function of the peer called `name`. jax has no `sdpa`: its own attention is slower on CPU."""
    framework = importlib.import_module(MODULES.get(name, name))
    if framework.__name__ == "jax":
        return jax_step(framework, sizes, flat=name == "jax.jit, flat")
    if framework.__name__ == "torch":
        return torch_step(framework, sizes, sdpa, compiled=name == "torch.compile")
    return paddle_step(framework, sizes, sdpa)
