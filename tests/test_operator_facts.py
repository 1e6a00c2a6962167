"""Whatever the engine asks of the operator that a call names can be asked of a gradient's too."""

import ast
from pathlib import Path

import pytest

from bireme.core.graph.bound import Facts, GradOp

CORE = Path(__file__).resolve().parent.parent / "bireme" / "core"
# these speak of declared operators alone: of what a gradient is of, or of a Bound that was told from a GradBound
OF_DECLARED = {
    ("graph/bound.py", "*"),
    ("graph/pieces.py", "bind"),
    ("graph/varying.py", "bind"),
    ("numpy_exec/planning.py", "grad_names"),
    ("declare/repetition.py", "check_indices"),
}


def asked(text: str) -> list[tuple[str, int]]:
    """The names in `x.op.name`, each with its line."""
    return [
        (node.attr, node.lineno)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute) and node.value.attr == "op"
    ]


def missing(file: str, text: str) -> list[str]:
    gradient = GradOp("tanh", "tanh")
    return [
        f"{file}:{line}: a GradOp has no {name!r}; give it a default in Facts"
        for name, line in asked(text)
        if not hasattr(gradient, name) and not {(file, "*"), (file, name)} & OF_DECLARED
    ]


def test_gradients_answer_whatever_is_asked():
    files = {str(f.relative_to(CORE)): f.read_text() for f in sorted(CORE.rglob("*.py"))}
    assert sum(len(asked(text)) for text in files.values()) > 100
    assert [line for file, text in files.items() for line in missing(file, text)] == []


def test_the_check_catches():
    assert missing("run/x.py", "a = node.bound.op.flops_rule") == [
        "run/x.py:1: a GradOp has no 'flops_rule'; give it a default in Facts"
    ]


@pytest.mark.parametrize("name", [n for n in vars(Facts) if not n.startswith("_")])
def test_each_fact_is_read(name):
    """A default that nobody reads says nothing."""
    assert any(f".{name}" in f.read_text() for f in CORE.rglob("*.py"))
