"""Extension: what it takes to declare operators of your own, on a par with those that come with Bireme.

``op`` turns a function on jax arrays into an operator. The other names are annotations for its arguments: `bireme.Tensor` is an
operand; ``Axis`` one axis of the first operand and ``Axes`` several, checked and counted from the front; ``Ints`` and
``Shape`` integers, also as tensors; ``DTypeArg`` anything that names a dtype; ``Const`` a number that is part of the
compiled program; ``Attr`` anything else that is; ``Key`` a place in the random stream, given by the engine.
"""

from bireme.core.declare.conversion import Attr, Axes, Axis, Const, DTypeArg, Ints, Key, Shape
from bireme.core.declare.op import op

__all__ = ["Attr", "Axes", "Axis", "Const", "DTypeArg", "Ints", "Key", "Shape", "op"]
