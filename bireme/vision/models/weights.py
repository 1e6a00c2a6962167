"""What the models do when they are asked for trained weights: nothing is fetched from a network."""

from __future__ import annotations

from bireme.core.base import errors


def refuse(name: str, pretrained: bool) -> None:
    """Raises if trained weights are asked for."""
    if pretrained:
        hint = f"{name}() with set_state_dict(bireme.load('{name}.pdparams')) takes weights from a file of Paddle's"
        raise errors.bad(f"{name}(pretrained)", "False, since nothing is downloaded while a program runs", pretrained, hint)
