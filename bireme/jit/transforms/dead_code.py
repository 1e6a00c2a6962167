"""Dead code: operations whose results nobody reads are left out."""

from __future__ import annotations

from bireme.core.program.program_model import Model
from bireme.jit.transforms.editing import told


def dead_code(model: Model) -> list[str]:
    """Leave out what the outputs do not need, and what does nothing else."""
    kept = model.plan().operations
    keep = set(map(id, kept))
    lines = [f"left out {told(o)}" for o in model.program.operations if id(o) not in keep]
    model.program.operations = list(kept)
    return lines
