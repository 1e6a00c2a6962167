"""TrainingCurve: a picture of a run, drawn as SVG by hand. It follows the reader's light or dark theme."""

from __future__ import annotations

import math
import os
from html import escape

import numpy as np

from bireme.hapi.callback import say
from bireme.hapi.recorders import Recorder

_WIDE, _HIGH, _GAP = 760, 220, 34
_LEFT, _RIGHT, _TOP = 64, 20, 42
_POINTS = 400  # a line of more is thinned out: the picture has no more columns than that to show
_STYLE = """
  .back { fill: #ffffff } .frame { fill: none; stroke: #d0d7de } .grid { stroke: #d0d7de; stroke-width: 0.6 }
  text { fill: #57606a; font: 12px system-ui, sans-serif } .title { fill: #24292f; font-weight: 600; font-size: 13px }
  .line { fill: none; stroke-width: 1.8; stroke-linejoin: round } .faint { opacity: 0.28; stroke-width: 1 }
  .c0 { stroke: #0969da } .c1 { stroke: #bc4c00 } .c2 { stroke: #1a7f37 } .c3 { stroke: #8250df }
  .d0 { fill: #0969da } .d1 { fill: #bc4c00 } .d2 { fill: #1a7f37 } .d3 { fill: #8250df }
  @media (prefers-color-scheme: dark) {
    .back { fill: #0d1117 } .frame, .grid { stroke: #30363d } text { fill: #8b949e } .title { fill: #e6edf3 }
    .c0 { stroke: #58a6ff } .c1 { stroke: #f0883e } .c2 { stroke: #3fb950 } .c3 { stroke: #bc8cff }
    .d0 { fill: #58a6ff } .d1 { fill: #f0883e } .d2 { fill: #3fb950 } .d3 { fill: #bc8cff }
  }
"""

Points = list[tuple[float, float]]


class TrainingCurve(Recorder):
    """Callback that draws loss, metrics and learning rate over the training steps as an SVG image.

    The image is written at the end of the training and follows the light or dark theme of the browser. Paddle has no
    counterpart.

    Args:
        path: Path of the image. Default: ``"training_curve.svg"``.
        title: Title of the image. Default: ``""``.

    Examples:
        >>> net = bireme.nn.Linear(1, 1)
        >>> model = bireme.Model(net)
        >>> model.prepare(bireme.optimizer.SGD(0.1, parameters=net.parameters()), bireme.nn.MSELoss())
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     curve = bireme.callbacks.TrainingCurve(f"{folder}/curve.svg")
        ...     model.fit([[bireme.ones([4, 1]), bireme.ones([4, 1])]] * 3, verbose=0, callbacks=[curve])
        training curve at ...curve.svg
        >>> len(curve.curves["train/loss"])
        3
    """

    def __init__(self, path: str = "training_curve.svg", title: str = ""):
        super().__init__()
        self.path, self.title = os.fspath(path), title
        self.curves: dict[str, Points] = {}

    def scalar(self, tag: str, value: float, step: int) -> None:
        self.curves.setdefault(tag, []).append((self._done if tag.startswith("eval/") else step, value))

    def on_train_end(self, logs: dict | None = None) -> None:
        super().on_train_end(logs)
        if self.curves:
            folder = os.path.dirname(os.path.abspath(self.path))
            os.makedirs(folder, exist_ok=True)
            with open(self.path, "w", encoding="utf-8") as file:
                file.write(drawn(self.curves, self.title))
            say(f"training curve at {os.path.abspath(self.path)}")


def drawn(curves: dict[str, Points], title: str = "") -> str:
    """Return an SVG with a panel per value: ``train/loss`` and ``eval/loss`` share one, the learning rate is last."""
    panels: dict[str, dict[str, Points]] = {}
    for tag, points in curves.items():
        side, _, name = tag.rpartition("/")
        panels.setdefault(name, {})[side or name] = points
    names = sorted(panels, key=lambda name: (name == "lr", not name.startswith("loss"), name))
    reach = max((x for points in curves.values() for x, _ in points), default=1)
    head = 34 if title else 8
    high = head + len(names) * (_HIGH + _GAP) + 12
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {high}" '
        f'width="{_WIDE}" height="{high}" role="img">',
        f"<style>{_STYLE}</style>",
        f'<rect class="back" width="{_WIDE}" height="{high}"/>',
    ]
    if title:
        out.append(f'<text class="title" x="{_LEFT}" y="24">{escape(title)}</text>')
    for i, name in enumerate(names):
        out += _panel("learning rate" if name == "lr" else name, panels[name], reach, head + i * (_HIGH + _GAP))
    out.append(f'<text x="{(_LEFT + _WIDE - _RIGHT) / 2}" y="{high - 14}" text-anchor="middle">training step</text>')
    return "\n".join([*out, "</svg>", ""])


def _panel(name: str, lines: dict[str, Points], reach: float, top: float) -> list[str]:
    """Return one panel: axes, a line for training and one for evaluation, a legend."""
    values = [y for points in lines.values() for _, y in points if math.isfinite(y)]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    # a loss that falls by orders of magnitude is read on a logarithmic axis
    log = name.startswith("loss") and low > 0 and high / low > 50
    ticks = _powers(low, high) if log else _ticks(low, high)
    low, high = min(low, ticks[0]), max(high, ticks[-1])
    x0, x1, y0, y1 = _LEFT, _WIDE - _RIGHT, top + _HIGH - 8, top + _TOP

    def across(x: float) -> float:
        return x0 + (x1 - x0) * x / max(reach, 1)

    def up(y: float) -> float:
        share = math.log(y / low) / math.log(high / low) if log else (y - low) / (high - low)
        return y0 + (y1 - y0) * share

    out = [f'<text class="title" x="{x0}" y="{top + 26}">{escape(name)}{" (log)" if log else ""}</text>']
    for y in ticks:
        out.append(f'<line class="grid" x1="{x0}" x2="{x1}" y1="{up(y):.1f}" y2="{up(y):.1f}"/>')
        out.append(f'<text x="{x0 - 8}" y="{up(y) + 4:.1f}" text-anchor="end">{_label(y)}</text>')
    for x in _ticks(0, reach):
        if x <= reach:
            out.append(f'<text x="{across(x):.1f}" y="{y0 + 16:.1f}" text-anchor="middle">{_label(x)}</text>')
    out.append(f'<rect class="frame" x="{x0}" y="{y1}" width="{x1 - x0}" height="{y0 - y1}"/>')
    place: float = x1
    for colour, (side, points) in reversed(list(enumerate(sorted(lines.items(), key=lambda line: line[0] != "train")))):
        finite = [(x, y) for x, y in points if math.isfinite(y)]
        smooth = _smoothed(finite) if len(finite) > 60 and name != "learning rate" else finite
        if smooth is not finite:
            out.append(_line(finite, across, up, f"line faint c{colour}"))
        out.append(_line(smooth, across, up, f"line c{colour}"))
        if finite and len(finite) <= 40:
            out += [f'<circle class="d{colour}" cx="{across(x):.1f}" cy="{up(y):.1f}" r="2.4"/>' for x, y in finite]
        if finite and name != "learning rate":
            text = f"{side} {_label(finite[-1][1], 4)}"
            out.append(f'<text x="{place}" y="{top + 26}" text-anchor="end">{escape(text)}</text>')
            place -= 7.2 * len(text) + 12
            out.append(f'<circle class="d{colour}" cx="{place + 6:.1f}" cy="{top + 22}" r="4"/>')
            place -= 14
    return out


def _line(points: Points, across: object, up: object, kind: str) -> str:
    thinned = (
        points if len(points) <= _POINTS else [points[i] for i in np.linspace(0, len(points) - 1, _POINTS).astype(int)]
    )
    path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in thinned)  # type: ignore[operator]  # only where both numbers are there
    return f'<polyline class="{kind}" points="{path}"/>'


def _smoothed(points: Points) -> Points:
    """Return a running mean over a fortieth of the run, for noisy curves."""
    n = max(len(points) // 40, 2)
    y = np.array([value for _, value in points])
    sums = np.cumsum(np.concatenate(([0.0], y)))
    ends = np.arange(1, len(y) + 1)
    starts = np.maximum(ends - n, 0)
    return [(points[i][0], float(v)) for i, v in enumerate((sums[ends] - sums[starts]) / (ends - starts))]


def _ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return round numbers from below ``low`` to above ``high``."""
    if not high > low:
        room = abs(low) * 0.1 or 1.0
        low, high = low - room, high + room
    rough = (high - low) / most
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(m * unit for m in (1, 2, 2.5, 5, 10) if m * unit >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [n * step for n in range(first, last + 1)]


def _powers(low: float, high: float) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = max(1, -(-(last - first) // 6))
    return [10.0**n for n in range(first, last + every, every)]


def _label(x: float, digits: int = 3) -> str:
    return f"{x:,.0f}" if x == round(x) and abs(x) < 1e7 else f"{x:.{digits}g}"
