"""Greedy non-maximum suppression of boxes on the host; what `nms` and `generate_proposals` share."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

_CHUNK = 512  # candidates that are settled at a time
_PAIRS = 1 << 20  # of boxes in small groups that are looked at together
_ROWS = 32  # boxes that are compared with others at a time: what a comparison writes stays in the cache


def areas(boxes: np.ndarray, offset: int = 0) -> np.ndarray:
    """Areas of boxes `[4, n]` (x0, y0, x1, y1); `offset` is 1 where the last pixel belongs to a box."""
    return (boxes[2] - boxes[0] + offset) * (boxes[3] - boxes[1] + offset)


class Overlap:
    """Which boxes overlap by more than `threshold`, a share of their union."""

    def __init__(self, threshold: np.floating, offset: int = 0):
        self.threshold, self.offset = threshold, offset
        self._crowded = False

    def shared(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Areas of the intersections of boxes, coordinates first; none where boxes are apart."""
        zero, other = a.dtype.type(0), np.maximum(a[0], b[0])
        width = np.minimum(a[2], b[2])
        width -= other
        height = np.minimum(a[3], b[3])
        height -= np.maximum(a[1], b[1], out=other)
        if self.offset:
            apart = (width < 0) | (height < 0)
            return np.where(apart, zero, (width + self.offset) * (height + self.offset))
        width = np.maximum(width, zero, out=width)
        width *= np.maximum(height, zero, out=height)
        return width

    def over(self, shared: np.ndarray, both: np.ndarray) -> np.ndarray:
        """Whether intersections are too large a share, by the sums of both areas; not where there is no area. It reuses
        both arrays.
        """
        both -= shared
        with np.errstate(all="ignore"):
            return np.divide(shared, both, out=shared) > self.threshold

    def pairs(self, a: np.ndarray, b: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Indices of overlapping boxes in `a` and `b`, both `[4, n]` in ascending order of x0."""
        area_a, area_b = areas(a, self.offset), areas(b, self.offset)
        widest = np.fmax.reduce(b[2] - b[0], initial=0)  # a box without numbers hides none of the others
        everything = self.threshold < 0  # then boxes that do not even touch overlap enough
        for first in range(0, a.shape[1], _ROWS):
            rows = a[:, first : first + _ROWS]
            low, high = 0, b.shape[1]
            if not everything:  # boxes that begin beyond these or end before them are left out
                low = np.searchsorted(b[0], rows[0, 0] - widest)
                high = np.searchsorted(b[0], np.fmax.reduce(rows[2]), side="right")
            i, j = self._tile(rows, b[:, low:high], area_a[first : first + _ROWS], area_b[low:high], everything)
            yield i + first, j + low

    def _tile(self, a, b, area_a, area_b, everything):
        if not (everything or self._crowded):
            x0, y0, x1, y1 = a[:, :, None]
            meet, other = b[0] <= x1, b[2] >= x0
            meet &= other
            meet &= np.less_equal(b[1], y1, out=other)
            meet &= np.greater_equal(b[3], y0, out=other)
            flat = np.flatnonzero(meet)
            self._crowded = (
                6 * flat.size > meet.size
            )  # then all pairs at once are faster, here and most likely further on
            if not self._crowded:
                i, j = np.divmod(flat, meet.shape[1])
                hit = self.over(self.shared(a[:, i], b[:, j]), area_a[i] + area_b[j])
                return i[hit], j[hit]
        return np.nonzero(self.over(self.shared(a[:, :, None], b), area_a[:, None] + area_b))


def suppressed(boxes: np.ndarray, overlap: Overlap, most: int | None = None) -> np.ndarray:
    """Ascending indices of the boxes `[n, 4]`, best first, that overlap with none that was kept before them; with `most`
    so many of the first at least, if there are.
    """
    order = np.argsort(boxes[:, 0], kind="stable")
    rest, place = np.ascontiguousarray(boxes[order].T), order
    kept: list[np.ndarray] = []
    while place.size:
        best = np.partition(place, _CHUNK - 1)[_CHUNK - 1] if place.size > _CHUNK else place.max()
        now = place <= best
        chunk, own = rest[:, now], place[now]
        keep = _settled(own, list(overlap.pairs(chunk, chunk)))
        kept.append(np.sort(own[keep]))
        if most is not None and sum(part.size for part in kept) >= most:
            break
        rest, place = rest[:, ~now], place[~now]
        gone = np.zeros(place.size, bool)
        for _, j in overlap.pairs(chunk[:, keep], rest):
            gone[j] = True
        rest, place = rest[:, ~gone], place[~gone]
    return np.concatenate(kept) if kept else np.zeros(0, np.int64)


def suppressed_in_groups(boxes: np.ndarray, group: np.ndarray, overlap: Overlap) -> np.ndarray:
    """Ascending indices of the boxes `[n, 4]`, best first, that overlap with none that was kept before them in their group.

    Small groups are settled together: a sweep along x finds the pairs of all of them in one pass.
    """
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=group[order[:1]] - 1))
    sizes = np.diff(starts, append=order.size)
    together = np.isfinite(boxes).all() and overlap.threshold >= 0
    kept = []
    small = np.zeros(order.size, bool)
    for start, size in zip(starts.tolist(), sizes.tolist()):
        if together and size <= _CHUNK:
            small[start : start + size] = True
        else:
            own = order[start : start + size]
            kept.append(own[suppressed(boxes[own], overlap)])
    members, rank = order[small], np.repeat(np.arange(sizes.size), sizes)[small]
    at = 0
    while at < members.size:
        # whole groups, of at most so many pairs as fit a few megabytes
        most = np.cumsum(sizes[rank[at] :] ** 2)
        last = rank[at] + max(int(np.searchsorted(most, _PAIRS, side="right")), 1)
        end = int(np.searchsorted(rank, last))
        own = members[at:end]
        kept.append(own[_settled(own, [_pairs_in_groups(boxes[own], rank[at:end] - rank[at], overlap)])])
        at = end
    return np.sort(np.concatenate(kept)) if kept else np.zeros(0, np.int64)


def _pairs_in_groups(boxes: np.ndarray, group: np.ndarray, overlap: Overlap) -> tuple[np.ndarray, np.ndarray]:
    """Indices of overlapping boxes of one group, each pair both ways."""
    columns = np.ascontiguousarray(boxes.T)
    low, high = columns[0].astype(np.float64), columns[2].astype(np.float64)
    apart = group * (2 * (max(high.max(), low.max()) - min(low.min(), high.min())) + 1)  # groups side by side
    order = np.argsort(low + apart, kind="stable")
    begin, end = (low + apart)[order], (high + apart)[order]
    # rounding keeps the order: of boxes that meet none is missed, and boxes that do not are looked at closely
    ends = np.maximum(np.searchsorted(begin, end, side="right"), np.arange(order.size) + 1)
    counts = ends - np.arange(order.size) - 1
    i = np.repeat(np.arange(order.size), counts)
    j = np.arange(i.size) - np.repeat(np.cumsum(counts) - counts, counts) + i + 1
    i, j = order[i], order[j]
    meet = (columns[1, i] <= columns[3, j]) & (columns[1, j] <= columns[3, i]) & (group[i] == group[j])
    i, j = i[meet], j[meet]
    area = areas(columns, overlap.offset)
    hit = overlap.over(overlap.shared(columns[:, i], columns[:, j]), area[i] + area[j])
    i, j = i[hit], j[hit]
    return np.concatenate([i, j]), np.concatenate([j, i])


def _settled(place: np.ndarray, pairs: list) -> np.ndarray:
    """Which boxes stay when each one that stays removes the worse ones that it overlaps with."""
    i, j = [np.concatenate(parts) for parts in zip(*pairs)]
    worse = place[i] < place[j]
    i, j = i[worse], j[worse]
    keep, open_ = np.zeros(place.size, bool), np.ones(place.size, bool)
    while open_.any():  # a box stays when no better one is still open; as many rounds as boxes hang on one another
        stays = open_.copy()
        stays[j] = False
        keep |= stays
        open_ &= ~stays
        open_[j[stays[i]]] = False
        both = open_[i] & open_[j]
        i, j = i[both], j[both]
    return keep
