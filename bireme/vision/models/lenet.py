"""LeNet."""

from __future__ import annotations

from bireme import nn
from bireme.core.tensor.tensor import Tensor


class LeNet(nn.Layer):
    """LeNet, for grey images of 28 x 28; without classes it gives the features.

    >>> bireme.vision.models.LeNet()(bireme.ones([1, 1, 28, 28])).shape
    [1, 10]
    """

    def __init__(self, num_classes: int = 10):
        super().__init__()
        self.num_classes = num_classes
        self.features = nn.Sequential(
            nn.Conv2D(1, 6, 3, 1, 1), nn.ReLU(), nn.MaxPool2D(2, 2), nn.Conv2D(6, 16, 5, 1, 0), nn.ReLU(), nn.MaxPool2D(2, 2)
        )  # fmt: skip
        if num_classes > 0:
            self.fc = nn.Sequential(nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, num_classes))

    def forward(self, inputs: Tensor) -> Tensor:
        x = self.features(inputs)
        return self.fc(x.flatten(1)) if self.num_classes > 0 else x
