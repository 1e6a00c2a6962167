"""What can be set of a reader: names as PaddleOCR's, with the defaults of PaddleOCR 2, but for `rec_batch_num`, and of RapidOCR."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from bireme.core.base import errors


@dataclass(frozen=True)
class Options:
    """Settings of a ``Reader``, as PaddleOCR's command line has them.

    Args:
        det_limit_side_len: Side that a page is resized to before lines are looked for, see ``det_limit_type``.
        det_limit_type: ``'max'`` if the longer side is at most that, ``'min'`` if the shorter one is at least that.
        det_mean: Mean of each channel (blue, green, red) that is subtracted from values of 0 to 1.
        det_std: What they are divided by then.
        det_db_thresh: Probability from which a pixel belongs to a line.
        det_db_box_thresh: Mean probability inside of a box from which it is one.
        det_db_unclip_ratio: How far a box is widened: its area times this by its perimeter.
        det_max_candidates: Outlines that are looked at, at most.
        use_dilation: Whether pixels of lines are thickened first, which joins what is nearly connected.
        det_db_score_mode: ``'fast'`` takes the mean over the rectangle, ``'slow'`` over the outline itself.
        max_side_len: Longest side of a page; what is larger is made smaller first. None: no limit.
        min_side_len: Shortest side of a page; what is smaller is made larger first. None: no limit.
        max_aspect: Pages that are wider than so many heights, or low, get a border above and below. None: none do.
        use_angle_cls: Whether lines that stand on their head are found and turned.
        cls_image_shape: Channels, height and width of what is asked for its direction.
        cls_batch_num: Has no effect: lines are asked one by one, which takes no longer.
        cls_thresh: Probability from which a line is turned.
        rec_image_shape: Channels, height and least width of what is read.
        rec_batch_num: Lines of similar widths that are padded to that of the widest. A line alone is resized to the nearest of
            some widths instead: that is less work, few programs, and more characters are right. PaddleOCR's default is 6.
        rec_max_width: Width of a line, at most. None: no limit.
        use_space_char: Whether the last class of the recognition is a space.
        drop_score: Confidence below which a line is dropped.

    Examples:
        >>> bireme.ocr.Options(drop_score=0.8).det_db_thresh
        0.3
    """

    det_limit_side_len: int = 960
    det_limit_type: str = "max"
    det_mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    det_std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    det_db_thresh: float = 0.3
    det_db_box_thresh: float = 0.6
    det_db_unclip_ratio: float = 1.5
    det_max_candidates: int = 1000
    use_dilation: bool = False
    det_db_score_mode: str = "fast"
    max_side_len: int | None = None
    min_side_len: int | None = None
    max_aspect: float | None = None
    use_angle_cls: bool = True
    cls_image_shape: tuple[int, int, int] = (3, 48, 192)
    cls_batch_num: int = 6
    cls_thresh: float = 0.9
    rec_image_shape: tuple[int, int, int] = (3, 48, 320)
    rec_batch_num: int = 1
    rec_max_width: int | None = 3200
    use_space_char: bool = True
    drop_score: float = 0.5

    def __post_init__(self) -> None:
        if self.det_limit_type not in ("min", "max"):
            raise errors.bad("Options(det_limit_type)", "'min' or 'max'", self.det_limit_type)
        if self.det_db_score_mode not in ("fast", "slow"):
            raise errors.bad("Options(det_db_score_mode)", "'fast' or 'slow'", self.det_db_score_mode)
        for name in ("det_db_thresh", "det_db_box_thresh", "cls_thresh", "drop_score"):
            if not 0 <= getattr(self, name) <= 1:
                raise errors.bad(f"Options({name})", "a number of 0 to 1", getattr(self, name))
        for name in ("det_limit_side_len", "det_max_candidates", "cls_batch_num", "rec_batch_num"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise errors.bad(f"Options({name})", "a positive integer", getattr(self, name))


SETTINGS = {
    "paddleocr": Options(),
    "rapidocr": Options(
        det_limit_side_len=736,
        det_limit_type="min",
        det_mean=(0.5, 0.5, 0.5),
        det_std=(0.5, 0.5, 0.5),
        det_db_box_thresh=0.5,
        det_db_unclip_ratio=1.6,
        use_dilation=True,
        max_side_len=2000,
        min_side_len=30,
        max_aspect=8,
        rec_batch_num=6,
        rec_max_width=None,
    ),
}
LOW_PAGE = 30  # pixels: with `max_aspect`, a page that is not higher gets a border too

# what PaddleOCR 3 calls the same
_LATER_NAMES = {
    "text_det_limit_side_len": "det_limit_side_len",
    "text_det_limit_type": "det_limit_type",
    "text_det_thresh": "det_db_thresh",
    "text_det_box_thresh": "det_db_box_thresh",
    "text_det_unclip_ratio": "det_db_unclip_ratio",
    "text_rec_score_thresh": "drop_score",
    "text_recognition_batch_size": "rec_batch_num",
    "textline_orientation_batch_size": "cls_batch_num",
    "use_textline_orientation": "use_angle_cls",
}


def chosen(settings: str | Options, given: dict[str, Any]) -> Options:
    """The named settings with some that are given one by one, by either of their names."""
    if isinstance(settings, str) and settings not in SETTINGS:
        raise errors.bad("Reader(settings)", " or ".join(map(repr, SETTINGS)) + ", or Options", settings)
    if not isinstance(settings, (str, Options)):
        raise errors.bad("Reader(settings)", "a string or Options", settings, kind=errors.ArgumentTypeError)
    base = SETTINGS[settings] if isinstance(settings, str) else settings
    renamed = {_LATER_NAMES.get(name, name): value for name, value in given.items()}
    known = {field.name for field in fields(Options)}
    for name in renamed:
        if name not in known:
            raise errors.failure(f"Reader has no option {name}; it has {', '.join(sorted(known))}", kind=TypeError)
    return replace(base, **renamed)
