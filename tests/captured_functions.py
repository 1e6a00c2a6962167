"""Small functions with hard control flow, each with arguments to call it with: all of them are captured whole.

A case is a function and lists of arguments; the first list is what it is captured with, so the others have its shapes, or,
where `sizes` says so, others along the first axis.
"""

import functools
import math

import numpy as np

import bireme
from bireme import nn

CASES = []


def case(*calls, sizes=False):
    def add(fn):
        CASES.append((fn.__name__, fn, calls, sizes))
        return fn

    return add


def t(*values, dtype="float32"):
    return np.asarray(values[0] if len(values) == 1 else values, dtype)


UP, DOWN, MIX = t(1.0, 2.0, 3.0), t(-1.0, -2.0, -3.0), t(-1.0, 4.0, 0.5)
THREE = ([UP], [DOWN], [MIX])


# ---------------------------------------------------------------- if


@case(*THREE)
def if_else(x):
    if x.sum() > 0:
        y = x * 2
    else:
        y = x - 1
    return y


@case(*THREE)
def if_without_else(x):
    if x.sum() > 0:
        x = x * 2
    return x


@case(*THREE)
def if_elif_chain(x):
    s = x.sum()
    if s > 5:
        y = x + 5
    elif s > 0:
        y = x + 1
    elif s > -3:
        y = x - 1
    else:
        y = x - 5
    return y


@case(*THREE)
def nested_if(x):
    if x.sum() > 0:
        if x.max() > 3.5:
            y = x * 10
        else:
            y = x * 5
    else:
        y = -x
    return y


@case(*THREE)
def name_of_one_branch(x):
    if x.sum() > 0:
        extra = x * 3
        x = extra + 1
    return x


@case(*THREE)
def several_names(x):
    a, b = x, x + 1
    if a.mean() > 0:
        a, b = b, a
        c = a * b
    else:
        c = a - b
    return a, b, c


@case(*THREE)
def number_becomes_tensor(x):
    k = 1
    if x.sum() > 0:
        k = 3
    return x * k


@case(*THREE)
def float_and_tensor(x):
    scale = 0.5
    if x.sum() > 0:
        scale = x.max()
    return x * scale


@case(*THREE)
def flag_and_second_if(x):
    positive = False
    if x.sum() > 0:
        positive = True
    if positive:
        return x
    return -x


@case([UP, True], [DOWN, True], sizes=False)
def python_condition(x, twice):
    if twice:
        x = x * 2
    if x.sum() > 0 and twice:
        x = x + 1
    return x


@case(*THREE)
def empty_branch(x):
    if x.sum() > 0:
        pass
    else:
        x = x + 1
    return x


@case(*THREE)
def condition_is_tensor_itself(x):
    if x.sum():
        x = x / x.sum()
    return x


@case(*THREE)
def condition_in_a_variable(x):
    big = x.abs().sum() > 5.5
    if big:
        x = x / 2
    if not big:
        x = x * 2
    return x


@case(*THREE)
def gradient_inside(x):
    if (x > 0).all():
        y = (x**2).sum()
    else:
        y = (x**3).sum()
    return y


# ---------------------------------------------------------------- ternaries, and, or, not


@case(*THREE)
def ternary(x):
    return x + 1 if x.sum() > 0 else x - 1


@case(*THREE)
def nested_ternary(x):
    return x * 2 if x.min() > 0 else (x * 3 if x.max() > 0 else x * 4)


@case(*THREE)
def and_or_not(x):
    if (x.sum() > 0 and x.max() > 3.5) or not (x.min() > -2.5):
        return x + 100
    return x


@case(*THREE)
def and_with_python(x):
    flag = len(x.shape) == 1
    if flag and x.sum() > 0:
        return x * 2
    return x


@case(*THREE)
def or_of_values(x):
    found = None or x
    return found * 2


@case(*THREE)
def chained_comparison(x):
    if -1 < x.sum() < 5:
        return x * 2
    return x * 3


@case(*THREE)
def ternary_in_arguments(x):
    return bireme.clip(x, min=0.0 if x.sum() > 0 else -1.0)


@case(*THREE)
def comparison_as_number(x):
    return (x.sum() > 0).astype("float32") * x


@case(*THREE)
def not_of_tensor(x):
    done = x.sum() > 0
    if not done:
        x = -x
    return x


# ---------------------------------------------------------------- while


@case(*THREE)
def while_sum(x):
    while x.sum() < 30:
        x = x + 2
    return x


@case(*THREE)
def while_counter(x):
    i = 0
    while x.sum() < 30:
        x = x + 2
        i += 1
    return x, i


@case([UP, t(3, dtype="int64")], [DOWN, t(0, dtype="int64")])
def while_tensor_bound(x, n):
    i = 0
    while i < n:
        x = x * 2
        i = i + 1
    return x


@case(*THREE)
def while_with_if(x):
    i = bireme.to_tensor(0)
    while i < 5:
        if x.sum() > 10:
            x = x - 3
        else:
            x = x + 4
        i = i + 1
    return x


@case(*THREE)
def while_break(x):
    i = 0
    while i < 10:
        x = x + 1
        if x.sum() > 12:
            break
        i += 1
    return x


@case(*THREE)
def while_true_break(x):
    while True:
        x = x + 1
        if x.sum() > 12:
            break
    return x


@case(*THREE)
def while_continue(x):
    i, s = bireme.to_tensor(0), bireme.zeros([3])
    while i < 6:
        i = i + 1
        if i % 2 == 0:
            continue
        s = s + x * i.astype("float32")
    return s


@case(*THREE)
def while_return(x):
    while x.sum() < 100:
        x = x.abs() * 2 + 1
        if x.max() > 20:
            return x, True
    return -x, False


@case(*THREE)
def while_nested(x):
    i = bireme.to_tensor(0)
    while i < 3:
        j = bireme.to_tensor(0)
        while j < i:
            x = x + 1
            j = j + 1
        i = i + 1
    return x


@case(*THREE)
def while_else(x):
    i = 0
    while x.sum() < 10:
        x = x + 1
        i = i + 1
        if i >= 4:
            break
    else:
        x = x * 100
    return x


@case(*THREE)
def while_and_condition(x):
    i = 0
    while i < 5 and x.sum() < 20:
        x = x + 3
        i += 1
    return x


@case([t(27, dtype="int64")], [t(6, dtype="int64")], [t(1, dtype="int64")])
def collatz(n):
    steps = bireme.to_tensor(0)
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps = steps + 1
    return steps


@case([t(48, dtype="int64"), t(18, dtype="int64")], [t(17, dtype="int64"), t(5, dtype="int64")])
def gcd(a, b):
    while b != 0:
        a, b = b, a % b
    return a


@case([t(2.0)], [t(10.0)])
def newton(a):
    x = a
    while (x * x - a).abs() > 1e-4:
        x = 0.5 * (x + a / x)
    return x


# ---------------------------------------------------------------- for


@case([UP, t(3, dtype="int64")], [DOWN, t(5, dtype="int64")], [MIX, t(0, dtype="int64")])
def for_range_tensor(x, n):
    for _ in range(n):
        x = x + 1
    return x


@case([UP, t(6, dtype="int64")], [DOWN, t(1, dtype="int64")])
def for_range_start_stop_step(x, n):
    s = bireme.zeros([])
    for i in range(1, n, 2):
        s = s + i
    return x + s


@case([t(6, dtype="int64")], [t(2, dtype="int64")])
def for_range_down(n):
    s = bireme.to_tensor(0)
    for i in range(n, 0, -1):
        s = s * 10 + i
    return s


@case(*THREE)
def for_range_python(x):
    for i in range(4):
        if x.sum() > 3:
            x = x - i
    return x


@case(*THREE)
def for_break(x):
    for i in range(10):
        x = x + i
        if x.sum() > 20:
            break
    return x


@case([UP, t(9, dtype="int64")], [DOWN, t(4, dtype="int64")])
def for_break_tensor_range(x, n):
    for i in range(n):
        if x.sum() > 20:
            break
        x = x + i
    return x


@case([UP, t(6, dtype="int64")], [DOWN, t(3, dtype="int64")])
def for_continue(x, n):
    for i in range(n):
        if i % 2 == 1:
            continue
        x = x + i
    return x


@case([UP, t(6, dtype="int64")], [DOWN, t(3, dtype="int64")])
def for_return(x, n):
    for i in range(n):
        x = x + i
        if x.sum() > 15:
            return x * 100
    return x


@case([UP, t(3, dtype="int64")], [DOWN, t(4, dtype="int64")])
def for_in_for(x, n):
    for i in range(n):
        for j in range(i):
            x = x + j
    return x


@case([UP], [DOWN], [t(1.0, 2.0, 3.0, 4.0, 5.0)], sizes=True)
def for_over_tensor(x):
    s = bireme.zeros([])
    for v in x:
        s = s * 2 + v
    return s


@case([UP], [t(5.0, 4.0)], sizes=True)
def for_enumerate(x):
    s = bireme.zeros([])
    for i, v in enumerate(x):
        s = s + i * v
    return s


@case([UP, DOWN], [t(5.0, 4.0), t(1.0, 2.0)], sizes=True)
def for_zip(x, y):
    s = bireme.zeros([])
    for a, b in zip(x, y):  # noqa: B905 - as users write it
        s = s + a * b
    return s


@case(*THREE)
def for_over_list(x):
    for scale in [1.0, 2.0, 0.5]:
        if x.max() > 1:
            x = x * scale - 1
    return x


@case([UP], [t(5.0, 4.0, 3.0, 2.0)], sizes=True)
def for_range_len(x):
    s = bireme.zeros([])
    for i in range(len(x)):
        s = s + x[i] * i
    return s


@case([UP], [t(5.0, 4.0, 3.0, 2.0)], sizes=True)
def for_range_shape(x):
    s = 0
    for i in range(x.shape[0]):
        s = s + x[i]
    return s


@case(*THREE)
def for_else(x):
    for i in range(3):
        x = x + i
        if x.sum() > 8:
            break
    else:
        x = x * 10
    return x


@case([UP, t(3, dtype="int64")], [DOWN, t(2, dtype="int64")])
def loop_variable_after(x, n):
    i = 0
    for i in range(n):  # noqa: B007 - read after the loop
        x = x + 1
    return x + i


@case([t(7, dtype="int64")], [t(1, dtype="int64")])
def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a + bireme.zeros([], "int64")


# ---------------------------------------------------------------- return


@case(*THREE)
def early_return(x):
    if x.sum() > 0:
        return x * 2
    return x * 3


@case(*THREE)
def returns_in_elif(x):
    if x.sum() > 5:
        return x
    elif x.sum() > 0:
        return x * 2
    y = x * 3
    if y.min() < -5:
        return y + 1
    return y


@case(*THREE)
def return_from_depth(x):
    if x.sum() > 0:
        if x.max() > 3.5:
            return x - 100
        x = x + 1
    x = x * 2
    return x


@case(*THREE)
def return_tuple(x):
    if x.sum() > 0:
        return x, x.sum()
    return x + 1, x.max()


@case(*THREE)
def return_dict(x):
    if x.sum() > 0:
        return {"a": x, "b": [x * 2]}
    return {"a": -x, "b": [x * 3]}


@case(*THREE)
def return_python_and_tensor(x):
    n = x.shape[0]
    return x * n, n


# ---------------------------------------------------------------- lists and dicts


@case(*THREE)
def list_in_while(x):
    out = []
    while x.sum() < 30:
        x = x + 3
        out.append(x)
    return bireme.stack(out)


@case([UP, t(4, dtype="int64")], [DOWN, t(2, dtype="int64")])
def list_in_for(x, n):
    out = []
    for i in range(n):
        out.append(x * i)
    return bireme.concat(out)


@case([UP, t(4, dtype="int64")], [DOWN, t(2, dtype="int64")])
def list_last_item(x, n):
    out = [x]
    for i in range(n):
        out.append(out[-1] + i)
    return out[-1] + out[0]


@case([UP, t(4, dtype="int64")], [DOWN, t(3, dtype="int64")])
def list_length(x, n):
    out = [x]
    for i in range(n):
        if i % 2 == 0:
            out.append(x + i)
    return len(out) * x


@case([UP, t(4, dtype="int64")], [DOWN, t(3, dtype="int64")])
def list_gone_over(x, n):
    out = []
    for i in range(n):
        out.append(x + i)
    s = bireme.zeros([3])
    for y in out:
        s = s * 2 + y
    return s


@case([UP, t(4, dtype="int64")], [DOWN, t(3, dtype="int64")])
def list_pop(x, n):
    out = [x, x]
    for i in range(n):
        out.append(x * i)
    last = out.pop()
    return last + bireme.add_n(out)


@case(*THREE)
def list_items_set(x):
    out = [x, x + 1, x + 2]
    if x.sum() > 0:
        out[1] = x * 10
    return out[0] + out[1] + out[2]


@case(*THREE)
def list_in_branches(x):
    out = [x]
    if x.sum() > 0:
        out.append(x + 1)
    return bireme.stack(out).sum(0)


@case(*THREE)
def dict_in_while(x):
    state = {"x": x, "n": 0}
    while state["x"].sum() < 20:
        state["x"] = state["x"] + 2
        state["n"] = state["n"] + 1
    return state["x"], state["n"]


@case([UP, t(4, dtype="int64")], [DOWN, t(3, dtype="int64")])
def dict_key_made_in_loop(x, n):
    d = {}
    for i in range(n):
        d["last"] = x * i
    return d["last"]


@case(*THREE)
def comprehension(x):
    return sum([x * i for i in range(3)]) if x.sum() > 0 else x


@case(*THREE)
def tuple_in_loop(x):
    state = (x, bireme.to_tensor(0))
    while state[0].sum() < 20:
        state = (state[0] + 1, state[1] + 1)
    return state


# ---------------------------------------------------------------- functions inside, closures, recursion


@case(*THREE)
def inner_function(x):
    def scaled(y):
        if y.sum() > 0:
            return y * 2
        return y

    return scaled(x) + scaled(-x)


def helper_with_branch(x, by=2.0):
    if x.max() > 2:
        return x * by
    return x / by


@case(*THREE)
def calls_helper(x):
    return helper_with_branch(x) + helper_with_branch(x, by=3.0)


@case(*THREE)
def inner_lambda(x):
    choose = lambda y: y + 1 if y.sum() > 0 else y - 1  # noqa: E731 - a lambda is what is captured
    return choose(x)


@case(*THREE)
def changed_by_inner(x):
    total = bireme.zeros([3])

    def add(y):
        nonlocal total
        total = total + y

    add(x)
    if x.sum() > 0:
        add(x * 2)
    return total


def power(x, n):
    if n == 0:
        return bireme.ones_like(x)
    half = power(x, n // 2)
    if n % 2 == 0:
        return half * half
    return half * half * x


@case(*THREE)
def recursion(x):
    return power(x, 5) if x.sum() > 0 else power(x, 2)


def made_by_factory(scale):
    def fn(x):
        if x.sum() > 0:
            return x * scale
        return x

    fn.__name__ = f"closure_{scale}"
    return fn


case(*THREE)(made_by_factory(3.0))
case(*THREE)(made_by_factory(7.0))


def doubled(fn):
    @functools.wraps(fn)
    def call(x):
        return fn(x) * 2

    return call


@doubled
def decorated_helper(x):
    if x.sum() > 0:
        return x
    return -x


@case(*THREE)
def calls_decorated(x):
    return decorated_helper(x)


@case(*THREE)
def partial_helper(x):
    return functools.partial(helper_with_branch, by=5.0)(x)


@case(*THREE)
def arguments_of_all_kinds(x):
    def fn(a, *rest, k=1.0, **more):
        if a.sum() > 0:
            return a + k + sum(rest) + more["z"]
        return a

    return fn(x, 1.0, 2.0, k=3.0, z=x)


# ---------------------------------------------------------------- shapes, builtins


@case([UP], [t(1.0, 2.0)], sizes=True)
def shape_arithmetic(x):
    n = x.shape[0]
    return bireme.concat([x, bireme.zeros([n * 2 - 1])]).reshape([-1])


@case([UP], [t(1.0, 2.0, 3.0, 4.0, 5.0)], sizes=True)
def condition_on_size(x):
    if x.shape[0] > 3:
        return x.sum()
    return x.max()


@case([UP], [t(1.0, 2.0, 3.0, 4.0, 5.0)], sizes=True)
def odd_size(x):
    if len(x) % 2 == 1:
        x = bireme.concat([x, x[:1]])
    return x.reshape([2, -1]).sum(0)


@case(*THREE)
def max_and_min_of_python(x):
    return max(x.sum(), bireme.to_tensor(1.0)) * min(x.max(), x.mean())


@case(*THREE)
def int_and_float(x):
    n = int(x.abs().sum())
    return float(n) * x


@case(*THREE)
def prints(x):
    if x.sum() > 0:
        print("sum", x.sum())  # noqa: T201 - what is printed is compared
    return x


@case([UP], [MIX])
def asserts(x):
    assert x.max() > 0, "some are positive"
    return x.log1p()


@case([t([1.0, 2.0], [3.0, 4.0])], [t([1.0, 2.0], [3.0, 4.0], [5.0, 6.0])], sizes=True)
def checks_that_raise(x):
    n, m = x.shape
    y = bireme.matmul(x, x.T)
    if y.shape != [n, n]:
        raise ValueError(f"expected {[n, n]}, got {y.shape}")
    if m != 2:
        raise TypeError
    elif x.max() > 100:
        raise RuntimeError("too large")
    else:
        y = y + 1
    return y


@case(*THREE)
def isinstance_and_none(x, y=None):
    if y is None and isinstance(x, bireme.Tensor):
        y = x + 1
    return y if y.sum() > 0 else x


@case(*THREE)
def python_math(x):
    return x * math.sqrt(4.0) if x.sum() > math.pi else x


# ---------------------------------------------------------------- inplace


@case(*THREE)
def item_set_in_branch(x):
    y = x + 0
    if x.sum() > 0:
        y[0] = 10.0
    else:
        y[1:] = 5.0
    return y


@case([UP, t(3, dtype="int64")], [DOWN, t(2, dtype="int64")])
def item_set_in_loop(x, n):
    y = x * 0
    for i in range(n):
        y[i] = x[i] * 2
    return y


@case(*THREE)
def augmented_assignment(x):
    y = x * 1
    while y.sum() < 20:
        y += 2
        y *= 1.5
    return y


@case(*THREE)
def inplace_method(x):
    y = x * 1
    if x.sum() > 0:
        y.add_(bireme.ones([3]))
    return y


@case([UP, t(3, dtype="int64")], [DOWN, t(2, dtype="int64")])
def inplace_in_held_list(x, n):
    held = [x * 1]
    for _ in range(n):
        held[0].add_(bireme.ones([3]))
    return held[0]


# ---------------------------------------------------------------- algorithms


@case([t([[2.0, 1.0], [1.0, 3.0]])], [t([[5.0, 0.0], [0.0, 1.0]])])
def power_iteration(a):
    v = bireme.ones([2])
    change = bireme.to_tensor(1.0)
    while change > 1e-4:
        new = a @ v
        new = new / new.norm()
        change = (new - v).abs().max()
        v = new
    return v


@case([t(3.0, 1.0, 2.0)], [t(1.0, 2.0, 3.0)])
def bubble_sort(x):
    x = x * 1
    swapped = bireme.to_tensor(True)
    while swapped:
        swapped = bireme.to_tensor(False)
        for i in range(2):
            if x[i] > x[i + 1]:
                low, high = x[i + 1] * 1, x[i] * 1
                x[i] = low
                x[i + 1] = high
                swapped = bireme.to_tensor(True)
    return x


@case([t(1.0, 3.0, 5.0, 7.0), t(5.0)], [t(1.0, 3.0, 5.0, 7.0), t(0.0)])
def binary_search(x, key):
    low, high = 0, 4
    low = bireme.to_tensor(low)
    while low < high:
        middle = (low + high) // 2
        if x[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@case([t(np.linspace(-1, 1, 12).reshape(3, 4))], [t(np.linspace(2, 1, 20).reshape(5, 4))], sizes=True)
def recurrence(x):
    h = bireme.zeros([4])
    out = []
    for step in x:
        h = (h * 0.5 + step).tanh()
        out.append(h)
    return bireme.stack(out), h


@case([t(0.3)], [t(2.5)])
def series(x):
    term, total, n = x, x, 1
    while term.abs() > 1e-5:
        n += 2
        term = -term * x * x / (n * (n - 1))
        total = total + term
    return total


@case([t(0, dtype="int64")], [t(4, dtype="int64")])
def state_machine(start):
    state, seen = start, []
    for _ in range(6):
        if state == 0:
            state = state + 3
        elif state < 4:
            state = state + 1
        else:
            state = state * 0
        seen.append(state)
    return bireme.stack(seen)


# ---------------------------------------------------------------- layers


class Branching(nn.Layer):
    def __init__(self):
        super().__init__()
        bireme.seed(1)
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
        self.__scale = 2.0

    def forward(self, x):
        if x.mean() > 0:
            return self.a(x) * self.__scale
        return self.b(x)


class Looping(Branching):
    def __init__(self):
        super().__init__()
        self.blocks = nn.LayerList([nn.Linear(3, 3) for _ in range(3)])
        self.most = 4.0

    def forward(self, x):
        x = super().forward(x)
        for block in self.blocks:
            x = block(x)
            if x.abs().max() > self.most:
                break
        return x


class Exiting(nn.Layer):
    """Leaves early, as networks with several exits do, and keeps what it saw in attributes."""

    def __init__(self):
        super().__init__()
        bireme.seed(2)
        self.layers = nn.Sequential(Branching(), nn.ReLU(), nn.Linear(3, 3))
        self.last = None

    def forward(self, x):
        depth = 0
        for layer in self.layers:
            x = layer(x)
            depth = depth + 1
            if x.sum() > 1.0:
                self.last = x
                return x, depth
        return x - 1, depth


class Caching(nn.Layer):
    def __init__(self):
        super().__init__()
        self.scale = 1.0

    def forward(self, x):
        self.kept = x * 2
        if x.sum() > 0:
            self.kept = self.kept + 1
        return self.kept * self.scale


def of_layer(kind):
    layer = kind()
    layer.eval()
    CASES.append((f"layer_{kind.__name__}", layer, [[x] for x in (UP, DOWN, MIX)], False))


for _kind in (Branching, Looping, Exiting, Caching):
    of_layer(_kind)
