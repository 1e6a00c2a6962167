"""`bireme quantize`: a saved model with integers for weights, or for weights and inputs, and what that changes."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

from bireme.command import comparison, language
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

FEW = 16  # samples, in which ranges of what will come are hardly seen

EXAMPLES = """  bireme quantize models/mnist --to int8 --data samples.npz -o models/mnist8
  bireme quantize models/mnist --to weight-int4 --group 64 -o models/mnist4
  bireme quantize models/llama --to weight-int4 --data text.txt -o models/llama4   # a language model's folder
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    comparison.add(
        parser,
        ".npz with an array for each input, its rows being samples: int8 finds scales in them; "
        "for a language model a text, or one array of tokens",
    )
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
        return _of_language(arguments)
    if arguments.to == "int8" and arguments.data is None:
        raise errors.failure(
            "int8 needs samples", hint="--data FILE.npz, with an array for each input", kind=ValueError
        )
    comparison.checked(arguments)
    model, _ = transformed(model_of(arguments.model), USUAL)
    data, labels = comparison.samples(arguments, model) if arguments.data else ([], None)
    if arguments.to == "int8" and len(data[0]) < FEW:
        sys.stderr.write(
            f"bireme quantize: scales are found in {len(data[0])} samples, and what is told below is how well these are met; "
            "some hundred that are like what will come are better\n"
        )
    batches = comparison.batches_of(data, arguments.batch)
    choice = Choice(bits=4 if arguments.to == "weight-int4" else 8, group=arguments.group, tables=True)
    net, layers = quantized_model(model, arguments.to, batches, OBSERVERS[arguments.observer](), choice)
    comparison.store(net, model, arguments.out, "quantize")
    told = comparison.report(arguments, data, labels)
    told["layers"] = layers
    sys.stdout.write(json.dumps(told) + "\n" if arguments.json else _shown(told))
    return 0


def _of_language(arguments: argparse.Namespace) -> int:
    kind = language.checked(arguments.model, arguments.out, arguments.to, arguments.group)
    told = language.run(arguments.model, arguments.out, kind, arguments.data)
    sys.stdout.write(json.dumps(told) + "\n" if arguments.json else language.lines(told))
    return 0


def _shown(told: dict[str, Any]) -> str:
    return comparison.shown(told, [("layers", f"{told['layers']} with integers")])
