"""Operators of neural networks: convolution, pooling, normalization, attention, recurrence, activations, losses."""
