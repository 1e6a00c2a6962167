"""Who may import whom: imports point down the list of layers, form no cycle, and stand at the top of the file."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# From the bottom up; an entry is a module or package directly under `bireme`. Modules of one layer may import each
# other as long as no cycle comes of it. A new module has to be put into its layer here.
CORE = (
    "base",
    "graph",
    "numpy_exec",
    "xla_exec",
    "processes",
    "run",
    "record",
    "tensor",
    "declare",
    "program",
)  # sub-packages, from the bottom up
LAYERS = [
    *[[f"core.{package}"] for package in CORE],
    ["core"],
    ["ops"],
    ["linalg", "fft", "signal", "special", "tensor", "device", "debug", "defaults", "errors", "extension", "version"],
    [
        *("autograd", "param_attr", "nn", "optimizer", "amp", "io", "files", "metric", "regularizer", "utils"),
        *("jit", "static", "distribution", "sparse", "geometric", "distributed", "quantization", "profiler"),
        *("sysconfig", "framework", "base", "batch", "_C_ops", "_legacy_C_ops", "pir", "pir_utils"),
    ],
    [
        "hapi",
        "callbacks",
        "cost_model",
        "vision",
        "text",
        "audio",
        "hub",
        "onnx",
        "inference",
        "incubate",
        "compat",
        "reader",
        "dataset",
        "slim",
    ],
    ["export", "llm", "ocr", "serve"],
    ["command"],
    ["bireme", "__main__"],
]
RANK = {unit: rank for rank, layer in enumerate(LAYERS) for unit in layer}
MAY_IMPORT_JAX = {*[f"core.{package}" for package in CORE], "ops"}
TOP = ("bireme", "jax", "jaxlib")


def source(root: Path = ROOT) -> dict[str, tuple[str, bool]]:
    """Text of each module of the package, and whether it is a package's `__init__`."""
    files = {path.relative_to(root).with_suffix(""): path for path in sorted((root / "bireme").rglob("*.py"))}
    return {
        ".".join(p for p in key.parts if p != "__init__"): (path.read_text(), key.name == "__init__")
        for key, path in files.items()
    }


def unit_of(module: str) -> str:
    """The entry of LAYERS that a module belongs to: what stands directly under `bireme`, in the core its sub-package."""
    parts = module.split(".")
    if parts[1:2] == ["core"]:
        return ".".join(parts[1:3])
    return parts[1] if len(parts) > 1 else module


def targets(node: ast.AST, module: str, package: bool, modules: dict) -> list[str]:
    """The modules that an import statement reaches; `from package import name` means the module if there is one."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        here = module.split(".")
        start = here[: len(here) - node.level + package] if node.level else []
        base = ".".join(start + (node.module.split(".") if node.module else []))
        return [f"{base}.{a.name}" if f"{base}.{a.name}" in modules else base for a in node.names]
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in ("import_module", "__import__"):
            return [str(node.args[0].value)]
    return []


def nodes(tree: ast.AST) -> Iterator[tuple[ast.AST, bool, bool]]:
    """Every node, whether it is inside a function, and whether it is there for type checkers alone; one walk for all."""
    left = [(tree, False, False)]
    while left:
        node, inside, typing = left.pop()
        yield node, inside, typing
        inside = inside or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        typing = typing or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
        left += [(child, inside, typing) for child in ast.iter_child_nodes(node)]


def problems(modules: dict[str, tuple[str, bool]]) -> list[str]:
    found, edges = [], {}
    for module, (text, package) in modules.items():
        tree, unit, edges[module] = ast.parse(text), unit_of(module), set()
        if unit not in RANK:
            found.append(f"{module}: has no layer; add {unit!r} to LAYERS")
            continue
        for node, inside, typing in nodes(tree):
            for target in targets(node, module, package, modules):
                top, where = target.split(".")[0], f"{module}:{node.lineno}"
                if top in TOP and inside:
                    found.append(f"{where}: import of {target} inside a function")
                if top in TOP[1:] and unit not in MAY_IMPORT_JAX:
                    found.append(f"{where}: imports {target}; only core and ops may")
                if top == "bireme":
                    if RANK.get(unit_of(target), len(LAYERS)) > RANK[unit]:
                        found.append(f"{where}: imports {target} from a higher layer")
                    if not typing and target != module:
                        edges[module].add(target)
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        found.append(f"cycle: {' -> '.join(reversed(error.args[1]))}")
    return found


def test_imports_follow_the_layers():
    modules = source()
    assert "bireme.core" in modules
    assert problems(modules) == []


GOOD = {
    "bireme": ("from bireme import ops", True),
    "bireme.core": ("", True),
    "bireme.core.base": ("", True),
    "bireme.core.base.a": ("import jax", False),
    "bireme.core.graph.g": ("from bireme.core.base import a", False),
    "bireme.ops": ("from bireme.core.base import a", True),
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bireme.core.base.a": ("import bireme.ops", False)}, "higher layer"),
        ({"bireme.core.base.a": ("from ... import ops", False)}, "higher layer"),
        ({"bireme.core.base.a": ("import bireme", False)}, "higher layer"),
        ({"bireme.nn": ("import jax.numpy as jnp", True)}, "only core and ops"),
        ({"bireme.core.base.b": ("def f():\n    from bireme.core import a", False)}, "inside a function"),
        ({"bireme.core.base.b": ("import importlib\nx = importlib.import_module('bireme.nn')", False)}, "higher layer"),
        (
            {"bireme.core.base.a": ("from . import b", False), "bireme.core.base.b": ("from .a import x", False)},
            "cycle",
        ),
        (
            {
                "bireme.core.base.a": ("from bireme.core.base import x", False),
                "bireme.core.base": ("from .a import x", True),
            },
            "cycle",
        ),
        ({"bireme.core.base.a": ("from bireme.core.graph import g", False)}, "higher layer"),
        ({"bireme.core.misc": ("", True)}, "has no layer"),
        ({"bireme.nn": ("import bireme.optimizer", True), "bireme.optimizer": ("import bireme.nn", True)}, "cycle"),
        ({"bireme.misc": ("", False)}, "has no layer"),
    ],
)
def test_the_check_catches(change, message):
    assert problems(GOOD) == []
    assert any(message in problem for problem in problems(GOOD | change))
