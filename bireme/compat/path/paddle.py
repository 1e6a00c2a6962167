"""Bireme under the name `paddle`, for processes that a program running under `bireme.compat` starts."""

from bireme.compat import install_as_paddle

install_as_paddle()
