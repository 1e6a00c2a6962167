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


class WeightNormParamAttr(ParamAttr):
    """Attributes of a weight that is learned as a direction and a length: ``g * v / norm(v)``, in static mode.

    Its parameters are called after it: ``name + '_v'`` is the direction, ``name + '_g'`` the length.

    Args:
        dim: Axis along which each index has a length of its own. Default: None, one length of the whole weight.
        name: Name. Default: None, a generated name.
        initializer: Initializer of the direction. Default: None, that of the layer.
        learning_rate: Factor of the optimizer's learning rate. Default: 1.0.
        regularizer: Regularization of both parameters, instead of the optimizer's. Default: None.
        trainable: Train them. Default: True.
        do_model_average: Kept as an attribute of the parameters; it has no effect. Default: False.
        need_clip: Let gradient clipping include them. Default: True.

    Examples:
        >>> bireme.enable_static()
        >>> with bireme.static.program_guard(bireme.static.Program(), bireme.static.Program()):
        ...     x = bireme.static.data("x", [None, 3])
        ...     y = bireme.static.nn.fc(x, 2, weight_attr=bireme.static.WeightNormParamAttr(dim=1, name="w_normed"))
        ...     [p.name for p in bireme.static.default_main_program().all_parameters()][:2]
        ['w_normed_v', 'w_normed_g']
        >>> bireme.disable_static()
    """

    params_with_weight_norm: list[Any] = []  # weights that were made, as in Paddle

    def __init__(
        self,
        dim: int | None = None,
        name: str | None = None,
        initializer: Any = None,
        learning_rate: float = 1.0,
        regularizer: Any = None,
        trainable: bool = True,
        do_model_average: bool = False,
        need_clip: bool = True,
    ):
        super().__init__(name, initializer, learning_rate, regularizer, trainable, do_model_average, need_clip)
        self.dim = dim

    def plain(self, name: str) -> ParamAttr:
        """Return the attributes of one of both parameters.

        Args:
            name: Its name.

        Returns:
            A ``ParamAttr``.

        Examples:
            >>> bireme.static.WeightNormParamAttr(learning_rate=0.5).plain("w_g").learning_rate
            0.5
        """
        return ParamAttr(
            name, self.initializer, self.learning_rate, self.regularizer, self.trainable, self.do_model_average,
            self.need_clip,
        )  # fmt: skip
