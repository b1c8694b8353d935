"""A template: its text, what it reads, and what it prints.

Most are nothing but texts and `{{ paths }}`; these parts are filled in without Jinja.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from functools import lru_cache
from types import TracebackType
from typing import Any, NamedTuple

import jinja2
from jinja2 import UndefinedError, nodes

from loopkit.language.guard.evaluate import ITEMS
from loopkit.language.template.errors import TemplateError, fresh_budget, limit
from loopkit.language.template.grammar import (
    SAME_LIST,
    Path,
    Scope,
    Shape,
    Survey,
    path_of,
    steps_of,
    tree_of,
)
from loopkit.language.template.sandbox import (
    MAX_OUTPUT,
    SANDBOX,
    Rewriting,
    plain_data,
    to_text,
)
from loopkit.values import Value

OF_REPORTS = frozenset(
    ("report", "reports", "findings", "warnings", "resolved", "regressed", "history")
)
"""The names of what has findings."""
VALUE = "value_of_the_expression"


class Hole(NamedTuple):
    """A `{{ findings[0].message }}`."""

    path: tuple[str | int, ...]
    line: int


class Template(Value, frozen=True, eq=False):
    """A parsed template. The same text gives the same one."""

    text: str
    tree: nodes.Template
    """Shared, never changed in place."""
    names: frozenset[str]
    """The names that have to be given: not those that it sets itself."""
    paths: frozenset[Path]
    """The same with their fields, as far as they are read: ("input", "issue")."""
    whole: Path | None
    """The path, where the template is one `{{ a.b }}` and nothing else."""
    parts: tuple[str | Hole, ...] | None = None
    """Its texts and holes in order, where it is nothing else."""
    constant: str | None = None
    """What it prints, where that is the same whatever the names stand for."""
    is_expression: bool = False
    """Whether it is one `{{ … }}` and nothing else."""

    def render(self, names: Mapping[str, object]) -> str:
        """The text with `names` filled in. They are plain data, and never changed.

        Raises TemplateError, and nothing else: where data is missing or of the wrong kind, and
        past 2,000,000 characters, or 100,000 rounds of loops or 5 seconds in them.
        """
        if self.constant is not None:
            return self.constant
        if self.parts is not None:
            return _fill(self.text, self.parts, names)
        text: str = self._run(names)
        return text

    def value(self, names: Mapping[str, object]) -> object:
        """The value itself where the template is one `{{ … }}`, as plain data, else the text.

        Raises TemplateError as `render` does.
        """
        if self.whole is not None:
            found = SANDBOX.at(self.whole, names)
            found = self.render(names) if isinstance(found, jinja2.Undefined) else found
        elif not self.is_expression:
            return self.render(names)
        else:
            found = self._run(names, keeps_value=True)
        return plain_data(found)

    def _run(self, names: Mapping[str, object], *, keeps_value: bool = False) -> Any:
        """The text that the template prints within a budget, or the value of its expression."""
        used = {name: names[name] for name in self.names if name in names}
        template = None
        try:
            template = _compile(self.text, keeps_value=keeps_value)
            context = template.new_context(used)
            with fresh_budget():
                text = _join(template.root_render_func(context))
                return _present(context.vars[VALUE]) if keeps_value else text
        # Filters and operators may raise any exception on data of the wrong kind.
        except Exception as error:
            line = _line(template, error.__traceback__) if template is not None else 1
            raise _error_of(error, self.text, line) from error


@lru_cache(maxsize=512)
def parse(text: str) -> Template:
    """The template that `text` spells.

    Raises TemplateError for text that is no template, for a construct that templates do not have,
    and for an unknown filter or test. `check` finds what is wrong with its names.
    """
    tree = tree_of(text)
    survey = Survey(text, None)
    survey.block(tree.body, Scope())
    names = frozenset(survey.free)
    paths = frozenset(survey.paths)
    lone, parts = _lone(tree), parts_of(tree)
    whole, constant = path_of(lone), _constant(parts)
    return Template(text, tree, names, paths, whole, parts, constant, lone is not None)


def parse_if_valid(text: str) -> Template | None:
    """The template, or None for a text that spells none; the checks report that."""
    try:
        return parse(text)
    except TemplateError:
        return None


def check(template: Template, names: Mapping[str, Shape]) -> list[TemplateError]:
    """Every use of a name or field that is not there, or might not be, in the text's order.

    `names` are all that the template may read. A place is the last word of what is wrong, so
    `isue` in `{{ input.isue }}`.
    """
    survey = Survey(template.text, names)
    survey.block(template.tree.body, Scope())
    return sorted(survey.problems, key=lambda problem: (problem.line, problem.column))


def _lone(tree: nodes.Template) -> nodes.Expr | None:
    """The expression of a template that is one `{{ … }}` and nothing else."""
    match tree.body:
        case [nodes.Output(nodes=[only])] if not isinstance(only, nodes.TemplateData):
            return only
        case _:
            return None


def _constant(parts: Collection[str | Hole] | None) -> str | None:
    texts = [part for part in parts or () if isinstance(part, str)]
    return "".join(texts) if parts is not None and len(texts) == len(parts) else None


@lru_cache(maxsize=512)
def _compile(text: str, *, keeps_value: bool = False) -> jinja2.Template:
    """Compile a template, which may store the value of its one expression, printing nothing."""
    # Parsed again: rewriting changes the tree in place.
    tree = SANDBOX.parse(text)
    if keeps_value and (expression := _lone(tree)) is not None:
        line = expression.lineno
        kept = nodes.Name(VALUE, "store", lineno=line)
        tree.body = [nodes.Assign(kept, expression, lineno=line)]
    Rewriting().visit(tree)
    return SANDBOX.template_class.from_code(SANDBOX, SANDBOX.compile(tree), SANDBOX.globals)


def _present(value: object) -> object:
    if isinstance(value, jinja2.Undefined):
        # This raises an error that names the missing value.
        str(value)
    # Some filters give their items one by one.
    return list(value) if isinstance(value, Iterator | range) else value


def _fill(text: str, parts: Iterable[str | Hole], names: Mapping[str, object]) -> str:
    """Fill the holes as Jinja would; such a template needs only the sandbox."""
    printed: list[str] = []
    line = 1
    try:
        with fresh_budget():
            for part in parts:
                if isinstance(part, Hole):
                    line = part.line
                    printed.append(to_text(SANDBOX.at(part.path, names)))
                else:
                    printed.append(part)
            line = 1
            return _join(["".join(printed)])
    except Exception as error:
        raise _error_of(error, text, line) from error


def _join(texts: Iterable[str]) -> str:
    pieces: list[str] = []
    room = MAX_OUTPUT
    for piece in texts:
        room -= len(piece)
        if room < 0:
            message = f"the template prints more than {MAX_OUTPUT:,} characters"
            raise limit(message, "print less, or hand over a file")
        pieces.append(piece)
    return "".join(pieces)


def _line(template: jinja2.Template, trace: TracebackType | None) -> int:
    """The template's line in which the innermost of its frames stood."""
    line = 1
    while trace is not None:
        if trace.tb_frame.f_globals is template.root_render_func.__globals__:
            line = template.get_corresponding_lineno(trace.tb_lineno)
        trace = trace.tb_next
    return line


def _error_of(error: Exception, text: str, line: int) -> TemplateError:
    match error:
        case TemplateError():
            told = error
        case UndefinedError():
            message = error.message or "a value is missing"
            remedy = "test it with `is defined`, or use `| default(…)`"
            told = TemplateError("missing-value", message, help=remedy)
        case RecursionError() | MemoryError():
            told = limit("the data is nested too deep, or is too large", "print less")
        case _:
            message = f"the template does not fit its data: {error}"
            remedy = "check what the names in this line stand for"
            told = TemplateError("template-data", message, help=remedy)
    return told.at(text, line)


def parts_of(tree: nodes.Template) -> tuple[str | Hole, ...] | None:
    """The texts and holes of a template in order; None where it has anything else."""
    parts: list[str | Hole] = []
    for node in tree.body:
        if not isinstance(node, nodes.Output):
            return None
        for part in node.nodes:
            if isinstance(part, nodes.TemplateData):
                parts.append(part.data)
            elif steps := steps_of(part):
                parts.append(Hole(steps, part.lineno))
            else:
                return None
    return tuple(parts)


_NUMBERS = ("abs", "count", "float", "int", "length", "round", "sum", "wordcount")
_NO_TEXT = (nodes.Compare, nodes.Test, nodes.Not, nodes.Neg, nodes.Sub, nodes.Div)


@lru_cache(maxsize=512)
def printed_by(text: str) -> tuple[Path, ...]:
    """The paths whose values a template may print, and not those that it only asks for.

    A text that is no template prints nothing.
    """
    if (template := parse_if_valid(text)) is None:
        return ()
    found: list[Path] = []
    waiting: list[tuple[nodes.Node, Mapping[str, Path]]] = [(template.tree, {})]
    for node, items in waiting:
        if (path := _data_path(node, items)) is not None:
            found += [path] if {*path[:1]} & template.names else []
        elif isinstance(node, nodes.For):
            # Of a key and its value, the value.
            target = node.target.items[-1] if isinstance(node.target, nodes.Tuple) else node.target
            path = _list_path(node.iter, items)
            inner = dict(items)
            if path and isinstance(target, nodes.Name):
                inner |= dict.fromkeys((target.name, "loop"), (*path, ITEMS))
            else:
                waiting.append((node.iter, items))
            waiting += ((part, inner) for part in (*node.body, *node.else_))
        elif isinstance(node, nodes.Filter) and node.name == "map" and node.kwargs:
            path = _list_path(node.node, items)
            named = getattr(node.kwargs[0].value, "value", "")
            if path:
                found.append((*path, ITEMS, *str(named).split(".")))
            else:
                waiting += ((part, items) for part in node.iter_child_nodes())
        elif isinstance(node, nodes.Filter) and node.name in _NUMBERS:
            # What is no number becomes the default, which is an argument.
            waiting += ((part, items) for part in (*node.args, *node.kwargs))
        elif not isinstance(node, _NO_TEXT):
            waiting += ((part, items) for part in node.iter_child_nodes(exclude=("test",)))
    return tuple(found)


def _list_path(node: nodes.Node | None, items: Mapping[str, Path]) -> Path | None:
    """The path of the list or mapping whose items an expression has, if it is one."""
    while isinstance(node, nodes.Filter) and node.name in (*SAME_LIST, "dictsort", "items"):
        node = node.node
    return None if node is None else _data_path(node, items)


def _data_path(node: nodes.Node, items: Mapping[str, Path]) -> Path | None:
    """The path of a value in the data, if it is one; `items` are those of the loops around it."""
    path = tuple(ITEMS if isinstance(step, int) else step for step in steps_of(node))
    if path[:1] == ("loop",) and "loop" in items:
        return (*items["loop"], *path[2:]) if path[1:2] in (("previtem",), ("nextitem",)) else ()
    return (*items.get(path[0], path[:1]), *path[1:]) if path else None


def prints_value(text: str, name: str, silent: Set[str]) -> bool:
    """Whether a template may print the value of a name, and not only `silent` fields of it."""
    return any(path[0] == name and silent.isdisjoint(path[1:]) for path in printed_by(text))
