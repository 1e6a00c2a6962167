"""Images from JPEG files to batches: decoded, cropped at random and resized, flipped, jittered, normalised, by two worker
processes; and each transform alone.

    python -m benchmarks.data_pipeline                        images a second beside torchvision and paddle.vision
    python -m benchmarks.data_pipeline --cpu                  processor time an image, workers included, where others use the machine
    python -m benchmarks.data_pipeline --what transforms      each transform on an image of Pillow, an array and a tensor

The files are made here, by Pillow. Every peer runs in its own process with the DataLoader and the transforms of its own
framework; they take turns. A turn is one epoch with workers that are there already, and its first batch does not count;
`--cpu` counts whole epochs of it, in all processes. The floors: at least as many images as the better of the others, and
no transform over 1.5 times the time of the better.
"""

import argparse
import functools
import io
import os
import pathlib
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import Floors, cell, head, median, ratio, spread, table, version
from benchmarks.peers import Peers

NAMES = {"bireme": "Bireme", "torchvision": "torchvision", "paddle": "Paddle"}
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
MOST = 1.5


def picture(draws, height, width):
    """Smooth shapes with some noise: a photograph's bytes, roughly."""
    coarse = draws.randint(0, 256, (max(height // 40, 1), max(width // 40, 1), 3), dtype=np.uint8)
    from PIL import Image

    img = np.asarray(Image.fromarray(coarse).resize((width, height), 3)).astype(np.int16)
    return np.clip(img + draws.randint(-12, 13, img.shape), 0, 255).astype(np.uint8)


def write(folder, n, height, width):
    from PIL import Image

    draws = np.random.RandomState(0)
    for i in range(n):
        data = io.BytesIO()
        Image.fromarray(picture(draws, height, width)).save(data, "JPEG", quality=90)
        pathlib.Path(folder, f"{i:05d}.jpg").write_bytes(data.getvalue())


def framework_of(name):
    """The modules of a peer: transforms and DataLoader."""
    if name == "torchvision":
        import torch
        import torchvision.transforms as transforms
        from torch.utils.data import DataLoader

        torch.set_num_threads(1)
    elif name == "paddle":
        from paddle.io import DataLoader
        from paddle.vision import transforms
    else:
        from bireme.io import DataLoader
        from bireme.vision import transforms
    return transforms, DataLoader


class Files:
    """The files of a folder, decoded by Pillow; no framework's class, so that all read the very same object."""

    def __init__(self, folder, transform):
        self.paths, self.transform = sorted(map(str, pathlib.Path(folder).iterdir())), transform

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        from PIL import Image

        with open(self.paths[i], "rb") as file:
            image = Image.open(file).convert("RGB")
        return self.transform(image), i


def pipeline(name, folder, batch, workers, size):
    transforms, loader = framework_of(name)
    steps = transforms.Compose(
        [
            transforms.RandomResizedCrop(size),
            transforms.RandomHorizontalFlip(),
            transforms.ColorJitter(0.4, 0.4, 0.4, 0.1),
            transforms.ToTensor(),
            transforms.Normalize(MEAN, STD),
        ]
    )
    options = {"batch_size": batch, "shuffle": True, "drop_last": True, "num_workers": workers}
    return loader(Files(folder, steps), persistent_workers=workers > 0, **options)


def processor_time(workers):
    """Seconds of this process and of its children that run, where the system says; of those that ended otherwise."""
    total = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    for pid in workers:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def children(pid="self"):
    """The processes that this one has started, and those that they have: workers may come from a server."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += [child, *children(child)]
    return found


def serve_pipeline(name, folder, batch, workers, size, by_cpu):
    loader = pipeline(name, folder, batch, workers, size)

    def epoch():
        start, images = None, 0
        for x, _ in loader:
            if start is None:
                start, at = time.perf_counter(), processor_time(children())
                continue
            images += x.shape[0]
        if by_cpu:
            return (processor_time(children()) - at) / images * 1e3
        return (time.perf_counter() - start) / images * 1e3

    epoch()
    return epoch


# name: arguments of the function, by what the framework calls it
CORNERS, MOVED = [[0, 0], [255, 0], [255, 255], [0, 255]], [[20, 10], [240, 0], [255, 250], [5, 240]]


def functions_of(name, how):
    """Each transform on one image: name to a call, of the framework's own functions; None where it has none."""
    transforms, _ = framework_of(name)
    torch_like = name == "torchvision"
    if torch_like:
        import torchvision.transforms.functional as f
        from torchvision.transforms import InterpolationMode

        bilinear = InterpolationMode.BILINEAR
    else:
        if name == "paddle":
            from paddle.vision.transforms import functional as f
        else:
            from bireme.vision.transforms import functional as f
        bilinear = "bilinear"
    draws = np.random.RandomState(0)
    array = picture(draws, 256, 256)
    if how == "Pillow":
        from PIL import Image

        image = Image.fromarray(array)
    elif how == "array":
        image = array
    elif torch_like:
        import torch

        image = torch.from_numpy(np.ascontiguousarray(array.transpose(2, 0, 1)).astype(np.float32) / 255)
    else:
        to = framework_named(name).to_tensor
        image = to(np.ascontiguousarray(array.transpose(2, 0, 1)).astype(np.float32) / 255)
    angles = {"interpolation": bilinear}
    calls = {
        "to_tensor": None if how == "tensor" else lambda: f.to_tensor(image),
        "resize": lambda: f.resize(image, [224, 224], bilinear),
        "pad": lambda: f.pad(image, 8),
        "crop": lambda: f.crop(image, 16, 16, 224, 224),
        "center_crop": lambda: f.center_crop(image, [224, 224] if torch_like else 224),
        "hflip": lambda: f.hflip(image),
        "vflip": lambda: f.vflip(image),
        "adjust_brightness": lambda: f.adjust_brightness(image, 1.3),
        "adjust_contrast": lambda: f.adjust_contrast(image, 1.3),
        "adjust_saturation": lambda: f.adjust_saturation(image, 1.3),
        "adjust_hue": lambda: f.adjust_hue(image, 0.1),
        "affine": lambda: f.affine(image, 15, [3, 4], 1.1, [5.0, 0.0], **angles),
        "rotate": lambda: f.rotate(image, 15, **angles),
        "perspective": lambda: f.perspective(image, CORNERS, MOVED, **angles),
        "to_grayscale": lambda: (f.rgb_to_grayscale if torch_like and how == "tensor" else f.to_grayscale)(image, 3),
        "normalize": (lambda: f.normalize(image, MEAN, STD))
        if how == "tensor"
        else None
        if torch_like
        else lambda: f.normalize(image, MEAN, STD, data_format="HWC"),
        "erase": (lambda: f.erase(image, 10, 10, 50, 50, image[:, :50, :50])) if how == "tensor" else None,
    }
    own = {
        "ToTensor": None if how == "tensor" else lambda: transforms.ToTensor(),
        "Resize": lambda: transforms.Resize([224, 224]),
        "RandomResizedCrop": lambda: transforms.RandomResizedCrop(224),
        "CenterCrop": lambda: transforms.CenterCrop(224),
        "RandomHorizontalFlip": lambda: transforms.RandomHorizontalFlip(1.0),
        "RandomVerticalFlip": lambda: transforms.RandomVerticalFlip(1.0),
        "Normalize": (lambda: transforms.Normalize(MEAN, STD)) if how == "tensor" else None,
        "Transpose": None if torch_like or how == "tensor" else lambda: transforms.Transpose(),
        "BrightnessTransform": lambda: (
            transforms.ColorJitter(0.4) if torch_like else transforms.BrightnessTransform(0.4)
        ),
        "ContrastTransform": lambda: (
            transforms.ColorJitter(0, 0.4) if torch_like else transforms.ContrastTransform(0.4)
        ),
        "SaturationTransform": lambda: (
            transforms.ColorJitter(0, 0, 0.4) if torch_like else transforms.SaturationTransform(0.4)
        ),
        "HueTransform": lambda: transforms.ColorJitter(0, 0, 0, 0.1) if torch_like else transforms.HueTransform(0.1),
        "ColorJitter": lambda: transforms.ColorJitter(0.4, 0.4, 0.4, 0.1),
        "RandomCrop": lambda: transforms.RandomCrop(224),
        "Pad": lambda: transforms.Pad(8),
        "RandomAffine": lambda: transforms.RandomAffine(15, (0.1, 0.1), (0.9, 1.1), 5, interpolation=bilinear),
        "RandomRotation": lambda: transforms.RandomRotation(15, interpolation=bilinear),
        "RandomPerspective": lambda: (
            transforms.RandomPerspective(0.3, 1.0, interpolation=bilinear)
            if torch_like
            else transforms.RandomPerspective(1.0, 0.3, interpolation=bilinear)
        ),
        "Grayscale": lambda: transforms.Grayscale(3),
        "RandomErasing": (lambda: transforms.RandomErasing(1.0)) if how == "tensor" else None,
    }
    for key, build in own.items():
        calls[key] = None if build is None else functools.partial(build(), image)
    return calls


def framework_named(name):
    if name == "paddle":
        import paddle

        return paddle
    import bireme

    return bireme


def read(value):
    """The pixels, computed: a tensor's numbers may still be pending."""
    if hasattr(value, "numpy"):
        return value.numpy()
    return value.load() if hasattr(value, "load") else value


def serve_transforms(name, kinds, by_cpu, seconds):
    calls = {how: functions_of(name, how) for how in kinds if not (how == "array" and name == "torchvision")}
    clock = time.process_time if by_cpu else time.perf_counter

    def answer(case, how):
        run = calls.get(how, {}).get(case)
        if run is None:
            return None
        np.random.seed(0)  # noqa: NPY002  # transforms draw from the global generators
        try:
            for _ in range(3):
                read(run())
        except (ImportError, TypeError, ValueError, RuntimeError, AttributeError, NotImplementedError):
            return None  # no such transform of this kind of image
        times, start = [], clock()
        while clock() - start < seconds or len(times) < 3:
            at = clock()
            read(run())
            times.append((clock() - at) * 1e3)
        return median(times)

    return answer


CASES = [
    "to_tensor", "resize", "pad", "crop", "center_crop", "hflip", "vflip", "adjust_brightness", "adjust_contrast",
    "adjust_saturation", "adjust_hue", "affine", "rotate", "perspective", "to_grayscale", "normalize", "erase",
    "ToTensor", "Resize", "RandomResizedCrop", "CenterCrop", "RandomHorizontalFlip", "RandomVerticalFlip",
    "Normalize", "Transpose", "BrightnessTransform", "ContrastTransform", "SaturationTransform", "HueTransform",
    "ColorJitter", "RandomCrop", "Pad", "RandomAffine", "RandomRotation", "RandomPerspective", "Grayscale",
    "RandomErasing",
]  # fmt: skip


def show_transforms(options, peers, floors):
    for name in options.peers:
        peers.start(name, serve_transforms, name, options.kinds, options.cpu, options.seconds)
    rows = []
    for how in options.kinds:
        for case in options.only:
            found = {name: [t for t in times if t is not None] for name, times in
                     peers.turns(options.rounds, case, how).items()}  # fmt: skip
            ours = found.get("bireme", [])
            others = [ratio(ours, found[n]) if found.get(n) and ours else np.nan for n in ("torchvision", "paddle")]
            if not ours:
                continue
            rows.append(
                (f"{how}, {case}", *[cell(median(found.get(n, [])), "{:.3f}") for n in NAMES], *map(cell, others))
            )
            floors.at_most(
                f"{how}, {case}: time / the better",
                np.nan if np.isnan(others).all() else float(np.nanmax(others)),
                MOST,
            )
    peers.report()
    table(("milliseconds", *NAMES.values(), "/torchvision", "/Paddle"), rows)


def show_pipeline(options, peers, floors):
    with tempfile.TemporaryDirectory() as folder:
        write(folder, options.images, *options.file)
        for name in options.peers:
            sizes = (options.batch, options.workers, options.size)
            peers.start(name, serve_pipeline, name, folder, *sizes, options.cpu, daemon=False)
        found = peers.turns(options.rounds)
        peers.report()
    ours = found.get("bireme", [])
    others = {n: ratio(ours, found[n]) for n in ("torchvision", "paddle") if found.get(n) and ours}
    unit = "ms of processors an image" if options.cpu else "ms an image"
    rows = [
        (NAMES[n], cell(median(ts), "{:.2f}"), spread(ts, "{:.2f}"), cell(1e3 / median(ts), "{:,.0f}"),
         cell(others.get(n, np.nan)))
        for n, ts in found.items()
    ]  # fmt: skip
    table(("reader", unit, "middle half", "images a second", "bireme / it"), rows)
    floors.at_most("time of an image / the better peer's", max(others.values(), default=np.nan), 1.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", choices=("pipeline", "transforms"), default="pipeline", help="(default pipeline)")
    parser.add_argument("--images", type=int, default=1024, help="files (default 1,024)")
    parser.add_argument("--file", type=int, nargs=2, default=(375, 500), help="height and width of them (375 500)")
    parser.add_argument("--size", type=int, default=224, help="height and width of an image of a batch (default 224)")
    parser.add_argument("--batch", type=int, default=32, help="images in a batch (default 32)")
    parser.add_argument("--workers", type=int, default=2, help="worker processes (default 2)")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each peer (default 7)")
    parser.add_argument("--seconds", type=float, default=0.2, help="of a turn of one transform (default 0.2)")
    parser.add_argument("--cpu", action="store_true", help="processor time of all processes in place of time")
    parser.add_argument("--only", nargs="+", choices=CASES, default=CASES, help="some of the transforms")
    kinds = ["Pillow", "array", "tensor"]
    parser.add_argument("--kinds", nargs="+", choices=kinds, default=kinds, help="kinds of images (default all)")
    parser.add_argument("--peers", nargs="+", choices=NAMES, default=list(NAMES), help="which peers (default all)")
    options = parser.parse_args()
    clock = "processor time" if options.cpu else "time"
    what = (
        f"{options.images} JPEG files of {options.file[0]} x {options.file[1]}, batch {options.batch}, {options.workers} workers"
        if options.what == "pipeline"
        else "transforms of an image of 256 x 256"
    )
    head(
        f"data pipeline: {what}, {clock}", f"peer      torchvision {version('torchvision')}, Pillow {version('pillow')}"
    )
    floors = Floors()
    with Peers() as peers:
        (show_pipeline if options.what == "pipeline" else show_transforms)(options, peers, floors)
    return floors.show()


if __name__ == "__main__":
    sys.exit(main())
