"""LeNet."""

from __future__ import annotations

from bireme import nn
from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor


class LeNet(nn.Layer):
    """LeNet-5, for gray images of 28 x 28 pixels.

    Args:
        num_classes: Number of classes; 0 or less returns the features instead. Default: 10.

    Shape:
        - inputs: ``[N, 1, 28, 28]``
        - output: ``[N, num_classes]``

    Examples:
        >>> bireme.vision.models.LeNet()(bireme.ones([1, 1, 28, 28])).shape
        [1, 10]
    """

    def __init__(self, num_classes: int = 10):
        errors.check_integer("LeNet(num_classes)", num_classes)
        super().__init__()
        self.num_classes = num_classes
        self.features = nn.Sequential(
            nn.Conv2D(1, 6, 3, 1, 1),
            nn.ReLU(),
            nn.MaxPool2D(2, 2),
            nn.Conv2D(6, 16, 5, 1, 0),
            nn.ReLU(),
            nn.MaxPool2D(2, 2),
        )
        if num_classes > 0:
            self.fc = nn.Sequential(nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, num_classes))

    def forward(self, inputs: Tensor) -> Tensor:
        """Classify images.

        Args:
            inputs: Images ``[N, 1, 28, 28]``.

        Returns:
            Logits ``[N, num_classes]``, or the features ``[N, C, H, W]`` without classes.
        """
        x = self.features(inputs)
        return self.fc(x.flatten(1)) if self.num_classes > 0 else x
