"""Text in images and PDFs, read with the networks of PP-OCR."""

from bireme.ocr.options import Options
from bireme.ocr.reader import Reader
from bireme.ocr.results import Line, Page

__all__ = ["Reader", "Options", "Page", "Line"]
