"""Guards: the thread that made an invalid call gets the error, and so does everybody who reads what depends on it."""

import ast
import threading
from pathlib import Path

import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.core.base import registry
from bireme.core.declare.conversion import check_range
from bireme.core.graph import segment
from bireme.core.record import flush
from bireme.core.tensor import tape
from bireme.core.xla_exec import xla
from bireme.nn import functional as F

ROOT = Path(bireme.__file__).parent
OUTSIDE = r"index_select\(index\): expected indices in \[-3, 2\], got an index out of range\n  at test_guards\.py:\d+"


@pytest.fixture(params=["interpreted", "compiled"], autouse=True)
def tier(request):
    bireme.set_flags({"FLAGS_interpret": request.param == "interpreted"})
    yield request.param
    bireme.set_flags({"FLAGS_interpret": True})


def computed(values):
    """Numbers that the host does not know."""
    return bireme.to_tensor(values) + 0


def table():
    return bireme.to_tensor([10.0, 20.0, 30.0])


def gathered(*at):
    return bireme.index_select(table(), computed(list(at)))


def told(call, match=OUTSIDE, kind=IndexError):
    """The text of the error that a call raises."""
    with pytest.raises(kind, match=match) as error:
        call()
    return str(error.value)


def aside(call):
    """The result of a call in another thread; its error is raised here."""
    found = []

    def work():
        try:
            found.append((call(), None))
        except (ArithmeticError, LookupError, ValueError, RuntimeError) as e:
            found.append((None, e))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    ((result, error),) = found
    if error is not None:
        raise error
    return result


# ---------------------------------------------------------------- one thread


def test_what_came_of_it_is_never_given_out():
    wrong = gathered(0, 3)
    after, beside = wrong * 2.0, table() + 1.0
    texts = {told(wrong.numpy) for _ in range(3)} | {told(after.numpy) for _ in range(2)} | {told(wrong.tolist)}
    assert len(texts) == 1
    assert beside.tolist() == [11.0, 21.0, 31.0]
    told(lambda: (wrong + 1.0).numpy())  # computed from it later
    told(lambda: str(after))
    assert gathered(1).tolist() == [20.0]


def test_the_next_force_tells_it_once():
    wrong, beside = gathered(0, 3), table() + 1.0
    told(beside.numpy)
    assert beside.tolist() == [11.0, 21.0, 31.0]
    told(wrong.numpy)
    assert beside.tolist() == [11.0, 21.0, 31.0]


def test_synchronizing_tells_it():
    wrong = gathered(0, 3)
    told(bireme.device.synchronize)
    bireme.device.synchronize()
    told(wrong.numpy)


def test_each_program_is_told():
    one = gathered(0, 3)
    flush.run(segment.local.segment)
    two = bireme.index_select(table(), computed([0, 4]))
    texts = [told((table() * 2.0).numpy) for _ in range(2)]
    assert texts == [told(one.numpy), told(two.numpy)] and len(set(texts)) == 2
    assert (table() * 2.0).tolist() == [20.0, 40.0, 60.0]


def test_two_wrong_calls_of_one_program_are_told_by_their_values():
    one = gathered(0, 3)
    two = bireme.index_select(table(), computed([0, 5]))
    both = one + two
    first = told(both.numpy)
    assert first == told(one.numpy) == told(both.numpy)
    assert told(two.numpy) != first
    assert (table() * 2.0).tolist() == [20.0, 40.0, 60.0]


def test_an_index_that_is_wrong_because_another_was():
    places = bireme.index_select(bireme.to_tensor([0, 1, 2]), computed([0, 7]))
    found = bireme.index_select(table(), places)
    told(found.numpy)
    told(places.numpy)
    told(found.numpy)
    assert (table() * 2.0).tolist() == [20.0, 40.0, 60.0]


def test_a_repaired_index_of_the_same_program_is_right():
    index = computed([0, 3])
    wrong, right = bireme.index_select(table(), index), bireme.index_select(table(), index.clip(0, 2))
    told(wrong.numpy)
    assert right.tolist() == [10.0, 30.0]
    assert index.tolist() == [0, 3]
    assert bireme.index_select(table(), index.clip(0, 2)).tolist() == [10.0, 30.0]


def test_a_cut_between_the_question_and_the_call():
    """The call reads its index in another program than the one that looks at it."""
    index = computed([0, 3])
    check_range("index_select(index)", index, -3, 3)
    flush.run(segment.local.segment)
    call = registry.find("index_select").bind((1, 1), (0,))
    (found,) = tape.apply(call, [table(), index])
    for _ in range(3):
        told(found.numpy)
    assert index.tolist() == [0, 3]
    assert bireme.index_select(table(), index.clip(0, 2)).tolist() == [10.0, 30.0]


def test_run_at_once_it_is_told_by_the_call():
    bireme.set_flags({"FLAGS_op_at_once": True})
    try:
        # on an accelerator a flag is asked for, on CPU the host knows the index by then
        told(
            lambda: gathered(0, 3),
            r"expected indices in \[-3, 2\], got (3, out of range|an index out of range)\n  at test_guards\.py:\d+",
        )
        assert gathered(0, 2).tolist() == [10.0, 30.0]
    finally:
        bireme.set_flags({"FLAGS_op_at_once": False})


def test_nothing_wrong_leaves_the_engine():
    wrong = gathered(0, 3)
    for leave in (
        lambda: np.from_dlpack(wrong),
        lambda: wrong.__jax_array__(),
        lambda: wrong.cpu().numpy(),
        lambda: bireme.to_tensor(wrong).numpy(),
    ):
        told(leave)


def test_a_copy_is_as_wrong():
    wrong = gathered(0, 3)
    copies = [wrong.clone(), wrong.detach(), wrong[:1], wrong.reshape([1, 2])]
    target = bireme.zeros([2])
    target.set_value(wrong)
    for copy in (*copies, target):
        told(copy.numpy)
        told(copy.numpy)


# ---------------------------------------------------------------- gradients and state


def test_gradients_of_what_is_wrong_are_wrong():
    w = table()
    w.stop_gradient = False
    loss = bireme.index_select(w * 1.0, computed([0, 3])).sum()
    told(loss.item)
    told(loss.backward, OUTSIDE)
    loss = bireme.index_select(w * 1.0, computed([0, 3])).sum()
    loss.backward()
    grad = w.grad
    told(grad.numpy)
    told(grad.numpy)
    w.clear_grad()
    bireme.index_select(w, computed([0, 2])).sum().backward()
    assert w.grad.tolist() == [1.0, 0.0, 1.0]


def test_gradients_in_a_program_of_their_own_are_wrong_too():
    """The forward pass ran by itself: the gradients are not computed from what is wrong, but they are its gradients."""
    w = table()
    w.stop_gradient = False
    loss = bireme.index_select(w * 1.0, computed([0, 3])).sum()
    flush.run(segment.local.segment)
    with pytest.raises(IndexError):
        loss.backward()
        w.grad.numpy()
    if w.grad is not None:
        told(w.grad.numpy)


RULES = {
    "SGD": lambda p: bireme.optimizer.SGD(0.1, parameters=p),
    "Momentum": lambda p: bireme.optimizer.Momentum(0.1, parameters=p),
    "Adam": lambda p: bireme.optimizer.Adam(0.1, parameters=p),
    "Adam in lazy mode": lambda p: bireme.optimizer.Adam(0.1, parameters=p, lazy_mode=True),
    "Adam with amsgrad": lambda p: bireme.optimizer.Adam(0.1, parameters=p, amsgrad=True),
    "Lamb": lambda p: bireme.optimizer.Lamb(0.1, parameters=p),
    "with clipping": lambda p: bireme.optimizer.AdamW(0.1, parameters=p, grad_clip=nn.ClipGradByGlobalNorm(1.0)),
    "merged": lambda p: bireme.incubate.optimizer.GradientMergeOptimizer(
        bireme.optimizer.SGD(0.1, parameters=p), k_steps=1
    ),
}


class Computed(nn.Layer):
    """Numbers that the host does not know: what comes before the call of a layer has run."""

    def forward(self, ids):
        return ids + 0


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("scaled", [False, True], ids=["plain", "scaled"])
def test_state_is_what_it_was_before_a_wrong_step(rule, scaled):
    """Parameters, accumulators, running statistics, the scale: a loop that goes on has lost one step."""
    bireme.seed(0)
    net = nn.Sequential(Computed(), nn.Embedding(4, 3, max_norm=1.0), nn.BatchNorm1D(3), nn.Linear(3, 2))
    opt, scaler = RULES[rule](net.parameters()), bireme.amp.GradScaler(enable=scaled, init_loss_scaling=4.0)

    def step(*ids):
        loss = net(bireme.to_tensor(ids)).square().mean()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        opt.clear_grad()
        return loss

    def state():
        return {**net.state_dict(), **{k: v for k, v in opt.state_dict().items() if isinstance(v, bireme.Tensor)}}

    assert np.isfinite(step(0, 1, 2, 3).item()) and np.isfinite(step(3, 2, 1, 0).item())
    before, scale = {name: t.numpy() for name, t in state().items()}, scaler.state_dict()
    loss = step(0, 1, 2, 9)
    for _ in range(2):
        told(loss.item, r"expected indices in .*, got an index out of range")
    for name, t in state().items():
        np.testing.assert_array_equal(t.numpy(), before[name], err_msg=name)
    if scaled:
        assert scaler.state_dict()["scale"] == scale["scale"]
    assert np.isfinite(step(1, 1, 2, 2).item())
    assert any((t.numpy() != before[name]).any() for name, t in state().items())


def test_what_is_not_read_for_long_keeps_no_questions(tier):
    """A loop that never asks for a number: answers that are there and good are forgotten."""
    total = bireme.zeros([])
    for i in range(20):
        total = total + gathered(0, i % 3).sum()
        flush.run(segment.local.segment)
        xla.wait_for_all()
    assert len(segment.local.unreported) <= 1
    assert len(getattr(total._value, "guards", ())) <= 1
    assert total.item() == 20 * 10.0 + 6 * 60.0 + 10.0 + 20.0


# ---------------------------------------------------------------- several threads


class Other:
    """A thread that makes a call with a wrong index and then does what it is told, one call at a time."""

    def __init__(self):
        self._asked, self._done, self._call, self._result = threading.Event(), threading.Event(), None, None
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self):
        while True:
            self._asked.wait(60)
            self._asked.clear()
            if self._call is None:
                return
            try:
                self._result = self._call(), None
            except (LookupError, RuntimeError, ValueError, AssertionError) as e:
                self._result = None, e
            self._done.set()

    def __call__(self, call):
        self._call = call
        self._asked.set()
        assert self._done.wait(60)
        self._done.clear()
        result, error = self._result
        if error is not None:
            raise error
        return result

    def end(self):
        self._call = None
        self._asked.set()
        self._thread.join(60)


@pytest.fixture
def other():
    thread = Other()
    yield thread
    thread.end()


def test_the_thread_that_made_the_call_is_told_and_no_other(other):
    wrong = other(lambda: gathered(0, 3))
    other(lambda: flush.run(segment.local.segment))  # it has run, and nobody has asked yet
    assert (table() * 3.0).tolist() == [30.0, 60.0, 90.0]
    other(lambda: told((table() * 2.0).numpy))
    assert other(lambda: (table() * 2.0).tolist()) == [20.0, 40.0, 60.0]
    assert (table() * 3.0).tolist() == [30.0, 60.0, 90.0]
    other(lambda: told(wrong.numpy))


def test_who_reads_a_wrong_value_of_another_thread_is_told_and_that_thread_too(other):
    wrong = other(lambda: gathered(0, 3))
    for _ in range(2):
        told(wrong.numpy)
    assert (table() * 3.0).tolist() == [30.0, 60.0, 90.0]
    other(lambda: told((table() * 2.0).numpy))
    assert other(lambda: (table() * 2.0).tolist()) == [20.0, 40.0, 60.0]


def test_another_threads_values_beside_the_wrong_one_are_right(other):
    wrong, beside = other(lambda: (gathered(0, 3), table() + 1.0))
    assert beside.tolist() == [11.0, 21.0, 31.0]  # runs the other thread's program
    other(lambda: told((table() * 2.0).numpy))
    told(wrong.numpy)


def test_what_is_computed_from_it_in_another_thread_is_wrong_and_nothing_else(other):
    wrong = other(lambda: gathered(0, 3))
    other(lambda: flush.run(segment.local.segment))
    own = table() * 3.0
    with pytest.raises(IndexError):
        from_it = wrong + 1.0
        from_it.numpy()
    assert own.tolist() == [30.0, 60.0, 90.0]
    other(lambda: told((table() * 2.0).numpy))


def test_an_index_that_two_threads_read(other):
    """The call of one is wrong, that of the other is not."""
    index = bireme.to_tensor([0, 3])
    index = (index + 0).detach()
    index.numpy()
    wrong = other(lambda: bireme.index_select(table(), index + 0))
    right = index + 1
    told(wrong.numpy)
    assert right.tolist() == [1, 4]


def test_the_end_of_the_thread_that_made_the_call():
    wrong = aside(lambda: gathered(0, 3))
    for _ in range(2):
        told(wrong.numpy)
    assert (table() * 3.0).tolist() == [30.0, 60.0, 90.0]


# ---------------------------------------------------------------- every question that is asked


def pending(values, dtype="float32"):
    return bireme.to_tensor(np.array(values, dtype)) * bireme.to_tensor(np.array(1, dtype))


# By the function that asks: calls that give it something wrong, with the kind of error
CALLS = {
    "core.declare.conversion.check_range": (IndexError, [
        lambda: bireme.index_select(table(), computed([3])),
        lambda: bireme.gather(table(), computed([3])),
        lambda: F.embedding(computed([3]), bireme.ones([3, 2])),
        lambda: table()[computed([3])],
        lambda: bireme.take(table(), computed([3])),
        lambda: bireme.index_sample(bireme.ones([1, 3]), computed([[3]])),
        lambda: bireme.index_fill(table(), computed([3]), 0, 1.0),
        lambda: bireme.put_along_axis(table(), computed([3]), bireme.ones([1]), 0),
        lambda: bireme.gather_nd(bireme.ones([3, 2]), computed([[0, 2]])),
        lambda: bireme.scatter_nd_add(bireme.ones([3, 2]), computed([[0, 2]]), bireme.ones([1])),
        lambda: F.cross_entropy(bireme.ones([1, 3]), computed([3])),
    ]),
    "ops.reduction.covariance._weights": (ValueError, [
        lambda: bireme.linalg.cov(pending([[1, 2, 3], [2, 1, 5]]), aweights=pending([1, -1, 1])),
        lambda: bireme.linalg.cov(pending([[1, 2, 3], [2, 1, 5]]), fweights=pending([1, 0.5, 1])),
    ]),
    "ops.indexing.masks._check_enough": (ValueError, [
        lambda: bireme.masked_scatter(table(), pending([1, 1, 1]) > 0, bireme.ones([2])),
    ]),
    "ops.math.arithmetic._no_zero_divisor": (ZeroDivisionError, [
        lambda: bireme.floor_divide(computed([1]), computed([0])),
        lambda: computed([1]) % computed([0]),
    ]),
    "ops.random.distributions._must_be_probable": (IndexError, [lambda: bireme.bernoulli(pending([2.0]))]),
    "ops.random.distributions._must_suffice": (ValueError, [lambda: bireme.multinomial(pending([0.0, -1.0]), 1)]),
    "ops.reduction.histogram._check_range": (ValueError, [lambda: bireme.histogram(pending([1.0, np.inf]), 4)]),
    "ops.fourier.signal._must_cover": (ValueError, [
        lambda: bireme.signal.istft(bireme.ones([3, 4]).astype("complex64"), 4, window=pending([0, 0, 0, 0])),
    ]),
    "ops.math.special.not_negative": (ValueError, [lambda: bireme.gammainc(pending([1.0]), pending([-1.0]))]),
    "ops._shared.matrix.guarded": (ValueError, [
        lambda: bireme.linalg.cholesky(pending([[-1.0]])),
        lambda: bireme.linalg.inv(pending([[0.0]])),
    ]),
}  # fmt: skip


def test_every_question_has_an_example():
    asking = set()
    for path in ROOT.rglob("*.py"):
        for outer in [n for n in ast.parse(path.read_text()).body if isinstance(n, ast.FunctionDef)]:
            calls = [n.func for n in ast.walk(outer) if isinstance(n, ast.Call)]
            if any(
                isinstance(f, ast.Attribute) and ast.unparse(f) in ("guards.guard", "guards.require") for f in calls
            ):
                asking.add(".".join([*path.relative_to(ROOT).with_suffix("").parts, outer.name]))
    assert asking == CALLS.keys()


@pytest.mark.parametrize("where, place", [(where, i) for where, (_, calls) in CALLS.items() for i in range(len(calls))])
def test_every_wrong_argument_is_told_each_time(where, place):
    kind, calls = CALLS[where]
    beside = table() * 2.0
    wrong = calls[place]()
    after = wrong + 1
    texts = {
        told(t.numpy, r"expected .*, got .*\n  at test_guards\.py:\d+$", kind) for t in (after, wrong, after, wrong)
    }
    assert len(texts) == 1
    assert beside.tolist() == [20.0, 40.0, 60.0]


def test_a_part_of_what_the_host_knows_needs_no_question():
    """A view shows elements of its storage and no others; what the host found for itself it knows as well."""
    targets = bireme.to_tensor([[0, 2, 1], [1, 1, 0]])
    x = table()
    for index in (targets[:, 1], targets.flatten()[1:4], targets.t()[2], bireme.nonzero(targets > 0)[:, 1].flatten()):
        x.index_select(index)
    assert not segment.local.segment.guards
    targets[0, 0] = 3  # the view that is in range is asked about now
    assert x.index_select(targets[:, 1]).tolist() == [30.0, 20.0]
    x.index_select(targets[:, 0])
    with pytest.raises(IndexError, match=OUTSIDE):
        bireme.debug.flush()
