"""What users see of operators: names, typed signatures and docstrings of functions, methods and inplace twins."""

import importlib
import inspect
import pickle
import pydoc
import re
import typing

import pytest

import bireme
from bireme.core.declare.docstrings import Docstring
from bireme.core.declare.public import INTERNAL
from tools import api_snapshot

FUNCTIONS = {
    n: v for n, v in api_snapshot.public_names() if inspect.isfunction(v) and not n.startswith("bireme.Tensor.")
}
OPERATORS = {n: v for n, v in FUNCTIONS.items() if api_snapshot.is_op(v)}
METHODS = {n: v for n, v in vars(bireme.Tensor).items() if inspect.isfunction(v) and not n.startswith("_")}
STARRED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
WORDS = re.compile(r"\b(Attr|Extra|Axis|Axes|Ints|Shape|DTypeArg|DeviceArg|Const|Sizes|Padding|Key|Size)\b")


def test_functions_say_where_users_find_them():
    assert len(OPERATORS) > 500
    wrong = []
    for name, f in OPERATORS.items():
        found = getattr(importlib.import_module(f.__module__), f.__name__, None)
        if found is not f or f.__qualname__ != f.__name__ or f.__module__ == "bireme.ops":
            wrong.append(name)
    assert wrong == []
    assert (bireme.cat.__name__, bireme.cat.__module__) == ("concat", "bireme")
    assert bireme.softmax.__name__ == "softmax" and bireme.nn.functional.softmax.__module__ == "bireme.nn.functional"
    assert bireme.linalg.svd.__module__ == "bireme.linalg" and bireme.rank.__module__ == "bireme"


def test_methods_belong_to_tensor():
    wrong = [n for n, f in METHODS.items() if (f.__module__, f.__qualname__) != ("bireme", f"Tensor.{n}")]
    assert wrong == ["ndimension"]  # the same as `dim`
    without = [n for n, f in METHODS.items() if next(iter(inspect.signature(f).parameters)) != "self"]
    assert without == []
    assert list(inspect.signature(bireme.Tensor.add).parameters)[:2] == ["self", "y"]
    assert str(bireme.Tensor) == "<class 'bireme.Tensor'>"


@pytest.mark.parametrize(
    "f", [bireme.concat, bireme.nn.functional.relu_, bireme.Tensor.add, bireme.Tensor.add_, INTERNAL["softmax_of"]]
)
def test_functions_are_pickled_by_their_public_name(f):
    assert pickle.loads(pickle.dumps(f)) is f


def test_signatures_are_typed():
    vague = []
    for name, f in {**OPERATORS, **METHODS}.items():
        sign = inspect.signature(f)
        texts = [p.annotation for p in sign.parameters.values() if p.name != "self"] + [sign.return_annotation]
        assert inspect.Parameter.empty not in texts, name
        assert not any(WORDS.search(text) for text in texts), f"{name}{sign}"
        if api_snapshot.is_op(f):
            assert f.__annotations__ == {p.name: p.annotation for p in sign.parameters.values() if p.name != "self"} | {
                "return": sign.return_annotation
            }
            assert typing.get_type_hints(f).keys() == f.__annotations__.keys()
            vague += [
                f"{name}({p.name})" for p in sign.parameters.values() if p.annotation == "Any" and p.kind not in STARRED
            ]
    # data of any kind, and groups of processes, which are not there yet
    assert sorted(vague) == [
        *("bireme.as_tensor(data)", "bireme.assign(x)", "bireme.nn.functional.class_center_sample(group)"),
        *("bireme.nn.functional.margin_cross_entropy(group)", "bireme.to_tensor(data)"),
    ]


def test_signatures_of_one_kind_read_the_same():
    def shown(f, name):
        return inspect.signature(f).parameters[name].annotation

    assert shown(bireme.sum, "axis") == shown(bireme.Tensor.mean, "axis") == "int | Sequence[int] | None"
    assert shown(bireme.concat, "x") == shown(bireme.stack, "x") == "Sequence[Tensor]"
    assert shown(bireme.sum, "dtype") == shown(bireme.zeros, "dtype") == "DTypeLike | None"
    assert shown(bireme.add, "out") == shown(bireme.zeros, "out") == "Tensor | None"
    assert shown(bireme.add, "name") == shown(bireme.zeros, "name") == "str | None"
    assert typing.get_type_hints(bireme.sum)["axis"] == int | typing.get_type_hints(bireme.fft.fftn)["axes"]


def test_help_reads_like_a_library():
    def text(f):
        return pydoc.render_doc(f, renderer=pydoc.plaintext)

    assert "function concat in module bireme" in text(bireme.concat)
    assert "x: 'Sequence[Tensor]', axis: 'int' = 0, name: 'str | None' = None, *, out: 'Tensor | None' = None" in text(
        bireme.concat
    )
    assert "``tensors`` and ``dim`` are accepted for ``x`` and ``axis``." in text(bireme.concat)
    assert "name: Not used; kept for Paddle's signature." in text(bireme.concat)
    assert "function relu_ in module bireme.nn.functional" in text(bireme.nn.functional.relu_)
    assert "Inplace version of ``relu``: changes ``x`` and returns it." in text(bireme.nn.functional.relu_)
    total = text(bireme.Tensor.sum)
    assert "Tensor.sum = sum(self, axis" in total or "sum(self, axis" in total
    assert "The tensor itself is ``x``. ``dim`` is accepted for ``axis``." in total and "    x: " not in total


def test_methods_share_the_memory_of_their_function():
    assert bireme.Tensor.add.__code__ is bireme.add.__code__ and bireme.Tensor.add.__closure__ is bireme.add.__closure__
    assert (
        bireme.Tensor.mod is not bireme.Tensor.remainder
        and bireme.Tensor.mod.function is bireme.Tensor.remainder.function
    )


DOC = """Do it.

Args:
    x: Input
        tensor.
    alpha: A number. Default: 1.
    out: Declared here.

Returns:
    Tensor.

Examples:
    >>> bireme.do(1)
    1"""


def test_what_the_decorator_appends_is_documented_in_its_place():
    doc = Docstring(DOC, ["x", "name", "alpha", "out"], {"input": "x", "scale": "alpha"})
    text = doc.function()
    assert text.index("tensor.\n    name: Not used; kept for Paddle's signature.\n    alpha:") > 0
    assert text.count("    out:") == 1
    assert "``input`` and ``scale`` are accepted for ``x`` and ``alpha``.\n\nArgs:" in text
    assert (
        "\n    out: Tensor that receives"
        in Docstring(DOC.replace("    out: Declared here.\n", ""), ["x", "out"], {}).function()
    )
    method = doc.method("x")
    assert "The tensor itself is ``x``. ``scale`` is accepted for ``alpha``.\n\nArgs:\n    name:" in method


def test_inplace_forms_are_documented():
    doc = Docstring(DOC, ["x", "name", "alpha", "out"], {})
    text = doc.inplace("do", "do_", "x")
    assert text.startswith(
        "Inplace version of ``do``: changes ``x`` and returns it.\n\nArgs:\n    x: Input\n        tensor.\n"
    )
    assert "    out:" not in text and "Returns:\n    ``x``, changed.\n\nExamples:\n    >>> bireme.do_(1)\n    1" in text
    text = doc.inplace_method("do", "x")
    assert "    x:" not in text and "alpha: A number" in text and text.endswith("The tensor itself, changed.")


@pytest.mark.parametrize("doc", ["Do it.", "Do it.\n\n>>> 1\n1", "Do it.\n\nReturns:\n    One."])
def test_a_docstring_without_arguments_gets_those_of_the_decorator(doc):
    text = Docstring(doc, ["x", "name"], {}).function()
    assert text.startswith("Do it.\n\nArgs:\n    name: Not used") and text.endswith(
        doc.removeprefix("Do it.").strip() or "signature."
    )
    assert Docstring("", ["x", "name"], {}).function() == ""  # python -OO


def test_several_keywords_for_one_parameter():
    text = Docstring("Do it.", ["x"], {"input": "x", "a": "y", "b": "y"}).function()
    assert "``input`` is accepted for ``x``; ``a`` and ``b`` are accepted for ``y``." in text
