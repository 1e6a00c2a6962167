"""The search of how to train a model on many devices, see docs/planning.md."""

from bireme.distributed.planning.calibration import this_machine
from bireme.distributed.planning.choice import Choice
from bireme.distributed.planning.description import Description, Part
from bireme.distributed.planning.hardware import Hardware, Link
from bireme.distributed.planning.networks import LanguageModel, Size, language_model
from bireme.distributed.planning.plan import Plan, plan
from bireme.distributed.planning.recording import describe
from bireme.distributed.planning.rehearsal import Rehearsed, rehearse

__all__ = [
    "Choice", "Description", "Hardware", "LanguageModel", "Link", "Part", "Plan", "Rehearsed", "Size", "describe",
    "language_model", "plan", "rehearse", "this_machine",
]  # fmt: skip
