"""The NumPy executor: graphs interpreted call by call, with BLAS and LAPACK, for first runs and small work."""
