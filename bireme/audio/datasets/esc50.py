"""ESC-50: environmental sounds of fifty classes."""

from __future__ import annotations

import csv
import os
from typing import Any, NamedTuple

from bireme.audio.datasets.dataset import AudioClassificationDataset, chosen, folder_of
from bireme.audio.functional.arguments import whole
from bireme.core.base import errors
from bireme.core.base.errors import FileFormatError


class ESC50(AudioClassificationDataset):
    """ESC-50: 2,000 recordings of five seconds, of fifty classes of environmental sounds, in five folds.

    Args:
        mode: ``'train'`` for all folds but one, ``'dev'`` for that one. Default: ``'train'``.
        split: The fold that is left out for ``'dev'``, 1 to 5. Default: 1.
        feat_type: ``'raw'`` for waveforms, or ``'spectrogram'``, ``'melspectrogram'``, ``'logmelspectrogram'``,
            ``'mfcc'``. Default: ``'raw'``.
        archive: Path of the folder in which ``ESC-50-master`` lies, or a dict with ``url`` and ``md5`` that the error
            for missing files names. Default: None, ``~/.cache/bireme/dataset``.
        **kwargs: Arguments of the layer that computes the features, see ``bireme.audio.features``.

    Examples:
        >>> bireme.audio.datasets.ESC50(archive="nowhere")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        bireme.errors.ArgumentError: ESC50(archive): expected a folder with ESC-50-master/meta/esc50.csv, got nowhere...
    """

    archive: Any = {
        "url": "https://paddleaudio.bj.bcebos.com/datasets/ESC-50-master.zip",
        "md5": "7771e4b9d86d0945acce719c7a59305a",
    }
    label_list = [
        *("Dog", "Rooster", "Pig", "Cow", "Frog", "Cat", "Hen", "Insects (flying)", "Sheep", "Crow"),
        *("Rain", "Sea waves", "Crackling fire", "Crickets", "Chirping birds", "Water drops", "Wind"),
        *("Pouring water", "Toilet flush", "Thunderstorm"),
        *("Crying baby", "Sneezing", "Clapping", "Breathing", "Coughing", "Footsteps", "Laughing"),
        *("Brushing teeth", "Snoring", "Drinking, sipping"),
        *("Door knock", "Mouse click", "Keyboard typing", "Door, wood creaks", "Can opening"),
        *("Washing machine", "Vacuum cleaner", "Clock alarm", "Clock tick", "Glass breaking"),
        *("Helicopter", "Chainsaw", "Siren", "Car horn", "Engine", "Train", "Church bells", "Airplane"),
        *("Fireworks", "Hand saw"),
    ]
    meta = os.path.join("ESC-50-master", "meta", "esc50.csv")
    audio_path = os.path.join("ESC-50-master", "audio")

    class meta_info(NamedTuple):
        """A row of the table of recordings.

        Args:
            filename: Name of the file.
            fold: Its fold.
            target: Its label.
            category: Name of the label.
            esc10: Whether it is in the smaller dataset ESC-10.
            src_file: The recording that it was cut from.
            take: Which part of that.

        Examples:
            >>> bireme.audio.datasets.ESC50.meta_info("a.wav", "1", "0", "dog", "True", "1", "A").fold
            '1'
        """

        filename: str
        fold: str
        target: str
        category: str
        esc10: str
        src_file: str
        take: str

    def __init__(
        self,
        mode: str = "train",
        split: int = 1,
        feat_type: str = "raw",
        archive: Any = None,
        **kwargs: Any,
    ):
        if whole("ESC50(split)", split, 1) > 5:
            raise errors.bad("ESC50(split)", "a fold in [1, 5]", split)
        folder = folder_of("ESC50", archive, self.archive, (self.meta, self.audio_path))
        if archive is not None:
            self.archive = archive
        files, labels = [], []
        for row in self._rows(os.path.join(folder, self.meta)):
            if chosen(mode, "ESC50", int(row.fold), split):
                files.append(os.path.join(folder, self.audio_path, row.filename))
                labels.append(int(row.target))
        super().__init__(files, labels, feat_type, **kwargs)

    def _rows(self, path: str) -> list[meta_info]:
        with open(path, newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))[1:]
        for row in rows:
            good = len(row) == 7 and row[1].isdigit() and row[2].isdigit() and os.path.basename(row[0]) == row[0]
            if not good:
                described = f"{path}: {','.join(row)[:200]!r}"
                raise errors.bad("ESC50(archive)", "a table of recordings", described=described, kind=FileFormatError)
        return [self.meta_info(*row) for row in rows]
