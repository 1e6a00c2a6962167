"""Training steps of four models on CPU, as plain dynamic code, beside torch eager and Paddle's dynamic graph.

ResNet-18 and MobileNetV2 (batch 8, images of 64 x 64, momentum), an LSTM (2 layers of 256, batch 16 x 32 tokens) and a
transformer (4 layers of 256, batch 8 x 128 tokens), both with AdamW; float32. Every peer starts from the same weights
and sees the same batches. Floors: at most torch's time, and at most 1 / 1.5 of Paddle's, both as it is shipped, with
one thread unless OMP_NUM_THREADS says otherwise, and with a thread for each core.

    python -m benchmarks.training --alone        on a machine that others use: one core a peer, and its time on it

OpenMP's threads wait for each other, so with less than all cores to itself a peer is many times slower.
"""

import argparse
import importlib
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import models
from benchmarks.measure import Floors, apart, cell, cores, head, median, ratio, spread, table
from benchmarks.models import Images, Text
from benchmarks.peers import Peers

WORK = {
    "resnet18": Images(8, 64, 100),
    "mobilenet_v2": Images(8, 64, 100),
    "lstm": Text(2, 256, 1, 2000, 16, 32),
    "transformer": Text(4, 256, 4, 5000, 8, 128, causal=False),
}
TINY = {
    "resnet18": Images(2, 32, 10),
    "mobilenet_v2": Images(2, 32, 10),
    "lstm": Text(1, 16, 1, 50, 2, 4),
    "transformer": Text(1, 16, 2, 50, 2, 8, causal=False),
}
NAMES = {
    "bireme": "bireme dynamic",
    "torch": "torch eager",
    "paddle": "paddle dynamic",
    "paddle, 1 thread": "paddle dynamic, as shipped: 1 thread",
}
RATE = 1e-3
FIRST = 3
TOLERANCE = 1e-3  # of the first losses


def paddle_model(paddle, work, sizes):
    if work == "lstm":
        return models.paddle_lstm(paddle, sizes)
    if work == "transformer":
        return models.paddle_transformer(paddle, sizes)
    model = getattr(paddle.vision.models, work)(num_classes=sizes.classes)
    for layer in model.sublayers():
        if isinstance(layer, paddle.nn.Dropout):
            layer.p = 0.0  # its numbers are every framework's own
    return model


def paddle_step(paddle, work, sizes):
    """One training step as a Paddle user writes it; `paddle` may be Bireme."""
    F, text, model = paddle.nn.functional, isinstance(sizes, Text), paddle_model(paddle, work, sizes)
    models.fill(model)
    if text:
        opt = paddle.optimizer.AdamW(RATE, parameters=model.parameters(), weight_decay=0.01)
    else:
        opt = paddle.optimizer.Momentum(RATE, 0.9, parameters=model.parameters())

    def step(x, labels):
        loss = F.cross_entropy(model(paddle.to_tensor(x)), paddle.to_tensor(labels).reshape([-1]))
        loss.backward()
        opt.step()
        opt.clear_grad()
        return float(loss)

    return step


def torch_step(torch, work, sizes):
    torch.set_num_threads(cores())
    F, text = torch.nn.functional, isinstance(sizes, Text)
    made = {
        "lstm": lambda: models.torch_lstm(torch, sizes),
        "transformer": lambda: models.torch_transformer(torch, sizes),
        "resnet18": lambda: models.torch_resnet(torch, 18, sizes.classes),
        "mobilenet_v2": lambda: models.torch_mobilenet(torch, sizes.classes),
    }
    model = made[work]()
    models.fill_torch(torch, model)
    if text:
        opt = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.01, fused=True)
    else:
        opt = torch.optim.SGD(model.parameters(), RATE, 0.9, fused=True)

    def step(x, labels):
        loss = F.cross_entropy(model(torch.from_numpy(x)), torch.from_numpy(labels).flatten())
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss.item()

    return step


def make(name, work, sizes, alone):
    """In the peer's process: answers 'losses' with the steps' seconds, and 'time'."""
    if alone:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    clock = time.process_time if alone else time.perf_counter
    framework = importlib.import_module(name)
    if name == "bireme":  # steps once compiled: beside the runs that takes hundreds of them, which `jobs` measures
        framework.set_flags({"FLAGS_compile_beside": False})
    step = torch_step(framework, work, sizes) if name == "torch" else paddle_step(framework, work, sizes)
    data = models.texts(sizes, 4) if isinstance(sizes, Text) else models.images(sizes, 4)
    count = 0

    def run():
        nonlocal count
        count += 1
        return step(*data[(count - 1) % len(data)])

    def answer(what, n=1):
        times, losses = [], []
        if what == "time":
            run()  # wakes the peer's threads after the others' turns
        for _ in range(n):
            start = clock()
            losses.append(run())
            times.append((clock() - start) * 1e3)
        return times, losses

    return answer


def compare(work, options, floors):
    """All peers on one model, taking turns."""
    sizes = (TINY if options.tiny else WORK)[work]
    with Peers() as peers:
        first, losses = {}, {}
        for name in options.peers:
            threads = {"OMP_NUM_THREADS": "1", "FLAGS_paddle_num_threads": "1"} if options.alone else {}
            peers.start(name, make, name.partition(",")[0], work, sizes, options.alone, settings=threads)
            answer = peers.ask(name, "losses", FIRST)
            if answer:
                first[name], losses[name] = answer[0][0] / 1e3, answer[1]
                peers.ask(name, "losses", options.warm)
        answers = {name: turns for name, turns in peers.turns(options.rounds, "time", options.steps).items() if turns}
        peers.report()
    ms = {name: [median(times) for times, _ in turns] for name, turns in answers.items()}
    ours = ms.get("bireme", [])
    rows = []
    for name, ts in ms.items():
        shown = " ".join(f"{loss:.4f}" for loss in losses[name])
        rows.append((NAMES[name], f"{median(ts):.1f}", spread(ts), cell(ratio(ours, ts)), f"{first[name]:.2f}", shown))
    table((f"{work}, {sizes}", "ms/step", "middle half", "bireme/this", "first step s", "first losses"), rows)
    for name, limit in (("torch", 1.0), ("paddle, 1 thread", 1 / 1.5), ("paddle", 1 / 1.5)):
        floors.at_most(f"{work}: bireme / {NAMES[name]}", ratio(ours, ms.get(name, [])), round(limit, 3))
    floors.at_most(f"{work}: largest difference of the first losses", apart(losses) * 100, TOLERANCE * 100, " %")
    return "bireme" not in ms


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=WORK, default=list(WORK), help="which models (default all)")
    parser.add_argument("--peers", nargs="+", choices=NAMES, default=list(NAMES), help="which peers (default all)")
    parser.add_argument("--rounds", type=int, default=9, help="turns of each peer (default 9)")
    parser.add_argument("--steps", type=int, default=3, help="steps timed in each turn (default 3)")
    parser.add_argument("--warm", type=int, default=10, help="steps before the clock (default 10)")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, to try the script")
    parser.add_argument("--alone", action="store_true", help="one core a peer, and the time it was on it")
    options = parser.parse_args()
    clock = "one core a peer, time on the core" if options.alone else "time on the wall"
    head("training: steps of four models", f"data      float32, weights and batches the same for all; {clock}")
    floors = Floors()
    lost = [work for work in options.only if compare(work, options, floors)]
    return 1 if floors.show() or lost else 0


if __name__ == "__main__":
    sys.exit(main())
