"""distributed_scaler: the gradient scaler that sees overflow in all workers."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.processes.collectives import Call
from bireme.distributed import world
from bireme.distributed.communication.group import member
from bireme.ops.creation.tensors import to_tensor

__all__ = ["distributed_scaler"]


def distributed_scaler(scaler: Any) -> Any:
    """The scaler itself, which from now on leaves a step out where any worker's gradients overflow."""
    if world.size() > 1:
        alone = scaler.unscale_

        def unscale_(optimizer: Any) -> None:
            alone(optimizer)
            if id(optimizer) in scaler._found:
                call = Call("the look for overflow")
                found = call.read(scaler._found[id(optimizer)])
                anywhere = member("distributed_scaler", None).channel.all_reduce(call, np.atleast_1d(found), "MAX")
                scaler._found[id(optimizer)] = to_tensor(bool(anywhere[0]))

        scaler.unscale_ = unscale_
    return scaler
