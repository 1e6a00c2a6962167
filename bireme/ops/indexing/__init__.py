"""Reading and writing by index: `x[...]`, gather, scatter, masks."""
