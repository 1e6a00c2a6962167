"""Names that code written for Paddle takes from `paddle.base`, Paddle's own inner package."""

from bireme.base import core, framework
from bireme.core.device import CPUPlace, CUDAPinnedPlace, CUDAPlace

__all__ = ["CPUPlace", "CUDAPinnedPlace", "CUDAPlace", "core", "framework"]
