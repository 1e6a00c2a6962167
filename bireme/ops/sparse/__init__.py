"""Products with sparse matrices, given by the coordinates of their entries."""
