"""Rows of bilinear maps, dropouts, unflattening and dicts of parameters."""

import numpy as np

import bireme
from tests.table.harness import Bad, call
from tests.table.layer_harness import LayerRow

_rng = np.random.default_rng(4)


class Scaled(bireme.nn.Layer):
    """Holds its parameters in a dict."""

    def __init__(self):
        super().__init__()
        self.held = bireme.nn.ParameterDict({"scale": self.create_parameter([4])})
        self.held.update([("shift", self.create_parameter([4], is_bias=True))])

    def forward(self, x):
        return x * self.held["scale"] + self.held["shift"]


LAYERS = [
    LayerRow("Bilinear", call(3, 4, 2), [call(_rng.standard_normal((5, 3)), _rng.standard_normal((5, 4)))], {"weight": (2, 3, 4), "bias": (1, 2)},
        lambda x, y, weight, bias: np.einsum("bi,kij,bj->bk", x, weight, y) + bias,
        bad=[Bad(call(np.ones((5, 2)), np.ones((5, 4))), "bilinear(weight): expected shape [any, 2, 4], got shape [2, 3, 4]")]),
    LayerRow("Dropout2D", call(0.5), [(2, 3, 2, 2), (0, 3, 2, 2)], ref=lambda x: x, modes=("eval",),
        bad=[Bad(call(np.ones((2, 3))), "dropout2d(x): expected a 4-D tensor, got shape [2, 3]")]),
    LayerRow("Dropout3D", call(0.5), [(2, 3, 2, 1, 2)], ref=lambda x: x, modes=("eval",)),
    LayerRow("AlphaDropout", call(0.5), [(3, 4), (0, 4)], ref=lambda x: x, modes=("eval",)),
    LayerRow("FeatureAlphaDropout", call(0.5), [(3, 4, 2), (0, 4)], ref=lambda x: x, modes=("eval",)),
    LayerRow("Unflatten", call(1, [2, -1]), [(3, 4), (0, 4), (2, 6, 2)], ref=lambda x: x.reshape(x.shape[0], 2, x.shape[1] // 2, *x.shape[2:])),
    LayerRow("ParameterDict", make=Scaled, inputs=[(3, 4)], params={"held.scale": (4,), "held.shift": (4,)},
        ref=lambda x, held_scale, held_shift: x * held_scale + held_shift,
        bad=[Bad(call(np.ones((3, 5))), "multiply(): expected shapes that broadcast together, got shapes [3, 5] and [4]")]),
]  # fmt: skip
