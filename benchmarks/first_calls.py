"""What first_minute measures besides whole networks: new lengths, generated tokens, single operators; beside torch eager.

A 6-layer GPT-2 of width 512 trains on forty lengths in float32, then generates in bfloat16.
"""

import importlib
import tempfile
import time

import numpy as np

from benchmarks import models
from benchmarks.measure import apart, cell, median, table
from benchmarks.models import Text
from benchmarks.operators import OPERATORS, inputs
from benchmarks.peers import Peers

SIZES = Text(layers=6, width=512, heads=8, vocabulary=8000, batch=8, sequence=512)
TINY = Text(layers=1, width=32, heads=2, vocabulary=100, batch=2, sequence=48)
STEPS, SHORTEST = 40, 16
PROMPT, TOKENS, TIMES = 16, 64, 3
RATE = 1e-4
PEERS = ("bireme", "torch")
CACHES = {"grown": "cache grown by concat", "written": "cache written by index"}
CHOSEN = (
    "add",
    "divide",
    "maximum",
    "exp",
    "sqrt",
    "tanh",
    "gelu",
    "softmax",
    "layer_norm",
    "sum",
    "var",
    "cumsum",
    "argmax",
    "sort",
    "topk",
    "matmul",
    "concat",
    "where",
    "index_select",
    "conv2d",
)


def torch_device(torch):
    """The device torch uses; its float32 products are in TF32 there, as XLA's are."""
    torch.set_float32_matmul_precision("high")
    return "cuda" if torch.cuda.is_available() else "cpu"


def asked(options, make, *args):
    """The answer of each peer, alone in a fresh process with an empty cache; one that failed is named and left out."""
    found = {}
    for name in PEERS:
        if name not in options.peers:
            continue
        with tempfile.TemporaryDirectory() as cache, Peers() as peers:
            peers.start(name, make, name, *args, settings={"BIREME_CACHE_DIR": cache, "CUDA_CACHE_PATH": cache})
            answer = peers.ask(name)
            peers.report()
        if answer is not None:
            found[name] = answer
            print(f"{name}: done", flush=True)
    return found


def built(name, sizes, dtype):
    """Framework and model on its device, with the weights that every peer has."""
    framework = importlib.import_module(name)
    if name == "torch":
        model = models.torch_transformer(framework, sizes)
        models.fill_torch(framework, model)
        return framework, model.to(torch_device(framework), getattr(framework, dtype))
    model = models.paddle_transformer(framework, sizes)
    models.fill(model)
    return framework, model.to(dtype=dtype)


# ---------------------------------------------------------------- lengths


def make_lengths(name, sizes, lengths):
    """Training steps of the given lengths: (seconds of each, losses)."""
    framework, model = built(name, sizes, "float32")
    F, rng = framework.nn.functional, np.random.default_rng(1)
    if name == "torch":
        device = torch_device(framework)
        opt = framework.optim.AdamW(model.parameters(), RATE, weight_decay=0.01, fused=True)
    else:
        opt = framework.optimizer.AdamW(RATE, parameters=model.parameters(), weight_decay=0.01)

    def torch_step(ids, labels):
        ids, labels = framework.from_numpy(ids).to(device), framework.from_numpy(labels).to(device)
        loss = F.cross_entropy(model(ids), labels.flatten())
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss.item()

    def paddle_step(ids, labels):
        loss = F.cross_entropy(model(framework.to_tensor(ids)), framework.to_tensor(labels).reshape([-1]))
        loss.backward()
        opt.step()
        opt.clear_grad()
        return loss.item()

    def answer():
        step, seconds, losses = torch_step if name == "torch" else paddle_step, [], []
        for t in lengths:
            ids, labels = rng.integers(0, sizes.vocabulary, (2, sizes.batch, t))
            start = time.perf_counter()
            losses.append(step(ids, labels))
            seconds.append(time.perf_counter() - start)
        return seconds, losses

    return answer


def lengths(options):
    """Forty training steps, each of a length that was not there before."""
    sizes, steps = (TINY, 12) if options.tiny else (SIZES, STEPS)
    order = np.random.default_rng(0).permutation(np.arange(SHORTEST, sizes.sequence + 1))[:steps]
    print(f"{sizes}, float32, lengths {' '.join(map(str, order))}", flush=True)
    found = asked(options, make_lengths, sizes, order)
    theirs, rows = found.get("torch"), []
    for name, (seconds, losses) in found.items():
        at = 1 + int(np.argmax(seconds[1:]))
        early, late = sum(seconds[:10]), median(seconds[-10:]) * 1e3
        rows.append(
            (
                name,
                f"{seconds[0]:.2f}",
                f"{early:.2f}",
                cell(early / sum(theirs[0][:10]) if theirs else float("nan")),
                f"{late:.1f}",
                cell(late / median(theirs[0][-10:]) / 1e3 if theirs else float("nan")),
                f"{seconds[at]:.2f} (step {at + 1})",
                f"{sum(seconds):.1f}",
                f"{losses[0]:.4f} {losses[-1]:.4f}",
            )
        )
    titles = ("first s", "first ten s", "/torch", "last ten, median ms", "/torch", "longest later s", "all s", "losses")
    table((f"{steps} lengths", *titles), rows)
    for name, (seconds, _) in found.items():
        print(f"{name}, each step in ms:", *[f"{s * 1e3:.0f}" for s in seconds])
    if len(found) > 1:
        print(f"largest difference of the losses {apart({n: f[1] for n, f in found.items()}) * 100:.2f} %")
    return 0 if "bireme" in found or "bireme" not in options.peers else 1


# ---------------------------------------------------------------- generate


def paddle_attention(paddle, kind, sizes, total):
    """Attention over the keys and values of all places so far; `kept` is a layer's list of both, empty at first."""
    F, dim = paddle.nn.functional, sizes.width // sizes.heads

    def attend(block, x, kept, start):
        b, t = x.shape[0], x.shape[1]
        q, k, v = paddle.unbind(block.qkv(x).reshape([b, t, 3, sizes.heads, dim]), axis=2)
        if kind == "grown":
            if kept:
                k, v = paddle.concat([kept[0], k], axis=1), paddle.concat([kept[1], v], axis=1)
            kept[:] = [k, v]
            a = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
        else:
            if not kept:
                kept[:] = [paddle.zeros([b, total, sizes.heads, dim], k.dtype) for _ in range(2)]
            kept[0][:, start : start + t] = k
            kept[1][:, start : start + t] = v
            mask = paddle.arange(total) <= paddle.arange(start, start + t).unsqueeze(1)
            a = F.scaled_dot_product_attention(q, *kept, attn_mask=mask.unsqueeze([0, 1]))
        return block.project(a.reshape([b, t, sizes.width]))

    return attend


def torch_attention(torch, kind, sizes, total):
    F, dim = torch.nn.functional, sizes.width // sizes.heads

    def attend(block, x, kept, start):
        b, t, _ = x.shape
        q, k, v = block.qkv(x).view(b, t, 3, sizes.heads, dim).permute(2, 0, 3, 1, 4)
        if kind == "grown":
            if kept:
                k, v = torch.cat([kept[0], k], 2), torch.cat([kept[1], v], 2)
            kept[:] = [k, v]
            a = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
        else:
            if not kept:
                kept[:] = [torch.zeros(b, sizes.heads, total, dim, dtype=k.dtype, device=k.device) for _ in range(2)]
            kept[0][:, :, start : start + t] = k
            kept[1][:, :, start : start + t] = v
            places = torch.arange(total, device=k.device)
            a = F.scaled_dot_product_attention(q, *kept, attn_mask=places <= places[start : start + t, None])
        return block.project(a.transpose(1, 2).reshape(b, t, sizes.width))

    return attend


def make_generate(name, sizes, kind, tokens):
    """The same tokens generated TIMES times: (seconds of each time, the tokens of the last)."""
    framework, model = built(name, sizes, "bfloat16")
    model.eval()
    torch, total = name == "torch", PROMPT + tokens
    attend = (torch_attention if torch else paddle_attention)(framework, kind, sizes, total)
    prompt = np.random.default_rng(1).integers(0, sizes.vocabulary, (sizes.batch, PROMPT))

    def following(ids, caches, start):
        """The most probable token after `ids`, of which the first is at place `start`: [batch, 1]."""
        x = model.token(ids) + model.position.weight[start : start + ids.shape[1]]
        for block, kept in zip(model.blocks, caches, strict=True):
            x = x + attend(block, block.norm1(x), kept, start)
            x = x + block.think(block.norm2(x))
        x = model.norm(x[:, -1:])
        if torch:
            return framework.nn.functional.linear(x, model.token.weight).argmax(-1)
        return framework.matmul(x, model.token.weight, transpose_y=True).argmax(-1)

    def generate():
        with framework.no_grad():
            ids = framework.from_numpy(prompt).to(torch_device(framework)) if torch else framework.to_tensor(prompt)
            caches, made, start = [[] for _ in range(sizes.layers)], [], 0
            for _ in range(tokens):
                new = following(ids, caches, start)
                start, ids = start + ids.shape[1], new
                made.append((new.cpu() if torch else new).numpy())  # read as one who looks for the end does
        return np.concatenate(made, 1)

    def answer():
        seconds = []
        for _ in range(TIMES):
            start = time.perf_counter()
            made = generate()
            seconds.append(time.perf_counter() - start)
        return seconds, made

    return answer


def generate(options):
    """64 tokens, each read, for the first time and again, with a cache that grows and one that is written to."""
    sizes, tokens = (TINY, 8) if options.tiny else (SIZES, TOKENS)
    print(f"{sizes}, bfloat16, {tokens} tokens after {PROMPT}", flush=True)
    rows, failed = [], False
    for kind, title in CACHES.items():
        found = asked(options, make_generate, sizes, kind, tokens)
        failed = failed or ("bireme" in options.peers and "bireme" not in found)
        theirs = found.get("torch")
        for name, (seconds, made) in found.items():
            third = seconds[-1] / theirs[0][-1] if theirs else float("nan")
            same = f"{(made == theirs[1]).mean() * 100:.0f} %" if theirs else "-"
            times = [f"{s:.3f}" for s in seconds]
            rows.append((title, name, *times, f"{seconds[-1] / tokens * 1e3:.2f}", cell(third), same))
    titles = ("first s", "second s", "third s", "third, ms a token", "/torch", "tokens as torch's")
    table(("generate", "peer", *titles), rows)
    return 1 if failed else 0


# ---------------------------------------------------------------- operators


def make_operators(name):
    """Each operator twice, its result read: (milliseconds of the first, of the second) by name."""
    framework = importlib.import_module(name)
    torch, rng = name == "torch", np.random.default_rng(0)

    def tensor(array):
        return framework.from_numpy(array).to(torch_device(framework)) if torch else framework.to_tensor(array)

    def read(result):
        return (result.cpu() if torch else result).numpy()

    def answer():
        read(tensor(np.ones(3, np.float32)) + tensor(np.ones(3, np.float32)))  # what a device needs to start
        operands = {
            op: [[tensor(a) for a in inputs(OPERATORS[op][0], "small", rng)] for _ in range(2)] for op in CHOSEN
        }
        milliseconds = {}
        for turn in range(2):
            for op in CHOSEN:
                start = time.perf_counter()
                read(OPERATORS[op][2 if torch else 1](framework, *operands[op][turn]))
                milliseconds.setdefault(op, []).append((time.perf_counter() - start) * 1e3)
        return milliseconds

    return answer


def operators(options):
    """Twenty operators on small tensors, for the first time in a process and again."""
    found = asked(options, make_operators)
    titles = [f"{name}, {turn} ms" for name in found for turn in ("first", "again")]
    rows = [(op, *[f"{ms:.2f}" for by_op in found.values() for ms in by_op[op]]) for op in CHOSEN]
    sums = [sum(by_op[op][turn] for op in CHOSEN) for by_op in found.values() for turn in range(2)]
    table(("operator", *titles), [*rows, ("all", *[f"{ms:.1f}" for ms in sums])])
    return 0 if "bireme" in found or "bireme" not in options.peers else 1


MODES = {"lengths": lengths, "generate": generate, "operators": operators}
