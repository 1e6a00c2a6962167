"""Loss functions as layers."""

from __future__ import annotations

from bireme.core import errors
from bireme.core.tensor import Tensor
from bireme.nn.layer import Layer
from bireme.ops import cross_entropy, mse_loss

_REDUCTIONS = ("mean", "sum", "none")


class CrossEntropyLoss(Layer):
    """Cross entropy between scores and labels; the classes lie along the last axis unless `axis` says otherwise.

    >>> loss = bireme.nn.CrossEntropyLoss()(bireme.to_tensor([[0.0, 0.0]]), bireme.to_tensor([1]))
    >>> round(loss.item(), 4)
    0.6931
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        soft_label: bool = False,
        axis: int = -1,
        use_softmax: bool = True,
        label_smoothing: float = 0.0,
        name: str | None = None,
    ):
        super().__init__()
        self.weight, self.ignore_index = weight, ignore_index
        self.reduction = _reduction("CrossEntropyLoss", reduction)
        self.soft_label, self.axis, self.use_softmax = soft_label, axis, use_softmax
        self.label_smoothing, self.name = label_smoothing, name

    def forward(self, input: Tensor, label: Tensor) -> Tensor:
        return cross_entropy(
            input,
            label,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            soft_label=self.soft_label,
            axis=self.axis,
            use_softmax=self.use_softmax,
            label_smoothing=self.label_smoothing,
        )


class MSELoss(Layer):
    """Mean of squared differences.

    >>> bireme.nn.MSELoss()(bireme.to_tensor([1.0, 2.0]), bireme.to_tensor([1.0, 4.0])).item()
    2.0
    """

    def __init__(self, reduction: str = "mean"):
        super().__init__()
        self.reduction = _reduction("MSELoss", reduction)

    def forward(self, input: Tensor, label: Tensor) -> Tensor:
        return mse_loss(input, label, self.reduction)


def _reduction(where: str, reduction: str) -> str:
    if reduction not in _REDUCTIONS:
        raise errors.bad(f"{where}(reduction)", "mean, sum or none", reduction)
    return reduction
