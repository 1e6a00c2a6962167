"""Networks of PaddleSeg: four classes, small backbones, images of 64 to 128 pixels."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from tools.networks import Network

# family: class, side of the images, backbone (- for none), options
ROWS: list[tuple[str, str, int, str | None, dict[str, Any]]] = [
    ("fcn", "FCN", 64, "HRNet_W18_Small_V1", {}),
    ("ann", "ANN", 64, "ResNet18_vd", {}),
    ("attention_unet", "AttentionUNet", 64, None, {}),
    ("bisenet", "BiSeNetV2", 64, None, {}),
    ("bisenet", "BiseNetV1", 64, "ResNet18_vd", {}),
    ("ccnet", "CCNet", 64, "ResNet18_vd", {"backbone_indices": [2, 3]}),
    ("danet", "DANet", 64, "ResNet18_vd", {"backbone_indices": [2, 3]}),
    ("ddrnet", "DDRNet_23", 64, None, {}),
    ("decoupled_segnet", "DecoupledSegNet", 64, "ResNet18_vd", {"backbone_indices": (0, 3)}),
    ("deeplab", "DeepLabV3P", 64, "ResNet18_vd", {}),
    ("deeplab", "DeepLabV3", 64, "ResNet18_vd", {}),
    ("deeplab", "DeepLabV3P-mobilenet", 64, "MobileNetV2_x0_25", {"backbone_indices": [1, 3]}),
    ("deeplab", "DeepLabV3P-xception", 64, "Xception41_deeplab", {"backbone_indices": (0, 1)}),
    ("dmnet", "DMNet", 64, "ResNet18_vd", {}),
    ("dnlnet", "DNLNet", 64, "ResNet50_vd", {}),
    ("emanet", "EMANet", 64, "ResNet50_vd", {"ema_channels": 32, "gc_channels": 16, "num_bases": 4, "stage_num": 2}),
    ("encnet", "ENCNet", 64, "ResNet18_vd", {"backbone_indices": [1, 2, 3]}),
    ("enet", "ENet", 64, None, {}),
    ("espnet", "ESPNetV2", 64, None, {}),
    ("espnet", "ESPNetV1", 64, None, {"num_classes": 6}),
    ("fast_scnn", "FastSCNN", 128, None, {}),
    ("fastfcn", "FastFCN", 64, "ResNet18_vd", {}),
    ("gcnet", "GCNet", 64, "ResNet18_vd", {"gc_channels": 16}),
    ("ginet", "GINet", 64, "ResNet50_vd", {}),
    ("glore", "GloRe", 64, "ResNet18_vd", {}),
    ("gscnn", "GSCNN", 96, "ResNet18_vd", {}),
    ("hardnet", "HarDNet", 64, None, {}),
    ("hrnet_contrast", "HRNetW48Contrast", 64, "HRNet_W18_Small_V1", {"bb_channels": 240, "drop_prob": 0.0, "proj_dim": 16}),
    ("isanet", "ISANet", 64, "ResNet50_vd", {"backbone_indices": [2, 3]}),
    ("lpsnet", "LPSNet", 96, None, {"depths": [1, 3, 3, 3, 3], "channels": [8, 24, 48, 96, 96], "scale_ratios": [1.0, 0.25]}),
    ("lraspp", "LRASPP", 64, "MobileNetV3_large_x1_0", {}),
    ("mobileseg", "MobileSeg", 64, "MobileNetV2_x0_25", {}),
    ("mobileseg", "MobileSeg-lite", 64, "Lite_HRNet_18", {"backbone_indices": [0, 1, 2]}),
    ("mobileseg", "MobileSeg-shuffle", 64, "ShuffleNetV2_x1_0", {"backbone_indices": [1, 2, 3]}),
    ("mobileseg", "MobileSeg-ghost", 64, "GhostNet_x1_0", {"backbone_indices": [1, 2, 3]}),
    ("ocrnet", "OCRNet", 64, "HRNet_W18_Small_V1", {"backbone_indices": [0]}),
    ("pfpnnet", "PFPNNet", 64, "ResNet50_vd", {"backbone_indices": [0, 1, 2, 3], "channels": 32}),
    ("portraitnet", "PortraitNet", 64, "MobileNetV2_x1_0", {}),
    ("pp_liteseg", "PPLiteSeg", 64, "STDC1", {}),
    ("pp_humanseg", "PPHumanSegLite", 64, None, {}),
    ("pp_mobileseg", "PPMobileSeg", 128, "MobileSeg_Base", {}),
    ("pspnet", "PSPNet", 64, "ResNet18_vd", {}),
    ("rtformer", "RTFormer", 64, None, {}),
    ("segformer", "SegFormer", 64, "MixVisionTransformer_B0", {"embedding_dim": 32}),
    ("segnet", "SegNet", 64, None, {}),
    ("sfnet", "SFNet", 64, "ResNet18_vd", {"backbone_indices": [0, 1, 2, 3]}),
    ("sinet", "SINet", 64, None, {}),
    ("stdc", "STDCSeg", 64, "STDC1", {}),
    ("topformer", "TopFormer", 128, "TopTransformer_Tiny", {}),
    ("u2net", "U2Netp", 64, None, {}),
    ("unet", "UNet", 64, None, {}),
    ("unet", "UNet-deconv", 64, None, {"use_deconv": True}),
    ("unet_3plus", "UNet3Plus", 32, None, {}),
    ("unet_plusplus", "UNetPlusPlus", 32, None, {"in_channels": 3}),
    ("upernet", "UPerNet", 64, "ResNet18_vd", {"backbone_indices": (0, 1, 2, 3), "channels": 32}),
    ("upernet", "UPerNet-swin", 64, "SwinTransformer_tiny_patch4_window7_224", {"backbone_indices": (0, 1, 2, 3), "channels": 32}),
]  # fmt: skip


BASES: dict[str, dict[str, Any]] = {"MobileSeg_Base": {"inj_type": "AAMSx8", "out_feat_chs": [64, 128, 192]}}
EVALUATED = {"SegFormer"}  # drops whole branches by a number that is no attribute


def load() -> Any:
    return importlib.import_module("paddleseg.models")


def backbone(name: str) -> Any:
    models = load()
    backbones = importlib.import_module("paddleseg.models.backbones")
    made = getattr(backbones, name, None) or getattr(models, name, None)
    if made is None:
        modules = [
            importlib.import_module(f"paddleseg.models.backbones.{n}") for n in ("shufflenetv2", "ghostnet", "hrnet")
        ]
        made = next(getattr(m, name) for m in modules if hasattr(m, name))
    return made(**BASES.get(name, {}))


def build(name: str, base: str | None, options: dict[str, Any]) -> Any:
    models = load()
    given = {} if base is None else {"backbone": backbone(base)}
    return getattr(models, name.partition("-")[0])(**{"num_classes": 4, **given, **options})


def images(side: int) -> tuple[tuple, dict]:
    return (np.random.RandomState(0).standard_normal((2, 3, side, side)).astype("float32"),), {}


def networks() -> Iterator[Network]:
    for family, name, side, base, options in ROWS:
        made, given = functools.partial(build, name, base, options), functools.partial(images, side)
        yield Network("seg", family, name, made, given, name not in EVALUATED, name == "EMANet")
