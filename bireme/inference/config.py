"""Config: which model a predictor runs, where and in which precision.

Switches are of three groups: those that do something here, those that have nothing to do here, and those that are refused,
since what they ask for would be missing in silence. `switches` has the second and third group as data.
"""

from __future__ import annotations

import os
from typing import Any, ClassVar

from bireme.core.base import errors
from bireme.inference import switches
from bireme.inference.executables import COMPILING
from bireme.inference.executors import ENGINE, OnnxRuntime, check
from bireme.inference.kinds import PrecisionType
from bireme.jit.transforms import FOR_INFERENCE, TRANSFORMS


class PassBuilder:
    """The passes over the graph of a model, in order, by the names of ``jit.transforms``; those of Paddle that are not
    here are passed over.

    Examples:
        >>> passes = bireme.inference.Config().pass_builder()
        >>> passes.delete_pass("channels_last")
        >>> "channels_last" in passes.all_passes()
        False
    """

    def __init__(self) -> None:
        self._passes = list(FOR_INFERENCE)

    def all_passes(self) -> list[str]:
        """Return the names of the passes, in order.

        Returns:
            A list of strings.

        Examples:
            >>> bireme.inference.Config().pass_builder().all_passes()[0]
            'freeze'
        """
        return list(self._passes)

    def set_passes(self, passes: list[str]) -> None:
        """Set the passes.

        Args:
            passes: Names, in order.

        Examples:
            >>> passes = bireme.inference.Config().pass_builder()
            >>> passes.set_passes(["freeze", "dead_code"])
            >>> passes.all_passes()
            ['freeze', 'dead_code']
        """
        self._passes = [name for name in passes if name in TRANSFORMS]

    def append_pass(self, name: str) -> None:
        """Add a pass at the end.

        Args:
            name: Its name.

        Examples:
            >>> passes = bireme.inference.Config().pass_builder()
            >>> passes.append_pass("common_subexpressions")
            >>> passes.all_passes()[-1]
            'common_subexpressions'
        """
        self.insert_pass(len(self._passes), name)

    def insert_pass(self, index: int, name: str) -> None:
        """Add a pass before another.

        Args:
            index: Index of the other.
            name: Name of the pass.

        Examples:
            >>> passes = bireme.inference.Config().pass_builder()
            >>> passes.insert_pass(0, "dead_code")
            >>> passes.all_passes()[:2]
            ['dead_code', 'freeze']
        """
        if name in TRANSFORMS:
            self._passes.insert(index, name)

    def delete_pass(self, name: str) -> None:
        """Leave a pass out.

        Args:
            name: Its name; one that is not there is no error.

        Examples:
            >>> passes = bireme.inference.Config().pass_builder()
            >>> passes.delete_pass("freeze")
            >>> "freeze" in passes.all_passes()
            False
        """
        self._passes = [each for each in self._passes if each != name]


class XpuConfig:
    """Settings of XPU devices. They are kept and have no effect: there are no such devices.

    Examples:
        >>> config = bireme.inference.XpuConfig()
        >>> config.device_id, config.l3_size
        (0, 0)
    """

    device_id = 0
    l3_size, l3_autotune_size, l3_ptr = 0, 0, None
    context, stream, context_gm_size = None, None, -1
    conv_autotune_level, conv_autotune_file, conv_autotune_file_writeback = 0, "", False
    fc_autotune_level, fc_autotune_file, fc_autotune_file_writeback = 0, "", False
    gemm_compute_precision, transformer_softmax_optimize_level = 1, 0
    transformer_encoder_adaptive_seqlen = True
    quant_post_static_gelu_out_threshold, quant_post_dynamic_activation_method = 10.0, 0
    quant_post_dynamic_weight_precision = 1
    quant_post_dynamic_op_types: ClassVar[list[str]] = []


class Config:
    """What a predictor is made from: the files of a model, the device, the precision.

    Every method of Paddle's is there. Some have no effect here, since what they switch does not exist or is always so; a few
    are refused with the reason, those whose effect would be missed.

    Args:
        *model: A path of a model without its ending, a file or a folder; or the files of the program and of the parameters;
            or another ``Config``. Default: none yet, see ``set_model``.

    Examples:
        >>> config = bireme.inference.Config("model.pdmodel", "model.pdiparams")
        >>> config.prog_file(), config.use_gpu(), config.ir_optim()
        ('model.pdmodel', False, True)
    """

    Precision = PrecisionType
    Float32, Int8 = PrecisionType.Float32, PrecisionType.Int8
    Half, Bfloat16 = PrecisionType.Half, PrecisionType.Bfloat16

    def __init__(self, *model: Any):
        self._dir = self._program = self._params = ""
        self._buffers: tuple[bytes, bytes] | None = None
        self._gpu: int | None = None
        self._device: tuple[str, int] | None = None
        self._precision = PrecisionType.Float32
        self._passes = PassBuilder()
        self._kept_full: set[str] = set()
        self._low_io = False
        self._compiling = COMPILING[0]
        self._executor = ENGINE
        self._threads: int | None = None
        self._settings: dict[str, Any] = dict(switches.DEFAULTS)
        if len(model) == 1 and isinstance(model[0], Config):
            self.__dict__.update(model[0].__dict__)
            self._passes, self._settings = PassBuilder(), dict(model[0]._settings)
            self._passes.set_passes(model[0]._passes.all_passes())
        elif model:
            self.set_model(*model)

    # ------------------------------------------------------------ the model

    def set_model(self, *paths: str) -> None:
        """Set the model.

        Args:
            *paths: A path without an ending, a file or a folder; or the files of the program and of the parameters.

        Examples:
            >>> config = bireme.inference.Config()
            >>> config.set_model("folder")
            >>> config.model_dir()
            'folder'
        """
        if not 1 <= len(paths) <= 2:
            raise errors.bad("Config(model)", "one path or two", described=f"{len(paths)} arguments")
        texts = []
        for path in paths:
            if not isinstance(path, (str, os.PathLike)):
                raise errors.bad("Config(model)", "a path", path, kind=errors.ArgumentTypeError)
            texts.append(os.fspath(path))
        if len(texts) == 1:
            self._dir = texts[0]
        else:
            self._program, self._params = texts

    def set_model_buffer(self, prog: bytes, prog_size: int, params: bytes, params_size: int) -> None:
        """Set the model from memory.

        Args:
            prog: Bytes of the program.
            prog_size: How many of them.
            params: Bytes of the parameters.
            params_size: How many of them.

        Examples:
            >>> config = bireme.inference.Config()
            >>> config.set_model_buffer(b"...", 3, b"", 0)
            >>> config.model_from_memory()
            True
        """
        data = []
        for name, given, size in (("prog", prog, prog_size), ("params", params, params_size)):
            if not isinstance(given, (bytes, bytearray, memoryview)):
                raise errors.bad(f"set_model_buffer({name})", "bytes", given, kind=errors.ArgumentTypeError)
            data.append(bytes(given)[:size])
        self._buffers = (data[0], data[1])

    def model_from_memory(self) -> bool:
        """Return whether the model comes from memory.

        Returns:
            A bool.

        Examples:
            >>> bireme.inference.Config("model").model_from_memory()
            False
        """
        return self._buffers is not None

    def set_prog_file(self, path: str) -> None:
        """Set the file of the program.

        Args:
            path: Its path.

        Examples:
            >>> config = bireme.inference.Config()
            >>> config.set_prog_file("model.json")
            >>> config.prog_file()
            'model.json'
        """
        self._program = os.fspath(path)

    def set_params_file(self, path: str) -> None:
        """Set the file of the parameters.

        Args:
            path: Its path.

        Examples:
            >>> config = bireme.inference.Config()
            >>> config.set_params_file("model.pdiparams")
            >>> config.params_file()
            'model.pdiparams'
        """
        self._params = os.fspath(path)

    def model_dir(self) -> str:
        """Return the path that was given alone.

        Returns:
            A string, empty where there is none.

        Examples:
            >>> bireme.inference.Config("folder").model_dir()
            'folder'
        """
        return self._dir

    def prog_file(self) -> str:
        """Return the file of the program.

        Returns:
            A string, empty where there is none.

        Examples:
            >>> bireme.inference.Config("a.pdmodel", "a.pdiparams").prog_file()
            'a.pdmodel'
        """
        return self._program

    def params_file(self) -> str:
        """Return the file of the parameters.

        Returns:
            A string, empty where there is none.

        Examples:
            >>> bireme.inference.Config("a.pdmodel", "a.pdiparams").params_file()
            'a.pdiparams'
        """
        return self._params

    # ------------------------------------------------------------ the device and the precision

    def enable_use_gpu(
        self,
        memory_pool_init_size_mb: int,
        device_id: int = 0,
        precision_mode: PrecisionType = PrecisionType.Float32,
    ) -> None:
        """Run on a GPU.

        Args:
            memory_pool_init_size_mb: Has no effect but on ``memory_pool_init_size_mb()``.
            device_id: Index of the GPU. Default: 0.
            precision_mode: ``PrecisionType.Half`` and ``Bfloat16`` run products and convolutions in that type. Default:
                ``PrecisionType.Float32``.

        Raises:
            ValueError: If the precision is ``Int8``.

        Examples:
            >>> config = bireme.inference.Config()
            >>> config.enable_use_gpu(100, 0)
            >>> config.use_gpu(), config.gpu_device_id()
            (True, 0)
        """
        self._settings["memory_pool_init_size_mb"] = memory_pool_init_size_mb
        self._gpu, self._device = device_id, None
        self._set_precision("enable_use_gpu(precision_mode)", precision_mode)

    def enable_custom_device(
        self, device_type: str, device_id: int = 0, precision: PrecisionType = PrecisionType.Float32
    ) -> None:
        """Run on a device that a plug-in brought.

        Args:
            device_type: Its name, as ``bireme.set_device`` takes it.
            device_id: Its index. Default: 0.
            precision: As for ``enable_use_gpu``. Default: ``PrecisionType.Float32``.

        Examples:
            >>> bireme.inference.Config().enable_custom_device("cpu")
        """
        self._gpu, self._device = None, (device_type, device_id)
        self._set_precision("enable_custom_device(precision)", precision)

    def disable_gpu(self) -> None:
        """Run on the CPU, as without any of these calls.

        Examples:
            >>> config = bireme.inference.Config()
            >>> config.disable_gpu()
            >>> config.use_gpu()
            False
        """
        self._gpu = self._device = None

    def use_gpu(self) -> bool:
        """Return whether it runs on a GPU.

        Returns:
            A bool.

        Examples:
            >>> bireme.inference.Config().use_gpu()
            False
        """
        return self._gpu is not None

    def gpu_device_id(self) -> int:
        """Return the index of the GPU.

        Returns:
            An int, 0 where it runs on the CPU.

        Examples:
            >>> bireme.inference.Config().gpu_device_id()
            0
        """
        return self._gpu or 0

    def enable_onednn_bfloat16(self) -> None:
        """Run products and convolutions in bfloat16.

        Examples:
            >>> bireme.inference.Config().enable_onednn_bfloat16()
        """
        self._precision = PrecisionType.Bfloat16

    enable_mkldnn_bfloat16 = enable_onednn_bfloat16

    def exp_disable_mixed_precision_ops(self, ops: set[str]) -> None:
        """Keep some operators in float32 where a lower precision is switched on.

        Args:
            ops: Names of operators, as ``"softmax"``.

        Examples:
            >>> bireme.inference.Config().exp_disable_mixed_precision_ops({"softmax"})
        """
        self._kept_full = set(ops)

    def enable_low_precision_io(self, x: bool = True) -> None:
        """Let outputs have the lower precision too.

        Args:
            x: Whether. Default: True.

        Examples:
            >>> bireme.inference.Config().enable_low_precision_io(False)
        """
        self._low_io = bool(x)

    def _set_precision(self, where: str, precision: Any) -> None:
        if not isinstance(precision, PrecisionType):
            raise errors.bad(where, "a PrecisionType", precision, kind=errors.ArgumentTypeError)
        if precision is PrecisionType.Int8:
            raise errors.bad(
                where, "Float32, Half or Bfloat16", described="Int8",
                hint="bireme.quantization makes a model of 8-bit integers, which is saved and run as any other",
            )  # fmt: skip
        self._precision = precision

    # ------------------------------------------------------------ what runs it

    def set_executor(self, name: str) -> None:
        """Choose what runs the model.

        Args:
            name: ``"bireme"``, the engine; ``"onnxruntime"``; or one of ``register_executor``.

        Raises:
            ValueError: If there is none of this name.

        Examples:
            >>> config = bireme.inference.Config()
            >>> config.set_executor("onnxruntime")
            >>> config.executor(), config.onnxruntime_enabled()
            ('onnxruntime', True)
        """
        self._executor = check("set_executor(name)", name)

    def executor(self) -> str:
        """Return the name of what runs the model.

        Returns:
            A string, ``"bireme"`` where none was chosen.

        Examples:
            >>> bireme.inference.Config().executor()
            'bireme'
        """
        return self._executor

    def _delegated(self) -> bool:
        return self._executor != ENGINE

    def enable_onnxruntime(self) -> None:
        """Let ONNX Runtime run the model.

        Examples:
            >>> config = bireme.inference.Config()
            >>> config.enable_onnxruntime()
            >>> config.executor()
            'onnxruntime'
        """
        self._executor = OnnxRuntime.name

    def disable_onnxruntime(self) -> None:
        """Let the engine run the model, as without ``enable_onnxruntime``.

        Examples:
            >>> config = bireme.inference.Config()
            >>> config.disable_onnxruntime()
            >>> config.executor()
            'bireme'
        """
        self._executor = ENGINE

    def onnxruntime_enabled(self) -> bool:
        """Return whether ONNX Runtime runs the model.

        Returns:
            A bool.

        Examples:
            >>> bireme.inference.Config().onnxruntime_enabled()
            False
        """
        return self._executor == OnnxRuntime.name

    def set_cpu_math_library_num_threads(self, num_threads: int) -> None:
        """Set how many threads an executor may use; the engine uses all cores that the process may use.

        Args:
            num_threads: How many.

        Examples:
            >>> config = bireme.inference.Config()
            >>> config.set_cpu_math_library_num_threads(2)
            >>> config.cpu_math_library_num_threads()
            2
        """
        if isinstance(num_threads, bool) or not isinstance(num_threads, int) or num_threads < 1:
            raise errors.bad("set_cpu_math_library_num_threads(num_threads)", "a positive integer", num_threads)
        self._threads = self._settings["cpu_math_library_num_threads"] = num_threads

    def set_compiling(self, when: str) -> None:
        """Say when the engine compiles a program for the shapes of inputs.

        Args:
            when: ``"first"``: for the first shapes at once, for others when they have come eight times. ``"each"``: for all at once.
                ``"beside"``: no run waits; shapes are run uncompiled until their runs have taken about as long as the compiler
                does, then a thread compiles, and as many runs later its program takes over. All are decided by counts.

        Raises:
            ValueError: If it is none of these.

        Examples:
            >>> bireme.inference.Config().set_compiling("beside")
        """
        if when not in COMPILING:
            raise errors.bad("set_compiling(when)", f"one of {', '.join(map(repr, COMPILING))}", when)
        self._compiling = when

    # ------------------------------------------------------------ passes

    def switch_ir_optim(self, x: bool = True) -> None:
        """Say whether the graph is transformed, and compiled for shapes that come often.

        Args:
            x: Whether. Without it the model runs as dynamic code does. Default: True.

        Examples:
            >>> config = bireme.inference.Config()
            >>> config.switch_ir_optim(False)
            >>> config.ir_optim()
            False
        """
        self._settings["ir_optim"] = bool(x)

    def ir_optim(self) -> bool:
        """Return whether the graph is transformed and compiled.

        Returns:
            A bool.

        Examples:
            >>> bireme.inference.Config().ir_optim()
            True
        """
        return self._settings["ir_optim"]

    def pass_builder(self) -> PassBuilder:
        """Return the passes, to be looked at and changed.

        Returns:
            A ``PassBuilder``.

        Examples:
            >>> "fold_batch_norm" in bireme.inference.Config().pass_builder().all_passes()
            True
        """
        return self._passes

    def delete_pass(self, name: str) -> None:
        """Leave a pass out.

        Args:
            name: Its name, of ``pass_builder().all_passes()``; one that is not there is no error.

        Examples:
            >>> config = bireme.inference.Config()
            >>> config.delete_pass("channels_last")
            >>> "channels_last" in config.pass_builder().all_passes()
            False
        """
        self._passes.delete_pass(name)

    def enable_custom_passes(self, passes: list[str] = [], custom_pass_only: bool = False) -> None:  # noqa: B006 - as Paddle
        """Add passes.

        Args:
            passes: Names of ``jit.transforms``. Default: [].
            custom_pass_only: Whether no others are made. Default: False.

        Raises:
            ValueError: If a name is unknown.

        Examples:
            >>> config = bireme.inference.Config()
            >>> config.enable_custom_passes(["dead_code"], True)
            >>> config.pass_builder().all_passes()
            ['dead_code']
        """
        for name in passes:
            if name not in TRANSFORMS:
                raise errors.bad("enable_custom_passes(passes)", f"some of {', '.join(TRANSFORMS)}", name)
        kept = [] if custom_pass_only else self._passes.all_passes()
        self._passes.set_passes([*kept, *passes])

    def summary(self) -> str:
        """Return the settings as a table.

        Returns:
            A string of several lines.

        Examples:
            >>> print(bireme.inference.Config("model").summary().splitlines()[3])
            | model_file        | model   |
        """
        device = f"gpu:{self._gpu}" if self._gpu is not None else ":".join(map(str, self._device or ("cpu",)))
        rows = [
            ("Option", "Value"), ("model_file", self._program or self._dir), ("params_file", self._params),
            ("device", device), ("precision", self._precision.name), ("executor", self._executor),
            ("ir_optim", str(self.ir_optim()).lower()),
            ("passes", str(len(self._passes.all_passes()))),
        ]  # fmt: skip
        widths = [max(len(row[i]) for row in rows) for i in (0, 1)]
        widths[0] = max(widths[0], 17)
        line = "+" + "+".join(["-" * (w + 2) for w in widths]) + "+"
        text = [f"| {a:<{widths[0]}} | {b:<{widths[1]}} |" for a, b in rows]
        return "\n".join([line, text[0], line, *text[1:], line])


switches.install(Config)
