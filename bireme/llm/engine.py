"""The engine: takes requests from any thread, and runs a batch of them in a thread of its own.

What a request gets depends on its own tokens, options and seed alone: every token's keys and values are made by the same
program, those of a prompt chunk by chunk, those of the text by the decode step, also when they are made again.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy as np

from bireme.core.base import device as devices
from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.llm.batch import Batch, Row
from bireme.llm.grammars import Grammar, Grammars, Matcher
from bireme.llm.model import LanguageModel
from bireme.llm.network import Network
from bireme.llm.options import SamplingOptions
from bireme.llm.pages import Pages
from bireme.llm.programs import Programs
from bireme.llm.requests import Event, Request, Result
from bireme.llm.tokenizer import Stops, Stream, Tokenizer
from bireme.ops.fused.pages import BLOCK

CHUNK_ON_CPU, CHUNK = 64, 256  # tokens of a prompt that one program takes
STEPS_ON_CPU, STEPS = 1, 8  # decode steps that one program runs, see decisions/060
MOST_ROWS, LONGEST, MOST_STEPS = 4096, 2**22, 64


class Engine:
    """Runs a language model for many requests at once.

    Requests share one decode step of ``max_batch`` rows. Keys and values are kept in pages that a request takes as its
    text grows; prompts that begin alike share pages. Where pages run out, the request that came last makes room and is
    continued later.

    Args:
        model: A ``LanguageModel``, or a network.
        tokenizer: Text to tokens and back. Default: None, that of the model; without one, prompts are tokens.
        max_batch: Rows of a step: requests that run together. Default: 16.
        max_length: Tokens of a prompt and its text together, at most. Default: 2048, or what the model knows.
        page_size: Tokens of a page, a power of two; None gives each row one page for all of its tokens, so that the
            cache is allocated for ``max_batch`` texts of ``max_length``. Default: 16.
        cache_bytes: Size of the cache. Default: None, enough for ``max_batch`` texts of ``max_length``.
        dtype: Data type of the cache. Default: None, that of the model.
        steps: Decode steps that one program runs while no request waits: tokens then come so many at a time, and the host
            has as many times longer for its work. Default: None, 1 on a CPU and 8 elsewhere.
        seed: Where seeds of requests that name none begin. Default: 0.

    Raises:
        ValueError: If a number is out of its range, or the cache is too small for one request.

    Examples:
        >>> config = bireme.llm.Configuration(architecture="llama", vocabulary=64, width=32, layers=1, heads=4, inner=48)
        >>> with bireme.llm.Engine(bireme.llm.Network(config), max_batch=2, max_length=32) as engine:
        ...     results = engine.generate([[1, 2, 3], [4, 5]], bireme.llm.SamplingOptions(max_tokens=4))
        >>> [len(result.tokens) for result in results]
        [4, 4]
    """

    def __init__(
        self,
        model: LanguageModel | Network,
        tokenizer: Tokenizer | None = None,
        *,
        max_batch: int = 16,
        max_length: int = 2048,
        page_size: int | None = 16,
        cache_bytes: int | None = None,
        dtype: Any = None,
        steps: int | None = None,
        seed: int = 0,
    ):
        network = model.network if isinstance(model, LanguageModel) else model
        if not isinstance(network, Network):
            raise errors.bad("Engine(model)", "a LanguageModel or a Network", model, kind=errors.ArgumentTypeError)
        given = model.tokenizer if tokenizer is None and isinstance(model, LanguageModel) else tokenizer
        self.config, self.tokenizer, self.max_batch = network.config, given, _integer("max_batch", max_batch, MOST_ROWS)
        self.max_length = min(_integer("max_length", max_length, LONGEST), self.config.positions)
        if self.max_length < 2:
            raise errors.bad("Engine(max_length)", "at least 2 tokens, one of a prompt and one more", max_length)
        assert network.embedding.weight is not None
        kind = network.embedding.weight.dtype if dtype is None else dtypes.of(dtype, "Engine(dtype)")
        if not kind.is_floating:
            raise errors.bad("Engine(dtype)", "a floating-point dtype", dtype)
        self.page_size = self._page(page_size)
        self._pages = Pages(self._count(cache_bytes, kind))
        self._device = devices.current()
        on_cpu = self._device.is_cpu
        many = _integer("steps", (STEPS_ON_CPU if on_cpu else STEPS) if steps is None else steps, MOST_STEPS)
        network.eval()
        self._programs = Programs(network, self.max_batch, self.max_length, self._pages.count, self.page_size, kind)
        self._seed, self._number = _integer("seed", seed, 2**63, 0), 0
        self._lock = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._batch = Batch(self._programs, self._pages, self._lock, CHUNK_ON_CPU if on_cpu else CHUNK, many)
        self._grammars: Grammars | None = None
        self._grammar_lock = threading.Lock()

    def _page(self, page_size: int | None) -> int:
        if page_size is None:
            return -(-self.max_length // BLOCK) * BLOCK
        size = _integer("page_size", page_size, 2**16)
        if size & (size - 1):
            raise errors.bad("Engine(page_size)", "a power of two, or None", page_size)
        return size

    def _count(self, cache_bytes: int | None, kind: Any) -> int:
        """Pages of the cache."""
        config = self.config
        one = 2 * config.layers * config.shared_heads * config.head_width * kind.np.itemsize * self.page_size
        text = -(-self.max_length // self.page_size)
        if cache_bytes is None:
            return text * self.max_batch
        count = _integer("cache_bytes", cache_bytes, 2**50) // one
        if count < 2 or (self.page_size >= self.max_length and count < self.max_batch):
            raise errors.bad("Engine(cache_bytes)", f"at least {2 * one}, two pages of the cache", cache_bytes)
        return min(count, text * self.max_batch)

    # ------------------------------------------------------------ requests, from any thread

    def submit(self, prompt: str | Sequence[int], options: SamplingOptions | None = None) -> Request:
        """Take on a request; it runs in the engine's thread, which is started if it is not running.

        Args:
            prompt: A text, or its tokens.
            options: How tokens are chosen and when the text ends. Default: None, ``SamplingOptions()``.

        Returns:
            The request, whose ``tokens()`` or ``result()`` wait for what comes.

        Raises:
            ValueError: If the prompt is empty, too long, or has tokens that the model does not know; or if the grammar is
                none, or too much.
            RuntimeError: If the engine is closed.
        """
        options = SamplingOptions() if options is None else options
        if not isinstance(options, SamplingOptions):
            raise errors.bad("Engine.submit(options)", "SamplingOptions", options, kind=errors.ArgumentTypeError)
        row = self._row(self._tokens(prompt, options), options)
        with self._lock:
            if self._closing:
                raise errors.failure("Engine.submit: the engine is closed", kind=RuntimeError)
            row.order = self._number
            self._number += 1
            row.seed = (self._seed + row.order) % 2**64 if options.seed is None else options.seed
            self._batch.counted["requests"] += 1
            self._batch.counted["prompt_tokens"] += row.prompt
            self._batch.waiting.append(row)
            self._start()
            self._lock.notify_all()
        return row.request

    def _tokens(self, prompt: str | Sequence[int], options: SamplingOptions) -> tuple[int, ...]:
        where = "Engine.submit(prompt)"
        if isinstance(prompt, str):
            if self.tokenizer is None:
                raise errors.bad(where, "tokens, since there is no tokenizer", prompt)
            prompt = self.tokenizer.encode(prompt)
        elif not isinstance(prompt, (list, tuple, np.ndarray)):
            raise errors.bad(where, "a str or a list of tokens", prompt, kind=errors.ArgumentTypeError)
        if options.stop and self.tokenizer is None:
            raise errors.bad("SamplingOptions(stop)", "no strings, since there is no tokenizer", options.stop)
        if options.logit_bias and (worst := max(options.biases)[0]) >= self.config.vocabulary:
            raise errors.bad("SamplingOptions(logit_bias)", f"tokens in [0, {self.config.vocabulary - 1}]", worst)
        if not 1 <= len(prompt) < self.max_length:
            raise errors.bad(where, f"1 to {self.max_length - 1} tokens", described=f"{len(prompt)} tokens")
        most = self.config.vocabulary
        for token in prompt:
            if isinstance(token, bool) or not isinstance(token, (int, np.integer)) or not 0 <= token < most:
                raise errors.bad(where, f"tokens in [0, {most - 1}]", token)
        if len(prompt) + 1 > self._pages.count * self.page_size:
            got = f"{len(prompt)} tokens"
            raise errors.bad(where, f"a prompt that the cache of {self._pages.count} pages holds", described=got)
        return tuple(int(token) for token in prompt)

    def compile_grammar(self, grammar: Grammar) -> None:
        """Compile a grammar, which is then there for requests; otherwise the first request with it waits for that.

        Args:
            grammar: The grammar.

        Raises:
            ValueError: If it is wrong, or takes too much.
            ImportError: If llguidance is not installed.
        """
        self._matcher(grammar)

    def _matcher(self, grammar: Grammar | None) -> Matcher | None:
        if grammar is None:
            return None
        if self.tokenizer is None:
            raise errors.bad("SamplingOptions(grammar)", "none, since there is no tokenizer", grammar.kind)
        with self._grammar_lock:
            if self._grammars is None:
                self._grammars = Grammars(self.tokenizer, self.config.vocabulary, self.config.end)
        return self._grammars.matcher(grammar)

    def _row(self, prompt: tuple[int, ...], options: SamplingOptions) -> Row:
        request = Request(prompt, options, self._wake)
        # the last token of a text is chosen, and never fed
        limit = min(len(prompt) + options.max_tokens, self.max_length, self._pages.count * self.page_size + 1)
        matcher = self._matcher(options.grammar)
        # the only special tokens in a text with a grammar are those that the grammar names
        stream = None if self.tokenizer is None else Stream(self.tokenizer, special=matcher is not None)
        own = frozenset() if options.ignore_eos and matcher is None else frozenset(self.config.end)
        return Row(
            request, list(prompt), limit, stream, Stops(options.stop), frozenset(options.stop_ids) | own, matcher
        )

    def _wake(self) -> None:
        with self._lock:
            self._batch.cancelling = True
            self._lock.notify_all()

    def generate(
        self, prompts: Sequence[str | Sequence[int]], options: SamplingOptions | Sequence[SamplingOptions] | None = None
    ) -> list[Result]:
        """Run some prompts to their end.

        Args:
            prompts: Texts, or lists of tokens.
            options: Options for all of them, or one for each. Default: None, ``SamplingOptions()``.

        Returns:
            One result for each prompt.

        Raises:
            ValueError: If a prompt is refused.
        """
        many: list[Any] = list(options) if isinstance(options, (list, tuple)) else [options] * len(prompts)
        if len(many) != len(prompts):
            raise errors.bad("Engine.generate(options)", f"{len(prompts)} of them, one for each prompt", len(many))
        requests: list[Request] = []
        try:
            for prompt, one in zip(prompts, many, strict=True):
                requests.append(self.submit(prompt, one))
            return [request.result() for request in requests]
        finally:
            for request in requests:
                if not request.done:
                    request.cancel()

    def statistics(self) -> dict[str, int]:
        """Return what the engine is doing and has done.

        Returns:
            Dict with ``running`` and ``waiting`` requests; ``pages_used`` and ``pages_free`` of the cache; and sums
            since it was made: ``requests``, ``finished``, ``prompt_tokens``, ``tokens`` (generated), ``steps``,
            ``prefix_hits`` (tokens of prompts that were found in the cache), ``preemptions`` and ``programs``.
        """
        with self._lock:
            return {
                "running": sum(row is not None for row in self._batch.slots),
                "waiting": len(self._batch.waiting),
                "pages_used": self._pages.count - self._pages.free,
                "pages_free": self._pages.free,
                "programs": self._programs.compiled,
                **self._batch.counted,
            }

    # ------------------------------------------------------------ the thread

    def start(self) -> Engine:
        """Start the engine's thread, if it is not running.

        Returns:
            The engine.
        """
        with self._lock:
            if self._closing:
                raise errors.failure("Engine.start: the engine is closed", kind=RuntimeError)
            self._start()
        return self

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._main, name="bireme.llm", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End the engine: requests that run are cancelled, and no more are taken."""
        with self._lock:
            self._closing = True
            self._lock.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        self._end(None)

    def __enter__(self) -> Engine:
        return self.start()

    def __exit__(self, kind: Any, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _main(self) -> None:
        devices.use(self._device)
        try:
            while True:
                with self._lock:
                    while not (self._closing or self._batch.busy):
                        self._lock.wait()
                    if self._closing:
                        return
                self._batch.turn()
        finally:
            self._end(sys.exception())

    def _end(self, error: BaseException | None) -> None:
        """Tell all that are left that there is no more."""
        with self._lock:
            self._closing = True
            rows = self._batch.empty()
        for row in rows:
            if error is None:
                row.request.tell(Event(None, finish_reason="cancelled"))
            else:
                failed = errors.failure(f"Engine: the engine failed with {error}", kind=RuntimeError)
                failed.__cause__ = error
                row.request.fail(failed)


def _integer(name: str, given: Any, most: int, least: int = 1) -> int:
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or not least <= given <= most:
        raise errors.bad(f"Engine({name})", f"an integer in [{least}, {most}]", given, kind=errors.for_integer(given))
    return int(given)
