"""Functions that a model may call: how it is told of them, the grammar that its calls follow, and calls read as they come.

Models were taught different forms of calls, and a chat template shows which one. Where it shows none that is known here, the
model is told of functions, and of a form, by a message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bireme.core.base import errors
from bireme.llm.grammars import JSON, Grammar
from bireme.llm.template import ChatTemplate
from bireme.llm.tokenizer import Tokenizer

NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}  # arguments of a function that takes none
TOLD = (
    "You can call functions. They are described here, one in a line:\n<tools>\n{}\n</tools>\n"
    "To call one, answer with its name and its arguments in JSON:\n"
    '<tool_call>\n{{"name": NAME, "arguments": OBJECT}}\n</tool_call>'
)


@dataclass(frozen=True)
class Form:
    """How a model writes calls: `opening`, what is `before` the first one and `between` two, and what is `after` them."""

    opening: str
    key: str = "arguments"
    before: tuple[str, ...] = ()  # in a grammar's words
    between: tuple[str, ...] = ()  # none: one call at most
    after: tuple[str, ...] = ()
    prefix: str = ""  # a token that may come before it
    identity: int = 24  # letters of a call's name, which some templates check


TAGGED = Form(
    "<tool_call>",
    before=(r'"\n"',),
    between=("\n", "</tool_call>", "\n", "<tool_call>", "\n"),
    after=("\n", "</tool_call>"),
)
LISTED = Form("[TOOL_CALLS]", before=('" "? "["',), between=(", ",), after=("]",), identity=9)
BARE = Form("", "parameters", prefix="<|python_tag|>")
_HEAD = re.compile(r'"name": "([\w-]+)", "(?:arguments|parameters)": ')


def form_of(template: ChatTemplate) -> Form | None:
    """The form that a template has a model call functions in; None where it knows none, or one that is not known here."""
    text = template.for_tools
    if text is None or "<function=" in text or "[ARGS]" in text:
        return None
    if "[TOOL_CALLS]" in text:
        return LISTED
    if "<tool_call>" in text:
        return TAGGED
    return BARE if '"parameters":' in text else None


@dataclass(frozen=True)
class Function:
    """A function that may be called. `strict`: its arguments follow the schema to the letter, or the schema is refused;
    else parts of a schema that cannot be followed are left out.
    """

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool = False

    def told(self) -> dict[str, Any]:
        """What a template is told of it."""
        about = {"name": self.name, "description": self.description, "parameters": self.parameters or NOTHING}
        return {"type": "function", "function": {k: v for k, v in about.items() if v is not None}}

    def schema(self) -> str:
        """The schema of its arguments, an object, with how it is to be followed."""
        given = NOTHING if self.parameters is None else self.parameters
        if given.get("type", "object") != "object":
            raise errors.bad("Function(parameters)", "a schema of type object", given["type"])
        Grammar("json_schema", given)  # bounded before anybody goes through it
        bounded = json.loads(Grammar("json_schema", {**_essence(given), "type": "object"}).text)
        how = JSON if self.strict else {**JSON, "lenient": True, "coerce_one_of": True}
        return json.dumps({**bounded, "x-guidance": how})


_SAID = ("description", "title", "examples", "default", "$comment")  # for readers, and often most of a schema
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")  # schemas by names
_VALUES = ("enum", "const")


def _essence(schema: Any) -> Any:
    """A schema without what is said in it."""
    if isinstance(schema, list):
        return [_essence(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _NAMED and isinstance(value, dict):
            made[key] = {name: _essence(one) for name, one in value.items()}
        elif key not in _SAID:
            made[key] = value if key in _VALUES else _essence(value)
    return made


class Calls:
    """What one request may call.

    Args:
        template: The model's chat template.
        tokenizer: Its tokenizer.
        functions: The functions.
        needed: Whether it has to call one, without any text.
        several: Whether it may call more than one.
        answer: What a text has to be, where no function is called: JSON, or JSON of a schema. Default: None, any text.
    """

    def __init__(
        self,
        template: ChatTemplate,
        tokenizer: Tokenizer,
        functions: Sequence[Function],
        needed: bool = False,
        several: bool = True,
        answer: Grammar | None = None,
    ):
        known = form_of(template)
        self.form, self._in_template = known or TAGGED, known is not None
        self._functions, self._tokenizer = tuple(functions), tokenizer
        self._needed, self._free = needed, not needed and answer is None
        if answer is not None and not needed and (self.form is BARE or answer.kind not in ("json", "json_schema")):
            raise errors.bad("Calls(answer)", "text of any form beside functions", answer.kind)
        self.grammar = Grammar("lark", self._grammar(several and bool(self.form.between), answer))

    def render(self, template: ChatTemplate, messages: list[dict[str, Any]]) -> str:
        """The text of a chat, with what may be called."""
        told = [one.told() for one in self._functions]
        if self._in_template:
            return template.render(messages, tools=told)
        lines = "\n".join([json.dumps(one, ensure_ascii=False) for one in told])
        return template.render(as_text(messages, TOLD.format(lines)))

    def reader(self) -> Reader:
        """What reads one text."""
        return Reader(self.form, self._needed, self._free)

    # ------------------------------------------------------------ the grammar

    def _word(self, text: str) -> str:
        """A part of a call in a grammar: by its token, where there is one, since models were taught that one."""
        token = self._tokenizer.id(text) if len(text) > 2 else None
        return json.dumps(text) if token is None else f"<[{token}]>"

    def _grammar(self, several: bool, answer: Grammar | None) -> str:
        form = self.form
        rules: list[str] = []
        opening = self._word(form.opening) if form.opening else ""
        calls = [*form.before, "call", f"({' '.join([*map(self._word, form.between), 'call'])})*" if several else ""]
        rest = " ".join([*calls, *map(self._word, form.after)])
        start = f"{opening} {rest}"
        if form.prefix and self._tokenizer.id(form.prefix) is not None:
            start = f"{self._word(form.prefix)}? {start}"
        if self._free:
            tag = re.escape(form.opening)
            if not tag:
                rules.append(r"TEXT: /([^{](.|\n)*)?/")
            else:
                rules.append(rf"TEXT: /(.|\n)*/ & ~/(.|\n)*{tag}(.|\n)*/")
                rules.append(rf"opened[lazy]: /(.|\n)*{tag}/")
                # a token ends a text; letters are looked for
                start = f"{f'TEXT {opening}' if opening.startswith('<[') else 'opened'} {rest}"
            start = f"TEXT | {start}"
        elif answer is not None and not self._needed:
            schema = {**json.loads(answer.text or '{"type":"object"}'), "x-guidance": JSON}
            rules.append(f"answer: %json {json.dumps(schema)}")
            start = f"answer | {start}"
        rules.append("call: " + " | ".join([f"f{i}" for i in range(len(self._functions))]))
        for i, one in enumerate(self._functions):
            head = f'{{"name": "{one.name}", "{form.key}": '
            rules += [f'f{i}: {json.dumps(head)} a{i} "}}"', f"a{i}: %json {one.schema()}"]
        return "\n".join([f"start: {start}", *rules, ""])


def as_text(messages: list[dict[str, Any]], told: str | None = None) -> list[dict[str, Any]]:
    """Messages with calls and their results as text, for templates that know none; `told` is put into the first one, which
    is the system's.
    """
    made: list[dict[str, Any]] = []
    for one in messages:
        if one.get("tool_calls"):
            called = [{k: call["function"].get(k) for k in ("name", "arguments")} for call in one["tool_calls"]]
            lines = [f"<tool_call>\n{json.dumps(call, ensure_ascii=False)}\n</tool_call>" for call in called]
            text = "\n".join([one["content"], *lines] if one["content"] else lines)
            one = {**{k: v for k, v in one.items() if k != "tool_calls"}, "content": text}
        elif one["role"] == "tool":
            text = f"<tool_response>\n{one['content']}\n</tool_response>"
            if made and made[-1].get("results"):  # of several calls: roles take turns
                made[-1]["content"] += "\n" + text
                continue
            one = {"role": "user", "content": text, "results": True}
        made.append(one)
    if told is not None:
        first = made[0] if made and made[0]["role"] == "system" else None
        text = f"{first['content']}\n\n{told}" if first else told
        made = [{"role": "system", "content": text}, *made[first is not None :]]
    return [{k: v for k, v in one.items() if k != "results"} for one in made]


@dataclass(frozen=True)
class Piece:
    """A piece of an answer: of its text, or of a call, which begins with its name."""

    text: str
    call: int | None = None  # which one
    name: str | None = None


class Reader:
    """Texts and calls of an answer as it comes. What may be a beginning of a call is held back."""

    def __init__(self, form: Form, needed: bool, free: bool):
        self.calls = 0
        self._form, self._free = form, free
        self._held = ""
        self._take: Callable[[list[Piece]], bool] = self._head if needed else self._text
        self._depth, self._quoted, self._escaped = 0, False, False

    def push(self, text: str) -> list[Piece]:
        """What is certain with one more piece of text."""
        made: list[Piece] = []
        self._held += text
        while self._take(made):
            pass
        return made

    def end(self) -> list[Piece]:
        """What is left of a text."""
        left = self._held if self._take == self._text else ""
        self._held = ""
        return [Piece(left)] if left else []

    def _text(self, made: list[Piece]) -> bool:
        """A text, up to what opens a call; whether there is more to be read. Only a free text can be before a call."""
        held, opening = self._held, self._form.opening or "{"
        if self._form.prefix and held:
            if self._form.prefix.startswith(held):
                return False
            held = held.removeprefix(self._form.prefix)
        at = held.find(opening) if self._free and self._form.opening else 0 if held.startswith(opening) else -1
        if at >= 0:
            if held[:at].rstrip():
                made.append(Piece(held[:at].rstrip()))
            self._held, self._take = held[at:], self._head
            return True
        if self._free and self._form.opening:
            keep = max((n for n in range(1, len(opening)) if held.endswith(opening[:n])), default=0)
            sure = held[: len(held) - keep].rstrip()
        elif opening.startswith(held):
            return False
        else:
            sure, self._take = held, self._plain
        if sure:
            made.append(Piece(sure))
        self._held = held[len(sure) :]
        return False

    def _plain(self, made: list[Piece]) -> bool:
        if self._held:
            made.append(Piece(self._held))
        self._held = ""
        return False

    def _head(self, made: list[Piece]) -> bool:
        """Up to the arguments of the next call."""
        found = _HEAD.search(self._held)
        if found is None:
            return False
        made.append(Piece("", self.calls, found[1]))
        self.calls += 1
        self._held, self._take = self._held[found.end() :], self._arguments
        return True

    def _arguments(self, made: list[Piece]) -> bool:
        """An object, up to the brace that ends it."""
        for i, letter in enumerate(self._held):
            if self._quoted:
                self._quoted = self._escaped or letter != '"'
                self._escaped = letter == "\\" and not self._escaped
            elif letter == '"':
                self._quoted = True
            elif letter in "{[":
                self._depth += 1
            elif letter in "}]":
                self._depth -= 1
                if self._depth == 0:
                    made.append(Piece(self._held[: i + 1], self.calls - 1))
                    self._held, self._take = self._held[i + 1 :], self._head
                    return True
        if self._held:
            made.append(Piece(self._held, self.calls - 1))
        self._held = ""
        return False
