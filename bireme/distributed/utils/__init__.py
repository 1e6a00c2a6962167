"""Helpers of launchers, and exchanges of mixtures of experts."""

from bireme.distributed.utils import launch_utils as launch_utils
from bireme.distributed.utils import log_utils as log_utils
from bireme.distributed.utils import moe_utils as moe_utils

__all__ = ["launch_utils", "log_utils", "moe_utils"]
