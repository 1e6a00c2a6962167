"""A worker of parameter servers: what it keeps of its parameters, and the three ways to train them together."""

from __future__ import annotations

import contextlib
import queue
import threading
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.ps import rules
from bireme.distributed.ps.client import Client
from bireme.distributed.ps.id_index import IdIndex
from bireme.distributed.ps.lookup import TABLES, Found
from bireme.distributed.ps.shard import home, summed
from bireme.distributed.ps.sparse_table import SparseTable
from bireme.optimizer.optimizer import Optimizer

Sparse = dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]
Dense = dict[str, tuple[int, np.ndarray]]


class Worker:
    """One worker, in step with all others: each update waits for the gradients of all, and applies their mean."""

    def __init__(self, client: Client, workers: int, optimizer: Optimizer | None):
        self.client, self.workers, self.optimizer = client, workers, optimizer
        self._params: dict[str, Tensor] = {}
        self._homes: dict[str, int] = {}
        self._kept: list[tuple[Found, Tensor]] = []  # gradients of rows since the last step
        self._made: set[str] = set()
        self._rule = None if optimizer is None else self._rule_of(optimizer)

    def _rule_of(self, optimizer: Optimizer) -> dict[str, Any]:
        return rules.described(optimizer)

    # ------------------------------------------------------------ setting up

    def join(self, params: list[Tensor]) -> None:
        """Make the tables and parameters at the servers, where they are not there, and take their values."""
        count = len(self.client.addresses)
        for number, told in enumerate(self.client.all("Hello", {})):
            if (told["index"], told["servers"], told["workers"]) != (number, count, self.workers):
                raise errors.failure(
                    f"worker {self.client.rank}: expected server {number} of {count} for {self.workers} workers on "
                    f"{self.client.addresses[number]}, got server {told['index']} of {told['servers']} for "
                    f"{told['workers']}"
                )
        if self.client.rank == 0:  # its values are the first ones, and the others wait for it
            self._make(params)
        self.client.gather(b"")
        if self.client.rank:
            self._make(params)
        self.refresh()

    def _make(self, params: list[Tensor]) -> None:
        if self._rule is None:
            return
        for name in TABLES:
            self._make_table(name)
        self.take_in(params)

    def _make_table(self, name: str) -> None:
        if self._rule is not None and name not in self._made:
            self.client.all("Make", {"tables": [{**TABLES[name], "rule": self._rule}], "dense": []})
            self._made.add(name)

    def take_in(self, params: list[Tensor]) -> None:
        """Have dense parameters that the servers keep."""
        new = [p for p in params if p.name not in self._params and not p.stop_gradient]
        for p in new:
            self._params[p.name], self._homes[p.name] = p, home(p.name, len(self.client.addresses))
            head = {"tables": [], "dense": [[p.name, self._rule]]}
            self.client.call(self._homes[p.name], "Make", head, [np.asarray(p._host(), np.float32)])

    def refresh(self) -> None:
        """Take the servers' values of the dense parameters."""
        for s in sorted(set(self._homes.values())):
            names = [name for name, at in self._homes.items() if at == s]
            _, arrays = self.client.call(s, "PullDense", {"names": names})
            self._set(dict(zip(names, arrays, strict=True)))

    def _set(self, values: dict[str, np.ndarray]) -> None:
        for name, array in values.items():
            self._params[name].set_value(array)

    # ------------------------------------------------------------ rows

    def pull(self, table: str, ids: np.ndarray, width: int, train: bool) -> np.ndarray:
        """The rows of ids that are sorted and all different."""
        if table in TABLES:
            self._make_table(table)
        return self.client.pull(table, ids, width, train)

    def keep(self, found: Found, grad: Tensor) -> None:
        """Keep a gradient of rows until the next step."""
        self._kept.append((found, grad.detach()))

    def forget(self) -> None:
        """Drop the gradients that are kept."""
        self._kept.clear()

    def take_kept(self) -> list[tuple[Found, Tensor]]:
        """The gradients that are kept, which are not kept any more."""
        kept, self._kept = self._kept, []
        return kept

    # ------------------------------------------------------------ steps

    def step(self, pairs: list[tuple[Tensor, Tensor]], kept: list[tuple[Found, Tensor]]) -> None:
        """Update parameters and rows with their gradients."""
        self._params.update({p.name: p for p, _ in pairs if p.name in self._params})  # those of the scope that runs
        self.take_in([p for p, _ in pairs])
        dense = {p.name: (self._homes[p.name], np.asarray(g._host(), np.float32)) for p, g in pairs}
        assert self.optimizer is not None, "what steps has one"
        self._send(by_table(kept), dense, self.optimizer.get_lr())

    def _send(self, sparse: Sparse, dense: Dense, lr: float) -> None:
        # tables that one worker did not read in this step may have gradients of another
        for name in TABLES:
            if name not in sparse:
                nothing = np.zeros((0, 2), np.float32)
                sparse[name] = np.zeros(0, np.uint64), np.zeros((0, TABLES[name]["width"]), np.float32), nothing
                self._make_table(name)
        self._set(self.client.push(sparse, dense, lr, together=True, wanted=self._homes))

    def flush(self) -> None:
        """Wait until the servers have all that this worker has to give."""

    def stop(self) -> None:
        """Leave; the servers end when all workers have left."""
        self.flush()
        self.client.all("Stop", {"worker": self.client.rank})
        self.client.close()


def by_table(kept: list[tuple[Found, Tensor]]) -> Sparse:
    """Gradients of look-ups, one for each id of each table."""
    found: dict[str, list[Any]] = {}
    for each, grad in kept:
        found.setdefault(each.table, []).append(each.summed(np.asarray(grad._host(), np.float32)))
    return {name: tuple(summed(given)) for name, given in found.items()}  # type: ignore[misc]  # ids and gradients, two arrays


class AsyncWorker(Worker):
    """A worker that waits for nobody: a thread sends its gradients, and each step takes the newest values that came."""

    def __init__(self, client: Client, workers: int, optimizer: Optimizer | None, waiting: int):
        super().__init__(client, workers, optimizer)
        self._queue: queue.Queue = queue.Queue(max(waiting, 1))
        self._fresh: dict[str, np.ndarray] = {}
        self._error: Exception | None = None
        threading.Thread(target=self._sends, name="bireme-ps-send", daemon=True).start()

    def _sends(self) -> None:
        while True:
            sparse, dense, lr = self._queue.get()
            try:
                if self._error is None:
                    self._fresh = self.client.push(sparse, dense, lr, wanted=self._homes)
            except (RuntimeError, ValueError, OSError) as e:  # told at the next step
                self._error = e
            finally:
                self._queue.task_done()

    def _send(self, sparse: Sparse, dense: Dense, lr: float) -> None:
        self._check()
        self._queue.put((sparse, dense, lr))
        fresh, self._fresh = self._fresh, {}
        self._set(fresh)

    def _check(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def flush(self) -> None:
        self._queue.join()
        self._check()

    def refresh(self) -> None:
        self._fresh = {}
        super().refresh()


class GeoWorker(Worker):
    """A worker that trains copies of its own, and exchanges differences with the servers every few steps."""

    def __init__(self, client: Client, workers: int, optimizer: Optimizer | None, every: int):
        super().__init__(client, workers, optimizer)
        self._every, self._steps = every, 0
        self._local = None if optimizer is None else rules.described(optimizer)
        self._copies: dict[str, _Copy] = {}
        self._base: dict[str, np.ndarray] = {}

    def _rule_of(self, optimizer: Optimizer) -> dict[str, Any]:
        return {"kind": "sum"}

    def _set(self, values: dict[str, np.ndarray]) -> None:
        super()._set(values)
        self._base.update(values)

    def pull(self, table: str, ids: np.ndarray, width: int, train: bool) -> np.ndarray:
        if not train or self._local is None:
            return super().pull(table, ids, width, train)
        if table not in self._copies:
            self._copies[table] = _Copy({**TABLES[table], "entry": "", "storage": False, "rule": self._local})
        return self._copies[table].pull(ids, lambda new: super(GeoWorker, self).pull(table, new, width, True))

    def step(self, pairs: list[tuple[Tensor, Tensor]], kept: list[tuple[Found, Tensor]]) -> None:
        assert self.optimizer is not None, "what steps has one"
        self._params.update({p.name: p for p, _ in pairs if p.name in self._params})
        self.take_in([p for p, _ in pairs])
        for name in self._params:
            if name not in self._base:
                self._base[name] = np.array(self._params[name]._host(), np.float32)
        self.optimizer._take_in([p for p, _ in pairs])
        self.optimizer._apply(pairs)
        for name, (ids, grads, seen) in by_table(kept).items():
            self._copies[name].push(ids, grads, seen, self.optimizer.get_lr())
        self._steps += 1
        if self._steps % self._every == 0:
            self.flush()

    def flush(self) -> None:
        sparse = {name: copy.differences() for name, copy in self._copies.items()}
        values = {name: np.asarray(p._host(), np.float32) for name, p in self._params.items()}
        changed = {name: values[name] - self._base[name] for name in values if name in self._base}
        dense = {name: (self._homes[name], change) for name, change in changed.items()}
        self._set(self.client.push(sparse, dense, 0.0, add=True, wanted=self._homes))


class _Copy:
    """Rows of a table that a worker trains itself, with what they were when they came."""

    def __init__(self, config: dict[str, Any]):
        self._table = SparseTable(config)
        self._clear()

    def _clear(self) -> None:
        self._fresh = IdIndex()
        self._base, self._seen = np.zeros((0, self._table.width), np.float32), np.zeros((0, 2), np.float32)

    def pull(self, ids: np.ndarray, ask: Any) -> np.ndarray:
        """Rows; those that were not asked for since the last exchange come from the servers."""
        _, new = self._fresh.add(ids)
        if new.size:
            order = np.argsort(new)
            values = np.empty((new.size, self._table.width), np.float32)
            values[order] = ask(new[order])
            self._table.put(new, values)
            self._base = np.concatenate([self._base, values])
            self._seen = np.concatenate([self._seen, np.zeros((new.size, 2), np.float32)])
        return self._table.pull(ids)

    def push(self, ids: np.ndarray, grads: np.ndarray, seen: np.ndarray, lr: float) -> None:
        self._table.push(ids, grads, lr, seen)
        at = self._fresh.find(ids)
        with contextlib.suppress(IndexError):
            self._seen[at[at >= 0]] += seen[at >= 0]

    def differences(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """How far rows have moved since they came, in the order of ids; they come anew when they are next asked for."""
        order = np.argsort(self._fresh.ids)
        ids = self._fresh.ids[order]
        moved = self._table.pull(ids) - self._base[order] if ids.size else self._base
        seen = self._seen[order]
        self._clear()
        return ids, moved, seen
