"""A plan as text, as a picture and as a page."""

from __future__ import annotations

import html as escaping
from collections.abc import Sequence
from typing import Any

__all__ = ["html", "svg", "text"]

COLOURS = {
    "parameters": "#4c78a8", "states": "#72b7b2", "gradients": "#e45756", "activations": "#f58518", "working": "#b279a2",
    "compute": "#54a24b", "waiting": "#9d9da1", "exposed": "#e45756", "update": "#72b7b2",
}  # fmt: skip
MOST = 64  # devices that a picture shows


def _gigabytes(n: float) -> str:
    return f"{n / 1e9:.2f} GB" if n >= 1e8 else f"{n / 1e6:.2f} MB"


def _seconds(t: float) -> str:
    return f"{t:.3g} s" if t >= 1 else f"{t * 1e3:.3g} ms"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of text; all but the first and the last are to the right."""
    widths = [max(len(row[i]) for row in (columns, *rows)) for i in range(len(columns))]
    last = len(columns) - 1
    lines = [
        "  ".join(c.ljust(w) if i in (0, last) else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))).rstrip()
        for row in (columns, *rows)
    ]
    return "\n".join(lines)


def rates(plan: Any) -> tuple[float, float, float]:
    """Examples and tokens a second of one device, and what share of its peak rate the model's own arithmetic is."""
    model, choice = plan.model, plan.choice
    per_device = choice.batch / plan.time.total / choice.devices
    flops = sum(p.flops + p.divided_flops + p.attention_flops for p in model.parts) * 3 / model.batch
    return per_device, per_device * model.tokens, flops * per_device / plan.hardware.rate(plan.precision.dtype)


def collective_rows(plan: Any) -> list[tuple[str, ...]]:
    """The collectives of a step as rows of text."""
    return [
        (f"{c.axis} {c.kind}", f"{c.count:.0f}", _gigabytes(c.payload), _gigabytes(c.wire), _seconds(c.seconds), c.what)
        for c in plan.collectives
    ]


MOVES = ("collective", "a step", "results", "sent", "time", "what")
OTHERS = ("what lost", "memory", "time", "first reason")


def _facts(plan: Any) -> list[tuple[str, str]]:
    choice, model = plan.choice, plan.model
    found = [("plan", repr(choice)), ("model", f"{model.parameters / 1e6:,.1f} M parameters, batch {choice.batch}")]
    if plan.time is None:
        return found
    memory, time, hardware = plan.memory, plan.time, plan.hardware
    examples, tokens, share = rates(plan)
    speed = f"{tokens:,.0f} tokens/s" if model.tokens > 1 else f"{examples:,.0f} examples/s"
    kinds = [
        f"{name} {_gigabytes(getattr(memory, name))}" for name in ("parameters", "states", "gradients", "activations")
    ]
    spent = [f"{name} {_seconds(getattr(time, name))}" for name in ("compute", "exposed", "waiting", "update")]
    found += [
        ("devices", f"{choice.devices} x {hardware.name}, {plan.precision.dtype}"),
        (
            "memory",
            f"{_gigabytes(memory.total)} of {_gigabytes(hardware.memory * hardware.usable)}: {', '.join(kinds)}",
        ),
        ("step", f"{_seconds(time.total)}: {', '.join(spent)}; hidden {_seconds(time.hidden)}"),
        ("speed", f"{speed} a device, {share:.1%} of its rate"),
    ]
    if plan.compiled is not None:
        found.append(
            ("compiled", f"{_gigabytes(plan.compiled['memory'])} a device on CPU, in {plan.compiled['seconds']:.1f} s")
        )
    return found


def text(plan: Any) -> str:
    """All of a plan as text."""
    parts = ["\n".join(f"{name:<9}{said}" for name, said in _facts(plan))]
    if plan.collectives:
        parts.append(table(MOVES, collective_rows(plan)))
    if plan.others:
        parts.append(table(OTHERS, _other_rows(plan)) + f"\n({plan.considered:,} ways looked at)")
    return "\n\n".join(parts)


def _other_rows(plan: Any) -> list[tuple[str, ...]]:
    return [(name, _gigabytes(memory), _seconds(time), why) for name, memory, time, why in plan.others]


def svg(plan: Any) -> str:
    """The mesh with a box for each device, and bars of memory and time."""
    choice, size = plan.choice, 22
    found, shown, y = [], 0, 20
    for stage in range(choice.pp):
        if shown >= MOST:
            found.append(_label(10, y + 14, f"and {choice.devices - shown} devices more"))
            y += 24
            break
        found.append(_label(10, y + 14, f"stage {stage}" if choice.pp > 1 else "mesh"))
        for d in range(min(choice.dp, max(1, MOST // choice.tp))):
            for t in range(choice.tp):
                x, top = 80 + t * (size + 2) + (d % 8) * (choice.tp * (size + 2) + 8), y + d // 8 * (size + 6)
                rank = (stage * choice.dp + d) * choice.tp + t
                colour = f"hsl({stage * 360 // choice.pp} 55% {80 - 30 * t // choice.tp}%)"
                found.append(f'<rect x="{x}" y="{top}" width="{size}" height="{size}" rx="3" fill="{colour}"/>')
                found.append(
                    f'<text x="{x + size / 2}" y="{top + 15}" font-size="9" text-anchor="middle">{rank}</text>'
                )
                shown += 1
        y += (min(choice.dp, max(1, MOST // choice.tp)) - 1) // 8 * (size + 6) + size + 10
    if plan.time is not None:
        room = plan.hardware.memory * plan.hardware.usable
        kinds = ("parameters", "states", "gradients", "activations", "working")
        found += _bar(y, "memory", [(n, getattr(plan.memory, n)) for n in kinds], room, _gigabytes)
        spent = [(n, getattr(plan.time, n)) for n in ("compute", "waiting", "exposed", "update")]
        found += _bar(y + 56, "time", spent, plan.time.total, _seconds)
        y += 120
    width = 720
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" width="{width}" height="{y}" font-family="sans-serif">'
    return "\n".join([head, *found, "</svg>"])


def _label(x: float, y: float, what: str, extra: str = "") -> str:
    return f'<text x="{x}" y="{y}" font-size="12" {extra}>{escaping.escape(what)}</text>'


def _bar(y: float, name: str, parts: list[tuple[str, float]], full: float, told: Any) -> list[str]:
    found, x, wide = [_label(10, y + 16, name)], 80.0, 600.0
    full = max(full, sum(n for _, n in parts), 1e-30)
    found.append(f'<rect x="{x}" y="{y}" width="{wide}" height="22" fill="none" stroke="#888"/>')
    key = 80.0
    for part, n in parts:
        width = wide * n / full
        found.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="22" fill="{COLOURS[part]}"/>')
        found.append(f'<rect x="{key}" y="{y + 28}" width="8" height="8" fill="{COLOURS[part]}"/>')
        found.append(f'<text x="{key + 11}" y="{y + 36}" font-size="10">{part} {told(n)}</text>')
        x, key = x + width, key + 130
    return found


def html(plan: Any) -> str:
    """A page of its own: the picture and all tables."""

    def rows(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
        cells = [[f"<td>{escaping.escape(cell)}</td>" for cell in line] for line in lines]
        head = "".join(f"<th>{escaping.escape(c)}</th>" for c in columns)
        return f"<table><tr>{head}</tr>{''.join('<tr>' + ''.join(c) + '</tr>' for c in cells)}</table>"

    style = "body{font:14px sans-serif;margin:2em}td,th{padding:2px 10px;text-align:left}table{margin:1em 0}"
    return (
        f'<!doctype html><html><head><meta charset="utf-8"><title>{escaping.escape(repr(plan.choice))}</title>'
        f"<style>{style}</style></head><body>{rows(('', ''), _facts(plan))}{svg(plan)}"
        f"{rows(MOVES, collective_rows(plan))}{rows(OTHERS, _other_rows(plan))}</body></html>\n"
    )
