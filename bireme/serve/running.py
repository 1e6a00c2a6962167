"""A saved model as a function of arrays by name, with what its inputs and outputs are like."""

from __future__ import annotations

from bireme.inference import Config, create_predictor
from bireme.inference.saved import model_of, program_of, sketches
from bireme.serve.batching import Arrays


class Runner:
    """A loaded model; one thread at a time runs it."""

    def __init__(self, path: str):
        self.inputs, self.outputs = sketches(model_of(path))
        self._predictor = create_predictor(Config(program_of(path)))

    @property
    def open_rows(self) -> bool:
        """Whether every input and output has a first size that is open."""
        sketched = [*self.inputs.values(), *self.outputs.values()]
        return bool(self.inputs) and all(shape[:1] == [-1] for _, shape in sketched)

    def run(self, inputs: Arrays) -> Arrays:
        """Outputs by name."""
        predictor = self._predictor
        for name in self.inputs:
            predictor.get_input_handle(name).copy_from_cpu(inputs[name])
        predictor.run()
        return {name: predictor.get_output_handle(name).copy_to_cpu() for name in self.outputs}
