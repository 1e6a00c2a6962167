"""Code written for Paddle runs unchanged: `import paddle` means Bireme where it was asked for, and says plainly what is
missing.
"""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import bireme
from bireme.compat import absent as compat_absent
from tools import absent

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "examples" / "compat_script.py"


def python(*arguments, cwd=ROOT, **environment):
    """Run an interpreter that finds this Bireme, whatever the folder; what it wrote and how it ended."""
    env = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"} | environment
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def code(text, **environment):
    done = python(
        "-c",
        "from bireme.compat import install_as_paddle\ninstall_as_paddle()\n" + textwrap.dedent(text),
        **environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture
def script(tmp_path):
    def write(text, name="program.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text))
        return path

    return write


def test_modules_are_the_same_objects():
    said = code("""
        import bireme, importlib, sys
        import paddle, paddle.nn.functional as F
        from paddle.nn import Linear
        from paddle.tensor import normal
        import paddle.device.cuda, paddle.incubate.autograd as ia
        install_as_paddle()  # twice is fine
        pairs = [(paddle, bireme), (paddle.nn, bireme.nn), (F, bireme.nn.functional), (Linear, bireme.nn.Linear), (normal, bireme.normal),
                 (paddle.device.cuda, bireme.device.cuda), (ia, bireme.incubate.autograd), (sys.modules["paddle.optimizer"], bireme.optimizer)]
        assert all(a is b for a, b in pairs), pairs
        assert importlib.import_module("paddle.linalg") is bireme.linalg
        assert paddle.nn.__spec__.name == paddle.nn.__name__ == "bireme.nn"
        paddle.answer = 42
        print(bireme.answer, sum(isinstance(f, type(sys.meta_path[0])) for f in sys.meta_path))
    """)
    assert said == ["42 1"]


def test_inner_modules_of_paddle_are_found():
    said = code("""
        import bireme, paddle
        import paddle.nn.layer.conv
        from paddle.framework.io import load
        from paddle.io.dataloader.batch_sampler import BatchSampler
        from paddle.nn.functional.loss import cross_entropy
        from paddle.nn.layer import layers
        from paddle.nn.layer.rnn import RNNCellBase
        from paddle.tensor.manipulation import reshape
        pairs = [(load, bireme.load), (BatchSampler, bireme.io.BatchSampler), (cross_entropy, bireme.nn.functional.cross_entropy),
                 (layers.Layer, bireme.nn.Layer), (RNNCellBase, bireme.nn.RNNCellBase), (reshape, bireme.reshape),
                 (paddle.nn.layer.conv.Conv2D, bireme.nn.Conv2D), (paddle.nn.layer.MaxPool2D, bireme.nn.MaxPool2D),
                 (paddle.core.is_compiled_with_cuda, bireme.base.core.is_compiled_with_cuda)]
        print(all(a is b for a, b in pairs), hasattr(paddle.nn.layer, "zork"))
    """)
    assert said == ["True False"]


def test_every_public_module_has_its_name():
    said = code("""
        import importlib
        from tools import api_snapshot
        names = [module.__name__ for module in api_snapshot.public_modules()]
        wrong = [n for n in names if importlib.import_module("paddle" + n.removeprefix("bireme")) is not importlib.import_module(n)]
        print(len(names) > 20, wrong)
    """)
    assert said == ["True []"]


def test_inner_modules_have_their_names():
    said = code("""
        import paddle
        assert paddle.tensor.math.add is paddle.add and paddle.tensor.linalg.matmul is paddle.matmul  # not the modules of bireme.ops
        assert callable(paddle.tensor.einsum) and paddle.tensor.einsum is paddle.einsum
        assert paddle.nn.layer.norm.LayerNorm is paddle.nn.LayerNorm and issubclass(paddle.nn.BatchNorm1D, paddle.nn.layer.norm._BatchNormBase)
        assert issubclass(paddle.nn.initializer.NormalInitializer, paddle.nn.initializer.Normal)
        from paddle.base import unique_name
        from paddle.base.param_attr import ParamAttr
        from paddle.common_ops_import import check_type, convert_dtype
        from paddle.framework.io import load
        from paddle.io.dataloader.collate import default_collate_fn, default_convert_fn
        from paddle.incubate.optimizer.line_search_dygraph import _strong_wolfe
        from paddle.io.dataloader.worker import _generate_states, get_worker_info
        from paddle.nn.functional.loss import cross_entropy, edit_distance
        from paddle.optimizer.lbfgs import LBFGS, _cubic_interpolate
        from paddle.reader.decorator import shuffle
        from paddle.nn.initializer.initializer import Initializer
        from paddle.nn.layer.layers import Layer
        from paddle.nn.layer.transformer import MultiHeadAttention
        from paddle.optimizer.adamw import AdamW
        from paddle.optimizer.rprop import Rprop
        from paddle.common_ops_import import Variable, convert_np_dtype_to_dtype_
        from paddle.framework.io import EagerParamBase
        assert Variable is paddle.Tensor and isinstance(paddle.create_parameter([1], "float32"), EagerParamBase)
        assert paddle.device.core is paddle.base.core and paddle.paddle.zeros is paddle.zeros
        assert isinstance(paddle.__git_commit__, str)
        print(Layer is paddle.nn.Layer, ParamAttr is paddle.ParamAttr, unique_name.guard is paddle.utils.unique_name.guard, load is paddle.load)
    """)
    assert said == ["True True True True"]


def test_functions_append_operations_by_their_names():
    said = code("""
        import numpy as np
        import paddle
        from paddle.common_ops_import import LayerHelper
        from paddle.framework import LayerHelper as same

        def largest(input, k, act=None, name=None):
            helper = LayerHelper("largest", **locals())
            out = helper.create_variable_for_type_inference(helper.input_dtype())
            index = helper.create_variable_for_type_inference("int64")
            helper.append_op(type="top_k_v2", inputs={"X": helper.input()}, outputs={"Out": [out], "Indices": index}, attrs={"k": k})
            return helper.append_activation(helper.append_bias_op(out)), index

        x = paddle.to_tensor([[-1.0, -3.0, 2.0]], stop_gradient=False)
        out, index = largest(x, 2, "relu")
        out.sum().backward()
        print(same is LayerHelper, out.tolist(), index.tolist(), x.grad.tolist())
        helper = LayerHelper("mine", name="other")
        print(helper.create_parameter(paddle.ParamAttr(), [2], is_bias=True).name, helper.create_parameter(False, [2]))
        try:
            helper.append_op(type="zork", outputs={"Out": out})
        except ValueError as e:
            print(str(e).splitlines()[0])
        paddle.enable_static()
        out, index = largest(paddle.static.data("x", [1, 3]), 2)
        executor = paddle.static.Executor()
        executor.run(paddle.static.default_startup_program())
        print(out.shape, [a.tolist() for a in executor.run(feed={"x": np.array([[1, 5, 3.0]], "float32")}, fetch_list=[out, index])])
    """)
    assert said == [
        "True [[2.0, 0.0]] [[2, 0]] [[0.0, 0.0, 1.0]]",
        "other.b_0 None",
        "append_op(type): expected an operation that is known, got the operation 'zork', which is not known",
        "[1, 2] [[[5.0, 3.0]], [[1, 2]]]",
    ]


def test_setuptools_is_imported_before_pip(tmp_path):
    (tmp_path / "setuptools.py").write_text("")
    (tmp_path / "pip.py").write_text("import sys\nprint('setuptools' in sys.modules)\n")
    lines = f"import sys\nsys.modules.pop('setuptools', None)\nsys.path.insert(0, {str(tmp_path)!r})\nimport pip"
    assert code(lines) == ["True"]


def test_iterators_of_loaders_have_their_class():
    said = code("""
        from paddle.io import DataLoader
        from paddle.io.dataloader.dataloader_iter import _DataLoaderIterBase
        data = list(range(4))
        batches = iter(DataLoader(data, batch_size=2))
        print(isinstance(batches, _DataLoaderIterBase), batches._dataset is data, batches._batch_sampler.batch_size)
    """)
    assert said == ["True True 2"]


def test_versions_and_types_are_paddles():
    said = code("""
        import io
        import paddle
        print(paddle.__version__, paddle.version.full_version, paddle.version.major, paddle.version.minor, paddle.version.patch)
        print(paddle.float32, str(paddle.ones([1]).dtype), paddle.ones([1]).dtype == paddle.float32)
        bits, x = paddle.full([2], 1.5, "bfloat16").numpy(), paddle.zeros([2], "bfloat16")
        x.set_value(bits)
        print(bits.dtype, bits.tolist(), x.tolist(), paddle.to_tensor(bits).dtype, x.astype("float32").numpy().dtype)
        file = io.BytesIO()
        paddle.save({"x": x}, file)
        file.seek(0)
        print(paddle.load(file, return_numpy=True)["x"].tolist())
    """)
    bits = "[16320, 16320]"
    assert said == [
        "3.2.2 3.2.2 3 2 2",
        "paddle.float32 paddle.float32 True",
        f"uint16 {bits} [1.5, 1.5] paddle.bfloat16 float32",
        bits,
    ]


def test_what_is_missing_says_so():
    said = code("""
        import paddle
        from bireme.compat import absent

        # every name of Paddle's is there: some that a later version may have
        absent.names = lambda: {"incubate.later", "incubate.later.part", "incubate.later.other"}

        def attempt(what):
            try:
                exec(what)
            except (AttributeError, ImportError) as e:
                print(type(e).__name__, "|", e)

        attempt("paddle.incubate.later")
        attempt("paddle.incubate.later.part")
        attempt("import paddle.incubate.later")
        attempt("import paddle.incubate.later.other")
        attempt("from paddle.incubate import later")
        attempt("paddle.nn.Linaer")
        attempt("paddle.zork")
        attempt("paddle.tensor.zork")
        attempt("import paddle.zork")
        attempt("import paddle.nn.zork.deeper")
        attempt("from paddle.zork import x")
        attempt("from paddle.nn import Zork")
        print(hasattr(paddle, "zork"), getattr(paddle.nn, "zork", 7))
    """)
    assert said == [
        "AttributeError | bireme has no paddle.incubate.later yet",
        "AttributeError | bireme has no paddle.incubate.later yet",
        "ModuleNotFoundError | bireme has no paddle.incubate.later yet",
        "ModuleNotFoundError | bireme has no paddle.incubate.later yet",
        "ModuleNotFoundError | bireme has no paddle.incubate.later yet",
        "AttributeError | module 'paddle.nn' has no attribute 'Linaer'",
        "  hint: did you mean Linear or Layer?",
        "AttributeError | module 'paddle' has no attribute 'zork'",
        "AttributeError | module 'paddle.tensor' has no attribute 'zork'",
        "ModuleNotFoundError | No module named 'paddle.zork'",
        "ModuleNotFoundError | No module named 'paddle.nn.zork'",
        "ModuleNotFoundError | No module named 'paddle.zork'",
        "ModuleNotFoundError | No module named 'paddle.nn.Zork'",
        "False 7",
    ]


@pytest.mark.parametrize(("owner", "name", "told"), [
    (bireme.incubate, "later", r"^bireme has no paddle\.incubate\.later yet$"),
    (bireme.nn, "Linaer", r"^module 'bireme\.nn' has no attribute 'Linaer'\n  hint: did you mean Linear or Layer\?$"),
    (bireme.incubate, "infrence", r"^module 'bireme\.incubate' has no attribute 'infrence'\n  hint: did you mean inference"),
    (bireme, "zork", r"^module 'bireme' has no attribute 'zork'$"),
])  # fmt: skip
def test_the_same_is_said_without_the_alias(owner, name, told, monkeypatch):
    monkeypatch.setattr(compat_absent, "names", lambda: {"incubate.later"})
    with pytest.raises(AttributeError, match=told):
        getattr(owner, name)


def test_the_list_of_what_is_missing_is_up_to_date():
    assert absent.PATH.read_text().split() == absent.names(), "run `make api`"


def test_the_other_paddle_comes_first(tmp_path):
    (tmp_path / "paddle.py").write_text("answer = 1")
    done = python(
        "-c",
        "import paddle\nfrom bireme.compat import install_as_paddle\ninstall_as_paddle()",
        PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}",
    )
    assert done.returncode == 1
    assert "RuntimeError: install_as_paddle(): expected to come before the first `import paddle`" in done.stderr
    assert "hint: " in done.stderr


def test_without_asking_nothing_changes():
    done = python(
        "-c", "import sys, bireme\nprint('paddle' in sys.modules, bireme.float32, bireme.__version__ == '3.2.2')"
    )
    assert done.stdout.split() == ["False", "bireme.float32", "False"]


def test_a_script_with_arguments(script):
    path = script("""
        import sys
        import paddle
        if __name__ == "__main__":
            print(sys.argv[1:], __file__, sys.path[0], paddle.ones([2]).tolist())
            sys.exit(3)
    """)
    done = python("-m", "bireme.compat", path, "--epochs", "3", "-h")
    assert done.stdout.strip() == f"['--epochs', '3', '-h'] {path} {path.parent} [1.0, 1.0]"
    assert done.returncode == 3


def test_a_module(script, tmp_path):
    script("import sys, paddle\nprint(sys.argv[1:], __name__, paddle.__name__)", "part.py")
    done = python("-m", "bireme.compat", "-m", "part", "a", cwd=tmp_path)
    assert done.stdout.strip() == "['a'] __main__ bireme"


def test_tracebacks_start_at_the_program(script):
    path = script("""
        import paddle

        def reshape(x):
            return x.reshape([5])

        reshape(paddle.ones([2, 3]))
    """)
    done = python("-m", "bireme.compat", path)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].strip() == f'File "{path}", line 7, in <module>'
    assert "runpy" not in done.stderr
    assert "compat" + os.sep + "__main__" not in done.stderr
    assert "reshape(shape): expected" in done.stderr
    bad = script("def f(:", "bad.py")
    assert "runpy" not in (said := python("-m", "bireme.compat", bad).stderr)
    assert "SyntaxError" in said


def test_processes_that_a_script_starts(script):
    path = script("""
        import multiprocessing, subprocess, sys
        import paddle

        def work(queue):
            queue.put((paddle.__name__, paddle.ones([2]).tolist()))

        if __name__ == "__main__":
            context = multiprocessing.get_context("spawn")
            queue = context.Queue()
            process = context.Process(target=work, args=(queue,))
            process.start()
            print(queue.get(timeout=120))
            process.join()
            print(subprocess.run([sys.executable, "-c", "import paddle.nn; print(paddle.__name__)"], capture_output=True, text=True).stdout.strip())
    """)
    assert python("-m", "bireme.compat", path).stdout.splitlines() == ["('bireme', [1.0, 1.0])", "bireme"]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--help"], 0, "run a module instead"),
        (["-h"], 0, "usage: python -m bireme.compat"),
        ([], 2, "expected a script or -m and a module"),
        (["-m"], 2, "expected a script or -m and a module"),
        (["--zork"], 2, "expected a script, -m or -h, got --zork"),
        (["nowhere.py"], 2, "got nowhere.py, which does not exist"),
    ],
)
def test_the_command(arguments, status, said):
    done = python("-m", "bireme.compat", *arguments)
    assert done.returncode == status
    assert said in done.stdout + done.stderr


def test_a_program_prints_what_it_prints_under_paddle():
    """The expected text is what PaddlePaddle 3.2.2 printed for the same file."""
    done = python("-m", "bireme.compat", SCRIPT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == (ROOT / "tests" / "expected" / "compat_script.txt").read_text().splitlines()
