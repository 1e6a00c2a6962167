"""What families of operators share: broadcasting, checks of matrices, vectorized functions, hints for the compiler."""
