"""Windows by name: computed once on the host in float64, then a tensor."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bireme.audio.functional.arguments import float_dtype, whole
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.tensor.tensor import Tensor
from bireme.ops.creation.tensors import to_tensor

# each takes the number of samples of a symmetric window, at least 2, and its own parameters


def _general_cosine(m: int, a: Sequence[float]) -> np.ndarray:
    phase = np.linspace(-math.pi, math.pi, m)
    return np.sum([c * np.cos(k * phase) for k, c in enumerate(a)], axis=0)


def _general_hamming(m: int, alpha: float) -> np.ndarray:
    return _general_cosine(m, [alpha, 1 - alpha])


def _general_gaussian(m: int, p: float, sig: float) -> np.ndarray:
    return np.exp(-0.5 * np.abs(_centered(m) / sig) ** (2 * p))


def _gaussian(m: int, std: float) -> np.ndarray:
    return np.exp(-0.5 * (_centered(m) / std) ** 2)


def _exponential(m: int, center: float | None = None, tau: float = 1.0) -> np.ndarray:
    return np.exp(-np.abs(np.arange(m) - ((m - 1) / 2 if center is None else center)) / tau)


def _kaiser(m: int, beta: float) -> np.ndarray:
    inner = np.maximum(1 - (2 * _centered(m) / (m - 1)) ** 2, 0)  # rounding may leave the last one below zero
    return np.i0(beta * np.sqrt(inner)) / np.i0(beta)


def _bartlett(m: int) -> np.ndarray:
    return 1 - np.abs(2 * _centered(m) / (m - 1))


def _triang(m: int) -> np.ndarray:
    return 1 - np.abs(2 * _centered(m)) / (m + m % 2)


def _bohman(m: int) -> np.ndarray:
    x = np.abs(np.linspace(-1, 1, m))
    found = (1 - x) * np.cos(math.pi * x) + np.sin(math.pi * x) / math.pi
    found[[0, -1]] = 0
    return found


def _cosine(m: int) -> np.ndarray:
    return np.sin(math.pi / m * (np.arange(m) + 0.5))


def _tukey(m: int, alpha: float = 0.5) -> np.ndarray:
    if alpha <= 0:
        return np.ones(m)
    alpha = min(alpha, 1.0)
    from_end = np.minimum(np.arange(m), np.arange(m)[::-1]) * 2 / (alpha * (m - 1))
    return np.where(from_end < 1, 0.5 * (1 - np.cos(math.pi * from_end)), 1.0)


def _taylor(m: int, nbar: int = 4, sll: float = 30, norm: bool = True) -> np.ndarray:
    a = math.acosh(10 ** (sll / 20)) / math.pi
    k = np.arange(1, nbar)
    ratio = (a**2 + (k - 0.5) ** 2) * nbar**2 / (a**2 + (nbar - 0.5) ** 2)
    coefficients = [
        (-1) ** (i + 1) * np.prod(1 - i**2 / ratio) / (2 * np.prod(1 - i**2 / k[k != i] ** 2)) for i in k.tolist()
    ]

    def at(n: np.ndarray) -> np.ndarray:
        terms = [c * np.cos(2 * math.pi * i * (n - m / 2 + 0.5) / m) for i, c in enumerate(coefficients, 1)]
        return 1 + 2 * np.sum(terms, axis=0)

    found = at(np.arange(m)) if nbar > 1 else np.ones(m)
    return found / at(np.array((m - 1) / 2)) if norm and nbar > 1 else found


def _centered(m: int) -> np.ndarray:
    return np.arange(m) - (m - 1) / 2


_WINDOWS: dict[str, Callable[..., np.ndarray]] = {
    "bartlett": _bartlett,
    "blackman": lambda m: _general_cosine(m, [0.42, 0.5, 0.08]),
    "bohman": _bohman,
    "cosine": _cosine,
    "exponential": _exponential,
    "gaussian": _gaussian,
    "general_cosine": _general_cosine,
    "general_gaussian": _general_gaussian,
    "general_hamming": _general_hamming,
    "hamming": lambda m: _general_hamming(m, 0.54),
    "hann": lambda m: _general_hamming(m, 0.5),
    "kaiser": _kaiser,
    "nuttall": lambda m: _general_cosine(m, [0.3635819, 0.4891775, 0.1365995, 0.0106411]),
    "taylor": _taylor,
    "triang": _triang,
    "tukey": _tukey,
}


def get_window(window: str | tuple[Any, ...], win_length: int, fftbins: bool = True, dtype: Any = "float64") -> Tensor:
    """Return a window by its name.

    Args:
        window: A name among ``'bartlett'``, ``'blackman'``, ``'bohman'``, ``'cosine'``, ``'hamming'``, ``'hann'``,
            ``'nuttall'``, ``'taylor'``, ``'triang'``, ``'tukey'``, or a tuple of a name and its parameters:
            ``('exponential', center, tau)``, ``('gaussian', std)``, ``('general_cosine', coefficients)``,
            ``('general_gaussian', p, sig)``, ``('general_hamming', alpha)``, ``('kaiser', beta)``,
            ``('taylor', nbar, sll, norm)``, ``('tukey', alpha)``.
        win_length: Number of samples.
        fftbins: Whether the window is periodic, as a Fourier transform takes it, instead of symmetric. Default: True.
        dtype: Data type of the result, a floating-point one. Default: ``'float64'``.

    Returns:
        Tensor of shape ``[win_length]``.

    Raises:
        ValueError: If there is no such window, or it needs other parameters.

    Examples:
        >>> bireme.audio.functional.get_window("hann", 4).tolist()
        [0.0, 0.5, 1.0, 0.5]
        >>> bireme.audio.functional.get_window(("tukey", 0.0), 3, fftbins=False, dtype="float32").tolist()
        [1.0, 1.0, 1.0]
    """
    name, *parameters = window if isinstance(window, tuple) and window else (window,)
    made = _WINDOWS.get(name) if isinstance(name, str) else None
    if made is None:
        raise errors.bad("get_window(window)", f"one of {', '.join(map(repr, _WINDOWS))}", window)
    own = list(inspect.signature(made).parameters.values())[1:]
    needed = 1 if made is _exponential and window == name else sum(p.default is p.empty for p in own)
    if not needed <= len(parameters) <= len(own):
        told = "".join(f", {p.name}" for p in own)
        raise errors.bad("get_window(window)", f"a tuple ('{name}'{told})" if own else f"'{name}' alone", window)
    m = whole("get_window(win_length)", win_length, 0)
    dtype = float_dtype("get_window(dtype)", dtype)
    if made is _exponential and not fftbins and parameters[:1] not in ([], [None]):
        raise errors.bad("get_window(window)", "None as the center of a symmetric window", parameters[0])
    try:
        found = np.ones(m) if m <= 1 else made(m + bool(fftbins), *parameters)[:m]
    except (TypeError, ValueError, ArithmeticError) as e:
        raise errors.bad(
            "get_window(window)", f"numbers as parameters of '{name}'", described=f"{window}: {e}"
        ) from None
    return to_tensor(found.astype(dtype))


guard_functions(globals())
