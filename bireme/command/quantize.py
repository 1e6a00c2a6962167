"""`bireme quantize`: a saved model with integers for weights, or for weights and inputs, and what that changes."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

from bireme.command import comparison
from bireme.core.base import errors
from bireme.inference.saved import is_language_model, model_of
from bireme.jit.transforms import USUAL, transformed
from bireme.quantization import observers
from bireme.quantization.saved import Choice, quantized_model

OBSERVERS: dict[str, Callable[[], Any]] = {
    "absmax": observers.AbsmaxObserver,
    "average": observers.MovingAverageAbsmaxObserver,
    "histogram": observers.HistObserver,
    "kl": observers.KLObserver,
    "mse": lambda: observers.MSEObserver(symmetric=False),
    "mse-symmetric": observers.MSEObserver,
}

EXAMPLES = """  bireme quantize models/mnist --to int8 --data samples.npz -o models/mnist8
  bireme quantize models/mnist --to weight-int4 --group 64 -o models/mnist4

language models keep weights as integers when they are loaded: bireme generate FOLDER --quantize int8
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    comparison.add(parser, ".npz with an array for each input, its rows being samples: int8 finds scales in them")
    parser.add_argument(
        "--to", choices=["int8", "weight-int8", "weight-int4"], required=True,
        help="int8: weights and inputs of products; weight-int8, weight-int4: weights alone",
    )  # fmt: skip
    parser.add_argument(
        "--observer",
        choices=list(OBSERVERS),
        default="mse",
        help="what finds scales of inputs: mse cuts off where the squared error is least, with a zero point, mse-symmetric "
        "without one, as products of integers in C want it (default: %(default)s)",
    )
    parser.add_argument(
        "--group", type=int, metavar="N", help="rows of a matrix that share a scale (default: all of a column)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Quantize, save, and tell what changed."""
    if arguments.group is not None and arguments.group < 1:
        raise errors.bad("--group", "a positive number", arguments.group)
    if is_language_model(arguments.model):
        kind = "int4" if arguments.to == "weight-int4" else "int8"
        raise errors.failure(
            f"{arguments.model} is a language model, whose weights become integers when it is loaded",
            hint=f"bireme generate {arguments.model} --quantize {kind}, or bireme serve with the same option",
            kind=ValueError,
        )
    if arguments.to == "int8" and arguments.data is None:
        raise errors.failure(
            "int8 needs samples", hint="--data FILE.npz, with an array for each input", kind=ValueError
        )
    comparison.checked(arguments)
    model, _ = transformed(model_of(arguments.model), USUAL)
    data, labels = comparison.samples(arguments, model) if arguments.data else ([], None)
    batches = comparison.batches_of(data, arguments.batch)
    choice = Choice(bits=4 if arguments.to == "weight-int4" else 8, group=arguments.group)
    net, layers = quantized_model(model, arguments.to, batches, OBSERVERS[arguments.observer](), choice)
    comparison.store(net, model, arguments.out, "quantize")
    told = comparison.report(arguments, data, labels)
    told["layers"] = layers
    sys.stdout.write(json.dumps(told) + "\n" if arguments.json else _shown(told))
    return 0


def _shown(told: dict[str, Any]) -> str:
    return comparison.shown(told, [("layers", f"{told['layers']} with integers")])
