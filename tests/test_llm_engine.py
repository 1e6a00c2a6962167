"""The engine: texts of single requests whatever runs beside them, pages, prefixes, cancelling, and text that streams."""

import random
import re
import threading

import numpy as np
import pytest

import bireme
import bireme.llm
from bireme.core.base import dtype as dtypes
from bireme.core.record.capture import capture
from bireme.core.tensor.tensor import wrap
from bireme.core.xla_exec import program_files, xla
from bireme.llm import Engine, SamplingOptions, engine, pages, programs
from bireme.ops import paged_attention
from tests import language_models as models

TEXT = "añ€😀z. Hi"  # bytes that are all different
PAGE = 2 * 2 * 16 * 4 * 16  # bytes of keys and values of 2 heads of 16 and 16 tokens


@pytest.fixture(autouse=True, scope="module")
def short_chunks():
    before, engine.CHUNK_ON_CPU = engine.CHUNK_ON_CPU, 16
    yield
    engine.CHUNK_ON_CPU = before


def network(**changes):
    bireme.seed(3)
    sizes = {
        "architecture": "mistral",
        "vocabulary": 96,
        "width": 64,
        "layers": 1,
        "heads": 4,
        "shared_heads": 2,
        "inner": 64,
        "windows": (20,),
    }
    made = bireme.llm.Network(bireme.llm.Configuration(**sizes | changes))
    for p in made.parameters():
        if p.ndim == 2:
            p.set_value(p.numpy() * 6)  # so that texts do not repeat one token
    return made


def alone(made, prompt, count):
    """The most likely tokens, each by the network on all tokens before it; with what they are ahead of the next."""
    found, ahead = list(prompt), []
    with bireme.no_grad(), bireme.debug.use_executor("interpreter"):
        for _ in range(count):
            row = made(bireme.to_tensor([found])).numpy()[0, -1]
            first, second = np.sort(row)[:-3:-1]
            found.append(int(row.argmax()))
            ahead.append(first - second)
    return found[len(prompt) :], min(ahead)


@pytest.fixture(scope="module")
def random_network():
    return network()


@pytest.fixture(scope="module")
def prompts():
    rng = random.Random(1)
    shared = [rng.randrange(96) for _ in range(40)]
    return [(shared if i % 3 == 0 else []) + [rng.randrange(96) for _ in range(rng.randrange(1, 30))] for i in range(8)]


@pytest.fixture(scope="module")
def tight(random_network):
    """An engine with so few pages that requests make room for others."""
    with Engine(random_network, max_batch=5, max_length=96, cache_bytes=7 * PAGE) as made:
        yield made


def check_greedy(running, made, prompts):
    results = running.generate(prompts, SamplingOptions(max_tokens=10))
    for prompt, result in zip(prompts, results, strict=True):
        told, ahead = alone(made, prompt, 10)
        assert ahead > 1e-4, "a tie: choose another seed"
        assert list(result.tokens) == told and result.finish_reason == "length"
    assert running.statistics()["pages_used"] == 0


def test_greedy_texts_are_those_of_the_network(tight, random_network, prompts):
    check_greedy(tight, random_network, prompts[:5])


def test_a_cache_that_is_allocated_for_all(prompts):
    made = network(windows=())
    with Engine(made, max_batch=3, max_length=200, page_size=None) as running:
        assert running.page_size == 256 and running.statistics()["pages_free"] == 3
        check_greedy(running, made, [prompts[1], prompts[3] * 2])


def test_learned_positions(prompts):
    made = network(
        architecture="gpt2",
        shared_heads=4,
        windows=(),
        activation="gelu_tanh",
        tied=True,
        positions=64,
        attention_bias=True,
    )
    with Engine(made, max_batch=2, max_length=999) as running:
        assert running.max_length == 64
        assert [list(r.tokens) for r in running.generate([[5], [7]], SamplingOptions(max_tokens=6))] == [
            alone(made, [t], 6)[0] for t in (5, 7)
        ]


def test_a_text_depends_on_its_request_alone(tight, prompts):
    """To the bit: one by one, together in another order, and with so few pages that requests make room for others."""
    rng = random.Random(2)
    options = [
        SamplingOptions(
            max_tokens=rng.randrange(8, 30), temperature=rng.choice([0, 0.8, 1.5]), top_k=rng.choice([0, 7]), top_p=rng.choice([1, 0.8]),
            min_p=rng.choice([0, 0.02]), repetition_penalty=rng.choice([1, 1.3]), presence_penalty=rng.choice([0, 0.5]),
            frequency_penalty=rng.choice([0, 0.3]), seed=i, logprobs=0,
        )
        for i in range(len(prompts))
    ]  # fmt: skip
    found = {"alone": [tight.generate([p], [o])[0] for p, o in zip(prompts, options, strict=True)]}
    before, order = tight.statistics(), list(range(len(prompts)))
    rng.shuffle(order)
    mixed = tight.generate([prompts[i] for i in order], [options[i] for i in order])
    found["together"] = [mixed[order.index(i)] for i in range(len(prompts))]
    told = tight.statistics()
    assert told["preemptions"] > before["preemptions"] and told["pages_free"] == 7
    assert told["tokens"] - before["tokens"] == sum(len(r.tokens) for r in mixed)
    for one, other in zip(found["alone"], found["together"], strict=True):
        assert one.tokens == other.tokens and one.logprobs == other.logprobs


def test_beginnings_are_shared(random_network, prompts):
    with Engine(random_network, max_batch=5, max_length=96, cache_bytes=7 * PAGE) as made:
        first = made.generate([prompts[0]], SamplingOptions(max_tokens=4))[0]
        again = made.generate([prompts[0]], SamplingOptions(max_tokens=4))[0]
        other = made.generate([prompts[3]], SamplingOptions(max_tokens=4))[0]
        assert first.cached == 0 and again.cached >= 32 and other.cached == 32
        assert again.tokens == first.tokens
        told = made.statistics()
        assert told["prefix_hits"] == again.cached + other.cached and told["programs"] == 2


def test_pages_are_held_found_and_let_go():
    held = pages.Pages(3)
    a, b = held.take(), held.take()
    held.publish(a, b"a")
    held.give(a)
    held.give(b)
    assert held.free == 3 and held.find([b"a"]) == [a] and held.find([b"a", b"b"]) is None and held.free == 2
    held.give(a)
    assert [held.take() for _ in range(3)][-1] == a and held.take() is None  # what may come again goes last
    assert held.find([b"a"]) is None


def test_chunks_of_a_prompt():
    assert [(c.start, c.size, c.count) for c in pages.chunks(100, 32, 8)] == [
        (0, 32, 32),
        (32, 32, 32),
        (64, 32, 32),
        (96, 8, 4),
    ]
    assert [(c.size, c.count) for c in pages.chunks(31, 32, 8)] == [(32, 31)] and pages.chunks(0, 32, 8) == []
    long, short = (list(pages.keys(range(n), pages.chunks(n, 32, 8), 8)) for n in (64, 40))
    assert long[0] == short[0] and len(long[0]) == 4 and long[1][0] != short[1][0]  # taken by another program


# ---------------------------------------------------------------- text


@pytest.fixture(scope="module")
def reciter():
    with Engine(models.reciter(TEXT), max_batch=4, max_length=64) as made:
        yield made


def test_events_have_whole_characters(reciter):
    request = reciter.submit("a", SamplingOptions(max_tokens=30))
    events = list(request.tokens(timeout=60))
    assert "".join(e.text for e in events) == TEXT[1:] == request.result().text
    assert (
        all("\ufffd" not in e.text for e in events) and [e.finish_reason for e in events].count(None) == len(events) - 1
    )
    assert [e.token for e in events] == [*TEXT.encode()[1:], 256] and events[-1].finish_reason == "stop"


@pytest.mark.parametrize(
    ("options", "text", "reason"),
    [
        ({"stop": "€😀"}, "ñ", "stop"),
        ({"stop": ["nothing", ". H"]}, "ñ€😀z", "stop"),
        ({"stop": "Hi!"}, "ñ€😀z. Hi", "stop"),  # held back, and told at the end
        ({"max_tokens": 6}, "ñ€\ufffd", "length"),  # within a character
        ({"max_tokens": 2, "stop": "ñ€"}, "ñ", "length"),
        ({"stop_ids": [ord("z")]}, "ñ€😀", "stop"),
    ],
)
def test_texts_end(options, text, reason, reciter):
    result = reciter.generate(["a"], SamplingOptions(**{"max_tokens": 30} | options))[0]
    assert (result.text, result.finish_reason) == (text, reason)


def test_logarithms_of_probabilities(reciter):
    result = reciter.generate(["a"], SamplingOptions(max_tokens=3, logprobs=4))[0]
    model = models.reciter(TEXT)
    with bireme.no_grad():
        told = bireme.nn.functional.log_softmax(model.network(bireme.to_tensor([[ord("a")]]))[0, -1]).numpy()
    best = np.argsort(-told)[:4]
    assert [t for t, _ in result.alternatives[0]] == best.tolist() and result.tokens[0] == best[0]
    np.testing.assert_allclose([p for _, p in result.alternatives[0]], told[best], atol=1e-4)
    np.testing.assert_allclose(result.logprobs[0], told[best[0]], atol=1e-4)


def test_a_bias_moves_tokens(reciter):
    plain = reciter.generate(["a"], SamplingOptions(max_tokens=3))[0].tokens
    less, more = SamplingOptions(max_tokens=3, logit_bias={plain[0]: -100}), {ord("z"): 100, 5: 0.5}
    more = SamplingOptions(max_tokens=3, logit_bias=more)
    found = reciter.generate(["a"] * 3, [less, more, SamplingOptions(max_tokens=3)])
    assert found[0].tokens[0] != plain[0] and found[1].tokens == (ord("z"),) * 3 and found[2].tokens == plain
    # whoever has the slots next has none of it
    found = reciter.generate(["a"] * 3, [SamplingOptions(max_tokens=3, presence_penalty=1e-3)] * 2 + [more])
    assert found[0].tokens == found[1].tokens == plain and found[2].tokens == (ord("z"),) * 3


def test_a_request_is_cancelled(reciter):
    request = reciter.submit("a", SamplingOptions(max_tokens=60, ignore_eos=True))
    events = request.tokens(timeout=60)
    next(events)
    request.cancel()
    last = list(events)[-1]
    assert last.finish_reason == "cancelled" == request.result().finish_reason
    reciter.generate(["a"])
    assert reciter.statistics()["pages_used"] == 0 == reciter.statistics()["running"]


def test_listeners_hear_of_events(reciter):
    heard = threading.Event()
    request = reciter.submit("a", SamplingOptions(max_tokens=2))
    request.on_event(lambda: heard.set() if request.done else None)
    assert heard.wait(60)
    assert [e.finish_reason for e in request.ready()] == [None, "length"] and request.ready() == []


@pytest.mark.parametrize(
    ("prompt", "options", "message"),
    [
        ([], {}, "Engine.submit(prompt): expected 1 to 63 tokens, got 0 tokens"),
        ([1] * 64, {}, "Engine.submit(prompt): expected 1 to 63 tokens, got 64 tokens"),
        ([300], {}, "Engine.submit(prompt): expected tokens in [0, 256], got 300"),
        ([1.5], {}, "Engine.submit(prompt): expected tokens in [0, 256], got 1.5"),
        (7, {}, "Engine.submit(prompt): expected a str or a list of tokens, got 7"),
        ("a", {"temperature": -1}, "SamplingOptions(temperature): expected a number in [0, 100], got -1"),
        ("a", {"top_p": float("nan")}, "SamplingOptions(top_p): expected a number in [0, 1], got nan"),
        ("a", {"max_tokens": 0}, "SamplingOptions(max_tokens): expected an integer in [1, 2147483647], got 0"),
        (
            "a",
            {"stop": [""]},
            "SamplingOptions(stop): expected at most 64 strings of 1 to 1024 characters, got 1 of [0]",
        ),
        ("a", {"logprobs": 21}, "SamplingOptions(logprobs): expected an integer in [0, 20], got 21"),
        ("a", {"logit_bias": {1: 101}}, "SamplingOptions(logit_bias): expected numbers in [-100, 100], got 101"),
        ("a", {"logit_bias": {-1: 1}}, "SamplingOptions(logit_bias): expected tokens, non-negative integers, got -1"),
        ("a", {"logit_bias": [3]}, "SamplingOptions(logit_bias): expected a dict of tokens and numbers, got [3]"),
        ("a", {"logit_bias": {257: 1}}, "SamplingOptions(logit_bias): expected tokens in [0, 256], got 257"),
        ("a", {"seed": 2**64}, "SamplingOptions(seed): expected an integer in [0, 18446744073709551615]"),
    ],
)
def test_wrong_requests_are_refused(prompt, options, message, reciter):
    with pytest.raises(ValueError) as refused:
        reciter.submit(prompt, SamplingOptions(**options))
    assert str(refused.value).startswith(message)


def test_wrong_engines_are_refused(random_network):
    for settings, message in (
        ({"max_batch": 0}, "Engine(max_batch): expected an integer in [1, 4096], got 0"),
        ({"page_size": 24}, "Engine(page_size): expected a power of two, or None, got 24"),
        ({"cache_bytes": 100}, "Engine(cache_bytes): expected at least 8192, two pages of the cache, got 100"),
        ({"dtype": "int8"}, "Engine(dtype): expected a floating-point dtype"),
    ):
        with pytest.raises(ValueError) as refused:
            Engine(random_network, **settings)
        assert str(refused.value).startswith(message)
    with pytest.raises(TypeError, match="expected a LanguageModel or a Network"):
        Engine("model")


def test_an_engine_that_ends_tells_its_requests(random_network, monkeypatch):
    made = Engine(random_network, max_batch=1, max_length=32)
    monkeypatch.setattr(made._batch, "turn", lambda: None)
    request = made.submit([1])
    made.close()
    assert request.result(timeout=10).finish_reason == "cancelled"
    with pytest.raises(RuntimeError, match="the engine is closed"):
        made.submit([1])

    def fail():
        raise MemoryError("no room")

    broken = Engine(random_network, max_batch=1, max_length=32)
    monkeypatch.setattr(broken._batch, "turn", fail)
    monkeypatch.setattr(threading, "excepthook", lambda given: None)
    with pytest.raises(RuntimeError, match="the engine failed with no room"):
        broken.submit([1]).result(timeout=10)


# ---------------------------------------------------------------- programs


def test_the_host_adds_little_to_a_step(reciter):
    """Rows that describe a step, and nothing else, go to the device: no weights, and no tables that stay the same."""
    described = np.zeros((4, programs.TABLE + reciter._programs.width), np.int32)
    described[:, programs.PLACE] = -1
    reciter._programs.step(described, None, False)  # compiled, if no other test has run a step
    before = reciter._programs.compiled
    tokens, logprobs = reciter._programs.step(described, None, False)
    assert programs.read(tokens).shape == (4,) == programs.read(logprobs).shape and reciter._programs.compiled == before


def test_rows_come_out_the_same_wherever_they_stand():
    """Eigen, which the compiler would take for this product on ARM, rounds the fifth row otherwise."""
    rng = np.random.default_rng(0)
    weight = bireme.to_tensor(rng.standard_normal((192, 666)).astype(np.float32))
    pool, tables = bireme.zeros([1, 2, 1, 2]), bireme.zeros([5, 1], "int32")
    with capture() as graph:
        x = wrap(graph.input((5, 192), dtypes.float32))
        attended = paged_attention(x[:, :2].reshape([5, 1, 1, 2]), pool, tables, tables, 1.0, 0)
        made = [bireme.matmul(x, weight), attended]
        run = graph.finish([t._value for t in made]).compiled()
    rows = np.asarray(run([np.tile(rng.standard_normal(192).astype(np.float32), (5, 1))])[0])
    assert (rows == rows[0]).all()


def test_several_steps_of_one_program_choose_the_same_tokens(monkeypatch):
    """Texts that end at a limit, at a stop token, with penalties and draws; as few programs are launched as can be, and
    the caches are written where they are.
    """
    texts, compile_it = [], xla._compiled
    monkeypatch.setattr(program_files, "load", lambda *a: None)
    monkeypatch.setattr(xla, "_compiled", lambda *a: [made := compile_it(*a), texts.append(made.as_text())][0])
    made = network(end=(7, 11, 19), windows=())
    given = [
        SamplingOptions(max_tokens=n, temperature=t, seed=n, repetition_penalty=p, logprobs=0)
        for n, t, p in ((33, 1.2, 1.3), (21, 0, 1), (5, 0.7, 1))
    ]
    found, calls = {}, {}
    for steps in (1, 8):
        with Engine(made, max_batch=3, max_length=96, steps=steps) as running:
            calls[steps], own = [], running._programs.step
            running._programs.step = lambda *a, own=own, told=calls[steps]: [told.append(a[3]), own(*a)][1]
            found[steps] = running.generate([[3], [5], [2]], given)
            assert running.statistics()["pages_used"] == 0
            assert running.statistics()["tokens"] == sum(len(r.tokens) for r in found[steps])
    assert {r.finish_reason for r in found[1]} == {"stop", "length"}
    for one, several in zip(found[1], found[8], strict=True):
        assert one.tokens == several.tokens and one.finish_reason == several.finish_reason
        np.testing.assert_allclose(one.logprobs, several.logprobs, atol=1e-5)
    assert set(calls[1]) == {1} and 8 in calls[8] and len(calls[8]) < len(calls[1]) / 2
    (loop,) = [text for text in texts if '"known_trip_count":{"n":"8"}' in text]
    assert loop.splitlines()[0].count("-alias") == 2  # the cache and the counts
    assert not re.search(r"f32\[18,4,16,16\]\S* copy\(", loop)
