"""A model's files: parameters in one, what the optimizer keeps in another."""

from __future__ import annotations

import os
from typing import Any

from bireme.core.base import errors
from bireme.files import load, save
from bireme.nn.layer import Layer


def save_weights(network: Layer, optimizer: Any, path: str) -> None:
    """Write ``path.pdparams``, and ``path.pdopt`` if the optimizer has state."""
    save(network.state_dict(), f"{path}.pdparams")
    state = {} if optimizer is None else optimizer.state_dict()
    if state:
        save(state, f"{path}.pdopt")


def load_weights(network: Layer, optimizer: Any, path: str, skip_mismatch: bool) -> None:
    """Read what ``save_weights`` wrote; without an optimizer, only the parameters."""
    path = path.removesuffix(".pdparams")
    if not os.path.isfile(f"{path}.pdparams"):
        got = f"{path + '.pdparams'!r}, which is not there"
        raise errors.bad("Model.load(path)", "a file", described=got, kind=errors.ArgumentError)
    state = load(f"{path}.pdparams")
    own = network.state_dict()
    good, names = dict(own), {}
    for key, held in own.items():
        given = state.get(key)
        why = None
        if given is None:
            why = f"{key}, which is not in the file"
        elif list(given.shape) != held.shape:
            why = f"{key} of shape {list(given.shape)}, where the network has {held.shape}"
        if why is None:
            good[key] = given
            names[getattr(given, "name", None) or key] = held.name
        elif skip_mismatch:
            errors.warn(f"Model.load: left out {why}")
        else:
            raise errors.bad(
                "Model.load(path)", "a file that fits the network", why, hint="pass skip_mismatch=True to load the rest"
            )
    network.set_state_dict(good)
    if optimizer is not None and os.path.isfile(f"{path}.pdopt"):
        optimizer.set_state_dict(_renamed(load(f"{path}.pdopt"), names))


def _renamed(state: dict, names: dict[str, str]) -> dict:
    """Rename the parameters in an optimizer's state: a network that is built again has other parameter names."""

    def new(key: str) -> str:
        # the longest name that the key begins with: linear_1 is not linear_10
        found = [old for old in names if key == old or key.startswith(f"{old}_")]
        old = max(found, key=len, default=None)
        return key if old is None else names[old] + key[len(old) :]

    out = {new(key): value for key, value in state.items() if key not in ("LR_Scheduler", "master_weights")}
    if "master_weights" in state:
        out["master_weights"] = {new(key): value for key, value in state["master_weights"].items()}
    if "LR_Scheduler" in state:
        out["LR_Scheduler"] = state["LR_Scheduler"]
    return out
