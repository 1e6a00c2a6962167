"""Random tensors: uniform, normal and other distributions, permutations, sampling."""
