"""Tensors: handles on values, views, the tape, backward passes, hooks and recomputation."""
