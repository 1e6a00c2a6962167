"""OpenAI's form of requests and answers: what a client may ask of a language model, checked, and what it is told.

Functions of objects of JSON alone. What is wrong with a request is a `Wrong`, which names the parameter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from bireme.llm import Event, Grammar, SamplingOptions, Tokenizer
from bireme.llm.tokenizer import bytes_of
from bireme.serve.refusals import BAD, Refused

MOST_CHOICES, MOST_PROMPTS, MOST_MESSAGES = 128, 2048, 4096
UNKNOWN = "\ufffd"
PART = "bytes:"  # before the bytes of a token that is a part of a character
SPREAD = 0x9E3779B97F4A7C15  # between the seeds of choices, odd
# parameters of both kinds that have an effect, and those that clients send and that have none here
_SAMPLING = {
    "model", "max_tokens", "temperature", "top_p", "n", "stream", "stream_options", "stop", "presence_penalty",
    "frequency_penalty", "seed", "logprobs", "top_k", "min_p", "repetition_penalty", "ignore_eos", "stop_token_ids",
    "response_format", "logit_bias",
}  # fmt: skip
_IGNORED = {"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"}
_TOOLS = {"tools", "tool_choice", "parallel_tool_calls"}
_CHAT = _SAMPLING | _TOOLS | {"messages", "max_completion_tokens", "top_logprobs"}
_TEXT = _SAMPLING | {"prompt", "echo"}
# parameters that may be there with these values, which mean nothing
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "suffix": (None, ""), "best_of": (None, 1), "modalities": (None, ["text"]),
    "functions": (None, []), "function_call": (None, "none", "auto"), "reasoning_effort": (None,), "verbosity": (None,),
}  # fmt: skip


class Wrong(Refused):
    """A request that is wrong, and which of its parameters is."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None, status: int = BAD):
        super().__init__(status, message)
        self.param, self.code = param, code


@dataclass(frozen=True)
class Asked:
    """What a client wants of a language model."""

    options: SamplingOptions
    choices: int = 1
    stream: bool = False
    usage: bool = False  # whether a stream ends with it
    echo: bool = False

    def seeds(self) -> list[SamplingOptions]:
        """Options of each choice: with a seed, each has another that follows from it."""
        given = self.options
        if given.seed is None:
            return [given] * self.choices
        fields = {name: getattr(given, name) for name in given.__dataclass_fields__}
        return [SamplingOptions(**{**fields, "seed": (given.seed + i * SPREAD) % 2**64}) for i in range(self.choices)]


def asked(told: dict[str, Any], chat: bool, room: int, calls: Grammar | None = None) -> Asked:
    """Read what is common to chats and texts; `room` is the number of tokens that may follow, `calls` what answers are
    where functions are offered.
    """
    for name, value in told.items():
        if name in _NEUTRAL:
            if value not in _NEUTRAL[name]:
                raise Wrong(f"{name} is not supported", name, "unsupported_parameter")
        elif name not in (_CHAT if chat else _TEXT) | _IGNORED:
            raise Wrong(f"Unrecognized request argument supplied: {name[:60]}", name[:60], "unknown_parameter")
    given = {k: v for k, v in told.items() if v is not None}
    named = {
        "top_p",
        "top_k",
        "min_p",
        "presence_penalty",
        "frequency_penalty",
        "repetition_penalty",
        "stop",
        "ignore_eos",
    }
    options = {name: given[name] for name in named if name in given}
    if isinstance(options.get("stop"), list) and not options["stop"]:
        del options["stop"]
    options["temperature"] = given.get("temperature", 1.0)
    options["max_tokens"] = _most(given, chat, room)
    options["stop_ids"] = given.get("stop_token_ids", [])
    options["logit_bias"] = _biases(given.get("logit_bias", {}))
    options["grammar"] = calls or response_format(given.get("response_format"))
    if "ignore_eos" in options:
        options["ignore_eos"] = _flag(given, "ignore_eos")
    if "seed" in given:
        options["seed"] = _integer(given, "seed", -(2**63), 2**64 - 1) % 2**64
    if chat:
        if _flag(given, "logprobs"):
            options["logprobs"] = _integer(given, "top_logprobs", 0, 20) if "top_logprobs" in given else 0
        elif "top_logprobs" in given:
            raise Wrong("top_logprobs is only for logprobs: true", "top_logprobs")
    elif "logprobs" in given:
        options["logprobs"] = _integer(given, "logprobs", 0, 20)
    try:
        made = SamplingOptions(**options)
    except (ValueError, TypeError) as e:
        raise wrong(e) from None
    stream, settings = _flag(given, "stream"), given.get("stream_options", {})
    if not isinstance(settings, dict) or (settings and not stream):
        raise Wrong("stream_options is an object, for streams", "stream_options")
    n = _integer(given, "n", 1, MOST_CHOICES) if "n" in given else 1
    echo = _flag(given, "echo")
    if echo and made.logprobs is not None:
        raise Wrong("echo together with logprobs is not supported", "echo", "unsupported_parameter")
    return Asked(made, n, stream, settings.get("include_usage") is True, echo)


# what each kind of response_format is as a grammar, and where it stands
_FORMATS = {"json_object": ("json", ""), "regex": ("regex", "pattern"), "grammar": ("lark", "grammar")}


def response_format(told: Any) -> Grammar | None:
    """What the text has to be: JSON, JSON of a schema, and besides OpenAI's a regular expression or a grammar."""
    name = "response_format"
    kind = told.get("type") if isinstance(told, dict) else None
    if told is None or kind == "text":
        return None
    try:
        if kind == "json_schema":
            about = told.get("json_schema")
            if not isinstance(about, dict) or not isinstance(about.get("schema"), dict):
                raise Wrong(f"{name}: expected a json_schema with a schema, an object", f"{name}.json_schema")
            return Grammar("json_schema", about["schema"])
        if not isinstance(kind, str) or kind not in _FORMATS:
            raise Wrong(f"{name}: expected a type among text, json_schema, {', '.join(_FORMATS)}", name)
        ours, place = _FORMATS[kind]
        return Grammar(ours, told.get(place) if place else "")
    except (ValueError, TypeError) as e:
        raise refused(e) from None


def refused(error: Exception, name: str = "response_format") -> Wrong:
    """What is wrong with a grammar, in the words of a client."""
    return Wrong(f"{name}: {str(error).splitlines()[0].partition(': ')[2][:300]}", name)


def _biases(told: Any) -> dict[int, Any]:
    """What is added to logits of tokens, whose numbers are strings in JSON."""
    if not isinstance(told, dict) or not all(re.fullmatch("[0-9]{1,9}", token) for token in told):
        raise Wrong("logit_bias: expected an object of tokens, as '50256', and numbers", "logit_bias")
    return {int(token): by for token, by in told.items()}


def _most(given: dict[str, Any], chat: bool, room: int) -> int:
    """How many tokens are wanted: what there is room for, unless told."""
    name = "max_completion_tokens" if "max_completion_tokens" in given else "max_tokens"
    if name not in given:
        return room if chat else min(16, room)
    return min(_integer(given, name, 1, 2**31 - 1), room)


def _integer(given: dict[str, Any], name: str, least: int, most: int) -> int:
    value = given[name]
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise Wrong(f"{name}: expected an integer in [{least}, {most}]", name)
    return value


def _flag(given: dict[str, Any], name: str) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise Wrong(f"{name}: expected a boolean", name)
    return value


def wrong(error: Exception) -> Wrong:
    """An error of the engine's, with OpenAI's name of the parameter."""
    line = str(error).splitlines()[0][:500]
    found = re.match(r"[\w.]+\((\w+)\): ", line)
    name = {"stop_ids": "stop_token_ids"}.get(found[1], found[1]) if found else None
    return Wrong(f"{name}: {line[found.end() :]}" if found else line, name)


def model_name(told: dict[str, Any]) -> str:
    """The model that is asked for."""
    name = told.get("model")
    if not isinstance(name, str):
        raise Wrong("you must provide a model parameter", "model")
    return name


def prompts(told: Any, name: str, tokenizer: Tokenizer | None) -> list[list[int]]:
    """Tokens of one or several texts, which may be given as tokens."""
    if isinstance(told, str) or (isinstance(told, list) and told and isinstance(told[0], int)):
        told = [told]
    if not isinstance(told, list) or not told or len(told) > MOST_PROMPTS:
        raise Wrong(f"{name}: expected a string, a list of tokens, or up to {MOST_PROMPTS} of them", name)
    return [_tokens(one, name, tokenizer) for one in told]


def _tokens(one: Any, name: str, tokenizer: Tokenizer | None) -> list[int]:
    if isinstance(one, str):
        return encoded(one, name, tokenizer)
    if not isinstance(one, list) or not all(isinstance(t, int) and not isinstance(t, bool) for t in one):
        raise Wrong(f"{name}: expected strings or lists of tokens", name)
    return one


def encoded(text: str, name: str, tokenizer: Tokenizer | None, special: bool = True) -> list[int]:
    """Tokens of a text."""
    if tokenizer is None:
        raise Wrong(f"{name}: the model has no tokenizer, so it takes tokens", name)
    try:
        return tokenizer.encode(text.encode("utf-8", "replace").decode(), special)
    except ValueError as e:
        raise Wrong(f"{name}: {str(e).splitlines()[0][:300]}", name) from None


def messages(told: Any) -> list[dict[str, Any]]:
    """Messages of a chat, with their contents as text."""
    if not isinstance(told, list) or not 1 <= len(told) <= MOST_MESSAGES:
        raise Wrong(f"messages: expected a list of 1 to {MOST_MESSAGES} messages", "messages")
    return [_message(one, f"messages[{i}]") for i, one in enumerate(told)]


def _message(one: Any, where: str) -> dict[str, Any]:
    if not isinstance(one, dict) or not isinstance(one.get("role"), str):
        raise Wrong(f"{where}: expected an object with a role", where)
    content = one.get("content")
    if isinstance(content, list):
        parts = [x.get("text") if isinstance(x, dict) and x.get("type") == "text" else None for x in content]
        if not all(isinstance(part, str) for part in parts):
            raise Wrong(f"{where}.content: only parts of type text are supported", where)
        content = "".join([str(part) for part in parts])
    if content is not None and not isinstance(content, str):
        raise Wrong(f"{where}.content: expected a string or a list of parts", where)
    # what clients send back of an answer has fields without a value, and templates ask whether a field is there
    told = {k: v for k, v in one.items() if v is not None} | {"content": content or ""}
    return {**told, "role": "system"} if one["role"] == "developer" else told


# ---------------------------------------------------------------- answers


def error(refusal: Refused) -> dict[str, Any]:
    """What a client is told of a request that is refused."""
    kinds = {401: "authentication_error", 404: "invalid_request_error", 429: "rate_limit_error"}
    kind = kinds.get(refusal.status, "invalid_request_error" if refusal.status < 500 else "server_error")
    codes = {401: "invalid_api_key", 404: "model_not_found"}
    code = getattr(refusal, "code", None) or codes.get(refusal.status)
    return {"error": {"message": str(refusal), "type": kind, "param": getattr(refusal, "param", None), "code": code}}


def chat_logprobs(events: list[Event], tokenizer: Tokenizer | None) -> dict[str, Any]:
    """Logarithms of probabilities, as chats have them."""
    told = [
        {**_token(e.token, e.logprob, tokenizer), "top_logprobs": [_token(*pair, tokenizer) for pair in e.alternatives]}
        for e in events
        if e.token is not None and e.logprob is not None
    ]
    return {"content": told, "refusal": None}


def _token(token: int, logprob: float, tokenizer: Tokenizer | None) -> dict[str, Any]:
    text = shown(token, tokenizer)
    raw = _raw(text, token, tokenizer)
    return {"token": text, "logprob": logprob, "bytes": None if raw is None else list(raw)}


def _raw(text: str, token: int, tokenizer: Tokenizer | None) -> bytes | None:
    """The bytes of a token, where they are known."""
    if tokenizer is None or UNKNOWN in text:
        return None
    return bytes_of(tokenizer, token) if text.startswith(PART) else text.encode()


def shown(token: int, tokenizer: Tokenizer | None) -> str:
    """A token's text; that of one which is no whole character is its bytes, so that no two are alike."""
    if tokenizer is None:
        return f"token_id:{token}"
    text = tokenizer.decode([token], special=True)
    raw = bytes_of(tokenizer, token) if UNKNOWN in text else None
    return text if raw is None else PART + "".join([f"\\x{byte:02x}" for byte in raw])


def text_logprobs(events: list[Event], tokenizer: Tokenizer | None, offset: int) -> dict[str, Any]:
    """Logarithms of probabilities, as texts have them; the first piece begins at `offset`."""
    tokens, logprobs, tops, offsets = [], [], [], []
    for e in events:
        if e.token is not None and e.logprob is not None:
            tokens.append(shown(e.token, tokenizer))
            logprobs.append(e.logprob)
            tops.append({shown(token, tokenizer): p for token, p in e.alternatives})
            offsets.append(offset)
        offset += len(e.text)
    return {"tokens": tokens, "token_logprobs": logprobs, "top_logprobs": tops, "text_offset": offsets}


def usage(prompt: int, generated: int, cached: int) -> dict[str, Any]:
    """How many tokens a request took."""
    counts = {"prompt_tokens": prompt, "completion_tokens": generated, "total_tokens": prompt + generated}
    return {**counts, "prompt_tokens_details": {"cached_tokens": cached}}
