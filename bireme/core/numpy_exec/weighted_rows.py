"""Weighted sums of rows at indices, their transpose and the gradient of the weights: what samples of images are made of.

A matrix of indices `[n, k]` with weights is a sparse one of `k` entries in each row; SciPy's loops multiply by it.
"""

from __future__ import annotations

import numpy as np

from bireme.core.numpy_exec import sparsetools

BLOCK = 1 << 17  # elements that are gathered at a time


def rows(index: np.ndarray, weights: np.ndarray, flat: np.ndarray) -> np.ndarray:
    """For each row of entries the weighed sum of the rows of `flat` that it names."""
    loop = sparsetools.loop("csr_matvecs")
    if loop is None:
        return np.einsum("rk,rkc->rc", weights, flat[index])
    out = np.zeros((len(index), flat.shape[1]), flat.dtype)
    starts = np.arange(len(index) + 1, dtype=index.dtype) * index.shape[1]
    loop(len(index), *flat.shape, starts, index.reshape(-1), weights.reshape(-1), flat.reshape(-1), out.reshape(-1))
    return out


def add_to_rows(total: np.ndarray, index: np.ndarray, weights: np.ndarray, parts: np.ndarray) -> None:
    """The transpose of `rows`: each of `parts` is added to those of `total` that its entries name."""
    loop = sparsetools.loop("csc_matvecs")
    if loop is None:
        np.add.at(total, index, weights[..., None] * parts[:, None])
        return
    starts = np.arange(len(index) + 1, dtype=index.dtype) * index.shape[1]
    sizes = (len(total), len(index), total.shape[1])
    loop(*sizes, starts, index.reshape(-1), weights.reshape(-1), parts.reshape(-1), total.reshape(-1))


def dots(index: np.ndarray, flat: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """The product of each of `parts` with the rows of `flat` that its entries name: the gradient of the weights."""
    out = np.empty(index.shape, flat.dtype)
    step = max(1, BLOCK // max(index.shape[1] * flat.shape[1], 1))
    for i in range(0, len(index), step):
        np.einsum("rkc,rc->rk", flat[index[i : i + step]], parts[i : i + step], out=out[i : i + step])
    return out
