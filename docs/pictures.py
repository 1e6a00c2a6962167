"""Pictures and tables of real runs, made while the site is built: `python docs/pictures.py` writes docs/_generated."""

import contextlib
import io
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text
from sklearn.datasets import load_digits

import bireme
from bireme import nn
from bireme.callbacks import TrainingCurve
from bireme.hapi.curve import drawn

OUT = Path(__file__).resolve().parent / "_generated"
THEME = TerminalTheme((22, 27, 34), (230, 237, 243), [(72, 79, 88)] * 8, [(230, 237, 243)] * 8)
# rich's own frame asks the reader's browser for a font from the net; this one takes what is there
FRAME = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font: {char_height}px/{line_height}px ui-monospace, Menlo, "DejaVu Sans Mono", monospace }}
{styles}
</style>
<defs>{lines}</defs>
<rect width="{width}" height="{height}" rx="8" fill="rgb(22,27,34)"/>
<g transform="translate({terminal_x}, 24)"><g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


def terminal(name: str, text: str) -> None:
    """Text as a terminal shows it."""
    lines = text.rstrip().splitlines()
    console = Console(record=True, width=max(map(len, lines)), file=io.StringIO())
    for line in lines:
        console.print(Text(line, style="default"), soft_wrap=True)
    svg = console.export_svg(theme=THEME, code_format=FRAME, unique_id=name)
    (OUT / f"{name}.svg").write_text(svg)


class Reader(nn.Layer):
    """The network of the first page."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2D(1, 16, 3, padding=1)
        self.pool = nn.MaxPool2D(2)
        self.hidden = nn.Linear(16 * 4 * 4, 64)
        self.out = nn.Linear(64, 10)

    def forward(self, x: bireme.Tensor) -> bireme.Tensor:
        x = self.pool(nn.functional.relu(self.conv(x)))
        x = nn.functional.relu(self.hidden(x.flatten(1)))
        return self.out(x)


def summary() -> None:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        bireme.summary(Reader(), (None, 1, 8, 8))
    terminal("summary", said.getvalue().strip("\n"))


def curve() -> None:
    """Handwritten digits, twelve epochs."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images, labels = (digits.images[order, None] / 16).astype("float32"), digits.target[order]
    train = bireme.io.TensorDataset([images[:1500], labels[:1500]])
    test = bireme.io.TensorDataset([images[1500:], labels[1500:]])
    network = Reader()
    rate = bireme.optimizer.lr.CosineAnnealingDecay(3e-3, T_max=12 * 30)
    model = bireme.Model(network)
    optimizer = bireme.optimizer.AdamW(rate, parameters=network.parameters())
    model.prepare(optimizer, nn.CrossEntropyLoss(), bireme.metric.Accuracy())
    with contextlib.redirect_stdout(io.StringIO()):
        model.fit(
            train,
            test,
            batch_size=50,
            epochs=12,
            verbose=0,
            callbacks=[TrainingCurve(OUT / "curve.svg", title="handwritten digits")],
        )


def steps() -> None:
    """How long each of the first steps takes, and the table of what ran."""
    wide = 512
    network = nn.Sequential(nn.Linear(64, wide), nn.GELU(), nn.LayerNorm(wide), nn.Linear(wide, 1))
    optimizer = bireme.optimizer.AdamW(1e-3, parameters=network.parameters())
    x = bireme.randn([256, 64])
    y = x.sum(axis=1, keepdim=True)
    bireme.debug.flush()
    bireme.debug.reset_stats()
    took = []
    for i in range(1, 21):
        if i == 16:  # a smaller last batch: one more program
            x, y = x[:100], y[:100]
        start = time.perf_counter()
        loss = nn.functional.mse_loss(network(x), y)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        loss.item()
        took.append((i, 1e3 * (time.perf_counter() - start)))
    (OUT / "steps.svg").write_text(drawn({"milliseconds": took}))
    rows = bireme.debug.explain()
    table = ["| " + " | ".join(rows[0]) + " |", "|---" * len(rows[0]) + "|"]
    table += ["| " + " | ".join(map(str, row.values())) + " |" for row in rows]
    (OUT / "explain.md").write_text("\n".join(table) + "\n")


def main() -> None:
    OUT.mkdir(exist_ok=True)
    bireme.seed(0)
    bireme.set_flags({"FLAGS_compile_cache": False})  # a program that lies on disk would show no compile
    for draw in (summary, curve, steps):
        draw()


if __name__ == "__main__":
    main()
