"""Quantizers of the older interface: they sample tensors of a layer, and compute thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.quantization.factory import QuanterFactory
from bireme.quantization.observers import AbsMaxChannelWiseWeightObserver, AbsmaxObserver, HistObserver, KLObserver


class BaseQuantizer:
    """What samples tensors and computes a threshold for each of them.

    Args:
        quant_bits: Width of the integers. Default: 8.

    Examples:
        >>> bireme.quantization.BaseQuantizer(quant_bits=8).quant_bits
        8
    """

    def __init__(self, quant_bits: int = 8):
        if isinstance(quant_bits, bool) or not isinstance(quant_bits, int) or not 2 <= quant_bits <= 16:
            raise errors.bad(
                f"{type(self).__name__}(quant_bits)",
                "an integer in [2, 16]",
                quant_bits,
                kind=errors.for_integer(quant_bits),
            )
        self.quant_bits = quant_bits
        self.thresholds: list[Any] = []
        self._observers: list[Any] = []

    def factory(self) -> QuanterFactory:
        """Return the factory of observers that do the same.

        Returns:
            Factory.

        Examples:
            >>> bireme.quantization.AbsmaxQuantizer().factory()
            AbsmaxObserver(quant_bits=8)
        """
        return AbsmaxObserver(self.quant_bits)

    def sample_data(self, layer: Any, tensors: Sequence[Tensor]) -> None:
        """Look at tensors.

        Args:
            layer: Layer that they belong to.
            tensors: Tuple or list of tensors, always as many.

        Examples:
            >>> quantizer = bireme.quantization.AbsmaxQuantizer()
            >>> quantizer.sample_data(None, (bireme.to_tensor([1.0, -2.0]),))
        """
        if not isinstance(tensors, (list, tuple)):
            raise errors.bad("sample_data(tensors)", "a tuple of tensors", tensors, kind=errors.ArgumentTypeError)
        while len(self._observers) < len(tensors):
            self._observers.append(self.factory()._instance(layer))
        for observer, t in zip(self._observers, tensors, strict=False):
            observer(t)

    def cal_thresholds(self) -> None:
        """Compute the thresholds; ``thresholds`` has them then, one for each tensor.

        Examples:
            >>> quantizer = bireme.quantization.AbsmaxQuantizer()
            >>> quantizer.sample_data(None, (bireme.to_tensor([1.0, -2.0]),))
            >>> quantizer.cal_thresholds()
            >>> quantizer.thresholds
            [2.0]
        """
        self.thresholds = [observer.scales().tolist() for observer in self._observers]


class AbsmaxQuantizer(BaseQuantizer):
    """Quantizer with the largest magnitude as threshold.

    Args:
        quant_bits: Width of the integers. Default: 8.

    Examples:
        >>> bireme.quantization.AbsmaxQuantizer().quant_bits
        8
    """


class PerChannelAbsmaxQuantizer(BaseQuantizer):
    """Quantizer of weights with the largest magnitude of each output channel as threshold.

    Args:
        quant_bits: Width of the integers. Default: 8.

    Examples:
        >>> quantizer = bireme.quantization.PerChannelAbsmaxQuantizer()
        >>> quantizer.sample_data(None, (bireme.to_tensor([[1.0, -2.0]]),))
        >>> quantizer.cal_thresholds()
        >>> quantizer.thresholds
        [[1.0, 2.0]]
    """

    def factory(self) -> QuanterFactory:
        """Return the factory of observers that do the same.

        Returns:
            Factory.

        Examples:
            >>> type(bireme.quantization.PerChannelAbsmaxQuantizer().factory()).__name__
            'AbsMaxChannelWiseWeightObserver'
        """
        return AbsMaxChannelWiseWeightObserver(self.quant_bits)


class HistQuantizer(BaseQuantizer):
    """Quantizer with a percentile of the magnitudes as threshold.

    Args:
        quant_bits: Width of the integers. Default: 8.
        bins: Number of bins of the histogram. Default: 1024.
        upsample_bins: Not used: bins double when a larger magnitude comes. Default: 64.
        hist_percent: Part of the numbers that is not cut off. Default: 0.99999.

    Examples:
        >>> bireme.quantization.HistQuantizer().hist_percent
        0.99999
    """

    def __init__(self, quant_bits: int = 8, bins: int = 1024, upsample_bins: int = 64, hist_percent: float = 0.99999):
        super().__init__(quant_bits)
        self.bins, self.upsample_bins, self.hist_percent = bins, upsample_bins, hist_percent
        self.factory()  # which looks at them

    def factory(self) -> QuanterFactory:
        """Return the factory of observers that do the same.

        Returns:
            Factory.

        Examples:
            >>> type(bireme.quantization.HistQuantizer().factory()).__name__
            'HistObserver'
        """
        return HistObserver(self.quant_bits, self.bins, self.hist_percent)


class KLQuantizer(BaseQuantizer):
    """Quantizer with the threshold at which the Kullback-Leibler divergence is least.

    Args:
        quant_bits: Width of the integers. Default: 8.
        bins: Number of bins of the histogram. Default: 1024.
        upsample_bins: Not used: bins double when a larger magnitude comes. Default: 64.

    Examples:
        >>> bireme.quantization.KLQuantizer().bins
        1024
    """

    def __init__(self, quant_bits: int = 8, bins: int = 1024, upsample_bins: int = 64):
        super().__init__(quant_bits)
        self.bins, self.upsample_bins = bins, upsample_bins
        self.factory()  # which looks at them

    def factory(self) -> QuanterFactory:
        """Return the factory of observers that do the same.

        Returns:
            Factory.

        Examples:
            >>> type(bireme.quantization.KLQuantizer().factory()).__name__
            'KLObserver'
        """
        return KLObserver(self.quant_bits, self.bins)


SUPPORT_ACT_QUANTIZERS = [AbsmaxQuantizer, HistQuantizer, KLQuantizer]
SUPPORT_WT_QUANTIZERS = [AbsmaxQuantizer, PerChannelAbsmaxQuantizer]
