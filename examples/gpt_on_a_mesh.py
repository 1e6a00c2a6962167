"""A small GPT that learns the letters of a Python file, on one device or on a mesh of several.

    python examples/gpt_on_a_mesh.py
    XLA_FLAGS=--xla_force_host_platform_device_count=8 python examples/gpt_on_a_mesh.py --mesh 2 4
    python -m bireme.distributed.launch --nproc_per_node 4 examples/gpt_on_a_mesh.py --mesh 2 2

The numbers after --mesh say how many devices share a batch and how many share a layer. Five lines make the difference.
"""

import argparse
import json
import textwrap

import numpy as np

import bireme
from bireme import distributed as dist
from bireme import nn
from bireme.nn import functional as F


class Block(nn.Layer):
    """Attention and a network of two layers, each added to what it was given."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        y = self.before(x)
        q, k, v = (f(y).reshape([batch, length, self.heads, -1]) for f in (self.q, self.k, self.v))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).reshape([batch, length, width]))
        return x + self.down(F.gelu(self.up(self.between(x))))


class GPT(nn.Layer):
    """Letters and their places, blocks, and a guess at the next letter."""

    def __init__(self, letters=128, width=32, heads=4, blocks=1, length=16):
        super().__init__()
        self.letters, self.places = nn.Embedding(letters, width), nn.Embedding(length, width)
        self.blocks = nn.LayerList([Block(width, heads) for _ in range(blocks)])
        self.last, self.guess = nn.LayerNorm(width), nn.Linear(width, letters, bias_attr=False)

    def forward(self, ids):
        x = self.letters(ids) + self.places(bireme.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.guess(self.last(x))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mesh", type=int, nargs=2, help="devices along 'dp' and 'mp'")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--json", help="file that the losses are written to")
    args = parser.parse_args()

    with open(textwrap.__file__, encoding="utf-8") as file:
        text = np.frombuffer(file.read().encode("ascii", "replace"), np.uint8).astype("int64")
    rows = text[: 8 * args.steps * 16 + 1]
    data = bireme.io.TensorDataset([bireme.to_tensor(a.reshape(-1, 16)) for a in (rows[:-1], rows[1:])])
    loader = bireme.io.DataLoader(data, batch_size=8)
    bireme.seed(0)
    model = GPT()
    optimizer = bireme.optimizer.AdamW(3e-3, parameters=model.parameters())

    if args.mesh:
        mesh = dist.ProcessMesh(np.arange(np.prod(args.mesh)).reshape(args.mesh), dim_names=["dp", "mp"])
        plan = {r"blocks\.\d+\.(q|k|v|up)": dist.ColWiseParallel(), r"blocks\.\d+\.(out|down)": dist.RowWiseParallel()}
        config = {"dp_config": {"sharding_level": 0}, "mp_config": {"parallelize_plan": plan}}
        model, optimizer = dist.parallelize(model, optimizer, mesh, config)
        loader = dist.shard_dataloader(loader, mesh, shard_dims="dp")

    losses = []
    for ids, following in loader:
        loss = F.cross_entropy(model(ids), following)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(loss)
        if dist.get_rank() == 0:
            print(f"loss {loss.item():.6f}", flush=True)
    if args.json and dist.get_rank() == 0:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump([loss.item() for loss in losses], file)


if __name__ == "__main__":
    main()
