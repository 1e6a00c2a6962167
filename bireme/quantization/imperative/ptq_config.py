"""The configuration of quantization after training, in the older interface."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors
from bireme.quantization.imperative.quantizers import (
    SUPPORT_ACT_QUANTIZERS,
    SUPPORT_WT_QUANTIZERS,
    BaseQuantizer,
    KLQuantizer,
    PerChannelAbsmaxQuantizer,
)


class PTQConfig:
    """Quantizers of inputs and of weights, for ``ImperativePTQ``.

    Args:
        activation_quantizer: Object of a class in ``SUPPORT_ACT_QUANTIZERS``.
        weight_quantizer: Object of a class in ``SUPPORT_WT_QUANTIZERS``.

    Raises:
        TypeError: If something else is given.

    Examples:
        >>> from bireme.quantization import AbsmaxQuantizer, PTQConfig
        >>> type(PTQConfig(AbsmaxQuantizer(), AbsmaxQuantizer()).wt_quantizer).__name__
        'AbsmaxQuantizer'
    """

    def __init__(self, activation_quantizer: BaseQuantizer, weight_quantizer: BaseQuantizer):
        for which, given, known in (
            ("activation_quantizer", activation_quantizer, SUPPORT_ACT_QUANTIZERS),
            ("weight_quantizer", weight_quantizer, SUPPORT_WT_QUANTIZERS),
        ):
            if not isinstance(given, tuple(known)):
                names = ", ".join(one.__name__ for one in known)
                raise errors.bad(f"PTQConfig({which})", f"one of {names}", given, kind=errors.ArgumentTypeError)
        self.in_act_quantizer: Any = activation_quantizer
        self.out_act_quantizer: Any = activation_quantizer
        self.wt_quantizer: Any = weight_quantizer


default_ptq_config = PTQConfig(KLQuantizer(), PerChannelAbsmaxQuantizer())
