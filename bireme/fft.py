"""Discrete Fourier transforms: a list of names."""

from bireme.ops import (  # written by `make api`
    fft, fft2, fftfreq, fftn, fftshift, hfft, hfft2, hfftn, ifft, ifft2, ifftn, ifftshift, ihfft, ihfft2, ihfftn, irfft,
    irfft2, irfftn, rfft, rfft2, rfftfreq, rfftn,
)  # fmt: skip

__all__: list[str] = []
__all__ += [  # written by `make api`
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn", "ifftshift",
    "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip
