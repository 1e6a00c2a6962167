"""Functions that language models call: templates that know them or not, arguments that follow schemas, streamed and not."""

import json
import random
import re

import numpy as np
import pytest

import bireme
import bireme.llm
from bireme.llm import ChatTemplate, SamplingOptions, Tokenizer
from bireme.llm.tools import BARE, LISTED, TAGGED, Calls, Function, Reader, as_text, form_of
from bireme.serve import LanguageModels
from bireme.serve.openai_tools import Tools
from tests import language_models as models
from tests.test_serve_language import CHAT, HELLO, TEXT, ask, pieces

for package in ("llguidance", "starlette", "prometheus_client", "tokenizers", "jinja2"):
    pytest.importorskip(package, reason=f"{package} is not installed")

TEMPLATES = {
    "tagged": "{% if tools %}{% for t in tools %}{{ t | tojson }}{% endfor %}{% endif %}{% for m in messages %}<{{ m.role }}>"
    "{% if m.tool_calls %}{% for c in m.tool_calls %}<tool_call>\n{{ c.function.arguments | tojson }}</tool_call>{% endfor %}"
    "{% else %}{{ m.content }}{% endif %}{% endfor %}<assistant>",
    "listed": "{% if tools is not none %}[AVAILABLE_TOOLS] {{ tools | tojson }}{% endif %}{% for m in messages %}{% if m.tool_calls is"
    " defined %}{% for c in m.tool_calls %}{% if c.id|length != 9 %}{{ raise_exception('ids of 9') }}{% endif %}{% endfor %}"
    "[TOOL_CALLS] {{ m.tool_calls | tojson }}{% else %}{{ m.content }}{% endif %}{% endfor %}",
    "bare": "{% if not tools is defined %}{% set tools = none %}{% endif %}{% if tools is not none %}"
    'Answer {"name": name, "parameters": values}. {{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}',
    "none": "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>",
}
WEATHER = {
    "type": "object",
    "properties": {"city": {"enum": ["Oslo", "Bern"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
TOOLS = [
    {"type": "function", "function": {"name": "weather", "description": "How it will be.", "parameters": WEATHER}},
    {"type": "function", "function": {"name": "stop_now"}},
]
TOKENS = {"<tool_call>": 257, "</tool_call>": 258, "[TOOL_CALLS]": 259}


def model(template, likely=(), tokens=("[TOOL_CALLS]",)):
    """One that draws its tokens always alike, likely ones first."""
    text = json.loads(models.byte_tokenizer())
    for name in tokens:
        text["added_tokens"].append({**text["added_tokens"][0], "id": TOKENS[name], "content": name})
        text["model"]["vocab"][name] = TOKENS[name]
    sizes = {
        "vocabulary": 260,
        "width": 8,
        "layers": 1,
        "heads": 2,
        "inner": 8,
        "end": (256,),
        "positions": 1024,
        "tied": True,
    }
    network = bireme.llm.Network(bireme.llm.Configuration(architecture="gpt2", **sizes))
    logits = np.zeros((260, 8), np.float32)
    logits[[*b" \n\t"], 0] = -9
    logits[[*b'}]"'], 0] = 4
    logits[[256], 0] = 6
    logits[[*likely], 0] = 7
    network.embedding.weight.set_value(logits)
    network.norm.weight.set_value(np.zeros(8, np.float32))
    network.norm.bias.set_value(np.eye(8, dtype=np.float32)[0])
    tokenizer = Tokenizer(json.dumps(text))
    return bireme.llm.LanguageModel(network.config, network, tokenizer, ChatTemplate(TEMPLATES[template]))


@pytest.fixture(scope="module")
def served():
    made = LanguageModels(
        {
            "tagged": model("tagged", [257], ["<tool_call>", "</tool_call>"]),
            "listed": model("listed", [259]),
            "bare": model("bare", b"{"),
            "none": model("none", b"<{"),
        },
        max_batch=4,
        max_length=1024,
    )
    yield made
    made.close()


def chat(served, name, **told):
    given = {"model": name, "messages": HELLO, "tools": TOOLS, "temperature": 1, "seed": 3, "max_tokens": 150, **told}
    ((status, body),) = ask(served, ("POST", CHAT, given))
    assert status == 200, body
    return body if told.get("stream") else body["choices"]


def right(call, letters=None):
    """Whether a call is whole: its name is known, and its arguments are what the schema says."""
    assert call["type"] == "function" and re.fullmatch(letters or "call_[0-9a-f]{24}", call["id"])
    given = json.loads(call["function"]["arguments"])
    if call["function"]["name"] == "stop_now":
        return given == {}
    return call["function"]["name"] == "weather" and given["city"] in ("Oslo", "Bern") and 1 <= given["days"] <= 9


@pytest.mark.parametrize("name", ["tagged", "listed", "bare", "none"])
def test_calls_that_have_to_be_made(served, name):
    for choice in chat(served, name, tool_choice="required", n=3):
        calls = choice["message"]["tool_calls"]
        assert all(right(call, "[0-9a-f]{9}" if name == "listed" else None) for call in calls)
        assert choice["message"]["content"] is None and choice["finish_reason"] == "tool_calls"
    named = {"type": "function", "function": {"name": "weather"}}
    (choice,) = chat(served, name, tool_choice=named)
    (call,) = choice["message"]["tool_calls"]
    assert call["function"]["name"] == "weather" and right(call, "[0-9a-f]{9}" if name == "listed" else None)
    assert choice["finish_reason"] == "stop"  # as OpenAI has it, where the client chose


@pytest.mark.parametrize("name", ["tagged", "listed", "bare"])
def test_a_stream_tells_the_same_calls(served, name):
    given = {"seed": 6, "n": 4, "logprobs": True}
    whole = chat(served, name, **given)
    assert any("tool_calls" in choice["message"] for choice in whole)
    made = [{"text": "", "calls": []} for _ in whole]
    told = [x["choices"][0] for x in pieces(chat(served, name, stream=True, **given))]
    for choice in told:
        delta, one = choice["delta"], made[choice["index"]]
        one["text"] += delta.get("content") or ""
        for call in delta.get("tool_calls", ()):
            if "id" in call:
                assert call["index"] == len(one["calls"]) and call["type"] == "function"
                one["calls"].append([call["function"]["name"], ""])
            one["calls"][call["index"]][1] += call["function"]["arguments"]
    ends = {x["index"]: x["finish_reason"] for x in told if x["finish_reason"]}
    for i, choice in enumerate(whole):
        message = choice["message"]
        calls = [[c["function"]["name"], c["function"]["arguments"]] for c in message.get("tool_calls", ())]
        assert made[i] == {"text": message["content"] or "", "calls": calls} and ends[i] == choice["finish_reason"]
        pairs = [one for x in told if x["index"] == i and x["logprobs"] for one in x["logprobs"]["content"]]
        assert pairs == choice["logprobs"]["content"]


def test_a_model_may_answer_or_call(served):
    found = chat(served, "tagged", n=8)
    assert 0 < sum("tool_calls" in c["message"] for c in found) < len(found)
    assert all((c["finish_reason"] == "tool_calls") == ("tool_calls" in c["message"]) for c in found)
    assert all("<tool_call>" not in (c["message"]["content"] or "") for c in found)
    one = chat(served, "tagged", tool_choice="required", parallel_tool_calls=False, n=4)
    assert all(len(c["message"]["tool_calls"]) == 1 for c in one)
    none = Tools({"tools": TOOLS, "tool_choice": "none"}, ChatTemplate(TEMPLATES["tagged"]), None)
    assert none.grammar is None and none.choice() is None and none.render(HELLO) == "<user>w1 w2<assistant>"
    only = {"mode": "required", "tools": [{"type": "function", "function": {"name": "stop_now"}}]}
    (choice,) = chat(served, "tagged", tool_choice={"type": "allowed_tools", "allowed_tools": only})
    assert {c["function"]["name"] for c in choice["message"]["tool_calls"]} == {"stop_now"}


def test_an_answer_in_a_format_beside_tools(served):
    schema = {"type": "object", "properties": {"tag": {"const": "<tool_call>"}}, "required": ["tag"]}
    wanted = {"type": "json_schema", "json_schema": {"schema": {**schema, "additionalProperties": False}}}
    found = [c["message"] for c in chat(served, "none", response_format=wanted, n=8)]
    texts = [m["content"] for m in found if "tool_calls" not in m]
    assert texts and all(json.loads(text) == {"tag": "<tool_call>"} for text in texts)
    assert all(right(call) for m in found for call in m.get("tool_calls", ()))


def test_a_talk_with_results_goes_through_the_template(served):
    call = {"id": "abcdefghi", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
    talk = [
        {"role": "developer", "content": "Be short."},
        *HELLO,
        {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "abcdefghi", "content": "rain"},
    ]
    for name in ("tagged", "listed", "none"):
        assert chat(served, name, messages=talk, max_tokens=2)
    told = as_text(
        [{"role": "system", "content": "Be short."}, *talk[1:2], {**talk[2], "content": ""}, talk[3], talk[3]], "T"
    )
    assert [m["role"] for m in told] == ["system", "user", "assistant", "user"]
    assert told[0]["content"] == "Be short.\n\nT" and told[3]["content"].count("<tool_response>\nrain") == 2
    assert told[2]["content"].startswith('<tool_call>\n{"name": "weather", "arguments": ')
    broken = [*talk[:2], {"role": "assistant", "tool_calls": [{**call, "function": {"name": "f", "arguments": "{"}}]}]
    ((status, body),) = ask(served, ("POST", CHAT, {"model": "tagged", "messages": broken}))
    assert status == 400 and "an object in JSON" in body["error"]["message"]


@pytest.mark.parametrize(
    ("change", "param", "told"),
    [
        ({"tools": {}}, "tools", "a list of at most 128"),
        ({"tools": [{"type": "custom"}]}, "tools[0]", "a tool of type function"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name", "1 to 64 letters"),
        ({"tools": [TOOLS[0], TOOLS[0]]}, "tools", "the same name"),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "array"}}}]},
            "tools[0].function.parameters",
            "a schema of type object",
        ),
        (
            {
                "tools": [
                    {"type": "function", "function": {"name": "f", "parameters": {"uniqueItems": 3}, "strict": True}}
                ]
            },
            "tools",
            "uniqueItems",
        ),
        ({"tool_choice": "always"}, "tool_choice", "expected none, auto, required"),
        ({"tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice", "the name of a tool"),
        ({"tools": None, "tool_choice": "required"}, "tool_choice", "only for requests with tools"),
        ({"parallel_tool_calls": 1}, "parallel_tool_calls", "a boolean"),
        ({"functions": [{"name": "f"}]}, "functions", "not supported"),
    ],
)
def test_what_is_wrong_with_tools_is_told(served, change, param, told):
    given = {"model": "tagged", "messages": HELLO, "tools": TOOLS, "max_tokens": 2, **change}
    ((status, body),) = ask(served, ("POST", CHAT, given))
    assert status == 400 and told in body["error"]["message"] and body["error"]["param"] == param


def test_tools_are_for_chats(served):
    ((status, body),) = ask(served, ("POST", TEXT, {"model": "tagged", "prompt": "x", "tools": TOOLS}))
    assert status == 400 and body["error"]["param"] == "tools"


def test_a_schema_of_a_function_that_is_not_strict_is_followed_as_far_as_it_can_be(served):
    model, engine = served.get("none").loaded()

    def calls(functions, **given):
        return Calls(model.chat_template, model.tokenizer, functions, **given).grammar

    once = {"type": "array", "uniqueItems": True, "maxItems": 1}
    loose = {"type": "object", "properties": {"x": once}, "required": ["x"]}
    engine.compile_grammar(calls([Function("f", None, loose)]))
    with pytest.raises(ValueError, match="uniqueItems"):
        engine.compile_grammar(calls([Function("f", None, loose, strict=True)]))
    many = [Function(f"f{i}", "x" * 100, WEATHER) for i in range(128)]
    options = SamplingOptions(max_tokens=30, temperature=1, grammar=calls(many, needed=True))
    assert engine.generate(["x"], options)[0].text.startswith('<tool_call>\n{"name": "f')


def test_what_a_schema_says_to_readers_is_not_in_the_grammar():
    inside = {"type": "string", "description": "y" * 9999, "default": "z", "enum": [{"title": 1}, "a"]}
    schema = {"title": "T", "properties": {"title": inside, "description": {"anyOf": [inside]}}, "required": ["title"]}
    found = json.loads(Function("f", None, schema).schema())
    short = {"type": "string", "enum": [{"title": 1}, "a"]}
    assert found["properties"] == {"title": short, "description": {"anyOf": [short]}} and "title" not in found
    assert Function("f", None, schema).told()["function"]["parameters"] == schema


def test_forms_of_templates():
    found = {name: form_of(ChatTemplate(text)) for name, text in TEMPLATES.items()}
    assert found == {"tagged": TAGGED, "listed": LISTED, "bare": BARE, "none": None}
    two = ChatTemplate(TEMPLATES["none"], {}, TEMPLATES["listed"])
    assert form_of(two) == LISTED and two.render(HELLO).startswith("<user>")
    assert two.render(HELLO, tools=TOOLS).startswith("[AVAILABLE_TOOLS]")
    assert form_of(ChatTemplate("{{ tools }}<tool_call><function=")) is None


@pytest.mark.parametrize(
    ("form", "text", "expected", "calls"),
    [
        (
            TAGGED,
            'a < b \n<tool_call>\n{"name": "f", "arguments": {"x": "}\\"<tool_call>"}}\n</tool_call>',
            "a < b",
            [("f", {"x": '}"<tool_call>'})],
        ),
        (TAGGED, "only <tool_ca text \n", "only <tool_ca text \n", []),
        (
            TAGGED,
            '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>\n<tool_call>\n{"name": "g", "arguments": {"y": [{}]}}\n</tool_call>',
            "",
            [("f", {}), ("g", {"y": [{}]})],
        ),
        (
            LISTED,
            'hm [TOOL_CALLS] [{"name": "f", "arguments": {"x": 1}}, {"name": "g-h", "arguments": {}}]',
            "hm",
            [("f", {"x": 1}), ("g-h", {})],
        ),
        (BARE, '{"name": "f", "parameters": {"x": {"y": "\\\\"}}}', "", [("f", {"x": {"y": "\\"}})]),
        (BARE, 'see {"name": "f"}', 'see {"name": "f"}', []),
        (BARE, '<|python_tag|>{"name": "f", "parameters": {}}', "", [("f", {})]),
    ],
)
def test_calls_are_read_however_they_are_cut(form, text, expected, calls):
    for seed in range(20):
        rng, left, reader, found = random.Random(seed), text, Reader(form, needed=False, free=True), []
        while left:
            n = rng.randint(1, 1 + seed)
            found += reader.push(left[:n])
            left = left[n:]
        found += reader.end()
        assert "".join(p.text for p in found if p.call is None) == expected
        names = [p.name for p in found if p.name]
        given = ["".join(p.text for p in found if p.call == i) for i in range(len(names))]
        assert [
            (name, json.loads(one)) for name, one in zip(names, given, strict=True)
        ] == calls and reader.calls == len(calls)
