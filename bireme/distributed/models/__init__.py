"""Parts of models whose layers are divided among processes."""

from bireme.distributed.models import moe as moe
