"""Matrix products, decompositions, solvers, norms, diagonals and triangles."""
