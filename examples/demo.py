"""Teach a small network to read handwritten digits, interrupt it, go on where it was, and look at what it reads.

Plain dynamic code with Paddle's names; nothing in it mentions graphs or compilation. `make demo` runs it.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import bireme
from bireme import nn
from bireme.callbacks import TensorBoard, TrainingCurve
from bireme.nn import functional as F

OUTPUT = Path(__file__).resolve().parent.parent / "demo_output"
BATCH, TRAIN = 32, 1440


class Digits(bireme.io.Dataset):
    """Images of 8x8 pixels as people wrote them; in training each is moved a little, so that none is seen twice."""

    def __init__(self, images, labels, moving=False):
        self.images, self.labels, self.moving = images, labels, moving
        self.random = np.random.default_rng(0)

    def __getitem__(self, i):
        image = self.images[i]
        if self.moving:
            image = np.roll(image, self.random.integers(-1, 2, 2), (1, 2))
        return image, self.labels[i]

    def __len__(self):
        return len(self.labels)


class Block(nn.Layer):
    """Two convolutions, and a way around them."""

    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2D(channels, channels, 3, padding=1), nn.BatchNorm2D(channels), nn.ReLU(),
            nn.Conv2D(channels, channels, 3, padding=1), nn.BatchNorm2D(channels),
        )  # fmt: skip

    def forward(self, x):
        return F.relu(x + self.body(x))


def make_model(epochs):
    network = nn.Sequential(
        nn.Conv2D(1, 32, 3, padding=1), nn.ReLU(), Block(32), nn.MaxPool2D(2), Block(32),
        nn.Flatten(), nn.Linear(32 * 4 * 4, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 10),
    )  # fmt: skip
    rate = bireme.optimizer.lr.CosineAnnealingDecay(2e-3, T_max=epochs * TRAIN // BATCH)
    model = bireme.Model(network)
    model.prepare(
        bireme.optimizer.AdamW(rate, parameters=network.parameters()), nn.CrossEntropyLoss(), bireme.metric.Accuracy()
    )
    return model


def drawn(image):
    """A picture of 16x16 pixels as lines of text: two pixels to a character, in shades of grey on a terminal and in
    letters elsewhere.
    """
    if not sys.stdout.isatty():
        return ["".join(" ░▒▓█"[int(4 * p)] for p in row) for row in image[::2]]
    grey = (232 + 23 * image).astype(int)
    return [
        "".join(f"\x1b[38;5;{a};48;5;{b}m▀" for a, b in zip(*rows)) + "\x1b[0m" for rows in zip(grey[::2], grey[1::2])
    ]


def show(images, chances, labels):
    """Eight pictures with what the network reads in them and how sure it is; its mistakes come first."""
    guesses = chances.argmax(1)
    chosen = np.argsort(guesses == labels, kind="stable")[:8]
    larger = F.interpolate(bireme.to_tensor(images), scale_factor=2, mode="bicubic").clip(0, 1).numpy()
    for some in (chosen[:4], chosen[4:]):
        print()
        for lines in zip(*(drawn(larger[i, 0]) for i in some)):
            print("  " + "   ".join(lines))
        captions = [
            f"{guesses[i]}, {chances[i].max():.0%} sure" + ("" if guesses[i] == labels[i] else f"; is {labels[i]}")
            for i in some
        ]
        print("  " + "".join(f"{caption:19}" for caption in captions).rstrip())


def main(epochs, output):
    start = time.perf_counter()
    bireme.seed(7)
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images, labels = (digits.images[order, None] / 16).astype("float32"), digits.target[order]
    train, test = Digits(images[:TRAIN], labels[:TRAIN], moving=True), Digits(images[TRAIN:], labels[TRAIN:])

    model = make_model(epochs)
    model.summary((BATCH, 1, 8, 8))
    curve = TrainingCurve(output / "curve.svg", title="handwritten digits")
    settings = {
        "batch_size": BATCH,
        "epochs": epochs // 2,
        "verbose": 1,
        "log_freq": 15,
        "callbacks": [curve, TensorBoard(output / "logs")],
    }

    print(f"{TRAIN:,} images to learn from, {len(test)} to test with. Half of the training, then a checkpoint:\n")
    model.fit(train, test, **settings)
    model.save(output / "half")

    print("\nA fresh network goes on from the checkpoint, with its optimizer and learning rate:\n")
    model = make_model(epochs)
    model.load(output / "half")
    model.fit(train, test, **settings)
    model.save(output / "digits")

    (scores,) = model.predict(test, batch_size=len(test), stack_outputs=True, verbose=0)
    chances = F.softmax(bireme.to_tensor(scores)).numpy()
    right = (chances.argmax(1) == test.labels).sum()
    show(test.images, chances, test.labels)
    print(
        f"\n{right} of {len(test)} images that it had never seen are read right; all of this took {time.perf_counter() - start:.0f} s."
    )
    print(f"Look at {output.name}/curve.svg in a browser, or at `tensorboard --logdir {output.name}/logs`.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=12, help="an even number: half of them before the checkpoint")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="folder for checkpoints, logs and the curve")
    options = parser.parse_args()
    main(options.epochs, options.output)
