"""Operators of detection: regions of images, boxes and their suppression, deformable convolution, YOLO."""
