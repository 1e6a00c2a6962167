"""Every public name says what it does, what each parameter means and what it returns, and shows it by an example."""

import inspect

import pytest

from tools import documented
from tools.documented import Entry, problems

HOW = (
    "complete the docstring (Google style: a sentence, Args with every parameter, Returns, Examples; "
    "`python -m tools.documented --problems PREFIX` lists what is missing)"
)
SHRINK = "tests/data/undocumented.txt only shrinks: run `python -m tools.documented --shrink`"


@pytest.fixture(scope="module")
def entries():
    return documented.entries()


def test_every_public_name_is_documented(entries):
    excepted = set(documented.stored())
    wrong = {e.name: problems(e) for e in entries if e.name not in excepted}
    text = "\n".join(f"{name}: {'; '.join(found)}" for name, found in wrong.items() if found)
    assert not text, f"{HOW}:\n{text}"


def test_the_list_of_exceptions_only_shrinks(entries):
    listed = documented.stored()
    assert listed == sorted(set(listed)), SHRINK
    lacking = {e.name for e in entries if problems(e)}
    assert [name for name in listed if name not in lacking] == [], SHRINK


def test_what_is_looked_at(entries):
    names = [e.name for e in entries]
    assert len(names) == len(set(names)) > 1500
    # an operator that is a method too stands under its function, a class under one of its names
    assert "bireme.abs" in names and "bireme.Tensor.abs" not in names
    assert "bireme.nn.Conv2D" in names and "bireme.nn.Conv2d" not in names
    # what a public class has from one that is not public; what it has from a public one stands there
    assert "bireme.nn.BatchNorm2D.forward" in names or "bireme.nn.BatchNorm1D.forward" in names
    assert "bireme.nn.Linear.parameters" not in names and "bireme.nn.Layer.parameters" in names


def whole(x, *rest, y=1, **options):
    """Does something.

    It takes a second paragraph to say how.

    Args:
        x: What it works on,
            said in two lines: with a colon.
        *rest: More of it.
        y (int): How often. Default: 1.
        **options: Passed on.

    Returns:
        What comes out.

    Examples:
        >>> 1 + 1
        2
    """
    return x, rest, y, options


class Whole:
    """Holds a size.

    Args:
        size: The size.

    Examples:
        >>> 1 + 1
        2
    """

    def __init__(self, size):
        self.size = size

    def scaled(self, by):
        """The size times a factor.

        Args:
            by: The factor.

        Returns:
            The product.
        """
        return self.size * by

    def twice(self):
        """Twice the size."""
        return 2 * self.size


class Half(Whole):
    """Holds half a size.

    Examples:
        >>> 1 + 1
        2
    """

    def scaled(self, by):
        return self.size * by / 2


Half.__module__ = Whole.__module__ = whole.__module__ = "bireme.sample"  # as if the project had them


def method(name, owner=Whole):
    return Entry(f"bireme.sample.{owner.__name__}.{name}", inspect.getattr_static(owner, name), owner)


def test_a_whole_docstring_passes():
    assert problems(Entry("bireme.sample.whole", whole)) == []
    assert problems(Entry("bireme.sample.Whole", Whole)) == []
    assert problems(method("scaled")) == problems(method("twice")) == []
    # what overrides a method without a docstring of its own has that of the method
    assert problems(method("scaled", Half)) == []


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("x: What", "What", "parameter x is not documented"),
        ("*rest: More", "More", "parameter rest is not documented"),
        ("x: What", "z: None of it.\n    x: What", "documents z, which is no parameter"),
        ("Does something.", "Does something", "the first paragraph is not a sentence"),
        ("Returns:", "Note:", "no Returns section"),
        ("Examples:", "Note:", "no Examples section"),
        (">>> 1 + 1", "1 + 1", "no Examples section"),
    ],
)
def test_what_is_missing_is_found(monkeypatch, old, new, found):
    text = inspect.cleandoc(whole.__doc__)
    assert old in text
    monkeypatch.setattr(whole, "__doc__", text.replace(old, new))
    assert problems(Entry("bireme.sample.whole", whole)) == [found]


def test_a_constructors_parameters_stand_in_the_class(monkeypatch):
    monkeypatch.setattr(Whole, "__doc__", "Holds a size.\n\nExamples:\n    >>> 1\n    1\n")
    assert problems(Entry("bireme.sample.Whole", Whole)) == ["parameter size is not documented"]
    # where it is inherited from a public class, it need not be said again, but then not in part either
    assert problems(Entry("bireme.sample.Half", Half)) == ["parameter size is not documented"]
    monkeypatch.setattr(documented, "_classes", lambda: {Whole, Half})
    assert problems(Entry("bireme.sample.Half", Half)) == []
    monkeypatch.setattr(Half, "__doc__", "Holds half a size.\n\nArgs:\n    s: It.\n\nExamples:\n    >>> 1\n    1\n")
    assert len(problems(Entry("bireme.sample.Half", Half))) == 2
    monkeypatch.setattr(Whole.twice, "__doc__", None)
    assert problems(method("twice")) == ["the first paragraph is not a sentence"]


def test_shrinking_takes_out_and_never_puts_in(monkeypatch, tmp_path):
    path = tmp_path / "undocumented.txt"
    monkeypatch.setattr(documented, "EXCEPTIONS", path)
    monkeypatch.setattr(documented, "incomplete", lambda: ["a", "b", "c"])
    monkeypatch.setattr(documented, "stored", lambda: ["b", "c", "gone"])
    path.touch()
    assert documented.shrink() == 2
    assert path.read_text() == "b\nc\n"
