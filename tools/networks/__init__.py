"""Networks of public packages written for Paddle, by package and family: how to build each one small, and its inputs."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

# what each list needs: distribution on PyPI and version
PACKAGES = {
    "nlp": ("paddlenlp", "2.8.1"),
    "clas": ("paddleclas", "2.6.0"),
    "seg": ("paddleseg", "2.8.0"),
    "det": ("paddledet", "2.6.0"),
    "ts": ("paddlets", "1.1.0"),
    "sci": ("paddlesci", "1.4.0"),
    "rl": ("parl", "2.2.1"),
}


class Network(NamedTuple):
    """A network: `build` makes it, `inputs` are the arguments of its call; both run where the package can be imported."""

    package: str
    family: str
    name: str
    build: Callable[[], Any]
    inputs: Callable[[], tuple[tuple, dict[str, Any]]]
    train: bool = True  # whether its forward pass is that of training
    drawn: bool = False  # whether its buffers are drawn at random
    learns: bool = False  # whether its call is a whole step, with a backward pass and an optimizer of its own

    @property
    def path(self) -> str:
        """The name that the table and the command line have for it."""
        return f"{self.package}/{self.family}/{self.name}"


def networks(packages: list[str] | None = None) -> dict[str, Network]:
    """The networks of the packages, by path."""
    found: dict[str, Network] = {}
    for package in packages or PACKAGES:
        for each in importlib.import_module(f"tools.networks.{package}").networks():
            assert each.path not in found, each.path
            found[each.path] = each
    return found


def load(packages: list[str]) -> None:
    """Import what the packages' networks are built with, where that can be imported."""
    for package in packages:
        with contextlib.suppress(ImportError):  # building a network tells why
            importlib.import_module(f"tools.networks.{package}").load()
