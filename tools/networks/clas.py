"""Networks of PaddleClas: its backbones, with ten classes."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from tools.networks import Network

# family, side of the images: names; a transformer's position embedding fixes the side
LISTS = """
alexnet 224: AlexNet
vgg 224: VGG11
resnet 64: ResNet18 ResNet18_vd ResNet34 ResNet50 ResNet50_vd ResNet50_vc
resnet_variant 64: ResNet50_last_stage_stride1 ResNet50_adaptive_max_pool2d
resnext 64: ResNeXt50_32x4d ResNeXt50_vd_32x4d
res2net 64: Res2Net50_26w_4s Res2Net50_vd_26w_4s
se_resnet 64: SE_ResNet18_vd SE_ResNeXt50_32x4d
resnest 64: ResNeSt50_fast_1s1x64d
wide_resnet 32: WideResNet
inception 299: InceptionV3
googlenet 224: GoogLeNet
xception 96: Xception41 Xception41_deeplab
densenet 64: DenseNet121
dpn 64: DPN68
dla 64: DLA34 DLA46_c DLA60x_c
hrnet 64: HRNet_W18_C
mobilenet_v1 64: MobileNetV1_x0_25 MobileNetV1
mobilenet_v2 64: MobileNetV2_x0_25 MobileNetV2
mobilenet_v3 64: MobileNetV3_small_x0_35 MobileNetV3_large_x0_5
mobilenet_v4 64: MobileNetV4_conv_small MobileNetV4_hybrid_medium
mobilenext 64: MobileNeXt_x0_35
mobilefacenet 112: MobileFaceNet
shufflenet 64: ShuffleNetV2_x0_25 ShuffleNetV2_swish
squeezenet 64: SqueezeNet1_0 SqueezeNet1_1
ghostnet 64: GhostNet_x0_5
efficientnet 64: EfficientNetB0 EfficientNetB0_small EfficientNetV2_S
mixnet 224: MixNet_S
rexnet 64: ReXNet_1_0
regnet 64: RegNetX_200MF
repvgg 224: RepVGG_A0
hardnet 64: HarDNet39_ds
cspnet 64: CSPDarkNet53
darknet 64: DarkNet53
peleenet 64: PeleeNet
rednet 64: RedNet26
tinynet 64: TinyNet_E
micronet 64: MicroNet_M0
esnet 64: ESNet_x0_25
pplcnet 64: PPLCNet_x0_25 PPLCNetV2_small PPLCNet_x2_5_Tanh
pphgnet 64: PPHGNet_tiny PPHGNetV2_B0
fasternet 64: FasterNet_T0
starnet 64: StarNet_S1
dsnet 224: DSNet_tiny
convnext 64: ConvNeXt_tiny
van 64: VAN_B0
adaface 112: AdaFace_IR_18 AdaFace_IR_SE_50
vit 224: ViT_small_patch16_224
deit 224: DeiT_tiny_patch16_224 DeiT_tiny_distilled_patch16_224
swin 224: SwinTransformer_tiny_patch4_window7_224
swin_v2 256: SwinTransformerV2_tiny_patch4_window8_256
cswin 224: CSWinTransformer_tiny_224
twins 224: pcpvt_small alt_gvt_small
levit 224: LeViT_128S
tnt 224: TNT_small
pvt 224: PVT_V2_B0 PVT_V2_B2_Linear
mobilevit 64: MobileViT_XXS MobileViTV2_x0_5 MobileViTV3_XXS MobileViTV3_x0_5
cvt 224: CvT_13_224
nextvit 224: NextViT_small_224
uniformer 224: UniFormer_small
foundation_vit 224: MOCOV3_vit_small CLIP_vit_base_patch32_224
cae 224: cae_base_patch16_224
"""
WITHOUT_CLASSES = {
    "WideResNet",
    "MobileFaceNet",
    "AdaFace_IR_18",
    "AdaFace_IR_SE_50",
    "MOCOV3_vit_small",
    "CLIP_vit_base_patch32_224",
}
EVALUATED = {"EfficientNetV2_S"}  # drops whole branches by a number that is no attribute
OPTIONS: dict[str, dict[str, Any]] = {
    "WideResNet": {"depth": 10, "widen_factor": 1, "dropout": 0.0, "num_classes": 10},
    "UniFormer_small": {"pretrained": False},
}


@functools.cache
def load() -> Any:
    importlib.import_module("paddleclas.ppcls.utils.logger").init_logger()
    return importlib.import_module("paddleclas.ppcls.arch.backbone")


def build(name: str) -> Any:
    options = {} if name in WITHOUT_CLASSES else {"class_num": 10}
    return getattr(load(), name)(**options, **OPTIONS.get(name, {}))


def images(side: int) -> tuple[tuple, dict]:
    n = 4 if side <= 64 else 1
    return (np.random.RandomState(0).standard_normal((n, 3, side, side)).astype("float32"),), {}


def networks() -> Iterator[Network]:
    for line in LISTS.strip().splitlines():
        head, _, names = line.partition(": ")
        family, side = head.split()
        for name in names.split():
            made, given = functools.partial(build, name), functools.partial(images, int(side))
            yield Network("clas", family, name, made, given, name not in EVALUATED)
