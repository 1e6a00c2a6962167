"""Foreign clients of a server: run as `python served_clients.py KIND ADDRESS`, by an interpreter that has their packages.

Each asks for the models "double" (float32 [None, 4] -> [None, 2]) and "lookup" of tools.fuzz_server, and fails if an answer is
not what it should be.
"""

import json
import sys

import numpy as np


def triton_http(address):
    import tritonclient.http as client

    with client.InferenceServerClient(address) as server:
        _triton(client, server, [("json", {"binary_data": False}), ("raw", {"binary_data": True})])
        assert server.get_server_metadata()["name"] == "bireme"
        assert server.get_model_metadata("double")["inputs"][0]["shape"] == [-1, 4]
        assert {x["name"] for x in server.get_model_repository_index()} >= {"double", "lookup"}
        server.unload_model("lookup")
        assert not server.is_model_ready("lookup")
        server.load_model("lookup")
        assert server.is_model_ready("lookup")
    with client.InferenceServerClient(address, concurrency=4) as server:
        name = _output(server)
        waiting = [server.async_infer("double", [_input(client, n)]) for n in range(1, 5)]
        assert [x.get_result().as_numpy(name).shape for x in waiting] == [(n, 2) for n in range(1, 5)]


def triton_grpc(address):
    import tritonclient.grpc as client

    with client.InferenceServerClient(address) as server:
        _triton(client, server, [("raw", {})])
        assert server.get_server_metadata().name == "bireme"
        assert list(server.get_model_metadata("double").inputs[0].shape) == [-1, 4]
        assert {x.name for x in server.get_model_repository_index().models} >= {"double", "lookup"}
        server.unload_model("lookup")
        assert not server.is_model_ready("lookup")
        server.load_model("lookup")
        assert server.is_model_ready("lookup")


def _input(client, rows, **how):
    x = client.InferInput("x", [rows, 4], "FP32")
    x.set_data_from_numpy(np.arange(4 * rows, dtype=np.float32).reshape(rows, 4), **how)
    return x


def _output(server):
    told = server.get_model_metadata("double")
    return told["outputs"][0]["name"] if isinstance(told, dict) else told.outputs[0].name


def _triton(client, server, ways):
    from tritonclient.utils import InferenceServerException as refused

    assert server.is_server_live() and server.is_model_ready("double")
    name, found = _output(server), []
    for _, how in ways:
        wanted = client.InferRequestedOutput(name, **how)
        found.append(
            server.infer("double", [_input(client, 3, **how)], outputs=[wanted], request_id="7").as_numpy(name)
        )
    found.append(server.infer("double", [_input(client, 3)]).as_numpy(name))
    assert found[0].shape == (3, 2) and all((x == found[0]).all() for x in found)
    for model, x in (("nowhere", _input(client, 1)), ("lookup", _input(client, 1))):
        try:
            server.infer(model, [x])
        except refused as e:
            assert "there is no model nowhere" in str(e) or "expected INT64" in str(e), e
        else:
            raise AssertionError(f"{model} answered")


def openai_client(address):
    import openai

    client = openai.OpenAI(base_url=f"http://{address}/v1", api_key="secret", max_retries=0)
    assert {m.id for m in client.models.list()} == {"tiny", "caller"}
    _tools(openai, client)
    messages = [{"role": "user", "content": "w1 w2"}]
    given = {"model": "tiny", "messages": messages, "temperature": 0, "max_tokens": 5}
    whole = client.chat.completions.create(**given, logprobs=True, top_logprobs=2)
    text, choice = whole.choices[0].message.content, whole.choices[0]
    assert choice.finish_reason == "length" and whole.usage.completion_tokens == 5 and len(choice.logprobs.content) == 5
    stream = client.chat.completions.create(**given, stream=True, stream_options={"include_usage": True})
    pieces = list(stream)
    assert "".join(p.choices[0].delta.content or "" for p in pieces if p.choices) == text
    assert pieces[-1].usage.completion_tokens == 5
    asked = {"model": "tiny", "input": "w1 w2", "temperature": 0, "max_output_tokens": 5}
    response = client.responses.create(**asked)
    assert response.output_text == text and response.status == "incomplete" and response.usage.output_tokens == 5
    with client.responses.stream(**asked) as stream:
        came = list(stream)
    assert "".join(e.delta for e in came if e.type == "response.output_text.delta") == text
    assert came[-1].type == "response.incomplete" and came[-1].response.output_text == text
    assert client.chat.completions.create(**given, logit_bias={"5": 0}).choices[0].message.content == text
    two = client.completions.create(model="tiny", prompt=["w1", "w2"], max_tokens=3, n=2, seed=3, temperature=1.0)
    assert len(two.choices) == 4 and two.object == "text_completion"
    vectors = client.embeddings.create(model="tiny", input=["w1", "w2 w3"])  # asks for base64
    assert [len(x.embedding) for x in vectors.data] == [32, 32]
    with client.chat.completions.create(**{**given, "max_tokens": 40}, stream=True) as early:
        next(iter(early))  # the rest is not read
    for wrong, kind in ({"model": "none"}, openai.NotFoundError), ({"temperature": -1}, openai.BadRequestError):
        try:
            client.chat.completions.create(**{**given, **wrong})
        except kind as e:
            assert e.body["type"] == "invalid_request_error", e.body
        else:
            raise AssertionError(f"{wrong} was answered")
    try:
        openai.OpenAI(base_url=f"http://{address}/v1", api_key="other").models.list()
    except openai.AuthenticationError as e:
        assert e.body["code"] == "invalid_api_key"


def _tools(openai, client):
    """Functions that are called, at once, in a stream and by the client's helpers, and results that are sent back."""
    schema = {"type": "object", "properties": {"city": {"enum": ["Oslo", "Bern"]}}, "required": ["city"]}
    about = {"name": "weather", "parameters": {**schema, "additionalProperties": False}, "strict": True}
    given = {
        "model": "caller",
        "tools": [{"type": "function", "function": about}],
        "tool_choice": "required",
        "seed": 1,
    }
    given |= {
        "messages": [{"role": "user", "content": "?"}],
        "parallel_tool_calls": False,
        "max_completion_tokens": 120,
    }
    whole = client.chat.completions.create(**given)
    (call,) = whole.choices[0].message.tool_calls
    assert whole.choices[0].finish_reason == "tool_calls" and whole.choices[0].message.content is None
    assert call.function.name == "weather" and json.loads(call.function.arguments)["city"] in ("Oslo", "Bern")
    streamed = [p.choices[0].delta for p in client.chat.completions.create(**given, stream=True)]
    parts = [c for d in streamed for c in d.tool_calls or ()]
    assert parts[0].id and "".join(c.function.arguments for c in parts) == call.function.arguments
    with client.chat.completions.stream(**given) as stream:
        done = stream.get_final_completion().choices[0]
    assert done.message.tool_calls[0].function.parsed_arguments == json.loads(call.function.arguments)
    result = {"role": "tool", "tool_call_id": call.id, "content": "rain"}
    talk = [*given["messages"], whole.choices[0].message, result]  # the message as the client has it
    named = {"type": "function", "function": {"name": "weather"}}
    again = client.chat.completions.create(**{**given, "messages": talk, "tool_choice": named})
    assert again.choices[0].message.tool_calls and again.choices[0].finish_reason == "stop"
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": about["parameters"], "strict": True}}
    plain = {k: given[k] for k in ("model", "messages", "seed")}
    text = client.chat.completions.create(**plain, response_format=wanted, max_completion_tokens=120)
    assert json.loads(text.choices[0].message.content)["city"] in ("Oslo", "Bern")
    told = {"format": {"type": "json_schema", "name": "x", "schema": about["parameters"], "strict": True}}
    with client.responses.stream(model="caller", input="?", text=told, max_output_tokens=120) as stream:
        ended = stream.get_final_response()  # the client has one of those that are complete alone
    assert ended.status == "completed" and json.loads(ended.output_text)["city"] in ("Oslo", "Bern")
    try:
        client.chat.completions.create(**{**given, "tool_choice": {"type": "function", "function": {"name": "x"}}})
    except openai.BadRequestError as e:
        assert e.param == "tool_choice", e.body
    else:
        raise AssertionError("a function that is not there was answered")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
