"""What an NVIDIA GPU would be given, written down on a machine that has none."""

import contextlib

import jax

from bireme.core.xla_exec import xla


def lowered(form, *given):
    """A function of jax arrays as a program for CUDA, in text."""
    with xla.x64(), _gpu():
        return jax.jit(form).trace(*given).lower(lowering_platforms=("cuda",)).as_text()


def _gpu():
    """Since 0.11 jax asks which GPU that is."""
    if jax.__version_info__ < (0, 11):
        return contextlib.nullcontext()
    device = jax.sharding.AbstractDevice(device_kind="NVIDIA H200", platform="gpu", num_cores=None)
    return jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((1,), ("x",), abstract_device=device))
