"""Layers of fleet."""

from bireme.distributed.fleet.layers import mpu

__all__ = ["mpu"]
