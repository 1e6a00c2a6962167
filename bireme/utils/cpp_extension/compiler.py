"""The system's C++ compiler, and CUDA's: from sources and flags to a library in a folder, made once for the same contents.

It starts the compiler, which the rest of the package must not: its arguments are a list, and no shell reads them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bireme.core.base import errors
from bireme.core.declare import foreign
from bireme.core.xla_exec import compile_cache, private
from bireme.utils.cpp_extension import cuda

SOURCES = (".cc", ".cpp", ".cxx", ".c++", ".C")
HEADERS = Path(__file__).parents[2] / "include"
FLAGS = ("-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden")
# "a.cc:3:5: error: ..." of C++ compilers, "a.cu(3): error: ..." of nvcc
_ERROR = re.compile(r"^(.*?(?::\d+|\(\d+\))):(?:\d+:)? (?:catastrophic |fatal )?error:? ?(?:#\S+ )?(.*)$", re.MULTILINE)
_LINK = re.compile(r"^.*(?:undefined reference|cannot find|undefined symbol|not found).*$", re.MULTILINE)


def directory() -> Path:
    """The folder that libraries are kept in: BIREME_EXTENSION_DIR, else one beside the compile cache."""
    named = os.environ.get("BIREME_EXTENSION_DIR")
    if named:
        return Path(os.path.realpath(os.path.expanduser(named)))
    cache = compile_cache.directory()
    if cache is None:
        hint = "let BIREME_EXTENSION_DIR name a folder"
        raise errors.failure("load(): expected a home directory to keep compiled extensions in, got none", hint=hint)
    return cache.with_name(f"{cache.name}-extensions")


def opened(folder: Path, own: bool) -> Path:
    """The folder, made if there is none; raises where others may have written what is in it.

    One of Bireme's own is closed to others; one that the user names may be read by them.
    """
    try:
        if own:
            os.close(private.open_folder(folder))
            return folder
        folder.mkdir(parents=True, exist_ok=True)
        info = folder.stat()
        if info.st_uid != os.geteuid() or info.st_mode & 0o022:
            raise private.Untrusted(f"it has mode {stat.S_IMODE(info.st_mode):o} and belongs to user {info.st_uid}")
    except OSError as e:
        told = f"{folder}: {e}"
        raise errors.bad(
            "load(build_directory)", "a folder that nobody else can write to", described=told, kind=PermissionError
        ) from None
    return folder


def command() -> list[str]:
    """The compiler, with the arguments that CXX gives it."""
    for name in (os.environ.get("CXX", ""), "c++", "g++", "clang++"):
        words = shlex.split(name)
        found = shutil.which(words[0]) if words else None
        if found is not None:
            return [found, *words[1:]]
    raise errors.failure(
        "load(): expected a C++ compiler, got none",
        hint="install g++ or clang++, or let the environment variable CXX name a compiler",
        kind=FileNotFoundError,
    )


def checked_sources(where: str, sources: Sequence[str], on_gpu: bool = True) -> list[Path]:
    """The sources as paths that lead to files of C++, or of CUDA if they may be."""
    if isinstance(sources, (str, os.PathLike)) or not all(isinstance(s, (str, os.PathLike)) for s in sources):
        raise errors.bad(where, "a list of paths", sources, kind=errors.ArgumentTypeError)
    paths = [Path(os.path.abspath(s)) for s in sources]
    if not paths:
        raise errors.bad(where, "at least one source", sources)
    for path in paths:
        if path.suffix not in (*SOURCES, *(cuda.SOURCES if on_gpu else ())):
            hint = "CUDAExtension takes sources in CUDA" if path.suffix in cuda.SOURCES else None
            kinds = f"files of C++ ({', '.join(SOURCES)})" + (f" or CUDA ({', '.join(cuda.SOURCES)})" if on_gpu else "")
            raise errors.bad(where, kinds, str(path), hint=hint)
        if not path.is_file():
            raise errors.bad(where, "a file", str(path), kind=FileNotFoundError)
    return paths


def build(
    name: str,
    sources: Sequence[Path],
    flags: Sequence[str] = (),
    link_flags: Sequence[str] = (),
    include: Sequence[str] = (),
    libraries: Sequence[str] = (),
    folder: Path | None = None,
    verbose: bool = False,
    cuda_flags: Sequence[str] = (),
) -> Path:
    """The library of these sources, compiled unless one of the same contents is in the folder."""
    root = opened(directory() if folder is None else folder, folder is None)
    by = commands(sources, flags, include, cuda_flags)
    linking = [*[f"-L{path}" for path in libraries], *[f"-Wl,-rpath,{path}" for path in libraries], *link_flags]
    if cuda.needed(sources):
        linking += cuda.linking()
    digest = _digest([json.dumps([by, linking, [str(s) for s in sources]])])
    entry = root / f"{name}-{digest[:16]}.json"
    found = _known(entry, sources)
    if found is None:
        return _compiled(name, by, linking, sources, entry, verbose)
    if verbose:
        sys.stdout.write(f"{name}: compiled before, in {found}\n")
    return found


def commands(
    sources: Sequence[Path], flags: Sequence[str], include: Sequence[str], cuda_flags: Sequence[str]
) -> dict[str, list[str]]:
    """What compiles a source of each kind: of C++, and of CUDA if there are such."""
    included = [f"-I{path}" for path in (HEADERS, foreign.include_directory(), *include)]
    host = command()
    if not cuda.needed(sources):
        return {"c++": [*host, *FLAGS, *included, *flags]}
    # the same classes in all sources: with a stream, wherever one of them has kernels for a GPU
    defined = ["-DPADDLE_WITH_CUDA", *[f"-I{path}" for path in cuda.headers()]]
    return {
        "c++": [*host, *FLAGS, *included, *defined, *flags],
        "cuda": [*cuda.compiling(host, FLAGS, cuda_flags), *included, *defined, *cuda_flags],
    }


def _digest(parts: Sequence[str], files: Sequence[Path] = ()) -> str:
    made = hashlib.sha256("\n".join(parts).encode())
    for path in files:
        made.update(f"\n{path}\n".encode() + path.read_bytes())
    return made.hexdigest()


def _known(entry: Path, sources: Sequence[Path]) -> Path | None:
    """The library that was made by these arguments, if the files that it was made of are still the same."""
    try:
        read = [Path(p) for p in json.loads(private.read(entry))]
        library = _library(entry, read)
        private.read(library)  # of the user's own
    except (OSError, ValueError, TypeError):
        return None
    return library if set(sources) <= set(read) else None


def _library(entry: Path, read: Sequence[Path]) -> Path:
    """By the contents of all it is made of: a library that is loaded already is never written over."""
    return entry.with_name(f"{entry.stem}-{_digest([], read)[:16]}.so")


def _compiled(
    name: str, by: dict[str, list[str]], linking: list[str], sources: Sequence[Path], entry: Path, verbose: bool
) -> Path:
    with tempfile.TemporaryDirectory(dir=entry.parent, prefix=f".{name}-") as made:
        part = Path(made)
        before, objects, read = _digest([], sources), [], set(sources)
        for i, source in enumerate(sources):
            objects.append(str(part / f"{i}.o"))
            listed = part / f"{i}.d"  # what the source includes, without the system's headers
            compiling = by["cuda" if source.suffix in cuda.SOURCES else "c++"]
            _run(name, [*compiling, "-c", str(source), "-MMD", "-MF", str(listed), "-o", objects[-1]], entry, verbose)
            read |= _listed(listed.read_text())
        _run(name, [*by["c++"], "-shared", *objects, *linking, "-o", str(part / "library.so")], entry, verbose)
        if _digest([], sources) != before:
            raise errors.failure(f"load(sources): a source of {name} was changed while it was compiled")
        library = _library(entry, sorted(read))
        (part / "entry").write_text(json.dumps([str(p) for p in sorted(read)]))
        for file, mode, target in (("library.so", 0o700, library), ("entry", 0o600, entry)):
            os.chmod(part / file, mode)
            os.replace(part / file, target)
    return library


def _run(name: str, arguments: list[str], entry: Path, verbose: bool) -> None:
    told = {**os.environ, "LC_ALL": "C"}  # errors are looked for by the word
    done = subprocess.run(
        arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, env=told
    )
    text = f"{shlex.join(arguments)}\n{done.stdout.decode('utf-8', 'replace')}"
    if verbose:
        sys.stdout.write(text)
    if done.returncode:
        raise _failure(name, text, entry.parent)


def _listed(text: str) -> set[Path]:
    """The files in a rule of make: "0.o: a.cc a\\ b.h", and so on behind a backslash at the end of a line."""
    words = re.split(r"(?<!\\)\s+", text.replace("\\\n", " ").partition(": ")[2])
    return {Path(os.path.abspath(w.replace("\\ ", " "))) for w in words if w}


def _failure(name: str, text: str, folder: Path) -> Exception:
    log = folder / f"{name}.log"
    with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
        file.write(text)
    os.replace(file.name, log)
    found = _ERROR.search(text)
    if found is not None:
        told = f"{found[1]}: {found[2]}"
    else:
        line = _LINK.search(text.partition("\n")[2])
        told = line[0].strip() if line is not None else "an error of the compiler"
    return errors.bad(
        "load(sources)", f"code that compiles to {name}", described=told, hint=f"all that the compiler says is in {log}",
        kind=RuntimeError,
    )  # fmt: skip


def run(command: list[str], folder: str | os.PathLike, quiet: bool) -> tuple[int, str]:
    """Run a program of this environment in a folder: its exit code, and what it wrote about errors."""
    here = str(Path(__file__).parents[3])
    paths = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        command, cwd=folder, capture_output=quiet, text=True, check=False, env={**os.environ, "PYTHONPATH": paths}
    )
    return done.returncode, done.stderr or ""
