"""Language models: requests of many lengths in continuous batches against batches that wait for their longest text, the
host's work for a step, and weights of 8 and 4 bits; on a GPU, decoding beside torch.

    python -m benchmarks.language_models                        batching, the host's work and integers on the CPU
    python -m benchmarks.language_models --only batching        one of them
    python -m benchmarks.language_models --gpu                  a LLaMA of 1.2 billion weights in bfloat16; three minutes
    python -m benchmarks.language_models --gpu --tiny           tiny sizes, to try that without a GPU

Both ways of batching run the same programs of the same engine: where batches are static, requests are handed over in groups
and the next group waits for all of the last one. On the GPU, a step is timed as the difference of a long and a short run.
The limit is that of the memory: all weights and the keys and values so far are read once a step. Floors: 1.5 times the tokens
of static batches; 300 us of the host's own work a step; on a GPU 60 % of the memory's rate at batch 1, and torch's time.
"""

import argparse
import importlib
import random
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import Floors, cell, head, median, ratio, spread, table
from benchmarks.peers import Peers

SMALL = {"vocabulary": 4096, "width": 256, "layers": 4, "heads": 8, "shared_heads": 4, "inner": 704}
TINY = {"vocabulary": 128, "width": 32, "layers": 1, "heads": 4, "shared_heads": 2, "inner": 48}
# the sizes of LLaMA 3.2 with 1.2 billion weights
LARGE = {"vocabulary": 128256, "width": 2048, "layers": 16, "heads": 32, "shared_heads": 8, "inner": 8192, "tied": True}
BATCHES = (1, 8, 64)
START, END = 16, 144  # tokens of a text when its steps are timed
LENGTH = 256
BANDWIDTH = {"H200": 4.8e12, "H100": 3.35e12, "A100": 2.0e12}  # bytes a second that the makers give
NAMES = {
    "bireme": "bireme engine",
    "bireme.single": "bireme engine, steps=1",
    "torch": "torch eager",
    "torch.compile": "torch.compile, reduce-overhead",
}


def network(llm, sizes):
    return llm.Network(llm.Configuration(architecture="llama", **sizes))


# ---------------------------------------------------------------- on the CPU


def requests(sizes, count, longest):
    """Prompts and lengths of texts as chats have them: most of them short, some long."""
    rng = random.Random(0)
    found = []
    for _ in range(count):
        prompt = [rng.randrange(sizes["vocabulary"]) for _ in range(rng.randrange(4, 48))]
        length = min(longest, max(2, int(rng.expovariate(4 / longest))))
        found.append((prompt, length))
    return found


def run(llm, engine, asked, group):
    """Seconds for all requests, handed over in groups."""
    start = time.perf_counter()
    for i in range(0, len(asked), group):
        part = asked[i : i + group]
        options = [llm.SamplingOptions(max_tokens=n, ignore_eos=True) for _, n in part]
        engine.generate([prompt for prompt, _ in part], options)
    return time.perf_counter() - start


def batching(options, floors):
    import bireme.llm as llm

    sizes = TINY if options.tiny else SMALL
    asked = requests(sizes, *((6, 24) if options.tiny else (64, 192)))
    rows = 2 if options.tiny else 8
    with llm.Engine(network(llm, sizes), max_batch=rows, max_length=LENGTH) as engine:
        run(llm, engine, asked[: 2 * rows], rows)
        times = {"static": [], "continuous": []}
        for _ in range(options.rounds):
            times["static"].append(run(llm, engine, asked, rows))
            times["continuous"].append(run(llm, engine, asked, len(asked)))
        statistics = engine.statistics()
    tokens = sum(n for _, n in asked)
    table(
        (f"{len(asked)} requests, {rows} rows", "s", "middle half", "tokens/s"),
        [(name, cell(median(t)), spread(t, "{:.2f}"), f"{tokens / median(t):,.0f}") for name, t in times.items()],
    )
    print(f"{tokens} tokens in texts of 2 to {max(n for _, n in asked)}; programs {statistics['programs']}")
    floors.at_most("time of continuous batches to static ones", ratio(times["continuous"], times["static"]), 1 / 1.5)


def host(options, floors):
    """What a step takes the host beside the program: the engine's steps against calls of the same program alone."""
    import bireme.llm as llm
    from bireme.llm import programs

    sizes = TINY if options.tiny else SMALL
    rows, length = (2, 64) if options.tiny else (8, LENGTH)
    with llm.Engine(network(llm, sizes), max_batch=rows, max_length=length) as engine:
        asked = [[i + 1] for i in range(rows)]
        chosen = llm.SamplingOptions(max_tokens=length - 1, ignore_eos=True)
        engine.generate(asked, chosen)
        alone, whole = [], []
        for _ in range(options.rounds):
            start = time.process_time()
            engine.generate(asked, chosen)
            whole.append((time.process_time() - start) / (length - 1) * 1e6)
            start = time.process_time()
            made = engine._programs
            pages = np.arange(rows * made.width, dtype=np.int32).reshape(rows, made.width)
            for place in range(length - 1):
                described = np.zeros((rows, programs.TABLE + made.width), np.int32)
                described[:, programs.TOKEN], described[:, programs.PLACE] = -1, place
                described[:, programs.TABLE :] = pages
                programs.read(made.step(described, None, False)[0])
            alone.append((time.process_time() - start) / (length - 1) * 1e6)
    own = median([a - b for a, b in zip(whole, alone, strict=True)])
    table(
        (f"a step of {rows} rows, CPU us", "us", "middle half"),
        [
            ("engine", cell(median(whole), "{:.0f}"), spread(whole, "{:.0f}")),
            ("its program alone", cell(median(alone), "{:.0f}"), spread(alone, "{:.0f}")),
            ("difference", cell(own, "{:.0f}"), ""),
        ],
    )
    floors.at_most("the host's own work for a step", own, 300, " us")


def integers(options, floors):
    import bireme
    import bireme.llm as llm
    from bireme.llm.network import bytes_of
    from bireme.llm.quantized import quantized

    sizes = TINY if options.tiny else SMALL
    rows, count = (2, 8) if options.tiny else (8, 64)
    shown = []
    for kind in (None, "int8", "int4"):
        bireme.seed(0)
        made = network(llm, sizes)
        made = made if kind is None else quantized(made, kind)
        with llm.Engine(made, max_batch=rows, max_length=LENGTH) as engine:
            chosen = llm.SamplingOptions(max_tokens=count, ignore_eos=True)
            asked = [[i + 1] for i in range(rows)]
            engine.generate(asked, chosen)
            times = []
            for _ in range(options.rounds):
                start = time.perf_counter()
                engine.generate(asked, chosen)
                times.append(time.perf_counter() - start)
        rate = rows * count / median(times)
        shown.append((kind or "float32", f"{bytes_of(made) / 2**20:.2f}", f"{rate:,.0f}", spread(times, "{:.3f}")))
    table((f"weights, {rows} rows", "MiB", "tokens/s", "s, middle half"), shown)


WORK = {"batching": batching, "host": host, "integers": integers}


# ---------------------------------------------------------------- on a GPU


def weights(sizes):
    """The same weights for every peer, as arrays of bfloat16 by name: parts of one block of random numbers."""
    import ml_dtypes

    block = (np.random.default_rng(0).standard_normal(2**20) * 0.02).astype(ml_dtypes.bfloat16)
    width, heads, shared = sizes["width"], sizes["heads"], sizes["shared_heads"]
    head_width = width // heads
    shapes = {"embedding": (sizes["vocabulary"], width)}
    for i in range(sizes["layers"]):
        shapes[f"{i}.qkv"] = (width, (heads + 2 * shared) * head_width)
        shapes[f"{i}.o"] = (width, width)
        shapes[f"{i}.up"] = (width, 2 * sizes["inner"])
        shapes[f"{i}.down"] = (sizes["inner"], width)
    for i, (name, shape) in enumerate(shapes.items()):
        yield name, np.resize(np.roll(block, 7919 * i), shape)


def bireme_peer(sizes, steps):
    import bireme
    import bireme.llm as llm

    with bireme.LazyGuard():
        made = network(llm, sizes)
    places = {
        "qkv": "attention.inputs",
        "o": "attention.output",
        "up": "perceptron.inputs",
        "down": "perceptron.output",
    }
    layers = dict(made.named_sublayers())
    for name, array in weights(sizes):
        number, _, part = name.partition(".")
        owner = layers["embedding"] if name == "embedding" else layers[f"blocks.{number}.{places[part]}"]
        owner.weight = bireme.Parameter(bireme.to_tensor(array), trainable=False)
    for layer in layers.values():
        if type(layer).__name__ == "RootMeanSquare":
            layer.weight = bireme.Parameter(bireme.ones(layer.weight.shape, "bfloat16"), trainable=False)
    engines = {}

    def seconds(batch, count):
        if batch not in engines:
            for engine in engines.values():
                engine.close()
            engines.clear()
            engines[batch] = llm.Engine(made, max_batch=batch, max_length=LENGTH, steps=steps).start()
        prompts = [[1 + row % 100] for row in range(batch)]
        start = time.perf_counter()
        found = engines[batch].generate(prompts, llm.SamplingOptions(max_tokens=count, ignore_eos=True))
        return time.perf_counter() - start, list(found[0].tokens[:6])

    return seconds


def torch_peer(sizes, compiled):
    torch = importlib.import_module("torch")
    F = torch.nn.functional
    device = "cuda" if torch.cuda.is_available() else "cpu"
    w = {n: torch.from_numpy(a.view(np.int16)).view(torch.bfloat16).to(device) for n, a in weights(sizes)}
    # a weight as torch's own layers have it, [outputs, inputs]
    w = {name: x if name == "embedding" else x.t().contiguous() for name, x in w.items()}
    width, heads, shared = sizes["width"], sizes["heads"], sizes["shared_heads"]
    d = width // heads
    ones = torch.ones(width, dtype=torch.bfloat16, device=device)
    radians = 1 / 10000 ** (torch.arange(0, d, 2, device=device).float() / d)
    radians = torch.cat([radians, radians])
    columns = torch.arange(LENGTH, device=device)

    def turned(x, cos, sin):
        half = d // 2
        return (x.float() * cos + torch.cat([-x[..., half:], x[..., :half]], -1).float() * sin).bfloat16()

    def step(tokens, place, keys, values):
        batch = tokens.shape[0]
        x = F.embedding(tokens, w["embedding"])
        cos, sin = torch.cos(place * radians), torch.sin(place * radians)
        seen = (columns <= place).reshape(1, 1, 1, LENGTH)
        for i in range(sizes["layers"]):
            made = F.linear(F.rms_norm(x, (width,), ones, 1e-5), w[f"{i}.qkv"])
            q, k, v = made.split([heads * d, shared * d, shared * d], -1)
            q, k = [turned(t.reshape(batch, -1, 1, d), cos, sin) for t in (q, k)]
            keys[i].index_copy_(2, place, k)
            values[i].index_copy_(2, place, v.reshape(batch, shared, 1, d))
            out = F.scaled_dot_product_attention(q, keys[i], values[i], seen, enable_gqa=True)
            x = x + F.linear(out.reshape(batch, width), w[f"{i}.o"])
            gate, up = F.linear(F.rms_norm(x, (width,), ones, 1e-5), w[f"{i}.up"]).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, w[f"{i}.down"])
        return F.linear(F.rms_norm(x, (width,), ones, 1e-5), w["embedding"]).argmax(-1)

    call = torch.compile(step, mode="reduce-overhead", dynamic=False) if compiled else step
    caches = {}

    def seconds(batch, count):
        if batch not in caches:
            caches.clear()
            shape = batch, shared, LENGTH, d
            caches[batch] = [
                [torch.zeros(shape, dtype=torch.bfloat16, device=device) for _ in range(sizes["layers"])]
                for _ in range(2)
            ]
        with torch.no_grad():
            tokens = torch.tensor([1 + row % 100 for row in range(batch)], device=device)
            start, found = time.perf_counter(), []
            for i in range(count):
                # a copy: what a graph of kernels gives is written over by its next run
                tokens = call(tokens, torch.tensor([i], device=device), *caches[batch]).clone()
                found.append(tokens)
            first = [int(t[0]) for t in found[:6]]
            found[-1].tolist()
            return time.perf_counter() - start, first

    return seconds


def make(name, sizes):
    if name.startswith("bireme"):
        return bireme_peer(sizes, 1 if name == "bireme.single" else 8)  # on a CPU too, to try it
    return torch_peer(sizes, name == "torch.compile")


def bandwidth():
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return float("nan")
    name = torch.cuda.get_device_name(0) if torch.cuda.is_available() else ""
    return next((rate for part, rate in BANDWIDTH.items() if part in name), float("nan"))


def on_gpu(options, floors):
    sizes = {**TINY, "tied": True} if options.tiny else LARGE
    most, rate = (END // 4 if options.tiny else END), bandwidth()
    matrices = sum(array.size for _, array in weights(sizes)) * 2
    cached = 4 * sizes["layers"] * sizes["shared_heads"] * sizes["width"] // sizes["heads"]
    batches = (2,) if options.tiny else BATCHES
    rows, medians = {batch: [] for batch in batches}, {}
    for name in options.peers:
        with Peers() as peers:
            peers.start(name, make, name, sizes, settings={"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.8"})
            for batch in batches:
                first, turns = peers.ask(name, batch, most), []
                for _ in range(options.rounds if first else 0):
                    short, long = peers.ask(name, batch, START), peers.ask(name, batch, most)
                    if short and long:
                        turns.append((long[0] - short[0]) / (most - START) * 1e3)
                if turns:
                    ms = medians[name, batch] = median(turns)
                    limit = (matrices + batch * cached * (START + most) / 2) / rate * 1e3
                    shown = cell(ms, "{:.3f}"), spread(turns, "{:.3f}"), f"{batch / ms * 1e3:,.0f}"
                    share = cell(limit / ms * 100, "{:.0f} %")
                    if (name, batch) == ("bireme", 1):
                        floors.at_most("batch 1: time of a step to that of the memory", ms / limit, 1 / 0.6)
                    rows[batch].append((NAMES[name], *shown, share, f"{first[0]:.1f}", " ".join(map(str, first[1]))))
            peers.report()
    for batch in batches:
        columns = (f"batch {batch}", "ms/step", "middle half", "tokens/s", "of the limit", "first s", "first tokens")
        table(columns, rows[batch])
        for name in ("torch", "torch.compile"):
            if ("bireme", batch) in medians and (name, batch) in medians:
                share = medians["bireme", batch] / medians[name, batch]
                floors.at_most(f"batch {batch}: bireme / {NAMES[name]}", share, 1.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=WORK, default=list(WORK), help="what to measure (default all)")
    parser.add_argument("--rounds", type=int, default=None, help="turns (default 7, on a GPU 2)")
    parser.add_argument("--gpu", action="store_true", help="decoding of a large model on a GPU instead")
    parser.add_argument("--peers", nargs="+", choices=NAMES, default=list(NAMES), help="on a GPU, which peers")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, to try it")
    options = parser.parse_args()
    options.rounds = options.rounds or (2 if options.gpu else 7)
    head("language models", "greedy decoding", "bfloat16" if options.gpu else "float32")
    floors = Floors()
    if options.gpu:
        on_gpu(options, floors)
    else:
        for name in options.only:
            WORK[name](options, floors)
    return floors.show()


if __name__ == "__main__":
    sys.exit(main())
