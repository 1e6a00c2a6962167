"""`bireme.base`: what code written for Paddle takes from its inner package does something here, or is not there."""

import numpy as np
import pytest

import bireme
from bireme import base
from bireme.base import core, data_feeder, dygraph, framework


def test_guard_makes_tensors_on_its_place_and_restores():
    before = bireme.get_device()
    with dygraph.guard(base.CPUPlace()):
        assert bireme.ones([1]).place == base.CPUPlace()
    with dygraph.guard():
        assert dygraph.enabled() and base.in_dygraph_mode()
    assert bireme.get_device() == before
    with pytest.raises(ValueError, match=r"guard\(place\): expected a device"), dygraph.guard("nowhere"):
        pass


def test_disable_static_takes_a_place():
    bireme.disable_static(bireme.CPUPlace())
    assert bireme.in_dynamic_mode() and bireme.get_device() == "cpu"
    with pytest.raises(ValueError, match="expected a device"):
        bireme.disable_static("nowhere")


def test_types_by_their_old_names():
    assert core.VarDesc.VarType.FP32 is core.DataType.FLOAT32 is bireme.float32
    assert bireme.zeros([1], core.VarDesc.VarType.BF16).dtype is bireme.bfloat16
    assert core.size_of_dtype(core.VarDesc.VarType.INT64) == 8


def test_flags_as_a_mapping():
    flags = core.globals()
    assert "FLAGS_check_nan_inf" in flags and "FLAGS_no_such" not in flags
    assert flags.get("FLAGS_no_such", 5) == 5
    flags["FLAGS_check_nan_inf"] = False
    assert flags["FLAGS_check_nan_inf"] is False


@pytest.mark.parametrize(("name", "value"), [("FLAGS_use_stride_kernel", True), ("FLAGS_set_to_1d", False), ("FLAGS_enable_pir_api", False)])
def test_a_flag_with_one_position(name, value):
    assert bireme.get_flags(name) == {name: value}
    bireme.set_flags({name: value})
    with pytest.raises(ValueError, match=rf"set_flags\({name}\): expected {value}"):
        bireme.set_flags({name: not value})


def test_checks_of_types():
    data_feeder.check_variable_and_dtype(bireme.ones([1]), "x", ["float32"], "tanh")
    with pytest.raises(TypeError, match=r"tanh\(x\): expected Tensor, got 1"):
        data_feeder.check_variable_and_dtype(1, "x", ["float32"], "tanh")
    with pytest.raises(TypeError, match=r"tanh\(x\): expected int32 or int64, got float32"):
        data_feeder.check_dtype(bireme.float32, "x", ("int32", "int64"), "tanh")


def test_bfloat16_as_bits():
    x = np.array([[1.0, -2.5], [3.0, 0.0]], np.float32)
    bits = data_feeder.convert_float_to_uint16(x)
    assert bits.dtype == np.uint16 and bireme.to_tensor(bits).dtype is bireme.bfloat16
    assert data_feeder.convert_uint16_to_float(bits).tolist() == x.tolist()
    assert data_feeder.convert_uint16_to_float(bireme.to_tensor(bits).numpy()).tolist() == x.tolist()


def test_a_tensor_made_as_paddle_makes_one():
    t = core.eager.Tensor(np.ones(2, np.float32), base.CPUPlace())
    assert t.tolist() == [1.0, 1.0] and t.stop_gradient
    t = bireme.Tensor(value=np.ones(2, np.float32), place=base.CPUPlace(), persistable=True, zero_copy=False, name="mine", stop_gradient=False)
    assert t.name == "mine" and t.persistable and not t.stop_gradient


def test_questions_of_older_code():
    x = bireme.to_tensor([[1.0, 2.0], [3.0, 4.0]], stop_gradient=False)
    row = x[1]
    assert x._is_initialized() and x._numel() == 4 and x._inplace_version() == 0 and x.place._equals(framework._current_expected_place_())
    assert row._is_shared_buffer_with(x) and not x.clone()._is_shared_buffer_with(x)
    assert row._offset() == 8 and x._slice(1, 2).tolist() == [[3.0, 4.0]] and x._place_str == "Place(cpu)"
    assert x._copy_to(base.CPUPlace(), True).stop_gradient
    assert x._grad_ivar() is None
    (x * 2).sum().backward()
    assert x._grad_ivar() is x.grad
    x._zero_grads()
    assert x.grad.tolist() == [[0.0, 0.0], [0.0, 0.0]]
