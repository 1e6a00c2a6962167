"""Classifiers of images: an MLP, CNNs from small to ResNet-18, a vision transformer."""

import numpy as np

CLASSES = 10


def batches(rng, batch, shape, n=8):
    """`n` batches of noisy patterns, one pattern a class."""
    patterns = 0.2 * rng.standard_normal((CLASSES, *shape), np.float32)
    made = []
    for _ in range(n):
        labels = rng.integers(0, CLASSES, batch)
        made.append((patterns[labels] + rng.standard_normal((batch, *shape), np.float32), labels))
    return made


def trained(paddle, model, opt, rng, data):
    """The plain step of a classifier; a tenth of the labels is wrong, and so the loss never vanishes."""
    F = paddle.nn.functional

    def step(i):
        x, labels = data[i % len(data)]
        labels = np.where(rng.random(len(labels)) < 0.1, rng.integers(0, CLASSES, len(labels)), labels)
        loss = F.cross_entropy(model(paddle.to_tensor(x)), paddle.to_tensor(labels))
        loss.backward()
        opt.step()
        opt.clear_grad()
        return float(loss)

    return [model], step


def mlp(paddle, source, batch, width):
    nn = paddle.nn
    model = nn.Sequential(
        nn.Flatten(),
        nn.Linear(784, width),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(width, CLASSES),
    )
    opt = paddle.optimizer.Adam(1e-3, parameters=model.parameters())
    return trained(paddle, model, opt, source.rng, batches(source.rng, batch, (1, 28, 28)))


def cnn(paddle, source, batch, size, width):
    nn = paddle.nn
    model = nn.Sequential(
        nn.Conv2D(3, width, 3, padding=1),
        nn.BatchNorm2D(width),
        nn.ReLU(),
        nn.MaxPool2D(2),
        nn.Conv2D(width, 2 * width, 3, padding=1),
        nn.BatchNorm2D(2 * width),
        nn.ReLU(),
        nn.MaxPool2D(2),
        nn.Flatten(),
        nn.Linear(2 * width * (size // 4) ** 2, 128),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(128, CLASSES),
    )
    opt = paddle.optimizer.Adam(1e-3, parameters=model.parameters())
    return trained(paddle, model, opt, source.rng, batches(source.rng, batch, (3, size, size)))


def resnet18(paddle, source, batch, size):
    model = paddle.vision.models.resnet18(num_classes=CLASSES)
    schedule = paddle.optimizer.lr.CosineAnnealingDecay(0.002, T_max=2000)
    opt = paddle.optimizer.Momentum(schedule, 0.9, parameters=model.parameters(), weight_decay=1e-4)
    layers, plain = trained(paddle, model, opt, source.rng, batches(source.rng, batch, (3, size, size)))

    def step(i):
        loss = plain(i)
        schedule.step()
        return loss

    return layers, step


def mobilenet_v2(paddle, source, batch, size, scale):
    model = paddle.vision.models.mobilenet_v2(scale=scale, num_classes=CLASSES)
    opt = paddle.optimizer.Momentum(0.002, 0.9, parameters=model.parameters(), weight_decay=4e-5)
    return trained(paddle, model, opt, source.rng, batches(source.rng, batch, (3, size, size)))


def shufflenet_v2(paddle, source, batch, size, widths):
    nn = paddle.nn

    def block(inside, outside, kernel, stride=1, groups=1, relu=True):
        conv = nn.Conv2D(inside, outside, kernel, stride, kernel // 2, groups=groups, bias_attr=False)
        return [conv, nn.BatchNorm2D(outside), *([nn.ReLU()] if relu else [])]

    class Unit(nn.Layer):
        """Half of the channels pass by (or are halved in size), the others are convolved, then both are shuffled."""

        def __init__(self, inside, outside, stride):
            super().__init__()
            self.stride, half = stride, outside // 2
            if stride == 2:
                spatial = block(inside, inside, 3, 2, inside, relu=False)
                self.short = nn.Sequential(*spatial, *block(inside, half, 1))
            inner = inside if stride == 2 else half
            spatial = block(half, half, 3, stride, half, relu=False)
            self.main = nn.Sequential(*block(inner, half, 1), *spatial, *block(half, half, 1))

        def forward(self, x):
            if self.stride == 2:
                out = paddle.concat([self.short(x), self.main(x)], axis=1)
            else:
                left, right = paddle.split(x, 2, axis=1)
                out = paddle.concat([left, self.main(right)], axis=1)
            n, c, h, w = out.shape
            return out.reshape([n, 2, c // 2, h, w]).transpose([0, 2, 1, 3, 4]).reshape([n, c, h, w])

    layers, inside = [*block(3, widths[0], 3, 2), nn.MaxPool2D(3, 2, 1)], widths[0]
    for outside, repeats in zip(widths, (2, 3, 2)):
        layers += [Unit(inside, outside, 2), *[Unit(outside, outside, 1) for _ in range(repeats)]]
        inside = outside
    layers += [*block(inside, 256, 1), nn.AdaptiveAvgPool2D(1), nn.Flatten(), nn.Linear(256, CLASSES)]
    model = nn.Sequential(*layers)
    opt = paddle.optimizer.Momentum(0.01, 0.9, parameters=model.parameters(), weight_decay=4e-5)
    return trained(paddle, model, opt, source.rng, batches(source.rng, batch, (3, size, size)))


def vit(paddle, source, batch, size, patch, width, layers):
    nn = paddle.nn

    class Model(nn.Layer):
        def __init__(self):
            super().__init__()
            self.patches = nn.Conv2D(3, width, patch, patch)
            self.first = self.create_parameter([1, 1, width])
            self.position = self.create_parameter([1, (size // patch) ** 2 + 1, width])
            layer = nn.TransformerEncoderLayer(
                width, 4, 2 * width, dropout=0.1, activation="gelu", attn_dropout=0.0, normalize_before=True
            )
            self.encoder = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width))
            self.head = nn.Linear(width, CLASSES)

        def forward(self, x):
            x = self.patches(x).flatten(2).transpose([0, 2, 1])
            x = paddle.concat([self.first.expand([x.shape[0], 1, width]), x], axis=1) + self.position
            return self.head(self.encoder(x)[:, 0])

    model = Model()
    opt = paddle.optimizer.AdamW(
        1e-3, parameters=model.parameters(), weight_decay=0.05, grad_clip=nn.ClipGradByGlobalNorm(1.0)
    )
    return trained(paddle, model, opt, source.rng, batches(source.rng, batch, (3, size, size)))
