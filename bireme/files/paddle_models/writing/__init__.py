"""Models written as Paddle's own: a program as `.json` and its parameters as `.pdiparams`."""
