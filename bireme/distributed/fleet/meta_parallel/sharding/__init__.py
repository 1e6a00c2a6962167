"""Training with divided gradients and optimizer states."""
