"""Tokens and text: whole characters, stop strings over the borders of tokens, and chat templates that mean no good."""

import json
import time

import pytest

import bireme.llm
from bireme.llm.template import LONGEST_TEMPLATE, SECONDS
from bireme.llm.tokenizer import Stops, Stream, Tokenizer
from tests import language_models as models

CHAT = [{"role": "system", "content": " Be brief. "}, {"role": "user", "content": "Hello"}]
# written for this test, in the manner of those that come with models
TEMPLATE = """{{ bos_token }}
{%- if tools %}{{ 'tools: ' ~ tools | tojson }}{% endif -%}
{% set state = namespace(turns=0) %}
{% macro shown(message) -%}<|{{ message['role'] }}|>{{ message.content | trim }}{%- endmacro %}
{% for message in messages %}
{% if message.role == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}
{% set state.turns = state.turns + 1 %}
{{ shown(message) }}
{% endfor %}
({{ state.turns }}, {{ messages | map(attribute='role') | join('+') }}, {{ messages[0]['content'].strip().split(' ')[0] }})
{%- if add_generation_prompt %}<|assistant|>{% endif %}"""
HOSTILE = {
    "loops": "{% for i in range(1000000) %}{% for j in range(1000000) %}{% endfor %}{% endfor %}",
    "loops over literals": "{% for a in 'xxxxxxxxxxxxxxxx' %}" * 8 + "{% endfor %}" * 8,
    "a huge range": "{{ range(10**12) | list }}",
    "a huge string": "{{ 'a' * 1000000000 }}",
    "a huge list": "{{ [1] * 1000000000 }}",
    "doubling": "{% set n = namespace(s='aa') %}{% for i in range(60) %}{% set n.s = n.s + n.s %}{% endfor %}",
    "doubling by ~": "{% set n = namespace(s='aa') %}{% for i in range(60) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
    "doubling by replace": "{% set n = namespace(s='aa') %}{% for i in range(60) %}{% set n.s = n.s.replace('a', 'aa') %}{% endfor %}",
    "doubling by a filter": "{% set n = namespace(s='aa') %}{% for i in range(60) %}{% set n.s = n.s|replace('a', 'aa') %}{% endfor %}",
    "doubling by join": "{% set n = namespace(s='aa') %}{% for i in range(60) %}{% set n.s = n.s.join(n.s) %}{% endfor %}",
    "doubling by a block": "{% set n = namespace(s='a') %}{% for i in range(60) %}{% set x %}{{ n.s }}{{ n.s }}{% endset %}{% set n.s = x %}{% endfor %}",
    "much text of its own": "{% set x %}{% for i in range(3000000) %}" + "z" * 10000 + "{% endfor %}{% endset %}",
    "macros": "{% macro f(n) %}{% if n %}"
    + "x" * 10000
    + "{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(100) }}",
    "recursion": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "a recursive loop": "{% for x in [[1]] recursive %}{{ loop([[1], [1]]) }}{% endfor %}",
    "widths": "{{ '%1000000000d' % 1 }}",
    "formats": "{{ '{:1000000000}'.format(1) }}",
    "padding": "{{ 'a'.ljust(1000000000) }}",
    "padding by a filter": "{{ 'a' | center(1000000000) }}",
    "indents": "{{ 'a' | indent(1000000000) }}",
    "powers": "{{ 7 ** 10000000 ** 2 }}",
    "classes": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "classes by a filter": "{{ '' | attr('__class__') }}",
    "globals": "{{ raise_exception.__globals__['errors'] }}",
    "insides of Jinja": "{{ self.__init__.__globals__['os'] }}",
    "changes of messages": "{{ messages.append(1) }}",
    "other templates": "{% include 'x' %}",
    "parentheses": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "no template": "{% if %}",
}


def test_a_template_makes_the_text_of_a_chat():
    template = bireme.llm.ChatTemplate(TEMPLATE, {"bos_token": "<s>"})
    made = template.render(CHAT, tools=[{"name": "f"}])
    assert made == '<s>tools: [{"name": "f"}]<|system|>Be brief.\n<|user|>Hello\n(2, system+user, Be)<|assistant|>'
    assert template.render(CHAT, add_generation_prompt=False).endswith("Be)")
    with pytest.raises(ValueError, match="expected messages that the template takes, got no tools here"):
        template.render([{"role": "tool", "content": ""}])


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_template_is_refused_in_a_sentence(name):
    start = time.process_time()
    with pytest.raises(ValueError, match=r"^ChatTemplate.render: expected "):
        bireme.llm.ChatTemplate(HOSTILE[name]).render(CHAT)
    assert time.process_time() - start < SECONDS + 1


@pytest.mark.parametrize(
    "inside",
    ["''.__class__", "messages.__class__", "range.__self__", "raise_exception.__globals__", "namespace.__init__"],
)
def test_insides_of_python_are_not_there(inside):
    assert bireme.llm.ChatTemplate("{{ " + inside + " }}").render(CHAT) == ""


def test_what_is_no_message_is_refused():
    template = bireme.llm.ChatTemplate("{{ messages }}")
    with pytest.raises(ValueError, match="expected messages of strings, numbers, lists and dicts, got object"):
        template.render([{"role": object()}])
    deep = []
    for _ in range(100):
        deep = [deep]
    with pytest.raises(ValueError, match="expected messages nested at most 32 deep"):
        template.render(deep)
    with pytest.raises(ValueError, match="expected a template of at most"):
        bireme.llm.ChatTemplate("a" * (LONGEST_TEMPLATE + 1))


def test_a_folder_brings_tokenizer_and_template(tmp_path):
    settings = {"bos_token": {"content": "<s>"}, "chat_template": [{"name": "default", "template": "{{ bos_token }}!"}]}
    models.write(
        tmp_path, models.LLAMA, tokenizer__json=models.byte_tokenizer(), tokenizer_config__json=json.dumps(settings)
    )
    model = bireme.llm.load(tmp_path)
    assert (
        model.tokenizer.encode("hé") == [0x68, 0xC3, 0xA9] and model.tokenizer.decode([0x68, 0xC3, 0xA9, 256]) == "hé"
    )
    assert model.tokenizer.id("<end>") == 256 and len(model.tokenizer) == 257
    assert model.chat_template.render([]) == "<s>!"


def test_characters_stream_whole():
    tokenizer = Tokenizer(models.byte_tokenizer())
    text = "añ€😀z"
    stream = Stream(tokenizer)
    pieces = [stream.push(token) for token in text.encode()] + [stream.end()]
    assert "".join(pieces) == text and all(len(piece.encode("utf-8", "strict")) <= 4 for piece in pieces)
    assert not any("\ufffd" in piece for piece in pieces)
    cut = Stream(tokenizer)
    assert [cut.push(token) for token in "😀".encode()[:2]] == ["", ""] and cut.end() == "\ufffd"
    broken = Stream(tokenizer)  # bytes that never become a character are told at last
    assert "".join([broken.push(0x80) for _ in range(20)] + [broken.end()]) == "\ufffd" * 20


def test_stop_strings_are_found_over_borders():
    def told(stops, pieces):
        found, out = Stops(stops), []
        for piece in pieces:
            out.append(found.push(piece))
            if found.found:
                return out
        return [*out, found.end()]

    assert told(["END"], ["a", "E", "N", "Db"]) == ["a", "", "", ""]
    assert told(["END"], ["aE", "N", "x"]) == ["a", "", "ENx", ""]
    assert told(["aab"], ["aaa", "b"]) == ["a", ""]
    assert told(["xy", "y"], ["axy"]) == ["a"]
    assert told(["ab"], ["a"]) == ["", "a"]
