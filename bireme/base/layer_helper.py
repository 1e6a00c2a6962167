"""`paddle.base.layer_helper`: how functions written for Paddle make parameters, and append operations by their names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import DType
from bireme.core.program import building
from bireme.core.program.variable import Variable
from bireme.core.tensor.parameter import Parameter
from bireme.core.tensor.tensor import Tensor
from bireme.files.paddle_models.translate import apply
from bireme.nn.parameter import attr_of, make_parameter
from bireme.ops import assign, empty, to_tensor
from bireme.static.programs import default_main_program, default_startup_program
from bireme.utils import unique_name

__all__ = ["LayerHelper"]


class LayerHelper:
    """What a function needs to be a layer: its arguments, parameters under its name, and operations.

    Args:
        layer_type: Kind of the layer, from which its name is generated.
        **kwargs: Arguments of the function, as ``**locals()``: ``input``, ``param_attr``, ``bias_attr``, ``act``, ``name``.

    Examples:
        >>> helper = bireme.base.layer_helper.LayerHelper("twice", input=bireme.to_tensor([-1.0, 2.0]), act="relu")
        >>> out = helper.create_variable_for_type_inference("float32")
        >>> helper.append_op(type="scale", inputs={"X": helper.input()}, outputs={"Out": out}, attrs={"scale": 2.0})
        >>> helper.append_activation(out).tolist()
        [0.0, 4.0]
    """

    def __init__(self, layer_type: str, **kwargs: Any):
        name = kwargs.get("name")
        self.kwargs, self.layer_type = kwargs, layer_type
        self.name: str = unique_name.generate(layer_type) if name is None else name

    @property
    def main_program(self) -> Any:
        return default_main_program()

    @property
    def startup_program(self) -> Any:
        return default_startup_program()

    @property
    def param_attr(self) -> Any:
        return attr_of(self.kwargs.get("param_attr"), "LayerHelper(param_attr)")

    @property
    def bias_attr(self) -> Any:
        return attr_of(self.kwargs.get("bias_attr"), "LayerHelper(bias_attr)")

    @staticmethod
    def get_default_dtype() -> str:
        """The name of the default dtype."""
        return dtypes.get_default().name

    @staticmethod
    def set_default_dtype(dtype: Any) -> None:
        """Set the default dtype."""
        dtypes.set_default(dtype)

    def multiple_input(self, input_param_name: str = "input") -> list[Tensor]:
        """The tensors of an argument, as a list."""
        given = self.kwargs.get(input_param_name, [])
        return [self.to_variable(x) for x in (given if isinstance(given, (list, tuple)) else [given])]

    def input(self, input_param_name: str = "input") -> Tensor:
        """The tensor of an argument."""
        found = self.multiple_input(input_param_name)
        if len(found) != 1:
            raise errors.bad(f"{self.layer_type}({input_param_name})", "one tensor", described=f"{len(found)}")
        return found[0]

    def input_dtype(self, input_param_name: str = "input") -> DType | None:
        """The dtype that all tensors of an argument have."""
        kinds = list(dict.fromkeys(x.dtype for x in self.multiple_input(input_param_name)))
        if len(kinds) > 1:
            described = " and ".join(k.name for k in kinds)
            raise errors.bad(f"{self.layer_type}({input_param_name})", "tensors of one dtype", described=described)
        return kinds[0] if kinds else None

    def multiple_param_attr(self, length: int) -> list[Any]:
        """The attributes of as many parameters as there are inputs."""
        given = self.param_attr
        found = list(given) if isinstance(given, (list, tuple)) else [given] * length
        if len(found) != length:
            raise errors.bad(f"{self.layer_type}(param_attr)", f"{length} of them", described=f"{len(found)}")
        return found

    def iter_inputs_and_params(self, input_param_name: str = "input") -> Iterator[tuple[Tensor, Any]]:
        """Each tensor of an argument with the attributes of its parameter."""
        inputs = self.multiple_input(input_param_name)
        yield from zip(inputs, self.multiple_param_attr(len(inputs)), strict=True)

    def is_instance(self, param_name: str, cls: Any) -> None:
        """Raise TypeError unless an argument is of a class."""
        if not isinstance(self.kwargs.get(param_name), cls):
            names = " or ".join(c.__name__ for c in (cls if isinstance(cls, tuple) else (cls,)))
            raise errors.bad(
                f"{self.layer_type}({param_name})", f"a {names}", self.kwargs.get(param_name), kind=errors.ArgumentTypeError
            )  # fmt: skip

    def to_variable(self, value: Any, name: str | None = None) -> Tensor:
        """A tensor of what is given."""
        return value if isinstance(value, Tensor) else to_tensor(value)

    def create_parameter(
        self,
        attr: Any,
        shape: Any,
        dtype: Any = None,
        is_bias: bool = False,
        default_initializer: Any = None,
        stop_gradient: bool = False,
        type: Any = None,
    ) -> Parameter | None:
        """A parameter with a name that begins with that of the layer; None if ``attr`` is False."""
        kind = dtypes.get_default() if dtype is None else dtype
        return make_parameter("create_parameter", self.name, shape, attr, kind, is_bias, default_initializer)

    def create_variable_for_type_inference(self, dtype: Any, stop_gradient: bool = False, shape: Any = None) -> Tensor:
        """A tensor for the result of an operation, which gives it its shape."""
        made = empty([0] if shape is None else [max(n, 0) for n in shape], dtypes.of(dtype, "create_variable(dtype)"))
        made.stop_gradient = True
        return made

    def create_variable(self, *args: Any, **kwargs: Any) -> Any:
        """A variable of the program that is being built."""
        return self.main_program.current_block().create_var(*args, **kwargs)

    def create_global_variable(self, persistable: bool = False, *args: Any, **kwargs: Any) -> Any:
        """A variable of the program that is being built, outside of branches and loops."""
        return self.main_program.global_block().create_var(*args, persistable=persistable, **kwargs)

    def append_op(self, type: str, inputs: Any = None, outputs: Any = None, attrs: Any = None, **_: Any) -> None:
        """Apply an operation of Paddle's, named as in its programs, and give its results to the tensors of ``outputs``."""
        given = {slot: _listed(x) for slot, x in (inputs or {}).items() if x is not None}
        targets = {slot: _listed(x) for slot, x in (outputs or {}).items() if x is not None}
        builder = building.current()
        plain = {n: a.name if isinstance(a, DType) else a for n, a in (attrs or {}).items()}
        for slot, results in apply(type, given, {s: len(x) for s, x in targets.items()}, plain).items():
            for target, result in zip(targets[slot], results, strict=True):
                if builder is not None and isinstance(target, Variable):
                    builder.renew(target, result.symbol)
                else:
                    assign(result, target)

    def append_bias_op(self, input_var: Tensor, dim_start: int = 1, dim_end: int | None = None) -> Tensor:
        """Add a bias along some axes, unless the layer has none."""
        if self.bias_attr is None:
            return input_var
        bias = self.create_parameter(self.bias_attr, input_var.shape[dim_start:dim_end], input_var.dtype, True)
        out = self.create_variable_for_type_inference(input_var.dtype)
        pair = {"X": input_var, "Y": bias}
        self.append_op(type="elementwise_add", inputs=pair, outputs={"Out": out}, attrs={"axis": dim_start})
        return out

    def append_activation(self, input_var: Tensor) -> Tensor:
        """Apply the activation that the argument ``act`` names, if there is one."""
        act = self.kwargs.get("act")
        if act is None:
            return input_var
        described = {"type": act} if isinstance(act, str) else dict(act)
        out = self.create_variable_for_type_inference(input_var.dtype)
        self.append_op(described.pop("type"), {"X": input_var}, {"Out": out}, described)
        return out


def _listed(x: Any) -> list[Any]:
    return list(x) if isinstance(x, (list, tuple)) else [x]
