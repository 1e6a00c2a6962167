"""Networks of PaddleDetection: backbones, and detectors in training, which return their losses."""

from __future__ import annotations

import copy
import functools
import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from tools.networks import Network

# family: class of a backbone and its options
BACKBONES: list[tuple[str, str, dict[str, Any]]] = [
    ("resnet", "ResNet", {"depth": 18, "freeze_norm": False, "freeze_at": -1}),
    ("resnet", "ResNet-50-vd", {"depth": 50, "variant": "d", "freeze_at": -1, "freeze_norm": False}),
    ("resnet", "ResNet-dcn", {"depth": 50, "variant": "d", "freeze_at": -1, "freeze_norm": False, "dcn_v2_stages": [3]}),
    ("res2net", "Res2Net", {"depth": 50, "freeze_at": -1, "freeze_norm": False}),
    ("senet", "SENet", {"depth": 50, "freeze_at": -1, "freeze_norm": False}),
    ("darknet", "DarkNet", {"depth": 53}),
    ("csp_darknet", "CSPDarkNet", {"arch": "X", "depth_mult": 0.33, "width_mult": 0.25}),
    ("csp_resnet", "CSPResNet", {"depth_mult": 0.33, "width_mult": 0.25}),
    ("mobilenet_v1", "MobileNet", {"scale": 0.25}),
    ("mobilenet_v3", "MobileNetV3", {"scale": 0.35, "model_name": "small", "feature_maps": [3, 6, 12]}),
    ("ghostnet", "GhostNet", {"scale": 1.3}),
    ("lcnet", "LCNet", {"scale": 0.5}),
    ("esnet", "ESNet", {"scale": 0.75, "channel_ratio": [0.875, 0.5, 0.5, 0.5, 0.625, 0.5, 0.625, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]}),
    ("shufflenet", "ShuffleNetV2", {"scale": 0.25}),
    ("hrnet", "HRNet", {"width": 18, "freeze_at": -1, "freeze_norm": False}),
    ("lite_hrnet", "LiteHRNet", {"network_type": "lite_18", "freeze_at": -1, "freeze_norm": False}),
    ("hardnet", "HarDNet", {"arch": 68, "return_idx": [1, 3, 8, 13]}),
    ("dla", "DLA", {"depth": 34}),
    ("vgg", "VGG", {"depth": 16}),
    ("blazenet", "BlazeNet", {}),
    ("convnext", "ConvNeXt", {"arch": "tiny"}),
    ("swin", "SwinTransformer", {"embed_dim": 24, "depths": [2, 2], "num_heads": [2, 4], "out_indices": (0, 1), "drop_path_rate": 0.0}),
    ("vit", "VisionTransformer", {"img_size": [64, 64], "embed_dim": 32, "depth": 2, "num_heads": 2, "out_indices": [1]}),
]  # fmt: skip

RESNET = {
    "depth": 18,
    "norm_type": "bn",
    "freeze_at": -1,
    "return_idx": [0, 1, 2, 3],
    "num_stages": 4,
    "freeze_norm": False,
}
LEVELS = {**RESNET, "return_idx": [1, 2, 3]}
RPN = {
    "anchor_generator": {"aspect_ratios": [0.5, 1.0, 2.0], "anchor_sizes": [[16], [32], [64], [128], [256]],
                         "strides": [4, 8, 16, 32, 64]},
    "rpn_target_assign": {"batch_size_per_im": 32, "fg_fraction": 0.5, "negative_overlap": 0.3, "positive_overlap": 0.7,
                          "use_random": False},
    "train_proposal": {"min_size": 0.0, "nms_thresh": 0.7, "pre_nms_top_n": 50, "post_nms_top_n": 20, "topk_after_collect": True},
    "test_proposal": {"min_size": 0.0, "nms_thresh": 0.7, "pre_nms_top_n": 50, "post_nms_top_n": 20},
}  # fmt: skip
BOXES = {"head": "TwoFCHead", "roi_extractor": {"resolution": 7, "sampling_ratio": 0, "aligned": True},
         "bbox_assigner": "BBoxAssigner"}  # fmt: skip
ASSIGNER = {"batch_size_per_im": 32, "bg_thresh": 0.5, "fg_thresh": 0.5, "fg_fraction": 0.25, "use_random": False}
YOLO_ANCHORS = [[10, 13], [16, 30], [33, 23], [30, 61], [62, 45], [59, 119], [116, 90], [156, 198], [373, 326]]
YOLO_MASKS = [[6, 7, 8], [3, 4, 5], [0, 1, 2]]

# family: name of a detector and its configuration, as in a file of them
DETECTORS: list[tuple[str, str, dict[str, Any]]] = [
    ("yolov3", "YOLOv3", {
        "YOLOv3": {"backbone": "ResNet", "neck": "YOLOv3FPN", "yolo_head": "YOLOv3Head"},
        "ResNet": LEVELS,
        "YOLOv3Head": {"anchors": YOLO_ANCHORS, "anchor_masks": YOLO_MASKS, "loss": "YOLOv3Loss"},
        "YOLOv3Loss": {"ignore_thresh": 0.7, "downsample": [32, 16, 8], "label_smooth": False},
    }),
    ("ppyoloe", "YOLOv3-ppyoloe", {
        "YOLOv3": {"backbone": "CSPResNet", "neck": "CustomCSPPAN", "yolo_head": "PPYOLOEHead", "post_process": None},
        "CSPResNet": {"layers": [3, 6, 6, 3], "channels": [64, 128, 256, 512, 1024], "return_idx": [1, 2, 3],
                      "depth_mult": 0.33, "width_mult": 0.25, "use_large_stem": True},
        "CustomCSPPAN": {"out_channels": [768, 384, 192], "stage_num": 1, "block_num": 3, "act": "swish", "spp": True,
                         "depth_mult": 0.33, "width_mult": 0.25},
        "PPYOLOEHead": {"fpn_strides": [32, 16, 8], "grid_cell_scale": 5.0, "grid_cell_offset": 0.5, "static_assigner_epoch": -1,
                        "use_varifocal_loss": True, "loss_weight": {"class": 1.0, "iou": 2.5, "dfl": 0.5},
                        "static_assigner": {"name": "ATSSAssigner", "topk": 9},
                        "assigner": {"name": "TaskAlignedAssigner", "topk": 13, "alpha": 1.0, "beta": 6.0}},
    }),
    ("faster_rcnn", "FasterRCNN", {
        "FasterRCNN": {"backbone": "ResNet", "neck": "FPN", "rpn_head": "RPNHead", "bbox_head": "BBoxHead",
                       "bbox_post_process": "BBoxPostProcess"},
        "ResNet": RESNET, "FPN": {"out_channel": 32}, "RPNHead": RPN, "BBoxHead": BOXES, "BBoxAssigner": ASSIGNER,
        "TwoFCHead": {"out_channel": 64},
    }),
    ("retinanet", "RetinaNet", {
        "RetinaNet": {"backbone": "ResNet", "neck": "FPN", "head": "RetinaHead"},
        "ResNet": LEVELS, "FPN": {"out_channel": 32, "spatial_scales": [0.125, 0.0625, 0.03125], "extra_stage": 2,
                                  "has_extra_convs": True, "use_c5": False},
        "RetinaHead": {"conv_feat": {"name": "RetinaFeat", "feat_in": 32, "feat_out": 32, "num_convs": 1},
                       "anchor_generator": {"name": "RetinaAnchorGenerator", "octave_base_scale": 4, "scales_per_octave": 3,
                                            "aspect_ratios": [0.5, 1.0, 2.0], "strides": [8.0, 16.0, 32.0, 64.0, 128.0]},
                       "bbox_assigner": {"name": "MaxIoUAssigner", "positive_overlap": 0.5, "negative_overlap": 0.4,
                                         "allow_low_quality": True},
                       "loss_class": {"name": "FocalLoss", "gamma": 2.0, "alpha": 0.25, "loss_weight": 1.0},
                       "loss_bbox": {"name": "SmoothL1Loss", "beta": 0.0, "loss_weight": 1.0}},
    }),
    ("centernet", "CenterNet", {
        "CenterNet": {"backbone": "DLA", "neck": "CenterNetDLAFPN", "head": "CenterNetHead",
                      "post_process": "CenterNetPostProcess"},
        "DLA": {"depth": 34}, "CenterNetHead": {"head_planes": 16},
    }),
    ("keypoint", "TopDownHRNet", {
        "TopDownHRNet": {"width": 18, "num_joints": 17, "backbone": "HRNet", "loss": "KeyPointMSELoss", "flip": False},
        "HRNet": {"width": 18, "freeze_at": -1, "freeze_norm": False, "return_idx": [0]},
    }),
    ("ssd", "SSD", {
        "SSD": {"backbone": "MobileNet", "ssd_head": "SSDHead", "post_process": "SSDBox"},
        "MobileNet": {"scale": 1, "feature_maps": [11, 13, 14, 15, 16, 17], "with_extra_blocks": True,
                      "extra_block_filters": [[256, 512], [128, 256], [128, 256], [64, 128]]},
        "SSDHead": {"anchor_generator": {"steps": [0, 0, 0, 0, 0, 0], "min_ratio": 20, "max_ratio": 90, "base_size": 96,
                                         "aspect_ratios": [[2.0], [2.0, 3.0], [2.0, 3.0], [2.0, 3.0], [2.0, 3.0], [2.0, 3.0]]}},
    }),
    ("detr", "DETR", {
        "DETR": {"backbone": "ResNet", "transformer": "DETRTransformer", "detr_head": "DETRHead",
                 "post_process": "DETRBBoxPostProcess"},
        "ResNet": {**RESNET, "return_idx": [3]},
        "DETRTransformer": {"num_queries": 10, "position_embed_type": "sine", "nhead": 4, "num_encoder_layers": 1,
                            "num_decoder_layers": 2, "dim_feedforward": 64, "dropout": 0.0, "hidden_dim": 32,
                            "backbone_num_channels": 512},
        "DETRHead": {"num_mlp_layers": 2}, "DETRLoss": {"aux_loss": True}, "hidden_dim": 32,
    }),
    ("picodet", "PicoDet", {
        "PicoDet": {"backbone": "LCNet", "neck": "LCPAN", "head": "PicoHeadV2"},
        "LCNet": {"scale": 0.5, "feature_maps": [3, 4, 5]}, "LCPAN": {"out_channels": 32, "use_depthwise": True, "num_features": 4},
        "PicoHeadV2": {"conv_feat": {"name": "PicoFeat", "feat_in": 32, "feat_out": 32, "num_convs": 1, "num_fpn_stride": 4,
                                     "norm_type": "bn", "share_cls_reg": True, "use_se": True},
                       "feat_in_chan": 32, "fpn_stride": [8, 16, 32, 64], "prior_prob": 0.01, "reg_max": 7, "cell_offset": 0.5,
                       "grid_cell_scale": 5.0, "static_assigner_epoch": 100, "use_align_head": True,
                       "static_assigner": {"name": "ATSSAssigner", "topk": 4},
                       "assigner": {"name": "TaskAlignedAssigner", "topk": 13, "alpha": 1.0, "beta": 6.0},
                       "loss_class": {"name": "VarifocalLoss", "use_sigmoid": False, "iou_weighted": True, "loss_weight": 1.0},
                       "loss_dfl": {"name": "DistributionFocalLoss", "loss_weight": 0.5},
                       "loss_bbox": {"name": "GIoULoss", "loss_weight": 2.5}},
    }),
    ("fcos", "FCOS", {
        "FCOS": {"backbone": "ResNet", "neck": "FPN", "fcos_head": "FCOSHead"},
        "ResNet": LEVELS, "FPN": {"out_channel": 256, "spatial_scales": [0.125, 0.0625, 0.03125], "extra_stage": 2,
                                  "has_extra_convs": True, "use_c5": False},
        "FCOSHead": {"fcos_feat": {"name": "FCOSFeat", "feat_in": 256, "feat_out": 256, "num_convs": 1, "norm_type": "bn",
                                   "use_dcn": False},
                     "fpn_stride": [8, 16, 32, 64, 128], "num_classes": 4, "centerness_on_reg": False},
    }),
]  # fmt: skip


def backbone(name: str, options: dict[str, Any]) -> Any:
    workspace, _ = load()
    made = workspace.global_config[name.partition("-")[0]].pymodule
    return getattr(made, name.partition("-")[0])(**options)


@functools.cache
def load() -> tuple[Any, dict[str, Any]]:
    workspace = importlib.import_module("ppdet.core.workspace")
    importlib.import_module("ppdet.modeling")
    return workspace, copied(dict(workspace.global_config))


def copied(x: Any) -> Any:
    """A copy of dicts in dicts, of whatever class, that shares all else."""
    if not isinstance(x, dict):
        return x
    made = x.copy()
    for key in x:
        made[key] = copied(x[key])
    return made


def detector(name: str, configuration: dict[str, Any]) -> Any:
    workspace, before = load()
    workspace.global_config.clear()
    workspace.global_config.update(copied(before))
    workspace.merge_config({"num_classes": 4, **copy.deepcopy(configuration)})
    return workspace.create(name.partition("-")[0])


def image(side: int) -> tuple[tuple, dict]:
    x = np.random.RandomState(0).standard_normal((2, 3, side, side)).astype("float32")
    return ({"image": x},), {}


def labelled(family: str) -> tuple[tuple, dict]:
    """Two images of 128 pixels with three boxes each, in the forms that detectors want them in."""
    rng = np.random.RandomState(0)
    corners = rng.uniform(4, 60, (2, 3, 2))
    boxes = np.concatenate([corners, corners + rng.uniform(20, 60, (2, 3, 2))], -1).astype("float32")
    classes = rng.randint(0, 4, (2, 3, 1)).astype("int64" if family in ("ppyoloe", "picodet", "detr") else "int32")
    given: dict[str, Any] = {
        "image": rng.standard_normal((2, 3, 128, 128)).astype("float32"),
        "im_id": np.array([[0], [1]]),
        "im_shape": np.full((2, 2), 128.0, "float32"),
        "scale_factor": np.ones((2, 2), "float32"),
        "epoch_id": 0,
        "gt_bbox": boxes,
        "gt_class": classes,
        "pad_gt_mask": np.ones((2, 3, 1), "float32"),
        "is_crowd": np.zeros((2, 3, 1), "int32"),
        "gt_score": np.ones((2, 3, 1), "float32"),
    }
    if family in ("faster_rcnn", "retinanet"):
        given.update({n: list(given[n]) for n in ("gt_bbox", "gt_class", "is_crowd")})
    centers = np.concatenate([(boxes[..., :2] + boxes[..., 2:]) / 2, boxes[..., 2:] - boxes[..., :2]], -1) / 128
    if family == "yolov3":
        for i, stride in enumerate((32, 16, 8)):
            n = 128 // stride
            target = np.zeros((2, 3, 10, n, n), "float32")
            for b in range(2):
                for k in range(3):
                    x, y, w, h = centers[b, k]
                    at = (b, k, slice(None), int(y * n), int(x * n))
                    target[at] = [
                        x * n % 1,
                        y * n % 1,
                        np.log(w * 4),
                        np.log(h * 4),
                        2 - w * h,
                        1,
                        *np.eye(4)[classes[b, k, 0]],
                    ]
            given[f"target{i}"] = target
        given["gt_bbox"] = centers.astype("float32")
    if family == "ssd":
        given["gt_bbox"], given["gt_class"] = (boxes / 128).astype("float32"), classes[..., 0]
    if family == "detr":
        given["gt_bbox"], given["gt_class"] = list(centers.astype("float32")), list(classes)
        given["pad_mask"] = np.ones((2, 128, 128), "float32")
    if family == "centernet":
        given.update(
            heatmap=rng.uniform(0, 0.9, (2, 4, 32, 32)).astype("float32"),
            index=rng.randint(0, 1024, (2, 8)).astype("int64"),
            index_mask=np.array([[1] * 3 + [0] * 5] * 2).astype("int32"),
            size=rng.uniform(2, 9, (2, 8, 4)).astype("float32"),
            offset=rng.uniform(0, 1, (2, 8, 2)).astype("float32"),
        )
        given["heatmap"][:, :, 5, 5] = 1.0
    if family == "keypoint":
        given["target"] = rng.uniform(0, 1, (2, 17, 32, 32)).astype("float32")
        given["target_weight"] = np.ones((2, 17, 1), "float32")
    if family == "fcos":
        for i, stride in enumerate((8, 16, 32, 64, 128)):
            n = 128 // stride
            given[f"labels{i}"] = rng.randint(0, 5, (2, n, n, 1)).astype("int32")
            given[f"reg_target{i}"] = rng.uniform(0.1, 4, (2, n, n, 4)).astype("float32")
            given[f"centerness{i}"] = rng.uniform(0.1, 1, (2, n, n, 1)).astype("float32")
    return (given,), {}


def networks() -> Iterator[Network]:
    for family, name, options in BACKBONES:
        yield Network(
            "det",
            family,
            name,
            functools.partial(backbone, name, options),
            functools.partial(image, 300 if family == "vgg" else 64),
        )
    for family, name, configuration in DETECTORS:
        yield Network(
            "det", family, name, functools.partial(detector, name, configuration), functools.partial(labelled, family)
        )
