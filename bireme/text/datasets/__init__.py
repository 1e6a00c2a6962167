"""Datasets of text, read from archives of their original formats."""

from bireme.text.datasets.conll05 import Conll05st
from bireme.text.datasets.imdb import Imdb
from bireme.text.datasets.imikolov import Imikolov
from bireme.text.datasets.movielens import Movielens
from bireme.text.datasets.uci_housing import UCIHousing
from bireme.text.datasets.wmt14 import WMT14
from bireme.text.datasets.wmt16 import WMT16

__all__ = ["Conll05st", "Imdb", "Imikolov", "Movielens", "UCIHousing", "WMT14", "WMT16"]
