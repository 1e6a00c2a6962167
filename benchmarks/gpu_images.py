"""Image networks that first_minute trains, once in Paddle's interface and once in torch: MobileNetV3, ConvNeXt, Swin.

Their weights have the same names in both, so that `models.fill` and `models.fill_torch` give both the same numbers.
Dropout and stochastic depth are left out: the losses are compared.
"""

from dataclasses import dataclass

import numpy as np

# kernel, inner channels, channels, squeeze-and-excite, hardswish, stride
LARGE = (
    (3, 16, 16, False, False, 1),
    (3, 64, 24, False, False, 2),
    (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2),
    (5, 120, 40, True, False, 1),
    (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2),
    (3, 200, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 480, 112, True, True, 1),
    (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2),
    (5, 960, 160, True, True, 1),
    (5, 960, 160, True, True, 1),
)


@dataclass(frozen=True)
class Mobile:
    batch: int
    size: int
    blocks: tuple = LARGE
    classes: int = 1000


@dataclass(frozen=True)
class Stages:
    """Sizes of a network in stages, each at half the resolution of the one before; `window` is Swin's alone."""

    batch: int
    size: int
    depths: tuple
    widths: tuple
    classes: int = 1000
    window: int = 7


def squeezed(channels):
    """A quarter of the channels, as a multiple of 8 that is not over a tenth below it."""
    near = max(8, (channels // 4 + 4) // 8 * 8)
    return near + 8 if near < 0.9 * channels / 4 else near


def relative_index(window):
    """Which row of the table of (2 * window - 1) ** 2 relative positions belongs to each pair of places."""
    y, x = np.divmod(np.arange(window * window), window)
    return (y[:, None] - y + window - 1) * (2 * window - 1) + x[:, None] - x + window - 1


def shift_mask(size, window, shift):
    """For each window of a rolled image: 0 between places that are neighbours in the image, -100 between others."""
    part = np.zeros((size, size), np.float32)
    cuts = (slice(0, -window), slice(-window, -shift), slice(-shift, None))
    for i, rows in enumerate(cuts):
        for j, columns in enumerate(cuts):
            part[rows, columns] = 3 * i + j
    n = size // window
    part = part.reshape(n, window, n, window).transpose(0, 2, 1, 3).reshape(n * n, window * window)
    return np.where(part[:, None, :] == part[:, :, None], 0, -100).astype(np.float32)


# ---------------------------------------------------------------- in Paddle's interface


def paddle_mobilenet(paddle, sizes):
    """MobileNetV3; LARGE makes it the large one."""
    nn, blocks = paddle.nn, sizes.blocks

    def unit(a, b, kernel=1, stride=1, groups=1, act=None):
        layers = [
            nn.Conv2D(a, b, kernel, stride, kernel // 2, groups=groups, bias_attr=False),
            nn.BatchNorm2D(b, momentum=0.99, epsilon=1e-3),
        ]
        return nn.Sequential(*layers, *([act()] if act else []))

    class Excite(nn.Layer):
        def __init__(self, channels):
            super().__init__()
            self.pool, self.relu, self.gate = nn.AdaptiveAvgPool2D(1), nn.ReLU(), nn.Hardsigmoid()
            self.down = nn.Conv2D(channels, squeezed(channels), 1)
            self.up = nn.Conv2D(squeezed(channels), channels, 1)

        def forward(self, x):
            return x * self.gate(self.up(self.relu(self.down(self.pool(x)))))

    class Block(nn.Layer):
        def __init__(self, a, kernel, inner, b, excite, hard, stride):
            super().__init__()
            act = nn.Hardswish if hard else nn.ReLU
            layers = [unit(a, inner, act=act)] if inner != a else []
            layers.append(unit(inner, inner, kernel, stride, inner, act))
            layers += [Excite(inner)] if excite else []
            self.block = nn.Sequential(*layers, unit(inner, b))
            self.added = stride == 1 and a == b

        def forward(self, x):
            return x + self.block(x) if self.added else self.block(x)

    class Model(nn.Layer):
        def __init__(self):
            super().__init__()
            layers, channels = [unit(3, 16, 3, 2, act=nn.Hardswish)], 16
            for kernel, inner, out, excite, hard, stride in blocks:
                layers.append(Block(channels, kernel, inner, out, excite, hard, stride))
                channels = out
            self.features = nn.Sequential(*layers, unit(channels, 6 * channels, act=nn.Hardswish))
            self.pool = nn.AdaptiveAvgPool2D(1)
            self.classifier = nn.Sequential(
                nn.Linear(6 * channels, 8 * channels), nn.Hardswish(), nn.Linear(8 * channels, sizes.classes)
            )

        def forward(self, x):
            return self.classifier(self.pool(self.features(x)).flatten(1))

    return Model()


def paddle_convnext(paddle, sizes):
    nn, F = paddle.nn, paddle.nn.functional

    class ChannelNorm(nn.LayerNorm):
        def forward(self, x):
            return super().forward(x.transpose([0, 2, 3, 1])).transpose([0, 3, 1, 2])

    class Block(nn.Layer):
        def __init__(self, d):
            super().__init__()
            self.mix, self.norm = nn.Conv2D(d, d, 7, padding=3, groups=d), nn.LayerNorm(d)
            self.grow, self.shrink = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
            self.scale_weight = self.create_parameter([d], default_initializer=nn.initializer.Constant(1.0))

        def forward(self, x):
            y = self.norm(self.mix(x).transpose([0, 2, 3, 1]))
            y = self.shrink(F.gelu(self.grow(y))) * self.scale_weight
            return x + y.transpose([0, 3, 1, 2])

    class Model(nn.Layer):
        def __init__(self):
            super().__init__()
            layers, before = [], 3
            for i, (depth, d) in enumerate(zip(sizes.depths, sizes.widths, strict=True)):
                if i == 0:
                    layers += [nn.Conv2D(before, d, 4, 4), ChannelNorm(d)]
                else:
                    layers += [ChannelNorm(before), nn.Conv2D(before, d, 2, 2)]
                layers += [Block(d) for _ in range(depth)]
                before = d
            self.features, self.pool = nn.Sequential(*layers), nn.AdaptiveAvgPool2D(1)
            self.norm, self.head = nn.LayerNorm(before), nn.Linear(before, sizes.classes)

        def forward(self, x):
            return self.head(self.norm(self.pool(self.features(x)).flatten(1)))

    return Model()


def paddle_swin(paddle, sizes):
    nn, F, w = paddle.nn, paddle.nn.functional, sizes.window

    class Attention(nn.Layer):
        def __init__(self, d, size, shift):
            super().__init__()
            self.heads, self.size, self.shift = d // 32, size, shift
            self.qkv, self.project = nn.Linear(d, 3 * d), nn.Linear(d, d)
            self.table = self.create_parameter([(2 * w - 1) ** 2, self.heads])
            self.register_buffer("index", paddle.to_tensor(relative_index(w).reshape(-1)), persistable=False)
            if shift:
                self.register_buffer("mask", paddle.to_tensor(shift_mask(size, w, shift)), persistable=False)

        def forward(self, x):
            b, d, n = x.shape[0], x.shape[3], self.size // w
            if self.shift:
                x = paddle.roll(x, [-self.shift, -self.shift], [1, 2])
            x = x.reshape([b, n, w, n, w, d]).transpose([0, 1, 3, 2, 4, 5]).reshape([b * n * n, w * w, d])
            qkv = self.qkv(x).reshape([b * n * n, w * w, 3, self.heads, d // self.heads])
            q, k, v = paddle.unbind(qkv.transpose([2, 0, 3, 1, 4]))
            a = paddle.matmul(q * (d // self.heads) ** -0.5, k, transpose_y=True)
            a = a + self.table[self.index].reshape([w * w, w * w, self.heads]).transpose([2, 0, 1])
            if self.shift:
                a = a.reshape([b, n * n, self.heads, w * w, w * w]) + self.mask.unsqueeze(1)
                a = a.reshape([b * n * n, self.heads, w * w, w * w])
            x = paddle.matmul(F.softmax(a, axis=-1), v).transpose([0, 2, 1, 3]).reshape([b * n * n, w * w, d])
            x = self.project(x).reshape([b, n, n, w, w, d]).transpose([0, 1, 3, 2, 4, 5])
            x = x.reshape([b, self.size, self.size, d])
            return paddle.roll(x, [self.shift, self.shift], [1, 2]) if self.shift else x

    class Block(nn.Layer):
        def __init__(self, d, size, shift):
            super().__init__()
            self.norm1, self.norm2, self.attention = nn.LayerNorm(d), nn.LayerNorm(d), Attention(d, size, shift)
            self.grow, self.shrink = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

        def forward(self, x):
            x = x + self.attention(self.norm1(x))
            return x + self.shrink(F.gelu(self.grow(self.norm2(x))))

    class Merge(nn.Layer):
        def __init__(self, d):
            super().__init__()
            self.norm, self.reduce = nn.LayerNorm(4 * d), nn.Linear(4 * d, 2 * d, bias_attr=False)

        def forward(self, x):
            parts = [x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]]
            return self.reduce(self.norm(paddle.concat(parts, axis=-1)))

    class Model(nn.Layer):
        def __init__(self):
            super().__init__()
            size, layers = sizes.size // 4, []
            self.patch, self.patch_norm = nn.Conv2D(3, sizes.widths[0], 4, 4), nn.LayerNorm(sizes.widths[0])
            for i, (depth, d) in enumerate(zip(sizes.depths, sizes.widths, strict=True)):
                if i:
                    layers.append(Merge(sizes.widths[i - 1]))
                    size //= 2
                layers += [Block(d, size, w // 2 if j % 2 and size > w else 0) for j in range(depth)]
            self.blocks, self.norm = nn.Sequential(*layers), nn.LayerNorm(sizes.widths[-1])
            self.head = nn.Linear(sizes.widths[-1], sizes.classes)

        def forward(self, x):
            x = self.patch_norm(self.patch(x).transpose([0, 2, 3, 1]))
            return self.head(self.norm(self.blocks(x)).mean(axis=[1, 2]))

    return Model()


# ---------------------------------------------------------------- in torch


def torch_mobilenet(torch, sizes):
    nn, blocks = torch.nn, sizes.blocks

    def unit(a, b, kernel=1, stride=1, groups=1, act=None):
        layers = [
            nn.Conv2d(a, b, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(b, momentum=0.01, eps=1e-3),
        ]
        return nn.Sequential(*layers, *([act(inplace=True)] if act else []))

    class Excite(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.pool, self.relu, self.gate = nn.AdaptiveAvgPool2d(1), nn.ReLU(), nn.Hardsigmoid()
            self.down = nn.Conv2d(channels, squeezed(channels), 1)
            self.up = nn.Conv2d(squeezed(channels), channels, 1)

        def forward(self, x):
            return x * self.gate(self.up(self.relu(self.down(self.pool(x)))))

    class Block(nn.Module):
        def __init__(self, a, kernel, inner, b, excite, hard, stride):
            super().__init__()
            act = nn.Hardswish if hard else nn.ReLU
            layers = [unit(a, inner, act=act)] if inner != a else []
            layers.append(unit(inner, inner, kernel, stride, inner, act))
            layers += [Excite(inner)] if excite else []
            self.block = nn.Sequential(*layers, unit(inner, b))
            self.added = stride == 1 and a == b

        def forward(self, x):
            return x + self.block(x) if self.added else self.block(x)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            layers, channels = [unit(3, 16, 3, 2, act=nn.Hardswish)], 16
            for kernel, inner, out, excite, hard, stride in blocks:
                layers.append(Block(channels, kernel, inner, out, excite, hard, stride))
                channels = out
            self.features = nn.Sequential(*layers, unit(channels, 6 * channels, act=nn.Hardswish))
            self.pool = nn.AdaptiveAvgPool2d(1)
            self.classifier = nn.Sequential(
                nn.Linear(6 * channels, 8 * channels), nn.Hardswish(), nn.Linear(8 * channels, sizes.classes)
            )

        def forward(self, x):
            return self.classifier(self.pool(self.features(x)).flatten(1))

    return Model()


def torch_convnext(torch, sizes):
    nn, F = torch.nn, torch.nn.functional

    class ChannelNorm(nn.LayerNorm):
        def forward(self, x):
            return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)

    class Block(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.mix, self.norm = nn.Conv2d(d, d, 7, padding=3, groups=d), nn.LayerNorm(d)
            self.grow, self.shrink = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
            self.scale_weight = nn.Parameter(torch.ones(d))

        def forward(self, x):
            y = self.norm(self.mix(x).permute(0, 2, 3, 1))
            y = self.shrink(F.gelu(self.grow(y))) * self.scale_weight
            return x + y.permute(0, 3, 1, 2)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            layers, before = [], 3
            for i, (depth, d) in enumerate(zip(sizes.depths, sizes.widths, strict=True)):
                if i == 0:
                    layers += [nn.Conv2d(before, d, 4, 4), ChannelNorm(d)]
                else:
                    layers += [ChannelNorm(before), nn.Conv2d(before, d, 2, 2)]
                layers += [Block(d) for _ in range(depth)]
                before = d
            self.features, self.pool = nn.Sequential(*layers), nn.AdaptiveAvgPool2d(1)
            self.norm, self.head = nn.LayerNorm(before), nn.Linear(before, sizes.classes)

        def forward(self, x):
            return self.head(self.norm(self.pool(self.features(x)).flatten(1)))

    return Model()


def torch_swin(torch, sizes):
    nn, F, w = torch.nn, torch.nn.functional, sizes.window

    class Attention(nn.Module):
        def __init__(self, d, size, shift):
            super().__init__()
            self.heads, self.size, self.shift = d // 32, size, shift
            self.qkv, self.project = nn.Linear(d, 3 * d), nn.Linear(d, d)
            self.table = nn.Parameter(torch.zeros((2 * w - 1) ** 2, self.heads))
            self.register_buffer("index", torch.from_numpy(relative_index(w).reshape(-1)), persistent=False)
            if shift:
                self.register_buffer("mask", torch.from_numpy(shift_mask(size, w, shift)), persistent=False)

        def forward(self, x):
            b, d, n = x.shape[0], x.shape[3], self.size // w
            if self.shift:
                x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
            x = x.reshape(b, n, w, n, w, d).permute(0, 1, 3, 2, 4, 5).reshape(b * n * n, w * w, d)
            qkv = self.qkv(x).reshape(b * n * n, w * w, 3, self.heads, d // self.heads)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)
            a = (q * (d // self.heads) ** -0.5) @ k.transpose(-1, -2)
            a = a + self.table[self.index].reshape(w * w, w * w, self.heads).permute(2, 0, 1)
            if self.shift:
                a = a.reshape(b, n * n, self.heads, w * w, w * w) + self.mask[:, None]
                a = a.reshape(b * n * n, self.heads, w * w, w * w)
            x = (torch.softmax(a, -1) @ v).transpose(1, 2).reshape(b * n * n, w * w, d)
            x = self.project(x).reshape(b, n, n, w, w, d).permute(0, 1, 3, 2, 4, 5)
            x = x.reshape(b, self.size, self.size, d)
            return torch.roll(x, (self.shift, self.shift), (1, 2)) if self.shift else x

    class Block(nn.Module):
        def __init__(self, d, size, shift):
            super().__init__()
            self.norm1, self.norm2, self.attention = nn.LayerNorm(d), nn.LayerNorm(d), Attention(d, size, shift)
            self.grow, self.shrink = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

        def forward(self, x):
            x = x + self.attention(self.norm1(x))
            return x + self.shrink(F.gelu(self.grow(self.norm2(x))))

    class Merge(nn.Module):
        def __init__(self, d):
            super().__init__()
            self.norm, self.reduce = nn.LayerNorm(4 * d), nn.Linear(4 * d, 2 * d, bias=False)

        def forward(self, x):
            parts = [x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]]
            return self.reduce(self.norm(torch.cat(parts, -1)))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            size, layers = sizes.size // 4, []
            self.patch, self.patch_norm = nn.Conv2d(3, sizes.widths[0], 4, 4), nn.LayerNorm(sizes.widths[0])
            for i, (depth, d) in enumerate(zip(sizes.depths, sizes.widths, strict=True)):
                if i:
                    layers.append(Merge(sizes.widths[i - 1]))
                    size //= 2
                layers += [Block(d, size, w // 2 if j % 2 and size > w else 0) for j in range(depth)]
            self.blocks, self.norm = nn.Sequential(*layers), nn.LayerNorm(sizes.widths[-1])
            self.head = nn.Linear(sizes.widths[-1], sizes.classes)

        def forward(self, x):
            x = self.patch_norm(self.patch(x).permute(0, 2, 3, 1))
            return self.head(self.norm(self.blocks(x)).mean((1, 2)))

    return Model()
