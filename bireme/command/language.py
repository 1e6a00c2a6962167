"""A language model before and after its matrices became integers: sizes, perplexity, most likely tokens and tokens a second."""

from __future__ import annotations

import os
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.grad_mode import no_grad
from bireme.llm import Engine, LanguageModel, SamplingOptions, Tokenizer, configuration, load, quantize
from bireme.llm.model import MOST_TOKENIZER
from bireme.llm.weights import json_of, text_of
from bireme.nn import functional
from bireme.ops import to_tensor

LENGTH = 256  # tokens of a text that are judged together
MOST_TEXT = 16 * 2**20  # bytes
PROMPT, TIMED = 16, 32  # tokens


def checked(folder: str, out: str, to: str, group: int | None) -> str:
    """How wide integers of a language model become; what is not for one is refused."""
    kind = {"weight-int8": "int8", "weight-int4": "int4"}.get(to)
    if kind is None:
        message = f"{folder} is a language model, whose weights alone become integers"
        raise errors.failure(message, hint="--to weight-int8 or --to weight-int4", kind=ValueError)
    if group is not None:
        message = "--group is not for language models, which have groups of 64 inputs with 4 bits"
        raise errors.failure(message, hint="leave it out", kind=ValueError)
    if Path(out).resolve() == Path(folder).resolve():
        raise errors.failure(f"--out: {out} is the model itself", hint="name another folder", kind=ValueError)
    above = next(p for p in Path(out).resolve().parents if p.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise errors.failure(f"--out: nothing can be written in {above}", kind=ValueError)
    return kind


def run(folder: str, out: str, kind: str, data: str | None) -> dict[str, Any]:
    """Write the folder, and say what that changed; with a text or tokens, how well and how fast both go on with it."""
    rows = None if data is None else _rows(data, folder)
    told: dict[str, Any] = {"layers": quantize(folder, out, kind)}
    told["bytes"] = {"before": _size(folder), "after": _size(out)}
    if rows is None:
        return told
    found: dict[str, tuple[float, np.ndarray, float]] = {}
    for which, path in (("before", folder), ("after", out)):  # one after the other: both may not fit into memory
        found[which] = _judged(load(path), rows)
    told["tokens"] = sum(len(row) - 1 for row in rows)
    told["perplexity"] = {which: each[0] for which, each in found.items()}
    told["same_tokens"] = float((found["before"][1] == found["after"][1]).mean())
    told["tokens_per_second"] = {which: each[2] for which, each in found.items()}
    return told


def lines(told: dict[str, Any]) -> str:
    """A report as lines."""
    size = told["bytes"]
    rows = [
        ("matrices", f"{told['layers']} with integers"),
        ("size", f"{size['before'] / 1e6:,.1f} MB before, {size['after'] / 1e6:,.1f} after"),
    ]
    if "tokens" in told:
        rows.append(("perplexity", "{before:.4g} before, {after:.4g} after".format(**told["perplexity"])))
        rows.append(("tokens", f"{told['same_tokens']:.2%} of {told['tokens']} most likely ones the same"))
        rows.append(("tokens/s", "{before:.1f} before, {after:.1f} after".format(**told["tokens_per_second"])))
    width = max(len(name) for name, _ in rows) + 2
    return "".join(f"{name:{width}}{value}\n" for name, value in rows)


def _size(folder: str) -> int:
    return sum(p.stat().st_size for p in Path(folder).glob("*.safetensors"))


def _rows(path: str, folder: str) -> list[np.ndarray]:
    """Tokens of a text, or of an array [N, L], in rows that a model takes."""
    if zipfile.is_zipfile(path):
        with np.load(path, allow_pickle=False) as file:
            arrays = [file[name] for name in file.files]
        if len(arrays) != 1 or arrays[0].ndim != 2 or arrays[0].dtype.kind not in "iu" or arrays[0].shape[1] < 2:
            got = ", ".join(f"{a.dtype} {list(a.shape)}" for a in arrays) or "none"
            raise errors.bad("--data", "one array of tokens [N, L]", described=got)
        found = [row.astype(np.int64) for row in arrays[0]]
    else:
        if os.path.getsize(path) > MOST_TEXT:
            raise errors.bad("--data", f"a text of at most {MOST_TEXT} bytes", os.path.getsize(path))
        found = _text(Path(path).read_bytes(), path, folder)
    config = configuration.read(json_of(folder, "config.json"))
    for row in found:
        if row.min() < 0 or row.max() >= config.vocabulary:
            wrong = int(row.min() if row.min() < 0 else row.max())
            raise errors.bad("--data", f"tokens from 0 to {config.vocabulary - 1}", wrong)
    most = min(LENGTH, config.positions) + 1
    return [part for row in found for i in range(0, len(row), most) if len(part := row[i : i + most]) > 1]


def _text(data: bytes, path: str, folder: str) -> list[np.ndarray]:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise errors.bad("--data", "a text in UTF-8, or an .npz with tokens", described=path) from None
    described = text_of(folder, "tokenizer.json", MOST_TOKENIZER)
    if described is None:
        message = "the folder has no tokenizer.json, so text has no tokens"
        raise errors.failure(message, hint="--data FILE.npz, with one array of tokens [N, L]", kind=ValueError)
    tokens = np.array(Tokenizer(described).encode(text), np.int64)
    if len(tokens) < 2:
        raise errors.bad("--data", "a text of at least two tokens", len(tokens))
    return [tokens]


@no_grad()
def _judged(model: LanguageModel, rows: list[np.ndarray]) -> tuple[float, np.ndarray, float]:
    """Perplexity, most likely tokens, and tokens a second of one request."""
    losses, best = 0.0, []
    for row in rows:
        logits = model.network(to_tensor(row[None, :-1])).astype("float32")[0]
        losses += float(functional.cross_entropy(logits, to_tensor(row[1:]), reduction="sum").item())
        best.append(logits.argmax(-1).numpy())
    found = np.concatenate(best)
    return float(np.exp(losses / len(found))), found, rate(model, [int(t) for t in rows[0][:PROMPT]])


def rate(model: LanguageModel, prompt: list[int]) -> float:
    """Tokens a second of one request, after its first one."""
    length = min(len(prompt) + TIMED, model.config.positions)
    options = SamplingOptions(max_tokens=length - len(prompt), ignore_eos=True)
    if options.max_tokens < 2:
        return float("nan")
    with Engine(model, max_batch=1, max_length=length) as engine:
        engine.generate([prompt], options)  # compiles
        times = [time.perf_counter() for _ in engine.submit(prompt, options).tokens()]
    return (len(times) - 1) / (times[-1] - times[0])
