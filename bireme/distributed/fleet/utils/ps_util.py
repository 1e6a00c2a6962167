"""DistributedInfer: programs that look rows up at parameter servers, run without training them."""

from __future__ import annotations

from typing import Any

from bireme.core.base.boundary import Guarded
from bireme.core.program import building
from bireme.core.program.program import Program
from bireme.distributed.ps import lookup

__all__ = ["DistributedInfer"]


class DistributedInfer(Guarded):
    """Runs a program for tests with parameter servers: unknown ids read zeros, and nothing is trained.

    Args:
        main_program: The program. Default: None, the default main program.
        startup_program: The program that gives parameters initial values. Default: None, the default one.

    Examples:
        >>> infer = bireme.distributed.fleet.utils.DistributedInfer(bireme.static.Program(), bireme.static.Program())
        >>> len(infer.get_dist_infer_program().list_vars())
        0
    """

    def __init__(self, main_program: Program | None = None, startup_program: Program | None = None):
        self.origin_main_program = building.programs.main if main_program is None else main_program
        self.startup_program = building.programs.startup if startup_program is None else startup_program
        self._made: Program | None = None

    def init_distributed_infer_env(
        self, exe: Any, loss: Any, role_maker: Any = None, dirname: str | None = None
    ) -> None:
        """Set up fleet where it is not: servers run here, in their processes, until the workers stop; workers join.

        Args:
            exe: An ``Executor``, which runs the startup program.
            loss: Has no effect: nothing is trained.
            role_maker: What is known about this process. Default: None, what the environment says.
            dirname: Folder of saved tables, for the servers. Default: None.
        """
        fleet = lookup.Current.fleet
        if fleet._role_maker is None:
            fleet.init(role_maker)
        if fleet.is_server():
            fleet.init_server(dirname)
            fleet.run_server()
            return
        exe.run(self.startup_program)
        if lookup.Current.worker is None:
            fleet.init_worker()

    def get_dist_infer_program(self) -> Program:
        """Return the program without gradients and updates, in which ids without a row read zeros.

        Returns:
            A ``Program``.
        """
        if self._made is None:
            self._made = lookup.for_inference(self.origin_main_program)
        return self._made
