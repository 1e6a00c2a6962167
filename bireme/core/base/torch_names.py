"""PyTorch's names for what has another one here: an AttributeError says it, docs/from_pytorch.md lists them."""

from __future__ import annotations

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
MODULES = {"bireme": TOP, "bireme.nn": NN}


def missing(owner: str, name: str, names: dict[str, str]) -> AttributeError:
    """The error for an attribute that is not there."""
    hint = f"\n  hint: PyTorch's {name} is {names[name]} here" if name in names else ""
    return AttributeError(f"{owner} has no attribute {name!r}{hint}")
