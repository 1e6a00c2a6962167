"""Reading: ONNX graphs as layers, by the public calls that their nodes mean."""
