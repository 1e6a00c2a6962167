"""ParamAttr: what a layer is told about one of its parameters."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors


class ParamAttr:
    """Name, initial value, learning rate, decay and clipping of one parameter.

    `learning_rate` is a factor on the optimizer's. A layer takes it as `weight_attr` or `bias_attr`, where a str alone
    means the name, an initializer alone the initial value, and False no parameter at all.

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
            raise errors.bad("ParamAttr(name)", "a name of at least one letter, or None", "''")
        if name is not None and not isinstance(name, str):
            raise errors.bad("ParamAttr(name)", "a str or None", name, kind=TypeError)
        if isinstance(learning_rate, bool) or not isinstance(learning_rate, (int, float)):
            raise errors.bad("ParamAttr(learning_rate)", "a number", learning_rate, kind=TypeError)
        for what, value in (("initializer", initializer), ("regularizer", regularizer)):
            if value is not None and not callable(value):
                raise errors.bad(f"ParamAttr({what})", f"an object of bireme's {what}s, or None", value, kind=TypeError)
        self.name = name
        self.initializer = initializer
        self.learning_rate = learning_rate
        self.regularizer = regularizer
        self.trainable = trainable
        self.do_model_average = do_model_average
        self.need_clip = need_clip
