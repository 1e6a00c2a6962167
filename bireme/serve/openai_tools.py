"""Tools in OpenAI's form: which functions a request offers, what it is to do with them, and calls as clients read them."""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

from bireme.llm import ChatTemplate, Event, Grammar, Tokenizer
from bireme.llm.tools import Calls, Function, as_text, form_of
from bireme.serve.openai_form import Wrong, refused, response_format

MOST_FUNCTIONS = 128
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CHOICES = "none, auto, required, or an object that names functions"


class Tools:
    """What a request may call, or nothing."""

    def __init__(self, told: dict[str, Any], template: ChatTemplate, tokenizer: Tokenizer | None):
        functions = _functions(told.get("tools"))
        choice = told.get("tool_choice")
        if choice is not None and choice != "none" and not functions:
            raise Wrong("tool_choice is only for requests with tools", "tool_choice")
        offered, needed, self.named = _chosen("auto" if choice is None else choice, functions)
        several = told.get("parallel_tool_calls")
        if several is not None and not isinstance(several, bool):
            raise Wrong("parallel_tool_calls: expected a boolean", "parallel_tool_calls")
        self._template = template
        self._calls: Calls | None = None
        if offered:
            if tokenizer is None:
                raise Wrong("tools: the model has no tokenizer", "tools")
            answer = None if needed else response_format(told.get("response_format"))
            try:
                alone = several is not False and not self.named
                self._calls = Calls(template, tokenizer, offered, needed, alone, answer)
            except ValueError as e:
                raise refused(e, "tools") from None

    @property
    def grammar(self) -> Grammar | None:
        """What an answer has to be, where functions are offered."""
        return None if self._calls is None else self._calls.grammar

    def render(self, messages: list[dict[str, Any]]) -> str:
        """The text of a chat."""
        if self._calls is not None:
            return self._calls.render(self._template, messages)
        return self._template.render(messages if form_of(self._template) else as_text(messages))

    def choice(self) -> Choice | None:
        """What reads one choice of an answer."""
        return None if self._calls is None else Choice(self._calls, self.named)


def _functions(told: Any) -> list[Function]:
    if told is None:
        return []
    if not isinstance(told, list) or len(told) > MOST_FUNCTIONS:
        raise Wrong(f"tools: expected a list of at most {MOST_FUNCTIONS} tools", "tools")
    found = [_function(one, f"tools[{i}]") for i, one in enumerate(told)]
    if len({one.name for one in found}) < len(found):
        raise Wrong("tools: two have the same name", "tools")
    return found


def _function(told: Any, where: str) -> Function:
    if not isinstance(told, dict) or told.get("type") != "function" or not isinstance(told.get("function"), dict):
        raise Wrong(f"{where}: expected a tool of type function, with a function", where)
    about = told["function"]
    for key in about:
        if key not in ("name", "description", "parameters", "strict"):
            raise Wrong(f"{where}.function: unknown parameter {key[:60]!r}", f"{where}.function", "unknown_parameter")
    name, description, parameters = (about.get(key) for key in ("name", "description", "parameters"))
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Wrong(f"{where}.function.name: expected 1 to 64 letters, digits, _ and -", f"{where}.function.name")
    if description is not None and not isinstance(description, str):
        raise Wrong(f"{where}.function.description: expected a string", f"{where}.function.description")
    if parameters is not None and not isinstance(parameters, dict):
        raise Wrong(f"{where}.function.parameters: expected a schema, an object", f"{where}.function.parameters")
    if about.get("strict") not in (None, True, False):
        raise Wrong(f"{where}.function.strict: expected a boolean", f"{where}.function.strict")
    made = Function(name, description, parameters, about.get("strict") is True)
    try:
        made.schema()
    except (ValueError, TypeError) as e:
        raise refused(e, f"{where}.function.parameters") from None
    return made


def _chosen(told: Any, functions: list[Function]) -> tuple[list[Function], bool, bool]:
    """The functions that may be called, whether one has to be, and whether the client named it."""
    if told in ("none", "auto", "required"):
        return ([] if told == "none" else functions), told == "required", False
    kind = told.get("type") if isinstance(told, dict) else None
    if kind == "function":
        return _among([told], functions), True, True
    allowed = told.get("allowed_tools") if kind == "allowed_tools" else None
    if not isinstance(allowed, dict) or allowed.get("mode") not in ("auto", "required"):
        raise Wrong(f"tool_choice: expected {_CHOICES}", "tool_choice")
    if not isinstance(allowed.get("tools"), list) or not allowed["tools"]:
        raise Wrong("tool_choice.allowed_tools: expected a list of tools", "tool_choice")
    return _among(allowed["tools"], functions), allowed["mode"] == "required", False


def _among(told: list[Any], functions: list[Function]) -> list[Function]:
    known = {one.name: one for one in functions}
    found: dict[str, Function] = {}
    for one in told:
        about = one.get("function") if isinstance(one, dict) else None
        name = about.get("name") if isinstance(about, dict) else None
        if not isinstance(name, str) or name not in known:
            raise Wrong(f"tool_choice: expected the name of a tool, got {str(name)[:64]!r}", "tool_choice")
        found[name] = known[name]
    return list(found.values())


class Choice:
    """One choice of an answer, as it comes: its text, and calls with names of their own."""

    def __init__(self, calls: Calls, named: bool):
        self._reader, self._named, self._letters = calls.reader(), named, calls.form.identity

    def deltas(self, event: Event) -> list[dict[str, Any]]:
        """What an event adds, as a stream tells it."""
        pieces = self._reader.push(event.text)
        if event.finish_reason is not None:
            pieces += self._reader.end()
        return [self._delta(piece.text, piece.call, piece.name) for piece in pieces]

    def _delta(self, text: str, call: int | None, name: str | None) -> dict[str, Any]:
        if call is None:
            return {"content": text}
        told: dict[str, Any] = {"index": call, "function": {"arguments": text}}
        if name is not None:
            identity = uuid.uuid4().hex[: self._letters]  # nine letters and digits for templates that count them
            told |= {"id": identity if self._letters < 24 else f"call_{identity}", "type": "function"}
            told["function"] = {"name": name, "arguments": ""}
        return {"tool_calls": [told]}

    def reason(self, reason: str | None) -> str | None:
        """Why it ended: OpenAI tells of calls where the model chose to make them."""
        return "tool_calls" if reason == "stop" and self._reader.calls and not self._named else reason


def message(deltas: list[dict[str, Any]]) -> dict[str, Any]:
    """A message of all its pieces."""
    text = ""
    calls: list[dict[str, Any]] = []
    for delta in deltas:
        text += delta.get("content", "")
        for piece in delta.get("tool_calls", ()):
            if "id" in piece:
                calls.append({"id": piece["id"], "type": "function", "function": dict(piece["function"])})
            else:
                calls[-1]["function"]["arguments"] += piece["function"]["arguments"]
    made: dict[str, Any] = {"role": "assistant", "content": text if text or not calls else None, "refusal": None}
    return {**made, "tool_calls": calls} if calls else made


def with_calls(message: dict[str, Any], where: str) -> dict[str, Any]:
    """A message whose calls have their arguments as objects, as templates want them."""
    calls = message.get("tool_calls")
    if calls is None:
        return message
    if not isinstance(calls, list):
        raise Wrong(f"{where}.tool_calls: expected a list", where)
    made = []
    for i, call in enumerate(calls):
        about = call.get("function") if isinstance(call, dict) else None
        if not isinstance(about, dict) or not isinstance(about.get("name"), str):
            raise Wrong(f"{where}.tool_calls[{i}]: expected a function with a name", where)
        given = about.get("arguments", "{}")
        try:
            given = json.loads(given or "{}") if isinstance(given, str) else given
        except (ValueError, RecursionError):
            given = None
        if not isinstance(given, dict):
            raise Wrong(f"{where}.tool_calls[{i}].function.arguments: expected an object in JSON", where)
        made.append({**call, "function": {**about, "arguments": given}})
    return {**message, "tool_calls": made}
