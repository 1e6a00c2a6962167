"""Transforms of captured graphs, one in each file: what each of them changed is told in a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.program.program_model import Model
from bireme.jit.saving import TranslatedLayer, models_of
from bireme.jit.transforms.batch_norm import fold_batch_norm
from bireme.jit.transforms.channels_last import channels_last
from bireme.jit.transforms.common import common_subexpressions
from bireme.jit.transforms.constants import constant_folding
from bireme.jit.transforms.dead_code import dead_code
from bireme.jit.transforms.freezing import freeze
from bireme.jit.transforms.mixed_precision import mixed_precision
from bireme.jit.transforms.packing import pack_weights
from bireme.jit.transforms.recomputation import recomputation
from bireme.jit.transforms.scales import fold_scales

__all__ = ["transform"]

TRANSFORMS: dict[str, Callable[..., list[str]]] = {
    "dead_code": dead_code,
    "constant_folding": constant_folding,
    "common_subexpressions": common_subexpressions,
    "fold_batch_norm": fold_batch_norm,
    "fold_scales": fold_scales,
    "freeze": freeze,
    "channels_last": channels_last,
    "pack_weights": pack_weights,
    "mixed_precision": mixed_precision,
    "recomputation": recomputation,
}
FOR_INFERENCE = (
    *("freeze", "dead_code", "constant_folding", "common_subexpressions", "fold_batch_norm", "fold_scales"),
    *("channels_last", "constant_folding", "dead_code", "pack_weights"),
)
FOR_OTHERS = ("dead_code", "fold_batch_norm", "fold_scales", "dead_code")  # constants of integers stay such
USUAL = ("dead_code", "constant_folding", "common_subexpressions", "fold_batch_norm")


def transform(
    layer: Any, transforms: Sequence[str] = USUAL, input_spec: Sequence[Any] | None = None
) -> TranslatedLayer:
    """Transform the graph of a layer or function.

    Args:
        layer: Layer or function, or what ``jit.load`` returned. It stays as it is.
        transforms: Names of transforms, in order: ``"dead_code"``, ``"constant_folding"``, ``"common_subexpressions"``,
            ``"fold_batch_norm"`` (into the convolution or linear layer before it), ``"fold_scales"`` (constants that the images around
            a convolution are multiplied by, or that are added to them, into its weights), ``"mixed_precision"`` (bfloat16, as
            under ``amp.auto_cast``), ``"recomputation"`` (of each layer, in the backward pass), ``"freeze"`` (parameters
            become constants), ``"channels_last"`` (of images, between convolutions: compiled programs on a CPU are faster
            then), ``"pack_weights"`` (constant kernels as such programs read them). Default: the first four, which leave
            results as they are, but for rounding.
        input_spec: List of ``InputSpec``, as for ``jit.save``. Default: None.

    Returns:
        A ``TranslatedLayer``; its ``report`` has a line for each change.

    Raises:
        ValueError: If a name is unknown.

    Examples:
        >>> net = bireme.nn.Sequential(bireme.nn.Conv2D(1, 2, 3), bireme.nn.BatchNorm2D(2))
        >>> _ = net.eval()
        >>> smaller = bireme.jit.transforms.transform(net, input_spec=[bireme.static.InputSpec([None, 1, 8, 8])])
        >>> print(smaller.report[0])
        fold_batch_norm: folded batch_norm_1.tmp_0 = batch_norm of 1 into conv2d_0.tmp_0 = conv2d of 0
    """
    for name in transforms:
        if name not in TRANSFORMS:
            raise errors.bad("transform(transforms)", f"some of {', '.join(TRANSFORMS)}", name)
    report: list[str] = []
    made = {}
    for name, model in models_of(layer, input_spec, "transform").items():
        made[name], lines = transformed(model, transforms)
        report += lines
    tensors = {}
    for model in made.values():
        program = model.program
        program.tensors = {}
        for operation in program.operations:
            for x in operation.reads:
                if hasattr(x, "persistable") and hasattr(x, "_value") and x.persistable:
                    program.tensors[x.name] = tensors[x.name] = x
    translated = TranslatedLayer(made, tensors)
    translated.report = report
    return translated


def transformed(model: Model, transforms: Sequence[str]) -> tuple[Model, list[str]]:
    """A copy of a model with these transforms made, and what each of them changed."""
    copy = Model(model.program.clone(), model.inputs, model.results, model.output_names)
    report: list[str] = []
    for each in transforms:
        report += [f"{each}: {line}" for line in TRANSFORMS[each](copy)]
        copy.program.version += 1
    copy.check()
    return copy, report


guard_functions(globals())
