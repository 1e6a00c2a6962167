"""What the engine did and why: `stats`, `explain`, `no_recompile`, and running pending work at once."""

from bireme.core.debug import explain, no_recompile, reset_stats, stats
from bireme.core.errors import NonFiniteError, RecompileError
from bireme.core.executor import use as use_executor
from bireme.core.flush import flush

__all__ = ["NonFiniteError", "RecompileError", "explain", "flush", "no_recompile", "reset_stats", "stats", "use_executor"]
