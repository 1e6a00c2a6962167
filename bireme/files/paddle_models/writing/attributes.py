"""Attributes of each kind of operation, in order: a name, the type, and the value where a call gives none.

Types: i and l integers of 32 and 64 bits, f and d floats of these, b bool, s str, twice for a list; ints, dtype, place.
"""

from __future__ import annotations

from typing import Any

_TEXT = """
addmm beta:f=1.0 alpha:f=1.0
affine_grid align_corners:b=true
all axis:ll keepdim:b=false
allclose equal_nan:b=false
amax axis:ll keepdim:b=false
amin axis:ll keepdim:b=false
any axis:ll keepdim:b=false
arange dtype:dtype place:place=cpu
argmax keepdims:b flatten:b dtype:dtype
argmin keepdims:b flatten:b dtype:dtype
argsort axis:i descending:b stable:b
array_to_tensor axis:i use_stack:b
batch_norm_ is_test:b=true momentum:f epsilon:f data_format:s use_global_stats:b=true trainable_statistics:b=false
bicubic_interp data_format:s out_d:i out_h:i out_w:i scale:ff interp_method:s align_corners:b align_mode:i
bilinear_interp data_format:s out_d:i out_h:i out_w:i scale:ff interp_method:s align_corners:b align_mode:i
linear_interp data_format:s out_d:i out_h:i out_w:i scale:ff interp_method:s align_corners:b align_mode:i
nearest_interp data_format:s out_d:i out_h:i out_w:i scale:ff interp_method:s align_corners:b align_mode:i
trilinear_interp data_format:s out_d:i out_h:i out_w:i scale:ff interp_method:s align_corners:b align_mode:i
box_coder code_type:s box_normalized:b axis:i variance:ff
bitwise_left_shift is_arithmetic:b
bitwise_right_shift is_arithmetic:b
cast dtype:dtype
celu alpha:f
channel_shuffle groups:i data_format:s
cholesky upper:b
conv2d strides:ii paddings:ii padding_algorithm:s dilations:ii groups:i data_format:s
depthwise_conv2d strides:ii paddings:ii padding_algorithm:s groups:i dilations:ii data_format:s
conv3d strides:ii paddings:ii padding_algorithm:s groups:i dilations:ii data_format:s
conv2d_transpose strides:ii paddings:ii output_padding:ii padding_algorithm:s groups:i dilations:ii data_format:s
depthwise_conv2d_transpose strides:ii paddings:ii output_padding:ii padding_algorithm:s groups:i dilations:ii
  data_format:s
conv3d_transpose strides:ii paddings:ii output_padding:ii output_size:ii padding_algorithm:s groups:i dilations:ii
  data_format:s
create_array dtype:dtype
cross axis:i
cross_entropy_with_softmax soft_label:b use_softmax:b=true numeric_stable_mode:b=true ignore_index:i axis:i
cummax axis:i dtype:dtype
cummin axis:i dtype:dtype
cumprod dim:i exclusive:b=false reverse:b=false
cumsum flatten:b exclusive:b=false reverse:b=false
data name:s shape:ints dtype:dtype place:place=none
deformable_conv strides:ii paddings:ii dilations:ii deformable_groups:i groups:i im2col_step:i=1
diag offset:i padding_value:f
diag_embed offset:i dim1:i dim2:i
diagonal offset:i axis1:i axis2:i
dist p:f
dropout is_test:b mode:s seed:i=0 fix_seed:b=false
einsum equation:s
elu alpha:f
embedding padding_idx:l sparse:b=false
expand_as target_shape:ll
eye dtype:dtype place:place=none
fetch name:s col:i
fft_c2c axes:ll normalization:s forward:b
fft_c2r axes:ll normalization:s forward:b last_dim_size:l
fft_r2c axes:ll normalization:s forward:b onesided:b=true
flatten start_axis:i stop_axis:i
flip axis:ii
fold output_sizes:ii kernel_sizes:ii strides:ii paddings:ii dilations:ii
frame frame_length:i hop_length:i axis:i
full shape:ints value:d dtype:dtype place:place=cpu
full_int_array value:ll dtype:dtype=int64 place:place=cpu
full_like dtype:dtype place:place=none
full_with_tensor dtype:dtype
gelu approximate:b
grid_sample mode:s padding_mode:s align_corners:b
group_norm epsilon:f groups:i data_format:s
hardshrink threshold:f
hardsigmoid slope:f offset:f
hardtanh t_min:f t_max:f
index_add axis:i
index_put accumulate:b
index_select axis:i
instance_norm epsilon:f
isclose equal_nan:b=false
kldiv_loss reduction:s log_target:b
kthvalue k:l axis:i keepdim:b
layer_norm epsilon:f begin_norm_axis:i
leaky_relu negative_slope:f
linspace dtype:dtype place:place=none
log_loss epsilon:f
log_softmax axis:i
logcumsumexp axis:i flatten:b exclusive:b=false reverse:b=false
logit eps:f
logsumexp axis:ii keepdim:b reduce_all:b
matmul transpose_x:b transpose_y:b
max keepdim:b
max_pool2d_with_index kernel_size:ii strides:ii paddings:ii global_pooling:b=false adaptive:b ceil_mode:b
max_pool3d_with_index kernel_size:ii strides:ii paddings:ii global_pooling:b=false adaptive:b ceil_mode:b
maxout groups:i axis:i
mean keepdim:b
min keepdim:b
mish lambda:f=20.0
mode axis:i keepdim:b
one_hot
p_norm porder:f axis:i epsilon:f=1e-12 keepdim:b asvector:b
pad paddings:ii
pad3d mode:s pad_value:f data_format:s
pixel_shuffle upscale_factor:i data_format:s
pixel_unshuffle downscale_factor:i data_format:s
polygamma n:i
pool2d strides:ll paddings:ll ceil_mode:b exclusive:b data_format:s pooling_type:s global_pooling:b=false
  adaptive:b padding_algorithm:s
pool3d kernel_size:ll strides:ll paddings:ll ceil_mode:b exclusive:b data_format:s pooling_type:s
  global_pooling:b=false adaptive:b padding_algorithm:s
pow y:f
prelu data_format:s mode:s
prod keepdim:b reduce_all:b
put_along_axis axis:i reduce:s include_self:b
repeat_interleave repeats:i axis:i output_size:l=-1
rnn dropout_prob:f=0.0 is_bidirec:b input_size:i hidden_size:i num_layers:i=1 mode:s seed:i=0 is_test:b=true
roi_align pooled_height:i pooled_width:i spatial_scale:f sampling_ratio:i aligned:b
roi_pool pooled_height:i pooled_width:i spatial_scale:f
roll axis:ll
round decimals:i
scale bias:f bias_after_scale:b
scatter overwrite:b
searchsorted out_int32:b right:b
selu scale:f alpha:f
sequence_mask out_dtype:dtype
set_value_with_tensor axes:ll decrease_axes:ll none_axes:ll
sigmoid_cross_entropy_with_logits normalize:b=false ignore_index:i=-100
slice axes:ll infer_flags:ll decrease_axis:ll
softmax axis:i
softplus beta:f threshold:f
softshrink threshold:f
split_with_num num:i
stack axis:i
stanh scale_a:f scale_b:f
strided_slice axes:ii
sum dtype:dtype keepdim:b
take_along_axis axis:i
temporal_shift seg_num:i shift_ratio:f data_format:s
thresholded_relu threshold:f value:f
topk axis:i largest:b sorted:b
trace offset:i axis1:i axis2:i
transpose perm:ii
triangular_solve upper:b transpose:b unitriangular:b
tril diagonal:i
triu diagonal:i
unbind axis:i
unfold kernel_sizes:ii strides:ii paddings:ii dilations:ii
unpool ksize:ii strides:ii padding:ii data_format:s
yolo_box anchors:ii class_num:i conf_thresh:f downsample_ratio:i clip_bbox:b scale_x_y:f iou_aware:b
  iou_aware_factor:f
"""

_PLACES = {"cpu": [1, 0, ""], "none": [0, 0, ""]}
MISSING = object()


def _default(kind: str, text: str) -> Any:
    if not text:
        return MISSING
    if kind == "place":
        return _PLACES[text]
    if kind in ("f", "d"):
        return float(text)
    return text if kind in ("s", "dtype") else text == "true" if kind == "b" else int(text)


def _read() -> dict[str, list[tuple[str, str, Any]]]:
    found = {}
    for line in _TEXT.replace("\n  ", " ").split("\n"):
        if line:
            kind, *words = line.split(" ")
            each = [(word.partition(":")[0], *word.partition(":")[2].partition("=")[::2]) for word in words]
            found[kind] = [(name, form, _default(form, text)) for name, form, text in each]
    return found


ATTRIBUTES = _read()
