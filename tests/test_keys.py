"""No two calls share a key: what was remembered of one is never given for another."""

import itertools
import math

import pytest

import bireme
from bireme.core.base import registry
from bireme.core.declare import known_calls
from bireme.core.declare.composite import Composite
from bireme.core.graph import segment
from bireme.core.graph.bound import exact
from bireme.core.graph.graph import Graph
from bireme.core.record import flush

# equal to each other, equal once they are flattened, equal to where a tensor lies, or equal to nothing
VALUES = [
    None, True, False, 0, 1, -1, 2, 0.0, -0.0, 1.0, math.inf, math.nan, 2**60,
    "", "1", "axis", "nan", "float32", bireme.float32,
    [], [0], [1], [-1], [0, 1], [1, 0], [True], [1.0], [0.0], [-0.0], [None], ["1"], [math.nan], [[]], [[1]], [1, []],
    (), (0,), (1,), (0, 1), (True,), (1.0,), (-0.0,), (math.nan,), (int, 1), ((1,),),
]  # fmt: skip


def test_attributes_are_told_apart():
    """As parts of the key of a bound operator, and with whatever comes after them."""
    pairs = [*itertools.product(VALUES, repeat=2), *[(x, y, 1) for x in VALUES for y in VALUES[:8]]]
    known = {}
    for attrs in pairs:
        assert known.setdefault(tuple(map(exact, attrs)), repr(attrs)) == repr(attrs)
    assert len(known) == len(pairs)
    assert exact(float("nan")) == exact(-float("nan")), "a NaN that somebody computed is the same attribute each time"


def test_gradients_keep_which_are_given_apart_from_which_are_needed():
    """(False, True) is equal to (0, 1), and prints otherwise: programs on disk are found by what prints."""
    sig = bireme.ones([2])._value.sig
    one = registry.find("stack").bind((-2,), (0,)).grad_bound((True,), (0, 1), (sig, sig), (sig,))
    other = registry.find("unbind_of").bind((1,), (0,)).grad_bound((False, True), (0,), (sig,), (sig, sig))
    for grad in (one, other):
        assert {type(x) for x in grad.given} == {bool} and {type(x) for x in grad.needs} == {int}


@pytest.fixture
def tensors():
    """Two values of a segment, two leaves that it has read, and one that it has not."""
    flush.flush()
    a, b, new = bireme.ones([2]), bireme.ones([2]), bireme.ones([2])
    flush.flush()
    c = a + b
    yield {"value 0": c, "value 1": c * c, "leaf 0": a, "leaf 1": b, "another": new}
    flush.flush()


@pytest.mark.parametrize("takes", (known_calls.ATTRIBUTE, known_calls.OPERAND, known_calls.NUMBER))
def test_calls_are_told_apart(tensors, takes):
    names = {id(t): name for name, t in tensors.items()}
    known = [{}, {}]

    def told(x, by_place):
        if isinstance(x, bireme.Tensor):
            return names[id(x)] if by_place else "float32[2]"
        if isinstance(x, (list, tuple)) and any(isinstance(i, bireme.Tensor) for i in x):
            return type(x), [told(i, by_place) for i in x]
        return type(x) if takes is known_calls.NUMBER and known_calls.travels(x) else repr(x)

    def look(*args, **kwargs):
        codes, of = (known_calls.OPERAND, takes, takes, takes), dict.fromkeys(("axis", "x"), takes)
        written = known_calls.call_key(look, args, codes, kwargs, of)
        for by_place, key in enumerate((known_calls.kinds_of(args, codes, kwargs, of), written and written[0])):
            if key is not None:
                call = ([told(x, by_place) for x in args], {n: told(x, by_place) for n, x in kwargs.items()})
                assert known[by_place].setdefault(key, call) == call

    x, _, y, *_ = tensors.values()
    values = [*VALUES, *tensors.values(), [x], [y], (x,), [x, y], [y, x], [x, 1]]
    look(x)
    for one in values:
        look(x, one)
        look(x, axis=one)
        look(x, x=one)
        for other in values:
            look(x, one, other)
            look(x, one, axis=other)
            look(x, axis=one, x=other)
    look(x, [], 1, 2)
    look(x, [1], 2)
    look(x, [1, 2])
    assert min(map(len, known)) > 1000


# ---------------------------------------------------------------- operators, each with arguments of all kinds


def recorded(call, *args, **kwargs):
    """What a call from an empty segment comes to: the steps that it records with their numbers, or the error."""
    segment.local.segment = segment.Segment()
    bireme.seed(0)
    try:
        made = call(*args, **kwargs)
    except Exception as e:  # noqa: BLE001  # whatever is raised has to be raised again
        return type(e)
    seg = segment.local.segment
    graph = Graph(seg.state, None)
    return type(made), graph.key, [vector.tobytes() for vector in graph.pack(seg.numbers)]


def calls_of(op):
    """Calls of an operator on small tensors, with each value for each of its attributes, by place and by name."""
    sign = op.signature
    args = []
    for p in sign.operands:
        if p.only_keyword or p.kind == "key" or p.default is None:
            break
        args.append([bireme.ones([2, 3]), bireme.ones([2, 3])] if p.kind == "list" else bireme.ones([2, 3]))
    for value in VALUES:
        yield (*args, value), {}
        yield (*args, value, 1), {}
        for p in sign.attrs:
            if p.kind == "attr":
                yield tuple(args), {p.name: value}


def fresh(op, args, kwargs):
    """The call without any memory."""
    return op.call(op.signature.bind(args, dict(kwargs)))


def is_remembered(op):
    plain = not isinstance(op, Composite) or op.options.get("plain")
    return plain and op.signature.operand_names and op.signature.attr_names and not op.signature.sizes


OPERATORS = sorted(name for name, op in registry.OPS.items() if is_remembered(op))


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_never_gives_another_calls_result(name):
    op = registry.find(name)
    outer = segment.local.segment
    try:
        calls = list(calls_of(op))
        expected = [recorded(fresh, op, args, kwargs) for args, kwargs in calls]
        for i in (*range(len(calls)), *range(len(calls)), *reversed(range(len(calls)))):
            args, kwargs = calls[i]
            assert recorded(op.public, *args, **kwargs) == expected[i], (args[1:], kwargs)
    finally:
        segment.local.segment = outer
