"""Peak memory of a transformer's training step with and without recompute, from the compiler's own analysis.

python -m benchmarks.recompute [--layers 12] [--width 256] [--batch 8] [--length 256]
"""

from __future__ import annotations

import argparse

import bireme
from bireme import nn
from bireme.core.xla_exec import xla
from bireme.distributed.fleet.utils import recompute


def train(
    recomputed: bool, layers: int, width: int, batch: int, length: int, steps: int = 3
) -> tuple[float, list[float]]:
    """Bytes that the compiled step needs besides its arguments and results, and the losses of the steps."""
    peaks: list[float] = []
    prepare = xla.Xla.prepare

    def measured(self, *args):
        compiled = prepare(self, *args)
        peaks.append(compiled.memory_analysis().temp_size_in_bytes)
        return compiled

    xla.Xla.prepare = measured
    bireme.set_flags({"FLAGS_compile_beside": False})  # programs of the whole, from the second step on
    try:
        bireme.seed(0)
        blocks = nn.LayerList([nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1) for _ in range(layers)])
        opt = bireme.optimizer.SGD(0.1, parameters=blocks.parameters())
        x, losses = bireme.randn([batch, length, width]), []
        for _ in range(steps):
            h = x
            for block in blocks:
                h = recompute(block, h) if recomputed else block(h)
            loss = (h * h).mean()
            loss.backward()
            opt.step()
            opt.clear_grad()
            losses.append(loss.item())
        return max(peaks), losses
    finally:
        xla.Xla.prepare = prepare


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("layers", 12), ("width", 256), ("batch", 8), ("length", 256)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = vars(parser.parse_args())
    (more, plain), (less, again) = train(False, **options), train(True, **options)
    apart = max(abs(a - b) / abs(a) for a, b in zip(plain, again))
    print(f"without recompute {more / 2**20:9.1f} MiB")
    print(f"with recompute    {less / 2**20:9.1f} MiB: {100 * (1 - less / more):.0f} % less (goal: 40)")
    print(f"losses differ by at most {apart:.1e} of their size")


if __name__ == "__main__":
    main()
