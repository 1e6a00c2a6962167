"""Layer: a part of a network with its parameters, buffers and sublayers."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from numbers import Integral
from typing import Any, NoReturn

from bireme.core.base import boundary, errors, torch_names
from bireme.core.base import dtype as dtypes
from bireme.core.graph.segment import local
from bireme.core.record.flush import layer_entered
from bireme.core.run import leaf_names
from bireme.core.tensor import grad_mode
from bireme.core.tensor.parameter import Parameter
from bireme.core.tensor.tensor import Tensor
from bireme.nn.arguments import Attr, DeviceLike, DTypeLike
from bireme.nn.initializer import Initializer
from bireme.nn.layer_state import State
from bireme.nn.layer_types import Conversions
from bireme.nn.parameter import make_parameter
from bireme.ops import zeros
from bireme.utils import unique_name

_STORES = ("_parameters", "_sub_layers", "_buffers")
_CAMEL = re.compile(r"(?<=.)(?=[A-Z][a-z])|(?<=[a-z])(?=[A-Z])")


class Hook:
    """Handle of a registered hook."""

    _ids = itertools.count()

    def __init__(self, hooks: dict[int, Any], hook: Any):
        self._hooks, self._hook_id = hooks, next(self._ids)
        hooks[self._hook_id] = hook

    def remove(self) -> None:
        """Unregister the hook."""
        self._hooks.pop(self._hook_id, None)


class _Helper:
    """What layers written for Paddle ask of ``self._helper``: the data type of new parameters, and parameters."""

    def __init__(self, layer: Layer):
        self._layer, self.name = layer, layer._full_name

    def get_default_dtype(self) -> str:
        return dtypes.get_default().name

    def create_parameter(
        self, attr: Any, shape: Any, dtype: Any = None, is_bias: bool = False, default_initializer: Any = None
    ) -> Any:
        # its own may call this one
        return Layer.create_parameter(self._layer, shape, attr, dtype, is_bias, default_initializer)


def _by_constructor(error: Exception, layer: Layer, given: list) -> Exception:
    """An error about a parameter, told by the argument of Bireme's own layer that it came from: `Linear(in_features)`."""
    attr, *shape = given
    about, _, message = str(error.args[0]).partition(": ")
    of_attr = about.endswith("(attr)")
    wrong = [attr] if of_attr else [n for n in shape if not (isinstance(n, Integral) and n >= 0)]
    frame: Any = sys._getframe(2)
    found = None
    while _constructs(frame):
        code, values = frame.f_code, frame.f_locals
        names = [n for n in code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount] if ("attr" in n) is of_attr]
        found = next(((n, x) for x in wrong for n in names if values.get(n) is x), found)
        frame = frame.f_back
    if found is None:
        return error
    name, value = found
    if of_attr:
        error.args = (f"{type(layer).__name__}({name}): {message}", *error.args[1:])
        return error
    return errors.bad(f"{type(layer).__name__}({name})", "a non-negative integer", value, kind=type(error))


def _constructs(frame: Any) -> bool:
    """Whether a frame is that of a constructor of Bireme's own, or of what guards it."""
    module = frame.f_globals.get("__name__", "")  # what `exec` runs may have none
    return module == boundary.__name__ or (frame.f_code.co_name == "__init__" and module.startswith("bireme."))


class _HelperOf:
    """Descriptor that returns a layer's helper; a layer may set another one in its place."""

    def __get__(self, layer: Layer | None, kind: type | None = None) -> Any:
        return self if layer is None else _Helper(layer)


class Layer(State, Conversions):
    """Base class of all layers and models.

    A subclass creates its parameters and sublayers in ``__init__``, after ``super().__init__()``, and defines
    ``forward``. Parameters, layers and tensors that are assigned to attributes are registered: ``parameters()``,
    ``state_dict()``, ``to()`` and the like find them, those of sublayers too.

    Args:
        name_scope: Prefix of the layer's unique name and of the names of its parameters. Default: None, the name of the
            class in snake case.
        dtype: Data type of the layer, used by ``create_variable``. Parameters have the default data type unless
            ``create_parameter`` is told otherwise. Default: ``'float32'``.

    Examples:
        >>> class Scale(bireme.nn.Layer):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.factor = self.create_parameter([1], default_initializer=bireme.nn.initializer.Constant(3.0))
        ...     def forward(self, x):
        ...         return x * self.factor
        >>> Scale()(bireme.to_tensor([2.0])).tolist()
        [6.0]
    """

    training: bool
    _parameters: dict[str, Parameter | None]
    _sub_layers: dict[str, Layer | None]
    _buffers: dict[str, Tensor | None]
    _cast_to_low_precision = True  # whether `amp.decorate` may cast its parameters
    _stays_wide = False  # whether `float16()` and `bfloat16()` leave its parameters as they are

    def __init__(self, name_scope: str | None = None, dtype: DTypeLike = "float32"):
        scope = _snake(type(self).__name__) if name_scope is None else name_scope
        # filled directly: __setattr__ needs the stores
        self.__dict__.update(
            training=True, _full_name=unique_name.generate(scope), _dtype=dtypes.of(dtype).name, _parameters={},
            _sub_layers={}, _buffers={}, _non_persistable_buffer_names_set=set(), _forward_pre_hooks={},
            _forward_post_hooks={}, _state_dict_hooks={}, _loaddict_holder={},
        )  # fmt: skip
        leaf_names.keep(self)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Compute the output; to be defined by each layer, and called by ``layer(...)``.

        Args:
            *inputs: The inputs of the layer.
            **kwargs: Further inputs by name.

        Returns:
            The output of the layer.

        Raises:
            NotImplementedError: A layer does not define it.
        """
        raise errors.missing_method(self, "forward")

    def backward(self, *inputs: Any) -> NoReturn:
        """Not for layers: gradients follow from what ``forward`` computes.

        Args:
            *inputs: Ignored.

        Raises:
            ValueError: Always.
        """
        raise errors.bad(
            f"{type(self).__name__}.backward()", "no call, since gradients follow from forward", described="one"
        )

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        depth = local.depth
        try:
            if depth == 0:
                without = not grad_mode.state.grad
                layer_entered(self, [x._value for x in inputs if x.__class__ is Tensor] if without else None)
            local.depth = depth + 1
            try:
                if self._forward_pre_hooks or self._forward_post_hooks:
                    return self._call_with_hooks(inputs, kwargs)
                if local.trace is not None:
                    return self._forward_in(local.trace)(*inputs, **kwargs)
                return self.forward(*inputs, **kwargs)
            except TypeError as e:
                self._check_inputs(e, inputs, kwargs)
                raise
        except errors.LEAVING as e:
            boundary.leave(e)
            raise
        finally:
            local.depth = depth  # what it was, wherever an interrupt came

    def _forward_in(self, trace: Any) -> Callable:
        """What is called as ``forward``: another function where a program is captured."""
        forward_of = getattr(trace, "forward_of", None)
        return self.forward if forward_of is None else forward_of(self)

    def _check_inputs(self, error: TypeError, inputs: tuple, kwargs: dict) -> None:
        """Raise the error for inputs that do not fit the ``forward`` of a layer of Bireme's own."""
        if not hasattr(error, "_told") and self.forward.__module__.startswith("bireme."):
            told = boundary.wrong_call(type(self).__name__, self.forward, inputs, kwargs)
            if told is not None:
                raise told from None

    def _call_with_hooks(self, inputs: tuple, kwargs: dict) -> Any:
        for hook, with_kwargs in list(self._forward_pre_hooks.values()):
            if with_kwargs:
                new = hook(self, inputs, kwargs)
                if new is not None:
                    if not (isinstance(new, tuple) and len(new) == 2):
                        raise errors.bad("forward pre-hook", "None or a pair (args, kwargs)", new, kind=RuntimeError)
                    inputs, kwargs = new
            else:
                new = hook(self, inputs)
                if new is not None:
                    inputs = new if isinstance(new, tuple) else (new,)
        out = self._forward_in(local.trace)(*inputs, **kwargs)
        for hook in list(self._forward_post_hooks.values()):
            new = hook(self, inputs, out)
            if new is not None:
                out = new
        return out

    def register_forward_pre_hook(self, hook: Callable, *, with_kwargs: bool = False) -> Hook:
        """Register a function that is called before each ``forward``.

        Args:
            hook: Function ``hook(layer, inputs)`` of the layer and the tuple of its inputs. What it returns, unless
                None, replaces the inputs; anything but a tuple is the only input.
            with_kwargs: Call ``hook(layer, inputs, kwargs)`` instead, which returns None or a pair (inputs, kwargs).
                Default: False.

        Returns:
            A handle whose ``remove()`` unregisters the hook.

        Examples:
            >>> layer = bireme.nn.Identity()
            >>> hook = layer.register_forward_pre_hook(lambda layer, inputs: inputs[0] * 2)
            >>> layer(bireme.to_tensor([1.0])).tolist()
            [2.0]
            >>> hook.remove()
        """
        errors.check_function("register_forward_pre_hook(hook)", hook)
        return Hook(self._forward_pre_hooks, (hook, with_kwargs))

    def register_forward_post_hook(self, hook: Callable) -> Hook:
        """Register a function that is called after each ``forward``.

        Args:
            hook: Function ``hook(layer, inputs, output)``. What it returns, unless None, replaces the output.

        Returns:
            A handle whose ``remove()`` unregisters the hook.

        Examples:
            >>> layer = bireme.nn.Identity()
            >>> hook = layer.register_forward_post_hook(lambda layer, inputs, output: output + 1)
            >>> layer(bireme.to_tensor([1.0])).tolist()
            [2.0]
        """
        errors.check_function("register_forward_post_hook(hook)", hook)
        return Hook(self._forward_post_hooks, hook)

    def register_state_dict_hook(self, hook: Callable) -> Hook:
        """Register a function that is called on each state dict of this layer.

        Args:
            hook: Function ``hook(state)``. What it returns, unless None, replaces the state dict.

        Returns:
            A handle whose ``remove()`` unregisters the hook.
        """
        errors.check_function("register_state_dict_hook(hook)", hook)
        return Hook(self._state_dict_hooks, hook)

    def __getattr__(self, name: str) -> Any:
        try:
            own = self.__dict__
            for store in _STORES:
                held = own.get(store)
                if held is not None and name in held:
                    return held[name]
            if name in _STORES or name == "_full_name":
                raise errors.failure(
                    f"{type(self).__name__}: super().__init__() was not called first", kind=AttributeError
                )
            raise errors.as_told(torch_names.missing(f"{type(self).__name__!r} object", name, torch_names.LAYER))
        except errors.TELLING as e:
            errors.leave(e)
            raise

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            if isinstance(getattr(type(self), name, None), property):
                object.__setattr__(self, name, value)
                return
            kind = _kind(value)
            held = next((s for s in _STORES if name in self.__dict__.get(s, ())), None)
            if kind is None and held is None:
                object.__setattr__(self, name, value)
                return
            if self.__dict__.get("_parameters") is None:
                got = f"none before {name!r} is assigned"
                raise errors.bad(f"{type(self).__name__}()", "a call of super().__init__() first", described=got)
            wrong = (kind == "_buffers" and held in ("_parameters", "_sub_layers")) or (
                kind == "_sub_layers" and held == "_parameters"
            )
            if value is not None and (kind is None or wrong):
                expected = {"_parameters": "a Parameter", "_sub_layers": "a Layer", "_buffers": "a Tensor"}[held]
                raise errors.bad(
                    f"{type(self).__name__}.{name}", f"{expected} or None", value, kind=errors.ArgumentTypeError
                )
            if value is None:
                self.__dict__[held][name] = None
                return
            if held is not None and held != kind:
                del self.__dict__[held][name]
            if kind == "_buffers" and held is None:
                # in Paddle a tensor that was merely assigned is a non-persistable buffer
                self._non_persistable_buffer_names_set.add(name)
            elif kind != "_buffers":
                self._non_persistable_buffer_names_set.discard(name)
            self.__dict__.pop(name, None)
            self.__dict__[kind][name] = value
        except errors.TELLING as e:
            errors.leave(e)
            raise

    def __delattr__(self, name: str) -> None:
        for store in _STORES:
            if name in self.__dict__.get(store, ()):
                del self.__dict__[store][name]
                self._non_persistable_buffer_names_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._parameters, *self._sub_layers, *self._buffers})

    def create_parameter(
        self,
        shape: Sequence[int] | Tensor,
        attr: Attr = None,
        dtype: DTypeLike | None = None,
        is_bias: bool = False,
        default_initializer: Initializer | None = None,
        device: DeviceLike | None = None,
    ) -> Parameter | None:
        """Create a parameter for this layer, still to be assigned to an attribute.

        Its initial values are those of the first initializer there is: that of ``attr``, the one set by
        ``set_global_initializer``, ``default_initializer``, zeros for a bias and Xavier uniform otherwise.

        Args:
            shape: Shape of the parameter.
            attr: A ``ParamAttr``, or an initializer, a regularizer or a name alone; ``False`` for no parameter.
                Default: None, all defaults.
            dtype: Data type. Default: None, the default data type.
            is_bias: Use the defaults of biases. Default: False.
            default_initializer: Initializer of this layer's choice. Default: None.
            device: Device of the parameter. Default: None, the current device.

        Returns:
            The parameter, or None if ``attr`` is ``False``.

        Examples:
            >>> bireme.nn.Layer().create_parameter([2], is_bias=True).tolist()
            [0.0, 0.0]
        """
        where = f"{type(self).__name__}.create_parameter"
        try:
            return make_parameter(where, self._full_name, shape, attr, dtype, is_bias, default_initializer, device)
        except errors.TELLING as error:
            raise _by_constructor(error, self, [attr, *(shape if isinstance(shape, (list, tuple)) else ())])  # noqa: B904  # made from it

    _helper = _HelperOf()

    def create_variable(
        self, name: str | None = None, persistable: bool | None = None, dtype: DTypeLike | None = None
    ) -> Tensor:
        """Create a 0-d tensor of zero that is named after this layer.

        Args:
            name: Name after that of the layer and a dot. Default: None, a generated name.
            persistable: Set the attribute ``persistable`` of the tensor. Default: None, False.
            dtype: Data type. Default: None, that of the layer.

        Returns:
            The tensor; it belongs to the layer once it is assigned to an attribute.

        Examples:
            >>> bireme.nn.Layer("mine").create_variable("count", dtype="int64").name.endswith(".count")
            True
        """
        made = zeros([], self._dtype if dtype is None else dtypes.of(dtype, "create_variable(dtype)"))
        made.name = (
            f"{self._full_name}.{name}"
            if name is not None
            else unique_name.generate(f"{self._full_name}._generated_var")
        )
        made.persistable = bool(persistable)
        return made

    create_tensor = create_variable

    def add_parameter(self, name: str, parameter: Parameter | None) -> Parameter | None:
        """Register a parameter under a name, as assigning it to the attribute does.

        Args:
            name: Name of the attribute, without dots.
            parameter: The parameter, or None.

        Returns:
            ``parameter`` itself.

        Examples:
            >>> layer = bireme.nn.Layer()
            >>> layer.add_parameter("w", layer.create_parameter([2])).shape
            [2]
        """
        self._check_name("add_parameter", name, self._parameters)
        if parameter is not None and not isinstance(parameter, Parameter):
            raise errors.bad(
                "add_parameter(parameter)", "a Parameter or None", parameter, kind=errors.ArgumentTypeError
            )
        self._parameters[name] = parameter
        return parameter

    def register_buffer(self, name: str, tensor: Tensor | None, persistable: bool = True) -> None:
        """Register a tensor that belongs to the layer and is not trained, such as a running mean.

        Args:
            name: Name of the attribute, without dots.
            tensor: The tensor, or None.
            persistable: Include it in ``state_dict()``. Default: True.

        Examples:
            >>> layer = bireme.nn.Layer()
            >>> layer.register_buffer("mean", bireme.zeros([1]))
            >>> list(layer.state_dict())
            ['mean']
        """
        self._check_name("register_buffer", name, self._buffers)
        if tensor is not None and (not isinstance(tensor, Tensor) or isinstance(tensor, Parameter)):
            hint = "a buffer should be a Tensor, a Parameter is trained"
            raise errors.bad(
                "register_buffer(tensor)",
                "a Tensor that is not a Parameter, or None",
                tensor,
                hint=hint,
                kind=errors.NotATensorError,
            )
        self._buffers[name] = tensor
        if persistable:
            self._non_persistable_buffer_names_set.discard(name)
        else:
            self._non_persistable_buffer_names_set.add(name)

    def add_sublayer(self, name: str, sublayer: Layer | None) -> Layer | None:
        """Register a sublayer under a name, as assigning it to the attribute does.

        Args:
            name: Name of the attribute.
            sublayer: The layer, or None.

        Returns:
            ``sublayer`` itself.

        Examples:
            >>> bireme.nn.Layer().add_sublayer("act", bireme.nn.ReLU())
            ReLU()
        """
        if sublayer is not None and not isinstance(sublayer, Layer):
            raise errors.bad("add_sublayer(sublayer)", "a Layer or None", sublayer, kind=errors.ArgumentTypeError)
        self._sub_layers[str(name)] = sublayer
        return sublayer

    def _check_name(self, where: str, name: Any, store: dict) -> None:
        what = where.rpartition("_")[2]
        if not isinstance(name, str):
            raise errors.bad(
                f"{where}(name)",
                "a str",
                name,
                hint=f"the name of {what} should be a string",
                kind=errors.ArgumentTypeError,
            )
        if not name or "." in name:
            hint = f"the name of {what} can not {'contain a dot' if name else 'be empty'}"
            raise errors.bad(
                f"{where}(name)", "a name without dots", name or "''", hint=hint, kind=errors.MissingKeyError
            )
        if name not in store and hasattr(self, name):
            hint = f"an attribute {name} already exists"
            raise errors.bad(
                f"{where}(name)", "a name that is not an attribute yet", name, hint=hint, kind=errors.MissingKeyError
            )

    def parameters(self, include_sublayers: bool = True) -> list[Parameter]:
        """Return all parameters, each once.

        Args:
            include_sublayers: Include those of all sublayers. Default: True.

        Returns:
            A list of parameters.

        Examples:
            >>> len(bireme.nn.Linear(2, 3).parameters())
            2
        """
        return [p for _, p in self.named_parameters(include_sublayers=include_sublayers)]

    def named_parameters(
        self, prefix: str = "", include_sublayers: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Iterate over all parameters with their structured names.

        Args:
            prefix: Prepended to the names, with a dot. Default: ``''``.
            include_sublayers: Include those of all sublayers. Default: True.
            remove_duplicate: Return what occurs several times only once. Default: True.

        Returns:
            Iterator over pairs (name, parameter).

        Examples:
            >>> [name for name, _ in bireme.nn.Linear(2, 3).named_parameters()]
            ['weight', 'bias']
        """
        return self._named("_parameters", prefix, include_sublayers, remove_duplicate)

    def buffers(self, include_sublayers: bool = True) -> list[Tensor]:
        """Return all buffers, each once.

        Args:
            include_sublayers: Include those of all sublayers. Default: True.

        Returns:
            A list of tensors.

        Examples:
            >>> layer = bireme.nn.Layer()
            >>> layer.register_buffer("mean", bireme.zeros([1]))
            >>> [t.tolist() for t in layer.buffers()]
            [[0.0]]
        """
        return [b for _, b in self.named_buffers(include_sublayers=include_sublayers)]

    def named_buffers(
        self, prefix: str = "", include_sublayers: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Iterate over all buffers with their structured names.

        Args:
            prefix: Prepended to the names, with a dot. Default: ``''``.
            include_sublayers: Include those of all sublayers. Default: True.
            remove_duplicate: Return what occurs several times only once. Default: True.

        Returns:
            Iterator over pairs (name, tensor).
        """
        return self._named("_buffers", prefix, include_sublayers, remove_duplicate)

    def _named(self, store: str, prefix: str, deep: bool, once: bool) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        layers = self.named_sublayers(prefix, True, remove_duplicate=once) if deep else [(prefix, self)]
        for path, layer in layers:
            for name, held in layer.__dict__[store].items():
                if held is None or (once and id(held) in seen):
                    continue
                seen.add(id(held))
                yield (f"{path}.{name}" if path else name), held

    def children(self) -> Iterator[Layer]:
        """Iterate over the direct sublayers, each once."""
        for _, layer in self.named_children():
            yield layer

    def named_children(self) -> Iterator[tuple[str, Layer]]:
        """Iterate over the direct sublayers with their names, each once."""
        seen: set[int] = set()
        for name, layer in self._sub_layers.items():
            if layer is not None and id(layer) not in seen:
                seen.add(id(layer))
                yield name, layer

    def sublayers(self, include_self: bool = False) -> list[Layer]:
        """Return all layers below this one, each once.

        Args:
            include_self: Include this layer, as the first. Default: False.

        Returns:
            A list of layers.

        Examples:
            >>> bireme.nn.Sequential(bireme.nn.ReLU()).sublayers()
            [ReLU()]
        """
        return [layer for _, layer in self.named_sublayers(include_self=include_self)]

    def named_sublayers(
        self,
        prefix: str = "",
        include_self: bool = False,
        layers_set: set | None = None,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Layer]]:
        """Iterate over all layers below this one with their structured names.

        Args:
            prefix: Prepended to the names, with a dot. Default: ``''``.
            include_self: Include this layer, under the name ``prefix``. Default: False.
            layers_set: Layers to leave out; those that were met are added to it. Default: None, an empty set.
            remove_duplicate: Return what occurs several times only once. Default: True.

        Yields:
            Pairs (name, layer).

        Examples:
            >>> [name for name, _ in bireme.nn.Sequential(bireme.nn.Sequential(bireme.nn.ReLU())).named_sublayers()]
            ['0', '0.0']
        """
        seen = set() if layers_set is None else layers_set
        if remove_duplicate:
            if self in seen:
                return
            seen.add(self)
        if include_self:
            yield prefix, self
        for name, layer in self._sub_layers.items():
            if layer is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from layer.named_sublayers(path, True, seen, remove_duplicate)

    def apply(self, fn: Callable[[Layer], Any]) -> Layer:
        """Call a function on every sublayer and then on this layer.

        Args:
            fn: Function of one layer, for instance one that initializes its parameters.

        Returns:
            This layer.
        """
        errors.check_function("apply(fn)", fn)
        for layer in self.children():
            layer.apply(fn)
        fn(self)
        return self

    def train(self) -> Layer:
        """Switch this layer and all its sublayers to training mode, and return it."""
        for layer in self.sublayers(include_self=True):
            layer.training = True
        return self

    def eval(self) -> Layer:
        """Switch this layer and all its sublayers to evaluation mode, and return it.

        Dropout does nothing then, and batch normalization uses its running statistics. Gradients are recorded as
        before.

        Examples:
            >>> bireme.nn.Dropout(0.5).eval()(bireme.to_tensor([1.0])).tolist()
            [1.0]
        """
        for layer in self.sublayers(include_self=True):
            layer.training = False
        return self

    def full_name(self) -> str:
        """Return the layer's unique name, such as ``linear_0``; the names of its parameters begin with it."""
        return self._full_name

    def clear_gradients(self, set_to_zero: bool = True) -> None:
        """Clear the gradients of all trainable parameters.

        Args:
            set_to_zero: Fill them with zeros; ``False`` drops them. Default: True.
        """
        for p in self.parameters():
            if p.trainable:
                p.clear_gradient(set_to_zero)

    def extra_repr(self) -> str:
        """Return what ``repr`` shows between the parentheses; to be defined by each layer."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr().split("\n") if self.extra_repr() else []
        below = [f"({name}): " + repr(layer).replace("\n", "\n  ") for name, layer in self._sub_layers.items()]
        head = f"{type(self).__name__}("
        if len(extra) == 1:  # one line stands beside the name, as in Paddle
            head, extra = head + extra[0], []
        lines = [*extra, *below]
        return head + "".join(f"\n  {line}" for line in lines) + ("\n)" if lines else ")")


def _snake(name: str) -> str:
    """``LayerNorm`` as ``layer_norm``, ``ReLU`` as ``re_lu``, ``Conv2D`` as ``conv2d``, as in checkpoints of Paddle."""
    return _CAMEL.sub("_", name).lower()


def _kind(value: Any) -> str | None:
    """The store a value belongs in; None for plain attributes."""
    if isinstance(value, Parameter):
        return "_parameters"
    if isinstance(value, Layer):
        return "_sub_layers"
    return "_buffers" if isinstance(value, Tensor) else None
