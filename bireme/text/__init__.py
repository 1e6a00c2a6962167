"""Text: decoding of sequences of tags, and datasets."""

from bireme.ops import viterbi_decode
from bireme.text import datasets as datasets
from bireme.text.datasets import WMT14, WMT16, Conll05st, Imdb, Imikolov, Movielens, UCIHousing
from bireme.text.decoder import ViterbiDecoder

__all__ = [
    "Conll05st", "Imdb", "Imikolov", "Movielens", "UCIHousing", "ViterbiDecoder", "WMT14", "WMT16", "viterbi_decode",
]  # fmt: skip
