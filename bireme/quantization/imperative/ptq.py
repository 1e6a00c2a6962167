"""Quantization after training, in the older interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.jit.saving import save
from bireme.nn.common import Linear
from bireme.nn.conv import Conv2D
from bireme.nn.layer import Layer
from bireme.quantization.config import QuantConfig
from bireme.quantization.imperative.ptq_config import PTQConfig, default_ptq_config
from bireme.quantization.quantize import PTQ


class ImperativePTQ:
    """Quantization after training of ``Linear`` and ``Conv2D``, in the older interface; ``PTQ`` is the newer one.

    Args:
        quant_config: Quantizers of inputs and weights. Default: the least divergence for inputs, and the largest
            magnitude of each channel for weights.

    Raises:
        TypeError: If ``quant_config`` is no ``PTQConfig``.

    Examples:
        >>> net = bireme.nn.Sequential(bireme.nn.Linear(4, 2))
        >>> _ = net.eval()
        >>> ptq = bireme.quantization.ImperativePTQ()
        >>> quantized = ptq.quantize(net)
        >>> quantized(bireme.ones([1, 4])).shape
        [1, 2]
    """

    def __init__(self, quant_config: PTQConfig = default_ptq_config):
        if not isinstance(quant_config, PTQConfig):
            raise errors.bad("ImperativePTQ(quant_config)", "a PTQConfig", quant_config, kind=errors.ArgumentTypeError)
        config = QuantConfig(None, None)
        config.add_type_config(
            [Linear, Conv2D],
            activation=quant_config.in_act_quantizer.factory(),
            weight=quant_config.wt_quantizer.factory(),
        )
        self._quant_config, self._ptq = quant_config, PTQ(config)

    def quantize(
        self, model: Layer, inplace: bool = False, fuse: bool = False, fuse_list: Sequence[Any] | None = None
    ) -> Layer:
        """Put observers into a model.

        Args:
            model: Model; it is put into evaluation.
            inplace: Change the model itself. Default: False.
            fuse: Must be False: the compiler fuses. Default: False.
            fuse_list: Must be None. Default: None.

        Returns:
            The model with observers, to be run on some batches.

        Raises:
            ValueError: If layers are to be fused.

        Examples:
            >>> ptq = bireme.quantization.ImperativePTQ()
            >>> type(ptq.quantize(bireme.nn.Linear(4, 2))).__name__
            'QuantedLinear'
        """
        if fuse or fuse_list:
            raise errors.bad("quantize(fuse)", "False, since the compiler fuses", fuse or fuse_list)
        if not isinstance(model, Layer):
            raise errors.bad("quantize(model)", "a layer", model, kind=errors.ArgumentTypeError)
        was = model.training
        model.eval()
        try:
            return self._ptq.quantize(model, inplace)
        finally:
            if was and not inplace:
                model.train()

    def save_quantized_model(self, model: Layer, path: str, input_spec: Any = None, **config: Any) -> None:
        """Convert a model to integers and save it, see ``jit.save``.

        Args:
            model: What ``quantize`` returned, after it was run on data.
            path: Path without an ending.
            input_spec: List of ``InputSpec`` of its inputs. Default: None.
            **config: What else ``jit.save`` takes.

        Examples:
            >>> import tempfile
            >>> ptq = bireme.quantization.ImperativePTQ()
            >>> net = ptq.quantize(bireme.nn.Linear(4, 2))
            >>> y = net(bireme.ones([1, 4]))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     ptq.save_quantized_model(net, folder + "/net", [bireme.static.InputSpec([None, 4])])
            ...     bireme.jit.load(folder + "/net")(bireme.ones([3, 4])).shape
            [3, 2]
        """
        save(self._ptq.convert(model), path, input_spec, **config)
