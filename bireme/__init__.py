"""bireme"""
from bireme.core.op import PUBLIC
from bireme import ops
from bireme.core import debug
from bireme.core.tensor import Tensor, Parameter
from bireme.core.tape import *
globals().update(PUBLIC)
