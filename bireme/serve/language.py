"""Language models of a server: engines by name, loaded from folders; one that fails leaves the others up."""

from __future__ import annotations

import asyncio
import math
import os
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.grad_mode import no_grad
from bireme.llm import Engine, Event, LanguageModel, Request, SamplingOptions, load
from bireme.ops import to_tensor
from bireme.serve.refusals import BAD, BROKEN, BUSY, UNKNOWN, Refused, sentence

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:-]{0,127}")
WARM = ((0.0, None), (1.0, None), (0.0, 1), (1.0, 1))
LEAST = 16  # tokens that texts are padded to where their states are wanted


class Spoken:
    """One language model: its engine, once it is there, and why it is not."""

    def __init__(self, name: str):
        self.name, self.created = name, int(time.time())
        self.reason = "it is not loaded"
        self.model: LanguageModel | None = None
        self.engine: Engine | None = None

    def loaded(self) -> tuple[LanguageModel, Engine]:
        """The model and what runs it; refused while there is nothing."""
        if self.model is None or self.engine is None:
            raise Refused(BUSY, f"model {self.name}: {self.reason}")
        return self.model, self.engine

    def embedded(self, prompts: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """For each text the mean of its last hidden states, of length 1. Texts are padded to a few sizes, one at a time."""
        model, _ = self.loaded()
        found = []
        for tokens in prompts:
            size = max(LEAST, 2 ** math.ceil(math.log2(len(tokens))))
            if model.config.rope is None:  # positions that were not learned cannot be padded to
                size = max(len(tokens), min(size, model.config.positions))
            given = np.zeros((1, size), np.int64)
            given[0, : len(tokens)] = tokens
            with no_grad():  # what follows a token does not change its state
                states = model.network.states(to_tensor(given)).numpy()[0, : len(tokens)].astype(np.float32)
            mean = states.mean(0)
            found.append(mean / max(float(np.linalg.norm(mean)), 1e-12))
        return found


class LanguageModels:
    """The language models that a server offers, in OpenAI's form.

    Args:
        models: For each name a folder that ``bireme.llm.load`` reads, or a ``LanguageModel``.
        max_batch: Requests of a model that run together. Default: 16.
        max_length: Tokens of a prompt and its text together, at most. Default: 2048.
        cache_bytes: Size of each model's cache of keys and values. Default: None, enough for all of them.
        quantize: ``'int8'`` or ``'int4'`` keeps matrices of models that are loaded as integers. Default: None.
        queue: Requests of a model that wait, at most. Default: 1,024.
        warm: Whether a model runs a few short texts when it is loaded, so that clients do not wait for programs to be
            compiled. Default: False.

    Raises:
        ValueError: If a name has other characters than letters, digits, ``_``, ``.``, ``/``, ``:`` and ``-``.

    Examples:
        >>> config = bireme.llm.Configuration(architecture="llama", vocabulary=64, width=32, layers=1, heads=4, inner=48)
        >>> model = bireme.llm.LanguageModel(config, bireme.llm.Network(config))
        >>> models = bireme.serve.LanguageModels({"tiny": model}, max_batch=2, max_length=32)
        >>> [model["state"] for model in models.index()]
        ['READY']
        >>> models.close()
    """

    def __init__(
        self,
        models: Mapping[str, str | os.PathLike | LanguageModel],
        *,
        max_batch: int = 16,
        max_length: int = 2048,
        cache_bytes: int | None = None,
        quantize: str | None = None,
        queue: int = 1024,
        warm: bool = False,
    ):
        self.queue = queue
        self._models = {name: Spoken(name) for name in models}
        for name, given in models.items():
            if not _NAME.fullmatch(name):
                hint = "NAME=MODEL names one"
                raise errors.bad(
                    "LanguageModels(models)", "names of letters, digits, _, ., /, : and -", name, hint=hint
                )

            def make(given: Any = given) -> tuple[LanguageModel, Engine]:
                model = given if isinstance(given, LanguageModel) else load(given, quantize=quantize)
                engine = Engine(model, max_batch=max_batch, max_length=max_length, cache_bytes=cache_bytes)
                for temperature, logprobs in WARM if warm else ():  # each kind has programs of its own
                    engine.generate([[0]], SamplingOptions(max_tokens=2, temperature=temperature, logprobs=logprobs))
                return model, engine

            with ThreadPoolExecutor(1) as worker:
                work = worker.submit(make)
                error = work.exception()  # whatever it is, the other models are served
            spoken = self._models[name]
            if error is None:
                (spoken.model, spoken.engine), spoken.reason = work.result(), ""
            else:
                spoken.reason = f"it could not be loaded: {sentence(error)}"

    def get(self, name: str) -> Spoken:
        """Return a model.

        Args:
            name: Its name.

        Returns:
            What is known of it.
        """
        if name not in self._models:
            raise Refused(UNKNOWN, f"The model {name[:128]!r} does not exist")
        return self._models[name]

    def all(self) -> list[Spoken]:
        """Every model."""
        return list(self._models.values())

    @property
    def ready(self) -> bool:
        """Whether every model is."""
        return all(spoken.engine is not None for spoken in self._models.values())

    def index(self) -> list[dict[str, str]]:
        """Every model, and its state."""
        return [
            {"name": s.name, "state": "READY" if s.engine is not None else "UNAVAILABLE", "reason": s.reason}
            for s in self._models.values()
        ]

    def close(self) -> None:
        """End all engines: requests that run are cancelled."""
        for spoken in self._models.values():
            engine, spoken.engine, spoken.reason = spoken.engine, None, "the server ends"
            if engine is not None:
                engine.close()


async def events(requests: Sequence[Request]) -> AsyncIterator[tuple[int, Event]]:
    """Events of some requests as they come, each with the index of its request; those that nobody waits for any more are
    cancelled.
    """
    loop, more = asyncio.get_running_loop(), asyncio.Event()

    def tell() -> None:
        try:
            loop.call_soon_threadsafe(more.set)
        except RuntimeError:  # the loop is closed, and nobody listens
            pass

    left = dict(enumerate(requests))
    try:
        for request in requests:
            request.on_event(tell)
        while left:
            more.clear()
            for i, request in list(left.items()):
                try:
                    came = request.ready()
                except ValueError as e:  # a grammar that took too much
                    raise Refused(BAD, str(e).splitlines()[0]) from None
                except RuntimeError as e:
                    raise Refused(BROKEN, (str(e).splitlines() or ["the engine failed"])[0]) from None
                for event in came:
                    if event.finish_reason == "cancelled":
                        raise Refused(BUSY, "the engine ended the request")
                    if event.finish_reason is not None:
                        del left[i]
                    yield i, event
            if left:
                await more.wait()
    finally:
        for request in left.values():
            request.cancel()
