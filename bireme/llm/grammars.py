"""Grammars that texts follow: JSON, JSON of a schema, regular expressions and Lark; compiled by llguidance, within limits.

A grammar is somebody else's program, so it is bounded before it is compiled (characters, depth, elements), while it is
compiled (steps, states, seconds) and at every token.
"""

from __future__ import annotations

import json
import math
import threading
from collections import OrderedDict
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.extras import extra
from bireme.llm.tokenizer import Tokenizer

KINDS = ("json", "json_schema", "regex", "lark")
LONGEST = 2**16  # characters of a grammar
DEEPEST = 64  # of lists and objects in a schema
MOST_ELEMENTS = 4096  # of a schema
MOST_PROPERTIES = 400  # of one object: each that may be left out multiplies what may follow
MOST_MULTIPLE = 10_000  # that all values of multipleOf divide: it takes a state for each remainder
SECONDS = 5.0  # to compile one
AT_ONCE = 2  # that are compiled
KEPT = 32  # compiled ones that an engine keeps
# of llguidance: some 10 ms to build, some 5 ms for a token, some 20 MB
LIMITS = {
    "initial_lexer_fuel": 500_000,
    "step_lexer_fuel": 100_000,
    "step_max_items": 50_000,
    "max_lexer_states": 10_000,
    "max_grammar_size": 50_000,
    "verbose_errors": False,
}
# a space or an indented line, so that no text is made of spaces alone; what a schema says is kept to the letter
JSON = {
    "whitespace_flexible": True,
    "whitespace_pattern": " |\\n[ \\t]{0,16}",
    "lenient": False,
    "coerce_one_of": False,
}
AT = "Grammar(text)"


@dataclass(frozen=True)
class Grammar:
    """What a text has to be, for ``SamplingOptions(grammar=...)``.

    A text that ends by itself, with the finish reason ``'stop'``, is whole; one that ends at ``max_tokens`` is a beginning.

    Args:
        kind: ``'json'``, any JSON object; ``'json_schema'``; ``'regex'``, in the syntax of Rust's regex crate; or ``'lark'``,
            in the syntax of llguidance.
        text: The schema, as JSON or what ``json.loads`` makes of it, the expression, or the grammar; of at most 64 Ki
            characters. Default: ``''``, for ``'json'``.

    Raises:
        ValueError: If it is too long, too deep or too large. What else is wrong with it is found when it is used.

    Examples:
        >>> schema = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
        >>> bireme.llm.Grammar("json_schema", schema).text
        '{"type":"object","properties":{"age":{"type":"integer"}},"required":["age"]}'
    """

    kind: str
    text: Any = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise errors.bad("Grammar(kind)", f"one of {', '.join(KINDS)}", self.kind)
        text = _schema(self.text) if self.kind == "json_schema" else self.text
        if not isinstance(text, str):
            raise errors.bad(AT, "a str", text, kind=errors.ArgumentTypeError)
        if not (self.kind == "json") == (not text):
            raise errors.bad(
                AT, "no text for any JSON object, and some for all else", described=f"{len(text)} characters"
            )
        if len(text) > LONGEST:
            raise errors.bad(AT, f"at most {LONGEST} characters", len(text))
        object.__setattr__(self, "text", text)


def _schema(given: Any) -> str:
    """A schema that is bounded, as JSON."""
    if isinstance(given, str):
        if len(given) > LONGEST:
            raise errors.bad(AT, f"at most {LONGEST} characters", len(given))
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            raise errors.bad(AT, "a schema in JSON", described="something else") from None
    if not isinstance(given, dict):
        raise errors.bad(AT, "an object as a schema", given)
    multiples: list[Fraction] = []
    left, level = [given], 0
    count = 0
    while left:
        level += 1
        if level > DEEPEST:
            raise errors.bad(AT, f"a schema of at most {DEEPEST} levels", described="more")
        below: list[Any] = []
        for one in left:
            below += _inside(one, multiples)
            count += 1
        if count + len(below) > MOST_ELEMENTS:
            raise errors.bad(AT, f"a schema of at most {MOST_ELEMENTS} elements", described="more")
        left = below
    scale = math.lcm(*(m.denominator for m in multiples))
    if multiples and (scale > 10**12 or math.lcm(*(int(m * scale) for m in multiples)) > MOST_MULTIPLE):
        raise errors.bad(AT, f"values of multipleOf that divide a number up to {MOST_MULTIPLE}", described="others")
    return json.dumps(given, separators=(",", ":"), ensure_ascii=False)


def _inside(one: Any, multiples: list[Fraction]) -> list[Any]:
    """The elements of an element of a schema."""
    if isinstance(one, dict):
        if not all(isinstance(key, str) for key in one):
            raise errors.bad(AT, "names that are strings", list(one)[:3])
        value = one.get("multipleOf")
        if isinstance(value, (int, float)) and math.isfinite(value) and 0 < value < 2**53:
            multiples.append(Fraction(str(value)))
        properties = one.get("properties")
        if isinstance(properties, dict) and len(properties) > MOST_PROPERTIES:
            raise errors.bad(AT, f"at most {MOST_PROPERTIES} properties of an object", len(properties))
        return list(one.values())
    if isinstance(one, (list, tuple)):
        return list(one)
    if isinstance(one, float) and not math.isfinite(one):
        raise errors.bad(AT, "numbers that are finite", one)
    if isinstance(one, int) and abs(one) >= 2**63:
        raise errors.bad(AT, "integers of 64 bits", described=f"one of {one.bit_length()}")
    if one is not None and not isinstance(one, (str, int, float)):
        raise errors.bad(AT, "what JSON has", one)
    return []


class Matcher:
    """Where a text is in its grammar, and what may follow."""

    def __init__(self, made: Any):
        self._made = made

    def take(self, token: int) -> bool:
        """Go on by a token; whether the text is complete, and nothing can follow."""
        self._made.consume_token(token)
        self._check()
        return self._made.is_stopped()

    def allowed(self) -> np.ndarray:
        """Which tokens may follow, a bit for each."""
        found = self._made.compute_bitmask()
        self._check()
        return np.frombuffer(found, np.int32)

    def _check(self) -> None:
        if self._made.is_error():
            raise _refused(self._made.get_error())


def _refused(said: str) -> Exception:
    line = next((line for line in said.splitlines() if line.strip()), "a limit was reached")
    return errors.bad(AT, "a grammar that can be followed", described=line.strip()[:200])


class Grammars:
    """Compiled grammars of one tokenizer: those that were used last are kept, and so is what was wrong with them."""

    def __init__(self, tokenizer: Tokenizer, vocabulary: int, end: tuple[int, ...]):
        self._package = extra("llguidance", "llm", "for grammars")
        where = "SamplingOptions(grammar)"
        if not end:
            raise errors.bad(where, "a model that has tokens which end a text", described="none")
        try:
            self._tokens = self._package.LLTokenizer(tokenizer.text, n_vocab=vocabulary, eos_token=list(end))
        except ValueError as e:
            got = str(e).splitlines()[0][:200]
            raise errors.bad(where, "a tokenizer of bytes, as most models have", described=got) from None
        self._limits = self._package.LLParserLimits(**LIMITS)
        self._kept: OrderedDict[Grammar, Any] = OrderedDict()  # a matcher at its beginning, or an error
        self._lock, self._turn = threading.Lock(), threading.Semaphore(AT_ONCE)

    def matcher(self, grammar: Grammar) -> Matcher:
        """A matcher at the beginning of a text."""
        with self._lock:
            found = self._kept.get(grammar)
            if found is not None:
                self._kept.move_to_end(grammar)
        if found is None:
            found = self._within_seconds(grammar)
            with self._lock:
                self._kept[grammar] = found
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
        if isinstance(found, str):
            raise _refused(found)
        return Matcher(found.deep_copy())

    def _within_seconds(self, grammar: Grammar) -> Any:
        """A grammar compiled, by a thread that is waited for but not for long; it cannot be stopped."""
        if not self._turn.acquire(timeout=SECONDS):
            raise errors.bad(AT, "few grammars at once", described=f"{AT_ONCE} that still compile")
        made: list[Any] = []

        def work() -> None:
            try:
                made.append(self._compiled(grammar))
            finally:
                self._turn.release()

        thread = threading.Thread(target=work, name="bireme.grammar", daemon=True)
        thread.start()
        thread.join(SECONDS)
        return made[0] if made else f"one that takes more than {SECONDS:g} s to compile"

    def _compiled(self, grammar: Grammar) -> Any:
        """A matcher at its beginning, or what is wrong."""
        library = self._package.LLMatcher
        try:
            if grammar.kind.startswith("json"):
                text = library.grammar_from_json_schema(grammar.text or '{"type":"object"}', overrides=JSON)
            else:
                text = getattr(library, f"grammar_from_{grammar.kind}")(grammar.text)
            made = library(self._tokens, text, log_level=0, limits=self._limits)
        except ValueError as e:
            return str(e)
        if not made.is_error():
            made.compute_bitmask()  # what is too much is often found at the first token
        return made.get_error() or made
