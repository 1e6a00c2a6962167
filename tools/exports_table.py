"""Which networks can be exported, and whether each form of them computes the same.

    python -m tools.exports_table                        # all of them
    python -m tools.exports_table --only resnet gpt      # those whose names begin so

Each network is run as dynamic code, as its captured graph, as a static program, and saved and loaded, at two sizes
where sizes are open; with onnxruntime installed also as ONNX; and where the environment variable BIREME_PADDLE_PYTHON
names an interpreter that has paddlepaddle, written in its format and run by it. A cell is the largest difference from
dynamic code, relative to the largest value.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import bireme
from benchmarks import gpu_networks
from bireme import jit, nn
from bireme.core.program.program import leaves
from bireme.files import paddle_models
from bireme.nn import functional as F
from bireme.static import InputSpec
from bireme.vision import models

FORMS: dict[str, Callable[[Network, Path], Callable[..., Any]]] = {}


@dataclass
class Network:
    """A network, the specs of its inputs, and arrays to run it on, one list for each size."""

    name: str
    layer: Any
    specs: list[Any]
    inputs: list[list[Any]]


def form(fn: Callable) -> Callable:
    FORMS[fn.__name__] = fn
    return fn


@form
def captured(network: Network, folder: Path) -> Callable[..., Any]:
    model = jit.to_static(network.layer, input_spec=network.specs, full_graph=True).forward.concrete_program.model
    network.layer.forward.rollback()
    return lambda *given: model.run(*leaves(list(given)))


@form
def program(network: Network, folder: Path) -> Callable[..., Any]:
    bireme.enable_static()
    try:
        main = bireme.static.Program()
        with bireme.static.program_guard(main, bireme.static.Program()):
            names = [f"x{i}" for i in range(len(list(leaves(network.specs))))]
            fed = iter([bireme.static.data(n, s.shape, s.dtype) for n, s in zip(names, leaves(network.specs))])
            from bireme.core.program.program import mapped
            from bireme.jit.conversion import to_call

            made = to_call(network.layer)(*mapped(lambda _: next(fed), network.specs))
    finally:
        bireme.disable_static()
    outs = [x for x in leaves(made) if isinstance(x, bireme.Tensor)]
    run = bireme.static.Executor().run
    return lambda *given: run(main, dict(zip(names, [x.numpy() for x in leaves(list(given))])), outs)


@form
def loaded(network: Network, folder: Path) -> Callable[..., Any]:
    jit.save(network.layer, str(folder / network.name), network.specs)
    return jit.load(str(folder / network.name))


if importlib.util.find_spec("onnxruntime") is not None:

    @form
    def onnx(network: Network, folder: Path) -> Callable[..., Any]:
        import onnxruntime

        path = str(folder / network.name)
        bireme.onnx.export(network.layer, path, network.specs)
        session = onnxruntime.InferenceSession(path + ".onnx", providers=["CPUExecutionProvider"])
        names = [x.name for x in session.get_inputs()]
        return lambda *given: session.run(None, dict(zip(names, [x.numpy() for x in leaves(list(given))])))


def paddle(network: Network, folder: Path) -> Callable[..., Any]:
    path = folder / f"{network.name}_paddle"
    paddle_models.save(jit.saving.models_of(network.layer, network.specs, "save")["forward"], path)

    def run(*given: Any) -> Any:
        inputs, outputs = folder / "inputs.npz", folder / "outputs.npz"
        np.savez(inputs, **{f"x{i}": x.numpy() for i, x in enumerate(leaves(list(given)))})
        worker = _worker()
        worker.stdin.write(json.dumps({"model": str(path), "inputs": str(inputs), "outputs": str(outputs)}) + "\n")
        worker.stdin.flush()
        answer = json.loads(worker.stdout.readline() or '{"error": "it ended"}')
        if "error" in answer:
            raise RuntimeError(f"paddlepaddle: {answer['error']}")
        with np.load(outputs) as made:
            return [made[f"y{i}"] for i in range(len(made.files))]

    return run


@functools.cache
def _worker() -> Any:
    """A process with paddlepaddle, which runs models for all networks."""
    script = Path(__file__).with_name("paddle_worker.py")
    return subprocess.Popen(
        [os.environ["BIREME_PADDLE_PYTHON"], str(script)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip


if "BIREME_PADDLE_PYTHON" in os.environ:
    form(paddle)


def difference(got: Any, want: Any) -> float:
    """The largest difference of tensors, relative to the largest value."""
    pairs = list(zip(_arrays(got), _arrays(want), strict=True))
    if any(g.shape != w.shape for g, w in pairs):
        return float("inf")
    return max(
        [float(np.abs(g - w).max(initial=0) / max(np.abs(w).max(initial=0), 1e-30)) for g, w in pairs], default=0.0
    )


def _arrays(made: Any) -> list[np.ndarray]:
    values = [x.numpy() if isinstance(x, bireme.Tensor) else x for x in leaves(made)]
    return [np.asarray(x, "float64") for x in values if isinstance(x, np.ndarray)]


# ---------------------------------------------------------------- networks


def images() -> Iterator[tuple[str, Callable[[], Network]]]:
    """Every network of vision.models, by its function, or by its class where there is none."""
    functions = [n for n in models.__all__ if n[0].islower()]
    for name in [*functions, "LeNet"]:
        size = 299 if name == "inception_v3" else 28 if name == "LeNet" else 64
        if name.startswith(("alexnet", "vgg", "googlenet", "squeezenet")):
            size = 224
        yield name, lambda name=name, size=size: _image_network(name, size)


def _image_network(name: str, size: int) -> Network:
    layer = models.LeNet() if name == "LeNet" else getattr(models, name)(num_classes=10)
    channels = 1 if name == "LeNet" else 3
    rng = np.random.default_rng(0)
    inputs = [[rng.standard_normal((n, channels, size, size), "float32")] for n in (1, 2)]
    return Network(name, layer, [InputSpec([None, channels, size, size], "float32", "x")], inputs)


def sequences(kind: str, **kwargs: Any) -> Network:
    class Tagger(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(20, 8)
            self.rnn = getattr(nn, kind)(8, 12, num_layers=2, direction="bidirectional", **kwargs)
            self.out = nn.Linear(24, 5)

        def forward(self, ids: Any) -> Any:
            h, last = self.rnn(self.embed(ids))
            return self.out(h), last

    rng = np.random.default_rng(0)
    inputs = [[rng.integers(0, 20, (n, t))] for n, t in ((2, 7), (3, 11))]
    return Network(kind.lower(), Tagger(), [InputSpec([None, None], "int64", "ids")], inputs)


def bert() -> Network:
    class Bert(nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.word, self.position, self.kind = nn.Embedding(50, 16), nn.Embedding(64, 16), nn.Embedding(2, 16)
            self.norm = nn.LayerNorm(16)
            one = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.1, activation="gelu")
            self.encoder = nn.TransformerEncoder(one, 2)
            self.pooler, self.classify = nn.Linear(16, 16), nn.Linear(16, 3)

        def forward(self, ids: Any, kinds: Any) -> Any:
            mask = ((ids == 0).astype("float32") * -1e4).unsqueeze([1, 2])
            positions = bireme.arange(ids.shape[1], dtype="int64")
            x = self.norm(self.word(ids) + self.position(positions) + self.kind(kinds))
            x = self.encoder(x, mask)
            return x, self.classify(bireme.tanh(self.pooler(x[:, 0])))

    rng = np.random.default_rng(0)
    inputs = [[rng.integers(0, 50, (n, t)), rng.integers(0, 2, (n, t))] for n, t in ((2, 9), (3, 17))]
    specs = [InputSpec([None, None], "int64", "ids"), InputSpec([None, None], "int64", "kinds")]
    return Network("bert", Bert(), specs, inputs)


class Gpt(nn.Layer):
    """A decoder with a cache: what it was given before comes in as keys and values, and goes out longer."""

    def __init__(self, width: int = 16, heads: int = 4, layers: int = 2, words: int = 30):
        super().__init__()
        self.heads, self.token, self.position = heads, nn.Embedding(words, width), nn.Embedding(64, width)
        self.norms = nn.LayerList([nn.LayerNorm(width) for _ in range(2 * layers + 1)])
        self.mixes = nn.LayerList([nn.Linear(width, 3 * width) for _ in range(layers)])
        self.joins = nn.LayerList([nn.Linear(width, width) for _ in range(layers)])
        self.mlps = nn.LayerList(
            [nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(layers)]
        )

    def forward(self, ids: Any, cache: Any) -> Any:
        b, t, past = ids.shape[0], ids.shape[1], cache[0].shape[2]
        x = self.token(ids) + self.position(bireme.arange(past, past + t, dtype="int64"))
        allowed = bireme.arange(past + t).unsqueeze(0) <= bireme.arange(past, past + t).unsqueeze(1)
        mask = bireme.where(allowed, bireme.zeros([t, past + t]), bireme.full([t, past + t], -1e9))
        kept = []
        for i, (mix, join, mlp) in enumerate(zip(self.mixes, self.joins, self.mlps, strict=True)):
            q, k, v = mix(self.norms[2 * i](x)).reshape([b, t, 3, self.heads, -1]).transpose([2, 0, 3, 1, 4]).unbind(0)
            k, v = bireme.concat([cache[2 * i], k], axis=2), bireme.concat([cache[2 * i + 1], v], axis=2)
            kept += [k, v]
            scores = bireme.matmul(q, k, transpose_y=True) * q.shape[-1] ** -0.5 + mask
            mixed = bireme.matmul(F.softmax(scores, axis=-1), v).transpose([0, 2, 1, 3]).reshape([b, t, -1])
            x = x + join(mixed)
            x = x + mlp(self.norms[2 * i + 1](x))
        return bireme.matmul(self.norms[-1](x), self.token.weight, transpose_y=True), kept


def gpt() -> Network:
    rng = np.random.default_rng(0)

    def arrays(b: int, t: int, past: int) -> list[Any]:
        return [rng.integers(0, 30, (b, t)), [rng.standard_normal((b, 4, past, 4), "float32") for _ in range(4)]]

    cache = [InputSpec([None, 4, None, 4], "float32", f"cache{i}") for i in range(4)]
    return Network("gpt", Gpt(), [InputSpec([None, None], "int64", "ids"), cache], [arrays(2, 5, 3), arrays(1, 1, 9)])


class BeamSearch(nn.Layer):
    """A sequence-to-sequence network that decodes by beam search, until every beam has ended."""

    def __init__(self, words: int = 12, width: int = 8, beams: int = 3, most: int = 6):
        super().__init__()
        self.words, self.beams, self.most = words, beams, most
        self.embed, self.encoder, self.cell = nn.Embedding(words, width), nn.GRU(width, width), nn.GRUCell(width, width)
        self.out = nn.Linear(2 * width, words)

    def forward(self, ids: Any) -> Any:
        states, last = self.encoder(self.embed(ids))
        n = ids.shape[0]
        h = last[0].unsqueeze(1).tile([1, self.beams, 1]).reshape([n * self.beams, -1])
        memory = states.unsqueeze(1).tile([1, self.beams, 1, 1]).reshape([n * self.beams, states.shape[1], -1])
        tokens = bireme.ones([n * self.beams], "int64")
        scores = bireme.to_tensor([0.0] + [-1e9] * (self.beams - 1)).unsqueeze(0).tile([n, 1])
        ended = bireme.zeros([n, self.beams], "bool")
        words, step = [], 0
        while step < self.most and not ended.all():
            h, _ = self.cell(self.embed(tokens), h)
            weights = F.softmax((memory * h.unsqueeze(1)).sum(-1), axis=-1)
            context = (weights.unsqueeze(-1) * memory).sum(1)
            logits = F.log_softmax(self.out(bireme.concat([h, context], axis=-1)), axis=-1)
            logits = logits.reshape([n, self.beams, self.words])
            stay = F.one_hot(bireme.zeros([n, self.beams], "int64"), self.words).log().clip(min=-1e9)
            logits = bireme.where(ended.unsqueeze(-1), stay, logits)
            best, index = (scores.unsqueeze(-1) + logits).reshape([n, -1]).topk(self.beams, axis=-1)
            beam, tokens = index // self.words, (index % self.words).reshape([-1])
            rows = (bireme.arange(n).unsqueeze(1) * self.beams + beam).reshape([-1])
            h, scores = bireme.gather(h, rows), best
            ended = bireme.take_along_axis(ended, beam, 1).logical_or(tokens.reshape([n, -1]) == 0)
            words.append(tokens.reshape([n, -1]))
            step += 1
        return bireme.stack(words), scores


def beam_search() -> Network:
    rng = np.random.default_rng(0)
    inputs = [[rng.integers(1, 12, (n, t))] for n, t in ((2, 5), (3, 4))]
    return Network("seq2seq_beam", BeamSearch(), [InputSpec([None, None], "int64", "ids")], inputs)


def unet() -> Network:
    sizes = gpu_networks.Diffusion(2, 16, 16, (1, 2), blocks=1, attended=1, head=8, groups=4)
    rng = np.random.default_rng(0)
    inputs = [[rng.standard_normal((n, 3, 16, 16), "float32"), rng.integers(0, 999, n)] for n in (1, 2)]
    specs = [InputSpec([None, 3, 16, 16], "float32", "x"), InputSpec([None], "int64", "t")]
    return Network("unet", gpu_networks.paddle_unet(bireme, sizes), specs, inputs)


def llama() -> Network:
    sizes = gpu_networks.Llama(2, 32, 4, 2, 64, 40, 2, 24)
    rng = np.random.default_rng(0)
    inputs = [[rng.integers(0, 40, (n, t))] for n, t in ((2, 9), (1, 24))]
    layer = gpu_networks.paddle_llama(bireme, sizes)
    return Network("llama", layer, [InputSpec([None, None], "int64", "ids")], inputs)


def networks() -> dict[str, Callable[[], Network]]:
    """All networks by name."""
    others: dict[str, Callable[[], Network]] = {
        "simplernn": lambda: sequences("SimpleRNN"), "lstm": lambda: sequences("LSTM"), "gru": lambda: sequences("GRU"),
        "bert": bert, "gpt": gpt, "seq2seq_beam": beam_search, "unet": unet, "llama": llama,
    }  # fmt: skip
    return dict(images()) | others


# ---------------------------------------------------------------- the table


def row(name: str, forms: list[str], folder: Path) -> dict[str, Any]:
    """What each form of a network differs by: a number, or the error that it raised."""
    bireme.seed(0)
    network = networks()[name]()
    network.layer.eval()
    given = [_tensors(arrays) for arrays in network.inputs]
    with bireme.no_grad():
        wanted = [network.layer(*arrays) for arrays in given]
        found: dict[str, Any] = {}
        for kind in forms:
            try:
                run = FORMS[kind](network, folder)
                found[kind] = max(difference(run(*x), want) for x, want in zip(given, wanted, strict=True))
            except Exception as e:  # noqa: BLE001  # whatever it raises is a finding
                found[kind] = f"{type(e).__name__}: {(str(e) or '?').splitlines()[0]}"
    return found


def _tensors(arrays: Any) -> Any:
    return [_tensors(x) if isinstance(x, list) else bireme.to_tensor(x) for x in arrays]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], help="beginnings of names of networks")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS))
    given = parser.parse_args()
    names = [n for n in networks() if n.startswith(tuple(given.only))]
    print(f"{'network':22}" + "".join([f"{kind:>12}" for kind in given.forms]))
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            found = row(name, given.forms, Path(folder))
            cells = [f"{x:12.1e}" if isinstance(x, float) else f"{'failed':>12}" for x in found.values()]
            print(f"{name:22}" + "".join(cells), flush=True)
            for kind, x in found.items():
                if isinstance(x, str):
                    print(f"    {kind}: {x}")
            failed += any(isinstance(x, str) or x > 1e-4 for x in found.values())
    print(f"{len(names) - failed} of {len(names)} networks in all forms")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
