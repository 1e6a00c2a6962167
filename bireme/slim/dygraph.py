"""Pruning of layers."""

from bireme.slim.pruning import FilterPruner, FPGMFilterPruner, L1NormFilterPruner, PruningPlan
from bireme.slim.unstructured import UnstructuredPruner

__all__ = ["FPGMFilterPruner", "FilterPruner", "L1NormFilterPruner", "PruningPlan", "UnstructuredPruner"]
