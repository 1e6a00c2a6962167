"""Saving a model in the two files of Paddle's format."""

from __future__ import annotations

import json
import os

from bireme.core.base import errors
from bireme.core.program.program_model import Model
from bireme.files import binary_tensor
from bireme.files.atomic import replacing
from bireme.files.paddle_models.writing.rows import Writer


def save(model: Model, path: str | os.PathLike) -> None:
    """Write a model as Paddle does, so that ``paddle.jit.load`` and ``paddle.inference`` load it.

    Two files are written: the program, ``path + '.json'`` (version 3 of the format), and the parameters,
    ``path + '.pdiparams'``. Calls of public functions become operations of Paddle's; a function that has none is
    written as what it calls. Unknown sizes stay unknown.

    Args:
        model: A ``Model``: the graph of a layer, as ``jit.save`` captures it.
        path: Path without an ending.

    Raises:
        NotImplementedError: If a call has no form in the format. The message has the line of the call.

    Examples:
        >>> import tempfile
        >>> from bireme.files import paddle_models
        >>> from bireme.jit.saving import models_of
        >>> net = bireme.nn.Linear(2, 3)
        >>> model = models_of(net, [bireme.static.InputSpec([None, 2], "float32", "x")], "save")["forward"]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     paddle_models.save(model, folder + "/net")
        ...     again = paddle_models.load(folder + "/net")
        >>> x = bireme.ones([4, 2])
        >>> bool((again.run(x)[0] == net(x)).all())
        True
    """
    if not isinstance(model, Model):
        raise errors.bad("save(model)", "a Model", model, kind=errors.ArgumentTypeError)
    if not isinstance(path, (str, os.PathLike)) or not os.path.basename(os.fspath(path)):
        raise errors.bad("save(path)", "a path that ends in a name", path)
    stem = os.fsdecode(os.fspath(path))
    writer = Writer(model, "save(model)")
    program = json.dumps(writer.program(), separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    if writer.tensors:
        with replacing(stem + ".pdiparams") as file:
            for name in sorted(writer.tensors, key=lambda n: n.encode("utf-8", "surrogatepass")):
                binary_tensor.write(file, writer.tensors[name]._host())
    with replacing(stem + ".json") as file:
        file.write(program.encode())
