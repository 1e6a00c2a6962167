"""ParamAttr: what a layer is told about one of its parameters."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import Guarded


class ParamAttr(Guarded):
    """Attributes of one parameter: name, initial values, learning rate, regularization and clipping.

    Layers take it as ``weight_attr``, ``bias_attr`` and the like. There a string alone means the name, an initializer
    alone the initial values, a regularizer alone the regularization, and ``False`` that there is no such parameter.

    Args:
        name: Name of the parameter. Default: None, a generated name.
        initializer: Initializer of the values. Default: None, that of the layer.
        learning_rate: Factor of the optimizer's learning rate. Default: 1.0.
        regularizer: Regularization of this parameter, instead of the optimizer's. Default: None.
        trainable: Train the parameter. Default: True.
        do_model_average: Kept as an attribute of the parameter; it has no effect. Default: True.
        need_clip: Let gradient clipping include the parameter. Default: True.

    Examples:
        >>> attr = bireme.ParamAttr(initializer=bireme.nn.initializer.Constant(2.0), learning_rate=0.5)
        >>> bireme.nn.Linear(1, 2, weight_attr=attr).weight.tolist()
        [[2.0, 2.0]]
    """

    def __init__(
        self,
        name: str | None = None,
        initializer: Any = None,
        learning_rate: float = 1.0,
        regularizer: Any = None,
        trainable: bool = True,
        do_model_average: bool = True,
        need_clip: bool = True,
    ):
        if name == "":
            raise errors.bad("ParamAttr(name)", "a non-empty str or None", described="''")
        if name is not None and not isinstance(name, str):
            raise errors.bad("ParamAttr(name)", "a str or None", name, kind=errors.ArgumentTypeError)
        if isinstance(learning_rate, bool) or not isinstance(learning_rate, (int, float)):
            raise errors.bad("ParamAttr(learning_rate)", "a number", learning_rate, kind=errors.ArgumentTypeError)
        for what, value in (("initializer", initializer), ("regularizer", regularizer)):
            if value is not None and not callable(value):
                raise errors.bad(
                    f"ParamAttr({what})",
                    f"a callable, as those of bireme.{'nn.initializer' if what == 'initializer' else 'regularizer'}, or None",
                    value,
                    kind=errors.ArgumentTypeError,
                )
        self.name = name
        self.initializer = initializer
        self.learning_rate = learning_rate
        self.regularizer = regularizer
        self.trainable = trainable
        self.do_model_average = do_model_average
        self.need_clip = need_clip
