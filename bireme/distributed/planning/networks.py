"""Language models to plan for, by their published sizes: layers without weights, made in a moment whatever their size."""

from __future__ import annotations

import dataclasses
from typing import Any

from bireme.core.base import errors
from bireme.nn import Embedding, LayerList, Linear
from bireme.nn import functional as F
from bireme.nn.layer import Layer
from bireme.nn.parameter import LazyGuard
from bireme.ops import argsort, gather, matmul, topk
from bireme.ops.fused.norm import rms_norm_of

__all__ = ["SIZES", "LanguageModel", "Size", "language_model"]


@dataclasses.dataclass(frozen=True)
class Size:
    """Sizes of a language model; with experts, each token goes to two of them."""

    vocabulary: int
    width: int
    inner: int
    heads: int
    shared_heads: int  # of keys and values
    blocks: int
    experts: int = 0


SIZES = {
    "llama-8b": Size(128256, 4096, 14336, 32, 8, 32),
    "llama-70b": Size(128256, 8192, 28672, 64, 8, 80),
    "llama-405b": Size(128256, 16384, 53248, 128, 8, 126),
    "moe-8x7b": Size(32000, 4096, 14336, 32, 8, 32, 8),
    "tiny": Size(512, 64, 128, 4, 2, 2),
    "tiny-moe": Size(512, 64, 128, 4, 2, 2, 4),
}
ROUTES = 2


class _RMSNorm(Layer):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = self.create_parameter([width])

    def forward(self, x: Any) -> Any:
        return rms_norm_of(x, self.weight, None, 1e-5, [x.ndim - 1])


class _Attention(Layer):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size, each = size, size.width // size.heads
        self.q = Linear(size.width, size.width, bias_attr=False)
        self.k = Linear(size.width, size.shared_heads * each, bias_attr=False)
        self.v = Linear(size.width, size.shared_heads * each, bias_attr=False)
        self.out = Linear(size.width, size.width, bias_attr=False)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        q, k, v = [f(x).reshape([batch, length, -1, width // self.size.heads]) for f in (self.q, self.k, self.v)]
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).reshape([batch, length, width]))


class _Inner(Layer):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.gate = Linear(size.width, size.inner, bias_attr=False)
        self.up = Linear(size.width, size.inner, bias_attr=False)
        self.down = Linear(size.inner, size.width, bias_attr=False)

    def forward(self, x: Any) -> Any:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class _Experts(Layer):
    """Tokens in the order of their experts, each of which takes as many: balanced, as a plan has to assume."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size
        self.router = Linear(size.width, size.experts, bias_attr=False)
        self.gate: Any = self.create_parameter([size.experts, size.width, size.inner])
        self.up: Any = self.create_parameter([size.experts, size.width, size.inner])
        self.down: Any = self.create_parameter([size.experts, size.inner, size.width])

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        rows = x.reshape([batch * length, width])
        weights, chosen = topk(F.softmax(self.router(rows), axis=-1), ROUTES, axis=-1)
        order = argsort(chosen.flatten())
        sent = gather(rows, order // ROUTES).reshape([self.size.experts, -1, width])
        done = matmul(F.silu(matmul(sent, self.gate)) * matmul(sent, self.up), self.down).reshape([-1, width])
        back = gather(done, argsort(order)).reshape([batch * length, ROUTES, width])
        return (back * weights.unsqueeze(-1)).sum(axis=1).reshape([batch, length, width])


class _Block(Layer):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.before, self.attention = _RMSNorm(size.width), _Attention(size)
        self.between, self.inner = _RMSNorm(size.width), _Experts(size) if size.experts else _Inner(size)

    def forward(self, x: Any) -> Any:
        x = x + self.attention(self.before(x))
        return x + self.inner(self.between(x))


class LanguageModel(Layer):
    """A decoder of the LLaMA family: what it computes and keeps, without the rotation of positions."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.embedding = Embedding(size.vocabulary, size.width)
        self.blocks = LayerList([_Block(size) for _ in range(size.blocks)])
        self.norm, self.head = _RMSNorm(size.width), Linear(size.width, size.vocabulary, bias_attr=False)

    def forward(self, ids: Any) -> Any:
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def language_model(name: str | Size) -> LanguageModel:
    """Return a language model of a published size, whose parameters have no numbers yet.

    Args:
        name: ``"llama-8b"``, ``"llama-70b"``, ``"llama-405b"``, ``"moe-8x7b"``, or a ``Size``.

    Returns:
        The model. Its blocks count as the published ones do; experts take equal shares of the tokens.

    Raises:
        ValueError: If the name is not known.

    Examples:
        >>> from bireme.distributed import planning
        >>> model = planning.language_model("llama-70b")
        >>> sum(p.size for p in model.parameters()) // 10**8
        705
    """
    if not isinstance(name, Size) and name not in SIZES:
        raise errors.bad("language_model(name)", f"one of {', '.join(SIZES)} or a Size", name)
    with LazyGuard():
        return LanguageModel(name if isinstance(name, Size) else SIZES[name])
