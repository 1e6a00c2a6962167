"""Special functions: a list of names."""

from bireme.ops import (  # written by `make api`
    logsumexp, torch_softmax as softmax,
)  # fmt: skip

__all__: list[str] = []
__all__ += [  # written by `make api`
    "logsumexp", "softmax",
]  # fmt: skip
