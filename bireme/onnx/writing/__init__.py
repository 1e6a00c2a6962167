"""Writing: programs as ONNX graphs."""
