"""A GPT, a mixture of experts and a residual network, small, whole or with divided layers; weights depend on their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import bireme
from bireme import distributed as dist
from bireme import nn
from bireme.distributed import fleet
from bireme.distributed.fleet import meta_parallel as parallel
from bireme.distributed.fleet.utils import context_parallel_utils as context
from bireme.distributed.fleet.utils import sequence_parallel_utils as sequence
from bireme.incubate.distributed.models import moe
from bireme.nn import functional as F

VOCABULARY, WIDTH, HEADS, LENGTH, BATCH, BLOCKS, EXPERTS = 16, 16, 4, 8, 8, 2, 4
CLASSES, SIDE = 6, 8


class Division:
    """How layers are divided: `linear` plain, tensor or sequence; attention over parts; experts over a group."""

    def __init__(
        self,
        linear: str = "plain",
        attention: str = "plain",
        parts: Any = None,
        experts: Any = None,
        gate: str = "naive",
        norm: str = "group",
        recomputed: bool = False,
        tied: bool = True,
    ):
        self.linear, self.attention, self.parts, self.experts = linear, attention, parts, experts
        self.gate, self.norm, self.recomputed, self.tied = gate, norm, recomputed, tied

    def column(self, width: int, to: int) -> nn.Layer:
        if self.linear == "plain":
            return nn.Linear(width, to)
        kinds = {"tensor": parallel.ColumnParallelLinear, "sequence": sequence.ColumnSequenceParallelLinear}
        return kinds[self.linear](width, to, has_bias=True, gather_output=False)

    def row(self, width: int, to: int) -> nn.Layer:
        if self.linear == "plain":
            return nn.Linear(width, to)
        kinds = {"tensor": parallel.RowParallelLinear, "sequence": sequence.RowSequenceParallelLinear}
        return kinds[self.linear](width, to, input_is_parallel=True)

    def layer_norm(self) -> nn.Layer:
        made = nn.LayerNorm(WIDTH)
        if self.linear == "sequence":  # each process has the gradient of its part of the sequence
            for p in made.parameters():
                sequence.mark_as_sequence_parallel_parameter(p)
        return made

    @property
    def balanced(self) -> bool:
        return self.attention == "ring"

    def part(self, x: bireme.Tensor) -> bireme.Tensor:
        """This process' part of `[batch, sequence]`."""
        return x if self.parts is None else context.split_sequence(x, self.parts, 1, self.balanced)

    def attend(self, q: bireme.Tensor, k: bireme.Tensor, v: bireme.Tensor) -> bireme.Tensor:
        if self.attention == "plain":
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        if self.attention == "alltoall":
            return context.alltoall_attention(q, k, v, self.parts, is_causal=True)
        return context.ring_attention(q, k, v, self.parts, is_causal=True, balanced=self.balanced)


PLAIN = Division()


class Attention(nn.Layer):
    def __init__(self, division: Division):
        super().__init__()
        self.division = division
        self.qkv, self.out = division.column(WIDTH, 3 * WIDTH), division.row(WIDTH, WIDTH)

    def forward(self, x: bireme.Tensor) -> bireme.Tensor:
        """Heads lie side by side, each with its q, k and v; a divided sequence comes first, else the batch does."""
        y = self.qkv(x)
        swapped = self.division.linear == "sequence"
        if swapped:
            y = y.transpose([1, 0, 2])
        heads = y.shape[-1] * HEADS // (3 * WIDTH)
        q, k, v = y.reshape([y.shape[0], y.shape[1], heads, 3 * WIDTH // HEADS]).chunk(3, -1)
        y = self.division.attend(q, k, v).reshape([*y.shape[:2], -1])
        return self.out(y.transpose([1, 0, 2]) if swapped else y)


class Mlp(nn.Layer):
    def __init__(self, division: Division):
        super().__init__()
        self.up, self.down = division.column(WIDTH, 2 * WIDTH), division.row(2 * WIDTH, WIDTH)

    def forward(self, x: bireme.Tensor) -> bireme.Tensor:
        return self.down(F.gelu(self.up(x)))


def mixture(division: Division) -> nn.Layer:
    """Experts, the same in number over all processes; capacities are multiples of one process' tokens."""
    count = 1 if division.experts is None else division.experts.nranks
    experts = nn.LayerList([Mlp(PLAIN) for _ in range(EXPERTS // count)])
    model = None
    if division.linear == "tensor":
        model = fleet.get_hybrid_communicate_group().get_model_parallel_group()
    gate: Any = {"type": "naive", "top_k": 2}
    if division.gate == "switch":
        kept = (0.3 * count * (1 if model is None else model.nranks),) * 2
        gate = moe.SwitchGate(WIDTH, EXPERTS // count, count, switch_eps=0.0, capacity=kept, group=division.experts)
    return moe.MoELayer(WIDTH, experts, gate, moe_group=division.experts, mp_group=model)


class Block(nn.Layer):
    def __init__(self, division: Division = PLAIN, experts: bool = False):
        super().__init__()
        self.before, self.between = division.layer_norm(), division.layer_norm()
        self.attention = Attention(division)
        self.after = mixture(division) if experts else Mlp(division)

    def forward(self, x: bireme.Tensor) -> bireme.Tensor:
        x = x + self.attention(self.before(x))
        return x + self.after(self.between(x))


class Table(nn.Layer):
    """Letters and their places; the letters are the head too."""

    def __init__(self, division: Division = PLAIN):
        super().__init__()
        self.division = division
        kind = nn.Embedding if division.linear == "plain" else parallel.VocabParallelEmbedding
        self.letters, self.places = kind(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)

    @property
    def weight(self) -> bireme.Tensor:
        return self.letters.weight

    def forward(self, ids: bireme.Tensor) -> bireme.Tensor:
        places = self.division.part(bireme.arange(LENGTH).unsqueeze(0))
        x = self.letters(ids) + self.places(places)
        return sequence.ScatterOp.apply(x.transpose([1, 0, 2])) if self.division.linear == "sequence" else x


def head(table: Table, x: bireme.Tensor) -> bireme.Tensor:
    """Logits by the table's rows, of which each process of the model axis has a part."""
    if table.division.linear == "sequence":
        x = sequence.GatherOp.apply(x).transpose([1, 0, 2])
    if table.division.linear != "plain":
        group = fleet.get_hybrid_communicate_group().get_model_parallel_group()
        x = dist.collective._c_identity(x, group=group)
    return bireme.matmul(x, table.weight, transpose_y=True)


class GPT(nn.Layer):
    """A GPT; with `experts`, a mixture in each block."""

    def __init__(self, division: Division = PLAIN, experts: bool = False):
        super().__init__()
        self.division, self.table = division, Table(division)
        self.blocks = nn.LayerList([Block(division, experts) for _ in range(BLOCKS)])
        self.guess = None if division.tied else nn.Linear(WIDTH, VOCABULARY, bias_attr=False)

    def forward(self, ids: bireme.Tensor) -> bireme.Tensor:
        x = self.table(ids)
        for block in self.blocks:
            x = fleet.utils.recompute(block, x) if self.division.recomputed else block(x)
        return head(self.table, x) if self.guess is None else self.guess(x)


def cross_entropy(logits: bireme.Tensor, labels: bireme.Tensor) -> bireme.Tensor:
    return F.cross_entropy(logits.reshape([-1, logits.shape[-1]]), labels.reshape([-1]))


def parallel_cross_entropy(logits: bireme.Tensor, labels: bireme.Tensor) -> bireme.Tensor:
    return parallel.ParallelCrossEntropy()(logits, labels).mean()


class Residual(nn.Layer):
    def __init__(self, width: int, to: int, norm: Callable[[int], nn.Layer]):
        super().__init__()
        self.first = nn.Conv2D(width, to, 3, stride=to // width, padding=1, bias_attr=False)
        self.second = nn.Conv2D(to, to, 3, padding=1, bias_attr=False)
        self.short = nn.Conv2D(width, to, 1, stride=to // width, bias_attr=False)
        self.before, self.between = norm(to), norm(to)

    def forward(self, x: bireme.Tensor) -> bireme.Tensor:
        y = F.relu(self.before(self.first(x)))
        return F.relu(self.short(x) + self.between(self.second(y)))


class Stem(nn.Layer):
    def __init__(self, norm: Callable[[int], nn.Layer]):
        super().__init__()
        self.first, self.before = nn.Conv2D(3, 4, 3, padding=1, bias_attr=False), norm(4)

    def forward(self, x: bireme.Tensor) -> bireme.Tensor:
        return F.relu(self.before(self.first(x)))


class Classes(nn.Layer):
    def __init__(self, division: Division):
        super().__init__()
        self.up, self.down = division.column(8, 8), division.row(8, CLASSES)

    def forward(self, x: bireme.Tensor) -> bireme.Tensor:
        return self.down(F.relu(self.up(x.mean([2, 3]))))


def norm_of(division: Division) -> Callable[[int], nn.Layer]:
    """Batch normalization over the batches of all processes, or by groups, which does not see a batch."""
    return nn.SyncBatchNorm if division.norm == "batch" else lambda width: nn.GroupNorm(2, width)


class ResNet(nn.Layer):
    def __init__(self, division: Division = PLAIN):
        super().__init__()
        self.division, norm = division, norm_of(division)
        self.blocks = nn.LayerList([Stem(norm), Residual(4, 4, norm), Residual(4, 8, norm), Classes(division)])

    def forward(self, x: bireme.Tensor) -> bireme.Tensor:
        for block in self.blocks:
            x = fleet.utils.recompute(block, x) if self.division.recomputed else block(x)
        return x


class Case:
    """A model with its data, loss, and the layers of a pipeline."""

    def __init__(self, name: str):
        self.name = name

    def build(self, division: Division = PLAIN) -> nn.Layer:
        return ResNet(division) if self.name == "ResNet" else GPT(division, experts=self.name == "MoE")

    def layers(self, division: Division) -> list:
        if self.name == "ResNet":
            norm = norm_of(division)
            return [
                parallel.LayerDesc(Stem, norm), parallel.LayerDesc(Residual, 4, 4, norm),
                parallel.LayerDesc(Residual, 4, 8, norm), parallel.LayerDesc(Classes, division),
            ]  # fmt: skip
        table = ("table", Table)
        return [
            parallel.SharedLayerDesc(*table, None, "weight", division),
            *[parallel.LayerDesc(Block, division, self.name == "MoE") for _ in range(BLOCKS)],
            parallel.SharedLayerDesc(*table, head, "weight", division),
        ]

    def place(self, name: str) -> str:
        """The name in the whole model of a parameter of a pipeline."""
        if name.startswith("shared_layers."):
            return name.replace("shared_layers.table", "table")
        index, rest = name.split(".", 1)
        return f"blocks.{int(index) - (0 if self.name == 'ResNet' else 1)}.{rest}"

    def loss(self, division: Division) -> Callable:
        divided = division.linear != "plain" and division.tied and self.name != "ResNet"
        return parallel_cross_entropy if divided else cross_entropy

    def batches(self, steps: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        rng = np.random.default_rng(1)
        for _ in range(steps):
            if self.name == "ResNet":
                yield rng.standard_normal((BATCH, 3, SIDE, SIDE)).astype("float32"), rng.integers(0, CLASSES, BATCH)
            else:
                ids = rng.integers(0, VOCABULARY, (BATCH, LENGTH + 1))
                yield ids[:, :-1], ids[:, 1:]


def weight(name: str, shape: list[int]) -> np.ndarray:
    """The whole weight of a name: random numbers that depend on it alone."""
    rng = np.random.default_rng(sum(map(ord, name)) * 7919 + len(name))
    around = 1.0 if len(shape) == 1 and name.endswith("weight") else 0.0
    return (rng.standard_normal(shape) * (0.3 if len(shape) > 1 else 0.05) + around).astype("float32")


def fill(model: nn.Layer, division: Division = PLAIN, place: Callable[[str], str] = str) -> nn.Layer:
    """Give each parameter the part of its whole weight that it is; experts are numbered over all processes."""
    hybrid = fleet.fleet._hcg if division.linear != "plain" else None
    for name, p in model.named_parameters():
        name = place(name)
        if ".experts." in name and division.experts is not None:
            before, rest = name.split(".experts.")
            index, rest = rest.split(".", 1)
            own = EXPERTS // division.experts.nranks
            name = f"{before}.experts.{int(index) + own * division.experts.rank}.{rest}"
        if hybrid is not None and getattr(p, "is_distributed", False):
            parts, rank = hybrid.get_model_parallel_world_size(), hybrid.get_model_parallel_rank()
            whole = [n * parts if i == p.split_axis else n for i, n in enumerate(p.shape)]
            p.set_value(np.split(weight(name, whole), parts, p.split_axis)[rank])
        else:
            p.set_value(weight(name, p.shape))
    return model


def adam(parameters: Any, clip: float = 0.5) -> Any:
    """AdamW; its epsilon keeps gradients that are zero but for rounding from being blown up to whole steps."""
    return bireme.optimizer.AdamW(
        0.01, epsilon=1e-6, parameters=parameters, weight_decay=0.1, grad_clip=nn.ClipGradByGlobalNorm(clip)
    )


def single(name: str, steps: int, division: Division = PLAIN) -> list[float]:
    """The losses of one process."""
    case = Case(name)
    model = fill(case.build(division))
    optimizer, losses = adam(model.parameters()), []
    for x, y in case.batches(steps):
        loss = cross_entropy(model(bireme.to_tensor(x)), bireme.to_tensor(y))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(loss.item())
    return losses
