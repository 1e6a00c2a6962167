"""The network of `benchmarks.serving` behind BentoML, which gathers batches of its own: started there, by `bentoml serve`."""

import os

import bentoml
import numpy as np

MODEL = "BIREME_BENCHMARK_MODEL"  # names the saved network
MOST = 32  # rows of a batch, as `bireme serve` has them by default
MILLISECONDS = 60_000  # what it expects to take longer it refuses


@bentoml.service(workers=1, traffic={"timeout": 60})
class Net:
    def __init__(self):
        from bireme import inference

        self.predictor = inference.create_predictor(inference.Config(os.environ[MODEL]))

    @bentoml.api(batchable=True, max_batch_size=MOST, max_latency_ms=MILLISECONDS)
    def infer(self, x: np.ndarray) -> np.ndarray:
        handle = self.predictor.get_input_handle("x")
        handle.copy_from_cpu(np.ascontiguousarray(x, "float32"))
        self.predictor.run()
        return self.predictor.get_output_handle(self.predictor.get_output_names()[0]).copy_to_cpu()
