"""Rows of branches and loops."""
