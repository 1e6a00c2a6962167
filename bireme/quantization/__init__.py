"""Quantization of networks: in training (QAT), after training (PTQ), and conversion to integers."""

from bireme.quantization import observers, quanters
from bireme.quantization.base_observer import BaseObserver
from bireme.quantization.base_quanter import BaseQuanter
from bireme.quantization.config import QuantConfig
from bireme.quantization.factory import quanter
from bireme.quantization.imperative.ptq import ImperativePTQ
from bireme.quantization.imperative.ptq_config import PTQConfig, default_ptq_config
from bireme.quantization.imperative.qat import ImperativeQuantAware
from bireme.quantization.imperative.quantizers import (
    SUPPORT_ACT_QUANTIZERS,
    SUPPORT_WT_QUANTIZERS,
    AbsmaxQuantizer,
    BaseQuantizer,
    HistQuantizer,
    KLQuantizer,
    PerChannelAbsmaxQuantizer,
)
from bireme.quantization.quantize import PTQ, QAT

__all__ = [
    "PTQ",
    "QAT",
    "SUPPORT_ACT_QUANTIZERS",
    "SUPPORT_WT_QUANTIZERS",
    "AbsmaxQuantizer",
    "BaseObserver",
    "BaseQuanter",
    "BaseQuantizer",
    "HistQuantizer",
    "ImperativePTQ",
    "ImperativeQuantAware",
    "KLQuantizer",
    "PTQConfig",
    "PerChannelAbsmaxQuantizer",
    "QuantConfig",
    "default_ptq_config",
    "observers",
    "quanter",
    "quanters",
]
