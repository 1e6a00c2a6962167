"""OpenAI's responses: what is asked in that form as a chat, and the answer at once or as a stream of events.

A server keeps no conversations, so that what goes on from an earlier response is refused: clients send all messages.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from bireme.llm import Event, Request
from bireme.serve import openai_form as form
from bireme.serve.language import events
from bireme.serve.openai_form import Asked, Wrong
from bireme.serve.refusals import Refused

_SAME = ("model", "temperature", "top_p", "stream", "seed", "user", "metadata", "service_tier", "safety_identifier")
# parameters with the values that ask for nothing more than a text
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "previous_response_id": (None,), "conversation": (None,), "background": (None, False), "include": (None, []),
    "reasoning": (None, {}), "prompt": (None,), "tools": (None, []), "tool_choice": (None, "auto", "none"),
    "truncation": (None, "disabled"), "top_logprobs": (None, 0), "max_tool_calls": (None,), "stream_options": (None, {}),
    "context_management": (None,),
}  # fmt: skip
_STATE = ("previous_response_id", "conversation", "background")
_TAKEN = {"input", "instructions", "max_output_tokens", "text", "store", "parallel_tool_calls", "prompt_cache_key"}


def as_chat(told: dict[str, Any]) -> dict[str, Any]:
    """The same as a request for a chat."""
    for name, value in told.items():
        if name in _NEUTRAL:
            if value not in _NEUTRAL[name]:
                why = ": the server keeps no responses" if name in _STATE else ", as it is by /v1/chat/completions"
                why = why if name in (*_STATE, "tools", "tool_choice", "top_logprobs") else ""
                raise Wrong(f"{name} is not supported{why}", name, "unsupported_parameter")
        elif name not in _SAME and name not in _TAKEN:
            raise Wrong(f"Unrecognized request argument supplied: {name[:60]}", name[:60], "unknown_parameter")
    made = {name: told[name] for name in _SAME if name in told}
    if told.get("max_output_tokens") is not None:
        made["max_completion_tokens"] = told["max_output_tokens"]
    text = told.get("text") or {}
    if not isinstance(text, dict):
        raise Wrong("text: expected an object", "text")
    shape = text.get("format")
    if isinstance(shape, dict) and shape.get("type") == "json_schema":
        shape = {"type": "json_schema", "json_schema": shape}
    return {**made, "response_format": shape, "messages": _messages(told)}


def _messages(told: dict[str, Any]) -> list[Any]:
    given, before = told.get("input"), told.get("instructions")
    if before is not None and not isinstance(before, str):
        raise Wrong("instructions: expected a string", "instructions")
    if not isinstance(given, (str, list)) or not given:
        raise Wrong("input: expected a string, or a list of messages", "input")
    listed = [{"role": "user", "content": given}] if isinstance(given, str) else given
    system = [] if before is None else [{"role": "system", "content": before}]
    return system + [_message(one, f"input[{i}]") for i, one in enumerate(listed)]


def _message(one: Any, where: str) -> Any:
    if not isinstance(one, dict) or one.get("type", "message") != "message":
        raise Wrong(f"{where}: only messages are supported", where)
    content = one.get("content")
    if isinstance(content, list):
        kinds = ("input_text", "output_text", "text")
        if not all(isinstance(part, dict) and part.get("type") in kinds for part in content):
            raise Wrong(f"{where}.content: only parts of text are supported", where)
        content = [{"type": "text", "text": part.get("text")} for part in content]
    return {"role": one.get("role"), "content": content}


_WORDS = {"messages": "input", "max_completion_tokens": "max_output_tokens", "response_format": "text.format"}


def in_its_words(error: Wrong) -> Wrong:
    """What is wrong with a chat, told to who asked in the other form."""
    for name, own in _WORDS.items():
        if error.param is not None and error.param.startswith(name):
            return Wrong(str(error).replace(name, own, 1), error.param.replace(name, own, 1), error.code, error.status)
    return error


class Response:
    """What a request is answered with, as it grows."""

    def __init__(self, told: dict[str, Any], ask: Asked, request: Request):
        self.requests, self._told, self._ask = [request], told, ask
        self._id, self._item, self._created = f"resp_{uuid.uuid4().hex}", f"msg_{uuid.uuid4().hex}", int(time.time())
        self._number = 0  # of the next event

    def whole(self, came: list[list[Event]]) -> dict[str, Any]:
        """The answer, when all is there."""
        (each,) = came
        text = "".join([event.text for event in each])
        return self._about(_status(each[-1]), text, sum(event.token is not None for event in each))

    def _about(self, status: str, text: str | None = None, tokens: int = 0) -> dict[str, Any]:
        told, request, options = self._told, self.requests[0], self._ask.options
        used = {
            "input_tokens": len(request.prompt), "input_tokens_details": {"cached_tokens": request.cached},
            "output_tokens": tokens, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": len(request.prompt) + tokens,
        }  # fmt: skip
        return {
            "id": self._id, "object": "response", "created_at": self._created, "status": status, "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "instructions": told.get("instructions"), "max_output_tokens": told.get("max_output_tokens"),
            "metadata": told.get("metadata") or {}, "model": told["model"], "parallel_tool_calls": True,
            "output": [] if text is None else [self._message(status, text)], "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None}, "store": False, "temperature": options.temperature,
            "text": told.get("text") or {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [],
            "top_p": options.top_p, "truncation": "disabled", "usage": None if text is None else used,
        }  # fmt: skip

    def _message(self, status: str, text: str | None = None) -> dict[str, Any]:
        content = [] if text is None else [_part(text)]
        return {"id": self._item, "type": "message", "status": status, "role": "assistant", "content": content}

    async def stream(self) -> AsyncIterator[bytes]:
        """The answer in pieces, each an event of its own."""
        text, tokens, status, at = "", 0, "completed", {"item_id": self._item, "output_index": 0, "content_index": 0}
        try:
            yield self._event("response.created", response=self._about("in_progress"))
            yield self._event("response.in_progress", response=self._about("in_progress"))
            yield self._event("response.output_item.added", output_index=0, item=self._message("in_progress"))
            yield self._event("response.content_part.added", **at, part=_part(""))
            async with aclosing(events(self.requests)) as coming:  # type: ignore[type-var]  # a generator has aclose
                async for _, event in coming:
                    text, tokens = text + event.text, tokens + (event.token is not None)
                    if event.text:
                        yield self._event("response.output_text.delta", **at, delta=event.text, logprobs=[])
                    if event.finish_reason is not None:
                        status = _status(event)
            yield self._event("response.output_text.done", **at, text=text, logprobs=[])
            yield self._event("response.content_part.done", **at, part=_part(text))
            yield self._event("response.output_item.done", output_index=0, item=self._message(status, text))
            yield self._event(f"response.{status}", response=self._about(status, text, tokens))
        except Refused as e:
            said = form.error(e)["error"]
            yield self._event("error", code=said["code"], message=said["message"], param=said["param"])
        finally:
            if not self.requests[0].done:
                self.requests[0].cancel()

    def _event(self, kind: str, **told: Any) -> bytes:
        number, self._number = self._number, self._number + 1
        return f"event: {kind}\ndata: {json.dumps({'type': kind, 'sequence_number': number, **told})}\n\n".encode()


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _status(event: Event) -> str:
    return "incomplete" if event.finish_reason == "length" else "completed"
