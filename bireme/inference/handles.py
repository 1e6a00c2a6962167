"""Handles: the inputs and outputs of a predictor, by which arrays go in and come out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor as EngineTensor
from bireme.inference import executables
from bireme.inference.kinds import DataType, data_type


class Slot:
    """What an input or output holds; all handles of it see the same."""

    def __init__(self, name: str, dtype: Any):
        self.name, self.dtype = name, dtype
        self.value: Any = None  # an array, a tensor of the engine, or None
        self.shape: list[int] | None = None  # that was asked for
        self.lod: list[list[int]] = []


class Tensor:
    """An input or output of a predictor, from ``get_input_handle`` and ``get_output_handle``.

    Args:
        slot: What it is a handle of: a predictor makes it.

    Examples:
        >>> import numpy as np, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bireme.jit.save(bireme.nn.ReLU(), folder + "/net", [bireme.static.InputSpec([None, 2], "float32", "x")])
        ...     predictor = bireme.inference.create_predictor(bireme.inference.Config(folder + "/net"))
        >>> predictor.get_input_handle("x").copy_from_cpu(np.array([[-1.0, 2.0]], "float32"))
        >>> predictor.run()
        >>> predictor.get_output_handle(predictor.get_output_names()[0]).copy_to_cpu().tolist()
        [[0.0, 2.0]]
    """

    def __init__(self, slot: Slot):
        self._slot = slot

    def copy_from_cpu(self, data: np.ndarray) -> None:
        """Give an input its values.

        Args:
            data: Array of NumPy. It is copied.

        Raises:
            TypeError: If it is none.

        Examples:
            >>> callable(bireme.inference.Tensor.copy_from_cpu)
            True
        """
        if not isinstance(data, np.ndarray):
            raise errors.bad("copy_from_cpu(data)", "an array of NumPy", data, kind=errors.ArgumentTypeError)
        data_type(data.dtype)
        self._slot.value, self._slot.shape = np.array(data, order="C"), None

    def copy_to_cpu(self) -> np.ndarray:
        """Return the values.

        Returns:
            An array of its own.

        Raises:
            RuntimeError: If there are none yet.

        Examples:
            >>> callable(bireme.inference.Tensor.copy_to_cpu)
            True
        """
        if self._slot.value is None:
            raise errors.failure(f"{self._slot.name} has no values yet: they are there after run()")
        return executables.as_array(self._slot.value)

    def share_external_data(self, data: Any) -> None:
        """Let an input be a tensor, without a copy.

        Args:
            data: A ``bireme.Tensor``. What is written into it later is seen by runs that come later.

        Raises:
            TypeError: If it is none.

        Examples:
            >>> callable(bireme.inference.Tensor.share_external_data)
            True
        """
        if not isinstance(data, EngineTensor):
            raise errors.bad("share_external_data(data)", "a Tensor", data, kind=errors.ArgumentTypeError)
        self._slot.value, self._slot.shape = data, None

    def reshape(self, shape: Sequence[int] | int) -> None:
        """Set the shape of what will be copied in; what is there stays where it has as many elements.

        Args:
            shape: Sizes, or one of them.

        Raises:
            ValueError: If one is negative.

        Examples:
            >>> callable(bireme.inference.Tensor.reshape)
            True
        """
        sizes = [shape] if isinstance(shape, (int, np.integer)) else list(shape)
        if any(isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 0 for n in sizes):
            raise errors.bad("reshape(shape)", "non-negative integers", sizes)
        slot = self._slot
        slot.shape = [int(n) for n in sizes]
        if isinstance(slot.value, np.ndarray) and slot.value.size == int(np.prod(slot.shape)):
            slot.value = slot.value.reshape(slot.shape)

    def shape(self) -> list[int]:
        """Return the shape.

        Returns:
            A list of ints; ``[0]`` where there are no values yet.

        Examples:
            >>> callable(bireme.inference.Tensor.shape)
            True
        """
        if self._slot.shape is not None:
            return list(self._slot.shape)
        return [0] if self._slot.value is None else [int(n) for n in self._slot.value.shape]

    def type(self) -> DataType:
        """Return the data type.

        Returns:
            A ``DataType``; that which the model declares where there are no values yet.

        Examples:
            >>> callable(bireme.inference.Tensor.type)
            True
        """
        value = self._slot.value
        if value is None:
            return data_type(self._slot.dtype.np)
        return data_type(value.dtype.np if isinstance(value, EngineTensor) else value.dtype)

    def lod(self) -> list[list[int]]:
        """Return where sequences begin and end.

        Returns:
            A list of lists of offsets, one for each level; empty where there are no sequences.

        Examples:
            >>> callable(bireme.inference.Tensor.lod)
            True
        """
        return [list(level) for level in self._slot.lod]

    def set_lod(self, lod: Sequence[Sequence[int]]) -> None:
        """Say where the sequences in the rows of an input begin and end.

        Args:
            lod: A list of lists of offsets, one for each level, as ``[[0, 3, 5]]`` for sequences of 3 and 2 rows.

        Raises:
            ValueError: If offsets do not rise from 0.

        Examples:
            >>> callable(bireme.inference.Tensor.set_lod)
            True
        """
        levels = [[int(n) for n in level] for level in lod]
        for level in levels:
            if not level or level[0] != 0 or any(a > b for a, b in itertools.pairwise(level)):
                raise errors.bad("set_lod(lod)", "offsets that begin with 0 and do not fall", level)
        self._slot.lod = levels
