"""Operators in C++: compiled once, called in every mode, differentiated, saved, and told apart from what is no such library."""

import importlib
import importlib.util
import os
import shutil
import sys
import threading
from pathlib import Path

import jax
import numpy as np
import pytest

import bireme
from bireme.core.base import device, registry
from bireme.core.declare import foreign
from bireme.core.xla_exec.program_names import Names
from bireme.files import program_files
from bireme.utils import cpp_extension
from bireme.utils.cpp_extension import compiler, cuda

SOURCE = Path(__file__).with_name("cpp_extension_ops.cc")
QUICK = ["-O0"]


def has_compiler() -> bool:
    try:
        compiler.command()
    except FileNotFoundError:
        return False
    return True


needs_compiler = pytest.mark.skipif(not has_compiler(), reason="there is no C++ compiler here")


@pytest.fixture(scope="module")
def ops(tmp_path_factory):
    known = set(registry.OPS)
    folder = tmp_path_factory.mktemp("built")
    yield cpp_extension.load("test_ops", [SOURCE], QUICK, build_directory=folder)
    for name in set(registry.OPS) - known:
        del registry.OPS[name]


def tensor(*values, **options):
    return bireme.to_tensor(np.array(values, np.float32), stop_gradient=False, **options)


@needs_compiler
@pytest.mark.parametrize("executor", ["xla", "interpreter"])
def test_values_and_gradients(ops, executor):
    with bireme.debug.use_executor(executor):
        x = tensor(-2, 3)
        y = ops.leaky(x, slope=0.5)
        (y * bireme.to_tensor([10.0, 100.0])).sum().backward()
        assert y.tolist() == [-1, 3] and x.grad.tolist() == [5, 100]
        assert ops.leaky(tensor(), 0.5).tolist() == []
        assert ops.leaky(bireme.to_tensor(-2.0), 0.5).item() == -1  # without an axis


@needs_compiler
@pytest.mark.parametrize("executor", ["xla", "interpreter"])
def test_second_derivative(ops, executor):
    with bireme.debug.use_executor(executor):
        x = tensor(1, -2)
        (first,) = bireme.grad(ops.cube(x).sum(), x, create_graph=True)
        (second,) = bireme.grad((first * bireme.to_tensor([1.0, 10.0])).sum(), x)
        assert first.tolist() == [3, 12] and second.tolist() == [6, -120]


@needs_compiler
def test_no_second_derivative_is_told(ops):
    x = tensor(1, -2)
    with pytest.raises(NotImplementedError, match=r"leaky: expected PD_BUILD_DOUBLE_GRAD_OP\(leaky\) for a second"):
        (first,) = bireme.grad(ops.leaky(x, 0.5).sum(), x, create_graph=True)
        bireme.grad((first * x).sum(), x)[0].numpy()


@needs_compiler
@pytest.mark.parametrize("executor", ["xla", "interpreter"])
@pytest.mark.parametrize("bias", [None, 100.0])
def test_lists_what_is_left_out_and_attributes(ops, executor, bias):
    with bireme.debug.use_executor(executor):
        xs = [tensor(1, 2), tensor(3, 4)]
        given = None if bias is None else bireme.to_tensor([bias])
        total, told = ops.weighted(xs, given, [0.5, 0.25], [7, 1 << 40], True, "naïve: \n", 3)
        total.sum().backward()
        np.testing.assert_array_equal(total.numpy(), np.float32([2.5, 4]) + (bias or 0))
        assert told.tolist() == [7, 1 << 40, 3 + len("naïve: \n".encode())] and told.dtype is bireme.int64
        assert [x.grad.tolist() for x in xs] == [[1, 1], [0.5, 0.5]]


@needs_compiler
@pytest.mark.parametrize("executor", ["xla", "interpreter"])
def test_every_dtype_reaches_the_kernel_as_it_is(ops, executor):
    with bireme.debug.use_executor(executor):
        for name in (
            "bool",
            "uint8",
            "int8",
            "int16",
            "int32",
            "int64",
            "float16",
            "bfloat16",
            "float32",
            "float64",
            "complex64",
            "complex128",
        ):
            x = bireme.to_tensor(np.array([[0, 1], [2, 3]]).T).astype(
                name
            )  # columns: what is not in order is put in order
            y = ops.same(x)
            assert y.dtype is x.dtype and y.stop_gradient
            np.testing.assert_array_equal(y.numpy(), x.numpy())
        for name, dtype in (("float16", bireme.float16), ("bfloat16", bireme.bfloat16)):
            values = np.float32([0, -1.5, 3.0e-3, 1.0e-3, 65504.0 ** (1 / 3), np.inf, np.nan])
            x = bireme.to_tensor(values).astype(name)
            wanted = bireme.to_tensor(x.astype("float32").numpy() ** 3).astype(dtype)
            np.testing.assert_array_equal(ops.cube(x).astype("float32").numpy(), wanted.astype("float32").numpy())


@needs_compiler
def test_static_mode(ops):
    bireme.enable_static()
    try:
        program = bireme.static.Program()
        with bireme.static.program_guard(program):
            x = bireme.static.data("x", [None, 2], "float32")
            y = ops.leaky(x, 0.5)
            assert list(y.shape) == [-1, 2]
        (got,) = bireme.static.Executor().run(program, feed={"x": np.float32([[-2, 3]])}, fetch_list=[y])
    finally:
        bireme.disable_static()
    assert got.tolist() == [[-1, 3]]


@needs_compiler
def test_saved_programs_name_the_operator(ops, tmp_path, monkeypatch):
    class Net(bireme.nn.Layer):
        def forward(self, x):
            return ops.leaky(x, 0.5) * 2

    net = bireme.jit.to_static(Net())
    x = tensor(-2, 3)
    assert net(x).tolist() == [-2, 6]
    bireme.jit.save(net, str(tmp_path / "net"), [bireme.static.InputSpec([None], "float32", "x")])
    again = bireme.jit.load(str(tmp_path / "net"))
    assert again(x).tolist() == [-2, 6] and again(tensor(-1, -1, -1)).tolist() == [-1, -1, -1]
    monkeypatch.delitem(registry.OPS, "leaky")
    with pytest.raises(RuntimeError, match="the program calls 'leaky', an operator of an extension that is not loaded"):
        bireme.jit.load(str(tmp_path / "net"))


def test_a_file_cannot_call_an_operator_of_bireme_as_an_extension():
    with pytest.raises(RuntimeError, match="not loaded"):
        program_files.call_of("extension.add")


@needs_compiler
@pytest.mark.parametrize("executor", ["xla", "interpreter"])
def test_errors_of_kernels_are_told(ops, executor):
    with bireme.debug.use_executor(executor):
        with pytest.raises(RuntimeError, match="leaky_kernel is not there for int64"):
            ops.leaky(bireme.to_tensor([1, 2]), 0.5).numpy()
        with pytest.raises(RuntimeError, match=r"the kernel returns float32 \[7\] where float32 \[2\] was inferred"):
            ops.wrong(tensor(1, 2)).numpy()


@needs_compiler
def test_errors_of_calls_are_told(ops):
    with pytest.raises(TypeError, match=r"leaky\(x\): expected a Tensor, got 'a'"):
        ops.leaky("a", 0.5)
    with pytest.raises(
        RuntimeError, match=r"weighted: expected weights.size\(\) == xs.size\(\). a weight for each tensor"
    ):
        ops.weighted([tensor(1)], None, [0.5, 1.0], [], False, "", 1)
    with pytest.raises(TypeError, match=r"weighted\(more\): expected a list of integers, got \(1.5,\)"):
        ops.weighted([tensor(1)], None, [0.5], [1.5], False, "", 1)
    with pytest.raises(ValueError, match=r"weighted\(n\): expected integers of 32 bits, got 4294967296"):
        ops.weighted([tensor(1)], None, [0.5], [1], False, "", 1 << 32)


@needs_compiler
def test_threads(ops):
    found = {}

    def work(n):
        x = tensor(-n, n)
        for _ in range(20):
            x.clear_grad()
            y = ops.leaky(x, 0.5)
            y.sum().backward()
        found[n] = y.tolist(), x.grad.tolist()

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2, 4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == {n: ([-n / 2, n], [0.5, 1]) for n in (1, 2, 4)}


@needs_compiler
def test_programs_for_other_platforms_call_back_to_the_host(ops, monkeypatch):
    monkeypatch.setattr(jax.lax, "platform_dependent", lambda *arrays, cpu, default: default(*arrays))
    for made in (ops.leaky.op, ops.cube.op, ops.same.op):
        monkeypatch.setattr(made, "lowerings", {})
        monkeypatch.setattr(made, "grad_lowerings", {})
    with bireme.debug.use_executor("xla"):
        x = bireme.to_tensor(
            np.array([-2, 1 + 1e-12, 5]), stop_gradient=False
        )  # a shape of its own: nothing is compiled yet
        y = ops.leaky(x, 0.5)
        y.sum().backward()
        assert y.numpy().tolist() == [-1, 1 + 1e-12, 5] and x.grad.tolist() == [0.5, 1, 1]
        assert ops.same(bireme.to_tensor([1 << 40, 2, 3])).tolist() == [1 << 40, 2, 3]
        z = tensor(1, -2, 3)
        (first,) = bireme.grad(ops.cube(z).sum(), z, create_graph=True)
        assert bireme.grad(first.sum(), z)[0].tolist() == [6, -12, 18]


def test_programs_that_call_back_are_not_kept_on_disk():
    """Which function they call is a number, and another process gives it to another one."""

    def called(x):
        return jax.pure_callback(lambda v: v, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    names = Names(device.current())
    names._around = "here"
    x = np.zeros(2, np.float32)
    assert names.text(jax.jit(called).lower(x), {}, (x,)) is None
    assert names.text(jax.jit(jax.numpy.sin).lower(x), {}, (x,)) is not None


def declared(**changed):
    told = {
        "name": "f",
        "order": 0,
        "inputs": ["X"],
        "outputs": ["Out"],
        "attrs": [],
        "kernel": True,
        "shape": False,
        "type": False,
        "writes": False,
    }
    return foreign.Kernel(None, 0, told | changed)


@pytest.mark.parametrize(
    ("kernels", "message"),
    [
        ([declared(kernel=False)], r"PD_BUILD_OP\(f\): expected an operator that can be called, got no SetKernelFn"),
        ([declared(writes=True)], "SetInplaceMap, but kernels cannot change their inputs"),
        ([declared(attrs=["a: float*"])], "an attribute of type 'float\\*'"),
        ([declared(inputs=["G"])], "'g' as the name of an input"),
        ([declared(inputs=["X", "x"])], "two inputs of one name"),
        ([declared(outputs=["Out@VECTOR"])], "a list of outputs"),
        ([declared(inputs=["X", "Y"])], "without SetInferShapeFn"),
        ([declared(order=1)], "a gradient of what is not declared"),
        (
            [declared(), declared(order=1, inputs=["Z"], outputs=["X@GRAD"])],
            r"PD_BUILD_GRAD_OP\(f\).*'Z' in its gradient",
        ),
        ([declared(), declared(order=1, inputs=["X"], outputs=["Z@GRAD"])], "'Z@GRAD' in its gradient"),
    ],
)
def test_declarations_are_checked(kernels, message):
    class Library:
        pass

    library = Library()
    library.kernels = kernels
    with pytest.raises(ValueError, match=message):
        foreign.declare(library, "module")


@needs_compiler
def test_contents_decide_what_is_compiled_again(tmp_path):
    source, header, built = tmp_path / "a b.cc", tmp_path / "c d.h", tmp_path / "built"
    header.write_text("int value() { return 1; }\n")
    source.write_text('#include "c d.h"\n')
    first = compiler.build("it", [source], folder=built)
    made = first.stat().st_mtime_ns
    assert compiler.build("it", [source], folder=built) == first and first.stat().st_mtime_ns == made
    header.write_text("int value() { return 2; }\n")
    second = compiler.build("it", [source], folder=built)
    assert second != first and first.exists()
    assert compiler.build("it", [source], flags=["-DA"], folder=built) not in (first, second)
    assert not [p for p in built.iterdir() if p.name.startswith(".")]


@needs_compiler
def test_a_folder_that_others_can_write_to_is_refused(tmp_path, monkeypatch):
    source = tmp_path / "a.cc"
    source.write_text("")
    shared = tmp_path / "all"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(PermissionError, match="expected a folder that nobody else can write to"):
        cpp_extension.load("it", [source], build_directory=shared)
    monkeypatch.setenv("BIREME_EXTENSION_DIR", str(shared))
    with pytest.raises(PermissionError, match="not 700"):
        cpp_extension.get_build_directory()
    monkeypatch.setenv("BIREME_EXTENSION_DIR", str(tmp_path / "own"))
    assert os.stat(cpp_extension.get_build_directory()).st_mode & 0o777 == 0o700
    library = compiler.build("it", [source], folder=tmp_path / "own")
    library.chmod(0o722)  # somebody may have written to it: it is made again
    assert compiler.build("it", [source], folder=tmp_path / "own").stat().st_mode & 0o777 == 0o700


@needs_compiler
def test_what_does_not_compile_is_told_with_its_line(tmp_path):
    source = tmp_path / "bad.cc"
    source.write_text("int a;\nint f() { return missing; }\n")
    with pytest.raises(
        RuntimeError, match=r"bad.cc:2: '?missing'? was not declared|bad.cc:2: use of undeclared"
    ) as caught:
        cpp_extension.load("bad", [source], build_directory=tmp_path)
    log = Path(str(caught.value).split("all that the compiler says is in ")[1].splitlines()[0])
    assert "missing" in log.read_text() and str(source) in log.read_text()
    source.write_text("")
    with pytest.raises(RuntimeError, match=r"got .*no_such_library"):
        cpp_extension.load("bad", [source], extra_ldflags=["-lno_such_library"], build_directory=tmp_path)
    with pytest.raises(OSError, match="expected a library of operators in C\\+\\+"):
        cpp_extension.load("bad", [source], build_directory=tmp_path)


def test_without_a_compiler(tmp_path, monkeypatch):
    source = tmp_path / "a.cc"
    source.write_text("")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler -x")
    with pytest.raises(
        FileNotFoundError, match=r"load\(\): expected a C\+\+ compiler, got none\n  hint: install g\+\+"
    ):
        cpp_extension.load("it", [source], build_directory=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a-b", ["a.cc"]), r"load\(name\): expected a name that a module can have, got 'a-b'"),
        (("a", "a.cc"), r"load\(sources\): expected a list of paths, got 'a.cc'"),
        (("a", []), r"load\(sources\): expected at least one source"),
        (("a", ["a.f90"]), r"load\(sources\): expected files of C\+\+ .* or CUDA \(.cu\), got '.*a.f90'"),
        (("a", ["/no/a.cc"]), r"load\(sources\): expected a file, got '/no/a.cc'"),
        (("a", ["a.cc"], "-O3"), r"load\(extra_cxx_cflags\): expected a list of str, got '-O3'"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises((ValueError, OSError), match=message):
        cpp_extension.load(*arguments)


@needs_compiler
def test_a_package(ops, tmp_path, monkeypatch):
    pytest.importorskip("setuptools", reason="packages are built by setuptools")
    monkeypatch.chdir(tmp_path)
    # the operators again, under a name of the package's own
    source = tmp_path / "packaged.cc"
    source.write_text(
        '#include "bireme/extension.h"\n'
        "std::vector<paddle::Tensor> Same(const paddle::Tensor& x) { return {x}; }\n"
        'PD_BUILD_OP(PACKAGED).Inputs({"X"}).Outputs({"Out"}).SetKernelFn(PD_KERNEL(Same));\n'.replace(
            "PACKAGED", "packaged"
        )
    )
    extension = cpp_extension.CppExtension(["packaged.cc"], extra_compile_args={"cxx": QUICK})
    cpp_extension.setup(
        name="packaged_ops",
        ext_modules=extension,
        script_args=["-q", "build_ext", "--build-lib", "lib", "--build-temp", "temp"],
    )
    spec = importlib.util.spec_from_file_location("packaged_ops", tmp_path / "lib" / "packaged_ops.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.packaged(tensor(1, 2)).tolist() == [1, 2]
    assert module.packaged.__module__ == "packaged_ops"
    library = tmp_path / "lib" / "packaged_ops_ops.so"
    assert cpp_extension.load_op_meta_info_and_register_op(str(library)) == ["packaged"]
    steps = importlib.import_module("bireme.utils.cpp_extension.extension_utils")
    imported = steps._import_module_from_library("packaged_ops", str(tmp_path / "lib"))
    assert imported.packaged(tensor(3)).tolist() == [3]


def test_a_setup_file_is_run_with_paddle_as_bireme(tmp_path):
    steps = importlib.import_module("bireme.utils.cpp_extension.extension_utils")
    file = tmp_path / "setup.py"
    file.write_text("import sys, paddle\nopen('told', 'w').write(f'{paddle.__name__} {sys.argv[1]}')\n")
    steps._jit_compile(str(file))
    assert (tmp_path / "told").read_text() == "bireme build"
    file.write_text("raise SystemExit('no sources')")
    with pytest.raises(RuntimeError, match=r"could not build its extension: no sources"):
        steps._jit_compile(str(file))


def test_packages_find_the_inner_names():
    pytest.importorskip("setuptools", reason="packages are built by setuptools")
    inner = importlib.import_module("bireme.utils.cpp_extension.cpp_extension")
    assert inner.BuildExtension is cpp_extension.BuildExtension
    assert inner.CppExtension is cpp_extension.CppExtension and inner.CUDAExtension is cpp_extension.CUDAExtension


# ---------------------------------------------------------------- CUDA

CUDA_SOURCE = Path(__file__).with_name("cuda_extension_ops.cu")
NVCC = """#!{python}
# in the place of nvcc: notes what it is told, and compiles for the host alone
import os, sys
from pathlib import Path
Path(sys.argv[0] + ".log").write_text("\\n".join(sys.argv[1:]))
words, given = ["c++", "-x", "c++"], iter(sys.argv[1:])
for word in given:
    if word == "-ccbin":
        next(given)
    elif word == "-Xcompiler":
        words.append(next(given))
    elif not word.startswith(("-arch", "-gencode")):
        words.append(word)
os.execvp("c++", words)
"""
RUNTIME = """#pragma once
#include <stddef.h>
typedef struct CUstream_st* cudaStream_t;
typedef enum { cudaSuccess } cudaError_t;
enum { cudaMemcpyDefault = 4 };
extern "C" cudaError_t cudaMemcpyAsync(void*, const void*, size_t, int, cudaStream_t);
extern "C" cudaError_t cudaStreamSynchronize(cudaStream_t);
extern "C" cudaError_t cudaGetLastError();
extern "C" const char* cudaGetErrorString(cudaError_t);
"""


@pytest.fixture
def no_cuda(monkeypatch, tmp_path):
    """An environment in which there is no CUDA."""
    for name in ("CUDA_HOME", "CUDA_PATH", "PADDLE_CUDA_ARCH_LIST"):
        monkeypatch.delenv(name, raising=False)
    find = shutil.which
    monkeypatch.setattr(cuda.shutil, "which", lambda name: None if name == "nvcc" else find(name))
    monkeypatch.setattr(cuda, "_wheels", lambda: iter([tmp_path / "nvidia" / "cuda_nvcc"]))
    monkeypatch.setattr(cuda, "USUAL", tmp_path / "nowhere")
    return tmp_path


@pytest.fixture
def cuda_home(no_cuda, monkeypatch):
    """A folder that has what stands in for CUDA."""
    root = no_cuda / "cuda"
    for name, text in (
        ("bin/nvcc", NVCC.format(python=sys.executable)),
        ("include/cuda_runtime_api.h", RUNTIME),
        ("lib64/runtime.cc", RUNTIME.split("extern")[0] + RUNTIME_BODY),
    ):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(text)
    (root / "bin/nvcc").chmod(0o700)
    done = compiler.run(["c++", "-shared", "-fPIC", "runtime.cc", "-o", "libcudart.so.12"], root / "lib64", True)
    assert done[0] == 0, done[1]
    monkeypatch.setenv("CUDA_HOME", str(root))
    return root


RUNTIME_BODY = """
extern "C" cudaError_t cudaMemcpyAsync(void*, const void*, size_t, int, cudaStream_t) { return cudaSuccess; }
extern "C" cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
extern "C" cudaError_t cudaGetLastError() { return cudaSuccess; }
extern "C" const char* cudaGetErrorString(cudaError_t) { return "?"; }
"""


def test_where_no_nvcc_is_it_is_told(no_cuda):
    with pytest.raises(
        FileNotFoundError, match=r"load\(\): expected CUDA's compiler nvcc for sources .* got none"
    ) as e:
        cpp_extension.load("gpu_ops", [CUDA_SOURCE], build_directory=no_cuda)
    assert "CUDA_HOME" in str(e.value)


@needs_compiler
def test_the_command_for_sources_of_cuda(cuda_home, monkeypatch):
    monkeypatch.setenv("CXX", "c++ -g0")
    found = compiler.commands([CUDA_SOURCE, SOURCE], ["-O0"], ["/mine"], ["--use_fast_math"])
    by_nvcc = found["cuda"]
    assert by_nvcc[:2] == [str(cuda_home / "bin/nvcc"), "-ccbin"] and by_nvcc[2].endswith("c++")
    for word in ("-fPIC", "-fvisibility=hidden", "-g0"):
        assert by_nvcc[by_nvcc.index(word) - 1] == "-Xcompiler"
    assert {"-std=c++17", "-I/mine", "--use_fast_math", f"-I{cuda_home / 'include'}"} <= set(by_nvcc)
    assert sum(word.startswith("-arch") for word in by_nvcc) == 1 and "-O0" not in by_nvcc
    assert "-DPADDLE_WITH_CUDA" in by_nvcc and "-DPADDLE_WITH_CUDA" in found["c++"] and "-O0" in found["c++"]
    assert list(compiler.commands([SOURCE], [], [], [])) == ["c++"]
    library = str(cuda_home / "lib64/libcudart.so.12")
    assert cuda.linking() == [library, f"-Wl,-rpath,{cuda_home / 'lib64'}"]
    monkeypatch.setenv("PADDLE_CUDA_ARCH_LIST", "8.0;9.0a")
    chips = [x for x in compiler.commands([CUDA_SOURCE], [], [], [])["cuda"] if "arch" in x]
    assert chips == ["-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90a,code=sm_90a"]
    assert not any("code=sm" in x for x in compiler.commands([CUDA_SOURCE], [], [], ["-arch=sm_75"])["cuda"])
    monkeypatch.setenv("PADDLE_CUDA_ARCH_LIST", "Hopper")
    with pytest.raises(
        ValueError, match=r"PADDLE_CUDA_ARCH_LIST: expected versions of chips, as '8.0;9.0', got 'Hopper'"
    ):
        compiler.commands([CUDA_SOURCE], [], [], [])


@needs_compiler
def test_a_package_has_nvcc(no_cuda, monkeypatch):
    wheel = no_cuda / "nvidia" / "cuda_nvcc"
    (wheel / "bin").mkdir(parents=True)
    (wheel / "bin" / "nvcc").touch()
    assert cuda.home() == wheel
    with pytest.raises(FileNotFoundError, match=r"expected the headers of CUDA's runtime beside .*cuda_nvcc, got none"):
        compiler.commands([CUDA_SOURCE], [], [], [])
    (wheel / "include").mkdir()
    (wheel / "include" / "cuda_runtime_api.h").touch()
    assert cuda.headers() == [wheel / "include"]
    with pytest.raises(FileNotFoundError, match=r"expected CUDA's runtime, libcudart.so, beside .*cuda_nvcc, got none"):
        cuda.linking()


@needs_compiler
def test_sources_of_cuda_and_cpp_become_one_library(cuda_home):
    known, other = set(registry.OPS), cuda_home / "other.cc"
    other.write_text(
        '#include "paddle/extension.h"\n#ifndef PADDLE_WITH_CUDA\n#error no CUDA\n#endif\n'
        "std::vector<paddle::Tensor> Same(const paddle::Tensor& x) { return {x}; }\n"
        'PD_BUILD_OP(same_there).Inputs({"X"}).Outputs({"Out"}).SetKernelFn(PD_KERNEL(Same));\n'
    )
    try:
        made = cpp_extension.load(
            "gpu_ops", [CUDA_SOURCE, other], QUICK, ["-arch=sm_90", *QUICK], build_directory=cuda_home
        )
        told = (cuda_home / "bin/nvcc.log").read_text().split("\n")
        assert "-arch=sm_90" in told and str(CUDA_SOURCE) in told and str(other) not in told
        x = tensor(1, -2)
        y = made.scaled_on_gpu(x, 3.0)  # on the host: it is a library as any other
        y.sum().backward()
        assert y.tolist() == [3, -6] and x.grad.tolist() == [3, 3]
        assert made.on_gpu(x).tolist() == [0, 0] and made.same_there(x).tolist() == [1, -2]
        assert foreign.loaded(made.__file__).on_gpu
    finally:
        for name in set(registry.OPS) - known:
            del registry.OPS[name]


def test_extensions_for_setup():
    made = cpp_extension.CUDAExtension(["a.cc", "a.cu"], extra_compile_args={"cxx": ["-O3"], "nvcc": ["-lineinfo"]})
    assert made.extra_compile_args == ["-O3"] and made.nvcc_flags == ["-lineinfo"] and made.language == "c++"
    with pytest.raises(ValueError, match=r"CppExtension\(sources\): .*\n  hint: CUDAExtension takes sources in CUDA"):
        compiler.checked_sources("CppExtension(sources)", [CUDA_SOURCE], on_gpu=False)
