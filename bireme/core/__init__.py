"""The engine: graphs, executors, recording, tensors and the declaration of operators. It imports no operator.

Its packages stand in the order in which they may import each other, which is the way of the data back to front:
base, graph, numpy_exec, xla_exec, run, record, tensor, declare.
"""
