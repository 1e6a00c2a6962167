"""Models that training and accelerator train, once in Paddle's interface and once in torch: ResNet-50, MobileNetV2,
BERT, GPT-2, LSTM.

Every peer starts from the weights that `value` gives for a name and a shape; the names are those in Paddle's interface.
"""

import zlib
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Text:
    """Sizes of a transformer; `predicted` is how many tokens of a sequence are guessed, 0 for one after each."""

    layers: int
    width: int
    heads: int
    vocabulary: int
    batch: int
    sequence: int
    predicted: int = 0
    causal: bool = True


@dataclass(frozen=True)
class Images:
    batch: int
    size: int
    classes: int = 1000


def value(name, shape):
    """Initial numbers of a weight, from its name: the order in which a framework lists them does not matter."""
    if len(shape) == 1:
        return np.full(shape, name.endswith(("weight", "_variance")), np.float32)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    scale = (2 / np.prod(shape[1:])) ** 0.5 if len(shape) == 4 else 0.02
    return (rng.standard_normal(shape, np.float32) * np.float32(scale)).astype(np.float32)


def fill(model):
    """Give a model in Paddle's interface its weights."""
    for name, p in model.state_dict().items():
        p.set_value(value(name, tuple(p.shape)))


def fill_torch(torch, model):
    """The same for torch, whose products are with [out, in] and whose statistics have other names."""
    with torch.no_grad():
        for name, p in model.state_dict().items():
            if name.endswith("num_batches_tracked"):
                continue
            known = name.replace("running_mean", "_mean").replace("running_var", "_variance")
            turned = p.dim() == 2 and not name.endswith(("token.weight", "position.weight", "kind.weight", "table"))
            shape = tuple(p.shape)[::-1] if turned else tuple(p.shape)
            new = torch.from_numpy(value(known, shape))
            p.copy_(new.t() if turned else new)


# ---------------------------------------------------------------- batches


def images(sizes, n=2, seed=1):
    """`n` pairs of images and classes."""
    rng, shape = np.random.default_rng(seed), (sizes.batch, 3, sizes.size, sizes.size)
    return [(rng.standard_normal(shape, np.float32), rng.integers(0, sizes.classes, sizes.batch)) for _ in range(n)]


def texts(sizes, n=2, seed=1):
    """`n` lists of arrays: token ids and labels, and where a part is guessed, its places in all the rows."""
    rng, made = np.random.default_rng(seed), []
    for _ in range(n):
        ids = rng.integers(0, sizes.vocabulary, (sizes.batch, sizes.sequence))
        if not sizes.predicted:
            made.append((ids, rng.integers(0, sizes.vocabulary, ids.shape)))
            continue
        rows = [
            np.sort(rng.choice(sizes.sequence, sizes.predicted, replace=False)) + i * sizes.sequence
            for i in range(sizes.batch)
        ]
        places = np.concatenate(rows)
        made.append((ids, rng.integers(0, sizes.vocabulary, len(places)), places))
    return made


# ---------------------------------------------------------------- work in a step


def image_flops(sizes):
    """Multiplications and additions of a ResNet-50 step: 4.09 G products an image forward, twice that backward."""
    return 3 * 2 * 4.089e9 * (sizes.size / 224) ** 2 * sizes.batch


def text_flops(sizes):
    """The same for a transformer: products with weights, attention (half of it where it is causal), and the head."""
    d, tokens = sizes.width, sizes.batch * sizes.sequence
    attention = (2 if sizes.causal and not sizes.predicted else 4) * sizes.sequence * d
    guessed = sizes.batch * sizes.predicted or tokens
    head = 2 * d * sizes.vocabulary + (2 * d * d if sizes.predicted else 0)
    return 3 * (sizes.layers * tokens * (24 * d * d + attention) + guessed * head)


# ---------------------------------------------------------------- in Paddle's interface


def paddle_transformer(paddle, sizes):
    """BERT (each sum is normalised, a part of the tokens is guessed) or GPT-2 (each part's input is, the next token
    is).
    """
    nn, F, d, heads = paddle.nn, paddle.nn.functional, sizes.width, sizes.heads
    bert = sizes.predicted > 0

    class Block(nn.Layer):
        def __init__(self):
            super().__init__()
            self.qkv, self.project = nn.Linear(d, 3 * d), nn.Linear(d, d)
            self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
            self.grow, self.shrink = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

        def attend(self, x):
            b, t = x.shape[0], x.shape[1]
            q, k, v = paddle.unbind(self.qkv(x).reshape([b, t, 3, heads, d // heads]), axis=2)
            return self.project(
                F.scaled_dot_product_attention(q, k, v, is_causal=sizes.causal and not bert).reshape([b, t, d])
            )

        def think(self, x):
            return self.shrink(F.gelu(self.grow(x), approximate=True))

        def forward(self, x):
            if bert:
                x = self.norm1(x + self.attend(x))
                return self.norm2(x + self.think(x))
            x = x + self.attend(self.norm1(x))
            return x + self.think(self.norm2(x))

    class Model(nn.Layer):
        def __init__(self):
            super().__init__()
            self.token, self.position = nn.Embedding(sizes.vocabulary, d), nn.Embedding(sizes.sequence, d)
            self.norm = nn.LayerNorm(d)
            self.blocks = nn.LayerList([Block() for _ in range(sizes.layers)])
            if bert:
                self.transform, self.transform_norm = nn.Linear(d, d), nn.LayerNorm(d)

        def forward(self, ids, places=None):
            x = self.token(ids) + self.position.weight[: ids.shape[1]]
            x = self.norm(x) if bert else x
            for block in self.blocks:
                x = block(x)
            x = x.reshape([-1, d])
            if bert:
                x = self.transform_norm(F.gelu(self.transform(paddle.gather(x, places)), approximate=True))
            else:
                x = self.norm(x)
            return paddle.matmul(x, self.token.weight, transpose_y=True)

    return Model()


def paddle_lstm(paddle, sizes):
    """Tokens, an LSTM of `layers` layers, and the next token of each; `paddle` may be Bireme."""
    nn = paddle.nn

    class Model(nn.Layer):
        def __init__(self):
            super().__init__()
            self.token = nn.Embedding(sizes.vocabulary, sizes.width)
            self.lstm = nn.LSTM(sizes.width, sizes.width, sizes.layers)
            self.head = nn.Linear(sizes.width, sizes.vocabulary)

        def forward(self, ids):
            out, _ = self.lstm(self.token(ids))
            return self.head(out).reshape([-1, sizes.vocabulary])

    return Model()


def channels_last(model):
    """Let a vision model take images [batch, height, width, channels]; its weights stay as they are."""
    for layer in model.sublayers():
        for name in ("_data_format", "data_format"):
            if getattr(layer, name, None) == "NCHW":
                setattr(layer, name, "NHWC")
    return model


# ---------------------------------------------------------------- in torch


def torch_transformer(torch, sizes):
    nn, F, d, heads = torch.nn, torch.nn.functional, sizes.width, sizes.heads
    bert = sizes.predicted > 0

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.project = nn.Linear(d, 3 * d), nn.Linear(d, d)
            self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
            self.grow, self.shrink = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

        def attend(self, x):
            b, t, _ = x.shape
            q, k, v = self.qkv(x).view(b, t, 3, heads, d // heads).permute(2, 0, 3, 1, 4)
            a = F.scaled_dot_product_attention(q, k, v, is_causal=sizes.causal and not bert)
            return self.project(a.transpose(1, 2).reshape(b, t, d))

        def think(self, x):
            return self.shrink(F.gelu(self.grow(x), approximate="tanh"))

        def forward(self, x):
            if bert:
                x = self.norm1(x + self.attend(x))
                return self.norm2(x + self.think(x))
            x = x + self.attend(self.norm1(x))
            return x + self.think(self.norm2(x))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.token, self.position = nn.Embedding(sizes.vocabulary, d), nn.Embedding(sizes.sequence, d)
            self.norm = nn.LayerNorm(d)
            self.blocks = nn.ModuleList([Block() for _ in range(sizes.layers)])
            if bert:
                self.transform, self.transform_norm = nn.Linear(d, d), nn.LayerNorm(d)

        def forward(self, ids, places=None):
            x = self.token(ids) + self.position.weight[: ids.shape[1]]
            x = self.norm(x) if bert else x
            for block in self.blocks:
                x = block(x)
            x = x.view(-1, d)
            x = self.transform_norm(F.gelu(self.transform(x[places]), approximate="tanh")) if bert else self.norm(x)
            return F.linear(x, self.token.weight)

    return Model()


def torch_lstm(torch, sizes):
    nn = torch.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.token = nn.Embedding(sizes.vocabulary, sizes.width)
            self.lstm = nn.LSTM(sizes.width, sizes.width, sizes.layers, batch_first=True)
            self.head = nn.Linear(sizes.width, sizes.vocabulary)

        def forward(self, ids):
            out, _ = self.lstm(self.token(ids))
            return self.head(out).view(-1, sizes.vocabulary)

    return Model()


def torch_resnet(torch, depth, classes):
    """ResNet of 18 or 50 layers with Paddle's names, less the statistics'."""
    nn = torch.nn
    wide = depth >= 50
    out_of = 4 if wide else 1

    def fitted(channels, out, stride):
        return nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    class Block(nn.Module):
        def __init__(self, channels, planes, stride):
            super().__init__()
            out = planes * out_of
            kinds = [(channels, planes, 1, 1), (planes, planes, 3, stride), (planes, out, 1, 1)]
            kinds = kinds if wide else [(channels, planes, 3, stride), (planes, planes, 3, 1)]
            for i, (a, b, k, s) in enumerate(kinds, 1):
                setattr(self, f"conv{i}", nn.Conv2d(a, b, k, s, k // 2, bias=False))
                setattr(self, f"bn{i}", nn.BatchNorm2d(b))
            self.count = len(kinds)
            self.relu = nn.ReLU(inplace=True)
            self.downsample = fitted(channels, out, stride) if stride != 1 or channels != out else None

        def forward(self, x):
            y = x
            for i in range(1, self.count + 1):
                y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
                y = self.relu(y) if i < self.count else y
            return self.relu(y + (x if self.downsample is None else self.downsample(x)))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
            self.relu, self.maxpool = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
            channels, counts = 64, (3, 4, 6, 3) if wide else (2, 2, 2, 2)
            for i, (planes, count) in enumerate(zip((64, 128, 256, 512), counts, strict=True), 1):
                blocks = []
                for j in range(count):
                    blocks.append(Block(channels, planes, 2 if i > 1 and j == 0 else 1))
                    channels = planes * out_of
                setattr(self, f"layer{i}", nn.Sequential(*blocks))
            self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(channels, classes)

        def forward(self, x):
            x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
            x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
            return self.fc(self.avgpool(x).flatten(1))

    return Model()


def torch_mobilenet(torch, classes):
    """MobileNetV2 with Paddle's names; without the dropout, as is Paddle's in `training`."""
    nn = torch.nn
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))

    def unit(a, b, k=1, stride=1, groups=1):
        return nn.Sequential(
            nn.Conv2d(a, b, k, stride, k // 2, groups=groups, bias=False), nn.BatchNorm2d(b), nn.ReLU6(inplace=True)
        )

    class Block(nn.Module):
        def __init__(self, a, b, stride, ratio):
            super().__init__()
            inner = a * ratio
            grow = [unit(a, inner)] if ratio != 1 else []
            self.conv = nn.Sequential(
                *grow, unit(inner, inner, 3, stride, inner), nn.Conv2d(inner, b, 1, bias=False), nn.BatchNorm2d(b)
            )
            self.added = stride == 1 and a == b

        def forward(self, x):
            return x + self.conv(x) if self.added else self.conv(x)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            layers, channels = [unit(3, 32, 3, 2)], 32
            for ratio, out, count, stride in stages:
                for i in range(count):
                    layers.append(Block(channels, out, stride if i == 0 else 1, ratio))
                    channels = out
            self.features = nn.Sequential(*layers, unit(channels, 1280))
            self.pool2d_avg = nn.AdaptiveAvgPool2d(1)
            self.classifier = nn.Sequential(nn.Identity(), nn.Linear(1280, classes))

        def forward(self, x):
            return self.classifier(self.pool2d_avg(self.features(x)).flatten(1))

    return Model()
