"""Helpers of launchers."""

from bireme.distributed.utils import launch_utils as launch_utils
from bireme.distributed.utils import log_utils as log_utils

__all__ = ["launch_utils", "log_utils"]
