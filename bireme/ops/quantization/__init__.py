"""Operators on quantized numbers: to integers and back, products of integers, linear maps with quantized weights."""
