"""One HTML file of a profile: tables and a timeline in SVG, with nothing that is loaded from elsewhere."""

from __future__ import annotations

from html import escape
from typing import Any

from bireme.profiler.events import TracerEventType
from bireme.profiler.tables import SortedKeys, tables

T = TracerEventType
_COLORS = {
    T.ProfileStep: "#8c8c8c", T.Dataloader: "#d9a441", T.Forward: "#4c8bc2", T.Layer: "#7fb2dc", T.Backward: "#8e6cb8",
    T.Optimization: "#4fa66a", T.Program: "#3c6e71", T.Operator: "#9fc3c1", T.Compile: "#c65d57", T.Kernel: "#76b041",
}  # fmt: skip
_WIDTH, _HEIGHT, _MOST = 1160, 16, 4000  # pixels; events of a timeline, the longest ones
_STYLE = """
:root { color-scheme: light dark } body { font: 14px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 1200px;
padding: 0 1rem } h1 { font-size: 1.4rem } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums } .wide { overflow-x: auto }
th, td { text-align: right; padding: .15rem .8rem .15rem 0; border-bottom: 1px solid #8884; white-space: nowrap }
th:first-child, td:first-child { text-align: left } svg text { font: 11px system-ui, sans-serif; fill: currentColor }
.key { display: inline-block; margin-right: 1rem } .key i { display: inline-block; width: .8em; height: .8em }
"""


def page(result: Any) -> str:
    """The text of the file."""
    found = tables(result, SortedKeys.CPUTotal, True, False, "ms", None)
    about = ", ".join(f"{escape(k)} {escape(v)}" for k, v in result.extra_info.items())
    parts = [f"<p>{about}</p>", "<h2>Timeline</h2>", _timeline(result)]
    if result.memory:
        parts += ["<h2>Memory in use</h2>", _memory(result)]
    for rows in found:
        heads = "".join(f"<th>{escape(head)}</th>" for head in rows.heads)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(str(row[head]))}</td>" for head in rows.heads) + "</tr>" for row in rows
        )
        parts.append(f"<h2>{escape(rows.titled('ms'))}</h2><div class=wide><table><tr>{heads}</tr>{body}</table></div>")
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Profile</title>"
        f"<style>{_STYLE}</style><h1>Profile</h1>{''.join(parts)}</html>\n"
    )


def _timeline(result: Any) -> str:
    """A row for each track and depth; the shortest events are left out where there are too many."""
    shown = sorted(result.events, key=lambda e: -e.duration)[:_MOST]
    if not shown:
        return "<p>nothing was recorded</p>"
    shown.sort(key=lambda e: (e.start, -e.end))
    start, end = min(e.start for e in shown), max(e.end for e in shown)
    scale = _WIDTH / max(end - start, 1)
    y, drawn = 0, []
    for track in dict.fromkeys(e.track for e in shown):
        drawn.append(f'<text x="0" y="{y + 13}">{escape(track)}</text>')
        y += 18
        ends: list[int] = []  # of what is open, by depth
        deepest = 0
        for e in (e for e in shown if e.track == track):
            while ends and ends[-1] <= e.start:
                ends.pop()
            depth = len(ends)
            ends.append(e.end)
            deepest = max(deepest, depth + 1)
            x, width = (e.start - start) * scale, max(e.duration * scale, 0.5)
            color = _COLORS.get(e.type, "#b0a08a")
            told = [e.name, f"{e.duration / 1e6:.3f} ms", *[f"{k}: {v}" for k, v in e.args.items()]]
            title = "<title>" + escape("\n".join(told)) + "</title>"
            drawn.append(
                f'<rect x="{x:.1f}" y="{y + depth * _HEIGHT}" width="{width:.1f}" height="{_HEIGHT - 1}" '
                f'fill="{color}">{title}</rect>'
            )
            fits = escape(e.name[: int(width // 6.5)])
            if len(fits) > 3:
                drawn.append(f'<text x="{x + 2:.1f}" y="{y + depth * _HEIGHT + 12}">{fits}</text>')
        y += deepest * _HEIGHT + 8
    left = len(result.events) - len(shown)
    note = f"<p>The {left} shortest events are not drawn.</p>" if left else ""
    kinds = dict.fromkeys(e.type for e in shown)
    keys = "".join(
        f'<span class=key><i style="background:{_COLORS.get(k, "#b0a08a")}"></i> {k.name}</span>' for k in kinds
    )
    length = f"<p>{(end - start) / 1e6:.3f} ms from left to right. {keys}</p>"
    svg = f'<svg viewBox="0 0 {_WIDTH} {y}" width="{_WIDTH}" height="{y}">{"".join(drawn)}</svg>'
    return f"{length}<div class=wide>{svg}</div>{note}"


def _memory(result: Any) -> str:
    """The timeline of memory as a line."""
    samples = result.memory[:: max(len(result.memory) // _WIDTH, 1)]
    start, end = samples[0][0], samples[-1][0]
    least, most = min(n for _, n in samples), max(n for _, n in samples)
    points = " ".join(
        f"{(t - start) / max(end - start, 1) * _WIDTH:.1f},{120 - (n - least) / max(most - least, 1) * 110:.1f}"
        for t, n in samples
    )
    line = f'<polyline fill="none" stroke="#3c6e71" stroke-width="1.5" points="{points}"/>'
    told = f"<p>{least / 1e6:.1f} MB to {most / 1e6:.1f} MB</p>"
    return f'{told}<div class=wide><svg viewBox="0 0 {_WIDTH} 124" width="{_WIDTH}" height="124">{line}</svg></div>'
