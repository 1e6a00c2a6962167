"""Texts that follow grammars: always whole and valid, beside other texts; what is hostile is refused, and soon."""

import json
import re
import sys
import threading

import pytest

import bireme
import bireme.llm
from bireme.llm import Engine, Grammar, SamplingOptions, grammars, programs
from bireme.serve import LanguageModels
from bireme.serve.language import Spoken
from tests import language_models as models
from tests.served_language import TEMPLATE
from tests.test_serve_language import CHAT, HELLO, TEXT, ask, pieces

for package in ("llguidance", "starlette", "prometheus_client"):
    pytest.importorskip(package, reason=f"{package} is not installed")

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "kind": {"enum": ["cat", "dog", None]},
        "tags": {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3},
    },
    "required": ["name", "age", "kind", "tags"],
    "additionalProperties": False,
}
DIGITS = Grammar("regex", "[0-9]{9}")
PAGE = 2 * 4 * 8 * 4 * 16  # bytes of keys and values of 4 heads of 8 and 16 tokens


def model(end=(256,), tokenizer=True):
    bireme.seed(1)
    sizes = {"vocabulary": 257, "width": 32, "layers": 1, "heads": 4, "inner": 48, "end": end}
    network = bireme.llm.Network(bireme.llm.Configuration(architecture="llama", **sizes))
    for p in network.parameters():
        if p.ndim == 2:
            p.set_value(p.numpy() * 8)
    head = network.head.weight.numpy()
    head[:, [9, 10, 32]] = 0  # few spaces
    network.head.weight.set_value(head)
    text = bireme.llm.Tokenizer(models.byte_tokenizer()) if tokenizer else None
    return bireme.llm.LanguageModel(network.config, network, text)


@pytest.fixture(scope="module")
def engine():
    """One with so few pages that requests make room for others."""
    with Engine(model(), max_batch=4, max_length=128, cache_bytes=9 * PAGE) as made:
        yield made


def valid(text):
    found = json.loads(text)
    assert list(found) == ["name", "age", "kind", "tags"] and isinstance(found["name"], str) and len(found["name"]) <= 6
    assert type(found["age"]) is int and 0 <= found["age"] <= 150 and found["kind"] in ("cat", "dog", None)
    assert 1 <= len(found["tags"]) <= 3 and all(type(x) is bool for x in found["tags"])


def test_texts_follow_a_schema_beside_others(engine):
    """Each is valid, however its tokens are chosen, and what runs beside it has no part in it."""
    grammar = Grammar("json_schema", SCHEMA)
    given = [
        SamplingOptions(max_tokens=100, temperature=t, seed=i, repetition_penalty=p, grammar=g, logprobs=0)
        for i, (t, p, g) in enumerate(
            [(0, 1, grammar), (1.5, 1, grammar), (1, 1, None), (0.7, 1.2, grammar), (3, 1, grammar)]
        )
    ]
    before = engine.statistics()["preemptions"]
    together = engine.generate([f"p{i}" for i in range(5)], given)
    assert engine.statistics()["preemptions"] > before
    for i, (one, options) in enumerate(zip(together, given, strict=True)):
        alone = engine.generate([f"p{i}"], options)[0]
        assert alone.tokens == one.tokens and alone.logprobs == one.logprobs and all(x <= 0 for x in one.logprobs)
        if options.grammar is not None:
            assert one.finish_reason == "stop"
            valid(one.text)
        else:
            assert len(one.tokens) == 100
    assert engine.statistics()["pages_used"] == 0


@pytest.mark.parametrize(
    ("kind", "text", "pattern"),
    [
        ("regex", "(ab|cd){2}-[0-9]{3}", "(ab|cd){2}-[0-9]{3}"),
        ("lark", 'start: word ("," word)~2\nword: /[xy]{1,2}/', "[xy]{1,2}(,[xy]{1,2}){2}"),
        ("json_schema", '{"const": "ü"}', '"ü"'),
    ],
)
def test_other_grammars(kind, text, pattern, engine):
    options = SamplingOptions(max_tokens=60, temperature=1, seed=3, grammar=Grammar(kind, text), ignore_eos=True)
    found = engine.generate(["a"], options)[0]
    assert re.fullmatch(pattern, found.text) and found.finish_reason == "stop"


class Wide(programs.Programs):
    """Steps with more rows than there are slots for texts, as accelerators have them."""

    def __init__(self, network, slots, *given):
        super().__init__(network, slots + 3, *given)
        self.slots = slots


def test_masks_where_slots_are_fewer_than_rows(monkeypatch, engine):
    options = SamplingOptions(max_tokens=9, seed=4, temperature=1, grammar=DIGITS)
    (expected,) = engine.generate(["p"], options)
    monkeypatch.setattr(sys.modules[Engine.__module__], "Programs", Wide)
    with Engine(model(), max_batch=1, max_length=128) as few:
        (found,) = few.generate(["p"], options)
        assert few._programs.rows == 4
    assert found.text == expected.text and re.fullmatch("[0-9]{9}", found.text)


def test_any_object(engine):
    found = engine.generate(["a"], SamplingOptions(max_tokens=40, temperature=0.5, seed=2, grammar=Grammar("json")))[0]
    assert found.text.startswith("{") and (found.finish_reason == "length" or isinstance(json.loads(found.text), dict))


def nested(n):
    return {"type": "integer"} if not n else {"type": "array", "items": nested(n - 1)}


def doubled(n):
    parts = [{"anyOf": [{"properties": {f"{c}{i}": {"type": "string"}}} for c in "ab"]} for i in range(n)]
    return {"allOf": parts}


HOSTILE = {
    "deep": nested(70),
    "large": {"enum": list(range(5000))},
    "long": '"' + "x" * 70_000,
    "many ways": doubled(14),
    "remainders": {"allOf": [{"type": "integer", "multipleOf": n} for n in (97, 89, 83)]},
    "properties": {"properties": {f"p{i}": {} for i in range(1500)}},
    "an integer": {"type": "integer", "maximum": 10**400},
    "infinity": {"type": "number", "maximum": float("inf")},
    "states": {"allOf": [{"type": "string", "pattern": f"^(a|b)*a(a|b){{{n}}}$"} for n in range(3, 20)]},
    "itself": {"$ref": "#"},
    "elsewhere": {"$ref": "http://example.com/schema.json"},
    "nothing": {"type": "object", "properties": {"a": False}, "required": ["a"]},
    "no keyword": {"type": "array", "uniqueItems": True},
    "lenient": {"type": "array", "uniqueItems": True, "x-guidance": {"lenient": True}},
    "several": {"oneOf": [{"type": "object"}, {"type": "object", "properties": {"a": {}}}]},
    "no JSON": "{",
    "a list": [],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_schemas_are_refused(name, engine):
    with pytest.raises(ValueError, match=r"Grammar\(text\): expected "):
        engine.submit("a", SamplingOptions(grammar=Grammar("json_schema", HOSTILE[name])))


@pytest.mark.parametrize(
    ("kind", "text"), [("regex", "(a"), ("regex", "(?=a)b"), ("lark", "start: gone"), ("lark", "%")]
)
def test_wrong_grammars_are_refused(kind, text, engine):
    with pytest.raises(ValueError, match=r"Grammar\(text\): expected a grammar that can be followed, got "):
        engine.submit("a", SamplingOptions(grammar=Grammar(kind, text)))


def test_wrong_arguments_are_refused():
    for arguments, message in (
        (("xml", "x"), r"Grammar\(kind\): expected one of json, json_schema, regex, lark, got 'xml'"),
        (("regex", ""), r"Grammar\(text\): expected no text for any JSON object, and some for all else"),
        (("json", "{}"), r"Grammar\(text\): expected no text for any JSON object"),
    ):
        with pytest.raises(ValueError, match=message):
            Grammar(*arguments)
    with pytest.raises(TypeError, match=r"SamplingOptions\(grammar\): expected a Grammar"):
        SamplingOptions(grammar={"type": "object"})


def test_models_that_cannot_follow_a_grammar_say_so():
    for given, message in ((model(end=()), "tokens which end a text"), (model(tokenizer=False), "no tokenizer")):
        with Engine(given, max_batch=1, max_length=32) as made, pytest.raises(ValueError, match=message):
            made.submit([1], SamplingOptions(grammar=Grammar("json")))


def test_a_grammar_that_takes_long_is_given_up(engine, monkeypatch):
    """Its thread cannot be stopped: while two of them go on, nobody else's is compiled."""
    held = threading.Event()
    made = grammars.Grammars(engine.tokenizer, 257, (256,))
    monkeypatch.setattr(grammars, "SECONDS", 0.02)
    monkeypatch.setattr(made, "_compiled", lambda grammar: held.wait(60))
    for text in ("a", "b"):
        with pytest.raises(ValueError, match=r"one that takes more than 0\.02 s to compile"):
            made.matcher(Grammar("regex", text))
    with pytest.raises(ValueError, match="expected few grammars at once, got 2 that still compile"):
        made.matcher(Grammar("regex", "c"))
    with pytest.raises(ValueError, match="one that takes more than"):  # told again, not tried again
        made.matcher(Grammar("regex", "a"))
    held.set()


def test_few_compiled_grammars_are_kept(engine, monkeypatch):
    made, compiled = grammars.Grammars(engine.tokenizer, 257, (256,)), []
    own = made._compiled
    monkeypatch.setattr(made, "_compiled", lambda grammar: [compiled.append(grammar.text), own(grammar)][1])
    monkeypatch.setattr(grammars, "KEPT", 2)
    for text in ("a", "b", "a", "c", "a", "b"):
        assert not made.matcher(Grammar("regex", text + text)).take(ord(text))
    assert compiled == ["aa", "bb", "cc", "bb"]


def test_a_grammar_that_fails_ends_its_request_alone(engine, monkeypatch):
    def fails(self):
        raise ValueError("too much")

    monkeypatch.setattr(grammars.Matcher, "allowed", fails)
    one = engine.submit("a", SamplingOptions(max_tokens=4, grammar=Grammar("json")))
    other = engine.submit("b", SamplingOptions(max_tokens=4))
    with pytest.raises(ValueError, match="too much"):
        one.result(timeout=60)
    assert len(other.result(timeout=60).tokens) == 4 and engine.statistics()["pages_used"] == 0


# ---------------------------------------------------------------- the server


@pytest.fixture(scope="module")
def served(engine):
    found, spoken = LanguageModels({}), Spoken("json")
    given = model()
    template = bireme.llm.ChatTemplate(TEMPLATE, {})
    spoken.model = bireme.llm.LanguageModel(given.config, given.network, engine.tokenizer, template)
    spoken.engine, found._models["json"] = engine, spoken
    return found


def test_formats_of_answers(served):
    def schema(told):
        return {"type": "json_schema", "json_schema": {"name": "x", "schema": told, "strict": True}}

    given = {"model": "json", "temperature": 1, "seed": 5, "max_tokens": 100}
    requests = [
        ("POST", CHAT, {**given, "messages": HELLO, "response_format": schema(SCHEMA)}),
        ("POST", CHAT, {**given, "messages": HELLO, "response_format": schema(SCHEMA), "stream": True}),
        ("POST", TEXT, {**given, "prompt": "a", "n": 2, "response_format": {"type": "regex", "pattern": "[0-9]{4}"}}),
        ("POST", TEXT, {**given, "prompt": "a", "response_format": {"type": "grammar", "grammar": 'start: "ok"'}}),
        ("POST", CHAT, {**given, "messages": HELLO, "response_format": schema(HOSTILE["many ways"])}),
        ("POST", CHAT, {**given, "messages": HELLO, "response_format": schema(HOSTILE["deep"])}),
        ("POST", CHAT, {**given, "messages": HELLO, "response_format": {"type": "regex", "pattern": "(a"}}),
    ]
    whole, stream, numbers, ok, *wrong = ask(served, *requests)
    choice = whole[1]["choices"][0]
    assert whole[0] == 200 and choice["finish_reason"] == "stop"
    valid(choice["message"]["content"])
    told = "".join(x["choices"][0]["delta"].get("content", "") for x in pieces(stream[1]))
    assert told == choice["message"]["content"]
    assert all(re.fullmatch("[0-9]{4}", x["text"]) for x in numbers[1]["choices"]) and len(numbers[1]["choices"]) == 2
    assert ok[1]["choices"][0]["text"] == "ok"
    for status, body in wrong:
        assert status == 400 and body["error"]["param"] == "response_format"
        assert body["error"]["message"].startswith("response_format: expected a")


def test_a_grammar_that_fails_at_a_token_is_told(served, monkeypatch):
    def fails(self):
        raise ValueError("Grammar(text): too much")

    monkeypatch.setattr(grammars.Matcher, "allowed", fails)
    told = {"model": "json", "prompt": "a", "response_format": {"type": "json_object"}}
    ((status, body),) = ask(served, ("POST", TEXT, told))
    assert status == 400 and body["error"]["type"] == "invalid_request_error" and "too much" in body["error"]["message"]
