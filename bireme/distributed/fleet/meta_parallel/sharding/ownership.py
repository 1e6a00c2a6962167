"""Which process of a group updates which parameter: gradients go to their owners, new values come from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bireme.core.processes.collectives import Call
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.communication.group import Group
from bireme.distributed.reducer import MEGABYTE, exchange_gradients, scale_experts, shared
from bireme.ops.creation.tensors import to_tensor


class Owners:
    """Parameters with an owner each: the one with the fewest numbers so far, in the order of the parameters.

    Those of which each process has its own, of experts above all, it owns itself: `apart`.
    """

    def __init__(self, parameters: Sequence[Tensor], group: Group):
        given = list({id(p): p for p in parameters}.values())
        self.parameters, self.group = shared(given), group
        together = {id(p) for p in self.parameters}
        self.apart = [p for p in given if id(p) not in together]
        sizes = [0] * group.nranks
        self._owner: dict[int, int] = {}
        for p in self.parameters:
            owner = self._owner[id(p)] = sizes.index(min(sizes))
            sizes[owner] += p.size
        self._owner.update({id(p): group.rank for p in self.apart})

    def of(self, p: Tensor) -> int:
        """The index in the group of a parameter's owner."""
        return self._owner[id(p)]

    def own(self) -> list[Tensor]:
        """The parameters of this process."""
        return [p for p in self.parameters if self.of(p) == self.group.rank] + self.apart

    def _by_dtype(self, parameters: Sequence[Tensor]) -> list[list[list[Tensor]]]:
        """Parameters of each dtype, by owner."""
        kinds = dict.fromkeys(p.dtype for p in parameters)
        return [
            [[p for p in parameters if p.dtype == dtype and self.of(p) == r] for r in range(self.group.nranks)]
            for dtype in kinds
        ]

    def reduce(self, free: bool = False) -> None:
        """Give each owner the mean of all processes' gradients; with `free` the others lose theirs.

        A gradient that a process does not have counts as zeros; one that nobody has is not made.
        """
        count = self.group.nranks
        trained = [p for p in self.parameters if not p.stop_gradient]
        for by_owner in self._by_dtype(trained):
            most = max(sum(p.size + 1 for p in owned) for owned in by_owner)
            dtype = next(p for owned in by_owner for p in owned).dtype.np
            call = Call("the exchange of gradients", dtype.name, most)
            rows = np.zeros((count, most), dtype)
            for row, owned in zip(rows, by_owner):
                at = len(owned)
                for i, p in enumerate(owned):
                    if p.grad is not None:
                        row[i] = 1
                        # divided before they are added, so that the sum of half-precision numbers does not overflow
                        row[at : at + p.size] = call.read(p.grad).reshape(-1) / count
                    at += p.size
            found = np.sum(self.group.channel.exchange(call, rows), axis=0, dtype=dtype)
            own = by_owner[self.group.rank]
            at = len(own)
            for i, p in enumerate(own):
                if found[i]:
                    p.grad = to_tensor(found[at : at + p.size].reshape(p.shape))
                at += p.size
        scale_experts(self.apart, 1 / count)
        if free:
            for p in trained:
                if self.of(p) != self.group.rank:
                    p.clear_gradient(False)

    def mean(self) -> None:
        """Give everybody the mean of all processes' gradients, whoever owns them."""
        exchange_gradients([*self.parameters, *self.apart], self.group, 128 * MEGABYTE, 1 / self.group.nranks)

    def share(self) -> None:
        """Give everybody the values that the owners have."""
        for by_owner in self._by_dtype(self.parameters):
            most = max(sum(p.size for p in owned) for owned in by_owner)
            mine = by_owner[self.group.rank]
            dtype = next(p for owned in by_owner for p in owned).dtype.np
            call = Call("the exchange of parameters", dtype.name, most)
            row = np.zeros(most, dtype)
            if mine:
                flat = np.concatenate([call.read(p).reshape(-1) for p in mine])
                row[: flat.size] = flat
            for r, found in enumerate(self.group.channel.gather(call, row)):
                at = 0
                for p in by_owner[r]:
                    if r != self.group.rank:
                        p._assign_value(to_tensor(found[at : at + p.size].reshape(p.shape)))
                    at += p.size


def keep(optimizer: Any, owners: Owners) -> None:
    """Let an optimizer update the parameters of this process alone, and so have states of these alone."""
    own = {id(p) for p in owners.own()}
    for group in optimizer._param_groups:
        group["params"] = [p for p in group["params"] if id(p) in own]
