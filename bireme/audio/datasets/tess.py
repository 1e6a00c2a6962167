"""TESS: emotional speech of Toronto."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from bireme.audio.datasets.dataset import AudioClassificationDataset, chosen, folder_of
from bireme.audio.functional.arguments import whole
from bireme.core.base import errors
from bireme.core.base.errors import FileFormatError


class TESS(AudioClassificationDataset):
    """TESS: 2,800 spoken words with seven emotions.

    Files are taken in order of their names, so the folds are the same on every machine.

    Args:
        mode: ``'train'`` for all folds but one, ``'dev'`` for that one. Default: ``'train'``.
        n_folds: Number of folds that the files are dealt out to. Default: 5.
        split: The fold that is left out for ``'dev'``, 1 to ``n_folds``. Default: 1.
        feat_type: ``'raw'`` for waveforms, or ``'spectrogram'``, ``'melspectrogram'``, ``'logmelspectrogram'``,
            ``'mfcc'``. Default: ``'raw'``.
        archive: Path of the folder in which ``TESS_Toronto_emotional_speech_set`` lies, or a dict with ``url`` and
            ``md5`` that the error for missing files names. Default: None, ``~/.cache/bireme/dataset``.
        **kwargs: Arguments of the layer that computes the features, see ``bireme.audio.features``.

    Examples:
        >>> bireme.audio.datasets.TESS(archive="nowhere")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        bireme.errors.ArgumentError: TESS(archive): expected a folder with TESS_Toronto_emotional_speech_set, got nowhere...
    """

    archive: Any = {
        "url": "https://bj.bcebos.com/paddleaudio/datasets/TESS_Toronto_emotional_speech_set.zip",
        "md5": "1465311b24d1de704c4c63e4ccc470c7",
    }
    label_list = ["angry", "disgust", "fear", "happy", "neutral", "ps", "sad"]
    audio_path = "TESS_Toronto_emotional_speech_set"

    class meta_info(NamedTuple):
        """What the name of a file says.

        Args:
            speaker: Who speaks.
            word: The word.
            emotion: The emotion.

        Examples:
            >>> bireme.audio.datasets.TESS.meta_info("OAF", "back", "angry").emotion
            'angry'
        """

        speaker: str
        word: str
        emotion: str

    def __init__(
        self,
        mode: str = "train",
        n_folds: int = 5,
        split: int = 1,
        feat_type: str = "raw",
        archive: Any = None,
        **kwargs: Any,
    ):
        folds = whole("TESS(n_folds)", n_folds, 1)
        if whole("TESS(split)", split, 1) > folds:
            raise errors.bad("TESS(split)", f"a fold in [1, {folds}]", split)
        folder = os.path.join(folder_of("TESS", archive, self.archive, (self.audio_path,)), self.audio_path)
        if archive is not None:
            self.archive = archive
        found = sorted(
            os.path.join(root, name) for root, _, names in os.walk(folder) for name in names if name.endswith(".wav")
        )
        files, labels = [], []
        for number, path in enumerate(found):
            label = self._label(path)
            if chosen(mode, "TESS", number % folds + 1, split):
                files.append(path)
                labels.append(label)
        super().__init__(files, labels, feat_type, **kwargs)

    def _label(self, path: str) -> int:
        parts = os.path.basename(path).removesuffix(".wav").split("_")
        if len(parts) != 3 or parts[2] not in self.label_list:
            expected = "names of files such as OAF_back_angry.wav"
            raise errors.bad("TESS(archive)", expected, described=path, kind=FileFormatError)
        return self.label_list.index(self.meta_info(*parts).emotion)
