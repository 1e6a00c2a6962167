"""ops"""
from bireme.ops import math, creation, shape, logic, linalg, reduce, operators
