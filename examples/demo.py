"""Train a small network on scikit-learn's handwritten digits, save it, load it into a fresh one, and use that one.

The code is plain dynamic code in Paddle's style; nothing in it mentions graphs or compilation.
"""

import time
from pathlib import Path

import numpy as np
from rich.columns import Columns
from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text
from sklearn.datasets import load_digits

import bireme
from bireme import nn
from bireme.nn import functional as F

EPOCHS, BATCH, TRAIN = 8, 32, 1440
OUTPUT = Path(__file__).resolve().parent.parent / "demo_output" / "digits.pdparams"
INK = " ░▒▓█"

console = Console(highlight=False)


class Digits(nn.Layer):
    """One convolution and two linear layers, 264 thousand parameters."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2D(1, 32, 3, padding=1)
        self.hidden = nn.Linear(32 * 8 * 8, 128)
        self.dropout = nn.Dropout(0.3)
        self.out = nn.Linear(128, 10)

    def forward(self, x):
        x = F.relu(self.conv(x)).flatten(1)
        x = self.dropout(F.relu(self.hidden(x)))
        return self.out(x)


def load_data():
    """1,797 real images of 8x8 pixels, scaled to 0..1, shuffled and cut into training and test data."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images = (digits.images[order, None] / 16).astype("float32")
    labels = digits.target[order].astype("int64")
    return (images[:TRAIN], labels[:TRAIN]), (images[TRAIN:], labels[TRAIN:])


def predict(model, images):
    model.eval()
    with bireme.no_grad():
        return model(bireme.to_tensor(images)).argmax(axis=1).numpy()


def train(model, optimizer, data, test, progress, task):
    """All epochs; prints a line for each."""
    images, labels = data
    rng = np.random.default_rng(1)
    for epoch in range(1, EPOCHS + 1):
        start, total = time.perf_counter(), 0.0
        model.train()
        for rows in rng.permutation(len(labels)).reshape(-1, BATCH):
            loss = F.cross_entropy(model(bireme.to_tensor(images[rows])), bireme.to_tensor(labels[rows]))
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            total += loss.item()
            progress.update(task, advance=1, loss=loss.item())
        seconds = time.perf_counter() - start
        accuracy = (predict(model, test[0]) == test[1]).mean()
        progress.console.print(
            f"  epoch {epoch}   loss {total * BATCH / len(labels):6.4f}   "
            f"test accuracy [bold green]{accuracy:6.1%}[/]   {seconds:5.2f} s   "
            f"[dim]compiles {bireme.debug.stats()['compiles']}[/]"
        )


def picture(image, guess, truth):
    """One digit in shades of grey, two characters to a pixel, over what the network says and what it is."""
    rows = ("".join(INK[min(int(p * 5), 4)] * 2 for p in row) for row in image[0])
    right = guess == truth
    says = Text(f"says {guess}, is {truth} {'✓' if right else '✗'}", style="green" if right else "bold red")
    return Panel(Text("\n".join(rows)), title=says, border_style="dim", width=20)


def gallery(images, guesses, truths, most=6):
    """Some test images: the network's mistakes first, then others."""
    order = np.argsort(guesses == truths, kind="stable")
    wrong = int((guesses != truths).sum())
    chosen = [*order[: min(wrong, most // 2)], *order[wrong:]][:most]
    return Columns(picture(images[i], guesses[i], truths[i]) for i in chosen)


def main():
    start = time.perf_counter()
    bireme.seed(7)
    data, test = load_data()
    model = Digits()
    count = sum(p.size for p in model.parameters())
    console.rule("[bold]Bireme: handwritten digits")
    console.print(f"  {len(data[1]):,} images to train on, {len(test[1])} to test with, {count:,} parameters\n")

    columns = (TextColumn("  training"), BarColumn(), MofNCompleteColumn(), TextColumn("loss {task.fields[loss]:.4f}"))
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        task = progress.add_task("training", total=EPOCHS * (TRAIN // BATCH), loss=float("nan"))
        optimizer = bireme.optimizer.AdamW(learning_rate=1e-3, parameters=model.parameters())
        train(model, optimizer, data, test, progress, task)

    OUTPUT.parent.mkdir(exist_ok=True)
    bireme.save(model.state_dict(), str(OUTPUT))
    fresh = Digits()
    fresh.set_state_dict(bireme.load(str(OUTPUT)))
    before, guesses = predict(model, test[0]), predict(fresh, test[0])
    wrong = int((guesses != test[1]).sum())
    same = "gives the same predictions" if (before == guesses).all() else "[bold red]GIVES OTHER PREDICTIONS[/]"
    console.print(f"\n  saved to {OUTPUT.parent.name}/{OUTPUT.name} ({OUTPUT.stat().st_size:,} bytes)")
    console.print(f"  loaded into a fresh network, which {same}")
    console.print(f"  {wrong} of {len(guesses)} test images wrong; some pictures, mistakes first:\n")
    console.print(gallery(test[0], guesses, test[1]))

    stats = Table("what the engine did", "", box=None, pad_edge=False)
    for name, value in bireme.debug.stats().items():
        if isinstance(value, int):
            stats.add_row(f"  {name.replace('_', ' ')}", f"{value:,}")
    stats.columns[1].justify = "right"
    console.print(stats)
    console.print(f"\n  [bold]{1 - wrong / len(guesses):.1%}[/] of the test images right, {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
