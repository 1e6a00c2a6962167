"""Making tensors: from data, filled, as ranges."""
