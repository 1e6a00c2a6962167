"""Shapes and layout: reshape, join, split, repeat, views and questions about a tensor."""
