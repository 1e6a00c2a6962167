"""GPT-2 small on one GPU: a training step as plain dynamic code beside jax.jit with the same lowerings and torch eager.

12 layers, width 768, 12 heads, vocabulary 50,304, batch 16 x 1,024 tokens, AdamW; parameters, norms, residual stream
and loss in float32, products and attention in bfloat16. Every peer starts from the same weights.
Floors: at most 1.05 times jax.jit, at least 1.35 times as fast as torch eager, where the loss is read after each
block of steps; the time with the loss read in every step is a column of its own.
"""

import argparse
import importlib
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import Floors, apart, cell, head, median, ratio, spread, table
from benchmarks.peers import Peers
from benchmarks.transformer import Sizes, batches, weights

SMALL = Sizes(layers=12, width=768, heads=12, vocabulary=50304, batch=16, sequence=1024)
TINY = Sizes(layers=2, width=64, heads=2, vocabulary=512, batch=2, sequence=64)
RATE, DECAY = 3e-4, 0.01
NAMES = {
    "bireme": "bireme dynamic",
    "jax.jit": "jax.jit, same lowerings",
    "torch": "torch eager, autocast, fused AdamW",
}
FIRST = 4
SETTLE = 3  # steps of a kind before the clock starts: without reading the loss, then reading it
TOLERANCE = 2e-3  # of the loss: bfloat16 products rounded in another order


def start_weights(sizes):
    """The weights of transformer.py, less the head: GPT-2's is the token embedding."""
    return {name: w for name, w in weights(sizes).items() if name != "head.weight"}


def paddle_step(paddle, sizes, dtype):
    """The model as a Paddle user writes it, each cast in sight; `paddle` may be Bireme."""
    nn, F, d, heads = paddle.nn, paddle.nn.functional, sizes.width, sizes.heads

    class Linear(nn.Linear):
        def forward(self, x):
            return F.linear(x.astype(dtype), self.weight.astype(dtype), self.bias.astype(dtype))

    class Block(nn.Layer):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
            self.qkv, self.project = Linear(d, 3 * d), Linear(d, d)
            self.grow, self.shrink = Linear(d, 4 * d), Linear(4 * d, d)

        def forward(self, x):
            b, t = x.shape[0], x.shape[1]
            q, k, v = paddle.unbind(self.qkv(self.norm1(x)).reshape([b, t, 3, heads, d // heads]), axis=2)
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.project(a.reshape([b, t, d])).astype("float32")
            h = F.gelu(self.grow(self.norm2(x)), approximate=True)
            return x + self.shrink(h).astype("float32")

    class Model(nn.Layer):
        def __init__(self):
            super().__init__()
            self.token, self.position = nn.Embedding(sizes.vocabulary, d), nn.Embedding(sizes.sequence, d)
            self.blocks = nn.LayerList([Block() for _ in range(sizes.layers)])
            self.norm = nn.LayerNorm(d)

        def forward(self, ids):
            x = self.token(ids) + self.position.weight[: ids.shape[1]]
            for block in self.blocks:
                x = block(x)
            return paddle.matmul(self.norm(x).astype(dtype), self.token.weight.astype(dtype), transpose_y=True)

    model, start = Model(), start_weights(sizes)
    for name, p in model.named_parameters():
        p.set_value(start[name])
    opt = paddle.optimizer.AdamW(RATE, parameters=model.parameters(), weight_decay=DECAY)

    def step(ids, labels):
        logits = model(paddle.to_tensor(ids)).reshape([-1, sizes.vocabulary])
        loss = F.cross_entropy(logits.astype("float32"), paddle.to_tensor(labels).reshape([-1]))
        loss.backward()
        opt.step()
        opt.clear_grad()
        return loss

    return step


def jax_cross_entropy(jax):
    """Mean cross-entropy with its own gradient: it keeps the logits and one number a row, and scatters nothing."""
    jnp = jax.numpy

    @jax.custom_vjp
    def cross_entropy(logits, labels):
        return forward(logits, labels)[0]

    def forward(logits, labels):
        total = jax.nn.logsumexp(logits.astype(jnp.float32), -1)
        picked = jnp.take_along_axis(logits, labels[:, None], -1)[:, 0].astype(jnp.float32)
        return (total - picked).mean(), (logits, total, labels)

    def backward(kept, g):
        logits, total, labels = kept
        share = jnp.exp(logits.astype(jnp.float32) - total[:, None])
        hot = jax.lax.broadcasted_iota(labels.dtype, logits.shape, 1) == labels[:, None]
        return ((share - hot) * (g / len(labels))).astype(logits.dtype), None

    cross_entropy.defvjp(forward, backward)
    return cross_entropy


def jax_step(jax, sizes, dtype):
    """Raw jax with what is fast on a GPU: cuDNN's attention, one-pass layer norm, an own cross-entropy gradient."""
    jnp, heads, dim = jax.numpy, sizes.heads, sizes.width // sizes.heads
    attention = "cudnn" if jax.default_backend() == "gpu" and dtype == "bfloat16" else "xla"
    cross_entropy = jax_cross_entropy(jax)

    def norm(x, p, name):
        mean, square = x.mean(-1, keepdims=True), (x * x).mean(-1, keepdims=True)  # both in one pass over x
        return (x - mean) * jax.lax.rsqrt(square - mean * mean + 1e-5) * p[f"{name}.weight"] + p[f"{name}.bias"]

    def linear(x, p, name):
        return x.astype(dtype) @ p[f"{name}.weight"].astype(dtype) + p[f"{name}.bias"].astype(dtype)

    def loss_of(p, ids, labels):
        b, t = ids.shape
        x = p["token.weight"][ids] + p["position.weight"][:t]
        for i in range(sizes.layers):
            at = f"blocks.{i}"
            qkv = linear(norm(x, p, f"{at}.norm1"), p, f"{at}.qkv").reshape(b, t, 3, heads, dim)
            q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
            a = jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation=attention)
            x = x + linear(a.reshape(b, t, -1), p, f"{at}.project").astype(jnp.float32)
            h = jax.nn.gelu(linear(norm(x, p, f"{at}.norm2"), p, f"{at}.grow"))
            x = x + linear(h, p, f"{at}.shrink").astype(jnp.float32)
        logits = norm(x, p, "norm").astype(dtype) @ p["token.weight"].astype(dtype).T
        return cross_entropy(logits.reshape(b * t, -1), labels.reshape(-1))

    def train(p, m, v, t, ids, labels):
        loss, g = jax.value_and_grad(loss_of)(p, ids, labels)
        t = t + 1
        for k in p:
            m[k], v[k] = 0.9 * m[k] + 0.1 * g[k], 0.999 * v[k] + 0.001 * g[k] ** 2
            update = (m[k] / (1 - 0.9**t)) / (jnp.sqrt(v[k] / (1 - 0.999**t)) + 1e-8)
            p[k] = p[k] * (1 - RATE * DECAY) - RATE * update
        return p, m, v, t, loss

    train = jax.jit(train, donate_argnums=(0, 1, 2, 3))
    p = {k: jnp.array(w) for k, w in start_weights(sizes).items()}
    zeros = jax.tree.map(jnp.zeros_like, p)
    state = [p, zeros, jax.tree.map(jnp.copy, zeros), jnp.float32(0)]

    def step(ids, labels):
        *state[:], loss = train(*state, ids, labels)
        return loss

    return step


def torch_step(torch, sizes, dtype):
    """Torch eager: autocast, flash attention through sdpa, fused AdamW."""
    F, d, heads = torch.nn.functional, sizes.width, sizes.heads
    device = "cuda" if torch.cuda.is_available() else "cpu"
    p = {k: torch.nn.Parameter(torch.tensor(w, device=device)) for k, w in start_weights(sizes).items()}
    opt = torch.optim.AdamW(p.values(), RATE, weight_decay=DECAY, fused=True)
    half = torch.autocast(device, torch.bfloat16, enabled=dtype == "bfloat16")

    def norm(x, name):
        return F.layer_norm(x, (d,), p[f"{name}.weight"], p[f"{name}.bias"])

    def linear(x, name):
        return F.linear(x, p[f"{name}.weight"].t(), p[f"{name}.bias"])

    def loss_of(ids, labels):
        b, t = ids.shape
        x = F.embedding(ids, p["token.weight"]) + p["position.weight"][:t]
        for i in range(sizes.layers):
            at = f"blocks.{i}"
            qkv = linear(norm(x, f"{at}.norm1"), f"{at}.qkv").view(b, t, 3, heads, d // heads)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + linear(a.transpose(1, 2).reshape(b, t, d), f"{at}.project")
            x = x + linear(F.gelu(linear(norm(x, f"{at}.norm2"), f"{at}.grow"), approximate="tanh"), f"{at}.shrink")
        logits = F.linear(norm(x, "norm"), p["token.weight"])
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())

    def step(ids, labels):
        with half:
            loss = loss_of(torch.from_numpy(ids).to(device), torch.from_numpy(labels).to(device))
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss.detach()

    return step


def peak_gib(name):
    """Most memory of the device that the peer ever held, in GiB; None where the device does not count it."""
    if name == "torch":
        torch = importlib.import_module("torch")
        return torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else None
    stats = importlib.import_module("jax").devices()[0].memory_stats()
    return stats["peak_bytes_in_use"] / 2**30 if stats and "peak_bytes_in_use" in stats else None


def make(name, sizes, dtype):
    """In the peer's process: answers 'losses' with the first step's seconds, 'time', and 'peak'."""
    framework = importlib.import_module({"jax.jit": "jax"}.get(name, name))
    step = {"jax.jit": jax_step, "torch": torch_step}.get(name, paddle_step)(framework, sizes, dtype)
    data, count = batches(sizes), 0

    def run():
        nonlocal count
        count += 1
        return step(*data[(count - 1) % len(data)])

    def answer(what, n=1):
        if what == "peak":
            return peak_gib(name) or 0.0
        if what == "losses":
            times, losses = [], []
            for _ in range(n):
                start = time.perf_counter()
                losses.append(float(run()))
                times.append(time.perf_counter() - start)
            return times, losses
        float([run() for _ in range(SETTLE)][-1])
        start = time.perf_counter()
        for _ in range(n):
            loss = run()
        float(loss)  # the clock stops when the last step's result is there
        together = (time.perf_counter() - start) / n * 1e3
        for _ in range(SETTLE):
            float(run())
        start = time.perf_counter()
        for _ in range(n):
            last = float(run())
        return together, (time.perf_counter() - start) / n * 1e3, last

    return answer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, to try the script without a GPU")
    parser.add_argument("--rounds", type=int, default=10, help="turns of each peer (default 10)")
    parser.add_argument("--steps", type=int, default=50, help="steps in each turn that are timed together (default 50)")
    parser.add_argument("--warm", type=int, default=10, help="steps before the clock (default 10)")
    parser.add_argument("--batch", type=int, help="another batch size")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16", help="of the products")
    parser.add_argument("--peers", nargs="+", choices=NAMES, default=list(NAMES), help="which peers (default all)")
    options = parser.parse_args()
    sizes, floors = TINY if options.tiny else SMALL, Floors()
    if options.batch:
        sizes = Sizes(sizes.layers, sizes.width, sizes.heads, sizes.vocabulary, options.batch, sizes.sequence)
    head(
        "gpt2: GPT-2 training step on one device",
        f"sizes     {sizes}, AdamW, {options.dtype} products, float32 parameters and residual stream",
    )
    with tempfile.TemporaryDirectory() as cache, Peers() as peers:
        first, losses = {}, {}
        for name in options.peers:
            # an empty cache of its own: the first step is a cold one
            peers.start(name, make, name, sizes, options.dtype, settings={"BIREME_CACHE_DIR": cache})
            answer = peers.ask(name, "losses", FIRST)
            if answer:
                first[name], losses[name] = answer[0][0], answer[1]
                peers.ask(name, "losses", max(options.warm - FIRST, 0))
        shown = [(NAMES[name], *[f"{loss:.4f}" for loss in found]) for name, found in losses.items()]
        table(("losses of the first steps", *range(1, FIRST + 1)), shown)
        answers = {name: turns for name, turns in peers.turns(options.rounds, "time", options.steps).items() if turns}
        peaks = {name: peers.ask(name, "peak") for name in answers}
        peers.report()
    ms = {name: [t[0] for t in turns] for name, turns in answers.items()}
    ours = ms.get("bireme", [])
    table(
        (
            "peer",
            "ms/step",
            "middle half",
            "bireme/this",
            "loss read, ms",
            "middle half",
            "first s",
            "peak GiB",
            "last loss",
        ),
        [
            (
                NAMES[name],
                f"{median(ms[name]):.2f}",
                spread(ms[name], "{:.2f}"),
                cell(ratio(ours, ms[name])),
                f"{median([t[1] for t in turns]):.2f}",
                spread([t[1] for t in turns], "{:.2f}"),
                f"{first[name]:.2f}",
                f"{peaks[name]:.1f}" if peaks[name] else "-",
                f"{turns[-1][2]:.4f}",
            )
            for name, turns in answers.items()
        ],
    )
    for name, limit in (("jax.jit", 1.05), ("torch", 1 / 1.35)):
        floors.at_most(f"bireme / {NAMES[name]}", ratio(ours, ms.get(name, [])), round(limit, 3))
    floors.at_most("largest difference of the first losses", apart(losses) * 100, TOLERANCE * 100, " %")
    return 1 if floors.show() or "bireme" in peers.gone else 0


if __name__ == "__main__":
    sys.exit(main())
