"""One training step in all forms of a program: dynamic code, `to_static`, its captured graph and static mode's Executor.

ResNet-18 (batch 8, images of 64 x 64, momentum), an LSTM (2 layers of 256, batch 16 x 32 tokens) and a transformer (4
layers of 256, batch 8 x 128 tokens), both with AdamW; float32. Beside them the same networks by hand in jax, jitted with
their state donated, and Paddle's dynamic, `to_static` and static forms. All start from the same weights and see the same
batches. Before the clock every form trains 50 steps, whose losses are compared. Last comes what one call of a program of
one addition takes.

Floors: each form at most 1.03 of dynamic code and of jax.jit; Bireme's forms with the same losses at all 50 steps, to
1e-5; a call of the tiny program at most Paddle's time.

    python -m benchmarks.programs --alone        on a machine that others use: one core a peer, and its time on it
"""

import argparse
import importlib
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks import jax_networks, models, training, transformer
from benchmarks.measure import Floors, cell, head, median, ratio, spread, table
from benchmarks.models import Images, Text
from benchmarks.peers import Peers

WORK = {
    "resnet18": Images(8, 64, 100),
    "lstm": Text(2, 256, 1, 2000, 16, 32),
    "transformer": transformer.Sizes(),
}
TINY = {"resnet18": Images(2, 32, 10), "lstm": Text(1, 16, 1, 50, 2, 4), "transformer": transformer.TINY}
OURS = ("dynamic", "to_static", "captured", "static")
THEIRS = ("jax.jit", "paddle dynamic", "paddle to_static", "paddle static")
FORMS = (*OURS, *THEIRS)
CALLS = ("bireme static", "bireme dynamic", "jax.jit", "paddle static", "paddle dynamic")
RATE = jax_networks.RATE
SAME = 1e-5  # of the loss, between Bireme's forms
ALIKE = 1e-3  # between frameworks, in the first steps


def built(paddle, work, sizes):
    """The model with its weights by name, and a function that gives its loss; `paddle` may be Bireme."""
    F = paddle.nn.functional
    if work == "transformer":
        model, start = transformer.paddle_model(paddle, sizes), transformer.weights(sizes)
    else:
        model = training.paddle_model(paddle, work, sizes)
        start = {name: models.value(name, tuple(p.shape)) for name, p in model.state_dict().items()}

    def loss_of(logits, labels):
        return F.cross_entropy(logits.reshape([-1, logits.shape[-1]]), labels.reshape([-1]))

    return model, start, loss_of


def optimizer(paddle, work, parameters=None):
    if work == "resnet18":
        return paddle.optimizer.Momentum(RATE, jax_networks.MOMENTUM, parameters=parameters)
    return paddle.optimizer.AdamW(RATE, parameters=parameters, weight_decay=jax_networks.DECAY)


def dynamic_step(paddle, work, sizes, form):
    """A step as dynamic code writes it, with the model as it is, given to `to_static`, or as its captured graph."""
    model, start, loss_of = built(paddle, work, sizes)
    for name, p in model.state_dict().items():
        p.set_value(start[name])
    opt = optimizer(paddle, work, model.parameters())
    call = model
    if form != "dynamic":
        call = paddle.jit.to_static(model, full_graph=True)
    if form == "captured":
        x = paddle.to_tensor(batches(work, sizes)[0][0])
        call = model.forward.get_concrete_program(x)[0].model.run

    def step(x, labels):
        loss = loss_of(call(paddle.to_tensor(x)), paddle.to_tensor(labels))
        loss.backward()
        opt.step()
        opt.clear_grad()
        return float(loss)

    return step


def static_step(paddle, work, sizes):
    """A step as a static program, which an Executor runs."""
    paddle.enable_static()
    main, startup = paddle.static.Program(), paddle.static.Program()
    x, labels = batches(work, sizes)[0]
    with paddle.static.program_guard(main, startup):
        given = paddle.static.data("x", x.shape, str(x.dtype))
        wanted = paddle.static.data("labels", labels.shape, str(labels.dtype))
        model, start, loss_of = built(paddle, work, sizes)
        loss = loss_of(model(given), wanted)
        optimizer(paddle, work).minimize(loss)
    exe = paddle.static.Executor(paddle.CPUPlace())
    exe.run(startup)
    for name, p in model.state_dict().items():
        paddle.static.global_scope().find_var(p.name).get_tensor().set(start[name], paddle.CPUPlace())
    return lambda x, labels: float(exe.run(main, feed={"x": x, "labels": labels}, fetch_list=[loss])[0])


def batches(work, sizes):
    if work == "transformer":
        return transformer.batches(sizes)
    return models.images(sizes, 4) if work == "resnet18" else models.texts(sizes, 4)


def trainer(form, work, sizes):
    """The step of a form: a function of data and labels that gives the loss."""
    if form == "jax.jit":
        jax = importlib.import_module("jax")
        if work == "transformer":
            return transformer.jax_step(jax, sizes)
        return jax_networks.step(jax, getattr(jax_networks, work), sizes)
    paddle = importlib.import_module("paddle" if form.startswith("paddle") else "bireme")
    kind = form.removeprefix("paddle ")
    return static_step(paddle, work, sizes) if kind == "static" else dynamic_step(paddle, work, sizes, kind)


def alone_on_a_core(wanted):
    if wanted:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    return time.process_time if wanted else time.perf_counter


def make(form, work, sizes, alone):
    """In the peer's process: answers a number of steps with their milliseconds and losses."""
    clock = alone_on_a_core(alone)
    step, data, count = trainer(form, work, sizes), batches(work, sizes), 0

    def answer(n, wake=True):
        nonlocal count
        times, losses = [], []
        for _ in range(n + wake):  # the first one wakes the peer's threads after the others' turns
            start = clock()
            losses.append(step(*data[count % len(data)]))
            times.append((clock() - start) * 1e3)
            count += 1
        return times[wake:], losses

    return answer


def make_call(form, alone):
    """In the peer's process: answers a number of calls with the microseconds that one took."""
    clock = alone_on_a_core(alone)
    call, x = tiny_call(form), np.arange(4, dtype=np.float32)

    def answer(n):
        assert call(x).tolist() == [1.0, 2.0, 3.0, 4.0]
        start = clock()
        for _ in range(n):
            call(x)
        return (clock() - start) / n * 1e6

    return answer


def tiny_call(form):
    """A function of an array that gives it with one added, by a program of one operator."""
    if form == "jax.jit":
        jax = importlib.import_module("jax")
        add = jax.jit(lambda x: x + 1.0)
        return lambda x: np.asarray(add(x))
    name, kind = form.split()
    paddle = importlib.import_module(name)
    if kind == "dynamic":
        return lambda x: (paddle.to_tensor(x) + 1.0).numpy()
    paddle.enable_static()
    main = paddle.static.Program()
    with paddle.static.program_guard(main):
        y = paddle.static.data("x", [4]) + 1.0
    exe = paddle.static.Executor(paddle.CPUPlace())
    return lambda x: exe.run(main, feed={"x": x}, fetch_list=[y])[0]


def threads(options):
    return {"OMP_NUM_THREADS": "1", "FLAGS_paddle_num_threads": "1"} if options.alone else {}


def largest(losses, wanted, n=None):
    """Largest relative difference of two curves, over all steps or the first `n`."""
    return max(abs(a - b) / abs(b) for a, b in zip(losses[:n], wanted[:n], strict=True))


def compare(work, options, floors):
    """All forms of one network, taking turns."""
    sizes = (TINY if options.tiny else WORK)[work]
    with Peers() as peers:
        first, losses = {}, {}
        for form in options.forms:
            peers.start(form, make, form, work, sizes, options.alone, settings=threads(options))
            answer = peers.ask(form, options.trained, False)
            if answer:
                first[form], losses[form] = answer[0][0] / 1e3, answer[1]
        answers = {form: turns for form, turns in peers.turns(options.rounds, options.steps).items() if turns}
        peers.report()
    ms = {form: [median(times) for times, _ in turns] for form, turns in answers.items()}
    base = losses.get("dynamic", [])
    rows = []
    for form, times in ms.items():
        apart = (f"{largest(losses[form], base, n):.0e}" for n in (3, None)) if base else ("-", "-")
        ratios = [cell(ratio(times, ms.get(other, []))) for other in ("dynamic", "jax.jit")]
        shown = f"{losses[form][0]:.5f} .. {losses[form][-1]:.5f}"
        rows.append((form, f"{median(times):.1f}", spread(times), *ratios, f"{first[form]:.1f}", shown, *apart))
    told = (f"{work}, {sizes}", "ms/step", "middle half", "/dynamic", "/jax.jit", "first step s", "losses")
    table((*told, "apart: 3 steps", f"{options.trained} steps"), rows)
    for form in [f for f in OURS if f in ms]:
        for other in ("dynamic", "jax.jit"):
            if form != other and other in ms:
                floors.at_most(f"{work}: {form} / {other}", ratio(ms[form], ms[other]), 1.03)
        if form != "dynamic" and base:
            apart = largest(losses[form], base)
            floors.at_most(f"{work}: {form}, losses of {options.trained} steps", apart * 1e5, SAME * 1e5, "e-5")
    for form in [f for f in THEIRS if f in ms and base]:
        apart = largest(losses[form], base, 3)
        floors.at_most(f"{work}: {form}, losses of 3 steps", apart * 100, ALIKE * 100, " %")
    return sorted(set(peers.gone) & set(OURS))


def compare_calls(options, floors):
    """What a call of a program of one operator takes."""
    with Peers() as peers:
        with_paddle = any(form.startswith("paddle") for form in options.forms)
        for form in [f for f in CALLS if with_paddle or not f.startswith("paddle")]:
            peers.start(form, make_call, form, options.alone, settings=threads(options))
            peers.ask(form, 20)
        us = {form: turns for form, turns in peers.turns(options.rounds, options.calls).items() if turns}
        peers.report()
    rows = [(form, f"{median(ts):.1f}", spread(ts), cell(ratio(us["bireme static"], ts))) for form, ts in us.items()]
    table(("one addition of 4 numbers, from array to array", "us/call", "middle half", "ours/this"), rows)
    if "paddle static" in us:
        floors.at_most("a call: bireme static / paddle static", ratio(us["bireme static"], us["paddle static"]), 1.0)
    return [form for form in peers.gone if form.startswith("bireme")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=(*WORK, "calls"), default=[*WORK, "calls"], help="which tables")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=FORMS, help="which forms (default all)")
    parser.add_argument("--rounds", type=int, default=9, help="turns of each form (default 9)")
    parser.add_argument("--steps", type=int, default=3, help="steps timed in each turn (default 3)")
    parser.add_argument("--calls", type=int, default=300, help="calls timed in each turn (default 300)")
    parser.add_argument("--trained", type=int, default=50, help="steps before the clock, compared (default 50)")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, to try the script")
    parser.add_argument("--alone", action="store_true", help="one core a peer, and the time it was on it")
    options = parser.parse_args()
    clock = "one core a peer, time on the core" if options.alone else "time on the wall"
    head("programs: a training step in all forms", f"data      float32, weights and batches the same for all; {clock}")
    floors, lost = Floors(), []
    for work in options.only:
        lost += compare_calls(options, floors) if work == "calls" else compare(work, options, floors)
    return 1 if floors.show() or lost else 0


if __name__ == "__main__":
    sys.exit(main())
