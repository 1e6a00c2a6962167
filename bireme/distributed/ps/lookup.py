"""Rows of sparse tables as tensors: what `sparse_embedding` looks up, and where gradients of it go."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.program.calls import recordable
from bireme.core.program.program import Program
from bireme.core.tensor.grad_mode import state as grad_state
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.ps.id_index import as_ids, sum_rows
from bireme.ops import full

TABLES: dict[str, dict[str, Any]] = {}  # what this program says of its tables, in the order in which they were named
FOUND: dict[int, Found] = {}  # the last look-up of each call of a static program, by its number


class Current:
    """What there is once in a process."""

    worker: Any = None  # from `fleet.init_worker` to `fleet.stop_worker`
    fleet: Any = None  # the object, which stands above helpers that need it


def declare(where: str, name: str, **config: Any) -> None:
    """Say what a table is like; twice the same."""
    if TABLES.setdefault(name, {"name": name, **config}) != {"name": name, **config}:
        told = ", ".join(f"{k} {TABLES[name][k]}" for k in config if TABLES[name][k] != config[k])
        got = ", ".join(f"{k} {v}" for k, v in config.items() if TABLES[name][k] != v)
        raise errors.bad(where, f"table {name} as before, with {told}", described=got)


def worker(where: str) -> Any:
    """The worker of this process."""
    if Current.worker is None:
        raise errors.bad(where, "a call of fleet.init_worker() before", described="none", kind=RuntimeError)
    return Current.worker


class Found:
    """A look-up: ids in order, all different, where the row of each element is among them, and how often each was shown
    and clicked.
    """

    def __init__(self, table: str, ids: np.ndarray, padding_idx: int | None, show: Any, click: Any):
        self.table = table
        flat = as_ids(ids)
        self.keep = None if padding_idx is None else np.flatnonzero(ids.reshape(-1) != padding_idx)
        self.ids, self.at = np.unique(flat if self.keep is None else flat[self.keep], return_inverse=True)
        self._seen = [None if x is None else np.asarray(x, np.float32).reshape(-1) for x in (show, click)]
        self._count = flat.size

    def spread(self, rows: np.ndarray) -> np.ndarray:
        """A row for each element."""
        if self.keep is None:
            return rows[self.at]
        made = np.zeros((self._count, rows.shape[1]), np.float32)
        made[self.keep] = rows[self.at]
        return made

    def summed(self, grads: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ids, the sum of the gradients of each, and how often it was shown and clicked."""
        grads = grads.reshape(self._count, -1)
        seen = np.stack([self._each(self._seen[0], 1.0), self._each(self._seen[1], 0.0)], axis=1)
        if self.keep is not None:
            grads, seen = grads[self.keep], seen[self.keep]
        return self.ids, sum_rows(grads, self.at, self.ids.size), sum_rows(seen, self.at, self.ids.size)

    def _each(self, given: np.ndarray | None, default: float) -> np.ndarray:
        """A count for each element, of counts for each sample."""
        if given is None:
            return np.full(self._count, default, np.float32)
        return np.repeat(given, self._count // given.size) if given.size else np.zeros(self._count, np.float32)


def shape_of(ids: Any, width: int) -> list[int]:
    """The shape of rows: a last dimension of 1 becomes the row, as in Paddle; else the row is added."""
    shape = list(ids.shape)
    return [*(shape[:-1] if len(shape) > 1 and shape[-1] == 1 else shape), width]


@recordable
def sparse_lookup(
    ids: Tensor,
    table: str,
    width: int,
    padding_idx: int | None = None,
    is_test: bool = False,
    call: int | None = None,
    show: Tensor | None = None,
    click: Tensor | None = None,
) -> Tensor:
    """Rows of a table. Gradients of them are kept for the optimizer's next step; those of a static program, whose calls
    are numbered, its update asks for itself.
    """
    own = worker("sparse_embedding()")
    found = Found(table, ids._host(), padding_idx, *[None if x is None else x._host() for x in (show, click)])
    rows = found.spread(own.pull(table, found.ids, width, not is_test))
    out = Tensor(rows.reshape(shape_of(ids, width)))
    if is_test or not grad_state.grad:
        return out
    out._stop_gradient = False
    if call is None:
        out.register_hook(lambda grad: own.keep(found, grad))
    else:
        FOUND[call] = found
    return out


def for_inference(program: Program) -> Program:
    """A copy of a program without gradients and updates, in which ids without a row read zeros, and nothing is counted."""
    made = program.clone(for_test=True)
    for operation in made.operations:
        if operation.call is sparse_lookup:
            kept = {k: v for k, v in operation.kwargs.items() if k not in ("show", "click")}
            operation.kwargs = {**kept, "is_test": True, "call": None}
    return made


def _example(ids: Tensor, table: str, width: int, **rest: Any) -> Tensor:
    return full(shape_of(ids, width), 0.0, "float32")


sparse_lookup.example = _example  # type: ignore[attr-defined]  # functions may have it
