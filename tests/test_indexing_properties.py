"""Any index, read and written: NumPy's answer, with the one rule that differs, for random shapes and random indices.

The rule is Paddle's: an integer is a basic index beside arrays too, and `...` that stands for no axis separates no
arrays. So the reference takes slices, integers and new axes first, and then what arrays and masks pick from that.
"""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import bireme
from bireme.core.graph import executor

KINDS = ("float32", "int64", "bool")


def held(prop, strategy, examples):
    """Check a property on the same examples in each run."""
    choice = settings(max_examples=examples, derandomize=True, database=None, deadline=None)
    choice(given(strategy)(prop))()


# ---------------------------------------------------------------- indices


def one_of(rng, *choices):
    return choices[rng.integers(len(choices))]


def array_for(rng, n, shape):
    """An index array into an axis of extent n, of a shape or one that broadcasts to it, in one of the forms that are
    taken.
    """
    shape = one_of(rng, shape, shape, tuple(1 for _ in shape), shape[-1:], ()) if n else (0,)
    made = rng.integers(-n, max(n, 1), shape)
    kind = one_of(rng, "list", "array", "int32", "tensor")
    if kind == "list" and shape and made.size:
        return made.tolist()
    return bireme.to_tensor(made) if kind == "tensor" else np.asarray(made, np.int32 if kind == "int32" else np.int64)


def slice_for(rng, n):
    start, stop = [one_of(rng, None, int(rng.integers(-n - 2, n + 3))) for _ in range(2)]
    return slice(start, stop, one_of(rng, None, 1, 2, 3, -1, -2, -3))


def case_of(seed):
    """A shape and an index that fits it."""
    rng = np.random.default_rng(seed)
    dims = tuple(int(n) for n in rng.choice([0, 1, 2, 3, 4], rng.integers(0, 5), p=[0.07, 0.13, 0.3, 0.3, 0.2]))
    common = tuple(int(n) for n in rng.integers(1, 4, rng.integers(1, 3)))
    key, axis, masked, picked = [], 0, False, False
    while axis < len(dims) and rng.integers(8):
        n = dims[axis]
        kinds = ["slice", "slice", *(["int"] if n else [])]
        kinds += ["array", "array"] if not masked and not (picked and 0 in dims) else []
        kinds += ["mask", "masks"] if not masked and not picked else []
        kind = one_of(rng, *kinds)
        if kind == "slice":
            key.append(slice_for(rng, n))
        elif kind == "int":
            key.append(one_of(rng, int, np.int64, bireme.to_tensor)(int(rng.integers(-n, n))))
        elif kind == "array":
            key.append(array_for(rng, n, common))
            picked = True
        else:
            count = 1 if kind == "mask" else int(rng.integers(1, len(dims) - axis + 1))
            mask = rng.integers(0, 2, dims[axis : axis + count]).astype(bool)
            key.append(one_of(rng, np.asarray, bireme.to_tensor)(mask))
            masked, axis = True, axis + count - 1
        axis += 1
    if axis == len(dims):
        if rng.integers(2):
            key.insert(rng.integers(len(key) + 1), Ellipsis)
    elif rng.integers(2):
        key += [Ellipsis, slice_for(rng, dims[-1])]
    for _ in range(one_of(rng, 0, 0, 1, 2)):
        key.insert(rng.integers(len(key) + 1), None)
    if not rng.integers(12) and not masked and not picked:
        key.insert(rng.integers(len(key) + 1), bool(rng.integers(2)))
    return dims, key[0] if len(key) == 1 and rng.integers(2) else tuple(key)


def steps(key, ndim):
    """The same index for NumPy, in two steps: what is basic, then what picks."""
    basic, picks, axes = [], [], 0
    for item in key if isinstance(key, tuple) else (key,):
        if isinstance(item, bireme.Tensor):
            item = item.numpy() if item.ndim else int(item)
        if isinstance(item, np.ndarray) and not item.ndim and item.dtype != bool:
            item = int(item)
        if item is Ellipsis:
            basic.append(item)
            picks.append(item)
        elif item is None or isinstance(item, slice):
            basic.append(item)
            picks.append(slice(None))
            axes += item is not None
        elif isinstance(item, bool):
            picks.append(item)
        elif isinstance(item, (int, np.integer)):
            basic.append(item)
            axes += 1
        else:
            item = np.asarray(item)
            covered = item.ndim if item.dtype == bool else 1
            basic += [slice(None)] * covered
            picks.append(item)
            axes += covered
    return tuple(basic), tuple([i for i in picks if i is not Ellipsis or axes < ndim])


def source(dims, kind="float32", start=1):
    made = np.arange(start, start + int(np.prod(dims))).reshape(dims)
    return made % 3 == 0 if kind == "bool" else made.astype(kind)


def read(a, key):
    basic, picks = steps(key, a.ndim)
    return a[basic][picks]


def write(a, key, value):
    basic, picks = steps(key, a.ndim)
    a[basic if Ellipsis in basic else (*basic, ...)][picks] = value


def write_of(seed):
    """A case, a type, and the shape of a value for it: none, one that broadcasts, or the very shape."""
    dims, key = case_of(seed)
    rng = np.random.default_rng([seed, 1])
    part = read(source(dims), key).shape
    less = tuple(one_of(rng, n, n, 1) for n in part[rng.integers(len(part) + 1) :])
    return dims, key, one_of(rng, *KINDS), one_of(rng, part, less, ())


SEEDS = st.integers(0, 2**32 - 1)  # what comes of one shrinks badly, but is small as it is


def same(found, wanted):
    assert found.shape == list(np.shape(wanted))
    np.testing.assert_array_equal(found.numpy(), wanted)


# ---------------------------------------------------------------- properties


def test_reading(full):
    def prop(case):
        dims, key = case
        for kind in KINDS[:1] if not full else KINDS:
            same(bireme.to_tensor(source(dims, kind))[key], read(source(dims, kind), key))

    with executor.use("interpreter"):
        held(prop, SEEDS.map(case_of), 4000 if full else 300)


def test_writing(full):
    def prop(case):
        dims, key, kind, shape = case
        value = source(shape, kind, 50)
        a, t, other = source(dims, kind), bireme.to_tensor(source(dims, kind)), bireme.to_tensor(source(dims, kind))
        write(a, key, value)
        t[key] = bireme.to_tensor(value)
        other[key] = value.item() if value.ndim == 0 else value
        same(t, a)
        same(other, a)

    with executor.use("interpreter"):
        held(prop, SEEDS.map(write_of), 4000 if full else 250)


def gradients(case):
    """Of what is read, and of both sides of what is written, against sums over the places that were read or written."""
    dims, key, _, shape = case
    x, v = bireme.to_tensor(source(dims), stop_gradient=False), bireme.to_tensor(source(shape), stop_gradient=False)
    part = x[key]
    w = np.asarray(source(part.shape, start=3) % 7, np.float32)
    places = read(np.arange(int(np.prod(dims))).reshape(dims), key)
    wanted = np.zeros(int(np.prod(dims)), np.float32)
    np.add.at(wanted, places, w)
    made = [bireme.grad(part, x, bireme.to_tensor(w))[0]]
    y = x * 1
    y[key] = v
    weight = np.asarray(source(dims, start=5) % 7, np.float32)
    made += bireme.grad(y, [x, v], bireme.to_tensor(weight))
    writer = np.full(dims, -1)
    write(writer, key, np.arange(int(np.prod(shape))).reshape(shape))
    given = np.zeros(int(np.prod(shape)), np.float32)
    np.add.at(given, writer[writer >= 0], weight[writer >= 0])
    return made, [wanted.reshape(dims), np.where(writer < 0, weight, 0), given.reshape(shape)]


def test_gradients(full):
    def prop(case):
        for found, wanted in zip(*gradients(case), strict=True):
            same(found, wanted)

    with executor.use("interpreter"):
        held(prop, SEEDS.map(write_of), 1500 if full else 120)


def test_compiled(full):
    """Many indices in one program."""
    kept = []
    held(lambda case: kept.append(case), SEEDS.map(write_of), 120 if full else 7)
    assert len(kept) >= 7
    with executor.use("xla"):
        for found, wanted in [pair for case in kept for pair in zip(*gradients(case), strict=True)]:
            same(found, wanted)


def test_the_property_would_be_noticed():
    """A negative control: a reader that is wrong for one kind of index does not get through."""

    def prop(case):
        dims, key = case
        first = key[0] if isinstance(key, tuple) and key else key
        wrong = isinstance(first, slice) and first.step == -2 and dims and dims[0] > 1
        same(bireme.to_tensor(source(dims))[... if wrong else key], read(source(dims), key))

    try:
        with executor.use("interpreter"):
            held(prop, SEEDS.map(case_of), 400)
    except AssertionError:
        return
    raise AssertionError("an index that is taken for another one was not found")
