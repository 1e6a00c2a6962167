"""Random programs: recorded and run at once, run operator by operator, and in NumPy, they give the same.

A program is a list of small numbers, read as operations on a pool of tensors, views of each other among them; any list
is a program, so a failing one shrinks to a short one.
"""

import contextlib
import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import bireme
from bireme.core.graph import executor

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def for_all(strategy, examples, full):
    """Check a property of everything that the strategy draws: the same draws each time, many more with --full."""

    def check(holds):
        chosen = settings(
            max_examples=examples * (20 if full else 1),
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=QUIET,
        )
        chosen(given(strategy)(lambda drawn: holds(drawn)))()

    return check


@contextlib.contextmanager
def at_once(on):
    bireme.set_flags({"FLAGS_op_at_once": on})
    try:
        yield
    finally:
        bireme.set_flags({"FLAGS_op_at_once": False})


# ---------------------------------------------------------------- two machines with one set of operations


class ByNumpy:
    """Operations on arrays, whose views share memory as tensors' do."""

    def make(self, values):
        return np.array(values)

    def read(self, x):
        return x.copy()

    def binary(self, name, x, y):
        return np.asarray(getattr(np, name)(x, y))

    def unary(self, name, x):
        return np.asarray({"neg": np.negative, "abs": np.abs, "square": np.square, "tanh": np.tanh}[name](x))

    def reduce(self, name, x, axis, keepdim):
        return np.asarray(getattr(np, name)(x, axis=axis, keepdims=keepdim))

    def copy(self, name, x, axis):
        if name == "flip":
            return np.flip(x, axis).copy()
        return np.roll(x, 1, axis) if name == "roll" else np.concatenate([x, x], axis)

    def view(self, name, x, how):
        if name == "index":
            return x[how] if how is ... or ... in how else x[(*how, ...)]  # an element stays a view
        return {"reshape": np.reshape, "transpose": np.transpose, "unsqueeze": np.expand_dims}[name](x, how)

    def change(self, name, x, y):
        x[...] = {"add_": np.add, "multiply_": np.multiply}[name](x, y)

    def assign(self, x, index, y):
        x[index] = y


class ByBireme:
    """The same on tensors."""

    def make(self, values):
        return bireme.to_tensor(values)

    def read(self, x):
        return x.numpy()

    def binary(self, name, x, y):
        return getattr(bireme, name)(x, y)

    def unary(self, name, x):
        return getattr(bireme, name)(x)

    def reduce(self, name, x, axis, keepdim):
        return getattr(bireme, name)(x, axis=axis, keepdim=keepdim)

    def copy(self, name, x, axis):
        if name == "flip":
            return bireme.flip(x, axis)
        return bireme.roll(x, 1, axis) if name == "roll" else bireme.concat([x, x], axis)

    def view(self, name, x, how):
        if name == "index":
            return x[how]
        return getattr(x, name)(list(how) if isinstance(how, tuple) else how)

    def change(self, name, x, y):
        getattr(x, name)(y)

    def assign(self, x, index, y):
        x[index] = y


BINARY = ["add", "subtract", "multiply", "maximum", "minimum"]
UNARY = ["neg", "abs", "square"]


def shaped(n, size):
    """The n-th way to write a size as a shape of up to three axes."""
    found = [(size,), *[(a, size // a) for a in range(1, size + 1) if size % a == 0]]
    found += [(a, b, size // (a * b)) for a in range(1, size + 1) for b in range(1, size + 1) if size % (a * b) == 0]
    return found[n % len(found)]


def indexed(n, shape):
    """The n-th basic index into a shape."""
    if not shape:
        return ...
    first = [slice(None), slice(1, None), slice(None, None, 2), slice(None, None, -1), slice(0, max(1, shape[0] - 1))]
    first += [0, -1] if shape[0] else []
    rest = [(), (..., slice(None, None, -1)), (..., slice(0, 1)), (None,)] if len(shape) > 1 else [(), (None,)]
    return (first[n % len(first)], *rest[n // 7 % len(rest)])


def fits(shape, into):
    try:
        return np.broadcast_shapes(shape, into) == into
    except ValueError:
        return False


def decode(step, shapes, smooth):
    """What a step means for a pool of tensors with these shapes: the name of a machine's method, and its arguments."""
    kind, a, b, n = step
    x, y = a % len(shapes), b % len(shapes)
    shape = shapes[x]
    binary, unary = (["add", "subtract", "multiply"], ["neg", "square", "tanh"]) if smooth else (BINARY, UNARY)
    if kind == 0 and (fits(shape, shapes[y]) or fits(shapes[y], shape)):
        return "binary", binary[n % len(binary)], x, y
    if kind == 1:
        return "unary", unary[n % len(unary)], x
    if kind == 2 and shape and all(shape):
        return "reduce", "sum" if smooth or n % 2 else "max", x, n % len(shape), bool(n & 4)
    if kind == 3 and shape and np.prod(shape) < 200:
        return "copy", ["flip", "roll", "concat"][n % 3], x, n % len(shape)
    if kind == 4:
        return "view", "index", x, indexed(n, shape)
    if kind == 5 and shape and all(shape):
        return "view", "reshape", x, shaped(n, int(np.prod(shape)))
    if kind == 6 and len(shape) > 1:
        return "view", "transpose", x, list(itertools.permutations(range(len(shape))))[n % 6 % len(shape)]
    if kind == 7 and len(shape) < 4:
        return "view", "unsqueeze", x, n % (len(shape) + 1)
    if kind in (8, 9) and fits(shapes[y], shape):
        return "change", ["add_", "multiply_"][n % 2], x, y
    if kind in (10, 11):
        index = indexed(n, shape)
        part = np.empty(shape)[index].shape
        return "assign", x, index, y if fits(shapes[y], part) else None
    return None


def run(machine, start, program, smooth=False, peek=False):
    """All tensors of the pool after the program, and in the middle of it if `peek`."""
    pool = [machine.make(values) for values in start]
    shapes = [np.shape(values) for values in start]
    for at, step in enumerate(program):
        meant = decode(step, shapes, smooth)
        if meant is None:
            continue
        method, *how = meant
        if method == "assign":
            x, index, y = how
            machine.assign(pool[x], index, 3 if y is None else pool[y])
        elif method == "change":
            name, x, y = how
            machine.change(name, pool[x], pool[y])
        elif method == "binary":
            name, x, y = how
            pool.append(machine.binary(name, pool[x], pool[y]))
        else:
            name, x, *rest = how
            pool.append(getattr(machine, method)(name, pool[x], *rest))
        if len(pool) > len(shapes):
            shapes.append(tuple(pool[-1].shape))
        if peek and at % 3 == 0:
            machine.read(pool[at % len(pool)])
    return pool


STEP = st.tuples(st.integers(0, 11), st.integers(0, 11), st.integers(0, 11), st.integers(0, 59))
SHAPES = st.sampled_from([(3,), (2, 3), (1, 3), (2, 1), (), (4, 2), (2, 2, 3), (0, 3), (1,)])


@st.composite
def programs(draw, kind="int64"):
    shapes = draw(st.lists(SHAPES, min_size=1, max_size=3))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    return [rng.integers(-4, 5, shape).astype(kind) for shape in shapes], draw(st.lists(STEP, min_size=1, max_size=14))


def test_programs_mean_the_same_in_every_mode(full):
    @for_all(programs(), 250, full)
    def _(drawn):
        start, program = drawn
        wanted = [ByNumpy().read(x) for x in run(ByNumpy(), start, program)]
        for once, peek in ((False, False), (False, True), (True, False)):
            with at_once(once):
                found = [ByBireme().read(x) for x in run(ByBireme(), start, program, peek=peek)]
            assert len(found) == len(wanted)
            for got, want in zip(found, wanted, strict=True):
                assert got.dtype == want.dtype
                np.testing.assert_array_equal(got, want)


def test_a_lost_write_is_seen():
    """The check itself: a machine whose views are copies differs on a program of two steps."""

    class Copies(ByBireme):
        def view(self, name, x, how):
            return super().view(name, x, how).clone()

    start, program = [np.array([1, 2, 3])], [(4, 0, 0, 1), (8, 1, 1, 0)]  # v = x[1:]; v.add_(v)
    wanted = [ByNumpy().read(x).tolist() for x in run(ByNumpy(), start, program)]
    assert wanted == [[1, 4, 6], [4, 6]]
    assert [ByBireme().read(x).tolist() for x in run(ByBireme(), start, program)] == wanted
    assert [Copies().read(x).tolist() for x in run(Copies(), start, program)] != wanted


def test_compiled_programs_mean_the_same(full):
    @for_all(programs("float64"), 25, full)
    def _(drawn):
        start, program = drawn
        wanted = [ByNumpy().read(x) for x in run(ByNumpy(), start, program)]
        with executor.use("xla"):
            found = [ByBireme().read(x) for x in run(ByBireme(), start, program)]
        for got, want in zip(found, wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12)


def test_gradients_through_views_and_writes(full):
    """The derivative along a direction, from the tape, is the difference that NumPy's program makes along it."""

    @for_all(programs("float64"), 80, full)
    def _(drawn):
        start, program = drawn
        start = [np.tanh(a / 4.0) for a in start]
        direction = [np.cos(1.0 + np.arange(a.size)).reshape(a.shape) for a in start]

        def value(t):
            pool = run(ByNumpy(), [a + t * d for a, d in zip(start, direction, strict=True)], program, smooth=True)
            return sum(np.sin(ByNumpy().read(x)).sum() for x in pool)

        def slope(once):
            leaves = [bireme.to_tensor(a, stop_gradient=False) for a in start]

            class OnLeaves(ByBireme):
                given = iter(leaves)

                def make(self, values):
                    return next(self.given) * 1.0  # what is changed in place is no leaf

            with at_once(once):
                try:
                    pool = run(OnLeaves(), start, program, smooth=True)
                    sum((bireme.sin(x).sum() for x in pool), bireme.zeros([], "float64")).backward()
                except RuntimeError as e:
                    assert "in-place" in str(e) or "changed" in str(e), e
                    return None
            return sum(
                float((leaf.grad.numpy() * d).sum())
                for leaf, d in zip(leaves, direction, strict=True)
                if leaf.grad is not None
            )

        found, once = slope(False), slope(True)
        assert (found is None) == (once is None)
        step = 1e-5
        with np.errstate(all="ignore"):
            numeric = (value(step) - value(-step)) / (2 * step)
        if found is not None and abs(numeric) < 1e4:
            assert found == pytest.approx(once, rel=1e-9, abs=1e-9)
            assert found == pytest.approx(numeric, rel=1e-3, abs=1e-4)


# ---------------------------------------------------------------- broadcasting and types

NAMED = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "less_than": np.less,
}


def test_broadcasting_is_numpys(full):
    shapes = arrays.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, min_side=0, max_side=3)

    @for_all(st.tuples(shapes, st.sampled_from(sorted(NAMED))), 150, full)
    def _(drawn):
        (pair, _), name = drawn
        a, b = (np.arange(int(np.prod(shape)), dtype="float32").reshape(shape) - 2 for shape in pair)
        x, y = bireme.to_tensor(a, stop_gradient=False), bireme.to_tensor(b)
        out = getattr(bireme, name)(x, y)
        np.testing.assert_array_equal(out.numpy(), NAMED[name](a, b))
        if name in ("add", "multiply"):
            out.sum().backward()
            weight = np.broadcast_to(b if name == "multiply" else np.float32(1), out.shape)
            lead = len(out.shape) - a.ndim
            axes = tuple(i for i in range(len(out.shape)) if i < lead or (a.shape[i - lead] == 1 and out.shape[i] != 1))
            np.testing.assert_allclose(x.grad.numpy(), weight.sum(axis=axes).reshape(a.shape))


def test_shapes_that_do_not_fit_are_refused_by_name(full):
    side = st.lists(st.integers(0, 4), max_size=3).map(tuple)

    @for_all(st.tuples(side, side, st.sampled_from(sorted(NAMED))), 120, full)
    def _(drawn):
        left, right, name = drawn
        try:
            wanted = np.broadcast_shapes(left, right)
        except ValueError:
            with pytest.raises(ValueError, match=rf"{name}\("):
                getattr(bireme, name)(bireme.zeros(left), bireme.zeros(right))
        else:
            assert tuple(getattr(bireme, name)(bireme.zeros(left), bireme.zeros(right)).shape) == wanted


KINDS = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


def test_the_type_of_a_result_does_not_depend_on_how_it_is_computed(full):
    """Whatever the rule gives, it gives for every shape, in both orders, in both modes, and to the method as to the
    function.
    """
    operand = st.tuples(st.sampled_from(KINDS), st.sampled_from([(2,), (2, 2), (1, 2), (1, 1, 2)]))

    @for_all(st.tuples(operand, operand, st.sampled_from(["add", "multiply", "maximum"])), 150, full)
    def _(drawn):
        (one, left), (two, right), name = drawn

        def kind(first, second, once=False, method=False):
            with at_once(once):
                try:
                    if method:
                        return getattr(first, name)(second).dtype
                    return getattr(bireme, name)(first, second).dtype
                except (TypeError, ValueError) as e:
                    assert name in str(e)
                    return "refused"

        x, y = bireme.ones(left, one), bireme.ones(right, two)
        wanted = kind(x, y)
        assert kind(x, y, once=True) == kind(x, y, method=True) == wanted
        if (one in ("complex64", "complex128")) == (two in ("complex64", "complex128")):
            assert kind(y, x) == wanted
        assert kind(bireme.ones([2], one), bireme.ones([2], two)) == wanted


def test_a_number_takes_the_tensors_type_unless_its_kind_is_higher(full):
    numbers = st.one_of(st.booleans(), st.integers(-100, 100), st.floats(-4, 4), st.just(1 + 2j))

    @for_all(st.tuples(st.sampled_from(KINDS), numbers), 100, full)
    def _(drawn):
        name, number = drawn
        rank = {bool: 0, int: 1, float: 2, complex: 3}[type(number)]
        dtype = bireme.ones([1], name).dtype
        own = {"bool": 0}.get(name, 1 if dtype.is_integer else 3 if dtype.is_complex else 2)
        try:
            out = bireme.ones([2], name) * number
        except (TypeError, ValueError, OverflowError) as e:
            assert "multiply" in str(e)
            return
        assert out.dtype.name == name if rank <= own else out.dtype.name != name
        again = number * bireme.ones([2], name)
        assert again.dtype is out.dtype
        np.testing.assert_array_equal(again.numpy(), out.numpy())
