"""Rules of primitives by family; importing them fills the table."""

from bireme.onnx.writing.primitives import elementwise as elementwise
from bireme.onnx.writing.primitives import loops as loops
from bireme.onnx.writing.primitives import places as places
from bireme.onnx.writing.primitives import products as products
from bireme.onnx.writing.primitives import reductions as reductions
from bireme.onnx.writing.primitives import shapes as shapes
from bireme.onnx.writing.primitives.equations import write as write
