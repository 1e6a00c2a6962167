"""The table of operators: what each kind of operation in Paddle's programs means, as calls of public functions.

A kind has the names of its operands, in the order in which `.json` files have them, and a function that takes operands and
attributes by name. `:ints`, `:int` and `:number` mark operands that are numbers for the function where they are known, and
`:list` those that are lists of tensors.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

from bireme import _C_ops


class Kind:
    """One kind of operation."""

    __slots__ = ("operands", "modes", "call", "parameters", "required", "takes_all", "many")

    def __init__(self, spec: str, call: Callable, many: bool = False):
        words = [word.partition(":") for word in spec.split()]
        self.operands = [name for name, _, _ in words]
        self.modes = {name: mode for name, _, mode in words if mode}
        self.call, self.many = call, many  # many: all that it gives is one list
        found = inspect.signature(call).parameters
        self.parameters = set(found)
        self.required = {n for n, p in found.items() if p.default is inspect.Parameter.empty}
        self.takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in found.values())


# attributes that say how something was computed, or where, and nothing about what
IGNORED = {
    "place", "struct_name", "stop_gradient", "persistable", "trainable", "use_cudnn", "use_mkldnn", "use_quantizer",
    "mkldnn_data_type", "use_onednn", "onednn_data_type", "exhaustive_search", "workspace_size_MB",
    "force_fp32_output", "use_addto", "sparse", "infer_flags", "is_test", "seed", "fix_seed", "op_version", "test_mode", "rng_name", "is_sparse",
}  # fmt: skip

KINDS: dict[str, Kind] = {}


def kind(names: str, spec: str, many: bool = False) -> Callable[[Callable], Callable]:
    """Declare what a function is the meaning of."""

    def declare(call: Callable) -> Callable:
        for name in names.split():
            KINDS[name] = Kind(spec, call, many)
        return call

    return declare


def same(spec: str, names: str, many: bool = False) -> None:
    """Kinds that are the kernels of the same names."""
    for name in names.split():
        kind(name, spec, many)(getattr(_C_ops, name))
