"""Code written for Paddle: running it unchanged, and Paddle's own `paddle.compat` functions.

`install_as_paddle()` makes `import paddle` mean Bireme in this process; `python -m bireme.compat script.py` runs a
whole script that way.
"""

from bireme.compat.alias import install_as_paddle
from bireme.compat.unfold import Unfold
from bireme.ops import (  # written by `make api`
    compat_max as max, compat_median as median, compat_min as min, compat_nanmedian as nanmedian, torch_softmax as
    softmax, compat_sort as sort, split_by_size as split,
)  # fmt: skip

__all__ = ["install_as_paddle", "Unfold"]
__all__ += [  # written by `make api`
    "max", "median", "min", "nanmedian", "softmax", "sort", "split",
]  # fmt: skip
