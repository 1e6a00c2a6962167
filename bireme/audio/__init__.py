"""Audio: waveforms from and to files, spectra as humans hear them, layers that compute them, and datasets."""

from bireme.audio import backends, datasets, features, functional
from bireme.audio.backends.backend import info, load, save

__all__ = ["backends", "datasets", "features", "functional", "info", "load", "save"]
