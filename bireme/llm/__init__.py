"""Language models: networks of Hugging Face's layouts, and an engine that serves many requests in one decode step."""

from bireme.llm.configuration import Configuration
from bireme.llm.engine import Engine
from bireme.llm.grammars import Grammar
from bireme.llm.model import LanguageModel, load
from bireme.llm.network import Network
from bireme.llm.options import SamplingOptions
from bireme.llm.requests import Event, Request, Result
from bireme.llm.saving import quantize
from bireme.llm.template import ChatTemplate
from bireme.llm.tokenizer import Tokenizer

__all__ = [
    "ChatTemplate",
    "Configuration",
    "Engine",
    "Event",
    "Grammar",
    "LanguageModel",
    "Network",
    "Request",
    "Result",
    "SamplingOptions",
    "Tokenizer",
    "load",
    "quantize",
]
