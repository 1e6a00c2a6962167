"""What the models do when pretrained weights are asked for: nothing is downloaded."""

from __future__ import annotations

from bireme.core.base import errors


def refuse(name: str, pretrained: bool) -> None:
    """Raise an error if pretrained weights are asked for."""
    if pretrained:
        hint = f"{name}() with set_state_dict(bireme.load('{name}.pdparams')) takes weights from a file of Paddle's"
        raise errors.bad(
            f"{name}(pretrained)", "False, since nothing is downloaded while a program runs", pretrained, hint=hint
        )
