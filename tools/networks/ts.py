"""Networks of PaddleTS: series of two variables, sixteen steps in and four out."""

from __future__ import annotations

import collections
import collections.abc
import functools
import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from tools.networks import Network

SPAN = {"in_chunk_len": 16, "out_chunk_len": 4, "target_dim": 2}
COVARIATES = {"known_cov_dim": 0, "observed_cov_dim": 0}

# family: module under paddlets.models, class, options
ROWS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("nbeats", "forecasting.dl.nbeats", "_NBEATSModule", {
        **SPAN, **COVARIATES, "generic_architecture": True, "num_stacks": 2, "num_blocks": [1, 1], "num_layers": 2,
        "layer_widths": [16, 16], "expansion_coefficient_dim": 4, "trend_polynomial_degree": 2}),
    ("nbeats", "forecasting.dl.nbeats", "_NBEATSModule-trend", {
        **SPAN, **COVARIATES, "generic_architecture": False, "num_stacks": 2, "num_blocks": [1, 1], "num_layers": 2,
        "layer_widths": [16, 16], "expansion_coefficient_dim": 4, "trend_polynomial_degree": 2}),
    ("scinet", "forecasting.dl.scinet", "_StackedSCINetModule", {
        "in_chunk_len": 16, "out_chunk_len": 4, "in_dim": 2, "num_level": 2, "kernel_size": 3, "dropout_rate": 0.0}),
    ("lstnet", "forecasting.dl.lstnet", "_LSTNetModule", {
        **SPAN, "skip_size": 2, "channels": 8, "kernel_size": 3, "rnn_cell_type": "GRU", "rnn_num_cells": 6,
        "skip_rnn_cell_type": "LSTM", "skip_rnn_num_cells": 4, "dropout_rate": 0.0}),
    ("tcn", "forecasting.dl.tcn", "_TCNModule", {**SPAN, "hidden_config": [8, 8], "kernel_size": 3, "dropout_rate": 0.0}),
    ("mlp", "forecasting.dl.mlp", "_MLPModule", {"in_chunk_dim": 16, "out_chunk_dim": 4, "target_dim": 2, "hidden_config": [8],
                                                 "use_bn": True}),
    ("transformer", "forecasting.dl.transformer", "_TransformerModule", {
        **SPAN, "input_dim": 2, "d_model": 16, "nhead": 2, "num_encoder_layers": 1, "num_decoder_layers": 1,
        "dim_feedforward": 16, "activation": "gelu", "dropout_rate": 0.0}),
    ("cnn", "classify.dl.cnn", "_CNNBlock", {"in_chunk_dim": 2, "in_chunk_lens": 16, "n_classes": 3, "kernel_size": 3, "avg_pool_size": 2}),
    ("inception_time", "classify.dl.inception_time", "_InceptionTime", {
        "channel_in": 2, "channel_out": 3, "kernel_size": 9, "block_out_size": 4, "block_depth": 3}),
]  # fmt: skip


def load(module: str = "forecasting.dl.mlp") -> Any:
    collections.Iterable = collections.abc.Iterable  # type: ignore[attr-defined]  # the package is older than Python 3.10
    return importlib.import_module(f"paddlets.models.{module}")


def build(module: str, name: str, options: dict[str, Any]) -> Any:
    return getattr(load(module), name.partition("-")[0])(**options)


def arguments() -> tuple[tuple, dict]:
    rng = np.random.RandomState(0)
    past = rng.standard_normal((4, 16, 2)).astype("float32")
    return ({"past_target": past, "features": past, "future_target": past[:, :4]},), {}


def networks() -> Iterator[Network]:
    for family, module, name, options in ROWS:
        yield Network("ts", family, name.lstrip("_"), functools.partial(build, module, name, options), arguments)
