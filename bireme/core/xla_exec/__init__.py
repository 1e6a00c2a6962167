"""The XLA executor: graphs lowered to one jax function, compiled, and kept in a cache on disk."""
