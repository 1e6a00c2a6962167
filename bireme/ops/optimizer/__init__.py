"""Updates of optimizers: one operator for all parameters of a group."""
