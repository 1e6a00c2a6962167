"""The generated reference: every public name stands on one page, and no page points at what is not documented."""

import re

import pytest

import bireme
from tools import api_pages

ENTRY = re.compile(r"^\.\. (auto\w+|py:\w+):: (bireme[\w.]*)(.*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    out = tmp_path_factory.mktemp("api")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api_pages, "OUT", out / "api")
        patch.setattr(api_pages, "TABLES", out)
        api_pages.main()
    return {path.stem: path.read_text() for path in (out / "api").iterdir()}


def entries(pages: dict[str, str]) -> list[str]:
    found = [(kind, name) for text in pages.values() for kind, name, _ in ENTRY.findall(text)]
    return [name for kind, name in found if kind not in ("py:module", "py:currentmodule")]


def test_every_public_name_has_an_entry(pages):
    modules = [m for some in api_pages.modules().values() for m in some]
    public = {f"{m.__name__}.{n}" for m in modules for n in api_pages.names_of(m)}
    methods = {f"bireme.Tensor.{n}" for n in dir(bireme.Tensor) if not n.startswith("_")}
    assert len(public) > 1000 and len(methods) > 400
    assert (public | methods) - set(entries(pages)) == set()


def test_no_page_is_empty(pages):
    says = [name for name, text in pages.items() if re.search(r"^\.\. (auto|list-table)", text, re.MULTILINE)]
    assert sorted(set(pages) - set(says)) == []


def test_an_object_is_documented_once(pages):
    documented = [name for text in pages.values() for kind, name, _ in ENTRY.findall(text) if kind.startswith("auto")]
    assert len(documented) == len(set(documented))
    layers = [name.removeprefix("bireme.nn.") for name in documented if re.fullmatch(r"bireme\.nn\.\w+", name)]
    classes = [getattr(bireme.nn, name) for name in layers]
    assert len(classes) == len({id(c) for c in classes}) > 100


def test_pointers_lead_to_documented_names(pages):
    documented = {name for text in pages.values() for kind, name, _ in ENTRY.findall(text) if kind.startswith("auto")}
    pointer = re.compile(r"(?:Another name|In-place form|same as)\D*?`([\w.]+)`")
    pointers = {name for text in pages.values() for name in pointer.findall(text)}
    assert len(pointers) > 100
    # an in-place form may point at another name of the operator, which points on
    assert {p for p in pointers if p not in documented and p not in entries(pages)} == set()


def test_a_new_name_appears_by_itself(monkeypatch):
    monkeypatch.setattr(bireme.signal, "__all__", [*bireme.signal.__all__, "chirp"])
    monkeypatch.setattr(bireme.signal, "chirp", lambda x: x, raising=False)
    assert "chirp" in api_pages.names_of(bireme.signal)
    entry = api_pages.entry("bireme.signal.chirp", bireme.signal.chirp, api_pages.Claims())
    assert entry == ".. autofunction:: bireme.signal.chirp\n"
