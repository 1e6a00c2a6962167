"""What importing costs: a part of the package at most 50 ms of the processor, whether `import bireme` loads it or not."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST, SHARE = 0.050, 0.042  # seconds, and of the time of `import bireme`, on a machine that is slower
ENGINE = {"bireme", "bireme.core", "bireme.ops"}
SETUPTOOLS = {"bireme.utils.cpp_extension.packaging"}  # a command of setuptools, whose import it is that takes long

# Prints the seconds of `import bireme`, those of its parts, and of each module that it leaves alone. A module of another
# package counts for the part that imported it first.
SCRIPT = """
import collections, gc, importlib, importlib.machinery, json, pkgutil, sys, time

spent, inner = collections.Counter(), [["", 0.0]]

class Timed:
    def find_spec(self, name, path=None, target=None):
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            run = spec.loader.exec_module
            def exec_module(module):
                part = ".".join(name.split(".")[:2]) if name.startswith("bireme") else inner[-1][0]
                start = time.process_time()
                inner.append([part, 0.0])
                try:
                    run(module)
                finally:
                    took = time.process_time() - start
                    spent[part] += took - inner.pop()[1]
                    inner[-1][1] += took
            spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Timed())
before = gc.get_threshold()
start = time.process_time()
import bireme
whole, parts, others = time.process_time() - start, dict(spent), {}
assert gc.isenabled() and gc.get_threshold() == before, gc.get_threshold()
slow = {"scipy.special", "scipy.linalg", "scipy.sparse", "setuptools", "onnx", "sklearn", "PIL", "cv2", "torch"}
slow.add("jax.experimental.pallas")
assert not slow & set(sys.modules), slow & set(sys.modules)
for found in pkgutil.walk_packages(bireme.__path__, "bireme."):
    name = found.name
    if name not in sys.modules and not any(word.startswith("_") for word in name.split(".")):
        start = time.process_time()
        try:
            importlib.import_module(name)
        except ImportError:
            continue  # it needs a package that is not there
        others[name] = time.process_time() - start
print(json.dumps([whole, parts, others]))
"""


def seconds():
    env = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def slow(found):
    whole, parts, others = found
    most = max(MOST, SHARE * whole)
    return {
        n: round(s, 3)
        for n, s in (parts | others).items()
        if s > most and n not in ENGINE | SETUPTOOLS and n.startswith("bireme")
    }


def test_no_part_takes_long_to_import():
    whole, parts, others = seconds()  # it also writes bytecode, which is read from here on: see conftest
    assert len(parts) > 40 and whole > 0 and "bireme.distributed" in parts | others
    tries = []
    for _ in range(3):  # another process may disturb one of them, or two
        tries.append(slow(seconds()))
        if not tries[-1]:
            return
    always = set.intersection(*map(set, tries))
    assert not always, {name: [found[name] for found in tries] for name in always}
