"""Mixtures of experts that are divided among processes."""

from bireme.distributed.models.moe import utils as utils
