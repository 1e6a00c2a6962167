"""Linear algebra: a list of names."""

from bireme.ops import (  # written by `make api`
    matmul,
)  # fmt: skip

__all__: list[str] = []
__all__ += [  # written by `make api`
    "matmul",
]  # fmt: skip
