"""Models behind HTTP and gRPC: the Open Inference Protocol (KServe V2) with requests run in batches, and OpenAI's endpoints."""

from bireme.serve.application import application
from bireme.serve.batching import Limits
from bireme.serve.documents import add_reader
from bireme.serve.language import LanguageModels
from bireme.serve.repository import Repository

__all__ = ["Repository", "LanguageModels", "Limits", "add_reader", "application"]
