"""Settings of layers, optimizers, schedules, metrics and loaders that can only give nonsense are refused where they are
given, by name.
"""

import numpy as np
import pytest

import bireme
from bireme import io, metric, nn, optimizer
from bireme.nn import initializer
from bireme.optimizer import lr

LAYER = nn.TransformerEncoderLayer(2, 1, 2)
DATA = bireme.io.TensorDataset([bireme.ones([4, 2])])


def _made(cls, *args, **kwargs):
    return cls(*args, parameters=[bireme.create_parameter([2], "float32")], **kwargs)


REFUSED = {
    "Accuracy(topk)": [lambda: metric.Accuracy(topk=(0,)), lambda: metric.Accuracy(topk=()), lambda: metric.Accuracy(topk="a")],
    "Auc(num_thresholds)": [lambda: metric.Auc(num_thresholds=0)],
    "LSTM(num_layers)": [lambda: nn.LSTM(3, 4, num_layers=0), lambda: nn.LSTM(3, 4, num_layers=1.5)],
    "GRU(dropout)": [lambda: nn.GRU(3, 4, dropout=-0.5)],
    "RNN(cell)": [lambda: nn.RNN(None)],
    "Normal(std)": [lambda: initializer.Normal(std=-1.0)],
    "TruncatedNormal(std)": [lambda: initializer.TruncatedNormal(std=-1.0)],
    "calculate_gain(param)": [lambda: initializer.calculate_gain("leaky_relu", "a")],
    "ClipGradByGlobalNorm(clip_norm)": [lambda: nn.ClipGradByGlobalNorm(-1.0), lambda: nn.ClipGradByGlobalNorm(float("nan"))],
    "ClipGradByNorm(clip_norm)": [lambda: nn.ClipGradByNorm(-1.0)],
    "Dropout(p)": [lambda: nn.Dropout(-0.1), lambda: nn.Dropout(None)],
    "Dropout(mode)": [lambda: nn.Dropout(mode="none")],
    "Dropout2D(p)": [lambda: nn.Dropout2D(1.5)],
    "AlphaDropout(p)": [lambda: nn.AlphaDropout(-0.1)],
    "Embedding(num_embeddings)": [lambda: nn.Embedding(-1, 3), lambda: nn.Embedding("a", 3)],
    "Linear(weight_attr)": [lambda: nn.Linear(2, 3, weight_attr=False)],
    "BatchNorm2D(momentum)": [lambda: nn.BatchNorm2D(3, momentum=2.0)],
    "BatchNorm2D(epsilon)": [lambda: nn.BatchNorm2D(3, epsilon=-1.0)],
    "LayerNorm(epsilon)": [lambda: nn.LayerNorm(3, epsilon=-1.0)],
    "LayerNorm(normalized_shape)": [lambda: nn.LayerNorm([])],
    "InstanceNorm2D(epsilon)": [lambda: nn.InstanceNorm2D(3, epsilon=-1.0)],
    "GroupNorm(num_groups)": [lambda: nn.GroupNorm(0, 4)],
    "GroupNorm(num_channels)": [lambda: nn.GroupNorm(3, 4)],
    "SpectralNorm(power_iters)": [lambda: nn.SpectralNorm([2, 3], power_iters=-1)],
    "Conv2D(padding)": [lambda: nn.Conv2D(1, 1, 3, padding=-1), lambda: nn.Conv2D(1, 1, 3, padding="x")],
    "MultiHeadAttention(dropout)": [lambda: nn.MultiHeadAttention(2, 1, dropout=-1.0)],
    "TransformerEncoder(num_layers)": [lambda: nn.TransformerEncoder(LAYER, -1)],
    "TransformerEncoder(encoder_layer)": [lambda: nn.TransformerEncoder(None, 1)],
    "PoissonNLLLoss(epsilon)": [lambda: nn.PoissonNLLLoss(epsilon=0.0)],
    "SGD(learning_rate)": [lambda: _made(optimizer.SGD, float("nan")), lambda: _made(optimizer.SGD, "a")],
    "Momentum(momentum)": [lambda: _made(optimizer.Momentum, momentum="a")],
    "Adagrad(epsilon)": [lambda: _made(optimizer.Adagrad, 0.1, epsilon=-1.0)],
    "Adagrad(initial_accumulator_value)": [lambda: _made(optimizer.Adagrad, 0.1, initial_accumulator_value=-1.0)],
    "Adadelta(rho)": [lambda: _made(optimizer.Adadelta, rho=1.1)],
    "StepDecay(step_size)": [lambda: lr.StepDecay(0.1, 0)],
    "NoamDecay(warmup_steps)": [lambda: lr.NoamDecay(8, 0)],
    "ReduceOnPlateau(factor)": [lambda: lr.ReduceOnPlateau(0.1, factor=-1.0)],
    "OneCycleLR(divide_factor)": [lambda: lr.OneCycleLR(0.1, 10, divide_factor=0)],
    "CyclicLR(scale_fn)": [lambda: lr.CyclicLR(0.1, 0.2, 2, scale_fn=3)],
    "LRScheduler(last_epoch)": [lambda: lr.LRScheduler(0.1, last_epoch="a")],
    "DataLoader(dataset)": [lambda: io.DataLoader(None), lambda: io.DataLoader(5), lambda: io.DataLoader(iter([1, 2]))],
    "DataLoader(num_workers)": [lambda: io.DataLoader(DATA, num_workers=-1), lambda: io.DataLoader(DATA, num_workers=1.5)],
    "DataLoader(batch_size)": [lambda: io.DataLoader(DATA, batch_size=0)],
    "DataLoader(collate_fn)": [lambda: io.DataLoader(DATA, collate_fn=3)],
    "DataLoader(batch_sampler)": [lambda: io.DataLoader(DATA, batch_sampler=3)],
    "DistributedBatchSampler(rank)": [lambda: io.DistributedBatchSampler(DATA, 2, num_replicas=2, rank=2)],
    "random_split(lengths)": [lambda: io.random_split(DATA, [-1, 5])],
    "Model.prepare(optimizer)": [lambda: bireme.Model(nn.Linear(2, 1)).prepare(3)],
    "Model.evaluate(eval_data)": [lambda: bireme.Model(nn.Linear(2, 1)).evaluate(io.Subset(DATA, []))],
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_refused_by_name(what):
    for make in REFUSED[what]:
        with pytest.raises(ValueError) as told:
            make()
        assert str(told.value).startswith(f"{what}: expected"), told.value


def test_no_layers():
    encoder = nn.TransformerEncoder(LAYER, 0)
    assert len(encoder.layers) == 0
    assert encoder(bireme.ones([1, 2, 2])).tolist() == [[[1.0, 1.0], [1.0, 1.0]]]


def test_fans_below_one():
    bound = np.sqrt(6 / 0.5)
    values = initializer.XavierUniform(fan_in=0.25, fan_out=0.25).sample([400], "float32").numpy()
    assert bound * 0.9 < np.abs(values).max() <= bound
    assert initializer.XavierUniform(fan_in=0, fan_out=0).sample([2], "float32").tolist() == [0.0, 0.0]


def test_fit_on_nothing():
    model = bireme.Model(nn.Linear(2, 1))
    model.prepare(_made(optimizer.SGD, 0.1), nn.MSELoss())
    with pytest.raises(ValueError, match=r"Model.fit\(train_data\): expected at least one sample, got none"):
        model.fit(io.Subset(DATA, []))
