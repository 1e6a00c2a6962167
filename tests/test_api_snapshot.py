"""The public interface: it is what docs/api_snapshot.txt says, and where Paddle has the name, it is Paddle's."""

import importlib
import inspect

import pytest

from bireme.core.declare.public import EXPORTS, PUBLIC
from tools import api_compare, api_snapshot, exports


def test_snapshot():
    changed = api_snapshot.difference(api_snapshot.stored(), api_snapshot.snapshot())
    assert changed == [], "the public interface changed; run `make api` and look at the difference"


def test_every_listed_name_exists_once():
    modules = list(api_snapshot.public_modules())
    assert len(modules) > 20
    for module in modules:
        listed = list(module.__all__)
        assert len(listed) == len(set(listed)), f"{module.__name__}.__all__ names something twice"
        assert [name for name in listed if not hasattr(module, name)] == [], module.__name__


def test_signatures_are_paddles():
    counts = api_compare.compare()
    differing = [f"{fact.name}: {why}" for by in counts.values() for c in by.values() for fact, why in c.differ]
    assert sum(len(by[False].match) for by in counts.values()) > 0
    assert differing == []


def test_every_module_of_paddle_belongs_to_a_part():
    modules = {fact.owner for fact in api_compare.facts()}
    assert len(modules) > 70
    assert {api_compare.part_of(module) for module in modules} <= set(api_compare.PARTS)


def sample(x, axis=None, *rest, keepdim=False, **options):
    raise NotImplementedError


def only(x, /, y=(1, 2), *, z="a"):
    return x, y, z


def test_signatures_are_written_out():
    assert api_snapshot.signature(sample) == "(x, axis=None, *rest, keepdim=False, **options)"
    assert api_snapshot.signature(only) == "(x, /, y=(1, 2), *, z='a')"
    assert api_snapshot.signature(only, member=True) == "(y=(1, 2), *, z='a')"
    assert api_snapshot.line("bireme.only", only) == "function bireme.only(x, /, y=(1, 2), *, z='a')"
    assert api_snapshot.difference(["a", "b"], ["b", "c"]) == ["-a", "+c"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("function paddle.only(x, /, y=[1, 2], *, z='a')", ""),
        ("function paddle.only(...)", ""),
        ("function paddle.only(x, y=[1, 2], *, z='a')", "in Paddle (x, y=[1, 2], *, z='a')"),
        ("function paddle.only(x, /, y=[1, 3], *, z='a')", "in Paddle (x, /, y=[1, 3], *, z='a')"),
        ("function paddle.only(x, /, y=[1, 2], *, z='a')  # x=input|self", "does not take input for x, self for x"),
        ("class paddle.only(x, /, y=[1, 2], *, z='a')", "is a function, in Paddle a class"),
        ("property paddle.only", "is a function, in Paddle a property"),
    ],
)
def test_differences_are_seen(line, why):
    found = api_compare.reason(api_compare.parse(line), only)
    assert found.endswith(why) if why else found == ""


def test_stubs_count_as_missing():
    assert api_compare.stub(sample)
    assert not api_compare.stub(only)
    assert not inspect.isclass(only)


def test_operators_stand_where_they_are_declared_to():
    paths = {module: exports.path_of(module) for module in exports.MODULES}
    assert sum(path.exists() for path in paths.values()) > 5
    for module, path in paths.items():
        if path.exists():
            assert path.read_text() == exports.written(path.read_text(), module), f"{path.name}: run `make api`"


def test_operators_are_found_under_some_public_name(monkeypatch):
    assert exports.unlisted() == []
    for path, name in EXPORTS.items():
        module, _, last = f"bireme.{path}".rpartition(".")
        assert getattr(importlib.import_module(module), last) is PUBLIC[name], path
    monkeypatch.setitem(PUBLIC, "scaled_square", only)
    assert exports.unlisted() == ["scaled_square"]
    with pytest.raises(SystemExit):
        exports.main()


def test_an_operator_that_paddle_lacks_stands_where_it_says(monkeypatch):
    monkeypatch.setitem(PUBLIC, "scaled_square", only)
    monkeypatch.setitem(EXPORTS, "linalg.scaled_square", "scaled_square")
    assert exports.names_of("linalg")["scaled_square"] == "scaled_square"
    assert "scaled_square" not in exports.names_of("")
    assert exports.unlisted() == []
