"""Masks of attention that know their structure: causal ones, and blocks of concatenated sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn.arguments import DTypeLike
from bireme.ops import concat, to_tensor


def _filled(keeps: np.ndarray, shape: Any, dtype: Any) -> Tensor:
    """0 where a mask keeps and -inf elsewhere, as a tensor of the given shape; the mask is its last two axes."""
    return to_tensor(np.broadcast_to(np.where(keeps, 0.0, -np.inf).astype(np.float32), tuple(shape)).copy()).astype(
        dtype
    )


class AttentionBias:
    """Base of masks and biases that are added to the scores of attention; a subclass defines ``materialize``."""

    def materialize(self, shape: Sequence[int], dtype: DTypeLike = "float32") -> Tensor:
        """Return the numbers that are added to scores of a given shape.

        Args:
            shape: Shape of the scores; the last two axes are queries and keys.
            dtype: Data type of the result. Default: ``'float32'``.

        Returns:
            Tensor of this shape, to be added to the scores.
        """
        raise errors.missing_method(self, "materialize")


class LowerTriangularMask(AttentionBias):
    """Causal mask: each query attends to the keys up to its own position.

    Examples:
        >>> bireme.incubate.nn.attn_bias.LowerTriangularMask().materialize([2, 2]).tolist()
        [[0.0, -inf], [0.0, 0.0]]
    """

    def materialize(self, shape: Sequence[int], dtype: DTypeLike = "float32") -> Tensor:
        return _filled(np.tril(np.ones(tuple(shape)[-2:], bool)), shape, dtype)

    def add_bias(self, bias: Tensor) -> LowerTriangularMaskWithTensorBias:
        """Return the causal mask with a bias added.

        Args:
            bias: Tensor that broadcasts to the scores.

        Returns:
            A ``LowerTriangularMaskWithTensorBias``.

        Examples:
            >>> mask = bireme.incubate.nn.attn_bias.LowerTriangularMask().add_bias(bireme.ones([2, 2]))
            >>> mask.materialize([2, 2]).tolist()
            [[1.0, -inf], [1.0, 1.0]]
        """
        return LowerTriangularMaskWithTensorBias(bias)


class LowerTriangularMaskWithTensorBias(LowerTriangularMask):
    """Causal mask with a bias that is added to the scores.

    Args:
        bias: Tensor that broadcasts to the scores.

    Examples:
        >>> mask = bireme.incubate.nn.attn_bias.LowerTriangularMaskWithTensorBias(bireme.ones([2, 2]))
        >>> mask.materialize([2, 2]).tolist()
        [[1.0, -inf], [1.0, 1.0]]
    """

    def __init__(self, bias: Tensor):
        self._bias = bias

    def materialize(self, shape: Sequence[int], dtype: DTypeLike = "float32") -> Tensor:
        return super().materialize(shape, dtype) + self._bias.astype(dtype)


class BlockDiagonalMask(AttentionBias):
    """Mask of concatenated sequences, each of which attends only to itself.

    Args:
        q_lens: Number of queries of each sequence.
        k_lens: Number of keys of each sequence.
        batches: Batch sizes of the tensors that the sequences come from, for ``split``. Default: None, 1 each.

    Examples:
        >>> bireme.incubate.nn.attn_bias.BlockDiagonalMask.from_seqlens([1, 1]).materialize([2, 2]).tolist()
        [[0.0, -inf], [-inf, 0.0]]
    """

    _causal = False

    def __init__(self, q_lens: list[int], k_lens: list[int], batches: list[int] | None = None):
        if len(q_lens) != len(k_lens) or any(not isinstance(n, int) or n < 0 for n in (*q_lens, *k_lens)):
            raise errors.bad(
                "BlockDiagonalMask()",
                "as many key lengths as query lengths, non-negative integers",
                described=f"{q_lens} and {k_lens}",
            )
        self._q_lens, self._k_lens, self._batches = list(q_lens), list(k_lens), batches

    @classmethod
    def from_seqlens(cls, q_seqlen: list[int], kv_seqlen: list[int] | None = None) -> BlockDiagonalMask:
        """Create the mask of sequences of given lengths.

        Args:
            q_seqlen: Number of queries of each sequence.
            kv_seqlen: Number of keys of each sequence. Default: None, ``q_seqlen``.

        Returns:
            The mask.

        Examples:
            >>> bireme.incubate.nn.attn_bias.BlockDiagonalMask.from_seqlens([2], [1]).materialize([2, 1]).tolist()
            [[0.0], [0.0]]
        """
        return cls(list(q_seqlen), list(q_seqlen if kv_seqlen is None else kv_seqlen))

    @classmethod
    def from_tensor_list(cls, tensors: list[Tensor]) -> tuple[BlockDiagonalMask, Tensor]:
        """Concatenate batches of sequences and create their mask.

        Args:
            tensors: Tensors of shape ``[N, L, ...]``.

        Returns:
            A tuple of the mask and a tensor ``[1, total, ...]``.

        Examples:
            >>> tensors = [bireme.ones([2, 3, 1]), bireme.ones([1, 2, 1])]
            >>> mask, x = bireme.incubate.nn.attn_bias.BlockDiagonalMask.from_tensor_list(tensors)
            >>> x.shape, [t.shape for t in mask.split(x)]
            ([1, 8, 1], [[2, 3, 1], [1, 2, 1]])
        """
        lens = [t.shape[1] for t in tensors for _ in range(t.shape[0])]
        rows = [t.reshape([1, t.shape[0] * t.shape[1], *t.shape[2:]]) for t in tensors]
        return cls(lens, list(lens), [t.shape[0] for t in tensors]), concat(rows, 1)

    @classmethod
    def from_tensor_lists_qkv(
        cls, tensors_q: list[Tensor], tensors_k: list[Tensor], tensors_v: list[Tensor] | None = None
    ) -> tuple:
        """Concatenate batches of queries, keys and values and create their mask.

        Args:
            tensors_q: Queries of shape ``[N, L, ...]``.
            tensors_k: Keys of shape ``[N, S, ...]``.
            tensors_v: Values of shape ``[N, S, ...]``. Default: None.

        Returns:
            A tuple (mask, queries, keys, values), the tensors ``[1, total, ...]``, values None if not given.

        Examples:
            >>> q, k = [bireme.ones([1, 2, 1])], [bireme.ones([1, 3, 1])]
            >>> mask, *rows = bireme.incubate.nn.attn_bias.BlockDiagonalMask.from_tensor_lists_qkv(q, k, k)
            >>> [t.shape for t in rows]
            [[1, 2, 1], [1, 3, 1], [1, 3, 1]]
        """
        q, k = cls.from_tensor_list(tensors_q), cls.from_tensor_list(tensors_k)
        v = None if tensors_v is None else cls.from_tensor_list(tensors_v)[1]
        return cls(q[0]._q_lens, k[0]._q_lens, q[0]._batches), q[1], k[1], v

    def materialize(self, shape: Sequence[int], dtype: DTypeLike = "float32") -> Tensor:
        rows, columns = tuple(shape)[-2:]
        if (rows, columns) != (sum(self._q_lens), sum(self._k_lens)):
            wanted = [sum(self._q_lens), sum(self._k_lens)]
            raise errors.bad(f"{type(self).__name__}.materialize(shape)", f"last dimensions {wanted}", list(shape))
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
        """Split a tensor of all queries into the tensors it was concatenated from.

        Args:
            tensor: Tensor ``[1, total, ...]``.

        Returns:
            A list of tensors ``[N, L, ...]``.

        Examples:
            >>> mask = bireme.incubate.nn.attn_bias.BlockDiagonalMask.from_seqlens([2, 1], [1, 1])
            >>> [t.shape for t in mask.split_queries(bireme.ones([1, 3, 4]))]
            [[1, 2, 4], [1, 1, 4]]
        """
        return self._parts(tensor, self._q_lens)

    def split_kv(self, tensor: Tensor) -> list[Tensor]:
        """Split a tensor of all keys or values into the tensors it was concatenated from.

        Args:
            tensor: Tensor ``[1, total, ...]``.

        Returns:
            A list of tensors ``[N, S, ...]``.

        Examples:
            >>> mask = bireme.incubate.nn.attn_bias.BlockDiagonalMask.from_seqlens([2, 1], [1, 1])
            >>> [t.shape for t in mask.split_kv(bireme.ones([1, 2, 4]))]
            [[1, 1, 4], [1, 1, 4]]
        """
        return self._parts(tensor, self._k_lens)

    def split(self, tensor: Tensor) -> list[Tensor]:
        """Split a tensor as ``split_queries`` does, where queries and keys have the same lengths.

        Args:
            tensor: Tensor ``[1, total, ...]``.

        Returns:
            A list of tensors ``[N, L, ...]``.

        Examples:
            >>> mask = bireme.incubate.nn.attn_bias.BlockDiagonalMask.from_seqlens([2, 1])
            >>> [t.shape for t in mask.split(bireme.ones([1, 3, 4]))]
            [[1, 2, 4], [1, 1, 4]]
        """
        if self._q_lens != self._k_lens:
            raise errors.bad(
                "BlockDiagonalMask.split(tensor)",
                "queries and keys of the same lengths",
                described=f"{self._q_lens} and {self._k_lens}",
            )
        return self._parts(tensor, self._q_lens)

    def make_causal(self) -> BlockDiagonalCausalMask:
        """Return the same mask where each query attends only to the keys up to its own position in its sequence.

        Examples:
            >>> mask = bireme.incubate.nn.attn_bias.BlockDiagonalMask.from_seqlens([2]).make_causal()
            >>> mask.materialize([2, 2]).tolist()
            [[0.0, -inf], [0.0, 0.0]]
        """
        return BlockDiagonalCausalMask(self._q_lens, self._k_lens, self._batches)


class BlockDiagonalCausalMask(BlockDiagonalMask):
    """Mask of concatenated sequences, each of which attends only to itself, causally.

    Args:
        q_lens: Number of queries of each sequence.
        k_lens: Number of keys of each sequence.
        batches: Batch sizes of the tensors that the sequences come from, for ``split``. Default: None, 1 each.

    Examples:
        >>> bireme.incubate.nn.attn_bias.BlockDiagonalCausalMask.from_seqlens([2]).materialize([2, 2]).tolist()
        [[0.0, -inf], [0.0, 0.0]]
    """

    _causal = True
