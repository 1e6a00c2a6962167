"""Layers that Paddle fuses by hand, in modules of the same names."""
