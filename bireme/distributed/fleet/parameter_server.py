"""What fleet does with parameter servers: it starts and ends servers and workers, and saves and loads tables."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.boundary import Guarded
from bireme.core.base.later import Later
from bireme.core.program import building
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.fleet.base.distributed_strategy import DistributedStrategy
from bireme.distributed.fleet.base.role_maker import PaddleCloudRoleMaker
from bireme.distributed.ps import lookup
from bireme.distributed.ps.optimizer import ParameterServerOptimizer
from bireme.files.store import save as save_file
from bireme.static import inference_models
from bireme.static.scopes import global_scope

if TYPE_CHECKING:
    from bireme.distributed.ps.server import Server

__all__ = ["ParameterServerCalls"]

clients, servers, workers = [Later(f"bireme.distributed.ps.{name}") for name in ("client", "server", "worker")]

THRESHOLD = 0.8  # what a row has to be worth to stay: eight shows of a day without a click


class ParameterServerCalls(Guarded):
    """The methods of ``fleet`` that need parameter servers."""

    _role_maker: PaddleCloudRoleMaker | None
    _user_defined_strategy: DistributedStrategy | None
    user_defined_optimizer: Any

    def __init__(self) -> None:
        self._server: Server | None = None

    def _role(self) -> PaddleCloudRoleMaker:
        if self._role_maker is None:
            raise errors.bad(
                "fleet", "a call of fleet.init() before", described="none", kind=errors.MissingAttributeError
            )
        return self._role_maker

    def _with_servers(self) -> bool:
        return self._role_maker is not None and self._role_maker._server_num() > 0

    def _part(self, where: str, server: bool) -> PaddleCloudRoleMaker:
        """This process, which has to be a server, or a worker of servers."""
        role = self._role()
        if not self._with_servers():
            raise errors.bad(
                f"fleet.{where}()", "parameter servers", described="none", kind=RuntimeError,
                hint="fleet.init(is_collective=False) and PADDLE_PSERVERS_IP_PORT_LIST, which "
                "python -m bireme.distributed.launch --server_num 2 --worker_num 2 sets",
            )  # fmt: skip
        if role._is_server() is not server:
            expected, got = ("a server", "a worker") if server else ("a worker", "a server")
            raise errors.bad(f"fleet.{where}()", f"a call in {expected}", described=f"one in {got}", kind=RuntimeError)
        return role

    # ------------------------------------------------------------ servers

    def init_server(self, *args: Any, **kwargs: Any) -> None:
        """Set up this parameter server, with the tables that were saved in a folder if one is given.

        Args:
            *args: ``dirname``, the folder of ``save_persistables``, and names of variables, which have no effect.
            **kwargs: The same by name: ``dirname``, ``var_names``.

        Raises:
            ValueError: If the folder has no complete save, or a file is damaged.
            RuntimeError: If this process is no server.

        Examples:
            >>> bireme.distributed.fleet.init_server("saved")  # doctest: +SKIP
        """
        role = self._part("init_server", server=True)
        unknown = set(kwargs) - {"dirname", "var_names"}
        if unknown or len(args) > 2:
            raise errors.bad(
                "fleet.init_server()", "dirname and var_names", described=str(sorted(unknown) or len(args))
            )
        dirname = args[0] if args else kwargs.get("dirname")
        index = role._server_index()
        self._server = servers.Server(
            role._get_pserver_endpoints()[index], index, role._server_num(), role._worker_num()
        )
        if dirname is not None:
            self._server.shard.load(os.fspath(dirname))

    def run_server(self) -> None:
        """Answer the workers, until all of them have called ``stop_worker``.

        Raises:
            RuntimeError: If this process is no server, ``init_server`` was not called, or its address is taken.

        Examples:
            >>> bireme.distributed.fleet.run_server()  # doctest: +SKIP
        """
        self._part("run_server", server=True)
        if self._server is None:
            raise errors.bad(
                "fleet.run_server()", "a call of init_server() before", described="none", kind=RuntimeError
            )
        self._server.run()

    # ------------------------------------------------------------ workers

    def init_worker(self, scopes: Any = None) -> None:
        """Join the parameter servers: tables and parameters are made there, with the first worker's initial values, if
        they are not there yet; all workers take the servers' values. It waits for all workers.

        Args:
            scopes: Scopes whose parameters they are; only the first counts. Default: None, the current one.

        Raises:
            RuntimeError: If this process is no worker, or servers or workers are missing after the time for a call,
                120 seconds or ``BIREME_PS_TIMEOUT``.

        Examples:
            >>> bireme.distributed.fleet.init_worker()  # doctest: +SKIP
        """
        role = self._part("init_worker", server=False)
        if lookup.Current.worker is not None:
            raise errors.bad(
                "fleet.init_worker()", "one call before stop_worker()", described="a second one", kind=RuntimeError
            )
        options = DistributedStrategy() if self._user_defined_strategy is None else self._user_defined_strategy
        made = self.user_defined_optimizer
        optimizer = made.user_defined_optimizer if isinstance(made, ParameterServerOptimizer) else None
        client = clients.Client(role._get_pserver_endpoints(), role._worker_index())
        count, settings = role._worker_num(), options.a_sync_configs
        if not options.a_sync:
            worker = workers.Worker(client, count, optimizer)
        elif settings["k_steps"] > 0:
            worker = workers.GeoWorker(client, count, optimizer, settings["k_steps"])
        else:
            worker = workers.AsyncWorker(client, count, optimizer, settings["send_queue_size"])
        scope = scopes[0] if isinstance(scopes, (list, tuple)) and scopes else scopes or global_scope()
        params: list[Tensor] = [] if optimizer is None else optimizer._parameter_list
        with building.suspended():
            worker.join([scope.tensor(p) for p in params])
        lookup.Current.worker, role._gather = worker, client.gather

    def stop_worker(self) -> None:
        """Leave the parameter servers, after they have all gradients of this worker; they end when all have left.

        Raises:
            RuntimeError: If ``init_worker`` was not called.

        Examples:
            >>> bireme.distributed.fleet.stop_worker()  # doctest: +SKIP
        """
        role, worker = self._part("stop_worker", server=False), lookup.worker("fleet.stop_worker()")
        try:
            worker.stop()
        finally:
            lookup.Current.worker, role._gather = None, None

    # ------------------------------------------------------------ saving and loading

    def _worker(self, where: str) -> Any:
        self._part(where, server=False)
        return lookup.worker(f"fleet.{where}()")

    def _save(self, where: str, dirname: Any, mode: Any, only: str | None = None) -> None:
        worker = self._worker(where)
        if mode != 0:
            raise errors.bad(f"fleet.{where}(mode)", "0, all rows with their states", mode)
        worker.flush()
        if self._role()._is_first_worker():
            worker.client.save(os.path.abspath(os.fspath(dirname)), only)

    def save_persistables(self, executor: Any, dirname: str, main_program: Any = None, mode: int = 0) -> None:
        """Save all tables and parameters: each server writes its part into the folder, which all of them can reach.

        What was saved before stays until all servers have written, so one that is killed meanwhile loses nothing. If
        all workers call it, the first one does it.

        Args:
            executor: Has no effect.
            dirname: The folder.
            main_program: Has no effect.
            mode: 0, all rows with their states. Default: 0.

        Raises:
            ValueError: If there is no such mode.
            RuntimeError: If ``init_worker`` was not called, or a server could not write.

        Examples:
            >>> bireme.distributed.fleet.save_persistables(None, "saved")  # doctest: +SKIP
        """
        self._save("save_persistables", dirname, mode)

    def load_model(self, path: str, mode: int) -> None:
        """Load all tables and parameters of a folder into the servers, in the place of what they have. The number of
        servers may be another than when it was saved.

        Args:
            path: The folder of ``save_persistables``, which all servers can reach.
            mode: 0.

        Raises:
            ValueError: If the folder has no complete save, a file is damaged, or a table is another.

        Examples:
            >>> bireme.distributed.fleet.load_model("saved", mode=0)  # doctest: +SKIP
        """
        self._load("load_model", path, mode)

    def _load(self, where: str, path: Any, mode: Any, only: str | None = None) -> None:
        worker = self._worker(where)
        if mode != 0:
            raise errors.bad(f"fleet.{where}(mode)", "0, all rows with their states", mode)
        worker.flush()
        if self._role()._is_first_worker():
            worker.client.all("Load", {"folder": os.path.abspath(os.fspath(path)), "only": only})
        worker.refresh()

    def load_inference_model(self, path: str, mode: int) -> None:
        """Load all tables and parameters of a folder, as ``load_model`` does.

        Args:
            path: The folder.
            mode: 0.
        """
        self._load("load_inference_model", path, mode)

    def _table(self, where: str, table_id: Any) -> str:
        names = list(lookup.TABLES)
        if not isinstance(table_id, int) or not 0 <= table_id < len(names):
            raise errors.bad(f"fleet.{where}(table_id)", f"the number of a table below {len(names)}", table_id)
        return names[table_id]

    def save_one_table(self, table_id: int, path: str, mode: int) -> None:
        """Save one sparse table.

        Args:
            table_id: Number of the table, in the order in which the program names them.
            path: The folder.
            mode: 0.
        """
        self._save("save_one_table", path, mode, self._table("save_one_table", table_id))

    def load_one_table(self, table_id: int, path: str, mode: int) -> None:
        """Load one sparse table.

        Args:
            table_id: Number of the table, in the order in which the program names them.
            path: The folder.
            mode: 0.
        """
        self._load("load_one_table", path, mode, self._table("load_one_table", table_id))

    def save_inference_model(
        self,
        executor: Any,
        dirname: str,
        feeded_var_names: Sequence[str],
        target_vars: Sequence[Any],
        main_program: Any = None,
        export_for_deployment: bool = True,
        mode: int = 0,
    ) -> None:
        """Save a program that computes variables from others, with the servers' values of the dense parameters, in
        ``model.pdmodel`` and ``model.pdiparams`` of a folder, and the tables, as ``save_persistables`` does.

        Rows of sparse tables are looked up at servers when the program runs: see ``fleet.utils.DistributedInfer``.

        Args:
            executor: An ``Executor``.
            dirname: The folder.
            feeded_var_names: Names of the inputs.
            target_vars: Variables that are computed.
            main_program: The program. Default: None, the default main program.
            export_for_deployment: Has no effect.
            mode: 0. Default: 0.

        Raises:
            ValueError: If there is no such mode, or no such input.

        Examples:
            >>> bireme.distributed.fleet.save_inference_model(exe, "model", ["x"], [y])  # doctest: +SKIP
        """
        self._save("save_inference_model", dirname, mode)
        if not self._role()._is_first_worker():
            return
        lookup.worker("fleet.save_inference_model()").refresh()
        program = lookup.for_inference(building.programs.main if main_program is None else main_program)
        feeds: list[Any] = [program.global_block().var(name) for name in feeded_var_names]
        targets: list[Any] = [program.global_block().var(x.name) for x in target_vars]
        prefix = os.path.join(os.fspath(dirname), "model")
        inference_models.save_inference_model(prefix, feeds, targets, executor, program=program)

    def save_dense_params(
        self, executor: Any, dirname: str, scope: Any, program: Any, var_names: Sequence[str] | None = None
    ) -> None:
        """Save the servers' values of dense parameters in a file ``dense.pdparams`` of a folder.

        Args:
            executor: Has no effect.
            dirname: The folder.
            scope: Has no effect.
            program: Has no effect.
            var_names: Names of the parameters. Default: None, all.
        """
        worker = self._worker("save_dense_params")
        worker.flush()
        worker.refresh()
        names = list(worker._params) if var_names is None else list(var_names)
        for name in names:
            if name not in worker._params:
                raise errors.bad("fleet.save_dense_params(var_names)", "names of dense parameters", name)
        if self._role()._is_first_worker():
            os.makedirs(dirname, exist_ok=True)
            save_file({name: worker._params[name] for name in names}, os.path.join(dirname, "dense.pdparams"))

    def save(
        self,
        dirname: str,
        feed: Sequence[str] = [],
        fetch: Sequence[Any] = [],
        **configs: Any,
    ) -> None:
        """Save for inference, with ``feed`` and ``fetch``, or everything without them.

        Args:
            dirname: The folder.
            feed: Names of the inputs. Default: none.
            fetch: Variables that are computed, or their names. Default: none.
            **configs: ``mode``, and ``executor`` and ``program`` of ``save_inference_model``.
        """
        mode = configs.get("mode", 0)
        if not feed and not fetch:
            self.save_persistables(configs.get("executor"), dirname, mode=mode)
            return
        program = configs.get("program") or building.programs.main
        block = program.global_block()
        targets = [block.var(x) if isinstance(x, str) else x for x in fetch]
        self.save_inference_model(configs.get("executor"), dirname, feed, targets, program, mode=mode)

    def save_cache_model(self, dirname: str, **configs: Any) -> int:
        """Save all tables; there is no cache beside them, so they are all of it.

        Args:
            dirname: The folder.
            **configs: ``mode``.

        Returns:
            The number of rows.
        """
        self._save("save_cache_model", dirname, configs.get("mode", 0))
        return sum(rows for rows, _ in self._sizes("save_cache_model").values())

    def save_cache_table(self, table_id: int, pass_id: int, mem_cache_key_threshold: int = 4000000000) -> int:
        """Return how many rows of a table are kept, of which those beyond the memory of servers are on disk already.

        Args:
            table_id: Number of the table, in the order in which the program names them.
            pass_id: Has no effect.
            mem_cache_key_threshold: Has no effect.

        Returns:
            The number of rows.

        Examples:
            >>> bireme.distributed.fleet.save_cache_table(0, 1)  # doctest: +SKIP
        """
        name = self._table("save_cache_table", table_id)
        return self._sizes("save_cache_table")[name][0]

    def _sizes(self, where: str) -> dict[str, tuple[int, int]]:
        """Rows and bytes of each table, of all servers together."""
        worker = self._worker(where)
        worker.flush()
        told = [answer["tables"] for answer in worker.client.all("Stat", {})]
        names = {name: None for tables in told for name in tables}
        sums = {name: np.sum([tables.get(name, [0, 0]) for tables in told], axis=0) for name in names}
        return {name: (int(rows), int(nbytes)) for name, (rows, nbytes) in sums.items()}

    def print_table_stat(self, table_id: int, pass_id: int, threshold: float) -> None:
        """Print how many rows a table has, and the memory that they take.

        Args:
            table_id: Number of the table, in the order in which the program names them.
            pass_id: Has no effect.
            threshold: Has no effect.
        """
        name = self._table("print_table_stat", table_id)
        rows, nbytes = self._sizes("print_table_stat")[name]
        sys.stdout.write(f"table {table_id}, {name}: {rows} rows, {nbytes} bytes in memory\n")

    # ------------------------------------------------------------ upkeep

    def shrink(self, threshold: float | None = None) -> None:
        """Let a day pass for all tables: counts of shows and clicks lose 2 %, and rows go that are worth less than the
        threshold, a tenth of a click for each show without one and one for each click, or were not updated for 30 days.
        If all workers call it, the first one does it.

        Args:
            threshold: What a row has to be worth to stay. Default: None, 0.8.

        Raises:
            RuntimeError: If ``init_worker`` was not called.

        Examples:
            >>> bireme.distributed.fleet.shrink(0.5)  # doctest: +SKIP
        """
        worker = self._worker("shrink")
        least = THRESHOLD if threshold is None else threshold
        if not isinstance(least, (int, float)):
            raise errors.bad("fleet.shrink(threshold)", "a number", threshold, kind=errors.ArgumentTypeError)
        worker.flush()
        if self._role()._is_first_worker():
            worker.client.all("Shrink", {"threshold": float(least)})

    def set_date(self, table_id: int, day_id: int) -> None:
        """Say which day it is: rows keep the day of their last update.

        Args:
            table_id: Number of the table, in the order in which the program names them.
            day_id: Number of the day.
        """
        head = {"table": self._table("set_date", table_id), "day": int(day_id)}
        self._worker("set_date").client.all("Day", head)
