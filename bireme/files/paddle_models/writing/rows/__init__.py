"""Rows of the table by family; importing them fills it."""

from bireme.files.paddle_models.writing.rows import attention as attention
from bireme.files.paddle_models.writing.rows import blocks as blocks
from bireme.files.paddle_models.writing.rows import convolutions as convolutions
from bireme.files.paddle_models.writing.rows import creation as creation
from bireme.files.paddle_models.writing.rows import elementwise as elementwise
from bireme.files.paddle_models.writing.rows import indexing as indexing
from bireme.files.paddle_models.writing.rows import linalg as linalg
from bireme.files.paddle_models.writing.rows import losses as losses
from bireme.files.paddle_models.writing.rows import normalization as normalization
from bireme.files.paddle_models.writing.rows import pooling as pooling
from bireme.files.paddle_models.writing.rows import products as products
from bireme.files.paddle_models.writing.rows import recurrences as recurrences
from bireme.files.paddle_models.writing.rows import reductions as reductions
from bireme.files.paddle_models.writing.rows import resizing as resizing
from bireme.files.paddle_models.writing.rows import shapes as shapes
from bireme.files.paddle_models.writing.writer import Writer as Writer
