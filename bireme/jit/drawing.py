"""Pictures of graphs: one HTML page that needs nothing else, with layers as boxes that open."""

from __future__ import annotations

import html
import os
from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.program.program import Operation, leaves
from bireme.core.program.program_model import Model
from bireme.core.program.variable import Dim, Symbol
from bireme.core.tensor.tensor import Tensor
from bireme.jit import saving
from bireme.nn.layer import Layer

WIDTH, HEIGHT, GAP, ACROSS = 190, 34, 26, 40  # of a box of the overview, and between boxes


def draw(layer: Any, path: str, input_spec: Any = None, depth: int = 1) -> None:
    """Draw the graph of a layer, a function or a saved model as an HTML page.

    The overview shows layers as boxes with the shapes that pass between them. Below it every operation stands in the layer
    that it belongs to; layers open and close, and pointing at an operation marks what it reads and who reads it.

    Args:
        layer: Layer or function, what ``jit.load`` returned, or the path of a saved model.
        path: File to write.
        input_spec: List of ``InputSpec``, as for ``jit.save``. Default: None.
        depth: How deep in the tree of layers the boxes of the overview stand. Default: 1, the layers of the outermost one.

    Examples:
        >>> import os, tempfile
        >>> net = bireme.nn.Sequential(bireme.nn.Linear(4, 8), bireme.nn.ReLU())
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = os.path.join(folder, "net.html")
        ...     bireme.jit.drawing.draw(net, page, [bireme.static.InputSpec([None, 4])])
        ...     "<svg" in open(page).read()
        True
    """
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 1:
        raise errors.bad("draw(depth)", "a positive integer", depth)
    found = saving.load(os.fspath(layer)) if isinstance(layer, (str, os.PathLike)) else layer
    models = saving.models_of(found, input_spec, "draw")
    title = type(found).__name__ if isinstance(found, Layer) else getattr(found, "__name__", "function")
    parts = [_page_of(name, model, depth) for name, model in models.items()]
    with open(path, "w", encoding="utf-8") as file:
        file.write(_PAGE.format(title=html.escape(title), body="\n".join(parts)))


def _page_of(name: str, model: Model, depth: int) -> str:
    operations = model.plan().operations
    inputs = ", ".join([f"{s.name}: {_shape(s)}" for s in model.inputs])
    outputs = ", ".join([f"{n}: {_shape(x)}" for n, x in zip(model.output_names, model.outputs, strict=True)])
    head = f"<h2>{html.escape(name)}</h2><p>{html.escape(inputs)} &rarr; {html.escape(outputs)}</p>"
    return head + overview(model, depth) + _tree(name, model, operations)


def _shape(x: Any) -> str:
    if isinstance(x, Symbol) and x.samples[0].items is not None:
        return "list"
    sizes = "x".join(["?" if isinstance(n, Dim) else str(n) for n in x.shape])
    return f"{x.dtype.name}[{sizes}]"


# ------------------------------------------------------------ overview


def overview(model: Model, depth: int) -> str:
    """The graph as SVG: layers at a depth as boxes, below each other in the order of what they read."""
    made_by: dict[Symbol, int] = {}
    boxes: list[list[Any]] = []  # label, title, whether it is an input or output, shape of the last result
    edges: dict[tuple[int, int], str] = {}
    at: dict[str, int] = {}
    for symbol in model.inputs:
        made_by[symbol] = len(boxes)
        boxes.append([symbol.name, _shape(symbol), True])
    for operation in model.plan().operations:
        scope = ".".join(operation.scope.split(".")[:depth]) if operation.scope else ""
        # a layer that is called twice is two boxes
        key = scope if scope and at.get(scope) == len(boxes) - 1 else ""
        if not key:
            at[scope] = len(boxes)
            boxes.append([scope or operation.type, operation.type, False])
        here = at[scope] if scope else len(boxes) - 1
        for x in operation.reads:
            if isinstance(x, Symbol) and x in made_by and made_by[x] != here:
                edges[made_by[x], here] = _shape(x)
        made_by.update(dict.fromkeys(operation.makes, here))
        if scope and operation.type not in boxes[here][1].split(", "):
            boxes[here][1] += f", {operation.type}"
    for name, x in zip(model.output_names, model.outputs, strict=True):
        if isinstance(x, Symbol) and x in made_by:
            edges[made_by[x], len(boxes)] = _shape(x)
            boxes.append([name, "output", True])
    return _svg(boxes, edges)


def _svg(boxes: list[list[Any]], edges: dict[tuple[int, int], str]) -> str:
    rows = [0] * len(boxes)
    for a, b in sorted(edges, key=lambda edge: edge[1]):
        rows[b] = max(rows[b], rows[a] + 1)
    columns: list[int] = []
    filled: dict[int, int] = {}
    for row in rows:
        columns.append(filled.get(row, 0))
        filled[row] = columns[-1] + 1
    places = [
        (30 + column * (WIDTH + ACROSS), 10 + row * (HEIGHT + GAP)) for column, row in zip(columns, rows, strict=True)
    ]
    width = 60 + max([x for x, _ in places], default=0) + WIDTH + 120
    height = 20 + max([y for _, y in places], default=0) + HEIGHT
    lines = [f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}">']
    for (a, b), shape in edges.items():
        (x1, y1), (x2, y2) = places[a], places[b]
        x1, x2, y1 = x1 + WIDTH // 2, x2 + WIDTH // 2, y1 + HEIGHT
        if rows[b] == rows[a] + 1:
            path = f"M{x1} {y1} C{x1} {y1 + GAP // 2} {x2} {y2 - GAP // 2} {x2} {y2}"
        else:  # past the boxes between
            side = max(x1, x2) + WIDTH // 2 + 14 + 6 * (rows[b] - rows[a])
            path = f"M{x1 + 60} {y1} C{side} {y1 + 20} {side} {y2 - 20} {x2 + 60} {y2}"
        lines.append(f'<path d="{path}"><title>{html.escape(shape)}</title></path>')
        if rows[b] == rows[a] + 1 and x1 == x2:
            lines.append(f'<text class="shape" x="{x1 + 5}" y="{y1 + GAP // 2 + 4}">{html.escape(shape)}</text>')
    for (label, title, border), (x, y) in zip(boxes, places, strict=True):
        kind = "border" if border else "box"
        told = label if len(label) <= 26 else label[:25] + "…"
        lines.append(f'<g><title>{html.escape(title)}</title><rect class="{kind}" x="{x}" y="{y}" width="{WIDTH}"')
        lines.append(
            f' height="{HEIGHT}" rx="6"/><text x="{x + WIDTH // 2}" y="{y + 21}">{html.escape(told)}</text></g>'
        )
    return "\n".join([*lines, "</svg>"])


# ------------------------------------------------------------ all operations


def _tree(name: str, model: Model, operations: list[Operation]) -> str:
    numbers = {s: f"{name}-{n}" for n, o in enumerate(operations) for s in o.makes}
    lines: list[str] = ['<div class="tree">']
    opened: list[str] = []
    for n, operation in enumerate(operations):
        path = operation.scope.split(".") if operation.scope else []
        same = 0
        while same < min(len(path), len(opened)) and path[same] == opened[same]:
            same += 1
        lines += ["</details>"] * (len(opened) - same)
        for i in range(same, len(path)):
            inside = [o for o in operations[n:] if o.scope.split(".")[: i + 1] == path[: i + 1]]
            count = sum(x.size for x in {id(t): t for o in inside for t in o.reads if isinstance(t, Tensor)}.values())
            label = f"{html.escape('.'.join(path[: i + 1]))} <small>{count:,} weights</small>"
            lines.append(f"<details><summary>{label}</summary>")
        opened = path
        lines.append(_operation(f"{name}-{n}", operation, numbers))
    lines += ["</details>"] * len(opened)
    return "\n".join([*lines, "</div>"])


def _operation(number: str, operation: Operation, numbers: dict[Symbol, str]) -> str:
    reads = " ".join(dict.fromkeys([numbers[x] for x in operation.reads if isinstance(x, Symbol) and x in numbers]))
    given = []
    for x in leaves(
        (operation.args if not hasattr(operation.call, "labelled") else operation.args[:-1], operation.kwargs)
    ):
        if isinstance(x, Symbol):
            given.append(html.escape(x.name))
        elif isinstance(x, Tensor):
            given.append(f"<b>{html.escape(x.name)}</b>")
        elif x is not None:
            given.append(html.escape(str(x)))
    made = ", ".join([f"{html.escape(s.name)} <i>{_shape(s)}</i>" for s in operation.makes])
    line = errors.location(operation.pos) if operation.pos is not None else ""
    text = f"{html.escape(operation.type)}({', '.join(given)}) &rarr; {made} <small>{html.escape(line)}</small>"
    inner = ""
    if hasattr(operation.call, "labelled"):
        for label, block in operation.call.labelled():
            rows = "".join([_operation(f"{number}-{label}-{i}", o, numbers) for i, o in enumerate(block.operations)])
            inner += f"<details><summary>{html.escape(label)}</summary>{rows}</details>"
    return f'<div class="op" id="{number}" data-reads="{reads}">{text}{inner}</div>'


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ font: 14px system-ui, sans-serif; margin: 24px; color: #1d2733; background: #fff; }}
svg {{ display: block; margin: 12px 0; max-width: 100%; height: auto; }}
rect.box {{ fill: #e8f0fb; stroke: #4a7ab8; }} rect.border {{ fill: #fdf3e1; stroke: #c98a2b; }}
path {{ fill: none; stroke: #8a97a8; stroke-width: 1.4; }} text {{ text-anchor: middle; font-size: 12px; }}
text.shape {{ text-anchor: start; font-size: 10px; fill: #66758a; }}
details {{ margin-left: 14px; border-left: 2px solid #dfe6ef; padding-left: 8px; }}
summary {{ cursor: pointer; font-weight: 600; padding: 2px 0; }} small {{ color: #7a8797; font-weight: 400; }}
.op {{ padding: 2px 6px; border-radius: 4px; font-family: ui-monospace, monospace; font-size: 12px; }}
.op:hover {{ background: #eef2f7; }} .read {{ background: #d9efdc !important; }} .reader {{ background: #fbe3d6 !important; }}
input {{ font: inherit; padding: 4px 8px; width: 320px; margin: 8px 0; }} i {{ color: #66758a; }}
@media (prefers-color-scheme: dark) {{ body {{ background: #161b22; color: #d8dee6; }} rect.box {{ fill: #1f2d40; }}
rect.border {{ fill: #3a2f1a; }} text {{ fill: #d8dee6; }} .op:hover {{ background: #222b36; }}
.read {{ background: #1f4428 !important; }} .reader {{ background: #4b2c1c !important; }} }}
</style></head><body><h1>{title}</h1>
<input id="find" placeholder="find an operation, a layer or a weight" aria-label="find">
{body}
<script>
const ops = [...document.querySelectorAll(".op")];
const readers = {{}};
for (const op of ops) for (const id of op.dataset.reads.split(" ")) (readers[id] = readers[id] || []).push(op);
const mark = (op, on) => {{
  for (const id of op.dataset.reads.split(" ")) {{
    const other = id && document.getElementById(id);
    if (other) other.classList.toggle("read", on);
  }}
  for (const other of readers[op.id] || []) other.classList.toggle("reader", on);
}};
for (const op of ops) {{
  op.addEventListener("mouseenter", () => mark(op, true));
  op.addEventListener("mouseleave", () => mark(op, false));
}}
document.getElementById("find").addEventListener("input", (event) => {{
  const wanted = event.target.value.toLowerCase();
  for (const op of ops) {{
    const shown = !wanted || op.textContent.toLowerCase().includes(wanted);
    op.style.display = shown ? "" : "none";
    if (wanted && shown) for (let d = op.closest("details"); d; d = d.parentElement.closest("details")) d.open = true;
  }}
}});
</script></body></html>
"""

__all__ = ["draw"]

guard_functions(globals())
