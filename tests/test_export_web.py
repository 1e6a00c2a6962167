"""Models in the browser: what is written, and in a real one that numbers are those of Python.

Chromium is found by name; BIREME_NODE_MODULES names a folder `node_modules` with onnxruntime-web. All traffic is to 127.0.0.1.
"""

import contextlib
import functools
import http.server
import json
import os
import shutil
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.command import main
from bireme.export import ocr_to_web, to_web
from bireme.export.web_pages import RUNTIME, WEBGPU
from bireme.ocr import Reader
from bireme.static import InputSpec
from tests.test_ocr import Detection, Recognition, page

pytest.importorskip("onnx", reason="onnx is not installed")
Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
PngImagePlugin = pytest.importorskip("PIL.PngImagePlugin", reason="Pillow is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NODE_MODULES = os.environ.get("BIREME_NODE_MODULES")
in_browser = pytest.mark.skipif(
    CHROMIUM is None or not NODE_MODULES or not (Path(NODE_MODULES) / "onnxruntime-web").is_dir(),
    reason="there is no Chromium, or BIREME_NODE_MODULES names no folder with onnxruntime-web",
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    bireme.seed(0)
    net = nn.Sequential(
        nn.Conv2D(3, 4, 3, stride=2), nn.BatchNorm2D(4), nn.Hardswish(), nn.AdaptiveAvgPool2D(2), nn.Flatten()
    )
    net.eval()
    path = str(tmp_path_factory.mktemp("model") / "net")
    bireme.jit.save(net, path, [InputSpec([None, 3, 8, 10], "float32", "x")])
    return path, net


@pytest.fixture(scope="module")
def readers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("networks")
    for name, layer, shape in (
        ("toy_det_infer", Detection(), [None, 3, None, None]), ("toy_rec_infer", Recognition(), [None, 3, 48, None]),
    ):  # fmt: skip
        layer.eval()
        bireme.jit.save(layer, str(folder / name / "inference"), [InputSpec(shape, "float32", "x")])
    (folder / "ppocr_keys_v1.txt").write_text("a\nb\nc\n", "utf-8")
    return folder


@pytest.fixture
def runtime(tmp_path):
    """A package that has the names of onnxruntime-web's files."""
    folder = tmp_path / "package"
    (folder / "dist").mkdir(parents=True)
    for name in (*RUNTIME, "ort-wasm-x.mjs", "ort-wasm-x.wasm"):
        (folder / "dist" / name).write_text("//")
    (folder / "dist" / WEBGPU).write_text('import("./ort-wasm-x.mjs")')
    return folder


def test_a_folder_with_all_that_a_page_needs(saved, readers, runtime, tmp_path, capsys):
    site = to_web(saved[0], tmp_path / "site", mean=[0.5] * 3, labels=["x"], runtime=runtime)
    names = {p.name for p in site.path.iterdir()}
    own = {"runner.mjs", "page.mjs", "page.css", "index.html", "model.onnx", "settings.json"}
    assert names == {*RUNTIME, WEBGPU, "ort-wasm-x.mjs", "ort-wasm-x.wasm", *own}
    settings = json.loads((site.path / "settings.json").read_text())
    assert settings["feedShape"] == {"fw": 10, "fh": 8, "fc": 3} and settings["mean"] == [0.5] * 3
    given = ["export", str(readers), "--to", "web", "--ocr", "-o", str(tmp_path / "ocr"), "--runtime", str(runtime)]
    assert main(given) == 0
    assert capsys.readouterr().out.endswith("shows it at http://127.0.0.1:8000/ocr.html\n")
    told = json.loads((tmp_path / "ocr" / "settings.json").read_text("utf-8"))
    assert told["characters"] == ["", "a", "b", "c", " "] and told["networks"] == ["det", "rec"]


def test_what_is_missing_is_told(saved, readers, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["export", saved[0], "--to", "web", "-o", "site"]) == 1
    message = capsys.readouterr().err
    assert (
        message.startswith("bireme export: there is no onnxruntime-web in node_modules of ")
        and message.count("\n") == 1
    )
    assert "`npm install onnxruntime-web` fetches it" in message and not (tmp_path / "site").exists()
    (tmp_path / "node_modules" / "onnxruntime-web" / "dist").mkdir(parents=True)
    for name in RUNTIME:
        (tmp_path / "node_modules" / "onnxruntime-web" / "dist" / name).write_text("//")
    with pytest.raises(
        ValueError, match=r"input x has the shape .*\n  hint: say --shape x=1,3,224,224, or feed_shape="
    ):
        to_web(readers / "toy_det_infer", "site")
    (tmp_path / "node_modules" / "onnxruntime-web" / "dist" / WEBGPU).write_text('import("./ort-wasm-absent.mjs")')
    assert WEBGPU not in {p.name for p in to_web(saved[0], "site").path.iterdir()}
    with pytest.raises(FileNotFoundError, match="there are no networks to read with"):
        ocr_to_web(tmp_path, "site")


@contextlib.contextmanager
def opened(folder, script, gpu=("--disable-gpu",), timeout=120):
    """What a script on a page of the folder gives: the page posts it, and the browser is closed."""
    found, there = [], threading.Event()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_POST(self):
            found.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()
            there.set()

        def log_message(self, *_):
            pass

    post = 'await fetch("/", { method: "POST", body: JSON.stringify(result) });'
    caught = f"let result; try {{ {script} }} catch (e) {{ result = {{ failed: String(e) }}; }} {post}"
    (folder / "test.html").write_text(f'<!doctype html><script type="module">{caught}</script>', "utf-8")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=os.fspath(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    flags = [
        "--headless",
        "--no-sandbox",
        *gpu,
        "--remote-debugging-port=0",
        f"--user-data-dir={folder}/.profile",
    ]
    url = f"http://127.0.0.1:{server.server_port}/test.html"
    browser = subprocess.Popen([CHROMIUM, *flags, url], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert there.wait(timeout), "the page gave no result"
        yield found[0]
    finally:
        browser.terminate()
        browser.wait(20)
        server.shutdown()
        server.server_close()


MEAN, STD = [0.5, 0.4, 0.3], [0.2, 0.3, 0.4]


def pictured(saved, folder):
    """A site with a picture, and the numbers that Python has for it."""
    path, net = saved
    site = to_web(path, folder, mean=MEAN, std=STD, bgr=True, runtime=f"{NODE_MODULES}/onnxruntime-web")
    picture = np.random.default_rng(0).integers(0, 256, (8, 10, 3), np.uint8)
    Image.fromarray(picture).save(site.path / "picture.png")
    x = ((picture[..., ::-1] / 255 - MEAN) / STD).transpose(2, 0, 1)[None].astype("float32")
    return site, net(bireme.to_tensor(x)).numpy().reshape(-1)


RUN = """
  const { Runner } = await import("./runner.mjs");
  const settings = await (await fetch("settings.json")).json();
  const image = new Image();
  image.src = "picture.png";
  await image.decode();
  const by = async (backend) => {
    const runner = new Runner({ ...settings, backend });
    await runner.init();
    return { values: [...(await runner.predict(image))], backend: runner.network.backend };
  };
"""


@in_browser
def test_the_runner_gives_the_numbers_of_python(saved, tmp_path):
    site, wanted = pictured(saved, tmp_path / "site")
    script = f"""{RUN}
      const refused = [];
      try {{ new Runner({{}}); }} catch (e) {{ refused.push(e.message); }}
      try {{ await by("gpu"); }} catch (e) {{ refused.push(e.message); }}
      const plain = await by("wasm");
      const gpu = {{ requestAdapter: async () => ({{ info: {{ isFallbackAdapter: false }} }}) }}; // promises one, and gives no device
      Object.defineProperty(navigator, "gpu", {{ value: gpu, configurable: true }});
      result = {{ plain, broken: await by(), refused }};
    """
    with opened(site.path, script) as found:
        for which in ("plain", "broken"):
            np.testing.assert_allclose(found[which]["values"], wanted, rtol=1e-4, atol=1e-4)
            assert found[which]["backend"] == "wasm"
        assert found["refused"] == [
            "Runner(feedShape): expected {fw, fh}, got undefined",
            'backend: expected "webgpu" or "wasm", got "gpu"',
        ]


@in_browser
def test_the_runner_takes_webgpu_where_there_is_one(saved, tmp_path):
    """By the software that Chromium has in the place of a GPU: taken where it is named, else WebAssembly is faster."""
    site, wanted = pictured(saved, tmp_path / "site")
    script = f"""{RUN}
      const named = await by("webgpu"), unnamed = await by();
      const adapter = await navigator.gpu.requestAdapter();
      result = {{ named, unnamed, software: adapter.info.isFallbackAdapter }};
    """
    flags = ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"]
    with opened(site.path, script, flags) as found:
        assert found["software"] is True
        for which, backend in (("named", "webgpu"), ("unnamed", "wasm")):
            np.testing.assert_allclose(found[which]["values"], wanted, rtol=1e-4, atol=1e-4)
            assert found[which]["backend"] == backend


@in_browser
def test_text_is_read_as_in_python(readers, tmp_path):
    image = page(["abc", "cab", "ba"], width=640)
    site = ocr_to_web(readers, tmp_path / "site", runtime=f"{NODE_MODULES}/onnxruntime-web")
    Image.fromarray(image).save(site.path / "picture.png")
    # two files whose values a browser shows as others: the one says that they are linear, the other is seen in parts
    linear = PngImagePlugin.PngInfo()
    linear.add(b"gAMA", (100000).to_bytes(4, "big"))
    Image.fromarray(image).save(site.path / "linear.png", pnginfo=linear)
    Image.fromarray(np.dstack([image * 0, 255 - image[..., 0]])).save(site.path / "clear.png")
    (wanted,) = Reader(readers).read(image)
    script = """
      const { Reader } = await import("./ocr.mjs");
      const reader = await new Reader().init();
      const image = new Image();
      image.src = "picture.png";
      await image.decode();
      const canvas = new OffscreenCanvas(image.width, image.height), context = canvas.getContext("2d");
      context.drawImage(image, 0, 0);
      const lines = await reader.read(context.getImageData(0, 0, image.width, image.height));
      const rows = [];
      for (const name of ["picture", "linear", "clear"]) {
        const frame = document.createElement("iframe");
        frame.src = `ocr.html?image=${name}.png`;
        document.body.append(frame);
        const shown = () => frame.contentDocument?.body?.dataset.done;
        while (!shown()) await new Promise((next) => setTimeout(next, 20));
        rows.push([...frame.contentDocument.querySelectorAll("#result tr")].map((row) => row.lastChild.textContent));
      }
      result = { lines, rows };
    """
    with opened(site.path, script) as told:
        found = told["lines"]
        assert told["rows"] == [["abc", "cab", "ba"]] * 3
        assert [line["text"] for line in found] == [line.text for line in wanted.lines] == ["abc", "cab", "ba"]
        for ours, line in zip(found, wanted.lines, strict=True):
            assert (
                np.abs(np.array(ours["box"]) - line.box).max() <= 1 and abs(ours["confidence"] - line.confidence) < 1e-3
            )
