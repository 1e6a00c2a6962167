"""Saving and loading: arrays in safetensors, structure as text beside them, no code in either."""

from bireme.files.mapped import MmapStorage as MmapStorage
from bireme.files.store import load as load
from bireme.files.store import save as save
