"""Creation of tensors: from data, filled, as ranges."""
