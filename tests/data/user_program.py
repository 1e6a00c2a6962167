"""A small training script with types, which mypy checks against the installed package; it must report the wrong lines."""

from collections.abc import Iterator
from typing import Any, assert_type

import bireme
import bireme.nn.functional as F
from bireme import nn
from bireme.io import DataLoader, Dataset


class Points(Dataset):
    def __init__(self, count: int) -> None:
        self.x = bireme.randn([count, 4])
        self.y = bireme.argmax(self.x, axis=1)

    def __getitem__(self, index: int) -> tuple[bireme.Tensor, bireme.Tensor]:
        return self.x[index], self.y[index]

    def __len__(self) -> int:
        return len(self.x)


class Net(nn.Layer):
    def __init__(self, width: int, act: nn.ReLU | None = None) -> None:
        super().__init__()
        self.first = nn.Linear(4, width)
        self.act = act or nn.ReLU()
        self.second = nn.Linear(width, 4)

    def forward(self, x: bireme.Tensor) -> bireme.Tensor:
        h = F.dropout(self.act(self.first(x)), p=0.1, training=self.training)
        return assert_type(F.softmax(self.second(h), axis=-1), bireme.Tensor)


def train(net: Net, epochs: int) -> Iterator[float]:
    schedule = bireme.optimizer.lr.CosineAnnealingDecay(learning_rate=0.1, T_max=epochs)
    adam = bireme.optimizer.AdamW(learning_rate=schedule, parameters=net.parameters(), weight_decay=0.01)
    loss_fn = nn.NLLLoss()
    for _ in range(epochs):
        for x, y in DataLoader(Points(32), batch_size=8, shuffle=True):
            loss: bireme.Tensor = loss_fn(bireme.log(net(x) + 1e-6), y)
            loss.backward()
            adam.step()
            adam.clear_grad()
            yield loss.item()
        schedule.step()


def uses(x: bireme.Tensor) -> None:
    assert_type(x + 1.0, bireme.Tensor)
    assert_type(2 * x @ x.T, bireme.Tensor)
    assert_type(x.sum(axis=[0, 1], keepdim=True), bireme.Tensor)
    assert_type(bireme.sum(input=x, dim=0), bireme.Tensor)  # the other keywords
    assert_type(x.reshape(2, -1), bireme.Tensor)  # integers one by one
    assert_type(x.reshape([2, -1]).astype("float32").add_(x), bireme.Tensor)
    assert_type(bireme.split(x, 2, axis=0), list[bireme.Tensor])
    assert_type(bireme.linalg.svd(x), tuple[bireme.Tensor, bireme.Tensor, bireme.Tensor])
    assert_type(bireme.topk(x, k=1).indices, bireme.Tensor)
    assert_type(x.shape, list[int])
    assert_type(bireme.to_tensor([True], dtype=bireme.bool).float().item(), Any)
    assert_type(bireme.zeros([2, 2], dtype="float32") == x, bireme.Tensor)
    image = x.unsqueeze([0, 1])
    assert_type(F.conv2d(image, image, stride=[1, 2], padding="SAME"), bireme.Tensor)


def mistakes(x: bireme.Tensor) -> None:
    x.sum(axis="rows")  # wrong
    bireme.concat(x, axis=0)  # wrong
    bireme.reshape(x, shape=[2], nmae="a")  # wrong
    x.no_such_method()  # wrong
    bireme.no_such_function(x)  # wrong
    nn.GELU(approximate="tanh")  # wrong
    y: int = F.relu(x)  # wrong
    del y


if __name__ == "__main__":
    bireme.seed(0)
    uses(bireme.ones([2, 2]))
    losses = list(train(Net(8), 6))
    assert losses[-1] < losses[0]
