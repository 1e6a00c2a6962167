"""Operations of `.pdmodel` files under the names of the table: slots are operands, some attributes have other names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bireme.core.base.errors import FileFormatError
from bireme.files.paddle_models.graph import Op
from bireme.files.paddle_models.kinds import IGNORED, KINDS
from bireme.files.paddle_models.known import Known
from bireme.files.paddle_models.program_desc import TYPES
from bireme.ops import reshape

# type = kind: slots as Slot>operand, of which later ones come first; attributes as name>parameter (nothing: left out);
# slots of results in their order (- for one that the type does not have). Without it: X, Y and Out are x, y and the result.
_ROWS = """
batch_norm = batch_norm: X>x Mean>mean Variance>variance Scale>scale Bias>bias; data_layout>data_format; Y
sync_batch_norm = batch_norm: X>x Mean>mean Variance>variance Scale>scale Bias>bias; data_layout>data_format; Y
conv2d = conv2d: Input>x Filter>filter; ; Output
depthwise_conv2d = depthwise_conv2d: Input>x Filter>filter; ; Output
conv3d = conv3d: Input>x Filter>filter; ; Output
conv2d_transpose = conv2d_transpose: Input>x Filter>filter; ; Output
depthwise_conv2d_transpose = depthwise_conv2d_transpose: Input>x Filter>filter; ; Output
conv3d_transpose = conv3d_transpose: Input>x Filter>filter; ; Output
trunc = trunc: X>input; ; Out
masked_fill = masked_fill: X>x Mask>mask Value>value; ; Out
swiglu = swiglu: x>x y>y; ; out
fractional_max_pool2d = fractional_max_pool2d: x>x; ; out mask
fractional_max_pool3d = fractional_max_pool3d: x>x; ; out mask
lp_pool2d = lp_pool2d: x>x; ; out
deformable_conv_v1 = deformable_conv: Input>x Offset>offset Filter>filter; ; Output
deformable_conv = deformable_conv: Input>x Offset>offset Filter>filter Mask>mask; ; Output
pool2d = pool2d: X>x; ksize>kernel_size; Out
pool3d = pool3d: X>x; ksize>kernel_size; Out
max_pool2d_with_index = max_pool2d_with_index: X>x; ksize>kernel_size; Out Mask
max_pool3d_with_index = max_pool3d_with_index: X>x; ksize>kernel_size; Out Mask
unpool = unpool: X>x Indices>indices; unpooling_type> paddings>padding; Out
layer_norm = layer_norm: X>x Scale>scale Bias>bias; ; Y
group_norm = group_norm: X>x Scale>scale Bias>bias; data_layout>data_format; Y
instance_norm = instance_norm: X>x Scale>scale Bias>bias; ; Y
norm = norm: X>x; ; Out Norm
spectral_norm = spectral_norm: Weight>weight U>u V>v; ; Out
bilinear_interp_v2 = bilinear_interp: X>x Scale>scale_tensor OutSize>out_size SizeTensor>size_tensor; data_layout>data_format; Out
nearest_interp_v2 = nearest_interp: X>x Scale>scale_tensor OutSize>out_size SizeTensor>size_tensor; data_layout>data_format; Out
bicubic_interp_v2 = bicubic_interp: X>x Scale>scale_tensor OutSize>out_size SizeTensor>size_tensor; data_layout>data_format; Out
linear_interp_v2 = linear_interp: X>x Scale>scale_tensor OutSize>out_size SizeTensor>size_tensor; data_layout>data_format; Out
trilinear_interp_v2 = trilinear_interp: X>x Scale>scale_tensor OutSize>out_size SizeTensor>size_tensor; data_layout>data_format; Out
bilinear_interp = bilinear_interp: X>x Scale>scale_tensor OutSize>out_size SizeTensor>size_tensor; data_layout>data_format; Out
nearest_interp = nearest_interp: X>x Scale>scale_tensor OutSize>out_size SizeTensor>size_tensor; data_layout>data_format; Out
elementwise_add = add
elementwise_sub = subtract
elementwise_mul = multiply
elementwise_div = divide
elementwise_max = maximum
elementwise_min = minimum
elementwise_fmax = fmax
elementwise_fmin = fmin
elementwise_pow = elementwise_pow
elementwise_floordiv = floor_divide
elementwise_mod = remainder
elementwise_heaviside = heaviside
hard_sigmoid = hardsigmoid
hard_swish = hardswish
hard_shrink = hardshrink
brelu = brelu
leaky_relu = leaky_relu: X>x; alpha>negative_slope; Out
softshrink = softshrink: X>x; lambda>threshold; Out
logsigmoid = logsigmoid
thresholded_relu = thresholded_relu
prelu = prelu: X>x Alpha>alpha; ; Out
swish = swish
relu6 = relu6: X>x; threshold>; Out
rrelu = rrelu
pow = pow: X>x FactorTensor>y; factor>y; Out
scale = scale: X>x ScaleTensor>scale; ; Out
clip = clip: X>x Min>min Max>max; ; Out
dropout = dropout: X>x Seed>seed_tensor; dropout_prob>p dropout_implementation>mode; Out Mask
cast = cast: X>x; in_dtype> out_dtype>dtype; Out
assign = assign
share_data = share_data
memcpy = assign: X>x; dst_place_type>; Out
print = assign: In>x; *>; Out
lookup_table = embedding: Ids>x W>weight; is_distributed> remote_prefetch> entry_config> entry> trainer_id> slot> table_names> epmap> height_sections> grad_inplace> table_class>; Out
lookup_table_v2 = embedding: Ids>x W>weight; is_distributed> remote_prefetch> entry_config> entry> trainer_id> slot> table_names> epmap> height_sections> grad_inplace> table_class>; Out
mul = mul
matmul = legacy_matmul: X>x Y>y; transpose_X>transpose_x transpose_Y>transpose_y head_number>; Out
matmul_v2 = matmul: X>x Y>y; trans_x>transpose_x trans_y>transpose_y; Out
mv = mv: X>x Vec>vec; ; Out
addmm = addmm: Input>input X>x Y>y; Alpha>alpha Beta>beta; Out
lerp = lerp: X>x Y>y Weight>weight; ; Out
bilinear_tensor_product = bilinear: X>x Y>y Weight>weight Bias>bias; ; Out
inverse = inverse: Input>x; ; Output
determinant = det: Input>x; ; Out
trace = trace: Input>x; ; Out
diagonal = diagonal: Input>x; ; Out
diag_v2 = diag
diag_embed = diag_embed: Input>input; ; Out
tril_triu = tril_triu
cross = cross: X>x Y>y; dim>axis; Out
dist = dist
reduce_sum = sum: X>x AxisTensor>axis; dim>axis keep_dim>keepdim in_dtype> out_dtype>; Out
reduce_mean = mean: X>x; dim>axis keep_dim>keepdim in_dtype> out_dtype>; Out
reduce_max = max: X>x AxisTensor>axis; dim>axis keep_dim>keepdim in_dtype> out_dtype>; Out
reduce_min = min: X>x AxisTensor>axis; dim>axis keep_dim>keepdim in_dtype> out_dtype>; Out
reduce_prod = prod: X>x AxisTensor>axis; dim>axis keep_dim>keepdim in_dtype> out_dtype>; Out
reduce_all = all: X>x; dim>axis keep_dim>keepdim in_dtype> out_dtype>; Out
reduce_any = any: X>x; dim>axis keep_dim>keepdim in_dtype> out_dtype>; Out
reduce_amax = amax: X>x; dim>axis keep_dim>keepdim in_dtype> out_dtype>; Out
reduce_amin = amin: X>x; dim>axis keep_dim>keepdim in_dtype> out_dtype>; Out
logsumexp = logsumexp: X>x; ; Out
frobenius_norm = frobenius_norm: X>x; dim>axis keep_dim>keepdim in_dtype> out_dtype>; Out
mean = mean_all
arg_max = argmax: X>x; ; Out
arg_min = argmin: X>x; ; Out
argsort = argsort: X>x; ; Out Indices
top_k_v2 = topk: X>x K>k; ; Out Indices
top_k = topk: X>x K>k; ; Out Indices
kthvalue = kthvalue: X>x; ; Out Indices
mode = mode: X>x; ; Out Indices
cumsum = cumsum: X>x AxisTensor>axis; ; Out
cumprod = cumprod: X>x; ; Out
size = numel: Input>x; ; Out
reshape2 = reshape: X>x Shape>shape ShapeTensor>shape; ; Out
reshape = reshape: X>x Shape>shape ShapeTensor>shape; ; Out
transpose2 = transpose: X>x; axis>perm; Out
transpose = transpose: X>x; axis>perm; Out
squeeze2 = squeeze: X>x; axes>axis; Out
squeeze = squeeze: X>x; axes>axis; Out
unsqueeze2 = unsqueeze: X>x AxesTensor>axis AxesTensorList>axis; axes>axis; Out
unsqueeze = unsqueeze: X>x AxesTensor>axis AxesTensorList>axis; axes>axis; Out
flatten_contiguous_range = flatten: X>x; ; Out
flatten2 = flatten2: X>x; ; Out
concat = concat: X>x AxisTensor>axis; ; Out
stack = stack: X>x; ; Y
split = split: X>x AxisTensor>axis SectionsTensorList>sections; ; Out
unstack = unstack: X>x; ; Y
unbind = unbind: X>input; ; Out
expand_v2 = expand: X>x Shape>shape expand_shapes_tensor>shape; ; Out
expand_as_v2 = expand_as: X>x Y>y; ; Out
tile = tile: X>x RepeatTimes>repeat_times repeat_times_tensor>repeat_times; ; Out
slice = slice: Input>input StartsTensor>starts EndsTensor>ends StartsTensorList>starts EndsTensorList>ends; ; Out
strided_slice = strided_slice: Input>x StartsTensor>starts EndsTensor>ends StridesTensor>strides StartsTensorList>starts EndsTensorList>ends StridesTensorList>strides; decrease_axis> infer_flags>; Out
set_value = set_value: Input>x ValueTensor>values StartsTensorList>starts EndsTensorList>ends StepsTensorList>steps; dtype> shape>shape bool_values> fp32_values> int32_values> int64_values> fp64_values> fp16_values>; Out
gather = gather: X>x Index>index Axis>axis; overwrite>; Out
gather_nd = gather_nd: X>x Index>index; ; Out
index_select = index_select: X>x Index>index; dim>axis; Out
index_sample = index_sample: X>x Index>index; ; Out
take_along_axis = take_along_axis: Input>arr Index>indices; Axis>axis; Result
put_along_axis = put_along_axis: Input>arr Index>indices Value>values; Axis>axis Reduce>reduce Include_self>include_self; Result
scatter = scatter: X>x Ids>index Updates>updates; ; Out
scatter_nd_add = scatter_nd_add: X>x Index>index Updates>updates; ; Out
masked_select = masked_select: X>x Mask>mask; ; Y
masked_fill = masked_fill: X>x Mask>mask Value>value; ; Out
where = where: Condition>condition X>x Y>y; ; Out
where_index = nonzero: Condition>x; ; Out
unique = unique: X>x; ; Out Indices Index Counts
one_hot_v2 = one_hot: X>x depth_tensor>num_classes; depth>num_classes dtype> allow_out_of_range>; Out
pad = pad: X>x; ; Out
pad3d = pad3d: X>x Paddings>paddings; value>pad_value; Out
pad2d = pad2d: X>x Paddings>paddings; ; Out
unfold = unfold: X>x; ; Y
fold = fold: X>x; ; Y
flip = flip: X>x; ; Out
roll = roll: X>x ShiftsTensor>shifts; ; Out
repeat_interleave = repeat_interleave: X>x; Repeats>repeats dim>axis; Out
meshgrid = meshgrid: X>inputs; ; Out
broadcast_tensors = broadcast_tensors: X>input; ; Out
multiplex = multiplex: X>inputs Ids>index; ; Out
range = arange: Start>start End>end Step>step; ; Out
linspace = linspace: Start>start Stop>stop Num>num; ; Out
eye = eye: ; ; Out
fill_any_like = full_like: X>x; ; Out
fill_zeros_like = full_like: X>x; ; Out
fill_constant_batch_size_like = full_batch_size_like: Input>input; str_value> force_cpu>; Out
gaussian_random = gaussian: ShapeTensor>shape ShapeTensorList>shape; ; Out
uniform_random = uniform: ShapeTensor>shape ShapeTensorList>shape; ; Out
randint = randint: ShapeTensor>shape ShapeTensorList>shape; ; Out
increment = increment: X>x; step>value; Out
sum = add_n: X>inputs; ; Out
einsum = einsum: Operands>x; ; Out
p_norm = p_norm
isfinite_v2 = isfinite
isinf_v2 = isinf
isnan_v2 = isnan
isclose = isclose: Input>x Other>y Rtol>rtol Atol>atol; ; Out
allclose = allclose: Input>x Other>y Rtol>rtol Atol>atol; ; Out
equal_all = equal_all
searchsorted = searchsorted: SortedSequence>sorted_sequence Values>values; ; Out
bincount = bincount: X>x Weights>weights; ; Out
histogram = histogram: X>input Weight>weight; ; Out
grid_sampler = grid_sample: X>x Grid>grid; ; Output
affine_grid = affine_grid: Theta>input OutputShape>output_shape; ; Output
label_smooth = label_smooth: X>label PriorDist>prior_dist; ; Out
sequence_mask = sequence_mask: X>x MaxLenTensor>max_len; maxlen>max_len out_dtype>dtype; Y
softmax_with_cross_entropy = cross_entropy_with_softmax: Logits>input Label>label; ; Softmax Loss
nll_loss = nll_loss: X>input Label>label Weight>weight; ; Out Total_weight
bce_loss = bce_loss: X>input Label>label; ; Out
sigmoid_cross_entropy_with_logits = sigmoid_cross_entropy_with_logits: X>x Label>label pos_weight>pos_weight; ; Out
kldiv_loss = kldiv_loss: X>x Target>label; ; Loss
huber_loss = huber_loss: X>input Y>label; ; Out Residual
log_loss = log_loss: Predicted>input Labels>label; ; Loss
warpctc = warpctc: Logits>logits Label>label LogitsLength>logits_length LabelLength>labels_length; ; Loss
fused_softmax_mask_upper_triangle = fused_softmax_mask_upper_triangle
rnn = rnn: Input>x PreState>pre_state WeightList>weight_list SequenceLength>sequence_length; ; Out DropoutState State Reserve
gru = gru: Input>input H0>h0 Weight>weight Bias>bias; ; - - - Hidden
crf_decoding = crf_decoding: Emission>emission Transition>transition Label>label Length>length; ; ViterbiPath
sequence_pool = sequence_pool: X>x; ; Out
multiclass_nms3 = multiclass_nms3: BBoxes>bboxes Scores>scores RoisNum>rois_num; ; Out Index NmsRoisNum
multiclass_nms2 = multiclass_nms3: BBoxes>bboxes Scores>scores RoisNum>rois_num; ; Out Index
multiclass_nms = multiclass_nms3: BBoxes>bboxes Scores>scores; ; Out
matrix_nms = matrix_nms: BBoxes>bboxes Scores>scores; ; Out Index RoisNum
roi_align = roi_align: X>x ROIs>boxes RoisNum>boxes_num; ; Out
roi_pool = roi_pool: X>x ROIs>boxes RoisNum>boxes_num; ; Out
yolo_box = yolo_box: X>x ImgSize>img_size; ; Boxes Scores
prior_box = prior_box: Input>input Image>image; ; Boxes Variances
box_coder = box_coder: PriorBox>prior_box PriorBoxVar>prior_box_var TargetBox>target_box; ; OutputBox
nms = nms: Boxes>x; iou_threshold>threshold; KeepBoxesIdxs
"""
_DROPPED = {
    "use_cudnn", "name", "data_layout", "data_format", "axis", "use_global_beta_pow", "output_size_tensor", "op_type",
    "inplace", "keep_dims", "is_training", "force_cpu", "is_distributed", "mkldnn_data_type", "padding_idx",
}  # fmt: skip
_FUSED_NUMBERS = {  # of fusions and quantization that other attributes would ask for
    "x_data_format", "y_data_format", "scale_x", "scale_y", "scale_out", "Scale_in", "Scale_out", "fuse_alpha", "fuse_beta", "fused_output_scale", "fused_scale",
    "fuse_brelu_threshold",
}  # fmt: skip
_UNCOUNTED = {"add", "subtract", "multiply", "divide", "maximum", "minimum", "elementwise_pow", "floor_divide", "remainder"}


class _Row:
    """How a type of operation is one of the table."""

    __slots__ = ("kind", "slots", "attrs", "results")

    def __init__(self, kind: str, slots: list[tuple[str, str]], attrs: dict[str, str], results: list[str]):
        self.kind, self.slots, self.attrs, self.results = kind, slots, attrs, results


def _parsed(line: str) -> tuple[str, _Row]:
    type_, _, rest = line.partition(" = ")
    kind, told, parts = rest.partition(":")
    if not told:
        return type_, _Row(kind, [("X", "x"), ("Y", "y")], {}, ["Out"])
    slots, attrs, results = parts.split(";")
    pairs = [word.split(">") for word in attrs.split()]
    return type_, _Row(
        kind, [tuple(word.split(">")) for word in slots.split()], {a: b for a, b in pairs}, results.split()
    )  # type: ignore[misc]


ROWS = dict([_parsed(line) for line in _ROWS.strip().split("\n")])


def operands(op: Op, value: Callable[[str], Any]) -> tuple[str, dict[str, Any]]:
    """The kind of an operation, and its operands and attributes by the names of the table."""
    row = ROWS.get(op.kind) or _Row(op.kind, [("X", "x"), ("Y", "y")], {}, ["Out"])
    name = row.kind
    found: dict[str, Any] = {}
    for slot, operand in row.slots:
        keys = [k for k in op.inputs.get(slot, []) if k != "@EMPTY@"]
        if keys:
            listed = len(keys) > 1 or _listed(name, operand, slot)
            found[operand] = [value(k) for k in keys] if listed else value(keys[0])
    name, given = _attributes(op, row, name, found)
    given.update(found)
    if name in KINDS:
        kind = KINDS[name]
        for operand in kind.operands:
            if operand not in given and operand in kind.parameters:
                given[operand] = [] if kind.modes.get(operand) == "list" else None
        _adapt(op, name, given)
        given = {n: x for n, x in given.items() if x is not None or n in kind.required}
    return name, given


def _listed(name: str, operand: str, slot: str) -> bool:
    kind = KINDS.get(name)
    if kind is None:
        return False
    mode = kind.modes.get(operand)
    return mode == "list" or (mode == "ints" and ("List" in slot or slot in ("ShapeTensor", "SizeTensor")
                              or slot.endswith("_tensor")))  # fmt: skip


def _attributes(op: Op, row: _Row, name: str, found: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Attributes under the names of the table; a type that is several kinds is one of them by its attributes."""
    attrs = dict(op.attrs)
    if op.kind == "split" and attrs.get("num") and not found.get("sections") and not attrs.get("sections"):
        name = "split_with_num"
        attrs.pop("sections", None)
    elif op.kind == "split":
        attrs.pop("num", None)
    if op.kind == "tril_triu":
        name = "tril" if attrs.pop("lower", True) else "triu"
    if op.kind == "set_value":
        name = "set_value_with_tensor" if "values" in found else "set_value"
        if name == "set_value_with_tensor":
            attrs = {n: x for n, x in attrs.items() if n not in ("shape", "values")}
        if name == "set_value" and "values" not in attrs:
            plain = [attrs[n] for n in attrs if n.endswith("_values") and attrs[n]]
            attrs["values"] = plain[0] if plain else []
    if op.kind == "unique":
        attrs.pop("is_sorted", None)
    kind = KINDS.get(name)
    given: dict[str, Any] = {}
    for key, x in attrs.items():
        if row.attrs.get("*") == "":
            continue
        target = row.attrs.get(key, key)
        if not target or (kind is not None and target not in kind.parameters and _harmless(op, target, x)):
            continue
        if target == "dtype" and isinstance(x, int):
            if x != -1 and x not in TYPES:
                raise FileFormatError(f"the operation {op.kind[:60]!r} with the dtype {x}")
            x = TYPES.get(x)
            if x is None:
                continue
        given[target] = x
    return name, given


def _harmless(op: Op, name: str, x: Any) -> bool:
    """Whether an attribute can be left out: it says how to compute, or says nothing."""
    if name in IGNORED or name in _DROPPED or name.startswith(("op_", "Scale_", "use_", "__")):
        return True
    if name.startswith(("fuse", "Scale", "scale_", "Shift")) and not x:
        return True
    return name in _FUSED_NUMBERS


def _adapt(op: Op, name: str, given: dict[str, Any]) -> None:
    """What the older form has another way of saying."""
    axis = op.attrs.get("axis", -1)
    if name in _UNCOUNTED and op.kind.startswith("elementwise_") and isinstance(axis, int) and axis >= 0:
        # the axes of y are those of x from `axis` on
        x, y = given.get("x"), given.get("y")
        more = getattr(x, "ndim", 0) - axis - getattr(y, "ndim", 0)
        if not isinstance(x, Known) and not isinstance(y, Known) and y is not None and y.ndim and more > 0:
            given["y"] = reshape(y, [*y.shape, *[1] * more])
    if op.kind == "lookup_table" and given["x"].ndim > 1:
        given["x"] = reshape(given["x"], given["x"].shape[:-1])
    if op.kind == "top_k":
        given.setdefault("axis", -1)
    if name == "batch_norm" and given.get("use_global_stats") is None:
        given.pop("use_global_stats", None)
    if op.kind in ("bilinear_interp", "nearest_interp", "bilinear_interp_v2", "nearest_interp_v2", "bicubic_interp_v2",
                   "linear_interp_v2", "trilinear_interp_v2"):  # fmt: skip
        for size in ("out_d", "out_h", "out_w"):
            given.setdefault(size, -1)
        scale = given.get("scale")
        if isinstance(scale, float):
            given["scale"] = [scale] * (given["x"].ndim - 2) if scale > 0 else []
        given["size_tensor"] = given.get("size_tensor") or None
        given.setdefault("scale_tensor", None)
        given.setdefault("out_size", None)
        given.setdefault("data_format", "NCHW")
        given.setdefault("align_mode", 1)
        given.setdefault("scale", [])
    if op.kind in ("fill_zeros_like",):
        given["value"] = 0
    if name.startswith("conv") and name.endswith("transpose") and not given.get("output_size"):
        given["output_size"] = []
    if op.kind in ("max_pool2d_with_index", "max_pool3d_with_index"):
        given.setdefault("ceil_mode", False)
    if name == "rnn":
        given["dropout_state_in"] = None


def bind(op: Op, name: str, results: tuple, scope: dict[str, Any]) -> None:
    """Give results their names."""
    row = ROWS.get(op.kind) or _Row(op.kind, [], {}, ["Out"])
    for slot, made in zip(row.results, results, strict=False):
        keys = op.outputs.get(slot, [])
        if not keys or made is None:
            continue
        if isinstance(made, list):
            if len(made) != len(keys):
                raise FileFormatError(f"the operation {op.kind[:60]!r} with {len(made)} results where it has {len(keys)}")
            scope.update(zip(keys, made, strict=True))
        else:
            scope[keys[0]] = made


def fill_constant(work: Any, op: Op, scope: dict[str, Any], constant: Callable) -> None:
    """A constant, whose shape and number may be values."""
    out = op.outputs.get("Out", [])
    if len(out) != 1:
        raise FileFormatError("a constant without a result")
    code = op.attrs.get("dtype", 5)
    if code not in TYPES:
        raise FileFormatError(f"a constant of unknown dtype {code}")
    text, value = op.attrs.get("str_value", ""), op.attrs.get("value", 0.0)
    if isinstance(text, str) and text:
        try:
            value = int(text) if text.lstrip("-").isdigit() else float(text)
        except ValueError:
            raise FileFormatError(f"the constant {text[:60]!r}") from None
    shape: Any = op.attrs.get("shape", [])
    for slot in ("ShapeTensor", "ShapeTensorList"):
        keys = op.inputs.get(slot, [])
        if keys:
            found = [work.value(scope, k) for k in keys]
            shape = work.fitted(found if slot == "ShapeTensorList" else found[0], "ints")
    given = [work.value(scope, k) for k in op.inputs.get("ValueTensor", [])]
    if given or not (isinstance(shape, list) and all(type(n) is int for n in shape)):
        filled = work.fitted(given[0], "number") if given else value
        scope[out[0]] = KINDS["full_with_tensor"].call(filled, shape, TYPES[code])
    else:
        scope[out[0]] = constant(shape, value, TYPES[code])


def assign_value(op: Op, scope: dict[str, Any], numbers: Callable) -> None:
    """Numbers that stand in the program, in one of several attributes."""
    out, code = op.outputs.get("Out", []), op.attrs.get("dtype", 5)
    if len(out) != 1 or code not in TYPES:
        raise FileFormatError("numbers without a result or a dtype")
    values = op.attrs.get("values")
    if not values:
        found = [x for n, x in op.attrs.items() if n.endswith("_values") and x]
        values = found[0] if found else []
    scope[out[0]] = numbers(op.attrs.get("shape", []), values, TYPES[code])
