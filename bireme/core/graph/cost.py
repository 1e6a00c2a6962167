"""How long the interpreter takes for a call, in microseconds and roughly: what the choice of a tier looks at.

It follows from sizes and from the code of the form alone, never from a clock, so that the same script takes the same
tiers.
"""

from __future__ import annotations

import dis
import functools
import types
from typing import Any

import numpy as np

STEP = 0.6
ELEMENT = 5e-4
FLOP = 2e-5
UFUNC, TRACED = 2, 40  # steps of a ufunc, and of a body that is traced, as long as nothing is known of it
TRACED_CALL = 6.0  # what each primitive of a trace takes, once they are counted
DRAWN = 30  # passes over the elements that random words for them take
A_PASS = 12  # of so many steps in a form one goes over all elements once more: the others look at shapes
MOST_PASSES = 4  # a form of many steps has many cases
_NAMES = (
    "BINARY_OP",
    "BINARY_SLICE",
    "BINARY_SUBSCR",
    "CALL",
    "CALL_FUNCTION_EX",
    "CALL_KW",
    "COMPARE_OP",
    "STORE_SUBSCR",
    "UNARY_NEGATIVE",
)  # in the bytecode, where most of what costs time is a call or an operator
_STEPS = bytes([dis.opmap[name] for name in _NAMES if name in dis.opmap])
_GLOBAL, _EXTENDED = dis.opmap["LOAD_GLOBAL"], dis.opmap["EXTENDED_ARG"]


def of(form: Any, elements: float, more: float, flops: float, times: int = 1) -> float:
    """What a form takes for operands and results of so many elements, where it goes over `more` than those, and this
    much arithmetic.

    `times` is for one that takes several operands in turn, as updates do, which go over all they read and write once; so
    do products, whose steps look at shapes.
    """
    steps = bytecode_steps(form)
    passes = 1 if times > 1 or flops else min(1 + steps / A_PASS, MOST_PASSES)
    return STEP * steps * times + ELEMENT * (elements * passes + more) + FLOP * flops


@functools.cache
def bytecode_steps(form: Any) -> int:
    """The calls and operators in the code of a form; None stands for one that is traced."""
    if form is None:
        return TRACED
    if isinstance(form, np.ufunc):
        return UFUNC
    found = _count(form.resolved() if hasattr(form, "resolved") else form, set())  # see `planning.on_numpy`
    return max(found, UFUNC)


def _count(fn: Any, seen: set) -> int:
    """The steps in a function and in those of this package that it calls by name, each of them once."""
    if not isinstance(fn, types.FunctionType) or fn in seen or not (fn.__module__ or "").startswith("bireme."):
        return 0
    seen.add(fn)
    codes, count = [fn.__code__], 0
    while codes:
        code = codes.pop()
        codes += [c for c in code.co_consts if isinstance(c, types.CodeType)]
        # on all of it at once: `dis.get_instructions` takes long, and this stands before each process's first step
        steps, args = code.co_code[::2], code.co_code[1::2]
        count += len(steps) - len(steps.translate(None, _STEPS))
        at = steps.find(_GLOBAL)
        while at >= 0:
            name, before = args[at], at - 1
            while before >= 0 and steps[before] == _EXTENDED:
                name |= args[before] << 8 * (at - before)
                before -= 1
            count += _count(fn.__globals__.get(code.co_names[name >> 1]), seen)
            at = steps.find(_GLOBAL, at + 1)
    return count


# What the compiler takes, fitted to 116 pieces of 13 networks: for a piece, a call, an array that a piece gives back,
# and for what becomes a loop nest of its own (convolutions, recurrences). Runs of ufuncs become one kernel: of 200
# additions each takes 0.3 ms, a tanh among them 5.
COMPILE_PIECE, COMPILE_CALL, COMPILE_RESULT, COMPILE_NEST = 1.5e5, 2e4, 2e4, 2e5
COMPILE_UFUNC, COMPILE_ARITHMETIC = 5e3, 3e2
_ARITHMETIC = frozenset((
    np.add, np.subtract, np.multiply, np.divide, np.negative, np.absolute, np.maximum, np.minimum, np.equal, np.not_equal,
    np.less, np.less_equal, np.greater, np.greater_equal, np.logical_and, np.logical_or, np.logical_not,
))  # fmt: skip


def compiling(bound: Any) -> float:
    """What the compiler takes for one call, without its results."""
    if bound.is_ufunc:
        return COMPILE_ARITHMETIC if bound.op.numpy_form in _ARITHMETIC else COMPILE_UFUNC
    return COMPILE_CALL + COMPILE_NEST * bound.is_nest


# What an accelerator takes: a launch with what the host does for it, an element that is read or written, an operation of
# products. For a fast one (an H200), so that on others it is rather more: who waits for a number of runs then waits
# longer.
LAUNCH, MOVED, MULTIPLIED = 25.0, 2e-6, 3e-9
# What the compiler takes there for a call of a whole graph, kernels being chosen without trying them: on 16 cores a
# decode step of six layers 5 ms; beside the steps, training steps of a Llama 4, BERT-large and Swin 13, ConvNeXt 19,
# ResNet-50 22 to 27, MobileNetV3 35. More for a convolution or an attention, for which cuDNN makes a plan.
COMPILE_ALONE_THERE, COMPILE_THERE, COMPILE_NEST_THERE = 5e3, 1.5e4, 3.5e4
# What Python and the driver take for a call of a graph that runs in pieces: of small graphs more than the device. One with
# gradients has more kernels for a call. The device takes less than the sum of its calls, since those of a piece are joined.
HOST_CALL, TRAINED_CALL = 35.0, 60.0
JOINED = 0.4


def on_accelerator(elements: float, more: float, flops: float) -> float:
    """What a call takes there, in microseconds and roughly; what it goes over besides is multiplied and added."""
    return LAUNCH + MOVED * elements + MULTIPLIED * (flops + 2 * more)


def in_pieces(graph: Any) -> float:
    """What a run of a graph in pieces takes on an accelerator, in microseconds and roughly."""
    device = sum([on_accelerator(*node.bound.amounts(node.sigs, node.outs)) for node in graph.nodes])
    return max(JOINED * device, (TRAINED_CALL if _trains(graph) else HOST_CALL) * len(graph.nodes))


def compiling_there(graph: Any) -> float:
    """What the compiler takes for a graph as one program on an accelerator, in microseconds and roughly."""
    if not _trains(graph):
        return COMPILE_ALONE_THERE * len(graph.nodes)
    return COMPILE_THERE * len(graph.nodes) + COMPILE_NEST_THERE * sum([node.bound.is_nest for node in graph.nodes])


def _trains(graph: Any) -> bool:
    return any(node.bound.is_gradient for node in graph.nodes)


def beyond_launches(graph: Any) -> float:
    """What an accelerator takes for the numbers of a graph, beside what it takes to launch its calls."""
    return sum([on_accelerator(*node.bound.amounts(node.sigs, node.outs)) - LAUNCH for node in graph.nodes])
