"""The compile cache on disk: nothing of others is loaded or changed, nothing damaged is used, and it is bounded; one
folder has one key, however it is spelled.
"""

import os
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import pytest

import bireme
from bireme.core.xla_exec import compile_cache, private

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
PROGRAM = """
    import bireme
    from bireme.core.xla_exec import program_files, xla
    found, made, load, lowered = [], [], program_files.load, xla.lower
    program_files.load = lambda *args: found.append(load(*args)) or found[-1]
    xla.lower = lambda *args, **named: made.append(1) or lowered(*args, **named)
    x = y = bireme.ones([30, 20])
    for _ in range(64):
        y = (y * 0.5 + 1.0)
    assert abs(y.numpy() - 2.0).max() < 1e-6
    (x.exp() * 2.0).sum().item()
    print(sum([program is not None for program in found]), len(made))
"""


def run(named, umask=0o022, cwd=None):
    """Programs that were found on disk, those that were lowered, and what was said, in a process of its own."""
    env = {
        **os.environ,
        "BIREME_CACHE_DIR": str(named),
        "FLAGS_interpret": "0",
        "PYTHONPATH": str(Path(__file__).parent.parent),
    }
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM)]
    done = subprocess.run(command, env=env, umask=umask, cwd=cwd, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    hits, made = map(int, done.stdout.split())
    return hits, made, done.stderr


def own(folder):
    return folder / f"bireme-{os.geteuid()}"


def looks(folder):
    """All that could have been changed in a folder."""
    infos = {path: path.lstat() for path in [folder, *folder.rglob("*")]}
    contents = {path: (info.st_mtime_ns, path.read_bytes()) for path, info in infos.items() if path.is_file()}
    return {path: (i.st_mode, i.st_uid, i.st_nlink, contents.get(path)) for path, i in infos.items()}


def used(folder):
    """Whether programs are looked for in a folder, with the warnings given by the first two who ask."""
    before = looks(folder)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        patch.setenv("BIREME_CACHE_DIR", str(folder))
        patch.setattr(compile_cache, "_looked", set())
        compile_cache.write("a", b"program")
        found = compile_cache.read("a") == b"program"
        assert found == compile_cache.at_hand() == compile_cache.has("a")
        compile_cache.drop("a")
    assert found or looks(folder) == before
    return found, [str(w.message) for w in said]


def not_used(folder, fault):
    """Whether a folder is left alone, as it is, and that is said once."""
    found, said = used(folder)
    assert not found
    assert len(said) == 1 and said[0].startswith(f"the compile cache {own(folder)} is not used: {fault}"), said
    return True


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A folder that a process has left its programs in."""
    folder = tmp_path_factory.mktemp("filled")
    assert run(folder) == (0, 2, "")
    return folder


@pytest.fixture
def folder(filled, tmp_path):
    """The same as a copy."""
    subprocess.run(["cp", "-a", f"{filled}/.", str(tmp_path)], check=True)
    return tmp_path


def test_a_second_process_finds_what_the_first_has_left(folder):
    assert run(folder) == (2, 0, "")


def test_a_shared_folder_stays_open_and_each_user_has_one_in_it(tmp_path):
    shared, theirs = tmp_path / "shared", tmp_path / "shared" / f"bireme-{NOBODY}"
    shared.mkdir()
    shared.chmod(0o1777)
    theirs.mkdir(mode=0o755)
    assert run(shared) == (0, 2, "")
    assert shared.stat().st_mode & 0o7777 == 0o1777 and theirs.stat().st_mode & 0o777 == 0o755
    assert own(shared).stat().st_mode & 0o7777 == 0o700
    assert sorted(p.name for p in shared.iterdir()) == sorted([own(shared).name, theirs.name])


@as_root
def test_a_folder_of_another_user_is_not_used(folder):
    os.chown(own(folder), NOBODY, NOBODY)
    assert not_used(folder, f"it belongs to user {NOBODY}")


@as_root
def test_no_file_of_another_user_is_used(folder, monkeypatch):
    """Whatever kinds of files there are: each one that a process leaves is looked at before any of them is used."""
    files = list(own(folder).rglob("*"))
    assert len(files) == 2
    for file in files:
        os.chown(file, NOBODY, NOBODY)
        monkeypatch.setattr(compile_cache, "_told", set())
        assert not_used(folder, f"{file.name} belongs to user {NOBODY}")
        os.chown(file, os.geteuid(), os.getegid())
    assert used(folder) == (True, [])


@as_root
def test_a_process_does_without_the_programs_of_another_user(folder):
    program = next(own(folder).iterdir())
    os.chown(program, NOBODY, NOBODY)
    before = looks(folder)
    hits, made, said = run(folder)
    assert (hits, made) == (0, 2) and looks(folder) == before
    assert said.count("RuntimeWarning: the compile cache") == 1, said
    assert f"{program.name} belongs to user {NOBODY}" in said, said


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o777, 0o701])
def test_an_open_folder_is_neither_used_nor_closed(mode, folder):
    own(folder).chmod(mode)
    assert not_used(folder, f"it has mode {mode:o}")


def test_a_file_that_others_may_write_to_is_not_used(folder):
    file = next(own(folder).iterdir())
    file.chmod(0o666)
    assert not_used(folder, f"{file.name} has mode 666")


def test_a_link_in_the_place_of_the_folder_is_not_followed(tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    own(tmp_path / "cache").symlink_to(tmp_path / "elsewhere")
    assert not_used(tmp_path / "cache", "it is a symbolic link")
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_link_in_the_place_of_a_file_is_not_followed(link, folder, tmp_path_factory):
    file = next(own(folder).iterdir())
    other = tmp_path_factory.mktemp("other") / "file"
    file.rename(other)
    link(other, file)
    before = other.read_bytes()
    assert not_used(folder, f"{file.name} is a link")
    assert other.read_bytes() == before


@pytest.mark.parametrize("umask", [0o002, 0o077])
def test_what_is_written_under_a_umask_is_found_again(umask, tmp_path):
    assert run(tmp_path, umask) == (0, 2, "")
    assert run(tmp_path, umask) == (2, 0, "")


def test_a_file_that_was_exchanged_after_the_look_is_not_read(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"ours")
    assert private.read(file) == b"ours"
    for exchange in (
        lambda: file.symlink_to(tmp_path / "other"),
        lambda: os.link(tmp_path / "other", file),
        lambda: os.mkfifo(file),
    ):
        (tmp_path / "other").write_bytes(b"theirs")
        file.unlink()
        exchange()
        with pytest.raises(OSError):
            private.read(file)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="without /proc an open folder has no path of its own")
def test_a_folder_that_was_exchanged_after_the_look_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("BIREME_CACHE_DIR", str(tmp_path))
    with compile_cache.opened() as root:
        (root / "program").write_bytes(b"ours")
        own(tmp_path).rename(tmp_path / "away")
        own(tmp_path).mkdir()
        (own(tmp_path) / "program").write_bytes(b"theirs")
        assert (root / "program").read_bytes() == b"ours"


def test_one_folder_has_one_key_however_it_is_spelled(folder):
    (folder / "deep").mkdir()
    (folder / "link").symlink_to(folder)
    for spelled in ("../", f"{folder}/link//deep/.."):
        assert run(spelled, cwd=folder / "deep") == (2, 0, ""), spelled


def test_a_cache_is_found_where_it_was_moved_to(folder, tmp_path_factory):
    assert run(folder.rename(tmp_path_factory.mktemp("moved") / "here")) == (2, 0, "")


# ---------------------------------------------------------------- the files


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("BIREME_CACHE_DIR", str(tmp_path))
    return own(tmp_path)


def names(folder):
    return sorted([path.name for path in folder.iterdir()])


@pytest.mark.parametrize(
    "damage",
    [lambda b: b"", lambda b: b[:20], lambda b: b[:-1], lambda b: b[:70] + b"?" + b[71:], lambda b: b"?" + b[1:]],
)
def test_a_damaged_file_is_none_and_is_dropped(damage, here):
    compile_cache.write("one", b"program" * 100)
    assert compile_cache.read("one") == b"program" * 100
    (here / "one").write_bytes(damage((here / "one").read_bytes()))
    assert compile_cache.read("one") is None and not compile_cache.has("one")


def test_a_file_under_another_name_is_none(here):
    compile_cache.write("one", b"program")
    (here / "one").rename(here / "two")
    assert compile_cache.read("two") is None


def test_a_full_disk_keeps_no_part(here, monkeypatch):
    def full(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(compile_cache.Path, "replace", full)
    compile_cache.write("one", b"program")
    assert names(here) == []


def test_those_used_last_stay(here, monkeypatch):
    monkeypatch.setattr(compile_cache, "MOST", 10)
    for i in range(10):
        compile_cache.write(f"{i}", b"program")
        os.utime(here / f"{i}", (i, i))
    assert compile_cache.read("0") == b"program"  # used, so it is the youngest now
    compile_cache.write("new", b"program")
    assert names(here) == ["0", "4", "5", "6", "7", "8", "9", "new"][:1] + ["5", "6", "7", "8", "9", "new"]
    bireme.set_flags({"FLAGS_compile_cache_bytes": 500})
    try:
        compile_cache.write("large", b"x" * 200)
        compile_cache.write("too large", b"x" * 400)
    finally:
        bireme.set_flags({"FLAGS_compile_cache_bytes": 2 << 30})
    assert "large" in names(here) and "too large" not in names(here)
    assert sum([path.stat().st_size for path in here.iterdir()]) <= 500


def test_what_cannot_be_loaded_is_compiled_and_kept_anew(folder):
    """As a program of another compiler that says it is this one."""
    before = looks(folder)
    for path in own(folder).iterdir():
        digest = compile_cache._digest(path.name, b"no program")
        path.write_bytes(compile_cache.HEAD + digest + b"no program")
    assert run(folder) == (0, 2, "")
    assert looks(folder).keys() == before.keys() and run(folder) == (2, 0, "")
