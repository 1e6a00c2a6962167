"""Layers that compute features of audio."""

from bireme.audio.features.layers import MFCC, LogMelSpectrogram, MelSpectrogram, Spectrogram

__all__ = ["LogMelSpectrogram", "MFCC", "MelSpectrogram", "Spectrogram"]
