"""PyTorch's names for what has another one here: an AttributeError says it, docs/from_pytorch.md lists them."""

from __future__ import annotations

from types import ModuleType
from typing import Any

TOP = {
    "manual_seed": "bireme.seed", "from_numpy": "bireme.to_tensor", "inference_mode": "bireme.no_grad",
    "autocast": "bireme.amp.auto_cast", "optim": "bireme.optimizer",
}  # fmt: skip
NN = {
    "Module": "nn.Layer", "ModuleList": "nn.LayerList", "ModuleDict": "nn.LayerDict",
    "BatchNorm2d": "nn.BatchNorm2D", "ConvTranspose2d": "nn.Conv2DTranspose", "MultiheadAttention": "nn.MultiHeadAttention",
}  # fmt: skip
LAYER = {
    "zero_grad": "clear_gradients", "modules": "sublayers", "named_modules": "named_sublayers",
    "register_forward_hook": "register_forward_post_hook", "load_state_dict": "set_state_dict",
}  # fmt: skip
OPTIMIZER = {"zero_grad": "clear_grad", "load_state_dict": "set_state_dict"}


def missing(owner: str, name: str, names: dict[str, str], others: Any = ()) -> AttributeError:
    """The error for an attribute that is not there; `others` are names among which it may differ in case alone."""
    found = names.get(name) or next((n for n in others if n.lower() == name.lower()), None)
    hint = f"\n  hint: PyTorch's {name} is {found} here" if found else ""
    return AttributeError(f"{owner} has no attribute {name!r}{hint}")


def explain(module: ModuleType, names: dict[str, str]) -> None:
    """Let a module name its own words for PyTorch's."""

    def __getattr__(name: str) -> Any:
        raise missing(f"module {module.__name__!r}", name, names, () if name.startswith("_") else module.__all__)

    module.__getattr__ = __getattr__  # type: ignore[method-assign]  # a module's own, as Python has them
