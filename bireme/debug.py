"""What the engine did and why: `stats`, `explain`, `no_recompile`, and running pending work at once."""

from bireme.core.base.errors import NonFiniteError, RecompileError
from bireme.core.graph.executor import use as use_executor
from bireme.core.record.flush import flush
from bireme.core.run.explain import explain, no_recompile, reset_stats, stats

__all__ = [
    "NonFiniteError", "RecompileError", "explain", "flush", "no_recompile", "reset_stats", "stats", "use_executor",
]  # fmt: skip
