"""Functions and layers as they stand in model code, in the form of captured_functions: post-processing, decoding, padding,
state, and what Python has besides `if` and `while`. `REFUSED` are those that no graph can have, with what is said then.
"""

import collections
import contextlib
import dataclasses
import functools
import typing

import bireme
from bireme import nn
from bireme.nn import functional as F
from tests.captured_functions import MIX, THREE, UP, t

CASES = []
REFUSED = []


def case(*calls, sizes=False):
    def add(fn):
        CASES.append((fn.__name__, fn() if isinstance(fn, type) else fn, calls, sizes))
        return fn

    return add


def refused(said, *calls):
    def add(fn):
        REFUSED.append((fn.__name__, fn() if isinstance(fn, type) else fn, calls, said))
        return fn

    return add


BOXES = t([0, 0, 4, 4], [0, 0, 4.2, 4], [5, 5, 9, 9], [5, 5.5, 9, 9], [1, 8, 2, 9])
FEW = t([0, 0, 4, 4], [5, 5, 9, 9], [0, 0, 1, 1])
SCORES, LOW = t(0.9, 0.8, 0.7, 0.95, 0.1), t(0.2, 0.9, 0.6)
IDS = t([1, 2, 3], [4, 5, 1], dtype="int64")
WIDE = t([1.0, -2.0, 3.0, 0.5], [0.1, 0.2, -0.3, 0.4], [2.0, 2.0, 2.0, 2.0])
TALL = t([1.0, -2.0, 3.0, 0.5], [0.1, 0.2, -0.3, 0.4], [2.0, 2.0, 2.0, 2.0], [-1, -1, 0, 1], [5, 4, 3, 2])


def n_of(n):
    return t(n, dtype="int64")


# ---------------------------------------------------------------- detection


def overlap(one, others):
    low = bireme.maximum(one[:2], others[:, :2])
    high = bireme.minimum(one[2:], others[:, 2:])
    sides = (high - low).clip(min=0.0)
    both = sides[:, 0] * sides[:, 1]

    def area(b):
        return (b[..., 2] - b[..., 0]) * (b[..., 3] - b[..., 1])

    return both / (area(one) + area(others) - both)


@case([BOXES, SCORES], [FEW, LOW], sizes=True)
def suppression(boxes, scores):
    """The best box is kept, what lies over it goes, until none is left."""
    order = bireme.argsort(scores, descending=True)
    keep = []
    while order.shape[0] > 0:
        best = order[0]
        keep.append(best)
        rest = order[1:]
        if rest.shape[0] == 0:
            break
        order = rest[overlap(boxes[best], boxes[rest]) <= 0.5]
    return bireme.stack(keep)


@case([BOXES, SCORES], [FEW, LOW], sizes=True)
def detections(boxes, scores):
    """Those above a threshold, the best first, as many rows whatever there is."""
    found = bireme.nonzero(scores > 0.5).flatten()
    if found.shape[0] == 0:
        return bireme.full([4, 5], -1.0)
    best, order = bireme.sort(scores[found], descending=True), bireme.argsort(scores[found], descending=True)
    rows = bireme.concat([boxes[found[order]], best.unsqueeze(-1)], axis=-1)
    if rows.shape[0] < 4:
        rows = bireme.concat([rows, bireme.full([4 - rows.shape[0], 5], -1.0)])
    return rows[:4]


@case([BOXES, t([0.9, 0.1], [0.2, 0.7], [0.1, 0.1], [0.8, 0.6], [0.3, 0.9])], sizes=True)
def detections_of_each_class(boxes, scores):
    out = []
    for c in range(scores.shape[1]):
        mask = scores[:, c] > 0.55
        if mask.any():
            chosen = boxes[mask]
            label = bireme.full([chosen.shape[0], 1], float(c))
            out.append(bireme.concat([label, chosen], axis=1))
    return bireme.concat(out, axis=0)


@case([BOXES, SCORES], [FEW, LOW], sizes=True)
def anchors_of_levels(boxes, scores):
    grids = []
    for stride, size in zip((8, 16), (2, 3), strict=True):
        ys, xs = bireme.meshgrid(bireme.arange(size), bireme.arange(size))
        centers = bireme.stack([xs, ys], axis=-1).reshape([-1, 2]).astype("float32") * stride + stride // 2
        grids.append(bireme.concat([centers - stride / 2, centers + stride / 2], axis=-1))
    every = bireme.concat(grids)
    return every, bireme.stack([overlap(b, every).max() * s for b, s in zip(boxes, scores, strict=True)])


# ---------------------------------------------------------------- decoding


class Decoder(nn.Layer):
    """What the cases below share: a cell over words."""

    def __init__(self, words=7, width=6):
        super().__init__()
        bireme.seed(5)
        self.words, self.embed, self.cell = words, nn.Embedding(words, width), nn.GRUCell(width, width)
        self.out = nn.Linear(width, words)

    def advance(self, tokens, h):
        h, _ = self.cell(self.embed(tokens), h)
        return self.out(h), h


@case([IDS], [IDS - 1])
class GreedyDecoder(Decoder):
    def forward(self, ids):
        h = self.embed(ids).mean(1)
        tokens, done = ids[:, 0], bireme.zeros([ids.shape[0]], "bool")
        words = []
        for _ in range(6):
            logits, h = self.advance(tokens, h)
            tokens = bireme.where(done, bireme.zeros_like(tokens), logits.argmax(-1))
            words.append(tokens)
            done = done.logical_or(tokens == 3)
            if done.all():
                break
        return bireme.stack(words, axis=1)


@case([IDS, t(0.2, 0.9, 0.4)], [IDS + 1, t(0.7, 0.1, 0.6)])
class TeacherForcing(Decoder):
    def forward(self, targets, coins):
        h = self.embed(targets).mean(1)
        given, losses = targets[:, 0], []
        for step in range(1, targets.shape[1]):
            logits, h = self.advance(given, h)
            losses.append(F.cross_entropy(logits, targets[:, step]))
            teacher = coins[step] < 0.5
            given = targets[:, step] if teacher else logits.argmax(-1)
        return sum(losses) / len(losses), given


@case([IDS], [IDS + 1])
class BestBeam(Decoder):
    def forward(self, ids, beams=2, most=4):
        n = ids.shape[0]
        h = self.embed(ids).mean(1).unsqueeze(1).tile([1, beams, 1]).reshape([n * beams, -1])
        tokens = ids[:, :1].tile([1, beams]).flatten()
        scores = bireme.concat([bireme.zeros([n, 1]), bireme.full([n, beams - 1], -1e9)], axis=1)
        history = bireme.zeros([n, beams, 0], "int64")
        ended = bireme.zeros([n, beams], "bool")
        step = 0
        while step < most:
            logits, h = self.advance(tokens, h)
            step_scores = F.log_softmax(logits, -1).reshape([n, beams, self.words])
            step_scores = bireme.where(ended.unsqueeze(-1), bireme.zeros_like(step_scores), step_scores)
            scores, index = (scores.unsqueeze(-1) + step_scores).reshape([n, -1]).topk(beams)
            parent, tokens2 = index // self.words, index % self.words
            rows = (bireme.arange(n).unsqueeze(1) * beams + parent).flatten()
            h, tokens = h[rows], tokens2.flatten()
            history = bireme.take_along_axis(history, parent.unsqueeze(-1), 1) if step else history
            history = bireme.concat([history, tokens2.unsqueeze(-1)], axis=-1)
            ended = bireme.take_along_axis(ended, parent, 1) | (tokens2 == 0)
            if ended.all():
                break
            step += 1
        return history, scores


@case([IDS, n_of([3, 1])], [IDS + 1, n_of([2, 2])])
class Packed(Decoder):
    """Rows of several lengths: a state stays as it was once its row has ended."""

    def forward(self, ids, lengths):
        h = bireme.zeros([ids.shape[0], 6])
        outs = []
        for step in range(ids.shape[1]):
            if step >= lengths.max():
                outs.append(bireme.zeros_like(h))
                continue
            _, new = self.advance(ids[:, step], h)
            alive = (step < lengths).unsqueeze(-1).astype("float32")
            h = alive * new + (1 - alive) * h
            outs.append(h * alive)
        return bireme.stack(outs, 1), h


# ---------------------------------------------------------------- sizes, padding, slices


@case([WIDE], [TALL], sizes=True)
def padded_to_a_multiple(x, k=4):
    n = x.shape[0]
    short = (k - n % k) % k
    if short > 0:
        x = bireme.concat([x, bireme.zeros([short, x.shape[1]])])
    return x.reshape([-1, k, x.shape[-1]]), -(-n // k)


@case([WIDE], [TALL], sizes=True)
def windows(x, size=2):
    out = [x[i : i + size].mean(0) for i in range(x.shape[0] - size + 1)]
    return bireme.stack(out)


@case([WIDE, n_of(1), n_of(3)], [WIDE, n_of(0), n_of(2)], sizes=False)
def slices_with_tensor_bounds(x, start, end):
    return x[start:end].sum(0), x[:end, 1:].sum(), x[start:].max(), x[end - 1]


@case([WIDE, n_of(2)], [TALL[:3], n_of(3)])
def trimmed_to_the_longest(x, n):
    kept = x[:, :n]
    if kept.shape[1] > 2:
        kept = kept[:, ::2]
    return kept.reshape([-1]).sum(), kept.shape[1]


@case([WIDE], [TALL], sizes=True)
def heads_split_and_joined(x, heads=2):
    b, d = x.shape
    y = x.reshape([b, heads, d // heads]).transpose([1, 0, 2])
    weights = F.softmax(bireme.matmul(y, y, transpose_y=True) / (d // heads) ** 0.5, -1)
    return bireme.matmul(weights, y).transpose([1, 0, 2]).reshape([b, -1])


@case([WIDE], [TALL], sizes=True)
def half_of_the_rows(x):
    n = x.shape[0]
    half = int(n / 2)
    first, second = x[:half], x[half:]
    middle = x[n // 2]
    return first.sum(0) - second.sum(0) + middle, [half, n - half]


# ---------------------------------------------------------------- loops


@case([n_of(20)], [n_of(4)], [n_of(2)])
def first_prime_from(n):
    """Loops in loops that break, continue and return."""
    while True:
        divisor = 2
        prime = True
        while divisor * divisor <= n:
            if n % divisor == 0:
                prime = False
                break
            divisor = divisor + 1
        if not prime:
            n = n + 1
            continue
        if n > 1:
            return n
        n = n + 1


@case([WIDE, n_of(3)], [TALL[:3], n_of(1)])
def search_in_rows(x, most):
    for i in range(x.shape[0]):
        if i >= most:
            break
        for j in range(x.shape[1]):
            if x[i, j] < 0:
                return i, j, x[i, j]
            if x[i].sum() > 7:
                break
    return -1, -1, x.max()


@case(*THREE)
def best_so_far(x):
    best, at = None, -1
    for i, v in enumerate([x[0], x[1] * 2, x.mean()]):
        if best is None or v > best:
            best, at = v, i
    return best, at


@case(*THREE)
def assigned_in_the_condition(x):
    steps = 0
    while (s := x.sum()) < 20:
        x = x + s.abs() + 1
        steps += 1
    return x, s, steps


@case(*THREE)
def flags_of_both_kinds(x):
    done, i = False, 0
    while not done:
        x = x * 0.5 + 1
        i += 1
        done = (x.sum() < 6.5) or i >= 5
    return x, i


@case([WIDE], [TALL], sizes=True)
def backwards(x):
    s = bireme.zeros([x.shape[1]])
    for i in reversed(range(x.shape[0])):
        s = s * 0.5 + x[i]
    for scale in reversed([1.0, 2.0]):
        s = s * scale if s.sum() > 0 else s - scale
    return s


@case([UP, n_of(3)], [MIX, n_of(1)])
def stack_of_states(x, n):
    states = [x]
    i = bireme.to_tensor(0)
    while i < n:
        top = states[-1]
        states.append(top * 2 if top.sum() > 0 else top - 1)
        i = i + 1
    return states[-1], len(states)


@case(*THREE)
def unpacked_with_a_star(x):
    first, *rest = bireme.unbind(x)
    for v in rest:
        if v > first:
            first = v
    return first, sum(rest)


@case([WIDE], [TALL], sizes=True)
def columns_set_one_by_one(x):
    out = bireme.zeros_like(x)
    state = x[:, 0] * 0
    for step in range(x.shape[1]):
        state = state * 0.5 + x[:, step]
        out[:, step] = state
    return out


# ---------------------------------------------------------------- containers and classes


@dataclasses.dataclass
class Output:
    logits: typing.Any
    mask: typing.Any = None
    name: str = "out"

    def scaled(self):
        return Output(self.logits * 2, self.mask, self.name + "2")


@case(*THREE)
def made_from_a_dataclass(x):
    out = Output(x * 3)
    if x.sum() > 0:
        out.logits = out.logits + 1
        out.mask = x > 2
    else:
        out.mask = x < 2
    again = dataclasses.replace(out.scaled(), name="new")
    return again.logits, again.mask, len(again.name)


Pair = collections.namedtuple("Pair", ["value", "index"])


@case(*THREE)
def named_results(x):
    best = Pair(x.max(), x.argmax())
    if best.value > 3.5:
        best = best._replace(value=best.value * 10)
    return {"best": best, "rest": [x - best.value, (x.min(),)]}


@case(*THREE)
def dict_gone_over(x):
    losses = {"l1": x.abs().mean(), "l2": (x * x).mean(), "top": x.max()}
    weights = {"l1": 1.0, "l2": 0.5}
    total = bireme.zeros([])
    for key, value in losses.items():
        if value > 2:
            total = total + weights.get(key, 2.0) * value
    losses["total"] = total
    return {k: v for k, v in losses.items() if k != "top"}


@case(*THREE)
def functions_in_a_list(x):
    chain = [lambda v: v * 2, functools.partial(bireme.add, y=bireme.ones([3])), bireme.tanh]
    for i, fn in enumerate(chain):
        x = fn(x) if x.sum() > 0 else fn(-x) - i
    return x


@case(*THREE)
def options_by_name(x, how="mean", norm=None, **more):
    reduce = {"mean": bireme.mean, "sum": bireme.sum}[how]
    match more.get("kind", 2):
        case 1:
            x = x.abs()
        case 2:
            x = x**2 if x.sum() > 0 else x
        case _:
            raise ValueError("no such kind")
    y = reduce(x) if norm is None else reduce(x) / norm
    return y, len(f"{how}:{x.shape[0]}")


@case(*THREE)
def text_and_prints(x):
    print(f"shape {x.shape}, kind {x.dtype}, {'large' if x.shape[0] > 2 else 'small'}")  # noqa: T201 - what is printed is compared
    name = "{}-{:d}".format("x", x.shape[0])
    if x.sum() > 0:
        print("positive", x.max(), name)  # noqa: T201 - what is printed is compared
    return x * len(name)


@case([UP], [MIX])
def asserts_with_messages(x):
    assert isinstance(x, bireme.Tensor), f"expected a tensor, got {type(x)}"
    assert x.ndim == 1 and x.shape[0] == 3, f"shape {x.shape}"
    assert (x > -5).all(), f"too small: {x}"
    return x.sum()


# ---------------------------------------------------------------- with, try


@contextlib.contextmanager
def counted(counts):
    counts.append("in")
    try:
        yield len(counts)
    finally:
        counts.append("out")


@case(*THREE)
def inside_of_with(x):
    counts = []
    with bireme.no_grad():
        scale = x.abs().max()
        if scale > 3.5:
            scale = scale / 2
    with counted(counts) as n, counted(counts):
        if x.sum() > 0:
            x = x * n
    return x / scale, len(counts)


@case(*THREE)
def returns_out_of_with(x):
    for i in range(3):
        with bireme.amp.auto_cast(enable=False):
            x = x + i
            if x.sum() > 8:
                return x * 10
    return x


@case(*THREE)
def inside_of_try(x):
    table, steps = {"a": 2.0}, 0
    try:
        steps += 1
        if x.sum() > 0:
            x = x * table["a"]
        x = x + table["b"]
    except KeyError:
        x = x - 1
    else:
        x = x * 100
    finally:
        steps += 1
    return x * steps


@case(*THREE)
def returns_out_of_try(x):
    log = []
    try:
        if x.sum() > 0:
            return x + 1
        x = x * 2
    finally:
        log.append(1)
    return x - len(log)


# ---------------------------------------------------------------- functions of functions


def repeated(times):
    def decorate(fn):
        @functools.wraps(fn)
        def call(*args, **kwargs):
            out = fn(*args, **kwargs)
            for _ in range(times - 1):
                out = fn(out, *args[1:], **kwargs)
            return out

        return call

    return decorate


def clipped(fn):
    @functools.wraps(fn)
    def call(*args, **kwargs):
        out = fn(*args, **kwargs)
        if out.max() > 5:
            out = out / out.max()
        return out

    return call


@case(*THREE)
@clipped
@repeated(2)
@clipped
def decorated_three_times(x, by=1.5):
    return x * by if x.sum() > 0 else x - by


def tree_sum(node):
    if isinstance(node, (list, tuple)):
        return sum([tree_sum(n) for n in node], bireme.zeros([]))
    if node.sum() > 0:
        return node.sum()
    return node.min()


@case(*THREE)
def recursion_over_a_tree(x):
    return tree_sum([x, [x * 2, (x - 1,)], [[-x]]])


def halved(x, depth):
    if depth == 0 or x.shape[0] < 2:
        return x.sum()
    middle = x.shape[0] // 2
    left, right = halved(x[:middle], depth - 1), halved(x[middle:], depth - 1)
    return bireme.maximum(left, right) if left > 0 else left + right


@case([t(1, 2, 3, 4, 5, 6, 7, 8)], [t(-1, 2, -3, 4, 5, -6, 7, 8)])
def recursion_over_halves(x):
    return halved(x, 3)


@case(*THREE)
def functions_made_in_a_loop(x):
    made = []
    for k in range(3):

        def fn(v, k=k):
            return v + k if v.sum() > k else v * k

        made.append(fn)
    return [fn(x) for fn in made]


def squares(x, n):
    for i in range(n):
        yield x * i


@case(*THREE)
def generator_without_branches(x):
    return sum(squares(x, 3)) + sum(v * 2 for v in squares(x, 2)), any(v is None for v in squares(x, 2))


@case(*THREE)
def builtins_over_tensors(x):
    parts = bireme.split(x, 3)
    ordered = sorted(range(3), key=lambda i: -i)
    return max(parts[0], parts[1]), sum(parts), min(2, len(parts)), [parts[i] for i in ordered], list(map(abs, parts))


# ---------------------------------------------------------------- layers


class Base(nn.Layer):
    factor = 2.0

    def __init__(self):
        super().__init__()
        bireme.seed(2)
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        y = self.linear(x)
        if y.sum() > 0:
            y = y * self.factor
        return y

    @property
    def bound(self):
        return self.factor + 1

    @staticmethod
    def signed(x):
        return x if x.sum() > 0 else -x

    @classmethod
    def scaled(cls, x):
        return x * cls.factor


@case(*THREE)
class Derived(Base):
    factor = 3.0

    def forward(self, x):
        y = super().forward(x)
        y = super(Derived, self).forward(y)  # noqa: UP008  # as it is written too
        return self.scaled(self.signed(y)).clip(max=self.bound)


@case(*THREE)
class Skipping(nn.Layer):
    """Layers gone over, some left out, what came before kept."""

    def __init__(self):
        super().__init__()
        bireme.seed(4)
        self.layers = nn.LayerList([nn.Linear(3, 3) for _ in range(4)])
        self.heads = nn.LayerDict({"a": nn.Linear(3, 2), "b": nn.Linear(3, 1)})
        self.scale = self.create_parameter([3], default_initializer=nn.initializer.Constant(0.5))

    def forward(self, x):
        kept = []
        for i, layer in enumerate(self.layers):
            if i == 2:
                continue
            y = layer(x)
            kept.append(y)
            x = y + kept[-2] if len(kept) > 1 and y.sum() > 0 else y * self.scale
        return {name: head(x) for name, head in self.heads.items()}, kept[-1]


@case([WIDE[:, :3]], [TALL[:3, :3]])
class Mixture(nn.Layer):
    """Each expert is called on the rows that chose it, if there are any."""

    def __init__(self):
        super().__init__()
        bireme.seed(6)
        self.gate, self.experts = nn.Linear(3, 2), nn.LayerList([nn.Linear(3, 3) for _ in range(2)])

    def forward(self, x):
        chosen = self.gate(x).argmax(-1)
        out = bireme.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows = bireme.nonzero(chosen == i).flatten()
            if rows.shape[0] > 0:
                out = bireme.scatter(out, rows, expert(x[rows]))
        return out


@case(*THREE)
class Caller(nn.Layer):
    """Called through attributes: a function, a partial, a method of another object, a layer of the user's choice."""

    def __init__(self):
        super().__init__()
        self.before = functools.partial(bireme.clip, min=-2.0)
        self.act = {"relu": F.relu, "tanh": bireme.tanh}["relu"]
        self.after = Derived()
        self.rule = self.after.signed

    def forward(self, x, *, scale=1.0):
        x = self.before(x) * scale
        x = self.act(x) if self.training else self.rule(x)
        return getattr(self, "after")(x)  # noqa: B009 - a call that is found by name


# ---------------------------------------------------------------- what no graph can have


def positive_only(x):
    for v in x:
        if v > 0:
            yield v


@refused("a condition is not known", [UP], [MIX])
def generator_with_branches(x):
    return sum(positive_only(x), bireme.zeros([]))


@refused("a value is not known while a program is built", [UP], [MIX])
def branches_by_numbers(x):
    if x.sum().item() > 5:
        return x
    return x * 2


@refused("a value is not known while a program is built", [UP], [MIX])
def asks_for_an_array(x):
    return x * float(x.numpy().max())


@refused("ValueError, raised where a tensor says so, is caught by an except", [UP], [MIX])
def catches_what_a_branch_raises(x):
    try:
        if x.max() > 3.5:
            raise ValueError("too large")
        return x
    except ValueError:
        return x / 2


@refused("expected branches that give the same number of results, got 2, 1", [UP], [MIX])
def results_of_two_kinds(x):
    if x.max() > 3.5:
        return [x, x]
    return x


@refused("a value is not known while a program is built", [UP], [MIX])
def catches_everything(x):
    try:
        return x * int(x.numpy().max())
    except Exception:  # noqa: BLE001  # as it is written
        return x


@refused("expected tensors in it, got tuple of 2 elements", [UP, n_of(4)], [MIX, n_of(2)])
def pairs_kept_in_a_loop(x, n):
    kept = []
    for i in range(n):
        kept.append((x * i, x.sum() + i))
    rows, sums = [a for a, _ in kept], [b for _, b in kept]
    return bireme.stack(rows), bireme.stack(sums)
