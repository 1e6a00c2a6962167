"""The engine: operators, graphs, tensors, the tape and the two executors. It imports no operator."""
