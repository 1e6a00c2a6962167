"""The pieces of a graph as ``explain`` shows them: one row for each different one, with its layers and lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bireme.core.base import errors
from bireme.core.graph.graph import Graph
from bireme.core.run import leaf_names
from bireme.core.run.leaf_names import Leaves, Names
from bireme.core.run.tables import Table


class PieceTable(Table):
    """The different pieces of a segment: a list of dicts that is printed as a table."""

    heads = ("times", "ops", "operators", "layer", "lines", "compile_ms", "from")


def piece_rows(entry: Any, leaves: Leaves, names: Names) -> PieceTable:
    """A row for each different piece, in the order in which they run first; none for a graph that is one program."""
    found: dict[int, list[tuple]] = {}
    for nodes, program in entry.pieces:
        found.setdefault(id(program), []).append((nodes, program))
    rows = PieceTable()
    if not found:
        return rows
    paths = {i: name.path for i, name in names.known(leaves).items() if name.path}
    made_of = _made_of(entry.graph)
    for same in found.values():
        nodes, program = same[0]
        layers = [layer for run, _ in same for layer in leaf_names.owners(_paths(run, paths, made_of))]
        made = program.result() if program.done() and not program.exception() else None
        rows.append({
            "times": len(same), "ops": len(nodes),
            "operators": _few([node.bound.op.told for node in nodes], 4),
            "layer": _span(layers),
            "lines": _span([errors.location(node.pos) for run, _ in same for node in run]),
            "compile_ms": None if made is None else round(made.ms, 1),
            "from": "being compiled" if made is None else "disk" if made.from_disk else "compiler",
        })  # fmt: skip
    return rows


def _made_of(graph: Graph) -> dict[int, int]:
    """Values that one operator makes of a leaf alone, as a cast of a parameter, and the leaf's index."""
    return {
        node.first: ~node.args[0]
        for node in graph.nodes
        if len(node.args) == 1 and node.args[0].__class__ is int and node.args[0] < 0
    }


def _paths(nodes: Iterable[Any], paths: dict[int, str], made_of: dict[int, int]) -> list[str]:
    """The structured names of the parameters and buffers that some calls read."""
    refs = [r for node in nodes for r in node.args if r.__class__ is int]
    leaves = [~r if r < 0 else made_of.get(r) for r in refs]
    return [paths[i] for i in leaves if i in paths]


def _few(names: list[str], most: int) -> str:
    different = list(dict.fromkeys(names))
    return ", ".join(different[:most]) + (", ..." if len(different) > most else "")


def _span(names: list[str]) -> str:
    """A few names, or the first and the last of many."""
    different = list(dict.fromkeys(names))
    return ", ".join(different) if len(different) < 4 else f"{different[0]} .. {different[-1]}"
