"""The compile cache on disk: nothing of others is loaded or changed; one folder has one key, however it is spelled."""

import os
import subprocess
import sys
import textwrap
import threading
import warnings
from pathlib import Path

import jax
import pytest

from bireme.core.base import device
from bireme.core.xla_exec import compile_cache, lowered_cache, private

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
PROGRAM = """
    import jax
    hits = []
    jax.monitoring.register_event_listener(lambda event, **_: hits.append(1) if event.endswith("cache_hits") else 0)
    import bireme
    from bireme.core.xla_exec import lowered_cache as traced
    made, text_of = [], traced._text_of
    traced._text_of = lambda *args: made.append(1) or text_of(*args)
    x = y = bireme.ones([30, 20])
    for _ in range(traced.MIN_CALLS):
        y = (y * 0.5 + 1.0)
    assert abs(y.numpy() - 2.0).max() < 1e-6
    (x.exp() * 2.0).sum().item()
    print(len(hits), len(made))
"""


def run(named, umask=0o022, cwd=None):
    """Programs that were found on disk, graphs that were traced, and what was said, in a process of its own."""
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
        outside = jax.config.jax_compilation_cache_dir
        places = [compile_cache.on_disk(lambda: jax.config.jax_compilation_cache_dir) for _ in range(2)]
        found = compile_cache.at_hand()
    assert [place != outside for place in places] == [found] * 2
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
    assert run(folder) == (0, 1, "")
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
    assert run(shared) == (0, 1, "")
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
    assert len(files) >= 7  # two programs with the times of their use, a text and its folder, a lock
    for file in files:
        os.chown(file, NOBODY, NOBODY)
        monkeypatch.setattr(compile_cache, "_told", set())
        assert not_used(folder, f"{file.name} belongs to user {NOBODY}")
        os.chown(file, os.geteuid(), os.getegid())
    assert used(folder) == (True, [])


@as_root
def test_a_process_does_without_the_programs_of_another_user(folder):
    program = next(own(folder).glob("*-cache"))
    os.chown(program, NOBODY, NOBODY)
    before = looks(folder)
    hits, made, said = run(folder)
    assert (hits, made) == (0, 0) and looks(folder) == before
    assert said.count("RuntimeWarning: the compile cache") == 1, said
    assert f"{program.name} belongs to user {NOBODY}" in said, said


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o777, 0o701])
def test_an_open_folder_is_neither_used_nor_closed(mode, folder):
    own(folder).chmod(mode)
    assert not_used(folder, f"it has mode {mode:o}")


@pytest.mark.parametrize("kind", ["-cache", "-atime", "traced/"])
def test_a_file_that_others_may_write_to_is_not_used(kind, folder):
    file = next(p for p in own(folder).rglob("*") if p.is_file() and kind in f"{p.relative_to(own(folder))}")
    file.chmod(0o666)
    assert not_used(folder, f"{file.name} has mode 666")


def test_a_link_in_the_place_of_the_folder_is_not_followed(tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    own(tmp_path / "cache").symlink_to(tmp_path / "elsewhere")
    assert not_used(tmp_path / "cache", "it is a symbolic link")
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("link", [os.symlink, os.link])
@pytest.mark.parametrize("kind", ["-cache", "-atime", "traced/"])
def test_a_link_in_the_place_of_a_file_is_not_followed(kind, link, folder, tmp_path_factory):
    file = next(p for p in own(folder).rglob("*") if p.is_file() and kind in f"{p.relative_to(own(folder))}")
    other = tmp_path_factory.mktemp("other") / "file"
    file.rename(other)
    link(other, file)
    before = other.read_bytes()
    assert not_used(folder, f"{file.name} is a link")
    assert other.read_bytes() == before


@pytest.mark.parametrize("umask", [0o002, 0o077])
def test_what_a_umask_lets_jax_write_is_found_again(umask, tmp_path):
    assert run(tmp_path, umask) == (0, 1, "")
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


# ---------------------------------------------------------------- jax's settings


def settings():
    return {name: getattr(jax.config, name) for name in compile_cache.SETTINGS}


class Held:
    """A compile in a thread of its own, which ends when it is told to; `seen` are jax's settings then and before."""

    def __init__(self):
        self.seen, self._go, inside = [], threading.Event(), threading.Event()

        def compiled():
            self.seen.append(settings())
            inside.set()
            assert self._go.wait(60)
            self.seen.append(settings())

        self._thread = threading.Thread(target=compile_cache.on_disk, args=(compiled,))
        self._thread.start()
        assert inside.wait(60)

    def end(self):
        self._go.set()
        self._thread.join(60)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("BIREME_CACHE_DIR", str(tmp_path))
    return own(tmp_path)


def folder_of(seen):
    return os.path.realpath(seen["jax_compilation_cache_dir"])


def test_compiles_side_by_side_see_the_same_settings(here):
    outside, places = settings(), []
    one, two = Held(), Held()
    one.end()  # the first goes first: what it has set stays for the other
    compile_cache.on_disk(lambda: places.append(folder_of(settings())))
    assert settings() == two.seen[0] != outside
    two.end()
    assert settings() == outside
    assert one.seen == two.seen == [one.seen[0]] * 2 and places == [str(here)]


def test_a_compile_for_another_folder_waits(here, tmp_path_factory, monkeypatch):
    outside, other = settings(), tmp_path_factory.mktemp("other")
    one = Held()
    monkeypatch.setenv("BIREME_CACHE_DIR", str(other))
    places = []
    thread = threading.Thread(target=compile_cache.on_disk, args=(lambda: places.append(folder_of(settings())),))
    thread.start()
    assert settings() == one.seen[0] and not places
    one.end()
    thread.join(60)
    assert one.seen[1] == one.seen[0] and places == [str(own(other))]
    assert settings() == outside


def test_what_failed_is_compiled_without_the_settings_of_another_thread(here):
    """The second attempt must not find the folder in jax's settings because another compile still goes on."""
    outside, tried, waits = settings(), [], threading.Event()
    one = Held()

    def compiled():
        tried.append(settings() if tried else folder_of(settings()))
        if len(tried) == 1:
            waits.set()
            raise OSError("a full disk")

    thread = threading.Thread(target=compile_cache.on_disk, args=(compiled,))
    thread.start()
    assert waits.wait(60)
    one.end()
    thread.join(60)
    assert tried == [str(here), outside]
    assert one.seen[1] == one.seen[0] and settings() == outside and not compile_cache.at_hand()


def test_what_somebody_sets_during_a_compile_stays(here, monkeypatch):
    before = jax.config.jax_persistent_cache_min_compile_time_secs
    one = Held()
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 7.5)
    try:
        one.end()
        assert jax.config.jax_persistent_cache_min_compile_time_secs == 7.5
    finally:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", before)


def test_what_lowering_looks_at_is_the_same_while_another_thread_compiles(here):
    before = lowered_cache.surroundings(device.current())
    one = Held()
    assert lowered_cache.surroundings(device.current()) == before
    one.end()
