"""Mixtures of experts: the layer, gates, and clipping of gradients."""

from bireme.incubate.distributed.models.moe.gate.base_gate import BaseGate
from bireme.incubate.distributed.models.moe.gate.gshard_gate import GShardGate
from bireme.incubate.distributed.models.moe.gate.naive_gate import NaiveGate
from bireme.incubate.distributed.models.moe.gate.switch_gate import SwitchGate
from bireme.incubate.distributed.models.moe.grad_clip import ClipGradForMOEByGlobalNorm
from bireme.incubate.distributed.models.moe.moe_layer import MoELayer

ClipGradByGlobalNorm = ClipGradForMOEByGlobalNorm

__all__ = [
    "BaseGate", "ClipGradByGlobalNorm", "ClipGradForMOEByGlobalNorm", "GShardGate", "MoELayer", "NaiveGate", "SwitchGate",
]  # fmt: skip
