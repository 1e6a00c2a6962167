"""Runs models in an interpreter that has paddlepaddle: a line of stdin names a model, a file of inputs and one of outputs.

An answer is a line of JSON: {} or {"error": "..."}.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import paddle


def main() -> None:
    answers = sys.stdout
    sys.stdout = sys.stderr  # what the library prints is no answer
    loaded: dict = {}
    for line in sys.stdin:
        wanted = json.loads(line)
        try:
            path = wanted["model"]
            if path not in loaded:
                loaded.clear()
                loaded[path] = paddle.jit.load(path)
            with np.load(wanted["inputs"]) as given:
                made = loaded[path](*[paddle.to_tensor(given[f"x{i}"]) for i in range(len(given.files))])
            made = list(made) if isinstance(made, (list, tuple)) else [made]
            np.savez(wanted["outputs"], **{f"y{i}": _array(y) for i, y in enumerate(made)})
            answer = {}
        except Exception as e:  # noqa: BLE001  # whatever it raises is the answer
            answer = {"error": f"{type(e).__name__}: {e}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _array(y: paddle.Tensor) -> np.ndarray:
    return (y.astype("float32") if y.dtype == paddle.bfloat16 else y).numpy()


if __name__ == "__main__":
    main()
