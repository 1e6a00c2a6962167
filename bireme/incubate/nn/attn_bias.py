"""Masks of attention by what they mean: everything before, sequences one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.ops import concat, to_tensor


def _filled(keeps: np.ndarray, shape: Any, dtype: Any) -> Tensor:
    """0 where a mask keeps and -inf elsewhere, as a tensor of the given shape, of which the mask is the last two axes."""
    return to_tensor(np.broadcast_to(np.where(keeps, 0.0, -np.inf).astype(np.float32), tuple(shape)).copy()).astype(dtype)


class AttentionBias:
    """What is added to the scores of attention; a subclass says what in `materialize`."""

    def materialize(self, shape: Any, dtype: Any = "float32") -> Tensor:
        """The numbers that are added, for scores of this shape."""
        raise NotImplementedError(f"{type(self).__name__}: not written")


class LowerTriangularMask(AttentionBias):
    """Each query attends to the keys up to its own place.

    >>> bireme.incubate.nn.attn_bias.LowerTriangularMask().materialize([2, 2]).tolist()
    [[0.0, -inf], [0.0, 0.0]]
    """

    def materialize(self, shape: Any, dtype: Any = "float32") -> Tensor:
        return _filled(np.tril(np.ones(tuple(shape)[-2:], bool)), shape, dtype)

    def add_bias(self, bias: Tensor) -> LowerTriangularMaskWithTensorBias:
        """The same with numbers added.

        >>> mask = bireme.incubate.nn.attn_bias.LowerTriangularMask().add_bias(bireme.ones([2, 2]))
        >>> mask.materialize([2, 2]).tolist()
        [[1.0, -inf], [1.0, 1.0]]
        """
        return LowerTriangularMaskWithTensorBias(bias)


class LowerTriangularMaskWithTensorBias(LowerTriangularMask):
    """Each query attends to the keys up to its own place, with numbers added to the scores.

    >>> mask = bireme.incubate.nn.attn_bias.LowerTriangularMaskWithTensorBias(bireme.ones([2, 2]))
    >>> mask.materialize([2, 2]).tolist()
    [[1.0, -inf], [1.0, 1.0]]
    """

    def __init__(self, bias: Tensor):
        self._bias = bias

    def materialize(self, shape: Any, dtype: Any = "float32") -> Tensor:
        return super().materialize(shape, dtype) + self._bias.astype(dtype)


class BlockDiagonalMask(AttentionBias):
    """Sequences one after the other, each of which attends to itself alone.

    >>> bireme.incubate.nn.attn_bias.BlockDiagonalMask.from_seqlens([1, 1]).materialize([2, 2]).tolist()
    [[0.0, -inf], [-inf, 0.0]]
    """

    _causal = False

    def __init__(self, q_lens: list[int], k_lens: list[int], batches: list[int] | None = None):
        if len(q_lens) != len(k_lens) or any(not isinstance(n, int) or n < 0 for n in (*q_lens, *k_lens)):
            raise errors.bad("BlockDiagonalMask()", "as many lengths of keys as of queries", f"{q_lens} and {k_lens}")
        self._q_lens, self._k_lens, self._batches = list(q_lens), list(k_lens), batches

    @classmethod
    def from_seqlens(cls, q_seqlen: list[int], kv_seqlen: list[int] | None = None) -> BlockDiagonalMask:
        """A mask for sequences of these lengths.

        >>> bireme.incubate.nn.attn_bias.BlockDiagonalMask.from_seqlens([2], [1]).materialize([2, 1]).tolist()
        [[0.0], [0.0]]
        """
        return cls(list(q_seqlen), list(q_seqlen if kv_seqlen is None else kv_seqlen))

    @classmethod
    def from_tensor_list(cls, tensors: list[Tensor]) -> tuple[BlockDiagonalMask, Tensor]:
        """A mask for tensors [batch, length, ...], and those one after the other as [1, total, ...].

        >>> mask, x = bireme.incubate.nn.attn_bias.BlockDiagonalMask.from_tensor_list([bireme.ones([2, 3, 1]), bireme.ones([1, 2, 1])])
        >>> x.shape, [t.shape for t in mask.split(x)]
        ([1, 8, 1], [[2, 3, 1], [1, 2, 1]])
        """
        lens = [t.shape[1] for t in tensors for _ in range(t.shape[0])]
        rows = [t.reshape([1, t.shape[0] * t.shape[1], *t.shape[2:]]) for t in tensors]
        return cls(lens, list(lens), [t.shape[0] for t in tensors]), concat(rows, 1)

    @classmethod
    def from_tensor_lists_qkv(cls, tensors_q: list[Tensor], tensors_k: list[Tensor], tensors_v: list[Tensor] | None = None) -> tuple:
        """A mask for queries and keys [batch, length, ...], and queries, keys and values one after the other.

        >>> q, k = [bireme.ones([1, 2, 1])], [bireme.ones([1, 3, 1])]
        >>> mask, *rows = bireme.incubate.nn.attn_bias.BlockDiagonalMask.from_tensor_lists_qkv(q, k, k)
        >>> [t.shape for t in rows]
        [[1, 2, 1], [1, 3, 1], [1, 3, 1]]
        """
        q, k = cls.from_tensor_list(tensors_q), cls.from_tensor_list(tensors_k)
        v = None if tensors_v is None else cls.from_tensor_list(tensors_v)[1]
        return cls(q[0]._q_lens, k[0]._q_lens, q[0]._batches), q[1], k[1], v

    def materialize(self, shape: Any, dtype: Any = "float32") -> Tensor:
        rows, columns = tuple(shape)[-2:]
        if (rows, columns) != (sum(self._q_lens), sum(self._k_lens)):
            wanted = [sum(self._q_lens), sum(self._k_lens)]
            raise errors.bad(f"{type(self).__name__}.materialize(shape)", f"last axes of {wanted}", list(shape))
        keeps, i, j = np.zeros((rows, columns), bool), 0, 0
        for n, m in zip(self._q_lens, self._k_lens, strict=True):
            keeps[i : i + n, j : j + m] = np.tril(np.ones((n, m), bool)) if self._causal else True
            i, j = i + n, j + m
        return _filled(keeps, shape, dtype)

    def _parts(self, tensor: Tensor, lens: list[int]) -> list[Tensor]:
        batches, found, at, place = self._batches or [1] * len(lens), [], 0, 0
        for b in batches:
            n = lens[place]
            found.append(tensor[:, at : at + b * n].reshape([b, n, *tensor.shape[2:]]))
            at, place = at + b * n, place + b
        return found

    def split_queries(self, tensor: Tensor) -> list[Tensor]:
        """The results of each group of sequences, from those one after the other.

        >>> mask = bireme.incubate.nn.attn_bias.BlockDiagonalMask.from_seqlens([2, 1], [1, 1])
        >>> [t.shape for t in mask.split_queries(bireme.ones([1, 3, 4]))]
        [[1, 2, 4], [1, 1, 4]]
        """
        return self._parts(tensor, self._q_lens)

    def split_kv(self, tensor: Tensor) -> list[Tensor]:
        """Keys or values of each group of sequences.

        >>> mask = bireme.incubate.nn.attn_bias.BlockDiagonalMask.from_seqlens([2, 1], [1, 1])
        >>> [t.shape for t in mask.split_kv(bireme.ones([1, 2, 4]))]
        [[1, 1, 4], [1, 1, 4]]
        """
        return self._parts(tensor, self._k_lens)

    def split(self, tensor: Tensor) -> list[Tensor]:
        """The same as `split_queries`, where queries and keys have the same lengths.

        >>> mask = bireme.incubate.nn.attn_bias.BlockDiagonalMask.from_seqlens([2, 1])
        >>> [t.shape for t in mask.split(bireme.ones([1, 3, 4]))]
        [[1, 2, 4], [1, 1, 4]]
        """
        if self._q_lens != self._k_lens:
            raise errors.bad("BlockDiagonalMask.split(tensor)", "queries and keys of the same lengths", f"{self._q_lens} and {self._k_lens}")
        return self._parts(tensor, self._q_lens)

    def make_causal(self) -> BlockDiagonalCausalMask:
        """The same where each query attends to the keys up to its own place in its sequence.

        >>> bireme.incubate.nn.attn_bias.BlockDiagonalMask.from_seqlens([2]).make_causal().materialize([2, 2]).tolist()
        [[0.0, -inf], [0.0, 0.0]]
        """
        return BlockDiagonalCausalMask(self._q_lens, self._k_lens, self._batches)


class BlockDiagonalCausalMask(BlockDiagonalMask):
    """Sequences one after the other, each query attending to the keys of its sequence up to its own place.

    >>> bireme.incubate.nn.attn_bias.BlockDiagonalCausalMask.from_seqlens([2]).materialize([2, 2]).tolist()
    [[0.0, -inf], [0.0, 0.0]]
    """

    _causal = True
