"""`paddle.base.param_attr`: what a layer's parameter is made from."""

from bireme.param_attr import ParamAttr, WeightNormParamAttr

__all__ = ["ParamAttr", "WeightNormParamAttr"]
