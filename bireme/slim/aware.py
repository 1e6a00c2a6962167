"""Training of programs with quantization: products round their operands in training, and get integers afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bireme.core.base import errors
from bireme.core.program import calls
from bireme.core.program.building import into
from bireme.core.program.program import Operation, Program, suspended
from bireme.core.program.variable import Symbol, symbol_of
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor
from bireme.jit.transforms.editing import arguments, rebuilt
from bireme.nn import Conv2D
from bireme.nn.quant.qat import QuantedConv2D, QuantedLinear
from bireme.ops import fake_quantize, full, maximum
from bireme.quantization.saved import layer_of
from bireme.static import global_scope

__all__ = ["convert", "quant_aware"]

MATRICES = ("mul", "matmul", "matmul_v2")
PRODUCTS = ("conv2d", "depthwise_conv2d", *MATRICES)
# products, with the names of what they multiply
OPERANDS = {"conv2d": ("x", "weight"), "linear": ("x", "weight"), "matmul": ("x", "y"), "mm": ("input", "mat2")}
ROUNDING = ("fake_quantize", "round_and_follow")
OTHERS = (
    *("conv2d_transpose", "pool2d", "elementwise_add", "elementwise_mul", "concat", "softmax", "relu", "relu6"),
    *("leaky_relu", "hard_swish", "swish", "batch_norm", "layer_norm", "nearest_interp", "bilinear_interp", "split"),
    *("transpose2", "reshape2", "flatten2", "arg_max", "mean", "sigmoid", "tanh", "prelu", "scale", "gelu"),
)


@dataclass
class Settings:
    """What PaddleSlim's dictionaries of settings say; those of runtimes that are not here have no effect."""

    weight_quantize_type: str = "channel_wise_abs_max"
    activation_quantize_type: str = "moving_average_abs_max"
    weight_bits: int = 8
    activation_bits: int = 8
    not_quant_pattern: Any = field(default_factory=lambda: ["skip_quant"])
    quantize_op_types: list[str] = field(default_factory=lambda: ["conv2d", "depthwise_conv2d", "mul"])
    dtype: str = "int8"
    window_size: int = 10000
    moving_rate: float = 0.9
    for_tensorrt: bool = False
    is_full_quantize: bool = False
    onnx_format: bool = True
    quant_post_first: bool = False
    scale_trainable: bool = True
    deploy_backend: str | None = None

    @classmethod
    def of(cls, where: str, config: Any) -> Settings:
        """The settings that somebody gave, looked through."""
        if config is not None and not isinstance(config, dict):
            raise errors.bad(f"{where}(config)", "a dict", config, kind=errors.ArgumentTypeError)
        known = cls.__dataclass_fields__
        for name in config or ():
            if name not in known:
                raise errors.bad(f"{where}(config)", f"names among {', '.join(known)}", name)
        made = cls(**(config or {}))
        made._check(where)
        return made

    def _check(self, where: str) -> None:
        choices = {
            "weight_quantize_type": ("channel_wise_abs_max", "abs_max"),
            "activation_quantize_type": ("moving_average_abs_max", "range_abs_max", "abs_max"),
            "dtype": ("int8",),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise errors.bad(f"{where}({name})", f"one of {', '.join(map(repr, allowed))}", getattr(self, name))
        for name in ("weight_bits", "activation_bits"):
            bits = getattr(self, name)
            if isinstance(bits, bool) or not isinstance(bits, int) or not 2 <= bits <= 16:
                raise errors.bad(f"{where}({name})", "an integer in [2, 16]", bits, kind=errors.for_integer(bits))
        if not isinstance(self.moving_rate, float) or not 0 <= self.moving_rate < 1:
            raise errors.bad(f"{where}(moving_rate)", "a number in [0, 1)", self.moving_rate)
        if self.quant_post_first:
            raise errors.bad(f"{where}(quant_post_first)", "False: start from a trained program", True)
        unknown = [name for name in self.quantize_op_types if name not in PRODUCTS and name not in OTHERS]
        if unknown:
            raise errors.bad(
                f"{where}(quantize_op_types)", f"names among {', '.join((*PRODUCTS, *OTHERS))}", unknown[0]
            )

    def wants(self, operation: Operation) -> bool:
        """Whether a call is one of the products that are to be rounded."""
        patterns = [self.not_quant_pattern] if isinstance(self.not_quant_pattern, str) else self.not_quant_pattern
        if any(pattern and pattern in operation.scope for pattern in patterns):
            return False
        names = list(PRODUCTS) if self.for_tensorrt or self.is_full_quantize else self.quantize_op_types
        return any(name in names for name in _kinds(operation))


def _kinds(operation: Operation) -> tuple[str, ...]:
    """Names that PaddleSlim has for a product of numbers with a stored weight; none for other calls."""
    given = arguments(operation)
    if given is None or operation.type not in OPERANDS:
        return ()
    x, weight = (given.get(name) for name in OPERANDS[operation.type])
    if not isinstance(x, Symbol) or not isinstance(weight, Tensor) or given.get("transpose_x"):
        return ()
    if x.dtype.name != "float32" or weight.dtype.name != "float32":
        return ()
    if operation.type == "conv2d":
        return ("depthwise_conv2d" if given["groups"] > 1 and weight.shape[1] == 1 else "conv2d",)
    return MATRICES if weight.ndim == 2 else ()


# ------------------------------------------------------------ what rounds an input


def _rounded(x: Tensor, scale: Tensor, seen: Tensor, sums: Tensor, how: str, rate: float, bits: int) -> Tensor:
    return fake_quantize(x, scale, 0, bits, 0)


@calls.effective(_rounded)
def round_and_follow(x: Tensor, scale: Tensor, seen: Tensor, sums: Tensor, how: str, rate: float, bits: int) -> Tensor:
    """Numbers as integers give them, after the scale has followed their largest magnitude."""
    with no_grad():
        most = x.detach().abs().max().astype("float32").reshape([1])
        if how == "moving_average_abs_max":
            seen._assign_value(seen * rate + 1.0)
            sums._assign_value(sums * rate + most)
            scale._assign_value(sums / seen)
        else:
            scale._assign_value(maximum(scale, most) if how == "range_abs_max" else most)
    return _rounded(x, scale, seen, sums, how, rate, bits)


def _states(weight: Tensor, count: int) -> list[Tensor]:
    """Scale of what a weight is multiplied with, and what it follows from; a program for tests has those of the one that is
    trained, since both have the same parameter.
    """
    held: dict[int, list[Tensor]] = weight.__dict__.setdefault("_input_scales", {})
    if count not in held:
        with suspended():
            held[count] = [full([1], start, "float32") for start in (0.001, 0.0, 0.0)]
        tail = f".{count}" if count else ""
        for t, name in zip(held[count], ("scale", "state", "accum"), strict=True):
            t.name, t.persistable, t.stop_gradient = f"{weight.name}{tail}@input_{name}", True, True
    return held[count]


# ------------------------------------------------------------ the two functions


def quant_aware(
    program: Any, place: Any, config: dict[str, Any] | None = None, scope: Any = None, for_test: bool = False,
    weight_quantize_func: Callable | None = None, act_quantize_func: Callable | None = None,
    weight_preprocess_func: Callable | None = None, act_preprocess_func: Callable | None = None,
    optimizer_func: Callable | None = None, executor: Any = None, return_program: bool = False,
    calib_config: dict[str, Any] | None = None, draw_graph: bool = False, return_scale_dict: bool = False,
    scale_dict: dict[str, Any] | None = None, model_type: str | None = None, pattern_ops: dict[str, Any] | None = None,
) -> Program:  # fmt: skip
    """Let the products of a program round weights and inputs to what integers stand for, so that training gets used to it.

    The gradient passes as if nothing was rounded. The program that is trained and the one that is tested have the
    same parameters, and therefore the same scales.

    Args:
        program: Program for training, before or after ``minimize``, or for tests. It stays as it is.
        place: Has no effect: programs run where the process does.
        config: PaddleSlim's settings by name: ``weight_quantize_type`` (``"channel_wise_abs_max"`` or ``"abs_max"``),
            ``activation_quantize_type`` (``"moving_average_abs_max"``, ``"range_abs_max"``, the largest of all, or ``"abs_max"``, that of
            the batch), ``weight_bits``, ``activation_bits``, ``moving_rate``, ``quantize_op_types`` (products: ``"conv2d"``,
            ``"depthwise_conv2d"``, ``"mul"``, ``"matmul"``, ``"matmul_v2"``; others are not rounded) and
            ``not_quant_pattern``, parts of names of layers that stay as they are; settings of other runtimes have no effect. Default: None.
        scope: Scope with the parameters. Default: None, the global one.
        for_test: The program is for tests: scales are used and do not follow. Default: False.
        weight_quantize_func: Not there: has to be None.
        act_quantize_func: Not there: has to be None.
        weight_preprocess_func: Function of a weight that gives what is rounded in its place. Default: None.
        act_preprocess_func: Function of an input that gives what is rounded in its place. Default: None.
        optimizer_func: Has no effect: an optimizer that is in the program updates the same parameters. Default: None.
        executor: Has no effect. Default: None.
        return_program: Has no effect: a program is returned. Default: False.
        calib_config: Has no effect. Default: None.
        draw_graph: Has no effect. Default: False.
        return_scale_dict: Not there: has to be False.
        scale_dict: Not there: has to be None.
        model_type: Has no effect. Default: None.
        pattern_ops: Has no effect. Default: None.

    Returns:
        Another program with the same inputs, parameters and results.

    Raises:
        ValueError: If a setting is wrong, or no product has a stored weight.

    Examples:
        >>> x = bireme.rand([8, 4]).numpy()
        >>> bireme.enable_static()
        >>> program, start = bireme.static.Program(), bireme.static.Program()
        >>> with bireme.static.program_guard(program, start):
        ...     y = bireme.static.nn.fc(bireme.static.data("x", [None, 4]), 2)
        ...     test = program.clone(for_test=True)
        ...     _ = bireme.optimizer.SGD(0.1).minimize(y.square().mean())
        >>> trained = bireme.slim.quant.quant_aware(program, bireme.CPUPlace())
        >>> tested = bireme.slim.quant.quant_aware(test, bireme.CPUPlace(), for_test=True)
        >>> executor = bireme.static.Executor()
        >>> _ = executor.run(start), executor.run(trained, {"x": x})
        >>> made = bireme.slim.quant.convert(tested, bireme.CPUPlace())
        >>> outputs = [executor.run(each, {"x": x}, [y])[0] for each in (tested, made)]
        >>> bireme.disable_static()
        >>> bool(abs(outputs[0] - outputs[1]).max() < 1e-5)
        True
    """
    refused = {
        "weight_quantize_func": weight_quantize_func,
        "act_quantize_func": act_quantize_func,
        "return_scale_dict": return_scale_dict or None,
        "scale_dict": scale_dict,
    }
    for name, given in refused.items():
        if given is not None:
            raise errors.bad(f"quant_aware({name})", "nothing: scales are found in training", given)
    settings = Settings.of("quant_aware", config)
    source = _program("quant_aware", program)
    ignored = [name for name in settings.quantize_op_types if name in OTHERS]
    if ignored:
        errors.warn(
            f"quant_aware(quantize_op_types): only products are rounded, so {', '.join(ignored)} stay as they are"
        )
    uses: dict[int, int] = {}

    made = source.clone(for_test=for_test)

    def rounded(operation: Operation) -> Operation:
        given, (first, second) = arguments(operation), OPERANDS[operation.type]
        assert given is not None
        x, weight, bits = made._var(given[first]), given[second], settings.activation_bits
        count = uses[id(weight)] = uses.get(id(weight), -1) + 1
        x = x if act_preprocess_func is None else act_preprocess_func(x)
        states = _states(weight, count)
        if for_test:
            x = fake_quantize(x, states[0], 0, bits, 0)
        else:
            how, rate = settings.activation_quantize_type, settings.moving_rate
            x = calls.recorded(round_and_follow, x, *states, how, rate, bits)
        whole = weight if weight_preprocess_func is None else weight_preprocess_func(weight)
        axis = 0 if operation.type == "conv2d" or given.get("transpose_y") else 1
        each = settings.weight_quantize_type == "channel_wise_abs_max"
        with no_grad():
            most = whole.abs().max(axis=[i for i in range(weight.ndim) if i != axis] if each else None)
        whole = fake_quantize(whole, most, axis if each else 0, settings.weight_bits, 0)
        return rebuilt(operation, {first: symbol_of(x), second: symbol_of(whole)})

    if not _spliced(made, settings.wants, rounded):
        raise errors.failure(
            "quant_aware: the program has no product with a stored weight to quantize", kind=ValueError
        )
    return made


def _spliced(program: Program, wants: Callable[[Operation], bool], make: Callable[[Operation], Any]) -> int:
    """Put other calls in the place of some, which give what those gave; how many there were. `make` records them, and gives the
    last one, or what it gives.
    """
    count, before, after = 0, program.operations, []
    for operation in before:
        if operation.role != "forward" or not wants(operation):
            after.append(operation)
            continue
        count, program.operations = count + 1, []
        with into(program):
            last = make(operation)
        if isinstance(last, Operation):
            program._append(last)
        else:
            program.symbols.pop(last.symbol.name)
            program.operations[-1].results = operation.results
        after += program.operations
    program.operations = after
    program.version += 1
    return count


def _program(where: str, given: Any) -> Program:
    found = getattr(given, "_program", given)  # a compiled one has it
    if not isinstance(found, Program):
        raise errors.bad(f"{where}(program)", "a Program", given, kind=errors.ArgumentTypeError)
    return found


def convert(
    program: Any, place: Any, config: dict[str, Any] | None = None, scope: Any = None, save_int8: bool = False
) -> Any:
    """Turn a program that was trained with ``quant_aware`` into one with integers, for inference.

    With 8 bits for weights and inputs int8 is multiplied by int8 and added up in int32.

    Args:
        program: What ``quant_aware`` gave for tests. It stays as it is.
        place: Has no effect: programs run where the process does.
        config: The settings that ``quant_aware`` was given; all that matters stands in the program. Default: None.
        scope: Scope with the parameters. Default: None, the global one.
        save_int8: Return the program twice, as PaddleSlim returns one with floats and one with integers. Default: False.

    Returns:
        Another program with the same inputs and results, which ``static.save_inference_model`` saves.

    Raises:
        ValueError: If no product of the program rounds its operands.

    Examples:
        >>> bireme.enable_static()
        >>> program, start = bireme.static.Program(), bireme.static.Program()
        >>> with bireme.static.program_guard(program, start):
        ...     y = bireme.static.nn.fc(bireme.static.data("x", [None, 4]), 2)
        >>> _ = bireme.static.Executor().run(start)
        >>> tested = bireme.slim.quant.quant_aware(program, bireme.CPUPlace(), for_test=True)
        >>> made = bireme.slim.quant.convert(tested, bireme.CPUPlace())
        >>> bireme.disable_static()
        >>> "matmul_integer" in [operation.type for operation in made.ops]
        True
    """
    Settings.of("convert", config)
    made = _program("convert", program).clone(for_test=True)
    held = scope or global_scope()
    makers = {symbol: operation for operation in made.operations for symbol in operation.makes}

    def rounding(operation: Operation) -> list[Operation] | None:
        """What rounds the input and the weight of a product."""
        given = arguments(operation) if operation.type in OPERANDS else None
        if given is None:
            return None
        parts = [makers.get(given[name]) for name in OPERANDS[operation.type] if isinstance(given[name], Symbol)]
        known = [part for part in parts if part is not None and part.type in ROUNDING]
        # a weight that a function of somebody's gives is not stored
        return known if len(known) == 2 and isinstance(known[1].args[0], Tensor) else None

    def converted(operation: Operation) -> Any:
        found = rounding(operation)
        assert found is not None
        x, w = found
        names = OPERANDS[operation.type]
        with suspended():
            product = rebuilt(operation, {names[0]: x.args[0], names[1]: held.tensor(w.args[0]).detach()})
            layer, symbol = layer_of(product)  # type: ignore[misc]  # a product with a weight, as it was before it was rounded
            bits = x.args[-1] if x.type == "round_and_follow" else x.args[3]
            whole = _with_integers(layer, held.tensor(x.args[1]), bits, w.args[3], bool(w.args[1].shape))
        return whole(made._var(symbol))

    if not _spliced(made, lambda operation: rounding(operation) is not None, converted):
        raise errors.failure(
            "convert: no product of the program rounds its operands",
            hint="give it what quant_aware returned",
            kind=ValueError,
        )
    made.operations = _without_rounding(made.operations)
    kept = {id(x) for operation in made.operations for x in operation.reads}
    made.tensors = {name: t for name, t in made.tensors.items() if id(t) in kept}
    return (made, made) if save_int8 else made


def _without_rounding(operations: list[Operation]) -> list[Operation]:
    """The calls without those that round for nobody, and what only these have read."""
    kept: list[Operation] = []
    needed: set[Symbol] = set()
    left: set[Symbol] = set()  # what was read by calls that are gone
    for operation in reversed(operations):
        makes, reads = operation.makes, {x for x in operation.reads if isinstance(x, Symbol)}
        goes = operation.type in ROUNDING or (makes and left.issuperset(makes))
        if goes and not needed.intersection(makes):
            left |= reads
        else:
            kept.append(operation)
            needed |= reads
    return kept[::-1]


@dataclass
class _Known:
    """A quanter with scales that are known, and a factory of itself, as layers with integers want one."""

    most: Tensor
    axis: int
    bits: int

    def _instance(self, layer: Any) -> Any:
        return self

    def scales(self) -> Tensor:
        return self.most

    def zero_points(self) -> None:
        return None

    def quant_axis(self) -> int:
        return self.axis

    def bit_length(self) -> int:
        return self.bits


@dataclass
class _Quanters:
    """Those of a layer, as its configuration."""

    activation: _Known
    weight: _Known


def _with_integers(layer: Any, scale: Tensor, bits: int, weight_bits: int, each: bool) -> Any:
    """A layer with integers in the place of one whose input has a known scale; `each`: one for each output of the weight."""
    conv = isinstance(layer, Conv2D)
    axis, weight = 0 if conv else 1, layer.weight.detach().abs()
    most = weight.max(axis=[i for i in range(weight.ndim) if i != axis]) if each else weight.max()
    config = _Quanters(_Known(scale.reshape([]), -1, bits), _Known(most, axis if each else -1, weight_bits))
    made = (QuantedConv2D if conv else QuantedLinear)(layer, config)
    made.eval()
    made._to_integers()
    return made
