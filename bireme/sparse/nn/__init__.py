"""Layers and functions of sparse tensors."""

from bireme.sparse.nn import functional as functional
from bireme.sparse.nn.conv import Conv2D, Conv3D, SubmConv2D, SubmConv3D
from bireme.sparse.nn.layers import BatchNorm, LeakyReLU, MaxPool3D, ReLU, ReLU6, Softmax, SyncBatchNorm

__all__ = [
    "BatchNorm", "Conv2D", "Conv3D", "LeakyReLU", "MaxPool3D", "ReLU", "ReLU6", "Softmax", "SubmConv2D", "SubmConv3D",
    "SyncBatchNorm", "functional",
]  # fmt: skip
