"""Gates: which experts a token goes to."""

from bireme.incubate.distributed.models.moe.gate.base_gate import BaseGate
from bireme.incubate.distributed.models.moe.gate.gshard_gate import GShardGate
from bireme.incubate.distributed.models.moe.gate.naive_gate import NaiveGate
from bireme.incubate.distributed.models.moe.gate.switch_gate import SwitchGate

__all__ = ["BaseGate", "GShardGate", "NaiveGate", "SwitchGate"]
