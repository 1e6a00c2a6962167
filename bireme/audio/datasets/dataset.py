"""What datasets of audio share: files with labels, features of them, and the folder they are in."""

from __future__ import annotations

import os
from typing import Any

from bireme.audio.backends.backend import load
from bireme.audio.features import MFCC, LogMelSpectrogram, MelSpectrogram, Spectrogram
from bireme.core.base import errors
from bireme.io import Dataset, archives
from bireme.nn import Layer

_FEATURES: dict[str, Any] = {
    "raw": None,
    "melspectrogram": MelSpectrogram,
    "mfcc": MFCC,
    "logmelspectrogram": LogMelSpectrogram,
    "spectrogram": Spectrogram,
}


class AudioClassificationDataset(Dataset):
    """A dataset of audio files, each with a label.

    Args:
        files: Paths of the files.
        labels: Label of each file.
        feat_type: ``'raw'`` for waveforms, or the features that are computed: ``'spectrogram'``, ``'melspectrogram'``,
            ``'logmelspectrogram'`` or ``'mfcc'``. Default: ``'raw'``.
        sample_rate: Sample rate in hertz. Default: None, that of each file.
        **kwargs: Arguments of the layer that computes the features.

    Examples:
        >>> len(bireme.audio.datasets.dataset.AudioClassificationDataset(["a.wav"], [0]))
        1
    """

    def __init__(
        self,
        files: list[str],
        labels: list[int],
        feat_type: str = "raw",
        sample_rate: int | None = None,
        **kwargs: Any,
    ):
        name = type(self).__name__
        if feat_type not in _FEATURES:
            raise errors.bad(f"{name}(feat_type)", " or ".join(map(repr, _FEATURES)), feat_type)
        if feat_type == "raw" and kwargs:
            expected = "arguments of features only where feat_type names some"
            raise errors.bad(f"{name}({next(iter(kwargs))})", expected, described="feat_type='raw'")
        self.files, self.labels, self.feat_type, self.sample_rate = files, labels, feat_type, sample_rate
        self.feat_config = kwargs
        self._layers: dict[int, Layer] = {}  # by sample rate

    def _layer(self, made: Any, rate: int) -> Layer:
        found = self._layers.get(rate)
        if found is None:
            own = {} if made is Spectrogram else {"sr": rate}
            found = self._layers[rate] = made(**own, **self.feat_config)
        return found

    def __getitem__(self, idx: int) -> tuple[Any, int]:
        waveform, rate = load(self.files[idx])
        if waveform.shape[0] != 1:
            name, described = f"{type(self).__name__}[{idx}]", f"{waveform.shape[0]} in {self.files[idx]}"
            raise errors.bad(name, "one channel", described=described, kind=errors.FileFormatError)
        made = _FEATURES[self.feat_type]
        feature = waveform if made is None else self._layer(made, self.sample_rate or rate)(waveform)
        return feature.squeeze(0), self.labels[idx]

    def __len__(self) -> int:
        return len(self.files)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_layers": {}}


def folder_of(dataset: str, archive: Any, default: dict[str, str], needed: tuple[str, ...]) -> str:
    """Return the folder that holds what an archive unpacks to: a path that is given, or the one in the cache."""
    if archive is not None and not isinstance(archive, (str, os.PathLike, dict)):
        raise errors.bad(
            f"{dataset}(archive)", "the path of a folder, or a dict", archive, kind=errors.ArgumentTypeError
        )
    given = None if archive is None or isinstance(archive, dict) else os.fspath(archive)
    found = archives.DATA_HOME if given is None else given
    for part in needed:
        if not os.path.exists(os.path.join(found, part)):
            source = archive if isinstance(archive, dict) else default
            described = f"{os.path.join(found, part)}, which does not exist"
            told = f"{source.get('url')} (md5 {source.get('md5')})"
            hint = f"download {told}, unpack it, and pass the folder that it is in as archive, since nothing is downloaded here"
            raise errors.bad(f"{dataset}(archive)", f"a folder with {part}", described=described, hint=hint)
    return found


def chosen(mode: Any, dataset: str, fold: int, split: int) -> bool:
    """Return whether a sample of a fold is in the part that is asked for: `split` is the fold that is tested on."""
    return (fold != split) == (archives.mode_of(dataset, mode, ("train", "dev")) == "train")
