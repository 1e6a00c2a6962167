"""`bireme.base`: what code written for Paddle takes from its inner package does something here, or is not there."""

import importlib
import inspect

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
    with pytest.raises(
        core.EnforceNotMet, match=r"globals\(\)\['FLAGS_free_idle_chunk'\]: expected a flag that can be set"
    ):
        flags["FLAGS_free_idle_chunk"] = False


@pytest.mark.parametrize(
    ("name", "value"), [("FLAGS_use_stride_kernel", True), ("FLAGS_set_to_1d", False), ("FLAGS_enable_pir_api", False)]
)
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
    t = bireme.Tensor(
        value=np.ones(2, np.float32),
        place=base.CPUPlace(),
        persistable=True,
        zero_copy=False,
        name="mine",
        stop_gradient=False,
    )
    assert t.name == "mine" and t.persistable and not t.stop_gradient


@pytest.mark.parametrize("args, shape, dtype", [
    ((2, 3), [2, 3], "float32"), ((0,), [0], "float32"),
    (([1, 2],), [2], "float32"), (([True],), [1], "float32"), ((np.array([1, 2]),), [2], "int64"),
    ((bireme.to_tensor([1, 2]),), [2], "int64"), ((), [0], "float32"),
])  # fmt: skip
def test_a_tensor_made_by_its_class(args, shape, dtype):
    made = bireme.Tensor(*args)
    assert made.shape == shape and made.dtype == getattr(bireme, dtype) and made.stop_gradient


def test_a_tensor_made_by_keywords():
    assert bireme.Tensor(data=[1, 2]).tolist() == [1.0, 2.0] and bireme.Tensor(data=3).item() == 3.0
    assert bireme.Tensor(2, 3, device="cpu").shape == [2, 3]
    with pytest.raises(ValueError, match="non-negative sizes"):
        bireme.Tensor(-1)


def test_questions_of_older_code():
    x = bireme.to_tensor([[1.0, 2.0], [3.0, 4.0]], stop_gradient=False)
    row = x[1]
    assert (
        x._is_initialized()
        and x._numel() == 4
        and x._inplace_version() == 0
        and x.place._equals(framework._current_expected_place_())
    )
    assert row._is_shared_buffer_with(x) and not x.clone()._is_shared_buffer_with(x)
    assert row._offset() == 8 and x._slice(1, 2).tolist() == [[3.0, 4.0]] and x._place_str == "Place(cpu)"
    assert x._copy_to(base.CPUPlace(), True).stop_gradient
    assert x._grad_ivar() is None
    (x * 2).sum().backward()
    assert x._grad_ivar() is x.grad
    x._zero_grads()
    assert x.grad.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_the_tracer_tells_the_mode():
    tracer = framework._dygraph_tracer()
    with bireme.no_grad():
        assert tracer._has_grad is False
    assert tracer._has_grad is True and tracer._amp_level == "O0" and tracer._amp_dtype == "float32"
    with bireme.amp.auto_cast(dtype="bfloat16"):
        assert tracer._amp_level == "O1" and tracer._amp_dtype == "bfloat16"


def test_places_and_guards_by_their_old_names():
    assert framework.cpu_places(2) == [base.CPUPlace()] * 2 and len(base.cuda_places()) == core.get_cuda_device_count()
    with framework._dygraph_place_guard(base.CPUPlace()):
        assert framework._current_expected_place() == framework._get_paddle_place("cpu")
    with framework.flag_guard("FLAGS_check_nan_inf", True):
        assert framework._global_flags()["FLAGS_check_nan_inf"] is True
    assert framework._global_flags()["FLAGS_check_nan_inf"] is False
    assert framework.dygraph_only(lambda x: x + 1)(1) == 2


def test_hooks_after_a_gradient_and_after_a_pass():
    x = bireme.to_tensor([5.0], stop_gradient=False)
    seen = []
    x._register_backward_hook(lambda: seen.append(x.grad.item()))
    core.eager._add_backward_final_hook(lambda: seen.append("end"))
    core.eager.scale(x, 2.0, 1.0).backward()
    core.eager.run_backward([x * 3], [bireme.ones([1])], False)
    assert seen == [2.0, "end", 5.0]
    with pytest.raises(ValueError, match="expected a leaf Tensor that requires grad"):
        (x * 2)._register_backward_hook(lambda: None)


def test_a_tensor_under_the_methods_of_older_code():
    x, y = bireme.ones([2, 2]), bireme.zeros([3])
    x._bump_inplace_version()
    assert x.inplace_version == 1
    x._share_buffer_to(y)
    assert y.shape == [2, 2] and x._is_shared_underline_tensor_with(y)
    y[0] = 3.0
    assert x.tolist() == [[3.0, 3.0], [1.0, 1.0]] and x._md5sum() == y.clone()._md5sum()
    y._copy_gradient_from(x)
    assert y._grad_value().tolist() == x.tolist()
    assert x._to("cpu", "float64")._use_gpudnn(False).dtype is bireme.float64
    with pytest.raises(AssertionError, match=r"_to\(blocking\)"):
        x._to(blocking=1)
    y.grad.scale_(0.5)
    y._reset_grad_inplace_version(False)
    assert y.grad.inplace_version == 1
    y._reset_grad_inplace_version(True)
    assert y.grad.inplace_version == 0 and y.grad.tolist() == (x * 0.5).tolist()
    z = bireme.zeros([1])
    z.get_tensor()._share_data_with(x.get_tensor())
    assert z.tolist() == x.tolist()
    z._clear_data()
    assert not z._is_initialized()
    x._clear()
    assert not x._is_initialized() and bireme.ones([1]).type is core.VarDesc.VarType.DENSE_TENSOR


def test_parameters_by_shape():
    made = framework.EagerParamBase([2, 2], "float32", trainable=False, need_clip=False)
    assert isinstance(made, framework.EagerParamBase) and isinstance(made, bireme.Parameter) and made.stop_gradient
    assert isinstance(bireme.nn.Linear(1, 1).weight, framework.EagerParamBase) and not isinstance(
        bireme.ones([1]), framework.EagerParamBase
    )
    assert isinstance(made, framework.Variable) and made.shape == [2, 2]
    for shape, dtype in ((None, "float32"), ([1], None), ([-1], "float32")):
        with pytest.raises(ValueError, match=r"Parameter (should|must)"):
            framework.EagerParamBase(shape, dtype)


def test_what_is_given_to_the_class_of_parameters_every_parameter_has():
    framework.EagerParamBase.to = lambda self, dtype: bireme.Tensor._to(self, dtype=dtype)
    try:
        weight = bireme.nn.Linear(1, 1).weight
        assert weight.to("float64").dtype == bireme.float64 and framework.EagerParamBase.to is bireme.Parameter.to
        assert "to" in vars(bireme.Parameter)
    finally:
        del framework.EagerParamBase.to
    assert bireme.Parameter.to is bireme.Tensor.to and framework.EagerParamBase.numpy is bireme.Tensor.numpy


def test_a_tensor_made_in_paddles_own_order():
    data, place = np.ones((2, 3), np.float32), core.CPUPlace()
    made = core.eager.Tensor(data, place, True, False, "kept", False)
    assert made.persistable and made.name == "kept" and not made.stop_gradient and made.place == place
    assert core.eager.Tensor(value=made).persistable and core.eager.Tensor(made, place, "other").name == "other"
    made = core.eager.Tensor(core.VarDesc.VarType.FP32, [4, 5], "by shape", core.VarDesc.VarType.DENSE_TENSOR, True)
    assert made.persistable and made.name == "by shape" and made.shape == [4, 5]
    assert core.eager.Tensor(dtype="int64", dims=[2], name="x").dtype is bireme.int64
    with pytest.raises(TypeError, match="expected a value, a dtype, a place and stop_gradient, got 5 arguments"):
        bireme.Tensor(data, "float32", place, True, 3)
    made = bireme.zeros([4])
    made.copy_(bireme.ones([2, 2]))
    assert made.tolist() == [[1.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize("how", [{}, {"blocking": False}, {"non_blocking": True}])
def test_what_is_copied_into_a_tensor_by_keyword(how):
    made = bireme.zeros([2])
    assert made.copy_(other=bireme.ones([2]), **how) is made
    assert made.tolist() == [1.0, 1.0]
    with pytest.raises(
        TypeError, match=r"copy_\(waits\): expected a keyword among other, blocking, non_blocking, got 'waits'"
    ):
        made.copy_(made, waits=True)


def test_numbers_on_the_host():
    held = base.Tensor()
    held.set(np.arange(6).reshape(2, 3), base.CPUPlace())
    assert held.shape() == [2, 3] and held._dtype() is bireme.int64 and np.asarray(held[1]).tolist() == [3, 4, 5]
    assert (
        bireme.to_tensor(held).tolist() == [[0, 1, 2], [3, 4, 5]]
        and held._ptr() > 0
        and held._is_initialized()
        and "[2, 3]" in str(held)
    )
    weight = bireme.nn.Linear(2, 2).weight
    weight.value().get_tensor().set(np.zeros((2, 2), np.float32), base.CPUPlace())
    assert weight.tolist() == [[0.0, 0.0], [0.0, 0.0]] and core.from_dlpack(weight._to_dlpack()).shape == [2, 2]


def test_a_tensor_from_bytes():
    raw = bytearray(np.arange(4, dtype=np.float32).tobytes())
    x = core.frombuffer(raw, bireme.float32)
    raw[:] = bytes(16)
    assert x.tolist() == [0, 1, 2, 3] and x.stop_gradient
    whole = np.arange(4, dtype=np.float32)
    assert core.frombuffer(whole, bireme.float32, 2, 4).tolist() == [1, 2]
    assert core.frombuffer(b"\x80\x3f", bireme.bfloat16).item() == 1 and core.frombuffer(b"", bireme.int64).shape == [0]
    for wrong, said in [
        ((b"abc", "int16"), "a multiple of the itemsize 2, got 3"),
        ((b"ab", "int8", 3), "at most 2"),
        ((b"ab", "int8", 1, 3), r"an offset in \[0, 2\], got 3"),
    ]:
        with pytest.raises(ValueError, match=said):
            core.frombuffer(*wrong)
    with pytest.raises(TypeError, match="expected a bytes-like object"):
        core.frombuffer(5, "int8")


def test_batches_from_generators():
    with pytest.raises(ValueError, match="Please give value to capacity"):
        base.io.DataLoader.from_generator()
    loader = base.io.DataLoader.from_generator(capacity=2, use_multiprocess=True)
    with pytest.raises(AssertionError, match="expected a generator"):
        next(loader())
    loader.set_sample_generator(
        lambda: ((np.full(3, i, np.float32), i) for i in range(5)), batch_size=2, places=base.cpu_places()
    )
    for _ in range(2):
        batches = list(loader())
        assert [[x.shape, y.tolist()] for x, y in batches] == [[[2, 3], [0, 1]], [[2, 3], [2, 3]]]
    loader.set_batch_generator(lambda: iter([None]))
    with pytest.raises(ValueError, match="a generator of lists of arrays"):
        next(loader())
    old = base.io.PyReader(capacity=1)
    old.decorate_sample_list_generator(lambda: [[(1.0,), (2.0,)]])
    assert [x.tolist() for (x,) in old()] == [[1.0, 2.0]]
    old.decorate_sample_generator(lambda: [(1.0,)], batch_size=1)
    assert len(list(old)) == 1
    base.reader.use_pinned_memory(False)
    assert base.reader.use_pinned_memory() is False
    base.reader.use_pinned_memory(True)


def test_what_parameters_are_called():
    checker = base.unique_name.dygraph_parameter_name_checker
    with base.unique_name.guard():
        assert base.unique_name.dygraph_parameter_name_checker is not checker
        attr = bireme.ParamAttr(name="twice")
        bireme.nn.Linear(1, 1, attr)
        base.unique_name.dygraph_parameter_name_checker._name_set = set()
        assert bireme.nn.Linear(1, 1, attr).weight.name == "twice"


def test_limits_of_types():
    assert (
        bireme.finfo("complex64").dtype == "float32"
        and bireme.finfo("float32").resolution == 1e-6
        and bireme.finfo("bfloat16").resolution == 0.01
    )
    assert repr(bireme.iinfo("int8")) == "bireme.iinfo(min=-128, max=127, bits=8, dtype=int8)"
    assert repr(bireme.finfo("float32")).startswith(
        "bireme.finfo(min=-3.40282e+38, max=3.40282e+38, eps=1.19209e-07, resolution=1e-06"
    )


def test_decorators_keep_the_arguments_they_show():
    def named(a, b=1):
        return bireme.is_grad_enabled()

    for decorate in (
        bireme.base.dygraph.no_grad,
        bireme.no_grad(),
        bireme.enable_grad(),
        bireme.set_grad_enabled(True),
    ):
        assert inspect.getfullargspec(decorate(named)) == inspect.getfullargspec(named)
    assert bireme.base.dygraph.no_grad(named)(1) is False and bireme.no_grad()(named)(1) is False
    with bireme.base.dygraph.no_grad():
        assert not bireme.is_grad_enabled()
    with pytest.raises(AssertionError, match="the static mode"):
        framework.dygraph_not_support(named)(1)


def test_kernels_as_functions():
    kernels = bireme._C_ops
    assert len(dir(kernels)) > 300 and all(callable(getattr(kernels, name)) for name in dir(kernels))
    x = bireme.to_tensor([-1.0, 2.0])
    assert kernels.clip(x, 0.0, 1.0).tolist() == [0.0, 1.0] and kernels.sum(x, [0], None, False).item() == 1.0
    assert (
        kernels.full([2], 1.5, bireme.float32, bireme.CPUPlace()).tolist() == [1.5, 1.5]
        and kernels.scale_(x, 2.0, 1.0, True) is x
    )
    assert kernels.logcumsumexp(x, 0, False, True, False).tolist() == pytest.approx([bireme.finfo("float32").min, -1.0])
    y = bireme.to_tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    half = kernels.fft_r2c(y, [0, 1], "backward", True, True)
    assert np.allclose(kernels.fft_c2r(half, [0, 1], "backward", False, 3), y) and half.shape == [2, 2]
    assert kernels.prelu(-y, y, "NCHW", "element").tolist() == [[-1.0, -4.0, -9.0], [-16.0, -25.0, -36.0]]
    assert kernels.p_norm(y, 1.0, 0, 1e-12, True, False).tolist() == [[5.0, 7.0, 9.0]]
    assert kernels.logsumexp(x * 0).item() == pytest.approx(np.log(2)) and kernels.rint(y / 2).tolist() == [
        [0.0, 1.0, 2.0],
        [2.0, 2.0, 3.0],
    ]
    assert (
        kernels.shape(y).dtype is bireme.int32
        and kernels.qr(y, "r")[0].shape == [0]
        and kernels.qr(y, "r")[1].shape == [2, 3]
    )
    assert kernels.repeat_interleave(x, 2, 0, -1).shape == kernels.repeat_interleave(x, 2, 0, 4).shape == [4]
    found = [kernels.max_with_index(y, 0), kernels.min_with_index(y, 0, True), kernels.max_with_index(y, 0, True, True)]
    assert [[t.tolist() for t in pair] for pair in found] == [
        [[4.0, 5.0, 6.0], [1, 1, 1]],
        [[[1.0, 2.0, 3.0]], [[0, 0, 0]]],
        [[[6.0]], [[5]]],
    ]
    z = bireme.to_tensor([[4.0, 1.0, 3.0, 2.0], [1.0, float("nan"), 5.0, 7.0]])
    middles = {"median avg": [[2.5, np.nan], [[3, 2], [1, 1]]], "median min": [[2.0, np.nan], [3, 1]],
               "nanmedian avg": [[2.5, 5.0], [[3, 2], [2, 2]]], "nanmedian min": [[2.0, 5.0], [3, 2]]}  # fmt: skip
    for name, expected in middles.items():
        kernel, mode = getattr(kernels, name.split()[0]), name.split()[1]
        values, places = kernel(z, [1], False, mode)
        np.testing.assert_equal([values.numpy(), places.numpy()], list(map(np.array, expected)))
    assert [t.tolist() for t in kernels.median(y, [], True, "avg")] == [[[3.5]], [[[2, 3]]]]
    whole = kernels.swiglu_grad(y[:, :2], None, bireme.ones([2, 1]))
    halves = kernels.swiglu_grad(y[:, :1], y[:, 1:2], bireme.ones([2, 1]))
    y.stop_gradient = False
    kernels.swiglu(y[:, :2], None).sum().backward()
    assert (
        np.allclose(whole[0], y.grad[:, :2])
        and whole[1] is None
        and np.allclose(bireme.concat(halves, 1), y.grad[:, :2])
    )
    with pytest.raises(AttributeError, match="no_such"):
        _ = kernels.no_such


def test_kernels_in_their_oldest_form():
    kernels, x = bireme._legacy_C_ops, bireme.to_tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert kernels.reduce_sum(x, "dim", [1], "keep_dim", True).tolist() == [[6.0], [15.0]]
    assert kernels.matmul_v2(x, x, "trans_y", True).tolist() == bireme.matmul(x, x, transpose_y=True).tolist()
    assert kernels.mul(x, x.T).tolist() == bireme.matmul(x, x.T).tolist()
    out, mean, spread = kernels.instance_norm(x.reshape([1, 2, 3]), bireme.ones([2]), None, "epsilon", 0.0)
    assert (
        np.allclose(out, [[[-(1.5**0.5), 0.0, 1.5**0.5]] * 2])
        and mean.tolist() == [2.0, 5.0]
        and np.allclose(spread, 1.5**0.5)
    )
    assert kernels.scale_(x, "scale", 0.5) is x and x[0].tolist() == [0.5, 1.0, 1.5]
    p, g, v, rate = bireme.ones([1]), bireme.ones([1]), bireme.zeros([1]), bireme.to_tensor([0.5])
    kernels.momentum(p, g, v, rate, None, p, v, None, "mu", 0.9, "use_nesterov", True)
    assert np.allclose(p, 0.05) and v.item() == 1.0, "results are named after operands, and are the operands"
    with pytest.raises(TypeError, match="each followed by its value"):
        kernels.scale(x, "scale")
    with pytest.raises(AttributeError, match="no_such"):
        _ = kernels.no_such


def test_kernels_of_detection_in_their_oldest_form():
    kernels = bireme._legacy_C_ops
    sizes = ("anchor_sizes", [16.0, 40.0], "aspect_ratios", [0.5, 1.0], "stride", [8.0, 16.0], "offset", 0.5)
    anchors, variances = kernels.anchor_generator(bireme.zeros([1, 1, 1, 2]), *sizes)
    assert anchors.tolist() == [[[[-12.0, 4.0, 19.0, 11.0], [-36.0, -2.0, 43.0, 17.0], [-7.0, 2.5, 14.0, 12.5],
                                  [-23.5, -5.75, 30.5, 20.75]],
                                 [[-4.0, 4.0, 27.0, 11.0], [-28.0, -2.0, 51.0, 17.0], [1.0, 2.5, 22.0, 12.5],
                                  [-15.5, -5.75, 38.5, 20.75]]]]  # fmt: skip
    assert variances.shape == [1, 2, 4, 4] and np.allclose(variances[0, 1, 3], [0.1, 0.1, 0.2, 0.2])
    rois = bireme.to_tensor([[0.0, 0, 10, 10], [0, 0, 300, 300], [0, 0, 60, 60]])
    levels = ("min_level", 2, "max_level", 3, "refer_level", 2, "refer_scale", 40, "pixel_offset", False)
    count = bireme.to_tensor([3], dtype="int32")
    boxes, restore, counts = kernels.distribute_fpn_proposals(rois, count, 2, 2, *levels)
    assert [b.shape for b in boxes] == [[2, 4], [1, 4]] and restore.flatten().tolist() == [0, 2, 1]
    assert [n.tolist() for n in counts] == [[2], [1]]
    given = (
        bireme.to_tensor([[[0.0, 0, 10, 10], [0, 0, 9, 10], [20, 20, 30, 30]]]),
        bireme.to_tensor([[[0.9, 0.8, 0.7]]]),
    )
    limits = ("score_threshold", 0.1, "post_threshold", 0.05, "nms_top_k", 10, "keep_top_k", 5, "background_label", -1)
    out, index, number = kernels.matrix_nms(*given, *limits)
    assert np.allclose(out[:, 1], [0.9, 0.7, 0.08]) and index.flatten().tolist() == [0, 2, 1] and number.tolist() == [3]
    prior = kernels.box_coder(rois, None, rois, "code_type", "encode_center_size", "variance", [0.1, 0.1, 0.2, 0.2])
    assert np.allclose(prior, bireme.vision.ops.box_coder(rois, [0.1, 0.1, 0.2, 0.2], rois))
    with pytest.raises(
        ValueError, match="box_coder: expected what the operation takes, got the operation 'box_coder' with"
    ):
        kernels.box_coder(rois, None, rois, "zork", 1)


def test_kernels_of_networks():
    kernels, F = bireme._C_ops, bireme.nn.functional
    x = bireme.arange(32.0).reshape([1, 2, 4, 4])
    means = kernels.pool2d(x, [2, 2], [2, 2], [0, 0], False, True, "NCHW", "avg", False, False, "EXPLICIT")
    assert means.tolist() == F.avg_pool2d(x, 2).tolist()
    assert kernels.pool2d(
        x, [1, 1], [1, 1], [0, 0], False, True, "NCHW", "max", True, False, "EXPLICIT"
    ).flatten().tolist() == [15.0, 31.0]
    assert kernels.pool2d(x, [2, 2], [1, 1], [0, 0], False, True, "NHWC", "max", False, True, "EXPLICIT").shape == [
        1,
        2,
        2,
        4,
    ]
    w = bireme.ones([2, 1, 3, 3])
    assert kernels.conv2d_transpose(x, w, [2, 2], [1, 1], [], [8, 8], "EXPLICIT", 2, [1, 1], "NCHW").shape == [
        1,
        2,
        8,
        8,
    ]
    assert kernels.depthwise_conv2d(x, w, [1, 1], [0, 0], "SAME", 2, [1, 1], "NCHW").shape == [1, 2, 4, 4]
    grown = kernels.bilinear_interp(x, None, None, numbers(2.0), "NCHW", -1, -1, -1, [], "bilinear", False, 0)
    assert np.allclose(grown, F.interpolate(x, scale_factor=2, mode="bilinear"))
    loss, total = kernels.nll_loss(
        numbers(-1.0, -2.0).reshape([1, 2]), bireme.to_tensor([1]), numbers(1.0, 0.5), -100, "mean"
    )
    assert loss.item() == 2.0 and total.item() == 0.5
    label = numbers(1.0, -1.0)
    assert kernels.sigmoid_cross_entropy_with_logits(
        numbers(0.0, 5.0), label, None, True, -1
    ).tolist() == pytest.approx([np.log(2), 0.0])


def test_indexing_as_functions():
    index, x = importlib.import_module("bireme.base.variable_index"), bireme.zeros([2, 2])
    assert index._setitem_static(x, (0, slice(None)), 1.0) is x and index._getitem_static(
        x, (slice(None), 1)
    ).tolist() == [1.0, 0.0]


def test_kernels_of_shapes():
    kernels, x = bireme._C_ops, bireme.arange(24.0).reshape([2, 3, 4])
    assert kernels.slice(x, [1, 2], [1, 0], [2, 2], [1, 1], [1]).tolist() == [[4.0, 5.0], [16.0, 17.0]]
    changed = kernels.set_value_with_tensor(x, bireme.zeros([2, 4]), [1], [2], [1], [1], [1], [])
    assert changed[:, 1].sum().item() == 0.0 and changed[:, 0].tolist() == x[:, 0].tolist()
    assert kernels.set_value(x, [0], [1], [1], [0], [], [], [1], [7.0])[0].sum().item() == 84.0
    assert kernels.einsum([x, x], "ijk,ijk->i")[0].tolist() == (x * x).sum([1, 2]).tolist()
    places = [t.tolist() for t in kernels.unique(bireme.to_tensor([3, 1, 3]), False, False, False, [], "int64")]
    assert places == [[1, 3], [1, 0], [1, 0, 1], [1, 2]]
    assert kernels.index_add(bireme.zeros([3]), bireme.to_tensor([0, 2]), bireme.ones([2]), 0).tolist() == [
        1.0,
        0.0,
        1.0,
    ]
    out = bireme.zeros([2])
    assert kernels.assign_value_(
        out, [1, 2], bireme.float32, [1.0, 2.0], bireme.CPUPlace()
    ) is out and out.tolist() == [[1.0, 2.0]]
    unit, length = kernels.norm(bireme.to_tensor([[3.0, 4.0]]), 1, 0.0, False)
    assert length.item() == 5.0 and unit.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)]]
    assert kernels.segment_pool(bireme.to_tensor([1.0, 2.0, 4.0]), bireme.to_tensor([0, 0, 1]), "SUM").tolist() == [
        3.0,
        4.0,
    ]


def numbers(*values):
    return bireme.to_tensor(np.array(values, np.float32))


def test_kernels_of_older_layers():
    kernels, x = bireme._C_ops, bireme.arange(12.0).reshape([1, 4, 1, 3])
    assert kernels.affine_channel(x, numbers(1, 2, 3, 4), numbers(0, 1, 0, 1), "NCHW")[0, 1, 0].tolist() == [
        7.0,
        9.0,
        11.0,
    ]
    assert kernels.affine_channel_(x, numbers(1, 0, 2), numbers(0, 0, 1), "NHWC") is x and x[0, 0, 0].tolist() == [
        0.0,
        0.0,
        5.0,
    ]
    assert kernels.shuffle_channel(x, 2)[0, 1].tolist() == x[0, 2].tolist()
    places = kernels.add_position_encoding(bireme.ones([1, 2, 4]), 2.0, 1.0)[0, 1]
    assert places.tolist() == pytest.approx([2 + np.sin(1), 2.0001, 2 + np.cos(1), 3.0])
    assert kernels.partial_sum([numbers(1, 2, 3).reshape([1, 3])] * 2, -2, -1).tolist() == [[4.0, 6.0]]
    assert kernels.variance(numbers(1, 3), [], False).item() == 1.0 and kernels.shape64(x).tolist() == [1, 4, 1, 3]
    batch = numbers(0, 2, 4, 6).reshape([2, 1, 2])
    out, mean, spread, own, inverse, _ = kernels.batch_norm(
        batch, numbers(0), numbers(1), numbers(1), numbers(0), False, 0.5, 0.0, "NCHW", False, False
    )
    assert (mean.item(), spread.item(), own.item()) == (1.5, 3.0, 3.0) and inverse.item() == pytest.approx(5**-0.5)
    assert out.flatten().tolist() == pytest.approx([-3 / 5**0.5, -1 / 5**0.5, 1 / 5**0.5, 3 / 5**0.5])


def test_the_scale_of_a_loss():
    kernels, good, bad = bireme._C_ops, numbers(2, 4), numbers(1, np.inf)
    assert not kernels.check_finite_and_unscale_([good], numbers(2))[1].item() and good.tolist() == [1.0, 2.0]
    assert kernels.check_finite_and_unscale_([bad, good], numbers(2))[1].item() and good.tolist() == [0.0, 0.0]
    scale, steps, misses = numbers(8), bireme.to_tensor([1], dtype="int32"), bireme.to_tensor([0], dtype="int32")
    kernels.update_loss_scaling_([good], bireme.to_tensor([False]), scale, steps, misses, 2, 1, 2.0, 0.5)
    assert (scale.item(), steps.item()) == (16.0, 0)
    kernels.update_loss_scaling_([bad], bireme.to_tensor([True]), scale, steps, misses, 2, 1, 2.0, 0.5)
    assert (scale.item(), misses.item()) == (8.0, 0) and bad.tolist() == [0.0, 0.0]
    p, q, moments = numbers(1), numbers(2), [[numbers(0), numbers(0)] for _ in range(2)]
    pows = [[numbers(0.9), numbers(0.9)], [numbers(0.99), numbers(0.99)]]
    kernels.merged_adam_([p, q], [numbers(2), numbers(-2)], [numbers(0.1)], *moments, None, *pows, None, 0.9, 0.99)
    assert (p.item(), q.item()) == (pytest.approx(0.9), pytest.approx(2.1)) and pows[0][1].item() == pytest.approx(0.81)
    sums, counts = [numbers(1), numbers(2), numbers(9)], [bireme.to_tensor([n]) for n in (1, 0, 1)]
    kernels.average_accumulates_(numbers(4), *sums, *counts, 0.5, 10, 2)
    assert [t.item() for t in (*sums, *counts)] == [0.0, 0.0, 7.0, 0, 2, 2]
    assert kernels.cumsum_(p, 0, False, False, False) is p and kernels.silu_(numbers(0)).item() == 0.0


def test_steps_on_bare_tensors():
    kernels, rate = bireme._C_ops, numbers(0.1)
    p, v = numbers(1.0, 2.0), numbers(0.0, 1.0)
    kernels.momentum_(p, numbers(1.0, 1.0), v, rate, None, 0.5, True, "l2_decay", 1.0)
    assert v.tolist() == [2.0, 3.5] and p.tolist() == pytest.approx([0.7, 1.525])
    p, m, s, b1, b2 = numbers(1.0), numbers(0.0), numbers(0.0), numbers(0.9), numbers(0.99)
    assert len(kernels.adam_(p, numbers(2.0), rate, m, s, None, b1, b2, None, None, 0.9, 0.99)) == 7
    assert p.item() == pytest.approx(0.9) and (m.item(), s.item(), b1.item()) == (
        pytest.approx(0.2),
        pytest.approx(0.04),
        pytest.approx(0.81),
    )
    kernels.adamw_(
        p, numbers(2.0), rate, m, s, None, b1, b2, None, bireme.to_tensor([True]), 0.9, 0.99, with_decay=True
    )
    assert p.item() == pytest.approx(0.9) and b1.item() == pytest.approx(0.81)
    half, master = numbers(1.0).astype("float16"), numbers(1.0)
    kernels.sgd_(half, rate, numbers(0.001), master, True)
    assert master.item() == pytest.approx(0.9999) and half.dtype is bireme.float16
    p, a, b = numbers(1.0), numbers(1.0), numbers(1.0)
    g = numbers(1.0)
    steps = {
        kernels.adagrad_: (p, g, a, rate),
        kernels.adadelta_: (p, g, a, b, rate),
        kernels.adamax_: (p, g, rate, a, b, numbers(0.5)),
        kernels.rmsprop_: (p, a, g, b, rate, numbers(0.0), None, 1e-6, 0.9, 0.0, True),
        kernels.asgd_: (p, g, rate, a, b, numbers(2.0)),
        kernels.nadam_: (p, g, rate, numbers(0.9), numbers(0.9), numbers(0.9), a, b),
        kernels.radam_: (p, g, rate, numbers(0.9), numbers(0.9), numbers(1.0), a, b),
        kernels.lamb_: (p, g, rate, a, b, numbers(0.9), numbers(0.9)),
    }
    for step, args in steps.items():
        before = p.item()
        step(*args)
        assert p.item() < before
    p, m, s = numbers(3.0, 4.0), numbers(0.0, 0.0), numbers(0.0, 0.0)
    kernels.lamb_(p, numbers(2.0, 2.0), rate, m, s, numbers(0.9), numbers(0.99), None, None, 0.0, 0.9, 0.99, 0.0, True)
    assert p.tolist() == pytest.approx([3 - 0.1 * 5 / 2**0.5, 4 - 0.1 * 5 / 2**0.5]) and m.tolist() == pytest.approx(
        [0.2, 0.2]
    )
    p, rates = numbers(1.0, 1.0, 1.0), numbers(0.1, 0.1, 0.1)
    kernels.rprop_(
        p, numbers(1.0, -1.0, 0.0), numbers(1.0, 1.0, 1.0), rates, None, numbers(0.01, 0.11), numbers(0.5, 1.2)
    )
    assert rates.tolist() == pytest.approx([0.11, 0.05, 0.1]) and p.tolist() == pytest.approx([0.89, 1.0, 1.0])


def test_the_switch_of_primitive_operators_tells_how_it_stands():
    core.set_prim_eager_enabled(True)
    core._set_prim_all_enabled(True)
    core._set_prim_backward_enabled(False)
    assert (
        core._is_eager_prim_enabled()
        and core._is_fwd_prim_enabled()
        and not core._is_bwd_prim_enabled()
        and not core._is_all_prim_enabled()
    )
    core._set_prim_forward_enabled(False)
    core.set_prim_eager_enabled(False)
    assert not core._is_eager_prim_enabled() and not core._is_fwd_prim_enabled()
