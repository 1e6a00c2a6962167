"""A diffusion U-Net and a Llama that first_minute trains, once in Paddle's interface and once in torch.

Their weights have the same names in both, so that `models.fill` and `models.fill_torch` give both the same numbers.
"""

from dataclasses import dataclass

import numpy as np

TIMES = 1000  # steps of the diffusion


@dataclass(frozen=True)
class Diffusion:
    """Sizes of a U-Net: `attended` are the lowest resolutions, in levels, that have attention."""

    batch: int
    size: int
    width: int
    multipliers: tuple
    blocks: int = 2
    attended: int = 2
    head: int = 64
    groups: int = 32


@dataclass(frozen=True)
class Llama:
    layers: int
    width: int
    heads: int
    groups: int  # heads of keys and values
    inner: int
    vocabulary: int
    batch: int
    sequence: int


def diffusions(sizes, n=2, seed=1):
    """`n` batches of noisy images, their noise and their times."""
    rng, shape = np.random.default_rng(seed), (sizes.batch, 3, sizes.size, sizes.size)
    return [
        (
            rng.standard_normal(shape, np.float32),
            rng.standard_normal(shape, np.float32),
            rng.integers(0, TIMES, shape[0]),
        )
        for _ in range(n)
    ]


def waves(positions, width, base=10_000.0):
    """Angles of positions in half of `width` frequencies: [positions, width / 2]."""
    return np.arange(positions)[:, None] * base ** (-np.arange(0, width, 2) / width)


def time_table(width):
    """Sines and cosines of every time of the diffusion."""
    angles = waves(TIMES, width)
    return np.concatenate([np.sin(angles), np.cos(angles)], -1).astype(np.float32)


def rotary_tables(positions, width):
    """Cosines and sines that turn the two halves of a head's vector, [positions, 1, width]."""
    angles = np.tile(waves(positions, width), 2)[:, None, :]
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


# ---------------------------------------------------------------- in Paddle's interface


def paddle_unet(paddle, sizes):
    nn, F, base = paddle.nn, paddle.nn.functional, sizes.width

    class Residual(nn.Layer):
        def __init__(self, a, b):
            super().__init__()
            self.norm1, self.conv1 = nn.GroupNorm(sizes.groups, a), nn.Conv2D(a, b, 3, padding=1)
            self.norm2, self.conv2 = nn.GroupNorm(sizes.groups, b), nn.Conv2D(b, b, 3, padding=1)
            self.time = nn.Linear(4 * base, b)
            self.fitted = nn.Conv2D(a, b, 1) if a != b else nn.Identity()

        def forward(self, x, time):
            y = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time)).unsqueeze([2, 3])
            return self.fitted(x) + self.conv2(F.silu(self.norm2(y)))

    class Attention(nn.Layer):
        def __init__(self, d):
            super().__init__()
            self.norm, self.qkv, self.project = nn.GroupNorm(sizes.groups, d), nn.Linear(d, 3 * d), nn.Linear(d, d)

        def forward(self, x):
            b, d, h, w = x.shape
            y = self.norm(x).flatten(2).transpose([0, 2, 1])
            q, k, v = paddle.unbind(self.qkv(y).reshape([b, h * w, 3, d // sizes.head, sizes.head]), axis=2)
            y = self.project(F.scaled_dot_product_attention(q, k, v).reshape([b, h * w, d]))
            return x + y.transpose([0, 2, 1]).reshape([b, d, h, w])

    class Stage(nn.Layer):
        def __init__(self, a, b, attends):
            super().__init__()
            self.residual, self.attention = Residual(a, b), Attention(b) if attends else nn.Identity()

        def forward(self, x, time):
            return self.attention(self.residual(x, time))

    class Up(nn.Layer):
        def __init__(self, d):
            super().__init__()
            self.conv = nn.Conv2D(d, d, 3, padding=1)

        def forward(self, x):
            return self.conv(F.interpolate(x, scale_factor=2, mode="nearest"))

    class Model(nn.Layer):
        def __init__(self):
            super().__init__()
            widths, channels, last = [base * m for m in sizes.multipliers], base, len(sizes.multipliers) - 1
            self.register_buffer("times", paddle.to_tensor(time_table(base)), persistable=False)
            self.time1, self.time2 = nn.Linear(base, 4 * base), nn.Linear(4 * base, 4 * base)
            self.first, kept = nn.Conv2D(3, base, 3, padding=1), [base]
            self.down, self.shrink, self.up, self.grow = (nn.LayerList() for _ in range(4))
            for i, d in enumerate(widths):
                for _ in range(sizes.blocks):
                    self.down.append(Stage(channels, d, last - i < sizes.attended))
                    channels = d
                    kept.append(d)
                if i < last:
                    self.shrink.append(nn.Conv2D(d, d, 3, 2, 1))
                    kept.append(d)
            self.middle1, self.middle2 = Stage(channels, channels, True), Residual(channels, channels)
            for i, d in reversed(list(enumerate(widths))):
                for _ in range(sizes.blocks + 1):
                    self.up.append(Stage(channels + kept.pop(), d, last - i < sizes.attended))
                    channels = d
                if i:
                    self.grow.append(Up(d))
            self.norm, self.last = nn.GroupNorm(sizes.groups, channels), nn.Conv2D(channels, 3, 3, padding=1)

        def forward(self, x, t):
            time = self.time2(F.silu(self.time1(self.times[t])))
            x, n, levels = self.first(x), sizes.blocks, len(sizes.multipliers)
            kept = [x]
            for i in range(levels):
                for stage in self.down[i * n : (i + 1) * n]:
                    x = stage(x, time)
                    kept.append(x)
                if i < levels - 1:
                    x = self.shrink[i](x)
                    kept.append(x)
            x = self.middle2(self.middle1(x, time), time)
            for i in range(levels):
                for stage in self.up[i * (n + 1) : (i + 1) * (n + 1)]:
                    x = stage(paddle.concat([x, kept.pop()], axis=1), time)
                x = self.grow[i](x) if i < levels - 1 else x
            return self.last(F.silu(self.norm(x)))

    return Model()


def paddle_llama(paddle, sizes):
    nn, F, d, dim = paddle.nn, paddle.nn.functional, sizes.width, sizes.width // sizes.heads

    class RMSNorm(nn.Layer):
        def __init__(self):
            super().__init__()
            self.weight = self.create_parameter([d], default_initializer=nn.initializer.Constant(1.0))

        def forward(self, x):
            with paddle.amp.auto_cast(enable=False):
                y = x.astype("float32")
                y = y * paddle.rsqrt(y.square().mean(axis=-1, keepdim=True) + 1e-6)
            return y.astype(x.dtype) * self.weight

    def turned(x, cos, sin):
        a, b = paddle.chunk(x, 2, axis=-1)
        return x * cos + paddle.concat([-b, a], axis=-1) * sin

    class Block(nn.Layer):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = RMSNorm(), RMSNorm()
            self.query, self.project = nn.Linear(d, d, bias_attr=False), nn.Linear(d, d, bias_attr=False)
            self.key, self.value = (nn.Linear(d, sizes.groups * dim, bias_attr=False) for _ in range(2))
            self.gate, self.grow = (nn.Linear(d, sizes.inner, bias_attr=False) for _ in range(2))
            self.shrink = nn.Linear(sizes.inner, d, bias_attr=False)

        def attend(self, x, cos, sin):
            b, t = x.shape[0], x.shape[1]
            q = turned(self.query(x).reshape([b, t, sizes.heads, dim]), cos, sin)
            k = turned(self.key(x).reshape([b, t, sizes.groups, dim]), cos, sin)
            v = self.value(x).reshape([b, t, sizes.groups, dim])
            return self.project(F.scaled_dot_product_attention(q, k, v, is_causal=True).reshape([b, t, d]))

        def forward(self, x, cos, sin):
            x = x + self.attend(self.norm1(x), cos, sin)
            y = self.norm2(x)
            return x + self.shrink(F.silu(self.gate(y)) * self.grow(y))

    class Model(nn.Layer):
        def __init__(self):
            super().__init__()
            self.token = nn.Embedding(sizes.vocabulary, d)
            self.blocks = nn.LayerList([Block() for _ in range(sizes.layers)])
            self.norm, self.head = RMSNorm(), nn.Linear(d, sizes.vocabulary, bias_attr=False)
            cos, sin = rotary_tables(sizes.sequence, dim)
            self.register_buffer("cos", paddle.to_tensor(cos), persistable=False)
            self.register_buffer("sin", paddle.to_tensor(sin), persistable=False)

        def forward(self, ids):
            x, t = self.token(ids), ids.shape[1]
            cos, sin = self.cos[:t].astype(x.dtype), self.sin[:t].astype(x.dtype)
            for block in self.blocks:
                x = block(x, cos, sin)
            return self.head(self.norm(x)).reshape([-1, sizes.vocabulary])

    return Model()


# ---------------------------------------------------------------- in torch


def torch_unet(torch, sizes):
    nn, F, base = torch.nn, torch.nn.functional, sizes.width

    class Residual(nn.Module):
        def __init__(self, a, b):
            super().__init__()
            self.norm1, self.conv1 = nn.GroupNorm(sizes.groups, a), nn.Conv2d(a, b, 3, padding=1)
            self.norm2, self.conv2 = nn.GroupNorm(sizes.groups, b), nn.Conv2d(b, b, 3, padding=1)
            self.time = nn.Linear(4 * base, b)
            self.fitted = nn.Conv2d(a, b, 1) if a != b else nn.Identity()

        def forward(self, x, time):
            y = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
            return self.fitted(x) + self.conv2(F.silu(self.norm2(y)))

    class Attention(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.norm, self.qkv, self.project = nn.GroupNorm(sizes.groups, d), nn.Linear(d, 3 * d), nn.Linear(d, d)

        def forward(self, x):
            b, d, h, w = x.shape
            y = self.norm(x).flatten(2).transpose(1, 2)
            q, k, v = self.qkv(y).reshape(b, h * w, 3, d // sizes.head, sizes.head).permute(2, 0, 3, 1, 4)
            y = self.project(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, h * w, d))
            return x + y.transpose(1, 2).reshape(b, d, h, w)

    class Stage(nn.Module):
        def __init__(self, a, b, attends):
            super().__init__()
            self.residual, self.attention = Residual(a, b), Attention(b) if attends else nn.Identity()

        def forward(self, x, time):
            return self.attention(self.residual(x, time))

    class Up(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.conv = nn.Conv2d(d, d, 3, padding=1)

        def forward(self, x):
            return self.conv(F.interpolate(x, scale_factor=2, mode="nearest"))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            widths, channels, last = [base * m for m in sizes.multipliers], base, len(sizes.multipliers) - 1
            self.register_buffer("times", torch.from_numpy(time_table(base)), persistent=False)
            self.time1, self.time2 = nn.Linear(base, 4 * base), nn.Linear(4 * base, 4 * base)
            self.first, kept = nn.Conv2d(3, base, 3, padding=1), [base]
            self.down, self.shrink, self.up, self.grow = (nn.ModuleList() for _ in range(4))
            for i, d in enumerate(widths):
                for _ in range(sizes.blocks):
                    self.down.append(Stage(channels, d, last - i < sizes.attended))
                    channels = d
                    kept.append(d)
                if i < last:
                    self.shrink.append(nn.Conv2d(d, d, 3, 2, 1))
                    kept.append(d)
            self.middle1, self.middle2 = Stage(channels, channels, True), Residual(channels, channels)
            for i, d in reversed(list(enumerate(widths))):
                for _ in range(sizes.blocks + 1):
                    self.up.append(Stage(channels + kept.pop(), d, last - i < sizes.attended))
                    channels = d
                if i:
                    self.grow.append(Up(d))
            self.norm, self.last = nn.GroupNorm(sizes.groups, channels), nn.Conv2d(channels, 3, 3, padding=1)

        def forward(self, x, t):
            time = self.time2(F.silu(self.time1(self.times[t])))
            x, n, levels = self.first(x), sizes.blocks, len(sizes.multipliers)
            kept = [x]
            for i in range(levels):
                for stage in self.down[i * n : (i + 1) * n]:
                    x = stage(x, time)
                    kept.append(x)
                if i < levels - 1:
                    x = self.shrink[i](x)
                    kept.append(x)
            x = self.middle2(self.middle1(x, time), time)
            for i in range(levels):
                for stage in self.up[i * (n + 1) : (i + 1) * (n + 1)]:
                    x = stage(torch.cat([x, kept.pop()], 1), time)
                x = self.grow[i](x) if i < levels - 1 else x
            return self.last(F.silu(self.norm(x)))

    return Model()


def torch_llama(torch, sizes):
    nn, F, d, dim = torch.nn, torch.nn.functional, sizes.width, sizes.width // sizes.heads

    class RMSNorm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(d))

        def forward(self, x):
            y = x.float()
            y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6)
            return y.to(x.dtype) * self.weight

    def turned(x, cos, sin):
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat([-b, a], -1) * sin

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = RMSNorm(), RMSNorm()
            self.query, self.project = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
            self.key, self.value = (nn.Linear(d, sizes.groups * dim, bias=False) for _ in range(2))
            self.gate, self.grow = (nn.Linear(d, sizes.inner, bias=False) for _ in range(2))
            self.shrink = nn.Linear(sizes.inner, d, bias=False)

        def attend(self, x, cos, sin):
            b, t, _ = x.shape
            q, k, v = self.query(x), self.key(x), self.value(x)
            cos, sin = cos.to(q.dtype), sin.to(q.dtype)
            q = turned(q.reshape(b, t, sizes.heads, dim), cos, sin).transpose(1, 2)
            k = turned(k.reshape(b, t, sizes.groups, dim), cos, sin).transpose(1, 2)
            v = v.reshape(b, t, sizes.groups, dim).transpose(1, 2)
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            return self.project(a.transpose(1, 2).reshape(b, t, d))

        def forward(self, x, cos, sin):
            x = x + self.attend(self.norm1(x), cos, sin)
            y = self.norm2(x)
            return x + self.shrink(F.silu(self.gate(y)) * self.grow(y))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.token = nn.Embedding(sizes.vocabulary, d)
            self.blocks = nn.ModuleList([Block() for _ in range(sizes.layers)])
            self.norm, self.head = RMSNorm(), nn.Linear(d, sizes.vocabulary, bias=False)
            cos, sin = rotary_tables(sizes.sequence, dim)
            self.register_buffer("cos", torch.from_numpy(cos), persistent=False)
            self.register_buffer("sin", torch.from_numpy(sin), persistent=False)

        def forward(self, ids):
            x, t = self.token(ids), ids.shape[1]
            for block in self.blocks:
                x = block(x, self.cos[:t], self.sin[:t])
            return self.head(self.norm(x)).reshape(-1, sizes.vocabulary)

    return Model()
