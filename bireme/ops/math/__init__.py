"""Elementwise arithmetic, comparison, bits, rounding, trigonometry, complex numbers and special functions."""
