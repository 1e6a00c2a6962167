"""The interface of what looks at tensors to find scales."""

from __future__ import annotations

import abc

from bireme.quantization.base_quanter import BaseQuanter


class BaseObserver(BaseQuanter, abc.ABC):
    """Quanter that returns its input as it is, and gathers what scales are computed from.

    Examples:
        >>> observer = bireme.quantization.observers.AbsmaxObserver()._instance(None)
        >>> isinstance(observer, bireme.quantization.BaseObserver)
        True
    """

    @abc.abstractmethod
    def cal_thresholds(self) -> None:
        """Compute the scales from what was seen."""
