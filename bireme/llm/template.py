"""Chat templates: messages to text by Jinja. A template comes with a model, so it is hostile until shown otherwise.

Jinja's sandbox keeps it away from Python's insides. What a template can do here is counted besides: loops, calls and
characters have a budget, and filters and methods that can make much of little are bounded or not there.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from bireme.core.base import errors
from bireme.core.base.extras import extra

LONGEST_TEMPLATE = 2**18  # characters
LONGEST_TEXT = 2**22  # characters of the result, and of any string on the way
MOST_WORK = 500_000  # iterations and calls, and one for each few characters
SECONDS = 2.0
CHARACTERS = 16  # of work in one step
DEEPEST = 32  # of messages
WHERE = "ChatTemplate.render"

FILTERS = [
    "abs",
    "capitalize",
    "count",
    "d",
    "default",
    "dictsort",
    "first",
    "float",
    "int",
    "items",
    "last",
    "length",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "reject",
    "rejectattr",
    "reverse",
    "round",
    "select",
    "selectattr",
    "sort",
    "string",
    "sum",
    "title",
    "trim",
    "unique",
    "upper",
]
METHODS = [
    "strip",
    "lstrip",
    "rstrip",
    "split",
    "rsplit",
    "splitlines",
    "startswith",
    "endswith",
    "upper",
    "lower",
    "title",
    "capitalize",
    "swapcase",
    "replace",
    "join",
    "find",
    "rfind",
    "index",
    "count",
    "isdigit",
    "isalpha",
    "isalnum",
    "isspace",
    "isupper",
    "islower",
    "isnumeric",
    "isdecimal",
    "removeprefix",
    "removesuffix",
    "partition",
    "rpartition",
    "items",
    "keys",
    "values",
    "get",
]


class _Work:
    """What a rendering may still do."""

    def __init__(self) -> None:
        self.left, self.until = MOST_WORK, time.monotonic() + SECONDS

    def charge(self, size: int) -> None:
        """Count a step that makes so many characters or elements."""
        if size > LONGEST_TEXT:
            raise _refused(f"text of at most {LONGEST_TEXT} characters", f"{size} of them")
        self.left -= 1 + size // CHARACTERS
        if self.left < 0 or time.monotonic() > self.until:
            raise _refused(f"at most {MOST_WORK} steps and {SECONDS:g} s", "a template that goes on")

    def made(self, x: Any) -> Any:
        """Count what a step has made."""
        self.charge(len(x) if isinstance(x, (str, list, tuple, dict)) else 0)
        return x

    def loop(self, items: Iterable, text: int) -> Iterator:
        """Elements of a loop whose body has so many characters of its own."""
        for item in items:
            self.charge(text)
            yield item


def _refused(expected: str, got: str) -> Exception:
    return errors.bad(WHERE, expected, described=got)


@functools.cache
def _environment() -> Any:
    """The class of environments, made when Jinja is first used."""
    jinja, sandbox = (extra(name, "llm", "for chat templates") for name in ("jinja2", "jinja2.sandbox"))
    nodes, runtime = jinja.nodes, jinja.runtime
    Sandbox: Any = sandbox.ImmutableSandboxedEnvironment
    Transformer: Any = jinja.visitor.NodeTransformer

    class Environment(Sandbox):
        intercepted_binops = frozenset(Sandbox.default_binop_table)
        work: _Work
        largest = 0  # text of a macro or a block

        def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
            if callable(value) and isinstance(obj, (str, int, float, list, tuple, dict)) and attr not in METHODS:
                return False
            return super().is_safe_attribute(obj, attr, value)

        def wrap_str_format(self, value: Any) -> None:
            """Formats are methods like others, of those that are not there."""

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            self.work.charge(_size(operator, left, right))
            return self.work.made(super().call_binop(context, operator, left, right))

        def call(self, context: Any, obj: Any, *args: Any, **kwargs: Any) -> Any:
            name, owner = getattr(obj, "__name__", ""), getattr(obj, "__self__", None)
            if isinstance(obj, (runtime.Macro, runtime.BlockReference)):
                self.work.charge(self.largest)
            if isinstance(owner, str) and name in ("replace", "join"):
                obj = functools.partial(_replaced if name == "replace" else _joined, self.work, owner)
                return obj(*args, **{k: v for k, v in kwargs.items() if k not in ("_loop_vars", "_block_vars")})
            return self.work.made(super().call(context, obj, *args, **kwargs))

        def _parse(self, source: str, name: Any, filename: Any) -> Any:
            tree = super()._parse(source, name, filename)
            for loop in list(tree.find_all(nodes.For)):
                if loop.recursive:
                    raise _refused("loops that are not recursive", "a recursive one")
                text = nodes.Const(_text(nodes, loop))
                loop.iter = nodes.Filter(loop.iter, "_counted", [text], [], None, None, lineno=loop.lineno)
            bodies = tree.find_all((nodes.Macro, nodes.CallBlock, nodes.Block))
            self.largest = max((_text(nodes, body) for body in bodies), default=0)
            return _Transformer().visit(tree)

    class _Transformer(Transformer):
        def visit_Concat(self, node: Any) -> Any:
            self.generic_visit(node)
            parts = nodes.List(node.nodes, lineno=node.lineno)
            return nodes.Filter(parts, "join", [], [], None, None, lineno=node.lineno)

    return Environment


def _text(nodes: Any, body: Any) -> int:
    """Characters that stand in a part of a template."""
    return sum(len(data.data) for data in body.find_all(nodes.TemplateData))


def _size(operator: str, left: Any, right: Any) -> int:
    """How large the result of an operation may be."""
    if operator == "%" and isinstance(left, str):
        # a width in a format makes much of little
        if any(c.isdigit() or c == "*" for c in left):
            raise _refused("formats without widths", left[:40])
        return len(left) + len(str(right))
    sizes = [len(x) if isinstance(x, (str, list, tuple)) else None for x in (left, right)]
    if operator == "*":
        for size, other in ((sizes[0], right), (sizes[1], left)):
            if size is not None and isinstance(other, int):
                return size * max(other, 0)
    if operator in ("*", "**", "//", "/", "%", "-", "+") and all(isinstance(x, int) for x in (left, right)):
        bits = [abs(x).bit_length() for x in (left, right)]
        return max(bits[0] * (abs(right) if operator == "**" else 1), bits[1])
    return sum(size or 0 for size in sizes)


def _replaced(work: _Work, text: Any, old: Any, new: Any, count: Any = -1) -> str:
    text, old, new = str(text), str(old), str(new)
    count = -1 if count is None else int(count)
    times = text.count(old) if count < 0 else min(text.count(old), count)
    work.charge(len(text))
    work.charge(len(text) + times * max(len(new) - len(old), 0))
    return text.replace(old, new, count)


def _joined(work: _Work, between: Any, items: Iterable, attribute: Any = None) -> str:
    if attribute is not None:
        items = [x.get(attribute, "") if isinstance(x, dict) else "" for x in items]
    parts: list[str] = []
    between, size = str(between), 0
    for item in items:
        parts.append(str(item))
        size += len(parts[-1]) + len(between)
        work.charge(len(parts[-1]))
        if size > LONGEST_TEXT:
            work.charge(size)
    return between.join(parts)


def _indented(work: _Work, text: Any, width: Any = 4, first: bool = False, blank: bool = False) -> str:
    margin = width if isinstance(width, str) else " " * min(int(width), LONGEST_TEXT)
    lines = str(text).splitlines(keepends=True)
    work.charge(len(str(text)) + len(lines) * len(margin))
    return "".join(margin + x if (i or first) and (x.strip() or blank) else x for i, x in enumerate(lines))


def _as_json(work: _Work, x: Any, indent: int | None = None, ensure_ascii: bool = False, **settings: Any) -> str:
    most = None if indent is None else min(int(indent), 16)
    known = {k: v for k, v in settings.items() if k in ("sort_keys", "separators")}
    return work.made(json.dumps(x, ensure_ascii=ensure_ascii, indent=most, **known))


def _range(work: _Work, *bounds: Any) -> range:
    found = range(*bounds)
    work.charge(len(found) if len(found) < LONGEST_TEXT else LONGEST_TEXT + 1)
    return found


def _now(given: str) -> str:
    return time.strftime(str(given)[:64])


def _stopped(message: Any) -> None:
    raise _refused("messages that the template takes", str(message)[:500])


def _plain(x: Any, depth: int = 0) -> Any:
    """Messages as JSON has them, copied: nothing else reaches a template."""
    if depth > DEEPEST:
        raise _refused(f"messages nested at most {DEEPEST} deep", "deeper ones")
    if x is None or isinstance(x, (bool, int, float)):
        return x
    if isinstance(x, str):
        return str(x)
    if isinstance(x, dict):
        return {str(k): _plain(v, depth + 1) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [_plain(v, depth + 1) for v in x]
    raise _refused("messages of strings, numbers, lists and dicts", type(x).__name__)


def _compiled(text: str, environment: Any) -> Any:
    return environment.from_string(text)


class ChatTemplate:
    """A template that makes the text of a chat, as Hugging Face's tokenizers have it.

    It runs in Jinja's sandbox, with bounds on its length, on what it makes and on the steps that it takes.

    Args:
        text: The template, in Jinja's language.
        tokens: Special tokens that it may name, as ``bos_token``. Default: None.
        tool_use: The template of chats with tools, where a model has one of its own. Default: None.

    Raises:
        ImportError: If Jinja2 is not installed.
        ValueError: If it is too long, or no template.

    Examples:
        >>> template = bireme.llm.ChatTemplate("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}")
        >>> template.render([{"role": "user", "content": "Hello"}])
        '<user>Hello'
    """

    def __init__(self, text: str, tokens: dict[str, str] | None = None, tool_use: str | None = None):
        for name, given in (("text", text), ("tool_use", text if tool_use is None else tool_use)):
            if not isinstance(given, str) or len(given) > LONGEST_TEMPLATE:
                raise errors.bad(
                    f"ChatTemplate({name})",
                    f"a template of at most {LONGEST_TEMPLATE} characters",
                    described=f"{len(given)} of them" if isinstance(given, str) else errors.show(given),
                )
        self._text, self._tokens = text, dict(tokens or {})
        self._with_tools = text if tool_use is None else tool_use
        self._jinja = extra("jinja2", "llm", "for chat templates")
        for given in {self._text, self._with_tools}:
            self._rendered(functools.partial(_compiled, given))
        meta = extra("jinja2.meta", "llm", "for chat templates")
        names = self._rendered(lambda e: meta.find_undeclared_variables(e.parse(self._with_tools)))
        self._takes_tools = "tools" in names

    @property
    def for_tools(self) -> str | None:
        """The template of chats with tools; None where it does not know them."""
        return self._with_tools if self._takes_tools else None

    def _rendered(self, make: Callable[[Any], Any]) -> Any:
        """What is made with an environment that has a budget of its own."""
        work = _Work()
        environment = _environment()(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,
            finalize=work.made,
            extensions=["jinja2.ext.loopcontrols"],
        )
        environment.work = work
        bound: dict[str, Callable] = {
            "replace": functools.partial(_replaced, work),
            "join": lambda items, between="", attribute=None: _joined(work, between, items, attribute),
            "indent": functools.partial(_indented, work),
            "tojson": functools.partial(_as_json, work),
            "_counted": work.loop,
            "safe": str,
        }
        environment.filters = {
            name: (lambda *a, _f=environment.filters[name], **k: work.made(_f(*a, **k)))
            if not hasattr(environment.filters[name], "jinja_pass_arg")
            else environment.filters[name]
            for name in FILTERS
        } | bound
        environment.globals = {
            "range": functools.partial(_range, work),
            "namespace": environment.globals["namespace"],
            "dict": dict,
            "raise_exception": _stopped,
            "strftime_now": _now,
        }
        try:
            return make(environment)
        except self._jinja.TemplateError as e:
            raise _refused("a template without errors", f"{type(e).__name__}: {str(e)[:200]}") from None
        except RecursionError:
            raise _refused("a template that is not nested deep", "one that is") from None
        except errors.ArgumentError:
            raise
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, MemoryError) as e:
            raise _refused("a template without errors", f"{type(e).__name__}: {str(e)[:200]}") from None

    def render(
        self,
        messages: list[dict[str, Any]],
        *,
        tools: list[dict[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> str:
        """Return the text of a chat. It has the special tokens: encode it with ``special=False``.

        Args:
            messages: The messages, dicts with ``role`` and ``content``.
            tools: Descriptions of functions that the model may call. Default: None.
            add_generation_prompt: Whether to end with what begins an answer. Default: True.
            **variables: Others that the template knows.

        Returns:
            The text.

        Raises:
            ValueError: If the template refuses the messages, fails, or takes too long.
        """
        given = {
            **self._tokens,
            **{name: _plain(x) for name, x in variables.items()},
            "messages": _plain(messages),
            "tools": _plain(tools),
            "add_generation_prompt": bool(add_generation_prompt),
        }

        def make(environment: Any) -> str:
            parts, size = [], 0
            for part in environment.from_string(self._with_tools if tools else self._text).generate(given):
                size += len(part)
                environment.work.charge(size if size > LONGEST_TEXT else len(part))
                parts.append(part)
            return "".join(parts)

        return self._rendered(make)
