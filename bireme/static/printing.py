"""Print: a variable whose values are printed whenever the program runs."""

from __future__ import annotations

import itertools
import sys
from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.program import building, calls
from bireme.core.tensor.tensor import Tensor
from bireme.ops import assign

PHASES = ("forward", "backward", "both")
_counters = itertools.count()
_printed: dict[tuple[int, str], int] = {}  # how often each call has printed values, and gradients


@calls.effective(lambda x, **options: assign(x))
def print_tensor(x: Tensor, **options: Any) -> Tensor:
    """Print a tensor, and its gradient when there is one; give it on."""
    phase = options["print_phase"].lower()
    if phase != "backward":
        _show(x, options, "")
    out = assign(x)
    if phase != "forward" and not out.stop_gradient:
        out.register_hook(lambda g: _show(g, options, "@GRAD"))
    return out


def _show(x: Tensor, options: dict[str, Any], ending: str) -> None:
    key, first_n = (options["counter"], ending), options["first_n"]
    if first_n > 0:
        if _printed.setdefault(key, 0) >= first_n:
            return
        _printed[key] += 1
    values = x.numpy()
    flat = values.ravel()[: options["summarize"] if options["summarize"] >= 0 else None]
    lines = [f"Variable: {options['variable']}{ending}"] if options["print_tensor_name"] else []
    lines += [f"  - message: {options['message']}"] if options["message"] else []
    lines += ["  - lod: {}"] if options["print_tensor_lod"] else []
    lines += [f"  - place: {x.place}"]
    lines += [f"  - shape: {list(values.shape)}"] if options["print_tensor_shape"] else []
    lines += ["  - layout: NCHW"] if options["print_tensor_layout"] else []
    lines += [f"  - dtype: {x.dtype.name}"] if options["print_tensor_type"] else []
    shown = [str(int(v)) if v.dtype.kind in "biu" else f"{float(v):g}" for v in flat]
    sys.stdout.write("\n".join([*lines, f"  - data: [{' '.join(shown)}]"]) + "\n")
    sys.stdout.flush()


def Print(
    input: Tensor,
    first_n: int = -1,
    message: str | None = None,
    summarize: int = 20,
    print_tensor_name: bool = True,
    print_tensor_type: bool = True,
    print_tensor_shape: bool = True,
    print_tensor_layout: bool = True,
    print_tensor_lod: bool = True,
    print_phase: str = "both",
) -> Tensor:
    """Print the values of a variable whenever the program runs.

    Args:
        input: The variable.
        first_n: Print no more often than this. Default: -1, always.
        message: Text that is printed before. Default: None.
        summarize: Number of elements that are printed, -1 for all. Default: 20.
        print_tensor_name: Print the name. Default: True.
        print_tensor_type: Print the data type. Default: True.
        print_tensor_shape: Print the shape. Default: True.
        print_tensor_layout: Print the layout. Default: True.
        print_tensor_lod: Print where sequences begin and end. Default: True.
        print_phase: ``"forward"`` for the values, ``"backward"`` for the gradient, ``"both"``. Default: ``"both"``.

    Returns:
        A variable of the same values; only a gradient that comes through it is printed.

    Examples:
        >>> bireme.enable_static()
        >>> with bireme.static.program_guard(bireme.static.Program()):
        ...     x = bireme.static.Print(bireme.static.data("x", [2]), message="look:", print_tensor_lod=False)
        ...     out = bireme.static.Executor(bireme.CPUPlace()).run(feed={"x": [1.0, 2.5]}, fetch_list=[x])
        Variable: x
          - message: look:
          - place: Place(cpu)
          - shape: [2]
          - layout: NCHW
          - dtype: float32
          - data: [1 2.5]
        >>> bireme.disable_static()
    """
    if not isinstance(input, Tensor):
        raise errors.bad("Print(input)", "a Tensor", input, kind=errors.NotATensorError)
    if not isinstance(print_phase, str) or print_phase.lower() not in PHASES:
        raise errors.bad("Print(print_phase)", "'forward', 'backward' or 'both'", print_phase)
    options: dict[str, Any] = {
        "first_n": first_n, "message": message, "summarize": summarize, "print_tensor_name": print_tensor_name,
        "print_tensor_type": print_tensor_type, "print_tensor_shape": print_tensor_shape,
        "print_tensor_layout": print_tensor_layout, "print_tensor_lod": print_tensor_lod, "print_phase": print_phase,
        "variable": input.name, "counter": next(_counters),
    }  # fmt: skip
    if building.current() is None:
        return print_tensor(input, **options)
    return calls.recorded(print_tensor, input, **options)


guard_functions(globals())
