"""Small services: structures, versions, downloads, the check of this machine, batches of readers."""

import hashlib
import io
import itertools
import os
import tarfile
import warnings
import zipfile
from collections import namedtuple
from pathlib import Path

import pytest

import bireme
from bireme import utils
from bireme.utils import check, download

Pair = namedtuple("Pair", "a b")


def test_structures():
    nest = [1, (2, {"b": 4, "a": 3}), Pair(5, [6])]
    assert utils.flatten(nest) == [1, 2, 3, 4, 5, 6]
    assert utils.map_structure(lambda x: x * 10, nest) == [10, (20, {"b": 40, "a": 30}), Pair(50, [60])]
    assert utils.map_structure(lambda x, y: x + y, [1, [2]], [3, 4]) == [4, [6]]
    assert utils.map_structure(lambda x: x + 1, 1) == 2
    assert (
        utils.is_sequence([1])
        and not utils.is_sequence("a")
        and utils.assert_same_structure([1, (2,)], [3, (4,)]) is None
    )
    assert utils.pack_sequence_as(nest, list("abcdef")) == ["a", ("b", {"b": "d", "a": "c"}), Pair("e", ["f"])]
    x = bireme.ones([2])
    assert utils.flatten([x, "text"])[0] is x
    with pytest.raises(ValueError, match=r"map_structure\(structure\)"):
        utils.map_structure(lambda x, y: x, [1, 2], [1])
    with pytest.raises(ValueError, match="expected 2 leaves"):
        utils.pack_sequence_as([1, 2], [1])
    utils.structure.assert_same_structure({"a": [1]}, {"a": [2]})
    for other, kind in (([1, (2,)], TypeError), ([1], ValueError), ([1, 2], ValueError)):
        with pytest.raises(kind, match="assert_same_structure"):
            utils.structure.assert_same_structure([1, [2]], other)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_deprecated(level):
    @utils.deprecated(update_to="new", since="1.0", reason="slow", level=level)
    def old(x):
        "What it does."
        return x

    assert old.__doc__.endswith("What it does.") and old.__name__ == "old"
    if level == 2:
        with pytest.raises(RuntimeError, match=r'old: Deprecated since 1.0; use "new" instead'):
            old(1)
        return
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert old(1) == 1
    assert [w.category for w in seen] == [DeprecationWarning] * level
    assert all(w.filename == __file__ for w in seen)


def test_versions():
    for good in (("0.1",), ("3.2",), ("3.2.2.0",), ("2.0.0", "3.2.2")):
        utils.require_version(*good)
    for bad, kind in (
        (("99.0",), RuntimeError),
        (("0.1", "0.2"), RuntimeError),
        (("abc",), ValueError),
        ((1,), TypeError),
        (("0.1", 3), TypeError),
    ):
        with pytest.raises(kind, match="require_version"):
            utils.require_version(*bad)


def test_a_version_that_the_program_sets(monkeypatch):
    for name, number in zip(("major", "minor", "patch", "rc"), "1410", strict=True):
        monkeypatch.setattr(bireme.version, name, number)
    utils.require_version("1.4.1", "1.4.1")
    with pytest.raises(RuntimeError, match=r"expected version 1.4.2 or later, got 1.4.1.0"):
        utils.require_version("1.4.2")
    for name in ("major", "minor", "patch"):
        monkeypatch.setattr(bireme.version, name, "0")
    with pytest.warns(UserWarning, match="unnamed build"):
        utils.require_version("99.0")


def test_modules():
    assert utils.try_import("json").dumps([1]) == "[1]"
    with pytest.raises(ImportError, match="pip install no_such_module"):
        utils.try_import("no_such_module.part")
    with pytest.raises(ImportError, match=r"^mine$"):
        utils.try_import("no_such_module", "mine")


def test_run_check(capsys, monkeypatch):
    utils.run_check()
    out = capsys.readouterr().out
    assert "cpu: compiling works" in out and "the loss fell" in out and "Everything works" in out

    def broken(place):
        raise RuntimeError("no luck")

    monkeypatch.setattr(check, "_step", broken)
    with pytest.raises(RuntimeError, match="cpu, a training step"):
        utils.run_check()
    assert "a training step does not work: no luck" in capsys.readouterr().out


def test_batches():
    reader = lambda: iter(range(5))  # noqa: E731  # a reader is a function
    assert list(bireme.batch(reader, 2)()) == [[0, 1], [2, 3], [4]]
    assert list(bireme.batch(reader, 2, drop_last=True)()) == [[0, 1], [2, 3]]
    with pytest.raises(ValueError, match=r"batch\(batch_size\)"):
        bireme.batch(reader, 0)


# ---------------------------------------------------------------- downloads, without a net


@pytest.fixture
def served(monkeypatch):
    """Addresses that answer with these bytes."""
    pages: dict[str, bytes] = {}
    asked = []

    def urlopen(url, timeout):
        asked.append(url)
        return io.BytesIO(pages[url])

    monkeypatch.setattr(download.urllib.request, "urlopen", urlopen)
    return pages, asked


def test_a_file_is_fetched_once_and_checked(served, tmp_path, monkeypatch):
    pages, asked = served
    url = "https://host/dir/model.pdparams?x=1"
    pages[url] = b"weights"
    digest = hashlib.md5(b"weights", usedforsecurity=False).hexdigest()
    for _ in range(2):
        path = download.get_path_from_url(url, str(tmp_path), digest)
    assert (tmp_path / "model.pdparams").read_bytes() == b"weights" and path == str(tmp_path / "model.pdparams")
    assert len(asked) == 1
    with pytest.raises(RuntimeError, match="a file with the checksum"):
        download.get_path_from_url(url, str(tmp_path / "other"), "0" * 32)
    assert list((tmp_path / "other").iterdir()) == []
    monkeypatch.setattr(download, "WEIGHTS_HOME", str(tmp_path))
    assert download.get_weights_path_from_url(url) == path


def _tar(names, links=None, kind=tarfile.SYMTYPE):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(name), 0o755 if name.endswith(".sh") else 0o600
            tar.addfile(entry, io.BytesIO(name.encode()))
        for name, target in (links or {}).items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, target
            tar.addfile(entry)
    return data.getvalue()


def test_archives_are_unpacked(served, tmp_path):
    pages, _ = served
    pages["http://h/one.tar.gz"] = _tar(["top/a", "top/b"])
    assert download.get_path_from_url("http://h/one.tar.gz", str(tmp_path)) == str(tmp_path / "top")
    assert sorted(p.name for p in (tmp_path / "top").iterdir()) == ["a", "b"]
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("a", "1")
        archive.writestr("b", "2")
    pages["http://h/two.zip"] = data.getvalue()
    assert download.get_path_from_url("http://h/two.zip", str(tmp_path)) == str(tmp_path / "two")
    assert (tmp_path / "two" / "b").read_text() == "2"
    assert download.get_path_from_url("http://h/two.zip", str(tmp_path), decompress=False) == str(tmp_path / "two.zip")


def test_links_of_archives_become_copies(served, tmp_path):
    pages, _ = served
    for kind, target in ((tarfile.SYMTYPE, "a.sh"), (tarfile.LNKTYPE, "top/a.sh")):
        pages["http://h/one.tar.gz"] = _tar(["top/a.sh", "/top/b"], {"top/c": target, "top/d": target}, kind)
        top = Path(download.get_path_from_url("http://h/one.tar.gz", str(tmp_path / kind.decode())))
        assert {p.name: p.read_text() for p in top.iterdir()} == {
            "a.sh": "top/a.sh",
            "b": "/top/b",
            "c": "top/a.sh",
            "d": "top/a.sh",
        }
        assert not any(p.is_symlink() or p.stat().st_nlink > 1 for p in top.iterdir())
        assert os.access(top / "a.sh", os.X_OK) and not os.access(top / "b", os.X_OK)


@pytest.mark.parametrize(
    "contents",
    [
        (["../../evil"],),
        (["top/../../evil"],),
        (["top/../../../evil"],),
        (["top/a"], {"top/out": "/etc/passwd"}),
        (["top/a"], {"top/out": "../../../evil"}),
        (["top/a"], {"top/loop": "loop"}),
        (["top/a"], {"top/out": "../.."}, tarfile.LNKTYPE),
        (["top/a"], {"top/pipe": ""}, tarfile.FIFOTYPE),
        (["top/a"], {"top/device": ""}, tarfile.CHRTYPE),
    ],
)
def test_archives_that_lead_out_of_their_folder_are_refused(contents, served, tmp_path):
    served[0]["http://h/evil.tar.gz"] = _tar(*contents)
    with pytest.raises(
        tarfile.TarError,
        match=r"get_path_from_url\(url\): expected an archive of files and folders that stay in it, got",
    ):
        download.get_path_from_url("http://h/evil.tar.gz", str(tmp_path / "deep" / "er"))
    found = [p for p in tmp_path.rglob("*") if not p.is_dir()]
    assert {p.name for p in found} <= {"evil.tar.gz", "a"} and not any(p.is_symlink() for p in found)


@pytest.mark.parametrize(
    "url", ["ftp://host/a", "model.pdparams", "https://host/", "https://host/..", "; rm -rf /", "https://host/%2e%2e"]
)
def test_other_addresses_are_refused(url, served, tmp_path):
    with pytest.raises(ValueError, match=r"get_path_from_url\(url\)"):
        download.get_path_from_url(url, str(tmp_path))
    assert served[1] == []


def test_one_address_of_each_machine_fetches():
    assert (
        download._get_unique_endpoints(["b:2", "a:3", "a:1"]) == {"a:1", "b:2"}
        and download._get_unique_endpoints([]) == set()
    )


def test_readers_made_of_readers():
    numbers = lambda n, first=0: lambda: iter(range(first, first + n))  # noqa: E731  # a reader is a function
    r = bireme.reader
    assert list(r.map_readers(lambda a, b: a + b, numbers(3), numbers(4))()) == [0, 2, 4]
    assert list(r.chain(numbers(2), numbers(2, 5))()) == [0, 1, 5, 6]
    assert list(r.firstn(numbers(2), 3)()) == list(r.buffered(numbers(2), 1)()) == [0, 1]
    for size in (1, 3, 10):
        assert sorted(r.shuffle(numbers(7), size)()) == list(range(7))
    assert list(r.compose(numbers(2), numbers(3), check_alignment=False)()) == [(0, 0), (1, 1)]
    with pytest.raises(r.ComposeNotAligned, match="ended before another"):
        list(r.compose(numbers(2), numbers(3))())
    asked = []
    kept = r.cache(lambda: asked.append(1) or [1, 2])
    assert [list(kept()) for _ in range(2)] == [[1, 2]] * 2 and asked == [1]
    for order in (True, False):
        found = list(r.xmap_readers(lambda x: 2 * x, numbers(20), 3, 4, order)())
        assert sorted(found) == list(range(0, 40, 2)) and (found == sorted(found) or not order)


def test_readers_in_threads_say_what_went_wrong_and_end_early():
    def broken():
        yield 1
        raise OSError("no disk")

    for reader in (bireme.reader.buffered(broken, 4), bireme.reader.xmap_readers(lambda x: x, broken, 2, 1)):
        with pytest.raises(OSError, match="no disk"):
            list(reader())
    for reader in (
        bireme.reader.buffered(itertools.count, 2),
        bireme.reader.xmap_readers(lambda x: x, itertools.count, 2, 4, True),
    ):
        assert next(iter(reader())) == 0
    for bad in (lambda: bireme.reader.shuffle(broken, 0), lambda: bireme.reader.xmap_readers(abs, broken, 0, 1)):
        with pytest.raises(ValueError, match="a positive integer"):
            bad()


def test_samples_in_files(tmp_path):
    common = bireme.dataset.common
    common.split(lambda: ({"i": i} for i in range(5)), 2, str(tmp_path / "%d.pickle"))
    readers = [common.cluster_files_reader(str(tmp_path / "*.pickle"), 2, i) for i in range(2)]
    assert [[s["i"] for s in reader()] for reader in readers] == [[0, 1, 4], [2, 3]]
    (tmp_path / "text").write_bytes(b"abc")
    assert common.md5file(tmp_path / "text") == hashlib.md5(b"abc").hexdigest()


def test_a_dataset_is_downloaded_under_a_name(tmp_path, monkeypatch):
    common = bireme.dataset.common
    asked = []

    def urlopen(url, timeout):
        asked.append(url)
        return io.BytesIO(b"abc")

    monkeypatch.setattr(download.urllib.request, "urlopen", urlopen)
    monkeypatch.setattr(common, "DATA_HOME", str(tmp_path))
    digest = hashlib.md5(b"abc").hexdigest()
    for _ in range(2):
        path = common.download("http://host/part?name=a", "set", digest, "whole.txt")
    assert (path, Path(path).read_bytes(), len(asked)) == (str(tmp_path / "set" / "whole.txt"), b"abc", 1)
