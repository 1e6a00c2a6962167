"""A script in the style of Paddle's documentation of jit: it trains a network with to_static, exports it, loads it again,
predicts and continues to train; it prints what real Paddle prints.
"""

import os
import tempfile

import numpy as np
import paddle
from paddle.static import InputSpec

BATCH, FEATURES, CLASSES = 16, 12, 3
rng = np.random.RandomState(7)
centers = rng.uniform(-1, 1, [CLASSES, FEATURES])
classes = rng.randint(0, CLASSES, [6 * BATCH, 1])
data = (centers[classes[:, 0]] + rng.normal(0, 0.4, [len(classes), FEATURES])).astype("float32")


def initial(*shape):
    values = rng.uniform(-0.4, 0.4, shape).astype("float32")
    return paddle.ParamAttr(initializer=paddle.nn.initializer.Assign(values))


class Block(paddle.nn.Layer):
    def __init__(self, width):
        super().__init__()
        self.linear = paddle.nn.Linear(width, width, weight_attr=initial(width, width))
        self.norm = paddle.nn.LayerNorm(width)

    def forward(self, x):
        return x + paddle.nn.functional.gelu(self.linear(self.norm(x)))


class Network(paddle.nn.Layer):
    def __init__(self, width=8):
        super().__init__()
        self.register_buffer("mean", paddle.to_tensor(data.mean(0)))
        self.register_buffer("deviation", paddle.to_tensor(data.std(0)))
        self.enter = paddle.nn.Linear(FEATURES, width, weight_attr=initial(FEATURES, width))
        self.blocks = paddle.nn.LayerList([Block(width) for _ in range(2)])
        self.drop = paddle.nn.Dropout(0.0)
        self.leave = paddle.nn.Linear(width, CLASSES, weight_attr=initial(width, CLASSES))

    @paddle.jit.to_static(input_spec=[InputSpec([None, FEATURES], "float32", "features")], full_graph=True)
    def forward(self, x):
        x = self.enter((x - self.mean) / self.deviation)
        # a branch and a loop that depend on the numbers
        if paddle.abs(x).max() > 1.5:
            x = x * 0.5
        steps, size = paddle.zeros([], "int64"), paddle.abs(x.detach()).mean()
        while size > 0.25 and steps < 4:
            size = size * 0.75
            steps = steps + 1
        x = x * 0.75 ** steps.astype("float32")
        for block in self.blocks:
            x = block(x)
        return self.leave(self.drop(x)), steps


def train(layer, optimizer, epochs):
    layer.train()
    for epoch in range(epochs):
        for start in range(0, len(data), BATCH):
            logits, steps = layer(paddle.to_tensor(data[start : start + BATCH]))
            label = paddle.to_tensor(classes[start : start + BATCH])
            loss = paddle.nn.functional.cross_entropy(logits, label)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
        print(f"epoch {epoch}, loss {float(loss):.3f}, steps {steps.item()}")


def accuracy(layer):
    layer.eval()
    logits, _ = layer(paddle.to_tensor(data))
    return float((logits.argmax(-1).numpy() == classes[:, 0]).mean())


network = Network()
optimizer = paddle.optimizer.Adam(0.02, parameters=network.parameters())
train(network, optimizer, 3)
print(f"accuracy {accuracy(network):.3f}")

folder = tempfile.mkdtemp()
path = os.path.join(folder, "network")
paddle.jit.save(network, path)
print(os.path.exists(path + ".json"))

loaded = paddle.jit.load(path)
loaded.eval()
for rows in (1, 5):
    x = paddle.to_tensor(data[:rows])
    wanted, got = network(x), loaded(x)
    print(rows, list(got[0].shape), got[1].item(), np.allclose(got[0].numpy(), wanted[0].numpy(), rtol=1e-5, atol=1e-6))
    print([f"{value:.3f}" for value in got[0].numpy()[-1]])

print(sorted([tuple(p.shape) for p in loaded.parameters() if not p.stop_gradient])[:3])
print(f"accuracy of the loaded one {accuracy(loaded):.3f}")
optimizer = paddle.optimizer.SGD(0.05, parameters=loaded.parameters())
train(loaded, optimizer, 2)
print(f"accuracy after fine-tuning {accuracy(loaded):.3f}")

paddle.jit.save(loaded, path + "_tuned", input_spec=[InputSpec([None, FEATURES], "float32", "features")])
again = paddle.jit.load(path + "_tuned")
again.eval()
x = paddle.to_tensor(data[:4])
print(np.allclose(again(x)[0].numpy(), loaded(x)[0].numpy(), rtol=1e-5, atol=1e-6))


@paddle.jit.to_static(full_graph=True)
def longest_run(values):
    """The length of the longest run of positive numbers."""
    best, run = paddle.zeros([], "int64"), paddle.zeros([], "int64")
    for value in values:
        if value > 0:
            run = run + 1
        else:
            run = paddle.zeros([], "int64")
        if run > best:
            best = run
    return best


values = paddle.to_tensor([1.0, -1.0, 2.0, 3.0, 0.5, -2.0, 4.0])
print(int(longest_run(values)), int(longest_run(-values)))
paddle.jit.save(longest_run, path + "_run", input_spec=[InputSpec([None], "float32", "values")])
print(int(paddle.jit.load(path + "_run")(values[2:])))
