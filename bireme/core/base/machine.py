"""What kind of processor this is: what a few choices of kernels, and estimates of how long they take, depend on."""

import platform

_NAME = platform.machine().lower()
ARM = _NAME in ("aarch64", "arm64")
X86 = _NAME in ("x86_64", "amd64")
