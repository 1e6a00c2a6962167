"""A training loop with everything around it: Model, its callbacks, tables of a network's layers."""

from bireme.hapi import callbacks, dynamic_flops, model, model_summary, progressbar, static_flops
from bireme.hapi.dynamic_flops import flops
from bireme.hapi.logs import Logs
from bireme.hapi.model import Model
from bireme.hapi.model_summary import summary

__all__ = [
    "Logs",
    "Model",
    "callbacks",
    "dynamic_flops",
    "flops",
    "model",
    "model_summary",
    "progressbar",
    "static_flops",
    "summary",
]
