"""Names that code written for Paddle takes from `paddle.base.compiler`."""

from bireme.static import BuildStrategy, CompiledProgram, IpuCompiledProgram, IpuStrategy

__all__ = ["BuildStrategy", "CompiledProgram", "IpuCompiledProgram", "IpuStrategy"]
