"""Fleet's helpers."""

from bireme.distributed.fleet.recompute.recompute import recompute
from bireme.distributed.fleet.utils import context_parallel_utils as context_parallel_utils
from bireme.distributed.fleet.utils import hybrid_parallel_util as hybrid_parallel_util
from bireme.distributed.fleet.utils import log_util as log_util
from bireme.distributed.fleet.utils import sequence_parallel_utils as sequence_parallel_utils
from bireme.distributed.fleet.utils import timer_helper as timer_helper
from bireme.distributed.fleet.utils.fs import HDFSClient, LocalFS
from bireme.distributed.fleet.utils.ps_util import DistributedInfer

__all__ = ["DistributedInfer", "HDFSClient", "LocalFS", "recompute"]
