"""Mixed precision in programs."""
