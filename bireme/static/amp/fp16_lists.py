"""Which operators of a program compute in half precision, and which in float32."""

from __future__ import annotations

from collections.abc import Iterable

from bireme.amp import black_list, white_list
from bireme.core.base import errors, registry
from bireme.core.base.boundary import Guarded
from bireme.core.declare import precision
from bireme.core.declare.precision import Policy


def overlap(where: str, low: set[str], high: set[str]) -> None:
    """Raise where two lists have a name in common."""
    if low & high:
        raise errors.bad(where, "operators that the other list does not name", described=", ".join(sorted(low & high)))


class AutoMixedPrecisionLists(Guarded):
    """Lists of operators that compute in half precision (white), in float32 (black), or as they are given (gray).

    Args:
        custom_white_list: Names of operators that are added to the white list. Default: None.
        custom_black_list: Names of operators that are added to the black list. Default: None.
        custom_black_varnames: Names of variables: operators that read one compute in float32. Default: None.
        dtype: ``"float16"`` or ``"bfloat16"``. Default: ``"float16"``.

    Raises:
        ValueError: If an operator is in both lists.

    Examples:
        >>> lists = bireme.static.amp.AutoMixedPrecisionLists(custom_white_list=["exp"])
        >>> "exp" in lists.white_list, "exp" in lists.black_list, "matmul" in lists.white_list
        (True, False, True)
    """

    def __init__(
        self,
        custom_white_list: Iterable[str] | None = None,
        custom_black_list: Iterable[str] | None = None,
        custom_black_varnames: Iterable[str] | None = None,
        dtype: str = "float16",
    ):
        if dtype not in ("float16", "bfloat16"):
            raise errors.bad("AutoMixedPrecisionLists(dtype)", "'float16' or 'bfloat16'", dtype)
        self._custom_white_list, self._custom_black_list = set(custom_white_list or ()), set(custom_black_list or ())
        overlap("AutoMixedPrecisionLists(custom_white_list)", self._custom_white_list, self._custom_black_list)
        self.amp_dtype = dtype
        self.white_list = (white_list()[dtype]["O1"] - self._custom_black_list) | self._custom_white_list
        self.black_list = (black_list()[dtype]["O1"] - self._custom_white_list) | self._custom_black_list
        self.all_list = {op.told for op in registry.OPS.values()} | self.white_list | self.black_list
        self.gray_list = self.all_list - self.white_list - self.black_list
        self.unsupported_list: set[str] = set()
        self.black_varnames = None if custom_black_varnames is None else list(custom_black_varnames)

    def policy(self, level: str, promote: bool) -> Policy:
        """Return what operations are recorded with.

        Args:
            level: ``"O1"``, ``"O2"`` or ``"OD"``.
            promote: Let operators of neither list compute in float32 where an operand has it.

        Returns:
            A policy of mixed precision.

        Examples:
            >>> bireme.static.amp.AutoMixedPrecisionLists(dtype="bfloat16").policy("O1", True).dtype.name
            'bfloat16'
        """
        low, high = [
            frozenset(own for name in names for own in registry.known_as(name))
            for names in (self._custom_white_list, self._custom_black_list)
        ]
        kind = precision.dtypes.of(self.amp_dtype, "AutoMixedPrecisionLists(dtype)")
        return precision.policy(kind, level, low, high, promote)


CustomOpLists = AutoMixedPrecisionLists
