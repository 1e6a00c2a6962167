"""Reductions along axes: sums, extremes, statistics, cumulative operators, histograms."""
