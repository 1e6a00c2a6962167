"""What a server counts, in Prometheus' text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bireme.core.base.extras import extra
from bireme.serve.language import LanguageModels
from bireme.serve.repository import Repository, Served

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


# what an engine's statistics are, and what they mean
GAUGES = {
    "running": "Requests that run",
    "waiting": "Requests that wait",
    "pages_used": "Pages of the cache that hold tokens",
    "pages_free": "Pages of the cache that are free",
}
COUNTERS = {
    "requests": "Requests that were taken on",
    "finished": "Requests that have ended",
    "prompt_tokens": "Tokens of prompts",
    "tokens": "Tokens that were generated",
    "steps": "Decode steps",
    "prefix_hits": "Tokens of prompts that were found in the cache",
    "preemptions": "Requests that made room for others",
    "programs": "Programs that were compiled",
}


class _Engines:
    """Statistics of engines, read when they are asked for."""

    def __init__(self, language: LanguageModels, core: Any):
        self._language, self._core = language, core

    def collect(self) -> Iterator[Any]:
        """One family for each of them, with the models as labels."""
        found = {s.name: s.engine.statistics() for s in self._language.all() if s.engine is not None}
        for kind, names in ((self._core.GaugeMetricFamily, GAUGES), (self._core.CounterMetricFamily, COUNTERS)):
            for name, what in names.items():
                family = kind(f"bireme_llm_{name}", what, labels=["model"])
                for model, told in found.items():
                    family.add_metric([model], told[name])
                yield family


class Metrics:
    """Counters of one server, in a registry of their own."""

    def __init__(self, repository: Repository, language: LanguageModels | None = None):
        self._library = prometheus = extra("prometheus_client", "serve", "to serve models")
        self._repository = repository
        self._registry = registry = prometheus.CollectorRegistry()
        self._requests = prometheus.Counter(
            "bireme_requests", "Requests by model and status", ["model", "status"], registry=registry
        )
        self._seconds = prometheus.Histogram(
            "bireme_request_seconds", "Time of requests", ["model"], buckets=SECONDS, registry=registry
        )
        self._rows = prometheus.Histogram(
            "bireme_batch_rows", "Rows of batches", ["model"], buckets=ROWS, registry=registry
        )
        self._busy = prometheus.Counter("bireme_model_seconds", "Time that models ran", ["model"], registry=registry)
        self._waiting = prometheus.Gauge("bireme_queue_length", "Requests that wait", ["model"], registry=registry)
        self._ready = prometheus.Gauge(
            "bireme_model_ready", "Whether a model is loaded", ["model", "version"], registry=registry
        )
        self._held = prometheus.Gauge(
            "bireme_request_bytes", "Bytes of requests that are being answered", registry=registry
        )
        self._found: dict[tuple[str, int], tuple[Any, Any]] = {}
        repository.on_run, repository.on_request = self._ran, self._request
        self._names = {served.name for served in repository.all()}
        if language is not None:
            self._names |= {spoken.name for spoken in language.all()}
            core = extra("prometheus_client.core", "serve", "to serve models")
            registry.register(_Engines(language, core))

    def _request(self, model: str, status: int, seconds: float) -> None:
        """Count a request; names that no model has are counted together."""
        name = model if model in self._names else ""
        counters = self._found.get((name, status))
        if counters is None:  # to find them by their labels takes longer than to count
            counters = self._requests.labels(name, str(status)), self._seconds.labels(name)
            self._found[name, status] = counters
        counters[0].inc()
        counters[1].observe(seconds)

    def _ran(self, served: Served, rows: int, seconds: float) -> None:
        self._rows.labels(served.name).observe(rows)
        self._busy.labels(served.name).inc(seconds)

    def shown(self) -> tuple[bytes, int, dict[str, Any]]:
        """Body, status and headers of an answer."""
        self._held.set(self._repository.held.bytes)
        for served in self._repository.all():
            self._ready.labels(served.name, served.version).set(served.ready)
            if served.batcher is not None:
                self._waiting.labels(served.name).set(served.batcher.waiting)
        headers = {"content-type": self._library.CONTENT_TYPE_LATEST}
        return self._library.generate_latest(self._registry), 200, headers
