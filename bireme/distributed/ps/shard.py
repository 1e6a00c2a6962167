"""What one server holds: sparse tables, dense parameters, and how pushes change them."""

from __future__ import annotations

import os
import threading
import time
import zlib
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.distributed.ps import rules, table_files
from bireme.distributed.ps.id_index import mixed, sum_rows
from bireme.distributed.ps.messages import Message
from bireme.distributed.ps.sparse_table import SparseTable

STORAGE = "FLAGS_rocksdb_path"  # Paddle's name for the folder of rows on disk
IN_MEMORY = "BIREME_PS_ROWS_IN_MEMORY"  # rows of a table that stay in memory where it has a storage
LARGEST_DENSE = 1 << 28  # bytes of one dense parameter


def owner(ids: np.ndarray, servers: int) -> np.ndarray:
    """The server of each id."""
    return (mixed(ids, 5) % np.uint64(servers)).astype(np.int64)


def home(name: str, servers: int) -> int:
    """The server of a dense parameter."""
    return zlib.crc32(name.encode()) % servers


class DenseParameter:
    """A parameter of the network: one row of all its values."""

    def __init__(self, shape: tuple[int, ...], rule: dict[str, Any], values: np.ndarray | None = None):
        self.shape, self.config, self.rule = shape, rule, rules.made(rule)
        self.width = int(np.prod(shape, dtype=np.int64))
        self.row = np.full((1, self.width + self.rule.state(self.width)), self.rule.initial(), np.float32)
        if values is not None:
            self.row[0, : self.width] = values.reshape(-1)

    @property
    def values(self) -> np.ndarray:
        return self.row[0, : self.width].reshape(self.shape)

    def push(self, grad: np.ndarray, lr: float) -> None:
        self.rule.apply(self.row, grad.reshape(1, -1), lr)


class Shard:
    """The tables and parameters of server `index` of `count`."""

    def __init__(self, index: int, count: int):
        self.index, self.count = index, count
        self.tables: dict[str, SparseTable] = {}
        self.dense: dict[str, DenseParameter] = {}
        self._lock = threading.Lock()  # of the dense parameters, and of which tables there are

    # ------------------------------------------------------------ making

    def make_table(self, config: Any) -> None:
        """Make a table; one that is there must be the same."""
        name = config.get("name") if isinstance(config, dict) else None
        with self._lock:
            there = self.tables.get(name) if isinstance(name, str) else None
            if there is None:
                path = os.path.join(os.environ.get(STORAGE, "database"), f"{self.index}-{len(self.tables)}")
                made = SparseTable(config, path, int(os.environ.get(IN_MEMORY, 10_000_000)))
                self.tables[made.config["name"]] = made
            elif there.config != config:
                told = [k for k in there.config if config.get(k) != there.config[k]]
                got = ", ".join(f"{k} {config.get(k)}" for k in told) or "other fields"
                expected = ", ".join(f"{k} {there.config[k]}" for k in told) or "its fields"
                raise errors.bad(f"table {name}", expected, described=got)

    def make_dense(self, name: Any, rule: Any, values: np.ndarray) -> None:
        """Give a dense parameter its first values; one that has values keeps them."""
        if not isinstance(name, str) or values.dtype != np.float32 or values.nbytes > LARGEST_DENSE:
            raise errors.bad("dense parameter", f"a name and float32 values up to {LARGEST_DENSE} bytes", name)
        with self._lock:
            there = self.dense.get(name)
            if there is None:
                self.dense[name] = DenseParameter(values.shape, rule, values)
            elif (there.shape, there.config) != (values.shape, rule):
                expected = f"shape {list(there.shape)} under {there.config}"
                raise errors.bad(f"dense parameter {name}", expected, described=f"{list(values.shape)} under {rule}")

    def table(self, name: Any) -> SparseTable:
        if not isinstance(name, str) or name not in self.tables:
            raise errors.bad("table", f"one of {', '.join(self.tables) or 'none'}", name)
        return self.tables[name]

    # ------------------------------------------------------------ values

    def pull_dense(self, names: list[str]) -> list[np.ndarray]:
        with self._lock:
            for name in names:
                if name not in self.dense:
                    raise errors.bad("dense parameter", f"one of {', '.join(self.dense) or 'none'}", name)
            return [self.dense[name].values.copy() for name in names]

    def push(self, messages: list[Message], share: float, add: bool) -> None:
        """Apply the gradients of one worker, or of all in the order of their ranks, each by its `share`; with `add`,
        differences. A message lists tables, each with ids, gradients and counts, then dense parameters.
        """
        lr = float(messages[0][0]["lr"])
        sparse: dict[str, list[list[np.ndarray]]] = {}
        dense: dict[str, list[np.ndarray]] = {}
        for head, arrays in messages:
            rest = iter(arrays)
            for name in head["tables"]:
                sparse.setdefault(name, []).append([next(rest) for _ in range(3)])
            for name in head["dense"]:
                dense.setdefault(name, []).append(next(rest))
        self._check(sparse, dense)
        for name, given in sparse.items():
            ids, grads, seen = summed(given)
            if share != 1:
                grads *= np.float32(share)
            self.tables[name].push(ids, grads, lr, seen, add)
        with self._lock:
            for name, grads_ in dense.items():
                total = grads_[0] if len(grads_) == 1 else np.sum(np.stack(grads_), axis=0)
                if add:
                    self.dense[name].row[0, : total.size] += total.reshape(-1) * np.float32(share)
                else:
                    self.dense[name].push(total * np.float32(share), lr)

    def _check(self, sparse: dict[str, list[list[np.ndarray]]], dense: dict[str, list[np.ndarray]]) -> None:
        """Nothing is changed by a push of which a part does not fit."""
        for name, given in sparse.items():
            width = self.table(name).width
            for ids, grads, seen in given:
                fits = ids.dtype == np.uint64 and grads.dtype == seen.dtype == np.float32 and ids.ndim == 1
                if not fits or grads.shape != (ids.size, width) or seen.shape != (ids.size, 2):
                    expected = f"ids, rows of {width} float32 and two counts for each"
                    raise errors.bad(f"push({name})", expected, described=f"{grads.dtype} {list(grads.shape)}")
        for name, grads_ in dense.items():
            there = self.dense.get(name)
            if there is None:
                raise errors.bad("dense parameter", f"one of {', '.join(self.dense) or 'none'}", name)
            for grad in grads_:
                if grad.shape != there.shape or grad.dtype != np.float32:
                    got = f"{grad.dtype} {list(grad.shape)}"
                    raise errors.bad(f"push({name})", f"float32 {list(there.shape)}", described=got)

    # ------------------------------------------------------------ files

    def save(self, folder: str, stamp: int, only: str | None = None) -> dict[str, int]:
        """Write all tables, or one."""
        names = list(self.tables) if only is None else [only]
        tables = [self.table(name) for name in names]
        for table in tables:
            table.lock.acquire()
        try:
            parts: list[table_files.Part] = [
                ({"kind": "sparse", "config": table.config}, list(arrays))
                for table in tables
                for arrays in table.parts()
            ]
            if only is None:
                with self._lock:
                    parts += [
                        ({"kind": "dense", "name": name, "rule": one.config, "shape": list(one.shape)}, [one.row])
                        for name, one in self.dense.items()
                    ]
                    table_files.write(folder, self.index, self.count, stamp, parts)
            else:
                table_files.write(folder, self.index, self.count, stamp, parts)
        finally:
            for table in tables:
                table.lock.release()
        return {table.config["name"]: table.size for table in tables}

    def load(self, folder: str, only: str | None = None) -> int:
        """Read the newest complete save of a folder, in the place of what is there; its stamp."""
        found = table_files.stamps(folder)
        if not found:
            raise errors.bad(
                "load(path)", "a folder with saved tables of all servers", folder, kind=errors.ArgumentError
            )
        stamp, files = next(iter(found.items()))
        same = len(files) == self.count
        cleared: set[str] = set()
        for number, path in enumerate(files):
            for told, arrays in table_files.read(path) if not same or number == self.index else ():
                try:
                    if told["kind"] == "dense":
                        if only is None and (same or home(told["name"], self.count) == self.index):
                            self._load_dense(told, arrays)
                    elif only in (None, told["config"]["name"]):
                        self._load_rows(told, arrays, same, cleared)
                except (LookupError, TypeError, AttributeError) as e:
                    raise errors.failure(
                        f"load({path}): expected a whole file of tables: {e}", kind=errors.FileFormatError
                    ) from None
        return stamp

    def _load_dense(self, told: dict[str, Any], arrays: list[np.ndarray]) -> None:
        made = DenseParameter(tuple(told["shape"]), told["rule"])
        if arrays[0].shape != made.row.shape:
            got = f"{arrays[0].shape[-1]} floats"
            raise errors.bad(f"load({told['name']})", f"{made.row.shape[1]} floats", described=got)
        made.row = arrays[0]
        with self._lock:
            self.dense[told["name"]] = made

    def _load_rows(self, told: dict[str, Any], arrays: list[np.ndarray], all_mine: bool, cleared: set[str]) -> None:
        self.make_table(told["config"])
        table = self.table(told["config"]["name"])
        if table.config["name"] not in cleared:
            table.clear()
            cleared.add(table.config["name"])
        ids, rows, beside = arrays
        if not all_mine:
            mine = owner(ids, self.count) == self.index
            ids, rows, beside = ids[mine], rows[mine], beside[mine]
        table.load(ids, rows, beside)

    def next_stamp(self, folder: str) -> int:
        """A number above those of all saves in a folder."""
        return max([time.time_ns(), *[stamp + 1 for stamp in table_files.stamps(folder)]])


def summed(given: list[list[np.ndarray]]) -> list[np.ndarray]:
    """Ids that are all different, with the sums of what stands beside them."""
    ids = given[0][0]
    if len(given) == 1 and (ids[1:] > ids[:-1]).all():
        return [ids, given[0][1].copy(), given[0][2]]
    ids, at = np.unique(np.concatenate([one[0] for one in given]), return_inverse=True)
    return [ids, *[sum_rows(np.concatenate([one[k] for one in given]), at, ids.size) for k in (1, 2)]]
