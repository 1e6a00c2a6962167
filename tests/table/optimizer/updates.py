"""Rows of optimizer updates, clipping and what mixed precision does to a step."""

import numpy as np

from tests.table.harness import ALL, FLOAT, Bad, Row, call
from tests.table.samples import floats

NONE: frozenset = frozenset()
Z = np.zeros((2, 0, 3))


def _sgd(params, grads, lr):
    return [p - lr * g for p, g in zip(params, grads, strict=True)]


def _momentum(params, grads, velocities, lr, mu, wd, *, use_nesterov, decays):
    grads = [g + wd * p if decay else g for p, g, decay in zip(params, grads, decays, strict=True)]
    kept = [mu * v + g for g, v in zip(grads, velocities, strict=True)]
    return [p - lr * (g + mu * v if use_nesterov else v) for p, g, v in zip(params, grads, kept, strict=True)] + kept


def _adam(params, grads, m1, m2, p1, p2, lr, b1, b2, eps, wd, *, decoupled, lr_ratios, decays, by_rows, **_):
    p1, p2 = p1 * b1, p2 * b2
    new, first, second = [], [], []
    for p, g, m, v, ratio, decay, rows in zip(params, grads, m1, m2, lr_ratios, decays, by_rows, strict=True):
        moved = (g != 0).any(axis=-1, keepdims=True) if rows else True
        olds = p, m, v
        if decay and decoupled:
            p = p * (1 - lr * ratio * wd)
        elif decay:
            g = g + wd * p
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        p = p - lr * ratio * (m / (1 - p1)) / (np.sqrt(v / (1 - p2)) + eps)
        for kept, made, old in zip((new, first, second), (p, m, v), olds, strict=True):
            kept.append(np.where(moved, made, old))
    return [*new, *first, *second, p1, p2]


def _state(n, decoupled, decays, by_rows=(False, False)):
    parts = [[floats(2, 3, seed=k), *([floats(4, seed=k)] * (n - 1))] for k in range(3)]
    squares = [floats(2, 3, low=0.1, seed=5), *([floats(4, low=0.1, seed=5)] * (n - 1))]
    numbers = (np.array(0.81), np.array(0.99), 0.01, 0.9, 0.99, 1e-8, 0.1)
    if by_rows[0]:
        parts[1][0][1] = 0
    return call(
        *parts, squares, *numbers, decoupled=decoupled, lr_ratios=(1, 0.5)[:n], decays=decays, by_rows=by_rows[:n]
    )


def _inverse_curvature(grad, ys, ss, factors, scale):
    """From the matrix that BFGS would hold, pair by pair."""
    unit = np.eye(len(grad))
    inverse = scale * unit
    for y, s, factor in zip(ys, ss, factors, strict=True):
        left = unit - factor * np.outer(s, y)
        inverse = left @ inverse @ left.T + factor * np.outer(s, s)
    weights, q = [], -grad
    for y, s, factor in zip(ys[::-1], ss[::-1], factors[::-1], strict=True):
        weights.insert(0, factor * (s @ q))
        q = q - weights[0] * y
    return [-inverse @ grad, np.array(weights)]


F32_NUMBERS = (1e4, "rates and betas travel as float32, whatever the parameters are")


# ---------------------------------------------------------------- the others, from their formulas


def _columns(rule):
    """A reference for lists from one for single parameters: results in columns, all of the first kind first."""

    def listed(*args, **kwargs):
        lists = [a for a in args if isinstance(a, list)]
        numbers = [a for a in args if not isinstance(a, list)]
        out = [rule(*one, *numbers, **kwargs) for one in zip(*lists, strict=True)]
        return [x for column in zip(*out, strict=True) for x in column]

    return listed


def _adagrad(p, g, m, lr, eps):
    m = m + g**2
    return p - lr * g / (np.sqrt(m) + eps), m


def _adadelta(p, g, a, u, lr, rho, eps):
    a = rho * a + (1 - rho) * g**2
    step = g * np.sqrt(u + eps) / np.sqrt(a + eps)
    return p - lr * step, a, rho * u + (1 - rho) * step**2


def _adamax(p, g, m, top, power, lr, b1, b2, eps):
    m, top = b1 * m + (1 - b1) * g, np.maximum(abs(g), b2 * top + eps)
    return p - lr / (1 - power) * m / top, m, top, power * b1


def _rmsprop(p, g, v, a, mean, lr, rho, mu, eps, centered):
    a = rho * a + (1 - rho) * g**2
    mean = rho * mean + (1 - rho) * g if centered else mean
    v = mu * v + lr * g / np.sqrt(a - (mean**2 if centered else 0) + eps)
    return p - v, v, a, mean


def _lamb(params, grads, m1, m2, p1, p2, lr, b1, b2, eps, wd, *, lr_ratios, decays, adapts):
    p1, p2 = p1 * b1, p2 * b2
    out = []
    for p, g, m, v, ratio, decay, adapt in zip(params, grads, m1, m2, lr_ratios, decays, adapts, strict=True):
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        r = m / (1 - p1) / (np.sqrt(v / (1 - p2)) + eps) + (wd * p if decay else 0)
        trust = np.linalg.norm(p) / np.linalg.norm(r) if adapt and p.any() and r.any() else 1
        out.append((p - lr * ratio * trust * r, m, v))
    return [x for column in zip(*out, strict=True) for x in column] + [p1, p2]


def _nadam(p, g, fading, power, product, m, v, lr, b1, b2, eps, slow):
    fading, power = fading * 0.96, power * b2
    now, then = (b1 * (1 - 0.5 * f**slow) for f in (fading, fading * 0.96))
    product = product * now
    m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
    mean = then * m / (1 - product * then) + (1 - now) * g / (1 - product)
    return p - lr * mean / (np.sqrt(v / (1 - power)) + eps), fading, power, product, m, v


def _radam(p, g, p1, p2, rho, m, v, lr, b1, b2, eps):
    t = round(float(np.log(p2) / np.log(b2))) + 1
    p1, p2 = p1 * b1, p2 * b2
    m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
    full = 2 / (1 - b2) - 1
    known = full - 2 * t * b2**t / (1 - b2**t)
    step = m / (1 - p1)
    if known > 5:
        factor = np.sqrt((known - 4) * (known - 2) * full / ((full - 4) * (full - 2) * known))
        step = step * factor * np.sqrt(1 - p2) / (np.sqrt(v) + eps)
    return p - lr * step, p1, p2, np.asarray(t * b2**t / (1 - b2**t)), m, v


def _rprop(p, g, before, rate, least, most, shrink, grow):
    rate = np.clip(rate * np.where(g * before > 0, grow, np.where(g * before < 0, shrink, 1.0)), least, most)
    g = np.where(g * before < 0, 0.0, g)
    return p - np.sign(g) * rate, g, rate


def _asgd(p, g, total, history, count, lr):
    i, history = int(count[0]) % len(history), history.copy()
    total, history[i] = total - history[i] + g, g
    return p - lr * total / min(count[0] + 1, len(history)), total, history, count + 1


def _muon(p, g, v, lr, mu, eps, wd, *, nesterov, steps):
    v = mu * v + g
    x = (g + mu * v if nesterov else v).reshape(len(p), -1)
    u, s, w = np.linalg.svd(x, full_matrices=False)
    s = s / (np.linalg.norm(x) + eps)
    for _ in range(steps):  # what the polynomial does to a matrix, it does to its singular values
        s = 3.4445 * s - 4.775 * s**3 + 2.0315 * s**5
    x = (u * s @ w).reshape(p.shape)
    return p * (1 - lr * wd) - lr * max(1, len(p) / max(p[0].size, 1)) ** 0.5 * x, v


def _parts(n, *kinds):
    """Operands in lists of n: "f" any numbers, "p" positive ones, "0" one number each."""
    shapes = [(2, 3), (4,)][:n]
    ranges = {"f": {}, "p": {"low": 0.1}}
    return [
        [np.array(0.9 - 0.1 * k) if kind == "0" else floats(*s, seed=k, **ranges[kind]) for s in shapes]
        for k, kind in enumerate(kinds)
    ]


def _scalars(*kinds):
    return [[np.array(0.5 + 0.1 * k)] for k, _ in enumerate(kinds)]


def _empties(*kinds):
    return [[np.array(0.9) if kind == "0" else Z] for kind in kinds]


def _samples(kinds, *numbers, **settings):
    return [call(*make, *numbers, **settings) for make in (_parts(2, *kinds), _scalars(*kinds), _empties(*kinds))]


def _powers(t, b1=0.9, b2=0.99):
    """What RAdam keeps after t steps."""
    rho = t * b2**t / (1 - b2**t) if t else 1.0
    return [[np.array(x)] for x in (b1**t, b2**t, rho)]


def _lamb_sample(decays, adapts):
    start = _state(2, False, ())
    kwargs = {"lr_ratios": (1, 0.5), "decays": decays, "adapts": adapts}
    return call(*start.args, **kwargs)


_zero = [np.zeros(3)]


def _to_norm(grads, limit, order, wide):
    total = np.linalg.norm([np.linalg.norm(g.ravel(), order) if g.size else 0.0 for g in grads], order)
    return [*(g * min(1, limit / (total + 1e-6)) for g in grads), total]


_wide = {"width": "squares are added up in the type that the caller names, here float64"}

TABLE = [
    Row("sgd_update", [call([floats(2, 3), floats(4)], [floats(2, 3, seed=1), floats(4, seed=1)], 0.25), call([floats()], [floats(seed=1)], 0.5),
        call([Z], [Z], 0.5)], _sgd, dtypes=FLOAT, unchecked=ALL - FLOAT, grad=0),
    Row("momentum_update", [call([floats(2, 3), floats(4)], [floats(2, 3, seed=1), floats(4, seed=1)], [floats(2, 3, seed=2), floats(4, seed=2)],
        0.25, 0.5, 0.5, use_nesterov=n, decays=(n, True)) for n in (False, True)]
        + [call([floats()], [floats(seed=1)], [floats(seed=2)], 0.5, 0.5, 0.0, use_nesterov=True, decays=(False,)),
        call([Z], [Z], [Z], 0.5, 0.5, 0.5, use_nesterov=False, decays=(True,))], _momentum, dtypes=NONE, grad=0),
    Row("adam_update", [_state(2, False, (0, 1)), _state(2, True, (1, 0)), _state(1, False, (0,)),
        _state(2, True, (1, 0), (True, False)), call([Z], [Z], [Z], [Z], np.array(0.9),
        np.array(0.9), 0.1, 0.9, 0.9, 1e-8, 0.0, decoupled=False, lr_ratios=(1,), decays=(0,), by_rows=(False,))],
        _adam, dtypes=NONE, grad=0, loose=F32_NUMBERS),
    Row("inverse_curvature", [call(floats(5), *[[floats(5, seed=k * n + i) for i in range(n)] for k in (1, 2)],
        [floats(low=0.1, seed=i) for i in range(n)], floats(low=0.1, seed=9)) for n in (1, 3)]
        + [call(floats(0), [floats(0)], [floats(0)], [floats(low=0.1)], floats(low=0.1, seed=9))], _inverse_curvature, dtypes=NONE, grad=0),
    Row("clip_by_global_norm", [call([floats(2, 3), floats(4)], 1.5, "float64"), call([floats(2, 3), floats(4)], 100.0, "float64"),
        call([floats()], 0.5, "float64"), call([Z, floats(2)], 0.5, "float64"), call([np.zeros(2)], 1.0, "float64")],
        lambda grads, limit, wide: [g * min(1, limit / max(np.sqrt(sum((h**2).sum() for h in grads)), 1e-300)) for g in grads], dtypes=FLOAT,
        unchecked=ALL - FLOAT, grad=0, skip=_wide),
    Row("adagrad_update", _samples("ffp", 0.25, 1e-2), _columns(_adagrad), dtypes=NONE, grad=0),
    Row("adadelta_update", _samples("ffpp", 0.25, 0.75, 1e-2), _columns(_adadelta), dtypes=NONE, grad=0),
    Row("adamax_update", _samples("ffpp0", 0.25, 0.75, 0.5, 1e-2), _columns(_adamax), dtypes=NONE, grad=0),
    Row("rmsprop_update", _samples("fffpf", 0.25, 0.75, 0.5, 1.0, False) + _samples("fffpf", 0.25, 0.75, 0.5, 2.0, True), _columns(_rmsprop),
        dtypes=NONE, grad=0),
    Row("lamb_update", [_lamb_sample((True, False), (True, False)), _lamb_sample((False, False), (True, True)),
        call(_zero, _zero, _zero, _zero, np.array(0.9), np.array(0.9), 0.1, 0.9, 0.9, 1e-6, 0.1, lr_ratios=(1,), decays=(True,), adapts=(True,)),
        call([Z], [Z], [Z], [Z], np.array(0.9), np.array(0.9), 0.1, 0.9, 0.9, 1e-6, 0.1, lr_ratios=(1,), decays=(True,), adapts=(True,))],
        _lamb, dtypes=NONE, grad=0, loose=F32_NUMBERS),
    Row("nadam_update", _samples("ff000fp", 0.25, 0.75, 0.9, 1e-2, 0.25), _columns(_nadam), dtypes=NONE, grad=0),
    Row("radam_update", [call([floats(4)], [floats(4, seed=1)], *_powers(t), [floats(4, seed=2)], [floats(4, low=0.1)], 0.25, 0.9, 0.99, 1e-3)
        for t in (0, 3, 8)] + [call([Z], [Z], *_powers(8), [Z], [Z], 0.25, 0.9, 0.99, 1e-3)], _columns(_radam), dtypes=NONE, grad=0),
    Row("rprop_update", _samples("fffp", 0.2, 0.6, 0.5, 1.25) + [call([floats(3)], [np.array([1.0, -1.0, 0.0])], [np.array([2.0, 2.0, 2.0])],
        [np.full(3, 0.3)], 0.01, 50.0, 0.5, 1.25)], _columns(_rprop), dtypes=NONE, grad=0),
    Row("asgd_update", [call([floats(2, 3)], [floats(2, 3, seed=1)], [floats(2, 3, seed=2)], [floats(4, 2, 3, seed=3)], [np.array([m])], 0.25)
        for m in (0, 2, 4, 9)] + [call([floats()], [floats(seed=1)], [floats(seed=2)], [floats(2, seed=3)], [np.array([1])], 0.25),
        call([Z], [Z], [Z], [np.zeros((2, 2, 0, 3))], [np.array([1])], 0.25)], _columns(_asgd), dtypes=NONE, out="ref", grad=0),
    Row("muon_update", [call([floats(*s), floats(2, 2)], [floats(*s, seed=1), floats(2, 2)], [floats(*s, seed=2), floats(2, 2, seed=4)], 0.25, 0.75,
        1e-7, 0.1, nesterov=n, steps=k) for s, n, k in (((2, 3), True, 5), ((3, 2), False, 2), ((2, 2, 3, 1), True, 3))], _columns(_muon),
        dtypes=NONE, grad=0, skip={"0-d": "it takes matrices", "zero size": "it takes matrices"}, loose=(100, "the rounds amplify roundings")),
    Row("clip_to_norm", [call([floats(2, 3), floats(4)], limit, order, "float64") for limit in (0.5, 100.0) for order in (0.0, 1.0, 2.0, np.inf)]
        + [call([floats()], 0.25, 2.0, "float64"), call([Z, floats(2)], 0.5, np.inf, "float64")], _to_norm, dtypes=NONE, grad=0, skip=_wide),
    Row("cast_all", [call([floats(2, 3), floats(4)], "float16"), call([floats(), Z], "float32")],
        lambda tensors, dtype: [x.astype(dtype) for x in tensors], dtypes=FLOAT, unchecked=ALL - FLOAT, out="ref", grad=0),
    Row("keep_unless", [call(np.array(f), [floats(2, 3), floats(4)], [floats(2, 3, seed=1), floats(4, seed=1)]) for f in (True, False)]
        + [call(np.array([True]), [floats(), Z], [floats(seed=1), Z])], lambda flag, old, new: old if flag.item() else new, dtypes=FLOAT,
        unchecked=ALL - FLOAT, out="last", grad=0,
        bad=[Bad(call(np.array(1), [floats(2)], [floats(2)]), "keep_unless(flag): expected one bool"),
             Bad(call(np.array(True), [floats(2)], [floats(3)]), "keep_unless(new): expected tensors of the shapes and dtypes of old")]),
    Row("unscale", [call([floats(2, 3), floats(4)], np.array(8.0)), call([floats()], np.array([0.5])), call([Z], np.array(2.0)),
        call([floats(2), np.array([1.0, np.inf])], np.array(2.0)), call([np.array([np.nan])], np.array(2.0))],
        lambda grads, scale: [*(g / scale.item() for g in grads), np.array(not all(np.isfinite(g).all() for g in grads))], dtypes=NONE,
        out="ref", grad=0, bad=[Bad(call([floats(2)], floats(2)), "unscale(scale): expected a single number")]),
]  # fmt: skip
