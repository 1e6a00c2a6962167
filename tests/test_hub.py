"""Hub: what a folder's hubconf.py offers; the network only by a commit. And sysconfig, cost_model, words of tensors."""

import copy
import os
import pickle
import sys
import zipfile

import pytest

import bireme
from bireme import hub

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CONF = '''
import helper_of_this_hub
dependencies = ["numpy"]
WIDTH = 3
def tiny(width=WIDTH):
    """A tiny model."""
    return helper_of_this_hub.layer(width)
def _hidden():
    pass
'''


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "hubconf.py").write_text(CONF)
    (tmp_path / "helper_of_this_hub.py").write_text("import bireme\ndef layer(n): return bireme.nn.Linear(n, n)")
    yield tmp_path
    sys.modules.pop("helper_of_this_hub", None)


def test_a_folder(folder):
    path = list(sys.path)
    assert hub.list(folder, source="local") == ["tiny"]
    assert hub.help(str(folder), "tiny", source="local") == "A tiny model."
    assert hub.load(folder, "tiny", source="local", width=5).weight.shape == [5, 5]
    assert sys.path == path and "hubconf" not in sys.modules


@pytest.mark.parametrize(
    ("call", "message", "kind"),
    [
        (
            lambda f: hub.list(f / "none", source="local"),
            "list(repo_dir): expected a folder with hubconf.py",
            ValueError,
        ),
        (lambda f: hub.load(f, "_none", source="local"), "load(model): expected one of 'tiny', got '_none'", KeyError),
        (lambda f: hub.help(f, 3, source="local"), "help(model): expected the name of a function, got 3", TypeError),
        (
            lambda f: hub.list(f, source="svn"),
            "list(source): expected 'github', 'gitee' or 'local', got 'svn'",
            ValueError,
        ),
    ],
)
def test_what_a_folder_does_not_offer(folder, call, message, kind):
    with pytest.raises(kind) as e:
        call(folder)
    assert str(e.value).startswith(message)


def test_dependencies_that_are_missing(folder):
    (folder / "hubconf.py").write_text("dependencies = ['numpy', 'no_such_package']\ndef tiny(): pass")
    with pytest.raises(RuntimeError, match="to be installed, got no_such_package missing"):
        hub.load(folder, "tiny", source="local")
    assert hub.list(folder, source="local") == ["tiny"]
    (folder / "hubconf.py").write_text("import no_such_package")
    with pytest.raises(RuntimeError, match="which cannot be imported: No module named 'no_such_package'"):
        hub.list(folder, source="local")


@pytest.mark.parametrize("source", ["github", "gitee"])
@pytest.mark.parametrize(
    "repository", ["owner/name", "owner/name:main", f"owner/name:{COMMIT[:7]}", f"a/../b:{COMMIT}"]
)
def test_the_network_needs_a_commit(monkeypatch, source, repository):
    monkeypatch.setattr(hub.download, "get_path_from_url", None)
    with pytest.raises(ValueError) as e:
        hub.load(repository, "tiny", source=source)
    first, hint, *_ = str(e.value).splitlines()
    assert first.startswith(
        "load(repo_dir): expected 'owner/name:commit' with the 40 digits of a commit, since what it"
    )
    assert "source='local'" in hint


def archive(path, comment, prefix="name-0123/"):
    with zipfile.ZipFile(path, "w") as made:
        made.writestr(f"{prefix}hubconf.py", "def tiny(): return 7")
        made.comment = comment.encode()
    return str(path)


@pytest.fixture
def served(tmp_path, monkeypatch):
    """Addresses that were asked for; each gives the archive of the test."""
    asked = []
    monkeypatch.setattr(hub, "HUB_DIR", str(tmp_path / "hub"))

    def get(url, folder, md5sum=None, decompress=True):
        asked.append(url)
        return str(tmp_path / "served.zip")

    monkeypatch.setattr(hub.download, "get_path_from_url", get)
    return asked


def test_a_commit_is_fetched_once(served, tmp_path):
    archive(tmp_path / "served.zip", COMMIT)
    assert hub.load(f"owner/name:{COMMIT}", "tiny") == 7
    assert hub.list(f"owner/name:{COMMIT}") == ["tiny"]
    assert served == [f"https://github.com/owner/name/archive/{COMMIT}.zip"]
    hub.list(f"owner/name:{COMMIT}", force_reload=True)
    assert len(served) == 2 and len(os.listdir(tmp_path / "hub")) == 1


def test_archives_that_are_not_taken(served, tmp_path, monkeypatch):
    archive(tmp_path / "served.zip", "f" * 40)
    with pytest.raises(bireme.errors.FileFormatError, match=r"got .*: an archive of another commit"):
        hub.list(f"owner/name:{COMMIT}")
    archive(tmp_path / "served.zip", "", prefix="../../")
    with pytest.raises(bireme.errors.FileFormatError, match="expected an archive of one folder"):
        hub.list(f"owner/name:{COMMIT}", source="gitee")
    assert not (tmp_path / "hubconf.py").exists()
    archive(tmp_path / "served.zip", COMMIT)
    monkeypatch.setattr(hub.archives, "MAX_KEPT", 5)
    with pytest.raises(bireme.errors.FileFormatError, match="1 files of 20 bytes"):
        hub.list(f"owner/name:{COMMIT}")
    (tmp_path / "served.zip").write_bytes(b"text")
    with pytest.raises(bireme.errors.FileFormatError, match="it is damaged"):
        hub.list(f"owner/name:{COMMIT}")


def test_state_dicts(tmp_path, monkeypatch):
    bireme.save({"w": bireme.ones([2])}, str(tmp_path / "there.pdparams"))
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as made:
        made.write(tmp_path / "there.pdparams", "folder/packed.pdparams")
    url = "https://host/there.pdparams?x=1"
    assert hub.load_state_dict_from_url(url, tmp_path)["w"].tolist() == [1.0, 1.0]
    assert hub.load_state_dict_from_url(url, tmp_path, map_location="cpu")["w"].place.is_cpu_place()
    packed = hub.load_state_dict_from_url("https://host/packed.zip", tmp_path, map_location="np")
    assert type(packed["w"]).__name__ == "ndarray" and (tmp_path / "packed.pdparams").exists()

    def get(url, folder, md5sum=None, decompress=True):
        assert (md5sum, decompress) == ("abc", False)
        os.replace(tmp_path / "there.pdparams", tmp_path / "new.pdparams")
        return str(tmp_path / "new.pdparams")

    monkeypatch.setattr(hub.download, "get_path_from_url", get)
    found = hub.load_state_dict_from_url("https://host/new.pdparams", tmp_path, "abc", "kept.pdparams")
    assert found["w"].shape == [2] and (tmp_path / "kept.pdparams").exists()
    for arguments, message in [
        ({"map_location": "tpu"}, "map_location): expected 'cpu', 'gpu'"),
        ({"file_name": "../x"}, "file_name): expected a name without folders, got '../x'"),
    ]:
        with pytest.raises(ValueError) as e:
            hub.load_state_dict_from_url(url, tmp_path, **arguments)
        assert str(e.value).startswith(f"load_state_dict_from_url({message}")


def test_headers_are_there():
    assert os.path.isfile(os.path.join(bireme.sysconfig.get_include(), "xla", "ffi", "api", "c_api.h"))
    assert os.path.isdir(bireme.sysconfig.get_lib())


def test_costs():
    model = bireme.cost_model.CostModel()
    startup, main = model.build_program()
    assert bireme.in_dynamic_mode() and "X" in str(main)
    before = bireme.get_device()
    assert model.profile_measure(startup, main, "cpu").keys() == {"time"}
    assert bireme.get_device() == before
    found = model.get_static_op_time("matmul", dtype="float64")
    assert found["op_time"] > 0 and found["config"].startswith("float64 [128, 128] [128, 128] ")
    for call, message in [
        (lambda: model.get_static_op_time("fly"), "get_static_op_time(op_name): expected one of 'add', "),
        (
            lambda: model.profile_measure(startup, main, "cpu", ["memory"]),
            "profile_measure(fetch_cost_list): expected ",
        ),
    ]:
        with pytest.raises(ValueError) as e:
            call()
        assert str(e.value).startswith(message)


def test_words_of_tensors():
    x = bireme.to_tensor([1.0])
    with pytest.raises(ValueError, match=r"get_map_tensor\(\): expected a tensor with a vocabulary"):
        x.get_map_tensor()
    x.set_vocab({"a": 1, "b": 2})
    assert x.get_map_tensor() == {"a": 1, "b": 2}
    assert copy.deepcopy(x).get_map_tensor() == pickle.loads(pickle.dumps(x)).get_map_tensor() == {"a": 1, "b": 2}
    assert (x + 1).tolist() == [2.0]
    x.set_string_list(["one", "two"])
    with pytest.raises(ValueError):
        x.get_map_tensor()
    with pytest.raises(TypeError, match=r"set_vocab\(value\): expected a dict of integers by words, got dict"):
        x.set_vocab({1: 2})
    with pytest.raises(TypeError, match=r"set_string_list\(value\): expected a list of str, got 'ab'"):
        x.set_string_list("ab")
