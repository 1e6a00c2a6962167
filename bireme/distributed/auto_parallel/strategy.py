"""Strategy: settings for training on a mesh, by group."""

from __future__ import annotations

import copy
from typing import Any

from bireme.core.base import errors

__all__ = ["Strategy"]

_DEFAULTS: dict[str, dict[str, Any]] = {
    "sharding": {"enable": False, "stage": 1, "degree": 8},
    "gradient_merge": {"enable": False, "k_steps": 1, "avg": True},
    "pipeline": {
        "enable": False,
        "schedule_mode": "1F1B",
        "pp_degree": 1,
        "vpp_degree": 1,
        "micro_batch_size": 1,
        "accumulate_steps": 1,
    },
    "amp": {
        "enable": False,
        "dtype": "float16",
        "level": "o1",
        "init_loss_scaling": 32768.0,
        "incr_every_n_steps": 1000,
        "decr_every_n_nan_or_inf": 2,
        "incr_ratio": 2.0,
        "decr_ratio": 0.8,
        "use_dynamic_loss_scaling": True,
        "custom_white_list": [],
        "custom_black_list": [],
    },
    "fused_passes": {"enable": False, "gemm_epilogue": False, "dropout_add": False, "fused_passes_list": []},
    "recompute": {"enable": False},
}


class Settings:
    """One group of settings, as attributes."""

    def __init__(self, group: str, given: dict[str, Any] | None) -> None:
        self.__dict__.update(copy.deepcopy(_DEFAULTS[group]))
        for name, value in (given or {}).items():
            setattr(self, name, value)

    def __getattr__(self, name: str) -> Any:
        raise errors.bad(
            "Strategy", f"a setting among {', '.join(self.__dict__)}", name, kind=errors.MissingAttributeError
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as a dict."""
        return copy.deepcopy(self.__dict__)

    def __repr__(self) -> str:
        return repr(self.__dict__)


class Strategy:
    """Settings for training on a mesh, by group.

    ``sharding`` (``enable``, ``stage``, ``degree``), ``gradient_merge`` (``enable``, ``k_steps``, ``avg``), ``amp``
    (``enable``, ``dtype``, ``level``) and ``pipeline`` (``enable``, ``accumulate_steps``) are followed by ``DistModel`` and
    ``Engine``. XLA fuses by itself, so ``fused_passes`` change nothing.

    Args:
        config: Settings by group, as ``{"sharding": {"enable": True, "stage": 2}}``. Default: None.

    Raises:
        ValueError: If a group is not known.

    Examples:
        >>> strategy = bireme.distributed.Strategy({"sharding": {"enable": True}})
        >>> strategy.sharding.stage = 2
        >>> strategy.sharding.enable, strategy.to_dict()["sharding"]["stage"]
        (True, 2)
    """

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        if config is not None and not isinstance(config, dict):
            raise errors.bad("Strategy(config)", "a dict or None", config)
        self._groups = {group: Settings(group, None) for group in _DEFAULTS}
        self.full_graph = True
        self.seed: int | None = None
        self.from_dict(config or {})

    @property
    def sharding(self) -> Settings:
        """How the states of the optimizer are divided."""
        return self._groups["sharding"]

    @property
    def gradient_merge(self) -> Settings:
        """Over how many steps gradients are added up before an update."""
        return self._groups["gradient_merge"]

    @property
    def pipeline(self) -> Settings:
        """Into how many parts a batch is divided."""
        return self._groups["pipeline"]

    @property
    def amp(self) -> Settings:
        """Mixed precision."""
        return self._groups["amp"]

    @property
    def fused_passes(self) -> Settings:
        """Fusion of operators."""
        return self._groups["fused_passes"]

    @property
    def recompute(self) -> Settings:
        """Whether intermediate results are computed again in the backward pass."""
        return self._groups["recompute"]

    def from_dict(self, config_dict: dict[str, Any]) -> None:
        """Take settings by group; what is not named stays as it is.

        Args:
            config_dict: The settings.
        """
        for group, given in config_dict.items():
            if group in self._groups:
                for name, value in given.items():
                    setattr(self._groups[group], name, value)
            elif group in ("full_graph", "seed"):
                setattr(self, group, given)
            else:
                raise errors.bad("Strategy(config)", f"groups among {', '.join(self._groups)}", group)

    def to_dict(self) -> dict[str, Any]:
        """Return all settings by group."""
        return {
            **{group: settings.to_dict() for group, settings in self._groups.items()},
            "full_graph": self.full_graph,
            "seed": self.seed,
        }

    def get(self, k: str, d: Any = None) -> Any:
        """Return a group of settings.

        Args:
            k: Its name.
            d: What to return if there is none of that name. Default: None.

        Returns:
            The group.
        """
        return self._groups.get(k, d)

    def __repr__(self) -> str:
        return repr(self.to_dict())
