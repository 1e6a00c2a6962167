"""Several processes that work together: their connection, what watches it, and collectives among them on arrays."""
