"""Networks as graphs: dynamic code, the captured graph, a static program and the saved one compute the same."""

import pytest

from tools import exports_table

SAMPLE = ("LeNet", "shufflenet_v2_x0_25", "lstm", "bert", "gpt", "seq2seq_beam", "unet", "llama")


@pytest.mark.parametrize("name", exports_table.networks())
def test_network(name, tmp_path, full):
    if not full and name not in SAMPLE:
        pytest.skip("one of the networks that make test-all exports")
    found = exports_table.row(name, list(exports_table.FORMS), tmp_path)
    assert {kind: x for kind, x in found.items() if isinstance(x, str) or x > 1e-5} == {}
