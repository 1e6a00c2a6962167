"""OpenAI's endpoints for language models: lists of models, chats, responses, texts and embeddings, at once or as a stream of events."""

from __future__ import annotations

import asyncio
import base64
import json
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, field
from typing import Any

from bireme.core.base.extras import extra
from bireme.llm import Engine, Event, Grammar, LanguageModel, Request
from bireme.serve import openai_form as form
from bireme.serve.clients import aside, while_connected
from bireme.serve.language import LanguageModels, Spoken, events
from bireme.serve.openai_form import Asked, Wrong
from bireme.serve.openai_responses import Response, as_chat, in_its_words
from bireme.serve.openai_tools import Choice, Tools, message, with_calls
from bireme.serve.protocol import parsed
from bireme.serve.refusals import BUSY, Refused

DONE = b"data: [DONE]\n\n"
MOST_TOKENS = 2**20  # of all texts of one request for embeddings


@dataclass
class _Answer:
    """What a request is answered with, as it grows."""

    kind: str  # "chat.completion" or "text_completion"
    model: str
    ask: Asked
    requests: list[Request]
    tokenizer: Any
    begun: list[str] = field(default_factory=list)  # text before each choice
    tools: Tools | None = None
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def chat(self) -> bool:
        return self.kind == "chat.completion"

    def head(self, chunk: bool = False) -> dict[str, Any]:
        """What all answers begin with."""
        name = f"{'chatcmpl' if self.chat else 'cmpl'}-{self.id}"
        kind = f"{self.kind}.chunk" if chunk and self.chat else self.kind
        return {"id": name, "object": kind, "created": self.created, "model": self.model}

    def usage(self, counts: list[int]) -> dict[str, Any]:
        """How many tokens there were; a prompt of several choices counts once."""
        firsts = self.requests[:: self.ask.choices]
        return form.usage(sum([len(r.prompt) for r in firsts]), sum(counts), sum([r.cached for r in firsts]))

    def logprobs(self, came: list[Event], offset: int = 0) -> dict[str, Any] | None:
        """Of these events, where they are wanted."""
        if self.ask.options.logprobs is None:
            return None
        if self.chat:
            return form.chat_logprobs(came, self.tokenizer)
        return form.text_logprobs(came, self.tokenizer, offset)

    def choice(self) -> Choice | None:
        """What reads calls of one choice, where there can be any."""
        return None if self.tools is None else self.tools.choice()

    def whole(self, came: list[list[Event]]) -> dict[str, Any]:
        """The answer, when all is there."""
        choices = []
        for i, each in enumerate(came):
            one: dict[str, Any] = {"index": i, "finish_reason": each[-1].finish_reason}
            if self.chat:
                reading = self.choice()
                one["message"] = message([delta for event in each for delta in _deltas(event, reading)])
                one["finish_reason"] = _reason(each[-1], reading)
            else:
                one["text"] = self.begun[i] + "".join([e.text for e in each])
            choices.append({**one, "logprobs": self.logprobs(each, 0 if self.chat else len(self.begun[i]))})
        counts = [sum(e.token is not None for e in each) for each in came]
        return {**self.head(), "choices": choices, "usage": self.usage(counts)}

    async def stream(self) -> AsyncIterator[bytes]:
        """The answer in pieces, each an event of its own."""
        counts, offsets = [0] * len(self.requests), [len(text) for text in self.begun]
        reading = [self.choice() for _ in self.requests]
        try:
            for i, text in enumerate(self.begun):
                if self.chat:
                    yield self._piece(i, {"delta": {"role": "assistant", "content": ""}})
                elif text:
                    yield self._piece(i, {"text": text})
            async with aclosing(events(self.requests)) as coming:  # type: ignore[type-var]  # a generator has aclose
                async for i, event in coming:
                    counts[i] += event.token is not None
                    logprobs = self.logprobs([event], offsets[i])
                    offsets[i] += len(event.text)
                    told: list[dict[str, Any]] = [{"text": event.text}] if event.text else []
                    if self.chat:
                        told = [{"delta": delta} for delta in _deltas(event, reading[i])]
                    if logprobs and not told:
                        told = [{"delta": {}} if self.chat else {"text": ""}]
                    for one in told:
                        yield self._piece(i, {**one, "logprobs": logprobs})
                        logprobs = None
                    if event.finish_reason is not None:
                        yield self._piece(i, {"delta": {}} if self.chat else {"text": ""}, _reason(event, reading[i]))
            if self.ask.usage:
                yield _event({**self.head(chunk=True), "choices": [], "usage": self.usage(counts)})
        except Refused as e:
            yield _event(form.error(e))
        finally:
            for request in self.requests:
                if not request.done:
                    request.cancel()
        yield DONE

    def _piece(self, i: int, told: dict[str, Any], reason: str | None = None) -> bytes:
        one = {"index": i, **told, "logprobs": told.get("logprobs"), "finish_reason": reason}
        return _event({**self.head(chunk=True), "choices": [one], **({"usage": None} if self.ask.usage else {})})


def _deltas(event: Event, reading: Choice | None) -> list[dict[str, Any]]:
    """What an event adds to a message."""
    if reading is not None:
        return reading.deltas(event)
    return [{"content": event.text}] if event.text else []


def _reason(event: Event, reading: Choice | None) -> str | None:
    return event.finish_reason if reading is None else reading.reason(event.finish_reason)


def _event(told: Any) -> bytes:
    return f"data: {json.dumps(told)}\n\n".encode()


class OpenAI:
    """The endpoints. `body` reads a request's body within the server's limits, of which `most` is that of JSON."""

    def __init__(self, models: LanguageModels, most: int, body: Callable[[Any], AbstractAsyncContextManager[bytes]]):
        self._models, self._most, self._body = models, most, body
        self._responses = extra("starlette.responses", "serve", "to serve models")

    def routes(self) -> list[tuple[str, str, Callable[[Any], Awaitable[Any]]]]:
        """Paths, methods and what answers them."""
        return [
            ("/v1/chat/completions", "POST", self.chat),
            ("/v1/completions", "POST", self.text),
            ("/v1/responses", "POST", self.respond),
            ("/v1/embeddings", "POST", self.embeddings),
            ("/v1/models", "GET", self.models),
            ("/v1/models/{name:path}", "GET", self.one),
        ]

    async def models(self, request: Any) -> Any:
        return self._json({"object": "list", "data": [_about(s) for s in self._models.all() if s.engine is not None]})

    async def one(self, request: Any) -> Any:
        return self._json(_about(self._models.get(request.path_params["name"])))

    async def chat(self, request: Any) -> Any:
        async with self._body(request) as body:
            told, model, engine = await self._asked(request, body)
            prompt, tools = await self._prompt(told, model, len(body))
            ask, submitted = await self._submitted(told, True, engine, [prompt], "messages", tools.grammar)
            answer = _Answer(
                "chat.completion", told["model"], ask, submitted, engine.tokenizer, [""] * ask.choices, tools
            )
            return await self._answered(request, answer, ask)

    async def respond(self, request: Any) -> Any:
        async with self._body(request) as body:
            told, model, engine = await self._asked(request, body)
            try:
                chat = as_chat(told)
                prompt, _ = await self._prompt(chat, model, len(body))
                ask, submitted = await self._submitted(chat, True, engine, [prompt], "messages")
            except Wrong as e:
                raise in_its_words(e) from None
            return await self._answered(request, Response(told, ask, submitted[0]), ask)

    async def _prompt(self, told: dict[str, Any], model: LanguageModel, size: int) -> tuple[list[int], Tools]:
        """Tokens of a chat, through the model's template."""
        if model.chat_template is None:
            raise Wrong("the model has no chat template: use /v1/completions", "model")
        given = [with_calls(one, f"messages[{i}]") for i, one in enumerate(form.messages(told.get("messages")))]
        tools = await aside(size, Tools, told, model.chat_template, model.tokenizer)
        try:  # in a thread however short it is: a template may take its seconds
            text = await asyncio.get_running_loop().run_in_executor(None, tools.render, given)
        except ValueError as e:
            raise Wrong(f"messages: {str(e).splitlines()[0][:300]}", "messages") from None
        return await aside(len(text), form.encoded, text, "messages", model.tokenizer, False), tools

    async def text(self, request: Any) -> Any:
        async with self._body(request) as body:
            told, _, engine = await self._asked(request, body)
            prompts = await aside(len(body), form.prompts, told.get("prompt"), "prompt", engine.tokenizer)
            ask, submitted = await self._submitted(told, False, engine, prompts, "prompt")
            begun = [_echoed(engine, p) if ask.echo else "" for p in prompts for _ in range(ask.choices)]
            answer = _Answer("text_completion", told["model"], ask, submitted, engine.tokenizer, begun)
            return await self._answered(request, answer, ask)

    async def _asked(self, request: Any, body: bytes) -> tuple[dict[str, Any], LanguageModel, Engine]:
        told = await aside(len(body), parsed, body, self._most)
        name = form.model_name(told)
        request.path_params["model"] = name  # for the log and the metrics
        return told, *self._models.get(name).loaded()

    async def _submitted(
        self,
        told: dict[str, Any],
        chat: bool,
        engine: Engine,
        prompts: list[list[int]],
        name: str,
        calls: Grammar | None = None,
    ) -> tuple[Asked, list[Request]]:
        """What is asked for, and requests of the engine for it: for each prompt its choices."""
        room = engine.max_length - max(map(len, prompts))
        if room < 1 or not all(prompts):
            got = f"{max(map(len, prompts))} tokens" if room < 1 else "an empty one"
            message = f"{name}: the model takes prompts of 1 to {engine.max_length - 1} tokens, got {got}"
            raise Wrong(message, name, "context_length_exceeded" if room < 1 else None)
        ask = form.asked(told, chat, room, calls)
        if engine.statistics()["waiting"] + len(prompts) * ask.choices > self._models.queue:
            raise Refused(BUSY, f"{engine.statistics()['waiting']} requests wait already")
        if ask.options.grammar is not None:
            await _compiled(engine, ask.options.grammar, "response_format" if calls is None else "tools")
        submitted: list[Request] = []
        try:
            for prompt in prompts:
                submitted += [engine.submit(prompt, options) for options in ask.seeds()]
        except (ValueError, TypeError) as e:
            _cancel(submitted)
            raise form.wrong(e) from None
        except RuntimeError as e:
            raise Refused(BUSY, str(e).splitlines()[0]) from None
        return ask, submitted

    async def _answered(self, request: Any, answer: _Answer | Response, ask: Asked) -> Any:
        if ask.stream:
            headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
            return self._responses.StreamingResponse(answer.stream(), media_type="text/event-stream", headers=headers)
        return self._json(answer.whole(await while_connected(request, _all(answer.requests))))

    async def embeddings(self, request: Any) -> Any:
        async with self._body(request) as body:
            told, _, engine = await self._asked(request, body)
            for key in told:
                if key not in ("model", "input", "encoding_format", "dimensions", "user"):
                    raise Wrong(f"Unrecognized request argument supplied: {key[:60]}", key[:60], "unknown_parameter")
            form_of = told.get("encoding_format") or "float"
            if form_of not in ("float", "base64"):
                raise Wrong("encoding_format: expected float or base64", "encoding_format")
            spoken = self._models.get(told["model"])
            texts = await aside(len(body), form.prompts, told.get("input"), "input", engine.tokenizer)
            width, longest = engine.config.width, min(engine.config.positions, engine.max_length)
            if sum(map(len, texts)) > MOST_TOKENS or not all(1 <= len(t) <= longest for t in texts):
                raise Wrong(f"input: expected texts of 1 to {longest} tokens, {MOST_TOKENS} in all", "input")
            if not all(0 <= t < engine.config.vocabulary for text in texts for t in text):
                raise Wrong(f"input: expected tokens in [0, {engine.config.vocabulary - 1}]", "input")
            if told.get("dimensions") not in (None, width):
                raise Wrong(f"dimensions: the model has {width}", "dimensions")
            work = asyncio.get_running_loop().run_in_executor(None, spoken.embedded, texts)
            made = await while_connected(request, _awaited(work))
            listed = [
                {"object": "embedding", "index": i, "embedding": _encoded(one, form_of)} for i, one in enumerate(made)
            ]
            n = sum(map(len, texts))
            counts = {"prompt_tokens": n, "total_tokens": n}
            return self._json({"object": "list", "model": told["model"], "data": listed, "usage": counts})

    def _json(self, told: Any) -> Any:
        return self._responses.Response(json.dumps(told), media_type="application/json")


async def _compiled(engine: Engine, grammar: Grammar, name: str) -> None:
    """A grammar compiled in a thread, so that other clients do not wait."""
    try:
        await asyncio.get_running_loop().run_in_executor(None, engine.compile_grammar, grammar)
    except ValueError as e:
        raise form.refused(e, name) from None
    except ImportError:
        raise Wrong(f"{name}: the server lacks llguidance", name, "unsupported_parameter") from None


def _echoed(engine: Engine, prompt: list[int]) -> str:
    return "" if engine.tokenizer is None else engine.tokenizer.decode(prompt)


async def _awaited(work: Awaitable[Any]) -> Any:
    return await work


def _encoded(array: Any, form_of: str) -> Any:
    if form_of == "float":
        return array.tolist()
    return base64.b64encode(array.astype("<f4").tobytes()).decode()


async def _all(requests: list[Request]) -> list[list[Event]]:
    """All events of some requests, when they have ended; cancelled with them."""
    came: list[list[Event]] = [[] for _ in requests]
    async with aclosing(events(requests)) as coming:  # type: ignore[type-var]  # a generator has aclose
        async for i, event in coming:
            came[i].append(event)
    return came


def _cancel(requests: list[Request]) -> None:
    for request in requests:
        request.cancel()


def _about(spoken: Spoken) -> dict[str, Any]:
    return {"id": spoken.name, "object": "model", "created": spoken.created, "owned_by": "bireme"}
