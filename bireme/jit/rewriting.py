"""Rewriting functions: statements that depend on tensors become calls of `statements`, which can record them.

A function is rewritten from its source. Lines stay those of the source, so that errors and tracebacks show it. First jumps
(`return`, `break`, `continue`) become flags, and what follows them stands under a condition; then each `if`, `while` and
`for` becomes functions for its parts, with the names that they change.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable
from typing import Any

HELPER = "__bireme_statements"  # by this name rewritten code finds the module `statements`
CHANGING = frozenset(("append", "extend", "insert", "pop", "remove", "clear", "update", "setdefault"))
NOT_CALLED = frozenset(("super", "locals", "globals", "vars", "dir", "eval", "exec", "breakpoint"))
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def name(text: str) -> ast.Name:
    return ast.Name(text, ast.Load())


def helper(attribute: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Attribute(name(HELPER), attribute, ast.Load()), list(args), [])


def assign(target: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(target, ast.Store())], value)


def define(label: str, arguments: ast.arguments, body: list[ast.stmt]) -> ast.FunctionDef:
    made = ast.FunctionDef(name=label, args=arguments, body=body, decorator_list=[], returns=None)
    if "type_params" in ast.FunctionDef._fields:
        made.type_params = []  # type: ignore[attr-defined]  # of Python 3.12
    return made


def delayed(value: ast.expr) -> ast.Lambda:
    return ast.Lambda(ast.arguments([], [], None, [], [], None, []), value)


def at(node: Any, like: ast.AST) -> Any:
    """A new node, at the place of another one."""
    child: Any
    for child in ast.walk(node):
        if "lineno" in child._attributes and not hasattr(child, "lineno"):
            ast.copy_location(child, like)
            child.end_lineno, child.end_col_offset = child.lineno, child.col_offset  # a call is told by its last line
    return node


# ------------------------------------------------------------ names


class _Stored(ast.NodeVisitor):
    """Names that statements give a value, in their own scope."""

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        self.changed: dict[str, None] = {}  # inplace
        self.attributes: dict[str, ast.Attribute] = {}
        self.declared: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, (ast.Store, ast.Del)):
            self.names[node.id] = None

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.ctx, ast.Store) and _plain(node):
            self.attributes[ast.unparse(node)] = node
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.ctx, ast.Store):
            self._changed(node.value)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute) and (
            node.func.attr in CHANGING or (node.func.attr.endswith("_") and not node.func.attr.endswith("__"))
        ):
            self._changed(node.func.value)
        self.generic_visit(node)

    def _changed(self, node: ast.expr) -> None:
        """What is changed inplace: the innermost name, or attribute."""
        while isinstance(node, ast.Subscript):
            node = node.value
        if isinstance(node, ast.Name):
            self.changed[node.id] = None
        elif isinstance(node, ast.Attribute) and _plain(node):
            self.attributes[ast.unparse(node)] = node

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            self.names[(alias.asname or alias.name).split(".")[0]] = None

    visit_Import = visit_ImportFrom = _import

    def _scope(self, node: Any) -> None:
        if not isinstance(node, ast.Lambda):
            self.names[node.name] = None

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = _scope

    def _comprehension(self, node: Any) -> None:
        for child in ast.walk(node):
            if isinstance(child, ast.NamedExpr):
                self.names[child.target.id] = None

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def _declaration(self, node: ast.Global | ast.Nonlocal) -> None:
        self.declared.update(node.names)

    visit_Global = visit_Nonlocal = _declaration


def _plain(node: ast.expr) -> bool:
    """Whether it is a name, or attributes of one."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def stored(nodes: Iterable[ast.AST]) -> _Stored:
    found = _Stored()
    for node in nodes:
        found.visit(node)
    return found


# ------------------------------------------------------------ jumps

NEVER, MAYBE, ALWAYS = 0, 1, 2


class _Jumps:
    """Makes flags of the jumps of one function."""

    def __init__(self) -> None:
        self.serial = 0

    def function(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """The body of a function, with at most one `return`, its last statement."""
        inner = body[:-1] if isinstance(body[-1], ast.Return) else body
        if not any(isinstance(n, ast.Return) for st in inner for n in _own(st)):
            return [*self.block(inner, None)[0], *body[len(inner) :]]
        made, _ = self.block(body, None)
        first, last = body[0], body[-1]
        start = [
            at(assign("__returned", ast.Constant(False)), first),
            at(assign("__result", helper("undefined", ast.Constant("the result"))), first),
        ]
        return [*start, *made, at(ast.Return(helper("result", name("__returned"), name("__result"))), last)]

    def block(self, body: list[ast.stmt], loop: tuple[str, str] | None) -> tuple[list[ast.stmt], int]:
        """Statements without jumps, and whether they jump."""
        made: list[ast.stmt] = []
        for i, st in enumerate(body):
            rest = body[i + 1 :]
            if isinstance(st, (ast.Return, ast.Break, ast.Continue)):
                return [*made, *self.jump(st, loop)], ALWAYS
            if isinstance(st, ast.If):
                then, jumps_then = self.block(st.body, loop)
                other, jumps_other = self.block(st.orelse, loop)
                if not jumps_then and not jumps_other:
                    made.append(at(ast.If(st.test, then, other), st))
                    continue
                if jumps_then == jumps_other == ALWAYS:
                    return [*made, at(ast.If(st.test, then, other), st)], ALWAYS
                after, jumps = self.block(rest, loop)
                if jumps_then == ALWAYS:
                    return [*made, at(ast.If(st.test, then, other + self.guarded(after, jumps_other, loop, st)), st)], (
                        ALWAYS if jumps == ALWAYS and jumps_other == NEVER else MAYBE
                    )
                if jumps_other == ALWAYS:
                    then = then + self.guarded(after, jumps_then, loop, st)
                    return [*made, at(ast.If(st.test, then, other), st)], (
                        ALWAYS if jumps == ALWAYS and jumps_then == NEVER else MAYBE
                    )
                return [*made, at(ast.If(st.test, then, other), st), *self.guarded(after, MAYBE, loop, st)], MAYBE
            if isinstance(st, (ast.For, ast.While)):
                statements, jumps = self.loop(st, loop)
                made.extend(statements)
                if jumps:
                    after, _ = self.block(rest, loop)
                    return [*made, *self.guarded(after, MAYBE, loop, st)], MAYBE
                continue
            parts = {"body", "orelse", "finalbody", "handlers", "cases"} & set(st._fields)
            if parts and not isinstance(st, SCOPES) and any(_jumps_at(st)):
                made.append(self.compound(st, loop))
                after, _ = self.block(rest, loop)
                return [*made, *self.guarded(after, MAYBE, loop, st)], MAYBE
            made.append(self.compound(st, loop) if parts and not isinstance(st, SCOPES) else st)
        return made, NEVER

    def compound(self, st: Any, loop: tuple[str, str] | None) -> ast.stmt:
        """A `with`, `try` or `match`, whose parts are blocks."""
        new = copy.copy(st)
        for field in ("body", "orelse", "finalbody"):
            if getattr(st, field, None):
                setattr(new, field, self.block(getattr(st, field), loop)[0])
        if getattr(st, "orelse", None):
            new.orelse = self.guarded(new.orelse, MAYBE, loop, st)
        for field in ("handlers", "cases"):
            if getattr(st, field, None):
                parts = [copy.copy(part) for part in getattr(st, field)]
                for part in parts:
                    part.body = self.block(part.body, loop)[0]
                setattr(new, field, parts)
        return new

    def jump(self, st: ast.stmt, loop: tuple[str, str] | None) -> list[ast.stmt]:
        if isinstance(st, ast.Return):
            made = [
                at(assign("__result", st.value or ast.Constant(None)), st),
                at(assign("__returned", ast.Constant(True)), st),
            ]
            return [*made, at(assign(loop[0], ast.Constant(True)), st)] if loop else made
        assert loop is not None
        return [at(assign(loop[0] if isinstance(st, ast.Break) else loop[1], ast.Constant(True)), st)]

    def guarded(self, body: list[ast.stmt], jumped: int, loop: tuple[str, str] | None, like: ast.AST) -> list[ast.stmt]:
        """Statements that are left out after a jump."""
        if not body or jumped == NEVER:
            return body
        flags: list[ast.expr] = [name(flag) for flag in loop] if loop else [name("__returned")]
        test = flags[0] if len(flags) == 1 else ast.BoolOp(ast.Or(), flags)
        return [at(ast.If(ast.UnaryOp(ast.Not(), test), body, []), like)]

    def loop(self, st: Any, outer: tuple[str, str] | None) -> tuple[list[ast.stmt], bool]:
        """A loop without jumps, and whether it returns from the function."""
        self.serial += 1
        flags = f"__break_{self.serial}", f"__continue_{self.serial}"
        body, jumps = self.block(st.body, flags)
        new = copy.copy(st)
        new.orelse = []
        first: list[ast.stmt] = []
        if isinstance(st, ast.While) and _binds(st.test):
            # names that the condition gives a value have it after the loop too: it is asked once before the loop, and
            # at the end of each turn that did not break
            asked = f"__test_{self.serial}"
            first, again = [at(assign(asked, st.test), st)], at(assign(asked, copy.deepcopy(st.test)), st)
            body = [*body, at(ast.If(ast.UnaryOp(ast.Not(), name(flags[0])), [again], []), st) if jumps else again]
            st, new.test = copy.copy(st), at(name(asked), st)
            st.test = new.test
        if not jumps:
            new.body = body
            return [*first, new, *self.block(st.orelse, outer)[0]], False
        new.body = [at(assign(flags[1], ast.Constant(False)), st), *body]
        broken = name(flags[0])
        if isinstance(st, ast.While):
            new.test = at(ast.BoolOp(ast.And(), [ast.UnaryOp(ast.Not(), broken), st.test]), st)
        else:
            new.stops = flags[0]
        returns = any(isinstance(n, ast.Return) for part in st.body for n in _own(part))
        made = [at(assign(flag, ast.Constant(False)), st) for flag in flags] + first + [new]
        if st.orelse:
            made.append(at(ast.If(ast.UnaryOp(ast.Not(), name(flags[0])), self.block(st.orelse, outer)[0], []), st))
        if returns and outer:  # it leaves the loop around as well
            made.append(at(ast.If(name("__returned"), [assign(outer[0], ast.Constant(True))], []), st))
        return made, returns


def _own(node: ast.AST) -> Iterable[ast.AST]:
    """A node and what stands in it, without functions inside."""
    yield node
    if not isinstance(node, SCOPES):
        for child in ast.iter_child_nodes(node):
            yield from _own(child)


def _jumps_at(st: ast.stmt) -> Iterable[bool]:
    """Whether a statement leaves the block that it stands in, for each jump in it."""

    def walk(node: ast.AST, loops: bool) -> Iterable[bool]:
        if isinstance(node, ast.Return) or (isinstance(node, (ast.Break, ast.Continue)) and not loops):
            yield True
        if not isinstance(node, SCOPES):
            inside = loops or isinstance(node, (ast.For, ast.While))
            for child in ast.iter_child_nodes(node):
                yield from walk(child, inside)

    return walk(st, False)


# ------------------------------------------------------------ statements and expressions


class _Scope:
    """Names of a function, by where they belong."""

    def __init__(self, node: Any):
        args = node.args
        given = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
        self.arguments = [a.arg for a in given if a is not None]
        body = node.body if isinstance(node.body, list) else [node.body]
        found = stored(body)
        self.globals = {n for st in body for x in _own(st) if isinstance(x, ast.Global) for n in x.names}
        self.caught = {h.name for st in body for h in _own(st) if isinstance(h, ast.ExceptHandler) and h.name}
        self.local = {n for n in found.names if n not in found.declared} | set(self.arguments)
        self.nonlocal_ = found.declared - self.globals
        inner = [n for st in body for n in ast.walk(st) if isinstance(n, ast.Nonlocal)]
        self.shared = {n: None for x in inner for n in x.names if n in self.local}  # any call may change them


class Rewriter(ast.NodeTransformer):
    """Makes calls of `statements` of what may depend on tensors in one function."""

    def __init__(self, owner: str | None):
        self.owner = owner  # the class around, whose name is part of private names
        self.scope: Any = None
        self.serial = 0
        self.first: str | None = None  # its first argument, which `super()` means
        self.carried: dict[str, None] = {}
        self.before: list[ast.stmt] | None = []  # what goes before the present statement; None where nothing can

    # ---------------------------------------------------------- functions

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        """A function inside of the function."""
        if any(isinstance(n, (ast.Yield, ast.YieldFrom)) for st in node.body for n in _own(st)):
            return node
        inner = Rewriter(self.owner)
        made = inner.function(node)
        made.decorator_list = [
            *[self.visit(d) for d in node.decorator_list],
            at(ast.Attribute(name(HELPER), "converted", ast.Load()), node),
        ]
        return made

    def function(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """The function, rewritten; its decorators are left out."""
        jumps = _Jumps()
        made = copy.copy(node)
        made.body = jumps.function(node.body)
        self.scope = _Scope(made)
        self.first = self.scope.arguments[0] if self.scope.arguments else None
        body = self.statements(made.body)
        known = [n for n in self.carried if n in self.scope.local and n not in self.scope.arguments]
        start = [at(assign(n, helper("undefined", ast.Constant(n))), node) for n in known]
        head = [st for st in body if isinstance(st, (ast.Global, ast.Nonlocal))]
        made.body = [*head, *start, *[st for st in body if st not in head]]
        made.decorator_list = []
        return made

    def visit_AsyncFunctionDef(self, node: Any) -> Any:
        return node

    visit_ClassDef = visit_AsyncFunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        outer, self.scope = (self.scope, self.before), _Scope(node)
        self.before = None
        body = self.visit(node.body)
        self.scope, self.before = outer
        return at(helper("converted", ast.Lambda(node.args, body)), node)

    def statements(self, body: list[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        outer = self.before
        for st in body:
            self.before = []
            new = self.visit(st)
            made.extend([*self.before, *(new if isinstance(new, list) else [new])])
        self.before = outer
        return made

    # ---------------------------------------------------------- control flow

    def _state(self, nodes: list[ast.AST], like: ast.AST) -> tuple[list[ast.stmt], str, list[ast.stmt]]:
        """Declarations for parts of a statement, a stem for names, and functions that get and set what it changes."""
        self.serial += 1
        stem = f"__{self.serial}"
        found = stored(nodes)
        names = [n for n in found.names | found.changed | self.scope.shared if n not in self.scope.caught]
        names = [n for n in names if n in self.scope.local | self.scope.globals | self.scope.nonlocal_]
        self.carried.update(dict.fromkeys(names))
        declarations: list[ast.stmt] = []
        inner = [n for n in names if n not in self.scope.globals]
        outer = [n for n in names if n in self.scope.globals]
        if inner:
            declarations.append(ast.Nonlocal(inner))
        if outer:
            declarations.append(ast.Global(outer))
        attributes = [self.visit(copy.deepcopy(a)) for a in found.attributes.values()]
        values: list[ast.expr] = [name(n) for n in names]
        values += [helper("attribute", self._owner(a), ast.Constant(a.attr)) for a in attributes]
        getter = define(f"{stem}_get", _no_arguments(), [*declarations, ast.Return(ast.List(values, ast.Load()))])
        targets: list[ast.expr] = [ast.Name(n, ast.Store()) for n in names]
        temporary = [f"__value_{i}" for i in range(len(attributes))]
        targets += [ast.Name(t, ast.Store()) for t in temporary]
        body: list[ast.stmt] = [*declarations]
        body.append(ast.Assign([ast.List(targets, ast.Store())], name("__values")) if targets else ast.Pass())
        body += [
            ast.Expr(helper("set_attribute", self._owner(a), ast.Constant(a.attr), name(t)))
            for a, t in zip(attributes, temporary, strict=True)
        ]
        setter = define(f"{stem}_set", _one_argument("__values"), body)
        return [at(d, like) for d in declarations], stem, [at(getter, like), at(setter, like)]

    def _owner(self, node: ast.Attribute) -> ast.expr:
        """What an attribute belongs to, to be read."""
        return copy.deepcopy(node.value)

    def _part(self, label: str, argument: str | None, body: list[ast.stmt], like: ast.AST) -> ast.FunctionDef:
        arguments = _no_arguments() if argument is None else _one_argument(argument)
        return at(define(label, arguments, body or [ast.Pass()]), like)

    def visit_If(self, node: ast.If) -> Any:
        first = node.body[0]
        if len(node.body) == 1 and isinstance(first, ast.Raise) and first.exc is not None and first.cause is None:
            check = at(ast.Expr(helper("raise_if", self.visit(node.test), delayed(self.visit(first.exc)))), node)
            return [check, *self.statements(node.orelse)]
        declarations, stem, state = self._state([*node.body, *node.orelse], node)
        test = self.visit(node.test)
        then = self._part(f"{stem}_then", None, [*declarations, *self.statements(node.body)], node)
        other = self._part(f"{stem}_else", None, [*declarations, *self.statements(node.orelse)], node)
        parts = [name(f"{stem}_{part}") for part in ("then", "else", "get", "set")]
        return [*state, then, other, at(ast.Expr(helper("if_", test, *parts)), node)]

    def visit_While(self, node: ast.While) -> Any:
        declarations, stem, state = self._state([node.test, *node.body], node)
        test = self._part(f"{stem}_test", None, [*declarations, ast.Return(self.visit(node.test))], node)
        body = self._part(f"{stem}_body", None, [*declarations, *self.statements(node.body)], node)
        parts = [name(f"{stem}_{part}") for part in ("test", "body", "get", "set")]
        return [*state, test, body, at(ast.Expr(helper("while_", *parts)), node)]

    def visit_For(self, node: ast.For) -> Any:
        declarations, stem, state = self._state([node.target, *node.body], node)
        iterable = self.visit(node.iter)
        taken = at(ast.Assign([self.visit(node.target)], name("__item")), node)
        body = self._part(f"{stem}_body", "__item", [*declarations, taken, *self.statements(node.body)], node)
        flag = getattr(node, "stops", None)
        stops = ast.Constant(None) if flag is None else delayed(name(flag))
        parts = [name(f"{stem}_{part}") for part in ("body", "get", "set")]
        made = at(ast.Expr(helper("for_", iterable, *parts, stops)), node)
        return [*state, body, made, *self.statements(node.orelse)]

    def visit_Try(self, node: Any) -> Any:
        """What is raised inside may be caught: `statements` has to know by what."""
        if node.handlers:
            node = copy.copy(node)
            kinds = [name("BaseException") if h.type is None else copy.deepcopy(h.type) for h in node.handlers]
            told = ast.withitem(helper("catching", *[delayed(self.visit(kind)) for kind in kinds]), None)
            node.body = [at(ast.With([told], node.body), node)]
        return self.generic_visit(node)

    visit_TryStar = visit_Try

    # ---------------------------------------------------------- expressions

    def visit_ListComp(self, node: ast.ListComp) -> Any:
        """A function with the loop in it, which may be one over variables, that is called in the place of the list."""
        called = {n.func.id for n in ast.walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
        if self.before is None or _binds(node) or called & NOT_CALLED or any(g.is_async for g in node.generators):
            return self._own_scope(node)
        self.serial += 1
        label, made = f"__list_{self.serial}", name("__made")
        append = ast.Call(ast.Attribute(made, "append", ast.Load()), [node.elt], [])
        body: list[ast.stmt] = [at(ast.Expr(append), node)]
        for i, generator in reversed(list(enumerate(node.generators))):
            for test in reversed(generator.ifs):
                body = [at(ast.If(test, body, []), node)]
            over = generator.iter if i else name("__iterable")
            body = [at(ast.For(generator.target, over, body, []), node)]
        body = [at(assign("__made", ast.List([], ast.Load())), node), *body, at(ast.Return(made), node)]
        self.before.append(self.visit_FunctionDef(at(define(label, _one_argument("__iterable"), body), node)))
        return at(ast.Call(name(label), [self.visit(node.generators[0].iter)], []), node)

    def _own_scope(self, node: Any) -> Any:
        """An expression with names of its own, which nothing outside of it can have."""
        outer, self.before = self.before, None
        made = self.generic_visit(node)
        self.before = outer
        return made

    visit_SetComp = visit_DictComp = visit_GeneratorExp = _own_scope

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        if _binds(node):
            return self.generic_visit(node)
        test, then, other = self.visit(node.test), self.visit(node.body), self.visit(node.orelse)
        return at(helper("if_expression", test, delayed(then), delayed(other)), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        if _binds(node):
            return self.generic_visit(node)
        values = [delayed(self.visit(value)) for value in node.values]
        return at(helper("and_" if isinstance(node.op, ast.And) else "or_", *values), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        operand = self.visit(node.operand)
        if isinstance(node.op, ast.Not):
            return at(helper("not_", operand), node)
        return at(ast.UnaryOp(node.op, operand), node)

    def visit_Compare(self, node: ast.Compare) -> Any:
        if _binds(node):
            return self.generic_visit(node)
        first, others = self.visit(node.left), [self.visit(x) for x in node.comparators]
        kinds = [ast.Constant(type(op).__name__) for op in node.ops]
        steps = [x for kind, other in zip(kinds, others, strict=True) for x in (kind, delayed(other))]
        return at(helper("compare", first, *steps), node)

    def visit_Call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id in NOT_CALLED:
            if node.func.id == "super" and not node.args and self.first is not None:
                return at(ast.Call(node.func, [name("__class__"), name(self.first)], []), node)
            return self.generic_visit(node)
        node = self.generic_visit(node)  # type: ignore[assignment]  # a node of the same kind
        return at(ast.Call(helper("call", node.func), node.args, node.keywords), node)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        node = self.generic_visit(node)  # type: ignore[assignment]  # a node of the same kind
        if not isinstance(node.ctx, ast.Load) or isinstance(node.slice, ast.Constant) or _binds(node):
            return node
        return at(helper("item", node.value, _index(node.slice)), node)

    def visit_Assert(self, node: ast.Assert) -> Any:
        message = delayed(self.visit(node.msg) if node.msg is not None else ast.Constant(None))
        return at(ast.Expr(helper("assert_", self.visit(node.test), message)), node)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        node = self.generic_visit(node)  # type: ignore[assignment]  # a node of the same kind
        return at(ast.Attribute(node.value, self._private(node.attr), node.ctx), node)

    def _private(self, text: str) -> str:
        """A private name of a class, as it is spelled outside of it."""
        if self.owner and text.startswith("__") and not text.endswith("__"):
            return f"_{self.owner.lstrip('_')}{text}"
        return text


def _index(node: ast.expr) -> ast.expr:
    """An index as a value: slices are written as calls."""
    if isinstance(node, ast.Slice):
        ends = [ast.Constant(None) if end is None else end for end in (node.lower, node.upper, node.step)]
        return at(ast.Call(ast.Attribute(name(HELPER), "SLICE", ast.Load()), ends, []), node)
    if isinstance(node, ast.Tuple):
        return at(ast.Tuple([_index(each) for each in node.elts], ast.Load()), node)
    return node


def _binds(node: ast.AST) -> bool:
    """Whether an expression gives names a value or waits, so that it cannot be delayed."""
    return any(isinstance(n, (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)) for n in ast.walk(node))


def _no_arguments() -> ast.arguments:
    return ast.arguments([], [], None, [], [], None, [])


def _one_argument(text: str) -> ast.arguments:
    return ast.arguments([], [ast.arg(text)], None, [], [], None, [])
