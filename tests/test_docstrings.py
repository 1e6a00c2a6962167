"""Every example in a docstring is run, and every public operator has one."""

import doctest
import importlib
import inspect
import pkgutil
from unittest import mock

import pytest

import bireme
from bireme.distributed.ps.lookup import TABLES
from tools import api_snapshot

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
PARSER = doctest.DocTestParser()


def module_names() -> list[str]:
    return ["bireme", *(m.name for m in pkgutil.walk_packages(bireme.__path__, "bireme.") if "__main__" not in m.name)]


def documented(module) -> dict[str, str]:
    """Docstrings of what the module itself defines: functions, operators, classes with their own members."""
    found = {module.__name__: module.__doc__ or ""}
    for name, value in vars(module).items():
        if home(value) != module.__name__:
            continue
        found[f"{module.__name__}.{name}"] = own_doc(value)
        if inspect.isclass(value):
            for inner, member in vars(value).items():
                found[f"{module.__name__}.{name}.{inner}"] = own_doc(getattr(member, "__func__", member))
    # an operator's public function belongs to the module of its declaration but does not stand in it under its name
    for name, value in api_snapshot.public_names():
        if home(value) == module.__name__:
            found[name] = own_doc(value)
    return found


def home(value) -> str | None:
    """The name of the module that defines it, wherever its `__module__` says that users find it."""
    if api_snapshot.is_op(value):
        value = value.op.body
    if inspect.isfunction(value):
        return inspect.unwrap(value).__globals__["__name__"]
    return "bireme.core.tensor.tensor" if value is bireme.Tensor else getattr(value, "__module__", None)


def own_doc(value) -> str:
    """The docstring of an object, not that of its class."""
    text = getattr(value, "__doc__", None)
    return text if isinstance(text, str) and (inspect.isclass(value) or text != type(value).__doc__) else ""


def run(name: str, text: str) -> list[str]:
    """What went wrong in the examples of one docstring."""
    bireme.seed(0)
    test = PARSER.get_doctest(text, {"bireme": bireme}, name, name, 0)
    said: list[str] = []
    with mock.patch.dict(TABLES, clear=True):  # of parameter servers, whose names begin anew in each program
        doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(test, out=said.append)
    return said


@pytest.mark.parametrize("name", module_names())
def test_examples(name):
    texts = documented(importlib.import_module(name))
    # methods, in-place twins and aliases share the docstring of their operator: once is enough
    unique = {text: where for where, text in texts.items() if ">>>" in text}
    failures = [line for text, where in unique.items() for line in run(where, text)]
    assert not failures, "\n".join(failures)


def test_every_public_operator_has_an_example():
    ops = {name: value for name, value in api_snapshot.public_names() if api_snapshot.is_op(value)}
    assert ops
    lacking = [name for name, value in ops.items() if ">>>" not in own_doc(value)]
    # an in-place form is made from its operator and shares that one's example, which may be in another module
    short = {name.rpartition(".")[2] for name in ops}
    assert [name for name in lacking if not (name.endswith("_") and name.rpartition(".")[2][:-1] in short)] == []


def test_a_wrong_example_is_caught():
    assert run("wrong", ">>> 1 + 1\n3\n") != []
    assert run("right", ">>> 1 + 1\n2\n") == []
