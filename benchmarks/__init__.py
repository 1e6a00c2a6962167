"""Benchmarks: each module is one command, `python -m benchmarks.chain --help`. README.md says what each measures."""
