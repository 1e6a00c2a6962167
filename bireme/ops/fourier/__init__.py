"""Discrete Fourier transforms and signals in frames."""
