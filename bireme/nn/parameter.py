"""Making a parameter from what a layer and its ParamAttr say about it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from bireme.core.base import device as devices
from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.graph.graph import Unmade, sig_of
from bireme.core.program import building
from bireme.core.program.gradients import call_at_start, start_with
from bireme.core.program.program import KNOWN
from bireme.core.tensor import parameter
from bireme.core.tensor.tensor import Tensor, wrap
from bireme.nn.arguments import Attr, DTypeLike
from bireme.nn.initializer import Initializer, choose
from bireme.ops import sqrt, square, zeros
from bireme.param_attr import ParamAttr, WeightNormParamAttr
from bireme.regularizer import WeightDecayRegularizer
from bireme.utils import unique_name


def make_parameter(
    where: str,
    owner: str,
    shape: Any,
    attr: Any = None,
    dtype: Any = None,
    is_bias: bool = False,
    default_initializer: Any = None,
    device: Any = None,
    generate: Callable[[str], str] = unique_name.generate,
) -> parameter.Parameter | None:
    """A parameter named after its ``owner``, or None if ``attr`` is False; ``where`` is the place that errors name, and
    ``generate`` counts names.
    """
    attr = attr_of(attr, f"{where}(attr)")
    if attr is None:
        return None
    size = _shape(shape, f"{where}(shape)")
    kind = dtypes.get_default() if dtype is None else dtypes.of(dtype, f"{where}(dtype)")
    if not kind.is_floating and attr.initializer is None and default_initializer is None:
        expected = f"an initializer that makes {kind.name}"
        raise errors.bad(f"{where}(default_initializer)", expected, None, kind=errors.ArgumentTypeError)
    if default_initializer is not None and not callable(default_initializer):
        raise errors.bad(
            f"{where}(default_initializer)", "an initializer", default_initializer, kind=errors.ArgumentTypeError
        )
    init = choose(attr.initializer, default_initializer, is_bias)
    samples = isinstance(init, Initializer) and init.only_samples()
    builder = building.current()
    if builder is not None and builder.captures:
        with building.suspended():
            return make_parameter(where, owner, shape, attr, dtype, is_bias, default_initializer, device)
    later = _state.lazy > 0 or builder is not None
    if later:
        place = devices.current() if device is None else devices.parse(device, f"{where}(device)")
        start = wrap(Unmade(sig_of(tuple(size), kind), None, place))
    else:
        start = init.sample(size, kind) if samples else zeros(size, kind)
        if device is not None:
            start = start._to_device(devices.parse(device, f"{where}(device)"))
    if builder is not None and isinstance(attr, WeightNormParamAttr):
        stem = attr.name or generate(f"{owner}.{'b' if is_bias else 'w'}")
        return _weight_norm(where, stem, size, attr, kind, is_bias, default_initializer, device)
    name = attr.name or generate(f"{owner}.{'b' if is_bias else 'w'}")
    if builder is None:
        unique_name.claim(name, f"{where}(attr)")
    elif (found := _shared(name, tuple(size), kind, f"{where}(attr)", builder.program)) is not None:
        if name not in building.programs.startup.tensors:
            start_with(building.programs.startup, found, lambda p: _fill(p, init, samples, device, where))
        return found
    param = parameter.Parameter(start, name=name, trainable=attr.trainable)
    param.optimize_attr = {"learning_rate": attr.learning_rate}
    param.regularizer, param.need_clip = attr.regularizer, attr.need_clip
    param.do_model_average = attr.do_model_average
    if builder is not None:
        start_with(building.programs.startup, param, lambda p: _fill(p, init, samples, device, where))
    elif later:
        param.set_init_func(lambda p: _fill(p, init, samples, device, where))
    elif not samples:
        init(param, None)
    return param


def _shared(name: str, size: tuple[int, ...], kind: Any, where: str, program: Any) -> parameter.Parameter | None:
    """The parameter of programs that has a name already: in a scope there is one of each name."""
    found = KNOWN.get(name)
    if not isinstance(found, parameter.Parameter):
        return None
    if found._value.sig == sig_of(size, kind):
        return found
    if name in program.tensors:
        raise errors.bad(where, f"shape {found.shape} for the parameter {name} of the program", list(size))
    return None


def _weight_norm(
    where: str, stem: str, size: list[int], attr: Any, kind: Any, is_bias: bool, initializer: Any, device: Any
) -> Any:
    """A weight as a direction and a length, both of which are parameters of the program."""
    sizes = [n if i == attr.dim else 1 for i, n in enumerate(size)]
    direction = make_parameter(where, stem, size, attr.plain(f"{stem}_v"), kind, is_bias, initializer, device)
    length = make_parameter(where, stem, sizes, attr.plain(f"{stem}_g"), kind, is_bias, initializer, device)
    assert direction is not None and length is not None
    axes = [i for i in range(len(size)) if i != attr.dim]

    def norm(v: Tensor) -> Tensor:
        return sqrt(square(v).sum(axes, keepdim=True))

    def measure(g: Tensor, v: Tensor) -> None:
        g._assign_value(norm(v))

    call_at_start(building.programs.startup, measure, "initialize", (length, direction))
    made = direction * (length / norm(direction))
    WeightNormParamAttr.params_with_weight_norm.append(made)
    return made


def _fill(param: parameter.Parameter, init: Any, samples: bool, device: Any, where: str) -> None:
    start = init.sample(param.shape, param.dtype) if samples else zeros(param.shape, param.dtype)
    param._assign_value(start if device is None else start._to_device(devices.parse(device, f"{where}(device)")))
    if not samples:
        init(param, None)


class _State(threading.local):
    lazy = 0


_state = _State()


class LazyGuard:
    """Context manager in which layers are built without drawing the initial values of their parameters.

    Shapes and names are known; the values come from ``parameter.initialize()`` or from a state dict.

    Examples:
        >>> with bireme.LazyGuard():
        ...     layer = bireme.nn.Linear(2, 1)
        >>> layer.weight.shape
        [2, 1]
    """

    def __enter__(self) -> None:
        _state.lazy += 1

    def __exit__(self, *exc: Any) -> None:
        _state.lazy -= 1


@errors.named
def create_parameter(
    shape: Sequence[int] | Tensor,
    dtype: DTypeLike,
    name: str | None = None,
    attr: Attr = None,
    is_bias: bool = False,
    default_initializer: Initializer | None = None,
) -> parameter.Parameter | None:
    """Create a parameter that belongs to no layer.

    Args:
        shape: Shape of the parameter.
        dtype: Data type.
        name: Name of the parameter. Default: None, a generated name.
        attr: A ``ParamAttr``, or an initializer, a regularizer or a name alone; ``False`` for no parameter. ``name``
            has no effect beside it. Default: None, all defaults.
        is_bias: Start at zero instead of with Xavier uniform. Default: False.
        default_initializer: Initializer, unless ``attr`` or ``set_global_initializer`` names one. Default: None.

    Returns:
        The parameter, or None if ``attr`` is ``False``.

    Examples:
        >>> bireme.create_parameter([2], "float32", is_bias=True).tolist()
        [0.0, 0.0]
    """
    if name is not None and not isinstance(name, str):
        raise errors.bad("create_parameter(name)", "a str or None", name, kind=errors.ArgumentTypeError)
    given = attr is None and name is not None
    owner = name if name is not None else unique_name.generate("create_parameter")
    return make_parameter(
        "create_parameter", owner, shape, ParamAttr(name=name) if given else attr, dtype, is_bias, default_initializer
    )


def attr_of(attr: Any, where: str) -> ParamAttr | None:
    """The ParamAttr that ``weight_attr=...`` means; None where it says that there is to be no parameter."""
    if attr is None or attr is True:
        return ParamAttr()
    if attr is False:
        return None
    if isinstance(attr, ParamAttr):
        return attr
    if isinstance(attr, str):
        return ParamAttr(name=attr)
    if isinstance(attr, Initializer):
        return ParamAttr(initializer=attr)
    if isinstance(attr, WeightDecayRegularizer):
        return ParamAttr(regularizer=attr)
    raise errors.bad(
        where, "a ParamAttr, a str, an initializer, a regularizer or a bool", attr, kind=errors.ArgumentTypeError
    )


def _to_attr(arg: Any) -> Any:
    """The ParamAttr that an attribute means, False where there is to be no parameter; of a list, one by one.

    Examples:
        >>> bireme.ParamAttr._to_attr("w").name
        'w'
    """
    return (
        [_to_attr(a) for a in arg]
        if isinstance(arg, (list, tuple))
        else attr_of(arg, "ParamAttr._to_attr(arg)") or False
    )


ParamAttr._to_attr = staticmethod(_to_attr)  # type: ignore[attr-defined]  # layers of programs ask for it


def _shape(shape: Any, where: str) -> list[int]:
    if isinstance(shape, Tensor):
        shape = shape.tolist()
    if not isinstance(shape, (list, tuple)):
        raise errors.bad(where, "a list of sizes", shape, kind=errors.ArgumentTypeError)
    for n in shape:
        if not isinstance(n, (int, Tensor)) and not hasattr(n, "__index__"):
            raise errors.bad(where, "integers", list(shape), kind=errors.ArgumentTypeError)
    size = [int(n) for n in shape]
    if any(n < 0 for n in size):
        raise errors.bad(where, "non-negative sizes", size, kind=errors.ArgumentError)
    return size


def _of_shape(
    self: Tensor,
    dtype: Any,
    name: str | None = None,
    attr: Any = None,
    is_bias: bool = False,
    default_initializer: Any = None,
) -> parameter.Parameter | None:
    """Create a parameter that belongs to no layer, of the shape that this tensor holds.

    Args:
        dtype: Data type.
        name: Name of the parameter. Default: None, a generated name.
        attr: A ``ParamAttr``, or an initializer, a regularizer or a name alone; ``False`` for no parameter. Default:
            None, all defaults.
        is_bias: Start at zero instead of with Xavier uniform. Default: False.
        default_initializer: Initializer, unless ``attr`` names one. Default: None.

    Returns:
        The parameter, or None if ``attr`` is ``False``.

    Examples:
        >>> bireme.to_tensor([2, 1]).create_parameter("float32", is_bias=True).tolist()
        [[0.0], [0.0]]
    """
    return create_parameter(self, dtype, name, attr, is_bias, default_initializer)


_of_shape.__name__ = _of_shape.__qualname__ = "create_parameter"
Tensor.create_parameter = _of_shape  # type: ignore[attr-defined]  # a method that Tensor gets here


def _block(self: Tensor) -> None:
    """The block of a static program that the tensor belongs to: always None, for programs that pass it to initializers.

    Examples:
        >>> layer = bireme.nn.Linear(1, 1)
        >>> bireme.nn.initializer.Constant(2.0)(layer.weight, layer.weight.block); layer.weight.item()
        2.0
    """
    return None


Tensor.block = property(_block, doc=_block.__doc__)  # type: ignore[attr-defined]  # a property that Tensor gets here


class Parameter(parameter.Parameter):
    """A trainable tensor, made from another tensor; a layer registers it when it is assigned to an attribute.

    Args:
        data: Tensor with the values, which are shared until one of both changes. Default: None, an empty tensor.
        requires_grad: Train it. Default: True.

    Examples:
        >>> bireme.nn.Parameter(bireme.to_tensor([1.0]), requires_grad=False).stop_gradient
        True
    """

    __slots__ = ()

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True):
        if data is None:
            data = zeros([0])
        if not isinstance(data, Tensor):
            raise errors.bad("Parameter(data)", "a Tensor", data, kind=errors.NotATensorError)
        # optimizers keep their state by names
        super().__init__(data, unique_name.generate("_eager_param_base"), requires_grad)

    @classmethod
    def from_tensor(cls, tensor: Tensor, **kwargs: Any) -> Parameter:
        """Create a parameter from a tensor.

        Args:
            tensor: Tensor with the values.
            **kwargs: ``name``, and ``trainable`` or ``requires_grad``.

        Returns:
            The parameter.

        Examples:
            >>> bireme.nn.Parameter.from_tensor(bireme.to_tensor([1.0]), name="scale").name
            'scale'
        """
        name, trainable = kwargs.pop("name", None), kwargs.pop("trainable", True)
        made = cls(tensor, kwargs.pop("requires_grad", trainable))
        if kwargs:
            raise errors.bad(
                "from_tensor()",
                "name, trainable or requires_grad",
                described=", ".join(kwargs),
                kind=errors.ArgumentTypeError,
            )
        if name is not None:
            made.name = name
        return made
