"""Layers, losses, initial values and gradient clipping."""

from bireme.nn import functional, init, initializer, utils
from bireme.nn.activation import (
    CELU,
    ELU,
    GELU,
    GLU,
    SELU,
    Hardshrink,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Maxout,
    Mish,
    PReLU,
    ReLU,
    ReLU6,
    RReLU,
    Sigmoid,
    Silu,
    Softmax,
    Softmax2D,
    Softplus,
    Softshrink,
    Softsign,
    Swish,
    Tanh,
    Tanhshrink,
    ThresholdedReLU,
)  # fmt: skip
from bireme.nn.adaptive_pool import (
    AdaptiveAvgPool1D,
    AdaptiveAvgPool2D,
    AdaptiveAvgPool3D,
    AdaptiveMaxPool1D,
    AdaptiveMaxPool2D,
    AdaptiveMaxPool3D,
    FractionalMaxPool2D,
    FractionalMaxPool3D,
    MaxUnPool1D,
    MaxUnPool2D,
    MaxUnPool3D,
)  # fmt: skip
from bireme.nn.batch_norm import BatchNorm, BatchNorm1D, BatchNorm2D, BatchNorm3D, SyncBatchNorm
from bireme.nn.clip import ClipGradByGlobalNorm, ClipGradByNorm, ClipGradByValue
from bireme.nn.common import (
    AlphaDropout,
    Bilinear,
    Dropout,
    Dropout2D,
    Dropout3D,
    Embedding,
    FeatureAlphaDropout,
    Flatten,
    Identity,
    Linear,
    Unflatten,
)  # fmt: skip
from bireme.nn.container import LayerDict, LayerList, ParameterDict, ParameterList, Sequential
from bireme.nn.conv import (
    Conv1D,
    Conv1d,
    Conv1DTranspose,
    Conv2D,
    Conv2d,
    Conv2DTranspose,
    Conv3D,
    Conv3d,
    Conv3DTranspose,
)  # fmt: skip
from bireme.nn.decode import BeamSearchDecoder, dynamic_decode
from bireme.nn.distance import CosineSimilarity, PairwiseDistance
from bireme.nn.layer import Layer
from bireme.nn.loss import (
    AdaptiveLogSoftmaxWithLoss,
    BCELoss,
    BCEWithLogitsLoss,
    CosineEmbeddingLoss,
    CrossEntropyLoss,
    CTCLoss,
    GaussianNLLLoss,
    HingeEmbeddingLoss,
    HSigmoidLoss,
    KLDivLoss,
    L1Loss,
    MarginRankingLoss,
    MSELoss,
    MultiLabelMarginLoss,
    MultiLabelSoftMarginLoss,
    MultiMarginLoss,
    NLLLoss,
    PoissonNLLLoss,
    RNNTLoss,
    SmoothL1Loss,
    SoftMarginLoss,
    TripletMarginLoss,
    TripletMarginWithDistanceLoss,
)  # fmt: skip
from bireme.nn.norm import (
    GroupNorm,
    InstanceNorm1D,
    InstanceNorm2D,
    InstanceNorm3D,
    LayerNorm,
    LocalResponseNorm,
    SpectralNorm,
)  # fmt: skip
from bireme.nn.padding import Pad1D, Pad2D, Pad3D, ZeroPad1D, ZeroPad2D, ZeroPad3D
from bireme.nn.parameter import Parameter
from bireme.nn.pool import (
    AvgPool1D,
    AvgPool2D,
    AvgPool3D,
    Fold,
    LPPool1D,
    LPPool2D,
    MaxPool1D,
    MaxPool2D,
    MaxPool3D,
    Unfold,
)  # fmt: skip
from bireme.nn.rnn import GRU, LSTM, RNN, BiRNN, SimpleRNN
from bireme.nn.rnn_cell import GRUCell, LSTMCell, RNNCellBase, SimpleRNNCell
from bireme.nn.transformer import (
    MultiHeadAttention,
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)  # fmt: skip
from bireme.nn.vision import (
    ChannelShuffle,
    PixelShuffle,
    PixelUnshuffle,
    Upsample,
    UpsamplingBilinear2D,
    UpsamplingNearest2D,
)

# what programs ask layers for by Paddle's inner names: `isinstance(layer, paddle.nn.layer.norm._BatchNormBase)`
_BatchNormBase, _InstanceNormBase, _ConvNd = BatchNorm2D.__base__, InstanceNorm2D.__base__, Conv2D.__base__.__base__

__all__ = [
    "functional", "init", "initializer", "utils",
    "Layer", "Sequential", "LayerList", "LayerDict", "ParameterList",
    "Linear", "Embedding", "Dropout", "Flatten", "Identity", "Conv2D", "LayerNorm", "MaxPool2D", "AvgPool2D",
    "BatchNorm", "BatchNorm1D", "BatchNorm2D", "BatchNorm3D", "SyncBatchNorm", "GroupNorm", "InstanceNorm1D", "InstanceNorm2D", "InstanceNorm3D",
    "LocalResponseNorm", "SpectralNorm",
    "Conv1D", "Conv1DTranspose", "Conv1d", "Conv2DTranspose", "Conv2d", "Conv3D", "Conv3DTranspose", "Conv3d",
    "AvgPool1D", "AvgPool3D", "Fold", "LPPool1D", "LPPool2D", "MaxPool1D", "MaxPool3D", "Unfold", "MaxUnPool1D", "MaxUnPool2D", "MaxUnPool3D",
    "AdaptiveAvgPool1D", "AdaptiveAvgPool2D", "AdaptiveAvgPool3D", "AdaptiveMaxPool1D", "AdaptiveMaxPool2D", "AdaptiveMaxPool3D",
    "FractionalMaxPool2D", "FractionalMaxPool3D",
    "Dropout2D", "Dropout3D", "AlphaDropout", "FeatureAlphaDropout", "Bilinear", "Unflatten", "Parameter", "ParameterDict",
    "Pad1D", "Pad2D", "Pad3D", "ZeroPad1D", "ZeroPad2D", "ZeroPad3D",
    "Upsample", "UpsamplingBilinear2D", "UpsamplingNearest2D", "PixelShuffle", "PixelUnshuffle", "ChannelShuffle",
    "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid", "LogSoftmax", "Maxout",
    "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SELU", "Sigmoid", "Silu", "Softmax", "Softmax2D", "Softplus", "Softshrink", "Softsign", "Swish",
    "Tanh", "Tanhshrink", "ThresholdedReLU",
    "BCELoss", "BCEWithLogitsLoss", "CosineEmbeddingLoss", "CrossEntropyLoss", "GaussianNLLLoss", "HingeEmbeddingLoss", "KLDivLoss", "L1Loss",
    "MarginRankingLoss", "MSELoss", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss", "PoissonNLLLoss",
    "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss", "TripletMarginWithDistanceLoss", "CosineSimilarity", "PairwiseDistance",
    "CTCLoss", "RNNTLoss", "HSigmoidLoss", "AdaptiveLogSoftmaxWithLoss",
    "RNNCellBase", "SimpleRNNCell", "LSTMCell", "GRUCell", "RNN", "BiRNN", "SimpleRNN", "LSTM", "GRU",
    "MultiHeadAttention", "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer",
    "BeamSearchDecoder", "dynamic_decode",
    "ClipGradByGlobalNorm", "ClipGradByNorm", "ClipGradByValue",
]  # fmt: skip
