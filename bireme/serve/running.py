"""A saved model as a function of arrays by name, with what its inputs and outputs are like."""

from __future__ import annotations

import numpy as np

from bireme.core.base import device as devices
from bireme.core.base import errors
from bireme.inference import Config
from bireme.inference.executables import Executables, as_array
from bireme.inference.executors import of_config
from bireme.inference.saved import program_of, sketches
from bireme.serve.batching import Arrays
from bireme.serve.protocol import NAMES


class Runner:
    """A loaded model; one thread at a time runs it."""

    def __init__(self, path: str, device: str | None = None):
        config = Config(program_of(path))
        chosen = devices.parse(device, "Repository(device)") if device is not None else devices.current()
        if chosen.kind == "gpu":
            config.enable_use_gpu(0, chosen.index)
        elif not chosen.is_cpu:
            config.enable_custom_device(chosen.kind, chosen.index)
        self._shared, _ = of_config(config)
        self.inputs, self.outputs = sketches(self._shared.model)
        for name, (dtype, _) in [*self.inputs.items(), *self.outputs.items()]:
            if dtype not in NAMES:
                known = ", ".join(NAMES.values())
                raise errors.bad(f"a served model ({name})", f"a tensor of one of {known}", described=str(dtype))

    @property
    def open_rows(self) -> bool:
        """Whether every input and output has a first size that is open."""
        sketched = [*self.inputs.values(), *self.outputs.values()]
        return bool(self.inputs) and all(shape[:1] == [-1] for _, shape in sketched)

    def run(self, inputs: Arrays) -> Arrays:
        """Outputs by name."""
        made = self._shared.run([inputs[name] for name in self.inputs], to_host=True)
        return {name: as_array(x) for name, x in zip(self.outputs, made, strict=True)}

    def prepare(self, sizes: list[int]) -> None:
        """Compile for batches of these many rows, where nothing else is open."""
        if self.open_rows and all(-1 not in shape[1:] for _, shape in self.inputs.values()):
            assert isinstance(self._shared, Executables)  # no other executor was asked for
            for n in sizes:
                self._shared.prepare([np.zeros([n, *shape[1:]], dtype) for dtype, shape in self.inputs.values()])
