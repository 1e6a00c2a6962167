"""Operators under the names of Paddle's fused kernels; the compiler does the fusing."""
