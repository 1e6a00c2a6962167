"""OpenAI's endpoints: chats, texts and embeddings of a tiny language model, streamed or not, and what is refused."""

import asyncio
import base64
import json
import random

import numpy as np
import pytest

import bireme
from bireme import llm
from bireme.inference.saved import is_language_model, program_of
from bireme.serve import LanguageModels, Repository, application, openai_form
from bireme.serve.language import events
from tests.language_models import byte_tokenizer
from tests.served_language import language_model, write_folder
from tests.test_serve import call
from tools import fuzz_server

for package in ("starlette", "prometheus_client", "tokenizers", "jinja2"):
    pytest.importorskip(package, reason=f"{package} is not installed")

CHAT, TEXT, EMBED = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
RESPONSES = "/v1/responses"
HELLO = [{"role": "user", "content": "w1 w2"}]


@pytest.fixture(scope="module")
def models():
    made = LanguageModels({"tiny": language_model(), "lost": "/nowhere"}, max_batch=4, max_length=32)
    yield made
    made.close()


class Kept(LanguageModels):
    """Models that live on when an application ends."""

    def __init__(self, models):
        self.__dict__ = models.__dict__

    def close(self):
        pass


def ask(models, *requests, token=None):
    """Answers to requests that are sent at the same time: statuses and what is told."""
    app = application(Repository({}), token, Kept(models))

    async def all_of_them():
        sent = [(m, path, json.dumps(told).encode() if told is not None else b"") for m, path, told in requests]
        found = await asyncio.gather(*[call(app, *one) for one in sent])
        return [
            (status, body if "event-stream" in head["content-type"] else json.loads(body))
            for status, head, body in found
        ]

    return asyncio.run(all_of_them())


def post(models, path, **told):
    ((status, body),) = ask(models, ("POST", path, {"model": "tiny", **told}))
    return status, body


def pieces(stream):
    lines = stream.decode().split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""] and all(line.startswith("data: ") for line in lines[:-1])
    return [json.loads(line[6:]) for line in lines[:-2]]


def alone(models, prompt, **options):
    """What the engine makes of a prompt, without a server."""
    return models.get("tiny").engine.generate([prompt], llm.SamplingOptions(**options))[0]


def test_lists_of_models(models):
    listed, one, none = ask(
        models, ("GET", "/v1/models", None), ("GET", "/v1/models/tiny", None), ("GET", "/v1/models/x", None)
    )
    assert [x["id"] for x in listed[1]["data"]] == ["tiny"] and one[1]["object"] == "model"
    assert none[0] == 404 and none[1]["error"]["code"] == "model_not_found"
    ((status, body),) = ask(models, ("POST", "/v1/nothing", {}))
    assert status == 404 and body["error"]["code"] == "unknown_url"
    assert [x["state"] for x in models.index()] == ["READY", "UNAVAILABLE"] and not models.ready
    (lost,) = ask(models, ("POST", TEXT, {"model": "lost", "prompt": "w1"}))
    assert (
        lost[0] == 503
        and lost[1]["error"]["type"] == "server_error"
        and "could not be loaded" in lost[1]["error"]["message"]
    )


def test_a_chat(models):
    status, told = post(models, CHAT, messages=HELLO, temperature=0, max_tokens=5)
    expected = alone(
        models, models.get("tiny").model.tokenizer.encode("user w1 w2 assistant", special=False), max_tokens=5
    )
    choice = told["choices"][0]
    assert status == 200 and told["object"] == "chat.completion" and told["id"].startswith("chatcmpl-")
    assert choice["message"] == {"role": "assistant", "content": expected.text, "refusal": None}
    assert choice["finish_reason"] == expected.finish_reason == "length" and choice["logprobs"] is None
    assert (
        told["usage"]["prompt_tokens"] == 4
        and told["usage"]["completion_tokens"] == 5
        and told["usage"]["total_tokens"] == 9
    )
    parts = [{"role": "user", "content": [{"type": "text", "text": "w1 "}, {"type": "text", "text": "w2"}]}]
    assert post(models, CHAT, messages=parts, temperature=0, max_completion_tokens=5)[1]["choices"] == told["choices"]
    status, longest = post(models, CHAT, messages=HELLO, temperature=0)
    assert longest["usage"]["total_tokens"] == 32  # all that there is room for


def test_a_stream_says_the_same(models):
    given = {"messages": HELLO, "temperature": 0, "max_tokens": 6, "logprobs": True, "top_logprobs": 2}
    whole = post(models, CHAT, **given)[1]["choices"][0]
    status, stream = post(models, CHAT, **given, stream=True, stream_options={"include_usage": True})
    *told, last = pieces(stream)
    assert status == 200 and all(x["object"] == "chat.completion.chunk" and x["usage"] is None for x in told)
    assert told[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    choices = [x["choices"][0] for x in told]
    assert "".join(x["delta"].get("content", "") for x in choices) == whole["message"]["content"]
    assert [x["finish_reason"] for x in choices] == [None] * (len(choices) - 1) + ["length"]
    streamed = [one for x in choices if x["logprobs"] for one in x["logprobs"]["content"]]
    assert streamed == whole["logprobs"]["content"] and len(streamed) == 6
    assert last["choices"] == [] and last["usage"]["completion_tokens"] == 6
    first = streamed[0]
    assert first["top_logprobs"][0]["token"] == first["token"] and bytes(first["bytes"]).decode() == first["token"]
    assert first["top_logprobs"][0]["logprob"] >= first["top_logprobs"][1]["logprob"]


def test_responses(models):
    chat = post(models, CHAT, messages=[{"role": "system", "content": "w3"}, *HELLO], temperature=0, max_tokens=5)[1]
    given = {"instructions": "w3", "input": "w1 w2", "temperature": 0, "max_output_tokens": 5}
    status, told = post(models, RESPONSES, **given, store=False, metadata={"a": "b"})
    (item,) = told["output"]
    text = item["content"][0]["text"]
    assert status == 200 and told["object"] == "response" and text == chat["choices"][0]["message"]["content"]
    assert told["status"] == "incomplete" and told["incomplete_details"] == {"reason": "max_output_tokens"}
    assert told["usage"]["output_tokens"] == 5 and told["metadata"] == {"a": "b"} and told["store"] is False
    parts = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "w1 w2"}]}]
    assert post(models, RESPONSES, **{**given, "input": parts})[1]["output"][0]["content"] == item["content"]
    events = post(models, RESPONSES, **given, stream=True)[1].decode().split("\n\n")
    assert events.pop() == ""
    events = [json.loads(event.partition("\ndata: ")[2]) for event in events]
    assert [e["sequence_number"] for e in events] == list(range(len(events)))
    assert "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta") == text
    assert events[0]["type"] == "response.created" and events[-1]["type"] == "response.incomplete"
    assert events[-1]["response"]["output"][0]["content"] == item["content"]
    assert events[-1]["response"]["usage"] == told["usage"]


def test_tokens_that_are_parts_of_characters():
    letters = llm.Tokenizer(byte_tokenizer())
    told = openai_form.chat_logprobs([llm.Event(0xE2, "", -0.5, ((0x82, -1.0), (65, -2.0)))], letters)["content"][0]
    assert (told["token"], told["bytes"]) == ("bytes:\\xe2", [0xE2])
    assert [x["token"] for x in told["top_logprobs"]] == ["bytes:\\x82", "A"]
    assert [x["bytes"] for x in told["top_logprobs"]] == [[0x82], [65]]


def test_texts(models):
    status, told = post(models, TEXT, prompt=["w1 w2", "w3"], temperature=0, max_tokens=4, logprobs=1, n=2)
    assert status == 200 and [x["index"] for x in told["choices"]] == [0, 1, 2, 3]
    texts = [x["text"] for x in told["choices"]]
    assert (
        texts[0] == texts[1] == alone(models, [1, 2], max_tokens=4).text
        and texts[2] == texts[3] == alone(models, [3], max_tokens=4).text
    )
    assert told["usage"]["prompt_tokens"] == 3 and told["usage"]["completion_tokens"] == 16
    lists = told["choices"][0]["logprobs"]
    assert {len(lists[name]) for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset")} == {4}
    assert lists["text_offset"][0] == 0 and sorted(lists["text_offset"]) == lists["text_offset"]
    by_tokens = post(models, TEXT, prompt=[[1, 2], [3]], temperature=0, max_tokens=4)[1]["choices"]
    assert [x["text"] for x in by_tokens] == texts[::2]
    echoed = post(models, TEXT, prompt="w1 w2", temperature=0, max_tokens=4, echo=True)[1]["choices"][0]["text"]
    assert echoed == "w1 w2" + texts[0]
    streamed = pieces(post(models, TEXT, prompt=["w1 w2", "w3"], temperature=0, max_tokens=4, stream=True)[1])
    for i in range(2):
        assert "".join(x["choices"][0]["text"] for x in streamed if x["choices"][0]["index"] == i) == texts[2 * i]


def test_seeds_and_choices(models):
    given = {"prompt": "w1 w2", "temperature": 1.5, "max_tokens": 8, "seed": -7, "n": 3}
    first, again = (post(models, TEXT, **given)[1]["choices"] for _ in range(2))
    assert first == again and len({x["text"] for x in first}) > 1
    other = post(models, TEXT, **{**given, "seed": 8})[1]["choices"]
    assert [x["text"] for x in other] != [x["text"] for x in first]


def test_stop_strings(models):
    whole = post(models, TEXT, prompt="w1 w2", temperature=0, max_tokens=8)[1]["choices"][0]["text"]
    stop = whole.split()[3]
    told = post(models, TEXT, prompt="w1 w2", temperature=0, max_tokens=8, stop=["nothing", stop])[1]["choices"][0]
    assert told["finish_reason"] == "stop" and told["text"] == whole[: whole.index(stop)]
    stream = pieces(post(models, TEXT, prompt="w1 w2", temperature=0, max_tokens=8, stop=stop, stream=True)[1])
    assert "".join(x["choices"][0]["text"] for x in stream) == told["text"]


def test_biases(models):
    given = {"prompt": "w1 w2", "temperature": 0, "max_tokens": 1}
    (likely,) = post(models, TEXT, **given, logprobs=2)[1]["choices"][0]["logprobs"]["top_logprobs"]
    (first, p), (second, q) = sorted(likely.items(), key=lambda pair: -pair[1])
    for by, wanted in ((p - q - 1, first), (p - q + 1, second)):
        told = post(models, TEXT, **given, logit_bias={second[1:]: by})[1]
        assert told["choices"][0]["text"].strip() == wanted
    assert post(models, TEXT, **given, logit_bias={})[1]["choices"] == post(models, TEXT, **given)[1]["choices"]


def test_embeddings(models):
    inputs = ["w1 w2 w3", "w4"]
    status, told = post(models, EMBED, input=inputs)
    vectors = np.array([x["embedding"] for x in told["data"]], "float32")
    network = models.get("tiny").model.network
    mean = network.states(bireme.to_tensor([[1, 2, 3]])).numpy()[0].mean(0)
    assert status == 200 and np.allclose(vectors[0], mean / np.linalg.norm(mean), atol=1e-5)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5) and told["usage"]["prompt_tokens"] == 4
    raw = post(models, EMBED, input=inputs, encoding_format="base64")[1]["data"][1]["embedding"]
    assert np.allclose(np.frombuffer(base64.b64decode(raw), "<f4"), vectors[1])
    assert post(models, EMBED, input=[1, 2, 3])[1]["data"][0]["embedding"] == pytest.approx(
        vectors[0].tolist(), abs=1e-6
    )


@pytest.mark.parametrize(
    ("path", "change", "param", "told"),
    [
        (CHAT, {"model": 3}, "model", "must provide a model"),
        (CHAT, {"messages": []}, "messages", "1 to 4096 messages"),
        (CHAT, {"messages": [{"content": "x"}]}, "messages[0]", "an object with a role"),
        (
            CHAT,
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages[0]",
            "parts of type text",
        ),
        (CHAT, {"messages": [{"role": "user", "content": 3}]}, "messages[0]", "a string or a list"),
        (CHAT, {"messages": [{"role": "user", "content": "w1 " * 99}]}, "messages", "1 to 31 tokens, got 101 tokens"),
        (CHAT, {"temperature": -1}, "temperature", "a number in [0, 100], got -1"),
        (CHAT, {"temperature": "x"}, "temperature", "a number"),
        (CHAT, {"top_p": 2}, "top_p", "[0, 1]"),
        (CHAT, {"n": 0}, "n", "an integer in [1, 128]"),
        (CHAT, {"n": True}, "n", "an integer"),
        (CHAT, {"max_tokens": 0}, "max_tokens", "an integer in [1,"),
        (CHAT, {"stop": [3]}, "stop", "a string or a list of strings"),
        (CHAT, {"stop": ["x"] * 99}, "stop", "at most 64 strings"),
        (CHAT, {"stream": 1}, "stream", "a boolean"),
        (CHAT, {"stream_options": {"include_usage": True}}, "stream_options", "for streams"),
        (CHAT, {"top_logprobs": 2}, "top_logprobs", "only for logprobs"),
        (CHAT, {"logprobs": True, "top_logprobs": 21}, "top_logprobs", "[0, 20]"),
        (CHAT, {"tools": [{"type": "function"}]}, "tools[0]", "with a function"),
        (
            CHAT,
            {"response_format": {"type": "json_object"}},
            "response_format",
            "a model that has tokens which end a text",
        ),
        (CHAT, {"response_format": {"type": "xml"}}, "response_format", "a type among text, json_schema"),
        (CHAT, {"response_format": 3}, "response_format", "a type among text, json_schema"),
        (CHAT, {"response_format": {"type": "json_schema"}}, "response_format.json_schema", "a schema, an object"),
        (CHAT, {"response_format": {"type": "regex"}}, "response_format", "expected a str, got None"),
        (CHAT, {"nonsense": 1}, "nonsense", "Unrecognized request argument"),
        (CHAT, {"seed": 2**70}, "seed", "an integer in"),
        (CHAT, {"logit_bias": {"x": 1}}, "logit_bias", "an object of tokens"),
        (CHAT, {"logit_bias": {"3": "x"}}, "logit_bias", "numbers in [-100, 100]"),
        (CHAT, {"logit_bias": {"64": 1}}, "logit_bias", "tokens in [0, 63], got 64"),
        (TEXT, {"prompt": None}, "prompt", "a string, a list of tokens"),
        (TEXT, {"prompt": ""}, "prompt", "got an empty one"),
        (TEXT, {"prompt": [1, "x"]}, "prompt", "lists of tokens"),
        (TEXT, {"prompt": [1, 10**6]}, "prompt", "tokens in [0, 63], got 1000000"),
        (TEXT, {"echo": True, "logprobs": 1}, "echo", "not supported"),
        (TEXT, {"suffix": "x"}, "suffix", "not supported"),
        (RESPONSES, {"input": []}, "input", "a string, or a list of messages"),
        (RESPONSES, {"input": [{"role": "user", "content": 3}]}, "input[0]", "input[0].content: expected a string"),
        (RESPONSES, {"input": [{"type": "function_call"}]}, "input[0]", "only messages"),
        (RESPONSES, {"max_output_tokens": 0}, "max_output_tokens", "max_output_tokens: expected an integer"),
        (RESPONSES, {"previous_response_id": "resp_1"}, "previous_response_id", "the server keeps no responses"),
        (RESPONSES, {"tools": [{"type": "web_search"}]}, "tools", "as it is by /v1/chat/completions"),
        (RESPONSES, {"text": {"format": {"type": "xml"}}}, "text.format", "text.format: expected a type"),
        (RESPONSES, {"nonsense": 1}, "nonsense", "Unrecognized request argument"),
        (EMBED, {"input": []}, "input", "a string, a list of tokens"),
        (EMBED, {"input": "w1 " * 99}, "input", "1 to 32 tokens"),
        (EMBED, {"input": [99]}, "input", "tokens in [0, 63]"),
        (EMBED, {"input": "w1", "encoding_format": "x"}, "encoding_format", "float or base64"),
        (EMBED, {"input": "w1", "dimensions": 3}, "dimensions", "the model has 32"),
    ],
)
def test_what_is_wrong_is_told_in_their_form(models, path, change, param, told):
    right = {CHAT: {"messages": HELLO}, TEXT: {"prompt": "w1"}, EMBED: {"input": "w1"}, RESPONSES: {"input": "w1"}}[
        path
    ]
    status, body = post(models, path, **{**right, **change})
    assert status == 400 and body["error"]["type"] == "invalid_request_error"
    assert told in body["error"]["message"] and body["error"]["param"] == param


def test_hostile_requests_are_answered_or_refused(models):
    app = application(Repository({}), None, Kept(models))

    async def go():
        for n in range(150):
            path, body = fuzz_server.openai_request(random.Random(n), logprobs=False)
            status, _, told = await call(app, "POST", path, body)
            wrong = fuzz_server.wrong_openai(status, told)
            assert wrong is None, (n, wrong, body)

    asyncio.run(go())


def test_bodies_and_tokens_in_their_form(models):
    app = application(Repository({}), "secret", Kept(models))

    async def go():
        none = await call(app, "GET", "/v1/models")
        key = [("Authorization", "Bearer secret")]
        broken = await call(app, "POST", CHAT, b"{", key)
        method = await call(app, "GET", CHAT, b"", key)
        return [(status, json.loads(body)["error"]) for status, _, body in (none, broken, method)]

    none, broken, method = asyncio.run(go())
    assert none[0] == 401 and none[1]["code"] == "invalid_api_key"
    assert broken[0] == 400 and "not JSON" in broken[1]["message"] and method[0] == 405


def test_a_client_that_goes_away_cancels_its_requests(models):
    app, engine = application(Repository({}), None, Kept(models)), models.get("tiny").engine

    async def go(stream):
        gone = asyncio.Event()
        told = {"model": "tiny", "prompt": "w1 w2", "max_tokens": 60, "ignore_eos": True, "n": 9, "stream": stream}
        before = engine.statistics()["requests"]
        work = asyncio.ensure_future(call(app, "POST", TEXT, json.dumps(told).encode(), gone=gone))
        while engine.statistics()["requests"] == before:
            await asyncio.sleep(0)
        gone.set()
        status = (await work)[0]
        while engine.statistics()["running"] + engine.statistics()["waiting"]:
            await asyncio.sleep(0)
        return status

    assert asyncio.run(go(True)) == 200 and asyncio.run(go(False)) in (200, 499)


def test_requests_that_nobody_reads_are_cancelled(models):
    engine = models.get("tiny").engine

    async def go():
        request = engine.submit([1, 2], llm.SamplingOptions(max_tokens=60, ignore_eos=True))
        coming = events([request])
        i, event = await anext(coming)
        await coming.aclose()
        return i, event.token is not None, request

    i, token, request = asyncio.run(go())
    assert (i, token) == (0, True) and request.cancelled and request.result(60).finish_reason in ("cancelled", "length")


def test_a_full_queue_is_told(models):
    few = Kept(models)
    few.__dict__ = {**models.__dict__, "queue": 2}
    ((status, body),) = ask_of(few, ("POST", TEXT, {"model": "tiny", "prompt": "w1", "n": 3}))
    assert status == 503 and "requests wait already" in body["error"]["message"]


def ask_of(models, *requests):
    app = application(Repository({}), None, models)

    async def go():
        found = await asyncio.gather(*[call(app, m, p, json.dumps(told).encode()) for m, p, told in requests])
        return [(status, json.loads(body)) for status, _, body in found]

    return asyncio.run(go())


def test_metrics_of_the_engine(models):
    app = application(Repository({}), None, Kept(models))

    async def go():
        await call(app, "POST", TEXT, json.dumps({"model": "tiny", "prompt": "w1", "max_tokens": 3}).encode())
        return (await call(app, "GET", "/metrics"))[2].decode()

    shown = asyncio.run(go())
    assert (
        'bireme_llm_running{model="tiny"} 0.0' in shown
        and 'bireme_requests_total{model="tiny",status="200"} 1.0' in shown
    )
    tokens = next(line for line in shown.splitlines() if line.startswith('bireme_llm_tokens_total{model="tiny"}'))
    assert float(tokens.split()[1]) >= 3


def test_a_folder(tmp_path):
    write_folder(tmp_path / "tiny")
    assert is_language_model(tmp_path / "tiny") and not is_language_model(tmp_path)
    with pytest.raises(ValueError, match="holds a language model"):
        program_of(tmp_path / "tiny")
    with pytest.raises(ValueError, match="it has folders tiny: name one of them"):
        program_of(tmp_path)
    found = LanguageModels({"tiny": tmp_path / "tiny"}, max_batch=2, max_length=32)
    assert found.ready and found.get("tiny").model.chat_template is not None
    found.close()
    assert not found.ready
