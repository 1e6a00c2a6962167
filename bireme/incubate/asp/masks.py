"""Masks that keep n of m elements: along rows, or along rows and columns of blocks; all by NumPy."""

from __future__ import annotations

import enum
import functools
import itertools
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.tensor.tensor import Tensor

MOST_PATTERNS = 1 << 20  # rows that are tried when patterns are listed: m = 4 has 1,296


class MaskAlgo(enum.Enum):
    """How masks are made: along rows, or along rows and columns, step by step or the best one.

    Examples:
        >>> bireme.incubate.asp.MaskAlgo.MASK_1D.value
        'get_mask_1d'
    """

    MASK_1D = "get_mask_1d"
    MASK_2D_GREEDY = "get_mask_2d_greedy"
    MASK_2D_BEST = "get_mask_2d_best"


class CheckMethod(enum.Enum):
    """How sparsity is checked: along rows, or along rows and columns.

    Examples:
        >>> bireme.incubate.asp.CheckMethod.CHECK_1D.value
        'check_mask_1d'
    """

    CHECK_1D = "check_mask_1d"
    CHECK_2D = "check_mask_2d"

    @staticmethod
    def get_checking_method(mask_algo: MaskAlgo) -> CheckMethod:
        """Return the check that fits a way of making masks.

        Args:
            mask_algo: Way of making masks.

        Returns:
            The check.

        Examples:
            >>> asp = bireme.incubate.asp
            >>> asp.CheckMethod.get_checking_method(asp.MaskAlgo.MASK_1D).value
            'check_mask_1d'
        """
        return CheckMethod.CHECK_1D if mask_algo is MaskAlgo.MASK_1D else CheckMethod.CHECK_2D


def calculate_density(x: np.ndarray | Tensor) -> float:
    """Return the part of elements that are not zero.

    Args:
        x: NumPy array or tensor with at least one element.

    Returns:
        Number in [0, 1].

    Raises:
        ZeroDivisionError: If there are no elements.

    Examples:
        >>> import numpy as np
        >>> bireme.incubate.asp.calculate_density(np.array([[0, 1, 3, 0], [1, 1, 0, 1]]))
        0.625
    """
    array = _host(x)
    return float(np.count_nonzero(array)) / array.size


def _host(x: Any) -> np.ndarray:
    return x.numpy() if isinstance(x, Tensor) else np.asarray(x)


def _check(where: str, n: Any, m: Any) -> None:
    for name, k in (("n", n), ("m", m)):
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)):
            raise errors.bad(f"{where}({name})", "an integer", k, kind=errors.ArgumentTypeError)
    if not 0 < n <= m:
        raise errors.bad(f"{where}(n)", f"a number from 1 to m = {m}", n)


def _matrix(where: str, mat: Any, n: Any, m: Any) -> np.ndarray:
    _check(where, n, m)
    found = _host(mat)
    if found.ndim != 2:
        raise errors.bad(f"{where}(mat)", "a matrix", described=f"shape {list(found.shape)}", kind=errors.ShapeError)
    return found


def _padded(mat: np.ndarray, rows: int, columns: int) -> np.ndarray:
    return np.pad(mat, ((0, -mat.shape[0] % rows), (0, -mat.shape[1] % columns)))


def _blocks(mat: np.ndarray, m: int) -> np.ndarray:
    """Blocks of m by m, as [block, m, m]."""
    wide = _padded(mat, m, m)
    r, c = wide.shape[0] // m, wide.shape[1] // m
    return wide.reshape(r, m, c, m).transpose(0, 2, 1, 3).reshape(-1, m, m)


def _joined(blocks: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    m = blocks.shape[1]
    r, c = -(-shape[0] // m), -(-shape[1] // m)
    return blocks.reshape(r, c, m, m).transpose(0, 2, 1, 3).reshape(r * m, c * m)[: shape[0], : shape[1]]


def get_mask_1d(mat: np.ndarray, n: int, m: int) -> np.ndarray:
    """Return the mask that keeps the n largest magnitudes of every m in a row.

    Args:
        mat: Matrix.
        n: How many are kept.
        m: Of how many.

    Returns:
        Matrix of ones and zeros, of the dtype of ``mat``.

    Examples:
        >>> import numpy as np
        >>> bireme.incubate.asp.get_mask_1d(np.array([[2.0, -8.0, 9.0, 9.0]]), 2, 4).tolist()
        [[0.0, 0.0, 1.0, 1.0]]
    """
    mat = _matrix("get_mask_1d", mat, n, m)
    groups = np.abs(_padded(mat, 1, m)).reshape(-1, m)
    # the last of equal ones is kept, as in Paddle
    least = np.argsort(groups, axis=1, kind="stable")[:, : m - n]
    mask = np.ones(groups.shape, mat.dtype)
    np.put_along_axis(mask, least, 0, axis=1)
    return mask.reshape(mat.shape[0], -1)[:, : mat.shape[1]]


def get_mask_2d_greedy(mat: np.ndarray, n: int, m: int) -> np.ndarray:
    """Return a mask that keeps at most n of every m in a row and in a column, the largest magnitudes first.

    Args:
        mat: Matrix.
        n: How many are kept.
        m: Of how many.

    Returns:
        Matrix of ones and zeros, of the dtype of ``mat``.

    Examples:
        >>> import numpy as np
        >>> bireme.incubate.asp.get_mask_2d_greedy(np.array([[9.0, 8.0], [7.0, 1.0]]), 1, 2).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    mat = _matrix("get_mask_2d_greedy", mat, n, m)
    blocks = _blocks(np.abs(mat), m)
    count = len(blocks)
    order = np.argsort(-blocks.reshape(count, -1), axis=1, kind="stable")
    mask, every = np.zeros(blocks.shape, mat.dtype), np.arange(count)
    rows, columns = np.zeros((count, m), int), np.zeros((count, m), int)
    for place in order.T:  # in all blocks at once: the largest, the next one, ...
        i, j = place // m, place % m
        free = (rows[every, i] < n) & (columns[every, j] < n)
        mask[every[free], i[free], j[free]] = 1
        rows[every, i] += free
        columns[every, j] += free
    return _joined(mask, mat.shape)


@functools.lru_cache(8)
def _patterns(n: int, m: int) -> np.ndarray:
    """All m by m matrices of zeros and ones with n ones in each row and column."""
    rows = [np.isin(np.arange(m), kept).astype(int) for kept in itertools.combinations(range(m), n)]
    if len(rows) ** m > MOST_PATTERNS:
        raise errors.bad("get_mask_2d_best(m)", "a size with fewer patterns, such as 4", m)
    found = [p for p in map(np.stack, itertools.product(rows, repeat=m)) if (p.sum(0) == n).all()]
    return np.stack(found)


def get_mask_2d_best(mat: np.ndarray, n: int, m: int) -> np.ndarray:
    """Return the mask that keeps n of every m in a row and in a column with the largest sum of magnitudes.

    Args:
        mat: Matrix.
        n: How many are kept.
        m: Of how many, at most 4 or so: all patterns are tried.

    Returns:
        Matrix of ones and zeros, of the dtype of ``mat``.

    Raises:
        ValueError: If there are too many patterns.

    Examples:
        >>> import numpy as np
        >>> bireme.incubate.asp.get_mask_2d_best(np.array([[9.0, 8.0], [7.0, 1.0]]), 1, 2).tolist()
        [[0.0, 1.0], [1.0, 0.0]]
    """
    mat = _matrix("get_mask_2d_best", mat, n, m)
    patterns, blocks = _patterns(n, m), _blocks(np.abs(mat), m)
    sums = blocks.reshape(len(blocks), -1) @ patterns.reshape(len(patterns), -1).T
    return _joined(patterns[sums.argmax(1)].astype(mat.dtype), mat.shape)


def check_mask_1d(mat: np.ndarray, n: int, m: int) -> bool:
    """Return whether at most n of every m elements in a row are not zero.

    Args:
        mat: Matrix.
        n: How many.
        m: Of how many.

    Returns:
        Whether it is so.

    Examples:
        >>> import numpy as np
        >>> bireme.incubate.asp.check_mask_1d(np.array([[0, 1, 3, 0], [1, 0, 0, 1]]), 2, 4)
        True
    """
    groups = _padded(_matrix("check_mask_1d", mat, n, m), 1, m).reshape(-1, m)
    return bool((np.count_nonzero(groups, axis=1) <= n).all())


def check_mask_2d(mat: np.ndarray, n: int, m: int) -> bool:
    """Return whether at most n of every m elements in a row and in a column of every block are not zero.

    Args:
        mat: Matrix.
        n: How many.
        m: Of how many.

    Returns:
        Whether it is so.

    Examples:
        >>> import numpy as np
        >>> bireme.incubate.asp.check_mask_2d(np.array([[0, 8], [9, 0]]), 1, 2)
        True
    """
    blocks = _blocks(_matrix("check_mask_2d", mat, n, m), m) != 0
    return bool((blocks.sum(1) <= n).all() and (blocks.sum(2) <= n).all())


def _flat(where: str, x: np.ndarray) -> tuple[np.ndarray, Any]:
    """A tensor as a matrix whose rows have the inputs of one output, and the way back."""
    if x.ndim == 1:
        return x.reshape(1, -1), lambda mask: mask.reshape(x.shape)
    if x.ndim == 2:
        return x, lambda mask: mask
    if x.ndim == 3:
        return x.reshape(-1, x.shape[2]), lambda mask: mask.reshape(x.shape)
    if x.ndim == 4:  # kernels [out, in, height, width]: channels of the input last
        moved = x.transpose(0, 2, 3, 1)
        return moved.reshape(-1, x.shape[1]), lambda mask: mask.reshape(moved.shape).transpose(0, 3, 1, 2)
    raise errors.bad(f"{where}(tensor)", "1 to 4 dimensions", described=f"{x.ndim}", kind=errors.ShapeError)


_FUNCTIONS = {
    MaskAlgo.MASK_1D: get_mask_1d,
    MaskAlgo.MASK_2D_GREEDY: get_mask_2d_greedy,
    MaskAlgo.MASK_2D_BEST: get_mask_2d_best,
}


def create_mask(
    tensor: np.ndarray | Tensor, func_name: MaskAlgo = MaskAlgo.MASK_1D, n: int = 2, m: int = 4
) -> np.ndarray:
    """Return a mask that keeps n of every m elements, for kernels of convolutions along their input channels.

    Args:
        tensor: NumPy array or tensor with 1 to 4 dimensions.
        func_name: Way of making it. Default: ``MaskAlgo.MASK_1D``.
        n: How many are kept. Default: 2.
        m: Of how many. Default: 4.

    Returns:
        Array of ones and zeros in the shape of ``tensor``.

    Raises:
        ValueError: If there are more than 4 dimensions.

    Examples:
        >>> import numpy as np
        >>> bireme.incubate.asp.create_mask(np.array([[2.0, 8.0, 9.0, 9.0]])).tolist()
        [[0.0, 0.0, 1.0, 1.0]]
    """
    x = _host(tensor)
    matrix, back = _flat("create_mask", x)
    if func_name not in _FUNCTIONS:
        raise errors.bad("create_mask(func_name)", "a MaskAlgo", func_name, kind=errors.ArgumentTypeError)
    return back(_FUNCTIONS[func_name](matrix, n, m))


def check_sparsity(
    tensor: np.ndarray | Tensor, func_name: CheckMethod = CheckMethod.CHECK_1D, n: int = 2, m: int = 4
) -> bool:
    """Return whether at most n of every m elements are not zero.

    Args:
        tensor: NumPy array or tensor with 1 to 4 dimensions.
        func_name: Along rows, or along rows and columns. Default: ``CheckMethod.CHECK_1D``.
        n: How many. Default: 2.
        m: Of how many. Default: 4.

    Returns:
        Whether it is so.

    Raises:
        ValueError: If there are more than 4 dimensions.

    Examples:
        >>> import numpy as np
        >>> bireme.incubate.asp.check_sparsity(np.array([[0.0, 8.0, 9.0, 9.0]]))
        False
    """
    matrix, _ = _flat("check_sparsity", _host(tensor))
    return (check_mask_1d if func_name is CheckMethod.CHECK_1D else check_mask_2d)(matrix, n, m)


guard_functions(globals())
