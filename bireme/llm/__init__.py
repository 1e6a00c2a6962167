"""Language models: networks of Hugging Face's layouts, and an engine that serves many requests in one decode step."""

from bireme.llm.options import SamplingOptions
from bireme.llm.requests import Event, Request, Result

__all__ = ["SamplingOptions", "Request", "Result", "Event"]
