"""What shipped code must not do: run strings as code, unpickle, start a shell, swallow every error, print.

There are five exceptions. `jit/conversion.py` compiles the source of a function that the user runs anyway, rewritten.
`utils/cpp_extension/compiler.py` starts the C++ compiler on sources that the user names, to load the result: no library offers
that with the compiler's output, but by a subprocess of its own. `distributed/launch/job.py` starts the program that the user
names on the command line, once per rank, and `core/processes/server.py` the service of a job without a launcher;
`distributed/programs.py` does so for parameter servers, and starts commands that the user gives to read data, and Hadoop's
client. They give their arguments as a list, and no shell reads them. The second
half looks through every tracked file for paths of somebody's machine and for package registries, neither of which belongs into a project that others clone,
and for checks that are turned off without a reason.
"""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = sorted((ROOT / "bireme").rglob("*.py"))
ALLOWED = {
    ROOT / "bireme" / "jit" / "conversion.py": ["builtin compile"],
    ROOT / "bireme" / "utils" / "cpp_extension" / "compiler.py": ["import of subprocess"],
    ROOT / "bireme" / "distributed" / "launch" / "job.py": ["import of subprocess"],
    ROOT / "bireme" / "core" / "processes" / "server.py": ["import of subprocess"],
    ROOT / "bireme" / "distributed" / "programs.py": ["import of subprocess"],
}

RUNS_CODE = {"eval", "exec", "compile", "__import__", "breakpoint"}
BUILTINS = {"builtins", "__builtins__"}
MODULES = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "subprocess", "pty"}
OS_CALLS = re.compile(r"system|popen|exec[lv]p?e?|spawn[lv]p?e?|posix_spawnp?|startfile")
TOO_BROAD = {"Exception", "BaseException"}


def bound_names(tree: ast.Module) -> set[str]:
    """Names that the module gives a meaning of its own, so that they are not the builtins any more."""
    names = set()
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)) and getattr(node, "module", None) != "builtins":
            names |= {alias.asname or alias.name for alias in node.names}
    return names


def offences(text: str) -> list[str]:
    """`line: what`, for everything in the source that shipped code must not do."""
    tree = ast.parse(text)
    own = bound_names(tree)
    return [f"{node.lineno}: {what}" for node in ast.walk(tree) for what in _offence(node, own)]


def _offence(node: ast.AST, own: set[str]) -> list[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Load()) if name in RUNS_CODE | {"__builtins__"} and name not in own:
            return [f"builtin {name}"]
        case ast.Attribute(value=ast.Name(id=base), attr=name) if base in BUILTINS and name in RUNS_CODE:
            return [f"builtin {name}"]
        case ast.Attribute(value=ast.Name(id="os"), attr=name) if OS_CALLS.fullmatch(name):
            return [f"os.{name}"]
        case ast.Import(names=names):
            return [f"import of {a.name}" for a in names if a.name.split(".")[0] in MODULES]
        case ast.ImportFrom(module=module, names=names, level=0):
            if module.split(".")[0] in MODULES:
                return [f"import of {module}"]
            banned = {"os": OS_CALLS.fullmatch, "builtins": RUNS_CODE.__contains__}.get(module, lambda name: False)
            return [f"import of {module}.{a.name}" for a in names if banned(a.name)]
        case ast.ExceptHandler(type=None):
            return ["bare except"]
        case ast.ExceptHandler(type=kind):
            broad = {name for name in _names(kind) if name in TOO_BROAD}
            return [f"except {name}" for name in broad if name == "Exception" or swallows(node)]
        case ast.Call(func=func, args=args, keywords=keywords):
            return _call_offence(func, args, keywords, own)
    return []


def swallows(handler: ast.ExceptHandler) -> bool:
    """Whether an error caught here may vanish. One that undoes a half-made step and raises again is what
    `except BaseException` is for: an interrupt has to undo it too.
    """
    leaves = any(isinstance(n, (ast.Return, ast.Break, ast.Continue)) for n in ast.walk(handler))
    return leaves or not isinstance(handler.body[-1], ast.Raise)


def _call_offence(func: ast.expr, args: list[ast.expr], keywords: list[ast.keyword], own: set[str]) -> list[str]:
    found = []
    name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
    given = {k.arg: k.value for k in keywords}
    if isinstance(func, ast.Name) and name == "print" and "print" not in own:
        found.append("print")
    if isinstance(func, ast.Attribute) and name == "warn" and _names(func.value) == ["warnings"]:
        found.append("warnings.warn")  # `errors.warn` finds the user's line
    if name == "suppress" and TOO_BROAD & {n for a in args for n in _names(a)}:
        found.append("suppress of every error")
    if name in ("import_module", "__import__") and args and isinstance(args[0], ast.Constant):
        if str(args[0].value).split(".")[0] in MODULES:
            found.append(f"import of {args[0].value}")
    if name == "getattr" and len(args) > 1 and isinstance(args[1], ast.Constant):
        if set(_names(args[0])) & BUILTINS and args[1].value in RUNS_CODE:
            found.append(f"builtin {args[1].value}")
    # anything but a plain False may turn out true
    for option in ("shell", "allow_pickle"):
        if option in given and not (isinstance(given[option], ast.Constant) and given[option].value is False):
            found.append(f"{option}= other than False")
    return found


def _names(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Tuple):
        return [name for element in node.elts for name in _names(element)]
    return [getattr(node, "id", getattr(node, "attr", ""))]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: str(path.relative_to(ROOT)))
def test_shipped_code(path):
    found = [what.partition(": ")[2] for what in offences(path.read_text())]
    assert found == ALLOWED.get(path, []), offences(path.read_text())


@pytest.mark.parametrize(
    ("snippet", "what"),
    [
        ("eval('1')", "builtin eval"),
        ("exec('x = 1')", "builtin exec"),
        ("compile('1', 'f', 'eval')", "builtin compile"),
        ("f = eval", "builtin eval"),
        ("import builtins\nbuiltins.exec('1')", "builtin exec"),
        ("from builtins import eval as e", "import of builtins.eval"),
        ("getattr(builtins, 'eval')('1')", "builtin eval"),
        ("__builtins__['eval']", "builtin __builtins__"),
        ("import pickle", "import of pickle"),
        ("def f():\n    from marshal import loads", "import of marshal"),
        ("import importlib\nimportlib.import_module('shelve')", "import of shelve"),
        ("import numpy as np\nnp.load('f', allow_pickle=True)", "allow_pickle= other than False"),
        ("import os\nos.system('ls')", "os.system"),
        ("from os import popen", "import of os.popen"),
        ("import os\nos.execvp('ls', [])", "os.execvp"),
        ("import subprocess", "import of subprocess"),
        ("run('ls', shell=True)", "shell= other than False"),
        ("try:\n    pass\nexcept:\n    pass", "bare except"),
        ("try:\n    pass\nexcept Exception:\n    pass", "except Exception"),
        ("try:\n    pass\nexcept Exception:\n    raise", "except Exception"),
        ("try:\n    pass\nexcept (ValueError, BaseException) as e:\n    f(e)", "except BaseException"),
        ("try:\n    pass\nexcept BaseException:\n    while i:\n        break\n    raise", "except BaseException"),
        ("with contextlib.suppress(Exception):\n    pass", "suppress of every error"),
        ("print(1)", "print"),
        ("import warnings\nwarnings.warn('slow', stacklevel=2)", "warnings.warn"),
    ],
)
def test_the_gate_catches(snippet, what):
    assert what in {offence.partition(": ")[2] for offence in offences(snippet)}


@pytest.mark.parametrize(
    "snippet",
    [
        "program = lowered.compile()",
        "class Layer:\n    def eval(self):\n        return self\nLayer().eval()",
        "import re\nre.compile('x')",
        "def compile(graph):\n    return graph\ncompile(1)",
        "console.print(1)",
        "import os\nos.path.exists('x')",
        "try:\n    pass\nexcept (ValueError, TypeError):\n    pass",
        "'eval and pickle in a string'",
        "try:\n    pass\nexcept BaseException:\n    undo()\n    raise",
        "import numpy as np\nnp.load('f', allow_pickle=False)",
    ],
)
def test_the_gate_lets_pass(snippet):
    assert offences(snippet) == []


# Written so that this file does not match itself.
HOMES = r"root|home/[\w.-]+|Users/[\w.-]+|wor[k]|opt/[\w-]*pypi[\w-]*|opt/wheels"
HOSTS = r"pypi\.(?:python\.)?org|pythonhosted\.org|conda\.anaconda\.org"
FOREIGN = {
    "a path of somebody's machine": re.compile(rf"(?<![\w.~-])/(?:{HOMES})/|\bfile:///"),
    "a folder outside the project": re.compile(r"\.\./shar[e]d\b"),
    "a package registry": re.compile(rf"\b(?:{HOSTS})"),
}


def foreign(text: str) -> list[str]:
    return [f"{what}: {found[0]}" for what, pattern in FOREIGN.items() for found in pattern.finditer(text)]


# Written so that this file does not match itself. It names what is turned off, and says why after a dash or a second hash.
TURNED_OFF = re.compile(r"#[ ]*(?:ruff: |flake8: )?(?:noq[a]|type: ignor[e]|mypy: ).*")
WITH_REASON = re.compile(r"# (?:noq[a]: [A-Z]+\d+(?:, ?[A-Z]+\d+)*(?: -|  #) |type: ignor[e]\[[a-z, -]+\]  # )\S.*")


def without_reason(text: str) -> list[str]:
    """Comments that turn a check off for their line, and do not say why; or for a whole file."""
    return [found for found in TURNED_OFF.findall(text) if not WITH_REASON.fullmatch(found)]


def tracked_files() -> list[Path]:
    """What a clone holds, or will hold once everything is added; every file where there is no git."""
    try:
        out = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, check=True, text=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        paths = [p for p in ROOT.rglob("*") if not any(part.startswith(".") for part in p.relative_to(ROOT).parts)]
    else:
        paths = [ROOT / name for name in out.stdout.split("\0") if name]
    return [p for p in paths if p.is_file()]


def test_no_foreign_paths_or_hosts():
    found = []
    for path in tracked_files():
        data = path.read_bytes()
        if b"\0" not in data:
            found += [f"{path.relative_to(ROOT)}: {what}" for what in foreign(data.decode("utf-8", "replace"))]
    assert found == []


def test_a_check_that_is_turned_off_has_a_reason():
    found = [
        f"{path.relative_to(ROOT)}: {what}"
        for path in tracked_files()
        if path.suffix in (".py", ".pyi")
        for what in without_reason(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    ("comment", "passes"),
    [
        ("# noq" + "a", False),
        ("# noq" + "a: B023", False),
        ("# noq" + "a: B023 -", False),
        ("# noq" + "a: B023, E731 - called at once", True),
        ("# type: ignor" + "e", False),
        ("# type: ignor" + "e  # of another kind", False),
        ("# type: ignor" + "e[override]", False),
        ("# type: ignor" + "e[override, index]  # a node, as all arithmetic", True),
        ("# ruff: noq" + "a", False),
        ("# myp" + "y: ignore-errors", False),
        ("# an ordinary comment", True),
    ],
)
def test_reasons_are_found(comment, passes):
    assert (without_reason(f"x = 1  {comment}\n") == []) is passes


@pytest.mark.parametrize(
    "text",
    [
        "cd /" + "home/ann/bireme",
        "see /" + "root/.cache",
        "see ../" + "shared/design.md",
        "pip install --index-url https://py" + "pi.org/simple",
        "https://files.python" + "hosted.org/x",
        "find-links = /" + "opt/wheels/",
    ],
)
def test_foreign_things_are_found(text):
    assert foreign(text) != []
    assert foreign("import pypi_tools, docs/root/x.md, ~/code/x, https://github.com/x") == []
