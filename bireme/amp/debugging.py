"""Where numbers go wrong: checks for NaN and infinity, counts of operators by type, two runs side by side."""

from __future__ import annotations

import contextlib
import enum
import functools
import os
import random as python_random
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from bireme.amp.spreadsheet import write_sheet
from bireme.core.base import dtype as dtypes
from bireme.core.base import errors, registry
from bireme.core.base import random_state as streams
from bireme.core.base.boundary import guard_functions
from bireme.core.graph import segment
from bireme.core.record import flush
from bireme.core.tensor.tensor import Tensor
from bireme.ops import to_tensor

__all__ = [
    "DebugMode", "TensorCheckerConfig", "check_numerics", "enable_operator_stats_collection",
    "disable_operator_stats_collection", "collect_operator_stats", "enable_tensor_checker", "disable_tensor_checker",
    "compare_accuracy", "check_layer_numerics",
]  # fmt: skip

SHORT = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64"}


def _name(bound: Any) -> str:
    """The user's name of an operator; that of a gradient begins with the name of its operator."""
    return bound.op.told


class DebugMode(enum.Enum):
    """What a check of numerical values reports.

    - ``CHECK_NAN_INF_AND_ABORT``: raise an error at NaN or infinity.
    - ``CHECK_NAN_INF``: print a line for each result with NaN or infinity.
    - ``CHECK_ALL_FOR_OVERFLOW``: also print a line for each float32 result that float16 could not hold.
    - ``CHECK_ALL``: print a line for each result.

    Examples:
        >>> bireme.amp.debugging.DebugMode.CHECK_NAN_INF.value
        1
    """

    CHECK_NAN_INF_AND_ABORT = 0
    CHECK_NAN_INF = 1
    CHECK_ALL_FOR_OVERFLOW = 2
    CHECK_ALL = 3


# ---------------------------------------------------------------- statistics of one tensor


class Figures:
    """Numbers of NaN, infinite and zero elements, and maximum, minimum and mean."""

    def __init__(self, array: Any):
        wide = np.asarray(array)
        wide = wide.astype(np.complex128 if wide.dtype.kind == "c" else np.float64)
        size = np.abs(wide) if wide.dtype.kind == "c" else wide
        self.numel = int(wide.size)
        self.nan, self.inf, self.zero = int(np.isnan(wide).sum()), int(np.isinf(wide).sum()), int((wide == 0).sum())
        rest = size[~np.isnan(size)]
        with np.errstate(all="ignore"):
            self.max, self.min = (float(rest.max()), float(rest.min())) if rest.size else (float("nan"),) * 2
            self.mean = float(size.mean()) if size.size else 0.0

    @property
    def bad(self) -> bool:
        return bool(self.nan or self.inf)

    @property
    def overflows(self) -> bool:
        """Whether float16 could not hold it."""
        return self.bad or max(abs(self.max), abs(self.min)) > 65504

    def line(self, level: str, device: str, op: str, tensor: str, dtype: str) -> str:
        counts = f"numel={self.numel}, num_nan={self.nan}, num_inf={self.inf}, num_zero={self.zero}"
        sizes = ", ".join(
            f"{n}={v if not np.isfinite(v) else format(v, 'e')}"
            for n, v in (("max", self.max), ("min", self.min), ("mean", self.mean))
        )
        return f"[PRECISION] [{level}] in [device={device}, op={op}, tensor={tensor}, dtype={dtype}], {counts}, {sizes}"


def _tells(figures: Figures, mode: DebugMode, dtype: str) -> str | None:
    """Return the level of the line to write; None if there is none."""
    if figures.bad:
        return "ERROR"
    if mode is DebugMode.CHECK_ALL_FOR_OVERFLOW and dtype == "fp32" and figures.overflows:
        return "WARNING"
    return "INFO" if mode is DebugMode.CHECK_ALL else None


def _device(value: Any) -> str:
    return "cpu" if value.device.is_cpu else f"gpu:{value.device.index}"


def check_numerics(
    tensor: Tensor, op_type: str, var_name: str, debug_mode: DebugMode = DebugMode.CHECK_NAN_INF_AND_ABORT
) -> tuple[Tensor, Tensor]:
    """Count NaN, infinite and zero elements of a tensor and compute its maximum, minimum and mean.

    Args:
        tensor: A floating-point or complex tensor.
        op_type: Name of the operator, for the message.
        var_name: Name of the tensor, for the message.
        debug_mode: What to do about NaN and infinity, a ``DebugMode``. Default: ``CHECK_NAN_INF_AND_ABORT``.

    Returns:
        A tuple of an int64 tensor with the numbers of NaN, infinite and zero elements, and a float32 tensor with
        maximum, minimum and mean.

    Raises:
        NonFiniteError: If there are NaN or infinite elements and ``debug_mode`` is ``CHECK_NAN_INF_AND_ABORT``.

    Examples:
        >>> counts, sizes = bireme.amp.debugging.check_numerics(bireme.to_tensor([1.0, 0.0, 3.5]), "relu", "x")
        >>> counts.tolist(), sizes.tolist()
        ([0, 0, 1], [3.5, 0.0, 1.5])
    """
    if not isinstance(tensor, Tensor) or not tensor.dtype.is_inexact:
        raise errors.bad("check_numerics(tensor)", "a floating-point Tensor", tensor, kind=errors.ArgumentTypeError)
    found, short = Figures(tensor._host()), SHORT.get(tensor.dtype.name, tensor.dtype.name)
    level = _tells(found, debug_mode, short)
    line = found.line(level or "INFO", _device(tensor._value), op_type, var_name, short)
    if level == "ERROR" and debug_mode is DebugMode.CHECK_NAN_INF_AND_ABORT:
        message = f"check_numerics({var_name}): {line.partition('] in ')[2]}"
        raise errors.failure(message, kind=errors.NonFiniteError)
    if level:
        sys.stdout.write(f"{line}\n")
    return to_tensor([found.nan, found.inf, found.zero], "int64"), to_tensor(
        [found.max, found.min, found.mean], "float32"
    )


# ---------------------------------------------------------------- all results while a program runs


def _names(where: str, given: Any) -> frozenset[str] | None:
    if given is None:
        return None
    if not isinstance(given, (list, tuple)):
        raise errors.bad(where, "a list or tuple of names of operators", given)
    if not all(isinstance(n, str) for n in given):
        raise errors.bad(where, "names of operators", list(given), kind=errors.ArgumentTypeError)
    names: Sequence[str] = given
    known = {n: [registry.OPS[own].told for own in registry.known_as(n) if own in registry.OPS] for n in names}
    return frozenset(told for n, found in known.items() for told in found or [n])


class TensorCheckerConfig:
    """Settings of ``enable_tensor_checker``: which results are checked, at which steps, and what is reported.

    With ``enable=True``, creating it seeds the generators of Bireme, NumPy and Python, so that two runs can be
    compared.

    Args:
        enable: Whether to check.
        debug_mode: What is reported, a ``DebugMode``. Default: ``CHECK_NAN_INF_AND_ABORT``.
        output_dir: Directory for a log file. Default: None, lines go to stdout.
        checked_op_list: Names of the operators to check. Default: None, all.
        skipped_op_list: Names of operators not to check. Default: None.
        debug_step: Pair ``(start, stop)``: check from call ``start`` of ``enable_tensor_checker``, counted from 0, up
            to but not including call ``stop``. Default: None, always.
        stack_height_limit: If not 0, lines end with the file and line of the call. Default: 1.

    Examples:
        >>> config = bireme.amp.debugging.TensorCheckerConfig(enable=True, debug_step=(1, 3))
        >>> [config.update_and_check_step_id() for _ in range(4)]
        [False, True, True, False]
        >>> bireme.amp.debugging.TensorCheckerConfig.current_step_id = 0
    """

    current_step_id = 0

    def __init__(
        self,
        enable: bool,
        debug_mode: DebugMode = DebugMode.CHECK_NAN_INF_AND_ABORT,
        output_dir: str | None = None,
        checked_op_list: Sequence[str] | None = None,
        skipped_op_list: Sequence[str] | None = None,
        debug_step: Sequence[int] | None = None,
        stack_height_limit: int = 1,
    ):
        where = "TensorCheckerConfig"
        if not isinstance(debug_mode, DebugMode):
            raise errors.bad(f"{where}(debug_mode)", "a DebugMode", debug_mode, kind=AttributeError)
        if not isinstance(stack_height_limit, int):
            raise errors.bad(
                f"{where}(stack_height_limit)",
                "an integer",
                stack_height_limit,
                kind=errors.for_integer(stack_height_limit),
            )
        self.enable, self.debug_mode, self.output_dir = enable, debug_mode, output_dir
        self.checked_op_list, self.skipped_op_list = checked_op_list, skipped_op_list
        self._checked = _names(f"{where}(checked_op_list)", checked_op_list)
        self._skipped = _names(f"{where}(skipped_op_list)", skipped_op_list)
        self.debug_step, self.stack_height_limit = debug_step, stack_height_limit
        self.start_step: int | None = None
        self.end_step: int | None = None
        if debug_step is not None:
            if not isinstance(debug_step, (list, tuple)):
                raise errors.bad(f"{where}(debug_step)", "a list or tuple of two steps", debug_step)
            if len(debug_step) != 2 or debug_step[1] <= debug_step[0]:
                raise errors.bad(
                    f"{where}(debug_step)", "[start, end] with start < end", list(debug_step), kind=errors.ArgumentError
                )
            self.start_step, self.end_step = max(debug_step[0], 0), debug_step[1]
        self.initial_seed = streams.default_generator().initial_seed()
        self.seed = self.initial_seed if self.initial_seed < 1 << 32 else 123  # the largest seed of NumPy
        self._watching = False
        if enable:  # the same numbers in each run, so that runs can be compared
            streams.seed(self.seed)
            np.random.seed(self.seed)  # noqa: NPY002  # the user's own stream is meant
            python_random.seed(self.seed)

    def update_and_check_step_id(self) -> bool:
        """Count a step and return whether it is one to check.

        Examples:
            >>> bireme.amp.debugging.TensorCheckerConfig(enable=False).update_and_check_step_id()
            False
        """
        if not self.enable:
            return False
        if self.start_step is None or self.end_step is None:
            return True
        step = TensorCheckerConfig.current_step_id
        if step < self.end_step:
            TensorCheckerConfig.current_step_id = step + 1
        return self.start_step <= step < self.end_step

    def start_check_nan_inf(self) -> None:
        """Start to check the results of each operator; operators then run one at a time.

        Examples:
            >>> config = bireme.amp.debugging.TensorCheckerConfig(enable=True)
            >>> config.start_check_nan_inf()
            >>> config.stop_check_nan_inf()
        """
        if self.enable and not self._watching:
            self._watching = True
            segment.watch(self._look)

    def stop_check_nan_inf(self) -> None:
        """Stop checking."""
        if self._watching:
            self._watching = False
            segment.unwatch(self._look)

    def _look(self, bound: Any, operands: list, outs: list, pos: Any) -> None:
        name = _name(bound)
        if (self._checked is not None and name not in self._checked) or (
            self._skipped is not None and name in self._skipped
        ):
            return
        for v in outs:
            if not v.sig.dtype.is_inexact:
                continue
            found, short = Figures(flush.force(v)), SHORT.get(v.sig.dtype.name, v.sig.dtype.name)
            level = _tells(found, self.debug_mode, short)
            if level is None:
                continue
            line = found.line(level, _device(v), name, "", short)
            if level == "ERROR" and self.debug_mode is DebugMode.CHECK_NAN_INF_AND_ABORT:
                text = errors.nonfinite(name, found.nan, found.inf, v.sig.shape)
                raise errors.failure(text, kind=errors.NonFiniteError, pos=pos)
            self._write(f"{line}, at {errors.location(pos)}\n" if self.stack_height_limit else f"{line}\n", _device(v))

    def _write(self, line: str, device: str) -> None:
        if self.output_dir is None:
            sys.stdout.write(line)
            return
        os.makedirs(self.output_dir, exist_ok=True)
        with open(
            os.path.join(self.output_dir, f"worker_{device.replace(':', '.')}.log"), "a", encoding="utf-8"
        ) as file:
            file.write(line)


_current: list[TensorCheckerConfig] = []


def enable_tensor_checker(checker_config: TensorCheckerConfig) -> None:
    """Check the results of each operator until ``disable_tensor_checker`` is called; call it once per step.

    Args:
        checker_config: What to check, a ``TensorCheckerConfig``.

    Examples:
        >>> bireme.amp.debugging.enable_tensor_checker(bireme.amp.debugging.TensorCheckerConfig(enable=True))
        >>> (bireme.to_tensor([1.0]) * 2.0).tolist()
        [2.0]
        >>> bireme.amp.debugging.disable_tensor_checker()
    """
    if not isinstance(checker_config, TensorCheckerConfig):
        raise errors.bad(
            "enable_tensor_checker(checker_config)",
            "a TensorCheckerConfig",
            checker_config,
            kind=errors.ArgumentTypeError,
        )
    if checker_config.update_and_check_step_id():
        if checker_config not in _current:
            _current.append(checker_config)
        checker_config.start_check_nan_inf()
    else:
        checker_config.stop_check_nan_inf()


def disable_tensor_checker() -> None:
    """Stop what ``enable_tensor_checker`` has started.

    Examples:
        >>> bireme.amp.debugging.disable_tensor_checker()
    """
    while _current:
        _current.pop().stop_check_nan_inf()


def check_layer_numerics(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate the ``forward`` of a layer so that its operators are checked one by one.

    The first operator that produces NaN or infinity raises an error that names the layer, the operator and its line.

    Args:
        func: The ``forward`` method; its first input must be a tensor, given by position.

    Returns:
        The decorated method.

    Examples:
        >>> class Inverse(bireme.nn.Layer):
        ...     @bireme.amp.debugging.check_layer_numerics
        ...     def forward(self, x):
        ...         return 1 / x
        >>> Inverse()(bireme.to_tensor([2.0])).tolist()
        [0.5]
    """

    @functools.wraps(func)
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not args:
            where = f"{type(self).__name__}.forward"
            raise errors.bad(where, "a positional input", described="none", kind=RuntimeError)
        if not isinstance(args[0], Tensor):
            raise errors.bad(f"{type(self).__name__}.forward", "a Tensor as first input", args[0], kind=RuntimeError)

        def look(bound: Any, operands: list, outs: list, pos: Any) -> None:
            for v in outs:
                found = Figures(flush.force(v)) if v.sig.dtype.is_inexact else None
                if found is not None and found.bad:
                    layer = type(self).__name__
                    text = f"{layer}: {errors.nonfinite(_name(bound), found.nan, found.inf, v.sig.shape)}"
                    raise errors.failure(text, kind=errors.NonFiniteError, pos=pos)

        segment.watch(look)
        try:
            return func(self, *args, **kwargs)
        finally:
            segment.unwatch(look)

    return checked


# ---------------------------------------------------------------- which operators ran in which type

COLUMNS = ("fp16", "bf16", "fp32", "other")


class _Counts:
    """Number of calls of each operator, by dtype."""

    def __init__(self) -> None:
        self.calls: dict[str, list[int]] = {}

    def look(self, bound: Any, operands: list, outs: list, pos: Any) -> None:
        kinds = [x[0] if x.__class__ is tuple else x.sig.dtype for x in operands] + [v.sig.dtype for v in outs]
        kind = next((k for k in kinds if k.is_floating), kinds[-1] if kinds else dtypes.float32)
        column = SHORT.get(kind.name, "other")
        column = column if column in COLUMNS else "other"
        name = _name(bound)
        # in Paddle, whose programs look for these counts, the bias of a convolution is added by an operator of its own
        for told in (name, "add") if re.fullmatch(r"conv\dd(_transpose)?", name) and len(operands) > 2 else (name,):
            self.calls.setdefault(told, [0, 0, 0, 0])[COLUMNS.index(column)] += 1

    def table(self) -> str:
        heads = ("Op Name".center(24, " ").strip(), "FP16 Calls", "BF16 Calls", "FP32 Calls", "Other Calls")
        rows = [f"<{' op list '.center(120, '-')}>"]
        calls = f"-- {heads[1]} --- | -- {heads[2]} --- | --- {heads[3]}--- | -- {heads[4]} --"
        title = f"<{'-' * 15} {heads[0]} {'-' * 16} | {calls}>"
        rows.append(title)
        for name in sorted(self.calls):
            rows.append(f"  {name:<40}| " + "| ".join(f" {n:<17}" for n in self.calls[name]))
        rows.append(f"<{f' op count: {len(self.calls)} '.center(120, '-')}>")
        return "\n".join(rows) + "\n\n"


_counts: list[_Counts] = []
_last: dict[str, str] = {}  # by operator: the counts of the last collection


def get_low_precision_op_list() -> dict[str, str]:
    """Return the counts of the last collection by Paddle's operator names: float16, bfloat16, float32 and other calls.

    Examples:
        >>> bireme.base.core.clear_low_precision_op_list()
        >>> bireme.base.core.get_low_precision_op_list()
        {}
    """
    return dict(_last)


def clear_low_precision_op_list() -> None:
    """Delete the counts of the last collection.

    Examples:
        >>> bireme.base.core.clear_low_precision_op_list()
    """
    _last.clear()


def enable_operator_stats_collection() -> None:
    """Start to count the calls of each operator by dtype; ``disable_operator_stats_collection`` prints the table.

    Examples:
        >>> bireme.amp.debugging.enable_operator_stats_collection()
        >>> x = bireme.ones([2]) * 2
        >>> bireme.amp.debugging.disable_operator_stats_collection()  # doctest: +ELLIPSIS
        <--... op list ...
    """
    if not _counts:
        _counts.append(_Counts())
        segment.watch(_counts[0].look)


def disable_operator_stats_collection() -> None:
    """Stop the count that ``enable_operator_stats_collection`` has started and print the table to stdout.

    Examples:
        >>> bireme.amp.debugging.disable_operator_stats_collection()
    """
    if _counts:
        counts = _counts.pop()
        segment.unwatch(counts.look)
        theirs = {op.told: op.kernels[0] for op in registry.OPS.values() if op.kernels}
        _last.clear()
        _last.update({theirs.get(n, n): ",".join(map(str, counts.calls[n])) for n in sorted(counts.calls)})
        sys.stdout.write(counts.table())


@contextlib.contextmanager
def collect_operator_stats() -> Iterator[None]:
    """Context manager that counts the calls of each operator by dtype and prints the table at its end.

    Returns:
        A context manager.

    Examples:
        >>> with bireme.amp.debugging.collect_operator_stats():  # doctest: +ELLIPSIS
        ...     x = bireme.ones([2]) * 2
        <--... op list ...
    """
    enable_operator_stats_collection()
    try:
        yield
    finally:
        disable_operator_stats_collection()


# ---------------------------------------------------------------- two runs

LINE = re.compile(
    r"\[PRECISION\] (?:\[(?P<level>\w+)\] )?in "
    r"\[device=(?P<device>[^,]*), op=(?P<op>[^,]*), tensor=(?P<tensor>[^,]*), dtype=(?P<dtype>[^\]]*)\], "
    r"numel=(?P<numel>\d+), num_nan=(?P<nan>\d+), num_inf=(?P<inf>\d+), num_zero=(?P<zero>\d+), "
    r"max=(?P<max>[^,]+), min=(?P<min>[^,]+), mean=(?P<mean>[^,\s]+)"
)
HEADS = (
    "op",
    "tensor",
    *(f"{n} ({i})" for i in (1, 2) for n in ("dtype", "numel", "num_nan", "num_inf", "num_zero", "max", "min", "mean")),
    "status",
)


def _read(where: str, path: str) -> dict[tuple, list[dict[str, Any]]]:
    """Read the lines of a run: those of one operator and tensor in their order."""
    files = (
        sorted(os.path.join(path, n) for n in os.listdir(path) if n.endswith(".log")) if os.path.isdir(path) else [path]
    )
    if not files or not all(os.path.isfile(f) for f in files):
        raise errors.bad(where, "a folder with logs of the tensor checker, or a log file", path, kind=FileNotFoundError)
    found: dict[tuple, list[dict[str, Any]]] = {}
    for name in files:
        with open(name, encoding="utf-8", errors="replace") as file:
            for match in filter(None, map(LINE.search, file)):
                found.setdefault((match["op"], match["tensor"]), []).append(match.groupdict())
    return found


def _figures(line: dict[str, Any] | None, scale: float) -> list[Any]:
    if line is None:
        return [None] * 8
    return [
        line["dtype"],
        *[int(line[n]) for n in ("numel", "nan", "inf", "zero")],
        *[float(line[n]) / scale for n in ("max", "min", "mean")],
    ]


def _status(a: list[Any], b: list[Any]) -> str:
    if a[0] is None or b[0] is None:
        return "only in one run"
    if sum(b[2:4]) and not sum(a[2:4]):
        return "NaN or infinity in the second run alone"
    if sum(a[2:4]) and not sum(b[2:4]):
        return "NaN or infinity in the first run alone"
    same = all(np.isclose(x, y, rtol=1e-2, atol=1e-6, equal_nan=True) for x, y in zip(a[5:], b[5:]))
    return "" if same else "different"


def compare_accuracy(
    dump_path: str, another_dump_path: str, output_filename: str, loss_scale: float = 1, dump_all_tensors: bool = False
) -> None:
    """Compare two runs by their logs and write the comparison as a table.

    The logs are written by ``enable_tensor_checker`` with ``output_dir`` and ``DebugMode.CHECK_ALL``.

    Args:
        dump_path: Directory with the logs of the first run, or one log file.
        another_dump_path: Directory with the logs of the second run, or one log file.
        output_filename: Path of the table: .xlsx, else comma-separated text.
        loss_scale: The values of the second run are divided by this. Default: 1.
        dump_all_tensors: Must be False: the logs hold no whole tensors.

    Examples:
        >>> bireme.amp.debugging.compare_accuracy("nowhere", "nowhere", "out.csv")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        FileNotFoundError: compare_accuracy(dump_path): expected a folder with logs of the tensor checker, ...
    """
    if dump_all_tensors:
        raise errors.bad("compare_accuracy(dump_all_tensors)", "False", dump_all_tensors, kind=errors.ArgumentError)
    first = _read("compare_accuracy(dump_path)", dump_path)
    second = _read("compare_accuracy(another_dump_path)", another_dump_path)
    rows: list[list[Any]] = [list(HEADS)]
    for op, tensor in dict.fromkeys([*first, *second]):
        pair = first.get((op, tensor), []), second.get((op, tensor), [])
        for i in range(max(map(len, pair))):
            a, b = (
                _figures(lines[i] if i < len(lines) else None, scale) for lines, scale in zip(pair, (1, loss_scale))
            )
            rows.append([op, tensor, *a, *b, _status(a, b)])
    write_sheet(output_filename, rows)


guard_functions(globals())
