"""InputSpec: shape, type and name of an input that is not there yet."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.boundary import Guarded
from bireme.core.tensor.tensor import Tensor


class InputSpec(Guarded):
    """Shape, dtype and name of an input whose values are not known yet.

    Args:
        shape: List or tuple of ints; None or -1 is a size that may change.
        dtype: Dtype. Default: ``"float32"``.
        name: Name of the input. Default: None.
        stop_gradient: Whether no gradient is computed for it. Default: False.

    Examples:
        >>> bireme.static.InputSpec([None, 784], "float32", "x")
        InputSpec(shape=(-1, 784), dtype=bireme.float32, name=x, stop_gradient=False)
    """

    def __init__(self, shape: Any, dtype: Any = "float32", name: str | None = None, stop_gradient: bool = False):
        if not isinstance(shape, (list, tuple)):
            raise errors.bad("InputSpec(shape)", "a list or a tuple", shape, kind=errors.ArgumentTypeError)
        for n in shape:
            if n is not None and (isinstance(n, bool) or not isinstance(n, (int, np.integer))):
                raise errors.bad("InputSpec(shape)", "integers, or None where the size may change", list(shape))
        self.shape = tuple(-1 if n is None or n < 0 else int(n) for n in shape)
        self.dtype = dtypes.of(dtype, "InputSpec(dtype)")
        self.name = name
        self.stop_gradient = stop_gradient

    @classmethod
    def from_tensor(cls, tensor: Tensor, name: str | None = None) -> InputSpec:
        """Describe a tensor.

        Args:
            tensor: The tensor.
            name: Name of the input. Default: None, that of the tensor.

        Returns:
            An ``InputSpec``.

        Examples:
            >>> bireme.static.InputSpec.from_tensor(bireme.ones([2, 2]), name="x").shape
            (2, 2)
        """
        if not isinstance(tensor, Tensor):
            raise errors.bad("InputSpec.from_tensor(tensor)", "a Tensor", tensor)
        return cls(tensor.shape, tensor.dtype, name or tensor.name)

    @classmethod
    def from_numpy(cls, ndarray: np.ndarray, name: str | None = None) -> InputSpec:
        """Describe an array.

        Args:
            ndarray: The array.
            name: Name of the input. Default: None.

        Returns:
            An ``InputSpec``.

        Examples:
            >>> import numpy as np
            >>> bireme.static.InputSpec.from_numpy(np.ones([2, 2], "int32"), "x").dtype
            bireme.int32
        """
        if not isinstance(ndarray, np.ndarray):
            raise errors.bad("InputSpec.from_numpy(ndarray)", "an array", ndarray, kind=AttributeError)
        return cls(ndarray.shape, ndarray.dtype, name)

    def batch(self, batch_size: Any) -> InputSpec:
        """Add a batch dimension in front of the shape, inplace.

        Args:
            batch_size: Size of the dimension, an int or a list of one.

        Returns:
            The object itself.

        Examples:
            >>> bireme.static.InputSpec([64]).batch(4).shape
            (4, 64)
        """
        if isinstance(batch_size, (list, tuple)):
            if len(batch_size) != 1:
                raise errors.bad(
                    "InputSpec.batch(batch_size)", "a single number", batch_size, kind=errors.for_number(batch_size)
                )
            batch_size = batch_size[0]
        if isinstance(batch_size, bool) or not isinstance(batch_size, (int, np.integer)):
            raise errors.bad("InputSpec.batch(batch_size)", "an integer", batch_size, kind=errors.ArgumentTypeError)
        self.shape = (int(batch_size), *self.shape)
        return self

    def unbatch(self) -> InputSpec:
        """Remove the first dimension of the shape, inplace, and return the object itself.

        Examples:
            >>> bireme.static.InputSpec([4, 64]).unbatch().shape
            (64,)
        """
        if not self.shape:
            raise errors.bad("InputSpec.unbatch()", "a shape with a batch dimension", described="[]")
        self.shape = self.shape[1:]
        return self

    def _key(self) -> tuple:
        return self.shape, self.dtype, self.name, self.stop_gradient

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape}, dtype={self.dtype}, name={self.name}, stop_gradient={self.stop_gradient})"
