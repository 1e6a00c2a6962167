"""Layers, losses, initial values and gradient clipping."""

from bireme.nn import functional, initializer
from bireme.nn.activation import GELU, LeakyReLU, LogSoftmax, ReLU, Sigmoid, Silu, Softmax, Tanh
from bireme.nn.clip import ClipGradByGlobalNorm, ClipGradByNorm, ClipGradByValue
from bireme.nn.common import Dropout, Embedding, Flatten, Identity, Linear
from bireme.nn.container import LayerDict, LayerList, ParameterList, Sequential
from bireme.nn.conv import Conv2D
from bireme.nn.layer import Layer
from bireme.nn.loss import CrossEntropyLoss, MSELoss
from bireme.nn.norm import LayerNorm
from bireme.nn.pool import AvgPool2D, MaxPool2D

__all__ = [
    "functional", "initializer",
    "Layer", "Sequential", "LayerList", "LayerDict", "ParameterList",
    "Linear", "Embedding", "Dropout", "Flatten", "Identity", "Conv2D", "LayerNorm", "MaxPool2D", "AvgPool2D",
    "ReLU", "GELU", "Sigmoid", "Tanh", "Softmax", "LogSoftmax", "Silu", "LeakyReLU",
    "CrossEntropyLoss", "MSELoss",
    "ClipGradByGlobalNorm", "ClipGradByNorm", "ClipGradByValue",
]  # fmt: skip
