"""Networks of PaddleScience: from a dict of tensors to another."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from tools.networks import Network

LINE = {"input_keys": ("x", "y"), "output_keys": ("u", "v"), "hidden_size": 16}
POINTS = {"x": (8, 1), "y": (8, 1)}
SPECTRAL = {"input_keys": ("x",), "output_keys": ("u",), "hidden_channels": 8, "in_channels": 2, "lifting_channels": 8,
            "projection_channels": 8, "n_layers": 2}  # fmt: skip
IMAGE = {"x": (2, 2, 16, 16)}

# family: class (a word after - tells rows apart), options, shapes of inputs by key
ROWS: list[tuple[str, str, dict[str, Any], dict[str, tuple[int, ...]]]] = [
    ("mlp", "MLP", {**LINE, "num_layers": 3}, POINTS),
    ("mlp", "MLP-weight_norm", {**LINE, "num_layers": 3, "weight_norm": True, "skip_connection": True, "activation": "silu"}, POINTS),
    ("mlp", "MLP-periods", {**LINE, "num_layers": 2, "periods": {"x": [2.0, False]}, "activation": "sin"}, POINTS),
    ("mlp", "MLP-fourier", {**LINE, "num_layers": 2, "fourier": {"dim": 16, "scale": 1.0}, "activation": "swish"}, POINTS),
    ("mlp", "ModifiedMLP", {**LINE, "num_layers": 3, "activation": "gelu"}, POINTS),
    ("mlp", "PirateNet", {**LINE, "num_blocks": 2, "fourier": {"dim": 16, "scale": 1.0}}, POINTS),
    ("spinn", "SPINN", {"input_keys": ("x", "y"), "output_keys": ("u",), "r": 4, "num_layers": 2, "hidden_size": 8}, POINTS),
    ("deeponet", "DeepONet", {"u_key": "u", "y_key": "y", "G_key": "G", "num_loc": 10, "num_features": 8, "branch_num_layers": 1,
                              "trunk_num_layers": 1, "branch_hidden_size": 8, "trunk_hidden_size": 8}, {"u": (4, 10), "y": (4, 1)}),
    ("he_deeponets", "HEDeepONets", {"heat_input_keys": ("h",), "cold_input_keys": ("c",), "trunk_input_keys": ("x", "t"),
                                     "output_keys": ("T_h", "T_c", "T_w"), "heat_num_loc": 1, "cold_num_loc": 1, "num_features": 8,
                                     "branch_num_layers": 2, "trunk_num_layers": 2, "branch_hidden_size": 8,
                                     "trunk_hidden_size": 8}, {"h": (4, 1), "c": (4, 1), "x": (4, 1), "t": (4, 1)}),
    ("afno", "AFNONet", {"input_keys": ("x",), "output_keys": ("u",), "img_size": (16, 32), "patch_size": (4, 4), "in_channels": 2,
                         "out_channels": 2, "embed_dim": 16, "depth": 2, "num_blocks": 2}, {"x": (2, 2, 16, 32)}),
    ("cvit", "CVit1D", {"input_keys": ("u", "y"), "output_keys": ("s",), "spatial_dims": 16, "in_dim": 1, "coords_dim": 1,
                        "patch_size": (4,), "grid_size": (16,), "latent_dim": 16, "emb_dim": 16, "depth": 1, "num_heads": 2,
                        "dec_emb_dim": 16, "dec_num_heads": 2, "embedding_type": "mlp"}, {"u": (2, 16, 1), "y": (6, 16)}),
    ("koopman", "LorenzEmbedding", {"input_keys": ("states",), "output_keys": ("pred", "recover"), "hidden_size": 16, "embed_size": 8},
     {"states": (4, 6, 3)}),
    ("koopman", "RosslerEmbedding", {"input_keys": ("states",), "output_keys": ("pred", "recover"), "hidden_size": 16, "embed_size": 8},
     {"states": (4, 6, 3)}),
    ("physx", "PhysformerGPT2", {"input_keys": ("e",), "output_keys": ("pred",), "num_layers": 2, "num_ctx": 16, "embed_size": 8,
                                 "num_heads": 2}, {"e": (2, 6, 8)}),
    ("fno", "TFNO2dNet", {**SPECTRAL, "n_modes_height": 4, "n_modes_width": 4}, IMAGE),
    ("fno", "SFNONet", {**SPECTRAL, "n_modes": (4, 4)}, IMAGE),
    ("uno", "UNONet", {**SPECTRAL, "out_channels": 1, "uno_out_channels": [8, 8], "uno_n_modes": [[4, 4], [4, 4]],
                       "uno_scalings": [[1, 1], [1, 1]]}, IMAGE),
    ("unetex", "UNetEx", {"input_key": "x", "output_key": "u", "in_channel": 2, "out_channel": 1, "filters": (4, 8), "weight_norm": False}, IMAGE),
    ("uscnn", "USCNN", {"input_keys": ("x",), "output_keys": ("u",), "hidden_size": (4, 4, 4), "h": 0.1, "nx": 9, "ny": 9, "nvar_in": 2},
     {"x": (2, 2, 9, 9)}),
    ("gan", "VelocityDiscriminator", {"input_keys": ("x",), "output_keys": ("u",), "dim1": 4, "dim2": 4, "dim3": 4, "dim4": 4},
     {"x": (2, 1, 70, 70)}),
]  # fmt: skip


def load() -> Any:
    return importlib.import_module("ppsci.arch")


def build(name: str, options: dict[str, Any]) -> Any:
    return getattr(load(), name.partition("-")[0])(**options)


def arguments(shapes: dict[str, tuple[int, ...]]) -> tuple[tuple, dict]:
    rng = np.random.RandomState(0)
    return ({key: rng.standard_normal(shape).astype("float32") for key, shape in shapes.items()},), {}


def networks() -> Iterator[Network]:
    for family, name, options, shapes in ROWS:
        yield Network(
            "sci", family, name, functools.partial(build, name, options), functools.partial(arguments, shapes)
        )
