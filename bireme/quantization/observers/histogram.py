"""Observers that keep a histogram of magnitudes: a percentile, what loses the least information, or the least error."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.ops import full_like, to_tensor
from bireme.quantization.factory import QuanterFactory
from bireme.quantization.observers.observer import SymmetricObserver, check_bits


class Histogram:
    """Counts of magnitudes in bins of equal width, which double when a larger magnitude comes."""

    def __init__(self, bins: int, owner: str = "HistObserver"):
        self.owner = owner
        self.counts, self.top, self.most = np.zeros(bins, np.int64), 0.0, 0.0

    def add(self, x: np.ndarray) -> None:
        most = float(x.max(initial=0.0))
        if not np.isfinite(most):
            raise errors.bad(f"{self.owner}(input)", "finite numbers", most)
        self.most = max(self.most, most)
        if not self.top:
            self.top = most
        while most > self.top > 0:
            halves = self.counts.reshape(-1, 2).sum(1)
            self.counts, self.top = np.concatenate([halves, np.zeros_like(halves)]), 2 * self.top
        if self.top and x.size:
            self.counts += np.histogram(x, len(self.counts), (0.0, self.top))[0]

    def percentile(self, percent: float) -> float:
        """The magnitude below which so large a part of the numbers is."""
        part = np.cumsum(self.counts) / max(int(self.counts.sum()), 1)
        at = int(np.searchsorted(part, percent))
        return min((at + 1) * self.top / len(self.counts), self.most)

    def least_divergence(self, bits: int) -> float:
        """The magnitude at which to cut off so that the numbers, in so many bits, say most about what they were:
        with the least Kullback-Leibler divergence.
        """
        levels, bins = 2 ** (bits - 1), len(self.counts)
        filled = int(np.flatnonzero(self.counts)[-1]) + 1 if self.counts.any() else 0
        if filled <= levels:
            return self.most
        best, found = np.inf, filled
        for n in [*range(levels, filled, max(bins // levels // 2, 1)), filled]:
            kept = self.counts[:n].astype(np.float64)
            p = kept.copy()
            p[-1] += self.counts[n:].sum()
            # bins that fall together share their numbers equally, but for those that are empty
            group = np.arange(n) * levels // n
            used = kept > 0
            total = np.bincount(group, kept, levels)
            members = np.bincount(group, used, levels)
            q = np.where(used, (total / np.maximum(members, 1))[group], 0.0)
            p, q = p / p.sum(), q / max(q.sum(), 1)
            both = (p > 0) & (q > 0)
            divergence = float((p[both] * np.log(p[both] / q[both])).sum() + p[(p > 0) & (q == 0)].sum() * np.log(1e9))
            if divergence < best:
                best, found = divergence, n
        return min(found * self.top / bins, self.most)

    def least_error(self, bits: int) -> float:
        """The magnitude at which to cut off so that rounding and cutting together cost the least squared error."""
        levels, bins = 2 ** (bits - 1) - 1, len(self.counts)
        if not self.top:
            return self.most
        at = (np.arange(bins) + 0.5) * (self.top / bins)
        best, found = np.inf, self.most
        for cut in self.most * np.linspace(1.0, 0.05, 96):
            step = cut / levels
            far = at - np.minimum(np.round(at / step), levels) * step
            error = float(self.counts @ (far * far))
            if error < best:
                best, found = error, float(cut)
        return found


class _HistogramObserver(SymmetricObserver):
    """An observer that reads its tensors and keeps a histogram."""

    def __init__(self, quant_bits: int, bins_count: int):
        super().__init__(None, quant_bits)
        self._histogram, self._stale = Histogram(bins_count, type(self).__name__.removesuffix("Layer")), False

    def _see(self, x: Tensor) -> None:
        self._histogram.add(self._counted(np.abs(x.astype("float32").numpy()).ravel()))
        self._stale = True

    def _counted(self, x: np.ndarray) -> np.ndarray:
        return x

    def cal_thresholds(self) -> None:
        """Compute the scale from the histogram."""
        if self._stale:
            self._keep(to_tensor(np.float32(self._found())))
            self._stale = False

    def _found(self) -> float:
        raise NotImplementedError


def _check_bins(name: str, bins: Any) -> None:
    if isinstance(bins, bool) or not isinstance(bins, int) or bins < 2 or bins % 2:
        raise errors.bad(f"{name}(bins_count)", "an even positive integer", bins, kind=errors.for_integer(bins))


class HistObserver(QuanterFactory):
    """Factory of observers of a percentile of the magnitudes.

    What lies above it is cut off, so that a few large numbers do not make all others coarse.

    Args:
        quant_bits: Width of the integers. Default: 8.
        bins_count: Number of bins of the histogram, even. Default: 2048.
        percent: Part of the numbers that is not cut off, in (0, 1]. Default: 0.9999.

    Examples:
        >>> observer = bireme.quantization.observers.HistObserver(percent=0.9)._instance(None)
        >>> _ = observer(bireme.to_tensor([1.0] * 95 + [100.0] * 5))
        >>> observer.scales().item() < 1.1
        True
    """

    def __init__(self, quant_bits: int = 8, bins_count: int = 2048, percent: float = 0.9999):
        check_bits("HistObserver", quant_bits)
        _check_bins("HistObserver", bins_count)
        errors.check_number("HistObserver(percent)", percent)
        if not 0 < percent <= 1:
            raise errors.bad("HistObserver(percent)", "a number in (0, 1]", percent)
        super().__init__(quant_bits=quant_bits, bins_count=bins_count, percent=percent)

    def _get_class(self) -> type:
        return HistObserverLayer


class HistObserverLayer(_HistogramObserver):
    """Observer of a percentile of the magnitudes; ``HistObserver`` makes it.

    Args:
        layer: Layer whose weight or input it observes. Default: None.
        quant_bits: Width of the integers. Default: 8.
        bins_count: Number of bins of the histogram, even. Default: 2048.
        percent: Part of the numbers that is not cut off. Default: 0.9999.

    Examples:
        >>> bireme.quantization.observers.HistObserverLayer().bit_length()
        8
    """

    def __init__(self, layer: Any = None, quant_bits: int = 8, bins_count: int = 2048, percent: float = 0.9999):
        super().__init__(quant_bits, bins_count)
        self._percent = percent

    def _found(self) -> float:
        return self._histogram.percentile(self._percent)


class KLObserver(QuanterFactory):
    """Factory of observers that cut magnitudes off where the Kullback-Leibler divergence is least.

    Args:
        quant_bits: Width of the integers. Default: 8.
        bins_count: Number of bins of the histogram, even. Default: 2048.

    Examples:
        >>> observer = bireme.quantization.observers.KLObserver()._instance(None)
        >>> _ = observer(bireme.linspace(-1.0, 1.0, 1000))
        >>> observer.scales().item()
        1.0
    """

    def __init__(self, quant_bits: int = 8, bins_count: int = 2048):
        check_bits("KLObserver", quant_bits)
        _check_bins("KLObserver", bins_count)
        super().__init__(quant_bits=quant_bits, bins_count=bins_count)

    def _get_class(self) -> type:
        return KLObserverLayer


class KLObserverLayer(_HistogramObserver):
    """Observer with the least Kullback-Leibler divergence; ``KLObserver`` makes it.

    Args:
        layer: Layer whose weight or input it observes. Default: None.
        quant_bits: Width of the integers. Default: 8.
        bins_count: Number of bins of the histogram, even. Default: 2048.

    Examples:
        >>> bireme.quantization.observers.KLObserverLayer().bit_length()
        8
    """

    def __init__(self, layer: Any = None, quant_bits: int = 8, bins_count: int = 2048):
        super().__init__(quant_bits, bins_count)

    def _counted(self, x: np.ndarray) -> np.ndarray:
        # zero is an integer at any scale: the many zeros of a ReLU say nothing about where to cut
        return x[x > 0]

    def _found(self) -> float:
        return self._histogram.least_divergence(self._quant_bits)


class MSEObserver(QuanterFactory):
    """Factory of observers that cut numbers off where the squared error is least.

    A few large numbers that matter stay, where a percentile would cut them off.

    Args:
        quant_bits: Width of the integers. Default: 8.
        bins_count: Number of bins of the histogram, even. Default: 2048.
        symmetric: Let 0 mean zero, so that both signs have as many integers. If it is False, there is a zero point, and
            numbers that are never negative have twice as many integers; for inputs, not for weights. Default: True.

    Examples:
        >>> observer = bireme.quantization.observers.MSEObserver()._instance(None)
        >>> _ = observer(bireme.to_tensor([1.0] * 9999 + [100.0]))
        >>> round(observer.scales().item())
        100
        >>> observer = bireme.quantization.observers.MSEObserver(symmetric=False)._instance(None)
        >>> _ = observer(bireme.linspace(0.0, 2.55, 256))
        >>> round(observer.scales().item() / 127, 4), observer.zero_points().item()
        (0.01, -128.0)
    """

    def __init__(self, quant_bits: int = 8, bins_count: int = 2048, symmetric: bool = True):
        check_bits("MSEObserver", quant_bits)
        _check_bins("MSEObserver", bins_count)
        super().__init__(quant_bits=quant_bits, bins_count=bins_count, symmetric=symmetric)

    def _get_class(self) -> type:
        return MSEObserverLayer


class MSEObserverLayer(_HistogramObserver):
    """Observer with the least squared error; ``MSEObserver`` makes it.

    Args:
        layer: Layer whose weight or input it observes. Default: None.
        quant_bits: Width of the integers. Default: 8.
        bins_count: Number of bins of the histogram, even. Default: 2048.
        symmetric: Let 0 mean zero. Default: True.

    Examples:
        >>> bireme.quantization.observers.MSEObserverLayer().bit_length()
        8
    """

    def __init__(self, layer: Any = None, quant_bits: int = 8, bins_count: int = 2048, symmetric: bool = True):
        super().__init__(quant_bits, bins_count)
        self._below = None if symmetric else Histogram(bins_count, "MSEObserver")
        self._zero = 0

    def _see(self, x: Tensor) -> None:
        if self._below is None:
            return super()._see(x)
        numbers = x.astype("float32").numpy().ravel()
        self._histogram.add(numbers[~(numbers < 0)])
        self._below.add(-numbers[numbers < 0])
        self._stale = True

    def _found(self) -> float:
        if self._below is None:
            return self._histogram.least_error(self._quant_bits)
        low, high = least_error_between(self._below, self._histogram, self._quant_bits)
        top = 2 ** (self._quant_bits - 1)
        step = (low + high) / (2 * top - 1)
        self._zero = round(low / step) - top if step else 0
        return step * (top - 1)  # by which a step is found of it again

    def zero_points(self) -> Tensor | None:
        """Return the integers that mean zero.

        Returns:
            Tensor of one number, or None if no data was seen.
        """
        found = self.scales()
        return None if found is None else full_like(found, self._zero)


def least_error_between(below: Histogram, above: Histogram, bits: int) -> tuple[float, float]:
    """How far integers with a zero point reach below and above zero at the least squared error: first the end above is
    moved, then the one below.
    """
    sides = [(h, (np.arange(len(h.counts)) + 0.5) * (h.top / len(h.counts))) for h in (below, above)]

    def error(low: float, high: float) -> float:
        step = (low + high) / (2**bits - 1)
        if not step:
            return np.inf
        under = round(low / step)
        total = 0.0
        for (h, at), most in zip(sides, (under, 2**bits - 1 - under), strict=True):
            far = at - np.minimum(np.round(at / step), most) * step
            total += float(h.counts @ (far * far))
        return total

    parts = np.linspace(1.0, 0.05, 96)
    low, high = below.most, above.most
    high = min((high * part for part in parts), key=lambda to: error(low, to))
    low = min((low * part for part in parts), key=lambda to: error(to, high))
    return float(low), float(high)
