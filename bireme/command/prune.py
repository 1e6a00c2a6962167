"""`bireme prune`: a saved model with fewer channels, and what that changes."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from bireme.command import comparison
from bireme.core.base import errors
from bireme.inference.saved import model_of
from bireme.quantization.saved import Lifted
from bireme.slim.analysis import flops
from bireme.slim.pruning import FPGMFilterPruner, L1NormFilterPruner, pruned_model

CRITERIA = {"l1": L1NormFilterPruner, "fpgm": FPGMFilterPruner}

EXAMPLES = """  bireme prune models/mnist --ratio 0.3 --data samples.npz -o models/mnist_small
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    comparison.add(parser, ".npz with an array for each input, its rows being samples: both models are run on them")
    parser.add_argument("--ratio", type=float, required=True, help="share of the channels to remove, in (0, 1)")
    parser.add_argument(
        "--criterion",
        choices=list(CRITERIA),
        default="l1",
        help="which channels matter least: by magnitudes, or nearest to the others (default: %(default)s)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Prune, save, and tell what changed."""
    if not 0 < arguments.ratio < 1:
        raise errors.bad("--ratio", "a number between 0 and 1", arguments.ratio)
    comparison.checked(arguments)
    model = model_of(arguments.model)
    data, labels = comparison.samples(arguments, model) if arguments.data else ([], None)
    before = flops(model)
    plan, names = pruned_model(model, arguments.ratio, CRITERIA[arguments.criterion])
    comparison.store(Lifted(model), model, arguments.out, "prune")
    told = comparison.report(arguments, data, labels)
    told |= {"layers": len(names), "flops": {"before": before, "after": round(before * (1 - plan.pruned_flops))}}
    sys.stdout.write(json.dumps(told) + "\n" if arguments.json else _shown(told))
    return 0


def _shown(told: dict[str, Any]) -> str:
    share = told["flops"]["after"] / max(told["flops"]["before"], 1)
    rows = [("layers", f"{told['layers']} with fewer channels"), ("multiplications", f"{share:.0%} of before")]
    return comparison.shown(told, rows)
