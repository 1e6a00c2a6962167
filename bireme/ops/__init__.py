"""Operators by family. Importing this declares them all and gives Tensor its methods."""

from bireme.core.op import PUBLIC
from bireme.ops import (
    attribute,
    broadcast,
    creation,
    index,
    linalg,
    logic,
    math,
    nn_activation,
    nn_attention,
    nn_common,
    nn_conv,
    nn_loss,
    nn_norm,
    operators,
    random,
    reduce,
    shape,
    update,
)  # fmt: skip

__all__ = [
    "attribute", "broadcast", "creation", "index", "linalg", "logic", "math", "nn_activation", "nn_attention", "nn_common", "nn_conv", "nn_loss",
    "nn_norm", "operators", "random", "reduce", "shape", "update",
]  # fmt: skip


def __getattr__(name: str):
    """Every public function of the operators by its name: `from bireme.ops import add`."""
    if name in PUBLIC:
        return PUBLIC[name]
    raise AttributeError(f"bireme.ops has no operator named {name}")
